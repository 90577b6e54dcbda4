/* Plain bitmaps: sets of row ordinals. Bits past nbits stay 0 in every operation. */
#include "bitmap.h"

bw_status bw_bitmap_arena(bw_ctx *ctx, size_t nbits, bw_bitmap *out)
{
    uint64_t *words = bw_arena_calloc(ctx, bw_bitmap_words(nbits), sizeof *words);
    if (!words)
        return BW_ENOMEM;
    *out = (bw_bitmap){words, nbits};
    return BW_OK;
}

bool bw_bitmap_heap(size_t nbits, bw_bitmap *out)
{
    uint64_t *words = bw_calloc(bw_bitmap_words(nbits), sizeof *words);
    if (!words)
        return false;
    *out = (bw_bitmap){words, nbits};
    return true;
}

void bw_bitmap_free(bw_bitmap *b)
{
    if (!b)
        return;
    bw_free(b->words);
    *b = (bw_bitmap){0};
}

void bw_bitmap_fill(bw_bitmap *b)
{
    size_t n = bw_bitmap_words(b->nbits);
    if (n == 0)
        return;
    memset(b->words, 0xFF, n * sizeof *b->words);
    if (b->nbits % 64)
        b->words[n - 1] = ((uint64_t)1 << b->nbits % 64) - 1;
}

void bw_bitmap_and(bw_bitmap *a, const bw_bitmap *b)
{
    assert(a->nbits == b->nbits);
    for (size_t i = 0, n = bw_bitmap_words(a->nbits); i < n; i++)
        a->words[i] &= b->words[i];
}

void bw_bitmap_or(bw_bitmap *a, const bw_bitmap *b)
{
    assert(a->nbits == b->nbits);
    for (size_t i = 0, n = bw_bitmap_words(a->nbits); i < n; i++)
        a->words[i] |= b->words[i];
}

void bw_bitmap_andnot(bw_bitmap *a, const bw_bitmap *b)
{
    assert(a->nbits == b->nbits);
    for (size_t i = 0, n = bw_bitmap_words(a->nbits); i < n; i++)
        a->words[i] &= ~b->words[i];
}

void bw_bitmap_copy(bw_bitmap *a, const bw_bitmap *b)
{
    assert(a->nbits == b->nbits);
    size_t n = bw_bitmap_words(a->nbits);
    if (n)
        memmove(a->words, b->words, n * sizeof *a->words);
}

size_t bw_bitmap_count(const bw_bitmap *b)
{
    size_t count = 0;
    for (size_t i = 0, n = bw_bitmap_words(b->nbits); i < n; i++)
        count += (size_t)__builtin_popcountll(b->words[i]);
    return count;
}

size_t bw_bitmap_next(const bw_bitmap *b, size_t from)
{
    if (from >= b->nbits)
        return b->nbits;
    size_t i = from / 64, n = bw_bitmap_words(b->nbits);
    uint64_t w = b->words[i] & ~(uint64_t)0 << from % 64;
    while (!w) {
        if (++i == n)
            return b->nbits;
        w = b->words[i];
    }
    return i * 64 + (size_t)__builtin_ctzll(w);
}
