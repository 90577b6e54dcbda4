/* The row functions of gemm.h, once for every ISA: each gemm*.c includes this and the
 * compiler makes of vectors (a GNU extension) what that file's flags allow. No fused
 * operation is used here, so that cannot change a bit.
 *
 * exp: round x / ln 2 to the integer m by the 1.5 · 2^23 trick, r = x − m ln 2 in two
 * steps (Cody & Waite 1980), polynomial of degree 6 (Taylor, |r| <= ln 2 / 2, 2e-7
 * relative), exponent added to the bits. Arguments are <= 0 and clamped at −87, where
 * the result is still a normal number.
 * gelu: erfc(a) = exp(P(a)) on 0 <= a <= 4 with P of degree 9, fitted by us by weighted
 * Chebyshev least squares: |error of erf| <= 6e-9 before rounding. */
#ifndef BW_GEMM_ROWS_H
#define BW_GEMM_ROWS_H
#include "gemm.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Lanes of one vector here: what the including file's ISA has, so that nothing has to
 * be taken apart; ROW_VECS of them make the 16 lanes that sums run over. */
#if defined(__AVX512F__)
enum { ROW_VLEN = 16 };
#elif defined(__AVX2__)
enum { ROW_VLEN = 8 };
#else
enum { ROW_VLEN = 4 };
#endif
enum { LANES = 16, ROW_VECS = LANES / ROW_VLEN };
typedef float fvec __attribute__((vector_size(4 * ROW_VLEN)));
typedef uint32_t uvec __attribute__((vector_size(4 * ROW_VLEN)));
typedef int32_t ivec __attribute__((vector_size(4 * ROW_VLEN)));
typedef struct lanes {
    fvec v[ROW_VECS];
} lanes;
_Static_assert(sizeof(lanes) == LANES * sizeof(float), "16 lanes");

/* mask lanes are all ones or zero; *out = mask ? a : b */
static inline void choose(const ivec *mask, const fvec *a, const fvec *b, fvec *out)
{
    *out = (fvec)(((ivec)*a & *mask) | ((ivec)*b & ~*mask));
}

/* In place; lanes must be <= 0 (NaN stays NaN). */
static inline void exp_vec(fvec *x)
{
    const float magic = 12582912.0f; /* 1.5 · 2^23 */
    fvec low = *x * 0.0f - 87.0f, v = *x;
    ivec under = v < low;
    choose(&under, &low, &v, &v);
    fvec t = v * 1.44269504f + magic;
    fvec m = t - magic;
    fvec r = (v - m * 0.693359375f) - m * -2.12194440e-4f;
    fvec p = r * 1.3888889e-3f + 8.3333333e-3f;
    p = p * r + 4.1666667e-2f;
    p = p * r + 1.6666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    *x = (fvec)((uvec)p + ((uvec)t << 23));
}

static inline void gelu_vec(fvec *x)
{
    fvec v = *x, zero = v * 0.0f, top = zero + 4.0f, neg = -v, a;
    ivec positive = v > zero;
    choose(&positive, &v, &neg, &a);
    a = a * 0.707106781f;
    ivec over = a > top;
    choose(&over, &top, &a, &a);
    fvec p = a * 8.04386400e-6f + -1.06027015e-4f;
    p = p * a + 5.87952032e-4f;
    p = p * a + -1.57676265e-3f;
    p = p * a + 5.87841605e-5f;
    p = p * a + 1.92171410e-2f;
    p = p * a + -1.02799207e-1f;
    p = p * a + -6.36616111e-1f;
    p = p * a + -1.12837934f;
    p = p * a;
    exp_vec(&p);
    fvec half = p * 0.5f, upper = 1.0f - half;
    choose(&positive, &upper, &half, &p);
    *x = v * p;
}

/* Up to 16 values; lanes past n are zero. */
static inline void load(const float *x, size_t n, lanes *out)
{
    if (n >= LANES) {
        memcpy(out, x, sizeof *out);
    } else {
        memset(out, 0, sizeof *out);
        memcpy(out, x, n * sizeof *x);
    }
}

