/* Timing of the index kinds and of the whole engine in one process, driven line by line
 * by tests/bench/bench.py so that contenders can take turns.
 *
 *   bw_bench ROWS.npy QUERIES.npy METRIC        (cosine dot euclid manhattan)
 * stdin:  build KIND SEAL  an index over all rows; KIND is one of engine/index, or
 *                          "engine": a cell's data folder under TMPDIR, filled through
 *                          bw_write, sealing after SEAL rows (0 = the default)
 *         search KIND EF   every query alone, k = 10; EF 0 = the kind's own choice
 *         quit
 * stdout: one JSON object a line: {"seconds": s, "cpu": s} and, of a search, "rows":
 * the row numbers found, k a query, -1 where there is none.
 *
 * Only the searches are timed: the clocks are read around the loop, answers are printed
 * after it. cpu is the calling thread's own time, for machines that are shared. */
#include "engine/index/index.h"
#include "engine/kernels/kernels.h"
#include "npy.h"
#include <bailiwick/engine.h>

#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { K = 10, KINDS_MAX = 8, LINE_MAX_BYTES = 256, BATCH = 1000 };

static const bw_str TENANT = {"bench", 5}, NAME = {"bench", 5};

typedef struct bench {
    bw_ctx *ctx;
    npy rows, queries;
    bw_metric metric;
    bw_point_id *ids;
    bw_bitmap all;
    bw_index *built[KINDS_MAX];
    size_t nbuilt;
    int64_t *found; /* queries × K */
    bw_engine *engine;
    char folder[128]; /* of the engine; removed at the end */
    bw_class_id class_id;
} bench;

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

static int bench_build(bench *b, const char *kind)
{
    const bw_index_ops *ops = bw_index_kind(kind);
    if (!ops || b->nbuilt == KINDS_MAX)
        return bench_fail("unknown kind", kind);
    const bw_index_params p = {
        .metric = b->metric, .dim = (uint32_t)b->rows.dim, .seed = 1};
    const timer begin = timer_start();
    const bw_rows rows = rows_of(b);
    if (ops->build(b->ctx, &p, &rows, &b->built[b->nbuilt]) != BW_OK)
        return bench_fail(kind, bw_ctx_message(b->ctx));
    timer_print(timer_stop(begin));
    printf(", \"bytes\": %zu}\n", ops->bytes(b->built[b->nbuilt]));
    b->nbuilt++;
    return 0;
}

static int found_print(const bench *b, timer t)
{
    timer_print(t);
    printf(", \"rows\": [");
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
    const bw_rows rows = rows_of(b);
    const timer begin = timer_start();
    for (size_t q = 0; q < b->queries.n; q++) {
        bw_candidate items[K];
        bw_topk t;
        bw_topk_init(&t, items, K);
        const bw_index_search s = {.query = b->queries.values + q * b->queries.dim,
                                   .k = K,
                                   .effort = effort,
                                   .allowed = &b->all,
                                   .ids = b->ids,
                                   .rows = &rows};
        if (ix->ops->search(b->ctx, ix, &s, &t) != BW_OK)
            return bench_fail(kind, bw_ctx_message(b->ctx));
        bw_topk_sort(&t);
        for (size_t i = 0; i < K; i++)
            b->found[q * K + i] = i < t.n ? (int64_t)items[i].row : -1;
        bw_ctx_reset(b->ctx);
    }
    return found_print(b, timer_stop(begin));
}

/* ---- the whole engine: one collection, one class, ids = row numbers ---- */

static bw_status engine_fill(bench *b, size_t from, size_t n)
{
    static bw_point points[BATCH];
    static bw_vector vectors[BATCH];
    const bw_permit one = {&b->class_id, 1};
    const bw_access access = {one, one, one, one};
    for (size_t i = 0; i < n; i++) {
        vectors[i] = (bw_vector){.values = b->rows.values + (from + i) * b->rows.dim,
                                 .n = (uint32_t)b->rows.dim};
        vectors[i].name = (bw_str){"", 0};
        points[i] = (bw_point){.id = {0, from + i, 0, 0},
                               .class_id = b->class_id,
                               .vectors = &vectors[i],
                               .nvectors = 1};
    }
    const bw_op op = {.kind = BW_OP_UPSERT, .points = points, .npoints = (uint32_t)n};
    bw_write_result result;
    return bw_write(b->ctx, b->engine, TENANT, NAME, &access, &op, 1, &result);
}

