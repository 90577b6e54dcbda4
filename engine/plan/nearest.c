/* Nearest points of a dense or sparse vector over the permitted partitions.
 *
 * One heap of k is chained through all partitions, so the order of results is the total
 * order (key, point id, class id) and does not depend on how rows are spread. */
#include "../kernels/kernels.h"
#include "explain.h"
#include "plan.h"
#include <math.h>

/* ---- vectors ---- */

static float sparse_dot(const bw_vector *a, const bw_vector *b)
{
    float sum = 0;
    for (uint32_t i = 0, j = 0; i < a->n && j < b->n;) {
        if (a->indices[i] == b->indices[j])
            sum += a->values[i++] * b->values[j++];
        else if (a->indices[i] < b->indices[j])
            i++;
        else
            j++;
    }
    return sum;
}

float bw_vector_likeness(const bw_vector_spec *spec, const bw_vector *a,
                         const bw_vector *b)
{
    const bw_kernels *k = bw_kernels_get();
    if (spec->sparse)
        return sparse_dot(a, b);
    if (spec->metric == BW_METRIC_EUCLID)
        return -k->l2sq_f32(a->values, b->values, spec->dim);
    if (spec->metric == BW_METRIC_MANHATTAN)
        return -k->l1_f32(a->values, b->values, spec->dim);
    return k->dot_f32(a->values, b->values, spec->dim);
}

static bool snapshot_vector(const bw_snapshot *s, const bw_vector_spec *spec,
                            uint32_t vec, uint32_t row, bw_vector *out)
{
    if (spec->sparse)
        return bw_snapshot_sparse(s, vec, row, out);
    const float *values = bw_snapshot_dense(s, vec, row);
    *out = (bw_vector){spec->name, values, NULL, spec->dim, false};
    return values != NULL;
}

bool bw_row_vector(const bw_plan *p, uint32_t vec, uint32_t part, uint32_t row,
                   bw_vector *out)
{
    return snapshot_vector(p->view->parts[part], &p->view->info.vectors[vec], vec, row,
                           out);
}

static bw_status check_vector(bw_plan *p, const bw_vector_spec *spec,
                              const bw_vector *v)
{
    if (v->sparse != spec->sparse)
        return bw_fail(p->ctx, BW_EINVALID,
                       spec->sparse ? "A sparse vector is expected here"
                                    : "A dense vector is expected here");
    if (!spec->sparse && v->n != spec->dim)
        return bw_fail(p->ctx, BW_EINVALID,
                       "Vector dimension error: expected dim: %u, got %u", spec->dim,
                       v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        if (!isfinite(v->values[i]))
            return bw_fail(p->ctx, BW_EINVALID,
                           "Component %u of the query vector is not finite", i);
    }
    return BW_OK;
}

static bw_status missing_point(bw_plan *p, const bw_point_id *id)
{
    char uuid[BW_UUID_TEXT + 1];
    if (!id->is_uuid)
        return bw_fail(p->ctx, BW_ENOTFOUND, "No point with id %llu found",
                       (unsigned long long)id->lo);
    bw_uuid_format(id, uuid);
    return bw_fail(p->ctx, BW_ENOTFOUND, "No point with id %s found", uuid);
}

/* A stored point's vector, here or in the lookup_from collection. */
static bw_status stored_vector(bw_plan *p, const bw_query *q, const bw_target *t,
                               bw_vector *out)
{
    const bw_view *view;
    uint32_t vec, part, row;
    bw_str name = q->lookup_vector.ptr ? q->lookup_vector : q->using_name;
    bw_status st = bw_plan_lookup(p, q->lookup_collection, &view);
    if (st == BW_OK)
        st = bw_plan_vector(p, &view->info, name, &vec);
    if (st != BW_OK)
        return st;
    if (!bw_plan_find(view, &t->id, &part, &row))
        return missing_point(p, &t->id);
    if (!snapshot_vector(view->parts[part], &view->info.vectors[vec], vec, row, out))
        return bw_fail(
            p->ctx, BW_ENOTFOUND, "A point of the query has no vector with name `%.*s`",
            (int)(name.len < 100 ? name.len : 100), name.ptr ? name.ptr : "");
    return BW_OK;
}

