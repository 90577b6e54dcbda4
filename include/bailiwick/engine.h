/* One cell's data: collections, classes, writes, reads. No policy, no HTTP.
 *
 * Every read and write names the classes that it may touch (bw_permit, never NULL);
 * a class outside it is not opened, counted or timed. Thread class: a bw_engine is
 * locked inside and may be used from any number of threads, each with its own ctx. */
#ifndef BAILIWICK_ENGINE_H
#define BAILIWICK_ENGINE_H

#include <bailiwick/ctx.h>
#include <bailiwick/query.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bw_engine bw_engine;
typedef struct bw_result bw_result;

typedef struct bw_engine_options {
    uint32_t version; /* 1 */
    bool create;      /* make the folder and the catalogue if they are missing */
    uint32_t open_partitions_max; /* SQLite handles kept open; 0 = 256 */
    uint32_t seal_rows;           /* rows after which a growing segment is sealed; 0 = 16,384 */
    uint32_t adopt_rows; /* rows written after sealing at which the graph must serve; 0 = seal_rows / 4 */
    bool null_sync;               /* tests of speed only: synchronous=OFF */
    uint64_t block_cache_bytes;   /* of vectors that are on file; 0 = 256 MiB */
    bool gpu; /* exact scans on a GPU where one can be used: the same answers */
    uint64_t vector_bytes; /* of sealed rows in memory; the others go to file. 0 = no limit */
    uint32_t exact_rows; /* below so many permitted rows an answer is exact unless less is asked for; 0 = 50,000 */
    bool graphs_first;   /* tests and benches only: a graph answers where one may, whatever it costs */
} bw_engine_options;
#define BW_ENGINE_OPTIONS_INIT {1, true, 0, 0, 0, false, 0, false, 0, 0, false}

/* dir: the cell's data folder; borrowed. Refuses a folder of a newer format
 * (BW_ECORRUPT) and one that another process holds (BW_EUNAVAILABLE). Finishes or
 * drops the transactions that a crash left. */
BW_MUST_USE bw_status bw_engine_open(bw_ctx *ctx, const char *dir,
                                     const bw_engine_options *options, bw_engine **out);
void bw_engine_close(bw_engine *engine); /* NULL is accepted; no request may be running */

/* ---- Collections. A collection is (tenant, name); each tenant has its own names. ---- */

typedef enum bw_index_choice { /* how large segments of a dense vector are searched */
    BW_INDEX_AUTO = 0,   /* our graph where the metric has it, as the planner decides */
    BW_INDEX_FLAT = 1,   /* scans only: always exact */
    BW_INDEX_GRAPH = 2,
    BW_INDEX_FAISS_HNSW = 3,
    BW_INDEX_FAISS_IVF = 4,
    BW_INDEX_CUVS_CAGRA = 5
} bw_index_choice;
enum { BW_NINDEX_CHOICES = 6 };

typedef struct bw_vector_spec {
    bw_str name;
    uint32_t dim; /* dense: 1 … 65,536; sparse: 0 */
    bw_metric metric;
    bool sparse;
    bool idf; /* sparse, modifier "idf" */
    /* Dense alone; all 0 in a sparse one. */
    bw_dtype dtype;        /* stored precision; every score is exact over what is stored */
    bool on_disk;          /* rows of sealed segments are read from their file */
    bw_index_choice index;
    uint32_t m, ef_construct; /* what the graph's build is asked for; 0 = the kind's own */
} bw_vector_spec;

typedef struct bw_index_spec { /* a payload index */
    bw_str field;              /* payload path */
    bw_str type;               /* keyword integer float bool geo datetime text uuid */
    bw_str params;             /* the schema's JSON as it came, or none */
} bw_index_spec;

