/* Every index kind against the contract of index.h: what comes back, how much, in which
 * order; saving and loading; damaged bytes and other failures of FAISS end as a status.
 */
#include "engine/index/bw_faiss.h"
#include "engine/index/index.h"
#include "engine/kernels/kernels.h"
#include "rnd.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 6000, DIM = 24, K = 10, K_MAX = 300 };

typedef struct fixture {
    rnd r;
    bw_ctx *ctx;
    float *rows;
    bw_point_id *ids;
    bw_bitmap allowed;
} fixture;

static const char *const kinds[] = {"flat", "faiss-hnsw", "faiss-ivf"};
enum { NKINDS = sizeof kinds / sizeof *kinds };

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = rnd_start("test_index", 5);
    f->ctx = bw_ctx_new(0);
    f->rows = bw_alloc_vectors(N * DIM * sizeof(float));
    f->ids = bw_calloc(N, sizeof *f->ids);
    assert_non_null(f->ctx);
    assert_non_null(f->rows);
    assert_non_null(f->ids);
    assert_true(bw_bitmap_heap(N, &f->allowed));
    for (size_t i = 0; i < N; i++) {
        const float length = (float)(1 + rnd_unit(&f->r)); /* two shells */
        for (size_t j = 0; j < DIM; j++)
            f->rows[i * DIM + j] = (float)rnd_gauss(&f->r);
        bw_normalize_f32(f->rows + i * DIM, DIM);
        for (size_t j = 0; j < DIM; j++)
            f->rows[i * DIM + j] *= length;
        f->ids[i].lo = (uint64_t)(N - i);
    }
    assert_int_equal(bw_index_start(f->ctx), BW_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_free_vectors(f->rows);
    bw_free(f->ids);
    bw_bitmap_free(&f->allowed);
    bw_ctx_free(f->ctx);
    bw_free(f);
    return 0;
}

static bw_index_params params(bw_metric metric)
{
    return (bw_index_params){
        .metric = metric, .dim = DIM, .ef_construction = 40, .seed = 9};
}

static bw_rows view(const float *rows, size_t n)
{
    return (bw_rows){.dim = DIM, .n = n, .data = rows};
}

static bw_index *build(fixture *f, const char *kind, bw_metric metric, size_t n)
{
    const bw_index_params p = params(metric);
    const bw_rows rows = view(f->rows, n);
    bw_index *ix = NULL;
    assert_int_equal(bw_index_kind(kind)->build(f->ctx, &p, &rows, &ix), BW_OK);
    assert_ptr_equal(ix->ops, bw_index_kind(kind));
    return ix;
}

static void allow(fixture *f, size_t n, double fraction)
{
    f->allowed.nbits = n;
    memset(f->allowed.words, 0, bw_bitmap_words(N) * sizeof *f->allowed.words);
    for (size_t i = 0; i < n; i++)
        if (rnd_unit(&f->r) < fraction)
            bw_bitmap_set(&f->allowed, i);
}

static size_t search(fixture *f, const bw_index *ix, const float *query, size_t k,
                     bw_candidate *out)
{
    bw_topk t;
    bw_topk_init(&t, out, k);
    const bw_rows rows = view(f->rows, f->allowed.nbits);
    const bw_index_search s = {.query = query,
                               .k = k,
                               .allowed = &f->allowed,
                               .ids = f->ids,
                               .part = 2,
                               .row0 = 100,
                               .rows = &rows};
    assert_int_equal(ix->ops->search(f->ctx, ix, &s, &t), BW_OK);
    bw_topk_sort(&t);
    bw_ctx_reset(f->ctx);
    return t.n;
}

static void query_make(fixture *f, float query[DIM])
{
    for (size_t i = 0; i < DIM; i++)
        query[i] = (float)rnd_gauss(&f->r);
    bw_normalize_f32(query, DIM);
}

