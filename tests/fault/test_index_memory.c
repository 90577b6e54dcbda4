/* The n-th allocation fails, once and for good, for n = 1, 2, 3 … until a run is clean:
 * building, saving, loading and searching each kind ends in BW_OK or BW_ENOMEM, with
 * nothing leaked (the sanitizer looks) and nothing half made. FAISS's own allocations
 * go through C++ and are out of reach here. */
#include "engine/index/index.h"
#include "engine/kernels/kernels.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N = 2600, DIM = 4, K = 5, RUNS_MAX = 2000 };

static long left; /* allocations until one fails; negative: none does */
static bool lasting, fired;

static bool refuse(void)
{
    if (left < 0)
        return false;
    if (left == 0) {
        left = lasting ? 0 : -1;
        fired = true;
        return true;
    }
    left--;
    return false;
}
static void *alloc_sometimes(size_t n)
{
    return refuse() ? NULL : malloc(n);
}
static void *realloc_sometimes(void *p, size_t n)
{
    return refuse() ? NULL : realloc(p, n);
}
static const bw_allocator sometimes = {alloc_sometimes, realloc_sometimes, free};

typedef struct fixture {
    float *rows;
    bw_point_id ids[N];
    bw_bitmap allowed;
} fixture;

static int setup(void **state)
{
    bw_allocator_set(&sometimes);
    left = -1;
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    rnd r = rnd_start("test_index_memory", 8);
    f->rows = bw_alloc_vectors(N * DIM * sizeof *f->rows);
    assert_non_null(f->rows);
    assert_true(bw_bitmap_heap(N, &f->allowed));
    bw_bitmap_fill(&f->allowed);
    for (size_t i = 0; i < N; i++) {
        f->ids[i].lo = i;
        for (size_t j = 0; j < DIM; j++)
            f->rows[i * DIM + j] = (float)rnd_gauss(&r);
        bw_normalize_f32(f->rows + i * DIM, DIM);
        for (size_t j = 0; i % 10 == 0 && j < DIM; j++)
            f->rows[i * DIM + j] *= 4; /* a second shell, too small for a graph */
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_free_vectors(f->rows);
    bw_bitmap_free(&f->allowed);
    bw_free(f);
    bw_allocator_set(NULL);
    return 0;
}

static bw_status search(const fixture *f, bw_ctx *ctx, const bw_index *ix)
{
    bw_candidate items[K];
    bw_topk t;
    bw_topk_init(&t, items, K);
    const bw_rows rows = {.dim = DIM, .n = N, .data = f->rows};
    const bw_index_search s = {.query = f->rows,
                               .k = K,
                               .allowed = &f->allowed,
                               .ids = f->ids,
                               .rows = &rows};
    const bw_status status = ix->ops->search(ctx, ix, &s, &t);
    assert_true(status != BW_OK || t.n == K);
    return status;
}

static bw_status use(const fixture *f, bw_ctx *ctx, const bw_index_ops *ops,
                     bw_metric metric)
{
    const bw_index_params p = {.metric = metric,
                               .dim = DIM,
                               .M = 4,
                               .ef_construction = 8,
                               .nlist = 4,
                               .seed = 1};
    bw_index *ix = NULL, *again = NULL;
    bw_buf x = {0};
    const bw_rows rows = {.dim = DIM, .n = N, .data = f->rows};
    bw_status status = ops->build(ctx, &p, &rows, &ix);
    assert_true((status == BW_OK) == (ix != NULL));
    if (status == BW_OK)
        status = search(f, ctx, ix);
    if (status == BW_OK && ops->save)
        status = ops->save(ctx, ix, &x);
    if (status == BW_OK && ops->load) {
        status = ops->load(ctx, &p, x.ptr, x.len, &again);
        assert_true((status == BW_OK) == (again != NULL));
    }
    if (status == BW_OK && again)
        status = search(f, ctx, again);
    ops->free(ix);
    ops->free(again);
    bw_buf_clear(&x);
    return status;
}

static void sweep(const fixture *f, const char *kind, bw_metric metric)
{
    bw_log_set_level(BW_LOG_ERROR);
    for (int mode = 0; mode < 2; mode++) {
        long n = 0;
        for (fired = true; fired && n < RUNS_MAX; n++) {
            bw_ctx *ctx = bw_ctx_new(0);
            assert_non_null(ctx);
            lasting = mode == 1;
            fired = false;
            left = n;
            const bw_status status = use(f, ctx, bw_index_kind(kind), metric);
            left = -1;
            assert_true(status == BW_OK || (fired && status == BW_ENOMEM));
            bw_ctx_free(ctx);
        }
        print_message("%s metric %d: clean after %ld runs\n", kind, (int)metric, n);
        assert_false(fired);
    }
    bw_log_set_level(BW_LOG_INFO);
}

static void test_index_memory__every_kind(void **state)
{
    static const char *const kinds[] = {"flat", "faiss-hnsw", "faiss-ivf"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        sweep(*state, kinds[i], BW_METRIC_DOT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_index_memory__every_kind)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
