/* A seeded random rotation that costs O(D·log D): FHT-Kac.
 *
 * Four rounds over the padded vector: signs flipped at random, a Hadamard transform of
 * the first (rounds 1 and 3) or the last (2 and 4) T coordinates, T the largest power
 * of two that fits; then, where T is not all, sum and difference of the halves. Sums,
 * differences and single products, never fused: the same bits on every ISA.
 * (RaBitQ, 2405.12497, needs a random rotation; Ailon and Chazelle 2009 have the fast
 * one, Kac's walk mixes the halves.) */
#ifndef BW_ROTATE_H
#define BW_ROTATE_H
#include "../kernels/fastscan.h"

typedef struct bw_rotate bw_rotate; /* constant after new; any thread */

/* dim rounded up to a multiple of 64. dim ≤ 65,536. */
uint32_t bw_rotate_padded(uint32_t dim);
bw_rotate *bw_rotate_new(uint32_t dim, uint64_t seed); /* NULL: no memory */
void bw_rotate_free(bw_rotate *r);                     /* NULL is accepted */
size_t bw_rotate_bytes(const bw_rotate *r);

/* out = rotated (in − mean)·scale.
 *   in     dim f32, any alignment
 *   mean   dim f32, or NULL for none
 *   scale  a power of two (bw_rabitq_scale), so that halves hold what is made of out
 *   out    bw_rotate_padded(dim) f32, 64-byte aligned, not `in`
 * Squared lengths and inner products keep to 3e-6 of the lengths (tests; each of some 40
 * additions in a chain is off by 2^-24 at most). Values
 * above about 2^90 overflow: such rows are for a scan. */
void bw_rotate_apply(const bw_rotate *r, const float *in, const float *mean, float scale,
                     float *out);
#endif
