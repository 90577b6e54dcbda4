/* The control plane's table and what its handlers share. Bodies and answers are in
 * server/README.md. /v1/ingest and /v1/query are the ingest side's table. */
#include "v1_explain.h"
#include <stdlib.h>

#define KEY(m, pattern, h, action, write)                        \
    {                                                            \
        m, pattern, h, BW_ROUTE_KEY, action, BW_FAMILY_V1, write, false \
    }
#define CELL(m, pattern, h, action, write)                        \
    {                                                             \
        m, pattern, h, BW_ROUTE_CELL, action, BW_FAMILY_V1, write, false \
    }

const bw_route bw_routes_v1[] = {
    CELL("GET", "/v1/policies", bw_v1_policies_get, BW_ACTION_ADMIN, false),
    CELL("PUT", "/v1/policies", bw_v1_policies_put, BW_ACTION_ADMIN, true),
    CELL("POST", "/v1/policies/dry-run", bw_v1_policies_dry_run, BW_ACTION_ADMIN,
         false),
    CELL("GET", "/v1/entities", bw_v1_entities_get, BW_ACTION_ADMIN, false),
    CELL("PUT", "/v1/entities", bw_v1_entities_put, BW_ACTION_ADMIN, true),
    CELL("POST", "/v1/policies/replay", bw_v1_policies_replay, BW_ACTION_ADMIN, false),
    CELL("GET", "/v1/keys", bw_v1_keys_list, BW_ACTION_ADMIN, false),
    CELL("POST", "/v1/keys", bw_v1_keys_add, BW_ACTION_ADMIN, true),
    CELL("DELETE", "/v1/keys/{}", bw_v1_keys_revoke, BW_ACTION_ADMIN, true),
    CELL("GET", "/v1/audit", bw_v1_audit, BW_ACTION_READ_AUDIT, false),
    KEY("POST", "/v1/authorize", bw_v1_authorize, BW_ACTION_QUERY, false),
    KEY("POST", "/v1/explain", bw_v1_explain, BW_ACTION_QUERY, false),
    KEY("POST", "/v1/explain/result", bw_v1_explain_result, BW_ACTION_QUERY, false),
    KEY("GET", "/v1/classes", bw_v1_classes, BW_ACTION_QUERY, false),
    KEY("GET", "/v1/whoami", bw_v1_whoami, BW_ACTION_QUERY, false),
    KEY("GET", "/v1/collections", bw_v1_collections, BW_ACTION_QUERY, false),
    {"PUT", "/v1/collections/{}", bw_v1_collection_put, BW_ROUTE_COLLECTION,
     BW_ACTION_MANAGE_COLLECTION, BW_FAMILY_V1, true, false},
    {"POST", "/v1/collections/{}/seal", bw_v1_collection_seal, BW_ROUTE_COLLECTION,
     BW_ACTION_MANAGE_COLLECTION, BW_FAMILY_V1, true, false},
    {"GET", "/metrics", bw_metrics, BW_ROUTE_KEY, BW_ACTION_ADMIN, BW_FAMILY_QDRANT,
     false, false},
    {NULL, NULL, NULL, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_V1, false, false},
};

bw_status bw_v1_members(bw_ctx *ctx, const bw_json *object, const char *const *allowed)
{
    for (const bw_json *m = object->child; m; m = m->next) {
        bool known = false;
        for (const char *const *a = allowed; *a; a++)
            known = known || bw_str_eq(m->key, bw_str_c(*a));
        if (!known)
            return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, m),
                              "unknown member");
    }
    return BW_OK;
}

bw_status bw_v1_body(bw_request *r, const char *const *allowed, const bw_json **out)
{
    bw_json *root;
    bw_status s = bw_json_parse(r->ctx, r->body, BW_JSON_REQUEST, &root);
    if (s != BW_OK)
        return s;
    if (root->kind != BW_JSON_OBJECT)
        return bw_fail_at(r->ctx, BW_EINVALID, "", "wants a JSON object");
    s = bw_v1_members(r->ctx, root, allowed);
    if (s == BW_OK)
        *out = root;
    return s;
}

bw_status bw_v1_string(bw_ctx *ctx, const bw_json *object, const char *name,
                       bw_str *out)
{
    const bw_json *v = bw_json_get_value(object, name);
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_STRING)
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v), "wants a string");
    *out = v->str;
    return BW_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

