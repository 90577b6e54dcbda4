/* The inside of the GPU's host side, shared by gpu_host.c (callers), gpu_worker.c (one
 * thread a device), gpu_batch.c (one batch), gpu_segments.c and gpu_bits.c (what lies on
 * the device).
 *
 * One lock a device. Only its worker calls the module with the device's context, never
 * with the lock held. Fields marked (w) are written by the worker alone, under the lock
 * when callers look at them; the rest belongs to the lock. */
#ifndef BW_GPU_PRIVATE_H
#define BW_GPU_PRIVATE_H
#include "gpu_host.h"
#include <pthread.h>

enum { BUCKETS = 4096, ATTEMPTS_MAX = 3, GROUPS_MOST = 1 << 16, HITS_MOST = 1 << 14 };

typedef struct gpu_device gpu_device;
typedef struct gpu_segment gpu_segment;
typedef struct gpu_request gpu_request;

/* Which rows of a segment may be read: a set of rows, not a filter's name, so that no
 * clash of names can ever lend one caller's rows to another. Compared word for word. */
typedef struct gpu_bits {
    gpu_segment *segment;
    struct gpu_bits *next;            /* of the segment */
    struct gpu_bits *newer, *older;   /* of the device, by last use */
    uint64_t hash;
    uint64_t *words;                  /* of the segment's whole capacity */
    uint32_t refs;                    /* needs that hold it */
    bw_gpu_bits *there;               /* (w) NULL: not sent yet */
} gpu_bits;

/* What a caller lends for an upload. */
typedef struct gpu_source {
    const void *data;
    const float *scales;
    uint32_t rows; /* up to which it shall be sent */
    void *owner;
    void (*release)(void *owner);
} gpu_source;

struct gpu_segment {
    gpu_segment *chain;           /* of the bucket */
    gpu_segment *newer, *older;   /* by last use; of those with device memory or none alike */
    uint64_t identity;
    bw_gpu_shape shape;           /* rows: capacity, whole groups */
    uint64_t bytes;               /* on the device, when there */
    uint64_t number;              /* by registration */
    uint64_t used, used_before;   /* ticks of the last two questions */
    uint64_t refused_at;          /* device's `freed` + 1 when no room was found; 0: not */
    uint32_t pins;                /* needs */
    bool forgotten;               /* goes with the last pin */
    bool waiting;                 /* in the upload queue, or being sent */
    gpu_segment *upload_next;
    gpu_source source;            /* while waiting */
    bw_gpu_segment *there;        /* (w) */
    uint32_t sent;                /* (w) rows that are there */
    gpu_bits *bits;
    uint64_t stamp;               /* of the batch that counted it last (w) */
    uint32_t item;                /* its number in that batch (w) */
};

typedef struct gpu_need { /* one block of one request */
    gpu_segment *segment;
    gpu_bits *bits; /* NULL: every row below `rows` */
    uint32_t rows, count; /* read below; how many of them are permitted */
    uint32_t block;       /* of the ask */
} gpu_need;

typedef enum gpu_state { GPU_QUEUED, GPU_TAKEN, GPU_DONE } gpu_state;

struct gpu_request { /* heap; the caller's until done, the worker's once it is left behind */
    gpu_request *next, *prev;
    gpu_request *sibling; /* the caller's list */
    gpu_device *device;
    pthread_cond_t done;
    gpu_state state;
    bool left; /* the caller is gone: whoever ends it frees it */
    bw_gpu_why why;
    bw_gpu_shape shape; /* rows 0 */
    uint32_t k, groups_max, hits_max, attempt;
    uint64_t since;
    float *query;
    gpu_need *needs;
    uint32_t nneeds;
    bw_gpu_hit *hits; /* item: number of the need */
    uint32_t nhits;
    size_t ask; /* the caller's */
};

typedef struct gpu_batch { /* in flight (w) */
    gpu_request **requests;
    gpu_segment **segments; /* by item */
    uint32_t n, nitems;
    bw_gpu_ticket *ticket;
    uint64_t launched;
    bool late; /* given up once */
} gpu_batch;

typedef enum gpu_life { GPU_OPENING, GPU_OPEN, GPU_GONE } gpu_life;

