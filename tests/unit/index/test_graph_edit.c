/* Graphs derived from graphs: what goes never comes back, what comes is found, recall
 * stays that of a new build, and the bytes do not depend on threads. */
#include "engine/index/graph.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { N = 2400, DIM = 48, K = 10, POOL = 3 * N, NQUERIES = 1500, CLUSTERS = 40 };

/* A collection as it changes: row i holds vector held[i] of the pool. */
typedef struct world {
    uint32_t *held;
    size_t n;
    float *rows; /* n × DIM */
} world;

typedef struct fixture {
    rnd r;
    bw_ctx *ctx;
    float *pool, *queries;
    uint32_t next; /* of the pool, unused */
    world w;
    bw_point_id *ids;
    uint32_t *map;
    bw_bitmap allowed;
    bw_index_params params;
} fixture;

static void vectors(fixture *f, float *out, size_t n, const float *centres)
{
    for (size_t i = 0; i < n; i++) {
        const float *c = centres + rnd_below(&f->r, CLUSTERS) * DIM;
        for (size_t j = 0; j < DIM; j++)
            out[i * DIM + j] = c[j] + 0.6f * (float)rnd_gauss(&f->r);
        bw_normalize_f32(out + i * DIM, DIM);
    }
}

static void world_fill(fixture *f)
{
    for (size_t i = 0; i < f->w.n; i++)
        memcpy(f->w.rows + i * DIM, f->pool + (size_t)f->w.held[i] * DIM,
               DIM * sizeof(float));
}

/* N rows of the pool's beginning. */
static void world_start(fixture *f)
{
    f->w.n = N;
    f->next = N;
    for (uint32_t i = 0; i < N; i++)
        f->w.held[i] = i;
    world_fill(f);
}

/* Some rows go, some come at the end; f->map tells where the old ones are. */
static void world_change(fixture *f, size_t gone, size_t come)
{
    const size_t was = f->w.n;
    memset(f->map, 0, was * sizeof *f->map);
    for (size_t g = 0; g < gone;) {
        const size_t row = rnd_below(&f->r, was);
        g += f->map[row] == 0;
        f->map[row] = UINT32_MAX;
    }
    size_t n = 0;
    for (size_t i = 0; i < was; i++)
        if (f->map[i] != UINT32_MAX) {
            f->w.held[n] = f->w.held[i];
            f->map[i] = (uint32_t)n++;
        }
    for (size_t i = 0; i < come; i++) {
        f->w.held[n++] = f->next++;
        assert_true(f->next <= POOL);
    }
    f->w.n = n;
    world_fill(f);
}

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = rnd_start("test_graph_edit", 20261130);
    f->ctx = bw_ctx_new(0);
    f->pool = bw_alloc_vectors(POOL * DIM * sizeof(float));
    f->queries = bw_alloc_vectors(NQUERIES * DIM * sizeof(float));
    f->w.rows = bw_alloc_vectors(POOL * DIM * sizeof(float));
    f->w.held = bw_alloc(POOL * sizeof *f->w.held);
    f->map = bw_alloc(POOL * sizeof *f->map);
    f->ids = bw_calloc(POOL, sizeof *f->ids);
    float *centres = bw_alloc_vectors(CLUSTERS * DIM * sizeof(float));
    assert_true(f->ctx && f->pool && f->queries && f->w.rows && f->w.held && f->map &&
                f->ids && centres);
    for (size_t i = 0; i < CLUSTERS * DIM; i++)
        centres[i] = (float)rnd_gauss(&f->r);
    vectors(f, f->pool, POOL, centres);
    vectors(f, f->queries, NQUERIES, centres);
    bw_free_vectors(centres);
    assert_true(bw_bitmap_heap(POOL, &f->allowed));
    for (size_t i = 0; i < POOL; i++)
        f->ids[i].lo = i;
    f->params = (bw_index_params){.metric = BW_METRIC_COSINE, .dim = DIM, .seed = 3,
                                  .ef_construction = 80, .threads = 2};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_free_vectors(f->pool);
    bw_free_vectors(f->queries);
    bw_free_vectors(f->w.rows);
    bw_free(f->w.held);
    bw_free(f->map);
    bw_free(f->ids);
    bw_bitmap_free(&f->allowed);
    bw_ctx_free(f->ctx);
    bw_free(f);
    return 0;
}

static bw_rows view(const fixture *f)
{
    return (bw_rows){.dtype = BW_DTYPE_F32, .dim = DIM, .n = f->w.n, .data = f->w.rows};
}

