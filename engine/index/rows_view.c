/* Keys and values of single stored rows, in memory or through fetch. */
#include "rows_view.h"

/* Rows of one kernel call at most; a run of neighbours goes in one call. */
enum { RUN_MAX = 64, AHEAD = 2, PREFETCH_LINES_MAX = 24 };

/* The scale of a row; only int8 has one. */
static const float *scales_at(const bw_rows *rows, size_t i)
{
    return rows->scales ? rows->scales + i : NULL;
}

static void prefetch(const bw_rows *rows, uint32_t i)
{
    const char *p = bw_row_at(rows->dtype, rows->data, rows->dim, i);
    const size_t bytes = rows->dim * bw_dtype_size(rows->dtype);
    for (size_t o = 0, l = 0; o < bytes && l < PREFETCH_LINES_MAX; o += 64, l++)
        __builtin_prefetch(p + o, 0, 3);
}

static void keys_in_memory(const bw_rows *rows, bw_metric metric, const float *query,
                           const uint32_t *which, size_t n, float *keys)
{
    bw_rows_fn *fn = bw_kernels_get()->rows[rows->dtype][bw_metric_op(metric)];
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && end - i < RUN_MAX && which[end] == which[end - 1] + 1)
            end++;
        for (size_t j = end; j < end + AHEAD && j < n; j++)
            prefetch(rows, which[j]);
        const void *at = bw_row_at(rows->dtype, rows->data, rows->dim, which[i]);
        fn(query, at, scales_at(rows, which[i]), end - i, rows->dim, keys + i);
        i = end;
    }
    bw_keys_turn(metric, keys, n);
}

bw_status bw_rows_keys(bw_ctx *ctx, const bw_rows *rows, bw_metric metric,
                       const float *query, const uint32_t *which, size_t n, float *keys)
{
    if (rows->data) {
        keys_in_memory(rows, metric, query, which, n, keys);
        return BW_OK;
    }
    assert(rows->fetch);
    const size_t row_bytes = rows->dim * sizeof(float);
    size_t batch = row_bytes < BW_ROWS_FETCH_BYTES ? BW_ROWS_FETCH_BYTES / row_bytes : 1;
    if (batch > n)
        batch = n;
    const bw_arena_mark mark = bw_arena_mark_get(ctx);
    float *buf = bw_arena_alloc(ctx, batch * row_bytes);
    bw_status st = buf ? BW_OK : BW_ENOMEM;
    bw_rows_fn *fn = bw_kernels_get()->rows[BW_DTYPE_F32][bw_metric_op(metric)];
    for (size_t i = 0; i < n && st == BW_OK; i += batch) {
        const size_t m = n - i < batch ? n - i : batch;
        st = rows->fetch(ctx, rows->arg, which + i, m, buf);
        if (st != BW_OK)
            break;
        fn(query, buf, NULL, m, rows->dim, keys + i);
    }
    bw_arena_release(ctx, mark);
    if (st == BW_OK)
        bw_keys_turn(metric, keys, n);
    return st;
}

bw_status bw_rows_get(bw_ctx *ctx, const bw_rows *rows, const uint32_t *which, size_t n,
                      float *out)
{
    if (!rows->data) {
        assert(rows->fetch);
        return rows->fetch(ctx, rows->arg, which, n, out);
    }
    for (size_t i = 0; i < n; i++)
        bw_decode_rows(rows->dtype,
                       bw_row_at(rows->dtype, rows->data, rows->dim, which[i]),
                       scales_at(rows, which[i]), 1, rows->dim, out + i * rows->dim);
    return BW_OK;
}
