/* Which effort a wanted recall takes: measured on this index, at the end of its build.
 *
 * Questions are made by graph_questions.c, in families. Exact answers come from a scan, a
 * ladder of efforts is tried, and each rung keeps, of the family that does worst there, a
 * lower 95 % bound of recall@10: Wilson's interval (1927), with the number of trials made
 * smaller by as much as hits of one query go together. Draws are by hash of the seed, sums
 * in one order: the same on every ISA and with any threads.
 *
 * A recall between two rungs takes the upper one. What no rung reaches is scanned. */
#include "graph.h"

#include <math.h>

enum {
    QUERIES = BW_GRAPH_QUESTIONS,
    K = 10,
    PIECE = 16,      /* queries that share a pass over the rows */
    BLOCK = 256,     /* rows of a pass that stay in cache */
    EFFORT_DEFAULT = 64,
    THREADS_MAX = 64,
    COARSE = 3
};

#define ENOUGH 0.998 /* no rung above a bound of this */

/* Steps of a tenth where most questions are; a search at a rung costs next to nothing
 * beside the exact answers. */
static const uint32_t efforts[] = {
    4,  5,  6,  7,  8,  10, 12, 14,  16,  18,  20,  22,  24,  26,  29,  32,  36,  40, 44,
    48, 53, 58, 64, 72, 80, 92, 104, 116, 128, 144, 160, 192, 224, 288, 384, 512, 768};
enum { RUNGS = sizeof efforts / sizeof *efforts };
static_assert(sizeof efforts / sizeof *efforts <= BW_GRAPH_RUNGS, "room in the graph");

typedef struct tune {
    bw_graph *g;
    const bw_rows *rows;
    bw_ctx **ctx;         /* a thread */
    float *queries;       /* QUERIES × dim */
    bw_candidate *truth;  /* QUERIES × K */
    float *worst;         /* of the true ten: whatever has its key is as good */
    uint8_t *hits;
    bw_point_id *ids;     /* zeros: searches want them, ties do not matter here */
    bw_bitmap all, block; /* every row; every row of a block */
    bw_graph_families families;
    uint32_t effort;
    atomic_bool failed;
} tune;

/* ---- exact answers ---- */

static bw_status scan_piece(tune *t, bw_ctx *ctx, size_t from, size_t to)
{
    const size_t dim = t->g->params.dim, n = t->g->n;
    const float *data = bw_index__f32(t->rows);
    float *decoded = NULL;
    uint32_t which[BLOCK];
    bw_topk top[PIECE];
    for (size_t q = from; q < to; q++)
        bw_topk_init(&top[q - from], t->truth + q * K, K);
    if (!data && !(decoded = bw_alloc_vectors(BLOCK * dim * sizeof *decoded)))
        return BW_ENOMEM;
    bw_status st = BW_OK;
    for (size_t at = 0; st == BW_OK && at < n; at += BLOCK) {
        const size_t m = n - at < BLOCK ? n - at : BLOCK;
        for (size_t i = 0; i < m; i++)
            which[i] = (uint32_t)(at + i);
        if (!data)
            st = bw_rows_get(ctx, t->rows, which, m, decoded);
        for (size_t q = from; st == BW_OK && q < to; q++)
            bw_scan_f32(bw_kernels_get(), t->g->params.metric, t->queries + q * dim,
                        data ? data + at * dim : decoded, m, dim, &t->block, t->ids, 0,
                        (uint32_t)at, &top[q - from]);
    }
    for (size_t q = from; q < to; q++)
        t->worst[q] = top[q - from].n ? top[q - from].items[0].key : -INFINITY;
    bw_free_vectors(decoded);
    return st;
}

static void scan_pieces(void *arg, uint32_t thread, size_t from, size_t to)
{
    tune *t = arg;
    if (scan_piece(t, t->ctx[thread], from, to) != BW_OK)
        atomic_store(&t->failed, true);
}

/* ---- a rung ---- */

static void search_pieces(void *arg, uint32_t thread, size_t from, size_t to)
{
    tune *t = arg;
    for (size_t q = from; q < to; q++) {
        bw_candidate items[K];
        bw_topk top;
        bw_topk_init(&top, items, K);
        const bw_index_search s = {.query = t->queries + q * t->g->params.dim,
                                   .k = K,
                                   .effort = t->effort,
                                   .allowed = &t->all,
                                   .ids = t->ids,
                                   .rows = t->rows};
        if (bw_graph__search(t->ctx[thread], &t->g->base, &s, &top) != BW_OK)
            atomic_store(&t->failed, true);
        t->hits[q] = 0;
        for (size_t i = 0; i < top.n; i++)
            t->hits[q] = (uint8_t)(t->hits[q] + (items[i].key >= t->worst[q]));
        bw_ctx_reset(t->ctx[thread]);
    }
}

