/* Reads a partition's file into memory (store/partfile.h), and finishes what a crash
 * left in it: staged rows whose transaction has a record are applied by the same code
 * that a write uses, the others are dropped (when the disk lets us).
 *
 * Rows keep their order and their segments; ordinals are new and without gaps, which
 * no answer depends on. Nothing read is trusted: counts are compared with the marks. */
#include "part.h"

#include <stdlib.h>

typedef struct loader {
    bw_partition *p;
    bw_snapshot *s;  /* being filled; nrows and live come last */
    uint32_t *slots; /* found so far, by segment */
    bw_bitmap left_out; /* heap: rows of no merge, by ordinal */
    bw_dense *dense;
} loader;

static bw_status damaged(bw_ctx *ctx, const char *what)
{
    return bw_fail(ctx, BW_ECORRUPT, "store: a partition's %s do not fit its marks",
                   what);
}

/* The block that takes the next vector of the segment. */
static bw_status target(bw_ctx *ctx, loader *l, uint32_t v, int32_t seg,
                        bw_block_ref **out)
{
    bw_block_list *list = &l->s->vecs[v];
    bw_block_ref *last = list->n > 0 ? &list->items[list->n - 1] : NULL;
    if (!last || last->seg != seg || last->n == last->b->m->cap) {
        uint32_t cap = seg >= 0 ? l->s->segs[seg].p.slots : 16;
        if (seg < 0 && last && last->seg == seg)
            cap = last->b->m->cap < 8192 ? 2 * last->b->m->cap : 16384;
        bw_matrix *m = bw_matrix_new(&l->p->specs[v], cap);
        bw_block *b = m ? bw_block_new(m) : NULL;
        if (!b)
            return bw_fail_nomem(ctx);
        bw_status st = bw_block_list_put(ctx, list, (bw_block_ref){b, 0, seg});
        if (st != BW_OK)
            return st;
    }
    *out = &list->items[list->n - 1];
    return BW_OK;
}

static bw_status load_vectors(bw_ctx *ctx, loader *l, const bw_point_id *id,
                              uint32_t ord, int32_t seg)
{
    for (uint32_t v = 0; v < l->p->nvec; v++) {
        if (!l->dense[v].data)
            continue;
        bw_block_ref *r = NULL;
        bw_status st = target(ctx, l, v, seg, &r);
        if (st != BW_OK)
            return st;
        st = bw_matrix_put(ctx, r->b->m, r->n, &l->dense[v], id);
        if (st != BW_OK)
            return st;
        r->b->ord[r->n] = ord;
        r->b->used = ++r->n;
    }
    return BW_OK;
}

/* Rows that were dead when the merge over them began. Grows with the numbering. */
static bw_status leave_out(bw_ctx *ctx, loader *l, uint32_t ord)
{
    if (ord >= l->left_out.nbits) {
        bw_bitmap more;
        if (!bw_bitmap_heap((size_t)ord * 2 + 64, &more))
            return bw_fail_nomem(ctx);
        if (l->left_out.nbits > 0)
            memcpy(more.words, l->left_out.words,
                   bw_bitmap_words(l->left_out.nbits) * sizeof *more.words);
        bw_bitmap_free(&l->left_out);
        l->left_out = more;
    }
    bw_bitmap_set(&l->left_out, ord);
    return BW_OK;
}

