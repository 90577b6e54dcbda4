/* Vectors in each stored precision: what comes back, what a restart and a change of the
 * payload leave alone, what does not fit, and that a search over them is exact. */
#include "engine_cell.h"

#include "engine/kernels/kernels.h"
#include "engine/kernels/typed.h"
#include "engine/partition/part.h"
#include <math.h>
#include <sqlite3.h>

enum { DIM = 21, ROWS = 700 };

static const bw_dtype all_types[] = {BW_DTYPE_F32, BW_DTYPE_F16, BW_DTYPE_BF16,
                                     BW_DTYPE_I8};

static void make(cell *c, bw_metric metric, bw_dtype t)
{
    bw_vector_spec spec = {
        .name = BW_STR(""), .dim = DIM, .metric = metric, .dtype = t};
    bw_vector_spec specs[2] = {spec, {.name = BW_STR("words"), .sparse = true}};
    bw_collection_info info = {
        .tenant = TENANT, .name = NAME, .vectors = specs, .nvectors = 2};
    OK(bw_collection_create(c->ctx, c->engine, &info));
    for (unsigned i = 1; i <= 4; i++) {
        bw_class_id id = cell_class(i);
        OK(bw_class_put(c->ctx, c->engine, &id, BW_STR("labels")));
    }
}

/* What the cell must hold of a point's vector. */
static void expect(bw_metric metric, bw_dtype t, const bw_point *p, float out[DIM])
{
    float given[DIM], scale = 0;
    char stored[DIM * 4];
    memcpy(given, p->vectors->values, sizeof given);
    if (metric == BW_METRIC_COSINE)
        bw_normalize_f32(given, DIM);
    assert_true(bw_encode_rows(t, given, 1, DIM, stored, &scale));
    bw_decode_rows(t, stored, &scale, 1, DIM, out);
}

static void check_rows(cell *c, bw_metric metric, bw_dtype t, uint64_t n)
{
    bw_view v = cell_view(c, 1, 1);
    assert_int_equal(v.info.vectors[0].dtype, t);
    for (uint64_t i = 0; i < n; i++) {
        bw_arena_mark mark = bw_arena_mark_get(c->ctx);
        bw_point p = cell_point(c, 1, i, DIM, NULL);
        float want[DIM];
        uint32_t row;
        expect(metric, t, &p, want);
        assert_true(bw_snapshot_find(v.parts[0], &p.id, &row));
        assert_memory_equal(cell_dense(c, v.parts[0], 0, row), want, sizeof want);
        bw_arena_release(c->ctx, mark);
    }
    bw_view_close(&v);
}

/* The k best by the f32 kernel over the decoded rows, the long way. */
static void check_search(cell *c, bw_metric metric)
{
    enum { K = 25 };
    const bw_kernels *k = bw_kernels_get();
    bw_view v = cell_view(c, 1, 1);
    const bw_snapshot *s = v.parts[0];
    const bw_bitmap *live = bw_snapshot_live(s);
    for (unsigned q = 0; q < 5; q++) {
        bw_arena_mark mark = bw_arena_mark_get(c->ctx);
        float *query = bw_arena_alloc(c->ctx, DIM * sizeof *query);
        memcpy(query, cell_point(c, 9, 5000 + q, DIM, NULL).vectors->values,
               DIM * sizeof *query);
        bw_candidate want[K], got[K];
        bw_topk a, b;
        bw_topk_init(&a, want, K);
        bw_topk_init(&b, got, K);
        for (size_t i = bw_bitmap_next(live, 0); i < live->nbits;
             i = bw_bitmap_next(live, i + 1)) {
            const float *row = cell_dense(c, s, 0, (uint32_t)i);
            bw_candidate x = {bw_metric_key(k, metric, query, row, DIM), 3, (uint32_t)i,
                              *bw_snapshot_id(s, (uint32_t)i)};
            bw_topk_push(&a, &x);
        }
        bw_search_params p = {.k = K, .exact = true, .allowed = live, .part = 3};
        bw_search_trace t = {0};
        OK(bw_snapshot_search_dense(c->ctx, s, query, &p, &b, &t));
        assert_int_equal(t.rows_scanned, bw_bitmap_count(live));
        bw_topk_sort(&a);
        bw_topk_sort(&b);
        assert_int_equal(a.n, b.n);
        for (size_t i = 0; i < a.n; i++) {
            assert_int_equal(bw_candidate_cmp(&want[i], &got[i]), 0);
            assert_memory_equal(&want[i].key, &got[i].key, sizeof want[i].key);
        }
        bw_arena_release(c->ctx, mark);
    }
    bw_view_close(&v);
}

static void each(bw_metric metric, bw_dtype t)
{
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    cell_init(c, &o);
    make(c, metric, t);
    for (uint64_t i = 0; i < ROWS; i += 70)
        cell_upsert_range(c, 1, i, i + 70, DIM);
    check_rows(c, metric, t, ROWS);
    check_search(c, metric);
    /* A change of the payload makes new rows of the same vectors. */
    bw_access a = cell_access(c, 1, 4);
    bw_point_id ids[3] = {cell_id(5), cell_id(69), cell_id(ROWS - 1)};
    bw_op op = {.kind = BW_OP_OVERWRITE_PAYLOAD,
                .ids = ids,
                .nids = 3,
                .payload = BW_STR("{\"b\":1}")};
    bw_write_result r;
    OK(cell_write(c, &a, &op, 1, &r));
    assert_int_equal(r.points_changed, 3);
    check_rows(c, metric, t, ROWS);
    bw_str before = cell_dump(c, 1, 1, DIM);
    cell_reopen(c);
    assert_true(bw_str_eq(before, cell_dump(c, 1, 1, DIM)));
    check_rows(c, metric, t, ROWS);
    check_search(c, metric);
    cell_clear(c);
}

