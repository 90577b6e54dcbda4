/* The strict validator, rule by rule with both sides; what findings say; levels,
 * templates and links; limits. The reference's verdicts on the same rules are in
 * tests/data/cedar/validate.jsonl and in the recorded cases (cedar_run). */
#include "cedar_fixture.h"

static const char schema_text[] =
    "entity G in [G]; entity Other; entity E enum [\"x\", \"y\"];\n"
    "entity U in [G] = { n: Long, name: String, on: Bool, s?: String, boss: U, kind: "
    "E,\n"
    "  rec: { x: Long, y?: Long }, opt?: { deep?: { z: Bool } }, set: Set<Long>,\n"
    "  friends: Set<U> } tags Set<String>;\n"
    "entity D in [D] = { owner: U, ip: ipaddr, dec: decimal, at: datetime, for: "
    "duration };\n"
    "action all, none;\n"
    "action read in [all] appliesTo { principal: U, resource: D, context: { a?: Long, "
    "b: Bool, who: U } };\n"
    "action edit in [all] appliesTo { principal: [U, G], resource: [D, U] };\n"
    "namespace N { action act appliesTo { principal: [U], resource: [U] }; }";

typedef struct row {
    const char *text;
    bool valid;
} row;

static bw_cedar_validation check(world *w, const char *text, int level,
                                 bw_cedar_policies **keep)
{
    bw_cedar_policies *p = text[0] == '{' ? NULL : policies_of(w->ctx, text);
    bw_cedar_validate_options o = {.level = level};
    bw_cedar_validation v;
    if (!p && bw_cedar_policies_parse_json(w->ctx, bw_str_c(text), &p) != BW_OK)
        fail_msg("%s: %s", text, bw_ctx_message(w->ctx));
    if (bw_cedar_policies_validate(w->ctx, p, w->schema, &o, &v) != BW_OK)
        fail_msg("%s: %s", text, bw_ctx_message(w->ctx));
    if (keep)
        *keep = p;
    else
        bw_cedar_policies_free(p);
    return v;
}

static void check_policies(world *w, const row *rows, size_t n, int level)
{
    for (size_t i = 0; i < n; i++) {
        bw_cedar_validation v = check(w, rows[i].text, level, NULL);
        if (v.valid != rows[i].valid)
            fail_msg("%s: %.*s", rows[i].text,
                     v.nfindings ? (int)v.findings[0].message.len : 0,
                     v.nfindings ? v.findings[0].message.ptr : "");
        bool errors = false;
        for (size_t k = 0; k < v.nfindings; k++)
            errors |= !v.findings[k].warning;
        assert_true(errors == !v.valid);
    }
}

/* Each row is the condition of a policy for reading. */
static void check_level(world *w, const row *rows, size_t n, int level)
{
    for (size_t i = 0; i < n; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "permit(principal, action == Action::\"read\", resource) when { %s };",
                 rows[i].text);
        check_policies(w, &(row){text, rows[i].valid}, 1, level);
    }
}

#define CONDITIONS(rows) check_level(*state, rows, sizeof rows / sizeof *(rows), -1)

static int setup(void **state)
{
    world_setup(state);
    world *w = *state;
    w->schema = schema_of(w->ctx, schema_text);
    return 0;
}

/* ---- operators ---- */
static void test_rules__logic(void **state)
{
    static const row rows[] = {
        {"true && context.b", true},
        {"context.b || principal.on", true},
        {"!context.b", true},
        {"1 && true", false},
        {"context.b && 1", false},
        {"principal.n || context.b", false},
        {"context.b || 1", false},
        {"!principal.n", false},
        {"if context.b then true else context.b", true},
        {"if 1 then true else true", false},
        {"if context.b then 1 else 2", false},
        {"(if context.b then 1 else 2) == 3", true},
        {"(if context.b then 1 else \"a\") == 3", false},
        {"(if context.b then principal else resource) == principal", false},
        {"principal", false},
    };
    CONDITIONS(rows);
}

