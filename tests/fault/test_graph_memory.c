/* Building, searching, saving and loading a graph with the n-th allocation failing, once
 * and for good: BW_OK or BW_ENOMEM, nothing half made, nothing left behind. */
#include "engine/index/graph.h"
#include "failing_alloc.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N = 150, DIM = 5, K = 5, STEPS = 90 };

typedef struct fixture {
    float rows[N * DIM];
    bw_point_id ids[N];
    bw_bitmap allowed;
    uint64_t words[(N + 63) / 64];
} fixture;

static bw_status search(fixture *f, bw_ctx *ctx, const bw_index *ix)
{
    bw_candidate items[K];
    bw_topk t;
    bw_topk_init(&t, items, K);
    const bw_rows rows = {.dim = DIM, .n = N, .data = f->rows};
    const bw_index_search s = {.query = f->rows,
                               .k = K,
                               .effort = 16,
                               .allowed = &f->allowed,
                               .ids = f->ids,
                               .rows = &rows};
    const bw_status st = ix->ops->search(ctx, ix, &s, &t);
    assert_true(st != BW_OK || t.n == K);
    return st;
}

static void step(void *arg)
{
    fixture *f = arg;
    const long before = failing_live;
    const bw_index_params p = {
        .metric = BW_METRIC_EUCLID, .dim = DIM, .ef_construction = 20, .seed = 1};
    const bw_rows rows = {.dim = DIM, .n = N, .data = f->rows};
    const bw_index_ops *ops = bw_index_kind("graph");
    bw_index *ix = NULL, *again = NULL;
    bw_buf x = {0};
    bw_ctx *ctx = bw_ctx_new(0);
    if (!ctx)
        return;
    bw_status st = ops->build(ctx, &p, &rows, &ix);
    assert_true((st == BW_OK) == (ix != NULL));
    if (st == BW_OK)
        st = search(f, ctx, ix);
    if (st == BW_OK)
        st = ops->save(ctx, ix, &x);
    if (st == BW_OK) {
        st = ops->load(ctx, &p, x.ptr, x.len, &again);
        assert_true((st == BW_OK) == (again != NULL));
    }
    if (st == BW_OK)
        st = search(f, ctx, again);
    assert_true(st == BW_OK || (failing_hit && st == BW_ENOMEM));
    ops->free(ix);
    ops->free(again);
    bw_buf_clear(&x);
    bw_ctx_free(ctx);
    assert_int_equal(failing_live, before);
}

static void test_graph_memory__every_allocation_may_fail(void **state)
{
    (void)state;
    static fixture f;
    rnd r = rnd_start("test_graph_memory", 3);
    for (size_t i = 0; i < N * DIM; i++)
        f.rows[i] = (float)rnd_gauss(&r);
    memcpy(f.rows + 9 * DIM, f.rows, 2 * DIM * sizeof *f.rows); /* tables of rows too */
    f.allowed = (bw_bitmap){f.words, N};
    bw_bitmap_fill(&f.allowed);
    bw_log_set_level(BW_LOG_ERROR);
    /* Every one of the first, which hold the long-lived ones; then with growing strides,
     * since tuning's searches allocate thousands of times, always the same way. */
    for (int lasts = 0; lasts < 2; lasts++) {
        long runs = 0;
        bool hit = true;
        for (long n = 0; hit; n += n < STEPS ? 1 : n / 4, runs++) {
            failing_arm(n, lasts == 1);
            step(&f);
            hit = failing_hit;
            failing_arm(-1, false);
        }
        print_message("clean after %ld runs\n", runs);
        assert_true(runs > STEPS);
    }
}

int main(void)
{
    failing_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_memory__every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
