/* /v1/keys, /v1/audit, /v1/classes, /v1/collections, /v1/whoami. */
#include "v1.h"
#include <sodium.h>
#include <stdlib.h>

enum { AUDIT_LIMIT_MAX = 1000 };

/* ---- keys (Admin on the cell) ---- */

static bw_status need_keys(bw_request *r)
{
    return r->server->keys ? BW_OK
                           : bw_fail(r->ctx, BW_ECONFLICT, "a --dev cell has no keys");
}

bw_status bw_v1_keys_list(bw_request *r, bw_response *out)
{
    const bw_key_record *keys;
    size_t n = 0;
    bw_status s = need_keys(r);
    if (s == BW_OK)
        s = bw_keys_list(r->ctx, r->server->keys, &keys, &n);
    if (s != BW_OK)
        return s;
    bw_buf_puts(&out->body, "{\"keys\":[");
    for (size_t i = 0; i < n; i++) {
        bw_json_sep(&out->body);
        bw_key_record_put(&out->body, &keys[i]);
    }
    bw_buf_puts(&out->body, "]}");
    return bw_v1_done(r, out);
}

bw_status bw_v1_key_check(bw_ctx *ctx, const bw_catalogue *c, const bw_json *body,
                          const bw_key_record *k)
{
    bw_labels labels;
    if (!bw_catalogue_has_country(c, k->seat))
        return bw_fail_at(ctx, BW_EINVALID, "/seat", "is no country of the catalogue");
    for (size_t i = 0; i < k->purposes.n; i++)
        if (!bw_catalogue_has_word(c, "purposes", k->purposes.items[i]))
            return bw_fail_at(ctx, BW_EINVALID, "/purposes",
                              "%.*s is no purpose of the catalogue",
                              (int)k->purposes.items[i].len, k->purposes.items[i].ptr);
    for (size_t i = 0; i < k->safeguards.n; i++)
        if (!bw_catalogue_has_word(c, "safeguards", k->safeguards.items[i]))
            return bw_fail_at(ctx, BW_EINVALID, "/safeguards",
                              "%.*s is no safeguard of the catalogue",
                              (int)k->safeguards.items[i].len,
                              k->safeguards.items[i].ptr);
    const bw_json *given = bw_json_get_value(body, "labels");
    return given ? bw_labels_parse(ctx, c, given, k->tenant, &labels) : BW_OK;
}

bw_status bw_v1_keys_add(bw_request *r, bw_response *out)
{
    bw_json *body;
    bw_key_record record;
    char text[BW_KEY_TEXT + 1], id[BW_KEY_ID + 1];
    bw_status s = need_keys(r);
    if (s == BW_OK)
        s = bw_json_parse(r->ctx, r->body, BW_JSON_REQUEST, &body);
    if (s == BW_OK)
        s = bw_key_record_parse(r->ctx, body, &record);
    if (s == BW_OK)
        s = bw_v1_key_check(r->ctx, r->server->catalogue, body, &record);
    if (s == BW_OK)
        s = bw_keys_add(r->ctx, r->server->keys, &record, text, id);
    if (s != BW_OK)
        return s;
    bw_buf_printf(&out->body, "{\"id\":\"%s\",\"key\":\"%s\"}", id, text);
    sodium_memzero(text, sizeof text);
    out->headers[0][0] = "Cache-Control";
    out->headers[0][1] = "no-store";
    out->nheaders = 1;
    return bw_v1_done(r, out);
}

bw_status bw_v1_keys_revoke(bw_request *r, bw_response *out)
{
    bw_status s = need_keys(r);
    if (s == BW_OK)
        s = bw_keys_revoke(r->ctx, r->server->keys, r->args[0]);
    if (s == BW_OK)
        bw_buf_puts(&out->body, "{\"revoked\":true}");
    return s == BW_OK ? bw_v1_done(r, out) : s;
}

/* ---- audit (ReadAudit on the cell) ---- */

static bw_status param_u64(bw_request *r, const char *name, uint64_t max, bool *has,
                           uint64_t *out)
{
    const bw_param *p = bw_request_param(r, name);
    uint64_t n = 0;
    *has = p != NULL;
    if (!p)
        return BW_OK;
    for (size_t i = 0; i < p->value.len; i++) {
        char c = p->value.ptr[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, (uint64_t)(c - '0'), &n) || n > max)
            return bw_fail(r->ctx, BW_EINVALID, "%s: wants a whole number up to %llu",
                           name, (unsigned long long)max);
    }
    if (p->value.len == 0)
        return bw_fail(r->ctx, BW_EINVALID, "%s: wants a whole number", name);
    *out = n;
    return BW_OK;
}

