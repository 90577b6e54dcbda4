/* The exact scan over 4-bit codes: bound every allowed row, rescore who may still win.
 *
 * Rows go by in windows. Of a window: integer sums by kernel, then the test against the
 * k-th best so far; who passes waits with its upper bound. When enough wait, those with
 * the highest bounds are scored in stored precision (codes_round.c), which raises the
 * k-th best, and waiters below it go. At the end rounds go on until nobody is left. A
 * bound equal to the k-th key stays: the id may decide. Nearly every row scored early
 * would be scored at the end too (its bound is among the highest), so this costs few rows
 * more than knowing the k-th best beforehand, and needs neither lower bounds nor a second
 * heap.
 *
 * A pass goes over many blocks as if they were one: the best of a block that are far from
 * the best of all need no rescoring.
 *
 * `out` may come with hits of other blocks: its worst is the first bar. Several queries
 * share a pass: each code is read from memory once, and a query's answer does not
 * depend on the others, only on its own windows' order, which is that of the rows.
 * Leaves out: queries whose norm cannot be bounded; they score every allowed row. */
#include "codes_private.h"

#include <math.h>

enum {
    PIECE = 64,     /* rows whose codes stay in L1 while several queries look at them */
    WAITERS = 4096, /* room for waiters beyond 4·k: then everybody is scored at once */
    CHECK_WINDOWS = 8 /* between two looks at the deadline: 4,096 rows */
};

/* ---- windows ---- */

static const bw_codes_block *at_hand(const bw_codes_pass *p)
{
    return &p->blocks[p->nblocks - 1];
}

/* Word w of rows that any seeing query allows, below n. */
static uint64_t any_word(const bw_codes_pass *p, size_t w, size_t n)
{
    uint64_t any = 0;
    for (size_t j = 0; j < p->nq; j++) {
        const bw_bitmap *b = p->askers[j].allowed;
        if (b && p->askers[j].planes && w < bw_bitmap_words(b->nbits))
            any |= b->words[w];
    }
    const size_t left = n - w * 64;
    return left < 64 ? any & (((uint64_t)1 << left) - 1) : any;
}

/* Gathers rows from *w on, a window of words at most. False: none there. */
static bool window_next(bw_codes_pass *p, size_t *w, size_t n)
{
    const size_t words = bw_bitmap_words(n);
    uint64_t any = 0;
    while (*w < words && !(any = any_word(p, *w, n)))
        ++*w;
    p->n = 0;
    const size_t most = BW_CODES_WINDOW / 64;
    const size_t end = words - *w < most ? words : *w + most;
    p->first = *w * 64;
    size_t full = 0;
    for (; *w < end; any = ++*w < end ? any_word(p, *w, n) : 0) {
        const size_t left = n - *w * 64;
        const uint64_t whole = left < 64 ? ((uint64_t)1 << left) - 1 : ~(uint64_t)0;
        if (any == whole && full == p->n) {
            full = p->n += left < 64 ? left : 64; /* the list is written only when there are gaps */
            continue;
        }
        if (full) { /* the words before were full */
            for (size_t i = 0; i < full; i++)
                p->list[i] = (uint32_t)(p->first + i);
            full = 0;
        }
        for (; any; any &= any - 1)
            p->list[p->n++] = (uint32_t)(*w * 64 + (size_t)__builtin_ctzll(any));
    }
    p->gaps = full != p->n;
    return p->n > 0;
}

/* Copies the factors of a window with gaps side by side. */
static void factors_gather(bw_codes_pass *p)
{
    const bw_codes *c = at_hand(p)->codes;
    for (size_t i = 0; i < p->n; i++) {
        const uint32_t r = p->list[i];
        p->step[i] = c->step[r];
        p->norm[i] = c->norm[r];
        p->lost[i] = c->lost[r];
    }
}

static bool sees(const bw_codes_asker *a)
{
    return a->allowed && a->planes;
}

static void window_sums(bw_codes_pass *p)
{
    const bw_codes *c = at_hand(p)->codes;
    size_t seeing = 0;
    for (size_t j = 0; j < p->nq; j++)
        seeing += sees(&p->askers[j]);
    const size_t piece = seeing > 1 ? PIECE : BW_CODES_WINDOW;
    for (size_t i = 0; i < p->n; i += piece) {
        const size_t m = p->n - i < piece ? p->n - i : piece;
        for (size_t j = 0; j < p->nq; j++) {
            const bw_codes_asker *a = &p->askers[j];
            if (!sees(a))
                continue;
            if (p->gaps)
                p->k->sums_at(a->planes, c->codes, c->stride, a->test.span, p->list + i, m,
                              a->sums + i);
            else
                p->k->sums(a->planes, c->codes + (p->first + i) * c->stride, c->stride,
                           a->test.span, m, a->sums + i);
        }
    }
}

