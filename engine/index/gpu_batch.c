/* One batch: who takes part, the work list segment by segment, and what came back.
 *
 * Queries of one shape and about one k go together, whoever asked them. The work list is
 * made from their needs, sorted by segment: a segment's item names only the queries whose
 * own list holds it, each with its own rows. What the device brings is believed only
 * after it was looked at: a hit must be a row that this query may read, named once, and a
 * list with a certificate must be as long as the permitted rows allow. Else the device is
 * not used any more (gpu_worker.c) and the CPU answers.
 *
 * No certificate: the query is asked again, alone with its like, with the room that the
 * device said it wants; at most ATTEMPTS_MAX times, then the CPU.
 *
 * Memory: a batch that does not fit is halved; a single query that does not, evicts one
 * segment, tries once more, and goes to the CPU. */
#include "gpu_private.h"

typedef struct pair { /* a need of the batch */
    gpu_need *need;
    uint32_t query;
} pair;

typedef struct draft { /* what is being launched */
    gpu_request **requests;
    gpu_segment **segments;
    pair *pairs;
    bw_gpu_item *items;
    bw_gpu_read *reads;
    float *queries;
    uint32_t n, nitems, nreads;
    uint64_t began;
    bw_gpu_batch batch;
} draft;

/* ---- the queue ---- */

static void queue_remove(gpu_device *d, gpu_request *r)
{
    *(r->prev ? &r->prev->next : &d->first) = r->next;
    *(r->next ? &r->next->prev : &d->last) = r->prev;
    r->next = r->prev = NULL;
    d->nqueued--;
}

static void queue_front(gpu_device *d, gpu_request *r)
{
    r->state = GPU_QUEUED;
    r->prev = NULL;
    r->next = d->first;
    *(d->first ? &d->first->prev : &d->last) = r;
    d->first = r;
    d->nqueued++;
}

/* 16, 64, 256, 1024: who asks for few does not pay for who asks for many. */
static uint32_t k_class(uint32_t k)
{
    uint32_t c = 16;
    while (c < k)
        c *= 4;
    return c;
}

static bool go_together(const gpu_request *a, const gpu_request *b)
{
    return a->shape.dtype == b->shape.dtype && a->shape.dim == b->shape.dim &&
           a->shape.metric == b->shape.metric && k_class(a->k) == k_class(b->k) &&
           a->attempt == b->attempt;
}

/* Counts what the request adds to the batch; false: it does not fit, nothing was counted. */
static bool fits(gpu_device *d, draft *b, const gpu_request *r)
{
    uint32_t more = 0;
    for (uint32_t i = 0; i < r->nneeds; i++)
        more += r->needs[i].segment->stamp != d->stamp;
    if (b->nitems + more > BW_GPU_ITEMS_MAX || b->nreads + r->nneeds > BW_GPU_READS_MAX)
        return false;
    for (uint32_t i = 0; i < r->nneeds; i++)
        r->needs[i].segment->stamp = d->stamp;
    b->nitems += more;
    b->nreads += r->nneeds;
    return true;
}

/* Takes the first query and all that may go with it. */
static void take(gpu_device *d, draft *b)
{
    const gpu_request *head = d->first;
    d->stamp++;
    for (gpu_request *r = d->first, *next; r && b->n < d->cap; r = next) {
        next = r->next;
        if (!go_together(head, r))
            continue;
        if (!fits(d, b, r))
            break;
        queue_remove(d, r);
        r->state = GPU_TAKEN;
        b->requests[b->n++] = r;
    }
    assert(b->n > 0);
}

/* Queries from n on go back to the front, in their order. */
static void give_back(gpu_device *d, draft *b, uint32_t n)
{
    while (b->n > n) {
        gpu_request *r = b->requests[--b->n];
        if (r->left)
            gpu_request_end(d, r, BW_GPU_WHY_NOMEM);
        else
            queue_front(d, r);
    }
}

static void fail_all(gpu_device *d, draft *b, bw_gpu_why why)
{
    for (uint32_t i = 0; i < b->n; i++)
        gpu_request_end(d, b->requests[i], why);
    b->n = 0;
}

/* ---- the work list ---- */

