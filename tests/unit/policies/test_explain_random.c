/* Explanations of random denials: every change that is told turns its denial, decided once
 * more by the authority itself, and no part of it does; every condition that is told is
 * what is said of it, evaluated alone. BW_NIGHTLY=1: twenty times as many. */
#include "explain_fixture.h"

/* Decided by the authority itself, from the facts alone. */
static bool applied(world *w, const bw_change *changes, size_t n)
{
    fixture *f = w->f;
    bw_what_if t;
    bw_class_id id;
    bw_decision d;
    bw_str text;
    assert_int_equal(bw_what_if_make(f->ctx, &w->ask, &paris, changes, n, &t), BW_OK);
    if (t.noperators)
        assert_int_equal(bw_authority_set_entities(f->ctx, w->a, entities_text(f->ctx, &t)), BW_OK);
    static const bw_str hds[] = {{"hds", 3}}, both[] = {{"gpu", 3}, {"tee", 3}};
    static const bw_place par2 = {.id = {"par2", 4}, .country = {"FR", 2}, .operator_id = {"usfr", 4},
                                  .certs = hds, .ncerts = 1, .hw = both, .nhw = 2};
    bw_place at = bw_str_is(t.at.id, "par2") ? par2 : bw_str_is(t.at.id, "par1") ? paris : t.at,
             dest = bw_str_is(t.dest.id, "par2") ? par2 : bw_str_is(t.dest.id, "par1") ? paris : t.dest;
    bw_question q = {.principal = &t.who, .action = t.action, .purpose = t.purpose, .safeguards = t.safeguards,
                     .nsafeguards = t.nsafeguards, .at = &at, .dest = t.has_dest ? &dest : NULL, .now_ns = t.now_ns};
    assert_int_equal(bw_labels_canonical(f->ctx, &t.labels, &text), BW_OK);
    bw_labels_class_id(text, &id);
    assert_int_equal(bw_decide_class(f->ctx, w->a, &q, &id, text, &d), BW_OK);
    if (t.noperators)
        assert_int_equal(bw_authority_set_entities(f->ctx, w->a, entities_text(f->ctx, NULL)), BW_OK);
    return d.allow;
}

/* An explanation's decision is the authority's, by the same policies and errors. */
static void check_decision(world *w, const bw_decision *d)
{
    bw_class_id id;
    bw_decision real;
    bw_labels_class_id(w->ask.label_text, &id);
    assert_int_equal(bw_decide_class(w->f->ctx, w->a, &w->q, &id, w->ask.label_text, &real), BW_OK);
    assert_int_equal(d->allow, real.allow);
    assert_int_equal(d->npolicies, real.npolicies);
    assert_int_equal(d->nerrors, real.nerrors);
    for (size_t i = 0; i < d->npolicies; i++)
        assert_true(bw_str_eq(d->policies[i], real.policies[i]));
    for (size_t i = 0; i < d->nerrors; i++)
        assert_true(bw_str_eq(d->errors[i], real.errors[i]));
}

static void say_change(const bw_change *c)
{
    print_message("  %s %s %.*s\n", bw_fact_name(c->fact), c->verb == BW_CHANGE_SET ? "=" : c->verb == BW_CHANGE_ADD ? "+" : "-",
                  (int)c->value.len, c->value.ptr);
}

/* Parts of a set too: those that change an operator's facts, which means new entities, for
 * every eighth set. */
static void check_set(world *w, const bw_change_set *set)
{
    bool turned = applied(w, set->changes, set->n);
    bool smaller = false, costly = false;
    for (uint32_t i = 0; i < set->n; i++)
        costly = costly || strstr(bw_fact_name(set->changes[i].fact), ".operator.");
    bool parts = !costly || w->checked++ % 8 == 0;
    for (uint32_t bits = 1; parts && bits + 1 < 1u << set->n; bits++) {
        bw_change part[BW_EXPLAIN_CHANGES_CAP];
        size_t n = 0;
        for (uint32_t i = 0; i < set->n; i++)
            if (bits & 1u << i)
                part[n++] = set->changes[i];
        smaller = smaller || applied(w, part, n);
    }
    if (turned && !smaller)
        return;
    for (uint32_t i = 0; i < set->n; i++)
        say_change(&set->changes[i]);
    bw_explanation e = explain(w->f, w->a, &w->ask);
    bw_str text = json_of(w->f, &e);
    fail_msg("%s; %s %.*s\n%.*s", turned ? "a part of it does" : "does not turn it", bw_action_name(w->q.action),
             (int)w->ask.label_text.len, w->ask.label_text.ptr, (int)text.len, text.ptr);
}

