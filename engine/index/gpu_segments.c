/* Blocks of rows on a device: who is known, who is there, who travels, who goes.
 *
 * A segment is registered by the first query that asks for its block, and put in line for
 * an upload; the worker sends a piece whenever no query waits for the device. A growing
 * block is sent in whole groups of BW_GPU_GROUP rows, so that a row which arrives later
 * never touches what a batch in flight reads; its last rows are the CPU's until then.
 *
 * The budget is kept by letting the longest unused segment go. Not for a newcomer that was
 * asked for just once since: a walk over more blocks than fit would swap them all in turn
 * (O'Neil, O'Neil, Weikum 1993: the last but one use decides). What a query holds stays.
 *
 * All under the device's lock but the module's calls, which the worker makes without it;
 * it alone changes what is there, so that holds across them. */
#include "gpu_private.h"

enum { PIECE_BUSY = 512 << 10 }; /* bytes sent at once while queries wait: some 100 µs */

static gpu_segment **bucket(gpu_device *d, uint64_t identity)
{
    return &d->buckets[(identity * 0x9E3779B97F4A7C15u >> 32) % BUCKETS];
}

static void lru_remove(gpu_device *d, gpu_segment *s)
{
    *(s->newer ? &s->newer->older : &d->newest) = s->older;
    *(s->older ? &s->older->newer : &d->oldest) = s->newer;
    s->newer = s->older = NULL;
}

static void lru_add(gpu_device *d, gpu_segment *s)
{
    s->older = d->newest;
    s->newer = NULL;
    *(d->newest ? &d->newest->newer : &d->oldest) = s;
    d->newest = s;
}

static gpu_segment *find(gpu_device *d, uint64_t identity)
{
    gpu_segment *s = *bucket(d, identity);
    while (s && s->identity != identity)
        s = s->chain;
    return s;
}

static gpu_segment *add(gpu_device *d, const bw_gpu_block *b)
{
    gpu_segment *s = bw_calloc(1, sizeof *s), **at = bucket(d, b->identity);
    if (!s)
        return NULL;
    s->identity = b->identity;
    s->shape = (bw_gpu_shape){(uint32_t)b->rows->dtype, b->rows->dim, (uint32_t)b->metric,
                              (b->cap + BW_GPU_GROUP - 1) / BW_GPU_GROUP * BW_GPU_GROUP};
    s->bytes = d->module->segment_bytes(&s->shape);
    s->number = d->next_number++;
    s->chain = *at;
    *at = s;
    d->c.segments++;
    lru_add(d, s);
    return s;
}

gpu_segment *gpu_segment_of(gpu_device *d, const bw_gpu_block *b)
{
    gpu_segment *s = find(d, b->identity);
    if (!s && !(s = add(d, b)))
        return NULL;
    assert(s->shape.dim == b->rows->dim && s->shape.dtype == (uint32_t)b->rows->dtype);
    lru_remove(d, s);
    lru_add(d, s);
    s->used_before = s->used;
    s->used = ++d->tick;
    return s;
}

/* Who would go; for_it: for whom. NULL: nobody may. */
static gpu_segment *victim(const gpu_device *d, const gpu_segment *for_it)
{
    gpu_segment *s = d->oldest;
    while (s && (!s->there || s->pins > 0 || s->waiting || s == for_it))
        s = s->newer;
    return s && for_it && for_it->used_before <= s->used ? NULL : s;
}

void gpu_segment_want(gpu_device *d, gpu_segment *s, const bw_gpu_block *b)
{
    const uint32_t n = (uint32_t)b->rows->n;
    const uint32_t want = n == b->cap ? n : n / BW_GPU_GROUP * BW_GPU_GROUP;
    if (want <= s->sent || s->waiting || s->bytes == 0 || s->bytes > d->segment_max ||
        d->life != GPU_OPEN)
        return;
    /* Refused: until something went, or may go for it. */
    if (s->refused_at == d->freed + 1 && !victim(d, s))
        return;
    s->source = (gpu_source){b->rows->data, b->rows->scales, want, b->owner, b->release};
    if (b->acquire)
        b->acquire(b->owner);
    s->waiting = true;
    s->upload_next = NULL;
    *(d->upload_last ? &d->upload_last->upload_next : &d->upload_first) = s;
    d->upload_last = s;
    (void)pthread_cond_signal(&d->wake);
}

/* Out of the registry; the worker frees it. */
static void throw_away(gpu_device *d, gpu_segment *s)
{
    gpu_segment **at = bucket(d, s->identity);
    assert(s->pins == 0 && !s->waiting);
    while (*at != s)
        at = &(*at)->chain;
    *at = s->chain;
    lru_remove(d, s);
    gpu_bits_drop(d, s);
    d->c.segments--;
    if (s->there) {
        d->c.segment_bytes -= s->bytes;
        d->freed++;
    }
    s->chain = d->trash_segments;
    d->trash_segments = s;
    (void)pthread_cond_signal(&d->wake);
}

void gpu_segment_unpin(gpu_device *d, gpu_segment *s)
{
    assert(s->pins > 0);
    s->pins--;
    if (s->pins == 0 && s->forgotten && !s->waiting)
        throw_away(d, s);
}

void gpu_segment_forget(gpu_device *d, uint64_t identity)
{
    gpu_segment *s = find(d, identity);
    if (!s)
        return;
    s->forgotten = true;
    if (s->pins == 0 && !s->waiting)
        throw_away(d, s);
}

/* ---- the worker's ---- */

