/* The host side of the module: one opened device, its memory, what is uploaded.
 *
 * One stream uploads, one stream serves each batch in flight. A batch waits (on the device)
 * for the last upload that was asked for before it. What is freed while a batch reads it
 * is only marked, and goes with the last such batch. Everything is plain C in style: no
 * exceptions, no containers; the cell's allocator is out of reach here, so libc's is used. */
#ifndef BW_CUDA_HOST_CUH
#define BW_CUDA_HOST_CUH
#include <cstdio>
#include <cstdlib>

#include "cuda_select.cuh"

enum {
    UPLOAD_ROWS_MAX = BW_GPU_UPLOAD_ROWS_MAX,
    PLACE = 256 /* alignment of parts of a work area */
};

struct bw_gpu_segment {
    bw_gpu_shape shape;
    uint32_t form_stride, stored_stride;
    uint32_t uses;  /* batches in flight that read it */
    bool dying;     /* freed by the host while in use */
    uint8_t *form, *stored; /* the same but for f32 */
    float2 *factors, *norms, *bounds;
    bw_gpu_segment *next, *prev;
};

struct bw_gpu_bits {
    uint32_t *words;
    uint32_t nbits, uses;
    bool dying;
    bw_gpu_bits *next, *prev;
};

struct upload_slab {
    uint8_t *pinned; /* BW_GPU_UPLOAD_MAX bytes, then UPLOAD_ROWS_MAX scales */
    float *scales;   /* UPLOAD_ROWS_MAX floats on the device */
    cudaEvent_t done;
};

enum ticket_state { TICKET_FREE, TICKET_FLYING, TICKET_LEFT /* released before it was done */ };

struct bw_gpu_ticket {
    ticket_state state;
    cudaStream_t stream;
    cudaEvent_t first, last;
    uint8_t *pinned, *device; /* options' bytes each */
    bw_gpu_answer *answers;   /* in pinned */
    bw_gpu_hit *hits;
    uint32_t nq, hits_max;
    bw_gpu_segment **segments; /* what it reads: one entry an item, a read */
    bw_gpu_bits **bits;
    uint32_t nsegments, nbits;
};

struct shape_info { /* one instance of the pass kernel */
    void (*kernel)(pass_launch);
    uint32_t queries, rows, threads, shared, blocks; /* blocks resident on the device */
};
enum { NSHAPES = 3, NFORMS = 3 };

struct bw_gpu {
    int device;
    bool lost, pooled;
    uint64_t workspace, pinned;
    cudaStream_t up;
    cudaEvent_t uploaded;
    upload_slab slabs[2];
    uint32_t slab;
    bw_gpu_ticket tickets[BW_GPU_INFLIGHT_MAX];
    shape_info shapes[NFORMS][NSHAPES];
    bw_gpu_segment *segments;
    bw_gpu_bits *all_bits;
    char error[BW_GPU_TEXT_MAX];
};

/* ---- errors ---- */

static bw_gpu_status gpu_fail(bw_gpu *g, cudaError_t e, const char *what)
{
    if (e == cudaErrorNotReady)
        return BW_GPU_AGAIN;
    (void)cudaGetLastError(); /* what is not sticky is forgotten */
    (void)snprintf(g->error, sizeof g->error, "%s: %s", what, cudaGetErrorName(e));
    if (e == cudaErrorMemoryAllocation)
        return BW_GPU_NOMEM;
    g->lost = true; /* sticky or not understood: both end the use of the device */
    return BW_GPU_LOST;
}

static bw_gpu_status gpu_wrong(bw_gpu *g, bw_gpu_status s, const char *what)
{
    (void)snprintf(g->error, sizeof g->error, "%s", what);
    return s;
}

static bw_gpu_status gpu_enter(bw_gpu *g)
{
    if (g->lost)
        return BW_GPU_LOST;
    const cudaError_t e = cudaSetDevice(g->device);
    return e == cudaSuccess ? BW_GPU_OK : gpu_fail(g, e, "device");
}

#define TRY(g, call, what) \
    do { \
        const cudaError_t e_ = (call); \
        if (e_ != cudaSuccess) \
            return gpu_fail((g), e_, (what)); \
    } while (0)

/* ---- memory, in the order of the upload stream ---- */

static cudaError_t device_alloc(bw_gpu *g, void **out, size_t bytes)
{
    *out = NULL;
    return g->pooled ? cudaMallocAsync(out, bytes, g->up) : cudaMalloc(out, bytes);
}

