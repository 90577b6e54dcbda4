/* Entities from JSON: values and escapes, hierarchy, conformance to a schema. */
#include "cedar_fixture.h"

static bool loads(world *w, const char *text)
{
    bw_cedar_entities *e = NULL;
    bw_status st =
        bw_cedar_entities_parse(w->ctx, json_of(w->ctx, text), w->schema, &e);
    bw_cedar_entities_free(e);
    assert_true(st == BW_OK || st == BW_EINVALID);
    return st == BW_OK;
}

static bool loads_attrs(world *w, const char *attrs)
{
    char text[4096];
    snprintf(text, sizeof text,
             "[{\"uid\":{\"type\":\"User\",\"id\":\"u\"},\"attrs\":%s,\"parents\":[]}]",
             attrs);
    return loads(w, text);
}

static void check_attrs(world *w, const char *const *good, size_t ngood,
                        const char *const *bad, size_t nbad)
{
    for (size_t i = 0; i < ngood; i++)
        if (!loads_attrs(w, good[i]))
            fail_msg("refused: %s: %s at %s", good[i], bw_ctx_message(w->ctx),
                     bw_ctx_pointer(w->ctx));
    for (size_t i = 0; i < nbad; i++)
        if (loads_attrs(w, bad[i]))
            fail_msg("accepted: %s", bad[i]);
}

static void test_entities_values__follow_the_escapes(void **state)
{
    world *w = *state;
    static const char *const good[] = {
        "{}",
        "{\"a\":[1,\"x\",[true],{\"b\":2}]}",
        "{\"a\":-9223372036854775808}",
        "{\"a\":\"\\u0000\"}",
        "{\"a\":{\"__entity\":{\"type\":\"A::B\",\"id\":\"\"}}}",
        "{\"a\":{\"type\":\"User\",\"id\":\"x\"}}",
        "{\"a\":{\"__extn\":{\"fn\":\"ip\",\"arg\":\"::1\"}}}",
        "{\"a\":{\"__extn\":{\"fn\":\"ip\",\"args\":[\"::1\"]}}}",
        ("{\"a\":{\"__extn\":{\"fn\":\"isIpv4\",\"arg\":{\"__extn\":{\"fn\":\"ip\","
         "\"arg\":\"::1\"}}}}}"),
        "{\"__extn\":{\"fn\":\"ip\",\"arg\":\"::1\"}}",
        "{\"a\":{\"__extn\":1}}",
    };
    static const char *const bad[] = {
        "{\"a\":null}",
        "{\"a\":1.0}",
        "{\"a\":1.5}",
        "{\"a\":9223372036854775808}",
        "{\"a\":1e3}",
        "{\"a\":-0}",
        "{\"a\":[1,2.5]}",
        "{\"a\":{\"__expr\":\"1\"}}",
        "{\"a\":{\"__entity\":{\"type\":\"A B\",\"id\":\"x\"}}}",
        "{\"a\":{\"__entity\":{\"type\":\"__cedar::A\",\"id\":\"x\"}}}",
        "{\"a\":{\"__extn\":{\"fn\":\"ip\",\"arg\":\"x\"}}}",
        "{\"a\":{\"__extn\":{\"fn\":\"zap\",\"arg\":\"x\"}}}",
        "{\"a\":{\"__extn\":{\"fn\":\"ip\",\"args\":[]}}}",
        ("{\"a\":{\"__extn\":{\"fn\":\"ip\",\"args\":[\"::1\",\"::1\",\"::1\",\"::1\"]}}"
         "}"),
        "[]",
        "1",
    };
    check_attrs(w, good, sizeof good / sizeof *good, bad, sizeof bad / sizeof *bad);
}

static void test_entities_hierarchy__is_closed_and_acyclic(void **state)
{
    world *w = *state;
    assert_false(loads(w, "[{\"uid\":{\"type\":\"A\",\"id\":\"a\"},\"attrs\":{},"
                          "\"parents\":[{\"type\":\"A\",\"id\":\"a\"}]}]"));
    assert_non_null(strstr(bw_ctx_message(w->ctx), "cycle"));
    assert_false(loads(w, "[{\"uid\":{\"type\":\"A\",\"id\":\"a\"},\"attrs\":{},"
                          "\"parents\":[{\"type\":\"A\",\"id\":\"b\"}]},"
                          "{\"uid\":{\"type\":\"A\",\"id\":\"b\"},\"attrs\":{},"
                          "\"parents\":[{\"type\":\"A\",\"id\":\"a\"}]}]"));
    static const char *const twice =
        "[{\"uid\":{\"type\":\"A\",\"id\":\"a\"},\"attrs\":{\"x\":[1,2]},\"parents\":[{"
        "\"type\":\"A\",\"id\":\"b\"}]},"
        "{\"uid\":{\"type\":\"A\",\"id\":\"a\"},\"attrs\":{\"x\":[2,1]},\"parents\":[%"
        "s]}]";
    char text[512];
    snprintf(text, sizeof text, twice,
             "{\"type\":\"A\",\"id\":\"b\"},{\"type\":\"A\",\"id\":\"b\"}");
    assert_true(loads(w, text));
    snprintf(text, sizeof text, twice, "");
    assert_false(loads(w, text));
    assert_false(loads(w, "[{\"uid\":{\"type\":\"A\",\"id\":\"a\"},\"attrs\":{}}]"));
    assert_false(loads(w, "[{\"uid\":{\"type\":\"A\",\"id\":\"a\"},\"parents\":[]}]"));
    assert_false(loads(w, "{}"));
    assert_false(loads(w, "[1]"));
}

