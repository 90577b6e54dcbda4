/* Why a policy is satisfied or not: the parts that are listed, their values, their text. */
#include "cedar_fixture.h"
#include <policies/cedar/trace.h>

typedef struct traced {
    bw_cedar_policies *set;
    bw_cedar_reasons r;
    bw_buf text; /* "condition=truth;…" */
} traced;

/* How it comes out is the same without parts, and leaves nothing. */
static void check_outcome(world *w, bw_cedar_trace *tr, const bw_cedar_reasons *r)
{
    bw_cedar_reasons o;
    size_t used = bw_arena_used(w->ctx);
    assert_int_equal(bw_cedar_trace_outcome(tr, 0, &o), BW_OK);
    assert_int_equal(bw_arena_used(w->ctx), used);
    assert_int_equal(o.satisfied, r->satisfied);
    assert_int_equal(o.failing, r->failing);
    assert_int_equal(o.scope_fits, r->scope_fits);
    assert_true(o.nparts == 0 && o.parts == NULL && o.cut == r->cut);
}

static traced trace(world *w, const char *policy, bw_cedar_show show)
{
    static const char *const truths[] = {"F", "T", "E"};
    traced t = {.set = policies_of(w->ctx, policy)};
    bw_cedar_request q = request_of(w);
    bw_cedar_trace *tr;
    assert_int_equal(bw_cedar_trace_open(w->ctx, t.set, w->entities, NULL, &q, &tr), BW_OK);
    assert_int_equal(bw_cedar_trace_outcome(tr, 0, &t.r), BW_OK); /* the first: no stack yet */
    check_outcome(w, tr, &t.r);
    assert_int_equal(bw_cedar_trace_policy(tr, 0, &t.r), BW_OK);
    check_outcome(w, tr, &t.r);
    for (uint32_t i = 0; i < t.r.nparts; i++) {
        bw_cedar_part_text(&t.text, &t.r.parts[i], show, NULL);
        bw_buf_printf(&t.text, "=%s;", truths[t.r.parts[i].truth]);
    }
    bw_buf_putc(&t.text, 0);
    return t;
}

static void done(traced *t)
{
    bw_cedar_policies_free(t->set);
    bw_buf_clear(&t->text);
}

typedef struct row {
    const char *body, *parts;
    bw_cedar_truth satisfied;
} row;

