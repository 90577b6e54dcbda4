/* One SQLite connection with the house's settings (security.md, section 5).
 *
 * WAL, synchronous=FULL, secure_delete, no schema trust, no extensions, no quoted
 * strings as names, exclusive locking (one process, one connection a file: no shared
 * memory file, two descriptors instead of three). Statements are prepared once and
 * cached by slot; values are always bound. The connection also checkpoints, between
 * its own transactions, so no checkpoint can race with a write (the WAL-reset bug of
 * SQLite 3.7.0 to 3.51.2).
 *
 * Thread class: one thread at a time. */
#ifndef BW_STORE_SQL_H
#define BW_STORE_SQL_H
#include "../base/base.h"
#include <sqlite3.h>
#include <stdatomic.h>

/* Shared by all connections of an engine: a failed fsync means that the kernel may
 * have dropped pages, so nothing is written any more until the cell is opened anew. */
typedef struct bw_health {
    atomic_bool poisoned;
} bw_health;

typedef struct bw_db bw_db;

typedef struct bw_db_options {
    const char *path;
    int application_id;
    int user_version; /* the newest that we read; written into a new file */
    bool create;      /* the file must not be there yet / must be there */
    bool null_sync;
    bool check; /* quick_check: after an unclean start */
    int cache_kib;
    const char *schema; /* run once in a new file */
    bw_health *health;
} bw_db_options;

enum { BW_DB_SLOTS = 40, BW_DB_CHECKPOINT_PAGES = 1000 };

BW_MUST_USE bw_status bw_db_open(bw_ctx *ctx, const bw_db_options *o, bw_db **out);
/* NULL is accepted. Checkpoints and removes the WAL, which stays after a failed sync.
 */
void bw_db_close(bw_db *db);

/* A sync of this connection's file failed. What SQLite then rolled back may lie whole
 * in the WAL, and who opens the file anew would find it: keep the connection. */
bool bw_db_is_suspect(const bw_db *db);

sqlite3 *bw_db_handle(bw_db *db);
/* Literal SQL without values (BEGIN, PRAGMA…). */
BW_MUST_USE bw_status bw_db_exec(bw_ctx *ctx, bw_db *db, const char *sql);
/* The statement of a slot, reset and without bindings. The same slot always has the
 * same text. Borrowed. */
BW_MUST_USE bw_status bw_db_stmt(bw_ctx *ctx, bw_db *db, unsigned slot, const char *sql,
                                 sqlite3_stmt **out);
/* One row: *row says whether there is one. Afterwards the caller resets it. */
BW_MUST_USE bw_status bw_db_step(bw_ctx *ctx, bw_db *db, sqlite3_stmt *st, bool *row);
/* For statements without rows: step, reset. */
BW_MUST_USE bw_status bw_db_run(bw_ctx *ctx, bw_db *db, sqlite3_stmt *st);

/* begin refuses (BW_EUNAVAILABLE) while the engine is poisoned. */
BW_MUST_USE bw_status bw_db_begin(bw_ctx *ctx, bw_db *db);
BW_MUST_USE bw_status bw_db_commit(bw_ctx *ctx,
                                   bw_db *db); /* a failure has rolled back */
void bw_db_rollback(bw_db *db);                /* when none is open: nothing */
/* After a commit, outside of a transaction: moves the WAL into the file when it is
 * long. */
void bw_db_maybe_checkpoint(bw_db *db);
/* The whole WAL into the file, or an error: for a file that is about to get its name.
 */
BW_MUST_USE bw_status bw_db_checkpoint(bw_ctx *ctx, bw_db *db);

/* Binds bytes that live until the statement is reset; none becomes NULL. SQLite's
 * result code: a value too long or no memory; or them together and ask once. */
BW_MUST_USE int bw_db_bind_str(sqlite3_stmt *st, int at, bw_str s);
BW_MUST_USE int bw_db_bind_blob(sqlite3_stmt *st, int at, const void *p, size_t n);
/* The column's bytes, valid until the next step. NULL gives none. */
bw_str bw_db_column(sqlite3_stmt *st, int at);
BW_MUST_USE bw_status bw_db_column_copy(bw_ctx *ctx, sqlite3_stmt *st, int at,
                                        bw_str *out);
/* Our status for an SQLite result code; sets the message. */
bw_status bw_db_fail(bw_ctx *ctx, bw_db *db, int rc, const char *what);
#endif
