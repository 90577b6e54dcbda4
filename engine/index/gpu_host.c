/* Callers of the GPU: opening and closing, and one search from its blocks to its list.
 *
 * A search splits its blocks by device, leaves one request at each, scans meanwhile what
 * is not on a device (small blocks, rows that have not travelled yet), and then waits. A
 * request holds copies of all it needs, so that a caller whose deadline passed can go:
 * the worker ends what it left behind. Lists are merged by bw_topk's total order in the
 * caller's thread, with the ids that the device never sees; so which part of the answer
 * came from where changes no bit. */
#include "gpu_private.h"
#include "../kernels/scan.h"
#include "gpu_load.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CHUNK_ROWS = 16384 };

static const char *const whys[BW_GPU_NWHY] = {
    [BW_GPU_WHY_NONE] = "none",       [BW_GPU_WHY_NO_DEVICE] = "no_device",
    [BW_GPU_WHY_KIND] = "kind",       [BW_GPU_WHY_ABSENT] = "absent",
    [BW_GPU_WHY_NOMEM] = "no_memory", [BW_GPU_WHY_LOST] = "lost",
    [BW_GPU_WHY_TIMEOUT] = "timeout", [BW_GPU_WHY_UNCOVERED] = "uncovered",
    [BW_GPU_WHY_BEYOND] = "beyond",   [BW_GPU_WHY_WRONG] = "wrong",
};

const char *bw_gpu_why_text(bw_gpu_why why)
{
    return (unsigned)why < BW_GPU_NWHY ? whys[why] : "unknown";
}

/* ---- all hosts of the process, for bw_gpu_forget ---- */

static pthread_mutex_t hosts_lock = PTHREAD_MUTEX_INITIALIZER;
static bw_gpu_host *hosts;        /* hosts_lock; which comes before a device's lock */
static atomic_uint nhosts;
static _Atomic uint64_t identities;

uint64_t bw_gpu_identity(void)
{
    return atomic_fetch_add_explicit(&identities, 1, memory_order_relaxed) + 1;
}

void bw_gpu_forget(uint64_t identity)
{
    if (atomic_load_explicit(&nhosts, memory_order_acquire) == 0)
        return;
    (void)pthread_mutex_lock(&hosts_lock);
    for (bw_gpu_host *h = hosts; h; h = h->next)
        for (uint32_t i = 0; i < h->ndevices; i++) {
            (void)pthread_mutex_lock(&h->devices[i].lock);
            gpu_segment_forget(&h->devices[i], identity);
            (void)pthread_mutex_unlock(&h->devices[i].lock);
        }
    (void)pthread_mutex_unlock(&hosts_lock);
}

/* ---- opening and closing ---- */

static void cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(c, &attr);
    (void)pthread_condattr_destroy(&attr);
}

static void device_start(bw_gpu_host *h, const bw_gpu_device *from)
{
    gpu_device *d = &h->devices[h->ndevices++];
    d->host = h;
    d->module = h->module;
    d->index = from->index;
    d->cap = h->o.batch_max;
    (void)snprintf(d->name, sizeof d->name, "%.*s", (int)sizeof d->name - 1, from->name);
    (void)pthread_mutex_init(&d->lock, NULL);
    cond_init(&d->wake);
    cond_init(&d->idle);
    d->started = pthread_create(&d->worker, NULL, gpu_worker, d) == 0;
    if (!d->started) {
        d->life = GPU_GONE;
        d->resting = true;
    }
}

static void options_fill(bw_gpu_host_options *o)
{
    o->window_ns = o->window_ns ? o->window_ns : 200 * 1000;
    o->launch_ns = o->launch_ns ? o->launch_ns : 2000000000u;
    o->rows_min = o->rows_min ? o->rows_min : 1024;
    if (o->batch_max == 0 || o->batch_max > BW_GPU_BATCH_MAX)
        o->batch_max = BW_GPU_BATCH_MAX;
}

