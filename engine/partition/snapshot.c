/* Snapshots: what a reader sees, and the copy that the writer changes (part.h).
 * Leaves out searching (search.c, text.c). */
#include "../kernels/typed.h"
#include "part.h"

#include <stdlib.h>

static void id_list_release(bw_id_list *l)
{
    if (l && atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) == 1)
        bw_free(l);
}

void bw_snapshot_acquire(bw_snapshot *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

void bw_snapshot_release(bw_snapshot *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t v = 0; s->vecs && v < s->part->nvec; v++) {
        for (uint32_t i = 0; i < s->vecs[v].n; i++)
            bw_block_release(s->vecs[v].items[i].b);
        bw_free(s->vecs[v].items);
    }
    bw_free(s->vecs);
    bw_free(s->segs);
    for (uint32_t i = 0; i < s->nmerges; i++)
        bw_merge_clear(&s->merges[i], s->part->nvec);
    bw_free(s->merges);
    bw_index_set_release(s->indexes);
    id_list_release(atomic_load_explicit(&s->by_id, memory_order_acquire));
    id_list_release(s->older);
    bw_bitmap_free(&s->live);
    bw_gen_release(s->gen);
    bw_partition_release(s->part);
    bw_free_vectors(s);
}

bw_status bw_block_list_put(bw_ctx *ctx, bw_block_list *l, bw_block_ref ref)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 8;
        bw_block_ref *items = bw_realloc(l->items, cap * sizeof *items);
        if (!items) {
            bw_block_release(ref.b);
            return bw_fail_nomem(ctx);
        }
        l->items = items;
        l->cap = cap;
    }
    l->items[l->n++] = ref;
    return BW_OK;
}

void bw_block_list_range(const bw_block_list *l, int32_t first, int32_t last,
                         uint32_t *from, uint32_t *to)
{
    uint32_t i = 0; /* −1 as an unsigned number is the greatest */
    while (i < l->n && (uint32_t)l->items[i].seg < (uint32_t)first)
        i++;
    *from = i;
    while (i < l->n && (uint32_t)l->items[i].seg <= (uint32_t)last)
        i++;
    *to = i;
}

bw_snapshot *bw_snapshot_new(bw_partition *p, bw_gen *gen, uint32_t nrows,
                             uint32_t nsegs)
{
    bw_snapshot *s = bw_alloc_vectors(sizeof *s); /* zeroed, on a line of its own */
    if (!s)
        return NULL;
    atomic_init(&s->refs, 1);
    atomic_init(&s->by_id, NULL);
    s->part = p;
    bw_partition_acquire(p);
    s->gen = gen;
    bw_gen_acquire(gen);
    s->nrows = nrows;
    s->vecs = bw_calloc(p->nvec, sizeof *s->vecs);
    s->segs = bw_calloc((size_t)nsegs + 1, sizeof *s->segs); /* one to be sealed */
    s->merges = bw_calloc((size_t)nsegs + 2, sizeof *s->merges);
    if (!s->vecs || !s->segs || !s->merges || !bw_bitmap_heap(nrows, &s->live)) {
        bw_snapshot_release(s);
        return NULL;
    }
    return s;
}

bw_status bw_snapshot_draft(bw_ctx *ctx, const bw_snapshot *s, uint32_t nrows,
                            bw_snapshot **out)
{
    bw_snapshot *d = bw_snapshot_new(s->part, s->gen, nrows, s->nsegs);
    if (!d)
        return bw_fail_nomem(ctx);
    d->state = s->state;
    d->nlive = s->nlive;
    d->grow_live = s->grow_live;
    d->can_expire = s->can_expire;
    d->text_docs = s->text_docs;
    d->text_tokens = s->text_tokens;
    if (s->live.nbits > 0)
        memcpy(d->live.words, s->live.words,
               bw_bitmap_words(s->live.nbits) * sizeof(uint64_t));
    d->nsegs = s->nsegs;
    if (s->nsegs > 0)
        memcpy(d->segs, s->segs, s->nsegs * sizeof *s->segs);
    for (; d->nmerges < s->nmerges; d->nmerges++) {
        bw_status st = bw_merge_copy(ctx, &s->merges[d->nmerges], s->part->nvec,
                                     &d->merges[d->nmerges]);
        if (st != BW_OK) {
            bw_snapshot_release(d);
            return st;
        }
    }
    d->indexes = s->indexes;
    bw_index_set_acquire(d->indexes);
    d->rows = bw_gen_rows(s->gen);
    d->older = atomic_load_explicit(&s->by_id, memory_order_acquire);
    if (!d->older)
        d->older = s->older;
    if (d->older)
        atomic_fetch_add_explicit(&d->older->refs, 1, memory_order_relaxed);
    for (uint32_t v = 0; v < s->part->nvec; v++) {
        for (uint32_t i = 0; i < s->vecs[v].n; i++) {
            bw_block_ref ref = s->vecs[v].items[i];
            bw_block_acquire(ref.b);
            bw_status st = bw_block_list_put(ctx, &d->vecs[v], ref);
            if (st != BW_OK) {
                bw_snapshot_release(d);
                return st;
            }
        }
    }
    *out = d;
    return BW_OK;
}

