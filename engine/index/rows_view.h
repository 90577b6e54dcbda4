/* The stored rows of one block as an index or a scan sees them: borrowed, immutable
 * below n, in memory or on file, in one of the stored precisions. */
#ifndef BW_INDEX_ROWS_VIEW_H
#define BW_INDEX_ROWS_VIEW_H
#include "../base/base.h"

typedef struct bw_rows {
    bw_dtype dtype;
    uint32_t dim;
    size_t n;
    const void *data; /* n × dim, row-major, 64-byte aligned; NULL: on file, through fetch */
    const float *scales; /* n, of int8 rows; else NULL */
    bw_status (*fetch)(bw_ctx *ctx, void *arg, const uint32_t *rows, size_t n,
                       float *out); /* out: n × dim decoded f32 */
    void *arg;
} bw_rows;

/* keys[i] = the ranking key of row which[i]: larger is better, the same bits as a scan. */
BW_MUST_USE bw_status bw_rows_keys(bw_ctx *ctx, const bw_rows *rows, bw_metric metric,
                                   const float *query, const uint32_t *which, size_t n,
                                   float *keys);
/* out: n × dim, the rows decoded to f32. */
BW_MUST_USE bw_status bw_rows_get(bw_ctx *ctx, const bw_rows *rows,
                                  const uint32_t *which, size_t n, float *out);
#endif
