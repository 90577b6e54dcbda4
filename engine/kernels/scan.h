/* The flat scan over rows in stored precision: every allowed row into the heap of every
 * query that may see it, exactly. */
#ifndef BW_SCAN_H
#define BW_SCAN_H
#include "kernels.h"

/* The rows of one block; all borrowed. */
typedef struct bw_scan_input {
    bw_metric metric;
    bw_dtype dtype;
    const void *rows;       /* n × dim elements, row-major */
    const float *scales;    /* n (int8), else NULL */
    const bw_point_id *ids; /* n, the tie-break */
    size_t n, dim;
    uint32_t part, row0; /* what the hits are labelled with: row0 + i */
} bw_scan_input;

typedef struct bw_scan_query {
    const float *query;       /* dim f32 */
    const bw_bitmap *allowed; /* 1 = may be looked at; never NULL; past its end: forbidden */
    bw_topk *out;             /* in place, so blocks can be chained; one a query */
} bw_scan_query;

/* A row that no query may see is neither loaded nor prefetched; a row is loaded once
 * for all queries that may see it, and no other query is compared with it. Queries with
 * one set of rights should lie side by side and share the bitmap's pointer. The lists
 * equal those of each query alone, bits included. Any nq: BW_SCAN_QUERIES_MAX share a
 * pass over the rows. Cannot fail. */
enum { BW_SCAN_QUERIES_MAX = 64 };
void bw_scan_rows(const bw_kernels *k, const bw_scan_input *in, const bw_scan_query *q);
void bw_scan_block(const bw_kernels *k, const bw_scan_input *in, const bw_scan_query *qs,
                   size_t nq);
#endif
