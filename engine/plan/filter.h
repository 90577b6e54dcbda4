/* A filter made ready for many rows: paths parsed, value lists sorted, words split.
 * Private to plan/. One thread at a time (it owns scratch space). */
#ifndef BW_PLAN_FILTER_H
#define BW_PLAN_FILTER_H
#include "../partition/payload.h"
#include "select.h"

typedef struct bw_matcher bw_matcher;

/* What a condition is asked about. */
typedef struct bw_subject {
    const bw_point_id
        *id;       /* NULL inside `nested`: has_id and has_vector hold for none */
    bw_str object; /* raw JSON object; none = {} */
    /* HAS_VECTOR: either a snapshot's row … */
    const bw_snapshot *snapshot;
    uint32_t row;
    /* … or vectors of a point that is being written. */
    const bw_vector *vectors;
    size_t nvectors;
} bw_subject;

typedef struct bw_cnode {
    const bw_condition *cond;
    bw_path path;           /* kinds that read the payload */
    const bw_value *values; /* MATCH_*: sorted, unique */
    const bw_point_id *ids; /* HAS_ID: sorted */
    const bw_str *words;    /* MATCH_TEXT: folded, sorted, unique */
    uint32_t nvalues, nids, nwords;
    uint32_t vec;          /* HAS_VECTOR: index in info.vectors, UINT32_MAX = unknown */
    struct bw_clause *sub; /* FILTER, NESTED */
    bool settled;          /* select.c: an index has answered it for the rows at hand */
} bw_cnode;

typedef struct bw_clause {
    bw_cnode *must, *should, *must_not, *min_should;
    uint32_t nmust, nshould, nmust_not, nmin_should;
    uint64_t min_count;
    bool has_min_should;
} bw_clause;

struct bw_matcher {
    bw_ctx *ctx;
    bw_clause *root;
    bw_buf scratch; /* unescaped strings; bw_matcher_clear frees it */
    uint64_t *seen; /* MATCH_TEXT: which words were met */
    bool ask_all;   /* no node counts as settled: rows of many partitions come mixed */
    bool failed;    /* memory ran out while matching */
    bool late;      /* the time was over; what is tested from then on says nothing */
    uint64_t read;  /* bytes of payload since the time was looked at */
};

/* All of the filters must hold (NULL entries: no constraint). info may be NULL (then
 * has_vector goes by subject.vectors). In ctx's arena; the filters are borrowed.
 * BW_EINVALID for a bad path or a tree beyond the limits. */
BW_MUST_USE bw_status bw_matcher_init(bw_ctx *ctx, bw_matcher *m,
                                      const bw_filter *const *filters, size_t n,
                                      const bw_collection_info *info);
void bw_matcher_clear(bw_matcher *m);
bool bw_matcher_test(bw_matcher *m, const bw_subject *subject);
/* Whether what was tested so far holds: BW_ENOMEM, BW_ETIMEOUT if not. Looks at the time by
 * itself, by the bytes that the conditions read. */
BW_MUST_USE bw_status bw_matcher_status(const bw_matcher *m);
/* One condition alone (not settled ones): used where an index narrowed the rest. */
bool bw_matcher_test_node(bw_matcher *m, const bw_cnode *node,
                          const bw_subject *subject);
/* Whether two matchers ask the same: equal trees in equal order. */
bool bw_matcher_same(const bw_matcher *a, const bw_matcher *b);
#endif
