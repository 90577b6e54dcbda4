/* Rows on file made again from the store (heal.h).
 *
 * All under the partition's db_lock: no write is between its draft and its end, so what
 * SQLite holds is what `current` says, and a file whose segment is no longer there gets no
 * name (it may hold rows that were to leave the disk). */
#include "part.h"

#include <sodium.h>

enum { RETRY_NS = 1000000000 };

typedef struct run { /* rows from `slot` on have the keys from `key` on */
    uint32_t slot;
    int64_t key;
} run;

struct bw_home {
    bw_partition *part;
    uint32_t vec, nruns;
    uint64_t not_before_ns; /* db_lock; after a try in vain */
    run runs[];
};

/* ---- where the rows are ---- */

static uint32_t count_runs(const bw_block *b, const int64_t *keys, run *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->used; i++) {
        int64_t key = keys[b->ord[i]];
        if (i > 0 && key == keys[b->ord[i - 1]] + 1)
            continue;
        if (out)
            out[n] = (run){i, key};
        n++;
    }
    return n;
}

bw_status bw_home_set(bw_ctx *ctx, bw_partition *p, uint32_t vec, const bw_block *b,
                      const int64_t *keys)
{
    if (!b->m->file)
        return BW_OK;
    assert(!b->m->home && b->used == b->m->cap);
    uint32_t n = count_runs(b, keys, NULL);
    struct bw_home *h = bw_calloc(1, sizeof *h + n * sizeof h->runs[0]);
    if (!h)
        return bw_fail_nomem(ctx);
    h->part = p;
    h->vec = vec;
    h->nruns = count_runs(b, keys, h->runs);
    bw_partition_acquire(p);
    b->m->home = h;
    return BW_OK;
}

void bw_home_free(bw_matrix *m)
{
    if (!m->home)
        return;
    if (atomic_load_explicit(&m->damaged, memory_order_relaxed)) {
        atomic_fetch_sub_explicit(&m->home->part->env->heals.damaged, 1,
                                  memory_order_relaxed);
        bw_blockfile_disown(m->file); /* who loads it next finds none, and makes it */
    }
    bw_partition_release(m->home->part);
    bw_free(m->home);
    m->home = NULL;
}

void bw_matrix_damaged(const bw_matrix *m)
{
    bw_matrix *mine = (bw_matrix *)(uintptr_t)m; /* the mark alone is not immutable */
    if (!m->home) /* nobody but its maker has it, and he has just written it */
        return;
    bw_heals *all = &m->home->part->env->heals;
    /* First the counts: whoever fails after us must see that there is something to mend. */
    atomic_fetch_add_explicit(&all->found, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&all->damaged, 1, memory_order_relaxed);
    if (!atomic_exchange_explicit(&mine->damaged, true, memory_order_acq_rel)) {
        bw_log(BW_LOG_ERROR, "partition: a file of vectors is damaged; it is made again");
        return;
    }
    atomic_fetch_sub_explicit(&all->found, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&all->damaged, 1, memory_order_relaxed);
}

/* ---- making it again ---- */

typedef struct copy {
    const bw_matrix *m;
    bw_block_writer *w;
    bw_dense *dense; /* nvec */
    crypto_generichash_state digest;
    uint32_t slot, run; /* the next row */
} copy;

static int64_t last_key(const bw_matrix *m)
{
    const run *last = &m->home->runs[m->home->nruns - 1];
    return last->key + (m->cap - 1 - last->slot);
}

static int64_t key_of(copy *c)
{
    const struct bw_home *h = c->m->home;
    while (c->run + 1 < h->nruns && h->runs[c->run + 1].slot <= c->slot)
        c->run++;
    return h->runs[c->run].key + (c->slot - h->runs[c->run].slot);
}

static bw_status lacks(bw_ctx *ctx)
{
    return bw_fail(ctx, BW_ECORRUPT, "the store has not all of its rows");
}

static bool same_row(const bw_matrix *m, uint32_t slot, const bw_point_id *id,
                     const bw_dense *v)
{
    return v->data && bw_point_id_cmp(&m->ids[slot], id) == 0 &&
           (!m->scales || memcmp(&m->scales[slot], &v->scale, sizeof v->scale) == 0);
}

static bw_status copy_row(bw_ctx *ctx, void *arg, int64_t key, bw_row_mark mark,
                          bw_str bytes)
{
    copy *c = arg;
    (void)mark; /* a dead row keeps its vector as long as a graph counts it */
    if (c->slot == c->m->cap || key < key_of(c))
        return BW_OK;
    if (key > key_of(c))
        return lacks(ctx);
    const bw_partition *p = c->m->home->part;
    bw_rec *rec;
    bw_status st = bw_rec_decode(ctx, bytes, p->specs, p->nvec, key, &rec, c->dense);
    if (st != BW_OK)
        return st;
    const bw_dense *v = &c->dense[c->m->home->vec];
    const size_t n = (size_t)bw_matrix_row_bytes(c->m) / c->m->cap;
    st = same_row(c->m, c->slot, &rec->id, v) ? bw_block_write(ctx, c->w, v->data, n)
                                              : lacks(ctx);
    if (st == BW_OK)
        crypto_generichash_update(&c->digest, v->data, n);
    bw_rec_release(rec);
    c->slot++;
    return st;
}