static void check_hits(fixture *f, bw_metric metric, const float *query,
                       const bw_candidate *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t row = c[i].row - 100;
        assert_true(bw_bitmap_get(&f->allowed, row));
        assert_int_equal(c[i].part, 2);
        assert_int_equal(bw_point_id_cmp(&c[i].id, &f->ids[row]), 0);
        const float key =
            bw_metric_key(bw_kernels_get(), metric, query, f->rows + row * DIM, DIM);
        assert_memory_equal(&key, &c[i].key, sizeof key);
        if (i) /* strictly: nothing comes back twice */
            assert_true(bw_candidate_cmp(&c[i - 1], &c[i]) < 0);
    }
}

/* Field by field: the struct has padding. */
static void check_same(const bw_candidate *a, const bw_candidate *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(bw_candidate_cmp(&a[i], &b[i]), 0);
        assert_memory_equal(&a[i].key, &b[i].key, sizeof a[i].key);
    }
}

static void test_index__gives_as_many_as_are_allowed(void **state)
{
    fixture *f = *state;
    static const double fractions[] = {1, 0.8, 0.2, 0.01, 0.001, 0};
    static const size_t ks[] = {1, K, K_MAX};
    for (size_t kd = 0; kd < NKINDS; kd++)
        for (int m = 0; m < 3; m++) {
            bw_index *ix = build(f, kinds[kd], (bw_metric)m, N);
            for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++)
                for (size_t j = 0; j < 3; j++) {
                    float query[DIM];
                    bw_candidate got[K_MAX];
                    query_make(f, query);
                    allow(f, N, fractions[i]);
                    const size_t allowed = bw_bitmap_count(&f->allowed);
                    const size_t n = search(f, ix, query, ks[j], got);
                    assert_int_equal(n, allowed < ks[j] ? allowed : ks[j]);
                    check_hits(f, (bw_metric)m, query, got, n);
                }
            ix->ops->free(ix);
        }
}

/* Recall on real vectors is tests/recall; this is the sanity of each metric's
 * direction. */
static void test_index__finds_nearly_what_flat_finds(void **state)
{
    fixture *f = *state;
    for (size_t kd = 1; kd < NKINDS; kd++)
        for (int m = 0; m < 3; m++) {
            bw_index *flat = build(f, "flat", (bw_metric)m, N),
                     *ix = build(f, kinds[kd], (bw_metric)m, N);
            size_t hits = 0;
            for (size_t q = 0; q < 40; q++) {
                float query[DIM];
                bw_candidate want[K], got[K];
                query_make(f, query);
                allow(f, N, q % 2 ? 1 : 0.7);
                assert_int_equal(search(f, flat, query, K, want), K);
                assert_int_equal(search(f, ix, query, K, got), K);
                for (size_t i = 0; i < K; i++)
                    for (size_t j = 0; j < K; j++)
                        hits += want[i].row == got[j].row;
            }
            print_message("%s metric %d: %zu of %d\n", kinds[kd], m, hits, 40 * K);
            assert_true(hits >=
                        40 * K * 85 / 100); /* random directions are the hardest case */
            flat->ops->free(flat);
            ix->ops->free(ix);
        }
}

static void test_index__results_chain_over_segments(void **state)
{
    fixture *f = *state;
    float query[DIM];
    query_make(f, query);
    bw_index *whole = build(f, "flat", BW_METRIC_DOT, N),
             *half = build(f, "flat", BW_METRIC_DOT, N / 2);
    bw_candidate want[K], got[K];
    allow(f, N, 1);
    search(f, whole, query, K, want);
    bw_topk t;
    bw_topk_init(&t, got, K);
    allow(f, N / 2, 1);
    for (uint32_t i = 0; i < 2; i++) {
        const size_t from = i * (N / 2);
        const bw_rows rows = view(f->rows + from * DIM, N / 2);
        const bw_index_search s = {.query = query,
                                   .k = K,
                                   .allowed = &f->allowed,
                                   .ids = f->ids + from,
                                   .part = 2,
                                   .row0 = 100 + (uint32_t)from,
                                   .rows = &rows};
        assert_int_equal(half->ops->search(f->ctx, half, &s, &t), BW_OK);
    }
    bw_topk_sort(&t);
    for (size_t i = 0; i < K; i++)
        assert_int_equal(bw_candidate_cmp(&want[i], &got[i]), 0);
    whole->ops->free(whole);
    half->ops->free(half);
}

