/* Label rules: order, conditions, what a raise may do, what is refused with its place. */
#include <ingest/glob.h>
#include <ingest/regex.h>
#include <ingest/rules.h>

#include <setjmp.h>
#include <cmocka.h>
#include "pack.h"
#include "rnd.h"

static bw_ctx *ctx;
static bw_catalogue *catalogue;

static int setup(void **state)
{
    (void)state;
    ctx = bw_ctx_new(0);
    catalogue = pack_catalogue(ctx, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bw_catalogue_free(catalogue);
    bw_ctx_free(ctx);
    return 0;
}

static bw_rules *rules(const char *text)
{
    bw_rules *r;
    if (bw_rules_new(ctx, bw_str_c(text), BW_RULES_CELL, catalogue, &r) != BW_OK)
        fail_msg("%s: %s %s", text, bw_ctx_pointer(ctx), bw_ctx_message(ctx));
    return r;
}

#define SET(level) "{\"regimes\":[\"gdpr\"],\"residency\":[\"EU\"],\"sensitivity\":" #level ",\"purposes\":[\"care\",\"audit\"]}"

static const char *base_of(const bw_rules *r, const bw_rule_subject *s)
{
    const bw_rule *rule;
    bool later;
    assert_int_equal(bw_rules_base(ctx, r, s, &rule, &later), BW_OK);
    return later ? "later" : rule ? bw_arena_printf(ctx, "%.*s", (int)rule->name.len, rule->name.ptr) : "none";
}

static void test_rules_base__is_the_first_that_holds(void **state)
{
    (void)state;
    static const bw_rule_fact hr[] = {{{"year", 4}, {"2026", 4}}, {{"dept", 4}, {"hr-paris", 8}}};
    bw_rules *r = rules("{\"rules\":["
                        "{\"name\":\"mine\",\"match\":\"fr/*\",\"tenant\":\"acme\",\"labels\":" SET(1) "},"
                        "{\"name\":\"up\",\"raise\":{\"sensitivity\":5}},"
                        "{\"name\":\"dept\",\"metadata\":{\"dept\":\"hr*\",\"year\":\"????\"},\"labels\":" SET(2) "},"
                        "{\"name\":\"page\",\"media\":[\"text/html\",\"application/pdf\"],\"collection\":\"web-*\",\"labels\":" SET(3) "},"
                        "{\"name\":\"word\",\"match\":\"*.txt\",\"text\":\"(?i)top\\\\s+secret\",\"labels\":" SET(4) "},"
                        "{\"match\":\"*\",\"labels\":" SET(0) "}]}");
    bw_rule_subject s = {.tenant = BW_STR("acme"), .collection = BW_STR("docs"), .source = BW_STR("fr/a/b.txt"), .media = BW_MEDIA_TEXT};
    assert_string_equal(base_of(r, &s), "mine");
    s.tenant = BW_STR("hosp");
    assert_string_equal(base_of(r, &s), "later"); /* the text decides between two */
    s.source = BW_STR("fr/a/b.md");
    assert_string_equal(base_of(r, &s), "/rules/5");
    s.metadata = hr;
    s.nmetadata = 2;
    assert_string_equal(base_of(r, &s), "dept");
    s.nmetadata = 1;
    assert_string_equal(base_of(r, &s), "/rules/5");
    s.collection = BW_STR("web-1");
    assert_string_equal(base_of(r, &s), "/rules/5");
    s.media = BW_MEDIA_HTML;
    assert_string_equal(base_of(r, &s), "page");
    s = (bw_rule_subject){.tenant = BW_STR("hosp"), .collection = BW_STR("docs"), .source = BW_STR("x.txt"), .media = BW_MEDIA_TEXT,
                          .has_text = true, .text = BW_STR("nothing here")};
    assert_string_equal(base_of(r, &s), "/rules/5");
    s.title = BW_STR("TOP  Secret");
    assert_string_equal(base_of(r, &s), "word");
    bw_rules_free(r);
    r = rules("{\"rules\":[{\"match\":\"a\",\"labels\":" SET(1) "}]}");
    assert_string_equal(base_of(r, &s), "none");
    bw_rules_free(r);
}

static const char *after(const bw_rules *r, const char *text, const char **why)
{
    const bw_str place = BW_STR("EU");
    const bw_str uses[] = {BW_STR("audit"), BW_STR("care")};
    bw_labels l = {.tenant = BW_STR("t"), .residency = {&place, 1}, .purposes = {uses, 2}};
    bw_rule_subject s = {.source = BW_STR("a.txt"), .media = BW_MEDIA_TEXT, .has_text = true, .text = bw_str_c(text)};
    bw_raised raised;
    bw_str out;
    bw_buf b = {0};
    *why = "";
    if (bw_rules_raise(ctx, r, catalogue, &s, &l, &raised) != BW_OK)
        return bw_ctx_pointer(ctx);
    for (size_t i = 0; i < raised.n; i++) {
        bw_str name = raised.by[i].rule.ptr ? raised.by[i].rule : bw_str_c(bw_detect_name(raised.by[i].kind));
        bw_buf_printf(&b, "%s%.*s:%x", i ? " " : "", (int)name.len, name.ptr, raised.by[i].members);
    }
    *why = bw_arena_printf(ctx, "%.*s", (int)b.len, b.ptr ? b.ptr : "");
    bw_buf_clear(&b);
    assert_int_equal(bw_labels_canonical(ctx, &l, &out), BW_OK);
    return bw_arena_cstr(ctx, out);
}

#define OUT(residency, level, categories, purposes)                                                                   \
    "{\"tenant\":\"t\",\"regimes\":[\"none\"],\"residency\":[" residency "],\"sensitivity\":" #level ",\"categories\":[" categories \
    "],\"labels\":[],\"purposes\":[" purposes "],\"legal_hold\":false}"

static void test_rules_raise__adds_rules_in_order_then_findings(void **state)
{
    (void)state;
    const char *why;
    bw_rules *r = rules("{\"rules\":["
                        "{\"name\":\"one\",\"text\":\"patient\",\"raise\":{\"sensitivity\":3,\"categories\":[\"health\"]}},"
                        "{\"name\":\"same\",\"raise\":{\"sensitivity\":0}},"
                        "{\"name\":\"two\",\"text\":\"patient\",\"raise\":{\"sensitivity\":2,\"purposes\":[\"care\"],\"residency\":[\"FR\"]}},"
                        "{\"name\":\"bad\",\"text\":\"nowhere\",\"raise\":{\"residency\":[\"CH\"]}}],"
                        "\"detectors\":{\"email\":{\"labels\":[],\"purposes\":[\"care\"]}}}");
    assert_string_equal(after(r, "a plan", &why), OUT("\"EU\"", 0, "", "\"audit\",\"care\""));
    assert_string_equal(why, "");
    assert_string_equal(after(r, "the patient", &why), OUT("\"FR\"", 3, "\"health\"", "\"care\""));
    assert_string_equal(why, "one:18 two:44");
    assert_string_equal(after(r, "mail jane@example.org now", &why), OUT("\"EU\"", 2, "\"pi\"", "\"care\""));
    assert_string_equal(why, "email:58"); /* built in, and what the file adds to it */
    assert_string_equal(after(r, "DE89 3704 0044 0532 0130 00 of jane@example.org", &why), OUT("\"EU\"", 3, "\"financial\",\"pi\"", "\"care\""));
    assert_string_equal(why, "email:58 iban:18");
    assert_string_equal(after(r, "nowhere", &why), "/residency");
    bw_rules_free(r);
    r = rules(""); /* no file: the detectors alone */
    assert_string_equal(after(r, "mail jane@example.org now", &why), OUT("\"EU\"", 2, "\"pi\"", "\"audit\",\"care\""));
    bw_rules_free(r);
}

static void test_rules_raise__looks_at_title_and_source(void **state)
{
    (void)state;
    const bw_str place = BW_STR("EU");
    bw_rules *r = rules("");
    for (int i = 0; i < 2; i++) {
        bw_labels l = {.tenant = BW_STR("t"), .residency = {&place, 1}, .sensitivity = 1};
        bw_rule_subject s = {.source = i ? BW_STR("box/jane@example.org/1.txt") : BW_STR("1.txt"), .has_text = true,
                             .title = i ? BW_STR("plan") : BW_STR("To jane@example.org")};
        bw_raised raised;
        assert_int_equal(bw_rules_raise(ctx, r, catalogue, &s, &l, &raised), BW_OK);
        assert_int_equal(raised.found.count[BW_DETECT_EMAIL], 1);
        assert_int_equal(l.sensitivity, 2);
    }
    bw_rules_free(r);
}

static void test_rules_detect__is_the_detectors_alone(void **state)
{
    (void)state;
    const bw_str place = BW_STR("EU");
    bw_labels l = {.tenant = BW_STR("t"), .residency = {&place, 1}, .sensitivity = 4};
    bw_raised raised;
    bw_rules *r = rules("{\"rules\":[{\"raise\":{\"sensitivity\":5}}]}");
    assert_int_equal(bw_rules_detect(ctx, r, catalogue, BW_STR("jane@example.org"), &l, &raised), BW_OK);
    assert_int_equal(l.sensitivity, 4); /* never down */
    assert_int_equal(l.categories.n, 1);
    assert_true(raised.n == 1 && raised.by[0].members == 16);
    bw_rules_free(r);
}

#define RULE(inside) "{\"rules\":[{" inside "}]}"

static void test_rules_new__refuses_with_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *pointer;
        bw_rules_use use;
    } bad[] = {
        {"[]", "", BW_RULES_CELL},
        {"{}", "", BW_RULES_CELL},
        {"{\"rules\":{}}", "/rules", BW_RULES_CELL},
        {"{\"rules\":[1]}", "/rules", BW_RULES_CELL},
        {"{\"rules\":[],\"rule\":[]}", "/rule", BW_RULES_CELL},
        {"{\"rules\":[],\"detectors\":{\"mail\":{}}}", "/detectors/mail", BW_RULES_CELL},
        {"{\"rules\":[],\"detectors\":{\"email\":{\"sensitivity\":1}}}", "/detectors/email/sensitivity", BW_RULES_CELL},
        {"{\"rules\":[],\"detectors\":{\"email\":{\"categories\":[\"public\"]}}}", "/detectors/email/categories", BW_RULES_CELL},
        {RULE("\"match\":\"a\""), "/rules/0", BW_RULES_CELL},
        {RULE("\"labels\":" SET(1)), "/rules/0", BW_RULES_CELL},
        {RULE("\"labels\":{}"), "/rules/0", BW_RULES_CLIENT},
        {RULE("\"labels\":" SET(1) ",\"raise\":{}"), "/rules/0", BW_RULES_CELL},
        {RULE("\"match\":\"a[bc]\",\"raise\":{}"), "/rules/0/match", BW_RULES_CELL},
        {RULE("\"match\":\"a\\\\\",\"raise\":{}"), "/rules/0/match", BW_RULES_CELL},
        {RULE("\"mach\":\"a\",\"raise\":{}"), "/rules/0/mach", BW_RULES_CELL},
        {RULE("\"name\":\"a b\",\"raise\":{}"), "/rules/0/name", BW_RULES_CELL},
        {RULE("\"skip\":true"), "/rules/0/skip", BW_RULES_CELL},
        {RULE("\"media\":\"image/png\",\"raise\":{}"), "/rules/0/media", BW_RULES_CELL},
        {RULE("\"media\":[],\"raise\":{}"), "/rules/0/media", BW_RULES_CELL},
        {RULE("\"metadata\":{\"a\":1},\"raise\":{}"), "/rules/0/metadata/a", BW_RULES_CELL},
        {RULE("\"text\":\"(\",\"raise\":{}"), "/rules/0/text", BW_RULES_CELL},
        {RULE("\"text\":\"(a)\\\\1\",\"raise\":{}"), "/rules/0/text", BW_RULES_CELL},
        {RULE("\"text\":\"((a{100}){100}){100}\",\"raise\":{}"), "/rules/0/text", BW_RULES_CELL},
        {RULE("\"raise\":{\"legal_hold\":false}"), "/rules/0/raise/legal_hold", BW_RULES_CELL},
        {RULE("\"raise\":{\"regimes\":[\"none\"]}"), "/rules/0/raise/regimes", BW_RULES_CELL},
        {RULE("\"raise\":{\"tenant\":\"acme\"}"), "/rules/0/raise/tenant", BW_RULES_CELL},
        {RULE("\"labels\":{\"regimes\":[\"gdpr\"]}"), "/rules/0/labels/residency", BW_RULES_CELL},
        {RULE("\"labels\":{\"tenant\":\"acme\"}"), "/rules/0/labels/tenant", BW_RULES_CELL},
        {RULE("\"match\":\"a\",\"raise\":{}"), "/rules/0/raise", BW_RULES_CLIENT},
        {RULE("\"text\":\"a\",\"labels\":{}"), "/rules/0/text", BW_RULES_CLIENT},
        {RULE("\"match\":\"a\",\"skip\":false"), "/rules/0/skip", BW_RULES_CLIENT},
        {"{\"rules\":[],\"detectors\":{}}", "/detectors", BW_RULES_CLIENT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bw_rules *r;
        if (bw_rules_new(ctx, bw_str_c(bad[i].text), bad[i].use, catalogue, &r) != BW_EINVALID)
            fail_msg("accepted %s", bad[i].text);
        assert_string_equal(bw_ctx_pointer(ctx), bad[i].pointer);
    }
}

