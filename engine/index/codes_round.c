/* Rounds of the scan over codes (codes_scan.c): who waits is scored in stored precision,
 * those with the highest bounds first, until no bound reaches the k-th best.
 *
 * Waiters lie in many blocks; a round goes through them in rising slots and asks for rows
 * ahead across blocks, since a small block has seldom two rows of a round. */
#include "codes_private.h"

enum {
    ROUND_MIN = 16,   /* rows of a round at least … */
    ROUND_MAX = 4096, /* … and at most */
    WAIT_MIN = 48,    /* waiters that start a round, above those left by the last */
    BUCKETS = 256,    /* of bounds, to find the highest ones */
    AHEAD = 3,        /* rows asked for ahead */
    RUN_MAX = 64      /* neighbours of one kernel call */
};

/* ---- who is scored next ---- */

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
static void best_take(bw_codes_pass *p, bw_codes_asker *a, size_t m)
{
    assert(m <= a->n);
    if (m == a->n) {
        memcpy(p->which, a->slot, m * sizeof *p->which);
        a->n = 0;
        return;
    }
    cut c = cut_of(a->upper, a->n, m);
    size_t taken = 0, left = 0;
    for (size_t i = 0; i < a->n; i++) {
        const uint32_t b = bucket_of(&c, a->upper[i]);
        if (b > c.bucket || (b == c.bucket && c.equal > 0)) {
            c.equal -= b == c.bucket;
            p->which[taken++] = a->slot[i];
        } else {
            a->upper[left] = a->upper[i];
            a->slot[left++] = a->slot[i];
        }
    }
    assert(taken == m);
    a->n = left;
}

/* ---- scoring ---- */

/* The block of a slot that is not below those of *b. */
static const bw_codes_block *block_at(const bw_codes_pass *p, uint32_t slot, size_t *b)
{
    while (*b + 1 < p->nblocks && p->base[*b + 1] <= slot)
        ++*b;
    return &p->blocks[*b];
}

static inline void row_ahead(const bw_rows *r, uint32_t row)
{
    const char *at = bw_row_at(r->dtype, r->data, r->dim, row);
    const size_t bytes = r->dim * bw_dtype_size(r->dtype);
    for (size_t o = 0; o < bytes; o += 64)
        __builtin_prefetch(at + o);
}

/* Keys of the slots [i, end) of one block on file. */
static bw_status keys_fetched(bw_codes_pass *p, const bw_codes_asker *a, size_t b, size_t i,
                              size_t end)
{
    uint32_t rows[RUN_MAX];
    bw_status st = BW_OK;
    for (; st == BW_OK && i < end; i += RUN_MAX) {
        const size_t n = end - i < RUN_MAX ? end - i : RUN_MAX;
        for (size_t j = 0; j < n; j++)
            rows[j] = p->which[i + j] - p->base[b];
        st = bw_rows_keys(p->ctx, &p->blocks[b].rows, p->metric, a->q.query, rows, n, p->keys + i);
    }
    return st;
}

static bw_status keys_of(bw_codes_pass *p, const bw_codes_asker *a, size_t n)
{
    size_t b = 0, ahead = 0, asked = 0; /* the block at i; the one at `asked` */
    for (size_t i = 0, end; i < n; i = end) {
        const bw_rows *r = &block_at(p, p->which[i], &b)->rows;
        const uint64_t next = b + 1 < p->nblocks ? p->base[b + 1] : UINT64_MAX;
        end = i + 1;
        if (!r->data) {
            while (end < n && p->which[end] < next)
                end++;
            bw_status st = keys_fetched(p, a, b, i, end);
            if (st != BW_OK)
                return st;
            continue;
        }
        while (end < n && end - i < RUN_MAX && p->which[end] == p->which[end - 1] + 1 &&
               p->which[end] < next)
            end++;
        for (asked = asked < end ? end : asked; asked < end + AHEAD && asked < n; asked++) {
            const bw_rows *then = &block_at(p, p->which[asked], &ahead)->rows;
            if (then->data)
                row_ahead(then, p->which[asked] - p->base[ahead]);
        }
        const uint32_t row = p->which[i] - p->base[b];
        bw_rows_fn *fn = bw_kernels_get()->rows[r->dtype][bw_metric_op(p->metric)];
        fn(a->q.query, bw_row_at(r->dtype, r->data, r->dim, row), r->scales ? r->scales + row : NULL,
           end - i, r->dim, p->keys + i);
        bw_keys_turn(p->metric, p->keys + i, end - i);
    }
    return BW_OK;
}

