/* The kind "graph": the same bytes whatever the threads and the kernels, found as well
 * as promised, never a forbidden row, never too few; and its saved form, whatever is
 * done to it. Rows are clustered, so that a graph has something to find. */
#include "engine/index/graph.h"
#include "engine/kernels/kernels.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 3000, DIM = 40, K = 10 };

typedef struct fixture {
    float *rows;
    bw_point_id *ids;
    bw_bitmap allowed;
    bw_ctx *ctx;
    rnd r;
} fixture;

static void rows_draw(rnd *r, float *rows, size_t n, size_t dim, size_t clusters)
{
    float *centres = bw_alloc_vectors(clusters * dim * sizeof *centres);
    assert_non_null(centres);
    for (size_t i = 0; i < clusters * dim; i++)
        centres[i] = (float)rnd_gauss(r);
    for (size_t i = 0; i < n; i++) {
        const float *c = centres + rnd_below(r, clusters) * dim;
        for (size_t j = 0; j < dim; j++)
            rows[i * dim + j] = c[j] + 0.5f * (float)rnd_gauss(r);
        bw_normalize_f32(rows + i * dim, dim);
    }
    bw_free_vectors(centres);
}

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = rnd_start("test_graph", 411);
    f->ctx = bw_ctx_new(0);
    f->rows = bw_alloc_vectors((size_t)N * DIM * sizeof *f->rows);
    f->ids = bw_calloc(N, sizeof *f->ids);
    assert_non_null(f->ctx);
    assert_non_null(f->rows);
    assert_non_null(f->ids);
    assert_true(bw_bitmap_heap(N, &f->allowed));
    for (size_t i = 0; i < N; i++)
        f->ids[i].lo = i * 7 % N + 1;
    rows_draw(&f->r, f->rows, N, DIM, 60);
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

static bw_index_params params(bw_metric metric, uint32_t dim)
{
    return (bw_index_params){
        .metric = metric, .dim = dim, .ef_construction = 80, .seed = 9};
}

