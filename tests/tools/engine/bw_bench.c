/* Timing of the index kinds in one process, driven line by line by tests/bench so that
 * contenders can take turns (engine_bench does the same for the whole engine).
 *
 *   bw_bench ROWS.npy QUERIES.npy METRIC        (cosine dot euclid manhattan)
 * stdin:  build KIND [THREADS]   an index over all rows; KIND is one of engine/index, or
 *                                "codes": the exact scan over 4-bit codes
 *         search KIND EFFORT [FROM COUNT [K]]   queries, each alone, k = 10 unless said;
 *                                EFFORT: ef or nprobe, a recall with a point in it
 *                                (0.95), or 0 = the kind's own choice
 *         ready                  answers {} once the files are read
 *         quit
 * stdout: one JSON object a line: {"seconds": s, "cpu": s}, of a build "bytes" and "isa",
 * of a search "rows": the row numbers found, k a query, -1 where there is none; or
 * {"not_run": why} where there is no such kind.
 *
 * Only the searches are timed: the clocks are read around the loop, answers are printed
 * after it. cpu is the calling thread's own time, for machines that are shared; of a
 * build with threads it is the whole process's. */
#include "engine/index/codes.h"
#include "engine/index/index.h"
#include "engine/kernels/kernels.h"
#include "npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { K_MAX = 1000, KINDS_MAX = 8, LINE_MAX_BYTES = 256 };

typedef struct bench {
    bw_ctx *ctx;
    npy rows, queries;
    bw_metric metric;
    bw_point_id *ids;
    bw_bitmap all;
    bw_index *built[KINDS_MAX];
    size_t nbuilt;
    bw_codes *codes;
} bench;

typedef struct ask { /* what a search is asked for */
    const char *kind;
    uint32_t effort;
    float recall;
    size_t from, count, k;
} ask;

typedef struct timer {
    uint64_t wall, cpu;
} timer;

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static timer timer_start(void)
{
    return (timer){bw_clock_mono_ns(), cpu_ns()};
}
static timer timer_stop(timer begin)
{
    return (timer){bw_clock_mono_ns() - begin.wall, cpu_ns() - begin.cpu};
}
static void timer_print(timer t)
{
    printf("{\"seconds\": %.6f, \"cpu\": %.6f", (double)t.wall * 1e-9,
           (double)t.cpu * 1e-9);
}

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

static bw_rows rows_of(const bench *b)
{
    return (bw_rows){.dim = (uint32_t)b->rows.dim, .n = b->rows.n, .data = b->rows.values};
}

static uint64_t process_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int not_run(const char *why, const char *detail)
{
    printf("{\"not_run\": \"%s %s\"}\n", why, detail);
    return 0;
}

static bw_status codes_build(bench *b)
{
    b->codes = bw_codes_new(b->metric, (uint32_t)b->rows.dim, (uint32_t)b->rows.n);
    if (!b->codes)
        return bw_fail_nomem(b->ctx);
    for (size_t i = 0; i < b->rows.n; i++)
        bw_codes_put(b->codes, (uint32_t)i, b->rows.values + i * b->rows.dim);
    return BW_OK;
}

static int bench_build(bench *b, const char *kind, uint32_t threads)
{
    const bool codes = strcmp(kind, "codes") == 0;
    const bw_index_ops *ops = codes ? NULL : bw_index_kind(kind);
    if (b->nbuilt == KINDS_MAX || (codes && b->codes) || (!codes && !ops))
        return not_run("no such kind:", kind);
    if (codes ? !bw_codes_metric(b->metric) : !ops->metrics[b->metric])
        return not_run("not for this metric:", kind);
    const bw_index_params p = {.metric = b->metric,
                               .dim = (uint32_t)b->rows.dim,
                               .threads = threads,
                               .seed = 1};
    const bw_rows rows = rows_of(b);
    const uint64_t wall = bw_clock_mono_ns(), cpu = process_ns();
    const bw_status st = codes ? codes_build(b)
                               : ops->build(b->ctx, &p, &rows, &b->built[b->nbuilt]);
    if (st != BW_OK)
        return bench_fail(kind, bw_ctx_message(b->ctx));
    timer_print((timer){bw_clock_mono_ns() - wall, process_ns() - cpu});
    printf(", \"bytes\": %zu, \"isa\": \"%s\"}\n",
           codes ? bw_codes_bytes(b->codes) : ops->bytes(b->built[b->nbuilt]),
           bw_kernels_get()->isa);
    b->nbuilt += !codes;
    return 0;
}