void gpu_trash_empty(gpu_device *d)
{
    while (d->trash_bits || d->trash_segments) {
        gpu_bits *b = d->trash_bits;
        gpu_segment *s = d->trash_segments;
        d->trash_bits = NULL;
        d->trash_segments = NULL;
        (void)pthread_mutex_unlock(&d->lock);
        while (b) {
            gpu_bits *next = b->next;
            if (b->there && d->context)
                d->module->bits_free(d->context, b->there);
            bw_free(b->words);
            bw_free(b);
            b = next;
        }
        while (s) {
            gpu_segment *next = s->chain;
            if (s->there && d->context)
                d->module->segment_free(d->context, s->there);
            bw_free(s);
            s = next;
        }
        (void)pthread_mutex_lock(&d->lock);
    }
}

bool gpu_segment_evict(gpu_device *d, const gpu_segment *for_it)
{
    gpu_segment *s = victim(d, for_it);
    if (!s)
        return false;
    bw_gpu_segment *there = s->there;
    s->there = NULL;
    s->sent = 0;
    s->refused_at = 0;
    gpu_bits_drop(d, s);
    d->c.segment_bytes -= s->bytes;
    d->c.evicted++;
    d->freed++;
    (void)pthread_mutex_unlock(&d->lock);
    d->module->segment_free(d->context, there);
    (void)pthread_mutex_lock(&d->lock);
    gpu_trash_empty(d);
    return true;
}

/* The first in line leaves it, sent or not. */
static void upload_end(gpu_device *d, gpu_segment *s)
{
    const gpu_source source = s->source;
    assert(d->upload_first == s);
    d->upload_first = s->upload_next;
    if (!d->upload_first)
        d->upload_last = NULL;
    s->waiting = false;
    s->source = (gpu_source){0};
    if (s->pins == 0 && s->forgotten)
        throw_away(d, s);
    (void)pthread_mutex_unlock(&d->lock);
    if (source.release)
        source.release(source.owner); /* may come back to us: gpu_segment_forget */
    (void)pthread_mutex_lock(&d->lock);
}

static bw_gpu_status refuse(gpu_device *d, gpu_segment *s)
{
    s->refused_at = d->freed + 1;
    d->c.refused++;
    upload_end(d, s);
    return BW_GPU_OK;
}

/* Device memory for the first in line. NOMEM: not now. */
static bw_gpu_status make(gpu_device *d, gpu_segment *s)
{
    while (d->c.segment_bytes + s->bytes > d->segment_max)
        if (!gpu_segment_evict(d, s))
            return BW_GPU_NOMEM;
    bw_gpu_segment *there = NULL;
    bw_gpu_status st = BW_GPU_NOMEM;
    for (int attempt = 0; attempt < 2 && st == BW_GPU_NOMEM; attempt++) {
        if (attempt == 1 && !gpu_segment_evict(d, s) && !gpu_bits_evict(d))
            break;
        gpu_trash_empty(d);
        (void)pthread_mutex_unlock(&d->lock);
        st = d->module->segment_new(d->context, &s->shape, &there);
        (void)pthread_mutex_lock(&d->lock);
    }
    if (st == BW_GPU_OK) {
        s->there = there;
        s->sent = 0;
        d->c.segment_bytes += s->bytes;
    }
    return st;
}

/* Rows of the next piece: whole groups, but at the end of what is wanted. */
static uint32_t piece_rows(const gpu_device *d, const gpu_segment *s, size_t row_bytes)
{
    const size_t most = d->nflying + d->nqueued > 0 ? (size_t)PIECE_BUSY : (size_t)BW_GPU_UPLOAD_MAX;
    size_t n = most / row_bytes / BW_GPU_GROUP * BW_GPU_GROUP;
    n = n < BW_GPU_GROUP ? BW_GPU_GROUP : n;
    n = n > BW_GPU_UPLOAD_ROWS_MAX ? BW_GPU_UPLOAD_ROWS_MAX : n;
    const uint32_t left = s->source.rows - s->sent;
    return left < n ? left : (uint32_t)n;
}

bw_gpu_status gpu_segment_upload(gpu_device *d)
{
    gpu_segment *s = d->upload_first;
    if (!s)
        return BW_GPU_OK;
    if (s->forgotten || s->sent >= s->source.rows) {
        upload_end(d, s);
        return BW_GPU_OK;
    }
    bw_gpu_status st = s->there ? BW_GPU_OK : make(d, s);
    if (st != BW_GPU_OK)
        return st == BW_GPU_LOST ? st : refuse(d, s);
    const size_t row_bytes = s->shape.dim * bw_dtype_size((bw_dtype)s->shape.dtype);
    const uint32_t n = piece_rows(d, s, row_bytes), row0 = s->sent;
    const gpu_source from = s->source;
    (void)pthread_mutex_unlock(&d->lock);
    st = d->module->segment_write(d->context, s->there, row0,
                                  (const char *)from.data + row0 * row_bytes,
                                  from.scales ? from.scales + row0 : NULL, n);
    (void)pthread_mutex_lock(&d->lock);
    if (st == BW_GPU_AGAIN || st == BW_GPU_LOST)
        return st;
    if (st != BW_GPU_OK)
        return refuse(d, s);
    s->sent = row0 + n;
    d->c.uploads++;
    d->c.upload_bytes += n * row_bytes;
    if (s->sent >= s->source.rows)
        upload_end(d, s);
    return BW_GPU_OK;
}

void gpu_segments_clear(gpu_device *d)
{
    while (d->upload_first)
        upload_end(d, d->upload_first);
    while (d->oldest) {
        assert(d->oldest->pins == 0);
        throw_away(d, d->oldest);
    }
    gpu_trash_empty(d);
}
