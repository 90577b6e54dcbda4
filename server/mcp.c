/* POST /mcp: MCP over streamable HTTP, without sessions and without streams.
 *
 *   origin -> JSON -> message -> which generation -> its headers -> method -> answer
 *
 * A request is of the modern generation when params._meta names its version, when the
 * version header says 2026-07-28, or when it is server/discover; all others are of 2025,
 * whose first message is initialize. Nothing is kept between requests, so there is no
 * session id, GET (a stream) and DELETE (a session's end) are a 405, and initialize may
 * come or not. A tool runs behind the gate that its /v1 call has: same key, purpose,
 * permitted sets, decisions and audit record (mcp_tools.c).
 *
 * HTTP status: 400 for what is no message or belongs to no version; the modern
 * generation also 400 for bad params and 404 for unknown methods; 202 for what wants no
 * answer. Left out: OAuth, SSE, resources, prompts, -32021 (no client capability is
 * needed here). */
#include "mcp.h"

static const char *const legacy_versions[] = {"2025-11-25", "2025-06-18", "2025-03-26"};
enum { NLEGACY = sizeof legacy_versions / sizeof legacy_versions[0] };
#define SUPPORTED "[\"" BW_MCP_MODERN "\",\"2025-11-25\",\"2025-06-18\",\"2025-03-26\"]"

static const char instructions[] =
    "Passages of documents that this key may read for its purpose. Begin with "
    "list_collections, then search; get_passage gives one passage whole with its "
    "neighbours. Cite source and decision. What is not shown may exist: nothing is said "
    "about it.";
static const char list_hints[] = ",\"ttlMs\":300000,\"cacheScope\":\"public\"";
static const char server_info[] =
    "{\"name\":\"bailiwick\",\"title\":\"Bailiwick\",\"version\":\"" BW_VERSION "\"}";
static const char modern_end[] =
    ",\"resultType\":\"complete\",\"_meta\":{\"" BW_MCP_META_SERVER "\":"
    "{\"name\":\"bailiwick\",\"title\":\"Bailiwick\",\"version\":\"" BW_VERSION "\"}}";

typedef struct exchange {
    bw_request *r;
    bw_response *out;
    const bw_mcp_headers *h;
    bw_mcp_message m;
    bool modern, batch;
} exchange;

static bool is_legacy(bw_str version)
{
    for (size_t i = 0; i < NLEGACY; i++)
        if (bw_str_eq(version, bw_str_c(legacy_versions[i])))
            return true;
    return false;
}

/* ---- answers ---- */

/* A batch has one status whatever its parts are. */
static void fail(exchange *x, int http, int code, const char *message, bw_str data)
{
    bw_mcp_put_error(&x->out->body, x->m.id, code, bw_str_c(message), data);
    if (!x->batch)
        x->out->status = http;
}

static void open_result(exchange *x)
{
    bw_buf_puts(&x->out->body, "{\"jsonrpc\":\"2.0\",\"id\":");
    bw_buf_str(&x->out->body, x->m.id);
    bw_buf_puts(&x->out->body, ",\"result\":{");
}

static void close_result(exchange *x)
{
    if (x->modern)
        bw_buf_puts(&x->out->body, modern_end);
    bw_buf_puts(&x->out->body, "}}");
}

static void unknown_version(exchange *x, bw_str requested)
{
    bw_buf b = {0};
    bw_str data = {NULL, 0};
    bw_buf_puts(&b, "{\"supported\":" SUPPORTED ",\"requested\":");
    bw_json_put_str(&b, requested);
    bw_buf_putc(&b, '}');
    if (!b.failed && bw_arena_str(x->r->ctx, bw_buf_view(&b), &data) != BW_OK)
        data = (bw_str){NULL, 0};
    bw_buf_clear(&b);
    fail(x, 400, BW_MCP_VERSION, "Unsupported protocol version", data);
}

/* ---- methods ---- */

static void initialize(exchange *x)
{
    const bw_json *v = bw_json_get(x->m.params, "protocolVersion");
    if (!v || v->kind != BW_JSON_STRING) {
        fail(x, 400, BW_MCP_PARAMS, "params.protocolVersion: wants a version",
             (bw_str){NULL, 0});
        return;
    }
    open_result(x);
    bw_buf_puts(&x->out->body, "\"protocolVersion\":");
    bw_json_put_str(&x->out->body,
                    is_legacy(v->str) ? v->str : bw_str_c(legacy_versions[0]));
    bw_buf_printf(&x->out->body,
                  ",\"capabilities\":{\"tools\":{}},\"serverInfo\":%s,\"instructions\":",
                  server_info);
    bw_json_put_str(&x->out->body, bw_str_c(instructions));
    close_result(x);
}

