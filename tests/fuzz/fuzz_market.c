/* Market files, overlays and profiles: nothing crashes, and what is accepted can be read
 * out whole: entities that parse, a place for every region with a country, a plan whose
 * JSON parses and in which everything that is out says why. */
#include <policies/place.h>

#include <stdio.h>
#include <stdlib.h>

#include "market.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(c)                                                                         \
    do {                                                                                 \
        if (!(c)) {                                                                      \
            fprintf(stderr, "fuzz_market: %s (line %d)\n", #c, __LINE__);                \
            abort();                                                                     \
        }                                                                                \
    } while (0)

#define SOURCED ",\"source\":\"s\",\"date\":\"2026-01-01\""
static const char catalogue_text[] =
    "{\"date\":\"2026-01-01\",\"zones\":[{\"id\":\"EU\",\"kind\":\"group\"" SOURCED "},{\"id\":\"w\",\"kind\":\"group\"" SOURCED "}],"
    "\"countries\":[{\"code\":\"FR\",\"in\":[\"EU\"]" SOURCED "},{\"code\":\"DE\",\"in\":[\"EU\"]" SOURCED "}],"
    "\"vocabulary\":{\"regimes\":[{\"word\":\"gdpr\"" SOURCED "}],\"hw\":[{\"word\":\"tee\"" SOURCED "},{\"word\":\"gpu\"" SOURCED "}],\"purposes\":[{\"word\":\"a\"" SOURCED "}]}}";
static const char schema_text[] =
    "namespace Bw { entity Zone in [Zone]; entity Country in [Zone] = { \"adequacyCerts\": {}, \"localisation\": String, \"foreignAccess\": String }; entity Tenant; entity Role;"
    "entity LegalEntity = { \"seat\": Country, \"controlZones\": Set<Zone>, \"foreignShareMax\": decimal, \"foreignShareSum\": decimal, \"baaWith\": Set<Tenant>, \"certs\": Set<String> };"
    "entity Node = { \"country\": Country, \"operator\": LegalEntity, \"certs\": Set<String>, \"hw\": Set<String> };"
    "entity Identity in [Role] = { \"tenant\": Tenant, \"clearance\": Long, \"seat\": Country };"
    "entity DataClass = { \"tenant\": Tenant, \"regimes\": Set<String>, \"residency\": Set<Zone>, \"sensitivity\": Long, \"categories\": Set<String>, \"labels\": Set<String>, \"purposes\": Set<String>, \"legalHold\": Bool };"
    "type Access = { \"at\": Node, \"purpose\": String, \"safeguards\": Set<String> };"
    "type Move = { \"at\": Node, \"dest\": Node, \"purpose\": String, \"safeguards\": Set<String> };"
    "action Query, Delete, Relabel, Erase appliesTo { principal: [Identity], resource: [DataClass], context: Access };"
    "action Store, Replicate, Transfer, Export, Embed appliesTo { principal: [Identity], resource: [DataClass], context: Move }; }";
static const char policy_text[] =
    "permit (principal, action, resource); @id(\"r\") forbid (principal, action == Bw::Action::\"Store\", resource) unless { context.dest.country in resource.residency };";
static const char profile_text[] =
    "{\"principal\":{\"principal\":\"u\",\"tenant\":\"t\",\"seat\":\"FR\",\"clearance\":1,\"roles\":[]},\"classes\":[{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":0}],"
    "\"actions\":[\"Store\"],\"vectors\":1000,\"dimension\":10,\"qps\":1}";

static bw_catalogue *catalogue;

