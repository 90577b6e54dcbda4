/* What the compiler computes beforehand: constants fold across whole conditions, an
 * error stays where it belongs, and nothing folds that stores or the request decide. */
#include "cedar_fixture.h"
#include <policies/cedar/code.h>

/* One letter an instruction: what is left to run. */
static void letters(const bw_cedar__code *code, char *out, size_t cap)
{
    static const char names[] = {
        [BW_CEDAR__I_CONST] = 'c',   [BW_CEDAR__I_VAR] = 'v',
        [BW_CEDAR__I_VAR_GET] = 'g', [BW_CEDAR__I_AND] = '&',
        [BW_CEDAR__I_OR] = '|',      [BW_CEDAR__I_BOOL] = 'b',
        [BW_CEDAR__I_IF] = '?',      [BW_CEDAR__I_JUMP] = 'j',
        [BW_CEDAR__I_WHEN] = 'w',    [BW_CEDAR__I_UNLESS] = 'u',
        [BW_CEDAR__I_CALL] = 'f',    [BW_CEDAR__I_END] = '.',
        [BW_CEDAR__I_ERROR] = 'e',
    };
    assert_true(code->n < cap);
    for (uint32_t i = 0; i < code->n; i++) {
        uint8_t ins = code->ins[i].ins;
        out[i] = ins < sizeof names && names[ins] ? names[ins] : 'o';
    }
    out[code->n] = '\0';
}

static void test_compile_constants__fold(void **state)
{
    world *w = *state;
    static const struct {
        const char *condition, *code;
        char truth; /* as evaluated: T, F, E */
    } cases[] = {
        {"true", ".", 'T'},
        {"false", "cw.", 'F'},
        {"1 + 2 * 3 == 7", ".", 'T'},
        {"-(3) < 0 && !false", ".", 'T'},
        {"\"abc\" like \"a*\"", ".", 'T'},
        {"[1, 2].contains(2) && [].isEmpty() && {\"a\": [1]}.a.containsAll([1])", ".",
         'T'},
        {"{\"a\": 1} has a && !({\"a\": 1} has b)", ".", 'T'},
        {"User::\"x\" is User && User::\"x\" != User::\"y\"", ".", 'T'},
        {"ip(\"10.0.0.1\").isInRange(ip(\"10.0.0.0/8\"))", ".", 'T'},
        {"decimal(\"1.0\").lessThan(decimal(\"2.0\")) || context.n == 1", ".", 'T'},
        {"datetime(\"2024-01-01\").offset(duration(\"1d\")) > datetime(\"2024-01-01\")",
         ".", 'T'},
        {"if 1 == 1 then context.deep.a.b else context.nothing", "goow.", 'T'},
        {"if 1 == 2 then context.nothing else context.n == 7", "gcow.", 'T'},
        {"true && context.deep.a.b", "goobw.", 'T'},
        {"false || (true && context.n == 7)", "gcobbw.", 'T'},
        {"false && context.nothing", "cw.", 'F'},
        {"true || context.nothing", ".", 'T'},
        {"(if true then 1 else 2) == 1", ".", 'T'},
        /* an error stays, and what may not be looked at is not */
        {"9223372036854775807 + 1 == 0", "ccocow.", 'E'},
        {"ip(\"x\").isIpv4()", "cffw.", 'E'},
        {"1 && true", "c&cbw.", 'E'},
        {"true && 1", "cbw.", 'E'},
        {"if 1 then true else true", "c?cjcw.", 'E'},
        {"{\"a\": 1}.b == 1", "cocow.", 'E'},
        {"\"a\" < \"b\"", "ccow.", 'E'},
        {"false && 1", "cw.", 'F'},
        {"1 in User::\"x\"", "ccow.", 'E'},
        /* a branch is no constant */
        {"(if context.n == 7 then 1 else 2) == 1", "gco?cjccow.", 'T'},
        {"(context.n == 7 || false) == true", "gco|cbcow.", 'T'},
        {"context.n == 7 && true", "gco&cbw.", 'T'},
        /* stores decide */
        {"User::\"alice\" in Team::\"all\"", "ccow.", 'T'},
        {"User::\"alice\" has age", "cow.", 'T'},
        {"User::\"alice\".age == 30", "cocow.", 'T'},
        {"User::\"alice\".hasTag(\"role\")", "ccow.", 'T'},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512], got[64];
        snprintf(text, sizeof text, "permit(principal, action, resource) when { %s };",
                 cases[i].condition);
        bw_cedar_policies *p = policies_of(w->ctx, text);
        letters(p->policies[0].code, got, sizeof got);
        if (strcmp(got, cases[i].code) != 0)
            fail_msg("%s: %s, not %s", cases[i].condition, got, cases[i].code);
        bw_cedar_policies_free(p);
        char truth_is = truth(w, cases[i].condition);
        if (truth_is != cases[i].truth)
            fail_msg("%s is %c", cases[i].condition, truth_is);
    }
}

/* Clauses that always hold are not run. */
static void test_compile_clauses__that_hold_go(void **state)
{
    world *w = *state;
    bw_cedar_policies *p =
        policies_of(w->ctx, "permit(principal, action, resource) when { 1 < 2 } unless "
                            "{ 1 > 2 } when { context.deep.a.b } unless { 1 == 1 };");
    char got[64];
    letters(p->policies[0].code, got, sizeof got);
    assert_string_equal(got, "goowcu.");
    bw_cedar_policies_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_compile_constants__fold),
        world_test(test_compile_clauses__that_hold_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
