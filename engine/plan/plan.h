/* What the files of plan/ share: one request's state, lists of scored points, scopes.
 * Private to plan/. Everything lives in the request's arena, one thread at a time. */
#ifndef BW_PLAN_H
#define BW_PLAN_H
#include "score.h"
#include "select_private.h"
#include <bailiwick/engine.h>

enum {
    BW_PLAN_HITS_MAX =
        1 << 20, /* offset + limit of one query, after the cut to what there is */
    BW_PLAN_PREFETCH_DEPTH_MAX = 16,    /* frames of the evaluator */
    BW_PLAN_PREFETCHES_MAX = 256,       /* of one query, all levels */
    BW_PLAN_EXAMPLES_MAX = 1024,        /* of one recommend */
    BW_PLAN_MMR_CANDIDATES_MAX = 16384, /* as Qdrant's schema has it */
    BW_PLAN_EXPLAIN_STEPS_MAX = 64, /* partitions listed by explain for one search */
    BW_PLAN_SELECTIONS_MAX = 16,    /* filters whose rows are kept in one request */
    BW_PLAN_SELECTION_BYTES_MAX = 32 << 20,
    BW_PLAN_CHECK_ROWS = 1024 /* rows between two looks at the deadline */
};

typedef struct bw_scored { /* a point of a list */
    float key;             /* larger is better; of an ordered list unused */
    float score;           /* surface form */
    uint32_t part, row;
    bw_point_id id;
    bool has_order;
    bw_number order;
} bw_scored;

typedef struct bw_list { /* best first */
    bw_scored *items;
    size_t n;
    bool falls; /* less is better: only the threshold asks */
} bw_list;

typedef struct bw_plan {
    bw_ctx *ctx;
    bw_engine *engine;
    const bw_read *read;
    const bw_view *view;
    size_t nrows;                    /* of all partitions, dead ones too: sizes only */
    size_t nlive;                    /* bounds a list; no restart changes it */
    const bw_bitmap **visible;       /* per partition, NULL until asked for */
    bw_bitmap *shadow;               /* per partition; NULL until it was needed */
    bool all_copies;                 /* show every class's copy of an id */
    struct bw_lookup_view *lookups;  /* views of lookup_from collections */
    struct bw_selection *selections; /* rows of filters met already (scope.c) */
    size_t nselections, selection_bytes;
    struct bw_explain *explain; /* NULL: not asked for */
    uint32_t prefetches;        /* counted against the cap */
} bw_plan;

/* Which rows a leaf of the query may look at. */
typedef struct bw_scope {
    bw_matcher matcher;
    bool filtered;
    struct bw_selection *selection; /* shared by equal filters; NULL: not kept */
    const bw_point_id *exclude;     /* ids used as examples */
    size_t nexclude;
    const bw_list
        *within; /* rows that prefetches returned, by (part, row); NULL: any */
    struct bw_explain_search *trace; /* NULL: not asked for */
} bw_scope;

/* ---- request (plan.c) ---- */
BW_MUST_USE bw_status bw_plan_init(bw_plan *p, bw_ctx *ctx, bw_engine *engine,
                                   const bw_read *read, const bw_view *view);
void bw_plan_clear(bw_plan *p); /* closes lookup views */
BW_MUST_USE bw_status bw_plan_visible(bw_plan *p, size_t part, const bw_bitmap **out);
bool bw_plan_row_visible(const bw_plan *p, size_t part, uint32_t row);
/* The visible copy of an id in the lowest class; false: none. */
bool bw_plan_find(const bw_view *view, const bw_point_id *id, uint32_t *part,
                  uint32_t *row);
BW_MUST_USE bw_status bw_plan_lookup(bw_plan *p, bw_str collection,
                                     const bw_view **out);
/* BW_EINVALID with the contract's wording when the collection has no such vector. */
BW_MUST_USE bw_status bw_plan_vector(bw_plan *p, const bw_collection_info *info,
                                     bw_str name, uint32_t *vec);
const bw_index_spec *bw_plan_index(const bw_view *view, bw_str field);

/* ---- copies of one id in several classes (copies.c) ---- */
/* Takes rows out of `rows` whose id is visible in a lower class. */
BW_MUST_USE bw_status bw_plan_drop_copies(bw_plan *p, size_t part, bw_bitmap *rows);
/* Whether some point of the list is such a row; what makes a search run again. */
BW_MUST_USE bw_status bw_plan_has_copies(bw_plan *p, const bw_scored *items, size_t n,
                                         bool *out);
BW_MUST_USE bw_status bw_plan_shadow(bw_plan *p); /* fills p->shadow */

/* ---- scopes (scope.c) ---- */
BW_MUST_USE bw_status bw_scope_init(bw_plan *p, bw_scope *s,
                                    const bw_filter *const *filters, size_t nfilters,
                                    const bw_list *within);
void bw_scope_clear(bw_scope *s);
/* What outlives a loop's arena mark: visible rows, and the filter's rows when they are
 * kept for equal filters of the request. To be called before the mark. */
BW_MUST_USE bw_status bw_scope_prepare(bw_plan *p, bw_scope *s, size_t part);
/* Rows of one partition that the scope allows; *any false: none, skip it. shadowed:
 * without rows that a lower class's copy hides. The bitmap is borrowed or in the arena.
 */
