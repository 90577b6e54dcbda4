/* The rows of one partition in memory: a table by ordinal, the map id -> newest row,
 * the vectors. One writer appends (under the collection's write lock); readers see
 * only what their snapshot covers and take no lock.
 *
 * A generation is one numbering of the rows. When most ordinals are dead the writer
 * makes a new generation with the living ones; records and vectors are shared, so
 * that costs no copy of data. Answers never depend on ordinals. */
#ifndef BW_PARTITION_ROWS_H
#define BW_PARTITION_ROWS_H
#include "../index/codes.h"
#include "../index/index.h"
#include "../index/rows_view.h"
#include "../index/words.h"
#include "../store/blockfile.h"
#include "../store/rec.h"
#include "payload_index.h"
#include <pthread.h>

enum { BW_ROW_NONE = UINT32_MAX };
enum { BW_ROWS_MAX = INT32_MAX }; /* of one numbering: the highest bit is search.c's */

/* glibc's default lets readers that overlap keep a writer out for ever. No thread here
 * takes one of these twice. */
static inline void bw_rwlock_init(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(lock, &attr);
    pthread_rwlockattr_destroy(&attr);
}

/* ---- vectors ---- */

struct bw_build; /* build.h */
struct bw_home;  /* heal.h */

enum { BW_CODES_ROWS_MIN = 8 }; /* a smaller block costs more to look at than to scan */

enum { BW_ROWS_DIGEST = 32 };
enum { BW_TRIM_ROWS = 4096 }; /* where so many go, memory goes back to the system */

/* A block of vectors in their stored precision. Growing: rows are appended in place up
 * to cap. Sealed: complete. */
typedef struct bw_matrix {
    atomic_uint refs;
    uint32_t dim, cap;
    bw_dtype dtype;
    bw_metric metric;
    void *data;             /* cap × dim of dtype, 64-byte aligned; NULL: in `file` */
    float *scales;          /* int8: cap, in memory always; else NULL */
    bw_codes *codes;        /* cap rows of 4-bit codes; NULL: few rows, or no such metric */
    bw_blockfile *file;     /* owned: cap × dim of dtype, when data is NULL */
    bw_point_id *ids;       /* cap */
    unsigned char digest[BW_ROWS_DIGEST]; /* of its rows and scales, when in `file` */
    atomic_ullong *held; /* what its rows are counted in (place.h); NULL: nowhere */
    struct bw_build *build; /* the graph of a sealed one, or NULL; owned */
    struct bw_home *home;   /* where rows in `file` can be read again (heal.h); owned */
    atomic_bool damaged;    /* a block of `file` could not be read, and is still to be made */
    uint64_t gpu_identity;  /* index/gpu_host.h */
} bw_matrix;

/* A matrix as one generation numbers it: slot i is ordinal ord[i], rising. */
typedef struct bw_block {
    atomic_uint refs;
    bw_matrix *m;
    uint32_t *ord; /* m->cap */
    uint32_t used; /* the writer's own mark; readers take n from their snapshot */
} bw_block;

bw_matrix *bw_matrix_new(const bw_vector_spec *spec, uint32_t cap); /* NULL: no memory */
/* Row `row` of a matrix with its data in memory: raw rows are normalised (cosine) and
 * encoded. BW_EINVALID: a value that the stored precision cannot hold. */
BW_MUST_USE bw_status bw_matrix_put(bw_ctx *ctx, bw_matrix *m, uint32_t row,
                                    const bw_dense *v, const bw_point_id *id);
/* The same row of another matrix of the spec, bit for bit. */
BW_MUST_USE bw_status bw_matrix_copy(bw_ctx *ctx, bw_matrix *to, uint32_t row,
                                     const bw_matrix *from, uint32_t from_row);
/* A row in its stored form: borrowed from the matrix, or read into ctx's arena. */
BW_MUST_USE bw_status bw_matrix_get(bw_ctx *ctx, const bw_matrix *m, uint32_t row,
                                    bw_dense *out);
