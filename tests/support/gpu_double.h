/* A GPU module on the CPU: the whole table of engine/index/gpu_module.h with the module's
 * own arithmetic (cuda_arith.h: forms, bounds, groups, certificate), for tests of the
 * host's side. It is stricter than a device: a call that breaks a rule of that header is
 * counted in `wrong` and answered INVALID; results are garbage until `wait` says OK, and
 * so are places past what a query was given.
 *
 * Faults and the clock are set by the test, at any time from any thread. */
#ifndef BW_TEST_GPU_DOUBLE_H
#define BW_TEST_GPU_DOUBLE_H
#include "../../engine/index/gpu_module.h"
#include <stdbool.h>

typedef enum gpu_double_call {
    GPU_DOUBLE_OPEN,
    GPU_DOUBLE_SEGMENT_NEW,
    GPU_DOUBLE_SEGMENT_WRITE,
    GPU_DOUBLE_BITS_NEW,
    GPU_DOUBLE_LAUNCH,
    GPU_DOUBLE_WAIT,
    GPU_DOUBLE_NCALLS
} gpu_double_call;

typedef enum gpu_double_lie { /* what answers are spoilt with */
    GPU_DOUBLE_TRUTH,
    GPU_DOUBLE_FORBIDDEN_ROW, /* a row that the query's bitset leaves out */
    GPU_DOUBLE_ROW_PAST_END,
    GPU_DOUBLE_STRANGE_ITEM,
    GPU_DOUBLE_NAN,
    GPU_DOUBLE_TWIN,      /* the first row again in the second's place */
    GPU_DOUBLE_SHORT,     /* covered, but a hit is missing */
    GPU_DOUBLE_NOT_FLAGGED /* neither covered nor why not */
} gpu_double_lie;

typedef struct gpu_double_counts {
    long calls[GPU_DOUBLE_NCALLS];
    long wrong;                    /* broken rules */
    long segments, bits, tickets, contexts; /* alive */
    long inflight_most;
    long last_nq, last_nitems, last_nreads; /* of the last launch */
    long nq_most, nq_all;          /* queries of a launch; of all launches */
    long reads;                    /* (segment, query) pairs computed */
    uint64_t bytes, bytes_most;    /* of segments and bits */
} gpu_double_counts;

/* Everything as new: `devices` cards of `memory` bytes, no faults, counts and clock at 0.
 * No context may be open. */
void gpu_double_reset(uint32_t devices, uint64_t memory);
const bw_gpu_module *gpu_double_module(void);
gpu_double_counts gpu_double_get(void);
/* The nth call of the kind from now on (0: the next) gives the status, instead of doing
 * anything; lasts: and all that follow. */
void gpu_double_fail(gpu_double_call call, long nth, bw_gpu_status status, bool lasts);
void gpu_double_hold(bool hold);      /* launches do not complete: wait says TIMEOUT */
void gpu_double_lie_next(gpu_double_lie lie); /* the next query's answer that can be spoilt so */
/* The next n answers have no certificate, whatever room they have; -1: all. */
void gpu_double_uncover(long n);
/* Called for each (segment, query) of a batch, from the worker: the segment's first stored
 * row and the query's vector. NULL: nobody. */
void gpu_double_on_read(void (*on_read)(void *arg, const void *row, const float *query), void *arg);
uint64_t gpu_double_clock(void *unused); /* stands still but for: */
void gpu_double_clock_add(uint64_t ns);
#endif
