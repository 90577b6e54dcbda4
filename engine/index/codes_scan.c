/* The exact scan over 4-bit codes: bound every allowed row, rescore who may still win.
 *
 * Rows go by in windows. Of a window: integer sums by kernel, then the test against the
 * k-th best so far; who passes waits with its upper bound. When enough wait, those with
 * the highest bounds are scored in stored precision, which raises the k-th best, and
 * waiters below it go. At the end rounds go on until nobody is left. A bound equal to
 * the k-th key stays: the id may decide. Nearly every row scored early would be scored
 * at the end too (its bound is among the highest), so this costs few rows more than
 * knowing the k-th best beforehand, and needs neither lower bounds nor a second heap.
 *
 * `out` may come with hits of other blocks: its worst is the first bar. Several queries
 * share a pass: each code is read from memory once, and a query's answer does not
 * depend on the others, only on its own windows' order, which is that of the rows.
 * Leaves out: queries whose norm cannot be bounded; they score every allowed row. */
#include "codes_private.h"

#include <math.h>

enum {
    WINDOW = 512, /* rows: sums and factors stay in L1 */
    PIECE = 64,   /* rows whose codes stay in L1 while several queries look at them */
    ROUND_MIN = 16, /* rows of a rescoring round at least */
    WAIT_MIN = 48,  /* waiters that start a round, above those left by the last */
    WAITERS = 8192, /* room for waiters beyond 4·k: then everybody is scored at once */
    CHECK_WINDOWS = 8, /* between two looks at the deadline: 4,096 rows */
    PAD = 16,          /* what kernels may write past the last waiter */
    BUCKETS = 256      /* of bounds, to find the highest ones */
};

/* One query of the pass. */
typedef struct asker {
    const bw_codes_query *q;
    bw_code4_query test;
    int8_t *planes;   /* NULL: blind, every row is scored */
    int32_t *sums;    /* of the window */
    float *upper;     /* waiters' bounds … */
    uint32_t *row;    /* … and rows */
    size_t n, cap;    /* waiters */
    size_t trigger;   /* so many start a round */
    uint64_t scored;
} asker;

typedef struct pass {
    bw_ctx *ctx;
    const bw_codes *codes;
    const bw_rows *rows;
    const bw_point_id *ids;
    uint32_t part, row0;
    const bw_code4 *k;
    asker *askers;
    size_t nq;
    /* a window: rows first … first + n − 1, or those of `list` */
    size_t first, n;
    bool gaps;
    uint32_t *list;
    float *step, *norm, *lost; /* of a window with gaps, copied together */
    /* a round */
    uint32_t *which;
    float *keys;
    size_t round_max;
} pass;

/* ---- rounds ---- */

/* Floats as integers of the same order. */
static inline uint32_t order_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* Buckets of equal width in order_of's integers, from the least value on. */
typedef struct cut {
    uint32_t least;
    unsigned shift;
    uint32_t bucket; /* the one in which the m-th largest lies … */
    size_t equal;    /* … and how many of it belong to the m */
} cut;

static inline uint32_t bucket_of(const cut *c, float v)
{
    return (order_of(v) - c->least) >> c->shift;
}

/* Finds the bucket of the m-th largest of n values, 0 < m <= n: two looks at each value
 * whatever the data. Within a bucket the order of waiting decides, which is as good. */
static cut cut_of(const float *v, size_t n, size_t m)
{
    cut c = {.least = UINT32_MAX};
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t o = order_of(v[i]);
        c.least = o < c.least ? o : c.least;
        most = o > most ? o : most;
    }
    while ((most - c.least) >> c.shift >= BUCKETS)
        c.shift++;
    uint32_t count[BUCKETS] = {0};
    for (size_t i = 0; i < n; i++)
        count[bucket_of(&c, v[i])]++;
    c.bucket = BUCKETS - 1;
    while (count[c.bucket] < m)
        m -= count[c.bucket--];
    c.equal = m;
    return c;
}

/* Moves m waiters with the highest bounds to p->which, in the order of waiting. */
static void best_take(pass *p, asker *a, size_t m)
{
    assert(m <= a->n);
    cut c = cut_of(a->upper, a->n, m);
    size_t taken = 0, left = 0;
    for (size_t i = 0; i < a->n; i++) {
        const uint32_t b = bucket_of(&c, a->upper[i]);
        if (b > c.bucket || (b == c.bucket && c.equal > 0)) {
            c.equal -= b == c.bucket;
            p->which[taken++] = a->row[i];
        } else {
            a->upper[left] = a->upper[i];
            a->row[left++] = a->row[i];
        }
    }
    assert(taken == m);
    a->n = left;
}

static bw_status score(pass *p, asker *a, size_t n)
{
    bw_status st = bw_rows_keys(p->ctx, p->rows, p->codes->metric, a->q->query, p->which,
                                n, p->keys);
    if (st != BW_OK)
        return st;
    for (size_t i = 0; i < n; i++) {
        if (!bw_topk_wants(a->q->out, p->keys[i]))
            continue;
        const uint32_t row = p->which[i];
        const bw_candidate c = {p->keys[i], p->part, p->row0 + row, p->ids[row]};
        bw_topk_push(a->q->out, &c);
    }
    a->scored += n;
    return BW_OK;
}

