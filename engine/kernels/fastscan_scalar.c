/* FastScan in plain C: the oracle, and what runs on any CPU. Kept simple on purpose. */
#define BW_W 4
#include "fastscan_isa.h"

static inline uint32_t sign_bits(vi mask)
{
    return (uint32_t)((mask[0] & 1) | (mask[1] & 2) | (mask[2] & 4) | (mask[3] & 8));
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static void table_scalar(const float *q, bw_fastscan_table *t)
{
    int32_t largest = 0;
    for (size_t i = 0; i < t->dim; i += 4) {
        const float sum = (fabsf(q[i]) + fabsf(q[i + 1])) + (fabsf(q[i + 2]) + fabsf(q[i + 3]));
        largest = larger(largest, (int32_t)bw_fastscan_bits(sum));
    }
    float step;
    const float scale = fs_steps(largest, FS_STEPS, &step);
    t->half_step = step * 0.5f;
    t->total = 0;
    for (size_t i = 0; i < t->dim; i += 4) {
        int32_t v[4];
        for (size_t j = 0; j < 4; j++) {
            v[j] = scale > 0 ? (int32_t)lrintf(q[i + j] * scale) : 0;
            t->total += v[j] < 0 ? -v[j] : v[j];
        }
        /* A set bit of a positive one counts, and a clear bit of a negative one: the true
         * sum and what all the negative ones add up to, never below 0. */
        for (size_t b = 0; b < 16; b++) {
            int32_t entry = 0;
            for (size_t j = 0; j < 4; j++)
                entry += b >> j & 1 ? larger(v[j], 0) : larger(-v[j], 0);
            t->entries[i * 4 + b] = (uint8_t)entry;
        }
    }
}

static void sums_scalar(const bw_fastscan_table *t, const uint8_t *codes, uint32_t sums[32])
{
    memset(sums, 0, 32 * sizeof *sums);
    for (size_t at = 0; at < bw_fastscan_bytes(t->dim); at += 16)
        for (size_t j = 0; j < 16; j++) {
            const size_t lane = j / 2 + j % 2 * 8;
            sums[lane] += t->entries[at + (codes[at + j] & 15u)];
            sums[lane + 16] += t->entries[at + (codes[at + j] >> 4)];
        }
}

static uint32_t estimate_scalar(const bw_fastscan_table *t, const uint8_t *codes,
                                const uint16_t add[32], const uint16_t scale[32], float base,
                                float worst, float out[32])
{
    uint32_t sums[32], better = 0;
    sums_scalar(t, codes, sums);
    for (size_t i = 0; i < 32; i++) {
        const float ip = (float)(2 * (int32_t)sums[i] - t->total) * t->half_step;
        out[i] = fmaf(bw_fastscan_unhalf(scale[i]), ip, bw_fastscan_unhalf(add[i]) + base);
        better |= (uint32_t)(out[i] < worst) << i;
    }
    return better;
}

static int32_t dot_i8_scalar(const int8_t *code, const int16_t *q, size_t dim)
{
    int32_t sum = 0;
    for (size_t i = 0; i < dim; i++)
        sum += code[i] * q[i];
    return sum;
}

static void query_scalar(const float *q, size_t dim, int16_t *out, float *step)
{
    int32_t largest = 0;
    for (size_t i = 0; i < dim; i++)
        largest = larger(largest, (int32_t)bw_fastscan_bits(fabsf(q[i])));
    const float scale = fs_steps(largest, (float)bw_fastscan_query_max(dim), step);
    for (size_t i = 0; i < dim; i++)
        out[i] = scale > 0 ? (int16_t)lrintf(q[i] * scale) : 0;
}

static bw_fastscan_signs signs_scalar(const float *x, const float *c, size_t dim,
                                      uint8_t *bits)
{
    return fs_signs(x, c, dim, bits);
}

static void grid_scalar(const float *x, size_t dim, float scale, float *xv, float *vv)
{
    fs_grid(x, dim, scale, xv, vv);
}

static void rotate_scalar(float *v, size_t dim, size_t top, const uint32_t *flips)
{
    fs_rotate(v, dim, top, flips);
}

const bw_fastscan bw_fastscan__scalar = {
    .isa = "scalar",
    .table = table_scalar,
    .sums = sums_scalar,
    .estimate = estimate_scalar,
    .dot_i8 = dot_i8_scalar,
    .signs = signs_scalar,
    .query = query_scalar,
    .grid = grid_scalar,
    .rotate = rotate_scalar,
};
