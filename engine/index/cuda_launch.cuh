/* One batch: checked, cut into chunks of queries that fit the workspace, laid out for the
 * kernels in one copy a chunk, and put on the ticket's stream.
 *
 * Items are sorted by how many of the chunk's queries read them into three lists, one for
 * each shape of the pass: up to 16 rows of A (few queries: bytes decide), up to 64, and
 * more (products decide). A query's group maxima lie in one run over all its items, in the
 * order of that sorted list; spans say which part of the run belongs to which item.
 *
 * Stream order makes the chunks share the device area: a chunk's copy waits for the
 * kernels of the one before. The pinned area is not shared; it holds all chunks. */
#ifndef BW_CUDA_LAUNCH_CUH
#define BW_CUDA_LAUNCH_CUH
#include "cuda_host.cuh"

struct chunk { /* queries from … to-1 of the batch, and the sizes of what they need */
    uint32_t from, to;
    uint32_t nitems, nreads;
    uint64_t nlows;
};

struct area { /* hands out aligned places; counts on even when past the end */
    uint64_t used;
};

static uint64_t area_take(area *a, uint64_t bytes)
{
    const uint64_t at = a->used;
    a->used += (bytes + PLACE - 1) / PLACE * PLACE;
    return at;
}

/* Offsets of everything of a chunk. The first `in_bytes` are the host's copy. */
struct chunk_layout {
    uint64_t vectors, items, reads, spans, span0, low0, groups, in_bytes;
    uint64_t parts, forms, lows, chosen, keys, out, bytes; /* out: answers, then hits */
    uint64_t hits, out_bytes;                               /* hits: from `out` on */
};

struct batch_plan {
    const bw_gpu_batch *b;
    uint32_t dtype, dim, euclid, form_stride, stored_stride, groups_max, hits_max;
    uint32_t *query_groups; /* nq: groups that the query may read */
    uint32_t *query_reads;  /* nq */
};

static chunk_layout chunk_plan(const batch_plan *p, const chunk *c)
{
    const uint64_t nq = c->to - c->from;
    chunk_layout l = {};
    area a = {0};
    l.vectors = area_take(&a, nq * p->dim * sizeof(float));
    l.items = area_take(&a, (uint64_t)c->nitems * sizeof(pass_item));
    l.reads = area_take(&a, (uint64_t)c->nreads * sizeof(pass_read));
    l.spans = area_take(&a, (uint64_t)c->nreads * sizeof(pass_span));
    l.span0 = area_take(&a, (nq + 1) * sizeof(uint32_t));
    l.low0 = area_take(&a, nq * sizeof(uint32_t));
    l.groups = area_take(&a, nq * sizeof(uint32_t));
    l.in_bytes = a.used;
    l.parts = area_take(&a, nq * bw_cuda_parts(p->dtype) * p->form_stride);
    l.forms = area_take(&a, nq * sizeof(bw_cuda_query));
    l.lows = area_take(&a, c->nlows * sizeof(float));
    l.chosen = area_take(&a, nq * p->groups_max * sizeof(uint32_t));
    l.keys = area_take(&a, nq * p->groups_max * BW_GPU_GROUP * sizeof(float));
    l.out = area_take(&a, nq * sizeof(bw_gpu_answer));
    l.hits = area_take(&a, nq * p->hits_max * sizeof(bw_gpu_hit)) - l.out;
    l.out_bytes = l.hits + nq * p->hits_max * sizeof(bw_gpu_hit);
    l.bytes = a.used;
    return l;
}

/* ---- checks ---- */

static const char *item_check(const bw_gpu_batch *b, const bw_gpu_item *it, const bw_gpu_shape *first)
{
    const bw_gpu_shape *s = &it->segment->shape;
    if (s->dtype != first->dtype || s->dim != first->dim || s->metric != first->metric)
        return "batch: items of different shapes";
    if (it->row0 % BW_GPU_GROUP != 0 || it->rows == 0 || it->row0 > s->rows ||
        it->rows > s->rows - it->row0)
        return "batch: an item's rows";
    if (it->nreads == 0 || it->nreads > b->nq || it->read0 > b->nreads ||
        it->nreads > b->nreads - it->read0)
        return "batch: an item's reads";
    for (uint32_t i = 0; i < it->nreads; i++) {
        const bw_gpu_read *r = &b->reads[it->read0 + i];
        if (r->query >= b->nq || (r->bits && r->bits->nbits < it->rows))
            return "batch: a read's query or bits";
        if (it->segment->dying || (r->bits && r->bits->dying))
            return "batch: what was freed";
    }
    return NULL;
}

