/* The market: what the files say, what an overlay changes, what is refused, and how the
 * unknown looks to Cedar. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "failing_alloc.h"
#include "market.h"
#include "pack.h"

typedef struct fixture {
    bw_ctx *ctx;
    bw_catalogue *catalogue;
} fixture;

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    f->ctx = bw_ctx_new(0);
    f->catalogue = pack_catalogue(f->ctx, NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_catalogue_free(f->catalogue);
    bw_ctx_free(f->ctx);
    bw_free(f);
    return 0;
}

static bw_market *small(fixture *f, const char *overlay)
{
    bw_market *m = NULL;
    bw_status st = market_read(f->ctx, f->catalogue, market_small, overlay, &m);
    if (st != BW_OK)
        print_error("%s %s\n", bw_ctx_pointer(f->ctx), bw_ctx_message(f->ctx));
    assert_int_equal(st, BW_OK);
    return m;
}

static void test_market_load__reads_rows_and_references(void **state)
{
    fixture *f = *state;
    bw_market *m = small(f, NULL);
    const bw_region *fr = bw_market_find(m, BW_MARKET_REGIONS, BW_STR("p:fr"));
    const bw_region *de = bw_market_find(m, BW_MARKET_REGIONS, BW_STR("p:de"));
    const bw_instance *chip = bw_market_find(m, BW_MARKET_INSTANCES, BW_STR("p:chip"));
    assert_int_equal(bw_market_count(m, BW_MARKET_REGIONS), 3);
    assert_true(bw_market_row(m, BW_MARKET_REGIONS, 1) == de); /* in order of ids */
    assert_null(bw_market_row(m, BW_MARKET_REGIONS, 3));
    assert_null(bw_market_find(m, BW_MARKET_REGIONS, BW_STR("p:it")));
    assert_true(bw_str_is(fr->operator->id, "e")); /* the provider's own */
    assert_true(bw_str_is(de->operator->id, "dark"));
    assert_true(chip->vcpu < 0 && chip->memory_gib < 0); /* null is not 0 */
    assert_true(bw_str_is(chip->accelerator->kind, "asic"));
    assert_true(fr->hw.items && fr->hw.n == 0 && !de->hw.items); /* none and not known */
    assert_true(bw_market_version(m).len == 10 + 1 + 32);
    assert_memory_equal(bw_market_version(m).ptr, "2026-01-02/", 11);
    bw_market_free(m);
    bw_market_free(NULL);
}

static void test_market_price__own_region_wins_over_all(void **state)
{
    fixture *f = *state;
    bw_market *m = small(f, NULL);
    bw_str cpu = BW_STR("p:cpu"), fr = BW_STR("p:fr"), de = BW_STR("p:de");
    assert_true(bw_market_price(m, cpu, fr, false)->per_hour == 0.25);
    assert_true(bw_market_price(m, cpu, de, false)->per_hour == 0.5);
    assert_null(bw_market_price(m, cpu, fr, true));
    assert_null(bw_market_price(m, BW_STR("p:gpu"), de, false));
    assert_true(bw_market_convert(m, 8, BW_STR("EUR"), BW_STR("USD")) == 10);
    assert_true(bw_market_convert(m, 8, BW_STR("USD"), BW_STR("USD")) == 8);
    assert_true(bw_market_convert(m, 8, BW_STR("USD"), BW_STR("EUR")) < 0); /* no rate that way */
    bw_market_free(m);
}

