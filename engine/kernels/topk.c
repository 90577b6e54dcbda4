/* The k best candidates of a stream: a binary heap with the worst on top.
 *
 * Everything that ranks goes through here (scan, FAISS after rescoring, sparse lists,
 * merging of partitions), so that one total order holds at every level. Because the
 * order is total, the list that is left does not depend on the order of pushing.
 * Leaves out: the turn from key to the surface's score (engine/plan/score.h). */
#include "topk.h"

int bw_candidate_cmp(const bw_candidate *a, const bw_candidate *b)
{
    /* Floats compare by value: −0 and +0 tie, and the id decides. */
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    int c = bw_point_id_cmp(&a->id, &b->id);
    if (c != 0)
        return c < 0 ? -1 : 1;
    if (a->part != b->part)
        return a->part < b->part ? -1 : 1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return 0;
}

/* Moves c down from the hole at i until no child is worse. */
static void sift_down(bw_candidate *items, size_t n, size_t i, const bw_candidate *c)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && bw_candidate_cmp(&items[child + 1], &items[child]) > 0)
            child++;
        if (bw_candidate_cmp(&items[child], c) <= 0)
            break;
        items[i] = items[child];
        i = child;
    }
    items[i] = *c;
}

void bw_topk_push(bw_topk *t, const bw_candidate *c)
{
    assert(c->key == c->key); /* NaN has no place in an order */
    const bw_candidate in = *c;
    if (t->n < t->k) {
        size_t i = t->n++;
        while (i > 0) {
            size_t parent = (i - 1) / 2;
            if (bw_candidate_cmp(&in, &t->items[parent]) <= 0)
                break;
            t->items[i] = t->items[parent];
            i = parent;
        }
        t->items[i] = in;
        return;
    }
    if (t->k == 0 || bw_candidate_cmp(&in, &t->items[0]) >= 0)
        return;
    sift_down(t->items, t->n, 0, &in);
}

void bw_topk_sort(bw_topk *t)
{
    for (size_t n = t->n; n > 1; n--) {
        const bw_candidate last = t->items[n - 1];
        t->items[n - 1] = t->items[0];
        sift_down(t->items, n - 1, 0, &last);
    }
}
