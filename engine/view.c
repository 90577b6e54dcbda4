/* What a read works on: loading partitions and taking their snapshots together.
 *
 * Only permitted classes are looked up; another class's partition is not opened,
 * locked or counted, so its state (damaged, slow, absent) cannot show. */
#include "engine_impl.h"
#include "partition/partition.h"

enum {
    AHEAD = 8, /* partitions of the view whose memory is asked for before its turn */
    LOADS_MAX = 64, /* of a partition with so many damaged files; then the next read */
    /* What a brief attempt may look at: walks over a view's rows or partitions that do not
     * look at the time are this long at most. */
    BRIEF_ROWS = 1 << 18,
    BRIEF_PARTS = 1 << 10
};

/* Rows on file that a merge in the making gathers may be damaged. Their file loses its
 * name with them, so that another try makes it again; one file a try. */
static bw_status load(bw_ctx *ctx, bw_partition *p, const bw_collection_info *info,
                      const uint64_t *committed, size_t n, bw_snapshot **out)
{
    const atomic_ullong *found = &p->env->heals.found;
    bw_status st = BW_ECORRUPT;
    bool again = true;
    for (int i = 0; st == BW_ECORRUPT && again && i < LOADS_MAX; i++) {
        unsigned long long before = atomic_load_explicit(found, memory_order_relaxed);
        st = bw_partition_load(ctx, p, info->indexes, info->nindexes, committed, n, out);
        again = atomic_load_explicit(found, memory_order_relaxed) != before;
    }
    return st;
}

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
        st = load(ctx, p, &info, committed, n, &s);
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
           bw_class_id_cmp(&c->part_ids[lo + step - 1], id) < 0) {
        lo += step;
        step *= 2;
    }
    uint32_t hi = step < c->nparts - lo ? lo + step : c->nparts;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (bw_class_id_cmp(&c->part_ids[mid], id) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The permitted classes that have a partition, by rising class id; in ctx's arena. The
 * names lock is held; the partitions themselves are not looked at. */
static bw_status permitted_parts(bw_ctx *ctx, const bw_collection *c,
                                 const bw_permit *permit, bw_partition ***out, size_t *n)
{
    size_t k = 0;
    /* By the permit alone: the number of other partitions must not cost budget. */
    bw_partition **parts = bw_arena_alloc(ctx, permit->n * sizeof(bw_partition *));
    uint32_t at = 0; /* both lists rise, so each look-up goes on where the last one ended */
    for (size_t i = 0; parts && i < permit->n; i++) {
        at = next_part(c, at, &permit->classes[i]);
        if (at == c->nparts)
            break;
        if (bw_class_id_cmp(&c->part_ids[at], &permit->classes[i]) == 0)
            parts[k++] = c->parts[at++];
    }
    if (!parts)
        return BW_ENOMEM;
    *out = parts;
    *n = k;
    return BW_OK;
}

/* The snapshots of a view, when every partition is loaded (and, for writers, not behind):
 * no partition has to be held. false: nothing was taken. The names lock is held. */
static bool take_loaded(bw_collection *c, bw_partition **parts, size_t n, bool reload,
                        bw_snapshot **list, bw_class_id *classes)
{
    size_t k = 0;
    bool good = true;
    pthread_rwlock_rdlock(&c->view);
    for (; good && k < n; k++) {
        if (k + 2 * AHEAD < n)
            __builtin_prefetch(&parts[k + 2 * AHEAD]->current);
        if (k + AHEAD < n)
            __builtin_prefetch(parts[k + AHEAD]->current, 1);
        list[k] = parts[k]->current;
        good = list[k] && atomic_load_explicit(&parts[k]->loaded, memory_order_acquire) &&
               !(reload && atomic_load_explicit(&parts[k]->stale, memory_order_acquire));
        if (good)
            bw_snapshot_acquire(list[k]);
    }
    pthread_rwlock_unlock(&c->view);
    if (good) {
        for (size_t i = 0; i < n; i++)
            classes[i] = parts[i]->id.class_id;
        return true;
    }
    for (size_t i = 0; i + 1 < k; i++)
        bw_snapshot_release(list[i]);
    return false;
}

static bw_status check_size(bw_ctx *ctx, const bw_view *v)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < v->nparts && i <= BRIEF_PARTS; i++)
        rows += v->parts[i]->nrows;
    return rows > BRIEF_ROWS || v->nparts > BRIEF_PARTS ? bw_ctx_may_wait(ctx) : BW_OK;
}

