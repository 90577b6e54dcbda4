/* Label sets: one form for one meaning, nothing unknown gets in. */
#include <policies/labels.h>

#include <setjmp.h>
#include <cmocka.h>
#include "pack.h"

typedef struct fixture {
    bw_ctx *ctx;
    bw_catalogue *catalogue;
} fixture;

static int setup(void **state)
{
    static fixture f;
    f.ctx = bw_ctx_new(0);
    f.catalogue = pack_catalogue(f.ctx, NULL);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_catalogue_free(f->catalogue);
    bw_ctx_free(f->ctx);
    return 0;
}

static bw_status parse(fixture *f, const char *text, bw_labels *out)
{
    bw_json *v;
    assert_int_equal(bw_json_parse(f->ctx, bw_str_c(text), BW_JSON_REQUEST, &v), BW_OK);
    return bw_labels_parse(f->ctx, f->catalogue, v, BW_STR("acme"), out);
}

static bw_str canonical(fixture *f, const char *text)
{
    bw_labels l;
    bw_str out;
    if (parse(f, text, &l) != BW_OK)
        fail_msg("%s: %s %s", text, bw_ctx_pointer(f->ctx), bw_ctx_message(f->ctx));
    assert_int_equal(bw_labels_canonical(f->ctx, &l, &out), BW_OK);
    return out;
}

static void test_labels_canonical__is_the_documented_form(void **state)
{
    bw_str text = canonical(*state, "{\"regimes\":[\"gdpr\"],\"residency\":[\"FR\",\"EU\"],\"sensitivity\":2,"
                                    "\"purposes\":\"payroll\",\"legal_hold\":true}");
    assert_true(bw_str_is(text, "{\"tenant\":\"acme\",\"regimes\":[\"gdpr\"],\"residency\":[\"EU\",\"FR\"],"
                                "\"sensitivity\":2,\"categories\":[],\"labels\":[],\"purposes\":[\"payroll\"],"
                                "\"legal_hold\":true}"));
    /* On disk for good: this id must never change. */
    bw_class_id id;
    char hex[BW_CLASS_TEXT + 1];
    bw_labels_class_id(text, &id);
    bw_class_id_hex(&id, hex);
    assert_string_equal(hex, "695fb4bb8825813ac868bd9cc2621582f61f61bbe514a8f510924dd145572e0e");
}

