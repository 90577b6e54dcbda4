/* The cell's catalogue file (catalogue.h has the format). Leaves out the copy in
 * memory that requests read: engine/collection.c. */
#include "catalogue.h"
#include "fs.h"

#include <errno.h>
#include <stdio.h>

static const char schema[] =
    "CREATE TABLE meta(name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) WITHOUT "
    "ROWID;"
    "CREATE TABLE collection(uid INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT "
    "NULL,"
    " name TEXT NOT NULL, settings TEXT, labels TEXT, UNIQUE(tenant, name));"
    "CREATE TABLE vector(uid INTEGER NOT NULL REFERENCES collection(uid), place "
    "INTEGER NOT NULL,"
    " name TEXT NOT NULL, dim INTEGER NOT NULL, metric INTEGER NOT NULL, sparse "
    "INTEGER NOT NULL,"
    " idf INTEGER NOT NULL, dtype INTEGER NOT NULL DEFAULT 0,"
    " on_disk INTEGER NOT NULL DEFAULT 0, kind INTEGER NOT NULL DEFAULT 0,"
    " m INTEGER NOT NULL DEFAULT 0, ef INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY(uid, place)) WITHOUT ROWID;"
    "CREATE TABLE pindex(uid INTEGER NOT NULL REFERENCES collection(uid), field TEXT "
    "NOT NULL,"
    " type TEXT NOT NULL, params TEXT, PRIMARY KEY(uid, field)) WITHOUT ROWID;"
    "CREATE TABLE alias(tenant TEXT NOT NULL, alias TEXT NOT NULL,"
    " uid INTEGER NOT NULL REFERENCES collection(uid), PRIMARY KEY(tenant, alias)) "
    "WITHOUT ROWID;"
    "CREATE TABLE class(id BLOB PRIMARY KEY NOT NULL, text TEXT NOT NULL) WITHOUT "
    "ROWID;"
    "CREATE TABLE partition(number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " uid INTEGER NOT NULL REFERENCES collection(uid), class BLOB NOT NULL REFERENCES "
    "class(id),"
    " UNIQUE(uid, class));"
    "CREATE TABLE tx(id INTEGER PRIMARY KEY);"
    "CREATE TABLE txpart(id INTEGER NOT NULL REFERENCES tx(id), number INTEGER NOT "
    "NULL,"
    " PRIMARY KEY(id, number)) WITHOUT ROWID;"
    "CREATE TABLE trash(number INTEGER PRIMARY KEY);"
    "INSERT INTO meta VALUES('clean', 1);";

/* Prepares, binds by kind (i: int64_t, s: bw_str, b: pointer and size_t), and runs a
 * statement without rows. The catalogue changes rarely: nothing is cached. */
static bw_status run(bw_ctx *ctx, bw_db *db, const char *sql, const char *kinds, ...)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(bw_db_handle(db), sql, -1, &st, NULL);
    if (rc != SQLITE_OK)
        return bw_db_fail(ctx, db, rc, "prepare");
    va_list ap;
    va_start(ap, kinds);
    int bad = 0;
    for (int i = 0; kinds[i]; i++) {
        if (kinds[i] == 'i') {
            bad |= sqlite3_bind_int64(st, i + 1, va_arg(ap, int64_t));
        } else if (kinds[i] == 's') {
            bad |= bw_db_bind_str(st, i + 1, va_arg(ap, bw_str));
        } else {
            const void *p = va_arg(ap, const void *);
            bad |= bw_db_bind_blob(st, i + 1, p, va_arg(ap, size_t));
        }
    }
    va_end(ap);
    bw_status s = bad ? bw_db_fail(ctx, db, SQLITE_NOMEM, "bind") : BW_OK;
    if (s == BW_OK) {
        rc = sqlite3_step(st);
        if (rc != SQLITE_DONE && rc != SQLITE_ROW)
            s = bw_db_fail(ctx, db, rc, "write the catalogue");
    }
    sqlite3_finalize(st);
    return s;
}

static bw_status finish(bw_ctx *ctx, bw_db *db, bw_status s)
{
    if (s == BW_OK)
        s = bw_db_commit(ctx, db);
    else
        bw_db_rollback(db);
    if (s == BW_OK)
        bw_db_maybe_checkpoint(db);
    return s;
}

/* ---- reading: rows into an arena list ---- */