static void test_market_load__lays_an_overlay_over_it(void **state)
{
    fixture *f = *state;
    bw_market *plain = small(f, NULL);
    bw_market *m = small(f, "{\"schema\":\"bailiwick.market/1\",\"date\":\"2026-02-03\","
        "\"regions\":[{\"id\":\"p:de\",\"provider\":\"own\",\"country\":\"DE\",\"access\":\"general\",\"accelerators\":[]," MARKET_FACT
        ",{\"id\":\"p:any\",\"remove\":true}],"
        "\"providers\":[{\"id\":\"own\",\"name\":\"O\",\"kind\":\"on-prem\",\"entity\":\"e\",\"spot\":false,\"inference_api\":null," MARKET_FACT "],"
        "\"prices\":[{\"instance\":\"p:gpu\",\"region\":\"p:fr\",\"market\":\"on-demand\",\"per_hour\":1.5,\"currency\":\"USD\"," MARKET_FACT "]}");
    const bw_region *de = bw_market_find(m, BW_MARKET_REGIONS, BW_STR("p:de"));
    assert_true(bw_str_is(de->provider->kind, "on-prem") && bw_str_is(de->operator->id, "e")); /* replaced whole */
    assert_null(bw_market_find(m, BW_MARKET_REGIONS, BW_STR("p:any")));
    assert_true(bw_market_price(m, BW_STR("p:gpu"), BW_STR("p:fr"), false)->per_hour == 1.5);
    assert_memory_equal(bw_market_version(m).ptr, "2026-02-03/", 11);
    assert_false(bw_str_eq(bw_market_version(m), bw_market_version(plain)));
    bw_market_free(plain);
    bw_market_free(m);
}

