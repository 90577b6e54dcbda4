/* The plan: profiles that are refused, sizes against arithmetic done by hand, rules and
 * ranking over a market small enough to count. Whole workloads over the shipped data are
 * tests/integration/test_place.py's. */
#include <policies/place.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "failing_alloc.h"
#include "market.h"
#include "pack.h"

#define WHO "\"principal\":{\"principal\":\"u\",\"tenant\":\"t\",\"seat\":\"FR\",\"clearance\":3,\"roles\":[]}"
#define CLASS(residency) "{\"regimes\":[\"none\"],\"residency\":[\"" residency "\"],\"sensitivity\":1,\"purposes\":[\"search\"]}"
#define PROFILE(classes, more) "{" WHO ",\"purpose\":\"search\",\"classes\":[" classes "],\"vectors\":1000000,\"dimension\":100,\"qps\":10" more "}"

static const char policies[] =
    "@id(\"own\") permit (principal, action, resource is Bw::DataClass) when { resource.tenant == principal.tenant };"
    "@id(\"move\") forbid (principal, action in Bw::Action::\"move\", resource is Bw::DataClass) unless { context.dest.country in resource.residency };"
    "@id(\"at\") forbid (principal, action == Bw::Action::\"Query\", resource is Bw::DataClass) unless { context.at.country in resource.residency };"
    "@id(\"shares\") forbid (principal, action == Bw::Action::\"Store\", resource is Bw::DataClass)"
    "  when { resource.labels.contains(\"sovereign-eu\") } unless { context.dest.operator.foreignShareMax.lessThanOrEqual(decimal(\"24.0\")) };"
    "@id(\"no-gpu\") forbid (principal, action == Bw::Action::\"Embed\", resource is Bw::DataClass)"
    "  when { resource.labels.contains(\"internal\") && context.dest.hw.contains(\"gpu\") };"
    "@id(\"gpu-only\") forbid (principal, action == Bw::Action::\"Store\", resource is Bw::DataClass)"
    "  when { resource.labels.contains(\"us-bulk\") && !context.dest.hw.contains(\"gpu\") };";

typedef struct fixture {
    bw_ctx *ctx;
    bw_catalogue *catalogue;
    bw_market *market;
    bw_authority *authority;
} fixture;

static void open_authority(fixture *f)
{
    bw_buf entities = {0};
    bw_buf_putc(&entities, '[');
    assert_int_equal(bw_market_entities(f->ctx, f->market, NULL, &entities), BW_OK);
    bw_buf_putc(&entities, ']');
    bw_authority_options o = {.schema = pack_file(f->ctx, "bw.cedarschema"),
                              .policies = BW_STR(policies),
                              .entities = bw_buf_view(&entities),
                              .catalogue = f->catalogue,
                              .at = {.id = BW_STR("here"), .country = BW_STR("ZZ"), .operator_id = BW_STR("unknown")}};
    assert_int_equal(bw_authority_new(f->ctx, &o, &f->authority), BW_OK);
    bw_buf_clear(&entities);
}

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    f->ctx = bw_ctx_new(0);
    f->catalogue = pack_catalogue(f->ctx, NULL);
    assert_int_equal(market_read(f->ctx, f->catalogue, market_small, NULL, &f->market), BW_OK);
    open_authority(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_authority_free(f->authority);
    bw_market_free(f->market);
    bw_catalogue_free(f->catalogue);
    bw_ctx_free(f->ctx);
    bw_free(f);
    return 0;
}

static bw_status read_profile(fixture *f, const char *text, bw_profile *p)
{
    bw_json *v;
    bw_status st = bw_json_parse(f->ctx, bw_str_c(text), BW_JSON_REQUEST, &v);
    return st == BW_OK ? bw_profile_read(f->ctx, f->catalogue, v, NULL, p) : st;
}

static bw_profile profile(fixture *f, const char *text)
{
    bw_profile p;
    bw_status st = read_profile(f, text, &p);
    if (st != BW_OK)
        print_error("%s %s\n", bw_ctx_pointer(f->ctx), bw_ctx_message(f->ctx));
    assert_int_equal(st, BW_OK);
    return p;
}

