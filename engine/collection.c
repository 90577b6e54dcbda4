/* Collections and their settings: the copy in memory of the catalogue file, and every
 * change to both (file first). Leaves out aliases and classes (names.c), payload indexes
 * (indexes.c), loading and views (view.c). */
#include "engine_impl.h"

#include <stdlib.h>

bw_str bw_heap_str(bw_str in)
{
    if (!in.ptr)
        return in;
    char *p = bw_alloc(in.len + 1);
    if (!p)
        return (bw_str){NULL, in.len + 1};
    if (in.len > 0)
        memcpy(p, in.ptr, in.len);
    p[in.len] = 0;
    return (bw_str){p, in.len};
}

static void str_free(bw_str s)
{
    bw_free((void *)(uintptr_t)s.ptr);
}

/* A copy for which there was no memory. */
static bool str_failed(bw_str s)
{
    return !s.ptr && s.len > 0;
}

static void info_clear(bw_collection_info *i)
{
    str_free(i->tenant);
    str_free(i->name);
    str_free(i->settings);
    str_free(i->labels);
    for (uint32_t k = 0; i->vectors && k < i->nvectors; k++)
        str_free(i->vectors[k].name);
    bw_free((void *)(uintptr_t)i->vectors);
    bw_indexes__free(i->indexes, i->nindexes);
    memset(i, 0, sizeof *i);
}

static bool info_copy(const bw_collection_info *from, bw_collection_info *to)
{
    bw_vector_spec *vectors = bw_calloc((size_t)from->nvectors + 1, sizeof *vectors);
    bw_index_spec *indexes = bw_calloc((size_t)from->nindexes + 1, sizeof *indexes);
    *to = (bw_collection_info){.tenant = bw_heap_str(from->tenant),
                               .name = bw_heap_str(from->name),
                               .settings = bw_heap_str(from->settings),
                               .labels = bw_heap_str(from->labels),
                               .vectors = vectors,
                               .nvectors = from->nvectors,
                               .indexes = indexes,
                               .nindexes = from->nindexes};
    bool good = vectors && indexes && to->tenant.ptr && to->name.ptr &&
                !str_failed(to->settings) && !str_failed(to->labels);
    for (uint32_t i = 0; good && i < from->nvectors; i++) {
        vectors[i] = from->vectors[i];
        vectors[i].name =
            bw_heap_str(from->vectors[i].name.ptr ? from->vectors[i].name : BW_STR(""));
        good = vectors[i].name.ptr != NULL;
    }
    for (uint32_t i = 0; good && i < from->nindexes; i++)
        good = bw_index__copy(&from->indexes[i], &indexes[i]);
    return good;
}

bw_status bw_collection__new(bw_ctx *ctx, bw_engine *e, const bw_collection_info *info,
                             uint64_t uid, bw_collection **out)
{
    bw_collection *c = bw_calloc(1, sizeof *c);
    if (!c)
        return bw_fail_nomem(ctx);
    atomic_init(&c->refs, 1);
    c->engine = e;
    c->uid = uid;
    c->classes_version = atomic_fetch_add(&e->class_lists, 1) + 1;
    pthread_mutex_init(&c->write, NULL);
    bw_rwlock_init(&c->view);
    if (!info_copy(info, &c->info)) {
        bw_collection__release(c);
        return bw_fail_nomem(ctx);
    }
    c->info.uid = uid;
    *out = c;
    return BW_OK;
}

void bw_collection__release(bw_collection *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < c->nparts; i++)
        bw_partition_release(c->parts[i]);
    bw_free(c->parts);
    bw_free(c->part_ids);
    info_clear(&c->info);
    pthread_rwlock_destroy(&c->view);
    pthread_mutex_destroy(&c->write);
    bw_free(c);
}