static void test_rules__what_is_known_leaves_the_rest_out(void **state)
{
    static const row rows[] = {
        {"false && 1", true},
        {"context.b && 1", false},
        {"true || 1", true},
        {"false || 1", false},
        {"if true then context.b else 1", true},
        {"if false then 1 else context.b", true},
        {"if context.b then 1 else context.b", false},
        {"principal is D && principal.nothing", true},
        {"principal is U && principal.nothing", false},
        {"resource is D || resource.nothing", true},
        {"action == Action::\"edit\" && context.nothing", true},
        {"action == Action::\"read\" && context.nothing", false},
        {"action in Action::\"all\" || context.nothing", true},
        {"action in [Action::\"none\", Action::\"edit\"] && 1", true},
        {"action in [Action::\"none\", Action::\"all\"] && 1", false},
        {"principal == D::\"d\" && 1", true},
        {"principal == U::\"u\" && 1", false},
        {"principal != D::\"d\" || 1", true},
        {"principal in D::\"d\" && 1", true},
        {"principal in G::\"g\" && 1", false},
        {"principal has nothing && 1", true},
        {"principal.rec has x || 1", true},
        {"principal has n || 1", false}, /* the entity may be missing */
        {"resource.hasTag(\"t\") && 1", true},
        {"1 == \"a\"", true},
        {"1 == 2 && 1", true},
        {"1 == 1 && 1", false},
        {"(1 == 1 && 1 == 1) || 2", true},
        {"(1 == 1 && context.b) || 2", false},
        {"(1 == 2 || 1 == 3) && 2", true},
        {"(1 == 2 || context.b) && 2", false},
        {"(true && false) && 2", true},
        {"(true || false) || 2", true},
        {"(if context.b then false else true) && 2", false},
        {"(if context.b then false else false) && 2", true},
        {"action in [Action::\"all\", Action::\"none\"] || 2", true},
        {"principal has s && (principal has s || 2)", true},
        {"principal.hasTag(\"a\") && (principal.hasTag(\"a\") || 2)", true},
        {"principal.hasTag(\"a\") && (principal.hasTag(\"b\") || 2)", false},
        {"(true || false) == 1", true}, /* read as a literal, as there */
        {"(1 == 1) == 1", false},
        {"action == 1 && 1", true},
        {"principal.nothing == 1 || true", false}, /* the left is always looked at */
    };
    CONDITIONS(rows);
}

static void test_rules__comparison_and_numbers(void **state)
{
    static const row rows[] = {
        {"principal.n == 1", true},
        {"principal.n == principal.name", false},
        {"principal == resource", true},
        {"principal.n != 1", true},
        {"principal.name != 1", false},
        {"principal.n < 1 && 1 <= 2 && 1 > 2 && 1 >= 2", true},
        {"principal.n < principal.name", false},
        {"resource.at < resource.at && resource.for >= resource.for", true},
        {"resource.at < resource.for", false},
        {"resource.dec < resource.dec", false},
        {"1 < resource.at", false},
        {"principal.n + 1 - 2 * 3 == -principal.n", true},
        {"principal.n + principal.name == 1", false},
        {"-principal.name == 1", false},
        {"principal.name like \"a*\"", true},
        {"principal.n like \"a*\"", false},
    };
    CONDITIONS(rows);
}

static void test_rules__entities(void **state)
{
    static const row rows[] = {
        {"principal in principal.boss", true},
        {"principal in principal.friends", true},
        {"principal in [G::\"a\", G::\"b\"]", true},
        {"principal in [G::\"a\", U::\"b\"]", false},
        {"principal in 1", false},
        {"principal in [1]", false},
        {"principal.n in G::\"a\"", false},
        {"principal is U", true},
        {"principal.n is U", false},
        {"principal is U in G::\"a\"", true},
        {"principal is U in 1", false},
        {"principal is D in 1", true}, /* not looked at */
        {"principal.nothing == 1", false},
        {"principal.n.x == 1", false},
        {"principal.n has x", false},
        {"principal.boss.boss.n == 1", true},
        {"action.x == 1", false},
        {"action has x && 1", true},
        {"principal.hasTag(principal.name)", true},
        {"principal.hasTag(1)", false},
        {"context.hasTag(\"a\")", false},
        {"resource.getTag(\"a\") == 1", false},
    };
    CONDITIONS(rows);
}

static void test_rules__sets_and_records(void **state)
{
    static const row rows[] = {
        {"[].isEmpty()", false},
        {"[1, 2].contains(3)", true},
        {"[1, \"a\"].contains(3)", false},
        {"[1].contains(\"a\")", false},
        {"principal.set.contains(1)", true},
        {"principal.n.contains(1)", false},
        {"principal.set.containsAll([1])", true},
        {"principal.set.containsAll([\"a\"])", false},
        {"principal.set.containsAny(principal.set)", true},
        {"principal.set.containsAny(1)", false},
        {"principal.set.isEmpty()", true},
        {"principal.isEmpty()", false},
        {"[true].contains(context.b)", true},
        {"[[1], [2]].contains([3])", true},
        {"[principal].contains(resource)", false},
        {"{a: 1, b: \"x\"} == {b: \"y\", a: 2}", true},
        {"{a: 1} == {a: 1, b: 2}", false},
        {"{a: 1} == {b: 1}", false},
        {"{a: {b: true}} == {a: {b: false}}", true},
        {"{a: {b: true}} == {a: {b: 1}}", false},
        {"principal.rec == {x: 1, y: 2}", false}, /* y may be missing there */
        {"{a: principal}.a.n == 1", true},
        {"{a: 1}.b == 1", false},
        {"[{a: true}, {a: context.b}].contains({a: false})", true},
    };
    CONDITIONS(rows);
}