static void test_market_load__refuses_and_points(void **state)
{
    fixture *f = *state;
#define OVER(tables) "{\"schema\":\"bailiwick.market/1\",\"date\":\"2026\"," tables "}"
#define RATE(members) OVER("\"rates\":[{" members "}]")
    static const struct {
        const char *text, *pointer;
    } bad[] = {
        {"", ""},
        {"[]", ""},
        {"{}", ""},
        {"{\"schema\":\"bailiwick.market/2\",\"date\":\"2026\"}", ""},
        {"{\"schema\":\"bailiwick.market/1\"}", ""},
        {"{\"schema\":\"bailiwick.market/1\",\"date\":\"soon\"}", ""},
        {OVER("\"ratez\":[]"), "/ratez"},
        {OVER("\"rates\":{}"), "/rates"},
        {OVER("\"rates\":[\"x\"]"), "/rates/0"},
        {RATE("\"to\":\"B\""), "/rates/0"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":1,\"date\":\"2026\""), "/rates/0"},                   /* no source */
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":1,\"source\":\"s\""), "/rates/0"},                    /* no date */
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":1,\"source\":\"\",\"date\":\"2026\""), "/rates/0/source"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":1,\"source\":\"s\",\"date\":\"26-1\""), "/rates/0/date"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":1,\"source\":\"s\",\"date\":\"2026-13\""), "/rates/0/date"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":1,\"source\":\"s\",\"date\":\"2026-02-30\""), "/rates/0/date"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":1,\"source\":\"\\u001b[2J\",\"date\":\"2026\""), "/rates/0/source"}, /* orders to a terminal */
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":1,\"source\":\"s\\u009b2J\",\"date\":\"2026\""), "/rates/0/source"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":1,\"source\":\"s\\u202e\",\"date\":\"2026\""), "/rates/0/source"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":1e308,\"source\":\"s\",\"date\":\"2026\""), "/rates/0/value"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":\"NaN\",\"source\":\"s\",\"date\":\"2026\""), "/rates/0/value"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":NaN,\"source\":\"s\",\"date\":\"2026\""), "/rates/0/value"},
        {OVER("\"rates\":[{\"from\":\"A\",\"to\":\"B\",\"value\":1," MARKET_FACT ",{\"from\":\"A\",\"to\":\"B\",\"value\":2," MARKET_FACT "]"), "/rates/1"}, /* which of them? */
        {OVER("\"rates\":[{\"from\":\"A\",\"to\":\"B\",\"value\":1," MARKET_FACT ",{\"from\":\"A\",\"to\":\"B\",\"remove\":true}]"), "/rates/1"},
        {OVER("\"rates\":[{\"from\":\"EUR\",\"to\":\"USD\",\"remove\":true,\"value\":1}]"), "/rates/0/value"},
        {OVER("\"providers\":[{\"id\":\"p\",\"name\":\"P\",\"kind\":\"gpu-cloud\",\"entity\":\"e\",\"spot\":true,\"inference_api\":[\"a\\nb\"]," MARKET_FACT "]"), "/providers/0/inference_api/0"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":0,\"source\":\"s\",\"date\":\"2026\""), "/rates/0/value"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":null,\"source\":\"s\",\"date\":\"2026\""), "/rates/0/value"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"value\":1,\"valu\":1,\"source\":\"s\",\"date\":\"2026\""), "/rates/0/valu"},
        {RATE("\"from\":\"A\",\"to\":\"B\",\"remove\":true"), "/rates/0/remove"},
        {OVER("\"rates\":[{\"from\":\"EUR\",\"to\":\"USD\",\"remove\":false}]"), "/rates/0/remove"},
        {OVER("\"prices\":[{\"instance\":\"p:gpu\",\"region\":\"p:fr\",\"market\":\"spott\",\"per_hour\":1," MARKET_FACT "]"), "/prices/0/market"},
        {OVER("\"prices\":[{\"instance\":\"p:gpu\",\"region\":\"p:fr\",\"market\":\"spot\",\"per_hour\":-1," MARKET_FACT "]"), "/prices/0/per_hour"},
        {OVER("\"prices\":[{\"instance\":\"p:gpu\",\"region\":\"p:it\",\"market\":\"spot\",\"per_hour\":1," MARKET_FACT "]"), "/prices/0"},
        {OVER("\"prices\":[{\"instance\":\"p:cpy\",\"region\":\"*\",\"market\":\"spot\",\"per_hour\":1," MARKET_FACT "]"), "/prices/0"},
        {OVER("\"providers\":[{\"id\":\"p\",\"remove\":true}]"), "/regions/2"},
        {OVER("\"accelerators\":[{\"id\":\"GPU\",\"remove\":true}]"), "/regions/0"},
        {OVER("\"entities\":[{\"id\":\"x\",\"seat\":\"FX\",\"control_zones\":[\"EU\"],\"foreign_share_max\":null,\"foreign_share_sum\":null," MARKET_FACT "]"), "/entities/0/seat"},
        {OVER("\"entities\":[{\"id\":\"x\",\"seat\":\"FR\",\"control_zones\":[],\"foreign_share_max\":null,\"foreign_share_sum\":null," MARKET_FACT "]"), "/entities/0"},
        {OVER("\"entities\":[{\"id\":\"x\",\"seat\":\"FR\",\"control_zones\":[\"Mars\"],\"foreign_share_max\":null,\"foreign_share_sum\":null," MARKET_FACT "]"), "/entities/0"},
        {OVER("\"entities\":[{\"id\":\"x\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"24\",\"foreign_share_sum\":null," MARKET_FACT "]"), "/entities/0"},
        {OVER("\"entities\":[{\"id\":\"x\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"101.0\",\"foreign_share_sum\":null," MARKET_FACT "]"), "/entities/0"},
        {OVER("\"entities\":[{\"id\":\"x\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":null,\"foreign_share_sum\":\"-1.0\"," MARKET_FACT "]"), "/entities/0"},
        {OVER("\"entities\":[{\"id\":\"x\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"100.5\",\"foreign_share_sum\":null," MARKET_FACT "]"), "/entities/0"},
        {OVER("\"certifications\":[{\"id\":\"c\",\"provider\":\"p\",\"name\":\"HDS\",\"status\":\"held\",\"regions\":[\"p:it\"]," MARKET_FACT "]"), "/certifications/0"},
        {OVER("\"certifications\":[{\"id\":\"c\",\"provider\":\"p\",\"name\":\"HDS\",\"status\":\"held?\",\"regions\":null," MARKET_FACT "]"), "/certifications/0/status"},
        {OVER("\"instances\":[{\"id\":\"i\",\"provider\":\"p\",\"accelerator\":\"X86\",\"accelerator_count\":1,\"vcpu\":1,\"memory_gib\":1,\"spot\":false," MARKET_FACT "]"), "/instances/0"},
        {OVER("\"instances\":[{\"id\":\"i\",\"provider\":\"p\",\"accelerator\":\"GPU\",\"accelerator_count\":1,\"vcpu\":0,\"memory_gib\":1,\"spot\":false," MARKET_FACT "]"), "/instances/0/vcpu"},
        {OVER("\"instances\":[{\"id\":\"i\",\"provider\":\"p\",\"accelerator\":\"GPU\",\"accelerator_count\":1,\"vcpu\":1,\"memory_gib\":1,\"spot\":0," MARKET_FACT "]"), "/instances/0/spot"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bw_market *m = NULL;
        bw_status st = market_read(f->ctx, f->catalogue, market_small, bad[i].text, &m);
        if (st != BW_EINVALID || strcmp(bw_ctx_pointer(f->ctx), bad[i].pointer) != 0)
            print_error("%s\n-> %d at %s: %s\n", bad[i].text, st, bw_ctx_pointer(f->ctx), bw_ctx_message(f->ctx));
        assert_int_equal(st, BW_EINVALID);
        assert_null(m);
        assert_string_equal(bw_ctx_pointer(f->ctx), bad[i].pointer);
        /* the file at fault is named: the shipped one where an overlay took a row from it */
        assert_non_null(strstr(bw_ctx_message(f->ctx), bw_ctx_pointer(f->ctx)[1] == 'r' && bad[i].pointer[2] == 'e' ? "market.json" : "overlay.json"));
    }
}

