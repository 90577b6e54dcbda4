/* The table of functions between the cell and its GPU module: plain C, versioned.
 *
 * The cell opens `bailiwick_cuda.so` at run time (gpu_load.h) and asks it for this table;
 * the module (cuda.cu and cuda_*.cuh beside this) needs nothing of the cell. A double on
 * the CPU fills the same table for the tests of the host's logic. Nothing here knows of
 * labels, filters or ids: only of segments of rows, ranges in them, bitsets and queries.
 *
 * What a batch answers: for each query every row, of those it may read, whose canonical
 * key is at least the k-th best canonical key. So ties at the k-th place come back whole
 * and the host breaks them by point id, which the device never sees. The canonical key is
 * the CPU's (kernels.h: 16 partial sums, fused steps, one tree) over the row decoded from
 * its stored precision, to the bit. That list is complete exactly when the answer carries
 * BW_GPU_COVERED; else `flags` say what to widen. An answer without it is a hint, never a
 * result.
 *
 * Threads: `probe` from any thread. A device context belongs to one worker thread: every
 * other call with it comes from that thread, one at a time. Contexts of different devices
 * are independent. No call but `wait` blocks on the device (open, close and free may).
 *
 * Errors: BW_GPU_LOST is for good: only `close` may follow (it then frees host memory
 * alone), and the process should not open that device again. After BW_GPU_NOMEM all is as
 * it was before the call. Never reported to clients: the host falls back to the CPU. */
#ifndef BW_GPU_MODULE_H
#define BW_GPU_MODULE_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    BW_GPU_ABI = 1, /* raised whenever a struct or a meaning below changes */
    BW_GPU_DEVICES_MAX = 16,
    BW_GPU_BATCH_MAX = 4096,      /* queries of one batch */
    BW_GPU_K_MAX = 1024,          /* more is the CPU's */
    BW_GPU_DIM_MAX = 65536,
    BW_GPU_ITEMS_MAX = 65536,     /* items of one batch */
    BW_GPU_READS_MAX = 1 << 20,   /* (item, query) pairs of one batch */
    BW_GPU_GROUP = 32,            /* rows that are kept or dropped together; item alignment */
    BW_GPU_INFLIGHT_MAX = 2,      /* batches launched and not yet released, a context */
    BW_GPU_UPLOAD_MAX = 8 << 20,  /* bytes of one segment_write or bits_new */
    BW_GPU_UPLOAD_ROWS_MAX = 1 << 18, /* rows of one segment_write */
    BW_GPU_TEXT_MAX = 160
};

typedef enum bw_gpu_status {
    BW_GPU_OK = 0,
    BW_GPU_AGAIN = 1,       /* not ready, or every slab is in use: later */
    BW_GPU_NOMEM = 2,       /* device or pinned memory; evict, then once more, then the CPU */
    BW_GPU_LOST = 3,        /* the context is dead (fault, reset, removed) */
    BW_GPU_TIMEOUT = 4,     /* wait only: not ready in time; treat as lost after a second one */
    BW_GPU_INVALID = 5,     /* breaks a rule of this header: our mistake */
    BW_GPU_UNSUPPORTED = 6  /* Manhattan, or a dimension that no kernel takes */
} bw_gpu_status;

/* Why there is no GPU search, in the order in which it is looked for. */
typedef enum bw_gpu_reason {
    BW_GPU_READY = 0,
    BW_GPU_NO_MODULE,   /* loader: no file */
    BW_GPU_BAD_MODULE,  /* loader: may be written by others, not loadable, another ABI */
    BW_GPU_NO_DRIVER,   /* no libcuda.so.1 */
    BW_GPU_OLD_DRIVER,  /* older than the runtime that the module was built with */
    BW_GPU_NO_DEVICE,   /* driver without a device, or none visible */
    BW_GPU_OLD_DEVICE,  /* compute capability below 8.0 */
    BW_GPU_FULL,        /* less free device memory than a context needs */
    BW_GPU_ARITHMETIC,  /* the self-test at open: tensor sums outside the bound we rely on */
    BW_GPU_FAILED,      /* anything else; the text says what */
    BW_GPU_NREASONS
} bw_gpu_reason;

/* As bw_dtype (types.h); the loader asserts that they agree. */
enum { BW_GPU_F32 = 0, BW_GPU_F16 = 1, BW_GPU_BF16 = 2, BW_GPU_I8 = 3, BW_GPU_NDTYPES = 4 };