static void draft_clear(draft *b)
{
    bw_free(b->requests);
    bw_free(b->segments);
    bw_free(b->pairs);
    bw_free(b->items);
    bw_free(b->reads);
    bw_free(b->queries);
    *b = (draft){0};
}

static bool draft_room(draft *b)
{
    const size_t dim = b->requests[0]->shape.dim;
    b->segments = bw_alloc(b->nitems * sizeof *b->segments);
    b->pairs = bw_alloc(b->nreads * sizeof *b->pairs);
    b->items = bw_alloc(b->nitems * sizeof *b->items);
    b->reads = bw_alloc(b->nreads * sizeof *b->reads);
    b->queries = bw_alloc(b->n * dim * sizeof *b->queries);
    return b->segments && b->pairs && b->items && b->reads && b->queries;
}

/* The vectors, and the largest of what each query asks for. */
static void draft_queries(draft *b)
{
    const size_t dim = b->requests[0]->shape.dim;
    b->batch = (bw_gpu_batch){.queries = b->queries, .nq = b->n, .items = b->items, .reads = b->reads};
    for (uint32_t q = 0; q < b->n; q++) {
        const gpu_request *r = b->requests[q];
        memcpy(b->queries + q * dim, r->query, dim * sizeof *b->queries);
        b->batch.k = r->k > b->batch.k ? r->k : b->batch.k;
        b->batch.groups_max = r->groups_max > b->batch.groups_max ? r->groups_max : b->batch.groups_max;
        b->batch.hits_max = r->hits_max > b->batch.hits_max ? r->hits_max : b->batch.hits_max;
    }
    if (b->batch.hits_max != 0 && b->batch.hits_max < b->batch.k)
        b->batch.hits_max = b->batch.k;
}

/* Items by first appearance, with the number of their readers. */
static void draft_items(gpu_device *d, draft *b)
{
    d->stamp++;
    b->nitems = 0;
    for (uint32_t q = 0; q < b->n; q++)
        for (uint32_t i = 0; i < b->requests[q]->nneeds; i++) {
            const gpu_need *need = &b->requests[q]->needs[i];
            gpu_segment *s = need->segment;
            assert(need->rows > 0 && need->rows <= s->sent && s->there);
            if (s->stamp != d->stamp) {
                s->stamp = d->stamp;
                s->item = b->nitems;
                b->items[b->nitems] = (bw_gpu_item){s->there, 0, 0, 0, 0};
                b->segments[b->nitems++] = s;
            }
            bw_gpu_item *item = &b->items[s->item];
            item->rows = need->rows > item->rows ? need->rows : item->rows;
            item->nreads++;
        }
}

/* The work list: for each segment the queries whose own list holds it, by counting. Of
 * requests that are taken, so without the lock. */
static void draft_fill(gpu_device *d, draft *b)
{
    draft_queries(b);
    draft_items(d, b);
    b->nreads = 0;
    for (uint32_t i = 0; i < b->nitems; i++) {
        b->items[i].read0 = b->nreads;
        b->nreads += b->items[i].nreads;
        b->items[i].nreads = 0;
    }
    for (uint32_t q = 0; q < b->n; q++)
        for (uint32_t i = 0; i < b->requests[q]->nneeds; i++) {
            gpu_need *need = &b->requests[q]->needs[i];
            bw_gpu_item *item = &b->items[need->segment->item];
            b->pairs[item->read0 + item->nreads++] = (pair){need, q};
        }
    b->batch.nitems = b->nitems;
    b->batch.nreads = b->nreads;
}

/* The bitset is on the device after OK. */
static bw_gpu_status bits_send(gpu_device *d, gpu_bits *bits)
{
    const uint64_t began = gpu_now(d);
    bw_gpu_status st = BW_GPU_OK;
    bool again = false;
    while (!bits->there) {
        (void)pthread_mutex_unlock(&d->lock);
        st = d->module->bits_new(d->context, bits->words, bits->segment->shape.rows, &bits->there);
        (void)pthread_mutex_lock(&d->lock);
        if (st == BW_GPU_AGAIN && gpu_now(d) - began < d->host->o.launch_ns)
            gpu_pause(d);
        else if (st == BW_GPU_NOMEM && !again && (again = true) &&
                 (gpu_bits_evict(d) || gpu_segment_evict(d, NULL)))
            gpu_trash_empty(d);
        else
            break;
    }
    return st;
}