static bw_status copy_rows(bw_ctx *ctx, bw_partition *p, copy *c)
{
    bw_db *db;
    bw_status st = bw_pool_get(ctx, p, &db);
    if (st != BW_OK)
        return st;
    st = bw_partfile_rows(ctx, db, key_of(c), last_key(c->m), copy_row, c);
    bw_pool_put(p);
    if (st == BW_OK && c->slot < c->m->cap)
        st = lacks(ctx);
    if (st != BW_OK)
        return st;
    unsigned char digest[BW_ROWS_DIGEST];
    if (c->m->scales)
        crypto_generichash_update(&c->digest, (const unsigned char *)c->m->scales,
                                  c->m->cap * sizeof *c->m->scales);
    crypto_generichash_final(&c->digest, digest, sizeof digest);
    return memcmp(digest, c->m->digest, sizeof digest) == 0 ? BW_OK : lacks(ctx);
}

static bool is_current(const bw_partition *p, const bw_matrix *m)
{
    const bw_snapshot *s = p->current;
    uint32_t v = m->home->vec;
    for (uint32_t i = 0; s && i < s->vecs[v].n; i++)
        if (s->vecs[v].items[i].b->m == m)
            return true;
    for (uint32_t i = 0; s && i < s->nmerges; i++)
        if (s->merges[i].blocks[v] && s->merges[i].blocks[v]->m == m)
            return true;
    return false;
}

static bw_status make_again(bw_ctx *ctx, bw_partition *p, const bw_matrix *m)
{
    copy c = {.m = m};
    c.dense = bw_arena_calloc(ctx, p->nvec, sizeof *c.dense);
    if (!c.dense)
        return BW_ENOMEM;
    crypto_generichash_init(&c.digest, NULL, 0, BW_ROWS_DIGEST);
    bw_status st = bw_blockfile_rewrite(ctx, m->file, &c.w);
    if (st != BW_OK)
        return st;
    st = copy_rows(ctx, p, &c);
    if (st != BW_OK) {
        bw_block_writer_abandon(c.w);
        return st;
    }
    st = bw_block_writer_finish(ctx, c.w);
    return st == BW_OK ? bw_blockfile_renew(ctx, m->file, is_current(p, m)) : st;
}

static void heal(bw_matrix *m)
{
    bw_partition *p = m->home->part;
    bw_heals *all = &p->env->heals;
    pthread_mutex_lock(&p->db_lock);
    if (!atomic_load_explicit(&m->damaged, memory_order_acquire) || p->dropped ||
        bw_clock_mono_ns() < m->home->not_before_ns)
        goto out;
    bw_ctx *ctx = bw_ctx_new(0); /* not the caller's: neither its deadline nor its budget */
    bw_status st = ctx ? make_again(ctx, p, m) : BW_ENOMEM;
    if (st == BW_OK) {
        atomic_store_explicit(&m->damaged, false, memory_order_release);
        atomic_fetch_sub_explicit(&all->damaged, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&all->healed, 1, memory_order_relaxed);
        bw_log(BW_LOG_WARN, "partition: a damaged file of vectors was made again");
    } else {
        m->home->not_before_ns = bw_clock_mono_ns() + RETRY_NS;
        atomic_fetch_add_explicit(&all->failed, 1, memory_order_relaxed);
        bw_log(BW_LOG_ERROR, "partition: a damaged file of vectors stays so: %s",
               ctx ? bw_ctx_message(ctx) : "no memory");
    }
    bw_ctx_free(ctx);
out:
    pthread_mutex_unlock(&p->db_lock);
}

static bw_status heal_block(bw_ctx *ctx, const bw_block *b)
{
    if (!b || !b->m->home || !atomic_load_explicit(&b->m->damaged, memory_order_acquire))
        return BW_OK;
    bw_status st = bw_ctx_may_wait(ctx);
    if (st == BW_OK)
        heal(b->m);
    return st;
}

bw_status bw_snapshot_heal(bw_ctx *ctx, const bw_snapshot *s)
{
    bw_status st = BW_OK;
    for (uint32_t v = 0; v < s->part->nvec; v++) {
        for (uint32_t i = 0; st == BW_OK && i < s->vecs[v].n; i++)
            st = heal_block(ctx, s->vecs[v].items[i].b);
        for (uint32_t i = 0; st == BW_OK && i < s->nmerges; i++)
            st = heal_block(ctx, s->merges[i].blocks[v]);
    }
    return st;
}
