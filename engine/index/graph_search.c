/* Searching the kind "graph": the walk, and what turns it into rows.
 *
 * The walk is SymphonyQG's (2411.12229, section 3.3): the nearest unexpanded entry of a
 * beam of ef estimates is visited, that is, its own int8 code gives its distance, and 32
 * neighbours' estimates come out of registers at once; those below the beam's worst go
 * in. A node may be in the beam several times, by several parents' estimates: marking it
 * at the first one loses recall (measured: 0.949 with 35 hops against 0.954 with 29). A
 * build wants many candidates instead, and has each node once: in dense places a beam of
 * 200 held twenty nodes ten times over, and one row in three could not fill its lanes.
 * What was visited is the result; the best of it are scored again from stored rows.
 *
 * A query is memory, not arithmetic: one row of some 2 kB a hop. So the row that is
 * likely next is fetched ahead while this one is worked on.
 *
 * With a filter (NaviX, 2506.23397; ACORN, 2403.04871) the walk goes over all nodes and
 * keeps permitted ones; the more is forbidden around, the fewer forbidden ones go into
 * the beam. A walk that takes longer than a scan would is given up for the scan. */
#include "graph.h"
#include "graph_beam.h"
#include "../base/ln.h"

#include <math.h>

/* A hop costs as much as scanning some seven rows, and a filter that permits one row in m
 * makes about m/2 hops of one: below 3.5·ef·m permitted rows the scan is the faster. */
#define SCAN_ROWS_PER_HOP 3.5

/* Six sigmas of an int8 code's distance, of |q|² + distance (rabitq.h). */
#define CODE_ERROR 0.004f

enum {
    SPARE_MIN = 6,
    CHECK_HOPS = 256, /* between two looks at the deadline: about half a millisecond */
    RANK_MIN = 10,   /* the nearest alone says too little of where to stop */
    ENTERED_MAX = 8 /* of the entry row, the nearest */
};

/* All of a row, or what its own distance takes. */
static inline void prefetch_row(const bw_graph *g, uint32_t node, bool whole)
{
    const uint8_t *row = bw_graph_row(g, node);
    const size_t end = whole ? g->row.stride : g->row.dim;
    for (size_t at = 0; at < end; at += 64)
        __builtin_prefetch(row + at, 0, 3);
    if (!whole)
        __builtin_prefetch(row + g->row.factors, 0, 3);
}

/* ---- permitted nodes ---- */

static bool node_allowed(const bw_graph *g, const bw_bitmap *allowed, uint32_t node)
{
    if (!g->first)
        return bw_bitmap_get(allowed, node);
    for (uint32_t i = g->first[node]; i < g->first[node + 1]; i++)
        if (bw_bitmap_get(allowed, g->members[i]))
            return true;
    return false;
}

static uint32_t lanes_allowed(const bw_graph *g, const bw_bitmap *allowed,
                              const uint32_t *ids, uint32_t lanes)
{
    uint32_t out = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        out |= (uint32_t)node_allowed(g, allowed, ids[lane]) << lane;
    }
    return out;
}

/* ---- the walk ---- */

typedef struct walker {
    const bw_graph *g;
    bw_graph_scratch *s;
    bw_graph_walk *w;
    const bw_fastscan *k;
    bw_graph_beam beam;
    float kept; /* distance of the rank-th best, or +inf */
} walker;

static inline bool visited(const bw_graph_scratch *s, uint32_t node)
{
    return s->visited[node / 64] >> (node % 64) & 1;
}

/* On to the first entry that was not visited by another's estimate. */
static inline void beam_on(walker *t)
{
    bw_graph_beam *b = &t->beam;
    if (t->w->once)
        return;
    for (uint64_t key; (key = bw_graph_beam_next(b)) != BW_GRAPH_KEY_NONE && b->left > 0 &&
                       visited(t->s, bw_graph_key_node(key));)
        bw_graph_beam_take(b);
}

static inline size_t keys_of(const walker *t, const uint32_t *ids, uint32_t lanes,
                             uint64_t keys[BW_FASTSCAN_LANES])
{
    size_t n = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m), node = ids[lane];
        keys[n] = bw_graph_key(t->s->estimates[lane], node);
        n += !visited(t->s, node);
    }
    return n;
}

