/* Searches: query, query/batch, query/groups, and the older search and recommend calls,
 * which are the same with another body and a bare list as result (contract, sections 4
 * and 5.5; items 4, 7, 8, 13, 15).
 *
 * A batch runs over one view of the data. Other collections that a call names
 * (lookup_from, with_lookup) go through the gate like the first. */
#include "qdrant.h"

typedef bw_status (*query_reader)(bw_qdrant_parse *p, const bw_json *body,
                                  bw_query *out, bw_qdrant_show *show);

typedef struct search {
    bw_qdrant_call c;
    bw_permit permit;
    bw_read read;
    bw_query *queries;
    bw_qdrant_show *shows;
    uint32_t n;
    bw_result *result;
} search;

static bw_status alloc_queries(search *x, uint32_t n)
{
    x->n = n;
    x->queries = bw_arena_calloc(x->c.p.ctx, n, sizeof *x->queries);
    x->shows = bw_arena_calloc(x->c.p.ctx, n, sizeof *x->shows);
    return x->queries && x->shows ? BW_OK : bw_fail_nomem(x->c.p.ctx);
}

/* Body, permit, queries: `searches` of them when batch, else the body itself. */
static bw_status start(search *x, bw_request *r, bw_response *response,
                       query_reader read, bool batch)
{
    const bw_json *e = NULL;
    uint32_t n = 1;
    *x = (search){0};
    bw_status s = bw_qdrant__begin(&x->c, r, response, true);
    if (s == BW_OK)
        s = bw_qdrant__permit(&x->c, BW_ACTION_QUERY, &x->permit);
    if (s == BW_OK && batch)
        s = bw_qdrant__list(&x->c.p, bw_json_get_value(x->c.body, "searches"),
                            "searches", BW_LIMIT_SEARCHES, &e, &n);
    if (s == BW_OK)
        s = alloc_queries(x, n);
    for (uint32_t i = 0; s == BW_OK && i < n; i++, e = e ? e->next : NULL)
        s = read(&x->c.p, batch ? e : x->c.body, &x->queries[i], &x->shows[i]);
    if (s == BW_OK)
        s = bw_qdrant__read(&x->c, &x->permit, &x->read);
    x->read.no_vectors = true;
    for (uint32_t i = 0; i < n && s == BW_OK; i++)
        x->read.no_vectors = x->read.no_vectors && !x->shows[i].vector;
    return s;
}

static bw_status run(search *x)
{
    bw_status s = bw_query_run(x->c.p.ctx, bw_server_engine(x->c.r->server), &x->read,
                               x->queries, x->n, &x->result);
    return s == BW_OK ? BW_OK : bw_qdrant__engine_failed(&x->c, s);
}

/* key: "points" of a query's result; NULL for the older calls' bare list. */
static bw_status put_answer(search *x, uint32_t i, const char *key)
{
    bw_buf *b = &x->c.response->body;
    size_t n;
    const bw_hit *hits = bw_result_hits(x->result, i, &n);
    if (key) {
        bw_buf_putc(b, '{');
        bw_json_put_key(b, key);
    }
    bw_status s = bw_qdrant__put_hits(&x->c, hits, n, BW_HIT_SCORED, &x->shows[i]);
    if (key)
        bw_buf_putc(b, '}');
    return s;
}

static bw_status finish(search *x, bw_status s)
{
    const char *plan = s == BW_OK && x->c.explain ? bw_result_explain(x->result) : "";
    if (s == BW_OK && *plan) {
        bw_json_put_key(&x->c.response->body, "explain");
        bw_buf_puts(&x->c.response->body, plan);
    }
    if (s == BW_OK)
        s = bw_qdrant__close(x->c.p.ctx, x->c.response);
    bw_result_free(x->result);
    return bw_qdrant__end(&x->c, s);
}

