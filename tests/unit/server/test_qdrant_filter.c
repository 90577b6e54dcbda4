/* Filters of the wire: what is taken, what becomes of it, and that whatever is not
 * understood whole is refused with the place named (bug-report family 5). */
#include "qdrant_fixture.h"

static const bw_filter *filter(fixture *f, const char *text)
{
    const bw_filter *out = NULL;
    const bw_json *body = fixture_body(f, text);
    if (!body)
        fail_msg("%s: %s", text, bw_ctx_message(f->ctx));
    bw_status s = bw_qdrant__filter(&f->p, bw_json_get(body, "filter"), &out);
    if (s != BW_OK)
        fail_msg("%s: %s", text, bw_ctx_message(f->ctx));
    return out;
}

static void test_filter__empty_forms_are_no_constraint(void **state)
{
    fixture *f = *state;
    assert_null(filter(f, "{}"));
    assert_null(filter(f, "{\"filter\":null}"));
    assert_null(filter(f, "{\"filter\":{}}"));
    assert_null(filter(f, "{\"filter\":{\"must\":[]}}"));
    assert_null(filter(f, "{\"filter\":{\"should\":[]}}"));
    assert_null(
        filter(f, "{\"filter\":{\"must\":null,\"should\":null,\"must_not\":null}}"));
    const bw_filter *x = filter(f, "{\"filter\":{\"must\":[{}]}}");
    assert_int_equal(x->nmust, 1);
    assert_int_equal(x->must[0].kind, BW_COND_FILTER);
    x = filter(f, "{\"filter\":{\"should\":[],\"must\":[{\"has_id\":[]}]}}");
    assert_int_equal(x->nmust, 1);
    assert_int_equal(x->nshould, 0);
    assert_int_equal(x->must[0].nids, 0);
}

static void test_filter__reads_every_condition(void **state)
{
    fixture *f = *state;
    const bw_condition *c =
        filter(f, "{\"filter\":{\"must\":["
                  "{\"key\":\"a\",\"match\":{\"value\":\"x\"}},"
                  "{\"key\":\"a.b[].c\",\"match\":{\"value\":-5}},"
                  "{\"key\":\"a\",\"match\":{\"value\":true}},"
                  "{\"key\":\"a\",\"match\":{\"any\":[1,18446744073709551615]}},"
                  "{\"key\":\"a\",\"match\":{\"except\":[\"q\"]}},"
                  "{\"key\":\"a\",\"match\":{\"text\":\"two words\"}},"
                  "{\"key\":\"a\",\"range\":{\"gt\":1,\"lte\":2.5,\"lt\":null}},"
                  "{\"key\":\"a\",\"range\":{\"gte\":\"1970-01-01T00:00:01Z\"}},"
                  "{\"key\":\"a\",\"values_count\":{\"lt\":1}},"
                  "{\"key\":\"a\",\"is_empty\":false},"
                  "{\"is_null\":{\"key\":\"a\"}},"
                  "{\"has_id\":[7,\"550e8400e29b41d4a716446655440000\"]},"
                  "{\"has_vector\":\"\"},"
                  "{\"nested\":{\"key\":\"arr\",\"filter\":{\"must\":[{\"key\":\"k\","
                  "\"match\":"
                  "{\"value\":1}}]}}},"
                  "{\"should\":[{\"has_id\":[1]}]}]}}")
            ->must;
    assert_int_equal(c[0].kind, BW_COND_MATCH_VALUE);
    assert_true(bw_str_is(c[0].values[0].str, "x"));
    assert_int_equal(c[1].values[0].mag, 5);
    assert_true(c[1].values[0].negative);
    assert_true(bw_str_is(c[1].key, "a.b[].c"));
    assert_int_equal(c[2].values[0].kind, BW_VALUE_BOOL);
    assert_int_equal(c[3].kind, BW_COND_MATCH_ANY);
    assert_true(c[3].values[1].mag == UINT64_MAX);
    assert_int_equal(c[4].kind, BW_COND_MATCH_EXCEPT);
    assert_int_equal(c[5].kind, BW_COND_MATCH_TEXT);
    assert_int_equal(c[6].kind, BW_COND_RANGE);
    assert_true(c[6].range.has_gt && c[6].range.gt.is_int && c[6].range.has_lte);
    assert_false(c[6].range.has_lt);
    assert_int_equal(c[7].kind, BW_COND_DATE_RANGE);
    assert_true(c[7].range.gte.mag == 1000000000);
    assert_int_equal(c[8].kind, BW_COND_VALUES_COUNT);
    assert_int_equal(c[9].kind, BW_COND_IS_EMPTY);
    assert_true(c[9].negate);
    assert_int_equal(c[10].kind, BW_COND_IS_NULL);
    assert_int_equal(c[11].nids, 2);
    assert_int_equal(c[11].ids[1].is_uuid, 1);
    assert_int_equal(c[12].kind, BW_COND_HAS_VECTOR);
    assert_int_equal(c[13].kind, BW_COND_NESTED);
    assert_int_equal(c[13].filter->nmust, 1);
    assert_int_equal(c[14].kind, BW_COND_FILTER);
}

