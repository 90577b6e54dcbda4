/* Decisions: the pack's checked requests, the cache, replacement, deny on any error. */
#include <policies/decision.h>

#include <pthread.h>
#include <setjmp.h>
#include <sodium.h>
#include <stdatomic.h>
#include <cmocka.h>
#include "pack.h"

typedef struct fixture {
    bw_ctx *ctx;
    bw_catalogue *catalogue;
    bw_str schema, policies;
    bw_json *data;
} fixture;

static int setup(void **state)
{
    static fixture f;
    f.ctx = bw_ctx_new(0);
    f.schema = pack_file(f.ctx, "bw.cedarschema");
    f.policies = pack_compose(f.ctx, &BW_STR("eu-baseline"), 1);
    bw_str text = pack_file(f.ctx, "../../tests/data/residency.json");
    if (bw_json_parse(f.ctx, text, BW_JSON_REQUEST, &f.data) != BW_OK)
        fail_msg("residency.json: %s", bw_ctx_message(f.ctx));
    f.catalogue = pack_catalogue(f.ctx, bw_arena_cstr(f.ctx, bw_json_get(f.data, "overlay")->raw));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_catalogue_free(f->catalogue);
    bw_ctx_free(f->ctx);
    return 0;
}

/* ---- from the data file ---- */

static const bw_json *item(const bw_json *array, size_t i)
{
    const bw_json *v = array->child;
    while (i--)
        v = v->next;
    return v;
}

static const bw_str *strings(fixture *f, const bw_json *array, size_t *n)
{
    bw_str *out = bw_arena_calloc(f->ctx, array->count + 1, sizeof *out);
    *n = 0;
    for (const bw_json *v = array->child; v; v = v->next)
        out[(*n)++] = v->str;
    return out;
}

static bw_place place(fixture *f, bw_str id)
{
    const bw_json *v = bw_json_get_str(bw_json_get(f->data, "nodes"), id);
    if (!v)
        fail_msg("no node %.*s", (int)id.len, id.ptr);
    bw_place p = {.id = id, .country = item(v, 0)->str, .operator_id = item(v, 1)->str};
    p.certs = strings(f, item(v, 2), &p.ncerts);
    p.hw = strings(f, item(v, 3), &p.nhw);
    return p;
}

static bw_principal person(fixture *f, bw_str id)
{
    const bw_json *v = bw_json_get_str(bw_json_get(f->data, "people"), id);
    if (!v)
        fail_msg("no person %.*s", (int)id.len, id.ptr);
    bw_principal p = {.id = id, .tenant = item(v, 0)->str, .seat = item(v, 2)->str,
                      .clearance = (uint32_t)item(v, 1)->mag};
    p.roles = strings(f, item(v, 3), &p.nroles);
    return p;
}

static bw_str class_text(fixture *f, bw_str name, bw_class_id *id)
{
    const bw_json *v = bw_json_get_str(bw_json_get(f->data, "classes"), name);
    bw_labels l;
    bw_str text;
    if (!v || bw_labels_parse(f->ctx, f->catalogue, v, BW_STR("acme"), &l) != BW_OK)
        fail_msg("class %.*s: %s", (int)name.len, name.ptr, bw_ctx_message(f->ctx));
    assert_int_equal(bw_labels_canonical(f->ctx, &l, &text), BW_OK);
    bw_labels_class_id(text, id);
    return text;
}

static bw_authority *authority_at(fixture *f, bw_str node, bw_str policies)
{
    bw_authority *a;
    bw_authority_options o = {.schema = f->schema, .policies = policies, .catalogue = f->catalogue,
                              .at = place(f, node)};
    bw_status st = bw_authority_new(f->ctx, &o, &a);
    if (st != BW_OK)
        fail_msg("authority: %s", bw_ctx_message(f->ctx));
    return a;
}

static bool same_names(const bw_str *got, size_t n, const bw_json *want)
{
    if (n != (want ? want->count : 0))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!bw_str_eq(got[i], item(want, i)->str))
            return false;
    return true;
}

