/* The n-th write or sync of SQLite fails, for every n until a run meets no fault, once
 * and for good; and the n-th allocation of ours. A refused write leaves nothing, an
 * acknowledged one is there, and the cell works again afterwards (after a failed sync:
 * when it is opened anew). */
#include "engine/store/failpoint.h"
#include "engine_cell.h"
#include "failing_alloc.h"
#include "fault_vfs.h"

enum { DIM = 4, RUNS_MAX = 600 };

static cell own, *c = &own;

/* One point in each of n classes, all with this round's number. */
static bw_status write_round(unsigned round, unsigned n)
{
    bw_point p[3];
    char *payload = bw_arena_printf(c->ctx, "{\"round\":%u}", round);
    if (!payload)
        return BW_ENOMEM;
    bw_class_id ids[3];
    for (unsigned i = 0; i < n; i++) {
        static const float values[DIM] = {1, 2, 3, 4};
        static const bw_vector vector = {.name = {"", 0}, .values = values, .n = DIM};
        ids[i] = cell_class(i + 1);
        p[i] = (bw_point){.id = cell_id(i + 1),
                          .class_id = ids[i],
                          .payload = bw_str_c(payload),
                          .text = BW_STR("some words"),
                          .vectors = &vector,
                          .nvectors = 1};
    }
    bw_permit permit = {ids, n};
    bw_access a = {permit, permit, permit, permit};
    bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = n};
    bw_write_result r;
    return bw_write(c->ctx, c->engine, TENANT, NAME, &a, &op, 1, &r);
}

/* 1: all n points are of the round; 0: none is. */
static int look(unsigned round, unsigned n)
{
    char payload[40];
    (void)snprintf(payload, sizeof payload, "{\"round\":%u}", round);
    unsigned with = 0;
    bw_view v = cell_view(c, 1, 3);
    for (size_t i = 0; i < v.nparts; i++) {
        bw_point_id id = cell_id(v.classes[i].bytes[1]);
        uint32_t row;
        bw_row data;
        assert_true(bw_snapshot_find(v.parts[i], &id, &row));
        bw_snapshot_row(v.parts[i], row, &data);
        with += bw_str_eq(data.payload, bw_str_c(payload));
    }
    bw_view_close(&v);
    assert_true(with == 0 || with == n);
    return with == n;
}

static void start(void)
{
    cell_init(c, NULL);
    cell_collection(c, DIM, BW_METRIC_DOT, 3);
    OK(write_round(0, 3));
}

/* Sweeps one kind of fault over writes to n partitions. */
static void sweep(fault_kind kind, bool lasts, unsigned n)
{
    unsigned round = 0, refused = 0;
    start();
    for (long at = 0;; at++) {
        assert_true(at < RUNS_MAX);
        round++;
        fault_arm(at, lasts, kind);
        bw_status st = write_round(round, n);
        bool hit = fault.hit;
        fault_arm(-1, false, kind);
        refused += st != BW_OK;
        assert_true(st == BW_OK || st == BW_ENOSPACE || st == BW_EIO ||
                    st == BW_EUNAVAILABLE);
        assert_int_equal(look(round, n), st == BW_OK);
        if (hit && kind == FAULT_SYNC) {
            /* Whatever it was, nothing is written before the next start. */
            assert_int_equal(write_round(10000 + round, n), BW_EUNAVAILABLE);
            assert_int_equal(look(round, n), st == BW_OK);
            cell_reopen(c);
            int there = look(
                round,
                n); /* after a failed sync a refused write may yet be there, whole */
            assert_true(there || st != BW_OK);
        }
        OK(write_round(++round, n));
        assert_int_equal(look(round, n), 1);
        if (at % 5 == 0)
            cell_reopen(c);
        assert_int_equal(look(round, n), 1);
        bw_ctx_reset(c->ctx);
        if (!hit)
            break;
    }
    assert_true(refused > 0);
    cell_clear(c);
}

static void test_store__a_full_disk_refuses_and_recovers(void **state)
{
    (void)state;
    sweep(FAULT_FULL, false, 1);
    sweep(FAULT_FULL, true, 1);
    sweep(FAULT_FULL, false, 3);
    sweep(FAULT_FULL, true, 3);
}