static void test_index__same_rows_give_same_bytes_and_answers(void **state)
{
    fixture *f = *state;
    for (size_t kd = 1; kd < NKINDS; kd++)
        for (int m = 0; m < 3; m++) {
            const bw_index_params p = params((bw_metric)m);
            bw_index *a = build(f, kinds[kd], (bw_metric)m, N),
                     *b = build(f, kinds[kd], (bw_metric)m, N), *c = NULL;
            bw_buf x = {0}, y = {0};
            assert_int_equal(a->ops->save(f->ctx, a, &x), BW_OK);
            assert_int_equal(b->ops->save(f->ctx, b, &y), BW_OK);
            assert_int_equal(x.len, y.len);
            assert_memory_equal(x.ptr, y.ptr, x.len);
            assert_int_equal(a->ops->load(f->ctx, &p, x.ptr, x.len, &c), BW_OK);
            assert_true(c->ops->bytes(c) == a->ops->bytes(a));
            for (size_t q = 0; q < 20; q++) {
                float query[DIM];
                bw_candidate u[K], v[K];
                query_make(f, query);
                allow(f, N, q % 3 ? 1 : 0.9);
                assert_int_equal(search(f, a, query, K, u), K);
                assert_int_equal(search(f, c, query, K, v), K);
                check_same(u, v, K);
            }
            a->ops->free(a);
            b->ops->free(b);
            c->ops->free(c);
            bw_buf_clear(&x);
            bw_buf_clear(&y);
        }
}

/* Builds an HNSW with the kernels of one ISA in a child and appends its saved bytes. */
static bool build_elsewhere(fixture *f, const char *isa, bw_metric metric, FILE *to)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* no kernel was chosen yet in this process */
        setenv("BW_ISA", isa, 1);
        bw_index_params p = params(metric);
        const bw_rows rows = view(f->rows, N);
        bw_index *ix = NULL;
        bw_buf x = {0};
        p.ef_construction = 30; /* the scalar kernels are slow in a debug build */
        bool done =
            strcmp(bw_kernels_get()->isa, isa) == 0 &&
            bw_index_kind("faiss-hnsw")->build(f->ctx, &p, &rows, &ix) == BW_OK &&
            ix->ops->save(f->ctx, ix, &x) == BW_OK &&
            fwrite(x.ptr, 1, x.len, to) == x.len && fflush(to) == 0;
        _exit(done ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_index__hnsw_has_the_same_bytes_on_every_isa(void **state)
{
    fixture *f = *state;
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    for (int m = 1; m < 3; m++) {
        FILE *files[3];
        for (size_t s = 0; s < 3; s++) {
            files[s] = bw_kernels_isa(isas[s]) ? tmpfile() : NULL;
            if (!files[s]) {
                print_message("%s: not run (this machine lacks it)\n", isas[s]);
                continue;
            }
            assert_true(build_elsewhere(f, isas[s], (bw_metric)m, files[s]));
            rewind(files[s]);
            rewind(files[0]);
            size_t bytes = 0;
            for (int a = 0, b = 0; a != EOF || b != EOF; bytes++) {
                a = getc(files[0]);
                b = s ? getc(files[s]) : a;
                if (a != b)
                    fail_msg("%s differs from scalar at byte %zu, metric %d", isas[s],
                             bytes, m);
            }
            assert_true(bytes > N * DIM * sizeof(float));
        }
        for (size_t s = 0; s < 3; s++)
            if (files[s])
                fclose(files[s]);
    }
}

/* The MAC is the caller's; yet what has another shape is refused here too. */
static void test_index__cut_or_foreign_bytes_are_refused(void **state)
{
    fixture *f = *state;
    bw_log_set_level(BW_LOG_ERROR);
    for (size_t kd = 1; kd < NKINDS; kd++) {
        bw_index_params p = params(BW_METRIC_DOT);
        bw_index *ix = build(f, kinds[kd], BW_METRIC_DOT, N), *bad = NULL;
        bw_buf x = {0};
        assert_int_equal(ix->ops->save(f->ctx, ix, &x), BW_OK);
        for (size_t cut = 0; cut < x.len; cut += x.len / 50 + 1) {
            assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, cut, &bad), BW_ECORRUPT);
            assert_null(bad);
        }
        bw_buf_putc(&x, 0);
        assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, x.len, &bad), BW_ECORRUPT);
        x.len--;
        p.metric = BW_METRIC_EUCLID;
        assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, x.len, &bad), BW_ECORRUPT);
        p = params(BW_METRIC_DOT);
        p.dim++;
        assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, x.len, &bad), BW_ECORRUPT);
        p = params(BW_METRIC_DOT);
        p.seed++;
        assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, x.len, &bad), BW_ECORRUPT);
        p = params(BW_METRIC_DOT);
        const bw_index_ops *other = bw_index_kind(kinds[kd == 1 ? 2 : 1]);
        assert_int_equal(other->load(f->ctx, &p, x.ptr, x.len, &bad), BW_ECORRUPT);
        for (size_t at = 0; at < 64; at++) { /* each byte of our own header */
            x.ptr[at] ^= 0x40;
            assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, x.len, &bad),
                             BW_ECORRUPT);
            x.ptr[at] ^= 0x40;
        }
        assert_null(bad);
        ix->ops->free(ix);
        bw_buf_clear(&x);
    }
    bw_log_set_level(BW_LOG_INFO);
}