void bw_collection__unload(bw_collection *c)
{
    for (uint32_t i = 0; i < c->nparts; i++) {
        bw_partition *p = c->parts[i];
        pthread_mutex_lock(&p->db_lock);
        p->dropped = true;
        bw_pool_forget(p);
        pthread_rwlock_wrlock(&c->view);
        bw_snapshot *s = p->current;
        p->current = NULL;
        pthread_rwlock_unlock(&c->view);
        pthread_mutex_unlock(&p->db_lock);
        bw_snapshot_release(s);
    }
}

/* ---- look-up ---- */

bw_collection *bw_collection__named(bw_engine *e, bw_str tenant, bw_str name)
{
    for (uint32_t i = 0; i < e->ncollections; i++) {
        bw_collection *c = e->collections[i];
        if (bw_str_eq(c->info.name, name) && bw_str_eq(c->info.tenant, tenant))
            return c;
    }
    return NULL;
}

bw_collection *bw_collection__by_uid(bw_engine *e, uint64_t uid)
{
    for (uint32_t i = 0; i < e->ncollections; i++)
        if (e->collections[i]->uid == uid)
            return e->collections[i];
    return NULL;
}

bw_status bw_collection__find(bw_ctx *ctx, bw_engine *e, bw_str tenant, bw_str name,
                              bw_collection **out)
{
    pthread_rwlock_rdlock(&e->names);
    bw_collection *c = bw_collection__named(e, tenant, name);
    if (!c) {
        const bw_alias_entry *a = bw_alias__named(e, tenant, name);
        c = a ? bw_collection__by_uid(e, a->uid) : NULL;
    }
    if (c)
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    pthread_rwlock_unlock(&e->names);
    if (!c)
        return bw_fail(ctx, BW_ENOTFOUND, "Collection `%.*s` doesn't exist!",
                       (int)(name.len > 200 ? 200 : name.len),
                       name.ptr ? name.ptr : "");
    *out = c;
    return BW_OK;
}

