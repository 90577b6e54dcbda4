/* Kernels: the same bits on every ISA, and near a double-precision oracle. */
#include "engine/kernels/kernels.h"
#include "rnd.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { DIM_MAX = 1100, ROWS_MAX = 11 };

typedef struct fixture {
    rnd r;
    float *query, *rows; /* one float past alignment: kernels must not need it */
    float *query_block, *rows_block;
} fixture;

static const char *const isas[] = {"scalar", "avx2", "avx512"};
enum { NISA = sizeof isas / sizeof *isas };

typedef enum kind { ORDINARY, SUBNORMAL, HUGE_VALUES, MIXED, NKINDS } kind;

static float value(rnd *r, kind k)
{
    switch (k) {
    case SUBNORMAL:
        return ldexpf((float)rnd_gauss(r), -100 - (int)rnd_below(r, 48));
    case HUGE_VALUES: /* squares overflow now and then */
        return ldexpf((float)rnd_gauss(r), 50 + (int)rnd_below(r, 20));
    case MIXED:
        return rnd_below(r, 8) == 0
                   ? (rnd_below(r, 2) ? 0.0f : -0.0f)
                   : ldexpf((float)rnd_gauss(r), (int)rnd_below(r, 240) - 130);
    case ORDINARY:
    default:
        return (float)rnd_gauss(r);
    }
}

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = rnd_start("test_kernels", 20261130);
    f->query_block = bw_alloc((DIM_MAX + 1) * sizeof(float));
    f->rows_block = bw_alloc((ROWS_MAX * DIM_MAX + 1) * sizeof(float));
    assert_non_null(f->query_block);
    assert_non_null(f->rows_block);
    f->query = f->query_block + 1;
    f->rows = f->rows_block + 1;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_free(f->query_block);
    bw_free(f->rows_block);
    bw_free(f);
    return 0;
}

static void fill(fixture *f, size_t dim, size_t n, kind k)
{
    for (size_t i = 0; i < dim; i++)
        f->query[i] = value(&f->r, k);
    for (size_t i = 0; i < n * dim; i++)
        f->rows[i] = value(&f->r, k);
}

/* Every NaN counts as the same: which operand's payload survives is the CPU's choice,
 * and bw_metric_key turns all of them into −infinity. */
static uint32_t bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return x == x ? u : 0x7FC00000u;
}

typedef float one_fn(const float *a, const float *b, size_t dim);
typedef void rows_fn(const float *q, const float *rows, size_t n, size_t dim,
                     float *out);

static one_fn *op_one(const bw_kernels *k, int op)
{
    return op == 0 ? k->dot_f32 : op == 1 ? k->l2sq_f32 : k->l1_f32;
}
static rows_fn *op_rows(const bw_kernels *k, int op)
{
    return op == 0 ? k->dot_rows_f32 : op == 1 ? k->l2sq_rows_f32 : k->l1_rows_f32;
}

static void check_bits(const fixture *f, const bw_kernels *k, size_t dim, size_t n)
{
    const bw_kernels *oracle = bw_kernels_isa("scalar");
    for (int op = 0; op < 3; op++) {
        float want[ROWS_MAX], got[ROWS_MAX];
        for (size_t i = 0; i < n; i++)
            want[i] = op_one(oracle, op)(f->query, f->rows + i * dim, dim);
        op_rows(k, op)(f->query, f->rows, n, dim, got);
        for (size_t i = 0; i < n; i++) {
            const float one = op_one(k, op)(f->query, f->rows + i * dim, dim);
            if (bits(one) != bits(want[i]) || bits(got[i]) != bits(want[i]))
                fail_msg("%s op %d dim %zu row %zu of %zu: %a alone, %a among rows, "
                         "oracle %a",
                         k->isa, op, dim, i, n, (double)one, (double)got[i],
                         (double)want[i]);
        }
    }
}

static void test_kernels__same_bits_on_every_isa(void **state)
{
    fixture *f = *state;
    for (size_t s = 0; s < NISA; s++) {
        const bw_kernels *k = bw_kernels_isa(isas[s]);
        if (!k) {
            print_message("%s: not run (this machine lacks it)\n", isas[s]);
            continue;
        }
        assert_string_equal(k->isa, isas[s]);
        for (size_t dim = 1; dim <= DIM_MAX; dim++) {
            /* Each dim sees each kind of values and each count of rows over the run. */
            const size_t n = 1 + dim % ROWS_MAX;
            fill(f, dim, n, (kind)(dim / ROWS_MAX % NKINDS));
            check_bits(f, k, dim, n);
        }
        for (size_t dim = 1; dim <= 70; dim++)
            for (int kd = 0; kd < NKINDS; kd++) {
                fill(f, dim, ROWS_MAX, (kind)kd);
                check_bits(f, k, dim, ROWS_MAX);
            }
        print_message("%s: run\n", isas[s]);
    }
}

/* A product that underflows leaves a sum of −0; padding the tail would turn it to +0.
 */
static void test_kernels__tail_leaves_other_sums_alone(void **state)
{
    (void)state;
    const float a[17] = {-1e-30f}, b[17] = {1e-30f};
    for (size_t s = 0; s < NISA; s++) {
        const bw_kernels *k = bw_kernels_isa(isas[s]);
        if (!k)
            continue;
        float all[17];
        for (size_t i = 0; i < 17; i++)
            all[i] = -1e-30f;
        /* dim 16: 16 sums of −0 fold to −0; dim 1: one −0 and 15 of +0 fold to +0. */
        float c[16];
        for (size_t i = 0; i < 16; i++)
            c[i] = 1e-30f;
        assert_true(signbit(k->dot_f32(all, c, 16)));
        assert_false(signbit(k->dot_f32(a, b, 1)));
        assert_int_equal(bits(k->dot_f32(a, b, 17)),
                         bits(bw_kernels_isa("scalar")->dot_f32(a, b, 17)));
    }
}