/* Offers; of a walk that takes a node once, what was offered counts as visited. */
static inline void offer(walker *t, uint64_t *keys, size_t n)
{
    for (size_t i = 0; t->w->once && i < n; i++) {
        const uint32_t node = bw_graph_key_node(keys[i]);
        t->s->visited[node / 64] |= (uint64_t)1 << (node % 64);
    }
    bw_graph_beam_offer(&t->beam, keys, n);
}

/* Of the forbidden lanes only the nearest few, the fewer the more of the lanes are
 * permitted (with none of them recall falls, even where one row in ten is forbidden);
 * and hardly any from a node that is forbidden itself: such steps in the dark are
 * one long. */
static uint32_t lanes_filter(const walker *t, const uint32_t *ids, uint32_t lanes,
                             bool here)
{
    const uint32_t yes = lanes_allowed(t->g, t->w->allowed, ids, lanes);
    uint32_t no = lanes & ~yes, keep = yes;
    const int share = __builtin_popcount(lanes) > 0
                          ? 100 * __builtin_popcount(yes) / __builtin_popcount(lanes)
                          : 100;
    int most = share >= 40 ? 1 : share >= 8 ? 4 : 8;
    if (!here && share > 0)
        most = most > 4 ? 4 : most / 2;
    for (; most > 0 && no; most--) {
        uint32_t best = (uint32_t)__builtin_ctz(no);
        for (uint32_t m = no & (no - 1); m; m &= m - 1) {
            const uint32_t lane = (uint32_t)__builtin_ctz(m);
            if (t->s->estimates[lane] < t->s->estimates[best])
                best = lane;
        }
        keep |= 1u << best;
        no &= ~(1u << best);
    }
    return keep;
}

static void keep_best(walker *t, float d, uint32_t node)
{
    bw_graph_walk *w = t->w;
    const bw_graph_link v = {d, node};
    bw_graph_link *best = t->s->best;
    if (w->nbest == w->want) {
        if (w->want == 0 || !bw_graph_nearer(v, best[w->nbest - 1]))
            return;
        w->nbest--;
    }
    size_t j = w->nbest++;
    for (; j > 0 && bw_graph_nearer(v, best[j - 1]); j--)
        best[j] = best[j - 1];
    best[j] = v;
    if (w->nbest >= w->rank)
        t->kept = best[w->rank - 1].d;
}

/* The distance beyond which nothing is visited any more; it only falls. */
static inline float limit_of(const walker *t)
{
    const bw_graph_walk *w = t->w;
    if (w->nseen < w->rank)
        return INFINITY;
    return (t->kept < w->bound ? t->kept : w->bound) * (1 + w->slack);
}

/* The same for what enters the beam. Before there are rank visited ones, twice as many
 * estimates (a node may be among them several times) say where the end will be about;
 * without that the first hops flood the beam with what is never looked at. */
static inline float lanes_limit(const walker *t)
{
    const bw_graph_walk *w = t->w;
    if (w->nseen >= w->rank || !(w->slack < INFINITY))
        return limit_of(t);
    const size_t taken = w->ef - t->beam.left, rank = 2 * w->rank;
    const uint64_t key = bw_graph_beam_rank(&t->beam, rank > taken ? rank - taken : 1);
    return key == BW_GRAPH_KEY_NONE ? INFINITY
                                    : bw_graph_key_distance(key) * (1 + w->slack);
}