static void test_rules__extensions(void **state)
{
    static const row rows[] = {
        {"ip(\"10.0.0.0/8\").isInRange(resource.ip)", true},
        {"ip(\"10.0.0\").isIpv4()", false},
        {"false && ip(\"10.0.0\").isIpv4()", true},
        {"ip(principal.name).isIpv4()", false},
        {"ip(1).isIpv4()", false},
        {"ip(\"::1\", \"::1\").isIpv4()", false},
        {"resource.ip.isIpv4(1)", false},
        {"resource.dec.isIpv4()", false},
        {"resource.dec.lessThan(decimal(\"1.0\"))", true},
        {"resource.dec.lessThan(1)", false},
        {"decimal(\"1\") == resource.dec", false},
        {"resource.at.offset(duration(\"1h\")).toDate() == datetime(\"2024-01-01\")",
         true},
        {"resource.at.offset(resource.at) == resource.at", false},
        {"resource.at.durationSince(resource.at).toHours() + 1 == 2", true},
        {"resource.for.toHours() == resource.for", false},
        {"resource.at.toTime() < duration(\"1d\")", true},
        {"datetime(\"2024-02-30\") < resource.at", false},
    };
    CONDITIONS(rows);
}

static void test_names__are_looked_at_everywhere(void **state)
{
    static const row rows[] = {
        {"false && principal == Nope::\"a\"", false},
        {"true || principal is Nope", false},
        {"true || principal is N::Action", true}, /* any Action may be asked for */
        {"if true then true else principal in Nope::\"a\"", false},
        {"false && action == Action::\"nope\"", false},
        {"false && principal.kind == E::\"z\"", false},
        {"principal.kind == E::\"x\"", true},
        {"{a: [Nope::\"a\"]} == {a: [principal]}", false},
    };
    CONDITIONS(rows);
}

/* ---- capabilities ---- */
static void test_capabilities__pass_where_they_hold(void **state)
{
    static const row rows[] = {
        {"principal.s == \"a\"", false},
        {"principal has s && principal.s == \"a\"", true},
        {"principal[\"s\"] == \"a\" && principal has s", false},
        {"principal has \"s\" && principal[\"s\"] == \"a\"", true},
        {"principal.boss has s && principal.s == \"a\"", false},
        {"principal has s || principal.s == \"a\"", false},
        {"!(principal has s) || principal.s == \"a\"", false},
        {"!(principal has s) && principal.s == \"a\"", false},
        {"(principal has s && context.b) && principal.s == \"a\"", true},
        {"context.b && (principal has s && principal.s == \"a\")", true},
        {"(principal has s || context.b) && principal.s == \"a\"", false},
        {"(context.b || principal has s) && principal.s == \"a\"", false},
        {"(if context.b then context.b else principal has s) && principal.s == \"a\"",
         false},
        {"(principal has s || false) && principal.s == \"a\"", true},
        {"(false || principal has s) && principal.s == \"a\"", true},
        {"(principal has s || context.b && principal has s) && principal.s == \"a\"",
         true},
        {"(principal has s || principal has opt) && principal.s == \"a\"", false},
        {"if principal has s then principal.s == \"a\" else true", true},
        {"if principal has s then true else principal.s == \"a\"", false},
        {"(if principal has s then context.b else false) && principal.s == \"a\"",
         false},
        {"(if context.b then principal has s else principal has s) && principal.s == "
         "\"a\"",
         true},
        {"(if principal has s then context.b else principal has s) && principal.s == "
         "\"a\"",
         true},
        {"(if true then principal has s else false) && principal.s == \"a\"", true},
        {"(principal has s) == true && principal.s == \"a\"", false},
        {"[principal has s].contains(true) && principal.s == \"a\"", false},
        {"principal has s && {a: principal.s}.a == \"a\"", true},
        {"principal has opt.deep.z && principal.opt.deep.z", true},
        {"principal has opt.deep && principal.opt.deep.z", true},
        {"principal has opt && principal.opt.deep.z", false},
        {"principal.rec has y && principal.rec.y == 1", true},
        {"principal.rec.y == 1", false},
        {"context has a && context.a == 1", true},
        {"context.a == 1", false},
        /* the same words, however they are spelled */
        {"(if context.b then principal else context.who) has s && (if context.b then "
         "principal else context.who).s == \"a\"",
         true},
        {"(if context.b then principal else context.who) has s && (if !context.b then "
         "principal else context.who).s == \"a\"",
         false},
        {"{a: principal, b: 1}.a has s && {b: 1, a: principal}.a.s == \"a\"", true},
        {"{a: principal, b: 1}.a has s && {b: 2, a: principal}.a.s == \"a\"", false},
        {"(if principal.n > 1 then principal else principal) has s && (if "
         "!(principal.n "
         "<= 1) then principal else principal).s == \"a\"",
         true},
        /* tags */
        {"principal.getTag(\"a\").isEmpty()", false},
        {"principal.hasTag(\"a\") && principal.getTag(\"a\").isEmpty()", true},
        {"principal.hasTag(\"a\") && principal.getTag(\"b\").isEmpty()", false},
        {"principal.hasTag(\"a\") && context.who.getTag(\"a\").isEmpty()", false},
        {"principal.hasTag(context.who.name) && "
         "principal.getTag(context.who.name).isEmpty()",
         true},
        {"principal.hasTag(\"a\") || principal.getTag(\"a\").isEmpty()", false},
    };
    CONDITIONS(rows);
}

