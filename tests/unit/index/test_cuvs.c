/* The kind "cuvs-cagra" against doubles of the CUDA driver and of cuVS: every reason for
 * not using it, every filter, every manner in which the real library leaves its outputs,
 * and faults at every step. What comes back must be what a scan gives: the double's
 * proposals are exhaustive but for their noise, so there is nothing to miss. */
#include "cuvs_double/cuvs_double.h"
#include "engine/index/cuvs.h"
#include "engine/index/index.h"
#include "engine/kernels/kernels.h"
#include "engine/kernels/typed.h"
#include "failing_alloc.h"
#include "rnd.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 6001, DIM = 22, K = 10, K_MAX = 1100 };
/* The doubles are used from a folder of our own: the build's may be open to a group. */
static char folder_own[64], driver_own[96], library_own[96];
static const bw_cuvs_places doubles = {.driver = driver_own, .library = library_own};

typedef struct fixture {
    rnd r;
    bw_ctx *ctx;
    float *rows;
    bw_point_id *ids;
    bw_bitmap allowed;
    bw_rows view;
    cuda_double *cuda;
    cuvs_double *cuvs;
} fixture;

static void *get(const char *path, const char *name)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = lib ? dlsym(lib, name) : NULL;
    if (!symbol)
        fail_msg("%s", dlerror());
    return symbol;
}

/* A copy of a library in which one name (NULL: none) is spelled otherwise. */
static void copy_without(const char *from, const char *to, const char *name)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out && fseek(in, 0, SEEK_END) == 0);
    const size_t n = (size_t)ftell(in), len = name ? strlen(name) : 0;
    char *bytes = malloc(n);
    assert_non_null(bytes);
    rewind(in);
    assert_int_equal(fread(bytes, 1, n, in), n);
    size_t hits = 0;
    for (size_t i = 1; name && i + len < n; i++)
        if (bytes[i - 1] == 0 && memcmp(bytes + i, name, len + 1) == 0) {
            bytes[i] = 'X';
            hits++;
        }
    assert_true(hits > 0 || !name);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(to, 0700), 0);
    free(bytes);
}

static int group_setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = rnd_start("test_cuvs", 7);
    f->ctx = bw_ctx_new(0);
    f->rows = bw_alloc_vectors(N * DIM * sizeof(float));
    f->ids = bw_calloc(N, sizeof *f->ids);
    assert_true(f->ctx && f->rows && f->ids && bw_bitmap_heap(N, &f->allowed));
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < DIM; j++)
            f->rows[i * DIM + j] = (float)rnd_gauss(&f->r);
        bw_normalize_f32(f->rows + i * DIM, DIM);
        f->ids[i].lo = (uint64_t)(N - i);
    }
    for (size_t i = 500; i < 540; i++) /* equal rows: ids decide */
        memcpy(f->rows + i * DIM, f->rows, DIM * sizeof(float));
    f->view = (bw_rows){.dim = DIM, .n = N, .data = f->rows};
    (void)snprintf(folder_own, sizeof folder_own, "/tmp/bw_cuvs.XXXXXX");
    assert_non_null(mkdtemp(folder_own));
    (void)snprintf(driver_own, sizeof driver_own, "%s/libcuda.so.1", folder_own);
    (void)snprintf(library_own, sizeof library_own, "%s/libcuvs_c.so", folder_own);
    copy_without(BW_BINARY "/cuvs_double/libcuda.so.1", driver_own, NULL);
    copy_without(BW_BINARY "/cuvs_double/libcuvs_c.so", library_own, NULL);
    cuda_double *(*cuda)(void);
    cuvs_double *(*cuvs)(void);
    void *a = get(doubles.driver, "cuda_double_get"), *b = get(doubles.library, "cuvs_double_get");
    memcpy(&cuda, &a, sizeof a);
    memcpy(&cuvs, &b, sizeof b);
    f->cuda = cuda();
    f->cuvs = cuvs();
    bw_log_set_level(BW_LOG_ERROR);
    *state = f;
    return 0;
}

static int group_teardown(void **state)
{
    fixture *f = *state;
    bw_free_vectors(f->rows);
    bw_free(f->ids);
    bw_bitmap_free(&f->allowed);
    bw_ctx_free(f->ctx);
    bw_free(f);
    (void)unlink(driver_own);
    (void)unlink(library_own);
    (void)rmdir(folder_own);
    return failing_live == 0 ? 0 : -1;
}

