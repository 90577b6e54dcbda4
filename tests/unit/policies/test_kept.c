/* What is kept: found again without a byte of heap, never under another question, rules
 * or list of classes, and gone for whoever asks after a change was acknowledged (run
 * under TSan too). */
#include <policies/decision.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <cmocka.h>
#include "failing_alloc.h"

static const char schema_text[] =
    "namespace Bw { entity Zone in [Zone]; entity Country in [Zone]; entity Role; entity Tenant;"
    "entity LegalEntity = { seat: Country };"
    "entity Node = { country: Country, operator: LegalEntity, certs: Set<String>, hw: Set<String> };"
    "entity Identity in [Role] = { tenant: Tenant, clearance: Long, seat: Country };"
    "entity Collection = { tenant: Tenant, name: String };"
    "entity DataClass = { tenant: Tenant, regimes: Set<String>, residency: Set<Zone>, sensitivity: Long,"
    "  categories: Set<String>, labels: Set<String>, purposes: Set<String>, legalHold: Bool };"
    "type Access = { at: Node, purpose: String, safeguards: Set<String>, now?: datetime };"
    "action Query appliesTo { principal: [Identity], resource: [DataClass], context: Access };"
    "action ManageCollection appliesTo { principal: [Identity], resource: [Collection], context: Access };"
    "action Admin appliesTo { principal: [Identity], resource: [Node], context: Access }; }";
#define SOME "@id(\"some\") permit (principal, action, resource is Bw::DataClass) when { resource.sensitivity < 2 };"
#define ALL "@id(\"all\") permit (principal, action, resource);"
static const bw_str some = {SOME, sizeof SOME - 1}, all = {ALL, sizeof ALL - 1};

enum { CLASSES = 40 };

typedef struct fixture {
    bw_ctx *ctx;
    bw_catalogue *catalogue;
    bw_authority *a;
    bw_class_id ids[CLASSES]; /* sorted */
    bw_str texts[CLASSES];
    bool low[CLASSES]; /* sensitivity below 2 */
    size_t n, listed, read, nlow;
    uint64_t version;
    bw_directory directory;
} fixture;

static bw_status list(void *user, bw_ctx *ctx, const bw_class_id **classes, size_t *n, uint64_t *version, uint8_t name[16])
{
    fixture *f = user;
    (void)ctx;
    name[0] = (uint8_t)f->n;
    f->listed++;
    *classes = f->ids;
    *n = f->n;
    *version = f->version;
    return BW_OK;
}

static bw_status label_text(void *user, bw_ctx *ctx, const bw_class_id *id, bw_str *out)
{
    fixture *f = user;
    (void)ctx;
    f->read++;
    for (size_t i = 0; i < CLASSES; i++)
        if (bw_class_id_cmp(id, &f->ids[i]) == 0)
            *out = f->texts[i];
    return BW_OK;
}

static void make_class(fixture *f, size_t i)
{
    static const bw_str zone = {"EU", 2};
    char *word = bw_arena_printf(f->ctx, "w%zu", i);
    bw_str label = bw_str_c(word), text;
    bw_labels l = {.tenant = BW_STR("acme"), .residency = {&zone, 1}, .sensitivity = (uint32_t)i % 4, .labels = {&label, 1}};
    bw_class_id id;
    assert_int_equal(bw_labels_canonical(f->ctx, &l, &text), BW_OK);
    bw_labels_class_id(text, &id);
    size_t k = i;
    for (; k > 0 && bw_class_id_cmp(&f->ids[k - 1], &id) > 0; k--) {
        f->ids[k] = f->ids[k - 1];
        f->texts[k] = f->texts[k - 1];
        f->low[k] = f->low[k - 1];
    }
    f->ids[k] = id;
    f->texts[k] = text;
    f->low[k] = l.sensitivity < 2;
    f->nlow += f->low[k];
}

static int setup(void **state)
{
    static fixture f;
    f = (fixture){.ctx = bw_ctx_new(0), .n = CLASSES, .version = 7};
    for (size_t i = 0; i < CLASSES; i++)
        make_class(&f, i);
    f.directory = (bw_directory){.version = 7, .list = list, .label_text = label_text, .user = &f};
    assert_int_equal(bw_catalogue_parse(f.ctx, BW_STR("{\"date\":\"2026-01-01\",\"zones\":[],\"countries\":[]}"), (bw_str){0}, &f.catalogue), BW_OK);
    bw_authority_options o = {.schema = BW_STR(schema_text), .policies = some, .catalogue = f.catalogue,
                              .at = {.id = BW_STR("n"), .country = BW_STR("FR"), .operator_id = BW_STR("op")}};
    if (bw_authority_new(f.ctx, &o, &f.a) != BW_OK)
        fail_msg("authority: %s", bw_ctx_message(f.ctx));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_authority_free(f->a);
    bw_catalogue_free(f->catalogue);
    bw_ctx_free(f->ctx);
    return 0;
}