static bw_str param_str(bw_request *r, const char *name)
{
    const bw_param *p = bw_request_param(r, name);
    return p ? p->value : (bw_str){NULL, 0};
}

bw_status bw_v1_audit(bw_request *r, bw_response *out)
{
    static const char *const allowed[] = {"after", "limit",  "principal",
                                          "key",   "action", "collection",
                                          "event", "status", NULL};
    bw_audit_filter f = {.limit = 100};
    uint64_t n = 0, next = 0, seq;
    uint8_t head[BW_AUDIT_HASH];
    char hex[2 * BW_AUDIT_HASH + 1];
    bool has;
    for (size_t i = 0; i < r->nquery; i++) {
        bool known = false;
        for (const char *const *a = allowed; *a; a++)
            known = known || bw_str_eq(r->query[i].name, bw_str_c(*a));
        if (!known)
            return bw_fail(r->ctx, BW_EINVALID, "unknown query parameter");
    }
    bw_status s = param_u64(r, "after", UINT64_MAX, &f.has_after, &f.after);
    if (s == BW_OK)
        s = param_u64(r, "limit", AUDIT_LIMIT_MAX, &has, &n);
    if (s == BW_OK && has && n == 0)
        s = bw_fail(r->ctx, BW_EINVALID, "limit: wants 1 to %d", AUDIT_LIMIT_MAX);
    if (s == BW_OK && has)
        f.limit = (uint32_t)n;
    if (s == BW_OK)
        s = param_u64(r, "status", 599, &has, &n);
    if (s != BW_OK)
        return s;
    f.status = has ? (int)n : 0;
    f.principal = param_str(r, "principal");
    f.key = param_str(r, "key");
    f.action = param_str(r, "action");
    f.collection = param_str(r, "collection");
    f.event = param_str(r, "event");
    bw_buf_puts(&out->body, "{\"events\":[");
    s = bw_audit_query(r->ctx, r->server->audit, &f, &out->body, &next);
    if (s != BW_OK)
        return s;
    bw_audit_head(r->server->audit, &seq, head);
    sodium_bin2hex(hex, sizeof hex, head, sizeof head);
    bw_buf_puts(&out->body, "],\"next\":");
    if (next)
        bw_json_put_u64(&out->body, next);
    else
        bw_buf_puts(&out->body, "null");
    bw_buf_printf(&out->body, ",\"head\":{\"seq\":%llu,\"hash\":\"%s\"}}",
                  (unsigned long long)seq, hex);
    return bw_v1_done(r, out);
}

/* ---- classes: those that the caller may query, and in which collections ---- */

typedef struct seen_class {
    bw_class_id id;
    bw_buf collections; /* JSON list members */
} seen_class;

static bw_status put_classes(bw_request *r, const seen_class *seen, size_t n, bw_buf *b)
{
    char hex[BW_CLASS_TEXT + 1];
    bw_str text;
    bw_buf_puts(b, "{\"classes\":[");
    for (size_t i = 0; i < n; i++) {
        bw_status s = bw_gate_label_text(r, &seen[i].id, &text);
        if (s != BW_OK)
            return s;
        bw_class_id_hex(&seen[i].id, hex);
        bw_buf_printf(b, "%s{\"id\":\"%s\",\"labels\":", i ? "," : "", hex);
        bw_buf_str(b, text);
        bw_buf_puts(b, ",\"collections\":[");
        bw_buf_str(b, bw_buf_view(&seen[i].collections));
        bw_buf_puts(b, "]}");
        if (seen[i].collections.failed)
            return bw_fail_nomem(r->ctx);
    }
    bw_buf_puts(b, "]}");
    return BW_OK;
}

static int by_class(const void *a, const void *b)
{
    return bw_class_id_cmp(&((const seen_class *)a)->id, &((const seen_class *)b)->id);
}

