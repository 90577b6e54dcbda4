/* See gpu_double.h. One lock over everything: it is a double, not a device. */
#include "gpu_double.h"
#include "../../engine/index/cuda_arith.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HOLD_PAUSE_NS = 100 * 1000, GARBAGE = 0xA5 };

struct bw_gpu_segment {
    bw_gpu *gpu;
    bw_gpu_shape shape;
    uint64_t bytes;
    uint8_t *stored;
    float *rows, *form; /* decoded; as the first pass sees it */
    bw_cuda_row *factors;
    bool *written;
    uint32_t users; /* batches in flight */
    bool dying;
};

struct bw_gpu_bits {
    bw_gpu *gpu;
    uint64_t *words;
    uint32_t nbits, users;
    bool dying;
};

struct bw_gpu_ticket {
    bw_gpu *gpu;
    bool used;
    bw_gpu_batch batch; /* items, reads and queries are copies */
    bw_gpu_answer *answers;
    bw_gpu_hit *hits;
    uint32_t groups_max, hits_max;
};

struct bw_gpu {
    bool lost;
    pthread_t thread;
    uint64_t bytes;
    bw_gpu_ticket tickets[BW_GPU_INFLIGHT_MAX];
    char error[BW_GPU_TEXT_MAX];
};

typedef struct fault {
    long countdown; /* -1: none */
    bw_gpu_status status;
    bool lasts;
} fault;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t ndevices;
static uint64_t memory_bytes, now_ns;
static gpu_double_counts counts;
static fault faults[GPU_DOUBLE_NCALLS];
static bool held;
static gpu_double_lie lie;
static long uncover;
static void (*read_hook)(void *arg, const void *row, const float *query);
static void *read_arg;

/* ---- the test's ---- */

void gpu_double_reset(uint32_t devices, uint64_t memory)
{
    pthread_mutex_lock(&lock);
    ndevices = devices;
    memory_bytes = memory;
    now_ns = 0;
    counts = (gpu_double_counts){0};
    for (int i = 0; i < GPU_DOUBLE_NCALLS; i++)
        faults[i] = (fault){-1, BW_GPU_OK, false};
    held = false;
    lie = GPU_DOUBLE_TRUTH;
    uncover = 0;
    read_hook = NULL;
    pthread_mutex_unlock(&lock);
}

gpu_double_counts gpu_double_get(void)
{
    pthread_mutex_lock(&lock);
    const gpu_double_counts out = counts;
    pthread_mutex_unlock(&lock);
    return out;
}

void gpu_double_fail(gpu_double_call call, long nth, bw_gpu_status status, bool lasts)
{
    pthread_mutex_lock(&lock);
    faults[call] = (fault){nth, status, lasts};
    pthread_mutex_unlock(&lock);
}

void gpu_double_hold(bool hold)
{
    pthread_mutex_lock(&lock);
    held = hold;
    pthread_mutex_unlock(&lock);
}

void gpu_double_lie_next(gpu_double_lie which)
{
    pthread_mutex_lock(&lock);
    lie = which;
    pthread_mutex_unlock(&lock);
}

void gpu_double_uncover(long n)
{
    pthread_mutex_lock(&lock);
    uncover = n;
    pthread_mutex_unlock(&lock);
}

void gpu_double_on_read(void (*on_read)(void *arg, const void *row, const float *query), void *arg)
{
    pthread_mutex_lock(&lock);
    read_hook = on_read;
    read_arg = arg;
    pthread_mutex_unlock(&lock);
}

uint64_t gpu_double_clock(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    const uint64_t out = now_ns;
    pthread_mutex_unlock(&lock);
    return out;
}

void gpu_double_clock_add(uint64_t ns)
{
    pthread_mutex_lock(&lock);
    now_ns += ns;
    pthread_mutex_unlock(&lock);
}

/* ---- helpers; the lock is held ---- */

static bw_gpu_status wrong(bw_gpu *g, const char *what)
{
    counts.wrong++;
    snprintf(g->error, sizeof g->error, "%s", what);
    fprintf(stderr, "gpu_double: %s\n", what);
    return BW_GPU_INVALID;
}

