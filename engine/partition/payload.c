/* Payload paths and values over JSON bytes (payload.h): the scanner under filters,
 * payload indexes, facets, groups and order_by.
 *
 * The bytes were checked by the strict reader when they came in, so this scanner does
 * not check them again; it only stays inside the span. Left out: trees (base/json.h),
 * edits (plan/payload_edit.c), what a condition means (plan/filter.c). */
#include "payload.h"
#include <stdlib.h>
#include <utf8proc.h>

/* ---- scanning ---- */

static const char *skip_ws(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
        p++;
    return p;
}

/* p stands on the opening quote; returns the byte after the closing one. A quote is
 * escaped when an odd run of backslashes stands before it; runs before two quotes are
 * disjoint, so the whole is linear. */
static const char *skip_string(const char *p, const char *end)
{
    const char *first = p + 1;
    for (const char *q = first; q < end; q++) {
        q = memchr(q, '"', (size_t)(end - q));
        if (!q)
            return end;
        const char *b = q;
        while (b > first && b[-1] == '\\')
            b--;
        if (((q - b) & 1) == 0)
            return q + 1;
    }
    return end;
}

static const char *skip_value(const char *p, const char *end)
{
    if (p >= end)
        return end;
    if (*p == '"')
        return skip_string(p, end);
    if (*p != '{' && *p != '[') {
        while (p < end && *p != ',' && *p != '}' && *p != ']' && *p != ' ' &&
               *p != '\t' && *p != '\n' && *p != '\r')
            p++;
        return p;
    }
    size_t depth = 0;
    while (p < end) {
        char c = *p;
        if (c == '"') {
            p = skip_string(p, end);
            continue;
        }
        p++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return p;
    }
    return end;
}

static bool container_begin(bw_str raw, char open, bw_str *rest)
{
    if (raw.len < 2 || raw.ptr[0] != open)
        return false;
    *rest = (bw_str){raw.ptr + 1, raw.len - 1};
    return true;
}

/* Moves to the next item's first byte; NULL at the end of the container. */
static const char *container_item(const bw_str *rest, char close)
{
    const char *end = rest->ptr + rest->len;
    const char *p = skip_ws(rest->ptr, end);
    if (p < end && *p == ',')
        p = skip_ws(p + 1, end);
    return p < end && *p != close ? p : NULL;
}

bool bw_raw_array_begin(bw_str raw, bw_str *rest)
{
    return container_begin(raw, '[', rest);
}

bool bw_raw_array_next(bw_str *rest, bw_str *element)
{
    const char *end = rest->ptr + rest->len, *p = container_item(rest, ']');
    if (!p)
        return false;
    const char *q = skip_value(p, end);
    *element = (bw_str){p, (size_t)(q - p)};
    *rest = (bw_str){q, (size_t)(end - q)};
    return q > p;
}

bool bw_raw_object_begin(bw_str raw, bw_str *rest)
{
    return container_begin(raw, '{', rest);
}

bool bw_raw_object_next(bw_str *rest, bw_str *key, bw_str *value)
{
    const char *end = rest->ptr + rest->len, *p = container_item(rest, '}');
    if (!p || *p != '"')
        return false;
    const char *q = skip_string(p, end);
    if (q - p < 2)
        return false;
    *key = (bw_str){p + 1, (size_t)(q - p) - 2};
    p = skip_ws(q, end);
    if (p < end && *p == ':')
        p++;
    p = skip_ws(p, end);
    q = skip_value(p, end);
    *value = (bw_str){p, (size_t)(q - p)};
    *rest = (bw_str){q, (size_t)(end - q)};
    return q > p;
}

size_t bw_raw_array_count(bw_str raw)
{
    bw_str rest, e;
    size_t n = 0;
    if (bw_raw_array_begin(raw, &rest)) {
        while (bw_raw_array_next(&rest, &e))
            n++;
    }
    return n;
}

size_t bw_raw_depth(bw_str raw)
{
    const char *p = raw.ptr, *end = p + raw.len;
    size_t depth = 0, most = 0;
    while (p < end) {
        char c = *p;
        if (c == '"') {
            p = skip_string(p, end);
            continue;
        }
        p++;
        if (c == '{' || c == '[')
            most = ++depth > most ? depth : most;
        else if ((c == '}' || c == ']') && depth > 0)
            depth--;
    }
    return most;
}

/* ---- strings ---- */

static unsigned hex4(const char *p)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)p[i];
        unsigned d = c <= '9' ? c - 48u : (c | 32u) - 'a' + 10u;
        v = v << 4 | (d & 15u);
    }
    return v;
}

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xF0 | (c >> 18 & 7));
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* One escape at p (the backslash); returns the bytes read. \uXXXX is six bytes and at
 * most three of UTF-8, a pair twelve and four: the output never outgrows the input. */
