/* The GPU search's arithmetic (cuda_arith.h) as the C compiler of the host sees it: decoding
 * and the canonical sum have the kernels' bits, and the error bound of the first pass holds
 * for sums cut as badly as it allows, on random rows and on rows made to break it. */
#include "engine/index/cuda_arith.h"
#include "engine/kernels/kernels.h"
#include "engine/kernels/typed.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static_assert(BW_CUDA_METRIC_EUCLID == (int)BW_METRIC_EUCLID &&
                  BW_CUDA_METRIC_MANHATTAN == (int)BW_METRIC_MANHATTAN,
              "the module's metrics are the engine's");

enum { DIM_MAX = 200 };

static void test_cuda_arith__decodes_as_the_kernels(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const uint16_t u = (uint16_t)h;
        const float half = bw_cuda_from_f16(u), bf = bw_cuda_from_bf16(u);
        float want;
        bw_decode_rows(BW_DTYPE_F16, &u, NULL, 1, 1, &want);
        assert_true(memcmp(&half, &want, sizeof want) == 0 || (half != half && want != want));
        if (half == half && fabsf(half) <= 65504)
            assert_int_equal(bw_cuda_to_f16(half), u);
        bw_decode_rows(BW_DTYPE_BF16, &u, NULL, 1, 1, &want);
        assert_true(memcmp(&bf, &want, sizeof want) == 0 || (bf != bf && want != want));
        if (bf == bf && fabsf(bf) < INFINITY)
            assert_int_equal(bw_cuda_to_bf16(bf), u);
    }
    rnd r = rnd_start("test_cuda_arith", 21);
    for (int i = 0; i < 20000; i++) {
        const int8_t code = (int8_t)((int)rnd_below(&r, 255) - 127);
        const float scale = ldexpf((float)rnd_unit(&r) + 0.5f, (int)rnd_below(&r, 60) - 30);
        const float got = bw_cuda_from_i8(code, scale);
        float want;
        bw_decode_rows(BW_DTYPE_I8, &code, &scale, 1, 1, &want);
        assert_memory_equal(&got, &want, sizeof want);
    }
}

/* Near every border between two neighbours, and on it. */
static void test_cuda_arith__encodes_to_the_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7BFF; h++) {
        const float a = bw_cuda_from_f16((uint16_t)h), b = bw_cuda_from_f16((uint16_t)(h + 1));
        const float middle = (a + b) / 2;
        assert_int_equal(bw_cuda_to_f16(middle), h + (h & 1));
        assert_int_equal(bw_cuda_to_f16(nextafterf(middle, 0)), h);
        assert_int_equal(bw_cuda_to_f16(-nextafterf(middle, INFINITY)), (h + 1) | 0x8000u);
    }
    rnd r = rnd_start("test_cuda_arith", 22);
    for (int i = 0; i < 200000; i++) {
        const float f = ldexpf((float)rnd_gauss(&r), (int)rnd_below(&r, 60) - 40);
        uint16_t want;
        if (fabsf(f) <= 65504) {
            assert_true(bw_encode_rows(BW_DTYPE_F16, &f, 1, 1, &want, NULL));
            assert_int_equal(bw_cuda_to_f16(f), want);
        }
        assert_true(bw_encode_rows(BW_DTYPE_BF16, &f, 1, 1, &want, NULL));
        assert_int_equal(bw_cuda_to_bf16(f), want);
    }
}

/* The rescoring kernel's order: four lanes with four sums each, folded by two exchanges. */
static float canonical(bool euclid, const float *q, const float *x, size_t dim)
{
    float s[BW_CUDA_LANES][4] = {{0}};
    for (size_t i = 0; i < dim; i++) {
        float *sum = &s[i % BW_CUDA_SUMS / 4][i % 4];
        *sum = bw_cuda_step(euclid, q[i], x[i], *sum);
    }
    for (size_t j = 0; j < 4; j++) {
        const float low = bw_cuda_add(s[0][j], s[2][j]), high = bw_cuda_add(s[1][j], s[3][j]);
        s[0][j] = bw_cuda_add(low, high);
    }
    return bw_cuda_key(euclid, bw_cuda_fold4(s[0]));
}