/* Who passes the test waits. */
static bw_status window_test(bw_codes_pass *p, bw_codes_asker *a)
{
    const bw_codes *c = at_hand(p)->codes;
    const uint32_t base = p->base[p->nblocks - 1];
    const float *step = p->gaps ? p->step : c->step + p->first;
    const float *norm = p->gaps ? p->norm : c->norm + p->first;
    const float *lost = p->gaps ? p->lost : c->lost + p->first;
    const int op = p->metric == BW_METRIC_EUCLID;
    assert(a->n + BW_CODES_WINDOW + BW_CODES_PAD <= a->cap);
    uint32_t *at = a->slot + a->n;
    float *upper = a->upper + a->n;
    const size_t found =
        p->k->reach[op](&a->test, a->sums, step, norm, lost, p->n, at, upper);
    size_t kept = 0;
    for (size_t i = 0; i < found; i++) {
        const uint32_t row = p->gaps ? p->list[at[i]] : (uint32_t)p->first + at[i];
        at[kept] = base + row;
        upper[kept] = upper[i];
        kept += p->nq == 1 || bw_bitmap_get(a->allowed, row);
    }
    a->n += kept;
    return a->n >= a->trigger ? bw_codes__settle(p, a, false) : BW_OK;
}

static bw_status windows(bw_codes_pass *p, size_t rows)
{
    size_t w = 0;
    for (size_t round = 1; window_next(p, &w, rows); round++) {
        if (p->gaps)
            factors_gather(p);
        window_sums(p);
        for (size_t j = 0; j < p->nq; j++) {
            if (!sees(&p->askers[j]))
                continue;
            bw_status st = window_test(p, &p->askers[j]);
            if (st != BW_OK)
                return st;
        }
        bw_status st = round % CHECK_WINDOWS == 0 ? bw_ctx_check(p->ctx) : BW_OK;
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

/* A query that no bound holds for: every allowed row is scored. */
static bw_status blind(bw_codes_pass *p, bw_codes_asker *a, size_t rows)
{
    const bw_bitmap *b = a->allowed;
    const size_t end = rows < b->nbits ? rows : b->nbits;
    size_t i = bw_bitmap_next(b, 0);
    while (i < end) {
        size_t n = 0;
        for (; i < end && n < p->round_max; i = bw_bitmap_next(b, i + 1))
            p->which[n++] = p->base[p->nblocks - 1] + (uint32_t)i;
        bw_status st = bw_codes__score(p, a, n);
        if (st == BW_OK)
            st = bw_ctx_check(p->ctx);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

/* ---- blocks ---- */

bw_status bw_codes_settle(bw_codes_pass *p)
{
    bw_status st = BW_OK;
    for (size_t j = 0; j < p->nq && st == BW_OK; j++)
        st = bw_codes__settle(p, &p->askers[j], true);
    p->nblocks = 0;
    return st;
}

/* Makes b the block at hand. The one before goes unless somebody waits in it. */
static bw_status block_put(bw_codes_pass *p, const bw_codes_block *b)
{
    bool waits = false;
    uint64_t base = p->nblocks ? p->base[p->nblocks - 1] : 0;
    for (size_t j = 0; j < p->nq && p->nblocks; j++) {
        const bw_codes_asker *a = &p->askers[j];
        waits = waits || (a->n && a->slot[a->n - 1] >= base);
    }
    if (waits)
        base += at_hand(p)->rows.n;
    else if (p->nblocks)
        p->nblocks--;
    if (p->nblocks == BW_CODES_BLOCKS || base + b->rows.n > UINT32_MAX) {
        bw_status st = bw_codes_settle(p);
        if (st != BW_OK)
            return st;
        base = 0;
    }
    p->base[p->nblocks] = (uint32_t)base;
    p->blocks[p->nblocks++] = *b;
    return BW_OK;
}

/* A pass over a search of few rows may end without a block. */
static void asker_ready(const bw_codes_pass *p, bw_codes_asker *a)
{
    if (!bw_codes__query(p->metric, p->dim, a->q.query, &a->test, a->planes))
        a->planes = NULL;
    a->ready = true;
}

bw_status bw_codes_add(bw_codes_pass *p, const bw_codes_block *b,
                       const bw_bitmap *const *allowed)
{
    assert(b->rows.dim == p->dim && b->codes->dim == p->dim && b->codes->metric == p->metric);
    assert(b->rows.n <= b->codes->cap && b->rows.n <= UINT32_MAX);
    bw_status st = block_put(p, b);
    bool seen = false;
    for (size_t j = 0; j < p->nq && st == BW_OK; j++) {
        bw_codes_asker *a = &p->askers[j];
        a->allowed = allowed[j];
        if (a->allowed && !a->ready)
            asker_ready(p, a);
        seen = seen || sees(a);
        if (sees(a))
            bw_codes__raise(p, a);
        else if (a->allowed)
            st = blind(p, a, b->rows.n);
    }
    return st == BW_OK && seen ? windows(p, b->rows.n) : st;
}

/* ---- the pass ---- */

static bw_status asker_init(bw_codes_pass *p, bw_codes_asker *a, const bw_codes_query *q,
                            uint64_t rows)
{
    const size_t k = q->out->k < rows ? q->out->k : (size_t)rows;
    assert(q->out->k > 0);
    *a = (bw_codes_asker){.q = *q, .cap = WAITERS + 4 * k};
    a->planes = bw_arena_alloc(p->ctx, 2 * p->stride);
    a->sums = bw_arena_alloc(p->ctx, BW_CODES_WINDOW * sizeof *a->sums);
    a->upper = bw_arena_alloc(p->ctx, a->cap * sizeof *a->upper);
    a->slot = bw_arena_alloc(p->ctx, a->cap * sizeof *a->slot);
    if (!a->planes || !a->sums || !a->upper || !a->slot)
        return BW_ENOMEM;
    a->trigger = bw_codes__trigger(a, k);
    return BW_OK;
}

bw_status bw_codes_begin(bw_ctx *ctx, bw_metric metric, uint32_t dim, const bw_codes_query *qs,
                         size_t nq, uint64_t rows, bw_codes_pass **out)
{
    assert(nq <= BW_CODES_QUERIES_MAX && bw_codes_metric(metric));
    bw_codes_pass *p = bw_arena_alloc(ctx, sizeof *p);
    if (!p)
        return BW_ENOMEM;
    *p = (bw_codes_pass){.ctx = ctx,
                         .metric = metric,
                         .dim = dim,
                         .stride = bw_codes__stride(dim),
                         .k = bw_code4_get(),
                         .nq = nq};
    size_t k = 0;
    for (size_t j = 0; j < nq; j++)
        k = qs[j].out->k > k ? qs[j].out->k : k;
    p->askers = bw_arena_alloc(ctx, nq * sizeof *p->askers);
    p->blocks = bw_arena_alloc(ctx, BW_CODES_BLOCKS * sizeof *p->blocks);
    p->base = bw_arena_alloc(ctx, BW_CODES_BLOCKS * sizeof *p->base);
    p->list = bw_arena_alloc(ctx, BW_CODES_WINDOW * sizeof *p->list);
    p->step = bw_arena_alloc(ctx, 3 * BW_CODES_WINDOW * sizeof *p->step);
    if (!p->askers || !p->blocks || !p->base || !p->list || !p->step)
        return BW_ENOMEM;
    p->norm = p->step + BW_CODES_WINDOW;
    p->lost = p->norm + BW_CODES_WINDOW;
    bw_status st = bw_codes__rounds_init(p, k);
    for (size_t j = 0; j < nq && st == BW_OK; j++)
        st = asker_init(p, &p->askers[j], &qs[j], rows);
    *out = p;
    return st;
}

uint64_t bw_codes_scored(const bw_codes_pass *p, size_t query)
{
    return p->askers[query].scored;
}

/* Up to BW_CODES_QUERIES_MAX queries over one block. */
static bw_status scan_some(bw_ctx *ctx, const bw_codes_block *b, const bw_codes_query *qs,
                           size_t nq, uint64_t *scored)
{
    bw_codes_pass *p;
    const bw_bitmap *allowed[BW_CODES_QUERIES_MAX];
    for (size_t j = 0; j < nq; j++)
        allowed[j] = qs[j].allowed;
    bw_status st = bw_codes_begin(ctx, b->codes->metric, b->codes->dim, qs, nq, b->rows.n, &p);
    if (st == BW_OK)
        st = bw_codes_add(p, b, allowed);
    if (st == BW_OK)
        st = bw_codes_settle(p);
    for (size_t j = 0; st == BW_OK && j < nq; j++)
        scored[j] = bw_codes_scored(p, j);
    return st;
}

bw_status bw_codes_scan(bw_ctx *ctx, const bw_codes *codes, const bw_rows *rows,
                        const bw_codes_query *qs, size_t nq, const bw_point_id *ids,
                        uint32_t part, uint32_t row0, uint64_t *rescored)
{
    assert(rows->dim == codes->dim && rows->n <= codes->cap);
    const bw_codes_block block = {codes, *rows, ids, NULL, part, row0};
    bw_status st = rows->n ? bw_ctx_check(ctx) : BW_OK;
    for (size_t i = 0; i < nq && rows->n && st == BW_OK;) {
        /* Queries that want nothing (k = 0) take no part. */
        bw_codes_query some[BW_CODES_QUERIES_MAX];
        uint64_t counts[BW_CODES_QUERIES_MAX] = {0};
        size_t from[BW_CODES_QUERIES_MAX], n = 0;
        for (; i < nq && n < BW_CODES_QUERIES_MAX; i++) {
            if (qs[i].out->k == 0)
                continue;
            from[n] = i;
            some[n++] = qs[i];
        }
        if (n == 0)
            break;
        const bw_arena_mark mark = bw_arena_mark_get(ctx);
        st = scan_some(ctx, &block, some, n, counts);
        bw_arena_release(ctx, mark);
        for (size_t j = 0; j < n && st == BW_OK && rescored; j++)
            rescored[from[j]] += counts[j];
    }
    return st;
}