static void check(const bw_json *row, const bw_decision *d, bw_str want, const bw_json *names)
{
    bool allow = bw_str_is(want, "Allow");
    if (d->allow != allow || !same_names(d->policies, d->npolicies, names))
        fail_msg("%.*s\n  got %s, %zu policies, first %.*s", (int)row->raw.len, row->raw.ptr,
                 d->allow ? "Allow" : "Deny", d->npolicies,
                 d->npolicies ? (int)d->policies[0].len : 0, d->npolicies ? d->policies[0].ptr : "");
}

/* ---- tests ---- */

/* Every row twice: the second answer comes from the cache and must be the same. And a
 * cell elsewhere, asked what if it were there, says what that cell says. */
static size_t run_rows(fixture *f, const char *list, size_t *errors)
{
    size_t n = 0;
    bw_authority *elsewhere = authority_at(f, BW_STR("zrh1"), f->policies);
    for (const bw_json *row = bw_json_get(f->data, list)->child; row; row = row->next, n++) {
        bw_authority *a = authority_at(f, item(row, 3)->str, f->policies);
        bw_principal who = person(f, item(row, 0)->str);
        bw_question q = {.principal = &who, .purpose = item(row, 5)->str};
        bw_place at = place(f, item(row, 3)->str), dest;
        bw_class_id id;
        bw_decision d;
        assert_true(bw_action_parse(item(row, 1)->str, &q.action));
        if (item(row, 4)->kind == BW_JSON_STRING) {
            dest = place(f, item(row, 4)->str);
            q.dest = &dest;
        }
        q.safeguards = strings(f, item(row, 6), &q.nsafeguards);
        bw_str text = class_text(f, item(row, 2)->str, &id);
        for (int round = 0; round < 2; round++) {
            assert_int_equal(bw_decide_class(f->ctx, a, &q, &id, text, &d), BW_OK);
            check(row, &d, item(row, 7)->str, item(row, 8));
            *errors += d.nerrors;
        }
        bw_authority_free(a);
        q.at = &at;
        assert_int_equal(bw_decide_class(f->ctx, elsewhere, &q, &id, text, &d), BW_OK);
        check(row, &d, item(row, 7)->str, item(row, 8));
    }
    bw_authority_free(elsewhere);
    return n;
}

static void test_decide_class__answers_the_checked_requests(void **state)
{
    size_t errors = 0, n = run_rows(*state, "requests", &errors);
    assert_true(n >= 70);
    assert_int_equal(errors, 0);
}

static void test_decide_class__a_forbid_that_errors_denies(void **state)
{
    size_t errors = 0;
    assert_int_equal(run_rows(*state, "broken", &errors), 1);
    assert_int_equal(errors, 2); /* one policy, asked twice */
}

/* Cedar's own rule, which `policy test --cedar-errors` shows: skipped, and said. */
static void test_decide_class__cedar_skips_a_forbid_that_errors(void **state)
{
    fixture *f = *state;
    const bw_json *row = bw_json_get(f->data, "broken")->child;
    bw_authority_options o = {.schema = f->schema, .policies = f->policies, .catalogue = f->catalogue,
                              .at = place(f, item(row, 3)->str), .cedar_errors = true};
    bw_principal who = person(f, item(row, 0)->str);
    bw_question q = {.principal = &who, .action = BW_ACTION_STORE, .purpose = BW_STR("")};
    bw_authority *a;
    bw_class_id id;
    bw_decision d;
    bw_str text = class_text(f, item(row, 2)->str, &id);
    assert_int_equal(bw_authority_new(f->ctx, &o, &a), BW_OK);
    assert_int_equal(bw_decide_class(f->ctx, a, &q, &id, text, &d), BW_OK);
    assert_true(d.allow && d.npolicies == 1 && d.nerrors == 1);
    assert_true(bw_str_is(d.policies[0], "own-tenant") && bw_str_is(d.errors[0], "no-extra-eu-control"));
    bw_authority_free(a);
}