static const char *batch_check(const bw_gpu_batch *b)
{
    if (!b->queries || b->nq == 0 || b->nq > BW_GPU_BATCH_MAX || b->k == 0 || b->k > BW_GPU_K_MAX ||
        (b->hits_max != 0 && b->hits_max < b->k) || b->nitems == 0 || b->nitems > BW_GPU_ITEMS_MAX ||
        b->nreads == 0 || b->nreads > BW_GPU_READS_MAX)
        return "batch: sizes";
    for (uint32_t i = 0; i < b->nitems; i++)
        if (!b->items[i].segment)
            return "batch: an item without a segment";
    for (uint32_t i = 0; i < b->nitems; i++) {
        const char *wrong = item_check(b, &b->items[i], &b->items[0].segment->shape);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static uint32_t item_groups(const bw_gpu_item *it)
{
    return (it->rows + BW_GPU_GROUP - 1) / BW_GPU_GROUP;
}

/* Sizes of the batch; its two arrays are one block. False: no host memory. */
static bool batch_plan_init(const bw_gpu_batch *b, batch_plan *p)
{
    const bw_gpu_segment *s = b->items[0].segment;
    uint64_t most = 0;
    memset(p, 0, sizeof *p);
    p->b = b;
    p->dtype = s->shape.dtype;
    p->dim = s->shape.dim;
    p->euclid = s->shape.metric == BW_CUDA_METRIC_EUCLID;
    p->form_stride = s->form_stride;
    p->stored_stride = s->stored_stride;
    p->query_groups = (uint32_t *)calloc((size_t)b->nq * 2, sizeof(uint32_t));
    if (!p->query_groups)
        return false;
    p->query_reads = p->query_groups + b->nq;
    for (uint32_t i = 0; i < b->nitems; i++)
        for (uint32_t r = 0; r < b->items[i].nreads; r++) {
            const uint32_t q = b->reads[b->items[i].read0 + r].query;
            p->query_groups[q] += item_groups(&b->items[i]); /* < 2^31 / 32 a segment, see below */
            p->query_reads[q]++;
            most = p->query_groups[q] > most ? p->query_groups[q] : most;
        }
    const uint32_t want = b->groups_max ? b->groups_max : b->k + b->k / 4 + 64;
    p->groups_max = most < want ? (uint32_t)(most ? most : 1) : want;
    p->groups_max = (p->groups_max + 3) / 4 * 4;
    p->hits_max = b->hits_max ? b->hits_max : b->k + 32;
    return true;
}

/* The longest chunk from query `from` on that fits; false: not one query does. */
static bool chunk_next(const batch_plan *p, uint64_t workspace, uint32_t from, chunk *out)
{
    chunk c = {from, from, p->b->nitems, 0, 0};
    while (c.to < p->b->nq) {
        chunk more = c;
        more.nreads += p->query_reads[c.to];
        more.nlows += p->query_groups[c.to];
        more.to++;
        if (more.nlows >= 1ull << 31 || chunk_plan(p, &more).bytes > workspace)
            break;
        c = more;
    }
    *out = c;
    return c.to > from;
}

/* ---- layout of a chunk ---- */

struct fill {
    pass_item *items;
    pass_read *reads;
    pass_span *spans;
    uint32_t *span0, *low0, *groups;
    uint32_t nitems[NSHAPES], ntiles[NSHAPES]; /* of each shape's list */
};

static uint32_t chunk_readers(const batch_plan *p, const chunk *c, const bw_gpu_item *it)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < it->nreads; r++) {
        const uint32_t q = p->b->reads[it->read0 + r].query;
        n += q >= c->from && q < c->to;
    }
    return n;
}

static int shape_for(const shape_info *shapes, uint32_t nreads)
{
    int s = 0;
    while (s < NSHAPES - 1 && nreads > shapes[s].queries)
        s++;
    return s;
}

