/* Aliases and classes: their copy in memory and their changes (file first). */
#include "engine_impl.h"

#include <stdlib.h>

static int alias_cmp(bw_str ta, bw_str a, bw_str tb, bw_str b)
{
    int c = bw_str_cmp(ta, tb);
    return c ? c : bw_str_cmp(a, b);
}

bw_alias_entry *bw_alias__named(bw_engine *e, bw_str tenant, bw_str alias)
{
    uint32_t lo = 0, hi = e->naliases;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int c = alias_cmp(e->aliases[mid].tenant, e->aliases[mid].alias, tenant, alias);
        if (c == 0)
            return &e->aliases[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* Lists are sized by it: what others have must not cost a request's budget. */
static size_t aliases_of(const bw_engine *e, bw_str tenant)
{
    size_t n = 0;
    for (uint32_t i = 0; i < e->naliases; i++)
        n += bw_str_eq(e->aliases[i].tenant, tenant);
    return n;
}

/* ---- aliases of one tenant as a list that actions are tried on ---- */

typedef struct draft {
    bw_catalogue_alias *items; /* arena */
    size_t n;
} draft;

static bw_catalogue_alias *draft_find(const draft *d, bw_str alias)
{
    for (size_t i = 0; i < d->n; i++)
        if (bw_str_eq(d->items[i].alias, alias))
            return &d->items[i];
    return NULL;
}

static bw_status create_alias(bw_ctx *ctx, bw_engine *e, bw_str tenant,
                              const bw_alias_action *a, draft *d)
{
    const bw_collection *c = bw_collection__named(e, tenant, a->collection);
    if (!c)
        return bw_fail(ctx, BW_ENOTFOUND, "Collection `%.*s` doesn't exist!",
                       (int)a->collection.len,
                       a->collection.ptr ? a->collection.ptr : "");
    if (a->alias.len == 0)
        return bw_fail(ctx, BW_EINVALID, "an alias needs a name");
    if (bw_collection__named(e, tenant, a->alias))
        return bw_fail(ctx, BW_EEXISTS, "Collection `%.*s` already exists!",
                       (int)a->alias.len, a->alias.ptr);
    bw_catalogue_alias *there = draft_find(d, a->alias);
    if (there)
        there->uid = c->uid; /* it now names this collection, as in Qdrant */
    else
        d->items[d->n++] = (bw_catalogue_alias){tenant, a->alias, c->uid};
    return BW_OK;
}

static bw_status change_alias(bw_ctx *ctx, bw_engine *e, bw_str tenant,
                              const bw_alias_action *a, draft *d)
{
    bw_catalogue_alias *there = draft_find(d, a->alias);
    if (!there)
        return bw_fail(ctx, BW_ENOTFOUND, "Alias %.*s does not exists!",
                       (int)a->alias.len, a->alias.ptr ? a->alias.ptr : "");
    if (a->kind == BW_ALIAS_DELETE) {
        *there = d->items[--d->n];
        return BW_OK;
    }
    if (a->new_alias.len == 0)
        return bw_fail(ctx, BW_EINVALID, "an alias needs a name");
    if (bw_collection__named(e, tenant, a->new_alias) || draft_find(d, a->new_alias))
        return bw_fail(ctx, BW_EEXISTS, "Alias or collection `%.*s` already exists!",
                       (int)a->new_alias.len, a->new_alias.ptr);
    there->alias = a->new_alias;
    return BW_OK;
}

static int entry_cmp(const void *a, const void *b)
{
    const bw_alias_entry *x = a, *y = b;
    return alias_cmp(x->tenant, x->alias, y->tenant, y->alias);
}

static void entries_free(bw_alias_entry *list, uint32_t n)
{
    for (uint32_t i = 0; list && i < n; i++) {
        bw_free((void *)(uintptr_t)list[i].tenant.ptr);
        bw_free((void *)(uintptr_t)list[i].alias.ptr);
    }
    bw_free(list);
}

/* The whole new table: other tenants' as they are, this one's from the draft. */
static bw_status entries_new(bw_ctx *ctx, const bw_engine *e, bw_str tenant,
                             const draft *d, bw_alias_entry **out, uint32_t *n)
{
    bw_alias_entry *list = bw_calloc(e->naliases + d->n + 1, sizeof *list);
    uint32_t k = 0;
    bool good = list != NULL;
    for (uint32_t i = 0; good && i < e->naliases; i++) {
        const bw_alias_entry *a = &e->aliases[i];
        if (bw_str_eq(a->tenant, tenant))
            continue;
        list[k++] =
            (bw_alias_entry){bw_heap_str(a->tenant), bw_heap_str(a->alias), a->uid};
        good = list[k - 1].tenant.ptr && list[k - 1].alias.ptr;
    }
    for (size_t i = 0; good && i < d->n; i++) {
        list[k++] = (bw_alias_entry){bw_heap_str(tenant),
                                     bw_heap_str(d->items[i].alias), d->items[i].uid};
        good = list[k - 1].tenant.ptr && list[k - 1].alias.ptr;
    }
    if (!good) {
        entries_free(list, k);
        return bw_fail_nomem(ctx);
    }
    if (k > 1)
        qsort(list, k, sizeof *list, entry_cmp);
    *out = list;
    *n = k;
    return BW_OK;
}

bw_status bw_alias_apply(bw_ctx *ctx, bw_engine *e, bw_str tenant,
                         const bw_alias_action *actions, size_t n)
{
    draft d = {0};
    bw_alias_entry *list = NULL;
    uint32_t nlist = 0;
    bw_status st = BW_OK;
    pthread_mutex_lock(&e->catalogue_lock); /* names change only under it */
    d.items = bw_arena_calloc(ctx, aliases_of(e, tenant) + n, sizeof *d.items);
    if (!d.items)
        st = BW_ENOMEM;
    for (uint32_t i = 0; st == BW_OK && i < e->naliases; i++)
        if (bw_str_eq(e->aliases[i].tenant, tenant))
            d.items[d.n++] =
                (bw_catalogue_alias){tenant, e->aliases[i].alias, e->aliases[i].uid};
    for (size_t i = 0; st == BW_OK && i < n; i++)
        st = actions[i].kind == BW_ALIAS_CREATE
                 ? create_alias(ctx, e, tenant, &actions[i], &d)
                 : change_alias(ctx, e, tenant, &actions[i], &d);
    if (st == BW_OK)
        st = entries_new(ctx, e, tenant, &d, &list, &nlist);
    if (st == BW_OK)
        st = bw_catalogue_aliases_set(ctx, &e->catalogue, tenant, d.items, d.n);
    if (st == BW_OK) {
        pthread_rwlock_wrlock(&e->names);
        bw_alias_entry *old = e->aliases;
        uint32_t nold = e->naliases;
        e->aliases = list;
        e->naliases = nlist;
        pthread_rwlock_unlock(&e->names);
        list = old;
        nlist = nold;
    }
    pthread_mutex_unlock(&e->catalogue_lock);
    entries_free(list, nlist);
    return st;
}

bw_status bw_alias_list(bw_ctx *ctx, bw_engine *e, bw_str tenant, const bw_alias **out,
                        size_t *n)
{
    bw_status st = BW_OK;
    size_t k = 0;
    pthread_rwlock_rdlock(&e->names);
    bw_alias *list = bw_arena_calloc(ctx, aliases_of(e, tenant), sizeof *list);
    if (!list)
        st = BW_ENOMEM;
    for (uint32_t i = 0; st == BW_OK && i < e->naliases; i++) {
        const bw_alias_entry *a = &e->aliases[i];
        const bw_collection *c =
            bw_str_eq(a->tenant, tenant) ? bw_collection__by_uid(e, a->uid) : NULL;
        if (!c)
            continue;
        st = bw_arena_str(ctx, a->alias, &list[k].alias);
        if (st == BW_OK)
            st = bw_arena_str(ctx, c->info.name, &list[k++].collection);
    }
    pthread_rwlock_unlock(&e->names);
    if (st != BW_OK)
        return st;
    *out = list;
    *n = k;
    return BW_OK;
}

/* ---- classes ---- */

static bw_str *class_text(const bw_engine *e, const bw_class_id *id)
{
    uint64_t *slot = bw_map_get(e->classes, id->bytes, sizeof id->bytes);
    return slot ? (bw_str *)(uintptr_t)*slot : NULL;
}

bw_status bw_class_put(bw_ctx *ctx, bw_engine *e, const bw_class_id *id, bw_str text)
{
    pthread_rwlock_rdlock(&e->names);
    bool there = class_text(e, id) != NULL;
    pthread_rwlock_unlock(&e->names);
    if (there)
        return BW_OK;
    if (!text.ptr)
        return bw_fail(ctx, BW_EINVALID, "a class needs its label text");
    bw_str *copy = bw_calloc(1, sizeof *copy);
    if (copy)
        *copy = bw_heap_str(text);
    if (!copy || !copy->ptr) {
        bw_free(copy);
        return bw_fail_nomem(ctx);
    }
    pthread_mutex_lock(&e->catalogue_lock);
    bw_status st = BW_OK;
    bool fresh = false;
    if (!class_text(e, id)) {
        st = bw_catalogue_class_add(ctx, &e->catalogue, id, text);
        if (st == BW_OK) {
            pthread_rwlock_wrlock(&e->names);
            uint64_t *slot =
                bw_map_put(e->classes, id->bytes, sizeof id->bytes, &fresh);
            if (slot && fresh)
                *slot = (uintptr_t)copy;
            pthread_rwlock_unlock(&e->names);
            if (!slot)
                st = bw_fail_nomem(ctx); /* recorded; the next call finds it so */
        }
    }
    pthread_mutex_unlock(&e->catalogue_lock);
    if (!fresh) {
        bw_free((void *)(uintptr_t)copy->ptr);
        bw_free(copy);
    }
    return st;
}

bw_status bw_class_get(bw_ctx *ctx, bw_engine *e, const bw_class_id *id,
                       bw_str *label_text)
{
    bw_status st = BW_OK;
    pthread_rwlock_rdlock(&e->names);
    const bw_str *text = class_text(e, id);
    if (text)
        st = bw_arena_str(ctx, *text, label_text);
    pthread_rwlock_unlock(&e->names);
    return text ? st : bw_fail(ctx, BW_ENOTFOUND, "no such class");
}

bw_status bw_collection_classes(bw_ctx *ctx, bw_engine *e, bw_str tenant, bw_str name,
                                const bw_class_id **out, size_t *n, uint64_t *version)
{
    bw_collection *c;
    bw_status st = bw_collection__find(ctx, e, tenant, name, &c);
    if (st != BW_OK)
        return st;
    pthread_rwlock_rdlock(&e->names);
    bw_class_id *list = bw_arena_calloc(ctx, c->nparts, sizeof *list);
    if (list)
        for (uint32_t i = 0; i < c->nparts; i++)
            list[i] = c->parts[i]->id.class_id;
    size_t count = c->nparts;
    if (version)
        *version = c->classes_version;
    pthread_rwlock_unlock(&e->names);
    bw_collection__release(c);
    if (!list)
        return BW_ENOMEM;
    *out = list;
    *n = count;
    return BW_OK;
}
