/* Kernels over 4-bit codes for AVX2 with FMA; reached only after the CPU was asked.
 *
 * vpmaddubsw multiplies codes (0 … 15) with query bytes and adds pairs: at most
 * 15·127·2 = 3,810. Sums stay in 16 bits for a span of the row (bw_code4_span), mostly
 * the whole. Four rows share the loads of the query. */
#include "code4_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

typedef __m256 vf;
#define v_set _mm256_set1_ps
#define v_add _mm256_add_ps
#define v_sub _mm256_sub_ps
#define v_mul _mm256_mul_ps
#define v_div _mm256_div_ps
#define v_max _mm256_max_ps
#define v_fma _mm256_fmadd_ps
#define v_sqrt _mm256_sqrt_ps
static inline __attribute__((always_inline)) vf v_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
#include "code4_bound.h"

enum { ROWS = 4, LANES = 8 };

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

INLINE __m256i line_sum(__m256i sum, const uint8_t *row, __m256i low, __m256i high)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i c = load(row);
    const __m256i l = _mm256_and_si256(c, nibble);
    const __m256i h = _mm256_and_si256(_mm256_srli_epi16(c, 4), nibble);
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(l, low));
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(h, high));
}

/* Halves fit 16 bits together: the span sees to it. */
INLINE __m128i widen(__m256i sum)
{
    const __m128i half = _mm_add_epi16(_mm256_castsi256_si128(sum),
                                       _mm256_extracti128_si256(sum, 1));
    return _mm_madd_epi16(half, _mm_set1_epi16(1));
}

INLINE __m128i fold4(const __m128i s[ROWS])
{
    const __m128i a = _mm_add_epi32(_mm_unpacklo_epi32(s[0], s[1]),
                                    _mm_unpackhi_epi32(s[0], s[1]));
    const __m128i b = _mm_add_epi32(_mm_unpacklo_epi32(s[2], s[3]),
                                    _mm_unpackhi_epi32(s[2], s[3]));
    return _mm_add_epi32(_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b));
}

/* Bytes from … to − 1 of four rows; `ahead` is fetched by four times as much. */
INLINE void span4(const int8_t *q, const uint8_t *const r[ROWS], size_t stride, size_t from,
                  size_t to, const char *ahead, __m128i s[ROWS])
{
    __m256i p0 = _mm256_setzero_si256(), p1 = p0, p2 = p0, p3 = p0;
#pragma GCC unroll 2 /* 3 % */
    for (size_t i = from; i < to; i += BW_CODE4_LINE) {
        const __m256i low = load(q + i), high = load(q + stride + i);
        if (ahead) {
            _mm_prefetch(ahead + ROWS * i, _MM_HINT_T0);
            _mm_prefetch(ahead + ROWS * i + 64, _MM_HINT_T0);
        }
        p0 = line_sum(p0, r[0] + i, low, high);
        p1 = line_sum(p1, r[1] + i, low, high);
        p2 = line_sum(p2, r[2] + i, low, high);
        p3 = line_sum(p3, r[3] + i, low, high);
    }
    s[0] = _mm_add_epi32(s[0], widen(p0));
    s[1] = _mm_add_epi32(s[1], widen(p1));
    s[2] = _mm_add_epi32(s[2], widen(p2));
    s[3] = _mm_add_epi32(s[3], widen(p3));
}

INLINE void rows4(const int8_t *q, const uint8_t *const r[ROWS], size_t stride, size_t span,
                  const char *ahead, int32_t *out)
{
    __m128i s[ROWS] = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128(),
                       _mm_setzero_si128()};
    size_t i = 0;
    for (; stride - i > span; i += span)
        span4(q, r, stride, i, i + span, ahead, s);
    span4(q, r, stride, i, stride, ahead, s);
    _mm_storeu_si128((__m128i *)out, fold4(s));
}

static int32_t row1(const int8_t *q, const uint8_t *row, size_t stride)
{
    __m128i s = _mm_setzero_si128();
    for (size_t i = 0; i < stride; i += BW_CODE4_LINE)
        s = _mm_add_epi32(s, widen(line_sum(_mm256_setzero_si256(), row + i, load(q + i),
                                            load(q + stride + i))));
    const __m128i all[ROWS] = {s, s, s, s};
    return _mm_cvtsi128_si32(fold4(all));
}

static void sums(const int8_t *q, const uint8_t *codes, size_t stride, size_t span, size_t n,
                 int32_t *out)
{
    size_t i = 0;
    for (; i + ROWS <= n; i += ROWS) {
        const uint8_t *r = codes + i * stride;
        const uint8_t *const rows[ROWS] = {r, r + stride, r + 2 * stride, r + 3 * stride};
        if (i + 4 * ROWS <= n) /* past a page the hardware's own stream starts anew */
            rows4(q, rows, stride, span, (const char *)(r + 3 * ROWS * stride), out + i);
        else
            rows4(q, rows, stride, span, NULL, out + i);
    }
    for (; i < n; i++)
        out[i] = row1(q, codes + i * stride, stride);
}