typedef struct bw_collection_info {
    bw_str tenant, name;
    uint64_t uid; /* the engine's own id of it; never shown to a caller */
    /* Names its list of classes: another number whenever a class comes or goes, and no
     * other list of this engine ever has it. For caches of decisions; never shown. */
    uint64_t classes_version;
    const bw_vector_spec *vectors;
    uint32_t nvectors;
    const bw_index_spec *indexes;
    uint32_t nindexes;
    bw_str settings; /* JSON object, the caller's own; kept as it came */
    bw_str labels;   /* default label set, the caller's own text; none = none */
} bw_collection_info;

/* BW_EEXISTS when (tenant, name) is a collection or an alias. Sets name, vectors,
 * settings and labels of `info`; indexes must be empty. */
BW_MUST_USE bw_status bw_collection_create(bw_ctx *ctx, bw_engine *engine,
                                           const bw_collection_info *info);
/* The same, but only while every class in it is one of `judged` (decided to be removable):
 * BW_ECONFLICT and nothing removed when a writer has brought another one meanwhile. */
BW_MUST_USE bw_status bw_collection_drop_judged(bw_ctx *ctx, bw_engine *engine, bw_str tenant,
                                                bw_str name, const bw_permit *judged,
                                                bool *existed);
/* Removes the collection with its classes, files and aliases. *existed tells. */
BW_MUST_USE bw_status bw_collection_drop(bw_ctx *ctx, bw_engine *engine, bw_str tenant,
                                         bw_str name, bool *existed);
/* name may be an alias. The info is copied into ctx's arena. BW_ENOTFOUND. */
BW_MUST_USE bw_status bw_collection_get(bw_ctx *ctx, bw_engine *engine, bw_str tenant,
                                        bw_str name, bw_collection_info *out);
/* All collections of a tenant (none = of every tenant), by (tenant, name); in ctx's arena. */
BW_MUST_USE bw_status bw_collection_list(bw_ctx *ctx, bw_engine *engine, bw_str tenant,
                                         const bw_collection_info **out, size_t *n);
/* Replaces settings and/or labels; none leaves them as they are. */
BW_MUST_USE bw_status bw_collection_update(bw_ctx *ctx, bw_engine *engine, bw_str tenant,
                                           bw_str name, bw_str settings, bw_str labels);
/* Creates (or replaces) and drops payload indexes; built before the call returns. */
BW_MUST_USE bw_status bw_collection_index_put(bw_ctx *ctx, bw_engine *engine, bw_str tenant,
                                              bw_str name, const bw_index_spec *spec);
BW_MUST_USE bw_status bw_collection_index_drop(bw_ctx *ctx, bw_engine *engine, bw_str tenant,
                                               bw_str name, bw_str field);

/* Makes each permitted class's rows one sealed segment with its graph, and waits for it:
 * for the end of a bulk load. Classes with fewer rows than a graph needs stay as they are,
 * others are not opened. Reads and writes go on meanwhile. BW_ETIMEOUT: what has begun is
 * adopted at its count of writes, or by the next call. */
BW_MUST_USE bw_status bw_collection_seal(bw_ctx *ctx, bw_engine *engine, bw_str tenant,
                                         bw_str name, const bw_permit *permit);

typedef enum bw_alias_action_kind { BW_ALIAS_CREATE, BW_ALIAS_RENAME, BW_ALIAS_DELETE } bw_alias_action_kind;
typedef struct bw_alias_action {
    bw_alias_action_kind kind;
    bw_str alias;      /* the alias; of a rename: the old name */
    bw_str new_alias;  /* rename */
    bw_str collection; /* create */
} bw_alias_action;
typedef struct bw_alias {
    bw_str alias, collection;
} bw_alias;
/* All or none, in order. */
BW_MUST_USE bw_status bw_alias_apply(bw_ctx *ctx, bw_engine *engine, bw_str tenant,
                                     const bw_alias_action *actions, size_t n);
BW_MUST_USE bw_status bw_alias_list(bw_ctx *ctx, bw_engine *engine, bw_str tenant,
                                    const bw_alias **out, size_t *n);

