/* Out of memory at every allocation of a whole use of Cedar: BW_ENOMEM or the right
 * answer, never another; nothing stays behind. */
#include "cedar_fixture.h"
#include "failing_alloc.h"

static const char text[] = "@id(\"a\") permit(principal is User in G::\"g\", action in "
                           "[Action::\"x\", Action::\"all\"], resource)"
                           " when { [context.n, if true then 1 else 2].contains(1) && "
                           "{a: principal.n, \"b c\": [1]}.a == 1 }"
                           " when { ip(context.s).isInRange(ip(\"10.0.0.0/8\")) || "
                           "principal.s like \"a*b\\x2a\" }"
                           " unless { principal has r.q && principal.r.q > -5 };"
                           "forbid(principal, action, resource) when { resource in "
                           "G::\"top\" && 1 + 2 * 3 == 0 };"
                           "permit(principal == ?principal, action, resource);";
static const char valid[] =
    "permit(principal in ?principal, action in [Action::\"all\"], resource) when { "
    "(principal has r.q || principal has t && principal has r.q) && principal.r.q > 1 "
    "&& [[true], [false]].contains([context has d]) && (if principal.hasTag(\"a\") "
    "then "
    "{x: principal, y: 1} else {y: 2, x: resource}).x.n == 1 && ip(\"::1\").isIpv6() "
    "};";
static const char json[] =
    "{\"staticPolicies\":{\"p\":{\"effect\":\"forbid\",\"principal\":{\"op\":\"All\"},"
    "\"action\":{\"op\":\"All\"},\"resource\":{\"op\":\"is\","
    "\"entity_type\":\"User\"},\"conditions\":[{\"kind\":\"when\",\"body\":{\"like\":{"
    "\"left\":{\".\":{\"left\":{\"Var\":\"principal\"},\"attr\":\"s\"}},"
    "\"pattern\":[{\"Literal\":\"z\"},\"Wildcard\"]}}}],\"annotations\":{\"id\":\"x\"}}"
    "},\"templates\":{\"t\":{\"effect\":\"permit\",\"principal\":"
    "{\"op\":\"in\",\"slot\":\"?principal\"},\"action\":{\"op\":\"in\",\"entities\":[]}"
    ",\"resource\":{\"op\":\"All\"},\"conditions\":[{\"kind\":\"unless\","
    "\"body\":{\"Value\":[1,{\"a\":{\"__extn\":{\"fn\":\"ip\",\"arg\":\"::1\"}}}]}}]}},"
    "\"templateLinks\":[{\"templateId\":\"t\",\"newId\":\"l\","
    "\"values\":{\"?principal\":{\"type\":\"G\",\"id\":\"g\"}}}]}";
static const char schema_cedar[] =
    "@a(\"b\") entity G in [G]; entity T enum [\"k\"]; type R = { q?: Long };"
    "entity User in [G] = { n: Long, s: String, r?: R, t?: Set<T> } tags Set<String>; "
    "action all;"
    "action x in [all] appliesTo { principal: [User], resource: User, context: { n: "
    "Long, s: String, d?: decimal } };";
static const char schema_json[] =
    "{\"N\":{\"entityTypes\":{\"A\":{\"memberOfTypes\":[\"A\"],\"shape\":{\"type\":"
    "\"Record\",\"attributes\":{\"x\":{\"type\":\"Set\",\"element\":"
    "{\"type\":\"T\"}}}},\"tags\":{\"type\":\"Long\"}},\"E\":{\"enum\":[\"a\"]}},"
    "\"commonTypes\":{\"T\":{\"type\":\"EntityOrCommon\",\"name\":\"A\"}},"
    "\"actions\":{\"a\":{\"memberOf\":[{\"id\":\"b\"}],\"appliesTo\":{"
    "\"principalTypes\":[\"A\"],\"resourceTypes\":[\"E\"]}},\"b\":{}}}}";
