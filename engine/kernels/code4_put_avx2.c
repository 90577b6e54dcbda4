/* Coding rows in 4 bits, eight dimensions at once; the bits of code4_put.h. */
#include "code4_isa.h"
#include "code4_put.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { LANES = CODE4_LANES, SPAN = 64 /* dimensions of a line */ };

#define INLINE static inline __attribute__((always_inline))

/* Eight doubles. */
typedef struct wide {
    __m256d low, high;
} wide;

INLINE wide wide_zero(void)
{
    return (wide){_mm256_setzero_pd(), _mm256_setzero_pd()};
}

INLINE wide wide_f32(__m256 x)
{
    return (wide){_mm256_cvtps_pd(_mm256_castps256_ps128(x)),
                  _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}

INLINE wide wide_i32(__m256i x)
{
    return (wide){_mm256_cvtepi32_pd(_mm256_castsi256_si128(x)),
                  _mm256_cvtepi32_pd(_mm256_extracti128_si256(x, 1))};
}

/* s + a·b, in two roundings. */
INLINE wide wide_sum(wide s, wide a, wide b)
{
    return (wide){_mm256_add_pd(s.low, _mm256_mul_pd(a.low, b.low)),
                  _mm256_add_pd(s.high, _mm256_mul_pd(a.high, b.high))};
}

INLINE void wide_store(double out[LANES], wide s)
{
    _mm256_storeu_pd(out, s.low);
    _mm256_storeu_pd(out + 4, s.high);
}

INLINE __m256i levels(__m256 x, __m256 per_step)
{
    const __m256 v =
        _mm256_add_ps(_mm256_mul_ps(x, per_step), _mm256_set1_ps(CODE4_LEVELS / 2));
    const __m256 least = _mm256_max_ps(v, _mm256_setzero_ps());
    return _mm256_cvttps_epi32(_mm256_min_ps(least, _mm256_set1_ps(CODE4_LEVELS - 1)));
}

INLINE __m256i twice_w(__m256i u)
{
    return _mm256_sub_epi32(_mm256_add_epi32(u, u), _mm256_set1_epi32(CODE4_LEVELS - 1));
}

void bw_code4__size_avx2(const float *x, size_t dim, float *top, double *square)
{
    wide s = wide_zero();
    __m256 most = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + LANES <= dim; i += LANES) {
        const __m256 v = _mm256_loadu_ps(x + i);
        const wide d = wide_f32(v);
        s = wide_sum(s, d, d);
        most = _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), v), most);
    }
    float t[LANES];
    double sums[LANES];
    _mm256_storeu_ps(t, most);
    wide_store(sums, s);
    *top = 0;
    for (size_t j = 0; j < LANES; j++)
        *top = t[j] > *top ? t[j] : *top;
    code4_size_rest(x, i, dim, top, sums);
    *square = code4_fold(sums);
}

void bw_code4__fit_avx2(const float *x, size_t dim, float per_step, double *xw, int64_t *ww)
{
    wide s = wide_zero();
    __m256i squares = _mm256_setzero_si256(); /* 225 · 65,536 / 8: fits */
    size_t i = 0;
    for (; i + LANES <= dim; i += LANES) {
        const __m256 v = _mm256_loadu_ps(x + i);
        const __m256i w = twice_w(levels(v, _mm256_set1_ps(per_step)));
        s = wide_sum(s, wide_f32(v), wide_i32(w));
        squares = _mm256_add_epi32(squares, _mm256_mullo_epi32(w, w));
    }
    int32_t q[LANES];
    double sums[LANES];
    _mm256_storeu_si256((__m256i *)q, squares);
    wide_store(sums, s);
    *ww = 0;
    for (size_t j = 0; j < LANES; j++)
        *ww += q[j];
    code4_fit_rest(x, i, dim, per_step, sums, ww);
    *xw = code4_fold(sums);
}

double bw_code4__write_avx2(const float *x, size_t dim, float per_step, double step,
                            uint8_t *codes)
{
    const __m256d step4 = _mm256_set1_pd(step), half = _mm256_set1_pd(7.5);
    wide s = wide_zero();
    size_t i = 0;
    for (; i + SPAN <= dim; i += SPAN) {
        int32_t u[SPAN];
        for (size_t j = 0; j < SPAN; j += LANES) {
            const __m256 v = _mm256_loadu_ps(x + i + j);
            const __m256i l = levels(v, _mm256_set1_ps(per_step));
            const wide d = wide_f32(v), w = wide_i32(l);
            const wide r = {
                _mm256_sub_pd(d.low, _mm256_mul_pd(step4, _mm256_sub_pd(w.low, half))),
                _mm256_sub_pd(d.high, _mm256_mul_pd(step4, _mm256_sub_pd(w.high, half)))};
            s = wide_sum(s, r, r);
            _mm256_storeu_si256((__m256i *)(u + j), l);
        }
        for (size_t j = 0; j < SPAN / 2; j++)
            codes[i / 2 + j] = (uint8_t)(u[j] | u[j + SPAN / 2] << 4);
    }
    double sums[LANES];
    wide_store(sums, s);
    code4_write_rest(x, i, dim, per_step, step, codes, sums);
    return code4_fold(sums);
}
#else
typedef int bw_code4_put_avx2_unused; /* a translation unit may not be empty */
#endif
