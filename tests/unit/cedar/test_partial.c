/* Folding rules of partial evaluation, each on both sides: what folds, and what nearly
 * does and must not. Language description, section 10; Lean model Cedar/TPE. */
#include "residual_fixture.h"

/* "T", "F", "E", or what is left of a permit with that condition. */
static const char *left_of(world *w, const bw_cedar_request *q, const char *policy,
                           bool conform)
{
    static char text[4096];
    bw_cedar_policies *p = policies_of(w->ctx, policy);
    bw_cedar_residuals *r = residuals_of(w, p, q, conform);
    static const char *const states[] = {
        [BW_CEDAR_RESIDUAL_FALSE] = "F",
        [BW_CEDAR_RESIDUAL_TRUE] = "T",
        [BW_CEDAR_RESIDUAL_ERROR] = "E",
    };
    bw_cedar_residual_state state = bw_cedar_residuals_state(r, 0);
    const bw_cedar__expr *e = bw_cedar__residual_expr(r, 0);
    assert_int_equal(e != NULL, state == BW_CEDAR_RESIDUAL_OPEN);
    for (int s = 0; s < 4; s++)
        assert_int_equal(bw_cedar_residuals_count(r, (bw_cedar_residual_state)s),
                         (bw_cedar_residual_state)s == state);
    if (e) {
        bw_buf b = {0};
        put_residual(&b, e);
        assert_true(b.len < sizeof text);
        memcpy(text, b.ptr, b.len);
        text[b.len] = '\0';
        bw_buf_clear(&b);
    }
    bw_cedar_residuals_free(r);
    bw_cedar_policies_free(p);
    return e ? text : states[state];
}

typedef struct rule {
    const char *condition;
    const char *off; /* what is left of it */
    const char *on;  /* with the promise; NULL: the same */
} rule;

static void check(world *w, const rule *rules, size_t n)
{
    bw_cedar_request q = residual_request(w);
    for (size_t i = 0; i < n; i++)
        for (int on = 0; on < 2; on++) {
            char policy[2048];
            snprintf(policy, sizeof policy,
                     "permit(principal, action, resource) when { %s };",
                     rules[i].condition);
            const char *want = on && rules[i].on ? rules[i].on : rules[i].off;
            const char *got = left_of(w, &q, policy, on);
            if (strcmp(got, want) != 0)
                fail_msg("%s (%s)\n  left: %s\n  want: %s", rules[i].condition,
                         on ? "on" : "off", got, want);
        }
}
#define CHECK_RULES(w, rules) check(w, rules, sizeof(rules) / sizeof *(rules))

static void test_partial_constants__fold(void **state)
{
    static const rule rules[] = {
        {"true", "T", NULL},
        {"1 + 1 == 3", "F", NULL},
        {"9223372036854775807 + context.n > 0", "E", NULL},
        {"principal.age == 30 && principal.boss == User::\"bob\"", "T", NULL},
        {"principal.nothing == 1", "E", NULL},
        {"context.who.age == 1", "E", NULL}, /* in no store, and of another type */
        {"context.who has age", "F", NULL},
        {"principal has boss.age", "F", NULL}, /* bob is in no store */
        {"principal.getTag(\"role\") == \"editor\"", "T", NULL},
        {"principal.hasTag(context.s)", "F", NULL},
        {"principal in Group::\"top\"", "T", NULL},
        {"principal in [Group::\"x\", Group::\"g\"]", "T", NULL},
        {"principal in [Group::\"x\", 1]", "E", NULL},
        {"principal is User && !(principal is Doc)", "T", NULL},
        {"principal is User in Group::\"g\"", "T", NULL},
        {"principal is Doc in 1", "F", NULL},
        {"1 is User", "E", NULL},
        {"[1, context.n].contains(7) && {\"a\": 1}.a == 1", "T", NULL},
        {"[].isEmpty() && {} == {}", "T", NULL},
        {"ip(\"10.0.0.1\").isInRange(ip(\"10.0.0.0/8\"))", "T", NULL},
        {"ip(\"10.0.0.1/99\").isIpv4()", "E", NULL},
        {"context.s like \"te*\"", "T", NULL},
        {"context.n", "E", NULL}, /* a condition that is no Bool */
        {"if context.yes then context.no else 1", "F", NULL},
        {"if context.n then true else true", "E", NULL},
    };
    CHECK_RULES(*state, rules);
}