static void test_trace__lists_the_parts_that_settle_it(void **state)
{
    static const row rows[] = {
        {"when { 1 == 1 && 2 == 3 && 4 == 5 }", "2 == 3=F;", BW_CEDAR_FALSE},
        {"when { 1 == 1 && 2 == 2 }", "1 == 1=T;2 == 2=T;", BW_CEDAR_TRUE},
        {"when { 1 == 2 || 2 == 3 }", "1 == 2=F;2 == 3=F;", BW_CEDAR_FALSE},
        {"when { 1 == 2 || 2 == 2 || 3 == 3 }", "2 == 2=T;", BW_CEDAR_TRUE},
        {"unless { 1 == 1 && 2 == 2 }", "1 == 1=T;2 == 2=T;", BW_CEDAR_FALSE},
        {"unless { 1 == 1 && 2 == 3 }", "2 == 3=F;", BW_CEDAR_TRUE},
        {"unless { 1 == 2 || 2 == 2 }", "2 == 2=T;", BW_CEDAR_FALSE},
        {"when { !(1 == 1 && !(2 == 3)) }", "1 == 1=T;2 == 3=F;", BW_CEDAR_FALSE},
        {"when { if 1 == 1 then 2 == 3 else 4 == 4 }", "1 == 1=T;2 == 3=F;", BW_CEDAR_FALSE},
        {"when { if 1 == 2 then true else 1 > 2 }", "1 == 2=F;1 > 2=F;", BW_CEDAR_FALSE},
        {"when { 1 == 1 } unless { 2 == 2 } when { 3 == 4 }", "2 == 2=T;", BW_CEDAR_FALSE},
        {"when { 1 == 1 && context.none == 2 && 1 == 2 }", "1 == 1=T;context.none == 2=E;", BW_CEDAR_FAILED},
        {"when { (1 == 2 || 1 == 1) && 2 }", "1 == 1=T;2=E;", BW_CEDAR_FAILED},
        {"when { false && context.none }", "false=F;", BW_CEDAR_FALSE},
        {"when { true || context.none }", "true=T;", BW_CEDAR_TRUE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char policy[512];
        snprintf(policy, sizeof policy, "permit(principal, action, resource) %s;", rows[i].body);
        traced t = trace(*state, policy, NULL);
        if (strcmp(t.text.ptr, rows[i].parts) != 0 || t.r.satisfied != rows[i].satisfied)
            fail_msg("%s: %s, %d", rows[i].body, t.text.ptr, (int)t.r.satisfied);
        done(&t);
    }
}

static void test_trace__looks_at_the_scope(void **state)
{
    traced t = trace(*state, "forbid(principal in Team::\"all\", action == Action::\"read\", resource is Doc in Folder::\"f\");", NULL);
    assert_string_equal(t.text.ptr, "principal in Team::\"all\"=T;"); /* what was asked is no reason */
    assert_true(t.r.satisfied == BW_CEDAR_TRUE && t.r.scope_fits && t.r.failing == 0);
    done(&t);
    t = trace(*state, "permit(principal == User::\"bob\", action in [Action::\"any\", Action::\"x\"], resource) when { 1 == 2 };", NULL);
    assert_string_equal(t.text.ptr, "principal == User::\"bob\"=F;");
    assert_true(t.r.scope_fits && t.r.failing == 2);
    done(&t);
    t = trace(*state, "permit(principal, action == Action::\"write\", resource);", NULL);
    assert_string_equal(t.text.ptr, "action == Action::\"write\"=F;");
    assert_false(t.r.scope_fits);
    done(&t);
}

static void check_leaves(world *w, const char *body, const char *want)
{
    char policy[512];
    bw_buf b = {0};
    snprintf(policy, sizeof policy, "permit(principal, action, resource) when { %s };", body);
    traced t = trace(w, policy, NULL);
    for (uint32_t i = 0; i < t.r.nparts; i++)
        for (uint32_t k = 0; k < t.r.parts[i].nleaves; k++) {
            const bw_cedar_leaf *l = &t.r.parts[i].leaves[k];
            bw_buf_str(&b, l->path);
            bw_buf_putc(&b, '=');
            if (l->value)
                bw_cedar_value_text(&b, l->value, NULL, NULL);
            bw_buf_putc(&b, ';');
        }
    bw_buf_putc(&b, 0);
    if (strcmp(b.ptr, want) != 0)
        fail_msg("%s: %s", body, b.ptr);
    bw_buf_clear(&b);
    done(&t);
}

static void test_trace__reads_whole_paths(void **state)
{
    world *w = *state;
    check_leaves(w, "principal.address.city == \"Rome\"", "principal.address.city=\"Paris\";");
    check_leaves(w, "principal.manager.age < principal.age", "principal.manager.age=50;principal.age=30;");
    check_leaves(w, "principal.tags.containsAny([\"z\"])", "principal.tags=[\"a\", \"b\"];");
    check_leaves(w, "resource.owner in principal", "resource.owner=User::\"alice\";principal=User::\"alice\";");
    check_leaves(w, "principal.gone.age > 1", "principal.gone.age=;");
    check_leaves(w, "principal has weight", "");
    check_leaves(w, "context.ip.isInRange(ip(\"11.0.0.0/8\"))", "context.ip=ip(\"10.1.2.3/32\");");
    check_leaves(w, "context[\"deep\"][\"a\"][\"if\"] == 1", "context.deep.a[\"if\"]=;");
}

static bool no_strings(const bw_cedar_value *v, void *user)
{
    (void)user;
    return bw_cedar_value_look(v).kind != BW_CEDAR_STRING;
}

static void test_trace__writes_expressions(void **state)
{
    static const char *const same[] = {
        "context.s like \"te*x\"", "principal is User in Team::\"blue\"", "(if 1 == 1 then 1 else 2) == 3",
        "(1 + 2) * 3 == 1 - (2 - 3)", "-principal.age == 3 + 4 * 5", "[1, \"a\\\"b\"] == {k: 2, \"in\": 3}",
        "(1 == 2) == true", "context.n has a.b || context.n has \"a b\"", "principal.getTag(\"role\") == \"x\"",
        "decimal(\"1.5\").lessThan(decimal(\"1.0\"))", "!context.set.isEmpty()",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char policy[512];
        snprintf(policy, sizeof policy, "permit(principal, action, resource) when { (%s) == 7 };", same[i]);
        traced t = trace(*state, policy, NULL);
        char with[512], without[512];
        snprintf(with, sizeof with, "(%s) == 7=%s;", same[i], t.r.satisfied == BW_CEDAR_FAILED ? "E" : "F");
        snprintf(without, sizeof without, "%s == 7=F;", same[i]);
        if (strcmp(t.text.ptr, with) != 0 && strcmp(t.text.ptr, without) != 0)
            fail_msg("%s: %s", same[i], t.text.ptr);
        done(&t);
    }
    traced t = trace(*state, "permit(principal, action, resource) when { context.s == \"other\" && User::\"x\" == principal };", no_strings);
    assert_string_equal(t.text.ptr, "context.s == \"...\"=F;");
    done(&t);
}

/* Long chains, deep brackets, long values: no deep recursion, bounded text, bounded parts. */
static void test_trace__is_bounded(void **state)
{
    world *w = *state;
    bw_buf b = {0};
    bw_buf_puts(&b, "permit(principal, action, resource) when { 1 == 2");
    for (int i = 0; i < 3000; i++)
        bw_buf_puts(&b, " || 1 == 2");
    bw_buf_puts(&b, " };");
    bw_buf_putc(&b, 0);
    traced t = trace(w, b.ptr, NULL);
    assert_true(t.r.nparts == BW_CEDAR_PARTS_MAX && t.r.cut);
    done(&t);
    bw_buf_clear(&b);
    bw_buf_puts(&b, "permit(principal, action, resource) when { ");
    for (int i = 0; i < 280; i++)
        bw_buf_puts(&b, "(1 == 1 && ");
    bw_buf_puts(&b, "context.s == \"");
    for (int i = 0; i < 2000; i++)
        bw_buf_puts(&b, "é");
    bw_buf_putc(&b, '"');
    for (int i = 0; i < 280; i++)
        bw_buf_putc(&b, ')');
    bw_buf_puts(&b, " };");
    bw_buf_putc(&b, 0);
    t = trace(w, b.ptr, NULL);
    assert_int_equal(t.r.nparts, 1);
    assert_true(t.text.len < BW_CEDAR_PART_TEXT_MAX + 16);
    assert_true(bw_utf8_valid(t.text.ptr, t.text.len - 1));
    done(&t);
    bw_buf_clear(&b);
    bw_buf_puts(&b, "permit(principal, action, resource) when { principal");
    for (int i = 0; i < 20000; i++)
        bw_buf_puts(&b, ".a");
    bw_buf_puts(&b, " };");
    bw_buf_putc(&b, 0);
    t = trace(w, b.ptr, NULL);
    assert_int_equal(t.r.satisfied, BW_CEDAR_FAILED);
    done(&t);
    bw_buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_trace__lists_the_parts_that_settle_it),
        world_test(test_trace__looks_at_the_scope),
        world_test(test_trace__reads_whole_paths),
        world_test(test_trace__writes_expressions),
        world_test(test_trace__is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
