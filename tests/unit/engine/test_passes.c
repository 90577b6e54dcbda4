/* Passes over the data: a batch gives the bits of single queries, scans of codes those of
 * plain scans, graphs are left alone below the count of permitted rows, and what a read
 * costs follows what it may see: files opened, rows touched, in counts. */
#include "engine_cell.h"

#include "engine/index/choose.h"
#include "engine/partition/part.h"

enum { DIM = 40, CLASSES = 5, EACH = 600, QUERIES = 80 };

static bw_query nearest(cell *c, uint64_t seed, uint32_t limit)
{
    const bw_vector *v = cell_point(c, 9, seed, DIM, NULL).vectors;
    return (bw_query){.kind = BW_QUERY_NEAREST,
                      .using_name = BW_STR(""),
                      .target = {.vector = *v},
                      .limit = limit};
}

static void put_hits(bw_buf *b, const bw_result *r, size_t query)
{
    size_t n;
    const bw_hit *hits = bw_result_hits(r, query, &n);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &hits[i].score, sizeof bits);
        bw_buf_printf(b, "%llu/%u:%08x ", (unsigned long long)hits[i].id.lo,
                      hits[i].class_id.bytes[1], bits);
    }
    bw_buf_putc(b, '\n');
}

static bw_str run(cell *c, const bw_query *q, size_t n, unsigned to, bool together)
{
    bw_buf b = {0};
    bw_permit permit = cell_permit(c, 1, to);
    bw_read read = {.tenant = TENANT, .name = NAME, .permit = &permit, .now_ns = 1};
    for (size_t i = 0; i < (together ? 1 : n); i++) {
        bw_result *r;
        OK(bw_query_run(c->ctx, c->engine, &read, q + i, together ? n : 1, &r));
        for (size_t k = 0; k < (together ? n : 1); k++)
            put_hits(&b, r, k);
        bw_result_free(r);
    }
    bw_str out;
    OK(bw_arena_str(c->ctx, bw_buf_view(&b), &out));
    bw_buf_clear(&b);
    return out;
}

/* Graphs of 400 rows serve at once wherever less than exact will do. */
static bw_engine_options graphs_first(void)
{
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    o.seal_rows = 400;
    o.exact_rows = 200;
    o.graphs_first = true;
    o.adopt_rows = 1;
    return o;
}

static bool on_disk; /* of the collections that are made from here on */

static void make(cell *c, bw_metric metric, bw_dtype t, unsigned classes, uint64_t each)
{
    bw_vector_spec spec = {.name = BW_STR(""),
                           .dim = DIM,
                           .metric = metric,
                           .dtype = t,
                           .on_disk = on_disk};
    bw_collection_info info = {
        .tenant = TENANT, .name = NAME, .vectors = &spec, .nvectors = 1};
    OK(bw_collection_create(c->ctx, c->engine, &info));
    for (unsigned i = 1; i <= classes; i++) {
        bw_class_id id = cell_class(i);
        OK(bw_class_put(c->ctx, c->engine, &id, BW_STR("labels")));
        bw_access a = cell_access(c, i, i); /* one does not see the others' ids */
        bw_point *p = bw_arena_calloc(c->ctx, each, sizeof *p);
        for (uint64_t k = 0; k < each; k++)
            p[k] = cell_point(c, i, k % 7 ? i * 10000 + k : k, DIM, NULL);
        bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = (uint32_t)each};
        bw_write_result r;
        OK(cell_write(c, &a, &op, 1, &r));
    }
}

static void check_batch(bw_metric metric, bw_dtype t)
{
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    cell_init(c, &o);
    make(c, metric, t, CLASSES, EACH);
    bw_point_id ids[40];
    for (size_t i = 0; i < 40; i++)
        ids[i] = cell_id(i % 2 ? 20000 + i : 7 * i);
    bw_condition some = {.kind = BW_COND_HAS_ID, .ids = ids, .nids = 40};
    bw_filter filter = {.must = &some, .nmust = 1};
    bw_query q[QUERIES];
    for (size_t i = 0; i < QUERIES; i++) {
        q[i] = nearest(c, 100 + i / 2, (uint32_t)(1 + i * 3 % 70));
        if (i % 9 == 4)
            q[i].filter = &filter;
        if (i % 10 == 5)
            q[i].target = (bw_target){.by_id = true, .id = cell_id(20001)};
        if (i % 11 == 6)
            q[i].kind = BW_QUERY_NONE;
        q[i].offset = i % 13 == 7;
        q[i].show_all_copies = i / 20 % 2;
    }
    bw_str single = run(c, q, QUERIES, CLASSES, false);
    assert_true(bw_str_eq(single, run(c, q, QUERIES, CLASSES, true)));
    cell_reopen(c); /* blocks of other sizes, the same bits */
    assert_true(bw_str_eq(single, run(c, q, QUERIES, CLASSES, true)));
    cell_clear(c);
}

