/* The file of one partition (partfile.h has the format). Leaves out what rows mean:
 * partition/ loads and changes them. */
#include "partfile.h"
#include "fs.h"

static const char schema[] =
    "CREATE TABLE meta(name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) WITHOUT "
    "ROWID;"
    "CREATE TABLE owner(class BLOB NOT NULL);"
    "CREATE TABLE row(key INTEGER PRIMARY KEY, dead INTEGER NOT NULL, rec BLOB NOT "
    "NULL);"
    "CREATE TABLE segment(no INTEGER PRIMARY KEY, build INTEGER NOT NULL,"
    " key_first INTEGER NOT NULL, key_last INTEGER NOT NULL, sealed_at INTEGER NOT "
    "NULL,"
    " adopted INTEGER NOT NULL, slots INTEGER NOT NULL);"
    "CREATE TABLE staged(tx INTEGER NOT NULL, seq INTEGER NOT NULL, kill INTEGER NOT "
    "NULL,"
    " rec BLOB NOT NULL, PRIMARY KEY(tx, seq));"
    "CREATE VIRTUAL TABLE ft USING fts5(text, content='', tokenize='porter unicode61');"
    "INSERT INTO meta VALUES('number',0),('collection',0),('version',0),('writes',0),"
    "('next_key',1),('grow_written',0),('next_segment',1);";

enum {
    SLOT_META_GET,
    SLOT_META_PUT,
    SLOT_ROW_PUT,
    SLOT_ROW_DELETE,
    SLOT_ROW_SKELETON,
    SLOT_ROWS,
    SLOT_SCRUB,
    SLOT_SCRUB_MARK,
    SLOT_SCRUB_MARKED,
    SLOT_SEGMENTS,
    SLOT_SEGMENT_CLEAR,
    SLOT_SEGMENT_PUT,
    SLOT_STAGE,
    SLOT_UNSTAGE,
    SLOT_STAGED,
    SLOT_STAGED_ROWS,
    SLOT_FT_PUT,
    SLOT_FT_DELETE
};

static bw_db_options options(const char *path, bool null_sync, bw_health *health)
{
    return (bw_db_options){.path = path,
                           .application_id = BW_PARTFILE_APP,
                           .user_version = BW_PARTFILE_VERSION,
                           .null_sync = null_sync,
                           .cache_kib = 1024,
                           .schema = schema,
                           .health = health};
}

static bw_status meta_put(bw_ctx *ctx, bw_db *db, const char *name, int64_t value)
{
    sqlite3_stmt *st = NULL;
    bw_status rc = bw_db_stmt(ctx, db, SLOT_META_PUT,
                              "UPDATE meta SET value=?2 WHERE name=?1", &st);
    if (rc != BW_OK)
        return rc;
    int b = bw_db_bind_str(st, 1, bw_str_c(name));
    b |= sqlite3_bind_int64(st, 2, value);
    return b ? bw_db_fail(ctx, db, b, "bind") : bw_db_run(ctx, db, st);
}

static bw_status meta_get(bw_ctx *ctx, bw_db *db, const char *name, int64_t *value)
{
    sqlite3_stmt *st = NULL;
    bw_status rc =
        bw_db_stmt(ctx, db, SLOT_META_GET, "SELECT value FROM meta WHERE name=?1", &st);
    if (rc != BW_OK)
        return rc;
    int b = bw_db_bind_str(st, 1, bw_str_c(name));
    if (b)
        return bw_db_fail(ctx, db, b, "bind");
    bool row;
    rc = bw_db_step(ctx, db, st, &row);
    if (rc != BW_OK)
        return rc;
    if (row)
        *value = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return row ? BW_OK
               : bw_fail(ctx, BW_ECORRUPT, "store: a partition's mark is missing");
}

static bw_status write_identity(bw_ctx *ctx, bw_db *db, const bw_partfile_id *id)
{
    bw_status rc = bw_db_begin(ctx, db);
    if (rc != BW_OK)
        return rc;
    rc = meta_put(ctx, db, "number", (int64_t)id->number);
    if (rc == BW_OK)
        rc = meta_put(ctx, db, "collection", (int64_t)id->collection);
    sqlite3_stmt *st = NULL;
    if (rc == BW_OK)
        rc = bw_db_stmt(ctx, db, BW_PARTFILE_SLOT_OWNER, "INSERT INTO owner VALUES(?1)",
                        &st);
    if (rc == BW_OK) {
        int b = bw_db_bind_blob(st, 1, id->class_id.bytes, sizeof id->class_id.bytes);
        rc = b ? bw_db_fail(ctx, db, b, "bind") : bw_db_run(ctx, db, st);
    }
    if (rc == BW_OK)
        return bw_db_commit(ctx, db);
    bw_db_rollback(db);
    return rc;
}

