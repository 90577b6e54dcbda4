/* A cell with a GPU (the double) answers what a cell without one answers: growing and
 * sealed segments, deletes, several queries in a pass, and a device that goes. */
#include "engine_cell.h"
#include "gpu_double.h"
#include <engine/index/gpu_host.h>
#include <engine/index/gpu_load.h>
#include <engine/partition/part.h>
#include "rnd.h"

enum { DIM = 24, ROWS = 700, SEAL = 256, K = 12, NQ = 5 };

/* What explain tells of the same questions, wherever they are answered. */
static void told(cell *c, bw_snapshot *s, const float *queries, const bw_search_params *p,
                 bw_search_trace *t)
{
    bw_candidate items[NQ][K];
    bw_topk heaps[NQ];
    bw_dense_query qs[NQ];
    for (size_t i = 0; i < NQ; i++) {
        bw_topk_init(&heaps[i], items[i], K);
        qs[i] = (bw_dense_query){.query = queries + i * DIM, .p = p, .out = &heaps[i], .trace = t};
    }
    OK(bw_snapshot_search_many(c->ctx, s, qs, NQ));
}

static void one_round(cell *c, rnd *r, bool device)
{
    bw_gpu_host *gpu = NULL;
    bw_view v = cell_view(c, 1, 1);
    bw_snapshot *s = v.parts[0];
    const bw_bitmap *live = bw_snapshot_live(s);
    bw_candidate got[NQ][K], want[NQ][K];
    bw_topk a[NQ], b[NQ];
    float queries[NQ][DIM];
    bw_search_params p = {.k = K, .exact = true, .allowed = live, .part = 3};
    bw_search_trace ta = {0}, tb = {0};
    bw_dense_query qa[NQ], qb[NQ];
    for (int i = 0; i < NQ; i++) {
        for (int d = 0; d < DIM; d++)
            queries[i][d] = (float)rnd_gauss(r);
        bw_topk_init(&a[i], got[i], K);
        bw_topk_init(&b[i], want[i], K);
        qa[i] = (bw_dense_query){.query = queries[i], .p = &p, .out = &a[i]};
        qb[i] = (bw_dense_query){.query = queries[i], .p = &p, .out = &b[i], .trace = &tb};
    }
    OK(bw_snapshot_search_many(c->ctx, s, qa, NQ));
    told(c, s, &queries[0][0], &p, &ta);
    gpu = s->part->env->gpu;
    assert_int_equal(gpu != NULL, device);
    s->part->env->gpu = NULL;
    OK(bw_snapshot_search_many(c->ctx, s, qb, NQ));
    s->part->env->gpu = gpu;
    if (gpu)
        bw_gpu_host_settle(gpu);
    for (int i = 0; i < NQ; i++) {
        bw_topk_sort(&a[i]);
        bw_topk_sort(&b[i]);
        assert_int_equal(a[i].n, b[i].n);
        for (size_t j = 0; j < a[i].n; j++) {
            assert_int_equal(bw_candidate_cmp(&got[i][j], &want[i][j]), 0);
            assert_memory_equal(&got[i][j].key, &want[i][j].key, sizeof(float));
        }
    }
    assert_memory_equal(&ta, &tb, sizeof ta);
    bw_view_close(&v);
}

static void test_partition_gpu__answers_as_the_cpu(void **state)
{
    (void)state;
    cell own, *c = &own;
    rnd r = rnd_start("test_gpu", 3);
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    o.seal_rows = SEAL;
    o.exact_rows = SEAL / 2;
    o.graphs_first = true;
    o.gpu = true;
    gpu_double_reset(1, 64 << 20);
    bw_gpu_load_use(gpu_double_module());
    cell_init(c, &o);
    cell_collection(c, DIM, BW_METRIC_EUCLID, 1);
    for (uint64_t i = 0; i < ROWS; i += 70) {
        cell_upsert_range(c, 1, i, i + 70, DIM);
        cell_upsert_range(c, 1, i / 2, i / 2 + 9, DIM); /* ends rows of before: gaps */
        one_round(c, &r, true);
        one_round(c, &r, true);
    }
    assert_true(gpu_double_get().calls[GPU_DOUBLE_LAUNCH] > 0);
    assert_int_equal(cell_figure(c, "gpu_devices"), 1);
    assert_true(cell_figure(c, "gpu_batches") > 0 && cell_figure(c, "gpu_queries") > 0);
    assert_true(cell_figure(c, "gpu_segment_bytes") > 0 && cell_figure(c, "gpu_uploads") > 0);
    assert_true(cell_figure(c, "gpu_fallbacks") >= cell_figure(c, "gpu_fallbacks_absent"));
    assert_int_equal(cell_figure(c, "gpu_fallbacks_lost"), 0);
    cell_reopen(c);
    one_round(c, &r, true);
    one_round(c, &r, true);
    gpu_double_fail(GPU_DOUBLE_LAUNCH, 0, BW_GPU_LOST, false);
    one_round(c, &r, true);
    one_round(c, &r, true);
    assert_int_equal(cell_figure(c, "gpu_devices_lost"), 1);
    assert_true(cell_figure(c, "gpu_fallbacks_lost") > 0);
    assert_int_equal(cell_figure(c, "gpu_devices"), 0);
    cell_clear(c);
    const gpu_double_counts n = gpu_double_get();
    assert_int_equal(n.wrong + n.segments + n.bits + n.contexts, 0);
    bw_gpu_load_use(NULL);
}

static void test_partition_gpu__is_off_without_a_device(void **state)
{
    (void)state;
    cell own, *c = &own;
    rnd r = rnd_start("test_gpu", 4);
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    o.gpu = true;
    gpu_double_reset(0, 0);
    bw_gpu_load_use(gpu_double_module());
    cell_init(c, &o);
    cell_collection(c, DIM, BW_METRIC_DOT, 1);
    cell_upsert_range(c, 1, 0, 70, DIM);
    one_round(c, &r, false);
    assert_int_equal(cell_figure(c, "gpu_devices") + cell_figure(c, "gpu_fallbacks"), 0);
    cell_clear(c);
    bw_gpu_load_use(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partition_gpu__answers_as_the_cpu),
        cmocka_unit_test(test_partition_gpu__is_off_without_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
