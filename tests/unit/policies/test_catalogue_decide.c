/* Unknown denies, from the catalogue's rows to a decision; and the fact, once it is
 * known, turns it. */
#include <policies/decision.h>

#include <setjmp.h>
#include <cmocka.h>
#include "pack.h"

#define SD ",\"source\":\"s\",\"date\":\"2026-11-30\""

static const char policies[] =
    "@id(\"all\") permit (principal, action, resource);"
    "@id(\"where\") forbid (principal, action in Bw::Action::\"move\", resource is Bw::DataClass)"
    " unless { context.dest.country in resource.residency };"
    "@id(\"itar\") forbid (principal, action in Bw::Action::\"move\", resource is Bw::DataClass)"
    " when { resource.categories.contains(\"defence\") && context.dest.country in Bw::Zone::\"itar-proscribed\" };"
    "@id(\"saudi\") forbid (principal, action in Bw::Action::\"move\", resource is Bw::DataClass)"
    " when { resource.regimes.contains(\"pdpl-sa\") } unless { context.dest.country in [Bw::Zone::\"SA\", Bw::Zone::\"pdpl-sa-adequate\"] };"
    "@id(\"gdpr\") forbid (principal, action in Bw::Action::\"move\", resource is Bw::DataClass)"
    " when { resource.regimes.contains(\"gdpr\") } unless { context.dest.country in Bw::Zone::\"gdpr-adequate\" ||"
    " (context.dest.country in Bw::Zone::\"gdpr-adequate-conditional\" && !context.dest.country.adequacyCerts[\"gdpr\"].isEmpty() &&"
    " context.dest.operator.certs.containsAll(context.dest.country.adequacyCerts[\"gdpr\"])) };"
    "@id(\"control\") forbid (principal, action in Bw::Action::\"move\", resource is Bw::DataClass)"
    " when { resource.labels.contains(\"sovereign-eu\") } unless { [Bw::Zone::\"EU\"].containsAll(context.dest.operator.controlZones) &&"
    " context.dest.operator.foreignShareSum.lessThanOrEqual(decimal(\"39.0\")) };"
    "@id(\"reach\") forbid (principal, action in Bw::Action::\"move\", resource is Bw::DataClass)"
    " when { resource.labels.contains(\"confidential\") && (context.dest.country.localisation == \"unknown\" ||"
    " context.dest.country.foreignAccess != \"domestic\") };";

#define OPERATORS                                                                                                     \
    "\"legal_entities\":[{\"id\":\"plain\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"1.0\"," \
    "\"foreign_share_sum\":\"1.0\",\"baa_with\":[],\"certs\":[\"appi\"]" SD "},"                                      \
    "{\"id\":\"murky\",\"seat\":\"FR\",\"control_zones\":null,\"foreign_share_max\":\"1.0\","                         \
    "\"foreign_share_sum\":\"1.0\",\"baa_with\":[],\"certs\":null" SD "},"                                            \
    "{\"id\":\"shares\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":null,"                       \
    "\"foreign_share_sum\":null,\"baa_with\":[],\"certs\":[]" SD "}]"

/* "" for an allow, else the @id that denies. */
static const char *decide(bw_ctx *ctx, const char *rows, const char *labels, const char *country, const char *operator_id)
{
    bw_authority *a;
    bw_json *v;
    bw_labels l;
    bw_str text;
    bw_class_id id;
    bw_decision d;
    bw_catalogue *c = pack_catalogue(ctx, bw_arena_printf(ctx, "{" OPERATORS "%s%s}", rows[0] ? "," : "", rows));
    bw_authority_options o = {.schema = pack_file(ctx, "bw.cedarschema"), .policies = BW_STR(policies), .catalogue = c,
                              .at = {.id = BW_STR("here"), .country = BW_STR("FR"), .operator_id = BW_STR("plain")}};
    if (bw_authority_new(ctx, &o, &a) != BW_OK)
        fail_msg("authority: %s", bw_ctx_message(ctx));
    bw_principal who = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR")};
    bw_place there = {.id = BW_STR("there"), .country = bw_str_c(country), .operator_id = bw_str_c(operator_id)};
    bw_question q = {.principal = &who, .action = BW_ACTION_TRANSFER, .purpose = BW_STR("search"), .dest = &there};
    if (bw_json_parse(ctx, bw_str_c(labels), BW_JSON_REQUEST, &v) != BW_OK || bw_labels_parse(ctx, c, v, BW_STR("acme"), &l) != BW_OK)
        fail_msg("labels: %s", bw_ctx_message(ctx));
    assert_int_equal(bw_labels_canonical(ctx, &l, &text), BW_OK);
    bw_labels_class_id(text, &id);
    assert_int_equal(bw_decide_class(ctx, a, &q, &id, text, &d), BW_OK);
    assert_int_equal(d.nerrors, 0);
    const char *by = d.allow ? "" : bw_arena_printf(ctx, "%.*s", (int)d.policies[0].len, d.policies[0].ptr);
    bw_authority_free(a);
    bw_catalogue_free(c);
    return by;
}

