/* Graphs of sealed vectors (build.h has the format and the rules). A few worker threads
 * a cell, one to a build, which may start more (FAISS's do not: it gives the same bytes
 * only with one thread each). */
#include "../index/gpu_host.h"
#include "build.h"
#include "../kernels/typed.h"
#include "../store/failpoint.h"
#include "../store/fs.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 96, LENGTH_AT = 88, DIGEST = BW_ROWS_DIGEST };
static const char magic[8] = {'B', 'W', 'g', 'r', 'a', 'p', 'h', '2'};

enum { WORKERS_MAX = 4 };

typedef enum state { QUEUED, RUNNING, DONE } state;

struct bw_build { /* owned by its matrix */
    bw_build_id id;
    bw_index_choice kind;
    const bw_index_ops *ops;
    uint32_t M, ef_construction;
    bw_matrix *matrix;
    state state;     /* builder's lock */
    bool wanted;     /* builder's lock: somebody waits */
    unsigned threads; /* set when it begins */
    bool discarded;  /* builder's lock: nothing of it may stay on disk */
    bw_index *index; /* written before DONE */
    struct bw_build
        *next; /* in the queue or among the running: a reference to the matrix */
};

struct bw_builder {
    const char *dir;
    unsigned char key[BW_MAC_KEY];
    pthread_t threads[WORKERS_MAX];
    unsigned nthreads;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct bw_build *first, *running;
    uint64_t served; /* number of the partition that had its turn last */
    bw_places places;
    bw_made *made;
    atomic_bool stop;
};

static void put(char *at, const void *p, size_t n)
{
    memcpy(at, p, n);
}

static void head_of(const struct bw_build *job, char out[HEAD])
{
    const bw_matrix *m = job->matrix;
    uint32_t metric = (uint32_t)m->metric, kind = (uint32_t)job->kind;
    uint64_t rows = m->cap, len = 0;
    put(out, magic, sizeof magic);
    put(out + 8, &job->id.number, 8);
    put(out + 16, &job->id.segment, 4);
    put(out + 20, &job->id.build, 4);
    put(out + 24, &job->id.vec, 4);
    put(out + 28, &m->dim, 4);
    put(out + 32, &metric, 4);
    put(out + 36, &kind, 4);
    put(out + 40, &rows, 8);
    bw_matrix_digest(m, (unsigned char *)out + 48);
    put(out + 80, &job->M, 4);
    put(out + 84, &job->ef_construction, 4);
    put(out + LENGTH_AT, &len, 8);
}

static bw_index_params params_of(const struct bw_build *job)
{
    return (bw_index_params){.metric = job->matrix->metric,
                             .dim = job->matrix->dim,
                             .M = job->M,
                             .ef_construction = job->ef_construction,
                             .seed = 1,
                             .threads = job->threads};
}

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

static bw_status load(bw_ctx *ctx, bw_builder *b, struct bw_build *job,
                      const bw_index_ops *ops)
{
    const char *name = bw_made_name(ctx, &job->id, "graph");
    const char *path = name ? bw_arena_printf(ctx, "%s/%s", b->dir, name) : NULL;
    if (!path)
        return BW_ENOMEM;
    bw_buf file = {0};
    char head[HEAD];
    bw_status st = bw_fs_read(ctx, path, (size_t)1 << 36, &file);
    if (st != BW_OK)
        goto out;
    st = BW_ECORRUPT;
    if (file.len < HEAD + DIGEST)
        goto out;
    size_t body = file.len - DIGEST;
    unsigned char mac[DIGEST];
    crypto_generichash(mac, sizeof mac, (unsigned char *)file.ptr, body, b->key,
                       sizeof b->key);
    if (sodium_memcmp(mac, file.ptr + body, sizeof mac) != 0)
        goto out;
    head_of(job, head);
    uint64_t len;
    memcpy(&len, file.ptr + LENGTH_AT, 8);
    if (memcmp(head, file.ptr, LENGTH_AT) != 0 || len != body - HEAD)
        goto out;
    bw_index_params params = params_of(job);
    st = ops->load(ctx, &params, file.ptr + HEAD, len, &job->index);
out:
    bw_buf_clear(&file);
    return st;
}

/* A file that cannot be written costs the next start some time and nothing else. */
static void save(bw_ctx *ctx, bw_builder *b, struct bw_build *job,
                 const bw_index_ops *ops)
{
    const char *name = bw_made_name(ctx, &job->id, "graph");
    bw_buf file = {0};
    char head[HEAD];
    head_of(job, head);
    bw_buf_put(&file, head, sizeof head);
    bw_status st = name ? ops->save(ctx, job->index, &file) : BW_ENOMEM;
    if (st == BW_OK && !file.failed) {
        uint64_t len = file.len - HEAD;
        memcpy(file.ptr + LENGTH_AT, &len, 8);
        unsigned char mac[DIGEST];
        crypto_generichash(mac, sizeof mac, (unsigned char *)file.ptr, file.len, b->key,
                           sizeof b->key);
        bw_buf_put(&file, mac, sizeof mac);
        if (!file.failed)
            st = bw_fs_replace(ctx, b->dir, name, file.ptr, file.len, 0600);
    }
    if (st != BW_OK || file.failed)
        bw_log(BW_LOG_WARN, "partition: a graph could not be saved: %s",
               bw_ctx_message(ctx));
    bw_buf_clear(&file);
}

static bool is_discarded(bw_builder *b, const struct bw_build *job)
{
    pthread_mutex_lock(&b->lock);
    bool out = job->discarded;
    pthread_mutex_unlock(&b->lock);
    return out;
}