bw_status bw_partfile_create(bw_ctx *ctx, const char *path, const bw_partfile_id *id,
                             bool null_sync, bw_health *health)
{
    bw_db_options o = options(path, true, health);
    o.create = true;
    bw_db *db;
    bw_status rc = bw_db_open(ctx, &o, &db);
    if (rc != BW_OK)
        return rc;
    rc = write_identity(ctx, db, id);
    bw_db_close(db); /* moves everything into the file and removes the log */
    const char *wal = bw_arena_printf(ctx, "%s-wal", path);
    if (rc == BW_OK && !wal)
        rc = BW_ENOMEM;
    if (rc == BW_OK && bw_fs_exists(wal))
        rc = bw_fail(ctx, BW_EIO, "store: a new file could not be completed");
    return rc == BW_OK && !null_sync ? bw_fs_sync_file(ctx, path) : rc;
}

static bw_status check_identity(bw_ctx *ctx, bw_db *db, const bw_partfile_id *id)
{
    int64_t number = 0, collection = 0;
    bw_status rc = meta_get(ctx, db, "number", &number);
    if (rc == BW_OK)
        rc = meta_get(ctx, db, "collection", &collection);
    if (rc != BW_OK)
        return rc;
    sqlite3_stmt *st = NULL;
    int r =
        sqlite3_prepare_v2(bw_db_handle(db), "SELECT class FROM owner", -1, &st, NULL);
    if (r != SQLITE_OK)
        return bw_db_fail(ctx, db, r, "prepare");
    bool row = false, same = false;
    rc = bw_db_step(ctx, db, st, &row);
    if (rc == BW_OK && row) {
        bw_str c = bw_db_column(st, 0);
        same = c.len == sizeof id->class_id.bytes &&
               memcmp(c.ptr, id->class_id.bytes, c.len) == 0;
    }
    sqlite3_finalize(st);
    if (rc == BW_OK && (!same || number != (int64_t)id->number ||
                        collection != (int64_t)id->collection))
        rc = bw_fail(ctx, BW_ECORRUPT,
                     "store: a file is not the partition that it should be");
    return rc;
}

bw_status bw_partfile_open(bw_ctx *ctx, const char *path, const bw_partfile_id *id,
                           bool null_sync, bool check, bw_health *health, bw_db **out)
{
    bw_db_options o = options(path, null_sync, health);
    o.check = check;
    bw_db *db;
    bw_status rc = bw_db_open(ctx, &o, &db);
    if (rc != BW_OK)
        return rc;
    rc = check_identity(ctx, db, id);
    if (rc != BW_OK) {
        bw_db_close(db);
        return rc;
    }
    *out = db;
    return BW_OK;
}

bw_status bw_partfile_state(bw_ctx *ctx, bw_db *db, bw_part_state *out)
{
    static const char *const names[] = {"version", "writes", "grow_written", "next_key",
                                        "next_segment"};
    int64_t v[5] = {0};
    for (size_t i = 0; i < 5; i++) {
        bw_status rc = meta_get(ctx, db, names[i], &v[i]);
        if (rc != BW_OK)
            return rc;
        if (v[i] < 0)
            return bw_fail(ctx, BW_ECORRUPT,
                           "store: a partition's mark is out of range");
    }
    *out = (bw_part_state){(uint64_t)v[0], (uint64_t)v[1], (uint64_t)v[2], v[3],
                           (uint32_t)v[4]};
    return BW_OK;
}

bw_status bw_partfile_put_state(bw_ctx *ctx, bw_db *db, const bw_part_state *s)
{
    bw_status rc = meta_put(ctx, db, "version", (int64_t)s->version);
    if (rc == BW_OK)
        rc = meta_put(ctx, db, "writes", (int64_t)s->writes);
    if (rc == BW_OK)
        rc = meta_put(ctx, db, "grow_written", (int64_t)s->grow_written);
    if (rc == BW_OK)
        rc = meta_put(ctx, db, "next_key", s->next_key);
    if (rc == BW_OK)
        rc = meta_put(ctx, db, "next_segment", s->next_segment);
    return rc;
}

