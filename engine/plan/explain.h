/* The plan as JSON: what was done where, in permitted partitions only, without times,
 * so that the same data and query give the same bytes. Private to plan/. */
#ifndef BW_EXPLAIN_H
#define BW_EXPLAIN_H
#include "plan.h"

typedef struct bw_explain_step {
    uint32_t part;
    const char *filter; /* "none", "index", "scan", "kept" (by an earlier search of the
                           request) */
    uint64_t rows_read; /* payloads read by the filter */
    bw_search_trace search;
} bw_explain_step;

typedef struct bw_explain_search { /* one leaf */
    struct bw_explain_search *next;
    const char *kind;
    bw_explain_step
        steps[BW_PLAN_EXPLAIN_STEPS_MAX]; /* by partition; the rest is summed */
    size_t nsteps, partitions;
    uint32_t last; /* partition of the latest step + 1 */
    uint64_t rows_read;
    bw_search_trace total;
} bw_explain_search;

/* A walk in id order over all partitions at once: sums only. */
void bw_explain_walk(bw_explain_search *s, size_t partitions, uint64_t rows_read,
                     uint64_t steps);

struct bw_explain {
    bw_explain_search *first, **last;
};
#endif
