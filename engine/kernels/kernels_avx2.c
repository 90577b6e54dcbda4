/* Distance kernels for AVX2 with FMA; reached only after kernels.c asked the CPU.
 *
 * The 16 partial sums of one row are two ymm registers (sums 0–7 and 8–15), so the
 * rows form works on four rows at a time with eight chains: that covers a fused
 * multiply-add's latency of 4 at two a cycle. The tail is done sum by sum in scalar
 * code (vfmadd231ss), which leaves the other sums' bits alone (kernels_isa.h). */
#include "kernels_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>

enum { ROWS = 4 };

typedef struct sums {
    __m256 lo, hi;
} sums;

static inline __attribute__((always_inline)) float sums_fold(sums s)
{
    const __m256 f8 = _mm256_add_ps(s.lo, s.hi);
    const __m128 f4 =
        _mm_add_ps(_mm256_castps256_ps128(f8), _mm256_extractf128_ps(f8, 1));
    const __m128 f2 = _mm_add_ps(f4, _mm_movehl_ps(f4, f4));
    return _mm_cvtss_f32(_mm_add_ss(f2, _mm_shuffle_ps(f2, f2, 1)));
}

static inline __attribute__((always_inline)) __m256 dot_half(__m256 s, __m256 a,
                                                             __m256 b)
{
    return _mm256_fmadd_ps(a, b, s);
}
static inline __attribute__((always_inline)) float dot_one(float s, float a, float b)
{
    return fmaf(a, b, s);
}
static inline __attribute__((always_inline)) __m256 l2sq_half(__m256 s, __m256 a,
                                                              __m256 b)
{
    const __m256 d = _mm256_sub_ps(a, b);
    return _mm256_fmadd_ps(d, d, s);
}
static inline __attribute__((always_inline)) float l2sq_one(float s, float a, float b)
{
    const float d = a - b;
    return fmaf(d, d, s);
}
static inline __attribute__((always_inline)) __m256 l1_half(__m256 s, __m256 a,
                                                            __m256 b)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return _mm256_add_ps(s, _mm256_andnot_ps(sign, _mm256_sub_ps(a, b)));
}
static inline __attribute__((always_inline)) float l1_one(float s, float a, float b)
{
    return s + fabsf(a - b);
}

#define STEP(op, s, row)                                            \
    do {                                                            \
        s.lo = op##_half(s.lo, q0, _mm256_loadu_ps((row) + i));     \
        s.hi = op##_half(s.hi, q1, _mm256_loadu_ps((row) + i + 8)); \
    } while (0)

#define DEFINE_OP(op)                                                                  \
    static float op##_tail(sums s, const float *a, const float *b, size_t rest)        \
    {                                                                                  \
        float t[BW_KERNEL_SUMS];                                                       \
        _mm256_storeu_ps(t, s.lo);                                                     \
        _mm256_storeu_ps(t + 8, s.hi);                                                 \
        for (size_t i = 0; i < rest; i++)                                              \
            t[i] = op##_one(t[i], a[i], b[i]);                                         \
        return sums_fold((sums){_mm256_loadu_ps(t), _mm256_loadu_ps(t + 8)});          \
    }                                                                                  \
    static float bw_##op##_f32_avx2(const float *a, const float *b, size_t dim)        \
    {                                                                                  \
        sums s = {_mm256_setzero_ps(), _mm256_setzero_ps()};                           \
        size_t i = 0;                                                                  \
        for (; i + 16 <= dim; i += 16) {                                               \
            const __m256 q0 = _mm256_loadu_ps(a + i), q1 = _mm256_loadu_ps(a + i + 8); \
            STEP(op, s, b);                                                            \
        }                                                                              \
        return i < dim ? op##_tail(s, a + i, b + i, dim - i) : sums_fold(s);           \
    }                                                                                  \
    static inline __attribute__((always_inline)) void op##_block(                      \
        const float *query, const float *r, size_t dim, float *out, bool more)         \
    {                                                                                  \
        const float *r1 = r + dim, *r2 = r1 + dim, *r3 = r2 + dim;                     \
        sums s0 = {_mm256_setzero_ps(), _mm256_setzero_ps()}, s1 = s0, s2 = s0,        \
             s3 = s0;                                                                  \
        size_t i = 0;                                                                  \
        for (; i + 16 <= dim; i += 16) {                                               \
            const __m256 q0 = _mm256_loadu_ps(query + i),                              \
                         q1 = _mm256_loadu_ps(query + i + 8);                          \
            if (more) {                                                                \
                _mm_prefetch((const char *)(r + ROWS * dim + i), _MM_HINT_T0);         \
                _mm_prefetch((const char *)(r1 + ROWS * dim + i), _MM_HINT_T0);        \
                _mm_prefetch((const char *)(r2 + ROWS * dim + i), _MM_HINT_T0);        \
                _mm_prefetch((const char *)(r3 + ROWS * dim + i), _MM_HINT_T0);        \
            }                                                                          \
            STEP(op, s0, r);                                                           \
            STEP(op, s1, r1);                                                          \
            STEP(op, s2, r2);                                                          \
            STEP(op, s3, r3);                                                          \
        }                                                                              \
        const size_t rest = dim - i;                                                   \
        out[0] = rest ? op##_tail(s0, query + i, r + i, rest) : sums_fold(s0);         \
        out[1] = rest ? op##_tail(s1, query + i, r1 + i, rest) : sums_fold(s1);        \
        out[2] = rest ? op##_tail(s2, query + i, r2 + i, rest) : sums_fold(s2);        \
        out[3] = rest ? op##_tail(s3, query + i, r3 + i, rest) : sums_fold(s3);        \
    }                                                                                  \
    static void bw_##op##_rows_f32_avx2(const float *query, const float *rows,         \
                                        size_t n, size_t dim, float *out)              \
    {                                                                                  \
        size_t i = 0;                                                                  \
        for (; i + 2 * ROWS <= n; i += ROWS)                                           \
            op##_block(query, rows + i * dim, dim, out + i, true);                     \
        for (; i + ROWS <= n; i += ROWS)                                               \
            op##_block(query, rows + i * dim, dim, out + i, false);                    \
        for (; i < n; i++)                                                             \
            out[i] = bw_##op##_f32_avx2(query, rows + i * dim, dim);                   \
    }

DEFINE_OP(dot)
DEFINE_OP(l2sq)
DEFINE_OP(l1)

const bw_kernels bw_kernels__avx2 = {
    .isa = "avx2",
    .dot_f32 = bw_dot_f32_avx2,
    .l2sq_f32 = bw_l2sq_f32_avx2,
    .l1_f32 = bw_l1_f32_avx2,
    .dot_rows_f32 = bw_dot_rows_f32_avx2,
    .l2sq_rows_f32 = bw_l2sq_rows_f32_avx2,
    .l1_rows_f32 = bw_l1_rows_f32_avx2,
};
#else
typedef int bw_kernels_avx2_unused; /* a translation unit may not be empty */
#endif
