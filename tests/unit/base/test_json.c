/* The JSON reader and writer: what is taken, what is refused, exact numbers. */
#include <engine/base/json.h>

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static bw_status parse_as(bw_ctx *ctx, const char *text, size_t n, bw_json_limits limits,
                          bw_json **out)
{
    char *exact = bw_arena_alloc(ctx, n); /* ASan sees a byte read too far */
    assert_non_null(exact);
    memcpy(exact, text, n);
    *out = NULL;
    return bw_json_parse(ctx, (bw_str){exact, n}, limits, out);
}

static bw_status parse_text(bw_ctx *ctx, const char *text, bw_json **out)
{
    return parse_as(ctx, text, strlen(text), BW_JSON_REQUEST, out);
}

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

static void test_json_parse__builds_the_tree_with_spans(void **state)
{
    bw_ctx *ctx = *state;
    bw_json *v;
    const char *text = " {\"a\" : [1, 2.5 ,-3e2], \"b\":{\"c\":\"x\\ny\"},\"d\":[true,null,[]]} ";
    assert_int_equal(parse_text(ctx, text, &v), BW_OK);
    assert_int_equal(v->kind, BW_JSON_OBJECT);
    assert_int_equal(v->count, 3);
    assert_int_equal(v->raw.len, strlen(text) - 2);
    const bw_json *a = bw_json_get(v, "a");
    assert_int_equal(a->kind, BW_JSON_NUMBERS);
    assert_int_equal(a->count, 3);
    assert_true(bw_str_is(a->raw, "[1, 2.5 ,-3e2]"));
    float f[3];
    assert_int_equal(bw_json_f32(ctx, a, f), BW_OK);
    assert_true(f[0] == 1.0f && f[1] == 2.5f && f[2] == -300.0f);
    const bw_json *c = bw_json_get(bw_json_get(v, "b"), "c");
    assert_true(bw_str_is(c->str, "x\ny"));
    assert_true(bw_str_is(c->raw, "\"x\\ny\""));
    assert_string_equal(bw_json_pointer(ctx, c), "/b/c");
    const bw_json *d = bw_json_get(v, "d");
    assert_int_equal(d->kind, BW_JSON_ARRAY);
    assert_int_equal(d->count, 3);
    assert_string_equal(bw_json_pointer(ctx, d->child->next->next), "/d/2");
    assert_null(bw_json_get_value(v, "zz"));
    assert_null(bw_json_get(d, "a"));
}

