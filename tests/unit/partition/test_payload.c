/* Payload paths and values over JSON bytes: the path grammar, what a path reaches,
 * exact numbers, strings with escapes, dates, words. Cases marked engine were asked of
 * Qdrant's own engine. */
#include "engine/base/json.h"
#include "engine/partition/payload.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int setup(void **state)
{
    *state = bw_ctx_new(0);
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    bw_ctx_free(*state);
    return 0;
}

typedef struct reached {
    char text[512];
    size_t n, stop;
} reached;

static bool note(void *arg, bw_str raw)
{
    reached *r = arg;
    size_t at = strlen(r->text);
    snprintf(r->text + at, sizeof r->text - at, "%s%.*s", r->n ? "|" : "", (int)raw.len,
             raw.ptr);
    return ++r->n != r->stop;
}

static const char *reach(bw_ctx *ctx, reached *r, const char *path, const char *payload)
{
    bw_path p;
    *r = (reached){.n = 0};
    assert_int_equal(bw_path_parse(ctx, bw_str_c(path), &p), BW_OK);
    bw_path_each(&p, bw_str_c(payload), note, r);
    return r->text;
}

static void test_path__grammar_is_qdrants(void **state)
{
    static const char *const good[] = {
        "a",     "\xc3\xbc.b", "\"a b\".c", "a.\"b\"",      "a-b",
        "a_1",   "a[0][1]",    "a[]",       "a[].b[0].c",   "\"\"",
        "a[00]", "a.\"\".b",   "7",         "\"tb_9.6.11\""};
    static const char *const bad[] = {"",
                                      "my key",
                                      "a..b",
                                      "a/b",
                                      "a.b[]c",
                                      "[0]",
                                      "a[*]",
                                      "a[-1]",
                                      " a",
                                      "a:b",
                                      "$a",
                                      "a.",
                                      "a[",
                                      "a[0",
                                      "a[\"x\"]",
                                      "\"a",
                                      "a[18446744073709551616]",
                                      "\"a\"b",
                                      "\"a\\\"b\"",
                                      ".a",
                                      "a\xff"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        bw_path p;
        if (bw_path_parse(*state, bw_str_c(good[i]), &p) != BW_OK)
            fail_msg("refused: %s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bw_path p;
        if (bw_path_parse(*state, bw_str_c(bad[i]), &p) != BW_EINVALID)
            fail_msg("taken: %s", bad[i]);
    }
}

static void test_path__depth_is_capped(void **state)
{
    char text[4 * BW_PATH_STEPS_MAX] = "a";
    bw_path p;
    for (int i = 1; i < BW_PATH_STEPS_MAX; i++)
        strncat(text, "[]", sizeof text - strlen(text) - 1);
    assert_int_equal(bw_path_parse(*state, bw_str_c(text), &p), BW_OK);
    assert_int_equal(p.n, BW_PATH_STEPS_MAX);
    strncat(text, "[]", sizeof text - strlen(text) - 1);
    assert_int_equal(bw_path_parse(*state, bw_str_c(text), &p), BW_EINVALID);
}

static void test_path__reaches_what_it_names(void **state)
{
    reached r;
    const char *doc =
        "{ \"a\" : {\"b\":[1,{\"c\":\"x\"},[2,3]], "
        "\"q\":null},\"a.b\":7,\"s\":\"}{\\\"\","
        "\"\\u00e9\":5,\"e\":[],\"l\":[{\"k\":1},{\"k\":[2]},4,{\"z\":0}]}";
    assert_string_equal(reach(*state, &r, "a.b", doc), "[1,{\"c\":\"x\"},[2,3]]");
    assert_string_equal(reach(*state, &r, "a.b[]", doc), "1|{\"c\":\"x\"}|[2,3]");
    assert_string_equal(reach(*state, &r, "a.b[][]", doc), "2|3");
    assert_string_equal(reach(*state, &r, "a.b[1].c", doc), "\"x\"");
    assert_string_equal(reach(*state, &r, "a.b[7]", doc), "");
    assert_string_equal(reach(*state, &r, "a.b.c", doc),
                        ""); /* never into an array by itself */
    assert_string_equal(reach(*state, &r, "\"a.b\"", doc), "7");
    assert_string_equal(reach(*state, &r, "s", doc), "\"}{\\\"\"");
    assert_string_equal(reach(*state, &r, "\xc3\xa9", doc), "5"); /* an escaped key */
    assert_string_equal(reach(*state, &r, "e[]", doc), "");
    assert_string_equal(reach(*state, &r, "l[].k", doc), "1|[2]");
    assert_string_equal(reach(*state, &r, "a.q", doc), "null");
    assert_string_equal(reach(*state, &r, "zz", doc), "");
    assert_string_equal(reach(*state, &r, "a", "{}"), "");
}

static void test_path__stops_when_told(void **state)
{
    bw_path p;
    reached r = {.n = 0, .stop = 2};
    assert_int_equal(bw_path_parse(*state, BW_STR("a[]"), &p), BW_OK);
    assert_false(bw_path_each(&p, BW_STR("{\"a\":[1,2,3]}"), note, &r));
    assert_int_equal(r.n, 2);
}

/* Bytes that are no JSON must not lead past their end (the sanitizer watches). */
static void test_path__damaged_bytes_stay_inside(void **state)
{
    static const char doc[] =
        "{\"a\":{\"b\":[1,\"x\\\"y\",{\"c\":null}]},\"d\":\"\\u00e9\\n\",\"e\":-1.5e3}";
    static const char *const paths[] = {"a.b[].c", "a.b[1]", "d", "e", "a"};
    rnd r = rnd_start("damaged", 7);
    for (int round = 0; round < 3000; round++) {
        size_t n = rnd_below(&r, sizeof doc);
        char *copy = bw_alloc(n);
        if (n > 0)
            memcpy(copy, doc, n);
        if (n > 0)
            copy[rnd_below(&r, n)] = (char)rnd_u64(&r);
        bw_path p;
        reached got = {.n = 0};
        bw_buf scratch = {0};
        bw_str s;
        assert_int_equal(bw_path_parse(*state, bw_str_c(paths[rnd_below(&r, 5)]), &p),
                         BW_OK);
        bw_path_each(&p, (bw_str){copy, n}, note, &got);
        bw_number v;
        (void)bw_raw_number((bw_str){copy, n}, &v);
        (void)bw_raw_string((bw_str){copy, n}, &scratch, &s);
        bw_buf_clear(&scratch);
        bw_free(copy);
    }
}

static bw_number number(const char *text)
{
    bw_number v;
    if (!bw_raw_number(bw_str_c(text), &v))
        fail_msg("no number: %s", text);
    return v;
}

static void test_number__order_is_that_of_the_reals(void **state)
{
    (void)state;
    /* Rising, each twice or more where two spellings mean one number. */
    static const char *const rising[] = {"-1e300",
                                         "-9223372036854775809",
                                         "-9223372036854775808",
                                         "-9007199254740993",
                                         "-2.5",
                                         "-2",
                                         "-0.5",
                                         "0",
                                         "0.5",
                                         "1",
                                         "1.5",
                                         "9007199254740991",
                                         "9007199254740992",
                                         "9007199254740993",
                                         "9007199254740994",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "18446744073709551614",
                                         "18446744073709551615",
                                         "1e20",
                                         "1e300"};
    size_t n = sizeof rising / sizeof *rising;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            bw_number a = number(rising[i]), b = number(rising[j]);
            int want = (i > j) - (i < j), got = bw_number_cmp(&a, &b);
            if (i == 1 && j == 2)
                want = 0; /* beyond int64 it is a double: the same as −2^63 */
            if (i == 2 && j == 1)
                want = 0;
            if (got != want)
                fail_msg("%s against %s: %d, expected %d", rising[i], rising[j], got,
                         want);
        }
    }
    bw_number x = number("42"), y = number("42.0"), z = number("-0"),
              zero = number("0");
    assert_int_equal(bw_number_cmp(&x, &y), 0);
    assert_true(x.is_int);
    assert_false(y.is_int);
    assert_false(z.is_int);
    assert_int_equal(bw_number_cmp(&z, &zero), 0);
    x = number("9007199254740993");
    y = number("9007199254740992.0");
    assert_int_equal(bw_number_cmp(&x, &y), 1);
}

