/* Dense and sparse search in one snapshot.
 *
 * For each block the planner (index/choose.h) picks from counts alone: a scan in stored
 * precision, the scan of 4-bit codes (both exact, also of growing blocks), or the graph
 * of a sealed segment that has adopted one. Every block of every partition pushes into
 * the same heap, whose order is total: blocks may come in any order, and what one has
 * found prunes the next. Rows that codes leave wait for those of the other blocks and
 * partitions (bw_dense_query.pass). Several queries share one pass; a block is read once for all
 * of them that are answered alike, and each gets the bits that it would get alone.
 *
 * Rows with gaps in their numbering (their segment had dead rows when it was sealed) are
 * pushed under their slot with SLOT_MARK set, and get their ordinal after the block:
 * within one partition an id has one living row, so the heap's order never asks. */
#include "../index/choose.h"
#include "../index/codes.h"
#include "../index/gpu_host.h"
#include "../kernels/scan.h"
#include "part.h"

enum {
    CHUNK_ROWS = 16384,
    FETCH_ROWS = 64,
    BRIEF_BYTES = 1 << 22 /* that a brief attempt may read of a block */
};
#define SLOT_MARK ((uint32_t)1 << 31)

static bool is_gapless(const bw_block_ref *r)
{
    return r->b->ord[r->n - 1] - r->b->ord[0] == r->n - 1;
}

/* The bits of a block's rows. A block that is the whole partition: the caller's own
 * bitmap. Rows without gaps: a shifted copy; else one by one. */
static bw_status local_bits(bw_ctx *ctx, const bw_block_ref *r,
                            const bw_bitmap *allowed, const bw_bitmap **bits)
{
    const uint32_t *ord = r->b->ord;
    bool gapless = is_gapless(r);
    if (gapless && ord[0] == 0 && r->n == allowed->nbits) {
        *bits = allowed;
        return BW_OK;
    }
    bw_bitmap *out = bw_arena_alloc(ctx, sizeof *out);
    bw_status st = out ? bw_bitmap_arena(ctx, r->n, out) : BW_ENOMEM;
    *bits = out;
    if (st != BW_OK)
        return st;
    if (!gapless) {
        for (uint32_t i = 0; i < r->n; i++)
            if (bw_bitmap_get(allowed, ord[i]))
                bw_bitmap_set(out, i);
        return BW_OK;
    }
    size_t shift = ord[0] % 64, word = ord[0] / 64;
    size_t have = bw_bitmap_words(allowed->nbits), need = bw_bitmap_words(r->n);
    for (size_t i = 0; i < need; i++) {
        uint64_t lo = word + i < have ? allowed->words[word + i] : 0;
        uint64_t hi = word + i + 1 < have ? allowed->words[word + i + 1] : 0;
        out->words[i] = shift ? lo >> shift | hi << (64 - shift) : lo;
    }
    if (r->n % 64)
        out->words[need - 1] &= ((uint64_t)1 << (r->n % 64)) - 1;
    return BW_OK;
}

/* ---- one query in one block ---- */

typedef struct ask {
    const bw_dense_query *q;
    const bw_bitmap *bits; /* of the block */
    size_t n;              /* how many are set */
    bw_choice choice;
    uint32_t effort; /* of a graph */
    float recall;    /* wanted of it; 0: ef was given */
} ask;

typedef struct pass { /* over one block */
    bw_ctx *ctx;
    const bw_snapshot *s;
    const bw_block_ref *r;
    const bw_index *graph; /* NULL: none that serves */
    bw_rows rows;
    uint32_t part, row0;
} pass;

static const bw_index *graph_of(const bw_snapshot *s, const bw_block_ref *r)
{
    return r->seg >= 0 && s->segs[r->seg].p.adopted ? bw_build_index(r->b->m) : NULL;
}

/* Effort for the recall that is wanted, as the index measured it or as the table has it.
 * 0: no effort gives it. */
static uint32_t effort_for(const pass *b, const bw_search_params *p, float recall)
{
    const bw_index_ops *ops = b->graph->ops;
    if (recall == 0)
        return p->ef_search;
    return ops->effort_of ? ops->effort_of(b->graph, recall, p->k)
                          : bw_choose_effort(recall, b->r->n, p->k);
}

/* Cache lines of one hop: of our graph an own vector of 8 bits, the codes and factors of
 * 32 neighbours; else half of 32 neighbours' vectors. */