bw_rows bw_matrix_view(const bw_matrix *m, size_t n); /* of the first n rows */
uint64_t bw_matrix_row_bytes(const bw_matrix *m);     /* of its rows, wherever they are */
size_t bw_matrix_bytes(const bw_matrix *m);           /* anonymous memory, graph apart */
void bw_matrix_acquire(bw_matrix *m);
void bw_matrix_release(bw_matrix *m);
bw_block *
bw_block_new(bw_matrix *m); /* takes over the reference; NULL (m released): no memory */
void bw_block_acquire(bw_block *b);
void bw_block_release(bw_block *b);

/* ---- payload indexes: a counted set, since a snapshot must keep the one it began with
 * ---- */

typedef struct bw_index_entry {
    atomic_uint refs;
    bw_payload_index *ix;
} bw_index_entry;
typedef struct bw_index_set {
    atomic_uint refs;
    uint32_t n;
    bw_index_entry *entries[];
} bw_index_set;
bw_index_set *bw_index_set_new(uint32_t n); /* entries NULL; NULL: no memory */
void bw_index_set_acquire(bw_index_set *s);
void bw_index_set_release(bw_index_set *s);

/* ---- generation ---- */

typedef struct bw_row_table { /* arrays of one capacity; smaller ones stay until the end
                               */
    uint32_t cap;
    bw_point_id *ids;
    int64_t *keys;  /* rising; of a refused write's rows: the key before */
    bw_rec **recs;  /* NULL: a row that is dead and whose data is gone */
    uint32_t *prev; /* the older row of the same id */
    struct bw_row_table *older;
} bw_row_table;

typedef struct bw_id_table { /* open addressing; slot = ordinal + 1, 0 = free */
    uint32_t mask, used;
    struct bw_id_table *older;
    _Atomic uint32_t slots[];
} bw_id_table;

typedef struct bw_gen {
    atomic_uint refs;
    uint32_t n, nvec; /* n: ordinals given out; the writer's */
    _Atomic(bw_row_table *) rows;
    _Atomic(bw_id_table *) ids;
    bw_sparse_index **sparse;    /* nvec; NULL for dense ones */
    pthread_rwlock_t index_lock; /* sparse and payload indexes */
    pthread_mutex_t words_busy;  /* whoever adds to `words` (text.c) */
    pthread_rwlock_t words_lock;
    bw_words *words; /* words_lock; NULL: nobody has asked yet */
} bw_gen;

bw_gen *bw_gen_new(const bw_vector_spec *specs, uint32_t nvec); /* NULL: no memory */
void bw_gen_acquire(bw_gen *g);
void bw_gen_release(bw_gen *g);
/* Room for n more rows, so that adds cannot fail for want of it. */
BW_MUST_USE bw_status bw_gen_reserve(bw_ctx *ctx, bw_gen *g, uint32_t n);
/* Takes over rec. Ordinals are never used twice, not even after bw_gen_undo. */
uint32_t bw_gen_add(bw_gen *g, bw_rec *rec);
uint32_t bw_gen_add_dead(bw_gen *g, bw_point_id id,
                         int64_t key); /* a graph's slot without a row */
/* Makes rows from ord0 on unreachable by id and by key, and drops their data: their
 * write failed. */
void bw_gen_undo(bw_gen *g, uint32_t ord0);
/* The newest row of the id below nrows, dead or alive; BW_ROW_NONE. */
uint32_t bw_gen_find(const bw_gen *g, const bw_point_id *id, uint32_t nrows);
/* The same with the id's hash at hand: one id is often looked up in many partitions. */
uint32_t bw_id_hash(const bw_point_id *id); /* after the first bw_gen_new */
uint32_t bw_gen_find_hashed(const bw_gen *g, const bw_point_id *id, uint32_t hash,
                            uint32_t nrows);
uint32_t bw_gen_find_key(const bw_gen *g, int64_t key, uint32_t nrows);
static inline bw_row_table *bw_gen_rows(const bw_gen *g)
{
    return atomic_load_explicit(&g->rows, memory_order_acquire);
}
#endif