/* The reads in the order of the pairs, their bitsets sent. A query that sees fewer rows
 * than the item has, because it began earlier, gets them as a set. */
static bw_gpu_status reads_make(gpu_device *d, draft *b)
{
    for (uint32_t i = 0; i < b->nreads; i++) {
        gpu_need *need = b->pairs[i].need;
        gpu_segment *s = need->segment;
        if (!need->bits && need->rows < b->items[s->item].rows) {
            need->bits = gpu_bits_get(d, s, gpu_bits_words(&s->shape, NULL, need->rows));
            if (!need->bits)
                return BW_GPU_NOMEM;
        }
        const bw_gpu_status st = need->bits ? bits_send(d, need->bits) : BW_GPU_OK;
        if (st != BW_GPU_OK)
            return st;
        b->reads[i] = (bw_gpu_read){b->pairs[i].query, 0, need->bits ? need->bits->there : NULL};
    }
    return BW_GPU_OK;
}

/* ---- launch ---- */

static bw_gpu_status launch(gpu_device *d, draft *b, bw_gpu_ticket **ticket)
{
    (void)pthread_mutex_unlock(&d->lock);
    draft_fill(d, b);
    (void)pthread_mutex_lock(&d->lock);
    bw_gpu_status st = reads_make(d, b);
    if (st != BW_GPU_OK)
        return st;
    b->began = gpu_now(d);
    (void)pthread_mutex_unlock(&d->lock);
    st = d->module->launch(d->context, &b->batch, ticket);
    (void)pthread_mutex_lock(&d->lock);
    return st;
}

/* As many of the draft's queries as the device takes. */
static bw_gpu_status launch_some(gpu_device *d, draft *b, bw_gpu_ticket **ticket)
{
    bool again = false;
    for (;;) {
        const bw_gpu_status st = launch(d, b, ticket);
        if (st == BW_GPU_OK) {
            d->cap = d->cap > d->host->o.batch_max / 2 ? d->host->o.batch_max : d->cap * 2;
            return st;
        }
        if (st != BW_GPU_NOMEM)
            return st;
        if (b->n > 1) {
            d->cap = b->n / 2;
            give_back(d, b, d->cap);
        } else if (again || !gpu_segment_evict(d, NULL)) {
            return st;
        } else {
            again = true;
        }
    }
}

static void flies(gpu_device *d, draft *b, bw_gpu_ticket *ticket)
{
    gpu_batch *f = &d->flying[d->nflying++];
    *f = (gpu_batch){b->requests, b->segments, b->n, b->nitems, ticket, b->began, false};
    d->c.batches++;
    d->c.items += b->nitems;
    d->c.reads += b->nreads;
    d->c.batched_most = b->n > d->c.batched_most ? b->n : d->c.batched_most;
    b->requests = NULL;
    b->segments = NULL;
}

bw_gpu_status gpu_batch_launch(gpu_device *d)
{
    draft b = {.requests = bw_alloc(d->cap * sizeof(gpu_request *))};
    bw_gpu_ticket *ticket = NULL;
    bw_gpu_status st = BW_GPU_NOMEM;
    if (!b.requests) {
        gpu_request *r = d->first;
        queue_remove(d, r);
        gpu_request_end(d, r, BW_GPU_WHY_NOMEM);
        return BW_GPU_OK;
    }
    take(d, &b);
    if (draft_room(&b))
        st = launch_some(d, &b, &ticket);
    if (st == BW_GPU_OK)
        flies(d, &b, ticket);
    else if (st == BW_GPU_AGAIN)
        give_back(d, &b, 0); /* a left batch of the module's has no place free yet */
    else
        fail_all(d, &b, st == BW_GPU_LOST          ? BW_GPU_WHY_LOST
                        : st == BW_GPU_UNSUPPORTED ? BW_GPU_WHY_KIND
                        : st == BW_GPU_INVALID     ? BW_GPU_WHY_WRONG
                                                   : BW_GPU_WHY_NOMEM);
    draft_clear(&b);
    if (st == BW_GPU_INVALID) { /* our mistake; the CPU makes none */
        bw_log(BW_LOG_ERROR, "GPU %u: %s", d->index, d->module->last_error(d->context));
        return BW_GPU_LOST;
    }
    return st == BW_GPU_LOST || st == BW_GPU_AGAIN ? st : BW_GPU_OK;
}

