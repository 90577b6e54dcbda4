/* Codes and the exact scan over them, against the flat scan: bounds hold, answers equal.
 * BW_NIGHTLY=1 asks 10,000 queries of real embeddings, half a metric: a minute of CPU
 * in a release build. */
#include "engine/index/codes_private.h"
#include "npy.h"
#include "rnd.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 1400, DIM_MAX = 200, K_MAX = 1500, NQ = 11 };

typedef struct fixture {
    rnd r;
    bw_ctx *ctx;
    bw_metric metric;
    size_t dim;
    bw_dtype dtype;
    float *f32;     /* N × dim, decoded */
    void *stored;   /* the same in dtype */
    float *scales;
    bw_codes *codes;
    bw_point_id *ids;
    bw_bitmap allowed[NQ];
    float *queries; /* NQ × dim */
    size_t n;
    bool on_file;
    size_t fetched;
} fixture;

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = rnd_start("test_codes", 4);
    f->ctx = bw_ctx_new(0);
    f->f32 = bw_alloc_vectors(N * DIM_MAX * sizeof(float));
    f->stored = bw_alloc_vectors(N * DIM_MAX * sizeof(float));
    f->scales = bw_calloc(N, sizeof *f->scales);
    f->ids = bw_calloc(N, sizeof *f->ids);
    f->queries = bw_alloc_vectors(NQ * DIM_MAX * sizeof(float));
    assert_true(f->ctx && f->f32 && f->stored && f->scales && f->ids && f->queries);
    for (size_t i = 0; i < NQ; i++)
        assert_true(bw_bitmap_heap(N, &f->allowed[i]));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < NQ; i++)
        bw_bitmap_free(&f->allowed[i]);
    bw_codes_free(f->codes);
    bw_free_vectors(f->f32);
    bw_free_vectors(f->stored);
    bw_free_vectors(f->queries);
    bw_free(f->scales);
    bw_free(f->ids);
    bw_ctx_free(f->ctx);
    bw_free(f);
    return 0;
}

/* ---- rows that try to break it ---- */

static void gauss(fixture *f, float *x, double size)
{
    for (size_t d = 0; d < f->dim; d++)
        x[d] = (float)(size * rnd_gauss(&f->r));
}

/* Row i; `wild` adds sizes that only f32 and bf16 hold. */
static void row_make(fixture *f, size_t i, bool wild)
{
    float *x = f->f32 + i * f->dim;
    memset(x, 0, f->dim * sizeof *x);
    switch (rnd_below(&f->r, wild ? 14 : 9)) {
    case 0: /* zero */
        break;
    case 1: /* one-hot, either sign */
        x[rnd_below(&f->r, f->dim)] = rnd_below(&f->r, 2) ? 1.0f : -0.5f;
        break;
    case 2: /* constant */
        for (size_t d = 0; d < f->dim; d++)
            x[d] = 0.125f;
        break;
    case 3: /* a copy of an earlier row, or its opposite */
        if (i) {
            const float sign = rnd_below(&f->r, 3) ? 1.0f : -1.0f;
            const float *y = f->f32 + rnd_below(&f->r, i) * f->dim;
            for (size_t d = 0; d < f->dim; d++)
                x[d] = sign * y[d];
        }
        break;
    case 4: /* a near copy: a cluster */
        gauss(f, x, 1e-4);
        for (size_t d = 0; d < f->dim && i; d++)
            x[d] += f->f32[i / 10 * f->dim + d];
        break;
    case 5: /* small integers: ties */
        for (size_t d = 0; d < f->dim; d++)
            x[d] = (float)rnd_below(&f->r, 3) - 1;
        break;
    case 6: /* far from the origin */
        gauss(f, x, 1.0);
        for (size_t d = 0; d < f->dim; d++)
            x[d] += 20;
        break;
    case 9:
        gauss(f, x, 1e30);
        break;
    case 10:
        gauss(f, x, 1e-30);
        break;
    case 11: /* subnormal */
        gauss(f, x, 1e-41);
        break;
    case 12: /* at the limits of what is bounded */
        gauss(f, x, rnd_below(&f->r, 2) ? 0x1p40 : 0x1p-40);
        break;
    case 13: /* one giant among small ones */
        gauss(f, x, 1e-6);
        x[rnd_below(&f->r, f->dim)] = 1e6f;
        break;
    default:
        gauss(f, x, 1.0);
        break;
    }
}