#define CLASS(regime, where, more) "{\"regimes\":[\"" regime "\"],\"residency\":[\"" where "\"],\"sensitivity\":0" more "}"
#define DEFENCE ",\"categories\":[\"defence\"]"
#define SOVEREIGN ",\"labels\":[\"sovereign-eu\"]"
#define CONFIDENTIAL ",\"labels\":[\"confidential\"]"

static const struct {
    const char *rows, *labels, *country, *operator_id, *by;
} cases[] = {
    /* a country that nobody has looked into is outside the world, until somebody has */
    {"", CLASS("none", "world", ""), "AF", "plain", "where"},
    {"\"localisation\":[{\"country\":\"AF\",\"level\":\"none-known\"" SD "}]", CLASS("none", "world", ""), "AF", "plain", ""},
    {"\"localisation\":[{\"country\":\"JP\",\"level\":null" SD "}]", CLASS("none", "world", ""), "JP", "plain", "where"},
    {"", CLASS("none", "AF", ""), "AF", "plain", ""}, /* but it can be named */
    /* a deny-list that nobody wrote down denies everywhere, at home too */
    {"", CLASS("none", "world", DEFENCE), "DE", "plain", "itar"},
    {"\"zones\":[{\"id\":\"itar-proscribed\",\"kind\":\"deny\",\"countries\":[\"CN\"]" SD "}]", CLASS("none", "world", DEFENCE), "DE", "plain", ""},
    {"\"zones\":[{\"id\":\"itar-proscribed\",\"kind\":\"deny\",\"countries\":[\"CN\"]" SD "}]", CLASS("none", "world", DEFENCE), "CN", "plain", "itar"},
    /* so does an allow-list */
    {"", CLASS("pdpl-sa", "world", ""), "FR", "plain", "saudi"},
    {"\"zones\":[{\"id\":\"pdpl-sa-adequate\",\"kind\":\"allow\",\"countries\":[\"FR\"]" SD "}]", CLASS("pdpl-sa", "world", ""), "FR", "plain", ""},
    {"\"adequacy\":[{\"regime\":\"pdpl-sa\",\"country\":\"FR\",\"status\":\"full\"" SD "}]", CLASS("pdpl-sa", "world", ""), "FR", "plain", ""},
    /* a condition that is not known is not met; one that is binds the recipient */
    {"", CLASS("gdpr", "world", ""), "JP", "plain", ""},
    {"", CLASS("gdpr", "world", ""), "JP", "murky", "gdpr"},
    {"\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"JP\",\"status\":\"partial\",\"certs\":null" SD "}]", CLASS("gdpr", "world", ""), "JP", "plain", "gdpr"},
    {"\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"JP\",\"status\":null" SD "}]", CLASS("gdpr", "world", ""), "JP", "plain", "gdpr"},
    {"\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"JP\",\"remove\":true" SD "}]", CLASS("gdpr", "world", ""), "JP", "plain", "gdpr"},
    /* an operator of whom it is not known who controls it */
    {"", CLASS("none", "EU", SOVEREIGN), "FR", "plain", ""},
    {"", CLASS("none", "EU", SOVEREIGN), "FR", "murky", "control"},
    {"", CLASS("none", "EU", SOVEREIGN), "FR", "shares", "control"},
    /* what rules may read of a country */
    {"", CLASS("none", "world", CONFIDENTIAL), "JP", "plain", ""},
    {"", CLASS("none", "world", CONFIDENTIAL), "US", "plain", "reach"},
    {"", CLASS("none", "world", CONFIDENTIAL), "DK", "plain", "reach"},
    {"", CLASS("none", "AF", CONFIDENTIAL), "AF", "plain", "reach"},
};

static void test_catalogue__denies_what_nobody_knows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bw_ctx *ctx = bw_ctx_new(0);
        const char *by = decide(ctx, cases[i].rows, cases[i].labels, cases[i].country, cases[i].operator_id);
        if (strcmp(by, cases[i].by) != 0)
            fail_msg("%s to %s (%s) with %s: by \"%s\"", cases[i].labels, cases[i].country, cases[i].operator_id, cases[i].rows, by);
        bw_ctx_free(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_catalogue__denies_what_nobody_knows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
