/* The catalogue: what the pack says, what an overlay changes, what is refused and where. */
#include <policies/catalogue.h>
#include <policies/labels.h>

#include <setjmp.h>
#include <cmocka.h>
#include "pack.h"

#define SD ",\"source\":\"s\",\"date\":\"2026-11-30\""

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
    static const char *const no[] = {"", "fr", "ZZ", "eu", "Europe", "EU\n", "GDPR-adequate", "unknown", "XK"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(bw_catalogue_has_zone(c, bw_str_c(yes[i])));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(bw_catalogue_has_zone(c, bw_str_c(no[i])));
    assert_false(bw_catalogue_has_country(c, BW_STR("EU")));
    assert_true(bw_catalogue_has_word(c, "regimes", BW_STR("gdpr")));
    assert_false(bw_catalogue_has_word(c, "regimes", BW_STR("none")));
    assert_false(bw_catalogue_has_word(c, "regimes", BW_STR("")));
    assert_false(bw_catalogue_has_word(c, "regimes", BW_STR("hr")));
    assert_false(bw_catalogue_has_word(c, "colours", BW_STR("gdpr")));
    /* the edges that the rules stand on */
    assert_true(entities_hold(c, "{\"uid\":{\"type\":\"Bw::Country\",\"id\":\"FR\"},\"parents\":[{\"type\":\"Bw::Zone\",\"id\":\"FR\"}]"));
    assert_true(entities_hold(c, "{\"uid\":{\"type\":\"Bw::Zone\",\"id\":\"EU\"},\"attrs\":{},\"parents\":[{\"type\":\"Bw::Zone\",\"id\":\"EEA\"}]}"));
    /* nobody researched Afghanistan: its own zone, and the deny-list that nobody wrote down */
    assert_true(entities_hold(c, "{\"uid\":{\"type\":\"Bw::Zone\",\"id\":\"AF\"},\"attrs\":{},\"parents\":[{\"type\":\"Bw::Zone\",\"id\":\"itar-proscribed\"}]}"));
    assert_true(entities_hold(c, "\"attrs\":{\"adequacyCerts\":{\"fadp\":[\"dpf-ch\"],\"gdpr\":[\"dpf\"],\"uk-gdpr\":[\"dpf-uk\"]},"
                                 "\"localisation\":\"sectoral\",\"foreignAccess\":\"extraterritorial\"}"));
    assert_true(entities_hold(c, "\"attrs\":{\"adequacyCerts\":{\"fadp\":[],\"gdpr\":[],\"uk-gdpr\":[]},"
                                 "\"localisation\":\"unknown\",\"foreignAccess\":\"unknown\"}"));
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
        "{\"date\":\"2026-12-24\",\"zones\":[{\"id\":\"dpdp-restricted\",\"kind\":\"deny\",\"countries\":[\"XX\"]" SD "},"
        "{\"id\":\"ours\",\"kind\":\"group\",\"in\":[\"EU\"]" SD "}],"
        "\"countries\":[{\"code\":\"XX\",\"in\":[\"ours\"]" SD "}],\"localisation\":[{\"country\":\"XX\",\"level\":\"copy\"" SD "},"
        "{\"country\":\"BR\",\"level\":null" SD "}],"
        "\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"US\",\"remove\":true" SD "},{\"regime\":\"gdpr\",\"country\":\"IN\",\"status\":\"full\"" SD "}],"
        "\"legal_entities\":[{\"id\":\"eucloud\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"12.5\","
        "\"foreign_share_sum\":null,\"baa_with\":[\"hosp\"],\"certs\":null" SD "},"
        "{\"id\":\"murky\",\"seat\":\"FR\",\"control_zones\":null,\"foreign_share_max\":\"0.0\",\"foreign_share_sum\":\"0.0\",\"baa_with\":[],\"certs\":[]" SD "}],"
        "\"vocabulary\":{\"purposes\":[{\"word\":\"fishing\"" SD "},{\"word\":\"marketing\",\"remove\":true" SD "}]}}");
    assert_true(bw_catalogue_has_country(c, BW_STR("XX")) && !bw_catalogue_has_country(plain, BW_STR("XX")));
    assert_true(bw_catalogue_has_zone(c, BW_STR("ours")));
    assert_true(bw_catalogue_has_word(c, "purposes", BW_STR("fishing")));
    assert_false(bw_catalogue_has_word(c, "purposes", BW_STR("marketing")));
    assert_true(bw_catalogue_has_word(plain, "purposes", BW_STR("marketing")));
    /* added: through every edge; gone: as if it had never been */
    static const char *const in[] = {"ours", "EU", "gdpr-area", "world", "dpdp-restricted", "XX"};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        assert_true(bw_catalogue_in(c, BW_STR("XX"), bw_str_c(in[i])));
    assert_true(bw_catalogue_in(plain, BW_STR("US"), BW_STR("gdpr-adequate-conditional")));
    assert_false(bw_catalogue_in(c, BW_STR("US"), BW_STR("gdpr-adequate-conditional")));
    assert_true(bw_catalogue_in(c, BW_STR("US"), BW_STR("uk-adequate-conditional")));
    assert_true(bw_catalogue_in(c, BW_STR("IN"), BW_STR("gdpr-adequate")));
    /* a fact taken back to unknown takes the country out of the world */
    assert_true(bw_catalogue_in(plain, BW_STR("BR"), BW_STR("world")));
    assert_false(bw_catalogue_in(c, BW_STR("BR"), BW_STR("world")));
    assert_false(entities_hold(c, "\"gdpr\":[\"dpf\"]"));
    /* what is not known of an operator is taken at its worst */
    assert_true(entities_hold(c, "\"foreignShareMax\":{\"__extn\":{\"fn\":\"decimal\",\"arg\":\"12.5\"}},"
                                 "\"foreignShareSum\":{\"__extn\":{\"fn\":\"decimal\",\"arg\":\"100.0\"}},"
                                 "\"baaWith\":[{\"__entity\":{\"type\":\"Bw::Tenant\",\"id\":\"hosp\"}}],\"certs\":[]"));
    assert_true(entities_hold(c, "\"controlZones\":[{\"__entity\":{\"type\":\"Bw::Zone\",\"id\":\"unknown\"}}]"));
    assert_memory_equal(bw_catalogue_version(c).ptr, "2026-12-24/", 11);
    assert_memory_equal(bw_catalogue_version(plain).ptr, "2026-11-30/", 11);
    bw_catalogue_free(c);
    bw_catalogue_free(plain);
    bw_ctx_free(ctx);
}

