/* Segments, items, bitsets and queries drawn at random, with the answers that the CPU's
 * kernels give: what any table of gpu_module.h is held against. */
#ifndef BW_TEST_GPU_WORLD_H
#define BW_TEST_GPU_WORLD_H
#include "engine/index/gpu_module.h"
#include "engine/kernels/kernels.h"
#include "engine/kernels/typed.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { WORLD_ITEMS_MAX = 12, WORLD_SEGMENTS = 3 };

typedef struct world_item {
    uint32_t segment, row0, rows;
} world_item;

typedef struct world {
    bw_dtype dtype;
    bw_metric metric;
    uint32_t dim, nq, nitems, nreads;
    uint32_t segment_rows[WORLD_SEGMENTS];
    void *rows[WORLD_SEGMENTS]; /* stored */
    float *scales[WORLD_SEGMENTS];
    float *decoded[WORLD_SEGMENTS];
    float *queries;
    world_item items[WORLD_ITEMS_MAX];
    uint64_t **words; /* per read: NULL or its bitset */
    bw_gpu_read *reads;
    bw_gpu_item gpu_items[WORLD_ITEMS_MAX];
    bw_gpu_segment *segments[WORLD_SEGMENTS];
} world;

typedef struct world_hit {
    float key;
    uint32_t item, row;
} world_hit;

static inline int world_hit_cmp(const void *a, const void *b)
{
    const world_hit *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    if (x->item != y->item)
        return x->item < y->item ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Rows around few centres, some repeated, so that near and exact ties are common. */
static inline void world_rows(rnd *r, world *w, uint32_t s, float size)
{
    const size_t n = w->segment_rows[s], dim = w->dim;
    float *in = bw_alloc_vectors((n + 1) * dim * sizeof *in);
    assert_non_null(in);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && rnd_below(r, 12) == 0) {
            memcpy(in + i * dim, in + rnd_below(r, i) * dim, dim * sizeof *in);
            continue;
        }
        const double centre = (double)rnd_below(r, 4);
        for (size_t j = 0; j < dim; j++)
            in[i * dim + j] = (float)(rnd_gauss(r) + centre * ((double)(j % 3) - 1)) * size;
        if (w->metric == BW_METRIC_COSINE)
            bw_normalize_f32(in + i * dim, dim);
    }
    w->rows[s] = bw_calloc(n * dim + 1, bw_dtype_size(w->dtype));
    w->scales[s] = bw_calloc(n + 1, sizeof(float));
    w->decoded[s] = bw_alloc_vectors((n + 1) * dim * sizeof(float));
    assert_true(w->rows[s] && w->scales[s] && w->decoded[s]);
    assert_true(bw_encode_rows(w->dtype, in, n, dim, w->rows[s], w->scales[s]));
    bw_decode_rows(w->dtype, w->rows[s], w->scales[s], n, dim, w->decoded[s]);
    bw_free_vectors(in);
}

/* Cuts each segment into ranges that begin at groups, with gaps that nobody reads. */
static inline void world_items(rnd *r, world *w)
{
    w->nitems = 0;
    for (uint32_t s = 0; s < WORLD_SEGMENTS; s++)
        for (uint32_t at = 0; at < w->segment_rows[s] && w->nitems < WORLD_ITEMS_MAX;) {
            const uint32_t left = w->segment_rows[s] - at;
            const uint32_t n = 1 + (uint32_t)rnd_below(r, left);
            w->items[w->nitems++] = (world_item){s, at, n};
            at += (n + BW_GPU_GROUP - 1) / BW_GPU_GROUP * BW_GPU_GROUP;
            at += BW_GPU_GROUP * (uint32_t)rnd_below(r, 2);
        }
}

/* Each query reads some items: all rows, half, few or none of them. */
static inline void world_reads(rnd *r, world *w)
{
    w->reads = bw_calloc((size_t)w->nitems * w->nq, sizeof *w->reads);
    w->words = bw_calloc((size_t)w->nitems * w->nq, sizeof *w->words);
    assert_true(w->reads && w->words);
    for (uint32_t i = 0; i < w->nitems; i++) {
        bw_gpu_item *it = &w->gpu_items[i];
        *it = (bw_gpu_item){NULL, w->items[i].row0, w->items[i].rows, w->nreads, 0};
        for (uint32_t q = 0; q < w->nq; q++) {
            if (rnd_below(r, 4) == 0 && !(q + 1 == w->nq && it->nreads == 0))
                continue;
            const size_t kind = rnd_below(r, 6);
            if (kind < 3) {
                uint64_t *words = bw_calloc(bw_bitmap_words(it->rows), sizeof *words);
                assert_non_null(words);
                for (uint32_t b = 0; b < it->rows; b++)
                    if (kind == 0 || (kind == 1 && rnd_below(r, 50) == 0))
                        words[b / 64] |= (uint64_t)(rnd_u64(r) & 1) << (b % 64);
                w->words[w->nreads] = words;
            }
            w->reads[w->nreads] = (bw_gpu_read){q, 0, NULL};
            w->nreads++;
            it->nreads++;
        }
    }
}

