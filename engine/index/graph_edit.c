/* A new graph from an old one: rows that went are repaired around, rows that came are
 * inserted, and all that neither touches is copied.
 *
 * Deletes are FreshDiskANN's (2105.09613, section 4.2): a node that lost a neighbour
 * takes the neighbours of the lost one for candidates and chooses anew. Inserts are
 * ParlayANN's (2305.04359, section 4): batches of 1, 2, 4, … up to a fiftieth of the
 * graph, each searching the graph as the batch before left it, so that the bytes do not
 * depend on threads. Differences: links are offered back to their targets after both (a
 * link that only one end knows is half as good), and all that was inserted searches once
 * more at the end, since nodes of one batch cannot have found each other. Nodes that no
 * link leads to any more are inserted again.
 *
 * There is nothing to mark and nothing to come back: what went has no number in the new
 * graph, and the old one stays as it is for its readers. Mean, scale and rotation are
 * the old one's; where they no longer suit, or much has changed, all is built anew. */
#include "graph.h"

#include <math.h>
#include <stdlib.h>

enum {
    GONE_MAX = 30,    /* per cent of nodes; more: built anew */
    NEW_MAX = 100,    /* per cent of what stays */
    BATCH_SHARE = 50, /* the largest batch: a fiftieth */
    PIECE = 16,
};
#define NONE UINT32_MAX

/* A link that wants to be known at its other end. */
typedef struct offer {
    uint32_t to, from;
} offer;

typedef struct edit {
    const bw_index_params *params;
    const bw_graph *old;
    bw_graph *g;
    bw_graph_points p;
    float *x;
    int8_t *codes;
    bw_rabitq_own *own;
    uint32_t *now;  /* old node → node, NONE = gone */
    uint32_t *was;  /* node → old node, NONE = new */
    uint32_t *lists, *counts; /* nodes × R links as they stand; how many of them */
    /* the step at work */
    const uint32_t *set; /* nodes that choose */
    bool search;         /* by searching for themselves; else by repair */
    bw_graph_link *chosen; /* set × R */
    uint32_t *nchosen;
    offer *offers;
    size_t *groups; /* where in offers a target begins; ngroups + 1 */
    uint32_t *dirty; /* nodes whose rows are to be written, rising */
    uint64_t *dirty_bits;
    bw_graph_scratch **scratches;
    bw_graph_pruner *rooms;
} edit;

static uint32_t *list_of(const edit *e, uint32_t node)
{
    return e->lists + (size_t)node * e->params->M;
}

static bool list_has(const edit *e, uint32_t node, uint32_t id)
{
    for (uint32_t j = 0; j < e->counts[node]; j++)
        if (list_of(e, node)[j] == id)
            return true;
    return false;
}

static bool in_parallel(edit *e, size_t n, void (*fn)(void *, uint32_t, size_t, size_t))
{
    return bw_graph__parallel(e->params->threads, e->params->stop, n, PIECE, fn, e);
}

/* ---- one step: some nodes choose, their links are offered back, rows are written ---- */

static size_t pool_by_search(edit *e, uint32_t node, bw_graph_scratch *s,
                             bw_graph_pruner *room)
{
    bw_graph_walk w = {.ef = e->params->ef_construction,
                       .want = 1,
                       .rank = 1,
                       .bound = INFINITY,
                       .slack = INFINITY,
                       .narrow = INFINITY,
                       .once = true};
    bw_rabitq_query_set(&s->query, e->p.k, e->g->row.form,
                        e->x + (size_t)node * e->p.dim);
    bw_graph__walk(e->g, s, &w);
    size_t n = 0;
    for (; n < w.nseen && n < room->pool_cap - e->params->M; n++)
        room->pool[n].id = s->seen[w.nseen - 1 - n].id; /* the last are the nearest */
    return n;
}

