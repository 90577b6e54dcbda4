/* Keys tell every two questions apart; what is kept is bounded, fair and never another's. */
#include <policies/question.h>

#include <setjmp.h>
#include <sodium.h>
#include <cmocka.h>

typedef struct variant {
    bw_principal who;
    bw_place dest;
    bw_question q;
    uint64_t version;
    bool reads_now;
} variant;

static const bw_str ab[] = {{"a", 1}, {"b", 1}}, abc[] = {{"ab", 2}, {"c", 1}}, a_bc[] = {{"a", 1}, {"bc", 2}};

static void variant_make(variant *v, int which)
{
    *v = (variant){.who = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 3},
                   .dest = {.id = BW_STR("n"), .country = BW_STR("FR"), .operator_id = BW_STR("op")},
                   .q = {.action = BW_ACTION_STORE, .purpose = BW_STR("p"), .now_ns = 5000000},
                   .version = 1};
    v->q.principal = &v->who;
    switch (which) {
    case 1: v->who.id = BW_STR("anb"); break;
    case 2: v->who.id = BW_STR("anaa"), v->who.tenant = BW_STR("cme"); break; /* same bytes in a row */
    case 3: v->who.tenant = BW_STR("acmf"); break;
    case 4: v->who.seat = BW_STR("DE"); break;
    case 5: v->who.clearance = 4; break;
    case 6: v->who.roles = abc, v->who.nroles = 2; break;
    case 7: v->who.roles = a_bc, v->who.nroles = 2; break;
    case 8: v->who.roles = ab, v->who.nroles = 1; break;
    case 9: v->q.action = BW_ACTION_QUERY; break;
    case 10: v->q.purpose = BW_STR(""); break;
    case 11: v->q.safeguards = ab, v->q.nsafeguards = 1; break;
    case 12: v->q.safeguards = ab, v->q.nsafeguards = 2; break;
    case 13: v->q.dest = &v->dest; break;
    case 14: v->q.dest = &v->dest, v->dest.id = BW_STR("m"); break;
    case 15: v->q.dest = &v->dest, v->dest.country = BW_STR("DE"); break;
    case 16: v->q.dest = &v->dest, v->dest.operator_id = BW_STR("oq"); break;
    case 17: v->q.dest = &v->dest, v->dest.certs = ab, v->dest.ncerts = 1; break;
    case 18: v->q.dest = &v->dest, v->dest.hw = ab, v->dest.nhw = 1; break;
    case 19: v->version = 2; break;
    case 20: v->reads_now = true; break;
    case 21: v->reads_now = true, v->q.now_ns = 6000000; break;
    case 22: v->q.at = &v->dest; break; /* there is not the same as to there */
    case 23: v->q.at = &v->dest, v->dest.country = BW_STR("DE"); break;
    case 24: v->q.at = &v->dest, v->dest.certs = ab, v->dest.ncerts = 1; break;
    case 25: v->q.at = v->q.dest = &v->dest; break;
    default: break;
    }
}

