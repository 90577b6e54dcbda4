/* Sparse index against a plain loop over all rows; document frequencies; fixed bits. */
#include "engine/index/index.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ROWS = 400, TERMS = 60, NNZ = 12, K = 20 };

typedef struct row {
    uint32_t indices[NNZ];
    float values[NNZ];
    size_t n;
} row;

typedef struct fixture {
    rnd r;
    bw_ctx *ctx;
    bw_sparse_index *ix;
    row rows[ROWS];
    bw_point_id ids[ROWS];
    bw_bitmap allowed;
} fixture;

/* Some indices at the far end of 32 bits; small dyadic values, so that sums cancel. */
static void row_make(rnd *r, row *out)
{
    out->n = 0;
    for (uint32_t t = 0; t < TERMS && out->n < NNZ; t++)
        if (rnd_below(r, TERMS / 6) == 0) {
            out->indices[out->n] = t < TERMS / 2 ? t : UINT32_MAX - TERMS + t;
            out->values[out->n++] = ((float)rnd_below(r, 9) - 4) / 4;
        }
}

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = rnd_start("test_sparse", 3);
    f->ctx = bw_ctx_new(0);
    f->ix = bw_sparse_new();
    assert_non_null(f->ctx);
    assert_non_null(f->ix);
    assert_true(bw_bitmap_heap(ROWS, &f->allowed));
    for (uint32_t i = 0; i < ROWS; i++) {
        f->ids[i].lo = 2 * ROWS - i;
        if (i % 7 == 3)
            continue; /* rows without this vector */
        row_make(&f->r, &f->rows[i]);
        assert_int_equal(bw_sparse_add(f->ctx, f->ix, i, f->rows[i].indices,
                                       f->rows[i].values, f->rows[i].n),
                         BW_OK);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_sparse_free(f->ix);
    bw_sparse_free(NULL);
    bw_bitmap_free(&f->allowed);
    bw_ctx_free(f->ctx);
    bw_free(f);
    return 0;
}

static float plain_score(const row *q, const row *d, bool *shared)
{
    float s = 0;
    *shared = false;
    for (size_t i = 0; i < q->n; i++)
        for (size_t j = 0; j < d->n; j++)
            if (q->indices[i] == d->indices[j]) {
                s += q->values[i] * d->values[j];
                *shared = true;
            }
    return s;
}

static void test_sparse__equals_a_plain_loop(void **state)
{
    fixture *f = *state;
    for (int round = 0; round < 300; round++) {
        row q;
        bw_candidate got[K], want[K];
        bw_topk g, w;
        row_make(&f->r, &q);
        for (size_t i = 0; i < ROWS; i++)
            if (rnd_below(&f->r, 4))
                bw_bitmap_set(&f->allowed, i);
            else
                bw_bitmap_unset(&f->allowed, i);
        bw_topk_init(&g, got, K);
        bw_topk_init(&w, want, K);
        assert_int_equal(bw_sparse_search(f->ctx, f->ix, q.indices, q.values, q.n,
                                          &f->allowed, f->ids, 5, &g),
                         BW_OK);
        for (uint32_t i = 0; i < ROWS; i++) {
            bool shared;
            const float s = plain_score(&q, &f->rows[i], &shared);
            if (s == 0 || !bw_bitmap_get(&f->allowed, i))
                continue;
            const bw_candidate c = {s, 5, i, f->ids[i]};
            bw_topk_push(&w, &c);
        }
        assert_int_equal(g.n, w.n);
        bw_topk_sort(&g);
        bw_topk_sort(&w);
        for (size_t i = 0; i < g.n; i++) {
            assert_int_equal(bw_candidate_cmp(&got[i], &want[i]), 0);
            assert_memory_equal(&got[i].key, &want[i].key, sizeof(float));
        }
        bw_ctx_reset(f->ctx);
    }
}

static void test_sparse__df_counts_live_rows_and_adds(void **state)
{
    fixture *f = *state;
    const uint32_t indices[] = {0, 7, TERMS / 2 - 1, 4711, UINT32_MAX - 5};
    uint64_t df[5] = {1000, 0, 0, 0, 0}, want[5] = {1000, 0, 0, 0, 0};
    for (size_t i = 0; i < ROWS; i++)
        if (i % 3)
            bw_bitmap_set(&f->allowed, i);
        else
            bw_bitmap_unset(&f->allowed, i);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; i % 3 && j < f->rows[i].n; j++)
            for (size_t t = 0; t < 5; t++)
                want[t] += f->rows[i].indices[j] == indices[t];
    assert_int_equal(bw_sparse_df(f->ctx, f->ix, indices, 5, &f->allowed, df), BW_OK);
    for (size_t t = 0; t < 5; t++)
        assert_int_equal(df[t], want[t]);
    assert_int_equal(df[3], 0);
}

