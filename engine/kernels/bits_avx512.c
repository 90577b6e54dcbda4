/* Counts of bits for AVX-512 with VPOPCNTDQ (Ice Lake, Zen 4, and later); reached only
 * after bits.c asked the CPU. A vector is 512 bits; the last one is loaded under a mask,
 * whose other words are 0 in both operands and count nothing. */
#include "bits_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* The folder's AVX-512 flags do not hold VPOPCNTDQ, because the other files may not
 * use it. */
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq")))

#define COUNT(name, op)                                                                \
    TARGET static void name##_avx512(const uint64_t *query, const uint64_t *rows,      \
                                     size_t n, size_t words, uint32_t *out)            \
    {                                                                                  \
        const __mmask8 rest = (__mmask8)((1u << words % 8) - 1u);                      \
        for (size_t i = 0; i < n; i++, rows += words) {                                \
            __m512i s = _mm512_setzero_si512();                                        \
            size_t w = 0;                                                              \
            for (; w + 8 <= words; w += 8)                                             \
                s = _mm512_add_epi64(                                                  \
                    s, _mm512_popcnt_epi64(op(_mm512_loadu_si512(query + w),           \
                                              _mm512_loadu_si512(rows + w))));         \
            if (rest)                                                                  \
                s = _mm512_add_epi64(                                                  \
                    s,                                                                 \
                    _mm512_popcnt_epi64(op(_mm512_maskz_loadu_epi64(rest, query + w),  \
                                           _mm512_maskz_loadu_epi64(rest, rows + w))));\
            out[i] = (uint32_t)_mm512_reduce_add_epi64(s);                             \
        }                                                                              \
    }
COUNT(hamming, _mm512_xor_si512)
COUNT(common, _mm512_and_si512)

const bw_bits bw_bits__avx512 = {"avx512", hamming_avx512, common_avx512};
#else
typedef int bw_bits_avx512_unused; /* a translation unit may not be empty */
#endif