static const bw_principal ana = {.id = {"ana", 3}, .tenant = {"acme", 4}, .seat = {"FR", 2}, .clearance = 3};
static const bw_question ana_asks = {.principal = &ana, .action = BW_ACTION_QUERY, .purpose = {"", 0}};

static size_t permitted(fixture *f, const bw_question *q)
{
    const bw_permitted *p;
    assert_int_equal(bw_permitted_acquire(f->ctx, f->a, q, &f->directory, &p), BW_OK);
    assert_non_null(p->permit.classes);
    size_t n = p->permit.n;
    if (n == f->nlow)
        for (size_t i = 0; i < CLASSES; i++)
            assert_int_equal(bw_permit_has(&p->permit, &f->ids[i]), f->low[i]);
    bw_permitted_release(p);
    return n;
}

static void test_kept__are_found_without_heap(void **state)
{
    fixture *f = *state;
    const bw_decision *d[2], *object;
    const bw_permitted *p[2];
    for (int round = 0; round < 2; round++) {
        long live = failing_live;
        if (round)
            failing_arm(0, true); /* from here on there is no memory */
        assert_int_equal(bw_decision_acquire(f->ctx, f->a, &ana_asks, &f->ids[3], f->texts[3], &d[round]), BW_OK);
        assert_int_equal(bw_permitted_acquire(f->ctx, f->a, &ana_asks, &f->directory, &p[round]), BW_OK);
        bw_question manage = ana_asks;
        manage.action = BW_ACTION_MANAGE_COLLECTION;
        assert_int_equal(bw_decision_acquire_object(f->ctx, f->a, &manage, "Collection", BW_STR("acme"), BW_STR("c"), &object), BW_OK);
        bw_decision_release(object);
        if (round) {
            assert_false(failing_hit);
            assert_int_equal(failing_live, live);
        }
    }
    failing_arm(-1, false);
    assert_ptr_equal(d[0], d[1]); /* the same bytes, not a copy */
    assert_ptr_equal(p[0], p[1]);
    assert_int_equal(p[1]->list[0], CLASSES); /* what its list is called */
    assert_int_equal(f->listed, 1);
    assert_int_equal(d[0]->allow, f->low[3]);
    /* what is held outlives what is kept */
    assert_int_equal(bw_authority_set_policies(f->ctx, f->a, all), BW_OK);
    assert_int_equal(d[0]->allow, f->low[3]);
    assert_int_equal(p[0]->permit.n, f->nlow);
    for (int i = 0; i < 2; i++) {
        bw_decision_release(d[i]);
        bw_permitted_release(p[i]);
    }
}

static void test_permitted__is_kept_by_question_rules_and_directory(void **state)
{
    fixture *f = *state;
    assert_int_equal(permitted(f, &ana_asks), f->nlow);
    assert_int_equal(f->read, CLASSES);
    assert_int_equal(permitted(f, &ana_asks), f->nlow);
    assert_int_equal(f->listed, 1);
    bw_principal bob = ana;
    bob.id = BW_STR("bob");
    bw_question q = ana_asks;
    q.principal = &bob; /* another question */
    assert_int_equal(permitted(f, &q), f->nlow);
    assert_int_equal(f->listed, 2);
    f->n = CLASSES - 1; /* another list */
    f->directory.version = f->version = 8;
    (void)permitted(f, &ana_asks);
    assert_int_equal(f->listed, 3);
    f->directory.version = 7; /* the first is there still */
    assert_int_equal(permitted(f, &ana_asks), f->nlow);
    assert_int_equal(f->listed, 3);
    assert_int_equal(bw_authority_set_policies(f->ctx, f->a, all), BW_OK); /* other rules */
    f->n = CLASSES;
    f->version = 7;
    assert_int_equal(permitted(f, &ana_asks), CLASSES);
    assert_int_equal(bw_authority_set_entities(f->ctx, f->a, BW_STR("[]")), BW_OK);
    assert_int_equal(permitted(f, &ana_asks), CLASSES);
    assert_int_equal(f->listed, 5);
    assert_int_equal(f->read, CLASSES); /* a class is prepared once */
    f->directory.version = f->version = 0; /* a list without a version */
    (void)permitted(f, &ana_asks);
    (void)permitted(f, &ana_asks);
    assert_int_equal(f->listed, 7);
}

