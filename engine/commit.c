/* One write over one or many partitions as one transaction.
 *
 * One partition: one SQLite transaction in its file. Several:
 *   1 rows are staged in each file under a random id          (synced, one by one)
 *   2 one record in the catalogue commits them all            (synced)
 *   3 each file applies its staged rows and drops them        (synced, one by one)
 *   4 the record goes
 * A crash before 2 leaves staged rows without a record: dropped when the partition is
 * next loaded. After 2, and before 4: the start of the engine loads the recorded
 * partitions, which applies what is still staged, and drops the record. In memory all
 * partitions' snapshots change together under the collection's view lock, after 3.
 * A file that cannot be changed in 3 does not undo the write: it is committed. That
 * partition serves from memory and its next writer loads the file again (load.c). */
#include "engine_impl.h"
#include "store/failpoint.h"
#include "store/fs.h"

#include <sodium.h>

static uint64_t random_tx(void)
{
    uint64_t id;
    do {
        randombytes_buf(&id, sizeof id);
        id >>= 1; /* SQLite's integers are signed */
    } while (id == 0);
    return id;
}

static bw_status record(bw_ctx *ctx, bw_engine *e, uint64_t tx, const bw_prepared *w,
                        uint32_t n)
{
    uint64_t *numbers = bw_arena_calloc(ctx, n, sizeof *numbers);
    if (!numbers)
        return BW_ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        numbers[i] = w[i].part->id.number;
    pthread_mutex_lock(&e->catalogue_lock);
    bw_status st = bw_catalogue_tx_add(ctx, &e->catalogue, tx, numbers, n);
    pthread_mutex_unlock(&e->catalogue_lock);
    return st;
}

static bw_status write_many(bw_ctx *ctx, bw_engine *e, bw_prepared *w, uint32_t n)
{
    uint64_t tx = random_tx();
    uint32_t staged = 0;
    bw_status st = bw_failpoint(ctx, "commit.begin");
    for (; st == BW_OK && staged < n; staged++) {
        st = bw_partition_stage(ctx, &w[staged], tx);
        if (st == BW_OK)
            st = bw_failpoint(ctx, "commit.staged");
    }
    if (st == BW_OK)
        st = record(ctx, e, tx, w, n);
    if (st != BW_OK) { /* best effort: without a record they mean nothing */
        bw_ctx *quiet = bw_ctx_new(0);
        for (uint32_t i = 0; quiet && i < staged; i++)
            if (bw_partition_unstage(quiet, w[i].part, tx) != BW_OK)
                break;
        bw_ctx_free(quiet);
        return st;
    }
    bool all = true;
    bw_ctx *quiet =
        bw_ctx_new(0); /* the write has succeeded: no message may say otherwise */
    for (uint32_t i = 0; i < n; i++) {
        if (quiet && bw_failpoint(quiet, "commit.apply") == BW_OK &&
            bw_partition_apply(quiet, &w[i], tx) == BW_OK)
            continue;
        bw_log(BW_LOG_ERROR, "engine: a committed write waits to be applied: %s",
               quiet ? bw_ctx_message(quiet) : "no memory");
        atomic_store_explicit(&w[i].part->stale, true, memory_order_release);
        all = false;
    }
    if (quiet && all && bw_failpoint(quiet, "commit.applied") == BW_OK) {
        pthread_mutex_lock(&e->catalogue_lock);
        if (bw_catalogue_tx_drop(quiet, &e->catalogue, tx) != BW_OK)
            bw_log(
                BW_LOG_WARN,
                "engine: a finished transaction's record stays until the next start");
        pthread_mutex_unlock(&e->catalogue_lock);
    }
    bw_ctx_free(quiet);
    return BW_OK;
}

static void tidy(bw_ctx *ctx, bw_collection *c, bw_partition *p)
{
    bw_snapshot *next = NULL;
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    if (bw_partition_tidy(ctx, p, c->info.indexes, c->info.nindexes, &next) == BW_OK &&
        next) {
        pthread_rwlock_wrlock(&c->view);
        next = bw_partition_set(p, next);
        pthread_rwlock_unlock(&c->view);
        bw_snapshot_release(next);
    } /* else: gaps cost memory and nothing else; the next write tries again */
    bw_arena_release(ctx, mark);
}

/* Refused rows keep their numbers, and a full disk may refuse for days. The message of
 * what refused them stays. */
static void tidy_refused(bw_collection *c, const bw_part_write *writes, uint32_t n)
{
    bw_ctx *quiet = bw_ctx_new(0);
    for (uint32_t i = 0; quiet && i < n; i++)
        tidy(quiet, c, writes[i].part);
    bw_ctx_free(quiet);
}