static void test_number__long_text_is_read_whole(void **state)
{
    (void)state;
    char text[2000];
    memset(text, '1', sizeof text);
    memcpy(text, "0.", 2);
    memcpy(text + 1900, "e1\0", 3);
    bw_number v = number(text), w = number("1.1111111111111111111111111111");
    assert_int_equal(bw_number_cmp(&v, &w), 0);
}

static void test_string__unescapes_what_json_escapes(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"\"plain\"", "plain"},
                                           {"\"\"", ""},
                                           {"\"a\\n\\t\\\"\\\\\\/b\"", "a\n\t\"\\/b"},
                                           {"\"\\u00e9\"", "\xc3\xa9"},
                                           {"\"\\ud83d\\ude00x\"", "\xf0\x9f\x98\x80x"},
                                           {"\"\\u20AC\"", "\xe2\x82\xac"}};
    bw_buf scratch = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bw_str s;
        assert_true(bw_raw_string(bw_str_c(cases[i][0]), &scratch, &s));
        assert_true(bw_str_eq(s, bw_str_c(cases[i][1])));
        bw_str inner = {cases[i][0] + 1, strlen(cases[i][0]) - 2};
        assert_true(bw_raw_key_eq(inner, bw_str_c(cases[i][1])));
        assert_false(bw_raw_key_eq(inner, BW_STR("plainer")));
    }
    bw_str s;
    assert_false(bw_raw_string(BW_STR("12"), &scratch, &s));
    bw_buf_clear(&scratch);
}

