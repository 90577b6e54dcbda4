/* A read's answer and the view that its hits borrow from. Private to plan/. */
#ifndef BW_RESULT_H
#define BW_RESULT_H
#include "plan.h"

typedef struct bw_hits {
    bw_hit *items;
    size_t n;
} bw_hits;

struct bw_result {
    bw_view view; /* snapshots stay counted until the result is freed */
    bw_plan plan;
    bw_hits *queries;
    size_t nqueries;
    bw_group *groups;
    size_t ngroups;
    bool has_next;
    bw_point_id next;
    const char *explain;
};

/* Opens the view and the plan; on failure nothing is left open. */
BW_MUST_USE bw_status bw_result_open(bw_ctx *ctx, bw_engine *engine,
                                     const bw_read *read, size_t nqueries,
                                     bw_result **out);
/* One read of arg's kind: opens a result, fills it, closes it. */
typedef bw_status (*bw_read_fn)(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                                const void *arg, bw_result **out);
/* fn; and once more from the beginning, with what the first try took from the arena given
 * back, if it failed on rows on file that were damaged: the next view makes them again. */
BW_MUST_USE bw_status bw_read_run(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                                  bw_read_fn fn, const void *arg, bw_result **out);
/* Ends the search: explain text, lookup views. On failure frees the result and passes
 * the status on. */
BW_MUST_USE bw_status bw_result_close(bw_result *r, bw_status status, bw_result **out);
BW_MUST_USE bw_status bw_result_fill(bw_result *r, const bw_scored *items, size_t n,
                                     bool scores, bw_hits *out);
#endif
