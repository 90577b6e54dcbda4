/* What each condition matches. The payloads and the ids that answer were put to
 * Qdrant's own engine (no payload index); where we differ on purpose a comment says so.
 * Every case is asked four ways: one payload at a time, by scroll without an index, by
 * scroll under each kind of payload index, and by count: an index must never change an
 * answer. */
#include "plan_fixture.h"

static const char *const values[] = {
    /* 0 */ "42",
    "42.0",
    "\"42\"",
    "true",
    "null",
    "[42,\"a\"]",
    "[]",
    "[null,\"a\"]",
    "[[42]]",
    "{\"a\":42}",
    /* 10 */ "-1",
    "9007199254740993",
    "9007199254740992.0",
    "18446744073709551615",
    "\"a\"",
    "\"\"",
    "[true]",
    "[42.0]",
    "1e300",
    "[{\"a\":42}]",
    /* 20 */ "0",
    "-0.0",
    "[null]",
    "[[]]",
    "{}"};
enum {
    NVALUES = sizeof values / sizeof *values,
    POINTS = NVALUES + 2
}; /* 25: {}, 26: no payload */

static const char *payload_of(bw_ctx *ctx, size_t i)
{
    if (i < NVALUES)
        return bw_arena_printf(ctx, "{\"v\":%s}", values[i]);
    return i == NVALUES ? "{}" : NULL;
}

#define V(test)     "{\"must\":[{\"key\":\"v\"," test "}]}"
#define NOT_NULLISH "0 1 2 3 5 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24"
#define EVERY       "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26"

