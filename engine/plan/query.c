/* The evaluator: one query with its prefetches, from the leaves up.
 *
 * Filters go down: a prefetch is searched under its own filter and those of every query
 * above it, before its limit (Qdrant's rule), so that a fused list holds only points
 * that the root would show. Scores come up: fusion, rescoring and order_by look only at
 * the union of what the prefetches returned. Depth and number of prefetches are capped.
 */
#include "plan.h"
#include <math.h>

typedef struct frame {
    const bw_query *q;
    const bw_filter *const *filters; /* of the queries above */
    size_t nfilters;
    size_t k;
    unsigned depth;
} frame;

static bw_status eval(bw_plan *p, const frame *f, bw_list *out);

static bw_status check_shape(bw_plan *p, const frame *f)
{
    const bw_query *q = f->q;
    bool fusion = q->kind == BW_QUERY_FUSION_RRF || q->kind == BW_QUERY_FUSION_DBSF;
    if (f->depth > BW_PLAN_PREFETCH_DEPTH_MAX)
        return bw_fail(p->ctx, BW_EINVALID, "Prefetches are nested over %d deep",
                       (int)BW_PLAN_PREFETCH_DEPTH_MAX);
    if (p->prefetches + q->nprefetch < q->nprefetch ||
        p->prefetches + q->nprefetch > BW_PLAN_PREFETCHES_MAX)
        return bw_fail(p->ctx, BW_EINVALID, "A query has over %d prefetches",
                       (int)BW_PLAN_PREFETCHES_MAX);
    p->prefetches += q->nprefetch;
    if (fusion && q->nprefetch == 0)
        return bw_fail(p->ctx, BW_EINVALID, "A fusion query needs prefetches");
    if (q->kind == BW_QUERY_NONE && q->nprefetch > 0)
        return bw_fail(p->ctx, BW_EINVALID, "cannot have prefetches without a query");
    if (q->kind != BW_QUERY_FUSION_RRF)
        return BW_OK;
    if (!(q->rrf_k >= 1) || isinf(q->rrf_k))
        return bw_fail(p->ctx, BW_EINVALID, "rrf.k must be at least 1");
    if (q->nrrf_weights != 0 && q->nrrf_weights != q->nprefetch)
        return bw_fail(p->ctx, BW_EINVALID, "rrf.weights: %u weights for %u prefetches",
                       q->nrrf_weights, q->nprefetch);
    for (uint32_t i = 0; i < q->nrrf_weights; i++) {
        if (!(q->rrf_weights[i] >= 0) || isinf(q->rrf_weights[i]))
            return bw_fail(p->ctx, BW_EINVALID,
                           "rrf.weights must be finite and not negative");
    }
    return BW_OK;
}

/* This query's filter added to those from above: what its prefetches and leaf obey. */
static bw_status add_filter(bw_plan *p, const frame *f, const bw_filter *const **out,
                            size_t *n)
{
    const bw_filter **all = bw_arena_alloc(p->ctx, (f->nfilters + 1) * sizeof *all);
    if (!all)
        return BW_ENOMEM;
    *n = 0;
    for (size_t i = 0; i < f->nfilters; i++) {
        if (f->filters[i])
            all[(*n)++] = f->filters[i];
    }
    if (f->q->filter)
        all[(*n)++] = f->q->filter;
    *out = all;
    return BW_OK;
}

static bw_status eval_prefetches(bw_plan *p, const frame *f,
                                 const bw_filter *const *filters, size_t nfilters,
                                 bw_list **out)
{
    const bw_query *q = f->q;
    bw_list *lists = bw_arena_calloc(p->ctx, q->nprefetch, sizeof *lists);
    if (!lists)
        return BW_ENOMEM;
    for (uint32_t i = 0; i < q->nprefetch; i++) {
        frame inner = {&q->prefetch[i], filters, nfilters, 0, f->depth + 1};
        bw_status st = bw_plan_window(p, 0, q->prefetch[i].limit, &inner.k);
        if (st == BW_OK)
            st = eval(p, &inner, &lists[i]);
        if (st != BW_OK)
            return st;
    }
    *out = lists;
    return BW_OK;
}

static bw_status eval_leaf(bw_plan *p, const bw_leaf *leaf, bw_list *out)
{
    switch (leaf->query->kind) {
    case BW_QUERY_NONE:
        return bw_leaf_ids(p, leaf, out);
    case BW_QUERY_NEAREST:
        return bw_leaf_nearest(p, leaf, out);
    case BW_QUERY_ORDER_BY:
        return bw_leaf_order(p, leaf, out);
    case BW_QUERY_RECOMMEND:
        return bw_leaf_recommend(p, leaf, out);
    case BW_QUERY_TEXT:
        return bw_leaf_text(p, leaf, out);
    case BW_QUERY_FUSION_RRF:
    case BW_QUERY_FUSION_DBSF:
        break;
    }
    return bw_fail(p->ctx, BW_EINTERNAL, "unknown kind of query");
}

static bw_status eval_scoped(bw_plan *p, const frame *f,
                             const bw_filter *const *filters, size_t nfilters,
                             const bw_list *within, bw_list *out)
{
    bw_scope scope;
    /* Prefetched rows have met every filter already. */
    bw_status st = bw_scope_init(p, &scope, filters, within ? 0 : nfilters, within);
    bw_leaf leaf = {f->q, &scope, f->k, within != NULL};
    if (within && f->q->kind != BW_QUERY_ORDER_BY && leaf.k > within->n)
        leaf.k = within->n;
    if (st == BW_OK)
        st = eval_leaf(p, &leaf, out);
    bw_scope_clear(&scope);
    return st;
}

static bw_status eval_fusion(bw_plan *p, const frame *f, const bw_list *lists,
                             bw_list *out)
{
    const bw_query *q = f->q;
    if (q->kind == BW_QUERY_FUSION_DBSF)
        return bw_fuse_dbsf(p, lists, q->nprefetch, out);
    return bw_fuse_rrf(p, lists, q->nprefetch, q->rrf_k,
                       q->nrrf_weights ? q->rrf_weights : NULL, out);
}

static bw_status eval(bw_plan *p, const frame *f, bw_list *out)
{
    const bw_query *q = f->q;
    const bw_filter *const *filters;
    size_t nfilters;
    bw_list *lists = NULL, within;
    bw_status st = check_shape(p, f);
    if (st == BW_OK)
        st = add_filter(p, f, &filters, &nfilters);
    if (st == BW_OK && q->nprefetch > 0)
        st = eval_prefetches(p, f, filters, nfilters, &lists);
    if (st != BW_OK)
        return st;
    if (q->kind == BW_QUERY_FUSION_RRF || q->kind == BW_QUERY_FUSION_DBSF) {
        st = eval_fusion(p, f, lists, out);
    } else if (q->nprefetch > 0) {
        st = bw_list_union(p, lists, q->nprefetch, &within);
        if (st == BW_OK)
            st = eval_scoped(p, f, filters, nfilters, &within, out);
    } else {
        st = eval_scoped(p, f, filters, nfilters, NULL, out);
    }
    if (st != BW_OK)
        return st;
    if (q->has_score_threshold)
        bw_list_threshold(out, q->score_threshold);
    if (out->n > f->k)
        out->n = f->k;
    return BW_OK;
}

bw_status bw_plan_query(bw_plan *p, const bw_query *q, const bw_filter *const *filters,
                        size_t nfilters, size_t k, bw_list *out)
{
    frame f = {q, filters, nfilters, k, 0};
    p->prefetches = 0;
    return eval(p, &f, out);
}
