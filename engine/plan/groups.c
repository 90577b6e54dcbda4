/* Groups: the best `limit` values of a payload field by their best point, each with its
 * best `group_size` points. Strings and integers make groups; an array puts its point
 * into a group for each of its values.
 *
 * The scores are those of the plain query, always: a query with prefetches (or MMR) is
 * run once, whole, as the plain call runs it, and its list is grouped. (Filters are
 * never pushed into prefetches: that would change ranks.) Any other query is asked in
 * rounds, and its scores do not depend on filters:
 *   1. find groups: the k best; then the k best that hold a value not met yet; until
 *      `limit` groups are known or nothing is left;
 *   2. fill them: the k best among points that hold one of the known values, k growing
 *      until every group is full or nothing is left.
 * So sparse groups cost a scan of their members, not a ranking of the collection. */
#include "../base/map.h"
#include "result.h"

typedef struct group {
    bw_value id;
    bw_scored *items;
    size_t n;
} group;

typedef struct grouping {
    bw_ctx *ctx;
    bw_result *r;
    const bw_query *q;
    bw_str key;
    bw_path path;
    size_t limit, size;
    bw_map *map; /* value -> place */
    group *groups;
    bw_value *values; /* ids of the groups, for filters */
    size_t n, full;
    bool find;    /* new groups may be made */
    bool partial; /* a later round added to earlier groups: their members must be asked
                     anew */
    const bw_scored *item;
    bw_buf scratch, name;
    bw_status status;
} grouping;

static bw_status new_group(grouping *g, const bw_value *v, uint64_t *slot)
{
    bw_value id = *v;
    group *fresh = &g->groups[g->n];
    fresh->items = bw_arena_alloc(g->ctx, g->size * sizeof *fresh->items);
    if (!fresh->items)
        return BW_ENOMEM;
    if (id.kind == BW_VALUE_STRING && bw_arena_str(g->ctx, v->str, &id.str) != BW_OK)
        return BW_ENOMEM;
    fresh->id = id;
    fresh->n = 0;
    g->values[g->n] = id;
    *slot = ++g->n;
    return BW_OK;
}

static void add_to_group(grouping *g, group *to)
{
    const bw_scored *last = to->n > 0 ? &to->items[to->n - 1] : NULL;
    if (to->n == g->size ||
        (last && last->part == g->item->part && last->row == g->item->row))
        return; /* full, or the value stands twice in one array */
    to->items[to->n++] = *g->item;
    g->full += to->n == g->size;
}

static bw_status group_scalar(grouping *g, bw_str raw)
{
    bw_value v;
    bool fresh = false;
    if (!bw_raw_value(raw, &g->scratch, &v) || v.kind == BW_VALUE_BOOL)
        return g->scratch.failed ? bw_fail_nomem(g->ctx) : BW_OK;
    g->name.len = 0;
    bw_buf_putc(&g->name, v.kind == BW_VALUE_STRING ? 's' : v.negative ? '-' : '+');
    if (v.kind == BW_VALUE_STRING)
        bw_buf_str(&g->name, v.str);
    else
        bw_buf_put(&g->name, &v.mag, sizeof v.mag);
    if (g->name.failed)
        return bw_fail_nomem(g->ctx);
    uint64_t *slot = bw_map_get(g->map, g->name.ptr, g->name.len);
    if (!slot) {
        if (!g->find || g->n == g->limit)
            return BW_OK;
        slot = bw_map_put(g->map, g->name.ptr, g->name.len, &fresh);
        bw_status st = slot ? new_group(g, &v, slot) : bw_fail_nomem(g->ctx);
        if (st != BW_OK)
            return st;
    }
    add_to_group(g, &g->groups[*slot - 1]);
    return BW_OK;
}

static bool group_value(void *arg, bw_str raw)
{
    grouping *g = arg;
    bw_str rest, e;
    if (!bw_raw_array_begin(raw, &rest)) {
        g->status = group_scalar(g, raw);
    } else {
        while (g->status == BW_OK && bw_raw_array_next(&rest, &e))
            g->status = group_scalar(g, e);
    }
    return g->status == BW_OK;
}

static bw_status group_list(grouping *g, const bw_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        bw_row row;
        g->item = &list->items[i];
        bw_snapshot_row(g->r->view.parts[g->item->part], g->item->row, &row);
        if (row.payload.len > 0)
            bw_path_each(&g->path, row.payload, group_value, g);
        if (g->status != BW_OK)
            return g->status;
    }
    return bw_ctx_check(g->ctx);
}

/* ---- rounds ---- */

static bw_status ask(grouping *g, bw_condition_kind kind, size_t k, bw_list *out)
{
    bw_condition *c = bw_arena_calloc(g->ctx, 1, sizeof *c);
    bw_filter *f = bw_arena_calloc(g->ctx, 1, sizeof *f);
    bw_value *values = bw_arena_alloc(g->ctx, g->n * sizeof *values);
    if (!c || !f || !values)
        return BW_ENOMEM;
    if (g->n > 0)
        memcpy(values, g->values, g->n * sizeof *values);
    *c = (bw_condition){
        .kind = kind, .key = g->key, .values = values, .nvalues = (uint32_t)g->n};
    *f = (bw_filter){.must = c, .nmust = 1};
    const bw_filter *extra = f;
    return bw_plan_query(&g->r->plan, g->q, &extra, 1, k, out);
}