static void discover(exchange *x)
{
    open_result(x);
    bw_buf_puts(&x->out->body, "\"supportedVersions\":" SUPPORTED
                               ",\"capabilities\":{\"tools\":{}},\"instructions\":");
    bw_json_put_str(&x->out->body, bw_str_c(instructions));
    bw_buf_puts(&x->out->body, list_hints);
    close_result(x);
}

static void list_tools(exchange *x)
{
    if (bw_json_get_value(x->m.params, "cursor")) { /* we never give one out */
        fail(x, x->modern ? 400 : 200, BW_MCP_PARAMS, "params.cursor: there is no more",
             (bw_str){NULL, 0});
        return;
    }
    open_result(x);
    bw_buf_puts(&x->out->body, "\"tools\":[");
    bw_mcp_tools_put(&x->out->body);
    bw_buf_putc(&x->out->body, ']');
    if (x->modern)
        bw_buf_puts(&x->out->body, list_hints);
    close_result(x);
}

static bw_status call_tool(exchange *x)
{
    bw_buf *b = &x->out->body;
    const bw_json *arguments = bw_json_get_value(x->m.params, "arguments");
    bw_str name = bw_mcp_name(&x->m), text;
    const bw_mcp_tool *t = name.ptr ? bw_mcp_tool_find(name) : NULL;
    bool failed;
    if (!t || (arguments && arguments->kind != BW_JSON_OBJECT)) {
        fail(x, x->modern ? 400 : 200, BW_MCP_PARAMS,
             t ? "params.arguments: wants an object" : "params.name: no such tool",
             (bw_str){NULL, 0});
        return BW_OK;
    }
    bw_status s = bw_mcp_tool_run(x->r, t, arguments, &failed, &text);
    if (s != BW_OK)
        return s;
    open_result(x);
    bw_buf_puts(b, "\"content\":[{\"type\":\"text\",\"text\":");
    bw_json_put_str(b, text);
    bw_buf_puts(b, "}],");
    if (!failed) {
        bw_buf_puts(b, "\"structuredContent\":");
        bw_buf_str(b, text);
        bw_buf_putc(b, ',');
    }
    bw_buf_printf(b, "\"isError\":%s", failed ? "true" : "false");
    close_result(x);
    return BW_OK;
}

static bw_status answer(exchange *x)
{
    bw_str method = x->m.method;
    if (!x->modern && bw_str_is(method, "initialize") && !x->batch) {
        initialize(x);
    } else if (!x->modern && bw_str_is(method, "ping")) {
        open_result(x);
        close_result(x);
    } else if (x->modern && bw_str_is(method, "server/discover")) {
        discover(x);
    } else if (bw_str_is(method, "tools/list")) {
        list_tools(x);
    } else if (bw_str_is(method, "tools/call")) {
        return call_tool(x);
    } else {
        fail(x, x->modern ? 404 : 200, BW_MCP_METHOD, "Method not found",
             (bw_str){NULL, 0});
    }
    return BW_OK;
}

/* ---- versions ---- */

static bool header_is(exchange *x, bw_str header, bw_str want)
{
    bw_str text;
    return header.ptr && bw_mcp_header_read(x->r->ctx, header, &text) &&
           bw_str_eq(text, want);
}

/* The headers say what the body says, so that a gateway may trust them. */
static bool modern_ok(exchange *x)
{
    const bw_json *meta = bw_json_get(x->m.params, "_meta"),
                  *able = bw_json_get(meta, BW_MCP_META_CAPABILITIES);
    bw_str name = bw_mcp_name(&x->m), none = {NULL, 0};
    const char *bad = NULL;
    if (!x->m.version.ptr || !able || able->kind != BW_JSON_OBJECT) {
        fail(x, 400, BW_MCP_PARAMS,
             "params._meta: wants " BW_MCP_META_VERSION
             " and " BW_MCP_META_CAPABILITIES,
             none);
        return false;
    }
    if (x->h->twice)
        bad = "A header is given twice";
    else if (!header_is(x, x->h->version, x->m.version))
        bad = "MCP-Protocol-Version does not agree with the body";
    else if (!bw_str_is(x->m.version, BW_MCP_MODERN)) {
        unknown_version(x, x->m.version);
        return false;
    } else if (!header_is(x, x->h->method, x->m.method))
        bad = "Mcp-Method does not agree with the body";
    else if (name.ptr && !header_is(x, x->h->name, name))
        bad = "Mcp-Name does not agree with the body";
    if (bad)
        fail(x, 400, BW_MCP_HEADER, bad, none);
    return !bad;
}