static void knobs_reset(fixture *f)
{
    f->cuda->init = f->cuda->sticky = 0;
    f->cuda->devices = 1;
    f->cuda->version = 13000;
    f->cuda->room = (size_t)8 << 30;
    f->cuda->fail_alloc = -1;
    f->cuda->fail_lasts = false;
    *f->cuvs = (cuvs_double){.version = {26, 10, 0}, .fail_alloc = -1, .fault = -1,
                             .live = f->cuvs->live, .misuse = f->cuvs->misuse};
}

static int setup(void **state)
{
    knobs_reset(*state);
    bw_cuvs_switch(true);
    bw_cuvs_places_use(&doubles);
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    f->cuda->sticky = 0; /* so that what is freed is counted */
    bw_cuvs_places_use(NULL);
    assert_int_equal(f->cuda->live, 0);
    assert_int_equal(f->cuvs->live, 0);
    assert_int_equal(f->cuda->misuse + f->cuvs->misuse, 0);
    bw_cuvs_stats s;
    bw_cuvs_stats_get(&s);
    assert_int_equal(s.device_bytes, 0);
    return 0;
}

static bw_cuvs_stats stats(void)
{
    bw_cuvs_stats s;
    bw_cuvs_stats_get(&s);
    return s;
}

static bw_status build_view(fixture *f, const bw_rows *rows, bw_index **out)
{
    const bw_index_params p = {.metric = BW_METRIC_COSINE, .dim = rows->dim};
    *out = NULL;
    return bw_index_kind("cuvs-cagra")->build(f->ctx, &p, rows, out);
}

static bw_index *build(fixture *f)
{
    bw_index *ix;
    const bw_status st = build_view(f, &f->view, &ix);
    if (st != BW_OK)
        fail_msg("%s", bw_ctx_message(f->ctx));
    return ix;
}

static void drop(bw_index *ix)
{
    if (ix)
        ix->ops->free(ix);
}

/* Exactly n rows, drawn. */
static void allow(fixture *f, size_t n)
{
    memset(f->allowed.words, 0, bw_bitmap_words(N) * sizeof *f->allowed.words);
    if (n == N)
        bw_bitmap_fill(&f->allowed);
    for (size_t have = n == N ? N : 0; have < n;) {
        const size_t row = rnd_below(&f->r, N);
        have += !bw_bitmap_get(&f->allowed, row);
        bw_bitmap_set(&f->allowed, row);
    }
}

static void query_make(fixture *f, float query[DIM])
{
    for (size_t i = 0; i < DIM; i++)
        query[i] = (float)rnd_gauss(&f->r);
    bw_normalize_f32(query, DIM);
}

static bw_index_search ask_of(const fixture *f, const bw_rows *rows, const float *query, size_t k)
{
    return (bw_index_search){.query = query,
                             .k = k,
                             .allowed = &f->allowed,
                             .ids = f->ids,
                             .part = 2,
                             .row0 = 100,
                             .rows = rows};
}

static size_t search_view(fixture *f, const bw_index *ix, const bw_rows *rows, const float *query,
                          size_t k, bw_candidate *out)
{
    bw_topk t;
    bw_topk_init(&t, out, k);
    const bw_index_search s = ask_of(f, rows, query, k);
    if (ix->ops->search(f->ctx, ix, &s, &t) != BW_OK)
        fail_msg("%s", bw_ctx_message(f->ctx));
    bw_topk_sort(&t);
    return t.n;
}

static size_t scan_view(fixture *f, const bw_rows *rows, const float *query, size_t k,
                        bw_candidate *out)
{
    bw_topk t;
    bw_topk_init(&t, out, k);
    for (uint32_t i = 0; i < rows->n; i++) {
        bw_candidate c = {0, 2, 100 + i, f->ids[i]};
        if (!bw_bitmap_get(&f->allowed, i))
            continue;
        assert_int_equal(bw_rows_keys(f->ctx, rows, BW_METRIC_COSINE, query, &i, 1, &c.key), BW_OK);
        bw_topk_push(&t, &c);
    }
    bw_topk_sort(&t);
    return t.n;
}

static void check_same(const bw_candidate *a, const bw_candidate *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(bw_candidate_cmp(&a[i], &b[i]), 0);
        assert_memory_equal(&a[i].key, &b[i].key, sizeof a[i].key);
    }
}

