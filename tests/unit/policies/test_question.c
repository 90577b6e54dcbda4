/* Fingerprints tell every two questions apart; the cache gives back what it was given. */
#include <policies/decision_cache.h>

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

static void test_question_fingerprint__tells_every_field_apart(void **state)
{
    (void)state;
    enum { N = 26 };
    bw_fingerprint f[N], again;
    variant v;
    for (int i = 0; i < N; i++) {
        variant_make(&v, i);
        bw_question__fingerprint(&v.q, v.version, v.reads_now, &f[i]);
        bw_question__fingerprint(&v.q, v.version, v.reads_now, &again);
        assert_memory_equal(&f[i], &again, sizeof again);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(&f[i], &f[k], sizeof f[i]);
    }
    /* time that no policy reads does not count; long texts do, to the last byte */
    variant_make(&v, 0);
    v.q.now_ns = 99;
    bw_question__fingerprint(&v.q, v.version, v.reads_now, &again);
    assert_memory_equal(&f[0], &again, sizeof again);
    static char text[5000];
    memset(text, 'x', sizeof text);
    for (size_t n = 200; n < sizeof text; n += 997) {
        v.q.purpose = (bw_str){text, n};
        bw_question__fingerprint(&v.q, 1, false, &f[0]);
        text[n - 1] = 'y';
        bw_question__fingerprint(&v.q, 1, false, &f[1]);
        assert_memory_not_equal(&f[0], &f[1], sizeof f[0]);
    }
    bw_class_id a, b;
    bw_object__fingerprint("Collection", BW_STR("ab"), BW_STR("c"), &a);
    bw_object__fingerprint("Collection", BW_STR("a"), BW_STR("bc"), &b);
    assert_true(bw_class_id_cmp(&a, &b) != 0);
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

static void key_of(uint32_t i, bw_fingerprint *q, bw_class_id *r)
{
    crypto_generichash(q->bytes, 32, (unsigned char *)&i, sizeof i, NULL, 0);
    i ^= 0x55555555;
    crypto_generichash(r->bytes, 32, (unsigned char *)&i, sizeof i, NULL, 0);
}

static void test_decision_cache__is_bounded_and_never_wrong(void **state)
{
    (void)state;
    bw_decision_cache *c = bw_decision_cache__new();
    bw_ctx *ctx = bw_ctx_new(0);
    bw_fingerprint q;
    bw_class_id r;
    bw_verdict v;
    assert_non_null(c);
    for (uint32_t i = 0; i < 150000; i++) { /* more than twice what it holds */
        uint32_t policies[3] = {i, i + 1, i + 2};
        key_of(i, &q, &r);
        bw_decision_cache__put(c, &q, &r, &(bw_verdict){i % 3 == 0, i % 3, i % 2, policies});
        assert_true(bw_decision_cache__get(c, NULL, &q, &r, &v) && v.allow == (i % 3 == 0));
    }
    size_t kept = 0;
    for (uint32_t i = 0; i < 150000; i++) {
        key_of(i, &q, &r);
        if (!bw_decision_cache__get(c, ctx, &q, &r, &v))
            continue;
        kept++;
        assert_int_equal(v.allow, i % 3 == 0);
        assert_true(v.nreasons == i % 3 && v.nerrors == i % 2);
        for (uint32_t k = 0; k < v.nreasons + v.nerrors; k++)
            assert_int_equal(v.policies[k], i + k);
        bw_ctx_reset(ctx);
    }
    assert_true(kept > 50000 && kept <= 65536);
    key_of(149999, &q, &r);
    q.bytes[31] ^= 1; /* the whole key counts, not its hash */
    assert_false(bw_decision_cache__get(c, ctx, &q, &r, &v));
    q.bytes[31] ^= 1;
    r.bytes[31] ^= 1;
    assert_false(bw_decision_cache__get(c, ctx, &q, &r, &v));
    r.bytes[31] ^= 1;
    assert_true(bw_decision_cache__get(c, ctx, &q, &r, &v));
    bw_decision_cache__put(c, &q, &r, &(bw_verdict){.allow = true}); /* again: replaces */
    assert_true(bw_decision_cache__get(c, ctx, &q, &r, &v) && v.allow && v.nreasons == 0);
    bw_decision_cache__empty(c);
    assert_false(bw_decision_cache__get(c, ctx, &q, &r, &v));
    bw_decision_cache__free(c);
    bw_decision_cache__free(NULL);
    bw_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_question_fingerprint__tells_every_field_apart),
        cmocka_unit_test(test_action__names_read_back),
        cmocka_unit_test(test_decision_cache__is_bounded_and_never_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
