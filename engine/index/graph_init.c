/* The links that the first round of a build walks on: near neighbours, from a cover of
 * the nodes by small groups ("leaves") in which all pairs are measured.
 *
 * After PiPNN (2602.21247): leaders are drawn, each node goes to the few nearest, groups
 * that are still large are cut again. We keep each node's nearest of each leaf instead of
 * a hashed reservoir: the rounds that follow look for what is missing, and far links are
 * the entry row's work. Draws are by hash of seed and place, and every choice is by
 * (distance, node), so the result does not depend on threads. */
#include "graph.h"

enum {
    LEAF_MAX = 512,
    LEADERS_MAX = 512, /* of one cut */
    FANOUT_TOP = 4,    /* leaves of a node; below the top each goes to one */
    NEAREST = 16,      /* kept of each leaf */
    PIECE = 64,
    DEPTH_MAX = 24
};

/* A growing list of members; leaves are ranges of it. */
typedef struct cover {
    uint32_t *members;
    size_t n, cap;
    size_t *ends; /* of leaves */
    size_t nleaves, leaves_cap;
} cover;

typedef struct init {
    const bw_graph_points *p;
    const bw_index_params *params;
    cover cover;
    uint32_t *near;    /* members × NEAREST nodes, UINT32_MAX = none */
    size_t *at;        /* node → its places in the cover, CSR; n + 1 */
    uint32_t *places;
    bw_graph_pruner *rooms;   /* a thread */
    bw_graph_link *lists;
    uint32_t *counts;
    bool failed;
} init;

static uint64_t mix(uint64_t z)
{
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static bool grow(void **p, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap)
        return true;
    size_t more = *cap ? *cap : 1024, bytes;
    while (more < need)
        more *= 2;
    if (__builtin_mul_overflow(more, size, &bytes))
        return false;
    void *grown = bw_realloc(*p, bytes);
    if (!grown)
        return false;
    *p = grown;
    *cap = more;
    return true;
}

static bool leaf_add(cover *c, const uint32_t *members, size_t n)
{
    void *m = c->members, *e = c->ends;
    bool ok = grow(&m, &c->cap, c->n + n, sizeof *c->members);
    c->members = m;
    ok = ok && grow(&e, &c->leaves_cap, c->nleaves + 1, sizeof *c->ends);
    c->ends = e;
    if (!ok)
        return false;
    memcpy(c->members + c->n, members, n * sizeof *members);
    c->n += n;
    c->ends[c->nleaves++] = c->n;
    return true;
}

/* ---- one cut ---- */

typedef struct cut {
    const bw_graph_points *p;
    const uint32_t *members;
    size_t n;
    uint32_t leaders[LEADERS_MAX], nleaders, fanout;
    uint16_t *to; /* n × fanout: the leader's number */
    int16_t *wide; /* nleaders × dim */
} cut;

static void cut_assign(void *arg, uint32_t thread, size_t from, size_t to)
{
    (void)thread;
    const cut *c = arg;
    const bw_graph_points *p = c->p;
    for (size_t i = from; i < to; i++) {
        const uint32_t node = c->members[i];
        const int8_t *code = p->codes + (size_t)node * p->dim;
        bw_graph_link best[FANOUT_TOP];
        uint32_t n = 0;
        for (uint32_t l = 0; l < c->nleaders; l++) {
            const int32_t ip = p->k->dot_i8(code, c->wide + (size_t)l * p->dim, p->dim);
            const bw_graph_link v = {
                bw_graph__distance(&p->own[node], &p->own[c->leaders[l]], ip), l};
            if (n == c->fanout && !bw_graph_nearer(v, best[n - 1]))
                continue;
            uint32_t j = n < c->fanout ? n++ : n - 1;
            for (; j > 0 && bw_graph_nearer(v, best[j - 1]); j--)
                best[j] = best[j - 1];
            best[j] = v;
        }
        for (uint32_t f = 0; f < c->fanout; f++)
            c->to[i * c->fanout + f] = (uint16_t)best[f < n ? f : 0].id;
    }
}

