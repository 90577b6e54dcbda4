/* Looking into parsed JSON: members, exact integers, and the pointer of a node. */
#include "json.h"

const bw_json *bw_json_get_str(const bw_json *object, bw_str key)
{
    if (!object || object->kind != BW_JSON_OBJECT)
        return NULL;
    for (const bw_json *v = object->child; v; v = v->next)
        if (bw_str_eq(v->key, key))
            return v;
    return NULL;
}

const bw_json *bw_json_get(const bw_json *object, const char *key)
{
    return bw_json_get_str(object, bw_str_c(key));
}

const bw_json *bw_json_get_value(const bw_json *object, const char *key)
{
    const bw_json *v = bw_json_get(object, key);
    return v && v->kind != BW_JSON_NULL ? v : NULL;
}

bool bw_json_u64(const bw_json *v, uint64_t *out)
{
    if (!v || v->kind != BW_JSON_NUMBER || !v->is_int || v->negative)
        return false;
    *out = v->mag;
    return true;
}

bool bw_json_i64(const bw_json *v, int64_t *out)
{
    if (!v || v->kind != BW_JSON_NUMBER || !v->is_int)
        return false;
    if (v->negative) {
        *out = (int64_t)(0 - v->mag);
        return true;
    }
    if (v->mag > INT64_MAX)
        return false;
    *out = (int64_t)v->mag;
    return true;
}

/* The place of v among its array's elements. An expanded NUMBERS array has no list to
 * walk, but commas stand only between its numbers. */
static size_t element_index(const bw_json *v)
{
    size_t index = 0;
    if (v->parent->kind == BW_JSON_NUMBERS) {
        for (const char *p = v->parent->raw.ptr; p < v->raw.ptr; p++)
            index += *p == ',';
        return index;
    }
    for (const bw_json *e = v->parent->child; e && e != v; e = e->next)
        index++;
    return index;
}

static size_t step_bytes(const bw_json *v)
{
    if (!v->key.ptr)
        return 21; /* a slash and the longest 64-bit number */
    size_t n = 1 + v->key.len;
    for (size_t i = 0; i < v->key.len; i++)
        n += v->key.ptr[i] == '~' || v->key.ptr[i] == '/';
    return n;
}

/* Writes the step of v so that it ends at `end`; gives its start. */
static char *step_put(const bw_json *v, char *end)
{
    if (!v->key.ptr) {
        size_t index = element_index(v);
        do {
            *--end = (char)('0' + index % 10);
            index /= 10;
        } while (index);
    } else {
        for (size_t i = v->key.len; i-- > 0;) {
            char c = v->key.ptr[i];
            if (c == '~' || c == '/') {
                *--end = c == '~' ? '0' : '1';
                c = '~';
            }
            *--end = c;
        }
    }
    *--end = '/';
    return end;
}

const char *bw_json_pointer(bw_ctx *ctx, const bw_json *v)
{
    size_t bytes = 1;
    for (const bw_json *n = v; n && n->parent; n = n->parent)
        bytes += step_bytes(n);
    char *text = bw_arena_alloc(ctx, bytes);
    if (!text)
        return NULL;
    char *p = text + bytes - 1;
    *p = 0;
    for (const bw_json *n = v; n && n->parent; n = n->parent)
        p = step_put(n, p);
    return p;
}
