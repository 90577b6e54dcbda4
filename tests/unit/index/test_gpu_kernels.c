/* The GPU module's answers against the CPU's, bit by bit. Without an argument the module's
 * own source runs on the CPU (tests/support/emulated/), with every access checked and the
 * tensor unit's sums as bad as the bound allows. With the argument `device` the module that
 * was built runs on the first GPU; 77, skipped, where there is none. */
#include "engine/index/gpu_load.h"
#include "gpu_world.h"

#include <stdio.h>

/* tests/support/emulated/cuda_runtime.h */
struct emu_control {
    int devices, major, driver, eager, polls;
    long alloc_fails;
    int lost, wrong_sums;
    size_t live;
};
extern struct emu_control emu_control;
bw_gpu_module_fn bw_gpu_emulated_get;

static const bw_gpu_module *m;
static bool on_device;

static const bw_gpu_options small = {0, 0, 24 << 20, 4 << 20};

static bw_gpu *open_gpu(const bw_gpu_options *o)
{
    bw_gpu *gpu = NULL;
    char text[BW_GPU_TEXT_MAX];
    uint32_t reason;
    if (m->open(o, &gpu, &reason, text) != BW_GPU_OK)
        fail_msg("%s: %s", bw_gpu_reason_text(reason), text);
    return gpu;
}

static int reset(void **state)
{
    (void)state;
    emu_control = (struct emu_control){1, 8, 13000, 0, 0, 0, 0, 0, emu_control.live};
    return 0;
}

/* ---- answers ---- */

static void test_gpu__answers_equal_the_cpu(void **state)
{
    (void)state;
    static const uint32_t dims[] = {1, 7, 16, 33, 64, 100, 161};
    static const bw_metric metrics[] = {BW_METRIC_COSINE, BW_METRIC_DOT, BW_METRIC_EUCLID};
    rnd r = rnd_start("test_gpu_kernels", 11);
    bw_gpu *gpu = open_gpu(&small);
    const int rounds = on_device ? 300 : 12;
    for (int i = 0; i < rounds; i++) {
        world w;
        const bw_dtype dtype = (bw_dtype)(i % 4);
        const bw_metric metric = metrics[i / 4 % 3];
        const uint32_t dim = dims[rnd_below(&r, 7)];
        const uint32_t nq = (uint32_t)(i % 5 == 4 ? 66 + rnd_below(&r, 20) : 1 + rnd_below(&r, 20));
        const uint32_t k = (uint32_t)(1 + rnd_below(&r, i % 3 == 0 ? 200 : 12));
        emu_control.eager = i % 2;
        world_make(&r, &w, dtype, metric, dim, nq, on_device ? 20000 : 300, 1);
        world_upload(m, gpu, &w);
        assert_int_equal(world_run(m, gpu, &w, k), 0);
        world_drop(m, gpu, &w);
        world_clear(&w);
    }
    m->close(gpu);
}

/* Lengths over 60 orders of ten: f32 alone holds them. Rows beyond the bound's range are
 * always rescored; what is covered is right, and queries out of range say so. */
static void test_gpu__huge_and_tiny_rows_are_never_wrong(void **state)
{
    (void)state;
    rnd r = rnd_start("test_gpu_kernels", 12);
    bw_gpu *gpu = open_gpu(&small);
    for (int i = 0; i < 8; i++) {
        world w;
        world_make(&r, &w, i % 2 ? BW_DTYPE_BF16 : BW_DTYPE_F32, i / 2 % 2 ? BW_METRIC_EUCLID : BW_METRIC_DOT, 20, 9,
                   300, 1);
        for (uint32_t s = 0; s < WORLD_SEGMENTS; s++) {
            for (size_t row = 0; row < w.segment_rows[s]; row++) {
                const float by = ldexpf(1, (int)rnd_below(&r, 100) - 50);
                for (size_t j = 0; j < w.dim; j++)
                    w.decoded[s][row * w.dim + j] *= rnd_below(&r, 30) == 0 ? 0 : by;
            }
            assert_true(bw_encode_rows(w.dtype, w.decoded[s], w.segment_rows[s], w.dim, w.rows[s], w.scales[s]));
            bw_decode_rows(w.dtype, w.rows[s], w.scales[s], w.segment_rows[s], w.dim, w.decoded[s]);
        }
        for (size_t j = 0; j < w.dim; j++) {
            w.queries[j] = 0;               /* no direction at all */
            w.queries[w.dim + j] *= 1e25f;  /* beyond 2^40 */
        }
        world_upload(m, gpu, &w);
        const uint32_t open = world_run(m, gpu, &w, 5);
        assert_in_range(open, 1, 2);
        world_drop(m, gpu, &w);
        world_clear(&w);
    }
    m->close(gpu);
}

