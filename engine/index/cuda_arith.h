/* The arithmetic of the GPU search that answers depend on, as plain functions: compiled by
 * nvcc for the device and by the C++ compiler for the test that runs the whole module on a CPU
 * and holds it against the kernels there (tests/unit/index/test_gpu_kernels.c).
 *
 * The error bound of the first pass. Let q be the query and x a stored row, decoded to
 * f32; c its canonical dot (kernels.h). The pass multiplies q' = qs·q^ with x' = rs·x^,
 * where q^ and x^ have the units' precision (f16, bf16 or int8; bf16 and int8 take the
 * query as a sum of two, high and low) and qs is a power of two. Then
 *
 *   |w − c| <= |q−q'||x| + |q'||x−x'|        conversion (Cauchy-Schwarz)
 *            + g |q'||x'|                    sums of the tensor unit, and our epilogue
 *            + h |q||x|                      roundings of c: (dim/16 + 4) steps of 2^-24
 *
 * g: products of f16 and bf16 pairs are exact in the unit. One block of it adds p products
 * and the accumulator; addends are aligned with the largest and cut (not rounded) at 24
 * significant bits or later, as is the result (Fasi, Higham, Mikaitis, Pranesh 2021,
 * sections 4 and 5, for V100, T4, A100; p = 4, 8 there). So a block loses at most (p+2) 2^-23 of the
 * largest magnitude it meets, which is at most the sum of |q_i x_i|; dim/p blocks lose at most
 * 1.5 dim 2^-23 for p = 4, less for longer ones. We take dim·2^-22. This is a property of
 * the hardware, not of PTX (which leaves order and rounding open): `open` tests it on the
 * device with such sums, subnormal f16 included, and refuses a device that fails.
 * int8 sums are exact; two conversions, one fma.
 *
 * Euclid ranks by t = |q|² − d² = 2 q·x − |x|². The canonical D = fl(d²) is off by at
 * most (dim/16 + 8) 2^-24 d², and two D's within 2^-22 may have one key after sqrtf;
 * both are charged as multiples of (|q|+|x|)² >= d².
 *
 * |x| and |x−x'| are kept per group of 32 rows as maxima, so the bound costs a few steps a
 * group, not a row. Values outside 2^±40 (or not finite) get the bound +infinity: such a
 * row is always rescored, such a query goes to the CPU. Inside, nothing over- or underflows
 * by more than the slack that is in the factors. */
#ifndef BW_CUDA_ARITH_H
#define BW_CUDA_ARITH_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "gpu_module.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define BW_HD static __host__ __device__ __forceinline__
#else
#define BW_HD static inline
#endif

enum {
    BW_CUDA_SLICE = 64,      /* bytes of a row that one step of the pass takes */
    BW_CUDA_SUMS = 16,       /* partial sums of the canonical order */
    BW_CUDA_LANES = 4,       /* threads that rescore one row, 4 sums each */
    BW_CUDA_METRIC_EUCLID = 2, /* bw_metric; the rest that comes here are products */
    BW_CUDA_METRIC_MANHATTAN = 3
};

/* ---- bits ---- */

BW_HD uint32_t bw_cuda_bits(float f)
{
#ifdef __CUDA_ARCH__
    return __float_as_uint(f);
#else
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
#endif
}

BW_HD float bw_cuda_float(uint32_t u)
{
#ifdef __CUDA_ARCH__
    return __uint_as_float(u);
#else
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
#endif
}

/* What stands for "no row" among keys and group maxima: a NaN that no sum gives. */
BW_HD float bw_cuda_absent(void)
{
    return bw_cuda_float(0xFFFFFFFFu);
}

/* Rising with the value; −0 and +0 are one; 0 is absent (any NaN). */
BW_HD uint32_t bw_cuda_order(float f)
{
    const uint32_t u = f == 0 ? 0u : bw_cuda_bits(f);
    if (f != f)
        return 0;
    return (u & 0x80000000u) ? ~u : (u | 0x80000000u);
}

BW_HD float bw_cuda_pow2(int e) /* −126 … 127 */
{
    return bw_cuda_float((uint32_t)(e + 127) << 23);
}

/* e with 2^(e−1) <= m < 2^e, m normal. */
BW_HD int bw_cuda_exponent(float m)
{
    return (int)(bw_cuda_bits(m) >> 23 & 255u) - 126;
}

BW_HD bool bw_cuda_in_range(float max_abs) /* false for NaN as well */
{
    return max_abs == 0 || (max_abs >= 0x1p-40f && max_abs <= 0x1p40f);
}

/* ---- decoding and encoding, exact and to nearest even ---- */

