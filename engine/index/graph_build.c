/* Building the kind "graph", in rounds on a frozen graph (SymphonyQG 2411.12229,
 * section 4, made deterministic).
 *
 * 1. Equal rows become one node; nodes are rotated and coded.
 * 2. First links by graph_init.c.
 * 3. Rounds: every node searches for itself in the graph as it stands, and chooses links
 *    from what was visited and what it had; links are then offered to their targets,
 *    which choose again; then all rows are written. In the last round free lanes are
 *    filled (graph_prune.c says with what).
 * Nothing that a step reads is written by it, what is written goes to its node's own
 * place, and reverse offers are gathered in the order of their sources: so the bytes do
 * not depend on threads. Memory while building: rows as f32 and int8, and twice
 * R × 8 bytes a node, beside the index. */
#include "graph.h"

#include <math.h>

enum {
    ROUNDS = 2,
    PIECE = 32,
    OFFERS_MAX = 512 /* of one node, nearest first */
};

typedef struct build {
    const bw_index_params *params;
    bw_graph *g;
    bw_graph_points p;
    float *x;
    int8_t *codes;
    bw_rabitq_own *own;
    bw_graph_link *lists, *chosen; /* nodes × R */
    uint32_t *counts, *nchosen;
    size_t *offers_at; /* CSR of who offers itself to whom */
    uint32_t *offers;
    bw_graph_scratch **scratches;
    bw_graph_pruner *rooms;
    bool last;
} build;

bw_status bw_graph__gave_up(bw_ctx *ctx, const bw_index_params *params)
{
    if (params->stop && atomic_load_explicit(params->stop, memory_order_relaxed))
        return bw_fail(ctx, BW_EUNAVAILABLE, "the build of an index was stopped");
    return bw_fail_nomem(ctx);
}

static bool in_parallel(const build *b, void (*fn)(void *, uint32_t, size_t, size_t))
{
    return bw_graph__parallel(b->params->threads, b->params->stop, b->p.n, PIECE, fn,
                              (void *)(uintptr_t)b);
}

/* ---- steps of a round ---- */

static void find_links(void *arg, uint32_t thread, size_t from, size_t to)
{
    build *b = arg;
    const size_t R = b->params->M;
    bw_graph_scratch *s = b->scratches[thread];
    bw_graph_pruner *room = &b->rooms[thread];
    for (size_t i = from; i < to; i++) {
        bw_graph_walk w = {.ef = b->params->ef_construction,
                           .want = 1,
                           .rank = 1,
                           .bound = INFINITY,
                           .slack = INFINITY,
                           .narrow = INFINITY,
                           .once = true};
        bw_rabitq_query_set(&s->query, b->p.k, b->g->row.form,
                            b->x + i * b->p.dim);
        bw_graph__walk(b->g, s, &w);
        size_t n = 0;
        for (; n < w.nseen && n < room->pool_cap - R; n++)
            room->pool[n].id = s->seen[w.nseen - 1 - n].id;
        for (size_t j = 0; j < b->counts[i]; j++)
            room->pool[n++].id = b->lists[i * R + j].id;
        bw_graph__measure(&b->p, room, (uint32_t)i, n);
        b->nchosen[i] = (uint32_t)bw_graph__prune(&b->p, room, (uint32_t)i, n, R, b->last,
                                                  b->chosen + i * R);
    }
}

static void merge_offers(void *arg, uint32_t thread, size_t from, size_t to)
{
    build *b = arg;
    const size_t R = b->params->M;
    bw_graph_pruner *room = &b->rooms[thread];
    for (size_t i = from; i < to; i++) {
        size_t n = b->nchosen[i];
        memcpy(room->pool, b->chosen + i * R, n * sizeof *room->pool);
        const size_t first = b->offers_at[i], end = b->offers_at[i + 1];
        for (size_t o = first; o < end && n < room->pool_cap; o++)
            room->pool[n++].id = b->offers[o];
        bw_graph__measure(&b->p, room, (uint32_t)i, n);
        b->counts[i] = (uint32_t)bw_graph__prune(&b->p, room, (uint32_t)i, n, R, b->last,
                                                 b->lists + i * R);
    }
}

/* Lanes that are still free lead anywhere. */
static void strays_add(build *b, uint32_t node)
{
    const uint32_t R = b->params->M;
    bw_graph_link *list = b->lists + (size_t)node * R;
    uint32_t n = b->counts[node];
    for (uint32_t i = 0; n < R && i < BW_GRAPH_STRAYS_MAX * R; i++) {
        const uint32_t id = bw_graph__stray(b->params->seed, node, i, b->p.n);
        bool have = id == node;
        for (uint32_t j = 0; j < n && !have; j++)
            have = list[j].id == id;
        if (!have)
            list[n++].id = id;
    }
    b->counts[node] = n;
}

static void write_rows(void *arg, uint32_t thread, size_t from, size_t to)
{
    (void)thread;
    build *b = arg;
    const size_t R = b->params->M, dim = b->p.dim;
    const bw_rabitq_layout *l = &b->g->row;
    for (size_t i = from; i < to; i++) {
        uint8_t *row = b->g->block + i * l->stride;
        if (b->last)
            strays_add(b, (uint32_t)i);
        bw_rabitq_row_init(l, row);
        bw_rabitq_row_own(l, row, b->x + i * dim);
        for (uint32_t j = 0; j < b->counts[i]; j++) {
            const uint32_t id = b->lists[i * R + j].id;
            bw_rabitq_row_put(l, row, j, id, b->x + (size_t)id * dim, b->x + i * dim);
        }
    }
}