static void test_store__a_write_error_refuses_and_recovers(void **state)
{
    (void)state;
    sweep(FAULT_WRITE, false, 1);
    sweep(FAULT_WRITE, true, 3);
}

static void test_store__a_failed_sync_stops_writes_until_the_next_start(void **state)
{
    (void)state;
    sweep(FAULT_SYNC, false, 1);
    sweep(FAULT_SYNC, true, 1);
    sweep(FAULT_SYNC, false, 3);
    sweep(FAULT_SYNC, true, 3);
}

static void test_store__any_failed_allocation_refuses_and_recovers(void **state)
{
    (void)state;
    start();
    unsigned round = 0;
    for (int lasts = 0; lasts < 2; lasts++)
        for (long at = 0;; at++) {
            assert_true(at < 3000);
            round++;
            failing_arm(at, lasts);
            bw_status st = write_round(round, 3);
            bool hit = failing_hit;
            failing_arm(-1, false);
            assert_true(st == BW_OK || st == BW_ENOMEM);
            assert_int_equal(look(round, 3), st == BW_OK);
            bw_ctx_reset(c->ctx);
            if (!hit)
                break;
        }
    OK(write_round(++round, 3));
    bw_str dump = cell_dump(c, 1, 3, DIM);
    cell_reopen(c);
    assert_true(bw_str_eq(dump, cell_dump(c, 1, 3, DIM)));
    cell_clear(c);
}

/* Opening and reading under the same sweep: an error, never a wrong answer. */
static void test_store__any_failed_allocation_at_the_start_is_clean(void **state)
{
    (void)state;
    start();
    for (long at = 0;; at++) {
        assert_true(at < 3000);
        bw_engine_close(c->engine);
        c->engine = NULL;
        failing_arm(at, true);
        bw_status st = bw_engine_open(c->ctx, c->dir, &c->options, &c->engine);
        bw_class_id ids[3] = {cell_class(1), cell_class(2), cell_class(3)};
        bw_permit permit = {ids, 3};
        bw_view v;
        if (st == BW_OK) {
            st = bw_view_open(c->ctx, c->engine, TENANT, NAME, &permit, 0, &v);
            if (st == BW_OK)
                bw_view_close(&v);
        }
        bool hit = failing_hit;
        failing_arm(-1, false);
        assert_true(st == BW_OK || st == BW_ENOMEM);
        bw_engine_close(c->engine);
        bw_ctx_reset(c->ctx);
        cell_open(c);
        assert_int_equal(look(0, 3), 1);
        if (!hit)
            break;
    }
    cell_clear(c);
}

/* A class's first write makes a file and a record; each may lack memory. */
static void test_store__any_failed_allocation_of_a_new_class_recovers(void **state)
{
    (void)state;
    start();
    for (unsigned at = 0;; at++) {
        assert_true(at < 3000);
        bw_class_id id = cell_class(at + 10);
        OK(bw_class_put(c->ctx, c->engine, &id, BW_STR("labels")));
        bw_point p = cell_point(c, at + 10, at, DIM, "words");
        bw_access a = cell_access(c, at + 10, at + 10);
        bw_op op = {.kind = BW_OP_UPSERT, .points = &p, .npoints = 1};
        bw_write_result r;
        failing_arm((long)at, false);
        bw_status st = cell_write(c, &a, &op, 1, &r);
        bool hit = failing_hit;
        failing_arm(-1, false);
        assert_true(st == BW_OK || st == BW_ENOMEM);
        OK(cell_write(c, &a, &op, 1, &r));
        assert_int_equal(cell_count(c, at + 10, at + 10), 1);
        bw_ctx_reset(c->ctx);
        if (!hit)
            break;
    }
    cell_clear(c);
}

