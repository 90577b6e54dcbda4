/* What expressions come to: every operator, its errors, and short circuits. */
#include "cedar_fixture.h"

typedef struct row {
    char want;
    const char *expr;
} row;

static void check(void **state, const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char got = truth(*state, rows[i].expr);
        if (got != rows[i].want)
            fail_msg("%s: %c, expected %c", rows[i].expr, got, rows[i].want);
    }
}
#define CHECK(rows) check(state, (rows), sizeof(rows) / sizeof *(rows))

static void test_eval_logic__short_circuits_and_wants_bools(void **state)
{
    static const row rows[] = {
        {'F', "false && 1"},
        {'E', "true && 1"},
        {'T', "true || 1"},
        {'E', "false || 1"},
        {'E', "1 && false"},
        {'F', "false && 1 == 1 || false"},
        {'T', "!false"},
        {'E', "!1"},
        {'T', "!!true"},
        {'T', "if true then true else 1 + true"},
        {'E', "if 1 then true else true"},
        {'E', "if false then true else 1"},
        {'E', "1"},
        {'T', "(if 1 == 1 then 1 else 2) == 1"},
        {'T', "false && true || true"},
        {'F', "false && (true || true)"},
        {'E', "context.none && false"},
        {'F', "false && context.none"},
    };
    CHECK(rows);
}

static void test_eval_equality__is_structural_and_total(void **state)
{
    static const row rows[] = {
        {'F', "1 == \"1\""},
        {'T', "1 != true"},
        {'T', "[1, 2, 2] == [2, 1]"},
        {'F', "[1, [2]] == [1, [3]]"},
        {'T', "{a: 1, \"b\": [2]} == {b: [2, 2], a: 1}"},
        {'F', "{a: 1} == {a: 1, b: 2}"},
        {'T', "User::\"alice\" == principal"},
        {'F', "User::\"alice\" == Team::\"alice\""},
        {'T', "decimal(\"1.0\") == decimal(\"1.00\")"},
        {'T', "ip(\"1.1.1.1\") == ip(\"1.1.1.1/32\")"},
        {'F', "ip(\"10.0.0.1/8\") == ip(\"10.0.0.2/8\")"},
        {'T', "duration(\"60m\") == duration(\"1h\")"},
        {'F', "decimal(\"1.0\") == duration(\"10s\")"},
        {'E', "context.none == 1"},
        {'T', "context.set == [3, 2, 1]"},
        {'T', "\"\\u{e9}\" == \"é\""},
    };
    CHECK(rows);
}

static void test_eval_order__needs_two_of_a_kind(void **state)
{
    static const row rows[] = {
        {'T', "1 < 2"},
        {'F', "2 < 2"},
        {'T', "2 <= 2"},
        {'T', "-1 > -2"},
        {'T', "2 >= 2"},
        {'E', "1 < \"2\""},
        {'E', "\"a\" < \"b\""},
        {'E', "decimal(\"1.0\") < decimal(\"2.0\")"},
        {'T', "datetime(\"2024-01-01\") < datetime(\"2024-01-02\")"},
        {'T', "duration(\"1s\") <= duration(\"1000ms\")"},
        {'E', "duration(\"1s\") < datetime(\"2024-01-01\")"},
    };
    CHECK(rows);
}

static void test_eval_arithmetic__overflow_is_an_error(void **state)
{
    static const row rows[] = {
        {'T', "1 + 2 * 3 - 4 == 3"},
        {'E', "9223372036854775807 + 1 == 0"},
        {'T', "-9223372036854775807 - 1 == -9223372036854775808"},
        {'E', "-9223372036854775808 - 1 == 0"},
        {'E', "-(-9223372036854775808) == 0"},
        {'E', "9223372036854775807 * 2 == 0"},
        {'E', "1 + true == 2"},
        {'E', "-true == 1"},
        {'T', "10 - 2 - 3 == 5"},
        {'T', "--5 == 5"},
    };
    CHECK(rows);
}

static void test_eval_hierarchy__follows_ancestors(void **state)
{
    static const row rows[] = {
        {'T', "principal in Team::\"red\""},
        {'T', "principal in Team::\"all\""},
        {'F', "Team::\"all\" in principal"},
        {'T', "principal in principal"},
        {'T', "User::\"ghost\" in User::\"ghost\""},
        {'F', "User::\"ghost\" in Team::\"all\""},
        {'T', "principal in [Team::\"blue\", Team::\"all\"]"},
        {'F', "principal in []"},
        {'E', "principal in [Team::\"all\", 1]"},
        {'E', "principal in 1"},
        {'E', "1 in principal"},
        {'T', "action in Action::\"any\""},
        {'T', "principal is User"},
        {'F', "principal is Team"},
        {'E', "1 is User"},
        {'T', "principal is User in Team::\"all\""},
        {'F', "principal is Team in 1"},
        {'E', "principal is User in 1"},
        {'T', "resource in Folder::\"f\""},
    };
    CHECK(rows);
}

