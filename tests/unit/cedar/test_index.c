/* The scope index against looking at every policy: random sets, requests and stores. */
#include "cedar_fixture.h"
#include <policies/cedar/index.h>

static unsigned long seed;

static int pick(int n)
{
    return (int)(random() % n);
}

static void put_scope(bw_buf *b, const char *var)
{
    bw_buf_puts(b, var);
    int g = pick(6);
    switch (pick(5)) {
    case 0:
        break;
    case 1:
        bw_buf_printf(b, " == U::\"%d\"", g);
        break;
    case 2:
        bw_buf_printf(b, " in G::\"%d\"", g);
        break;
    case 3:
        bw_buf_puts(b, pick(2) ? " is U" : " is G");
        break;
    default:
        bw_buf_printf(b, " is %s in G::\"%d\"", pick(2) ? "U" : "G", g);
    }
}

static void put_policy(bw_buf *b)
{
    bw_buf_puts(b, "permit(");
    put_scope(b, "principal");
    int a = pick(6);
    switch (pick(4)) {
    case 0:
        bw_buf_puts(b, ", action");
        break;
    case 1:
        bw_buf_printf(b, ", action == Action::\"%d\"", a);
        break;
    case 2:
        bw_buf_printf(b, ", action in Action::\"%d\"", a);
        break;
    default:
        bw_buf_printf(b, ", action in [Action::\"%d\", Action::\"%d\"]", a, pick(6));
    }
    bw_buf_puts(b, ", ");
    put_scope(b, "resource");
    bw_buf_puts(b, ");\n");
}

/* Objects i of type t: parents among higher numbers only, so there is no cycle. */
static void put_objects(bw_buf *b, const char *t, const char *parent)
{
    for (int i = 0; i < 6; i++) {
        if (pick(4) == 0)
            continue;
        bw_json_sep(b);
        bw_buf_printf(
            b, "{\"uid\":{\"type\":\"%s\",\"id\":\"%d\"},\"attrs\":{},\"parents\":[", t,
            i);
        for (int k = i + 1; k < 7; k++)
            if (pick(3) == 0) {
                bw_json_sep(b);
                bw_buf_printf(b, "{\"type\":\"%s\",\"id\":\"%d\"}", parent, k);
            }
        bw_buf_puts(b, "]}");
    }
}

static bw_cedar_entities *store(bw_ctx *ctx)
{
    bw_buf b = {0};
    bw_buf_putc(&b, '[');
    put_objects(&b, "U", "G");
    put_objects(&b, "G", "G");
    put_objects(&b, "Action", "Action");
    bw_buf_puts(&b, "]");
    bw_buf_putc(&b, '\0');
    bw_cedar_entities *e = entities_of(ctx, NULL, b.ptr);
    bw_buf_clear(&b);
    return e;
}

/* Alone in a set of its own every policy is a candidate of the smallest list there is;
 * the whole set must allow by exactly those that allow alone. */