static void fill_item(const batch_plan *p, const chunk *c, uint32_t number, uint32_t at, uint32_t tile0,
                      uint32_t *read_at, uint32_t *cursor, fill *f)
{
    const bw_gpu_item *it = &p->b->items[number];
    const bw_gpu_segment *s = it->segment;
    pass_item *out = &f->items[at];
    *out = {s->form + (size_t)it->row0 * s->form_stride,
            s->factors + it->row0,
            s->bounds + it->row0 / BW_GPU_GROUP,
            s->stored + (size_t)it->row0 * s->stored_stride,
            it->rows,
            *read_at,
            0,
            tile0,
            number,
            0};
    for (uint32_t r = 0; r < it->nreads; r++) {
        const bw_gpu_read *rd = &p->b->reads[it->read0 + r];
        if (rd->query < c->from || rd->query >= c->to)
            continue;
        const uint32_t q = rd->query - c->from;
        f->reads[*read_at] = {rd->bits ? rd->bits->words : NULL, q, f->low0[q] + f->groups[q]};
        f->spans[cursor[q]++] = {f->groups[q], at, *read_at};
        f->groups[q] += item_groups(it);
        ++*read_at;
        out->nreads++;
    }
}

/* Fills the pinned copy. cursor: one number a query. */
static void chunk_fill(const batch_plan *p, const chunk *c, const shape_info *shapes, uint8_t *to,
                       const chunk_layout *l, uint32_t *cursor, fill *f)
{
    const uint32_t nq = c->to - c->from;
    uint32_t at = 0, read_at = 0, span = 0, low = 0;
    f->items = (pass_item *)(to + l->items);
    f->reads = (pass_read *)(to + l->reads);
    f->spans = (pass_span *)(to + l->spans);
    f->span0 = (uint32_t *)(to + l->span0);
    f->low0 = (uint32_t *)(to + l->low0);
    f->groups = (uint32_t *)(to + l->groups);
    memcpy(to + l->vectors, p->b->queries + (size_t)c->from * p->dim, (size_t)nq * p->dim * sizeof(float));
    for (uint32_t q = 0; q < nq; q++) {
        f->span0[q] = cursor[q] = span;
        f->low0[q] = low;
        f->groups[q] = 0;
        span += p->query_reads[c->from + q];
        low += p->query_groups[c->from + q];
    }
    f->span0[nq] = span;
    for (int s = 0; s < NSHAPES; s++) {
        const uint32_t start = at;
        uint32_t tiles = 0;
        for (uint32_t i = 0; i < p->b->nitems; i++) {
            const uint32_t n = chunk_readers(p, c, &p->b->items[i]);
            if (n == 0 || shape_for(shapes, n) != s)
                continue;
            fill_item(p, c, i, at++, tiles, &read_at, cursor, f);
            tiles += (p->b->items[i].rows + shapes[s].rows - 1) / shapes[s].rows *
                     ((n + shapes[s].queries - 1) / shapes[s].queries);
        }
        f->nitems[s] = at - start;
        f->ntiles[s] = tiles;
    }
}

/* ---- launch ---- */

static bw_gpu_status passes_start(bw_gpu *g, bw_gpu_ticket *t, const batch_plan *p, const chunk_layout *l,
                                  const fill *f)
{
    const shape_info *shapes = g->shapes[p->dtype == BW_GPU_I8     ? FORM_I8
                                         : p->dtype == BW_GPU_BF16 ? FORM_BF16
                                                                   : FORM_F16];
    uint32_t first = 0;
    for (int s = 0; s < NSHAPES; s++) {
        if (f->nitems[s] == 0)
            continue;
        pass_launch a;
        a.items = (const pass_item *)(t->device + l->items) + first;
        a.reads = (const pass_read *)(t->device + l->reads);
        a.queries = t->device + l->parts;
        a.forms = (const bw_cuda_query *)(t->device + l->forms);
        a.lows = (float *)(t->device + l->lows);
        a.nitems = f->nitems[s];
        a.ntiles = f->ntiles[s];
        a.slices = p->form_stride / BW_CUDA_SLICE;
        a.stride = p->form_stride;
        first += f->nitems[s];
        const uint32_t blocks = a.ntiles < shapes[s].blocks ? a.ntiles : shapes[s].blocks;
        BW_CUDA_LAUNCH(shapes[s].kernel, blocks, shapes[s].threads, shapes[s].shared, t->stream, a);
        TRY(g, cudaGetLastError(), "first pass");
    }
    return BW_GPU_OK;
}

