/* Nearest points of a dense or sparse vector over the permitted partitions.
 *
 * One heap of k is chained through all partitions, so the order of results is the total
 * order (key, point id, class id) and does not depend on how rows are spread. */
#include "../base/ln.h"
#include "../index/codes.h"
#include "../kernels/kernels.h"
#include "explain.h"
#include "plan.h"
#include "../kernels/scan.h"
#include <math.h>

enum { SMALL_AHEAD = 3 }; /* partitions: 1 to 6 took the same time */

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

static bw_status snapshot_vector(bw_ctx *ctx, const bw_snapshot *s,
                                 const bw_vector_spec *spec, uint32_t vec, uint32_t row,
                                 bw_vector *out, bool *has)
{
    if (spec->sparse) {
        *has = bw_snapshot_sparse(s, vec, row, out);
        return BW_OK;
    }
    const float *values;
    bw_status st = bw_snapshot_dense(ctx, s, vec, row, &values);
    *out = (bw_vector){spec->name, values, NULL, spec->dim, false};
    *has = values != NULL;
    return st;
}

bw_status bw_row_vector(const bw_plan *p, uint32_t vec, uint32_t part, uint32_t row,
                        bw_vector *out, bool *has)
{
    return snapshot_vector(p->ctx, p->view->parts[part], &p->view->info.vectors[vec],
                           vec, row, out, has);
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
    bool has = false;
    st = snapshot_vector(p->ctx, view->parts[part], &view->info.vectors[vec], vec, row,
                         out, &has);
    if (st != BW_OK)
        return st;
    if (!has)
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
        double d = (double)df[i], idf = bw_ln(((double)n - d + 0.5) / (d + 0.5) + 1.0);
        values[i] = (float)((double)v->values[i] * idf);
    }
    v->values = values;
    return BW_OK;
}

/* ---- search ---- */

/* One search for a vector of the name `vec`, alone or among others over the same view. */
typedef struct job {
    const bw_leaf *leaf;
    bw_vector query;
    uint64_t permitted; /* rows that it may look at, as far as the planner must know */
    bw_topk heap;
    bw_candidate *items; /* leaf->k */
    bw_list *out;
} job;

static bw_status job_init(bw_plan *p, const bw_leaf *leaf, uint32_t vec,
                          const bw_vector *v, bw_list *out, job *j)
{
    const bw_vector_spec *spec = &p->view->info.vectors[vec];
    *j = (job){.leaf = leaf, .query = *v, .out = out};
    *out = (bw_list){NULL, 0, false};
    bw_status st =
        bw_explain_begin(p, v->sparse ? "sparse" : "dense", &leaf->scope->trace);
    if (st != BW_OK)
        return st;
    j->items = bw_arena_alloc(p->ctx, leaf->k * sizeof *j->items);
    if (!j->items)
        return BW_ENOMEM;
    return leaf->k > 0 && spec->sparse && spec->idf ? apply_idf(p, vec, &j->query)
                                                    : BW_OK;
}

/* Whether a graph may answer depends on how many rows the whole search may look at. They
 * are counted only when that can matter, and no further than it matters. */
static bw_status count_permitted(bw_plan *p, job *j, uint32_t vec, bool shadowed)
{
    const bw_query *q = j->leaf->query;
    bool graphs = false;
    j->permitted = p->nlive;
    if (p->view->nparts == 0 || j->leaf->exact || q->exact || q->recall > 0 ||
        q->ef_search > 0)
        return BW_OK;
    uint64_t enough = bw_snapshot_exact_rows(p->view->parts[0]); /* one for the cell */
    for (size_t i = 0; p->nlive >= enough && i < p->view->nparts && !graphs; i++)
        graphs = bw_snapshot_has_graph(p->view->parts[i], vec);
    if (!graphs)
        return BW_OK;
    j->permitted = 0;
    for (size_t i = 0; i < p->view->nparts && j->permitted < enough; i++) {
        const bw_bitmap *rows;
        bool any;
        bw_status st = bw_scope_prepare(p, j->leaf->scope, i);
        if (st != BW_OK)
            return st;
        bw_arena_mark mark = bw_arena_mark_get(p->ctx);
        st = bw_scope_rows(p, j->leaf->scope, i, shadowed, &rows, &any);
        if (st == BW_OK && any)
            j->permitted += bw_bitmap_count(rows);
        if (st == BW_OK)
            st = bw_ctx_check(p->ctx);
        if (st != BW_OK)
            return st;
        bw_arena_release(p->ctx, mark);
    }
    return BW_OK;
}