bw_partition *bw_collection__part(const bw_collection *c, const bw_class_id *id)
{
    uint32_t lo = 0, hi = c->nparts;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int cmp = bw_class_id_cmp(&c->part_ids[mid], id);
        if (cmp == 0)
            return c->parts[mid];
        if (cmp < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

bw_status bw_collection__reserve_parts(bw_ctx *ctx, bw_collection *c, uint32_t n)
{
    if (n <= c->parts_cap - c->nparts)
        return BW_OK;
    bw_partition **parts =
        bw_realloc(c->parts, ((size_t)c->nparts + n) * sizeof(bw_partition *));
    if (!parts)
        return bw_fail_nomem(ctx);
    c->parts = parts;
    bw_class_id *ids = bw_realloc(c->part_ids, ((size_t)c->nparts + n) * sizeof *ids);
    if (!ids)
        return bw_fail_nomem(ctx);
    c->part_ids = ids;
    c->parts_cap = c->nparts + n;
    return BW_OK;
}

void bw_collection__add_part(bw_collection *c, bw_partition *p)
{
    assert(c->nparts < c->parts_cap);
    bw_partition **parts = c->parts;
    uint32_t at = c->nparts;
    while (at > 0 && bw_class_id_cmp(&c->part_ids[at - 1], &p->id.class_id) > 0)
        at--;
    memmove(parts + at + 1, parts + at, (c->nparts - at) * sizeof(bw_partition *));
    memmove(c->part_ids + at + 1, c->part_ids + at,
            (c->nparts - at) * sizeof *c->part_ids);
    parts[at] = p;
    c->part_ids[at] = p->id.class_id;
    c->nparts++;
    c->classes_version = atomic_fetch_add(&c->engine->class_lists, 1) + 1;
}

static bw_status arena_index(bw_ctx *ctx, const bw_index_spec *from, bw_index_spec *to)
{
    bw_status st = bw_arena_str(ctx, from->field, &to->field);
    if (st == BW_OK)
        st = bw_arena_str(ctx, from->type, &to->type);
    to->params = (bw_str){NULL, 0};
    if (st == BW_OK && from->params.ptr)
        st = bw_arena_str(ctx, from->params, &to->params);
    return st;
}

bw_status bw_collection__copy_info(bw_ctx *ctx, const bw_collection *c,
                                   bw_collection_info *out)
{
    const bw_collection_info *i = &c->info;
    bw_vector_spec *vectors = bw_arena_calloc(ctx, i->nvectors, sizeof *vectors);
    bw_index_spec *indexes = bw_arena_calloc(ctx, i->nindexes, sizeof *indexes);
    if (!vectors || !indexes)
        return BW_ENOMEM;
    bw_collection_info o = {.uid = c->uid,
                            .classes_version = c->classes_version,
                            .vectors = vectors,
                            .nvectors = i->nvectors,
                            .indexes = indexes,
                            .nindexes = i->nindexes};
    bw_status st = bw_arena_str(ctx, i->tenant, &o.tenant);
    if (st == BW_OK)
        st = bw_arena_str(ctx, i->name, &o.name);
    if (st == BW_OK && i->settings.ptr)
        st = bw_arena_str(ctx, i->settings, &o.settings);
    if (st == BW_OK && i->labels.ptr)
        st = bw_arena_str(ctx, i->labels, &o.labels);
    for (uint32_t k = 0; st == BW_OK && k < i->nvectors; k++) {
        vectors[k] = i->vectors[k];
        st = bw_arena_str(ctx, i->vectors[k].name, &vectors[k].name);
    }
    for (uint32_t k = 0; st == BW_OK && k < i->nindexes; k++)
        st = arena_index(ctx, &i->indexes[k], &indexes[k]);
    if (st == BW_OK)
        *out = o;
    return st;
}

/* ---- the public calls ---- */

static bw_status check_info(bw_ctx *ctx, const bw_collection_info *info)
{
    if (!info->tenant.ptr || !info->name.ptr || info->name.len == 0)
        return bw_fail(ctx, BW_EINVALID, "a collection needs a tenant and a name");
    if (info->nindexes > 0)
        return bw_fail(ctx, BW_EINVALID, "payload indexes are added afterwards");
    for (uint32_t i = 0; i < info->nvectors; i++) {
        const bw_vector_spec *v = &info->vectors[i];
        if (v->sparse ? v->dim != 0 : v->dim < 1 || v->dim > 65536)
            return bw_fail(ctx, BW_EINVALID, "a vector's size must be from 1 to 65536");
        if ((unsigned)v->dtype >= BW_NDTYPES || (unsigned)v->index >= BW_NINDEX_CHOICES)
            return bw_fail(ctx, BW_EINVALID, "a vector's datatype or index is unknown");
        for (uint32_t j = 0; j < i; j++)
            if (bw_str_eq(v->name, info->vectors[j].name))
                return bw_fail(ctx, BW_EINVALID, "two vectors have one name");
    }
    return BW_OK;
}

static bw_status list_collection(bw_ctx *ctx, bw_engine *e, bw_collection *c)
{
    bw_status st = BW_OK;
    pthread_rwlock_wrlock(&e->names);
    bw_collection **list = bw_realloc(e->collections, ((size_t)e->ncollections + 1) *
                                                          sizeof(bw_collection *));
    if (list) {
        e->collections = list;
        list[e->ncollections++] = c;
    } else {
        st = bw_fail_nomem(ctx);
    }
    pthread_rwlock_unlock(&e->names);
    return st;
}

static void unlist_collection(bw_engine *e, const bw_collection *c)
{
    for (uint32_t i = 0; i < e->ncollections; i++)
        if (e->collections[i] == c) {
            memmove(e->collections + i, e->collections + i + 1,
                    (e->ncollections - i - 1) * sizeof(bw_collection *));
            e->ncollections--;
            return;
        }
}

bw_status bw_collection_create(bw_ctx *ctx, bw_engine *e,
                               const bw_collection_info *info)
{
    bw_status st = check_info(ctx, info);
    if (st != BW_OK)
        return st;
    bw_collection *c;
    st = bw_collection__new(ctx, e, info, 0, &c);
    if (st != BW_OK)
        return st;
    pthread_mutex_lock(&e->catalogue_lock); /* names change only under it */
    if (bw_collection__named(e, info->tenant, info->name) ||
        bw_alias__named(e, info->tenant, info->name))
        st =
            bw_fail(ctx, BW_EEXISTS, "Collection `%.*s` already exists!",
                    (int)(info->name.len > 200 ? 200 : info->name.len), info->name.ptr);
    if (st == BW_OK)
        st = bw_catalogue_collection_add(ctx, &e->catalogue, &c->info, &c->uid);
    if (st == BW_OK) {
        c->info.uid = c->uid;
        st = list_collection(ctx, e, c);
        if (st != BW_OK &&
            bw_catalogue_collection_drop(ctx, &e->catalogue, c->uid) != BW_OK)
            bw_log(BW_LOG_ERROR,
                   "engine: a collection is in the catalogue and not in memory");
    }
    pthread_mutex_unlock(&e->catalogue_lock);
    if (st != BW_OK)
        bw_collection__release(c);
    return st;
}

/* The record first; files after it, and again at the next start if they stay. */
static void remove_files(bw_ctx *ctx, bw_engine *e, const uint64_t *numbers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bw_builder_forget(e->env.builder, numbers[i]);
        bw_status st = bw_partition_remove_files(ctx, e->parts_dir, numbers[i]);
        if (st == BW_OK) {
            pthread_mutex_lock(&e->catalogue_lock);
            st = bw_catalogue_trash_drop(ctx, &e->catalogue, numbers[i]);
            pthread_mutex_unlock(&e->catalogue_lock);
        }
        if (st != BW_OK)
            bw_log(BW_LOG_WARN,
                   "engine: files of a dropped collection are left for the next start");
    }
}

static void drop_aliases_of(bw_engine *e, uint64_t uid)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < e->naliases; i++) {
        if (e->aliases[i].uid != uid) {
            e->aliases[k++] = e->aliases[i];
            continue;
        }
        str_free(e->aliases[i].tenant);
        str_free(e->aliases[i].alias);
    }
    e->naliases = k;
}

