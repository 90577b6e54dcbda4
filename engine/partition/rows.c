/* Rows of one partition in memory (rows.h).
 *
 * How readers go without locks: arrays only grow by copying into a larger set, which
 * is published by a release store before any slot of the id map names a row in it;
 * the old set is kept until the generation ends (sizes double, so all of them
 * together take less than twice the newest). */
#include "rows.h"

#include <sodium.h>

enum { TABLE_MIN = 64 };

bw_block *bw_block_new(bw_matrix *m)
{
    bw_block *b = bw_calloc(1, sizeof *b);
    if (b) {
        atomic_init(&b->refs, 1);
        b->m = m;
        b->ord = bw_calloc(m->cap, sizeof *b->ord);
        if (b->ord)
            return b;
    }
    bw_free(b);
    bw_matrix_release(m);
    return NULL;
}

void bw_block_acquire(bw_block *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
}

void bw_block_release(bw_block *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    bw_matrix_release(b->m);
    bw_free(b->ord);
    bw_free(b);
}

bw_index_set *bw_index_set_new(uint32_t n)
{
    bw_index_set *s = bw_calloc(1, sizeof *s + n * sizeof s->entries[0]);
    if (!s)
        return NULL;
    atomic_init(&s->refs, 1);
    s->n = n;
    return s;
}

void bw_index_set_acquire(bw_index_set *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

void bw_index_set_release(bw_index_set *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < s->n; i++) {
        bw_index_entry *e = s->entries[i];
        if (e && atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) == 1) {
            bw_payload_index_free(e->ix);
            bw_free(e);
        }
    }
    bw_free(s);
}

/* ---- the table by ordinal ---- */

static void row_table_free(bw_row_table *t)
{
    if (!t)
        return;
    bw_free(t->ids);
    bw_free(t->keys);
    bw_free(t->recs);
    bw_free(t->prev);
    bw_free(t);
}

static bw_row_table *row_table_new(uint32_t cap)
{
    bw_row_table *t = bw_calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->cap = cap;
    t->ids = bw_calloc(cap, sizeof *t->ids);
    t->keys = bw_calloc(cap, sizeof *t->keys);
    t->recs = bw_calloc(cap, sizeof *t->recs);
    t->prev = bw_calloc(cap, sizeof *t->prev);
    if (!t->ids || !t->keys || !t->recs || !t->prev) {
        row_table_free(t);
        return NULL;
    }
    return t;
}

static bw_id_table *id_table_new(uint32_t size)
{
    bw_id_table *t = bw_calloc(1, sizeof *t + (size_t)size * sizeof t->slots[0]);
    if (t)
        t->mask = size - 1;
    return t;
}

/* One secret for the process: hostile ids cannot be chosen to meet in one place. */
static unsigned char hash_key[crypto_shorthash_KEYBYTES];
static pthread_once_t hash_once = PTHREAD_ONCE_INIT;

static void hash_init(void)
{
    randombytes_buf(hash_key, sizeof hash_key);
}

uint32_t bw_id_hash(const bw_point_id *id)
{
    unsigned char in[17], h[crypto_shorthash_BYTES];
    memcpy(in, &id->hi, 8);
    memcpy(in + 8, &id->lo, 8);
    in[16] = (unsigned char)id->is_uuid;
    crypto_shorthash(h, in, sizeof in, hash_key);
    uint32_t out;
    memcpy(&out, h, sizeof out);
    return out;
}

static bool same_id(const bw_point_id *a, const bw_point_id *b)
{
    return a->lo == b->lo && a->hi == b->hi && a->is_uuid == b->is_uuid;
}

/* The slot that holds the id, or the free one where it belongs. */
static _Atomic uint32_t *id_slot(const bw_gen *g, bw_id_table *t, const bw_point_id *id,
                                 uint32_t hash, uint32_t *value)
{
    for (uint32_t i = hash & t->mask;; i = (i + 1) & t->mask) {
        uint32_t v = atomic_load_explicit(&t->slots[i], memory_order_acquire);
        if (v == 0 || same_id(&bw_gen_rows(g)->ids[v - 1], id)) {
            *value = v;
            return &t->slots[i];
        }
    }
}

