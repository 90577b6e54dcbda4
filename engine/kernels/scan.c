/* The flat scan: every allowed row of a block of rows into one heap, exactly.
 *
 * Runs of allowed rows go through the rows kernels, at most RUN_MAX at a time so that
 * the keys stay in L1; a lone row goes through the single form. Both give the same
 * bits. Forbidden rows are neither loaded nor asked for: a prefetch reaches only rows
 * whose bit is set. Leaves out: several queries at once, half precision. */
#include "kernels_isa.h"

#include <math.h>

enum {
    RUN_MAX = 128, /* rows of one kernel call; 512 bytes of keys */
    PREFETCH_LINES_MAX =
        24 /* of the next lone row: its head; the stream does the rest */
};

typedef void rows_fn(const float *query, const float *rows, size_t n, size_t dim,
                     float *out);

/* Turns sums into ranking keys: as bw_metric_key does. */
static void keys_turn(bw_metric metric, float *keys, size_t n)
{
    if (metric == BW_METRIC_EUCLID) {
        for (size_t i = 0; i < n; i++)
            keys[i] = -sqrtf(keys[i]);
    } else if (metric == BW_METRIC_MANHATTAN) {
        for (size_t i = 0; i < n; i++)
            keys[i] = -keys[i];
    }
    for (size_t i = 0; i < n; i++)
        if (keys[i] != keys[i])
            keys[i] = -INFINITY;
}

static void keys_push(const float *keys, size_t first, size_t n, const bw_point_id *ids,
                      uint32_t part, uint32_t row0, bw_topk *out)
{
    for (size_t i = 0; i < n; i++) {
        if (!bw_topk_wants(out, keys[i]))
            continue;
        const bw_candidate c = {keys[i], part, row0 + (uint32_t)(first + i),
                                ids[first + i]};
        bw_topk_push(out, &c);
    }
}

/* The end of the run of set bits that begins at `from` (whose bit is set), at most
 * `to`. */
static size_t run_end(const bw_bitmap *b, size_t from, size_t to)
{
    size_t i = from;
    while (i < to) {
        const uint64_t zeros = ~b->words[i / 64] >> (i % 64);
        if (zeros) {
            i += (size_t)__builtin_ctzll(zeros);
            break;
        }
        i += 64 - i % 64; /* all ones up to the word's end */
    }
    return i < to ? i : to;
}

static void row_prefetch(const float *row, size_t dim)
{
    const char *p = (const char *)row;
    const size_t bytes = dim * sizeof *row;
    for (size_t o = 0, l = 0; o < bytes && l < PREFETCH_LINES_MAX; o += 64, l++)
        __builtin_prefetch(p + o, 0, 3);
}

void bw_scan_f32(const bw_kernels *k, bw_metric metric, const float *query,
                 const float *rows, size_t n, size_t dim, const bw_bitmap *allowed,
                 const bw_point_id *ids, uint32_t part, uint32_t row0, bw_topk *out)
{
    rows_fn *fn = metric == BW_METRIC_EUCLID      ? k->l2sq_rows_f32
                  : metric == BW_METRIC_MANHATTAN ? k->l1_rows_f32
                                                  : k->dot_rows_f32;
    float keys[RUN_MAX];
    assert(allowed != NULL);
    if (n > allowed->nbits)
        n = allowed->nbits; /* rows past the bitmap are not allowed */
    size_t i = bw_bitmap_next(allowed, 0);
    while (i < n) {
        const size_t limit = n - i < RUN_MAX ? n : i + RUN_MAX;
        const size_t end = run_end(allowed, i, limit);
        const size_t next = end < limit ? bw_bitmap_next(allowed, end) : end;
        if (next > end && next < n)
            row_prefetch(rows + next * dim, dim);
        fn(query, rows + i * dim, end - i, dim, keys);
        keys_turn(metric, keys, end - i);
        keys_push(keys, i, end - i, ids, part, row0, out);
        i = next < n && !bw_bitmap_get(allowed, next) ? bw_bitmap_next(allowed, next)
                                                      : next;
    }
}