/* Encodes to dtype and takes the decoded values: they are the truth from here on. */
static void data_make(fixture *f, bw_metric metric, size_t dim, bw_dtype dtype, bool wild)
{
    f->metric = metric;
    f->dim = dim;
    f->dtype = dtype;
    f->n = N;
    for (size_t i = 0; i < N; i++) {
        row_make(f, i, wild);
        f->ids[i] = (bw_point_id){0, rnd_below(&f->r, N / 2), 0, 0};
    }
    if (metric == BW_METRIC_COSINE)
        for (size_t i = 0; i < N; i++)
            bw_normalize_f32(f->f32 + i * dim, dim);
    assert_true(bw_encode_rows(dtype, f->f32, N, dim, f->stored, f->scales));
    bw_decode_rows(dtype, f->stored, f->scales, N, dim, f->f32);
    bw_codes_free(f->codes);
    f->codes = bw_codes_new(metric, (uint32_t)dim, N);
    assert_non_null(f->codes);
    for (size_t i = 0; i < N; i++)
        bw_codes_put(f->codes, (uint32_t)i, f->f32 + i * dim);
    for (size_t q = 0; q < NQ; q++) {
        float *x = f->queries + q * dim;
        gauss(f, x, q == 1 && wild ? 1e30 : q == 2 && wild ? 1e-43 : 1.0);
        if (q == 3)
            memset(x, 0, dim * sizeof *x);
        if (q > 6) /* a row, and one near a row */
            memcpy(x, f->f32 + rnd_below(&f->r, N) * dim, dim * sizeof *x);
        for (size_t d = 0; d < dim && q > 8; d++)
            x[d] += 0.01f * (float)rnd_gauss(&f->r);
    }
}

/* Densities in eighths; 9: blocks of ones and zeros. */
static void allow(fixture *f, bw_bitmap *b, int density)
{
    memset(b->words, 0, bw_bitmap_words(N) * sizeof *b->words);
    if (density == 8)
        bw_bitmap_fill(b);
    for (size_t i = 0; i < N && density < 8; i++)
        if (rnd_below(&f->r, density ? 8 : 100) < (size_t)(density ? density : 1))
            bw_bitmap_set(b, i);
    for (size_t i = 0; i < N && density > 8; i += 1 + rnd_below(&f->r, 300))
        for (size_t end = i + rnd_below(&f->r, 500); i < end && i < N; i++)
            bw_bitmap_set(b, i);
}

static bw_status fetch(bw_ctx *ctx, void *arg, const uint32_t *which, size_t n, float *out)
{
    fixture *f = arg;
    for (size_t i = 0; i < n; i++) {
        if (which[i] >= f->n)
            return bw_fail(ctx, BW_ECORRUPT, "no such row");
        memcpy(out + i * f->dim, f->f32 + which[i] * f->dim, f->dim * sizeof *out);
    }
    f->fetched += n;
    return BW_OK;
}

static bw_rows view(fixture *f)
{
    bw_rows r = {.dtype = f->dtype, .dim = (uint32_t)f->dim, .n = f->n};
    if (f->on_file) {
        r.fetch = fetch;
        r.arg = f;
    } else {
        r.data = f->stored;
        r.scales = f->dtype == BW_DTYPE_I8 ? f->scales : NULL;
    }
    return r;
}

static void same(bw_topk *got, bw_topk *want)
{
    bw_topk_sort(got);
    bw_topk_sort(want);
    assert_int_equal(got->n, want->n);
    for (size_t i = 0; i < got->n; i++) {
        assert_memory_equal(&got->items[i].key, &want->items[i].key, sizeof(float));
        assert_int_equal(got->items[i].row, want->items[i].row);
        assert_int_equal(got->items[i].part, want->items[i].part);
        assert_int_equal(got->items[i].id.lo, want->items[i].id.lo);
    }
}

static void want_of(fixture *f, size_t q, bw_topk *w)
{
    bw_scan_f32(bw_kernels_get(), f->metric, f->queries + q * f->dim, f->f32, f->n, f->dim,
                &f->allowed[q], f->ids, 3, 1000, w);
}

