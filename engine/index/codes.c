/* Coding rows: the block of 4-bit codes and the three factors of each row.
 *
 * x̂ = step · w, w = u − 7.5. Of a few step widths, from the one that reaches the row's
 * largest value down to two thirds of it (clipping a few values costs less than coarse
 * steps for all; measured on 20,000 rows of MiniLM: mean loss 0.1065 of the length,
 * 0.1157 with the first alone), the one that loses least is taken. Its step is then
 * refitted by least squares, ⟨x,w⟩/‖w‖², which makes the loss orthogonal to x̂: the scan
 * uses that. In the terms of RaBitQ (arXiv 2409.09913) without rotation and centre. */
#include "codes_private.h"

#include <math.h>

enum { ALIGN = 64, FACTORS_ALIGN = 16, LEVELS = 16 };

static const float WIDTHS[] = {1.0f, 0.87f, 0.76f, 0.66f};

float bw_codes__up(double v)
{
    const float f = (float)v;
    return (double)f < v ? nextafterf(f, INFINITY) : f;
}

float bw_codes__down(double v)
{
    const float f = (float)v;
    return (double)f > v ? nextafterf(f, -INFINITY) : f;
}

bool bw_codes_metric(bw_metric metric)
{
    return metric != BW_METRIC_MANHATTAN;
}

static size_t stride_of(uint32_t dim)
{
    const size_t span = 2 * BW_CODE4_LINE;
    return (dim + span - 1) / span * BW_CODE4_LINE;
}

static size_t factors_of(uint32_t cap)
{
    return ((size_t)cap + FACTORS_ALIGN - 1) / FACTORS_ALIGN * FACTORS_ALIGN;
}

static size_t codes_bytes(uint32_t dim, uint32_t cap)
{
    return (stride_of(dim) * cap + ALIGN - 1) / ALIGN * ALIGN;
}

size_t bw_codes_image_bytes(uint32_t dim, uint32_t cap)
{
    return codes_bytes(dim, cap) + 3 * factors_of(cap) * sizeof(float);
}

void bw_codes_view(bw_metric metric, uint32_t dim, uint32_t cap, void *image,
                   bw_codes *out)
{
    assert((uintptr_t)image % ALIGN == 0);
    assert(bw_codes_metric(metric) && dim <= BW_CODE4_DIM_MAX);
    float *factors = (float *)(void *)((char *)image + codes_bytes(dim, cap));
    *out = (bw_codes){.metric = metric,
                      .dim = dim,
                      .cap = cap,
                      .stride = stride_of(dim),
                      .codes = image,
                      .step = factors,
                      .norm = factors + factors_of(cap),
                      .lost = factors + 2 * factors_of(cap)};
}

bw_codes *bw_codes_new(bw_metric metric, uint32_t dim, uint32_t cap)
{
    bw_codes *c = bw_calloc(1, sizeof *c);
    void *image = c ? bw_alloc_vectors(bw_codes_image_bytes(dim, cap)) : NULL;
    if (!image) {
        bw_free(c);
        return NULL;
    }
    bw_codes_view(metric, dim, cap, image, c);
    c->image = image;
    return c;
}

void bw_codes_free(bw_codes *c)
{
    if (!c)
        return;
    bw_free_vectors(c->image);
    bw_free(c);
}

size_t bw_codes_bytes(const bw_codes *c)
{
    return sizeof *c + bw_codes_image_bytes(c->dim, c->cap);
}

/* The level of v = x / step + 8: the half steps −7.5 … 7.5 are numbered 0 … 15. */
static inline int level(float v)
{
    v = v < 0 ? 0 : v;
    return v > LEVELS - 1 ? LEVELS - 1 : (int)v;
}

/* The sums of one step width: ⟨x,2w⟩ and ‖2w‖². */
typedef struct fit {
    double xw;
    int64_t ww;
} fit;

static fit fit_of(const float *x, size_t dim, float per_step)
{
    /* Four sums: four chains, in one order everywhere. */
    double xw[4] = {0};
    int64_t ww = 0;
    for (size_t i = 0; i < dim; i++) {
        const int w = 2 * level(x[i] * per_step + LEVELS / 2) - (LEVELS - 1);
        xw[i % 4] += (double)x[i] * w;
        ww += w * w;
    }
    return (fit){(xw[0] + xw[1]) + (xw[2] + xw[3]), ww};
}

static void nibble_put(uint8_t *codes, size_t i, int u)
{
    uint8_t *b = codes + i / 64 * BW_CODE4_LINE + i % 32;
    const int shift = i % 64 < 32 ? 0 : 4;
    *b = (uint8_t)((*b & (0xf0 >> shift)) | u << shift);
}

/* Writes the codes of a row; returns the loss ‖x − step·w‖², each term of it exact but
 * for one rounding of 2^-53 (24 bits times 4 bits are exact in a double). */
static double row_write(uint8_t *codes, const float *x, size_t dim, float per_step,
                        double step)
{
    double lost = 0;
    for (size_t i = 0; i < dim; i++) {
        const int u = level(x[i] * per_step + LEVELS / 2);
        const double r = (double)x[i] - step * (u - (LEVELS - 1) / 2.0);
        lost += r * r;
        nibble_put(codes, i, u);
    }
    return lost;
}

void bw_codes_put(bw_codes *c, uint32_t row, const float *x)
{
    assert(row < c->cap);
    const size_t dim = c->dim;
    uint8_t *codes = c->codes + row * c->stride;
    float top = 0;
    double square = 0;
    for (size_t i = 0; i < dim; i++) {
        const float a = fabsf(x[i]);
        top = a > top ? a : top;
        square += (double)x[i] * (double)x[i];
    }
    memset(codes, 0, c->stride);
    c->step[row] = c->norm[row] = c->lost[row] = 0;
    if (square == 0)
        return;
    const double len = sqrt(square);
    if (!(len >= BW_CODES_NORM_MIN && len <= BW_CODES_NORM_MAX)) { /* NaN too */
        c->lost[row] = INFINITY;
        return;
    }
    /* The loss left by the fitted step is ‖x‖² − ⟨x,w⟩²/‖w‖²: the largest quotient wins. */
    float best = 0;
    double most = -1;
    fit chosen = {0, 1};
    for (size_t i = 0; i < sizeof WIDTHS / sizeof *WIDTHS; i++) {
        const float per_step = (LEVELS / 2) / (top * WIDTHS[i]);
        const fit f = fit_of(x, dim, per_step);
        const double gain = f.xw * f.xw / (double)f.ww;
        if (gain > most) {
            most = gain;
            best = per_step;
            chosen = f;
        }
    }
    const float step = (float)(2 * chosen.xw / (double)chosen.ww);
    const double lost = sqrt(row_write(codes, x, dim, best, step));
    c->step[row] = step;
    c->norm[row] = bw_codes__up(0.5 * step * sqrt((double)chosen.ww) * (1 + 0x1p-40));
    c->lost[row] = bw_codes__up(lost * (1 + 0x1p-30));
}
