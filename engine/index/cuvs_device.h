/* The device side of the kind "cuvs-cagra": two threads and what they are asked to do;
 * private to the files cuvs*.c.
 *
 * One thread builds and one searches, each with a resources handle and a stream of its
 * own (cuVS handles must not be shared), so that no query waits for a graph and the
 * searching thread does not inherit a builder's idle priority. Whoever asks hands over a
 * job that owns all its memory and waits for it: a deadline may pass, or a cell may
 * stop, while the device is still at work.
 *
 * Queries that wait together go in one call when everything that may touch an answer is
 * equal: the graph, the bits of the filter, and both sizes. There is no timer: what
 * gathers while the device is busy is the next batch. */
#ifndef BW_CUVS_DEVICE_H
#define BW_CUVS_DEVICE_H
#include "cuvs_load.h"
#include "kinds.h"

enum {
    BW_CUVS_ITOPK_MAX = 1024,     /* of SINGLE_CTA */
    BW_CUVS_NONE = 0xFFFFFFFF,    /* what result places hold before a search */
    BW_CUVS_PUT_BYTES = 4 << 20   /* of one upload */
};

typedef enum bw_cuvs_outcome {
    BW_CUVS_DONE = 0,
    BW_CUVS_FULL,   /* out of memory, here or there */
    BW_CUVS_FAILED, /* this call alone */
    BW_CUVS_LOST    /* the device is gone: nothing more is asked of it */
} bw_cuvs_outcome;

/* A graph and its vectors in device memory. Counted: an index holds one reference, a job
 * that works with it another; the last one has it destroyed. */
typedef struct bw_cuvs_graph bw_cuvs_graph;

typedef struct bw_cuvs_hits { /* of one query; row numbers as cuVS wrote them */
    uint32_t n;
    uint32_t rows[BW_CUVS_ITOPK_MAX];
    float scores[BW_CUVS_ITOPK_MAX];
} bw_cuvs_hits;

/* Ready, or why not; opens all at the first call. text may be NULL. */
bw_cuvs_reason bw_cuvs__ready(char text[BW_CUVS_TEXT_MAX]);
/* How many f32 a row takes on the device: rows are padded to 16 bytes with zeros. */
uint32_t bw_cuvs__stride(uint32_t dim);

/* Every call: BW_OK and *how, or BW_ETIMEOUT, BW_ENOMEM, BW_EUNAVAILABLE (stopped).
 * what: on FAILED and LOST a line for the log. */
typedef struct bw_cuvs_answer {
    bw_cuvs_outcome how;
    char what[BW_CUVS_TEXT_MAX];
} bw_cuvs_answer;
/* Room for n rows; FULL where the budget does not hold a build. */
BW_MUST_USE bw_status bw_cuvs__open(bw_ctx *ctx, size_t n, uint32_t dim,
                                    const atomic_bool *stop, bw_cuvs_graph **out,
                                    bw_cuvs_answer *a);
/* Rows row0 … row0+n-1 as n × stride f32, copied before it returns; n·stride·4 is at most
 * BW_CUVS_PUT_BYTES, or n is 1. */
BW_MUST_USE bw_status bw_cuvs__put(bw_ctx *ctx, bw_cuvs_graph *g, size_t row0, size_t n,
                                   const float *rows, const atomic_bool *stop,
                                   bw_cuvs_answer *a);
BW_MUST_USE bw_status bw_cuvs__build(bw_ctx *ctx, bw_cuvs_graph *g, uint32_t degree,
                                     const atomic_bool *stop, bw_cuvs_answer *a);
/* The nearest `wanted` rows or so; itopk a multiple of 32, wanted <= itopk and <= n.
 * allowed NULL: all. */
BW_MUST_USE bw_status bw_cuvs__search(bw_ctx *ctx, bw_cuvs_graph *g, const float *query,
                                      const bw_bitmap *allowed, uint32_t itopk,
                                      uint32_t wanted, bw_cuvs_hits *hits,
                                      bw_cuvs_answer *a);
void bw_cuvs__release(bw_cuvs_graph *g); /* NULL is accepted */
size_t bw_cuvs__bytes(const bw_cuvs_graph *g); /* of device memory */

/* Counters, all relaxed. */
typedef struct bw_cuvs_counts {
    atomic_uint_fast64_t builds, refused, searches, batches, widened, dropped,
        scans_filter, scans_short, scans_failed, device_bytes;
} bw_cuvs_counts;
extern bw_cuvs_counts bw_cuvs__counts;
static inline void bw_cuvs__count(atomic_uint_fast64_t *c, uint64_t n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}
#endif