/* The list moved on between its version and itself: kept under what it is. */
static void test_permitted__of_a_list_that_moved_on_is_kept_under_its_own_version(void **state)
{
    fixture *f = *state;
    f->version = 9;
    assert_int_equal(permitted(f, &ana_asks), f->nlow);
    assert_int_equal(permitted(f, &ana_asks), f->nlow); /* under 7 there is nothing */
    assert_int_equal(f->listed, 2);
    f->directory.version = 9;
    assert_int_equal(permitted(f, &ana_asks), f->nlow);
    assert_int_equal(f->listed, 2);
}

/* A label text under another class's id would give that class's rights to it. */
static void test_decision__refuses_a_text_that_is_another_class_s(void **state)
{
    fixture *f = *state;
    const bw_decision *d;
    bw_authority_figures figures;
    size_t low = 0, high = 0;
    while (!f->low[low])
        low++;
    while (f->low[high])
        high++;
    assert_int_equal(bw_decision_acquire(f->ctx, f->a, &ana_asks, &f->ids[high], f->texts[low], &d), BW_OK);
    assert_true(!d->allow && d->nerrors == 1 && bw_str_is(d->errors[0], "undecidable"));
    bw_decision_release(d);
    assert_int_equal(bw_decision_acquire(f->ctx, f->a, &ana_asks, &f->ids[low], f->texts[low], &d), BW_OK);
    assert_true(d->allow && d->nerrors == 0);
    bw_decision_release(d);
    bw_authority_figures_get(f->a, &figures);
    assert_int_equal(figures.undecided, 1);
}

static void test_figures__count_policies_that_error(void **state)
{
    fixture *f = *state;
    const bw_decision *d;
    bw_authority_figures n;
    const bw_str text = bw_str_c(
        "@id(\"p\") permit (principal, action, resource is Bw::DataClass) when { principal.clearance + 9223372036854775807 > 0 };"
        "@id(\"q\") permit (principal, action, resource);"
        "@id(\"f\") forbid (principal, action, resource is Bw::DataClass) when { resource.sensitivity + 9223372036854775807 > 0 };");
    assert_int_equal(bw_authority_set_policies(f->ctx, f->a, text), BW_OK);
    for (size_t i = 0; i < CLASSES; i++) {
        assert_int_equal(bw_decision_acquire(f->ctx, f->a, &ana_asks, &f->ids[i], f->texts[i], &d), BW_OK);
        /* p is skipped, and said; f denies where it errors, and is named, else where it holds */
        assert_false(d->allow);
        assert_true(d->npolicies == 1 && bw_str_is(d->policies[0], "f"));
        bw_decision_release(d);
    }
    bw_authority_figures_get(f->a, &n);
    assert_int_equal(n.permits_errored, CLASSES);
    assert_int_equal(n.forbids_errored, CLASSES - CLASSES / 4); /* sensitivity 1 to 3 */
    assert_int_equal(n.decisions, CLASSES);
    assert_int_equal(permitted(f, &ana_asks), 0);
    bw_authority_figures_get(f->a, &n);
    assert_int_equal(n.permits_errored, CLASSES + 1); /* for every class alike: once a set */
    assert_int_equal(n.sets, 1);
}

static void test_state__is_of_one_snapshot(void **state)
{
    fixture *f = *state;
    bw_authority_state first, second, third;
    bw_authority_state_get(f->a, &first);
    assert_int_equal(bw_authority_set_policies(f->ctx, f->a, all), BW_OK);
    bw_authority_state_get(f->a, &second);
    assert_true(second.version > first.version);
    assert_string_not_equal(second.policies, first.policies);
    assert_string_equal(second.entities, first.entities);
    const bw_str tenant = bw_str_c("[{\"uid\":{\"type\":\"Bw::Tenant\",\"id\":\"acme\"},\"attrs\":{},\"parents\":[]}]"),
                 bad = bw_str_c("[{\"uid\":{\"type\":\"Bw::Tenant\",\"id\":\"acme\"},\"attrs\":{},\"parents\":[]},"
                                "{\"uid\":{\"type\":\"Bw::Tenant\",\"id\":\"b\"},\"attrs\":{\"x\":1},\"parents\":[]}]");
    assert_int_equal(bw_authority_check_entities(f->ctx, f->a, bad), BW_EINVALID);
    assert_int_equal(bw_authority_set_entities(f->ctx, f->a, bad), BW_EINVALID);
    assert_memory_equal(bw_ctx_pointer(f->ctx), "/1/", 3); /* into the operator's own list */
    assert_int_equal(bw_authority_check_entities(f->ctx, f->a, tenant), BW_OK);
    assert_int_equal(bw_authority_version(f->a), second.version);
    assert_int_equal(bw_authority_set_entities(f->ctx, f->a, tenant), BW_OK);
    bw_authority_state_get(f->a, &third);
    assert_true(third.version > second.version);
    assert_string_equal(third.policies, second.policies);
    assert_string_not_equal(third.entities, second.entities);
    bw_str text;
    assert_int_equal(bw_authority_entities_text(f->ctx, f->a, &text), BW_OK);
    assert_true(bw_str_eq(text, tenant));
}