/* A chain of 3,000 parents: no recursion, and everything is an ancestor of the first.
 */
static void test_entities_hierarchy__may_be_deep(void **state)
{
    world *w = *state;
    enum { N = 3000 };
    bw_buf b = {0};
    for (int i = 0; i < N; i++)
        bw_buf_printf(&b,
                      "%c{\"uid\":{\"type\":\"A\",\"id\":\"%d\"},\"attrs\":{},"
                      "\"parents\":[{\"type\":\"A\",\"id\":\"%d\"}]}",
                      i ? ',' : '[', i, i + 1);
    bw_buf_puts(&b, "]");
    bw_json *json = NULL;
    bw_cedar_entities *e = NULL;
    assert_int_equal(bw_json_parse(w->ctx, bw_buf_view(&b), BW_JSON_CEDAR, &json),
                     BW_OK);
    assert_int_equal(bw_cedar_entities_parse(w->ctx, json, NULL, &e), BW_OK);
    bw_cedar_policies *p =
        policies_of(w->ctx, "permit(principal in A::\"3000\", action, resource);");
    bw_cedar_request q = {.principal = uid("A", "0"),
                          .action = uid("Action", "x"),
                          .resource = uid("A", "1")};
    bw_cedar_answer a;
    assert_int_equal(bw_cedar_authorize(w->ctx, p, e, NULL, &q, &a), BW_OK);
    assert_true(a.allow);
    bw_cedar_policies_free(p);
    bw_cedar_entities_free(e);
    bw_buf_clear(&b);
}

static const char schema_text[] =
    "entity G in [G]; entity T enum [\"a\", \"b\"];"
    "entity User in [G] = { n?: Long, d?: decimal, u?: User, t?: T, s?: Set<decimal>, "
    "r?: { x?: ipaddr, at: datetime } } tags duration;"
    "action grp; action read in [grp] appliesTo { principal: User, resource: User };";

static void test_entities_schema__types_the_short_forms(void **state)
{
    world *w = *state;
    w->schema = schema_of(w->ctx, schema_text);
    static const char *const good[] = {
        "{}",
        "{\"n\":1}",
        "{\"d\":\"1.0\"}",
        "{\"d\":{\"fn\":\"decimal\",\"arg\":\"1.0\"}}",
        "{\"d\":{\"__extn\":{\"fn\":\"decimal\",\"arg\":\"1.0\"}}}",
        "{\"u\":{\"type\":\"User\",\"id\":\"x\"}}",
        "{\"u\":{\"__entity\":{\"type\":\"User\",\"id\":\"x\"}}}",
        "{\"t\":{\"type\":\"T\",\"id\":\"a\"}}",
        "{\"s\":[\"1.0\",{\"fn\":\"decimal\",\"arg\":\"1.00\"}]}",
        "{\"s\":[]}",
        "{\"r\":{\"x\":\"::1\",\"at\":\"2024-01-01\"}}",
    };
    static const char *const bad[] = {
        "{\"n\":\"1\"}",
        "{\"d\":\"1\"}",
        "{\"d\":1}",
        "{\"d\":{\"fn\":\"ip\",\"arg\":\"::1\"}}",
        "{\"u\":{\"type\":\"G\",\"id\":\"x\"}}",
        "{\"t\":{\"type\":\"T\",\"id\":\"c\"}}",
        "{\"s\":[1]}",
        "{\"r\":{\"x\":\"::1\"}}",
        "{\"z\":1}",
        "{\"r\":{\"at\":\"2024-01-01\",\"y\":1}}",
        "{\"u\":\"x\"}",
        "{\"s\":\"1.0\"}",
        "{\"r\":[]}",
    };
    check_attrs(w, good, sizeof good / sizeof *good, bad, sizeof bad / sizeof *bad);
}

static void test_entities_schema__holds_uids_parents_tags_and_actions(void **state)
{
    world *w = *state;
    w->schema = schema_of(w->ctx, schema_text);
    static const struct {
        const char *type, *id, *rest;
        bool ok;
    } rows[] = {
        {"User", "u", "\"parents\":[{\"type\":\"G\",\"id\":\"g\"}]", true},
        {"User", "u", "\"parents\":[{\"type\":\"User\",\"id\":\"g\"}]", false},
        {"User", "u", "\"parents\":[],\"tags\":{\"a\":\"1h\"}", true},
        {"User", "u", "\"parents\":[],\"tags\":{\"a\":1}", false},
        {"G", "g", "\"parents\":[{\"type\":\"G\",\"id\":\"h\"}]", true},
        {"G", "g", "\"parents\":[],\"tags\":{\"a\":\"1h\"}", false},
        {"Z", "z", "\"parents\":[]", false},
        {"T", "a", "\"parents\":[]", true},
        {"T", "c", "\"parents\":[]", false},
        {"Action", "read", "\"parents\":[{\"type\":\"Action\",\"id\":\"grp\"}]", true},
        {"Action", "read", "\"parents\":[]", false},
        {"Action", "grp", "\"parents\":[]", true},
        {"Action", "none", "\"parents\":[]", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "[{\"uid\":{\"type\":\"%s\",\"id\":\"%s\"},\"attrs\":{},%s}]",
                 rows[i].type, rows[i].id, rows[i].rest);
        if (loads(w, text) != rows[i].ok)
            fail_msg("%s", text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_entities_values__follow_the_escapes),
        world_test(test_entities_hierarchy__is_closed_and_acyclic),
        world_test(test_entities_hierarchy__may_be_deep),
        world_test(test_entities_schema__types_the_short_forms),
        world_test(test_entities_schema__holds_uids_parents_tags_and_actions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