static bw_status load_row(bw_ctx *ctx, void *arg, int64_t key, bw_row_mark mark,
                          bw_str bytes)
{
    loader *l = arg;
    bool dead = mark != BW_ROW_LIVES;
    bw_snapshot *s = l->s;
    bw_rec *rec;
    bw_status st =
        bw_rec_decode(ctx, bytes, l->p->specs, l->p->nvec, key, &rec, l->dense);
    if (st != BW_OK)
        return st;
    int32_t seg = bw_snapshot_segment(s, key);
    if (dead != rec->skeleton || (dead && seg < 0) || key >= s->state.next_key) {
        bw_rec_release(rec);
        return damaged(ctx, "rows");
    }
    bw_point_id id = rec->id;
    st = bw_gen_reserve(ctx, s->gen, 1);
    if (st == BW_OK && !dead) {
        uint32_t there = bw_gen_find(s->gen, &id, s->gen->n);
        if (there != BW_ROW_NONE)
            st = damaged(ctx, "ids");
    }
    if (st != BW_OK || dead)
        bw_rec_release(rec);
    if (st != BW_OK)
        return st;
    uint32_t ord = dead ? bw_gen_add_dead(s->gen, id, key) : bw_gen_add(s->gen, rec);
    if (seg >= 0) {
        l->slots[seg]++;
        s->segs[seg].dead += dead;
        if (mark == BW_ROW_DEAD)
            bw_merge_kill(s, key);
        else if (mark == BW_ROW_LEFT_OUT && (st = leave_out(ctx, l, ord)) != BW_OK)
            return st;
        if (l->slots[seg] > s->segs[seg].p.slots)
            return damaged(ctx, "segments");
    } else {
        s->grow_live++;
    }
    if (!dead) {
        s->nlive++;
        s->can_expire = s->can_expire || rec->facts.expires_at_ns != 0;
        s->text_docs += rec->text.ptr ? 1 : 0;
        s->text_tokens += rec->text.ptr ? rec->ntokens : 0;
        for (uint32_t i = 0; st == BW_OK && i < rec->nsparse; i++)
            st = bw_sparse_add(ctx, s->gen->sparse[rec->sparse[i].vec], ord,
                               rec->sparse[i].indices, rec->sparse[i].values,
                               rec->sparse[i].n);
    }
    return st == BW_OK ? load_vectors(ctx, l, &id, ord, seg) : st;
}

/* A sealed block has exactly its rows: the graph is built over the whole matrix. */
static bw_status trim(bw_ctx *ctx, const bw_vector_spec *spec, bw_block_ref *r)
{
    if (r->n == r->b->m->cap)
        return BW_OK;
    bw_matrix *m = bw_matrix_new(spec, r->n);
    bw_block *b = m ? bw_block_new(m) : NULL;
    if (!b)
        return bw_fail_nomem(ctx);
    for (uint32_t i = 0; i < r->n; i++) {
        bw_status st = bw_matrix_copy(ctx, m, i, r->b->m, i);
        if (st != BW_OK) {
            bw_block_release(b);
            return st;
        }
    }
    memcpy(b->ord, r->b->ord, r->n * sizeof *b->ord);
    b->used = r->n;
    bw_block_release(r->b);
    r->b = b;
    return BW_OK;
}

typedef struct sealed {
    uint32_t vec, at, rows;
} sealed;

static int by_rows(const void *a, const void *b)
{
    const sealed *x = a, *y = b;
    if (x->rows != y->rows)
        return x->rows < y->rows ? -1 : 1;
    if (x->vec != y->vec)
        return x->vec < y->vec ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The small ones first: they have their place in memory before the big ones (place.h). */
static bw_status load_graphs(bw_ctx *ctx, loader *l)
{
    const bw_snapshot *s = l->s;
    size_t n = 0, room = 0;
    for (uint32_t v = 0; v < l->p->nvec; v++)
        room += s->vecs[v].n;
    sealed *all = bw_arena_calloc(ctx, room + 1, sizeof *all);
    if (!all)
        return BW_ENOMEM;
    for (uint32_t v = 0; v < l->p->nvec; v++)
        for (uint32_t i = 0; i < s->vecs[v].n; i++)
            if (s->vecs[v].items[i].seg >= 0)
                all[n++] = (sealed){v, i, s->vecs[v].items[i].n};
    if (n > 0)
        qsort(all, n, sizeof *all, by_rows);
    bw_status st = BW_OK;
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        bw_block_ref *r = &s->vecs[all[i].vec].items[all[i].at];
        st = trim(ctx, &l->p->specs[all[i].vec], r);
        if (st == BW_OK)
            st = bw_segment_complete(ctx, s, &s->segs[r->seg].p, all[i].vec, r->b);
    }
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        bw_block_ref *r = &s->vecs[all[i].vec].items[all[i].at];
        if (s->segs[r->seg].p.adopted)
            st = bw_builder_wait(ctx, l->p->env->builder, r->b->m);
    }
    return st;
}