static const char base_json[] =
    "[{\"uid\":{\"type\":\"G\",\"id\":\"g\"},\"attrs\":{},\"parents\":[{\"type\":\"G\","
    "\"id\":\"top\"}]},"
    "{\"uid\":{\"type\":\"User\",\"id\":\"u\"},\"attrs\":{\"n\":1,\"s\":\"a\"},"
    "\"parents\":[{\"type\":\"G\",\"id\":\"h\"}],\"tags\":{\"k\":[\"v\"]}}]";
static const char extra_json[] =
    "[{\"uid\":{\"type\":\"User\",\"id\":\"u\"},\"attrs\":{\"n\":1,\"s\":\"a\",\"t\":[{"
    "\"type\":\"T\",\"id\":\"k\"}]},\"parents\":[{\"type\":\"G\",\"id\":\"g\"}]},"
    "{\"uid\":{\"type\":\"User\",\"id\":\"v\"},\"attrs\":{\"n\":2,\"s\":\"\"},"
    "\"parents\":[]}]";

typedef struct use {
    bw_ctx *ctx;
    bw_cedar_policies *policies, *others, *valid;
    bw_cedar_schema *schema, *other_schema;
    bw_cedar_entities *base, *extra;
    bw_cedar_residuals *left;
    bw_cedar_answer answer, finished;
} use;

static bw_status store(use *u, const char *source, bw_cedar_entities **out)
{
    bw_json *v = NULL;
    bw_status st = bw_json_parse(u->ctx, bw_str_c(source), BW_JSON_CEDAR, &v);
    return st == BW_OK ? bw_cedar_entities_parse(u->ctx, v, u->schema, out) : st;
}

/* Against both schemas, with levels: findings are made, none of them lost. */
static bw_status validate(use *u)
{
    bw_cedar_validation v;
    bw_cedar_validate_options level = {.level = 1};
    bw_status st = bw_cedar_policies_validate(u->ctx, u->policies, u->schema, NULL, &v);
    if (st != BW_OK)
        return st;
    assert_false(v.valid);
    for (size_t i = 0; i < v.nfindings; i++)
        if (!bw_cedar_finding_text(u->ctx, u->policies, &v.findings[i]))
            return BW_ENOMEM;
    st = bw_cedar_policies_validate(u->ctx, u->valid, u->schema, &level, &v);
    if (st == BW_OK)
        assert_true(v.valid);
    return st == BW_OK ? bw_cedar_policies_validate(u->ctx, u->others, u->other_schema,
                                                    &level, &v)
                       : st;
}

/* The same question, its resource unknown at first. */
static bw_status by_residuals(use *u, const bw_cedar_request *q)
{
    const bw_cedar_partial_options on = {.resources_conform = true};
    bw_cedar_request p = *q;
    const bw_cedar_value *value;
    bool allow = false;
    bw_status st =
        bw_cedar_context_read(u->ctx, u->schema, &q->action, q->context, &value);
    p.context_value = value;
    if (st == BW_OK)
        st = bw_cedar_partial(u->ctx, u->policies, u->base, u->schema, &p, &on,
                              &u->left);
    if (st == BW_OK)
        st = bw_cedar_residuals_finish(u->ctx, u->left, u->extra, &q->resource,
                                       &u->finished);
    if (st == BW_OK)
        st = bw_cedar_residuals_allow(u->ctx, u->left, u->extra, &q->resource, &allow);
    if (st == BW_OK)
        assert_true(allow);
    return st;
}