static void test_dtype__rows_come_back_as_they_were_encoded(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof all_types / sizeof *all_types; i++)
        for (int m = BW_METRIC_COSINE; m <= BW_METRIC_MANHATTAN; m++)
            each((bw_metric)m, all_types[i]);
}

static void test_dtype__what_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    cell_init(c, &o);
    make(c, BW_METRIC_DOT, BW_DTYPE_F16);
    cell_upsert_range(c, 1, 0, 20, DIM);
    cell_upsert_range(c, 2, 100, 120, DIM);
    bw_str before = cell_dump(c, 1, 2, DIM);
    bw_point p[3] = {cell_point(c, 1, 3, DIM, NULL), cell_point(c, 2, 300, DIM, NULL),
                     cell_point(c, 1, 21, DIM, NULL)};
    float values[DIM] = {1.0f, 65504.0f, 70000.0f};
    p[1].vectors = &(bw_vector){.name = BW_STR(""), .values = values, .n = DIM};
    bw_access a = cell_access(c, 1, 4);
    bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = 3};
    bw_write_result r;
    assert_int_equal(cell_write(c, &a, &op, 1, &r), BW_EINVALID);
    assert_non_null(strstr(bw_ctx_message(c->ctx), "float16"));
    assert_true(bw_str_eq(before, cell_dump(c, 1, 2, DIM)));
    cell_reopen(c);
    assert_true(bw_str_eq(before, cell_dump(c, 1, 2, DIM)));
    values[2] = -65504.0f; /* the largest that fits */
    OK(cell_write(c, &a, &op, 1, &r));
    assert_int_equal(cell_count(c, 1, 2), 42);
    cell_clear(c);
}

static void sql(sqlite3 *db, const char *text)
{
    char *why = NULL;
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", text, why);
}

/* A catalogue of version 1 has none of these columns. */
static void test_catalogue__of_the_first_version_opens(void **state)
{
    (void)state;
    cell own, *c = &own;
    char path[128];
    sqlite3 *db;
    cell_init(c, NULL);
    make(c, BW_METRIC_COSINE, BW_DTYPE_F32);
    cell_upsert_range(c, 1, 0, 20, DIM);
    bw_str before = cell_dump(c, 1, 1, DIM);
    bw_engine_close(c->engine);
    c->engine = NULL;
    const int n = snprintf(path, sizeof path, "%s/catalogue.db", c->dir);
    assert_in_range(n, 1, sizeof path - 1);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sql(db, "ALTER TABLE vector DROP COLUMN dtype; ALTER TABLE vector DROP COLUMN "
            "on_disk; ALTER TABLE vector DROP COLUMN kind; ALTER TABLE vector DROP "
            "COLUMN m; ALTER TABLE vector DROP COLUMN ef; PRAGMA user_version=1");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    for (int round = 0; round < 2; round++) {
        cell_open(c);
        assert_true(bw_str_eq(before, cell_dump(c, 1, 1, DIM)));
        bw_collection_info info;
        OK(bw_collection_get(c->ctx, c->engine, TENANT, NAME, &info));
        assert_int_equal(info.vectors[0].dtype, BW_DTYPE_F32);
        assert_int_equal(info.vectors[0].index, BW_INDEX_AUTO);
        assert_false(info.vectors[0].on_disk);
        bw_engine_close(c->engine);
        c->engine = NULL;
    }
    cell_clear(c);
}

static void test_catalogue__keeps_what_a_vector_was_made_with(void **state)
{
    (void)state;
    cell own, *c = &own;
    cell_init(c, NULL);
    bw_vector_spec spec = {.name = BW_STR("v"),
                           .dim = 3,
                           .dtype = BW_DTYPE_BF16,
                           .on_disk = true,
                           .index = BW_INDEX_FAISS_HNSW,
                           .m = 24,
                           .ef_construct = 200};
    bw_collection_info info = {
        .tenant = TENANT, .name = NAME, .vectors = &spec, .nvectors = 1};
    OK(bw_collection_create(c->ctx, c->engine, &info));
    for (int round = 0; round < 2; round++) {
        OK(bw_collection_get(c->ctx, c->engine, TENANT, NAME, &info));
        const bw_vector_spec *got = info.vectors;
        assert_int_equal(got->dtype, BW_DTYPE_BF16);
        assert_true(got->on_disk);
        assert_int_equal(got->index, BW_INDEX_FAISS_HNSW);
        assert_int_equal(got->m, 24);
        assert_int_equal(got->ef_construct, 200);
        cell_reopen(c);
    }
    spec.dtype = (bw_dtype)BW_NDTYPES;
    info = (bw_collection_info){
        .tenant = TENANT, .name = BW_STR("b"), .vectors = &spec, .nvectors = 1};
    assert_int_equal(bw_collection_create(c->ctx, c->engine, &info), BW_EINVALID);
    cell_clear(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtype__rows_come_back_as_they_were_encoded),
        cmocka_unit_test(test_dtype__what_does_not_fit_changes_nothing),
        cmocka_unit_test(test_catalogue__of_the_first_version_opens),
        cmocka_unit_test(test_catalogue__keeps_what_a_vector_was_made_with),
    };
    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}