/* ---- Classes. The engine keeps each class's canonical label text beside its id. ---- */

/* Idempotent; the text is not looked into. Must precede the first write of the class. */
BW_MUST_USE bw_status bw_class_put(bw_ctx *ctx, bw_engine *engine, const bw_class_id *id,
                                   bw_str label_text);
BW_MUST_USE bw_status bw_class_get(bw_ctx *ctx, bw_engine *engine, const bw_class_id *id,
                                   bw_str *label_text);
/* The classes that have a partition in the collection, sorted; in ctx's arena. For
 * the decision alone: never show it, or its length, to a caller. version: of this
 * very list (bw_collection_info.classes_version); may be NULL. */
BW_MUST_USE bw_status bw_collection_classes(bw_ctx *ctx, bw_engine *engine, bw_str tenant,
                                            bw_str name, const bw_class_id **out, size_t *n,
                                            uint64_t *version);

/* ---- Writes ---- */

typedef struct bw_point {
    bw_point_id id;
    bw_class_id class_id;
    bw_str payload; /* a checked JSON object, or none; kept as it came, `_…` keys and all */
    bw_str text;    /* what the text index gets, or none */
    bw_point_facts facts;
    const bw_vector *vectors; /* cosine rows need not be normalised yet */
    uint32_t nvectors;
} bw_point;

typedef enum bw_op_kind {
    BW_OP_UPSERT,
    BW_OP_DELETE,
    BW_OP_SET_PAYLOAD,       /* merges at the top level, or under `key` */
    BW_OP_OVERWRITE_PAYLOAD, /* replaces */
    BW_OP_DELETE_PAYLOAD,    /* `keys`: payload paths */
    BW_OP_CLEAR_PAYLOAD,
    BW_OP_UPDATE_VECTORS, /* `points`: id and vectors only; merged by name */
    BW_OP_DELETE_VECTORS, /* `keys`: vector names */
    BW_OP_RELABEL         /* `moves` */
} bw_op_kind;

/* Points that go from one class to another, as they are: id, vectors, payload, text,
 * facts. Nothing moves when one of them is not where it was seen (BW_ECONFLICT), or `to`
 * shows the caller a point of that id already (BW_EEXISTS). As with an upsert, a copy in
 * `to` that the caller cannot see is replaced. */
typedef struct bw_move {
    bw_class_id from, to;
    const bw_point_id *ids;
    uint32_t nids;
} bw_move;

typedef enum bw_update_mode { BW_UPDATE_UPSERT, BW_UPDATE_INSERT_ONLY, BW_UPDATE_UPDATE_ONLY } bw_update_mode;

typedef struct bw_op {
    bw_op_kind kind;
    const bw_point *points; /* UPSERT, UPDATE_VECTORS; same id twice: the last wins, whole */
    uint32_t npoints;
    const bw_point_id *ids; /* the others: ids, or */
    uint32_t nids;
    const bw_filter *filter; /* a filter (NULL = ids) */
    bw_str payload;          /* SET_, OVERWRITE_PAYLOAD */
    bw_str key;              /* SET_PAYLOAD: payload path, or none */
    const bw_str *keys;
    uint32_t nkeys;
    const bw_move *moves; /* RELABEL */
    uint32_t nmoves;
    const bw_filter *update_filter; /* UPSERT: existing points that do not match stay as they are */
    bw_update_mode mode;
    /* Payload calls: the text that a payload gives (in ctx's arena; none = none), so that a
     * point's text goes with the payload that it came from. NULL: texts stay. */
    bw_status (*text_of)(bw_ctx *ctx, bw_str payload, bw_str *text);
} bw_op;

/* What the decision lets this write touch. A point in a class outside `read` counts
 * as absent. A visible point whose class is outside the set that the operation
 * needs (remove for deletes; store for changes, and remove, too, for those of a point
 * that was there: they end it; relabel for moves out of a class) fails the whole call
 * with BW_EDENIED and *denied_class. */