/* A payload index that lacked memory is not there; one that could not go is. */
static void
test_store__any_failed_allocation_of_an_index_leaves_the_old_list(void **state)
{
    (void)state;
    start();
    bw_index_spec spec = {.field = BW_STR("round"), .type = BW_STR("integer")};
    bool there = false;
    for (long at = 0, clean = 0; clean < 2; at++) {
        assert_true(at < 3000);
        failing_arm(at, false);
        bw_status st =
            there
                ? bw_collection_index_drop(c->ctx, c->engine, TENANT, NAME, spec.field)
                : bw_collection_index_put(c->ctx, c->engine, TENANT, NAME, &spec);
        bool hit = failing_hit;
        failing_arm(-1, false);
        assert_true(st == BW_OK || st == BW_ENOMEM);
        there = there != (st == BW_OK);
        bw_collection_info info;
        OK(bw_collection_get(c->ctx, c->engine, TENANT, NAME, &info));
        assert_int_equal(info.nindexes, there);
        bw_ctx_reset(c->ctx);
        if (st == BW_OK) { /* and now the other way, from the first allocation on */
            clean += !hit;
            at = -1;
        }
    }
    cell_reopen(c);
    bw_collection_info info;
    OK(bw_collection_get(c->ctx, c->engine, TENANT, NAME, &info));
    assert_int_equal(info.nindexes, there);
    cell_clear(c);
}

/* A new index each time: it has no buffers yet, and must get them. */
static void test_store__an_index_recovers_from_no_memory(void **state)
{
    (void)state;
    start();
    bw_index_spec spec = {.field = BW_STR("e"), .type = BW_STR("keyword")};
    for (int at = 0;; at++) {
        assert_true(at < 3000);
        OK(bw_collection_index_put(c->ctx, c->engine, TENANT, NAME, &spec));
        bw_point p = cell_point(c, 1, 7, DIM, NULL);
        p.payload = BW_STR("{\"e\":\"two\\nlines\"}");
        bw_access a = cell_access(c, 1, 3);
        bw_op op = {.kind = BW_OP_UPSERT, .points = &p, .npoints = 1};
        bw_write_result r;
        failing_arm(at, false);
        bw_status st = cell_write(c, &a, &op, 1, &r);
        bool hit = failing_hit;
        failing_arm(-1, false);
        assert_true(st == BW_OK || st == BW_ENOMEM);
        OK(cell_write(c, &a, &op, 1, &r));
        p.payload = (bw_str){NULL, 0};
        OK(cell_write(c, &a, &op, 1, &r));
        bw_ctx_reset(c->ctx);
        if (!hit)
            break;
    }
    cell_clear(c);
}

