/* Threads, jobs and the calls themselves (cuvs_device.h). What a job does is in
 * cuvs_work.c; here: who does it when, and what becomes of it.
 *
 * Locks: start_lock (opening and stopping) before a lane's lock; a job's fields are its
 * lane's. A job has two references, the asker's and the lane's. */
#include "cuvs_work.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

typedef struct lane {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    bw_cuvs_job *first, **end;
    bool running, stop;
    pthread_t thread;
    bw_cuvs_worker worker; /* the thread's own */
} lane;

enum { LANE_BUILD, LANE_SEARCH, NLANES };

bw_cuvs_counts bw_cuvs__counts;

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static lane lanes[NLANES];      /* locks are made once */
static bool lanes_made, asked;  /* start_lock guards these */
static bool off;                /* start_lock */
static bw_cuvs_places places_given;
static const bw_cuvs_places *places;
static bw_cuvs_api api;         /* immutable once asked, until a test asks again */
static char asked_text[BW_CUVS_TEXT_MAX];
static atomic_uint reason;      /* bw_cuvs_reason; only ever to RUNTIME_FAILED later */

/* ---- jobs ---- */

static bw_cuvs_job *job_new(bw_cuvs_job_kind kind, bw_cuvs_graph *g, size_t bytes)
{
    bw_cuvs_job *j = bw_calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->data = bytes > 0 ? bw_alloc(bytes) : NULL;
    if (bytes > 0 && !j->data) {
        bw_free(j);
        return NULL;
    }
    j->kind = kind;
    j->graph = g;
    atomic_init(&j->refs, 1);
    if (g)
        atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return j;
}

static void job_release(bw_cuvs_job *j)
{
    if (!j || atomic_fetch_sub_explicit(&j->refs, 1, memory_order_acq_rel) != 1)
        return;
    bw_cuvs__release(j->graph);
    bw_free(j->hits);
    bw_free(j->words);
    bw_free(j->data);
    bw_free(j);
}

/* Under the lane's lock. */
static void queue_put(lane *l, bw_cuvs_job *j)
{
    j->next = NULL;
    *l->end = j;
    l->end = &j->next;
    pthread_cond_signal(&l->work);
}

/* The first job and those that may share its call, at most `most`; under the lock. */
static size_t queue_take(lane *l, bw_cuvs_job *taken[BW_CUVS_BATCH_MAX])
{
    size_t n = 0, most = 1;
    for (bw_cuvs_job **at = &l->first; *at && n < most;) {
        bw_cuvs_job *j = *at;
        if (n > 0 && !bw_cuvs__may_share(taken[0], j)) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        taken[n++] = j;
        if (n == 1)
            most = bw_cuvs__batch_max(j);
    }
    l->end = &l->first;
    while (*l->end)
        l->end = &(*l->end)->next;
    return n;
}

/* ---- lanes ---- */

static void job_finish(lane *l, bw_cuvs_job *j)
{
    if (j->kind == BW_CUVS_JOB_DROP) { /* part of its graph, and nobody waits */
        bw_cuvs_graph *g = j->graph;
        bw_free(g->filter_host);
        bw_free(g);
        return;
    }
    pthread_mutex_lock(&l->lock);
    j->over = true;
    pthread_cond_broadcast(&l->done);
    pthread_mutex_unlock(&l->lock);
    job_release(j);
}

static void *lane_run(void *arg)
{
    lane *l = arg;
    bw_cuvs_worker *w = &l->worker;
    bw_cuvs_outcome start = bw_cuvs__worker_open(w);
    bw_cuvs_job *taken[BW_CUVS_BATCH_MAX];
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->first && !l->stop)
            pthread_cond_wait(&l->work, &l->lock);
        if (!l->first)
            break;
        const size_t n = queue_take(l, taken);
        pthread_mutex_unlock(&l->lock);
        if (start != BW_CUVS_DONE) /* memory may have come back */
            start = bw_cuvs__worker_open(w);
        const bw_cuvs_outcome how =
            start == BW_CUVS_DONE ? bw_cuvs__work(w, taken, n) : start;
        if (how == BW_CUVS_LOST &&
            atomic_exchange(&reason, (unsigned)BW_CUVS_RUNTIME_FAILED) ==
                (unsigned)BW_CUVS_READY)
            bw_log(BW_LOG_ERROR, "cuvs: the GPU is lost, all is scanned from now on: %s",
                   w->what);
        for (size_t i = 0; i < n; i++) {
            taken[i]->how = how;
            memcpy(taken[i]->what, w->what, sizeof w->what);
            job_finish(l, taken[i]);
        }
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    bw_cuvs__worker_close(w);
    return NULL;
}

static void lanes_make(void)
{
    pthread_condattr_t attr; /* deadlines are on the monotonic clock */
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    for (size_t i = 0; i < NLANES; i++) {
        (void)pthread_mutex_init(&lanes[i].lock, NULL);
        (void)pthread_cond_init(&lanes[i].work, NULL);
        (void)pthread_cond_init(&lanes[i].done, &attr);
        lanes[i].end = &lanes[i].first;
    }
    (void)pthread_condattr_destroy(&attr);
    lanes_made = true;
}

