/* Sparse vectors: one inverted list an index, rows rising, scored list by list.
 *
 * A query's lists are added into one array of sums in rising order of index, so a row's
 * sum is one fixed chain of roundings: the same bits in any segment, after any restart.
 * The array is one float a row (4 MB for a million rows) from the request's arena,
 * which beats merging cursors while partitions are small; a bitmap of touched rows
 * keeps the walk over the result short. Leaves out: upper bounds (WAND), compression,
 * deletes (the caller's bitmap). */
#include "index.h"
#include <sodium.h>

typedef struct posting {
    uint32_t row;
    float value;
} posting;

typedef struct list {
    posting *items;
    size_t n, cap;
} list;

typedef struct slot {
    uint32_t index, number; /* of its list, + 1; 0: free */
} slot;

struct bw_sparse_index {
    /* index -> list: open addressing, at most half full. One load of a row asks it once a
     * value, so it is no bw_map, whose entries lie three cache misses away: that was two
     * thirds of a load. */
    slot *slots;
    uint32_t bits;   /* of its size; 0: there is none yet */
    uint64_t secret; /* odd: indices come from clients */
    list *lists;
    size_t nlists, cap;
    size_t rows; /* one more than the last row added */
};

size_t bw_sparse_bytes(const bw_sparse_index *ix)
{
    size_t bytes = sizeof *ix + ix->cap * sizeof *ix->lists;
    bytes += ix->bits ? sizeof *ix->slots << ix->bits : 0;
    for (size_t i = 0; i < ix->nlists; i++)
        bytes += ix->lists[i].cap * sizeof *ix->lists[i].items;
    return bytes;
}

bw_sparse_index *bw_sparse_new(void)
{
    bw_sparse_index *ix = bw_calloc(1, sizeof *ix);
    if (!ix)
        return NULL;
    randombytes_buf(&ix->secret, sizeof ix->secret);
    ix->secret |= 1;
    return ix;
}

void bw_sparse_free(bw_sparse_index *ix)
{
    if (!ix)
        return;
    for (size_t i = 0; i < ix->nlists; i++)
        bw_free(ix->lists[i].items);
    bw_free(ix->lists);
    bw_free(ix->slots);
    bw_free(ix);
}

/* Where the index is, or would be (Dietzfelbinger et al. 1997: multiply and shift). */
static slot *slot_of(const bw_sparse_index *ix, uint32_t index)
{
    const size_t mask = ((size_t)1 << ix->bits) - 1;
    size_t i = (size_t)((index + (uint64_t)1) * ix->secret >> (64 - ix->bits));
    while (ix->slots[i].number && ix->slots[i].index != index)
        i = (i + 1) & mask;
    return &ix->slots[i];
}

/* NULL when no row has the index. */
static const list *list_get(const bw_sparse_index *ix, uint32_t index)
{
    if (ix->bits == 0)
        return NULL;
    const slot *s = slot_of(ix, index);
    return s->number ? &ix->lists[s->number - 1] : NULL;
}

static bool grow_slots(bw_sparse_index *ix)
{
    if (ix->bits > 0 && ix->nlists < (size_t)1 << (ix->bits - 1))
        return true;
    bw_sparse_index more = *ix;
    more.bits = ix->bits ? ix->bits + 1 : 7;
    more.slots = bw_calloc((size_t)1 << more.bits, sizeof *more.slots);
    if (!more.slots)
        return false;
    for (size_t i = 0; ix->bits > 0 && i < (size_t)1 << ix->bits; i++)
        if (ix->slots[i].number)
            *slot_of(&more, ix->slots[i].index) = ix->slots[i];
    bw_free(ix->slots);
    *ix = more;
    return true;
}

/* Finds or makes the list of an index. NULL: no memory. */
static list *list_put(bw_sparse_index *ix, uint32_t index)
{
    if (!grow_slots(ix))
        return NULL;
    slot *s = slot_of(ix, index);
    if (s->number)
        return &ix->lists[s->number - 1];
    if (ix->nlists == ix->cap) {
        const size_t cap = ix->cap ? 2 * ix->cap : 64;
        size_t bytes;
        if (cap > UINT32_MAX || __builtin_mul_overflow(cap, sizeof(list), &bytes))
            return NULL;
        list *grown = bw_realloc(ix->lists, bytes);
        if (!grown)
            return NULL;
        ix->lists = grown;
        ix->cap = cap;
    }
    ix->lists[ix->nlists] = (list){0};
    *s = (slot){index, (uint32_t)++ix->nlists};
    return &ix->lists[ix->nlists - 1];
}