bw_status bw_collection__commit(bw_ctx *ctx, bw_collection *c, bw_part_write *writes,
                                uint32_t n)
{
    if (n == 0)
        return BW_OK;
    bw_prepared *w = bw_arena_calloc(ctx, n, sizeof *w);
    bw_snapshot **old = bw_arena_calloc(ctx, n, sizeof(bw_snapshot *));
    uint32_t done = 0;
    bw_status st = w && old ? BW_OK : BW_ENOMEM;
    for (uint32_t i = 0; st == BW_OK && i < n; i++) /* readers of texts need no wait */
        st = bw_snapshot_await(ctx, writes[i].cur,
                               (uint64_t)writes[i].changes.nadds +
                                   writes[i].changes.nkills);
    for (uint32_t i = 0; i < n; i++)
        pthread_mutex_lock(&writes[i].part->db_lock); /* writes come by rising class */
    for (; st == BW_OK && done < n; done++)
        st = bw_partition_prepare(ctx, writes[done].cur, &writes[done].changes,
                                  &w[done]);
    for (uint32_t i = done; i < n; i++) /* what prepare did not take over */
        for (uint32_t j = 0; j < writes[i].changes.nadds; j++)
            bw_rec_release(writes[i].changes.adds[j].rec);
    if (st == BW_OK)
        st = n == 1 ? bw_partition_apply(ctx, &w[0], 0)
                    : write_many(ctx, c->engine, w, n);
    if (st == BW_OK) {
        pthread_rwlock_wrlock(&c->view);
        for (uint32_t i = 0; i < n; i++)
            old[i] = bw_partition_publish(&w[i]);
        pthread_rwlock_unlock(&c->view);
        for (uint32_t i = 0; i < n; i++) {
            bw_snapshot_release(old[i]);
            tidy(ctx, c, writes[i].part);
        }
    }
    for (uint32_t i = 0; w && i < n; i++)
        bw_partition_abort(&w[i]);
    if (st != BW_OK)
        tidy_refused(c, writes, n);
    for (uint32_t i = n; i-- > 0;)
        pthread_mutex_unlock(&writes[i].part->db_lock);
    return st;
}

/* ---- new partitions ---- */

static bw_status create_files(bw_ctx *ctx, bw_collection *c, const bw_class_id *ids,
                              uint32_t n, uint64_t number, bw_partition **parts,
                              bw_catalogue_partition *rows)
{
    for (uint32_t i = 0; i < n; i++) {
        bw_partfile_id id = {number + i, c->uid, ids[i]};
        bw_status st = bw_partition_new(ctx, &c->engine->env, &id, c->info.vectors,
                                        c->info.nvectors, &parts[i]);
        if (st == BW_OK)
            st = bw_partition_create(ctx, parts[i]);
        if (st != BW_OK)
            return st;
        rows[i] = (bw_catalogue_partition){number + i, c->uid, ids[i]};
    }
    return c->engine->env.null_sync ? BW_OK : bw_fs_sync_dir(ctx, c->engine->parts_dir);
}

bw_status bw_collection__create_parts(bw_ctx *ctx, bw_collection *c,
                                      const bw_class_id *ids, uint32_t n)
{
    bw_engine *e = c->engine;
    uint64_t number = 0;
    bw_partition **parts = bw_arena_calloc(ctx, n, sizeof(bw_partition *));
    bw_catalogue_partition *rows = bw_arena_calloc(ctx, n, sizeof *rows);
    if (!parts || !rows)
        return BW_ENOMEM;
    pthread_mutex_lock(&e->catalogue_lock); /* one at a time takes numbers */
    bw_status st = bw_catalogue_next_number(ctx, &e->catalogue, &number);
    if (st == BW_OK)
        st = create_files(ctx, c, ids, n, number, parts, rows);
    if (st == BW_OK)
        st = bw_failpoint(ctx, "parts.made");
    if (st == BW_OK) { /* first, since a record that memory lacks blocks the class */
        pthread_rwlock_wrlock(&e->names);
        st = bw_collection__reserve_parts(ctx, c, n);
        pthread_rwlock_unlock(&e->names);
    }
    if (st == BW_OK)
        st = bw_catalogue_partition_add(ctx, &e->catalogue, rows, n);
    if (st == BW_OK) {
        pthread_rwlock_wrlock(&e->names);
        for (uint32_t i = 0; i < n; i++)
            bw_collection__add_part(c, parts[i]);
        pthread_rwlock_unlock(&e->names);
    }
    for (uint32_t i = 0; st != BW_OK && i < n; i++) {
        if (!parts[i])
            continue;
        bw_pool_forget(
            parts[i]); /* the file stays until its number is given out again */
        bw_partition_release(parts[i]);
    }
    pthread_mutex_unlock(&e->catalogue_lock);
    for (uint32_t i = 0; st == BW_OK && i < n; i++)
        st = bw_collection__load(ctx, c, parts[i], false);
    return st;
}