/* A row that the query may see, whose key is that. */
static void check_tied(fixture *f, const bw_rows *rows, const float *query, const bw_candidate *c)
{
    const uint32_t i = c->row - 100;
    float key;
    assert_true(i < rows->n && bw_bitmap_get(&f->allowed, i));
    assert_int_equal(bw_rows_keys(f->ctx, rows, BW_METRIC_COSINE, query, &i, 1, &key), BW_OK);
    assert_memory_equal(&key, &c->key, sizeof key);
    assert_int_equal(bw_point_id_cmp(&c->id, &f->ids[i]), 0);
}

/* As the scan has it: number, rows, order, bits. Of rows as far as the last one, which may
 * be more than the device was asked for, those that it names come, in the order of ids. */
static void check_view(fixture *f, const bw_index *ix, const bw_rows *rows, size_t k)
{
    static bw_candidate got[K_MAX], want[K_MAX];
    float query[DIM];
    query_make(f, query);
    const size_t n = search_view(f, ix, rows, query, k, got);
    assert_int_equal(n, scan_view(f, rows, query, k, want));
    size_t sure = n;
    while (sure > 0 && want[sure - 1].key == want[n - 1].key)
        sure--;
    check_same(got, want, sure);
    for (size_t i = sure; i < n; i++) {
        check_tied(f, rows, query, &got[i]);
        assert_memory_equal(&got[i].key, &want[i].key, sizeof got[i].key);
        assert_true(i == sure || bw_candidate_cmp(&got[i - 1], &got[i]) < 0);
    }
}

static void check(fixture *f, const bw_index *ix, size_t k)
{
    check_view(f, ix, &f->view, k);
}

/* ---- why it is not used ---- */

static void expect(fixture *f, const bw_cuvs_places *places, bw_cuvs_reason reason,
                   const char *words)
{
    char text[BW_CUVS_TEXT_MAX];
    bw_index *ix;
    bw_cuvs_places_use(places);
    assert_int_equal(bw_cuvs_probe(text), reason);
    if (!strstr(text, words) || strchr(text, '\n'))
        fail_msg("\"%s\" lacks \"%s\"", text, words);
    const uint64_t before = stats().refused;
    assert_int_equal(build_view(f, &f->view, &ix), BW_EUNAVAILABLE);
    assert_null(ix);
    assert_non_null(strstr(bw_ctx_message(f->ctx), bw_cuvs_reason_text(reason)));
    assert_int_equal(stats().refused, before + 1);
}

static void test_cuvs__says_why_it_is_not_used(void **state)
{
    fixture *f = *state;
    bw_cuvs_places p = doubles;
    p.driver = "/nowhere/libcuda.so.1";
    expect(f, &p, BW_CUVS_NO_DRIVER, "it is not there");
    f->cuda->init = 999;
    expect(f, &doubles, BW_CUVS_DRIVER_FAILED, "cuInit gave 999");
    f->cuda->init = 100;
    expect(f, &doubles, BW_CUVS_NO_DEVICE, "no GPU");
    f->cuda->init = 0;
    f->cuda->devices = 0;
    expect(f, &doubles, BW_CUVS_NO_DEVICE, "no GPU");
    f->cuda->devices = 1;
    f->cuda->version = 12090;
    expect(f, &doubles, BW_CUVS_OLD_DRIVER, "12090");
    f->cuda->version = 13000;
    p = doubles;
    p.library = "/nowhere/libcuvs_c.so";
    expect(f, &p, BW_CUVS_NO_LIBRARY, "/nowhere/libcuvs_c.so: it is not there");
    p.library = NULL;
    p.folder = folder_own; /* the siblings are looked for first */
    expect(f, &p, BW_CUVS_NO_LIBRARY, "librapids_logger.so: it is not there");
    f->cuvs->no_driver = true;
    expect(f, &doubles, BW_CUVS_RUNTIME_FAILED, ": cudaErrorInsufficientDriver:");
    f->cuvs->no_driver = false;
    bw_cuvs_switch(false);
    expect(f, &doubles, BW_CUVS_OFF, "switched off");
    bw_cuvs_switch(true);
    for (uint32_t r = 0; r < BW_CUVS_NREASONS; r++)
        assert_true(strlen(bw_cuvs_reason_text(r)) > 3);
    assert_string_equal(bw_cuvs_reason_text(BW_CUVS_NREASONS), "unknown reason");
}

