/* The host's side of GPU search: blocks of rows kept on devices, concurrent queries
 * gathered into batches, answers that are the CPU's to the bit.
 *
 * A block is known by an identity that no other block of the process ever has; its rows
 * are immutable once they are counted. Asking for a block makes it travel to a device in
 * the background; what is not there yet is scanned on the CPU by the same search, so the
 * first question is as right as the thousandth. A permitted set is the list of blocks, a
 * filter is a block's bitmap: a block is read on the device only for queries whose list
 * holds it, and queries of callers with different rights share a batch.
 *
 * Whatever the device cannot give (memory, time, a certificate, itself) the CPU gives,
 * and it is counted by reason. Nothing here fails a search but the caller's own deadline
 * and what the CPU's scan itself returns.
 *
 * Threads: locked inside. One worker a device owns its context; callers wait. */
#ifndef BW_GPU_HOST_H
#define BW_GPU_HOST_H
#include "../base/bitmap.h"
#include "../kernels/topk.h"
#include "gpu_module.h"
#include "rows_view.h"

typedef struct bw_gpu_host bw_gpu_host;

typedef struct bw_gpu_host_options { /* zeroed: all as it should be */
    const bw_gpu_module *module; /* NULL: the installed one (gpu_load.h) */
    uint64_t segment_bytes; /* of a device, for rows; 0 = 7/8 of what is free once it is open */
    uint64_t bits_bytes;    /* of a device, for bitsets (as much again on the host); 0 = 1/32 */
    uint64_t window_ns;     /* longest wait for company while a batch runs; 0 = 200 µs */
    uint64_t launch_ns;     /* a batch older than that is given up, twice: the device; 0 = 2 s */
    uint32_t batch_max;     /* queries of a batch; 0 = BW_GPU_BATCH_MAX */
    uint32_t rows_min;      /* smaller blocks stay on the CPU; 0 = 1,024 */
    uint64_t (*clock)(void *arg); /* of window and launch; NULL: monotonic */
    void *clock_arg;
} bw_gpu_host_options;

/* Why the CPU answered instead, a block at a time. */
typedef enum bw_gpu_why {
    BW_GPU_WHY_NONE = 0,
    BW_GPU_WHY_NO_DEVICE, /* none, none that is left, or none open yet */
    BW_GPU_WHY_KIND,      /* Manhattan, rows on file, k or dimension too large, small block */
    BW_GPU_WHY_ABSENT,    /* rows that have not travelled yet */
    BW_GPU_WHY_NOMEM,     /* device or host memory, after evicting and trying once more */
    BW_GPU_WHY_LOST,      /* the device went while it had the query */
    BW_GPU_WHY_TIMEOUT,   /* the batch took longer than launch_ns */
    BW_GPU_WHY_UNCOVERED, /* no certificate, after widening */
    BW_GPU_WHY_BEYOND,    /* values outside the bound's range */
    BW_GPU_WHY_WRONG,     /* an answer that cannot be: the device is not used any more */
    BW_GPU_NWHY
} bw_gpu_why;
const char *bw_gpu_why_text(bw_gpu_why why); /* a word for metrics */

typedef struct bw_gpu_counters { /* since opening, all devices; the last six are of now */
    uint64_t queries;      /* answered by a device (of one search: one a device) */
    uint64_t batches, batched_most;
    uint64_t items, reads; /* of all batches */
    uint64_t widened;      /* queries repeated for want of a certificate */
    uint64_t cpu[BW_GPU_NWHY]; /* blocks of queries that the CPU scanned, by reason */
    uint64_t uploads, upload_bytes; /* segment_writes */
    uint64_t evicted, refused; /* segments that went for others; that found no room */
    uint64_t bits_found, bits_made, bits_evicted;
    uint64_t lost; /* devices */
    uint32_t devices, opening, segments, queued; /* queued: queries */
    uint64_t segment_bytes, bits_bytes;
} bw_gpu_counters;

/* Opens every device that is ready, in the background; no device is no failure.
 * BW_ENOMEM alone. */
BW_MUST_USE bw_status bw_gpu_host_open(bw_ctx *ctx, const bw_gpu_host_options *options,
                                       bw_gpu_host **out);
void bw_gpu_host_close(bw_gpu_host *host); /* NULL is accepted; no search may be running */
void bw_gpu_host_counters(bw_gpu_host *host, bw_gpu_counters *out);
bool bw_gpu_host_any(bw_gpu_host *host); /* a device is open or being opened */
/* One line for the operator: what was found, or why nothing is used. */
void bw_gpu_host_text(bw_gpu_host *host, char text[BW_GPU_TEXT_MAX]);
/* Returns when devices are open (or not), and no upload or query is under way. For tests
 * and measurements. */
void bw_gpu_host_settle(bw_gpu_host *host);

uint64_t bw_gpu_identity(void); /* another one each time; never 0 */
/* The block is gone: every device drops its rows and its bitsets. Cheap without a GPU. */
void bw_gpu_forget(uint64_t identity);

/* One block of rows that a query may read. All borrowed for the call, but that `acquire`
 * keeps data and scales alive until `release` (from another thread, once an upload is
 * through). */
typedef struct bw_gpu_block {
    uint64_t identity;
    bw_metric metric;
    const bw_rows *rows;      /* rows->n may be read; rows->data NULL: the CPU's */
    uint32_t cap;             /* rows that it will ever hold; rows->n == cap: complete */
    const bw_point_id *ids;   /* n */
    const uint32_t *ord;      /* n, or NULL: row i is labelled row0 + i */
    const bw_bitmap *allowed; /* n bits, never NULL; none past n */
    uint32_t part, row0;
    void *owner;
    void (*acquire)(void *owner);
    void (*release)(void *owner);
} bw_gpu_block;

typedef struct bw_gpu_ask { /* one query */
    const float *query;         /* dim f32; cosine: normalised */
    const bw_gpu_block *blocks; /* all of one dim, dtype and metric; each once */
    size_t n;
    bw_topk *out; /* in place: chained over blocks, asks and calls */
} bw_gpu_ask;

/* The CPU's way with one block: pushes the k best of the rows in `allowed` (a part of the
 * block's own) into the ask's list. */
typedef struct bw_gpu_cpu {
    bw_status (*scan)(bw_ctx *ctx, void *arg, const bw_gpu_ask *ask, const bw_gpu_block *block,
                      const bw_bitmap *allowed);
    void *arg;
} bw_gpu_cpu;

/* The k best permitted rows of each query into its list: what `cpu` alone would give, ids,
 * order and bits of the keys. BW_ETIMEOUT at ctx's deadline (lists are undefined), or what
 * cpu->scan returned. cpu NULL: a scan in stored precision. */
BW_MUST_USE bw_status bw_gpu_search(bw_ctx *ctx, bw_gpu_host *host, const bw_gpu_ask *asks,
                                    size_t n, const bw_gpu_cpu *cpu);
#endif
