/* Recommend: search by examples (formulas as Qdrant's engine has them, checked):
 *
 *   average_vector  nearest to avg(pos) + (avg(pos) − avg(neg)); examples count as
 * given best_score      best likeness to a positive > best to a negative: sigma(it),
 * else −sigma(best to a negative); sigma(x) = (x/(1+|x|) + 1)/2 sum_scores      Σ
 * likeness to positives − Σ likeness to negatives
 *
 * The likeness under Euclid is the negated *square*. The last two are likenesses at the
 * surface too, whatever the metric: more is better. Example ids never come back. */
#include "scored.h"
#include <math.h>
#include <stdlib.h>

typedef struct examples {
    bw_plan *p;
    const bw_vector_spec *spec;
    uint32_t vec;
    bw_vector *positive, *negative;
    size_t npositive, nnegative;
    bool sum;
} examples;

/* ---- average ---- */

static void average_dense(const bw_vector *v, size_t n, uint32_t dim, float *out)
{
    for (uint32_t d = 0; d < dim; d++) {
        float sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += v[i].values[d];
        out[d] = sum / (float)n;
    }
}

static bw_status dense_target(bw_plan *p, const examples *x, bw_vector *out)
{
    uint32_t dim = x->spec->dim;
    float *pos = bw_arena_alloc(p->ctx, dim * sizeof *pos);
    float *neg = bw_arena_alloc(p->ctx, dim * sizeof *neg);
    if (!pos || !neg)
        return BW_ENOMEM;
    average_dense(x->positive, x->npositive, dim, pos);
    if (x->nnegative > 0) {
        average_dense(x->negative, x->nnegative, dim, neg);
        for (uint32_t d = 0; d < dim; d++)
            pos[d] = pos[d] + pos[d] - neg[d];
    }
    *out = (bw_vector){x->spec->name, pos, NULL, dim, false};
    return BW_OK;
}

typedef struct entry {
    uint32_t index;
    uint32_t order; /* of appearance: equal indices are summed in it */
    float value;
} entry;

static int cmp_entry(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static void put_entries(const bw_vector *v, size_t n, float factor, entry *e,
                        uint32_t *count)
{
    for (size_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < v[i].n; j++, (*count)++)
            e[*count] = (entry){v[i].indices[j], *count, v[i].values[j] * factor};
    }
}

static bw_status sparse_target(bw_plan *p, const examples *x, bw_vector *out)
{
    size_t total = 0;
    uint32_t count = 0, unique = 0;
    for (size_t i = 0; i < x->npositive; i++)
        total += x->positive[i].n;
    for (size_t i = 0; i < x->nnegative; i++)
        total += x->negative[i].n;
    if (total > UINT32_MAX / 2)
        return bw_fail(p->ctx, BW_EINVALID, "The examples hold too many values");
    entry *e = bw_arena_alloc(p->ctx, total * sizeof *e);
    uint32_t *indices = bw_arena_alloc(p->ctx, total * sizeof *indices);
    float *values = bw_arena_alloc(p->ctx, total * sizeof *values);
    if (!e || !indices || !values)
        return BW_ENOMEM;
    float twice = x->nnegative > 0 ? 2.0f : 1.0f;
    put_entries(x->positive, x->npositive, twice / (float)x->npositive, e, &count);
    if (x->nnegative > 0)
        put_entries(x->negative, x->nnegative, -1.0f / (float)x->nnegative, e, &count);
    if (count > 1)
        qsort(e, count, sizeof *e, cmp_entry);
    for (uint32_t i = 0; i < count; i++) {
        if (unique > 0 && indices[unique - 1] == e[i].index) {
            values[unique - 1] += e[i].value;
        } else {
            indices[unique] = e[i].index;
            values[unique++] = e[i].value;
        }
    }
    *out = (bw_vector){x->spec->name, values, indices, unique, true};
    return BW_OK;
}

static bw_status by_average(bw_plan *p, const bw_leaf *leaf, const examples *x,
                            bw_list *out)
{
    bw_vector v;
    if (x->npositive == 0)
        return bw_fail(p->ctx, BW_EINVALID, "average_vector needs a positive example");
    bw_status st = x->spec->sparse ? sparse_target(p, x, &v) : dense_target(p, x, &v);
    if (st == BW_OK)
        st = bw_vector_ready(p, x->vec, &v);
    return st == BW_OK ? bw_search_vector(p, leaf, x->vec, &v, out) : st;
}

