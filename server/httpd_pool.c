/* Workers and their queues. See httpd_pool.h. */
#include "httpd_pool.h"
#include <pthread.h>
#include <unistd.h>

enum { QUEUE_PER_WORKER = 64 };

typedef struct queue {
    bw_job *first, *last;
    size_t running, running_max;
} queue;

struct bw_pool {
    void (*run)(bw_job *job);
    pthread_t *workers;
    size_t nworkers, queue_max;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t more;
    queue queues[2]; /* light, heavy */
    uint64_t turns;
    size_t queued, running, waiting; /* waiting: workers without a job */
    bool closing;
};

/* The oldest job that a worker may take; NULL: none. Holds lock. */
static bw_job *take(bw_pool *p)
{
    queue *best = NULL;
    for (size_t i = 0; i < 2; i++) {
        queue *q = &p->queues[i];
        if (q->first && q->running < q->running_max &&
            (!best || q->first->turn < best->first->turn))
            best = q;
    }
    bw_job *job = best ? best->first : NULL;
    if (job) {
        best->first = job->next;
        best->running++;
        p->queued--;
        p->running++;
    }
    return job;
}

static void *work(void *arg)
{
    bw_pool *p = arg;
    bw_require(pthread_mutex_lock(&p->lock) == 0);
    for (;;) {
        bw_job *job;
        while (!(job = take(p)) && !(p->closing && p->queued == 0)) {
            p->waiting++;
            bw_require(pthread_cond_wait(&p->more, &p->lock) == 0);
            p->waiting--;
        }
        if (!job)
            break;
        bw_require(pthread_mutex_unlock(&p->lock) == 0);
        queue *q = &p->queues[job->heavy];
        p->run(job); /* the job is gone afterwards */
        bw_require(pthread_mutex_lock(&p->lock) == 0);
        q->running--;
        p->running--;
        if (p->closing) /* the last one lets the others go */
            bw_require(pthread_cond_broadcast(&p->more) == 0);
    }
    bw_require(pthread_mutex_unlock(&p->lock) == 0);
    return NULL;
}

bool bw_pool_push(bw_pool *p, bw_job *job, void (*before)(bw_job *job))
{
    job->next = NULL;
    bw_require(pthread_mutex_lock(&p->lock) == 0);
    bool taken = p->queued < p->queue_max && !p->closing;
    if (taken) {
        queue *q = &p->queues[job->heavy];
        before(job);
        if (q->first)
            q->last->next = job;
        else
            q->first = job;
        q->last = job;
        job->turn = p->turns++;
        p->queued++;
    }
    bool wake = taken && p->waiting > 0;
    bw_require(pthread_mutex_unlock(&p->lock) == 0);
    if (wake) /* behind the lock, which the worker wants first */
        bw_require(pthread_cond_signal(&p->more) == 0);
    return taken;
}

bool bw_pool_idle(bw_pool *p)
{
    bw_require(pthread_mutex_lock(&p->lock) == 0);
    bool idle = p->queued + p->running == 0;
    bw_require(pthread_mutex_unlock(&p->lock) == 0);
    return idle;
}

void bw_pool_close(bw_pool *p)
{
    bw_require(pthread_mutex_lock(&p->lock) == 0);
    p->closing = true;
    bw_require(pthread_cond_broadcast(&p->more) == 0);
    bw_require(pthread_mutex_unlock(&p->lock) == 0);
    for (size_t i = 0; i < p->nworkers; i++)
        (void)pthread_join(p->workers[i], NULL);
    p->nworkers = 0;
}

void bw_pool_free(bw_pool *p)
{
    if (!p)
        return;
    bw_require(p->nworkers == 0);
    (void)pthread_mutex_destroy(&p->lock);
    (void)pthread_cond_destroy(&p->more);
    bw_free(p->workers);
    bw_free(p);
}

bw_status bw_pool_new(bw_ctx *ctx, size_t n, void (*run)(bw_job *job), bw_pool **out)
{
    if (n == 0) {
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        n = cpus > 2 ? (size_t)cpus * 2 : 4;
    }
    bw_pool *p = bw_calloc(1, sizeof *p);
    pthread_t *workers = bw_calloc(n, sizeof *workers);
    if (!p || !workers) {
        bw_free(p);
        bw_free(workers);
        return bw_fail_nomem(ctx);
    }
    p->run = run;
    p->workers = workers;
    p->queue_max = n * QUEUE_PER_WORKER;
    p->queues[0].running_max = n;
    p->queues[1].running_max = n > 1 ? n / 2 : 1;
    bw_require(pthread_mutex_init(&p->lock, NULL) == 0 &&
               pthread_cond_init(&p->more, NULL) == 0);
    for (; p->nworkers < n; p->nworkers++)
        if (pthread_create(&workers[p->nworkers], NULL, work, p) != 0) {
            bw_pool_close(p);
            bw_pool_free(p);
            return bw_fail(ctx, BW_EUNAVAILABLE, "cannot start a worker thread");
        }
    *out = p;
    return BW_OK;
}
