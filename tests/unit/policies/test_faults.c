/* Out of memory at every allocation of labels, catalogue and decisions: right, or
 * BW_ENOMEM and never an allow; nothing stays behind; the old policies stay in force. */
#include <policies/decision.h>

#include <setjmp.h>
#include <cmocka.h>
#include "failing_alloc.h"
#include "pack.h"

#define SOURCED ",\"source\":\"test\",\"date\":\"2026-01-01\""
static const char small_catalogue[] =
    "{\"date\":\"2026-01-01\",\"zones\":[{\"id\":\"EU\",\"kind\":\"group\",\"countries\":[\"DE\"]" SOURCED "},{\"id\":\"ok\",\"kind\":\"allow\"" SOURCED "},"
    "{\"id\":\"half\",\"kind\":\"allow\"" SOURCED "}],\"countries\":[{\"code\":\"FR\",\"in\":[\"EU\"]" SOURCED "},{\"code\":\"DE\"" SOURCED "}],"
    "\"localisation\":[{\"country\":\"DE\",\"level\":\"strict\"" SOURCED "}],\"foreign_access\":[{\"country\":\"DE\",\"law\":null,\"extraterritorial\":null" SOURCED "}],"
    "\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"FR\",\"status\":\"partial\",\"certs\":[\"c\"]" SOURCED "},{\"regime\":\"uk-gdpr\",\"country\":\"FR\",\"status\":\"full\"" SOURCED "}],"
    "\"legal_entities\":[{\"id\":\"op\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],"
    "\"foreign_share_max\":\"1.0\",\"foreign_share_sum\":\"1.0\",\"baa_with\":[\"t\"],\"certs\":[]" SOURCED "}],"
    "\"vocabulary\":{\"regimes\":[{\"word\":\"gdpr\",\"zone\":\"ok\",\"conditional\":\"half\"" SOURCED "},{\"word\":\"uk-gdpr\",\"zone\":\"ok\",\"conditional\":\"half\"" SOURCED "},"
    "{\"word\":\"fadp\",\"zone\":\"ok\",\"conditional\":\"half\"" SOURCED "}],\"purposes\":[{\"word\":\"a\"" SOURCED "}],\"certs\":[{\"word\":\"c\"" SOURCED "}]}}";
static const char small_policies[] =
    "@id(\"own\") permit (principal, action, resource is Bw::DataClass) when { resource.tenant == principal.tenant };"
    "@id(\"where\") forbid (principal, action in Bw::Action::\"move\", resource is Bw::DataClass) unless { context.dest.country in resource.residency };";

static void labels_step(void *arg)
{
    const bw_catalogue *catalogue = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    if (ctx) {
        bw_json *v;
        bw_labels l;
        bw_str text, again;
        bw_status st = bw_json_parse(ctx, BW_STR("{\"regimes\":[\"gdpr\",\"fadp\",\"gdpr\"],\"residency\":[\"FR\",\"EU\"],\"sensitivity\":3,\"purposes\":\"a\"}"),
                                     BW_JSON_REQUEST, &v);
        if (st == BW_OK)
            st = bw_labels_parse(ctx, catalogue, v, BW_STR("acme"), &l);
        if (st == BW_OK)
            st = bw_labels_canonical(ctx, &l, &text);
        if (st == BW_OK)
            st = bw_labels_from_canonical(ctx, text, &l);
        if (st == BW_OK)
            st = bw_labels_canonical(ctx, &l, &again);
        assert_true(st == (failing_hit ? BW_ENOMEM : BW_OK));
        if (st == BW_OK)
            assert_true(bw_str_eq(text, again));
        bw_ctx_reset(ctx);
        st = bw_json_parse(ctx, BW_STR("{\"regimes\":[\"grdp\"]}"), BW_JSON_REQUEST, &v);
        if (st == BW_OK)
            assert_true(bw_labels_parse(ctx, catalogue, v, BW_STR("acme"), &l) != BW_OK);
    }
    bw_ctx_free(ctx);
}

/* Lists and accounts: whole, or BW_ENOMEM. */
static void catalogue_tell(bw_ctx *ctx, const bw_catalogue *c)
{
    bw_catalogue_scope all = {.entities = BW_STR("[{\"uid\":{\"type\":\"Bw::Node\",\"id\":\"n\"},\"attrs\":{},\"parents\":[]}]")};
    bw_catalogue_gap *gaps;
    size_t n = 0;
    bw_buf shown = {0}, diff = {0};
    bw_status st = bw_catalogue_gaps(ctx, c, &all, &gaps, &n);
    assert_true(st == (failing_hit ? BW_ENOMEM : BW_OK));
    if (st == BW_OK)
        st = bw_catalogue_stale(ctx, c, BW_STR("2028-01-01"), 1, &gaps, &n);
    if (st == BW_OK)
        st = bw_catalogue_show(ctx, c, (bw_str){0}, &shown);
    if (st == BW_OK)
        st = bw_catalogue_diff(ctx, c, c, &diff, &n);
    assert_true(st == (failing_hit ? BW_ENOMEM : BW_OK));
    bw_buf_clear(&shown);
    bw_buf_clear(&diff);
}

static void catalogue_step(void *arg)
{
    (void)arg;
    bw_ctx *ctx = bw_ctx_new(0);
    if (ctx) {
        bw_catalogue *c = NULL;
        bw_status st = bw_catalogue_parse(ctx, BW_STR(small_catalogue), BW_STR("{\"countries\":[{\"code\":\"XX\"" SOURCED "}]}"), &c);
        assert_true(st == (failing_hit ? BW_ENOMEM : BW_OK));
        if (st == BW_OK)
            catalogue_tell(ctx, c);
        bw_catalogue_free(c);
    }
    bw_ctx_free(ctx);
}

