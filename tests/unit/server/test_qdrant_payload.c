/* Payload selectors over stored bytes, and payload paths. */
#include "qdrant_fixture.h"

static const char *shown(fixture *f, const char *payload, const char *with)
{
    static char out[512];
    char text[512];
    bw_qdrant_show show = {0};
    bw_buf b = {0};
    snprintf(text, sizeof text, "{\"with_payload\":%s}", with);
    const bw_json *body = fixture_body(f, text);
    assert_non_null(body);
    assert_int_equal(bw_qdrant__show(&f->p, body, "with_vector", &show), BW_OK);
    assert_true(show.payload);
    assert_int_equal(bw_qdrant__put_payload(f->ctx, &b, bw_str_c(payload), &show), BW_OK);
    snprintf(out, sizeof out, "%.*s", (int)b.len, b.ptr);
    bw_buf_clear(&b);
    return out;
}

static void test_payload__selectors(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *payload, *with, *shown;
    } cases[] = {
        {"", "true", "{}"},
        {"{ \"b\" : 9007199254740993, \"a\":[1 , 2]}", "true",
         "{ \"b\" : 9007199254740993, \"a\":[1 , 2]}"},
        {"{\"a\":1,\"b\":{\"c\":2,\"d\":3}}", "[\"a\"]", "{\"a\":1}"},
        {"{\"a\":1,\"b\":{\"c\":2,\"d\":3}}", "[\"b.c\"]", "{\"b\":{\"c\":2}}"},
        {"{\"a\":1,\"b\":{\"c\":2,\"d\":3}}", "{\"exclude\":[\"b.c\"]}", "{\"a\":1,\"b\":{\"d\":3}}"},
        {"{\"a\":1,\"b\":{\"c\":2,\"d\":3}}", "{\"include\":[\"b\",\"zzz\"]}", "{\"b\":{\"c\":2,\"d\":3}}"},
        {"{\"a\":1}", "[]", "{}"},
        {"{\"a\":1}", "{\"exclude\":[]}", "{\"a\":1}"},
        {"{\"r\":[{\"k\":1,\"v\":2},{\"k\":3}]}", "[\"r[].k\"]", "{\"r\":[{\"k\":1},{\"k\":3}]}"},
        {"{\"r\":[{\"k\":1,\"v\":2},{\"k\":3}]}", "[\"r[1]\"]", "{\"r\":[{\"k\":3}]}"},
        {"{\"r\":[{\"k\":1}]}", "[\"r.k\"]", "{\"r\":[]}"},
        {"{\"r\":[10,20,30]}", "[\"r[1]\"]", "{\"r\":[20]}"},
        {"{\"r\":[10,20,30]}", "{\"exclude\":[\"r[0]\"]}", "{\"r\":[20,30]}"},
        {"{\"r\":[10,20,30],\"q\":0}", "[\"r\"]", "{\"r\":[10,20,30]}"},
        {"{\"a.b\":{\"c\":1},\"a\":{\"b\":{\"c\":2}}}", "[\"\\\"a.b\\\".c\"]", "{\"a.b\":{\"c\":1}}"},
        {"{\"\\u00fc\\n\":1,\"x\":2}", "{\"exclude\":[\"x\"]}", "{\"\xC3\xBC\\n\":1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(shown(f, cases[i].payload, cases[i].with), cases[i].shown);
}

static void test_path__grammar(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *text;
        uint32_t n; /* 0: no path */
    } cases[] = {
        {"a", 1}, {"a.b.c", 3}, {"a[].b", 3}, {"a[0]", 2}, {"a[0][1].x", 4}, {"\"a.b\".c", 2},
        {"tb_9", 1}, {"with space", 1}, {"\xC3\xBC", 1}, {"a-b", 1},
        {"", 0}, {".", 0}, {"a.", 0}, {".a", 0}, {"a..b", 0}, {"a[", 0}, {"a[x]", 0}, {"a[-1]", 0},
        {"[0]", 0}, {"a]", 0}, {"\"a", 0}, {"\"\"", 0}, {"a[99999999999]", 0}, {"a\"b", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bw_qdrant_path path = {NULL, 0};
        bool nomem;
        bool ok = bw_qdrant__path(f->ctx, bw_str_c(cases[i].text), &path, &nomem);
        if (ok != (cases[i].n > 0) || path.n != cases[i].n)
            fail_msg("`%s`: %d, %u steps", cases[i].text, ok, path.n);
    }
    char text[BW_LIMIT_PATH_BYTES + 2];
    memset(text, 'a', sizeof text);
    bw_qdrant_path path;
    bool nomem;
    assert_true(bw_qdrant__path(f->ctx, (bw_str){text, BW_LIMIT_PATH_BYTES}, &path, &nomem));
    assert_false(bw_qdrant__path(f->ctx, (bw_str){text, BW_LIMIT_PATH_BYTES + 1}, &path, &nomem));
    for (size_t i = 1; i < sizeof text; i += 2)
        text[i] = '.';
    assert_true(bw_qdrant__path(f->ctx, (bw_str){text, 2 * BW_LIMIT_PATH_STEPS - 1}, &path, &nomem));
    assert_false(bw_qdrant__path(f->ctx, (bw_str){text, 2 * BW_LIMIT_PATH_STEPS + 1}, &path, &nomem));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_payload__selectors),
        cmocka_unit_test(test_path__grammar),
    };
    return cmocka_run_group_tests(tests, fixture_new, fixture_free);
}
