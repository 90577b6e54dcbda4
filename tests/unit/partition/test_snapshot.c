/* What a snapshot shows: ids in order, found and not found, through many small writes.
 */
#include "engine_cell.h"
#include "engine/plan/select.h"
#include "rnd.h"

enum { DIM = 2, IDS = 300 };

static bw_point_id id_of(unsigned n)
{
    /* Integers and UUIDs mixed, in no order of n. */
    uint64_t h = (n + 1) * 0x9E3779B97F4A7C15u;
    return n % 3 ? (bw_point_id){h, n, 1, 0} : (bw_point_id){0, h, 0, 0};
}

static void check(cell *c, const bool *there, unsigned count)
{
    bw_view v = cell_view(c, 1, 1);
    const bw_snapshot *s = v.parts[0];
    const uint32_t *rows;
    size_t n;
    OK(bw_snapshot_by_id(c->ctx, s, &rows, &n));
    assert_int_equal(n, count);
    for (size_t i = 0; i < n; i++) {
        assert_true(bw_bitmap_get(bw_snapshot_live(s), rows[i]));
        if (i > 0)
            assert_true(bw_point_id_cmp(bw_snapshot_id(s, rows[i - 1]),
                                        bw_snapshot_id(s, rows[i])) < 0);
    }
    for (unsigned k = 0; k < IDS; k++) {
        bw_point_id id = id_of(k);
        uint32_t row;
        assert_int_equal(bw_snapshot_find(s, &id, &row), there[k]);
        if (there[k])
            assert_int_equal(bw_point_id_cmp(bw_snapshot_id(s, row), &id), 0);
    }
    bw_view_close(&v);
}

static void test_snapshot_by_id__stays_sorted_through_writes(void **state)
{
    (void)state;
    rnd r = rnd_start("snapshot", 5);
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    o.seal_rows = 400; /* the numbering is renewed under way */
    o.exact_rows = 200;
    o.graphs_first = true;
    o.adopt_rows = 100000;
    cell_init(c, &o);
    cell_collection(c, DIM, BW_METRIC_DOT, 1);
    bool there[IDS] = {false};
    unsigned count = 0;
    for (unsigned w = 0; w < 150; w++) {
        uint32_t n = 1 + (uint32_t)rnd_below(&r, 25);
        bw_point p[25];
        bw_point_id ids[25];
        bool put = rnd_below(&r, 3) > 0 || w == 0;
        for (uint32_t i = 0; i < n; i++) {
            unsigned k = (unsigned)rnd_below(&r, IDS);
            p[i] = cell_point(c, 1, k, DIM, NULL);
            p[i].id = ids[i] = id_of(k);
            count += put && !there[k] ? 1 : 0;
            count -= !put && there[k] ? 1 : 0;
            there[k] = put;
        }
        bw_access a = cell_access(c, 1, 1);
        bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = n};
        if (!put)
            op = (bw_op){.kind = BW_OP_DELETE, .ids = ids, .nids = n};
        bw_write_result res;
        OK(cell_write(c, &a, &op, 1, &res));
        if (rnd_below(&r, 3)) /* some snapshots are never asked for their order */
            check(c, there, count);
        if (w % 50 == 49)
            cell_reopen(c);
        bw_ctx_reset(c->ctx);
    }
    check(c, there, count);
    cell_clear(c);
}

/* Each condition may be the work of all rows, and a filter has many of them. */
static void test_select__looks_at_the_time_at_every_condition(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    cell_init(c, &o);
    cell_collection(c, DIM, BW_METRIC_DOT, 1);
    bw_point p = cell_point(c, 1, 7, DIM, NULL);
    bw_op op = {.kind = BW_OP_UPSERT, .points = &p, .npoints = 1};
    bw_access access = cell_access(c, 1, 1);
    bw_write_result r;
    OK(cell_write(c, &access, &op, 1, &r));
    bw_view v = cell_view(c, 1, 1);
    bw_condition has = {.kind = BW_COND_HAS_ID, .ids = &p.id, .nids = 1};
    bw_filter filter = {.must = &has, .nmust = 1};
    bw_bitmap rows;
    bool indexed;
    OK(bw_bitmap_arena(c->ctx, bw_snapshot_nrows(v.parts[0]), &rows));
    OK(bw_filter_select(c->ctx, v.parts[0], NULL, &filter, bw_snapshot_live(v.parts[0]),
                        &rows, &indexed));
    assert_true(indexed && bw_bitmap_count(&rows) == 1);
    bw_ctx_set_deadline(c->ctx, 1);
    assert_int_equal(bw_filter_select(c->ctx, v.parts[0], NULL, &filter,
                                      bw_snapshot_live(v.parts[0]), &rows, &indexed),
                     BW_ETIMEOUT);
    bw_ctx_set_deadline(c->ctx, 0);
    bw_view_close(&v);
    cell_clear(c);
}

/* One row, one filter: what its conditions read together is much. */
static void test_matches__many_conditions_over_a_long_payload_look_at_the_time(void **state)
{
    (void)state;
    enum { CONDITIONS = 400, TEXT = 4000 };
    static char payload[TEXT + 16];
    static bw_condition conds[CONDITIONS];
    bw_ctx *ctx = bw_ctx_new(0);
    bw_point_id id = {0};
    bool out;
    assert_non_null(ctx);
    memset(payload, 'x', sizeof payload);
    memcpy(payload, "{\"v\":\"", 6);
    memcpy(payload + sizeof payload - 2, "\"}", 2);
    for (size_t i = 0; i < CONDITIONS; i++)
        conds[i] = (bw_condition){.kind = BW_COND_MATCH_TEXT,
                                  .key = BW_STR("v"),
                                  .text = BW_STR("other")};
    bw_filter filter = {.must_not = conds, .nmust_not = CONDITIONS};
    assert_int_equal(bw_filter_matches(ctx, &filter, &id,
                                       (bw_str){payload, sizeof payload}, NULL, 0, &out),
                     BW_OK);
    assert_true(out);
    bw_ctx_set_deadline(ctx, 1);
    assert_int_equal(bw_filter_matches(ctx, &filter, &id,
                                       (bw_str){payload, sizeof payload}, NULL, 0, &out),
                     BW_ETIMEOUT);
    bw_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot_by_id__stays_sorted_through_writes),
        cmocka_unit_test(test_select__looks_at_the_time_at_every_condition),
        cmocka_unit_test(
            test_matches__many_conditions_over_a_long_payload_look_at_the_time),
    };
    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
