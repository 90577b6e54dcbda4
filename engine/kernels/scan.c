/* The flat scan: every allowed row of a block of rows into the heap of every query that
 * may see it, exactly.
 *
 * Rows go through the kernels in runs over which the set of queries that may see them
 * is the same, short enough that the keys stay in L1; so a row is loaded once for all of
 * them, and no key of a forbidden pair is ever computed. One query alone is the case of
 * one bitmap. Forbidden rows are neither loaded nor asked for: a prefetch reaches only
 * rows whose bit is set. Leaves out: codes (engine/index/codes.c), threads. */
#include "scan.h"

#if __has_attribute(uninitialized)
#define UNSET __attribute__((uninitialized)) /* written before it is read; no clearing */
#else
#define UNSET
#endif

enum {
    KEYS_MAX = 2048, /* of one run; 8 KiB */
    RUN_MAX = 1024,  /* rows of one kernel call */
    PREFETCH_LINES_MAX =
        24 /* of the next run's first row: its head; the stream does the rest */
};

static void keys_push(const bw_scan_input *in, const float *keys, size_t first, size_t n,
                      bw_topk *out)
{
    for (size_t i = 0; i < n; i++) {
        if (!bw_topk_wants(out, keys[i]))
            continue;
        const bw_candidate c = {keys[i], in->part, in->row0 + (uint32_t)(first + i),
                                in->ids[first + i]};
        bw_topk_push(out, &c);
    }
}

/* The end of the run of bits equal to `bit` that begins at `from`, at most `to`; what
 * is past the bitmap reads as 0. */
static size_t run_end(const bw_bitmap *b, size_t from, size_t to, bool bit)
{
    const size_t known = to < b->nbits ? to : b->nbits;
    size_t i = from;
    while (i < known) {
        const uint64_t word = b->words[i / 64];
        const uint64_t other = (bit ? ~word : word) >> (i % 64);
        if (other) {
            i += (size_t)__builtin_ctzll(other);
            break;
        }
        i += 64 - i % 64; /* all the same up to the word's end */
    }
    if (i < known)
        return i;
    return bit ? known : to;
}

/* A run of rows that the same queries may see. */
typedef struct run {
    size_t first, end;
    uint64_t active; /* bit q: query q may see them */
} run;

/* The next run from row `from` on; first = end = n when there is none. */
static run run_next(const bw_scan_query *qs, size_t nq, size_t from, size_t n)
{
    run r = {n, n, 0};
    for (size_t q = 0; q < nq; q++) {
        if (q > 0 && qs[q].allowed == qs[q - 1].allowed)
            continue;
        const bw_bitmap *b = qs[q].allowed;
        assert(b != NULL);
        const size_t next = from < b->nbits ? bw_bitmap_next(b, from) : b->nbits;
        if (next < b->nbits && next < r.first)
            r.first = next;
    }
    if (r.first >= n)
        return r;
    for (size_t q = 0; q < nq; q++)
        r.active |= (uint64_t)bw_bitmap_get(qs[q].allowed, r.first) << q;
    const size_t share = KEYS_MAX / (size_t)__builtin_popcountll(r.active);
    const size_t most = share < RUN_MAX ? share : RUN_MAX;
    if (n - r.first > most)
        r.end = r.first + most;
    for (size_t q = 0; q < nq; q++)
        if (q == 0 || qs[q].allowed != qs[q - 1].allowed)
            r.end = run_end(qs[q].allowed, r.first, r.end, r.active >> q & 1);
    return r;
}

static void row_prefetch(const bw_scan_input *in, size_t i)
{
    const char *p = bw_row_at(in->dtype, in->rows, in->dim, i);
    const size_t bytes = in->dim * bw_dtype_size(in->dtype);
    for (size_t o = 0, l = 0; o < bytes && l < PREFETCH_LINES_MAX; o += 64, l++)
        __builtin_prefetch(p + o, 0, 3);
}

static void run_scan(const bw_kernels *k, const bw_scan_input *in,
                     const bw_scan_query *qs, size_t nq, run r)
{
    const bw_kernel_op op = bw_metric_op(in->metric);
    const void *rows = bw_row_at(in->dtype, in->rows, in->dim, r.first);
    const float *scales = in->scales ? in->scales + r.first : NULL;
    UNSET const float *queries[BW_SCAN_QUERIES_MAX];
    UNSET bw_topk *outs[BW_SCAN_QUERIES_MAX];
    const size_t n = r.end - r.first;
    UNSET float keys[KEYS_MAX];
    size_t active = 0;
    for (size_t q = 0; q < nq; q++)
        if (r.active >> q & 1) {
            queries[active] = qs[q].query;
            outs[active++] = qs[q].out;
        }
    assert(active > 0 && active * n <= KEYS_MAX);
    if (active == 1)
        k->rows[in->dtype][op](queries[0], rows, scales, n, in->dim, keys);
    else
        k->block[in->dtype][op](queries, active, rows, scales, n, in->dim, keys);
    bw_keys_turn(in->metric, keys, active * n);
    for (size_t a = 0; a < active; a++)
        keys_push(in, keys + a * n, r.first, n, outs[a]);
}

static void scan_pass(const bw_kernels *k, const bw_scan_input *in,
                      const bw_scan_query *qs, size_t nq)
{
    assert(in->dtype != BW_DTYPE_I8 || in->scales != NULL || in->n == 0);
    run r = run_next(qs, nq, 0, in->n);
    while (r.first < in->n) {
        const run next = run_next(qs, nq, r.end, in->n);
        if (next.first < in->n && next.first > r.end)
            row_prefetch(in, next.first);
        run_scan(k, in, qs, nq, r);
        r = next;
    }
}

void bw_scan_block(const bw_kernels *k, const bw_scan_input *in, const bw_scan_query *qs,
                   size_t nq)
{
    for (size_t q = 0; q < nq; q += BW_SCAN_QUERIES_MAX)
        scan_pass(k, in, qs + q,
                  nq - q < BW_SCAN_QUERIES_MAX ? nq - q : BW_SCAN_QUERIES_MAX);
}

void bw_scan_rows(const bw_kernels *k, const bw_scan_input *in, const bw_scan_query *q)
{
    scan_pass(k, in, q, 1);
}

void bw_scan_f32(const bw_kernels *k, bw_metric metric, const float *query,
                 const float *rows, size_t n, size_t dim, const bw_bitmap *allowed,
                 const bw_point_id *ids, uint32_t part, uint32_t row0, bw_topk *out)
{
    const bw_scan_input in = {.metric = metric,
                              .dtype = BW_DTYPE_F32,
                              .rows = rows,
                              .ids = ids,
                              .n = n,
                              .dim = dim,
                              .part = part,
                              .row0 = row0};
    const bw_scan_query q = {query, allowed, out};
    scan_pass(k, &in, &q, 1);
}
