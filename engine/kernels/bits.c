/* Counts of bits: the choice of a level, the oracle in plain C, and sign codes. */
#include "bits_isa.h"
#include "kernels.h"

/* Adds neighbouring counts of 1, 2 and 4 bits; the product sums the eight bytes. */
static uint32_t word_count(uint64_t x)
{
    x = x - (x >> 1 & 0x5555555555555555u);
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (uint32_t)(x * 0x0101010101010101u >> 56);
}

static void hamming_scalar(const uint64_t *query, const uint64_t *rows, size_t n,
                           size_t words, uint32_t *out)
{
    for (size_t i = 0; i < n; i++, rows += words) {
        out[i] = 0;
        for (size_t w = 0; w < words; w++)
            out[i] += word_count(query[w] ^ rows[w]);
    }
}

static void common_scalar(const uint64_t *query, const uint64_t *rows, size_t n,
                          size_t words, uint32_t *out)
{
    for (size_t i = 0; i < n; i++, rows += words) {
        out[i] = 0;
        for (size_t w = 0; w < words; w++)
            out[i] += word_count(query[w] & rows[w]);
    }
}

const bw_bits bw_bits__scalar = {"scalar", hamming_scalar, common_scalar};

const bw_bits *bw_bits_isa(const char *isa)
{
    if (!bw_kernels_isa(isa))
        return NULL;
#if defined(__x86_64__)
    if (strcmp(isa, "avx2") == 0)
        return &bw_bits__avx2;
    if (strcmp(isa, "avx512") == 0)
        return __builtin_cpu_supports("avx512vpopcntdq") ? &bw_bits__avx512 : NULL;
#endif
    return &bw_bits__scalar;
}

const bw_bits *bw_bits_get(void)
{
    const char *const isa = bw_kernels_get()->isa;
    const bw_bits *b = bw_bits_isa(isa);
    if (!b) /* AVX-512 of before Ice Lake */
        b = bw_bits_isa("avx2");
    return b ? b : &bw_bits__scalar;
}

void bw_bits_encode(const float *row, size_t dim, uint64_t *out)
{
    for (size_t w = 0; w < bw_bits_words(dim); w++)
        out[w] = 0;
    for (size_t i = 0; i < dim; i++)
        out[i / 64] |= (uint64_t)(row[i] > 0) << (i % 64);
}
