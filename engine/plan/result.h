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
/* Whether a read that failed with st is to be made once more, from the beginning: rows on
 * file were damaged, and the next view makes them again. Gives back what the first try
 * took from the arena. */
bool bw_read_again(bw_ctx *ctx, bw_engine *engine, bw_status st, bw_arena_mark mark);
/* Ends the search: explain text, lookup views. On failure frees the result and passes
 * the status on. */
BW_MUST_USE bw_status bw_result_close(bw_result *r, bw_status status, bw_result **out);
BW_MUST_USE bw_status bw_result_fill(bw_result *r, const bw_scored *items, size_t n,
                                     bool scores, bw_hits *out);
#endif
