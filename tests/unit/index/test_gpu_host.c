/* The host's side of GPU search against a module on the CPU (gpu_double.h): answers equal
 * the CPU's whatever the device does; forbidden blocks are never read; memory, bitsets
 * and batches by counts. Nothing is timed: the clock is the double's. */
#include "engine/index/gpu_host.h"
#include "engine/kernels/scan.h"
#include "gpu_double.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { NB = 6, DIM = 40, CAP = 3008, K_MAX = 300, NQ = 16, MEMORY = 64 << 20 };

typedef struct fixture {
    rnd r;
    bw_ctx *ctx;
    bw_gpu_host *host;
    bw_metric metric;
    uint32_t dim;
    bw_rows rows[NB];
    bw_point_id *ids[NB];
    uint64_t identity[NB];
    float *queries; /* NQ × DIM */
    bw_gpu_host_options o;
} fixture;

static atomic_int held; /* blocks that uploads hold */

static void hold(void *owner)
{
    (void)owner;
    atomic_fetch_add(&held, 1);
}

static void unhold(void *owner)
{
    (void)owner;
    atomic_fetch_sub(&held, 1);
}

static const size_t sizes[NB] = {1, 1024, CAP, 1500, 2048, 40};

/* Element 0 of a row tells its block, so that the double's reads can be judged. */
static void rows_make(fixture *f, int b, bw_dtype dtype)
{
    float *x = bw_alloc_vectors(CAP * f->dim * sizeof *x);
    void *data = bw_alloc_vectors(CAP * f->dim * sizeof(float));
    float *scales = bw_calloc(CAP, sizeof *scales);
    for (size_t i = 0; i < CAP; i++) {
        for (size_t d = 0; d < f->dim; d++)
            x[i * f->dim + d] = (float)rnd_gauss(&f->r);
        if (i > 0 && rnd_below(&f->r, 4) == 0) /* ties */
            memcpy(x + i * f->dim, x + rnd_below(&f->r, i) * f->dim, f->dim * sizeof *x);
        x[i * f->dim] = (float)(b + 1) / 8;
        if (f->metric == BW_METRIC_COSINE && dtype != BW_DTYPE_F32)
            bw_normalize_f32(x + i * f->dim, f->dim);
        f->ids[b][i] = (bw_point_id){0, rnd_below(&f->r, 1000) * NB * 4 + i % 4, 0, 0};
    }
    assert_true(bw_encode_rows(dtype, x, CAP, f->dim, data, scales));
    bw_free_vectors(x);
    if (dtype != BW_DTYPE_I8) {
        bw_free(scales);
        scales = NULL;
    }
    f->rows[b] = (bw_rows){.dtype = dtype, .dim = f->dim, .n = sizes[b], .data = data, .scales = scales};
    f->identity[b] = bw_gpu_identity();
}

static void rows_free(fixture *f)
{
    for (int b = 0; b < NB; b++) {
        bw_gpu_forget(f->identity[b]);
        bw_free_vectors((void *)(uintptr_t)f->rows[b].data);
        bw_free((void *)(uintptr_t)f->rows[b].scales);
        f->rows[b] = (bw_rows){0};
    }
}

static void host_open(fixture *f)
{
    f->o.module = gpu_double_module();
    f->o.clock = gpu_double_clock;
    if (!f->o.rows_min)
        f->o.rows_min = 1;
    assert_int_equal(bw_gpu_host_open(f->ctx, &f->o, &f->host), BW_OK);
    bw_gpu_host_settle(f->host);
}

static void start(fixture *f, uint32_t devices, uint64_t memory, bw_dtype dtype, bw_metric metric)
{
    gpu_double_reset(devices, memory);
    f->metric = metric;
    for (int b = 0; b < NB; b++)
        rows_make(f, b, dtype);
    for (size_t i = 0; i < NQ * f->dim; i++)
        f->queries[i] = (float)rnd_gauss(&f->r);
    host_open(f);
}

