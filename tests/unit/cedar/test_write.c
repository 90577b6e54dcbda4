/* Sets written as JSON and as text, and laid out: examples, and the laws (cedar_laws.h)
 * over random policies with random white space and comments between their tokens. */
#include "cedar_fixture.h"
#include "cedar_laws.h"
#include "rnd.h"

static const char wild[] =
    "// head\n"
    "\n"
    "// second\n"
    "\n"
    "@id(\"x\") // behind the annotation\n"
    "// before the effect\n"
    "forbid(principal in Bw::Role::\"reader\", // who\n"
    "action in [Action::\"a long name of an action\", Action::\"another long na"
    "me of an action\", Action::\"b\"], resource) unless { principal.something."
    "long == resource.something.long && (context.a.b.c || context.d.e.f.g.h.i.j"
    ".k.l.m.n && context.o.p.q.r.s.t) || (if context.u then [\"one element of a"
    " set\", \"another element of a set\", \"the third one of this set\"].conta"
    "ins(context.v) else if context.w then 1 + 2 * 3 - 4 == -5 // five\n"
    "else false) } when { // why\n"
    "true\n"
    "// because\n"
    "}; // end\n"
    "// about the next\n"
    "permit(principal, action, resource) when { context.somebody.something has "
    "aaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbb.ccccccccccccccccc.dddddddddddd"
    "dddddd };\n"
    "permit(principal, action, resource) when { context.a // x\n"
    "  .b == User:: // y\n"
    "  \"z\" };\n"
    "\n"
    "// last\n";
static const char tidy[] =
    "// head\n"
    "\n"
    "// second\n"
    "\n"
    "@id(\"x\") // behind the annotation\n"
    "// before the effect\n"
    "forbid (\n"
    "  principal in Bw::Role::\"reader\", // who\n"
    "  action in [\n"
    "    Action::\"a long name of an action\",\n"
    "    Action::\"another long name of an action\",\n"
    "    Action::\"b\"\n"
    "  ],\n"
    "  resource\n"
    ")\n"
    "unless {\n"
    "  principal.something.long == resource.something.long &&\n"
    "  (context.a.b.c || context.d.e.f.g.h.i.j.k.l.m.n && context.o.p.q.r.s.t) "
    "||\n"
    "  (if context.u\n"
    "   then [\"one element of a set\", \"another element of a set\", \"the thi"
    "rd one of this set\"].contains(\n"
    "     context.v\n"
    "   )\n"
    "   else if context.w\n"
    "   then 1 + 2 * 3 - 4 == -5 // five\n"
    "   else false)\n"
    "}\n"
    "when { // why\n"
    "  true\n"
    "  // because\n"
    "}; // end\n"
    "\n"
    "// about the next\n"
    "permit (principal, action, resource)\n"
    "when {\n"
    "  context.somebody.something has\n"
    "    aaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbb.ccccccccccccccccc.dddddddd"
    "dddddddddd\n"
    "};\n"
    "\n"
    "permit (principal, action, resource)\n"
    "when {\n"
    "  context.a // x\n"
    "  .b ==\n"
    "    User:: // y\n"
    "    \"z\"\n"
    "};\n"
    "\n"
    "// last\n";

/* In ctx's arena. */
static const char *formatted(bw_ctx *ctx, const char *text)
{
    bw_buf b = {0};
    if (bw_cedar_policies_format(ctx, bw_str_c(text), &b) != BW_OK)
        fail_msg("%s: %s", text, bw_ctx_message(ctx));
    const char *out = bw_arena_printf(ctx, "%.*s", (int)b.len, b.ptr ? b.ptr : "");
    bw_buf_clear(&b);
    return out;
}

static const char *written(bw_ctx *ctx, const bw_cedar_policies *p, bool json)
{
    bw_buf b = {0};
    bw_status st = json ? bw_cedar_policies_write_json(ctx, p, &b)
                        : bw_cedar_policies_write(ctx, p, &b);
    if (st != BW_OK)
        fail_msg("%s", bw_ctx_message(ctx));
    const char *out = bw_arena_printf(ctx, "%.*s", (int)b.len, b.ptr);
    bw_buf_clear(&b);
    return out;
}

