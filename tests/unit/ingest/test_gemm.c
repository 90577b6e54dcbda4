/* gemm.h: every level against an oracle in double and against the scalar one's bits,
 * over odd shapes; the row functions against libm. BW_SEED repeats a run. */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/base.h"
#include "ingest/gemm.h"

static uint64_t seed_state;
static float uniform(void) /* -1 … 1, xorshift64 */
{
    seed_state ^= seed_state << 13;
    seed_state ^= seed_state >> 7;
    seed_state ^= seed_state << 17;
    return (float)(seed_state >> 40) * 0x1p-23f - 1.0f;
}

static const char *const isas[] = {"scalar", "avx2", "avx512"};
enum { M = 30, K = 70, N = 100 };

static void gemm__levels_give_the_same_bits(void **state)
{
    (void)state;
    static float a[M * K], w[N * K], bias[N], want[M * N], got[M * N];
    float *panels = bw_alloc_vectors(bw_gemm_panel_floats(N, K) * sizeof *panels);
    assert_non_null(panels);
    for (int round = 0; round < 60; round++) {
        size_t m = 1 + (size_t)round % M, k = 1 + (size_t)(round * 7) % K,
               n = 1 + (size_t)(round * 13) % N;
        for (size_t i = 0; i < m * k; i++)
            a[i] = uniform();
        for (size_t i = 0; i < n * k; i++)
            w[i] = uniform();
        for (size_t i = 0; i < n; i++)
            bias[i] = uniform();
        bw_gemm_pack(w, k, n, k, panels);
        const float *b = round % 3 ? bias : NULL;
        bw_gemm_isa("scalar")->matmul(a, k, m, k, panels, n, b, want, n);
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++) {
                double sum = b ? (double)b[j] : 0;
                for (size_t kk = 0; kk < k; kk++)
                    sum += (double)a[i * k + kk] * (double)w[j * k + kk];
                assert_true(fabs(sum - (double)want[i * n + j]) < 1e-4);
            }
        for (size_t l = 1; l < 3; l++) {
            const bw_gemm *g = bw_gemm_isa(isas[l]);
            if (!g)
                continue;
            memset(got, 0, sizeof got);
            g->matmul(a, k, m, k, panels, n, b, got, n);
            assert_memory_equal(got, want, m * n * sizeof *got);
        }
    }
    bw_free_vectors(panels);
}

static void gemm__rows_are_near_libm_and_equal_on_all_levels(void **state)
{
    (void)state;
    enum { LEN = 77 };
    float x[96], want[96], first[3][96], gain[LEN], bias[LEN];
    for (size_t l = 0; l < 3; l++) {
        const bw_gemm *g = bw_gemm_isa(isas[l]);
        if (!g) {
            print_message("%s: not run, the processor lacks it\n", isas[l]);
            continue;
        }
        for (size_t i = 0; i < LEN; i++) {
            want[i] = x[i] = (float)i * 0.31f - 12.0f;
            gain[i] = 1.0f + (float)i * 0.01f;
            bias[i] = 0.5f - (float)i * 0.02f;
        }
        g->gelu(x, LEN);
        for (size_t i = 0; i < LEN; i++) {
            double v = (double)want[i], exact = v * 0.5 * erfc(-v / sqrt(2.0));
            assert_true(fabs((double)x[i] - exact) <= 4e-7 * fmax(1, fabs(v)));
        }
        memcpy(first[0], x, sizeof x);
        memcpy(x, want, sizeof x);
        g->softmax(x, LEN, 0.7f);
        double sum = 0, total = 0;
        for (size_t i = 0; i < LEN; i++)
            sum += exp(0.7 * (double)want[i]);
        for (size_t i = 0; i < LEN; i++) {
            assert_true(fabs((double)x[i] - exp(0.7 * (double)want[i]) / sum) < 1e-6);
            total += (double)x[i];
        }
        assert_true(fabs(total - 1) < 1e-5);
        for (size_t i = LEN; i < 80; i++)
            assert_true(x[i] == 0);
        memcpy(first[1], x, LEN * sizeof *x);
        memcpy(x, want, sizeof x);
        g->layer_norm(x, bias, LEN, gain, bias, 1e-12f);
        double mean = 0, var = 0;
        for (size_t i = 0; i < LEN; i++)
            mean += ((double)want[i] + (double)bias[i]) / (double)LEN;
        for (size_t i = 0; i < LEN; i++)
            var += pow((double)want[i] + (double)bias[i] - mean, 2) / (double)LEN;
        for (size_t i = 0; i < LEN; i++) {
            double exact = ((double)want[i] + (double)bias[i] - mean) / sqrt(var) *
                               (double)gain[i] +
                           (double)bias[i];
            assert_true(fabs((double)x[i] - exact) < 1e-5);
        }
        memcpy(first[2], x, LEN * sizeof *x);
        static float oracle[3][96];
        if (l == 0)
            memcpy(oracle, first, sizeof oracle);
        for (size_t f = 0; f < 3; f++)
            assert_memory_equal(first[f], oracle[f], LEN * sizeof(float));
    }
}

int main(void)
{
    const char *seed = getenv("BW_SEED");
    seed_state = seed ? strtoull(seed, NULL, 10) : 20260101;
    print_message("BW_SEED=%llu\n", (unsigned long long)seed_state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm__levels_give_the_same_bits),
        cmocka_unit_test(gemm__rows_are_near_libm_and_equal_on_all_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
