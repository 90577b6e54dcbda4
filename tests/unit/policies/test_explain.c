/* Explained decisions: the values that failed, changes that turn a denial (all of them,
 * decided once more by the authority itself), none with a part that would do, and nothing
 * shown that the asker did not say. */
#include "explain_fixture.h"
#include "failing_alloc.h"

static void test_explain__tells_the_condition_and_its_values(void **state)
{
    fixture *f = *state;
    bw_authority *a = authority(f, f->policies);
    bw_principal ana = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 3};
    bw_question q = {.principal = &ana, .action = BW_ACTION_QUERY, .purpose = BW_STR("care")};
    bw_explain_ask ask = {.q = &q, .claimable = purposes, .nclaimable = 2,
        .label_text = labels(f, "{\"regimes\":[\"gdpr\"],\"residency\":[\"EU\"],\"sensitivity\":1,\"purposes\":[\"support\"]}")};
    bw_explanation e = explain(f, a, &ask);
    bw_str text = json_of(f, &e);
    assert_false(e.decision.allow);
    SAYS(text, "\"policies\":[\"purpose\"]");
    SAYS(text, "\"condition\":\"resource.purposes.contains(context.purpose)\",\"is\":false");
    SAYS(text, "\"context.purpose\":\"\\\"care\\\"\"");
    SAYS(text, "\"resource.purposes\":\"[\\\"support\\\"]\"");
    SAYS(text, "[{\"fact\":\"purpose\",\"set\":\"support\",\"by\":\"caller\"}]");
    SAYS(text, "[{\"fact\":\"labels.purposes\",\"add\":\"care\",\"by\":\"controller\"}]");
    assert_true(e.complete);
    q.purpose = BW_STR("support");
    e = explain(f, a, &ask);
    text = json_of(f, &e);
    assert_true(e.decision.allow && e.nsets == 0 && e.tried == 0);
    SAYS(text, "\"policy\":\"own-tenant\",\"effect\":\"permit\",\"why\":\"determining\"");
    SAYS(text, "\"policy\":\"residency-at\",\"effect\":\"forbid\",\"why\":\"checked\"");
    SAYS(text, "\"condition\":\"context.at.country in resource.residency\",\"is\":true");
    SAYS(text, "\"context.at.country\":\"Bw::Country::\\\"FR\\\"\"");
    bw_authority_free(a);
}

static void test_explain__tells_the_nearest_permit(void **state)
{
    fixture *f = *state;
    bw_authority *a = authority(f, f->policies);
    bw_principal low = {.id = BW_STR("low"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 1};
    bw_question q = {.principal = &low, .action = BW_ACTION_QUERY, .purpose = BW_STR("support")};
    bw_explain_ask ask = {.q = &q,
        .label_text = labels(f, "{\"regimes\":[\"gdpr\"],\"residency\":[\"EU\"],\"sensitivity\":4,\"purposes\":[\"support\"]}")};
    bw_explanation e = explain(f, a, &ask);
    bw_str text = json_of(f, &e);
    SAYS(text, "\"policies\":[],");
    SAYS(text, "\"policy\":\"own-tenant\",\"effect\":\"permit\",\"why\":\"nearest\"");
    SAYS(text, "\"condition\":\"principal.clearance >= resource.sensitivity\",\"is\":false");
    SAYS(text, "[{\"fact\":\"clearance\",\"set\":\"4\",\"by\":\"administrator\"}]");
    assert_false(says(text, "labels.sensitivity")); /* who cannot relabel is not told how */
    ask.privileged = true;
    e = explain(f, a, &ask);
    SAYS(json_of(f, &e), "[{\"fact\":\"labels.sensitivity\",\"set\":\"1\",\"by\":\"controller\"}]");
    bw_authority_free(a);
}

static void test_explain__names_an_error_and_what_mends_it(void **state)
{
    fixture *f = *state;
    bw_authority *a = authority(f, f->policies);
    bw_principal ana = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 3};
    bw_place dest = {.id = BW_STR("par9"), .country = BW_STR("FR"), .operator_id = BW_STR("nobody"), .certs = none, .hw = none};
    static const bw_str snc[] = {{"secnumcloud-3.2", 15}};
    dest.certs = snc;
    dest.ncerts = 1;
    bw_question q = {.principal = &ana, .action = BW_ACTION_STORE, .purpose = BW_STR(""), .dest = &dest};
    bw_explain_ask ask = {.q = &q,
        .label_text = labels(f, "{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":1,\"labels\":[\"sovereign-eu\"]}")};
    bw_explanation e = explain(f, a, &ask);
    bw_str text = json_of(f, &e);
    assert_false(e.decision.allow);
    SAYS(text, "\"policies\":[\"no-extra-eu-control\"],\"errors\":[\"no-extra-eu-control\"]");
    SAYS(text, "\"why\":\"error\"");
    SAYS(text, "\"is\":\"error\",\"error\":\"attribute of an entity that is in no store\"");
    SAYS(text, "\"context.dest.operator.seat\":null");
    SAYS(text, "[{\"fact\":\"dest.operator\",\"set\":\"eucloud\",\"by\":\"caller\"}]");
    bw_authority_free(a);
}