/* The lower end of Wilson's interval, one-sided 95 %. */
static double bound_lower(const uint8_t *hits, size_t nq)
{
    const double z = 1.645, n = (double)nq;
    double sum = 0, squares = 0;
    for (size_t q = 0; q < nq; q++) {
        const double r = (double)hits[q] / K;
        sum += r;
        squares += r * r;
    }
    const double p = sum / n, variance = (squares / n - p * p) / (n - 1); /* of the mean */
    double trials = n * K;
    if (variance > 0 && p * (1 - p) / variance < trials)
        trials = p * (1 - p) / variance;
    const double zz = z * z / trials;
    const double low =
        (p + zz / 2 - z * sqrt(p * (1 - p) / trials + zz / (4 * trials))) / (1 + zz);
    return low > 0 ? low : 0;
}

static bw_status rungs_measure(bw_ctx *ctx, tune *t, const bw_index_params *params)
{
    bw_graph *g = t->g;
    if (!bw_graph__parallel(params->threads, params->stop, QUERIES, PIECE, scan_pieces, t))
        return bw_graph__gave_up(ctx, params);
    float before = 0;
    const size_t step = g->n < BW_GRAPH_FEW_ROWS ? COARSE : 1;
    for (size_t i = 0; i < RUNGS && !atomic_load(&t->failed); i += step) {
        t->effort = efforts[i];
        if (!bw_graph__parallel(params->threads, params->stop, QUERIES, PIECE,
                                search_pieces, t))
            return bw_graph__gave_up(ctx, params);
        double low = 1;
        for (size_t f = 0; f < t->families.n; f++) {
            const size_t *from = t->families.from + f;
            low = fmin(low, bound_lower(t->hits + from[0], from[1] - from[0]));
        }
        before = (float)low > before ? (float)low : before;
        g->rungs[g->nrungs++] = (bw_graph_rung){efforts[i], before};
        if (before >= (float)ENOUGH)
            break;
    }
    return atomic_load(&t->failed) ? bw_graph__gave_up(ctx, params) : BW_OK;
}

bw_status bw_graph__tune(bw_ctx *ctx, bw_graph *g, const bw_rows *rows)
{
    const bw_index_params *params = &g->params;
    const uint32_t threads = params->threads < THREADS_MAX ? params->threads : THREADS_MAX;
    tune t = {.g = g, .rows = rows};
    bw_ctx *contexts[THREADS_MAX] = {0};
    atomic_init(&t.failed, false);
    g->nrungs = 0;
    t.ctx = contexts;
    t.queries = bw_alloc_vectors((size_t)QUERIES * params->dim * sizeof *t.queries);
    t.truth = bw_calloc((size_t)QUERIES * K, sizeof *t.truth);
    t.worst = bw_calloc(QUERIES, sizeof *t.worst);
    t.hits = bw_calloc(QUERIES, sizeof *t.hits);
    t.ids = bw_calloc(g->n, sizeof *t.ids);
    bool ok = t.queries && t.truth && t.worst && t.hits && t.ids &&
              bw_bitmap_heap(g->n, &t.all) && bw_bitmap_heap(BLOCK, &t.block);
    for (uint32_t i = 0; ok && i < threads; i++)
        ok = (contexts[i] = bw_ctx_new(0)) != NULL;
    bw_status st = ok ? BW_OK : bw_fail_nomem(ctx);
    if (st == BW_OK) {
        bw_bitmap_fill(&t.all);
        bw_bitmap_fill(&t.block);
        st = bw_graph__questions(ctx, g, rows, t.queries, &t.families);
    }
    if (st == BW_OK)
        st = rungs_measure(ctx, &t, params);
    bw_graph__scratch_clear(g);
    for (uint32_t i = 0; i < threads; i++)
        bw_ctx_free(contexts[i]);
    bw_free_vectors(t.queries);
    bw_free(t.truth);
    bw_free(t.worst);
    bw_free(t.hits);
    bw_free(t.ids);
    bw_bitmap_free(&t.all);
    bw_bitmap_free(&t.block);
    return st;
}

/* ---- what it is for ---- */

uint32_t bw_graph__effort_of(const bw_index *ix, float recall, size_t k)
{
    const bw_graph *g = (const bw_graph *)ix;
    (void)k; /* what a limit adds to the beam is in the search */
    if (g->nrungs == 0)
        return g->nodes ? EFFORT_DEFAULT : 0;
    for (uint32_t i = 0; i < g->nrungs; i++)
        if (g->rungs[i].recall >= recall)
            return g->rungs[i].effort;
    return 0;
}

float bw_graph__recall_of(const bw_index *ix, uint32_t effort)
{
    const bw_graph *g = (const bw_graph *)ix;
    if (g->nodes == 0)
        return 1; /* scanned */
    float recall = 0;
    for (uint32_t i = 0; i < g->nrungs && g->rungs[i].effort <= effort; i++)
        recall = g->rungs[i].recall;
    return recall;
}
