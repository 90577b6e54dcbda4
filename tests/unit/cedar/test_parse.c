/* Policy text: what is taken and refused, ids, annotations, sources, limits. */
#include "cedar_fixture.h"

static bool condition(bw_ctx *ctx, const char *expr)
{
    char text[2048];
    snprintf(text, sizeof text, "permit(principal, action, resource) when { %s };",
             expr);
    return accepts(ctx, text);
}

static void test_parse_conditions__accept_the_grammar_and_no_more(void **state)
{
    world *w = *state;
    static const char *const good[] = {
        "true",
        "principal.a[\"b\"].c",
        "-9223372036854775808 == -1",
        "!!!!true",
        "----1 == 1",
        "{\"a\": 1, b: 2,} == {}",
        "[1, 2,] == []",
        "principal is A::B in C::\"x\" && true",
        "context has a.b && true",
        "context has \"a b\"",
        "if true then 1 == 1 else false",
        "(if true then 1 else 2) + 3 == 4",
        "1 - -1 == 2",
        "principal::\"x\" == permit::\"x\"",
        "ip() == ip(1, 2)",
        "context like \"\\*\\x2a\"",
        "\"\\u{1__2_}\" == \"\\0\"",
        "- 5 == -5",
        "context[\"if\"] == 1",
        "true // comment\n",
        "context\xc2\xa0has\xe2\x80\xa8"
        "a",
        "007 == 7",
        "\"raw\nline\ttab\" == \"\"",
    };
    static const char *const bad[] = {
        "",
        "1 == 2 == 3",
        "1 < 2 == true",
        "!!!!!true",
        "-----1 == 1",
        "!-1 == 1",
        "9223372036854775808 == 1",
        "-(9223372036854775808) == 1",
        "true && if true then true else true",
        "!if true then true else true",
        "1 + if true then 1 else 2 == 1",
        "foo",
        "foo(1)",
        "context.foo()",
        "contains([1], 1)",
        "context.ip(1)",
        "[1].contains()",
        "[1].contains(1, 2)",
        "[1].isEmpty(1)",
        "context has a.\"b\"",
        "context has (a)",
        "context like (\"a\")",
        "context.if",
        "context.__cedar",
        "context[a]",
        "context[(\"a\")]",
        "{a: 1, \"a\": 2} == 1",
        "{if: 1} == 1",
        "?principal == 1",
        "principal is (User)",
        "a::b::c(1)",
        "\"\\q\" == 1",
        "\"\\x80\" == 1",
        "\"\\u{d800}\" == 1",
        "\"\\u{110000}\" == 1",
        "\"\\u{}\" == 1",
        "\"\\u{_1}\" == 1",
        "\"a\rb\" == 1",
        "\"\\\n\" == 1",
        "User::\"\\*\" == 1",
        "1 / 2 == 0",
        "1 % 2 == 0",
        "a = b",
        "1.5 == 1",
        "/* c */ true",
        "()",
        "[,]",
        "{,}",
        "__cedar::X::\"a\" == 1",
        "if::\"x\" == 1",
        "true;",
        "\"open",
        "a::\"x\"::b",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!condition(w->ctx, good[i]))
            fail_msg("refused: %s: %s", good[i], bw_ctx_message(w->ctx));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (condition(w->ctx, bad[i]))
            fail_msg("accepted: %s", bad[i]);
}

static void test_parse_scopes__accept_the_grammar_and_no_more(void **state)
{
    world *w = *state;
    static const char *const good[] = {
        "",
        "// only a comment",
        "permit(principal, action, resource);",
        "permit(principal == (User::\"a\"), action in [], resource is A::B in "
        "?resource,);",
        "permit(principal in ?principal, action in ([(Action::\"a\"), "
        "N::Action::\"b\",]), resource);",
        "@a @if(\"x\") @__cedar(\"\") forbid(principal is User, action == "
        "Action::\"x\", resource)"
        " when { true } unless { false };",
    };
    static const char *const bad[] = {
        "permit(principal, action);",
        "permit(action, principal, resource);",
        "permit(principal, action, resource)",
        "allow(principal, action, resource);",
        "permit(principal == ?resource, action, resource);",
        "permit(principal, action == ?action, resource);",
        "permit(principal, action is Action, resource);",
        "permit(principal, action == User::\"a\", resource);",
        "permit(principal == ? principal, action, resource);",
        "permit(principal in [User::\"a\"], action, resource);",
        "permit(principal: User, action, resource);",
        "permit(principal, action in [[Action::\"a\"]], resource);",
        "@a @a permit(principal, action, resource);",
        "@a() permit(principal, action, resource);",
        "permit(principal, action, resource) when {};",
        "permit(principal is __cedar::User, action, resource);",
        "\xef\xbb\xbfpermit(principal, action, resource);",
        "permit(principal, action, resource) advice { true };",
        "permit(principal,, action, resource);",
        "permit(principal, action, resource); junk",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!accepts(w->ctx, good[i]))
            fail_msg("refused: %s: %s", good[i], bw_ctx_message(w->ctx));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (accepts(w->ctx, bad[i]))
            fail_msg("accepted: %s", bad[i]);
}

static void test_parse_errors__name_line_and_column(void **state)
{
    world *w = *state;
    assert_false(
        accepts(w->ctx, "permit(principal, action, resource)\nwhen { \"é\" == };"));
    assert_non_null(strstr(bw_ctx_message(w->ctx), "line 2, column 15:"));
}

