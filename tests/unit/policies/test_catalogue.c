/* The catalogue: what the pack says, what an overlay changes, what is refused. */
#include <policies/catalogue.h>

#include <setjmp.h>
#include <cmocka.h>
#include "pack.h"

static bool entities_hold(const bw_catalogue *c, const char *part)
{
    bw_buf b = {0};
    bw_buf_putc(&b, '[');
    bw_catalogue_put_entities(c, &b);
    bw_buf_putc(&b, ']');
    bw_ctx *ctx = bw_ctx_new(0);
    bw_json *v;
    assert_int_equal(bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_CEDAR, &v), BW_OK);
    assert_int_equal(v->kind, BW_JSON_ARRAY);
    bool found = memmem(b.ptr, b.len, part, strlen(part)) != NULL;
    bw_ctx_free(ctx);
    bw_buf_clear(&b);
    return found;
}

static void test_catalogue_parse__knows_every_country_and_its_zones(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_catalogue *c = pack_catalogue(ctx, NULL);
    static const char *const yes[] = {"FR", "US", "AQ", "EU", "EEA", "gdpr-adequate", "world", "dpdp-restricted"};
    static const char *const no[] = {"", "fr", "ZZ", "eu", "Europe", "EU\n", "GDPR-adequate"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(bw_catalogue_has_zone(c, bw_str_c(yes[i])));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(bw_catalogue_has_zone(c, bw_str_c(no[i])));
    assert_false(bw_catalogue_has_country(c, BW_STR("EU")));
    assert_true(bw_catalogue_has_word(c, "regimes", BW_STR("gdpr")));
    assert_false(bw_catalogue_has_word(c, "regimes", BW_STR("none")));
    assert_false(bw_catalogue_has_word(c, "regimes", BW_STR("hr")));
    assert_false(bw_catalogue_has_word(c, "colours", BW_STR("gdpr")));
    assert_true(bw_catalogue_version(c).len > 40);
    /* the edges that the rules stand on */
    assert_true(entities_hold(c, "{\"uid\":{\"type\":\"Bw::Country\",\"id\":\"FR\"},\"parents\":[{\"type\":\"Bw::Zone\",\"id\":\"FR\"}]"));
    assert_true(entities_hold(c, "{\"uid\":{\"type\":\"Bw::Zone\",\"id\":\"EU\"},\"attrs\":{},\"parents\":[{\"type\":\"Bw::Zone\",\"id\":\"EEA\"}]}"));
    /* nobody researched Afghanistan: its own zone and no other */
    assert_true(entities_hold(c, "{\"uid\":{\"type\":\"Bw::Zone\",\"id\":\"AF\"},\"attrs\":{},\"parents\":[]}"));
    assert_true(entities_hold(c, "\"attrs\":{\"adequacyCerts\":{\"gdpr\":[\"dpf\"],\"uk-gdpr\":[\"dpf-uk\"],\"fadp\":[\"dpf-ch\"]}}"));
    bw_catalogue_free(c);
    bw_catalogue_free(NULL);
    bw_ctx_free(ctx);
}

static void test_catalogue_parse__lays_the_overlay_over_the_pack(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_catalogue *plain = pack_catalogue(ctx, NULL);
    bw_catalogue *c = pack_catalogue(ctx,
        "{\"zones\":[{\"id\":\"dpdp-restricted\",\"countries\":[\"XX\"]},{\"id\":\"ours\",\"in\":[\"EU\"]}],"
        "\"countries\":[{\"code\":\"XX\",\"in\":[\"world\"]}],"
        "\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"US\",\"remove\":true}],"
        "\"legal_entities\":[{\"id\":\"eucloud\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"12.5\","
        "\"foreign_share_sum\":\"20.0\",\"baa_with\":[\"hosp\"],\"certs\":[]}],"
        "\"vocabulary\":{\"purposes\":[{\"word\":\"fishing\"},{\"word\":\"marketing\",\"remove\":true}]}}");
    assert_true(bw_catalogue_has_country(c, BW_STR("XX")) && !bw_catalogue_has_country(plain, BW_STR("XX")));
    assert_true(bw_catalogue_has_zone(c, BW_STR("ours")));
    assert_true(bw_catalogue_has_word(c, "purposes", BW_STR("fishing")));
    assert_false(bw_catalogue_has_word(c, "purposes", BW_STR("marketing")));
    assert_true(bw_catalogue_has_word(plain, "purposes", BW_STR("marketing")));
    assert_true(entities_hold(c, "{\"uid\":{\"type\":\"Bw::Zone\",\"id\":\"XX\"},\"attrs\":{},\"parents\":[{\"type\":\"Bw::Zone\",\"id\":\"world\"},"
                                 "{\"type\":\"Bw::Zone\",\"id\":\"dpdp-restricted\"}]}"));
    assert_false(entities_hold(c, "\"gdpr\":[\"dpf\"]"));
    assert_true(entities_hold(c, "\"foreignShareMax\":{\"__extn\":{\"fn\":\"decimal\",\"arg\":\"12.5\"}}"));
    assert_false(bw_str_eq(bw_catalogue_version(c), bw_catalogue_version(plain)));
    bw_catalogue_free(c);
    bw_catalogue_free(plain);
    bw_ctx_free(ctx);
}

static void test_catalogue_parse__refuses_rows_without_a_target(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "[]", "{", "{\"zones\":{}}", "{\"zones\":[{}]}", "{\"zones\":[{\"id\":\"a b\"}]}", "{\"zones\":[{\"id\":\"FR\"}]}",
        "{\"zones\":[{\"id\":\"z\",\"in\":[\"nowhere\"]}]}", "{\"zones\":[{\"id\":\"z\",\"countries\":[\"ZZ\"]}]}",
        "{\"countries\":[{\"code\":\"fra\"}]}", "{\"countries\":[{\"code\":\"XX\",\"in\":[\"nowhere\"]}]}",
        "{\"countries\":[{\"code\":\"XX\",\"in\":\"world\"}]}", "{\"countries\":[{\"code\":\"FR\",\"remove\":true}]}",
        "{\"adequacy\":[{\"regime\":\"x\",\"country\":\"FR\",\"zone\":\"EU\"}]}",
        "{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"ZZ\",\"zone\":\"EU\"}]}",
        "{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"JP\",\"zone\":\"gdpr-adequate-conditional\",\"certs\":[\"unheard-of\"]}]}",
        "{\"legal_entities\":[{\"id\":\"a\",\"seat\":\"FR\"}]}",
        "{\"legal_entities\":[{\"id\":\"a\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":1,\"foreign_share_sum\":\"1.0\"}]}",
        "{\"legal_entities\":[{\"id\":\"a\",\"seat\":\"ZZ\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"1.0\",\"foreign_share_sum\":\"1.0\"}]}",
        "{\"vocabulary\":[]}", "{\"vocabulary\":{\"purposes\":[\"x\"]}}", "{\"vocabulary\":{\"regimes\":[{\"word\":\"none\"}]}}",
        "{\"vocabulary\":{\"purposes\":[{\"word\":\"Big\"}]}}",
    };
    bw_ctx *ctx = bw_ctx_new(0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bw_catalogue *c;
        if (bw_catalogue_parse(ctx, pack_file(ctx, "catalogue.json"), bw_str_c(bad[i]), &c) != BW_EINVALID)
            fail_msg("accepted %s", bad[i]);
    }
    bw_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_catalogue_parse__knows_every_country_and_its_zones),
        cmocka_unit_test(test_catalogue_parse__lays_the_overlay_over_the_pack),
        cmocka_unit_test(test_catalogue_parse__refuses_rows_without_a_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
