/* Reads that are no search: one point, retrieve, scroll, count, facet (contract,
 * section 5.4; items 6, 12, 13). Each names the caller's permitted set first; a point
 * outside it and an absent one take the same path. */
#include "qdrant.h"

#include <stdio.h>

/* Everything up to bw_read: for calls whose body needs the collection's description. */
static bw_status start(bw_qdrant_call *c, bw_request *r, bw_response *response,
                       bool has_body, bw_permit *permit, bw_read *read)
{
    bw_status s = bw_qdrant__begin(c, r, response, has_body);
    if (s == BW_OK)
        s = bw_qdrant__permit(c, BW_ACTION_QUERY, permit);
    if (s == BW_OK && has_body)
        s = bw_qdrant__no_shard_key(&c->p, c->body);
    return s == BW_OK ? bw_qdrant__read(c, permit, read) : s;
}

/* ---- by id ---- */

/* Digits, or a UUID's spelling. */
static bool path_id(bw_str text, bw_point_id *out)
{
    *out = (bw_point_id){0};
    if (bw_uuid_parse(text, out))
        return true;
    uint64_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' ||
            __builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(text.ptr[i] - '0'), &n))
            return false;
    }
    *out = (bw_point_id){0, n, 0, 0};
    return text.len > 0;
}

bw_status bw_qdrant_point_get(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_permit permit;
    bw_read read;
    bw_point_id id;
    bw_result *result = NULL;
    const bw_qdrant_show show = {.payload = true, .vector = true};
    size_t n;
    bw_status s = start(&c, r, response, false, &permit, &read);
    if (s == BW_OK && !path_id(r->args[1], &id))
        s = bw_qdrant__wrong(&c.p, "Can not recognize \"%.*s\" as point id",
                             bw_qdrant__cut(r->args[1], 64), r->args[1].ptr);
    if (s == BW_OK && (s = bw_retrieve(r->ctx, bw_server_engine(r->server), &read, &id,
                                       1, &result)) != BW_OK)
        s = bw_qdrant__engine_failed(&c, s);
    if (s != BW_OK)
        return bw_qdrant__end(&c, s);
    const bw_hit *hits = bw_result_hits(result, 0, &n);
    if (n == 0) {
        char text[BW_UUID_TEXT + 1];
        if (id.is_uuid)
            bw_uuid_format(&id, text);
        else
            snprintf(text, sizeof text, "%llu", (unsigned long long)id.lo);
        s = bw_fail(r->ctx, BW_ENOTFOUND,
                    "Not found: Point with id %s does not exists!", text);
    } else {
        bw_qdrant__open(response);
        s = bw_qdrant__put_hit(&c, &hits[0], BW_HIT_RECORD, &show);
        if (s == BW_OK)
            s = bw_qdrant__close(r->ctx, response);
    }
    bw_result_free(result);
    return bw_qdrant__end(&c, s);
}

bw_status bw_qdrant_points_retrieve(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_permit permit;
    bw_read read;
    bw_qdrant_show show = {.payload = true};
    const bw_point_id *ids;
    uint32_t nids;
    bw_result *result = NULL;
    size_t n;
    bw_status s = start(&c, r, response, true, &permit, &read);
    if (s == BW_OK)
        s = bw_qdrant__no_filter_words(&c.p, c.body, NULL);
    if (s == BW_OK)
        s = bw_qdrant__ids(&c.p, bw_json_get_value(c.body, "ids"), "ids", &ids, &nids);
    if (s == BW_OK)
        s = bw_qdrant__show(&c.p, c.body, "with_vector", &show);
    if (s == BW_OK && (s = bw_retrieve(r->ctx, bw_server_engine(r->server), &read, ids,
                                       nids, &result)) != BW_OK)
        s = bw_qdrant__engine_failed(&c, s);
    if (s != BW_OK)
        return bw_qdrant__end(&c, s);
    const bw_hit *hits = bw_result_hits(result, 0, &n);
    bw_qdrant__open(response);
    s = bw_qdrant__put_hits(&c, hits, n, BW_HIT_RECORD, &show);
    bw_result_free(result);
    return bw_qdrant__end(&c, s == BW_OK ? bw_qdrant__close(r->ctx, response) : s);
}

/* ---- scroll ---- */

static bw_status scroll_order(bw_qdrant_call *c, bw_scroll *out)
{
    const bw_json *v = bw_json_get_value(c->body, "order_by");
    if (!v)
        return BW_OK;
    if (out->has_offset)
        return bw_qdrant__wrong(
            &c->p, "Cannot use an `offset` when using `order_by`. The "
                   "alternative for paging is to use `order_by.start_from` and "
                   "a filter to exclude the IDs that you've already seen for "
                   "the `order_by.start_from` value");
    out->has_order_by = true;
    bw_status s = bw_qdrant__order_by(&c->p, v, &out->order_by);
    if (s == BW_OK && !bw_qdrant__has_range_index(&c->info, out->order_by.key))
        s = bw_qdrant__wrong(
            &c->p,
            "No range index for `order_by` key: `%.*s`. Please create one "
            "to use `order_by`",
            bw_qdrant__cut(out->order_by.key, 96), out->order_by.key.ptr);
    return s;
}