static bw_index *build(fixture *f, bw_index_params p, const float *rows, size_t n)
{
    const bw_rows view = {.dim = p.dim, .n = n, .data = rows};
    bw_index *ix = NULL;
    assert_int_equal(bw_index_kind("graph")->build(f->ctx, &p, &view, &ix), BW_OK);
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

static size_t search(fixture *f, const bw_index *ix, const float *rows, uint32_t dim,
                     const float *query, size_t k, uint32_t effort, bw_candidate *out)
{
    bw_topk t;
    bw_topk_init(&t, out, k);
    const bw_rows view = {.dim = dim, .n = f->allowed.nbits, .data = rows};
    const bw_index_search s = {.query = query,
                               .k = k,
                               .effort = effort,
                               .allowed = &f->allowed,
                               .ids = f->ids,
                               .part = 2,
                               .row0 = 100,
                               .rows = &view};
    assert_int_equal(ix->ops->search(f->ctx, ix, &s, &t), BW_OK);
    bw_topk_sort(&t);
    bw_ctx_reset(f->ctx);
    return t.n;
}

static size_t exact(fixture *f, bw_metric metric, const float *rows, uint32_t dim,
                    const float *query, size_t k, bw_candidate *out)
{
    bw_topk t;
    bw_topk_init(&t, out, k);
    bw_scan_f32(bw_kernels_get(), metric, query, rows, f->allowed.nbits, dim,
                &f->allowed, f->ids, 2, 100, &t);
    bw_topk_sort(&t);
    return t.n;
}

/* Share of the true k found over some queries near the rows; keys and permits checked. */
static double recall(fixture *f, const bw_index *ix, bw_metric metric, const float *rows,
                     uint32_t dim, size_t k, uint32_t effort)
{
    size_t hit = 0, want = 0;
    bw_candidate *got = bw_calloc(2 * k, sizeof *got), *truth = got + k;
    float *query = bw_alloc_vectors(dim * sizeof *query);
    for (size_t q = 0; q < 60; q++) {
        const float *near = rows + rnd_below(&f->r, f->allowed.nbits) * dim;
        for (size_t j = 0; j < dim; j++)
            query[j] = near[j] + 0.5f * (float)rnd_gauss(&f->r) / sqrtf((float)dim);
        if (metric == BW_METRIC_COSINE)
            bw_normalize_f32(query, dim);
        const size_t n = exact(f, metric, rows, dim, query, k, truth);
        const size_t m = search(f, ix, rows, dim, query, k, effort, got);
        assert_int_equal(m, n); /* fewer only when fewer are allowed */
        for (size_t i = 0; i < m; i++) {
            assert_true(bw_bitmap_get(&f->allowed, got[i].row - 100));
            if (i > 0)
                assert_true(bw_candidate_cmp(&got[i - 1], &got[i]) < 0);
            for (size_t j = 0; j < n; j++)
                hit += bw_candidate_cmp(&got[i], &truth[j]) == 0;
        }
        want += n;
    }
    bw_free(got);
    bw_free_vectors(query);
    return want ? (double)hit / (double)want : 1;
}

static void test_graph__finds_near_rows(void **state)
{
    fixture *f = *state;
    const bw_metric metrics[] = {BW_METRIC_COSINE, BW_METRIC_DOT, BW_METRIC_EUCLID};
    for (size_t m = 0; m < 3; m++) {
        bw_index *ix = build(f, params(metrics[m], DIM), f->rows, N);
        assert_true(((bw_graph *)ix)->nodes == N);
        allow(f, N, 1);
        double before = 0;
        for (uint32_t effort = 16; effort <= 256; effort *= 4) {
            const double r = recall(f, ix, metrics[m], f->rows, DIM, K, effort);
            print_message("metric %d effort %u: recall@10 %.3f\n", (int)metrics[m],
                          effort, r);
            assert_true(r >= before - 0.05);
            before = r;
        }
        assert_true(before > 0.98);
        ix->ops->free(ix);
    }
}

static void test_graph__filters_keep_their_word(void **state)
{
    fixture *f = *state;
    bw_index *ix = build(f, params(BW_METRIC_COSINE, DIM), f->rows, N);
    const double shares[] = {0.9, 0.5, 0.2, 0.1, 0.01, 0.002, 0};
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
        allow(f, N, shares[s]);
        const double r = recall(f, ix, BW_METRIC_COSINE, f->rows, DIM, K, 64);
        print_message("%.1f %% permitted: recall@10 %.3f\n", 100 * shares[s], r);
        assert_true(r > 0.9);
    }
    /* Only what is near one corner, and only what is not. */
    for (int near = 0; near < 2; near++) {
        allow(f, N, 0);
        for (size_t i = 0; i < N; i++)
            if ((f->rows[i * DIM] > 0.1f) == (near == 1))
                bw_bitmap_set(&f->allowed, i);
        const double r = recall(f, ix, BW_METRIC_COSINE, f->rows, DIM, K, 64);
        print_message("correlated %d: recall@10 %.3f\n", near, r);
        assert_true(r > 0.9);
    }
    ix->ops->free(ix);
}

/* What tuning promises is kept by queries that it did not see, and survives saving. */
static void test_graph__tuned_effort_reaches_the_recall_asked(void **state)
{
    fixture *f = *state;
    bw_index *ix = build(f, params(BW_METRIC_COSINE, DIM), f->rows, N);
    const float asked[] = {0.5f, 0.8f, 0.9f, 0.95f, 0.98f};
    uint32_t before = 0;
    allow(f, N, 1);
    for (size_t a = 0; a < sizeof asked / sizeof *asked; a++) {
        const uint32_t effort = ix->ops->effort_of(ix, asked[a], K);
        if (effort == 0) { /* none reaches it: then none of the higher ones */
            before = UINT32_MAX;
            continue;
        }
        assert_true(effort >= before);
        assert_true(ix->ops->recall_of(ix, effort) >= asked[a]);
        before = effort;
        const double r = recall(f, ix, BW_METRIC_COSINE, f->rows, DIM, K, effort);
        print_message("asked %.2f: effort %u, recall@10 %.3f\n", (double)asked[a], effort,
                      r);
        assert_true(r >= (double)asked[a] - 0.03); /* 60 queries say no more */
    }
    assert_true(ix->ops->effort_of(ix, 0.9f, K) > 0);
    assert_int_equal(ix->ops->effort_of(ix, 1.5f, K), 0);
    assert_true(ix->ops->recall_of(ix, 1) == 0);
    ix->ops->free(ix);
}