static inline void store(float *x, size_t n, const lanes *v)
{
    if (n >= LANES)
        memcpy(x, v, sizeof *v);
    else
        memcpy(x, v, n * sizeof *x);
}

static inline float sum_lanes(const lanes *v)
{
    float s[LANES];
    memcpy(s, v, sizeof s);
    for (size_t step = LANES / 2; step > 0; step /= 2)
        for (size_t i = 0; i < step; i++)
            s[i] += s[i + step];
    return s[0];
}

#define FOR_VECS for (size_t k = 0; k < ROW_VECS; k++)

static void rows_gelu(float *x, size_t n)
{
    lanes a;
    for (size_t i = 0; i < n; i += LANES) {
        load(x + i, n - i, &a);
        FOR_VECS gelu_vec(&a.v[k]);
        store(x + i, n - i, &a);
    }
}

/* The largest of n values, n a multiple of 16: no order of comparisons changes it. */
static inline float max_of(const float *x, size_t n)
{
    lanes a, top;
    load(x, LANES, &top);
    for (size_t i = LANES; i < n; i += LANES) {
        load(x + i, LANES, &a);
        FOR_VECS
        {
            ivec more = a.v[k] > top.v[k];
            choose(&more, &a.v[k], &top.v[k], &top.v[k]);
        }
    }
    float s[LANES], m;
    memcpy(s, &top, sizeof s);
    m = s[0];
    for (size_t i = 1; i < LANES; i++)
        m = s[i] > m ? s[i] : m;
    return m;
}

static void rows_softmax(float *x, size_t n, float scale)
{
    size_t padded = (n + LANES - 1) / LANES * LANES;
    for (size_t i = n; i < padded; i++)
        x[i] = x[0];
    float top = max_of(x, padded);
    lanes sum, a;
    memset(&sum, 0, sizeof sum);
    for (size_t i = 0; i < padded; i += LANES) {
        load(x + i, LANES, &a);
        FOR_VECS
        {
            a.v[k] = (a.v[k] - top) * scale;
            exp_vec(&a.v[k]);
        }
        store(x + i, LANES, &a);
        if (i + LANES > n) {
            memset(x + n, 0, (padded - n) * sizeof *x);
            load(x + i, LANES, &a);
        }
        FOR_VECS sum.v[k] += a.v[k];
    }
    float total = sum_lanes(&sum);
    for (size_t i = 0; i < padded; i += LANES) {
        load(x + i, LANES, &a);
        FOR_VECS a.v[k] = a.v[k] / total;
        store(x + i, LANES, &a);
    }
}

static void rows_layer_norm(float *x, const float *add, size_t n, const float *gain,
                            const float *bias, float eps)
{
    lanes a, b, g, sum;
    memset(&sum, 0, sizeof sum);
    for (size_t i = 0; i < n; i += LANES) {
        load(x + i, n - i, &a);
        if (add) {
            load(add + i, n - i, &b);
            FOR_VECS a.v[k] = a.v[k] + b.v[k];
            store(x + i, n - i, &a);
        }
        FOR_VECS sum.v[k] += a.v[k];
    }
    float mean = sum_lanes(&sum) / (float)n;
    memset(&sum, 0, sizeof sum);
    for (size_t i = 0; i < n; i += LANES) {
        load(x + i, n - i, &a);
        FOR_VECS
        {
            a.v[k] = a.v[k] - mean;
            a.v[k] = a.v[k] * a.v[k];
        }
        if (n - i < LANES)
            memset((char *)&a + (n - i) * sizeof *x, 0, (LANES - (n - i)) * sizeof *x);
        FOR_VECS sum.v[k] += a.v[k];
    }
    float inv = 1.0f / sqrtf(sum_lanes(&sum) / (float)n + eps);
    for (size_t i = 0; i < n; i += LANES) {
        load(x + i, n - i, &a);
        load(gain + i, n - i, &g);
        load(bias + i, n - i, &b);
        FOR_VECS a.v[k] = (a.v[k] - mean) * inv * g.v[k] + b.v[k];
        store(x + i, n - i, &a);
    }
}
#endif