static void test_market_place__holds_what_provably_covers(void **state)
{
    fixture *f = *state;
    const bw_str gpu = BW_STR("gpu");
    bw_place p;
    bw_market *m = small(f, "{\"schema\":\"bailiwick.market/1\",\"date\":\"2026\",\"certifications\":["
        "{\"id\":\"low\",\"provider\":\"p\",\"name\":\"BSI C5\",\"status\":\"held\",\"regions\":[\"p:fr\"],\"confidence\":\"low\"," MARKET_FACT
        ",{\"id\":\"no\",\"provider\":\"p\",\"name\":\"BSI C5\",\"status\":\"unknown\",\"regions\":[\"p:fr\"]," MARKET_FACT
        ",{\"id\":\"wordless\",\"provider\":\"p\",\"name\":\"EUCS\",\"status\":\"held\",\"regions\":[\"p:fr\"]," MARKET_FACT "]}");
    const bw_region *fr = bw_market_find(m, BW_MARKET_REGIONS, BW_STR("p:fr")), *de = bw_market_find(m, BW_MARKET_REGIONS, BW_STR("p:de"));
    assert_int_equal(bw_market_place(f->ctx, m, fr, (bw_texts){&gpu, 1}, &p), BW_OK);
    assert_true(bw_str_is(p.id, "p:fr") && bw_str_is(p.country, "FR") && bw_str_is(p.operator_id, "e"));
    assert_true(p.ncerts == 1 && bw_str_is(p.certs[0], "hds"));
    assert_true(p.nhw == 1 && bw_str_is(p.hw[0], "gpu"));
    assert_int_equal(bw_market_place(f->ctx, m, de, (bw_texts){NULL, 0}, &p), BW_OK);
    assert_true(p.ncerts == 0 && p.nhw == 0);
    bw_market_free(m);
}

static bool has_gap(bw_texts gaps, const char *text)
{
    return bw_texts_have(gaps, bw_str_c(text));
}

static void test_market_gaps__says_what_to_find_out(void **state)
{
    fixture *f = *state;
    bw_texts gaps;
    bw_market *m = small(f, NULL);
    assert_int_equal(bw_market_gaps(f->ctx, m, bw_market_find(m, BW_MARKET_REGIONS, BW_STR("p:fr")), &gaps), BW_OK);
    assert_int_equal(gaps.n, 1);
    assert_true(has_gap(gaps, "certificate BSI C5: many"));
    assert_int_equal(bw_market_gaps(f->ctx, m, bw_market_find(m, BW_MARKET_REGIONS, BW_STR("p:de")), &gaps), BW_OK);
    assert_true(has_gap(gaps, "foreign shares of operator dark: counted as 100 percent"));
    assert_true(has_gap(gaps, "seat of operator dark") && has_gap(gaps, "who controls operator dark"));
    assert_true(has_gap(gaps, "accelerators: not researched") && has_gap(gaps, "hardware (tee)"));
    assert_int_equal(bw_market_gaps(f->ctx, m, bw_market_find(m, BW_MARKET_REGIONS, BW_STR("p:any")), &gaps), BW_OK);
    assert_true(has_gap(gaps, "country"));
    bw_market_free(m);
}