/* All queries in one call (in passes of eight), each as the flat scan has it. */
static void check_scan(fixture *f, size_t k)
{
    static bw_candidate got[NQ][K_MAX], want[K_MAX];
    bw_topk out[NQ], w;
    bw_codes_query qs[NQ];
    uint64_t counts[NQ] = {0}, alone = 0;
    const bw_rows rows = view(f);
    for (size_t q = 0; q < NQ; q++) {
        bw_topk_init(&out[q], got[q], k);
        qs[q] = (bw_codes_query){f->queries + q * f->dim, &f->allowed[q], &out[q]};
    }
    assert_int_equal(bw_codes_scan(f->ctx, f->codes, &rows, qs, NQ, f->ids, 3, 1000, counts),
                     BW_OK);
    for (size_t q = 0; q < NQ; q++) {
        bw_topk_init(&w, want, k);
        want_of(f, q, &w);
        same(&out[q], &w);
    }
    const size_t q = rnd_below(&f->r, NQ);
    bw_topk_init(&out[q], got[q], k);
    assert_int_equal(bw_codes_scan(f->ctx, f->codes, &rows, &qs[q], 1, f->ids, 3, 1000, &alone),
                     BW_OK);
    bw_topk_init(&w, want, k);
    want_of(f, q, &w);
    same(&out[q], &w);
    assert_int_equal(bw_arena_used(f->ctx), 0);
}

static void codes_scan__gives_what_the_flat_scan_gives(void **state)
{
    fixture *f = *state;
    static const bw_metric metrics[] = {BW_METRIC_DOT, BW_METRIC_COSINE, BW_METRIC_EUCLID};
    static const size_t dims[] = {1, 7, 64, 65, 128, 200}, ks[] = {0, 1, 10, 100, 1000, 1500};
    for (size_t m = 0; m < 3; m++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (int t = 0; t < BW_NDTYPES; t++) {
                const bool wide = t == BW_DTYPE_F32 || t == BW_DTYPE_BF16;
                data_make(f, metrics[m], dims[d], (bw_dtype)t, wide && d % 2 == 1);
                for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
                    for (size_t q = 0; q < NQ; q++)
                        allow(f, &f->allowed[q],
                              i % 2 ? 8 : (int)rnd_below(&f->r, 10));
                    f->on_file = rnd_below(&f->r, 2);
                    check_scan(f, ks[i]);
                }
            }
    f->on_file = false;
}

static void codes_scan__chains_blocks_and_follows_growing_ones(void **state)
{
    fixture *f = *state;
    static bw_candidate got[K_MAX], want[K_MAX];
    data_make(f, BW_METRIC_DOT, 96, BW_DTYPE_F16, false);
    for (size_t q = 0; q < NQ; q++)
        allow(f, &f->allowed[q], 7);
    static const size_t sizes[] = {0, 1, 63, 64, 511, 512, 513, 1000, N};
    bw_topk g, w;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        f->n = sizes[i];
        check_scan(f, 20);
    }
    /* the same rows again as another block, behind better and worse ones */
    for (size_t k = 1; k < 400; k = 3 * k + 1) {
        const bw_rows rows = view(f);
        bw_topk_init(&g, got, k);
        bw_topk_init(&w, want, k);
        for (uint32_t part = 0; part < 3; part++) {
            const bw_codes_query q = {f->queries, &f->allowed[part], &g};
            assert_int_equal(
                bw_codes_scan(f->ctx, f->codes, &rows, &q, 1, f->ids, part, 7, NULL), BW_OK);
            bw_scan_f32(bw_kernels_get(), f->metric, f->queries, f->f32, f->n, f->dim,
                        &f->allowed[part], f->ids, part, 7, &w);
        }
        same(&g, &w);
    }
}

/* ---- passes over blocks: the rows of the fixture, cut ---- */

typedef struct piece { /* rows at … at + n − 1 */
    fixture *f;
    size_t at, n;
    uint64_t words[BW_CODES_QUERIES_MAX][N / 64 + 1];
    bw_bitmap bits[BW_CODES_QUERIES_MAX];
    bw_codes codes;
} piece;

static bw_status piece_fetch(bw_ctx *ctx, void *arg, const uint32_t *which, size_t n, float *out)
{
    const piece *c = arg;
    uint32_t rows[N];
    for (size_t i = 0; i < n; i++)
        rows[i] = which[i] + (uint32_t)c->at;
    return fetch(ctx, c->f, rows, n, out);
}