static void test_sparse__refuses_disorder_and_keeps_its_state(void **state)
{
    fixture *f = *state;
    bw_sparse_index *ix = bw_sparse_new();
    assert_non_null(ix);
    const uint32_t up[] = {1, 2}, down[] = {2, 1}, twice[] = {2, 2};
    const float v[] = {1, 1};
    uint64_t df[2] = {0, 0};
    bw_bitmap all;
    assert_true(bw_bitmap_heap(4, &all));
    bw_bitmap_fill(&all);
    assert_int_equal(bw_sparse_add(f->ctx, ix, 1, up, v, 2), BW_OK);
    assert_int_equal(bw_sparse_add(f->ctx, ix, 2, down, v, 2), BW_EINVALID);
    assert_int_equal(bw_sparse_add(f->ctx, ix, 2, twice, v, 2), BW_EINVALID);
    assert_int_equal(bw_sparse_add(f->ctx, ix, 1, up, v, 2), BW_EINTERNAL);
    assert_int_equal(bw_sparse_df(f->ctx, ix, up, 2, &all, df), BW_OK);
    assert_int_equal(df[0], 1);
    assert_int_equal(df[1], 1);
    bw_candidate item;
    bw_topk t;
    bw_topk_init(&t, &item, 1);
    assert_int_equal(bw_sparse_search(f->ctx, ix, down, v, 2, &all, f->ids, 0, &t),
                     BW_EINVALID);
    assert_int_equal(bw_sparse_search(f->ctx, ix, up, v, 0, &all, f->ids, 0, &t),
                     BW_OK);
    assert_int_equal(t.n, 0);
    bw_bitmap_free(&all);
    bw_sparse_free(ix);
}

/* ---- memory ---- */

static int allocations_left;
static void *alloc_failing(size_t n)
{
    return allocations_left-- > 0 ? malloc(n) : NULL;
}
static void *realloc_failing(void *p, size_t n)
{
    return allocations_left-- > 0 ? realloc(p, n) : NULL;
}

/* Each allocation in turn fails: the row is then absent as a whole, and adding it again
 * works. */
static void test_sparse__no_memory_leaves_no_half_row(void **state)
{
    fixture *f = *state;
    const bw_allocator failing = {alloc_failing, realloc_failing, free};
    const uint32_t indices[] = {3, 5, 900};
    const float v[] = {1, 2, 3};
    bool failed = true;
    bw_bitmap all;
    assert_true(bw_bitmap_heap(8, &all));
    bw_bitmap_fill(&all);
    for (int n = 0; failed && n < 100; n++) {
        bw_sparse_index *ix = bw_sparse_new();
        assert_non_null(ix);
        bw_allocator_set(&failing);
        allocations_left = n;
        const bw_status status = bw_sparse_add(f->ctx, ix, 0, indices, v, 3);
        bw_allocator_set(NULL);
        uint64_t df[3] = {0, 0, 0};
        failed = status != BW_OK;
        if (failed) {
            assert_int_equal(status, BW_ENOMEM);
            assert_int_equal(bw_sparse_df(f->ctx, ix, indices, 3, &all, df), BW_OK);
            assert_int_equal(df[0] + df[1] + df[2], 0);
            assert_int_equal(bw_sparse_add(f->ctx, ix, 0, indices, v, 3), BW_OK);
        }
        assert_int_equal(bw_sparse_df(f->ctx, ix, indices, 3, &all, df), BW_OK);
        assert_int_equal(df[0] + df[1] + df[2], 3);
        bw_sparse_free(ix);
        bw_ctx_reset(f->ctx);
    }
    assert_false(failed);
    bw_bitmap_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sparse__equals_a_plain_loop),
        cmocka_unit_test(test_sparse__df_counts_live_rows_and_adds),
        cmocka_unit_test(test_sparse__refuses_disorder_and_keeps_its_state),
        cmocka_unit_test(test_sparse__no_memory_leaves_no_half_row),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