/* Under c->write, so no writer brings a class between the look and the drop. */
static bool all_judged(const bw_collection *c, const bw_permit *judged)
{
    for (uint32_t i = 0; judged && i < c->nparts; i++)
        if (!bw_permit_has(judged, &c->parts[i]->id.class_id))
            return false;
    return true;
}

bw_status bw_collection_drop(bw_ctx *ctx, bw_engine *e, bw_str tenant, bw_str name,
                             bool *existed)
{
    return bw_collection_drop_judged(ctx, e, tenant, name, NULL, existed);
}

bw_status bw_collection_drop_judged(bw_ctx *ctx, bw_engine *e, bw_str tenant,
                                    bw_str name, const bw_permit *judged, bool *existed)
{
    *existed = false;
    pthread_rwlock_rdlock(&e->names);
    bw_collection *c =
        bw_collection__named(e, tenant, name); /* an alias is not dropped this way */
    if (c)
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    pthread_rwlock_unlock(&e->names);
    if (!c)
        return BW_OK;
    pthread_mutex_lock(&c->write);
    bw_status st = BW_OK;
    uint64_t *numbers = bw_arena_calloc(ctx, c->nparts, sizeof *numbers);
    bool mine = !c->dropped;
    if (!numbers)
        st = BW_ENOMEM;
    if (st == BW_OK && mine && !all_judged(c, judged))
        st = bw_fail(ctx, BW_ECONFLICT, "the collection has a new class");
    if (st == BW_OK && mine) {
        pthread_mutex_lock(&e->catalogue_lock);
        st = bw_catalogue_collection_drop(ctx, &e->catalogue, c->uid);
        if (st == BW_OK) {
            pthread_rwlock_wrlock(&e->names);
            c->dropped = true;
            unlist_collection(e, c);
            drop_aliases_of(e, c->uid);
            pthread_rwlock_unlock(&e->names);
        }
        pthread_mutex_unlock(&e->catalogue_lock);
    }
    if (st == BW_OK && mine) {
        *existed = true;
        for (uint32_t i = 0; i < c->nparts; i++)
            numbers[i] = c->parts[i]->id.number;
        bw_collection__unload(c);
        remove_files(ctx, e, numbers, c->nparts);
    }
    pthread_mutex_unlock(&c->write);
    if (*existed)
        bw_collection__release(c); /* the list's */
    bw_collection__release(c);
    if (*existed)
        bw_memory_give_back();
    return st;
}

