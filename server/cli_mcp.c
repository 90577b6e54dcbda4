/* bailiwick mcp: MCP over standard input and output, one JSON object a line, as a bridge
 * to a cell's /mcp. The cell has the law of both generations (mcp.c); here only the
 * headers that HTTP wants are made from the body, and what the cell cannot answer (it is
 * down, or refuses the key) becomes an error with the message's id.
 *
 * ping is answered here, so that a client sees a bridge that lives while the cell does
 * not. A line that is no JSON costs an error, not the session. One message at a time:
 * at the end of the input every answer has been written. Logs go to stderr only.
 * Exit code: 0 input ended, 1 failed, 2 wrong use. */
#include "cli.h"
#include "client.h"
#include "harden.h"
#include "mcp.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static const char usage[] =
    "Usage: bailiwick mcp [--url URL] [--key-file FILE] [--ca FILE] [--purpose P]\n"
    "\n"
    "MCP on standard input and output, for a client that starts servers by a command.\n"
    "Tools: search, get_passage, list_collections, explain_access.\n";

typedef struct bridge {
    bw_ctx *ctx;
    bw_client *client;
    const char *version_header; /* of the version that initialize agreed on, or NULL */
    bw_ctx *home;               /* holds it */
} bridge;

/* One line out; false: nobody reads any more. */
static bool say(bw_buf *b)
{
    bw_buf_putc(b, '\n');
    return !b->failed && bw_cli_say(b->ptr, b->len) == 0;
}

static bool say_error(bw_str id, int code, bw_str message)
{
    bw_buf b = {0};
    if (!bw_utf8_valid(message.ptr, message.len)) /* a proxy's text, perhaps */
        message = BW_STR("the cell's answer is no text");
    bw_mcp_put_error(&b, id, code, message, (bw_str){NULL, 0});
    bool ok = say(&b);
    bw_buf_clear(&b);
    return ok;
}

static bool say_answer(bw_str answer)
{
    bw_buf b = {0};
    bw_buf_str(&b, answer);
    bool ok = say(&b);
    bw_buf_clear(&b);
    return ok;
}

/* Later requests of a 2025 client carry the agreed version. */
static void agree(bridge *x, const bw_json *answer)
{
    const bw_json *v = bw_json_get(bw_json_get(answer, "result"), "protocolVersion");
    if (v && v->kind == BW_JSON_STRING && v->str.len < 64)
        x->version_header = bw_arena_printf(x->home, "MCP-Protocol-Version: %.*s",
                                            (int)v->str.len, v->str.ptr);
}

/* headers: room for 4. */
static bw_status make_headers(bridge *x, const bw_mcp_message *m, const char **headers)
{
    const struct {
        const char *name;
        bw_str value;
    } all[] = {{"MCP-Protocol-Version", m->version},
               {"Mcp-Method", m->method},
               {"Mcp-Name", bw_mcp_name(m)}};
    size_t n = 0;
    if (!m->version.ptr) {
        if (x->version_header && !bw_str_is(m->method, "initialize"))
            headers[n++] = x->version_header;
        headers[n] = NULL;
        return BW_OK;
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!all[i].value.ptr)
            continue;
        const char *value = bw_mcp_header_write(x->ctx, all[i].value);
        headers[n] = value ? bw_arena_printf(x->ctx, "%s: %s", all[i].name, value) : NULL;
        if (!headers[n++])
            return bw_fail_nomem(x->ctx);
    }
    headers[n] = NULL;
    return BW_OK;
}

/* What came over HTTP, as this message's answer. */
static bool pass_on(bridge *x, const bw_mcp_message *m, int http, bw_str answer)
{
    bw_json *root = NULL;
    bool wanted = m->kind != BW_MCP_NOTICE && m->kind != BW_MCP_RESPONSE;
    if (answer.len == 0 && http < 300)
        return true;
    bool json = bw_json_parse(x->ctx, answer, BW_JSON_REQUEST, &root) == BW_OK;
    const bw_json *error = bw_json_get(root, "error"),
                  *text = bw_json_get(error, "message"), *id = bw_json_get(root, "id");
    bool rpc = json && (bw_json_is_array(root) || bw_json_get(root, "jsonrpc"));
    if (!wanted || http >= 400)
        (void)fprintf(stderr, "bailiwick mcp: %.*s: the cell answered %d\n",
                      (int)m->method.len, m->method.ptr ? m->method.ptr : "", http);
    if (!wanted)
        return true;
    if (rpc && !(m->id.ptr && id && id->kind == BW_JSON_NULL)) {
        if (bw_str_is(m->method, "initialize"))
            agree(x, root);
        return say_answer(answer);
    }
    if (text && text->kind == BW_JSON_STRING)
        return say_error(m->id, rpc && http < 500 ? BW_MCP_REQUEST : BW_MCP_INTERNAL,
                         text->str);
    const char *why =
        bw_arena_printf(x->ctx, "the cell answered %d: %.*s", http,
                        (int)(answer.len < 200 ? answer.len : 200), answer.ptr);
    return say_error(m->id, BW_MCP_INTERNAL, bw_str_c(why ? why : "the cell refused"));
}