static bw_index *built(fixture *f)
{
    const bw_rows rows = view(f);
    bw_index *ix = NULL;
    assert_int_equal(bw_index__graph.build(f->ctx, &f->params, &rows, &ix), BW_OK);
    return ix;
}

static bw_index *derived(fixture *f, const bw_index *old)
{
    const bw_rows rows = view(f);
    bw_index *ix = NULL;
    assert_int_equal(bw_index__graph.derive(f->ctx, &f->params, old, f->map, &rows, &ix),
                     BW_OK);
    return ix;
}

/* The k best by the index (effort > 0) or by a scan, as a sorted list. */
static size_t search(fixture *f, const bw_index *ix, const float *query, uint32_t effort,
                     bw_candidate out[K])
{
    const bw_rows rows = view(f);
    bw_bitmap allowed = f->allowed;
    allowed.nbits = f->w.n;
    bw_bitmap_fill(&allowed);
    const bw_index_search s = {.query = query, .k = K, .effort = effort, .recall = 0,
                               .allowed = &allowed, .ids = f->ids, .rows = &rows};
    bw_topk top;
    bw_topk_init(&top, out, K);
    const bw_index_ops *ops = effort ? ix->ops : bw_index_kind("flat");
    bw_index *flat = NULL;
    if (!effort)
        assert_int_equal(ops->build(f->ctx, &f->params, &rows, &flat), BW_OK);
    assert_int_equal(ops->search(f->ctx, effort ? ix : flat, &s, &top), BW_OK);
    if (flat)
        ops->free(flat);
    return top.n;
}

static double recall(fixture *f, const bw_index *ix, uint32_t effort)
{
    size_t hits = 0;
    for (size_t q = 0; q < NQUERIES; q++) {
        bw_candidate want[K], have[K];
        const size_t n = search(f, ix, f->queries + q * DIM, 0, want),
                     m = search(f, ix, f->queries + q * DIM, effort, have);
        assert_int_equal(n, K);
        assert_int_equal(m, K);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < m; j++)
                hits += want[i].row == have[j].row;
    }
    return (double)hits / (NQUERIES * K);
}

static void same_graph(const bw_index *a, const bw_index *b)
{
    const bw_graph *x = (const bw_graph *)a, *y = (const bw_graph *)b;
    assert_true(x->nodes > 0 && x->nodes == y->nodes);
    assert_memory_equal(x->block, y->block, x->nodes * x->row.stride);
    assert_memory_equal(x->entry, y->entry, x->wide.stride);
}

static void test_graph_derive__keeps_recall_over_ten_changes(void **state)
{
    fixture *f = *state;
    world_start(f);
    bw_index *ix = built(f);
    for (size_t round = 0; round < 10; round++) {
        world_change(f, f->w.n / 10, N / 10);
        bw_index *next = derived(f, ix);
        bw_index__graph.free(ix);
        ix = next;
    }
    bw_index *anew = built(f);
    const uint32_t efforts[] = {20, 40};
    for (size_t e = 0; e < 2; e++) {
        const double by_edit = recall(f, ix, efforts[e]),
                     by_build = recall(f, anew, efforts[e]);
        print_message("effort %u: %.4f after ten changes, %.4f built anew\n", efforts[e],
                      by_edit, by_build);
        assert_true(by_edit >= by_build - 0.005);
    }
    bw_index__graph.free(ix);
    bw_index__graph.free(anew);
}

static void test_graph_derive__has_the_same_bytes_with_any_threads(void **state)
{
    fixture *f = *state;
    world_start(f);
    bw_index *old = built(f);
    world_change(f, N / 10, N / 8);
    bw_index *by[3];
    for (uint32_t t = 0; t < 3; t++) {
        f->params.threads = t + 1;
        by[t] = derived(f, old);
        same_graph(by[0], by[t]);
    }
    f->params.threads = 2;
    for (uint32_t t = 0; t < 3; t++)
        bw_index__graph.free(by[t]);
    bw_index__graph.free(old);
}

static void test_graph_derive__copies_what_did_not_change(void **state)
{
    fixture *f = *state;
    world_start(f);
    bw_index *old = built(f);
    world_change(f, 0, 0);
    bw_index *ix = derived(f, old);
    const bw_graph *a = (const bw_graph *)old;
    same_graph(old, ix);
    assert_true(a->nodes == N);
    bw_index__graph.free(old);
    bw_index__graph.free(ix);
}