static const char *const cases[][2] = {
    {V("\"match\":{\"value\":42}"),
     "0 5"}, /* 42.0 is a float: no match (bug-report 31) */
    {V("\"match\":{\"value\":\"a\"}"), "5 7 14"},
    {V("\"match\":{\"value\":\"\"}"), "15"},
    {V("\"match\":{\"value\":true}"), "3 16"},
    {V("\"match\":{\"value\":9007199254740993}"), "11"},
    {V("\"match\":{\"value\":18446744073709551615}"), "13"},
    {V("\"match\":{\"value\":-1}"), "10"},
    {V("\"match\":{\"value\":0}"), "20"},
    {V("\"match\":{\"any\":[42]}"), "0 5"},
    {V("\"match\":{\"any\":[\"a\",\"42\"]}"), "2 5 7 14"},
    {V("\"match\":{\"any\":[]}"), ""},
    {V("\"match\":{\"except\":[\"a\"]}"),
     "0 1 2 3 5 8 9 10 11 12 13 15 16 17 18 19 20 21 23 24"},
    {V("\"match\":{\"except\":[42]}"),
     "1 2 3 5 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 23 24"},
    {V("\"match\":{\"except\":[]}"),
     "0 1 2 3 5 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 23 24"},
    {V("\"range\":{\"gte\":41,\"lte\":43}"), "0 1 5 17"},
    /* exact: Qdrant rounds both sides to doubles and lets 12 (= 2^53) in */
    {V("\"range\":{\"gte\":9007199254740993}"), "11 13 18"},
    {V("\"range\":{\"gt\":9007199254740992.0}"), "11 13 18"},
    {V("\"range\":{\"lt\":0}"), "10"},
    {V("\"range\":{\"gte\":0,\"lte\":0.0}"), "20 21"},
    {V("\"range\":{}"), "0 1 5 10 11 12 13 17 18 20 21"},
    {V("\"values_count\":{\"gte\":1}"), NOT_NULLISH},
    {V("\"values_count\":{\"lt\":1}"), "4 6 25 26"},
    {V("\"values_count\":{\"gte\":2}"), "5 7"},
    {"{\"must\":[{\"is_empty\":{\"key\":\"v\"}}]}", "4 6 25 26"},
    {V("\"is_empty\":true"), "4 6 25 26"},
    {V("\"is_empty\":false"), NOT_NULLISH},
    {"{\"must\":[{\"is_null\":{\"key\":\"v\"}}]}", "4 7 22"}, /* bug-report 2 */
    {V("\"is_null\":true"), "4 7 22"},
    {V("\"is_null\":false"),
     "0 1 2 3 5 6 8 9 10 11 12 13 14 15 16 17 18 19 20 21 23 24 25 26"},
    {"{\"must\":[{\"key\":\"v[]\",\"values_count\":{\"lt\":1}}]}",
     "0 1 2 3 4 6 7 9 10 11 12 13 14 15 18 20 21 22 23 24 25 26"},
    {"{\"must\":[{\"key\":\"v[]\",\"values_count\":{\"gte\":1}}]}", "5 7 8 16 17 19"},
    {"{\"must\":[{\"is_null\":{\"key\":\"v[]\"}}]}", "7 22"},
    {"{\"must\":[{\"is_empty\":{\"key\":\"v[]\"}}]}",
     "0 1 2 3 4 6 9 10 11 12 13 14 15 18 20 21 22 23 24 25 26"},
    {"{\"must\":[{\"key\":\"v[0]\",\"match\":{\"value\":\"a\"}}]}", ""},
    {"{\"must\":[{\"key\":\"v[1]\",\"match\":{\"value\":\"a\"}}]}", "5 7"},
    {"{\"must\":[{\"key\":\"v[]\",\"match\":{\"value\":42}}]}", "5 8"},
    {"{\"must\":[{\"key\":\"v[][]\",\"match\":{\"value\":42}}]}", "8"},
    {"{\"must\":[{\"key\":\"v.a\",\"match\":{\"value\":42}}]}", "9"},
    {"{\"must\":[{\"key\":\"v[].a\",\"match\":{\"value\":42}}]}", "19"},
    {"{\"must\":[{\"key\":\"v[0].a\",\"match\":{\"value\":42}}]}", "19"},
    {"{\"must_not\":[{\"is_empty\":{\"key\":\"v[].a\"}}]}", "19"},
    {"{\"must_not\":[{\"is_empty\":{\"key\":\"v.a\"}}]}", "9"},
    {"{\"must\":[{\"nested\":{\"key\":\"v\",\"filter\":{\"must\":[{\"key\":\"a\","
     "\"match\":{\"value\":42}}]}}}]}",
     "19"},
    {"{\"must\":[{\"nested\":{\"key\":\"v[]\",\"filter\":{\"must\":[{\"key\":\"a\","
     "\"match\":{\"value\":42}}]}}}]}",
     "19"},
    {"{\"must\":[{\"nested\":{\"key\":\"v\",\"filter\":{\"must_not\":[{\"key\":\"a\","
     "\"match\":{\"value\":1}}]}}}]}",
     "19"},
    {"{\"must\":[{\"nested\":{\"key\":\"v\",\"filter\":{}}}]}", "19"},
    {"{\"must\":[{\"nested\":{\"key\":\"v\",\"filter\":{\"must\":[{\"has_id\":[9,19]}]}"
     "}}]}",
     ""},
    {"{\"min_should\":{\"conditions\":[{\"key\":\"v\",\"match\":{\"value\":42}}],\"min_"
     "count\":0}}",
     EVERY},
    {"{\"min_should\":{\"conditions\":[],\"min_count\":0}}", EVERY},
    {"{\"min_should\":{\"conditions\":[],\"min_count\":1}}", ""},
    {"{\"min_should\":{\"conditions\":[{\"key\":\"v\",\"match\":{\"value\":42}},{"
     "\"key\":\"v\",\"match\":{\"value\":"
     "\"a\"}},{\"has_id\":[14]}],\"min_count\":2}}",
     "5 14"},
    {"{\"must\":[],\"should\":[{\"key\":\"v\",\"match\":{\"value\":\"zz\"}}]}", ""},
    {"{\"should\":[]}", EVERY},
    {"{}", EVERY},
    {"{\"must\":[{}]}", EVERY},
    {"{\"must_not\":[{\"key\":\"v\",\"match\":{\"value\":\"zz\"}}]}", EVERY},
    {"{\"must\":[{\"has_id\":[]}]}", ""},
    {"{\"must\":[{\"has_id\":[3,99,0,\"550e8400-e29b-41d4-a716-446655440000\"]}]}",
     "0 3"},
    {"{\"must_not\":[{\"has_id\":[0,1,2,3,4,5,6,7,8,9]}],\"must\":[{\"key\":\"v\","
     "\"range\":{\"gte\":0}}]}",
     "11 12 13 17 18 20 21"},
    {"{\"must\":[{\"has_vector\":\"\"}]}", EVERY},
    {"{\"must\":[{\"has_vector\":\"other\"}]}", ""},
    {"{\"should\":[{\"key\":\"v\",\"match\":{\"value\":42}},{\"must\":[{\"key\":\"v\","
     "\"match\":{\"value\":\"a\"}},"
     "{\"key\":\"v\",\"values_count\":{\"gte\":2}}]}]}",
     "0 5 7"},
    {"{\"must\":[{\"must\":[{\"must\":[{\"key\":\"v\",\"match\":{\"value\":\"a\"}}]},{"
     "\"has_id\":[5,14]}]}],"
     "\"must_not\":[{\"key\":\"v\",\"match\":{\"value\":42}}]}",
     "14"},
    {"{\"must\":[{\"key\":\"v\",\"match\":{\"text\":\"A\"}}]}", "5 7 14"},
};
enum { NCASES = sizeof cases / sizeof *cases };