typedef struct segment_list {
    bw_part_segment *items;
    uint32_t n, cap;
} segment_list;

static bw_status list_put(bw_ctx *ctx, segment_list *l, const bw_part_segment *s)
{
    if (s->key_last < s->key_first ||
        (l->n > 0 && s->key_first <= l->items[l->n - 1].key_last) || s->key_first < 1)
        return bw_fail(ctx, BW_ECORRUPT, "store: a partition's segments overlap");
    if (l->n == l->cap) {
        uint32_t grown = l->cap ? 2 * l->cap : 8;
        l->items = bw_arena_grow(ctx, l->items, l->cap * sizeof *l->items,
                                 grown * sizeof *l->items);
        if (!l->items)
            return BW_ENOMEM;
        l->cap = grown;
    }
    l->items[l->n++] = *s;
    return BW_OK;
}

enum { MERGING = 2 }; /* of `adopted` */

bw_status bw_partfile_segments(bw_ctx *ctx, bw_db *db, bw_part_segment **out,
                               uint32_t *n, bw_part_segment **merges,
                               uint32_t *nmerges)
{
    sqlite3_stmt *st = NULL;
    bw_status rc =
        bw_db_stmt(ctx, db, SLOT_SEGMENTS,
                   "SELECT no, build, key_first, key_last, sealed_at, adopted, slots "
                   "FROM segment ORDER BY key_first",
                   &st);
    segment_list sealed = {0}, merging = {0};
    bool row = false;
    while (rc == BW_OK && (rc = bw_db_step(ctx, db, st, &row)) == BW_OK && row) {
        int64_t adopted = sqlite3_column_int64(st, 5);
        bw_part_segment s = {(uint32_t)sqlite3_column_int64(st, 0),
                             (uint32_t)sqlite3_column_int64(st, 1),
                             sqlite3_column_int64(st, 2),
                             sqlite3_column_int64(st, 3),
                             (uint64_t)sqlite3_column_int64(st, 4),
                             (uint32_t)sqlite3_column_int64(st, 6),
                             adopted == 1};
        rc = list_put(ctx, adopted == MERGING ? &merging : &sealed, &s);
    }
    if (st)
        sqlite3_reset(st);
    if (rc != BW_OK)
        return rc;
    *out = sealed.items;
    *n = sealed.n;
    *merges = merging.items;
    *nmerges = merging.n;
    return BW_OK;
}

static bw_status put_segment(bw_ctx *ctx, bw_db *db, const bw_part_segment *s,
                             int adopted)
{
    sqlite3_stmt *st = NULL;
    bw_status rc = bw_db_stmt(ctx, db, SLOT_SEGMENT_PUT,
                              "INSERT INTO segment VALUES(?1,?2,?3,?4,?5,?6,?7)", &st);
    if (rc != BW_OK)
        return rc;
    sqlite3_bind_int64(st, 1, s->no);
    sqlite3_bind_int64(st, 2, s->build);
    sqlite3_bind_int64(st, 3, s->key_first);
    sqlite3_bind_int64(st, 4, s->key_last);
    sqlite3_bind_int64(st, 5, (int64_t)s->sealed_at);
    sqlite3_bind_int64(st, 6, adopted);
    sqlite3_bind_int64(st, 7, s->slots);
    return bw_db_run(ctx, db, st);
}

bw_status bw_partfile_put_segments(bw_ctx *ctx, bw_db *db, const bw_part_segment *s,
                                   uint32_t n, const bw_part_segment *merges,
                                   uint32_t nmerges)
{
    sqlite3_stmt *st = NULL;
    bw_status rc = bw_db_stmt(ctx, db, SLOT_SEGMENT_CLEAR, "DELETE FROM segment", &st);
    if (rc == BW_OK)
        rc = bw_db_run(ctx, db, st);
    for (uint32_t i = 0; rc == BW_OK && i < n; i++)
        rc = put_segment(ctx, db, &s[i], s[i].adopted);
    for (uint32_t i = 0; rc == BW_OK && i < nmerges; i++)
        rc = put_segment(ctx, db, &merges[i], MERGING);
    /* A file of version 1 becomes one of ours with the first thing that version 1 did not
     * know; the mark is part of the transaction. */
    if (rc == BW_OK && nmerges > 0)
        rc = bw_db_exec(ctx, db, "PRAGMA user_version=2");
    return rc;
}

