/* libcuvs_c.so, the double. CAGRA is played by an exhaustive search over the caller's
 * vectors (a view: freeing them faults, changing them changes answers), whose scores are
 * off by up to 1e-4 in a way that depends on the batch's size and the place in it.
 * Texts of refusals are the real library's (26.10, as its binary holds them). */
#include "cuvs_double.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The driver's double; linked against it as cuVS is against cudart. */
typedef struct resources {
    CUstream stream;
    pthread_t by; /* never shared between threads */
    bool synced;
} resources;

struct cuvsDataset_opaque {
    CUdeviceptr at;
    size_t n, dim;
};

static cuvs_double self = {.version = {26, 10, 0}, .fail_alloc = -1, .fault = -1};
static _Thread_local char error[1024];
static _Thread_local bool has_error;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what is counted */

cuvs_double *cuvs_double_get(void)
{
    return &self;
}

static void add(long *what, long n)
{
    pthread_mutex_lock(&lock);
    *what += n;
    pthread_mutex_unlock(&lock);
}

__attribute__((format(printf, 1, 2))) static cuvsError_t refuse(const char *format, ...)
{
    char words[400];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    snprintf(error, sizeof error,
             "RAFT failure at file=/build/c/src/neighbors/cagra.cpp line=123: "
             "function=void search<float>(cuvsResources_t) [with T = float]: %s\n"
             "Obtained 7 stack frames\n#1 in libcuvs_c.so: raft::exception",
             words);
    has_error = true;
    return CUVS_ERROR;
}

static cuvsError_t success(void)
{
    has_error = false;
    return CUVS_SUCCESS;
}

static cuvsError_t device_error(int code)
{
    return refuse("CUDA error encountered at: Reason=cudaErrorIllegalAddress:an illegal memory "
                  "access was encountered (%d)", code);
}

/* An allocation of cuVS's own: true when it fails. */
static bool no_memory(void)
{
    bool fails = false;
    pthread_mutex_lock(&lock);
    if (self.fail_alloc >= 0 && self.fail_alloc-- == 0) {
        fails = true;
        self.fail_alloc = self.fail_lasts ? 0 : -1;
    }
    pthread_mutex_unlock(&lock);
    if (fails)
        (void)refuse("std::bad_alloc: out_of_memory: CUDA error (failed to allocate 1048576 bytes)");
    return fails;
}

static resources *own(cuvsResources_t r)
{
    resources *out;
    memcpy(&out, &r, sizeof out);
    if (!pthread_equal(out->by, pthread_self()))
        add(&self.misuse, 1);
    return out;
}

DOUBLE_API cuvsError_t cuvsVersionGet(uint16_t *a, uint16_t *b, uint16_t *c)
{
    *a = self.version[0], *b = self.version[1], *c = self.version[2];
    return success();
}
DOUBLE_API const char *cuvsGetLastErrorText(void)
{
    return has_error ? error : NULL;
}
DOUBLE_API void cuvsSetLogLevel(cuvsLogLevel_t level)
{
    (void)level;
}
DOUBLE_API cuvsError_t cuvsRMMAsyncMemoryResourceEnable(void)
{
    return success();
}
DOUBLE_API cuvsError_t cuvsResourcesCreate(cuvsResources_t *out)
{
    resources *r = calloc(1, sizeof *r);
    r->by = pthread_self();
    add(&self.live, 1);
    memcpy(out, &r, sizeof r);
    return success();
}
DOUBLE_API cuvsError_t cuvsResourcesDestroy(cuvsResources_t r)
{
    free(own(r));
    add(&self.live, -1);
    return success();
}
DOUBLE_API cuvsError_t cuvsStreamSet(cuvsResources_t r, cudaStream_t s)
{
    own(r)->stream = s;
    return success();
}
DOUBLE_API cuvsError_t cuvsStreamSync(cuvsResources_t r)
{
    if (self.no_driver)
        return refuse("CUDA error encountered at: Reason=cudaErrorInsufficientDriver:CUDA driver "
                      "version is insufficient for CUDA runtime version");
    const int rc = cuda_double_get()->drain(own(r)->stream);
    return rc ? device_error(rc) : success();
}

/* ---- data sets and graphs ---- */