static bw_status engine_make(bench *b, uint32_t seal)
{
    bw_engine_options options = BW_ENGINE_OPTIONS_INIT;
    options.seal_rows = seal;
    options.adopt_rows = seal ? 1024 : 0;
    const bw_vector_spec vector = {
        .name = {"", 0}, .dim = (uint32_t)b->rows.dim, .metric = b->metric};
    const bw_collection_info info = {
        .tenant = TENANT, .name = NAME, .vectors = &vector, .nvectors = 1};
    memset(b->class_id.bytes, 7, sizeof b->class_id.bytes);
    bw_status status = bw_engine_open(b->ctx, b->folder, &options, &b->engine);
    if (status == BW_OK)
        status = bw_collection_create(b->ctx, b->engine, &info);
    if (status == BW_OK)
        status = bw_class_put(b->ctx, b->engine, &b->class_id, BW_STR("bench"));
    for (size_t i = 0; status == BW_OK && i < b->rows.n; i += BATCH) {
        status = engine_fill(b, i, b->rows.n - i < BATCH ? b->rows.n - i : BATCH);
        bw_ctx_reset(b->ctx);
    }
    return status;
}

static int engine_build(bench *b, uint32_t seal)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(b->folder, sizeof b->folder, "%s/bw-bench-XXXXXX", tmp ? tmp : "/tmp");
    if (b->engine || !mkdtemp(b->folder))
        return bench_fail("engine", "its folder cannot be made");
    const timer begin = timer_start();
    if (engine_make(b, seal) != BW_OK)
        return bench_fail("engine", bw_ctx_message(b->ctx));
    timer_print(timer_stop(begin));
    printf("}\n");
    return 0;
}

static int engine_search(bench *b, uint32_t effort)
{
    const bw_permit permit = {&b->class_id, 1};
    const bw_read read = {.tenant = TENANT,
                          .name = NAME,
                          .permit = &permit,
                          .now_ns = bw_clock_unix_ns()};
    const timer begin = timer_start();
    for (size_t q = 0; q < b->queries.n; q++) {
        bw_query query = {.kind = BW_QUERY_NEAREST, .limit = K, .ef_search = effort};
        query.using_name = (bw_str){"", 0};
        query.target.vector =
            (bw_vector){.values = b->queries.values + q * b->queries.dim,
                        .n = (uint32_t)b->queries.dim};
        bw_result *result = NULL;
        if (bw_query_run(b->ctx, b->engine, &read, &query, 1, &result) != BW_OK)
            return bench_fail("engine", bw_ctx_message(b->ctx));
        size_t n;
        const bw_hit *hits = bw_result_hits(result, 0, &n);
        for (size_t i = 0; i < K; i++)
            b->found[q * K + i] = i < n ? (int64_t)hits[i].id.lo : -1;
        bw_result_free(result);
        bw_ctx_reset(b->ctx);
    }
    return found_print(b, timer_stop(begin));
}

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void engine_end(bench *b)
{
    bw_engine_close(b->engine);
    if (b->folder[0])
        nftw(b->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- commands ---- */

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
        const uint32_t number = effort ? (uint32_t)strtoul(effort, NULL, 10) : 0;
        const bool engine = strcmp(kind, "engine") == 0;
        if (strcmp(line, "build") == 0)
            rc = engine ? engine_build(b, number) : bench_build(b, kind);
        else if (strcmp(line, "search") == 0)
            rc = engine ? engine_search(b, number) : bench_search(b, kind, number);
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
    engine_end(&b);
    bw_bitmap_free(&b.all);
    bw_free(b.ids);
    bw_free(b.found);
    bw_free_vectors(b.rows.values);
    bw_free_vectors(b.queries.values);
    bw_ctx_free(b.ctx);
    return rc;
}
