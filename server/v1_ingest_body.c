/* The body of POST /v1/ingest (ingest/README.md, One request): document, labels, facts. */
#include "v1_ingest_private.h"
#include <sodium.h>

enum { SOURCE_BYTES_MAX = 1024, NAME_BYTES_MAX = 1024 };

typedef bw_v1__ingest ingest;

static bw_status decode_base64(bw_ctx *ctx, bw_str text, bw_str *out)
{
    size_t cap = text.len / 4 * 3 + 3, n = 0;
    unsigned char *bin = bw_arena_alloc(ctx, cap);
    const char *end = NULL;
    if (!bin)
        return bw_fail_nomem(ctx);
    if (sodium_base642bin(bin, cap, text.ptr, text.len, NULL, &n, &end,
                          sodium_base64_VARIANT_ORIGINAL) != 0 ||
        end != text.ptr + text.len)
        return bw_fail_at(ctx, BW_EINVALID, "/content_base64",
                          "content_base64: not base64 (RFC 4648, with padding)");
    *out = (bw_str){(const char *)bin, n};
    return BW_OK;
}

/* text or content_base64: exactly one. */
static bw_status read_content(ingest *x, const bw_json *body)
{
    bw_str text = {NULL, 0}, base64 = {NULL, 0};
    bw_status s = bw_v1_string(x->ctx, body, "text", &text);
    if (!s)
        s = bw_v1_string(x->ctx, body, "content_base64", &base64);
    if (!s && !text.ptr == !base64.ptr)
        s = bw_fail_at(x->ctx, BW_EINVALID, "", "wants either text or content_base64");
    if (s)
        return s;
    x->bytes = text;
    return base64.ptr ? decode_base64(x->ctx, base64, &x->bytes) : BW_OK;
}

/* media_type, else the ending of name or source, else plain text when `text` was sent.
 */
static bw_status read_media(ingest *x, const bw_json *body)
{
    bw_str type = {NULL, 0}, name = {NULL, 0};
    bw_status s = bw_v1_string(x->ctx, body, "media_type", &type);
    if (!s)
        s = bw_v1_string(x->ctx, body, "name", &name);
    if (!s && name.len > NAME_BYTES_MAX)
        s = bw_fail_at(x->ctx, BW_EINVALID, "/name", "name: longer than %d bytes",
                       NAME_BYTES_MAX);
    if (s)
        return s;
    x->media = type.len ? bw_media_from_type(type)
                        : bw_media_from_name(name.len ? name : x->source.source);
    if (x->media == BW_MEDIA_UNKNOWN && !type.len && bw_json_get_value(body, "text"))
        x->media = BW_MEDIA_TEXT;
    if (x->media == BW_MEDIA_UNKNOWN)
        return bw_fail_at(x->ctx, BW_EINVALID, type.len ? "/media_type" : "/name",
                          "the kind of this document is not known: text, Markdown, "
                          "HTML and PDF are read");
    return BW_OK;
}

static bw_status read_facts(ingest *x, const bw_json *body)
{
    bw_str expires = {NULL, 0};
    bw_point_facts *f = &x->source.facts;
    bw_status s = bw_v1_string(x->ctx, body, "expires_at", &expires);
    if (!s && expires.ptr && !bw_payload_time(expires, &f->expires_at_ns))
        s = bw_fail_at(x->ctx, BW_EINVALID, "/expires_at",
                       "expires_at: wants a date-time (RFC 3339)");
    if (!s && expires.ptr && f->expires_at_ns == 0)
        f->expires_at_ns = 1; /* 0 would mean never */
    if (!s)
        s = bw_v1_string(x->ctx, body, "subject", &x->subject);
    if (!s && x->subject.ptr && (x->subject.len == 0 || x->subject.len > 1024))
        s = bw_fail_at(x->ctx, BW_EINVALID, "/subject",
                       "subject: wants 1 to 1024 bytes");
    f->source = x->source.source;
    return s;
}

static bw_status read_chunk_sizes(ingest *x, const bw_json *body)
{
    static const char *const allowed[] = {"target", "max", "overlap", NULL};
    const bw_json *v = bw_json_get_value(body, "chunk");
    bw_chunk_options *o = &x->chunk;
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_OBJECT)
        return bw_fail_at(x->ctx, BW_EINVALID, "/chunk", "chunk: wants an object");
    bw_status s = bw_v1_members(x->ctx, v, allowed);
    if (!s)
        s = bw_v1_number(x->ctx, v, "target", 64, 16384, &o->bytes_target);
    if (!s)
        s = bw_v1_number(x->ctx, v, "max", 64, 32768, &o->bytes_max);
    if (!s)
        s = bw_v1_number(x->ctx, v, "overlap", 1, 4096, &o->bytes_overlap);
    return s;
}

static bw_status read_metadata(ingest *x, const bw_json *body)
{
    const bw_json *v = bw_json_get_value(body, "metadata");
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_OBJECT || v->count > BW_RULES_METADATA_MAX)
        return bw_fail_at(x->ctx, BW_EINVALID, "/metadata",
                          "metadata: wants an object of at most %d strings",
                          BW_RULES_METADATA_MAX);
    x->metadata = bw_arena_calloc(x->ctx, v->count + 1u, sizeof *x->metadata);
    if (!x->metadata)
        return bw_fail_nomem(x->ctx);
    for (const bw_json *m = v->child; m; m = m->next) {
        if (m->kind != BW_JSON_STRING || m->str.len > SOURCE_BYTES_MAX)
            return bw_fail_at(x->ctx, BW_EINVALID, bw_json_pointer(x->ctx, m),
                              "wants a string of at most %d bytes", SOURCE_BYTES_MAX);
        x->metadata[x->nmetadata++] = (bw_rule_fact){m->key, m->str};
    }
    return BW_OK;
}

bw_status bw_v1_ingest__body(ingest *x)
{
    static const char *const allowed[] = {
        "collection", "source",   "media_type", "name",    "content_base64",
        "text",       "labels",   "expires_at", "subject", "create",
        "chunk",      "metadata", "dry_run", NULL};
    const bw_json *body;
    const char *why;
    bw_status s = bw_v1_body(x->r, allowed, &body);
    if (!s)
        s = bw_v1_text(x->ctx, body, "collection", 1, BW_LIMIT_COLLECTION_NAME,
                       &x->source.collection);
    if (!s && !bw_qdrant__name_valid(x->source.collection, &why))
        s = bw_fail_at(x->ctx, BW_EINVALID, "/collection", "collection: the name %s",
                       why);
    if (!s)
        s = bw_v1_text(x->ctx, body, "source", 1, SOURCE_BYTES_MAX, &x->source.source);
    if (!s)
        s = read_content(x, body);
    if (!s)
        s = read_media(x, body);
    if (!s)
        s = read_facts(x, body);
    if (!s)
        s = read_chunk_sizes(x, body);
    if (!s)
        s = read_metadata(x, body);
    if (!s)
        s = bw_v1_flag(x->ctx, body, "create", &x->create);
    if (!s)
        s = bw_v1_flag(x->ctx, body, "dry_run", &x->dry_run);
    if (s)
        return s;
    x->labels = bw_json_get_value(body, "labels");
    if (x->labels && x->labels->kind != BW_JSON_OBJECT)
        return bw_fail_at(x->ctx, BW_EINVALID, "/labels", "labels: wants an object");
    return BW_OK;
}
