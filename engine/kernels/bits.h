/* One-bit codes: counts of bits over rows of packed words, the same integers on every
 * ISA.
 *
 * A row is bw_bits_words(dim) words; element i is bit i mod 64 of word i / 64; bits past
 * the dimension are 0. The counts are exact. What a sign code loses has no bound: how
 * many signs differ says nothing about how far two given vectors lie apart, so counts
 * may order candidates and never decide an answer. Thread-safe; cannot fail. */
#ifndef BW_BITS_H
#define BW_BITS_H
#include "../base/base.h"

/* out[i] = the count over row i, i < n.  query: words  rows: n × words, row-major */
typedef void bw_bits_fn(const uint64_t *query, const uint64_t *rows, size_t n,
                        size_t words, uint32_t *out);

typedef struct bw_bits {
    const char *isa;     /* "scalar", "avx2" (POPCNT), "avx512" (VPOPCNTDQ) */
    bw_bits_fn *hamming; /* bits that differ */
    bw_bits_fn *common;  /* bits set in both: the inner product of two sets */
} bw_bits;

const bw_bits *bw_bits_get(void);            /* never NULL; BW_ISA as for bw_kernels_get */
const bw_bits *bw_bits_isa(const char *isa); /* NULL: not compiled in, or the CPU lacks it */

static inline size_t bw_bits_words(size_t dim) { return (dim + 63) / 64; }
/* Bit i = row[i] > 0 (zero and NaN: 0). out: bw_bits_words(dim) words, all written. */
void bw_bits_encode(const float *row, size_t dim, uint64_t *out);
#endif