static void test_graph__limit_may_be_large(void **state)
{
    fixture *f = *state;
    bw_index *ix = build(f, params(BW_METRIC_EUCLID, DIM), f->rows, N);
    allow(f, N, 1);
    const size_t limits[] = {1, 2, 40, 100, 500, N, N + 5};
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++)
        assert_true(recall(f, ix, BW_METRIC_EUCLID, f->rows, DIM, limits[l], 32) > 0.8);
    ix->ops->free(ix);
}

static void test_graph__few_rows_and_odd_dimensions(void **state)
{
    fixture *f = *state;
    for (size_t n = 0; n <= 200; n += n < 66 ? 1 : 67) {
        bw_index *ix = build(f, params(BW_METRIC_COSINE, DIM), f->rows, n);
        allow(f, n, 1);
        bw_candidate got[K];
        assert_int_equal(search(f, ix, f->rows, DIM, f->rows, K, 0, got),
                         n < K ? n : K);
        ix->ops->free(ix);
    }
    const uint32_t dims[] = {1, 2, 3, 7, 63, 64, 65, 100, 384, 1000};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        enum { MANY = 300 };
        float *rows = bw_alloc_vectors((size_t)MANY * dims[d] * sizeof *rows);
        rows_draw(&f->r, rows, MANY, dims[d], 8);
        bw_index *ix = build(f, params(BW_METRIC_EUCLID, dims[d]), rows, MANY);
        allow(f, MANY, 1);
        assert_true(recall(f, ix, BW_METRIC_EUCLID, rows, dims[d], K, 100) > 0.9);
        ix->ops->free(ix);
        bw_free_vectors(rows);
    }
}

static void test_graph__equal_rows_are_one_node(void **state)
{
    fixture *f = *state;
    float *rows = bw_alloc_vectors((size_t)N * DIM * sizeof *rows);
    for (size_t i = 0; i < N; i++) /* 300 places, ten rows each; one is zero */
        for (size_t j = 0; j < DIM; j++)
            rows[i * DIM + j] = i % 300 == 5 ? 0 : f->rows[i % 300 * DIM + j];
    bw_index *ix = build(f, params(BW_METRIC_COSINE, DIM), rows, N);
    assert_int_equal(((bw_graph *)ix)->nodes, 300);
    allow(f, N, 1);
    bw_candidate got[K], truth[K];
    for (size_t q = 0; q < 300; q += 7) {
        if (q % 300 == 5)
            continue;
        assert_int_equal(search(f, ix, rows, DIM, rows + q * DIM, K, 64, got), K);
        exact(f, BW_METRIC_COSINE, rows, DIM, rows + q * DIM, K, truth);
        for (size_t i = 0; i < K; i++)
            assert_int_equal(bw_candidate_cmp(&got[i], &truth[i]), 0);
    }
    allow(f, N, 0.1);
    assert_true(recall(f, ix, BW_METRIC_COSINE, rows, DIM, K, 64) > 0.9);
    ix->ops->free(ix);
    for (size_t i = 0; i < (size_t)N * DIM; i++) /* all equal: nothing to walk on */
        rows[i] = 0.5f;
    ix = build(f, params(BW_METRIC_EUCLID, DIM), rows, N);
    allow(f, N, 1);
    assert_int_equal(search(f, ix, rows, DIM, rows, K, 64, got), K);
    for (size_t i = 0; i < K; i++)
        assert_int_equal(got[i].id.lo, i + 1);
    ix->ops->free(ix);
    bw_free_vectors(rows);
}