static uint32_t hop_lines(const pass *b)
{
    uint32_t dim = b->rows.dim;
    if (strcmp(b->graph->ops->name, "graph") == 0)
        return (5 * dim + 256 + 63) / 64;
    return 2 + 16 * ((dim * (uint32_t)sizeof(float) + 63) / 64);
}

/* Rows on file make codes the cheaper way. Where they lie hangs on what else the cell
 * holds, so a search that tells of its work is planned as the collection is set up. */
static bool counts_as_on_file(const pass *b, const ask *a)
{
    return a->q->trace ? b->s->part->specs[a->q->p->vec].on_disk : !b->rows.data;
}

static void choose(const pass *b, ask *a)
{
    const bw_search_params *p = a->q->p;
    const bw_part_env *env = b->s->part->env;
    bw_choose_ask whole = {p->exact, p->ef_search, p->recall, p->permitted,
                           env->exact_rows};
    bw_choose_block block = {.rows = b->r->n,
                             .permitted = a->n,
                             .k = p->k,
                             .dim = b->rows.dim,
                             .dtype = b->rows.dtype,
                             .codes = b->r->b->m->codes != NULL,
                             .on_file = counts_as_on_file(b, a),
                             .chained = a->q->out->n >= a->q->out->k,
                             .whole = a->q->pass ? p->permitted : 0};
    bool may = b->graph && bw_choose_approximate(&whole, &a->recall);
    if (may)
        a->effort = effort_for(b, p, a->recall);
    if (may && a->effort > 0) {
        const bool for_ten = a->recall == 0 || b->graph->ops->effort_of;
        block.hops = for_ten ? bw_choose_hops(a->effort, p->k) : a->effort;
        block.hop_lines = hop_lines(b);
    }
    if (block.hops > 0 && env->graphs_first && a->n >= env->graph_rows_min)
        a->choice = BW_CHOICE_GRAPH;
    else
        a->choice = bw_choose(&block, NULL);
}

static void note(const pass *b, const ask *a)
{
    bw_search_trace *t = a->q->trace;
    if (!t)
        return;
    t->rows_permitted += a->n;
    t->rows_scanned += a->choice == BW_CHOICE_GRAPH ? 0 : a->n;
    t->segments_flat += a->choice == BW_CHOICE_SCAN;
    t->segments_codes += a->choice == BW_CHOICE_CODES;
    t->segments_graph += a->choice == BW_CHOICE_GRAPH;
    if (a->choice != BW_CHOICE_GRAPH)
        return;
    const bw_index_ops *ops = b->graph->ops;
    float loss = ops->recall_of ? 1 - ops->recall_of(b->graph, a->effort) : 0;
    t->unmeasured += !ops->recall_of;
    t->loss = loss > t->loss ? loss : t->loss;
}

/* ---- the three ways ---- */

/* Rows that are not in memory, in stored precision. */
static bw_status scan_fetched(const pass *b, const ask *a)
{
    uint32_t which[FETCH_ROWS];
    float keys[FETCH_ROWS];
    bw_metric metric = b->r->b->m->metric;
    const bw_point_id *ids = b->r->b->m->ids;
    bw_status st = BW_OK;
    for (size_t i = bw_bitmap_next(a->bits, 0); st == BW_OK && i < b->r->n;) {
        size_t n = 0;
        for (; n < FETCH_ROWS && i < b->r->n; i = bw_bitmap_next(a->bits, i + 1))
            which[n++] = (uint32_t)i;
        st = bw_rows_keys(b->ctx, &b->rows, metric, a->q->query, which, n, keys);
        for (size_t j = 0; st == BW_OK && j < n; j++) {
            const bw_candidate c = {keys[j], b->part, b->row0 + which[j],
                                    ids[which[j]]};
            if (bw_topk_wants(a->q->out, c.key))
                bw_topk_push(a->q->out, &c);
        }
        if (st == BW_OK)
            st = bw_ctx_check(b->ctx);
    }
    return st;
}

