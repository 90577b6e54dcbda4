/* What the files of this folder share: the table of each kind, and the exact way out.
 */
#ifndef BW_INDEX_KINDS_H
#define BW_INDEX_KINDS_H
#include "../kernels/kernels.h"
#include "index.h"

extern const bw_index_ops bw_index__flat;
extern const bw_index_ops bw_index__faiss_hnsw;
extern const bw_index_ops bw_index__faiss_ivf;
extern const bw_index_ops bw_index__graph;
extern const bw_index_ops bw_index__cuvs;
extern const bw_index_ops bw_index__null;

/* Every allowed row of s, exactly; n and dim are the index's. */
BW_MUST_USE bw_status bw_index__scan(bw_ctx *ctx, bw_metric metric, size_t n,
                                     uint32_t dim, const bw_index_search *s,
                                     bw_topk *out);

/* The rows as f32 in memory: row-major, 64-byte aligned, borrowed; NULL: they are not. */
static inline const float *bw_index__f32(const bw_rows *rows)
{
    return rows->dtype == BW_DTYPE_F32 ? rows->data : NULL;
}
#endif