/* Other tenants' names: in an operator's contracts, in conditions, in policies. */
static void test_explain__shows_nothing_of_others(void **state)
{
    fixture *f = *state;
    bw_str more = BW_STR(
        "@id(\"partners\") permit (principal, action, resource) when { principal.tenant == Bw::Tenant::\"zanzibar\" };"
        "@id(\"barred\") forbid (principal, action == Bw::Action::\"Query\", resource) when { [Bw::Tenant::\"zanzibar\", Bw::Tenant::\"acme\"].contains(principal.tenant) };"
        "@id(\"words\") forbid (principal, action == Bw::Action::\"Query\", resource) when { context.purpose != \"project-zanzibar\" && resource.purposes.contains(\"support\") };"
        "@id(\"pattern\") forbid (principal, action == Bw::Action::\"Query\", resource) unless { context.purpose like \"zanzibar-*\" };"
        "@id(\"open\") permit (principal, action == Bw::Action::\"ManageCollection\", resource) when { context.purpose like \"zanzibar-*\" };");
    char *all = bw_arena_printf(f->ctx, "%.*s%.*s", (int)f->policies.len, f->policies.ptr, (int)more.len, more.ptr);
    bw_authority *a = authority(f, bw_str_c(all));
    bw_principal ana = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 1};
    bw_place dest = {.id = BW_STR("va1"), .country = BW_STR("US"), .operator_id = BW_STR("uscloud"), .certs = none, .hw = none};
    bw_question q = {.principal = &ana, .action = BW_ACTION_STORE, .purpose = BW_STR(""), .dest = &dest};
    bw_explain_ask ask = {.q = &q,
        .label_text = labels(f, "{\"regimes\":[\"hipaa\"],\"residency\":[\"US\"],\"sensitivity\":1,\"categories\":[\"phi\"],\"purposes\":[\"support\"]}")};
    bw_explanation e = explain(f, a, &ask);
    bw_str text = json_of(f, &e);
    SAYS(text, "\"context.dest.operator.baaWith\":\"[]\"");
    SAYS(text, "{\"fact\":\"dest.operator.baaWith\",\"add\":\"acme\",\"by\":\"operator\"}");
    assert_false(says(text, "hosp"));
    q.action = BW_ACTION_QUERY;
    q.purpose = BW_STR("support");
    q.dest = NULL;
    e = explain(f, a, &ask);
    text = json_of(f, &e);
    SAYS(text, "\"policies\":[\"barred\",\"pattern\",\"residency-at\",\"words\"]");
    SAYS(text, "[Bw::Tenant::\\\"...\\\", Bw::Tenant::\\\"acme\\\"].contains(principal.tenant)");
    SAYS(text, "context.purpose != \\\"...\\\"");
    SAYS(text, "context.purpose like \\\"...\\\"");
    assert_false(says(text, "zanzibar"));
    q.action = BW_ACTION_MANAGE_COLLECTION;
    ask = (bw_explain_ask){.q = &q, .kind = "Collection", .tenant = BW_STR("acme"), .name = BW_STR("docs")};
    e = explain(f, a, &ask);
    text = json_of(f, &e);
    SAYS(text, "\"policy\":\"manage-collection\",\"effect\":\"permit\",\"why\":\"nearest\"");
    SAYS(text, "[{\"fact\":\"roles\",\"add\":\"editor\",\"by\":\"administrator\"}]");
    assert_false(says(text, "partners") || says(text, "\"open\"") || e.complete); /* it does not claim to have looked at all */
    ask.privileged = true;
    e = explain(f, a, &ask);
    SAYS(json_of(f, &e), "\"policy\":\"partners\"");
    bw_authority_free(a);
}

/* The decision fits the limit of steps; its reasons, which evaluate each part and its sides
 * once more, do not. */
