/* Results: lists of (partition, row) become hits that borrow from the snapshots. */
#include "result.h"

bw_status bw_result_open(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                         size_t nqueries, bw_result **out)
{
    bw_result *r = bw_calloc(1, sizeof *r);
    if (!r)
        return bw_fail_nomem(ctx);
    bw_status st = bw_view_open(ctx, engine, read->tenant, read->name, read->permit,
                                read->now_ns, &r->view);
    if (st != BW_OK) {
        bw_free(r);
        return st;
    }
    r->explain = "";
    r->nqueries = nqueries;
    r->queries = bw_arena_calloc(ctx, nqueries, sizeof *r->queries);
    st = r->queries ? bw_plan_init(&r->plan, ctx, engine, read, &r->view) : BW_ENOMEM;
    if (st == BW_OK && read->explain)
        st = bw_explain_new(&r->plan);
    if (st != BW_OK) {
        bw_result_free(r);
        return st;
    }
    *out = r;
    return BW_OK;
}

bw_status bw_read_run(bw_ctx *ctx, bw_engine *engine, const bw_read *read, bw_read_fn fn,
                      const void *arg, bw_result **out)
{
    const bw_arena_mark mark = bw_arena_mark_get(ctx);
    const bw_status st = fn(ctx, engine, read, arg, out);
    if (!bw_view_mends(engine, st))
        return st;
    bw_arena_release(ctx, mark);
    return fn(ctx, engine, read, arg, out);
}

bw_status bw_result_close(bw_result *r, bw_status st, bw_result **out)
{
    if (st == BW_OK && r->plan.explain)
        st = bw_explain_text(&r->plan, &r->explain);
    bw_plan_clear(&r->plan);
    if (st == BW_OK)
        *out = r;
    else
        bw_result_free(r);
    return st;
}

void bw_result_free(bw_result *r)
{
    if (!r)
        return;
    bw_plan_clear(&r->plan);
    bw_view_close(&r->view);
    bw_free(r);
}

static bw_status fill_vectors(const bw_result *r, const bw_scored *s, bw_vector *out,
                              uint32_t *n)
{
    *n = 0;
    for (uint32_t v = 0; v < r->view.info.nvectors; v++) {
        bool has = false;
        bw_status st = bw_row_vector(&r->plan, v, s->part, s->row, &out[*n], &has);
        if (st != BW_OK)
            return st;
        if (has)
            out[(*n)++].name = r->view.info.vectors[v].name;
    }
    return BW_OK;
}

bw_status bw_result_fill(bw_result *r, const bw_scored *items, size_t n, bool scores,
                         bw_hits *out)
{
    bw_ctx *ctx = r->plan.ctx;
    bw_hit *hits = bw_arena_calloc(ctx, n, sizeof *hits);
    size_t each = r->plan.read->no_vectors ? 0 : r->view.info.nvectors, total;
    if (__builtin_mul_overflow(n, each, &total))
        return bw_fail_nomem(ctx);
    bw_vector *vectors = bw_arena_calloc(ctx, total, sizeof *vectors);
    if (!hits || !vectors)
        return BW_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const bw_scored *s = &items[i];
        bw_row row;
        bw_require(s->part <
                   r->view.nparts); /* a permitted partition's row, or nothing */
        bw_snapshot_row(r->view.parts[s->part], s->row, &row);
        bw_hit *h = &hits[i];
        *h = (bw_hit){.id = row.id,
                      .class_id = r->view.classes[s->part],
                      .version = row.version,
                      .score = s->score,
                      .has_score = scores,
                      .has_order_value = s->has_order,
                      .order_value = s->order,
                      .payload = row.payload,
                      .text = row.text,
                      .facts = row.facts,
                      .vectors = vectors + i * each};
        bw_status st = each > 0 ? fill_vectors(r, s, vectors + i * each, &h->nvectors)
                                : BW_OK;
        if (st != BW_OK)
            return st;
    }
    *out = (bw_hits){hits, n};
    return BW_OK;
}

const bw_hit *bw_result_hits(const bw_result *r, size_t query, size_t *n)
{
    if (query >= r->nqueries) {
        *n = 0;
        return NULL;
    }
    *n = r->queries[query].n;
    return r->queries[query].items;
}

const bw_group *bw_result_groups(const bw_result *r, size_t *n)
{
    *n = r->ngroups;
    return r->groups;
}

bool bw_result_next(const bw_result *r, bw_point_id *next)
{
    if (r->has_next)
        *next = r->next;
    return r->has_next;
}

const char *bw_result_explain(const bw_result *r)
{
    return r->explain;
}