bw_status bw_gpu_host_open(bw_ctx *ctx, const bw_gpu_host_options *options, bw_gpu_host **out)
{
    bw_gpu_host *h = bw_calloc(1, sizeof *h);
    bw_gpu_probe *probe = bw_calloc(1, sizeof *probe);
    uint32_t reason;
    if (!h || !probe) {
        bw_free(h);
        bw_free(probe);
        return bw_fail_nomem(ctx);
    }
    h->o = options ? *options : (bw_gpu_host_options){0};
    options_fill(&h->o);
    h->module = h->o.module ? h->o.module : bw_gpu_load(&reason, h->text);
    if (h->module) {
        h->module->probe(probe);
        (void)snprintf(h->text, sizeof h->text, "%.*s", (int)sizeof h->text - 1, probe->text);
        for (uint32_t i = 0; i < probe->ndevices && i < BW_GPU_DEVICES_MAX; i++)
            if (probe->devices[i].reason == BW_GPU_READY)
                device_start(h, &probe->devices[i]);
    }
    bw_free(probe);
    (void)pthread_mutex_lock(&hosts_lock);
    h->next = hosts;
    hosts = h;
    atomic_fetch_add_explicit(&nhosts, 1, memory_order_release);
    (void)pthread_mutex_unlock(&hosts_lock);
    *out = h;
    return BW_OK;
}

void bw_gpu_host_close(bw_gpu_host *h)
{
    if (!h)
        return;
    (void)pthread_mutex_lock(&hosts_lock);
    bw_gpu_host **at = &hosts;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    atomic_fetch_sub_explicit(&nhosts, 1, memory_order_release);
    (void)pthread_mutex_unlock(&hosts_lock);
    for (uint32_t i = 0; i < h->ndevices; i++) {
        gpu_device *d = &h->devices[i];
        (void)pthread_mutex_lock(&d->lock);
        d->stop = true;
        (void)pthread_cond_signal(&d->wake);
        (void)pthread_mutex_unlock(&d->lock);
        if (d->started)
            (void)pthread_join(d->worker, NULL);
        assert(!d->first && !d->oldest);
        (void)pthread_mutex_destroy(&d->lock);
        (void)pthread_cond_destroy(&d->wake);
        (void)pthread_cond_destroy(&d->idle);
    }
    bw_free(h);
}

static void counters_add(bw_gpu_counters *out, const gpu_device *d)
{
    const bw_gpu_counters *c = &d->c;
    out->queries += c->queries;
    out->batches += c->batches;
    out->batched_most = c->batched_most > out->batched_most ? c->batched_most : out->batched_most;
    out->items += c->items;
    out->reads += c->reads;
    out->widened += c->widened;
    out->uploads += c->uploads;
    out->upload_bytes += c->upload_bytes;
    out->evicted += c->evicted;
    out->refused += c->refused;
    out->bits_found += c->bits_found;
    out->bits_made += c->bits_made;
    out->bits_evicted += c->bits_evicted;
    out->lost += c->lost;
    out->devices += d->life == GPU_OPEN;
    out->opening += d->life == GPU_OPENING;
    out->segments += c->segments;
    out->queued += d->nqueued;
    out->segment_bytes += c->segment_bytes;
    out->bits_bytes += c->bits_bytes;
}

void bw_gpu_host_counters(bw_gpu_host *h, bw_gpu_counters *out)
{
    *out = (bw_gpu_counters){0};
    for (uint32_t i = 0; i < h->ndevices; i++) {
        (void)pthread_mutex_lock(&h->devices[i].lock);
        counters_add(out, &h->devices[i]);
        (void)pthread_mutex_unlock(&h->devices[i].lock);
    }
    for (int i = 0; i < BW_GPU_NWHY; i++)
        out->cpu[i] = atomic_load_explicit(&h->cpu[i], memory_order_relaxed);
}

bool bw_gpu_host_any(bw_gpu_host *h)
{
    bw_gpu_counters c;
    bw_gpu_host_counters(h, &c);
    return c.devices + c.opening > 0;
}

void bw_gpu_host_text(bw_gpu_host *h, char text[BW_GPU_TEXT_MAX])
{
    (void)snprintf(text, BW_GPU_TEXT_MAX, "%s", h->text);
    if (h->ndevices == 0)
        return;
    (void)pthread_mutex_lock(&h->devices[0].lock);
    if (h->devices[0].text[0])
        (void)snprintf(text, BW_GPU_TEXT_MAX, "%s", h->devices[0].text);
    (void)pthread_mutex_unlock(&h->devices[0].lock);
}

