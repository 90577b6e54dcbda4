/* Sealing by a call: what a bulk load ends with.
 *
 * A partition at a time, so that at most one is held twice in memory:
 *   1 its growing rows are sealed and a merge of everything begins    (a short write)
 *   2 the graph is built; nobody is kept waiting, neither readers nor writers
 *   3 it is adopted                                                   (a short write)
 * Both writes are stored like any other, so that answers still follow the sequence of
 * writes alone. A crash or a deadline after 1 leaves a merge that is adopted at its count.
 * A writer that makes the merge void meanwhile (30 % of it deleted) makes us begin again. */
#include "engine_impl.h"
#include "store/failpoint.h"

enum { ROUNDS_MAX = 8 };

typedef bw_status (*draft_fn)(bw_ctx *ctx, const bw_snapshot *cur, bw_prepared *w,
                              uint32_t *no, bool *changed);

static bw_status draft_seal(bw_ctx *ctx, const bw_snapshot *cur, bw_prepared *w,
                            uint32_t *no, bool *changed)
{
    return bw_partition_seal_all(ctx, cur, w, no, changed);
}

static bw_status draft_adopt(bw_ctx *ctx, const bw_snapshot *cur, bw_prepared *w,
                             uint32_t *no, bool *changed)
{
    return bw_partition_adopt_now(ctx, cur, w, *no, changed);
}

/* One short write; *now is what is current after it, counted. */
static bw_status step(bw_ctx *ctx, bw_collection *c, bw_partition *p, draft_fn draft,
                      uint32_t *no, bw_snapshot **now)
{
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    bw_snapshot *old = NULL;
    pthread_mutex_lock(&c->write);
    bw_status st = bw_collection__load(ctx, c, p, false);
    if (st == BW_OK)
        st = bw_collection__load(ctx, c, p, true); /* if its file is behind */
    if (st != BW_OK) {
        pthread_mutex_unlock(&c->write);
        return st;
    }
    if (bw_heals_wait(&c->engine->env.heals)) /* `current` stays so as long as nobody else writes */
        st = bw_snapshot_heal(ctx, p->current);
    if (st != BW_OK) {
        pthread_mutex_unlock(&c->write);
        return st;
    }
    pthread_mutex_lock(&p->db_lock);
    bw_prepared w = {0};
    bool changed = false;
    st = p->dropped ? bw_fail(ctx, BW_ENOTFOUND, "the collection was removed")
                    : draft(ctx, p->current, &w, no, &changed);
    if (st == BW_OK && changed) {
        st = bw_partition_apply(ctx, &w, 0);
        if (st == BW_OK) {
            pthread_rwlock_wrlock(&c->view);
            old = bw_partition_publish(&w);
            pthread_rwlock_unlock(&c->view);
        }
    }
    bw_partition_abort(&w);
    if (st == BW_OK) {
        *now = p->current;
        bw_snapshot_acquire(*now);
    }
    pthread_mutex_unlock(&p->db_lock);
    pthread_mutex_unlock(&c->write);
    bw_snapshot_release(old);
    if (st == BW_OK)
        bw_arena_release(ctx, mark); /* else the message may lie in it */
    return st;
}

static bw_status seal_part(bw_ctx *ctx, bw_collection *c, bw_partition *p)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        uint32_t no = 0;
        bw_snapshot *s = NULL;
        bw_status st = step(ctx, c, p, draft_seal, &no, &s);
        if (st == BW_OK)
            st = bw_failpoint(ctx, "seal.begun");
        if (st == BW_OK && no != 0)
            st = bw_snapshot_wait(ctx, s, no);
        bw_snapshot_release(s);
        if (st != BW_OK || no == 0)
            return st;
        st = step(ctx, c, p, draft_adopt, &no, &s);
        if (st != BW_ECONFLICT) {
            if (st == BW_OK)
                bw_snapshot_release(s);
            return st;
        }
    }
    return bw_fail(ctx, BW_ECONFLICT,
                   "points were deleted all the while; seal the collection later");
}

bw_status bw_collection_seal(bw_ctx *ctx, bw_engine *e, bw_str tenant, bw_str name,
                             const bw_permit *permit)
{
    bw_collection *c;
    bw_status st = bw_collection__find(ctx, e, tenant, name, &c);
    if (st != BW_OK)
        return st;
    for (size_t i = 0; st == BW_OK && i < permit->n; i++) {
        pthread_rwlock_rdlock(&e->names);
        bw_partition *p = bw_collection__part(c, &permit->classes[i]);
        if (p)
            bw_partition_acquire(p);
        pthread_rwlock_unlock(&e->names);
        if (!p)
            continue;
        st = seal_part(ctx, c, p);
        bw_partition_release(p);
    }
    bw_collection__release(c);
    return st;
}