static size_t unescape_one(const char *p, const char *end, char *out, size_t *n)
{
    if (end - p < 2)
        return (size_t)(end - p);
    if (p[1] != 'u') {
        static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
        const char *at = memchr(from, p[1], sizeof from - 1);
        out[(*n)++] = at ? to[at - from] : p[1];
        return 2;
    }
    if (end - p < 6)
        return (size_t)(end - p);
    uint32_t c = hex4(p + 2);
    size_t used = 6;
    if (c >= 0xD800 && c < 0xDC00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u') {
        c = 0x10000 + ((c - 0xD800) << 10) + ((hex4(p + 8) - 0xDC00) & 0x3FF);
        used = 12;
    }
    *n += put_utf8(out + *n, c);
    return used;
}

size_t bw_raw_unescape(bw_str inner, char *out)
{
    const char *p = inner.ptr, *end = p + inner.len;
    size_t n = 0;
    while (p < end) {
        const char *b = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((b ? b : end) - p);
        memcpy(out + n, p, plain);
        n += plain;
        p += plain;
        if (b)
            p += unescape_one(p, end, out, &n);
    }
    return n;
}

bool bw_raw_string(bw_str raw, bw_buf *scratch, bw_str *out)
{
    if (!bw_raw_is_string(raw))
        return false;
    bw_str inner = {raw.ptr + 1, raw.len - 2};
    if (inner.len == 0 || !memchr(inner.ptr, '\\', inner.len)) {
        *out = inner;
        return true;
    }
    scratch->len = 0;
    bw_buf_put(scratch, inner.ptr, inner.len); /* reserves: never longer than this */
    if (scratch->failed)
        return false;
    scratch->len = bw_raw_unescape(inner, scratch->ptr);
    *out = (bw_str){scratch->ptr, scratch->len};
    return true;
}

bool bw_raw_key_eq(bw_str inner, bw_str key)
{
    if (bw_str_eq(inner, key))
        return inner.len == 0 || !memchr(inner.ptr, '\\', inner.len);
    if (inner.len <= key.len || !memchr(inner.ptr, '\\', inner.len))
        return false;
    const char *p = inner.ptr, *end = p + inner.len;
    size_t at = 0;
    while (p < end) {
        char piece[8];
        size_t n = 0;
        if (*p == '\\')
            p += unescape_one(p, end, piece, &n);
        else
            piece[n++] = *p++;
        if (key.len - at < n || memcmp(key.ptr + at, piece, n) != 0)
            return false;
        at += n;
    }
    return at == key.len;
}

/* ---- paths ---- */

/* Letters, digits and marks of any script; `len` gets the bytes of the code point. */
static bool word_char(const char *p, const char *end, size_t *len, int32_t *code)
{
    unsigned char c = (unsigned char)*p;
    if (c < 0x80) {
        *len = 1;
        *code = c;
        return (c >= '0' && c <= '9') || ((c | 32u) >= 'a' && (c | 32u) <= 'z');
    }
    utf8proc_int32_t cp = -1;
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)p, end - p, &cp);
    if (n <= 0) {
        *len = 1;
        *code = -1;
        return false;
    }
    *len = (size_t)n;
    *code = cp;
    utf8proc_category_t cat = utf8proc_category(cp);
    return (cat >= UTF8PROC_CATEGORY_LU && cat <= UTF8PROC_CATEGORY_ME) ||
           (cat >= UTF8PROC_CATEGORY_ND && cat <= UTF8PROC_CATEGORY_NO);
}

static const char *read_key(const char *p, const char *end, bw_str *key)
{
    if (p < end && *p == '"') {
        const char *q = memchr(p + 1, '"', (size_t)(end - p - 1));
        size_t len = q ? (size_t)(q - p) : 0;
        /* no NUL and no broken UTF-8: an edit may write the key into a payload */
        if (!q || memchr(p, '\\', len) || memchr(p, '\0', len) ||
            !bw_utf8_valid(p + 1, len - 1))
            return NULL;
        *key = (bw_str){p + 1, (size_t)(q - p) - 1};
        return q + 1;
    }
    const char *start = p;
    size_t n;
    int32_t code;
    while (p < end && (word_char(p, end, &n, &code) || *p == '_' || *p == '-'))
        p += (*p == '_' || *p == '-') ? 1 : n;
    *key = (bw_str){start, (size_t)(p - start)};
    return p > start ? p : NULL;
}

