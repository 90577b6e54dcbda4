/* Out of memory at every allocation of a call of MCP, through the gate and the engine:
 * the whole answer, or an error that says so, and nothing stays behind (ASan). */
#include <server/files.h>
#include <server/gate.h>
#include <server/mcp.h>

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <sodium.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "failing_alloc.h"

typedef struct fixture {
    bw_ctx *home;
    bw_server *server;
    char dir[64];
    const char *method, *path, *body;
    bw_mcp_headers headers;
    int status;
    bw_buf right;
} fixture;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

/* false: the context itself could not be had. */
static bool serve(fixture *f, bw_response *out)
{
    bw_ctx *ctx = bw_ctx_new(0);
    bw_gate_input in = {.ctx = ctx,
                        .method = bw_str_c(f->method),
                        .path = bw_str_c(f->path),
                        .query = BW_STR(""),
                        .body = bw_str_c(f->body),
                        .request_id = 7,
                        .mcp = &f->headers};
    *out = (bw_response){0};
    if (!ctx)
        return false;
    bw_gate_serve(f->server, &in, out);
    bw_ctx_free(ctx);
    return true;
}

static void must(fixture *f, const char *method, const char *path, const char *body)
{
    bw_response out;
    f->method = method;
    f->path = path;
    f->body = body;
    assert_true(serve(f, &out));
    if (out.status != 0 && out.status != 200)
        fail_msg("%s: %d %.*s", path, out.status, (int)out.body.len, out.body.ptr);
    bw_buf_clear(&out.body);
}

static int setup(void **state)
{
    static fixture f;
    bw_config config;
    failing_set();
    bw_log_set_level(BW_LOG_ERROR);
    assert_true(sodium_init() >= 0);
    f.home = bw_ctx_new(0);
    (void)snprintf(f.dir, sizeof f.dir, "/tmp/bw-mcp-XXXXXX");
    assert_non_null(mkdtemp(f.dir));
    assert_int_equal(bw_config_parse(f.home, BW_STR(""), NULL, 0, &config), BW_OK);
    config.dev = true;
    config.gpu = BW_STR("off");
    config.data_folder = bw_str_c(f.dir);
    if (bw_server_open(f.home, &config, f.home, &f.server) != BW_OK)
        fail_msg("%s", bw_ctx_message(f.home));
    must(&f, "PUT", "/collections/c", "{\"vectors\":{\"size\":2,\"distance\":\"Dot\"}}");
    must(&f, "PUT", "/collections/c/points",
         "{\"points\":[{\"id\":1,\"vector\":[1,0],\"payload\":{\"page_content\":\"tea\","
         "\"metadata\":{\"source\":\"a\"}}},{\"id\":2,\"vector\":[0,1],\"payload\":{"
         "\"page_content\":\"tea too\"}}]}");
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_server_close(f->server);
    bw_ctx_free(f->home);
    return nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static bool says(bw_str body, const char *word)
{
    return memmem(body.ptr, body.len, word, strlen(word)) != NULL;
}

static void step(void *arg)
{
    fixture *f = arg;
    bw_response out;
    if (!serve(f, &out))
        return;
    bw_str body = bw_buf_view(&out.body);
    bool right = out.status == f->status && bw_str_eq(body, bw_buf_view(&f->right));
    if (!right && !(failing_hit && (out.status >= 500 || says(body, "out_of_memory") ||
                                    says(body, "\"code\":-32"))) &&
        !(failing_hit && out.body.failed))
        fail_msg("%.200s: %d %.*s", f->body, out.status, (int)body.len, body.ptr);
    bw_buf_clear(&out.body);
}

#define CALL(tool, arguments)                                                       \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"" tool \
    "\",\"arguments\":" arguments "}}"
#define META                                                                        \
    "\"_meta\":{\"" BW_MCP_META_VERSION "\":\"2026-07-28\",\"" BW_MCP_META_CAPABILITIES \
    "\":{}}"

static void test_mcp__survives_every_failed_allocation(void **state)
{
    static const struct {
        const char *body, *version, *method, *name;
    } all[] = {
        {CALL("search", "{\"query\":\"tea\",\"collection\":\"c\",\"mode\":\"bm25\"}"), NULL,
         NULL, NULL},
        {CALL("get_passage", "{\"collection\":\"c\",\"id\":1}"), NULL, NULL, NULL},
        {CALL("list_collections", "{}"), NULL, NULL, NULL},
        {CALL("search", "{\"query\":\"tea\",\"collection\":\"d\"}"), NULL, NULL, NULL},
        {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"id\":2,"
         "\"method\":\"tools/list\"},4]",
         NULL, NULL, NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", "1999", NULL, NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
         "\"list_collections\"," META "}}",
         "2026-07-28", "tools/call", "=?base64?bGlzdF9jb2xsZWN0aW9ucw==?="},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        bw_response out;
        f->method = "POST";
        f->path = "/mcp";
        f->body = all[i].body;
        f->headers = (bw_mcp_headers){.origin = {NULL, 0}};
        if (all[i].version)
            f->headers.version = bw_str_c(all[i].version);
        if (all[i].method)
            f->headers.method = bw_str_c(all[i].method);
        if (all[i].name)
            f->headers.name = bw_str_c(all[i].name);
        assert_true(serve(f, &out));
        f->status = out.status;
        f->right = out.body;
        long runs = failing_sweep(step, f, 20000);
        assert_true(runs > 10 && says(bw_buf_view(&f->right), "\"jsonrpc\""));
        step(f); /* and as before afterwards */
        bw_buf_clear(&f->right);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mcp__survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("mcp_alloc", tests, setup, teardown);
}