static void stop(fixture *f)
{
    bw_gpu_host_close(f->host);
    f->host = NULL;
    rows_free(f);
    const gpu_double_counts c = gpu_double_get();
    assert_int_equal(c.wrong, 0);
    assert_int_equal(c.segments + c.bits + c.tickets + c.contexts, 0);
    assert_int_equal(c.bytes, 0);
    assert_int_equal(atomic_load(&held), 0);
}

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    f->r = rnd_start("test_gpu_host", 11);
    f->ctx = bw_ctx_new(0);
    f->dim = DIM;
    f->queries = bw_alloc_vectors(NQ * DIM * sizeof(float));
    for (int b = 0; b < NB; b++)
        f->ids[b] = bw_calloc(CAP, sizeof *f->ids[b]);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    for (int b = 0; b < NB; b++)
        bw_free(f->ids[b]);
    bw_free_vectors(f->queries);
    bw_ctx_free(f->ctx);
    bw_free(f);
    return 0;
}

/* ---- one question, and the CPU's answer ---- */

typedef struct question {
    bw_gpu_block blocks[NB];
    bw_bitmap bits[NB];
    size_t n, k;
    const float *query;
} question;

/* kind: 0 all, 1 none, 2 half, 3 few, 4 any of these by block. */
static void ask_bits(fixture *f, bw_bitmap *bits, size_t n, int kind)
{
    assert_true(bw_bitmap_heap(n, bits));
    kind = kind == 4 ? (int)rnd_below(&f->r, 4) : kind;
    for (size_t i = 0; i < n; i++)
        if (kind == 0 || (kind == 2 && rnd_below(&f->r, 2)) || (kind == 3 && rnd_below(&f->r, 50) == 0))
            bw_bitmap_set(bits, i);
}

static void question_make(fixture *f, question *q, unsigned blocks, int kind, size_t k, int query)
{
    q->n = 0;
    q->k = k;
    q->query = f->queries + (size_t)query * f->dim;
    for (int b = 0; b < NB; b++) {
        if (!(blocks >> b & 1))
            continue;
        ask_bits(f, &q->bits[q->n], f->rows[b].n, kind);
        q->blocks[q->n] = (bw_gpu_block){.identity = f->identity[b],
                                         .metric = f->metric,
                                         .rows = &f->rows[b],
                                         .cap = b == 2 ? CAP : (uint32_t)sizes[b],
                                         .ids = f->ids[b],
                                         .allowed = &q->bits[q->n],
                                         .part = (uint32_t)b / 2,
                                         .row0 = (uint32_t)b % 2 * 100000,
                                         .owner = f,
                                         .acquire = hold,
                                         .release = unhold};
        q->n++;
    }
}

static void question_clear(question *q)
{
    for (size_t i = 0; i < q->n; i++)
        bw_bitmap_free(&q->bits[i]);
}

static void cpu_answer(bw_ctx *ctx, const question *q, bw_topk *out)
{
    for (size_t b = 0; b < q->n; b++) {
        const bw_gpu_block *k = &q->blocks[b];
        for (size_t i = bw_bitmap_next(k->allowed, 0); i < k->rows->n; i = bw_bitmap_next(k->allowed, i + 1)) {
            const uint32_t row = (uint32_t)i;
            bw_candidate c = {0, k->part, k->row0 + row, k->ids[i]};
            if (bw_rows_keys(ctx, k->rows, k->metric, q->query, &row, 1, &c.key) == BW_OK)
                bw_topk_push(out, &c);
        }
    }
    bw_topk_sort(out);
}

static bool same(const bw_topk *a, const bw_topk *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (memcmp(&a->items[i].key, &b->items[i].key, sizeof(float)) != 0 ||
            bw_candidate_cmp(&a->items[i], &b->items[i]) != 0)
            return false;
    return true;
}

/* Any thread; ctx its own. */
static bool answered_right(bw_gpu_host *host, bw_ctx *ctx, const question *q)
{
    bw_candidate got[K_MAX], want[K_MAX];
    bw_topk g, w;
    bw_topk_init(&g, got, q->k);
    bw_topk_init(&w, want, q->k);
    const bw_gpu_ask ask = {q->query, q->blocks, q->n, &g};
    if (bw_gpu_search(ctx, host, &ask, 1, NULL) != BW_OK)
        return false;
    bw_topk_sort(&g);
    cpu_answer(ctx, q, &w);
    bw_ctx_reset(ctx);
    return same(&g, &w);
}