/* Scratch memory is kept for the next search, and may be larger than that one needs: its
 * size must not show. Rows close together fill a beam with few nodes, many times each,
 * and it is widened then. */
static void test_graph__answers_do_not_depend_on_searches_before(void **state)
{
    fixture *f = *state;
    enum { HEAPS = 150, EFFORT = 8, LARGE = 700 /* not a scan yet */ };
    float *rows = bw_alloc_vectors((size_t)N * DIM * sizeof *rows);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < DIM; j++)
            rows[i * DIM + j] =
                f->rows[i % HEAPS * DIM + j] + 0.02f * (float)rnd_gauss(&f->r);
    bw_index *first = build(f, params(BW_METRIC_EUCLID, DIM), rows, N);
    bw_index *later = build(f, params(BW_METRIC_EUCLID, DIM), rows, N);
    bw_candidate got[130], want[130];
    allow(f, N, 1);
    for (size_t k = 70; k <= 130; k += 30)
        for (size_t q = 0; q < 20; q++) {
            const float *query = rows + q * 71 * DIM;
            const size_t n = search(f, first, rows, DIM, query, k, EFFORT, want);
            (void)search(f, later, rows, DIM, query, 1, LARGE, got);
            assert_int_equal(search(f, later, rows, DIM, query, k, EFFORT, got), n);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(bw_candidate_cmp(&got[i], &want[i]), 0);
        }
    first->ops->free(first);
    later->ops->free(later);
    bw_free_vectors(rows);
}

static void saved(fixture *f, const bw_index *ix, bw_buf *x)
{
    assert_int_equal(ix->ops->save(f->ctx, ix, x), BW_OK);
}

static void test_graph__same_bytes_for_any_threads(void **state)
{
    fixture *f = *state;
    bw_buf first = {0};
    for (uint32_t threads = 1; threads <= 3; threads++) {
        bw_index_params p = params(BW_METRIC_COSINE, DIM);
        p.threads = threads;
        bw_index *ix = build(f, p, f->rows, N);
        bw_buf x = {0};
        saved(f, ix, threads == 1 ? &first : &x);
        if (threads > 1) {
            assert_int_equal(x.len, first.len);
            assert_memory_equal(x.ptr, first.ptr, x.len);
        }
        bw_buf_clear(&x);
        ix->ops->free(ix);
    }
    bw_buf_clear(&first);
}

/* A child with other kernels writes what it saved and what it found. */
static bool run_elsewhere(fixture *f, const char *isa, FILE *to)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("BW_ISA", isa, 1);
        enum { FEW = 700 };
        if (strcmp(bw_kernels_get()->isa, isa) != 0)
            _exit(7);
        bw_index *ix = build(f, params(BW_METRIC_EUCLID, DIM), f->rows, FEW);
        bw_buf x = {0};
        saved(f, ix, &x);
        allow(f, FEW, 1);
        for (size_t q = 0; q < 50; q++) {
            bw_candidate got[K] = {0};
            search(f, ix, f->rows, DIM, f->rows + (FEW + q) * DIM, K, 32, got);
            bw_buf_put(&x, got, sizeof got);
        }
        const bool ok = fwrite(x.ptr, 1, x.len, to) == x.len && fflush(to) == 0;
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) &&
                (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 7));
    return WEXITSTATUS(status) == 0;
}

static void test_graph__same_bytes_and_answers_on_every_isa(void **state)
{
    fixture *f = *state;
    const char *const isas[] = {"scalar", "avx2", "avx512"};
    char *all[3] = {0};
    size_t len[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        FILE *to = tmpfile();
        assert_non_null(to);
        if (run_elsewhere(f, isas[i], to)) {
            len[i] = (size_t)ftell(to);
            fseek(to, 0, SEEK_END);
            len[i] = (size_t)ftell(to);
            all[i] = bw_alloc(len[i]);
            rewind(to);
            assert_int_equal(fread(all[i], 1, len[i], to), len[i]);
        }
        fclose(to);
    }
    assert_non_null(all[0]);
    for (size_t i = 1; i < 3; i++)
        if (all[i]) {
            assert_int_equal(len[i], len[0]);
            assert_memory_equal(all[i], all[0], len[0]);
        }
    for (size_t i = 0; i < 3; i++)
        bw_free(all[i]);
}