static void test_batch__gives_the_bits_of_single_queries(void **state)
{
    (void)state;
    check_batch(BW_METRIC_COSINE, BW_DTYPE_F32);
    check_batch(BW_METRIC_DOT, BW_DTYPE_I8);
    check_batch(BW_METRIC_EUCLID, BW_DTYPE_F16);
    check_batch(BW_METRIC_MANHATTAN, BW_DTYPE_BF16);
}

static void test_batch__ends_at_the_deadline_without_an_answer(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    cell_init(c, &o);
    make(c, BW_METRIC_DOT, BW_DTYPE_F32, 2, EACH);
    bw_query q[3] = {nearest(c, 1, 5), nearest(c, 2, 5), nearest(c, 3, 5)};
    bw_permit permit = cell_permit(c, 1, 2);
    bw_read read = {.tenant = TENANT, .name = NAME, .permit = &permit, .now_ns = 1};
    for (size_t n = 1; n <= 3; n += 2) {
        bw_result *r = NULL;
        bw_ctx_set_deadline(c->ctx, 1);
        assert_int_equal(bw_query_run(c->ctx, c->engine, &read, q, n, &r), BW_ETIMEOUT);
        assert_null(r);
        bw_ctx_set_deadline(c->ctx, 0);
    }
    bw_str one = run(c, q, 3, 2, true);
    assert_true(one.len > 0);
    cell_clear(c);
}

static bw_status run_brief(cell *c, const bw_query *q, uint64_t until_ns, bool *cut)
{
    bw_permit permit = cell_permit(c, 1, 2);
    bw_read read = {.tenant = TENANT, .name = NAME, .permit = &permit, .now_ns = 1};
    bw_result *r = NULL;
    bw_ctx_set_brief(c->ctx, until_ns);
    bw_status st = bw_query_run(c->ctx, c->engine, &read, q, 1, &r);
    *cut = bw_ctx_was_cut(c->ctx);
    bw_ctx_set_brief(c->ctx, 0);
    bw_result_free(r);
    return st;
}

/* A brief attempt opens no file, neither a partition's nor one of rows, and ends at its
 * time; nothing of it stays. */
static void test_brief__waits_for_no_file_and_ends_at_its_time(void **state)
{
    (void)state;
    for (int disk = 0; disk < 2; disk++) {
        cell own, *c = &own;
        bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
        o.null_sync = true;
        o.seal_rows = 400;
        cell_init(c, &o);
        on_disk = disk;
        make(c, BW_METRIC_DOT, BW_DTYPE_F32, 2, EACH);
        on_disk = false;
        bw_query q = nearest(c, 1, 5);
        bool cut;
        bw_str want = run(c, &q, 1, 2, false);
        cell_reopen(c);
        q = nearest(c, 1, 5);
        assert_int_equal(run_brief(c, &q, UINT64_MAX, &cut), BW_ETIMEOUT);
        assert_true(cut); /* it is not loaded */
        bw_str whole = run(c, &q, 1, 2, false);
        assert_int_equal(run_brief(c, &q, UINT64_MAX, &cut), disk ? BW_ETIMEOUT : BW_OK);
        assert_int_equal(cut, disk);
        assert_int_equal(run_brief(c, &q, 1, &cut), BW_ETIMEOUT);
        assert_true(cut && bw_str_eq(want, whole));
        cell_clear(c);
    }
}

/* ---- what the planner did, from explain ---- */

static bw_search_trace trace_of(cell *c, const bw_search_params *p, const float *query)
{
    bw_candidate items[64];
    bw_topk t;
    bw_search_trace trace = {0};
    bw_view v = cell_view(c, 1, 1);
    bw_search_params own = *p;
    own.allowed = bw_snapshot_live(v.parts[0]);
    bw_topk_init(&t, items, p->k);
    OK(bw_snapshot_search_dense(c->ctx, v.parts[0], query, &own, &t, &trace));
    bw_view_close(&v);
    return trace;
}

