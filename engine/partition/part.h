/* Inside of partition/: the partition, its snapshots, and the life of one write.
 *
 * A write: bw_partition_prepare (rows into memory, the next snapshot drafted, nothing
 * visible) -> bw_partition_stage (only if several partitions take part) ->
 * bw_partition_apply (one SQLite transaction) -> bw_partition_publish (under the
 * collection's view lock, all partitions at once) or bw_partition_abort. Everything
 * that can fail for want of memory happens before the file is touched. */
#ifndef BW_PARTITION_PART_H
#define BW_PARTITION_PART_H
#include "../store/partfile.h"
#include "build.h"
#include "heal.h"
#include "partition.h"
#include "rows.h"

/* ---- what all partitions of a cell share ---- */

typedef struct bw_pool { /* open files, least recently used first to go */
    pthread_mutex_t lock;
    pthread_cond_t closed;
    uint32_t max, open;
    bw_partition *newest, *oldest;
} bw_pool;

typedef struct bw_part_env {
    const char *dir; /* the folder p/ */
    bool null_sync;
    bool check; /* look through each file when it is first opened */
    uint32_t seal_rows, adopt_rows, graph_rows_min;
    uint32_t gap_rows_min; /* dead ordinals that are left alone */
    uint32_t exact_rows;   /* permitted rows below which a search is exact */
    bool graphs_first;     /* where a graph may answer, it does: for tests */
    bw_health health;
    bw_pool pool;
    bw_builder *builder;
    struct bw_gpu_host *gpu; /* exact scans go there; NULL: none */
    bw_heals heals;
} bw_part_env;

/* ---- snapshot ---- */

typedef struct bw_segment {
    bw_part_segment p;
    uint32_t dead; /* of p.slots */
} bw_segment;

/* A segment in the making (merge.c): gathered from the rows of the segments in its range
 * of keys that lived then; those serve until it is adopted. */
typedef struct bw_merge {
    bw_segment s;      /* dead: of what was gathered */
    bw_block **blocks; /* nvec, owned; NULL: no row has the vector */
} bw_merge;

typedef struct bw_block_ref {
    bw_block *b;
    uint32_t n;  /* rows of it that the snapshot covers */
    int32_t seg; /* index into segs, −1 = growing */
} bw_block_ref;

typedef struct bw_block_list { /* by rising ordinal */
    bw_block_ref *items;
    uint32_t n, cap;
} bw_block_list;

typedef struct bw_id_list { /* living rows in id order */
    atomic_uint refs;
    uint32_t n, nrows; /* nrows: of the snapshot that it was made for */
    uint32_t rows[];
} bw_id_list;

enum { BW_SMALL_ROWS = 256, BW_MARK_WORDS = 8 };

struct bw_snapshot { /* begins a cache line; the first three are all that small.c reads */
    atomic_uint refs;
    uint32_t nrows, nlive;
    uint32_t small_rows; /* > 0: nrows, all in one block of vector 0, and these are set: */
    const void *small_data;
    const bw_point_id *small_ids;
    const uint64_t *small_words; /* the bits of `live`: of one word, the next … */
    uint64_t small_word;
    const float *small_scales; /* int8 */
    uint64_t unused;           /* to the end of the line */
    bw_codes small_codes;      /* a copy of the block's; .codes NULL: it has none */
    uint64_t marks[BW_MARK_WORDS]; /* of every id's hash; more than BW_SMALL_ROWS: all set */
    bw_partition *part;
    bw_gen *gen;
    bw_part_state state;
    uint32_t grow_live;
    bool can_expire;                 /* some row has an expiry */
    uint64_t text_docs, text_tokens; /* of the living rows */
    bw_bitmap live;                  /* nrows bits */
    bw_segment *segs; /* by rising key */
    uint32_t nsegs;
    bw_merge *merges; /* by rising key, disjoint; room for nsegs + 2 */
    uint32_t nmerges;
    bw_block_list *vecs; /* nvec; empty for sparse ones */
    bw_index_set *indexes;
    const bw_row_table *rows;    /* the gen's at the time: valid below nrows */
    _Atomic(bw_id_list *) by_id; /* made by the first reader that asks */
    bw_id_list *older;           /* an earlier snapshot's of this generation, or NULL */
};