static void test_decide_object__answers_the_checked_requests(void **state)
{
    fixture *f = *state;
    bw_authority *a = authority_at(f, BW_STR("par1"), f->policies);
    for (const bw_json *row = bw_json_get(f->data, "objects")->child; row; row = row->next) {
        bw_principal who = person(f, item(row, 0)->str);
        bw_question q = {.principal = &who, .purpose = BW_STR("")};
        bw_decision d;
        assert_true(bw_action_parse(item(row, 1)->str, &q.action));
        for (int round = 0; round < 2; round++) {
            assert_int_equal(bw_decide_object(f->ctx, a, &q, bw_arena_cstr(f->ctx, item(row, 2)->str),
                                              item(row, 3)->str, item(row, 4)->str, &d), BW_OK);
            check(row, &d, item(row, 5)->str, item(row, 6));
        }
    }
    bw_authority_free(a);
}

static int by_id(const void *a, const void *b)
{
    return bw_class_id_cmp(a, b);
}

typedef struct classes {
    size_t n;
    bw_class_id *ids;
    bw_str *texts;
} classes;

/* n label sets of tenant acme, sorted by id; sensitivity and purposes vary. */
static classes many_classes(fixture *f, size_t n)
{
    struct pair { bw_class_id id; bw_str text; } *p = bw_arena_calloc(f->ctx, n, sizeof *p);
    classes c = {n, bw_arena_calloc(f->ctx, n, sizeof *c.ids), bw_arena_calloc(f->ctx, n, sizeof *c.texts)};
    for (size_t i = 0; i < n; i++) {
        char *tenant = bw_arena_printf(f->ctx, "%s%zu", i % 2 ? "acme" : "t", i % 2 ? 0 : i / 8);
        static const bw_str zones[] = {{"EU", 2}}, purposes[] = {{"support", 7}};
        bw_labels l = {.tenant = i % 2 ? BW_STR("acme") : bw_str_c(tenant), .residency = {zones, 1},
                       .sensitivity = (uint32_t)(i / 2 % 6), .purposes = {purposes, i / 12 % 2}};
        bw_str *words = bw_arena_calloc(f->ctx, 1, sizeof *words);
        words[0] = bw_str_c(bw_arena_printf(f->ctx, "w%zu", i));
        l.labels = (bw_label_list){words, 1};
        assert_int_equal(bw_labels_canonical(f->ctx, &l, &p[i].text), BW_OK);
        bw_labels_class_id(p[i].text, &p[i].id);
    }
    qsort(p, n, sizeof *p, by_id);
    for (size_t i = 0; i < n; i++) {
        c.ids[i] = p[i].id;
        c.texts[i] = p[i].text;
    }
    return c;
}

static void test_permitted_set__equals_class_by_class(void **state)
{
    fixture *f = *state;
    classes c = many_classes(f, 600); /* more than two batches */
    bw_principal ana = person(f, BW_STR("ana")), low = person(f, BW_STR("low"));
    uint8_t digest[2][16], other[16];
    for (int warm = 0; warm < 2; warm++) {
        bw_authority *a = authority_at(f, BW_STR("par1"), f->policies);
        bw_authority *b = authority_at(f, BW_STR("par1"), f->policies);
        bw_question q = {.principal = &ana, .action = BW_ACTION_QUERY, .purpose = BW_STR("support")};
        bw_permit permit, again, none;
        bw_decision d;
        if (warm) /* half of them are in the cache already */
            for (size_t i = 0; i < c.n; i += 2)
                assert_int_equal(bw_decide_class(f->ctx, a, &q, &c.ids[i], c.texts[i], &d), BW_OK);
        assert_int_equal(bw_permitted_set(f->ctx, a, &q, c.ids, c.texts, c.n, &permit, digest[0]), BW_OK);
        assert_int_equal(bw_permitted_set(f->ctx, a, &q, c.ids, c.texts, c.n, &again, digest[1]), BW_OK);
        assert_memory_equal(digest[0], digest[1], 16);
        assert_int_equal(again.n, permit.n);
        assert_memory_equal(again.classes, permit.classes, permit.n * sizeof *permit.classes);
        /* Of the classes alone: another cell's process makes the same one in a replay. */
        crypto_generichash(other, 16, (const unsigned char *)permit.classes, permit.n * sizeof *permit.classes, NULL, 0);
        assert_memory_equal(digest[0], other, 16);
        assert_true(permit.n > 50 && permit.n < 300);
        for (size_t i = 0; i < c.n; i++) {
            assert_int_equal(bw_decide_class(f->ctx, b, &q, &c.ids[i], c.texts[i], &d), BW_OK);
            assert_int_equal(d.allow, bw_permit_has(&permit, &c.ids[i]));
        }
        q.principal = &low; /* a weaker caller never gets the stronger one's answers */
        assert_int_equal(bw_permitted_set(f->ctx, a, &q, c.ids, c.texts, c.n, &again, other), BW_OK);
        assert_true(again.n < permit.n);
        assert_memory_not_equal(digest[0], other, 16);
        q.purpose = BW_STR("");
        assert_int_equal(bw_permitted_set(f->ctx, a, &q, c.ids, c.texts, c.n, &none, other), BW_OK);
        assert_int_equal(none.n, 0);
        assert_non_null(none.classes);
        assert_int_equal(bw_permitted_set(f->ctx, a, &q, NULL, NULL, 0, &none, other), BW_OK);
        assert_non_null(none.classes);
        bw_authority_free(a);
        bw_authority_free(b);
    }
}