/* The neighbours of the old node's neighbours that went. */
static size_t pool_by_repair(const edit *e, uint32_t node, bw_graph_pruner *room)
{
    const bw_graph *old = e->old;
    const size_t R = e->params->M;
    const uint32_t *ids =
        bw_rabitq_row_ids(&old->row, bw_graph_row(old, e->was[node]));
    size_t n = 0;
    for (size_t j = 0; j < R; j++) {
        if (ids[j] == BW_RABITQ_NONE || e->now[ids[j]] != NONE)
            continue;
        const uint32_t *of = bw_rabitq_row_ids(&old->row, bw_graph_row(old, ids[j]));
        for (size_t i = 0; i < R && n < room->pool_cap - R; i++)
            if (of[i] != BW_RABITQ_NONE && e->now[of[i]] != NONE)
                room->pool[n++].id = e->now[of[i]];
    }
    return n;
}

static void choose(void *arg, uint32_t thread, size_t from, size_t to)
{
    edit *e = arg;
    const size_t R = e->params->M;
    bw_graph_pruner *room = &e->rooms[thread];
    for (size_t i = from; i < to; i++) {
        const uint32_t node = e->set[i];
        size_t n = e->search ? pool_by_search(e, node, e->scratches[thread], room)
                             : pool_by_repair(e, node, room);
        for (uint32_t j = 0; j < e->counts[node]; j++)
            room->pool[n++].id = list_of(e, node)[j];
        bw_graph__measure(&e->p, room, node, n);
        e->nchosen[i] = (uint32_t)bw_graph__prune(&e->p, room, node, n, R, true,
                                                  e->chosen + i * R);
    }
}

static int by_target(const void *a, const void *b)
{
    const offer *x = a, *y = b;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Takes over what the set chose; what is new of it becomes offers, grouped by target. */
static size_t take_over(edit *e, size_t m)
{
    const size_t R = e->params->M;
    size_t n = 0, groups = 0;
    for (size_t i = 0; i < m; i++) {
        const uint32_t node = e->set[i];
        for (uint32_t j = 0; j < e->nchosen[i]; j++) {
            const uint32_t to = e->chosen[i * R + j].id;
            if (!list_has(e, node, to))
                e->offers[n++] = (offer){to, node};
        }
    }
    for (size_t i = 0; i < m; i++) {
        const uint32_t node = e->set[i];
        e->counts[node] = e->nchosen[i];
        for (uint32_t j = 0; j < e->nchosen[i]; j++)
            list_of(e, node)[j] = e->chosen[i * R + j].id;
    }
    qsort(e->offers, n, sizeof *e->offers, by_target);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || e->offers[i].to != e->offers[i - 1].to)
            e->groups[groups++] = i;
    e->groups[groups] = n;
    return groups;
}

static void merge(void *arg, uint32_t thread, size_t from, size_t to)
{
    edit *e = arg;
    const size_t R = e->params->M;
    bw_graph_pruner *room = &e->rooms[thread];
    bw_graph_link best[BW_GRAPH_R_MAX];
    for (size_t t = from; t < to; t++) {
        const uint32_t node = e->offers[e->groups[t]].to;
        uint32_t *list = list_of(e, node);
        size_t n = 0;
        for (; n < e->counts[node]; n++)
            room->pool[n].id = list[n];
        for (size_t i = e->groups[t]; i < e->groups[t + 1] && n < room->pool_cap; i++)
            room->pool[n++].id = e->offers[i].from;
        bw_graph__measure(&e->p, room, node, n);
        const size_t kept = bw_graph__prune(&e->p, room, node, n, R, true, best);
        e->counts[node] = (uint32_t)kept;
        for (size_t j = 0; j < kept; j++)
            list[j] = best[j].id;
    }
}

static bool lane_kept(const edit *e, const bw_rabitq_layout *l, const uint8_t *row,
                      uint32_t node, uint32_t lane)
{
    const uint32_t id = bw_rabitq_row_ids(l, row)[lane];
    return id != BW_RABITQ_NONE && list_has(e, node, id);
}

