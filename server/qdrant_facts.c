/* What a payload says about its point: the labels it came with, the text for the text
 * index, and the point facts _expires_at, _subject, _source, _model.
 *
 * Each is looked for at the top level and then in `metadata`, where LangChain puts
 * what its users call metadata. The payload itself is kept as it came: what the client
 * put inside it comes back inside it. Payload calls may neither set nor remove these
 * words (changing a class is a move that the policy decides; a fact is written with its
 * point). Text: page_content (LangChain), content (LangChain for JavaScript), text, or
 * the text in LlamaIndex's _node_content, a JSON string inside the payload. */
#include "qdrant.h"

static const char *const words[] = {"_labels", "_expires_at", "_subject", "_source",
                                    "_model"};

static const bw_json *found(const bw_json *payload, const char *word)
{
    const bw_json *v = bw_json_get_value(payload, word);
    return v ? v : bw_json_get_value(bw_json_get(payload, "metadata"), word);
}

static bw_status fact_string(bw_qdrant_parse *p, const bw_json *payload,
                             const char *word, bw_str *out)
{
    const bw_json *v = found(payload, word);
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_STRING || v->str.len == 0 || v->str.len > 1024)
        return bw_qdrant__invalid(p, word, "expected a string of 1 to 1024 bytes");
    *out = v->str;
    return BW_OK;
}

static bw_status expiry(bw_qdrant_parse *p, const bw_json *payload, int64_t *out)
{
    const bw_json *v = found(payload, "_expires_at");
    int64_t ns;
    if (!v)
        return BW_OK;
    if (v->kind == BW_JSON_STRING
            ? !bw_payload_time(v->str, &ns)
            : !bw_json_i64(v, &ns) || __builtin_mul_overflow(ns, 1000000000, &ns))
        return bw_qdrant__invalid(
            p, "_expires_at",
            "expected a date-time (RFC 3339) or seconds of Unix time");
    *out = ns == 0 ? 1 : ns; /* 0 is "never" in the engine; the epoch is long past */
    return BW_OK;
}

static bw_status node_text(bw_ctx *ctx, const bw_json *content, bw_str *out)
{
    bw_json *node;
    bw_status s = bw_json_parse(ctx, content->str, BW_QDRANT_JSON, &node);
    if (s == BW_EINVALID)
        return BW_OK; /* some other program's _node_content: no text, no error */
    if (s != BW_OK)
        return s;
    const bw_json *text = bw_json_get(node, "text");
    if (!text || text->kind != BW_JSON_STRING)
        text = bw_json_get(bw_json_get(node, "text_resource"), "text");
    if (text && text->kind == BW_JSON_STRING)
        *out = text->str;
    return BW_OK;
}

static bw_status text_of(bw_ctx *ctx, const bw_json *payload, bw_str *out)
{
    static const char *const names[] = {"page_content", "content", "text"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const bw_json *v = bw_json_get(payload, names[i]);
        if (v && v->kind == BW_JSON_STRING) {
            *out = v->str;
            return BW_OK;
        }
    }
    const bw_json *content = bw_json_get(payload, "_node_content");
    return content && content->kind == BW_JSON_STRING ? node_text(ctx, content, out)
                                                      : BW_OK;
}

bw_status bw_qdrant__text_of(bw_ctx *ctx, bw_str payload, bw_str *out)
{
    bw_json *root;
    *out = (bw_str){NULL, 0};
    bw_status s = bw_json_parse(ctx, payload, BW_QDRANT_JSON, &root);
    if (s == BW_EINVALID)
        return bw_fail(ctx, BW_ECORRUPT, "a stored payload is no JSON");
    return s == BW_OK ? text_of(ctx, root, out) : s;
}

bw_status bw_qdrant__facts(bw_qdrant_parse *p, const bw_json *payload,
                           bw_qdrant_facts *out)
{
    *out = (bw_qdrant_facts){0};
    if (!payload)
        return bw_qdrant__model(p, (bw_str){NULL, 0}, &out->facts.model);
    out->labels = found(payload, "_labels");
    bw_str model = {NULL, 0};
    bw_status s = expiry(p, payload, &out->facts.expires_at_ns);
    if (s == BW_OK)
        s = fact_string(p, payload, "_subject", &out->facts.subject);
    if (s == BW_OK)
        s = fact_string(p, payload, "_source", &out->facts.source);
    if (s == BW_OK)
        s = fact_string(p, payload, "_model", &model);
    if (s == BW_OK)
        s = bw_qdrant__model(p, model, &out->facts.model);
    if (s == BW_OK)
        s = text_of(p->ctx, payload, &out->text);
    return s;
}

