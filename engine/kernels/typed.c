/* Stored precision without wide code: sizes, encoding, and the turn from sums to keys.
 *
 * Encoding happens once a row, when it is written; it is kept simple. int8 works in
 * double, where code and scale are exact. Source of the scale: the row's largest
 * magnitude onto 127, so that no value is cut off and zero stays zero. Leaves out:
 * scales by dimension or by quantile, which would cut off outliers without a bound. */
#include "half.h"
#include "kernels.h"

#include <float.h>
#include <math.h>

enum { I8_MAX = 127 };

size_t bw_dtype_size(bw_dtype t)
{
    switch (t) {
    case BW_DTYPE_F32:
        return 4;
    case BW_DTYPE_F16:
    case BW_DTYPE_BF16:
        return 2;
    case BW_DTYPE_I8:
        return 1;
    }
    assert(false);
    return 0;
}

static bool i8_row_put(const float *in, size_t dim, int8_t *out, float *scale)
{
    float most = 0;
    bool finite = true;
    for (size_t i = 0; i < dim; i++) {
        const float a = fabsf(in[i]);
        finite = finite && a <= FLT_MAX;
        most = a > most ? a : most;
    }
    if (!finite)
        return false;
    float s = (float)((double)most / I8_MAX);
    /* A subnormal scale is coarse: the next larger one keeps every code in its place. */
    if ((double)most > (I8_MAX + 0.5) * (double)s)
        s = nextafterf(s, INFINITY);
    if (!(s * (float)I8_MAX <= FLT_MAX))
        return false;
    *scale = s;
    for (size_t i = 0; i < dim; i++) {
        const double code = s > 0 ? rint((double)in[i] / (double)s) : 0;
        assert(fabs(code) <= I8_MAX + 1);
        out[i] = (int8_t)(code > I8_MAX ? I8_MAX : code < -I8_MAX ? -I8_MAX : code);
    }
    return true;
}

bool bw_encode_rows(bw_dtype t, const float *in, size_t n, size_t dim, void *out,
                    float *scales)
{
    bool fits = true;
    uint16_t *half = out;
    switch (t) {
    case BW_DTYPE_F32:
        if (n * dim > 0)
            memcpy(out, in, n * dim * sizeof *in);
        break;
    case BW_DTYPE_F16:
        for (size_t i = 0; i < n * dim && fits; i++)
            fits = bw_f16_put(in[i], &half[i]);
        break;
    case BW_DTYPE_BF16:
        for (size_t i = 0; i < n * dim && fits; i++)
            fits = bw_bf16_put(in[i], &half[i]);
        break;
    case BW_DTYPE_I8:
        assert(scales != NULL);
        for (size_t i = 0; i < n && fits; i++)
            fits = i8_row_put(in + i * dim, dim, (int8_t *)out + i * dim, &scales[i]);
        break;
    }
    return fits;
}

void bw_decode_rows(bw_dtype t, const void *rows, const float *scales, size_t n,
                    size_t dim, float *out)
{
    const bw_kernels *k = bw_kernels_get();
    assert(t != BW_DTYPE_I8 || scales != NULL);
    for (size_t i = 0; i < n; i++)
        k->decode[t](bw_row_at(t, rows, dim, i), t == BW_DTYPE_I8 ? scales[i] : 1, dim,
                     out + i * dim);
}

bw_kernel_op bw_metric_op(bw_metric metric)
{
    return metric == BW_METRIC_EUCLID      ? BW_KERNEL_L2SQ
           : metric == BW_METRIC_MANHATTAN ? BW_KERNEL_L1
                                           : BW_KERNEL_DOT;
}

void bw_keys_turn(bw_metric metric, float *keys, size_t n)
{
    if (metric == BW_METRIC_EUCLID) {
        for (size_t i = 0; i < n; i++)
            keys[i] = -sqrtf(keys[i]);
    } else if (metric == BW_METRIC_MANHATTAN) {
        for (size_t i = 0; i < n; i++)
            keys[i] = -keys[i];
    }
    for (size_t i = 0; i < n; i++)
        if (keys[i] != keys[i])
            keys[i] = -INFINITY;
}