static void check(fixture *f, unsigned blocks, int kind, size_t k, int query)
{
    question q;
    question_make(f, &q, blocks, kind, k, query);
    assert_true(answered_right(f->host, f->ctx, &q));
    question_clear(&q);
}

/* Every block there. */
static void warm(fixture *f)
{
    check(f, 63, 0, 5, 0);
    bw_gpu_host_settle(f->host);
}

static bw_gpu_counters counters(fixture *f)
{
    bw_gpu_counters c;
    bw_gpu_host_counters(f->host, &c);
    return c;
}

static uint64_t cpu_total(fixture *f)
{
    const bw_gpu_counters c = counters(f);
    uint64_t n = 0;
    for (int i = 0; i < BW_GPU_NWHY; i++)
        n += c.cpu[i];
    return n;
}

/* ---- equal answers ---- */

static void test_gpu_host__equals_the_cpu(void **state)
{
    fixture *f = *state;
    static const size_t ks[] = {1, 10, 100, 300};
    static const bw_metric metrics[] = {BW_METRIC_COSINE, BW_METRIC_DOT, BW_METRIC_EUCLID};
    for (int t = 0; t < BW_NDTYPES; t++)
        for (int m = 0; m < 3; m++) {
            f->dim = t == m ? DIM : (uint32_t)(1 + rnd_below(&f->r, DIM));
            start(f, 1 + (uint32_t)m, MEMORY, (bw_dtype)t, metrics[m]);
            check(f, 63, 4, 10, 0); /* by the CPU: nothing is there yet */
            warm(f);
            const uint64_t before = cpu_total(f);
            for (int i = 0; i < 12; i++)
                check(f, 1 + (unsigned)rnd_below(&f->r, 63), i % 5, ks[i % 4], i);
            assert_int_equal(cpu_total(f), before); /* all by the device */
            assert_true(counters(f).queries > 0);
            stop(f);
        }
    f->dim = DIM;
}

static void test_gpu_host__leaves_others_to_the_cpu(void **state)
{
    fixture *f = *state;
    start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_MANHATTAN);
    check(f, 63, 0, 10, 0);
    bw_gpu_host_settle(f->host);
    check(f, 63, 0, 10, 0);
    assert_int_equal(counters(f).queries, 0);
    assert_int_equal(counters(f).cpu[BW_GPU_WHY_KIND], 12);
    stop(f);
    f->o.rows_min = 1000;
    start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_DOT);
    warm(f);
    check(f, 63, 0, 10, 0); /* blocks 0 and 5 are small */
    assert_int_equal(counters(f).cpu[BW_GPU_WHY_KIND], 4);
    assert_int_equal(counters(f).queries, 1);
    stop(f);
    f->o.rows_min = 0;
}

static void test_gpu_host__works_without_a_device(void **state)
{
    fixture *f = *state;
    start(f, 0, MEMORY, BW_DTYPE_F16, BW_METRIC_DOT);
    check(f, 63, 4, 10, 0);
    assert_false(bw_gpu_host_any(f->host));
    assert_int_equal(counters(f).segments, 0);
    stop(f);
    gpu_double_reset(2, MEMORY);
    gpu_double_fail(GPU_DOUBLE_OPEN, 0, BW_GPU_NOMEM, true);
    f->metric = BW_METRIC_DOT;
    for (int b = 0; b < NB; b++)
        rows_make(f, b, BW_DTYPE_F16);
    host_open(f);
    check(f, 63, 0, 10, 0);
    assert_false(bw_gpu_host_any(f->host));
    assert_int_equal(counters(f).cpu[BW_GPU_WHY_NO_DEVICE], NB);
    stop(f);
}