static void device_free(bw_gpu *g, void *p)
{
    if (!p || g->lost)
        return;
    (void)(g->pooled ? cudaFreeAsync(p, g->up) : cudaFree(p));
}

static bw_gpu_status gpu_memory(bw_gpu *g, uint64_t *free_bytes, uint64_t *total_bytes)
{
    const bw_gpu_status s = gpu_enter(g);
    size_t left = 0, all = 0;
    uint64_t reserved = 0, used = 0;
    cudaMemPool_t pool;
    if (s != BW_GPU_OK)
        return s;
    TRY(g, cudaMemGetInfo(&left, &all), "memory");
    if (g->pooled && cudaDeviceGetDefaultMemPool(&pool, g->device) == cudaSuccess) {
        (void)cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved);
        (void)cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used);
    }
    *free_bytes = left + (reserved > used ? reserved - used : 0);
    *total_bytes = all;
    return BW_GPU_OK;
}

/* ---- segments ---- */

struct segment_layout {
    uint32_t form_stride, stored_stride;
    uint64_t form, stored, rows, bytes; /* bytes of each part, and together */
};

static bool segment_plan(const bw_gpu_shape *s, segment_layout *out)
{
    if (s->dtype >= BW_GPU_NDTYPES || s->dim == 0 || s->dim > BW_GPU_DIM_MAX ||
        s->metric >= BW_CUDA_METRIC_MANHATTAN || s->rows == 0 || s->rows % BW_GPU_GROUP != 0 ||
        s->rows > UINT32_MAX / 2)
        return false;
    out->form_stride = bw_cuda_stride(s->dim, bw_cuda_form_bytes(s->dtype));
    out->stored_stride = s->dtype == BW_GPU_F32 ? bw_cuda_stride(s->dim, 4) : out->form_stride;
    out->form = (uint64_t)s->rows * out->form_stride;
    out->stored = s->dtype == BW_GPU_F32 ? (uint64_t)s->rows * out->stored_stride : 0;
    out->rows = (uint64_t)s->rows * sizeof(float2);
    out->bytes = out->form + out->stored + 2 * out->rows + out->rows / BW_GPU_GROUP;
    return true;
}

static uint64_t gpu_segment_bytes(const bw_gpu_shape *shape)
{
    segment_layout l;
    return segment_plan(shape, &l) ? l.bytes : 0;
}

static void segment_drop(bw_gpu *g, bw_gpu_segment *s)
{
    *(s->prev ? &s->prev->next : &g->segments) = s->next;
    if (s->next)
        s->next->prev = s->prev;
    device_free(g, s->form);
    free(s);
}

/* One block of memory: form, stored, factors, norms, bounds; zeroed, as padding must be. */
static bw_gpu_status gpu_segment_new(bw_gpu *g, const bw_gpu_shape *shape, bw_gpu_segment **out)
{
    segment_layout l;
    const bw_gpu_status in = gpu_enter(g);
    void *block;
    if (in != BW_GPU_OK)
        return in;
    if (shape->metric == BW_CUDA_METRIC_MANHATTAN)
        return gpu_wrong(g, BW_GPU_UNSUPPORTED, "segment: metric");
    if (!segment_plan(shape, &l))
        return gpu_wrong(g, BW_GPU_INVALID, "segment: shape");
    bw_gpu_segment *s = (bw_gpu_segment *)calloc(1, sizeof *s);
    if (!s)
        return gpu_wrong(g, BW_GPU_NOMEM, "segment: host memory");
    cudaError_t e = device_alloc(g, &block, l.bytes);
    if (e == cudaSuccess)
        e = cudaMemsetAsync(block, 0, l.bytes, g->up);
    if (e == cudaSuccess)
        e = cudaEventRecord(g->uploaded, g->up);
    if (e != cudaSuccess) {
        free(s);
        return gpu_fail(g, e, "segment");
    }
    s->shape = *shape;
    s->form_stride = l.form_stride;
    s->stored_stride = l.stored_stride;
    s->form = (uint8_t *)block;
    s->stored = l.stored ? s->form + l.form : s->form;
    s->factors = (float2 *)(s->form + l.form + l.stored); /* strides are multiples of 64 */
    s->norms = s->factors + shape->rows;
    s->bounds = s->norms + shape->rows;
    s->next = g->segments;
    if (s->next)
        s->next->prev = s;
    g->segments = s;
    *out = s;
    return BW_GPU_OK;
}