struct gpu_device {
    bw_gpu_host *host;
    const bw_gpu_module *module;
    uint32_t index; /* the module's */
    char name[96];
    pthread_t worker;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    gpu_life life;
    bool stop, resting; /* resting: the worker has nothing to do */
    char text[BW_GPU_TEXT_MAX];
    bw_gpu *context; /* (w) */
    /* queries */
    gpu_request *first, *last;
    uint32_t nqueued, cap; /* cap: queries of the next batch, lower after NOMEM */
    gpu_batch flying[BW_GPU_INFLIGHT_MAX]; /* oldest first (w) */
    uint32_t nflying;
    uint64_t stamp;
    /* segments and bitsets */
    gpu_segment *buckets[BUCKETS];
    gpu_segment *newest, *oldest;
    gpu_segment *upload_first, *upload_last;
    gpu_bits *bits_newest, *bits_oldest;
    uint64_t tick, freed, next_number;
    uint64_t segment_max, bits_max; /* bytes */
    gpu_segment *trash_segments; /* by chain: unknown already, for the worker to free */
    gpu_bits *trash_bits;        /* by next */
    bw_gpu_counters c; /* of this device */
};

struct bw_gpu_host {
    bw_gpu_host_options o; /* filled in */
    const bw_gpu_module *module;
    char text[BW_GPU_TEXT_MAX];
    bw_gpu_host *next; /* of all hosts of the process */
    uint32_t ndevices;
    _Atomic uint64_t cpu[BW_GPU_NWHY];
    gpu_device devices[BW_GPU_DEVICES_MAX];
};

static inline uint64_t gpu_now(const gpu_device *d)
{
    const bw_gpu_host_options *o = &d->host->o;
    return o->clock ? o->clock(o->clock_arg) : bw_clock_mono_ns();
}

/* ---- gpu_segments.c; the lock is held ---- */
/* The block's segment on this device, known from now on; NULL: no memory. */
gpu_segment *gpu_segment_of(gpu_device *d, const bw_gpu_block *b);
/* Puts the segment in line for an upload when the block has more rows than are there. */
void gpu_segment_want(gpu_device *d, gpu_segment *s, const bw_gpu_block *b);
void gpu_segment_unpin(gpu_device *d, gpu_segment *s);
void gpu_segment_forget(gpu_device *d, uint64_t identity);
/* Worker: gives the device memory of the longest unused segment back. False: none may go.
 * for_it: NULL, or the one that wants the room: only what it was asked for more often
 * than lately goes. */
bool gpu_segment_evict(gpu_device *d, const gpu_segment *for_it);
/* Worker: sends one piece of the first segment in line; the lock is dropped meanwhile. */
bw_gpu_status gpu_segment_upload(gpu_device *d);
/* Worker: frees what was thrown away. The lock is dropped meanwhile. */
void gpu_trash_empty(gpu_device *d);
/* The end: after `close`, when no request is left. */
void gpu_segments_clear(gpu_device *d);

/* ---- gpu_bits.c; the lock is held ---- */
/* The counted bitset of these words (gpu_bits_words's, taken over; NULL is accepted), one
 * that is there already if it can be. NULL: no room. */
gpu_bits *gpu_bits_get(gpu_device *d, gpu_segment *s, uint64_t *words);
void gpu_bits_put(gpu_device *d, gpu_bits *b); /* NULL is accepted */
void gpu_bits_drop(gpu_device *d, gpu_segment *s); /* of a segment that nobody holds */
bool gpu_bits_evict(gpu_device *d);
/* A heap block of the segment's words with the first `rows` bits of `from` (NULL: ones). */
uint64_t *gpu_bits_words(const bw_gpu_shape *shape, const uint64_t *from, uint32_t rows);

/* ---- gpu_batch.c ---- */
/* Worker, lock held (dropped for module calls): takes queries from the queue and launches
 * them. LOST alone is told. */
bw_gpu_status gpu_batch_launch(gpu_device *d);
/* Worker, lock held: what the oldest batch in flight has brought. */
bw_gpu_status gpu_batch_wait(gpu_device *d);
void gpu_batches_fail(gpu_device *d, bw_gpu_why why); /* all in flight and all queued */

/* ---- gpu_worker.c ---- */
void *gpu_worker(void *device);
bool gpu_has_work(const gpu_device *d); /* lock held */
void gpu_pause(gpu_device *d); /* a moment without the lock */

/* ---- gpu_host.c; the lock is held ---- */
void gpu_request_end(gpu_device *d, gpu_request *r, bw_gpu_why why);
#endif