typedef bw_status (*row_fn)(bw_ctx *ctx, sqlite3_stmt *st, void *item);

static bw_status list(bw_ctx *ctx, bw_db *db, const char *sql, int64_t arg, size_t size,
                      row_fn fn, void **out, size_t *n)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(bw_db_handle(db), sql, -1, &st, NULL);
    if (rc != SQLITE_OK)
        return bw_db_fail(ctx, db, rc, "prepare");
    if (sqlite3_bind_parameter_count(st) == 1)
        sqlite3_bind_int64(st, 1, arg);
    char *items = NULL;
    size_t count = 0, cap = 0;
    bool row = false;
    bw_status s;
    while ((s = bw_db_step(ctx, db, st, &row)) == BW_OK && row) {
        if (count == cap) {
            size_t grown = cap ? 2 * cap : 8;
            items = bw_arena_grow(ctx, items, cap * size, grown * size);
            if (!items) {
                s = BW_ENOMEM;
                break;
            }
            cap = grown;
        }
        memset(items + count * size, 0, size);
        s = fn(ctx, st, items + count * size);
        if (s != BW_OK)
            break;
        count++;
    }
    sqlite3_finalize(st);
    if (s != BW_OK)
        return s;
    *out = items;
    *n = count;
    return BW_OK;
}

static bw_status damaged(bw_ctx *ctx)
{
    return bw_fail(ctx, BW_ECORRUPT, "store: the catalogue holds what it should not");
}

static bw_status class_column(bw_ctx *ctx, sqlite3_stmt *st, int at, bw_class_id *out)
{
    bw_str s = bw_db_column(st, at);
    if (s.len != sizeof out->bytes)
        return damaged(ctx);
    memcpy(out->bytes, s.ptr, s.len);
    return BW_OK;
}

static bw_status vector_row(bw_ctx *ctx, sqlite3_stmt *st, void *item)
{
    bw_vector_spec *v = item;
    int64_t dim = sqlite3_column_int64(st, 1), metric = sqlite3_column_int64(st, 2);
    v->sparse = sqlite3_column_int(st, 3) != 0;
    v->idf = sqlite3_column_int(st, 4) != 0;
    int64_t dtype = sqlite3_column_int64(st, 5), kind = sqlite3_column_int64(st, 7),
            m = sqlite3_column_int64(st, 8), ef = sqlite3_column_int64(st, 9);
    if (metric < 0 || metric > BW_METRIC_MANHATTAN || dim < 0 || dim > 65536 ||
        v->sparse != (dim == 0) || dtype < 0 || dtype >= BW_NDTYPES || kind < 0 ||
        kind >= BW_NINDEX_CHOICES || m < 0 || m > UINT32_MAX || ef < 0 ||
        ef > UINT32_MAX)
        return damaged(ctx);
    v->dtype = (bw_dtype)dtype;
    v->on_disk = sqlite3_column_int(st, 6) != 0;
    v->index = (bw_index_choice)kind;
    v->m = (uint32_t)m;
    v->ef_construct = (uint32_t)ef;
    v->dim = (uint32_t)dim;
    v->metric = (bw_metric)metric;
    return bw_db_column_copy(ctx, st, 0, &v->name);
}

static bw_status index_row(bw_ctx *ctx, sqlite3_stmt *st, void *item)
{
    bw_index_spec *x = item;
    bw_status s = bw_db_column_copy(ctx, st, 0, &x->field);
    if (s == BW_OK)
        s = bw_db_column_copy(ctx, st, 1, &x->type);
    return s == BW_OK ? bw_db_column_copy(ctx, st, 2, &x->params) : s;
}

static bw_status collection_row(bw_ctx *ctx, sqlite3_stmt *st, void *item)
{
    bw_collection_info *i = item;
    i->uid = (uint64_t)sqlite3_column_int64(st, 0);
    bw_status s = bw_db_column_copy(ctx, st, 1, &i->tenant);
    if (s == BW_OK)
        s = bw_db_column_copy(ctx, st, 2, &i->name);
    if (s == BW_OK)
        s = bw_db_column_copy(ctx, st, 3, &i->settings);
    return s == BW_OK ? bw_db_column_copy(ctx, st, 4, &i->labels) : s;
}