static void test_explain__says_when_the_reasons_cost_too_much(void **state)
{
    enum { WORDS = 20000 };
    fixture *f = *state;
    bw_buf b = {0};
    bw_str *words = bw_arena_calloc(f->ctx, WORDS, sizeof *words);
    for (int i = 0; i < WORDS; i++)
        words[i] = bw_str_c(bw_arena_printf(f->ctx, "w%05d", i));
    bw_buf_puts(&b, "permit (principal, action, resource is Bw::DataClass) when { true");
    for (int i = 0; i < 30; i++)
        bw_buf_puts(&b, " && context.safeguards.containsAll(context.safeguards) == true");
    bw_buf_puts(&b, " };");
    bw_authority *a = authority(f, bw_buf_view(&b));
    bw_buf_clear(&b);
    bw_principal ana = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 3};
    bw_question q = {.principal = &ana, .action = BW_ACTION_QUERY, .purpose = BW_STR(""),
                     .safeguards = words, .nsafeguards = WORDS};
    bw_explain_ask ask = {.q = &q, .privileged = true,
                          .label_text = labels(f, "{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":1}")};
    bw_explanation e;
    bw_decision d;
    bw_class_id id;
    bw_labels_class_id(ask.label_text, &id);
    assert_int_equal(bw_decide_class(f->ctx, a, &q, &id, ask.label_text, &d), BW_OK);
    assert_true(d.allow);
    assert_int_equal(bw_explain(f->ctx, a, &ask, &e), BW_EUNAVAILABLE);
    assert_string_equal(bw_ctx_message(f->ctx), "evaluation takes too many steps to be explained");
    bw_authority_free(a);
}

/* A policy's list of any length costs a caller's explanation little: a thousand of its items
 * are looked at, and it says that they were not all. */
static void test_explain__looks_at_so_much_of_a_long_list(void **state)
{
    fixture *f = *state;
    for (int words = 900; words <= 1200; words += 300) {
        bw_buf b = {0};
        bw_buf_puts(&b, "permit (principal, action, resource is Bw::DataClass);"
                        "@id(\"listed\") forbid (principal, action, resource is Bw::DataClass) unless {"
                        " context.safeguards.containsAny([");
        for (int i = 0; i < words; i++)
            bw_buf_printf(&b, "\"a%04d\",", i);
        bw_buf_puts(&b, "\"scc\"]) };");
        bw_authority *a = authority(f, bw_buf_view(&b));
        bw_buf_clear(&b);
        bw_principal ana = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 3};
        bw_question q = {.principal = &ana, .action = BW_ACTION_QUERY, .purpose = BW_STR("")};
        bw_explain_ask ask = {.q = &q,
                              .label_text = labels(f, "{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":1}")};
        bw_explanation e = explain(f, a, &ask);
        assert_false(e.decision.allow);
        assert_int_equal(e.complete, words < 1000);
        assert_int_equal(says(json_of(f, &e), "\"add\":\"scc\""), words < 1000);
        bw_authority_free(a);
    }
}

/* ---- memory ---- */

typedef struct failing {
    bw_authority *a;
    const bw_explain_ask *ask;
    const bw_str *right;
} failing;

static void explain_step(void *arg)
{
    const failing *x = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_explanation e;
    bw_buf b = {0};
    if (!ctx)
        return;
    bw_status st = bw_explain(ctx, x->a, x->ask, &e);
    assert_true(st == BW_OK || (st == BW_ENOMEM && failing_hit));
    if (st == BW_OK) { /* never another explanation */
        bw_buf_putc(&b, '{');
        bw_explanation_put(&b, &e);
        bw_buf_putc(&b, '}');
        assert_true(b.failed || bw_str_eq(bw_buf_view(&b), *x->right));
        bw_buf_clear(&b);
    }
    bw_ctx_free(ctx);
}

static void test_explain__survives_every_failed_allocation(void **state)
{
    fixture *f = *state;
    bw_authority *a = authority(f, BW_STR(
        "@id(\"own\") permit (principal, action, resource is Bw::DataClass) when { resource.tenant == principal.tenant };"
        "@id(\"baa\") forbid (principal, action in Bw::Action::\"move\", resource is Bw::DataClass) unless { context.dest.operator.baaWith.contains(resource.tenant) && context.dest.hw.contains(\"tee\") };"));
    bw_principal ana = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 3};
    bw_question q = {.principal = &ana, .action = BW_ACTION_TRANSFER, .purpose = BW_STR("")};
    bw_explain_ask ask = {.q = &q, .label_text = labels(f, "{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":1}")};
    bw_explanation e = explain(f, a, &ask);
    bw_str right = json_of(f, &e);
    SAYS(right, "[{\"fact\":\"dest.hw\",\"add\":\"tee\",\"by\":\"operator\"},{\"fact\":\"dest.operator.baaWith\",\"add\":\"acme\"");
    failing x = {a, &ask, &right};
    long base = failing_live;
    assert_true(failing_sweep(explain_step, &x, 20000) > 20);
    assert_int_equal(failing_live, base);
    bw_authority_free(a);
}

int main(void)
{
    failing_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explain__tells_the_condition_and_its_values),
        cmocka_unit_test(test_explain__tells_the_nearest_permit),
        cmocka_unit_test(test_explain__names_an_error_and_what_mends_it),
        cmocka_unit_test(test_explain__shows_nothing_of_others),
        cmocka_unit_test(test_explain__says_when_the_reasons_cost_too_much),
        cmocka_unit_test(test_explain__looks_at_so_much_of_a_long_list),
        cmocka_unit_test(test_explain__survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
