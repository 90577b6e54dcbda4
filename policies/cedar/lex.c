/* The lexer. Rules: language description, section 1. White space is Unicode's; comments
 * run to LF or CR; a raw CR inside a string and a byte-order mark are errors. */
#include "lex.h"

#include <stdio.h>

void bw_cedar__line_column(bw_str text, size_t from, size_t at, size_t *line,
                           size_t *column)
{
    for (size_t i = from; i < at && i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c == '\n') {
            ++*line;
            *column = 1;
        } else if ((c & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

bw_status bw_cedar__lex_fail(const bw_cedar__lex *lx, size_t at, const char *fmt, ...)
{
    size_t line = 1, column = 1;
    char what[160];
    va_list ap;
    bw_cedar__line_column(lx->text, 0, at, &line, &column);
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return bw_fail(lx->ctx, BW_EINVALID, "line %zu, column %zu: %s", line, column,
                   what);
}

/* Length of the white space character at i, 0 if there is none. */
static size_t space_at(bw_str t, size_t i)
{
    const unsigned char *p = (const unsigned char *)t.ptr + i;
    size_t left = t.len - i;
    if (*p == ' ' || (*p >= 9 && *p <= 13))
        return 1;
    if (*p == 0xc2 && left >= 2)
        return p[1] == 0x85 || p[1] == 0xa0 ? 2 : 0;
    if (left < 3)
        return 0;
    unsigned c = (unsigned)p[0] << 16 | (unsigned)p[1] << 8 | p[2];
    bool space = c == 0xe19a80 || (c >= 0xe28080 && c <= 0xe2808a) || c == 0xe280a8 ||
                 c == 0xe280a9 || c == 0xe280af || c == 0xe2819f || c == 0xe38080;
    return space ? 3 : 0;
}

static size_t skip_blank(bw_str t, size_t i)
{
    while (i < t.len) {
        size_t n = space_at(t, i);
        if (n) {
            i += n;
        } else if (t.ptr[i] == '/' && i + 1 < t.len && t.ptr[i + 1] == '/') {
            while (i < t.len && t.ptr[i] != '\n' && t.ptr[i] != '\r')
                i++;
        } else {
            break;
        }
    }
    return i;
}

static bool ident_char(char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

static bw_status scan_string(bw_cedar__lex *lx)
{
    size_t i = lx->start + 1;
    for (; i < lx->text.len && lx->text.ptr[i] != '"'; i++) {
        if (lx->text.ptr[i] == '\r')
            return bw_cedar__lex_fail(lx, i, "carriage return in a string");
        if (lx->text.ptr[i] == '\\')
            i++;
    }
    if (i >= lx->text.len)
        return bw_cedar__lex_fail(lx, lx->start, "string without end");
    lx->tok = BW_CEDAR__T_STRING;
    lx->end = i + 1;
    return BW_OK;
}

static bw_status scan_operator(bw_cedar__lex *lx)
{
    static const struct {
        char text[3];
        bw_cedar__tok tok;
    } pairs[] = {{"::", BW_CEDAR__T_COLONS}, {"==", BW_CEDAR__T_EQ},
                 {"!=", BW_CEDAR__T_NE},     {"<=", BW_CEDAR__T_LE},
                 {">=", BW_CEDAR__T_GE},     {"&&", BW_CEDAR__T_AND},
                 {"||", BW_CEDAR__T_OR}};
    const char *p = lx->text.ptr + lx->start;
    size_t left = lx->text.len - lx->start;
    for (size_t k = 0; left >= 2 && k < sizeof pairs / sizeof *pairs; k++)
        if (memcmp(p, pairs[k].text, 2) == 0) {
            lx->tok = pairs[k].tok;
            lx->end = lx->start + 2;
            return BW_OK;
        }
    if (*p == '\0' || !strchr("@.,;:(){}[]<>+-*!?=", *p))
        return bw_cedar__lex_fail(lx, lx->start, "character that begins no token");
    lx->tok = BW_CEDAR__T_PUNCT;
    lx->punct = *p;
    lx->end = lx->start + 1;
    return BW_OK;
}

bw_status bw_cedar__lex_next(bw_cedar__lex *lx)
{
    lx->prev_end = lx->end;
    size_t i = skip_blank(lx->text, lx->end);
    lx->start = lx->end = i;
    if (i >= lx->text.len) {
        lx->tok = BW_CEDAR__T_END;
        return BW_OK;
    }
    char c = lx->text.ptr[i];
    if (ident_char(c, true)) {
        while (i < lx->text.len && ident_char(lx->text.ptr[i], false))
            i++;
        lx->tok = BW_CEDAR__T_IDENT;
    } else if (c >= '0' && c <= '9') {
        while (i < lx->text.len && lx->text.ptr[i] >= '0' && lx->text.ptr[i] <= '9')
            i++;
        lx->tok = BW_CEDAR__T_INT;
    } else if (c == '"') {
        return scan_string(lx);
    } else {
        return scan_operator(lx);
    }
    lx->end = i;
    return BW_OK;
}

bw_status bw_cedar__lex_start(bw_ctx *ctx, bw_str text, bw_cedar__lex *lx)
{
    *lx = (bw_cedar__lex){.ctx = ctx, .text = text};
    if (text.len > BW_CEDAR_TEXT_MAX)
        return bw_fail(ctx, BW_EINVALID, "Cedar text is larger than %d bytes",
                       BW_CEDAR_TEXT_MAX);
    if (!bw_utf8_valid(text.ptr, text.len))
        return bw_fail(ctx, BW_EINVALID, "Cedar text is not valid UTF-8");
    return bw_cedar__lex_next(lx);
}

bw_status bw_cedar__lex_take(bw_cedar__lex *lx, char punct, bool *taken)
{
    *taken = bw_cedar__lex_is(lx, punct);
    return *taken ? bw_cedar__lex_next(lx) : BW_OK;
}

bw_status bw_cedar__lex_want(bw_cedar__lex *lx, char punct)
{
    if (!bw_cedar__lex_is(lx, punct))
        return bw_cedar__lex_fail(lx, lx->start, "expected '%c'", punct);
    return bw_cedar__lex_next(lx);
}

/* ---- escapes ---- */
static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \u{1 to 6 hex digits}, underscores allowed after the first; *i stands after "\u". */
static bool unicode_escape(const char *p, size_t end, size_t *i, uint32_t *out)
{
    if (*i >= end || p[*i] != '{')
        return false;
    uint32_t v = 0;
    int n = 0;
    for (++*i; *i < end && p[*i] != '}'; ++*i) {
        if (p[*i] == '_' && n > 0)
            continue;
        int h = hex(p[*i]);
        if (h < 0 || ++n > 6)
            return false;
        v = v * 16 + (uint32_t)h;
    }
    if (*i >= end || n == 0 || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
        return false;
    ++*i;
    *out = v;
    return true;
}

/* One escape; *i stands on the backslash and ends after it. '*' is known in patterns
 * only. */
static bool escape(const char *p, size_t end, size_t *i, bool pattern, uint32_t *out)
{
    if (*i + 1 >= end)
        return false;
    char c = p[*i + 1];
    *i += 2;
    switch (c) {
    case '"':
    case '\\':
    case '\'':
        *out = (uint32_t)c;
        return true;
    case 'n':
        *out = '\n';
        return true;
    case 'r':
        *out = '\r';
        return true;
    case 't':
        *out = '\t';
        return true;
    case '0':
        *out = 0;
        return true;
    case '*':
        *out = '*';
        return pattern;
    case 'x': {
        int hi = *i + 1 < end ? hex(p[*i]) : -1, lo = hi >= 0 ? hex(p[*i + 1]) : -1;
        if (hi < 0 || lo < 0 || hi > 7)
            return false;
        *out = (uint32_t)(hi * 16 + lo);
        *i += 2;
        return true;
    }
    case 'u':
        return unicode_escape(p, end, i, out);
    default:
        return false;
    }
}

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 63));
        to[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

bw_status bw_cedar__lex_string(const bw_cedar__lex *lx, bw_ctx *pool, bw_str *out)
{
    assert(lx->tok == BW_CEDAR__T_STRING);
    size_t i = lx->start + 1, end = lx->end - 1, n = 0;
    char *to = bw_arena_alloc(
        pool, end - i); /* an escape is never shorter than its character */
    if (!to)
        return bw_fail_nomem(lx->ctx);
    while (i < end) {
        if (lx->text.ptr[i] != '\\') {
            to[n++] = lx->text.ptr[i++];
            continue;
        }
        size_t at = i;
        uint32_t c;
        if (!escape(lx->text.ptr, end, &i, false, &c))
            return bw_cedar__lex_fail(lx, at, "unknown escape in a string");
        n += put_utf8(to + n, c);
    }
    *out = (bw_str){to, n};
    return BW_OK;
}

bw_status bw_cedar__lex_pattern(const bw_cedar__lex *lx, bw_ctx *pool,
                                bw_cedar__pattern *out)
{
    assert(lx->tok == BW_CEDAR__T_STRING);
    size_t i = lx->start + 1, end = lx->end - 1, n = 0;
    char *to = bw_arena_alloc(pool, end - i);
    size_t stars = 0; /* at most: an escape may stand for one too */
    for (size_t at = i; at < end; at++)
        stars += lx->text.ptr[at] == '*' || lx->text.ptr[at] == '\\';
    bw_str *runs = bw_arena_calloc(pool, stars + 1, sizeof *runs);
    if (!to || !runs)
        return bw_fail_nomem(lx->ctx);
    uint32_t k = 0;
    size_t run = 0;
    while (i < end) {
        size_t at = i;
        uint32_t c = (unsigned char)lx->text.ptr[i];
        bool literal_star = false;
        if (c == '\\') {
            literal_star = i + 1 < end && lx->text.ptr[i + 1] == '*';
            if (!escape(lx->text.ptr, end, &i, true, &c))
                return bw_cedar__lex_fail(lx, at, "unknown escape in a pattern");
            if (c != '*')
                n += put_utf8(to + n, c);
        } else {
            i++;
            if (c != '*')
                to[n++] = (char)c;
        }
        if (c == '*' && literal_star) {
            to[n++] = '*';
        } else if (c == '*') {
            runs[k++] = (bw_str){to + run, n - run};
            run = n;
        }
    }
    runs[k++] = (bw_str){to + run, n - run};
    *out = (bw_cedar__pattern){runs, k};
    return BW_OK;
}

/* The first run is anchored at the start, the last at the end, those between are found
 * leftmost (which is enough, since a wildcard may stand for anything). Bytes serve as
 * well as characters: UTF-8 never begins inside another character. */
bool bw_cedar__pattern_match(const bw_cedar__pattern *p, bw_str t)
{
    bw_str first = p->runs[0], last = p->runs[p->n - 1];
    if (p->n == 1)
        return bw_str_eq(first, t);
    if (first.len + last.len > t.len || memcmp(t.ptr, first.ptr, first.len) != 0 ||
        memcmp(t.ptr + t.len - last.len, last.ptr, last.len) != 0)
        return false;
    const char *at = t.ptr + first.len, *end = t.ptr + t.len - last.len;
    for (uint32_t i = 1; i + 1 < p->n; i++) {
        if (p->runs[i].len == 0)
            continue;
        const char *hit =
            memmem(at, (size_t)(end - at), p->runs[i].ptr, p->runs[i].len);
        if (!hit)
            return false;
        at = hit + p->runs[i].len;
    }
    return true;
}
