/* Rows in stored precision: the kernels see exactly what decoding gives, with the bits of
 * the f32 oracle, on every ISA, alone and in blocks; encoding keeps its bounds. */
#include "engine/kernels/half.h"
#include "engine/kernels/kernels.h"
#include "rnd.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { DIM_MAX = 2100, ROWS_MAX = 23, QUERIES_MAX = 11 };

static const char *const isas[] = {"scalar", "avx2", "avx512"};
enum { NISA = sizeof isas / sizeof *isas };

typedef struct fixture {
    rnd r;
    float *decoded, *queries;
    float scales[ROWS_MAX];
    float want[QUERIES_MAX * ROWS_MAX], got[QUERIES_MAX * ROWS_MAX];
} fixture;

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = rnd_start("test_typed", 20261130);
    f->decoded = bw_alloc(ROWS_MAX * DIM_MAX * sizeof(float));
    f->queries = bw_alloc((QUERIES_MAX * DIM_MAX + 1) * sizeof(float));
    assert_non_null(f->decoded);
    assert_non_null(f->queries);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_free(f->decoded);
    bw_free(f->queries);
    bw_free(f);
    return 0;
}

/* Every NaN counts as the same (test_kernels.c says why). */
static uint32_t bits(float x)
{
    return x == x ? bw_bits_of(x) : 0x7FC00000u;
}

static float odd_value(rnd *r)
{
    static const float odd[] = {0.0f,  -0.0f,        INFINITY,      -INFINITY, NAN,
                                1e-45f, FLT_MIN / 2, -FLT_MIN / 64, FLT_MAX};
    const size_t i = rnd_below(r, 40);
    return i < sizeof odd / sizeof *odd ? odd[i]
                                        : ldexpf((float)rnd_gauss(r),
                                                 (int)rnd_below(r, 60) - 30);
}

/* Any bits are legal rows: subnormals, infinities and NaN among them. */
static void rows_fill(fixture *f, bw_dtype t, void *rows, size_t n, size_t dim, bool odd)
{
    unsigned char *p = rows;
    if (odd || t == BW_DTYPE_I8) {
        for (size_t i = 0; i < n * dim * bw_dtype_size(t); i++)
            p[i] = (unsigned char)rnd_u64(&f->r);
        for (size_t i = 0; i < n; i++)
            f->scales[i] = odd ? odd_value(&f->r) : (float)rnd_unit(&f->r);
        return;
    }
    for (size_t i = 0; i < n * dim; i++)
        f->decoded[i] = (float)rnd_gauss(&f->r);
    assert_true(bw_encode_rows(t, f->decoded, n, dim, rows, NULL));
}

static void check_one(fixture *f, bw_dtype t, const void *rows, size_t n, size_t nq,
                      size_t dim)
{
    const bw_kernels *oracle = bw_kernels_isa("scalar");
    const float *queries[QUERIES_MAX];
    for (size_t q = 0; q < nq; q++)
        queries[q] = f->queries + 1 + q * dim; /* not aligned */
    for (size_t i = 0; i < n; i++)
        oracle->decode[t](bw_row_at(t, rows, dim, i), f->scales[i], dim,
                          f->decoded + i * dim);
    for (int op = 0; op < BW_NOPS; op++) {
        for (size_t q = 0; q < nq; q++)
            oracle->rows[BW_DTYPE_F32][op](queries[q], f->decoded, NULL, n, dim,
                                           f->want + q * n);
        for (size_t s = 0; s < NISA; s++) {
            const bw_kernels *k = bw_kernels_isa(isas[s]);
            if (!k)
                continue;
            for (int form = 0; form < 2; form++) {
                memset(f->got, 0xFF, sizeof f->got);
                if (form == 0)
                    k->block[t][op](queries, nq, rows, f->scales, n, dim, f->got);
                for (size_t q = 0; q < nq && form == 1; q++)
                    k->rows[t][op](queries[q], rows, f->scales, n, dim, f->got + q * n);
                for (size_t i = 0; i < n * nq; i++)
                    if (bits(f->got[i]) != bits(f->want[i]))
                        fail_msg("%s type %d op %d form %d dim %zu query %zu of %zu row "
                                 "%zu of %zu: %a, oracle %a",
                                 isas[s], (int)t, op, form, dim, i / n, nq, i % n, n,
                                 (double)f->got[i], (double)f->want[i]);
                assert_true(bw_bits_of(f->got[n * nq == QUERIES_MAX * ROWS_MAX
                                                  ? 0
                                                  : n * nq]) == 0xFFFFFFFFu ||
                            n * nq == QUERIES_MAX * ROWS_MAX);
            }
        }
    }
}