static void check_denials(world *w, size_t want)
{
    size_t denials = 0, told = 0, sets = 0, complete = 0, sizes[BW_EXPLAIN_CHANGES_CAP + 1] = {0};
    uint64_t tried = 0;
    fixture kept = *w->f;
    for (size_t asked = 0; denials < want; asked++) {
        assert_true(asked < want * 20);
        w->f->ctx = bw_ctx_new(0);
        random_ask(w);
        bw_explanation e = explain(w->f, w->a, &w->ask), again;
        check_decision(w, &e.decision);
        assert_int_equal(e.decision.allow, applied(w, NULL, 0));
        if (!e.decision.allow) {
            denials++;
            told += e.nsets > 0;
            complete += e.complete;
            sets += e.nsets;
            tried += e.tried;
            for (size_t i = 0; i < e.nsets; i++) {
                sizes[e.sets[i].n]++;
                check_set(w, &e.sets[i]);
            }
            if (denials % 16 == 0) {
                bw_str one = json_of(w->f, &e);
                again = explain(w->f, w->a, &w->ask);
                assert_true(bw_str_eq(one, json_of(w->f, &again)) || again.version != e.version);
            }
        }
        bw_ctx_free(w->f->ctx);
        w->f->ctx = kept.ctx;
    }
    printf("%zu denials, %zu of them with a way (%zu searches complete); %zu ways by size %zu/%zu/%zu, all turn; %.1f decisions a search\n",
           denials, told, complete, sets, sizes[1], sizes[2], sizes[3], (double)tried / (double)denials);
    assert_true(told > denials / 2);
}

static size_t denials_wanted(size_t day)
{
    const char *night = getenv("BW_NIGHTLY");
    return night && strcmp(night, "1") == 0 ? 20 * day : day;
}

static void test_explain__changes_turn_random_denials_of_the_packs(void **state)
{
    static const bw_str all[] = {{"all", 3}};
    world w = {.f = *state, .r = rnd_start("packs", 20261130)};
    for (int i = 0; i < 2; i++) {
        w.a = authority(w.f, i ? pack_compose(w.f->ctx, all, 1) : w.f->policies);
        check_denials(&w, denials_wanted(500));
        bw_authority_free(w.a);
    }
}

/* ---- random policies ---- */

static void put_condition(bw_buf *b, rnd *r, int depth)
{
    if (depth > 0 && rnd_below(r, 3)) {
        size_t kind = rnd_below(r, 4);
        bw_buf_puts(b, kind == 3 ? "!(" : "(");
        put_condition(b, r, depth - 1);
        if (kind < 2) {
            bw_buf_puts(b, kind ? " && " : " || ");
            put_condition(b, r, depth - 1);
        } else if (kind == 2) {
            bw_buf_puts(b, " && ");
            put_condition(b, r, depth - 1);
            bw_buf_puts(b, " || ");
            put_condition(b, r, depth - 1);
        }
        bw_buf_putc(b, ')');
        return;
    }
    bw_buf_puts(b, PICK(r, "resource.legalHold", "principal.clearance >= resource.sensitivity", "principal.clearance < 3",
        "resource.sensitivity <= 2", "resource.tenant == principal.tenant", "resource.regimes.contains(\"gdpr\")",
        "resource.regimes.containsAny([\"hipaa\", \"pipl\"])", "resource.categories.isEmpty()",
        "resource.labels.containsAll([\"internal\"])", "context.purpose == \"support\"", "context.purpose != \"\"",
        "resource.purposes.contains(context.purpose)", "context.safeguards.containsAll([\"scc\", \"tia\"])",
        "context.safeguards.contains(\"bcr\")", "context.at.country in resource.residency", "principal.seat in Bw::Zone::\"EU\"",
        "principal in Bw::Role::\"dpo\"", "principal in [Bw::Role::\"reader\", Bw::Role::\"editor\"]",
        "context.at.operator.certs.contains(\"dpf\")", "context.at.operator.seat in Bw::Zone::\"EU\"",
        "context.at.certs.contains(\"hds\")", "context.purpose like \"s*\"",
        "(if resource.legalHold then context.purpose == \"legal-claims\" else true)",
        "context.at.operator.foreignShareMax.lessThan(decimal(\"25.0\"))", "9223372036854775806 + principal.clearance > 0"));
}

