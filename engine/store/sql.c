/* One SQLite connection with the house's settings (sql.h). Leaves out what a file
 * holds: catalogue.c and partfile.c own their formats. */
#include "sql.h"
#include "failpoint.h"
#include "fs.h"

#include <errno.h>

struct bw_db {
    sqlite3 *sq;
    bw_health *health;
    sqlite3_stmt *slots[BW_DB_SLOTS];
    int wal_pages; /* of the last commit */
    bool suspect;  /* a sync of it failed */
};

static bool is_fsync_failure(int rc)
{
    return rc == SQLITE_IOERR_FSYNC || rc == SQLITE_IOERR_DIR_FSYNC;
}

bool bw_db_is_suspect(const bw_db *db)
{
    return db->suspect;
}

static bool is_poisoned(const bw_db *db)
{
    return atomic_load_explicit(&db->health->poisoned, memory_order_acquire);
}

static void note_sync(bw_db *db, int rc)
{
    if (!db || !is_fsync_failure(rc))
        return;
    db->suspect = true;
    atomic_store_explicit(&db->health->poisoned, true, memory_order_release);
    bw_log(BW_LOG_ERROR,
           "store: a sync failed; writes stop until the cell is opened anew");
}

static bw_status cannot_open(bw_ctx *ctx, const char *what)
{
    return bw_fail(ctx, BW_EIO, "store: %s: the file cannot be opened for writing",
                   what);
}

bw_status bw_db_fail(bw_ctx *ctx, bw_db *db, int rc, const char *what)
{
    note_sync(db, rc);
    switch (rc & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return bw_fail(ctx, BW_ECORRUPT, "store: %s: the file is damaged", what);
    case SQLITE_FULL:
        return bw_fail(ctx, BW_ENOSPACE, "store: %s: the disk is full", what);
    case SQLITE_NOMEM:
        return bw_fail_nomem(ctx);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return bw_fail(ctx, BW_EUNAVAILABLE, "store: %s: the file is in use", what);
    case SQLITE_IOERR:
        if (rc == SQLITE_IOERR_NOMEM)
            return bw_fail_nomem(ctx);
        if (rc == SQLITE_IOERR_CORRUPTFS)
            return bw_fail(ctx, BW_ECORRUPT, "store: %s: the file is damaged", what);
        return bw_fail(ctx, BW_EIO, "store: %s: input/output error %d", what, rc);
    case SQLITE_CANTOPEN:
        if (db && db->sq) {
            int err = sqlite3_system_errno(db->sq);
            if (err == ENOMEM || err == EMFILE || err == ENFILE)
                return bw_fail_errno(ctx, "store: open", err);
        }
        return cannot_open(ctx, what);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return cannot_open(ctx, what);
    default:
        return bw_fail(ctx, BW_EINTERNAL, "store: %s: SQLite result %d", what, rc);
    }
}

sqlite3 *bw_db_handle(bw_db *db)
{
    return db->sq;
}

bw_status bw_db_exec(bw_ctx *ctx, bw_db *db, const char *sql)
{
    int rc = sqlite3_exec(db->sq, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? BW_OK : bw_db_fail(ctx, db, rc, "run");
}

bw_status bw_db_stmt(bw_ctx *ctx, bw_db *db, unsigned slot, const char *sql,
                     sqlite3_stmt **out)
{
    assert(slot < BW_DB_SLOTS);
    sqlite3_stmt *st = db->slots[slot];
    if (!st) {
        int rc =
            sqlite3_prepare_v3(db->sq, sql, -1, SQLITE_PREPARE_PERSISTENT, &st, NULL);
        if (rc != SQLITE_OK)
            return bw_db_fail(ctx, db, rc, "prepare");
        db->slots[slot] = st;
    } else {
        sqlite3_reset(st);
        sqlite3_clear_bindings(st);
    }
    *out = st;
    return BW_OK;
}

bw_status bw_db_step(bw_ctx *ctx, bw_db *db, sqlite3_stmt *st, bool *row)
{
    int rc = sqlite3_step(st);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        sqlite3_reset(st);
        return bw_db_fail(ctx, db, rc, "step");
    }
    *row = rc == SQLITE_ROW;
    return BW_OK;
}

bw_status bw_db_run(bw_ctx *ctx, bw_db *db, sqlite3_stmt *st)
{
    int rc = sqlite3_step(st);
    int rc2 = sqlite3_reset(st);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return bw_db_fail(ctx, db, rc2 != SQLITE_OK ? rc2 : rc, "write");
    return BW_OK;
}

bw_status bw_db_begin(bw_ctx *ctx, bw_db *db)
{
    if (is_poisoned(db))
        return bw_fail(ctx, BW_EUNAVAILABLE,
                       "writes are stopped after a failed sync; restart the cell");
    bw_status st = bw_failpoint(ctx, "db.begin");
    return st == BW_OK ? bw_db_exec(ctx, db, "BEGIN IMMEDIATE") : st;
}