static void check_decoding(fixture *f, bw_dtype t, const void *rows, size_t dim)
{
    const bw_kernels *oracle = bw_kernels_isa("scalar");
    for (size_t s = 0; s < NISA; s++) {
        const bw_kernels *k = bw_kernels_isa(isas[s]);
        if (!k)
            continue;
        float *got = f->decoded + dim;
        oracle->decode[t](rows, f->scales[0], dim, f->decoded);
        k->decode[t](rows, f->scales[0], dim, got);
        for (size_t i = 0; i < dim; i++)
            assert_int_equal(bits(got[i]), bits(f->decoded[i]));
    }
}

static void check_dim(fixture *f, size_t dim, bool odd)
{
    for (int t = 0; t < BW_NDTYPES; t++) {
        const size_t n = 1 + rnd_below(&f->r, ROWS_MAX), size = bw_dtype_size((bw_dtype)t);
        const size_t nq = 1 + rnd_below(&f->r, QUERIES_MAX), bytes = n * dim * size;
        /* The rows begin one element past an alignment, and end with the block: ASan
         * sees a load past either end. */
        unsigned char *block = bw_alloc(bytes + size);
        assert_non_null(block);
        for (size_t i = 0; i < nq * dim; i++)
            f->queries[1 + i] = odd ? odd_value(&f->r) : (float)rnd_gauss(&f->r);
        rows_fill(f, (bw_dtype)t, block + size, n, dim, odd);
        check_one(f, (bw_dtype)t, block + size, n, nq, dim);
        check_decoding(f, (bw_dtype)t, block + size, dim);
        bw_free(block);
    }
}

static void test_typed__same_bits_as_f32_over_the_decoded(void **state)
{
    fixture *f = *state;
    static const size_t wide[] = {128, 300, 383, 384, 1023, 1536, 2049, DIM_MAX};
    for (size_t s = 0; s < NISA; s++)
        print_message("%s: %s\n", isas[s], bw_kernels_isa(isas[s]) ? "run" : "not run");
    for (size_t dim = 1; dim <= 140; dim++)
        for (int odd = 0; odd < 2; odd++)
            check_dim(f, dim, odd);
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        for (int odd = 0; odd < 2; odd++)
            check_dim(f, wide[i], odd);
}

static void test_typed__nothing_is_a_legal_length(void **state)
{
    fixture *f = *state;
    const float *q = f->queries;
    for (size_t s = 0; s < NISA; s++) {
        const bw_kernels *k = bw_kernels_isa(isas[s]);
        for (int t = 0; k && t < BW_NDTYPES; t++) {
            float out = 7;
            k->rows[t][0](q, f->decoded, f->scales, 0, 8, NULL);
            k->block[t][0](&q, 1, f->decoded, f->scales, 0, 8, NULL);
            k->block[t][0](&q, 0, f->decoded, f->scales, 3, 8, NULL);
            k->block[t][0](&q, 1, f->decoded, f->scales, 1, 0, &out);
            assert_true(out == 0);
        }
    }
}

static void test_half__decoding_is_exact(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
        const double sign = h >> 15 ? -1 : 1;
        const float got = bw_f16_get((uint16_t)h);
        if (e == 31)
            assert_true(m ? isnan(got) : (double)got == sign * INFINITY);
        else
            assert_true((double)got == sign * (e ? ldexp(1024 + m, e - 25)
                                                 : ldexp(m, -24)));
        assert_int_equal(signbit(got) != 0, h >> 15);
        const float b = bw_bf16_get((uint16_t)h);
        assert_int_equal(bw_bits_of(b), h << 16);
        uint16_t back;
        if (isfinite(got)) {
            assert_true(bw_f16_put(got, &back));
            assert_int_equal(back, h);
        } else {
            assert_false(bw_f16_put(got, &back));
        }
        if (isfinite(b)) {
            assert_true(bw_bf16_put(b, &back));
            assert_int_equal(back, h);
        } else {
            assert_false(bw_bf16_put(b, &back));
        }
    }
}

typedef bool put_fn(float x, uint16_t *out);
typedef float get_fn(uint16_t h);

/* Between two neighbours a and b: below the middle to a, above it to b, at it to even. */
static void check_rounding(put_fn *put, get_fn *get, uint16_t last)
{
    for (uint16_t h = 0; h < last; h++) {
        const double a = (double)get(h), b = (double)get((uint16_t)(h + 1));
        const float middle = (float)((a + b) / 2); /* exact: one bit more */
        uint16_t got;
        assert_true((double)middle == (a + b) / 2);
        assert_true(put(middle, &got));
        assert_int_equal(got, h + (h & 1));
        assert_true(put(-middle, &got));
        assert_int_equal(got, (h + (h & 1)) | 0x8000);
        assert_true(put(nextafterf(middle, 0), &got));
        assert_int_equal(got, h);
        assert_true(put(nextafterf(middle, INFINITY), &got));
        assert_int_equal(got, h + 1);
    }
}