/* A deny-list that nobody wrote down holds every country; an allow-list holds none. */
static void test_catalogue_parse__lets_an_unknown_list_deny(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_catalogue *c = pack_catalogue(ctx, NULL);
    bw_catalogue *filled = pack_catalogue(ctx,
        "{\"zones\":[{\"id\":\"itar-proscribed\",\"kind\":\"deny\",\"countries\":[\"CN\"]" SD "},"
        "{\"id\":\"pdpl-sa-adequate\",\"kind\":\"allow\",\"countries\":[\"BH\"]" SD "}]}");
    static const char *const codes[] = {"AF", "FR", "US", "CN", "BH"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        bw_str code = bw_str_c(codes[i]);
        assert_true(bw_catalogue_in(c, code, BW_STR("itar-proscribed")));
        assert_false(bw_catalogue_in(c, code, BW_STR("pdpl-sa-adequate")));
        assert_int_equal(bw_catalogue_in(filled, code, BW_STR("itar-proscribed")), bw_str_is(code, "CN"));
        assert_int_equal(bw_catalogue_in(filled, code, BW_STR("pdpl-sa-adequate")), bw_str_is(code, "BH"));
    }
    assert_false(bw_catalogue_in(c, BW_STR("AF"), BW_STR("dpdp-restricted"))); /* known to be empty */
    bw_catalogue_free(filled);
    bw_catalogue_free(c);
    bw_ctx_free(ctx);
}