static inline void visit(walker *t, uint32_t node)
{
    const bw_graph *g = t->g;
    bw_graph_scratch *s = t->s;
    const uint8_t *row = bw_graph_row(g, node);
    const uint32_t *ids = bw_rabitq_row_ids(&g->row, row);
    const float d = bw_rabitq_distance(t->k, &g->row, &s->query, row);
    s->visited[node / 64] |= (uint64_t)1 << (node % 64);
    s->seen[t->w->nseen++] = (bw_graph_link){d, node};
    const bool here = !t->w->allowed || node_allowed(g, t->w->allowed, node);
    if (here)
        keep_best(t, d, node);
    if (d > t->kept * (1 + t->w->narrow))
        return;
    const float limit = lanes_limit(t);
    for (uint32_t block = 0; block < g->row.R / BW_FASTSCAN_LANES; block++) {
        const float worst = t->beam.worst < limit ? t->beam.worst : limit;
        uint32_t lanes = bw_rabitq_estimate(t->k, &g->row, &s->query, row, block, d,
                                            worst, s->estimates);
        const uint32_t *at = ids + block * BW_FASTSCAN_LANES;
        if (t->w->allowed)
            lanes = lanes_filter(t, at, lanes, here);
        uint64_t keys[BW_FASTSCAN_LANES] __attribute__((uninitialized));
        offer(t, keys, keys_of(t, at, lanes, keys));
    }
}

static void enter(walker *t)
{
    const bw_rabitq_layout *l = &t->g->wide;
    const uint32_t *ids = bw_rabitq_row_ids(l, t->g->entry);
    const float d = bw_rabitq_distance(t->k, l, &t->s->query, t->g->entry);
    const size_t most = ENTERED_MAX < t->w->ef ? ENTERED_MAX : t->w->ef;
    uint64_t best[ENTERED_MAX + BW_FASTSCAN_LANES];
    size_t n = 0;
    float worst = INFINITY;
    for (uint32_t block = 0; block < l->R / BW_FASTSCAN_LANES; block++) {
        const uint32_t lanes = bw_rabitq_estimate(t->k, l, &t->s->query, t->g->entry,
                                                  block, d, worst, t->s->estimates);
        n += keys_of(t, ids + block * BW_FASTSCAN_LANES, lanes, best + n);
        if (n < most)
            continue;
        bw_graph_keys_sort(best, n);
        n = most;
        worst = bw_graph_key_distance(best[n - 1]);
    }
    offer(t, best, n);
}

/* Fetches what comes next unless it is `done`; says what it was. */
static inline uint32_t fetch_next(const walker *t, uint32_t done)
{
    const uint64_t key = bw_graph_beam_next(&t->beam);
    if (key == BW_GRAPH_KEY_NONE)
        return done;
    if (bw_graph_key_node(key) != done)
        prefetch_row(t->g, bw_graph_key_node(key),
                     bw_graph_key_distance(key) <= t->kept * (1 + t->w->narrow));
    const uint64_t second = bw_graph_beam_second(&t->beam);
    if (second != BW_GRAPH_KEY_NONE)
        prefetch_row(t->g, bw_graph_key_node(second), false);
    return bw_graph_key_node(key);
}

/* Near the end, when what comes next is no better than the k-th: the stored rows of the
 * best will be read soon, and the walk alone leaves memory idle. One a step. */
static inline void fetch_stored(const walker *t, size_t *fetched)
{
    const bw_graph_walk *w = t->w;
    if (*fetched >= w->nbest || *fetched >= w->rank)
        return;
    const uint32_t node = t->s->best[(*fetched)++].id;
    const char *row = w->stored + (t->g->first ? t->g->members[t->g->first[node]] : node) *
                                      w->stored_bytes;
    for (size_t at = 0; at < w->stored_bytes; at += 64)
        __builtin_prefetch(row + at, 0, 3);
}