bw_status bw_v1_strings(bw_ctx *ctx, const bw_json *object, const char *name,
                        bw_words *out)
{
    const bw_json *v = bw_json_get_value(object, name);
    size_t n = 0, unique = 0;
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_ARRAY || v->count > BW_KEY_WORDS_MAX)
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v),
                          "wants a list of at most %d strings", BW_KEY_WORDS_MAX);
    bw_str *w = bw_arena_calloc(ctx, v->count + 1, sizeof *w);
    if (!w)
        return bw_fail_nomem(ctx);
    for (const bw_json *e = v->child; e; e = e->next) {
        if (e->kind != BW_JSON_STRING)
            return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, e),
                              "wants a string");
        w[n++] = e->str;
    }
    if (n > 0)
        qsort(w, n, sizeof *w, by_bytes);
    for (size_t i = 0; i < n; i++)
        if (unique == 0 || !bw_str_eq(w[i], w[unique - 1]))
            w[unique++] = w[i];
    *out = (bw_words){w, unique};
    return BW_OK;
}

bw_status bw_v1_text(bw_ctx *ctx, const bw_json *body, const char *name, size_t lo,
                     size_t hi, bw_str *out)
{
    const bw_json *v = bw_json_get_value(body, name);
    const char *at = v ? bw_json_pointer(ctx, v) : bw_arena_printf(ctx, "/%s", name);
    if (!v || v->kind != BW_JSON_STRING || v->str.len < lo || v->str.len > hi)
        return bw_fail_at(ctx, BW_EINVALID, at ? at : "",
                          "%s: wants a string of %zu to %zu bytes", name, lo, hi);
    *out = v->str;
    return BW_OK;
}

bw_status bw_v1_number(bw_ctx *ctx, const bw_json *o, const char *name, uint32_t lo,
                       uint32_t hi, uint32_t *out)
{
    const bw_json *v = bw_json_get_value(o, name);
    uint64_t n;
    if (!v)
        return BW_OK;
    if (!bw_json_u64(v, &n) || n < lo || n > hi)
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v),
                          "%s: wants an integer of %u to %u", name, lo, hi);
    *out = (uint32_t)n;
    return BW_OK;
}

bw_status bw_v1_flag(bw_ctx *ctx, const bw_json *o, const char *name, bool *out)
{
    const bw_json *v = bw_json_get_value(o, name);
    if (v && !bw_json_is_bool(v))
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v),
                          "%s: wants true or false", name);
    *out = v ? v->kind == BW_JSON_TRUE : *out;
    return BW_OK;
}

bw_status bw_v1_done(bw_request *r, bw_response *response)
{
    return response->body.failed ? bw_fail_nomem(r->ctx) : BW_OK;
}

bw_status bw_v1_place(bw_ctx *ctx, const bw_json *object, bw_place *out)
{
    bw_words certs = {NULL, 0}, hw = {NULL, 0};
    memset(out, 0, sizeof *out);
    bw_status s = bw_v1_string(ctx, object, "id", &out->id);
    if (s == BW_OK)
        s = bw_v1_string(ctx, object, "country", &out->country);
    if (s == BW_OK)
        s = bw_v1_string(ctx, object, "operator", &out->operator_id);
    if (s == BW_OK)
        s = bw_v1_strings(ctx, object, "certs", &certs);
    if (s == BW_OK)
        s = bw_v1_strings(ctx, object, "hw", &hw);
    out->certs = certs.items;
    out->ncerts = certs.n;
    out->hw = hw.items;
    out->nhw = hw.n;
    return s;
}

bw_status bw_v1_each_point(bw_request *r, const bw_read *read, const bw_filter *filter,
                           bw_status (*fn)(void *arg, const bw_hit *hit), void *arg)
{
    bw_scroll page = {.filter = filter, .limit = 4096, .show_all_copies = true};
    bool more = true;
    bw_status s = BW_OK;
    while (more && !s) {
        bw_result *result = NULL;
        size_t n = 0;
        s = bw_scroll_run(r->ctx, bw_server_engine(r->server), read, &page, &result);
        const bw_hit *hits = s ? NULL : bw_result_hits(result, 0, &n);
        for (size_t i = 0; i < n && !s; i++)
            s = fn(arg, &hits[i]);
        more = !s && bw_result_next(result, &page.offset);
        page.has_offset = true;
        bw_result_free(result);
    }
    return s;
}

void bw_v1_put_place(bw_buf *b, const char *key, const bw_place *p)
{
    bw_json_put_key(b, key);
    bw_buf_puts(b, "{\"id\":");
    bw_json_put_str(b, p->id);
    bw_json_put_key(b, "country");
    bw_json_put_str(b, p->country);
    bw_json_put_key(b, "operator");
    bw_json_put_str(b, p->operator_id);
    bw_json_put_strs(b, "certs", p->certs, p->ncerts);
    bw_json_put_strs(b, "hw", p->hw, p->nhw);
    bw_buf_putc(b, '}');
}