/* The pass over codes that goes through all partitions; *out NULL: each partition has its
 * own (many jobs, whose waiting rows would be too many, or a metric without codes). */
static bw_status codes_pass(bw_plan *p, job *jobs, size_t n, uint32_t vec, bw_codes_pass **out)
{
    const bw_vector_spec *spec = &p->view->info.vectors[vec];
    bw_codes_query qs[BW_CODES_QUERIES_MAX];
    *out = NULL;
    if (n > BW_CODES_QUERIES_MAX || spec->sparse || !bw_codes_metric(spec->metric))
        return BW_OK;
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].leaf->k == 0)
            return BW_OK;
        qs[i] = (bw_codes_query){jobs[i].query.values, NULL, &jobs[i].heap};
    }
    return bw_codes_begin(p->ctx, spec->metric, spec->dim, qs, n, p->nlive, out);
}

/* Every job in one partition: those that have rows there share a pass over it. */
static bw_status search_part(bw_plan *p, job *jobs, size_t n, uint32_t vec, size_t part,
                             bool shadowed, bw_codes_pass *pass)
{
    const bw_snapshot *s = p->view->parts[part];
    bw_search_trace *traces = bw_arena_calloc(p->ctx, n, sizeof *traces);
    bw_search_params *params = bw_arena_alloc(p->ctx, n * sizeof *params);
    bw_dense_query *qs = bw_arena_alloc(p->ctx, n * sizeof *qs);
    size_t m = 0;
    if (!traces || !params || !qs)
        return BW_ENOMEM;
    bw_status st = BW_OK;
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        const bw_leaf *leaf = jobs[i].leaf;
        const bw_bitmap *rows;
        bool any;
        st = bw_scope_rows(p, leaf->scope, part, shadowed, &rows, &any);
        if (st != BW_OK || !any)
            continue;
        params[m] = (bw_search_params){.vec = vec,
                                       .k = leaf->k,
                                       .exact = leaf->exact || leaf->query->exact,
                                       .ef_search = leaf->query->ef_search,
                                       .recall = leaf->query->recall,
                                       .permitted = jobs[i].permitted,
                                       .allowed = rows,
                                       .part = (uint32_t)part};
        qs[m] = (bw_dense_query){jobs[i].query.values, &params[m], &jobs[i].heap,
                                 leaf->scope->trace ? &traces[i] : NULL, pass,
                                 (uint32_t)i};
        if (jobs[i].query.sparse)
            st = bw_snapshot_search_sparse(p->ctx, s, &jobs[i].query, &params[m],
                                           &jobs[i].heap, &traces[i]);
        else
            m++;
    }
    if (st == BW_OK && m > 0)
        st = bw_snapshot_search_many(p->ctx, s, qs, m);
    for (size_t i = 0; st == BW_OK && i < n; i++)
        bw_explain_search_done(jobs[i].leaf->scope->trace, part, &traces[i]);
    return st;
}

/* Nothing but the rows' own life decides what these searches may look at. */
static bool see_all(const job *jobs, size_t n, uint32_t vec, bool shadowed)
{
    for (size_t i = 0; i < n; i++) {
        const bw_scope *s = jobs[i].leaf->scope;
        if (s->filtered || s->within || s->nexclude > 0 || s->trace || jobs[i].query.sparse)
            return false;
    }
    return vec == 0 && !shadowed;
}

