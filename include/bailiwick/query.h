/* Queries and their results as plain data (Qdrant's QueryRequest; contract section 4).
 * Requests are borrowed; results are owned by a bw_result (engine.h). */
#ifndef BAILIWICK_QUERY_H
#define BAILIWICK_QUERY_H

#include <bailiwick/filter.h>
#include <bailiwick/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bw_query bw_query;

typedef enum bw_query_kind {
    BW_QUERY_NONE = 0,  /* no query: id order, score 1.0; with prefetch: their union as is */
    BW_QUERY_NEAREST,   /* .target is a vector (dense or sparse) or an id */
    BW_QUERY_FUSION_RRF,
    BW_QUERY_FUSION_DBSF,
    BW_QUERY_ORDER_BY,
    BW_QUERY_RECOMMEND,
    BW_QUERY_TEXT /* BM25 over the text of the points; ours, used by /v1/query */
} bw_query_kind;

typedef enum bw_recommend_strategy {
    BW_RECOMMEND_AVERAGE_VECTOR = 0,
    BW_RECOMMEND_BEST_SCORE,
    BW_RECOMMEND_SUM_SCORES
} bw_recommend_strategy;

/* A vector given in the request, or a stored point's. */
typedef struct bw_target {
    bool by_id;
    bw_point_id id;
    bw_vector vector; /* name unused: `using` names it */
} bw_target;

typedef struct bw_order_by {
    bw_str key;
    bool descending;
    bool has_start_from;
    bool start_is_date;
    bw_number start_from; /* date: nanoseconds of Unix time */
} bw_order_by;

struct bw_query {
    bw_query_kind kind;
    bw_str using_name; /* vector name, "" = the unnamed one */

    bw_target target; /* NEAREST */

    bool has_mmr; /* NEAREST: diversify */
    float mmr_diversity;
    uint32_t mmr_candidates; /* 0 = limit */

    double rrf_k; /* RRF: 2 unless given */
    const float *rrf_weights;
    uint32_t nrrf_weights; /* 0 or nprefetch */

    bw_order_by order_by;

    const bw_target *positive, *negative; /* RECOMMEND */
    uint32_t npositive, nnegative;
    bw_recommend_strategy strategy;

    bw_str text; /* TEXT: words, no syntax */

    const bw_filter *filter; /* NULL = none */
    bool has_score_threshold;
    float score_threshold; /* strict, in the metric's surface form */
    uint32_t limit, offset;

    bool exact;         /* params.exact */
    uint32_t ef_search; /* params.hnsw_ef; 0 = default */
    float recall;       /* params.recall, 0.90 … 1 (1 = exact); 0 = not given: exact below
                           50,000 permitted rows, else 0.99 */

    bw_str lookup_collection; /* none = the queried one */
    bw_str lookup_vector;

    const bw_query *prefetch;
    uint32_t nprefetch;

    /* Root only. */
    bool show_all_copies; /* /v1: every class's copy of an id; else the one of the lowest class */
};

/* One point of an answer. Everything is borrowed from the bw_result. */
typedef struct bw_hit {
    bw_point_id id;
    bw_class_id class_id;
    uint64_t version; /* of the point inside its class */
    float score;      /* surface form: Euclid and Manhattan are distances */
    bool has_score;
    bool has_order_value;
    bw_number order_value;
    bw_str payload; /* the JSON object's bytes as they came; none if it has none */
    bw_str text;    /* the indexed text; none if it has none */
    bw_point_facts facts;
    const bw_vector *vectors;
    uint32_t nvectors;
} bw_hit;

typedef struct bw_group {
    bw_value id; /* a string or an integer */
    const bw_hit *hits;
    uint32_t nhits;
} bw_group;

typedef struct bw_facet_hit {
    bw_value value;
    uint64_t count;
} bw_facet_hit;

#ifdef __cplusplus
}
#endif
#endif