static inline void world_make(rnd *r, world *w, bw_dtype dtype, bw_metric metric, uint32_t dim, uint32_t nq,
                              uint32_t rows_max, float size)
{
    memset(w, 0, sizeof *w);
    w->dtype = dtype;
    w->metric = metric;
    w->dim = dim;
    w->nq = nq;
    for (uint32_t s = 0; s < WORLD_SEGMENTS; s++) {
        w->segment_rows[s] = 1 + (uint32_t)rnd_below(r, rows_max);
        world_rows(r, w, s, size);
    }
    w->queries = bw_alloc_vectors((size_t)nq * dim * sizeof(float));
    assert_non_null(w->queries);
    for (uint32_t q = 0; q < nq; q++) {
        const uint32_t s = (uint32_t)rnd_below(r, WORLD_SEGMENTS);
        const float *near = w->decoded[s] + rnd_below(r, w->segment_rows[s]) * dim;
        for (uint32_t j = 0; j < dim; j++)
            w->queries[(size_t)q * dim + j] = near[j] + (float)rnd_gauss(r) * (q % 3 == 0 ? 0 : size / 4);
        if (metric == BW_METRIC_COSINE)
            bw_normalize_f32(w->queries + (size_t)q * dim, dim);
    }
    world_items(r, w);
    world_reads(r, w);
}

static inline void world_clear(world *w)
{
    for (uint32_t s = 0; s < WORLD_SEGMENTS; s++) {
        bw_free(w->rows[s]);
        bw_free(w->scales[s]);
        bw_free_vectors(w->decoded[s]);
    }
    for (uint32_t i = 0; i < w->nreads; i++)
        bw_free(w->words[i]);
    bw_free(w->words);
    bw_free(w->reads);
    bw_free_vectors(w->queries);
}

/* Sends everything to the device; rows of a segment in a few pieces, last piece first. */
static inline void world_upload(const bw_gpu_module *m, bw_gpu *gpu, world *w)
{
    for (uint32_t s = 0; s < WORLD_SEGMENTS; s++) {
        const uint32_t n = w->segment_rows[s], half = n / 2;
        const bw_gpu_shape shape = {(uint32_t)w->dtype, w->dim, (uint32_t)w->metric, (n + 31) / 32 * 32};
        const size_t row = w->dim * bw_dtype_size(w->dtype);
        const bool i8 = w->dtype == BW_DTYPE_I8;
        bw_gpu_status st;
        assert_int_equal(m->segment_new(gpu, &shape, &w->segments[s]), BW_GPU_OK);
        do
            st = m->segment_write(gpu, w->segments[s], half, (const char *)w->rows[s] + half * row,
                                  i8 ? w->scales[s] + half : NULL, n - half);
        while (st == BW_GPU_AGAIN);
        assert_int_equal(st, BW_GPU_OK);
        do
            st = half == 0 ? BW_GPU_OK
                           : m->segment_write(gpu, w->segments[s], 0, w->rows[s], i8 ? w->scales[s] : NULL, half);
        while (st == BW_GPU_AGAIN);
        assert_int_equal(st, BW_GPU_OK);
    }
    for (uint32_t i = 0; i < w->nitems; i++) {
        w->gpu_items[i].segment = w->segments[w->items[i].segment];
        for (uint32_t r = 0; r < w->gpu_items[i].nreads; r++) {
            const uint32_t at = w->gpu_items[i].read0 + r;
            bw_gpu_bits *bits = NULL;
            bw_gpu_status st = BW_GPU_OK;
            if (w->words[at])
                do
                    st = m->bits_new(gpu, w->words[at], w->items[i].rows, &bits);
                while (st == BW_GPU_AGAIN);
            assert_int_equal(st, BW_GPU_OK);
            w->reads[at].bits = bits;
        }
    }
}

