/* One JSON-RPC message of MCP. See mcp.h. Pure: no sockets, no state.
 *
 * An id is a string or an integer and goes back as the bytes that came, so that 2^60 and
 * "\u0041" stay what they were. Members that a later version may add are ignored. */
#include "mcp.h"
#include <sodium.h>

bw_status bw_mcp_parse(bw_ctx *ctx, bw_str text, int *code, const bw_json **out)
{
    static const bw_json_limits limits = {.depth_max = 64, .nodes_max = 100000};
    bw_json *root = NULL;
    *code = 0;
    if (text.len > BW_MCP_MESSAGE_BYTES) {
        *code = BW_MCP_REQUEST;
        return bw_fail(ctx, BW_EINVALID, "a message has %d bytes at most",
                       BW_MCP_MESSAGE_BYTES);
    }
    bw_status s = bw_json_parse(ctx, text, limits, &root);
    if (s == BW_EINVALID)
        *code = BW_MCP_PARSE;
    *out = root;
    return s;
}

static bool id_ok(const bw_json *v)
{
    if (v->raw.len > BW_MCP_ID_BYTES)
        return false;
    if (v->kind == BW_JSON_STRING)
        return true;
    for (size_t i = 0; v->kind == BW_JSON_NUMBER && i < v->raw.len; i++)
        if (v->raw.ptr[i] != '-' && (v->raw.ptr[i] < '0' || v->raw.ptr[i] > '9'))
            return false;
    return v->kind == BW_JSON_NUMBER;
}

static void bad(bw_mcp_message *m, const char *why)
{
    m->kind = BW_MCP_BAD;
    m->why = why;
}

void bw_mcp_message_read(const bw_json *v, bw_mcp_message *m)
{
    memset(m, 0, sizeof *m);
    if (v->kind != BW_JSON_OBJECT) {
        bad(m, "a message is a JSON object");
        return;
    }
    const bw_json *id = bw_json_get(v, "id"), *method = bw_json_get(v, "method"),
                  *params = bw_json_get(v, "params"),
                  *jsonrpc = bw_json_get(v, "jsonrpc"), *meta;
    if (id && id_ok(id))
        m->id = id->raw;
    if (!jsonrpc || jsonrpc->kind != BW_JSON_STRING || !bw_str_is(jsonrpc->str, "2.0"))
        bad(m, "jsonrpc: wants \"2.0\"");
    else if (!method && (bw_json_get(v, "result") || bw_json_get(v, "error")))
        m->kind = BW_MCP_RESPONSE;
    else if (id && !m->id.ptr)
        bad(m, "id: wants a string or an integer");
    else if (!method || method->kind != BW_JSON_STRING || method->str.len == 0 ||
             method->str.len > BW_MCP_METHOD_BYTES)
        bad(m, "method: wants a name");
    else if (params && params->kind != BW_JSON_OBJECT)
        bad(m, "params: wants an object");
    else
        m->kind = id ? BW_MCP_CALL : BW_MCP_NOTICE;
    if (m->kind != BW_MCP_CALL && m->kind != BW_MCP_NOTICE)
        return;
    m->method = method->str;
    m->params = params;
    meta = bw_json_get(bw_json_get(params, "_meta"), BW_MCP_META_VERSION);
    if (meta && meta->kind != BW_JSON_STRING)
        bad(m, "params._meta: the protocol version is a string");
    else if (meta)
        m->version = meta->str;
}

bw_str bw_mcp_name(const bw_mcp_message *m)
{
    const bw_json *name = bw_json_get(m->params, "name");
    bool named = bw_str_is(m->method, "tools/call") && name &&
                 name->kind == BW_JSON_STRING;
    return named ? name->str : (bw_str){NULL, 0};
}

static const char open_mark[] = "=?base64?", close_mark[] = "?=";
enum { OPEN = sizeof open_mark - 1, CLOSE = sizeof close_mark - 1 };

static bool is_wrapped(bw_str v)
{
    return v.len >= OPEN + CLOSE && memcmp(v.ptr, open_mark, OPEN) == 0 &&
           memcmp(v.ptr + v.len - CLOSE, close_mark, CLOSE) == 0;
}

bool bw_mcp_header_read(bw_ctx *ctx, bw_str value, bw_str *out)
{
    *out = value;
    if (!is_wrapped(value))
        return true;
    bw_str in = {value.ptr + OPEN, value.len - OPEN - CLOSE};
    size_t n = 0;
    char *text = bw_arena_alloc(ctx, in.len + 1);
    if (!text ||
        sodium_base642bin((unsigned char *)text, in.len + 1, in.ptr, in.len, NULL, &n,
                          NULL, sodium_base64_VARIANT_ORIGINAL) != 0 ||
        !bw_utf8_valid(text, n))
        return false;
    *out = (bw_str){text, n};
    return true;
}

const char *bw_mcp_header_write(bw_ctx *ctx, bw_str text)
{
    bool plain = !is_wrapped(text) && text.len > 0 && text.ptr[0] != ' ' &&
                 text.ptr[text.len - 1] != ' ';
    for (size_t i = 0; i < text.len; i++)
        plain = plain && text.ptr[i] >= ' ' && text.ptr[i] < 0x7f;
    if (plain)
        return bw_arena_cstr(ctx, text);
    size_t n = sodium_base64_encoded_len(text.len, sodium_base64_VARIANT_ORIGINAL);
    char *p = bw_arena_alloc(ctx, n);
    if (!p)
        return NULL;
    (void)sodium_bin2base64(p, n, (const unsigned char *)text.ptr, text.len,
                            sodium_base64_VARIANT_ORIGINAL);
    return bw_arena_printf(ctx, "%s%s%s", open_mark, p, close_mark);
}

void bw_mcp_put_error(bw_buf *b, bw_str id, int code, bw_str message, bw_str data)
{
    bw_buf_puts(b, "{\"jsonrpc\":\"2.0\",\"id\":");
    bw_buf_str(b, id.ptr ? id : BW_STR("null"));
    bw_buf_printf(b, ",\"error\":{\"code\":%d,\"message\":", code);
    bw_json_put_str(b, message);
    if (data.ptr) {
        bw_json_put_key(b, "data");
        bw_buf_str(b, data);
    }
    bw_buf_puts(b, "}}");
}