static bool forward(bridge *x, const bw_mcp_message *m, bw_str line)
{
    const char *headers[4] = {NULL};
    int http = 0;
    bw_str answer = {NULL, 0};
    bw_status s = make_headers(x, m, headers);
    if (s == BW_OK)
        s = bw_client_post(x->ctx, x->client, "/mcp", line, headers, &http, &answer);
    if (s == BW_OK)
        return pass_on(x, m, http, answer);
    (void)fprintf(stderr, "bailiwick mcp: %s\n", bw_ctx_message(x->ctx));
    return m->kind == BW_MCP_NOTICE || m->kind == BW_MCP_RESPONSE ||
           say_error(m->id, BW_MCP_INTERNAL, BW_STR("the cell does not answer"));
}

static bool take_line(bridge *x, bw_str line)
{
    const bw_json *v = NULL;
    bw_mcp_message m = {.kind = BW_MCP_CALL}; /* a batch: answered as it comes */
    int code;
    while (line.len > 0 &&
           (line.ptr[line.len - 1] == '\r' || line.ptr[line.len - 1] == ' '))
        line.len--;
    if (line.len == 0)
        return true;
    bw_status s = bw_mcp_parse(x->ctx, line, &code, &v);
    if (s != BW_OK)
        return say_error((bw_str){NULL, 0}, code ? code : BW_MCP_INTERNAL,
                         code == BW_MCP_PARSE ? BW_STR("Parse error")
                                              : bw_str_c(bw_ctx_message(x->ctx)));
    if (!bw_json_is_array(v))
        bw_mcp_message_read(v, &m);
    if (m.kind == BW_MCP_BAD)
        return say_error(m.id, BW_MCP_REQUEST, bw_str_c(m.why));
    if (m.kind == BW_MCP_CALL && bw_str_is(m.method, "ping") && !m.version.ptr) {
        bw_buf b = {0};
        bw_buf_puts(&b, "{\"jsonrpc\":\"2.0\",\"id\":");
        bw_buf_str(&b, m.id);
        bw_buf_puts(&b, ",\"result\":{}}");
        bool ok = say(&b);
        bw_buf_clear(&b);
        return ok;
    }
    return forward(x, &m, line);
}

static bool one_line(bridge *x, bw_buf *line, bool whole)
{
    bw_arena_mark mark = bw_arena_mark_get(x->ctx);
    bool ok = whole ? take_line(x, bw_buf_view(line))
                    : say_error((bw_str){NULL, 0}, BW_MCP_REQUEST,
                                BW_STR("a line has 1 MiB at most"));
    bw_arena_release(x->ctx, mark);
    line->len = 0;
    return ok;
}

/* Lines until the input ends; the last may lack its line end. */
static int run(bridge *x)
{
    static char in[65536];
    bw_buf line = {0};
    bool whole = true, ok = true;
    ssize_t n;
    while (ok &&
           ((n = read(STDIN_FILENO, in, sizeof in)) > 0 || (n < 0 && errno == EINTR)))
        for (ssize_t i = 0, next; ok && i < n; i = next + 1) {
            const char *lf = memchr(in + i, '\n', (size_t)(n - i));
            next = lf ? lf - in : n;
            if (line.len + (size_t)(next - i) > BW_MCP_MESSAGE_BYTES)
                whole = false;
            if (whole)
                bw_buf_put(&line, in + i, (size_t)(next - i));
            if (lf) {
                ok = one_line(x, &line, whole && !line.failed);
                whole = true;
            }
        }
    if (ok && n == 0 && (line.len > 0 || !whole))
        ok = one_line(x, &line, whole);
    bw_buf_clear(&line);
    if (ok && n < 0)
        (void)fprintf(stderr, "bailiwick mcp: standard input: %s\n", strerror(errno));
    return ok && n == 0 ? 0 : 1;
}

int bw_cli_mcp(int argc, char **argv)
{
    bw_client_options connect = {0};
    bridge x = {0};
    if (bw_cli_help(argc, argv))
        return bw_cli_say(usage, sizeof usage - 1);
    for (int i = 1; i < argc;) {
        int n = bw_client_option(&connect, argc, argv, i);
        if (n <= 0)
            return n < 0 ? 2 : bw_cli_wrong(argc, argv, i, n, usage);
        i += n;
    }
    if (connect.key_file && strcmp(connect.key_file, "-") == 0) {
        (void)fputs("bailiwick mcp: standard input carries messages, no key\n", stderr);
        return 2;
    }
    x.ctx = bw_ctx_new(0);
    x.home = bw_ctx_new(0);
    bw_status s = x.ctx && x.home ? bw_harden(x.ctx) : BW_ENOMEM; /* a key is in memory */
    if (s == BW_OK)
        s = bw_client_open(x.ctx, &connect, &x.client);
    int code = s == BW_OK ? run(&x) : bw_cli_fail(x.ctx, "mcp");
    bw_client_close(x.client);
    bw_ctx_free(x.home);
    bw_ctx_free(x.ctx);
    return code;
}
