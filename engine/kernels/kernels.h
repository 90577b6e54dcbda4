/* Distance kernels over f32 rows, chosen once at start by what the CPU has.
 *
 * One fixed order of summation on every ISA: 16 partial sums (element i goes to sum
 * i mod 16), each step one fused multiply-add, then the same reduction tree
 * (((0+8)+(4+12)) + ((2+10)+(6+14))) + (((1+9)+(5+13)) + ((3+11)+(7+15))); built with
 * -ffp-contract=off. So scalar, AVX2 and AVX-512 give the same bits, one query the
 * same as a batch. Plain pointers, no labels, no ctx, no allocation, no failure.
 * BW_ISA=scalar|avx2|avx512 in the environment forces a level that the CPU has. */
#ifndef BW_KERNELS_H
#define BW_KERNELS_H
#include "../base/bitmap.h"
#include "topk.h"
#include "typed.h"

typedef struct bw_kernels {
    const char *isa; /* "scalar", "avx2", "avx512" */
    float (*dot_f32)(const float *a, const float *b, size_t dim);  /* Σ a·b */
    float (*l2sq_f32)(const float *a, const float *b, size_t dim); /* Σ (a−b)² */
    float (*l1_f32)(const float *a, const float *b, size_t dim);   /* Σ |a−b| */
    /* out[i] = op(query, rows + i·dim), i < n; the same bits as the calls above */
    void (*dot_rows_f32)(const float *query, const float *rows, size_t n, size_t dim, float *out);
    void (*l2sq_rows_f32)(const float *query, const float *rows, size_t n, size_t dim, float *out);
    void (*l1_rows_f32)(const float *query, const float *rows, size_t n, size_t dim, float *out);
    bw_rows_fn *rows[BW_NDTYPES][BW_NOPS];   /* over stored rows (typed.h): one query */
    bw_block_fn *block[BW_NDTYPES][BW_NOPS]; /* several queries, each row read once */
    /* out[j] = the value of element j of one row; scale 1 unless int8 */
    void (*decode[BW_NDTYPES])(const void *row, float scale, size_t dim, float *out);
} bw_kernels;

const bw_kernels *bw_kernels_get(void);          /* never NULL; thread-safe */
const bw_kernels *bw_kernels_isa(const char *isa); /* NULL when not compiled in or the CPU lacks it */

/* Scales v to length 1 in place with the fixed order of sums (double for the root);
 * a zero vector stays. */
void bw_normalize_f32(float *v, size_t dim);

/* The score of one pair in the ranking form: larger is better, for every metric
 * (Euclid: −√Σ(a−b)², Manhattan: −Σ|a−b|). The turn to the surface's form is in
 * engine/plan/score.h alone. */
float bw_metric_key(const bw_kernels *k, bw_metric metric, const float *a, const float *b, size_t dim);

/* Pushes every allowed row into the heap.
 *   rows    n × dim f32, row-major, 64-byte aligned, borrowed
 *   allowed n bits, 1 = may be looked at; never NULL. Forbidden rows are never loaded
 *   ids     n point ids (tie-break), part / row0: what the hits are labelled with */
void bw_scan_f32(const bw_kernels *k, bw_metric metric, const float *query, const float *rows,
                 size_t n, size_t dim, const bw_bitmap *allowed, const bw_point_id *ids,
                 uint32_t part, uint32_t row0, bw_topk *out);
#endif