bw_status bw_db_commit(bw_ctx *ctx, bw_db *db)
{
    bw_status st = bw_failpoint(ctx, "db.commit");
    if (st == BW_OK) {
        int rc = sqlite3_exec(db->sq, "COMMIT", NULL, NULL, NULL);
        if (rc == SQLITE_OK) {
            st = bw_failpoint(ctx,
                              "db.committed"); /* a place to die at, not to fail at */
            assert(st == BW_OK);
            return BW_OK;
        }
        st = bw_db_fail(ctx, db, rc, "commit");
    }
    bw_db_rollback(db);
    return st;
}

void bw_db_rollback(bw_db *db)
{
    if (!sqlite3_get_autocommit(db->sq))
        (void)sqlite3_exec(db->sq, "ROLLBACK", NULL, NULL, NULL);
}

/* A checkpoint reads the WAL back. After a failed sync these pages may be others than
 * the ones that were written, so none is run then, not even by the closing. */
static int checkpoint(bw_db *db)
{
    int log = 0, done = 0;
    if (is_poisoned(db))
        return SQLITE_BUSY;
    int rc =
        sqlite3_wal_checkpoint_v2(db->sq, NULL, SQLITE_CHECKPOINT_PASSIVE, &log, &done);
    note_sync(db, rc);
    if (rc != SQLITE_OK)
        return rc;
    db->wal_pages = log - done;
    return log == done ? SQLITE_OK : SQLITE_BUSY;
}

void bw_db_maybe_checkpoint(bw_db *db)
{
    if (db->wal_pages >= BW_DB_CHECKPOINT_PAGES)
        (void)checkpoint(db); /* else the WAL keeps the data; the next commit retries */
}

bw_status bw_db_checkpoint(bw_ctx *ctx, bw_db *db)
{
    int rc = checkpoint(db);
    return rc == SQLITE_OK ? BW_OK : bw_db_fail(ctx, db, rc, "checkpoint");
}

static int on_wal(void *arg, sqlite3 *sq, const char *name, int pages)
{
    (void)sq;
    (void)name;
    ((bw_db *)arg)->wal_pages = pages;
    return SQLITE_OK;
}

static int read_int(bw_db *db, const char *sql, int64_t *out)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db->sq, sql, -1, &st, NULL);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(st, 0);
    int rc2 = sqlite3_finalize(st);
    return rc == SQLITE_ROW ? SQLITE_OK : (rc2 ? rc2 : SQLITE_CORRUPT);
}

static bw_status check_pages(bw_ctx *ctx, bw_db *db)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db->sq, "PRAGMA quick_check(1)", -1, &st, NULL);
    if (rc != SQLITE_OK)
        return bw_db_fail(ctx, db, rc, "check");
    rc = sqlite3_step(st);
    const char *text =
        rc == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
    bool good = text && strcmp(text, "ok") == 0;
    (void)sqlite3_finalize(st);
    if (rc != SQLITE_ROW)
        return bw_db_fail(ctx, db, rc, "check");
    return good ? BW_OK : bw_fail(ctx, BW_ECORRUPT, "store: the file is damaged");
}

static bw_status check_format(bw_ctx *ctx, bw_db *db, const bw_db_options *o)
{
    int64_t app = 0, version = 0;
    int rc = read_int(db, "PRAGMA application_id", &app);
    if (rc == SQLITE_OK)
        rc = read_int(db, "PRAGMA user_version", &version);
    if (rc != SQLITE_OK)
        return bw_db_fail(ctx, db, rc, "read the format");
    if (app != o->application_id)
        return bw_fail(ctx, BW_ECORRUPT, "store: the file is not one of ours");
    if (version < 1 || version > o->user_version)
        return bw_fail(ctx, BW_ECORRUPT,
                       "store: the file has format %lld, this program reads up to %d",
                       (long long)version, o->user_version);
    return BW_OK;
}

/* The settings in an order that matters: locking before anything that reads, so that no
 * shared memory file is ever made; the format before anything that writes, so that a
 * file that is refused stays as it is. */
