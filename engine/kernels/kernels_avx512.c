/* Distance kernels for AVX-512 (F, BW, DQ, VL); reached only after kernels.c asked the
 * CPU. The drivers are in kernels_wide.h; here are the registers.
 *
 * One zmm register holds the 16 partial sums of one row.
 *   vfmadd231ps zmm   latency 4, ports 0 and 5
 *   vsubps, vaddps    latency 4, ports 0 and 5
 *   vandps (abs)      latency 1
 *   vcvtph2ps zmm     f16 to f32, exact
 * vdpbf16ps is not used: it rounds otherwise (and flushes subnormals), and its two
 * products a lane are another order of sums. The tail runs under a mask, which leaves
 * the other sums' bits alone (kernels_isa.h). */
#include "kernels_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { VW = 16 };
typedef __m512 vf;
typedef __m512 v16;

INLINE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}
INLINE vf vf_all(float x)
{
    return _mm512_set1_ps(x);
}
INLINE void vf_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}

INLINE vf bf16_wide(__m256i h)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
INLINE vf i8_wide(__m128i codes, vf scale)
{
    return _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes)));
}

INLINE vf vf_load(bw_dtype t, const void *row, size_t i, vf scale)
{
    const uint16_t *half = (const uint16_t *)row + i;
    switch (t) {
    case BW_DTYPE_F16:
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)half));
    case BW_DTYPE_BF16:
        return bf16_wide(_mm256_loadu_si256((const __m256i *)half));
    case BW_DTYPE_I8:
        return i8_wide(_mm_loadu_si128((const __m128i *)((const int8_t *)row + i)),
                       scale);
    case BW_DTYPE_F32:
    default:
        return _mm512_loadu_ps((const float *)row + i);
    }
}

INLINE __mmask16 lanes(size_t n)
{
    return (__mmask16)((1u << n) - 1u);
}

INLINE vf vf_part(bw_dtype t, const void *row, size_t i, vf scale, size_t n)
{
    const uint16_t *half = (const uint16_t *)row + i;
    const __mmask16 m = lanes(n);
    switch (t) {
    case BW_DTYPE_F16:
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, half));
    case BW_DTYPE_BF16:
        return bf16_wide(_mm256_maskz_loadu_epi16(m, half));
    case BW_DTYPE_I8:
        return i8_wide(_mm_maskz_loadu_epi8(m, (const int8_t *)row + i), scale);
    case BW_DTYPE_F32:
    default:
        return _mm512_maskz_loadu_ps(m, (const float *)row + i);
    }
}

INLINE vf vf_keep(vf old, vf new, size_t n)
{
    return _mm512_mask_mov_ps(old, lanes(n), new);
}

INLINE vf vf_step(bw_kernel_op op, vf s, vf a, vf b)
{
    const vf d = _mm512_sub_ps(a, b);
    switch (op) {
    case BW_KERNEL_L2SQ:
        return _mm512_fmadd_ps(d, d, s);
    case BW_KERNEL_L1:
        return _mm512_add_ps(s, _mm512_abs_ps(d));
    case BW_KERNEL_DOT:
    default:
        return _mm512_fmadd_ps(a, b, s);
    }
}

INLINE v16 v16_zero(void)
{
    return vf_zero();
}
INLINE v16 v16_of(const float s[16])
{
    return _mm512_loadu_ps(s);
}
INLINE float v16_fold(v16 s)
{
    const __m256 f8 =
        _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    const __m128 f4 =
        _mm_add_ps(_mm256_castps256_ps128(f8), _mm256_extractf128_ps(f8, 1));
    const __m128 f2 = _mm_add_ps(f4, _mm_movehl_ps(f4, f4));
    return _mm_cvtss_f32(_mm_add_ss(f2, _mm_shuffle_ps(f2, f2, 1)));
}

INLINE v16 row16(bw_kernel_op op, bw_dtype t, v16 s, const float *query,
                 const void *row, size_t i, vf scale)
{
    return vf_step(op, s, _mm512_loadu_ps(query + i), vf_load(t, row, i, scale));
}

INLINE v16 row_rest(bw_kernel_op op, bw_dtype t, v16 s, const float *query,
                    const void *row, size_t i, vf scale, size_t n)
{
    const vf q = _mm512_maskz_loadu_ps(lanes(n), query + i);
    return vf_keep(s, vf_step(op, s, q, vf_part(t, row, i, scale, n)), n);
}

#include "kernels_wide.h"

BW_KERNELS_INSTANCES(avx512)

const bw_kernels bw_kernels__avx512 = BW_KERNELS_TABLE(avx512);
#else
typedef int bw_kernels_avx512_unused; /* a translation unit may not be empty */
#endif