static inline void world_drop(const bw_gpu_module *m, bw_gpu *gpu, world *w)
{
    for (uint32_t i = 0; i < w->nreads; i++)
        m->bits_free(gpu, (bw_gpu_bits *)w->reads[i].bits);
    for (uint32_t s = 0; s < WORLD_SEGMENTS; s++)
        m->segment_free(gpu, w->segments[s]);
}

/* All rows that the query may read, best first; *n of them. bw_free. */
static inline world_hit *world_answer(const world *w, uint32_t q, size_t *n)
{
    size_t most = 1;
    for (uint32_t i = 0; i < w->nitems; i++)
        most += w->items[i].rows;
    world_hit *out = bw_calloc(most, sizeof *out);
    assert_non_null(out);
    *n = 0;
    for (uint32_t i = 0; i < w->nitems; i++)
        for (uint32_t r = 0; r < w->gpu_items[i].nreads; r++) {
            const uint32_t at = w->gpu_items[i].read0 + r;
            if (w->reads[at].query != q)
                continue;
            for (uint32_t row = 0; row < w->items[i].rows; row++) {
                if (w->words[at] && !(w->words[at][row / 64] >> (row % 64) & 1))
                    continue;
                const float *x =
                    w->decoded[w->items[i].segment] + (size_t)(w->items[i].row0 + row) * w->dim;
                out[(*n)++] = (world_hit){bw_metric_key(bw_kernels_isa("scalar"), w->metric,
                                                        w->queries + (size_t)q * w->dim, x, w->dim),
                                          i, row};
            }
        }
    qsort(out, *n, sizeof *out, world_hit_cmp);
    return out;
}

/* A covered answer must be the CPU's, to the bit: k best and all that tie with the k-th. */
static inline void world_check(const world *w, uint32_t q, size_t k, const bw_gpu_answer *a, const bw_gpu_hit *hits)
{
    size_t n, want = 0;
    world_hit *cpu = world_answer(w, q, &n), *got = bw_calloc(a->n + 1u, sizeof *got);
    assert_non_null(got);
    while (want < n && (want < k || cpu[want].key == cpu[k - 1].key))
        want++;
    for (uint32_t i = 0; i < a->n; i++)
        got[i] = (world_hit){hits[i].key, hits[i].item, hits[i].row};
    qsort(got, a->n, sizeof *got, world_hit_cmp);
    if (a->n != want || a->ties != want)
        fail_msg("query %u: %u hits, %u ties, expected %zu of %zu", q, a->n, a->ties, want, n);
    for (size_t i = 0; i < want; i++)
        if (memcmp(&got[i], &cpu[i], sizeof *got) != 0)
            fail_msg("query %u, place %zu: %a of %u/%u, expected %a of %u/%u", q, i, (double)got[i].key,
                     got[i].item, got[i].row, (double)cpu[i].key, cpu[i].item, cpu[i].row);
    bw_free(cpu);
    bw_free(got);
}

/* Launches until every answer is covered or the bound is no help; checks the covered ones.
 * Returns how many queries stayed uncovered. */
static inline uint32_t world_run(const bw_gpu_module *m, bw_gpu *gpu, const world *w, uint32_t k)
{
    uint32_t groups = 0, hits = 0, open = 0;
    for (int again = 0; again < 4; again++) {
        const bw_gpu_batch b = {w->queries, w->nq, k, groups, hits, w->nitems, w->nreads, w->gpu_items, w->reads};
        bw_gpu_ticket *t = NULL;
        bw_gpu_result r;
        assert_int_equal(m->launch(gpu, &b, &t), BW_GPU_OK);
        assert_int_equal(m->wait(gpu, t, 0, &r), BW_GPU_OK);
        assert_int_equal(r.nq, w->nq);
        open = 0;
        for (uint32_t q = 0; q < w->nq; q++) {
            const bw_gpu_answer *a = &r.answers[q];
            if (a->flags == BW_GPU_COVERED) {
                world_check(w, q, k, a, r.hits + (size_t)q * r.hits_max);
                continue;
            }
            assert_int_equal(a->flags & BW_GPU_COVERED, 0);
            assert_int_not_equal(a->flags, 0);
            open++;
            groups = a->groups > groups ? a->groups : groups;
            hits = a->ties > hits ? a->ties : hits;
        }
        m->release(gpu, t);
        hits = hits > k ? hits : k;
        if (open == 0)
            return 0;
    }
    return open;
}
#endif
