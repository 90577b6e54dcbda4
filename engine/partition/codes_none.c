/* Stands in for index/codes.h and rows_view.h until their code is there; goes then. */
#include "rows.h"

#define WEAK __attribute__((weak))

WEAK bool bw_codes_metric(bw_metric metric)
{
    (void)metric;
    return false;
}

WEAK bw_codes *bw_codes_new(bw_metric metric, uint32_t dim, uint32_t cap)
{
    (void)metric, (void)dim, (void)cap;
    return NULL;
}

WEAK void bw_codes_free(bw_codes *c)
{
    (void)c;
}

WEAK size_t bw_codes_bytes(const bw_codes *c)
{
    (void)c;
    return 0;
}

WEAK void bw_codes_put(bw_codes *c, uint32_t row, const float *decoded)
{
    (void)c, (void)row, (void)decoded;
}

WEAK bw_status bw_codes_scan(bw_ctx *ctx, const bw_codes *codes, const bw_rows *rows,
                             const bw_codes_query *qs, size_t nq, const bw_point_id *ids,
                             uint32_t part, uint32_t row0, uint64_t *rescored)
{
    (void)codes, (void)rows, (void)qs, (void)nq, (void)ids, (void)part, (void)row0,
        (void)rescored;
    return bw_fail(ctx, BW_EINTERNAL, "no codes");
}

WEAK bw_status bw_rows_keys(bw_ctx *ctx, const bw_rows *rows, bw_metric metric,
                            const float *query, const uint32_t *which, size_t n,
                            float *keys)
{
    (void)rows, (void)metric, (void)query, (void)which, (void)n, (void)keys;
    return bw_fail(ctx, BW_EINTERNAL, "no view");
}
