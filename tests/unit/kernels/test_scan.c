/* The flat scan against a plain loop; forbidden rows are never loaded. */
#include "engine/kernels/kernels.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { N = 1500, DIM = 37, K = 25 };

typedef struct fixture {
    rnd r;
    float *rows, query[DIM];
    bw_point_id *ids;
    bw_bitmap allowed;
} fixture;

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = rnd_start("test_scan", 42);
    f->rows = bw_alloc_vectors(N * DIM * sizeof(float));
    f->ids = bw_calloc(N, sizeof *f->ids);
    assert_non_null(f->rows);
    assert_non_null(f->ids);
    assert_true(bw_bitmap_heap(N, &f->allowed));
    for (size_t i = 0; i < N * DIM; i++)
        f->rows[i] = (float)rnd_below(&f->r, 5) - 2; /* small integers: many ties */
    for (size_t i = 0; i < N; i++)
        f->ids[i] = (bw_point_id){0, rnd_below(&f->r, N / 2), 0, 0};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_free_vectors(f->rows);
    bw_free(f->ids);
    bw_bitmap_free(&f->allowed);
    bw_free(f);
    return 0;
}

/* density in eighths; from 9 on: blocks of ones and zeros of random length */
static void allow(fixture *f, int density)
{
    memset(f->allowed.words, 0, bw_bitmap_words(N) * sizeof *f->allowed.words);
    if (density == 8)
        bw_bitmap_fill(&f->allowed);
    for (size_t i = 0; i < N && density < 8; i++)
        if (rnd_below(&f->r, 8) < (size_t)density)
            bw_bitmap_set(&f->allowed, i);
    if (density < 9)
        return;
    for (size_t i = 0; i < N; i += 1 + rnd_below(&f->r, 150)) {
        const size_t end = i + rnd_below(&f->r, 300);
        for (; i < end && i < N; i++)
            bw_bitmap_set(&f->allowed, i);
    }
}

static void check_against_loop(fixture *f, const bw_kernels *k, bw_metric metric,
                               size_t n)
{
    bw_candidate got[K], want[K];
    bw_topk g, w;
    bw_topk_init(&g, got, K);
    bw_topk_init(&w, want, K);
    bw_scan_f32(k, metric, f->query, f->rows, n, DIM, &f->allowed, f->ids, 3, 1000, &g);
    for (size_t i = 0; i < n; i++) {
        if (!bw_bitmap_get(&f->allowed, i))
            continue;
        const float key = bw_metric_key(k, metric, f->query, f->rows + i * DIM, DIM);
        const bw_candidate c = {key, 3, 1000 + (uint32_t)i, f->ids[i]};
        bw_topk_push(&w, &c);
    }
    assert_int_equal(g.n, w.n);
    bw_topk_sort(&g);
    bw_topk_sort(&w);
    for (size_t i = 0; i < g.n; i++) {
        assert_int_equal(bw_candidate_cmp(&got[i], &want[i]), 0);
        assert_true(memcmp(&got[i].key, &want[i].key, sizeof(float)) == 0);
        assert_true(bw_bitmap_get(&f->allowed, got[i].row - 1000));
    }
}

static void test_scan__equals_a_plain_loop(void **state)
{
    fixture *f = *state;
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    for (size_t s = 0; s < 3; s++) {
        const bw_kernels *k = bw_kernels_isa(isas[s]);
        if (!k) {
            print_message("%s: not run (this machine lacks it)\n", isas[s]);
            continue;
        }
        for (int density = 0; density <= 12; density++)
            for (int metric = 0; metric < 4; metric++) {
                for (size_t i = 0; i < DIM; i++)
                    f->query[i] = (float)rnd_gauss(&f->r);
                allow(f, density);
                check_against_loop(f, k, (bw_metric)metric, density % 3 ? N : N - 61);
            }
    }
}

static void test_scan__nothing_allowed_finds_nothing(void **state)
{
    fixture *f = *state;
    bw_candidate items[K];
    bw_topk t;
    bw_topk_init(&t, items, K);
    allow(f, 0);
    bw_scan_f32(bw_kernels_get(), BW_METRIC_DOT, f->query, f->rows, N, DIM, &f->allowed,
                f->ids, 0, 0, &t);
    assert_int_equal(t.n, 0);
    const bw_bitmap none = {NULL, 0}; /* rows past the bitmap's end are forbidden too */
    bw_scan_f32(bw_kernels_get(), BW_METRIC_DOT, f->query, f->rows, N, DIM, &none,
                f->ids, 0, 0, &t);
    assert_int_equal(t.n, 0);
}

/* One row a page; pages of forbidden rows cannot be read. A load from one would end
 * the process here. */
static void test_scan__forbidden_rows_are_never_loaded(void **state)
{
    fixture *f = *state;
    enum { PAGES = 300, PAGE_DIM = 1024 };
    const size_t page = PAGE_DIM * sizeof(float);
    float *rows = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(rows != MAP_FAILED);
    bw_bitmap allowed;
    assert_true(bw_bitmap_heap(PAGES, &allowed));
    float query[PAGE_DIM];
    for (size_t i = 0; i < PAGE_DIM; i++)
        query[i] = 1;
    size_t n = 0;
    for (size_t i = 0; i < PAGES; i++) {
        for (size_t j = 0; j < PAGE_DIM; j++)
            rows[i * PAGE_DIM + j] = (float)i;
        if (i > 100 ? rnd_below(&f->r, 2) : i % 20 > 8) {
            bw_bitmap_set(&allowed, i);
            n++;
        } else {
            assert_int_equal(mprotect(rows + i * PAGE_DIM, page, PROT_NONE), 0);
        }
    }
    for (int metric = 0; metric < 4; metric++) {
        bw_candidate items[PAGES];
        bw_topk t;
        bw_topk_init(&t, items, PAGES);
        bw_scan_f32(bw_kernels_get(), (bw_metric)metric, query, rows, PAGES, PAGE_DIM,
                    &allowed, f->ids, 0, 0, &t);
        assert_int_equal(t.n, n);
    }
    bw_bitmap_free(&allowed);
    assert_int_equal(munmap(rows, PAGES * page), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan__equals_a_plain_loop),
        cmocka_unit_test(test_scan__nothing_allowed_finds_nothing),
        cmocka_unit_test(test_scan__forbidden_rows_are_never_loaded),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