static void test_permitted_set__leaves_out_a_class_that_cannot_be_read(void **state)
{
    fixture *f = *state;
    classes c = many_classes(f, 60);
    bw_authority *a = authority_at(f, BW_STR("par1"), f->policies);
    bw_principal ana = person(f, BW_STR("ana"));
    bw_question q = {.principal = &ana, .action = BW_ACTION_QUERY, .purpose = BW_STR("support")};
    bw_permit whole, less;
    uint8_t digest[16];
    bw_decision d;
    assert_int_equal(bw_permitted_set(f->ctx, a, &q, c.ids, c.texts, c.n, &whole, digest), BW_OK);
    assert_true(whole.n > 1);
    bw_authority_free(a);
    a = authority_at(f, BW_STR("par1"), f->policies);
    for (size_t i = 0; i < c.n; i++)
        if (bw_class_id_cmp(&c.ids[i], &whole.classes[0]) == 0)
            c.texts[i] = BW_STR("{\"tenant\":\"acme\"}");
    assert_int_equal(bw_permitted_set(f->ctx, a, &q, c.ids, c.texts, c.n, &less, digest), BW_OK);
    assert_int_equal(less.n, whole.n - 1);
    assert_false(bw_permit_has(&less, &whole.classes[0]));
    assert_int_equal(bw_decide_class(f->ctx, a, &q, &whole.classes[0], BW_STR("junk"), &d), BW_OK);
    assert_false(d.allow);
    assert_int_equal(d.nerrors, 1);
    bw_authority_free(a);
}