void bw_gpu_host_settle(bw_gpu_host *h)
{
    for (uint32_t i = 0; i < h->ndevices; i++) {
        gpu_device *d = &h->devices[i];
        (void)pthread_mutex_lock(&d->lock);
        while (d->life == GPU_OPENING || !d->resting || gpu_has_work(d))
            (void)pthread_cond_wait(&d->idle, &d->lock);
        (void)pthread_mutex_unlock(&d->lock);
    }
}

/* ---- a request ---- */

static void request_free(gpu_request *r)
{
    (void)pthread_cond_destroy(&r->done);
    bw_free(r->query);
    bw_free(r->needs);
    bw_free(r->hits);
    bw_free(r);
}

/* Lock held. Gives back what the request holds of the device. */
static void request_let_go(gpu_device *d, gpu_request *r)
{
    for (uint32_t i = 0; i < r->nneeds; i++) {
        gpu_bits_put(d, r->needs[i].bits);
        gpu_segment_unpin(d, r->needs[i].segment);
    }
    r->nneeds = 0;
}

void gpu_request_end(gpu_device *d, gpu_request *r, bw_gpu_why why)
{
    assert(r->state != GPU_DONE);
    request_let_go(d, r);
    r->state = GPU_DONE;
    r->why = why;
    d->c.queries += why == BW_GPU_WHY_NONE;
    if (r->left)
        request_free(r);
    else
        (void)pthread_cond_signal(&r->done);
}

static gpu_request *request_new(gpu_device *d, const bw_gpu_ask *a, size_t ask)
{
    const bw_rows *rows = a->blocks[0].rows;
    gpu_request *r = bw_calloc(1, sizeof *r);
    if (!r)
        return NULL;
    cond_init(&r->done);
    r->device = d;
    r->ask = ask;
    r->k = (uint32_t)a->out->k;
    r->shape = (bw_gpu_shape){(uint32_t)rows->dtype, rows->dim, (uint32_t)a->blocks[0].metric, 0};
    r->query = bw_alloc(rows->dim * sizeof *r->query);
    r->needs = bw_calloc(a->n, sizeof *r->needs);
    if (!r->query || !r->needs) {
        request_free(r);
        return NULL;
    }
    memcpy(r->query, a->query, rows->dim * sizeof *r->query);
    return r;
}

/* ---- one search ---- */

typedef struct place { /* what of a block goes where */
    gpu_request *request; /* NULL: none of it goes to a device */
    uint32_t rows;        /* below: the device's */
    bw_gpu_why why;       /* for the rest */
} place;

typedef struct search {
    bw_ctx *ctx;
    bw_gpu_host *host;
    const bw_gpu_ask *asks;
    const bw_gpu_cpu *cpu;
    gpu_request *requests; /* by sibling */
} search;

static bool fits_device(const bw_gpu_host *h, const bw_gpu_ask *a, const bw_gpu_block *b)
{
    return b->rows->data && b->metric != BW_METRIC_MANHATTAN && b->rows->n >= h->o.rows_min &&
           b->rows->dim <= BW_GPU_DIM_MAX && a->out->k >= 1 && a->out->k <= BW_GPU_K_MAX &&
           b->cap <= UINT32_MAX - BW_GPU_GROUP && b->allowed->nbits <= b->cap;
}

/* By identity: the same block goes to the same device; where that is not open, to the next
 * that is, and the others keep theirs. open: a bit a device, not 0. */
static gpu_device *device_of(bw_gpu_host *h, uint32_t open, uint64_t identity)
{
    uint64_t i = identity % h->ndevices;
    while (!(open >> i & 1))
        i = (i + 1) % h->ndevices;
    return &h->devices[i];
}

