/* A leaf over all partitions through one chained heap: rows scored one by one (recommend
 * by examples), or a partition's best found by other means (BM25). Private to plan/. */
#ifndef BW_SCORED_H
#define BW_SCORED_H
#include "plan.h"

/* *takes false: the row takes no part. key must not be NaN. What it puts into ctx's arena
 * is gone after the call. */
typedef bw_status (*bw_score_fn)(void *arg, uint32_t part, uint32_t row, float *key,
                                 bool *takes);
BW_MUST_USE bw_status bw_scan_scored(bw_plan *p, const bw_leaf *leaf, const char *kind,
                                     bw_score_fn score, void *arg, bw_list *out);

/* The rows of a partition that can have a score, visible or not. A scope with a filter
 * looks at these alone, since few rows hold a word; explain counts them. */
typedef void (*bw_matched_fn)(void *arg, uint32_t part, bw_bitmap *rows);
/* The best of the rows into the heap. */
typedef bw_status (*bw_best_fn)(void *arg, uint32_t part, const bw_bitmap *rows,
                                bw_topk *heap);
BW_MUST_USE bw_status bw_scan_best(bw_plan *p, const bw_leaf *leaf, const char *kind,
                                   bw_matched_fn matched, bw_best_fn best, void *arg,
                                   bw_list *out);
#endif