static void test_format__breaks_what_does_not_fit(void **state)
{
    world *w = *state;
    assert_string_equal(formatted(w->ctx, wild), tidy);
    assert_string_equal(formatted(w->ctx, tidy), tidy);
    assert_string_equal(formatted(w->ctx, ""), "");
    assert_string_equal(formatted(w->ctx, " // alone \t"), "// alone\n");
    assert_string_equal(
        formatted(
            w->ctx,
            "@a@if ( \"x\" )permit(principal,action,resource,)when{-1<- -2&&!(!true)&&"
            "{a:[],b:{}}[\"a\"].isEmpty()};permit(principal==?principal,action,"
            "resource);"),
        "@a\n@if(\"x\")\npermit (principal, action, resource,)\n"
        "when { -1 < --2 && !(!true) && { a: [], b: {} }[\"a\"].isEmpty() };\n\n"
        "permit (principal == ?principal, action, resource);\n");
}

static void test_format__refuses_what_does_not_parse(void **state)
{
    world *w = *state;
    bw_buf b = {0};
    bw_buf_puts(&b, "kept");
    assert_int_equal(bw_cedar_policies_format(w->ctx, BW_STR("permit(principal;"), &b),
                     BW_EINVALID);
    assert_string_equal(bw_ctx_message(w->ctx), "line 1, column 17: expected ','");
    assert_true(bw_str_is(bw_buf_view(&b), "kept"));
    bw_buf_clear(&b);
}

/* Only as many parentheses as are needed, and every escape that is. */
static void test_write__parentheses_and_escapes(void **state)
{
    static const char *const same[] = {
        "!!!!(!!true)",
        "-(5) == -(-5)",
        "-(-5).a == -5.a",
        "(-5).a",
        "!(-1) && -(!true)",
        "1 - (2 - 3) - 4 * (5 + 6)",
        "(true && false || true) && 1",
        "true || false && (1 || 2)",
        "(if 1 then 2 else 3) && 4",
        "if if 1 then 2 else 3 then if 4 then 5 else 6 else if 7 then 8 else 9",
        "(1 == 2) == 3",
        "(action has b) == (action like \"*\\*\\\\\\\"\\u{1}\\n\")",
        "action has b.c && action has \"in\" && action has \"b c\"",
        "action[\"in\"].b[\"\"]",
        "{ a: 1, \"in\": [2, {}] }",
        "(action is T) == (action is T::U in (1 == 2) + 3)",
        "(1 + 2).contains(1 + 2)",
        "ip(\"::1\").isInRange(ip(1 || 2))",
        "(!true).isEmpty()",
        "T::\"\\u{0}\\u{d}\" in [T::\"\\t\"]",
        "-9223372036854775808 * -9223372036854775808",
        "1 * -(2)",
        "(-1).isIpv4()",
    };
    world *w = *state;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const char *text = bw_arena_printf(
            w->ctx, "permit (principal, action, resource)\nwhen { %s };\n", same[i]);
        bw_cedar_policies *p = policies_of(w->ctx, text);
        assert_string_equal(written(w->ctx, p, false), text);
        const char *why = law_breach(w->ctx, bw_str_c(text), p);
        if (why)
            fail_msg("%s: %s", same[i], why);
        bw_cedar_policies_free(p);
    }
}

static const char linked[] =
    "{\"staticPolicies\":{\"s\":{\"effect\":\"forbid\",\"principal\":{\"op\":\"is\","
    "\"entity_type\":\"User\",\"in\":{\"entity\":{\"type\":\"G\",\"id\":\"g\"}}},"
    "\"action\":{\"op\":\"in\",\"entities\":[]},\"resource\":{\"op\":\"All\"},"
    "\"conditions\":[{\"kind\":\"unless\",\"body\":{\"&&\":{\"left\":{\"has\":{"
    "\"left\":"
    "{\"Var\":\"context\"},\"attr\":\"a\"}},\"right\":{\"has\":{\"left\":{\".\":{"
    "\"left\":"
    "{\"Var\":\"context\"},\"attr\":\"a\"}},\"attr\":\"b\"}}}}}],"
    "\"annotations\":{\"id\":\"x\",\"if\":null}}},"
    "\"templates\":{\"t\":{\"effect\":\"permit\",\"principal\":{\"op\":\"==\",\"slot\":"
    "\"?principal\"},\"action\":{\"op\":\"==\",\"entity\":{\"type\":\"Action\",\"id\":"
    "\"a\"}},"
    "\"resource\":{\"op\":\"is\",\"entity_type\":\"D\",\"in\":{\"slot\":\"?resource\"}}"
    ","
    "\"conditions\":[]}},\"templateLinks\":[{\"templateId\":\"t\",\"newId\":\"l\","
    "\"values\":{\"?principal\":{\"type\":\"User\",\"id\":\"u\"},\"?resource\":{"
    "\"type\":\"F\","
    "\"id\":\"f\"}}}]}";

