/* Distance kernels in plain C: the oracle, and what runs on any CPU.
 *
 * fmaf is IEEE's fused multiply-add with one rounding, in hardware or by libm, so the
 * bits equal those of the wide files. Kept simple on purpose: it is the witness. */
#include "kernels_isa.h"

#include <math.h>

/* The reduction tree of kernels.h. */
static float sums_fold(const float s[BW_KERNEL_SUMS])
{
    float f[8];
    for (size_t i = 0; i < 8; i++)
        f[i] = s[i] + s[i + 8];
    for (size_t i = 0; i < 4; i++)
        f[i] = f[i] + f[i + 4];
    return (f[0] + f[2]) + (f[1] + f[3]);
}

static float bw_dot_f32_scalar(const float *a, const float *b, size_t dim)
{
    float s[BW_KERNEL_SUMS] = {0};
    for (size_t i = 0; i < dim; i++)
        s[i % BW_KERNEL_SUMS] = fmaf(a[i], b[i], s[i % BW_KERNEL_SUMS]);
    return sums_fold(s);
}

static float bw_l2sq_f32_scalar(const float *a, const float *b, size_t dim)
{
    float s[BW_KERNEL_SUMS] = {0};
    for (size_t i = 0; i < dim; i++) {
        const float d = a[i] - b[i];
        s[i % BW_KERNEL_SUMS] = fmaf(d, d, s[i % BW_KERNEL_SUMS]);
    }
    return sums_fold(s);
}

static float bw_l1_f32_scalar(const float *a, const float *b, size_t dim)
{
    float s[BW_KERNEL_SUMS] = {0};
    for (size_t i = 0; i < dim; i++)
        s[i % BW_KERNEL_SUMS] = s[i % BW_KERNEL_SUMS] + fabsf(a[i] - b[i]);
    return sums_fold(s);
}

static void bw_dot_rows_f32_scalar(const float *query, const float *rows, size_t n,
                                   size_t dim, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bw_dot_f32_scalar(query, rows + i * dim, dim);
}

static void bw_l2sq_rows_f32_scalar(const float *query, const float *rows, size_t n,
                                    size_t dim, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bw_l2sq_f32_scalar(query, rows + i * dim, dim);
}

static void bw_l1_rows_f32_scalar(const float *query, const float *rows, size_t n,
                                  size_t dim, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bw_l1_f32_scalar(query, rows + i * dim, dim);
}

const bw_kernels bw_kernels__scalar = {
    .isa = "scalar",
    .dot_f32 = bw_dot_f32_scalar,
    .l2sq_f32 = bw_l2sq_f32_scalar,
    .l1_f32 = bw_l1_f32_scalar,
    .dot_rows_f32 = bw_dot_rows_f32_scalar,
    .l2sq_rows_f32 = bw_l2sq_rows_f32_scalar,
    .l1_rows_f32 = bw_l1_rows_f32_scalar,
};