static bool same(const bw_answer_key *a, const bw_answer_key *b)
{
    return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

static uint64_t stamp_of(const variant *v)
{
    return v->version << 1 | v->reads_now;
}

static void test_question_key__tells_every_field_apart(void **state)
{
    (void)state;
    enum { N = 26 };
    static bw_answer_key k[N], again;
    bw_class_id id = {{1}}, other = {{2}};
    const bw_topic topic = {.kind = BW_TOPIC_CLASS, .class_id = &id};
    variant v;
    for (int i = 0; i < N; i++) {
        variant_make(&v, i);
        bw_question__key(&v.q, &topic, stamp_of(&v), &k[i]);
        bw_question__key(&v.q, &topic, stamp_of(&v), &again);
        assert_true(same(&k[i], &again));
        assert_int_equal(k[i].hash, again.hash);
        for (int j = 0; j < i; j++)
            assert_false(same(&k[i], &k[j]));
    }
    /* time that no policy reads does not count */
    variant_make(&v, 0);
    v.q.now_ns = 99;
    bw_question__key(&v.q, &topic, stamp_of(&v), &again);
    assert_true(same(&k[0], &again));
    /* what it is about */
    const bw_topic topics[] = {topic,
                               {.kind = BW_TOPIC_CLASS, .class_id = &other},
                               {.kind = BW_TOPIC_CLASSES, .directory = 1},
                               {.kind = BW_TOPIC_CLASSES, .directory = 2},
                               {.kind = BW_TOPIC_NODE},
                               {.kind = BW_TOPIC_COLLECTION, .tenant = BW_STR("ab"), .name = BW_STR("c")},
                               {.kind = BW_TOPIC_COLLECTION, .tenant = BW_STR("a"), .name = BW_STR("bc")}};
    for (int i = 0; i < 7; i++) {
        bw_question__key(&v.q, &topics[i], 2, &k[i]);
        for (int j = 0; j < i; j++)
            assert_false(same(&k[i], &k[j]));
    }
}

/* A question longer than a key is hashed: to the last byte, and never like a short one. */
static void test_question_key__takes_questions_of_any_length(void **state)
{
    (void)state;
    static char text[5000];
    static bw_answer_key k, other;
    bw_class_id id = {{1}};
    const bw_topic topic = {.kind = BW_TOPIC_CLASS, .class_id = &id};
    variant v;
    variant_make(&v, 0);
    memset(text, 'x', sizeof text);
    for (size_t n = 1; n < sizeof text; n += 7) {
        v.q.purpose = (bw_str){text, n};
        bw_question__key(&v.q, &topic, 2, &k);
        assert_true(n < 300 ? k.n > n : n > BW_ANSWER_KEY_MAX ? k.n == 32 : k.n <= BW_ANSWER_KEY_MAX);
        text[n - 1] = 'y';
        bw_question__key(&v.q, &topic, 2, &other);
        assert_false(same(&k, &other));
        v.q.safeguards = ab; /* behind the long text */
        v.q.nsafeguards = 1;
        bw_question__key(&v.q, &topic, 2, &k);
        assert_false(same(&k, &other));
        v.q.nsafeguards = 0;
    }
}

static void test_action__names_read_back(void **state)
{
    (void)state;
    bw_action a;
    for (int i = 0; i < BW_ACTION_COUNT; i++)
        assert_true(bw_action_parse(bw_str_c(bw_action_name((bw_action)i)), &a) && (int)a == i);
    assert_false(bw_action_parse(BW_STR("query"), &a));
    assert_false(bw_action_parse(BW_STR(""), &a));
    assert_string_equal(bw_action_name((bw_action)99), "");
}

/* ---- what is kept ---- */

enum { BUDGET = 1 << 20 };

static void key_of(uint32_t i, uint64_t owner, bw_answer_key *k)
{
    k->owner = owner;
    k->n = 40;
    crypto_generichash(k->bytes, k->n, (unsigned char *)&i, sizeof i, NULL, 0);
    memcpy(&k->hash, k->bytes, sizeof k->hash);
}

typedef struct value {
    bw_kept head;
    uint32_t number;
} value;

static void put(bw_answers *c, const bw_answer_key *k, uint32_t number, size_t bytes)
{
    value *v = bw_alloc(bytes);
    bw_kept__init(&v->head, bytes);
    v->number = number;
    bw_answers__put(c, k, &v->head);
    bw_kept__release(&v->head);
}

static bool has(bw_answers *c, const bw_answer_key *k, uint32_t number)
{
    value *v = (value *)(void *)bw_answers__get(c, k);
    if (!v)
        return false;
    assert_int_equal(v->number, number);
    bw_kept__release(&v->head);
    return true;
}

static void test_answers__are_bounded_and_never_wrong(void **state)
{
    (void)state;
    bw_answers *c = bw_answers__new(BUDGET);
    static bw_answer_key k;
    bw_answers_figures f;
    for (uint32_t i = 0; i < 20000; i++) {
        key_of(i, i % 7, &k);
        put(c, &k, i, sizeof(value) + i % 300);
        bw_answers__figures(c, &f);
        assert_true(f.bytes <= BUDGET);
    }
    size_t kept = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        key_of(i, i % 7, &k);
        kept += has(c, &k, i);
    }
    assert_true(kept > 2000);
    key_of(19999, 19999 % 7, &k);
    assert_true(has(c, &k, 19999)); /* the newest is there */
    k.bytes[39] ^= 1; /* the whole key counts, not its hash */
    assert_false(has(c, &k, 19999));
    k.bytes[39] ^= 1;
    k.n--;
    assert_false(has(c, &k, 19999));
    k.n++;
    put(c, &k, 5, sizeof(value)); /* the first stays: equal keys have equal answers */
    assert_true(has(c, &k, 19999));
    value *held = (value *)(void *)bw_answers__get(c, &k);
    bw_answers__empty(c);
    assert_false(has(c, &k, 19999));
    assert_int_equal(held->number, 19999); /* who holds one keeps it */
    bw_kept__release(&held->head);
    bw_answers__figures(c, &f);
    assert_int_equal(f.bytes, 0);
    put(c, &k, 7, BUDGET + 1); /* larger than everything: not kept, no harm */
    assert_false(has(c, &k, 7));
    put(c, &k, 8, sizeof(value));
    assert_true(has(c, &k, 8));
    bw_answers__free(c);
}

/* A tenant that asks without end takes the room that is free, and then its own. */
static void test_answers__of_a_tenant_are_not_pushed_out_by_another(void **state)
{
    (void)state;
    bw_answers *c = bw_answers__new(BUDGET);
    static bw_answer_key k;
    bw_answers_figures f;
    for (uint32_t i = 0; i < 100; i++) {
        key_of(i, 1, &k);
        put(c, &k, i, 500);
    }
    for (uint32_t i = 1000; i < 30000; i++) {
        key_of(i, 2, &k);
        put(c, &k, i, 500);
    }
    bw_answers__figures(c, &f);
    assert_true(f.bytes > BUDGET * 9 / 10); /* no room is left unused for that */
    for (uint32_t i = 0; i < 100; i++) {
        key_of(i, 1, &k);
        assert_true(has(c, &k, i));
    }
    key_of(29999, 2, &k);
    assert_true(has(c, &k, 29999));
    key_of(1000, 2, &k);
    assert_false(has(c, &k, 1000));
    bw_answers__free(c);
}

/* What is asked for stays before what is not. */
static void test_answers__that_are_used_get_a_second_chance(void **state)
{
    (void)state;
    bw_answers *c = bw_answers__new(BUDGET);
    static bw_answer_key k;
    for (uint32_t i = 0; i < 20000; i++) {
        key_of(i, 3, &k);
        put(c, &k, i, 500);
        key_of(0, 3, &k);
        assert_true(has(c, &k, 0));
    }
    key_of(1, 3, &k);
    assert_false(has(c, &k, 1));
    bw_answers__free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_question_key__tells_every_field_apart),
        cmocka_unit_test(test_question_key__takes_questions_of_any_length),
        cmocka_unit_test(test_action__names_read_back),
        cmocka_unit_test(test_answers__are_bounded_and_never_wrong),
        cmocka_unit_test(test_answers__of_a_tenant_are_not_pushed_out_by_another),
        cmocka_unit_test(test_answers__that_are_used_get_a_second_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