/* Pins the block's segment and says how many of its rows are there. Device lock held. */
static bw_gpu_why pin(gpu_device *d, gpu_request *r, const bw_gpu_block *b, uint32_t block)
{
    if (d->life != GPU_OPEN)
        return BW_GPU_WHY_NO_DEVICE;
    gpu_segment *s = gpu_segment_of(d, b);
    if (!s)
        return BW_GPU_WHY_NOMEM;
    if (s->bytes == 0)
        return BW_GPU_WHY_KIND;
    gpu_segment_want(d, s, b);
    const uint32_t rows = b->rows->n < s->sent ? (uint32_t)b->rows->n : s->sent;
    if (rows == 0 || s->forgotten || r->nneeds == BW_GPU_ITEMS_MAX)
        return BW_GPU_WHY_ABSENT;
    s->pins++;
    r->needs[r->nneeds++] = (gpu_need){.segment = s, .rows = rows, .block = block};
    return BW_GPU_WHY_NONE;
}

static int by_number(const void *x, const void *y)
{
    const gpu_need *a = x, *b = y;
    return a->segment->number < b->segment->number ? -1 : a->segment->number > b->segment->number;
}

static uint32_t count_below(const bw_bitmap *b, uint32_t rows)
{
    const size_t whole = rows / 64;
    if (rows >= b->nbits)
        return (uint32_t)bw_bitmap_count(b);
    const bw_bitmap head = {b->words, whole * 64};
    uint32_t n = (uint32_t)bw_bitmap_count(&head);
    for (size_t i = whole * 64; i < rows; i++)
        n += bw_bitmap_get(b, i);
    return n;
}

/* Bitsets for the needs that want one; those without a permitted row go. No lock held. */
static void bits_make(gpu_request *r, const bw_gpu_ask *a, uint64_t **words, place *places)
{
    gpu_device *d = r->device;
    for (uint32_t i = 0; i < r->nneeds; i++) {
        gpu_need *need = &r->needs[i];
        const bw_bitmap *allowed = a->blocks[need->block].allowed;
        uint32_t rows = need->rows < allowed->nbits ? need->rows : (uint32_t)allowed->nbits;
        need->count = count_below(allowed, rows);
        words[i] = need->count > 0 && need->count < need->rows
                       ? gpu_bits_words(&need->segment->shape, allowed->words, rows)
                       : NULL;
    }
    (void)pthread_mutex_lock(&d->lock);
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->nneeds; i++) {
        gpu_need need = r->needs[i];
        place *p = &places[need.block];
        if (words[i])
            need.bits = gpu_bits_get(d, need.segment, words[i]);
        if (need.count == 0 || (need.count < need.rows && !need.bits)) {
            p->why = need.count > 0 ? BW_GPU_WHY_NOMEM : p->why;
            p->rows = need.count > 0 ? 0 : need.rows; /* none permitted: nothing to do there */
            gpu_segment_unpin(d, need.segment);
            continue;
        }
        p->request = r;
        p->rows = need.rows;
        r->needs[n++] = need;
    }
    r->nneeds = n;
    (void)pthread_mutex_unlock(&d->lock);
}

/* Into the queue; or ended at once when the device is not there any more. */
static void leave_at(gpu_device *d, gpu_request *r)
{
    (void)pthread_mutex_lock(&d->lock);
    r->since = gpu_now(d);
    if (r->nneeds == 0 || d->life != GPU_OPEN) {
        gpu_request_end(d, r, r->nneeds == 0 ? BW_GPU_WHY_ABSENT : BW_GPU_WHY_LOST);
    } else {
        r->prev = d->last;
        *(d->last ? &d->last->next : &d->first) = r;
        d->last = r;
        d->nqueued++;
        (void)pthread_cond_signal(&d->wake);
    }
    (void)pthread_mutex_unlock(&d->lock);
}