static int setup(void **state)
{
    static const bw_vector_spec spec = {
        .name = {"", 0}, .dim = FX_DIM, .metric = BW_METRIC_DOT};
    *state = fx_new(&spec, 1);
    return 0;
}

static int teardown(void **state)
{
    fx_free(*state);
    return 0;
}

static void put_values(fixture *f)
{
    for (size_t i = 0; i < POINTS; i++)
        fx_put(f, 0, i, 1, (float)i, payload_of(f->ctx, i));
}

static void test_filter__one_payload_at_a_time(void **state)
{
    fixture *f = *state;
    float values_[FX_DIM] = {1, 2};
    bw_vector vector = {BW_STR(""), values_, NULL, FX_DIM, false};
    for (size_t c = 0; c < NCASES; c++) {
        char got[256] = "";
        for (size_t i = 0; i < POINTS; i++) {
            bool hit;
            bw_point_id id = fx_id(i);
            fx_ok(f, f->ctx,
                  bw_filter_matches(f->ctx, fx_filter(f->ctx, cases[c][0]), &id,
                                    bw_str_c(payload_of(f->ctx, i)), &vector, 1, &hit));
            if (hit)
                snprintf(got + strlen(got), sizeof got - strlen(got), "%s%zu",
                         *got ? " " : "", i);
        }
        if (strcmp(got, cases[c][1]) != 0)
            fail_msg("%s: %s, expected %s", cases[c][0], got, cases[c][1]);
        bw_ctx_reset(f->ctx);
    }
}

static size_t words_in(const char *s)
{
    size_t n = *s != 0;
    for (; *s; s++)
        n += *s == ' ';
    return n;
}

static void ask_all(fixture *f, const char *index)
{
    for (size_t c = 0; c < NCASES; c++) {
        uint64_t n;
        const char *got = fx_scroll(f, cases[c][0]);
        if (strcmp(got, cases[c][1]) != 0)
            fail_msg("%s under index %s: %s, expected %s", cases[c][0], index, got,
                     cases[c][1]);
        fx_ok(
            f, f->ctx,
            bw_count(f->ctx, f->engine, &f->read, fx_filter(f->ctx, cases[c][0]), &n));
        assert_int_equal(n, words_in(cases[c][1]));
        bw_ctx_reset(f->ctx);
    }
}

static void test_filter__without_index(void **state)
{
    put_values(*state);
    ask_all(*state, "none");
}

static void test_filter__no_index_changes_an_answer(void **state)
{
    fixture *f = *state;
    static const char *const types[] = {"keyword",  "integer", "float", "bool",
                                        "datetime", "text",    "uuid",  "geo"};
    put_values(f);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        fx_index(f, "v", types[t]);
        ask_all(f, types[t]);
        bw_ctx_reset(f->wctx);
        fx_ok(f, f->wctx,
              bw_collection_index_drop(f->wctx, f->engine, FX_TENANT, FX_NAME,
                                       BW_STR("v")));
    }
    fx_index(f, "v[].a", "integer");
    fx_index(f, "v[]", "keyword");
    fx_index(f, "v.a", "integer");
    ask_all(f, "paths");
}

