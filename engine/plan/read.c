/* The read calls of engine.h but groups and facets: query, retrieve, scroll, count.
 * Each opens one view of the permitted partitions and answers from nothing else. */
#include "../base/map.h"
#include "result.h"

enum { QUERIES_MAX = 4096, RETRIEVE_MAX = 1 << 20 };

static bw_status fill_window(bw_result *r, const bw_query *q, const bw_list *list,
                             bw_hits *out)
{
    size_t skip = q->offset < list->n ? q->offset : list->n;
    size_t n = list->n - skip < q->limit ? list->n - skip : q->limit;
    return bw_result_fill(r, n > 0 ? list->items + skip : NULL, n, true, out);
}

static bw_status run_one(bw_result *r, const bw_query *q, bw_hits *out)
{
    bw_plan *p = &r->plan;
    bw_list list;
    size_t k;
    p->all_copies = q->show_all_copies;
    bw_status st = bw_plan_window(p, q->offset, q->limit, &k);
    if (q->kind == BW_QUERY_ORDER_BY) /* a point may fill several entries: rows do not
                                         bound them */
        k = (size_t)q->offset + q->limit < BW_PLAN_HITS_MAX
                ? (size_t)q->offset + q->limit
                : BW_PLAN_HITS_MAX;
    if (st == BW_OK)
        st = bw_plan_query(p, q, NULL, 0, k, &list);
    return st == BW_OK ? fill_window(r, q, &list, out) : st;
}

/* How many queries from here on are plain and of one form, so that they run together. */
static size_t plain_run(const bw_plan *p, const bw_query *queries, size_t nq)
{
    size_t n = 0;
    while (n < nq && n < BW_PLAN_PLAIN_MAX && bw_plan_is_plain(p, &queries[n]) &&
           bw_str_eq(queries[n].using_name, queries[0].using_name) &&
           queries[n].show_all_copies == queries[0].show_all_copies)
        n++;
    return n;
}

static bw_status run_plain(bw_result *r, const bw_query *queries, size_t n,
                           bw_hits *out)
{
    bw_plan *p = &r->plan;
    const bw_query **list = bw_arena_calloc(p->ctx, n, sizeof(const bw_query *));
    size_t *ks = bw_arena_calloc(p->ctx, n, sizeof *ks);
    bw_list *lists = bw_arena_calloc(p->ctx, n, sizeof *lists);
    bw_status st = list && ks && lists ? BW_OK : BW_ENOMEM;
    p->all_copies = queries->show_all_copies;
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        list[i] = &queries[i];
        st = bw_plan_window(p, queries[i].offset, queries[i].limit, &ks[i]);
    }
    if (st == BW_OK)
        st = bw_plan_plain(p, list, ks, n, lists);
    for (size_t i = 0; st == BW_OK && i < n; i++)
        st = fill_window(r, &queries[i], &lists[i], &out[i]);
    return st;
}

typedef struct query_ask {
    const bw_query *queries;
    size_t n;
} query_ask;

static bw_status query_once(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                            const void *arg, bw_result **out)
{
    const query_ask *ask = arg;
    bw_result *r;
    bw_status st = bw_result_open(ctx, engine, read, ask->n, &r);
    if (st != BW_OK)
        return st;
    for (size_t i = 0; st == BW_OK && i < ask->n;) {
        size_t n = plain_run(&r->plan, ask->queries + i, ask->n - i);
        st = n > 1 ? run_plain(r, ask->queries + i, n, r->queries + i)
                   : run_one(r, &ask->queries[i], &r->queries[i]);
        i += n > 1 ? n : 1;
    }
    return bw_result_close(r, st, out);
}

bw_status bw_query_run(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                       const bw_query *queries, size_t nq, bw_result **out)
{
    if (nq > QUERIES_MAX)
        return bw_fail(ctx, BW_EINVALID, "A batch takes at most %d queries",
                       (int)QUERIES_MAX);
    const query_ask ask = {queries, nq};
    return bw_read_run(ctx, engine, read, query_once, &ask, out);
}

/* ---- retrieve ---- */