DOUBLE_API cuvsError_t cuvsDatasetMakePaddedView(cuvsResources_t r, DLManagedTensor *t,
                                                 cuvsDataset_t *out)
{
    const DLTensor *d = &t->dl_tensor;
    (void)own(r);
    if (d->dtype.code != kDLFloat || d->dtype.bits != 32)
        return refuse("Unsupported dataset DLtensor dtype: %d and bits: %d", d->dtype.code,
                      d->dtype.bits);
    if (d->shape[1] * 4 % 16 != 0)
        return refuse("Source row length must not exceed required stride.");
    if (d->device.device_type != kDLCUDA || d->ndim != 2 || d->strides || d->byte_offset)
        return refuse("Dataset tensor must be either host-compatible or device-compatible");
    cuvsDataset_t s = calloc(1, sizeof *s);
    uintptr_t address;
    memcpy(&address, &d->data, sizeof address);
    s->at = address;
    s->n = (size_t)d->shape[0];
    s->dim = (size_t)d->shape[1];
    add(&self.live, 1);
    *out = s;
    return success();
}
DOUBLE_API cuvsError_t cuvsDatasetDestroy(cuvsDataset_t s)
{
    free(s);
    add(&self.live, -1);
    return success();
}
DOUBLE_API cuvsError_t cuvsCagraIndexParamsCreate(cuvsCagraIndexParams_t *out)
{
    *out = calloc(1, sizeof **out);
    (*out)->intermediate_graph_degree = 128;
    (*out)->graph_degree = 64;
    (*out)->nn_descent_niter = 20;
    add(&self.live, 1);
    return success();
}
DOUBLE_API cuvsError_t cuvsCagraIndexParamsDestroy(cuvsCagraIndexParams_t p)
{
    free(p);
    add(&self.live, -1);
    return success();
}
DOUBLE_API cuvsError_t cuvsCagraSearchParamsCreate(cuvsCagraSearchParams_t *out)
{
    *out = calloc(1, sizeof **out);
    **out = (struct cuvsCagraSearchParams){.itopk_size = 64,
                                           .search_width = 1,
                                           .hashmap_mode = AUTO_HASH,
                                           .hashmap_max_fill_rate = 0.5f,
                                           .num_random_samplings = 1,
                                           .rand_xor_mask = 0x128394};
    add(&self.live, 1);
    return success();
}
DOUBLE_API cuvsError_t cuvsCagraSearchParamsDestroy(cuvsCagraSearchParams_t p)
{
    free(p);
    add(&self.live, -1);
    return success();
}
DOUBLE_API cuvsError_t cuvsCagraIndexCreate(cuvsCagraIndex_t *out)
{
    *out = calloc(1, sizeof **out);
    add(&self.live, 1);
    return success();
}
DOUBLE_API cuvsError_t cuvsCagraIndexDestroy(cuvsCagraIndex_t ix)
{
    free(ix);
    add(&self.live, -1);
    return success();
}
DOUBLE_API cuvsError_t cuvsCagraBuild(cuvsResources_t r, cuvsCagraIndexParams_t p,
                                      cuvsDataset_t s, cuvsCagraIndex_t ix)
{
    const int rc = cuda_double_get()->drain(own(r)->stream);
    if (rc)
        return device_error(rc);
    if (self.refuse_build)
        return refuse("Could not generate an intermediate CAGRA graph because the initial kNN "
                      "graph contains too many invalid or duplicated neighbor nodes.");
    if (p->graph_degree >= 1024)
        return refuse("The degree of knn is too large (%zu). It must be smaller than 1024",
                      p->graph_degree);
    if (p->graph_degree > p->intermediate_graph_degree)
        return refuse("The degree of input knn graph is too large");
    if (no_memory())
        return CUVS_ERROR;
    if (!cuda_double_get()->reach(s->at, s->n * s->dim * 4))
        return device_error(cuda_double_get()->sticky = FAULT_ILLEGAL_ADDRESS);
    memcpy(&ix->addr, &s, sizeof s);
    ix->dtype = (DLDataType){kDLFloat, 32, 1};
    return success();
}

/* ---- searching ---- */

typedef struct found {
    float score;
    uint32_t row;
} found;