static void test_cuvs__keeps_to_the_versions_it_knows(void **state)
{
    fixture *f = *state;
    static const struct {
        uint16_t version[3];
        bool ok;
    } cases[] = {{{25, 12, 0}, false}, {{26, 6, 0}, false}, {{26, 8, 1}, true},
                 {{26, 10, 0}, true},  {{26, 12, 0}, true}, {{27, 2, 0}, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[BW_CUVS_TEXT_MAX], version[24];
        memcpy(f->cuvs->version, cases[i].version, sizeof f->cuvs->version);
        snprintf(version, sizeof version, "%u.%02u.%02u", cases[i].version[0],
                 cases[i].version[1], cases[i].version[2]);
        bw_cuvs_places_use(&doubles);
        assert_int_equal(bw_cuvs_probe(text), cases[i].ok ? BW_CUVS_READY : BW_CUVS_OTHER_ABI);
        assert_non_null(strstr(text, version));
    }
}

/* Each copy has a path and an inode of its own: the loader knows a library by both. */
static void test_cuvs__names_each_missing_symbol(void **state)
{
    fixture *f = *state;
    char folder[] = "/tmp/bw_cuvs.XXXXXX", path[64];
    unsigned n = 0;
    assert_non_null(mkdtemp(folder));
#define CUDA_CASE(name, result, params)                                                    \
    {                                                                                      \
        const bw_cuvs_places p = {.driver = path, .library = doubles.library};             \
        (void)snprintf(path, sizeof path, "%s/%u.so", folder, n++);                        \
        copy_without(doubles.driver, path, #name);                                         \
        expect(f, &p, BW_CUVS_DRIVER_FAILED, "it lacks " #name);                           \
    }
#define CUVS_CASE(name, result, params)                                                    \
    {                                                                                      \
        const bw_cuvs_places p = {.driver = doubles.driver, .library = path};              \
        (void)snprintf(path, sizeof path, "%s/%u.so", folder, n++);                        \
        copy_without(doubles.library, path, #name);                                        \
        expect(f, &p, BW_CUVS_MISSING_SYMBOL, #name);                                      \
    }
    BW_CUDA_SYMBOLS(CUDA_CASE)
    BW_CUVS_SYMBOLS(CUVS_CASE)
#undef CUDA_CASE
#undef CUVS_CASE
    while (n-- > 0) {
        (void)snprintf(path, sizeof path, "%s/%u.so", folder, n);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void test_cuvs__opens_nothing_that_others_may_write(void **state)
{
    fixture *f = *state;
    char folder[] = "/tmp/bw_cuvs.XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/lib.so", folder);
    copy_without(doubles.library, path, "cuvsCagraSearch");
    const bw_cuvs_places p = {.driver = doubles.driver, .library = path};
    assert_int_equal(chmod(path, 0722), 0);
    expect(f, &p, BW_CUVS_NO_LIBRARY, "others may write to it");
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(chmod(folder, 0770), 0);
    expect(f, &p, BW_CUVS_NO_LIBRARY, "others may write to its folder");
    assert_int_equal(chmod(folder, 0700), 0);
    expect(f, &p, BW_CUVS_MISSING_SYMBOL, "cuvsCagraSearch");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- answers ---- */

static void test_cuvs__answers_as_a_scan_under_every_filter(void **state)
{
    fixture *f = *state;
    static const size_t counts[] = {0,     1,     K - 1,     K,         N / 100,  N / 10,
                                    N / 5, N / 2, N * 9 / 10, N - 1, N};
    static const size_t ks[] = {1, K, 300, 600, K_MAX};
    bw_index *ix = build(f);
    for (int fewer = SHORT_BY_RATE; fewer <= SHORT_HOSTILE; fewer++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            for (size_t j = 0; j < sizeof ks / sizeof *ks; j++) {
                f->cuvs->fewer = (double_short)fewer;
                allow(f, counts[i]);
                check(f, ix, ks[j]);
                check(f, ix, ks[j]); /* the filter is there already */
            }
    const bw_cuvs_stats s = stats();
    assert_true(s.searches > 0 && s.scans_filter > 0);
    assert_true(f->cuvs->filters > 0 && f->cuvs->filters < f->cuvs->searches);
    drop(ix);
}

static void test_cuvs__pins_what_a_batch_could_change(void **state)
{
    fixture *f = *state;
    static const uint32_t efforts[][2] = {{0, 128}, {1, 32}, {33, 64}, {500, 512}, {9999, 1024}};
    bw_index *ix = build(f);
    allow(f, N);
    for (size_t i = 0; i < sizeof efforts / sizeof *efforts; i++) {
        bw_candidate got[K];
        float query[DIM];
        bw_topk t;
        query_make(f, query);
        bw_topk_init(&t, got, K);
        bw_index_search s = ask_of(f, &f->view, query, K);
        s.effort = efforts[i][0];
        assert_int_equal(ix->ops->search(f->ctx, ix, &s, &t), BW_OK);
        const struct cuvsCagraSearchParams *p = &f->cuvs->last;
        assert_int_equal(p->itopk_size, efforts[i][1]);
        assert_int_equal(p->algo, SINGLE_CTA);
        assert_int_equal(p->num_random_samplings, 8);
        assert_int_equal(p->thread_block_size, 256);
        assert_int_equal(p->max_queries, 64);
        assert_false(p->persistent);
        assert_int_equal(f->cuvs->last_k, K + 16);
    }
    drop(ix);
}

/* Places that hold nothing, others' rows, or a row twice: wider, then a scan. */
static void test_cuvs__widens_then_scans_when_rows_are_missing(void **state)
{
    fixture *f = *state;
    static const size_t counts[] = {N / 5 + 1, N * 2 / 3, N};
    bw_index *ix = build(f);
    for (int fewer = SHORT_BY_RATE; fewer <= SHORT_HOSTILE; fewer++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            f->cuvs->fewer = (double_short)fewer;
            allow(f, counts[i]);
            f->cuvs->poor_below = 512;
            bw_cuvs_stats a = stats();
            check(f, ix, K);
            bw_cuvs_stats b = stats();
            assert_int_equal(b.widened, a.widened + 1);
            assert_int_equal(b.scans_short, a.scans_short);
            f->cuvs->poor_below = 4096; /* no width helps */
            check(f, ix, K);
            assert_int_equal(stats().scans_short, a.scans_short + 1);
            if (fewer == SHORT_HOSTILE)
                assert_true(stats().dropped > a.dropped);
        }
    drop(ix);
}

/* One caller's answer must not lie in the other's: same buffers, disjoint rights. */
static void test_cuvs__never_shows_a_hidden_row(void **state)
{
    fixture *f = *state;
    bw_index *ix = build(f);
    f->cuvs->poor_below = 2048;
    for (int fewer = SHORT_BY_RATE; fewer <= SHORT_HOSTILE; fewer++)
        for (size_t round = 0; round < 10; round++) {
            f->cuvs->fewer = (double_short)fewer;
            allow(f, N / 2);
            for (int side = 0; side < 2; side++) {
                check(f, ix, K); /* bw_require would stop the process besides */
                for (size_t w = 0; w < bw_bitmap_words(N); w++)
                    f->allowed.words[w] = ~f->allowed.words[w];
                f->allowed.words[N / 64] &= ((uint64_t)1 << N % 64) - 1;
            }
        }
    drop(ix);
}

typedef struct job {
    fixture *f;
    const bw_index *ix;
    bw_bitmap allowed;
    float query[DIM];
    bw_candidate want[K], got[K];
    size_t nwant;
} job;

static void *job_run(void *arg)
{
    job *j = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    for (int i = 0; i < 25; i++) {
        bw_topk t;
        bw_topk_init(&t, j->got, K);
        bw_index_search s = ask_of(j->f, &j->f->view, j->query, K);
        s.allowed = &j->allowed;
        bool ok = j->ix->ops->search(ctx, j->ix, &s, &t) == BW_OK;
        bw_topk_sort(&t);
        ok = ok && t.n == j->nwant;
        for (size_t h = 0; ok && h < t.n; h++)
            ok = bw_candidate_cmp(&j->got[h], &j->want[h]) == 0 &&
                 memcmp(&j->got[h].key, &j->want[h].key, sizeof(float)) == 0;
        bw_ctx_reset(ctx);
        if (!ok) {
            bw_ctx_free(ctx);
            return arg;
        }
    }
    bw_ctx_free(ctx);
    return NULL;
}

/* Together or alone, beside whomever: the same bits; other filters never share a call. */
static void test_cuvs__batches_change_no_answer(void **state)
{
    fixture *f = *state;
    enum { JOBS = 8 };
    static job jobs[JOBS];
    pthread_t threads[JOBS];
    bw_index *ix = build(f);
    f->cuvs->slow_ms = 2;
    for (size_t i = 0; i < JOBS; i++) {
        job *j = &jobs[i];
        if (i != 5) /* 4 and 5 have equal rights; 0 to 3 may see all */
            allow(f, i < 4 ? N : N / 2);
        *j = (job){.f = f, .ix = ix};
        assert_true(bw_bitmap_heap(N, &j->allowed));
        bw_bitmap_copy(&j->allowed, &f->allowed);
        query_make(f, j->query);
        j->nwant = scan_view(f, &f->view, j->query, K, j->want);
        bw_ctx_reset(f->ctx);
    }
    for (size_t i = 0; i < JOBS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, job_run, &jobs[i]), 0);
    for (size_t i = 0; i < JOBS; i++) {
        void *fault = NULL;
        assert_int_equal(pthread_join(threads[i], &fault), 0);
        assert_null(fault);
        bw_bitmap_free(&jobs[i].allowed);
    }
    assert_true(f->cuvs->batch_max > 1 && f->cuvs->batch_max <= 4);
    drop(ix);
}

/* Scores are exact over what is stored, whatever that is. */
static bw_status fetch(bw_ctx *ctx, void *arg, const uint32_t *which, size_t n, float *out)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++)
        memcpy(out + i * DIM, (const float *)arg + which[i] * DIM, DIM * sizeof *out);
    return BW_OK;
}

static void test_cuvs__takes_rows_of_every_precision_and_place(void **state)
{
    fixture *f = *state;
    void *data = bw_alloc_vectors(N * DIM * sizeof(float));
    float *scales = bw_calloc(N, sizeof *scales);
    for (int t = 0; t <= BW_NDTYPES; t++) {
        bw_rows rows = {.dtype = (bw_dtype)t, .dim = DIM, .n = N, .data = data};
        if (t == BW_NDTYPES) {
            rows = (bw_rows){.dim = DIM, .n = N, .fetch = fetch, .arg = f->rows};
        } else {
            assert_true(bw_encode_rows(rows.dtype, f->rows, N, DIM, data, scales));
            rows.scales = rows.dtype == BW_DTYPE_I8 ? scales : NULL;
        }
        bw_index *ix;
        assert_int_equal(build_view(f, &rows, &ix), BW_OK);
        const uint64_t before = stats().searches;
        for (size_t n = N; n > N / 4; n /= 2) {
            allow(f, n);
            check_view(f, ix, &rows, K);
        }
        assert_true(stats().searches > before);
        drop(ix);
        bw_ctx_reset(f->ctx);
    }
    bw_free_vectors(data);
    bw_free(scales);
}

static void test_cuvs__small_and_odd_segments_work(void **state)
{
    fixture *f = *state;
    float none[DIM] = {0};
    bw_index *ix;
    bw_rows few = f->view;
    for (few.n = 0; few.n < 4; few.n++) {
        assert_int_equal(build_view(f, &few, &ix), BW_OK);
        f->allowed.nbits = few.n;
        f->allowed.words[0] = ((uint64_t)1 << few.n) - 1;
        check_view(f, ix, &few, K);
        drop(ix);
    }
    f->allowed.nbits = N;
    ix = build(f);
    allow(f, N);
    bw_candidate got[K];
    assert_int_equal(search_view(f, ix, &f->view, none, K, got), K);
    for (size_t i = 0; i < K; i++) /* no direction: ids alone decide */
        assert_int_equal(got[i].id.lo, i + 1);
    drop(ix);
    float *flat = bw_alloc_vectors(N * DIM * sizeof(float));
    memcpy(flat, f->rows, N * DIM * sizeof(float));
    const bw_rows odd = {.dim = DIM, .n = N, .data = flat};
    memset(flat, 0, N / 200 * DIM * sizeof(float));
    assert_int_equal(build_view(f, &odd, &ix), BW_OK);
    drop(ix);
    memset(flat, 0, N / 50 * DIM * sizeof(float));
    assert_int_equal(build_view(f, &odd, &ix), BW_EUNAVAILABLE);
    assert_non_null(strstr(bw_ctx_message(f->ctx), "without direction"));
    bw_free_vectors(flat);
}

static void test_cuvs__refuses_what_it_is_not_for(void **state)
{
    fixture *f = *state;
    const bw_index_ops *ops = bw_index_kind("cuvs-cagra");
    bw_index *ix = NULL;
    assert_false(ops->exact);
    assert_true(ops->filtered && !ops->save && !ops->load && !ops->derive);
    for (int m = 0; m < 4; m++) {
        const bw_index_params p = {.metric = (bw_metric)m, .dim = DIM};
        assert_true(ops->metrics[m] == (m == BW_METRIC_COSINE));
        if (m != BW_METRIC_COSINE)
            assert_int_equal(ops->build(f->ctx, &p, &f->view, &ix), BW_EINVALID);
    }
    const bw_index_params p = {.metric = BW_METRIC_COSINE, .dim = DIM, .M = 5000};
    assert_int_equal(ops->build(f->ctx, &p, &f->view, &ix), BW_EINVALID);
    assert_null(ix);
    ops->free(NULL);
}

/* ---- faults ---- */

static void test_cuvs__build_without_memory_is_unavailable(void **state)
{
    fixture *f = *state;
    bw_index *ix;
    f->cuda->room = (256u << 20) + N * 24 * 4 * 2; /* twice the vectors is too little */
    assert_int_equal(build_view(f, &f->view, &ix), BW_EUNAVAILABLE);
    assert_non_null(strstr(bw_ctx_message(f->ctx), "GPU memory"));
    f->cuda->room = (256u << 20) + N * 24 * 4 * 3;
    drop(build(f));
    for (long n = 0; n < 2; n++) { /* the driver's: vectors, filter */
        f->cuda->fail_alloc = n;
        assert_int_equal(build_view(f, &f->view, &ix), BW_EUNAVAILABLE);
        assert_int_equal(f->cuda->fail_alloc, -1);
    }
    f->cuvs->fail_alloc = 0;
    assert_int_equal(build_view(f, &f->view, &ix), BW_EUNAVAILABLE);
    assert_non_null(strstr(bw_ctx_message(f->ctx), "GPU memory"));
    f->cuvs->refuse_build = true;
    assert_int_equal(build_view(f, &f->view, &ix), BW_EUNAVAILABLE);
    assert_non_null(strstr(bw_ctx_message(f->ctx), "failed to build"));
    f->cuvs->refuse_build = false;
    drop(build(f)); /* nothing is broken for good */
}

static void test_cuvs__search_without_memory_is_a_scan(void **state)
{
    fixture *f = *state;
    bw_index *ix = build(f);
    allow(f, N / 2);
    for (long n = 0; n < 3; n++) { /* the searching thread's own first: slab, its double */
        f->cuda->fail_alloc = n;
        check(f, ix, K);
    }
    f->cuda->fail_alloc = -1;
    bw_cuvs_stats a = stats();
    f->cuvs->fail_alloc = 0; /* once: tried again */
    check(f, ix, K);
    assert_int_equal(stats().scans_failed, a.scans_failed);
    assert_int_equal(stats().searches, a.searches + 1);
    f->cuvs->fail_alloc = 0;
    f->cuvs->fail_lasts = true;
    check(f, ix, K);
    assert_int_equal(stats().scans_failed, a.scans_failed + 1);
    f->cuvs->fail_alloc = -1;
    check(f, ix, K);
    assert_int_equal(stats().scans_failed, a.scans_failed + 1);
    drop(ix);
}

static void test_cuvs__lost_device_is_left_alone(void **state)
{
    fixture *f = *state;
    bw_index *ix = build(f), *none;
    char text[BW_CUVS_TEXT_MAX];
    allow(f, N / 2);
    f->cuvs->fault = 1; /* the second search's kernel, seen at its sync */
    check(f, ix, K);
    const bw_cuvs_stats a = stats();
    check(f, ix, K);
    assert_int_equal(f->cuda->sticky, FAULT_ILLEGAL_ADDRESS);
    const long asked = f->cuvs->searches;
    for (int i = 0; i < 3; i++)
        check(f, ix, K);
    assert_int_equal(f->cuvs->searches, asked);
    assert_int_equal(stats().scans_failed, a.scans_failed + 4);
    assert_int_equal(build_view(f, &f->view, &none), BW_EUNAVAILABLE);
    assert_int_equal(bw_cuvs_probe(text), BW_CUVS_RUNTIME_FAILED);
    f->cuda->sticky = 0;
    drop(ix);
}

static void test_cuvs__deadline_passes_while_the_device_works(void **state)
{
    fixture *f = *state;
    bw_index *ix = build(f);
    bw_candidate got[K];
    float query[DIM];
    bw_topk t;
    allow(f, N / 2);
    query_make(f, query);
    f->cuvs->slow_ms = 400;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_ctx_set_deadline(ctx, bw_clock_mono_ns() + 50 * 1000 * 1000u);
    const bw_index_search s = ask_of(f, &f->view, query, K);
    bw_topk_init(&t, got, K);
    assert_int_equal(ix->ops->search(ctx, ix, &s, &t), BW_ETIMEOUT);
    assert_int_equal(t.n, 0); /* never a part of an answer */
    bw_ctx_free(ctx);
    drop(ix); /* the device is still at it */
}

static void test_cuvs__stops_when_asked(void **state)
{
    fixture *f = *state;
    atomic_bool stop;
    atomic_init(&stop, true);
    const bw_index_params p = {.metric = BW_METRIC_COSINE, .dim = DIM, .stop = &stop};
    bw_index *ix = NULL;
    assert_int_equal(bw_index_kind("cuvs-cagra")->build(f->ctx, &p, &f->view, &ix),
                     BW_EUNAVAILABLE);
    assert_null(ix);
}

static void alloc_step(void *arg)
{
    fixture *f = arg;
    bw_candidate got[K];
    float query[DIM];
    bw_topk t;
    bw_index *ix;
    memcpy(query, f->rows, sizeof query);
    bw_ctx_reset(f->ctx);
    bw_status st = build_view(f, &f->view, &ix);
    assert_true(st == BW_OK || st == BW_ENOMEM);
    if (st == BW_OK) {
        const bw_index_search s = ask_of(f, &f->view, query, K);
        bw_topk_init(&t, got, K);
        st = ix->ops->search(f->ctx, ix, &s, &t);
        assert_true(st == BW_OK ? t.n == K : st == BW_ENOMEM);
    }
    drop(ix);
}

static void test_cuvs__survives_every_failing_allocation(void **state)
{
    fixture *f = *state;
    allow(f, N / 2);
    alloc_step(f); /* opens all first */
    assert_true(failing_sweep(alloc_step, f, 400) > 5);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
/* For check_cuvs.sh: the real library with the driver's double, so without any GPU. */
static int real_library(const char *library)
{
    char text[BW_CUVS_TEXT_MAX];
    const bw_cuvs_places p = {.driver = BW_BINARY "/cuvs_double/libcuda.so.1", .library = library};
    bw_cuvs_places_use(&p);
    const bw_cuvs_reason r = bw_cuvs_probe(text);
    printf("cuVS: reason %d, %s\n", (int)r, text);
    return r == BW_CUVS_NO_LIBRARY || r == BW_CUVS_RUNTIME_FAILED ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "real-library") == 0)
        return real_library(argv[2]);
    const struct CMUnitTest tests[] = {
        CASE(test_cuvs__says_why_it_is_not_used),
        CASE(test_cuvs__keeps_to_the_versions_it_knows),
        CASE(test_cuvs__names_each_missing_symbol),
        CASE(test_cuvs__opens_nothing_that_others_may_write),
        CASE(test_cuvs__answers_as_a_scan_under_every_filter),
        CASE(test_cuvs__pins_what_a_batch_could_change),
        CASE(test_cuvs__widens_then_scans_when_rows_are_missing),
        CASE(test_cuvs__never_shows_a_hidden_row),
        CASE(test_cuvs__batches_change_no_answer),
        CASE(test_cuvs__takes_rows_of_every_precision_and_place),
        CASE(test_cuvs__small_and_odd_segments_work),
        CASE(test_cuvs__refuses_what_it_is_not_for),
        CASE(test_cuvs__build_without_memory_is_unavailable),
        CASE(test_cuvs__search_without_memory_is_a_scan),
        CASE(test_cuvs__lost_device_is_left_alone),
        CASE(test_cuvs__deadline_passes_while_the_device_works),
        CASE(test_cuvs__stops_when_asked),
        CASE(test_cuvs__survives_every_failing_allocation),
    };
    failing_set();
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
