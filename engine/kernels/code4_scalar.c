/* Kernels over 4-bit codes in plain C: the oracle, and what runs on any CPU. */
#include "code4_isa.h"
#include "code4_put.h"

#include <math.h>

typedef float vf;
#define v_set(x) (x)
static inline vf v_add(vf a, vf b)
{
    return a + b;
}
static inline vf v_sub(vf a, vf b)
{
    return a - b;
}
static inline vf v_mul(vf a, vf b)
{
    return a * b;
}
static inline vf v_div(vf a, vf b)
{
    return a / b;
}
static inline vf v_max(vf a, vf b)
{
    return a > b ? a : b;
}
#define v_fma fmaf
#define v_sqrt sqrtf
#define v_abs fabsf
#include "code4_bound.h"

static int32_t row_sum(const int8_t *q, const uint8_t *row, size_t stride)
{
    int32_t s = 0;
    for (size_t i = 0; i < stride; i++)
        s += (row[i] & 15) * q[i] + (row[i] >> 4) * q[stride + i];
    return s;
}

static void sums(const int8_t *q, const uint8_t *codes, size_t stride, size_t span, size_t n,
                 int32_t *out)
{
    (void)span;
    for (size_t i = 0; i < n; i++)
        out[i] = row_sum(q, codes + i * stride, stride);
}

static void sums_at(const int8_t *q, const uint8_t *codes, size_t stride, size_t span,
                    const uint32_t *which, size_t n, int32_t *out)
{
    (void)span;
    for (size_t i = 0; i < n; i++)
        out[i] = row_sum(q, codes + which[i] * stride, stride);
}

#define DEFINE_REACH(op)                                                                \
    static size_t op##_reach(const bw_code4_query *q, const int32_t *sum,               \
                             const float *step, const float *norm, const float *lost,   \
                             size_t n, uint32_t *at, float *upper)                      \
    {                                                                                   \
        size_t found = 0;                                                               \
        for (size_t i = 0; i < n; i++) {                                                \
            const float a = (float)(2 * sum[i] - q->bias) * q->scale * step[i];         \
            if (op##_first(q, a, norm[i], lost[i]) < op##_bar(q))                       \
                continue;                                                               \
            const float u = op##_upper(q, a, norm[i], lost[i]);                         \
            if (u < q->worst)                                                           \
                continue;                                                               \
            at[found] = (uint32_t)i;                                                    \
            upper[found++] = u;                                                         \
        }                                                                               \
        return found;                                                                   \
    }

DEFINE_REACH(dot)
DEFINE_REACH(euclid)

static void size_of(const float *x, size_t dim, float *top, double *square)
{
    double s[CODE4_LANES] = {0};
    *top = 0;
    code4_size_rest(x, 0, dim, top, s);
    *square = code4_fold(s);
}

static void fit(const float *x, size_t dim, float per_step, double *xw, int64_t *ww)
{
    double s[CODE4_LANES] = {0};
    *ww = 0;
    code4_fit_rest(x, 0, dim, per_step, s, ww);
    *xw = code4_fold(s);
}

static double write_codes(const float *x, size_t dim, float per_step, double step,
                          uint8_t *codes)
{
    double s[CODE4_LANES] = {0};
    code4_write_rest(x, 0, dim, per_step, step, codes, s);
    return code4_fold(s);
}

const bw_code4 bw_code4__scalar = {.isa = "scalar",
                                   .sums = sums,
                                   .sums_at = sums_at,
                                   .reach = {dot_reach, euclid_reach},
                                   .size = size_of,
                                   .fit = fit,
                                   .write = write_codes};