static void test_rules_new__caps_rules_and_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *one;
        int most;
    } kinds[] = {{"{\"raise\":{}}", BW_RULES_CELL_MAX}, {"{\"text\":\"a\",\"raise\":{}}", BW_RULES_TEXT_MAX}};
    for (size_t k = 0; k < 2; k++)
        for (int over = 0; over < 2; over++) {
            bw_buf b = {0};
            bw_rules *r = NULL;
            bw_buf_puts(&b, "{\"rules\":[");
            for (int i = 0; i < kinds[k].most + over; i++)
                bw_buf_printf(&b, "%s%s", i ? "," : "", kinds[k].one);
            bw_buf_puts(&b, "]}");
            assert_int_equal(bw_rules_new(ctx, bw_buf_view(&b), BW_RULES_CELL, catalogue, &r), over ? BW_EINVALID : BW_OK);
            bw_rules_free(r);
            bw_buf_clear(&b);
        }
}

static void test_rules_new__reads_a_clients_file_without_a_catalogue(void **state)
{
    (void)state;
    bw_rules *r;
    const bw_rule *rule;
    bool later;
    bw_rule_subject s = {.source = BW_STR("old/a.bak"), .media = BW_MEDIA_TEXT};
    const char *text = "{\"rules\":[{\"match\":\"*.bak\",\"skip\":true},{\"media\":\"text/plain\",\"labels\":{\"sensitivity\":2}}]}";
    assert_int_equal(bw_rules_new(ctx, bw_str_c(text), BW_RULES_CLIENT, NULL, &r), BW_OK);
    assert_int_equal(bw_rules_base(ctx, r, &s, &rule, &later), BW_OK);
    assert_true(rule && rule->skip && !rule->labels);
    s.source = BW_STR("a.txt");
    assert_int_equal(bw_rules_base(ctx, r, &s, &rule, &later), BW_OK);
    assert_true(rule && !rule->skip && bw_str_is(rule->labels->raw, "{\"sensitivity\":2}"));
    bw_rules_free(r);
}

