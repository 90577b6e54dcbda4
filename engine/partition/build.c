/* Graphs of sealed vectors (build.h has the format and the rules). A few worker threads
 * a cell, one to a build, which may start more (FAISS's do not: it gives the same bytes
 * only with one thread each). */
#include "../index/gpu_host.h"
#include "build_private.h"
#include "heal.h"
#include "../kernels/typed.h"
#include "../store/failpoint.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS_MAX = 4 };
#define RETRY_FIRST_NS ((uint64_t)1000000000) /* doubles with every try in vain */
#define RETRY_LAST_NS  ((uint64_t)600 * 1000000000)

struct bw_builder {
    const char *dir;
    unsigned char key[BW_MAC_KEY];
    pthread_t threads[WORKERS_MAX];
    unsigned nthreads;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct bw_build *first, *running, *later; /* later: failed, to be tried again */
    uint64_t served; /* number of the partition that had its turn last */
    uint64_t failed, refused; /* tries in vain; saved graphs that were not believed */
    bw_places places;
    bw_made *made;
    atomic_bool stop;
};

/* Builds over the rows; those that are not f32 in memory are decoded for as long as the
 * build takes. */
static bw_status build_over(bw_ctx *ctx, const bw_index_ops *ops,
                            const bw_index_params *params, const bw_matrix *m,
                            bw_index **out)
{
    enum { PIECE = 256 };
    const bw_rows rows = bw_matrix_view(m, m->cap);
    if (rows.data && rows.dtype == BW_DTYPE_F32)
        return ops->build(ctx, params, &rows, out);
    size_t bytes;
    float *copy = __builtin_mul_overflow(rows.n * sizeof *copy, m->dim, &bytes)
                      ? NULL
                      : bw_alloc_vectors(bytes);
    if (!copy)
        return bw_fail_nomem(ctx);
    bw_status st = BW_OK;
    for (size_t at = 0; st == BW_OK && at < rows.n; at += PIECE) {
        uint32_t which[PIECE];
        size_t n = rows.n - at < PIECE ? rows.n - at : PIECE;
        for (size_t i = 0; i < n; i++)
            which[i] = (uint32_t)(at + i);
        st = bw_rows_get(ctx, &rows, which, n, copy + at * m->dim);
    }
    const bw_rows decoded = {
        .dtype = BW_DTYPE_F32, .dim = m->dim, .n = rows.n, .data = copy};
    if (st == BW_OK)
        st = ops->build(ctx, params, &decoded, out);
    bw_free_vectors(copy);
    return st;
}

static bool is_discarded(bw_builder *b, const struct bw_build *job)
{
    pthread_mutex_lock(&b->lock);
    bool out = job->discarded;
    pthread_mutex_unlock(&b->lock);
    return out;
}

/* The saved graph, if there is one that fits. */
static bool load(bw_ctx *ctx, bw_builder *b, const struct bw_build *job, bw_index **out)
{
    bw_status st = bw_build__load(ctx, b->dir, b->key, job, out);
    if (st == BW_ECORRUPT || st == BW_EIO) {
        bw_log(BW_LOG_WARN, "partition: a saved graph is damaged or of other settings; it "
                            "is built again");
        pthread_mutex_lock(&b->lock);
        b->refused++;
        pthread_mutex_unlock(&b->lock);
    }
    return st == BW_OK;
}

static bw_status build(bw_ctx *ctx, bw_builder *b, const struct bw_build *job,
                       bw_index **out)
{
    bw_index_params params = bw_build__params(job);
    params.stop = &b->stop;
    bw_status st = bw_failpoint(ctx, "build.start");
    if (st == BW_OK)
        st = bw_index_start(ctx);
    if (st == BW_OK)
        st = build_over(ctx, job->ops, &params, job->matrix, out);
    /* Without cuVS it would be said for every segment; its own file says it once. */
    bool known = st == BW_EUNAVAILABLE && job->kind == BW_INDEX_CUVS_CAGRA;
    if (st != BW_OK && !atomic_load(&b->stop))
        bw_log(known ? BW_LOG_DEBUG : BW_LOG_ERROR,
               "partition: a graph could not be built: %s", bw_ctx_message(ctx));
    return st;
}