/* A growing block: whole groups travel, the tail is the CPU's, earlier snapshots see less. */
static void test_gpu_host__follows_a_growing_block(void **state)
{
    fixture *f = *state;
    start(f, 1, MEMORY, BW_DTYPE_I8, BW_METRIC_EUCLID);
    static const size_t steps[] = {10, 40, 40, 95, 1000, 1007, CAP};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        f->rows[2].n = steps[i];
        check(f, 4, 0, 10, 0);
        bw_gpu_host_settle(f->host);
        const uint64_t cpu = cpu_total(f), sent = counters(f).upload_bytes;
        check(f, 4, 2, 50, 1);
        check(f, 4, 0, 50, 1);
        bw_gpu_host_settle(f->host);
        const size_t there = steps[i] == CAP ? CAP : steps[i] / 32 * 32;
        assert_int_equal(sent, there * DIM);
        assert_int_equal(counters(f).upload_bytes, sent); /* once each */
        assert_true(cpu_total(f) - cpu == (there == steps[i] ? 0 : 2));
    }
    f->rows[2].n = 333; /* an older snapshot */
    const uint64_t cpu = cpu_total(f);
    check(f, 4, 0, 10, 0);
    check(f, 4, 3, 10, 0);
    assert_int_equal(cpu_total(f), cpu);
    f->rows[2].n = CAP;
    stop(f);
}

/* ---- many callers ---- */

typedef struct caller {
    pthread_t thread;
    bw_gpu_host *host;
    question q;
    int rounds;
    bool right;
} caller;

static void *caller_run(void *arg)
{
    caller *c = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    c->right = ctx != NULL;
    for (int i = 0; i < c->rounds && c->right; i++)
        c->right = answered_right(c->host, ctx, &c->q);
    bw_ctx_free(ctx);
    return NULL;
}

static void callers_start(fixture *f, caller *c, size_t n, unsigned blocks, int rounds)
{
    for (size_t i = 0; i < n; i++) {
        c[i].host = f->host;
        c[i].rounds = rounds;
        question_make(f, &c[i].q, blocks ? blocks : 1 + (unsigned)rnd_below(&f->r, 63),
                      blocks ? 0 : (int)(i % 5), blocks ? 10 : 1 + rnd_below(&f->r, 40), (int)(i % NQ));
        assert_int_equal(pthread_create(&c[i].thread, NULL, caller_run, &c[i]), 0);
    }
}

static void callers_join(caller *c, size_t n)
{
    bool right = true;
    for (size_t i = 0; i < n; i++) {
        (void)pthread_join(c[i].thread, NULL);
        right = right && c[i].right;
        question_clear(&c[i].q);
    }
    assert_true(right);
}

static void test_gpu_host__serves_many_callers(void **state)
{
    fixture *f = *state;
    static const size_t ns[] = {1, 2, 17, 300};
    static caller c[300];
    start(f, 2, MEMORY, BW_DTYPE_F16, BW_METRIC_COSINE);
    warm(f);
    for (size_t i = 0; i < 4; i++) {
        callers_start(f, c, ns[i], 0, ns[i] < 100 ? 4 : 1);
        callers_join(c, ns[i]);
    }
    assert_true(gpu_double_get().inflight_most <= BW_GPU_INFLIGHT_MAX);
    stop(f);
}

static void wait_until(bool (*there)(fixture *f, long n), fixture *f, long n)
{
    while (!there(f, n))
        nanosleep(&(struct timespec){0, 200000}, NULL);
}

static bool launched(fixture *f, long n)
{
    (void)f;
    return gpu_double_get().calls[GPU_DOUBLE_LAUNCH] >= n;
}

static bool asked(fixture *f, long n) /* bitsets: one a caller, made before it is queued */
{
    return (long)counters(f).bits_made + (long)counters(f).bits_found >= n;
}

static bool queued(fixture *f, long n)
{
    return (long)counters(f).queued >= n;
}

static long sent; /* queries, before the calls that are waited for */

/* Everybody is in a batch that the device holds, of which there may be two, or queued. */
static bool held_or_queued(fixture *f, long n)
{
    const long flying = gpu_double_get().nq_all - sent;
    return flying > 0 && flying + (long)counters(f).queued >= n;
}

/* The same, for 50 ms at most: a question that finds all its rows elsewhere is in no batch. */
static void wait_for_most(fixture *f, long n)
{
    for (int i = 0; i < 250 && !held_or_queued(f, n); i++)
        nanosleep(&(struct timespec){0, 200000}, NULL);
}

