/* The flat scan beside a plain read of the same memory, in one process, taking turns.
 *
 *   kern_bench [ROWS [DIM [ROUNDS]]]        (300,000 384 9; seeded rows)
 * stdout: one JSON line. "read_gbs": the plain read loop's median in GB/s; for each
 * type "gbs" of one query's scan over stored rows, "share" the median over rounds of
 * (scan's GB/s) / (read's GB/s of that round), and "block": milliseconds a query for
 * 1, 2, 4, 8 and 16 queries in one pass. k = 10, all rows allowed, inner product.
 *
 * The clock is the thread's own CPU time, because the machines are shared; each read
 * has its own region (the largest type's), so that nothing is left in a cache. */
#include "engine/kernels/scan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { K = 10, ROUNDS_MAX = 99, NBLOCKS = 5, QUERIES = 16 };

static const char *const names[BW_NDTYPES] = {"f32", "f16", "bf16", "i8"};
static const size_t blocks[NBLOCKS] = {1, 2, 4, 8, 16};

typedef struct bench {
    size_t n, dim, rounds;
    void *rows[BW_NDTYPES];
    float *scales, *queries;
    bw_point_id *ids;
    bw_bitmap all;
    double read[ROUNDS_MAX], scan[BW_NDTYPES][NBLOCKS][ROUNDS_MAX]; /* seconds */
} bench;

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median(const double *v, size_t n)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, v, n * sizeof *v);
    qsort(sorted, n, sizeof *sorted, by_value);
    return sorted[n / 2];
}

/* Eight streams of one word a step: the compiler's widest adds, nothing else. */
static uint64_t read_all(const void *p, size_t bytes)
{
    typedef uint64_t v4 __attribute__((vector_size(32), aligned(32)));
    const v4 *w = p;
    v4 s[4] = {0};
    for (size_t i = 0; i + 8 <= bytes / sizeof *w; i += 8) {
        s[0] += w[i] ^ w[i + 4];
        s[1] += w[i + 1] ^ w[i + 5];
        s[2] += w[i + 2] ^ w[i + 6];
        s[3] += w[i + 3] ^ w[i + 7];
    }
    s[0] += s[1] + s[2] + s[3];
    return s[0][0] ^ s[0][1] ^ s[0][2] ^ s[0][3];
}

static void scan(const bench *b, bw_dtype t, size_t nq)
{
    const bw_scan_input in = {.dtype = t,
                              .metric = BW_METRIC_DOT,
                              .rows = b->rows[t],
                              .scales = t == BW_DTYPE_I8 ? b->scales : NULL,
                              .ids = b->ids,
                              .n = b->n,
                              .dim = b->dim};
    bw_candidate items[QUERIES][K];
    bw_topk out[QUERIES];
    bw_scan_query qs[QUERIES];
    for (size_t q = 0; q < nq; q++) {
        bw_topk_init(&out[q], items[q], K);
        qs[q] = (bw_scan_query){b->queries + q * b->dim, &b->all, &out[q]};
    }
    bw_scan_block(bw_kernels_get(), &in, qs, nq);
    assert(out[0].n == K || b->n < K);
}

static bool bench_fill(bench *b)
{
    const size_t values = b->n * b->dim;
    uint32_t x = 1;
    float *f = bw_alloc_vectors(values * sizeof(float));
    b->scales = bw_alloc_vectors(b->n * sizeof(float));
    b->queries = bw_alloc_vectors(QUERIES * b->dim * sizeof(float));
    b->ids = bw_calloc(b->n, sizeof *b->ids);
    if (!f || !b->scales || !b->queries || !b->ids || !bw_bitmap_heap(b->n, &b->all))
        return false;
    bw_bitmap_fill(&b->all);
    b->rows[BW_DTYPE_F32] = f;
    for (size_t i = 0; i < values; i++) {
        x = x * 1664525u + 1013904223u;
        f[i] = (float)(x >> 8) * 0x1p-23f - 1;
    }
    for (size_t i = 0; i < QUERIES * b->dim; i++)
        b->queries[i] = f[i * 7 % values];
    for (size_t i = 0; i < b->n; i++)
        b->ids[i].lo = i;
    for (int t = BW_DTYPE_F16; t < BW_NDTYPES; t++) {
        b->rows[t] = bw_alloc_vectors(values * bw_dtype_size((bw_dtype)t));
        if (!b->rows[t] ||
            !bw_encode_rows((bw_dtype)t, f, b->n, b->dim, b->rows[t], b->scales))
            return false;
    }
    return true;
}

static void bench_round(bench *b, size_t round)
{
    static volatile uint64_t sink;
    double begin = cpu_seconds();
    sink = sink + read_all(b->rows[BW_DTYPE_F32], b->n * b->dim * sizeof(float));
    b->read[round] = cpu_seconds() - begin;
    for (size_t t = 0; t < BW_NDTYPES; t++)
        for (size_t i = 0; i < NBLOCKS; i++) {
            begin = cpu_seconds();
            scan(b, (bw_dtype)t, blocks[i]);
            b->scan[t][i][round] = cpu_seconds() - begin;
        }
}

static void bench_print(const bench *b)
{
    const double f32_gb = (double)(b->n * b->dim) * 4e-9;
    printf("{\"isa\": \"%s\", \"rows\": %zu, \"dim\": %zu, \"rounds\": %zu, "
           "\"read_gbs\": %.2f",
           bw_kernels_get()->isa, b->n, b->dim, b->rounds,
           f32_gb / median(b->read, b->rounds));
    for (size_t t = 0; t < BW_NDTYPES; t++) {
        const double gb = (double)(b->n * b->dim * bw_dtype_size((bw_dtype)t)) * 1e-9;
        double share[ROUNDS_MAX];
        for (size_t r = 0; r < b->rounds; r++)
            share[r] = gb / b->scan[t][0][r] * b->read[r] / f32_gb;
        printf(", \"%s\": {\"gbs\": %.2f, \"share\": %.3f, \"block_ms\": {", names[t],
               gb / median(b->scan[t][0], b->rounds), median(share, b->rounds));
        for (size_t i = 0; i < NBLOCKS; i++)
            printf("%s\"%zu\": %.3f", i ? ", " : "", blocks[i],
                   median(b->scan[t][i], b->rounds) * 1e3 / (double)blocks[i]);
        printf("}}");
    }
    printf("}\n");
}

int main(int argc, char **argv)
{
    bench b = {.n = argc > 1 ? strtoull(argv[1], NULL, 10) : 300000,
               .dim = argc > 2 ? strtoull(argv[2], NULL, 10) : 384,
               .rounds = argc > 3 ? strtoull(argv[3], NULL, 10) : 9};
    if (b.n == 0 || b.dim == 0 || b.rounds == 0 || b.rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: kern_bench [ROWS [DIM [ROUNDS <= %d]]]\n", ROUNDS_MAX);
        return 2;
    }
    if (!bench_fill(&b)) {
        fprintf(stderr, "kern_bench: no memory\n");
        return 1;
    }
    for (size_t r = 0; r < b.rounds; r++)
        bench_round(&b, r);
    bench_print(&b);
    for (size_t t = 0; t < BW_NDTYPES; t++)
        bw_free_vectors(b.rows[t]);
    bw_free_vectors(b.scales);
    bw_free_vectors(b.queries);
    bw_free(b.ids);
    bw_bitmap_free(&b.all);
    return 0;
}