static void bar_raise(pass *p, asker *a)
{
    const bw_topk *out = a->q->out;
    if (out->n == out->k)
        bw_codes__worst(p->codes->metric, &a->test, out->items[0].key, p->codes->dim);
}

static void waiters_drop(asker *a)
{
    size_t left = 0;
    for (size_t i = 0; i < a->n; i++) {
        a->upper[left] = a->upper[i];
        a->row[left] = a->row[i];
        left += !(a->upper[i] < a->test.worst);
    }
    a->n = left;
}

/* One round, or with `all` rounds until nobody waits. */
static bw_status settle(pass *p, asker *a, bool all)
{
    const bw_topk *out = a->q->out;
    waiters_drop(a);
    while (a->n > 0) {
        size_t m = out->n < out->k ? out->k - out->n : out->k / 4;
        if (all && out->n == out->k && m < a->n / 8)
            m = a->n / 8; /* the last rounds: more at once, so that they are few */
        m = m > ROUND_MIN ? m : ROUND_MIN;
        m = m < p->round_max ? m : p->round_max;
        m = m < a->n ? m : a->n;
        best_take(p, a, m);
        bw_status st = score(p, a, m);
        if (st == BW_OK)
            st = bw_ctx_check(p->ctx);
        if (st != BW_OK)
            return st;
        bar_raise(p, a);
        waiters_drop(a);
        if (!all && a->n <= a->cap / 2)
            break;
    }
    a->trigger = 2 * a->n + (out->k > WAIT_MIN ? out->k : WAIT_MIN);
    if (a->trigger > a->cap - WINDOW - PAD)
        a->trigger = a->cap - WINDOW - PAD;
    return BW_OK;
}

/* ---- windows ---- */

/* Word w of rows that any seeing query allows, below n. */
static uint64_t any_word(const pass *p, size_t w, size_t n)
{
    uint64_t any = 0;
    for (size_t j = 0; j < p->nq; j++) {
        const bw_bitmap *b = p->askers[j].q->allowed;
        if (p->askers[j].planes && w < bw_bitmap_words(b->nbits))
            any |= b->words[w];
    }
    const size_t left = n - w * 64;
    return left < 64 ? any & (((uint64_t)1 << left) - 1) : any;
}