static bool waiting_for_cpu(fixture *f, long n)
{
    return (long)counters(f).cpu[BW_GPU_WHY_TIMEOUT] >= n;
}

/* One alone is launched at once; what comes meanwhile waits for the window, together. */
static void test_gpu_host__gathers_a_batch(void **state)
{
    fixture *f = *state;
    static caller c[9];
    f->o.launch_ns = 1000000000u;
    start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_DOT);
    warm(f);
    const long before = gpu_double_get().calls[GPU_DOUBLE_LAUNCH];
    gpu_double_hold(true);
    callers_start(f, c, 1, 2, 1);
    wait_until(launched, f, before + 1);
    assert_int_equal(gpu_double_get().last_nq, 1);
    for (int i = 1; i < 9; i++) {
        c[i].host = f->host;
        c[i].rounds = 1;
        question_make(f, &c[i].q, 2, 2, 10, i);
        assert_int_equal(pthread_create(&c[i].thread, NULL, caller_run, &c[i]), 0);
    }
    wait_until(asked, f, 8);
    wait_until(queued, f, 8);
    assert_int_equal(gpu_double_get().calls[GPU_DOUBLE_LAUNCH], before + 1);
    while (!launched(f, before + 2)) { /* again: one may have come after the first time */
        gpu_double_clock_add(200 * 1000);
        usleep(1000);
    }
    gpu_double_hold(false);
    callers_join(c, 9);
    assert_true(gpu_double_get().nq_most >= 2);
    assert_int_equal(cpu_total(f), 6); /* the first look, when nothing was there */
    stop(f);
    f->o.launch_ns = 0;
}

/* ---- rights ---- */

typedef struct reads {
    const fixture *f;
    uint32_t seen[NQ]; /* by query: blocks */
    bool strange;
} reads;

static void on_read(void *arg, const void *row, const float *query)
{
    reads *r = arg;
    float first;
    memcpy(&first, row, sizeof first);
    int q = 0;
    while (q < NQ && memcmp(query, r->f->queries + (size_t)q * r->f->dim, r->f->dim * sizeof *query) != 0)
        q++;
    r->strange = r->strange || q == NQ || first * 8 < 1 || first * 8 > NB;
    if (!r->strange)
        r->seen[q] |= 1u << ((int)(first * 8) - 1);
}

/* Query i may read the blocks of `i * 4 + 3` alone, all in shared batches. */
static void test_gpu_host__reads_no_forbidden_segment(void **state)
{
    fixture *f = *state;
    static caller c[NQ];
    reads seen = {.f = f};
    start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_DOT);
    warm(f);
    gpu_double_on_read(on_read, &seen);
    sent = gpu_double_get().nq_all;
    gpu_double_hold(true);
    for (int i = 0; i < NQ; i++) {
        c[i].host = f->host;
        c[i].rounds = 1;
        question_make(f, &c[i].q, (unsigned)i * 4 % 63 + 1, 4 * (i % 2), 10, i);
        assert_int_equal(pthread_create(&c[i].thread, NULL, caller_run, &c[i]), 0);
    }
    wait_for_most(f, NQ);
    gpu_double_hold(false);
    callers_join(c, NQ);
    gpu_double_on_read(NULL, NULL);
    assert_false(seen.strange);
    for (int i = 0; i < NQ; i++)
        assert_int_equal(seen.seen[i] & ~((unsigned)i * 4 % 63 + 1), 0);
    assert_true(counters(f).batched_most > 1);
    stop(f);
}

/* ---- faults ---- */