/* A call that FAISS answers with an exception, on purpose: garbage where its stream
 * should be. It ends as a status with our words; the process and the next call live. */
static void test_index__faiss_exception_ends_as_status(void **state)
{
    fixture *f = *state;
    const bw_index_params p = params(BW_METRIC_COSINE);
    bw_index *ix = build(f, "faiss-hnsw", BW_METRIC_COSINE, N), *bad = NULL;
    bw_buf x = {0};
    assert_int_equal(ix->ops->save(f->ctx, ix, &x), BW_OK);
    memcpy(x.ptr + 64 + 32, "NONE", 4); /* FAISS's own type code */
    bw_log_set_level(BW_LOG_ERROR);
    assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, x.len, &bad), BW_ECORRUPT);
    bw_log_set_level(BW_LOG_INFO);
    assert_null(bad);
    assert_non_null(strstr(bw_ctx_message(f->ctx), "FAISS failed"));
    assert_null(strchr(bw_ctx_message(f->ctx), '/')); /* no source path */
    float query[DIM];
    bw_candidate got[K];
    query_make(f, query);
    allow(f, N, 1);
    assert_int_equal(search(f, ix, query, K, got), K);
    ix->ops->free(ix);
    bw_buf_clear(&x);
}

static void test_index__manhattan_is_flat_alone(void **state)
{
    fixture *f = *state;
    for (size_t kd = 0; kd < NKINDS; kd++) {
        const bw_index_params p = params(BW_METRIC_MANHATTAN);
        const bw_index_ops *ops = bw_index_kind(kinds[kd]);
        const bw_rows rows = view(f->rows, N);
        bw_index *ix = NULL;
        assert_true(ops->metrics[BW_METRIC_MANHATTAN] == (kd == 0));
        assert_int_equal(ops->build(f->ctx, &p, &rows, &ix),
                         kd == 0 ? BW_OK : BW_EINVALID);
        ops->free(ix);
    }
}