static void test_capabilities__pass_from_clause_to_clause(void **state)
{
#define HEAD "permit(principal, action == Action::\"read\", resource) "
    static const row rows[] = {
        {HEAD "when { principal has s } when { principal.s == \"a\" };", true},
        {HEAD "unless { principal has s } when { principal.s == \"a\" };", false},
        {HEAD "when { principal.s == \"a\" } when { principal has s };", false},
        {HEAD "when { false } when { 1 };", true},
        {HEAD "unless { true } when { 1 };", true},
        {HEAD "unless { false } when { 1 };", false},
        {HEAD "when { true } unless { 1 };", false},
    };
    check_policies(*state, rows, sizeof rows / sizeof *rows, -1);
}

/* ---- scopes and environments ---- */
static void test_scopes__must_fit_some_request(void **state)
{
    static const row rows[] = {
        {"permit(principal, action, resource);", true},
        {"permit(principal is U in G::\"a\", action in [Action::\"read\", "
         "Action::\"all\"], resource == D::\"d\");",
         true},
        {"permit(principal is Usr, action, resource);", false},
        {"permit(principal == Usr::\"a\", action, resource);", false},
        {"permit(principal in E::\"z\", action, resource);", false},
        {"permit(principal, action == Action::\"nope\", resource);", false},
        {"permit(principal, action in [Action::\"read\", N::Action::\"nope\"], "
         "resource);",
         false},
        {"permit(principal, action in [Action::\"read\", N::Action::\"act\"], "
         "resource);",
         false}, /* a set of two types */
        {"permit(principal, action in [], resource);", false},
        {"permit(principal, action == Action::\"all\", resource);", false},
        {"permit(principal, action in Action::\"all\", resource);", true},
        {"permit(principal, action in Action::\"none\", resource);", false},
        {"permit(principal is G, action == Action::\"read\", resource);", false},
        {"permit(principal is G, action == Action::\"edit\", resource);", true},
        {"permit(principal in D::\"d\", action, resource);", false},
        {"permit(principal in G::\"g\", action == Action::\"read\", resource);", true},
        {"permit(principal is U in D::\"d\", action, resource);", false},
        {"permit(principal is Other, action, resource);", false},
        {"permit(principal, action, resource in U::\"u\");", true},
        {"permit(principal, action == N::Action::\"act\", resource is D);", false},
        /* typed for every kind of request, but only for those that fit */
        {"permit(principal, action in Action::\"all\", resource) when { resource.owner "
         "== "
         "principal };",
         false},
        {"permit(principal, action in Action::\"all\", resource is D) when { "
         "resource.owner == principal };",
         true},
        {"permit(principal, action in Action::\"all\", resource) when { resource is D "
         "&& "
         "resource.owner == principal };",
         true},
        {"permit(principal, action, resource) when { context.b };", false},
    };
    check_policies(*state, rows, sizeof rows / sizeof *rows, -1);
}

static void test_templates__take_any_entity_that_fits(void **state)
{
#define LINK(template, slot, type, id)                                             \
    "{\"staticPolicies\":{},\"templates\":{\"t\":{\"effect\":\"permit\","          \
    "\"principal\":" template ",\"action\":{\"op\":\"All\"},\"resource\":{\"op\":" \
                              "\"All\"},"                                          \
                              "\"conditions\":[]}},\"templateLinks\":[{"           \
                              "\"templateId\":\"t\",\"newId\":\"l\","              \
                              "\"values\":{\"" slot "\":{\"type\":\"" type         \
                              "\",\"id\":\"" id "\"}}}]}"
#define IN_SLOT "{\"op\":\"in\",\"slot\":\"?principal\"}"
#define IS_SLOT "{\"op\":\"is\",\"entity_type\":\"U\",\"in\":{\"slot\":\"?principal\"}}"
    static const row rows[] = {
        {"permit(principal == ?principal, action, resource in ?resource);", true},
        {"permit(principal is U in ?principal, action, resource) when { "
         "principal.nothing };",
         false},
        {"permit(principal is Other in ?principal, action, resource);", false},
        {"permit(principal == ?principal, action, resource is Other);", false},
        {LINK(IN_SLOT, "?principal", "G", "g"), true},
        {LINK(IN_SLOT, "?principal", "D", "g"), false}, /* no principal is below one */
        {LINK(IN_SLOT, "?principal", "Nope", "g"), false},
        {LINK(IN_SLOT, "?principal", "E", "z"), false},
        {LINK(IS_SLOT, "?principal", "U", "u"), true},
        {LINK(IS_SLOT, "?principal", "D", "u"), false},
    };
    check_policies(*state, rows, sizeof rows / sizeof *rows, -1);
}

