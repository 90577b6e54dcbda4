/* Lists of scored points: order, threshold, union, fusion, MMR.
 *
 * Fusion follows Qdrant's engine to the formula (checked against it): RRF sums
 * 1/((rank+1)/w + k − 1) with ranks from 0; DBSF scales each list by its own mean and
 * three deviations (n−1) of the *surface* scores and sums. So for Euclid and Manhattan
 * DBSF rewards distance, there as here; RRF is the fusion to use with them. Sums run in
 * double in the order of the prefetches and are rounded once. */
#include "plan.h"
#include <math.h>
#include <stdlib.h>

static int cmp_best(const void *a, const void *b)
{
    const bw_scored *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    int c = bw_point_id_cmp(&x->id, &y->id);
    return c != 0 ? c : (x->part > y->part) - (x->part < y->part);
}

static int cmp_row(const void *a, const void *b)
{
    const bw_scored *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

void bw_list_sort(bw_list *l)
{
    if (l->n > 1)
        qsort(l->items, l->n, sizeof *l->items, cmp_best);
}

bw_status bw_list_of_topk(bw_plan *p, bw_topk *t, bool falls, bw_list *out)
{
    bw_topk_sort(t);
    bw_scored *items = bw_arena_alloc(p->ctx, t->n * sizeof *items);
    if (!items)
        return BW_ENOMEM;
    for (size_t i = 0; i < t->n; i++) {
        const bw_candidate *c = &t->items[i];
        items[i] = (bw_scored){.key = c->key,
                               .score = bw_score_of_key(falls, c->key),
                               .part = c->part,
                               .row = c->row,
                               .id = c->id};
    }
    *out = (bw_list){items, t->n, falls};
    return BW_OK;
}

void bw_list_threshold(bw_list *l, float threshold)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (bw_score_passes(l->falls, l->items[i].score, threshold))
            l->items[n++] = l->items[i];
    }
    l->n = n;
}

/* All items of all lists; rank in `row order` is lost, so callers note what they need.
 */
static bw_status gather(bw_plan *p, const bw_list *lists, size_t n, bw_scored **out,
                        size_t *count)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += lists[i].n;
    bw_scored *items = bw_arena_alloc(p->ctx, total * sizeof *items);
    if (!items)
        return BW_ENOMEM;
    total = 0;
    for (size_t i = 0; i < n; i++) {
        if (lists[i].n > 0)
            memcpy(items + total, lists[i].items, lists[i].n * sizeof *items);
        total += lists[i].n;
    }
    *out = items;
    *count = total;
    return BW_OK;
}

bw_status bw_list_union(bw_plan *p, const bw_list *lists, size_t n, bw_list *out)
{
    bw_scored *items;
    size_t count, unique = 0;
    bw_status st = gather(p, lists, n, &items, &count);
    if (st != BW_OK)
        return st;
    qsort(items, count, sizeof *items, cmp_row);
    for (size_t i = 0; i < count; i++) {
        if (unique == 0 || cmp_row(&items[unique - 1], &items[i]) != 0)
            items[unique++] = items[i];
    }
    *out = (bw_list){items, unique, false};
    return BW_OK;
}

/* ---- fusion ---- */

typedef struct share { /* what one list gives to a point */
    bw_scored point;
    double value;
    size_t list;
} share;

static int cmp_share(const void *a, const void *b)
{
    const share *x = a, *y = b;
    int c = cmp_row(&x->point, &y->point);
    return c != 0 ? c : (x->list > y->list) - (x->list < y->list);
}

static bw_status sum_shares(bw_plan *p, share *s, size_t n, bw_list *out)
{
    bw_scored *items = bw_arena_alloc(p->ctx, n * sizeof *items);
    if (!items)
        return BW_ENOMEM;
    size_t unique = 0;
    if (n > 1)
        qsort(s, n, sizeof *s, cmp_share);
    for (size_t i = 0; i < n;) {
        double sum = 0;
        size_t j = i;
        for (; j < n && cmp_row(&s[i].point, &s[j].point) == 0; j++)
            sum += s[j].value;
        items[unique] = s[i].point;
        items[unique].key = items[unique].score = (float)sum;
        items[unique++].has_order = false;
        i = j;
    }
    *out = (bw_list){items, unique, false};
    bw_list_sort(out);
    return BW_OK;
}

static bw_status new_shares(bw_plan *p, const bw_list *lists, size_t n, share **out)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += lists[i].n;
    *out = bw_arena_alloc(p->ctx, total * sizeof **out);
    return *out ? BW_OK : BW_ENOMEM;
}