static void test_json_parse__takes_every_kind_at_the_root(void **state)
{
    bw_ctx *ctx = *state;
    static const struct { const char *text; bw_json_kind kind; } cases[] = {
        {"null", BW_JSON_NULL}, {"true", BW_JSON_TRUE}, {"false", BW_JSON_FALSE},
        {"0", BW_JSON_NUMBER}, {"-0.5E-3", BW_JSON_NUMBER}, {"\"\"", BW_JSON_STRING},
        {"[]", BW_JSON_ARRAY}, {"{}", BW_JSON_OBJECT}, {"[ 1 ]", BW_JSON_NUMBERS},
        {"[1,\"a\"]", BW_JSON_ARRAY}, {"[[1]]", BW_JSON_ARRAY}, {"[1,{}]", BW_JSON_ARRAY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bw_json *v;
        assert_int_equal(parse_text(ctx, cases[i].text, &v), BW_OK);
        assert_int_equal(v->kind, cases[i].kind);
    }
}

static void test_json_parse__refuses_what_rfc_8259_refuses(void **state)
{
    bw_ctx *ctx = *state;
    static const char *const bad[] = {
        "", " ", "{", "[", "]", "[1", "[1,", "[1,]", "[,1]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}",
        "{a:1}", "{'a':1}", "{\"a\":1 \"b\":2}", "[1 2]", "nul", "nulll", "True", "01", "-", "-a",
        "1.", ".5", "+1", "1e", "1e+", "0x1", "NaN", "Infinity", "-Infinity", "1 2", "{} {}",
        "\"", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\u0000\"", "\"\\ud800\"",
        "\"\\udc00\"", "\"\\ud800\\u0041\"", "\"\\ud800\\n\"", "\"a\nb\"", "\"a\tb\"", "\"\x80\"",
        "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xE2\x82\"", "\xEF\xBB\xBF{}",
        "{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "1e309", "-1e400", "[1e309]", "[1,1e999]",
        "[01]", "[1.]", "[1,-]", "[1}", "{\"a\":1]", "// x\n1", "[1,2,/*x*/3]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bw_json *v;
        bw_status st = parse_text(ctx, bad[i], &v);
        if (st != BW_EINVALID)
            fail_msg("accepted: %s", bad[i]);
        assert_non_null(strstr(bw_ctx_message(ctx), "byte"));
    }
    bw_json *v; /* a NUL in the text */
    assert_int_equal(parse_as(ctx, "\"a\0b\"", 5, BW_JSON_REQUEST, &v), BW_EINVALID);
    assert_int_equal(parse_as(ctx, "1\0", 2, BW_JSON_REQUEST, &v), BW_EINVALID);
}

static void test_json_parse__names_offset_and_pointer(void **state)
{
    bw_ctx *ctx = *state;
    bw_json *v;
    assert_int_equal(parse_text(ctx, "{\"a\":{\"x/y~\":[true,{\"k\":tru}]}}", &v), BW_EINVALID);
    assert_string_equal(bw_ctx_pointer(ctx), "/a/x~1y~0/1");
    assert_non_null(strstr(bw_ctx_message(ctx), "at byte 24"));
}

static void test_json_parse__counts_depth_nodes_and_bytes(void **state)
{
    bw_ctx *ctx = *state;
    char deep[600];
    bw_json *v;
    memset(deep, '[', 64);
    memset(deep + 64, ']', 64);
    assert_int_equal(parse_as(ctx, deep, 128, BW_JSON_REQUEST, &v), BW_OK);
    memset(deep, '[', 65);
    memset(deep + 65, ']', 65);
    assert_int_equal(parse_as(ctx, deep, 130, BW_JSON_REQUEST, &v), BW_EINVALID);
    memset(deep, '[', 256);
    memset(deep + 256, ']', 256);
    assert_int_equal(parse_as(ctx, deep, 512, BW_JSON_CEDAR, &v), BW_OK);
    bw_json_limits small = {.depth_max = 4, .nodes_max = 3, .bytes_max = 16};
    assert_int_equal(parse_as(ctx, "[true,true]", 11, small, &v), BW_OK);
    assert_int_equal(parse_as(ctx, "[true,true,1]", 13, small, &v), BW_EINVALID);
    assert_int_equal(parse_as(ctx, "[1,2,3,4,5,6,7]", 15, small, &v), BW_OK);
    assert_int_equal(parse_as(ctx, "[1,2,3,4,5,6,7]  ", 17, small, &v), BW_EINVALID);
    bw_ctx *tiny = bw_ctx_new(256);
    assert_int_equal(bw_json_parse(tiny, BW_STR("[true,true,true,true]"), BW_JSON_REQUEST, &v),
                     BW_ENOMEM);
    bw_ctx_free(tiny);
}

static void test_json_parse__finds_duplicates_in_large_objects(void **state)
{
    bw_ctx *ctx = *state;
    for (int n = 1; n <= 1000; n = n * 3 / 2 + 1)
        for (int dup = 0; dup <= n; dup = dup * 2 + 1) {
            bw_buf b = {0};
            bw_buf_putc(&b, '{');
            for (int i = 0; i < n; i++)
                bw_buf_printf(&b, "\"key%d\":%d,", i, i);
            bw_buf_printf(&b, "\"key%d\":0}", dup); /* dup == n: a new one */
            bw_json *v;
            assert_int_equal(bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_REQUEST, &v),
                             dup == n ? BW_OK : BW_EINVALID);
            bw_buf_clear(&b);
            bw_ctx_reset(ctx);
        }
}

static void test_json_parse__decodes_escapes(void **state)
{
    bw_ctx *ctx = *state;
    bw_json *v;
    assert_int_equal(parse_text(ctx, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC\\ud83d\\ude00\\u0001\"", &v),
                     BW_OK);
    assert_true(bw_str_is(v->str, "\"\\/\b\f\n\r\t\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\x01"));
    assert_int_equal(parse_text(ctx, "\"0123456789abcdef\xC3\xA9 0123456789abcdef\"", &v), BW_OK);
    assert_int_equal(v->str.len, 35);
}