/* ---- findings ---- */
static void test_findings__say_where_what_and_for_whom(void **state)
{
    world *w = *state;
    bw_cedar_policies *p;
    bw_cedar_validation v =
        check(w,
              "permit(principal, action, resource);\n"
              "@id(\"second\") permit(principal, action in Action::\"all\", resource)\n"
              "when { \"é\" == \"\" || principal.n > principal.name }\n"
              "when { principal has n && principal.s == \"a\" };\n"
              "forbid(principal == Nope::\"a\", action, resource);\n"
              "forbid(principal, action, resource) when { context.b && false };",
              -1, &p);
    static const char *const want[] = {
        "second, 3:35: `principal.name` has type String, Long is wanted (for U, "
        "\"read\", D)",
        "second, 4:27: `principal.s`: attribute \"s\" of U is optional; ask `has` "
        "before, "
        "in the same words (for U, \"read\", D)",
        "second, 3:21: `principal.n`: G has no attribute \"n\" (for G, \"edit\", D)",
        "second, 3:35: `principal.name`: G has no attribute \"name\" (for G, \"edit\", "
        "D)",
        "policy2, 5:1: the schema declares no entity type \"Nope\"",
        "policy3, 6:44: `context.b`: {} has no attribute \"b\" (for U, \"edit\", D)",
    };
    assert_false(v.valid);
    assert_int_equal(v.nfindings, sizeof want / sizeof *want);
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        bool found = false;
        for (size_t i = 0; i < v.nfindings; i++)
            found |=
                strcmp(bw_cedar_finding_text(w->ctx, p, &v.findings[i]), want[k]) == 0;
        if (!found)
            fail_msg("%s", want[k]);
    }
    for (size_t i = 1; i < v.nfindings; i++)
        assert_true(v.findings[i - 1].policy <= v.findings[i].policy);
    assert_true(bw_str_is(v.findings[0].action.id, "read") &&
                bw_str_is(v.findings[0].principal, "U") &&
                bw_str_is(v.findings[0].resource, "D"));
    bw_cedar_policies_free(p);
}

static void test_findings__warn_of_policies_that_never_apply(void **state)
{
    world *w = *state;
    static const struct {
        const char *text;
        size_t column; /* of the warning; 0: none */
    } rows[] = {
        {"permit(principal, action, resource) when { false };", 44},
        {"permit(principal, action, resource) when { true };", 0},
        {"permit(principal, action, resource) unless { 1 == 1 };", 46},
        {"permit(principal, action, resource) when { principal is D };", 44},
        {"permit(principal, action, resource) when { principal is G };", 0},
        {"permit(principal, action, resource) when { principal is U } when { principal "
         "is G };",
         1}, /* now the one clause, now the other */
        {"permit(principal, action in Action::\"all\", resource) when { action == "
         "N::Action::\"act\" };",
         61},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bw_cedar_validation v = check(w, rows[i].text, -1, NULL);
        assert_true(v.valid);
        if (v.nfindings != (rows[i].column > 0) ||
            (v.nfindings &&
             (!v.findings[0].warning || v.findings[0].column != rows[i].column)))
            fail_msg("%s", rows[i].text);
    }
}

static void test_findings__warn_of_text_that_turns(void **state)
{
    world *w = *state;
    static const struct {
        const char *mark;
        bool warns;
    } rows[] = {{"\xe2\x80\xae", true},  {"\xe2\x80\xaa", true},
                {"\xe2\x81\xa6", true},  {"\xe2\x81\xa9", true},
                {"\xe2\x80\xa9", false}, {"\xe2\x80\xaf", false},
                {"\xe2\x81\xa5", false}, {"\xe2\x81\xaa", false},
                {"\xe2\x82\xac", false}, {"\\u{202e}", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "permit(principal, action, resource);\n"
                 "@id(\"%s\") permit(principal, action, resource);",
                 rows[i].mark);
        bw_cedar_validation v = check(w, text, -1, NULL);
        assert_true(v.valid && v.nfindings == rows[i].warns);
        if (rows[i].warns)
            assert_true(v.findings[0].warning && v.findings[0].policy == 1 &&
                        v.findings[0].line == 2 && v.findings[0].column == 6);
    }
}

