/* Raising label sets: what comes out is never below what went in, by the order on sets.
 * (Not by decisions: a policy may read a word as a permission. So the order is tested.) */
#include <policies/labels.h>

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

static bw_json *json(const char *text)
{
    bw_json *v;
    assert_int_equal(bw_json_parse(ctx, bw_str_c(text), BW_JSON_REQUEST, &v), BW_OK);
    return v;
}

static bw_labels labels(const char *text)
{
    bw_labels l;
    if (bw_labels_parse(ctx, catalogue, json(text), BW_STR("acme"), &l) != BW_OK)
        fail_msg("%s: %s", text, bw_ctx_message(ctx));
    return l;
}

static const char *raised(const char *base, const char *raise)
{
    bw_labels l = labels(base);
    bw_label_raise r;
    bw_str out;
    if (bw_label_raise_parse(ctx, catalogue, json(raise), &r) != BW_OK)
        fail_msg("%s: %s", raise, bw_ctx_message(ctx));
    if (bw_labels_raise(ctx, catalogue, &l, &r, &l) != BW_OK)
        return bw_ctx_pointer(ctx);
    assert_int_equal(bw_labels_canonical(ctx, &l, &out), BW_OK);
    return bw_arena_cstr(ctx, out);
}

#define HEAD "{\"tenant\":\"acme\","
#define BASE                                                                                      \
    "{\"regimes\":[\"gdpr\"],\"residency\":[\"EU\"],\"sensitivity\":2,\"categories\":[\"hr\"],"  \
    "\"purposes\":[\"hr\",\"payroll\"]}"