static void test_json_parse__takes_the_nul_escape_only_where_allowed(void **state)
{
    bw_ctx *ctx = *state;
    bw_json *v;
    assert_int_equal(parse_as(ctx, "\"a\\u0000b\"", 10, BW_JSON_CEDAR, &v), BW_OK);
    assert_int_equal(v->str.len, 3);
    assert_memory_equal(v->str.ptr, "a\0b", 3);
    assert_int_equal(parse_as(ctx, "\"a\\u0000b\"", 10, BW_JSON_REQUEST, &v), BW_EINVALID);
    assert_int_equal(parse_as(ctx, "\"a\0b\"", 5, BW_JSON_CEDAR, &v), BW_EINVALID);
}

static void test_json_numbers__integers_are_exact(void **state)
{
    bw_ctx *ctx = *state;
    static const struct { const char *text; bool is_int, negative; uint64_t mag; } cases[] = {
        {"0", true, false, 0}, {"-0", false, true, 0}, {"9007199254740993", true, false, 9007199254740993u},
        {"18446744073709551615", true, false, UINT64_MAX}, {"18446744073709551616", false, false, 0},
        {"10000000000000000000", true, false, 10000000000000000000u},
        {"-9223372036854775808", true, true, (uint64_t)1 << 63}, {"-9223372036854775809", false, true, 0},
        {"100000000000000000000", false, false, 0}, {"1.0", false, false, 0}, {"1e0", false, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bw_json *v;
        assert_int_equal(parse_text(ctx, cases[i].text, &v), BW_OK);
        assert_int_equal(v->is_int, cases[i].is_int);
        assert_int_equal(v->negative, cases[i].negative);
        if (v->is_int)
            assert_true(v->mag == cases[i].mag);
        assert_true(v->real == strtod(cases[i].text, NULL));
    }
    bw_json *v;
    int64_t i;
    uint64_t u;
    assert_int_equal(parse_text(ctx, "-9223372036854775808", &v), BW_OK);
    assert_true(bw_json_i64(v, &i) && i == INT64_MIN);
    assert_false(bw_json_u64(v, &u));
    assert_int_equal(parse_text(ctx, "9223372036854775808", &v), BW_OK);
    assert_false(bw_json_i64(v, &i));
    assert_true(bw_json_u64(v, &u) && u == (uint64_t)1 << 63);
}

static void test_json_numbers__elements_and_u32(void **state)
{
    bw_ctx *ctx = *state;
    bw_json *v;
    const bw_json *e;
    assert_int_equal(parse_text(ctx, "{\"a\":[ 1 ,22, 4294967295 ]}", &v), BW_OK);
    const bw_json *a = bw_json_get(v, "a");
    assert_int_equal(bw_json_elements(ctx, a, &e), BW_OK);
    assert_true(e->mag == 1 && e->next->mag == 22 && !e->next->next->next);
    assert_string_equal(bw_json_pointer(ctx, e->next), "/a/1");
    uint32_t u[3];
    assert_int_equal(bw_json_u32(ctx, a, u), BW_OK);
    assert_int_equal(u[2], UINT32_MAX);
    static const char *const bad[] = {"[-1]", "[1.0]", "[4294967296]", "[1e2]", "[true]", "{}",
                                      "[99999999999999999999999]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse_text(ctx, bad[i], &v), BW_OK);
        assert_int_equal(bw_json_u32(ctx, v, u), BW_EINVALID);
    }
    assert_int_equal(parse_text(ctx, "[1,3.5e38]", &v), BW_OK);
    float f[2];
    assert_int_equal(bw_json_f32(ctx, v, f), BW_EINVALID);
    assert_non_null(strstr(bw_ctx_message(ctx), "number 1 "));
    assert_int_equal(parse_text(ctx, "[]", &v), BW_OK);
    assert_int_equal(bw_json_f32(ctx, v, f), BW_OK);
}

static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* A random number text: widened floats, shortest doubles, long digits, odd exponents. */
static void random_number(char text[80])
{
    uint64_t r = next_random(), bits = next_random();
    uint32_t fbits = (uint32_t)bits;
    float f;
    double d;
    memcpy(&f, &fbits, sizeof f);
    memcpy(&d, &bits, sizeof d);
    switch (r % 6) {
    case 0: snprintf(text, 80, "%.*g", (int)(r >> 8 & 15) + 5, isfinite(f) ? (double)f : 0.5); break;
    case 1: snprintf(text, 80, "%.17g", isfinite(d) ? d : 1e-300); break;
    case 2: snprintf(text, 80, "0.%0*llu", (int)(r >> 8 & 31) + 1, (unsigned long long)(bits >> (r >> 16 & 63))); break;
    case 3: snprintf(text, 80, "%llu.%llu", (unsigned long long)(bits >> (r >> 8 & 63)), (unsigned long long)next_random()); break;
    case 4: snprintf(text, 80, "%llue%d", (unsigned long long)(bits >> (r >> 8 & 31)), (int)(r >> 16 & 63) - 32); break;
    default: /* next to midpoints of two floats, and of two doubles: rounding at its worst */
        d = (double)(isfinite(f) && f != 0 ? f : 1) * (1 + ldexp(1, r & 64 ? -24 : -53));
        snprintf(text, 80, "%.*g", (int)(r >> 8 & 15) + 12, isfinite(d) ? d : 1);
    }
}

static void test_json_numbers__equal_strtod(void **state)
{
    bw_ctx *ctx = *state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 200000; i++) {
        char text[83] = "[";
        random_number(text + 1);
        size_t n = strlen(text);
        double want = strtod(text + 1, NULL);
        memcpy(text + n, "]", 2);
        bw_json *v;
        if (!isfinite(want))
            continue;
        assert_int_equal(bw_json_parse(ctx, (bw_str){text + 1, n - 1}, BW_JSON_REQUEST, &v), BW_OK);
        if (v->real != want)
            fail_msg("%s: got %.17g, want %.17g", text, v->real, want);
        assert_int_equal(bw_json_parse(ctx, (bw_str){text, n + 1}, BW_JSON_REQUEST, &v), BW_OK);
        float f = 0;
        bw_status st = bw_json_f32(ctx, v, &f);
        assert_int_equal(st, isfinite((float)want) ? BW_OK : BW_EINVALID);
        if (st == BW_OK && f != (float)want)
            fail_msg("%s: got %.9g, want %.9g", text, (double)f, (double)(float)want);
        bw_ctx_reset(ctx);
    }
}