/* In pieces, so that the deadline is looked at. */
static bw_status scan_rows(const pass *b, const ask *const *asks, size_t n)
{
    const bw_matrix *m = b->r->b->m;
    bw_scan_query *qs = bw_arena_alloc(b->ctx, n * sizeof *qs);
    bw_bitmap *bits = bw_arena_alloc(b->ctx, n * sizeof *bits);
    if (!qs || !bits)
        return BW_ENOMEM;
    for (size_t at = 0; at < b->r->n; at += CHUNK_ROWS) {
        size_t rows = b->r->n - at < CHUNK_ROWS ? b->r->n - at : CHUNK_ROWS;
        bw_scan_input in = {.metric = m->metric,
                            .dtype = m->dtype,
                            .rows = bw_row_at(m->dtype, m->data, m->dim, at),
                            .scales = m->scales ? m->scales + at : NULL,
                            .ids = m->ids + at,
                            .n = rows,
                            .dim = m->dim,
                            .part = b->part,
                            .row0 = b->row0 + (uint32_t)at};
        for (size_t i = 0; i < n; i++) {
            bool same = i > 0 && asks[i]->bits == asks[i - 1]->bits;
            bits[i] = (bw_bitmap){asks[i]->bits->words + at / 64, rows};
            qs[i] = (bw_scan_query){asks[i]->q->query, same ? qs[i - 1].allowed : &bits[i],
                                    asks[i]->q->out};
        }
        if (n == 1)
            bw_scan_rows(bw_kernels_get(), &in, qs);
        else
            bw_scan_block(bw_kernels_get(), &in, qs, n);
        bw_status st = at + rows < b->r->n ? bw_ctx_check(b->ctx) : BW_OK;
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

/* The block in the pass that the whole search makes. Who wants to be told of the work
 * does not leave rows waiting for the next partition's. */
static bw_status pass_codes(const pass *b, const ask *const *asks, size_t n)
{
    bw_codes_pass *p = asks[0]->q->pass;
    const bw_bitmap *allowed[BW_CODES_QUERIES_MAX] = {NULL};
    uint64_t before[BW_CODES_QUERIES_MAX];
    bool told = false;
    const bool gapless = b->row0 != SLOT_MARK;
    const bw_codes_block block = {.codes = b->r->b->m->codes,
                                  .rows = b->rows,
                                  .ids = b->r->b->m->ids,
                                  .ord = gapless ? NULL : b->r->b->ord,
                                  .part = b->part,
                                  .row0 = gapless ? b->row0 : 0};
    for (size_t i = 0; i < n; i++) {
        assert(asks[i]->q->pass == p && asks[i]->q->asker < BW_CODES_QUERIES_MAX);
        allowed[asks[i]->q->asker] = asks[i]->bits;
        before[i] = bw_codes_scored(p, asks[i]->q->asker);
        told = told || asks[i]->q->trace;
    }
    bw_status st = bw_codes_add(p, &block, allowed);
    if (st == BW_OK && told)
        st = bw_codes_settle(p);
    for (size_t i = 0; st == BW_OK && i < n; i++)
        if (asks[i]->q->trace)
            asks[i]->q->trace->rows_rescored +=
                bw_codes_scored(p, asks[i]->q->asker) - before[i];
    return st;
}

static bw_status scan_codes(const pass *b, const ask *const *asks, size_t n)
{
    if (asks[0]->q->pass)
        return pass_codes(b, asks, n);
    bw_codes_query *qs = bw_arena_alloc(b->ctx, n * sizeof *qs);
    uint64_t *rescored = bw_arena_calloc(b->ctx, n, sizeof *rescored);
    if (!qs || !rescored)
        return BW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        qs[i] = (bw_codes_query){asks[i]->q->query, asks[i]->bits, asks[i]->q->out};
    bw_status st = bw_codes_scan(b->ctx, b->r->b->m->codes, &b->rows, qs, n,
                                 b->r->b->m->ids, b->part, b->row0, rescored);
    for (size_t i = 0; st == BW_OK && i < n; i++)
        if (asks[i]->q->trace)
            asks[i]->q->trace->rows_rescored += rescored[i];
    return st;
}

static bw_status walk_graph(const pass *b, const ask *a)
{
    bw_search_trace *t = a->q->trace;
    const bw_index_search s = {.query = a->q->query,
                               .k = a->q->p->k,
                               .effort = a->effort,
                               .recall = a->recall,
                               .allowed = a->bits,
                               .ids = b->r->b->m->ids,
                               .part = b->part,
                               .row0 = b->row0,
                               .rows = &b->rows,
                               .hops = t ? &t->hops : NULL,
                               .rescored = t ? &t->rows_rescored : NULL};
    return b->graph->ops->search(b->ctx, b->graph, &s, a->q->out);
}

/* ---- a block ---- */

static void give_ordinals(const pass *b, bw_topk *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->items[i].part == b->part && (t->items[i].row & SLOT_MARK))
            t->items[i].row = b->r->b->ord[t->items[i].row & ~SLOT_MARK];
}

/* What the choice reads, in counts alone. */
static bw_status check_work(const pass *b, const ask *a)
{
    const bw_matrix *m = b->r->b->m;
    uint64_t bytes = 0;
    if (a->choice == BW_CHOICE_SCAN)
        bytes = (uint64_t)a->n * (bw_matrix_row_bytes(m) / m->cap);
    else if (a->choice == BW_CHOICE_CODES)
        bytes = (uint64_t)b->r->n * (m->dim / 2);
    else
        bytes = (uint64_t)a->effort * hop_lines(b) * 64;
    return bytes > BRIEF_BYTES ? bw_ctx_may_wait(b->ctx) : BW_OK;
}

static bw_status run_choice(const pass *b, const ask *asks, size_t n, bw_choice choice)
{
    const ask **list = bw_arena_alloc(b->ctx, n * sizeof(const ask *));
    size_t m = 0;
    bw_status st = list ? BW_OK : BW_ENOMEM;
    for (size_t i = 0; list && i < n; i++)
        if (asks[i].choice == choice)
            list[m++] = &asks[i];
    if (st != BW_OK || m == 0)
        return st;
    if (choice == BW_CHOICE_CODES)
        return scan_codes(b, list, m);
    if (choice == BW_CHOICE_SCAN && b->rows.data)
        return scan_rows(b, list, m);
    for (size_t i = 0; st == BW_OK && i < m; i++)
        st = choice == BW_CHOICE_GRAPH ? walk_graph(b, list[i])
                                       : scan_fetched(b, list[i]);
    return st;
}

static bw_status search_block(bw_ctx *ctx, const bw_snapshot *s, const bw_block_ref *r,
                              const bw_dense_query *qs, size_t nq)
{
    bool gapless = is_gapless(r);
    pass b = {ctx, s, r, graph_of(s, r), bw_matrix_view(r->b->m, r->n),
              qs->p->part, gapless ? r->b->ord[0] : SLOT_MARK};
    ask *asks = bw_arena_alloc(ctx, nq * sizeof *asks);
    size_t n = 0;
    if (!asks)
        return BW_ENOMEM;
    const bw_bitmap *allowed = NULL, *bits = NULL;
    size_t count = 0;
    for (size_t i = 0; i < nq; i++) {
        if (!allowed || qs[i].p->allowed != allowed) {
            allowed = qs[i].p->allowed;
            bw_status st = local_bits(ctx, r, allowed, &bits);
            if (st != BW_OK)
                return st;
            count = bw_bitmap_count(bits);
        }
        if (count == 0 || qs[i].p->k == 0)
            continue;
        asks[n] = (ask){.q = &qs[i], .bits = bits, .n = count};
        choose(&b, &asks[n]);
        bw_status st = check_work(&b, &asks[n]);
        if (st != BW_OK)
            return st;
        note(&b, &asks[n++]);
    }
    bw_status st = BW_OK;
    for (int c = BW_CHOICE_SCAN; st == BW_OK && c <= BW_CHOICE_GRAPH; c++)
        st = run_choice(&b, asks, n, (bw_choice)c);
    for (size_t i = 0; st == BW_OK && !gapless && i < n; i++)
        give_ordinals(&b, asks[i].q->out);
    return st;
}

/* ---- on a GPU: all blocks of the partition in one request a query ---- */

typedef struct gpu_call {
    const bw_snapshot *s;
    const bw_dense_query *qs;
    const bw_gpu_ask *asks;
    const bw_block_ref **refs; /* by block */
} gpu_call;

static void matrix_hold(void *m)
{
    bw_matrix_acquire(m);
}

static void matrix_drop(void *m)
{
    bw_matrix_release(m);
}

static pass pass_of(bw_ctx *ctx, const bw_snapshot *s, const bw_block_ref *r, uint32_t part)
{
    return (pass){ctx,  s, r, graph_of(s, r), bw_matrix_view(r->b->m, r->n),
                  part, is_gapless(r) ? r->b->ord[0] : SLOT_MARK};
}

/* No graph would be asked: then a device's exact answer is the CPU's. Nor is anything
 * told of the work: what a device leaves to the CPU hangs on whose rows lie there. */
static bool device_may(const bw_snapshot *s, const bw_dense_query *qs, size_t nq)
{
    float recall;
    const bool graphs = bw_snapshot_has_graph(s, qs->p->vec);
    for (size_t i = 0; i < nq; i++) {
        if (qs[i].trace)
            return false;
        if (!graphs)
            continue;
        const bw_search_params *p = qs[i].p;
        bw_choose_ask whole = {p->exact, p->ef_search, p->recall, p->permitted,
                               s->part->env->exact_rows};
        if (bw_choose_approximate(&whole, &recall))
            return false;
    }
    return true;
}

/* bw_gpu_cpu.scan: what the device leaves, as the planner has it. */
static bw_status scan_left(bw_ctx *ctx, void *arg, const bw_gpu_ask *a, const bw_gpu_block *b,
                           const bw_bitmap *allowed)
{
    const gpu_call *g = arg;
    bw_dense_query own = g->qs[a - g->asks], *q = &own;
    own.pass = NULL; /* its list is merged with the device's: right at once */
    const pass p = pass_of(ctx, g->s, g->refs[b - a->blocks], q->p->part);
    ask one = {.q = q, .bits = allowed, .n = bw_bitmap_count(allowed)};
    choose(&p, &one);
    bw_status st = run_choice(&p, &one, 1, one.choice);
    if (st == BW_OK && p.row0 == SLOT_MARK)
        give_ordinals(&p, q->out);
    return st;
}

/* The blocks of one query; those of the query before where the rights are the same. */
static bw_status gpu_blocks(const gpu_call *g, bw_ctx *ctx, const bw_rows *views, size_t n, size_t i,
                            const bw_gpu_block *before, bw_gpu_block *out)
{
    bw_status st = BW_OK;
    const bw_dense_query *q = &g->qs[i];
    for (size_t b = 0; st == BW_OK && b < n; b++) {
        const bw_block_ref *r = g->refs[b];
        const bw_matrix *m = r->b->m;
        out[b] = (bw_gpu_block){.identity = m->gpu_identity,
                                .metric = m->metric,
                                .rows = &views[b],
                                .cap = m->cap,
                                .ids = m->ids,
                                .ord = r->b->ord,
                                .part = q->p->part,
                                .owner = (void *)(uintptr_t)m,
                                .acquire = matrix_hold,
                                .release = matrix_drop};
        if (before && q->p->allowed == g->qs[i - 1].p->allowed)
            out[b].allowed = before[b].allowed;
        else
            st = local_bits(ctx, r, q->p->allowed, &out[b].allowed);
        if (st != BW_OK)
            return st;
    }
    return st;
}

static bw_status search_gpu(bw_ctx *ctx, const bw_snapshot *s, const bw_block_list *l,
                            const bw_dense_query *qs, size_t nq)
{
    bw_gpu_ask *asks = bw_arena_alloc(ctx, nq * sizeof *asks);
    const bw_block_ref **refs = bw_arena_alloc(ctx, l->n * sizeof(const bw_block_ref *));
    bw_rows *views = bw_arena_alloc(ctx, l->n * sizeof *views);
    bw_gpu_block *blocks = bw_arena_calloc(ctx, nq * l->n, sizeof *blocks);
    const gpu_call g = {s, qs, asks, refs};
    size_t n = 0;
    if (!asks || !refs || !views || !blocks)
        return BW_ENOMEM;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->items[i].n > 0) {
            views[n] = bw_matrix_view(l->items[i].b->m, l->items[i].n);
            refs[n++] = &l->items[i];
        }
    for (size_t i = 0; i < nq; i++) {
        bw_gpu_block *own = blocks + i * n;
        bw_status st = gpu_blocks(&g, ctx, views, n, i, i > 0 ? own - n : NULL, own);
        if (st != BW_OK)
            return st;
        asks[i] = (bw_gpu_ask){qs[i].query, own, n, qs[i].out};
    }
    const bw_gpu_cpu cpu = {scan_left, (void *)(uintptr_t)&g};
    return bw_gpu_search(ctx, s->part->env->gpu, asks, nq, &cpu);
}