static bw_status settings(bw_ctx *ctx, bw_db *db, const bw_db_options *o)
{
    sqlite3 *sq = db->sq;
    sqlite3_extended_result_codes(sq, 1);
    sqlite3_db_config(sq, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    sqlite3_db_config(sq, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(sq, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    sqlite3_db_config(sq, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
    sqlite3_db_config(sq, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
    sqlite3_db_config(sq, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(sq, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(sq, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_limit(sq, SQLITE_LIMIT_ATTACHED, 0);
    bw_status st = bw_db_exec(ctx, db, "PRAGMA locking_mode=EXCLUSIVE");
    if (st == BW_OK && !o->create)
        st = check_format(ctx, db, o);
    if (st != BW_OK)
        return st;
    char pragmas[320];
    (void)sqlite3_snprintf((int)sizeof pragmas, pragmas,
                           "PRAGMA secure_delete=ON;"
                           "PRAGMA synchronous=%s;"
                           "PRAGMA journal_mode=WAL;"
                           "PRAGMA wal_autocheckpoint=0;"
                           "PRAGMA temp_store=MEMORY;"
                           "PRAGMA cell_size_check=ON;"
                           "PRAGMA cache_size=-%d;",
                           o->null_sync ? "OFF" : "FULL", o->cache_kib);
    st = bw_db_exec(ctx, db, pragmas);
    if (st != BW_OK)
        return st;
    sqlite3_wal_hook(sq, on_wal, db); /* after the pragma, which sets its own hook */
    sqlite3_stmt *mode = NULL;
    int rc = sqlite3_prepare_v2(sq, "PRAGMA journal_mode", -1, &mode, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(mode);
    const char *text =
        rc == SQLITE_ROW ? (const char *)sqlite3_column_text(mode, 0) : NULL;
    bool wal = text && strcmp(text, "wal") == 0;
    (void)sqlite3_finalize(mode);
    return wal ? BW_OK
               : bw_fail(ctx, BW_EIO, "store: the write-ahead log cannot be used");
}

static bw_status make_schema(bw_ctx *ctx, bw_db *db, const bw_db_options *o)
{
    char ids[96];
    (void)sqlite3_snprintf((int)sizeof ids, ids,
                           "PRAGMA application_id=%d;PRAGMA user_version=%d;",
                           o->application_id, o->user_version);
    bw_status st = bw_db_begin(ctx, db);
    if (st == BW_OK)
        st = bw_db_exec(ctx, db, ids);
    if (st == BW_OK)
        st = bw_db_exec(ctx, db, o->schema);
    if (st == BW_OK)
        return bw_db_commit(ctx, db);
    bw_db_rollback(db);
    return st;
}

bw_status bw_db_open(bw_ctx *ctx, const bw_db_options *o, bw_db **out)
{
    if (!o->create && !bw_fs_exists(o->path))
        return bw_fail(ctx, BW_ECORRUPT, "store: a file is missing");
    bw_db *db = bw_calloc(1, sizeof *db);
    if (!db)
        return bw_fail_nomem(ctx);
    db->health = o->health;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (o->create)
        flags |= SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(o->path, &db->sq, flags, NULL);
    bw_status st = BW_OK;
    if (rc != SQLITE_OK)
        st = bw_db_fail(ctx, db, rc, "open");
    if (st == BW_OK)
        st = settings(ctx, db, o);
    if (st == BW_OK)
        st = o->create  ? make_schema(ctx, db, o)
             : o->check ? check_pages(ctx, db)
                        : BW_OK;
    if (st != BW_OK) {
        bw_db_close(db);
        return st;
    }
    *out = db;
    return BW_OK;
}

void bw_db_close(bw_db *db)
{
    if (!db)
        return;
    for (size_t i = 0; i < BW_DB_SLOTS; i++)
        sqlite3_finalize(db->slots[i]);
    /* sqlite3_close would checkpoint too, and keep to itself how that went. */
    if (db->sq)
        (void)checkpoint(db);
    if (db->sq && is_poisoned(db))
        sqlite3_db_config(db->sq, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    int rc = sqlite3_close(db->sq);
    assert(rc == SQLITE_OK);
    (void)rc;
    bw_free(db);
}

int bw_db_bind_str(sqlite3_stmt *st, int at, bw_str s)
{
    if (!s.ptr)
        return sqlite3_bind_null(st, at);
    return sqlite3_bind_text64(st, at, s.ptr, s.len, SQLITE_STATIC, SQLITE_UTF8);
}

int bw_db_bind_blob(sqlite3_stmt *st, int at, const void *p, size_t n)
{
    return sqlite3_bind_blob64(st, at, n > 0 ? p : "", n, SQLITE_STATIC);
}

bw_str bw_db_column(sqlite3_stmt *st, int at)
{
    if (sqlite3_column_type(st, at) == SQLITE_NULL)
        return (bw_str){NULL, 0};
    const void *p = sqlite3_column_blob(st, at);
    size_t n = (size_t)sqlite3_column_bytes(st, at);
    return (bw_str){p ? p : "", n};
}

bw_status bw_db_column_copy(bw_ctx *ctx, sqlite3_stmt *st, int at, bw_str *out)
{
    bw_str s = bw_db_column(st, at);
    if (!s.ptr) {
        *out = s;
        return BW_OK;
    }
    return bw_arena_str(ctx, s, out);
}