/* ---- by scores ---- */

static float squash(float x)
{
    return 0.5f * (x / (1.0f + fabsf(x)) + 1.0f);
}

static float best_of(const examples *x, const bw_vector *v, size_t n,
                     const bw_vector *row)
{
    float best = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        float s = bw_vector_likeness(x->spec, &v[i], row);
        best = s > best ? s : best;
    }
    return best;
}

static float sum_of(const examples *x, const bw_vector *v, size_t n,
                    const bw_vector *row)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += bw_vector_likeness(x->spec, &v[i], row);
    return sum;
}

static bw_status score_row(void *arg, uint32_t part, uint32_t row, float *key,
                           bool *takes)
{
    const examples *x = arg;
    bw_vector v;
    bw_status st = bw_row_vector(x->p, x->vec, part, row, &v, takes);
    if (st != BW_OK || !*takes)
        return st;
    if (x->sum) {
        *key = sum_of(x, x->positive, x->npositive, &v) -
               sum_of(x, x->negative, x->nnegative, &v);
    } else {
        float pos = best_of(x, x->positive, x->npositive, &v);
        float neg = best_of(x, x->negative, x->nnegative, &v);
        *key = pos > neg ? squash(pos) : -squash(neg);
    }
    *takes = *key == *key; /* sums beyond float: inf − inf is no score */
    return BW_OK;
}

/* ---- examples ---- */

static bw_status read_examples(bw_plan *p, const bw_query *q, examples *x,
                               const bw_target *t, size_t n, bw_vector **out)
{
    bw_vector *v = bw_arena_alloc(p->ctx, n * sizeof *v);
    if (!v)
        return BW_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        bool raw = q->strategy == BW_RECOMMEND_AVERAGE_VECTOR;
        bw_status st = raw ? bw_target_raw(p, q, x->vec, &t[i], &v[i])
                           : bw_target_vector(p, q, x->vec, &t[i], &v[i]);
        if (st != BW_OK)
            return st;
    }
    *out = v;
    return BW_OK;
}

static bw_status exclude_examples(bw_plan *p, const bw_query *q, bw_scope *scope)
{
    if (q->lookup_collection.ptr)
        return BW_OK;
    size_t n = 0;
    bw_point_id *ids =
        bw_arena_alloc(p->ctx, ((size_t)q->npositive + q->nnegative) * sizeof *ids);
    if (!ids)
        return BW_ENOMEM;
    for (uint32_t i = 0; i < q->npositive; i++) {
        if (q->positive[i].by_id)
            ids[n++] = q->positive[i].id;
    }
    for (uint32_t i = 0; i < q->nnegative; i++) {
        if (q->negative[i].by_id)
            ids[n++] = q->negative[i].id;
    }
    scope->exclude = ids;
    scope->nexclude = n;
    return BW_OK;
}

bw_status bw_leaf_recommend(bw_plan *p, const bw_leaf *leaf, bw_list *out)
{
    const bw_query *q = leaf->query;
    examples x = {.p = p, .sum = q->strategy == BW_RECOMMEND_SUM_SCORES};
    if (q->npositive > BW_PLAN_EXAMPLES_MAX || q->nnegative > BW_PLAN_EXAMPLES_MAX)
        return bw_fail(p->ctx, BW_EINVALID,
                       "A recommendation takes at most %d examples",
                       (int)BW_PLAN_EXAMPLES_MAX);
    if (q->npositive + q->nnegative == 0)
        return bw_fail(p->ctx, BW_EINVALID, "A recommendation needs an example");
    bw_status st = bw_plan_vector(p, &p->view->info, q->using_name, &x.vec);
    if (st != BW_OK)
        return st;
    x.spec = &p->view->info.vectors[x.vec];
    x.npositive = q->npositive;
    x.nnegative = q->nnegative;
    st = read_examples(p, q, &x, q->positive, q->npositive, &x.positive);
    if (st == BW_OK)
        st = read_examples(p, q, &x, q->negative, q->nnegative, &x.negative);
    if (st == BW_OK)
        st = exclude_examples(p, q, leaf->scope);
    if (st != BW_OK)
        return st;
    if (q->strategy == BW_RECOMMEND_AVERAGE_VECTOR)
        return by_average(p, leaf, &x, out);
    return bw_scan_scored(p, leaf, x.sum ? "sum_scores" : "best_score", score_row,
                          &x, out);
}