static void piece_cut(fixture *f, size_t at, size_t n, piece *c)
{
    const bw_codes *all = f->codes;
    memset(c, 0, sizeof *c);
    c->f = f;
    c->at = at;
    c->n = n;
    c->codes = *all;
    c->codes.cap = (uint32_t)n;
    c->codes.codes += at * all->stride;
    c->codes.step += at;
    c->codes.norm += at;
    c->codes.lost += at;
    for (size_t q = 0; q < BW_CODES_QUERIES_MAX; q++) {
        c->bits[q] = (bw_bitmap){c->words[q], n};
        for (size_t i = 0; i < n; i++)
            if (bw_bitmap_get(&f->allowed[q], at + i))
                bw_bitmap_set(&c->bits[q], i);
    }
}

static bw_rows piece_rows(fixture *f, piece *c, bool on_file)
{
    bw_rows r = {.dtype = f->dtype, .dim = (uint32_t)f->dim, .n = c->n};
    if (on_file) {
        r.fetch = piece_fetch;
        r.arg = c;
        return r;
    }
    r.data = bw_row_at(f->dtype, f->stored, f->dim, c->at);
    r.scales = f->dtype == BW_DTYPE_I8 ? f->scales + c->at : NULL;
    return r;
}

enum { ORD0 = 5000, FLAT = 7 /* every so many pieces one is scanned without codes */ };

static uint32_t label_of(uint32_t part, size_t row)
{
    return (uint32_t)(part % 2 ? ORD0 + 3 * row : row);
}

/* One piece into the pass, and into the wanted lists; FLAT ones into both by the scan. */
static void piece_add(fixture *f, bw_codes_pass *p, piece *c, uint32_t part,
                      const bw_codes_query *qs, size_t nq, bw_topk *want)
{
    static uint32_t ord[N];
    const bw_bitmap *allowed[BW_CODES_QUERIES_MAX];
    for (size_t i = 0; i < c->n; i++)
        ord[c->at + i] = label_of(1, c->at + i);
    for (size_t q = 0; q < nq; q++) {
        bw_topk *both[] = {&want[q], qs[q].out};
        allowed[q] = rnd_below(&f->r, 4) ? &c->bits[q] : NULL;
        for (size_t t = 0; t < (part % FLAT ? 1 : 2) && allowed[q]; t++)
            for (size_t i = 0; i < c->n; i++) {
                const bw_candidate one = {
                    bw_metric_key(bw_kernels_get(), f->metric, qs[q].query,
                                  f->f32 + (c->at + i) * f->dim, f->dim),
                    part, label_of(part, c->at + i), f->ids[c->at + i]};
                if (bw_bitmap_get(allowed[q], i))
                    bw_topk_push(both[t], &one);
            }
    }
    const bw_codes_block b = {.codes = &c->codes,
                              .rows = piece_rows(f, c, part % 5 == 4),
                              .ids = f->ids + c->at,
                              .ord = part % 2 ? ord + c->at : NULL,
                              .part = part,
                              .row0 = (uint32_t)c->at};
    if (part % FLAT)
        assert_int_equal(bw_codes_add(p, &b, allowed), BW_OK);
    if (part % 50 == 49)
        assert_int_equal(bw_codes_settle(p), BW_OK);
}

/* Blocks of few rows and many, more of them than may wait, in memory and on file, not all
 * for every query, and other rows pushed in between. */
