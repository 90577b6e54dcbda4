/* The framing guard and the reading of targets. */
#include <server/guard.h>
#include <server/uri.h>

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int check(const char *lines, bool dev, bw_guarded *g)
{
    bw_header h[BW_GUARD_HEADERS_MAX + 2];
    size_t n = 0;
    const char *why;
    bw_str version = BW_STR("HTTP/1.1"), target = BW_STR("/x");
    for (const char *p = lines; *p;) {
        size_t name = strcspn(p, ":"), line = strcspn(p, "\n");
        h[n++] = (bw_header){{p, name}, {p + name + 1, line - name - 1}};
        p += line + (p[line] == '\n');
    }
    return bw_guard_check(h, n, version, target, dev, g, &why);
}

static void test_guard__counts_headers(void **state)
{
    bw_guarded g;
    (void)state;
    static const char *const good[] = {"Host:a",
                                       "host:a\ncontent-length:5",
                                       "Host:a\nTransfer-Encoding:chunked",
                                       "Host:a\nAuthorization:Bearer x\napi-key:y",
                                       "Host:a\nTransfer-Encoding:CHUNKED",
                                       "Host:a\nContent-Length:000"};
    static const char *const bad[] = {
        "",
        "X:1",
        "Host:a\nHost:a",
        "Host:a\nHOST:b",
        "Host:a\nContent-Length:1\nContent-Length:1",
        "Host:a\nContent-Length:1\nTransfer-Encoding:chunked",
        "Host:a\nTransfer-Encoding:gzip",
        "Host:a\nTransfer-Encoding:chunked, chunked",
        "Host:a\nTransfer-Encoding:chunked\nTransfer-Encoding:chunked",
        "Host:a\nTransfer-Encoding: chunked",
        "Host:a\nContent-Length:",
        "Host:a\nContent-Length:-1",
        "Host:a\nContent-Length:+1",
        "Host:a\nContent-Length:0x1",
        "Host:a\nContent-Length:1 ",
        "Host:a\nContent-Length:9999999999999999999",
        "Host:a\nAuthorization:a\nAuthorization:a",
        "Host:a\napi-key:a\nAPI-KEY:a",
        "Host:a\nX y:1",
        "Host:a\nX:\x01",
        "Host:a\nX:a\rb"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(check(good[i], false, &g), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(check(bad[i], false, &g), 400);
    assert_int_equal(
        check("Host:a\ncontent-length:17\nx-bailiwick-purpose:p", false, &g), 0);
    assert_true(g.has_length && !g.chunked);
    assert_int_equal(g.content_length, 17);
    assert_true(bw_str_is(g.purpose, "p") && !g.gate_header_twice);
    assert_int_equal(
        check("Host:a\nx-bailiwick-purpose:p\nX-Bailiwick-Purpose:q", false, &g), 0);
    assert_true(g.gate_header_twice);
}

static void test_guard__caps_headers(void **state)
{
    static char lines[8 * (BW_GUARD_HEADERS_MAX + 2)];
    bw_guarded g;
    (void)state;
    strcat(lines, "Host:a\n");
    for (int i = 1; i < BW_GUARD_HEADERS_MAX; i++)
        strcat(lines, "X:1\n");
    assert_int_equal(check(lines, false, &g), 0);
    strcat(lines, "X:1\n");
    assert_int_equal(check(lines, false, &g), 431);
}

static void test_guard__dev_knows_this_machine_only(void **state)
{
    bw_guarded g;
    (void)state;
    static const char *const good[] = {"Host:127.0.0.1", "Host:localhost:1",
                                       "Host:[::1]:65535",
                                       "Host:LocalHost\nOrigin:http://localhost:3000"};
    static const char *const bad[] = {
        "Host:127.0.0.2",
        "Host:localhost.evil",
        "Host:localhost:",
        "Host:localhost:x",
        "Host:localhost:65536",
        "Host:localhost\nOrigin:null",
        "Host:[::1",
        "Host:localhost\nOrigin:http://evil",
        "Host:localhost\nOrigin:http://localhost\nOrigin:http://localhost",
        "Host:localhost\nOrigin:http://localhost.evil"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(check(good[i], true, &g), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(check(bad[i], true, &g), 403);
}

static void test_guard__takes_the_headers_of_mcp(void **state)
{
    bw_guarded g;
    (void)state;
    assert_int_equal(check("Host:a\nORIGIN:o\nmcp-protocol-version:v\nMcp-Method:m\n"
                           "MCP-NAME:n",
                           false, &g),
                     0);
    assert_true(bw_str_is(g.mcp.origin, "o") && bw_str_is(g.mcp.version, "v") &&
                bw_str_is(g.mcp.method, "m") && bw_str_is(g.mcp.name, "n"));
    assert_false(g.mcp.twice);
    static const char *const twice[] = {"Mcp-Name:a\nmcp-name:b",
                                        "MCP-Protocol-Version:a\nmcp-protocol-version:a",
                                        "Mcp-Method:\nMcp-Method:"};
    for (size_t i = 0; i < sizeof twice / sizeof twice[0]; i++) {
        char lines[80];
        (void)snprintf(lines, sizeof lines, "Host:a\n%s", twice[i]);
        assert_int_equal(check(lines, false, &g), 0);
        assert_true(g.mcp.twice && !g.mcp.origin_twice);
    }
    assert_int_equal(check("Host:a\nOrigin:a\nOrigin:a", false, &g), 0);
    assert_true(g.mcp.origin_twice && !g.mcp.twice);
    assert_int_equal(check("Host:a", false, &g), 0);
    assert_true(!g.mcp.origin.ptr && !g.mcp.version.ptr && !g.mcp.twice &&
                !g.mcp.origin_twice);
}

static void test_guard__targets(void **state)
{
    bw_header host = {BW_STR("Host"), BW_STR("a")};
    bw_guarded g;
    const char *why;
    (void)state;
    static const char *const bad[] = {"",     "*",    "http://a/", "x",
                                      "/a b", "/a#b", "/a\x7f",    "/\x01"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bw_guard_check(&host, 1, BW_STR("HTTP/1.1"), bw_str_c(bad[i]),
                                        false, &g, &why),
                         400);
}

/* ---- paths ---- */

static bw_status path(bw_ctx *ctx, const char *raw, const char *prefix,
                      bw_uri_path *out)
{
    return bw_uri_path_parse(ctx, bw_str_c(raw), bw_str_c(prefix), out);
}

static void test_uri__splits_before_it_decodes(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    bw_uri_path p;
    (void)state;
    assert_int_equal(path(ctx, "/", "", &p), BW_OK);
    assert_int_equal(p.n, 0);
    assert_int_equal(path(ctx, "/collections/a%3Fb%20c/points/", "", &p), BW_OK);
    assert_int_equal(p.n, 3);
    assert_true(bw_str_is(p.segments[1], "a?b c"));
    assert_int_equal(path(ctx, "/a+b", "", &p), BW_OK);
    assert_true(bw_str_is(p.segments[0], "a+b"));
    assert_int_equal(path(ctx, "/base/x", "/base", &p), BW_OK);
    assert_int_equal(p.n, 1);
    assert_int_equal(path(ctx, "/base", "/base", &p), BW_OK);
    assert_int_equal(p.n, 0);
    static const char *const invalid[] = {
        "x",    "",   "/%",  "/%4",         "/%4g", "/%00", "/a%00",   "/%0a",
        "/%7f", "/a%2Fb", "/%2f", "/.", "/..", "/a/%2e%2e/b", "/%2E", "/%ff", "/%c0%80", "/%ed%a0%80"};
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++)
        assert_int_equal(path(ctx, invalid[i], "", &p), BW_EINVALID);
    static const char *const absent[] = {"//", "/a//b", "//a", "/a//",
                                         "/1/2/3/4/5/6/7/8/9/10/11/12/13"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        assert_int_equal(path(ctx, absent[i], "", &p), BW_ENOTFOUND);
    assert_int_equal(path(ctx, "/basement", "/base", &p), BW_ENOTFOUND);
    assert_int_equal(path(ctx, "/x", "/base", &p), BW_ENOTFOUND);
    bw_ctx_free(ctx);
}

static void test_uri__query(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    const bw_param *p;
    size_t n;
    (void)state;
    assert_int_equal(bw_uri_query_parse(ctx, BW_STR("a=1&b=x+y%2B&c&&d="), &p, &n),
                     BW_OK);
    assert_int_equal(n, 4);
    assert_true(bw_str_is(p[0].name, "a") && bw_str_is(p[0].value, "1"));
    assert_true(bw_str_is(p[1].value, "x y+"));
    assert_true(bw_str_is(p[2].name, "c") && p[2].value.len == 0);
    static const char *const bad[] = {"a=1&a=2", "a=%00", "a=%zz", "a=%ff", "a&a"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bw_uri_query_parse(ctx, bw_str_c(bad[i]), &p, &n),
                         BW_EINVALID);
    char many[BW_URI_PARAMS_MAX * 8] = "";
    for (int i = 0; i <= BW_URI_PARAMS_MAX; i++) {
        char one[16];
        (void)snprintf(one, sizeof one, "k%d&", i);
        strcat(many, one);
        assert_int_equal(bw_uri_query_parse(ctx, bw_str_c(many), &p, &n),
                         i < BW_URI_PARAMS_MAX ? BW_OK : BW_EINVALID);
    }
    bw_ctx_free(ctx);
}

static bw_status nothing(bw_request *r, bw_response *o)
{
    (void)r;
    (void)o;
    return BW_OK;
}

static void test_route__literals_win(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    static const bw_route one[] = {
        {.method = "GET", .pattern = "/c/{}", .handler = nothing},
        {.method = "GET", .pattern = "/c/{}/p/{}", .handler = nothing},
        {.method = "GET", .pattern = "/", .handler = nothing},
        {.method = NULL}};
    static const bw_route two[] = {
        {.method = "GET", .pattern = "/c/x", .handler = nothing},
        {.method = "POST", .pattern = "/c/{}", .handler = nothing},
        {.method = "GET", .pattern = "/c/{}/p/q", .handler = nothing},
        {.method = NULL}};
    static const bw_route *const tables[] = {one, two, NULL};
    static const struct {
        const char *method, *path;
        const bw_route *want;
        size_t nargs;
    } rows[] = {{"GET", "/c/x", &two[0], 0},     {"GET", "/c/y", &one[0], 1},
                {"POST", "/c/x", &two[1], 1},    {"GET", "/c/x/p/q", &two[2], 1},
                {"GET", "/c/x/p/r", &one[1], 2}, {"GET", "/", &one[2], 0},
                {"HEAD", "/c/x", NULL, 0},       {"get", "/c/x", NULL, 0},
                {"GET", "/C/x", NULL, 0},        {"GET", "/c", NULL, 0},
                {"GET", "/c/x/p", NULL, 0},      {"GET", "/c/x/p/q/r", NULL, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bw_uri_path p;
        bw_str args[4];
        size_t n = 0;
        assert_int_equal(path(ctx, rows[i].path, "", &p), BW_OK);
        assert_ptr_equal(bw_route_find(tables, bw_str_c(rows[i].method), &p, args, &n),
                         rows[i].want);
        assert_int_equal(n, rows[i].nargs);
    }
    bw_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard__counts_headers),
        cmocka_unit_test(test_guard__caps_headers),
        cmocka_unit_test(test_guard__dev_knows_this_machine_only),
        cmocka_unit_test(test_guard__takes_the_headers_of_mcp),
        cmocka_unit_test(test_guard__targets),
        cmocka_unit_test(test_uri__splits_before_it_decodes),
        cmocka_unit_test(test_uri__query),
        cmocka_unit_test(test_route__literals_win),
    };
    return cmocka_run_group_tests_name("server/guard", tests, NULL, NULL);
}