static void test_gpu_host__survives_every_fault(void **state)
{
    fixture *f = *state;
    static const bw_gpu_status faults[] = {BW_GPU_NOMEM, BW_GPU_LOST, BW_GPU_AGAIN};
    for (int call = GPU_DOUBLE_SEGMENT_NEW; call < GPU_DOUBLE_NCALLS; call++)
        for (int kind = 0; kind < 3; kind++)
            for (int nth = 0; nth < 4; nth++) {
                const bool lasts = nth % 2 == 1 && faults[kind] == BW_GPU_NOMEM;
                if (call == GPU_DOUBLE_WAIT && faults[kind] == BW_GPU_NOMEM)
                    continue;
                start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_EUCLID);
                gpu_double_fail((gpu_double_call)call, nth / 2, faults[kind], lasts);
                for (int i = 0; i < 4; i++) {
                    check(f, 63, i == 1 ? 2 : 4, 10, i);
                    bw_gpu_host_settle(f->host);
                }
                if (faults[kind] == BW_GPU_LOST)
                    assert_int_equal(counters(f).devices, 0);
                else
                    assert_int_equal(counters(f).devices, 1);
                assert_int_equal(counters(f).lost, faults[kind] == BW_GPU_LOST);
                stop(f);
            }
}

static void test_gpu_host__evicts_and_tries_once_more(void **state)
{
    fixture *f = *state;
    start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_DOT);
    warm(f);
    gpu_double_fail(GPU_DOUBLE_LAUNCH, 0, BW_GPU_NOMEM, false);
    const uint64_t before = cpu_total(f);
    check(f, 2, 0, 10, 0);
    assert_int_equal(counters(f).evicted, 1);
    assert_int_equal(cpu_total(f), before);
    gpu_double_fail(GPU_DOUBLE_LAUNCH, 0, BW_GPU_NOMEM, true);
    check(f, 2, 0, 10, 0);
    assert_int_equal(counters(f).evicted, 2);
    assert_int_equal(counters(f).cpu[BW_GPU_WHY_NOMEM], 1);
    stop(f);
}

static void test_gpu_host__halves_a_batch_that_does_not_fit(void **state)
{
    fixture *f = *state;
    static caller c[40];
    start(f, 1, MEMORY, BW_DTYPE_BF16, BW_METRIC_DOT);
    warm(f);
    sent = gpu_double_get().nq_all;
    gpu_double_hold(true);
    callers_start(f, c, 40, 62, 1);
    wait_for_most(f, 40);
    gpu_double_fail(GPU_DOUBLE_LAUNCH, 0, BW_GPU_NOMEM, false);
    gpu_double_hold(false);
    callers_join(c, 40);
    assert_int_equal(counters(f).devices, 1);
    stop(f);
}

static void test_gpu_host__does_not_believe_lies(void **state)
{
    fixture *f = *state;
    for (int lie = GPU_DOUBLE_FORBIDDEN_ROW; lie <= GPU_DOUBLE_NOT_FLAGGED; lie++) {
        start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_DOT);
        warm(f);
        gpu_double_lie_next((gpu_double_lie)lie);
        check(f, 30, 2, 10, 0);
        assert_int_equal(counters(f).cpu[BW_GPU_WHY_WRONG], 4);
        bw_gpu_host_settle(f->host);
        assert_int_equal(counters(f).devices, 0);
        check(f, 30, 2, 10, 0);
        stop(f);
    }
}

static void test_gpu_host__widens_then_gives_up(void **state)
{
    fixture *f = *state;
    start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_DOT);
    warm(f);
    gpu_double_uncover(1);
    check(f, 62, 2, 10, 0);
    assert_int_equal(counters(f).widened, 1);
    assert_int_equal(counters(f).cpu[BW_GPU_WHY_UNCOVERED], 0);
    gpu_double_uncover(-1);
    check(f, 62, 2, 10, 0);
    assert_int_equal(counters(f).widened, 3);
    assert_int_equal(counters(f).cpu[BW_GPU_WHY_UNCOVERED], 5);
    gpu_double_uncover(0);
    float *x = (float *)(uintptr_t)f->rows[2].data; /* one row many times: ties and groups */
    bw_gpu_forget(f->identity[2]);
    f->identity[2] = bw_gpu_identity();
    for (size_t i = 1; i < CAP; i++)
        memcpy(x + i * f->dim, x, f->dim * sizeof *x);
    check(f, 4, 0, 10, 0);
    bw_gpu_host_settle(f->host);
    const uint64_t before = cpu_total(f);
    check(f, 4, 0, 10, 0);
    assert_true(counters(f).widened > 3);
    assert_int_equal(cpu_total(f), before);
    f->queries[0] = 1e30f; /* beyond the bound */
    check(f, 4, 0, 10, 0);
    assert_int_equal(counters(f).cpu[BW_GPU_WHY_BEYOND], 1);
    stop(f);
}