static void test_time__years_beyond_nanoseconds_are_the_ends(void **state)
{
    (void)state;
    int64_t ns;
    assert_true(bw_payload_time(BW_STR("9999-12-31"), &ns));
    assert_true(ns == INT64_MAX);
    assert_true(bw_payload_time(BW_STR("1600-02-29"), &ns));
    assert_true(ns == INT64_MIN);
    assert_false(bw_payload_time(BW_STR("9999-13-31"), &ns));
    assert_false(bw_payload_time(BW_STR("9999-02-29"), &ns)); /* not a leap year */
    assert_false(bw_payload_time(BW_STR("2024-13-01"), &ns));
    assert_false(bw_payload_time(BW_STR("bad"), &ns));
    assert_true(bw_payload_time(BW_STR("1970-01-01T00:00:01+00:00"), &ns));
    assert_true(ns == 1000000000);
}

static bool join(void *arg, bw_str word)
{
    bw_buf *b = arg;
    if (b->len > 0)
        bw_buf_putc(b, '|');
    bw_buf_str(b, word);
    return true;
}

static void test_words__are_split_as_the_engine_splits(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"the Quick brown-fox", "the|quick|brown|fox"},
        {"a_b c.d e@f", "a|b|c|d|e|f"},
        {"Ünïcode straße", "ünïcode|straße"},
        {"it's 12", "it|s|12"},
        {" -!", ""},
        {"\xe4\xb8\xad\xe6\x96\x87 \xe6\x96\x87",
         "\xe4\xb8\xad\xe6\x96\x87|\xe6\x96\x87"},
        {"bad\xff utf", "bad|utf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bw_buf b = {0};
        bw_words_each(bw_str_c(cases[i][0]), join, &b);
        bw_str got = bw_buf_view(&b);
        if (!bw_str_eq(got, bw_str_c(cases[i][1])))
            fail_msg("%s -> %.*s", cases[i][0], (int)got.len, got.ptr);
        bw_buf_clear(&b);
    }
}

/* The scanner against the strict reader: every member and element, on random documents.
 */