static void put_random_policies(bw_buf *b, rnd *r)
{
    size_t n = 1 + rnd_below(r, 6);
    for (size_t i = 0; i <= n; i++) {
        bw_buf_printf(b, "%s (principal%s, action, resource is Bw::DataClass)", i == 0 || rnd_below(r, 3) == 0 ? "permit" : "forbid",
                      rnd_below(r, 5) ? "" : " in Bw::Role::\"editor\"");
        for (size_t c = rnd_below(r, 3); c-- > 0;) {
            bw_buf_puts(b, rnd_below(r, 2) ? " when { " : " unless { ");
            put_condition(b, r, 3);
            bw_buf_puts(b, " }");
        }
        bw_buf_puts(b, ";\n");
    }
}

static void test_explain__changes_turn_denials_of_random_policies(void **state)
{
    world w = {.f = *state, .r = rnd_start("random policies", 77)};
    size_t denied = 0, told = 0;
    for (size_t round = 0; round < denials_wanted(40); round++) {
        bw_buf b = {0};
        put_random_policies(&b, &w.r);
        w.a = authority(w.f, bw_buf_view(&b));
        bw_buf_clear(&b);
        for (int i = 0; i < 6; i++) {
            random_ask(&w);
            bw_explanation e = explain(w.f, w.a, &w.ask);
            check_decision(&w, &e.decision);
            assert_int_equal(e.decision.allow, applied(&w, NULL, 0));
            denied += !e.decision.allow;
            told += e.nsets > 0;
            for (size_t k = 0; k < e.nsets; k++)
                check_set(&w, &e.sets[k]);
        }
        bw_authority_free(w.a);
    }
    printf("%zu denials, %zu of them with a way\n", denied, told);
    assert_true(told > 0); /* many can never be met */
}

/* ---- what is told is true ---- */

typedef struct telling {
    world *w;
    bw_authority *plain; /* by Cedar's rules, unvalidated: takes any condition */
    bw_cedar_policies *set;
    size_t denials, conditions, values, errors;
} telling;

/* The question under one policy alone; whether the policy is satisfied. */
static bool satisfied(telling *t, const char *policy, bool *error)
{
    world *w = t->w;
    bw_decision d;
    if (bw_decide_dry(w->f->ctx, t->plain, bw_str_c(policy), &w->q, w->ask.label_text, &d) != BW_OK)
        fail_msg("%s\n%s", policy, bw_ctx_message(w->f->ctx));
    *error = d.nerrors > 0;
    return d.npolicies > 0;
}

static void check_condition(telling *t, const char *condition, bool truth, bool failed)
{
    bool error;
    const char *policy = bw_arena_printf(t->w->f->ctx, "permit (principal, action, resource) when { %s };", condition);
    bool is = satisfied(t, policy, &error);
    if (is != (truth && !failed) || error != failed)
        fail_msg("%s by %.*s, %.*s: %s is %s, told as %s", bw_action_name(t->w->q.action), (int)t->w->who.id.len,
                 t->w->who.id.ptr, (int)t->w->ask.label_text.len, t->w->ask.label_text.ptr, condition,
                 error ? "an error" : is ? "true" : "false", failed ? "an error" : truth ? "true" : "false");
}