/* All rows alike: every group ties. Widened to all of them the answer is still whole. */
static void test_gpu__ties_come_back_whole_or_not_at_all(void **state)
{
    (void)state;
    rnd r = rnd_start("test_gpu_kernels", 13);
    bw_gpu *gpu = open_gpu(&small);
    for (int d = 0; d < 4; d++) {
        world w;
        world_make(&r, &w, (bw_dtype)d, BW_METRIC_EUCLID, 48, 3, 400, 1);
        for (uint32_t s = 0; s < WORLD_SEGMENTS; s++) {
            for (size_t i = 0; i < (size_t)w.segment_rows[s] * w.dim; i++)
                w.decoded[s][i] = (float)(i % w.dim) / 64;
            assert_true(bw_encode_rows(w.dtype, w.decoded[s], w.segment_rows[s], w.dim, w.rows[s], w.scales[s]));
            bw_decode_rows(w.dtype, w.rows[s], w.scales[s], w.segment_rows[s], w.dim, w.decoded[s]);
        }
        world_upload(m, gpu, &w);
        const bw_gpu_batch b = {w.queries, w.nq, 1, 4, 1, w.nitems, w.nreads, w.gpu_items, w.reads};
        bw_gpu_ticket *t;
        bw_gpu_result res;
        assert_int_equal(m->launch(gpu, &b, &t), BW_GPU_OK);
        assert_int_equal(m->wait(gpu, t, 0, &res), BW_GPU_OK);
        for (uint32_t q = 0; q < w.nq; q++)
            if (res.answers[q].ties > 1)
                assert_int_equal(res.answers[q].flags & BW_GPU_COVERED, 0);
        m->release(gpu, t);
        assert_int_equal(world_run(m, gpu, &w, 1), 0);
        world_drop(m, gpu, &w);
        world_clear(&w);
    }
    m->close(gpu);
}

/* Rows that differ from one another by less than the first pass can tell, over far more
 * groups than k: only the bound leads to the right ones. */
static void test_gpu__finds_the_best_among_nearly_equal_rows(void **state)
{
    (void)state;
    rnd r = rnd_start("test_gpu_kernels", 18);
    bw_gpu *gpu = open_gpu(&small);
    for (int i = 0; i < 4; i++) {
        world w;
        const bw_dtype dtype = i < 2 ? BW_DTYPE_F32 : i == 2 ? BW_DTYPE_BF16 : BW_DTYPE_I8;
        const float step = dtype == BW_DTYPE_F32 ? 0x1p-14f : dtype == BW_DTYPE_BF16 ? 0x1p-8f : 0x1p-6f;
        world_make(&r, &w, dtype, i % 2 ? BW_METRIC_EUCLID : BW_METRIC_DOT, 96, 6, 900, 1);
        for (uint32_t s = 0; s < WORLD_SEGMENTS; s++) {
            for (size_t j = 0; j < (size_t)w.segment_rows[s] * w.dim; j++)
                w.decoded[s][j] = (float)(j % w.dim % 7 + 1) / 8 * (1 + step * (float)rnd_gauss(&r));
            assert_true(bw_encode_rows(w.dtype, w.decoded[s], w.segment_rows[s], w.dim, w.rows[s], w.scales[s]));
            bw_decode_rows(w.dtype, w.rows[s], w.scales[s], w.segment_rows[s], w.dim, w.decoded[s]);
        }
        world_upload(m, gpu, &w);
        assert_int_equal(world_run(m, gpu, &w, 2), 0);
        world_drop(m, gpu, &w);
        world_clear(&w);
    }
    m->close(gpu);
}