static bw_status single(bw_request *r, bw_response *response, query_reader read,
                        const char *key)
{
    search x;
    bw_status s = start(&x, r, response, read, false);
    if (s == BW_OK)
        s = run(&x);
    if (s == BW_OK) {
        bw_qdrant__open(response);
        s = put_answer(&x, 0, key);
    }
    return finish(&x, s);
}

static bw_status many(bw_request *r, bw_response *response, query_reader read,
                      const char *key)
{
    search x;
    bw_status s = start(&x, r, response, read, true);
    if (s == BW_OK && x.n)
        s = run(&x);
    if (s == BW_OK) {
        bw_qdrant__open(response);
        bw_buf_putc(&response->body, '[');
        for (uint32_t i = 0; s == BW_OK && i < x.n; i++) {
            if (i)
                bw_buf_putc(&response->body, ',');
            s = put_answer(&x, i, key);
        }
        bw_buf_putc(&response->body, ']');
    }
    if (x.n == 0)
        x.c.explain = false; /* there is no result to explain */
    return finish(&x, s);
}

/* ---- groups ---- */

typedef struct lookup { /* with_lookup: the groups' own points in another collection */
    bool wanted;
    bw_str collection;
    bw_qdrant_show show;
    bw_collection_info info;
    bw_permit permit;
    bw_result *result;
} lookup;

static bw_status lookup_body(search *x, lookup *out)
{
    const bw_json *v = bw_json_get_value(x->c.body, "with_lookup");
    *out = (lookup){.show = {.payload = true}};
    if (!v)
        return BW_OK;
    bw_status s = BW_OK;
    out->wanted = true;
    if (v->kind == BW_JSON_STRING)
        out->collection = v->str;
    else if (v->kind != BW_JSON_OBJECT || !bw_json_get_value(v, "collection"))
        return bw_qdrant__format(&x->c.p, v,
                                 "expected a collection or {\"collection\", …}");
    else
        s = bw_qdrant__string(&x->c.p, v, "collection", &out->collection);
    if (s == BW_OK)
        s = bw_qdrant__permit_named(&x->c, out->collection, &out->info, &out->permit);
    if (s != BW_OK || v->kind == BW_JSON_STRING)
        return s;
    x->c.p.info = &out->info; /* vector names are the other collection's */
    s = bw_qdrant__show(&x->c.p, v, "with_vectors", &out->show);
    x->c.p.info = &x->c.info;
    return s;
}

static bool group_point(const bw_value *v, bw_point_id *out)
{
    *out = (bw_point_id){0};
    if (v->kind == BW_VALUE_STRING)
        return bw_uuid_parse(v->str, out);
    out->lo = v->mag;
    return v->kind == BW_VALUE_INT && !v->negative;
}

static bw_status lookup_run(search *x, lookup *l, const bw_group *groups, size_t n)
{
    uint32_t nids = 0;
    if (!l->wanted)
        return BW_OK;
    bw_point_id *ids = bw_arena_calloc(x->c.p.ctx, n, sizeof *ids);
    if (!ids)
        return bw_fail_nomem(x->c.p.ctx);
    for (size_t i = 0; i < n; i++)
        nids += group_point(&groups[i].id, &ids[nids]);
    bw_read read = {.tenant = l->info.tenant,
                    .name = l->info.name,
                    .permit = &l->permit,
                    .now_ns = x->c.r->now_ns};
    bw_status s = bw_retrieve(x->c.p.ctx, bw_server_engine(x->c.r->server), &read, ids,
                              nids, &l->result);
    return s == BW_OK ? BW_OK : bw_qdrant__engine_failed(&x->c, s);
}

static bw_status put_lookup(search *x, lookup *l, const bw_value *id)
{
    bw_point_id want;
    size_t n;
    if (!l->wanted || !group_point(id, &want))
        return BW_OK;
    const bw_hit *hits = bw_result_hits(l->result, 0, &n);
    for (size_t i = 0; i < n; i++)
        if (bw_point_id_cmp(&hits[i].id, &want) == 0) {
            bw_json_put_key(&x->c.response->body, "lookup");
            return bw_qdrant__put_hit(&x->c, &hits[i], BW_HIT_RECORD, &l->show);
        }
    return BW_OK;
}

