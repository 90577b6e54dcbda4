/* The flat kind: no structure at all, every allowed row is looked at, so it is exact.
 *
 * The rows stay where the segment keeps them (bw_index_search.rows); the index is only
 * their count. It is the default below some 50,000 rows, takes every metric, and is the
 * way out of the approximate kinds when a filter leaves too little. */
#include "kinds.h"

typedef struct flat_index {
    bw_index base;
    bw_metric metric;
    uint32_t dim;
    size_t n;
} flat_index;

bw_status bw_index__scan(bw_ctx *ctx, bw_metric metric, size_t n, uint32_t dim,
                         const bw_index_search *s, bw_topk *out)
{
    const float *rows = bw_index__f32(s->rows);
    assert(s->rows->dim == dim && s->rows->n >= n);
    if (!rows)
        return bw_fail(ctx, BW_EINTERNAL, "the rows to scan are not in memory");
    bw_scan_f32(bw_kernels_get(), metric, s->query, rows, n, dim, s->allowed, s->ids,
                s->part, s->row0, out);
    return BW_OK;
}

static bw_status flat_build(bw_ctx *ctx, const bw_index_params *params,
                            const bw_rows *rows, bw_index **out)
{
    flat_index *f = bw_calloc(1, sizeof *f);
    if (!f)
        return bw_fail_nomem(ctx);
    f->base.ops = &bw_index__flat;
    f->metric = params->metric;
    f->dim = params->dim;
    f->n = rows->n;
    *out = &f->base;
    return BW_OK;
}

static bw_status flat_search(bw_ctx *ctx, const bw_index *ix, const bw_index_search *s,
                             bw_topk *out)
{
    const flat_index *f = (const flat_index *)ix;
    return bw_index__scan(ctx, f->metric, f->n, f->dim, s, out);
}

static size_t flat_bytes(const bw_index *ix)
{
    (void)ix;
    return sizeof(flat_index);
}

static void flat_free(bw_index *ix)
{
    bw_free(ix);
}

const bw_index_ops bw_index__flat = {
    .name = "flat",
    .exact = true,
    .filtered = true,
    .metrics = {true, true, true, true},
    .build = flat_build,
    .search = flat_search,
    .bytes = flat_bytes,
    .free = flat_free,
};