static void test_eval_access__knows_missing_entities_from_missing_keys(void **state)
{
    static const row rows[] = {
        {'T', "principal.age == 30"},
        {'T', "principal[\"age\"] == 30"},
        {'T', "principal.manager.age == 50"},
        {'E', "principal.none == 1"},
        {'E', "principal.gone.age == 1"},
        {'F', "principal.gone has age"},
        {'T', "principal has manager"},
        {'T', "principal has address.geo.lat"},
        {'F', "principal has address.none.lat"},
        {'E', "principal has age.x"},
        {'E', "1 has a"},
        {'E', "1[\"a\"] == 1"},
        {'T', "context.deep.a.b"},
        {'T', "context has deep.a.b"},
        {'T', "resource.owner == principal"},
        {'T', "principal.hasTag(\"role\")"},
        {'T', "principal.getTag(\"role\") == \"editor\""},
        {'F', "principal.hasTag(\"none\")"},
        {'E', "principal.getTag(\"none\") == 1"},
        {'F', "principal.gone.hasTag(\"role\")"},
        {'E', "principal.gone.getTag(\"role\") == 1"},
        {'E', "principal.hasTag(1)"},
        {'E', "context.hasTag(\"role\")"},
        {'T', "{a: {b: 2}}.a.b == 2"},
    };
    CHECK(rows);
}

static void test_eval_sets__contain_and_intersect(void **state)
{
    static const row rows[] = {
        {'T', "context.set.contains(2)"},
        {'F', "context.set.contains(\"2\")"},
        {'T', "context.set.containsAll([1, 3])"},
        {'T', "[].containsAll([])"},
        {'F', "[].containsAny([])"},
        {'F', "context.set.containsAll([1, 4])"},
        {'T', "context.set.containsAny([9, 3])"},
        {'T', "[].isEmpty()"},
        {'F', "[[]].isEmpty()"},
        {'E', "1.contains(1)"},
        {'E', "context.contains(1)"},
        {'E', "[1].containsAll(1)"},
        {'E', "\"a\".isEmpty()"},
        {'T', "[1, \"a\", [2], {b: 3}].contains({b: 3})"},
        {'T', "principal.tags.containsAll([\"b\", \"a\"])"},
    };
    CHECK(rows);
}

/* A branch ends in a constant, but which branch is not known when the set is built. */
static void test_eval_sets__of_branches_are_not_folded(void **state)
{
    static const row rows[] = {
        {'T', "[if true then 1 else 2] == [1]"},
        {'T', "{a: if principal.age == 30 then 1 else 2} == {a: 1}"},
        {'T', "[0, if context.n == 7 then 1 else 2, 3].contains(1)"},
        {'T', "decimal(if true then \"1.0\" else \"2.0\") == decimal(\"1.0\")"},
        {'T', "[true && false] == [false]"},
        {'T', "[true || false, 2].contains(true)"},
        {'T', "[[], [1]] == [[1], []]"},
    };
    CHECK(rows);
}

static void test_eval_like__treats_every_other_star_as_wildcard(void **state)
{
    static const row rows[] = {
        {'T', "\"\" like \"\""},
        {'T', "\"\" like \"*\""},
        {'T', "\"abc\" like \"a*c\""},
        {'F', "\"abc\" like \"a*d\""},
        {'T', "\"ac\" like \"a**c\""},
        {'F', "\"a\" like \"a*a\""},
        {'T', "\"a*c\" like \"a\\*c\""},
        {'F', "\"abc\" like \"a\\*c\""},
        {'T', "\"abc\" like \"a\\x2ac\""},
        {'T', "\"abc\" like \"a\\u{2a}c\""},
        {'T', "\"mississippi\" like \"m*iss*ip*i\""},
        {'F', "\"mississippi\" like \"m*issip*iss*\""},
        {'T', "\"é☃x\" like \"é*x\""},
        {'E', "1 like \"*\""},
    };
    CHECK(rows);
}

