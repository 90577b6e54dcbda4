/* Collections and their payload indexes: create, show, change, drop, list (contract,
 * sections 5.4 and 5.6; items 2, 9, 12).
 *
 * Who may manage a collection is decided by the gate before a handler runs
 * (BW_ROUTE_COLLECTION). Counts cover the caller's permitted classes only. The info
 * shows back what the client set; figures that Qdrant derives from its segments are
 * constants. A collection with a class that may not be deleted is not dropped (451,
 * bw_gate_drop). */
#include "qdrant.h"

enum { DROP_TURNS = 8 };

static bw_str tenant_of(const bw_request *r)
{
    return r->caller->principal.tenant;
}

bw_status bw_qdrant_collections_list(bw_request *r, bw_response *response)
{
    const bw_collection_info *list;
    size_t n;
    bw_status s = bw_collection_list(r->ctx, bw_server_engine(r->server), tenant_of(r),
                                     &list, &n);
    if (s != BW_OK)
        return s;
    bw_qdrant__open(response);
    bw_buf_puts(&response->body, "{\"collections\":[");
    for (size_t i = 0; i < n; i++) {
        bw_buf_puts(&response->body, i ? ",{\"name\":" : "{\"name\":");
        bw_json_put_str(&response->body, list[i].name);
        bw_buf_putc(&response->body, '}');
    }
    bw_buf_puts(&response->body, "]}");
    return bw_qdrant__close(r->ctx, response);
}

bw_status bw_qdrant_collection_exists(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_permit permit;
    bw_status s = bw_qdrant__begin(&c, r, response, false);
    if (s == BW_OK)
        s = bw_qdrant__permit(&c, BW_ACTION_QUERY, &permit);
    if (s != BW_OK && s != BW_ENOTFOUND)
        return bw_qdrant__end(&c, s);
    bw_qdrant__open(response);
    bw_buf_puts(&response->body,
                s == BW_OK ? "{\"exists\":true}" : "{\"exists\":false}");
    return bw_qdrant__end(&c, bw_qdrant__close(r->ctx, response));
}

/* ---- info ---- */

static bw_status put_schema(bw_qdrant_call *c, const bw_read *read)
{
    bw_buf *b = &c->response->body;
    bw_json_put_key(b, "payload_schema");
    bw_buf_putc(b, '{');
    for (uint32_t i = 0; i < c->info.nindexes; i++) {
        const bw_index_spec *x = &c->info.indexes[i];
        uint64_t points = 0;
        bw_status s = bw_index_points(c->p.ctx, bw_server_engine(c->r->server), read,
                                      x->field, &points);
        if (s != BW_OK)
            return bw_qdrant__engine_failed(c, s);
        bw_json_sep(b);
        bw_json_put_str(b, x->field);
        bw_buf_puts(b, ":{\"data_type\":");
        bw_json_put_str(b, x->type);
        bw_json_put_key(b, "points");
        bw_json_put_u64(b, points);
        if (x->params.len) {
            bw_json_put_key(b, "params");
            bw_buf_str(b, x->params);
        }
        bw_buf_putc(b, '}');
    }
    bw_buf_putc(b, '}');
    return BW_OK;
}

bw_status bw_qdrant_collection_get(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_permit permit;
    bw_read read;
    uint64_t n = 0;
    bw_status s = bw_qdrant__begin_counted(&c, r, response, &permit, &read, &n);
    if (s != BW_OK)
        return bw_qdrant__end(&c, s);
    bw_buf *b = &response->body;
    bw_qdrant__open(response);
    bw_buf_puts(
        b,
        "{\"status\":\"green\",\"optimizer_status\":\"ok\",\"indexed_vectors_count\":0,"
        "\"points_count\":");
    bw_json_put_u64(b, n);
    bw_buf_puts(b, ",\"segments_count\":1,\"config\":");
    s = bw_qdrant__put_config(r->ctx, b, &c.info);
    if (s == BW_OK)
        s = put_schema(&c, &read);
    bw_buf_puts(b, ",\"update_queue\":{\"length\":0}}");
    return bw_qdrant__end(&c, s == BW_OK ? bw_qdrant__close(r->ctx, response) : s);
}

/* ---- changes ---- */

/* metadata._labels as a label set of this cell's vocabulary; a 422 that names it else.
 */