static void test_cuda_arith__sums_have_the_bits_of_every_kernel(void **state)
{
    (void)state;
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    rnd r = rnd_start("test_cuda_arith", 23);
    float q[DIM_MAX], x[DIM_MAX];
    for (int i = 0; i < 3000; i++) {
        const size_t dim = 1 + rnd_below(&r, DIM_MAX);
        for (size_t j = 0; j < dim; j++) {
            q[j] = ldexpf((float)rnd_gauss(&r), (int)rnd_below(&r, 12));
            x[j] = i % 3 == 0 ? -q[j] : ldexpf((float)rnd_gauss(&r), (int)rnd_below(&r, 12));
        }
        if (i % 50 == 0)
            x[rnd_below(&r, dim)] = i % 100 == 0 ? INFINITY : NAN;
        for (size_t isa = 0; isa < 3; isa++) {
            const bw_kernels *k = bw_kernels_isa(isas[isa]);
            for (int euclid = 0; k && euclid < 2; euclid++) {
                const bw_metric metric = euclid ? BW_METRIC_EUCLID : BW_METRIC_DOT;
                const float want = bw_metric_key(k, metric, q, x, dim);
                const float got = canonical(euclid, q, x, dim);
                if (memcmp(&got, &want, sizeof got) != 0)
                    fail_msg("%s, dim %zu: %a, expected %a", isas[isa], dim, (double)got, (double)want);
            }
        }
    }
}

static void test_cuda_arith__orders_keys_as_numbers(void **state)
{
    (void)state;
    static const float rising[] = {-INFINITY, -3e38f, -1, -1e-40f, 0, 1e-40f, 1, 3e38f, INFINITY};
    for (size_t i = 0; i + 1 < sizeof rising / sizeof *rising; i++)
        assert_true(bw_cuda_order(rising[i]) < bw_cuda_order(rising[i + 1]));
    assert_int_equal(bw_cuda_order(-0.0f), bw_cuda_order(0.0f));
    assert_int_equal(bw_cuda_order(bw_cuda_absent()), 0);
    assert_int_equal(bw_cuda_order(NAN), 0);
    assert_true(bw_cuda_order(-INFINITY) > 0);
}

/* ---- the bound ---- */

typedef struct pair { /* one query and one row, as the module prepares them */
    uint32_t dtype;
    size_t dim;
    float q[DIM_MAX], x[DIM_MAX];       /* as asked; decoded */
    double qf[2][DIM_MAX], xf[DIM_MAX]; /* parts of the query, the row: what the unit multiplies */
    bw_cuda_query query;
    bw_cuda_row row;
} pair;

static float largest(const float *v, size_t n)
{
    float m = 0;
    for (size_t i = 0; i < n; i++)
        m = fmaxf(m, fabsf(v[i]));
    return m;
}

static double part_value(uint32_t dtype, uint16_t bits)
{
    if (dtype == BW_GPU_I8)
        return (double)(int8_t)(uint8_t)bits;
    return (double)(dtype == BW_GPU_BF16 ? bw_cuda_from_bf16(bits) : bw_cuda_from_f16(bits));
}

/* Encodes p->x and prepares both sides. */
static void prepare(pair *p, bool euclid)
{
    unsigned char stored[DIM_MAX * 4];
    float scale = 1, form_scale = 1;
    double x2 = 0, e2 = 0, q2 = 0, qe2 = 0;
    assert_true(bw_encode_rows((bw_dtype)p->dtype, p->x, 1, p->dim, stored, &scale));
    bw_decode_rows((bw_dtype)p->dtype, stored, &scale, 1, p->dim, p->x);
    const float xm = largest(p->x, p->dim), qm = largest(p->q, p->dim);
    if (p->dtype == BW_GPU_F32)
        form_scale = bw_cuda_unit(BW_GPU_F32, xm);
    else if (p->dtype == BW_GPU_I8)
        form_scale = scale;
    const float unit = bw_cuda_unit(p->dtype, qm);
    for (size_t i = 0; i < p->dim; i++) {
        const double x = (double)p->x[i], q = (double)p->q[i];
        if (p->dtype == BW_GPU_F32)
            p->xf[i] = (double)bw_cuda_from_f16(bw_cuda_to_f16(p->x[i] / form_scale));
        else
            p->xf[i] = p->dtype == BW_GPU_I8 ? (double)(int8_t)stored[i] : x;
        uint16_t part[2];
        const double as = (double)bw_cuda_query_parts(p->dtype, p->q[i], unit, part);
        p->qf[0][i] = part_value(p->dtype, part[0]);
        p->qf[1][i] = part_value(p->dtype, part[1]);
        x2 += x * x;
        q2 += q * q;
        qe2 += (q - as) * (q - as);
        if (p->dtype == BW_GPU_F32)
            e2 += (x - p->xf[i] * (double)form_scale) * (x - p->xf[i] * (double)form_scale);
    }
    p->query = bw_cuda_query_bound(p->dtype, euclid, (uint32_t)p->dim, qm, unit, q2, qe2);
    p->row = bw_cuda_row_factors(p->dtype, euclid, xm, form_scale, x2, e2);
}

