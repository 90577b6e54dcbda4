/* What a read works on: loading partitions and taking their snapshots together.
 *
 * Only permitted classes are looked up; another class's partition is not opened,
 * locked or counted, so its state (damaged, slow, absent) cannot show. */
#include "engine_impl.h"
#include "partition/partition.h"

bw_status bw_collection__load(bw_ctx *ctx, bw_collection *c, bw_partition *p,
                              bool reload)
{
    bw_engine *e = c->engine;
    bw_snapshot *s = NULL;
    bw_collection_info info;
    bw_catalogue_txpart *txs = NULL;
    uint64_t *committed = NULL;
    size_t n = 0;
    bw_status st = BW_OK;
    bw_arena_mark mark = bw_arena_mark_get(ctx); /* the snapshot is on the heap */
    pthread_mutex_lock(&p->db_lock);
    bool want = reload ? atomic_load_explicit(&p->stale, memory_order_acquire)
                       : !atomic_load_explicit(&p->loaded, memory_order_acquire);
    if (p->dropped) {
        st = bw_fail(ctx, BW_ENOTFOUND, "the collection was removed");
        want = false;
    }
    if (!want)
        goto out;
    pthread_mutex_lock(&e->catalogue_lock);
    st = bw_catalogue_txparts(ctx, &e->catalogue, &txs, &n);
    pthread_mutex_unlock(&e->catalogue_lock);
    if (st != BW_OK)
        goto out;
    pthread_rwlock_rdlock(&e->names);
    st = bw_collection__copy_info(ctx, c, &info);
    pthread_rwlock_unlock(&e->names);
    committed = bw_arena_calloc(ctx, n, sizeof *committed);
    if (!committed)
        st = BW_ENOMEM;
    for (size_t i = 0; st == BW_OK && i < n; i++)
        committed[i] = txs[i].tx;
    if (st == BW_OK)
        st = bw_partition_load(ctx, p, info.indexes, info.nindexes, committed, n, &s);
    if (st != BW_OK)
        goto out;
    pthread_rwlock_wrlock(&c->view);
    s = bw_partition_set(p, s);
    pthread_rwlock_unlock(&c->view);
    atomic_store_explicit(&p->stale, false, memory_order_release);
out:
    pthread_mutex_unlock(&p->db_lock);
    bw_snapshot_release(s);
    bw_arena_release(ctx, mark);
    return st;
}

/* The first partition from `from` on whose class is not below id: by doubling steps, then
 * halving, so that a permit of all classes costs a step each, and one of few classes
 * does not walk past all the others. */
static uint32_t next_part(const bw_collection *c, uint32_t from, const bw_class_id *id)
{
    uint32_t lo = from, step = 1;
    while (step < c->nparts - lo &&
           bw_class_id_cmp(&c->parts[lo + step - 1]->id.class_id, id) < 0) {
        lo += step;
        step *= 2;
    }
    uint32_t hi = step < c->nparts - lo ? lo + step : c->nparts;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (bw_class_id_cmp(&c->parts[mid]->id.class_id, id) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The permitted classes that have a partition, by rising class id; in ctx's arena. Each
 * gets a reference, so that a drop cannot take them away. */
static bw_status permitted_parts(bw_ctx *ctx, bw_collection *c, const bw_permit *permit,
                                 bw_partition ***out, size_t *n)
{
    size_t k = 0;
    pthread_rwlock_rdlock(&c->engine->names);
    /* By the permit alone: the number of other partitions must not cost budget. */
    bw_partition **parts = bw_arena_calloc(ctx, permit->n, sizeof(bw_partition *));
    uint32_t at = 0; /* both lists rise, so each look-up goes on where the last one ended */
    for (size_t i = 0; parts && i < permit->n; i++) {
        at = next_part(c, at, &permit->classes[i]);
        if (at == c->nparts)
            break;
        bw_partition *p = c->parts[at];
        if (bw_class_id_cmp(&p->id.class_id, &permit->classes[i]) != 0)
            continue;
        bw_partition_acquire(p);
        parts[k++] = p;
        at++;
    }
    pthread_rwlock_unlock(&c->engine->names);
    if (!parts)
        return BW_ENOMEM;
    *out = parts;
    *n = k;
    return BW_OK;
}

static bw_status take_snapshots(bw_ctx *ctx, bw_collection *c, bw_partition **parts,
                                size_t n, bw_view *v)
{
    bw_snapshot **list = bw_arena_calloc(ctx, n, sizeof(bw_snapshot *));
    bw_class_id *classes = bw_arena_calloc(ctx, n, sizeof *classes);
    if (!list || !classes)
        return BW_ENOMEM;
    bool gone = false;
    size_t k = 0;
    pthread_rwlock_rdlock(&c->view);
    for (; k < n; k++) {
        list[k] = parts[k]->current;
        if (!list[k]) {
            gone = true;
            break;
        }
        bw_snapshot_acquire(list[k]);
        classes[k] = parts[k]->id.class_id;
    }
    pthread_rwlock_unlock(&c->view);
    v->parts = list;
    v->classes = classes;
    v->nparts = k;
    if (!gone)
        return BW_OK;
    bw_view_close(v);
    return bw_fail(ctx, BW_ENOTFOUND, "the collection was removed");
}

bw_status bw_collection__view(bw_ctx *ctx, bw_collection *c, const bw_permit *permit,
                              int64_t now_ns, bool reload, bw_view *out)
{
    bw_engine *e = c->engine;
    bw_partition **parts = NULL;
    size_t n = 0;
    bw_view v = {.now_ns = now_ns};
    bw_status st = permitted_parts(ctx, c, permit, &parts, &n);
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        if (!atomic_load_explicit(&parts[i]->loaded, memory_order_acquire))
            st = bw_collection__load(ctx, c, parts[i], false);
        else if (reload && atomic_load_explicit(&parts[i]->stale, memory_order_acquire))
            st = bw_collection__load(ctx, c, parts[i], true);
    }
    if (st == BW_OK)
        st = take_snapshots(ctx, c, parts, n, &v);
    if (st == BW_OK) {
        pthread_rwlock_rdlock(&e->names);
        st = bw_collection__copy_info(ctx, c, &v.info);
        pthread_rwlock_unlock(&e->names);
        if (st != BW_OK)
            bw_view_close(&v);
    }
    for (size_t i = 0; i < n; i++)
        bw_partition_release(parts[i]);
    if (st == BW_OK)
        *out = v;
    return st;
}

bw_status bw_view_open(bw_ctx *ctx, bw_engine *e, bw_str tenant, bw_str name,
                       const bw_permit *permit, int64_t now_ns, bw_view *out)
{
    bw_collection *c;
    bw_status st = bw_collection__find(ctx, e, tenant, name, &c);
    if (st != BW_OK)
        return st;
    st = bw_collection__view(ctx, c, permit, now_ns, false, out);
    bw_collection__release(c);
    return st;
}

void bw_view_close(bw_view *view)
{
    for (size_t i = 0; i < view->nparts; i++)
        bw_snapshot_release(view->parts[i]);
    view->nparts = 0;
}