typedef struct refusal {
    const char *overlay, *pointer, *says;
} refusal;

static const refusal refusals[] = {
    {"[]", "", "object"},
    {"{", "", ""},
    {"{\"colours\":[]}", "/colours", "unknown member"},
    {"{\"schema\":\"bailiwick.catalogue/1\"}", "/schema", "bailiwick.catalogue/2"},
    {"{\"date\":\"2026-13-01\"}", "/date", "date"},
    {"{\"date\":\"2026-02-30\"}", "/date", "date"},
    {"{\"notice\":1}", "/notice", "text"},
    /* source and date */
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"date\":\"2026-11-30\"}]}", "/zones/0", "no \"source\""},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"source\":\"s\"}]}", "/zones/0", "no \"date\""},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"source\":\" \",\"date\":\"2026-11-30\"}]}", "/zones/0/source", "wants a text"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"source\":\"a\\nb\",\"date\":\"2026-11-30\"}]}", "/zones/0/source", "wants a text"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"source\":\"s\",\"date\":\"30.11.2026\"}]}", "/zones/0/date", "wants a date"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"source\":\"s\",\"date\":\"2026-11-30T00:00:00Z\"}]}", "/zones/0/date", "wants a date"},
    {"{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"US\",\"remove\":true}]}", "/adequacy/0", "no \"source\""},
    {"{\"vocabulary\":{\"purposes\":[{\"word\":\"x\"}]}}", "/vocabulary/purposes/0", "no \"source\""},
    /* rows and members */
    {"{\"zones\":{}}", "/zones", "list of rows"},
    {"{\"zones\":[1]}", "/zones", "list of rows"},
    {"{\"zones\":[\"EU\"]}", "/zones/0", "a row"},
    {"{\"zones\":[{\"kind\":\"group\"" SD "}]}", "/zones/0", "no \"id\""},
    {"{\"zones\":[{\"id\":\"z\"" SD "}]}", "/zones/0", "no \"kind\""},
    {"{\"zones\":[{\"id\":\"a b\",\"kind\":\"group\"" SD "}]}", "/zones/0/id", "wants 1 to 64"},
    {"{\"zones\":[{\"id\":\"unknown\",\"kind\":\"group\"" SD "}]}", "/zones/0/id", "unknown"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"club\"" SD "}]}", "/zones/0/kind", "\"|\""},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"country\":[]" SD "}]}", "/zones/0/country", "unknown member of zones"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"unknown\":false" SD "}]}", "/zones/0/unknown", "left out"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"confidence\":\"sure\"" SD "}]}", "/zones/0/confidence", "\"|\""},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"remove\":false" SD "}]}", "/zones/0/remove", "left out"},
    {"{\"countries\":[{\"code\":\"XX\",\"in\":\"world\"" SD "}]}", "/countries/0/in", "list"},
    {"{\"countries\":[{\"code\":\"fra\"" SD "}]}", "/countries/0/code", "two capital letters"},
    {"{\"countries\":[{\"code\":\"XX\",\"alpha3\":\"XX\"" SD "}]}", "/countries/0/alpha3", "three"},
    {"{\"localisation\":[{\"country\":\"AF\"" SD "}]}", "/localisation/0", "null if it is not known"},
    {"{\"localisation\":[{\"country\":\"AF\",\"level\":\"lax\"" SD "}]}", "/localisation/0/level", "wants \"strict\"|\"copy\"|"},
    {"{\"localisation\":[{\"country\":\"AF\",\"level\":\"copy\",\"laws\":[\"\"]" SD "}]}", "/localisation/0/laws/0", "texts"},
    {"{\"foreign_access\":[{\"country\":\"AF\",\"law\":\"l\",\"extraterritorial\":\"yes\"" SD "}]}", "/foreign_access/0/extraterritorial", "true or false"},
    {"{\"foreign_access\":[{\"country\":\"AF\",\"law\":\"l\",\"extraterritorial\":null" SD "}]}", "/foreign_access/0", "neither"},
    {"{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"IN\",\"status\":\"full\",\"year\":\"2020\"" SD "}]}", "/adequacy/0/year", "a year"},
    {"{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"IN\",\"status\":\"full\",\"year\":2020.5" SD "}]}", "/adequacy/0/year", "a year"},
    {"{\"vocabulary\":[]}", "/vocabulary", "by kind"},
    {"{\"vocabulary\":{\"colours\":[]}}", "/vocabulary/colours", "no kind"},
    {"{\"vocabulary\":{\"purposes\":[\"x\"]}}", "/vocabulary/purposes/0", "a row"},
    {"{\"vocabulary\":{\"regimes\":[{\"word\":\"none\"" SD "}]}}", "/vocabulary/regimes/0/word", "none"},
    {"{\"vocabulary\":{\"purposes\":[{\"word\":\"Big\"" SD "}]}}", "/vocabulary/purposes/0/word", "a-z"},
    /* names */
    {"{\"zones\":[{\"id\":\"FR\",\"kind\":\"group\"" SD "}]}", "/zones/0", "name of a country"},
    {"{\"countries\":[{\"code\":\"EU\"" SD "}]}", "/zones/", "name of a country"},
    {"{\"zones\":[{\"id\":\"eea\",\"kind\":\"group\"" SD "}]}", "/zones/0", "by case alone"},
    {"{\"zones\":[{\"id\":\"fr\",\"kind\":\"group\"" SD "}]}", "/zones/0", "by case alone"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"in\":[\"nowhere\"]" SD "}]}", "/zones/0/in/0", "not a zone"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"in\":[\"EAA\"]" SD "}]}", "/zones/0/in/0", "did you mean \"EEA\"?"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"in\":[\"FR\"]" SD "}]}", "/zones/0/in/0", "but itself"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"in\":[\"world\"]" SD "}]}", "/zones/0/in/0", "localisation is known"},
    {"{\"countries\":[{\"code\":\"XX\",\"in\":[\"world\"]" SD "}]}", "/countries/0/in/0", "localisation is known"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"deny\",\"unknown\":true,\"in\":[\"EU\"]" SD "}]}", "/zones/0/in/0", "deny-lists only"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"countries\":[\"XX\"]" SD "}]}", "/zones/0/countries/0", "not a country"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"countries\":[\"ZZ\"]" SD "}]}", "/zones/0/countries/0", "ZZ (unknown)"}, /* unknown facts stand on it */
    {"{\"countries\":[{\"code\":\"ZZ\",\"in\":[\"EU\"]" SD "}]}", "/countries/0/code", "not ZZ (unknown)"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"countries\":[\"UK\"]" SD "}]}", "/zones/0/countries/0", "did you mean \"GB\"?"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"unknown\":true" SD "}]}", "/zones/0", "allow-list or a deny-list"},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"deny\",\"unknown\":true,\"countries\":[\"FR\"]" SD "}]}", "/zones/0", "contradicts \"unknown\""},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"members\":\"researched\",\"countries\":[\"FR\"]" SD "}]}", "/zones/0", "contradicts \"members\""},
    {"{\"zones\":[{\"id\":\"z\",\"kind\":\"allow\",\"regime\":\"grdp\"" SD "}]}", "/zones/0/regime", "not a regime"},
    {"{\"localisation\":[{\"country\":\"XK\",\"level\":\"copy\"" SD "}]}", "/localisation/0/country", "not a country"},
    {"{\"adequacy\":[{\"regime\":\"x\",\"country\":\"FR\",\"status\":\"full\"" SD "}]}", "/adequacy/0", "no zone for it"},
    {"{\"adequacy\":[{\"regime\":\"hipaa\",\"country\":\"FR\",\"status\":\"full\"" SD "}]}", "/adequacy/0", "no zone for it"},
    {"{\"adequacy\":[{\"regime\":\"lgpd\",\"country\":\"JP\",\"status\":\"partial\",\"certs\":[\"appi\"]" SD "}]}", "/adequacy/0", "partial adequacy"},
    {"{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"XX\",\"status\":\"full\"" SD "}]}", "/adequacy/0/country", "not a country"},
    {"{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"JP\",\"status\":\"partial\",\"certs\":[\"unheard-of\"]" SD "}]}", "/adequacy/0/certs/0", "not a certification"},
    {"{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"JP\",\"status\":\"partial\"" SD "}]}", "/adequacy/0", "null if not known"},
    {"{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"JP\",\"status\":\"partial\",\"certs\":[]" SD "}]}", "/adequacy/0", "null if not known"},
    {"{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"JP\",\"status\":\"full\",\"certs\":[\"appi\"]" SD "}]}", "/adequacy/0/certs", "partial"},
    {"{\"legal_entities\":[{\"id\":\"a\",\"seat\":\"FR\"" SD "}]}", "/legal_entities/0", "no \"control_zones\""},
    {"{\"legal_entities\":[{\"id\":\"a\",\"seat\":\"FR\",\"control_zones\":[],\"foreign_share_max\":\"1.0\",\"foreign_share_sum\":\"1.0\",\"baa_with\":[],\"certs\":[]" SD "}]}",
     "/legal_entities/0", "at least one zone"},
    {"{\"legal_entities\":[{\"id\":\"a\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":1,\"foreign_share_sum\":\"1.0\",\"baa_with\":[],\"certs\":[]" SD "}]}",
     "/legal_entities/0/foreign_share_max", "per cent"},
    {"{\"legal_entities\":[{\"id\":\"a\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"1\",\"foreign_share_sum\":\"1.0\",\"baa_with\":[],\"certs\":[]" SD "}]}",
     "/legal_entities/0/foreign_share_max", "per cent"},
    {"{\"legal_entities\":[{\"id\":\"a\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"100.01\",\"foreign_share_sum\":\"1.0\",\"baa_with\":[],\"certs\":[]" SD "}]}",
     "/legal_entities/0/foreign_share_max", "per cent"},
    {"{\"legal_entities\":[{\"id\":\"a\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"-1.0\",\"foreign_share_sum\":\"1.0\",\"baa_with\":[],\"certs\":[]" SD "}]}",
     "/legal_entities/0/foreign_share_max", "per cent"},
    {"{\"legal_entities\":[{\"id\":\"a\",\"seat\":\"XX\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"1.0\",\"foreign_share_sum\":\"1.0\",\"baa_with\":[],\"certs\":[]" SD "}]}",
     "/legal_entities/0/seat", "not a country"},
    {"{\"vocabulary\":{\"purposes\":[{\"word\":\"x\",\"zone\":\"EU\"" SD "}]}}", "/vocabulary/purposes/0", "only a regime"},
    {"{\"vocabulary\":{\"regimes\":[{\"word\":\"x\",\"zone\":\"EU\"" SD "}]}}", "/vocabulary/regimes/0/zone", "not an allow-zone"},
    {"{\"vocabulary\":{\"regimes\":[{\"word\":\"x\",\"conditional\":\"gdpr-adequate\"" SD "}]}}", "/vocabulary/regimes/0", "without one for full"},
    /* circles, two rows of one key, removals */
    {"{\"zones\":[{\"id\":\"a\",\"kind\":\"group\",\"in\":[\"b\"]" SD "},{\"id\":\"b\",\"kind\":\"group\",\"in\":[\"c\"]" SD "},"
     "{\"id\":\"c\",\"kind\":\"group\",\"in\":[\"a\"]" SD "}]}", "/zones/0", "lies in itself"},
    {"{\"zones\":[{\"id\":\"a\",\"kind\":\"group\",\"in\":[\"a\"]" SD "}]}", "/zones/0", "lies in itself"},
    {"{\"zones\":[{\"id\":\"a\",\"kind\":\"group\"" SD "},{\"id\":\"a\",\"kind\":\"group\"" SD "}]}", "/zones/1", "second row"},
    {"{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"US\",\"remove\":true" SD "},{\"regime\":\"gdpr\",\"country\":\"US\",\"status\":\"full\"" SD "}]}", "/adequacy/1", "second row"},
    {"{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"UX\",\"remove\":true" SD "}]}", "/adequacy/0", "to remove"},
    {"{\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"US\",\"status\":\"full\",\"remove\":true" SD "}]}", "/adequacy/0/status", "no facts"},
    {"{\"countries\":[{\"code\":\"FR\",\"remove\":true" SD "}]}", "/zones/", "not a country"},
    {"{\"zones\":[{\"id\":\"gdpr-adequate\",\"remove\":true" SD "}]}", "/vocabulary/regimes/", "not an allow-zone"},
};

