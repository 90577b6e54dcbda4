/* The whole engine in one process, driven line by line by tests/bench so that contenders
 * can take turns: one collection, rows in classes, queries that may see some of them.
 *
 *   engine_bench ROWS.npy QUERIES.npy
 * stdin:  open DTYPE ON_DISK SEAL ADOPT WORDS INDEX   a data folder under TMPDIR; DTYPE
 *                 f32 f16 bf16 i8; SEAL, ADOPT rows (0 = the defaults); WORDS 1 = points
 *                 have a text and a sparse vector too, of seeded words with Zipf's
 *                 frequencies; INDEX a bw_index_choice (0 = the planner's)
 *         fill CLASSES.u32 | - [FROM COUNT]     rows (id = row number) class by class; the
 *                 file has one native u32 a row, - puts all into class 0
 *         wait                                  until no graph is pending
 *         seal                                  one graph a class that may be seen, as a bulk load ends
 *         permit FILE.u32 | -                   classes that queries may see; - = all
 *         threads T                             how many run the queries of a search
 *         search WHAT EFFORT FROM COUNT [K]     WHAT dense, text, sparse, hybrid; EFFORT
 *                 an ef, a recall with a point in it (0.95), "exact", or 0
 *         reopen                                closes and opens the folder: a cold start
 *         stats
 * stdout: one JSON object a line: {"seconds", "cpu"}; of a search also "rows", of a
 * reopen "first_ms", of stats the engine's own.
 *
 * Commits are not synced to disk (null_sync): loads are timed elsewhere. Only the queries
 * are timed; cpu is the sum of the threads' own time, for machines that are shared. */
#include "engine/base/base.h"
#include "engine/kernels/kernels.h"
#include "npy.h"
#include "rnd.h"
#include <bailiwick/engine.h>

#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH = 1000,
    THREADS_MAX = 16,
    K_MAX = 1000,
    WORDS_ALL = 50000, /* the vocabulary, and the sparse vectors' indices */
    WORDS_DOC = 40,
    WORDS_QUERY = 3,
    SPARSE_QUERY = 12,
    LINE_MAX_BYTES = 1024
};

static const bw_str TENANT = {"bench", 5}, NAME = {"bench", 5};

typedef struct bench {
    bw_ctx *ctx;
    npy rows, queries;
    bw_engine *engine;
    bw_engine_options options;
    bool words;
    char folder[128];
    bw_class_id *classes, *chosen;
    size_t nclasses, nchosen, nthreads;
} bench;

typedef struct job { /* queries [from, to) of one thread */
    bench *b;
    bw_ctx *ctx;
    const char *what, *effort;
    size_t from, to, base, k;
    int64_t *found;
    uint64_t cpu_ns;
    bool failed;
} job;

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int bench_fail(const char *what, const char *detail)
{
    fprintf(stderr, "engine_bench: %s: %s\n", what, detail);
    return 1;
}

static void times_print(uint64_t wall_ns, uint64_t cpu)
{
    printf("{\"seconds\": %.6f, \"cpu\": %.6f", (double)wall_ns * 1e-9,
           (double)cpu * 1e-9);
}

static bw_class_id class_of(uint32_t number)
{
    bw_class_id id = {{0}};
    for (int i = 0; i < 4; i++)
        id.bytes[i] = (uint8_t)(number >> (24 - 8 * i));
    return id;
}

/* ---- words: Zipf's frequencies by inverting 1/rank's integral ---- */

static uint32_t word_draw(rnd *r)
{
    return (uint32_t)exp(rnd_unit(r) * log((double)WORDS_ALL)) - 1;
}

static bw_str words_text(bw_ctx *ctx, rnd *r, size_t n)
{
    char *text = bw_arena_alloc(ctx, n * 8 + 1);
    if (!text)
        return (bw_str){NULL, 0};
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, n * 8 + 1 - len, "w%x ", word_draw(r));
    return (bw_str){text, len};
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static bw_vector words_sparse(bw_ctx *ctx, rnd *r, size_t n)
{
    uint32_t *indices = bw_arena_alloc(ctx, n * sizeof *indices);
    float *values = bw_arena_alloc(ctx, n * sizeof *values);
    bw_vector v = {.name = BW_STR("s"), .sparse = true};
    if (!indices || !values)
        return v;
    for (size_t i = 0; i < n; i++)
        indices[i] = word_draw(r);
    qsort(indices, n, sizeof *indices, by_number);
    for (size_t i = 0; i < n; i++) {
        if (v.n && indices[v.n - 1] == indices[i])
            continue;
        indices[v.n] = indices[i];
        values[v.n++] = 0.25f + (float)rnd_unit(r);
    }
    v.indices = indices;
    v.values = values;
    return v;
}