/* A workspace for few queries at a time: the batch is cut, the answers stay. One too small
 * for a single query is out of memory. */
static void test_gpu__cuts_a_batch_that_is_too_large(void **state)
{
    (void)state;
    rnd r = rnd_start("test_gpu_kernels", 14);
    world w;
    world_make(&r, &w, BW_DTYPE_F16, BW_METRIC_COSINE, 32, 30, 300, 1);
    const bw_gpu_options tight = {0, 0, 128 << 10, 1 << 20}, none = {0, 0, 4 << 10, 1 << 20};
    bw_gpu *gpu = open_gpu(&tight);
    world_upload(m, gpu, &w);
    assert_int_equal(world_run(m, gpu, &w, 7), 0);
    m->close(gpu);
    gpu = open_gpu(&none);
    world_upload(m, gpu, &w);
    const bw_gpu_batch b = {w.queries, w.nq, 7, 0, 0, w.nitems, w.nreads, w.gpu_items, w.reads};
    bw_gpu_ticket *t = NULL;
    assert_int_equal(m->launch(gpu, &b, &t), BW_GPU_NOMEM);
    assert_null(t);
    m->close(gpu);
    world_clear(&w);
}

/* ---- the edge: misuse, order of frees, faults ---- */

static void test_gpu__refuses_what_breaks_the_rules(void **state)
{
    (void)state;
    rnd r = rnd_start("test_gpu_kernels", 15);
    world w;
    world_make(&r, &w, BW_DTYPE_F16, BW_METRIC_DOT, 8, 2, 100, 1);
    bw_gpu *gpu = open_gpu(&small);
    world_upload(m, gpu, &w);
    const bw_gpu_batch good = {w.queries, w.nq, 3, 0, 0, w.nitems, w.nreads, w.gpu_items, w.reads};
    bw_gpu_ticket *t = NULL;
    bw_gpu_batch b = good;
    b.k = 0;
    assert_int_equal(m->launch(gpu, &b, &t), BW_GPU_INVALID);
    b = good;
    b.nq = BW_GPU_BATCH_MAX + 1;
    assert_int_equal(m->launch(gpu, &b, &t), BW_GPU_INVALID);
    b = good;
    b.nreads = 0;
    assert_int_equal(m->launch(gpu, &b, &t), BW_GPU_INVALID);
    w.gpu_items[0].row0 += 1;
    assert_int_equal(m->launch(gpu, &good, &t), BW_GPU_INVALID);
    w.gpu_items[0].row0 -= 1;
    w.gpu_items[0].rows = 1 << 20;
    assert_int_equal(m->launch(gpu, &good, &t), BW_GPU_INVALID);
    w.gpu_items[0].rows = w.items[0].rows;
    w.reads[0].query = 2;
    assert_int_equal(m->launch(gpu, &good, &t), BW_GPU_INVALID);
    assert_true(m->last_error(gpu)[0] != 0);
    assert_null(t);
    bw_gpu_segment *s = NULL;
    bw_gpu_shape shape = {BW_GPU_F16, 8, BW_METRIC_MANHATTAN, 32};
    assert_int_equal(m->segment_new(gpu, &shape, &s), BW_GPU_UNSUPPORTED);
    shape = (bw_gpu_shape){BW_GPU_F16, 8, BW_METRIC_DOT, 31};
    assert_int_equal(m->segment_new(gpu, &shape, &s), BW_GPU_INVALID);
    assert_int_equal(m->segment_write(gpu, w.segments[0], (w.segment_rows[0] + 31) / 32 * 32, w.rows[0], NULL, 1),
                     BW_GPU_INVALID);
    m->close(gpu);
    world_clear(&w);
}