static void test_graph__loads_what_it_saved(void **state)
{
    fixture *f = *state;
    for (int twins = 0; twins < 2; twins++) {
        float *rows = bw_alloc_vectors((size_t)N * DIM * sizeof *rows);
        memcpy(rows, f->rows, (size_t)N * DIM * sizeof *rows);
        if (twins)
            memcpy(rows + 50 * DIM, rows, 20 * DIM * sizeof *rows);
        const bw_index_params p = params(BW_METRIC_COSINE, DIM);
        bw_index *ix = build(f, p, rows, N), *again = NULL;
        bw_buf x = {0}, y = {0};
        saved(f, ix, &x);
        assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, x.len, &again), BW_OK);
        saved(f, again, &y);
        assert_int_equal(x.len, y.len);
        assert_memory_equal(x.ptr, y.ptr, x.len);
        assert_true(again->ops->bytes(again) == ix->ops->bytes(ix));
        for (size_t q = 0; q < 20; q++) {
            bw_candidate u[K], v[K];
            allow(f, N, q % 2 ? 1 : 0.8);
            const float *query = rows + rnd_below(&f->r, N) * DIM;
            assert_int_equal(search(f, ix, rows, DIM, query, K, 40, u), K);
            assert_int_equal(search(f, again, rows, DIM, query, K, 40, v), K);
            for (size_t i = 0; i < K; i++)
                assert_int_equal(bw_candidate_cmp(&u[i], &v[i]), 0);
        }
        ix->ops->free(ix);
        again->ops->free(again);
        bw_buf_clear(&x);
        bw_buf_clear(&y);
        bw_free_vectors(rows);
    }
}

/* What a search leaves for the next one is memory too: a link for each node, and once
 * only however many searches follow. */
static void test_graph__bytes_count_what_searches_keep(void **state)
{
    fixture *f = *state;
    bw_index *ix = build(f, params(BW_METRIC_COSINE, DIM), f->rows, N);
    const size_t before = ix->ops->bytes(ix);
    bw_candidate got[K];
    allow(f, N, 1);
    assert_int_equal(search(f, ix, f->rows, DIM, f->rows, K, 40, got), K);
    const size_t kept = ix->ops->bytes(ix);
    assert_true(kept >= before + N * 8);
    for (size_t q = 1; q < 5; q++)
        assert_int_equal(search(f, ix, f->rows, DIM, f->rows + q * DIM, K, 40, got), K);
    assert_int_equal(ix->ops->bytes(ix), kept);
    assert_int_equal(search(f, ix, f->rows, DIM, f->rows, K, 200, got), K);
    assert_true(ix->ops->bytes(ix) >= kept); /* a larger one took its place */
    assert_true(ix->ops->bytes(ix) < before + 2 * (kept - before));
    ix->ops->free(ix);
}

