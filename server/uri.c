/* Targets and routes. See uri.h. No recursion, no state. */
#include "uri.h"

/* Decodes %XX (and "+" when `form`); refuses NUL and, in paths, control characters and
 * an encoded slash: a proxy in front may take it for a separator (security.md, 7). */
static bw_status decode(bw_ctx *ctx, bw_str raw, bool form, bw_str *out)
{
    char *p = bw_arena_alloc(ctx, raw.len + 1);
    size_t n = 0;
    if (!p)
        return bw_fail_nomem(ctx);
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.ptr[i];
        if (c == '%') {
            int hi = -1, lo = -1;
            if (raw.len - i >= 3) {
                hi = bw_hex_digit(raw.ptr[i + 1]);
                lo = bw_hex_digit(raw.ptr[i + 2]);
            }
            if (hi < 0 || lo < 0)
                return bw_fail(ctx, BW_EINVALID, "bad percent-encoding");
            c = (char)(hi * 16 + lo);
            i += 2;
        } else if (c == '+' && form) {
            c = ' ';
        }
        if (c == '\0' || (!form && ((unsigned char)c < 0x20 || c == 0x7f)))
            return bw_fail(ctx, BW_EINVALID, "control character in the URL");
        if (c == '/' && !form)
            return bw_fail(ctx, BW_EINVALID, "encoded slash in the URL");
        p[n++] = c;
    }
    p[n] = '\0';
    if (!bw_utf8_valid(p, n))
        return bw_fail(ctx, BW_EINVALID, "the URL is not valid UTF-8");
    *out = (bw_str){p, n};
    return BW_OK;
}

bw_status bw_uri_path_parse(bw_ctx *ctx, bw_str raw, bw_str prefix, bw_uri_path *out)
{
    out->n = 0;
    if (raw.len == 0 || raw.ptr[0] != '/')
        return bw_fail(ctx, BW_EINVALID, "the target must begin with /");
    if (prefix.len > 0) {
        if (raw.len < prefix.len || memcmp(raw.ptr, prefix.ptr, prefix.len) != 0 ||
            (raw.len > prefix.len && raw.ptr[prefix.len] != '/'))
            return bw_fail(ctx, BW_ENOTFOUND, "no such path");
        raw = (bw_str){raw.ptr + prefix.len, raw.len - prefix.len};
        if (raw.len == 0)
            return BW_OK;
    }
    raw = (bw_str){raw.ptr + 1, raw.len - 1};
    while (raw.len > 0) {
        const char *slash = memchr(raw.ptr, '/', raw.len);
        size_t n = slash ? (size_t)(slash - raw.ptr) : raw.len;
        bw_str seg;
        if (n == 0 || out->n == BW_URI_SEGMENTS_MAX)
            return bw_fail(ctx, BW_ENOTFOUND, "no such path");
        bw_status s = decode(ctx, (bw_str){raw.ptr, n}, false, &seg);
        if (s != BW_OK)
            return s;
        if (bw_str_is(seg, ".") || bw_str_is(seg, ".."))
            return bw_fail(ctx, BW_EINVALID, "dot segments are refused");
        if (seg.len > BW_URI_SEGMENT_BYTES_MAX)
            return bw_fail(ctx, BW_EINVALID, "a path part is too long");
        out->segments[out->n++] = seg;
        size_t skip = slash ? n + 1 : n;
        raw = (bw_str){raw.ptr + skip, raw.len - skip};
    }
    return BW_OK;
}

bw_status bw_uri_query_parse(bw_ctx *ctx, bw_str raw, const bw_param **out, size_t *n)
{
    bw_param *params = bw_arena_calloc(ctx, BW_URI_PARAMS_MAX, sizeof *params);
    size_t count = 0;
    if (!params)
        return bw_fail_nomem(ctx);
    while (raw.len > 0) {
        const char *amp = memchr(raw.ptr, '&', raw.len);
        size_t len = amp ? (size_t)(amp - raw.ptr) : raw.len;
        bw_str pair = {raw.ptr, len};
        size_t skip = amp ? len + 1 : len;
        raw = (bw_str){raw.ptr + skip, raw.len - skip};
        if (pair.len == 0)
            continue;
        if (count == BW_URI_PARAMS_MAX)
            return bw_fail(ctx, BW_EINVALID, "more than %d query parameters",
                           BW_URI_PARAMS_MAX);
        const char *eq = memchr(pair.ptr, '=', pair.len);
        size_t name = eq ? (size_t)(eq - pair.ptr) : pair.len;
        bw_param *p = &params[count];
        bw_status s = decode(ctx, (bw_str){pair.ptr, name}, true, &p->name);
        if (s == BW_OK)
            s = decode(ctx, eq ? (bw_str){eq + 1, pair.len - name - 1} : BW_STR(""),
                       true, &p->value);
        if (s != BW_OK)
            return s;
        for (size_t i = 0; i < count; i++)
            if (bw_str_eq(params[i].name, p->name))
                return bw_fail(ctx, BW_EINVALID, "a query parameter is given twice");
        count++;
    }
    *out = params;
    *n = count;
    return BW_OK;
}

/* Bit i set: segment i is literal. 0 and *ok false: no match. */
static uint32_t match(const char *pattern, const bw_uri_path *path, bw_str args[4],
                      size_t *nargs, bool *ok)
{
    uint32_t literal = 0;
    size_t seg = 0, n = 0;
    const char *p = pattern + 1; /* after the first slash */
    *ok = false;
    while (*p) {
        if (seg == path->n)
            return 0;
        bw_str s = path->segments[seg];
        if (p[0] == '{') { /* {} */
            bw_require(n < 4 && p[1] == '}');
            args[n++] = s;
            p += 2;
        } else {
            size_t i = 0; /* a segment holds neither a slash nor a NUL */
            while (i < s.len && p[i] == s.ptr[i])
                i++;
            if (i < s.len || (p[i] != '/' && p[i] != '\0'))
                return 0;
            literal |= 1u << (31 - seg);
            p += i;
        }
        seg++;
        p += *p == '/';
    }
    *nargs = n;
    *ok = seg == path->n;
    return literal;
}

const bw_route *bw_route_find(const bw_route *const *tables, bw_str method,
                              const bw_uri_path *path, bw_str args[4], size_t *nargs)
{
    const bw_route *best = NULL;
    uint32_t best_literal = 0;
    for (; *tables; tables++) {
        for (const bw_route *r = *tables; r->method; r++) {
            bw_str found[4];
            size_t n = 0;
            bool ok;
            if (method.len == 0 || method.ptr[0] != r->method[0] ||
                !bw_str_eq(method, bw_str_c(r->method)))
                continue;
            uint32_t literal = match(r->pattern, path, found, &n, &ok);
            if (!ok || (best && literal <= best_literal))
                continue;
            best = r;
            best_literal = literal;
            memcpy(args, found, n * sizeof found[0]);
            *nargs = n;
        }
    }
    return best;
}
