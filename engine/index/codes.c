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

enum { ALIGN = 64, FACTORS_ALIGN = 16 };

static const float HALF = 8; /* of the 16 levels */
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

size_t bw_codes__stride(uint32_t dim)
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
    return (bw_codes__stride(dim) * cap + ALIGN - 1) / ALIGN * ALIGN;
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
                      .stride = bw_codes__stride(dim),
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

void bw_codes_put(bw_codes *c, uint32_t row, const float *x)
{
    assert(row < c->cap);
    const size_t dim = c->dim;
    uint8_t *codes = c->codes + row * c->stride;
    const bw_code4 *k = bw_code4_get();
    float top;
    double square;
    k->size(x, dim, &top, &square);
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
    double most = -1, xw = 0;
    int64_t ww = 1;
    for (size_t i = 0; i < sizeof WIDTHS / sizeof *WIDTHS; i++) {
        const float per_step = HALF / (top * WIDTHS[i]);
        double fit_xw;
        int64_t fit_ww;
        k->fit(x, dim, per_step, &fit_xw, &fit_ww);
        const double gain = fit_xw * fit_xw / (double)fit_ww;
        if (gain > most) {
            most = gain;
            best = per_step;
            xw = fit_xw;
            ww = fit_ww;
        }
    }
    const float step = (float)(2 * xw / (double)ww);
    const double lost = sqrt(k->write(x, dim, best, step, codes));
    c->step[row] = step;
    c->norm[row] = bw_codes__up(0.5 * step * sqrt((double)ww) * (1 + 0x1p-40));
    c->lost[row] = bw_codes__up(lost * (1 + 0x1p-30));
}