/* Lanes that are free lead anywhere, as a build leaves them. They are not in the lists:
 * a later step takes them for its own. */
static void strays_put(const edit *e, uint8_t *row, uint32_t node)
{
    const bw_rabitq_layout *l = &e->g->row;
    const uint32_t *ids = bw_rabitq_row_ids(l, row);
    uint32_t lane = 0;
    for (uint32_t i = 0; i < BW_GRAPH_STRAYS_MAX * l->R; i++) {
        while (lane < l->R && ids[lane] != BW_RABITQ_NONE)
            lane++;
        if (lane == l->R)
            return;
        const uint32_t id = bw_graph__stray(e->params->seed, node, i, e->p.n);
        bool have = id == node;
        for (uint32_t j = 0; j < l->R && !have; j++)
            have = ids[j] == id;
        if (!have)
            bw_rabitq_row_put(l, row, lane, id, e->x + (size_t)id * e->p.dim,
                              e->x + (size_t)node * e->p.dim);
    }
}

/* Neighbours that stay keep their lanes; those that came take the first of the rest. */
static void write_rows(void *arg, uint32_t thread, size_t from, size_t to)
{
    (void)thread;
    const edit *e = arg;
    const bw_rabitq_layout *l = &e->g->row;
    for (size_t i = from; i < to; i++) {
        const uint32_t node = e->dirty[i];
        const float *x = e->x + (size_t)node * e->p.dim;
        uint8_t *row = e->g->block + (size_t)node * l->stride;
        const uint32_t *ids = bw_rabitq_row_ids(l, row);
        uint32_t come[BW_GRAPH_R_MAX], n = 0, put = 0;
        for (uint32_t j = 0; j < e->counts[node]; j++) {
            bool here = false;
            for (uint32_t lane = 0; lane < l->R && !here; lane++)
                here = ids[lane] == list_of(e, node)[j];
            if (!here)
                come[n++] = list_of(e, node)[j];
        }
        for (uint32_t lane = 0; lane < l->R; lane++) {
            if (put < n && !lane_kept(e, l, row, node, lane)) {
                const uint32_t id = come[put++];
                bw_rabitq_row_put(l, row, lane, id, e->x + (size_t)id * e->p.dim, x);
            } else if (ids[lane] != BW_RABITQ_NONE && !lane_kept(e, l, row, node, lane)) {
                bw_rabitq_row_clear(l, row, lane);
            }
        }
        strays_put(e, row, node);
    }
}

static void mark(edit *e, uint32_t node)
{
    e->dirty_bits[node / 64] |= UINT64_C(1) << (node % 64);
}

/* The marked nodes, rising, into e->dirty; the marks are wiped. */
static size_t dirty_list(edit *e)
{
    size_t n = 0;
    for (size_t w = 0; w < bw_bitmap_words(e->p.n); w++) {
        for (uint64_t b = e->dirty_bits[w]; b; b &= b - 1)
            e->dirty[n++] = (uint32_t)(w * 64 + (size_t)__builtin_ctzll(b));
        e->dirty_bits[w] = 0;
    }
    return n;
}

/* The nodes of the set choose. Its members are distinct. */
static bool step(edit *e, const uint32_t *set, size_t m, bool search)
{
    e->set = set;
    e->search = search;
    if (m == 0)
        return true;
    if (!in_parallel(e, m, choose))
        return false;
    const size_t groups = take_over(e, m);
    if (!in_parallel(e, groups, merge))
        return false;
    for (size_t i = 0; i < m; i++)
        mark(e, set[i]);
    for (size_t i = 0; i < groups; i++)
        mark(e, e->offers[e->groups[i]].to);
    return in_parallel(e, dirty_list(e), write_rows);
}

/* ---- what is copied ---- */