static void test_gpu__frees_what_a_batch_reads_when_it_ends(void **state)
{
    (void)state;
    if (on_device)
        skip();
    rnd r = rnd_start("test_gpu_kernels", 16);
    world w;
    world_make(&r, &w, BW_DTYPE_I8, BW_METRIC_DOT, 40, 4, 100, 1);
    bw_gpu *gpu = open_gpu(&small);
    const size_t before = emu_control.live;
    world_upload(m, gpu, &w);
    const size_t with = emu_control.live;
    const bw_gpu_batch b = {w.queries, w.nq, 3, 0, 64, w.nitems, w.nreads, w.gpu_items, w.reads};
    bw_gpu_ticket *one = NULL, *two = NULL, *three = NULL;
    bw_gpu_result res;
    emu_control.polls = 3; /* nothing is ready at once */
    assert_int_equal(m->launch(gpu, &b, &one), BW_GPU_OK);
    assert_int_equal(m->launch(gpu, &b, &two), BW_GPU_OK);
    assert_int_equal(m->launch(gpu, &b, &three), BW_GPU_AGAIN);
    assert_int_equal(m->poll(gpu, one, &res), BW_GPU_AGAIN);
    world_drop(m, gpu, &w);
    assert_int_equal(emu_control.live, with);
    assert_int_equal(m->wait(gpu, one, 1000000000, &res), BW_GPU_OK);
    for (uint32_t q = 0; q < w.nq; q++)
        if (res.answers[q].flags == BW_GPU_COVERED)
            world_check(&w, q, 3, &res.answers[q], res.hits + (size_t)q * res.hits_max);
    m->release(gpu, one);
    assert_int_equal(emu_control.live, with);
    m->release(gpu, two); /* still running: left to itself */
    assert_int_equal(emu_control.live, with);
    emu_control.polls = 0;
    assert_int_equal(m->launch(gpu, &b, &three), BW_GPU_INVALID); /* what was freed */
    assert_int_equal(m->wipe(gpu), BW_GPU_OK);
    m->close(gpu);
    assert_true(emu_control.live < before);
    assert_int_equal(emu_control.live, 0);
    world_clear(&w);
}

/* Every allocation fails once: the call says so, and all is as before. */
static void test_gpu__out_of_memory_leaves_all_as_it_was(void **state)
{
    (void)state;
    if (on_device)
        skip();
    char text[BW_GPU_TEXT_MAX];
    uint32_t reason = 0;
    bw_gpu *gpu = NULL;
    long n = 1;
    for (; gpu == NULL && n < 100; n++) {
        emu_control.alloc_fails = n;
        const bw_gpu_status s = m->open(&small, &gpu, &reason, text);
        assert_int_equal(s, gpu ? BW_GPU_OK : BW_GPU_NOMEM);
        assert_int_equal(reason, gpu ? BW_GPU_READY : BW_GPU_FULL);
        if (!gpu)
            assert_int_equal(emu_control.live, 0);
    }
    assert_in_range(n, 5, 50);
    const size_t held = emu_control.live;
    const bw_gpu_shape shape = {BW_GPU_F32, 10, BW_METRIC_DOT, 64};
    const uint64_t words[1] = {5};
    bw_gpu_segment *s = NULL;
    bw_gpu_bits *bits = NULL;
    emu_control.alloc_fails = 1;
    assert_int_equal(m->segment_new(gpu, &shape, &s), BW_GPU_NOMEM);
    emu_control.alloc_fails = 1;
    assert_int_equal(m->bits_new(gpu, words, 3, &bits), BW_GPU_NOMEM);
    assert_true(s == NULL && bits == NULL);
    assert_int_equal(emu_control.live, held);
    assert_int_equal(m->segment_new(gpu, &shape, &s), BW_GPU_OK);
    assert_int_equal(emu_control.live - held, m->segment_bytes(&shape));
    m->close(gpu);
    assert_int_equal(emu_control.live, 0);
}

