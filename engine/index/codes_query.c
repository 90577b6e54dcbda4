/* A query for the scan over codes, and why its bounds cover rounding.
 *
 * q = q̂ + s with q̂ = Δ·(integers of −127 … 127), Δ fitted by least squares; x = x̂ + r.
 * D dimensions, u = 2^-24. Norms lie within 2^±40 (or are zero), so that no product or
 * square here over- or underflows in a way that matters: what underflows in the f32
 * kernel is at most D · 2^-149, against slack of at least u · 2^-80.
 *
 * Dot. ⟨q,x⟩ = ⟨q̂,x̂⟩ + ⟨s,x̂⟩ + ⟨q,r⟩. The kernel over f32 (16 sums, 4 levels) differs by
 * at most γ‖q‖‖x‖, γ = (D/16 + 6)·1.01·u, and ‖x‖ ≤ ‖x̂‖ + ‖r‖. a, computed in f32, has 3
 * roundings, and |a| ≤ ‖q‖‖x̂‖(1 + 4u); two more in adding. The fitted step of a row is
 * rounded to f32, so |⟨x̂,r⟩| ≤ 1.01·u·‖x̂‖², worth 1.01·u·‖q‖‖x̂‖. Together less than
 * 16·u·‖q‖ per ‖x̂‖, and 32·u relative to the terms in ‖r‖:
 *   key ≤ a + (‖s‖ + (γ + 16u)‖q‖)·‖x̂‖ + ((1 + 32u)·side + γ‖q‖)·‖r‖,
 * side² = ‖q‖² − (|⟨q̂,x̂⟩|/‖x̂‖ − ‖s‖)² where that is positive: Pythagoras, as r is
 * orthogonal to x̂. code4_bound.h widens ‖s‖ by 64u, the rest by 32u: t has 7 roundings.
 *
 * Euclid. With d̂ = ‖q̂ − x̂‖: first ‖q − x‖ ≥ d̂ − ‖s‖ − ‖r‖; then
 *   ‖q − x‖² ≥ d̂² − 2‖s‖d̂ + ‖r‖² − 2·side·‖r‖ − 2|⟨x̂,r⟩|.
 * d̂² from f32 is off by at most 20u·(‖q‖² + ‖x̂‖² + ‖r‖²), the stored norms' rounding
 * included; 64u of slack are taken (and 32u in the first form, whose sums are shorter).
 * The kernel's sum has only positive terms, so its error is relative: (D/16 + 8)·u of
 * the square, half of that and u of the root, on top of 2^-64 absolute from underflow;
 * `shrink` and 2^-60 cover them. */
#include "codes_private.h"

#include <math.h>

static const double U = 0x1p-24;
enum { QUERY_MAX = 127 };

/* The plane byte of dimension i. */
static size_t plane_at(size_t i, size_t stride)
{
    return i / 64 * BW_CODE4_LINE + i % 32 + (i % 64 < 32 ? 0 : stride);
}

static double kernel_error(size_t dim)
{
    return ((double)dim / 16 + 8) * 1.01 * U;
}

bool bw_codes__query(const bw_codes *c, const float *query, bw_code4_query *out,
                     int8_t *planes)
{
    const size_t dim = c->dim;
    double square = 0, top = 0;
    for (size_t i = 0; i < dim; i++) {
        const double v = fabs((double)query[i]);
        top = v > top ? v : top;
        square += v * v;
    }
    const double len = sqrt(square);
    if (!(len >= BW_CODES_NORM_MIN && len <= BW_CODES_NORM_MAX))
        return false;
    memset(planes, 0, 2 * c->stride);
    int64_t qq = 0, sum = 0;
    double qx = 0;
    for (size_t i = 0; i < dim; i++) {
        const int v = (int)lrint((double)query[i] / top * QUERY_MAX);
        planes[plane_at(i, c->stride)] = (int8_t)v;
        qq += v * v;
        sum += v;
        qx += (double)query[i] * v;
    }
    const float scale = (float)(qx / (double)qq / 2);
    const double step = 2 * (double)scale;
    double lost = 0;
    for (size_t i = 0; i < dim; i++) {
        const double r =
            (double)query[i] - step * planes[plane_at(i, c->stride)];
        lost += r * r;
    }
    const double gamma = kernel_error(dim);
    lost = sqrt(lost) * (1 + 0x1p-30);
    const double q = len * (1 + 0x1p-30);
    *out = (bw_code4_query){
        .bias = (int32_t)(15 * sum),
        .scale = scale,
        .qlost = bw_codes__up(lost),
        .q2 = bw_codes__up(q * q),
        .per_norm = bw_codes__up(lost + q * (gamma + 16 * U)),
        .per_lost = bw_codes__up(q * gamma),
        .flat = bw_codes__up(q * (1 + gamma + 32 * U)),
        .low2 = bw_codes__down(step * step * (double)qq * (1 - 0x1p-19)),
        .shrink = bw_codes__down(1 - gamma - 4 * U),
        .span = bw_code4_span(planes, c->stride),
    };
    bw_codes__worst(c->metric, out, -INFINITY, dim);
    return true;
}

void bw_codes__worst(bw_metric metric, bw_code4_query *q, float worst, size_t dim)
{
    q->worst = worst;
    if (metric == BW_METRIC_EUCLID)
        q->reach = bw_codes__up((-(double)worst + 0x1p-60) *
                                    (1 + 2 * (kernel_error(dim) + 4 * U)) +
                                q->qlost * (1 + 4 * U));
}