static void test_planner__uses_graphs_only_where_less_than_exact_will_do(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_engine_options o = graphs_first();
    cell_init(c, &o);
    make(c, BW_METRIC_EUCLID, BW_DTYPE_F32, 1, 400);
    bw_point p = cell_point(c, 1, 50000, DIM, NULL);
    cell_upsert(c, &p, 1); /* the graph is adopted */
    const float *q = cell_point(c, 9, 7, DIM, NULL).vectors->values;
    bw_search_params base = {.k = 10, .permitted = 401};
    assert_int_equal(trace_of(c, &base, q).segments_graph, 1);
    base.permitted = 10; /* so few rows in all: exact unless told */
    bw_search_trace t = trace_of(c, &base, q);
    assert_int_equal(t.segments_graph, 0);
    assert_int_equal(t.rows_scanned, 401);
    assert_int_equal(t.rows_permitted, 401);
    assert_true(t.loss == 0 && t.unmeasured == 0);
    base.recall = 0.95f;
    assert_int_equal(trace_of(c, &base, q).segments_graph, 1);
    base.recall = 1;
    assert_int_equal(trace_of(c, &base, q).segments_graph, 0);
    base.recall = 0;
    base.ef_search = 20;
    t = trace_of(c, &base, q);
    assert_int_equal(t.segments_graph, 1);
    assert_true(t.hops > 0 && t.hops < 400 && t.rows_rescored >= 10);
    base.exact = true;
    assert_int_equal(trace_of(c, &base, q).segments_graph, 0);
    cell_clear(c);
}

/* What a graph finds is rescored from rows of any precision, in memory or on file. */
static void test_planner__graphs_serve_every_precision_and_place(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * BW_NDTYPES; i++) {
        cell own, *c = &own;
        bw_engine_options o = graphs_first();
        on_disk = i >= BW_NDTYPES;
        cell_init(c, &o);
        make(c, BW_METRIC_COSINE, (bw_dtype)(i % BW_NDTYPES), 1, 400);
        bw_point p = cell_point(c, 1, 50000, DIM, NULL);
        cell_upsert(c, &p, 1);
        bw_query q[8];
        for (uint64_t k = 0; k < 8; k++) {
            q[k] = nearest(c, 70 + k, 10);
            q[k].ef_search = 400;
        }
        bw_str found = run(c, q, 8, 1, false);
        for (uint64_t k = 0; k < 8; k++)
            q[k].exact = true;
        assert_true(bw_str_eq(found, run(c, q, 8, 1, true)));
        cell_reopen(c);
        assert_true(bw_str_eq(found, run(c, q, 8, 1, true)));
        cell_clear(c);
    }
    on_disk = false;
}

static void test_planner__reads_codes_of_growing_rows_and_rescores_few(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    cell_init(c, &o);
    make(c, BW_METRIC_COSINE, BW_DTYPE_F32, 1, MANY);
    const float *q = cell_point(c, 9, 7, DIM, NULL).vectors->values;
    bw_search_params base = {.k = 10, .permitted = MANY};
    bw_search_trace t = trace_of(c, &base, q);
    assert_int_equal(t.rows_permitted, MANY);
    assert_int_equal(t.rows_scanned, MANY);
    assert_int_equal(t.segments_codes, 1);
    assert_int_equal(t.segments_flat, 0);
    assert_true(t.rows_rescored >= 10 && t.rows_rescored < MANY / 2);
    cell_clear(c);
}

/* ---- and what it tells of it ---- */

static bw_str explained(cell *c, const bw_query *q, size_t n)
{
    bw_buf b = {0};
    bw_permit permit = cell_permit(c, 1, 2);
    bw_read read = {
        .tenant = TENANT, .name = NAME, .permit = &permit, .now_ns = 1, .explain = true};
    for (size_t i = 0; i < n; i++) {
        bw_result *r;
        OK(bw_query_run(c->ctx, c->engine, &read, &q[i], 1, &r));
        put_hits(&b, r, 0);
        bw_buf_puts(&b, bw_result_explain(r));
        bw_result_free(r);
    }
    bw_str out;
    OK(bw_arena_str(c->ctx, bw_buf_view(&b), &out));
    bw_buf_clear(&b);
    return out;
}

/* Growing rows come in pieces of many sizes, and some die; a sealed segment has a graph. */
static void uneven_writes(cell *c)
{
    for (uint64_t at = 0, n = 1; at < 330; at += n, n = n % 60 + 11)
        cell_upsert_range(c, 1, 60000 + at, 60000 + at + n, DIM);
    bw_access a = cell_access(c, 1, 2);
    bw_point_id ids[40];
    for (uint64_t i = 0; i < 40; i++)
        ids[i] = cell_id(60000 + 7 * i);
    bw_op ops[2] = {{.kind = BW_OP_DELETE, .ids = ids, .nids = 30},
                    {.kind = BW_OP_OVERWRITE_PAYLOAD,
                     .ids = ids + 30,
                     .nids = 10,
                     .payload = BW_STR("{\"n\":5}")}};
    bw_write_result r;
    OK(cell_write(c, &a, ops, 2, &r));
}