static void gpu_segment_free(bw_gpu *g, bw_gpu_segment *s)
{
    if (!s)
        return;
    s->dying = true;
    if (s->uses == 0 && (g->lost || gpu_enter(g) == BW_GPU_OK))
        segment_drop(g, s);
}

/* The next slab when its last copy is through. */
static bw_gpu_status slab_take(bw_gpu *g, upload_slab **out)
{
    upload_slab *s = &g->slabs[g->slab];
    TRY(g, cudaEventQuery(s->done), "upload");
    *out = s;
    return BW_GPU_OK;
}

static bw_gpu_status slab_sent(bw_gpu *g, upload_slab *s)
{
    TRY(g, cudaEventRecord(s->done, g->up), "upload");
    TRY(g, cudaEventRecord(g->uploaded, g->up), "upload");
    g->slab ^= 1;
    return BW_GPU_OK;
}

static uint32_t dtype_bytes(uint32_t dtype)
{
    return dtype == BW_GPU_F32 ? 4 : dtype == BW_GPU_I8 ? 1 : 2;
}

static bw_gpu_status rows_prepare(bw_gpu *g, bw_gpu_segment *s, const upload_slab *slab, uint32_t row0,
                                  uint32_t n)
{
    enum { WARPS = 8 };
    rows_launch p = {};
    p.stored = s->stored + (size_t)row0 * s->stored_stride;
    p.form = s->form + (size_t)row0 * s->form_stride;
    p.scales = slab->scales;
    p.factors = s->factors + row0;
    p.norms = s->norms + row0;
    p.n = n;
    p.dim = s->shape.dim;
    p.dtype = s->shape.dtype;
    p.euclid = s->shape.metric == BW_CUDA_METRIC_EUCLID;
    p.stored_stride = s->stored_stride;
    p.form_stride = s->form_stride;
    BW_CUDA_LAUNCH(bw_cuda_rows, (n + WARPS - 1) / WARPS, WARPS * 32, 0, g->up, p);
    const uint32_t g0 = row0 / BW_GPU_GROUP, g1 = (row0 + n - 1) / BW_GPU_GROUP + 1;
    BW_CUDA_LAUNCH(bw_cuda_groups, (g1 - g0 + WARPS - 1) / WARPS, WARPS * 32, 0, g->up,
        s->norms + (size_t)g0 * BW_GPU_GROUP, s->bounds + g0, g1 - g0);
    TRY(g, cudaGetLastError(), "prepare rows");
    return BW_GPU_OK;
}

static bw_gpu_status gpu_segment_write(bw_gpu *g, bw_gpu_segment *s, uint32_t row0, const void *rows,
                                       const float *scales, uint32_t n)
{
    bw_gpu_status st = gpu_enter(g);
    upload_slab *slab;
    if (st != BW_GPU_OK)
        return st;
    const size_t width = (size_t)s->shape.dim * dtype_bytes(s->shape.dtype), bytes = width * n;
    if (n == 0 || n > UPLOAD_ROWS_MAX || row0 > s->shape.rows || n > s->shape.rows - row0 ||
        bytes > BW_GPU_UPLOAD_MAX || (!scales) != (s->shape.dtype != BW_GPU_I8))
        return gpu_wrong(g, BW_GPU_INVALID, "segment: rows written");
    st = slab_take(g, &slab);
    if (st != BW_GPU_OK)
        return st;
    memcpy(slab->pinned, rows, bytes);
    TRY(g,
        cudaMemcpy2DAsync(s->stored + (size_t)row0 * s->stored_stride, s->stored_stride, slab->pinned,
                          width, width, n, cudaMemcpyHostToDevice, g->up),
        "upload");
    if (scales) {
        float *at = (float *)(slab->pinned + BW_GPU_UPLOAD_MAX);
        memcpy(at, scales, n * sizeof *scales);
        TRY(g, cudaMemcpyAsync(slab->scales, at, n * sizeof *at, cudaMemcpyHostToDevice, g->up), "upload");
    }
    st = rows_prepare(g, s, slab, row0, n);
    return st == BW_GPU_OK ? slab_sent(g, slab) : st;
}

/* ---- bitsets ---- */

static void bits_drop(bw_gpu *g, bw_gpu_bits *b)
{
    *(b->prev ? &b->prev->next : &g->all_bits) = b->next;
    if (b->next)
        b->next->prev = b->prev;
    device_free(g, b->words);
    free(b);
}