static void test_gpu__a_lost_device_stays_lost(void **state)
{
    (void)state;
    if (on_device)
        skip();
    rnd r = rnd_start("test_gpu_kernels", 17);
    world w;
    world_make(&r, &w, BW_DTYPE_F16, BW_METRIC_DOT, 8, 2, 60, 1);
    bw_gpu *gpu = open_gpu(&small);
    world_upload(m, gpu, &w);
    const bw_gpu_batch b = {w.queries, w.nq, 3, 0, 0, w.nitems, w.nreads, w.gpu_items, w.reads};
    bw_gpu_ticket *t = NULL, *t2 = NULL;
    bw_gpu_result res;
    assert_int_equal(m->launch(gpu, &b, &t), BW_GPU_OK);
    emu_control.lost = 1;
    assert_int_equal(m->wait(gpu, t, 0, &res), BW_GPU_LOST);
    emu_control.lost = 0; /* the context does not come back */
    assert_int_equal(m->launch(gpu, &b, &t2), BW_GPU_LOST);
    assert_int_equal(m->poll(gpu, t, &res), BW_GPU_LOST);
    m->release(gpu, t);
    world_drop(m, gpu, &w);
    m->close(gpu);
    world_clear(&w);
    emu_control.live = 0; /* the dead context kept it */
}

static void test_gpu__says_why_a_device_is_not_used(void **state)
{
    (void)state;
    if (on_device)
        skip();
    static bw_gpu_probe p;
    bw_gpu *gpu = NULL;
    char text[BW_GPU_TEXT_MAX];
    uint32_t reason = 0;
    m->probe(&p);
    assert_int_equal(p.reason, BW_GPU_READY);
    emu_control.devices = 0;
    m->probe(&p);
    assert_int_equal(p.reason, BW_GPU_NO_DEVICE);
    emu_control.devices = 1;
    emu_control.driver = 12080;
    m->probe(&p);
    assert_int_equal(p.reason, BW_GPU_OLD_DRIVER);
    assert_non_null(strstr(p.text, "12.8"));
    emu_control.driver = 13000;
    emu_control.major = 7;
    m->probe(&p);
    assert_int_equal(p.reason, BW_GPU_OLD_DEVICE);
    assert_int_equal(p.devices[0].reason, BW_GPU_OLD_DEVICE);
    assert_int_equal(m->open(&small, &gpu, &reason, text), BW_GPU_LOST);
    assert_int_equal(reason, BW_GPU_OLD_DEVICE);
    emu_control.major = 9;
    emu_control.wrong_sums = 1;
    assert_int_equal(m->open(&small, &gpu, &reason, text), BW_GPU_LOST);
    assert_int_equal(reason, BW_GPU_ARITHMETIC);
    assert_int_equal(emu_control.live, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_gpu__answers_equal_the_cpu, reset),
        cmocka_unit_test_setup(test_gpu__huge_and_tiny_rows_are_never_wrong, reset),
        cmocka_unit_test_setup(test_gpu__ties_come_back_whole_or_not_at_all, reset),
        cmocka_unit_test_setup(test_gpu__finds_the_best_among_nearly_equal_rows, reset),
        cmocka_unit_test_setup(test_gpu__cuts_a_batch_that_is_too_large, reset),
        cmocka_unit_test_setup(test_gpu__refuses_what_breaks_the_rules, reset),
        cmocka_unit_test_setup(test_gpu__frees_what_a_batch_reads_when_it_ends, reset),
        cmocka_unit_test_setup(test_gpu__out_of_memory_leaves_all_as_it_was, reset),
        cmocka_unit_test_setup(test_gpu__a_lost_device_stays_lost, reset),
        cmocka_unit_test_setup(test_gpu__says_why_a_device_is_not_used, reset),
    };
    m = bw_gpu_emulated_get(BW_GPU_ABI);
    if (argc > 1 && strcmp(argv[1], "device") == 0) {
        static bw_gpu_probe p;
        char text[BW_GPU_TEXT_MAX];
        uint32_t reason;
        m = bw_gpu_load_from(BW_BINARY, &reason, text);
        if (m)
            m->probe(&p);
        if (!m || p.reason != BW_GPU_READY) {
            printf("skipped: %s\n", m ? p.text : text);
            return 77;
        }
        on_device = true;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