static bw_status put_groups(search *x, lookup *l, const bw_group *groups, size_t n)
{
    bw_buf *b = &x->c.response->body;
    bw_qdrant__open(x->c.response);
    bw_buf_puts(b, "{\"groups\":[");
    for (size_t i = 0; i < n; i++) {
        bw_buf_puts(b, i ? ",{\"id\":" : "{\"id\":");
        bw_qdrant__put_value(b, &groups[i].id);
        bw_json_put_key(b, "hits");
        bw_status s = bw_qdrant__put_hits(&x->c, groups[i].hits, groups[i].nhits,
                                          BW_HIT_SCORED, &x->shows[0]);
        if (s == BW_OK)
            s = put_lookup(x, l, &groups[i].id);
        if (s != BW_OK)
            return s;
        bw_buf_putc(b, '}');
    }
    bw_buf_puts(b, "]}");
    return BW_OK;
}

static bw_status grouped(bw_request *r, bw_response *response, query_reader read)
{
    search x;
    lookup l = {0};
    bw_str group_by = {NULL, 0};
    uint32_t group_size = 3;
    size_t n;
    bw_status s = start(&x, r, response, read, false);
    if (s == BW_OK)
        s = bw_qdrant__path_field(&x.c.p, bw_json_get_value(x.c.body, "group_by"),
                                  "group_by", &group_by);
    if (s == BW_OK)
        s = bw_qdrant__u32(&x.c.p, x.c.body, "group_size", 1, BW_LIMIT_GROUP_SIZE,
                           &group_size);
    if (s == BW_OK)
        s = lookup_body(&x, &l);
    if (s == BW_OK) {
        x.queries[0].offset = 0; /* groups have none */
        s = bw_query_groups(r->ctx, bw_server_engine(r->server), &x.read, &x.queries[0],
                            group_by, group_size, &x.result);
        if (s != BW_OK)
            s = bw_qdrant__engine_failed(&x.c, s);
    }
    if (s == BW_OK) {
        const bw_group *groups = bw_result_groups(x.result, &n);
        s = lookup_run(&x, &l, groups, n);
        if (s == BW_OK)
            s = put_groups(&x, &l, groups, n);
    }
    bw_result_free(l.result);
    return finish(&x, s);
}

/* ---- the calls ---- */

bw_status bw_qdrant_points_query(bw_request *r, bw_response *response)
{
    return single(r, response, bw_qdrant__query, "points");
}
bw_status bw_qdrant_query_batch(bw_request *r, bw_response *response)
{
    return many(r, response, bw_qdrant__query, "points");
}
bw_status bw_qdrant_query_groups(bw_request *r, bw_response *response)
{
    return grouped(r, response, bw_qdrant__query);
}
bw_status bw_qdrant_points_search(bw_request *r, bw_response *response)
{
    return single(r, response, bw_qdrant__search, NULL);
}
bw_status bw_qdrant_search_batch(bw_request *r, bw_response *response)
{
    return many(r, response, bw_qdrant__search, NULL);
}
bw_status bw_qdrant_search_groups(bw_request *r, bw_response *response)
{
    return grouped(r, response, bw_qdrant__search);
}
bw_status bw_qdrant_points_recommend(bw_request *r, bw_response *response)
{
    return single(r, response, bw_qdrant__recommend, NULL);
}
bw_status bw_qdrant_recommend_batch(bw_request *r, bw_response *response)
{
    return many(r, response, bw_qdrant__recommend, NULL);
}
bw_status bw_qdrant_recommend_groups(bw_request *r, bw_response *response)
{
    return grouped(r, response, bw_qdrant__recommend);
}
