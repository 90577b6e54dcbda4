/* One request body of the Qdrant surface: its JSON, the fields that many calls share,
 * and the texts of its errors (contract, section 1, table of errors).
 *
 * Place in the flow: first thing of every handler; the parsers of filters, vectors,
 * points and queries stand on it. Null means missing everywhere but inside payloads
 * (bw_json_get_value). Unknown fields are ignored as Qdrant does, except the words of a
 * filter where no filter is (dropping one would widen the answer), and those of objects
 * whose words say how good an answer must be or what a collection is to become. */
#include "qdrant.h"

#include <stdio.h>

/* ---- errors ---- */

int bw_qdrant__cut(bw_str s, int max)
{
    if (s.len <= (size_t)max)
        return (int)s.len;
    int n = max;
    while (n > 0 && ((unsigned char)s.ptr[n] & 0xC0) == 0x80)
        n--;
    return n;
}

bw_status bw_qdrant__format(bw_qdrant_parse *p, const bw_json *node, const char *fmt,
                            ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *pointer = node ? bw_json_pointer(p->ctx, node) : "";
    if (!pointer)
        return bw_fail_nomem(p->ctx);
    if (!*pointer)
        return bw_fail(p->ctx, BW_EINVALID, "Format error in JSON body: %s", text);
    bw_str ptr = bw_str_c(pointer);
    return bw_fail_at(p->ctx, BW_EINVALID, pointer,
                      "Format error in JSON body: %.*s: %s", bw_qdrant__cut(ptr, 96),
                      pointer, text);
}

bw_status bw_qdrant__wrong(bw_qdrant_parse *p, const char *fmt, ...)
{
    char text[220];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return bw_fail(p->ctx, BW_EINVALID, "Wrong input: %s", text);
}

bw_status bw_qdrant__invalid(bw_qdrant_parse *p, const char *field, const char *fmt,
                             ...)
{
    char text[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    p->status = 422;
    return bw_fail(p->ctx, BW_EINVALID, "Validation error in JSON body: [%s: %s]",
                   field, text);
}

bw_status bw_qdrant__later(bw_qdrant_parse *p, const bw_json *node, const char *what)
{
    return bw_qdrant__format(p, node, "%s is not served by this cell", what);
}

/* ---- the body ---- */

bw_status bw_qdrant__body(bw_qdrant_parse *p, bw_str body, const bw_json **out)
{
    bw_json *root = NULL;
    if (body.len == 0)
        return bw_qdrant__format(p, NULL, "the body is empty, expected a JSON object");
    bw_status s = bw_json_parse(p->ctx, body, BW_QDRANT_JSON, &root);
    if (s == BW_EINVALID) {
        const char *why = bw_arena_printf(p->ctx, "%s", bw_ctx_message(p->ctx));
        const char *at = bw_arena_printf(p->ctx, "%s", bw_ctx_pointer(p->ctx));
        if (!why || !at)
            return bw_fail_nomem(p->ctx);
        return bw_fail_at(p->ctx, s, at, "Format error in JSON body: %s%s%.120s", why,
                          *at && !strstr(why, at) ? " at " : "",
                          strstr(why, at) ? "" : at);
    }
    if (s != BW_OK)
        return s;
    if (root->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, NULL, "expected a JSON object");
    *out = root;
    return BW_OK;
}

static const char *const filter_words[] = {
    "must",         "should",     "must_not",         "min_should",
    "match",        "range",      "is_empty",         "is_null",
    "has_id",       "has_vector", "nested",           "geo_radius",
    "values_count", "key",        "geo_bounding_box", "geo_polygon",
};

bw_status bw_qdrant__no_filter_words(bw_qdrant_parse *p, const bw_json *object,
                                     const char *own)
{
    if (!object || object->kind != BW_JSON_OBJECT)
        return BW_OK;
    for (const bw_json *m = object->child; m; m = m->next) {
        if (own && bw_str_eq(m->key, bw_str_c(own)))
            continue;
        for (size_t i = 0; i < sizeof filter_words / sizeof *filter_words; i++)
            if (bw_str_eq(m->key, bw_str_c(filter_words[i])))
                return bw_qdrant__format(p, m, "`%s` belongs inside a filter",
                                         filter_words[i]);
    }
    return BW_OK;
}

bw_status bw_qdrant__known(bw_qdrant_parse *p, const bw_json *object,
                           const char *const *words)
{
    if (!object || object->kind != BW_JSON_OBJECT)
        return BW_OK;
    for (const bw_json *m = object->child; m; m = m->next) {
        size_t i = 0;
        while (words[i] && !bw_str_eq(m->key, bw_str_c(words[i])))
            i++;
        if (words[i] || m->kind == BW_JSON_NULL)
            continue;
        bw_buf b = {0};
        for (i = 0; words[i]; i++)
            bw_buf_printf(&b, "%s%s", i ? ", " : "", words[i]);
        bw_buf_putc(&b, 0);
        bw_status s = b.failed ? bw_fail_nomem(p->ctx)
                               : bw_qdrant__format(p, m, "unknown field, expected %s", b.ptr);
        bw_buf_clear(&b);
        return s;
    }
    return BW_OK;
}

bw_status bw_qdrant__no_shard_key(bw_qdrant_parse *p, const bw_json *object)
{
    const bw_json *key = bw_json_get_value(object, "shard_key");
    return key ? bw_qdrant__later(p, key, "a shard key") : BW_OK;
}

/* ---- fields ---- */

bw_status bw_qdrant__u32(bw_qdrant_parse *p, const bw_json *object, const char *name,
                         uint32_t lo, uint32_t hi, uint32_t *out)
{
    const bw_json *v = bw_json_get_value(object, name);
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_NUMBER || !v->is_int || v->negative)
        return bw_qdrant__format(p, v, "expected an unsigned integer");
    if (v->mag < lo)
        return bw_qdrant__invalid(p, name, "value %llu invalid, must be %u or larger",
                                  (unsigned long long)v->mag, lo);
    if (v->mag > hi)
        return bw_qdrant__invalid(p, name, "value %llu invalid, must be %u or smaller",
                                  (unsigned long long)v->mag, hi);
    *out = (uint32_t)v->mag;
    return BW_OK;
}