static bw_status check_labels(bw_qdrant_call *c, bw_str labels)
{
    bw_json *node;
    bw_labels parsed;
    if (labels.len == 0)
        return BW_OK;
    bw_status s = bw_json_parse(c->p.ctx, labels, BW_JSON_REQUEST, &node);
    if (s == BW_OK)
        s = bw_labels_parse(c->p.ctx, bw_server_catalogue(c->r->server), node,
                            tenant_of(c->r), &parsed);
    if (s != BW_EINVALID)
        return s;
    const char *why = bw_arena_printf(c->p.ctx, "%s", bw_ctx_message(c->p.ctx));
    return why ? bw_qdrant__invalid(&c->p, "metadata._labels", "%s", why)
               : bw_fail_nomem(c->p.ctx);
}

bw_status bw_qdrant_collection_create(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_qdrant_schema schema;
    const char *why;
    bw_status s = bw_qdrant__begin(&c, r, response, true);
    if (s == BW_OK && !bw_qdrant__name_valid(r->args[0], &why))
        s = bw_qdrant__wrong(&c.p, "Collection name %s", why);
    if (s == BW_OK)
        s = bw_qdrant__create(&c.p, c.body, &schema);
    if (s == BW_OK)
        s = check_labels(&c, schema.labels);
    if (s != BW_OK)
        return bw_qdrant__end(&c, s);
    bw_collection_info info = {.tenant = tenant_of(r),
                               .name = r->args[0],
                               .vectors = schema.vectors,
                               .nvectors = schema.nvectors,
                               .settings = schema.settings,
                               .labels = schema.labels};
    s = bw_collection_create(r->ctx, bw_server_engine(r->server), &info);
    if (s == BW_EEXISTS)
        s = bw_fail(r->ctx, s, "Wrong input: Collection `%.*s` already exists!",
                    bw_qdrant__cut(r->args[0], 140), r->args[0].ptr);
    else if (s != BW_OK)
        s = bw_qdrant__engine_failed(&c, s);
    return bw_qdrant__end(
        &c, s == BW_OK ? bw_qdrant__answer_true(r->ctx, response, true) : s);
}

/* optimizers_config.indexing_threshold; absent: Qdrant's default. */
static uint64_t indexing_threshold(bw_ctx *ctx, bw_str settings)
{
    bw_json *doc;
    uint64_t n = 10000;
    if (settings.len > 0 && bw_json_parse(ctx, settings, BW_JSON_REQUEST, &doc) == BW_OK)
        (void)bw_json_u64(
            bw_json_get(bw_json_get(doc, "optimizers_config"), "indexing_threshold"),
            &n);
    return n;
}

/* A client of Qdrant's that loads in bulk sets the threshold to 0 and afterwards to more:
 * "index it now". The same threshold once more is the same wish: so a call whose sealing
 * failed is repeated to some effect. The deadline does not undo the change: what has
 * begun goes on. Called when the settings are stored, which a failure says. */
static bw_status seal_after_load(bw_qdrant_call *c, bw_str settings,
                                 const bw_permit *permit)
{
    bw_request *r = c->r;
    const bw_json *asked = bw_json_get(bw_json_get(c->body, "optimizers_config"),
                                       "indexing_threshold");
    const uint64_t before = indexing_threshold(r->ctx, c->info.settings),
                   now = indexing_threshold(r->ctx, settings);
    if (!asked || now == 0 || (before != 0 && before != now))
        return BW_OK;
    bw_status s = bw_collection_seal(r->ctx, bw_server_engine(r->server),
                                     c->info.tenant, c->info.name, permit);
    if (s == BW_OK || s == BW_ETIMEOUT)
        return BW_OK;
    const char *why = bw_arena_printf(r->ctx, "%s", bw_ctx_message(r->ctx));
    return why ? bw_fail(r->ctx, s,
                         "the settings are stored, but sealing failed (repeat the call "
                         "to try again): %s",
                         why)
               : bw_fail_nomem(r->ctx);
}