/* ---- what came back ---- */

static const gpu_need *need_of(const gpu_request *r, const gpu_segment *s, uint32_t *at)
{
    uint32_t lo = 0, hi = r->nneeds;
    while (lo < hi) { /* rising by number */
        const uint32_t mid = (lo + hi) / 2;
        if (r->needs[mid].segment->number < s->number)
            lo = mid + 1;
        else
            hi = mid;
    }
    *at = lo;
    return lo < r->nneeds && r->needs[lo].segment == s ? &r->needs[lo] : NULL;
}

/* Whether no row is named twice. seen: a power of two of places above n, all 0. */
static bool all_differ(const bw_gpu_hit *hits, uint32_t n, uint64_t *seen, size_t places)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t key = ((uint64_t)hits[i].item << 32 | hits[i].row) + 1;
        size_t at = (size_t)(key * 0x9e3779b97f4a7c15 >> 32) & (places - 1);
        while (seen[at] != 0 && seen[at] != key)
            at = (at + 1) & (places - 1);
        if (seen[at] == key)
            return false;
        seen[at] = key;
    }
    return true;
}

/* Each of the request's hits once; a row twice would stand in another's place. */
static bw_gpu_why look_for_twins(const gpu_request *r)
{
    size_t places = 16;
    while (places < 2 * (size_t)r->nhits)
        places *= 2;
    uint64_t *seen = bw_calloc(places, sizeof *seen);
    if (!seen)
        return BW_GPU_WHY_NOMEM;
    const bool right = all_differ(r->hits, r->nhits, seen, places);
    bw_free(seen);
    return right ? BW_GPU_WHY_NONE : BW_GPU_WHY_WRONG;
}

/* Copies one query's hits, each looked at. False: this cannot be an answer. */
static bool take_hits(const gpu_batch *f, gpu_request *r, const bw_gpu_hit *hits, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at;
        if (hits[i].item >= f->nitems || hits[i].key != hits[i].key)
            return false;
        const gpu_need *need = need_of(r, f->segments[hits[i].item], &at);
        const uint32_t row = hits[i].row;
        if (!need || row >= need->rows ||
            (need->bits && !(need->bits->words[row / 64] >> row % 64 & 1)))
            return false;
        r->hits[i] = (bw_gpu_hit){hits[i].key, at, row};
    }
    r->nhits = n;
    return true;
}

static bw_gpu_why take_covered(const gpu_batch *f, gpu_request *r, const bw_gpu_answer *a,
                               const bw_gpu_hit *hits, uint32_t hits_max)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < r->nneeds; i++)
        count += r->needs[i].count;
    if (a->n > hits_max || a->n < (count < r->k ? count : r->k))
        return BW_GPU_WHY_WRONG;
    r->hits = bw_alloc(a->n * sizeof *r->hits);
    if (!r->hits)
        return BW_GPU_WHY_NOMEM;
    return take_hits(f, r, hits, a->n) ? look_for_twins(r) : BW_GPU_WHY_WRONG;
}

static uint32_t wider(uint32_t now, uint32_t wanted, uint32_t most)
{
    const uint64_t w = (uint64_t)wanted + wanted / 8 + 4;
    return w <= now ? now : w < most ? (uint32_t)w : most;
}

/* True: it is asked again. */
static bool widen(gpu_device *d, gpu_request *r, const bw_gpu_answer *a)
{
    if (r->left || r->attempt + 1 >= ATTEMPTS_MAX || d->stop)
        return false;
    if ((a->flags & BW_GPU_MORE_GROUPS) && a->groups > GROUPS_MOST)
        return false;
    if ((a->flags & BW_GPU_MORE_HITS) && a->ties > HITS_MOST)
        return false;
    if (a->flags & BW_GPU_MORE_GROUPS)
        r->groups_max = wider(r->groups_max, a->groups, GROUPS_MOST);
    if (a->flags & BW_GPU_MORE_HITS)
        r->hits_max = wider(r->hits_max, a->ties, HITS_MOST);
    r->attempt++;
    d->c.widened++;
    queue_front(d, r);
    return true;
}