/* Old numbers and new ones. A node's rows are equal, so one of them speaks for all. Of
 * two old nodes that are one now (their rows' hashes had met others') the second goes. */
static void numbers(edit *e, const uint32_t *map, uint32_t *node_of)
{
    const bw_graph *old = e->old, *g = e->g;
    for (uint32_t i = 0; i < g->nodes; i++) {
        const uint32_t from = g->first ? g->first[i] : i;
        const uint32_t to = g->first ? g->first[i + 1] : i + 1;
        for (uint32_t j = from; j < to; j++)
            node_of[g->first ? g->members[j] : j] = i;
        e->was[i] = NONE;
    }
    for (uint32_t i = 0; i < old->nodes; i++) {
        const uint32_t from = old->first ? old->first[i] : i;
        const uint32_t to = old->first ? old->first[i + 1] : i + 1;
        e->now[i] = NONE;
        for (uint32_t j = from; j < to && e->now[i] == NONE; j++) {
            const uint32_t row = map[old->first ? old->members[j] : j];
            assert(row == NONE || row < g->n);
            if (row != NONE && e->was[node_of[row]] == NONE)
                e->now[i] = node_of[row];
        }
        if (e->now[i] != NONE)
            e->was[e->now[i]] = i;
    }
}

static void copy_nodes(void *arg, uint32_t thread, size_t from, size_t to)
{
    (void)thread;
    edit *e = arg;
    const bw_rabitq_layout *l = &e->g->row;
    for (size_t i = from; i < to; i++) {
        uint8_t *row = e->g->block + i * l->stride;
        int8_t *code = e->codes + i * e->p.dim;
        e->counts[i] = 0;
        if (e->was[i] == NONE) {
            e->own[i] = bw_rabitq_encode(l->form, e->x + i * e->p.dim, e->p.dim, code);
            bw_rabitq_row_init(l, row);
            memcpy(row + l->own, code, e->p.dim);
            memcpy(row + l->factors, &e->own[i], sizeof *e->own);
            continue;
        }
        memcpy(row, bw_graph_row(e->old, e->was[i]), l->stride);
        memcpy(code, row + l->own, e->p.dim);
        memcpy(&e->own[i], row + l->factors, sizeof *e->own);
        uint32_t *ids = bw_rabitq_row_ids(l, row), *list = list_of(e, (uint32_t)i);
        for (uint32_t lane = 0; lane < l->R; lane++) {
            if (ids[lane] == BW_RABITQ_NONE)
                continue;
            const uint32_t id = e->now[ids[lane]];
            if (id == NONE)
                bw_rabitq_row_clear(l, row, lane);
            else
                ids[lane] = list[e->counts[i]++] = id;
        }
    }
}

static bool lost_a_neighbour(const edit *e, uint32_t node)
{
    const uint32_t *ids =
        bw_rabitq_row_ids(&e->old->row, bw_graph_row(e->old, e->was[node]));
    for (size_t j = 0; j < e->params->M; j++)
        if (ids[j] != BW_RABITQ_NONE && e->now[ids[j]] == NONE)
            return true;
    return false;
}

/* ---- the whole ---- */

static bool repair(edit *e, uint32_t *set)
{
    size_t m = 0;
    for (uint32_t i = 0; i < e->p.n; i++)
        if (e->was[i] != NONE && lost_a_neighbour(e, i))
            set[m++] = i;
    return step(e, set, m, false);
}

/* Nodes that no list names. */
static size_t orphans(edit *e, uint32_t *set)
{
    size_t m = 0;
    for (uint32_t i = 0; i < e->p.n; i++)
        for (uint32_t j = 0; j < e->counts[i]; j++)
            mark(e, list_of(e, i)[j]);
    for (uint32_t i = 0; i < e->p.n; i++)
        if (!(e->dirty_bits[i / 64] >> (i % 64) & 1))
            set[m++] = i;
    memset(e->dirty_bits, 0, bw_bitmap_words(e->p.n) * sizeof *e->dirty_bits);
    return m;
}

