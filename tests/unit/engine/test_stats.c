/* The ledger of memory adds up to what the engine has allocated, and shrinks with it. */
#include "engine_cell.h"

#include "engine/base/json.h"
#include <malloc.h>

enum { DIM = 64, ROWS = 6000 };

static _Atomic long live; /* bytes that the engine holds */

static void *count_alloc(size_t n)
{
    void *p = malloc(n);
    live += (long)malloc_usable_size(p);
    return p;
}

static void *count_realloc(void *old, size_t n)
{
    live -= (long)malloc_usable_size(old);
    void *p = realloc(old, n);
    live += (long)malloc_usable_size(p ? p : old);
    return p;
}

static void count_free(void *p)
{
    live -= (long)malloc_usable_size(p);
    free(p);
}

static const bw_allocator counting = {count_alloc, count_realloc, count_free};

static uint64_t figure(cell *c, const char *name, bool in_ledger)
{
    bw_str json;
    bw_json *doc;
    uint64_t n = 0;
    OK(bw_engine_stats(c->ctx, c->engine, &json));
    OK(bw_json_parse(c->ctx, json, BW_JSON_REQUEST, &doc));
    const bw_json *at = doc;
    if (in_ledger)
        at = bw_json_get(doc, "ledger")->child;
    assert_true(bw_json_u64(bw_json_get(at, name), &n));
    return n;
}

static void test_stats__the_ledger_adds_up(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.seal_rows = 2000;
    o.exact_rows = 1000;
    o.graphs_first = true;
    o.adopt_rows = 500;
    o.null_sync = true;
    cell_init(c, &o);
    long before = live;
    cell_collection(c, DIM, BW_METRIC_MANHATTAN, 4); /* no graph: FAISS's own memory */
    for (uint64_t i = 0; i < ROWS; i += 500)
        cell_upsert_range(c, 1, i, i + 500, DIM);
    bw_ctx_reset(c->ctx);
    double held = (double)(live - before);
    double said = (double)figure(c, "memory_bytes", false);
    printf("held %.0f, said %.0f\n", held, said);
    /* Above: growing blocks that a reader may hold; below: small objects, SQLite aside. */
    assert_true(said > 0.8 * held && said < 1.1 * held);
    assert_int_equal(figure(c, "points", true), ROWS);
    uint64_t parts = 0;
    static const char *const names[] = {"vector_bytes", "code_bytes", "graph_bytes",
                                        "id_bytes",     "row_bytes",  "sparse_bytes",
                                        "word_bytes",   "payload_index_bytes"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(figure(c, names[i], true), figure(c, names[i], false));
        parts += figure(c, names[i], true);
    }
    assert_int_equal(parts, figure(c, "memory_bytes", true));
    assert_true(figure(c, "vector_bytes", true) >= ROWS * DIM * sizeof(float));
    assert_int_equal(figure(c, "file_bytes", false), 0);

    bw_point_id *ids = bw_arena_calloc(c->ctx, ROWS, sizeof *ids);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = cell_id(i);
    bw_access a = cell_access(c, 1, 4);
    bw_op op = {.kind = BW_OP_DELETE, .ids = ids, .nids = ROWS};
    bw_write_result r;
    OK(cell_write(c, &a, &op, 1, &r));
    cell_upsert_range(c, 1, 90000, 90500, DIM);
    bw_ctx_reset(c->ctx);
    assert_true((double)(live - before) < 0.6 * held); /* vectors and rows have gone */
    assert_true(figure(c, "vector_bytes", true) < ROWS * DIM);
    cell_clear(c);
    assert_true(live < before + 65536);
}