bw_gen *bw_gen_new(const bw_vector_spec *specs, uint32_t nvec)
{
    pthread_once(&hash_once, hash_init);
    bw_gen *g = bw_calloc(1, sizeof *g);
    if (!g)
        return NULL;
    atomic_init(&g->refs, 1);
    g->nvec = nvec;
    bw_row_table *rows = row_table_new(TABLE_MIN);
    bw_id_table *ids = id_table_new(2 * TABLE_MIN);
    atomic_init(&g->rows, rows);
    atomic_init(&g->ids, ids);
    g->sparse = bw_calloc(nvec, sizeof(bw_sparse_index *));
    bool good = rows && ids && g->sparse;
    for (uint32_t v = 0; good && v < nvec; v++)
        if (specs[v].sparse && !(g->sparse[v] = bw_sparse_new()))
            good = false;
    bw_rwlock_init(&g->index_lock);
    bw_rwlock_init(&g->words_lock);
    pthread_mutex_init(&g->words_busy, NULL);
    if (!good) {
        bw_gen_release(g);
        return NULL;
    }
    return g;
}

void bw_gen_acquire(bw_gen *g)
{
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
}

void bw_gen_release(bw_gen *g)
{
    if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1)
        return;
    bw_row_table *t = bw_gen_rows(g);
    const bool large = g->n >= BW_TRIM_ROWS; /* half of them were dead, or all go */
    for (uint32_t i = 0; t && i < g->n; i++)
        bw_rec_release(t->recs[i]);
    while (t) {
        bw_row_table *older = t->older;
        row_table_free(t);
        t = older;
    }
    bw_id_table *m = atomic_load_explicit(&g->ids, memory_order_relaxed);
    while (m) {
        bw_id_table *older = m->older;
        bw_free(m);
        m = older;
    }
    for (uint32_t v = 0; g->sparse && v < g->nvec; v++)
        bw_sparse_free(g->sparse[v]);
    bw_free(g->sparse);
    bw_words_free(g->words);
    pthread_rwlock_destroy(&g->index_lock);
    pthread_rwlock_destroy(&g->words_lock);
    pthread_mutex_destroy(&g->words_busy);
    bw_free(g);
    if (large)
        bw_memory_give_back();
}

static bool grow_rows(bw_gen *g, uint32_t need)
{
    bw_row_table *old = bw_gen_rows(g);
    if (need <= old->cap)
        return true;
    uint32_t cap = old->cap;
    while (cap < need)
        cap = cap > UINT32_MAX / 2 ? UINT32_MAX : 2 * cap;
    bw_row_table *t = row_table_new(cap);
    if (!t)
        return false;
    memcpy(t->ids, old->ids, g->n * sizeof *t->ids);
    memcpy(t->keys, old->keys, g->n * sizeof *t->keys);
    memcpy(t->recs, old->recs, g->n * sizeof *t->recs);
    memcpy(t->prev, old->prev, g->n * sizeof *t->prev);
    t->older = old;
    atomic_store_explicit(&g->rows, t, memory_order_release);
    return true;
}

static bool grow_ids(bw_gen *g, uint32_t more)
{
    bw_id_table *old = atomic_load_explicit(&g->ids, memory_order_relaxed);
    uint64_t need = ((uint64_t)old->used + more) * 3 / 2,
             size = (uint64_t)old->mask + 1;
    if (need <= size)
        return true;
    while (size < need)
        size *= 2;
    if (size > UINT32_MAX)
        return false;
    bw_id_table *t = id_table_new((uint32_t)size);
    if (!t)
        return false;
    for (uint64_t i = 0; i <= old->mask; i++) {
        uint32_t v = atomic_load_explicit(&old->slots[i], memory_order_relaxed),
                 free_slot;
        if (v == 0)
            continue;
        const bw_point_id *id = &bw_gen_rows(g)->ids[v - 1];
        _Atomic uint32_t *s = id_slot(g, t, id, bw_id_hash(id), &free_slot);
        atomic_store_explicit(s, v, memory_order_relaxed);
        t->used++;
    }
    t->older = old;
    atomic_store_explicit(&g->ids, t, memory_order_release);
    return true;
}

