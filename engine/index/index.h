/* A vector index over the rows of one sealed segment: one table of functions a kind.
 *
 * Capabilities are data, so the planner asks instead of knowing. Rows are numbered
 * 0 … n-1 in the order given to build; deletes are the caller's bitmap. An index is
 * immutable after build; search is thread-safe. Backend exceptions end inside the
 * adapter as a bw_status. Same rows, same build: same bytes. */
#ifndef BW_INDEX_H
#define BW_INDEX_H
#include "../base/bitmap.h"
#include "../kernels/topk.h"
#include "rows_view.h"
#include <stdatomic.h>

typedef struct bw_index_ops bw_index_ops;
typedef struct bw_index bw_index; /* every kind's struct begins with its ops */

typedef struct bw_index_params {
    bw_metric metric;
    uint32_t dim;
    uint32_t M;               /* HNSW links, graph's degree; 0 = the kind's own choice */
    uint32_t ef_construction; /* 0 = the kind's own choice */
    uint32_t nlist;           /* IVF; 0 = 4·√n */
    uint64_t seed;
    uint32_t threads;         /* of a build, 0 = 1; the bytes do not depend on it */
    const atomic_bool *stop;  /* a build fails soon after it becomes true; NULL = never */
} bw_index_params;

typedef struct bw_index_search {
    const float *query;       /* dim f32; cosine: normalised by the caller */
    size_t k;
    uint32_t effort;          /* ef_search or nprobe; 0 = by recall, or the default */
    float recall;             /* wanted recall@k where no effort is given; 0 = not given */
    const bw_bitmap *allowed; /* n bits, never NULL; rows outside never come back */
    const bw_point_id *ids;   /* n ids, for ties */
    uint32_t part, row0;
    const bw_rows *rows;      /* the n stored rows: approximate results are rescored from them */
    uint64_t *hops, *rescored; /* NULL, or counts added to: vertices looked into, rows scored in
                                  stored precision */
} bw_index_search;

struct bw_index_ops {
    const char *name; /* "flat", "graph", "faiss-hnsw", "faiss-ivf", "null" */
    bool exact, filtered; /* filtered: `allowed` is passed down, not applied afterwards */
    bool metrics[4];  /* by bw_metric */
    uint32_t dim_max, M_max, ef_construction_max; /* beyond them build refuses; 0 = none */
    /* rows->n rows; a kind that needs them as f32 in memory decodes them for itself. */
    BW_MUST_USE bw_status (*build)(bw_ctx *ctx, const bw_index_params *params,
                                   const bw_rows *rows, bw_index **out);
    /* A new index from an old one: map[old row] = row of the new numbering, UINT32_MAX =
     * gone; rows has the new numbering, and what no old row maps to is inserted. `old`
     * stays as it is. NULL: the kind is always built anew. */
    BW_MUST_USE bw_status (*derive)(bw_ctx *ctx, const bw_index_params *params,
                                    const bw_index *old, const uint32_t *map,
                                    const bw_rows *rows, bw_index **out);
    /* Pushes into `out` (chained over segments). Fewer than k only when fewer are allowed:
     * an approximate kind widens its effort, then scans. */
    BW_MUST_USE bw_status (*search)(bw_ctx *ctx, const bw_index *ix, const bw_index_search *s,
                                    bw_topk *out);
    /* Derived bytes for a fast start; the caller adds the MAC and checks it before load.
     * NULL: the kind is always rebuilt. */
    BW_MUST_USE bw_status (*save)(bw_ctx *ctx, const bw_index *ix, bw_buf *out);
    BW_MUST_USE bw_status (*load)(bw_ctx *ctx, const bw_index_params *params, const void *bytes,
                                  size_t n, bw_index **out);
    /* What tuning measured, on this index's own rows: the least effort whose recall@k has
     * a lower 95 % bound of at least `recall` (0: none has, scan), and that bound for an
     * effort. Both NULL: the kind was not tuned. */
    uint32_t (*effort_of)(const bw_index *ix, float recall, size_t k);
    float (*recall_of)(const bw_index *ix, uint32_t effort);
    size_t (*bytes)(const bw_index *ix);
    void (*free)(bw_index *ix); /* NULL is accepted */
};
struct bw_index {
    const bw_index_ops *ops;
};

const bw_index_ops *bw_index_kind(const char *name); /* NULL: unknown */
/* Once, before any thread uses FAISS: checks the CPU, sets the BLAS threshold and threads. */
BW_MUST_USE bw_status bw_index_start(bw_ctx *ctx);
/* Builds that the calling thread runs fail soon after *flag becomes true, so that a cell
 * can stop while a graph of minutes is being built. NULL = never. */
void bw_index_stop_when(const atomic_bool *flag);

/* Inverted lists over sparse rows: append-only, rows numbered in order of adding. Scores
 * are Σ q·d over shared indices, summed in rising order of index (same bits always).
 * Rows whose sum is 0 do not come back. One writer; readers under the partition's lock. */
typedef struct bw_sparse_index bw_sparse_index;
bw_sparse_index *bw_sparse_new(void);
void bw_sparse_free(bw_sparse_index *ix);
size_t bw_sparse_bytes(const bw_sparse_index *ix); /* of its lists */
BW_MUST_USE bw_status bw_sparse_add(bw_ctx *ctx, bw_sparse_index *ix, uint32_t row,
                                    const uint32_t *indices, const float *values, size_t n);
/* df over allowed rows of each query index, added to df[i]: IDF is summed over partitions first. */
BW_MUST_USE bw_status bw_sparse_df(bw_ctx *ctx, const bw_sparse_index *ix, const uint32_t *indices,
                                   size_t n, const bw_bitmap *live, uint64_t *df);
/* values already carry the IDF factor if there is one. ids[row] is the row's point id. */
BW_MUST_USE bw_status bw_sparse_search(bw_ctx *ctx, const bw_sparse_index *ix,
                                       const uint32_t *indices, const float *values, size_t n,
                                       const bw_bitmap *allowed, const bw_point_id *ids,
                                       uint32_t part, bw_topk *out);
#endif
