/* FastScan for AVX2 with FMA and F16C; reached only after fastscan.c asked the CPU.
 *
 * Entries are at most 63, so four look-ups are added as bytes before they are widened.
 * Widening adds byte pairs as one 16-bit number, and the odd bytes apart; at the end the
 * odd ones are taken out of the pairs, which modulo 2^16 is exact. */
#define BW_W 8
#include "fastscan_isa.h"

#if defined(__x86_64__)
#include "fastscan_256.h"

static inline uint32_t sign_bits(vi mask)
{
    return (uint32_t)_mm256_movemask_ps((__m256)mask);
}

/* 128 bytes (32 dimensions) a step. */
static inline __attribute__((always_inline)) wide_sums sums_256(const bw_fastscan_table *t,
                                                                const uint8_t *codes)
{
    const __m256i low = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
    wide_sums w = {{zero, zero, zero, zero}};
    const size_t bytes = bw_fastscan_bytes(t->dim), chunk = bw_fastscan_bytes(FS_CHUNK);
    for (size_t at = 0; at < bytes;) {
        const size_t end = bytes - at > chunk ? at + chunk : bytes;
        __m256i pair0 = zero, odd0 = zero, pair1 = zero, odd1 = zero;
        for (; at < end; at += 128) {
            __m256i s0 = zero, s1 = zero;
#define LOOK(o)                                                                       \
    do {                                                                              \
        const __m256i c = load(codes + at + (o)), e = load(t->entries + at + (o));    \
        s0 = _mm256_add_epi8(s0, _mm256_shuffle_epi8(e, _mm256_and_si256(c, low)));   \
        s1 = _mm256_add_epi8(                                                         \
            s1, _mm256_shuffle_epi8(e, _mm256_and_si256(_mm256_srli_epi16(c, 4), low))); \
    } while (0)
            LOOK(0);
            LOOK(32);
            LOOK(64);
            LOOK(96);
#undef LOOK
            pair0 = _mm256_add_epi16(pair0, s0);
            pair1 = _mm256_add_epi16(pair1, s1);
            odd0 = _mm256_add_epi16(odd0, _mm256_srli_epi16(s0, 8));
            odd1 = _mm256_add_epi16(odd1, _mm256_srli_epi16(s1, 8));
        }
        widen(w.s, _mm256_sub_epi16(pair0, _mm256_slli_epi16(odd0, 8)), odd0);
        widen(w.s + 2, _mm256_sub_epi16(pair1, _mm256_slli_epi16(odd1, 8)), odd1);
    }
    return w;
}

static void table_avx2(const float *q, bw_fastscan_table *t)
{
    table_256(q, t);
}

static void sums_avx2(const bw_fastscan_table *t, const uint8_t *codes, uint32_t sums[32])
{
    const wide_sums w = sums_256(t, codes);
    memcpy(sums, w.s, sizeof w.s);
}

static uint32_t estimate_avx2(const bw_fastscan_table *t, const uint8_t *codes,
                              const uint16_t add[32], const uint16_t scale[32], float base,
                              float worst, float out[32])
{
    return finish_256(t, sums_256(t, codes), add, scale, base, worst, out);
}

static int32_t dot_i8_avx2(const int8_t *code, const int16_t *q, size_t dim)
{
    __m256i s0 = _mm256_setzero_si256(), s1 = s0;
    for (size_t i = 0; i < dim; i += 32) {
        const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(code + i))),
                      b = _mm256_cvtepi8_epi16(
                          _mm_loadu_si128((const __m128i *)(code + i + 16)));
        s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(a, load(q + i)));
        s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(b, load(q + i + 16)));
    }
    s0 = _mm256_add_epi32(s0, s1);
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(s0), _mm256_extracti128_si256(s0, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
    return _mm_cvtsi128_si32(s);
}

static void query_avx2(const float *q, size_t dim, int16_t *out, float *step)
{
    query_256(q, dim, out, step);
}

static bw_fastscan_signs signs_avx2(const float *x, const float *c, size_t dim, uint8_t *bits)
{
    return fs_signs(x, c, dim, bits);
}

static void grid_avx2(const float *x, size_t dim, float scale, float *xv, float *vv)
{
    fs_grid(x, dim, scale, xv, vv);
}

static void rotate_avx2(float *v, size_t dim, size_t top, const uint32_t *flips)
{
    fs_rotate(v, dim, top, flips);
}

const bw_fastscan bw_fastscan__avx2 = {
    .isa = "avx2",
    .table = table_avx2,
    .sums = sums_avx2,
    .estimate = estimate_avx2,
    .dot_i8 = dot_i8_avx2,
    .signs = signs_avx2,
    .query = query_avx2,
    .grid = grid_avx2,
    .rotate = rotate_avx2,
};
#endif