static void test_findings__are_kept_up_to_a_number(void **state)
{
    world *w = *state;
    bw_cedar_policies *p = policies_of(
        w->ctx,
        "permit(principal, action == Action::\"read\", resource) when { 1 + \"a\" == "
        "2 && 1 + \"b\" == 2 && 1 + \"c\" == 2 };");
    for (uint32_t most = 1; most < 5; most++) {
        bw_cedar_validate_options o = {.level = -1, .findings_max = most};
        bw_cedar_validation v;
        assert_int_equal(bw_cedar_policies_validate(w->ctx, p, w->schema, &o, &v),
                         BW_OK);
        assert_int_equal(v.nfindings, most < 3 ? most : 3);
        assert_true(v.more == (most < 3) && !v.valid);
    }
    bw_cedar_policies_free(p);
}

/* A message writes the expression at fault short; a policy from JSON has no place. */
static void test_findings__write_expressions_short(void **state)
{
    world *w = *state;
    static const struct {
        const char *text, *written;
    } rows[] = {
        {"(!(principal has s)) + 1 == 2", "`!(principal has s)`"},
        {"{a: 1, \"b c\": {}} && true", "has type {a: Long, \"b c\": {}}, Bool"},
        {"(if context.b then 1 else 2) && true", "`if context.b then 1 else 2`"},
        {"principal.rec[\"a b\"] == 1", "`principal.rec[\"a b\"]`"},
        {"(principal.name like \"a*b\\*\\n\\\"\") + 1 == 2",
         "`principal.name like \"a*b\\*\\n\\\"\"`"},
        {"\"\\u{1}\\n\\\"\\0é*\" && true", "`\"\\u{1}\\n\\\"\\u{0}é*\"`"},
        {"\"012345678901234567890123456789012345678901234567890123456789012345678901234"
         "5678"
         "é\" && true",
         "012345678...`"},
        {"[[[[1, 2, 3]]]].contains([[[\"a\"]]])",
         "brings Set<Set<Set<Long>>> and Set<Set<Set<String>>> together"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        bool seen = false;
        bw_cedar_policies *p;
        snprintf(text, sizeof text,
                 "permit(principal, action == Action::\"read\", resource) when { %s };",
                 rows[i].text);
        bw_cedar_validation v = check(w, text, -1, &p);
        for (size_t k = 0; k < v.nfindings; k++) {
            const char *line = bw_cedar_finding_text(w->ctx, p, &v.findings[k]);
            seen |= strstr(line, rows[i].written) != NULL;
            if (!seen && k + 1 == v.nfindings)
                fail_msg("%s not in: %s", rows[i].written, line);
        }
        assert_true(seen);
        bw_cedar_policies_free(p);
    }
    bw_cedar_validation v = check(
        w,
        "{\"staticPolicies\":{\"p\":{\"effect\":\"permit\",\"principal\":{\"op\":"
        "\"All\"},"
        "\"action\":{\"op\":\"All\"},\"resource\":{\"op\":\"All\"},\"conditions\":[{"
        "\"kind\":\"when\",\"body\":{\"Value\":1}}]}},\"templates\":{},"
        "\"templateLinks\":[]}",
        -1, NULL);
    assert_int_equal(v.nfindings, 1);
    assert_int_equal(v.findings[0].line, 0);
}

/* ---- levels ---- */
static void test_levels__count_entities_looked_into(void **state)
{
    static const struct {
        const char *text;
        int level; /* the least that takes it; 9: none does */
    } rows[] = {
        {"principal == resource && principal is U", 0},
        {"context.b", 0},
        {"context.who == principal", 0},
        {"principal.n == 1", 1},
        {"principal has n", 1},
        {"principal in G::\"g\"", 1},
        {"principal.hasTag(\"a\")", 1},
        {"principal.hasTag(\"a\") && principal.getTag(\"a\").isEmpty()", 1},
        {"action in Action::\"all\"", 1},
        {"context.who.n == 1", 1},
        {"principal.rec.x == 1", 1},
        {"principal.boss.n == 1", 2},
        {"principal.boss in G::\"g\"", 2},
        {"principal.boss has n", 2},
        {"principal.boss.boss.n == 1", 3},
        {"principal in resource.owner.boss", 2},
        {"resource.owner.boss.boss == principal", 3},
        {"U::\"u\".n == 1", 9},
        {"U::\"u\" in G::\"g\"", 9},
        {"U::\"u\" == principal", 0},
        {"principal in U::\"u\"", 1},
        {"(if context.b then principal else principal.boss).n == 1", 2},
        {"(if context.b then principal else U::\"u\").n == 1", 9},
        {"{a: principal, b: principal.boss}.a.n == 1", 1},
        {"{a: principal, b: principal.boss}.b.n == 1", 2},
        {"{a: {c: resource.owner}, b: U::\"u\"}.a.c.n == 1", 2},
        {"(if context.b then {a: principal, b: U::\"u\"} else {b: principal, a: "
         "principal.boss}).a.n == 1",
         2},
        {"false && principal.boss.n == 1", 0}, /* never evaluated */
        {"[principal.boss].contains(principal)", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int level = 0; level < 5; level++)
            check_level(*state, &(row){rows[i].text, level >= rows[i].level}, 1, level);
    static const row scopes[] = {
        {"permit(principal == U::\"u\", action == Action::\"read\", resource is D);",
         true},
        {"permit(principal in G::\"g\", action, resource);", false},
        {"permit(principal, action, resource is D in ?resource);", false},
        {"permit(principal, action in Action::\"all\", resource);", false},
    };
    check_policies(*state, scopes, sizeof scopes / sizeof *scopes, 0);
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++)
        check_policies(*state, &(row){scopes[i].text, true}, 1, 1);
}

/* ---- limits ---- */
static void repeat(bw_buf *b, const char *what, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bw_buf_puts(b, what);
}

static bw_status validate_text(world *w, bw_buf *b, uint64_t steps, bool *valid)
{
    bw_cedar_policies *p = NULL;
    bw_cedar_validation v = {0};
    bw_cedar_validate_options o = {.level = 3, .steps_max = steps};
    bw_status st = bw_cedar_policies_parse(w->ctx, bw_buf_view(b), &p);
    if (st != BW_OK)
        fail_msg("%s", bw_ctx_message(w->ctx));
    st = bw_cedar_policies_validate(w->ctx, p, w->schema, &o, &v);
    *valid = st == BW_OK && v.valid;
    bw_cedar_policies_free(p);
    bw_buf_clear(b);
    return st;
}

static void test_limits__long_deep_and_wide_policies_are_typed(void **state)
{
    world *w = *state;
    static const struct {
        const char *open, *middle, *close;
        size_t n;
        bool valid;
    } rows[] = {
        {"context.b && ", "context.b", "", 20000, true},
        {"context.b || ", "1", "", 20000, false},
        {"principal has s && principal.s == \"a\" && ", "true", "", 5000, true},
        {"principal has s || ", "principal.s == \"a\"", "", 5000, false},
        {"1 + ", "1 == 2", "", 20000, true},
        {"if context.b then 1 else ", "2", " == 1", 5000, false},
        {"if context.b then context.b else ", "principal.on", "", 5000, true},
        {"(if context.b then {a: 1} else ", "{a: 2}", ").a == 1", 1, true},
        {"(", "context.b", ")", 290, true},
        {"!(", "context.b", ")", 290, true},
        {"[", "1", "]", 140, false},
        {"{a: ", "1", "}", 140, false},
        {"{a: ", "principal", "}.a", 140, false},
        {"if context.b then ", "true", " else false", 290, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bw_buf b = {0};
        bool valid;
        bw_buf_puts(&b,
                    "permit(principal, action == Action::\"read\", resource) when { ");
        repeat(&b, rows[i].open, rows[i].n);
        bw_buf_puts(&b, rows[i].middle);
        repeat(&b, rows[i].close,
               rows[i].close[0] == ' ' && rows[i].n > 300 ? 1 : rows[i].n);
        bw_buf_puts(&b, " };");
        if (validate_text(w, &b, 0, &valid) != BW_OK)
            fail_msg("%s: %s", rows[i].open, bw_ctx_message(w->ctx));
        if (valid != rows[i].valid)
            fail_msg("%s: %d", rows[i].open, valid);
    }
    bw_buf b = {0};
    bool valid;
    bw_buf_puts(
        &b, "permit(principal, action == Action::\"read\", resource) when { principal");
    repeat(&b, ".boss", 10000);
    bw_buf_puts(&b, " == principal && [");
    repeat(&b, "1, ", 20000);
    bw_buf_puts(&b, "2].contains(3) && {");
    for (int i = 0; i < 5000; i++)
        bw_buf_printf(&b, "k%d: principal, ", i);
    bw_buf_puts(&b, "}.k77.n == 1 };");
    assert_int_equal(validate_text(w, &b, 0, &valid), BW_OK);
    assert_false(valid); /* 10,000 deep, level 3 */
}

static void test_limits__steps_end_in_an_error(void **state)
{
    world *w = *state;
    bool valid;
    for (uint64_t most = 1; most < 2000; most += 397) {
        bw_buf b = {0};
        bw_buf_puts(&b, "permit(principal, action, resource) when { ");
        repeat(&b, "1 == 2 || ", 500);
        bw_buf_puts(&b, "true };");
        assert_int_equal(validate_text(w, &b, most, &valid), BW_EINVALID);
        assert_non_null(strstr(bw_ctx_message(w->ctx), "steps"));
    }
    /* Deep types are compared all the same. */
    bw_buf s = {0};
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < 330; i++)
            bw_buf_printf(&s, "type %c%d = { a: %c%d };", 'K' + side, i, 'K' + side,
                          i + 1);
    bw_buf_puts(&s, "type K330 = Long; type L330 = String; entity U = { k: K0, l: L0 };"
                    "action read appliesTo { principal: U, resource: U };");
    bw_buf_putc(&s, '\0');
    bw_cedar_schema_free(w->schema);
    w->schema = schema_of(w->ctx, s.ptr);
    bw_buf_clear(&s);
    bw_buf b = {0};
    bw_buf_puts(&b, "permit(principal, action, resource) when { principal.k == "
                    "principal.k && principal.k == principal.l };");
    assert_int_equal(validate_text(w, &b, 100000, &valid), BW_OK);
    assert_false(valid);
    /* Types that share their parts are as wide as two to the power of their depth. */
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < 40; i++)
            bw_buf_printf(&s, "type %c%d = { a: %c%d, b: %c%d };", 'K' + side, i,
                          'K' + side, i + 1, 'K' + side, i + 1);
    bw_buf_puts(&s, "type K40 = Long; type L40 = Long; entity U = { k: K0, l: L0 };"
                    "action read appliesTo { principal: U, resource: U };");
    bw_buf_putc(&s, '\0');
    bw_cedar_schema_free(w->schema);
    w->schema = schema_of(w->ctx, s.ptr);
    bw_buf_clear(&s);
    bw_buf_puts(
        &b, "permit(principal, action, resource) when { principal.k == principal.k };");
    assert_int_equal(validate_text(w, &b, 100000, &valid), BW_OK);
    assert_true(valid);
    bw_buf_puts(
        &b, "permit(principal, action, resource) when { principal.k == principal.l };");
    assert_int_equal(validate_text(w, &b, 100000, &valid), BW_EINVALID);
    assert_non_null(strstr(bw_ctx_message(w->ctx), "steps"));
}