bw_status bw_collection_get(bw_ctx *ctx, bw_engine *e, bw_str tenant, bw_str name,
                            bw_collection_info *out)
{
    bw_collection *c;
    bw_status st = bw_collection__find(ctx, e, tenant, name, &c);
    if (st != BW_OK)
        return st;
    pthread_rwlock_rdlock(&e->names);
    st = bw_collection__copy_info(ctx, c, out);
    pthread_rwlock_unlock(&e->names);
    bw_collection__release(c);
    return st;
}

static int info_cmp(const void *a, const void *b)
{
    const bw_collection_info *x = a, *y = b;
    int c = bw_str_cmp(x->tenant, y->tenant);
    return c ? c : bw_str_cmp(x->name, y->name);
}

bw_status bw_collection_list(bw_ctx *ctx, bw_engine *e, bw_str tenant,
                             const bw_collection_info **out, size_t *n)
{
    bw_status st = BW_OK;
    size_t k = 0;
    pthread_rwlock_rdlock(&e->names);
    size_t own = 0; /* what others have must not cost this request's budget */
    for (uint32_t i = 0; i < e->ncollections; i++)
        own += !tenant.ptr || bw_str_eq(e->collections[i]->info.tenant, tenant);
    bw_collection_info *list = bw_arena_calloc(ctx, own, sizeof *list);
    if (!list)
        st = BW_ENOMEM;
    for (uint32_t i = 0; st == BW_OK && i < e->ncollections; i++)
        if (!tenant.ptr || bw_str_eq(e->collections[i]->info.tenant, tenant))
            st = bw_collection__copy_info(ctx, e->collections[i], &list[k++]);
    pthread_rwlock_unlock(&e->names);
    if (st != BW_OK)
        return st;
    if (k > 1)
        qsort(list, k, sizeof *list, info_cmp);
    *out = list;
    *n = k;
    return BW_OK;
}

bw_status bw_collection_update(bw_ctx *ctx, bw_engine *e, bw_str tenant, bw_str name,
                               bw_str settings, bw_str labels)
{
    bw_collection *c;
    bw_status st = bw_collection__find(ctx, e, tenant, name, &c);
    if (st != BW_OK)
        return st;
    bw_str s = bw_heap_str(settings), l = bw_heap_str(labels);
    pthread_mutex_lock(&e->catalogue_lock);
    if (str_failed(s) || str_failed(l))
        st = bw_fail_nomem(ctx);
    else if (c->dropped)
        st = bw_fail(ctx, BW_ENOTFOUND, "the collection was removed");
    else
        st = bw_catalogue_collection_set(ctx, &e->catalogue, c->uid,
                                         s.ptr ? s : c->info.settings,
                                         l.ptr ? l : c->info.labels);
    if (st == BW_OK) {
        pthread_rwlock_wrlock(&e->names);
        if (s.ptr) {
            bw_str old = c->info.settings;
            c->info.settings = s;
            s = old;
        }
        if (l.ptr) {
            bw_str old = c->info.labels;
            c->info.labels = l;
            l = old;
        }
        pthread_rwlock_unlock(&e->names);
    }
    pthread_mutex_unlock(&e->catalogue_lock);
    str_free(s);
    str_free(l);
    bw_collection__release(c);
    return st;
}