/* ---- globs and patterns ---- */

static void test_glob_match__knows_its_three_signs(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool match;
    } cases[] = {
        {"*", "", true},        {"*", "a/b", true},       {"", "", true},           {"", "a", false},      {"a", "a", true},
        {"a", "ab", false},     {"fr/*", "fr/a/b", true}, {"fr/*", "fr", false},    {"*.md", "a.md", true}, {"*.md", "a.mdx", false},
        {"a*b*c", "aXbYc", true}, {"a*b*c", "aXcYb", false}, {"?", "\xc3\xa9", true}, {"??", "\xc3\xa9", false}, {"\\*", "*", true},
        {"\\*", "a", false},    {"a\\?", "a?", true},     {"a\\?", "ab", false},    {"**a", "a", true},    {"a?*", "a", false},
        {"*a?", "aab", true},   {"*\\\\", "a\\", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (bw_glob_match(bw_str_c(cases[i].pattern), bw_str_c(cases[i].name)) != cases[i].match)
            fail_msg("%s over %s", cases[i].pattern, cases[i].name);
}

/* The plain definition, by recursion. */
static bool glob_slowly(const char *p, const char *s)
{
    if (*p == '*')
        return glob_slowly(p + 1, s) || (*s && glob_slowly(p, s + 1));
    if (*p == '\\')
        return p[1] == *s && *s && glob_slowly(p + 2, s + 1);
    return *p ? *s && (*p == '?' || *p == *s) && glob_slowly(p + 1, s + 1) : !*s;
}

static void test_glob_match__is_its_definition(void **state)
{
    (void)state;
    static const char signs[] = "ab*?*";
    rnd r = rnd_start("glob", 7);
    size_t hits = 0;
    for (int i = 0; i < 20000; i++) {
        char p[8] = "", s[10] = "";
        size_t np = rnd_below(&r, 7), ns = rnd_below(&r, 9);
        for (size_t j = 0; j < np; j++)
            p[j] = signs[rnd_below(&r, 5)];
        for (size_t j = 0; j < ns; j++)
            s[j] = signs[rnd_below(&r, 2)];
        bool want = glob_slowly(p, s);
        hits += want;
        if (bw_glob_match(bw_str_c(p), bw_str_c(s)) != want)
            fail_msg("%s over %s", p, s);
    }
    assert_true(hits > 1000);
}

/* Patterns on which engines that go back take longer than anybody waits. */
static void test_regex_find__ends_where_others_do_not(void **state)
{
    (void)state;
    static const char *const patterns[] = {"(a+)+b", "(a|aa)+$b", "(a?){40}a{40}c", "(.*a){12}z", "a[^b]*c"};
    size_t n = 1 << 20;
    char *text = bw_arena_alloc(ctx, n);
    memset(text, 'a', n);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char err[100];
        bw_regex *r;
        assert_int_equal(bw_regex_new(patterns[i], strlen(patterns[i]), &r, err, sizeof err), BW_REGEX_YES);
        assert_int_equal(bw_regex_find(r, text, n), BW_REGEX_NO);
        bw_regex_free(r);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_rules_base__is_the_first_that_holds),
        T(test_rules_raise__adds_rules_in_order_then_findings),
        T(test_rules_raise__looks_at_title_and_source),
        T(test_rules_detect__is_the_detectors_alone),
        T(test_rules_new__refuses_with_the_place),
        T(test_rules_new__caps_rules_and_patterns),
        T(test_rules_new__reads_a_clients_file_without_a_catalogue),
        T(test_glob_match__knows_its_three_signs),
        T(test_glob_match__is_its_definition),
        T(test_regex_find__ends_where_others_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
