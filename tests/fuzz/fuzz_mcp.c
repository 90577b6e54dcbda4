/* The readers of /mcp and of the stdio bridge: a JSON-RPC message or batch, and the values
 * of Mcp-Method and Mcp-Name. The first byte picks. What passes holds its promises: an id
 * goes back as the token that it was, inside an answer that is JSON; a header's text
 * survives the way out and in. */
#include <server/mcp.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void one(bw_ctx *ctx, const bw_json *v)
{
    bw_mcp_message m;
    bw_buf b = {0};
    bw_json *back;
    bw_mcp_message_read(v, &m);
    bw_require(m.kind != BW_MCP_CALL || (m.id.ptr && m.method.len > 0));
    bw_require(m.kind != BW_MCP_NOTICE || (!m.id.ptr && m.method.len > 0));
    bw_require((m.kind == BW_MCP_BAD) == (m.why != NULL));
    bw_require(m.id.len <= BW_MCP_ID_BYTES && m.method.len <= BW_MCP_METHOD_BYTES);
    bw_str name = bw_mcp_name(&m);
    bw_require(!name.ptr || bw_str_is(m.method, "tools/call"));
    bw_mcp_put_error(&b, m.id, BW_MCP_METHOD, bw_str_c(m.why ? m.why : "x"), BW_STR("{}"));
    bw_require(!b.failed && !memchr(b.ptr, '\n', b.len));
    if (bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_REQUEST, &back) == BW_OK) {
        const bw_json *id = bw_json_get(back, "id");
        bw_require(id && bw_str_eq(id->raw, m.id.ptr ? m.id : BW_STR("null")));
    } else {
        bw_require(bw_ctx_message(ctx)[0] && !m.id.ptr); /* never for an id of ours */
    }
    bw_buf_clear(&b);
}

static void message(bw_ctx *ctx, bw_str in)
{
    const bw_json *v = NULL, *e = NULL;
    int code;
    bw_status s = bw_mcp_parse(ctx, in, &code, &v);
    bw_require(code == 0 || code == BW_MCP_PARSE || code == BW_MCP_REQUEST);
    if (s != BW_OK)
        return;
    if (!bw_json_is_array(v))
        one(ctx, v);
    else if (bw_json_elements(ctx, v, &e) == BW_OK)
        for (int n = 0; e && n < BW_MCP_BATCH; e = e->next, n++)
            one(ctx, e);
}

static void header(bw_ctx *ctx, bw_str in)
{
    bw_str text, again;
    if (bw_utf8_valid(in.ptr, in.len) && !memchr(in.ptr, '\0', in.len)) { /* out and in */
        const char *sent = bw_mcp_header_write(ctx, in);
        bw_require(sent != NULL);
        for (const char *p = sent; *p; p++)
            bw_require(*p >= ' ' && *p < 0x7f);
        bw_require(bw_mcp_header_read(ctx, bw_str_c(sent), &text) && bw_str_eq(text, in));
    }
    if (!bw_mcp_header_read(ctx, in, &text) || memchr(text.ptr, '\0', text.len))
        return;
    if (bw_utf8_valid(text.ptr, text.len)) {
        const char *sent = bw_mcp_header_write(ctx, text);
        bw_require(sent && bw_mcp_header_read(ctx, bw_str_c(sent), &again) &&
                   bw_str_eq(again, text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    bw_ctx *ctx = bw_ctx_new(16 << 20);
    bw_require(ctx != NULL);
    bw_str in = {(const char *)data + 1, size - 1};
    if (data[0] % 2)
        header(ctx, in);
    else
        message(ctx, in);
    bw_ctx_free(ctx);
    return 0;
}