/* ---- open, fill ---- */

static bw_status collection_make(bench *b, const char *dtype, bool on_disk, uint32_t index)
{
    static const char *const names[BW_NDTYPES] = {"f32", "f16", "bf16", "i8"};
    uint32_t t = 0;
    while (t < BW_NDTYPES && strcmp(names[t], dtype) != 0)
        t++;
    if (t == BW_NDTYPES || index >= BW_NINDEX_CHOICES)
        return bw_fail(b->ctx, BW_EINVALID, "unknown type %s or index", dtype);
    const bw_vector_spec specs[] = {{.name = {"", 0},
                                     .dim = (uint32_t)b->rows.dim,
                                     .metric = BW_METRIC_COSINE,
                                     .dtype = (bw_dtype)t,
                                     .on_disk = on_disk,
                                     .index = (bw_index_choice)index},
                                    {.name = BW_STR("s"), .sparse = true}};
    const bw_collection_info info = {.tenant = TENANT,
                                     .name = NAME,
                                     .vectors = specs,
                                     .nvectors = b->words ? 2 : 1};
    bw_status st = bw_engine_open(b->ctx, b->folder, &b->options, &b->engine);
    return st == BW_OK ? bw_collection_create(b->ctx, b->engine, &info) : st;
}

/* points[i] for row which[i]: its words are drawn from a generator of its own. */
static void point_make(bench *b, uint32_t row, const bw_class_id *class_id, bw_point *p,
                       bw_vector *v)
{
    v[0] = (bw_vector){.name = {"", 0},
                       .values = b->rows.values + (size_t)row * b->rows.dim,
                       .n = (uint32_t)b->rows.dim};
    *p = (bw_point){
        .id = {0, row, 0, 0}, .class_id = *class_id, .vectors = v, .nvectors = 1};
    if (b->words) {
        rnd r = {row};
        v[1] = words_sparse(b->ctx, &r, WORDS_DOC);
        p->text = words_text(b->ctx, &r, WORDS_DOC);
        p->nvectors = 2;
    }
}

static bw_status rows_put(bench *b, const uint32_t *which, size_t n,
                          const bw_class_id *class_id)
{
    static bw_point points[BATCH];
    static bw_vector vectors[BATCH][2];
    const bw_permit one = {class_id, 1};
    const bw_access access = {one, one, one, one};
    bw_write_result result;
    for (size_t i = 0; i < n; i++)
        point_make(b, which[i], class_id, &points[i], vectors[i]);
    const bw_op op = {.kind = BW_OP_UPSERT, .points = points, .npoints = (uint32_t)n};
    bw_status st = bw_write(b->ctx, b->engine, TENANT, NAME, &access, &op, 1, &result);
    if (st == BW_OK)
        bw_ctx_reset(b->ctx);
    return st;
}

/* Every class has its rows one after the other, in order of rows (a counting sort). */
static bw_status classes_put(bench *b, const uint32_t *labels, size_t from, size_t n)
{
    size_t *at = bw_calloc(b->nclasses + 1, sizeof *at);
    uint32_t *order = bw_calloc(n, sizeof *order);
    bw_status st = at && order ? BW_OK : bw_fail_nomem(b->ctx);
    for (size_t i = 0; st == BW_OK && i < n; i++)
        at[labels[from + i] + 1]++;
    for (size_t c = 0; st == BW_OK && c < b->nclasses; c++)
        at[c + 1] += at[c];
    for (size_t i = 0; st == BW_OK && i < n; i++)
        order[at[labels[from + i]]++] = (uint32_t)(from + i);
    /* at[c] is now the end of class c. */
    for (size_t c = 0, i = 0; st == BW_OK && c < b->nclasses; c++)
        for (; st == BW_OK && i < at[c]; i += BATCH < at[c] - i ? BATCH : at[c] - i)
            st = rows_put(b, order + i, BATCH < at[c] - i ? BATCH : at[c] - i,
                          &b->classes[c]);
    bw_free(at);
    bw_free(order);
    return st;
}

static uint32_t *u32_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        return NULL;
    const long bytes = ftell(f);
    rewind(f);
    *n = bytes > 0 ? (size_t)bytes / sizeof(uint32_t) : 0;
    uint32_t *out = bw_calloc(*n + 1, sizeof *out);
    if (out && fread(out, sizeof *out, *n, f) != *n) {
        bw_free(out);
        out = NULL;
    }
    (void)fclose(f);
    return out;
}

