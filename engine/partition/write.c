/* The life of one write in one partition (part.h). Leaves out what the write means
 * (engine/write.c) and what its counts ask for (seal.c). */
#include "part.h"

enum { BLOCK_ROWS_MIN = 8, BLOCK_ROWS_MAX = 16384 };

int32_t bw_snapshot_segment(const bw_snapshot *s, int64_t key)
{
    uint32_t lo = 0, hi = s->nsegs;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (s->segs[mid].p.key_last < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->nsegs && s->segs[lo].p.key_first <= key ? (int32_t)lo : -1;
}

/* ---- prepare ---- */

/* A place for one more vector in the growing blocks of a draft. */
static bw_status growing_slot(bw_ctx *ctx, bw_snapshot *d, uint32_t vec, uint32_t more,
                              bw_block_ref **out)
{
    bw_block_list *l = &d->vecs[vec];
    bw_block_ref *last = l->n > 0 ? &l->items[l->n - 1] : NULL;
    if (!last || last->seg >= 0 || last->n == last->b->m->cap) {
        uint32_t cap = last && last->seg < 0 ? last->b->m->cap * 2 : BLOCK_ROWS_MIN;
        cap = cap < more ? more : cap;
        cap = cap > BLOCK_ROWS_MAX ? BLOCK_ROWS_MAX : cap;
        bw_matrix *m = bw_matrix_new(&d->part->specs[vec], cap);
        bw_block *b = m ? bw_block_new(m) : NULL;
        if (!b)
            return bw_fail_nomem(ctx);
        bw_status st = bw_block_list_put(ctx, l, (bw_block_ref){b, 0, -1});
        if (st != BW_OK)
            return st;
    }
    *out = &l->items[l->n - 1];
    return BW_OK;
}

static bw_status add_vectors(bw_ctx *ctx, bw_snapshot *d, const bw_add *a, uint32_t ord,
                             uint32_t more)
{
    for (uint32_t v = 0; v < d->part->nvec; v++) {
        if (d->part->specs[v].sparse || !a->dense[v].data)
            continue;
        bw_block_ref *r = NULL;
        bw_status st = growing_slot(ctx, d, v, more, &r);
        if (st != BW_OK)
            return st;
        st = bw_matrix_put(ctx, r->b->m, r->n, &a->dense[v], &a->rec->id);
        if (st != BW_OK)
            return st;
        r->b->ord[r->n] = ord;
        r->b->used = ++r->n;
    }
    return BW_OK;
}

static void count_row(bw_snapshot *d, const bw_rec *rec, bool add)
{
    d->nlive += add ? 1 : UINT32_MAX; /* −1 */
    if (add && rec->facts.expires_at_ns != 0)
        d->can_expire = true;
    if (!rec->text.ptr)
        return;
    d->text_docs += add ? 1 : UINT64_MAX;
    d->text_tokens += add ? rec->ntokens : (uint64_t)0 - rec->ntokens;
}

static void kill_rows(bw_snapshot *d, const bw_snapshot *cur, const bw_changes *c)
{
    for (uint32_t i = 0; i < c->nkills; i++) {
        uint32_t ord = c->kills[i];
        bw_require(bw_bitmap_get(&d->live, ord));
        const bw_rec *rec = cur->rows->recs[ord];
        bw_bitmap_unset(&d->live, ord);
        count_row(d, rec, false);
        int32_t seg = bw_snapshot_segment(d, rec->key);
        if (seg >= 0) {
            d->segs[seg].dead++;
            bw_merge_kill(d, rec->key);
        } else {
            d->grow_live--;
        }
    }
}

/* Sparse lists and payload indexes, which readers look into: under their lock. */
static bw_status index_rows(bw_ctx *ctx, bw_snapshot *d, uint32_t ord0)
{
    bw_gen *g = d->gen;
    bw_status st = BW_OK;
    pthread_rwlock_wrlock(&g->index_lock);
    for (uint32_t ord = ord0; st == BW_OK && ord < g->n; ord++) {
        const bw_rec *rec = d->rows->recs[ord];
        for (uint32_t i = 0; st == BW_OK && i < rec->nsparse; i++) {
            const bw_rec_sparse *sp = &rec->sparse[i];
            st = bw_sparse_add(ctx, g->sparse[sp->vec], ord, sp->indices, sp->values,
                               sp->n);
        }
        for (uint32_t i = 0; st == BW_OK && i < d->indexes->n; i++)
            st = bw_payload_index_add(ctx, d->indexes->entries[i]->ix, ord,
                                      rec->payload);
    }
    pthread_rwlock_unlock(&g->index_lock);
    return st;
}

static bw_status add_rows(bw_ctx *ctx, bw_snapshot *d, const bw_changes *c)
{
    bw_status st = BW_OK;
    for (uint32_t i = 0; i < c->nadds; i++) {
        bw_add *a = &c->adds[i];
        if (st != BW_OK) { /* not ours any more, and not the table's */
            bw_rec_release(a->rec);
            continue;
        }
        a->rec->key = d->state.next_key++;
        a->rec->version = d->state.version;
        uint32_t ord = bw_gen_add(d->gen, a->rec);
        bw_bitmap_set(&d->live, ord);
        count_row(d, a->rec, true);
        d->grow_live++;
        st = add_vectors(ctx, d, a, ord, c->nadds - i);
    }
    return st;
}

bw_status bw_partition_prepare(bw_ctx *ctx, const bw_snapshot *cur, const bw_changes *c,
                               bw_prepared *out)
{
    bw_gen *gen = cur->gen;
    bw_snapshot *d = NULL;
    bw_status st = bw_gen_reserve(ctx, gen, c->nadds);
    if (st == BW_OK)
        st = bw_snapshot_draft(ctx, cur, gen->n + c->nadds, &d);
    if (st != BW_OK) {
        for (uint32_t i = 0; i < c->nadds; i++)
            bw_rec_release(c->adds[i].rec);
        return st;
    }
    *out = (bw_prepared){.part = cur->part,
                         .cur = cur,
                         .next = d,
                         .kills = c->kills,
                         .nkills = c->nkills,
                         .ord0 = gen->n,
                         .nadds = c->nadds};
    d->state.version++;
    d->state.writes += (uint64_t)c->nadds + c->nkills;
    d->state.grow_written += c->nadds;
    kill_rows(d, cur, c);
    st = add_rows(ctx, d, c);
    if (st == BW_OK)
        st = index_rows(ctx, d, out->ord0);
    if (st == BW_OK)
        st = bw_snapshot_seal(ctx, out);
    if (st != BW_OK)
        bw_partition_abort(out);
    return st;
}

static bool is_in(const bw_snapshot *cur, const bw_part_segment *p)
{
    for (uint32_t i = 0; i < cur->nsegs; i++)
        if (cur->segs[i].p.no == p->no && cur->segs[i].p.build == p->build)
            return true;
    for (uint32_t i = 0; i < cur->nmerges; i++)
        if (cur->merges[i].s.p.no == p->no && cur->merges[i].s.p.build == p->build)
            return true;
    return false;
}

static void discard_graph(const bw_partition *p, const bw_part_segment *s)
{
    for (uint32_t v = 0; v < p->nvec; v++)
        if (!p->specs[v].sparse)
            bw_builder_discard(p->env->builder, p->id.number, s->no, v);
}

/* Graphs that the draft asked for are of rows that were refused. */
static void discard_graphs(const bw_snapshot *next, const bw_snapshot *cur)
{
    const bw_partition *p = next->part;
    for (uint32_t i = 0; i < next->nsegs; i++)
        if (!is_in(cur, &next->segs[i].p))
            discard_graph(p, &next->segs[i].p);
    for (uint32_t i = 0; i < next->nmerges; i++)
        if (!is_in(cur, &next->merges[i].s.p))
            discard_graph(p, &next->merges[i].s.p);
}

void bw_partition_abort(bw_prepared *w)
{
    if (!w->next)
        return;
    discard_graphs(w->next, w->cur);
    bw_gen_undo(w->next->gen, w->ord0);
    bw_snapshot_release(w->next);
    w->next = NULL;
}

bw_snapshot *bw_partition_set(bw_partition *p, bw_snapshot *s)
{
    bw_snapshot *old = p->current;
    bw_snapshot_set_small(s);
    p->current = s;
    atomic_store_explicit(&p->loaded, true, memory_order_release);
    return old;
}

bw_snapshot *bw_partition_publish(bw_prepared *w)
{
    bw_snapshot *old = bw_partition_set(w->part, w->next);
    w->next = NULL;
    return old;
}

/* ---- the file ---- */

static bw_status encode(bw_ctx *ctx, const bw_snapshot *s, uint32_t ord, bool skeleton,
                        bw_buf *out)
{
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    bw_dense *dense = bw_arena_calloc(ctx, s->part->nvec, sizeof *dense);
    if (!dense)
        return BW_ENOMEM;
    for (uint32_t v = 0; v < s->part->nvec; v++) {
        if (s->part->specs[v].sparse)
            continue;
        bw_status st = bw_snapshot_stored(ctx, s, v, ord, &dense[v]);
        if (st != BW_OK)
            return st;
    }
    out->len = 0;
    bw_rec_encode(s->rows->recs[ord], s->part->specs, s->part->nvec, dense, skeleton,
                  out);
    bw_arena_release(ctx, mark);
    return out->failed ? bw_fail_nomem(ctx) : BW_OK;
}

bw_status bw_partition_stage(bw_ctx *ctx, const bw_prepared *w, uint64_t tx)
{
    bw_db *db;
    bw_status st = bw_pool_get(ctx, w->part, &db);
    if (st != BW_OK)
        return st;
    bw_buf buf = {0};
    uint32_t seq = 0;
    st = bw_db_begin(ctx, db);
    for (uint32_t i = 0; st == BW_OK && i < w->nkills; i++)
        st = bw_partfile_stage(ctx, db, tx, seq++, w->cur->rows->keys[w->kills[i]],
                               (bw_str){"", 0});
    for (uint32_t i = 0; st == BW_OK && i < w->nadds; i++) {
        st = encode(ctx, w->next, w->ord0 + i, false, &buf);
        if (st == BW_OK)
            st = bw_partfile_stage(ctx, db, tx, seq++, 0, bw_buf_view(&buf));
    }
    if (st == BW_OK)
        st = bw_db_commit(ctx, db);
    else
        bw_db_rollback(db);
    bw_buf_clear(&buf);
    bw_pool_put(w->part);
    return st;
}

bw_status bw_partition_unstage(bw_ctx *ctx, bw_partition *p, uint64_t tx)
{
    bw_db *db;
    bw_status st = bw_pool_get(ctx, p, &db);
    if (st != BW_OK)
        return st;
    st = bw_db_begin(ctx, db);
    if (st == BW_OK)
        st = bw_partfile_unstage(ctx, db, tx);
    if (st == BW_OK)
        st = bw_db_commit(ctx, db);
    else
        bw_db_rollback(db);
    bw_pool_put(p);
    return st;
}

static bw_status apply_kill(bw_ctx *ctx, bw_db *db, const bw_snapshot *cur,
                            uint32_t ord, bw_buf *buf)
{
    const bw_rec *rec = cur->rows->recs[ord];
    bw_str skeleton = {NULL, 0};
    if (bw_snapshot_segment(cur, rec->key) >= 0) {
        bw_status st = encode(ctx, cur, ord, true, buf);
        if (st != BW_OK)
            return st;
        skeleton = bw_buf_view(buf);
    }
    return bw_partfile_end_row(ctx, db, rec->key, skeleton, rec->text);
}

static bw_status apply_all(bw_ctx *ctx, bw_db *db, const bw_prepared *w, uint64_t tx,
                           bw_buf *buf)
{
    bw_status st = BW_OK;
    for (uint32_t i = 0; st == BW_OK && i < w->nkills; i++)
        st = apply_kill(ctx, db, w->cur, w->kills[i], buf);
    for (uint32_t i = 0; st == BW_OK && i < w->nadds; i++) {
        const bw_rec *rec = w->next->rows->recs[w->ord0 + i];
        st = encode(ctx, w->next, w->ord0 + i, false, buf);
        if (st == BW_OK)
            st = bw_partfile_put_row(ctx, db, rec->key, bw_buf_view(buf), rec->text);
    }
    for (uint32_t i = 0; st == BW_OK && i < w->nscrubs; i++)
        st = bw_partfile_scrub(ctx, db, &w->scrubs[i]);
    if (st == BW_OK && w->segments_changed) {
        uint32_t n = w->next->nsegs, m = w->next->nmerges;
        bw_part_segment *list = bw_arena_calloc(ctx, n, sizeof *list);
        bw_part_segment *merges = bw_arena_calloc(ctx, m, sizeof *merges);
        if (!list || !merges)
            return BW_ENOMEM;
        for (uint32_t i = 0; i < n; i++)
            list[i] = w->next->segs[i].p;
        for (uint32_t i = 0; i < m; i++)
            merges[i] = w->next->merges[i].s.p;
        st = bw_partfile_put_segments(ctx, db, list, n, merges, m);
    }
    if (st == BW_OK)
        st = bw_partfile_put_state(ctx, db, &w->next->state);
    if (st == BW_OK && tx != 0)
        st = bw_partfile_unstage(ctx, db, tx);
    return st;
}

bw_status bw_partition_apply(bw_ctx *ctx, const bw_prepared *w, uint64_t tx)
{
    bw_db *db;
    bw_status st = bw_pool_get(ctx, w->part, &db);
    if (st != BW_OK)
        return st;
    bw_buf buf = {0};
    st = bw_db_begin(ctx, db);
    if (st == BW_OK)
        st = apply_all(ctx, db, w, tx, &buf);
    if (st == BW_OK)
        st = bw_db_commit(ctx, db);
    else
        bw_db_rollback(db);
    if (st == BW_OK)
        bw_db_maybe_checkpoint(db);
    bw_buf_clear(&buf);
    bw_pool_put(w->part);
    return st;
}
