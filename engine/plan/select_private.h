/* Selecting rows with one prepared filter in many partitions. Private to plan/. */
#ifndef BW_SELECT_PRIVATE_H
#define BW_SELECT_PRIVATE_H
#include "filter.h"

typedef struct bw_select_trace {
    bool indexed;       /* no payload was read */
    uint64_t rows_read; /* payloads read */
} bw_select_trace;

/* out: nrows bits, a subset of `within` (may be the same bitmap). */
BW_MUST_USE bw_status bw_select_rows(bw_matcher *m, const bw_snapshot *s,
                                     const bw_collection_info *info,
                                     const bw_bitmap *within, bw_bitmap *out,
                                     bw_select_trace *trace);
/* The first half alone: rows that indexes leave; *exact: they are the answer. */
BW_MUST_USE bw_status bw_select_narrow(bw_matcher *m, const bw_snapshot *s,
                                       const bw_collection_info *info,
                                       const bw_bitmap *within, bw_bitmap *out,
                                       bool *exact);
#endif
