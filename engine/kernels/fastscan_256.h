/* The parts of FastScan that AVX2 and AVX-512 have in common: building a query's table,
 * and the step from sums to estimates. 256 bits wide; all loads may be unaligned. */
#ifndef BW_FASTSCAN_256_H
#define BW_FASTSCAN_256_H
#include "fastscan_isa.h"

#include <immintrin.h>

static inline __m256i load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

static inline __m256 absolute(__m256 v)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

/* The largest of eight whole numbers ≥ 0. */
static inline int32_t largest_of(__m256i v)
{
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1));
    return _mm_cvtsi128_si32(m);
}

/* Eight entries' worth of four bytes p0..p3 n0..n3 (group 0) and p4..n7 (group 1) in both
 * lanes: the tables of two groups. Entry b takes p_j where bit j of b is set, else n_j. */
static inline __m256i two_tables(__m256i pn)
{
#define PICK(j, b) ((b) >> (j) & 1 ? (j) : (j) + 4)
#define LANE(j, o)                                                                       \
    PICK(j, 0) + (o), PICK(j, 1) + (o), PICK(j, 2) + (o), PICK(j, 3) + (o),               \
        PICK(j, 4) + (o), PICK(j, 5) + (o), PICK(j, 6) + (o), PICK(j, 7) + (o),           \
        PICK(j, 8) + (o), PICK(j, 9) + (o), PICK(j, 10) + (o), PICK(j, 11) + (o),         \
        PICK(j, 12) + (o), PICK(j, 13) + (o), PICK(j, 14) + (o), PICK(j, 15) + (o)
    const __m256i m0 = _mm256_setr_epi8(LANE(0, 0), LANE(0, 8)),
                  m1 = _mm256_setr_epi8(LANE(1, 0), LANE(1, 8)),
                  m2 = _mm256_setr_epi8(LANE(2, 0), LANE(2, 8)),
                  m3 = _mm256_setr_epi8(LANE(3, 0), LANE(3, 8));
#undef LANE
#undef PICK
    return _mm256_add_epi8(
        _mm256_add_epi8(_mm256_shuffle_epi8(pn, m0), _mm256_shuffle_epi8(pn, m1)),
        _mm256_add_epi8(_mm256_shuffle_epi8(pn, m2), _mm256_shuffle_epi8(pn, m3)));
}

static inline __m256i rounded(const float *q, __m256 scale)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(q), scale));
}

static inline void table_256(const float *q, bw_fastscan_table *t)
{
    const size_t dim = t->dim;
    __m256i most = _mm256_setzero_si256();
    for (size_t i = 0; i < dim; i += 32) {
        const __m256 a = absolute(_mm256_loadu_ps(q + i)),
                     b = absolute(_mm256_loadu_ps(q + i + 8)),
                     c = absolute(_mm256_loadu_ps(q + i + 16)),
                     d = absolute(_mm256_loadu_ps(q + i + 24));
        const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
        most = _mm256_max_epi32(most, _mm256_castps_si256(sums));
    }
    float step;
    const float steps = fs_steps(largest_of(most), FS_STEPS, &step);
    t->half_step = step * 0.5f;
    t->total = 0;
    if (!(steps > 0)) {
        memset(t->entries, 0, bw_fastscan_bytes(dim));
        return;
    }
    const __m256 scale = _mm256_set1_ps(steps);
    const __m256i zero = _mm256_setzero_si256(),
                  order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i total = zero;
    for (size_t i = 0; i < dim; i += 32) {
        const __m256i ab = _mm256_packs_epi32(rounded(q + i, scale), rounded(q + i + 8, scale)),
                      cd = _mm256_packs_epi32(rounded(q + i + 16, scale),
                                              rounded(q + i + 24, scale));
        const __m256i v =
            _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order);
        const __m256i p = _mm256_max_epi8(v, zero),
                      n = _mm256_max_epi8(_mm256_sub_epi8(zero, v), zero);
        total = _mm256_add_epi32(total, _mm256_sad_epu8(_mm256_add_epi8(p, n), zero));
        const __m256i lo = _mm256_unpacklo_epi32(p, n), /* dims 0–7, 16–23 */
            hi = _mm256_unpackhi_epi32(p, n);           /* dims 8–15, 24–31 */
        __m256i *out = (__m256i *)(void *)(t->entries + i * 4);
        _mm256_storeu_si256(out, two_tables(_mm256_permute2x128_si256(lo, lo, 0x00)));
        _mm256_storeu_si256(out + 1, two_tables(_mm256_permute2x128_si256(hi, hi, 0x00)));
        _mm256_storeu_si256(out + 2, two_tables(_mm256_permute2x128_si256(lo, lo, 0x11)));
        _mm256_storeu_si256(out + 3, two_tables(_mm256_permute2x128_si256(hi, hi, 0x11)));
    }
    const __m128i s = _mm_add_epi32(_mm256_castsi256_si128(total),
                                    _mm256_extracti128_si256(total, 1));
    t->total = _mm_cvtsi128_si32(s) + _mm_extract_epi32(s, 2);
}