void bw_graph__walk(const bw_graph *g, bw_graph_scratch *s, bw_graph_walk *w)
{
    size_t fetched = 0;
    walker t __attribute__((uninitialized));
    t.g = g;
    t.s = s;
    t.w = w;
    t.k = bw_fastscan_get();
    t.kept = INFINITY;
    bw_graph_beam *b = &t.beam;
    bw_graph_beam_init(b, s->beam, w->ef);
    assert(w->ef > 0 && w->ef <= s->ef_cap && w->want <= w->ef && g->nodes > 0);
    assert(w->rank > 0 && w->rank <= w->want);
    w->nseen = w->nbest = 0;
    w->spent = w->late = false;
    enter(&t);
    if (bw_graph_beam_next(b) != BW_GRAPH_KEY_NONE)
        prefetch_row(g, bw_graph_key_node(bw_graph_beam_next(b)), true);
    for (uint64_t key;
         (key = bw_graph_beam_next(b)) != BW_GRAPH_KEY_NONE && b->left > 0;) {
        if (bw_graph_key_distance(key) > limit_of(&t))
            break;
        if (w->nseen == s->seen_cap || (w->hops_max && w->nseen == w->hops_max)) {
            w->spent = true;
            break;
        }
        if (w->ctx && w->nseen % CHECK_HOPS == CHECK_HOPS - 1 &&
            (w->late = bw_ctx_check(w->ctx) != BW_OK))
            break;
        bw_graph_beam_take(b);
        beam_on(&t);
        const uint32_t guess = fetch_next(&t, UINT32_MAX);
        if (w->stored && bw_graph_key_distance(key) > t.kept)
            fetch_stored(&t, &fetched);
        visit(&t, bw_graph_key_node(key));
        beam_on(&t);
        fetch_next(&t, guess);
    }
    if (w->once)
        memset(s->visited, 0, bw_bitmap_words(g->nodes) * sizeof *s->visited);
    for (size_t i = 0; i < w->nseen; i++)
        s->visited[s->seen[i].id / 64] = 0;
}

/* ---- rows ---- */

/* The query as the graph's space has it. */
void bw_graph__query(const bw_graph *g, bw_graph_scratch *s, const float *query)
{
    const float *q = query;
    if (g->params.metric == BW_METRIC_DOT) { /* all rows have one length: so has it */
        double sum = 0;
        for (uint32_t i = 0; i < g->params.dim; i++)
            sum += (double)query[i] * (double)query[i];
        const double f = sum > 0 ? (double)g->length / sqrt(sum) : 0;
        for (uint32_t i = 0; i < g->params.dim; i++)
            s->plain[i] = (float)((double)query[i] * f);
        q = s->plain;
    }
    bw_rotate_apply(g->rotate, q, g->mean, g->scale, s->rotated);
    bw_rabitq_query_set(&s->query, bw_fastscan_get(), g->row.form, s->rotated);
}

/* The distance that a key stands for, a little more: what is beyond cannot enter `out`. */
static float bound_of(const bw_graph *g, const bw_index_search *s, const bw_topk *out)
{
    (void)s;
    if (out->n < out->k || out->k == 0)
        return INFINITY;
    const float key = out->items[0].key;
    if (g->params.metric == BW_METRIC_EUCLID)
        return key * key * g->scale * g->scale;
    if (g->params.metric == BW_METRIC_COSINE)
        return (2 - 2 * key) * g->scale * g->scale;
    return INFINITY;
}

static size_t rows_of(const bw_graph *g, const bw_index_search *s,
                      const bw_graph_link *best, size_t nbest, uint32_t *rows,
                      size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < nbest && n < cap; i++) {
        const uint32_t node = best[i].id;
        const uint32_t from = g->first ? g->first[node] : 0;
        const uint32_t to = g->first ? g->first[node + 1] : 1;
        for (uint32_t j = from; j < to && n < cap; j++) {
            const uint32_t row = g->first ? g->members[j] : node;
            if (bw_bitmap_get(s->allowed, row))
                rows[n++] = row;
        }
    }
    return n;
}

/* Rows in another precision, or on file. */
static bw_status rescore_stored(bw_ctx *ctx, const bw_graph *g,
                                const bw_index_search *s, const uint32_t *rows,
                                size_t n, bw_topk *out)
{
    float *keys = bw_arena_alloc(ctx, n * sizeof *keys);
    bw_status st = keys ? bw_rows_keys(ctx, s->rows, g->params.metric, s->query, rows,
                                       n, keys)
                        : BW_ENOMEM;
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        bw_require(bw_bitmap_get(s->allowed, rows[i]));
        const bw_candidate c = {keys[i], s->part, s->row0 + rows[i], s->ids[rows[i]]};
        if (bw_topk_wants(out, c.key))
            bw_topk_push(out, &c);
    }
    return st;
}