/* ---- time ---- */

static void test_gpu_host__gives_a_slow_batch_up(void **state)
{
    fixture *f = *state;
    static caller c[2];
    start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_DOT);
    warm(f);
    const long before = gpu_double_get().calls[GPU_DOUBLE_LAUNCH];
    gpu_double_hold(true);
    callers_start(f, c, 1, 62, 1);
    wait_until(launched, f, before + 1);
    gpu_double_clock_add(2000000000u);
    wait_until(waiting_for_cpu, f, 5);
    callers_join(c, 1);
    assert_int_equal(counters(f).devices, 1);
    gpu_double_hold(false); /* it ends after all: nobody wants it */
    bw_gpu_host_settle(f->host);
    check(f, 62, 2, 10, 0);
    gpu_double_hold(true);
    callers_start(f, c, 1, 62, 1);
    wait_until(launched, f, before + 3);
    gpu_double_clock_add(2000000000u);
    callers_join(c, 1);
    gpu_double_clock_add(2000000000u);
    bw_gpu_host_settle(f->host);
    assert_int_equal(counters(f).devices, 0);
    assert_int_equal(counters(f).lost, 1);
    gpu_double_hold(false);
    check(f, 62, 2, 10, 0);
    stop(f);
}

/* The caller goes, in flight or queued; what it lent may be gone as well. */
static void test_gpu_host__keeps_the_deadline(void **state)
{
    fixture *f = *state;
    start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_DOT);
    warm(f);
    gpu_double_hold(true);
    for (int i = 0; i < 4; i++) { /* 0: in flight; the others are queued behind it */
        bw_candidate items[10];
        bw_topk out;
        question q;
        bw_topk_init(&out, items, 10);
        question_make(f, &q, 62, 2, 10, i);
        float *query = bw_alloc(f->dim * sizeof *query);
        memcpy(query, q.query, f->dim * sizeof *query);
        const bw_gpu_ask ask = {query, q.blocks, q.n, &out};
        bw_ctx_set_deadline(f->ctx, bw_clock_mono_ns() + 3000000);
        assert_int_equal(bw_gpu_search(f->ctx, f->host, &ask, 1, NULL), BW_ETIMEOUT);
        bw_ctx_reset(f->ctx);
        bw_free(query);
        question_clear(&q);
    }
    gpu_double_hold(false);
    bw_gpu_host_settle(f->host);
    assert_int_equal(counters(f).devices, 1);
    check(f, 62, 2, 10, 5);
    stop(f);
}

/* ---- memory ---- */

static void test_gpu_host__keeps_the_budget(void **state)
{
    fixture *f = *state;
    f->o.segment_bytes = (CAP + 2048) * DIM * sizeof(float); /* blocks 2 and 4, or less */
    start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_DOT);
    check(f, 4, 0, 10, 0);
    bw_gpu_host_settle(f->host);
    check(f, 16, 0, 10, 0);
    bw_gpu_host_settle(f->host);
    assert_int_equal(counters(f).segment_bytes, f->o.segment_bytes);
    check(f, 8, 0, 10, 0); /* asked for once: nobody goes for it */
    bw_gpu_host_settle(f->host);
    assert_int_equal(counters(f).evicted, 0);
    assert_int_equal(counters(f).refused, 1);
    check(f, 8, 0, 10, 0); /* twice since block 2 was: that goes */
    bw_gpu_host_settle(f->host);
    assert_int_equal(counters(f).evicted, 1);
    const uint64_t cpu = cpu_total(f);
    check(f, 8 | 16, 0, 10, 0);
    assert_int_equal(cpu_total(f), cpu);
    check(f, 4, 0, 10, 0);
    assert_int_equal(cpu_total(f), cpu + 1);
    for (int i = 0; i < 30; i++) { /* a walk over more than fits */
        check(f, 1u << (1 + i % 4), 4, 10, i % NQ);
        bw_gpu_host_settle(f->host);
        assert_true(counters(f).segment_bytes <= f->o.segment_bytes);
    }
    assert_true(gpu_double_get().bytes_most <= f->o.segment_bytes + 4096);
    stop(f);
    f->o.segment_bytes = 1000; /* nothing fits */
    start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_DOT);
    warm(f);
    check(f, 30, 0, 10, 0);
    assert_int_equal(counters(f).queries, 0);
    stop(f);
    f->o.segment_bytes = 0;
}

