/* Connections have the house's settings; the catalogue's lists survive a reopening. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/store/catalogue.h"
#include "engine/store/fs.h"
#include "engine/store/partfile.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct fixture {
    char dir[64], path[80];
    bw_ctx *ctx;
    bw_health health;
    bw_db *db;
} fixture;

static const bw_partfile_id ident = {7, 3, {{1, 2, 3}}};

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->ctx = bw_ctx_new(0);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/bw-sql-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->path, sizeof f->path, "%s/7.db", f->dir);
    assert_int_equal(bw_partfile_create(f->ctx, f->path, &ident, false, &f->health), BW_OK);
    assert_int_equal(
        bw_partfile_open(f->ctx, f->path, &ident, false, false, &f->health, &f->db),
        BW_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_db_close(f->db);
    bw_ctx_free(f->ctx);
    static const char *const names[] = {"7.db",
                                        "7.db-wal",
                                        "7.db-shm",
                                        "catalogue.db",
                                        "catalogue.db-wal",
                                        "catalogue.new",
                                        "catalogue.new-wal"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[100];
        (void)snprintf(path, sizeof path, "%s/%s", f->dir, names[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(f->dir), 0); /* and nothing else was left */
    free(f);
    return 0;
}

static const char *pragma(fixture *f, const char *sql)
{
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_prepare_v2(bw_db_handle(f->db), sql, -1, &st, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    const char *out =
        bw_arena_printf(f->ctx, "%s", (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    return out;
}

static void test_db_open__sets_what_security_asks_for(void **state)
{
    fixture *f = *state;
    assert_string_equal(pragma(f, "PRAGMA journal_mode"), "wal");
    assert_string_equal(pragma(f, "PRAGMA synchronous"), "2");
    assert_string_equal(pragma(f, "PRAGMA secure_delete"), "1");
    assert_string_equal(pragma(f, "PRAGMA trusted_schema"), "0");
    assert_string_equal(pragma(f, "PRAGMA foreign_keys"), "1");
    assert_string_equal(pragma(f, "PRAGMA wal_autocheckpoint"), "0");
    assert_string_equal(pragma(f, "PRAGMA locking_mode"), "exclusive");
    assert_string_equal(pragma(f, "PRAGMA application_id"), "1115115569"); /* BwP1 */
    sqlite3_stmt *st;
    assert_int_not_equal(sqlite3_prepare_v2(bw_db_handle(f->db),
                                            "SELECT \"no such name\"", -1, &st, NULL),
                         SQLITE_OK);
    char shm[100];
    (void)snprintf(shm, sizeof shm, "%s-shm", f->path);
    assert_int_not_equal(access(shm, F_OK), 0); /* two descriptors, not three */
}

static void test_partfile_open__refuses_another_identity(void **state)
{
    fixture *f = *state;
    bw_db_close(f->db);
    f->db = NULL;
    bw_partfile_id other = ident;
    other.class_id.bytes[31] = 1;
    assert_int_equal(
        bw_partfile_open(f->ctx, f->path, &other, false, false, &f->health, &f->db),
        BW_ECORRUPT);
    other = ident;
    other.number++;
    assert_int_equal(
        bw_partfile_open(f->ctx, f->path, &other, false, false, &f->health, &f->db),
        BW_ECORRUPT);
    assert_int_equal(
        bw_partfile_open(f->ctx, f->path, &ident, false, true, &f->health, &f->db),
        BW_OK);
}

static void test_db__stops_writing_after_a_failed_sync(void **state)
{
    fixture *f = *state;
    assert_int_equal(bw_db_fail(f->ctx, f->db, SQLITE_IOERR_FSYNC, "test"), BW_EIO);
    assert_int_equal(bw_db_begin(f->ctx, f->db), BW_EUNAVAILABLE);
    f->health.poisoned = false;
    assert_int_equal(bw_db_fail(f->ctx, f->db, SQLITE_FULL, "test"), BW_ENOSPACE);
    assert_int_equal(bw_db_begin(f->ctx, f->db), BW_OK);
    bw_db_rollback(f->db);
}

/* What a failed sync left in the WAL must not be copied into the file, by anybody. */
static void test_db_close__keeps_the_log_after_a_failed_sync(void **state)
{
    fixture *f = *state;
    assert_int_equal(bw_db_begin(f->ctx, f->db), BW_OK);
    assert_int_equal(bw_partfile_stage(f->ctx, f->db, 11, 0, 5, BW_STR("")), BW_OK);
    assert_int_equal(bw_db_commit(f->ctx, f->db), BW_OK);
    assert_int_equal(bw_db_fail(f->ctx, f->db, SQLITE_IOERR_FSYNC, "test"), BW_EIO);
    assert_true(bw_db_is_suspect(f->db));
    assert_int_equal(bw_db_checkpoint(f->ctx, f->db), BW_EUNAVAILABLE);
    bw_db_close(f->db);
    f->db = NULL;
    char wal[100];
    (void)snprintf(wal, sizeof wal, "%s-wal", f->path);
    assert_int_equal(access(wal, F_OK), 0);
    f->health.poisoned = false; /* the next start */
    assert_int_equal(
        bw_partfile_open(f->ctx, f->path, &ident, false, true, &f->health, &f->db),
        BW_OK);
    uint64_t *txs;
    size_t n;
    assert_int_equal(bw_partfile_staged(f->ctx, f->db, &txs, &n), BW_OK);
    assert_int_equal(n, 1);
    assert_int_equal(bw_db_checkpoint(f->ctx, f->db), BW_OK);
    bw_db_close(f->db);
    f->db = NULL;
    assert_int_not_equal(access(wal, F_OK), 0);
}

static void test_partfile__staged_rows_wait_for_their_transaction(void **state)
{
    fixture *f = *state;
    assert_int_equal(bw_db_begin(f->ctx, f->db), BW_OK);
    assert_int_equal(bw_partfile_stage(f->ctx, f->db, 11, 0, 5, BW_STR("")), BW_OK);
    assert_int_equal(bw_partfile_stage(f->ctx, f->db, 12, 0, 0, BW_STR("rec")), BW_OK);
    assert_int_equal(bw_db_commit(f->ctx, f->db), BW_OK);
    uint64_t *txs;
    size_t n;
    assert_int_equal(bw_partfile_staged(f->ctx, f->db, &txs, &n), BW_OK);
    assert_int_equal(n, 2);
    assert_int_equal(txs[1], 12);
    assert_int_equal(sqlite3_stmt_busy(sqlite3_next_stmt(bw_db_handle(f->db), NULL)),
                     0);
    assert_int_equal(bw_partfile_unstage(f->ctx, f->db, 11), BW_OK);
    assert_int_equal(bw_partfile_staged(f->ctx, f->db, &txs, &n), BW_OK);
    assert_int_equal(n, 1);
}

static void test_catalogue__keeps_lists_and_the_clean_mark(void **state)
{
    fixture *f = *state;
    bw_catalogue c;
    assert_int_equal(bw_catalogue_open(f->ctx, f->dir, true, false, &f->health, &c),
                     BW_OK);
    assert_false(c.unclean);
    bw_vector_spec v[2] = {
        {.name = BW_STR(""), .dim = 9, .metric = BW_METRIC_MANHATTAN},
        {.name = BW_STR("sp"), .sparse = true, .idf = true}};
    bw_collection_info info = {.tenant = BW_STR("t"),
                               .name = BW_STR("n'; DROP TABLE collection; --"),
                               .vectors = v,
                               .nvectors = 2};
    uint64_t uid;
    assert_int_equal(bw_catalogue_collection_add(f->ctx, &c, &info, &uid), BW_OK);
    bw_class_id id = {{9}};
    assert_int_equal(bw_catalogue_class_add(f->ctx, &c, &id, BW_STR("text")), BW_OK);
    uint64_t number;
    assert_int_equal(bw_catalogue_next_number(f->ctx, &c, &number), BW_OK);
    assert_int_equal(number, 1);
    bw_catalogue_partition part = {number, uid, id};
    assert_int_equal(bw_catalogue_partition_add(f->ctx, &c, &part, 1), BW_OK);
    assert_int_equal(bw_catalogue_tx_add(f->ctx, &c, 99, &number, 1), BW_OK);
    bw_db_close(c.db); /* a crash: no clean mark */
    assert_int_equal(bw_catalogue_open(f->ctx, f->dir, true, false, &f->health, &c),
                     BW_OK);
    assert_true(c.unclean);
    bw_collection_info *infos;
    size_t n;
    assert_int_equal(bw_catalogue_collections(f->ctx, &c, &infos, &n), BW_OK);
    assert_int_equal(n, 1);
    assert_true(bw_str_eq(infos[0].name, info.name));
    assert_int_equal(infos[0].vectors[0].metric, BW_METRIC_MANHATTAN);
    assert_true(infos[0].vectors[1].idf);
    bw_catalogue_txpart *txs;
    assert_int_equal(bw_catalogue_txparts(f->ctx, &c, &txs, &n), BW_OK);
    assert_int_equal(n, 1);
    assert_int_equal(txs[0].tx, 99);
    assert_int_equal(bw_catalogue_collection_drop(f->ctx, &c, uid), BW_OK);
    uint64_t *trash;
    assert_int_equal(bw_catalogue_trash(f->ctx, &c, &trash, &n), BW_OK);
    assert_int_equal(n, 1);
    assert_int_equal(bw_catalogue_txparts(f->ctx, &c, &txs, &n), BW_OK);
    assert_int_equal(n, 0);
    assert_int_equal(bw_catalogue_next_number(f->ctx, &c, &number), BW_OK);
    assert_int_equal(number, 2); /* never used again */
    bw_catalogue_close(&c);
    assert_int_equal(bw_catalogue_open(f->ctx, f->dir, false, false, &f->health, &c),
                     BW_OK);
    assert_false(c.unclean);
    bw_catalogue_close(&c);
}

/* Too few descriptors say nothing about the file: it works once some are free. */
static void test_db_open__tells_want_of_descriptors(void **state)
{
    fixture *f = *state;
    bw_catalogue c;
    struct rlimit all, none;
    assert_int_equal(bw_catalogue_open(f->ctx, f->dir, true, false, &f->health, &c),
                     BW_OK);
    bw_catalogue_close(&c);
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(next >= 0 && close(next) == 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    for (rlim_t more = 0; more < 2; more++) { /* for the file; for its log */
        none = all;
        none.rlim_cur = (rlim_t)next + more;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        bw_status st = bw_catalogue_open(f->ctx, f->dir, false, false, &f->health, &c);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
        assert_int_equal(st, BW_EUNAVAILABLE);
    }
    assert_int_equal(bw_catalogue_open(f->ctx, f->dir, false, false, &f->health, &c),
                     BW_OK);
    bw_catalogue_close(&c);
}

static void test_fs__replaces_whole_files(void **state)
{
    fixture *f = *state;
    assert_int_equal(bw_fs_replace(f->ctx, f->dir, "x", "12345", 5, 0600), BW_OK);
    assert_int_equal(bw_fs_replace(f->ctx, f->dir, "x", "abc", 3, 0600), BW_OK);
    char path[100];
    (void)snprintf(path, sizeof path, "%s/x", f->dir);
    bw_buf b = {0};
    assert_int_equal(bw_fs_read(f->ctx, path, 3, &b), BW_OK);
    assert_true(bw_str_is(bw_buf_view(&b), "abc"));
    assert_int_equal(bw_fs_read(f->ctx, path, 2, &b), BW_ECORRUPT);
    bw_buf_clear(&b);
    /* What a crash left under the working name is replaced, never written into. */
    char left[100], other[100];
    (void)snprintf(left, sizeof left, "%s/x.tmp", f->dir);
    (void)snprintf(other, sizeof other, "%s/other", f->dir);
    assert_int_equal(bw_fs_replace(f->ctx, f->dir, "other", "mine", 4, 0400), BW_OK);
    assert_int_equal(symlink("other", left), 0);
    assert_int_equal(bw_fs_replace(f->ctx, f->dir, "x", "abcd", 4, 0600), BW_OK);
    b.len = 0;
    assert_int_equal(bw_fs_read(f->ctx, other, 9, &b), BW_OK);
    assert_true(bw_str_is(bw_buf_view(&b), "mine"));
    bw_buf_clear(&b);
    assert_int_equal(bw_fs_unlink(f->ctx, other), BW_OK);
    assert_int_equal(bw_fs_unlink(f->ctx, path), BW_OK);
    assert_int_equal(bw_fs_unlink(f->ctx, path), BW_OK);
    assert_int_equal(bw_fs_read(f->ctx, path, 2, &b), BW_ENOTFOUND);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_db_open__sets_what_security_asks_for),
        T(test_partfile_open__refuses_another_identity),
        T(test_db__stops_writing_after_a_failed_sync),
        T(test_db_close__keeps_the_log_after_a_failed_sync),
        T(test_partfile__staged_rows_wait_for_their_transaction),
        T(test_catalogue__keeps_lists_and_the_clean_mark),
        T(test_db_open__tells_want_of_descriptors),
        T(test_fs__replaces_whole_files),
    };
    return cmocka_run_group_tests_name("sql", tests, NULL, NULL);
}