static void test_kernels__within_budget_of_f64(void **state)
{
    fixture *f = *state;
    double worst = 0;
    for (size_t dim = 1; dim <= DIM_MAX; dim += 1 + dim / 16) {
        fill(f, dim, 1, ORDINARY);
        double sum[3] = {0}, mass[3] = {0};
        for (size_t i = 0; i < dim; i++) {
            const double a = (double)f->query[i], b = (double)f->rows[i], d = a - b;
            sum[0] += a * b, mass[0] += fabs(a * b);
            sum[1] += d * d, mass[1] += d * d;
            sum[2] += fabs(d), mass[2] += fabs(d);
        }
        for (int op = 0; op < 3; op++) {
            const double got =
                (double)op_one(bw_kernels_get(), op)(f->query, f->rows, dim);
            /* dim/16 steps and 4 folds of half an ulp each, 2 more for a rounded a−b.
             */
            const double budget =
                ((double)dim / 16 + 7) * 0x1p-24 * mass[op] + (double)FLT_TRUE_MIN;
            const double error = fabs(got - sum[op]);
            if (error / budget > worst)
                worst = error / budget;
            if (error > budget)
                fail_msg("op %d dim %zu: %.9g, oracle %.17g, budget %.3g", op, dim, got,
                         sum[op], budget);
        }
    }
    print_message("largest error: %.2f of the budget\n", worst);
}

static void test_kernels__length_zero_is_zero(void **state)
{
    fixture *f = *state;
    const bw_kernels *k = bw_kernels_get();
    assert_true(k->dot_f32(f->query, f->rows, 0) == 0);
    k->dot_rows_f32(f->query, f->rows, 0, 8, NULL);
}

static void test_kernels__environment_forces_a_level(void **state)
{
    (void)state;
    for (size_t s = 0; s < NISA; s++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) { /* nothing was chosen in this process yet */
            setenv("BW_ISA", isas[s], 1);
            const bw_kernels *k = bw_kernels_get();
            const bw_kernels *want = bw_kernels_isa(isas[s]);
            _exit(k && (!want || k == want) && k == bw_kernels_get() ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_null(bw_kernels_isa("sse9"));
    assert_null(bw_kernels_isa(NULL));
}

static void test_normalize__gives_unit_length_and_is_idempotent(void **state)
{
    fixture *f = *state;
    for (size_t round = 0; round < 400; round++) {
        const size_t dim = 1 + rnd_below(&f->r, DIM_MAX);
        const kind k = (kind)(round % NKINDS);
        fill(f, dim, 1, k);
        float *v = f->rows;
        bool zero = true;
        for (size_t i = 0; i < dim; i++)
            zero = zero && v[i] == 0;
        bw_normalize_f32(v, dim);
        double s = 0;
        for (size_t i = 0; i < dim; i++)
            s += (double)v[i] * (double)v[i];
        if (!zero && fabs(s - 1) > 0x1p-22)
            fail_msg("kind %d dim %zu: squared length %.17g", (int)k, dim, s);
        memcpy(f->query, v, dim * sizeof *v);
        bw_normalize_f32(f->query, dim);
        assert_memory_equal(f->query, v, dim * sizeof *v);
    }
    float zeros[5] = {0};
    bw_normalize_f32(zeros, 5);
    for (size_t i = 0; i < 5; i++)
        assert_true(zeros[i] == 0);
}

static void test_metric_key__larger_is_better(void **state)
{
    (void)state;
    const bw_kernels *k = bw_kernels_get();
    const float q[3] = {1, 2, 3}, r[3] = {2, 0, 7};
    assert_true(bw_metric_key(k, BW_METRIC_DOT, q, r, 3) == 23.0f);
    assert_true(bw_metric_key(k, BW_METRIC_COSINE, q, r, 3) == 23.0f);
    assert_true(bw_metric_key(k, BW_METRIC_EUCLID, q, r, 3) == -sqrtf(21.0f));
    assert_true(bw_metric_key(k, BW_METRIC_MANHATTAN, q, r, 3) == -7.0f);
}

static void test_metric_key__is_never_nan(void **state)
{
    (void)state;
    float q[32], r[32]; /* sums of +infinity and of −infinity meet in the fold */
    for (size_t i = 0; i < 32; i++) {
        q[i] = FLT_MAX;
        r[i] = i % 2 ? FLT_MAX : -FLT_MAX;
    }
    for (size_t s = 0; s < NISA; s++) {
        const bw_kernels *k = bw_kernels_isa(isas[s]);
        if (!k)
            continue;
        assert_true(isnan(k->dot_f32(q, r, 32)));
        assert_true(bw_metric_key(k, BW_METRIC_DOT, q, r, 32) == -INFINITY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_kernels__environment_forces_a_level), /* first: it forks */
        cmocka_unit_test(test_kernels__same_bits_on_every_isa),
        cmocka_unit_test(test_kernels__tail_leaves_other_sums_alone),
        cmocka_unit_test(test_kernels__within_budget_of_f64),
        cmocka_unit_test(test_kernels__length_zero_is_zero),
        cmocka_unit_test(test_normalize__gives_unit_length_and_is_idempotent),
        cmocka_unit_test(test_metric_key__larger_is_better),
        cmocka_unit_test(test_metric_key__is_never_nan),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
