/* From stored rows to a graph's nodes: equal rows become one, the mean is taken off, and
 * what cannot be a graph is left to the scan.
 *
 * A graph needs distances that mean something. Rows whose lengths leave the range of
 * squares, and rows for dot whose lengths differ (the nearest by distance are then not
 * the best by product), give an index without nodes, which is scanned: exact, slower. */
#include "graph.h"

#include <math.h>
#include <stdlib.h>

#define LENGTH_LO   1e-15
#define LENGTH_HI   1e15
#define DOT_SPREAD  1.01 /* longest : shortest, for dot */
#define FROM_MEAN_MAX 128.0 /* scaled; the first rows' is 64: halves hold 4·128² */

typedef struct row_hash {
    uint64_t hash;
    uint32_t row;
} row_hash;

static uint64_t hash_row(const float *v, uint32_t dim)
{
    uint64_t h = 0x9E3779B97F4A7C15u;
    for (uint32_t i = 0; i < dim; i++) {
        uint32_t u;
        memcpy(&u, &v[i], sizeof u);
        h = (h ^ u) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    return h;
}

static int by_hash(const void *a, const void *b)
{
    const row_hash *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* node_of[row] for all rows; nodes are numbered by their first row. Rows that share a
 * hash and not their bytes are nodes of their own (beside their hash's first row). */
static uint32_t nodes_number(const float *rows, size_t n, uint32_t dim, row_hash *h,
                             uint32_t *node_of)
{
    for (size_t i = 0; i < n; i++)
        h[i] = (row_hash){hash_row(rows + i * dim, dim), (uint32_t)i};
    qsort(h, n, sizeof *h, by_hash);
    for (size_t i = 0; i < n; i++)
        node_of[i] = (uint32_t)i;
    for (size_t i = 0, first = 0; i < n; i++) {
        if (h[i].hash != h[first].hash)
            first = i;
        if (memcmp(rows + (size_t)h[i].row * dim, rows + (size_t)h[first].row * dim,
                   dim * sizeof *rows) == 0)
            node_of[h[i].row] = h[first].row;
    }
    uint32_t nodes = 0;
    for (size_t i = 0; i < n; i++) /* a node's first row comes first */
        node_of[i] = node_of[i] == i ? nodes++ : node_of[node_of[i]];
    return nodes;
}

static bool members_make(bw_graph *g, const uint32_t *node_of)
{
    g->first = bw_calloc((size_t)g->nodes + 2, sizeof *g->first);
    g->members = bw_alloc(g->n * sizeof *g->members);
    if (!g->first || !g->members)
        return false;
    uint32_t *at = g->first + 1;
    for (size_t i = 0; i < g->n; i++)
        at[node_of[i] + 1]++;
    for (uint32_t i = 1; i <= g->nodes; i++)
        at[i] += at[i - 1];
    for (size_t i = 0; i < g->n; i++)
        g->members[at[node_of[i]]++] = (uint32_t)i;
    return true;
}

bw_status bw_graph__nodes_find(bw_ctx *ctx, bw_graph *g, const float *rows)
{
    row_hash *h = bw_alloc(g->n * sizeof *h);
    uint32_t *node_of = bw_alloc(g->n * sizeof *node_of);
    bw_status st = BW_OK;
    if (!h || !node_of) {
        st = bw_fail_nomem(ctx);
    } else {
        g->nodes = nodes_number(rows, g->n, g->params.dim, h, node_of);
        if (g->nodes < g->n && !members_make(g, node_of))
            st = bw_fail_nomem(ctx);
    }
    bw_free(h);
    bw_free(node_of);
    return st;
}

/* Lengths, the mean, the scale. false: no graph for these rows. */
static bool geometry(bw_graph *g, const float *rows, double *sums)
{
    const uint32_t dim = g->params.dim;
    double lo = INFINITY, hi = 0, total = 0, longest = 0;
    for (uint32_t i = 0; i < dim; i++)
        sums[i] = 0;
    for (size_t r = 0; r < g->n; r++) {
        double s = 0;
        for (uint32_t i = 0; i < dim; i++) {
            const double v = (double)rows[r * dim + i];
            s += v * v;
            sums[i] += v;
        }
        const double length = sqrt(s);
        lo = length < lo ? length : lo;
        hi = length > hi ? length : hi;
        total += length;
    }
    if (!(hi < LENGTH_HI) || hi < LENGTH_LO)
        return false;
    if (g->params.metric == BW_METRIC_DOT && !(hi <= lo * DOT_SPREAD))
        return false;
    g->length = (float)(total / (double)g->n);
    for (uint32_t i = 0; i < dim; i++)
        g->mean[i] = (float)(sums[i] / (double)g->n);
    for (size_t r = 0; r < g->n; r++) {
        double s = 0;
        for (uint32_t i = 0; i < dim; i++) {
            const double v = (double)rows[r * dim + i] - (double)g->mean[i];
            s += v * v;
        }
        longest = s > longest ? s : longest;
    }
    g->scale = bw_rabitq_scale((float)sqrt(longest));
    return longest > 0;
}

static uint32_t node_row(const bw_graph *g, size_t node)
{
    return g->first ? g->members[g->first[node]] : (uint32_t)node;
}

typedef struct turn {
    const bw_graph *g;
    const float *rows;
    float *x;
} turn;

static void rotate_nodes(void *arg, uint32_t thread, size_t from, size_t to)
{
    (void)thread;
    const turn *t = arg;
    for (size_t i = from; i < to; i++)
        bw_rotate_apply(t->g->rotate, t->rows + (size_t)node_row(t->g, i) * t->g->params.dim,
                        t->g->mean, t->g->scale, t->x + i * t->g->row.dim);
}

bool bw_graph__turn(const bw_graph *g, const bw_index_params *params, const float *rows,
                    float *x)
{
    turn t = {g, rows, x};
    return bw_graph__parallel(params->threads, params->stop, g->nodes, 256, rotate_nodes,
                              &t);
}

bool bw_graph__row_fits(const bw_graph *g, const float *rows, uint32_t node)
{
    const float *row = rows + (size_t)node_row(g, node) * g->params.dim;
    double own = 0, from_mean = 0;
    for (uint32_t i = 0; i < g->params.dim; i++) {
        const double v = (double)row[i], r = (v - (double)g->mean[i]) * (double)g->scale;
        own += v * v;
        from_mean += r * r;
    }
    const double length = sqrt(own), share = length / (double)g->length;
    const bool dot = g->params.metric == BW_METRIC_DOT;
    return length < LENGTH_HI && from_mean <= FROM_MEAN_MAX * FROM_MEAN_MAX &&
           (!dot || (share <= sqrt(DOT_SPREAD) && share >= 1 / sqrt(DOT_SPREAD)));
}

/* A graph of g->n rows into g. */
static bw_status nodes_link(bw_ctx *ctx, bw_graph *g, const bw_index_params *params,
                            const float *rows)
{
    const uint32_t padded = bw_rotate_padded(params->dim);
    bw_status st = bw_graph__nodes_find(ctx, g, rows);
    if (st != BW_OK)
        return st;
    double *sums = bw_alloc(params->dim * sizeof *sums);
    g->mean = bw_alloc(params->dim * sizeof *g->mean);
    g->rotate = bw_rotate_new(params->dim, params->seed);
    float *x = NULL;
    if (!sums || !g->mean || !g->rotate) {
        st = bw_fail_nomem(ctx);
    } else if (g->nodes < BW_GRAPH_NODES_MIN || !geometry(g, rows, sums)) {
        g->nodes = 0;
    } else {
        size_t bytes;
        g->row = bw_rabitq_layout_of(BW_RABITQ_L2, padded, params->M);
        if (!__builtin_mul_overflow((size_t)g->nodes, padded * sizeof *x, &bytes))
            x = bw_alloc_vectors(bytes);
        if (!x)
            st = bw_fail_nomem(ctx);
        else if (!bw_graph__turn(g, params, rows, x))
            st = bw_graph__gave_up(ctx, params);
        else
            st = bw_graph__links(ctx, g, params, x);
    }
    bw_free(sums);
    bw_free_vectors(x);
    return st;
}

bw_status bw_graph__params(bw_ctx *ctx, const bw_index_params *in, size_t n,
                           bw_index_params *p)
{
    *p = *in;
    p->M = p->M ? (p->M + 31) / 32 * 32 : BW_GRAPH_R;
    p->ef_construction = p->ef_construction ? p->ef_construction : BW_GRAPH_EF_BUILD;
    p->threads = p->threads ? p->threads : 1;
    if (p->metric == BW_METRIC_MANHATTAN)
        return bw_fail(ctx, BW_EINVALID, "Manhattan distance has no approximate index");
    if (p->dim == 0 || p->dim > BW_GRAPH_DIM_MAX)
        return bw_fail(ctx, BW_EINVALID, "index dimension %u is out of range", p->dim);
    if (n > INT32_MAX)
        return bw_fail(ctx, BW_EINVALID,
                       "a segment of %zu rows is too large for an index", n);
    if (p->M > BW_GRAPH_R_MAX || p->ef_construction > BW_GRAPH_EF_BUILD_MAX)
        return bw_fail(ctx, BW_EINVALID, "graph parameters are out of range");
    return BW_OK;
}

bw_status bw_graph__build(bw_ctx *ctx, const bw_index_params *in, const bw_rows *rows,
                          bw_index **out)
{
    bw_index_params p;
    bw_status st = bw_graph__params(ctx, in, rows->n, &p);
    if (st != BW_OK)
        return st;
    const float *data = bw_index__f32(rows);
    if (!data && rows->n > 0)
        return bw_fail(ctx, BW_EINTERNAL, "the rows of a graph are not in memory");
    bw_graph *g = bw_graph__new(&p, rows->n);
    if (!g)
        return bw_fail_nomem(ctx);
    if (rows->n >= BW_GRAPH_NODES_MIN)
        st = nodes_link(ctx, g, &p, data);
    if (st == BW_OK && g->nodes > 0)
        st = bw_graph__tune(ctx, g, rows);
    if (st != BW_OK) {
        bw_graph__free(&g->base);
        return st;
    }
    g->params.threads = 0;
    g->params.stop = NULL;
    *out = &g->base;
    return BW_OK;
}
