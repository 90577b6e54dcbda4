/* Counts of bits where there is AVX2; reached only after bits.c asked the CPU.
 *
 * POPCNT of a word in a general register (latency 3 on Intel, one a cycle; 1 on Zen,
 * four a cycle): a row of 384 bits is six of them, less than reading it from memory
 * costs, so byte tables by vpshufb would win nothing but on long rows in cache. */
#include "bits_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* Four sums: POPCNT's result register is an input of old Intel cores too. */
#define COUNT(name, op)                                                                \
    static void name##_avx2(const uint64_t *query, const uint64_t *rows, size_t n,     \
                            size_t words, uint32_t *out)                               \
    {                                                                                  \
        for (size_t i = 0; i < n; i++, rows += words) {                                \
            int64_t a = 0, b = 0, c = 0, d = 0;                                        \
            size_t w = 0;                                                              \
            for (; w + 4 <= words; w += 4) {                                           \
                a += _mm_popcnt_u64(query[w] op rows[w]);                              \
                b += _mm_popcnt_u64(query[w + 1] op rows[w + 1]);                      \
                c += _mm_popcnt_u64(query[w + 2] op rows[w + 2]);                      \
                d += _mm_popcnt_u64(query[w + 3] op rows[w + 3]);                      \
            }                                                                          \
            for (; w < words; w++)                                                     \
                a += _mm_popcnt_u64(query[w] op rows[w]);                              \
            out[i] = (uint32_t)(a + b + c + d);                                        \
        }                                                                              \
    }
COUNT(hamming, ^)
COUNT(common, &)

const bw_bits bw_bits__avx2 = {"avx2", hamming_avx2, common_avx2};
#else
typedef int bw_bits_avx2_unused; /* a translation unit may not be empty */
#endif