static void test_catalogue_parse__refuses_with_the_place_of_the_fault(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_str pack = pack_file(ctx, "catalogue.json");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *r = &refusals[i];
        bw_catalogue *c;
        if (bw_catalogue_parse(ctx, pack, bw_str_c(r->overlay), &c) != BW_EINVALID)
            fail_msg("accepted %s", r->overlay);
        size_t n = strlen(r->pointer);
        bool cut = n && r->pointer[n - 1] == '/';
        if ((cut ? strncmp(bw_ctx_pointer(ctx), r->pointer, n) : strcmp(bw_ctx_pointer(ctx), r->pointer)) != 0 ||
            !strstr(bw_ctx_message(ctx), r->says))
            fail_msg("%s\n  at \"%s\": %s", r->overlay, bw_ctx_pointer(ctx), bw_ctx_message(ctx));
    }
    bw_ctx_free(ctx);
}

static void test_catalogue_parse__asks_the_shipped_file_for_the_same(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}", "{\"zones\":[]}", "{\"date\":\"2026-11-30\",\"zones\":[{\"id\":\"z\",\"kind\":\"group\",\"source\":\"s\"}]}",
        "{\"date\":\"2026-11-30\",\"zones\":[{\"id\":\"z\",\"remove\":true" SD "}]}",
    };
    bw_ctx *ctx = bw_ctx_new(0);
    bw_catalogue *c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(bw_catalogue_parse(ctx, bw_str_c(bad[i]), (bw_str){0}, &c), BW_EINVALID);
    assert_int_equal(bw_catalogue_parse(ctx, BW_STR("{\"date\":\"2026-11-30\"}"), BW_STR(""), &c), BW_EINVALID); /* an overlay cut short */
    assert_int_equal(bw_catalogue_parse(ctx, BW_STR("{\"date\":\"2026-11-30\"}"), (bw_str){0}, &c), BW_OK);
    bw_catalogue_free(c);
    bw_ctx_free(ctx);
}

