/* A write in the making (overlay.h). Leaves out what the operations mean: write.c. */
#include "overlay.h"
#include "plan/select.h"

#include <stdlib.h>

/* ---- opening ---- */

static int class_cmp(const void *a, const void *b)
{
    return bw_class_id_cmp(a, b);
}

/* Readable classes and those that points are written or moved to, sorted, each once. */
static bw_status wanted_classes(bw_ctx *ctx, const bw_access *access, const bw_op *ops,
                                size_t nops, bw_class_id **out, size_t *n)
{
    size_t max = access->read.n;
    for (size_t i = 0; i < nops; i++)
        max += ops[i].kind == BW_OP_UPSERT    ? ops[i].npoints
               : ops[i].kind == BW_OP_RELABEL ? ops[i].nmoves
                                              : 0;
    bw_class_id *list = bw_arena_calloc(ctx, max, sizeof *list);
    if (!list)
        return BW_ENOMEM;
    size_t k = 0;
    for (size_t i = 0; i < access->read.n; i++)
        list[k++] = access->read.classes[i];
    for (size_t i = 0; i < nops; i++)
        for (uint32_t j = 0; ops[i].kind == BW_OP_RELABEL && j < ops[i].nmoves; j++)
            list[k++] = ops[i].moves[j].to;
    for (size_t i = 0; i < nops; i++)
        for (uint32_t j = 0; ops[i].kind == BW_OP_UPSERT && j < ops[i].npoints; j++) {
            const bw_class_id *id = &ops[i].points[j].class_id;
            if (k == 0 || bw_class_id_cmp(&list[k - 1], id) != 0) /* runs are common */
                list[k++] = *id;
        }
    if (k > 1)
        qsort(list, k, sizeof *list, class_cmp);
    size_t unique = 0;
    for (size_t i = 0; i < k; i++)
        if (unique == 0 || bw_class_id_cmp(&list[unique - 1], &list[i]) != 0)
            list[unique++] = list[i];
    *out = list;
    *n = unique;
    return BW_OK;
}