static void test_index__bad_parameters_are_refused(void **state)
{
    fixture *f = *state;
    const bw_rows rows = view(f->rows, N);
    bw_index *ix = NULL;
    bw_index_params p = params(BW_METRIC_DOT);
    p.M = 100000;
    assert_int_equal(bw_index_kind("faiss-hnsw")->build(f->ctx, &p, &rows, &ix),
                     BW_EINVALID);
    p = params(BW_METRIC_DOT);
    p.nlist = 1u << 30;
    assert_int_equal(bw_index_kind("faiss-ivf")->build(f->ctx, &p, &rows, &ix),
                     BW_EINVALID);
    p = params(BW_METRIC_DOT);
    p.dim = 0;
    assert_int_equal(bw_index_kind("faiss-ivf")->build(f->ctx, &p, &rows, &ix),
                     BW_EINVALID);
    assert_null(ix);
    assert_null(bw_index_kind("cagra"));
    assert_null(bw_index_kind(NULL));
}

static void test_index__empty_and_tiny_segments_work(void **state)
{
    fixture *f = *state;
    for (size_t kd = 0; kd < NKINDS; kd++)
        for (size_t n = 0; n < 4; n++)
            for (int m = 0; m < 3; m++) {
                bw_index *ix = build(f, kinds[kd], (bw_metric)m, n);
                float query[DIM];
                bw_candidate got[K];
                query_make(f, query);
                allow(f, n, 1);
                assert_int_equal(search(f, ix, query, K, got), n);
                if (ix->ops->save) {
                    const bw_index_params p = params((bw_metric)m);
                    bw_buf x = {0};
                    bw_index *again = NULL;
                    assert_int_equal(ix->ops->save(f->ctx, ix, &x), BW_OK);
                    assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, x.len, &again),
                                     BW_OK);
                    assert_int_equal(search(f, again, query, K, got), n);
                    again->ops->free(again);
                    bw_buf_clear(&x);
                }
                ix->ops->free(ix);
            }
}

/* All products are 0: ids alone decide, so the lowest ids must come back. */
static void test_index__query_without_direction_goes_by_id(void **state)
{
    fixture *f = *state;
    const float query[DIM] = {0};
    for (size_t kd = 0; kd < NKINDS; kd++) {
        bw_index *ix = build(f, kinds[kd], BW_METRIC_DOT, N);
        bw_candidate got[K];
        allow(f, N, 1);
        assert_int_equal(search(f, ix, query, K, got), K);
        for (size_t i = 0; i < K; i++)
            assert_int_equal(got[i].id.lo, i + 1);
        ix->ops->free(ix);
    }
}

static void test_index__extreme_lengths_are_scanned(void **state)
{
    fixture *f = *state;
    enum { MANY = 2200 };
    float *rows = bw_alloc_vectors(2 * MANY * DIM * sizeof *rows), query[DIM];
    assert_non_null(rows);
    for (size_t i = 0; i < 2 * MANY * DIM; i++) /* squares overflow, and underflow */
        rows[i] = f->rows[i] * (i < MANY * DIM ? 1e30f : 1e-30f);
    query_make(f, query);
    const bw_rows many = view(rows, 2 * MANY);
    for (int m = 1; m < 3; m++)
        for (size_t kd = 1; kd < NKINDS; kd++) {
            const bw_index_params p = params((bw_metric)m);
            bw_index *ix = NULL;
            assert_int_equal(
                bw_index_kind(kinds[kd])->build(f->ctx, &p, &many, &ix),
                BW_OK);
            bw_candidate got[K], want[K];
            bw_topk g, w;
            bw_topk_init(&g, got, K);
            bw_topk_init(&w, want, K);
            allow(f, 2 * MANY, 1);
            const bw_index_search s = {.query = query,
                                       .k = K,
                                       .allowed = &f->allowed,
                                       .ids = f->ids,
                                       .rows = &many};
            assert_int_equal(ix->ops->search(f->ctx, ix, &s, &g), BW_OK);
            bw_scan_f32(bw_kernels_get(), (bw_metric)m, query, rows, 2 * MANY, DIM,
                        &f->allowed, f->ids, 0, 0, &w);
            bw_topk_sort(&g);
            bw_topk_sort(&w);
            assert_int_equal(g.n, K);
            for (size_t i = 0; i < K; i++)
                assert_int_equal(bw_candidate_cmp(&got[i], &want[i]), 0);
            ix->ops->free(ix);
        }
    bw_free_vectors(rows);
}