bw_status bw_codes__score(bw_codes_pass *p, bw_codes_asker *a, size_t n)
{
    bw_status st = keys_of(p, a, n);
    size_t at = 0;
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        if (!bw_topk_wants(a->q.out, p->keys[i]))
            continue;
        const bw_codes_block *b = block_at(p, p->which[i], &at);
        const uint32_t row = p->which[i] - p->base[at];
        const bw_candidate c = {p->keys[i], b->part, b->ord ? b->ord[row] : b->row0 + row,
                                b->ids[row]};
        bw_topk_push(a->q.out, &c);
    }
    a->scored += n;
    return st;
}

/* ---- rounds ---- */

void bw_codes__raise(const bw_codes_pass *p, bw_codes_asker *a)
{
    const bw_topk *out = a->q.out;
    if (out->n == out->k && out->items[0].key > a->test.worst)
        bw_codes__worst(p->metric, &a->test, out->items[0].key, p->dim);
}

static void waiters_drop(bw_codes_asker *a)
{
    size_t left = 0;
    for (size_t i = 0; i < a->n; i++) {
        a->upper[left] = a->upper[i];
        a->slot[left] = a->slot[i];
        left += !(a->upper[i] < a->test.worst);
    }
    a->n = left;
}

size_t bw_codes__trigger(const bw_codes_asker *a, size_t waits)
{
    const size_t most = a->cap - BW_CODES_WINDOW - BW_CODES_PAD;
    const size_t at = 2 * a->n + (waits > WAIT_MIN ? waits : WAIT_MIN);
    return at < most ? at : most;
}

bw_status bw_codes__settle(bw_codes_pass *p, bw_codes_asker *a, bool all)
{
    const bw_topk *out = a->q.out;
    if (!a->ready)
        return BW_OK;
    bw_codes__raise(p, a); /* others push too */
    waiters_drop(a);
    while (a->n > 0) {
        size_t m = out->n < out->k ? out->k - out->n : out->k / 4;
        if (all && out->n == out->k && m < a->n / 8)
            m = a->n / 8; /* the last rounds: more at once, so that they are few */
        m = m > ROUND_MIN ? m : ROUND_MIN;
        m = m < p->round_max ? m : p->round_max;
        m = m < a->n ? m : a->n;
        best_take(p, a, m);
        bw_status st = bw_codes__score(p, a, m);
        if (st == BW_OK)
            st = bw_ctx_check(p->ctx);
        if (st != BW_OK)
            return st;
        bw_codes__raise(p, a);
        waiters_drop(a);
        if (!all && a->n <= a->cap / 2)
            break;
    }
    a->trigger = bw_codes__trigger(a, out->k);
    return BW_OK;
}

bw_status bw_codes__rounds_init(bw_codes_pass *p, size_t k_most)
{
    p->round_max = k_most > BW_CODES_WINDOW ? k_most : BW_CODES_WINDOW;
    p->round_max = p->round_max < ROUND_MAX ? p->round_max : ROUND_MAX;
    p->which = bw_arena_alloc(p->ctx, p->round_max * sizeof *p->which);
    p->keys = bw_arena_alloc(p->ctx, p->round_max * sizeof *p->keys);
    return p->which && p->keys ? BW_OK : BW_ENOMEM;
}