/* After '['; an empty pair means all elements. */
static const char *read_bracket(const char *p, const char *end, bw_step *step)
{
    const char *start = p;
    size_t v = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(v, (size_t)10, &v) ||
            __builtin_add_overflow(v, (size_t)(*p - '0'), &v))
            return NULL;
    }
    if (p >= end || *p != ']')
        return NULL;
    *step = (bw_step){p == start ? BW_STEP_ALL : BW_STEP_INDEX, {NULL, 0}, v};
    return p + 1;
}

bool bw_path_read(bw_str text, bw_step *steps, uint32_t *n)
{
    const char *p = text.ptr, *end = p + text.len;
    uint32_t count = 0;
    if (text.len == 0 || text.len > BW_PATH_BYTES_MAX)
        return false;
    for (;;) {
        bw_str key;
        p = read_key(p, end, &key);
        if (!p || count == BW_PATH_STEPS_MAX)
            return false;
        steps[count++] = (bw_step){BW_STEP_KEY, key, 0};
        while (p < end && *p == '[') {
            if (count == BW_PATH_STEPS_MAX)
                return false;
            p = read_bracket(p + 1, end, &steps[count++]);
            if (!p)
                return false;
        }
        if (p == end)
            break;
        if (*p++ != '.')
            return false;
    }
    *n = count;
    return true;
}

bw_status bw_path_parse(bw_ctx *ctx, bw_str text, bw_path *out)
{
    bw_step steps[BW_PATH_STEPS_MAX];
    uint32_t n = 0;
    if (!bw_path_read(text, steps, &n))
        return bw_fail(ctx, BW_EINVALID, "Invalid payload path `%.*s`",
                       (int)(text.len < 80 ? text.len : 80), text.ptr ? text.ptr : "");
    bw_step *own = bw_arena_alloc(ctx, n * sizeof *own);
    if (!own)
        return BW_ENOMEM;
    memcpy(own, steps, n * sizeof *own);
    *out = (bw_path){own, n};
    return BW_OK;
}

static bool find_member(bw_str object, bw_str key, bw_str *value)
{
    bw_str rest, k;
    if (!bw_raw_object_begin(object, &rest))
        return false;
    while (bw_raw_object_next(&rest, &k, value)) {
        if (bw_raw_key_eq(k, key))
            return true;
    }
    return false;
}

static bool find_element(bw_str array, size_t index, bw_str *value)
{
    bw_str rest;
    if (!bw_raw_array_begin(array, &rest))
        return false;
    for (size_t i = 0; bw_raw_array_next(&rest, value); i++) {
        if (i == index)
            return true;
    }
    return false;
}

/* Goes deeper only at a step that fans out: at most BW_PATH_STEPS_MAX frames. */
static bool walk(const bw_step *step, uint32_t n, bw_str raw, bw_raw_fn fn, void *arg)
{
    for (; n > 0; step++, n--) {
        if (step->kind == BW_STEP_ALL) {
            bw_str rest, e;
            if (!bw_raw_array_begin(raw, &rest))
                return true;
            while (bw_raw_array_next(&rest, &e)) {
                if (!walk(step + 1, n - 1, e, fn, arg))
                    return false;
            }
            return true;
        }
        bw_str next;
        if (step->kind == BW_STEP_KEY ? !find_member(raw, step->key, &next)
                                      : !find_element(raw, step->index, &next))
            return true;
        raw = next;
    }
    return fn(arg, raw);
}

bool bw_path_each(const bw_path *path, bw_str object, bw_raw_fn fn, void *arg)
{
    assert(path->n <= BW_PATH_STEPS_MAX);
    return walk(path->steps, path->n, object, fn, arg);
}

/* ---- numbers ---- */

static bool read_integer(bw_str raw, bw_number *out)
{
    size_t i = raw.ptr[0] == '-' ? 1 : 0;
    uint64_t mag = 0;
    if (i == raw.len)
        return false;
    for (; i < raw.len; i++) {
        if (raw.ptr[i] < '0' || raw.ptr[i] > '9' ||
            __builtin_mul_overflow(mag, (uint64_t)10, &mag) ||
            __builtin_add_overflow(mag, (uint64_t)(raw.ptr[i] - '0'), &mag))
            return false;
    }
    bool negative = raw.ptr[0] == '-';
    if (negative && (mag == 0 || mag > (uint64_t)1 << 63))
        return false; /* -0 is a float, and beyond int64 they are floats too */
    *out = (bw_number){true, negative, mag, negative ? -(double)mag : (double)mag};
    return true;
}

