/* Readers while a writer writes: every view shows one committed state. Run under TSan
 * by the tsan preset. Bounded by counts, not by time. */
#include "engine_cell.h"

#include <pthread.h>
#include <stdatomic.h>

enum { DIM = 4, POINTS = 60, READERS = 3, WRITES = 60 };

typedef struct world {
    cell *c;
    atomic_bool stop;
    atomic_uint looks;
} world;

/* By the lists in memory, which readers make while others read and a writer writes. */
static void look_for_words(cell *c, const bw_snapshot *s, const bw_str *terms,
                           size_t nterms)
{
    bw_text_query q = {.terms = terms, .nterms = nterms};
    bw_text_stats stats = {0, 0};
    bw_text_found found;
    uint64_t df = 0;
    const double idf = 1;
    bw_candidate items[5];
    bw_topk t;
    bw_topk_init(&t, items, 5);
    assert_int_equal(nterms, 1);
    OK(bw_text_stems(c->ctx, terms, nterms, &q.stems));
    OK(bw_snapshot_text_find(c->ctx, s, &q, bw_snapshot_live(s), &stats, &df, &found));
    assert_int_equal(df, stats.ndocs);
    const bw_text_weights weights = {&idf, 3};
    OK(bw_snapshot_text_best(c->ctx, s, &q, &found, &weights, bw_snapshot_live(s), 0, &t));
    assert_int_equal(t.n, stats.ndocs < 5 ? stats.ndocs : 5);
}

/* Classes 1 … 3 always hold every id once, all of one round. */
static void look(cell *c, const bw_permit *permit, const bw_str *terms, size_t nterms)
{
    bw_view v;
    OK(bw_view_open(c->ctx, c->engine, TENANT, NAME, permit, 0, &v));
    unsigned found = 0, texts = 0;
    bw_str first = {NULL, 0};
    for (size_t i = 0; i < v.nparts; i++) {
        const bw_snapshot *s = v.parts[i];
        const bw_bitmap *live = bw_snapshot_live(s);
        for (size_t k = bw_bitmap_next(live, 0); k < live->nbits;
             k = bw_bitmap_next(live, k + 1)) {
            bw_row row;
            bw_snapshot_row(s, (uint32_t)k, &row);
            if (!first.ptr)
                first = row.payload;
            assert_true(bw_str_eq(first, row.payload));
            assert_true(bw_snapshot_has_dense(s, 0, (uint32_t)k));
            uint32_t again;
            assert_true(bw_snapshot_find(s, &row.id, &again) && again == k);
            found++;
        }
        bw_text_stats stats = {0};
        const bw_text_match *m;
        size_t n;
        OK(bw_snapshot_text(c->ctx, s, terms, nterms, live, &stats, &m, &n));
        assert_int_equal(n, stats.ndocs);
        texts += (unsigned)n;
        look_for_words(c, s, terms, nterms);
        float query[DIM] = {1, 0, 0, 0};
        bw_candidate items[5];
        bw_topk t;
        bw_topk_init(&t, items, 5);
        bw_search_params sp = {.vec = 0, .k = 5, .allowed = live};
        OK(bw_snapshot_search_dense(c->ctx, s, query, &sp, &t, NULL));
        uint32_t word = 5;
        float one = 1;
        bw_vector sq = {.values = &one, .indices = &word, .n = 1, .sparse = true};
        bw_topk_init(&t, items, 5);
        sp.vec = 1;
        OK(bw_snapshot_search_sparse(c->ctx, s, &sq, &sp, &t, NULL));
        const uint32_t *rows;
        OK(bw_snapshot_by_id(c->ctx, s, &rows, &n));
    }
    bw_view_close(&v);
    assert_int_equal(found, POINTS);
    assert_int_equal(texts, POINTS);
}

static void *reader(void *arg)
{
    world *w = arg;
    cell own = *w->c, *c = &own;
    c->ctx = bw_ctx_new(0);
    while (!atomic_load(&w->stop)) {
        bw_permit permit = cell_permit(c, 1, 3);
        const bw_str *terms;
        size_t n;
        OK(bw_text_terms(c->ctx, BW_STR("common"), &terms, &n));
        look(c, &permit, terms, n);
        bw_ctx_reset(c->ctx);
        atomic_fetch_add(&w->looks, 1);
    }
    bw_ctx_free(c->ctx);
    return NULL;
}