bw_status bw_fuse_rrf(bw_plan *p, const bw_list *lists, size_t n, double k,
                      const float *weights, bw_list *out)
{
    share *s;
    size_t count = 0;
    bw_status st = new_shares(p, lists, n, &s);
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        double w = weights ? (double)weights[i] : 1.0;
        for (size_t rank = 0; rank < lists[i].n; rank++) {
            /* A weight of 0 gives 1/inf = 0: the list votes for nothing. */
            double value = w > 0 ? 1.0 / (((double)rank + 1.0) / w + k - 1.0) : 0.0;
            s[count++] = (share){lists[i].items[rank], value, i};
        }
    }
    return st == BW_OK ? sum_shares(p, s, count, out) : st;
}

/* Mean and deviation (n−1) of the surface scores; deviation 0 when all are equal. */
static void spread(const bw_list *l, double *mean, double *sigma)
{
    double sum = 0, squares = 0;
    float lo = l->items[0].score, hi = lo;
    for (size_t i = 0; i < l->n; i++) {
        float s = l->items[i].score;
        sum += (double)s;
        lo = s < lo ? s : lo;
        hi = s > hi ? s : hi;
    }
    *mean = sum / (double)l->n;
    for (size_t i = 0; i < l->n; i++) {
        double d = (double)l->items[i].score - *mean;
        squares += d * d;
    }
    *sigma = lo == hi ? 0 : sqrt(squares / ((double)l->n - 1.0));
}

bw_status bw_fuse_dbsf(bw_plan *p, const bw_list *lists, size_t n, bw_list *out)
{
    share *s;
    size_t count = 0;
    bw_status st = new_shares(p, lists, n, &s);
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        double mean = 0, sigma = 0;
        if (lists[i].n > 0)
            spread(&lists[i], &mean, &sigma);
        for (size_t j = 0; j < lists[i].n; j++) {
            double score = (double)lists[i].items[j].score;
            double value = sigma > 0 ? (score - (mean - 3 * sigma)) / (6 * sigma) : 0.5;
            s[count++] = (share){lists[i].items[j], value, i};
        }
    }
    return st == BW_OK ? sum_shares(p, s, count, out) : st;
}

/* ---- maximal marginal relevance ---- */

typedef struct mmr_item {
    bw_vector vector;
    float relevance, nearest; /* likeness to the query, to the nearest of the picked */
    bool picked;
} mmr_item;

static size_t mmr_best(const mmr_item *items, size_t n, float diversity)
{
    size_t best = n;
    float best_value = 0;
    for (size_t i = 0; i < n; i++) {
        if (items[i].picked)
            continue;
        float value =
            (1.0f - diversity) * items[i].relevance - diversity * items[i].nearest;
        if (best == n || value > best_value) {
            best = i;
            best_value = value;
        }
    }
    return best;
}

static bw_status mmr_prepare(bw_plan *p, uint32_t vec, const bw_list *list,
                             mmr_item **out)
{
    bool square = p->view->info.vectors[vec].metric == BW_METRIC_EUCLID &&
                  !p->view->info.vectors[vec].sparse;
    mmr_item *items = bw_arena_calloc(p->ctx, list->n, sizeof *items);
    if (!items)
        return BW_ENOMEM;
    for (size_t i = 0; i < list->n; i++) {
        const bw_scored *s = &list->items[i];
        bool has = false;
        bw_status st =
            bw_row_vector(p, vec, s->part, s->row, &items[i].vector, &has);
        if (st != BW_OK)
            return st;
        bw_require(has); /* it was found by this vector */
        items[i].relevance = square ? -(s->key * s->key) : s->key;
        items[i].nearest = -INFINITY;
    }
    *out = items;
    return BW_OK;
}

/* Picks the best first, then what is like the query and unlike the picked; scores stay
 * what they were. Quadratic only in picks × candidates, both capped. */
bw_status bw_mmr(bw_plan *p, uint32_t vec, float diversity, size_t k, bw_list *list)
{
    const bw_vector_spec *spec = &p->view->info.vectors[vec];
    mmr_item *items = NULL;
    bw_scored *picked = bw_arena_alloc(p->ctx, list->n * sizeof *picked);
    bw_status st = picked ? mmr_prepare(p, vec, list, &items) : BW_ENOMEM;
    size_t n = 0;
    while (st == BW_OK && n < k && n < list->n) {
        size_t best = n == 0 ? 0 : mmr_best(items, list->n, diversity);
        items[best].picked = true;
        picked[n++] = list->items[best];
        for (size_t i = 0; i < list->n; i++) {
            if (items[i].picked)
                continue;
            float likeness =
                bw_vector_likeness(spec, &items[best].vector, &items[i].vector);
            if (likeness > items[i].nearest)
                items[i].nearest = likeness;
        }
        st = bw_ctx_check(p->ctx);
    }
    if (st == BW_OK)
        *list = (bw_list){picked, n, list->falls};
    return st;
}