bw_status bw_qdrant__bool(bw_qdrant_parse *p, const bw_json *object, const char *name,
                          bool *out)
{
    const bw_json *v = bw_json_get_value(object, name);
    if (!v)
        return BW_OK;
    if (!bw_json_is_bool(v))
        return bw_qdrant__format(p, v, "expected true or false");
    *out = v->kind == BW_JSON_TRUE;
    return BW_OK;
}

bw_status bw_qdrant__string(bw_qdrant_parse *p, const bw_json *object, const char *name,
                            bw_str *out)
{
    const bw_json *v = bw_json_get_value(object, name);
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_STRING)
        return bw_qdrant__format(p, v, "expected a string");
    *out = v->str;
    return BW_OK;
}

bw_status bw_qdrant__list(bw_qdrant_parse *p, const bw_json *node, const char *what,
                          uint32_t max, const bw_json **first, uint32_t *n)
{
    *first = NULL;
    *n = 0;
    if (!node)
        return bw_qdrant__format(p, NULL, "missing field `%s`", what);
    if (!bw_json_is_array(node))
        return bw_qdrant__format(p, node, "expected a list of %s", what);
    if (node->count > max)
        return bw_qdrant__invalid(p, what, "%u entries, at most %u are taken",
                                  node->count, max);
    *n = node->count;
    return bw_json_elements(p->ctx, node, first);
}

/* ---- point ids ---- */

bw_status bw_qdrant__point_id(bw_qdrant_parse *p, const bw_json *node, bw_point_id *out)
{
    *out = (bw_point_id){0};
    if (node->kind == BW_JSON_NUMBER && node->is_int && !node->negative) {
        out->lo = node->mag;
        return BW_OK;
    }
    if (node->kind == BW_JSON_STRING && bw_uuid_parse(node->str, out))
        return BW_OK;
    bw_str shown = node->kind == BW_JSON_STRING ? node->str : node->raw;
    return bw_qdrant__format(
        p, node,
        "value %.*s is not a valid point ID, valid values are either an "
        "unsigned integer or a UUID",
        bw_qdrant__cut(shown, 48), shown.ptr);
}

bw_status bw_qdrant__ids(bw_qdrant_parse *p, const bw_json *list, const char *what,
                         const bw_point_id **out, uint32_t *n)
{
    const bw_json *e;
    bw_status s = bw_qdrant__list(p, list, what, BW_LIMIT_IDS, &e, n);
    if (s != BW_OK)
        return s;
    bw_point_id *ids = bw_arena_calloc(p->ctx, *n, sizeof *ids);
    if (!ids)
        return bw_fail_nomem(p->ctx);
    for (uint32_t i = 0; e; e = e->next, i++)
        if ((s = bw_qdrant__point_id(p, e, &ids[i])) != BW_OK)
            return s;
    *out = ids;
    return BW_OK;
}

/* ---- payload paths ---- */

bw_status bw_qdrant__path_field(bw_qdrant_parse *p, const bw_json *node,
                                const char *what, bw_str *out)
{
    bw_step steps[BW_PATH_STEPS_MAX];
    uint32_t n;
    if (!node)
        return bw_qdrant__format(p, NULL, "missing field `%s`", what);
    if (node->kind != BW_JSON_STRING)
        return bw_qdrant__format(p, node, "expected a payload path as a string");
    if (!bw_path_read(node->str, steps, &n))
        return bw_qdrant__format(p, node,
                                 "not a payload path (a.b, a[].b, a[0], \"a.b\".c)");
    *out = node->str;
    return BW_OK;
}
