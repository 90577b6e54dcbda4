/* The gate without sockets: forms of errors, default deny, no entry no service,
 * purposes. */
#include <server/files.h>
#include <server/gate.h>

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    bw_ctx *ctx;
    bw_server server;
    char dir[64];
} fixture;

static int runs;          /* of the handler below */
static bw_status fail_as; /* what it returns */
static int fail_status;   /* what it sets */
static bool waits;        /* it would have to wait for something */

static bw_status handle(bw_request *r, bw_response *out)
{
    runs++;
    if (waits) {
        bw_buf_puts(&out->body, "begun");
        out->status = 202;
        bw_status st = bw_ctx_may_wait(r->ctx);
        if (st != BW_OK)
            return st;
        out->status = 0;
        bw_buf_clear(&out->body);
    }
    if (fail_as != BW_OK) {
        bw_buf_puts(&out->body, "half an answer");
        out->status = fail_status;
        out->headers[0][0] = "X-Half";
        out->headers[0][1] = "1";
        out->nheaders = 1;
        return bw_fail_at(r->ctx, fail_as, "/field", "what went wrong: \"%s\"",
                          "\xC3\xA9\n");
    }
    bw_buf_puts(&out->body, r->caller && r->caller->purpose.len ? "purpose" : "ok");
    return BW_OK;
}

static const bw_route routes[] = {
    {"GET", "/", handle, BW_ROUTE_OPEN, BW_ACTION_QUERY, BW_FAMILY_QDRANT, false, false},
    {"GET", "/odd", handle, BW_ROUTE_OPEN, BW_ACTION_QUERY, BW_FAMILY_QDRANT, false, false},
    {"GET", "/q", handle, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_QDRANT, false, false},
    {"PUT", "/q", handle, BW_ROUTE_KEY, BW_ACTION_STORE, BW_FAMILY_QDRANT, true, false},
    {"GET", "/b/{}", handle, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_QDRANT, false, true},
    {"GET", "/v1/x", handle, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_V1, false, false},
    {NULL, NULL, NULL, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_V1, false, false},
};

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    bw_server *s = &f->server;
    bw_log_set_level(BW_LOG_ERROR);
    assert_true(sodium_init() >= 0);
    f->ctx = bw_ctx_new(0);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/bw-gate-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(bw_audit_open(f->ctx, f->dir, 1 << 20, &s->audit), BW_OK);
    assert_int_equal(bw_config_parse(f->ctx, BW_STR(""), NULL, 0, &s->config), BW_OK);
    s->config.dev = true;
    s->dev_caller = (bw_caller){
        .principal = {.id = BW_STR("dev"), .tenant = BW_STR("dev")}, .open = true};
    s->tables[0] = routes;
    runs = 0;
    waits = false;
    fail_as = BW_OK;
    fail_status = 0;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_audit_close(f->server.audit);
    (void)unlink(bw_path_join(f->ctx, f->dir, "00000001.jsonl"));
    (void)rmdir(f->dir);
    bw_ctx_free(f->ctx);
    free(f);
    return 0;
}

typedef struct asked {
    int status;
    char body[600], type[40];
} asked;

static asked ask_with(fixture *f, const char *method, const char *path,
                      bw_gate_input in)
{
    bw_ctx *ctx = bw_ctx_new(0);
    bw_response out = {0};
    asked a = {0};
    in.ctx = ctx;
    in.method = bw_str_c(method);
    in.path = bw_str_c(path);
    in.query = in.query.ptr ? in.query : BW_STR("");
    bw_gate_serve(&f->server, &in, &out);
    a.status = out.status ? out.status : 200;
    (void)snprintf(a.body, sizeof a.body, "%.*s", (int)out.body.len,
                   out.body.len ? out.body.ptr : "");
    (void)snprintf(a.type, sizeof a.type, "%s",
                   out.content_type ? out.content_type : "application/json");
    if (a.status != 200)
        assert_int_equal(out.nheaders, 0);
    bw_buf_clear(&out.body);
    bw_ctx_free(ctx);
    return a;
}

