/* The calls of cuVS and of the driver, on a thread of cuvs_device.c.
 *
 * Vectors lie in memory of the driver's (cuVS's own allocator stops at a quarter of the
 * device), as f32, rows padded with zeros to 16 bytes so that cuVS takes them as they
 * are; the metric is L2, which on vectors of length one has cosine's order, because
 * CAGRA's graphs for inner products are poor (recall of 12 to 51 % in public reports).
 *
 * What is pinned and why: SINGLE_CTA, the block size and the number of queries that is
 * planned for, since cuVS would choose all three by the size of a batch; eight random
 * samplings, since the default of one loses recall from 100,000 rows on. Outputs are
 * filled before every search: cuVS leaves places as they were, and they may be another
 * caller's rows.
 *
 * Faults of kernels come out at the next sync, so every job ends with one. A failed call
 * is followed by a sync that must work: where it does not, the process's context is
 * poisoned and the device is given up. */
#include "cuvs_work.h"

#include <stdio.h>

enum {
    SLAB_QUERY_BYTES = 1 << 20,
    SLAB_PLACES = BW_CUVS_BATCH_MAX * BW_CUVS_ITOPK_MAX,
    SLAB_BYTES = SLAB_QUERY_BYTES + SLAB_PLACES * (int)(sizeof(uint32_t) + sizeof(float)),
    RESERVE_BYTES = 256 << 20, /* left to the driver and to cuVS's workspace */
    THREADS_A_BLOCK = 256,
    SAMPLINGS = 8,
    STREAM_APART = 1, /* CU_STREAM_NON_BLOCKING */
    CUDA_FULL = 2     /* CUDA_ERROR_OUT_OF_MEMORY */
};
static const uint32_t FLT_MAX_BITS = 0x7F7FFFFF;

uint32_t bw_cuvs__stride(uint32_t dim)
{
    return (dim + 3) / 4 * 4;
}

/* ---- failures ---- */

/* what: words, or a call, of which the name is said. */
static void say(bw_cuvs_worker *w, const char *what, const char *text)
{
    int length = 0;
    const char *words = bw_cuvs__essence(text, &length);
    (void)snprintf(w->what, sizeof w->what, "%.*s: %.*s", (int)strcspn(what, "("), what,
                   length, words);
}

/* Is the context still good? Also waits for copies that use the slab. */
static bw_cuvs_outcome health(bw_cuvs_worker *w, bw_cuvs_outcome otherwise)
{
    if (w->resources && w->api->cuvsStreamSync(w->resources) != CUVS_SUCCESS) {
        say(w, "the device does not answer", w->api->cuvsGetLastErrorText());
        return BW_CUVS_LOST;
    }
    return otherwise;
}

static bw_cuvs_outcome cuda_failed(bw_cuvs_worker *w, const char *what, CUresult rc)
{
    char number[32];
    (void)snprintf(number, sizeof number, "CUDA error %d", rc);
    say(w, what, number);
    return health(w, rc == CUDA_FULL ? BW_CUVS_FULL : BW_CUVS_FAILED);
}

static bw_cuvs_outcome cuvs_failed(bw_cuvs_worker *w, const char *what)
{
    const char *text = w->api->cuvsGetLastErrorText(); /* before a success clears it */
    const bool full = text && (strstr(text, "alloc") || strstr(text, "out of memory") ||
                               strstr(text, "out_of_memory"));
    say(w, what, text);
    return health(w, full ? BW_CUVS_FULL : BW_CUVS_FAILED);
}