static bw_status scroll_body(bw_qdrant_call *c, bw_scroll *out, bw_qdrant_show *show)
{
    const bw_json *offset = bw_json_get_value(c->body, "offset");
    *out = (bw_scroll){.limit = 10};
    bw_status s = bw_qdrant__no_filter_words(&c->p, c->body, NULL);
    if (s == BW_OK)
        s = bw_qdrant__u32(&c->p, c->body, "limit", 1, BW_LIMIT_LIMIT, &out->limit);
    if (s == BW_OK && offset) {
        out->has_offset = true;
        s = bw_qdrant__point_id(&c->p, offset, &out->offset);
    }
    if (s == BW_OK)
        s = bw_qdrant__filter(&c->p, bw_json_get(c->body, "filter"), &out->filter);
    if (s == BW_OK)
        s = scroll_order(c, out);
    return s == BW_OK ? bw_qdrant__show(&c->p, c->body, "with_vector", show) : s;
}

bw_status bw_qdrant_points_scroll(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_permit permit;
    bw_read read;
    bw_scroll scroll;
    bw_qdrant_show show = {.payload = true};
    bw_result *result = NULL;
    bw_point_id next;
    size_t n;
    bw_status s = start(&c, r, response, true, &permit, &read);
    if (s == BW_OK)
        s = scroll_body(&c, &scroll, &show);
    if (s == BW_OK && (s = bw_scroll_run(r->ctx, bw_server_engine(r->server), &read,
                                         &scroll, &result)) != BW_OK)
        s = bw_qdrant__engine_failed(&c, s);
    if (s != BW_OK)
        return bw_qdrant__end(&c, s);
    const bw_hit *hits = bw_result_hits(result, 0, &n);
    bw_qdrant__open(response);
    bw_buf_puts(&response->body, "{\"points\":");
    s = bw_qdrant__put_hits(&c, hits, n, BW_HIT_RECORD, &show);
    bw_json_put_key(&response->body, "next_page_offset");
    if (!scroll.has_order_by && bw_result_next(result, &next))
        bw_json_put_point_id(&response->body, &next);
    else
        bw_buf_puts(&response->body, "null");
    bw_buf_putc(&response->body, '}');
    bw_result_free(result);
    return bw_qdrant__end(&c, s == BW_OK ? bw_qdrant__close(r->ctx, response) : s);
}

/* ---- count, facet ---- */

bw_status bw_qdrant_points_count(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_permit permit;
    bw_read read;
    const bw_filter *filter;
    bool exact = true; /* both answers are exact here */
    uint64_t n = 0;
    bw_status s = start(&c, r, response, true, &permit, &read);
    if (s == BW_OK)
        s = bw_qdrant__no_filter_words(&c.p, c.body, NULL);
    if (s == BW_OK)
        s = bw_qdrant__bool(&c.p, c.body, "exact", &exact);
    if (s == BW_OK)
        s = bw_qdrant__filter(&c.p, bw_json_get(c.body, "filter"), &filter);
    if (s == BW_OK &&
        (s = bw_count(r->ctx, bw_server_engine(r->server), &read, filter, &n)) != BW_OK)
        s = bw_qdrant__engine_failed(&c, s);
    if (s != BW_OK)
        return bw_qdrant__end(&c, s);
    bw_qdrant__open(response);
    bw_buf_puts(&response->body, "{\"count\":");
    bw_json_put_u64(&response->body, n);
    bw_buf_putc(&response->body, '}');
    return bw_qdrant__end(&c, bw_qdrant__close(r->ctx, response));
}

bw_status bw_qdrant_facet(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_permit permit;
    bw_read read;
    const bw_filter *filter;
    const bw_facet_hit *hits = NULL;
    bw_str key;
    bool exact = true;
    uint32_t limit = 10;
    size_t n = 0;
    bw_status s = start(&c, r, response, true, &permit, &read);
    if (s == BW_OK)
        s = bw_qdrant__no_filter_words(&c.p, c.body, "key");
    if (s == BW_OK)
        s = bw_qdrant__path_field(&c.p, bw_json_get_value(c.body, "key"), "key", &key);
    if (s == BW_OK)
        s = bw_qdrant__u32(&c.p, c.body, "limit", 1, BW_LIMIT_LIMIT, &limit);
    if (s == BW_OK)
        s = bw_qdrant__bool(&c.p, c.body, "exact", &exact);
    if (s == BW_OK)
        s = bw_qdrant__filter(&c.p, bw_json_get(c.body, "filter"), &filter);
    if (s == BW_OK && !bw_qdrant__has_match_index(&c.info, key))
        s = bw_qdrant__wrong(
            &c.p,
            "No appropriate index for faceting: `%.*s`. Please create one "
            "to facet on this field",
            bw_qdrant__cut(key, 96), key.ptr);
    if (s == BW_OK && (s = bw_facet(r->ctx, bw_server_engine(r->server), &read, key,
                                    filter, limit, &hits, &n)) != BW_OK)
        s = bw_qdrant__engine_failed(&c, s);
    if (s != BW_OK)
        return bw_qdrant__end(&c, s);
    bw_buf *b = &response->body;
    bw_qdrant__open(response);
    bw_buf_puts(b, "{\"hits\":[");
    for (size_t i = 0; i < n; i++) {
        bw_buf_puts(b, i ? ",{\"value\":" : "{\"value\":");
        bw_qdrant__put_value(b, &hits[i].value);
        bw_json_put_key(b, "count");
        bw_json_put_u64(b, hits[i].count);
        bw_buf_putc(b, '}');
    }
    bw_buf_puts(b, "]}");
    return bw_qdrant__end(&c, bw_qdrant__close(r->ctx, response));
}