static bw_status find_points(bw_result *r, const bw_point_id *ids, size_t n,
                             bw_map *seen, bw_scored *items, size_t *count)
{
    for (size_t i = 0; i < n; i++) {
        bw_scored *s = &items[*count];
        bool fresh = false;
        if (!bw_map_put(seen, &ids[i], sizeof ids[i], &fresh))
            return bw_fail_nomem(r->plan.ctx);
        *s = (bw_scored){.id = ids[i]};
        if (fresh && bw_plan_find(&r->view, &ids[i], &s->part, &s->row))
            ++*count;
        bw_status st = i % 64 == 0 ? bw_ctx_check(r->plan.ctx) : BW_OK;
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

typedef struct ids_ask {
    const bw_point_id *ids;
    size_t n;
} ids_ask;

static bw_status retrieve_once(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                               const void *arg, bw_result **out)
{
    const ids_ask *ask = arg;
    bw_result *r;
    size_t count = 0;
    bw_status st = bw_result_open(ctx, engine, read, 1, &r);
    if (st != BW_OK)
        return st;
    bw_map *seen = bw_map_new();
    bw_scored *items = bw_arena_alloc(ctx, ask->n * sizeof *items);
    if (!seen || !items)
        st = bw_fail_nomem(ctx);
    else
        st = find_points(r, ask->ids, ask->n, seen, items, &count);
    bw_map_free(seen);
    if (st == BW_OK)
        st = bw_result_fill(r, items, count, false, &r->queries[0]);
    return bw_result_close(r, st, out);
}

bw_status bw_retrieve(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                      const bw_point_id *ids, size_t n, bw_result **out)
{
    if (n > RETRIEVE_MAX)
        return bw_fail(ctx, BW_EINVALID, "At most %d points can be retrieved",
                       (int)RETRIEVE_MAX);
    const ids_ask ask = {ids, n};
    return bw_read_run(ctx, engine, read, retrieve_once, &ask, out);
}

/* ---- scroll ---- */

static bw_status scroll_ids(bw_result *r, const bw_scroll *scroll, bw_scope *scope,
                            size_t k, bw_list *list)
{
    bw_status st = bw_walk_ids(
        &r->plan, scope, scroll->has_offset ? &scroll->offset : NULL, k + 1, list);
    if (st == BW_OK && list->n > k) {
        r->has_next = true;
        r->next = list->items[k].id;
        list->n = k;
    }
    return st;
}

static bw_status scroll_once(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                             const void *arg, bw_result **out)
{
    const bw_scroll *scroll = arg;
    bw_result *r;
    bw_scope scope;
    bw_list list = {NULL, 0, false};
    size_t k;
    if (scroll->has_order_by && scroll->has_offset)
        return bw_fail(
            ctx, BW_EINVALID,
            "Cannot use an `offset` when using `order_by`. The "
            "alternative is `order_by.start_from` and a filter on the ids seen");
    bw_status st = bw_result_open(ctx, engine, read, 1, &r);
    if (st != BW_OK)
        return st;
    r->plan.all_copies = scroll->show_all_copies;
    st = bw_scope_init(&r->plan, &scope, &scroll->filter, 1, NULL);
    if (st == BW_OK)
        st = bw_plan_window(&r->plan, 0, scroll->limit, &k);
    if (st == BW_OK && scroll->has_order_by) {
        bw_query q = {.kind = BW_QUERY_ORDER_BY, .order_by = scroll->order_by};
        /* One point may fill several entries, so the rows do not bound them. */
        bw_leaf leaf = {
            &q, &scope,
            scroll->limit < BW_PLAN_HITS_MAX ? scroll->limit : BW_PLAN_HITS_MAX, false};
        st = bw_leaf_order(&r->plan, &leaf, &list);
    } else if (st == BW_OK) {
        st = scroll_ids(r, scroll, &scope, k, &list);
    }
    bw_scope_clear(&scope);
    if (st == BW_OK)
        st = bw_result_fill(r, list.items, list.n, false, &r->queries[0]);
    return bw_result_close(r, st, out);
}

bw_status bw_scroll_run(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                        const bw_scroll *scroll, bw_result **out)
{
    return bw_read_run(ctx, engine, read, scroll_once, scroll, out);
}

/* ---- count ---- */

static bw_status count_rows(bw_plan *p, bw_scope *scope, uint64_t *out)
{
    uint64_t n = 0;
    for (size_t i = 0; i < p->view->nparts; i++) {
        const bw_bitmap *rows;
        bool any;
        bw_status st = bw_scope_rows(p, scope, i, true, &rows, &any);
        if (st == BW_OK)
            st = bw_ctx_check(p->ctx);
        if (st != BW_OK)
            return st;
        if (any)
            n += bw_bitmap_count(rows);
    }
    *out = n;
    return BW_OK;
}

bw_status bw_count(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                   const bw_filter *filter, uint64_t *out)
{
    bw_result *r, *done = NULL;
    bw_scope scope;
    uint64_t n = 0;
    bw_status st = bw_result_open(ctx, engine, read, 1, &r);
    if (st != BW_OK)
        return st;
    st = bw_scope_init(&r->plan, &scope, &filter, 1, NULL);
    if (st == BW_OK)
        st = count_rows(&r->plan, &scope, &n);
    bw_scope_clear(&scope);
    st = bw_result_close(r, st, &done);
    bw_result_free(done);
    if (st == BW_OK)
        *out = n;
    return st;
}

bw_status bw_index_points(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                          bw_str field, uint64_t *out)
{
    /* "Except nothing" is any value that is not null; an index answers it from its
     * sets. */
    bw_condition any = {.kind = BW_COND_MATCH_EXCEPT, .key = field};
    bw_filter filter = {.must = &any, .nmust = 1};
    return bw_count(ctx, engine, read, &filter, out);
}