#define CUDA(w, call)                                                                      \
    do {                                                                                   \
        const CUresult rc_ = (w)->api->call;                                               \
        if (rc_ != 0)                                                                      \
            return cuda_failed(w, #call, rc_);                                             \
    } while (0)
#define CUVS(w, call)                                                                      \
    do {                                                                                   \
        if ((w)->api->call != CUVS_SUCCESS)                                                \
            return cuvs_failed(w, #call);                                                  \
    } while (0)

/* ---- a thread's own things ---- */

static void params_pin(struct cuvsCagraSearchParams *p)
{
    p->algo = SINGLE_CTA;
    p->max_queries = BW_CUVS_BATCH_MAX;
    p->thread_block_size = THREADS_A_BLOCK;
    p->num_random_samplings = SAMPLINGS;
    p->persistent = false;
}

/* May be called again after a failure: what is there stays. */
bw_cuvs_outcome bw_cuvs__worker_open(bw_cuvs_worker *w)
{
    const bw_cuvs_api *api = w->api;
    CUdevice device;
    CUcontext context;
    if (w->open)
        return BW_CUVS_DONE;
    if (!w->bound) {
        CUDA(w, cuDeviceGet(&device, 0));
        CUDA(w, cuDevicePrimaryCtxRetain(&context, device)); /* cuVS's own context too */
        CUDA(w, cuCtxSetCurrent(context));
        w->bound = true;
        if (w->builds) /* once a process; without it, allocations stall the device */
            (void)api->cuvsRMMAsyncMemoryResourceEnable();
    }
    if (!w->stream) /* builders step back on the device too */
        CUDA(w, cuStreamCreateWithPriority(&w->stream, STREAM_APART, w->builds ? 0 : -5));
    if (!w->resources) {
        CUVS(w, cuvsResourcesCreate(&w->resources));
        CUVS(w, cuvsStreamSet(w->resources, w->stream));
    }
    if (!w->builds) {
        if (!w->params)
            CUVS(w, cuvsCagraSearchParamsCreate(&w->params));
        params_pin(w->params);
        void *slab = w->slab;
        if (!slab)
            CUDA(w, cuMemAllocHost_v2(&slab, SLAB_BYTES));
        w->slab = slab;
        if (!w->device_slab)
            CUDA(w, cuMemAlloc_v2(&w->device_slab, SLAB_BYTES));
    }
    CUVS(w, cuvsStreamSync(w->resources));
    w->open = true;
    return BW_CUVS_DONE;
}

void bw_cuvs__worker_close(bw_cuvs_worker *w)
{
    const bw_cuvs_api *api = w->api;
    if (w->params)
        (void)api->cuvsCagraSearchParamsDestroy(w->params);
    if (w->resources)
        (void)api->cuvsResourcesDestroy(w->resources);
    if (w->device_slab)
        (void)api->cuMemFree_v2(w->device_slab);
    if (w->slab)
        (void)api->cuMemFreeHost(w->slab); /* by the thread that had it */
    *w = (bw_cuvs_worker){.api = api}; /* streams and the context live on */
}

/* ---- tensors: the shape lives in our struct; cuVS reads it during the call alone ---- */

typedef struct tensor {
    DLManagedTensor dl;
    int64_t shape[2];
} tensor;

static DLManagedTensor *tensor_of(tensor *t, CUdeviceptr data, DLDataTypeCode code,
                                  size_t rows, size_t columns)
{
    memset(t, 0, sizeof *t);
    t->shape[0] = (int64_t)rows;
    t->shape[1] = (int64_t)columns;
    /* An address of the device; nobody here looks at what it points to. */
    const uintptr_t address = (uintptr_t)data;
    memcpy(&t->dl.dl_tensor.data, &address, sizeof address);
    t->dl.dl_tensor.device.device_type = kDLCUDA;
    t->dl.dl_tensor.ndim = columns > 0 ? 2 : 1;
    t->dl.dl_tensor.dtype = (DLDataType){(uint8_t)code, 32, 1};
    t->dl.dl_tensor.shape = t->shape;
    return &t->dl;
}

/* ---- building ---- */

/* A build takes some 2.5 times the vectors, the vectors themselves among them. */
static bw_cuvs_outcome graph_open(bw_cuvs_worker *w, bw_cuvs_graph *g)
{
    size_t room = 0, total = 0;
    const size_t vectors = g->n * g->stride * sizeof(float);
    CUDA(w, cuMemGetInfo_v2(&room, &total));
    if (room < RESERVE_BYTES || (room - RESERVE_BYTES) / 5 < vectors / 2) {
        (void)snprintf(w->what, sizeof w->what,
                       "%zu MiB of GPU memory are free, a build takes 2.5 times %zu MiB",
                       room >> 20, vectors >> 20);
        return BW_CUVS_FULL;
    }
    CUDA(w, cuMemAlloc_v2(&g->vectors, vectors));
    bw_cuvs__count(&bw_cuvs__counts.device_bytes, bw_cuvs__bytes(g));
    CUDA(w, cuMemAlloc_v2(&g->filter, g->nwords * sizeof(uint64_t)));
    return BW_CUVS_DONE;
}

static bw_cuvs_outcome graph_put(bw_cuvs_worker *w, const bw_cuvs_job *j)
{
    const size_t row = j->graph->stride * sizeof(float);
    CUDA(w, cuMemcpyHtoDAsync_v2(j->graph->vectors + j->row0 * row, j->data, j->n * row,
                                 w->stream));
    CUVS(w, cuvsStreamSync(w->resources));
    return BW_CUVS_DONE;
}

static bw_cuvs_outcome graph_make(bw_cuvs_worker *w, bw_cuvs_graph *g,
                                  cuvsCagraIndexParams_t params, size_t degree)
{
    tensor vectors;
    params->metric = L2Expanded;
    params->graph_degree = degree;
    params->intermediate_graph_degree = 2 * degree;
    params->build_algo = NN_DESCENT;
    CUVS(w, cuvsDatasetMakePaddedView(
                w->resources, tensor_of(&vectors, g->vectors, kDLFloat, g->n, g->stride),
                &g->dataset));
    CUVS(w, cuvsCagraIndexCreate(&g->index));
    CUVS(w, cuvsCagraBuild(w->resources, params, g->dataset, g->index));
    CUVS(w, cuvsStreamSync(w->resources));
    return BW_CUVS_DONE;
}

static bw_cuvs_outcome graph_build(bw_cuvs_worker *w, const bw_cuvs_job *j)
{
    cuvsCagraIndexParams_t params = NULL;
    CUVS(w, cuvsCagraIndexParamsCreate(&params));
    const bw_cuvs_outcome how = graph_make(w, j->graph, params, j->n);
    (void)w->api->cuvsCagraIndexParamsDestroy(params);
    return how;
}

static bw_cuvs_outcome graph_drop(bw_cuvs_worker *w, bw_cuvs_graph *g)
{
    if (g->index)
        (void)w->api->cuvsCagraIndexDestroy(g->index);
    if (g->dataset)
        (void)w->api->cuvsDatasetDestroy(g->dataset);
    if (g->filter)
        (void)w->api->cuMemFree_v2(g->filter);
    (void)w->api->cuMemFree_v2(g->vectors);
    atomic_fetch_sub_explicit(&bw_cuvs__counts.device_bytes, bw_cuvs__bytes(g),
                              memory_order_relaxed);
    return BW_CUVS_DONE;
}

/* ---- searching ---- */

size_t bw_cuvs__batch_max(const bw_cuvs_job *j)
{
    if (j->kind != BW_CUVS_JOB_SEARCH)
        return 1;
    const size_t fit = SLAB_QUERY_BYTES / (j->graph->stride * sizeof(float));
    return fit < BW_CUVS_BATCH_MAX ? fit : BW_CUVS_BATCH_MAX;
}

/* One filter serves all queries of a call, so only equal ones may meet in it. */
bool bw_cuvs__may_share(const bw_cuvs_job *a, const bw_cuvs_job *b)
{
    if (a->kind != BW_CUVS_JOB_SEARCH || b->kind != BW_CUVS_JOB_SEARCH ||
        a->graph != b->graph || a->itopk != b->itopk || a->wanted != b->wanted ||
        !a->words != !b->words)
        return false;
    return !a->words ||
           memcmp(a->words, b->words, a->graph->nwords * sizeof *a->words) == 0;
}

/* The device's copy of the filter. Row i is bit i & 31 of the 32-bit word i >> 5, which
 * is what our 64-bit words are on a little-endian machine; bits past n are 0. */
static bw_cuvs_outcome filter_send(bw_cuvs_worker *w, bw_cuvs_graph *g,
                                   const uint64_t *words)
{
    const size_t bytes = g->nwords * sizeof *words;
    if (g->filter_known && memcmp(g->filter_host, words, bytes) == 0)
        return BW_CUVS_DONE;
    g->filter_known = false;
    memcpy(g->filter_host, words, bytes);
    CUDA(w, cuMemcpyHtoDAsync_v2(g->filter, g->filter_host, bytes, w->stream));
    return BW_CUVS_DONE;
}

static bw_cuvs_outcome search_once(bw_cuvs_worker *w, bw_cuvs_job *const *jobs, size_t n)
{
    bw_cuvs_graph *g = jobs[0]->graph;
    const size_t row = g->stride * sizeof(float), wanted = jobs[0]->wanted;
    const size_t places = n * wanted;
    const CUdeviceptr rows = w->device_slab + SLAB_QUERY_BYTES,
                      scores = rows + SLAB_PLACES * sizeof(uint32_t);
    char *rows_host = w->slab + SLAB_QUERY_BYTES,
         *scores_host = rows_host + SLAB_PLACES * sizeof(uint32_t);
    assert(n * row <= SLAB_QUERY_BYTES && places <= SLAB_PLACES);
    for (size_t i = 0; i < n; i++)
        memcpy(w->slab + i * row, jobs[i]->data, row);
    CUDA(w, cuMemcpyHtoDAsync_v2(w->device_slab, w->slab, n * row, w->stream));
    CUDA(w, cuMemsetD32Async(rows, BW_CUVS_NONE, places, w->stream));
    CUDA(w, cuMemsetD32Async(scores, FLT_MAX_BITS, places, w->stream));
    tensor q, r, s, f;
    cuvsFilter filter = {0, NO_FILTER};
    if (jobs[0]->words) {
        const bw_cuvs_outcome sent = filter_send(w, g, jobs[0]->words);
        if (sent != BW_CUVS_DONE)
            return sent;
        filter.addr =
            (uintptr_t)tensor_of(&f, g->filter, kDLUInt, (g->n + 31) / 32, 0);
        filter.type = BITSET;
    }
    w->params->itopk_size = jobs[0]->itopk;
    CUVS(w, cuvsCagraSearch(w->resources, w->params, g->index,
                            tensor_of(&q, w->device_slab, kDLFloat, n, g->stride),
                            tensor_of(&r, rows, kDLUInt, n, wanted),
                            tensor_of(&s, scores, kDLFloat, n, wanted), filter));
    CUDA(w, cuMemcpyDtoHAsync_v2(rows_host, rows, places * sizeof(uint32_t), w->stream));
    CUDA(w, cuMemcpyDtoHAsync_v2(scores_host, scores, places * sizeof(float), w->stream));
    CUVS(w, cuvsStreamSync(w->resources));
    g->filter_known = g->filter_known || jobs[0]->words;
    for (size_t i = 0; i < n; i++) {
        bw_cuvs_hits *h = jobs[i]->hits;
        h->n = (uint32_t)wanted;
        memcpy(h->rows, rows_host + i * wanted * sizeof(uint32_t),
               wanted * sizeof(uint32_t));
        memcpy(h->scores, scores_host + i * wanted * sizeof(float),
               wanted * sizeof(float));
    }
    return BW_CUVS_DONE;
}

static bw_cuvs_outcome search(bw_cuvs_worker *w, bw_cuvs_job *const *jobs, size_t n)
{
    bw_cuvs_outcome how = search_once(w, jobs, n);
    if (how == BW_CUVS_FULL) /* somebody else's burst; once more, then the CPU */
        how = search_once(w, jobs, n);
    if (how == BW_CUVS_DONE) {
        bw_cuvs__count(&bw_cuvs__counts.batches, 1);
        bw_cuvs__count(&bw_cuvs__counts.searches, n);
    }
    return how;
}

bw_cuvs_outcome bw_cuvs__work(bw_cuvs_worker *w, bw_cuvs_job *const *jobs, size_t n)
{
    w->what[0] = 0;
    switch (jobs[0]->kind) {
    case BW_CUVS_JOB_OPEN:
        return graph_open(w, jobs[0]->graph);
    case BW_CUVS_JOB_PUT:
        return graph_put(w, jobs[0]);
    case BW_CUVS_JOB_BUILD:
        return graph_build(w, jobs[0]);
    case BW_CUVS_JOB_SEARCH:
        return search(w, jobs, n);
    case BW_CUVS_JOB_DROP:
    default:
        return graph_drop(w, jobs[0]->graph);
    }
}