/* What is known when the last row is there. */
static bw_status complete(bw_ctx *ctx, loader *l)
{
    bw_snapshot *s = l->s;
    bw_bitmap_free(&s->live); /* was made for no rows */
    if (!bw_bitmap_heap(s->gen->n, &s->live))
        return bw_fail_nomem(ctx);
    s->nrows = s->gen->n;
    s->rows = bw_gen_rows(s->gen);
    for (uint32_t i = 0; i < s->nrows; i++)
        if (s->rows->recs[i])
            bw_bitmap_set(&s->live, i);
    return bw_merge_load(ctx, s, &l->left_out);
}

static bw_status load_rows(bw_ctx *ctx, bw_partition *p, bw_db *db, bw_snapshot **out)
{
    bw_part_state state;
    bw_part_segment *segs = NULL;
    uint32_t nsegs = 0, nmerges = 0;
    bw_part_segment *merges = NULL;
    bw_status st = bw_partfile_state(ctx, db, &state);
    if (st == BW_OK)
        st = bw_partfile_segments(ctx, db, &segs, &nsegs, &merges, &nmerges);
    if (st == BW_OK && nmerges > nsegs)
        st = damaged(ctx, "merges");
    if (st != BW_OK)
        return st;
    loader l = {.p = p};
    l.slots = bw_arena_calloc(ctx, nsegs, sizeof *l.slots);
    l.dense = bw_arena_calloc(ctx, p->nvec, sizeof *l.dense);
    bw_gen *gen = bw_gen_new(p->specs, p->nvec);
    bw_snapshot *s = gen ? bw_snapshot_new(p, gen, 0, nsegs) : NULL;
    bw_gen_release(gen);
    if (!l.slots || !l.dense || !s) {
        bw_snapshot_release(s);
        return bw_fail_nomem(ctx);
    }
    l.s = s;
    s->state = state;
    s->nsegs = nsegs;
    for (uint32_t i = 0; i < nsegs; i++)
        s->segs[i].p = segs[i];
    for (uint32_t i = 0; i < nmerges; i++)
        s->merges[i].s.p = merges[i];
    s->nmerges = nmerges;
    st = bw_partfile_rows(ctx, db, 0, INT64_MAX, load_row, &l);
    for (uint32_t i = 0; st == BW_OK && i < nsegs; i++)
        if (l.slots[i] != segs[i].slots || segs[i].slots == 0)
            st = damaged(ctx, "segments");
    if (st == BW_OK)
        st = load_graphs(ctx, &l);
    if (st == BW_OK)
        st = complete(ctx, &l);
    bw_bitmap_free(&l.left_out);
    if (st != BW_OK)
        bw_snapshot_release(s);
    else
        *out = s;
    return st;
}

/* ---- staged transactions ---- */

typedef struct staged {
    bw_partition *p;
    const bw_snapshot *s;
    bw_changes changes;
    uint32_t *kills;
    uint32_t ckills, cadds;
} staged;

static void *grow(bw_ctx *ctx, void *list, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return list;
    uint32_t bigger = *cap ? 2 * *cap : 16;
    void *out = bw_arena_grow(ctx, list, *cap * size, bigger * size);
    if (out)
        *cap = bigger;
    return out;
}

static bw_status staged_row(bw_ctx *ctx, void *arg, int64_t kill, bw_str bytes)
{
    staged *t = arg;
    if (kill != 0) {
        uint32_t ord = bw_gen_find_key(t->s->gen, kill, t->s->nrows);
        if (ord == BW_ROW_NONE || !bw_bitmap_get(&t->s->live, ord))
            return damaged(ctx, "staged rows");
        t->kills = grow(ctx, t->kills, t->changes.nkills, &t->ckills, sizeof *t->kills);
        if (!t->kills)
            return BW_ENOMEM;
        t->kills[t->changes.nkills++] = ord;
        return BW_OK;
    }
    bw_str copy;
    bw_status st = bw_arena_str(ctx, bytes, &copy);
    bw_dense *dense = bw_arena_calloc(ctx, t->p->nvec, sizeof *dense);
    if (st != BW_OK || !dense)
        return BW_ENOMEM;
    t->changes.adds = grow(ctx, t->changes.adds, t->changes.nadds, &t->cadds,
                           sizeof *t->changes.adds);
    if (!t->changes.adds)
        return BW_ENOMEM;
    bw_rec *rec;
    st = bw_rec_decode(ctx, copy, t->p->specs, t->p->nvec, 0, &rec, dense);
    if (st != BW_OK)
        return st;
    t->changes.adds[t->changes.nadds++] = (bw_add){rec, dense};
    return BW_OK;
}