static bw_row_mark mark_of(int dead)
{
    return dead == 0 ? BW_ROW_LIVES : dead == 2 ? BW_ROW_LEFT_OUT : BW_ROW_DEAD;
}

bw_status bw_partfile_rows(bw_ctx *ctx, bw_db *db, int64_t first, int64_t last,
                           bw_partfile_row_fn fn, void *arg)
{
    sqlite3_stmt *st = NULL;
    bw_status rc = bw_db_stmt(ctx, db, SLOT_ROWS,
                              "SELECT key, dead, rec FROM row WHERE key BETWEEN ?1 AND ?2 "
                              "ORDER BY key",
                              &st);
    if (rc == BW_OK) {
        sqlite3_bind_int64(st, 1, first);
        sqlite3_bind_int64(st, 2, last);
    }
    bool row = false;
    while (rc == BW_OK && (rc = bw_db_step(ctx, db, st, &row)) == BW_OK && row) {
        bw_arena_mark mark = bw_arena_mark_get(ctx);
        rc = fn(ctx, arg, sqlite3_column_int64(st, 0), mark_of(sqlite3_column_int(st, 1)), bw_db_column(st, 2));
        bw_arena_release(ctx, mark);
    }
    if (rc != BW_OK && st)
        sqlite3_reset(st);
    return rc;
}

static bw_status ft_put(bw_ctx *ctx, bw_db *db, bool put, int64_t key, bw_str text)
{
    sqlite3_stmt *st = NULL;
    bw_status rc =
        put ? bw_db_stmt(ctx, db, SLOT_FT_PUT,
                         "INSERT INTO ft(rowid, text) VALUES(?1, ?2)", &st)
            : bw_db_stmt(ctx, db, SLOT_FT_DELETE,
                         "INSERT INTO ft(ft, rowid, text) VALUES('delete', ?1, ?2)",
                         &st);
    if (rc != BW_OK)
        return rc;
    int b = sqlite3_bind_int64(st, 1, key);
    b |= bw_db_bind_str(st, 2, text);
    return b ? bw_db_fail(ctx, db, b, "bind") : bw_db_run(ctx, db, st);
}

bw_status bw_partfile_put_row(bw_ctx *ctx, bw_db *db, int64_t key, bw_str rec,
                              bw_str text)
{
    sqlite3_stmt *st = NULL;
    bw_status rc =
        bw_db_stmt(ctx, db, SLOT_ROW_PUT, "INSERT INTO row VALUES(?1, 0, ?2)", &st);
    if (rc != BW_OK)
        return rc;
    int b = sqlite3_bind_int64(st, 1, key);
    b |= bw_db_bind_blob(st, 2, rec.ptr, rec.len);
    rc = b ? bw_db_fail(ctx, db, b, "bind") : bw_db_run(ctx, db, st);
    if (rc == BW_OK && text.ptr)
        rc = ft_put(ctx, db, true, key, text);
    return rc;
}

bw_status bw_partfile_end_row(bw_ctx *ctx, bw_db *db, int64_t key, bw_str skeleton,
                              bw_str text)
{
    sqlite3_stmt *st = NULL;
    bw_status rc =
        skeleton.ptr
            ? bw_db_stmt(ctx, db, SLOT_ROW_SKELETON,
                         "UPDATE row SET dead=1, rec=?2 WHERE key=?1 AND dead=0", &st)
            : bw_db_stmt(ctx, db, SLOT_ROW_DELETE,
                         "DELETE FROM row WHERE key=?1 AND dead=0", &st);
    if (rc != BW_OK)
        return rc;
    int b = sqlite3_bind_int64(st, 1, key);
    if (skeleton.ptr)
        b |= bw_db_bind_blob(st, 2, skeleton.ptr, skeleton.len);
    rc = b ? bw_db_fail(ctx, db, b, "bind") : bw_db_run(ctx, db, st);
    if (rc == BW_OK && sqlite3_changes(bw_db_handle(db)) != 1)
        rc = bw_fail(ctx, BW_ECORRUPT, "store: a row to end is not there");
    if (rc == BW_OK && text.ptr)
        rc = ft_put(ctx, db, false, key, text);
    return rc;
}

