/* The saved form of the kind "graph", and its reader.
 *
 *   0   8  "BWGRAPH3"
 *   8   4  metric (bw_metric)         12  4  dim
 *   16  4  R                          20  4  ef_construction
 *   24  8  seed                       32  8  rows n
 *   40  4  nodes; 0: scanned, and nothing follows
 *   44  4  lanes of the entry row     48  4  1: nodes have tables of rows, 0: node = row
 *   52  4  rungs of the ladder        56  4  scale (f32)       60  4  length (f32)
 *   then  mean        dim f32
 *         rungs       each effort u32, recall f32
 *         first       nodes + 1 u32, and members n u32, if there are tables
 *         entry row   bw_rabitq_layout_of(L2, padded dim, lanes).stride bytes
 *         rows        nodes × bw_rabitq_layout_of(L2, padded dim, R).stride bytes
 * in the machine's own order (x86-64 and ARM64 are both little-endian).
 *
 * The caller adds a MAC and checks it before load. Every field is checked here all the
 * same: a number that leads outside the tables must not get past this file. The rotation
 * is not saved: it follows from seed and dim. */
#include "graph.h"

#include <math.h>

typedef struct graph_header {
    char magic[8];
    uint32_t metric, dim, R, ef_construction;
    uint64_t seed, n;
    uint32_t nodes, lanes, tables, nrungs;
    float scale, length;
} graph_header;
static_assert(sizeof(graph_header) == 64, "stored size");
static_assert(sizeof(bw_graph_rung) == 8, "stored size");

static graph_header header_of(const bw_graph *g)
{
    graph_header h = {.metric = (uint32_t)g->params.metric,
                      .dim = g->params.dim,
                      .R = g->params.M,
                      .ef_construction = g->params.ef_construction,
                      .seed = g->params.seed,
                      .n = g->n,
                      .nodes = g->nodes};
    memcpy(h.magic, "BWGRAPH3", sizeof h.magic);
    if (g->nodes > 0) {
        h.lanes = g->wide.R;
        h.tables = g->first != NULL;
        h.nrungs = g->nrungs;
        h.scale = g->scale;
        h.length = g->length;
    }
    return h;
}

bw_status bw_graph__save(bw_ctx *ctx, const bw_index *ix, bw_buf *out)
{
    const bw_graph *g = (const bw_graph *)ix;
    const graph_header h = header_of(g);
    bw_buf_put(out, &h, sizeof h);
    if (g->nodes > 0) {
        bw_buf_put(out, g->mean, g->params.dim * sizeof *g->mean);
        bw_buf_put(out, g->rungs, g->nrungs * sizeof *g->rungs);
        if (g->first) {
            bw_buf_put(out, g->first, ((size_t)g->nodes + 1) * sizeof *g->first);
            bw_buf_put(out, g->members, g->n * sizeof *g->members);
        }
        bw_buf_put(out, g->entry, g->wide.stride);
        bw_buf_put(out, g->block, (size_t)g->nodes * g->row.stride);
    }
    return out->failed ? bw_fail_nomem(ctx) : BW_OK;
}

/* ---- reading ---- */

typedef struct cursor {
    const char *at;
    size_t left;
} cursor;

static bool take(cursor *c, void *to, size_t n)
{
    if (n > c->left)
        return false;
    memcpy(to, c->at, n);
    c->at += n;
    c->left -= n;
    return true;
}

/* Lanes in use come first; a free one is exactly as bw_rabitq_row_init leaves it. */
static bool lanes_fit(const bw_rabitq_layout *l, const uint8_t *row, uint32_t nodes)
{
    const uint32_t *ids = bw_rabitq_row_ids(l, row);
    bool free_seen = false;
    for (uint32_t lane = 0; lane < l->R; lane++) {
        uint16_t add, rescale;
        memcpy(&add, row + l->add + 2 * (size_t)lane, sizeof add);
        memcpy(&rescale, row + l->rescale + 2 * (size_t)lane, sizeof rescale);
        if (ids[lane] == BW_RABITQ_NONE) {
            free_seen = true;
            if (add != 0x7C00 || rescale != 0)
                return false;
        } else if (free_seen || ids[lane] >= nodes || (add & 0x7C00) == 0x7C00 ||
                   (rescale & 0x7C00) == 0x7C00) {
            return false;
        }
    }
    return true;
}

static bool row_fits(const bw_rabitq_layout *l, const uint8_t *row, uint32_t nodes)
{
    bw_rabitq_own own;
    memcpy(&own, row + l->factors, sizeof own);
    if (!isfinite(own.add) || !isfinite(own.rescale))
        return false;
    for (uint32_t i = 0; i < l->dim; i++) /* −128 would be no code */
        if (row[l->own + i] == 0x80)
            return false;
    return lanes_fit(l, row, nodes);
}

static bool rungs_fit(const bw_graph *g)
{
    for (uint32_t i = 0; i < g->nrungs; i++) {
        const bw_graph_rung *r = &g->rungs[i];
        if (r->effort == 0 || r->effort > BW_GRAPH_EF_MAX ||
            !(r->recall >= 0 && r->recall <= 1))
            return false;
        if (i > 0 && (r[-1].effort >= r->effort || r[-1].recall > r->recall))
            return false;
    }
    return true;
}

/* Every row in one node, a node's rows rising. */
static bool tables_fit(const bw_graph *g, uint64_t *seen)
{
    if (g->first[0] != 0 || g->first[g->nodes] != g->n)
        return false;
    for (uint32_t i = 0; i < g->nodes; i++) {
        if (g->first[i] >= g->first[i + 1] || g->first[i + 1] > g->n)
            return false;
        for (uint32_t j = g->first[i]; j < g->first[i + 1]; j++) {
            const uint32_t row = g->members[j];
            if (row >= g->n || (seen[row / 64] >> (row % 64) & 1) ||
                (j > g->first[i] && row <= g->members[j - 1]))
                return false;
            seen[row / 64] |= (uint64_t)1 << (row % 64);
        }
    }
    return true;
}