/* Counts the call and gives its fault, if one is due. */
static bw_gpu_status enter(bw_gpu *g, gpu_double_call call)
{
    fault *f = &faults[call];
    counts.calls[call]++;
    if (g && !pthread_equal(g->thread, pthread_self()))
        return wrong(g, "a call from another thread than the opener's");
    if (g && g->lost)
        return wrong(g, "a call after the device was lost");
    if (f->countdown < 0)
        return BW_GPU_OK;
    if (f->countdown > 0) {
        f->countdown--;
        return BW_GPU_OK;
    }
    if (!f->lasts)
        f->countdown = -1;
    if (g && f->status == BW_GPU_LOST)
        g->lost = true;
    return f->status;
}

static bool room(bw_gpu *g, uint64_t bytes)
{
    if (g->bytes + bytes > memory_bytes)
        return false;
    g->bytes += bytes;
    counts.bytes += bytes;
    if (counts.bytes > counts.bytes_most)
        counts.bytes_most = counts.bytes;
    return true;
}

static void room_back(bw_gpu *g, uint64_t bytes)
{
    g->bytes -= bytes;
    counts.bytes -= bytes;
}

static size_t row_bytes(const bw_gpu_shape *s)
{
    return (size_t)s->dim * (s->dtype == BW_GPU_F32 ? 4 : s->dtype == BW_GPU_I8 ? 1 : 2);
}

static void segment_end(bw_gpu_segment *s)
{
    room_back(s->gpu, s->bytes);
    counts.segments--;
    free(s->stored);
    free(s->rows);
    free(s->form);
    free(s->factors);
    free(s->written);
    free(s);
}

static void bits_end(bw_gpu_bits *b)
{
    room_back(b->gpu, b->nbits / 8 + 8);
    counts.bits--;
    free(b->words);
    free(b);
}

/* ---- devices ---- */

static void d_probe(bw_gpu_probe *out)
{
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&lock);
    out->reason = ndevices ? BW_GPU_READY : BW_GPU_NO_DEVICE;
    out->ndevices = ndevices;
    snprintf(out->text, sizeof out->text, "%u doubles", ndevices);
    for (uint32_t i = 0; i < ndevices; i++) {
        out->devices[i].index = i;
        out->devices[i].reason = BW_GPU_READY;
        out->devices[i].memory_total = memory_bytes;
        snprintf(out->devices[i].name, sizeof out->devices[i].name, "double %u", i);
    }
    pthread_mutex_unlock(&lock);
}