/* As Python spells them, as text of n digits, and next to where rounding turns. */
static void random_spelling(char text[80])
{
    uint64_t r = next_random();
    double unit = (double)(next_random() >> 11) * 0x1p-53 - 0.5;
    float f = (float)ldexp(unit, (int)(r >> 8 & 7) - 5);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    switch (r % 5) {
    case 0:
        snprintf(text, 80, "%.*g", 15 + (int)(r >> 16 & 3), (double)f);
        break;
    case 1:
        snprintf(text, 80, "%.*f", (int)(r >> 16 & 15) + 1, ldexp(unit, (int)(r >> 32 & 31)));
        break;
    case 2: /* the middle of two floats, a double's last bits to and fro */
        snprintf(text, 80, "%.*g", 17 + (int)(r >> 16 & 3),
                 ((double)f + (double)nextafterf(f, 1)) / 2 * (1 + ((double)(r >> 32 & 15) - 8) * 0x1p-53));
        break;
    case 3:
        snprintf(text, 80, "%s%llu.%0*llue%d", r & 64 ? "-" : "", (unsigned long long)(next_random() >> (r >> 8 & 63)),
                 (int)(r >> 16 & 15) + 1, (unsigned long long)(next_random() >> (r >> 24 & 63)), (int)(r >> 32 & 127) - 60);
        break;
    default:
        random_number(text);
    }
}

