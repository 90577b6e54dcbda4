/* 4-bit codes of rows, and the exact scan that reads them instead of the rows.
 *
 * A row x is kept as x̂ = step · (u − 7.5), u in 0 … 15 per dimension, with the length of
 * what that loses, ‖x − x̂‖, rounded up. By Cauchy–Schwarz ⟨q,x⟩ lies within ‖q‖·lost of
 * ⟨q,x̂⟩: no probability in it. The scan bounds every allowed row so, and rescores in
 * stored precision all whose bound reaches the k-th best: the answer is the flat
 * scan's, ids and bits of the keys (codes_scan.c has the sums, rounding included).
 * Rows that cannot be bounded (norm outside 2^±40, zero aside) are always rescored.
 *
 * Codes are row-major and need no build step, so growing blocks append to them.
 * Threads: one writer; readers may scan rows below the n that was published to them. */
#ifndef BW_CODES_H
#define BW_CODES_H
#include "rows_view.h"

typedef struct bw_codes {
    bw_metric metric;
    uint32_t dim, cap; /* rows that fit; never grows */
    size_t stride;     /* bytes of one row's codes: a multiple of 32 */
    uint8_t *codes;    /* cap × stride; per 32 bytes: dims 0–31 low, 32–63 high nibbles */
    float *step;       /* cap; 0: a zero row, or one that is always rescored */
    float *norm;       /* cap; ‖x̂‖, rounded up */
    float *lost;       /* cap; ‖x − x̂‖, rounded up; +inf: always rescored */
    void *image;       /* the one block of memory behind the four; NULL: borrowed */
} bw_codes;

bool bw_codes_metric(bw_metric metric); /* which metrics have codes: all but Manhattan */
bw_codes *bw_codes_new(bw_metric metric, uint32_t dim, uint32_t cap); /* NULL: no memory */
void bw_codes_free(bw_codes *c);                                      /* accepts NULL */
size_t bw_codes_bytes(const bw_codes *c); /* what the block holds, itself included */
/* Codes one row (dim values, as decoded from storage; finite). Appends or overwrites;
 * the writer's alone. Row by row: the same bytes whatever the order. */
void bw_codes_put(bw_codes *c, uint32_t row, const float *decoded);

/* For files: the codes and factors as one run of bytes (64-byte aligned, sized by
 * metric, dim and cap alone), and codes over such bytes, borrowed. The bytes of a file
 * are trusted like its rows: behind a checksum. */
size_t bw_codes_image_bytes(uint32_t dim, uint32_t cap);
void bw_codes_view(bw_metric metric, uint32_t dim, uint32_t cap, void *image, bw_codes *out);

/* One question of a pass. */
typedef struct bw_codes_query {
    const float *query;       /* dim values */
    const bw_bitmap *allowed; /* rows past its end are not allowed; never NULL */
    bw_topk *out;             /* may hold hits of other blocks: they are kept if better */
} bw_codes_query;

enum { BW_CODES_QUERIES_MAX = 8 }; /* of one pass; more go in several passes */

/* The k best allowed rows below rows->n of each query into its `out`: what bw_scan_rows
 * would push. Codes of rows that no query of the pass allows are not read; several
 * queries read the codes once and get the bits of single ones.
 *   ids      n point ids (tie-break); part, row0: what hits are labelled with
 *   rescored NULL, or nq counts of rows scored in stored precision (added to)
 * BW_ETIMEOUT at the deadline, BW_ENOMEM, or what fetch fails with; `out`s are then
 * undefined. Scratch comes from ctx's arena and goes back. */
BW_MUST_USE bw_status bw_codes_scan(bw_ctx *ctx, const bw_codes *codes, const bw_rows *rows,
                                    const bw_codes_query *qs, size_t nq,
                                    const bw_point_id *ids, uint32_t part, uint32_t row0,
                                    uint64_t *rescored);

/* A pass over many blocks of one metric and dim. The query's own codes are made once;
 * rows that their bound leaves wait from block to block, so that only those with the
 * highest bounds of all are rescored. Between begin and end others may push into the
 * lists too; the lists are right after the end. In ctx's arena; one thread's. */
typedef struct bw_codes_pass bw_codes_pass;
typedef struct bw_codes_block { /* codes, ids and ord: borrowed until the end */
    const bw_codes *codes;
    bw_rows rows; /* n <= codes->cap */
    const bw_point_id *ids;
    const uint32_t *ord; /* n labels of hits; NULL: row0 + row */
    uint32_t part, row0;
} bw_codes_block;

/* nq <= BW_CODES_QUERIES_MAX, each with k > 0; qs[i].allowed is not looked at. rows: how
 * many the pass may meet at most (a hint). */
BW_MUST_USE bw_status bw_codes_begin(bw_ctx *ctx, bw_metric metric, uint32_t dim,
                                     const bw_codes_query *qs, size_t nq, uint64_t rows,
                                     bw_codes_pass **out);
/* The rows of one block. allowed: nq bitmaps, NULL where a query takes no part; they are
 * not needed afterwards. Fails as bw_codes_scan does; the pass is over then. */
BW_MUST_USE bw_status bw_codes_add(bw_codes_pass *p, const bw_codes_block *b,
                                   const bw_bitmap *const *allowed);
/* Scores all who wait: every list is right. The pass may go on. */
BW_MUST_USE bw_status bw_codes_settle(bw_codes_pass *p);
uint64_t bw_codes_scored(const bw_codes_pass *p, size_t query); /* in stored precision, so far */
#endif