bw_status bw_catalogue_collections(bw_ctx *ctx, bw_catalogue *c,
                                   bw_collection_info **out, size_t *n)
{
    void *p = NULL;
    bw_status s =
        list(ctx, c->db,
             "SELECT uid, tenant, name, settings, labels FROM collection ORDER BY uid",
             0, sizeof(bw_collection_info), collection_row, &p, n);
    if (s != BW_OK)
        return s;
    bw_collection_info *infos = p;
    for (size_t i = 0; i < *n; i++) {
        void *v = NULL, *x = NULL;
        size_t nv = 0, nx = 0;
        s = list(ctx, c->db,
                 "SELECT name, dim, metric, sparse, idf, dtype, on_disk, kind, m, ef "
                 "FROM vector WHERE uid=?1 ORDER BY place",
                 (int64_t)infos[i].uid, sizeof(bw_vector_spec), vector_row, &v, &nv);
        if (s == BW_OK)
            s = list(
                ctx, c->db,
                "SELECT field, type, params FROM pindex WHERE uid=?1 ORDER BY field",
                (int64_t)infos[i].uid, sizeof(bw_index_spec), index_row, &x, &nx);
        if (s != BW_OK)
            return s;
        infos[i].vectors = v;
        infos[i].nvectors = (uint32_t)nv;
        infos[i].indexes = x;
        infos[i].nindexes = (uint32_t)nx;
    }
    *out = infos;
    return BW_OK;
}

static bw_status alias_row(bw_ctx *ctx, sqlite3_stmt *st, void *item)
{
    bw_catalogue_alias *a = item;
    a->uid = (uint64_t)sqlite3_column_int64(st, 2);
    bw_status s = bw_db_column_copy(ctx, st, 0, &a->tenant);
    return s == BW_OK ? bw_db_column_copy(ctx, st, 1, &a->alias) : s;
}

bw_status bw_catalogue_aliases(bw_ctx *ctx, bw_catalogue *c, bw_catalogue_alias **out,
                               size_t *n)
{
    void *p = NULL;
    bw_status s =
        list(ctx, c->db, "SELECT tenant, alias, uid FROM alias ORDER BY tenant, alias",
             0, sizeof(bw_catalogue_alias), alias_row, &p, n);
    *out = p;
    return s;
}

static bw_status class_row(bw_ctx *ctx, sqlite3_stmt *st, void *item)
{
    bw_catalogue_class *k = item;
    bw_status s = class_column(ctx, st, 0, &k->id);
    return s == BW_OK ? bw_db_column_copy(ctx, st, 1, &k->text) : s;
}

bw_status bw_catalogue_classes(bw_ctx *ctx, bw_catalogue *c, bw_catalogue_class **out,
                               size_t *n)
{
    void *p = NULL;
    bw_status s = list(ctx, c->db, "SELECT id, text FROM class ORDER BY id", 0,
                       sizeof(bw_catalogue_class), class_row, &p, n);
    *out = p;
    return s;
}

static bw_status partition_row(bw_ctx *ctx, sqlite3_stmt *st, void *item)
{
    bw_catalogue_partition *p = item;
    p->number = (uint64_t)sqlite3_column_int64(st, 0);
    p->uid = (uint64_t)sqlite3_column_int64(st, 1);
    return class_column(ctx, st, 2, &p->class_id);
}

bw_status bw_catalogue_partitions(bw_ctx *ctx, bw_catalogue *c,
                                  bw_catalogue_partition **out, size_t *n)
{
    void *p = NULL;
    bw_status s =
        list(ctx, c->db, "SELECT number, uid, class FROM partition ORDER BY uid, class",
             0, sizeof(bw_catalogue_partition), partition_row, &p, n);
    *out = p;
    return s;
}

static bw_status txpart_row(bw_ctx *ctx, sqlite3_stmt *st, void *item)
{
    (void)ctx;
    bw_catalogue_txpart *t = item;
    t->tx = (uint64_t)sqlite3_column_int64(st, 0);
    t->number = (uint64_t)sqlite3_column_int64(st, 1);
    return BW_OK;
}

bw_status bw_catalogue_txparts(bw_ctx *ctx, bw_catalogue *c, bw_catalogue_txpart **out,
                               size_t *n)
{
    void *p = NULL;
    bw_status s = list(ctx, c->db, "SELECT id, number FROM txpart ORDER BY id, number",
                       0, sizeof(bw_catalogue_txpart), txpart_row, &p, n);
    *out = p;
    return s;
}

