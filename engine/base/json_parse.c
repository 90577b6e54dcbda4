/* The JSON reader (json.h has the rules it keeps): one pass, no recursion, all memory
 * from the request's arena, values point into the text.
 *
 * Why not cJSON: it keeps no byte spans, so payloads could not be stored as they came;
 * it rounds integers to doubles; it lets duplicate keys through (security.md, 7). It is
 * the oracle of tests/fuzz/fuzz_json.c instead. Duplicate keys: a 64-bit signature of
 * the keys seen makes the usual member cost one test; a hit compares with the members
 * so far, and above KEYS_LINEAR members a hash set under a secret key takes over, so a
 * hostile body stays linear. */
#include "hash.h"
#include "json_number.h"
#include "text.h"

enum {
    DEPTH_CAP = 256,
    KEYS_LINEAR = 24,
    NODES_DEFAULT = 1000000,
    BYTES_DEFAULT = 33554432
};

typedef struct frame { /* one open container */
    bw_json *node, *tail;
    uint64_t seen;       /* signature of the keys so far */
    const bw_json **set; /* their hash set once there are many */
    size_t set_cap;
} frame;

typedef struct parser {
    bw_ctx *ctx;
    const char *start, *p, *end;
    uint32_t nodes, nodes_max, depth, depth_max;
    uint32_t numbers; /* how many the array of numbers before had */
    bool nul_ok;
    frame *frames;
    bw_json *root;
} parser;

/* Never on the road of good input. */
static bw_status __attribute__((noinline, cold))
syntax(parser *ps, const char *at, const char *what)
{
    const char *pointer = "";
    if (ps->depth)
        pointer = bw_json_pointer(ps->ctx, ps->frames[ps->depth - 1].node);
    if (!pointer)
        return BW_ENOMEM;
    return bw_fail_at(ps->ctx, BW_EINVALID, pointer, "JSON: %s at byte %zu", what,
                      (size_t)(at - ps->start));
}

/* The same where the value v itself is at fault: points at it, so that a number of a
 * vector is named by its index. */
static bw_status __attribute__((noinline, cold))
syntax_of(parser *ps, const bw_json *v, const char *what)
{
    const char *pointer = bw_json_pointer(ps->ctx, v);
    if (!pointer)
        return BW_ENOMEM;
    return bw_fail_at(ps->ctx, BW_EINVALID, pointer, "JSON: %s at byte %zu", what,
                      (size_t)(ps->p - ps->start));
}

static inline void space(parser *ps)
{
    const char *p = ps->p, *end = ps->end;
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    ps->p = p;
}

/* ---- strings ---- */

static int hex4(const char *p)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d;
        if (c >= '0' && c <= '9')
            d = c - '0';
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            d = (c | 0x20) - 'a' + 10;
        else
            return -1;
        v = v << 4 | d;
    }
    return v;
}

static char *put_utf8(char *o, uint32_t c)
{
    if (c < 0x80) {
        *o++ = (char)c;
    } else if (c < 0x800) {
        *o++ = (char)(0xC0 | c >> 6);
        *o++ = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *o++ = (char)(0xE0 | c >> 12);
        *o++ = (char)(0x80 | (c >> 6 & 0x3F));
        *o++ = (char)(0x80 | (c & 0x3F));
    } else {
        *o++ = (char)(0xF0 | c >> 18);
        *o++ = (char)(0x80 | (c >> 12 & 0x3F));
        *o++ = (char)(0x80 | (c >> 6 & 0x3F));
        *o++ = (char)(0x80 | (c & 0x3F));
    }
    return o;
}