/* One ask's request at one device: pinned, with its bitsets, in the queue. */
static void submit(search *s, size_t ask, uint32_t open, uint32_t which, place *places)
{
    const bw_gpu_ask *a = &s->asks[ask];
    gpu_device *d = &s->host->devices[which];
    gpu_request *r = request_new(d, a, ask);
    uint64_t **words = bw_alloc(a->n * sizeof *words);
    if (r)
        (void)pthread_mutex_lock(&d->lock);
    for (uint32_t i = 0; i < a->n; i++) {
        if (places[i].why == BW_GPU_WHY_KIND || device_of(s->host, open, a->blocks[i].identity) != d)
            continue;
        places[i].why = r && words ? pin(d, r, &a->blocks[i], i) : BW_GPU_WHY_NOMEM;
        if (places[i].why == BW_GPU_WHY_NONE)
            places[i].why = BW_GPU_WHY_ABSENT; /* of the rows that are not there */
    }
    if (r)
        (void)pthread_mutex_unlock(&d->lock);
    if (r && words) {
        qsort(r->needs, r->nneeds, sizeof *r->needs, by_number);
        bits_make(r, a, words, places);
        r->sibling = s->requests;
        s->requests = r;
        leave_at(d, r);
    } else if (r) {
        request_free(r);
    }
    bw_free(words);
}

/* ---- the CPU's part ---- */

static void push_row(const bw_gpu_block *b, bw_topk *out, float key, uint32_t row)
{
    const bw_candidate c = {key, b->part, b->ord ? b->ord[row] : b->row0 + row, b->ids[row]};
    if (bw_topk_wants(out, key))
        bw_topk_push(out, &c);
}

/* The stored precision's scan, for callers that have no better. */
static bw_status scan_plain(bw_ctx *ctx, const bw_gpu_ask *a, const bw_gpu_block *b,
                            const bw_bitmap *allowed)
{
    uint32_t which[64];
    float keys[64];
    bw_status st = BW_OK;
    size_t seen = 0;
    for (size_t i = bw_bitmap_next(allowed, 0); st == BW_OK && i < allowed->nbits;) {
        size_t n = 0;
        for (; n < 64 && i < allowed->nbits; i = bw_bitmap_next(allowed, i + 1))
            which[n++] = (uint32_t)i;
        st = bw_rows_keys(ctx, b->rows, b->metric, a->query, which, n, keys);
        for (size_t j = 0; st == BW_OK && j < n; j++)
            push_row(b, a->out, keys[j], which[j]);
        if (st == BW_OK && (seen += n) % CHUNK_ROWS < 64)
            st = bw_ctx_check(ctx);
    }
    return st;
}

/* The permitted rows from `from` to below `to`. */
static bw_status scan(search *s, const bw_gpu_ask *a, const bw_gpu_block *b, uint32_t from,
                      uint32_t to, bw_gpu_why why)
{
    bw_arena_mark mark = bw_arena_mark_get(s->ctx);
    const bw_bitmap *rows = b->allowed;
    bw_bitmap part;
    if (bw_bitmap_next(rows, from) >= (to < rows->nbits ? to : rows->nbits))
        return BW_OK;
    if (from > 0 || to < rows->nbits) {
        bw_status st = bw_bitmap_arena(s->ctx, rows->nbits, &part);
        if (st != BW_OK)
            return st;
        const size_t w0 = from / 64, w1 = (to < rows->nbits ? to + 63 : rows->nbits + 63) / 64;
        memcpy(part.words + w0, rows->words + w0, (w1 - w0) * sizeof *part.words);
        part.words[w0] &= ~(uint64_t)0 << from % 64;
        if (to < rows->nbits && to % 64)
            part.words[to / 64] &= ((uint64_t)1 << to % 64) - 1;
        rows = &part;
    }
    atomic_fetch_add_explicit(&s->host->cpu[why], 1, memory_order_relaxed);
    const bw_status st = s->cpu ? s->cpu->scan(s->ctx, s->cpu->arg, a, b, rows)
                                : scan_plain(s->ctx, a, b, rows);
    bw_arena_release(s->ctx, mark);
    return st;
}

static bw_status scan_rest(search *s, const bw_gpu_ask *a, const place *places)
{
    bw_status st = BW_OK;
    for (size_t i = 0; st == BW_OK && i < a->n; i++)
        st = scan(s, a, &a->blocks[i], places[i].rows, (uint32_t)a->blocks[i].rows->n, places[i].why);
    return st;
}

/* ---- waiting ---- */

/* Until the request is done; false: the deadline passed first, and it is left behind or
 * gone. */