static bw_gpu_status selects_start(bw_gpu *g, bw_gpu_ticket *t, const batch_plan *p, const chunk *c,
                                   const chunk_layout *l)
{
    select_launch a;
    uint8_t *d = t->device;
    a.items = (const pass_item *)(d + l->items);
    a.reads = (const pass_read *)(d + l->reads);
    a.spans = (const pass_span *)(d + l->spans);
    a.span0 = (const uint32_t *)(d + l->span0);
    a.low0 = (const uint32_t *)(d + l->low0);
    a.groups = (const uint32_t *)(d + l->groups);
    a.forms = (const bw_cuda_query *)(d + l->forms);
    a.vectors = (const float *)(d + l->vectors);
    a.lows = (const float *)(d + l->lows);
    a.chosen = (uint32_t *)(d + l->chosen);
    a.keys = (float *)(d + l->keys);
    a.answers = (bw_gpu_answer *)(d + l->out);
    a.hits = (bw_gpu_hit *)(d + l->out + l->hits);
    a.dim = p->dim;
    a.dtype = p->dtype;
    a.euclid = p->euclid;
    a.stored_stride = p->stored_stride;
    a.k = p->b->k;
    a.groups_max = p->groups_max;
    a.hits_max = p->hits_max;
    a.nq = c->to - c->from;
    BW_CUDA_LAUNCH(bw_cuda_select, a.nq, SELECT_THREADS, 0, t->stream, a);
    const dim3 grid((a.groups_max + RESCORE_THREADS / 32 - 1) / (RESCORE_THREADS / 32), a.nq);
    switch (p->dtype) {
    case BW_GPU_F32:
        BW_CUDA_LAUNCH(bw_cuda_rescore<BW_GPU_F32>, grid, RESCORE_THREADS, 0, t->stream, a);
        break;
    case BW_GPU_F16:
        BW_CUDA_LAUNCH(bw_cuda_rescore<BW_GPU_F16>, grid, RESCORE_THREADS, 0, t->stream, a);
        break;
    case BW_GPU_BF16:
        BW_CUDA_LAUNCH(bw_cuda_rescore<BW_GPU_BF16>, grid, RESCORE_THREADS, 0, t->stream, a);
        break;
    default:
        BW_CUDA_LAUNCH(bw_cuda_rescore<BW_GPU_I8>, grid, RESCORE_THREADS, 0, t->stream, a);
        break;
    }
    BW_CUDA_LAUNCH(bw_cuda_finish, a.nq, FINISH_THREADS, 0, t->stream, a);
    TRY(g, cudaGetLastError(), "select");
    return BW_GPU_OK;
}

static bw_gpu_status chunk_start(bw_gpu *g, bw_gpu_ticket *t, const batch_plan *p, const chunk *c,
                                 uint8_t *pinned, uint32_t *cursor)
{
    enum { WARPS = 4 };
    const chunk_layout l = chunk_plan(p, c);
    const uint32_t nq = c->to - c->from;
    const shape_info *shapes = g->shapes[p->dtype == BW_GPU_I8     ? FORM_I8
                                         : p->dtype == BW_GPU_BF16 ? FORM_BF16
                                                                   : FORM_F16];
    fill f;
    chunk_fill(p, c, shapes, pinned, &l, cursor, &f);
    TRY(g, cudaMemcpyAsync(t->device, pinned, l.in_bytes, cudaMemcpyHostToDevice, t->stream), "queries");
    BW_CUDA_LAUNCH(bw_cuda_queries, (nq + WARPS - 1) / WARPS, WARPS * 32, 0, t->stream,
        (const float *)(t->device + l.vectors), t->device + l.parts, (bw_cuda_query *)(t->device + l.forms),
        nq, p->dim, p->dtype, p->euclid, p->form_stride);
    bw_gpu_status s = passes_start(g, t, p, &l, &f);
    if (s == BW_GPU_OK)
        s = selects_start(g, t, p, c, &l);
    if (s != BW_GPU_OK)
        return s;
    TRY(g,
        cudaMemcpyAsync(t->answers + c->from, t->device + l.out, nq * sizeof(bw_gpu_answer),
                        cudaMemcpyDeviceToHost, t->stream),
        "answers");
    TRY(g,
        cudaMemcpyAsync(t->hits + (size_t)c->from * p->hits_max, t->device + l.out + l.hits,
                        (size_t)nq * p->hits_max * sizeof(bw_gpu_hit), cudaMemcpyDeviceToHost, t->stream),
        "hits");
    return BW_GPU_OK;
}