static void test_labels_canonical__does_not_depend_on_order_or_duplicates(void **state)
{
    static const char *const same[] = {
        "{\"regimes\":[\"gdpr\",\"fadp\"],\"residency\":[\"EU\",\"CH\"],\"sensitivity\":1,\"categories\":[\"hr\",\"pi\"]}",
        "{\"sensitivity\":1,\"categories\":[\"pi\",\"hr\",\"hr\"],\"residency\":[\"CH\",\"EU\",\"CH\"],\"regimes\":[\"fadp\",\"gdpr\",\"fadp\"]}",
        "{\"tenant\":\"acme\",\"regimes\":[\"fadp\",\"gdpr\"],\"residency\":[\"CH\",\"EU\"],\"sensitivity\":1,"
        "\"categories\":[\"hr\",\"pi\"],\"labels\":[],\"purposes\":null,\"legal_hold\":false}",
    };
    bw_str first = canonical(*state, same[0]);
    for (size_t i = 1; i < sizeof same / sizeof *same; i++)
        assert_true(bw_str_eq(first, canonical(*state, same[i])));
    static const char *const other[] = {
        "{\"regimes\":[\"gdpr\"],\"residency\":[\"EU\",\"CH\"],\"sensitivity\":1,\"categories\":[\"hr\",\"pi\"]}",
        "{\"regimes\":[\"gdpr\",\"fadp\"],\"residency\":[\"EU\"],\"sensitivity\":1,\"categories\":[\"hr\",\"pi\"]}",
        "{\"regimes\":[\"gdpr\",\"fadp\"],\"residency\":[\"EU\",\"CH\"],\"sensitivity\":0,\"categories\":[\"hr\",\"pi\"]}",
        "{\"regimes\":[\"gdpr\",\"fadp\"],\"residency\":[\"EU\",\"CH\"],\"sensitivity\":1,\"categories\":[\"hr\"]}",
        "{\"regimes\":[\"gdpr\",\"fadp\"],\"residency\":[\"EU\",\"CH\"],\"sensitivity\":1,\"categories\":[\"hr\",\"pi\"],\"labels\":[\"internal\"]}",
        "{\"regimes\":[\"gdpr\",\"fadp\"],\"residency\":[\"EU\",\"CH\"],\"sensitivity\":1,\"categories\":[\"hr\",\"pi\"],\"purposes\":[\"hr\"]}",
        "{\"regimes\":[\"gdpr\",\"fadp\"],\"residency\":[\"EU\",\"CH\"],\"sensitivity\":1,\"categories\":[\"hr\",\"pi\"],\"legal_hold\":true}",
        "{\"tenant\":\"b\",\"regimes\":[\"gdpr\",\"fadp\"],\"residency\":[\"EU\",\"CH\"],\"sensitivity\":1,\"categories\":[\"hr\",\"pi\"]}",
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_false(bw_str_eq(first, canonical(*state, other[i])));
}

static void test_labels_canonical__reads_back(void **state)
{
    fixture *f = *state;
    static const char *const texts[] = {
        "{\"regimes\":[\"none\"],\"residency\":\"world\",\"sensitivity\":0}",
        "{\"regimes\":\"gdpr\",\"residency\":[\"EU\"],\"sensitivity\":5,\"labels\":[\"sovereign-eu\"],\"legal_hold\":true}"};
    for (size_t i = 0; i < 2; i++) {
        bw_str text = canonical(f, texts[i]), again;
        bw_labels l;
        assert_int_equal(bw_labels_from_canonical(f->ctx, text, &l), BW_OK);
        assert_int_equal(bw_labels_canonical(f->ctx, &l, &again), BW_OK);
        assert_true(bw_str_eq(text, again));
        /* what we show can be sent back by a client */
        assert_true(bw_str_eq(text, canonical(f, bw_arena_cstr(f->ctx, text))));
    }
    static const char *const bad[] = {"", "{}", "null", "{\"tenant\":\"acme\"}",
        "{\"regimes\":[\"none\"],\"tenant\":\"acme\",\"residency\":[\"EU\"],\"sensitivity\":0,\"categories\":[],\"labels\":[],\"purposes\":[],\"legal_hold\":false}",
        "{\"tenant\":\"acme\",\"regimes\":[],\"residency\":[\"EU\"],\"sensitivity\":0,\"categories\":[],\"labels\":[],\"purposes\":[],\"legal_hold\":false}",
        "{\"tenant\":\"acme\",\"regimes\":[\"none\"],\"residency\":[\"FR\",\"EU\"],\"sensitivity\":0,\"categories\":[],\"labels\":[],\"purposes\":[],\"legal_hold\":false}",
        "{\"tenant\":\"acme\",\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":0,\"categories\":[],\"labels\":[],\"purposes\":[],\"legal_hold\":false} "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bw_labels l;
        assert_int_equal(bw_labels_from_canonical(f->ctx, bw_str_c(bad[i]), &l), BW_ECORRUPT);
    }
}

static void test_labels_parse__refuses_what_could_widen(void **state)
{
    fixture *f = *state;
#define REST ",\"residency\":[\"EU\"],\"sensitivity\":1}"
    static const struct { const char *text, *pointer; } bad[] = {
        {"{\"residency\":[\"EU\"],\"sensitivity\":1}", "/regimes"},
        {"{\"regimes\":null" REST, "/regimes"},
        {"{\"regimes\":[]" REST, "/regimes"},
        {"{\"regimes\":[\"gdrp\"]" REST, "/regimes"},
        {"{\"regimes\":[\"GDPR\"]" REST, "/regimes"},
        {"{\"regimes\":[\"none\",\"gdpr\"]" REST, "/regimes"},
        {"{\"regimes\":{\"gdpr\":true}" REST, "/regimes"},
        {"{\"regimes\":[1]" REST, "/regimes"},
        {"{\"regimes\":[\"gdpr\",null]" REST, "/regimes"},
        {"{\"regimes\":[\"hr\"]" REST, "/regimes"}, /* a word of another list */
        {"{\"regimes\":[\"\"]" REST, "/regimes"},
        {"{\"regimes\":[\"none\"],\"regime\":[\"gdpr\"]" REST, "/regime"},
        {"{\"regimes\":[\"none\"],\"Sensitivity\":5" REST, "/Sensitivity"},
        {"{\"regimes\":[\"none\"],\"categories\":[\"none\"]" REST, "/categories"},
        {"{\"regimes\":[\"none\"],\"categories\":[\"phi \"]" REST, "/categories"},
        {"{\"regimes\":[\"none\"],\"labels\":[\"sovereign_eu\"]" REST, "/labels"},
        {"{\"regimes\":[\"none\"],\"purposes\":[\"everything\"]" REST, "/purposes"},
        {"{\"regimes\":[\"none\"],\"purposes\":[\"legal\\nclaims\"]" REST, "/purposes"},
        {"{\"regimes\":[\"none\"],\"legal_hold\":\"yes\"" REST, "/legal_hold"},
        {"{\"regimes\":[\"none\"],\"tenant\":\"Acme\"" REST, "/tenant"},
        {"{\"regimes\":[\"none\"],\"tenant\":\"\"" REST, "/tenant"},
        {"{\"regimes\":[\"none\"],\"tenant\":\"a/b\"" REST, "/tenant"},
        {"{\"regimes\":[\"none\"],\"tenant\":7" REST, "/tenant"},
        {"{\"regimes\":[\"none\"],\"sensitivity\":1}", "/residency"},
        {"{\"regimes\":[\"none\"],\"residency\":[],\"sensitivity\":1}", "/residency"},
        {"{\"regimes\":[\"none\"],\"residency\":[\"eu\"],\"sensitivity\":1}", "/residency"},
        {"{\"regimes\":[\"none\"],\"residency\":[\"France\"],\"sensitivity\":1}", "/residency"},
        {"{\"regimes\":[\"none\"],\"residency\":[\"EU\"]}", "/sensitivity"},
        {"{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":6}", "/sensitivity"},
        {"{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":-1}", "/sensitivity"},
        {"{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":1.0}", "/sensitivity"},
        {"{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":\"1\"}", "/sensitivity"},
        {"[]", ""}, {"null", ""}, {"\"gdpr\"", ""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bw_labels l;
        if (parse(f, bad[i].text, &l) != BW_EINVALID)
            fail_msg("accepted %s", bad[i].text);
        assert_string_equal(bw_ctx_pointer(f->ctx), bad[i].pointer);
    }
}

static void test_labels_parse__caps_the_number_of_words(void **state)
{
    fixture *f = *state;
    for (int n = 64; n <= 65; n++) {
        bw_buf b = {0};
        bw_labels l;
        bw_buf_puts(&b, "{\"regimes\":[\"none\"],\"sensitivity\":1,\"residency\":[");
        for (int i = 0; i < n; i++) {
            bw_json_sep(&b);
            bw_json_put_str(&b, BW_STR("EU"));
        }
        bw_buf_puts(&b, "]}");
        bw_buf_putc(&b, 0);
        assert_int_equal(parse(f, b.ptr, &l), n == 64 ? BW_OK : BW_EINVALID);
        bw_buf_clear(&b);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_labels_canonical__is_the_documented_form),
        T(test_labels_canonical__does_not_depend_on_order_or_duplicates),
        T(test_labels_canonical__reads_back),
        T(test_labels_parse__refuses_what_could_widen),
        T(test_labels_parse__caps_the_number_of_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
