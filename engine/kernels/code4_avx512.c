/* Kernels over 4-bit codes for AVX-512 (F, BW, DQ, VL), and with VNNI.
 *
 * As code4_avx2.c with lines of 64 bytes; where a stride ends in half a line, masked
 * loads read zeros. VNNI's vpdpbusd adds four products of code and query byte to 32
 * bits at once, so nothing needs widening. The file's flags have no VNNI: the functions
 * that use it say so, and code4.c asks the CPU. */
#include "code4_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

typedef __m512 vf;
#define v_set _mm512_set1_ps
#define v_add _mm512_add_ps
#define v_sub _mm512_sub_ps
#define v_mul _mm512_mul_ps
#define v_div _mm512_div_ps
#define v_max _mm512_max_ps
#define v_fma _mm512_fmadd_ps
#define v_sqrt _mm512_sqrt_ps
#define v_abs _mm512_abs_ps
#include "code4_bound.h"

enum { ROWS = 4, LINE = 64, LANES = 16 };

#define INLINE static inline __attribute__((always_inline))
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

/* The bytes of a line that a row has: all, or the first half. */
INLINE __mmask64 line_mask(size_t left)
{
    return left >= LINE ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
}

INLINE __m512i line_sum(__m512i sum, __m512i c, __m512i low, __m512i high)
{
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i l = _mm512_and_si512(c, nibble);
    const __m512i h = _mm512_and_si512(_mm512_srli_epi16(c, 4), nibble);
    sum = _mm512_add_epi16(sum, _mm512_maddubs_epi16(l, low));
    return _mm512_add_epi16(sum, _mm512_maddubs_epi16(h, high));
}

INLINE __m512i widen(__m512i sum, __m512i part)
{
    return _mm512_add_epi32(sum, _mm512_madd_epi16(part, _mm512_set1_epi16(1)));
}

INLINE void rows_wide(const int8_t *q, const uint8_t *const *r, size_t nr, size_t stride,
                      size_t span, int32_t *out)
{
    __m512i s[ROWS], p[ROWS];
    for (size_t j = 0; j < nr; j++)
        s[j] = p[j] = _mm512_setzero_si512();
    size_t end = span;
    for (size_t i = 0; i < stride; i += LINE) {
        const __mmask64 m = line_mask(stride - i);
        const __m512i low = _mm512_maskz_loadu_epi8(m, q + i);
        const __m512i high = _mm512_maskz_loadu_epi8(m, q + stride + i);
        for (size_t j = 0; j < nr; j++)
            p[j] = line_sum(p[j], _mm512_maskz_loadu_epi8(m, r[j] + i), low, high);
        if (i + LINE == end) {
            end += span;
            for (size_t j = 0; j < nr; j++) {
                s[j] = widen(s[j], p[j]);
                p[j] = _mm512_setzero_si512();
            }
        }
    }
    for (size_t j = 0; j < nr; j++)
        out[j] = _mm512_reduce_add_epi32(widen(s[j], p[j]));
}

VNNI INLINE void rows_vnni(const int8_t *q, const uint8_t *const *r, size_t nr,
                           size_t stride, size_t span, int32_t *out)
{
    (void)span;
    const __m512i nibble = _mm512_set1_epi8(15);
    __m512i s[ROWS], t[ROWS]; /* two chains a row: the latency is 5 */
    for (size_t j = 0; j < nr; j++)
        s[j] = t[j] = _mm512_setzero_si512();
    for (size_t i = 0; i < stride; i += LINE) {
        const __mmask64 m = line_mask(stride - i);
        const __m512i low = _mm512_maskz_loadu_epi8(m, q + i);
        const __m512i high = _mm512_maskz_loadu_epi8(m, q + stride + i);
        for (size_t j = 0; j < nr; j++) {
            const __m512i c = _mm512_maskz_loadu_epi8(m, r[j] + i);
            s[j] = _mm512_dpbusd_epi32(s[j], _mm512_and_si512(c, nibble), low);
            t[j] = _mm512_dpbusd_epi32(
                t[j], _mm512_and_si512(_mm512_srli_epi16(c, 4), nibble), high);
        }
    }
    for (size_t j = 0; j < nr; j++)
        out[j] = _mm512_reduce_add_epi32(_mm512_add_epi32(s[j], t[j]));
}

INLINE void prefetch(const uint8_t *p, size_t bytes)
{
    for (size_t o = 0; o < bytes; o += 64)
        _mm_prefetch((const char *)(p + o), _MM_HINT_T0);
}