static void check_facts(bw_ctx *ctx, const bw_market *m, bw_buf *entities)
{
    const bw_region *r;
    bw_json *v;
    bw_buf_putc(entities, '[');
    CHECK(bw_market_entities(ctx, m, NULL, entities) == BW_OK);
    bw_buf_putc(entities, ']');
    CHECK(bw_json_parse(ctx, bw_buf_view(entities), BW_JSON_CEDAR, &v) == BW_OK);
    for (size_t i = 0; (r = bw_market_row(m, BW_MARKET_REGIONS, i)) != NULL; i++) {
        bw_texts gaps;
        bw_place p;
        CHECK(bw_market_gaps(ctx, m, r, &gaps) == BW_OK);
        CHECK(!r->country.ptr || bw_market_place(ctx, m, r, (bw_texts){NULL, 0}, &p) == BW_OK);
    }
}

static void check_plan(bw_ctx *ctx, const bw_market *m, const bw_profile *p, bw_str entities)
{
    bw_authority *a = NULL;
    bw_plan plan;
    bw_json *v;
    bw_buf b = {0};
    bw_authority_options o = {.schema = bw_str_c(schema_text), .policies = bw_str_c(policy_text), .entities = entities, .catalogue = catalogue,
                              .at = {.id = BW_STR("x"), .country = BW_STR("FR"), .operator_id = BW_STR("e")}};
    CHECK(bw_authority_new(ctx, &o, &a) == BW_OK);
    bw_status st = bw_place_plan(ctx, a, m, p, &plan);
    CHECK(st == BW_OK || st == BW_EINVALID);
    if (st == BW_OK) {
        for (size_t r = 0; r < plan.nregions; r++)
            for (size_t i = 0; i < plan.regions[r].noffers; i++) {
                const bw_offer *x = &plan.regions[r].offers[i];
                CHECK(x->in || x->out.n > 0 || plan.regions[r].out.n > 0);
                CHECK(!x->in || (x->size.memory_use <= 1 && x->size.load <= 1 && x->size.count >= 1));
            }
        bw_plan_json(&plan, BW_STR("v"), &b);
        CHECK(!b.failed && bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_CEDAR, &v) == BW_OK);
        bw_plan_table(&plan, BW_STR("v"), true, 5, &b);
        (void)bw_plan_explain(&plan, BW_STR("p:fr"), &b);
        CHECK(!b.failed);
    }
    bw_buf_clear(&b);
    bw_authority_free(a);
}

static void plan_market(bw_ctx *ctx, const bw_market *m, bw_str profile)
{
    bw_buf entities = {0};
    bw_profile p;
    bw_json *v;
    check_facts(ctx, m, &entities);
    bw_status st = bw_json_parse(ctx, profile, BW_JSON_REQUEST, &v);
    if (st == BW_OK)
        st = bw_profile_read(ctx, catalogue, v, NULL, &p);
    CHECK(st == BW_OK || st == BW_EINVALID);
    if (st == BW_OK)
        check_plan(ctx, m, &p, bw_buf_view(&entities));
    bw_buf_clear(&entities);
}

/* The first byte says what the rest is: a market, an overlay over the small one, or a
 * profile over it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bw_ctx *ctx = bw_ctx_new(64 * 1024 * 1024);
    bw_market *m = NULL;
    if (size == 0 || size > 16384) {
        bw_ctx_free(ctx);
        return 0;
    }
    CHECK(ctx);
    if (!catalogue)
        CHECK(bw_catalogue_parse(ctx, bw_str_c(catalogue_text), (bw_str){0}, &catalogue) == BW_OK);
    const bw_str rest = {(const char *)data + 1, size - 1};
    const bw_market_file files[] = {{"m", data[0] == 'm' ? rest : bw_str_c(market_small)}, {"o", rest}};
    bw_status st = bw_market_load(ctx, catalogue, files, data[0] == 'o' ? 2 : 1, &m);
    CHECK(st == BW_OK || st == BW_EINVALID);
    if (st == BW_OK)
        plan_market(ctx, m, data[0] == 'm' || data[0] == 'o' ? bw_str_c(profile_text) : rest);
    bw_market_free(m);
    bw_ctx_free(ctx);
    return 0;
}