static void test_profile_read__fills_in_what_is_usual(void **state)
{
    bw_profile p = profile(*state, PROFILE(CLASS("FR"), ""));
    assert_int_equal(p.nactions, 4);
    assert_true(p.actions[0] == BW_ACTION_STORE && p.actions[3] == BW_ACTION_REPLICATE);
    assert_true(p.bits == 32 && p.replicas == 1 && p.recall == 0.95 && !p.spot);
    assert_true(p.latency_ms < 0 && p.budget < 0 && bw_str_is(p.currency, "USD"));
    assert_true(!p.hw.items && !p.countries.items && p.model_parameters == 0);
    assert_non_null(strstr(p.class_text[0].ptr, "\"tenant\":\"t\""));
    p = profile(*state, PROFILE(CLASS("FR"), ",\"precision\":\"b1\",\"model\":{\"parameters\":10,\"tokens_per_second\":3},"
                                             "\"hw\":[\"tee\",\"gpu\",\"tee\"],\"budget\":{\"per_month\":5,\"currency\":\"EUR\"}"));
    assert_true(p.bits == 1 && p.model_bytes == 2 && p.model_tokens_s == 3 && p.budget == 5);
    assert_true(p.hw.n == 2 && bw_str_is(p.hw.items[0], "gpu"));
}

static void test_profile_read__says_numbers_as_they_are_written(void **state)
{
    fixture *f = *state;
    bw_profile p;
    assert_int_equal(read_profile(f, "{" WHO ",\"classes\":[" CLASS("FR") "],\"vectors\":1e12,\"dimension\":1,\"qps\":1}", &p), BW_EINVALID);
    assert_non_null(strstr(bw_ctx_message(f->ctx), "digits alone, 0 to 1000000000000"));
    p = profile(f, "{" WHO ",\"classes\":[" CLASS("FR") "],\"vectors\":1,\"dimension\":1,\"qps\":-0.0}");
    assert_false(signbit(p.qps));
}

