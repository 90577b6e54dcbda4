/* The seam between storage (partition/, store/) and the planner (plan/).
 *
 * A partition is one (collection, class) in this cell: its own SQLite file, its rows in
 * memory. A row is an immutable version of a point, numbered by an ordinal that is never
 * used again; an update makes a new row and kills the old one. A snapshot is a counted,
 * immutable view: rows 0 … nrows-1 with a bitmap of those that live. Readers hold
 * snapshots and touch no lock; the writer publishes new ones after its commit, for all
 * partitions of a transaction at once. */
#ifndef BW_PARTITION_H
#define BW_PARTITION_H
#include "../base/bitmap.h"
#include "../index/index.h"
#include <bailiwick/engine.h>

typedef struct bw_partition bw_partition; /* locked inside */
typedef struct bw_snapshot bw_snapshot;   /* immutable */

typedef struct bw_row { /* borrowed from the snapshot */
    bw_point_id id;
    uint64_t version;
    bw_str payload, text;
    bw_point_facts facts;
} bw_row;

/* What a read works on: the collection's settings and one snapshot for each permitted
 * class that has a partition, by rising class id, all of one committed state. */
typedef struct bw_view {
    bw_collection_info info;
    size_t nparts;
    const bw_class_id *classes; /* nparts */
    bw_snapshot *const *parts;  /* nparts, counted: bw_view_close releases them */
    int64_t now_ns;
} bw_view;

/* Opens only classes in permit; any other partition's file is not touched. In ctx's arena. */
BW_MUST_USE bw_status bw_view_open(bw_ctx *ctx, bw_engine *engine, bw_str tenant, bw_str name,
                                   const bw_permit *permit, int64_t now_ns, bw_view *out);
void bw_view_close(bw_view *view);
/* Whether what failed with st, and has changed nothing, is to be tried once more with a new
 * view: rows on file were damaged, and the view makes those of its classes again first,
 * unless another one has done so meanwhile. */
bool bw_view_mends(bw_engine *engine, bw_status st);

size_t bw_snapshot_nrows(const bw_snapshot *s); /* with dead ones: a size, no answer's input */
size_t bw_snapshot_nlive(const bw_snapshot *s);
const bw_bitmap *bw_snapshot_live(const bw_snapshot *s); /* nrows bits, expiry not applied */
/* live minus rows expired at now_ns; in ctx's arena (or the live bitmap itself when no row can expire). */
BW_MUST_USE bw_status bw_snapshot_visible(bw_ctx *ctx, const bw_snapshot *s, int64_t now_ns,
                                          const bw_bitmap **out);
void bw_snapshot_row(const bw_snapshot *s, uint32_t row, bw_row *out); /* also of dead rows */
const bw_point_id *bw_snapshot_id(const bw_snapshot *s, uint32_t row);
bool bw_snapshot_find(const bw_snapshot *s, const bw_point_id *id, uint32_t *row); /* live rows only */
/* Live rows in id order (cached in the snapshot after the first call). */
BW_MUST_USE bw_status bw_snapshot_by_id(bw_ctx *ctx, const bw_snapshot *s, const uint32_t **rows, size_t *n);

/* vec: index into info.vectors. */
bool bw_snapshot_has_dense(const bw_snapshot *s, uint32_t vec, uint32_t row);
/* The values (dim f32): borrowed from the snapshot where they are stored so, else decoded
 * into ctx's arena. *out NULL: the row has none. */
BW_MUST_USE bw_status bw_snapshot_dense(bw_ctx *ctx, const bw_snapshot *s, uint32_t vec, uint32_t row,
                                        const float **out);
bool bw_snapshot_sparse(const bw_snapshot *s, uint32_t vec, uint32_t row, bw_vector *out);
/* Rows that have the vector (nrows bits). */
BW_MUST_USE bw_status bw_snapshot_has_vector(bw_ctx *ctx, const bw_snapshot *s, uint32_t vec, bw_bitmap *out);

typedef struct bw_search_params {
    uint32_t vec;
    size_t k;
    bool exact;
    uint32_t ef_search;
    float recall;             /* 0 = not given */
    uint64_t permitted;       /* rows that the whole search may look at, in all partitions */
    const bw_bitmap *allowed; /* nrows bits; the caller has put `visible` and the filter into it */
    uint32_t part;            /* label of the hits */
} bw_search_params;
typedef struct bw_search_trace { /* what was done, for explain; counts are summed */
    uint64_t rows_permitted;
    uint64_t rows_scanned;  /* each looked at, in stored precision or by its code */
    uint64_t rows_rescored; /* in stored precision, after codes or a graph */
    uint64_t hops;          /* vertices of graphs */
    uint64_t segments_flat, segments_codes, segments_graph;
    float loss;          /* 1 - the recall promised, the largest of its graphs' */
    uint64_t unmeasured; /* graphs of a kind that promises nothing */
} bw_search_trace;

/* One question of a pass over a partition. out may hold hits of other partitions: its
 * worst key prunes here. trace may be NULL. */
typedef struct bw_dense_query {
    const float *query;
    const bw_search_params *p;
    bw_topk *out;
    bw_search_trace *trace;
    /* A pass over all partitions of the search that this query takes part in, as number
     * `asker`: out is right only after bw_codes_settle. NULL: out is right at once. */
    struct bw_codes_pass *pass;
    uint32_t asker;
} bw_dense_query;

/* The k best rows of the partition into each query's list; all of one vector name. Each
 * gets the bits that it would get alone. BW_ETIMEOUT: the lists are undefined. */
BW_MUST_USE bw_status bw_snapshot_search_many(bw_ctx *ctx, const bw_snapshot *s, const bw_dense_query *qs,
                                              size_t nq);
