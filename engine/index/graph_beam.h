/* The beam of a walk: keys (distance, node) that were offered and not yet taken, nearest
 * first out. Private to graph_search.c.
 *
 * Of what is offered one in five is ever taken, and a sorted array of hundreds, moved at
 * every hop, was two fifths of a query. So only the nearest are kept sorted, in `front`;
 * all else is appended to `back` as it comes, and the front is filled from there by
 * selection when it runs out. A beam of ef is one from which ef keys are taken at most:
 * when the back is full, what lies too far behind for that is dropped. Whole numbers
 * alone: no ISA and no thread changes what comes out. */
#ifndef BW_INDEX_GRAPH_BEAM_H
#define BW_INDEX_GRAPH_BEAM_H
#include "../base/base.h"
#include <assert.h>
#include <math.h>
#include <string.h>

#define BW_GRAPH_KEY_NONE UINT64_MAX /* after the last key */

enum {
    BW_GRAPH_FRONT = 16,
    BW_GRAPH_LANES = 32, /* keys offered at once */
    BW_GRAPH_SPARE = 128 /* of the back, beside twice what may still be taken */
};

typedef struct bw_graph_beam {
    size_t head, n;  /* of the front */
    uint64_t edge;   /* front keys are below it; back keys are not, or equal the last */
    size_t left;     /* keys that may still be taken */
    float worst;     /* what is not nearer can no longer be taken; +inf: all can */
    uint64_t *back;  /* in no order */
    size_t nback;
    uint64_t front[BW_GRAPH_FRONT + BW_GRAPH_LANES + 2]; /* rising from head; then KEY_NONE */
} bw_graph_beam;

/* Keys that a beam of ef needs room for. */
static inline size_t bw_graph_beam_room(size_t ef)
{
    return 2 * ef + BW_GRAPH_SPARE + BW_GRAPH_FRONT + 2 * BW_GRAPH_LANES;
}

/* ---- keys: a whole number whose order is that of (distance, node) ---- */

static inline uint64_t bw_graph_key(float d, uint32_t node)
{
    uint32_t u;
    memcpy(&u, &d, sizeof u);
    u ^= (uint32_t)((int32_t)u >> 31 | (int32_t)0x80000000);
    return (uint64_t)u << 32 | node;
}

static inline uint32_t bw_graph_key_node(uint64_t key)
{
    return (uint32_t)key;
}

static inline float bw_graph_key_distance(uint64_t key)
{
    uint32_t u = (uint32_t)(key >> 32);
    u ^= u & 0x80000000u ? 0x80000000u : 0xffffffffu;
    float d;
    memcpy(&d, &u, sizeof d);
    return d;
}

/* Rising. Few keys, as most hops have them, are placed by counting what is below each,
 * without a branch that could be guessed wrong. */
static inline void bw_graph_keys_sort(uint64_t *keys, size_t n)
{
    enum { FEW = 16 };
    if (n > FEW) {
        for (size_t i = 1; i < n; i++) {
            const uint64_t key = keys[i];
            size_t j = i;
            for (; j > 0 && keys[j - 1] > key; j--)
                keys[j] = keys[j - 1];
            keys[j] = key;
        }
        return;
    }
    uint64_t old[FEW] __attribute__((uninitialized));
    for (size_t i = 0; i < n; i++)
        old[i] = keys[i];
    for (size_t i = 0; i < n; i++) {
        size_t below = 0;
        for (size_t j = 0; j < i; j++)
            below += old[j] <= old[i];
        for (size_t j = i + 1; j < n; j++)
            below += old[j] < old[i];
        keys[below] = old[i];
    }
}

/* The m smallest come first, in no order; m < n. Hoare's selection (1961); pivots are
 * drawn by a fixed sequence. */
static inline void bw_graph_keys_select(uint64_t *keys, size_t n, size_t m)
{
    uint32_t draw = 0x9E3779B9u;
    for (size_t lo = 0, hi = n; lo < m && m < hi;) {
        uint64_t p[3];
        for (size_t i = 0; i < 3; i++, draw = draw * 1664525u + 1013904223u)
            p[i] = keys[lo + ((uint64_t)draw * (hi - lo) >> 32)];
        const uint64_t low = p[0] < p[1] ? p[0] : p[1], high = p[0] < p[1] ? p[1] : p[0];
        const uint64_t pivot = p[2] < low ? low : p[2] > high ? high : p[2];
        size_t at = lo;
        for (size_t i = lo; i < hi; i++) {
            const uint64_t key = keys[i];
            keys[i] = keys[at];
            keys[at] = key;
            at += key < pivot;
        }
        if (at > lo && m <= at) {
            hi = at;
            continue;
        }
        if (at == lo) /* nothing is below: what equals it comes next, and is one key */
            for (size_t i = lo; i < hi; i++) {
                const uint64_t key = keys[i];
                keys[i] = keys[at];
                keys[at] = key;
                at += key == pivot;
            }
        lo = at;
    }
}