static bw_status small_pass(bw_plan *p, job *jobs, size_t n, bw_codes_pass *codes,
                            bw_small_pass *out)
{
    bw_scan_query *qs = bw_arena_calloc(p->ctx, n, sizeof *qs);
    size_t m = 0, k = 0;
    if (!qs)
        return BW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        k = jobs[i].leaf->k > k ? jobs[i].leaf->k : k;
    for (size_t i = 0; i < n; i++)
        if (jobs[i].leaf->k > 0)
            qs[m++] = (bw_scan_query){jobs[i].query.values, NULL, &jobs[i].heap};
    bw_small_pass_init(out, &p->view->info.vectors[0], qs, m);
    if (codes)
        bw_small_pass_codes(out, codes, k, p->nlive);
    return BW_OK;
}

/* *done: partition i is one of few rows and done with. Asks for what the next ones need.
 * *rows: since the last look at the deadline. */
static bw_status search_if_small(const bw_plan *p, size_t i, bw_small_pass *pass, size_t *rows,
                                 bool *done)
{
    const bw_view *v = p->view;
    if (i + 2 * SMALL_AHEAD < v->nparts)
        bw_snapshot_ahead(v->parts[i + 2 * SMALL_AHEAD]);
    if (i + SMALL_AHEAD < v->nparts)
        bw_snapshot_rows_ahead(v->parts[i + SMALL_AHEAD], pass);
    size_t did;
    bw_status st = bw_snapshot_search_small(v->parts[i], pass, (uint32_t)i, &did);
    *rows += did;
    *done = did > 0;
    if (st == BW_OK && *rows >= BW_PLAN_CHECK_ROWS) {
        *rows = 0;
        st = bw_ctx_check(p->ctx);
    }
    return st;
}

static bw_status search_all(bw_plan *p, job *jobs, size_t n, uint32_t vec,
                            bool shadowed)
{
    const bw_vector_spec *spec = &p->view->info.vectors[vec];
    bw_status st = BW_OK;
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        bw_topk_init(&jobs[i].heap, jobs[i].items, jobs[i].leaf->k);
        if (!spec->sparse)
            st = count_permitted(p, &jobs[i], vec, shadowed);
    }
    bw_small_pass small;
    bw_codes_pass *pass = NULL;
    if (st == BW_OK)
        st = codes_pass(p, jobs, n, vec, &pass);
    bool all = st == BW_OK && see_all(jobs, n, vec, shadowed);
    size_t rows = 0;
    if (all)
        st = small_pass(p, jobs, n, pass, &small);
    for (size_t i = 0; st == BW_OK && i < p->view->nparts; i++) {
        bool done = false;
        if (all)
            st = search_if_small(p, i, &small, &rows, &done);
        if (st != BW_OK)
            return st;
        if (done)
            continue;
        for (size_t k = 0; st == BW_OK && k < n; k++)
            st = bw_scope_prepare(p, jobs[k].leaf->scope, i);
        if (st != BW_OK)
            return st;
        bw_arena_mark mark = bw_arena_mark_get(p->ctx);
        st = search_part(p, jobs, n, vec, i, shadowed, pass);
        if (st == BW_OK)
            st = bw_ctx_check(p->ctx);
        if (st != BW_OK)
            return st;
        bw_arena_release(p->ctx, mark);
    }
    if (st == BW_OK && pass)
        st = bw_codes_settle(pass);
    if (st == BW_OK && rows > 0)
        st = bw_ctx_check(p->ctx);
    for (size_t i = 0; st == BW_OK && i < n; i++)
        st = bw_list_of_topk(p, &jobs[i].heap,
                             !spec->sparse && bw_score_falls(spec->metric),
                             jobs[i].out);
    return st;
}

