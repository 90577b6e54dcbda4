/* Recall of the index kinds: exact first, then at least 0.95 of the true ten, for every
 * metric and backend, on real embeddings and on the same rows with random lengths.
 *
 * "1 to 2" gives two shells (engine/index/faiss.c) that are large enough for a graph.
 * By default a part of the rows and queries (the debug build is slow); BW_NIGHTLY=1
 * takes all 20,000 and 500. Without the reference data the test says "not run". */
#include "engine/index/index.h"
#include "engine/kernels/kernels.h"
#include "npy.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#define K          10
#define RECALL_MIN 0.95

typedef enum lengths { AS_STORED, NARROW, LOG_NORMAL, LOG_UNIFORM } lengths;
static const char *const lengths_name[] = {"as stored", "1 to 2", "log-normal",
                                           "0.1 to 10"};

typedef struct fixture {
    npy rows, queries;
    float *scaled; /* the rows of one run */
    bw_point_id *ids;
    bw_ctx *ctx;
    rnd r;
    float asked; /* recall of searches; 0: the kind's own choice */
    bool have;
} fixture;

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = rnd_start("test_recall", 20261130);
    f->ctx = bw_ctx_new(0);
    assert_non_null(f->ctx);
    assert_int_equal(bw_index_start(f->ctx), BW_OK);
    *state = f;
    const char *path = BW_SHARED "/bench/minilm-20k.f16.npy";
    if (access(path, R_OK) != 0)
        return 0;
    const bool all = getenv("BW_NIGHTLY") != NULL;
    assert_int_equal(npy_read(path, all ? 0 : 8000, &f->rows), 0);
    assert_int_equal(npy_read(BW_SHARED "/bench/minilm-queries-500.f16.npy",
                              all ? 0 : 100, &f->queries),
                     0);
    assert_int_equal(f->rows.dim, f->queries.dim);
    f->scaled = bw_alloc_vectors(f->rows.n * f->rows.dim * sizeof(float));
    f->ids = bw_calloc(f->rows.n, sizeof *f->ids);
    assert_non_null(f->scaled);
    assert_non_null(f->ids);
    for (size_t i = 0; i < f->rows.n; i++)
        f->ids[i].lo = i * 7 % f->rows.n; /* ids are not in the order of rows */
    for (size_t i = 0; i < f->queries.n; i++)
        bw_normalize_f32(f->queries.values + i * f->queries.dim, f->queries.dim);
    f->have = true;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_free_vectors(f->rows.values);
    bw_free_vectors(f->queries.values);
    bw_free_vectors(f->scaled);
    bw_free(f->ids);
    bw_ctx_free(f->ctx);
    bw_free(f);
    return 0;
}

#define NEED_DATA(f)                                       \
    do {                                                   \
        if (!(f)->have) {                                  \
            print_message("not run: no reference data\n"); \
            skip();                                        \
        }                                                  \
    } while (0)

static void rows_scale(fixture *f, bw_metric metric, lengths how)
{
    const size_t dim = f->rows.dim;
    for (size_t i = 0; i < f->rows.n; i++) {
        float *v = f->scaled + i * dim;
        memcpy(v, f->rows.values + i * dim, dim * sizeof *v);
        const double length = how == LOG_NORMAL    ? exp(0.5 * rnd_gauss(&f->r))
                              : how == NARROW      ? 1 + rnd_unit(&f->r)
                              : how == LOG_UNIFORM ? pow(10, 2 * rnd_unit(&f->r) - 1)
                                                   : 1;
        for (size_t j = 0; j < dim; j++)
            v[j] = (float)((double)v[j] * length);
        if (metric == BW_METRIC_COSINE)
            bw_normalize_f32(v, dim); /* as the store does */
    }
}

static size_t search(fixture *f, const bw_index *ix, const float *query,
                     const bw_bitmap *allowed, bw_candidate out[K])
{
    bw_topk t;
    bw_topk_init(&t, out, K);
    const bw_rows rows = {
        .dim = (uint32_t)f->rows.dim, .n = f->rows.n, .data = f->scaled};
    const bw_index_search s = {.query = query,
                               .k = K,
                               .recall = f->asked,
                               .allowed = allowed,
                               .ids = f->ids,
                               .part = 1,
                               .rows = &rows};
    assert_int_equal(ix->ops->search(f->ctx, ix, &s, &t), BW_OK);
    bw_topk_sort(&t);
    return t.n;
}

