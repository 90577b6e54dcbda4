/* What stands before the gate: headers, targets, query strings, the configuration file,
 * key records. The first byte picks the reader. Checks that what passes holds its
 * promises. */
#include <server/config.h>
#include <server/guard.h>
#include <server/keys.h>
#include <server/uri.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void headers(bw_str in)
{
    bw_header h[BW_GUARD_HEADERS_MAX + 1];
    bw_guarded g;
    const char *why;
    size_t n = 0;
    while (in.len > 0 && n < BW_GUARD_HEADERS_MAX + 1) {
        const char *lf = memchr(in.ptr, '\n', in.len);
        size_t line = lf ? (size_t)(lf - in.ptr) : in.len;
        const char *colon = memchr(in.ptr, ':', line);
        size_t name = colon ? (size_t)(colon - in.ptr) : line;
        size_t at = colon ? name + 1 : line;
        h[n++] = (bw_header){{in.ptr, name}, {in.ptr + at, line - at}};
        size_t skip = lf ? line + 1 : line;
        in = (bw_str){in.ptr + skip, in.len - skip};
    }
    for (int dev = 0; dev < 2; dev++) {
        int status =
            bw_guard_check(h, n, BW_STR("HTTP/1.1"), BW_STR("/"), dev, &g, &why);
        bw_require(status == 0 || status == 400 || status == 403 || status == 431);
        bw_require(status != 0 || !(g.chunked && g.has_length));
    }
}

static void path(bw_ctx *ctx, bw_str in)
{
    bw_uri_path p;
    if (bw_uri_path_parse(ctx, in, BW_STR(""), &p) != BW_OK)
        return;
    bw_require(p.n <= BW_URI_SEGMENTS_MAX);
    for (size_t i = 0; i < p.n; i++) {
        bw_str s = p.segments[i];
        bw_require(s.len > 0 && bw_utf8_valid(s.ptr, s.len) &&
                   !memchr(s.ptr, '\0', s.len));
        bw_require(!bw_str_is(s, ".") && !bw_str_is(s, ".."));
    }
}

static void query(bw_ctx *ctx, bw_str in)
{
    const bw_param *p;
    size_t n;
    if (bw_uri_query_parse(ctx, in, &p, &n) != BW_OK)
        return;
    bw_require(n <= BW_URI_PARAMS_MAX);
    for (size_t i = 0; i < n; i++)
        bw_require(bw_utf8_valid(p[i].value.ptr, p[i].value.len));
}

/* What is accepted prints to a text that is accepted and prints the same. */
static void config(bw_ctx *ctx, bw_str in)
{
    bw_config a, b;
    bw_buf one = {0}, two = {0};
    if (bw_config_parse(ctx, in, NULL, 0, &a) == BW_OK) {
        bw_config_print(&a, &one);
        bw_require(bw_config_parse(ctx, bw_buf_view(&one), NULL, 0, &b) == BW_OK);
        bw_config_print(&b, &two);
        bw_require(bw_str_eq(bw_buf_view(&one), bw_buf_view(&two)));
        (void)!bw_config_check_serve(ctx, &a);
    }
    bw_buf_clear(&one);
    bw_buf_clear(&two);
}

static void key(bw_ctx *ctx, bw_str in)
{
    bw_json *v;
    bw_key_record r;
    bw_buf out = {0};
    if (bw_json_parse(ctx, in, BW_JSON_REQUEST, &v) != BW_OK ||
        bw_key_record_parse(ctx, v, &r) != BW_OK)
        return;
    bw_key_record_put(&out, &r);
    bw_require(bw_json_parse(ctx, bw_buf_view(&out), BW_JSON_REQUEST, &v) == BW_OK);
    bw_buf_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    bw_ctx *ctx = bw_ctx_new(16 << 20);
    bw_str in = {(const char *)data + 1, size - 1};
    switch (data[0] % 5) {
    case 0:
        headers(in);
        break;
    case 1:
        path(ctx, in);
        break;
    case 2:
        query(ctx, in);
        break;
    case 3:
        config(ctx, in);
        break;
    default:
        key(ctx, in);
    }
    bw_ctx_free(ctx);
    return 0;
}