static void test_write__templates_links_and_annotations(void **state)
{
    world *w = *state;
    bw_cedar_policies *p = NULL;
    assert_int_equal(bw_cedar_policies_parse_json(w->ctx, bw_str_c(linked), &p), BW_OK);
    assert_string_equal(written(w->ctx, p, true), linked);
    assert_string_equal(
        written(w->ctx, p, false),
        "// id \"s\"\n@id(\"x\")\n@if\n"
        "forbid (principal is User in G::\"g\", action in [], resource)\n"
        "unless { context has a && context.a has b };\n\n"
        "// id \"t\"\n"
        "permit (principal == ?principal, action == Action::\"a\", "
        "resource is D in ?resource);\n\n"
        "// id \"l\"\n"
        "permit (principal == User::\"u\", action == Action::\"a\", "
        "resource is D in F::\"f\");\n");
    assert_null(law_json(w->ctx, p));
    assert_null(law_write(w->ctx, p));
    bw_cedar_policies_free(p);
    const char *none =
        "{\"staticPolicies\":{},\"templates\":{\"t\":{\"effect\":\"permit\","
        "\"principal\":{\"op\":\"All\"},\"action\":{\"op\":\"All\"},"
        "\"resource\":{\"op\":\"All\"},\"conditions\":[]}},"
        "\"templateLinks\":[]}";
    bw_cedar_request q = request_of(w);
    bw_cedar_answer a;
    bw_buf b = {0};
    assert_int_equal(bw_cedar_policies_parse_json(w->ctx, bw_str_c(none), &p), BW_OK);
    assert_int_equal(bw_cedar_authorize(w->ctx, p, NULL, NULL, &q, &a), BW_OK);
    assert_false(a.allow);
    assert_string_equal(written(w->ctx, p, true), none);
    assert_int_equal(bw_cedar_policies_write(w->ctx, p, &b), BW_EINVALID);
    bw_cedar_policies_free(p);
}

/* Trees that no text means, and a form that would be too large, are refused; nothing is
 * written then. */
static void test_write__refuses_what_has_no_form(void **state)
{
    static const char *const bodies[] = {
        "{\"isIpv4\":[]}",
        "{\"Value\":{\"__extn\":{\"fn\":\"none\",\"arg\":1}}}",
        "{\"has\":{\"left\":{\"Var\":\"context\"},\"attr\":[\"a\",\"b c\"]}}",
    };
    world *w = *state;
    bw_buf b = {0};
    bw_cedar_policies *p;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        const char *json = bw_arena_printf(
            w->ctx,
            "{\"staticPolicies\":{\"p\":{\"effect\":\"permit\",\"principal\":{\"op\":"
            "\"All\"},"
            "\"action\":{\"op\":\"All\"},\"resource\":{\"op\":\"All\"},\"conditions\":["
            "{"
            "\"kind\":\"when\",\"body\":%s}]}},\"templates\":{},\"templateLinks\":[]}",
            bodies[i]);
        assert_int_equal(bw_cedar_policies_parse_json(w->ctx, bw_str_c(json), &p),
                         BW_OK);
        assert_int_equal(bw_cedar_policies_write(w->ctx, p, &b), BW_EINVALID);
        assert_int_equal(b.len, 0);
        assert_null(law_json(w->ctx, p));
        bw_cedar_policies_free(p);
    }
    bw_buf_puts(&b, "permit(principal, action, resource) when { ");
    for (int i = 0; i < 40; i++)
        bw_buf_puts(&b, "(");
    bw_buf_puts(&b, "context");
    for (int i = 0; i < 40; i++) /* each doubles the form */
        bw_buf_puts(&b, " has a.b)");
    bw_buf_puts(&b, " };");
    assert_int_equal(bw_cedar_policies_parse(w->ctx, bw_buf_view(&b), &p), BW_OK);
    b.len = 0;
    assert_int_equal(bw_cedar_policies_write_json(w->ctx, p, &b), BW_EINVALID);
    assert_int_equal(b.len, 0);
    bw_cedar_policies_free(p);
    bw_buf_clear(&b);
}

