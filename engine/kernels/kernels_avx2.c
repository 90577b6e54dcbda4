/* Distance kernels for AVX2 with FMA and F16C; reached only after kernels.c asked the
 * CPU. The drivers are in kernels_wide.h; here are the registers.
 *
 * The 16 partial sums of one row are two ymm registers (sums 0–7 and 8–15).
 *   vfmadd231ps ymm   latency 4, two a cycle
 *   vcvtph2ps ymm     f16 to f32, exact; signalling NaN becomes quiet
 *   vpmovzxwd, vpslld bf16 to f32
 *   vpmovsxbd, vcvtdq2ps, vmulps   int8 to fl(scale · code)
 * A tail's step is done on all lanes with zeros, and the lanes past it keep their old
 * bits by a blend (kernels_isa.h). */
#include "kernels_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { VW = 8 };
typedef __m256 vf;
typedef struct v16 {
    __m256 lo, hi;
} v16;

INLINE vf vf_zero(void)
{
    return _mm256_setzero_ps();
}
INLINE vf vf_all(float x)
{
    return _mm256_set1_ps(x);
}
INLINE void vf_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v);
}

INLINE vf vf_load(bw_dtype t, const void *row, size_t i, vf scale)
{
    const uint16_t *half = (const uint16_t *)row + i;
    switch (t) {
    case BW_DTYPE_F16:
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)half));
    case BW_DTYPE_BF16:
        return _mm256_castsi256_ps(_mm256_slli_epi32(
            _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)half)), 16));
    case BW_DTYPE_I8:
        return _mm256_mul_ps(
            scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(
                       _mm_loadl_epi64((const __m128i *)((const int8_t *)row + i)))));
    case BW_DTYPE_F32:
    default:
        return _mm256_loadu_ps((const float *)row + i);
    }
}

/* The first n lanes set, n <= 8. */
INLINE __m256i lanes(size_t n)
{
    static const int32_t edge[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(edge + 8 - n));
}

INLINE vf vf_part(bw_dtype t, const void *row, size_t i, vf scale, size_t n)
{
    if (t == BW_DTYPE_F32)
        return _mm256_maskload_ps((const float *)row + i, lanes(n));
    uint16_t half[8] = {0};
    int8_t code[8] = {0};
    for (size_t j = 0; j < n && t == BW_DTYPE_I8; j++)
        code[j] = ((const int8_t *)row)[i + j];
    for (size_t j = 0; j < n && t != BW_DTYPE_I8; j++)
        half[j] = ((const uint16_t *)row)[i + j];
    return t == BW_DTYPE_I8 ? vf_load(t, code, 0, scale) : vf_load(t, half, 0, scale);
}

INLINE vf vf_keep(vf old, vf new, size_t n)
{
    return _mm256_blendv_ps(old, new, _mm256_castsi256_ps(lanes(n)));
}

INLINE vf vf_step(bw_kernel_op op, vf s, vf a, vf b)
{
    const vf d = _mm256_sub_ps(a, b);
    switch (op) {
    case BW_KERNEL_L2SQ:
        return _mm256_fmadd_ps(d, d, s);
    case BW_KERNEL_L1:
        return _mm256_add_ps(s, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), d));
    case BW_KERNEL_DOT:
    default:
        return _mm256_fmadd_ps(a, b, s);
    }
}

INLINE v16 v16_zero(void)
{
    return (v16){vf_zero(), vf_zero()};
}
INLINE v16 v16_of(const float s[16])
{
    return (v16){_mm256_loadu_ps(s), _mm256_loadu_ps(s + 8)};
}
INLINE float v16_fold(v16 s)
{
    const __m256 f8 = _mm256_add_ps(s.lo, s.hi);
    const __m128 f4 =
        _mm_add_ps(_mm256_castps256_ps128(f8), _mm256_extractf128_ps(f8, 1));
    const __m128 f2 = _mm_add_ps(f4, _mm_movehl_ps(f4, f4));
    return _mm_cvtss_f32(_mm_add_ss(f2, _mm_shuffle_ps(f2, f2, 1)));
}

INLINE v16 row16(bw_kernel_op op, bw_dtype t, v16 s, const float *query,
                 const void *row, size_t i, vf scale)
{
    s.lo = vf_step(op, s.lo, _mm256_loadu_ps(query + i), vf_load(t, row, i, scale));
    s.hi = vf_step(op, s.hi, _mm256_loadu_ps(query + i + 8),
                   vf_load(t, row, i + 8, scale));
    return s;
}

INLINE vf rest8(bw_kernel_op op, bw_dtype t, vf s, const float *query, const void *row,
                size_t i, vf scale, size_t n)
{
    const vf q = _mm256_maskload_ps(query + i, lanes(n));
    return vf_keep(s, vf_step(op, s, q, vf_part(t, row, i, scale, n)), n);
}

/* n < 16 elements. */
INLINE v16 row_rest(bw_kernel_op op, bw_dtype t, v16 s, const float *query,
                    const void *row, size_t i, vf scale, size_t n)
{
    if (n < 8) {
        s.lo = rest8(op, t, s.lo, query, row, i, scale, n);
        return s;
    }
    s.lo = vf_step(op, s.lo, _mm256_loadu_ps(query + i), vf_load(t, row, i, scale));
    s.hi = rest8(op, t, s.hi, query, row, i + 8, scale, n - 8);
    return s;
}

#include "kernels_wide.h"

BW_KERNELS_INSTANCES(avx2)

const bw_kernels bw_kernels__avx2 = BW_KERNELS_TABLE(avx2);
#else
typedef int bw_kernels_avx2_unused; /* a translation unit may not be empty */
#endif