static void leaders_draw(cut *c, uint64_t seed, size_t leaf)
{
    const size_t want = c->n * c->fanout / leaf + 2;
    c->nleaders = (uint32_t)(want < LEADERS_MAX ? want : LEADERS_MAX);
    for (uint32_t l = 0; l < c->nleaders; l++) { /* one of each stretch of members */
        const size_t lo = c->n * l / c->nleaders, hi = c->n * (l + 1) / c->nleaders;
        c->leaders[l] = c->members[lo + mix(seed + l) % (hi - lo)];
    }
    for (uint32_t l = 0; l < c->nleaders; l++)
        for (uint32_t d = 0; d < c->p->dim; d++)
            c->wide[(size_t)l * c->p->dim + d] =
                c->p->codes[(size_t)c->leaders[l] * c->p->dim + d];
}

/* Cuts the members and hands each group on. Members' order is kept, so groups have an
 * order of their own whatever the threads did. */
static bool cut_up(init *in, const uint32_t *members, size_t n, int depth, uint64_t seed)
{
    if (n <= LEAF_MAX)
        return n < 2 || leaf_add(&in->cover, members, n);
    if (depth == DEPTH_MAX) { /* nothing parts them: by order */
        for (size_t at = 0; at < n; at += LEAF_MAX)
            if (!leaf_add(&in->cover, members + at, n - at < LEAF_MAX ? n - at : LEAF_MAX))
                return false;
        return true;
    }
    const bw_graph_points *p = in->p;
    cut *c = bw_calloc(1, sizeof *c);
    uint32_t *group = bw_alloc(n * sizeof *group);
    bool ok = c && group;
    if (ok) {
        *c = (cut){.p = p, .members = members, .n = n,
                   .fanout = depth == 0 ? FANOUT_TOP : 1};
        c->to = bw_alloc(n * c->fanout * sizeof *c->to);
        c->wide = bw_alloc_vectors((size_t)LEADERS_MAX * p->dim * sizeof *c->wide);
        ok = c->to && c->wide;
    }
    if (ok) {
        leaders_draw(c, seed, LEAF_MAX / 2);
        ok = bw_graph__parallel(in->params->threads, in->params->stop, n, 256, cut_assign,
                                c);
    }
    if (c)
        bw_free_vectors(c->wide);
    for (uint32_t l = 0; ok && l < c->nleaders; l++) {
        size_t m = 0;
        for (size_t i = 0; i < n; i++)
            for (uint32_t f = 0; f < c->fanout; f++)
                if (c->to[i * c->fanout + f] == l) {
                    group[m++] = members[i];
                    break;
                }
        ok = cut_up(in, group, m, m * 10 > n * 9 ? DEPTH_MAX : depth + 1,
                    mix(seed ^ mix(l + 1)));
    }
    if (c)
        bw_free(c->to);
    bw_free(c);
    bw_free(group);
    return ok;
}

/* ---- all pairs of a leaf ---- */

static void near_put(bw_graph_link *best, bw_graph_link v)
{
    if (!bw_graph_nearer(v, best[NEAREST - 1]))
        return;
    size_t j = NEAREST - 1;
    for (; j > 0 && bw_graph_nearer(v, best[j - 1]); j--)
        best[j] = best[j - 1];
    best[j] = v;
}

