/* Timing of the index kinds and of the whole engine in one process, driven line by line
 * by tests/bench/bench.py so that contenders can take turns.
 *
 *   bw_bench ROWS.npy QUERIES.npy METRIC        (cosine dot euclid manhattan)
 * stdin:  build KIND       an index over all rows; KIND is one of engine/index
 *         search KIND EF   every query alone, k = 10; EF 0 = the kind's own choice
 *         quit
 * stdout: one JSON object a line: {"seconds": s} and, of a search, "rows": the row
 * numbers found, k a query, -1 where there is none.
 *
 * Only the searches are timed: the clock is read around the loop, answers are printed
 * after it. */
#include "engine/index/index.h"
#include "engine/kernels/kernels.h"
#include "npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { K = 10, KINDS_MAX = 8, LINE_MAX_BYTES = 256 };

typedef struct bench {
    bw_ctx *ctx;
    npy rows, queries;
    bw_metric metric;
    bw_point_id *ids;
    bw_bitmap all;
    bw_index *built[KINDS_MAX];
    size_t nbuilt;
    int64_t *found; /* queries × K */
} bench;

static int bench_fail(const char *what, const char *detail)
{
    fprintf(stderr, "bw_bench: %s: %s\n", what, detail);
    return 1;
}

static const bw_index *bench_index(const bench *b, const char *kind)
{
    for (size_t i = 0; i < b->nbuilt; i++)
        if (strcmp(b->built[i]->ops->name, kind) == 0)
            return b->built[i];
    return NULL;
}

static int bench_build(bench *b, const char *kind)
{
    const bw_index_ops *ops = bw_index_kind(kind);
    if (!ops || b->nbuilt == KINDS_MAX)
        return bench_fail("unknown kind", kind);
    const bw_index_params p = {.metric = b->metric, .dim = (uint32_t)b->rows.dim, .seed = 1};
    const uint64_t begin = bw_clock_mono_ns();
    if (ops->build(b->ctx, &p, b->rows.values, b->rows.n, &b->built[b->nbuilt]) != BW_OK)
        return bench_fail(kind, bw_ctx_message(b->ctx));
    const double seconds = (double)(bw_clock_mono_ns() - begin) * 1e-9;
    printf("{\"seconds\": %.6f, \"bytes\": %zu}\n", seconds, ops->bytes(b->built[b->nbuilt]));
    b->nbuilt++;
    return 0;
}

static int bench_print(const bench *b, double seconds)
{
    printf("{\"seconds\": %.6f, \"rows\": [", seconds);
    for (size_t i = 0; i < b->queries.n * K; i++)
        printf("%s%" PRId64, i ? "," : "", b->found[i]);
    printf("]}\n");
    return 0;
}

static int bench_search(bench *b, const char *kind, uint32_t effort)
{
    const bw_index *ix = bench_index(b, kind);
    if (!ix)
        return bench_fail("not built", kind);
    const uint64_t begin = bw_clock_mono_ns();
    for (size_t q = 0; q < b->queries.n; q++) {
        bw_candidate items[K];
        bw_topk t;
        bw_topk_init(&t, items, K);
        const bw_index_search s = {.query = b->queries.values + q * b->queries.dim,
                                   .k = K,
                                   .effort = effort,
                                   .allowed = &b->all,
                                   .ids = b->ids,
                                   .rows = b->rows.values};
        if (ix->ops->search(b->ctx, ix, &s, &t) != BW_OK)
            return bench_fail(kind, bw_ctx_message(b->ctx));
        bw_topk_sort(&t);
        for (size_t i = 0; i < K; i++)
            b->found[q * K + i] = i < t.n ? (int64_t)items[i].row : -1;
        bw_ctx_reset(b->ctx);
    }
    return bench_print(b, (double)(bw_clock_mono_ns() - begin) * 1e-9);
}

static int bench_loop(bench *b)
{
    char line[LINE_MAX_BYTES];
    int rc = 0;
    while (rc == 0 && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        char *kind = strchr(line, ' ');
        if (strcmp(line, "quit") == 0)
            break;
        if (!kind)
            return bench_fail("unknown command", line);
        *kind++ = 0;
        char *effort = strchr(kind, ' ');
        if (effort)
            *effort++ = 0;
        if (strcmp(line, "build") == 0)
            rc = bench_build(b, kind);
        else if (strcmp(line, "search") == 0 && effort)
            rc = bench_search(b, kind, (uint32_t)strtoul(effort, NULL, 10));
        else
            return bench_fail("unknown command", line);
        fflush(stdout);
    }
    return rc;
}

static int bench_open(bench *b, char **argv)
{
    static const char *const metrics[] = {"cosine", "dot", "euclid", "manhattan"};
    int metric = 0;
    while (metric < 4 && strcmp(metrics[metric], argv[3]) != 0)
        metric++;
    if (metric == 4)
        return bench_fail("unknown metric", argv[3]);
    b->metric = (bw_metric)metric;
    b->ctx = bw_ctx_new(0);
    if (!b->ctx || bw_index_start(b->ctx) != BW_OK)
        return bench_fail("start", b->ctx ? bw_ctx_message(b->ctx) : "no memory");
    if (npy_read(argv[1], 0, &b->rows) != 0 || npy_read(argv[2], 0, &b->queries) != 0)
        return 1;
    if (b->rows.dim != b->queries.dim)
        return bench_fail(argv[2], "has another dimension than the rows");
    b->ids = bw_calloc(b->rows.n, sizeof *b->ids);
    b->found = bw_calloc(b->queries.n * K, sizeof *b->found);
    if (!b->ids || !b->found || !bw_bitmap_heap(b->rows.n, &b->all))
        return bench_fail("start", "no memory");
    bw_bitmap_fill(&b->all);
    for (size_t i = 0; i < b->rows.n; i++)
        b->ids[i].lo = i;
    for (size_t i = 0; i < b->rows.n && b->metric == BW_METRIC_COSINE; i++)
        bw_normalize_f32(b->rows.values + i * b->rows.dim, b->rows.dim);
    for (size_t i = 0; i < b->queries.n && b->metric == BW_METRIC_COSINE; i++)
        bw_normalize_f32(b->queries.values + i * b->queries.dim, b->queries.dim);
    fprintf(stderr, "bw_bench: kernels %s\n", bw_kernels_get()->isa);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return bench_fail("usage", "bw_bench ROWS.npy QUERIES.npy METRIC");
    bench b = {0};
    int rc = bench_open(&b, argv);
    if (rc == 0)
        rc = bench_loop(&b);
    for (size_t i = 0; i < b.nbuilt; i++)
        b.built[i]->ops->free(b.built[i]);
    bw_bitmap_free(&b.all);
    bw_free(b.ids);
    bw_free(b.found);
    bw_free_vectors(b.rows.values);
    bw_free_vectors(b.queries.values);
    bw_ctx_free(b.ctx);
    return rc;
}
