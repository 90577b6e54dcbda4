/* The stored rows of one block, as an index looks at them: in memory or on file.
 *
 * "Exact" means exact in the stored precision: a row's key is what the f32 kernel
 * (kernels/kernels.h, its fixed order of sums) gives over the row decoded to f32. Rows
 * in memory go through the typed kernels, rows on file come decoded through fetch; the
 * bits are the same either way. */
#ifndef BW_ROWS_VIEW_H
#define BW_ROWS_VIEW_H
#include "../kernels/kernels.h"

/* Borrowed; immutable below n while a reader holds it. */
typedef struct bw_rows {
    bw_dtype dtype;
    uint32_t dim;
    size_t n;
    const void *data;    /* n × dim of dtype, 64-byte aligned; NULL: on file, through fetch */
    const float *scales; /* n of them for int8; else NULL */
    /* out[i] = row which[i] decoded, i < n; out is n × dim f32. May fail (I/O, damage). */
    bw_status (*fetch)(bw_ctx *ctx, void *arg, const uint32_t *which, size_t n, float *out);
    void *arg;
} bw_rows;

/* keys[i] = ranking key (larger is better, never NaN) of query and row which[i], i < n;
 * the bits of the flat scan. Rising `which` is fastest. On failure keys are undefined.
 * Rows on file come in batches of at most BW_ROWS_FETCH_BYTES from ctx's arena. */
BW_MUST_USE bw_status bw_rows_keys(bw_ctx *ctx, const bw_rows *rows, bw_metric metric,
                                   const float *query, const uint32_t *which, size_t n,
                                   float *keys);
/* out[i] = row which[i] decoded to f32; out is n × dim. */
BW_MUST_USE bw_status bw_rows_get(bw_ctx *ctx, const bw_rows *rows, const uint32_t *which,
                                  size_t n, float *out);

enum { BW_ROWS_FETCH_BYTES = 256 * 1024 }; /* of decoded rows at once; one row at least */
#endif