void bw_snapshot_set_small(bw_snapshot *s); /* complete, before anyone else sees it */
void bw_snapshot_acquire(bw_snapshot *s);
void bw_snapshot_release(bw_snapshot *s); /* NULL is accepted */
/* Empty, with room for nsegs segments and one more. NULL: no memory. */
bw_snapshot *bw_snapshot_new(bw_partition *p, bw_gen *gen, uint32_t nrows,
                             uint32_t nsegs);
/* Indexes over the living rows; share: entries of other fields than `changed` come from
 * it. */
BW_MUST_USE bw_status bw_snapshot_indexes(bw_ctx *ctx, const bw_snapshot *s,
                                          const bw_index_spec *specs, uint32_t n,
                                          const bw_index_set *share, bw_str changed,
                                          bw_index_set **out);
int32_t bw_snapshot_segment(const bw_snapshot *s, int64_t key); /* −1: growing */
/* A row's dense vector as it is stored: borrowed from the snapshot, or read into ctx's
 * arena; out->data NULL: the row has none. */
BW_MUST_USE bw_status bw_snapshot_stored(bw_ctx *ctx, const bw_snapshot *s, uint32_t vec,
                                         uint32_t row, bw_dense *out);
/* A copy to be changed by the writer: shares everything, room for `rows` more. */
BW_MUST_USE bw_status bw_snapshot_draft(bw_ctx *ctx, const bw_snapshot *s,
                                        uint32_t nrows, bw_snapshot **out);
BW_MUST_USE bw_status bw_block_list_put(bw_ctx *ctx, bw_block_list *l,
                                        bw_block_ref ref); /* takes over ref.b */
/* The blocks of the segments first … last (−1: the growing one, which comes after all):
 * [*from, *to), and where they would be if there are none. */
void bw_block_list_range(const bw_block_list *l, int32_t first, int32_t last,
                         uint32_t *from, uint32_t *to);
/* The living rows in a numbering without gaps. */
BW_MUST_USE bw_status bw_snapshot_renumber(bw_ctx *ctx, const bw_snapshot *s,
                                           bw_snapshot **out);
const bw_payload_index *bw_index_set_find(const bw_index_set *set, bw_str field);

/* ---- partition ---- */

struct bw_partition {
    atomic_uint refs;
    /* immutable */
    bw_part_env *env;
    bw_partfile_id id;
    bw_vector_spec *specs;
    uint32_t nvec;
    char *path;
    /* the pool's lock */
    bw_db *db;
    bool pinned, closing;
    bw_partition *newer, *older;
    /* db_lock: the file, and what it holds */
    pthread_mutex_t db_lock;
    bool checked;
    /* A committed transaction could not be written into the file: memory is ahead of
     * it. The next writer loads the file again first. */
    atomic_bool stale;
    bool dropped; /* its collection is gone, and so may be the file */
    /* db_lock and the collection's view lock to write, either to read */
    bw_snapshot *current;
    atomic_bool loaded; /* current is set */
};

BW_MUST_USE bw_status bw_partition_new(bw_ctx *ctx, bw_part_env *env,
                                       const bw_partfile_id *id,
                                       const bw_vector_spec *specs, uint32_t nvec,
                                       bw_partition **out);
void bw_partition_acquire(bw_partition *p);
void bw_partition_release(bw_partition *p);

/* The open file; the caller holds db_lock and gives it back before it opens another. */
BW_MUST_USE bw_status bw_pool_get(bw_ctx *ctx, bw_partition *p, bw_db **out);
void bw_pool_put(bw_partition *p);
void bw_pool_forget(bw_partition *p); /* closes it */
void bw_pool_init(bw_pool *pool, uint32_t max);
void bw_pool_clear(bw_pool *pool);

/* Makes the file of a new partition, complete and synced but for its folder. */
BW_MUST_USE bw_status bw_partition_create(bw_ctx *ctx, bw_partition *p);
/* Reads the file into a new snapshot; db_lock held. committed: transactions that have a
 * record (the others' staged rows are dropped). The caller makes it current. */
