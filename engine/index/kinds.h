/* What the files of this folder share: the table of each kind, and the exact way out.
 */
#ifndef BW_INDEX_KINDS_H
#define BW_INDEX_KINDS_H
#include "../kernels/kernels.h"
#include "index.h"

extern const bw_index_ops bw_index__flat;
extern const bw_index_ops bw_index__faiss_hnsw;
extern const bw_index_ops bw_index__faiss_ivf;
extern const bw_index_ops bw_index__null;

/* Every allowed row of s, exactly; n and dim are the index's. */
void bw_index__scan(bw_metric metric, size_t n, uint32_t dim, const bw_index_search *s,
                    bw_topk *out);
#endif
