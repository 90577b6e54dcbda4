/* The k best of a stream in a total order: key falling, then point id rising, then
 * partition (partitions are numbered by rising class id) and row. The order of
 * pushing never matters, so any number of threads and any ISA give the same list. */
#ifndef BW_TOPK_H
#define BW_TOPK_H
#include "../base/base.h"

typedef struct bw_candidate {
    float key; /* larger is better; never NaN */
    uint32_t part, row;
    bw_point_id id;
} bw_candidate;

typedef struct bw_topk {
    bw_candidate *items; /* k entries of the caller's storage; a heap, worst first */
    size_t k, n;
} bw_topk;

static inline void bw_topk_init(bw_topk *t, bw_candidate *items, size_t k)
{
    t->items = items;
    t->k = k;
    t->n = 0;
}
int bw_candidate_cmp(const bw_candidate *a, const bw_candidate *b); /* <0: a is better */
/* True when a key could still enter: the quick test before building a candidate. */
static inline bool bw_topk_wants(const bw_topk *t, float key)
{
    return t->n < t->k || (t->k > 0 && key >= t->items[0].key);
}
void bw_topk_push(bw_topk *t, const bw_candidate *c);
void bw_topk_sort(bw_topk *t); /* best first; the heap is over */
#endif
