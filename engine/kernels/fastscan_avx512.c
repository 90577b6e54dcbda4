/* FastScan for AVX-512 F, BW, DQ and VL; reached only after fastscan.c asked the CPU.
 *
 * As fastscan_avx2.c with four groups a register: 256 bytes (64 dimensions) a step. The
 * four 128-bit lanes fold into two, and from there on the code is AVX2's. */
#define BW_W 16
#include "fastscan_isa.h"

#if defined(__x86_64__)
#include "fastscan_256.h"

static inline uint32_t sign_bits(vi mask)
{
    return _mm512_movepi32_mask((__m512i)mask);
}

static inline __m256i halves_epi16(__m512i v)
{
    return _mm256_add_epi16(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
}

static inline __attribute__((always_inline)) wide_sums sums_512(const bw_fastscan_table *t,
                                                                const uint8_t *codes)
{
    const __m512i low = _mm512_set1_epi8(15), zero = _mm512_setzero_si512();
    const __m256i none = _mm256_setzero_si256();
    wide_sums w = {{none, none, none, none}};
    const size_t bytes = bw_fastscan_bytes(t->dim), chunk = bw_fastscan_bytes(FS_CHUNK);
    for (size_t at = 0; at < bytes;) {
        const size_t end = bytes - at > chunk ? at + chunk : bytes;
        __m512i pair0 = zero, odd0 = zero, pair1 = zero, odd1 = zero;
        for (; at < end; at += 256) {
            __m512i s0 = zero, s1 = zero;
#define LOOK(o)                                                                       \
    do {                                                                              \
        const __m512i c = _mm512_loadu_si512(codes + at + (o)),                       \
                      e = _mm512_loadu_si512(t->entries + at + (o));                  \
        s0 = _mm512_add_epi8(s0, _mm512_shuffle_epi8(e, _mm512_and_si512(c, low)));   \
        s1 = _mm512_add_epi8(                                                         \
            s1, _mm512_shuffle_epi8(e, _mm512_and_si512(_mm512_srli_epi16(c, 4), low))); \
    } while (0)
            LOOK(0);
            LOOK(64);
            LOOK(128);
            LOOK(192);
#undef LOOK
            pair0 = _mm512_add_epi16(pair0, s0);
            pair1 = _mm512_add_epi16(pair1, s1);
            odd0 = _mm512_add_epi16(odd0, _mm512_srli_epi16(s0, 8));
            odd1 = _mm512_add_epi16(odd1, _mm512_srli_epi16(s1, 8));
        }
        widen(w.s, halves_epi16(_mm512_sub_epi16(pair0, _mm512_slli_epi16(odd0, 8))),
              halves_epi16(odd0));
        widen(w.s + 2, halves_epi16(_mm512_sub_epi16(pair1, _mm512_slli_epi16(odd1, 8))),
              halves_epi16(odd1));
    }
    return w;
}

static void table_avx512(const float *q, bw_fastscan_table *t)
{
    table_256(q, t);
}

static void sums_avx512(const bw_fastscan_table *t, const uint8_t *codes, uint32_t sums[32])
{
    const wide_sums w = sums_512(t, codes);
    memcpy(sums, w.s, sizeof w.s);
}

static uint32_t estimate_avx512(const bw_fastscan_table *t, const uint8_t *codes,
                                const uint16_t add[32], const uint16_t scale[32], float base,
                                float worst, float out[32])
{
    return finish_256(t, sums_512(t, codes), add, scale, base, worst, out);
}

static int32_t dot_i8_avx512(const int8_t *code, const int16_t *q, size_t dim)
{
    __m512i s0 = _mm512_setzero_si512(), s1 = s0;
    for (size_t i = 0; i < dim; i += 64) {
        const __m512i a = _mm512_cvtepi8_epi16(load(code + i)),
                      b = _mm512_cvtepi8_epi16(load(code + i + 32));
        s0 = _mm512_add_epi32(s0, _mm512_madd_epi16(a, _mm512_loadu_si512(q + i)));
        s1 = _mm512_add_epi32(s1, _mm512_madd_epi16(b, _mm512_loadu_si512(q + i + 32)));
    }
    return _mm512_reduce_add_epi32(_mm512_add_epi32(s0, s1));
}

static void query_avx512(const float *q, size_t dim, int16_t *out, float *step)
{
    query_256(q, dim, out, step);
}

static bw_fastscan_signs signs_avx512(const float *x, const float *c, size_t dim,
                                      uint8_t *bits)
{
    return fs_signs(x, c, dim, bits);
}

static void grid_avx512(const float *x, size_t dim, float scale, float *xv, float *vv)
{
    fs_grid(x, dim, scale, xv, vv);
}

static void rotate_avx512(float *v, size_t dim, size_t top, const uint32_t *flips)
{
    fs_rotate(v, dim, top, flips);
}

const bw_fastscan bw_fastscan__avx512 = {
    .isa = "avx512",
    .table = table_avx512,
    .sums = sums_avx512,
    .estimate = estimate_avx512,
    .dot_i8 = dot_i8_avx512,
    .signs = signs_avx512,
    .query = query_avx512,
    .grid = grid_avx512,
    .rotate = rotate_avx512,
};
#endif