static void test_gpu_host__keeps_bitsets(void **state)
{
    fixture *f = *state;
    f->o.bits_bytes = 3 * (CAP + 63) / 64 * 8;
    start(f, 1, MEMORY, BW_DTYPE_F32, BW_METRIC_DOT);
    warm(f);
    assert_int_equal(counters(f).bits_made, 0); /* all: no bits */
    check(f, 63, 1, 10, 0);
    assert_int_equal(counters(f).bits_made, 0); /* none: no question */
    question q[5];
    for (int i = 0; i < 5; i++)
        question_make(f, &q[i], 4, 2, 10, i);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 3; i++)
            assert_true(answered_right(f->host, f->ctx, &q[i]));
    assert_int_equal(counters(f).bits_made, 3);
    assert_int_equal(counters(f).bits_found, 6);
    assert_int_equal(gpu_double_get().calls[GPU_DOUBLE_BITS_NEW], 3);
    assert_true(answered_right(f->host, f->ctx, &q[3])); /* 0 goes: the longest unused */
    assert_true(answered_right(f->host, f->ctx, &q[1]));
    assert_int_equal(counters(f).bits_evicted, 1);
    assert_int_equal(counters(f).bits_found, 7);
    assert_true(answered_right(f->host, f->ctx, &q[0]));
    assert_int_equal(counters(f).bits_made, 5);
    assert_true(counters(f).bits_bytes <= f->o.bits_bytes);
    bw_gpu_forget(f->identity[2]); /* and with the block */
    bw_gpu_host_settle(f->host);
    assert_int_equal(counters(f).bits_bytes, 0);
    assert_int_equal(gpu_double_get().bits, 0);
    for (int i = 0; i < 5; i++)
        question_clear(&q[i]);
    stop(f);
    f->o.bits_bytes = 0;
}

static void test_gpu_host__forgets(void **state)
{
    fixture *f = *state;
    start(f, 2, MEMORY, BW_DTYPE_F16, BW_METRIC_DOT);
    warm(f);
    assert_int_equal(counters(f).segments, NB);
    for (int b = 0; b < NB; b++)
        bw_gpu_forget(f->identity[b]);
    bw_gpu_host_settle(f->host);
    assert_int_equal(counters(f).segments, 0);
    assert_int_equal(counters(f).segment_bytes, 0);
    assert_int_equal(gpu_double_get().segments, 0);
    stop(f);
}

/* One device of three goes: its blocks find others. */
static void test_gpu_host__goes_on_with_the_rest(void **state)
{
    fixture *f = *state;
    start(f, 3, MEMORY, BW_DTYPE_F16, BW_METRIC_DOT);
    warm(f);
    gpu_double_fail(GPU_DOUBLE_LAUNCH, 0, BW_GPU_LOST, false);
    check(f, 63, 2, 10, 0);
    bw_gpu_host_settle(f->host);
    assert_int_equal(counters(f).devices, 2);
    warm(f);
    const uint64_t cpu = cpu_total(f);
    check(f, 63, 4, 10, 1);
    assert_int_equal(cpu_total(f), cpu);
    stop(f);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_gpu_host__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(equals_the_cpu),
        T(leaves_others_to_the_cpu),
        T(works_without_a_device),
        T(follows_a_growing_block),
        T(serves_many_callers),
        T(gathers_a_batch),
        T(reads_no_forbidden_segment),
        T(survives_every_fault),
        T(evicts_and_tries_once_more),
        T(halves_a_batch_that_does_not_fit),
        T(does_not_believe_lies),
        T(widens_then_gives_up),
        T(gives_a_slow_batch_up),
        T(keeps_the_deadline),
        T(keeps_the_budget),
        T(keeps_bitsets),
        T(forgets),
        T(goes_on_with_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