/* Where the ticket's answers and hits lie, and whether all chunks' copies fit beside them.
 * Returns the offset of the first chunk's copy, or 0 when they do not. */
static uint64_t pinned_plan(const bw_gpu *g, const batch_plan *p, bw_gpu_ticket *t)
{
    area a = {0};
    chunk c = {0, 0, 0, 0, 0};
    const uint64_t answers = area_take(&a, (uint64_t)p->b->nq * sizeof(bw_gpu_answer));
    const uint64_t hits = area_take(&a, (uint64_t)p->b->nq * p->hits_max * sizeof(bw_gpu_hit));
    const uint64_t start = a.used;
    while (c.to < p->b->nq) {
        if (!chunk_next(p, g->workspace, c.to, &c))
            return 0;
        (void)area_take(&a, chunk_plan(p, &c).in_bytes);
    }
    if (a.used > g->pinned)
        return 0;
    t->answers = (bw_gpu_answer *)(t->pinned + answers);
    t->hits = (bw_gpu_hit *)(t->pinned + hits);
    t->nq = p->b->nq;
    t->hits_max = p->hits_max;
    return start;
}

static bw_gpu_status batch_start(bw_gpu *g, bw_gpu_ticket *t, const batch_plan *p, uint64_t at,
                                 uint32_t *cursor)
{
    chunk c = {0, 0, 0, 0, 0};
    TRY(g, cudaStreamWaitEvent(t->stream, g->uploaded, 0), "launch");
    TRY(g, cudaEventRecord(t->first, t->stream), "launch");
    while (c.to < p->b->nq && chunk_next(p, g->workspace, c.to, &c)) {
        const bw_gpu_status s = chunk_start(g, t, p, &c, t->pinned + at, cursor);
        if (s != BW_GPU_OK)
            return s;
        at += chunk_plan(p, &c).in_bytes;
    }
    TRY(g, cudaEventRecord(t->last, t->stream), "launch");
    return BW_GPU_OK;
}

static bw_gpu_status gpu_launch(bw_gpu *g, const bw_gpu_batch *b, bw_gpu_ticket **out)
{
    bw_gpu_status s = gpu_enter(g);
    batch_plan p;
    if (s != BW_GPU_OK)
        return s;
    const char *wrong = batch_check(b);
    if (wrong)
        return gpu_wrong(g, BW_GPU_INVALID, wrong);
    bw_gpu_ticket *t = ticket_take(g);
    if (!t)
        return BW_GPU_AGAIN;
    if (!batch_plan_init(b, &p))
        return gpu_wrong(g, BW_GPU_NOMEM, "batch: host memory");
    uint32_t *cursor = (uint32_t *)calloc(b->nq, sizeof *cursor);
    const uint64_t at = pinned_plan(g, &p, t);
    if (!cursor || at == 0)
        s = gpu_wrong(g, BW_GPU_NOMEM, "batch: workspace");
    else if (!ticket_hold(t, b))
        s = gpu_wrong(g, BW_GPU_NOMEM, "batch: host memory");
    if (s == BW_GPU_OK) {
        t->state = TICKET_FLYING;
        s = batch_start(g, t, &p, at, cursor);
        if (s != BW_GPU_OK) /* some of it may run: nothing that it reads goes before `close` */
            t->state = TICKET_LEFT, g->lost = true, s = BW_GPU_LOST;
        else
            *out = t;
    }
    free(cursor);
    free(p.query_groups);
    return s;
}
#endif