static bw_status number_row(bw_ctx *ctx, sqlite3_stmt *st, void *item)
{
    (void)ctx;
    *(uint64_t *)item = (uint64_t)sqlite3_column_int64(st, 0);
    return BW_OK;
}

bw_status bw_catalogue_trash(bw_ctx *ctx, bw_catalogue *c, uint64_t **out, size_t *n)
{
    void *p = NULL;
    bw_status s = list(ctx, c->db, "SELECT number FROM trash ORDER BY number", 0,
                       sizeof(uint64_t), number_row, &p, n);
    *out = p;
    return s;
}

bw_status bw_catalogue_next_number(bw_ctx *ctx, bw_catalogue *c, uint64_t *out)
{
    void *p = NULL;
    size_t n = 0;
    bw_status s =
        list(ctx, c->db, "SELECT seq FROM sqlite_sequence WHERE name='partition'", 0,
             sizeof(uint64_t), number_row, &p, &n);
    if (s == BW_OK)
        *out = n > 0 ? *(uint64_t *)p + 1 : 1;
    return s;
}

/* ---- changing ---- */

static bw_status set_clean(bw_ctx *ctx, bw_db *db, bool clean)
{
    bw_status s = bw_db_begin(ctx, db);
    if (s != BW_OK)
        return s;
    return finish(ctx, db,
                  run(ctx, db, "UPDATE meta SET value=?1 WHERE name='clean'", "i",
                      (int64_t)clean));
}

/* A new file gets its name only when it is complete: a crash in between leaves none. */
static bw_status create_file(bw_ctx *ctx, const bw_db_options *o, const char *dir)
{
    const char *tmp = bw_arena_printf(ctx, "%s/catalogue.new", dir);
    const char *wal = bw_arena_printf(ctx, "%s/catalogue.new-wal", dir);
    if (!tmp || !wal)
        return BW_ENOMEM;
    bw_status s = bw_fs_unlink(ctx, tmp);
    if (s == BW_OK)
        s = bw_fs_unlink(ctx, wal);
    if (s != BW_OK)
        return s;
    bw_db_options n = *o;
    n.path = tmp;
    n.create = true;
    bw_db *db;
    s = bw_db_open(ctx, &n, &db);
    if (s != BW_OK)
        return s;
    s = bw_db_checkpoint(ctx, db); /* the name moves, the WAL does not */
    bw_db_close(db);
    if (s != BW_OK)
        return s;
    if (rename(tmp, o->path) != 0)
        return bw_fail_errno(ctx, "name the catalogue", errno);
    return bw_fs_sync_dir(ctx, dir);
}

/* A file of version 1 gets the columns that came with version 2. */
static bw_status upgrade(bw_ctx *ctx, bw_db *db)
{
    static const char *const columns[] = {"dtype", "on_disk", "kind", "m", "ef"};
    void *p = NULL;
    size_t n = 0;
    bw_status s = list(ctx, db, "PRAGMA user_version", 0, sizeof(uint64_t), number_row,
                       &p, &n);
    if (s != BW_OK || *(uint64_t *)p >= 2)
        return s;
    s = bw_db_begin(ctx, db);
    for (size_t i = 0; s == BW_OK && i < sizeof columns / sizeof *columns; i++) {
        const char *sql = bw_arena_printf(
            ctx, "ALTER TABLE vector ADD COLUMN %s INTEGER NOT NULL DEFAULT 0",
            columns[i]);
        s = sql ? bw_db_exec(ctx, db, sql) : BW_ENOMEM;
    }
    if (s == BW_OK)
        s = bw_db_exec(ctx, db, "PRAGMA user_version=2");
    return finish(ctx, db, s);
}

