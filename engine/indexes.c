/* Payload indexes of a collection: which there are, in the catalogue file first, then in
 * memory, then in every partition that is loaded. What an index holds is
 * partition/payload_index.c's. */
#include "engine_impl.h"

static bool failed(bw_str copy, bw_str of)
{
    return of.ptr && !copy.ptr;
}

bool bw_index__copy(const bw_index_spec *from, bw_index_spec *to)
{
    *to = (bw_index_spec){bw_heap_str(from->field), bw_heap_str(from->type),
                          bw_heap_str(from->params)};
    return !failed(to->field, from->field) && !failed(to->type, from->type) &&
           !failed(to->params, from->params);
}

void bw_indexes__free(const bw_index_spec *list, uint32_t n)
{
    for (uint32_t i = 0; list && i < n; i++) {
        bw_free((void *)(uintptr_t)list[i].field.ptr);
        bw_free((void *)(uintptr_t)list[i].type.ptr);
        bw_free((void *)(uintptr_t)list[i].params.ptr);
    }
    bw_free((void *)(uintptr_t)list);
}

/* The list of indexes without `field`, and with spec if there is one; sorted by field.
 */
static bw_status next_indexes(bw_ctx *ctx, const bw_collection_info *info, bw_str field,
                              const bw_index_spec *spec, bw_index_spec **out,
                              uint32_t *n)
{
    bw_index_spec *list = bw_calloc((size_t)info->nindexes + 2, sizeof *list);
    if (!list)
        return bw_fail_nomem(ctx);
    uint32_t k = 0;
    bool good = true, placed = !spec;
    for (uint32_t i = 0; good && i <= info->nindexes; i++) {
        const bw_index_spec *old = i < info->nindexes ? &info->indexes[i] : NULL;
        if (!placed && (!old || bw_str_cmp(old->field, field) >= 0)) {
            good = bw_index__copy(spec, &list[k++]);
            placed = true;
        }
        if (good && old && !bw_str_eq(old->field, field))
            good = bw_index__copy(old, &list[k++]);
    }
    *out = list;
    *n = k;
    return good ? BW_OK : bw_fail_nomem(ctx);
}

/* Every loaded partition gets the new set; the others build theirs when they load. */
static bw_status reindex_parts(bw_ctx *ctx, bw_collection *c, bw_str changed)
{
    bw_status st = BW_OK;
    for (uint32_t i = 0; st == BW_OK && i < c->nparts; i++) {
        bw_partition *p = c->parts[i];
        bw_snapshot *next = NULL;
        pthread_mutex_lock(&p->db_lock);
        if (p->current) {
            st = bw_partition_reindex(ctx, p, c->info.indexes, c->info.nindexes,
                                      changed, &next);
            if (st == BW_OK) {
                pthread_rwlock_wrlock(&c->view);
                next = bw_partition_set(p, next);
                pthread_rwlock_unlock(&c->view);
            }
        }
        pthread_mutex_unlock(&p->db_lock);
        bw_snapshot_release(next);
    }
    return st;
}

/* Puts the list into the collection and gives the old one back. */
static void swap_indexes(bw_engine *e, bw_collection *c, bw_index_spec **list,
                         uint32_t *n)
{
    pthread_rwlock_wrlock(&e->names);
    bw_index_spec *old = (bw_index_spec *)(uintptr_t)c->info.indexes;
    uint32_t nold = c->info.nindexes;
    c->info.indexes = *list;
    c->info.nindexes = *n;
    pthread_rwlock_unlock(&e->names);
    *list = old;
    *n = nold;
}

static bw_status record_index(bw_ctx *ctx, bw_engine *e, bw_collection *c, bw_str field,
                              const bw_index_spec *spec)
{
    return spec ? bw_catalogue_index_put(ctx, &e->catalogue, c->uid, spec)
                : bw_catalogue_index_drop(ctx, &e->catalogue, c->uid, field);
}

static const bw_index_spec *index_of(const bw_index_spec *list, uint32_t n,
                                     bw_str field)
{
    for (uint32_t i = 0; i < n; i++)
        if (bw_str_eq(list[i].field, field))
            return &list[i];
    return NULL;
}

/* Some partition could not build its index: the list is what it was. Partitions that
 * have the new index keep it until they are loaded anew; it changes no answer. */
static void undo_index(bw_engine *e, bw_collection *c, bw_str field,
                       bw_index_spec **list, uint32_t *n)
{
    bw_ctx *quiet = bw_ctx_new(0);
    pthread_mutex_lock(&e->catalogue_lock);
    if (quiet && record_index(quiet, e, c, field, index_of(*list, *n, field)) == BW_OK)
        swap_indexes(e, c, list, n);
    else
        bw_log(BW_LOG_ERROR, "engine: a refused index stays in the catalogue");
    pthread_mutex_unlock(&e->catalogue_lock);
    bw_ctx_free(quiet);
}

static bw_status change_index(bw_ctx *ctx, bw_engine *e, bw_str tenant, bw_str name,
                              bw_str field, const bw_index_spec *spec)
{
    bw_collection *c;
    bw_status st = bw_collection__find(ctx, e, tenant, name, &c);
    if (st != BW_OK)
        return st;
    bw_index_spec *list = NULL;
    uint32_t n = 0;
    pthread_mutex_lock(&c->write);
    pthread_mutex_lock(&e->catalogue_lock);
    if (c->dropped)
        st = bw_fail(ctx, BW_ENOTFOUND, "the collection was removed");
    if (st == BW_OK)
        st = next_indexes(ctx, &c->info, field, spec, &list, &n);
    if (st == BW_OK)
        st = record_index(ctx, e, c, field, spec);
    bool recorded = st == BW_OK;
    if (recorded)
        swap_indexes(e, c, &list, &n);
    pthread_mutex_unlock(&e->catalogue_lock);
    if (recorded)
        st = reindex_parts(ctx, c, field);
    if (recorded && st != BW_OK)
        undo_index(e, c, field, &list, &n);
    pthread_mutex_unlock(&c->write);
    bw_indexes__free(list, n);
    bw_collection__release(c);
    return st;
}

bw_status bw_collection_index_put(bw_ctx *ctx, bw_engine *e, bw_str tenant, bw_str name,
                                  const bw_index_spec *spec)
{
    bw_payload_index *probe; /* checks the type and the path before anything changes */
    bw_status st = bw_payload_index_new(ctx, spec, &probe);
    if (st != BW_OK)
        return st;
    bw_payload_index_free(probe);
    return change_index(ctx, e, tenant, name, spec->field, spec);
}

bw_status bw_collection_index_drop(bw_ctx *ctx, bw_engine *e, bw_str tenant,
                                   bw_str name, bw_str field)
{
    return change_index(ctx, e, tenant, name, field, NULL);
}