/* ---- renumbering ---- */

/* Rows that the new generation must number: the living, and the dead slots of sealed
 * blocks (their graphs count them). */
static bw_status rows_to_keep(bw_ctx *ctx, const bw_snapshot *s, bw_bitmap *keep)
{
    bw_status st = bw_bitmap_arena(ctx, s->nrows, keep);
    if (st != BW_OK)
        return st;
    bw_bitmap_copy(keep, &s->live);
    for (uint32_t v = 0; v < s->part->nvec; v++)
        for (uint32_t i = 0; i < s->vecs[v].n; i++) {
            const bw_block_ref *r = &s->vecs[v].items[i];
            for (uint32_t j = 0; r->seg >= 0 && j < r->n; j++)
                bw_bitmap_set(keep, r->b->ord[j]);
        }
    return BW_OK;
}

/* The sealed block with the ordinals of the new generation. */
static bw_status renumber_block(bw_ctx *ctx, const bw_block_ref *r, const uint32_t *map,
                                bw_block **out)
{
    bw_matrix_acquire(r->b->m);
    bw_block *b = bw_block_new(r->b->m);
    if (!b)
        return bw_fail_nomem(ctx);
    for (uint32_t j = 0; j < r->n; j++)
        b->ord[j] = map[r->b->ord[j]];
    b->used = r->n;
    *out = b;
    return BW_OK;
}

static bw_status renumber_merges(bw_ctx *ctx, const bw_snapshot *s, const uint32_t *map,
                                 bw_snapshot *d)
{
    for (; d->nmerges < s->nmerges; d->nmerges++) {
        const bw_merge *from = &s->merges[d->nmerges];
        bw_merge *m = &d->merges[d->nmerges];
        m->s = from->s;
        m->blocks = bw_calloc(s->part->nvec, sizeof(bw_block *));
        bw_status st = m->blocks ? BW_OK : bw_fail_nomem(ctx);
        for (uint32_t v = 0; st == BW_OK && v < s->part->nvec; v++)
            if (from->blocks[v]) {
                bw_block_ref r = {from->blocks[v], from->blocks[v]->used, 0};
                st = renumber_block(ctx, &r, map, &m->blocks[v]);
            }
        if (st != BW_OK) {
            bw_merge_clear(m, s->part->nvec);
            return st;
        }
    }
    return BW_OK;
}

