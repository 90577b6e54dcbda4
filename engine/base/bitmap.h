/* A plain bitmap over row ordinals 0 … nbits-1. Bits past the end read as 0. */
#ifndef BW_BITMAP_H
#define BW_BITMAP_H
#include "base.h"

typedef struct bw_bitmap {
    uint64_t *words; /* (nbits + 63) / 64 words; bits past nbits are always 0 */
    size_t nbits;
} bw_bitmap;

static inline size_t bw_bitmap_words(size_t nbits) { return (nbits + 63) / 64; }
BW_MUST_USE bw_status bw_bitmap_arena(bw_ctx *ctx, size_t nbits, bw_bitmap *out); /* zeroed */
bool bw_bitmap_heap(size_t nbits, bw_bitmap *out); /* zeroed; false: no memory */
void bw_bitmap_free(bw_bitmap *b);                 /* of bw_bitmap_heap */
static inline bool bw_bitmap_get(const bw_bitmap *b, size_t i)
{
    return i < b->nbits && (b->words[i / 64] >> (i % 64) & 1);
}
static inline void bw_bitmap_set(bw_bitmap *b, size_t i) { b->words[i / 64] |= (uint64_t)1 << (i % 64); }
static inline void bw_bitmap_unset(bw_bitmap *b, size_t i) { b->words[i / 64] &= ~((uint64_t)1 << (i % 64)); }
void bw_bitmap_fill(bw_bitmap *b);
void bw_bitmap_and(bw_bitmap *a, const bw_bitmap *b); /* a &= b; same nbits */
void bw_bitmap_or(bw_bitmap *a, const bw_bitmap *b);
void bw_bitmap_andnot(bw_bitmap *a, const bw_bitmap *b);
void bw_bitmap_copy(bw_bitmap *a, const bw_bitmap *b);
size_t bw_bitmap_count(const bw_bitmap *b);
/* for (size_t i = bw_bitmap_next(b, 0); i < b->nbits; i = bw_bitmap_next(b, i + 1)) */
size_t bw_bitmap_next(const bw_bitmap *b, size_t from); /* nbits when there is none */
#endif