static void test_partial_unknown__stays(void **state)
{
    static const rule rules[] = {
        {"resource.open", "(. resource open)", NULL},
        {"resource == Doc::\"a\"", "(== resource Doc::a)", NULL},
        {"resource == context.who", "F", NULL},
        {"context.who != resource", "T", NULL},
        {"resource == 3", "F", NULL},
        {"resource.size == context.n", "(== (. resource size) 7)", NULL},
        {"resource.owner == principal", "(== (. resource owner) User::alice)", NULL},
        /* the literal may be the resource: nothing is known of it but its name */
        {"context.doc.open", "(. Doc::in open)", NULL},
        {"context.doc has note", "(has Doc::in note)", NULL},
        {"context.doc has meta.region", "(has Doc::in meta region)", NULL},
        {"context has doc.note", "(has {7} doc note)", NULL},
        {"context has who.age", "F", NULL},
        {"context.doc.hasTag(\"a\")", "(hasTag Doc::in \"a\")", NULL},
        {"context.doc.getTag(\"a\") == 1", "(== (getTag Doc::in \"a\") 1)", NULL},
        {"context.doc.getTag(1) == 1", "E", NULL},
        {"context.doc in Folder::\"f\"", "(in Doc::in Folder::f)", NULL},
        {"context.doc in Doc::\"in\"", "T", NULL},
        {"context.doc in [Folder::\"f\", Doc::\"in\"]", "T", NULL},
        {"context.doc in [Folder::\"f\", 1]", "E", NULL},
        {"context.doc in 1", "E", NULL},
        {"resource is Doc", "T", NULL},
        {"resource is Folder", "F", NULL},
        {"resource is Doc in Folder::\"f\"", "(in resource Folder::f)", NULL},
        {"resource is User in 1", "F", NULL},
        {"resource in Folder::\"f\"", "(in resource Folder::f)", NULL},
        {"resource in Group::\"g\"", "(in resource Group::g)", "F"},
        {"resource in [Group::\"g\", User::\"u\"]", "(in resource [Group::g User::u])",
         "F"},
        {"resource in [Group::\"g\", Doc::\"a\"]", "(in resource [Doc::a Group::g])",
         NULL},
        {"resource in []", "F", NULL},
        {"resource in [1]", "E", NULL},
        {"resource in 1", "E", NULL},
        {"principal in resource", "F", NULL},
        {"context.doc in resource", "(in Doc::in resource)", NULL},
        {"1 in resource", "E", NULL},
        {"principal in resource.groups", "(in User::alice (. resource groups))", NULL},
        {"resource.nothing == 1", "(== (. resource nothing) 1)", "E"},
        {"resource.meta.nothing == 1", "(== (. (. resource meta) nothing) 1)", "E"},
        {"resource.hasTag(context.s)", "(hasTag resource \"text\")", NULL},
        {"(resource.open && 1) == 3", "(== (&& (. resource open) 1) 3)", NULL},
        {"[resource, context.n].contains(1)", "(contains (set resource 7) 1)", NULL},
        {"{\"a\": resource.size, \"b\": context.n}.b == 7",
         "(== (. (record (. resource size) 7 a b) b) 7)", NULL},
        {"resource.addr.isInRange(ip(\"1.2.3.4\"))", "(isInRange (. resource addr) ip)",
         NULL},
        {"context.s like \"x\" || resource.note like \"*\"", "(like (. resource note))",
         NULL},
        {"(resource.size + principal.age) * -context.n < 0",
         "(< (* (+ (. resource size) 30) -7) 0)", NULL},
    };
    CHECK_RULES(*state, rules);
}

static void test_partial_errors__are_strict(void **state)
{
    static const rule rules[] = {
        {"resource.size == principal.nothing", "E", NULL},
        {"resource.size + (principal.nothing) < 0", "E", NULL},
        {"[resource, principal.nothing].isEmpty()", "E", NULL},
        {"principal.nothing && resource.open", "E", NULL},
        {"principal.nothing || resource.open", "E", NULL},
        {"if principal.nothing then resource.open else true", "E", NULL},
        {"principal.nothing is User in resource", "E", NULL},
        {"resource is Doc in context.nothing", "E", NULL},
        {"resource.owner is User in context.nothing",
         "(is (. resource owner) error User)", NULL}, /* another type may end it */
        {"resource.owner.x is User in 1", "(is (. (. resource owner) x) 1 User)", NULL},
        /* not looked at, perhaps */
        {"resource.open && principal.nothing", "(&& (. resource open) error)", NULL},
        {"resource.open || 1", "(|| (. resource open) 1)", NULL},
        {"if resource.open then principal.nothing else true",
         "(if (. resource open) error true)", NULL},
    };
    CHECK_RULES(*state, rules);
}