static void test_filter__takes_one_condition_for_a_list_and_min_should(void **state)
{
    fixture *f = *state;
    const bw_filter *x =
        filter(f, "{\"filter\":{\"must\":{\"key\":\"g\",\"match\":{\"value\":1}}}}");
    assert_int_equal(x->nmust, 1);
    x = filter(f, "{\"filter\":{\"min_should\":{\"conditions\":[{\"has_id\":[1]},{"
                  "\"has_id\":[2]}],"
                  "\"min_count\":2}}}");
    assert_true(x->has_min_should);
    assert_int_equal(x->nmin_should, 2);
    assert_int_equal(x->min_count, 2);
}

static void test_filter__keeps_64_bit_integers_exact(void **state)
{
    fixture *f = *state;
    const bw_filter *x = filter(
        f,
        "{\"filter\":{\"must\":[{\"key\":\"n\",\"match\":{\"value\":9007199254740993}},"
        "{\"key\":\"n\",\"range\":{\"gte\":9007199254740993}},"
        "{\"key\":\"n\",\"match\":{\"value\":-9223372036854775808}}]}}");
    assert_true(x->must[0].values[0].mag == 9007199254740993u);
    assert_true(x->must[1].range.gte.is_int &&
                x->must[1].range.gte.mag == 9007199254740993u);
    assert_true(x->must[2].values[0].mag == (uint64_t)1 << 63);
}

typedef struct refusal {
    const char *filter, *message;
    int status;
} refusal;

static const refusal refusals[] = {
    {"{\"must\":[{\"key\":\"a\",\"match\":{}}]}", "/filter/must/0/match", 0},
    {"{\"must\":[{\"key\":\"a\",\"match\":{\"zzz\":1}}]}", "/filter/must/0/match/zzz",
     0},
    {"{\"must\":[{\"key\":\"a\",\"match\":{\"value\":1.5}}]}",
     "/filter/must/0/match/value", 0},
    {"{\"must\":[{\"key\":\"a\",\"match\":{\"value\":null}}]}", "/filter/must/0/match",
     0},
    {"{\"must\":[{\"key\":\"a\",\"match\":{\"any\":[1,\"x\"]}}]}",
     "/filter/must/0/match/any/1", 0},
    {"{\"must\":[{\"key\":\"a\",\"match\":{\"any\":[true]}}]}",
     "/filter/must/0/match/any/0", 0},
    {"{\"must\":[{\"key\":\"a\",\"match\":{\"any\":\"x\"}}]}",
     "/filter/must/0/match/any", 0},
    {"{\"must\":[{\"key\":\"a\",\"match\":{\"value\":1,\"any\":[2]}}]}", "one test", 0},
    {"{\"must\":[{\"key\":\"a\",\"match\":{\"text_any\":\"x\"}}]}", "not served", 0},
    {"{\"must\":[{\"key\":\"a\",\"range\":{\"gte\":\"ten\"}}]}",
     "/filter/must/0/range/gte", 0},
    {"{\"must\":[{\"key\":\"a\",\"range\":{\"gte\":\"2024-01-01\",\"lt\":3}}]}",
     "all numbers", 0},
    {"{\"must\":[{\"key\":\"a\",\"range\":{}}]}",
     "/filter/must/0/range: the range has no", 0},
    {"{\"must\":[{\"key\":\"a\",\"range\":{\"ge\":1}}]}", "/filter/must/0/range/ge", 0},
    {"{\"must\":[{\"key\":\"a\",\"values_count\":{\"lt\":-1}}]}",
     "/filter/must/0/values_count", 0},
    {"{\"must\":[{\"key\":\"\",\"match\":{\"value\":1}}]}", "/filter/must/0/key", 0},
    {"{\"must\":[{\"key\":\"a..b\",\"match\":{\"value\":1}}]}", "/filter/must/0/key",
     0},
    {"{\"must\":[{\"key\":\"a[x]\",\"match\":{\"value\":1}}]}", "/filter/must/0/key",
     0},
    {"{\"must\":[{\"key\":7,\"match\":{\"value\":1}}]}", "/filter/must/0/key", 0},
    {"{\"must\":[{\"key\":\"a\"}]}", "Validation error in JSON body: [/filter/must/0",
     422},
    {"{\"must\":[{\"key\":\"a\",\"match\":null}]}", "Validation error", 422},
    {"{\"must\":[{\"key\":\"a\",\"match\":{\"value\":1},\"range\":{\"gt\":1}}]}",
     "one test", 0},
    {"{\"must\":[{\"key\":\"a\",\"match\":{\"value\":1},\"foo\":1}]}",
     "/filter/must/0/foo", 0},
    {"{\"must\":{}}", "/filter/must: expected a condition", 0},
    {"{\"must\":7}", "/filter/must", 0},
    {"{\"must\":[1,2]}", "/filter/must/0", 0},
    {"{\"must\":[{\"unknown\":1}]}", "/filter/must/0/unknown: unknown word", 0},
    {"{\"must\":[{\"has_id\":[1],\"is_empty\":{\"key\":\"a\"}}]}", "one test", 0},
    {"{\"must\":[{\"has_id\":[\"abc\"]}]}", "abc is not a valid point ID", 0},
    {"{\"must\":[{\"has_id\":7}]}", "/filter/must/0/has_id", 0},
    {"{\"must\":[{\"is_empty\":{}}]}", "missing field `key`", 0},
    {"{\"must\":[{\"is_empty\":true}]}", "/filter/must/0/is_empty", 0},
    {"{\"must\":[{\"has_vector\":1}]}", "/filter/must/0/has_vector", 0},
    {"{\"must\":[{\"nested\":{\"key\":\"a\"}}]}", "missing field `filter`", 0},
    {"{\"must\":[{\"nested\":{\"key\":\"a\",\"filter\":{\"x\":1}}}]}", "/filter/x", 0},
    {"{\"must\":[{\"slice\":{\"total\":1,\"index\":0}}]}", "slice is not served", 0},
    {"{\"must\":[{\"key\":\"a\",\"geo_radius\":{}}]}", "geo_radius is not served", 0},
    {"{\"min_should\":{\"conditions\":[]}}", "missing field `min_count`", 0},
    {"{\"min_should\":{\"conditions\":[],\"min_count\":-1}}",
     "/filter/min_should/min_count", 0},
    {"{\"key\":\"a\",\"match\":{\"value\":1}}", "/filter/key: unknown word in a filter",
     0},
    {"{\"mist\":[]}", "/filter/mist", 0},
    {"[]", "/filter: expected a filter", 0},
    {"\"x\"", "/filter", 0},
};