static bw_status run(bw_builder *b, struct bw_build *job)
{
    bw_index *index = NULL;
    bw_ctx *ctx = bw_ctx_new(0);
    if (!ctx) {
        bw_log(BW_LOG_ERROR, "partition: no memory for a graph");
        return BW_ENOMEM;
    }
    bw_status st = BW_OK;
    if (!job->ops->load || !load(ctx, b, job, &index)) {
        bw_ctx_reset(ctx);
        index = NULL;
        st = build(ctx, b, job, &index);
        if (st == BW_OK && job->ops->save && !is_discarded(b, job)) {
            bw_build__save(ctx, b->dir, b->key, job, index);
            bw_failpoint_pass("build.saved");
            if (is_discarded(b, job)) /* came too late to keep it from being written */
                bw_made_remove(ctx, b->dir, &job->id, "graph");
        }
    }
    if (st == BW_OK)
        atomic_store_explicit(&job->index, index, memory_order_release);
    bw_ctx_free(ctx);
    return st;
}

static unsigned core_count(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (unsigned)n;
}

static bool comes_before(const bw_builder *b, const struct bw_build *x,
                         const struct bw_build *y)
{
    if (x->wanted != y->wanted)
        return x->wanted;
    uint64_t turn_x = x->id.number - b->served - 1, turn_y = y->id.number - b->served - 1;
    if (turn_x != turn_y) /* both wrap around */
        return turn_x < turn_y;
    return x->matrix->cap < y->matrix->cap;
}

static void unlink_job(struct bw_build **at, const struct bw_build *job)
{
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
}

static struct bw_build *take_job(bw_builder *b)
{
    struct bw_build *job = b->first;
    for (struct bw_build *other = job->next; other; other = other->next)
        if (comes_before(b, other, job))
            job = other;
    unlink_job(&b->first, job);
    unsigned running = 1;
    for (const struct bw_build *other = b->running; other; other = other->next)
        running++;
    job->threads = core_count() / running ? core_count() / running : 1;
    job->next = b->running;
    b->running = job;
    job->state = BW_BUILD_RUNNING;
    b->served = job->id.number;
    return job;
}

/* Whatever the thread starts inherits it. Not in debug builds: tests wait for graphs on
 * machines that are busy with other things. */
static void step_back(void)
{
#ifndef BW_DEBUG
    const struct sched_param none = {0};
    pid_t self = (pid_t)syscall(SYS_gettid);
    if (sched_setscheduler(self, SCHED_IDLE, &none) != 0 &&
        setpriority(PRIO_PROCESS, (id_t)self, 19) != 0)
        bw_log(BW_LOG_WARN, "partition: builds run at the priority of requests");
    enum { WHO_PROCESS = 1, CLASS_IDLE = 3 << 13 }; /* linux/ioprio.h */
    (void)syscall(SYS_ioprio_set, WHO_PROCESS, (int)self, CLASS_IDLE); /* best effort */
#endif
}

/* What may go better another time: memory comes back, rows on file are mended. */
static bool may_pass(bw_status st)
{
    return st == BW_ENOMEM || st == BW_ECORRUPT || st == BW_EIO;
}

static bool has_owner(const struct bw_build *job)
{
    /* The list's is the only reference: nobody will ask for this graph. */
    return atomic_load_explicit(&job->matrix->refs, memory_order_acquire) > 1;
}

/* Failed jobs whose time has come go back into the queue. *until: when the next one's
 * will; 0: there is none. */
static void take_due(bw_builder *b, uint64_t *until)
{
    const uint64_t now = bw_clock_mono_ns();
    *until = 0;
    for (struct bw_build **at = &b->later; *at;) {
        struct bw_build *job = *at;
        if (job->due_ns <= now) {
            *at = job->next;
            job->next = b->first;
            b->first = job;
            continue;
        }
        if (*until == 0 || job->due_ns < *until)
            *until = job->due_ns;
        at = &job->next;
    }
}

/* The next job; NULL: the end. The lock is held. */
static struct bw_build *await_job(bw_builder *b)
{
    while (!atomic_load(&b->stop)) {
        uint64_t until;
        take_due(b, &until);
        if (b->first)
            return take_job(b);
        const struct timespec t = bw_clock_timespec(until);
        if (until)
            pthread_cond_timedwait(&b->work, &b->lock, &t);
        else
            pthread_cond_wait(&b->work, &b->lock);
    }
    return NULL;
}