bw_status bw_target_raw(bw_plan *p, const bw_query *q, uint32_t vec, const bw_target *t,
                        bw_vector *out)
{
    bw_status st = BW_OK;
    *out = t->vector;
    if (t->by_id)
        st = stored_vector(p, q, t, out);
    return st == BW_OK ? check_vector(p, &p->view->info.vectors[vec], out) : st;
}

bw_status bw_vector_ready(bw_plan *p, uint32_t vec, bw_vector *v)
{
    const bw_vector_spec *spec = &p->view->info.vectors[vec];
    if (spec->sparse || spec->metric != BW_METRIC_COSINE)
        return BW_OK;
    float *copy = bw_arena_alloc(p->ctx, spec->dim * sizeof *copy);
    if (!copy)
        return BW_ENOMEM;
    memcpy(copy, v->values, spec->dim * sizeof *copy);
    bw_normalize_f32(copy, spec->dim);
    v->values = copy;
    return BW_OK;
}

bw_status bw_target_vector(bw_plan *p, const bw_query *q, uint32_t vec,
                           const bw_target *t, bw_vector *out)
{
    bw_status st = bw_target_raw(p, q, vec, t, out);
    /* A stored row of this collection is of length 1 already, and stays bit for bit. */
    if (st == BW_OK && (!t->by_id || q->lookup_collection.ptr))
        st = bw_vector_ready(p, vec, out);
    return st;
}

/* ---- IDF, summed over the permitted partitions ---- */

static bw_status count_df(bw_plan *p, uint32_t vec, const bw_vector *v, uint64_t *df,
                          uint64_t *n)
{
    for (size_t i = 0; i < p->view->nparts; i++) {
        const bw_bitmap *visible;
        bw_status st = bw_plan_visible(p, i, &visible);
        if (st != BW_OK)
            return st;
        bw_arena_mark mark = bw_arena_mark_get(p->ctx);
        bw_bitmap has;
        st = bw_bitmap_arena(p->ctx, visible->nbits, &has);
        if (st == BW_OK)
            st = bw_snapshot_has_vector(p->ctx, p->view->parts[i], vec, &has);
        if (st == BW_OK) {
            bw_bitmap_and(&has, visible);
            *n += bw_bitmap_count(&has);
            st = bw_snapshot_sparse_df(p->ctx, p->view->parts[i], vec, v->indices, v->n,
                                       visible, df);
        }
        if (st == BW_OK)
            st = bw_ctx_check(p->ctx);
        if (st != BW_OK)
            return st;
        bw_arena_release(p->ctx, mark);
    }
    return BW_OK;
}

/* value · ln((N − df + 0.5)/(df + 0.5) + 1); every permitted copy counts as a point. */
static bw_status apply_idf(bw_plan *p, uint32_t vec, bw_vector *v)
{
    uint64_t n = 0, *df = bw_arena_calloc(p->ctx, v->n, sizeof *df);
    float *values = bw_arena_alloc(p->ctx, v->n * sizeof *values);
    bw_status st = df && values ? count_df(p, vec, v, df, &n) : BW_ENOMEM;
    if (st != BW_OK)
        return st;
    for (uint32_t i = 0; i < v->n; i++) {
        double d = (double)df[i], idf = log(((double)n - d + 0.5) / (d + 0.5) + 1.0);
        values[i] = (float)((double)v->values[i] * idf);
    }
    v->values = values;
    return BW_OK;
}

/* ---- search ---- */

static bw_status search_part(bw_plan *p, const bw_leaf *leaf, uint32_t vec,
                             const bw_vector *v, size_t part, bool shadowed,
                             bw_topk *heap)
{
    const bw_bitmap *rows;
    bool any;
    bw_status st = bw_scope_rows(p, leaf->scope, part, shadowed, &rows, &any);
    if (st != BW_OK || !any)
        return st;
    bw_search_trace trace = {0};
    bw_search_params params = {.vec = vec,
                               .k = leaf->k,
                               .exact = leaf->exact || leaf->query->exact,
                               .ef_search = leaf->query->ef_search,
                               .allowed = rows,
                               .part = (uint32_t)part};
    const bw_snapshot *s = p->view->parts[part];
    if (v->sparse)
        st = bw_snapshot_search_sparse(p->ctx, s, v, &params, heap, &trace);
    else
        st = bw_snapshot_search_dense(p->ctx, s, v->values, &params, heap, &trace);
    bw_explain_search_done(leaf->scope->trace, part, &trace);
    return st;
}