static void test_authority_set_policies__is_atomic_and_empties_the_cache(void **state)
{
    fixture *f = *state;
    bw_authority *a = authority_at(f, BW_STR("par1"), f->policies);
    bw_principal ana = person(f, BW_STR("ana"));
    bw_question q = {.principal = &ana, .action = BW_ACTION_QUERY, .purpose = BW_STR("payroll")};
    bw_class_id id;
    bw_decision d;
    bw_str text = class_text(f, BW_STR("hr"), &id), now;
    assert_int_equal(bw_decide_class(f->ctx, a, &q, &id, text, &d), BW_OK);
    assert_true(d.allow);
    uint64_t version = bw_authority_version(a);
    static const char *const bad[] = {
        "permit (principal, action, resource)",                          /* no semicolon */
        "permit (principal, action == Bw::Action::\"Fly\", resource);",  /* not an action */
        "permit (principal is Bw::Martian, action, resource);",          /* not a type */
        "permit (principal, action, resource) when { context.purpose > 1 };", /* types */
        "permit (principal, action, resource) when { context.now == context.now };",
        "@id(\"a\") permit (principal, action, resource); @id(\"a\") permit (principal, action, resource);",
        "@id(\"policy1\") permit (principal, action, resource); permit (principal, action, resource);",
        "@id(\"a b\") permit (principal, action, resource);",
        "@id(\"\") permit (principal, action, resource);",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (bw_authority_set_policies(f->ctx, a, bw_str_c(bad[i])) != BW_EINVALID)
            fail_msg("accepted %s", bad[i]);
        assert_int_equal(bw_authority_version(a), version);
    }
    assert_int_equal(bw_decide_class(f->ctx, a, &q, &id, text, &d), BW_OK);
    assert_true(d.allow);
    /* dry run: another answer, nothing kept */
    assert_int_equal(bw_decide_dry(f->ctx, a, BW_STR(""), &q, text, &d), BW_OK);
    assert_false(d.allow);
    assert_int_equal(bw_decide_dry(f->ctx, a, BW_STR("permit (principal, action, resource);"), &q, text, &d), BW_OK);
    assert_true(d.allow && bw_str_is(d.policies[0], "policy0"));
    assert_int_equal(bw_decide_class(f->ctx, a, &q, &id, text, &d), BW_OK);
    assert_true(d.allow && bw_str_is(d.policies[0], "own-tenant"));
    /* no policy at all: deny */
    assert_int_equal(bw_authority_set_policies(f->ctx, a, BW_STR("")), BW_OK);
    assert_int_equal(bw_authority_version(a), version + 1);
    assert_int_equal(bw_decide_class(f->ctx, a, &q, &id, text, &d), BW_OK);
    assert_false(d.allow);
    assert_int_equal(bw_authority_policies_text(f->ctx, a, &now), BW_OK);
    assert_int_equal(now.len, 0);
    bw_authority_free(a);
    bw_authority_free(NULL);
}

static void test_authority_set_entities__changes_the_law_at_once(void **state)
{
    fixture *f = *state;
    bw_authority *a = authority_at(f, BW_STR("par9"), f->policies); /* its operator is unknown */
    bw_principal ana = person(f, BW_STR("ana"));
    bw_question q = {.principal = &ana, .action = BW_ACTION_STORE, .purpose = BW_STR("")};
    bw_class_id id;
    bw_decision d;
    bw_str text = class_text(f, BW_STR("gov"), &id);
    assert_int_equal(bw_decide_class(f->ctx, a, &q, &id, text, &d), BW_OK);
    assert_false(d.allow);
    assert_int_equal(bw_authority_set_entities(f->ctx, a, BW_STR(
        "[{\"uid\":{\"type\":\"Bw::LegalEntity\",\"id\":\"nobody\"},\"parents\":[],\"attrs\":{"
        "\"seat\":{\"type\":\"Bw::Country\",\"id\":\"FR\"},\"controlZones\":[{\"type\":\"Bw::Zone\",\"id\":\"EU\"}],"
        "\"foreignShareMax\":\"1.0\",\"foreignShareSum\":\"2.0\",\"baaWith\":[],\"certs\":[]}}]")), BW_OK);
    assert_int_equal(bw_decide_class(f->ctx, a, &q, &id, text, &d), BW_OK);
    assert_true(d.allow);
    static const char *const bad[] = {"{", "{}", "[1]", "[{\"uid\":{\"type\":\"Bw::Moon\",\"id\":\"x\"},\"attrs\":{},\"parents\":[]}]",
        "[{\"uid\":{\"type\":\"Bw::Node\",\"id\":\"par9\"},\"attrs\":{},\"parents\":[]}]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (bw_authority_set_entities(f->ctx, a, bw_str_c(bad[i])) != BW_EINVALID)
            fail_msg("accepted %s", bad[i]);
        assert_int_equal(bw_decide_class(f->ctx, a, &q, &id, text, &d), BW_OK);
        assert_true(d.allow);
    }
    bw_authority_free(a);
}