static bw_status take_snapshots(bw_ctx *ctx, bw_collection *c, bw_partition **parts,
                                size_t n, bw_snapshot **list, bw_class_id *classes,
                                bw_view *v)
{
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
    v->nparts = k;
    if (!gone)
        return BW_OK;
    bw_view_close(v);
    return bw_fail(ctx, BW_ENOTFOUND, "the collection was removed");
}

/* The same when some are to be loaded first; each partition is held meanwhile, so that a
 * drop cannot take it away. */
static bw_status load_and_take(bw_ctx *ctx, bw_collection *c, bw_partition **parts,
                               size_t n, bool reload, bw_snapshot **list,
                               bw_class_id *classes, bw_view *v)
{
    bw_status st = bw_ctx_may_wait(ctx);
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        if (!atomic_load_explicit(&parts[i]->loaded, memory_order_acquire))
            st = bw_collection__load(ctx, c, parts[i], false);
        else if (reload && atomic_load_explicit(&parts[i]->stale, memory_order_acquire))
            st = bw_collection__load(ctx, c, parts[i], true);
    }
    if (st == BW_OK)
        st = take_snapshots(ctx, c, parts, n, list, classes, v);
    for (size_t i = 0; i < n; i++)
        bw_partition_release(parts[i]);
    return st;
}

bool bw_view_mends(bw_engine *e, bw_status st)
{
    return st == BW_ECORRUPT &&
           atomic_load_explicit(&e->env.heals.found, memory_order_relaxed) > 0;
}

bw_status bw_collection__view(bw_ctx *ctx, bw_collection *c, const bw_permit *permit,
                              int64_t now_ns, bool reload, bw_view *out)
{
    bw_engine *e = c->engine;
    bw_partition **parts = NULL;
    size_t n = 0;
    bw_view v = {.now_ns = now_ns};
    bool taken = false;
    bw_snapshot **list = NULL;
    bw_class_id *classes = NULL;
    pthread_rwlock_rdlock(&e->names);
    bw_status st = permitted_parts(ctx, c, permit, &parts, &n);
    if (st == BW_OK) {
        list = bw_arena_alloc(ctx, n * sizeof(bw_snapshot *));
        v.parts = list;
        classes = bw_arena_alloc(ctx, n * sizeof *classes);
        v.classes = classes;
        st = list && classes ? BW_OK : BW_ENOMEM;
        if (st == BW_OK)
            taken = take_loaded(c, parts, n, reload, list, classes);
    }
    for (size_t i = 0; st == BW_OK && !taken && i < n; i++)
        bw_partition_acquire(parts[i]);
    pthread_rwlock_unlock(&e->names);
    if (taken)
        v.nparts = n;
    else if (st == BW_OK)
        st = load_and_take(ctx, c, parts, n, reload, list, classes, &v);
    if (st == BW_OK) {
        if (bw_heals_wait(&e->env.heals)) /* of the permitted classes alone */
            for (size_t i = 0; st == BW_OK && i < v.nparts; i++)
                st = bw_snapshot_heal(ctx, v.parts[i]);
        pthread_rwlock_rdlock(&e->names);
        if (st == BW_OK)
            st = bw_collection__copy_info(ctx, c, &v.info);
        pthread_rwlock_unlock(&e->names);
        if (st == BW_OK)
            st = check_size(ctx, &v);
        if (st != BW_OK)
            bw_view_close(&v);
    }
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
    for (size_t i = 0; i < view->nparts; i++) {
        if (i + AHEAD < view->nparts)
            __builtin_prefetch(view->parts[i + AHEAD], 1);
        bw_snapshot_release(view->parts[i]);
    }
    view->nparts = 0;
}