static bw_status whole(use *u)
{
    bw_json *context = NULL;
    bw_status st = bw_cedar_schema_parse(u->ctx, BW_STR(schema_cedar), &u->schema);
    if (st == BW_OK)
        st = bw_cedar_schema_parse(u->ctx, BW_STR(schema_json), &u->other_schema);
    if (st == BW_OK)
        st = bw_cedar_policies_parse(u->ctx, BW_STR(text), &u->policies);
    if (st == BW_OK)
        st = bw_cedar_policies_parse_json(u->ctx, BW_STR(json), &u->others);
    if (st == BW_OK)
        st = bw_cedar_policies_parse(u->ctx, BW_STR(valid), &u->valid);
    if (st == BW_OK)
        st = validate(u);
    if (st == BW_OK)
        st = store(u, base_json, &u->base);
    if (st == BW_OK)
        st = store(u, extra_json, &u->extra);
    if (st == BW_OK)
        st = bw_json_parse(u->ctx, BW_STR("{\"n\":1,\"s\":\"10.1.2.3\",\"d\":\"1.0\"}"),
                           BW_JSON_CEDAR, &context);
    bw_cedar_request q = {.principal = uid("User", "u"),
                          .action = uid("Action", "x"),
                          .resource = uid("User", "v"),
                          .context = context,
                          .extra = u->extra};
    if (st == BW_OK)
        st = bw_cedar_authorize(u->ctx, u->others, u->base, u->schema, &q, &u->answer);
    if (st == BW_OK)
        assert_false(u->answer.allow);
    if (st == BW_OK)
        st =
            bw_cedar_authorize(u->ctx, u->policies, u->base, u->schema, &q, &u->answer);
    return st == BW_OK ? by_residuals(u, &q) : st;
}

static void step(void *arg)
{
    (void)arg;
    use u = {.ctx = bw_ctx_new(0)};
    if (!u.ctx)
        return;
    bw_status st = whole(&u);
    if (st != (failing_hit ? BW_ENOMEM : BW_OK))
        fail_msg("%s: %s", bw_status_name(st), bw_ctx_message(u.ctx));
    if (st == BW_OK) {
        assert_true(u.answer.allow);
        assert_int_equal(u.answer.nreasons, 1);
        assert_int_equal(u.answer.nerrors, 0);
        assert_true(u.finished.allow);
        assert_int_equal(u.finished.nreasons, 1);
    }
    bw_cedar_residuals_free(u.left);
    bw_cedar_entities_free(u.extra);
    bw_cedar_entities_free(u.base);
    bw_cedar_policies_free(u.policies);
    bw_cedar_policies_free(u.others);
    bw_cedar_policies_free(u.valid);
    bw_cedar_schema_free(u.schema);
    bw_cedar_schema_free(u.other_schema);
    bw_ctx_free(u.ctx);
}

static void test_cedar__survives_every_failed_allocation(void **state)
{
    (void)state;
    assert_true(failing_sweep(step, NULL, 20000) > 300);
    assert_int_equal(failing_live, 0);
}

/* Writing: all of it, or what was in the buffer before. */
static void write_step(void *arg)
{
    static const char start[] = "// c\npermit(principal, action, resource) when { true";
    bw_ctx *ctx = bw_ctx_new(0);
    bw_buf in = {0}, out[3] = {{0}, {0}, {0}};
    bw_cedar_policies *p = NULL;
    bw_status st = ctx ? BW_OK : BW_ENOMEM;
    (void)arg;
    bw_buf_puts(&in, start);
    for (int i = 0; i < 100; i++) /* deeper than the walk's first stack */
        bw_buf_puts(&in, " && [1] == context");
    bw_buf_puts(&in, " }; // d\n");
    bw_buf_puts(&in, text);
    if (st == BW_OK)
        st = in.failed ? BW_ENOMEM : bw_cedar_policies_parse(ctx, bw_buf_view(&in), &p);
    for (int i = 0; i < 3 && st == BW_OK; i++) {
        st = i == 0   ? bw_cedar_policies_write_json(ctx, p, &out[0])
             : i == 1 ? bw_cedar_policies_write(ctx, p, &out[1])
                      : bw_cedar_policies_format(ctx, bw_buf_view(&in), &out[2]);
        assert_int_equal(out[i].len > 0, st == BW_OK);
    }
    assert_int_equal(st, failing_hit ? BW_ENOMEM : BW_OK);
    for (int i = 0; i < 3; i++)
        bw_buf_clear(&out[i]);
    bw_buf_clear(&in);
    bw_cedar_policies_free(p);
    bw_ctx_free(ctx);
}

static void test_cedar__writes_all_or_nothing(void **state)
{
    (void)state;
    assert_true(failing_sweep(write_step, NULL, 20000) > 50);
    assert_int_equal(failing_live, 0);
}

int main(void)
{
    failing_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cedar__survives_every_failed_allocation),
        cmocka_unit_test(test_cedar__writes_all_or_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
