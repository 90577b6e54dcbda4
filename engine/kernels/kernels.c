/* Chooses the kernels once, by what the CPU has, and holds what needs no wide code:
 * normalising, and the score of one pair in the ranking form.
 *
 * This file is compiled without ISA flags, so that it can run on any CPU and say no. */
#include "kernels_isa.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static bool cpu_has_avx2(void)
{
#if defined(__x86_64__)
    /* F16C by hand: Clang 14's __builtin_cpu_supports does not know the name. That the
     * system keeps the wide registers is in the answer for AVX2. */
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("popcnt") && __get_cpuid(1, &a, &b, &c, &d) &&
           (c & bit_F16C);
#else
    return false;
#endif
}

static bool cpu_has_avx512(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           cpu_has_avx2();
#else
    return false;
#endif
}

const bw_kernels *bw_kernels_isa(const char *isa)
{
    if (!isa)
        return NULL;
    if (strcmp(isa, "scalar") == 0)
        return &bw_kernels__scalar;
#if defined(__x86_64__)
    if (strcmp(isa, "avx2") == 0 && cpu_has_avx2())
        return &bw_kernels__avx2;
    if (strcmp(isa, "avx512") == 0 && cpu_has_avx512())
        return &bw_kernels__avx512;
#endif
    return NULL;
}

static const bw_kernels *kernels_choose(void)
{
    const char *forced = getenv("BW_ISA");
    if (forced && *forced) {
        const bw_kernels *k = bw_kernels_isa(forced);
        if (k)
            return k;
        bw_log(BW_LOG_WARN,
               "kernels: BW_ISA names no level of this CPU, taking the best");
    }
    const char *const best[] = {"avx512", "avx2"};
    for (size_t i = 0; i < sizeof best / sizeof *best; i++) {
        const bw_kernels *k = bw_kernels_isa(best[i]);
        if (k)
            return k;
    }
    return &bw_kernels__scalar;
}

const bw_kernels *bw_kernels_get(void)
{
    /* Two threads may both choose; they choose the same table. Acquire and release are
     * not needed for constant data, but they cost nothing on a path that is this cold.
     */
    static _Atomic(const bw_kernels *) chosen;
    const bw_kernels *k = atomic_load_explicit(&chosen, memory_order_acquire);
    if (!k) {
        k = kernels_choose();
        atomic_store_explicit(&chosen, k, memory_order_release);
    }
    return k;
}

void bw_normalize_f32(float *v, size_t dim)
{
    /* Doubles: squares of the largest and of the smallest floats stay in range. */
    double s[BW_KERNEL_SUMS] = {0};
    for (size_t i = 0; i < dim; i++)
        s[i % BW_KERNEL_SUMS] += (double)v[i] * (double)v[i];
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            s[i] += s[i + width];
    /* Rounding each element moves the square of the length by at most 2^-23. What is as
     * near to 1 as that stays as it is: so normalising twice changes nothing, and rows
     * that a client normalised in f32 keep their bits. */
    if (s[0] == 0 || fabs(s[0] - 1.0) <= 0x1p-22)
        return;
    const double scale = 1.0 / sqrt(s[0]);
    for (size_t i = 0; i < dim; i++)
        v[i] = (float)((double)v[i] * scale);
}

float bw_metric_key(const bw_kernels *k, bw_metric metric, const float *a,
                    const float *b, size_t dim)
{
    float key;
    switch (metric) {
    case BW_METRIC_EUCLID:
        key = -sqrtf(k->l2sq_f32(a, b, dim));
        break;
    case BW_METRIC_MANHATTAN:
        key = -k->l1_f32(a, b, dim);
        break;
    case BW_METRIC_COSINE:
    case BW_METRIC_DOT:
    default:
        key = k->dot_f32(a, b, dim);
        break;
    }
    /* Sums that overflowed both ways have no order; they rank last, not nowhere. */
    return key == key ? key : -INFINITY;
}
