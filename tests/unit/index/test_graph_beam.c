/* The beam of a graph's walk against a sorted list: the same keys come out, in the same
 * order, as long as a beam of that size may take any. */
#include "engine/index/graph_beam.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { KEYS_MAX = 3000 };

static int by_key(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* What waits, rising; the least is taken from the front. */
typedef struct reference {
    uint64_t keys[KEYS_MAX];
    size_t head, n;
} reference;

static void reference_offer(reference *r, const uint64_t *keys, size_t m)
{
    for (size_t i = 0; i < m; i++) {
        size_t j = r->n++;
        for (; j > r->head && r->keys[j - 1] > keys[i]; j--)
            r->keys[j] = r->keys[j - 1];
        r->keys[j] = keys[i];
    }
}

static void keys_draw(rnd *r, uint64_t *keys, size_t m, uint64_t spread)
{
    for (size_t i = 0; i < m; i++)
        keys[i] = bw_graph_key((float)rnd_below(r, spread) - 3,
                               (uint32_t)rnd_below(r, 1000));
}

static void walk(rnd *r, reference *ref, size_t ef, uint64_t spread)
{
    uint64_t *mem = malloc(bw_graph_beam_room(ef) * sizeof *mem);
    assert_non_null(mem);
    bw_graph_beam b;
    bw_graph_beam_init(&b, mem, ef);
    ref->head = ref->n = 0;
    assert_true(bw_graph_beam_next(&b) == BW_GRAPH_KEY_NONE);
    for (size_t taken = 0; taken < ef;) {
        uint64_t keys[BW_GRAPH_LANES];
        const size_t m = rnd_below(r, BW_GRAPH_LANES + 1);
        if (ref->n + m <= KEYS_MAX) {
            keys_draw(r, keys, m, spread);
            reference_offer(ref, keys, m);
            bw_graph_beam_offer(&b, keys, m);
        }
        for (size_t pops = rnd_below(r, 4) + (ref->n + BW_GRAPH_LANES > KEYS_MAX); pops > 0; pops--) {
            const bool empty = ref->head == ref->n;
            assert_true(bw_graph_beam_next(&b) ==
                        (empty ? BW_GRAPH_KEY_NONE : ref->keys[ref->head]));
            if (empty || taken == ef) {
                taken = empty && ref->n + BW_GRAPH_LANES > KEYS_MAX ? ef : taken;
                break;
            }
            const uint64_t second = bw_graph_beam_second(&b);
            if (second != BW_GRAPH_KEY_NONE && taken + 1 < ef)
                assert_true(second == ref->keys[ref->head + 1]);
            bw_graph_beam_take(&b);
            ref->head++;
            taken++;
            assert_int_equal(b.left, ef - taken);
        }
    }
    free(mem);
}

static void test_order(void **state)
{
    (void)state;
    rnd r = rnd_start("test_graph_beam", 77);
    reference *ref = malloc(sizeof *ref);
    assert_non_null(ref);
    static const size_t efs[] = {1, 2, 15, 16, 17, 40, 200, 700};
    static const uint64_t spreads[] = {1, 3, 50, 100000};
    for (size_t e = 0; e < sizeof efs / sizeof *efs; e++)
        for (size_t s = 0; s < sizeof spreads / sizeof *spreads; s++)
            for (int i = 0; i < 3; i++)
                walk(&r, ref, efs[e], spreads[s]);
    free(ref);
}

static void test_keys(void **state)
{
    (void)state;
    static const float rising[] = {-INFINITY, -2, -1e-30f, 0, 1e-30f, 1, 1.5f, INFINITY};
    const size_t n = sizeof rising / sizeof *rising;
    for (size_t i = 0; i < n; i++) {
        assert_true(bw_graph_key_distance(bw_graph_key(rising[i], 9)) == rising[i]);
        assert_int_equal(bw_graph_key_node(bw_graph_key(rising[i], 9)), 9);
        if (i > 0)
            assert_true(bw_graph_key(rising[i - 1], 5) < bw_graph_key(rising[i], 4));
    }
    assert_true(bw_graph_key(1, 4) < bw_graph_key(1, 5));
}

static void test_select(void **state)
{
    (void)state;
    rnd r = rnd_start("test_graph_beam", 78);
    uint64_t keys[300], sorted[300];
    for (int round = 0; round < 500; round++) {
        const size_t n = 2 + rnd_below(&r, 298), m = 1 + rnd_below(&r, n - 1);
        const uint64_t spread = round % 3 ? 1000000 : 4; /* many are equal */
        for (size_t i = 0; i < n; i++)
            keys[i] = round % 5 == 4 ? i : rnd_below(&r, spread);
        memcpy(sorted, keys, n * sizeof *keys);
        qsort(sorted, n, sizeof *sorted, by_key);
        bw_graph_keys_select(keys, n, m);
        qsort(keys, m, sizeof *keys, by_key);
        qsort(keys + m, n - m, sizeof *keys, by_key);
        assert_memory_equal(keys, sorted, n * sizeof *keys);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
