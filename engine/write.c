/* bw_write: the meaning of each operation, run in order over the overlay.
 *
 * A point in a class that the caller may not read counts as absent. A visible point in
 * a class that the operation may not touch fails the whole call: nothing has been
 * written by then. Where several visible classes hold an id, changes and deletes act
 * on every copy. Messages are the contract's (qdrant), without the server's prefix. */
#include "overlay.h"
#include "plan/select.h"

#include <math.h>

typedef struct run {
    bw_overlay *o;
    bw_write_result *result;
} run;

static bw_status deny(run *r, const bw_class_id *id)
{
    r->result->denied_class = *id;
    return bw_fail(r->o->ctx, BW_EDENIED, "the policy forbids this write");
}

/* A write over what a class already holds ends it, as a delete would: who may add to a
 * class but not delete from it (a legal hold) adds only. What this call itself has put
 * there is no loss; a copy that the caller cannot see does not show by a denial. */
static bool would_end(const run *r, const bw_overlay_class *k, const bw_staged *s)
{
    return k->readable && s->base != BW_ROW_NONE &&
           !bw_permit_has(&r->o->access->remove, &k->id);
}

/* ---- vectors ---- */

static int32_t find_vector(const bw_collection_info *info, bw_str name)
{
    for (uint32_t i = 0; i < info->nvectors; i++)
        if (bw_str_eq(info->vectors[i].name, name))
            return (int32_t)i;
    return -1;
}

static bw_status unknown_vector(bw_ctx *ctx, bw_str name)
{
    return bw_fail(ctx, BW_EINVALID, "Not existing vector name error: %.*s",
                   (int)(name.len > 150 ? 150 : name.len), name.ptr ? name.ptr : "");
}

static bw_status check_vector(bw_ctx *ctx, const bw_vector_spec *spec,
                              const bw_vector *v)
{
    if (spec->sparse != v->sparse)
        return bw_fail(ctx, BW_EINVALID,
                       "Conversion between sparse and regular vectors failed");
    if (!spec->sparse && v->n != spec->dim)
        return bw_fail(ctx, BW_EINVALID,
                       "Vector dimension error: expected dim: %u, got %u", spec->dim,
                       v->n);
    for (uint32_t i = 0; i < v->n; i++)
        if (!isfinite(v->values[i]))
            return bw_fail(ctx, BW_EINVALID,
                           "a vector holds a number that is not finite");
    for (uint32_t i = 1; spec->sparse && i < v->n; i++)
        if (v->indices[i] <= v->indices[i - 1])
            return bw_fail(ctx, BW_EINVALID,
                           "the indices of a sparse vector must be unique and sorted");
    return BW_OK;
}

