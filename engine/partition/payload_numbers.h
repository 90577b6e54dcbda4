/* The numbers of one payload index, each with its row, in order of exact value: a small
 * sorted tail and runs of doubling size (a merge sort that is never finished), so adding
 * costs O(log n) amortised and a look-up O(log² n). Append-only, locked by the index that
 * it lies in. Private to partition/. */
#ifndef BW_PAYLOAD_NUMBERS_H
#define BW_PAYLOAD_NUMBERS_H
#include "payload_index.h"

enum { BW_NUMBERS_TAIL_MAX = 256, BW_NUMBERS_RUNS_MAX = 48 };

typedef struct bw_numbers_item {
    uint64_t bits; /* magnitude, or the double's bits */
    uint32_t row;
    uint32_t kind; /* whole, negative or real */
} bw_numbers_item;

typedef struct bw_numbers_run {
    bw_numbers_item *items;
    size_t n;
} bw_numbers_run;

typedef struct bw_numbers { /* empty when zeroed */
    bw_numbers_run runs[BW_NUMBERS_RUNS_MAX]; /* older and larger first */
    size_t nruns;
    bw_numbers_item *tail; /* sorted; room for tail_cap, at most BW_NUMBERS_TAIL_MAX */
    size_t ntail, tail_cap;
} bw_numbers;

void bw_numbers_clear(bw_numbers *s);
size_t bw_numbers_bytes(const bw_numbers *s); /* of memory, besides the struct */
size_t bw_numbers_count(const bw_numbers *s);
/* false: no memory; what was there stays. */
BW_MUST_USE bool bw_numbers_add(bw_numbers *s, const bw_number *v, uint32_t row);
/* Sets the rows below out->nbits that have a value in the range; ints_only: a whole one. */
void bw_numbers_or(const bw_numbers *s, const bw_range *r, bool ints_only, bw_bitmap *out);
/* Value by value within each run, run after run, until fn returns false in that run. */
void bw_numbers_walk(const bw_numbers *s, bool falling, bw_index_number_fn fn, void *arg);
#endif
