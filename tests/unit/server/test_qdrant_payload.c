/* Payload selectors over stored bytes. */
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
    assert_int_equal(bw_qdrant__put_payload(f->ctx, &b, bw_str_c(payload), &show),
                     BW_OK);
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
        {"{\"a\":1,\"b\":{\"c\":2,\"d\":3}}", "{\"exclude\":[\"b.c\"]}",
         "{\"a\":1,\"b\":{\"d\":3}}"},
        {"{\"a\":1,\"b\":{\"c\":2,\"d\":3}}", "{\"include\":[\"b\",\"zzz\"]}",
         "{\"b\":{\"c\":2,\"d\":3}}"},
        {"{\"a\":1}", "[]", "{}"},
        {"{\"a\":1}", "{\"exclude\":[]}", "{\"a\":1}"},
        {"{\"r\":[{\"k\":1,\"v\":2},{\"k\":3}]}", "[\"r[].k\"]",
         "{\"r\":[{\"k\":1},{\"k\":3}]}"},
        {"{\"r\":[{\"k\":1,\"v\":2},{\"k\":3}]}", "[\"r[1]\"]", "{\"r\":[{\"k\":3}]}"},
        {"{\"r\":[{\"k\":1}]}", "[\"r.k\"]", "{\"r\":[]}"},
        {"{\"r\":[10,20,30]}", "[\"r[1]\"]", "{\"r\":[20]}"},
        {"{\"r\":[10,20,30]}", "{\"exclude\":[\"r[0]\"]}", "{\"r\":[20,30]}"},
        {"{\"r\":[10,20,30],\"q\":0}", "[\"r\"]", "{\"r\":[10,20,30]}"},
        {"{\"a.b\":{\"c\":1},\"a\":{\"b\":{\"c\":2}}}", "[\"\\\"a.b\\\".c\"]",
         "{\"a.b\":{\"c\":1}}"},
        {"{\"\\u00fc\\n\":1,\"x\":2}", "{\"exclude\":[\"x\"]}", "{\"\xC3\xBC\\n\":1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(shown(f, cases[i].payload, cases[i].with), cases[i].shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_payload__selectors),
    };
    return cmocka_run_group_tests(tests, fixture_new, fixture_free);
}
