/* The state of a rotation: which signs each of the four rounds flips, one word to xor a
 * coordinate, drawn from SplitMix64 (Steele, Lea and Flood 2014). */
#include "rotate.h"

struct bw_rotate {
    uint32_t dim, padded, top; /* top: the largest power of two ≤ padded */
    uint32_t *flips;           /* 4 × padded, 64-byte aligned */
};

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint32_t bw_rotate_padded(uint32_t dim)
{
    assert(dim > 0 && dim <= BW_FASTSCAN_DIM_MAX);
    return (dim + BW_FASTSCAN_PAD - 1) / BW_FASTSCAN_PAD * BW_FASTSCAN_PAD;
}

bw_rotate *bw_rotate_new(uint32_t dim, uint64_t seed)
{
    const uint32_t padded = bw_rotate_padded(dim);
    bw_rotate *r = bw_alloc(sizeof *r);
    if (!r)
        return NULL;
    *r = (bw_rotate){.dim = dim, .padded = padded, .top = BW_FASTSCAN_PAD};
    while (r->top <= padded / 2)
        r->top *= 2;
    const size_t words = (size_t)4 * padded;
    r->flips = bw_alloc_vectors(words * sizeof *r->flips);
    if (!r->flips) {
        bw_free(r);
        return NULL;
    }
    for (size_t i = 0; i < words; i += 64) {
        const uint64_t bits = next_random(&seed);
        for (size_t j = 0; j < 64; j++)
            r->flips[i + j] = (uint32_t)(bits >> j & 1) << 31;
    }
    return r;
}

void bw_rotate_free(bw_rotate *r)
{
    if (!r)
        return;
    bw_free_vectors(r->flips);
    bw_free(r);
}

size_t bw_rotate_bytes(const bw_rotate *r)
{
    return sizeof *r + (size_t)4 * r->padded * sizeof *r->flips;
}

void bw_rotate_apply(const bw_rotate *r, const float *in, const float *mean, float scale,
                     float *out)
{
    assert((uintptr_t)out % 64 == 0 && out != in);
    if (mean)
        for (size_t i = 0; i < r->dim; i++)
            out[i] = (in[i] - mean[i]) * scale;
    else if (scale == 1)
        memcpy(out, in, r->dim * sizeof *out);
    else
        for (size_t i = 0; i < r->dim; i++)
            out[i] = in[i] * scale;
    memset(out + r->dim, 0, (r->padded - r->dim) * sizeof *out);
    bw_fastscan_get()->rotate(out, r->padded, r->top, r->flips);
}