static void codes_pass__is_a_scan_of_all_its_blocks(void **state)
{
    fixture *f = *state;
    static bw_candidate got[NQ][K_MAX], want[NQ][K_MAX];
    static piece pieces[N];
    static const bw_metric metrics[] = {BW_METRIC_DOT, BW_METRIC_COSINE, BW_METRIC_EUCLID};
    for (size_t round = 0; round < 24; round++) {
        const bool f32 = round % 2;
        data_make(f, metrics[round % 3], 1 + rnd_below(&f->r, DIM_MAX),
                  f32 ? BW_DTYPE_F32 : BW_DTYPE_I8, f32 && round % 4 == 1);
        const size_t nq = 1 + rnd_below(&f->r, BW_CODES_QUERIES_MAX);
        bw_topk out[NQ], w[NQ];
        bw_codes_query qs[NQ];
        for (size_t q = 0; q < BW_CODES_QUERIES_MAX; q++)
            allow(f, &f->allowed[q], (int)rnd_below(&f->r, 10));
        for (size_t q = 0; q < nq; q++) {
            const size_t k = 1 + rnd_below(&f->r, round % 5 ? 30 : 600);
            bw_topk_init(&out[q], got[q], k);
            bw_topk_init(&w[q], want[q], k);
            qs[q] = (bw_codes_query){f->queries + q * f->dim, NULL, &out[q]};
        }
        bw_codes_pass *p;
        const bw_arena_mark mark = bw_arena_mark_get(f->ctx);
        assert_int_equal(bw_codes_begin(f->ctx, f->metric, (uint32_t)f->dim, qs, nq, N, &p),
                         BW_OK);
        uint32_t part = 0;
        for (size_t at = 0, n; at < N; at += n, part++) {
            n = 1 + rnd_below(&f->r, round % 3 ? 6 : 300);
            n = n < N - at ? n : N - at;
            piece_cut(f, at, n, &pieces[part]);
            piece_add(f, p, &pieces[part], part, qs, nq, w);
        }
        assert_int_equal(bw_codes_settle(p), BW_OK);
        for (size_t q = 0; q < nq; q++)
            same(&out[q], &w[q]);
        bw_arena_release(f->ctx, mark);
    }
}

/* Every bound is at least what the kernel computes, also for the tight form. */
static void codes_bound__holds_for_the_computed_key(void **state)
{
    fixture *f = *state;
    static int32_t sums[N];
    static uint32_t at[N + 16];
    static float upper[N + 16];
    static const bw_metric metrics[] = {BW_METRIC_DOT, BW_METRIC_EUCLID};
    int8_t planes[2 * 128];
    size_t seen = 0;
    for (size_t round = 0; round < 40; round++) {
        const bw_metric metric = metrics[round % 2];
        data_make(f, metric, 1 + rnd_below(&f->r, DIM_MAX), BW_DTYPE_F32, round % 4 > 1);
        for (size_t q = 0; q < NQ; q++) {
            bw_code4_query test;
            const float *query = f->queries + q * f->dim;
            if (!bw_codes__query(metric, f->dim, query, &test, planes))
                continue;
            const bw_code4 *k = bw_code4_get();
            k->sums(planes, f->codes->codes, f->codes->stride, test.span, N, sums);
            assert_int_equal(k->reach[metric == BW_METRIC_EUCLID](
                                 &test, sums, f->codes->step, f->codes->norm, f->codes->lost,
                                 N, at, upper),
                             N);
            for (size_t i = 0; i < N; i++) {
                const float key = bw_metric_key(bw_kernels_get(), metric, query,
                                                f->f32 + i * f->dim, f->dim);
                assert_true(upper[i] >= key);
                /* and the first form lets pass whoever reaches a bar */
                if (i % 97)
                    continue;
                bw_codes__worst(metric, &test, key, f->dim);
                const size_t found = k->reach[metric == BW_METRIC_EUCLID](
                    &test, sums + i, f->codes->step + i, f->codes->norm + i,
                    f->codes->lost + i, 1, at, upper + i);
                assert_int_equal(found, 1);
                bw_codes__worst(metric, &test, -INFINITY, f->dim);
                seen++;
            }
        }
    }
    assert_true(seen > 1000);
}