BW_MUST_USE bw_status bw_partition_load(bw_ctx *ctx, bw_partition *p,
                                        const bw_index_spec *indexes, uint32_t nindexes,
                                        const uint64_t *committed, size_t ncommitted,
                                        bw_snapshot **out);
/* The current rows with another set of payload indexes; those of other fields than
 * `changed` are kept. The caller publishes *next. */
BW_MUST_USE bw_status bw_partition_reindex(bw_ctx *ctx, bw_partition *p,
                                           const bw_index_spec *indexes,
                                           uint32_t nindexes, bw_str changed,
                                           bw_snapshot **next);
/* Makes s the current one; returns the old one (or NULL). Under the view lock, or
 * before `loaded` is set. */
bw_snapshot *bw_partition_set(bw_partition *p, bw_snapshot *s);
/* Removes the files; no reader or writer may come any more. */
BW_MUST_USE bw_status bw_partition_remove_files(bw_ctx *ctx, const char *dir,
                                                uint64_t number);

/* ---- one write ---- */

typedef struct bw_add {
    bw_rec *rec; /* taken over by prepare; key and version are set there */
    const bw_dense *dense; /* nvec */
} bw_add;

typedef struct bw_changes {
    const uint32_t *kills; /* living rows of the current snapshot, each once */
    uint32_t nkills;
    bw_add *adds;
    uint32_t nadds;
} bw_changes;

typedef struct bw_prepared { /* zero it first */
    bw_partition *part;
    const bw_snapshot *cur; /* borrowed: what the write stands on */
    bw_snapshot *next;
    const uint32_t *kills;
    uint32_t nkills, ord0, nadds;
    bw_scrub_range *scrubs; /* arena */
    uint32_t nscrubs;
    bool segments_changed;
} bw_prepared;

/* On failure everything is undone, the records are released. */
BW_MUST_USE bw_status bw_partition_prepare(bw_ctx *ctx, const bw_snapshot *cur,
                                           const bw_changes *c, bw_prepared *out);
BW_MUST_USE bw_status bw_partition_stage(bw_ctx *ctx, const bw_prepared *w,
                                         uint64_t tx);
BW_MUST_USE bw_status bw_partition_unstage(bw_ctx *ctx, bw_partition *p, uint64_t tx);
/* tx 0: nothing was staged. */
BW_MUST_USE bw_status bw_partition_apply(bw_ctx *ctx, const bw_prepared *w,
                                         uint64_t tx);
/* Makes next current (bw_partition_set) and returns what is to be released after the
 * view lock. */
bw_snapshot *bw_partition_publish(bw_prepared *w);
void bw_partition_abort(bw_prepared *w); /* zeroed is accepted */
/* When gaps are most of the numbering: the same rows without them, else NULL. */
BW_MUST_USE bw_status bw_partition_tidy(bw_ctx *ctx, bw_partition *p,
                                        const bw_index_spec *indexes, uint32_t nindexes,
                                        bw_snapshot **next);

/* seal.c: what the counts of writes ask for, on a drafted snapshot. */
BW_MUST_USE bw_status bw_snapshot_seal(bw_ctx *ctx, bw_prepared *w);
/* Waits, without any lock, for the graphs that a write of `more` rows will adopt. */
BW_MUST_USE bw_status bw_snapshot_await(bw_ctx *ctx, const bw_snapshot *s,
                                        uint64_t more);
/* A complete matrix and block of the rows in `keep` among refs (rising); *out NULL: there
 * are none. */
BW_MUST_USE bw_status bw_snapshot_gather(bw_ctx *ctx, const bw_snapshot *s,
                                         uint32_t vec, const bw_block_ref *refs,
                                         uint32_t nrefs, const bw_bitmap *keep,
                                         bw_block **out);
/* What a gathered or loaded block of a sealed segment gets: its graph is asked for. */
BW_MUST_USE bw_status bw_segment_complete(bw_ctx *ctx, const bw_snapshot *s,
                                          const bw_part_segment *p, uint32_t vec,
                                          bw_block *b);