static bw_status search_all(bw_plan *p, const bw_leaf *leaf, uint32_t vec,
                            const bw_vector *v, bool shadowed, bw_candidate *items,
                            bw_list *out)
{
    bw_topk heap;
    bw_topk_init(&heap, items, leaf->k);
    for (size_t i = 0; i < p->view->nparts; i++) {
        bw_status st = bw_scope_prepare(p, leaf->scope, i);
        if (st != BW_OK)
            return st;
        bw_arena_mark mark = bw_arena_mark_get(p->ctx);
        st = search_part(p, leaf, vec, v, i, shadowed, &heap);
        if (st == BW_OK)
            st = bw_ctx_check(p->ctx);
        if (st != BW_OK)
            return st;
        bw_arena_release(p->ctx, mark);
    }
    const bw_vector_spec *spec = &p->view->info.vectors[vec];
    return bw_list_of_topk(p, &heap, !spec->sparse && bw_score_falls(spec->metric),
                           out);
}

bw_status bw_search_vector(bw_plan *p, const bw_leaf *leaf, uint32_t vec,
                           const bw_vector *v, bw_list *out)
{
    bw_vector query = *v;
    bool copies = false;
    bw_status st =
        bw_explain_begin(p, v->sparse ? "sparse" : "dense", &leaf->scope->trace);
    bw_candidate *items = bw_arena_alloc(p->ctx, leaf->k * sizeof *items);
    if (st != BW_OK || !items)
        return BW_ENOMEM;
    *out = (bw_list){NULL, 0, false};
    if (leaf->k == 0)
        return BW_OK;
    if (p->view->info.vectors[vec].sparse && p->view->info.vectors[vec].idf)
        st = apply_idf(p, vec, &query);
    if (st == BW_OK)
        st = search_all(p, leaf, vec, &query, false, items, out);
    if (st == BW_OK)
        st = bw_plan_has_copies(p, out->items, out->n, &copies);
    if (st != BW_OK || !copies)
        return st;
    st = bw_plan_shadow(p);
    return st == BW_OK ? search_all(p, leaf, vec, &query, true, items, out) : st;
}

bw_status bw_leaf_nearest(bw_plan *p, const bw_leaf *leaf, bw_list *out)
{
    const bw_query *q = leaf->query;
    bw_leaf own = *leaf;
    bw_vector v;
    uint32_t vec;
    bw_status st = bw_plan_vector(p, &p->view->info, q->using_name, &vec);
    if (st == BW_OK)
        st = bw_target_vector(p, q, vec, &q->target, &v);
    if (st != BW_OK)
        return st;
    if (q->target.by_id && !q->lookup_collection.ptr) {
        leaf->scope->exclude = &q->target.id;
        leaf->scope->nexclude = 1;
    }
    if (!q->has_mmr)
        return bw_search_vector(p, leaf, vec, &v, out);
    if (q->mmr_candidates > BW_PLAN_MMR_CANDIDATES_MAX ||
        leaf->k > BW_PLAN_MMR_CANDIDATES_MAX)
        return bw_fail(p->ctx, BW_EINVALID, "MMR takes at most %d candidates",
                       (int)BW_PLAN_MMR_CANDIDATES_MAX);
    if (!(q->mmr_diversity >= 0 && q->mmr_diversity <= 1))
        return bw_fail(p->ctx, BW_EINVALID, "MMR diversity must be in 0 … 1");
    if (q->mmr_candidates > 0)
        own.k = q->mmr_candidates < p->nlive ? q->mmr_candidates : p->nlive;
    st = bw_search_vector(p, &own, vec, &v, out);
    if (st == BW_OK && q->has_score_threshold)
        bw_list_threshold(out, q->score_threshold);
    return st == BW_OK ? bw_mmr(p, vec, q->mmr_diversity, leaf->k, out) : st;
}