static bool await(bw_ctx *ctx, gpu_request *r)
{
    gpu_device *d = r->device;
    const uint64_t deadline = bw_ctx_deadline(ctx);
    const struct timespec t = bw_clock_timespec(deadline);
    (void)pthread_mutex_lock(&d->lock);
    int timed = 0;
    while (r->state != GPU_DONE && timed == 0)
        timed = deadline ? pthread_cond_timedwait(&r->done, &d->lock, &t)
                         : pthread_cond_wait(&r->done, &d->lock);
    const bool done = r->state == GPU_DONE;
    (void)pthread_mutex_unlock(&d->lock);
    return done;
}

/* The caller wants nothing of it any more. */
static void leave_behind(gpu_request *r)
{
    gpu_device *d = r->device;
    (void)pthread_mutex_lock(&d->lock);
    const bool mine = r->state != GPU_TAKEN;
    if (r->state == GPU_QUEUED) {
        *(r->prev ? &r->prev->next : &d->first) = r->next;
        *(r->next ? &r->next->prev : &d->last) = r->prev;
        d->nqueued--;
        request_let_go(d, r);
    }
    r->left = true;
    (void)pthread_mutex_unlock(&d->lock);
    if (mine)
        request_free(r);
}

/* A device's answer into the list, or the CPU's for the same blocks. */
static bw_status take(search *s, const gpu_request *r, const place *places)
{
    const bw_gpu_ask *a = &s->asks[r->ask];
    bw_status st = BW_OK;
    if (r->why == BW_GPU_WHY_NONE)
        for (uint32_t i = 0; i < r->nhits; i++)
            push_row(&a->blocks[r->needs[r->hits[i].item].block], a->out, r->hits[i].key, r->hits[i].row);
    else
        for (size_t i = 0; st == BW_OK && i < a->n; i++)
            if (places[i].request == r)
                st = scan(s, a, &a->blocks[i], 0, places[i].rows, r->why);
    return st;
}

/* All requests of the search, the last first. On failure the rest is left behind. */
static bw_status finish(search *s, place *const *places, bw_status st)
{
    while (s->requests) {
        gpu_request *r = s->requests;
        s->requests = r->sibling;
        while (st == BW_OK && !await(s->ctx, r))
            st = bw_ctx_check(s->ctx);
        if (st == BW_OK)
            st = take(s, r, places[r->ask]);
        leave_behind(r);
    }
    return st;
}

static uint32_t open_devices(bw_gpu_host *h) /* a bit each */
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < h->ndevices; i++) {
        (void)pthread_mutex_lock(&h->devices[i].lock);
        if (h->devices[i].life == GPU_OPEN)
            open |= 1u << i;
        (void)pthread_mutex_unlock(&h->devices[i].lock);
    }
    return open;
}

bw_status bw_gpu_search(bw_ctx *ctx, bw_gpu_host *host, const bw_gpu_ask *asks, size_t n,
                        const bw_gpu_cpu *cpu)
{
    search s = {ctx, host, asks, cpu, NULL};
    const uint32_t open = open_devices(host);
    place **places = bw_arena_alloc(ctx, n * sizeof *places);
    bw_status st = places ? BW_OK : BW_ENOMEM;
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        const bw_gpu_ask *a = &asks[i];
        bool any = false;
        places[i] = bw_arena_alloc(ctx, a->n * sizeof **places);
        for (size_t b = 0; places[i] && b < a->n; b++) {
            const bool fits = fits_device(host, a, &a->blocks[b]);
            places[i][b] = (place){NULL, 0, fits ? BW_GPU_WHY_NO_DEVICE : BW_GPU_WHY_KIND};
            any = any || fits;
        }
        if (!places[i])
            st = BW_ENOMEM;
        for (uint32_t d = 0; st == BW_OK && any && d < host->ndevices; d++)
            if (open >> d & 1)
                submit(&s, i, open, d, places[i]);
    }
    for (size_t i = 0; st == BW_OK && i < n; i++)
        if (asks[i].out->k > 0)
            st = scan_rest(&s, &asks[i], places[i]);
    return finish(&s, places, st);
}