/* v cut, not rounded, to a multiple of 2^(e − 24): what the unit keeps beside something of
 * that exponent. `down`: cut towards −infinity, the other way a unit might. */
static double cut(double v, int e, bool down)
{
    const double step = ldexp(1, e - 24);
    return (down ? floor(v / step) : trunc(v / step)) * step;
}

/* Sums as the tensor unit may make them, four products at a time. */
static double unit_sum(const double *a, const double *b, size_t n, double sum, bool down)
{
    for (size_t at = 0; at < n; at += 4) {
        double most = fabs(sum), total;
        int e;
        for (size_t i = at; i < n && i < at + 4; i++)
            most = fmax(most, fabs(a[i] * b[i]));
        (void)frexp(most, &e);
        total = most == 0 ? 0 : cut(sum, e, down);
        for (size_t i = at; most > 0 && i < n && i < at + 4; i++)
            total += cut(a[i] * b[i], e, down);
        (void)frexp(total, &e);
        sum = total == 0 ? 0 : cut(total, e, down);
    }
    return sum;
}

/* The pass's value of the pair, as its epilogue computes it. */
static float pass_value(const pair *p, bool down)
{
    float sum;
    if (p->dtype == BW_GPU_I8) {
        double high = 0, low = 0;
        for (size_t i = 0; i < p->dim; i++) {
            high += p->qf[0][i] * p->xf[i];
            low += p->qf[1][i] * p->xf[i];
        }
        sum = bw_cuda_join_i8((int32_t)high, (int32_t)low);
    } else {
        double s = unit_sum(p->qf[0], p->xf, p->dim, 0, down);
        if (bw_cuda_parts(p->dtype) == 2)
            s = (double)bw_cuda_add((float)s, (float)unit_sum(p->qf[1], p->xf, p->dim, 0, down));
        sum = (float)s;
    }
    return bw_cuda_fma(sum * p->query.unit, p->row.scale, p->row.add);
}

/* What the pass's value stands for, of the canonical key: the dot, or |q|² − d². */
static double canonical_value(const pair *p, bool euclid)
{
    const double key = (double)canonical(euclid, p->q, p->x, p->dim);
    double q2 = 0;
    for (size_t i = 0; i < p->dim; i++)
        q2 += (double)p->q[i] * (double)p->q[i];
    return euclid ? q2 - key * key : key;
}

/* 0: random. 1: products that cancel. 2: one large value, the rest just under what is kept
 * beside it. 3: all of one sign on a rounding border. 4: the row is the query. 5: zeros. */
static void draw(rnd *r, pair *p, int kind)
{
    const float size = ldexpf(1, (int)rnd_below(r, 20) - 10);
    p->dim = kind == 5 ? 1 + rnd_below(r, 3) : 1 + rnd_below(r, DIM_MAX);
    for (size_t i = 0; i < p->dim; i++) {
        float q = (float)rnd_gauss(r), x = (float)rnd_gauss(r);
        if (kind == 1 && i % 2 == 1 && i > 0) {
            q = p->q[i - 1];
            x = -p->x[i - 1] / size * (1 + 0x1p-9f * (float)rnd_unit(r));
        } else if (kind == 2) {
            q = i == 0 ? 1 : (1 + 0x1p-7f) * 0x1p-5f;
            x = i == 0 ? 1 : (rnd_below(r, 8) == 0 ? -1.0f : 1.0f) * (1 + 0x1p-6f) * 0x1p-6f;
        } else if (kind == 3) {
            q = 1 + 0x1p-11f + 0x1p-20f;
            x = 1 + (p->dtype == BW_GPU_F32 ? 0x1p-11f + 0x1p-19f : 0x1p-6f);
        } else if (kind == 4) {
            x = q;
        } else if (kind == 5) {
            q = i == 0 ? 0 : q;
            x = 0;
        }
        p->q[i] = kind == 4 ? q * size : q;
        p->x[i] = x * size;
    }
}

