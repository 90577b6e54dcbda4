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

enum { LANES = 8, HALF_LINE = 32 /* dimensions side by side in a plane */ };

/* The plane bytes of dimensions [32 h, 32 h + 32). */
static int8_t *half_at(int8_t *planes, size_t h, size_t stride)
{
    return planes + h / 2 * BW_CODE4_LINE + (h % 2 ? stride : 0);
}

static double lanes_sum(const double *v)
{
    double sum = 0;
    for (size_t l = 0; l < LANES; l++)
        sum += v[l];
    return sum;
}

/* 32 values from dimension 32 h on, zeros behind the last. */
static const float *half_of(const float *query, size_t dim, size_t h, float *room)
{
    const size_t left = dim - HALF_LINE * h;
    if (left >= HALF_LINE)
        return query + HALF_LINE * h;
    memset(room, 0, HALF_LINE * sizeof *room);
    memcpy(room, query + HALF_LINE * h, left * sizeof *room);
    return room;
}

static void measure(const float *query, size_t dim, double *top, double *square)
{
    double most[LANES] = {0}, sum[LANES] = {0};
    float room[HALF_LINE];
    for (size_t h = 0; h * HALF_LINE < dim; h++) {
        const float *x = half_of(query, dim, h, room);
        for (size_t i = 0; i < HALF_LINE; i += LANES)
            for (size_t l = 0; l < LANES; l++) {
                const double v = fabs((double)x[i + l]);
                most[l] = v > most[l] ? v : most[l];
                sum[l] += v * v;
            }
    }
    *top = 0;
    for (size_t l = 0; l < LANES; l++)
        *top = most[l] > *top ? most[l] : *top;
    *square = lanes_sum(sum);
}

/* The integers v = query · per_step, to the nearest: Σ v², Σ v, and ⟨query, v⟩. */
typedef struct integers {
    int32_t qq, sum; /* 127² · BW_CODE4_DIM_MAX fits */
    double qx;
} integers;

static integers planes_write(const float *query, size_t dim, double per_step, int8_t *planes,
                             size_t stride)
{
    static const double NEAREST = 0x1.8p52; /* what is added rounds to an integer */
    integers out = {0, 0, 0};
    double qx[LANES] = {0};
    float room[HALF_LINE];
    for (size_t h = 0; h * HALF_LINE < dim; h++) {
        const float *x = half_of(query, dim, h, room);
        int8_t *to = half_at(planes, h, stride);
        for (size_t i = 0; i < HALF_LINE; i += LANES)
            for (size_t l = 0; l < LANES; l++) {
                const double v = (double)x[i + l] * per_step + NEAREST - NEAREST;
                qx[l] += (double)x[i + l] * v;
                to[i + l] = (int8_t)v;
            }
        for (size_t i = 0; i < HALF_LINE; i++) {
            out.qq += to[i] * to[i];
            out.sum += to[i];
        }
    }
    out.qx = lanes_sum(qx);
    return out;
}

/* ‖query − step · v‖². */
static double planes_lost(const float *query, size_t dim, double step, int8_t *planes,
                          size_t stride)
{
    double lost[LANES] = {0};
    float room[HALF_LINE];
    for (size_t h = 0; h * HALF_LINE < dim; h++) {
        const float *x = half_of(query, dim, h, room);
        const int8_t *v = half_at(planes, h, stride);
        for (size_t i = 0; i < HALF_LINE; i += LANES)
            for (size_t l = 0; l < LANES; l++) {
                const double r = (double)x[i + l] - step * v[i + l];
                lost[l] += r * r;
            }
    }
    return lanes_sum(lost);
}

static double kernel_error(size_t dim)
{
    return ((double)dim / 16 + 8) * 1.01 * U;
}

bool bw_codes__query(bw_metric metric, size_t dim, const float *query, bw_code4_query *out,
                     int8_t *planes)
{
    const size_t stride = bw_codes__stride((uint32_t)dim);
    double square, top;
    measure(query, dim, &top, &square);
    const double len = sqrt(square);
    if (!(len >= BW_CODES_NORM_MIN && len <= BW_CODES_NORM_MAX))
        return false;
    memset(planes, 0, 2 * stride);
    const integers v = planes_write(query, dim, QUERY_MAX / top, planes, stride);
    const float scale = (float)(v.qx / (double)v.qq / 2);
    const double step = 2 * (double)scale;
    double lost = planes_lost(query, dim, step, planes, stride);
    const double gamma = kernel_error(dim);
    lost = sqrt(lost) * (1 + 0x1p-30);
    const double q = len * (1 + 0x1p-30);
    *out = (bw_code4_query){
        .bias = 15 * v.sum,
        .scale = scale,
        .qlost = bw_codes__up(lost),
        .q2 = bw_codes__up(q * q),
        .per_norm = bw_codes__up(lost + q * (gamma + 16 * U)),
        .per_lost = bw_codes__up(q * gamma),
        .flat = bw_codes__up(q * (1 + gamma + 32 * U)),
        .low2 = bw_codes__down(step * step * (double)v.qq * (1 - 0x1p-19)),
        .shrink = bw_codes__down(1 - gamma - 4 * U),
        .span = bw_code4_span(planes, stride),
    };
    bw_codes__worst(metric, out, -INFINITY, dim);
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
