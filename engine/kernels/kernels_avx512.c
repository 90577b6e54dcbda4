/* Distance kernels for AVX-512 (F, BW, DQ, VL); reached only after kernels.c asked the
 * CPU.
 *
 * One zmm register holds the 16 partial sums of one row. A row's sum is one chain of
 * fused multiply-adds (latency 4, two a cycle), so the rows form works on four rows at
 * a time: four chains hide the latency, and no row's own order changes.
 *
 *   vfmadd231ps zmm   latency 4, ports 0 and 5
 *   vsubps, vaddps    latency 4, ports 0 and 5
 *   vandps (abs)      latency 1
 * The tail runs under a mask, which leaves the other sums' bits alone (kernels_isa.h).
 */
#include "kernels_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { ROWS = 4 };

static inline __attribute__((always_inline)) float sums_fold(__m512 s)
{
    const __m256 f8 =
        _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    const __m128 f4 =
        _mm_add_ps(_mm256_castps256_ps128(f8), _mm256_extractf128_ps(f8, 1));
    const __m128 f2 = _mm_add_ps(f4, _mm_movehl_ps(f4, f4));
    return _mm_cvtss_f32(_mm_add_ss(f2, _mm_shuffle_ps(f2, f2, 1)));
}

static inline __attribute__((always_inline)) __mmask16 tail_mask(size_t rest)
{
    return (__mmask16)((1u << rest) - 1u);
}

static inline __attribute__((always_inline)) __m512 dot_step(__m512 s, __m512 a,
                                                             __m512 b)
{
    return _mm512_fmadd_ps(a, b, s);
}
static inline __attribute__((always_inline)) __m512 dot_tail(__m512 s, __m512 a,
                                                             __m512 b, __mmask16 m)
{
    return _mm512_mask3_fmadd_ps(a, b, s, m);
}
static inline __attribute__((always_inline)) __m512 l2sq_step(__m512 s, __m512 a,
                                                              __m512 b)
{
    const __m512 d = _mm512_sub_ps(a, b);
    return _mm512_fmadd_ps(d, d, s);
}
static inline __attribute__((always_inline)) __m512 l2sq_tail(__m512 s, __m512 a,
                                                              __m512 b, __mmask16 m)
{
    const __m512 d = _mm512_sub_ps(a, b);
    return _mm512_mask3_fmadd_ps(d, d, s, m);
}
static inline __attribute__((always_inline)) __m512 l1_step(__m512 s, __m512 a,
                                                            __m512 b)
{
    return _mm512_add_ps(s, _mm512_abs_ps(_mm512_sub_ps(a, b)));
}
static inline __attribute__((always_inline)) __m512 l1_tail(__m512 s, __m512 a,
                                                            __m512 b, __mmask16 m)
{
    return _mm512_mask_add_ps(s, m, s, _mm512_abs_ps(_mm512_sub_ps(a, b)));
}

/* Four rows: each line of the block ahead is asked for while its place in this one is
 * worked on, because a hardware stream ends with every 1.5 KiB row. */
#define DEFINE_OP(op)                                                             \
    static float bw_##op##_f32_avx512(const float *a, const float *b, size_t dim) \
    {                                                                             \
        __m512 s = _mm512_setzero_ps();                                           \
        size_t i = 0;                                                             \
        for (; i + 16 <= dim; i += 16)                                            \
            s = op##_step(s, _mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i));     \
        if (i < dim) {                                                            \
            const __mmask16 m = tail_mask(dim - i);                               \
            s = op##_tail(s, _mm512_maskz_loadu_ps(m, a + i),                     \
                          _mm512_maskz_loadu_ps(m, b + i), m);                    \
        }                                                                         \
        return sums_fold(s);                                                      \
    }                                                                             \
    static inline __attribute__((always_inline)) void op##_block(                 \
        const float *query, const float *r, size_t dim, float *out, bool more)    \
    {                                                                             \
        const float *r1 = r + dim, *r2 = r1 + dim, *r3 = r2 + dim;                \
        __m512 s0 = _mm512_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;               \
        size_t i = 0;                                                             \
        for (; i + 16 <= dim; i += 16) {                                          \
            const __m512 q = _mm512_loadu_ps(query + i);                          \
            if (more) {                                                           \
                _mm_prefetch((const char *)(r + ROWS * dim + i), _MM_HINT_T0);    \
                _mm_prefetch((const char *)(r1 + ROWS * dim + i), _MM_HINT_T0);   \
                _mm_prefetch((const char *)(r2 + ROWS * dim + i), _MM_HINT_T0);   \
                _mm_prefetch((const char *)(r3 + ROWS * dim + i), _MM_HINT_T0);   \
            }                                                                     \
            s0 = op##_step(s0, q, _mm512_loadu_ps(r + i));                        \
            s1 = op##_step(s1, q, _mm512_loadu_ps(r1 + i));                       \
            s2 = op##_step(s2, q, _mm512_loadu_ps(r2 + i));                       \
            s3 = op##_step(s3, q, _mm512_loadu_ps(r3 + i));                       \
        }                                                                         \
        if (i < dim) {                                                            \
            const __mmask16 m = tail_mask(dim - i);                               \
            const __m512 q = _mm512_maskz_loadu_ps(m, query + i);                 \
            s0 = op##_tail(s0, q, _mm512_maskz_loadu_ps(m, r + i), m);            \
            s1 = op##_tail(s1, q, _mm512_maskz_loadu_ps(m, r1 + i), m);           \
            s2 = op##_tail(s2, q, _mm512_maskz_loadu_ps(m, r2 + i), m);           \
            s3 = op##_tail(s3, q, _mm512_maskz_loadu_ps(m, r3 + i), m);           \
        }                                                                         \
        out[0] = sums_fold(s0);                                                   \
        out[1] = sums_fold(s1);                                                   \
        out[2] = sums_fold(s2);                                                   \
        out[3] = sums_fold(s3);                                                   \
    }                                                                             \
    static void bw_##op##_rows_f32_avx512(const float *query, const float *rows,  \
                                          size_t n, size_t dim, float *out)       \
    {                                                                             \
        size_t i = 0;                                                             \
        for (; i + 2 * ROWS <= n; i += ROWS)                                      \
            op##_block(query, rows + i * dim, dim, out + i, true);                \
        for (; i + ROWS <= n; i += ROWS)                                          \
            op##_block(query, rows + i * dim, dim, out + i, false);               \
        for (; i < n; i++)                                                        \
            out[i] = bw_##op##_f32_avx512(query, rows + i * dim, dim);            \
    }

DEFINE_OP(dot)
DEFINE_OP(l2sq)
DEFINE_OP(l1)

const bw_kernels bw_kernels__avx512 = {
    .isa = "avx512",
    .dot_f32 = bw_dot_f32_avx512,
    .l2sq_f32 = bw_l2sq_f32_avx512,
    .l1_f32 = bw_l1_f32_avx512,
    .dot_rows_f32 = bw_dot_rows_f32_avx512,
    .l2sq_rows_f32 = bw_l2sq_rows_f32_avx512,
    .l1_rows_f32 = bw_l1_rows_f32_avx512,
};
#else
typedef int bw_kernels_avx512_unused; /* a translation unit may not be empty */
#endif
