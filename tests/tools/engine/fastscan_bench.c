/* How long the parts of a graph's search take:  fastscan_bench [isa…]
 * Best and median of 31 rounds; everything in cache. Prints the ISA with each figure. */
#include "engine/index/rabitq.h"
#include "engine/index/rotate.h"
#include "rnd.h"

#include <time.h>

enum { ROUNDS = 31, CALLS = 2000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static volatile uint32_t sink; /* so that no call is thrown away */

#define MEASURE(name, call)                                                       \
    do {                                                                          \
        double ns[ROUNDS];                                                        \
        for (size_t t = 0; t < ROUNDS; t++) {                                     \
            const double from = now();                                            \
            for (size_t n = 0; n < CALLS; n++)                                    \
                call;                                                             \
            ns[t] = (now() - from) / CALLS;                                       \
        }                                                                         \
        qsort(ns, ROUNDS, sizeof *ns, by_value);                                  \
        printf("%-7s dim %4u  %-28s %8.1f ns (median %.1f)\n", k->isa, dim, name, \
               ns[0], ns[ROUNDS / 2]);                                            \
    } while (0)

static bool measure(const bw_fastscan *k, uint32_t dim, rnd *r)
{
    const bw_rabitq_layout l = bw_rabitq_layout_of(BW_RABITQ_L2, dim, 32);
    bw_rotate *rotate = bw_rotate_new(dim, 1);
    float *x = bw_alloc_vectors(4 * dim * sizeof *x), est[32] __attribute__((aligned(64)));
    uint8_t *row = bw_alloc_vectors(l.stride);
    void *memory = bw_alloc_vectors(bw_rabitq_query_bytes(dim));
    const bool ok = rotate && x && row && memory;
    if (ok) {
        float *c = x + dim, *q = c + dim, *raw = q + dim;
        for (size_t i = 0; i < 4 * dim; i++)
            x[i] = (float)(rnd_gauss(r) / sqrt(dim));
        bw_rabitq_query query;
        bw_rabitq_query_lay(&query, dim, memory);
        bw_rabitq_query_set(&query, k, l.form, q);
        bw_rabitq_row_init(&l, row);
        bw_rabitq_row_own(&l, row, c);
        for (uint32_t i = 0; i < 32; i++)
            bw_rabitq_row_put(&l, row, i, i, x, c);
        MEASURE("estimates of 32 neighbours",
                sink += bw_rabitq_estimate(k, &l, &query, row, 0, 1, 1, est));
        MEASURE("distance to own code",
                sink += bw_fastscan_bits(bw_rabitq_distance(k, &l, &query, row)));
        MEASURE("table of a query", k->table(q, &query.table));
        MEASURE("whole query, rotated before", bw_rabitq_query_set(&query, k, l.form, q));
        if (k == bw_fastscan_get()) {
            MEASURE("rotation", bw_rotate_apply(rotate, raw, NULL, 1, q));
            MEASURE("code of a lane", bw_rabitq_row_put(&l, row, 5, 5, x, c));
            MEASURE("own code of a row", bw_rabitq_row_own(&l, row, c));
        }
    }
    bw_rotate_free(rotate);
    bw_free_vectors(x);
    bw_free_vectors(row);
    bw_free_vectors(memory);
    return ok;
}

int main(int argc, char **argv)
{
    const uint32_t dims[] = {384, 768, 1024};
    rnd r = rnd_start("fastscan_bench", 20261130);
    const char *best = bw_fastscan_get()->isa;
    for (int i = argc > 1 ? 1 : 0; i < argc; i++) {
        const bw_fastscan *k = bw_fastscan_isa(argc > 1 ? argv[i] : best);
        for (size_t d = 0; k && d < sizeof dims / sizeof *dims; d++)
            if (!measure(k, dims[d], &r))
                return 1;
        if (!k)
            printf("no %s here\n", argv[i]);
    }
    return 0;
}