static void test_labels_raise__adds_restrictions(void **state)
{
    (void)state;
    static const struct {
        const char *raise, *want;
    } cases[] = {
        {"{}", HEAD "\"regimes\":[\"gdpr\"],\"residency\":[\"EU\"],\"sensitivity\":2,\"categories\":[\"hr\"],\"labels\":[],"
                    "\"purposes\":[\"hr\",\"payroll\"],\"legal_hold\":false}"},
        {"{\"sensitivity\":1,\"categories\":\"pi\",\"regimes\":[\"fadp\"],\"labels\":[\"restricted\"],\"legal_hold\":true}",
         HEAD "\"regimes\":[\"fadp\",\"gdpr\"],\"residency\":[\"EU\"],\"sensitivity\":2,\"categories\":[\"hr\",\"pi\"],"
              "\"labels\":[\"restricted\"],\"purposes\":[\"hr\",\"payroll\"],\"legal_hold\":true}"},
        {"{\"sensitivity\":4,\"residency\":[\"FR\",\"CH\"],\"purposes\":[\"hr\",\"audit\"]}",
         HEAD "\"regimes\":[\"gdpr\"],\"residency\":[\"FR\"],\"sensitivity\":4,\"categories\":[\"hr\"],\"labels\":[],"
              "\"purposes\":[\"hr\"],\"legal_hold\":false}"},
        {"{\"residency\":[\"world\"],\"purposes\":[]}",
         HEAD "\"regimes\":[\"gdpr\"],\"residency\":[\"EU\"],\"sensitivity\":2,\"categories\":[\"hr\"],\"labels\":[],"
              "\"purposes\":[],\"legal_hold\":false}"},
        {"{\"residency\":[\"CH\"]}", "/residency"}, /* no place is left */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(raised(BASE, cases[i].raise), cases[i].want);
}

static void test_label_raise_parse__refuses_what_would_widen(void **state)
{
    (void)state;
    static const struct {
        const char *text, *pointer;
    } bad[] = {
        {"{\"tenant\":\"acme\"}", "/tenant"},
        {"{\"legal_hold\":false}", "/legal_hold"},
        {"{\"regimes\":[\"none\"]}", "/regimes"},
        {"{\"categories\":[\"pi\",\"public\"]}", "/categories"},
        {"{\"labels\":[\"expires\"]}", "/labels"},
        {"{\"labels\":[\"keep-to-2030\"]}", "/labels"},
        {"{\"residency\":[]}", "/residency"},
        {"{\"residency\":[\"FRR\"]}", "/residency"},
        {"{\"sensitivity\":6}", "/sensitivity"},
        {"{\"sensitivity\":\"3\"}", "/sensitivity"},
        {"{\"sensitive\":3}", "/sensitive"},
        {"{\"purposes\":[\"cares\"]}", "/purposes"},
        {"[]", ""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bw_label_raise r;
        if (bw_label_raise_parse(ctx, catalogue, json(bad[i].text), &r) != BW_EINVALID)
            fail_msg("accepted %s", bad[i].text);
        assert_string_equal(bw_ctx_pointer(ctx), bad[i].pointer);
    }
}

static void test_labels_at_least__sees_each_way_down(void **state)
{
    (void)state;
    static const char top[] = "{\"regimes\":[\"gdpr\"],\"residency\":[\"FR\"],\"sensitivity\":3,\"categories\":[\"pi\"],"
                              "\"labels\":[\"internal\"],\"purposes\":[\"hr\"],\"legal_hold\":true}";
    static const struct {
        const char *text;
        uint32_t diff;
    } below[] = {
        {"{\"regimes\":[\"none\"],\"residency\":[\"FR\"],\"sensitivity\":3,\"categories\":[\"pi\"],\"labels\":[\"internal\"],\"purposes\":[\"hr\"],\"legal_hold\":true}", 2},
        {"{\"regimes\":[\"gdpr\"],\"residency\":[\"EEA\"],\"sensitivity\":3,\"categories\":[\"pi\"],\"labels\":[\"internal\"],\"purposes\":[\"hr\"],\"legal_hold\":true}", 4},
        {"{\"regimes\":[\"gdpr\"],\"residency\":[\"FR\"],\"sensitivity\":2,\"categories\":[\"pi\"],\"labels\":[\"internal\"],\"purposes\":[\"hr\"],\"legal_hold\":true}", 8},
        {"{\"regimes\":[\"gdpr\"],\"residency\":[\"FR\"],\"sensitivity\":3,\"categories\":[],\"labels\":[\"internal\"],\"purposes\":[\"hr\"],\"legal_hold\":true}", 16},
        {"{\"regimes\":[\"gdpr\"],\"residency\":[\"FR\"],\"sensitivity\":3,\"categories\":[\"pi\"],\"labels\":[],\"purposes\":[\"hr\"],\"legal_hold\":true}", 32},
        {"{\"regimes\":[\"gdpr\"],\"residency\":[\"FR\"],\"sensitivity\":3,\"categories\":[\"pi\"],\"labels\":[\"internal\"],\"purposes\":[\"hr\",\"audit\"],\"legal_hold\":true}", 64},
        {"{\"regimes\":[\"gdpr\"],\"residency\":[\"FR\"],\"sensitivity\":3,\"categories\":[\"pi\"],\"labels\":[\"internal\"],\"purposes\":[\"hr\"]}", 128},
    };
    bw_labels a = labels(top);
    assert_true(bw_labels_at_least(catalogue, &a, &a));
    assert_int_equal(bw_labels_diff(&a, &a), 0);
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        bw_labels b = labels(below[i].text);
        assert_true(bw_labels_at_least(catalogue, &a, &b));
        if (bw_labels_at_least(catalogue, &b, &a))
            fail_msg("not below: %s", below[i].text);
        assert_int_equal(bw_labels_diff(&a, &b), below[i].diff);
    }
    bw_labels other = labels("{\"tenant\":\"hosp\",\"regimes\":[\"gdpr\"],\"residency\":[\"FR\"],\"sensitivity\":5}");
    assert_false(bw_labels_at_least(catalogue, &other, &a));
}

/* ---- any set, any raise ---- */

static const char *const places[] = {"EU", "EEA", "FR", "DE", "CH", "world", "gdpr-area", "gdpr-adequate", "US", "uk-adequate"};
static const char *const regimes[] = {"gdpr", "fadp", "hipaa", "dpdp"};
static const char *const categories[] = {"pi", "hr", "health", "financial", "phi"};
static const char *const words[] = {"internal", "confidential", "restricted", "us-bulk"};
static const char *const purposes[] = {"care", "hr", "audit", "search", "support"};

static void put_some(bw_buf *b, rnd *r, const char *member, const char *const *from, size_t n, bool some)
{
    bw_json_put_key(b, member);
    bw_buf_putc(b, '[');
    size_t forced = rnd_below(r, n);
    for (size_t i = 0; i < n; i++)
        if ((some && i == forced) || rnd_below(r, 3) == 0) {
            bw_json_sep(b);
            bw_json_put_str(b, bw_str_c(from[i]));
        }
    bw_buf_putc(b, ']');
}
#define SOME(member, list, some) put_some(&b, r, member, list, sizeof list / sizeof *list, some)

static const char *random_object(rnd *r, bool raise)
{
    bw_buf b = {0};
    bw_buf_printf(&b, "{\"sensitivity\":%zu", rnd_below(r, 6));
    if (!raise || rnd_below(r, 2))
        SOME("regimes", regimes, !raise);
    if (!raise || rnd_below(r, 2))
        SOME("residency", places, true);
    if (rnd_below(r, 2))
        SOME("categories", categories, false);
    if (rnd_below(r, 2))
        SOME("labels", words, false);
    if (!raise || rnd_below(r, 2))
        SOME("purposes", purposes, false);
    if (rnd_below(r, 4) == 0)
        bw_buf_puts(&b, ",\"legal_hold\":true");
    bw_buf_putc(&b, '}');
    const char *text = bw_arena_printf(ctx, "%.*s", (int)b.len, b.ptr);
    bw_buf_clear(&b);
    return text;
}

static void test_labels_raise__never_goes_below_its_base(void **state)
{
    (void)state;
    rnd r = rnd_start("labels_raise", 20261130);
    size_t done = 0, changed = 0;
    for (int i = 0; i < 4000; i++) {
        bw_arena_mark mark = bw_arena_mark_get(ctx);
        bw_labels base = labels(random_object(&r, false)), once, twice, third;
        bw_label_raise a, b;
        bw_str text, back;
        assert_int_equal(bw_label_raise_parse(ctx, catalogue, json(random_object(&r, true)), &a), BW_OK);
        assert_int_equal(bw_label_raise_parse(ctx, catalogue, json(random_object(&r, true)), &b), BW_OK);
        if (bw_labels_raise(ctx, catalogue, &base, &a, &once) == BW_OK) {
            done++;
            changed += bw_labels_diff(&base, &once) != 0;
            assert_true(bw_labels_at_least(catalogue, &once, &base));
            assert_true(once.sensitivity >= a.sensitivity && once.legal_hold >= a.legal_hold);
            /* a second time it changes nothing */
            assert_int_equal(bw_labels_raise(ctx, catalogue, &once, &a, &twice), BW_OK);
            assert_int_equal(bw_labels_diff(&once, &twice), 0);
            /* in a row: still above both */
            if (bw_labels_raise(ctx, catalogue, &once, &b, &third) == BW_OK)
                assert_true(bw_labels_at_least(catalogue, &third, &base) && bw_labels_at_least(catalogue, &third, &once));
            /* and it is a label set that is taken back as it is */
            assert_int_equal(bw_labels_canonical(ctx, &once, &text), BW_OK);
            assert_int_equal(bw_labels_from_canonical(ctx, text, &twice), BW_OK);
            assert_int_equal(bw_labels_canonical(ctx, &twice, &back), BW_OK);
            assert_true(bw_str_eq(text, back));
        } else {
            assert_string_equal(bw_ctx_pointer(ctx), "/residency");
        }
        bw_arena_release(ctx, mark);
    }
    assert_true(done > 1000 && changed > 900);
}

static void test_labels_raise__keeps_lists_within_their_limit(void **state)
{
    (void)state;
    bw_str many[2][40];
    for (int i = 0; i < 80; i++)
        many[i / 40][i % 40] = bw_str_c(bw_arena_printf(ctx, "w%02d", i));
    bw_labels base = labels(BASE);
    base.labels = (bw_label_list){many[0], 40};
    bw_label_raise r = {.labels = {many[1], 24}};
    assert_int_equal(bw_labels_raise(ctx, catalogue, &base, &r, &base), BW_OK);
    assert_int_equal(base.labels.n, 64);
    r.labels.n = 25;
    assert_int_equal(bw_labels_raise(ctx, catalogue, &base, &r, &base), BW_EINVALID);
    assert_string_equal(bw_ctx_pointer(ctx), "/labels");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_labels_raise__adds_restrictions),
        T(test_label_raise_parse__refuses_what_would_widen),
        T(test_labels_at_least__sees_each_way_down),
        T(test_labels_raise__never_goes_below_its_base),
        T(test_labels_raise__keeps_lists_within_their_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