static void sums_at(const int8_t *q, const uint8_t *codes, size_t stride, size_t span,
                    const uint32_t *which, size_t n, int32_t *out)
{
    enum { AHEAD = 8 };
    size_t i = 0;
    for (; i + ROWS <= n; i += ROWS) {
        const uint8_t *const rows[ROWS] = {
            codes + which[i] * stride, codes + which[i + 1] * stride,
            codes + which[i + 2] * stride, codes + which[i + 3] * stride};
        for (size_t j = i + AHEAD; j < i + AHEAD + ROWS && j < n; j++)
            for (size_t o = 0; o < stride; o += 64)
                _mm_prefetch((const char *)(codes + which[j] * stride + o), _MM_HINT_T0);
        rows4(q, rows, stride, span, NULL, out + i);
    }
    for (; i < n; i++)
        out[i] = row1(q, codes + which[i] * stride, stride);
}

INLINE __m256 dot_of(const bw_code4_query *q, const int32_t *sum, __m256 step)
{
    const __m256i s = _mm256_loadu_si256((const __m256i *)sum);
    const __m256i v = _mm256_sub_epi32(_mm256_add_epi32(s, s), _mm256_set1_epi32(q->bias));
    return v_mul(v_mul(_mm256_cvtepi32_ps(v), v_set(q->scale)), step);
}

/* One step of eight rows at position i; `valid` says which are rows. */
#define DEFINE_REACH(op)                                                                \
    INLINE size_t op##_step(const bw_code4_query *q, const int32_t *sum,                \
                            const float *step, const float *norm, const float *lost,    \
                            size_t i, unsigned valid, uint32_t *at, float *upper)       \
    {                                                                                   \
        const __m256 n8 = _mm256_loadu_ps(norm), l8 = _mm256_loadu_ps(lost);            \
        const __m256 a = dot_of(q, sum, _mm256_loadu_ps(step));                         \
        const __m256 in = _mm256_cmp_ps(op##_first(q, a, n8, l8), v_set(op##_bar(q)),   \
                                        _CMP_NLT_UQ);                                   \
        unsigned mask = (unsigned)_mm256_movemask_ps(in) & valid;                       \
        if (!mask)                                                                      \
            return 0;                                                                   \
        const __m256 u = op##_upper(q, a, n8, l8);                                      \
        mask &= (unsigned)_mm256_movemask_ps(                                           \
            _mm256_cmp_ps(u, v_set(q->worst), _CMP_NLT_UQ));                            \
        float u8[LANES];                                                                \
        _mm256_storeu_ps(u8, u);                                                        \
        size_t found = 0;                                                               \
        for (; mask; mask &= mask - 1) {                                                \
            const unsigned lane = (unsigned)__builtin_ctz(mask);                        \
            at[found] = (uint32_t)i + lane;                                             \
            upper[found++] = u8[lane];                                                  \
        }                                                                               \
        return found;                                                                   \
    }                                                                                   \
    static size_t op##_reach(const bw_code4_query *q, const int32_t *sum,               \
                             const float *step, const float *norm, const float *lost,   \
                             size_t n, uint32_t *at, float *upper)                      \
    {                                                                                   \
        size_t found = 0, i = 0;                                                        \
        for (; i + LANES <= n; i += LANES)                                              \
            found += op##_step(q, sum + i, step + i, norm + i, lost + i, i, 0xff,       \
                               at + found, upper + found);                              \
        if (i == n)                                                                     \
            return found;                                                               \
        int32_t s8[LANES] = {0};                                                        \
        float t8[LANES] = {0}, n8[LANES] = {0}, l8[LANES] = {0};                        \
        const size_t rest = n - i; /* a writer may be at the row after the last */      \
        memcpy(s8, sum + i, rest * sizeof *s8);                                         \
        memcpy(t8, step + i, rest * sizeof *t8);                                        \
        memcpy(n8, norm + i, rest * sizeof *n8);                                        \
        memcpy(l8, lost + i, rest * sizeof *l8);                                        \
        return found + op##_step(q, s8, t8, n8, l8, i, (1u << rest) - 1, at + found,    \
                                 upper + found);                                        \
    }

DEFINE_REACH(dot)
DEFINE_REACH(euclid)

const bw_code4 bw_code4__avx2 = {.isa = "avx2",
                                 .sums = sums,
                                 .sums_at = sums_at,
                                 .reach = {dot_reach, euclid_reach},
                                 .size = bw_code4__size_avx2,
                                 .fit = bw_code4__fit_avx2,
                                 .write = bw_code4__write_avx2};
#else
typedef int bw_code4_avx2_unused; /* a translation unit may not be empty */
#endif