bw_status bw_catalogue_open(bw_ctx *ctx, const char *dir, bool create, bool null_sync,
                            bw_health *health, bw_catalogue *out)
{
    const char *path = bw_arena_printf(ctx, "%s/catalogue.db", dir);
    if (!path)
        return BW_ENOMEM;
    bw_db_options o = {.path = path,
                       .application_id = BW_CATALOGUE_APP,
                       .user_version = BW_CATALOGUE_VERSION,
                       .null_sync = null_sync,
                       .cache_kib = 2048,
                       .schema = schema,
                       .health = health};
    bw_db *db;
    bw_status s = BW_OK;
    if (create && !bw_fs_exists(path))
        s = create_file(ctx, &o, dir);
    if (s == BW_OK)
        s = bw_db_open(ctx, &o, &db);
    if (s != BW_OK)
        return s;
    void *p = NULL;
    size_t n = 0;
    s = list(ctx, db, "SELECT value FROM meta WHERE name='clean'", 0, sizeof(uint64_t),
             number_row, &p, &n);
    if (s == BW_OK && n != 1)
        s = damaged(ctx);
    bool unclean = s == BW_OK && *(uint64_t *)p == 0;
    if (s == BW_OK && unclean) { /* once more, now looking through the pages */
        bw_db_close(db);
        db = NULL;
        o.check = true;
        s = bw_db_open(ctx, &o, &db);
    }
    if (s == BW_OK)
        s = upgrade(ctx, db);
    if (s == BW_OK)
        s = set_clean(ctx, db, false);
    if (s != BW_OK) {
        bw_db_close(db);
        return s;
    }
    *out = (bw_catalogue){db, unclean, false};
    return BW_OK;
}

void bw_catalogue_close(bw_catalogue *c)
{
    if (!c->db)
        return;
    bw_ctx *ctx = bw_ctx_new(0);
    if (!ctx || (!c->stay_unclean && set_clean(ctx, c->db, true) != BW_OK))
        bw_log(BW_LOG_WARN, "store: the next start will check the files");
    bw_ctx_free(ctx);
    bw_db_close(c->db);
    c->db = NULL;
}

bw_status bw_catalogue_collection_add(bw_ctx *ctx, bw_catalogue *c,
                                      const bw_collection_info *info, uint64_t *uid)
{
    bw_status s = bw_db_begin(ctx, c->db);
    if (s != BW_OK)
        return s;
    s = run(
        ctx, c->db,
        "INSERT INTO collection(tenant, name, settings, labels) VALUES(?1,?2,?3,?4)",
        "ssss", info->tenant, info->name, info->settings, info->labels);
    int64_t id = sqlite3_last_insert_rowid(bw_db_handle(c->db));
    for (uint32_t i = 0; s == BW_OK && i < info->nvectors; i++) {
        const bw_vector_spec *v = &info->vectors[i];
        s = run(ctx, c->db,
                "INSERT INTO vector(uid, place, name, dim, metric, sparse, idf, dtype,"
                " on_disk, kind, m, ef) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)",
                "iisiiiiiiiii", id, (int64_t)i, v->name, (int64_t)v->dim,
                (int64_t)v->metric, (int64_t)v->sparse, (int64_t)v->idf,
                (int64_t)v->dtype, (int64_t)v->on_disk, (int64_t)v->index,
                (int64_t)v->m, (int64_t)v->ef_construct);
    }
    s = finish(ctx, c->db, s);
    if (s == BW_OK)
        *uid = (uint64_t)id;
    return s;
}

bw_status bw_catalogue_collection_drop(bw_ctx *ctx, bw_catalogue *c, uint64_t uid)
{
    static const char *const steps[] = {
        "INSERT INTO trash SELECT number FROM partition WHERE uid=?1",
        ("DELETE FROM txpart WHERE number IN"
         " (SELECT number FROM partition WHERE uid=?1)"),
        "DELETE FROM partition WHERE uid=?1",
        "DELETE FROM alias WHERE uid=?1",
        "DELETE FROM pindex WHERE uid=?1",
        "DELETE FROM vector WHERE uid=?1",
        "DELETE FROM collection WHERE uid=?1",
    };
    bw_status s = bw_db_begin(ctx, c->db);
    if (s != BW_OK)
        return s;
    for (size_t i = 0; s == BW_OK && i < sizeof steps / sizeof *steps; i++)
        s = run(ctx, c->db, steps[i], "i", (int64_t)uid);
    if (s == BW_OK)
        s = run(ctx, c->db, "DELETE FROM tx WHERE id NOT IN (SELECT id FROM txpart)",
                "");
    return finish(ctx, c->db, s);
}

bw_status bw_catalogue_collection_set(bw_ctx *ctx, bw_catalogue *c, uint64_t uid,
                                      bw_str settings, bw_str labels)
{
    bw_status s = bw_db_begin(ctx, c->db);
    if (s != BW_OK)
        return s;
    return finish(ctx, c->db,
                  run(ctx, c->db,
                      "UPDATE collection SET settings=?2, labels=?3 WHERE uid=?1",
                      "iss", (int64_t)uid, settings, labels));
}

