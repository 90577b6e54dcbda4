/* One request's state: what is visible in each permitted partition, lookup views, and
 * the look-ups by name that queries share. */
#include "plan.h"

bw_status bw_plan_init(bw_plan *p, bw_ctx *ctx, bw_engine *engine, const bw_read *read,
                       const bw_view *view)
{
    *p = (bw_plan){.ctx = ctx, .engine = engine, .read = read, .view = view};
    p->visible = bw_arena_calloc(ctx, view->nparts, sizeof *p->visible);
    if (!p->visible)
        return BW_ENOMEM;
    const bw_permit *permit = read->permit;
    size_t at = 0; /* both lists rise */
    for (size_t i = 0; i < view->nparts; i++) {
        while (at < permit->n &&
               bw_class_id_cmp(&permit->classes[at], &view->classes[i]) < 0)
            at++;
        /* What the product promises: no row outside the permitted set is ever looked
         * at. */
        bw_require(at < permit->n &&
                   bw_class_id_cmp(&permit->classes[at], &view->classes[i]) == 0);
        p->nrows += bw_snapshot_nrows(view->parts[i]);
        p->nlive += bw_snapshot_nlive(view->parts[i]);
    }
    return BW_OK;
}

bw_status bw_plan_visible(bw_plan *p, size_t part, const bw_bitmap **out)
{
    bw_status st = BW_OK;
    if (!p->visible[part])
        st = bw_snapshot_visible(p->ctx, p->view->parts[part], p->view->now_ns,
                                 &p->visible[part]);
    *out = p->visible[part];
    return st;
}

static bool row_visible(const bw_view *view, size_t part, uint32_t row)
{
    bw_row r;
    bw_snapshot_row(view->parts[part], row, &r);
    return r.facts.expires_at_ns == 0 || r.facts.expires_at_ns > view->now_ns;
}

bool bw_plan_row_visible(const bw_plan *p, size_t part, uint32_t row)
{
    return p->visible[part] ? bw_bitmap_get(p->visible[part], row)
                            : row_visible(p->view, part, row);
}

bool bw_plan_find(const bw_view *view, const bw_point_id *id, uint32_t *part,
                  uint32_t *row)
{
    for (size_t i = 0; i < view->nparts; i++) {
        if (bw_snapshot_find(view->parts[i], id, row) && row_visible(view, i, *row)) {
            *part = (uint32_t)i;
            return true;
        }
    }
    return false;
}

const bw_index_spec *bw_plan_index(const bw_view *view, bw_str field)
{
    for (uint32_t i = 0; i < view->info.nindexes; i++) {
        if (bw_str_eq(view->info.indexes[i].field, field))
            return &view->info.indexes[i];
    }
    return NULL;
}

bw_status bw_plan_vector(bw_plan *p, const bw_collection_info *info, bw_str name,
                         uint32_t *vec)
{
    for (uint32_t i = 0; i < info->nvectors; i++) {
        if (bw_str_eq(info->vectors[i].name, name)) {
            *vec = i;
            return BW_OK;
        }
    }
    return bw_fail(p->ctx, BW_EINVALID, "Not existing vector name error: %.*s",
                   (int)(name.len < 100 ? name.len : 100), name.ptr ? name.ptr : "");
}

bw_status bw_plan_window(bw_plan *p, uint32_t offset, uint32_t limit, size_t *k)
{
    size_t sum;
    if (__builtin_add_overflow((size_t)offset, (size_t)limit, &sum))
        return bw_fail(p->ctx, BW_EINVALID, "offset + limit is too large");
    if (sum > p->nlive)
        sum = p->nlive;
    if (sum > BW_PLAN_HITS_MAX)
        return bw_fail(p->ctx, BW_EINVALID, "offset + limit is over %d",
                       (int)BW_PLAN_HITS_MAX);
    *k = sum;
    return BW_OK;
}

/* ---- lookup_from ---- */

struct bw_lookup_view {
    struct bw_lookup_view *next;
    bw_str name;
    bw_view view;
};

bw_status bw_plan_lookup(bw_plan *p, bw_str collection, const bw_view **out)
{
    if (!collection.ptr) {
        *out = p->view;
        return BW_OK;
    }
    for (struct bw_lookup_view *l = p->lookups; l; l = l->next) {
        if (bw_str_eq(l->name, collection)) {
            *out = &l->view;
            return BW_OK;
        }
    }
    if (!p->read->lookup_permit)
        return bw_fail(p->ctx, BW_EINTERNAL,
                       "lookup_from came without a permitted set");
    struct bw_lookup_view *l = bw_arena_calloc(p->ctx, 1, sizeof *l);
    if (!l)
        return BW_ENOMEM;
    bw_status st = bw_view_open(p->ctx, p->engine, p->read->tenant, collection,
                                p->read->lookup_permit, p->read->now_ns, &l->view);
    if (st != BW_OK)
        return st;
    l->name = collection;
    l->next = p->lookups;
    p->lookups = l;
    *out = &l->view;
    return BW_OK;
}

void bw_plan_clear(bw_plan *p)
{
    for (struct bw_lookup_view *l = p->lookups; l; l = l->next)
        bw_view_close(&l->view);
    p->lookups = NULL;
}