static void run(bw_builder *b, struct bw_build *job)
{
    const bw_index_ops *ops = job->ops;
    bw_ctx *ctx = bw_ctx_new(0);
    if (!ctx) {
        bw_log(BW_LOG_ERROR, "partition: no memory for a graph");
        bw_ctx_free(ctx);
        return;
    }
    if (!ops->load || load(ctx, b, job, ops) != BW_OK) {
        bw_ctx_reset(ctx);
        job->index = NULL;
        bw_index_params params = params_of(job);
        params.stop = &b->stop;
        bw_status st = bw_failpoint(ctx, "build.start");
        if (st == BW_OK)
            st = bw_index_start(ctx);
        if (st == BW_OK)
            st = build_over(ctx, ops, &params, job->matrix, &job->index);
        if (st != BW_OK) {
            job->index = NULL;
            /* Without cuVS it would be said for every segment; its own file says it once. */
            bool known = st == BW_EUNAVAILABLE && job->kind == BW_INDEX_CUVS_CAGRA;
            if (!atomic_load(&b->stop))
                bw_log(known ? BW_LOG_DEBUG : BW_LOG_ERROR,
                       "partition: a graph could not be built: %s", bw_ctx_message(ctx));
        } else if (ops->save && !is_discarded(b, job)) {
            save(ctx, b, job, ops);
            bw_failpoint_pass("build.saved");
            if (is_discarded(b, job)) /* came too late to keep it from being written */
                bw_made_remove(ctx, b->dir, &job->id, "graph");
        }
    }
    bw_ctx_free(ctx);
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
    job->state = RUNNING;
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

static void *work(void *arg)
{
    bw_builder *b = arg;
    step_back();
    bw_index_stop_when(&b->stop);
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (!atomic_load(&b->stop) && !b->first)
            pthread_cond_wait(&b->work, &b->lock);
        if (atomic_load(&b->stop))
            break;
        struct bw_build *job = take_job(b);
        bw_matrix *m = job->matrix;
        pthread_mutex_unlock(&b->lock);
        /* The queue's is the only reference: nobody will ask for this graph. */
        if (atomic_load_explicit(&m->refs, memory_order_acquire) > 1)
            run(b, job);
        pthread_mutex_lock(&b->lock);
        unlink_job(&b->running, job);
        job->state = DONE;
        pthread_cond_broadcast(&b->done);
        pthread_mutex_unlock(&b->lock);
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
    pthread_cond_init(&b->work, NULL);
    pthread_condattr_t attr; /* deadlines are on the monotonic clock */
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
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
    while (b->first) {
        bw_matrix *m = b->first->matrix;
        b->first = b->first->next;
        bw_matrix_release(m);
    }
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
        if (ops && ops->metrics[spec->metric])
            return ops;
    }
    return NULL;
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
    job->M = spec->m;
    job->ef_construction = spec->ef_construct;
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
    struct timespec until = {(time_t)(deadline / 1000000000u),
                             (long)(deadline % 1000000000u)};
    int rc = 0;
    pthread_mutex_lock(&b->lock);
    job->wanted = true; /* it is the next */
    while (job->state != DONE && rc != ETIMEDOUT)
        rc = deadline ? pthread_cond_timedwait(&b->done, &b->lock, &until)
                      : pthread_cond_wait(&b->done, &b->lock);
    bool done = job->state == DONE;
    pthread_mutex_unlock(&b->lock);
    if (done)
        return BW_OK;
    return bw_fail(ctx, BW_ETIMEOUT, "an index is still being built; try again later");
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
    pthread_mutex_unlock(&b->lock);
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
    struct bw_build *dropped = NULL;
    pthread_mutex_lock(&b->lock);
    for (struct bw_build **at = &b->first; *at;) {
        struct bw_build *job = *at;
        if (job->id.number != number) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        job->state = DONE;
        job->next = dropped;
        dropped = job;
    }
    pthread_cond_broadcast(&b->done);
    while (is_running(b, number))
        pthread_cond_wait(&b->done, &b->lock);
    pthread_mutex_unlock(&b->lock);
    while (dropped) {
        bw_matrix *m = dropped->matrix;
        dropped = dropped->next;
        bw_matrix_release(m);
    }
}

const bw_index *bw_build_index(const bw_matrix *m)
{
    return m->build ? m->build->index : NULL;
}

void bw_builder_cache_stats(bw_builder *b, bw_block_cache_stats *out)
{
    bw_block_cache_stats_get(b->places.cache, out);
}

size_t bw_builder_pending(bw_builder *b)
{
    size_t n = 0;
    pthread_mutex_lock(&b->lock);
    for (struct bw_build *job = b->first; job; job = job->next)
        n++;
    pthread_mutex_unlock(&b->lock);
    return n;
}

void bw_matrix_release(bw_matrix *m)
{
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
        return;
    bw_gpu_forget(m->gpu_identity);
    if (m->build) {
        if (m->build->index)
            m->build->index->ops->free(m->build->index);
        bw_free(m->build);
    }
    if (m->held)
        atomic_fetch_sub_explicit(m->held, bw_matrix_row_bytes(m), memory_order_relaxed);
    bw_free_vectors(m->data);
    bw_free(m->scales);
    bw_codes_free(m->codes);
    bw_blockfile_free(m->file);
    bw_free(m->ids);
    bool large = m->cap >= BW_TRIM_ROWS;
    bw_free(m);
    if (large)
        bw_memory_give_back();
}