BW_HD float bw_cuda_from_f16(uint16_t h)
{
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(h));
#else
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = h >> 10 & 31u, m = h & 1023u;
    if (e == 31)
        return bw_cuda_float(sign | 0x7F800000u | m << 13);
    if (e == 0) {
        const float f = (float)m * 0x1p-24f;
        return sign ? -f : f;
    }
    return bw_cuda_float(sign | (e + 112) << 23 | m << 13);
#endif
}

BW_HD float bw_cuda_from_bf16(uint16_t h)
{
    return bw_cuda_float((uint32_t)h << 16);
}

BW_HD float bw_cuda_from_i8(int8_t code, float scale)
{
#ifdef __CUDA_ARCH__
    return __fmul_rn(scale, (float)code);
#else
    return scale * (float)code;
#endif
}

BW_HD uint16_t bw_cuda_to_f16(float f) /* |f| <= 65504 */
{
#ifdef __CUDA_ARCH__
    return __half_as_ushort(__float2half_rn(f));
#else
    const uint32_t u = bw_cuda_bits(f), sign = u >> 16 & 0x8000u, a = u & 0x7FFFFFFFu;
    if (a < 0x38800000u) { /* below 2^-14: a multiple of 2^-24, rounded by the adder */
        const float t = bw_cuda_float(a) + 0.5f;
        return (uint16_t)(sign | (bw_cuda_bits(t) - 0x3F000000u));
    }
    const uint32_t r = a + 0xFFFu + (a >> 13 & 1u);
    return (uint16_t)(sign | ((r - 0x38000000u) >> 13));
#endif
}

BW_HD uint16_t bw_cuda_to_bf16(float f) /* finite */
{
    const uint32_t u = bw_cuda_bits(f);
    return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1u)) >> 16);
}

/* ---- the canonical key ---- */

BW_HD float bw_cuda_fma(float a, float b, float c)
{
#ifdef __CUDA_ARCH__
    return __fmaf_rn(a, b, c);
#else
    return fmaf(a, b, c);
#endif
}

BW_HD float bw_cuda_add(float a, float b)
{
#ifdef __CUDA_ARCH__
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
}

/* One element into its partial sum (number i mod 16). */
BW_HD float bw_cuda_step(bool euclid, float q, float x, float s)
{
    if (euclid) {
        const float d = bw_cuda_add(q, -x);
        return bw_cuda_fma(d, d, s);
    }
    return bw_cuda_fma(q, x, s);
}

/* The tree of kernels.h over 16 sums held by four lanes, lane l with sums 4l … 4l+3:
 * lanes 2 and 3 are added to 0 and 1, then 1 to 0, then the four in lane 0. */
BW_HD float bw_cuda_fold4(const float f[4])
{
    return bw_cuda_add(bw_cuda_add(f[0], f[2]), bw_cuda_add(f[1], f[3]));
}

BW_HD float bw_cuda_key(bool euclid, float sum)
{
#ifdef __CUDA_ARCH__
    const float key = euclid ? -__fsqrt_rn(sum) : sum;
#else
    const float key = euclid ? -sqrtf(sum) : sum;
#endif
    return key == key ? key : -INFINITY;
}

/* ---- forms of the first pass ---- */

/* Bytes of an element on the tensor unit (f32 is held as f16 beside itself), how many
 * parts a query is cut into, and the stride of a row in its form. */
BW_HD uint32_t bw_cuda_form_bytes(uint32_t dtype)
{
    return dtype == BW_GPU_I8 ? 1 : 2;
}

BW_HD uint32_t bw_cuda_parts(uint32_t dtype)
{
    return dtype == BW_GPU_BF16 || dtype == BW_GPU_I8 ? 2 : 1;
}

BW_HD uint32_t bw_cuda_stride(uint32_t dim, uint32_t bytes)
{
    return (dim * bytes + BW_CUDA_SLICE - 1) / BW_CUDA_SLICE * BW_CUDA_SLICE;
}

/* The power of two that a query, or a row held as f16, is divided by. */
BW_HD float bw_cuda_unit(uint32_t dtype, float max_abs)
{
    if (max_abs == 0)
        return 1;
    return bw_cuda_pow2(bw_cuda_exponent(max_abs) - (dtype == BW_GPU_I8 ? 14 : 8));
}

/* One element of the query: its parts as bits of the form, and the value they stand for.
 * inv = 1/unit, exact. */