static void put_random(rnd *r, bw_buf *b, unsigned depth)
{
    size_t kind = rnd_below(r, depth > 3 ? 4 : 6);
    if (kind == 0) {
        bw_buf_printf(b, "%lld", (long long)(int64_t)rnd_u64(r));
    } else if (kind == 1) {
        bw_buf_puts(b, rnd_below(r, 2) ? "\"a\\\\\\\"]}{[,\"" : "\"\\u00e9 \"");
    } else if (kind == 2) {
        bw_buf_puts(b, rnd_below(r, 2) ? "true" : "null");
    } else if (kind == 3) {
        bw_buf_puts(b, rnd_below(r, 2) ? "-1.5e-3" : "0.25");
    } else {
        bw_buf_putc(b, kind == 4 ? '[' : '{');
        for (size_t n = rnd_below(r, 4), i = 0; i < n; i++) {
            bw_buf_puts(b, i ? " , " : " ");
            if (kind == 5)
                bw_buf_printf(b, "\"k%zu\" :\n", i);
            put_random(r, b, depth + 1);
        }
        bw_buf_puts(b, kind == 4 ? "\t]" : " }");
    }
}

static void same_tree(bw_ctx *ctx, const bw_json *node, bw_str raw)
{
    bw_str rest, key, value;
    assert_true(bw_str_eq(node->raw, raw));
    if (node->kind == BW_JSON_OBJECT) {
        assert_true(bw_raw_object_begin(raw, &rest));
        for (const bw_json *c = node->child; c; c = c->next) {
            assert_true(bw_raw_object_next(&rest, &key, &value));
            assert_true(bw_raw_key_eq(key, c->key));
            same_tree(ctx, c, value);
        }
        assert_false(bw_raw_object_next(&rest, &key, &value));
    } else if (bw_json_is_array(node)) {
        const bw_json *c;
        assert_int_equal(bw_raw_array_count(raw), node->count);
        assert_true(bw_raw_array_begin(raw, &rest));
        assert_int_equal(bw_json_elements(ctx, node, &c), BW_OK);
        for (; c; c = c->next) {
            assert_true(bw_raw_array_next(&rest, &value));
            same_tree(ctx, c, value);
        }
        assert_false(bw_raw_array_next(&rest, &value));
    } else if (node->kind == BW_JSON_NUMBER) {
        bw_number v;
        assert_true(bw_raw_number(raw, &v));
        assert_int_equal(v.is_int, node->is_int);
        assert_true(!v.is_int || (v.mag == node->mag && v.negative == node->negative));
        assert_true(v.real == node->real);
    }
}

static void test_scanner__agrees_with_the_reader(void **state)
{
    rnd r = rnd_start("scanner", 3);
    for (int round = 0; round < 400; round++) {
        bw_buf b = {0};
        bw_json *root;
        bw_buf_puts(&b, "{\"k\":");
        put_random(&r, &b, 0);
        bw_buf_puts(&b, "}");
        assert_int_equal(bw_json_parse(*state, bw_buf_view(&b), BW_JSON_REQUEST, &root),
                         BW_OK);
        same_tree(*state, root, bw_buf_view(&b));
        bw_buf_clear(&b);
        bw_ctx_reset(*state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_path__grammar_is_qdrants, setup, teardown),
        cmocka_unit_test_setup_teardown(test_path__depth_is_capped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_path__reaches_what_it_names, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_path__stops_when_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_path__damaged_bytes_stay_inside, setup,
                                        teardown),
        cmocka_unit_test(test_number__order_is_that_of_the_reals),
        cmocka_unit_test(test_number__long_text_is_read_whole),
        cmocka_unit_test(test_string__unescapes_what_json_escapes),
        cmocka_unit_test(test_time__years_beyond_nanoseconds_are_the_ends),
        cmocka_unit_test(test_words__are_split_as_the_engine_splits),
        cmocka_unit_test_setup_teardown(test_scanner__agrees_with_the_reader, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
