/* The workers that run requests, and the two queues before them. Private to httpd*.c.
 *
 * Heavy requests (what may write, what has a large body) never hold more than half of the
 * workers: writers of one collection wait for each other, and queries must not wait for
 * them. Of both queues the older request is taken first.
 *
 * Thread class: locked inside; lock: `lock`, taken alone but for bw_pool_push's hook. */
#ifndef BW_HTTPD_POOL_H
#define BW_HTTPD_POOL_H
#include "http.h"

typedef struct bw_job { /* first member of what is queued */
    struct bw_job *next;
    uint64_t turn; /* counts up over both queues */
    bool heavy;    /* set before it is pushed */
} bw_job;

typedef struct bw_pool bw_pool;

/* n workers (0: two a core, at least 4) that call run for each job; what run leaves is the
 * caller's. */
BW_MUST_USE bw_status bw_pool_new(bw_ctx *ctx, size_t n, void (*run)(bw_job *job),
                                  bw_pool **out);
/* False when the queues are full or the pool is closing: the job was not taken. Else
 * `before` was called for it first, before a worker could see it. */
BW_MUST_USE bool bw_pool_push(bw_pool *p, bw_job *job, void (*before)(bw_job *job));
bool bw_pool_idle(bw_pool *p); /* nothing queued, nothing running */
/* Runs what is queued, then ends the workers. Pushes are refused from now on. */
void bw_pool_close(bw_pool *p);
void bw_pool_free(bw_pool *p); /* after bw_pool_close; accepts NULL */
#endif