static void test_filter__names_what_it_does_not_understand(void **state)
{
    fixture *f = *state;
    char text[512];
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const bw_filter *out = (const bw_filter *)&text;
        snprintf(text, sizeof text, "{\"filter\":%s}", refusals[i].filter);
        const bw_json *body = fixture_body(f, text);
        assert_non_null(body);
        bw_status s = bw_qdrant__filter(&f->p, bw_json_get(body, "filter"), &out);
        if (s != BW_EINVALID)
            fail_msg("%s was taken", refusals[i].filter);
        assert_null(out);
        assert_message(f, refusals[i].message);
        assert_int_equal(f->p.status, refusals[i].status);
    }
}

static void test_filter__caps_the_depth(void **state)
{
    fixture *f = *state;
    const bw_filter *out;
    for (unsigned n = BW_FILTER_DEPTH_MAX - 1; n <= BW_FILTER_DEPTH_MAX; n++) {
        /* one `must` each costs two levels of JSON */
        const char *text = fixture_repeat("{\"filter\":", "{\"must\":", n,
                                          "{\"must\":{\"has_id\":[1]}}", "}", "}");
        const bw_json *body = fixture_body(f, text);
        assert_non_null(body);
        bw_status s = bw_qdrant__filter(&f->p, bw_json_get(body, "filter"), &out);
        assert_int_equal(s, n < BW_FILTER_DEPTH_MAX ? BW_OK : BW_EINVALID);
    }
    assert_message(f, "nested deeper than 32");
}

static void test_filter__caps_the_conditions(void **state)
{
    fixture *f = *state;
    const bw_filter *out;
    for (unsigned extra = 0; extra < 2; extra++) {
        const char *text = fixture_repeat(
            "{\"filter\":{\"must\":[{\"has_id\":[1]}", ",{\"has_id\":[1]}",
            BW_FILTER_NODES_MAX - 1 + extra, "", "", "]}}");
        const bw_json *body = fixture_body(f, text);
        assert_non_null(body);
        bw_status s = bw_qdrant__filter(&f->p, bw_json_get(body, "filter"), &out);
        assert_int_equal(s, extra ? BW_EINVALID : BW_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filter__empty_forms_are_no_constraint),
        cmocka_unit_test(test_filter__reads_every_condition),
        cmocka_unit_test(test_filter__takes_one_condition_for_a_list_and_min_should),
        cmocka_unit_test(test_filter__keeps_64_bit_integers_exact),
        cmocka_unit_test(test_filter__names_what_it_does_not_understand),
        cmocka_unit_test(test_filter__caps_the_depth),
        cmocka_unit_test(test_filter__caps_the_conditions),
    };
    return cmocka_run_group_tests(tests, fixture_new, fixture_free);
}
