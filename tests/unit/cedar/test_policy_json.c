/* Policies in JSON: the same decisions as text, templates and links, refusals. */
#include "cedar_fixture.h"

static bw_status parse(world *w, const char *text, bw_cedar_policies **out)
{
    *out = NULL;
    bw_status st = bw_cedar_policies_parse_json(w->ctx, bw_str_c(text), out);
    assert_true(st == BW_OK || st == BW_EINVALID);
    return st;
}

#define ALL "{\"op\":\"All\"}"
#define SET(statics, templates, links)                            \
    "{\"staticPolicies\":{" statics "},\"templates\":{" templates \
    "},\"templateLinks\":[" links "]}"
#define POLICY(effect, principal, resource, conditions)                      \
    "{\"effect\":\"" effect "\",\"principal\":" principal ",\"action\":" ALL \
    ",\"resource\":" resource ",\"conditions\":[" conditions "]}"
#define WHEN(body) "{\"kind\":\"when\",\"body\":" body "}"

static char truth_json(world *w, const char *body)
{
    char text[4096];
    bw_cedar_policies *p;
    snprintf(text, sizeof text,
             SET("\"p\":" POLICY("permit", ALL, ALL, WHEN("%s")), "", ""), body);
    if (parse(w, text, &p) != BW_OK)
        fail_msg("%s: %s at %s", body, bw_ctx_message(w->ctx), bw_ctx_pointer(w->ctx));
    bw_cedar_request q = request_of(w);
    bw_cedar_answer a;
    assert_int_equal(bw_cedar_authorize(w->ctx, p, w->entities, NULL, &q, &a), BW_OK);
    bw_cedar_policies_free(p);
    return a.nerrors ? 'E' : a.allow ? 'T' : 'F';
}

static void test_policy_json__expressions_mean_what_their_text_means(void **state)
{
    static const struct {
        const char *body;
        char want;
    } rows[] = {
        {"{\"==\":{\"left\":{\".\":{\"left\":{\"Var\":\"principal\"},\"attr\":\"age\"}}"
         ",\"right\":{\"Value\":30}}}",
         'T'},
        {"{\"in\":{\"left\":{\"Var\":\"principal\"},\"right\":{\"Value\":{\"__entity\":"
         "{\"type\":\"Team\",\"id\":\"all\"}}}}}",
         'T'},
        {"{\"has\":{\"left\":{\"Var\":\"principal\"},\"attr\":[\"address\",\"geo\","
         "\"lat\"]}}",
         'T'},
        {"{\"like\":{\"left\":{\"Value\":\"a*bc\"},\"pattern\":[{\"Literal\":\"a\"},{"
         "\"Literal\":\"*\"},\"Wildcard\",{\"Literal\":\"c\"}]}}",
         'T'},
        {"{\"like\":{\"left\":{\"Value\":\"abbc\"},\"pattern\":[{\"Literal\":\"a*\"},"
         "\"Wildcard\"]}}",
         'F'},
        {"{\"like\":{\"left\":{\"Value\":\"\"},\"pattern\":[]}}", 'T'},
        {"{\"is\":{\"left\":{\"Var\":\"principal\"},\"entity_type\":\"User\",\"in\":{"
         "\"Var\":\"principal\"}}}",
         'T'},
        {"{\"isInRange\":[{\".\":{\"left\":{\"Var\":\"context\"},\"attr\":\"ip\"}},{"
         "\"ip\":[{\"Value\":\"10.0.0.0/8\"}]}]}",
         'T'},
        {"{\"isIpv4\":[{\"Value\":{\"__extn\":{\"fn\":\"ip\",\"arg\":\"x\"}}}]}", 'E'},
        {"{\"isIpv4\":[{\"Value\":{\"__extn\":{\"fn\":\"none\",\"arg\":\"x\"}}}]}",
         'E'},
        {"{\"if-then-else\":{\"if\":{\"Value\":true},\"then\":{\"Value\":false},"
         "\"else\":{\"Value\":true}}}",
         'F'},
        {"{\"==\":{\"left\":{\"Set\":[{\"Value\":1},{\"Value\":1}]},\"right\":{"
         "\"Value\":[1]}}}",
         'T'},
        {"{\"==\":{\"left\":{\"Record\":{\"a\":{\"Value\":1}}},\"right\":{\"Value\":{"
         "\"a\":1}}}}",
         'T'},
        {"{\"!\":{\"arg\":{\"isEmpty\":{\"arg\":{\"Set\":[]}}}}}", 'F'},
        {"{\"neg\":{\"arg\":{\"Value\":1}}}", 'E'},
        {"{\"||\":{\"left\":{\"Value\":true},\"right\":{\"Value\":1}}}", 'T'},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char got = truth_json(*state, rows[i].body);
        if (got != rows[i].want)
            fail_msg("%s: %c", rows[i].body, got);
    }
}