typedef struct bw_gpu_device {
    uint32_t index;             /* what `open` takes */
    uint32_t reason;            /* bw_gpu_reason of this device; READY: may be opened */
    uint32_t cc_major, cc_minor;
    uint32_t sms;               /* multiprocessors */
    uint32_t driver, runtime;   /* 1000·major + 10·minor, as CUDA counts */
    uint32_t memory_gbps;       /* 10^9 bytes/s on paper, 0 = not told */
    uint64_t memory_total;      /* bytes */
    uint64_t memory_free;       /* 0 = not told: CUDA asks for a context first */
    uint8_t uuid[16];
    char name[96];
} bw_gpu_device;

typedef struct bw_gpu_probe {
    uint32_t reason;            /* READY when at least one device is */
    uint32_t ndevices;          /* filled below, ready or not */
    uint32_t driver, runtime;
    char text[BW_GPU_TEXT_MAX]; /* one line for the operator; no paths */
    bw_gpu_device devices[BW_GPU_DEVICES_MAX];
} bw_gpu_probe;

typedef struct bw_gpu bw_gpu;           /* one opened device */
typedef struct bw_gpu_segment bw_gpu_segment;
typedef struct bw_gpu_bits bw_gpu_bits;
typedef struct bw_gpu_ticket bw_gpu_ticket; /* one batch in flight */

typedef struct bw_gpu_options {
    uint32_t device;
    uint32_t pad;
    uint64_t workspace_bytes; /* device memory for one batch's intermediate results; 0 = 512 MiB.
                                 Two are held. A batch that does not fit is BW_GPU_NOMEM */
    uint64_t pinned_bytes;    /* host memory for one batch's queries and hits; 0 = 32 MiB. Two */
} bw_gpu_options;

/* Rows of one vector name, in stored precision. All items of a batch have one dtype, dim
 * and metric. Device bytes: `segment_bytes`. */
typedef struct bw_gpu_shape {
    uint32_t dtype;   /* BW_GPU_F32 … */
    uint32_t dim;     /* 1 … BW_GPU_DIM_MAX */
    uint32_t metric;  /* bw_metric; Manhattan is BW_GPU_UNSUPPORTED */
    uint32_t rows;    /* capacity; a multiple of BW_GPU_GROUP */
} bw_gpu_shape;

/* One query of the batch that may read an item, by what. */
typedef struct bw_gpu_read {
    uint32_t query;           /* 0 … nq-1; at most once an item */
    uint32_t pad;
    const bw_gpu_bits *bits;  /* bit i = the item's row i; NULL: all rows of the item */
} bw_gpu_read;

/* A range of rows of a segment: a partition, or one that shares its segment with others.
 * Rows outside the range are not loaded, for anybody. No two items of a batch overlap. */
typedef struct bw_gpu_item {
    const bw_gpu_segment *segment;
    uint32_t row0;            /* multiple of BW_GPU_GROUP */
    uint32_t rows;            /* > 0; all written before the launch */
    uint32_t read0, nreads;   /* into batch.reads; nreads > 0 */
} bw_gpu_item;

typedef struct bw_gpu_batch {
    const float *queries;     /* nq × dim f32, row-major; cosine: normalised. Copied */
    uint32_t nq;              /* 1 … BW_GPU_BATCH_MAX */
    uint32_t k;               /* 1 … BW_GPU_K_MAX */
    uint32_t groups_max;      /* groups rescored for a query; 0 = a good start for k */
    uint32_t hits_max;        /* hits a query (k and its ties); 0 = k + 32; ≥ k */
    uint32_t nitems, nreads;
    const bw_gpu_item *items; /* copied, as are the reads */
    const bw_gpu_read *reads;
} bw_gpu_batch;

typedef struct bw_gpu_hit {
    float key;      /* canonical; larger is better; never NaN */
    uint32_t item;  /* of the batch */
    uint32_t row;   /* of the item */
} bw_gpu_hit;

enum {
    BW_GPU_COVERED = 1,     /* the list is complete */
    BW_GPU_MORE_GROUPS = 2, /* the bound reached more groups than groups_max: see `groups` */
    BW_GPU_MORE_HITS = 4,   /* more rows tie with the k-th than hits_max: see `ties` */
    BW_GPU_BEYOND = 8       /* values beyond the bound's range (|q|·|x| near f32's limit): CPU */
};