static void test_index__finds_what_each_policy_decides_alone(void **state)
{
    world *w = *state;
    printf("seed %lu\n", seed);
    srandom((unsigned)seed);
    for (int round = 0; round < 60; round++) {
        bw_buf b = {0};
        int n = 1 + pick(90);
        for (int i = 0; i < n; i++)
            put_policy(&b);
        bw_buf_putc(&b, '\0');
        bw_cedar_policies *all = policies_of(w->ctx, b.ptr);
        bw_cedar_entities *base = store(w->ctx),
                          *extra = pick(2) ? store(w->ctx) : NULL;
        char name[3][2] = {
            {(char)('0' + pick(6))}, {(char)('0' + pick(6))}, {(char)('0' + pick(6))}};
        bw_cedar_request q = {.principal = uid(pick(3) ? "U" : "G", name[0]),
                              .action = uid("Action", name[1]),
                              .resource = uid(pick(3) ? "U" : "G", name[2]),
                              .extra = extra};
        bw_cedar_answer whole, one;
        assert_int_equal(bw_cedar_authorize(w->ctx, all, base, NULL, &q, &whole),
                         BW_OK);
        size_t at = 0;
        for (size_t i = 0; i < bw_cedar_policies_count(all); i++) {
            bw_cedar_policies *p = NULL;
            assert_int_equal(
                bw_cedar_policies_parse(w->ctx, bw_cedar_policy_text(all, i), &p),
                BW_OK);
            assert_int_equal(bw_cedar_authorize(w->ctx, p, base, NULL, &q, &one),
                             BW_OK);
            bool in = at < whole.nreasons && whole.reasons[at] == i;
            at += in;
            if (in != one.allow)
                fail_msg("round %d policy %zu", round, i);
            bw_cedar_policies_free(p);
        }
        assert_int_equal(at, whole.nreasons);
        bw_cedar_entities_free(extra);
        bw_cedar_entities_free(base);
        bw_cedar_policies_free(all);
        bw_buf_clear(&b);
        bw_ctx_reset(w->ctx);
    }
}

/* The same scopes as conditions take the evaluator's way and must come to the same. */
static void test_index__agrees_with_the_evaluator(void **state)
{
    world *w = *state;
    srandom((unsigned)seed + 1);
    for (int round = 0; round < 150; round++) {
        char scope[200], text[600];
        int g = pick(7);
        const char *t = pick(2) ? "U" : "G";
        snprintf(scope, sizeof scope, pick(2) ? "is %s in G::\"%d\"" : "in %s::\"%d\"",
                 t, g);
        snprintf(text, sizeof text,
                 "permit(principal %s, action, resource);"
                 "permit(principal, action, resource) when { principal %s };",
                 scope, scope);
        bw_cedar_policies *p = policies_of(w->ctx, text);
        bw_cedar_entities *base = store(w->ctx),
                          *extra = pick(3) ? store(w->ctx) : NULL;
        char name[2] = {(char)('0' + pick(6))};
        bw_cedar_request q = {.principal = uid(pick(2) ? "U" : "G", name),
                              .action = uid("Action", "1"),
                              .resource = uid("U", "1"),
                              .extra = extra};
        bw_cedar_answer a;
        assert_int_equal(bw_cedar_authorize(w->ctx, p, base, NULL, &q, &a), BW_OK);
        if (a.nreasons == 1)
            fail_msg("round %d: %s", round, scope);
        bw_cedar_entities_free(extra);
        bw_cedar_entities_free(base);
        bw_cedar_policies_free(p);
        bw_ctx_reset(w->ctx);
    }
}

/* Two stores are one hierarchy: the small one's objects, and the base's that it does
 * not define, put into one store must give the same answers. */