static void test_parse_set__keeps_ids_sources_and_annotations(void **state)
{
    world *w = *state;
    bw_cedar_policies *p = policies_of(
        w->ctx, "// first\n@id(\"no \\\"copy\\\"\") @flag permit(principal, action, "
                "resource);\n"
                " forbid(principal == ?principal, action, resource) // end\n ; ");
    bw_str v;
    assert_int_equal(bw_cedar_policies_count(p), 2);
    assert_true(bw_str_is(bw_cedar_policy_id(p, 0), "policy0"));
    assert_true(bw_str_is(bw_cedar_policy_id(p, 1), "policy1"));
    assert_false(bw_cedar_policy_is_forbid(p, 0));
    assert_true(bw_cedar_policy_is_forbid(p, 1));
    assert_true(bw_cedar_policy_annotation(p, 0, BW_STR("id"), &v));
    assert_true(bw_str_is(v, "no \"copy\""));
    assert_true(bw_cedar_policy_annotation(p, 0, BW_STR("flag"), &v));
    assert_int_equal(v.len, 0);
    assert_false(bw_cedar_policy_annotation(p, 1, BW_STR("id"), &v));
    assert_true(bw_str_is(
        bw_cedar_policy_text(p, 0),
        "@id(\"no \\\"copy\\\"\") @flag permit(principal, action, resource);"));
    assert_true(
        bw_str_is(bw_cedar_policy_text(p, 1),
                  "forbid(principal == ?principal, action, resource) // end\n ;"));
    bw_cedar_policies_free(p);
}

static void test_parse_set__tells_what_of_the_context_is_read(void **state)
{
    world *w = *state;
    bw_cedar_policies *p = policies_of(
        w->ctx, "permit(principal, action, resource) when { context.a == 1 && "
                "context has b.c && context[\"d\"].e } unless { principal.now };");
    assert_true(bw_cedar_policies_read_context(p, BW_STR("a")));
    assert_true(bw_cedar_policies_read_context(p, BW_STR("b")));
    assert_true(bw_cedar_policies_read_context(p, BW_STR("d")));
    assert_false(bw_cedar_policies_read_context(p, BW_STR("e")));
    assert_false(bw_cedar_policies_read_context(p, BW_STR("now")));
    bw_cedar_policies_free(p);
    p = policies_of(
        w->ctx, "permit(principal, action, resource) when { [context].isEmpty() };");
    assert_true(bw_cedar_policies_read_context(
        p, BW_STR("now"))); /* used as a whole: anything */
    bw_cedar_policies_free(p);
}

/* open n times, body, close n times, as a condition. */
static bool nested(bw_ctx *ctx, const char *open, const char *body, const char *close,
                   int n)
{
    bw_buf b = {0};
    bw_buf_puts(&b, "permit(principal, action, resource) when { ");
    for (int i = 0; i < n; i++)
        bw_buf_puts(&b, open);
    bw_buf_puts(&b, body);
    for (int i = 0; i < n; i++)
        bw_buf_puts(&b, close);
    bw_buf_puts(&b, " };");
    bw_buf_putc(&b, '\0');
    assert_false(b.failed);
    bool ok = accepts(ctx, b.ptr);
    bw_buf_clear(&b);
    return ok;
}

static void test_parse_nesting__of_256_is_taken_and_of_500_refused(void **state)
{
    world *w = *state;
    static const char *const rows[][3] = {
        {"(", "true", ")"},
        {"!(", "true", ")"},
        {"[", "1", "]"},
        {"{a: ", "1", "}"},
        {"ip(", "1", ")"},
        {"true && (", "true", ")"},
        {"1 + (", "1", ")"},
        {"[].contains(", "1", ")"},
        {"if true then ", "true", " else false"},
        {"if ", "true", " then true else false"},
        {"principal in (", "principal", ")"},
        {"-(1 * -(", "1", "))"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool twice = strcmp(rows[i][2], "))") == 0; /* two levels a repetition */
        assert_true(
            nested(w->ctx, rows[i][0], rows[i][1], rows[i][2], twice ? 128 : 256));
        assert_false(nested(w->ctx, rows[i][0], rows[i][1], rows[i][2], 500));
        assert_false(nested(w->ctx, rows[i][0], rows[i][1], rows[i][2], 1000));
        assert_false(nested(w->ctx, rows[i][0], rows[i][1], rows[i][2], 200000));
        assert_false(nested(w->ctx, rows[i][0], "", "", 200000));
    }
}

static void test_parse_limits__hold(void **state)
{
    world *w = *state;
    size_t n = ((size_t)16 << 20) + 1;
    char *big = malloc(n);
    memset(big, ' ', n);
    bw_cedar_policies *p = NULL;
    assert_int_equal(bw_cedar_policies_parse(w->ctx, (bw_str){big, n - 1}, &p), BW_OK);
    bw_cedar_policies_free(p);
    assert_int_equal(bw_cedar_policies_parse(w->ctx, (bw_str){big, n}, &p),
                     BW_EINVALID);
    free(big);
    assert_int_equal(bw_cedar_policies_parse(w->ctx, BW_STR("\"\xff\""), &p),
                     BW_EINVALID);
    char nul[] = "permit(principal, action, resource);\0";
    assert_int_equal(bw_cedar_policies_parse(w->ctx, (bw_str){nul, sizeof nul - 1}, &p),
                     BW_EINVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_parse_conditions__accept_the_grammar_and_no_more),
        world_test(test_parse_scopes__accept_the_grammar_and_no_more),
        world_test(test_parse_errors__name_line_and_column),
        world_test(test_parse_set__keeps_ids_sources_and_annotations),
        world_test(test_parse_set__tells_what_of_the_context_is_read),
        world_test(test_parse_nesting__of_256_is_taken_and_of_500_refused),
        world_test(test_parse_limits__hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