/* ---- the laws over random policies ---- */
typedef struct maker {
    rnd r;
    bw_buf b;
} maker;

static uint32_t any(maker *m, uint32_t n)
{
    return (uint32_t)(rnd_u64(&m->r) % n);
}

/* A token, and what may stand before it. */
static void put(maker *m, const char *token)
{
    static const char *const blanks[] = {" ",          "\n",         "\n\n",
                                         "\t ",        "// a\n",     " // b  \n",
                                         "\n// c\r\n", "\r// d\n\n", "//\n//e\n"};
    bool glue = m->b.len && m->b.ptr[m->b.len - 1] == '?'; /* a slot is one word */
    if (!glue)
        bw_buf_puts(&m->b,
                    any(m, 4) ? " " : blanks[any(m, sizeof blanks / sizeof *blanks)]);
    bw_buf_puts(&m->b, token);
}

static void put_one(maker *m, const char *const *list, uint32_t n)
{
    put(m, list[any(m, n)]);
}
#define ONE(m, ...)                                  \
    put_one((m), (const char *const[]){__VA_ARGS__}, \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void put_tokens(maker *m, const char *const *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        put(m, list[i]);
}
#define ALL(m, ...)                                     \
    put_tokens((m), (const char *const[]){__VA_ARGS__}, \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void put_member(maker *m, int depth);
static void put_expr(maker *m, int depth);

static void put_args(maker *m, int depth, const char *open, const char *close)
{
    put(m, open);
    for (uint32_t i = 0, n = any(m, 4); i < n; i++) {
        put_expr(m, depth - 1);
        if (i + 1 < n || !any(m, 4))
            put(m, ",");
    }
    put(m, close);
}

static void put_primary(maker *m, int depth)
{
    uint32_t what = any(m, depth > 0 ? 10 : 4);
    if (what < 2) {
        ONE(m, "principal", "action", "resource", "context", "true", "false");
    } else if (what < 4) {
        ONE(m, "1", "007", "9223372036854775807", "\"\"", "\"a\\x41\\u{1F600}\\\\ b\"",
            "\"raw\nline\"", "\"\\\"// no comment\"");
    } else if (what == 4) {
        ALL(m, "A", "::", "B", "::", "\"x\"");
    } else if (what == 5) {
        put_args(m, depth, "[", "]");
    } else if (what == 6) {
        ALL(m, "{", "a", ":");
        put_expr(m, depth - 1);
        ALL(m, ",", "\"in\"", ":");
        put_expr(m, depth - 1);
        put(m, "}");
    } else if (what == 7) {
        ONE(m, "ip", "decimal", "datetime", "duration");
        put_args(m, depth, "(", ")");
    } else {
        put(m, "(");
        put_expr(m, depth - 1);
        put(m, ")");
    }
}

static void put_member(maker *m, int depth)
{
    put_primary(m, depth);
    for (uint32_t n = any(m, 3); n > 0; n--) {
        uint32_t what = any(m, 5);
        if (what < 2) {
            put(m, ".");
            ONE(m, "a", "longer_name", "permit", "when");
        } else if (what == 2) {
            put(m, "[");
            ONE(m, "\"a\"", "\"in\"", "\"\"", "\"\\n\"");
            put(m, "]");
        } else if (what == 3) {
            put(m, ".");
            ONE(m, "isIpv4", "toDate", "lessThan", "offset", "isInRange");
            put_args(m, depth, "(", ")");
        } else {
            put(m, ".");
            ONE(m, "contains", "containsAll", "containsAny", "hasTag", "getTag");
            put(m, "(");
            put_expr(m, depth - 1);
            put(m, ")");
        }
    }
}

static void put_sum(maker *m, int depth)
{
    for (uint32_t n = 1 + any(m, 8) / 5; n > 0; n--) {
        for (uint32_t k = any(m, 6) ? 0 : 1 + any(m, 4), minus = any(m, 2); k > 0; k--)
            put(m, minus ? "-" : "!");
        put_member(m, depth);
        if (n > 1)
            ONE(m, "+", "-", "*");
    }
}

static void put_test(maker *m, int depth)
{
    uint32_t what = any(m, 12);
    put_sum(m, depth);
    if (what == 0) {
        put(m, "has");
        ONE(m, "a", "a.b.c", "\"b c\"", "when . permit");
    } else if (what == 1) {
        put(m, "like");
        ONE(m, "\"*\"", "\"a\\*b\\x2a**\\u{2a}é\"", "\"\"", "\"\\\"*\\n\"");
    } else if (what == 2) {
        ALL(m, "is", "A", "::", "B");
        if (any(m, 2)) {
            put(m, "in");
            put_sum(m, depth);
        }
    } else if (what < 7) {
        ONE(m, "==", "!=", "<", "<=", ">", ">=", "in");
        put_sum(m, depth);
    }
}

static void put_expr(maker *m, int depth)
{
    if (depth <= 0) {
        put_primary(m, 0);
        return;
    }
    if (!any(m, 8)) {
        put(m, "if");
        put_expr(m, depth - 1);
        put(m, "then");
        put_expr(m, depth - 1);
        put(m, "else");
        put_expr(m, depth - 1);
        return;
    }
    for (uint32_t n = 1 + any(m, 3); n > 0; n--) {
        put_test(m, depth - 1);
        if (n > 1)
            ONE(m, "&&", "||");
    }
}

static void put_policy(maker *m)
{
    if (!any(m, 3))
        ALL(m, "@", "id", "(", "\"an id, \\\"so\\\"\"", ")");
    if (!any(m, 3))
        ALL(m, "@", "if");
    ONE(m, "permit", "forbid");
    ALL(m, "(", "principal");
    ONE(m, "", "", "== A::\"a\"", "in ?principal", "is A::B", "is A in ?principal",
        "in ((A::\"b\"))");
    ALL(m, ",", "action");
    ONE(m, "", "== Action::\"a\"", "in [ ]", "in [ Action::\"a\" ]",
        "in [ Action::\"a\" , N::Action::\"a rather long name\" , Action::\"c\" , ]");
    ALL(m, ",", "resource");
    ONE(m, "", "== ?resource", "in A::\"\\0\"", "is A in A::\"b\"");
    ONE(m, ")", ", )");
    for (uint32_t n = any(m, 3); n > 0; n--) {
        ONE(m, "when", "unless");
        put(m, "{");
        put_expr(m, 4);
        put(m, "}");
    }
    put(m, ";");
}

static void test_write__the_laws_hold_of_random_policies(void **state)
{
    world *w = *state;
    maker m = {.r = rnd_start("cedar laws", 20261130)};
    const int count = getenv("BW_NIGHTLY") ? 5000 : 200;
    int taken = 0;
    for (int i = 0; i < count; i++) {
        bw_cedar_policies *p = NULL;
        bw_arena_mark mark = bw_arena_mark_get(w->ctx);
        m.b.len = 0;
        for (uint32_t n = 1 + any(&m, 3); n > 0; n--)
            put_policy(&m);
        bw_status st = bw_cedar_policies_parse(w->ctx, bw_buf_view(&m.b), &p);
        assert_true(st == BW_OK ||
                    st == BW_EINVALID); /* too many minuses, large numbers */
        const char *why = st == BW_OK ? law_breach(w->ctx, bw_buf_view(&m.b), p) : NULL;
        if (why)
            fail_msg("%s:\n%.*s", why, (int)m.b.len, m.b.ptr);
        taken += st == BW_OK;
        bw_cedar_policies_free(p);
        bw_arena_release(w->ctx, mark);
    }
    assert_true(taken > count / 2);
    bw_buf_clear(&m.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_format__breaks_what_does_not_fit),
        world_test(test_format__refuses_what_does_not_parse),
        world_test(test_write__parentheses_and_escapes),
        world_test(test_write__templates_links_and_annotations),
        world_test(test_write__refuses_what_has_no_form),
        world_test(test_write__the_laws_hold_of_random_policies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