static bw_status corrupt(bw_ctx *ctx, const char *what)
{
    return bw_fail(ctx, BW_ECORRUPT, "saved graph: %s", what);
}

static bw_status tables_read(bw_ctx *ctx, bw_graph *g, cursor *c)
{
    const size_t nfirst = (size_t)g->nodes + 1;
    if (g->nodes == g->n || (nfirst + g->n) * sizeof *g->first > c->left)
        return corrupt(ctx, "tables of rows");
    g->first = bw_alloc(nfirst * sizeof *g->first);
    g->members = bw_alloc(g->n * sizeof *g->members);
    uint64_t *seen = bw_calloc(bw_bitmap_words(g->n), sizeof *seen);
    bw_status st = BW_OK;
    if (!g->first || !g->members || !seen)
        st = bw_fail_nomem(ctx);
    else if (!take(c, g->first, nfirst * sizeof *g->first) ||
             !take(c, g->members, g->n * sizeof *g->members) || !tables_fit(g, seen))
        st = corrupt(ctx, "tables of rows");
    bw_free(seen);
    return st;
}

static bw_status rows_read(bw_ctx *ctx, bw_graph *g, cursor *c)
{
    const size_t bytes = (size_t)g->nodes * g->row.stride; /* nodes, stride < 2^31 */
    if (c->left != g->wide.stride + bytes)
        return corrupt(ctx, "its length");
    g->entry = bw_alloc_vectors(g->wide.stride);
    g->rotate = bw_rotate_new(g->params.dim, g->params.seed);
    if (!g->entry || !g->rotate || !bw_graph__block_new(g))
        return bw_fail_nomem(ctx);
    if (!take(c, g->entry, g->wide.stride) || !take(c, g->block, bytes))
        return corrupt(ctx, "its length");
    if (!row_fits(&g->wide, g->entry, g->nodes))
        return corrupt(ctx, "the entry row");
    for (uint32_t i = 0; i < g->nodes; i++)
        if (!row_fits(&g->row, bw_graph_row(g, i), g->nodes))
            return corrupt(ctx, "a row");
    return BW_OK;
}

static bool power_of_two(float v)
{
    int e;
    return isfinite(v) && v > 0 && frexpf(v, &e) == 0.5f;
}

static bw_status graph_read(bw_ctx *ctx, bw_graph *g, const graph_header *h, cursor *c)
{
    if (h->nodes > h->n || h->nodes < BW_GRAPH_NODES_MIN || h->lanes == 0 ||
        h->lanes % 32 != 0 || h->lanes > BW_GRAPH_ENTRIES_MAX || h->tables > 1 ||
        (h->tables == 0) != (h->nodes == h->n) || h->nrungs > BW_GRAPH_RUNGS ||
        !power_of_two(h->scale) || !isfinite(h->length) || h->length < 0)
        return corrupt(ctx, "its header");
    const uint32_t padded = bw_rotate_padded(g->params.dim);
    g->nodes = h->nodes;
    g->nrungs = h->nrungs;
    g->scale = h->scale;
    g->length = h->length;
    g->row = bw_rabitq_layout_of(BW_RABITQ_L2, padded, g->params.M);
    g->wide = bw_rabitq_layout_of(BW_RABITQ_L2, padded, h->lanes);
    g->mean = bw_alloc(g->params.dim * sizeof *g->mean);
    if (!g->mean)
        return bw_fail_nomem(ctx);
    if (!take(c, g->mean, g->params.dim * sizeof *g->mean) ||
        !take(c, g->rungs, g->nrungs * sizeof *g->rungs) || !rungs_fit(g))
        return corrupt(ctx, "mean or ladder");
    for (uint32_t i = 0; i < g->params.dim; i++)
        if (!isfinite(g->mean[i]))
            return corrupt(ctx, "mean or ladder");
    const bw_status st = h->tables ? tables_read(ctx, g, c) : BW_OK;
    return st == BW_OK ? rows_read(ctx, g, c) : st;
}

bw_status bw_graph__load(bw_ctx *ctx, const bw_index_params *in, const void *bytes,
                         size_t n, bw_index **out)
{
    graph_header h;
    cursor c = {bytes, n};
    if (!take(&c, &h, sizeof h))
        return corrupt(ctx, "it is cut off");
    if (h.n > INT32_MAX)
        return corrupt(ctx, "its header");
    bw_index_params p;
    bw_status st = bw_graph__params(ctx, in, (size_t)h.n, &p);
    if (st != BW_OK)
        return st;
    bw_graph *g = bw_graph__new(&p, (size_t)h.n);
    if (!g)
        return bw_fail_nomem(ctx);
    g->params.threads = 0;
    g->params.stop = NULL;
    graph_header expected = header_of(g);
    expected.nodes = h.nodes;
    if (h.nodes > 0) {
        expected.lanes = h.lanes;
        expected.tables = h.tables;
        expected.nrungs = h.nrungs;
        expected.scale = h.scale;
        expected.length = h.length;
    }
    if (memcmp(&h, &expected, sizeof h) != 0)
        st = corrupt(ctx, "it has other parameters");
    else if (h.nodes > 0)
        st = graph_read(ctx, g, &h, &c);
    else if (c.left > 0)
        st = corrupt(ctx, "its length");
    if (st != BW_OK) {
        bw_graph__free(&g->base);
        return st;
    }
    *out = &g->base;
    return BW_OK;
}