static bw_status rescore(bw_ctx *ctx, const bw_graph *g, const bw_index_search *s,
                         const uint32_t *rows, size_t n, bw_topk *out)
{
    const float *data = bw_index__f32(s->rows);
    if (s->rescored)
        *s->rescored += n;
    if (!data)
        return rescore_stored(ctx, g, s, rows, n, out);
    const uint32_t dim = g->params.dim;
    for (size_t i = 0; i < n; i++) {
        const char *row = (const char *)(data + (size_t)rows[i] * dim);
        for (size_t at = 0; at < dim * sizeof *data; at += 64)
            __builtin_prefetch(row + at, 0, 3);
    }
    for (size_t i = 0; i < n; i++) {
        bw_require(bw_bitmap_get(s->allowed, rows[i]));
        const float key = bw_metric_key(bw_kernels_get(), g->params.metric, s->query,
                                        data + (size_t)rows[i] * dim, dim);
        const bw_candidate c = {key, s->part, s->row0 + rows[i], s->ids[rows[i]]};
        if (bw_topk_wants(out, key))
            bw_topk_push(out, &c);
    }
    return BW_OK;
}

/* More than a walk that ends by distance takes: a bound on the hardest questions. Wide
 * enough for the limit too, without a jump. */
static size_t beam_of(size_t effort, size_t k)
{
    k = k > RANK_MIN ? k : RANK_MIN;
    return 3 * effort + 2 * k + 2 * (k - RANK_MIN);
}

/* What an effort means. A beam alone makes every query walk equally far. Walking on until
 * the next is a certain share beyond the k-th (or somewhat later) best, and expanding only
 * what is nearer than another share, asks less of easy queries and more of hard ones for
 * the same recall (compare 2505.15636). Shares are of squared distances, measured on real
 * and on grown questions together; where the two disagree the grown ones have their way.
 * Between the knots by logarithm. */
static void knobs_set(bw_graph_walk *w, size_t effort, size_t k)
{
    static const struct {
        float effort, rank, slack, narrow;
    } knots[] = {{4, 1, -0.04f, 0.08f},    {8, 1, -0.01f, 0.08f},  {16, 1, 0.01f, 0.08f},
                 {24, 1, 0.02f, 0.1f},     {32, 1, 0.03f, 0.12f},  {48, 1, 0.045f, 0.15f},
                 {64, 1, 0.055f, 0.18f},   {96, 1, 0.075f, 0.2f},  {128, 1, 0.09f, 0.2f},
                 {256, 1.3f, 0.12f, 0.25f}, {512, 1.6f, 0.15f, 0.3f},
                 {BW_GRAPH_EF_MAX, 1.6f, 0.3f, 0.5f}};
    enum { KNOTS = sizeof knots / sizeof *knots };
    const float e = (float)effort;
    size_t i = 1;
    while (i + 1 < KNOTS && e > knots[i].effort)
        i++;
    const double low = (double)knots[i - 1].effort;
    float at = (float)(bw_ln((double)e / low) / bw_ln((double)knots[i].effort / low));
    at = at < 0 ? 0 : at > 1 ? 1 : at;
    const float rank =
        knots[i - 1].rank + at * (knots[i].rank - knots[i - 1].rank);
    w->slack = knots[i - 1].slack + at * (knots[i].slack - knots[i - 1].slack);
    w->narrow = knots[i - 1].narrow + at * (knots[i].narrow - knots[i - 1].narrow);
    w->rank = (size_t)(rank * (float)(k > RANK_MIN ? k : RANK_MIN));
    w->want = w->want > w->rank ? w->want : w->rank;
    w->ef = beam_of(effort, k);
}

