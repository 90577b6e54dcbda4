/* Distance kernels in plain C: the oracle, and what runs on any CPU.
 *
 * fmaf is IEEE's fused multiply-add with one rounding, in hardware or by libm, so the
 * bits equal those of the wide files. Kept simple on purpose: it is the witness. A
 * stored element is decoded where it is used. */
#include "half.h"
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

static inline float element(bw_dtype t, const void *row, float scale, size_t i)
{
    switch (t) {
    case BW_DTYPE_F16:
        return bw_f16_get(((const uint16_t *)row)[i]);
    case BW_DTYPE_BF16:
        return bw_bf16_get(((const uint16_t *)row)[i]);
    case BW_DTYPE_I8:
        return scale * (float)((const int8_t *)row)[i];
    case BW_DTYPE_F32:
    default:
        return ((const float *)row)[i];
    }
}

static inline float step(bw_kernel_op op, float s, float a, float b)
{
    const float d = a - b;
    switch (op) {
    case BW_KERNEL_L2SQ:
        return fmaf(d, d, s);
    case BW_KERNEL_L1:
        return s + fabsf(d);
    case BW_KERNEL_DOT:
    default:
        return fmaf(a, b, s);
    }
}

static inline float row_one(bw_kernel_op op, bw_dtype t, const float *query,
                            const void *row, float scale, size_t dim)
{
    float s[BW_KERNEL_SUMS] = {0};
    for (size_t i = 0; i < dim; i++)
        s[i % BW_KERNEL_SUMS] = step(op, s[i % BW_KERNEL_SUMS], query[i],
                                     element(t, row, scale, i));
    return sums_fold(s);
}

static inline void rows_any(bw_kernel_op op, bw_dtype t, const float *query,
                            const void *rows, const float *scales, size_t n, size_t dim,
                            float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = row_one(op, t, query, bw_row_at(t, rows, dim, i),
                         t == BW_DTYPE_I8 ? scales[i] : 1, dim);
}

static inline void block_any(bw_kernel_op op, bw_dtype t, const float *const *queries,
                             size_t nq, const void *rows, const float *scales, size_t n,
                             size_t dim, float *out)
{
    for (size_t i = 0; i < n; i++)
        for (size_t q = 0; q < nq; q++)
            out[q * n + i] = row_one(op, t, queries[q], bw_row_at(t, rows, dim, i),
                                     t == BW_DTYPE_I8 ? scales[i] : 1, dim);
}

static inline void decode_any(bw_dtype t, const void *row, float scale, size_t dim,
                              float *out)
{
    for (size_t i = 0; i < dim; i++)
        out[i] = element(t, row, scale, i);
}

BW_KERNELS_INSTANCES(scalar)

const bw_kernels bw_kernels__scalar = BW_KERNELS_TABLE(scalar);