bw_status bw_qdrant_collection_update(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_qdrant_schema schema;
    bw_permit permit;
    bw_status s = bw_qdrant__begin(&c, r, response, true);
    if (s == BW_OK)
        s = bw_qdrant__permit(&c, BW_ACTION_QUERY, &permit);
    if (s == BW_OK)
        s = bw_qdrant__patch(
            &c.p, c.info.settings.len ? c.info.settings : BW_STR("{\"vectors\":{}}"),
            c.body, &schema);
    if (s == BW_OK)
        s = check_labels(&c, schema.labels);
    if (s == BW_OK) {
        s = bw_collection_update(r->ctx, bw_server_engine(r->server), c.info.tenant,
                                 c.info.name, schema.settings, schema.labels);
        if (s == BW_OK)
            s = seal_after_load(&c, schema.settings, &permit);
        if (s != BW_OK)
            s = bw_qdrant__engine_failed(&c, s);
    }
    return bw_qdrant__end(
        &c, s == BW_OK ? bw_qdrant__answer_true(r->ctx, response, true) : s);
}

/* What is judged is what is dropped: a class that a writer brings in between is judged
 * in the next turn. */
static bw_status drop(bw_qdrant_call *c, bool *existed)
{
    bw_request *r = c->r;
    bw_permit judged;
    bw_status s = BW_ECONFLICT;
    for (int turn = 0; s == BW_ECONFLICT && turn < DROP_TURNS; turn++) {
        s = bw_gate_drop(r, r->args[0], &judged);
        if (s == BW_OK)
            s = bw_collection_drop_judged(r->ctx, bw_server_engine(r->server),
                                          tenant_of(r), r->args[0], &judged, existed);
    }
    if (s == BW_ECONFLICT)
        return bw_fail(r->ctx, BW_EUNAVAILABLE,
                       "Service unavailable: the collection is being written to");
    return s == BW_OK ? BW_OK : bw_qdrant__engine_failed(c, s);
}

/* 200 with false when there is none (or none that the caller may see). An alias names a
 * collection in reads; dropping by it is refused by saying that there is none. */
bw_status bw_qdrant_collection_delete(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bool existed = false;
    bw_status s = bw_qdrant__begin(&c, r, response, false);
    if (s == BW_OK)
        s = drop(&c, &existed);
    return bw_qdrant__end(
        &c, s == BW_OK ? bw_qdrant__answer_true(r->ctx, response, existed) : s);
}

/* ---- payload indexes ---- */

static bw_status index_answer(bw_qdrant_call *c)
{
    bw_qdrant__open(c->response);
    bw_buf_puts(&c->response->body, "{\"operation_id\":0,\"status\":");
    bw_buf_puts(&c->response->body, c->wait ? "\"completed\"}" : "\"acknowledged\"}");
    return bw_qdrant__close(c->p.ctx, c->response);
}

bw_status bw_qdrant_index_put(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_index_spec spec;
    bw_permit permit;
    bw_status s = bw_qdrant__begin(&c, r, response, true);
    if (s == BW_OK)
        s = bw_qdrant__permit(&c, BW_ACTION_QUERY, &permit);
    if (s == BW_OK)
        s = bw_qdrant__index(&c.p, c.body, &spec);
    if (s == BW_OK && c.info.nindexes >= BW_LIMIT_INDEXES)
        s = bw_qdrant__wrong(&c.p, "a collection has at most %d payload indexes",
                             BW_LIMIT_INDEXES);
    if (s == BW_OK) {
        s = bw_collection_index_put(r->ctx, bw_server_engine(r->server), c.info.tenant,
                                    c.info.name, &spec);
        if (s != BW_OK)
            s = bw_qdrant__engine_failed(&c, s);
    }
    return bw_qdrant__end(&c, s == BW_OK ? index_answer(&c) : s);
}

bw_status bw_qdrant_index_delete(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_permit permit;
    bw_status s = bw_qdrant__begin(&c, r, response, false);
    if (s == BW_OK)
        s = bw_qdrant__permit(&c, BW_ACTION_QUERY, &permit);
    if (s == BW_OK) {
        s = bw_collection_index_drop(r->ctx, bw_server_engine(r->server), c.info.tenant,
                                     c.info.name, r->args[1]);
        if (s == BW_ENOTFOUND) /* an index that is not there is as dropped as can be */
            s = BW_OK;
        else if (s != BW_OK)
            s = bw_qdrant__engine_failed(&c, s);
    }
    return bw_qdrant__end(&c, s == BW_OK ? index_answer(&c) : s);
}
