/* One MCP message and the values of its headers, without sockets. */
#include <server/mcp.h>

#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

static bw_mcp_message read_text(bw_ctx *ctx, const char *text)
{
    const bw_json *v = NULL;
    bw_mcp_message m;
    int code;
    assert_int_equal(bw_mcp_parse(ctx, bw_str_c(text), &code, &v), BW_OK);
    bw_mcp_message_read(v, &m);
    return m;
}

static void test_mcp_message_read__tells_four_kinds(void **state)
{
    static const struct {
        const char *text, *id;
        bw_mcp_kind kind;
    } all[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":\"\\u0041\",\"method\":\"m\"}", "\"\\u0041\"", BW_MCP_CALL},
        {"{\"jsonrpc\":\"2.0\",\"id\":-12,\"method\":\"m\",\"params\":{}}", "-12", BW_MCP_CALL},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}", NULL, BW_MCP_NOTICE},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}", "1", BW_MCP_RESPONSE},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.0,\"method\":\"m\"}", NULL, BW_MCP_BAD},
        {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"m\"}", NULL, BW_MCP_BAD},
        {"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"m\"}", "1", BW_MCP_BAD},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", "1", BW_MCP_BAD},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":null}", "1", BW_MCP_BAD},
        {"\"m\"", NULL, BW_MCP_BAD},
    };
    bw_ctx *ctx = bw_ctx_new(1 << 20);
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        bw_mcp_message m = read_text(ctx, all[i].text);
        if (m.kind != all[i].kind || (m.id.ptr != NULL) != (all[i].id != NULL) ||
            (m.id.ptr && !bw_str_eq(m.id, bw_str_c(all[i].id))))
            fail_msg("%s", all[i].text);
    }
    bw_ctx_free(ctx);
}

static void test_mcp_message_read__finds_version_and_name(void **state)
{
    bw_ctx *ctx = bw_ctx_new(1 << 20);
    (void)state;
    bw_mcp_message m = read_text(
        ctx, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\","
             "\"_meta\":{\"" BW_MCP_META_VERSION "\":\"v\"}}}");
    assert_true(bw_str_is(m.version, "v") && bw_str_is(bw_mcp_name(&m), "a"));
    m = read_text(ctx, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"name\":\"a\"}}");
    assert_true(!m.version.ptr && !bw_mcp_name(&m).ptr);
    bw_ctx_free(ctx);
}

static void test_mcp_header__wraps_what_no_header_can_say(void **state)
{
    static const struct {
        const char *text, *header;
    } all[] = {{"search", "search"},
               {"a b", "a b"},
               {"", "=?base64?" "?="},
               {" a", "=?base64?IGE=?="},
               {"a\r\nb: c", "=?base64?YQ0KYjogYw==?="},
               {"s\xc3\xb6k", "=?base64?c8O2aw==?="},
               {"=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="}};
    bw_ctx *ctx = bw_ctx_new(1 << 20);
    bw_str back;
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_string_equal(bw_mcp_header_write(ctx, bw_str_c(all[i].text)), all[i].header);
        assert_true(bw_mcp_header_read(ctx, bw_str_c(all[i].header), &back));
        assert_true(bw_str_eq(back, bw_str_c(all[i].text)));
    }
    static const char *const bad[] = {"=?base64?YQ?=", "=?base64?Y Q==?=", "=?base64?YR==?=",
                                      "=?base64?/w==?="};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (bw_mcp_header_read(ctx, bw_str_c(bad[i]), &back))
            fail_msg("%s", bad[i]);
    bw_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mcp_message_read__tells_four_kinds),
        cmocka_unit_test(test_mcp_message_read__finds_version_and_name),
        cmocka_unit_test(test_mcp_header__wraps_what_no_header_can_say),
    };
    return cmocka_run_group_tests_name("mcp", tests, NULL, NULL);
}