static bool insert(edit *e, uint32_t *set)
{
    size_t m = 0, batch = 1;
    const size_t most = e->p.n / BATCH_SHARE + 1;
    for (uint32_t i = 0; i < e->p.n; i++)
        if (e->was[i] == NONE)
            set[m++] = i;
    for (size_t at = 0; at < m; at += batch, batch = 2 * batch < most ? 2 * batch : most) {
        if (batch > m - at)
            batch = m - at;
        if (!step(e, set + at, batch, true))
            return false;
    }
    return step(e, set, m, true) && step(e, set, orphans(e, set), true);
}

static bool rooms_make(edit *e)
{
    const size_t n = e->p.n, R = e->params->M, dim = e->p.dim;
    const size_t ef = e->params->ef_construction;
    e->codes = bw_alloc_vectors(n * dim);
    e->own = bw_alloc(n * sizeof *e->own);
    e->now = bw_alloc(e->old->nodes * sizeof *e->now);
    e->was = bw_alloc(n * sizeof *e->was);
    e->lists = bw_alloc(n * R * sizeof *e->lists);
    e->counts = bw_alloc(n * sizeof *e->counts);
    e->chosen = bw_alloc(n * R * sizeof *e->chosen);
    e->nchosen = bw_alloc(n * sizeof *e->nchosen);
    e->offers = bw_alloc(n * R * sizeof *e->offers);
    e->groups = bw_alloc((n + 1) * sizeof *e->groups);
    e->dirty = bw_alloc(n * sizeof *e->dirty);
    e->dirty_bits = bw_calloc(bw_bitmap_words(n), sizeof *e->dirty_bits);
    e->scratches = bw_calloc(e->params->threads, sizeof *e->scratches);
    e->rooms = bw_calloc(e->params->threads, sizeof *e->rooms);
    bool ok = e->codes && e->own && e->now && e->was && e->lists && e->counts &&
              e->chosen && e->nchosen && e->offers && e->groups && e->dirty &&
              e->dirty_bits && e->scratches && e->rooms;
    for (uint32_t t = 0; ok && t < e->params->threads; t++) {
        e->scratches[t] = bw_graph__scratch_new(e->g, ef, n);
        ok = e->scratches[t] &&
             bw_graph__pruner_init(&e->rooms[t], (uint32_t)dim, 2 * ef + 16 * R);
    }
    e->p.codes = e->codes;
    e->p.own = e->own;
    return ok;
}

static void rooms_clear(edit *e)
{
    for (uint32_t t = 0; t < e->params->threads; t++) {
        if (e->scratches)
            bw_graph__scratch_free(e->scratches[t]);
        if (e->rooms)
            bw_graph__pruner_clear(&e->rooms[t]);
    }
    bw_free_vectors(e->codes);
    bw_free(e->own);
    bw_free(e->now);
    bw_free(e->was);
    bw_free(e->lists);
    bw_free(e->counts);
    bw_free(e->chosen);
    bw_free(e->nchosen);
    bw_free(e->offers);
    bw_free(e->groups);
    bw_free(e->dirty);
    bw_free(e->dirty_bits);
    bw_free(e->scratches);
    bw_free(e->rooms);
}

/* The old geometry serves: little went, not too much came, and what came has a length
 * that it can hold (graph_nodes.c says which). */
static bool still_suits(const edit *e, const float *rows)
{
    size_t stays = 0;
    for (uint32_t i = 0; i < e->p.n; i++)
        stays += e->was[i] != NONE;
    if ((e->old->nodes - stays) * 100 > (size_t)e->old->nodes * GONE_MAX ||
        (e->p.n - stays) * 100 > stays * NEW_MAX)
        return false;
    for (uint32_t i = 0; i < e->p.n; i++)
        if (e->was[i] == NONE && !bw_graph__row_fits(e->g, rows, i))
            return false;
    return true;
}