static void test_filter__words_of_a_text(void **state)
{
    fixture *f = *state;
    static const char *const texts[] = {"\"the Quick brown-fox\"",
                                        "\"quick\"",
                                        "\"quickly brown\"",
                                        "[\"x quick\",\"brown y\"]",
                                        "5",
                                        "\"Ünïcode straße\"",
                                        "\"a_b c.d e@f\"",
                                        "\"\"",
                                        "\"12 34\"",
                                        "\"it's don't\""};
    static const char *const asked[][2] = {{"quick", "0 1 3"},
                                           {"QUICK brown", "0"},
                                           {"brown quick", "0"},
                                           {"fox", "0"},
                                           {"brown-fox", "0"},
                                           {"qui", ""},
                                           {"", ""},
                                           {"  ", ""},
                                           {"ünïcode", "5"},
                                           {"STRASSE", ""},
                                           {"ÜNÏCODE", "5"},
                                           {"a_b", "6"},
                                           {"c d", "6"},
                                           {"12", "8"},
                                           {"it's", "9"},
                                           {"dont", ""},
                                           {"5", ""},
                                           {"x brown", ""},
                                           {"quick quick", "0 1 3"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        fx_put(f, 0, i, 1, 1, bw_arena_printf(f->ctx, "{\"t\":%s}", texts[i]));
    for (int index = 0; index < 2; index++) {
        for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
            const char *filter = bw_arena_printf(
                f->ctx, "{\"must\":[{\"key\":\"t\",\"match\":{\"text\":\"%s\"}}]}",
                asked[i][0]);
            const char *got = fx_scroll(f, filter);
            if (strcmp(got, asked[i][1]) != 0)
                fail_msg("text `%s` (index %d): %s, expected %s", asked[i][0], index,
                         got, asked[i][1]);
        }
        fx_index(f, "t", "text");
    }
}

static void test_filter__dates(void **state)
{
    fixture *f = *state;
    static const char *const dates[] = {"\"2024-01-01T00:00:00Z\"",
                                        "\"2024-01-01\"",
                                        "\"2024-01-01T00:00:00+02:00\"",
                                        "\"2024-01-01 00:00:00\"",
                                        "\"2024-01-01T00:00:00.5Z\"",
                                        "\"bad\"",
                                        "1704067200",
                                        "[\"bad\",\"2024-06-01\"]",
                                        "\"2024-01-01T00:00:00\"",
                                        "\"2024-01-01t00:00:00z\"",
                                        "\"1600-01-01\"",
                                        "\"9999-12-31\""};
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++)
        fx_put(f, 0, i, 1, 1, bw_arena_printf(f->ctx, "{\"d\":%s}", dates[i]));
    for (int index = 0; index < 2; index++) {
        assert_string_equal(fx_scroll(f, "{\"must\":[{\"key\":\"d\",\"range\":{\"gte\":"
                                         "\"2024-01-01T00:00:00Z\",\"lt\":"
                                         "\"2024-01-02T00:00:00Z\"}}]}"),
                            "0 1 3 4 8 9");
        assert_string_equal(
            fx_scroll(f,
                      "{\"must\":[{\"key\":\"d\",\"range\":{\"lt\":\"2024-01-01\"}}]}"),
            "2 10");
        assert_string_equal(
            fx_scroll(f,
                      "{\"must\":[{\"key\":\"d\",\"range\":{\"gt\":\"2024-01-01\"}}]}"),
            "4 7 11");
        fx_index(f, "d", "datetime");
    }
}

static void test_filter__limits_are_errors(void **state)
{
    fixture *f = *state;
    bw_filter nest[BW_FILTER_DEPTH_MAX + 2];
    bw_condition inner[BW_FILTER_DEPTH_MAX + 2];
    bw_point_id id = fx_id(1);
    bool hit;
    for (size_t i = 0; i < BW_FILTER_DEPTH_MAX + 2; i++) {
        nest[i] = (bw_filter){.must = &inner[i], .nmust = i > 0};
        inner[i] = (bw_condition){.kind = BW_COND_FILTER,
                                  .filter = i > 0 ? &nest[i - 1] : NULL};
    }
    assert_int_equal(bw_filter_matches(f->ctx, &nest[BW_FILTER_DEPTH_MAX], &id,
                                       BW_STR("{}"), NULL, 0, &hit),
                     BW_OK);
    assert_int_equal(bw_filter_matches(f->ctx, &nest[BW_FILTER_DEPTH_MAX + 1], &id,
                                       BW_STR("{}"), NULL, 0, &hit),
                     BW_EINVALID);
    bw_condition bad = {.kind = BW_COND_IS_EMPTY, .key = BW_STR("a..b")};
    bw_filter one = {.must = &bad, .nmust = 1};
    assert_int_equal(bw_filter_matches(f->ctx, &one, &id, BW_STR("{}"), NULL, 0, &hit),
                     BW_EINVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_filter__one_payload_at_a_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_filter__without_index, setup, teardown),
        cmocka_unit_test_setup_teardown(test_filter__no_index_changes_an_answer, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_filter__words_of_a_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_filter__dates, setup, teardown),
        cmocka_unit_test_setup_teardown(test_filter__limits_are_errors, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