bw_status bw_v1_classes(bw_request *r, bw_response *out)
{
    const bw_collection_info *info;
    seen_class *seen = NULL;
    size_t ncol = 0, n = 0, cap = 0;
    bw_status s = bw_collection_list(r->ctx, r->server->engine,
                                     r->caller->principal.tenant, &info, &ncol);
    for (size_t i = 0; i < ncol && s == BW_OK; i++) {
        bw_permit p;
        s = bw_gate_permit(r, info[i].name, BW_ACTION_QUERY, NULL, &p);
        for (size_t k = 0; k < p.n && s == BW_OK; k++) {
            size_t at = 0;
            while (at < n && bw_class_id_cmp(&seen[at].id, &p.classes[k]) != 0)
                at++;
            if (at == n && n == cap) {
                size_t bytes = cap * sizeof *seen;
                cap = cap ? cap * 2 : 16;
                seen_class *grown =
                    bw_arena_grow(r->ctx, seen, bytes, cap * sizeof *seen);
                if (!grown) {
                    s = bw_fail_nomem(r->ctx);
                    break;
                }
                seen = grown;
            }
            if (at == n)
                seen[n++] = (seen_class){.id = p.classes[k]};
            bw_json_sep(&seen[at].collections);
            bw_json_put_str(&seen[at].collections, info[i].name);
        }
        if (s == BW_ENOTFOUND) /* dropped meanwhile */
            s = BW_OK;
    }
    if (s == BW_OK && n > 0)
        qsort(seen, n, sizeof *seen, by_class);
    if (s == BW_OK)
        s = put_classes(r, seen, n, &out->body);
    for (size_t i = 0; i < n; i++)
        bw_buf_clear(&seen[i].collections);
    return s == BW_OK ? bw_v1_done(r, out) : s;
}

/* ---- collections: default labels ---- */

static void put_collection(bw_buf *b, const bw_collection_info *c)
{
    bw_buf_puts(b, "{\"name\":");
    bw_json_put_str(b, c->name);
    bw_buf_puts(b, ",\"labels\":");
    bw_buf_str(b, c->labels.len > 0 ? c->labels : BW_STR("null"));
    bw_buf_putc(b, '}');
}

bw_status bw_v1_collections(bw_request *r, bw_response *out)
{
    const bw_collection_info *info;
    size_t n = 0;
    bw_status s = bw_collection_list(r->ctx, r->server->engine,
                                     r->caller->principal.tenant, &info, &n);
    if (s != BW_OK)
        return s;
    bw_buf_puts(&out->body, "{\"collections\":[");
    for (size_t i = 0; i < n; i++) {
        bw_json_sep(&out->body);
        put_collection(&out->body, &info[i]);
    }
    bw_buf_puts(&out->body, "]}");
    return bw_v1_done(r, out);
}

bw_status bw_v1_collection_put(bw_request *r, bw_response *out)
{
    static const char *const allowed[] = {"labels", NULL};
    const bw_json *body, *labels;
    bw_collection_info info;
    bw_labels set;
    bw_str text = BW_STR(""), tenant = r->caller->principal.tenant;
    bw_status s = bw_v1_body(r, allowed, &body);
    if (s != BW_OK)
        return s;
    labels = bw_json_get(body, "labels");
    if (!labels || (labels->kind != BW_JSON_OBJECT && labels->kind != BW_JSON_NULL))
        return bw_fail_at(r->ctx, BW_EINVALID, "/labels",
                          "wants a label set, or null for none");
    if (labels->kind == BW_JSON_OBJECT && !r->server->catalogue)
        return bw_fail(r->ctx, BW_ECONFLICT, "a --dev cell has one class");
    if (labels->kind == BW_JSON_OBJECT) {
        s = bw_labels_parse(r->ctx, r->server->catalogue, labels, tenant, &set);
        text = labels->raw;
    }
    if (s == BW_OK)
        s = bw_collection_update(r->ctx, r->server->engine, tenant, r->args[0],
                                 (bw_str){NULL, 0}, text);
    if (s == BW_OK)
        s = bw_collection_get(r->ctx, r->server->engine, tenant, r->args[0], &info);
    if (s == BW_ENOTFOUND)
        return bw_fail(r->ctx, s, "no such collection");
    if (s != BW_OK)
        return s;
    put_collection(&out->body, &info);
    return bw_v1_done(r, out);
}

/* ---- whoami: what the key says of its owner ---- */

bw_status bw_v1_whoami(bw_request *r, bw_response *out)
{
    const bw_caller *c = r->caller;
    const gate_request *g = gate_of(r);
    bw_key_record open = {.principal = c->principal.id,
                          .tenant = c->principal.tenant,
                          .seat = c->principal.seat,
                          .clearance = c->principal.clearance};
    bw_buf_puts(&out->body, "{\"purpose\":");
    bw_json_put_str(&out->body, c->purpose);
    bw_buf_puts(&out->body, ",\"cell\":{\"id\":");
    bw_json_put_str(&out->body, r->server->config.cell_id);
    bw_buf_puts(&out->body, ",\"country\":");
    bw_json_put_str(&out->body, r->server->config.cell_country);
    bw_buf_puts(&out->body, "},\"key\":");
    bw_key_record_put(&out->body, g->key ? g->key : &open);
    bw_buf_putc(&out->body, '}');
    return bw_v1_done(r, out);
}