static void write_round(cell *c, unsigned round)
{
    bw_point *p = bw_arena_calloc(c->ctx, POINTS, sizeof *p);
    char *payload = bw_arena_printf(c->ctx, "{\"round\":%u}", round);
    uint32_t *index = bw_arena_calloc(c->ctx, 1, sizeof *index);
    float *value = bw_arena_calloc(c->ctx, 1, sizeof *value);
    *index = 5;
    *value = 1;
    for (unsigned i = 0; i < POINTS; i++) {
        p[i] = cell_point(c, 1 + (i + round) % 3, i, DIM, "a common word");
        p[i].payload = bw_str_c(payload);
        bw_vector *v = bw_arena_calloc(c->ctx, 2, sizeof *v);
        v[0] = p[i].vectors[0];
        v[1] = (bw_vector){.name = BW_STR("words"),
                           .values = value,
                           .indices = index,
                           .n = 1,
                           .sparse = true};
        p[i].vectors = v;
        p[i].nvectors = 2;
    }
    cell_upsert(c, p, POINTS);
    bw_ctx_reset(c->ctx);
}

static void test_view__shows_one_committed_state_while_points_move(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.seal_rows = 100;
    o.exact_rows = 50;
    o.graphs_first = true;
    o.adopt_rows = 40;
    o.open_partitions_max = 2;
    o.null_sync = true;
    cell_init(c, &o);
    cell_collection(c, DIM, BW_METRIC_DOT, 4);
    write_round(c, 0);
    world w = {.c = c};
    pthread_t threads[READERS];
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reader, &w), 0);
    bw_index_spec spec = {.field = BW_STR("round"), .type = BW_STR("integer")};
    for (unsigned i = 1; i <= WRITES; i++) {
        write_round(c, i);
        if (i % 10 == 3)
            OK(bw_collection_index_put(c->ctx, c->engine, TENANT, NAME, &spec));
        if (i % 10 == 8)
            OK(bw_collection_index_drop(c->ctx, c->engine, TENANT, NAME, spec.field));
        if (i % 10 == 5) { /* another collection comes and goes */
            bw_vector_spec v = {.name = BW_STR(""), .dim = DIM};
            bw_collection_info info = {.tenant = TENANT,
                                       .name = BW_STR("other"),
                                       .vectors = &v,
                                       .nvectors = 1};
            bool existed;
            OK(bw_collection_create(c->ctx, c->engine, &info));
            OK(bw_collection_drop(c->ctx, c->engine, TENANT, info.name, &existed));
            assert_true(existed);
        }
    }
    while (atomic_load(&w.looks) < READERS * 5)
        usleep(1000);
    atomic_store(&w.stop, true);
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    print_message("%u looks during %d writes\n", atomic_load(&w.looks), WRITES);
    cell_clear(c);
}

/* Drops under readers: a view that is open stays good, a later one is BW_ENOTFOUND. */
static void *drop_reader(void *arg)
{
    world *w = arg;
    cell own = *w->c, *c = &own;
    c->ctx = bw_ctx_new(0);
    while (!atomic_load(&w->stop)) {
        bw_permit permit = cell_permit(c, 1, 3);
        bw_view v;
        bw_status st = bw_view_open(c->ctx, c->engine, TENANT, NAME, &permit, 0, &v);
        assert_true(st == BW_OK || st == BW_ENOTFOUND);
        if (st == BW_OK) {
            for (size_t i = 0; i < v.nparts; i++)
                assert_true(bw_bitmap_count(bw_snapshot_live(v.parts[i])) <= POINTS);
            bw_view_close(&v);
        }
        bw_ctx_reset(c->ctx);
        atomic_fetch_add(&w->looks, 1);
    }
    bw_ctx_free(c->ctx);
    return NULL;
}

static void test_collection_drop__under_readers(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    cell_init(c, &o);
    world w = {.c = c};
    pthread_t threads[READERS];
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, drop_reader, &w), 0);
    for (unsigned i = 0; i < 15; i++) {
        cell_collection(c, DIM, BW_METRIC_DOT, 3);
        write_round(c, i);
        bool existed;
        OK(bw_collection_drop(c->ctx, c->engine, TENANT, NAME, &existed));
        bw_ctx_reset(c->ctx);
    }
    atomic_store(&w.stop, true);
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    cell_clear(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view__shows_one_committed_state_while_points_move),
        cmocka_unit_test(test_collection_drop__under_readers),
    };
    return cmocka_run_group_tests_name("concurrency", tests, NULL, NULL);
}