bool bw_raw_number(bw_str raw, bw_number *out)
{
    if (!bw_raw_is_number(raw))
        return false;
    if (read_integer(raw, out))
        return true;
    char small[512], *text = small, *end = NULL;
    if (raw.len >= sizeof small) {
        text = bw_alloc(raw.len + 1);
        if (!text)
            return false;
    }
    memcpy(text, raw.ptr, raw.len);
    text[raw.len] = '\0';
    double real = strtod(text, &end);
    bool whole = end == text + raw.len;
    if (text != small)
        bw_free(text);
    *out = (bw_number){false, false, 0, real};
    return whole;
}

/* Integer (negative, mag) against a double, exactly. */
static int int_cmp_double(bool negative, uint64_t mag, double d)
{
    bool dneg = d < 0;
    if (negative != dneg)
        return negative ? -1 : 1;
    double a = dneg ? -d : d;
    int c;
    if (a >= 18446744073709551616.0) {
        c = -1;
    } else {
        uint64_t whole = (uint64_t)a;
        c = mag < whole ? -1 : mag > whole ? 1 : ((double)whole < a ? -1 : 0);
    }
    return negative ? -c : c;
}

int bw_number_cmp(const bw_number *a, const bw_number *b)
{
    if (a->is_int && b->is_int) {
        if (a->negative != b->negative)
            return a->negative ? -1 : 1;
        int c = (a->mag > b->mag) - (a->mag < b->mag);
        return a->negative ? -c : c;
    }
    if (a->is_int)
        return int_cmp_double(a->negative, a->mag, b->real);
    if (b->is_int)
        return -int_cmp_double(b->negative, b->mag, a->real);
    return (a->real > b->real) - (a->real < b->real);
}

bool bw_range_has(const bw_range *r, const bw_number *v)
{
    return (!r->has_gt || bw_number_cmp(v, &r->gt) > 0) &&
           (!r->has_gte || bw_number_cmp(v, &r->gte) >= 0) &&
           (!r->has_lt || bw_number_cmp(v, &r->lt) < 0) &&
           (!r->has_lte || bw_number_cmp(v, &r->lte) <= 0);
}

/* ---- dates ---- */

bool bw_payload_time(bw_str s, int64_t *ns)
{
    char copy[64];
    if (s.len < 10 || s.len >= sizeof copy)
        return false;
    if (bw_time_parse(s, ns))
        return true;
    unsigned year = 0;
    for (size_t i = 0; i < 4; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        year = year * 10 + (unsigned)(s.ptr[i] - '0');
    }
    if (year > 1677 && year < 2262)
        return false;
    /* A year of the same length decides whether the rest is a date. */
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    memcpy(copy, s.ptr, s.len);
    memcpy(copy, leap ? "2000" : "2001", 4);
    if (!bw_time_parse((bw_str){copy, s.len}, ns))
        return false;
    *ns = year < 2000 ? INT64_MIN : INT64_MAX;
    return true;
}

/* ---- words ---- */

bool bw_words_each(bw_str text, bw_word_fn fn, void *arg)
{
    char word[BW_WORD_BYTES_MAX + 4];
    size_t n = 0;
    const char *p = text.ptr, *end = p + text.len;
    while (p < end) {
        size_t len;
        int32_t code;
        bool in = word_char(p, end, &len, &code);
        p += len;
        if (in)
            n += put_utf8(
                word + n,
                code < 0x80 ? (uint32_t)(code >= 'A' && code <= 'Z' ? code | 32 : code)
                            : (uint32_t)utf8proc_tolower(code));
        if (n > 0 && (!in || n > BW_WORD_BYTES_MAX - 4)) {
            if (!fn(arg, (bw_str){word, n}))
                return false;
            n = 0;
        }
    }
    return n == 0 || fn(arg, (bw_str){word, n});
}

/* ---- match values ---- */

int bw_value_cmp(const bw_value *a, const bw_value *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->kind == BW_VALUE_STRING)
        return bw_str_cmp(a->str, b->str);
    if (a->kind == BW_VALUE_BOOL)
        return (int)a->boolean - (int)b->boolean;
    bw_number x = {true, a->negative, a->mag, 0}, y = {true, b->negative, b->mag, 0};
    return bw_number_cmp(&x, &y);
}

bool bw_raw_value(bw_str raw, bw_buf *scratch, bw_value *out)
{
    *out = (bw_value){0};
    if (bw_raw_is_string(raw)) {
        out->kind = BW_VALUE_STRING;
        return bw_raw_string(raw, scratch, &out->str);
    }
    if (bw_raw_is_bool(raw)) {
        out->kind = BW_VALUE_BOOL;
        out->boolean = raw.ptr[0] == 't';
        return true;
    }
    bw_number v;
    if (!bw_raw_is_number(raw) || !read_integer(raw, &v))
        return false;
    out->kind = BW_VALUE_INT;
    out->mag = v.mag;
    out->negative = v.negative;
    return true;
}