static size_t widen(const grouping *g, size_t k)
{
    size_t most =
        g->r->plan.nlive < BW_PLAN_HITS_MAX ? g->r->plan.nlive : BW_PLAN_HITS_MAX;
    return k > most / 4 ? most : 4 * k;
}

static bool at_end(const grouping *g, const bw_list *list, size_t k)
{
    return list->n < k || k >= g->r->plan.nlive || k >= BW_PLAN_HITS_MAX;
}

static bw_status find_groups(grouping *g, size_t k)
{
    g->find = true;
    for (bool first = true; g->n < g->limit; first = false) {
        bw_list list;
        size_t before = g->n;
        bw_status st = first ? bw_plan_query(&g->r->plan, g->q, NULL, 0, k, &list)
                             : ask(g, BW_COND_MATCH_EXCEPT, k, &list);
        if (st == BW_OK)
            st = group_list(g, &list);
        if (st != BW_OK)
            return st;
        g->partial = !first;
        if (at_end(g, &list, k))
            break;
        if (g->n == before) /* only values that make no group: look further */
            k = widen(g, k);
    }
    return BW_OK;
}

static bw_status fill_groups(grouping *g, size_t k)
{
    g->find = false;
    for (bool more = g->n > 0 && (g->full < g->n || g->partial); more;) {
        bw_list list;
        g->full = 0;
        for (size_t i = 0; i < g->n; i++)
            g->groups[i].n = 0;
        bw_status st = ask(g, BW_COND_MATCH_ANY, k, &list);
        if (st == BW_OK)
            st = group_list(g, &list);
        if (st != BW_OK)
            return st;
        more = g->full < g->n && !at_end(g, &list, k);
        k = widen(g, k);
    }
    return BW_OK;
}

static bw_status run_groups(grouping *g)
{
    size_t k = g->limit * g->size;
    bw_list list;
    bw_plan *p = &g->r->plan;
    p->all_copies = g->q->show_all_copies;
    if (g->q->nprefetch > 0 || g->q->has_mmr) {
        size_t all = p->nlive < BW_PLAN_HITS_MAX ? p->nlive : BW_PLAN_HITS_MAX;
        bool pool = g->q->has_mmr && g->q->mmr_candidates == 0;
        bw_status st =
            bw_plan_query(p, g->q, NULL, 0, pool && k < all ? k : all, &list);
        g->find = true;
        return st == BW_OK ? group_list(g, &list) : st;
    }
    if (k > p->nlive)
        k = p->nlive;
    bw_status st = find_groups(g, k);
    return st == BW_OK ? fill_groups(g, k) : st;
}

static bw_status finish_groups(grouping *g)
{
    bw_group *out = bw_arena_calloc(g->ctx, g->n, sizeof *out);
    if (!out)
        return BW_ENOMEM;
    for (size_t i = 0; i < g->n; i++) {
        bw_hits hits;
        bw_status st =
            bw_result_fill(g->r, g->groups[i].items, g->groups[i].n, true, &hits);
        if (st != BW_OK)
            return st;
        out[i] = (bw_group){g->groups[i].id, hits.items, (uint32_t)hits.n};
    }
    g->r->groups = out;
    g->r->ngroups = g->n;
    return BW_OK;
}

typedef struct groups_ask {
    const bw_query *query;
    bw_str by;
    uint32_t size;
} groups_ask;

static bw_status groups_once(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                             const void *arg, bw_result **out)
{
    const groups_ask *ask = arg;
    grouping g = {.ctx = ctx,
                  .q = ask->query,
                  .key = ask->by,
                  .limit = ask->query->limit,
                  .size = ask->size};
    size_t product;
    if (g.limit > BW_PLAN_HITS_MAX ||
        __builtin_mul_overflow(g.limit, g.size, &product) || product > BW_PLAN_HITS_MAX)
        return bw_fail(ctx, BW_EINVALID, "limit x group_size is over %d",
                       (int)BW_PLAN_HITS_MAX);
    bw_status st = bw_result_open(ctx, engine, read, 1, &g.r);
    if (st != BW_OK)
        return st;
    g.map = bw_map_new();
    g.groups = bw_arena_calloc(ctx, g.limit, sizeof *g.groups);
    g.values = bw_arena_calloc(ctx, g.limit, sizeof *g.values);
    st = g.map ? bw_path_parse(ctx, ask->by, &g.path) : bw_fail_nomem(ctx);
    if (st == BW_OK && (!g.groups || !g.values))
        st = BW_ENOMEM;
    if (st == BW_OK && g.limit > 0 && g.size > 0)
        st = run_groups(&g);
    if (st == BW_OK)
        st = finish_groups(&g);
    bw_map_free(g.map);
    bw_buf_clear(&g.scratch);
    bw_buf_clear(&g.name);
    return bw_result_close(g.r, st, out);
}

bw_status bw_query_groups(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                          const bw_query *query, bw_str group_by, uint32_t group_size,
                          bw_result **out)
{
    const groups_ask ask = {query, group_by, group_size};
    return bw_read_run(ctx, engine, read, groups_once, &ask, out);
}