/* \uXXXX at *p (behind the u); end is the closing quote. -1: not allowed. */
static int32_t unicode_escape(const char **p, const char *end)
{
    if (end - *p < 4)
        return -1;
    int32_t c = hex4(*p);
    *p += 4;
    if (c < 0 || (c >= 0xDC00 && c <= 0xDFFF))
        return -1;
    if (c < 0xD800 || c > 0xDBFF)
        return c;
    if (end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u')
        return -1;
    int32_t low = hex4(*p + 2);
    *p += 6;
    if (low < 0xDC00 || low > 0xDFFF)
        return -1;
    return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
}

/* The text between the quotes without its escapes; never longer than before. */
static bw_status unescape(parser *ps, const char *p, const char *end, bw_str *out)
{
    char *text = bw_arena_alloc(ps->ctx, (size_t)(end - p)), *o = text;
    if (!text)
        return BW_ENOMEM;
    while (p < end) {
        if (*p != '\\') {
            *o++ = *p++;
            continue;
        }
        const char *at = p;
        char c = p[1]; /* the scan left no backslash alone at the end */
        p += 2;
        switch (c) {
        case '"':
        case '\\':
        case '/':
            *o++ = c;
            break;
        case 'b':
            *o++ = '\b';
            break;
        case 'f':
            *o++ = '\f';
            break;
        case 'n':
            *o++ = '\n';
            break;
        case 'r':
            *o++ = '\r';
            break;
        case 't':
            *o++ = '\t';
            break;
        case 'u': {
            int32_t u = unicode_escape(&p, end);
            if (u < 0 || (u == 0 && !ps->nul_ok))
                return syntax(ps, at, "a \\u escape that is not allowed");
            o = put_utf8(o, (uint32_t)u);
            break;
        }
        default:
            return syntax(ps, at, "an unknown escape");
        }
    }
    *out = (bw_str){text, (size_t)(o - text)};
    return BW_OK;
}

/* The string whose opening quote is at ps->p. */
static bw_status string(parser *ps, bw_str *out)
{
    const char *begin = ps->p + 1, *p = begin, *end = ps->end;
    bool escaped = false;
    for (;;) {
        p = bw_text__plain_end(p, end);
        if (p == end)
            return syntax(ps, begin - 1, "a string without an end");
        unsigned char c = (unsigned char)*p;
        if (c == '"')
            break;
        if (c == '\\') {
            escaped = true;
            if (end - p < 2)
                return syntax(ps, begin - 1, "a string without an end");
            if ((unsigned char)p[1] < 0x20 || (unsigned char)p[1] >= 0x80)
                return syntax(ps, p, "an unknown escape");
            p += 2;
        } else if (c < 0x20) {
            return syntax(ps, p, "a raw control character in a string");
        } else {
            size_t len = bw_utf8__sequence((const unsigned char *)p, (size_t)(end - p));
            if (!len)
                return syntax(ps, p, "invalid UTF-8");
            p += len;
        }
    }
    ps->p = p + 1;
    if (escaped)
        return unescape(ps, begin, p, out);
    *out = (bw_str){begin, (size_t)(p - begin)};
    return BW_OK;
}

/* ---- duplicate keys ---- */

static bool set_insert(const bw_json **set, size_t cap, const bw_json *v)
{
    size_t i = bw_hash__bytes(v->key.ptr, v->key.len) & (cap - 1);
    for (; set[i]; i = (i + 1) & (cap - 1))
        if (bw_str_eq(set[i]->key, v->key))
            return false;
    set[i] = v;
    return true;
}

static bw_status set_grow(parser *ps, frame *f)
{
    size_t cap = f->set_cap ? f->set_cap * 4 : 128;
    const bw_json **set = bw_arena_calloc(ps->ctx, cap, sizeof *set);
    if (!set)
        return BW_ENOMEM;
    for (const bw_json *v = f->node->child; v; v = v->next)
        set_insert(set, cap, v);
    f->set = set;
    f->set_cap = cap;
    return BW_OK;
}

static inline uint64_t key_signature(bw_str k)
{
    if (k.len == 0)
        return 1;
    unsigned first = (unsigned char)k.ptr[0], last = (unsigned char)k.ptr[k.len - 1];
    unsigned mid = (unsigned char)k.ptr[k.len / 2];
    return (uint64_t)1 << ((k.len * 11 + first * 7 + last * 3 + mid * 5) & 63);
}

/* Whether v, not yet a member of f, has a key of its own. *fresh is the answer. */
static bw_status key_check(parser *ps, frame *f, const bw_json *v, bool *fresh)
{
    *fresh = true;
    if (f->node->count >= KEYS_LINEAR) {
        if (f->node->count * 2 >= f->set_cap && set_grow(ps, f) != BW_OK)
            return BW_ENOMEM;
        *fresh = set_insert(f->set, f->set_cap, v);
        return BW_OK;
    }
    uint64_t bit = key_signature(v->key);
    if (f->seen & bit)
        for (const bw_json *m = f->node->child; m; m = m->next)
            if (bw_str_eq(m->key, v->key)) {
                *fresh = false;
                return BW_OK;
            }
    f->seen |= bit;
    return BW_OK;
}

/* ---- values ---- */

static inline bw_status node_new(parser *ps, bw_json **out)
{
    if (ps->nodes == ps->nodes_max)
        return syntax(ps, ps->p, "more values than allowed");
    bw_json *v = bw_arena_alloc(ps->ctx, sizeof *v);
    if (!v)
        return BW_ENOMEM;
    /* Member by member: GCC makes `rep stos` of (bw_json){0}, a third of the whole
     * time. */
    v->kind = BW_JSON_NULL;
    v->count = 0;
    v->raw = v->str = v->key = (bw_str){0};
    v->child = v->next = NULL;
    v->parent = NULL;
    v->is_int = v->negative = false;
    v->mag = 0;
    v->real = 0;
    v->floats = NULL;
    ps->nodes++;
    *out = v;
    return BW_OK;
}

static inline void attach(parser *ps, bw_json *v)
{
    if (ps->depth == 0) {
        ps->root = v;
        return;
    }
    frame *f = &ps->frames[ps->depth - 1];
    v->parent = f->node;
    if (f->tail)
        f->tail->next = v;
    else
        f->node->child = v;
    f->tail = v;
    f->node->count++;
}

/* The key before the next member: `"key" :`. */
static bw_status member_key(parser *ps, bw_json *v)
{
    if (ps->p == ps->end || *ps->p != '"')
        return syntax(ps, ps->p, "expected a member's name");
    const char *at = ps->p;
    bool fresh;
    bw_status st = string(ps, &v->key);
    if (st == BW_OK)
        st = key_check(ps, &ps->frames[ps->depth - 1], v, &fresh);
    if (st != BW_OK)
        return st;
    if (!fresh)
        return syntax(ps, at, "a member's name for the second time");
    space(ps);
    if (ps->p == ps->end || *ps->p != ':')
        return syntax(ps, ps->p, "expected ':'");
    ps->p++;
    space(ps);
    return BW_OK;
}

static bw_status literal(parser *ps, const char *word, size_t n)
{
    if ((size_t)(ps->end - ps->p) < n || memcmp(ps->p, word, n) != 0)
        return syntax(ps, ps->p, "expected a value");
    ps->p += n;
    return BW_OK;
}

static bw_status scalar(parser *ps, bw_json *v)
{
    switch (*ps->p) {
    case '"':
        v->kind = BW_JSON_STRING;
        return string(ps, &v->str);
    case 't':
        v->kind = BW_JSON_TRUE;
        return literal(ps, "true", 4);
    case 'f':
        v->kind = BW_JSON_FALSE;
        return literal(ps, "false", 5);
    case 'n':
        v->kind = BW_JSON_NULL;
        return literal(ps, "null", 4);
    default:
        break;
    }
    if (*ps->p != '-' && (*ps->p < '0' || *ps->p > '9'))
        return syntax_of(ps, v, "expected a value");
    v->kind = BW_JSON_NUMBER;
    const char *q = bw_json__number(ps->p, ps->end, v);
    if (!q)
        return syntax_of(ps, v, "a number that is malformed or beyond double");
    ps->p = q;
    return BW_OK;
}

/* '{' or '[' at ps->p. *open: it stays open and its first value comes next. */
static bw_status container(parser *ps, bw_json *v, bool *open)
{
    const char *at = ps->p++;
    char close = *at == '{' ? '}' : ']';
    v->kind = *at == '{' ? BW_JSON_OBJECT : BW_JSON_ARRAY;
    if (ps->depth == ps->depth_max)
        return syntax(ps, at, "nesting deeper than allowed");
    space(ps);
    *open = false;
    if (ps->p < ps->end && *ps->p == close) {
        ps->p++;
        return BW_OK;
    }
    if (close == ']' && ps->p < ps->end &&
        (*ps->p == '-' || (*ps->p >= '0' && *ps->p <= '9'))) {
        const char *q;
        if (bw_json__numbers(ps->ctx, ps->p, ps->end, ps->numbers, v, &q) != BW_OK)
            return BW_ENOMEM;
        if (q) {
            ps->numbers = v->count < BW_JSON_FLOATS_MAX ? v->count : 0;
            ps->p = q;
            return BW_OK;
        }
    }
    v->raw.ptr = at;
    ps->frames[ps->depth++] = (frame){.node = v};
    *open = true;
    return BW_OK;
}

/* Behind a value: closes what closes here. *more: another value of the innermost
 * container follows. */
static bw_status after_value(parser *ps, bool *more)
{
    while (ps->depth) {
        space(ps);
        if (ps->p == ps->end)
            return syntax(ps, ps->p, "the text ends inside a value");
        bw_json *node = ps->frames[ps->depth - 1].node;
        char c = *ps->p, close = node->kind == BW_JSON_OBJECT ? '}' : ']';
        if (c == ',') {
            ps->p++;
            space(ps);
            *more = true;
            return BW_OK;
        }
        if (c != close)
            return syntax(ps, ps->p,
                          close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
        ps->p++;
        node->raw.len = (size_t)(ps->p - node->raw.ptr);
        ps->depth--;
    }
    *more = false;
    return BW_OK;
}

static bw_status parse(parser *ps)
{
    bool more = true;
    space(ps);
    while (more) {
        bw_json *v = NULL;
        bw_status st = node_new(ps, &v);
        if (st == BW_OK && ps->depth &&
            ps->frames[ps->depth - 1].node->kind == BW_JSON_OBJECT)
            st = member_key(ps, v);
        if (st != BW_OK)
            return st;
        if (ps->p == ps->end)
            return syntax(ps, ps->p, "the text ends where a value is due");
        const char *begin = ps->p;
        attach(ps, v);
        if (*begin == '{' || *begin == '[') {
            bool open = false;
            st = container(ps, v, &open);
            if (st == BW_OK && open)
                continue;
        } else {
            st = scalar(ps, v);
        }
        if (st != BW_OK)
            return st;
        v->raw = (bw_str){begin, (size_t)(ps->p - begin)};
        st = after_value(ps, &more);
        if (st != BW_OK)
            return st;
    }
    space(ps);
    return ps->p == ps->end ? BW_OK : syntax(ps, ps->p, "something behind the value");
}

#if defined(__has_attribute)
#if __has_attribute(uninitialized)
#define UNINITIALIZED __attribute__((uninitialized)) /* 10 KiB cleared a payload row \
                                                      */
#endif
#endif
#if !defined(UNINITIALIZED)
#define UNINITIALIZED
#endif

bw_status bw_json_parse(bw_ctx *ctx, bw_str text, bw_json_limits limits, bw_json **out)
{
    frame frames[DEPTH_CAP] UNINITIALIZED;
    parser ps = {.ctx = ctx, .frames = frames, .nul_ok = limits.nul_ok};
    ps.start = ps.p = text.ptr ? text.ptr : "";
    ps.end = ps.start + text.len;
    ps.depth_max = limits.depth_max < DEPTH_CAP ? limits.depth_max : DEPTH_CAP;
    ps.nodes_max = limits.nodes_max ? limits.nodes_max : NODES_DEFAULT;
    size_t bytes_max = limits.bytes_max ? limits.bytes_max : BYTES_DEFAULT;
    assert(bytes_max <= UINT32_MAX); /* counts of members are 32 bits wide */
    if (text.len > bytes_max)
        return bw_fail(ctx, BW_EINVALID, "JSON: longer than %zu bytes", bytes_max);
    bw_status st = parse(&ps);
    if (st == BW_OK)
        *out = ps.root;
    return st;
}