/* The thread starts with the first job, so that it inherits the priority of those who
 * search, or of those who build. */
static bool lane_start(lane *l, bool builds)
{
    if (!l->running) {
        l->stop = false;
        l->worker = (bw_cuvs_worker){.api = &api, .builds = builds};
        l->running = pthread_create(&l->thread, NULL, lane_run, l) == 0;
    }
    return l->running;
}

static void lane_stop(lane *l)
{
    pthread_mutex_lock(&l->lock);
    const bool running = l->running;
    l->stop = true;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    if (running)
        (void)pthread_join(l->thread, NULL);
    pthread_mutex_lock(&l->lock);
    l->running = false;
    pthread_mutex_unlock(&l->lock);
}

bw_cuvs_reason bw_cuvs__ready(char text[BW_CUVS_TEXT_MAX])
{
    pthread_mutex_lock(&start_lock);
    if (!lanes_made)
        lanes_make();
    if (!asked && !off) {
        asked = true;
        const bw_cuvs_reason r = bw_cuvs__load(places, &api, asked_text);
        atomic_store(&reason, (unsigned)r);
        bw_log(r == BW_CUVS_READY ? BW_LOG_INFO : BW_LOG_WARN, "cuvs: %s", asked_text);
    }
    const bw_cuvs_reason r = off ? BW_CUVS_OFF : (bw_cuvs_reason)atomic_load(&reason);
    const bool lost = r == BW_CUVS_RUNTIME_FAILED;
    if (text)
        (void)snprintf(text, BW_CUVS_TEXT_MAX, "%s",
                       off || (lost && !strstr(asked_text, bw_cuvs_reason_text(r)))
                           ? bw_cuvs_reason_text(r)
                           : asked_text);
    pthread_mutex_unlock(&start_lock);
    return r;
}

bw_cuvs_reason bw_cuvs_probe(char text[BW_CUVS_TEXT_MAX])
{
    return bw_cuvs__ready(text);
}

void bw_cuvs_switch(bool on)
{
    pthread_mutex_lock(&start_lock);
    off = !on;
    pthread_mutex_unlock(&start_lock);
}

void bw_cuvs_places_use(const bw_cuvs_places *where)
{
    pthread_mutex_lock(&start_lock);
    for (size_t i = NLANES; lanes_made && i-- > 0;) /* what was built goes last */
        lane_stop(&lanes[i]);
    places_given = where ? *where : (bw_cuvs_places){NULL, NULL, NULL};
    places = where ? &places_given : NULL;
    asked = false;
    atomic_store(&reason, (unsigned)BW_CUVS_READY);
    pthread_mutex_unlock(&start_lock);
}

void bw_cuvs_stats_get(bw_cuvs_stats *out)
{
    bw_cuvs_counts *c = &bw_cuvs__counts;
#define GET(name) out->name = atomic_load_explicit(&c->name, memory_order_relaxed)
    GET(builds), GET(refused), GET(searches), GET(batches), GET(widened), GET(dropped);
    GET(scans_filter), GET(scans_short), GET(scans_failed), GET(device_bytes);
#undef GET
}

/* ---- asking ---- */

/* Hands the job over and waits; the asker keeps its reference. */
static bw_status ask(bw_ctx *ctx, bw_cuvs_job *j, const atomic_bool *stop,
                     bw_cuvs_answer *a)
{
    enum { TICK_NS = 50 * 1000 * 1000 }; /* how often a stop is looked for */
    lane *l = &lanes[j->kind == BW_CUVS_JOB_SEARCH ? LANE_SEARCH : LANE_BUILD];
    const uint64_t deadline = bw_ctx_deadline(ctx);
    bw_status st = BW_OK;
    a->what[0] = 0;
    a->how = BW_CUVS_LOST;
    if (stop && atomic_load_explicit(stop, memory_order_relaxed))
        return bw_fail(ctx, BW_EUNAVAILABLE, "stopped");
    if (bw_cuvs__ready(NULL) != BW_CUVS_READY)
        return BW_OK;
    pthread_mutex_lock(&l->lock);
    if (!lane_start(l, l == &lanes[LANE_BUILD])) {
        pthread_mutex_unlock(&l->lock);
        a->how = BW_CUVS_FULL;
        return BW_OK;
    }
    atomic_fetch_add_explicit(&j->refs, 1, memory_order_relaxed);
    queue_put(l, j);
    while (!j->over && st == BW_OK) {
        const uint64_t now = bw_clock_mono_ns();
        uint64_t wake = stop ? now + TICK_NS : deadline;
        if (deadline && wake > deadline)
            wake = deadline;
        const struct timespec until = bw_clock_timespec(wake);
        if (wake)
            (void)pthread_cond_timedwait(&l->done, &l->lock, &until);
        else
            (void)pthread_cond_wait(&l->done, &l->lock);
        if (!j->over && stop && atomic_load_explicit(stop, memory_order_relaxed))
            st = BW_EUNAVAILABLE;
        else if (!j->over && deadline && bw_clock_mono_ns() >= deadline)
            st = BW_ETIMEOUT;
    }
    if (st == BW_OK) {
        a->how = j->how;
        memcpy(a->what, j->what, sizeof a->what);
    }
    pthread_mutex_unlock(&l->lock);
    if (st == BW_ETIMEOUT)
        return bw_fail(ctx, st, "the deadline passed while the GPU was at work");
    return st == BW_OK ? BW_OK : bw_fail(ctx, st, "stopped");
}