typedef struct search { /* all that the call was given, copied: it runs at a sync */
    cuvsDataset_t set;
    CUdeviceptr queries, rows, scores, filter;
    size_t nq, k, itopk;
    bool filtered, faults;
} search;

static int by_score(const void *a, const void *b)
{
    const found *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static bool passes(const uint32_t *words, size_t row)
{
    return !words || (words[row >> 5] >> (row & 31) & 1);
}

static void place_empty(const search *s, const uint32_t *words, size_t at, double rate,
                        size_t have, uint32_t *row, float *score)
{
    if (self.fewer == SHORT_BY_RATE) {
        if (rate >= 0.5) {
            *row = 0x7FFFFFFF;
            *score = FLT_MAX;
        } else if (rate >= 0.1) {
            *row = 0xFFFFFFFF;
            *score = 1e3f + (float)at;
        }
        return; /* else as it was */
    }
    size_t out = at * 7919 % s->set->n;
    for (size_t i = 0; i < s->set->n && passes(words, out); i++)
        out = (out + 1) % s->set->n;
    if (self.fewer == SHORT_HOSTILE && have > 0 && at % 2)
        *row = row[-(ptrdiff_t)at]; /* the first once more */
    else if (!passes(words, out))
        *row = (uint32_t)out;
    *score = self.fewer == SHORT_EXCLUDED ? INFINITY : 0.01f;
}

static float distance(const float *a, const float *b, size_t dim)
{
    float d = 0;
    for (size_t i = 0; i < dim; i++)
        d += (a[i] - b[i]) * (a[i] - b[i]);
    return d;
}

static void search_query(const search *s, size_t q, const float *query, const float *vectors,
                         const uint32_t *words, found *all, uint32_t *rows, float *scores)
{
    size_t n = 0, passing = 0;
    for (size_t r = 0; r < s->set->n; r++) {
        if (!passes(words, r))
            continue;
        const uint32_t h = (uint32_t)(r * 2654435761u) ^ (uint32_t)(q * 40503u) ^
                           (uint32_t)(s->nq * 97u);
        const float noise = ((float)(h % 2001) - 1000.0f) * 1e-7f; /* 1e-4 at most */
        all[n++] = (found){distance(query, vectors + r * s->set->dim, s->set->dim) + noise,
                           (uint32_t)r};
        passing++;
    }
    qsort(all, n, sizeof *all, by_score);
    const bool poor = s->itopk < self.poor_below;
    size_t have = 0;
    for (size_t i = 0; i < s->k; i++) {
        if (have < n && (!poor || i % 4 == 0)) {
            rows[i] = all[have].row;
            scores[i] = all[have++].score;
        } else {
            place_empty(s, words, i, (double)passing / (double)s->set->n, have, rows + i,
                        scores + i);
        }
    }
}

static void search_run(void *arg)
{
    const search *s = arg;
    cuda_double *cuda = cuda_double_get();
    const size_t words = (s->set->n + 31) / 32;
    const float *vectors = cuda->reach(s->set->at, s->set->n * s->set->dim * 4),
                *queries = cuda->reach(s->queries, s->nq * s->set->dim * 4);
    uint32_t *rows = cuda->reach(s->rows, s->nq * s->k * 4);
    float *scores = cuda->reach(s->scores, s->nq * s->k * 4);
    const uint32_t *filter = s->filtered ? cuda->reach(s->filter, words * 4) : NULL;
    if (self.slow_ms) {
        const struct timespec t = {self.slow_ms / 1000, self.slow_ms % 1000 * 1000000L};
        nanosleep(&t, NULL);
    }
    if (s->faults || !vectors || !queries || !rows || !scores || (s->filtered && !filter)) {
        self.misuse += !s->faults;
        cuda->sticky = FAULT_ILLEGAL_ADDRESS;
        return;
    }
    if (filter && s->set->n % 32 && filter[words - 1] >> (s->set->n % 32))
        self.misuse++; /* bits past n */
    found *all = malloc(s->set->n * sizeof *all);
    for (size_t q = 0; q < s->nq; q++)
        search_query(s, q, queries + q * s->set->dim, vectors, filter, all, rows + q * s->k,
                     scores + q * s->k);
    free(all);
}

static CUdeviceptr address(const DLManagedTensor *t)
{
    uintptr_t out;
    memcpy(&out, &t->dl_tensor.data, sizeof out);
    return out;
}

static cuvsError_t search_check(const struct cuvsCagraSearchParams *p, const cuvsDataset_t set,
                                const DLTensor *q, const DLTensor *r, const DLTensor *d)
{
    if (q->dtype.code != kDLFloat || q->dtype.bits != 32)
        return refuse("Unsupported queries DLtensor dtype: %d and bits: %d", q->dtype.code,
                      q->dtype.bits);
    if (q->device.device_type != kDLCUDA || r->device.device_type != kDLCUDA ||
        d->device.device_type != kDLCUDA)
        return refuse("queries should have device compatible memory");
    if (!((r->dtype.code == kDLUInt && r->dtype.bits == 32) ||
          (r->dtype.code == kDLInt && r->dtype.bits == 64)))
        return refuse("Unsupported neighbors DLtensor dtype: %d and bits: %d", r->dtype.code,
                      r->dtype.bits);
    if (q->shape[1] != (int64_t)set->dim)
        return refuse("CAGRA search queries must have %zu logical dimensions or CAGRA-padded row "
                      "width %zu (got %lld).", set->dim, set->dim, (long long)q->shape[1]);
    if (d->shape[0] != q->shape[0])
        return refuse("Output distances has incorrect number of rows");
    if (d->shape[1] != r->shape[1])
        return refuse("Output distances has incorrect number of cols");
    if ((size_t)r->shape[1] > set->n || (size_t)r->shape[1] > p->itopk_size)
        return refuse("Requested k is too big (%d)", (int)r->shape[1]);
    if (p->itopk_size > 1024 || p->itopk_size % 32)
        return refuse("- `internal_topk` (%zu) is out of range", p->itopk_size);
    return CUVS_SUCCESS;
}

DOUBLE_API cuvsError_t cuvsCagraSearch(cuvsResources_t res, cuvsCagraSearchParams_t p,
                                       cuvsCagraIndex_t ix, DLManagedTensor *q,
                                       DLManagedTensor *r, DLManagedTensor *d, cuvsFilter filter)
{
    resources *own_res = own(res);
    search s = {0};
    if (cuda_double_get()->sticky)
        return device_error(cuda_double_get()->sticky);
    if (!ix->addr)
        return refuse("CAGRA search requires a padded device dataset. Build from a standard "
                      "dataset view, then call cagra::update_dataset before search.");
    memcpy(&s.set, &ix->addr, sizeof s.set);
    if (search_check(p, s.set, &q->dl_tensor, &r->dl_tensor, &d->dl_tensor) != CUVS_SUCCESS)
        return CUVS_ERROR;
    if (filter.type != NO_FILTER && filter.type != BITSET)
        return refuse("Unsupported filter type: BITMAP");
    if (filter.type == BITSET) {
        DLManagedTensor *f;
        memcpy(&f, &filter.addr, sizeof f);
        if (f->dl_tensor.dtype.code != kDLUInt || f->dl_tensor.dtype.bits != 32)
            return refuse("Expected dtype %s but got %s instead", "uint32", "another");
        if (f->dl_tensor.ndim != 1 || f->dl_tensor.shape[0] != (int64_t)((s.set->n + 31) / 32))
            add(&self.misuse, 1);
        s.filtered = true;
        s.filter = address(f);
    }
    if (no_memory())
        return CUVS_ERROR;
    s.queries = address(q), s.rows = address(r), s.scores = address(d);
    s.nq = (size_t)q->dl_tensor.shape[0];
    s.k = (size_t)r->dl_tensor.shape[1];
    s.itopk = p->itopk_size;
    pthread_mutex_lock(&lock);
    s.faults = self.fault >= 0 && self.fault-- == 0;
    self.searches++;
    self.queries += (long)s.nq;
    self.filters += s.filtered;
    self.batch_max = (long)s.nq > self.batch_max ? (long)s.nq : self.batch_max;
    self.last = *p;
    self.last_k = s.k;
    pthread_mutex_unlock(&lock);
    search *copy = malloc(sizeof *copy);
    *copy = s;
    cuda_double_get()->push(own_res->stream, search_run, copy);
    return success();
}