typedef struct deciding {
    bw_str schema;
    bw_catalogue *catalogue;
    bw_authority *authority; /* NULL: made by the step */
} deciding;

static bw_status authority_make(bw_ctx *ctx, const deciding *d, bw_authority **out)
{
    bw_authority_options o = {.schema = d->schema, .policies = BW_STR(small_policies), .catalogue = d->catalogue,
                              .at = {.id = BW_STR("n"), .country = BW_STR("FR"), .operator_id = BW_STR("op")}};
    return bw_authority_new(ctx, &o, out);
}

static void authority_step(void *arg)
{
    bw_ctx *ctx = bw_ctx_new(0);
    if (ctx) {
        bw_authority *a = NULL;
        bw_status st = authority_make(ctx, arg, &a);
        assert_true(st == (failing_hit ? BW_ENOMEM : BW_OK));
        bw_authority_free(a);
    }
    bw_ctx_free(ctx);
}

static void decide_step(void *arg)
{
    const deciding *d = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    if (!ctx)
        return;
    bw_principal who = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 3};
    bw_question q = {.principal = &who, .action = BW_ACTION_STORE, .purpose = BW_STR("a")};
    static const bw_str eu = {"EU", 2}, de = {"DE", 2};
    bw_labels good = {.tenant = BW_STR("acme"), .residency = {&eu, 1}}, bad = {.tenant = BW_STR("acme"), .residency = {&de, 1}};
    bw_str texts[2];
    bw_class_id ids[2];
    uint8_t digest[16];
    bw_permit permit;
    bw_decision answer = {.allow = true};
    bw_status st = bw_labels_canonical(ctx, &good, &texts[0]);
    if (st == BW_OK)
        st = bw_labels_canonical(ctx, &bad, &texts[1]);
    if (st == BW_OK) {
        bw_labels_class_id(texts[0], &ids[0]);
        bw_labels_class_id(texts[1], &ids[1]);
        /* a fresh set each time, so that the cache is cold */
        st = bw_authority_set_policies(ctx, d->authority, BW_STR(small_policies));
        assert_true(st == BW_OK || st == BW_ENOMEM);
        st = bw_decide_class(ctx, d->authority, &q, &ids[1], texts[1], &answer);
        assert_false(answer.allow);
    }
    if (st == BW_OK) {
        assert_int_equal(answer.npolicies, 1);
        assert_true(bw_str_is(answer.policies[0], "where"));
        if (bw_class_id_cmp(&ids[0], &ids[1]) > 0) {
            bw_class_id id = ids[0];
            bw_str text = texts[0];
            ids[0] = ids[1];
            texts[0] = texts[1];
            ids[1] = id;
            texts[1] = text;
        }
        st = bw_permitted_set(ctx, d->authority, &q, ids, texts, 2, &permit, digest);
        if (st == BW_OK)
            assert_int_equal(permit.n, 1);
    }
    assert_true(st == BW_OK || st == BW_ENOMEM);
    if (!failing_hit)
        assert_int_equal(st, BW_OK);
    bw_ctx_free(ctx);
}

static bw_status small_pack(void *user, bw_ctx *ctx, const char *file, bw_str *out)
{
    (void)user;
    if (strcmp(file, "sets/s.set") == 0)
        return bw_arena_str(ctx, BW_STR("a\n"), out);
    return strcmp(file, "a.cedar") ? bw_fail(ctx, BW_ENOTFOUND, "no such file")
                                   : bw_arena_str(ctx, BW_STR(small_policies), out);
}

static void compose_step(void *arg)
{
    (void)arg;
    bw_pack_source source = {small_pack, NULL};
    bw_ctx *ctx = bw_ctx_new(0);
    if (ctx) {
        bw_str out = {NULL, 7};
        bw_status st = bw_pack_compose(ctx, &source, &BW_STR("s"), 1, &out);
        assert_true(st == (failing_hit ? BW_ENOMEM : BW_OK));
        assert_true(st == BW_OK || out.len == 7);
    }
    bw_ctx_free(ctx);
}

static void test_policies__survive_every_failed_allocation(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    deciding d = {.schema = pack_file(ctx, "bw.cedarschema")};
    assert_int_equal(bw_catalogue_parse(ctx, BW_STR(small_catalogue), (bw_str){0}, &d.catalogue), BW_OK);
    long base = failing_live;
    assert_true(failing_sweep(labels_step, d.catalogue, 2000) > 3);
    assert_int_equal(failing_live, base);
    assert_true(failing_sweep(catalogue_step, NULL, 20000) > 20);
    assert_int_equal(failing_live, base);
    assert_true(failing_sweep(authority_step, &d, 50000) > 20);
    assert_int_equal(failing_live, base);
    assert_true(failing_sweep(compose_step, NULL, 2000) > 5);
    assert_int_equal(failing_live, base);
    assert_int_equal(authority_make(ctx, &d, &d.authority), BW_OK);
    assert_true(failing_sweep(decide_step, &d, 20000) > 20);
    bw_authority_free(d.authority);
    bw_catalogue_free(d.catalogue);
    bw_ctx_free(ctx);
    assert_int_equal(failing_live, 0);
}

int main(void)
{
    failing_set();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_policies__survive_every_failed_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