/* Gathers rows from *w on, a window of words at most. False: none there. */
static bool window_next(pass *p, size_t *w, size_t n)
{
    const size_t words = bw_bitmap_words(n);
    uint64_t any = 0;
    while (*w < words && !(any = any_word(p, *w, n)))
        ++*w;
    p->n = 0;
    const size_t end = words - *w < WINDOW / 64 ? words : *w + WINDOW / 64;
    p->first = *w * 64;
    size_t full = 0;
    for (; *w < end; any = ++*w < end ? any_word(p, *w, n) : 0) {
        if (any == ~(uint64_t)0 && full == p->n) {
            full = p->n += 64; /* the list is written only when there are gaps */
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
static void factors_gather(pass *p)
{
    const bw_codes *c = p->codes;
    for (size_t i = 0; i < p->n; i++) {
        const uint32_t r = p->list[i];
        p->step[i] = c->step[r];
        p->norm[i] = c->norm[r];
        p->lost[i] = c->lost[r];
    }
}

static void window_sums(pass *p)
{
    const bw_codes *c = p->codes;
    size_t seeing = 0;
    for (size_t j = 0; j < p->nq; j++)
        seeing += p->askers[j].planes != NULL;
    const size_t piece = seeing > 1 ? PIECE : WINDOW;
    for (size_t i = 0; i < p->n; i += piece) {
        const size_t m = p->n - i < piece ? p->n - i : piece;
        for (size_t j = 0; j < p->nq; j++) {
            const asker *a = &p->askers[j];
            if (!a->planes)
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
static bw_status window_test(pass *p, asker *a)
{
    const bw_codes *c = p->codes;
    const float *step = p->gaps ? p->step : c->step + p->first;
    const float *norm = p->gaps ? p->norm : c->norm + p->first;
    const float *lost = p->gaps ? p->lost : c->lost + p->first;
    const int op = c->metric == BW_METRIC_EUCLID;
    assert(a->n + WINDOW + PAD <= a->cap);
    uint32_t *at = a->row + a->n;
    float *upper = a->upper + a->n;
    const size_t found =
        p->k->reach[op](&a->test, a->sums, step, norm, lost, p->n, at, upper);
    size_t kept = 0;
    for (size_t i = 0; i < found; i++) {
        const uint32_t row = p->gaps ? p->list[at[i]] : (uint32_t)p->first + at[i];
        at[kept] = row;
        upper[kept] = upper[i];
        kept += p->nq == 1 || bw_bitmap_get(a->q->allowed, row);
    }
    a->n += kept;
    return a->n >= a->trigger ? settle(p, a, false) : BW_OK;
}

static bw_status windows(pass *p)
{
    size_t w = 0;
    for (size_t round = 1; window_next(p, &w, p->rows->n); round++) {
        if (p->gaps)
            factors_gather(p);
        window_sums(p);
        for (size_t j = 0; j < p->nq; j++) {
            if (!p->askers[j].planes)
                continue;
            bw_status st = window_test(p, &p->askers[j]);
            if (st != BW_OK)
                return st;
        }
        bw_status st = round % CHECK_WINDOWS == 0 ? bw_ctx_check(p->ctx) : BW_OK;
        if (st != BW_OK)
            return st;
    }
    for (size_t j = 0; j < p->nq; j++) {
        bw_status st = settle(p, &p->askers[j], true);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

/* A query that no bound holds for: every allowed row is scored. */
static bw_status blind(pass *p, asker *a)
{
    const bw_bitmap *b = a->q->allowed;
    const size_t end = p->rows->n < b->nbits ? p->rows->n : b->nbits;
    size_t i = bw_bitmap_next(b, 0);
    while (i < end) {
        size_t n = 0;
        for (; i < end && n < p->round_max; i = bw_bitmap_next(b, i + 1))
            p->which[n++] = (uint32_t)i;
        bw_status st = score(p, a, n);
        if (st == BW_OK)
            st = bw_ctx_check(p->ctx);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

/* ---- the pass ---- */

static bw_status asker_init(pass *p, asker *a, const bw_codes_query *q)
{
    const size_t k = q->out->k < p->rows->n ? q->out->k : p->rows->n;
    *a = (asker){.q = q, .cap = WAITERS + 4 * k};
    const size_t stride = p->codes->stride;
    a->planes = bw_arena_alloc(p->ctx, 2 * stride);
    a->sums = bw_arena_alloc(p->ctx, WINDOW * sizeof *a->sums);
    a->upper = bw_arena_alloc(p->ctx, a->cap * sizeof *a->upper);
    a->row = bw_arena_alloc(p->ctx, a->cap * sizeof *a->row);
    if (!a->planes || !a->sums || !a->upper || !a->row)
        return BW_ENOMEM;
    if (!bw_codes__query(p->codes, q->query, &a->test, a->planes))
        a->planes = NULL;
    else
        bar_raise(p, a);
    a->trigger = k > WAIT_MIN ? k : WAIT_MIN;
    if (a->trigger > a->cap - WINDOW - PAD)
        a->trigger = a->cap - WINDOW - PAD;
    return BW_OK;
}

static bw_status pass_init(pass *p, const bw_codes_query *qs)
{
    size_t k = WINDOW;
    for (size_t j = 0; j < p->nq; j++)
        k = qs[j].out->k > k ? qs[j].out->k : k;
    p->round_max = k < p->rows->n ? k : p->rows->n;
    p->askers = bw_arena_alloc(p->ctx, p->nq * sizeof *p->askers);
    p->list = bw_arena_alloc(p->ctx, WINDOW * sizeof *p->list);
    p->step = bw_arena_alloc(p->ctx, 3 * WINDOW * sizeof *p->step);
    p->which = bw_arena_alloc(p->ctx, p->round_max * sizeof *p->which);
    p->keys = bw_arena_alloc(p->ctx, p->round_max * sizeof *p->keys);
    if (!p->askers || !p->list || !p->step || !p->which || !p->keys)
        return BW_ENOMEM;
    p->norm = p->step + WINDOW;
    p->lost = p->norm + WINDOW;
    for (size_t j = 0; j < p->nq; j++) {
        bw_status st = asker_init(p, &p->askers[j], &qs[j]);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

static bw_status pass_run(pass *p, const bw_codes_query *qs, uint64_t *rescored)
{
    bw_status st = pass_init(p, qs);
    for (size_t j = 0; j < p->nq && st == BW_OK; j++)
        if (!p->askers[j].planes)
            st = blind(p, &p->askers[j]);
    if (st == BW_OK)
        st = windows(p);
    for (size_t j = 0; j < p->nq && st == BW_OK && rescored; j++)
        rescored[j] += p->askers[j].scored;
    return st;
}

bw_status bw_codes_scan(bw_ctx *ctx, const bw_codes *codes, const bw_rows *rows,
                        const bw_codes_query *qs, size_t nq, const bw_point_id *ids,
                        uint32_t part, uint32_t row0, uint64_t *rescored)
{
    assert(rows->dim == codes->dim && rows->n <= codes->cap);
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
        pass p = {.ctx = ctx,
                  .codes = codes,
                  .rows = rows,
                  .ids = ids,
                  .part = part,
                  .row0 = row0,
                  .k = bw_code4_get(),
                  .nq = n};
        const bw_arena_mark mark = bw_arena_mark_get(ctx);
        st = pass_run(&p, some, counts);
        bw_arena_release(ctx, mark);
        for (size_t j = 0; j < n && st == BW_OK && rescored; j++)
            rescored[from[j]] += counts[j];
    }
    return st;
}