bw_status bw_catalogue_index_put(bw_ctx *ctx, bw_catalogue *c, uint64_t uid,
                                 const bw_index_spec *spec)
{
    bw_status s = bw_db_begin(ctx, c->db);
    if (s != BW_OK)
        return s;
    return finish(ctx, c->db,
                  run(ctx, c->db, "INSERT OR REPLACE INTO pindex VALUES(?1,?2,?3,?4)",
                      "isss", (int64_t)uid, spec->field, spec->type, spec->params));
}

bw_status bw_catalogue_index_drop(bw_ctx *ctx, bw_catalogue *c, uint64_t uid,
                                  bw_str field)
{
    bw_status s = bw_db_begin(ctx, c->db);
    if (s != BW_OK)
        return s;
    return finish(ctx, c->db,
                  run(ctx, c->db, "DELETE FROM pindex WHERE uid=?1 AND field=?2", "is",
                      (int64_t)uid, field));
}

bw_status bw_catalogue_aliases_set(bw_ctx *ctx, bw_catalogue *c, bw_str tenant,
                                   const bw_catalogue_alias *aliases, size_t n)
{
    bw_status s = bw_db_begin(ctx, c->db);
    if (s != BW_OK)
        return s;
    s = run(ctx, c->db, "DELETE FROM alias WHERE tenant=?1", "s", tenant);
    for (size_t i = 0; s == BW_OK && i < n; i++)
        s = run(ctx, c->db, "INSERT INTO alias VALUES(?1,?2,?3)", "ssi", tenant,
                aliases[i].alias, (int64_t)aliases[i].uid);
    return finish(ctx, c->db, s);
}

bw_status bw_catalogue_class_add(bw_ctx *ctx, bw_catalogue *c, const bw_class_id *id,
                                 bw_str text)
{
    bw_status s = bw_db_begin(ctx, c->db);
    if (s != BW_OK)
        return s;
    return finish(ctx, c->db,
                  run(ctx, c->db, "INSERT OR IGNORE INTO class VALUES(?1,?2)", "bs",
                      (const void *)id->bytes, sizeof id->bytes, text));
}

bw_status bw_catalogue_partition_add(bw_ctx *ctx, bw_catalogue *c,
                                     const bw_catalogue_partition *p, size_t n)
{
    bw_status s = bw_db_begin(ctx, c->db);
    if (s != BW_OK)
        return s;
    for (size_t i = 0; s == BW_OK && i < n; i++)
        s = run(ctx, c->db, "INSERT INTO partition VALUES(?1,?2,?3)", "iib",
                (int64_t)p[i].number, (int64_t)p[i].uid,
                (const void *)p[i].class_id.bytes, sizeof p[i].class_id.bytes);
    return finish(ctx, c->db, s);
}

bw_status bw_catalogue_tx_add(bw_ctx *ctx, bw_catalogue *c, uint64_t tx,
                              const uint64_t *numbers, size_t n)
{
    bw_status s = bw_db_begin(ctx, c->db);
    if (s != BW_OK)
        return s;
    s = run(ctx, c->db, "INSERT INTO tx VALUES(?1)", "i", (int64_t)tx);
    for (size_t i = 0; s == BW_OK && i < n; i++)
        s = run(ctx, c->db, "INSERT INTO txpart VALUES(?1,?2)", "ii", (int64_t)tx,
                (int64_t)numbers[i]);
    return finish(ctx, c->db, s);
}

bw_status bw_catalogue_tx_drop(bw_ctx *ctx, bw_catalogue *c, uint64_t tx)
{
    bw_status s = bw_db_begin(ctx, c->db);
    if (s != BW_OK)
        return s;
    s = run(ctx, c->db, "DELETE FROM txpart WHERE id=?1", "i", (int64_t)tx);
    if (s == BW_OK)
        s = run(ctx, c->db, "DELETE FROM tx WHERE id=?1", "i", (int64_t)tx);
    return finish(ctx, c->db, s);
}

bw_status bw_catalogue_trash_drop(bw_ctx *ctx, bw_catalogue *c, uint64_t number)
{
    bw_status s = bw_db_begin(ctx, c->db);
    if (s != BW_OK)
        return s;
    return finish(
        ctx, c->db,
        run(ctx, c->db, "DELETE FROM trash WHERE number=?1", "i", (int64_t)number));
}
