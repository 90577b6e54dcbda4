/* The row functions of gemm.h, once for every ISA: each gemm*.c includes this and the
 * compiler lowers 16-lane vectors (a GNU extension) to what that file's flags allow.
 * No fused operation is used here, so the lowering cannot change a bit.
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

enum { LANES = 16 };
typedef float v16 __attribute__((vector_size(64), aligned(4)));
typedef uint32_t u16x __attribute__((vector_size(64), aligned(4)));
typedef int32_t i16x __attribute__((vector_size(64), aligned(4)));

/* mask lanes are all ones or zero; *out = mask ? a : b */
static inline void select16(const i16x *mask, const v16 *a, const v16 *b, v16 *out)
{
    *out = (v16)(((i16x)*a & *mask) | ((i16x)*b & ~*mask));
}

/* In place; lanes must be <= 0 (NaN stays NaN). */
static inline void exp16(v16 *x)
{
    const float magic = 12582912.0f; /* 1.5 · 2^23 */
    v16 low = *x * 0.0f - 87.0f, v = *x;
    i16x under = v < low;
    select16(&under, &low, &v, &v);
    v16 t = v * 1.44269504f + magic;
    v16 m = t - magic;
    v16 r = (v - m * 0.693359375f) - m * -2.12194440e-4f;
    v16 p = r * 1.3888889e-3f + 8.3333333e-3f;
    p = p * r + 4.1666667e-2f;
    p = p * r + 1.6666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    *x = (v16)((u16x)p + ((u16x)t << 23));
}

static inline void gelu16(v16 *x)
{
    v16 v = *x, zero = v * 0.0f, top = zero + 4.0f, neg = -v, a;
    i16x positive = v > zero;
    select16(&positive, &v, &neg, &a);
    a = a * 0.707106781f;
    i16x over = a > top;
    select16(&over, &top, &a, &a);
    v16 p = a * 8.04386400e-6f + -1.06027015e-4f;
    p = p * a + 5.87952032e-4f;
    p = p * a + -1.57676265e-3f;
    p = p * a + 5.87841605e-5f;
    p = p * a + 1.92171410e-2f;
    p = p * a + -1.02799207e-1f;
    p = p * a + -6.36616111e-1f;
    p = p * a + -1.12837934f;
    p = p * a;
    exp16(&p);
    v16 half = p * 0.5f, upper = 1.0f - half;
    select16(&positive, &upper, &half, &p);
    *x = v * p;
}

static void rows_gelu(float *x, size_t n)
{
    v16 v;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        gelu16(&v);
        memcpy(x + i, &v, sizeof v);
    }
    if (i < n) {
        memset(&v, 0, sizeof v);
        memcpy(&v, x + i, (n - i) * sizeof *x);
        gelu16(&v);
        memcpy(x + i, &v, (n - i) * sizeof *x);
    }
}

static inline float sum16(const v16 *v)
{
    float s[LANES];
    memcpy(s, v, sizeof s);
    for (size_t step = LANES / 2; step > 0; step /= 2)
        for (size_t i = 0; i < step; i++)
            s[i] += s[i + step];
    return s[0];
}

static void rows_softmax(float *x, size_t n, float scale)
{
    float top = x[0];
    for (size_t i = 1; i < n; i++)
        top = x[i] > top ? x[i] : top;
    size_t padded = (n + LANES - 1) / LANES * LANES;
    for (size_t i = n; i < padded; i++)
        x[i] = top;
    v16 sum, v;
    memset(&sum, 0, sizeof sum);
    for (size_t i = 0; i < padded; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        v = (v - top) * scale;
        exp16(&v);
        memcpy(x + i, &v, sizeof v);
        if (i + LANES > n) {
            memset(x + n, 0, (padded - n) * sizeof *x);
            memcpy(&v, x + i, sizeof v);
        }
        sum += v;
    }
    float total = sum16(&sum);
    for (size_t i = 0; i < padded; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        v = v / total;
        memcpy(x + i, &v, sizeof v);
    }
}

/* Loads up to 16 values; lanes past n are zero. */
static inline void load16(const float *x, size_t n, v16 *out)
{
    if (n >= LANES) {
        memcpy(out, x, sizeof *out);
    } else {
        memset(out, 0, sizeof *out);
        memcpy(out, x, n * sizeof *x);
    }
}

static void rows_layer_norm(float *x, const float *add, size_t n, const float *gain,
                            const float *bias, float eps)
{
    v16 v, w, sum;
    memset(&sum, 0, sizeof sum);
    for (size_t i = 0; i < n; i += LANES) {
        size_t left = n - i < LANES ? n - i : LANES;
        load16(x + i, left, &v);
        if (add) {
            load16(add + i, left, &w);
            v = v + w;
            memcpy(x + i, &v, left * sizeof *x);
        }
        sum += v;
    }
    float mean = sum16(&sum) / (float)n;
    memset(&sum, 0, sizeof sum);
    for (size_t i = 0; i < n; i += LANES) {
        size_t left = n - i < LANES ? n - i : LANES;
        load16(x + i, left, &v);
        v = v - mean;
        v = v * v;
        if (left < LANES)
            memset((char *)&v + left * sizeof *x, 0, (LANES - left) * sizeof *x);
        sum += v;
    }
    float inv = 1.0f / sqrtf(sum16(&sum) / (float)n + eps);
    for (size_t i = 0; i < n; i += LANES) {
        size_t left = n - i < LANES ? n - i : LANES;
        v16 g, b;
        load16(x + i, left, &v);
        load16(gain + i, left, &g);
        load16(bias + i, left, &b);
        v = (v - mean) * inv * g + b;
        memcpy(x + i, &v, left * sizeof *x);
    }
}
#endif