static bw_status search_one(bench *b, const bw_index *ix, const ask *a, size_t q,
                            bw_topk *out)
{
    const bw_rows rows = rows_of(b);
    const float *query = b->queries.values + q * b->queries.dim;
    if (!ix) {
        const bw_codes_query one = {query, &b->all, out};
        return bw_codes_scan(b->ctx, b->codes, &rows, &one, 1, b->ids, 0, 0, NULL);
    }
    const bw_index_search s = {.query = query,
                               .k = a->k,
                               .effort = a->effort,
                               .recall = a->recall,
                               .allowed = &b->all,
                               .ids = b->ids,
                               .rows = &rows};
    return ix->ops->search(b->ctx, ix, &s, out);
}

static int bench_search(bench *b, const ask *a)
{
    static bw_candidate items[K_MAX];
    const bool codes = strcmp(a->kind, "codes") == 0;
    const bw_index *ix = codes ? NULL : bench_index(b, a->kind);
    if (codes ? !b->codes : !ix)
        return bench_fail("not built", a->kind);
    int64_t *found = bw_calloc(a->count * a->k, sizeof *found);
    if (!found)
        return bench_fail(a->kind, "no memory");
    const timer begin = timer_start();
    for (size_t i = 0; i < a->count; i++) {
        bw_topk t;
        bw_topk_init(&t, items, a->k);
        if (search_one(b, ix, a, a->from + i, &t) != BW_OK)
            return bench_fail(a->kind, bw_ctx_message(b->ctx));
        bw_topk_sort(&t);
        for (size_t j = 0; j < a->k; j++)
            found[i * a->k + j] = j < t.n ? (int64_t)items[j].row : -1;
        bw_ctx_reset(b->ctx);
    }
    timer_print(timer_stop(begin));
    printf(", \"rows\": [");
    for (size_t i = 0; i < a->count * a->k; i++)
        printf("%s%" PRId64, i ? "," : "", found[i]);
    printf("]}\n");
    bw_free(found);
    return 0;
}

/* EFFORT [FROM COUNT [K]] into a search that stays within the queries. */
static int command_search(bench *b, char **word, size_t n)
{
    ask a = {.kind = word[1], .count = b->queries.n, .k = 10};
    if (n > 2 && strchr(word[2], '.'))
        a.recall = strtof(word[2], NULL);
    else if (n > 2)
        a.effort = (uint32_t)strtoul(word[2], NULL, 10);
    if (n > 3)
        a.from = strtoull(word[3], NULL, 10);
    if (n > 4)
        a.count = strtoull(word[4], NULL, 10);
    if (n > 5)
        a.k = strtoull(word[5], NULL, 10);
    if (a.from >= b->queries.n || a.k < 1 || a.k > K_MAX)
        return bench_fail("search", "no such queries");
    if (a.count > b->queries.n - a.from)
        a.count = b->queries.n - a.from;
    return bench_search(b, &a);
}

/* ---- commands ---- */

static int bench_loop(bench *b)
{
    char line[LINE_MAX_BYTES];
    int rc = 0;
    while (rc == 0 && fgets(line, sizeof line, stdin)) {
        char *word[6], *rest = line;
        size_t n = 0;
        while (n < 6 && (word[n] = strsep(&rest, " \n")) != NULL && *word[n])
            n++;
        if (n == 1 && strcmp(word[0], "quit") == 0)
            break;
        if (n == 1 && strcmp(word[0], "ready") == 0)
            printf("{}\n");
        else if (n >= 2 && strcmp(word[0], "build") == 0)
            rc = bench_build(b, word[1], n > 2 ? (uint32_t)strtoul(word[2], NULL, 10) : 0);
        else if (n >= 2 && strcmp(word[0], "search") == 0)
            rc = command_search(b, word, n);
        else
            return bench_fail("unknown command", n ? word[0] : "");
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
    if (!b->ids || !bw_bitmap_heap(b->rows.n, &b->all))
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
    bw_codes_free(b.codes);
    bw_bitmap_free(&b.all);
    bw_free(b.ids);
    bw_free_vectors(b.rows.values);
    bw_free_vectors(b.queries.values);
    bw_ctx_free(b.ctx);
    return rc;
}