static void test_cuda_arith__the_bound_holds(void **state)
{
    (void)state;
    rnd r = rnd_start("test_cuda_arith", 24);
    static pair p;
    for (int i = 0; i < 24000; i++) {
        const bool euclid = i & 1, down = i >> 1 & 1;
        p.dtype = (uint32_t)(i >> 2 & 3);
        draw(&r, &p, i / 16 % 6);
        prepare(&p, euclid);
        assert_int_equal(p.query.beyond, 0);
        const float error = bw_cuda_group_error(&p.query, p.row.norm, p.row.error);
        const float best = pass_value(&p, down);
        const double value = canonical_value(&p, euclid), off = fabs((double)best - value);
        if (!(off <= (double)error))
            fail_msg("dtype %u, euclid %d, kind %d, dim %zu: off by %a, bound %a", p.dtype, euclid, i / 16 % 6, p.dim,
                     off, (double)error);
        /* and the group is kept as long as the k-th's lower bound is no better than the row */
        const float low = bw_cuda_group_low(best, error);
        assert_true((double)low <= value + fabs(value) * 0x1p-23);
        assert_true(bw_cuda_group_reaches(low, error, (float)value));
    }
}

/* A bound that is always true because it is huge would rescore everything. */
static void test_cuda_arith__the_bound_is_of_use(void **state)
{
    (void)state;
    rnd r = rnd_start("test_cuda_arith", 25);
    static pair p;
    for (int i = 0; i < 400; i++) {
        p.dtype = (uint32_t)(i & 3);
        draw(&r, &p, 0);
        prepare(&p, false);
        const float error = bw_cuda_group_error(&p.query, p.row.norm, p.row.error);
        assert_true(error > 0 && error < p.query.norm * p.row.norm * 0x1p-9f);
    }
}

static void test_cuda_arith__what_is_out_of_range_is_always_rescored(void **state)
{
    (void)state;
    static pair p;
    static const float sizes[] = {0x1p41f, 0x1p-41f, 0x1p100f, 0x1p-100f};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        p = (pair){.dtype = BW_GPU_F32, .dim = 4, .q = {1, 1, 1, 1}, .x = {sizes[i], 0, 0, 0}};
        prepare(&p, false);
        const float error = bw_cuda_group_error(&p.query, p.row.norm, p.row.error);
        assert_true(error == INFINITY);
        const float low = bw_cuda_group_low(1, error);
        assert_true(low == -INFINITY);
        assert_true(bw_cuda_group_reaches(low, error, 3e38f));
        p = (pair){.dtype = BW_GPU_F32, .dim = 4, .q = {sizes[i], 0, 0, 0}, .x = {1, 1, 1, 1}};
        prepare(&p, false);
        assert_int_equal(p.query.beyond, 1);
    }
    assert_false(bw_cuda_in_range(NAN));
    assert_false(bw_cuda_in_range(INFINITY));
    assert_true(bw_cuda_in_range(0));
    assert_false(bw_cuda_group_reaches(bw_cuda_absent(), 1, -INFINITY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_arith__decodes_as_the_kernels),
        cmocka_unit_test(test_cuda_arith__encodes_to_the_nearest_even),
        cmocka_unit_test(test_cuda_arith__sums_have_the_bits_of_every_kernel),
        cmocka_unit_test(test_cuda_arith__orders_keys_as_numbers),
        cmocka_unit_test(test_cuda_arith__the_bound_holds),
        cmocka_unit_test(test_cuda_arith__the_bound_is_of_use),
        cmocka_unit_test(test_cuda_arith__what_is_out_of_range_is_always_rescored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