/* *anew: what changed asks for a build. */
static bw_status edit_run(bw_ctx *ctx, edit *e, const uint32_t *map, const float *rows,
                          bool *anew)
{
    uint32_t *node_of = bw_alloc(e->g->n * sizeof *node_of); /* then the set of a step */
    bw_status st = BW_OK;
    if (node_of && rooms_make(e) && bw_graph__block_new(e->g)) {
        numbers(e, map, node_of);
        *anew = !still_suits(e, rows);
        if (!*anew && (!bw_graph__turn(e->g, e->params, rows, e->x) ||
                       !in_parallel(e, e->p.n, copy_nodes) ||
                       !bw_graph__entry(e->g, e->x) || !repair(e, node_of) ||
                       !insert(e, node_of)))
            st = bw_graph__gave_up(ctx, e->params);
    } else {
        st = bw_fail_nomem(ctx);
    }
    bw_free(node_of);
    rooms_clear(e);
    return st;
}

/* Space and geometry of the old one; nodes of the rows as they are now. */
static bw_status edit_start(bw_ctx *ctx, edit *e, const float *rows)
{
    bw_graph *g = e->g;
    const bw_graph *old = e->old;
    const bw_status st = bw_graph__nodes_find(ctx, g, rows);
    if (st != BW_OK || g->nodes < BW_GRAPH_NODES_MIN)
        return st;
    g->row = old->row;
    g->scale = old->scale;
    g->length = old->length;
    g->mean = bw_alloc(g->params.dim * sizeof *g->mean);
    g->rotate = bw_rotate_new(g->params.dim, g->params.seed);
    size_t bytes;
    if (!__builtin_mul_overflow((size_t)g->nodes, g->row.dim * sizeof *e->x, &bytes))
        e->x = bw_alloc_vectors(bytes);
    if (!g->mean || !g->rotate || !e->x)
        return bw_fail_nomem(ctx);
    memcpy(g->mean, old->mean, g->params.dim * sizeof *g->mean);
    e->p = (bw_graph_points){
        .x = e->x, .n = g->nodes, .dim = g->row.dim, .k = bw_fastscan_get()};
    return BW_OK;
}

static bool same_kind(const bw_index_params *a, const bw_index_params *b)
{
    return a->metric == b->metric && a->dim == b->dim && a->M == b->M && a->seed == b->seed;
}

bw_status bw_graph__derive(bw_ctx *ctx, const bw_index_params *in, const bw_index *ix,
                           const uint32_t *map, const bw_rows *rows, bw_index **out)
{
    const bw_graph *old = (const bw_graph *)ix;
    bw_index_params p;
    bw_status st = bw_graph__params(ctx, in, rows->n, &p);
    if (st != BW_OK)
        return st;
    const float *data = bw_index__f32(rows);
    if (old->nodes == 0 || rows->n < BW_GRAPH_NODES_MIN || !data || !same_kind(&p, &old->params))
        return bw_graph__build(ctx, in, rows, out);
    edit e = {.params = &p, .old = old, .g = bw_graph__new(&p, rows->n)};
    if (!e.g)
        return bw_fail_nomem(ctx);
    bool anew = false;
    st = edit_start(ctx, &e, data);
    if (st == BW_OK && e.g->nodes < BW_GRAPH_NODES_MIN)
        anew = true;
    else if (st == BW_OK)
        st = edit_run(ctx, &e, map, data, &anew);
    bw_free_vectors(e.x);
    if (st == BW_OK && !anew)
        st = bw_graph__tune(ctx, e.g, rows);
    if (st != BW_OK || anew) {
        bw_graph__free(&e.g->base);
        return st != BW_OK ? st : bw_graph__build(ctx, in, rows, out);
    }
    e.g->params.threads = 0;
    e.g->params.stop = NULL;
    *out = &e.g->base;
    return BW_OK;
}