static bool list_reserve(list *l)
{
    if (l->n < l->cap)
        return true;
    const size_t cap = l->cap ? l->cap + l->cap / 2 + 1 : 4;
    size_t bytes;
    if (__builtin_mul_overflow(cap, sizeof(posting), &bytes))
        return false;
    posting *grown = bw_realloc(l->items, bytes);
    if (!grown)
        return false;
    l->items = grown;
    l->cap = cap;
    return true;
}

bw_status bw_sparse_add(bw_ctx *ctx, bw_sparse_index *ix, uint32_t row,
                        const uint32_t *indices, const float *values, size_t n)
{
    /* A row that went back (out of order, or twice) would break every list's order. */
    if (row < ix->rows)
        return bw_fail(ctx, BW_EINTERNAL, "sparse row %u comes after row %zu", row,
                       ix->rows - 1);
    for (size_t i = 1; i < n; i++)
        if (indices[i] <= indices[i - 1])
            return bw_fail(ctx, BW_EINVALID,
                           "sparse indices are not strictly ascending");
    /* Room for all of it first: a failure leaves no half row behind. */
    const bw_arena_mark mark = bw_arena_mark_get(ctx);
    size_t *numbers = bw_arena_alloc(ctx, n * sizeof *numbers);
    bw_status st = numbers ? BW_OK : BW_ENOMEM;
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        list *l = list_put(ix, indices[i]);
        if (!l || !list_reserve(l))
            st = bw_fail_nomem(ctx);
        else
            numbers[i] = (size_t)(l - ix->lists);
    }
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        list *l = &ix->lists[numbers[i]];
        assert(l->n < l->cap);
        l->items[l->n++] = (posting){row, values[i]};
    }
    if (st == BW_OK)
        ix->rows = (size_t)row + 1;
    bw_arena_release(ctx, mark);
    return st;
}

bw_status bw_sparse_df(bw_ctx *ctx, const bw_sparse_index *ix, const uint32_t *indices,
                       size_t n, const bw_bitmap *live, uint64_t *df)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        const list *l = list_get(ix, indices[i]);
        for (size_t p = 0; l && p < l->n; p++)
            df[i] += bw_bitmap_get(live, l->items[p].row);
    }
    return BW_OK;
}

static void list_sum(const list *l, float value, const bw_bitmap *allowed, float *sums,
                     bw_bitmap *touched)
{
    for (size_t p = 0; p < l->n; p++) {
        const uint32_t row = l->items[p].row;
        if (!bw_bitmap_get(allowed, row))
            continue;
        sums[row] += value * l->items[p].value;
        bw_bitmap_set(touched, row);
    }
}

bw_status bw_sparse_search(bw_ctx *ctx, const bw_sparse_index *ix,
                           const uint32_t *indices, const float *values, size_t n,
                           const bw_bitmap *allowed, const bw_point_id *ids,
                           uint32_t part, bw_topk *out)
{
    assert(allowed != NULL);
    const size_t rows = ix->rows < allowed->nbits ? ix->rows : allowed->nbits;
    if (rows == 0 || n == 0 || out->k == 0)
        return BW_OK;
    for (size_t i = 1; i < n; i++)
        if (indices[i] <= indices[i - 1])
            return bw_fail(ctx, BW_EINVALID,
                           "sparse indices are not strictly ascending");
    const bw_arena_mark mark = bw_arena_mark_get(ctx);
    float *sums = bw_arena_calloc(ctx, rows, sizeof *sums);
    bw_bitmap touched;
    if (!sums || bw_bitmap_arena(ctx, rows, &touched) != BW_OK) {
        bw_arena_release(ctx, mark);
        return BW_ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        const list *l = list_get(ix, indices[i]);
        if (l)
            list_sum(l, values[i], allowed, sums, &touched);
    }
    for (size_t r = bw_bitmap_next(&touched, 0); r < rows;
         r = bw_bitmap_next(&touched, r + 1)) {
        const float key = sums[r];
        if (key == 0 || key != key || !bw_topk_wants(out, key))
            continue;
        const bw_candidate c = {key, part, (uint32_t)r, ids[r]};
        bw_topk_push(out, &c);
    }
    bw_arena_release(ctx, mark);
    return BW_OK;
}