static void test_decide_class__now_counts_only_when_a_policy_reads_it(void **state)
{
    fixture *f = *state;
    bw_principal ana = person(f, BW_STR("ana"));
    bw_question q = {.principal = &ana, .action = BW_ACTION_QUERY, .purpose = BW_STR("payroll")};
    bw_class_id id;
    bw_decision d;
    bw_str text = class_text(f, BW_STR("hr"), &id);
    bw_authority *a = authority_at(f, BW_STR("par1"), BW_STR(
        "@id(\"early\") permit (principal, action, resource) when { context has now && context.now < datetime(\"2026-11-30T12:00:00.500Z\") };"));
    int64_t t;
    assert_true(bw_time_parse(BW_STR("2026-11-30T12:00:00.499Z"), &t));
    for (int i = 0; i < 3; i++) {
        q.now_ns = t + i * 1000000 + (i == 0 ? 999999 : 0);
        assert_int_equal(bw_decide_class(f->ctx, a, &q, &id, text, &d), BW_OK);
        assert_int_equal(d.allow, i == 0);
        assert_int_equal(d.nerrors, 0);
    }
    bw_authority_free(a);
    /* A policy that wants a fact which nobody has errors; a permit is skipped. */
    a = authority_at(f, BW_STR("par1"), BW_STR("@id(\"p\") permit (principal, action, resource) when { Bw::Country::\"nowhere\".adequacyCerts.gdpr.isEmpty() };"));
    assert_int_equal(bw_decide_class(f->ctx, a, &q, &id, text, &d), BW_OK);
    assert_false(d.allow);
    assert_int_equal(d.nerrors, 1);
    assert_true(bw_str_is(d.errors[0], "p"));
    bw_authority_free(a);
}

/* ---- threads: questions while policies are replaced (run under TSan) ---- */

typedef struct race {
    fixture *f;
    bw_authority *a;
    bw_class_id id;
    bw_str text;
    _Atomic bool stop;
    _Atomic size_t asked, odd;
} race;

static void *ask_for_long(void *arg)
{
    race *r = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    static const bw_str roles[1];
    for (size_t i = 0; !atomic_load(&r->stop) || i < 200; i++) {
        bw_principal who = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"),
                            .clearance = (uint32_t)(i % 4), .roles = roles};
        bw_question q = {.principal = &who, .action = BW_ACTION_QUERY, .purpose = BW_STR("payroll")};
        bw_decision d;
        /* the set in force allows from clearance 2, or everybody, by name */
        bool bad = bw_decide_class(ctx, r->a, &q, &r->id, r->text, &d) != BW_OK;
        if (!bad && d.allow)
            bad = d.npolicies != 1 || (bw_str_is(d.policies[0], "two") ? who.clearance < 2 : !bw_str_is(d.policies[0], "all"));
        if (!bad && !d.allow)
            bad = who.clearance >= 2;
        atomic_fetch_add(&r->odd, bad);
        atomic_fetch_add(&r->asked, 1);
        bw_ctx_reset(ctx);
    }
    bw_ctx_free(ctx);
    return NULL;
}

static void test_authority__threads_see_whole_sets(void **state)
{
    fixture *f = *state;
    const bw_str sets[] = {
        bw_str_c("@id(\"two\") permit (principal, action, resource) when { principal.clearance >= 2 };"),
        bw_str_c("@id(\"all\") permit (principal, action, resource);")};
    race r = {.f = f, .a = authority_at(f, BW_STR("par1"), sets[0])};
    r.text = class_text(f, BW_STR("hr"), &r.id);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_for_long, &r), 0);
    for (int i = 0; i < 40; i++)
        assert_int_equal(bw_authority_set_policies(f->ctx, r.a, sets[(i + 1) % 2]), BW_OK);
    atomic_store(&r.stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&r.odd), 0);
    assert_true(atomic_load(&r.asked) >= 600);
    bw_authority_free(r.a);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_decide_class__answers_the_checked_requests),
        T(test_decide_class__a_forbid_that_errors_denies),
        T(test_decide_class__cedar_skips_a_forbid_that_errors),
        T(test_decide_object__answers_the_checked_requests),
        T(test_permitted_set__equals_class_by_class),
        T(test_permitted_set__leaves_out_a_class_that_cannot_be_read),
        T(test_authority_set_policies__is_atomic_and_empties_the_cache),
        T(test_authority_set_entities__changes_the_law_at_once),
        T(test_decide_class__now_counts_only_when_a_policy_reads_it),
        T(test_authority__threads_see_whole_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