static void code4__is_equal_on_every_isa(void **state)
{
    fixture *f = *state;
    static const char *const isas[] = {"avx2", "avx512", "avx512vnni"};
    static int32_t sums[2][N];
    static uint32_t at[2][N + 16], which[N];
    static float upper[2][N + 16];
    int8_t planes[2 * 128];
    for (size_t round = 0; round < 12; round++) {
        const bw_metric metric = round % 2 ? BW_METRIC_EUCLID : BW_METRIC_DOT;
        data_make(f, metric, 1 + rnd_below(&f->r, DIM_MAX), BW_DTYPE_F32, false);
        const bw_codes *c = f->codes;
        bw_code4_query test;
        if (!bw_codes__query(metric, f->dim, f->queries, &test, planes))
            continue;
        for (size_t i = 0; i < 2 * c->stride && round > 8; i++)
            planes[i] = round % 2 ? 127 : -127; /* the largest sums */
        for (size_t i = 0; i < c->stride * N && round > 9; i++)
            c->codes[i] = 0xff;
        const size_t span = bw_code4_span(planes, c->stride);
        size_t n = 0;
        for (size_t i = 0; i < N; i += 1 + rnd_below(&f->r, 3))
            which[n++] = (uint32_t)i;
        bw_code4_isa("scalar")->sums(planes, c->codes, c->stride, span, N, sums[0]);
        for (size_t j = 0; j < sizeof isas / sizeof *isas; j++) {
            const bw_code4 *k = bw_code4_isa(isas[j]);
            if (!k)
                continue;
            k->sums(planes, c->codes, c->stride, span, N, sums[1]);
            assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
            k->sums_at(planes, c->codes, c->stride, span, which, n, sums[1]);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(sums[1][i], sums[0][which[i]]);
            bw_codes__worst(metric, &test, round % 3 ? -INFINITY : -1.0f, f->dim);
            const int op = metric == BW_METRIC_EUCLID;
            const size_t m = N - rnd_below(&f->r, 20);
            const size_t a = bw_code4_isa("scalar")->reach[op](
                &test, sums[0], c->step, c->norm, c->lost, m, at[0], upper[0]);
            const size_t b = k->reach[op](&test, sums[0], c->step, c->norm, c->lost, m, at[1],
                                          upper[1]);
            assert_int_equal(a, b);
            assert_memory_equal(at[0], at[1], a * sizeof at[0][0]);
            assert_memory_equal(upper[0], upper[1], a * sizeof upper[0][0]);
        }
    }
}

static void code4_coding__is_equal_on_every_isa(void **state)
{
    fixture *f = *state;
    static const char *const isas[] = {"avx2", "avx512", "avx512vnni"};
    const bw_code4 *k[4] = {bw_code4_isa("scalar")};
    size_t n = 1;
    for (size_t j = 0; j < sizeof isas / sizeof *isas; j++)
        if (bw_code4_isa(isas[j]))
            k[n++] = bw_code4_isa(isas[j]);
    for (size_t round = 0; round < 40; round++) {
        data_make(f, BW_METRIC_DOT, 1 + rnd_below(&f->r, DIM_MAX), BW_DTYPE_F32, true);
        for (size_t i = 0; i < N; i += 1 + rnd_below(&f->r, 60)) {
            const float *x = f->f32 + i * f->dim;
            const float per_step = i % 3 ? 8 : (float)(8 / (1e-3 + fabs((double)x[0])));
            float top[2];
            double square[2], xw[2], lost[2];
            int64_t ww[2];
            uint8_t codes[2][128];
            for (size_t j = 0; j < n; j++) {
                const size_t o = j > 0;
                memset(codes[o], 0, sizeof codes[o]);
                k[j]->size(x, f->dim, &top[o], &square[o]);
                k[j]->fit(x, f->dim, per_step, &xw[o], &ww[o]);
                lost[o] = k[j]->write(x, f->dim, per_step, 0.11, codes[o]);
                assert_memory_equal(&top[o], &top[0], sizeof *top);
                assert_memory_equal(&square[o], &square[0], sizeof *square);
                assert_memory_equal(&xw[o], &xw[0], sizeof *xw);
                assert_int_equal(ww[o], ww[0]);
                assert_memory_equal(&lost[o], &lost[0], sizeof *lost);
                assert_memory_equal(codes[o], codes[0], sizeof codes[0]);
            }
        }
    }
}