static int64_t clean_mark(int64_t set)
{
    char path[128];
    sqlite3 *sq;
    sqlite3_stmt *st;
    const int n = snprintf(path, sizeof path, "%s/catalogue.db", c->dir);
    assert_in_range(n, 1, sizeof path - 1);
    assert_int_equal(
        sqlite3_open_v2(path, &sq, SQLITE_OPEN_READWRITE, fault_below->zName),
        SQLITE_OK);
    if (set >= 0)
        assert_int_equal(sqlite3_exec(sq, "UPDATE meta SET value=0 WHERE name='clean'",
                                      NULL, NULL, NULL),
                         SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(sq, "SELECT value FROM meta WHERE name='clean'",
                                        -1, &st, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int64_t v = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    assert_int_equal(sqlite3_close(sq), SQLITE_OK);
    return v;
}

/* After an unclean end the files wait for their check, however often a start fails. */
static void test_store__a_failed_start_does_not_call_the_files_checked(void **state)
{
    (void)state;
    start();
    bw_engine_close(c->engine);
    c->engine = NULL;
    assert_int_equal(clean_mark(0), 0);
    for (long at = 0;; at++) {
        assert_true(at < 3000);
        failing_arm(at, false);
        bw_status st = bw_engine_open(c->ctx, c->dir, &c->options, &c->engine);
        bool hit = failing_hit;
        failing_arm(-1, false);
        assert_true(st == BW_OK || st == BW_ENOMEM);
        bw_engine_close(c->engine);
        c->engine = NULL;
        assert_int_equal(clean_mark(-1), 0);
        bw_ctx_reset(c->ctx);
        if (!hit)
            break;
    }
    cell_open(c);
    assert_int_equal(look(0, 3), 1); /* now all are looked through */
    bw_engine_close(c->engine);
    c->engine = NULL;
    assert_int_equal(clean_mark(-1), 1);
    cell_clear(c);
}

/* After a crash on a full disk the cell starts, and reads. */
static void test_store__a_full_disk_is_read_after_a_crash(void **state)
{
    (void)state;
    start();
    bw_engine_close(c->engine);
    c->engine = NULL;
    assert_int_equal(clean_mark(0), 0);
    fault_arm(0, true, FAULT_FULL);
    cell_open(c);
    assert_int_equal(look(0, 3), 1);
    assert_int_equal(write_round(1, 3), BW_ENOSPACE);
    assert_int_equal(look(0, 3), 1);
    fault_arm(-1, false, FAULT_FULL);
    OK(write_round(2, 3));
    cell_clear(c);
}

/* A cell whose making failed at any write or sync can be made when that is over. */
static void test_store__a_failed_first_start_can_be_repeated(void **state)
{
    (void)state;
    for (int lasts = 0; lasts < 2; lasts++)
        for (int kind = FAULT_FULL; kind <= FAULT_SYNC; kind++)
            for (long at = 0;; at++) {
                assert_true(at < RUNS_MAX);
                cell_init(c, NULL);
                bw_engine_close(c->engine);
                c->engine = NULL;
                cell_remove_dir(c->dir);
                fault_arm(at, lasts, (fault_kind)kind);
                bw_status st = bw_engine_open(c->ctx, c->dir, &c->options, &c->engine);
                bool hit = fault.hit;
                bw_engine_close(c->engine);
                c->engine = NULL;
                fault_arm(-1, false, FAULT_FULL);
                assert_true(st == BW_OK || st == BW_ENOSPACE || st == BW_EIO ||
                            st == BW_EUNAVAILABLE);
                cell_open(c);
                cell_clear(c);
                if (!hit)
                    break;
            }
}

#ifdef BW_DEBUG
static unsigned staged_files;

/* The second file is staged, and then the disk is full: nothing can be taken back. */
static bw_status fill_after_staging(const char *name)
{
    if (strcmp(name, "commit.staged") != 0 || ++staged_files < 2)
        return BW_OK;
    fault_arm(0, true, FAULT_FULL);
    return BW_ENOSPACE;
}

static void test_store__rows_of_a_refused_write_hold_up_no_reader(void **state)
{
    (void)state;
    start();
    bw_failpoint_set(fill_after_staging);
    assert_int_equal(write_round(1, 3), BW_ENOSPACE);
    bw_failpoint_set(NULL);
    fault_arm(-1, false, FAULT_FULL);
    cell_reopen(c);
    fault_arm(0, true, FAULT_FULL);
    assert_int_equal(look(1, 3), 0);
    assert_int_equal(look(0, 3), 1);
    fault_arm(-1, false, FAULT_FULL);
    OK(write_round(2, 3));
    assert_int_equal(look(2, 3), 1);
    cell_clear(c);
}
#endif

int main(void)
{
    failing_set();
    fault_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store__a_full_disk_refuses_and_recovers),
        cmocka_unit_test(test_store__a_write_error_refuses_and_recovers),
        cmocka_unit_test(test_store__a_failed_sync_stops_writes_until_the_next_start),
        cmocka_unit_test(test_store__any_failed_allocation_refuses_and_recovers),
        cmocka_unit_test(test_store__any_failed_allocation_at_the_start_is_clean),
        cmocka_unit_test(test_store__any_failed_allocation_of_a_new_class_recovers),
        cmocka_unit_test(
            test_store__any_failed_allocation_of_an_index_leaves_the_old_list),
        cmocka_unit_test(test_store__an_index_recovers_from_no_memory),
        cmocka_unit_test(test_store__a_failed_start_does_not_call_the_files_checked),
        cmocka_unit_test(test_store__a_full_disk_is_read_after_a_crash),
        cmocka_unit_test(test_store__a_failed_first_start_can_be_repeated),
#ifdef BW_DEBUG
        cmocka_unit_test(test_store__rows_of_a_refused_write_hold_up_no_reader),
#endif
    };
    int failed = cmocka_run_group_tests_name("store faults", tests, NULL, NULL);
    return failed;
}