#define SLOT     "{\"op\":\"==\",\"slot\":\"?principal\"}"
#define ALICE    "{\"__entity\":{\"type\":\"User\",\"id\":\"alice\"}}"
#define TEMPLATE "\"t\":" POLICY("permit", SLOT, ALL, "")
#define LINK(id, values) \
    "{\"templateId\":\"t\",\"newId\":\"" id "\",\"values\":{" values "}}"

static void test_policy_json__links_decide_under_their_own_id(void **state)
{
    world *w = *state;
    bw_cedar_policies *p;
    bw_cedar_request q = request_of(w);
    bw_cedar_answer a;
    assert_int_equal(
        parse(w, SET("", TEMPLATE, LINK("l", "\"?principal\":" ALICE)), &p), BW_OK);
    assert_int_equal(bw_cedar_authorize(w->ctx, p, w->entities, NULL, &q, &a), BW_OK);
    assert_true(a.allow);
    assert_int_equal(a.nreasons, 1);
    assert_true(bw_str_is(bw_cedar_policy_id(p, a.reasons[0]), "l"));
    q.principal = uid("User", "bob");
    assert_int_equal(bw_cedar_authorize(w->ctx, p, w->entities, NULL, &q, &a), BW_OK);
    assert_false(a.allow);
    bw_cedar_policies_free(p);
}

static void test_policy_json__refuses_what_does_not_fit(void **state)
{
    world *w = *state;
    static const char *const bad[] = {
        "{}",
        "[]",
        "{\"staticPolicies\":{},\"templates\":{}}",
        SET("\"p\":{}", "", ""),
        SET("\"p\":" POLICY("allow", ALL, ALL, ""), "", ""),
        SET("\"p\":" POLICY("permit", SLOT, ALL, ""), "", ""),
        SET("\"t\":" POLICY("permit", ALL, ALL, ""), TEMPLATE, ""),
        SET("", TEMPLATE, LINK("t", "\"?principal\":" ALICE)),
        SET("", TEMPLATE, LINK("l", "")),
        SET("", TEMPLATE, LINK("l", "\"?principal\":" ALICE ",\"?resource\":" ALICE)),
        SET("", "", LINK("l", "\"?principal\":" ALICE)),
        SET("", TEMPLATE,
            LINK("l", "\"?principal\":" ALICE) "," LINK("l", "\"?principal\":" ALICE)),
        SET("\"p\":" POLICY("permit", ALL, ALL,
                            WHEN("{\"Value\":1,\"Var\":\"principal\"}")),
            "", ""),
        SET("\"p\":" POLICY("permit", ALL, ALL, WHEN("{\"none\":[]}")), "", ""),
        SET("\"p\":" POLICY("permit", ALL, ALL, WHEN("{\"Var\":\"none\"}")), "", ""),
        SET("\"p\":" POLICY(
                "permit", ALL, ALL,
                WHEN("{\"has\":{\"left\":{\"Var\":\"principal\"},\"attr\":[]}}")),
            "", ""),
        SET("\"p\":" POLICY("permit", ALL, ALL, WHEN("{\"Value\":null}")), "", ""),
    };
    bw_cedar_policies *p;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (parse(w, bad[i], &p) == BW_OK)
            fail_msg("accepted: %s", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_policy_json__expressions_mean_what_their_text_means),
        world_test(test_policy_json__links_decide_under_their_own_id),
        world_test(test_policy_json__refuses_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