static void test_catalogue_parse__bounds_rows_and_lists(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_catalogue *c;
    bw_buf b = {0};
    bw_buf_puts(&b, "{\"date\":\"2026-11-30\",\"zones\":[");
    for (int i = 0; i < 1025; i++)
        bw_buf_printf(&b, "%s{\"id\":\"z%d\",\"kind\":\"group\"" SD "}", i ? "," : "", i);
    bw_buf_puts(&b, "]}");
    assert_int_equal(bw_catalogue_parse(ctx, bw_buf_view(&b), (bw_str){0}, &c), BW_EINVALID);
    assert_non_null(strstr(bw_ctx_message(ctx), "1024 zones"));
    bw_buf_clear(&b);
    bw_buf_puts(&b, "{\"localisation\":[{\"country\":\"AF\",\"level\":\"copy\",\"laws\":[");
    for (int i = 0; i < 1025; i++)
        bw_buf_printf(&b, "%s\"l\"", i ? "," : "");
    bw_buf_puts(&b, "]" SD "}]}");
    assert_int_equal(bw_catalogue_parse(ctx, pack_file(ctx, "catalogue.json"), bw_buf_view(&b), &c), BW_EINVALID);
    assert_string_equal(bw_ctx_pointer(ctx), "/localisation/0/laws");
    bw_buf_clear(&b);
    /* a chain of zones as long as may be, told parents last */
    bw_buf_puts(&b, "{\"date\":\"2026-11-30\",\"zones\":[");
    for (int i = 0; i < 1024; i++)
        bw_buf_printf(&b, i < 1023 ? "{\"id\":\"z%04d\",\"kind\":\"group\",\"in\":[\"z%04d\"]" SD "}," : "{\"id\":\"z%04d\",\"kind\":\"group\"" SD "}]}", i, i + 1);
    assert_int_equal(bw_catalogue_parse(ctx, bw_buf_view(&b), (bw_str){0}, &c), BW_OK);
    assert_true(bw_catalogue_in(c, BW_STR("z0000"), BW_STR("z1023")));
    assert_false(bw_catalogue_in(c, BW_STR("z1023"), BW_STR("z0000")));
    bw_catalogue_free(c);
    bw_buf_clear(&b);
    bw_ctx_free(ctx);
}

