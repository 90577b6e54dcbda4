/* Top-k: one total order, whatever the order of pushing. */
#include "engine/kernels/topk.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N_MAX = 400, K_MAX = 64 };

static int by_order(const void *a, const void *b)
{
    return bw_candidate_cmp(a, b);
}

static void shuffle(rnd *r, bw_candidate *c, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        const size_t j = rnd_below(r, i);
        const bw_candidate t = c[i - 1];
        c[i - 1] = c[j];
        c[j] = t;
    }
}

/* Few distinct keys, ids and partitions, so that ties reach every level of the order.
 */
static size_t stream_make(rnd *r, bw_candidate *c)
{
    const size_t n = rnd_below(r, N_MAX);
    for (size_t i = 0; i < n; i++) {
        const uint64_t id = rnd_below(r, 30);
        c[i] = (bw_candidate){
            .key = rnd_below(r, 10) == 0 ? -0.0f : (float)rnd_below(r, 6) / 4 - 0.5f,
            .part = (uint32_t)rnd_below(r, 3),
            .row = (uint32_t)i,
            .id = {id % 2 ? id << 40 : 0, id, (uint32_t)(id % 2), 0},
        };
    }
    return n;
}

static void check_same(const bw_candidate *a, const bw_candidate *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(bw_candidate_cmp(&a[i], &b[i]), 0);
}

static void test_topk__order_of_pushing_never_matters(void **state)
{
    (void)state;
    rnd r = rnd_start("test_topk", 7);
    bw_candidate c[N_MAX], sorted[N_MAX], kept[K_MAX];
    for (int round = 0; round < 500; round++) {
        const size_t n = stream_make(&r, c), k = rnd_below(&r, K_MAX);
        memcpy(sorted, c, sizeof c);
        qsort(sorted, n, sizeof *sorted, by_order);
        for (int again = 0; again < 3; again++) {
            shuffle(&r, c, n);
            bw_topk t;
            bw_topk_init(&t, kept, k);
            for (size_t i = 0; i < n; i++) {
                const bool wants = bw_topk_wants(&t, c[i].key);
                const bw_candidate worst = t.n ? t.items[0] : c[i];
                bw_topk_push(&t, &c[i]);
                if (!wants && t.k) /* the quick test never turns a better one away */
                    assert_int_equal(bw_candidate_cmp(&worst, &t.items[0]), 0);
            }
            assert_int_equal(t.n, n < k ? n : k);
            bw_topk_sort(&t);
            check_same(kept, sorted, t.n);
        }
    }
}

/* Merging heaps of parts gives what one heap over everything gives. */
static void test_topk__merge_of_parts_equals_whole(void **state)
{
    (void)state;
    rnd r = rnd_start("test_topk", 11);
    bw_candidate c[N_MAX], whole[K_MAX], part[3][K_MAX], merged[K_MAX];
    for (int round = 0; round < 300; round++) {
        const size_t n = stream_make(&r, c), k = rnd_below(&r, K_MAX);
        bw_topk w, p[3], m;
        bw_topk_init(&w, whole, k);
        bw_topk_init(&m, merged, k);
        for (size_t s = 0; s < 3; s++)
            bw_topk_init(&p[s], part[s], k);
        for (size_t i = 0; i < n; i++) {
            bw_topk_push(&w, &c[i]);
            bw_topk_push(&p[c[i].part], &c[i]);
        }
        for (size_t s = 3; s-- > 0;)
            for (size_t i = 0; i < p[s].n; i++)
                bw_topk_push(&m, &p[s].items[i]);
        assert_int_equal(m.n, w.n);
        bw_topk_sort(&w);
        bw_topk_sort(&m);
        check_same(whole, merged, w.n);
    }
}

static void test_candidate__order_is_key_id_part_row(void **state)
{
    (void)state;
    const bw_point_id one = {0, 1, 0, 0}, two = {0, 2, 0, 0}, uuid = {0, 0, 1, 0};
    const bw_candidate sorted[] = {
        {2, 9, 9, uuid}, {1, 9, 9, one},  {1, 0, 3, two},         {1, 1, 2, two},
        {1, 1, 3, two},  {1, 0, 0, uuid}, {-INFINITY, 0, 0, one},
    };
    const size_t n = sizeof sorted / sizeof *sorted;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            const int c = bw_candidate_cmp(&sorted[i], &sorted[j]);
            assert_int_equal(c < 0 ? -1 : c > 0, i < j ? -1 : i > j);
        }
}

static void test_topk__capacity_zero_takes_nothing(void **state)
{
    (void)state;
    bw_topk t;
    bw_topk_init(&t, NULL, 0);
    const bw_candidate c = {1, 0, 0, {0, 1, 0, 0}};
    assert_false(bw_topk_wants(&t, 1));
    bw_topk_push(&t, &c);
    bw_topk_sort(&t);
    assert_int_equal(t.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_candidate__order_is_key_id_part_row),
        cmocka_unit_test(test_topk__order_of_pushing_never_matters),
        cmocka_unit_test(test_topk__merge_of_parts_equals_whole),
        cmocka_unit_test(test_topk__capacity_zero_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