static void test_index__null_finds_nothing(void **state)
{
    fixture *f = *state;
    float query[DIM];
    bw_candidate got[K];
    query_make(f, query);
    allow(f, N, 1);
    bw_index *ix = build(f, "null", BW_METRIC_DOT, N);
    assert_int_equal(search(f, ix, query, K, got), 0);
    assert_true(ix->ops->bytes(ix) > 0);
    ix->ops->free(ix);
    bw_index_kind("null")->free(NULL);
    bw_index_kind("flat")->free(NULL);
    bw_index_kind("faiss-hnsw")->free(NULL);
}

typedef struct job {
    fixture *f;
    const bw_index *ix;
    const float *query;
    bw_candidate got[K];
    bw_status status;
} job;

static void *job_run(void *arg)
{
    job *j = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    j->status = ctx ? BW_OK : BW_ENOMEM;
    for (int i = 0; i < 30 && j->status == BW_OK; i++) {
        bw_topk t;
        bw_topk_init(&t, j->got, K);
        const bw_rows rows = view(j->f->rows, N);
        const bw_index_search s = {.query = j->query,
                                   .k = K,
                                   .allowed = &j->f->allowed,
                                   .ids = j->f->ids,
                                   .part = 2,
                                   .row0 = 100,
                                   .rows = &rows};
        j->status = j->ix->ops->search(ctx, j->ix, &s, &t);
        bw_topk_sort(&t);
    }
    bw_ctx_free(ctx);
    return NULL;
}

static void test_index__threads_share_one_index(void **state)
{
    fixture *f = *state;
    enum { THREADS = 4 };
    for (size_t kd = 0; kd < NKINDS; kd++) {
        bw_index *ix = build(f, kinds[kd], BW_METRIC_COSINE, N);
        float query[DIM];
        bw_candidate want[K];
        query_make(f, query);
        allow(f, N, 0.9);
        search(f, ix, query, K, want);
        pthread_t threads[THREADS];
        job jobs[THREADS];
        for (size_t i = 0; i < THREADS; i++) {
            jobs[i] = (job){.f = f, .ix = ix, .query = query};
            assert_int_equal(pthread_create(&threads[i], NULL, job_run, &jobs[i]), 0);
        }
        for (size_t i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        for (size_t i = 0; i < THREADS;
             i++) { /* when no thread uses this stack any more */
            assert_int_equal(jobs[i].status, BW_OK);
            check_same(jobs[i].got, want, K);
        }
        ix->ops->free(ix);
    }
}

static void test_faiss__names_its_version(void **state)
{
    (void)state;
    int dots = 0;
    for (const char *p = bw_faiss_version(); *p; p++)
        dots += *p == '.';
    assert_int_equal(dots, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_index__hnsw_has_the_same_bytes_on_every_isa), /* first: it forks */
        cmocka_unit_test(test_index__gives_as_many_as_are_allowed),
        cmocka_unit_test(test_index__finds_nearly_what_flat_finds),
        cmocka_unit_test(test_index__results_chain_over_segments),
        cmocka_unit_test(test_index__same_rows_give_same_bytes_and_answers),
        cmocka_unit_test(test_index__cut_or_foreign_bytes_are_refused),
        cmocka_unit_test(test_index__faiss_exception_ends_as_status),
        cmocka_unit_test(test_index__manhattan_is_flat_alone),
        cmocka_unit_test(test_index__bad_parameters_are_refused),
        cmocka_unit_test(test_index__empty_and_tiny_segments_work),
        cmocka_unit_test(test_index__query_without_direction_goes_by_id),
        cmocka_unit_test(test_index__extreme_lengths_are_scanned),
        cmocka_unit_test(test_index__null_finds_nothing),
        cmocka_unit_test(test_index__threads_share_one_index),
        cmocka_unit_test(test_faiss__names_its_version),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