static void version_of(bw_ctx *ctx, const char *text, const char *overlay, char out[64])
{
    bw_catalogue *c;
    if (bw_catalogue_parse(ctx, bw_str_c(text), bw_str_c(overlay), &c) != BW_OK)
        fail_msg("%s: %s", bw_ctx_pointer(ctx), bw_ctx_message(ctx));
    bw_str v = bw_catalogue_version(c);
    assert_int_equal(v.len, 10 + 1 + 32);
    memcpy(out, v.ptr, v.len);
    out[v.len] = '\0';
    bw_catalogue_free(c);
}

#define A_ROW "{\"code\":\"FR\",\"in\":[\"b\",\"a\"],\"name\":\"F\",\"source\":\"s\",\"date\":\"2026-11-30\"}"
#define ZONE_ROWS "{\"id\":\"a\",\"kind\":\"group\"" SD "},{\"id\":\"b\",\"kind\":\"group\"" SD "}"

static void test_catalogue_version__says_content_and_not_layout(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    char base[64], other[64];
    version_of(ctx, "{\"date\":\"2026-11-30\",\"countries\":[" A_ROW "],\"zones\":[" ZONE_ROWS "]}", NULL, base);
    static const char *const same[] = {
        "{ \"zones\" : [{\"kind\":\"group\",\"id\":\"b\"" SD "},\n{\"id\":\"\\u0061\",\"kind\":\"group\"" SD "}],\"countries\":["
        "{\"date\":\"2026-11-30\",\"source\":\"\\u0073\",\"name\":\"F\",\"in\":[\"a\",\"b\"],\"code\":\"FR\"}],\"date\":\"2026-11-30\"}",
        "{\"schema\":\"bailiwick.catalogue/2\",\"notice\":\"n\",\"date\":\"2026-11-30\",\"countries\":[" A_ROW "],\"zones\":[" ZONE_ROWS "],\"adequacy\":[]}",
    };
    static const char *const differ[] = {
        "{\"date\":\"2026-11-30\",\"countries\":[{\"code\":\"FR\",\"in\":[\"a\"],\"name\":\"F\"" SD "}],\"zones\":[" ZONE_ROWS "]}",
        "{\"date\":\"2026-11-30\",\"countries\":[{\"code\":\"FR\",\"in\":[\"b\",\"a\"],\"name\":\"F\",\"source\":\"t\",\"date\":\"2026-11-30\"}],\"zones\":[" ZONE_ROWS "]}",
        "{\"date\":\"2026-11-30\",\"countries\":[{\"code\":\"FR\",\"in\":[\"b\",\"a\"],\"name\":\"F\",\"source\":\"s\",\"date\":\"2026-11-29\"}],\"zones\":[" ZONE_ROWS "]}",
        "{\"date\":\"2026-11-30\",\"countries\":[" A_ROW "],\"zones\":[" ZONE_ROWS "],\"vocabulary\":{\"purposes\":[{\"word\":\"x\"" SD "}]}}",
        "{\"date\":\"2026-11-30\",\"countries\":[" A_ROW "],\"zones\":[" ZONE_ROWS "],\"vocabulary\":{\"labels\":[{\"word\":\"x\"" SD "}]}}",
        "{\"date\":\"2026-12-01\",\"countries\":[" A_ROW "],\"zones\":[" ZONE_ROWS "]}",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        version_of(ctx, same[i], NULL, other);
        assert_string_equal(base, other);
    }
    char seen[sizeof differ / sizeof *differ][64];
    for (size_t i = 0; i < sizeof differ / sizeof *differ; i++) {
        version_of(ctx, differ[i], NULL, seen[i]);
        assert_string_not_equal(base, seen[i]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(seen[i], seen[k]);
    }
    /* the same facts from an overlay are the same facts */
    version_of(ctx, "{\"date\":\"2026-11-30\",\"zones\":[" ZONE_ROWS "]}", "{\"countries\":[" A_ROW "]}", other);
    assert_string_equal(base, other);
    bw_ctx_free(ctx);
}

static void test_catalogue_near__guesses_what_was_meant(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_catalogue *c = pack_catalogue(ctx, "{\"zones\":[{\"id\":\"secret-project\",\"kind\":\"group\"" SD "}]}");
    static const char *const pairs[][2] = {
        {"fr", "FR"}, {"eu", "EU"}, {"UK", "GB"}, {"GBR", "GB"}, {"germany", "DE"}, {"gdpr-adequat", "gdpr-adequate"},
        {"gdpr_adequate", "gdpr-adequate"}, {"World", "world"}, {"dpdp-resticted", "dpdp-restricted"}, {"ZZ", ""},
        {"Atlantis", ""}, {"", ""}, {"secret-projec", ""}, {"QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ", ""}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        bw_str near = bw_catalogue_near(c, bw_str_c(pairs[i][0]));
        if (!bw_str_eq(near, bw_str_c(pairs[i][1])))
            fail_msg("%s: %.*s", pairs[i][0], (int)near.len, near.ptr);
    }
    /* labels pass the guess on */
    bw_json *v;
    bw_labels l;
    assert_int_equal(bw_json_parse(ctx, BW_STR("{\"regimes\":[\"none\"],\"residency\":[\"Eu\"],\"sensitivity\":0}"), BW_JSON_REQUEST, &v), BW_OK);
    assert_int_equal(bw_labels_parse(ctx, c, v, BW_STR("t"), &l), BW_EINVALID);
    assert_string_equal(bw_ctx_pointer(ctx), "/residency");
    assert_non_null(strstr(bw_ctx_message(ctx), "did you mean \"EU\"?"));
    /* data is kept in no deny-list, least of all in one that holds every country */
    assert_int_equal(bw_json_parse(ctx, BW_STR("{\"regimes\":[\"none\"],\"residency\":[\"FR\",\"itar-proscribed\"],\"sensitivity\":0}"), BW_JSON_REQUEST, &v), BW_OK);
    assert_int_equal(bw_labels_parse(ctx, c, v, BW_STR("t"), &l), BW_EINVALID);
    assert_non_null(strstr(bw_ctx_message(ctx), "\"itar-proscribed\" is a deny-list"));
    bw_catalogue_free(c);
    bw_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_catalogue_parse__knows_every_country_and_its_zones),
        cmocka_unit_test(test_catalogue_parse__lays_the_overlay_over_the_pack),
        cmocka_unit_test(test_catalogue_parse__lets_an_unknown_list_deny),
        cmocka_unit_test(test_catalogue_parse__refuses_with_the_place_of_the_fault),
        cmocka_unit_test(test_catalogue_parse__asks_the_shipped_file_for_the_same),
        cmocka_unit_test(test_catalogue_parse__bounds_rows_and_lists),
        cmocka_unit_test(test_catalogue_version__says_content_and_not_layout),
        cmocka_unit_test(test_catalogue_near__guesses_what_was_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