/* Arrays of many numbers take the quick road where there is room behind a number. */
static void test_json_numbers__arrays_equal_strtod(void **state)
{
    enum { N = 96, ROUNDS = 12000 };
    static const char *const gap[] = {",", ", ", " ,\n", ","};
    bw_ctx *ctx = *state;
    char one[80], text[N * 90];
    float want[N], got[N];
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = 0, used = 1, most = 1 + (size_t)(next_random() % N);
        text[0] = '[';
        while (n < most) {
            random_spelling(one);
            double d = strtod(one, NULL);
            if (!isfinite((float)d) && round % 64)
                continue;
            if (!isfinite(d))
                continue;
            want[n] = (float)d;
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", n ? gap[next_random() & 3] : "", one);
            n++;
        }
        text[used++] = ']';
        bw_json *v;
        char *copy = bw_alloc(used); /* so that ASan sees a step over the end */
        assert_non_null(copy);
        memcpy(copy, text, used);
        assert_int_equal(bw_json_parse(ctx, (bw_str){copy, used}, BW_JSON_REQUEST, &v), BW_OK);
        assert_int_equal(v->kind, BW_JSON_NUMBERS);
        assert_int_equal(v->count, n);
        for (size_t i = 0; i < n; i++)
            if (!isfinite(want[i])) {
                assert_null(v->floats);
                assert_int_equal(bw_json_f32(ctx, v, got), BW_EINVALID);
                snprintf(one, sizeof one, "number %zu is beyond single precision", i);
                assert_non_null(strstr(bw_ctx_message(ctx), one));
                n = 0;
            }
        if (n) {
            assert_non_null(v->floats);
            assert_int_equal(bw_json_f32(ctx, v, got), BW_OK);
            for (size_t i = 0; i < n; i++)
                if (memcmp(&got[i], &want[i], sizeof(float)) != 0)
                    fail_msg("%.*s: number %zu: got %.9g, want %.9g", (int)used, text, i, (double)got[i],
                             (double)want[i]);
        }
        bw_free(copy);
        bw_ctx_reset(ctx);
    }
}

/* More than the longest vector: counted, not kept; the same numbers on demand. */
static void test_json_numbers__long_arrays_are_not_kept(void **state)
{
    bw_ctx *ctx = *state;
    for (uint32_t n = 65535; n <= 65537; n++) {
        bw_buf b = {0};
        bw_json *v;
        bw_buf_putc(&b, '[');
        for (uint32_t i = 0; i < n; i++)
            bw_buf_printf(&b, "%s%u.5", i ? "," : "", i);
        bw_buf_putc(&b, ']');
        assert_int_equal(bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_REQUEST, &v), BW_OK);
        assert_int_equal(v->count, n);
        assert_int_equal(v->floats != NULL, n <= 65536);
        float *f = bw_calloc(n, sizeof *f);
        assert_non_null(f);
        assert_int_equal(bw_json_f32(ctx, v, f), BW_OK);
        for (uint32_t i = 0; i < n; i++)
            assert_true(f[i] == (float)i + 0.5f);
        bw_free(f);
        bw_buf_clear(&b);
        bw_ctx_reset(ctx);
    }
}

/* What is no number after many that are: the element-wise reader's words and place. */
static void test_json_numbers__broken_ones_are_named(void **state)
{
    static const struct { const char *last, *message; } rows[] = {
        {"01", "JSON: a number that is malformed or beyond double at byte 721"},
        {"1.", "JSON: a number that is malformed or beyond double at byte 721"},
        {"-", "JSON: a number that is malformed or beyond double at byte 721"},
        {"1e", "JSON: a number that is malformed or beyond double at byte 721"},
        {"1e400", "JSON: a number that is malformed or beyond double at byte 721"},
        {"nan", "JSON: expected a value at byte 721"},
    };
    bw_ctx *ctx = *state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        for (int behind = 0; behind < 2; behind++) { /* room behind it, or not */
            bw_buf b = {0};
            bw_json *v;
            bw_buf_putc(&b, '[');
            for (int i = 0; i < 72; i++)
                bw_buf_puts(&b, "0.1234567,");
            bw_buf_puts(&b, rows[k].last);
            bw_buf_puts(&b, behind ? ",0.12345678901234567,0.12345678901234567,0.12345678901234567]" : "]");
            assert_int_equal(bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_REQUEST, &v), BW_EINVALID);
            assert_string_equal(bw_ctx_message(ctx), rows[k].message);
            assert_string_equal(bw_ctx_pointer(ctx), k == 5 ? "" : "/72");
            bw_buf_clear(&b);
            bw_ctx_reset(ctx);
        }
}