static void test_half__rounds_to_nearest_even(void **state)
{
    (void)state;
    check_rounding(bw_f16_put, bw_f16_get, 0x7BFF);
    check_rounding(bw_bf16_put, bw_bf16_get, 0x7F7F);
}

static void test_encode__refuses_what_does_not_fit(void **state)
{
    (void)state;
    static const float never[] = {NAN, INFINITY, -INFINITY};
    uint16_t half[2];
    int8_t codes[2];
    float scale;
    for (size_t i = 0; i < 3; i++) {
        const float in[2] = {1, never[i]};
        assert_false(bw_encode_rows(BW_DTYPE_F16, in, 1, 2, half, NULL));
        assert_false(bw_encode_rows(BW_DTYPE_BF16, in, 1, 2, half, NULL));
        assert_false(bw_encode_rows(BW_DTYPE_I8, in, 1, 2, codes, &scale));
    }
    const float f16_last = nextafterf(65520, 0), bf16_end = 0x1.FFp127f;
    float in[2] = {0, f16_last};
    assert_true(bw_encode_rows(BW_DTYPE_F16, in, 2, 1, half, NULL));
    assert_int_equal(half[1], 0x7BFF);
    in[0] = -65520;
    assert_false(bw_encode_rows(BW_DTYPE_F16, in, 2, 1, half, NULL));
    in[0] = -nextafterf(bf16_end, 0);
    assert_true(bw_encode_rows(BW_DTYPE_BF16, in, 1, 2, half, NULL));
    assert_int_equal(half[0], 0xFF7F);
    in[0] = bf16_end;
    assert_false(bw_encode_rows(BW_DTYPE_BF16, in, 1, 2, half, NULL));
    /* The largest float: taken only when the code's value is finite again. */
    in[0] = FLT_MAX;
    if (bw_encode_rows(BW_DTYPE_I8, in, 1, 2, codes, &scale))
        assert_true(scale * (float)codes[0] <= FLT_MAX);
}

static void test_encode__keeps_the_stated_bounds(void **state)
{
    fixture *f = *state;
    enum { N = 5 };
    static unsigned char rows[N * DIM_MAX * sizeof(float)];
    float *in = f->queries, *out = f->decoded;
    for (int round = 0; round < 300; round++) {
        const size_t dim = 1 + rnd_below(&f->r, DIM_MAX);
        const int e = (int)rnd_below(&f->r, 276) - 150, spread = round % 3 ? 4 : 40;
        for (size_t i = 0; i < N * dim; i++)
            in[i] = ldexpf((float)(2 * rnd_unit(&f->r) - 1),
                           e - (int)rnd_below(&f->r, (size_t)spread));
        for (int t = 0; t < BW_NDTYPES; t++) {
            if (!bw_encode_rows((bw_dtype)t, in, N, dim, rows, f->scales)) {
                assert_true(t == BW_DTYPE_F16 && e > 15);
                continue;
            }
            bw_decode_rows((bw_dtype)t, rows, f->scales, N, dim, out);
            for (size_t i = 0; i < N * dim; i++) {
                const double x = fabs((double)in[i]);
                const double bound = t == BW_DTYPE_F32   ? 0
                                     : t == BW_DTYPE_F16 ? fmax(0x1p-11 * x, 0x1p-25)
                                     : t == BW_DTYPE_BF16
                                         ? fmax(0x1p-8 * x, 0x1p-134)
                                         : (double)f->scales[i / dim] * (0.5 + 0x1p-16);
                if (fabs((double)in[i] - (double)out[i]) > bound)
                    fail_msg("type %d: %a became %a", t, (double)in[i], (double)out[i]);
            }
        }
    }
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static void test_encode__is_monotone(void **state)
{
    fixture *f = *state;
    static unsigned char rows[DIM_MAX * sizeof(float)];
    for (int e = -150; e < 10; e += 5) {
        for (size_t i = 0; i < DIM_MAX; i++)
            f->queries[i] = ldexpf((float)rnd_gauss(&f->r), e);
        qsort(f->queries, DIM_MAX, sizeof(float), by_value);
        for (int t = 0; t < BW_NDTYPES; t++) {
            assert_true(
                bw_encode_rows((bw_dtype)t, f->queries, 1, DIM_MAX, rows, f->scales));
            bw_decode_rows((bw_dtype)t, rows, f->scales, 1, DIM_MAX, f->decoded);
            for (size_t i = 1; i < DIM_MAX; i++)
                assert_true(f->decoded[i - 1] <= f->decoded[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_typed__same_bits_as_f32_over_the_decoded),
        cmocka_unit_test(test_typed__nothing_is_a_legal_length),
        cmocka_unit_test(test_half__decoding_is_exact),
        cmocka_unit_test(test_half__rounds_to_nearest_even),
        cmocka_unit_test(test_encode__refuses_what_does_not_fit),
        cmocka_unit_test(test_encode__keeps_the_stated_bounds),
        cmocka_unit_test(test_encode__is_monotone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