/* ---- threads ---- */

/* Change number k is under way once begun >= k and acknowledged once acked >= k; the
 * rules after it allow all classes when k is odd, some when it is even. */
typedef struct race {
    fixture *f;
    _Atomic uint64_t begun, acked;
    _Atomic bool stop;
    _Atomic size_t asked, stale;
} race;

static bool fits(bool whole, uint64_t from, uint64_t to)
{
    for (uint64_t k = from; k <= to; k++)
        if ((k % 2 == 1) == whole)
            return true;
    return false;
}

static void *reader(void *arg)
{
    race *r = arg;
    fixture *f = r->f;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_directory directory = f->directory;
    size_t high = 0;
    while (f->low[high])
        high++;
    for (size_t i = 0; !atomic_load(&r->stop) || i < 50; i++) {
        const bw_permitted *p;
        const bw_decision *d;
        uint64_t from = atomic_load(&r->acked);
        bool good = bw_permitted_acquire(ctx, f->a, &ana_asks, &directory, &p) == BW_OK;
        uint64_t to = atomic_load(&r->begun);
        if (good) {
            bool whole = p->permit.n == CLASSES;
            good = (whole || p->permit.n == f->nlow) && fits(whole, from, to);
            bw_permitted_release(p);
        }
        from = atomic_load(&r->acked);
        good = good && bw_decision_acquire(ctx, f->a, &ana_asks, &f->ids[high], f->texts[high], &d) == BW_OK;
        to = atomic_load(&r->begun);
        if (good) {
            good = fits(d->allow, from, to);
            bw_decision_release(d);
        }
        atomic_fetch_add(&r->stale, !good);
        atomic_fetch_add(&r->asked, 1);
        bw_ctx_reset(ctx);
    }
    bw_ctx_free(ctx);
    return NULL;
}

static bw_status still_list(void *user, bw_ctx *ctx, const bw_class_id **classes, size_t *n, uint64_t *version, uint8_t name[16])
{
    const fixture *f = user;
    (void)ctx;
    (void)name;
    *classes = f->ids;
    *n = f->n;
    *version = f->version;
    return BW_OK;
}

static bw_status still_text(void *user, bw_ctx *ctx, const bw_class_id *id, bw_str *out)
{
    const fixture *f = user;
    (void)ctx;
    for (size_t i = 0; i < CLASSES; i++)
        if (bw_class_id_cmp(id, &f->ids[i]) == 0)
            *out = f->texts[i];
    return BW_OK;
}

static void test_change__is_seen_by_whoever_asks_after_it(void **state)
{
    fixture *f = *state;
    race r = {.f = f};
    pthread_t threads[3];
    f->directory.list = still_list;
    f->directory.label_text = still_text;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reader, &r), 0);
    bool good = true;
    for (uint64_t k = 1; k <= 200 && good; k++) {
        atomic_store(&r.begun, k);
        good = bw_authority_set_policies(f->ctx, f->a, k % 2 ? all : some) == BW_OK;
        atomic_store(&r.acked, k);
        good = good && permitted(f, &ana_asks) == (k % 2 ? CLASSES : f->nlow);
    }
    atomic_store(&r.stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_true(good);
    assert_int_equal(atomic_load(&r.stale), 0);
    assert_true(atomic_load(&r.asked) >= 150);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_kept__are_found_without_heap),
        T(test_permitted__is_kept_by_question_rules_and_directory),
        T(test_permitted__of_a_list_that_moved_on_is_kept_under_its_own_version),
        T(test_decision__refuses_a_text_that_is_another_class_s),
        T(test_figures__count_policies_that_error),
        T(test_state__is_of_one_snapshot),
        T(test_change__is_seen_by_whoever_asks_after_it),
    };
    failing_set();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