static void leaf_pairs(void *arg, uint32_t thread, size_t from, size_t to)
{
    init *in = arg;
    const bw_graph_points *p = in->p;
    bw_graph_link best[LEAF_MAX][NEAREST];
    int16_t *wide = in->rooms[thread].wide;
    for (size_t leaf = from; leaf < to; leaf++) {
        const size_t first = leaf ? in->cover.ends[leaf - 1] : 0;
        const size_t m = in->cover.ends[leaf] - first;
        const uint32_t *ids = in->cover.members + first;
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < NEAREST; j++)
                best[i][j] = (bw_graph_link){INFINITY, UINT32_MAX};
        for (size_t i = 0; i < m; i++) {
            const int8_t *code = p->codes + (size_t)ids[i] * p->dim;
            for (uint32_t d = 0; d < p->dim; d++)
                wide[d] = code[d];
            for (size_t j = 0; j < i; j++) {
                const int32_t ip =
                    p->k->dot_i8(p->codes + (size_t)ids[j] * p->dim, wide, p->dim);
                const float d = bw_graph__distance(&p->own[ids[i]], &p->own[ids[j]], ip);
                near_put(best[i], (bw_graph_link){d, ids[j]});
                near_put(best[j], (bw_graph_link){d, ids[i]});
            }
        }
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < NEAREST; j++)
                in->near[(first + i) * NEAREST + j] = best[i][j].id;
    }
}

static void choose(void *arg, uint32_t thread, size_t from, size_t to)
{
    init *in = arg;
    bw_graph_pruner *room = &in->rooms[thread];
    const size_t R = in->params->M;
    for (size_t i = from; i < to; i++) {
        size_t n = 0;
        for (size_t a = in->at[i]; a < in->at[i + 1]; a++)
            for (size_t j = 0; j < NEAREST; j++) {
                const uint32_t id = in->near[(size_t)in->places[a] * NEAREST + j];
                if (id != UINT32_MAX)
                    room->pool[n++].id = id;
            }
        bw_graph__measure(in->p, room, (uint32_t)i, n);
        in->counts[i] = (uint32_t)bw_graph__prune(in->p, room, (uint32_t)i, n, R, false,
                                                  in->lists + i * R);
    }
}

static bool places_make(init *in)
{
    const size_t n = in->p->n;
    in->at = bw_calloc(n + 2, sizeof *in->at);
    in->places = bw_alloc(in->cover.n * sizeof *in->places);
    in->near = bw_alloc(in->cover.n * NEAREST * sizeof *in->near);
    if (!in->at || !in->places || !in->near || in->cover.n > UINT32_MAX)
        return false;
    size_t *at = in->at + 1; /* at[i + 1] moves to the end of i while it is filled */
    for (size_t m = 0; m < in->cover.n; m++)
        at[in->cover.members[m] + 1]++;
    for (size_t i = 1; i <= n; i++)
        at[i] += at[i - 1];
    for (size_t m = 0; m < in->cover.n; m++)
        in->places[at[in->cover.members[m]]++] = (uint32_t)m;
    return true;
}

bw_status bw_graph__init(bw_ctx *ctx, const bw_graph_points *p,
                         const bw_index_params *params, bw_graph_link *lists,
                         uint32_t *counts)
{
    init in = {.p = p, .params = params, .lists = lists, .counts = counts};
    uint32_t *all = bw_alloc((size_t)p->n * sizeof *all);
    in.rooms = bw_calloc(params->threads, sizeof *in.rooms);
    bool ok = all && in.rooms;
    for (uint32_t t = 0; ok && t < params->threads; t++)
        ok = bw_graph__pruner_init(&in.rooms[t], p->dim,
                                   (size_t)FANOUT_TOP * NEAREST * 2);
    for (uint32_t i = 0; ok && i < p->n; i++)
        all[i] = i;
    ok = ok && cut_up(&in, all, p->n, 0, mix(params->seed)) && places_make(&in) &&
         bw_graph__parallel(params->threads, params->stop, in.cover.nleaves, 1,
                            leaf_pairs, &in) &&
         bw_graph__parallel(params->threads, params->stop, p->n, PIECE, choose, &in);
    for (uint32_t t = 0; in.rooms && t < params->threads; t++)
        bw_graph__pruner_clear(&in.rooms[t]);
    bw_free(in.rooms);
    bw_free(all);
    bw_free(in.cover.members);
    bw_free(in.cover.ends);
    bw_free(in.near);
    bw_free(in.at);
    bw_free(in.places);
    if (!ok)
        return bw_graph__gave_up(ctx, params);
    return BW_OK;
}
