/* The steps of coding a row, dimension by dimension and in plain C: all of it for the
 * scalar kernels, what is left past the last full vector for the others. Sums are kept
 * in eight lanes, dimension i in lane i mod 8, and folded in one order: the same bits
 * on every ISA. */
#ifndef BW_CODE4_PUT_H
#define BW_CODE4_PUT_H
#include "code4.h"

enum { CODE4_LANES = 8, CODE4_LEVELS = 16 };

/* The level of x: the half steps −7.5 … 7.5 are numbered 0 … 15. */
static inline int code4_level(float x, float per_step)
{
    float v = x * per_step + CODE4_LEVELS / 2;
    v = v > 0 ? v : 0;
    return (int)(v < CODE4_LEVELS - 1 ? v : CODE4_LEVELS - 1);
}

static inline double code4_fold(const double s[CODE4_LANES])
{
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static inline void code4_size_rest(const float *x, size_t i, size_t dim, float *top,
                                   double s[CODE4_LANES])
{
    for (; i < dim; i++) {
        const float a = x[i] < 0 ? -x[i] : x[i];
        *top = a > *top ? a : *top;
        s[i % CODE4_LANES] += (double)x[i] * (double)x[i];
    }
}

static inline void code4_fit_rest(const float *x, size_t i, size_t dim, float per_step,
                                  double s[CODE4_LANES], int64_t *ww)
{
    for (; i < dim; i++) {
        const int w = 2 * code4_level(x[i], per_step) - (CODE4_LEVELS - 1);
        s[i % CODE4_LANES] += (double)x[i] * w;
        *ww += w * w;
    }
}

/* Each term is exact but for one rounding of 2^-53: 24 bits times 4 fit a double. */
static inline void code4_write_rest(const float *x, size_t i, size_t dim, float per_step,
                                    double step, uint8_t *codes, double s[CODE4_LANES])
{
    for (; i < dim; i++) {
        const int u = code4_level(x[i], per_step);
        const double r = (double)x[i] - step * (u - (CODE4_LEVELS - 1) / 2.0);
        s[i % CODE4_LANES] += r * r;
        uint8_t *b = codes + i / 64 * BW_CODE4_LINE + i % 32;
        *b = (uint8_t)(*b | (i % 64 < 32 ? u : u << 4));
    }
}
#endif
