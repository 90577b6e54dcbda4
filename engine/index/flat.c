/* The flat kind: no structure at all, every allowed row is looked at, so it is exact.
 *
 * The rows stay where the segment keeps them (bw_index_search.rows); the index is only
 * their count. It is the default below some 50,000 rows, takes every metric, and is the
 * way out of the approximate kinds when a filter leaves too little. */
#include "../kernels/scan.h"
#include "kinds.h"

typedef struct flat_index {
    bw_index base;
    bw_metric metric;
    uint32_t dim;
    size_t n;
} flat_index;

/* Rows that are not in memory, some at a time. */
static bw_status scan_fetched(bw_ctx *ctx, bw_metric metric, size_t n,
                              const bw_index_search *s, bw_topk *out)
{
    enum { FETCH_ROWS = 64 };
    uint32_t which[FETCH_ROWS];
    float keys[FETCH_ROWS];
    bw_status st = BW_OK;
    for (size_t i = bw_bitmap_next(s->allowed, 0); st == BW_OK && i < n;) {
        size_t m = 0;
        for (; m < FETCH_ROWS && i < n; i = bw_bitmap_next(s->allowed, i + 1))
            which[m++] = (uint32_t)i;
        st = bw_rows_keys(ctx, s->rows, metric, s->query, which, m, keys);
        for (size_t j = 0; st == BW_OK && j < m; j++) {
            const bw_candidate c = {keys[j], s->part, s->row0 + which[j],
                                    s->ids[which[j]]};
            if (bw_topk_wants(out, c.key))
                bw_topk_push(out, &c);
        }
        if (st == BW_OK)
            st = bw_ctx_check(ctx);
    }
    return st;
}

bw_status bw_index__scan(bw_ctx *ctx, bw_metric metric, size_t n, uint32_t dim,
                         const bw_index_search *s, bw_topk *out)
{
    assert(s->rows->dim == dim && s->rows->n >= n);
    if (!s->rows->data)
        return scan_fetched(ctx, metric, n, s, out);
    const bw_scan_input in = {.metric = metric,
                              .dtype = s->rows->dtype,
                              .rows = s->rows->data,
                              .scales = s->rows->scales,
                              .ids = s->ids,
                              .n = n,
                              .dim = dim,
                              .part = s->part,
                              .row0 = s->row0};
    const bw_scan_query q = {s->query, s->allowed, out};
    bw_scan_rows(bw_kernels_get(), &in, &q);
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