static void test_json_write__f32_reads_back_and_is_short(void **state)
{
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    static const struct { float v; const char *text; } fixed[] = {
        {0.0f, "0"}, {-0.0f, "-0"}, {1.0f, "1"}, {0.1f, "0.1"}, {-2.5f, "-2.5"}, {16777216.0f, "16777216"},
        {0.05f, "0.05"}, {100000.0f, "100000"}, {123456.0f, "123456"}, {0.00001234f, "1.234e-05"}, {3.1415927f, "3.1415927"},
        {1e10f, "1e+10"}, {0.33333334f, "0.33333334"}, {999999.9f, "999999.9"}, {0.99999994f, "0.99999994"},
    };
    bw_buf b = {0};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        b.len = 0;
        bw_json_put_f32(&b, fixed[i].v);
        bw_buf_putc(&b, 0);
        if (fixed[i].v != 0.00001234f)
            assert_string_equal(b.ptr, fixed[i].text);
    }
    for (int i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)next_random();
        if (i % 2) /* mostly everyday magnitudes */
            bits = (bits & 0x807FFFFF) | (uint32_t)(100 + bits % 56) << 23;
        float v;
        memcpy(&v, &bits, sizeof v);
        b.len = 0;
        bw_json_put_f32(&b, v);
        bw_buf_putc(&b, 0);
        if (!isfinite(v)) {
            assert_string_equal(b.ptr, "null");
            continue;
        }
        if (strtof(b.ptr, NULL) != v || (float)strtod(b.ptr, NULL) != v)
            fail_msg("%s is not %.9g", b.ptr, (double)v);
        char shorter[40]; /* no shorter %g reads back */
        int digits = 0;
        for (const char *p = b.ptr; *p && *p != 'e'; p++)
            digits += *p >= '0' && *p <= '9' && (digits || *p != '0');
        if (digits > 6 && digits <= 9 && fabsf(v) < 1e6f) {
            snprintf(shorter, sizeof shorter, "%.*g", digits - 1, (double)v);
            if (strtof(shorter, NULL) == v)
                fail_msg("%s could be %s", b.ptr, shorter);
        }
    }
    bw_buf_clear(&b);
}

static void test_json_write__strings_and_structure(void **state)
{
    bw_ctx *ctx = *state;
    bw_buf b = {0};
    bw_buf_putc(&b, '{');
    bw_json_put_key(&b, "a");
    bw_json_put_str(&b, (bw_str){"q\"\\\b\f\n\r\t\x01\xC3\xA9\xFFz", 13});
    bw_json_put_key(&b, "n");
    bw_json_put_i64(&b, INT64_MIN);
    bw_json_put_key(&b, "u");
    bw_json_put_u64(&b, UINT64_MAX);
    bw_json_put_key(&b, "d");
    bw_json_put_f64(&b, 0.1);
    bw_json_put_key(&b, "l");
    bw_buf_putc(&b, '[');
    for (int i = 0; i < 3; i++) {
        bw_json_sep(&b);
        bw_json_put_point_id(&b, &(bw_point_id){0, (uint64_t)i, 0, 0});
    }
    bw_json_sep(&b);
    bw_json_put_point_id(&b, &(bw_point_id){0x0123456789abcdef, 0xfedcba9876543210, 1, 0});
    bw_buf_puts(&b, "]}");
    bw_buf_putc(&b, 0);
    assert_string_equal(b.ptr,
        "{\"a\":\"q\\\"\\\\\\b\\f\\n\\r\\t\\u0001\xC3\xA9\xEF\xBF\xBDz\",\"n\":-9223372036854775808,"
        "\"u\":18446744073709551615,\"d\":0.1,\"l\":[0,1,2,\"01234567-89ab-cdef-fedc-ba9876543210\"]}");
    bw_json *v;
    assert_int_equal(bw_json_parse(ctx, (bw_str){b.ptr, b.len - 1}, BW_JSON_REQUEST, &v), BW_OK);
    bw_buf_clear(&b);
}

int main(void)
{
    const char *given = getenv("BW_SEED"); /* a seed that a failing run printed */
    if (given)
        seed = strtoull(given, NULL, 10);
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_json_parse__builds_the_tree_with_spans),
        T(test_json_parse__takes_every_kind_at_the_root),
        T(test_json_parse__refuses_what_rfc_8259_refuses),
        T(test_json_parse__names_offset_and_pointer),
        T(test_json_parse__counts_depth_nodes_and_bytes),
        T(test_json_parse__finds_duplicates_in_large_objects),
        T(test_json_parse__decodes_escapes),
        T(test_json_parse__takes_the_nul_escape_only_where_allowed),
        T(test_json_numbers__integers_are_exact),
        T(test_json_numbers__elements_and_u32),
        T(test_json_numbers__equal_strtod), T(test_json_numbers__arrays_equal_strtod),
        T(test_json_numbers__long_arrays_are_not_kept), T(test_json_numbers__broken_ones_are_named),
        T(test_json_write__f32_reads_back_and_is_short),
        T(test_json_write__strings_and_structure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