static asked ask(fixture *f, const char *method, const char *path)
{
    return ask_with(f, method, path, (bw_gate_input){0});
}

static uint64_t events(fixture *f)
{
    uint64_t seq;
    uint8_t head[BW_AUDIT_HASH];
    bw_audit_head(f->server.audit, &seq, head);
    return seq;
}

static void test_gate__error_forms(void **state)
{
    fixture *f = *state;
    static const struct {
        bw_status status;
        int http;
        const char *code;
    } rows[] = {{BW_EINVALID, 400, "invalid"},
                {BW_ENOTFOUND, 404, "not_found"},
                {BW_EEXISTS, 409, "exists"},
                {BW_ECONFLICT, 409, "conflict"},
                {BW_EDENIED, 451, "denied"},
                {BW_ETIMEOUT, 408, "timeout"},
                {BW_EUNAVAILABLE, 503, "unavailable"},
                {BW_ENOMEM, 503, "out_of_memory"},
                {BW_ENOSPACE, 507, "disk_full"},
                {BW_ECORRUPT, 500, "internal"},
                {BW_EIO, 500, "internal"},
                {BW_EINTERNAL, 500, "internal"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char want[200];
        fail_as = rows[i].status;
        fail_status = 0;
        const char *text = rows[i].http == 500   ? "Service internal error"
                           : rows[i].http == 507 ? "No space left on the cell's disk"
                                                 : "what went wrong: \\\"\xC3\xA9 \\\"";
        asked a = ask(f, "GET", "/q");
        assert_int_equal(a.status, rows[i].http);
        (void)snprintf(want, sizeof want,
                       "{\"status\":{\"error\":\"%s\"},\"time\":0.0}", text);
        assert_string_equal(a.body, want);
        a = ask(f, "GET", "/v1/x");
        assert_int_equal(a.status, rows[i].http);
        (void)snprintf(
            want, sizeof want,
            "{\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"pointer\":\"/field\"}}",
            rows[i].code, text);
        assert_string_equal(a.body, want);
        fail_status = 422; /* a handler may choose */
        assert_int_equal(ask(f, "GET", "/q").status, 422);
    }
}

/* A brief attempt that would wait, take too long, or has to sync its record is void:
 * nothing in the log, nothing in the answer; the request then goes its usual way. */
static void test_gate__a_brief_attempt_is_whole_or_nothing(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *method, *path;
        uint64_t until_ns;
        bool waits, whole;
        bw_status fail_as;
        int status, runs;
    } rows[] = {
        {"GET", "/b/1", UINT64_MAX, false, true, BW_OK, 200, 1},
        {"GET", "/b/1", UINT64_MAX, false, true, BW_EINVALID, 400, 1},
        {"GET", "/nothing", UINT64_MAX, false, true, BW_OK, 404, 0},
        {"GET", "/b/1", UINT64_MAX, true, false, BW_OK, 200, 2},
        {"GET", "/b/1", UINT64_MAX, false, false, BW_EDENIED, 451, 2}, /* synced */
        {"PUT", "/q", UINT64_MAX, false, false, BW_OK, 200, 1}, /* begins in the log */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bw_ctx *ctx = bw_ctx_new(0);
        bw_response out = {0};
        bw_gate_input in = {.ctx = ctx,
                            .method = bw_str_c(rows[i].method),
                            .path = bw_str_c(rows[i].path),
                            .query = BW_STR("")};
        uint64_t before = events(f);
        waits = rows[i].waits;
        fail_as = rows[i].fail_as;
        runs = 0;
        assert_int_equal(bw_gate_serve_brief(&f->server, &in, rows[i].until_ns, &out),
                         rows[i].whole);
        if (!rows[i].whole) {
            assert_int_equal(events(f), before);
            assert_true(out.status == 0 && out.body.len == 0 && out.nheaders == 0);
            assert_int_equal(bw_ctx_deadline(ctx), 0);
            bw_gate_serve(&f->server, &in, &out);
        }
        assert_int_equal(out.status ? out.status : 200, rows[i].status);
        assert_int_equal(runs, rows[i].runs);
        assert_int_equal(events(f), before + 1 + (strcmp(rows[i].method, "PUT") == 0));
        bw_buf_clear(&out.body);
        bw_ctx_free(ctx);
    }
}