/* The jobs together; those whose list shows a copy once more, each by itself. */
static bw_status run_jobs(bw_plan *p, job *jobs, size_t n, uint32_t vec)
{
    bw_status st = search_all(p, jobs, n, vec, false);
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        bool copies = false;
        st = bw_plan_has_copies(p, jobs[i].out->items, jobs[i].out->n, &copies);
        if (st == BW_OK && copies)
            st = bw_plan_shadow(p);
        if (st == BW_OK && copies)
            st = search_all(p, &jobs[i], 1, vec, true);
    }
    return st;
}

bw_status bw_search_vector(bw_plan *p, const bw_leaf *leaf, uint32_t vec,
                           const bw_vector *v, bw_list *out)
{
    job j;
    bw_status st = job_init(p, leaf, vec, v, out, &j);
    return st == BW_OK && leaf->k > 0 ? run_jobs(p, &j, 1, vec) : st;
}

/* The target's vector; a stored point is none of its own answers. */
static bw_status nearest_target(bw_plan *p, const bw_leaf *leaf, uint32_t *vec,
                                bw_vector *v)
{
    const bw_query *q = leaf->query;
    bw_status st = bw_plan_vector(p, &p->view->info, q->using_name, vec);
    if (st == BW_OK)
        st = bw_target_vector(p, q, *vec, &q->target, v);
    if (st == BW_OK && q->target.by_id && !q->lookup_collection.ptr) {
        leaf->scope->exclude = &q->target.id;
        leaf->scope->nexclude = 1;
    }
    return st;
}

bw_status bw_leaf_nearest(bw_plan *p, const bw_leaf *leaf, bw_list *out)
{
    const bw_query *q = leaf->query;
    bw_leaf own = *leaf;
    bw_vector v;
    uint32_t vec;
    bw_status st = nearest_target(p, leaf, &vec, &v);
    if (st != BW_OK)
        return st;
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

/* ---- many at once ---- */

bool bw_plan_is_plain(const bw_plan *p, const bw_query *q)
{
    const bw_collection_info *info = &p->view->info;
    uint32_t i = 0;
    while (i < info->nvectors && !bw_str_eq(info->vectors[i].name, q->using_name))
        i++;
    return q->kind == BW_QUERY_NEAREST && q->nprefetch == 0 && !q->has_mmr &&
           i < info->nvectors && !info->vectors[i].sparse;
}

static bw_status plain_jobs(bw_plan *p, const bw_query *const *queries, const size_t *ks,
                            size_t n, bw_scope *scopes, bw_list *out)
{
    job *jobs = bw_arena_calloc(p->ctx, n, sizeof *jobs);
    bw_leaf *leaves = bw_arena_calloc(p->ctx, n, sizeof *leaves);
    uint32_t vec = 0;
    bw_status st = jobs && leaves ? BW_OK : BW_ENOMEM;
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        bw_vector v;
        leaves[i] = (bw_leaf){queries[i], &scopes[i], ks[i], false};
        st = nearest_target(p, &leaves[i], &vec, &v);
        if (st == BW_OK)
            st = job_init(p, &leaves[i], vec, &v, &out[i], &jobs[i]);
    }
    if (st == BW_OK)
        st = run_jobs(p, jobs, n, vec);
    for (size_t i = 0; st == BW_OK && i < n; i++)
        if (queries[i]->has_score_threshold)
            bw_list_threshold(&out[i], queries[i]->score_threshold);
    return st;
}

bw_status bw_plan_plain(bw_plan *p, const bw_query *const *queries, const size_t *ks,
                        size_t n, bw_list *out)
{
    bw_scope *scopes = bw_arena_calloc(p->ctx, n, sizeof *scopes);
    size_t made = 0;
    bw_status st = scopes ? BW_OK : BW_ENOMEM;
    for (; st == BW_OK && made < n; made++)
        st = bw_scope_init(p, &scopes[made], &queries[made]->filter,
                           queries[made]->filter ? 1 : 0, NULL);
    if (st == BW_OK)
        st = plain_jobs(p, queries, ks, n, scopes, out);
    for (size_t i = 0; i < made; i++)
        bw_scope_clear(&scopes[i]);
    return st;
}