/* The classes 0 … n-1 become known to the engine, and all of them permitted. */
static bw_status classes_make(bench *b, size_t n)
{
    bw_status st = BW_OK;
    bw_free(b->classes);
    bw_free(b->chosen);
    b->nclasses = b->nchosen = n;
    b->classes = bw_calloc(n, sizeof *b->classes);
    b->chosen = bw_calloc(n, sizeof *b->chosen);
    if (!b->classes || !b->chosen)
        return bw_fail_nomem(b->ctx);
    for (size_t c = 0; c < n; c++)
        b->classes[c] = b->chosen[c] = class_of((uint32_t)c);
    for (size_t c = 0; st == BW_OK && c < n; c++)
        st = bw_class_put(b->ctx, b->engine, &b->classes[c], BW_STR("bench"));
    return st;
}

static int fill(bench *b, const char *path, size_t from, size_t count)
{
    size_t n = b->rows.n;
    uint32_t *labels =
        strcmp(path, "-") == 0 ? bw_calloc(n, sizeof *labels) : u32_read(path, &n);
    if (!labels || n != b->rows.n || from > n)
        return bench_fail(path, "not one class a row");
    count = count && count < n - from ? count : n - from;
    uint32_t last = 0;
    for (size_t i = 0; i < n; i++)
        last = labels[i] > last ? labels[i] : last;
    const uint64_t begin = bw_clock_mono_ns(), cpu = cpu_ns();
    bw_status st = b->nclasses == last + 1u ? BW_OK : classes_make(b, last + 1u);
    if (st == BW_OK)
        st = classes_put(b, labels, from, count);
    bw_free(labels);
    if (st != BW_OK)
        return bench_fail("fill", bw_ctx_message(b->ctx));
    times_print(bw_clock_mono_ns() - begin, cpu_ns() - cpu);
    printf("}\n");
    return 0;
}

static int permit(bench *b, const char *path)
{
    size_t n = b->nclasses;
    uint32_t *numbers = strcmp(path, "-") == 0 ? NULL : u32_read(path, &n);
    if ((strcmp(path, "-") != 0 && !numbers) || n > b->nclasses)
        return bench_fail("permit", path);
    b->nchosen = n;
    for (size_t i = 0; i < n; i++)
        b->chosen[i] = class_of(numbers ? numbers[i] : (uint32_t)i);
    bw_free(numbers);
    printf("{\"classes\": %zu}\n", n);
    return 0;
}

/* ---- queries ---- */

/* Makes the query in ctx's arena; parts: room for the two of a hybrid one. */
static void query_make(const job *j, size_t q, bw_query *query, bw_query parts[2])
{
    const bench *b = j->b;
    const bool recall = strchr(j->effort, '.') != NULL;
    rnd r = {UINT64_C(1) << 40 | q};
    bw_query dense = {.kind = BW_QUERY_NEAREST, .limit = (uint32_t)j->k};
    dense.using_name = (bw_str){"", 0};
    dense.exact = strcmp(j->effort, "exact") == 0;
    dense.recall = recall ? strtof(j->effort, NULL) : 0;
    dense.ef_search =
        recall || dense.exact ? 0 : (uint32_t)strtoul(j->effort, NULL, 10);
    dense.target.vector = (bw_vector){.values = b->queries.values + q * b->queries.dim,
                                      .n = (uint32_t)b->queries.dim};
    bw_query text = {.kind = BW_QUERY_TEXT, .limit = (uint32_t)j->k};
    bw_query sparse = {.kind = BW_QUERY_NEAREST, .limit = (uint32_t)j->k};
    if (strcmp(j->what, "dense") != 0) {
        text.text = words_text(j->ctx, &r, WORDS_QUERY);
        sparse.using_name = BW_STR("s");
        sparse.target.vector = words_sparse(j->ctx, &r, SPARSE_QUERY);
    }
    *query = j->what[0] == 't' ? text : j->what[0] == 's' ? sparse : dense;
    if (j->what[0] == 'h') {
        parts[0] = dense;
        parts[1] = text;
        *query = (bw_query){.kind = BW_QUERY_FUSION_RRF,
                            .limit = (uint32_t)j->k,
                            .rrf_k = 2,
                            .prefetch = parts,
                            .nprefetch = 2};
    }
}