bw_status bw_gen_reserve(bw_ctx *ctx, bw_gen *g, uint32_t n)
{
    if (n > BW_ROWS_MAX - g->n)
        return bw_fail(ctx, BW_EUNAVAILABLE, "a partition holds too many rows");
    if (!grow_rows(g, g->n + n) || !grow_ids(g, n))
        return bw_fail_nomem(ctx);
    return BW_OK;
}

static uint32_t add_row(bw_gen *g, const bw_point_id *id, int64_t key, bw_rec *rec)
{
    uint32_t ord = g->n++;
    bw_row_table *t = bw_gen_rows(g);
    assert(ord < t->cap);
    t->ids[ord] = *id;
    t->keys[ord] = key;
    t->recs[ord] = rec;
    t->prev[ord] = BW_ROW_NONE;
    if (!rec)
        return ord;
    bw_id_table *m = atomic_load_explicit(&g->ids, memory_order_relaxed);
    uint32_t value;
    _Atomic uint32_t *slot = id_slot(g, m, id, bw_id_hash(id), &value);
    if (value)
        t->prev[ord] = value - 1;
    else
        m->used++;
    atomic_store_explicit(slot, ord + 1, memory_order_release);
    return ord;
}

uint32_t bw_gen_add(bw_gen *g, bw_rec *rec)
{
    return add_row(g, &rec->id, rec->key, rec);
}

uint32_t bw_gen_add_dead(bw_gen *g, bw_point_id id, int64_t key)
{
    return add_row(g, &id, key, NULL);
}

void bw_gen_undo(bw_gen *g, uint32_t ord0)
{
    bw_row_table *t = bw_gen_rows(g);
    bw_id_table *m = atomic_load_explicit(&g->ids, memory_order_relaxed);
    for (uint32_t ord = g->n; ord-- > ord0;) {
        uint32_t value;
        _Atomic uint32_t *slot =
            id_slot(g, m, &t->ids[ord], bw_id_hash(&t->ids[ord]), &value);
        /* An id that is new stays in the map, naming a row that never lives. */
        if (value == ord + 1 && t->prev[ord] != BW_ROW_NONE)
            atomic_store_explicit(slot, t->prev[ord] + 1, memory_order_release);
        /* No snapshot covers it. Its key will be another row's: with that of the row
         * before, keys still rise, and a search for that one stops there. */
        t->keys[ord] = ord0 > 0 ? t->keys[ord0 - 1] : 0;
        bw_rec_release(t->recs[ord]);
        t->recs[ord] = NULL;
    }
}

uint32_t bw_gen_find(const bw_gen *g, const bw_point_id *id, uint32_t nrows)
{
    return bw_gen_find_hashed(g, id, bw_id_hash(id), nrows);
}

uint32_t bw_gen_find_hashed(const bw_gen *g, const bw_point_id *id, uint32_t hash,
                            uint32_t nrows)
{
    bw_id_table *m = atomic_load_explicit(&g->ids, memory_order_acquire);
    uint32_t value;
    (void)id_slot(g, m, id, hash, &value);
    if (value == 0)
        return BW_ROW_NONE;
    const bw_row_table *t = bw_gen_rows(g);
    uint32_t ord = value - 1;
    while (ord != BW_ROW_NONE && ord >= nrows)
        ord = t->prev[ord];
    return ord;
}

uint32_t bw_gen_find_key(const bw_gen *g, int64_t key, uint32_t nrows)
{
    const int64_t *keys = bw_gen_rows(g)->keys;
    uint32_t lo = 0, hi = nrows;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (keys[mid] < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < nrows && keys[lo] == key ? lo : BW_ROW_NONE;
}