/* Applies one committed transaction to the file and to *s. */
static bw_status finish_staged(bw_ctx *ctx, bw_partition *p, uint64_t tx,
                               bw_snapshot **s)
{
    staged t = {.p = p, .s = *s};
    bw_db *db;
    bw_status st = bw_pool_get(ctx, p, &db);
    if (st != BW_OK)
        return st;
    st = bw_partfile_staged_rows(ctx, db, tx, staged_row, &t);
    bw_pool_put(p);
    if (st != BW_OK) {
        for (uint32_t i = 0; i < t.changes.nadds; i++)
            bw_rec_release(t.changes.adds[i].rec);
        return st;
    }
    t.changes.kills = t.kills;
    bw_prepared w = {0};
    st = bw_partition_prepare(ctx, *s, &t.changes, &w);
    if (st == BW_OK)
        st = bw_partition_apply(ctx, &w, tx);
    if (st != BW_OK) {
        bw_partition_abort(&w);
        return st;
    }
    bw_snapshot_release(*s);
    *s = w.next;
    return BW_OK;
}

static bw_status settle(bw_ctx *ctx, bw_partition *p, const uint64_t *txs, size_t ntxs,
                        const uint64_t *committed, size_t ncommitted, bw_snapshot **s)
{
    for (size_t i = 0; i < ntxs; i++) {
        bool has_record = false;
        for (size_t j = 0; j < ncommitted; j++)
            has_record = has_record || committed[j] == txs[i];
        if (has_record) {
            bw_status st = finish_staged(ctx, p, txs[i], s);
            if (st != BW_OK)
                return st;
        } else if (bw_partition_unstage(ctx, p, txs[i]) != BW_OK) {
            /* They mean nothing, and a full disk is no reason not to read. */
            bw_log(BW_LOG_WARN, "partition: rows of a refused write stay in the file");
        }
    }
    return BW_OK;
}

/* A segment, or one in the making. */
static bool is_wanted(const void *arg, uint32_t no)
{
    const bw_snapshot *s = arg;
    for (uint32_t i = 0; i < s->nsegs; i++)
        if (s->segs[i].p.no == no)
            return true;
    for (uint32_t i = 0; i < s->nmerges; i++)
        if (s->merges[i].s.p.no == no)
            return true;
    return false;
}

bw_status bw_partition_load(bw_ctx *ctx, bw_partition *p, const bw_index_spec *indexes,
                            uint32_t nindexes, const uint64_t *committed,
                            size_t ncommitted, bw_snapshot **out)
{
    bw_db *db;
    bw_snapshot *s = NULL;
    uint64_t *txs = NULL;
    size_t ntxs = 0;
    bw_status st = bw_pool_get(ctx, p, &db);
    if (st != BW_OK)
        return st;
    st = load_rows(ctx, p, db, &s);
    if (st == BW_OK)
        st = bw_partfile_staged(ctx, db, &txs, &ntxs);
    bw_pool_put(p);
    if (st == BW_OK)
        st = bw_snapshot_indexes(ctx, s, indexes, nindexes, NULL, (bw_str){NULL, 0},
                                 &s->indexes);
    if (st == BW_OK)
        st = settle(ctx, p, txs, ntxs, committed, ncommitted, &s);
    if (st != BW_OK) {
        bw_snapshot_release(s);
        return st;
    }
    bw_builder_sweep(ctx, p->env->builder, p->id.number, is_wanted, s);
    *out = s;
    return BW_OK;
}