/* Whoever waits goes on, also when it has failed: then its rows are scanned until a later
 * try succeeds. true: the job keeps its reference to the matrix. The lock is held. */
static bool settle(bw_builder *b, struct bw_build *job, bw_status st)
{
    unlink_job(&b->running, job);
    job->state = BW_BUILD_ENDED;
    job->settled = true;
    job->wanted = false;
    pthread_cond_broadcast(&b->done);
    if (st == BW_OK || atomic_load(&b->stop))
        return false;
    b->failed++;
    if (!may_pass(st) || job->discarded || !has_owner(job))
        return false;
    uint64_t wait = job->tries < 10 ? RETRY_FIRST_NS << job->tries : RETRY_LAST_NS;
    job->tries++;
    job->due_ns = bw_clock_mono_ns() + (wait < RETRY_LAST_NS ? wait : RETRY_LAST_NS);
    job->state = BW_BUILD_QUEUED;
    job->next = b->later;
    b->later = job;
    return true;
}

static void *work(void *arg)
{
    bw_builder *b = arg;
    struct bw_build *job;
    step_back();
    bw_index_stop_when(&b->stop);
    pthread_mutex_lock(&b->lock);
    while ((job = await_job(b)) != NULL) {
        bw_matrix *m = job->matrix;
        pthread_mutex_unlock(&b->lock);
        bw_status st = has_owner(job) ? run(b, job) : BW_OK;
        pthread_mutex_lock(&b->lock);
        bool kept = settle(b, job, st);
        pthread_mutex_unlock(&b->lock);
        if (!kept)
            bw_matrix_release(m); /* perhaps the last: not under the lock */
        pthread_mutex_lock(&b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* More than four builds at once want too much memory. */
static unsigned worker_count(void)
{
    return core_count() > WORKERS_MAX ? WORKERS_MAX : core_count();
}

bw_builder *bw_builder_new(const char *dir, const unsigned char key[BW_MAC_KEY],
                           size_t cache_bytes, uint64_t vector_bytes)
{
    bw_builder *b = bw_calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->dir = dir;
    b->places.cache = bw_block_cache_new(cache_bytes);
    b->made = b->places.cache ? bw_made_new(dir) : NULL;
    if (!b->made) {
        bw_block_cache_free(b->places.cache);
        bw_free(b);
        return NULL;
    }
    b->places.dir = dir;
    b->places.key = b->key;
    b->places.budget = vector_bytes;
    atomic_init(&b->places.held, 0);
    atomic_init(&b->stop, false);
    memcpy(b->key, key, BW_MAC_KEY);
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_t attr; /* deadlines are on the monotonic clock */
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&b->work, &attr);
    pthread_cond_init(&b->done, &attr);
    pthread_condattr_destroy(&attr);
    unsigned want = worker_count();
    while (b->nthreads < want &&
           pthread_create(&b->threads[b->nthreads], NULL, work, b) == 0)
        b->nthreads++;
    if (b->nthreads > 0)
        return b;
    bw_builder_free(b);
    return NULL;
}

static void release_all(struct bw_build *list)
{
    while (list) {
        bw_matrix *m = list->matrix;
        list = list->next;
        bw_matrix_release(m);
    }
}

void bw_builder_free(bw_builder *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    atomic_store(&b->stop, true);
    pthread_cond_broadcast(&b->work);
    pthread_mutex_unlock(&b->lock);
    bw_failpoint_pass("build.stop");
    for (unsigned i = 0; i < b->nthreads; i++)
        pthread_join(b->threads[i], NULL);
    release_all(b->first);
    release_all(b->later);
    pthread_cond_destroy(&b->done);
    pthread_cond_destroy(&b->work);
    pthread_mutex_destroy(&b->lock);
    bw_block_cache_free(b->places.cache);
    bw_made_free(b->made);
    sodium_memzero(b->key, sizeof b->key);
    bw_free(b);
}

/* What builds the graph; NULL: the metric, or the collection, has none. */
static const bw_index_ops *ops_of(const bw_vector_spec *spec, bw_index_choice *kind)
{
    static const bw_index_choice ways[BW_NINDEX_CHOICES][3] = {
        [BW_INDEX_AUTO] = {BW_INDEX_GRAPH, BW_INDEX_FAISS_HNSW},
        [BW_INDEX_GRAPH] = {BW_INDEX_GRAPH, BW_INDEX_FAISS_HNSW},
        [BW_INDEX_FAISS_HNSW] = {BW_INDEX_FAISS_HNSW},
        [BW_INDEX_FAISS_IVF] = {BW_INDEX_FAISS_IVF},
        [BW_INDEX_CUVS_CAGRA] = {BW_INDEX_CUVS_CAGRA, BW_INDEX_GRAPH,
                                 BW_INDEX_FAISS_HNSW}};
    static const char *const names[BW_NINDEX_CHOICES] = {
        [BW_INDEX_GRAPH] = "graph",
        [BW_INDEX_FAISS_HNSW] = "faiss-hnsw",
        [BW_INDEX_FAISS_IVF] = "faiss-ivf",
        [BW_INDEX_CUVS_CAGRA] = "cuvs-cagra"};
    assert((int)spec->index < (int)BW_NINDEX_CHOICES);
    for (unsigned i = 0; i < 3; i++) {
        *kind = ways[spec->index][i];
        const bw_index_ops *ops = names[*kind] ? bw_index_kind(names[*kind]) : NULL;
        if (ops && ops->metrics[spec->metric] &&
            (ops->dim_max == 0 || spec->dim <= ops->dim_max))
            return ops;
    }
    return NULL;
}

/* What a collection asks of its graphs is a wish: the nearest that the kind can do, since
 * a build that refuses would leave it without any. 0 stays: the kind's own choice. */
static uint32_t within(uint32_t wish, uint32_t least, uint32_t most)
{
    if (wish == 0)
        return 0;
    wish = wish < least ? least : wish;
    return most > 0 && wish > most ? most : wish;
}

void bw_builder_place(bw_builder *b, bw_matrix *m, const bw_vector_spec *spec,
                      const bw_build_id *id)
{
    bw_index_choice kind;
    const bw_index_ops *ops = ops_of(spec, &kind);
    bw_place_rows(&b->places, m, id, spec->on_disk, !ops || kind == BW_INDEX_GRAPH);
}

uint64_t bw_builder_budget(const bw_builder *b)
{
    return b->places.budget;
}

bw_status bw_builder_add(bw_ctx *ctx, bw_builder *b, bw_matrix *m,
                         const bw_vector_spec *spec, const bw_build_id *id)
{
    bw_index_choice kind;
    const bw_index_ops *ops = ops_of(spec, &kind);
    if (!ops)
        return BW_OK;
    struct bw_build *job = bw_calloc(1, sizeof *job);
    if (!job)
        return bw_fail_nomem(ctx);
    job->id = *id;
    job->kind = kind;
    job->ops = ops;
    job->M = within(spec->m, 2, ops->M_max);
    job->ef_construction = within(spec->ef_construct, 1, ops->ef_construction_max);
    job->matrix = m;
    m->build = job;
    bw_matrix_acquire(m);
    pthread_mutex_lock(&b->lock);
    struct bw_build **end = &b->first;
    while (*end)
        end = &(*end)->next;
    *end = job;
    pthread_cond_signal(&b->work);
    pthread_mutex_unlock(&b->lock);
    return BW_OK;
}

bw_status bw_builder_wait(bw_ctx *ctx, bw_builder *b, bw_matrix *m)
{
    struct bw_build *job = m->build;
    if (!job)
        return BW_OK;
    uint64_t deadline = bw_ctx_deadline(ctx);
    struct timespec until = bw_clock_timespec(deadline);
    int rc = 0;
    pthread_mutex_lock(&b->lock);
    job->wanted = true; /* it is the next */
    while (!job->settled && rc != ETIMEDOUT)
        rc = deadline ? pthread_cond_timedwait(&b->done, &b->lock, &until)
                      : pthread_cond_wait(&b->done, &b->lock);
    bool done = job->settled;
    pthread_mutex_unlock(&b->lock);
    if (done)
        return BW_OK;
    return bw_fail(ctx, BW_ETIMEOUT, "an index is still being built; try again later");
}

/* Takes the partition's jobs (or, with a segment, that one's) out of a list. */
static struct bw_build *take_out(struct bw_build **list, const bw_build_id *id, bool whole)
{
    struct bw_build *out = NULL;
    for (struct bw_build **at = list; *at;) {
        struct bw_build *job = *at;
        if (job->id.number != id->number ||
            (!whole && (job->id.segment != id->segment || job->id.vec != id->vec))) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        job->state = BW_BUILD_ENDED;
        job->settled = true;
        job->next = out;
        out = job;
    }
    return out;
}

static void mark_discarded(struct bw_build *list, const bw_build_id *id)
{
    for (struct bw_build *job = list; job; job = job->next)
        job->discarded = job->discarded ||
                         (job->id.number == id->number &&
                          job->id.segment == id->segment && job->id.vec == id->vec);
}

void bw_builder_discard(bw_builder *b, uint64_t number, uint32_t segment, uint32_t vec)
{
    bw_build_id id = {number, segment, 0, vec};
    pthread_mutex_lock(&b->lock);
    mark_discarded(b->first, &id);
    mark_discarded(b->running, &id);
    struct bw_build *dropped = take_out(&b->later, &id, false);
    pthread_mutex_unlock(&b->lock);
    release_all(dropped);
    bw_ctx *ctx = bw_ctx_new(0);
    bw_made_remove(ctx, b->dir, &id, "graph");
    bw_made_remove(ctx, b->dir, &id, "rows");
    bw_ctx_free(ctx);
}

void bw_builder_sweep(bw_ctx *ctx, bw_builder *b, uint64_t number,
                      bool (*wanted)(const void *arg, uint32_t segment),
                      const void *arg)
{
    bw_made_sweep(ctx, b->made, number, wanted, arg);
}

static bool is_running(const bw_builder *b, uint64_t number)
{
    for (const struct bw_build *job = b->running; job; job = job->next)
        if (job->id.number == number)
            return true;
    return false;
}

void bw_builder_forget(bw_builder *b, uint64_t number)
{
    const bw_build_id id = {.number = number};
    pthread_mutex_lock(&b->lock);
    struct bw_build *queued = take_out(&b->first, &id, true);
    struct bw_build *failed = take_out(&b->later, &id, true);
    pthread_cond_broadcast(&b->done);
    while (is_running(b, number))
        pthread_cond_wait(&b->done, &b->lock);
    struct bw_build *ended = take_out(&b->later, &id, true); /* in vain meanwhile */
    pthread_mutex_unlock(&b->lock);
    release_all(queued);
    release_all(failed);
    release_all(ended);
}

const bw_index *bw_build_index(const bw_matrix *m)
{
    return m->build ? atomic_load_explicit(&m->build->index, memory_order_acquire) : NULL;
}

void bw_builder_cache_stats(bw_builder *b, bw_block_cache_stats *out)
{
    bw_block_cache_stats_get(b->places.cache, out);
}

static uint64_t count(const struct bw_build *job)
{
    uint64_t n = 0;
    for (; job; job = job->next)
        n++;
    return n;
}

void bw_builder_figures_get(bw_builder *b, bw_builder_figures *out)
{
    pthread_mutex_lock(&b->lock);
    *out = (bw_builder_figures){count(b->first) + count(b->running), count(b->later),
                                b->failed, b->refused};
    pthread_mutex_unlock(&b->lock);
}

size_t bw_builder_pending(bw_builder *b)
{
    bw_builder_figures f;
    bw_builder_figures_get(b, &f);
    return f.pending;
}

void bw_matrix_release(bw_matrix *m)
{
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
        return;
    bw_gpu_forget(m->gpu_identity);
    if (m->build) {
        bw_index *ix = atomic_load_explicit(&m->build->index, memory_order_acquire);
        if (ix)
            ix->ops->free(ix);
        bw_free(m->build);
    }
    if (m->held)
        atomic_fetch_sub_explicit(m->held, bw_matrix_row_bytes(m), memory_order_relaxed);
    bw_free_vectors(m->data);
    bw_free(m->scales);
    bw_codes_free(m->codes);
    bw_home_free(m);
    bw_blockfile_free(m->file);
    bw_free(m->ids);
    bool large = m->cap >= BW_TRIM_ROWS;
    bw_free(m);
    if (large)
        bw_memory_give_back();
}