static void check_part(telling *t, const bw_explained_part *p)
{
    bw_ctx *ctx = t->w->f->ctx;
    if (says(p->text, "..."))
        return; /* cut, or not to be shown */
    check_condition(t, bw_arena_cstr(ctx, p->text), p->truth, p->failed);
    t->conditions++;
    t->errors += p->failed;
    for (size_t i = 0; i < p->nvalues; i++) {
        const bw_explained_value *v = &p->values[i];
        bool readable = v->text.ptr != NULL;
        bool others = !t->w->ask.privileged && says(v->path, ".baaWith"); /* left out, by promise */
        if (v->path.len == 0 || others || (readable && says(v->text, "...")))
            continue;
        check_condition(t, bw_arena_printf(ctx, "%.*s == %.*s", (int)v->path.len, v->path.ptr, readable ? (int)v->text.len : 1,
                                           readable ? v->text.ptr : "1"), true, !readable);
        t->values++;
    }
}

static uint32_t index_of(const bw_cedar_policies *set, bw_str name)
{
    for (uint32_t i = 0; i < bw_cedar_policies_count(set); i++) {
        bw_str id = bw_cedar_policy_id(set, i);
        (void)bw_cedar_policy_annotation(set, i, BW_STR("id"), &id);
        if (bw_str_eq(id, name))
            return i;
    }
    fail_msg("no policy %.*s", (int)name.len, name.ptr);
    return 0;
}

static void check_told(telling *t, const bw_explanation *e)
{
    for (size_t i = 0; i < e->npolicies; i++) {
        const bw_explained_policy *p = &e->policies[i];
        bw_str text = bw_cedar_policy_text(t->set, index_of(t->set, p->name));
        bool error, is = satisfied(t, bw_arena_cstr(t->w->f->ctx, text), &error);
        assert_int_equal(is, strcmp(p->why, "determining") == 0);
        if (strcmp(p->why, "nearest") != 0) /* one that errs may be near */
            assert_int_equal(error, strcmp(p->why, "error") == 0);
        for (size_t k = 0; k < p->nparts; k++)
            check_part(t, &p->parts[k]);
    }
}

static void tell_many(telling *t, size_t want)
{
    bw_ctx *kept = t->w->f->ctx;
    for (size_t i = 0; i < want; i++) {
        t->w->f->ctx = bw_ctx_new(0);
        random_ask(t->w);
        bw_explanation e = explain(t->w->f, t->w->a, &t->w->ask);
        check_told(t, &e); /* of an allow, what was checked */
        t->denials += !e.decision.allow;
        bw_ctx_free(t->w->f->ctx);
        t->w->f->ctx = kept;
    }
}

static void test_explain__conditions_are_what_it_says_of_them(void **state)
{
    static const bw_str all[] = {{"all", 3}};
    world w = {.f = *state, .r = rnd_start("conditions", 4711)};
    telling t = {.w = &w, .plain = authority_by(w.f, BW_STR("permit (principal, action, resource);"), true)};
    for (size_t i = 0; i < denials_wanted(12); i++) {
        bw_buf b = {0};
        bw_str text = i == 0 ? pack_compose(w.f->ctx, all, 1) : w.f->policies;
        if (i > 1) {
            put_random_policies(&b, &w.r);
            text = bw_buf_view(&b);
        }
        w.a = authority(w.f, text);
        assert_int_equal(bw_cedar_policies_parse(w.f->ctx, text, &t.set), BW_OK);
        tell_many(&t, i < 2 ? 80 : 8);
        bw_cedar_policies_free(t.set);
        bw_authority_free(w.a);
        bw_buf_clear(&b);
    }
    bw_authority_free(t.plain);
    printf("%zu denials: %zu conditions and %zu values are as told, %zu of them errors\n", t.denials, t.conditions,
           t.values, t.errors);
    assert_true(t.denials > 100 && t.conditions > 200 && t.values > 200 && t.errors > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explain__conditions_are_what_it_says_of_them),
        cmocka_unit_test(test_explain__changes_turn_random_denials_of_the_packs),
        cmocka_unit_test(test_explain__changes_turn_denials_of_random_policies),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