/* The largest sums that a span may hold, at every dimension mod 16 and of either sign. */
static void code4_sums__never_leave_16_bits(void **state)
{
    (void)state;
    enum { STRIDE = 9 * BW_CODE4_LINE, ROWS = 5 };
    static const char *const isas[] = {"avx2", "avx512", "avx512vnni"};
    rnd r = rnd_start("test_codes span", 6);
    uint8_t codes[ROWS * STRIDE];
    int8_t planes[2 * STRIDE];
    int32_t want[ROWS], got[ROWS];
    size_t spans = 0;
    for (int top = 127; top > 0; top -= 3) {
        const size_t few = 1 + rnd_below(&r, 16), sign = rnd_below(&r, 3);
        for (size_t i = 0; i < sizeof planes; i++) {
            const int v = i % 16 < few ? top : (int)rnd_below(&r, (size_t)top + 1);
            planes[i] = (int8_t)(sign == 0 || (sign == 1 && rnd_below(&r, 2)) ? v : -v);
        }
        const size_t span = bw_code4_span(planes, STRIDE);
        spans |= span == STRIDE ? 1u : span == 2 * BW_CODE4_LINE ? 2u : 4u;
        for (size_t i = 0; i < sizeof codes; i++) {
            const size_t d = i % STRIDE; /* row 0: all 15; 1: where positive; 2: negative */
            const bool low = i < STRIDE || (planes[d] > 0) == (i / STRIDE == 1);
            const bool high = i < STRIDE || (planes[d + STRIDE] > 0) == (i / STRIDE == 1);
            codes[i] = i / STRIDE > 2 ? (uint8_t)rnd_below(&r, 256)
                                      : (uint8_t)((low ? 15 : 0) | (high ? 0xf0 : 0));
        }
        bw_code4_isa("scalar")->sums(planes, codes, STRIDE, span, ROWS, want);
        for (size_t j = 0; j < sizeof isas / sizeof *isas; j++) {
            const bw_code4 *k = bw_code4_isa(isas[j]);
            if (!k)
                continue;
            k->sums(planes, codes, STRIDE, span, ROWS, got);
            assert_memory_equal(got, want, sizeof want);
        }
    }
    assert_int_equal(spans, 7);
}

static void codes_scan__never_reads_codes_of_forbidden_rows(void **state)
{
    fixture *f = *state;
    static bw_candidate items[10];
    data_make(f, BW_METRIC_DOT, 200, BW_DTYPE_F32, false);
    memset(f->allowed[0].words, 0, bw_bitmap_words(N) * 8);
    for (size_t i = 100; i < 300; i++)
        bw_bitmap_set(&f->allowed[0], i);
    /* codes of which only the allowed rows exist: the sanitizer sees any other access */
    const size_t stride = f->codes->stride;
    uint8_t *only = bw_alloc(200 * stride);
    assert_non_null(only);
    memcpy(only, f->codes->codes + 100 * stride, 200 * stride);
    bw_codes c = *f->codes;
    c.codes = (uint8_t *)((uintptr_t)only - 100 * stride);
    const bw_rows rows = view(f);
    bw_topk out;
    bw_topk_init(&out, items, 10);
    const bw_codes_query q = {f->queries, &f->allowed[0], &out};
    assert_int_equal(bw_codes_scan(f->ctx, &c, &rows, &q, 1, f->ids, 0, 0, NULL), BW_OK);
    assert_int_equal(out.n, 10);
    bw_free(only);
}

static void codes_scan__stops_at_the_deadline_and_passes_failures_on(void **state)
{
    fixture *f = *state;
    static bw_candidate items[10];
    data_make(f, BW_METRIC_DOT, 64, BW_DTYPE_F32, false);
    allow(f, &f->allowed[0], 8);
    bw_topk out;
    bw_topk_init(&out, items, 10);
    const bw_codes_query q = {f->queries, &f->allowed[0], &out};
    bw_rows rows = view(f);
    bw_ctx_set_deadline(f->ctx, 1);
    assert_int_equal(bw_codes_scan(f->ctx, f->codes, &rows, &q, 1, f->ids, 0, 0, NULL),
                     BW_ETIMEOUT);
    bw_ctx_set_deadline(f->ctx, 0);
    f->on_file = true;
    rows = view(f);
    f->n = 0; /* fetch refuses */
    assert_int_equal(bw_codes_scan(f->ctx, f->codes, &rows, &q, 1, f->ids, 0, 0, NULL),
                     BW_ECORRUPT);
    f->on_file = false;
    assert_int_equal(bw_arena_used(f->ctx), 0);
}

static void codes__are_the_same_bytes_from_an_image(void **state)
{
    fixture *f = *state;
    data_make(f, BW_METRIC_DOT, 100, BW_DTYPE_F32, false);
    const size_t bytes = bw_codes_image_bytes(100, N);
    void *image = bw_alloc_vectors(bytes);
    assert_non_null(image);
    bw_codes c;
    bw_codes_view(BW_METRIC_DOT, 100, N, image, &c);
    for (size_t i = N; i-- > 0;) {
        bw_codes_put(&c, (uint32_t)i, f->f32); /* overwritten: no trace may stay */
        bw_codes_put(&c, (uint32_t)i, f->f32 + i * 100);
    }
    assert_memory_equal(image, f->codes->image, bytes);
    assert_true(bw_codes_bytes(f->codes) >= bytes);
    assert_false(bw_codes_metric(BW_METRIC_MANHATTAN));
    bw_free_vectors(image);
}