/* A merge's graph is made before it serves, beside those that do: both are counted. */
static void test_stats__a_pending_merge_is_in_the_ledger(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.seal_rows = 1000;
    o.exact_rows = 500;
    o.graphs_first = true;
    o.adopt_rows = 100;
    o.null_sync = true;
    cell_init(c, &o);
    long before = live;
    cell_collection(c, DIM, BW_METRIC_DOT, 4);
    for (uint64_t i = 0; i < 4100; i += 100)
        cell_upsert_range(c, 1, i, i + 100, DIM);
    bw_ctx_reset(c->ctx);
    assert_int_equal(figure(c, "merges_pending", false), 1);
    for (int i = 0; i < 60000 && figure(c, "graphs_pending", false) > 0; i++) {
        bw_ctx_reset(c->ctx);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    assert_int_equal(figure(c, "graphs_pending", false), 0);
    assert_int_equal(figure(c, "merges_pending", false), 1); /* nobody wrote */
    bw_ctx_reset(c->ctx);
    double held = (double)(live - before);
    double said = (double)figure(c, "memory_bytes", false);
    printf("held %.0f, said %.0f\n", held, said);
    assert_true(said > 0.8 * held && said < 1.1 * held);
    cell_clear(c);
}

/* The totals alone are the same as those of the object, and no more of them for more
 * collections. */
static void test_stats__totals_come_without_the_collections(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    bw_engine_figures few, many;
    o.null_sync = true;
    cell_init(c, &o);
    bw_engine_figures_get(c->engine, &few);
    assert_int_equal(few.collections, 0);
    cell_collection(c, 4, BW_METRIC_DOT, 4);
    cell_upsert_range(c, 1, 0, 50, 4);
    bw_engine_figures_get(c->engine, &many);
    assert_int_equal(many.collections, 1);
    assert_int_equal(many.n, few.n);
    bw_str json;
    bw_json *doc;
    size_t whole = 0;
    OK(bw_engine_stats(c->ctx, c->engine, &json));
    OK(bw_json_parse(c->ctx, json, BW_JSON_REQUEST, &doc));
    for (const bw_json *m = doc->child; m; m = m->next)
        whole += m->kind == BW_JSON_NUMBER;
    assert_int_equal(whole, many.n);
    for (size_t i = 0; i < many.n; i++) {
        uint64_t n;
        assert_true(bw_json_u64(bw_json_get(doc, many.each[i].name), &n));
        assert_int_equal(n, many.each[i].value);
    }
    assert_int_equal(figure(c, "points", false), 50);
    cell_clear(c);
}

/* Payload indexes are in it: of numbers, and of words of which each is one row's. */
static void test_stats__payload_indexes_are_in_the_ledger(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    cell_init(c, &o);
    cell_collection(c, 4, BW_METRIC_DOT, 4);
    for (uint64_t i = 0; i < ROWS; i += 500) {
        bw_point p[500];
        for (uint64_t k = 0; k < 500; k++) {
            p[k] = cell_point(c, 1, i + k, 4, NULL);
            p[k].payload = bw_str_c(bw_arena_printf(c->ctx, "{\"n\":%llu,\"w\":\"word %llu\"}",
                                                    (unsigned long long)(i + k),
                                                    (unsigned long long)(i + k)));
        }
        cell_upsert(c, p, 500);
        bw_ctx_reset(c->ctx);
    }
    static const char *const fields[][2] = {{"n", "integer"}, {"w", "keyword"}};
    for (size_t i = 0; i < 2; i++) {
        uint64_t said = figure(c, "payload_index_bytes", true),
                 all = figure(c, "memory_bytes", false);
        bw_ctx_reset(c->ctx);
        long before = live;
        bw_index_spec spec = {.field = bw_str_c(fields[i][0]), .type = bw_str_c(fields[i][1])};
        OK(bw_collection_index_put(c->ctx, c->engine, TENANT, NAME, &spec));
        bw_ctx_reset(c->ctx);
        double held = (double)(live - before);
        double more = (double)(figure(c, "payload_index_bytes", true) - said);
        printf("%s: held %.0f, said %.0f\n", fields[i][1], held, more);
        assert_true(more > 0.5 * held && more < 1.2 * held);
        assert_true(more > ROWS * 16);
        assert_int_equal(figure(c, "memory_bytes", false) - all, (uint64_t)more);
        assert_int_equal(figure(c, "payload_index_bytes", false),
                         figure(c, "payload_index_bytes", true));
    }
    cell_clear(c);
}

int main(void)
{
    bw_allocator_set(&counting);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stats__the_ledger_adds_up),
        cmocka_unit_test(test_stats__a_pending_merge_is_in_the_ledger),
        cmocka_unit_test(test_stats__totals_come_without_the_collections),
        cmocka_unit_test(test_stats__payload_indexes_are_in_the_ledger),
    };
    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