static void test_explain__counts_are_the_same_after_a_restart(void **state)
{
    (void)state;
    for (int t = 0; t < BW_NDTYPES; t++) {
        cell own, *c = &own;
        bw_engine_options o = graphs_first();
        cell_init(c, &o);
        make(c, BW_METRIC_COSINE, (bw_dtype)t, 2, 400);
        uneven_writes(c);
        bw_point_id ids[300];
        for (uint64_t i = 0; i < 300; i++)
            ids[i] = cell_id(i % 2 ? 60000 + i : 10001 + i);
        bw_condition some = {.kind = BW_COND_HAS_ID, .ids = ids, .nids = 300};
        bw_filter filter = {.must = &some, .nmust = 1};
        bw_query q[12];
        for (size_t i = 0; i < 12; i++) {
            q[i] = nearest(c, 300 + i, i % 4 == 3 ? 100 : 10);
            q[i].exact = i % 3 == 0;
            q[i].recall = i % 3 == 1 ? 0.95f : 0;
            q[i].filter = i >= 6 ? &filter : NULL;
        }
        bw_str before = explained(c, q, 12), plain = run(c, q, 12, 2, false);
        cell_reopen(c);
        bw_str after = explained(c, q, 12);
        if (!bw_str_eq(before, after))
            fail_msg("before %.*s\nafter %.*s", (int)before.len, before.ptr, (int)after.len,
                     after.ptr);
        assert_true(bw_str_eq(plain, run(c, q, 12, 2, false)));
        assert_non_null(memmem(before.ptr, before.len, "\"segments_graph\":1", 18));
        assert_non_null(memmem(before.ptr, before.len, "\"segments_codes\":1", 18));
        /* Telling of it changes no hit. */
        for (const char *hit = plain.ptr, *end; hit < plain.ptr + plain.len; hit = end + 1) {
            end = memchr(hit, '\n', (size_t)(plain.ptr + plain.len - hit));
            assert_non_null(end);
            assert_non_null(memmem(before.ptr, before.len, hit, (size_t)(end - hit)));
        }
        cell_clear(c);
    }
}

/* ---- many classes ---- */

static bw_str figures(cell *c, const char *name, uint64_t *out)
{
    bw_str json;
    OK(bw_engine_stats(c->ctx, c->engine, &json));
    const char *key = bw_arena_printf(c->ctx, "\"%s\":", name);
    const char *at = memmem(json.ptr, json.len, key, strlen(key));
    assert_non_null(at);
    *out = strtoull(at + strlen(key), NULL, 10);
    return json;
}

static void test_classes__cost_what_is_permitted_not_what_there_is(void **state)
{
    (void)state;
    enum { MANY = 300 };
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    cell_init(c, &o);
    make(c, BW_METRIC_COSINE, BW_DTYPE_F32, MANY, 6);
    cell_reopen(c);
    uint64_t n;
    figures(c, "partitions_loaded", &n);
    assert_int_equal(n, 0);
    bw_query q = nearest(c, 1, 10);
    q.show_all_copies = true; /* else a copy makes a second pass */
    bw_permit permit = cell_permit(c, 5, 7);
    bw_read read = {
        .tenant = TENANT, .name = NAME, .permit = &permit, .now_ns = 1, .explain = true};
    bw_result *r;
    OK(bw_query_run(c->ctx, c->engine, &read, &q, 1, &r));
    const char *plan = bw_result_explain(r);
    assert_non_null(strstr(plan, "\"partitions\":3"));
    assert_non_null(strstr(plan, "\"rows_permitted\":18,\"rows_scanned\":18"));
    bw_result_free(r);
    figures(c, "partitions_loaded", &n);
    assert_int_equal(n, 3); /* opening is lazy, and only of what is permitted */
    figures(c, "files_open", &n);
    assert_int_equal(n, 3);
    cell_clear(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch__gives_the_bits_of_single_queries),
        cmocka_unit_test(test_batch__ends_at_the_deadline_without_an_answer),
        cmocka_unit_test(test_brief__waits_for_no_file_and_ends_at_its_time),
        cmocka_unit_test(test_planner__uses_graphs_only_where_less_than_exact_will_do),
        cmocka_unit_test(test_planner__graphs_serve_every_precision_and_place),
        cmocka_unit_test(test_planner__reads_codes_of_growing_rows_and_rescores_few),
        cmocka_unit_test(test_explain__counts_are_the_same_after_a_restart),
        cmocka_unit_test(test_classes__cost_what_is_permitted_not_what_there_is),
    };
    return cmocka_run_group_tests_name("passes", tests, NULL, NULL);
}