static void test_partial_logic__keeps_errors(void **state)
{
    static const rule rules[] = {
        {"context.yes && resource.open", "(. resource open)", NULL},
        {"context.no && resource.open", "F", NULL},
        {"context.no || resource.open", "(. resource open)", NULL},
        {"context.yes || resource.open", "T", NULL},
        {"context.n && resource.open", "E", NULL},
        {"resource.open && context.yes", "(. resource open)", NULL},
        {"resource.open || context.no", "(. resource open)", NULL},
        /* the left side may error, unless it is promised not to */
        {"resource.open && context.no", "(&& (. resource open) false)", "F"},
        {"resource.open || context.yes", "(|| (. resource open) true)", "T"},
        {"resource.note == \"\" && false", "(&& (== (. resource note) \"\") false)",
         NULL},
        {"resource has note && context.no", "F", NULL},
        {"resource == Doc::\"a\" && context.no", "F", NULL},
        {"resource in [Folder::\"f\"] || context.yes", "T", NULL},
        {"resource && context.no", "(&& resource false)", NULL}, /* no Bool */
        {"resource.size && context.no", "(&& (. resource size) false)", NULL},
        /* a value of no known type does not stand for && or || unless a Bool is asked
         */
        {"(context.yes && resource.x) == 3", "(== (&& true (. resource x)) 3)", "E"},
        {"(resource.note || context.no) == 3", "(== (|| (. resource note) false) 3)",
         NULL},
        {"(context.yes && resource.open) == true",
         "(== (&& true (. resource open)) true)", "(== (. resource open) true)"},
        {"!(context.yes && resource.x)", "(! (. resource x))", "E"},
        {"if (context.no || resource.x) then true else false",
         "(if (. resource x) true false)", "E"},
        {"if resource.open then (context.yes && resource.x) else true",
         "(if (. resource open) (. resource x) true)",
         "(if (. resource open) error true)"},
        {"(if resource.open then (context.yes && resource.note) else true) == 3",
         "(== (if (. resource open) (&& true (. resource note)) true) 3)", NULL},
    };
    CHECK_RULES(*state, rules);
}

