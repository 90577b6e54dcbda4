/* What the host side of the module hands to its kernels. Device pointers throughout. */
#ifndef BW_CUDA_TYPES_CUH
#define BW_CUDA_TYPES_CUH
#include <cuda_runtime.h>

#include "cuda_arith.h"

enum { FORM_F16 = 0, FORM_BF16 = 1, FORM_I8 = 2 }; /* f32 rows are held as f16 too */

struct pass_item {          /* one range of rows, by those who may read it */
    const uint8_t *form;    /* first row of the range, stride bytes apart */
    const float2 *factors;  /* scale, add of each row */
    const float2 *bounds;   /* largest norm, error of each group */
    const uint8_t *stored;  /* rows as stored, stored_stride apart; the form itself but for f32 */
    uint32_t rows;
    uint32_t read0, nreads; /* into reads */
    uint32_t tile0;         /* of the launch that it belongs to */
    uint32_t number;        /* the batch's number of the item */
    uint32_t pad;
};

struct pass_read {
    const uint32_t *bits; /* NULL: all */
    uint32_t query;       /* of the chunk */
    uint32_t low0;        /* the query's place for the item's first group in `lows` */
};

struct pass_span {  /* of one query: groups group0 … belong to this item */
    uint32_t group0; /* counted over the query's items */
    uint32_t item, read;
};

struct pass_launch { /* one shape's tiles */
    const pass_item *items;
    const pass_read *reads;
    const uint8_t *queries;     /* parts of each query, stride bytes each */
    const bw_cuda_query *forms;
    float *lows;
    uint32_t nitems, ntiles, slices, stride;
};

struct select_launch { /* what the later kernels know of a chunk of nq queries */
    const pass_item *items;
    const pass_read *reads;
    const pass_span *spans;
    const uint32_t *span0;  /* nq + 1: the query's spans */
    const uint32_t *low0;   /* nq: the query's first entry in lows */
    const uint32_t *groups; /* nq: how many */
    const bw_cuda_query *forms;
    const float *vectors;   /* nq × dim, as asked */
    const float *lows;
    uint32_t *chosen;       /* nq × groups_max: group of the query */
    float *keys;            /* nq × groups_max × 32 */
    bw_gpu_answer *answers; /* nq */
    bw_gpu_hit *hits;       /* nq × hits_max */
    uint32_t dim, dtype, euclid, stored_stride;
    uint32_t k, groups_max, hits_max, nq;
};

static_assert(sizeof(pass_item) == 56 && sizeof(pass_read) == 16 && sizeof(pass_span) == 12,
              "packed by the host");
#endif