/* ---- the beam ---- */

/* mem: bw_graph_beam_room(ef) keys. */
static inline void bw_graph_beam_init(bw_graph_beam *b, uint64_t *mem, size_t ef)
{
    b->head = b->n = b->nback = 0;
    b->front[0] = b->front[1] = b->edge = BW_GRAPH_KEY_NONE;
    b->back = mem;
    b->left = ef;
    b->worst = INFINITY;
}

/* The front has run out: the nearest of the back. */
static inline void bw_graph_beam_refill(bw_graph_beam *b)
{
    size_t m = b->nback < BW_GRAPH_FRONT ? b->nback : BW_GRAPH_FRONT;
    if (m < b->nback)
        bw_graph_keys_select(b->back, b->nback, m);
    memcpy(b->front, b->back, m * sizeof *b->front);
    bw_graph_keys_sort(b->front, m);
    b->front[m] = b->front[m + 1] = BW_GRAPH_KEY_NONE;
    b->head = 0;
    b->n = m;
    b->nback -= m;
    /* The front's places are taken by the last of the back; order means nothing there. */
    memmove(b->back, b->back + (b->nback > m ? b->nback : m),
            (b->nback > m ? m : b->nback) * sizeof *b->back);
    b->edge = b->nback ? b->front[m - 1] + 1 : BW_GRAPH_KEY_NONE;
}

static inline uint64_t bw_graph_beam_next(const bw_graph_beam *b)
{
    return b->front[b->head];
}

/* What comes after the next, where that is known. */
static inline uint64_t bw_graph_beam_second(const bw_graph_beam *b)
{
    return b->front[b->head + 1];
}

/* Takes the next out; there is one, and left > 0. */
static inline void bw_graph_beam_take(bw_graph_beam *b)
{
    b->left--;
    if (++b->head >= b->n && b->nback > 0)
        bw_graph_beam_refill(b);
}

/* Keeps of the back what may still be taken. */
static inline void bw_graph_beam_cut(bw_graph_beam *b)
{
    if (b->left == 0 || b->left >= b->nback)
        return;
    bw_graph_keys_select(b->back, b->nback, b->left);
    b->nback = b->left;
    uint64_t worst = 0;
    for (size_t i = 0; i < b->nback; i++)
        worst = b->back[i] > worst ? b->back[i] : worst;
    b->worst = bw_graph_key_distance(worst);
}

/* Merges m rising keys into the front; what is too many for it goes to the back. */
static inline void bw_graph_beam_merge(bw_graph_beam *b, const uint64_t *keys, size_t m)
{
    if (b->head > 0) {
        memmove(b->front, b->front + b->head, (b->n - b->head) * sizeof *b->front);
        b->n -= b->head;
        b->head = 0;
    }
    size_t i = b->n, j = m;
    b->n += m;
    for (; j > 0; j--) {
        const uint64_t key = keys[j - 1];
        for (; i > 0 && b->front[i - 1] > key; i--)
            b->front[i + j - 1] = b->front[i - 1];
        b->front[i + j - 1] = key;
    }
    if (b->n > BW_GRAPH_FRONT) {
        b->edge = b->front[BW_GRAPH_FRONT];
        memcpy(b->back + b->nback, b->front + BW_GRAPH_FRONT,
               (b->n - BW_GRAPH_FRONT) * sizeof *b->front);
        b->nback += b->n - BW_GRAPH_FRONT;
        b->n = BW_GRAPH_FRONT;
    }
    b->front[b->n] = b->front[b->n + 1] = BW_GRAPH_KEY_NONE;
}

/* Offers m ≤ BW_GRAPH_LANES keys; their order is lost. */
static inline void bw_graph_beam_offer(bw_graph_beam *b, uint64_t *keys, size_t m)
{
    size_t near = 0;
    for (size_t i = 0; i < m; i++) {
        const uint64_t key = keys[i];
        const bool far = key >= b->edge;
        b->back[b->nback] = key;
        b->nback += far;
        keys[near] = key;
        near += !far;
    }
    if (near > 0) {
        bw_graph_keys_sort(keys, near);
        bw_graph_beam_merge(b, keys, near);
    }
    if (b->nback > 2 * b->left + BW_GRAPH_SPARE)
        bw_graph_beam_cut(b);
}

/* The rank-th (≥ 1) of what waits, or KEY_NONE where that is not known. */
static inline uint64_t bw_graph_beam_rank(const bw_graph_beam *b, size_t rank)
{
    const size_t at = b->head + rank - 1;
    return at < b->n ? b->front[at] : BW_GRAPH_KEY_NONE;
}
#endif