/* Growing rows as one block of the living. How they lie hangs on the writes that they came
 * by and on rows that died since, and a start lays them out anew: who tells of his work
 * tells of this. Bits and order of an answer are the same. */
static bw_status search_gathered(bw_ctx *ctx, const bw_snapshot *s, const bw_block_ref *refs,
                                 uint32_t n, const bw_dense_query *qs, size_t nq)
{
    bw_block *b = NULL;
    bw_status st = bw_ctx_may_wait(ctx);
    if (st != BW_OK)
        return st;
    st = bw_snapshot_gather(ctx, s, qs->p->vec, refs, n, &s->live, &b);
    if (st != BW_OK || !b)
        return st;
    const bw_block_ref whole = {b, b->used, -1};
    st = search_block(ctx, s, &whole, qs, nq);
    if (st == BW_OK && qs->pass)
        st = bw_codes_settle(qs->pass); /* before the block goes */
    bw_block_release(b);
    return st;
}

bw_status bw_snapshot_search_many(bw_ctx *ctx, const bw_snapshot *s,
                                  const bw_dense_query *qs, size_t nq)
{
    const bw_block_list *l = &s->vecs[nq > 0 ? qs->p->vec : 0];
    if (s->part->env->gpu && nq > 0 && device_may(s, qs, nq)) {
        bw_arena_mark mark = bw_arena_mark_get(ctx);
        bw_status st = bw_ctx_may_wait(ctx);
        if (st == BW_OK)
            st = search_gpu(ctx, s, l, qs, nq);
        bw_arena_release(ctx, mark);
        return st == BW_OK ? bw_ctx_check(ctx) : st;
    }
    for (uint32_t i = 0; nq > 0 && i < l->n; i++) {
        if (l->items[i].n == 0)
            continue;
        bool gathered = qs->trace && l->items[i].seg < 0;
        bw_arena_mark mark = bw_arena_mark_get(ctx);
        bw_status st = gathered ? search_gathered(ctx, s, &l->items[i], l->n - i, qs, nq)
                                : search_block(ctx, s, &l->items[i], qs, nq);
        bw_arena_release(ctx, mark);
        if (gathered && st == BW_OK)
            return bw_ctx_check(ctx);
        if (st == BW_OK)
            st = bw_ctx_check(ctx);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

bw_status bw_snapshot_search_dense(bw_ctx *ctx, const bw_snapshot *s,
                                   const float *query, const bw_search_params *p,
                                   bw_topk *out, bw_search_trace *trace)
{
    const bw_dense_query q = {.query = query, .p = p, .out = out, .trace = trace};
    return bw_snapshot_search_many(ctx, s, &q, 1);
}

uint32_t bw_snapshot_exact_rows(const bw_snapshot *s)
{
    return s->part->env->exact_rows;
}

bool bw_snapshot_has_graph(const bw_snapshot *s, uint32_t vec)
{
    if (s->small_rows > 0 && vec == 0)
        return false; /* without a look at its blocks */
    for (uint32_t i = 0; i < s->vecs[vec].n; i++)
        if (s->vecs[vec].items[i].n > 0 && graph_of(s, &s->vecs[vec].items[i]))
            return true;
    return false;
}

bw_status bw_snapshot_sparse_df(bw_ctx *ctx, const bw_snapshot *s, uint32_t vec,
                                const uint32_t *indices, size_t n,
                                const bw_bitmap *visible, uint64_t *df)
{
    bw_snapshot_index_rdlock(s);
    bw_status st = bw_sparse_df(ctx, s->gen->sparse[vec], indices, n, visible, df);
    bw_snapshot_index_unlock(s);
    return st;
}

bw_status bw_snapshot_search_sparse(bw_ctx *ctx, const bw_snapshot *s,
                                    const bw_vector *query, const bw_search_params *p,
                                    bw_topk *out, bw_search_trace *trace)
{
    bw_snapshot_index_rdlock(s);
    /* The table is read under the lock too: lists may name rows that s does not cover,
     * and those are not allowed, but their ids may be looked at. */
    bw_status st =
        bw_sparse_search(ctx, s->gen->sparse[p->vec], query->indices, query->values,
                         query->n, p->allowed, bw_gen_rows(s->gen)->ids, p->part, out);
    bw_snapshot_index_unlock(s);
    if (trace)
        trace->segments_flat++;
    return st;
}
