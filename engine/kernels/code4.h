/* Kernels of the exact scan over 4-bit codes (engine/index/codes.h): integer sums of
 * codes with a query in int8, and the test which rows their bound leaves in the race.
 *
 * Codes: per 32 bytes, dimensions 0–31 in the low nibbles and 32–63 in the high ones. A
 * query is two planes of `stride` bytes, q and q + stride, for the low and the high
 * nibbles; |q| ≤ 127, zero where a row has no dimension. Sums are integers, so equal on
 * every ISA by nature; the test does the same float steps in the same order everywhere.
 * Plain pointers, no ctx, no allocation, no failure. */
#ifndef BW_CODE4_H
#define BW_CODE4_H
#include "kernels.h"

enum {
    BW_CODE4_LINE = 32,       /* bytes: 64 dimensions; strides are a multiple of it */
    BW_CODE4_DIM_MAX = 65536, /* 15 · 127 · dim, twice, stays in int32 */
};

/* What the test knows of a query; engine/index/codes_query.c says why each is as large
 * as it is. ⟨q̂,x̂⟩ = (2·sum − bias) · scale · step. */
typedef struct bw_code4_query {
    int32_t bias;    /* 15 · Σ of the query's integers */
    float scale;     /* half the query's step */
    float qlost;     /* ‖q − q̂‖, rounded up */
    float q2;        /* ‖q‖², rounded up */
    float per_norm;  /* dot, times ‖x̂‖: ‖q − q̂‖ and rounding */
    float per_lost;  /* dot, times ‖x − x̂‖: rounding alone */
    float flat;      /* dot, times ‖x − x̂‖: ‖q‖ and rounding */
    float low2;      /* Euclid: ‖q̂‖², rounded down */
    float shrink;    /* Euclid: a little below 1, for the kernel's rounding */
    float worst;     /* the key to reach; −inf: every row does */
    float reach;     /* Euclid: −worst, widened by ‖q − q̂‖ and rounding */
    size_t span;     /* bw_code4_span of its planes */
} bw_code4_query;

typedef struct bw_code4 {
    const char *isa; /* "scalar", "avx2", "avx512", "avx512vnni" */
    /* out[i] = Σ code · q over row i, i < n; stride·n bytes from `codes` on;
     * span: bw_code4_span of the query */
    void (*sums)(const int8_t *q, const uint8_t *codes, size_t stride, size_t span, size_t n,
                 int32_t *out);
    /* The same of rows which[i] · stride from `codes` on; fetches ahead. */
    void (*sums_at)(const int8_t *q, const uint8_t *codes, size_t stride, size_t span,
                    const uint32_t *which, size_t n, int32_t *out);
    /* Rows whose upper bound reaches q->worst: their positions below n to at, rising,
     * and the bounds to upper; both have room for n + 8. Returns how many. Dot (and
     * cosine), and Euclid. */
    size_t (*reach[2])(const bw_code4_query *q, const int32_t *sums, const float *step,
                       const float *norm, const float *lost, size_t n, uint32_t *at,
                       float *upper);
    /* Coding a row (engine/index/codes.c): the largest |x[i]| and Σ x[i]²; */
    void (*size)(const float *x, size_t dim, float *top, double *square);
    /* ⟨x,2w⟩ and ‖2w‖² of the levels u = x · per_step + 8, w = u − 7.5; */
    void (*fit)(const float *x, size_t dim, float per_step, double *xw, int64_t *ww);
    /* writes the levels into `codes`, zeros before, and returns ‖x − step·w‖². */
    double (*write)(const float *x, size_t dim, float per_step, double step,
                    uint8_t *codes);
} bw_code4;

/* How many bytes of a row the kernels may sum in 16 bits: the largest stride/2^j, in
 * pairs of lines, in whose every piece no 8 partial sums (of bytes b mod 16 equal, in
 * pairs, both planes) can leave 16 bits, whatever the codes. */
size_t bw_code4_span(const int8_t *q, size_t stride);

const bw_code4 *bw_code4_get(void);            /* the level of bw_kernels_get(), or better */
const bw_code4 *bw_code4_isa(const char *isa); /* NULL: not compiled in, or not this CPU */
#endif
