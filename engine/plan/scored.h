/* A leaf that scores rows one by one (recommend by examples, BM25). Private to plan/.
 */
#ifndef BW_SCORED_H
#define BW_SCORED_H
#include "plan.h"

/* *takes false: the row takes no part. key must not be NaN. What it puts into ctx's arena
 * is gone after the call. */
typedef bw_status (*bw_score_fn)(void *arg, uint32_t part, uint32_t row, float *key,
                                 bool *takes);
/* The rows of a partition worth asking about, before the scope; NULL fn: all visible.
 */
typedef bw_status (*bw_matched_fn)(void *arg, uint32_t part, bw_bitmap *rows);

BW_MUST_USE bw_status bw_scan_scored(bw_plan *p, const bw_leaf *leaf, const char *kind,
                                     bw_matched_fn rows, bw_score_fn score, void *arg,
                                     bw_list *out);
#endif