/* Each region is held against its provider's certifications, so their number is bounded. */
static void test_market_load__bounds_a_providers_certifications(void **state)
{
    fixture *f = *state;
    for (int n = 510; n <= 511; n++) { /* two are there */
        bw_buf b = {0};
        bw_market *m = NULL;
        bw_buf_puts(&b, "{\"schema\":\"bailiwick.market/1\",\"date\":\"2026\",\"certifications\":[");
        for (int i = 0; i < n; i++)
            bw_buf_printf(&b, "%s{\"id\":\"a%d\",\"provider\":\"p\",\"name\":\"HDS\",\"status\":\"held\",\"regions\":null," MARKET_FACT, i ? "," : "", i);
        bw_buf_puts(&b, "]}");
        bw_buf_putc(&b, '\0');
        assert_int_equal(market_read(f->ctx, f->catalogue, market_small, b.ptr, &m), n == 510 ? BW_OK : BW_EINVALID);
        size_t of = 0;
        if (m)
            (void)bw_market_certifications(m, BW_STR("p"), &of);
        assert_int_equal(of, n == 510 ? 512 : 0);
        bw_market_free(m);
        bw_buf_clear(&b);
    }
}

static bool has_folded(const bw_catalogue_gap *gaps, size_t n, const char *country, const char *fact)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(gaps[i].fact, fact) == 0)
            return bw_str_eq(gaps[i].country, bw_str_c(country));
    return false;
}

static void test_market_all_gaps__says_what_regions_share_once(void **state)
{
    fixture *f = *state;
    const bw_str fr = BW_STR("FR");
    const bw_catalogue_scope all = {0}, france = {.places = &fr, .nplaces = 1};
    bw_catalogue_gap before = {.fact = "first"}, *gaps = &before;
    size_t n = 1, few = 0;
    bw_market *m = small(f, NULL);
    gaps = memcpy(bw_arena_alloc(f->ctx, sizeof before), &before, sizeof before);
    assert_int_equal(bw_market_all_gaps(f->ctx, m, f->catalogue, &all, &gaps, &n), BW_OK);
    assert_string_equal(gaps[0].fact, "first");
    assert_true(has_folded(gaps, n, "", "p, all 3 regions: certificate BSI C5: many"));
    assert_true(has_folded(gaps, n, "", "p, 2 of 3 regions (p:any p:de): accelerators: not researched"));
    assert_true(has_folded(gaps, n, "DE", "p:de: seat of operator dark") && has_folded(gaps, n, "", "p:any: country"));
    gaps = NULL;
    assert_int_equal(bw_market_all_gaps(f->ctx, m, f->catalogue, &france, &gaps, &few), BW_OK);
    assert_true(few > 0 && few < n);
    assert_true(has_folded(gaps, few, "", "p, all 2 regions: certificate BSI C5: many")); /* one may lie anywhere */
    assert_false(has_folded(gaps, few, "DE", "p:de: seat of operator dark"));
    bw_market_free(m);
}

static void test_market_entities__write_the_unknown_so_that_it_denies(void **state)
{
    fixture *f = *state;
    bw_buf b = {0};
    bw_json *own;
    bw_market *m = small(f, NULL);
    assert_int_equal(bw_market_entities(f->ctx, m, NULL, &b), BW_OK);
    bw_buf_putc(&b, '\0');
    assert_non_null(strstr(b.ptr, "{\"uid\":{\"type\":\"Bw::LegalEntity\",\"id\":\"dark\"},\"parents\":[],\"attrs\":{\"seat\":{\"__entity\":{\"type\":\"Bw::Country\",\"id\":\"ZZ\"}},"
                                  "\"controlZones\":[{\"__entity\":{\"type\":\"Bw::Zone\",\"id\":\"unknown\"}}],"
                                  "\"foreignShareMax\":{\"__extn\":{\"fn\":\"decimal\",\"arg\":\"100.0\"}},\"foreignShareSum\":{\"__extn\":{\"fn\":\"decimal\",\"arg\":\"100.0\"}},"
                                  "\"baaWith\":[],\"certs\":[]}}"));
    assert_non_null(strstr(b.ptr, "\"baaWith\":[{\"__entity\":{\"type\":\"Bw::Tenant\",\"id\":\"t\"}}],\"certs\":[\"dpf\"]}}"));
    b.len = 0;
    /* the operator's own entity of that id wins, in either spelling */
    assert_int_equal(bw_json_parse(f->ctx, BW_STR("[{\"uid\":{\"type\":\"Bw::LegalEntity\",\"id\":\"e\"}},{\"uid\":{\"__entity\":{\"type\":\"Bw::LegalEntity\",\"id\":\"dark\"}}},7,{}]"),
                                   BW_JSON_REQUEST, &own), BW_OK);
    assert_int_equal(bw_market_entities(f->ctx, m, own, &b), BW_OK);
    assert_int_equal(b.len, 0);
    bw_buf_clear(&b);
    bw_market_free(m);
}

