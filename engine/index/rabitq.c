/* RaBitQ codes and the rows that hold them (rabitq.h has formulas and papers). */
#include "rabitq.h"

#include "../kernels/kernels.h"

enum { GRIDS = 8 }; /* steps tried for an own vector: its largest value becomes 127 … 120 */

static const uint16_t HALF_INFINITY = 0x7C00, HALF_MAX = 0x7BFF;

bw_rabitq_form bw_rabitq_form_of(bw_metric metric)
{
    return metric == BW_METRIC_DOT ? BW_RABITQ_IP : BW_RABITQ_L2;
}

float bw_rabitq_scale(float longest)
{
    if (!(longest > 0) || !isfinite(longest) || (longest >= 0x1p-6f && longest <= 64))
        return 1;
    int e; /* longest = m·2^e, ½ ≤ m < 1 */
    (void)frexpf(longest, &e);
    /* Halves of the range: a scale beyond floats would be of no use. */
    const int by = 6 - e;
    return ldexpf(1, by < -120 ? -120 : by > 120 ? 120 : by);
}

/* ---- half precision -------------------------------------------------------------- */
uint16_t bw_rabitq_half(float x)
{
    const uint32_t u = bw_fastscan_bits(x), sign = u >> 16 & 0x8000, rest = u & 0x7FFFFFFF;
    if (rest >= 0x7F800000) /* NaN is our mistake; it becomes what is never chosen */
        return rest > 0x7F800000 ? HALF_INFINITY : (uint16_t)(sign | HALF_INFINITY);
    if (rest >= 0x477FF000) /* 65,520 and more would round to infinity */
        return (uint16_t)(sign | HALF_MAX);
    if (rest < 0x38800000) { /* below 2^-14: whole multiples of 2^-24, rounded by the sum */
        const float shifted = bw_fastscan_float(rest) + 0.5f;
        return (uint16_t)(sign | (bw_fastscan_bits(shifted) - 0x3F000000));
    }
    /* To nearest and even: the exponent is rebased, half a unit less the odd bit added. */
    return (uint16_t)(sign | (rest - (112u << 23) + 0xFFF + (rest >> 13 & 1)) >> 13);
}

float bw_rabitq_unhalf(uint16_t h)
{
    return bw_fastscan_unhalf(h);
}

/* ---- codes ----------------------------------------------------------------------- */
void bw_rabitq_code(bw_rabitq_form form, const float *x, const float *c, size_t dim,
                    uint8_t *bits, uint16_t *add, uint16_t *rescale)
{
    const bw_fastscan_signs s = bw_fastscan_get()->signs(x, c, dim, bits);
    const double a = s.rr, by = s.rr > 0 && s.rw > 0 ? a / (double)s.rw : 0;
    const double shift = by * (double)s.cw;
    double f_add, f_rescale;
    if (form == BW_RABITQ_L2) {
        f_add = a + 2 * shift;
        f_rescale = -2 * by;
    } else {
        f_add = by > 0 ? shift - (double)s.rc : 0;
        f_rescale = -by;
    }
    if (!isfinite((float)f_add) || !isfinite((float)f_rescale)) {
        *add = HALF_INFINITY; /* overflowed: never chosen */
        *rescale = 0;
        return;
    }
    *add = bw_rabitq_half((float)f_add);
    *rescale = bw_rabitq_half((float)f_rescale);
}

