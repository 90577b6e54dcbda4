/* The turn from ranking keys to the surface's scores, here and nowhere else.
 *
 * Below this line a key grows with likeness for every metric (kernels.h); at the
 * surface Euclid and Manhattan are plain distances, where less is better. Sparse,
 * fused, text and recommend scores are likenesses already. */
#ifndef BW_SCORE_H
#define BW_SCORE_H
#include <bailiwick/types.h>

static inline bool bw_score_falls(bw_metric metric) /* less is better at the surface */
{
    return metric == BW_METRIC_EUCLID || metric == BW_METRIC_MANHATTAN;
}

/* + 0: a distance of nothing is 0, never -0. */
static inline float bw_score_of_key(bool falls, float key)
{
    return (falls ? -key : key) + 0.0f;
}

/* score_threshold is strict in the better direction. */
static inline bool bw_score_passes(bool falls, float score, float threshold)
{
    return falls ? score < threshold : score > threshold;
}
#endif
