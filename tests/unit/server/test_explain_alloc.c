/* Out of memory at every allocation of POST /v1/explain: the whole answer or BW_ENOMEM,
 * and nothing stays behind. */
#include <server/gate_request.h>
#include <server/v1_explain.h>

#include <setjmp.h>
#include <sodium.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "pack.h"

typedef struct fixture {
    bw_ctx *ctx;
    bw_server server;
    bw_caller caller;
    bw_str body, right;
} fixture;

static int setup(void **state)
{
    static fixture f;
    static const bw_str roles[] = {{"auditor", 7}}, none[1];
    bw_server *s = &f.server;
    assert_true(sodium_init() >= 0);
    f.ctx = bw_ctx_new(0);
    assert_int_equal(bw_config_parse(f.ctx, BW_STR(""), NULL, 0, &s->config), BW_OK);
    s->config.cell_id = BW_STR("par1");
    s->catalogue = pack_catalogue(f.ctx, "{}");
    bw_authority_options o = {.schema = pack_file(f.ctx, "bw.cedarschema"),
                              .policies =
                                  pack_compose(f.ctx, &BW_STR("eu-baseline"), 1),
                              .catalogue = s->catalogue,
                              .at = {.id = BW_STR("par1"),
                                     .country = BW_STR("FR"),
                                     .operator_id = BW_STR("eucloud"),
                                     .certs = none,
                                     .hw = none}};
    if (bw_authority_new(f.ctx, &o, &s->authority) != BW_OK)
        fail_msg("authority: %s", bw_ctx_message(f.ctx));
    f.caller = (bw_caller){.principal = {.id = BW_STR("ana"),
                                         .tenant = BW_STR("acme"),
                                         .seat = BW_STR("FR"),
                                         .roles = roles,
                                         .nroles = 1}};
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_authority_free(f->server.authority);
    bw_catalogue_free(f->server.catalogue);
    bw_ctx_free(f->ctx);
    return 0;
}

static bw_status explain(fixture *f, bw_ctx *ctx, bw_response *out)
{
    gate_request g = {
        .pub = {
            .ctx = ctx, .server = &f->server, .body = f->body, .caller = &f->caller}};
    bw_audit_record_init(&g.record, ctx, "request");
    g.pub.audit = &g.record;
    bw_status st = bw_v1_explain(&g.pub, out);
    bw_gate__clear(&g);
    return st;
}

static void explain_step(void *arg)
{
    fixture *f = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_response out = {0};
    if (!ctx)
        return;
    bw_status st = explain(f, ctx, &out);
    assert_true(st == BW_OK || (st == BW_ENOMEM && failing_hit));
    if (st == BW_OK)
        assert_true(bw_str_eq(bw_buf_view(&out.body), f->right));
    bw_buf_clear(&out.body);
    bw_ctx_free(ctx);
}

static void test_v1_explain__survives_every_failed_allocation(void **state)
{
    static const char *const bodies[] = {
        "{\"action\":\"Query\",\"labels\":{\"regimes\":[\"gdpr\"],\"residency\":["
        "\"EU\"],"
        "\"sensitivity\":0,\"purposes\":[\"support\"]},\"changes_max\":1}",
        "{\"action\":\"Query\",\"principal\":{\"principal\":\"bob\",\"tenant\":"
        "\"acme\","
        "\"seat\":\"FR\",\"clearance\":1},\"labels\":{\"tenant\":\"acme\",\"regimes\":"
        "[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":1},\"changes_max\":1}"};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        bw_response out = {0};
        f->body = bw_str_c(bodies[i]);
        if (explain(f, f->ctx, &out) != BW_OK)
            fail_msg("%s: %s %s", bodies[i], bw_ctx_pointer(f->ctx),
                     bw_ctx_message(f->ctx));
        assert_int_equal(bw_arena_str(f->ctx, bw_buf_view(&out.body), &f->right),
                         BW_OK);
        bw_buf_clear(&out.body);
        long base = failing_live, runs = failing_sweep(explain_step, f, 20000);
        printf("%ld places to fail\n", runs);
        assert_true(runs > 20);
        assert_int_equal(failing_live, base);
    }
}

int main(void)
{
    failing_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v1_explain__survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