/* What cannot error, so that a right side may decide: nothing else is taken for it. */
static void test_partial_promise__rests_on_declared_types(void **state)
{
    static const rule rules[] = {
        {"resource.words.contains(context.s) && false",
         "(&& (contains (. resource words) \"text\") false)", "F"},
        {"resource.words.containsAny(context.w) && false",
         "(&& (containsAny (. resource words) [\"x\" \"y\"]) false)", "F"},
        {"resource.words.containsAll(context.n) && false",
         "(&& (containsAll (. resource words) 7) false)", NULL},
        {"resource.size.contains(1) && false",
         "(&& (contains (. resource size) 1) false)", NULL},
        {"resource.words.isEmpty() && false", "(&& (isEmpty (. resource words)) false)",
         "F"},
        {"resource.size <= context.n && false", "(&& (<= (. resource size) 7) false)",
         "F"},
        {"resource.size <= context.s && false",
         "(&& (<= (. resource size) \"text\") false)", NULL},
        {"resource.size + 1 == 2 && false", "(&& (== (+ (. resource size) 1) 2) false)",
         NULL},
        {"-resource.size == 2 && false", "(&& (== (neg (. resource size)) 2) false)",
         NULL},
        {"principal in resource.groups && false",
         "(&& (in User::alice (. resource groups)) false)", "F"},
        {"principal in resource.words && false",
         "(&& (in User::alice (. resource words)) false)", NULL},
        {"resource.owner in resource.groups && false",
         "(&& (in (. resource owner) (. resource groups)) false)", "F"},
        {"resource.owner.age == 1 && false",
         "(&& (== (. (. resource owner) age) 1) false)", NULL},
        {"resource.owner has age && false", "(&& (has (. resource owner) age) false)",
         "F"},
        {"resource.owner is Doc && false", "(&& (is (. resource owner) Doc) false)",
         "F"},
        {"resource.owner is Doc in Doc::\"a\"", "(is (. resource owner) Doc::a Doc)",
         "F"},
        {"resource.note like \"a\" && false", "(&& (like (. resource note)) false)",
         NULL},
        {"resource.meta.pii && false", "(&& (. (. resource meta) pii) false)", "F"},
        {"resource.meta.region == \"\" && false",
         "(&& (== (. (. resource meta) region) \"\") false)", NULL},
        {"resource has open", "(has resource open)", "T"},
        {"resource has note", "(has resource note)", NULL},
        {"resource has nothing", "(has resource nothing)", "F"},
        {"resource has meta.pii", "(has resource meta pii)", NULL},
        {"resource has nothing.pii", "(has resource nothing pii)", "F"},
        {"resource.meta has pii", "(has (. resource meta) pii)", "T"},
        {"resource.meta has nothing", "(has (. resource meta) nothing)", "F"},
        {"resource.info has a", "(has (. resource info) a)", NULL},
        {"resource.info has nothing", "(has (. resource info) nothing)", NULL},
        {"resource.info.nothing == 1", "(== (. (. resource info) nothing) 1)", "E"},
        {"resource.note has nothing && false",
         "(&& (has (. resource note) nothing) false)", NULL},
        {"resource.cost.lessThan(decimal(\"1.0\")) && false",
         "(&& (lessThan (. resource cost) 10000) false)", "F"},
        {"resource.cost.lessThan(context.n) && false",
         "(&& (lessThan (. resource cost) 7) false)", NULL},
        {"resource.addr.isIpv4() && false", "(&& (isIpv4 (. resource addr)) false)",
         "F"},
        {"resource.at < datetime(\"1970-01-02\") && false",
         "(&& (< (. resource at) 86400000) false)", "F"},
        {"resource.at.toDate() == resource.at && false",
         "(&& (== (toDate (. resource at)) (. resource at)) false)", NULL},
        {"resource.hasTag(\"a\") && false", "F", NULL},
        {"resource.getTag(\"a\") == 1 && false",
         "(&& (== (getTag resource \"a\") 1) false)", NULL},
        {"(if resource.open then resource.size else 1) < 2 && false",
         "(&& (< (if (. resource open) (. resource size) 1) 2) false)", "F"},
        {"(if resource.open then resource.size else resource.cost) == 2 && false",
         "(&& (== (if (. resource open) (. resource size) (. resource cost)) 2) false)",
         "F"},
        {"resource.size == \"\" && resource.open",
         "(&& (== (. resource size) \"\") (. resource open))", "F"},
        {"!resource.open || true", "(|| (! (. resource open)) true)", "T"},
    };
    CHECK_RULES(*state, rules);
}