bw_status bw_cuvs__open(bw_ctx *ctx, size_t n, uint32_t dim, const atomic_bool *stop,
                        bw_cuvs_graph **out, bw_cuvs_answer *a)
{
    bw_cuvs_graph *g = bw_calloc(1, sizeof *g);
    if (!g)
        return bw_fail_nomem(ctx);
    atomic_init(&g->refs, 1);
    g->n = n;
    g->stride = bw_cuvs__stride(dim);
    g->dim = dim;
    g->nwords = bw_bitmap_words(n);
    g->filter_host = bw_calloc(g->nwords, sizeof *g->filter_host);
    bw_cuvs_job *j = g->filter_host ? job_new(BW_CUVS_JOB_OPEN, g, 0) : NULL;
    bw_status st = j ? ask(ctx, j, stop, a) : bw_fail_nomem(ctx);
    job_release(j);
    if (st == BW_OK && a->how == BW_CUVS_DONE)
        *out = g;
    else
        bw_cuvs__release(g);
    return st;
}

bw_status bw_cuvs__put(bw_ctx *ctx, bw_cuvs_graph *g, size_t row0, size_t n,
                       const float *rows, const atomic_bool *stop, bw_cuvs_answer *a)
{
    const size_t bytes = n * g->stride * sizeof *rows;
    bw_cuvs_job *j = job_new(BW_CUVS_JOB_PUT, g, bytes);
    if (!j)
        return bw_fail_nomem(ctx);
    memcpy(j->data, rows, bytes);
    j->row0 = row0;
    j->n = n;
    const bw_status st = ask(ctx, j, stop, a);
    job_release(j);
    return st;
}

bw_status bw_cuvs__build(bw_ctx *ctx, bw_cuvs_graph *g, uint32_t degree,
                         const atomic_bool *stop, bw_cuvs_answer *a)
{
    bw_cuvs_job *j = job_new(BW_CUVS_JOB_BUILD, g, 0);
    if (!j)
        return bw_fail_nomem(ctx);
    j->n = degree;
    const bw_status st = ask(ctx, j, stop, a);
    job_release(j);
    return st;
}

bw_status bw_cuvs__search(bw_ctx *ctx, bw_cuvs_graph *g, const float *query,
                          const bw_bitmap *allowed, uint32_t itopk, uint32_t wanted,
                          bw_cuvs_hits *hits, bw_cuvs_answer *a)
{
    assert(itopk % 32 == 0 && itopk <= BW_CUVS_ITOPK_MAX && wanted > 0);
    assert(wanted <= itopk && wanted <= g->n && (!allowed || allowed->nbits == g->n));
    bw_cuvs_job *j = job_new(BW_CUVS_JOB_SEARCH, g, g->stride * sizeof *query);
    if (!j)
        return bw_fail_nomem(ctx);
    j->hits = bw_calloc(1, sizeof *j->hits);
    j->words = allowed ? bw_alloc(g->nwords * sizeof *j->words) : NULL;
    j->itopk = itopk;
    j->wanted = wanted;
    bw_status st = BW_ENOMEM;
    if (j->hits && (j->words || !allowed)) {
        memset(j->data, 0, g->stride * sizeof *query);
        memcpy(j->data, query, g->dim * sizeof *query);
        if (allowed)
            memcpy(j->words, allowed->words, g->nwords * sizeof *j->words);
        st = ask(ctx, j, NULL, a);
        if (st == BW_OK && a->how == BW_CUVS_DONE)
            *hits = *j->hits;
    } else {
        st = bw_fail_nomem(ctx);
    }
    job_release(j);
    return st;
}

void bw_cuvs__release(bw_cuvs_graph *g)
{
    if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1)
        return;
    bool queued = false;
    if (g->vectors != 0) { /* else nothing of it is on the device */
        lane *l = &lanes[LANE_BUILD];
        g->drop.kind = BW_CUVS_JOB_DROP;
        g->drop.graph = g;
        pthread_mutex_lock(&l->lock);
        queued = l->running;
        if (queued)
            queue_put(l, &g->drop);
        pthread_mutex_unlock(&l->lock);
    }
    if (!queued) {
        bw_free(g->filter_host);
        bw_free(g);
    }
}

size_t bw_cuvs__bytes(const bw_cuvs_graph *g)
{
    return g->n * g->stride * sizeof(float) + g->nwords * sizeof(uint64_t);
}