/* Exact first: the flat kind against a sort of all rows by a double-precision score. */
static void check_exact(fixture *f, const bw_index *flat, bw_metric metric,
                        const bw_bitmap *allowed)
{
    const size_t dim = f->rows.dim;
    for (size_t q = 0; q < 5; q++) {
        const float *query = f->queries.values + q * dim;
        bw_candidate got[K];
        assert_int_equal(search(f, flat, query, allowed, got), K);
        size_t better = 0;
        double worst = 0;
        for (int pass = 0; pass < 2; pass++)
            for (size_t r = 0; r < f->rows.n; r++) {
                double s = 0;
                for (size_t i = 0; i < dim; i++) {
                    const double a = (double)query[i],
                                 b = (double)f->scaled[r * dim + i];
                    s += metric == BW_METRIC_EUCLID      ? -(a - b) * (a - b)
                         : metric == BW_METRIC_MANHATTAN ? -fabs(a - b)
                                                         : a * b;
                }
                if (pass == 0 && r == got[K - 1].row)
                    worst = s;
                if (pass == 1 && bw_bitmap_get(allowed, r) &&
                    s > worst + 1e-4 * fabs(worst))
                    better++;
            }
        assert_true(better < K); /* nobody clearly better than the tenth is missing */
    }
}

static double recall(fixture *f, const bw_index *flat, const bw_index *ix,
                     const bw_bitmap *allowed, size_t nq)
{
    size_t hit = 0, want = 0;
    for (size_t q = 0; q < nq; q++) {
        const float *query = f->queries.values + q * f->queries.dim;
        bw_candidate truth[K], got[K];
        const size_t n = search(f, flat, query, allowed, truth),
                     m = search(f, ix, query, allowed, got);
        assert_int_equal(m, n); /* fewer only when fewer are allowed */
        want += n;
        for (size_t i = 0; i < m; i++) {
            assert_true(bw_bitmap_get(allowed, got[i].row));
            for (size_t j = 0; j < n; j++)
                hit += got[i].row == truth[j].row;
        }
        /* What both found has the same key, bit by bit: rescored from the stored rows.
         */
        for (size_t i = 0, j = 0; i < m && j < n; j++)
            if (got[i].row == truth[j].row)
                assert_memory_equal(&got[i++].key, &truth[j].key, sizeof(float));
        bw_ctx_reset(f->ctx);
    }
    return (double)hit / (double)want;
}

static bw_index *build(fixture *f, const char *kind, bw_metric metric)
{
    const bw_index_ops *ops = bw_index_kind(kind);
    assert_non_null(ops);
    assert_true(ops->metrics[metric]);
    const bw_index_params p = {
        .metric = metric, .dim = (uint32_t)f->rows.dim, .seed = 1};
    bw_index *ix = NULL;
    const uint64_t t = bw_clock_mono_ns();
    const bw_rows rows = {
        .dim = (uint32_t)f->rows.dim, .n = f->rows.n, .data = f->scaled};
    assert_int_equal(ops->build(f->ctx, &p, &rows, &ix), BW_OK);
    print_message("%s metric %d: built in %.1f s, %.1f MB\n", kind, (int)metric,
                  (double)(bw_clock_mono_ns() - t) * 1e-9,
                  (double)ops->bytes(ix) * 1e-6);
    return ix;
}

/* permitted: per thousand of the rows, spread at random; or by length, which is what
 * breaks a graph over raw products (no link leads to short rows). */