static void test_profile_read__refuses_and_points(void **state)
{
    static const struct {
        const char *text, *pointer;
    } bad[] = {
        {"[]", ""},
        {"{}", ""},
        {PROFILE("", ""), "/classes"},
        {PROFILE("\"x\"", ""), "/classes/0"},
        {PROFILE(CLASS("Mars"), ""), "/classes/0/residency"},
        {PROFILE(CLASS("FR") "," CLASS("Mars"), ""), "/classes/1/residency"},
        {PROFILE(CLASS("FR"), ",\"sppot\":true"), "/sppot"},
        {PROFILE(CLASS("FR"), ",\"spot\":1"), "/spot"},
        {PROFILE(CLASS("FR"), ",\"precision\":\"f64\""), "/precision"},
        {PROFILE(CLASS("FR"), ",\"recall\":1.5"), "/recall"},
        {PROFILE(CLASS("FR"), ",\"replicas\":1.5"), "/replicas"},
        {PROFILE(CLASS("FR"), ",\"replicas\":17"), "/replicas"},
        {PROFILE(CLASS("FR"), ",\"latency_ms\":0"), "/latency_ms"},
        {PROFILE(CLASS("FR"), ",\"actions\":[\"Admin\"]"), "/actions/0"},
        {PROFILE(CLASS("FR"), ",\"actions\":[\"Store\",\"Store\"]"), "/actions/1"},
        {PROFILE(CLASS("FR"), ",\"actions\":[]"), "/actions"},
        {PROFILE(CLASS("FR"), ",\"countries\":[\"eu\"]"), "/countries/0"},
        {PROFILE(CLASS("FR"), ",\"hw\":[\"quantum\"]"), "/hw/0"},
        {PROFILE(CLASS("FR"), ",\"safeguards\":[\"sccs\"]"), "/safeguards/0"},
        {PROFILE(CLASS("FR"), ",\"budget\":{\"per_month\":1}"), "/budget"},
        {PROFILE(CLASS("FR"), ",\"budget\":{\"per_month\":-1,\"currency\":\"EUR\"}"), "/budget/per_month"},
        {PROFILE(CLASS("FR"), ",\"budget\":{\"per_month\":1,\"currency\":\"usd\"}"), "/budget/currency"},
        {PROFILE(CLASS("FR"), ",\"budget\":{\"per_month\":1,\"currency\":\"EURO\"}"), "/budget/currency"},
        {PROFILE(CLASS("FR"), ",\"model\":{\"parameters\":1}"), "/model"},
        {PROFILE(CLASS("FR"), ",\"model\":{\"parameters\":1,\"tokens_per_second\":1,\"flops\":1}"), "/model/flops"},
        {"{" WHO ",\"purpose\":\"searching\",\"classes\":[" CLASS("FR") "],\"vectors\":1,\"dimension\":1,\"qps\":1}", "/purpose"},
        {"{" WHO ",\"classes\":[" CLASS("FR") "],\"vectors\":0,\"dimension\":1,\"qps\":1}", ""},
        {"{" WHO ",\"classes\":[" CLASS("FR") "],\"vectors\":-1,\"dimension\":1,\"qps\":1}", "/vectors"},
        {"{\"principal\":{\"principal\":\"u\",\"tenant\":\"t\",\"seat\":\"XX\",\"clearance\":3},\"classes\":[],\"vectors\":1}", "/principal/seat"},
        {"{\"principal\":{\"principal\":\"u\",\"tenant\":\"t\",\"seat\":\"FR\",\"clearance\":9},\"classes\":[],\"vectors\":1}", "/principal/clearance"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bw_profile p;
        bw_status st = read_profile(f, bad[i].text, &p);
        if (st != BW_EINVALID || strcmp(bw_ctx_pointer(f->ctx), bad[i].pointer) != 0)
            print_error("%s\n-> %d at %s: %s\n", bad[i].text, st, bw_ctx_pointer(f->ctx), bw_ctx_message(f->ctx));
        assert_int_equal(st, BW_EINVALID);
        assert_string_equal(bw_ctx_pointer(f->ctx), bad[i].pointer);
    }
}

/* ---- machines ---- */

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static bw_sizing size(fixture *f, const char *type, const char *more)
{
    bw_sizing s;
    char text[1024];
    snprintf(text, sizeof text, PROFILE(CLASS("FR"), "%s"), more);
    bw_profile p = profile(f, text);
    bw_place_size(&p, bw_market_find(f->market, BW_MARKET_INSTANCES, bw_str_c(type)), &s);
    return s;
}

/* 1,000,000 x 100 in f32 on two devices of 100 GB and 1 TB/s: 500,000 rows of 200 B in f16. */
static void test_place_size__gpu(void **state)
{
    bw_sizing s = size(*state, "p:gpu", "");
    assert_null(s.rule);
    assert_string_equal(s.engine, "gpu-flat");
    assert_true(s.count == 1 && s.rows == 500000 && s.row_bytes == 200);
    assert_true(near(s.host_bytes, 1e6 * (400 + 16) * 1.25) && near(s.device_bytes, 1e6 * 200 * 1.25));
    /* bytes: 100 MB of rows and 128 MB of scores at 900 GB/s = 253 us; flops 3.2 G at 70 T = 46 us */
    double t = 2 * (100e6 + 128e6) / 900e9 + 60e-6;
    assert_true(near(s.latency_ms, t * 1000 + 0.3) && near(s.load, 10 * t / 32));
    assert_true(near(s.memory_use, 520e6 / (100 * 1073741824.0 * 0.9))); /* the host's, as it is the fuller */
    s = size(*state, "p:gpu", ",\"precision\":\"int8\"");
    assert_true(s.row_bytes == 100 && near(s.latency_ms, (2 * (50e6 + 128e6) / 900e9 + 60e-6) * 1000 + 0.3));
    s = size(*state, "p:gpu", ",\"precision\":\"bf16\""); /* no peak is known for it */
    assert_string_equal(s.rule, "throughput-unknown");
    s = size(*state, "p:gpu", ",\"precision\":\"b1\""); /* no kernel there: the host's CPU */
    assert_string_equal(s.engine, "cpu-graph");
    assert_true(s.row_bytes == 13);
}

/* A slow chip: 500,000 rows x 100 x 64 flops at 7 T/s take 457 us, the bytes 253. */
static void test_place_size__gpu_bound_by_arithmetic(void **state)
{
    fixture *f = *state;
    bw_instance type = *(const bw_instance *)bw_market_find(f->market, BW_MARKET_INSTANCES, BW_STR("p:gpu"));
    bw_accelerator slow = *type.accelerator;
    bw_profile p = profile(f, PROFILE(CLASS("FR"), ""));
    bw_sizing s;
    slow.fp16_tflops = 10;
    type.accelerator = &slow;
    bw_place_size(&p, &type, &s);
    assert_true(near(s.latency_ms, (2 * 3.2e9 / 7e12 + 60e-6) * 1000 + 0.3));
}

static void test_place_size__cpu(void **state)
{
    fixture *f = *state;
    bw_sizing s = size(f, "p:cpu", ",\"recall\":1");
    assert_string_equal(s.engine, "cpu-flat");
    /* 400 MB at 8 x 5 GB/s: 10 ms, a tenth of the time at 10 queries a second */
    assert_true(s.count == 1 && near(s.latency_ms, 10) && near(s.load, 0.1));
    s = size(f, "p:cpu", ",\"recall\":1,\"latency_ms\":3"); /* four share the rows */
    assert_true(!s.rule && s.count == 4 && near(s.latency_ms, 2.5) && s.rows == 250000);
    s = size(f, "p:cpu", ",\"recall\":1,\"latency_ms\":0.1");
    assert_string_equal(s.rule, "latency");
    s = size(f, "p:cpu", "");
    assert_string_equal(s.engine, "cpu-graph");
    double q = 2000 * log2(300000) / log2(1e6) / 2;
    assert_true(near(s.load, 10 / (8 * q)) && near(s.latency_ms, 1000 / q) && s.extrapolated);
    assert_true(near(s.host_bytes, 1e6 * (400 + 16 + 256) * 1.25));
    s = size(f, "p:cpu", ",\"recall\":0.96");
    assert_true(near(s.latency_ms, 2000 / q));
    s = size(f, "p:arm", "");
    assert_string_equal(s.rule, "no-kernel");
    s = size(f, "p:chip", ""); /* the index would lie in a host that nobody describes */
    assert_string_equal(s.rule, "memory-unknown");
}

static bw_sizing big(fixture *f, const char *vectors, const char *qps, const char *more)
{
    bw_sizing s;
    char text[1024];
    snprintf(text, sizeof text, "{" WHO ",\"classes\":[" CLASS("FR") "],\"vectors\":%s,\"dimension\":100,\"qps\":%s%s}", vectors, qps, more);
    bw_profile p = profile(f, text);
    bw_place_size(&p, bw_market_find(f->market, BW_MARKET_INSTANCES, BW_STR("p:cpu")), &s);
    return s;
}

static void test_place_size__grows_until_it_fits_or_cannot(void **state)
{
    fixture *f = *state;
    /* 100M x 672 B x 1.25 = 84 GB over 30.9 GB a machine: 3 shards */
    bw_sizing s = big(f, "100000000", "1", "");
    assert_true(!s.rule && s.count == 3 && near(s.memory_use, 84e9 / 3 / (32 * 1073741824.0 * 0.9)));
    s = big(f, "100000000", "6000", ""); /* copies come in threes: 8 vCPUs * 728 = 5,824 a copy */
    assert_true(!s.rule && s.count == 6 && s.load > 0.5 && s.load < 0.52);
    s = big(f, "10000000000", "1", "");
    assert_string_equal(s.rule, "memory");
    s = big(f, "1000000", "1000000", "");
    assert_string_equal(s.rule, "throughput");
    assert_true(s.count == BW_PLACE_INSTANCES_MAX);
}

static void test_place_size__model(void **state)
{
    fixture *f = *state;
    bw_sizing s;
    bw_profile p = profile(f, "{" WHO ",\"classes\":[" CLASS("FR") "],\"vectors\":0,\"dimension\":1,\"qps\":0,"
                              "\"model\":{\"parameters\":1000000000,\"tokens_per_second\":100000}}");
    bw_place_size(&p, bw_market_find(f->market, BW_MARKET_INSTANCES, BW_STR("p:chip")), &s);
    /* 200 Tflop/s over 4 x 15 Tflop/s a machine: four; 2.4 GB of 9 on each chip */
    assert_true(!s.rule && s.count == 4 && near(s.load, 200.0 / 240) && near(s.memory_use, 2.4 / 9));
    assert_string_equal(s.engine, "none");
    bw_place_size(&p, bw_market_find(f->market, BW_MARKET_INSTANCES, BW_STR("p:cpu")), &s);
    assert_string_equal(s.rule, "inference-unknown");
    p.model_parameters = 5e9; /* 12 GB on each of the 10 GB chips */
    bw_place_size(&p, bw_market_find(f->market, BW_MARKET_INSTANCES, BW_STR("p:chip")), &s);
    assert_string_equal(s.rule, "memory");
}

/* ---- plans ---- */

static bw_plan plan_of(fixture *f, bw_profile *p, const char *text)
{
    bw_plan plan;
    *p = profile(f, text);
    assert_int_equal(bw_place_plan(f->ctx, f->authority, f->market, p, &plan), BW_OK);
    return plan;
}

static bool out_by(const bw_reasons *list, const char *rule, const char *detail)
{
    for (size_t i = 0; i < list->n; i++)
        if (bw_str_eq(list->items[i].rule, bw_str_c(rule)) && bw_str_eq(list->items[i].detail, bw_str_c(detail)))
            return true;
    return false;
}

static const bw_offer *offer(const bw_plan *plan, const char *region, const char *type, bool spot)
{
    for (size_t r = 0; r < plan->nregions; r++)
        for (size_t i = 0; i < plan->regions[r].noffers; i++) {
            const bw_offer *o = &plan->regions[r].offers[i];
            if (bw_str_eq(plan->regions[r].region->id, bw_str_c(region)) && bw_str_eq(o->instance->id, bw_str_c(type)) && o->spot == spot)
                return o;
        }
    fail_msg("no offer %s %s", region, type);
    return NULL;
}

enum { P_ANY, P_DE, P_FR };

static void test_place_plan__names_every_rule(void **state)
{
    bw_profile p;
    bw_plan plan = plan_of(*state, &p, PROFILE(CLASS("FR") "," CLASS("EU"), ""));
    assert_int_equal(plan.nregions, 3);
    assert_true(out_by(&plan.regions[P_ANY].out, "unknown-country", NULL));
    assert_int_equal(plan.regions[P_ANY].nverdicts, 0); /* nothing to ask about */
    assert_true(out_by(&plan.regions[P_DE].out, "policy:move", "class 0: Store Embed Replicate"));
    assert_true(out_by(&plan.regions[P_DE].out, "policy:at", "class 0: Query"));
    assert_int_equal(plan.regions[P_DE].out.n, 2);
    assert_int_equal(plan.regions[P_FR].out.n, 0);
    assert_true(plan.regions[P_FR].in && !plan.regions[P_DE].in);
    assert_true(out_by(&offer(&plan, "p:fr", "p:gpu", true)->out, "spot-not-allowed", NULL));
    assert_true(out_by(&offer(&plan, "p:fr", "p:arm", false)->out, "no-kernel", NULL));
    assert_true(out_by(&offer(&plan, "p:fr", "p:chip", false)->out, "memory-unknown", NULL));
    assert_int_equal(plan.nin, 2);
    assert_true(out_by(&offer(&plan, "p:fr", "p:cpu", false)->verdict->permits, "policy:own", "class 0: Store Query Embed Replicate"));
    const bw_offer *gpu = offer(&plan, "p:fr", "p:gpu", false), *cpu = offer(&plan, "p:fr", "p:cpu", false);
    assert_true(near(gpu->monthly, 2 * 730) && near(cpu->monthly, 0.25 * 730 * 1.25));
    assert_true(plan.by_cost[0] == cpu && cpu->rank_cost == 1 && gpu->rank_cost == 2);
}

static void test_place_plan__asks_for_each_kind_of_hardware(void **state)
{
    bw_profile p;
    bw_plan plan = plan_of(*state, &p, PROFILE("{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":1,\"labels\":[\"internal\"],\"purposes\":[\"search\"]}", ",\"spot\":true"));
    assert_int_equal(plan.regions[P_FR].nverdicts, 2);
    assert_int_equal(plan.regions[P_FR].out.n, 0);
    assert_true(out_by(&offer(&plan, "p:fr", "p:gpu", false)->out, "policy:no-gpu", "class 0: Embed"));
    assert_true(offer(&plan, "p:fr", "p:cpu", false)->in);
    /* no list of accelerators, no price: may be there, costs who knows */
    const bw_offer *gpu = offer(&plan, "p:de", "p:cpu", false);
    assert_true(gpu->in && out_by(&gpu->notes, "availability-unconfirmed", NULL) && out_by(&gpu->notes, "price-stale", "2026-01"));
}

/* No hardware will do, for no common reason: each offer says its own. */
static void test_place_plan__closes_a_region_by_what_all_hardware_shares(void **state)
{
    bw_profile p;
#define HEMMED(residency) "{\"regimes\":[\"none\"],\"residency\":[\"" residency "\"],\"sensitivity\":1,\"labels\":[\"internal\",\"us-bulk\"],\"purposes\":[\"search\"]}"
    bw_plan plan = plan_of(*state, &p, PROFILE(HEMMED("EU"), ""));
    assert_int_equal(plan.regions[P_FR].out.n, 0);
    assert_false(plan.regions[P_FR].in);
    const bw_offer *gpu = offer(&plan, "p:fr", "p:gpu", false), *cpu = offer(&plan, "p:fr", "p:cpu", false);
    assert_true(out_by(&gpu->out, "policy:no-gpu", "class 0: Embed") && !out_by(&gpu->out, "policy:gpu-only", "class 0: Store"));
    assert_true(out_by(&cpu->out, "policy:gpu-only", "class 0: Store") && !out_by(&cpu->out, "policy:no-gpu", "class 0: Embed"));
    plan = plan_of(*state, &p, PROFILE(HEMMED("FR"), ""));
    assert_int_equal(plan.regions[P_DE].out.n, 2); /* by move and at, whatever the hardware */
}

static void test_place_plan__the_unknown_denies(void **state)
{
    bw_profile p;
    bw_plan plan = plan_of(*state, &p, PROFILE("{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":1,\"labels\":[\"sovereign-eu\"],\"purposes\":[\"search\"]}",
                                               ",\"certs\":[\"c5\"]"));
    assert_true(out_by(&plan.regions[P_DE].out, "policy:shares", "class 0: Store")); /* shares of "dark" count as 100 */
    assert_false(out_by(&plan.regions[P_FR].out, "policy:shares", "class 0: Store"));
    assert_true(out_by(&plan.regions[P_FR].out, "certs", "c5")); /* held somewhere, nobody said where */
    assert_int_equal(plan.nin, 0);
}

static void test_place_plan__no_permit_is_said(void **state)
{
    bw_profile p;
    bw_plan plan = plan_of(*state, &p, PROFILE("{\"tenant\":\"other\",\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":1,\"purposes\":[\"search\"]}", ""));
    assert_true(out_by(&plan.regions[P_FR].out, "policy:no-permit", "class 0: Store Query Embed Replicate"));
    assert_int_equal(plan.nin, 0);
}

static void test_place_plan__budget_and_unknown_prices(void **state)
{
    bw_profile p;
    bw_plan plan = plan_of(*state, &p, PROFILE(CLASS("EU"), ",\"spot\":true,\"budget\":{\"per_month\":300,\"currency\":\"USD\"}"));
    assert_true(out_by(&offer(&plan, "p:fr", "p:gpu", false)->out, "budget", NULL));
    const bw_offer *spot = offer(&plan, "p:fr", "p:gpu", true);
    assert_true(spot->in && spot->monthly < 0 && out_by(&spot->notes, "price-unknown", NULL));
    /* known costs first, cheapest first; nothing unknown among them */
    bool unknown = false;
    for (size_t i = 0; i < plan.nin; i++) {
        assert_false(unknown && plan.by_cost[i]->monthly >= 0);
        unknown = unknown || plan.by_cost[i]->monthly < 0;
        assert_true(i == 0 || plan.by_fit[i - 1]->fit >= plan.by_fit[i]->fit);
    }
    assert_true(unknown);
    plan = plan_of(*state, &p, PROFILE(CLASS("FR"), ",\"budget\":{\"per_month\":300,\"currency\":\"EUR\"}"));
    const bw_offer *gpu = offer(&plan, "p:fr", "p:gpu", false); /* no rate from USD to EUR: cannot be held against it */
    assert_true(gpu->in && gpu->monthly < 0 && out_by(&gpu->notes, "rate-unknown", "USD"));
}

#define TYPE(id, vcpu, gib) "{\"id\":\"" id "\",\"provider\":\"p\",\"accelerator\":\"X86\",\"accelerator_count\":0,\"vcpu\":" vcpu ",\"memory_gib\":" gib ",\"spot\":false," MARKET_FACT
#define COST(id, usd) "{\"instance\":\"" id "\",\"region\":\"p:fr\",\"market\":\"on-demand\",\"per_hour\":" usd ",\"currency\":\"USD\"," MARKET_FACT

/* Types that differ in one figure each, so that only one key of the order can part them. */
static void test_place_plan__ranks_by_each_key(void **state)
{
    fixture *f = *state;
    bw_market *usual = f->market;
    bw_profile p;
    assert_int_equal(market_read(f->ctx, f->catalogue, market_small,
        "{\"schema\":\"bailiwick.market/1\",\"date\":\"2026\",\"instances\":["
        TYPE("p:a-empty", "8", "64") "," TYPE("p:b-full", "8", "4") "," TYPE("p:a-dear", "8", "4") ","
        TYPE("p:fast", "16", "32") "," TYPE("p:as-fast", "16", "32") "," TYPE("p:unpriced", "1024", "32") "],\"prices\":["
        COST("p:a-empty", "0.1") "," COST("p:b-full", "0.1") "," COST("p:a-dear", "0.15") "," COST("p:fast", "0.2") ","
        COST("p:as-fast", "0.25") "]}", &f->market), BW_OK);
    bw_plan plan = plan_of(f, &p, PROFILE(CLASS("FR"), ",\"recall\":1"));
    const bw_offer *full = offer(&plan, "p:fr", "p:b-full", false), *empty = offer(&plan, "p:fr", "p:a-empty", false),
                   *dear = offer(&plan, "p:fr", "p:a-dear", false), *fast = offer(&plan, "p:fr", "p:fast", false),
                   *as_fast = offer(&plan, "p:fr", "p:as-fast", false), *unpriced = offer(&plan, "p:fr", "p:unpriced", false);
    /* of one cost, the better fit comes first, against the order of the ids */
    assert_true(near(full->monthly, 73) && near(empty->monthly, 73) && full->notes.n == empty->notes.n);
    assert_true(full->rank_cost == 1 && empty->rank_cost == 2 && dear->rank_cost == 3);
    /* of one fit, the lower cost, against the order of the ids */
    assert_true(full->fit == dear->fit && full->fit > empty->fit && full->rank_fit + 1 == dear->rank_fit);
    /* marked: the cheapest, then what is faster than all that is cheaper, and has a price */
    assert_true(full->pareto && fast->pareto);
    assert_true(!empty->pareto && !dear->pareto && !as_fast->pareto);
    assert_true(unpriced->in && unpriced->size.latency_ms < offer(&plan, "p:fr", "p:gpu", false)->size.latency_ms && !unpriced->pareto);
    bw_market_free(f->market);
    f->market = usual;
}

static void test_place_plan__a_list_without_it_keeps_a_type_out(void **state)
{
    fixture *f = *state;
    bw_market *usual = f->market;
    bw_profile p;
    assert_int_equal(market_read(f->ctx, f->catalogue, market_small,
        "{\"schema\":\"bailiwick.market/1\",\"date\":\"2026\",\"regions\":["
        "{\"id\":\"p:de\",\"provider\":\"p\",\"country\":\"DE\",\"access\":\"general\",\"accelerators\":[]," MARKET_FACT
        ",{\"id\":\"p:far\",\"provider\":\"p\",\"country\":\"FR\",\"access\":\"dedicated\",\"accelerators\":[]," MARKET_FACT "]}", &f->market), BW_OK);
    bw_plan plan = plan_of(f, &p, PROFILE(CLASS("EU"), ""));
    assert_true(out_by(&offer(&plan, "p:de", "p:gpu", false)->out, "not-seen-here", "GPU"));
    assert_true(offer(&plan, "p:de", "p:cpu", false)->in); /* lists of accelerators say nothing of CPUs */
    const bw_offer *far = offer(&plan, "p:far", "p:cpu", false);
    assert_true(out_by(&far->region->out, "dedicated-access", "for chosen customers; an overlay can open it") && !far->in);
    bw_market_free(f->market);
    f->market = usual;
}

static void test_place_plan__wishes(void **state)
{
    bw_profile p;
    bw_plan plan = plan_of(*state, &p, PROFILE(CLASS("EU"), ",\"countries\":[\"DE\"],\"hw\":[\"tee\"],\"inference_api\":[\"sagemaker-invoke\",\"tei\"],\"providers\":[\"q\"],\"replicas\":3"));
    assert_true(out_by(&plan.regions[P_FR].out, "country", "FR") && !out_by(&plan.regions[P_DE].out, "country", "DE"));
    assert_true(out_by(&plan.regions[P_DE].out, "inference-api", "sagemaker-invoke") && !out_by(&plan.regions[P_DE].out, "inference-api", "tei"));
    assert_true(out_by(&plan.regions[P_DE].out, "provider", "p"));
    bw_profile q;
    bw_plan zones = plan_of(*state, &q, PROFILE(CLASS("EU"), ",\"countries\":[\"EEA\"]"));
    assert_true(zones.regions[P_FR].in && zones.regions[P_DE].in); /* zones will do as well */
    const bw_offer *cpu = offer(&plan, "p:fr", "p:cpu", false);
    assert_true(out_by(&cpu->out, "hw", "tee") && cpu->machines == 3 && near(cpu->monthly, 3 * 0.25 * 730 * 1.25));
}

static void test_plan_print__says_all(void **state)
{
    fixture *f = *state;
    bw_profile p;
    bw_buf b = {0};
    bw_json *v;
    bw_plan plan = plan_of(f, &p, PROFILE(CLASS("FR"), ",\"name\":\"x\""));
    bw_plan_json(&plan, BW_STR("v"), &b);
    assert_int_equal(bw_json_parse(f->ctx, bw_buf_view(&b), BW_JSON_REQUEST, &v), BW_OK);
    assert_int_equal(bw_json_get(v, "in")->count, plan.nin);
    assert_int_equal(bw_json_get(bw_json_get(v, "out"), "regions")->count, 2);
    assert_int_equal(bw_json_get(bw_json_get(v, "out"), "offers")->count, 3);
    b.len = 0;
    bw_plan_table(&plan, BW_STR("v"), false, 1, &b);
    bw_buf_putc(&b, '\0');
    assert_non_null(strstr(b.ptr, "228.12 USD  1 x p:cpu in p:fr (FR)"));
    assert_non_null(strstr(b.ptr, "and 1 more"));
    assert_non_null(strstr(b.ptr, "     1  policy:move\n"));
    assert_null(strstr(b.ptr, "budget"));
    b.len = 0;
    plan = plan_of(f, &p, PROFILE(CLASS("FR"), ",\"budget\":{\"per_month\":1,\"currency\":\"CHF\"}"));
    bw_plan_table(&plan, BW_STR("v"), false, 1, &b);
    bw_buf_putc(&b, '\0');
    assert_non_null(strstr(b.ptr, "the budget kept none of them out: no price is known in CHF"));
    plan = plan_of(f, &p, PROFILE(CLASS("FR"), ",\"name\":\"x\""));
    b.len = 0;
    assert_true(bw_plan_explain(&plan, BW_STR("p:gpu"), &b) && bw_plan_explain(&plan, BW_STR("p:any"), &b));
    assert_false(bw_plan_explain(&plan, BW_STR("nowhere"), &b));
    bw_buf_putc(&b, '\0');
    assert_non_null(strstr(b.ptr, "machine: 16 vCPUs, 100 GiB, 2 x GPU of 100 GB, 1000 GB/s, 100 Tflop/s in f16\n"));
    assert_non_null(strstr(b.ptr, "t = 2 x max((500000 x 200 + 256 x 500000) / (0.9 x 1e+12), 64 x 500000 x 100 / (0.7 x 1e+14)) + 60 us; load 10 x t / 32\n"));
    assert_non_null(strstr(b.ptr, "1 x 2 USD an hour x 730 hours =      1460.00 USD a month"));
    assert_non_null(strstr(b.ptr, "unknown: country"));
    bw_buf_clear(&b);
}

static void plan_step(void *arg)
{
    fixture *f = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    if (ctx) {
        bw_json *v;
        bw_profile p;
        bw_plan plan;
        bw_buf b = {0};
        bw_status st = bw_json_parse(ctx, BW_STR(PROFILE(CLASS("FR"), ",\"actions\":[\"Store\"],\"countries\":[\"FR\"]")), BW_JSON_REQUEST, &v);
        if (st == BW_OK)
            st = bw_profile_read(ctx, f->catalogue, v, NULL, &p);
        if (st == BW_OK)
            st = bw_place_plan(ctx, f->authority, f->market, &p, &plan);
        if (st == BW_OK) {
            bw_plan_json(&plan, BW_STR("v"), &b);
            bw_plan_table(&plan, BW_STR("v"), false, 9, &b);
        }
        assert_true(st == BW_ENOMEM || st == BW_OK);
        assert_true(failing_hit || (st == BW_OK && !b.failed && plan.nin == 2));
        bw_buf_clear(&b);
    }
    bw_ctx_free(ctx);
}

static void test_place_plan__survives_every_failed_allocation(void **state)
{
    plan_step(*state); /* answers are cached from here on */
    long base = failing_live;
    assert_true(failing_sweep(plan_step, *state, 20000) > 20);
    assert_int_equal(failing_live, base);
}

int main(void)
{
    failing_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile_read__fills_in_what_is_usual),
        cmocka_unit_test(test_profile_read__says_numbers_as_they_are_written),
        cmocka_unit_test(test_profile_read__refuses_and_points),
        cmocka_unit_test(test_place_size__gpu),
        cmocka_unit_test(test_place_size__gpu_bound_by_arithmetic),
        cmocka_unit_test(test_place_size__cpu),
        cmocka_unit_test(test_place_size__grows_until_it_fits_or_cannot),
        cmocka_unit_test(test_place_size__model),
        cmocka_unit_test(test_place_plan__names_every_rule),
        cmocka_unit_test(test_place_plan__asks_for_each_kind_of_hardware),
        cmocka_unit_test(test_place_plan__closes_a_region_by_what_all_hardware_shares),
        cmocka_unit_test(test_place_plan__the_unknown_denies),
        cmocka_unit_test(test_place_plan__no_permit_is_said),
        cmocka_unit_test(test_place_plan__budget_and_unknown_prices),
        cmocka_unit_test(test_place_plan__ranks_by_each_key),
        cmocka_unit_test(test_place_plan__a_list_without_it_keeps_a_type_out),
        cmocka_unit_test(test_place_plan__wishes),
        cmocka_unit_test(test_plan_print__says_all),
        cmocka_unit_test(test_place_plan__survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
