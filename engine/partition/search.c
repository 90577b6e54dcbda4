/* Dense and sparse search in one snapshot.
 *
 * A few allowed rows are scanned, whatever graphs there are: exact, and faster than a
 * graph with a narrow filter. Above that each sealed segment that has adopted its
 * graph is asked through it, the rest is scanned. Every block pushes into the same
 * heap, whose order is total, so blocks may come in any order. */
#include "../kernels/kernels.h"
#include "part.h"

/* The bits of a block's rows. Rows without gaps: a shifted copy; else one by one. */
static bw_status local_bits(bw_ctx *ctx, const bw_block_ref *r,
                            const bw_bitmap *allowed, bool gapless, bw_bitmap *out)
{
    bw_status st = bw_bitmap_arena(ctx, r->n, out);
    if (st != BW_OK)
        return st;
    if (!gapless) {
        for (uint32_t i = 0; i < r->n; i++)
            if (bw_bitmap_get(allowed, r->b->ord[i]))
                bw_bitmap_set(out, i);
        return BW_OK;
    }
    size_t from = r->b->ord[0], shift = from % 64, word = from / 64;
    size_t have = bw_bitmap_words(allowed->nbits), need = bw_bitmap_words(r->n);
    for (size_t i = 0; i < need; i++) {
        uint64_t lo = word + i < have ? allowed->words[word + i] : 0;
        uint64_t hi = word + i + 1 < have ? allowed->words[word + i + 1] : 0;
        out->words[i] = shift ? lo >> shift | hi << (64 - shift) : lo;
    }
    if (r->n % 64)
        out->words[need - 1] &= ((uint64_t)1 << (r->n % 64)) - 1;
    return BW_OK;
}

typedef struct search {
    const float *query;
    const bw_search_params *p;
    bw_metric metric;
    bool graphs;
} search;

static bw_status search_rows(bw_ctx *ctx, const search *q, const bw_block_ref *r,
                             const bw_index *graph, const bw_bitmap *bits,
                             uint32_t row0, bw_topk *out)
{
    const bw_matrix *m = r->b->m;
    if (!graph) {
        bw_scan_f32(bw_kernels_get(), q->metric, q->query, m->data, r->n, m->dim, bits,
                    m->ids, q->p->part, row0, out);
        return BW_OK;
    }
    const bw_rows rows = {
        .dtype = BW_DTYPE_F32, .dim = m->dim, .n = r->n, .data = m->data};
    bw_index_search s = {.query = q->query,
                         .k = q->p->k,
                         .effort = q->p->ef_search,
                         .allowed = bits,
                         .ids = m->ids,
                         .part = q->p->part,
                         .row0 = row0,
                         .rows = &rows};
    return graph->ops->search(ctx, graph, &s, out);
}

static bw_status search_block(bw_ctx *ctx, const bw_snapshot *s, const search *q,
                              const bw_block_ref *r, bw_topk *out,
                              bw_search_trace *trace)
{
    const uint32_t *ord = r->b->ord;
    bool gapless = ord[r->n - 1] - ord[0] == r->n - 1;
    bw_bitmap bits;
    bw_status st = local_bits(ctx, r, q->p->allowed, gapless, &bits);
    if (st != BW_OK)
        return st;
    size_t n = bw_bitmap_count(&bits);
    if (n == 0)
        return BW_OK;
    const bw_index *graph = NULL;
    if (q->graphs && r->seg >= 0 && s->segs[r->seg].p.adopted)
        graph = bw_build_index(r->b->m);
    if (trace) {
        trace->rows_scanned += graph ? 0 : n;
        trace->segments_graph += graph ? 1 : 0;
        trace->segments_flat += graph ? 0 : 1;
    }
    if (gapless)
        return search_rows(ctx, q, r, graph, &bits, ord[0], out);
    bw_topk local;
    size_t k = q->p->k < n ? q->p->k : n;
    bw_candidate *items = bw_arena_calloc(ctx, k, sizeof *items);
    if (!items)
        return BW_ENOMEM;
    bw_topk_init(&local, items, k);
    st = search_rows(ctx, q, r, graph, &bits, 0, &local);
    for (size_t i = 0; st == BW_OK && i < local.n; i++) {
        bw_candidate c = local.items[i];
        c.row = ord[c.row];
        bw_topk_push(out, &c);
    }
    return st;
}

bw_status bw_snapshot_search_dense(bw_ctx *ctx, const bw_snapshot *s,
                                   const float *query, const bw_search_params *p,
                                   bw_topk *out, bw_search_trace *trace)
{
    search q = {query, p, s->part->specs[p->vec].metric, false};
    q.graphs = !p->exact && bw_bitmap_count(p->allowed) >= s->part->env->graph_rows_min;
    for (uint32_t i = 0; i < s->vecs[p->vec].n; i++) {
        const bw_block_ref *r = &s->vecs[p->vec].items[i];
        if (r->n == 0)
            continue;
        bw_arena_mark mark = bw_arena_mark_get(ctx);
        bw_status st = search_block(ctx, s, &q, r, out, trace);
        bw_arena_release(ctx, mark);
        if (st == BW_OK)
            st = bw_ctx_check(ctx);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

bw_status bw_snapshot_sparse_df(bw_ctx *ctx, const bw_snapshot *s, uint32_t vec,
                                const uint32_t *indices, size_t n,
                                const bw_bitmap *visible, uint64_t *df)
{
    bw_snapshot_index_rdlock(s);
    bw_status st = bw_sparse_df(ctx, s->gen->sparse[vec], indices, n, visible, df);
    bw_snapshot_index_unlock(s);
    return st;
}

bw_status bw_snapshot_search_sparse(bw_ctx *ctx, const bw_snapshot *s,
                                    const bw_vector *query, const bw_search_params *p,
                                    bw_topk *out, bw_search_trace *trace)
{
    bw_snapshot_index_rdlock(s);
    /* The table is read under the lock too: lists may name rows that s does not cover,
     * and those are not allowed, but their ids may be looked at. */
    bw_status st =
        bw_sparse_search(ctx, s->gen->sparse[p->vec], query->indices, query->values,
                         query->n, p->allowed, bw_gen_rows(s->gen)->ids, p->part, out);
    bw_snapshot_index_unlock(s);
    if (trace)
        trace->segments_flat++;
    return st;
}