/* Who chose whom, turned round: sources rise. */
static bool offers_gather(build *b)
{
    const size_t n = b->p.n, R = b->params->M;
    memset(b->offers_at, 0, (n + 2) * sizeof *b->offers_at);
    size_t *at = b->offers_at + 1;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < b->nchosen[i]; j++)
            at[b->chosen[i * R + j].id + 1]++;
    for (size_t i = 1; i <= n; i++)
        at[i] += at[i - 1];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < b->nchosen[i]; j++)
            b->offers[at[b->chosen[i * R + j].id]++] = (uint32_t)i;
    return true;
}

static bool round_run(build *b, bool last)
{
    b->last = last;
    if (!in_parallel(b, find_links))
        return false;
    offers_gather(b);
    return in_parallel(b, merge_offers) && in_parallel(b, write_rows);
}

/* ---- nodes ---- */

static void code_rows(void *arg, uint32_t thread, size_t from, size_t to)
{
    (void)thread;
    build *b = arg;
    for (size_t i = from; i < to; i++)
        b->own[i] = bw_rabitq_encode(b->g->row.form, b->x + i * b->p.dim, b->p.dim,
                                     b->codes + i * b->p.dim);
}

/* Nodes from all over: one of each stretch of numbers. */
bool bw_graph__entry(bw_graph *g, const float *x)
{
    const uint32_t n = g->nodes;
    uint32_t want = 32 * (uint32_t)ceil(sqrt((double)n) / 16);
    want = want < n / 4 / 32 * 32 ? want : n / 4 / 32 * 32;
    want = want < 32 ? 32 : want > BW_GRAPH_ENTRIES_MAX ? BW_GRAPH_ENTRIES_MAX : want;
    g->wide = bw_rabitq_layout_of(g->row.form, g->row.dim, want);
    g->entry = bw_alloc_vectors(g->wide.stride);
    float *zero = bw_alloc_vectors(g->row.dim * sizeof *zero);
    if (g->entry && zero) {
        bw_rabitq_row_init(&g->wide, g->entry);
        bw_rabitq_row_own(&g->wide, g->entry, zero);
        for (uint32_t e = 0; e < want && e < n; e++) {
            const uint32_t node = (uint32_t)((uint64_t)n * e / want);
            bw_rabitq_row_put(&g->wide, g->entry, e, node,
                              x + (size_t)node * g->row.dim, zero);
        }
    }
    bw_free_vectors(zero);
    return g->entry != NULL && zero != NULL;
}

static bool rooms_make(build *b)
{
    const size_t n = b->p.n, R = b->params->M, dim = b->p.dim;
    const uint32_t threads = b->params->threads;
    b->codes = bw_alloc_vectors(n * dim);
    b->own = bw_alloc(n * sizeof *b->own);
    b->lists = bw_alloc(n * R * sizeof *b->lists);
    b->chosen = bw_alloc(n * R * sizeof *b->chosen);
    b->counts = bw_alloc(n * sizeof *b->counts);
    b->nchosen = bw_alloc(n * sizeof *b->nchosen);
    b->offers_at = bw_alloc((n + 2) * sizeof *b->offers_at);
    b->offers = bw_alloc(n * R * sizeof *b->offers);
    b->scratches = bw_calloc(threads, sizeof *b->scratches);
    b->rooms = bw_calloc(threads, sizeof *b->rooms);
    bool ok = b->codes && b->own && b->lists && b->chosen && b->counts && b->nchosen &&
              b->offers_at && b->offers && b->scratches && b->rooms;
    const size_t ef = b->params->ef_construction;
    for (uint32_t t = 0; ok && t < threads; t++) {
        b->scratches[t] = bw_graph__scratch_new(b->g, ef, n);
        ok = b->scratches[t] &&
             bw_graph__pruner_init(&b->rooms[t], (uint32_t)dim, 2 * ef + OFFERS_MAX + R);
    }
    b->p.codes = b->codes;
    b->p.own = b->own;
    return ok;
}

static void rooms_clear(build *b)
{
    for (uint32_t t = 0; t < b->params->threads; t++) {
        if (b->scratches)
            bw_graph__scratch_free(b->scratches[t]);
        if (b->rooms)
            bw_graph__pruner_clear(&b->rooms[t]);
    }
    bw_free(b->scratches);
    bw_free(b->rooms);
    bw_free_vectors(b->codes);
    bw_free(b->own);
    bw_free(b->lists);
    bw_free(b->chosen);
    bw_free(b->counts);
    bw_free(b->nchosen);
    bw_free(b->offers_at);
    bw_free(b->offers);
}

static bw_status links_make(bw_ctx *ctx, build *b)
{
    if (!rooms_make(b) || !bw_graph__block_new(b->g))
        return bw_fail_nomem(ctx);
    if (!in_parallel(b, code_rows) || !bw_graph__entry(b->g, b->x))
        return bw_graph__gave_up(ctx, b->params);
    const bw_status st = bw_graph__init(ctx, &b->p, b->params, b->chosen, b->nchosen);
    if (st != BW_OK)
        return st;
    offers_gather(b);
    b->last = false;
    bool ok = in_parallel(b, merge_offers) && in_parallel(b, write_rows);
    for (int r = 0; ok && r < ROUNDS; r++)
        ok = round_run(b, r == ROUNDS - 1);
    return ok ? BW_OK : bw_graph__gave_up(ctx, b->params);
}

bw_status bw_graph__links(bw_ctx *ctx, bw_graph *g, const bw_index_params *params,
                          float *x)
{
    build b = {.params = params, .g = g, .x = x};
    b.p = (bw_graph_points){
        .x = x, .n = g->nodes, .dim = g->row.dim, .k = bw_fastscan_get()};
    const bw_status st = links_make(ctx, &b);
    rooms_clear(&b);
    return st;
}