bw_rabitq_own bw_rabitq_encode(bw_rabitq_form form, const float *x, size_t dim, int8_t *code)
{
    const bw_fastscan *k = bw_fastscan_get();
    float largest = 0;
    for (size_t i = 0; i < dim; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    if (!(largest >= 0x1p-100f) || !(largest <= 0x1p100f)) {
        memset(code, 0, dim);
        return (bw_rabitq_own){0};
    }
    /* The step whose grid points most nearly x's way: the largest (x·v)²/(v·v). */
    float scale = 0, xv = 0;
    double best = -1;
    for (size_t i = 0; i < GRIDS; i++) {
        const float s = (float)(127 - (int)i) / largest;
        float sum, vv;
        k->grid(x, dim, s, &sum, &vv);
        const double fit = (double)sum * (double)sum / (double)vv;
        if (fit > best) {
            best = fit;
            scale = s;
            xv = sum;
        }
    }
    for (size_t i = 0; i < dim; i++)
        code[i] = (int8_t)((x[i] * scale + 0x1.8p23f) - 0x1.8p23f); /* as grid rounds */
    const float xx = bw_kernels_get()->dot_f32(x, x, dim);
    const float step = (float)((double)xx / (double)xv);
    return form == BW_RABITQ_L2 ? (bw_rabitq_own){.add = xx, .rescale = -2 * step}
                                : (bw_rabitq_own){.rescale = -step};
}

/* ---- rows ------------------------------------------------------------------------- */
bw_rabitq_layout bw_rabitq_layout_of(bw_rabitq_form form, uint32_t dim, uint32_t R)
{
    assert(dim % BW_FASTSCAN_PAD == 0 && dim > 0 && dim <= BW_FASTSCAN_DIM_MAX);
    assert(R % BW_FASTSCAN_LANES == 0 && R > 0);
    bw_rabitq_layout l = {.dim = dim, .R = R, .form = form, .own = 0, .codes = dim};
    l.add = l.codes + R / BW_FASTSCAN_LANES * bw_fastscan_bytes(dim);
    l.rescale = l.add + R * sizeof(uint16_t);
    l.ids = l.rescale + R * sizeof(uint16_t);
    l.factors = l.ids + R * sizeof(uint32_t);
    l.stride = (l.factors + sizeof(bw_rabitq_own) + 63) / 64 * 64;
    return l;
}

static uint16_t *lane_add(const bw_rabitq_layout *l, void *row, uint32_t lane)
{
    return (uint16_t *)(void *)((uint8_t *)row + l->add) + lane;
}

static uint16_t *lane_rescale(const bw_rabitq_layout *l, void *row, uint32_t lane)
{
    return (uint16_t *)(void *)((uint8_t *)row + l->rescale) + lane;
}

static uint8_t *lane_block(const bw_rabitq_layout *l, void *row, uint32_t lane)
{
    assert(lane < l->R);
    return (uint8_t *)row + l->codes +
           lane / BW_FASTSCAN_LANES * bw_fastscan_bytes(l->dim);
}

void bw_rabitq_row_init(const bw_rabitq_layout *l, void *row)
{
    memset(row, 0, l->stride);
    for (uint32_t i = 0; i < l->R; i++) {
        *lane_add(l, row, i) = HALF_INFINITY;
        bw_rabitq_row_ids(l, row)[i] = BW_RABITQ_NONE;
    }
}

void bw_rabitq_row_own(const bw_rabitq_layout *l, void *row, const float *x)
{
    const bw_rabitq_own f =
        bw_rabitq_encode(l->form, x, l->dim, (int8_t *)row + l->own);
    memcpy((uint8_t *)row + l->factors, &f, sizeof f);
}

void bw_rabitq_row_put(const bw_rabitq_layout *l, void *row, uint32_t lane, uint32_t id,
                       const float *x, const float *c)
{
    assert(id != BW_RABITQ_NONE);
    uint8_t bits[BW_FASTSCAN_DIM_MAX / 8];
    bw_rabitq_code(l->form, x, c, l->dim, bits, lane_add(l, row, lane),
                   lane_rescale(l, row, lane));
    bw_fastscan_put(lane_block(l, row, lane), l->dim, lane % BW_FASTSCAN_LANES, bits);
    bw_rabitq_row_ids(l, row)[lane] = id;
}

void bw_rabitq_row_clear(const bw_rabitq_layout *l, void *row, uint32_t lane)
{
    static const uint8_t none[BW_FASTSCAN_DIM_MAX / 8];
    bw_fastscan_put(lane_block(l, row, lane), l->dim, lane % BW_FASTSCAN_LANES, none);
    *lane_add(l, row, lane) = HALF_INFINITY;
    *lane_rescale(l, row, lane) = 0;
    bw_rabitq_row_ids(l, row)[lane] = BW_RABITQ_NONE;
}

void bw_rabitq_row_move(const bw_rabitq_layout *l, void *row, uint32_t from, uint32_t to)
{
    if (from == to)
        return;
    uint8_t bits[BW_FASTSCAN_DIM_MAX / 8];
    bw_fastscan_take(lane_block(l, row, from), l->dim, from % BW_FASTSCAN_LANES, bits);
    bw_fastscan_put(lane_block(l, row, to), l->dim, to % BW_FASTSCAN_LANES, bits);
    *lane_add(l, row, to) = *lane_add(l, row, from);
    *lane_rescale(l, row, to) = *lane_rescale(l, row, from);
    bw_rabitq_row_ids(l, row)[to] = bw_rabitq_row_ids(l, row)[from];
    bw_rabitq_row_clear(l, row, from);
}

/* ---- queries ---------------------------------------------------------------------- */
size_t bw_rabitq_query_bytes(uint32_t dim)
{
    return bw_fastscan_bytes(dim) + dim * sizeof(int16_t); /* both multiples of 64 */
}

void bw_rabitq_query_lay(bw_rabitq_query *q, uint32_t dim, void *mem)
{
    assert((uintptr_t)mem % 64 == 0);
    *q = (bw_rabitq_query){.table = {.entries = mem, .dim = dim},
                           .q16 = (int16_t *)(void *)((uint8_t *)mem +
                                                      bw_fastscan_bytes(dim))};
}

void bw_rabitq_query_set(bw_rabitq_query *q, const bw_fastscan *k, bw_rabitq_form form,
                         const float *rotated)
{
    const uint32_t dim = q->table.dim;
    k->table(rotated, &q->table);
    k->query(rotated, dim, q->q16, &q->step);
    q->add = form == BW_RABITQ_L2 ? bw_kernels_get()->dot_f32(rotated, rotated, dim) : 0;
}