static bool query_run(const job *j, size_t q)
{
    const bench *b = j->b;
    const bw_permit may = {b->chosen, b->nchosen};
    const bw_read read = {.tenant = TENANT,
                          .name = NAME,
                          .permit = &may,
                          .now_ns = 1,
                          .no_vectors = true};
    bw_query query, parts[2];
    bw_result *result = NULL;
    size_t n;
    query_make(j, q, &query, parts);
    if (bw_query_run(j->ctx, b->engine, &read, &query, 1, &result) != BW_OK)
        return false;
    const bw_hit *hits = bw_result_hits(result, 0, &n);
    int64_t *out = j->found + (q - j->base) * j->k;
    for (size_t i = 0; i < j->k; i++)
        out[i] = i < n ? (int64_t)hits[i].id.lo : -1;
    bw_result_free(result);
    bw_ctx_reset(j->ctx);
    return true;
}

static void *job_run(void *arg)
{
    job *j = arg;
    const uint64_t begin = cpu_ns();
    for (size_t q = j->from; q < j->to && !j->failed; q++)
        j->failed = !query_run(j, q);
    j->cpu_ns = cpu_ns() - begin;
    return NULL;
}

static int found_print(const job *all, size_t n, uint64_t wall, const int64_t *found,
                       size_t nfound)
{
    uint64_t cpu = 0;
    for (size_t i = 0; i < n; i++) {
        if (all[i].failed)
            return bench_fail("search", bw_ctx_message(all[i].ctx));
        cpu += all[i].cpu_ns;
    }
    times_print(wall, cpu);
    printf(", \"rows\": [");
    for (size_t i = 0; i < nfound; i++)
        printf("%s%" PRId64, i ? "," : "", found[i]);
    printf("]}\n");
    return 0;
}