/* Makes everything one sealed segment, with its graph to come. *no: the segment (or the
 * merge) that bw_partition_adopt_now is to be told; 0: nothing is to be done. *changed: w
 * is to be committed. w->next is set on success. */
BW_MUST_USE bw_status bw_partition_seal_all(bw_ctx *ctx, const bw_snapshot *cur,
                                            bw_prepared *w, uint32_t *no, bool *changed);
/* Waits for its graph, without any lock. */
BW_MUST_USE bw_status bw_snapshot_wait(bw_ctx *ctx, const bw_snapshot *s, uint32_t no);
/* Drafts its adoption. BW_ECONFLICT: it was given up for another. *changed as above. */
BW_MUST_USE bw_status bw_partition_adopt_now(bw_ctx *ctx, const bw_snapshot *cur,
                                             bw_prepared *w, uint32_t no, bool *changed);

/* ---- text.c, for words.c ---- */
enum { BW_TEXT_TERMS_MAX = 256 };
typedef struct bw_text__splitter { /* FTS5's tokenizer */
    fts5_tokenizer ops;
    Fts5Tokenizer *inst;
} bw_text__splitter;
typedef int (*bw_text__token_fn)(void *arg, int flags, const char *token, int n, int start,
                                 int end);
/* Words as the table has them: stemmed. */
BW_MUST_USE bw_status bw_text__porter(bw_ctx *ctx, bw_text__splitter *out);
void bw_text__splitter_close(bw_text__splitter *s);
/* why: FTS5_TOKENIZE_…; fn returns SQLITE_OK to go on. */
BW_MUST_USE bw_status bw_text__split(bw_ctx *ctx, const bw_text__splitter *s, int why,
                                     bw_str text, bw_text__token_fn fn, void *arg);
void bw_text__sum(const bw_snapshot *s, const bw_bitmap *visible, bw_text_stats *stats);
/* bw_snapshot_text without the statistics, for rows from `from` on. */
BW_MUST_USE bw_status bw_text__matches(bw_ctx *ctx, const bw_snapshot *s,
                                       const bw_text_query *q, uint32_t from,
                                       const bw_bitmap *visible,
                                       const bw_text_match **out, size_t *n);

/* ---- merge.c ---- */
void bw_merge_clear(bw_merge *m, uint32_t nvec);
BW_MUST_USE bw_status bw_merge_copy(bw_ctx *ctx, const bw_merge *m, uint32_t nvec,
                                    bw_merge *out);
void bw_merge_kill(bw_snapshot *d, int64_t key); /* a row of a sealed segment has died */
/* Gives up the merges that touch the range. */
void bw_merge_cancel(bw_snapshot *d, int64_t key_first, int64_t key_last);
/* Of the segments [from, to), at this write. */
BW_MUST_USE bw_status bw_merge_begin(bw_ctx *ctx, bw_prepared *w, uint32_t from,
                                     uint32_t to);
BW_MUST_USE bw_status bw_merge_plan(bw_ctx *ctx, bw_prepared *w); /* after a seal */
bool bw_merge_is_due(const bw_snapshot *s, uint32_t i, uint64_t writes);
BW_MUST_USE bw_status bw_merge_wait(bw_ctx *ctx, const bw_snapshot *s, uint32_t i);
BW_MUST_USE bw_status bw_merge_adopt(bw_ctx *ctx, bw_prepared *w, uint32_t i);
/* Gathers the merges of a snapshot whose rows were loaded. left_out: rows that were dead
 * when their merge began. */
BW_MUST_USE bw_status bw_merge_load(bw_ctx *ctx, bw_snapshot *s,
                                    const bw_bitmap *left_out);

/* ---- text.c ---- */
BW_MUST_USE bw_status bw_text_count(bw_ctx *ctx, bw_str text, uint32_t *ntokens);
BW_MUST_USE bw_status bw_text_register(bw_ctx *ctx,
                                       bw_db *db); /* the function that reads tf */
#endif