typedef struct bw_gpu_answer {
    uint32_t n;       /* hits, in no order; < k only when fewer rows may be read */
    uint32_t flags;
    uint32_t groups;  /* groups that the bound reached (what groups_max should have been) */
    uint32_t ties;    /* rows with a key ≥ the k-th (what hits_max should have been) */
} bw_gpu_answer;

/* Borrowed from the ticket until `release`. */
typedef struct bw_gpu_result {
    uint32_t nq, hits_max;
    const bw_gpu_answer *answers; /* nq */
    const bw_gpu_hit *hits;       /* nq × hits_max; the first answers[q].n of each count */
    float device_ms;              /* between the first and the last event; 0 = not measured */
    uint32_t pad;
} bw_gpu_result;

typedef struct bw_gpu_module {
    uint32_t abi;   /* BW_GPU_ABI */
    uint32_t size;  /* sizeof(bw_gpu_module) */
    const char *name; /* "cuda", "double" */

    void (*probe)(bw_gpu_probe *out); /* never fails, never crashes, creates no context */

    bw_gpu_status (*open)(const bw_gpu_options *options, bw_gpu **out, uint32_t *reason,
                          char text[BW_GPU_TEXT_MAX]);
    void (*close)(bw_gpu *gpu); /* NULL is accepted; frees its segments, bits and tickets */
    bw_gpu_status (*memory)(bw_gpu *gpu, uint64_t *free_bytes, uint64_t *total_bytes);
    const char *(*last_error)(const bw_gpu *gpu); /* of the last call that failed; never NULL */

    /* Bytes on the device for a shape: rows, factors, for f32 also the f16 form; 0 = refused. */
    uint64_t (*segment_bytes)(const bw_gpu_shape *shape);
    bw_gpu_status (*segment_new)(bw_gpu *gpu, const bw_gpu_shape *shape, bw_gpu_segment **out);
    /* Rows row0 … row0+n-1 in stored precision, row-major without padding; `scales` for int8
     * only, n of them. At most BW_GPU_UPLOAD_MAX bytes and BW_GPU_UPLOAD_ROWS_MAX rows. AGAIN: both
     * upload slabs are busy. On OK the caller's memory is its own again, and batches launched
     * from now on see the rows; a batch in flight must not be reading them. Rows may be
     * written in any order, and again when nobody reads them. */
    bw_gpu_status (*segment_write)(bw_gpu *gpu, bw_gpu_segment *segment, uint32_t row0,
                                   const void *rows, const float *scales, uint32_t n);
    /* Free: NULL is accepted. What a batch in flight reads goes when that batch is released. */
    void (*segment_free)(bw_gpu *gpu, bw_gpu_segment *segment);

    /* nbits bits as bw_bitmap has them (bit i of word i/64); bits past nbits count as 0.
     * Immutable. AGAIN as above. nbits ≥ the rows of every item that it is used with. */
    bw_gpu_status (*bits_new)(bw_gpu *gpu, const uint64_t *words, uint32_t nbits, bw_gpu_bits **out);
    void (*bits_free)(bw_gpu *gpu, bw_gpu_bits *bits);

    /* AGAIN: BW_GPU_INFLIGHT_MAX batches are in flight. NOMEM: workspace or slab too small
     * for this batch (fewer queries fit), or out of memory. */
    bw_gpu_status (*launch)(bw_gpu *gpu, const bw_gpu_batch *batch, bw_gpu_ticket **out);
    /* OK: done, *out is filled. AGAIN: still running. LOST. */
    bw_gpu_status (*poll)(bw_gpu *gpu, bw_gpu_ticket *ticket, bw_gpu_result *out);
    /* As poll, but waits; TIMEOUT after timeout_ns (0: waits without limit). */
    bw_gpu_status (*wait)(bw_gpu *gpu, bw_gpu_ticket *ticket, uint64_t timeout_ns, bw_gpu_result *out);
    /* Ends the ticket, done or not (not done: its place is taken until it is). NULL is accepted. */
    void (*release)(bw_gpu *gpu, bw_gpu_ticket *ticket);
    /* Overwrites the slabs and workspaces of batches that are not in flight: for when a
     * tenant's key is retired. */
    bw_gpu_status (*wipe)(bw_gpu *gpu);
} bw_gpu_module;

/* The module's one symbol. NULL when it does not speak `abi`. */
typedef const bw_gpu_module *bw_gpu_module_fn(uint32_t abi);
#define BW_GPU_SYMBOL "bw_gpu_module_get"

#ifdef __cplusplus
}
#endif
#endif