static void test_index__two_stores_are_as_one(void **state)
{
    world *w = *state;
    srandom((unsigned)seed + 2);
    bw_cedar_policies *p = policies_of(
        w->ctx, "permit(principal, action, resource) when { principal in resource };");
    for (int round = 0; round < 400; round++) {
        bw_buf text[3] = {{0}}; /* small, base, both */
        for (int i = 0; i < 3; i++)
            bw_buf_putc(&text[i], '[');
        for (int i = 0; i < 8; i++) {
            bool defined = false;
            for (int s = 0; s < 2; s++) {
                if (pick(2))
                    continue;
                bw_buf one = {0};
                bw_buf_printf(&one,
                              "{\"uid\":{\"type\":\"N\",\"id\":\"%d\"},\"attrs\":{},"
                              "\"parents\":[",
                              i);
                for (int k = i + 1; k < 9; k++)
                    if (pick(4) == 0) {
                        bw_json_sep(&one);
                        bw_buf_printf(&one, "{\"type\":\"N\",\"id\":\"%d\"}", k);
                    }
                bw_buf_puts(&one, "]}");
                bw_json_sep(&text[s]);
                bw_buf_str(&text[s], bw_buf_view(&one));
                if (!defined) {
                    bw_json_sep(&text[2]);
                    bw_buf_str(&text[2], bw_buf_view(&one));
                }
                defined = true;
                bw_buf_clear(&one);
            }
        }
        bw_cedar_entities *e[3];
        for (int i = 0; i < 3; i++) {
            bw_buf_puts(&text[i], "]");
            bw_buf_putc(&text[i], '\0');
            e[i] = entities_of(w->ctx, NULL, text[i].ptr);
        }
        for (int a = 0; a < 9; a++)
            for (int b = 0; b < 9; b++) {
                char na[2] = {(char)('0' + a)}, nb[2] = {(char)('0' + b)};
                bw_cedar_request q = {.principal = uid("N", na),
                                      .action = uid("Action", "x"),
                                      .resource = uid("N", nb)};
                bw_cedar_answer one, two;
                assert_int_equal(bw_cedar_authorize(w->ctx, p, e[2], NULL, &q, &one),
                                 BW_OK);
                q.extra = e[0];
                assert_int_equal(bw_cedar_authorize(w->ctx, p, e[1], NULL, &q, &two),
                                 BW_OK);
                if (one.allow != two.allow)
                    fail_msg("round %d: %d in %d\n%s\n%s", round, a, b, text[0].ptr,
                             text[1].ptr);
            }
        for (int i = 0; i < 3; i++) {
            bw_cedar_entities_free(e[i]);
            bw_buf_clear(&text[i]);
        }
    }
    bw_cedar_policies_free(p);
}

/* 1,000 policies that each variable alone would leave three quarters of: none of them
 * is even looked at. Steps count what is. */
static void test_index__leaves_what_cannot_apply_alone(void **state)
{
    world *w = *state;
    bw_buf b = {0};
    for (int i = 0; i < 250; i++) {
        if (i % 100 == 50)
            bw_buf_puts(&b, "permit(principal in Team::\"all\", action, resource);");
        bw_buf_printf(
            &b,
            "permit(principal in Team::\"x%d\", action == Action::\"read\", resource);"
            "permit(principal, action in [Action::\"x%d\", Action::\"y\"], resource);"
            "permit(principal, action == Action::\"read\", resource in "
            "Folder::\"x%d\");"
            "permit(principal == User::\"x%d\", action, resource is Doc);",
            i, i, i, i);
    }
    bw_buf_putc(&b, 0);
    bw_cedar_policies *p = policies_of(w->ctx, b.ptr);
    for (int unknown = 0; unknown < 2; unknown++) {
        bw_cedar_request q = request_of(w);
        bw_cedar__uid uids[3];
        bw_cedar__run run;
        uint64_t *bits;
        bw_str type = BW_STR("Doc");
        size_t n = 0;
        assert_int_equal(bw_cedar__run_begin(w->ctx, w->entities, NULL, &q, uids, &run),
                         BW_OK);
        run.unknown = unknown ? &type : NULL;
        assert_int_equal(bw_cedar__index_match(p, &run, &bits), BW_OK);
        for (uint32_t i = 0; i <= p->n / 64; i++)
            n += (size_t)__builtin_popcountll(bits[i]);
        /* of an unknown resource the folders may fit, and are all there is to see */
        assert_int_equal(n, unknown ? 252 : 2);
        assert_true(run.steps < (unknown ? 320 : 30));
    }
    bw_cedar_policies_free(p);
    bw_buf_clear(&b);
}

int main(void)
{
    const char *given = getenv("BW_SEED");
    seed = given ? strtoul(given, NULL, 10) : 20261130;
    const struct CMUnitTest tests[] = {
        world_test(test_index__finds_what_each_policy_decides_alone),
        world_test(test_index__agrees_with_the_evaluator),
        world_test(test_index__two_stores_are_as_one),
        world_test(test_index__leaves_what_cannot_apply_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
