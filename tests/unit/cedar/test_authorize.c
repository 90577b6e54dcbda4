/* Decisions: forbid over permit, errors skipped, the small second store, the request
 * against the schema. */
#include "cedar_fixture.h"

static void test_authorize__forbid_beats_permit_and_errors_are_skipped(void **state)
{
    world *w = *state;
    bw_cedar_answer a = ask(
        w, "permit(principal, action, resource);"
           "permit(principal, action, resource) when { context.none };"
           "permit(principal in Team::\"all\", action in Action::\"any\", resource);");
    assert_true(a.allow);
    assert_int_equal(a.nreasons, 2);
    assert_int_equal(a.reasons[0], 0);
    assert_int_equal(a.reasons[1], 2);
    assert_int_equal(a.nerrors, 1);
    assert_int_equal(a.errors[0], 1);
    assert_false(a.forbid_errored);
    a = ask(w, "permit(principal, action, resource);"
               "forbid(principal is User in Team::\"red\", action, resource is Doc in "
               "Folder::\"f\");");
    assert_false(a.allow);
    assert_int_equal(a.nreasons, 1);
    assert_int_equal(a.reasons[0], 1);
    a = ask(w, "permit(principal, action, resource); forbid(principal, action, "
               "resource) when { 1 };");
    assert_true(a.allow); /* Cedar's answer; the engine around it looks at the flag */
    assert_true(a.forbid_errored);
    a = ask(w, "");
    assert_false(a.allow);
    assert_int_equal(a.nreasons + a.nerrors, 0);
    a = ask(w, "permit(principal == ?principal, action, resource);");
    assert_false(a.allow); /* a template that nothing links */
}

static void test_authorize__clauses_are_one_chain(void **state)
{
    world *w = *state;
    assert_true(
        ask(w, "permit(principal, action, resource) when { true } unless { false };")
            .allow);
    bw_cedar_answer a = ask(
        w, "permit(principal, action, resource) when { false } when { context.none };");
    assert_int_equal(a.nerrors, 0);
    a = ask(
        w,
        "permit(principal, action, resource) unless { context.none } when { false };");
    assert_int_equal(a.nerrors, 1);
    a = ask(w, "permit(principal, action, resource) unless { 1 };");
    assert_int_equal(a.nerrors, 1);
    a = ask(
        w,
        "permit(principal == User::\"bob\", action, resource) when { context.none };");
    assert_int_equal(a.nerrors, 0); /* the scope failed first */
    a = ask(w, "permit(principal, action in [], resource) when { context.none };");
    assert_int_equal(a.nerrors, 0);
}

static bool allowed(world *w, const char *text, const bw_cedar_entities *extra)
{
    bw_cedar_policies *p = policies_of(w->ctx, text);
    bw_cedar_request q = request_of(w);
    q.extra = extra;
    bw_cedar_answer a;
    if (bw_cedar_authorize(w->ctx, p, w->entities, NULL, &q, &a) != BW_OK)
        fail_msg("%s", bw_ctx_message(w->ctx));
    assert_int_equal(a.nerrors, 0);
    bw_cedar_policies_free(p);
    return a.allow;
}

/* Ancestry that goes from the small store to the base and back; a definition in the
 * small store hides the base's. */
static void test_authorize__extra_store_is_one_hierarchy_with_the_base(void **state)
{
    world *w = *state;
    bw_cedar_entities *extra =
        entities_of(w->ctx, NULL,
                    "[{\"uid\":{\"type\":\"Doc\",\"id\":\"d\"},\"attrs\":{\"size\":1},"
                    "\"parents\":[{\"type\":\"User\",\"id\":\"alice\"}]},"
                    "{\"uid\":{\"type\":\"Team\",\"id\":\"all\"},\"attrs\":{},"
                    "\"parents\":[{\"type\":\"Org\",\"id\":\"o\"}]}]");
    assert_true(allowed(
        w, "permit(principal, action, resource) when { resource in User::\"alice\" };",
        extra));
    assert_true(allowed(
        w, "permit(principal, action, resource) when { resource in Team::\"red\" };",
        extra));
    assert_true(allowed(
        w, "permit(principal, action, resource) when { resource in Team::\"all\" };",
        extra));
    assert_true(
        allowed(w, "permit(principal, action, resource in Org::\"o\");", extra));
    assert_true(
        allowed(w, "permit(principal in Org::\"o\", action, resource);", extra));
    assert_false(
        allowed(w, "permit(principal in Org::\"o\", action, resource);", NULL));
    assert_false(allowed(w, "permit(principal, action, resource in Folder::\"f\");",
                         extra)); /* hidden */
    assert_true(allowed(
        w, "permit(principal, action, resource) when { resource has size };", extra));
    assert_false(allowed(
        w, "permit(principal, action, resource) when { resource has owner };", extra));
    assert_false(
        allowed(w, "permit(principal, action, resource in Org::\"none\");", extra));
    bw_cedar_entities_free(extra);
}

static const char schema_text[] =
    "entity Team in [Team]; entity User in [Team] = { age: Long }; entity Doc; entity "
    "Tier enum [\"x\"];"
    "action any; action read in [any] appliesTo { principal: [User, Tier], resource: "
    "Doc, context: { n: Long, \"at\"?: datetime } };";

static bw_status with_schema(world *w, bw_cedar_request *q, bw_cedar_answer *a)
{
    bw_cedar_policies *p =
        policies_of(w->ctx, "permit(principal, action in Action::\"any\", resource)"
                            " when { context.n == 1 && (!(context has at) || "
                            "context.at < datetime(\"2024-01-02\")) };");
    bw_status st = bw_cedar_authorize(w->ctx, p, NULL, w->schema, q, a);
    bw_cedar_policies_free(p);
    return st;
}