static int search(bench *b, const char *what, const char *effort, size_t from,
                  size_t count, size_t k)
{
    if (from >= b->queries.n || k < 1 || k > K_MAX)
        return bench_fail("search", "no such queries");
    count = count && count < b->queries.n - from ? count : b->queries.n - from;
    const size_t n = b->nthreads < count ? b->nthreads : count;
    int64_t *found = bw_calloc(count * k, sizeof *found);
    job jobs[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    for (size_t i = 0; i < n; i++)
        jobs[i] = (job){.b = b,
                        .ctx = i ? bw_ctx_new(0) : b->ctx,
                        .what = what,
                        .effort = effort,
                        .from = from + count * i / n,
                        .to = from + count * (i + 1) / n,
                        .base = from,
                        .k = k,
                        .found = found};
    const uint64_t begin = bw_clock_mono_ns();
    for (size_t i = 1; i < n; i++)
        if (pthread_create(&threads[i], NULL, job_run, &jobs[i]) != 0)
            return bench_fail("search", "no thread");
    job_run(&jobs[0]);
    for (size_t i = 1; i < n; i++)
        pthread_join(threads[i], NULL);
    const uint64_t wall = bw_clock_mono_ns() - begin;
    const int rc = found_print(jobs, n, wall, found, count * k);
    for (size_t i = 1; i < n; i++)
        bw_ctx_free(jobs[i].ctx);
    bw_free(found);
    return rc;
}

/* ---- life ---- */

static int stats(bench *b)
{
    bw_str json;
    if (bw_engine_stats(b->ctx, b->engine, &json) != BW_OK)
        return bench_fail("stats", bw_ctx_message(b->ctx));
    printf("%.*s\n", (int)json.len, json.ptr);
    bw_ctx_reset(b->ctx);
    return 0;
}

static int wait_for_graphs(bench *b)
{
    const uint64_t begin = bw_clock_mono_ns();
    for (bool busy = true; busy;) {
        bw_str json;
        if (bw_engine_stats(b->ctx, b->engine, &json) != BW_OK)
            return bench_fail("wait", bw_ctx_message(b->ctx));
        const char *pending = strstr(json.ptr, "\"graphs_pending\":");
        busy = pending && strtoul(pending + 17, NULL, 10) > 0;
        bw_ctx_reset(b->ctx);
        if (busy)
            nanosleep(&(struct timespec){0, 50000000}, NULL);
    }
    times_print(bw_clock_mono_ns() - begin, 0);
    printf("}\n");
    return 0;
}

static int seal(bench *b)
{
    const uint64_t begin = bw_clock_mono_ns();
    const bw_permit may = {b->chosen, b->nchosen};
    if (bw_collection_seal(b->ctx, b->engine, TENANT, NAME, &may) != BW_OK)
        return bench_fail("seal", bw_ctx_message(b->ctx));
    bw_ctx_reset(b->ctx);
    times_print(bw_clock_mono_ns() - begin, 0);
    printf("}\n");
    return 0;
}

static int reopen(bench *b)
{
    bw_engine_close(b->engine);
    b->engine = NULL;
    int64_t found[10];
    const uint64_t begin = bw_clock_mono_ns(), cpu = cpu_ns();
    if (bw_engine_open(b->ctx, b->folder, &b->options, &b->engine) != BW_OK)
        return bench_fail("reopen", bw_ctx_message(b->ctx));
    const uint64_t opened = bw_clock_mono_ns();
    job j = {.b = b, .ctx = b->ctx, .what = "dense", .effort = "0", .to = 1, .k = 10};
    j.found = found;
    job_run(&j);
    if (j.failed)
        return bench_fail("reopen", bw_ctx_message(b->ctx));
    times_print(opened - begin, cpu_ns() - cpu);
    printf(", \"first_ms\": %.3f}\n", (double)(bw_clock_mono_ns() - opened) * 1e-6);
    return 0;
}

static int open_folder(bench *b, char **word, size_t n)
{
    const char *tmp = getenv("TMPDIR");
    if (n != 7 || b->engine)
        return bench_fail("open", "needs DTYPE ON_DISK SEAL ADOPT WORDS INDEX, once");
    snprintf(b->folder, sizeof b->folder, "%s/bw-bench-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(b->folder))
        return bench_fail("open", "its folder cannot be made");
    b->options = (bw_engine_options)BW_ENGINE_OPTIONS_INIT;
    b->options.null_sync = true;
    b->options.seal_rows = (uint32_t)strtoul(word[3], NULL, 10);
    b->options.adopt_rows = (uint32_t)strtoul(word[4], NULL, 10);
    b->words = word[5][0] == '1';
    const uint32_t index = (uint32_t)strtoul(word[6], NULL, 10);
    if (collection_make(b, word[1], word[2][0] == '1', index) != BW_OK)
        return bench_fail("open", bw_ctx_message(b->ctx));
    printf("{\"isa\": \"%s\"}\n", bw_kernels_get()->isa);
    return 0;
}

static size_t number(char **word, size_t n, size_t i, size_t preset)
{
    return i < n ? strtoull(word[i], NULL, 10) : preset;
}

static int command(bench *b, char **word, size_t n)
{
    if (strcmp(word[0], "open") == 0)
        return open_folder(b, word, n);
    if (!b->engine)
        return bench_fail(word[0], "not open");
    if (strcmp(word[0], "fill") == 0 && n >= 2)
        return fill(b, word[1], number(word, n, 2, 0), number(word, n, 3, 0));
    if (strcmp(word[0], "permit") == 0 && n == 2)
        return permit(b, word[1]);
    if (strcmp(word[0], "search") == 0 && n >= 5)
        return search(b, word[1], word[2], number(word, n, 3, 0), number(word, n, 4, 0),
                      number(word, n, 5, 10));
    if (strcmp(word[0], "wait") == 0)
        return wait_for_graphs(b);
    if (strcmp(word[0], "seal") == 0)
        return seal(b);
    if (strcmp(word[0], "reopen") == 0)
        return reopen(b);
    if (strcmp(word[0], "stats") == 0)
        return stats(b);
    if (strcmp(word[0], "threads") == 0) {
        const size_t t = number(word, n, 1, 1);
        b->nthreads = t < 1 ? 1 : t < THREADS_MAX ? t : THREADS_MAX;
        printf("{\"threads\": %zu}\n", b->nthreads);
        return 0;
    }
    return bench_fail("unknown command", word[0]);
}

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

int main(int argc, char **argv)
{
    bench b = {.ctx = bw_ctx_new((size_t)1 << 30), .nthreads = 1};
    char line[LINE_MAX_BYTES];
    int rc = 0;
    if (argc != 3 || !b.ctx)
        return bench_fail("usage", "engine_bench ROWS.npy QUERIES.npy");
    if (npy_read(argv[1], 0, &b.rows) != 0 || npy_read(argv[2], 0, &b.queries) != 0)
        return 1;
    while (rc == 0 && fgets(line, sizeof line, stdin)) {
        char *word[8], *rest = line;
        size_t n = 0;
        while (n < 8 && (word[n] = strsep(&rest, " \n")) != NULL && *word[n])
            n++;
        rc = n ? command(&b, word, n) : 0;
        fflush(stdout);
    }
    bw_engine_close(b.engine);
    if (b.folder[0])
        nftw(b.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    bw_free(b.classes);
    bw_free(b.chosen);
    bw_free_vectors(b.rows.values);
    bw_free_vectors(b.queries.values);
    bw_ctx_free(b.ctx);
    return rc;
}
