/* f16 and bf16 element by element, in integers: what the wide instructions do, and what
 * encoding rounds by. Private to this folder. */
#ifndef BW_HALF_H
#define BW_HALF_H
#include "../base/base.h"

static inline float bw_float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline uint32_t bw_bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Exact. A signalling NaN comes back quiet, as from vcvtph2ps. */
static inline float bw_f16_get(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (uint32_t)h >> 10 & 31,
                   m = h & 0x3FFu;
    if (e == 31)
        return bw_float_of(sign | 0x7F800000u | m << 13 | (m ? 0x400000u : 0));
    if (e != 0)
        return bw_float_of(sign | (e + 112) << 23 | m << 13);
    return bw_float_of(sign | bw_bits_of((float)m * 0x1p-24f)); /* subnormal or zero */
}

static inline float bw_bf16_get(uint16_t h)
{
    return bw_float_of((uint32_t)h << 16);
}

/* To the nearest, ties to even. False: NaN, infinite, or would round to infinity. */
static inline bool bw_f16_put(float x, uint16_t *out)
{
    const uint32_t u = bw_bits_of(x), a = u & 0x7FFFFFFFu;
    uint32_t h;
    if (a >= 0x477FF000u) /* 65,520: half a step above the largest */
        return false;
    if (a >= 0x38800000u) { /* 2⁻¹⁴ */
        h = a - (112u << 23);
        h = (h + 0xFFFu + (h >> 13 & 1)) >> 13;
    } else { /* a step of f32 beside 0.5 is the step of an f16 subnormal: 2⁻²⁴ */
        h = bw_bits_of(bw_float_of(a) + 0.5f) - bw_bits_of(0.5f);
    }
    *out = (uint16_t)(h | (u >> 16 & 0x8000u));
    return true;
}

static inline bool bw_bf16_put(float x, uint16_t *out)
{
    const uint32_t u = bw_bits_of(x);
    if ((u & 0x7FFFFFFFu) >= 0x7F7F8000u)
        return false;
    *out = (uint16_t)((u + 0x7FFFu + (u >> 16 & 1)) >> 16);
    return true;
}
#endif