/* ---- payload calls ---- */

static bool reserved(bw_str key)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (bw_str_eq(key, bw_str_c(words[i])))
            return true;
    return false;
}

/* LlamaIndex's own two words may be set; every other `_…` is ours, now or later. */
static bool refused(bw_str key)
{
    return key.len > 0 && key.ptr[0] == '_' && !bw_str_is(key, "_node_content") &&
           !bw_str_is(key, "_node_type");
}

static bw_status refuse(bw_qdrant_parse *p, const bw_json *node, bw_str key)
{
    return bw_qdrant__format(
        p, node, "`%.*s` is set by writing the point, not by a payload call",
        bw_qdrant__cut(key, 32), key.ptr);
}

bw_status bw_qdrant__no_fact_path(bw_qdrant_parse *p, const bw_json *node, bw_str path)
{
    bw_step s[BW_PATH_STEPS_MAX];
    uint32_t n;
    if (path.len == 0)
        return BW_OK;
    if (!bw_path_read(path, s, &n))
        return bw_qdrant__format(p, node, "not a payload path");
    if (refused(s[0].key))
        return refuse(p, node, s[0].key);
    if (n > 1 && bw_str_is(s[0].key, "metadata") && s[1].kind == BW_STEP_KEY &&
        reserved(s[1].key))
        return refuse(p, node, s[1].key);
    return BW_OK;
}

bw_status bw_qdrant__no_facts(bw_qdrant_parse *p, const bw_json *payload, bw_str key)
{
    bw_step at[BW_PATH_STEPS_MAX];
    uint32_t n = 0;
    if (key.len && !bw_path_read(key, at, &n))
        return bw_qdrant__format(p, payload, "not a payload path");
    bool in_metadata = n == 1 && bw_str_is(at[0].key, "metadata");
    for (const bw_json *m = payload->child; m; m = m->next) {
        if (n == 0 && refused(m->key))
            return refuse(p, m, m->key);
        if (in_metadata && reserved(m->key))
            return refuse(p, m, m->key);
        if (n != 0 || !bw_str_is(m->key, "metadata") || m->kind != BW_JSON_OBJECT)
            continue;
        for (const bw_json *e = m->child; e; e = e->next)
            if (reserved(e->key))
                return refuse(p, e, e->key);
    }
    return bw_qdrant__no_fact_path(p, payload, key);
}

/* ---- the embedding model ---- */

static bw_status bound_models(bw_qdrant_parse *p)
{
    bw_json *settings;
    if (p->models_read || !p->info || p->info->settings.len == 0)
        return BW_OK;
    bw_status s = bw_json_parse(p->ctx, p->info->settings, BW_JSON_REQUEST, &settings);
    if (s == BW_EINVALID)
        return bw_fail(p->ctx, BW_ECORRUPT, "the collection's settings are no JSON");
    if (s != BW_OK)
        return s;
    p->models = bw_json_get_value(bw_json_get(settings, "metadata"), "_model");
    p->models_read = true;
    return BW_OK;
}

bw_status bw_qdrant__model(bw_qdrant_parse *p, bw_str given, bw_str *out)
{
    bw_status s = bound_models(p);
    if (s != BW_OK)
        return s;
    const bw_json *bound = p->models;
    *out = given;
    if (!bound || (bound->kind != BW_JSON_STRING && bound->kind != BW_JSON_ARRAY))
        return BW_OK;
    const bw_json *first = bound->kind == BW_JSON_ARRAY ? bound->child : bound;
    if (!given.ptr) {
        if (first && (bound->kind == BW_JSON_STRING || bound->count == 1))
            *out = first->str;
        return BW_OK;
    }
    for (const bw_json *m = first; m; m = bound->kind == BW_JSON_ARRAY ? m->next : NULL)
        if (m->kind == BW_JSON_STRING && bw_str_eq(m->str, given))
            return BW_OK;
    return bw_fail(
        p->ctx, BW_ECONFLICT,
        "Wrong input: Model error: the collection holds vectors of another model than "
        "`%.*s` (metadata._model)",
        bw_qdrant__cut(given, 64), given.ptr);
}