static bw_status renumber_vectors(bw_ctx *ctx, const bw_snapshot *s,
                                  const uint32_t *map, bw_snapshot *d)
{
    for (uint32_t v = 0; v < s->part->nvec; v++) {
        const bw_block_list *l = &s->vecs[v];
        uint32_t i = 0;
        for (; i < l->n && l->items[i].seg >= 0; i++) {
            bw_block *b = NULL;
            bw_status st = renumber_block(ctx, &l->items[i], map, &b);
            if (st == BW_OK)
                st = bw_block_list_put(
                    ctx, &d->vecs[v],
                    (bw_block_ref){b, l->items[i].n, l->items[i].seg});
            if (st != BW_OK)
                return st;
        }
        bw_block *b = NULL;
        bw_status st = bw_snapshot_gather(ctx, s, v, l->items + i, l->n - i, &s->live, &b);
        if (st == BW_OK && b) {
            for (uint32_t j = 0; j < b->used; j++)
                b->ord[j] = map[b->ord[j]];
            st = bw_block_list_put(ctx, &d->vecs[v], (bw_block_ref){b, b->used, -1});
        }
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

static bw_status renumber_rows(bw_ctx *ctx, const bw_snapshot *s, const bw_bitmap *keep,
                               bw_gen *gen, uint32_t *map)
{
    bw_status st = bw_gen_reserve(ctx, gen, (uint32_t)bw_bitmap_count(keep));
    if (st != BW_OK)
        return st;
    const bw_row_table *t = s->rows;
    for (size_t i = bw_bitmap_next(keep, 0); i < keep->nbits;
         i = bw_bitmap_next(keep, i + 1)) {
        if (!bw_bitmap_get(&s->live, i)) {
            map[i] = bw_gen_add_dead(gen, t->ids[i], t->keys[i]);
            continue;
        }
        bw_rec *rec = t->recs[i];
        bw_rec_acquire(rec);
        map[i] = bw_gen_add(gen, rec);
        for (uint32_t v = 0; st == BW_OK && v < s->part->nvec; v++) {
            const bw_rec_sparse *sp = gen->sparse[v] ? bw_rec_sparse_get(rec, v) : NULL;
            if (sp)
                st = bw_sparse_add(ctx, gen->sparse[v], map[i], sp->indices, sp->values,
                                   sp->n);
        }
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

bw_status bw_snapshot_renumber(bw_ctx *ctx, const bw_snapshot *s, bw_snapshot **out)
{
    bw_bitmap keep;
    bw_snapshot *d = NULL;
    bw_gen *gen = NULL;
    uint32_t *map = NULL;
    bw_status st = rows_to_keep(ctx, s, &keep);
    if (st != BW_OK)
        return st;
    gen = bw_gen_new(s->part->specs, s->part->nvec);
    map = bw_calloc(s->nrows, sizeof *map);
    if (!gen || !map) {
        st = bw_fail_nomem(ctx);
        goto out;
    }
    st = renumber_rows(ctx, s, &keep, gen, map);
    if (st != BW_OK)
        goto out;
    d = bw_snapshot_new(s->part, gen, gen->n, s->nsegs);
    if (!d) {
        st = bw_fail_nomem(ctx);
        goto out;
    }
    d->state = s->state;
    d->nlive = s->nlive;
    d->grow_live = s->grow_live;
    d->can_expire = s->can_expire;
    d->text_docs = s->text_docs;
    d->text_tokens = s->text_tokens;
    d->nsegs = s->nsegs;
    if (s->nsegs > 0)
        memcpy(d->segs, s->segs, s->nsegs * sizeof *s->segs);
    d->rows = bw_gen_rows(gen);
    for (size_t i = bw_bitmap_next(&s->live, 0); i < s->nrows;
         i = bw_bitmap_next(&s->live, i + 1))
        bw_bitmap_set(&d->live, map[i]);
    st = renumber_vectors(ctx, s, map, d);
    if (st == BW_OK)
        st = renumber_merges(ctx, s, map, d);
out:
    bw_free(map);
    bw_gen_release(gen);
    if (st != BW_OK)
        bw_snapshot_release(d);
    else
        *out = d;
    return st;
}

/* ---- reading ---- */

size_t bw_snapshot_nrows(const bw_snapshot *s)
{
    return s->nrows;
}

size_t bw_snapshot_nlive(const bw_snapshot *s)
{
    return s->nlive;
}

const bw_bitmap *bw_snapshot_live(const bw_snapshot *s)
{
    return &s->live;
}

bw_status bw_snapshot_visible(bw_ctx *ctx, const bw_snapshot *s, int64_t now_ns,
                              const bw_bitmap **out)
{
    if (!s->can_expire) {
        *out = &s->live;
        return BW_OK;
    }
    bw_bitmap *b = bw_arena_alloc(ctx, sizeof *b);
    if (!b)
        return BW_ENOMEM;
    bw_status st = bw_bitmap_arena(ctx, s->nrows, b);
    if (st != BW_OK)
        return st;
    bw_bitmap_copy(b, &s->live);
    for (size_t i = bw_bitmap_next(b, 0); i < s->nrows; i = bw_bitmap_next(b, i + 1)) {
        int64_t at = s->rows->recs[i]->facts.expires_at_ns;
        if (at != 0 && at <= now_ns)
            bw_bitmap_unset(b, i);
    }
    *out = b;
    return BW_OK;
}

void bw_snapshot_row(const bw_snapshot *s, uint32_t row, bw_row *out)
{
    bw_require(row < s->nrows);
    const bw_rec *rec = s->rows->recs[row];
    if (!rec) { /* dead, and its data are gone */
        *out = (bw_row){.id = s->rows->ids[row]};
        return;
    }
    *out = (bw_row){rec->id, rec->version, rec->payload, rec->text, rec->facts};
}

const bw_point_id *bw_snapshot_id(const bw_snapshot *s, uint32_t row)
{
    return &s->rows->ids[row];
}

bool bw_snapshot_find(const bw_snapshot *s, const bw_point_id *id, uint32_t *row)
{
    uint32_t ord = bw_gen_find(s->gen, id, s->nrows);
    if (ord == BW_ROW_NONE || !bw_bitmap_get(&s->live, ord))
        return false;
    *row = ord;
    return true;
}

static int by_id_cmp(const void *a, const void *b, void *arg)
{
    const bw_point_id *ids = arg;
    return bw_point_id_cmp(&ids[*(const uint32_t *)a], &ids[*(const uint32_t *)b]);
}

/* The living rows from `from` on, sorted, appended to l. */
static void sort_rows(const bw_snapshot *s, uint32_t from, bw_id_list *l)
{
    uint32_t start = l->n;
    bool sorted = true;
    for (size_t i = bw_bitmap_next(&s->live, from); i < s->nrows;
         i = bw_bitmap_next(&s->live, i + 1)) {
        if (l->n > start)
            sorted = sorted && bw_point_id_cmp(&s->rows->ids[l->rows[l->n - 1]],
                                               &s->rows->ids[i]) < 0;
        l->rows[l->n++] = (uint32_t)i;
    }
    if (!sorted)
        qsort_r(l->rows + start, l->n - start, sizeof *l->rows, by_id_cmp,
                s->rows->ids);
}

/* No row comes to life again, so an older list without its dead, merged with the rows
 * that came since, is the new one: a write does not make the next scroll sort all. */
static void merge_rows(const bw_snapshot *s, const bw_id_list *older, bw_id_list *l)
{
    const bw_point_id *ids = s->rows->ids;
    uint32_t fresh = 0, nfresh, k = 0;
    sort_rows(s, older->nrows, l);
    nfresh = l->n;
    memmove(l->rows + s->nlive - nfresh, l->rows, nfresh * sizeof *l->rows);
    const uint32_t *new_rows = l->rows + s->nlive - nfresh;
    for (uint32_t i = 0; i < older->n; i++) {
        if (!bw_bitmap_get(&s->live, older->rows[i]))
            continue;
        while (fresh < nfresh &&
               bw_point_id_cmp(&ids[new_rows[fresh]], &ids[older->rows[i]]) < 0)
            l->rows[k++] = new_rows[fresh++];
        l->rows[k++] = older->rows[i];
    }
    while (fresh < nfresh)
        l->rows[k++] = new_rows[fresh++];
    l->n = k;
}

bw_status bw_snapshot_by_id(bw_ctx *ctx, const bw_snapshot *s, const uint32_t **rows,
                            size_t *n)
{
    bw_snapshot *cache = (bw_snapshot *)(uintptr_t)s; /* by_id alone is not immutable */
    bw_id_list *list = atomic_load_explicit(&cache->by_id, memory_order_acquire);
    if (!list) {
        list = bw_alloc(sizeof *list + ((size_t)s->nlive + 1) * sizeof list->rows[0]);
        if (!list)
            return bw_fail_nomem(ctx);
        atomic_init(&list->refs, 1);
        list->n = 0;
        list->nrows = s->nrows;
        if (s->older)
            merge_rows(s, s->older, list);
        else
            sort_rows(s, 0, list);
        assert(list->n == s->nlive);
        bw_id_list *none = NULL;
        if (!atomic_compare_exchange_strong_explicit(&cache->by_id, &none, list,
                                                     memory_order_acq_rel,
                                                     memory_order_acquire)) {
            id_list_release(list); /* another reader was first */
            list = none;
        }
    }
    *rows = list->rows;
    *n = list->n;
    return BW_OK;
}

/* The block and place of a row's vector. */
static const bw_block_ref *vector_find(const bw_snapshot *s, uint32_t vec, uint32_t row,
                                       uint32_t *slot)
{
    const bw_block_list *l = &s->vecs[vec];
    uint32_t lo = 0, hi = l->n;
    while (lo < hi) { /* the first block whose last row is not before */
        uint32_t mid = lo + (hi - lo) / 2;
        const bw_block_ref *r = &l->items[mid];
        if (r->n == 0 || r->b->ord[r->n - 1] < row)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == l->n)
        return NULL;
    const bw_block_ref *r = &l->items[lo];
    uint32_t a = 0, b = r->n;
    while (a < b) {
        uint32_t mid = a + (b - a) / 2;
        if (r->b->ord[mid] < row)
            a = mid + 1;
        else
            b = mid;
    }
    if (a == r->n || r->b->ord[a] != row)
        return NULL;
    *slot = a;
    return r;
}

bool bw_snapshot_has_dense(const bw_snapshot *s, uint32_t vec, uint32_t row)
{
    uint32_t slot;
    return vector_find(s, vec, row, &slot) != NULL;
}

bw_status bw_snapshot_stored(bw_ctx *ctx, const bw_snapshot *s, uint32_t vec,
                             uint32_t row, bw_dense *out)
{
    uint32_t slot;
    const bw_block_ref *r = vector_find(s, vec, row, &slot);
    *out = (bw_dense){NULL, 0, false};
    return r ? bw_matrix_get(ctx, r->b->m, slot, out) : BW_OK;
}

bw_status bw_snapshot_dense(bw_ctx *ctx, const bw_snapshot *s, uint32_t vec,
                            uint32_t row, const float **out)
{
    const bw_vector_spec *spec = &s->part->specs[vec];
    bw_dense v;
    bw_status st = bw_snapshot_stored(ctx, s, vec, row, &v);
    *out = v.data;
    if (st != BW_OK || !v.data || spec->dtype == BW_DTYPE_F32)
        return st;
    float *values = bw_arena_alloc(ctx, spec->dim * sizeof *values);
    if (!values)
        return BW_ENOMEM;
    bw_decode_rows(spec->dtype, v.data, &v.scale, 1, spec->dim, values);
    *out = values;
    return BW_OK;
}

bool bw_snapshot_sparse(const bw_snapshot *s, uint32_t vec, uint32_t row,
                        bw_vector *out)
{
    const bw_rec *rec = s->rows->recs[row];
    const bw_rec_sparse *sp = rec ? bw_rec_sparse_get(rec, vec) : NULL;
    if (!sp)
        return false;
    *out = (bw_vector){s->part->specs[vec].name, sp->values, sp->indices, sp->n, true};
    return true;
}

bw_status bw_snapshot_has_vector(bw_ctx *ctx, const bw_snapshot *s, uint32_t vec,
                                 bw_bitmap *out)
{
    bw_status st = bw_bitmap_arena(ctx, s->nrows, out);
    if (st != BW_OK)
        return st;
    if (!s->part->specs[vec].sparse) {
        for (uint32_t i = 0; i < s->vecs[vec].n; i++) {
            const bw_block_ref *r = &s->vecs[vec].items[i];
            for (uint32_t j = 0; j < r->n; j++)
                bw_bitmap_set(out, r->b->ord[j]);
        }
        bw_bitmap_and(out, &s->live);
        return BW_OK;
    }
    for (size_t i = bw_bitmap_next(&s->live, 0); i < s->nrows;
         i = bw_bitmap_next(&s->live, i + 1))
        if (bw_rec_sparse_get(s->rows->recs[i], vec))
            bw_bitmap_set(out, i);
    return BW_OK;
}

const bw_payload_index *bw_index_set_find(const bw_index_set *set, bw_str field)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (bw_str_eq(bw_payload_index_field(set->entries[i]->ix), field))
            return set->entries[i]->ix;
    return NULL;
}

const bw_payload_index *bw_snapshot_payload_index(const bw_snapshot *s, bw_str field)
{
    return bw_index_set_find(s->indexes, field);
}

void bw_snapshot_index_rdlock(const bw_snapshot *s)
{
    pthread_rwlock_rdlock(&s->gen->index_lock);
}

void bw_snapshot_index_unlock(const bw_snapshot *s)
{
    pthread_rwlock_unlock(&s->gen->index_lock);
}