static void test_authorize__holds_the_request_against_the_schema(void **state)
{
    world *w = *state;
    w->schema = schema_of(w->ctx, schema_text);
    bw_cedar_answer a;
    bw_cedar_request good = {.principal = uid("User", "u"),
                             .action = uid("Action", "read"),
                             .resource = uid("Doc", "d"),
                             .context =
                                 json_of(w->ctx, "{\"n\":1,\"at\":\"2024-01-01\"}")};
    assert_int_equal(with_schema(w, &good, &a), BW_OK);
    assert_true(a.allow); /* the group and the typed context came from the schema */
    bw_cedar_request q = good;
    q.principal = uid("Tier", "x");
    assert_int_equal(with_schema(w, &q, &a), BW_OK);
    bw_cedar_request bad[6] = {good, good, good, good, good, good};
    bad[0].principal = uid("Doc", "d");
    bad[1].action = uid("Action", "none");
    bad[2].action = uid("Action", "any");
    bad[3].resource = uid("User", "u");
    bad[4].context = json_of(w->ctx, "{\"n\":1,\"more\":2}");
    bad[5].principal = uid("Tier", "y");
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(with_schema(w, &bad[i], &a), BW_EINVALID);
    /* Two stores that have to be walked as one leave the schema's actions alone. */
    bw_cedar_entities *base =
        entities_of(w->ctx, NULL,
                    "[{\"uid\":{\"type\":\"User\",\"id\":\"u\"},\"attrs\":{},"
                    "\"parents\":[{\"type\":\"Team\",\"id\":\"t\"}]}]");
    bw_cedar_policies *p =
        policies_of(w->ctx, "permit(principal, action in Action::\"any\", resource);");
    q = good;
    q.extra = base;
    assert_int_equal(bw_cedar_authorize(w->ctx, p, base, w->schema, &q, &a), BW_OK);
    assert_true(a.allow);
    bw_cedar_policies_free(p);
    bw_cedar_entities_free(base);
    q = bad[0];
    q.unchecked = true;
    assert_int_equal(with_schema(w, &q, &a), BW_OK);
}

/* A context that was read once is held against the type again, whatever it was read by.
 */
static void test_authorize__takes_a_context_that_was_read_before(void **state)
{
    world *w = *state;
    w->schema = schema_of(
        w->ctx, "entity U; entity T enum [\"x\"]; action a appliesTo { principal: U, "
                "resource: U, context: {"
                " n: Long, s: Set<String>, t?: T, r?: { x: Bool }, d?: datetime } };"
                " action b appliesTo { principal: U, resource: U };");
    bw_cedar_policies *p = policies_of(
        w->ctx,
        "permit(principal, action, resource) when { context.s.contains(\"k\") };");
    bw_cedar_request q = {.principal = uid("U", "u"),
                          .action = uid("Action", "a"),
                          .resource = uid("U", "v")};
    static const struct {
        const char *json;
        bool fits;
    } rows[] = {
        {"{\"n\":1,\"s\":[\"k\"]}", true},
        {"{\"n\":1,\"s\":[\"k\"],\"t\":{\"__entity\":{\"type\":\"T\",\"id\":\"x\"}},"
         "\"r\":{\"x\":true},"
         "\"d\":{\"__extn\":{\"fn\":\"datetime\",\"arg\":\"2024-01-01\"}}}",
         true},
        {"{\"n\":1}", false},
        {"{\"n\":\"1\",\"s\":[]}", false},
        {"{\"n\":1,\"s\":[1]}", false},
        {"{\"n\":1,\"s\":[],\"z\":1}", false},
        {"{\"n\":1,\"s\":[],\"r\":{}}", false},
        {"{\"n\":1,\"s\":[],\"t\":{\"__entity\":{\"type\":\"T\",\"id\":\"y\"}}}",
         false},
        {"{\"n\":1,\"s\":[],\"t\":{\"__entity\":{\"type\":\"U\",\"id\":\"x\"}}}",
         false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bw_cedar_answer a;
        const bw_json *json = json_of(w->ctx, rows[i].json);
        q.context_value = NULL;
        assert_int_equal(
            bw_cedar_context_read(w->ctx, NULL, NULL, json, &q.context_value), BW_OK);
        assert_int_equal(bw_cedar_authorize(w->ctx, p, NULL, w->schema, &q, &a),
                         rows[i].fits ? BW_OK : BW_EINVALID);
        assert_int_equal(
            bw_cedar_context_read(w->ctx, w->schema, &q.action, json, &q.context_value),
            rows[i].fits ? BW_OK : BW_EINVALID);
        if (!rows[i].fits)
            continue;
        assert_int_equal(bw_cedar_authorize(w->ctx, p, NULL, w->schema, &q, &a), BW_OK);
        assert_true(a.allow);
        bw_cedar_request other = q;
        other.action = uid("Action", "b");
        assert_int_equal(bw_cedar_authorize(w->ctx, p, NULL, w->schema, &other, &a),
                         BW_EINVALID);
    }
    bw_cedar_policies_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_authorize__forbid_beats_permit_and_errors_are_skipped),
        world_test(test_authorize__clauses_are_one_chain),
        world_test(test_authorize__extra_store_is_one_hierarchy_with_the_base),
        world_test(test_authorize__holds_the_request_against_the_schema),
        world_test(test_authorize__takes_a_context_that_was_read_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