/* The shipped files are whole, say where they are from, and know what they must know. */
static void test_market__shipped_files(void **state)
{
    fixture *f = *state;
    bw_market *m = NULL;
    const bw_market_file files[] = {{"places.json", pack_file(f->ctx, "../market/places.json")},
                                    {"accelerators.json", pack_file(f->ctx, "../market/accelerators.json")},
                                    {"instances.json", pack_file(f->ctx, "../market/instances.json")}};
    assert_int_equal(bw_market_load(f->ctx, f->catalogue, files, 3, &m), BW_OK);
    static const char *const known[] = {"H100-SXM", "H200-SXM", "A100-SXM-80", "L40S", "TRAINIUM1", "TRAINIUM2", "INFERENTIA2"};
    static const char *const providers[] = {"aws", "coreweave", "vastai", "akash", "unicorne", "ovhcloud", "outscale", "s3ns", "on-prem"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_non_null(bw_market_find(m, BW_MARKET_ACCELERATORS, bw_str_c(known[i])));
    for (size_t i = 0; i < sizeof providers / sizeof *providers; i++)
        assert_non_null(bw_market_find(m, BW_MARKET_PROVIDERS, bw_str_c(providers[i])));
    for (int t = 0; t < BW_MARKET_TABLES; t++) {
        const bw_fact *row;
        for (size_t i = 0; (row = bw_market_row(m, (enum bw_market_table)t, i)) != NULL; i++)
            assert_true(row->source.len > 0 && row->date.len >= 4);
    }
    const bw_price *none = bw_market_price(m, BW_STR("aws:trn2.48xlarge"), BW_STR("aws:us-east-2"), false);
    assert_null(none);
    const bw_price *scaleway = bw_market_price(m, BW_STR("scaleway:H100-1-80G"), BW_STR("scaleway:fr-par"), false);
    assert_true(scaleway && !scaleway->currency.ptr && scaleway->stale);
    bw_market_free(m);
}

static void load_step(void *arg)
{
    fixture *f = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    if (ctx) {
        bw_market *m = NULL;
        bw_buf b = {0};
        bw_texts gaps;
        bw_place p;
        bw_status st = market_read(ctx, f->catalogue, market_small, NULL, &m);
        if (st == BW_OK)
            st = bw_market_entities(ctx, m, NULL, &b);
        if (st == BW_OK)
            st = bw_market_gaps(ctx, m, bw_market_row(m, BW_MARKET_REGIONS, 1), &gaps);
        if (st == BW_OK)
            st = bw_market_place(ctx, m, bw_market_row(m, BW_MARKET_REGIONS, 1), (bw_texts){NULL, 0}, &p);
        assert_true(st == (failing_hit ? BW_ENOMEM : BW_OK));
        bw_buf_clear(&b);
        bw_market_free(m);
    }
    bw_ctx_free(ctx);
}

static void test_market__survives_every_failed_allocation(void **state)
{
    long base = failing_live;
    assert_true(failing_sweep(load_step, *state, 20000) > 20);
    assert_int_equal(failing_live, base);
}

int main(void)
{
    failing_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_market_load__reads_rows_and_references),
        cmocka_unit_test(test_market_price__own_region_wins_over_all),
        cmocka_unit_test(test_market_load__lays_an_overlay_over_it),
        cmocka_unit_test(test_market_load__refuses_and_points),
        cmocka_unit_test(test_market_place__holds_what_provably_covers),
        cmocka_unit_test(test_market_gaps__says_what_to_find_out),
        cmocka_unit_test(test_market_load__bounds_a_providers_certifications),
        cmocka_unit_test(test_market_all_gaps__says_what_regions_share_once),
        cmocka_unit_test(test_market_entities__write_the_unknown_so_that_it_denies),
        cmocka_unit_test(test_market__shipped_files),
        cmocka_unit_test(test_market__survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