bw_status bw_partfile_scrub(bw_ctx *ctx, bw_db *db, const bw_scrub_range *r)
{
    static const char *const sql[] = {
        [BW_SCRUB_DEAD] = "DELETE FROM row WHERE key BETWEEN ?1 AND ?2 AND dead<>0",
        [BW_SCRUB_MARK] = "UPDATE row SET dead=2 WHERE key BETWEEN ?1 AND ?2 AND dead=1",
        [BW_SCRUB_MARKED] = "DELETE FROM row WHERE key BETWEEN ?1 AND ?2 AND dead=2"};
    static const unsigned slots[] = {SLOT_SCRUB, SLOT_SCRUB_MARK, SLOT_SCRUB_MARKED};
    sqlite3_stmt *st = NULL;
    bw_status rc = bw_db_stmt(ctx, db, slots[r->what], sql[r->what], &st);
    if (rc != BW_OK)
        return rc;
    sqlite3_bind_int64(st, 1, r->key_first);
    sqlite3_bind_int64(st, 2, r->key_last);
    return bw_db_run(ctx, db, st);
}

bw_status bw_partfile_stage(bw_ctx *ctx, bw_db *db, uint64_t tx, uint32_t seq,
                            int64_t kill, bw_str rec)
{
    sqlite3_stmt *st = NULL;
    bw_status rc = bw_db_stmt(ctx, db, SLOT_STAGE,
                              "INSERT INTO staged VALUES(?1, ?2, ?3, ?4)", &st);
    if (rc != BW_OK)
        return rc;
    sqlite3_bind_int64(st, 1, (int64_t)tx);
    sqlite3_bind_int64(st, 2, seq);
    sqlite3_bind_int64(st, 3, kill);
    int b = bw_db_bind_blob(st, 4, rec.ptr, rec.len);
    return b ? bw_db_fail(ctx, db, b, "bind") : bw_db_run(ctx, db, st);
}

bw_status bw_partfile_unstage(bw_ctx *ctx, bw_db *db, uint64_t tx)
{
    sqlite3_stmt *st = NULL;
    bw_status rc =
        bw_db_stmt(ctx, db, SLOT_UNSTAGE, "DELETE FROM staged WHERE tx=?1", &st);
    if (rc != BW_OK)
        return rc;
    sqlite3_bind_int64(st, 1, (int64_t)tx);
    return bw_db_run(ctx, db, st);
}

bw_status bw_partfile_staged(bw_ctx *ctx, bw_db *db, uint64_t **out, size_t *n)
{
    sqlite3_stmt *st = NULL;
    bw_status rc = bw_db_stmt(ctx, db, SLOT_STAGED,
                              "SELECT DISTINCT tx FROM staged ORDER BY tx", &st);
    uint64_t *list = NULL;
    size_t count = 0;
    bool row = false;
    while (rc == BW_OK && (rc = bw_db_step(ctx, db, st, &row)) == BW_OK && row) {
        list =
            bw_arena_grow(ctx, list, count * sizeof *list, (count + 1) * sizeof *list);
        if (!list)
            rc = BW_ENOMEM;
        else
            list[count++] = (uint64_t)sqlite3_column_int64(st, 0);
    }
    if (st)
        sqlite3_reset(st); /* an open read would hold up every checkpoint */
    if (rc != BW_OK)
        return rc;
    *out = list;
    *n = count;
    return BW_OK;
}

bw_status bw_partfile_staged_rows(bw_ctx *ctx, bw_db *db, uint64_t tx,
                                  bw_partfile_staged_fn fn, void *arg)
{
    sqlite3_stmt *st = NULL;
    bw_status rc =
        bw_db_stmt(ctx, db, SLOT_STAGED_ROWS,
                   "SELECT kill, rec FROM staged WHERE tx=?1 ORDER BY seq", &st);
    if (rc == BW_OK)
        sqlite3_bind_int64(st, 1, (int64_t)tx);
    bool row = false;
    while (rc == BW_OK && (rc = bw_db_step(ctx, db, st, &row)) == BW_OK && row)
        rc = fn(ctx, arg, sqlite3_column_int64(st, 0), bw_db_column(st, 1));
    if (rc != BW_OK && st)
        sqlite3_reset(st);
    return rc;
}