BW_MUST_USE bw_status bw_scope_rows(bw_plan *p, bw_scope *s, size_t part, bool shadowed,
                                    const bw_bitmap **out, bool *any);
/* Those of `rows` (changed in place) that the scope allows. */
BW_MUST_USE bw_status bw_scope_cut(bw_plan *p, bw_scope *s, size_t part, bool shadowed,
                                   bw_bitmap *rows);

/* ---- leaves: lists of at most k points ---- */
typedef struct bw_leaf {
    const bw_query *query;
    bw_scope *scope;
    size_t k;
    bool exact; /* rescoring: the rows are few and given */
} bw_leaf;
BW_MUST_USE bw_status bw_leaf_nearest(bw_plan *p, const bw_leaf *leaf,
                                      bw_list *out); /* nearest.c */
BW_MUST_USE bw_status bw_leaf_recommend(bw_plan *p, const bw_leaf *leaf,
                                        bw_list *out); /* recommend.c */
BW_MUST_USE bw_status bw_leaf_text(bw_plan *p, const bw_leaf *leaf,
                                   bw_list *out); /* text.c */
BW_MUST_USE bw_status bw_leaf_order(bw_plan *p, const bw_leaf *leaf,
                                    bw_list *out); /* order.c */
BW_MUST_USE bw_status bw_leaf_ids(bw_plan *p, const bw_leaf *leaf,
                                  bw_list *out); /* order.c */
/* Points in id order from *from on (NULL: the first), at most k. */
BW_MUST_USE bw_status bw_walk_ids(bw_plan *p, bw_scope *s, const bw_point_id *from,
                                  size_t k, bw_list *out);

/* A target's vector: checked, in the form that the search wants (cosine: length 1). */
BW_MUST_USE bw_status bw_target_vector(bw_plan *p, const bw_query *q, uint32_t vec,
                                       const bw_target *t, bw_vector *out);
/* The same as it came or is stored, and the step to the search's form alone. */
BW_MUST_USE bw_status bw_target_raw(bw_plan *p, const bw_query *q, uint32_t vec,
                                    const bw_target *t, bw_vector *out);
BW_MUST_USE bw_status bw_vector_ready(bw_plan *p, uint32_t vec, bw_vector *v);
/* k best rows for a dense or sparse vector. */
BW_MUST_USE bw_status bw_search_vector(bw_plan *p, const bw_leaf *leaf, uint32_t vec,
                                       const bw_vector *v, bw_list *out);
/* Likeness of two vectors of one name as MMR and recommend count it (Euclid: the
 * square). */
float bw_vector_likeness(const bw_vector_spec *spec, const bw_vector *a,
                         const bw_vector *b);
/* Borrowed from the snapshot, or decoded into the arena. */
BW_MUST_USE bw_status bw_row_vector(const bw_plan *p, uint32_t vec, uint32_t part,
                                    uint32_t row, bw_vector *out, bool *has);

/* ---- lists (list.c) ---- */
BW_MUST_USE bw_status bw_list_of_topk(bw_plan *p, bw_topk *t, bool falls, bw_list *out);
void bw_list_sort(bw_list *l);                       /* key falling, id, partition */
void bw_list_threshold(bw_list *l, float threshold); /* keeps what passes, in order */
BW_MUST_USE bw_status bw_list_union(bw_plan *p, const bw_list *lists, size_t n,
                                    bw_list *out); /* by (part, row) */
BW_MUST_USE bw_status bw_fuse_rrf(bw_plan *p, const bw_list *lists, size_t n, double k,
                                  const float *weights, bw_list *out);
BW_MUST_USE bw_status bw_fuse_dbsf(bw_plan *p, const bw_list *lists, size_t n,
                                   bw_list *out);
BW_MUST_USE bw_status bw_mmr(bw_plan *p, uint32_t vec, float diversity, size_t k,
                             bw_list *list);

/* ---- whole queries (query.c) ---- */
/* The k best of a query with every filter given besides its own; `k` counts from the
 * first, offsets are the caller's. */
BW_MUST_USE bw_status bw_plan_query(bw_plan *p, const bw_query *q,
                                    const bw_filter *const *filters, size_t nfilters,
                                    size_t k, bw_list *out);
/* A dense search and nothing else: many of them share the passes over the data. */
bool bw_plan_is_plain(const bw_plan *p, const bw_query *q);
enum { BW_PLAN_PLAIN_MAX = 64 }; /* of one call */
/* Plain queries of one vector name; the same lists as each gets from bw_plan_query. */
BW_MUST_USE bw_status bw_plan_plain(bw_plan *p, const bw_query *const *queries,
                                    const size_t *ks, size_t n, bw_list *out);
BW_MUST_USE bw_status bw_plan_window(bw_plan *p, uint32_t offset, uint32_t limit,
                                     size_t *k);

/* ---- explain (explain.c) ---- */
BW_MUST_USE bw_status bw_explain_new(bw_plan *p);
BW_MUST_USE bw_status bw_explain_begin(bw_plan *p, const char *kind,
                                       struct bw_explain_search **out);
void bw_explain_filter(struct bw_explain_search *s, size_t part, const char *filter,
                       uint64_t rows_read);
void bw_explain_search_done(struct bw_explain_search *s, size_t part,
                            const bw_search_trace *t);
BW_MUST_USE bw_status bw_explain_text(bw_plan *p, const char **out);
#endif