/* Scopes: the type decides what it can, the rest becomes part of the condition. */
static void test_partial_scope__becomes_condition(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
    static const struct {
        const char *policy, *off, *on;
    } cases[] = {
        {"permit(principal, action, resource);", "T", NULL},
        {"permit(principal, action, resource is Doc);", "T", NULL},
        {"permit(principal, action, resource is Folder);", "F", NULL},
        {"permit(principal, action, resource == Doc::\"a\");", "(== resource Doc::a)",
         NULL},
        {"permit(principal, action, resource == Folder::\"a\");", "F", NULL},
        {"permit(principal, action, resource in Folder::\"f\");",
         "(in resource Folder::f)", NULL},
        {"permit(principal, action, resource in Group::\"f\");",
         "(in resource Group::f)", "F"},
        {"permit(principal, action, resource is Doc in Folder::\"f\");",
         "(in resource Folder::f)", NULL},
        {"permit(principal, action, resource is User in Folder::\"f\");", "F", NULL},
        {"permit(principal == User::\"bob\", action, resource);", "F", NULL},
        {"permit(principal in Group::\"top\", action == Action::\"view\", resource);",
         "T", NULL},
        {"permit(principal, action == Action::\"other\", resource);", "F", NULL},
        {"permit(principal, action in [], resource);", "F", NULL},
        {"permit(principal, action, resource in Folder::\"f\") when { context.yes } "
         "unless { resource.open };",
         "(&& (in resource Folder::f) (! (. resource open)))", NULL},
        {"permit(principal, action, resource == Doc::\"a\") when { context.no };", "F",
         NULL}, /* the scope cannot error */
        {"permit(principal, action, resource) when { resource.open } "
         "unless { context.yes };",
         "(&& (. resource open) false)", "F"},
        {"permit(principal, action, resource) when { resource.open } when { 1 };",
         "(&& (. resource open) 1)", NULL},
        {"permit(principal, action, resource) unless { 1 };", "E", NULL},
        {"permit(principal, action, resource) unless { resource.size };",
         "(! (. resource size))", NULL},
        {"permit(principal == ?principal, action, resource);", "F", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = left_of(w, &q, cases[i].policy, false);
        if (strcmp(got, cases[i].off) != 0)
            fail_msg("%s\n  left: %s\n  want: %s", cases[i].policy, got, cases[i].off);
        const char *on = cases[i].on ? cases[i].on : cases[i].off;
        got = left_of(w, &q, cases[i].policy, true);
        if (strcmp(got, on) != 0)
            fail_msg("%s (on)\n  left: %s\n  want: %s", cases[i].policy, got, on);
    }
}

/* The principal may be the resource: of it, too, only the name is known. */
static void test_partial_principal_of_the_type__is_unknown(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
    q.principal = uid("Doc", "p");
    static const char *const cases[][2] = {
        {"permit(principal in Folder::\"f\", action, resource);",
         "(in Doc::p Folder::f)"},
        {"permit(principal == Doc::\"p\", action, resource);", "T"},
        {"permit(principal is Doc in Folder::\"f\", action, resource);",
         "(in Doc::p Folder::f)"},
        {"permit(principal == Doc::\"q\", action, resource);", "F"},
        {"permit(principal is User, action, resource);", "F"},
        {"permit(principal, action, resource) when { principal.open };",
         "(. Doc::p open)"},
        {"permit(principal, action, resource) when { principal == resource };",
         "(== Doc::p resource)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = left_of(w, &q, cases[i][0], false);
        if (strcmp(got, cases[i][1]) != 0)
            fail_msg("%s\n  left: %s\n  want: %s", cases[i][0], got, cases[i][1]);
    }
}

/* A type that something has above it: ancestry through it is unknown. */
static void test_partial_type_above__hides_ancestry(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
    q.unchecked = true;
    q.resource = uid("Group", "");
    assert_string_equal(
        left_of(w, &q, "permit(principal in Group::\"top\", action, resource);", false),
        "(in User::alice Group::top)");
    assert_string_equal(left_of(w, &q,
                                "permit(principal, action, resource) when { principal "
                                "in resource };",
                                false),
                        "(in User::alice resource)");
    assert_string_equal(
        left_of(w, &q,
                "permit(principal, action, resource) when { Folder::\"f\" in "
                "Folder::\"root\" && !(Folder::\"f\" in resource) };",
                false),
        "T");
}

static void test_partial_known__needs_no_resource(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
#define P "permit(principal, action, resource) when "
#define F "forbid(principal, action, resource) when "
    static const struct {
        const char *text;
        bw_cedar_known known;
    } cases[] = {
        {"", BW_CEDAR_DENIES},
        {P "{ true };", BW_CEDAR_ALLOWS},
        {P "{ false };", BW_CEDAR_DENIES},
        {P "{ 1 };", BW_CEDAR_DENIES},
        {P "{ resource.open };", BW_CEDAR_UNKNOWN},
        {P "{ true };" F "{ true };", BW_CEDAR_DENIES},
        {P "{ true };" F "{ false };", BW_CEDAR_ALLOWS},
        {P "{ true };" F "{ 1 };", BW_CEDAR_ALLOWS}, /* Cedar skips it */
        {P "{ true };" F "{ resource.open };", BW_CEDAR_UNKNOWN},
        {P "{ resource.open };" F "{ true };", BW_CEDAR_DENIES},
        {P "{ false };" F "{ resource.open };", BW_CEDAR_DENIES},
        {P "{ resource.open };" P "{ true };", BW_CEDAR_ALLOWS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bw_cedar_policies *p = policies_of(w->ctx, cases[i].text);
        bw_cedar_residuals *r = residuals_of(w, p, &q, false);
        if (bw_cedar_residuals_known(r) != cases[i].known)
            fail_msg("%s", cases[i].text);
        bw_cedar_residuals_free(r);
        bw_cedar_policies_free(p);
    }
}

static void refuses(world *w, const bw_cedar_request *q, bool conform,
                    const bw_cedar_schema *schema, const char *policy, const char *why)
{
    bw_cedar_policies *p = policies_of(w->ctx, policy);
    bw_cedar_residuals *r = NULL;
    const bw_cedar_partial_options o = {.resources_conform = conform};
    assert_int_equal(bw_cedar_partial(w->ctx, p, w->entities, schema, q, &o, &r),
                     BW_EINVALID);
    assert_null(r);
    if (!strstr(bw_ctx_message(w->ctx), why))
        fail_msg("%s, not %s", bw_ctx_message(w->ctx), why);
    bw_cedar_policies_free(p);
}

static void test_partial_request__is_held_against_the_schema(void **state)
{
    world *w = *state;
    static const char all[] = "permit(principal, action, resource);";
    bw_cedar_request q = residual_request(w);
    refuses(w, &q, true, NULL, all, "no schema declares");
    q.resource = uid("Folder", "");
    refuses(w, &q, false, w->schema, all, "resource of this type");
    q.resource = uid("Nothing", "");
    q.unchecked = true;
    refuses(w, &q, true, w->schema, all, "no schema declares");
    q = residual_request(w);
    q.principal = uid("Group", "g");
    refuses(w, &q, false, w->schema, all, "principal of this type");
    q = residual_request(w);
    q.action = uid("Action", "other");
    refuses(w, &q, false, w->schema, all, "declare the action");
    q = residual_request(w);
    q.context = NULL;
    refuses(w, &q, false, w->schema, all, "");
}

/* A context with a set of 3,000 numbers, and a policy that has it compared 4,000 times.
 */
static void test_partial_steps__are_limited(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
    bw_buf b = {0}, c = {0};
    bw_buf_puts(&b, "permit(principal, action, resource) when { false");
    for (int k = 0; k < 4000; k++)
        bw_buf_puts(&b, " || context.big.containsAll(context.big) && false");
    bw_buf_puts(&b, " };");
    bw_buf_puts(&c, "{\"big\":[");
    for (int k = 0; k < 3000; k++)
        bw_buf_printf(&c, "%s%d", k ? "," : "", k);
    bw_buf_puts(&c, "]}");
    bw_buf_putc(&b, 0);
    bw_buf_putc(&c, 0);
    q.context = json_of(w->ctx, c.ptr);
    refuses(w, &q, false, NULL, b.ptr, "steps");
    bw_buf_clear(&b);
    bw_buf_clear(&c);
}

/* A chain of any length neither recurses nor copies what it shares. */
static void test_partial_chains__do_not_nest(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
    bw_buf b = {0};
    bw_buf_puts(&b, "permit(principal, action, resource) when { resource.open");
    for (int k = 0; k < 20000; k++)
        bw_buf_puts(&b, k % 2 ? " && resource.open" : " && context.yes");
    bw_buf_puts(&b, " };");
    bw_buf_putc(&b, 0);
    bw_cedar_policies *p = policies_of(w->ctx, b.ptr);
    bw_cedar_residuals *r = residuals_of(w, p, &q, false);
    uint32_t n = 0;
    for (const bw_cedar__expr *e = bw_cedar__residual_expr(r, 0);
         e->op == BW_CEDAR__AND; e = e->child[0])
        n++;
    assert_int_equal(n, 10000);
    bw_cedar_residuals_free(r);
    bw_cedar_policies_free(p);
    bw_buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        residual_test(test_partial_constants__fold),
        residual_test(test_partial_unknown__stays),
        residual_test(test_partial_errors__are_strict),
        residual_test(test_partial_logic__keeps_errors),
        residual_test(test_partial_promise__rests_on_declared_types),
        residual_test(test_partial_scope__becomes_condition),
        residual_test(test_partial_principal_of_the_type__is_unknown),
        residual_test(test_partial_type_above__hides_ancestry),
        residual_test(test_partial_known__needs_no_resource),
        residual_test(test_partial_request__is_held_against_the_schema),
        residual_test(test_partial_steps__are_limited),
        residual_test(test_partial_chains__do_not_nest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