static void test_gate__work_is_known_before_it_is_done(void **state)
{
    fixture *f = *state;
    const bw_server *s = &f->server;
    assert_int_equal(bw_gate_work_of(s, BW_STR("GET"), BW_STR("/b/1")), BW_WORK_BRIEF);
    assert_int_equal(bw_gate_work_of(s, BW_STR("GET"), BW_STR("/b/1/")), BW_WORK_BRIEF);
    assert_int_equal(bw_gate_work_of(s, BW_STR("GET"), BW_STR("/b/%31")), BW_WORK_READ);
    assert_int_equal(bw_gate_work_of(s, BW_STR("GET"), BW_STR("/q")), BW_WORK_READ);
    assert_int_equal(bw_gate_work_of(s, BW_STR("PUT"), BW_STR("/q")), BW_WORK_WRITE);
    assert_int_equal(bw_gate_work_of(s, BW_STR("PUT"), BW_STR("/no")), BW_WORK_WRITE);
}

static void test_gate__default_deny(void **state)
{
    fixture *f = *state;
    static const char *const none[] = {"/x", "/v1/x/y", "//", "/q//", "/Q", "/v1"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        asked a = ask(f, "GET", none[i]);
        assert_int_equal(a.status, 404);
        assert_string_equal(a.body, "");
    }
    assert_int_equal(ask(f, "HEAD", "/q").status, 404);
    assert_int_equal(ask(f, "GET", "/%00").status, 400);
    assert_int_equal(ask(f, "GET", "/v1/%2e%2e").status, 400);
    assert_int_equal(runs, 0);
    /* Without --dev a key-less request runs nothing but an open row. */
    f->server.config.dev = false;
    assert_int_equal(ask(f, "GET", "/q").status, 404);
    assert_int_equal(ask(f, "PUT", "/q").status, 404);
    assert_int_equal(runs, 0);
    assert_int_equal(ask(f, "GET", "/").status, 200);
    assert_int_equal(runs, 1);
}

static void test_gate__open_paths_are_exact(void **state)
{
    fixture *f = *state;
    static const char *const open[] = {"/", "/healthz", "/livez", "/readyz",
                                       "/readyz/"};
    static const char *const shut[] = {
        "",     "//",  "/healthz//", "/Healthz",     "/healthz/x",  "/health",
        "/%2f", "/./", "/odd",       "/collections", "/healthz%2f", "x"};
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        assert_true(bw_gate_is_open(&f->server, BW_STR("GET"), bw_str_c(open[i])));
        assert_false(bw_gate_is_open(&f->server, BW_STR("HEAD"), bw_str_c(open[i])));
        assert_false(bw_gate_is_open(&f->server, BW_STR("get"), bw_str_c(open[i])));
    }
    for (size_t i = 0; i < sizeof shut / sizeof shut[0]; i++)
        assert_false(bw_gate_is_open(&f->server, BW_STR("GET"), bw_str_c(shut[i])));
}

static void test_gate__purposes_and_safeguards(void **state)
{
    fixture *f = *state;
    static const bw_str purposes[] = {{"analysis", 8}, {"payroll", 7}},
                        safeguards[] = {{"scc", 3}, {"tia", 3}};
    bw_key_record key = {.id = BW_STR("000000000000"),
                         .principal = BW_STR("ana"),
                         .tenant = BW_STR("acme"),
                         .seat = BW_STR("FR"),
                         .purposes = {purposes, 2},
                         .safeguards = {safeguards, 2}};
    bw_gate_input in = {.key = &key};
    assert_string_equal(ask_with(f, "GET", "/q", in).body,
                        "ok"); /* no default: no purpose */
    in.purpose = BW_STR("payroll");
    assert_string_equal(ask_with(f, "GET", "/q", in).body, "purpose");
    in.purpose = BW_STR("marketing");
    assert_int_equal(ask_with(f, "GET", "/q", in).status, 403);
    in.purpose = BW_STR("");
    assert_int_equal(ask_with(f, "GET", "/q", in).status, 403);
    in = (bw_gate_input){.key = &key, .safeguards = BW_STR(" tia, scc ,")};
    assert_int_equal(ask_with(f, "GET", "/q", in).status, 200);
    in.safeguards = BW_STR("scc,bcr");
    assert_int_equal(ask_with(f, "GET", "/q", in).status, 403);
    in = (bw_gate_input){.key = &key, .purpose_twice = true};
    assert_int_equal(ask_with(f, "GET", "/q", in).status, 400);
    in = (bw_gate_input){.key = &key, .refuse_status = 413, .refuse_text = "too much"};
    assert_int_equal(ask_with(f, "PUT", "/q", in).status, 413);
}