static bw_gpu_status gpu_bits_new(bw_gpu *g, const uint64_t *words, uint32_t nbits, bw_gpu_bits **out)
{
    bw_gpu_status st = gpu_enter(g);
    upload_slab *slab;
    void *block;
    const size_t n = ((size_t)nbits + 63) / 64, bytes = n * sizeof *words;
    if (st != BW_GPU_OK)
        return st;
    if (nbits == 0 || bytes > BW_GPU_UPLOAD_MAX)
        return gpu_wrong(g, BW_GPU_INVALID, "bits: size");
    st = slab_take(g, &slab);
    if (st != BW_GPU_OK)
        return st;
    bw_gpu_bits *b = (bw_gpu_bits *)calloc(1, sizeof *b);
    if (!b)
        return gpu_wrong(g, BW_GPU_NOMEM, "bits: host memory");
    const cudaError_t e = device_alloc(g, &block, bytes);
    if (e != cudaSuccess) {
        free(b);
        return gpu_fail(g, e, "bits");
    }
    b->words = (uint32_t *)block;
    b->nbits = nbits;
    b->next = g->all_bits;
    if (b->next)
        b->next->prev = b;
    g->all_bits = b;
    memcpy(slab->pinned, words, bytes);
    if (nbits % 64)
        ((uint64_t *)slab->pinned)[n - 1] &= (1ull << nbits % 64) - 1;
    TRY(g, cudaMemcpyAsync(b->words, slab->pinned, bytes, cudaMemcpyHostToDevice, g->up), "bits");
    st = slab_sent(g, slab);
    if (st == BW_GPU_OK)
        *out = b;
    return st; /* else the device is lost, and close frees what is listed */
}

static void gpu_bits_free(bw_gpu *g, bw_gpu_bits *b)
{
    if (!b)
        return;
    b->dying = true;
    if (b->uses == 0 && (g->lost || gpu_enter(g) == BW_GPU_OK))
        bits_drop(g, b);
}

/* ---- what a batch holds ---- */

static void ticket_let_go(bw_gpu *g, bw_gpu_ticket *t)
{
    for (uint32_t i = 0; i < t->nsegments; i++)
        if (--t->segments[i]->uses == 0 && t->segments[i]->dying)
            segment_drop(g, t->segments[i]);
    for (uint32_t i = 0; i < t->nbits; i++)
        if (--t->bits[i]->uses == 0 && t->bits[i]->dying)
            bits_drop(g, t->bits[i]);
    free(t->segments);
    free(t->bits);
    t->segments = NULL;
    t->bits = NULL;
    t->nsegments = t->nbits = 0;
    t->state = TICKET_FREE;
}

static bool ticket_hold(bw_gpu_ticket *t, const bw_gpu_batch *b)
{
    t->segments = (bw_gpu_segment **)calloc(b->nitems, sizeof *t->segments);
    t->bits = (bw_gpu_bits **)calloc(b->nreads, sizeof *t->bits);
    if (!t->segments || !t->bits) {
        free(t->segments);
        free(t->bits);
        t->segments = NULL;
        t->bits = NULL;
        return false;
    }
    for (uint32_t i = 0; i < b->nitems; i++) {
        t->segments[i] = (bw_gpu_segment *)b->items[i].segment;
        t->segments[i]->uses++;
    }
    t->nsegments = b->nitems;
    for (uint32_t i = 0; i < b->nreads; i++)
        if (b->reads[i].bits) {
            t->bits[t->nbits] = (bw_gpu_bits *)b->reads[i].bits;
            t->bits[t->nbits++]->uses++;
        }
    return true;
}

static void gpu_release(bw_gpu *g, bw_gpu_ticket *t)
{
    if (!t || t->state == TICKET_FREE)
        return;
    if (!g->lost && (gpu_enter(g) != BW_GPU_OK || cudaEventQuery(t->last) == cudaErrorNotReady)) {
        t->state = TICKET_LEFT;
        return;
    }
    ticket_let_go(g, t);
}

/* A free ticket; those that were left early are looked at again. */
static bw_gpu_ticket *ticket_take(bw_gpu *g)
{
    for (int i = 0; i < BW_GPU_INFLIGHT_MAX; i++) {
        bw_gpu_ticket *t = &g->tickets[i];
        if (t->state == TICKET_LEFT && cudaEventQuery(t->last) == cudaSuccess)
            ticket_let_go(g, t);
        if (t->state == TICKET_FREE)
            return t;
    }
    return NULL;
}
#endif