/* Real embeddings: the flat scan's answer, few rows scored. */
static void codes_scan__is_exact_on_real_embeddings(void **state)
{
    (void)state;
    const char *path = BW_SHARED "/bench/minilm-20k.f16.npy";
    if (access(path, R_OK) != 0)
        skip();
    const bool nightly = getenv("BW_NIGHTLY") != NULL;
    npy data;
    assert_int_equal(npy_read(path, nightly ? 0 : 3000, &data), 0);
    static bw_candidate got[1000], want[1000];
    static const size_t ks[] = {10, 100, 1000};
    rnd r = rnd_start("test_codes real", 5);
    bw_ctx *ctx = bw_ctx_new(0);
    bw_point_id *ids = bw_calloc(data.n, sizeof *ids);
    bw_bitmap all;
    assert_true(bw_bitmap_heap(data.n, &all));
    bw_bitmap_fill(&all);
    float *q = bw_alloc_vectors(data.dim * sizeof *q);
    uint64_t scored[3] = {0};
    const size_t nq = nightly ? 5000 : 30; /* a metric */
    for (int m = 0; m < 2; m++) {
        const bw_metric metric = m ? BW_METRIC_EUCLID : BW_METRIC_COSINE;
        bw_codes *c = bw_codes_new(metric, (uint32_t)data.dim, (uint32_t)data.n);
        for (size_t i = 0; i < data.n; i++) {
            ids[i].lo = i;
            bw_codes_put(c, (uint32_t)i, data.values + i * data.dim);
        }
        const bw_rows rows = {.dim = (uint32_t)data.dim, .n = data.n, .data = data.values};
        for (size_t i = 0; i < nq; i++) {
            const float *a = data.values + rnd_below(&r, data.n) * data.dim;
            const float *b = data.values + rnd_below(&r, data.n) * data.dim;
            const float t = i % 5 ? (float)rnd_unit(&r) : 0;
            for (size_t d = 0; d < data.dim; d++)
                q[d] = (1 - t) * a[d] + t * b[d] + 0.02f * t * (float)rnd_gauss(&r);
            const size_t k = ks[i % 3];
            bw_topk g, w;
            bw_topk_init(&g, got, k);
            bw_topk_init(&w, want, k);
            const bw_codes_query cq = {q, &all, &g};
            assert_int_equal(
                bw_codes_scan(ctx, c, &rows, &cq, 1, ids, 0, 0, &scored[i % 3]), BW_OK);
            bw_scan_f32(bw_kernels_get(), metric, q, data.values, data.n, data.dim, &all, ids,
                        0, 0, &w);
            same(&g, &w);
        }
        bw_codes_free(c);
    }
    printf("scored of %zu rows, a query: k 10: %.1f, 100: %.1f, 1000: %.1f\n", data.n,
           1.5 * (double)scored[0] / (double)nq, 1.5 * (double)scored[1] / (double)nq,
           1.5 * (double)scored[2] / (double)nq);
    assert_true(1.5 * (double)scored[0] / (double)nq < 0.1 * (double)data.n);
    bw_bitmap_free(&all);
    bw_free(ids);
    bw_free_vectors(q);
    bw_free_vectors(data.values);
    bw_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(codes_scan__gives_what_the_flat_scan_gives, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(codes_scan__chains_blocks_and_follows_growing_ones,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(codes_pass__is_a_scan_of_all_its_blocks, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(codes_bound__holds_for_the_computed_key, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(code4__is_equal_on_every_isa, setup, teardown),
        cmocka_unit_test_setup_teardown(code4_coding__is_equal_on_every_isa, setup, teardown),
        cmocka_unit_test(code4_sums__never_leave_16_bits),
        cmocka_unit_test_setup_teardown(codes_scan__never_reads_codes_of_forbidden_rows,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            codes_scan__stops_at_the_deadline_and_passes_failures_on, setup, teardown),
        cmocka_unit_test_setup_teardown(codes__are_the_same_bytes_from_an_image, setup,
                                        teardown),
        cmocka_unit_test(codes_scan__is_exact_on_real_embeddings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
