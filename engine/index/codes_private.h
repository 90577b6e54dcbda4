/* What codes.c, codes_query.c, codes_scan.c and codes_round.c share. */
#ifndef BW_CODES_PRIVATE_H
#define BW_CODES_PRIVATE_H
#include "../kernels/code4.h"
#include "codes.h"

/* Norms that can be bounded in f32 without over- or underflow of a product or square:
 * 2^±40, zero aside. Rows outside are always rescored; queries outside scan flat. */
#define BW_CODES_NORM_MIN 0x1p-40
#define BW_CODES_NORM_MAX 0x1p40

float bw_codes__up(double v);   /* the least f32 not below v */
float bw_codes__down(double v); /* the largest f32 not above v */

/* Fills what the test knows of a query, and its planes (2 · stride bytes, 64-byte
 * lines read in full). False: the query cannot be bounded, all rows are to be rescored. */
bool bw_codes__query(bw_metric metric, size_t dim, const float *query, bw_code4_query *out,
                     int8_t *planes);
/* Sets the key to reach. */
void bw_codes__worst(bw_metric metric, bw_code4_query *q, float worst, size_t dim);
size_t bw_codes__stride(uint32_t dim);

/* ---- a pass: windows of rows (codes_scan.c), rounds of rescoring (codes_round.c) ---- */

enum {
    BW_CODES_WINDOW = 512, /* rows: sums and factors stay in L1 */
    BW_CODES_PAD = 16,     /* what kernels may write past the last waiter */
    BW_CODES_BLOCKS = 256  /* that waiters may lie in; then everybody is scored */
};

/* One query of the pass. */
typedef struct bw_codes_asker {
    bw_codes_query q;
    const bw_bitmap *allowed; /* of the block at hand; NULL: takes no part */
    bw_code4_query test;
    bool ready;     /* test and planes are filled: by the first block that it looks at */
    int8_t *planes; /* NULL: blind, every row is scored */
    int32_t *sums;  /* of the window */
    float *upper;   /* waiters' bounds … */
    uint32_t *slot; /* … and slots, rising */
    size_t n, cap;  /* waiters */
    size_t trigger; /* so many start a round */
    uint64_t scored;
} bw_codes_asker;

/* Slots number the rows of all blocks one after the other. */
struct bw_codes_pass {
    bw_ctx *ctx;
    bw_metric metric;
    uint32_t dim;
    size_t stride;
    const bw_code4 *k;
    bw_codes_asker *askers;
    size_t nq;
    bw_codes_block *blocks; /* BW_CODES_BLOCKS, the last is at hand … */
    uint32_t *base;         /* … and their first slots */
    size_t nblocks;
    /* a window of the block at hand: rows first … first + n − 1, or those of `list` */
    size_t first, n;
    bool gaps;
    uint32_t *list;
    float *step, *norm, *lost; /* of a window with gaps, copied together */
    /* a round */
    uint32_t *which; /* slots */
    float *keys;
    size_t round_max;
};

BW_MUST_USE bw_status bw_codes__rounds_init(bw_codes_pass *p, size_t k_most);
/* Scores the rows p->which[0 … n − 1] (rising slots), n <= round_max. */
BW_MUST_USE bw_status bw_codes__score(bw_codes_pass *p, bw_codes_asker *a, size_t n);
/* The k-th best of the list becomes the key to reach. */
void bw_codes__raise(const bw_codes_pass *p, bw_codes_asker *a);
size_t bw_codes__trigger(const bw_codes_asker *a, size_t waits);
/* One round, or with `all` rounds until nobody waits. */
BW_MUST_USE bw_status bw_codes__settle(bw_codes_pass *p, bw_codes_asker *a, bool all);
#endif