static bw_gpu_status d_open(const bw_gpu_options *o, bw_gpu **out, uint32_t *reason,
                            char text[BW_GPU_TEXT_MAX])
{
    pthread_mutex_lock(&lock);
    bw_gpu_status st = enter(NULL, GPU_DOUBLE_OPEN);
    *reason = st == BW_GPU_OK ? BW_GPU_READY : BW_GPU_FAILED;
    snprintf(text, BW_GPU_TEXT_MAX, "double %u", o->device);
    if (st == BW_GPU_OK) {
        bw_gpu *g = calloc(1, sizeof *g);
        g->thread = pthread_self();
        counts.contexts++;
        *out = g;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

static void ticket_end(bw_gpu_ticket *t)
{
    for (uint32_t i = 0; i < t->batch.nitems; i++) {
        bw_gpu_segment *s = (bw_gpu_segment *)(uintptr_t)t->batch.items[i].segment;
        if (--s->users == 0 && s->dying)
            segment_end(s);
    }
    for (uint32_t i = 0; i < t->batch.nreads; i++) {
        bw_gpu_bits *b = (bw_gpu_bits *)(uintptr_t)t->batch.reads[i].bits;
        if (b && --b->users == 0 && b->dying)
            bits_end(b);
    }
    free((void *)(uintptr_t)t->batch.items);
    free((void *)(uintptr_t)t->batch.reads);
    free((void *)(uintptr_t)t->batch.queries);
    free(t->answers);
    free(t->hits);
    memset(t, 0, sizeof *t);
    counts.tickets--;
}

/* The host gives back its segments and bits before, but for a lost device: those the
 * double remembers by counts alone, so they are not freed; tests look at `segments`. */
typedef struct owned {
    bw_gpu *gpu;
    void *what;
    bool bits;
    struct owned *next;
} owned;
static owned *owned_first;

static void own(bw_gpu *g, void *what, bool bits)
{
    owned *o = malloc(sizeof *o);
    *o = (owned){g, what, bits, owned_first};
    owned_first = o;
}

static void disown(const void *what)
{
    owned **at = &owned_first;
    while (*at && (*at)->what != what)
        at = &(*at)->next;
    if (*at) {
        owned *o = *at;
        *at = o->next;
        free(o);
    }
}

static void d_close(bw_gpu *g)
{
    if (!g)
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BW_GPU_INFLIGHT_MAX; i++)
        if (g->tickets[i].used)
            ticket_end(&g->tickets[i]);
    for (owned **at = &owned_first; *at;) {
        owned *o = *at;
        if (o->gpu != g) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        if (o->bits)
            bits_end(o->what);
        else
            segment_end(o->what);
        free(o);
    }
    counts.contexts--;
    free(g);
    pthread_mutex_unlock(&lock);
}

static bw_gpu_status d_memory(bw_gpu *g, uint64_t *available, uint64_t *total)
{
    pthread_mutex_lock(&lock);
    *available = memory_bytes - g->bytes;
    *total = memory_bytes;
    pthread_mutex_unlock(&lock);
    return BW_GPU_OK;
}

static const char *d_last_error(const bw_gpu *g)
{
    return g->error;
}

/* ---- segments and bits ---- */

static uint64_t d_segment_bytes(const bw_gpu_shape *s)
{
    if (s->dim == 0 || s->dim > BW_GPU_DIM_MAX || s->rows % BW_GPU_GROUP != 0 ||
        s->metric == BW_CUDA_METRIC_MANHATTAN)
        return 0;
    return (uint64_t)s->rows * row_bytes(s);
}

static bw_gpu_status d_segment_new(bw_gpu *g, const bw_gpu_shape *shape, bw_gpu_segment **out)
{
    const size_t n = (size_t)shape->rows * shape->dim;
    pthread_mutex_lock(&lock);
    bw_gpu_status st = enter(g, GPU_DOUBLE_SEGMENT_NEW);
    const uint64_t bytes = d_segment_bytes(shape);
    if (st == BW_GPU_OK && bytes == 0)
        st = wrong(g, "segment_new: shape");
    if (st == BW_GPU_OK && !room(g, bytes))
        st = BW_GPU_NOMEM;
    if (st == BW_GPU_OK) {
        bw_gpu_segment *s = calloc(1, sizeof *s);
        s->gpu = g;
        s->shape = *shape;
        s->bytes = bytes;
        s->stored = malloc(bytes);
        s->rows = malloc(n * sizeof(float));
        s->form = malloc(n * sizeof(float));
        s->factors = calloc(shape->rows, sizeof *s->factors);
        s->written = calloc(shape->rows, sizeof *s->written);
        counts.segments++;
        own(g, s, false);
        *out = s;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

static float decode(uint32_t dtype, const uint8_t *row, uint32_t i, float scale)
{
    uint16_t h;
    float f;
    switch (dtype) {
    case BW_GPU_F32:
        memcpy(&f, row + i * sizeof f, sizeof f);
        return f;
    case BW_GPU_I8:
        return bw_cuda_from_i8((int8_t)row[i], scale);
    default:
        memcpy(&h, row + i * sizeof h, sizeof h);
        return dtype == BW_GPU_F16 ? bw_cuda_from_f16(h) : bw_cuda_from_bf16(h);
    }
}

static float size_of(float x)
{
    const float a = fabsf(x);
    return a <= 0x1p126f ? a : INFINITY;
}

/* As bw_cuda_rows. */
static void row_prepare(bw_gpu_segment *s, uint32_t row, float scale)
{
    const uint32_t dtype = s->shape.dtype, dim = s->shape.dim;
    const uint8_t *stored = s->stored + row * row_bytes(&s->shape);
    float *x = s->rows + (size_t)row * dim, *form = s->form + (size_t)row * dim, most = 0;
    for (uint32_t i = 0; i < dim; i++) {
        x[i] = decode(dtype, stored, i, scale);
        most = fmaxf(most, size_of(x[i]));
    }
    const bool fine = bw_cuda_in_range(most);
    const float unit = dtype == BW_GPU_F32 && fine ? bw_cuda_unit(dtype, most) : 1;
    double x2 = 0, e2 = 0;
    for (uint32_t i = 0; i < dim; i++) {
        form[i] = !fine ? 0 : dtype != BW_GPU_F32 ? x[i] : bw_cuda_from_f16(bw_cuda_to_f16(x[i] / unit)) * unit;
        if (!fine)
            continue;
        const double e = (double)x[i] - (double)form[i];
        x2 += (double)x[i] * x[i];
        e2 += e * e;
    }
    s->factors[row] = bw_cuda_row_factors(dtype, s->shape.metric == BW_CUDA_METRIC_EUCLID, most,
                                          dtype == BW_GPU_I8 ? scale : unit, x2, e2);
    s->written[row] = true;
}

/* A batch in flight reads a row's group as a whole. */
static bool is_read(const bw_gpu *g, const bw_gpu_segment *s, uint32_t row0, uint32_t n)
{
    for (int t = 0; t < BW_GPU_INFLIGHT_MAX; t++)
        for (uint32_t i = 0; g->tickets[t].used && i < g->tickets[t].batch.nitems; i++) {
            const bw_gpu_item *it = &g->tickets[t].batch.items[i];
            const uint32_t end = (it->row0 + it->rows + BW_GPU_GROUP - 1) / BW_GPU_GROUP * BW_GPU_GROUP;
            if (it->segment == s && row0 < end && it->row0 < row0 + n)
                return true;
        }
    return false;
}

static bw_gpu_status d_segment_write(bw_gpu *g, bw_gpu_segment *s, uint32_t row0, const void *rows,
                                     const float *scales, uint32_t n)
{
    pthread_mutex_lock(&lock);
    bw_gpu_status st = enter(g, GPU_DOUBLE_SEGMENT_WRITE);
    const size_t bytes = n * row_bytes(&s->shape);
    if (st == BW_GPU_OK && (s->dying || n == 0 || n > BW_GPU_UPLOAD_ROWS_MAX || bytes > BW_GPU_UPLOAD_MAX ||
                            row0 > s->shape.rows || n > s->shape.rows - row0 ||
                            (s->shape.dtype == BW_GPU_I8) != (scales != NULL)))
        st = wrong(g, "segment_write: rows");
    if (st == BW_GPU_OK && is_read(g, s, row0, n))
        st = wrong(g, "segment_write: a batch in flight reads these rows");
    if (st == BW_GPU_OK) {
        memcpy(s->stored + row0 * row_bytes(&s->shape), rows, bytes);
        for (uint32_t i = 0; i < n; i++)
            row_prepare(s, row0 + i, scales ? scales[i] : 1);
    }
    pthread_mutex_unlock(&lock);
    return st;
}

static void d_segment_free(bw_gpu *g, bw_gpu_segment *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&lock);
    if (g->lost || s->dying)
        (void)wrong(g, "segment_free");
    disown(s);
    s->dying = true;
    if (s->users == 0)
        segment_end(s);
    pthread_mutex_unlock(&lock);
}

static bw_gpu_status d_bits_new(bw_gpu *g, const uint64_t *words, uint32_t nbits, bw_gpu_bits **out)
{
    const size_t n = (nbits + 63) / 64;
    pthread_mutex_lock(&lock);
    bw_gpu_status st = enter(g, GPU_DOUBLE_BITS_NEW);
    if (st == BW_GPU_OK && (nbits == 0 || n * 8 > BW_GPU_UPLOAD_MAX))
        st = wrong(g, "bits_new: size");
    if (st == BW_GPU_OK && !room(g, nbits / 8 + 8))
        st = BW_GPU_NOMEM;
    if (st == BW_GPU_OK) {
        bw_gpu_bits *b = calloc(1, sizeof *b);
        b->gpu = g;
        b->nbits = nbits;
        b->words = malloc(n * sizeof *words);
        memcpy(b->words, words, n * sizeof *words);
        counts.bits++;
        own(g, b, true);
        *out = b;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

static void d_bits_free(bw_gpu *g, bw_gpu_bits *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&lock);
    if (g->lost || b->dying)
        (void)wrong(g, "bits_free");
    disown(b);
    b->dying = true;
    if (b->users == 0)
        bits_end(b);
    pthread_mutex_unlock(&lock);
}

/* ---- one batch ---- */

static const char *check(const bw_gpu_batch *b)
{
    if (!b->queries || b->nq == 0 || b->nq > BW_GPU_BATCH_MAX || b->k == 0 || b->k > BW_GPU_K_MAX ||
        (b->hits_max && b->hits_max < b->k) || b->nitems == 0 || b->nitems > BW_GPU_ITEMS_MAX ||
        b->nreads == 0 || b->nreads > BW_GPU_READS_MAX)
        return "launch: sizes";
    const bw_gpu_shape *first = &b->items[0].segment->shape;
    bool *seen = calloc(b->nq, sizeof *seen);
    const char *what = NULL;
    for (uint32_t i = 0; i < b->nitems && !what; i++) {
        const bw_gpu_item *it = &b->items[i];
        const bw_gpu_shape *s = &it->segment->shape;
        if (it->segment->dying || s->dtype != first->dtype || s->dim != first->dim || s->metric != first->metric)
            what = "launch: shapes";
        else if (it->row0 % BW_GPU_GROUP || it->rows == 0 || it->row0 > s->rows || it->rows > s->rows - it->row0)
            what = "launch: rows";
        else if (it->nreads == 0 || it->read0 > b->nreads || it->nreads > b->nreads - it->read0)
            what = "launch: reads";
        for (uint32_t r = 0; !what && r < it->rows; r++)
            if (!it->segment->written[it->row0 + r])
                what = "launch: a row that was never written";
        for (uint32_t j = 0; !what && j < i; j++)
            if (b->items[j].segment == it->segment && b->items[j].row0 < it->row0 + it->rows &&
                it->row0 < b->items[j].row0 + b->items[j].rows)
                what = "launch: items overlap";
        memset(seen, 0, b->nq * sizeof *seen);
        for (uint32_t r = 0; !what && r < it->nreads; r++) {
            const bw_gpu_read *rd = &b->reads[it->read0 + r];
            if (rd->query >= b->nq || seen[rd->query])
                what = "launch: a query twice in one item";
            else if (rd->bits && (rd->bits->nbits < it->rows || rd->bits->dying))
                what = "launch: bits";
            else
                seen[rd->query] = true;
        }
    }
    free(seen);
    return what;
}

static void *copy(const void *p, size_t bytes)
{
    void *out = malloc(bytes);
    memcpy(out, p, bytes);
    return out;
}

static bw_gpu_status d_launch(bw_gpu *g, const bw_gpu_batch *b, bw_gpu_ticket **out)
{
    pthread_mutex_lock(&lock);
    bw_gpu_status st = enter(g, GPU_DOUBLE_LAUNCH);
    const char *what = st == BW_GPU_OK ? check(b) : NULL;
    bw_gpu_ticket *t = NULL;
    long flying = 1;
    for (int i = 0; i < BW_GPU_INFLIGHT_MAX; i++) {
        flying += g->tickets[i].used;
        t = g->tickets[i].used ? t : &g->tickets[i];
    }
    if (what)
        st = wrong(g, what);
    else if (st == BW_GPU_OK && !t)
        st = BW_GPU_AGAIN;
    if (st == BW_GPU_OK) {
        *t = (bw_gpu_ticket){.gpu = g, .used = true, .batch = *b};
        t->batch.items = copy(b->items, b->nitems * sizeof *b->items);
        t->batch.reads = copy(b->reads, b->nreads * sizeof *b->reads);
        t->batch.queries = copy(b->queries, (size_t)b->nq * b->items[0].segment->shape.dim * sizeof(float));
        for (uint32_t i = 0; i < b->nitems; i++)
            ((bw_gpu_segment *)(uintptr_t)b->items[i].segment)->users++;
        for (uint32_t i = 0; i < b->nreads; i++)
            if (b->reads[i].bits)
                ((bw_gpu_bits *)(uintptr_t)b->reads[i].bits)->users++;
        t->groups_max = (b->groups_max ? b->groups_max : b->k + b->k / 4 + 64);
        t->hits_max = b->hits_max ? b->hits_max : b->k + 32;
        t->answers = malloc(b->nq * sizeof *t->answers);
        t->hits = malloc((size_t)b->nq * t->hits_max * sizeof *t->hits);
        memset(t->answers, GARBAGE, b->nq * sizeof *t->answers);
        memset(t->hits, GARBAGE, (size_t)b->nq * t->hits_max * sizeof *t->hits);
        counts.tickets++;
        counts.inflight_most = flying > counts.inflight_most ? flying : counts.inflight_most;
        counts.last_nq = b->nq;
        counts.nq_all += b->nq;
        counts.nq_most = b->nq > counts.nq_most ? b->nq : counts.nq_most;
        counts.last_nitems = b->nitems;
        counts.last_nreads = b->nreads;
        *out = t;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

/* One group of one query. */
typedef struct group {
    float low, error;
    uint32_t item, first;
    const bw_gpu_bits *bits;
} group;

static bool may_read(const bw_gpu_item *it, const bw_gpu_bits *bits, uint32_t row)
{
    return row < it->rows && (!bits || (bits->words[row / 64] >> row % 64 & 1));
}

static group pass_group(const bw_gpu_item *it, uint32_t item, const bw_gpu_bits *bits, uint32_t first,
                        const bw_cuda_query *form, const float *qform)
{
    const bw_gpu_segment *s = it->segment;
    const uint32_t dim = s->shape.dim;
    const bool euclid = s->shape.metric == BW_CUDA_METRIC_EUCLID;
    float best = bw_cuda_absent(), gx = 0, ge = 0;
    for (uint32_t r = first; r < first + BW_GPU_GROUP; r++) {
        const uint32_t row = it->row0 + r;
        if (row < s->shape.rows) {
            gx = fmaxf(gx, s->factors[row].norm);
            ge = fmaxf(ge, s->factors[row].error);
        }
        if (!may_read(it, bits, r))
            continue;
        double sum = 0;
        for (uint32_t i = 0; i < dim; i++)
            sum += (double)qform[i] * (double)s->form[(size_t)row * dim + i];
        const float w = (float)((euclid ? 2 * sum : sum) + (double)s->factors[row].add);
        best = best != best || w > best ? w : best;
    }
    const float error = bw_cuda_group_error(form, gx, ge);
    return (group){best != best ? best : bw_cuda_group_low(best, error), error, item, first, bits};
}

static float canonical(const bw_gpu_segment *s, uint32_t row, const float *q)
{
    const bool euclid = s->shape.metric == BW_CUDA_METRIC_EUCLID;
    float sum[BW_CUDA_SUMS] = {0}, four[4];
    for (uint32_t i = 0; i < s->shape.dim; i++)
        sum[i % BW_CUDA_SUMS] = bw_cuda_step(euclid, q[i], s->rows[(size_t)row * s->shape.dim + i],
                                             sum[i % BW_CUDA_SUMS]);
    for (int i = 0; i < 4; i++)
        four[i] = bw_cuda_add(bw_cuda_add(sum[i], sum[i + 8]), bw_cuda_add(sum[i + 4], sum[i + 12]));
    return bw_cuda_key(euclid, bw_cuda_fold4(four));
}

static int falling(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x > y ? -1 : x < y;
}

/* The k-th largest of n, or -infinity. */
static float kth(const float *values, uint32_t n, uint32_t k)
{
    if (n < k)
        return -INFINITY;
    float *sorted = copy(values, n * sizeof *values);
    qsort(sorted, n, sizeof *sorted, falling);
    const float out = sorted[k - 1];
    free(sorted);
    return out;
}

static uint32_t groups_of(const bw_gpu_ticket *t, uint32_t q, const bw_cuda_query *form, const float *qform,
                          group **out)
{
    const bw_gpu_batch *b = &t->batch;
    uint32_t n = 0, cap = 0;
    *out = NULL;
    for (uint32_t i = 0; i < b->nitems; i++)
        for (uint32_t r = 0; r < b->items[i].nreads; r++) {
            const bw_gpu_read *rd = &b->reads[b->items[i].read0 + r];
            if (rd->query != q)
                continue;
            counts.reads++;
            if (read_hook)
                read_hook(read_arg, b->items[i].segment->stored,
                          b->queries + (size_t)q * b->items[i].segment->shape.dim);
            for (uint32_t at = 0; at < b->items[i].rows; at += BW_GPU_GROUP) {
                if (n == cap)
                    *out = realloc(*out, (cap = cap * 2 + 64) * sizeof **out);
                (*out)[n++] = pass_group(&b->items[i], i, rd->bits, at, form, qform);
            }
        }
    return n;
}

static void query_form(const bw_gpu_shape *s, const float *q, float *qform, bw_cuda_query *form)
{
    float most = 0;
    double q2 = 0, e2 = 0;
    for (uint32_t i = 0; i < s->dim; i++)
        most = fmaxf(most, size_of(q[i]));
    const bool fine = bw_cuda_in_range(most);
    const float unit = fine ? bw_cuda_unit(s->dtype, most) : 1;
    for (uint32_t i = 0; i < s->dim; i++) {
        uint16_t part[2];
        qform[i] = fine ? bw_cuda_query_parts(s->dtype, q[i], unit, part) : 0;
        if (!fine)
            continue;
        const double e = (double)q[i] - (double)qform[i];
        q2 += (double)q[i] * q[i];
        e2 += e * e;
    }
    *form = bw_cuda_query_bound(s->dtype, s->metric == BW_CUDA_METRIC_EUCLID, s->dim, most, unit, q2, e2);
}

/* Rescoring of the groups that reach, and the list. */
static void query_finish(bw_gpu_ticket *t, uint32_t q, const group *chosen, uint32_t n, bw_gpu_answer *a)
{
    const bw_gpu_batch *b = &t->batch;
    const float *query = b->queries + (size_t)q * b->items[0].segment->shape.dim;
    bw_gpu_hit *all = malloc(((size_t)n * BW_GPU_GROUP + 1) * sizeof *all);
    float *keys = malloc(((size_t)n * BW_GPU_GROUP + 1) * sizeof *keys);
    uint32_t m = 0;
    for (uint32_t g = 0; g < n; g++)
        for (uint32_t r = chosen[g].first; r < chosen[g].first + BW_GPU_GROUP; r++) {
            const bw_gpu_item *it = &b->items[chosen[g].item];
            if (!may_read(it, chosen[g].bits, r))
                continue;
            keys[m] = canonical(it->segment, it->row0 + r, query);
            all[m] = (bw_gpu_hit){keys[m], chosen[g].item, r};
            m++;
        }
    const float least = kth(keys, m, b->k);
    a->n = a->ties = 0;
    for (uint32_t i = m; i-- > 0;) /* in no order that anyone should rely on */
        if (all[i].key >= least && ++a->ties <= t->hits_max)
            t->hits[(size_t)q * t->hits_max + a->n++] = all[i];
    a->flags |= a->ties > t->hits_max ? (uint32_t)BW_GPU_MORE_HITS : 0u;
    free(all);
    free(keys);
}

static void query_run(bw_gpu_ticket *t, uint32_t q)
{
    const bw_gpu_shape *s = &t->batch.items[0].segment->shape;
    bw_gpu_answer *a = &t->answers[q];
    float *qform = malloc(s->dim * sizeof *qform);
    bw_cuda_query form;
    group *groups;
    query_form(s, t->batch.queries + (size_t)q * s->dim, qform, &form);
    const uint32_t n = groups_of(t, q, &form, qform, &groups);
    float *lows = malloc((n + 1) * sizeof *lows);
    uint32_t nlows = 0, chosen = 0, reach = 0;
    for (uint32_t i = 0; i < n; i++)
        if (groups[i].low == groups[i].low)
            lows[nlows++] = groups[i].low;
    const float tau = kth(lows, nlows, t->batch.k);
    *a = (bw_gpu_answer){0};
    for (uint32_t i = 0; i < n && !form.beyond; i++)
        if (bw_cuda_group_reaches(groups[i].low, groups[i].error, tau) && reach++ < t->groups_max)
            groups[chosen++] = groups[i];
    a->groups = reach;
    a->flags = (form.beyond ? (uint32_t)BW_GPU_BEYOND : 0u) |
               (reach > t->groups_max ? (uint32_t)BW_GPU_MORE_GROUPS : 0u);
    query_finish(t, q, groups, chosen, a);
    if (a->flags == 0)
        a->flags = BW_GPU_COVERED;
    free(lows);
    free(groups);
    free(qform);
}

/* A row that this query may not read, in one of the items that it may. */
static bool find_forbidden(const bw_gpu_ticket *t, uint32_t q, bw_gpu_hit *h)
{
    for (uint32_t i = 0; i < t->batch.nitems; i++)
        for (uint32_t r = 0; r < t->batch.items[i].nreads; r++) {
            const bw_gpu_read *rd = &t->batch.reads[t->batch.items[i].read0 + r];
            for (uint32_t row = 0; rd->query == q && row < t->batch.items[i].rows; row++)
                if (!may_read(&t->batch.items[i], rd->bits, row)) {
                    *h = (bw_gpu_hit){1, i, row};
                    return true;
                }
        }
    return false;
}

static void spoil(bw_gpu_ticket *t, uint32_t q)
{
    bw_gpu_answer *a = &t->answers[q];
    bw_gpu_hit *h = &t->hits[(size_t)q * t->hits_max];
    const gpu_double_lie which = lie;
    if (uncover != 0) {
        uncover -= uncover > 0;
        a->flags = BW_GPU_MORE_GROUPS;
        return;
    }
    if (which == GPU_DOUBLE_TRUTH || a->n == 0)
        return;
    lie = GPU_DOUBLE_TRUTH;
    if (which == GPU_DOUBLE_FORBIDDEN_ROW && !find_forbidden(t, q, h))
        lie = which; /* not with this one */
    if (which == GPU_DOUBLE_ROW_PAST_END)
        h->row = UINT32_MAX;
    if (which == GPU_DOUBLE_STRANGE_ITEM)
        h->item = t->batch.nitems;
    if (which == GPU_DOUBLE_NAN)
        h->key = bw_cuda_absent();
    if (which == GPU_DOUBLE_TWIN && a->n > 1)
        h[1] = h[0];
    else if (which == GPU_DOUBLE_TWIN)
        lie = which; /* not with this one */
    if (which == GPU_DOUBLE_SHORT)
        a->n = a->n > t->batch.k ? t->batch.k - 1 : a->n - 1;
    if (which == GPU_DOUBLE_NOT_FLAGGED)
        a->flags = 0;
}

static bw_gpu_status d_wait(bw_gpu *g, bw_gpu_ticket *t, uint64_t timeout_ns, bw_gpu_result *out)
{
    (void)timeout_ns;
    pthread_mutex_lock(&lock);
    bw_gpu_status st = enter(g, GPU_DOUBLE_WAIT);
    if (st == BW_GPU_OK && !t->used)
        st = wrong(g, "wait: no such batch");
    if (st == BW_GPU_OK && held)
        st = BW_GPU_TIMEOUT;
    for (uint32_t q = 0; st == BW_GPU_OK && q < t->batch.nq; q++) {
        query_run(t, q);
        spoil(t, q);
    }
    if (st == BW_GPU_OK)
        *out = (bw_gpu_result){t->batch.nq, t->hits_max, t->answers, t->hits, 0, 0};
    pthread_mutex_unlock(&lock);
    if (st == BW_GPU_TIMEOUT)
        nanosleep(&(struct timespec){0, HOLD_PAUSE_NS}, NULL);
    return st;
}

static bw_gpu_status d_poll(bw_gpu *g, bw_gpu_ticket *t, bw_gpu_result *out)
{
    const bw_gpu_status st = d_wait(g, t, 1, out);
    return st == BW_GPU_TIMEOUT ? BW_GPU_AGAIN : st;
}

static void d_release(bw_gpu *g, bw_gpu_ticket *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&lock);
    if (g->lost || !t->used)
        (void)wrong(g, "release");
    else
        ticket_end(t);
    pthread_mutex_unlock(&lock);
}

static bw_gpu_status d_wipe(bw_gpu *g)
{
    (void)g;
    return BW_GPU_OK;
}

const bw_gpu_module *gpu_double_module(void)
{
    static const bw_gpu_module table = {
        .abi = BW_GPU_ABI,
        .size = sizeof(bw_gpu_module),
        .name = "double",
        .probe = d_probe,
        .open = d_open,
        .close = d_close,
        .memory = d_memory,
        .last_error = d_last_error,
        .segment_bytes = d_segment_bytes,
        .segment_new = d_segment_new,
        .segment_write = d_segment_write,
        .segment_free = d_segment_free,
        .bits_new = d_bits_new,
        .bits_free = d_bits_free,
        .launch = d_launch,
        .poll = d_poll,
        .wait = d_wait,
        .release = d_release,
        .wipe = d_wipe,
    };
    return &table;
}
