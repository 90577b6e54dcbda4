/* FastScan: estimates for 32 neighbours at once from 1-bit codes, by table look-up in
 * registers (André et al., Quick ADC, 2017; the bits are RaBitQ's, 2405.12497).
 *
 * Codes of a block of 32 lanes: dimensions in groups of four, a group takes 16 bytes.
 * Byte j holds in its low nibble lane π(j), in its high nibble lane 16 + π(j), with
 * π = 0,8,1,9,…,7,15; bit i of the nibble is dimension 4·group + i. A query's table has
 * the same shape: byte b of a group is what the dimensions of the set bits of b add up
 * to, in whole steps. Dimensions are padded to a multiple of 64 (bw_rotate_padded), so
 * that no loop has a tail.
 *
 * Sums are whole numbers, so every ISA has the same by nature. The float part is one
 * multiplication, one addition and one fmaf a lane, the same everywhere. Codes of one
 * lane and the rotation are plain sums and products in a fixed order (16 partial sums
 * and the tree of kernels.h; never fused), whatever vectors a compiler makes of them.
 * No allocation, no failure, no state. */
#ifndef BW_FASTSCAN_H
#define BW_FASTSCAN_H
#include "../base/base.h"
#include <string.h>

enum {
    BW_FASTSCAN_LANES = 32,
    BW_FASTSCAN_PAD = 64,      /* dimensions are a multiple of it */
    BW_FASTSCAN_DIM_MAX = 65536,
    BW_FASTSCAN_ENTRY_MAX = 63 /* four table entries fit a byte */
};

/* Bytes of the codes of 32 lanes, and of a query's table. */
static inline size_t bw_fastscan_bytes(size_t dim)
{
    return 4 * dim;
}

/* What a query's table means: Σ over dimensions of (bit − ½)·q ≈
 * half_step · (2·sum − total), sum being what the look-ups of one lane add up to. */
typedef struct bw_fastscan_table {
    uint8_t *entries; /* bw_fastscan_bytes(dim), 64-byte aligned, the caller's */
    float half_step;  /* 0 for a query that is zero, or too large or small for floats */
    int32_t total;
    uint32_t dim;
} bw_fastscan_table;

/* What a lane's code is made of: signs of r = x − c and sums over dimensions. */
typedef struct bw_fastscan_signs {
    float rr; /* Σ r² */
    float rw; /* Σ (bit − ½)·r = ½ Σ |r| */
    float cw; /* Σ (bit − ½)·c */
    float rc; /* Σ r·c */
} bw_fastscan_signs;

typedef struct bw_fastscan {
    const char *isa;
    /* Fills t->entries and the rest of *t from t->dim floats. Each group of four gets
     * steps so that no entry is above 63: step = (largest Σ|q| of a group)/61. */
    void (*table)(const float *q, bw_fastscan_table *t);
    /* Raw sums of all 32 lanes (dim up to 65,536: u8, then u16, then u32). */
    void (*sums)(const bw_fastscan_table *t, const uint8_t *codes, uint32_t sums[32]);
    /* out[i] = fmaf(scale[i], half_step·(2·sum − total), add[i] + base), with factors in
     * IEEE half precision; 64-byte aligned out. Bit i of the answer: out[i] < worst. An
     * empty lane has add = +inf, scale = 0: its bit is never set. */
    uint32_t (*estimate)(const bw_fastscan_table *t, const uint8_t *codes,
                         const uint16_t add[32], const uint16_t scale[32], float base,
                         float worst, float out[32]);
    /* Σ code·q, exact while |q| ≤ bw_fastscan_query_max(dim). code: −127 … 127. */
    int32_t (*dot_i8)(const int8_t *code, const int16_t *q, size_t dim);
    /* Bits of the signs of x − c (bit i % 8 of byte i / 8: x > c), and the sums. */
    bw_fastscan_signs (*signs)(const float *x, const float *c, size_t dim, uint8_t *bits);
    /* *step and out[i] = q[i]/step to nearest, |out| ≤ bw_fastscan_query_max(dim); zero
     * for a query that is zero or outside floats. */
    void (*query)(const float *q, size_t dim, int16_t *out, float *step);
    /* How a grid fits: v = x·scale to nearest; *xv = Σ x·v, *vv = Σ v². |x·scale| < 2^22. */
    void (*grid)(const float *x, size_t dim, float scale, float *xv, float *vv);
    /* Four rounds in place over v[dim], 64-byte aligned: flips = 4·dim words to xor,
     * Hadamard of top (a power of two ≤ dim) values, halves mixed where top < dim. */
    void (*rotate)(float *v, size_t dim, size_t top, const uint32_t *flips);
} bw_fastscan;

const bw_fastscan *bw_fastscan_get(void); /* as bw_kernels_get: CPU, then BW_ISA */
const bw_fastscan *bw_fastscan_isa(const char *isa); /* NULL: not compiled in or not there */

/* The largest |q| with which dot_i8 cannot leave 32 bits. */
static inline int32_t bw_fastscan_query_max(size_t dim)
{
    const size_t most = (size_t)INT32_MAX / (127 * dim);
    return most < INT16_MAX ? (int32_t)most : INT16_MAX;
}

static inline uint32_t bw_fastscan_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float bw_fastscan_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Half precision to single: exact. */
static inline float bw_fastscan_unhalf(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7FFF;
    if (rest >= 0x7C00) /* infinity; a NaN stays one */
        return bw_fastscan_float(sign | 0x7F800000 | (rest & 0x3FF) << 13);
    /* The exponent field is read as a float's, 112 too small: exact with subnormals. */
    return bw_fastscan_float(sign | bw_fastscan_bits(bw_fastscan_float(rest << 13) * 0x1p112f));
}

/* One lane of a block: bits as `signs` gives them (dim/8 bytes). Other lanes stay. */
void bw_fastscan_put(uint8_t *codes, size_t dim, uint32_t lane, const uint8_t *bits);
void bw_fastscan_take(const uint8_t *codes, size_t dim, uint32_t lane, uint8_t *bits);
#endif
