/* Several queries in one scan equal each query alone; a row that none may see is never
 * loaded, and no query meets a row that only others may see. */
#include "engine/kernels/scan.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { N = 1500, DIM = 37, K = 12, NQ_MAX = 70, NMAPS = 4 };

typedef struct fixture {
    rnd r;
    float *rows, *queries, *scales;
    void *stored[BW_NDTYPES];
    bw_point_id *ids;
    bw_bitmap maps[NMAPS];
    bw_candidate got[NQ_MAX][K], want[NQ_MAX][K];
    bw_topk gots[NQ_MAX], wants[NQ_MAX];
} fixture;

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = rnd_start("test_scan_block", 43);
    f->rows = bw_alloc_vectors(N * DIM * sizeof(float));
    f->queries = bw_alloc_vectors(NQ_MAX * DIM * sizeof(float));
    f->scales = bw_alloc_vectors(N * sizeof(float));
    f->ids = bw_calloc(N, sizeof *f->ids);
    assert_true(f->rows && f->queries && f->scales && f->ids);
    for (size_t i = 0; i < N * DIM; i++)
        f->rows[i] = (float)rnd_below(&f->r, 5) - 2; /* small integers: many ties */
    for (size_t i = 0; i < N; i++)
        f->ids[i] = (bw_point_id){0, rnd_below(&f->r, N / 2), 0, 0};
    for (int t = 0; t < BW_NDTYPES; t++) {
        f->stored[t] = bw_alloc_vectors(N * DIM * bw_dtype_size((bw_dtype)t));
        assert_non_null(f->stored[t]);
        assert_true(bw_encode_rows((bw_dtype)t, f->rows, N, DIM, f->stored[t], f->scales));
    }
    for (size_t m = 0; m < NMAPS; m++) /* one is shorter than the rows */
        assert_true(bw_bitmap_heap(m == 1 ? N / 3 : N, &f->maps[m]));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    for (int t = 0; t < BW_NDTYPES; t++)
        bw_free_vectors(f->stored[t]);
    for (size_t m = 0; m < NMAPS; m++)
        bw_bitmap_free(&f->maps[m]);
    bw_free_vectors(f->rows);
    bw_free_vectors(f->queries);
    bw_free_vectors(f->scales);
    bw_free(f->ids);
    bw_free(f);
    return 0;
}

/* Density in eighths; above 8: runs of ones and zeros of random length. */
static void map_fill(fixture *f, bw_bitmap *b, size_t density)
{
    memset(b->words, 0, bw_bitmap_words(b->nbits) * sizeof *b->words);
    for (size_t i = 0; i < b->nbits && density <= 8; i++)
        if (rnd_below(&f->r, 8) < density)
            bw_bitmap_set(b, i);
    for (size_t i = 0; i < b->nbits && density > 8; i += 1 + rnd_below(&f->r, 150)) {
        const size_t end = i + rnd_below(&f->r, 300);
        for (; i < end && i < b->nbits; i++)
            bw_bitmap_set(b, i);
    }
}

static void want_find(fixture *f, const bw_kernels *k, const bw_scan_input *in,
                      const bw_scan_query *q, bw_topk *want)
{
    float row[DIM];
    for (size_t i = 0; i < in->n; i++) {
        if (!bw_bitmap_get(q->allowed, i))
            continue;
        bw_decode_rows(in->dtype, bw_row_at(in->dtype, in->rows, DIM, i), f->scales + i,
                       1, DIM, row);
        const bw_candidate c = {bw_metric_key(k, in->metric, q->query, row, DIM),
                                in->part, in->row0 + (uint32_t)i, f->ids[i]};
        bw_topk_push(want, &c);
    }
}

static void lists_compare(fixture *f, size_t q)
{
    assert_int_equal(f->gots[q].n, f->wants[q].n);
    bw_topk_sort(&f->gots[q]);
    bw_topk_sort(&f->wants[q]);
    for (size_t i = 0; i < f->gots[q].n; i++) {
        assert_int_equal(bw_candidate_cmp(&f->got[q][i], &f->want[q][i]), 0);
        assert_true(memcmp(&f->got[q][i].key, &f->want[q][i].key, sizeof(float)) == 0);
    }
}

static void check_block(fixture *f, const bw_kernels *k, bw_dtype t, bw_metric metric)
{
    const size_t nq = 1 + rnd_below(&f->r, rnd_below(&f->r, 3) ? 9 : NQ_MAX);
    const bw_scan_input in = {.metric = metric,
                              .dtype = t,
                              .rows = f->stored[t],
                              .scales = t == BW_DTYPE_I8 ? f->scales : NULL,
                              .ids = f->ids,
                              .n = N - rnd_below(&f->r, 70),
                              .dim = DIM,
                              .part = 3,
                              .row0 = 1000};
    bw_scan_query qs[NQ_MAX];
    for (size_t i = 0; i < nq * DIM; i++)
        f->queries[i] = (float)rnd_gauss(&f->r);
    for (size_t m = 0; m < NMAPS; m++)
        map_fill(f, &f->maps[m], rnd_below(&f->r, 11));
    for (size_t q = 0; q < nq; q++) {
        bw_topk_init(&f->gots[q], f->got[q], q % 5 == 4 ? 1 : K);
        bw_topk_init(&f->wants[q], f->want[q], q % 5 == 4 ? 1 : K);
        qs[q] = (bw_scan_query){f->queries + q * DIM,
                                &f->maps[rnd_below(&f->r, NMAPS)], &f->gots[q]};
        want_find(f, k, &in, &qs[q], &f->wants[q]);
    }
    if (nq == 1)
        bw_scan_rows(k, &in, &qs[0]);
    else
        bw_scan_block(k, &in, qs, nq);
    for (size_t q = 0; q < nq; q++)
        lists_compare(f, q);
}