typedef struct bw_access {
    bw_permit read, store, remove, relabel;
} bw_access;

typedef struct bw_write_result {
    uint64_t points_changed; /* upserted, changed, moved or deleted */
    bw_class_id denied_class;
} bw_write_result;

/* Runs ops in order as one transaction over all the partitions that they touch: after
 * BW_OK it survives a crash and every later read sees all of it; after a failure
 * nothing of it remains. */
BW_MUST_USE bw_status bw_write(bw_ctx *ctx, bw_engine *engine, bw_str tenant, bw_str name,
                               const bw_access *access, const bw_op *ops, size_t nops,
                               bw_write_result *out);

/* ---- Reads. now_ns (Unix time) hides expired points; pass one value a request. ---- */

typedef struct bw_read {
    bw_str tenant, name;
    const bw_permit *permit;
    int64_t now_ns;
    const bw_permit *lookup_permit; /* of lookup_collection; NULL = none is named */
    bool explain;
    bool no_vectors; /* hits come without vectors: nobody decodes or reads them */
} bw_read;

/* Many queries over one view of the data (query/batch): results[i] for queries[i]. */
BW_MUST_USE bw_status bw_query_run(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                                   const bw_query *queries, size_t nq, bw_result **out);
BW_MUST_USE bw_status bw_query_groups(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                                      const bw_query *query, bw_str group_by,
                                      uint32_t group_size, bw_result **out);
/* Points by id, in the order asked, each once; missing ones are left out. */
BW_MUST_USE bw_status bw_retrieve(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                                  const bw_point_id *ids, size_t n, bw_result **out);

typedef struct bw_scroll {
    const bw_filter *filter; /* NULL = none */
    bool has_offset;
    bw_point_id offset; /* the first id of the page */
    uint32_t limit;
    bool has_order_by;
    bw_order_by order_by;
    bool show_all_copies;
} bw_scroll;
/* bw_result_next tells the next page's offset. */
BW_MUST_USE bw_status bw_scroll_run(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                                    const bw_scroll *scroll, bw_result **out);
BW_MUST_USE bw_status bw_count(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                               const bw_filter *filter, uint64_t *out);
BW_MUST_USE bw_status bw_facet(bw_ctx *ctx, bw_engine *engine, const bw_read *read, bw_str key,
                               const bw_filter *filter, uint32_t limit,
                               const bw_facet_hit **out, size_t *n); /* in ctx's arena */
/* Points of the permitted classes that have a non-null value at an indexed field. */
BW_MUST_USE bw_status bw_index_points(bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                                      bw_str field, uint64_t *out);

const bw_hit *bw_result_hits(const bw_result *result, size_t query, size_t *n);
const bw_group *bw_result_groups(const bw_result *result, size_t *n);
bool bw_result_next(const bw_result *result, bw_point_id *next); /* scroll: false at the end */
const char *bw_result_explain(const bw_result *result);          /* JSON text, or "" */
void bw_result_free(bw_result *result); /* NULL is accepted; before ctx is reset */

/* ---- Figures for the operator (not per caller) ---- */

enum { BW_ENGINE_FIGURES_MAX = 96 };
typedef struct bw_engine_figure {
    char name[48];
    uint64_t value;
} bw_engine_figure;
typedef struct bw_engine_figures {
    uint64_t collections;
    size_t n;
    bw_engine_figure each[BW_ENGINE_FIGURES_MAX];
} bw_engine_figures;
/* The whole cell's, as many however many collections there are. */
void bw_engine_figures_get(bw_engine *engine, bw_engine_figures *out);
/* The same as a JSON object in ctx's arena, and under "ledger" the memory of each
 * collection: a text that grows with their number. */
BW_MUST_USE bw_status bw_engine_stats(bw_ctx *ctx, bw_engine *engine, bw_str *json);

#ifdef __cplusplus
}
#endif
#endif