/* Every id in every row is a node, and no node's links name it twice or name itself. */
static void sound(const bw_index *ix)
{
    const bw_graph *g = (const bw_graph *)ix;
    for (uint32_t i = 0; i < g->nodes; i++) {
        const uint32_t *ids = bw_rabitq_row_ids(&g->row, bw_graph_row(g, i));
        for (uint32_t a = 0; a < g->row.R; a++) {
            assert_true(ids[a] == BW_RABITQ_NONE || (ids[a] < g->nodes && ids[a] != i));
            for (uint32_t b = 0; b < a; b++)
                assert_true(ids[a] == BW_RABITQ_NONE || ids[a] != ids[b]);
        }
    }
}

static void test_graph_derive__finds_what_came(void **state)
{
    fixture *f = *state;
    world_start(f);
    bw_index *old = built(f);
    world_change(f, N / 5, N / 5);
    /* One that went comes again, and one is there three times. */
    memcpy(f->w.rows + (f->w.n - 1) * DIM, f->w.rows, DIM * sizeof(float));
    memcpy(f->w.rows + (f->w.n - 2) * DIM, f->w.rows, DIM * sizeof(float));
    bw_index *ix = derived(f, old);
    sound(ix);
    size_t found = 0;
    for (size_t i = f->w.n - N / 5; i < f->w.n; i++) {
        bw_candidate have[K];
        bool here = false;
        const size_t n = search(f, ix, f->w.rows + i * DIM, 64, have);
        for (size_t j = 0; j < n; j++)
            here |= have[j].row == i;
        found += here;
    }
    print_message("%zu of %d that came were found\n", found, N / 5);
    assert_true(found >= N / 5 - 1);
    bw_index__graph.free(ix);
    bw_index__graph.free(old);
}

static void test_graph_derive__builds_anew_when_most_is_gone(void **state)
{
    fixture *f = *state;
    world_start(f);
    bw_index *old = built(f);
    world_change(f, N / 2, 10);
    bw_index *ix = derived(f, old), *anew = built(f);
    same_graph(ix, anew);
    bw_index__graph.free(ix);
    bw_index__graph.free(anew);
    world_change(f, f->w.n - 20, 0); /* not enough for a graph */
    for (size_t i = 0; i < N; i++)
        f->map[i] = i < f->w.n ? (uint32_t)i : UINT32_MAX;
    ix = derived(f, old);
    bw_candidate have[K];
    assert_int_equal(search(f, ix, f->queries, 20, have), K);
    bw_index__graph.free(ix);
    bw_index__graph.free(old);
}

static void test_graph_derive__of_a_saved_graph_is_the_same(void **state)
{
    fixture *f = *state;
    if (!bw_index__graph.save)
        skip();
    world_start(f);
    bw_index *old = built(f), *loaded = NULL;
    world_change(f, N / 10, N / 10);
    bw_index *ix = derived(f, old);
    bw_buf bytes = {0};
    assert_int_equal(bw_index__graph.save(f->ctx, ix, &bytes), BW_OK);
    assert_int_equal(bw_index__graph.load(f->ctx, &f->params, bytes.ptr, bytes.len, &loaded),
                     BW_OK);
    same_graph(ix, loaded);
    world_change(f, N / 10, N / 10);
    bw_index *a = derived(f, ix), *b = derived(f, loaded);
    same_graph(a, b);
    bw_index *const all[] = {old, ix, loaded, a, b};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bw_index__graph.free(all[i]);
    bw_buf_clear(&bytes);
}

static void test_graph_derive__stops_when_told_to(void **state)
{
    fixture *f = *state;
    world_start(f);
    bw_index *old = built(f), *ix = NULL;
    world_change(f, N / 10, N / 10);
    const bw_rows rows = view(f);
    atomic_bool stop;
    atomic_init(&stop, true);
    f->params.stop = &stop;
    assert_int_equal(bw_index__graph.derive(f->ctx, &f->params, old, f->map, &rows, &ix),
                     BW_EUNAVAILABLE);
    f->params.stop = NULL;
    assert_null(ix);
    bw_index__graph.free(old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_derive__keeps_recall_over_ten_changes),
        cmocka_unit_test(test_graph_derive__has_the_same_bytes_with_any_threads),
        cmocka_unit_test(test_graph_derive__copies_what_did_not_change),
        cmocka_unit_test(test_graph_derive__finds_what_came),
        cmocka_unit_test(test_graph_derive__builds_anew_when_most_is_gone),
        cmocka_unit_test(test_graph_derive__of_a_saved_graph_is_the_same),
        cmocka_unit_test(test_graph_derive__stops_when_told_to),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
