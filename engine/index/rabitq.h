/* RaBitQ codes as a graph's row holds them (Gao and Long, 2405.12497 and 2409.09913;
 * SymphonyQG, 2411.12229, has codes of the neighbours beside the links).
 *
 * All vectors here are rotated and padded (rotate.h): x, c, q of `dim` f32, dim a
 * multiple of 64. "Distance" is one number in one of two forms, smaller is nearer:
 *   L2  Σ (x − q)²; for cosine too (unit vectors: 2 − 2·cos), and for Euclid
 *   IP  −Σ x·q, for dot. Not reduced to L2 by one more dimension: that dimension's
 *       spread would eat the codes' precision. Vectors must not be centred then.
 * A neighbour x of centre c with r = x − c, w = bits − ½, p = Σ w·r, a = Σ r² is
 * estimated as  add + distance(q, c) + rescale · Σ w·q  with
 *   L2  add = a + 2a·(w·c)/p   rescale = −2a/p
 *   IP  add = −r·c + a·(w·c)/p rescale = −a/p
 * unbiased over rotations; one sigma of r·(q − c) is about 0.75·|r||q − c|/√dim. x = c
 * adds nothing (add = rescale = 0; IP and L2). It is an estimate, never a bound.
 *
 * A row's own vector is int8 with the best of several steps, |error| of Σ x·q about
 * |x||q|·0.35·10^-3 (one sigma, dim 384): near enough to rank, to be rescored from
 * stored rows at the end. The query is 16-bit there, which adds no error to speak of. */
#ifndef BW_RABITQ_H
#define BW_RABITQ_H
#include "../kernels/fastscan.h"
#include <bailiwick/types.h>
#include <math.h>

typedef enum bw_rabitq_form { BW_RABITQ_L2, BW_RABITQ_IP } bw_rabitq_form;
bw_rabitq_form bw_rabitq_form_of(bw_metric metric); /* Manhattan: L2, rank of no use */

/* The power of two by which to scale vectors before rotation so that factors fit half
 * precision: lengths up to `longest` come to at most 64. 1 where longest is 1/64 … 64. */
float bw_rabitq_scale(float longest);

/* Where things lie in a graph's row, in bytes from its start. Rows are 64-byte aligned:
 *   own      dim int8 code of the row's vector
 *   codes    R/32 blocks of bw_fastscan_bytes(dim)
 *   add      R f16, then
 *   rescale  R f16
 *   ids      R u32, UINT32_MAX = empty lane
 *   factors  bw_rabitq_own of the row's vector
 * dim 384, R 32: 2,240 bytes. */
typedef struct bw_rabitq_layout {
    uint32_t dim, R; /* dim padded; R a multiple of 32 */
    bw_rabitq_form form;
    size_t own, codes, add, rescale, ids, factors;
    size_t stride; /* bytes of a row, a multiple of 64 */
} bw_rabitq_layout;

typedef struct bw_rabitq_own {
    float add, rescale; /* distance = fmaf(rescale, step·Σ code·q, add + query's add) */
    float spare[2];     /* 0 */
} bw_rabitq_own;

#define BW_RABITQ_NONE UINT32_MAX /* the id of an empty lane */

bw_rabitq_layout bw_rabitq_layout_of(bw_rabitq_form form, uint32_t dim, uint32_t R);

/* Writing rows. `row` is stride bytes, 64-byte aligned. No allocation, no failure;
 * same bytes on every ISA. */
void bw_rabitq_row_init(const bw_rabitq_layout *l, void *row); /* every byte; all lanes empty */
void bw_rabitq_row_own(const bw_rabitq_layout *l, void *row, const float *x);
/* Lane `lane` becomes neighbour `id` with vector x; c: the row's own vector. Whatever
 * was there is gone; other lanes' bytes do not change. */
void bw_rabitq_row_put(const bw_rabitq_layout *l, void *row, uint32_t lane, uint32_t id,
                       const float *x, const float *c);
/* All bytes of the lane as row_init left them. */
void bw_rabitq_row_clear(const bw_rabitq_layout *l, void *row, uint32_t lane);
/* Lane `from` moves to lane `to`; `from` is empty afterwards. */
void bw_rabitq_row_move(const bw_rabitq_layout *l, void *row, uint32_t from, uint32_t to);

static inline uint32_t *bw_rabitq_row_ids(const bw_rabitq_layout *l, const void *row)
{
    return (uint32_t *)(void *)((uint8_t *)(uintptr_t)row + l->ids);
}

/* A query, prepared once: table for codes, 16-bit form for own vectors. */
typedef struct bw_rabitq_query {
    bw_fastscan_table table;
    int16_t *q16; /* dim */
    float step;   /* of q16 */
    float add;    /* L2: Σ q²; IP: 0 */
} bw_rabitq_query;

/* Bytes of memory that a query of this dimension wants, 64-byte aligned. */
size_t bw_rabitq_query_bytes(uint32_t dim);
/* Lays q's arrays into mem (bw_rabitq_query_bytes, 64-byte aligned); once a scratch. */
void bw_rabitq_query_lay(bw_rabitq_query *q, uint32_t dim, void *mem);
/* From a rotated query. Any number of times. */
void bw_rabitq_query_set(bw_rabitq_query *q, const bw_fastscan *k, bw_rabitq_form form,
                         const float *rotated);

/* Distance of the query to the row's own vector, by its int8 code. */
static inline float bw_rabitq_distance(const bw_fastscan *k, const bw_rabitq_layout *l,
                                       const bw_rabitq_query *q, const void *row)
{
    const uint8_t *b = row;
    const bw_rabitq_own *f = (const bw_rabitq_own *)(const void *)(b + l->factors);
    const int32_t ip = k->dot_i8((const int8_t *)(b + l->own), q->q16, l->dim);
    return fmaf(f->rescale, q->step * (float)ip, f->add + q->add);
}

/* Estimates for lanes 32·block … +31, given base = distance to the row's own vector.
 * Bit i: out[i] < worst. Empty lanes never. out: 32 f32, 64-byte aligned. */
static inline uint32_t bw_rabitq_estimate(const bw_fastscan *k, const bw_rabitq_layout *l,
                                          const bw_rabitq_query *q, const void *row,
                                          uint32_t block, float base, float worst, float *out)
{
    const uint8_t *b = row;
    const size_t lane = (size_t)block * BW_FASTSCAN_LANES;
    return k->estimate(&q->table, b + l->codes + block * bw_fastscan_bytes(l->dim),
                       (const uint16_t *)(const void *)(b + l->add) + lane,
                       (const uint16_t *)(const void *)(b + l->rescale) + lane, base, worst, out);
}

/* The code of one neighbour, for who keeps rows of another shape. bits: dim/8 bytes. */
void bw_rabitq_code(bw_rabitq_form form, const float *x, const float *c, size_t dim,
                    uint8_t *bits, uint16_t *add, uint16_t *rescale);
/* The int8 code of one vector. */
bw_rabitq_own bw_rabitq_encode(bw_rabitq_form form, const float *x, size_t dim, int8_t *code);

/* IEEE half precision, to nearest and even; what is too large becomes ±65,504 (never
 * infinity unless x is). */
uint16_t bw_rabitq_half(float x);
float bw_rabitq_unhalf(uint16_t h);
#endif