/* Bytes under a MAC of the caller's; yet nothing that leads astray gets in. */
static void test_graph__damaged_bytes_are_refused_or_harmless(void **state)
{
    fixture *f = *state;
    enum { FEW = 200 };
    float *rows = bw_alloc_vectors((size_t)FEW * DIM * sizeof *rows);
    memcpy(rows, f->rows, (size_t)FEW * DIM * sizeof *rows);
    memcpy(rows + 50 * DIM, rows, 20 * DIM * sizeof *rows); /* tables of rows too */
    const bw_index_params p = params(BW_METRIC_COSINE, DIM);
    bw_index *ix = build(f, p, rows, FEW), *bad = NULL;
    bw_buf x = {0};
    saved(f, ix, &x);
    for (size_t cut = 0; cut < x.len; cut += x.len / 300 + 1)
        assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, cut, &bad), BW_ECORRUPT);
    bw_buf_putc(&x, 0);
    assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, x.len, &bad), BW_ECORRUPT);
    x.len--;
    size_t refused = 0, taken = 0;
    allow(f, FEW, 1);
    for (size_t at = 0; at < x.len; at += at < 1200 ? 1 : 37)
        for (int bit = 0; bit < 8; bit += 7) {
            x.ptr[at] ^= (char)(1 << bit);
            const bw_status st = ix->ops->load(f->ctx, &p, x.ptr, x.len, &bad);
            assert_true(st == BW_OK || st == BW_ECORRUPT);
            refused += st != BW_OK;
            if (st == BW_OK) { /* a code or a factor: still no row that is not there */
                bw_candidate got[K];
                taken++;
                assert_int_equal(search(f, bad, rows, DIM, rows, K, 32, got), K);
                bad->ops->free(bad);
            }
            bad = NULL;
            x.ptr[at] ^= (char)(1 << bit);
        }
    print_message("%zu flips refused, %zu taken\n", refused, taken);
    /* Each header field, and other parameters. */
    for (size_t at = 0; at < 56; at++) {
        x.ptr[at] ^= 0x40;
        assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, x.len, &bad), BW_ECORRUPT);
        x.ptr[at] ^= 0x40;
    }
    bw_index_params q = p;
    q.seed++;
    assert_int_equal(ix->ops->load(f->ctx, &q, x.ptr, x.len, &bad), BW_ECORRUPT);
    q = p;
    q.metric = BW_METRIC_EUCLID;
    assert_int_equal(ix->ops->load(f->ctx, &q, x.ptr, x.len, &bad), BW_ECORRUPT);
    /* An id one past the end, in the first row's first lane. */
    const bw_graph *g = (const bw_graph *)ix;
    const size_t row0 = x.len - (size_t)g->nodes * g->row.stride;
    memcpy(x.ptr + row0 + g->row.ids, &g->nodes, sizeof g->nodes);
    assert_int_equal(ix->ops->load(f->ctx, &p, x.ptr, x.len, &bad), BW_ECORRUPT);
    assert_null(bad);
    ix->ops->free(ix);
    bw_buf_clear(&x);
    bw_free_vectors(rows);
}

static void test_graph__unfit_rows_are_scanned(void **state)
{
    fixture *f = *state;
    float *rows = bw_alloc_vectors((size_t)N * DIM * sizeof *rows);
    bw_candidate got[K], truth[K];
    for (int kind = 0; kind < 3; kind++) { /* too long, too short, lengths that differ */
        for (size_t i = 0; i < (size_t)N * DIM; i++)
            rows[i] = f->rows[i] * (kind == 0   ? 1e30f
                                    : kind == 1 ? 1e-30f
                                                : (float)(1 + i / DIM % 3));
        bw_index *ix = build(f, params(BW_METRIC_DOT, DIM), rows, N);
        assert_int_equal(((bw_graph *)ix)->nodes, 0);
        allow(f, N, 1);
        assert_int_equal(search(f, ix, rows, DIM, f->rows, K, 0, got), K);
        exact(f, BW_METRIC_DOT, rows, DIM, f->rows, K, truth);
        for (size_t i = 0; i < K; i++)
            assert_int_equal(bw_candidate_cmp(&got[i], &truth[i]), 0);
        ix->ops->free(ix);
    }
    bw_free_vectors(rows);
}

static void test_graph__stops_when_told(void **state)
{
    fixture *f = *state;
    atomic_bool stop;
    atomic_init(&stop, true);
    bw_index_params p = params(BW_METRIC_COSINE, DIM);
    p.stop = &stop;
    bw_index *ix = NULL;
    const bw_rows view = {.dim = DIM, .n = N, .data = f->rows};
    assert_int_equal(bw_index_kind("graph")->build(f->ctx, &p, &view, &ix),
                     BW_EUNAVAILABLE);
    assert_null(ix);
}