static bw_status open_classes(bw_overlay *o, const bw_class_id *ids, size_t n)
{
    o->classes = bw_arena_calloc(o->ctx, n, sizeof *o->classes);
    if (!o->classes)
        return BW_ENOMEM;
    o->nclasses = (uint32_t)n;
    size_t v = 0;
    for (size_t i = 0; i < n; i++) {
        bw_overlay_class *k = &o->classes[i];
        k->id = ids[i];
        k->readable = bw_permit_has(&o->access->read, &ids[i]);
        if (v == o->view.nparts || bw_class_id_cmp(&o->view.classes[v], &ids[i]) != 0)
            continue;
        k->snap = o->view.parts[v++];
        bw_status st = bw_snapshot_visible(o->ctx, k->snap, o->now_ns, &k->visible);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

bw_status bw_overlay_open(bw_ctx *ctx, bw_collection *c, const bw_access *access,
                          const bw_op *ops, size_t nops, bw_overlay *out)
{
    *out = (bw_overlay){
        .ctx = ctx, .c = c, .access = access, .now_ns = bw_clock_unix_ns()};
    bw_class_id *ids = NULL;
    size_t n = 0;
    bw_status st = wanted_classes(ctx, access, ops, nops, &ids, &n);
    if (st == BW_OK) {
        bw_permit permit = {ids, n};
        st = bw_collection__view(ctx, c, &permit, out->now_ns, true, &out->view);
    }
    return st == BW_OK ? open_classes(out, ids, n) : st;
}

void bw_overlay_close(bw_overlay *o)
{
    for (uint32_t i = 0; i < o->nclasses; i++)
        bw_map_free(o->classes[i].map);
    bw_view_close(&o->view);
    o->nclasses = 0;
}

bw_overlay_class *bw_overlay_class_get(bw_overlay *o, const bw_class_id *id)
{
    uint32_t lo = 0, hi = o->nclasses;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int cmp = bw_class_id_cmp(&o->classes[mid].id, id);
        if (cmp == 0)
            return &o->classes[mid];
        if (cmp < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* ---- one id ---- */

static void id_key(const bw_point_id *id, unsigned char key[17])
{
    memcpy(key, &id->hi, 8);
    memcpy(key + 8, &id->lo, 8);
    key[16] = (unsigned char)id->is_uuid;
}

static bw_staged *find_staged(const bw_overlay_class *k, const bw_point_id *id)
{
    if (!k->map)
        return NULL;
    unsigned char key[17];
    id_key(id, key);
    uint64_t *slot = bw_map_get(k->map, key, sizeof key);
    return slot ? (bw_staged *)(uintptr_t)*slot : NULL;
}

static bool staged_visible(const bw_overlay *o, const bw_staged *s)
{
    int64_t at = s->facts.expires_at_ns;
    return s->present && (at == 0 || at > o->now_ns);
}

static bool sees(const bw_overlay *o, const bw_overlay_class *k, const bw_point_id *id,
                 uint32_t hash)
{
    const bw_staged *s = find_staged(k, id);
    if (s)
        return staged_visible(o, s);
    if (!k->snap)
        return false;
    uint32_t row = bw_gen_find_hashed(k->snap->gen, id, hash, k->snap->nrows);
    return row != BW_ROW_NONE && bw_bitmap_get(k->visible, row);
}

bool bw_overlay_sees(const bw_overlay *o, const bw_overlay_class *k,
                     const bw_point_id *id)
{
    return sees(o, k, id, bw_id_hash(id));
}

static bw_status copy_put(bw_ctx *ctx, bw_copies *c, uint32_t point, uint32_t class_at)
{
    if (c->nnodes == c->cap) {
        uint32_t cap = c->cap ? 2 * c->cap : 64;
        c->nodes = bw_arena_grow(ctx, c->nodes, c->cap * sizeof *c->nodes,
                                 cap * sizeof *c->nodes);
        if (!c->nodes)
            return BW_ENOMEM;
        c->cap = cap;
    }
    c->nodes[c->nnodes] = (bw_copy){class_at, c->first[point]};
    c->first[point] = c->nnodes++;
    return BW_OK;
}

bw_status bw_overlay_copies(bw_overlay *o, const bw_point *points, uint32_t n,
                            bw_copies *out)
{
    bw_copies c = {.first = bw_arena_calloc(o->ctx, n, sizeof *c.first)};
    uint32_t *hashes = bw_arena_calloc(o->ctx, n, sizeof *hashes);
    if (!c.first || !hashes)
        return BW_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        c.first[i] = BW_ROW_NONE;
        hashes[i] = bw_id_hash(&points[i].id);
    }
    for (uint32_t at = o->nclasses;
         at-- > 0;) { /* put at the front: so from the last */
        const bw_overlay_class *k = &o->classes[at];
        if (!k->readable || (k->n == 0 && (!k->snap || k->snap->nlive == 0)))
            continue;
        for (uint32_t i = 0; i < n; i++) {
            if (!sees(o, k, &points[i].id, hashes[i]))
                continue;
            bw_status st = copy_put(o->ctx, &c, i, at);
            if (st != BW_OK)
                return st;
        }
    }
    *out = c;
    return BW_OK;
}

static bw_status read_base(bw_overlay *o, const bw_overlay_class *k, bw_staged *s)
{
    const bw_rec *rec = k->snap->rows->recs[s->base];
    s->present = true;
    s->payload = rec->payload;
    s->text = rec->text;
    s->facts = rec->facts;
    s->text_counted = true;
    s->ntokens = rec->ntokens;
    bw_status st = BW_OK;
    for (uint32_t v = 0; st == BW_OK && v < o->view.info.nvectors; v++) {
        if (o->view.info.vectors[v].sparse)
            (void)bw_snapshot_sparse(k->snap, v, s->base, &s->sparse[v]);
        else
            st = bw_snapshot_stored(o->ctx, k->snap, v, s->base, &s->dense[v]);
    }
    return st;
}

bw_status bw_overlay_stage(bw_overlay *o, bw_overlay_class *k, const bw_point_id *id,
                           bw_staged **out)
{
    *out = find_staged(k, id);
    if (*out)
        return BW_OK;
    uint32_t nvec = o->view.info.nvectors;
    bw_staged *s = bw_arena_calloc(o->ctx, 1, sizeof *s);
    if (!s)
        return BW_ENOMEM;
    s->dense = bw_arena_calloc(o->ctx, nvec, sizeof *s->dense);
    s->sparse = bw_arena_calloc(o->ctx, nvec, sizeof *s->sparse);
    if (!s->dense || !s->sparse)
        return BW_ENOMEM;
    if (k->n == k->cap) {
        uint32_t cap = k->cap ? 2 * k->cap : 16;
        k->staged = bw_arena_grow(o->ctx, k->staged, k->cap * sizeof *k->staged,
                                  cap * sizeof *k->staged);
        if (!k->staged)
            return BW_ENOMEM;
        k->cap = cap;
    }
    if (!k->map && !(k->map = bw_map_new()))
        return bw_fail_nomem(o->ctx);
    unsigned char key[17];
    id_key(id, key);
    bool fresh;
    uint64_t *slot = bw_map_put(k->map, key, sizeof key, &fresh);
    if (!slot)
        return bw_fail_nomem(o->ctx);
    *slot = (uintptr_t)s;
    k->staged[k->n++] = s;
    s->id = *id;
    s->base = BW_ROW_NONE;
    /* An expired row is absent for the caller, but the class has its id only once. */
    if (k->snap && bw_snapshot_find(k->snap, id, &s->base)) {
        bw_status st = read_base(o, k, s);
        if (st != BW_OK)
            return st;
        s->present = staged_visible(o, s);
    }
    *out = s;
    return BW_OK;
}

/* ---- by filter ---- */

static bw_status matches_staged(bw_overlay *o, const bw_staged *s,
                                const bw_filter *filter, bool *out)
{
    uint32_t nvec = o->view.info.nvectors, n = 0;
    bw_vector *vectors = bw_arena_calloc(o->ctx, nvec, sizeof *vectors);
    if (!vectors)
        return BW_ENOMEM;
    for (uint32_t v = 0; v < nvec; v++) {
        const bw_vector_spec *spec = &o->view.info.vectors[v];
        if (spec->sparse ? s->sparse[v].sparse : s->dense[v].data != NULL)
            vectors[n++] = (bw_vector){.name = spec->name, .sparse = spec->sparse};
    }
    return bw_filter_matches(o->ctx, filter, &s->id, s->payload, vectors, n, out);
}

bw_status bw_overlay_matches(bw_overlay *o, bw_overlay_class *k, const bw_point_id *id,
                             const bw_filter *filter, bool *out)
{
    bw_staged *s;
    bw_status st = bw_overlay_stage(o, k, id, &s);
    return st == BW_OK ? matches_staged(o, s, filter, out) : st;
}

static bw_status select_rows(bw_overlay *o, bw_overlay_class *k,
                             const bw_filter *filter, bw_bitmap *rows)
{
    bw_bitmap within;
    bw_status st = bw_bitmap_arena(o->ctx, bw_snapshot_nrows(k->snap), &within);
    if (st != BW_OK)
        return st;
    bw_bitmap_copy(&within, k->visible);
    for (uint32_t i = 0; i < k->n; i++) /* the staged state stands for these */
        if (k->staged[i]->base != BW_ROW_NONE)
            bw_bitmap_unset(&within, k->staged[i]->base);
    st = bw_bitmap_arena(o->ctx, within.nbits, rows);
    return st == BW_OK ? bw_filter_select(o->ctx, k->snap, &o->view.info, filter,
                                          &within, rows, NULL)
                       : st;
}

bw_status bw_overlay_select(bw_overlay *o, bw_overlay_class *k, const bw_filter *filter,
                            bw_point_id **out, size_t *n)
{
    bw_bitmap rows = {NULL, 0};
    bw_status st = k->snap ? select_rows(o, k, filter, &rows) : BW_OK;
    if (st != BW_OK)
        return st;
    bw_point_id *ids = bw_arena_calloc(
        o->ctx, (rows.words ? bw_bitmap_count(&rows) : 0) + k->n, sizeof *ids);
    if (!ids)
        return BW_ENOMEM;
    size_t count = 0;
    for (size_t i = rows.words ? bw_bitmap_next(&rows, 0) : rows.nbits; i < rows.nbits;
         i = bw_bitmap_next(&rows, i + 1))
        ids[count++] = *bw_snapshot_id(k->snap, (uint32_t)i);
    for (uint32_t i = 0; i < k->n; i++) {
        bool hit = false;
        if (staged_visible(o, k->staged[i]))
            st = matches_staged(o, k->staged[i], filter, &hit);
        if (st != BW_OK)
            return st;
        if (hit)
            ids[count++] = k->staged[i]->id;
    }
    *out = ids;
    *n = count;
    return BW_OK;
}

/* ---- commit ---- */

static bw_status make_add(bw_overlay *o, bw_staged *s, bw_add *out)
{
    bw_ctx *ctx = o->ctx;
    bw_rec_in in = {.id = s->id,
                    .payload = s->payload,
                    .text = s->text,
                    .facts = s->facts,
                    .ntokens = s->ntokens};
    bw_status st = BW_OK;
    if (s->text.ptr && !s->text_counted)
        st = bw_text_count(ctx, s->text, &in.ntokens);
    bw_rec_sparse *sparse = bw_arena_calloc(ctx, o->view.info.nvectors, sizeof *sparse);
    if (!sparse)
        return BW_ENOMEM;
    for (uint32_t v = 0; v < o->view.info.nvectors; v++)
        if (s->sparse[v].sparse)
            sparse[in.nsparse++] = (bw_rec_sparse){
                v, s->sparse[v].n, s->sparse[v].indices, s->sparse[v].values};
    in.sparse = sparse;
    *out = (bw_add){NULL, s->dense};
    return st == BW_OK ? bw_rec_new(ctx, &in, &out->rec) : st;
}

static void drop_adds(bw_changes *c)
{
    for (uint32_t i = 0; i < c->nadds; i++)
        bw_rec_release(c->adds[i].rec);
    c->nadds = 0;
}

static bw_status changes_of(bw_overlay *o, const bw_overlay_class *k, bw_changes *out)
{
    uint32_t *kills = bw_arena_calloc(o->ctx, k->n, sizeof *kills);
    *out = (bw_changes){.kills = kills,
                        .adds = bw_arena_calloc(o->ctx, k->n, sizeof *out->adds)};
    if (!kills || !out->adds)
        return BW_ENOMEM;
    for (uint32_t i = 0; i < k->n; i++) {
        bw_staged *s = k->staged[i];
        if (!s->touched)
            continue;
        if (s->base != BW_ROW_NONE)
            kills[out->nkills++] = s->base;
        if (!s->present)
            continue;
        bw_status st = make_add(o, s, &out->adds[out->nadds]);
        if (st != BW_OK) {
            drop_adds(out);
            return st;
        }
        out->nadds++;
    }
    return BW_OK;
}

/* Partitions for classes that get their first point. */
static bw_status create_missing(bw_overlay *o, const bw_changes *changes)
{
    bw_class_id *ids = bw_arena_calloc(o->ctx, o->nclasses, sizeof *ids);
    uint32_t n = 0;
    if (!ids)
        return BW_ENOMEM;
    for (uint32_t i = 0; i < o->nclasses; i++)
        if (!o->classes[i].snap && changes[i].nadds > 0)
            ids[n++] = o->classes[i].id;
    return n > 0 ? bw_collection__create_parts(o->ctx, o->c, ids, n) : BW_OK;
}

static bw_partition *part_of(bw_overlay *o, const bw_class_id *id)
{
    pthread_rwlock_rdlock(&o->c->engine->names);
    bw_partition *p = bw_collection__part(o->c, id);
    pthread_rwlock_unlock(&o->c->engine->names);
    return p;
}

bw_status bw_overlay_commit(bw_overlay *o)
{
    bw_changes *changes = bw_arena_calloc(o->ctx, o->nclasses, sizeof *changes);
    bw_part_write *writes = bw_arena_calloc(o->ctx, o->nclasses, sizeof *writes);
    if (!changes || !writes)
        return BW_ENOMEM;
    uint32_t made = 0, n = 0;
    bw_status st = BW_OK;
    for (; st == BW_OK && made < o->nclasses; made++)
        st = changes_of(o, &o->classes[made], &changes[made]);
    if (st == BW_OK)
        st = create_missing(o, changes);
    for (uint32_t i = 0; st == BW_OK && i < o->nclasses; i++) {
        if (changes[i].nadds == 0 && changes[i].nkills == 0)
            continue;
        bw_partition *p = part_of(o, &o->classes[i].id);
        bw_require(p != NULL); /* opened, or made above, and c->write is held */
        pthread_rwlock_rdlock(&o->c->view);
        bw_snapshot *cur = p->current;
        pthread_rwlock_unlock(&o->c->view);
        bw_require(!o->classes[i].snap ||
                   cur == o->classes[i].snap); /* the only writer */
        writes[n++] = (bw_part_write){p, cur, changes[i]};
    }
    if (st == BW_OK)
        return bw_collection__commit(o->ctx, o->c, writes,
                                     n); /* takes the records over */
    for (uint32_t i = 0; i < made; i++)
        drop_adds(&changes[i]);
    return st;
}