static bw_status check_vectors(bw_ctx *ctx, const bw_collection_info *info,
                               const bw_point *p)
{
    for (uint32_t i = 0; i < p->nvectors; i++) {
        int32_t v = find_vector(info, p->vectors[i].name);
        if (v < 0)
            return unknown_vector(ctx, p->vectors[i].name);
        bw_status st = check_vector(ctx, &info->vectors[v], &p->vectors[i]);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

static void set_vectors(const bw_collection_info *info, const bw_point *p, bw_staged *s)
{
    for (uint32_t i = 0; i < p->nvectors; i++) {
        int32_t v = find_vector(info, p->vectors[i].name);
        if (info->vectors[v].sparse) {
            s->sparse[v] = p->vectors[i];
        } else {
            s->dense[v] = (bw_dense){p->vectors[i].values, 0, true};
        }
    }
}

/* Which of the points count: of one id the last. skip[i] is set for the others. */
static bw_status last_of_each(bw_ctx *ctx, const bw_point *points, uint32_t n,
                              bool **skip)
{
    *skip = bw_arena_calloc(ctx, n, sizeof **skip);
    bw_map *seen = bw_map_new();
    bw_status st = *skip && seen ? BW_OK : bw_fail_nomem(ctx);
    for (uint32_t i = n; st == BW_OK && i-- > 0;) {
        struct {
            uint64_t hi, lo, is_uuid;
        } key = {points[i].id.hi, points[i].id.lo, points[i].id.is_uuid};
        bool fresh = false;
        if (!bw_map_put(seen, &key, sizeof key, &fresh))
            st = bw_fail_nomem(ctx);
        (*skip)[i] = !fresh;
    }
    bw_map_free(seen);
    return st;
}

/* ---- upsert ---- */

/* Does update_mode or update_filter leave the point alone? A class that may be written
 * but not read is asked only where the caller sees no copy: its point is then kept or
 * replaced as the condition says, and nothing that the caller sees depends on it. */
static bw_status is_left_alone(run *r, const bw_op *op, const bw_point *p,
                               const bw_copies *copies, uint32_t first, bool *out)
{
    bool exists = false;
    *out = false;
    if (!op->update_filter && op->mode == BW_UPDATE_UPSERT)
        return BW_OK;
    for (uint32_t i = first; i != BW_ROW_NONE; i = copies->nodes[i].next) {
        bw_overlay_class *k = &r->o->classes[copies->nodes[i].class_at];
        exists = true;
        bool match = true;
        if (op->update_filter) {
            bw_status st =
                bw_overlay_matches(r->o, k, &p->id, op->update_filter, &match);
            if (st != BW_OK)
                return st;
        }
        *out = *out || !match;
    }
    bw_overlay_class *own = bw_overlay_class_get(r->o, &p->class_id);
    if (!exists && own && !own->readable && bw_overlay_sees(r->o, own, &p->id)) {
        exists = true;
        bool match = true;
        bw_status st = op->update_filter ? bw_overlay_matches(r->o, own, &p->id,
                                                              op->update_filter, &match)
                                         : BW_OK;
        if (st != BW_OK)
            return st;
        *out = !match;
    }
    *out = *out || (op->mode == BW_UPDATE_INSERT_ONLY && exists) ||
           (op->mode == BW_UPDATE_UPDATE_ONLY && !exists);
    return BW_OK;
}

/* The caller's other copies of the id end: the point moves to its new class. */
static bw_status move_away(run *r, const bw_point *p, const bw_copies *copies,
                           uint32_t first)
{
    for (uint32_t i = first; i != BW_ROW_NONE; i = copies->nodes[i].next) {
        bw_overlay_class *k = &r->o->classes[copies->nodes[i].class_at];
        if (bw_class_id_cmp(&k->id, &p->class_id) == 0)
            continue;
        if (!bw_permit_has(&r->o->access->relabel, &k->id))
            return deny(r, &k->id);
        bw_staged *s;
        bw_status st = bw_overlay_stage(r->o, k, &p->id, &s);
        if (st != BW_OK)
            return st;
        s->present = false;
        s->touched = true;
    }
    return BW_OK;
}

static bw_status upsert_one(run *r, const bw_op *op, const bw_point *p,
                            const bw_copies *copies, uint32_t first)
{
    bw_overlay *o = r->o;
    if (!bw_permit_has(&o->access->store, &p->class_id))
        return deny(r, &p->class_id);
    bool alone;
    bw_status st = is_left_alone(r, op, p, copies, first, &alone);
    if (st != BW_OK || alone)
        return st;
    st = move_away(r, p, copies, first);
    if (st != BW_OK)
        return st;
    bw_staged *s;
    bw_overlay_class *own = bw_overlay_class_get(o, &p->class_id);
    st = bw_overlay_stage(o, own, &p->id, &s);
    if (st != BW_OK)
        return st;
    if (would_end(r, own, s))
        return deny(r, &own->id);
    uint32_t nvec = o->view.info.nvectors;
    s->present = s->touched = true;
    s->payload = p->payload;
    s->text = p->text;
    s->text_counted = false;
    s->ntokens = 0;
    s->facts = p->facts;
    memset(s->dense, 0, nvec * sizeof *s->dense);
    memset(s->sparse, 0, nvec * sizeof *s->sparse);
    set_vectors(&o->view.info, p, s);
    r->result->points_changed++;
    return BW_OK;
}

static bw_status check_class(run *r, const bw_class_id *id)
{
    bw_arena_mark mark = bw_arena_mark_get(r->o->ctx);
    bw_str text;
    bw_status st = bw_class_get(r->o->ctx, r->o->c->engine, id, &text);
    bw_arena_release(r->o->ctx, mark);
    return st == BW_ENOTFOUND
               ? bw_fail(r->o->ctx, BW_EINVALID, "a point's class was not declared")
               : st;
}

static bw_status check_classes(run *r, const bw_op *op)
{
    bw_status st = BW_OK;
    for (uint32_t i = 0; st == BW_OK && i < op->npoints; i++) {
        const bw_class_id *id = &op->points[i].class_id;
        if (i == 0 || bw_class_id_cmp(&op->points[i - 1].class_id, id) != 0)
            st = check_class(r, id);
    }
    return st;
}

static bw_status upsert(run *r, const bw_op *op)
{
    bw_copies copies = {0};
    bool *skip;
    bw_status st = check_classes(r, op);
    for (uint32_t i = 0; st == BW_OK && i < op->npoints; i++)
        st = check_vectors(r->o->ctx, &r->o->view.info, &op->points[i]);
    if (st == BW_OK)
        st = last_of_each(r->o->ctx, op->points, op->npoints, &skip);
    if (st == BW_OK)
        st = bw_overlay_copies(r->o, op->points, op->npoints, &copies);
    for (uint32_t i = 0; st == BW_OK && i < op->npoints; i++)
        if (!skip[i]) /* ids differ, so no point changes where another's copies are */
            st = upsert_one(r, op, &op->points[i], &copies, copies.first[i]);
    return st;
}

/* ---- changes of points that are there ---- */

typedef bw_status (*change_fn)(run *r, const bw_op *op, bw_staged *s);

static bw_status change_delete(run *r, const bw_op *op, bw_staged *s)
{
    (void)r;
    (void)op;
    s->present = false;
    return BW_OK;
}

static bw_status change_set_payload(run *r, const bw_op *op, bw_staged *s)
{
    bw_str old = s->payload.ptr ? s->payload : BW_STR("{}");
    return bw_payload_merge(r->o->ctx, old, op->payload, op->key, &s->payload);
}

static bw_status change_overwrite(run *r, const bw_op *op, bw_staged *s)
{
    (void)r;
    s->payload = op->payload;
    return BW_OK;
}

static bw_status change_delete_payload(run *r, const bw_op *op, bw_staged *s)
{
    if (!s->payload.ptr)
        return BW_OK;
    return bw_payload_remove(r->o->ctx, s->payload, op->keys, op->nkeys, &s->payload);
}

static bw_status change_clear(run *r, const bw_op *op, bw_staged *s)
{
    (void)r;
    (void)op;
    s->payload = (bw_str){NULL, 0};
    return BW_OK;
}

static bw_status change_delete_vectors(run *r, const bw_op *op, bw_staged *s)
{
    for (uint32_t i = 0; i < op->nkeys; i++) {
        int32_t v = find_vector(&r->o->view.info, op->keys[i]);
        s->dense[v] = (bw_dense){NULL, 0, false};
        s->sparse[v] = (bw_vector){.sparse = false};
    }
    return BW_OK;
}

/* The text follows its payload: where the call changes what the payload says, what it
 * said before is gone from the text index, too. */
static bw_status follow_text(run *r, const bw_op *op, bw_str before, bw_staged *s)
{
    bw_str was = {NULL, 0}, is = {NULL, 0};
    if (!op->text_of || (before.ptr == s->payload.ptr && before.len == s->payload.len))
        return BW_OK;
    bw_arena_mark mark = bw_arena_mark_get(r->o->ctx);
    bw_status st = before.len > 0 ? op->text_of(r->o->ctx, before, &was) : BW_OK;
    if (st == BW_OK && s->payload.len > 0)
        st = op->text_of(r->o->ctx, s->payload, &is);
    if (st == BW_OK && !bw_str_eq(was, is)) {
        s->text = is;
        s->text_counted = false;
        s->ntokens = 0;
    } else {
        bw_arena_release(r->o->ctx, mark);
    }
    return st;
}

static bw_status change_one(run *r, const bw_op *op, bw_overlay_class *k,
                            const bw_point_id *id, change_fn fn)
{
    bool is_delete = op->kind == BW_OP_DELETE;
    const bw_permit *needed = is_delete ? &r->o->access->remove : &r->o->access->store;
    if (!bw_permit_has(needed, &k->id))
        return deny(r, &k->id);
    bw_staged *s;
    bw_status st = bw_overlay_stage(r->o, k, id, &s);
    if (st == BW_OK && would_end(r, k, s))
        return deny(r, &k->id);
    bw_str before = st == BW_OK ? s->payload : (bw_str){NULL, 0};
    if (st == BW_OK)
        st = fn(r, op, s);
    if (st == BW_OK)
        st = follow_text(r, op, before, s);
    if (st != BW_OK)
        return st;
    s->touched = true;
    r->result->points_changed++;
    return BW_OK;
}

static bw_status change_ids(run *r, const bw_op *op, const bw_point_id *ids, size_t n,
                            bw_overlay_class *k, change_fn fn)
{
    for (size_t i = 0; i < n; i++) {
        if (!bw_overlay_sees(r->o, k, &ids[i]))
            continue;
        bw_status st = change_one(r, op, k, &ids[i], fn);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

/* Every visible copy of the named or matching points; ids that are missing are no
 * error. */
static bw_status change_all(run *r, const bw_op *op, change_fn fn)
{
    for (uint32_t i = 0; i < r->o->nclasses; i++) {
        bw_overlay_class *k = &r->o->classes[i];
        if (!k->readable)
            continue;
        const bw_point_id *ids = op->ids;
        size_t n = op->nids;
        bw_status st = BW_OK;
        if (op->filter) {
            bw_point_id *found = NULL;
            st = bw_overlay_select(r->o, k, op->filter, &found, &n);
            ids = found;
        }
        if (st == BW_OK)
            st = change_ids(r, op, ids, n, k, fn);
        if (st == BW_OK)
            st = bw_ctx_check(r->o->ctx);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

static bw_status update_vectors_one(run *r, const bw_point *p)
{
    bool found = false;
    for (uint32_t i = 0; i < r->o->nclasses; i++) {
        bw_overlay_class *k = &r->o->classes[i];
        if (!k->readable || !bw_overlay_sees(r->o, k, &p->id))
            continue;
        if (!bw_permit_has(&r->o->access->store, &k->id))
            return deny(r, &k->id);
        bw_staged *s;
        bw_status st = bw_overlay_stage(r->o, k, &p->id, &s);
        if (st != BW_OK)
            return st;
        if (would_end(r, k, s))
            return deny(r, &k->id);
        set_vectors(&r->o->view.info, p, s);
        s->touched = found = true;
        r->result->points_changed++;
    }
    if (found)
        return BW_OK;
    if (!p->id.is_uuid)
        return bw_fail(r->o->ctx, BW_ENOTFOUND, "No point with id %llu found",
                       (unsigned long long)p->id.lo);
    char text[BW_UUID_TEXT + 1];
    bw_uuid_format(&p->id, text);
    return bw_fail(r->o->ctx, BW_ENOTFOUND, "No point with id %s found", text);
}

static bw_status update_vectors(run *r, const bw_op *op)
{
    bool *skip;
    bw_status st = BW_OK;
    for (uint32_t i = 0; st == BW_OK && i < op->npoints; i++)
        st = check_vectors(r->o->ctx, &r->o->view.info, &op->points[i]);
    if (st == BW_OK)
        st = last_of_each(r->o->ctx, op->points, op->npoints, &skip);
    for (uint32_t i = 0; st == BW_OK && i < op->npoints; i++)
        if (!skip[i])
            st = update_vectors_one(r, &op->points[i]);
    return st;
}

static bw_status delete_vectors(run *r, const bw_op *op)
{
    for (uint32_t i = 0; i < op->nkeys; i++)
        if (find_vector(&r->o->view.info, op->keys[i]) < 0)
            return unknown_vector(r->o->ctx, op->keys[i]);
    return change_all(r, op, change_delete_vectors);
}

/* ---- relabel ---- */

static bw_status in_the_way(run *r, bw_status st, const bw_point_id *id,
                            const char *what)
{
    char text[BW_UUID_TEXT + 1];
    if (!id->is_uuid)
        return bw_fail(r->o->ctx, st, "point %llu %s", (unsigned long long)id->lo,
                       what);
    bw_uuid_format(id, text);
    return bw_fail(r->o->ctx, st, "point %s %s", text, what);
}

/* Both sides are staged: one transaction kills the row there and adds it here. Vectors
 * are borrowed from the snapshot that the point leaves, which the overlay holds. */
static bw_status relabel_one(run *r, bw_overlay_class *from, bw_overlay_class *to,
                             const bw_point_id *id)
{
    bw_staged *a, *b;
    uint32_t nvec = r->o->view.info.nvectors;
    if (!bw_overlay_sees(r->o, from, id))
        return in_the_way(r, BW_ECONFLICT, id, "is not where it was");
    if (to->readable && bw_overlay_sees(r->o, to, id))
        return in_the_way(r, BW_EEXISTS, id, "is there already under the new labels");
    bw_status st = bw_overlay_stage(r->o, from, id, &a);
    if (st == BW_OK)
        st = bw_overlay_stage(r->o, to, id, &b);
    if (st != BW_OK)
        return st;
    if (would_end(r, to, b))
        return deny(r, &to->id);
    b->payload = a->payload;
    b->text = a->text;
    b->facts = a->facts;
    b->text_counted = a->text_counted;
    b->ntokens = a->ntokens;
    memcpy(b->dense, a->dense, nvec * sizeof *b->dense);
    memcpy(b->sparse, a->sparse, nvec * sizeof *b->sparse);
    b->present = b->touched = a->touched = true;
    a->present = false;
    r->result->points_changed++;
    return BW_OK;
}

static bw_status relabel(run *r, const bw_op *op)
{
    bw_status st = BW_OK;
    for (uint32_t i = 0; st == BW_OK && i < op->nmoves; i++) {
        const bw_move *m = &op->moves[i];
        if (!bw_permit_has(&r->o->access->relabel, &m->from))
            return deny(r, &m->from);
        if (!bw_permit_has(&r->o->access->store, &m->to))
            return deny(r, &m->to);
        bw_overlay_class *from = bw_overlay_class_get(r->o, &m->from),
                         *to = bw_overlay_class_get(r->o, &m->to);
        if (bw_class_id_cmp(&m->from, &m->to) == 0)
            continue;
        if (!from || !from->readable)
            return bw_fail(r->o->ctx, BW_ECONFLICT, "a class is not there any more");
        st = check_class(r, &m->to);
        for (uint32_t k = 0; st == BW_OK && k < m->nids; k++)
            st = relabel_one(r, from, to, &m->ids[k]);
        if (st == BW_OK)
            st = bw_ctx_check(r->o->ctx);
    }
    return st;
}

static bw_status run_op(run *r, const bw_op *op)
{
    switch (op->kind) {
    case BW_OP_UPSERT:
        return upsert(r, op);
    case BW_OP_DELETE:
        return change_all(r, op, change_delete);
    case BW_OP_SET_PAYLOAD:
        return change_all(r, op, change_set_payload);
    case BW_OP_OVERWRITE_PAYLOAD:
        return change_all(r, op, change_overwrite);
    case BW_OP_DELETE_PAYLOAD:
        return change_all(r, op, change_delete_payload);
    case BW_OP_CLEAR_PAYLOAD:
        return change_all(r, op, change_clear);
    case BW_OP_UPDATE_VECTORS:
        return update_vectors(r, op);
    case BW_OP_DELETE_VECTORS:
        return delete_vectors(r, op);
    case BW_OP_RELABEL:
        return relabel(r, op);
    }
    return bw_fail(r->o->ctx, BW_EINVALID, "unknown operation");
}

/* c->write is held; a failure has changed nothing. */
static bw_status write_once(bw_ctx *ctx, bw_collection *c, const bw_access *access,
                            const bw_op *ops, size_t nops, bw_write_result *out)
{
    bw_overlay o = {0};
    run r = {&o, out};
    *out = (bw_write_result){0};
    bw_status st = bw_overlay_open(ctx, c, access, ops, nops, &o);
    for (size_t i = 0; st == BW_OK && i < nops; i++) {
        st = run_op(&r, &ops[i]);
        if (st == BW_OK)
            st = bw_ctx_check(ctx);
    }
    if (st == BW_OK)
        st = bw_overlay_commit(&o);
    bw_overlay_close(&o);
    return st;
}

bw_status bw_write(bw_ctx *ctx, bw_engine *engine, bw_str tenant, bw_str name,
                   const bw_access *access, const bw_op *ops, size_t nops,
                   bw_write_result *out)
{
    bw_collection *c;
    *out = (bw_write_result){0};
    bw_status st = bw_collection__find(ctx, engine, tenant, name, &c);
    if (st != BW_OK)
        return st;
    pthread_mutex_lock(&c->write);
    if (c->dropped)
        st = bw_fail(ctx, BW_ENOTFOUND, "Collection `%.*s` doesn't exist!",
                     (int)(name.len > 200 ? 200 : name.len), name.ptr);
    if (st == BW_OK)
        st = write_once(ctx, c, access, ops, nops, out);
    if (bw_view_mends(engine, st)) /* a row's vector moves along */
        st = write_once(ctx, c, access, ops, nops, out);
    pthread_mutex_unlock(&c->write);
    bw_collection__release(c);
    if (st != BW_OK)
        out->points_changed = 0;
    return st;
}
