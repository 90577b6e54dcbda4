/* Copies: two permitted classes may hold one id (their writers could not see each
 * other). Qdrant's routes show one point an id, so every read shows the visible copy in
 * the lowest class id and hides the others, before any filter, so that a page, a count
 * and a facet always speak of the same points. Only permitted classes are compared.
 *
 * Copies are rare, so nobody pays for them ahead: a search runs without the rule, then
 * looks up its few results in the lower partitions, and only when one of them is a
 * copy is the whole shadow (a bitmap for each partition) made and the search run again.
 * Each query of a batch does so for itself: its bits cannot depend on its company.
 * The shadow is one pass over all visible ids with a hash table, lowest class first. */
#include "../partition/rows.h"
#include "plan.h"

typedef struct id_slot { /* empty: part == UINT32_MAX */
    uint32_t part, row;
} id_slot;

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

/* Ids are the callers' own, so a table may be made long by hand: the walk is bounded by
 * PROBES_MAX, and a full neighbourhood falls back to the partitions' own (keyed) maps.
 */
enum { PROBES_MAX = 256 };

static uint64_t id_hash(const bw_point_id *id, uint64_t seed)
{
    return mix(id->lo ^ mix(id->hi ^ seed ^ id->is_uuid));
}

static bool same_id(const bw_plan *p, const id_slot *s, const bw_point_id *id)
{
    return bw_point_id_cmp(bw_snapshot_id(p->view->parts[s->part], s->row), id) == 0;
}

static bool in_lower(const bw_plan *p, size_t part, const bw_point_id *id)
{
    for (size_t i = 0; i < part; i++) {
        uint32_t row;
        if (bw_snapshot_find(p->view->parts[i], id, &row) &&
            bw_plan_row_visible(p, i, row))
            return true;
    }
    return false;
}

/* Whether an item's id is visible in a partition below its own. Partition by partition:
 * most say at the first line that they hold none of the ids. */
static bw_status any_in_lower(bw_plan *p, const bw_scored *items, size_t n, bool *out)
{
    const bw_view *v = p->view;
    uint32_t *hashes = bw_arena_alloc(p->ctx, n * sizeof *hashes);
    size_t end = 0;
    if (!hashes)
        return BW_ENOMEM;
    for (size_t j = 0; j < n; j++) {
        hashes[j] = bw_id_hash(&items[j].id);
        end = items[j].part > end ? items[j].part : end;
    }
    for (size_t i = 0; i < end && !*out; i++) {
        if (i + 8 < end)
            bw_snapshot_ahead(v->parts[i + 8]);
        for (size_t j = bw_snapshot_may_hold(v->parts[i], hashes, n, 0); j < n && !*out;
             j = bw_snapshot_may_hold(v->parts[i], hashes, n, j + 1)) {
            uint32_t row;
            *out = items[j].part > i && bw_snapshot_find(v->parts[i], &items[j].id, &row) &&
                   bw_plan_row_visible(p, i, row);
        }
    }
    return BW_OK;
}

/* True when the id was there already, else takes the slot. */
static bool meet_id(const bw_plan *p, id_slot *table, size_t mask, uint64_t seed,
                    const bw_point_id *id, uint32_t part, uint32_t row)
{
    size_t at = id_hash(id, seed) & mask;
    for (int probes = 0; probes < PROBES_MAX; probes++, at = (at + 1) & mask) {
        if (table[at].part == UINT32_MAX) {
            table[at] = (id_slot){part, row};
            return false;
        }
        if (same_id(p, &table[at], id))
            return true;
    }
    return in_lower(p, part, id);
}

static bw_status fill_part(bw_plan *p, size_t part, id_slot *table, size_t mask,
                           uint64_t seed)
{
    const bw_bitmap *visible;
    bw_status st = bw_plan_visible(p, part, &visible);
    if (st == BW_OK)
        st = bw_ctx_check(p->ctx);
    if (st != BW_OK)
        return st;
    for (size_t row = bw_bitmap_next(visible, 0); row < visible->nbits;
         row = bw_bitmap_next(visible, row + 1)) {
        const bw_point_id *id = bw_snapshot_id(p->view->parts[part], (uint32_t)row);
        if (meet_id(p, table, mask, seed, id, (uint32_t)part, (uint32_t)row))
            bw_bitmap_set(&p->shadow[part], row);
    }
    return BW_OK;
}

bw_status bw_plan_shadow(bw_plan *p)
{
    size_t n = p->view->nparts, slots = 64;
    if (p->shadow || p->all_copies)
        return BW_OK;
    bw_bitmap *shadow = bw_arena_calloc(p->ctx, n, sizeof *shadow);
    bw_status st = shadow ? BW_OK : BW_ENOMEM;
    for (size_t i = 0; st == BW_OK && i < n; i++)
        st = bw_bitmap_arena(p->ctx, bw_snapshot_nrows(p->view->parts[i]), &shadow[i]);
    if (st != BW_OK)
        return st;
    while (slots < 2 * p->nrows)
        slots *= 2;
    id_slot *table = bw_alloc(slots * sizeof *table);
    if (!table)
        return bw_fail_nomem(p->ctx);
    memset(table, 0xff, slots * sizeof *table);
    p->shadow = shadow;
    uint64_t seed =
        bw_ctx_trace(p->ctx) ^ (uint64_t)(uintptr_t)table; /* order of slots only */
    for (size_t i = 0; st == BW_OK && i < n; i++)
        st = fill_part(p, i, table, slots - 1, seed);
    bw_free(table);
    if (st != BW_OK)
        p->shadow = NULL;
    return st;
}

bw_status bw_plan_has_copies(bw_plan *p, const bw_scored *items, size_t n, bool *out)
{
    *out = false;
    if (p->all_copies || p->view->nparts < 2)
        return BW_OK;
    size_t finds = 0;
    for (size_t i = 0; i < n; i++)
        finds += items[i].part;
    size_t rows = p->nrows / p->view->nparts <= 64 ? 8 * p->nrows : p->nrows;
    if (finds > rows + 1024) { /* the whole shadow is cheaper */
        bw_status st = bw_plan_shadow(p);
        for (size_t i = 0; st == BW_OK && i < n && !*out; i++)
            *out = bw_bitmap_get(&p->shadow[items[i].part], items[i].row);
        return st;
    }
    return any_in_lower(p, items, n, out);
}

bw_status bw_plan_drop_copies(bw_plan *p, size_t part, bw_bitmap *rows)
{
    size_t cost;
    if (p->all_copies || part == 0)
        return BW_OK;
    if (!p->shadow) {
        if (__builtin_mul_overflow(bw_bitmap_count(rows), part, &cost) || cost > 64) {
            bw_status st = bw_plan_shadow(p);
            if (st != BW_OK)
                return st;
        }
    }
    if (p->shadow) {
        bw_bitmap_andnot(rows, &p->shadow[part]);
        return BW_OK;
    }
    for (size_t r = bw_bitmap_next(rows, 0); r < rows->nbits;
         r = bw_bitmap_next(rows, r + 1)) {
        if (in_lower(p, part, bw_snapshot_id(p->view->parts[part], (uint32_t)r)))
            bw_bitmap_unset(rows, r);
    }
    return BW_OK;
}