static void test_eval_extensions__check_arguments_at_run_time(void **state)
{
    static const row rows[] = {
        {'T', "context.ip.isInRange(ip(\"10.0.0.0/8\"))"},
        {'F', "context.ip.isInRange(ip(\"::/0\"))"},
        {'T', "ip(\"127.0.0.0/8\").isLoopback()"},
        {'F', "ip(\"127.0.0.0/7\").isLoopback()"},
        {'T', "ip(\"ff02::1\").isMulticast()"},
        {'T',
         "ip(\"::1\").isLoopback() && ip(\"::1\").isIpv6() && !ip(\"::1\").isIpv4()"},
        {'E', "ip(\"1.2.3\").isIpv4()"},
        {'E', "ip(1).isIpv4()"},
        {'E', "ip().isIpv4()"},
        {'E', "ip(\"::\", \"::\").isIpv4()"},
        {'E', "context.ip.isIpv4(1)"},
        {'T', "decimal(\"-0.5\").lessThan(decimal(\"0.0\"))"},
        {'T', "decimal(\"2.0\").greaterThanOrEqual(decimal(\"2.0000\"))"},
        {'T', "datetime(\"2024-02-29\").offset(duration(\"1d\")) == "
              "datetime(\"2024-03-01\")"},
        {'T',
         "datetime(\"1969-12-31T23:00:00Z\").toDate() == datetime(\"1969-12-31\")"},
        {'T', "datetime(\"1969-12-31T23:00:00Z\").toTime() == duration(\"23h\")"},
        {'T', "datetime(\"2024-01-02\").durationSince(datetime(\"2024-01-01\")) == "
              "duration(\"1d\")"},
        {'T', "duration(\"-1h30m\").toMinutes() == -90"},
        {'T', "duration(\"-1ms\").toSeconds() == 0"},
        {'T', "duration(\"1d2h\").toHours() == 26 && duration(\"1d2h\").toDays() == 1"},
        {'E',
         "datetime(\"9999-12-31\").offset(duration(\"9223372036854775807ms\")) == 1"},
    };
    CHECK(rows);
}

static void test_eval_chains__may_be_long(void **state)
{
    world *w = *state;
    static const struct {
        const char *head, *link, *tail;
        char want;
    } rows[] = {
        {"true", " && true", "", 'T'},
        {"false", " || true", "", 'T'},
        {"0", " + 1", " == 20000", 'T'},
        {"1", " * 1", " == 1", 'T'},
        {"", "if false then false else ", "true", 'T'},
        {"context", ".deep", "", 'E'},
        {"context has a", ".a", "", 'F'},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bw_buf b = {0};
        bw_buf_puts(&b, "permit(principal, action, resource) when { ");
        bw_buf_puts(&b, rows[i].head);
        for (int k = 0; k < 20000; k++)
            bw_buf_puts(&b, rows[i].link);
        bw_buf_puts(&b, rows[i].tail);
        bw_buf_puts(&b, " };");
        bw_buf_putc(&b, '\0');
        bw_cedar_answer a = ask(w, b.ptr);
        char got = a.nerrors ? 'E' : a.allow ? 'T' : 'F';
        if (got != rows[i].want)
            fail_msg("chain of '%s': %c", rows[i].link, got);
        bw_buf_clear(&b);
    }
}

static void test_eval_steps__are_limited(void **state)
{
    world *w = *state;
    bw_buf b = {0};
    bw_buf_puts(&b, "permit(principal, action, resource) when { false");
    for (int k = 0; k < 4000; k++)
        bw_buf_puts(&b, " || context.set == [0, 1] || "
                        "context.big.containsAll(context.big) && false");
    bw_buf_puts(&b, " };");
    bw_buf c = {0};
    bw_buf_puts(&c, "{\"set\":[1],\"big\":[");
    for (int k = 0; k < 3000; k++)
        bw_buf_printf(&c, "%s%d", k ? "," : "", k);
    bw_buf_puts(&c, "]}");
    bw_cedar_policies *p = NULL;
    bw_json *context = NULL;
    assert_int_equal(bw_cedar_policies_parse(w->ctx, bw_buf_view(&b), &p), BW_OK);
    assert_int_equal(bw_json_parse(w->ctx, bw_buf_view(&c), BW_JSON_CEDAR, &context),
                     BW_OK);
    bw_cedar_request q = request_of(w);
    q.context = context;
    bw_cedar_answer a;
    assert_int_equal(bw_cedar_authorize(w->ctx, p, w->entities, NULL, &q, &a),
                     BW_EINVALID);
    assert_non_null(strstr(bw_ctx_message(w->ctx), "steps"));
    bw_cedar_policies_free(p);
    bw_buf_clear(&b);
    bw_buf_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_eval_logic__short_circuits_and_wants_bools),
        world_test(test_eval_equality__is_structural_and_total),
        world_test(test_eval_order__needs_two_of_a_kind),
        world_test(test_eval_arithmetic__overflow_is_an_error),
        world_test(test_eval_hierarchy__follows_ancestors),
        world_test(test_eval_access__knows_missing_entities_from_missing_keys),
        world_test(test_eval_sets__contain_and_intersect),
        world_test(test_eval_sets__of_branches_are_not_folded),
        world_test(test_eval_like__treats_every_other_star_as_wildcard),
        world_test(test_eval_extensions__check_arguments_at_run_time),
        world_test(test_eval_chains__may_be_long),
        world_test(test_eval_steps__are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
