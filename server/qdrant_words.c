/* Known words of an object, checked for their type and copied (qdrant_words.h). What is
 * kept is rebuilt word by word from tables, because the Python client refuses unknown words
 * inside `vectors`, `sparse_vectors` and an index's `params`; nulls count as left out. */
#include "qdrant_words.h"

static bool has_type(const bw_json *v, char type)
{
    switch (type) {
    case 'u':
        return v->kind == BW_JSON_NUMBER && v->is_int && !v->negative;
    case 'n':
        return v->kind == BW_JSON_NUMBER;
    case 'b':
        return bw_json_is_bool(v);
    case 's':
        return v->kind == BW_JSON_STRING;
    case 'o':
        return v->kind == BW_JSON_OBJECT;
    case 'x':
        return v->kind == BW_JSON_NUMBER || v->kind == BW_JSON_STRING;
    default:
        return v->kind == BW_JSON_STRING || v->kind == BW_JSON_OBJECT;
    }
}

static bw_status check_word(bw_qdrant_parse *p, const bw_json *v, const bw_qdrant_word *w)
{
    if (!has_type(v, w->type))
        return bw_qdrant__format(p, v, "a value of another type is expected");
    if (w->type == 'u' && v->mag < w->min)
        return bw_qdrant__invalid(p, w->name,
                                  "value %llu invalid, must be %u or larger",
                                  (unsigned long long)v->mag, w->min);
    return BW_OK;
}

bw_status bw_qdrant__put_words(bw_qdrant_parse *p, bw_buf *b, const bw_qdrant_word *words,
                               const bw_json *base, const bw_json *over)
{
    bw_buf_putc(b, '{');
    for (const bw_qdrant_word *w = words; w->name; w++) {
        const bw_json *low = bw_json_get_value(base, w->name);
        const bw_json *v = bw_json_get_value(over, w->name);
        bw_status s = v ? check_word(p, v, w) : BW_OK;
        if (s != BW_OK)
            return s;
        if (!v && !low)
            continue;
        bw_json_put_key(b, w->name);
        if (w->inner)
            s = bw_qdrant__put_words(p, b, w->inner, low, v);
        else
            bw_buf_str(b, v ? v->raw : low->raw);
        if (s != BW_OK)
            return s;
    }
    bw_buf_putc(b, '}');
    return BW_OK;
}

void bw_qdrant__put_defaults(bw_buf *b, const bw_qdrant_word *words, const bw_json *kept)
{
    for (const bw_qdrant_word *w = words; w->name; w++) {
        const bw_json *v = bw_json_get_value(kept, w->name);
        if (!v && !w->fallback)
            continue;
        bw_json_put_key(b, w->name);
        if (v)
            bw_buf_str(b, v->raw);
        else
            bw_buf_puts(b, w->fallback);
    }
}