static bw_status walk_and_score(bw_ctx *ctx, const bw_graph *g, bw_graph_scratch *scratch,
                                const bw_index_search *s, size_t allowed, size_t ef,
                                bool *done, bw_topk *out)
{
    const size_t k = s->k < allowed ? s->k : allowed;
    const size_t spare = k / 4 > SPARE_MIN ? k / 4 : SPARE_MIN;
    const bool all = allowed == g->n;
    bw_graph_walk w = {.want = k + spare,
                       .bound = bound_of(g, s, out),
                       .ctx = ctx,
                       .allowed = all ? NULL : s->allowed};
    knobs_set(&w, ef, k);
    w.stored = s->rows->data;
    w.stored_bytes = g->params.dim * bw_dtype_size(s->rows->dtype);
    if (!all) /* about as long as a scan of what is permitted would take */
        w.hops_max = 64 + 2 * ef + allowed / 16;
    bw_graph__query(g, scratch, s->query);
    bw_graph__walk(g, scratch, &w);
    size_t hops = w.nseen;
    /* A beam full of few nodes, several times each, ends early: once more with more. */
    const size_t most = bw_graph__beam_most(w.ef);
    while (w.nbest < k && !w.spent && !w.late && 2 * w.ef <= most) {
        w.ef *= 2;
        w.slack = w.narrow = INFINITY;
        bw_graph__walk(g, scratch, &w);
        hops += w.nseen;
    }
    if (s->hops)
        *s->hops += hops;
    if (w.late)
        return BW_ETIMEOUT;
    const size_t cap = k + spare;
    /* What is beyond the k-th by more than the codes' error is not worth its row. */
    while (w.nbest > k && scratch->best[w.nbest - 1].d >
                              scratch->best[k - 1].d + CODE_ERROR * (scratch->query.add +
                                                                     scratch->best[k - 1].d))
        w.nbest--;
    uint32_t *rows = bw_arena_alloc(ctx, cap * sizeof *rows);
    if (!rows)
        return BW_ENOMEM;
    const size_t n = rows_of(g, s, scratch->best, w.nbest, rows, cap);
    *done = (n >= k || w.bound < INFINITY) && !w.spent;
    return *done ? rescore(ctx, g, s, rows, n, out) : BW_OK;
}

/* Mostly all are, and that is soon seen. */
static size_t allowed_count(const bw_bitmap *b)
{
    const size_t full = b->nbits / 64;
    uint64_t all = ~(uint64_t)0;
    for (size_t i = 0; i < full; i++)
        all &= b->words[i];
    if (b->nbits % 64)
        all &= b->words[full] | ~(uint64_t)0 << (b->nbits % 64);
    return all == ~(uint64_t)0 ? b->nbits : bw_bitmap_count(b);
}

bw_status bw_graph__search(bw_ctx *ctx, const bw_index *ix, const bw_index_search *s,
                           bw_topk *out)
{
    bw_graph *g = (bw_graph *)(uintptr_t)ix; /* for its slots alone */
    assert(s->allowed != NULL && s->allowed->nbits <= g->n);
    const size_t allowed = allowed_count(s->allowed);
    if (allowed == 0 || s->k == 0)
        return BW_OK;
    size_t ef = s->effort;
    if (ef == 0)
        ef = bw_graph__effort_of(ix, s->recall > 0 ? s->recall : 0.95f, s->k);
    ef = ef > BW_GRAPH_EF_MAX ? BW_GRAPH_EF_MAX : ef;
    const double forbid = (double)g->n / (double)allowed; /* >= 1 */
    if (g->nodes == 0 || ef == 0 || s->k > BW_GRAPH_EF_MAX ||
        (double)allowed < SCAN_ROWS_PER_HOP * (double)(ef + s->k) * forbid)
        return bw_index__scan(ctx, g->params.metric, g->n, g->params.dim, s, out);
    const double wide = (double)ef * sqrt(forbid * sqrt(sqrt(forbid)));
    ef = wide < BW_GRAPH_EF_MAX ? (size_t)wide : BW_GRAPH_EF_MAX;
    bw_graph_scratch *scratch = bw_graph__scratch_take(g, beam_of(ef, s->k));
    if (!scratch)
        return bw_fail_nomem(ctx);
    bool done = false;
    const bw_arena_mark mark = bw_arena_mark_get(ctx);
    const bw_status st = walk_and_score(ctx, g, scratch, s, allowed, ef, &done, out);
    bw_arena_release(ctx, mark);
    bw_graph__scratch_give(g, scratch);
    if (st != BW_OK || done)
        return st;
    return bw_index__scan(ctx, g->params.metric, g->n, g->params.dim, s, out);
}