static void test_gate__query_and_timeout(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *query;
        int status;
    } rows[] = {{"timeout=1", 200},
                {"timeout=0", 400},
                {"timeout=x", 400},
                {"timeout=", 400},
                {"a=1&a=1", 400},
                {"a=%00", 400},
                {"a", 200},
                {"timeout=99999999999999999999", 400},
                {"timeout=100000", 200}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bw_gate_input in = {.query = bw_str_c(rows[i].query)};
        asked a = ask_with(f, "GET", "/q", in);
        assert_int_equal(a.status, rows[i].status);
        if (a.status == 400)
            assert_non_null(strstr(a.body, "Deserialize error in query parameters: "));
    }
}

static void test_gate__one_event_a_request_two_for_writes(void **state)
{
    fixture *f = *state;
    (void)ask(f, "GET", "/q");
    assert_int_equal(events(f), 1);
    (void)ask(f, "PUT", "/q");
    assert_int_equal(events(f), 3);
    (void)ask(f, "GET", "/nope");
    assert_int_equal(events(f), 4);
    (void)ask(f, "GET", "/"); /* health is not recorded */
    assert_int_equal(events(f), 4);
    fail_as = BW_EDENIED;
    (void)ask(f, "PUT", "/q");
    assert_int_equal(events(f), 6);
    for (int i = 0; i < 100; i++)
        bw_gate_refused(&f->server, "key", 401);
    assert_true(events(f) >= 7 && events(f) <= 9); /* folded */
}

static void test_gate__no_entry_no_service(void **state)
{
    fixture *f = *state;
    struct rlimit all, none = {0, 0};
    (void)ask(f, "GET", "/q");
    assert_int_equal(runs, 1);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    none.rlim_max = all.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    asked write = ask(f, "PUT", "/q");
    int runs_of_write = runs;
    asked read = ask(f, "GET", "/q");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_true(write.status == 503 || write.status == 507);
    assert_int_equal(runs_of_write, 1); /* the write never ran */
    assert_true(read.status == 503 || read.status == 507);
    assert_null(strstr(read.body, "ok"));
    assert_int_equal(events(f), 1);
    assert_int_equal(ask(f, "GET", "/q").status, 200);
}

static void test_gate__head_of_error_family(void **state)
{
    (void)state;
    assert_int_equal(bw_error_family(BW_STR("/v1")), BW_FAMILY_V1);
    assert_int_equal(bw_error_family(BW_STR("/v1/x")), BW_FAMILY_V1);
    assert_int_equal(bw_error_family(BW_STR("/v1x")), BW_FAMILY_QDRANT);
    assert_int_equal(bw_error_family(BW_STR("/")), BW_FAMILY_QDRANT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gate__error_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gate__default_deny, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gate__a_brief_attempt_is_whole_or_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gate__work_is_known_before_it_is_done, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gate__open_paths_are_exact, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_gate__purposes_and_safeguards, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_gate__query_and_timeout, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gate__one_event_a_request_two_for_writes,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_gate__no_entry_no_service, setup,
                                        teardown),
        cmocka_unit_test(test_gate__head_of_error_family),
    };
    return cmocka_run_group_tests_name("server/gate", tests, NULL, NULL);
}