/* Into each request, which is ours while it is taken: no lock. */
static void look(const gpu_batch *f, const bw_gpu_result *result)
{
    for (uint32_t i = 0; i < f->n; i++) {
        gpu_request *r = f->requests[i];
        const bw_gpu_answer *a = &result->answers[i];
        if (a->flags == BW_GPU_COVERED)
            r->why = take_covered(f, r, a, result->hits + (size_t)i * result->hits_max,
                                  result->hits_max);
        else if (a->flags & BW_GPU_BEYOND)
            r->why = BW_GPU_WHY_BEYOND;
        else if (a->flags & (BW_GPU_MORE_GROUPS | BW_GPU_MORE_HITS))
            r->why = BW_GPU_WHY_UNCOVERED;
        else
            r->why = BW_GPU_WHY_WRONG;
    }
}

/* False: the device answered what cannot be. */
static bool finish(gpu_device *d, const gpu_batch *f, const bw_gpu_result *result)
{
    bool right = result->nq == f->n;
    for (uint32_t i = f->n; i-- > 0;) { /* from the back: who is asked again keeps its place */
        gpu_request *r = f->requests[i];
        const bw_gpu_why why = result->nq == f->n ? r->why : BW_GPU_WHY_WRONG;
        right = right && why != BW_GPU_WHY_WRONG;
        if (why != BW_GPU_WHY_UNCOVERED || !widen(d, r, &result->answers[i]))
            gpu_request_end(d, r, why);
    }
    return right;
}

static void batch_free(gpu_batch *f)
{
    bw_free(f->requests);
    bw_free(f->segments);
    *f = (gpu_batch){0};
}

/* The oldest is over for the host. */
static void land(gpu_device *d)
{
    batch_free(&d->flying[0]);
    memmove(&d->flying[0], &d->flying[1], (BW_GPU_INFLIGHT_MAX - 1) * sizeof d->flying[0]);
    d->flying[--d->nflying] = (gpu_batch){0};
}

/* Not ready in time. Its callers go on by the CPU the first time; the second is the end. */
static bw_gpu_status late(gpu_device *d)
{
    gpu_batch *f = &d->flying[0];
    const uint64_t age = gpu_now(d) - f->launched, most = d->host->o.launch_ns;
    if (age >= most && !f->late) {
        f->late = true;
        for (uint32_t i = 0; i < f->n; i++)
            gpu_request_end(d, f->requests[i], BW_GPU_WHY_TIMEOUT);
        f->n = 0;
    }
    return f->late && age >= 2 * most ? BW_GPU_LOST : BW_GPU_OK;
}

bw_gpu_status gpu_batch_wait(gpu_device *d)
{
    gpu_batch *f = &d->flying[0];
    bw_gpu_result result = {0};
    (void)pthread_mutex_unlock(&d->lock);
    bw_gpu_status st = d->module->wait(d->context, f->ticket, d->host->o.window_ns / 4 + 1, &result);
    if (st == BW_GPU_OK && !f->late && result.nq == f->n)
        look(f, &result);
    (void)pthread_mutex_lock(&d->lock);
    if (st == BW_GPU_TIMEOUT || st == BW_GPU_AGAIN)
        return late(d);
    if (st != BW_GPU_OK)
        return BW_GPU_LOST;
    const bool right = f->late || finish(d, f, &result);
    (void)pthread_mutex_unlock(&d->lock);
    d->module->release(d->context, f->ticket);
    (void)pthread_mutex_lock(&d->lock);
    land(d);
    return right ? BW_GPU_OK : BW_GPU_LOST;
}

void gpu_batches_fail(gpu_device *d, bw_gpu_why why)
{
    for (; d->nflying > 0; land(d))
        for (uint32_t i = 0; i < d->flying[0].n; i++)
            gpu_request_end(d, d->flying[0].requests[i], why);
    while (d->first) {
        gpu_request *r = d->first;
        queue_remove(d, r);
        gpu_request_end(d, r, why);
    }
}