BW_HD float bw_cuda_query_parts(uint32_t dtype, float q, float unit, uint16_t part[2])
{
    const float s = q / unit; /* exact: a power of two, far from the ends */
    if (dtype == BW_GPU_I8) {
        const int v = (int)rintf(s); /* |v| <= 2^14 */
        const int low = ((v + 128) & 255) - 128, high = (v - low) / 256;
        part[0] = (uint16_t)(uint8_t)(int8_t)high;
        part[1] = (uint16_t)(uint8_t)(int8_t)low;
        return (float)v * unit;
    }
    if (dtype == BW_GPU_BF16) {
        part[0] = bw_cuda_to_bf16(s);
        const float high = bw_cuda_from_bf16(part[0]);
        part[1] = bw_cuda_to_bf16(s - high);
        return (high + bw_cuda_from_bf16(part[1])) * unit;
    }
    part[0] = bw_cuda_to_f16(s);
    part[1] = 0;
    return bw_cuda_from_f16(part[0]) * unit;
}

/* ---- the bound ---- */

typedef struct bw_cuda_query {
    float unit;       /* of the products, times two for Euclid */
    float c0, c1, c2; /* bound = c0·gx + c1·ge + c2·(norm + gx)² */
    float norm;
    uint32_t beyond;  /* not in the bound's range: no group is kept, the CPU answers */
    uint32_t pad[2];
} bw_cuda_query;

BW_HD float bw_cuda_up(double v) /* an f32 not below v >= 0 */
{
    return (float)(v * (1 + 0x1p-20));
}

/* q2 = |q|², e2 = |q−q'|², in double; max_abs of q. */
BW_HD bw_cuda_query bw_cuda_query_bound(uint32_t dtype, bool euclid, uint32_t dim, float max_abs,
                                        float unit, double q2, double e2)
{
    bw_cuda_query out = {0, 0, 0, 0, 0, 0, {0, 0}};
    const double padded = bw_cuda_stride(dim, bw_cuda_form_bytes(dtype)) /
                          bw_cuda_form_bytes(dtype);
    const double qn = sqrt(q2), eq = sqrt(e2), pn = qn + eq; /* |q'| <= pn */
    const double g = (dtype == BW_GPU_I8 ? 0 : padded * 0x1p-22 * 1.02) + 16 * 0x1p-24;
    const double h = (dim / 16.0 + 8) * 0x1p-24 * 1.01;
    const double times = euclid ? 2 : 1;
    out.unit = euclid ? 2 * unit : unit;
    out.c0 = bw_cuda_up(times * (eq + g * pn + (euclid ? 0 : h * qn)));
    out.c1 = bw_cuda_up(times * pn * (1 + g));
    out.c2 = euclid ? bw_cuda_up(h + 4 * 0x1p-24 + 0x1p-21) : 0;
    out.norm = bw_cuda_up(qn);
    out.beyond = !bw_cuda_in_range(max_abs);
    return out;
}

/* gx, ge: the largest |x| and |x−x'| of the group, or +infinity. */
BW_HD float bw_cuda_group_error(const bw_cuda_query *q, float gx, float ge)
{
    const float n = q->norm + gx;
    const float e = (q->c0 * gx + q->c1 * ge + q->c2 * (n * n)) * (1 + 0x1p-20f);
    return e < INFINITY ? e : INFINITY; /* NaN too */
}

/* What the pass leaves for a group: a lower bound of its best row's canonical value;
 * −infinity: always to be rescored. Never absent. */
BW_HD float bw_cuda_group_low(float best, float error)
{
    const float low = best - error;
    return low == low ? low : -INFINITY;
}

/* Whether a group may hold a row at or above the k-th: tau is the k-th largest low. */
BW_HD bool bw_cuda_group_reaches(float low, float error, float tau)
{
    if (low != low)
        return false;
    if (low == -INFINITY)
        return true;
    const float high = low + 2 * error * (1 + 0x1p-20f);
    return high >= tau - fabsf(tau) * 0x1p-22f;
}

/* Factors of one stored row: what the pass multiplies and adds, and its share of the bound. */
typedef struct bw_cuda_row {
    float scale, add;   /* w = (sum·unit)·scale + add */
    float norm, error;  /* upper bounds of |x| and |x−x'| */
} bw_cuda_row;

BW_HD bw_cuda_row bw_cuda_row_factors(uint32_t dtype, bool euclid, float max_abs, float scale,
                                      double x2, double e2)
{
    bw_cuda_row out;
    const double n = sqrt(x2);
    const bool fine = bw_cuda_in_range(max_abs);
    out.scale = fine ? scale : 0;
    out.add = euclid && fine ? (float)-x2 : 0;
    out.norm = fine ? bw_cuda_up(n) : INFINITY;
    /* int8: the decoded value is fl(scale·code), the pass has scale·code */
    out.error = fine ? bw_cuda_up(sqrt(e2) + (dtype == BW_GPU_I8 ? n * 0x1p-23 : 0)) : INFINITY;
    return out;
}

/* Joins the sums of a query's two parts. bf16's add, int8's high part counts 256. */
BW_HD float bw_cuda_join_i8(int32_t high, int32_t low)
{
    return bw_cuda_fma((float)high, 256, (float)low);
}
#endif