#define DEFINE_SUMS(attr, kind)                                                         \
    attr static void sums_##kind(const int8_t *q, const uint8_t *codes, size_t stride,  \
                                 size_t span, size_t n, int32_t *out)                   \
    {                                                                                   \
        size_t i = 0;                                                                   \
        for (; i + ROWS <= n; i += ROWS) {                                              \
            const uint8_t *r = codes + i * stride;                                      \
            const uint8_t *const rows[ROWS] = {r, r + stride, r + 2 * stride,           \
                                               r + 3 * stride};                         \
            if (i + 4 * ROWS <= n)                                                      \
                prefetch(r + 3 * ROWS * stride, ROWS * stride);                         \
            rows_##kind(q, rows, ROWS, stride, span, out + i);                          \
        }                                                                               \
        for (; i < n; i++) {                                                            \
            const uint8_t *const row = codes + i * stride;                              \
            rows_##kind(q, &row, 1, stride, span, out + i);                             \
        }                                                                               \
    }                                                                                   \
    attr static void sums_at_##kind(const int8_t *q, const uint8_t *codes,              \
                                    size_t stride, size_t span, const uint32_t *which,  \
                                    size_t n, int32_t *out)                             \
    {                                                                                   \
        enum { AHEAD = 8 };                                                             \
        size_t i = 0;                                                                   \
        for (; i + ROWS <= n; i += ROWS) {                                              \
            const uint8_t *const rows[ROWS] = {                                         \
                codes + which[i] * stride, codes + which[i + 1] * stride,               \
                codes + which[i + 2] * stride, codes + which[i + 3] * stride};          \
            for (size_t j = i + AHEAD; j < i + AHEAD + ROWS && j < n; j++)              \
                prefetch(codes + which[j] * stride, stride);                            \
            rows_##kind(q, rows, ROWS, stride, span, out + i);                          \
        }                                                                               \
        for (; i < n; i++) {                                                            \
            const uint8_t *const row = codes + which[i] * stride;                       \
            rows_##kind(q, &row, 1, stride, span, out + i);                             \
        }                                                                               \
    }

DEFINE_SUMS(, wide)
DEFINE_SUMS(VNNI, vnni)

/* Lanes past n read zeros: a writer may be at the row after the last. */
#define DEFINE_REACH(op)                                                                \
    static size_t op##_reach(const bw_code4_query *q, const int32_t *sum,               \
                             const float *step, const float *norm, const float *lost,   \
                             size_t n, uint32_t *at, float *upper)                      \
    {                                                                                   \
        const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,    \
                                               12, 13, 14, 15);                         \
        size_t found = 0;                                                               \
        for (size_t i = 0; i < n; i += LANES) {                                         \
            const size_t left = n - i;                                                  \
            const unsigned some = left >= LANES ? 0xffffu : (1u << left) - 1;           \
            const __mmask16 valid = (__mmask16)some;                                    \
            const __m512i s = _mm512_maskz_loadu_epi32(valid, sum + i);                 \
            const __m512i v =                                                           \
                _mm512_sub_epi32(_mm512_add_epi32(s, s), _mm512_set1_epi32(q->bias));   \
            const vf a = v_mul(v_mul(_mm512_cvtepi32_ps(v), v_set(q->scale)),           \
                               _mm512_maskz_loadu_ps(valid, step + i));                 \
            const vf nn = _mm512_maskz_loadu_ps(valid, norm + i);                       \
            const vf ll = _mm512_maskz_loadu_ps(valid, lost + i);                       \
            __mmask16 m =                                                               \
                _mm512_mask_cmp_ps_mask(valid, op##_first(q, a, nn, ll),                \
                                        v_set(op##_bar(q)), _CMP_NLT_UQ);               \
            if (!m)                                                                     \
                continue;                                                               \
            const vf u = op##_upper(q, a, nn, ll);                                      \
            m = _mm512_mask_cmp_ps_mask(m, u, v_set(q->worst), _CMP_NLT_UQ);            \
            const __m512i pos = _mm512_add_epi32(lane, _mm512_set1_epi32((int)i));      \
            _mm512_mask_compressstoreu_epi32(at + found, m, pos);                       \
            _mm512_mask_compressstoreu_ps(upper + found, m, u);                         \
            found += (size_t)__builtin_popcount(m);                                     \
        }                                                                               \
        return found;                                                                   \
    }

DEFINE_REACH(dot)
DEFINE_REACH(euclid)

/* Coding a row takes eight lanes: those of AVX2. */
#define CODING                                                                          \
    .size = bw_code4__size_avx2, .fit = bw_code4__fit_avx2, .write = bw_code4__write_avx2
const bw_code4 bw_code4__avx512 = {.isa = "avx512",
                                   .sums = sums_wide,
                                   .sums_at = sums_at_wide,
                                   .reach = {dot_reach, euclid_reach},
                                   CODING};
const bw_code4 bw_code4__avx512vnni = {.isa = "avx512vnni",
                                       .sums = sums_vnni,
                                       .sums_at = sums_at_vnni,
                                       .reach = {dot_reach, euclid_reach},
                                   CODING};
#else
typedef int bw_code4_avx512_unused; /* a translation unit may not be empty */
#endif