/* A deadline ends the walk itself, not only what comes after: counted in hops. */
static void test_graph__a_walk_ends_at_the_deadline(void **state)
{
    fixture *f = *state;
    enum { EFFORT = 600, LATE = 256 };
    bw_index *ix = build(f, params(BW_METRIC_COSINE, DIM), f->rows, N);
    const bw_rows view = {.dim = DIM, .n = N, .data = f->rows};
    float query[DIM]; /* near nothing, so that the way is long */
    for (size_t i = 0; i < DIM; i++)
        query[i] = (float)rnd_gauss(&f->r);
    bw_normalize_f32(query, DIM);
    for (int round = 0; round < 4; round++) {
        uint64_t hops = 0, rescored = 0;
        bw_candidate found[K];
        bw_topk t;
        bw_topk_init(&t, found, K);
        allow(f, N, round < 2 ? 1 : 0.9);
        const bw_index_search s = {.query = query,
                                   .k = K,
                                   .effort = EFFORT,
                                   .allowed = &f->allowed,
                                   .ids = f->ids,
                                   .rows = &view,
                                   .hops = &hops,
                                   .rescored = &rescored};
        bw_ctx_set_deadline(f->ctx, round % 2 ? 1 : 0); /* long ago */
        bw_status st = ix->ops->search(f->ctx, ix, &s, &t);
        assert_int_equal(st, round % 2 ? BW_ETIMEOUT : BW_OK);
        if (round % 2) {
            assert_true(hops > 0 && hops <= LATE);
            assert_int_equal(t.n + rescored, 0);
            assert_non_null(strstr(bw_ctx_message(f->ctx), "time is over"));
        } else {
            assert_true(hops > LATE); /* it has far to go */
            assert_int_equal(t.n, K);
        }
        bw_ctx_reset(f->ctx);
    }
    ix->ops->free(ix);
}

static void test_graph__bad_parameters_are_refused(void **state)
{
    fixture *f = *state;
    const bw_index_ops *ops = bw_index_kind("graph");
    const bw_rows view = {.dim = DIM, .n = N, .data = f->rows};
    bw_index *ix = NULL;
    bw_index_params p = params(BW_METRIC_MANHATTAN, DIM);
    assert_int_equal(ops->build(f->ctx, &p, &view, &ix), BW_EINVALID);
    p = params(BW_METRIC_DOT, 0);
    assert_int_equal(ops->build(f->ctx, &p, &view, &ix), BW_EINVALID);
    p = params(BW_METRIC_DOT, DIM);
    p.M = 1000;
    assert_int_equal(ops->build(f->ctx, &p, &view, &ix), BW_EINVALID);
    p = params(BW_METRIC_DOT, DIM);
    p.ef_construction = 1u << 20;
    assert_int_equal(ops->build(f->ctx, &p, &view, &ix), BW_EINVALID);
    assert_null(ix);
    ops->free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph__same_bytes_and_answers_on_every_isa),
        cmocka_unit_test(test_graph__finds_near_rows),
        cmocka_unit_test(test_graph__filters_keep_their_word),
        cmocka_unit_test(test_graph__tuned_effort_reaches_the_recall_asked),
        cmocka_unit_test(test_graph__limit_may_be_large),
        cmocka_unit_test(test_graph__few_rows_and_odd_dimensions),
        cmocka_unit_test(test_graph__equal_rows_are_one_node),
        cmocka_unit_test(test_graph__answers_do_not_depend_on_searches_before),
        cmocka_unit_test(test_graph__same_bytes_for_any_threads),
        cmocka_unit_test(test_graph__loads_what_it_saved),
        cmocka_unit_test(test_graph__bytes_count_what_searches_keep),
        cmocka_unit_test(test_graph__damaged_bytes_are_refused_or_harmless),
        cmocka_unit_test(test_graph__unfit_rows_are_scanned),
        cmocka_unit_test(test_graph__stops_when_told),
        cmocka_unit_test(test_graph__a_walk_ends_at_the_deadline),
        cmocka_unit_test(test_graph__bad_parameters_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