enum { SHORTER_HALF = -1, LONGER_HALF = -2 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void permit(fixture *f, int permitted, bw_bitmap *allowed)
{
    const size_t n = f->rows.n, dim = f->rows.dim;
    memset(allowed->words, 0, bw_bitmap_words(n) * sizeof *allowed->words);
    double *squared = bw_calloc(2 * n, sizeof *squared), *sorted = squared + n;
    assert_non_null(squared);
    for (size_t i = 0; permitted < 0 && i < n; i++)
        for (size_t j = 0; j < dim; j++)
            squared[i] +=
                (double)f->scaled[i * dim + j] * (double)f->scaled[i * dim + j];
    memcpy(sorted, squared, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    for (size_t i = 0; i < n; i++) {
        const bool shorter = squared[i] < sorted[n / 2];
        if (permitted < 0 ? shorter == (permitted == SHORTER_HALF)
                          : (int)rnd_below(&f->r, 1000) < permitted)
            bw_bitmap_set(allowed, i);
    }
    bw_free(squared);
}

static void check_kind(fixture *f, const char *kind, bw_metric metric, lengths how,
                       const int *permitted, size_t npermitted)
{
    rows_scale(f, metric, how);
    bw_index *flat = build(f, "flat", metric), *ix = build(f, kind, metric);
    bw_bitmap allowed;
    assert_true(bw_bitmap_heap(f->rows.n, &allowed));
    for (size_t p = 0; p < npermitted; p++) {
        permit(f, permitted[p], &allowed);
        if (p == 0)
            check_exact(f, flat, metric, &allowed);
        const double got =
            recall(f, flat, ix, &allowed, p ? f->queries.n / 2 : f->queries.n);
        print_message("%s metric %d lengths %s: %5.1f %% permitted%s, recall@10 %.4f\n",
                      kind, (int)metric, lengths_name[how],
                      100 * (double)bw_bitmap_count(&allowed) / (double)f->rows.n,
                      permitted[p] == SHORTER_HALF  ? " (shorter half)"
                      : permitted[p] == LONGER_HALF ? " (longer half)"
                                                    : "",
                      got);
        if (got < RECALL_MIN)
            fail_msg("%s metric %d lengths %s, permitted %d: recall@10 %.4f", kind,
                     (int)metric, lengths_name[how], permitted[p], got);
    }
    bw_bitmap_free(&allowed);
    ix->ops->free(ix);
    flat->ops->free(flat);
}

static const int all_rows[] = {1000};
static const int fractions[] = {1000, 900, 600, 300, 50, 5};
static const int halves[] = {1000, SHORTER_HALF, LONGER_HALF, 900};

static void check_all(fixture *f, const char *kind)
{
    const bool all = getenv("BW_NIGHTLY") != NULL;
    check_kind(f, kind, BW_METRIC_COSINE, AS_STORED, fractions, 6);
    check_kind(f, kind, BW_METRIC_DOT, NARROW, halves, 4);
    check_kind(f, kind, BW_METRIC_DOT, LOG_NORMAL, fractions, all ? 6 : 2);
    check_kind(f, kind, BW_METRIC_EUCLID, NARROW, halves, 4);
    check_kind(f, kind, BW_METRIC_EUCLID, LOG_NORMAL, halves, all ? 4 : 2);
    if (!all)
        return;
    check_kind(f, kind, BW_METRIC_DOT, AS_STORED, all_rows, 1);
    check_kind(f, kind, BW_METRIC_DOT, LOG_UNIFORM, halves, 4);
    check_kind(f, kind, BW_METRIC_EUCLID, AS_STORED, fractions, 6);
    check_kind(f, kind, BW_METRIC_EUCLID, LOG_UNIFORM, all_rows, 1);
}

static void test_recall__hnsw(void **state)
{
    NEED_DATA((fixture *)*state);
    check_all(*state, "faiss-hnsw");
}

static void test_recall__graph(void **state)
{
    NEED_DATA((fixture *)*state);
    check_all(*state, "graph");
}

/* Real queries get the recall that they ask for, by what tuning measured on made ones. */
static void test_recall__graph_keeps_its_word(void **state)
{
    fixture *f = *state;
    NEED_DATA(f);
    rows_scale(f, BW_METRIC_COSINE, AS_STORED);
    bw_index *flat = build(f, "flat", BW_METRIC_COSINE),
             *ix = build(f, "graph", BW_METRIC_COSINE);
    bw_bitmap allowed;
    assert_true(bw_bitmap_heap(f->rows.n, &allowed));
    bw_bitmap_fill(&allowed);
    const float asked[] = {0.9f, 0.95f, 0.99f};
    for (size_t a = 0; a < sizeof asked / sizeof *asked; a++) {
        f->asked = asked[a];
        const double got = recall(f, flat, ix, &allowed, f->queries.n);
        print_message("graph asked for %.2f: effort %u, recall@10 %.4f\n",
                      (double)asked[a], ix->ops->effort_of(ix, asked[a], K), got);
        assert_true(got >= (double)asked[a]);
    }
    f->asked = 0;
    bw_bitmap_free(&allowed);
    ix->ops->free(ix);
    flat->ops->free(flat);
}

static void test_recall__ivf(void **state)
{
    NEED_DATA((fixture *)*state);
    check_all(*state, "faiss-ivf");
}

static void test_recall__manhattan_is_flat(void **state)
{
    fixture *f = *state;
    NEED_DATA(f);
    check_kind(f, "flat", BW_METRIC_MANHATTAN, LOG_NORMAL, fractions, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recall__manhattan_is_flat),
        cmocka_unit_test(test_recall__hnsw),
        cmocka_unit_test(test_recall__graph),
        cmocka_unit_test(test_recall__graph_keeps_its_word),
        cmocka_unit_test(test_recall__ivf),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