static void test_scan_block__equals_each_query_alone(void **state)
{
    fixture *f = *state;
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    for (size_t s = 0; s < 3; s++) {
        const bw_kernels *k = bw_kernels_isa(isas[s]);
        if (!k) {
            print_message("%s: not run (this machine lacks it)\n", isas[s]);
            continue;
        }
        for (int round = 0; round < 48; round++)
            check_block(f, k, (bw_dtype)(round % BW_NDTYPES),
                        (bw_metric)(round / BW_NDTYPES % 4));
    }
}

/* One row a page; pages of rows that no query may see cannot be read, so that a load
 * from one would end the process. A row that only the other query may see has values
 * that would win: it must not be in this one's list. */
static void check_pages(fixture *f, bw_dtype t, bw_metric metric)
{
    enum { PAGES = 200, PAGE = 4096 };
    const size_t dim = PAGE / bw_dtype_size(t);
    unsigned char *rows = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(rows != MAP_FAILED);
    float *query = bw_calloc(dim, sizeof *query), *row = bw_calloc(dim, sizeof *row);
    assert_true(query && row);
    bw_bitmap maps[2];
    size_t count[2] = {0, 0};
    for (size_t q = 0; q < 2; q++)
        assert_true(bw_bitmap_heap(PAGES, &maps[q]));
    for (size_t i = 0; i < PAGES; i++) {
        for (size_t j = 0; j < dim; j++)
            row[j] = (float)(i % 16);
        assert_true(bw_encode_rows(t, row, 1, dim, rows + i * PAGE, f->scales + i));
        const size_t who = i > 60 ? rnd_below(&f->r, 4) : i / 12 % 4;
        for (size_t q = 0; q < 2; q++)
            if (who >> q & 1) {
                bw_bitmap_set(&maps[q], i);
                count[q]++;
            }
        if (who == 0)
            assert_int_equal(mprotect(rows + i * PAGE, PAGE, PROT_NONE), 0);
    }
    const bw_scan_input in = {.metric = metric,
                              .dtype = t,
                              .rows = rows,
                              .scales = f->scales,
                              .ids = f->ids,
                              .n = PAGES,
                              .dim = dim};
    bw_candidate items[7][PAGES];
    bw_topk out[7];
    bw_scan_query qs[7];
    for (size_t q = 0; q < 7; q++) {
        bw_topk_init(&out[q], items[q], PAGES);
        qs[q] = (bw_scan_query){query, &maps[q % 2], &out[q]};
    }
    bw_scan_block(bw_kernels_get(), &in, qs, 7);
    for (size_t q = 0; q < 7; q++) {
        assert_int_equal(out[q].n, count[q % 2]);
        for (size_t i = 0; i < out[q].n; i++)
            assert_true(bw_bitmap_get(&maps[q % 2], items[q][i].row));
        bw_topk_init(&out[q], items[q], PAGES);
    }
    /* Alone, the rows of the other query cannot be read either. */
    for (size_t i = 0; i < PAGES; i++)
        if (!bw_bitmap_get(&maps[0], i))
            assert_int_equal(mprotect(rows + i * PAGE, PAGE, PROT_NONE), 0);
    bw_scan_rows(bw_kernels_get(), &in, &qs[0]);
    assert_int_equal(out[0].n, count[0]);
    for (size_t q = 0; q < 2; q++)
        bw_bitmap_free(&maps[q]);
    bw_free(query);
    bw_free(row);
    assert_int_equal(munmap(rows, PAGES * PAGE), 0);
}

static void test_scan_block__forbidden_rows_are_never_loaded(void **state)
{
    fixture *f = *state;
    for (int t = 0; t < BW_NDTYPES; t++)
        for (int metric = 0; metric < 4; metric++)
            check_pages(f, (bw_dtype)t, (bw_metric)metric);
    /* The rows' scales of the other test were overwritten. */
    assert_true(bw_encode_rows(BW_DTYPE_I8, f->rows, N, DIM, f->stored[BW_DTYPE_I8],
                               f->scales));
}

static void test_scan_block__no_query_and_no_row(void **state)
{
    fixture *f = *state;
    const bw_scan_input in = {.dtype = BW_DTYPE_F16, .ids = f->ids, .dim = DIM};
    const bw_bitmap none = {NULL, 0};
    bw_topk_init(&f->gots[0], f->got[0], K);
    const bw_scan_query q = {f->queries, &none, &f->gots[0]};
    bw_scan_block(bw_kernels_get(), &in, NULL, 0);
    bw_scan_block(bw_kernels_get(), &in, &q, 1);
    bw_scan_rows(bw_kernels_get(), &in, &q);
    assert_int_equal(f->gots[0].n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_block__equals_each_query_alone),
        cmocka_unit_test(test_scan_block__forbidden_rows_are_never_loaded),
        cmocka_unit_test(test_scan_block__no_query_and_no_row),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