BW_MUST_USE bw_status bw_snapshot_search_dense(bw_ctx *ctx, const bw_snapshot *s, const float *query,
                                               const bw_search_params *p, bw_topk *out, bw_search_trace *trace);
/* Very small partitions (small.c): one pass of some searches for vector 0 over many of
 * them. Only for searches that may look at every living row. */
typedef struct bw_small_pass {
    bw_metric metric;
    bw_dtype dtype;
    size_t dim, row_bytes;
    struct bw_scan_query *qs; /* query and out are the caller's, `allowed` is set here */
    size_t nq;
    struct bw_codes_pass *codes; /* of the same queries, in the same order; NULL: none … */
    size_t codes_rows_min;       /* … and for how many rows it is the cheaper way */
} bw_small_pass;
void bw_small_pass_init(bw_small_pass *p, const bw_vector_spec *spec, struct bw_scan_query *qs, size_t nq);
/* Partitions that have codes are searched by them, in the pass of the whole search; k: the
 * largest of the queries', rows: those that the search may look at. */
void bw_small_pass_codes(bw_small_pass *p, struct bw_codes_pass *codes, size_t k, uint64_t rows);
/* *rows: how many were looked at; 0: nothing was done, bw_snapshot_search_many has to.
 * Fails as bw_codes_add does. */
BW_MUST_USE bw_status bw_snapshot_search_small(const bw_snapshot *s, bw_small_pass *p, uint32_t part,
                                               size_t *rows);
/* Asks memory for what the next calls will read: some partitions ahead, then fewer. */
void bw_snapshot_ahead(const bw_snapshot *s);
void bw_snapshot_rows_ahead(const bw_snapshot *s, const bw_small_pass *p);
/* The first of hashes[from …] whose id may be a row; n: none. */
size_t bw_snapshot_may_hold(const bw_snapshot *s, const uint32_t *hashes, size_t n, size_t from);
/* Permitted rows from which on a search need not be exact (index/choose.h). */
uint32_t bw_snapshot_exact_rows(const bw_snapshot *s);
bool bw_snapshot_has_graph(const bw_snapshot *s, uint32_t vec); /* one that serves */
BW_MUST_USE bw_status bw_snapshot_sparse_df(bw_ctx *ctx, const bw_snapshot *s, uint32_t vec,
                                            const uint32_t *indices, size_t n, const bw_bitmap *visible,
                                            uint64_t *df);
BW_MUST_USE bw_status bw_snapshot_search_sparse(bw_ctx *ctx, const bw_snapshot *s, const bw_vector *query,
                                                const bw_search_params *p, bw_topk *out, bw_search_trace *trace);

/* Text (FTS5 `porter unicode61`). Terms come from bw_text_terms, so every partition splits
 * alike; stems are theirs. For each visible row that holds a term: (row, tf of each term,
 * length in tokens). */
typedef struct bw_text_match {
    uint32_t row, length;
    const uint32_t *tf; /* nterms */
} bw_text_match;
typedef struct bw_text_stats { /* summed over the permitted partitions before scoring */
    uint64_t ndocs, ntokens;   /* visible rows with text, and their tokens */
} bw_text_stats;
BW_MUST_USE bw_status bw_text_terms(bw_ctx *ctx, bw_str query, const bw_str **terms, size_t *n); /* unique words, folded */
BW_MUST_USE bw_status bw_snapshot_text(bw_ctx *ctx, const bw_snapshot *s, const bw_str *terms, size_t nterms,
                                       const bw_bitmap *visible, bw_text_stats *stats,
                                       const bw_text_match **out, size_t *n);
BW_MUST_USE bw_status bw_text_stems(bw_ctx *ctx, const bw_str *terms, size_t n, const bw_str **stems);
/* A text query in one partition: `end` rows by the lists in memory, the others by the file. */
typedef struct bw_text_query {
    const bw_str *terms, *stems;
    size_t nterms;
} bw_text_query;
typedef struct bw_text_found { /* in ctx's arena */
    uint32_t end;
    const uint32_t *lists;     /* nterms, index/words.h */
    const bw_text_match *rest; /* rows from end on */
    size_t nrest;
} bw_text_found;
/* Adds to stats, and to df[nterms] how many visible rows hold each term. */
BW_MUST_USE bw_status bw_snapshot_text_find(bw_ctx *ctx, const bw_snapshot *s, const bw_text_query *q,
                                            const bw_bitmap *visible, bw_text_stats *stats, uint64_t *df,
                                            bw_text_found *out);
uint64_t bw_snapshot_text_bytes(const bw_snapshot *s); /* of the lists in memory */
/* Sets the bits of all rows found, visible or not. */
void bw_snapshot_text_rows(const bw_snapshot *s, const bw_text_query *q, const bw_text_found *found,
                           bw_bitmap *rows);
typedef struct bw_text_weights {
    const double *idf; /* nterms */
    double mean;       /* length of a text */
} bw_text_weights;
/* The best by BM25 (index/words.h) of those allowed, which are visible, into out. */
BW_MUST_USE bw_status bw_snapshot_text_best(bw_ctx *ctx, const bw_snapshot *s, const bw_text_query *q,
                                            const bw_text_found *found, const bw_text_weights *weights,
                                            const bw_bitmap *allowed, uint32_t part, bw_topk *out);

/* Payload indexes of this snapshot's partition (payload_index.h), NULL when the field has none. */
struct bw_payload_index;
const struct bw_payload_index *bw_snapshot_payload_index(const bw_snapshot *s, bw_str field);
/* Payload indexes only ever gain rows; a reader holds this while it looks into one. */
void bw_snapshot_index_rdlock(const bw_snapshot *s);
void bw_snapshot_index_unlock(const bw_snapshot *s);
#endif