/* initialize negotiates, whatever its header says. */
static bool legacy_ok(exchange *x)
{
    bw_str header = x->h->version, body = x->m.version;
    if (bw_str_is(x->m.method, "initialize"))
        return true;
    if (header.ptr && !is_legacy(header)) {
        unknown_version(x, header);
        return false;
    }
    if (x->h->twice || (header.ptr && body.ptr && !bw_str_eq(header, body))) {
        fail(x, 400, BW_MCP_HEADER, "MCP-Protocol-Version does not agree with the body",
             (bw_str){NULL, 0});
        return false;
    }
    return true;
}

static bool is_modern(const exchange *x)
{
    if (bw_str_is(x->m.method, "initialize"))
        return false;
    if (x->m.version.ptr)
        return !is_legacy(x->m.version);
    return bw_str_is(x->h->version, BW_MCP_MODERN) ||
           bw_str_is(x->m.method, "server/discover");
}

static bw_status one(exchange *x, const bw_json *v)
{
    bw_mcp_message_read(v, &x->m);
    switch (x->m.kind) {
    case BW_MCP_BAD:
        fail(x, 400, BW_MCP_REQUEST, x->m.why, (bw_str){NULL, 0});
        return BW_OK;
    case BW_MCP_NOTICE:
    case BW_MCP_RESPONSE:
        return BW_OK;
    case BW_MCP_CALL:
        break;
    }
    x->modern = is_modern(x);
    if (x->modern && x->batch) {
        fail(x, 400, BW_MCP_REQUEST, "this version has no batches", (bw_str){NULL, 0});
        return BW_OK;
    }
    return (x->modern ? modern_ok(x) : legacy_ok(x)) ? answer(x) : BW_OK;
}

/* 2025-03-26 alone has batches, and it came before the version header. */
static bw_status batch(exchange *x, const bw_json *list)
{
    const bw_json *e = NULL;
    bw_buf *b = &x->out->body;
    bw_str header = x->h->version;
    if (list->count == 0 || list->count > BW_MCP_BATCH ||
        (header.ptr && !bw_str_is(header, "2025-03-26"))) {
        fail(x, 400, BW_MCP_REQUEST,
             header.ptr && is_legacy(header) && !bw_str_is(header, "2025-03-26")
                 ? "this version has no batches"
                 : "a batch has 1 to 32 messages of 2025-03-26",
             (bw_str){NULL, 0});
        return BW_OK;
    }
    bw_status s = bw_json_elements(x->r->ctx, list, &e);
    x->batch = true;
    bw_buf_putc(b, '[');
    for (; e && s == BW_OK; e = e->next) {
        size_t before = b->len;
        bw_json_sep(b);
        size_t begun = b->len;
        s = one(x, e);
        if (b->len == begun) /* nothing was wanted */
            b->len = before;
    }
    bw_buf_putc(b, ']');
    if (b->len == 2)
        bw_buf_clear(b);
    return s;
}

static bool origin_ok(const exchange *x)
{
    const bw_config_list *more = &x->r->server->config.origins;
    bw_str origin = x->h->origin;
    if (!origin.ptr)
        return true;
    if (x->h->origin_twice)
        return false;
    for (size_t i = 0; i < more->n; i++)
        if (bw_str_eq(origin, more->items[i]))
            return true;
    return bw_guard_origin_is_local(origin);
}

static bw_status mcp_post(bw_request *r, bw_response *out)
{
    static const bw_mcp_headers none;
    exchange x = {.r = r, .out = out, .h = r->mcp ? r->mcp : &none};
    const bw_json *v = NULL;
    int code;
    if (!origin_ok(&x)) {
        fail(&x, 403, BW_MCP_REQUEST, "Forbidden: this origin is not allowed",
             (bw_str){NULL, 0});
        return BW_OK;
    }
    bw_status s = bw_mcp_parse(r->ctx, r->body, &code, &v);
    if (code) {
        fail(&x, code == BW_MCP_PARSE ? 400 : 413, code,
             code == BW_MCP_PARSE ? "Parse error: the body is no JSON that is taken here"
                                  : bw_ctx_message(r->ctx),
             (bw_str){NULL, 0});
        return BW_OK;
    }
    if (s == BW_OK)
        s = bw_json_is_array(v) ? batch(&x, v) : one(&x, v);
    if (s == BW_OK && out->body.len == 0)
        out->status = 202;
    return s;
}

static bw_status mcp_other(bw_request *r, bw_response *out)
{
    (void)r;
    out->status = 405;
    out->headers[0][0] = "Allow";
    out->headers[0][1] = "POST";
    out->nheaders = 1;
    return BW_OK;
}

const bw_route bw_routes_mcp[] = {
    {"POST", "/mcp", mcp_post, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_MCP, false, false},
    {"GET", "/mcp", mcp_other, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_MCP, false, false},
    {"DELETE", "/mcp", mcp_other, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_MCP, false,
     false},
    {NULL, NULL, NULL, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_MCP, false, false},
};