static inline void query_256(const float *q, size_t dim, int16_t *out, float *step)
{
    __m256i most = _mm256_setzero_si256();
    for (size_t i = 0; i < dim; i += 8)
        most = _mm256_max_epi32(most,
                                _mm256_castps_si256(absolute(_mm256_loadu_ps(q + i))));
    const float steps =
        fs_steps(largest_of(most), (float)bw_fastscan_query_max(dim), step);
    if (!(steps > 0)) {
        memset(out, 0, dim * sizeof *out);
        return;
    }
    const __m256 scale = _mm256_set1_ps(steps);
    for (size_t i = 0; i < dim; i += 16) {
        const __m256i v = _mm256_packs_epi32(rounded(q + i, scale), rounded(q + i + 8, scale));
        _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm256_permute4x64_epi64(v, 0xD8));
    }
}

/* Sums as whole numbers of 32 bits, lanes in order, eight a register. */
typedef struct wide_sums {
    __m256i s[4];
} wide_sums;

/* Adds 16-bit sums: even holds lanes 0–7, odd 8–15 (or 16 more), twice over. */
static inline void widen(__m256i *s, __m256i even, __m256i odd)
{
    const __m256i sum = _mm256_add_epi16(_mm256_permute2x128_si256(even, odd, 0x20),
                                         _mm256_permute2x128_si256(even, odd, 0x31));
    s[0] = _mm256_add_epi32(s[0], _mm256_cvtepu16_epi32(_mm256_castsi256_si128(sum)));
    s[1] = _mm256_add_epi32(s[1], _mm256_cvtepu16_epi32(_mm256_extracti128_si256(sum, 1)));
}

/* Lanes 8·i … +7. */
static inline __attribute__((always_inline)) uint32_t
finish_8(const bw_fastscan_table *t, __m256i sums, size_t i, const uint16_t *add,
         const uint16_t *scale, float base, float worst, float *out)
{
    const __m256i twice =
        _mm256_sub_epi32(_mm256_slli_epi32(sums, 1), _mm256_set1_epi32(t->total));
    const __m256 ip =
        _mm256_mul_ps(_mm256_cvtepi32_ps(twice), _mm256_set1_ps(t->half_step));
    const __m256 a = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(add + 8 * i))),
                 f = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(scale + 8 * i)));
    const __m256 e = _mm256_fmadd_ps(f, ip, _mm256_add_ps(a, _mm256_set1_ps(base)));
    _mm256_storeu_ps(out + 8 * i, e);
    const __m256 less = _mm256_cmp_ps(e, _mm256_set1_ps(worst), _CMP_LT_OQ);
    return (uint32_t)_mm256_movemask_ps(less) << (8 * i);
}

static inline uint32_t finish_256(const bw_fastscan_table *t, wide_sums w,
                                  const uint16_t add[32], const uint16_t scale[32], float base,
                                  float worst, float out[32])
{
    return finish_8(t, w.s[0], 0, add, scale, base, worst, out) |
           finish_8(t, w.s[1], 1, add, scale, base, worst, out) |
           finish_8(t, w.s[2], 2, add, scale, base, worst, out) |
           finish_8(t, w.s[3], 3, add, scale, base, worst, out);
}
#endif