static void test_limits__a_policy_has_so_many_parts(void **state)
{
    world *w = *state;
    bool valid;
    if (!getenv("BW_NIGHTLY"))
        skip();
    bw_buf b = {0};
    bw_buf_puts(&b, "permit(principal, action, resource) when { ");
    repeat(&b, "1 + ", 600000);
    bw_buf_puts(&b, "1 == 2 };");
    assert_int_equal(validate_text(w, &b, 0, &valid), BW_EINVALID);
    assert_non_null(strstr(bw_ctx_message(w->ctx), "parts"));
}

static void test_limits__many_environments_are_counted(void **state)
{
    world *w = *state;
    bool valid;
    bw_buf s = {0};
    for (int i = 0; i < 300; i++)
        bw_buf_printf(&s, "entity T%d = { n: Long };", i);
    for (int a = 0; a < 2; a++) {
        bw_buf_puts(&s, a ? "action b appliesTo { principal: ["
                          : "action a appliesTo { principal: [");
        for (int i = 0; i < 300; i++)
            bw_buf_printf(&s, "%sT%d", i ? "," : "", i);
        bw_buf_puts(&s, "], resource: [");
        for (int i = 0; i < 300; i++)
            bw_buf_printf(&s, "%sT%d", i ? "," : "", i);
        bw_buf_puts(&s, "] };");
    }
    bw_buf_putc(&s, '\0');
    bw_cedar_schema_free(w->schema);
    w->schema = schema_of(w->ctx, s.ptr);
    bw_buf_clear(&s);
    bw_buf b = {0};
    bw_buf_puts(
        &b, "permit(principal, action == Action::\"a\", resource == T7::\"x\") when { "
            "principal.n == resource.n };");
    assert_int_equal(validate_text(w, &b, 200000, &valid), BW_OK); /* 300 of 180,000 */
    assert_true(valid);
    bw_buf_puts(
        &b, "permit(principal, action, resource) when { principal.n == resource.n };");
    assert_int_equal(validate_text(w, &b, 200000, &valid), BW_EINVALID);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(test_rules__logic),
        T(test_rules__what_is_known_leaves_the_rest_out),
        T(test_rules__comparison_and_numbers),
        T(test_rules__entities),
        T(test_rules__sets_and_records),
        T(test_rules__extensions),
        T(test_names__are_looked_at_everywhere),
        T(test_capabilities__pass_where_they_hold),
        T(test_capabilities__pass_from_clause_to_clause),
        T(test_scopes__must_fit_some_request),
        T(test_templates__take_any_entity_that_fits),
        T(test_findings__say_where_what_and_for_whom),
        T(test_findings__warn_of_policies_that_never_apply),
        T(test_findings__warn_of_text_that_turns),
        T(test_findings__are_kept_up_to_a_number),
        T(test_findings__write_expressions_short),
        T(test_levels__count_entities_looked_into),
        T(test_limits__long_deep_and_wide_policies_are_typed),
        T(test_limits__steps_end_in_an_error),
        T(test_limits__many_environments_are_counted),
        T(test_limits__a_policy_has_so_many_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
