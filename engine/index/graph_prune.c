/* Which candidates become a node's links.
 *
 * The rule is RNG's (as in NSG and SymphonyQG, 2411.12229, section 4): nearest first,
 * and a candidate that is nearer to a chosen one than to the node is in that one's shade
 * and left out. A block of 32 lanes costs a visit the same whether it is full, so lanes
 * that stay free are filled with what is little in the shade, step by step (SymphonyQG
 * fills by angle; the shade needs no further distances, since it was measured already),
 * and at last with nodes from anywhere. Those are worth more than what is deep in the
 * shade: a question that lies far from all rows has its answers in several places, and
 * links from each place to the next do not exist (20,000 MiniLM rows and questions grown
 * with noise, beam of 200: recall 0.984 instead of 0.977, other questions no worse).
 *
 * Distances between nodes are of their int8 codes: whole numbers below, so the choice is
 * the same everywhere. */
#include "graph.h"

bool bw_graph__pruner_init(bw_graph_pruner *p, uint32_t dim, size_t pool_cap)
{
    p->pool_cap = pool_cap;
    p->wide = bw_alloc_vectors((size_t)dim * sizeof *p->wide);
    p->pool = bw_alloc(pool_cap * sizeof *p->pool);
    p->shade = bw_alloc(pool_cap * sizeof *p->shade);
    return p->wide && p->pool && p->shade;
}

void bw_graph__pruner_clear(bw_graph_pruner *p)
{
    bw_free_vectors(p->wide);
    bw_free(p->pool);
    bw_free(p->shade);
    memset(p, 0, sizeof *p);
}

float bw_graph__distance(const bw_rabitq_own *a, const bw_rabitq_own *b, int32_t ip)
{
    /* rescale is −2·step, so the product of two is four times that of the steps. */
    const float cross = 0.5f * (a->rescale * b->rescale) * (float)ip;
    const float d = a->add + b->add - cross;
    return d > 0 ? d : 0;
}

static void widen(const bw_graph_points *p, uint32_t a, int16_t *wide)
{
    const int8_t *code = p->codes + (size_t)a * p->dim;
    for (uint32_t i = 0; i < p->dim; i++)
        wide[i] = code[i];
}

static float from_wide(const bw_graph_points *p, const int16_t *wide, uint32_t a,
                       uint32_t b)
{
    return bw_graph__distance(&p->own[a], &p->own[b],
                       p->k->dot_i8(p->codes + (size_t)b * p->dim, wide, p->dim));
}

/* ---- sorting: (distance, node) rising ---- */

static void sift(bw_graph_link *a, size_t i, size_t n)
{
    const bw_graph_link v = a[i];
    for (size_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && bw_graph_nearer(a[c], a[c + 1]))
            c++;
        if (!bw_graph_nearer(v, a[c]))
            break;
        a[i] = a[c];
    }
    a[i] = v;
}

static void sort_short(bw_graph_link *a, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const bw_graph_link v = a[i];
        size_t j = i;
        for (; j > 0 && bw_graph_nearer(v, a[j - 1]); j--)
            a[j] = a[j - 1];
        a[j] = v;
    }
}

void bw_graph__sort(bw_graph_link *a, size_t n)
{
    enum { SHORT = 24 };
    if (n <= SHORT) {
        sort_short(a, n);
        return;
    }
    for (size_t i = n / 2; i-- > 0;)
        sift(a, i, n);
    for (size_t end = n; end-- > 1;) {
        const bw_graph_link v = a[0];
        a[0] = a[end];
        a[end] = v;
        sift(a, 0, end);
    }
}

/* Sorts, drops i itself and what is there twice: a pair has one distance, so equal nodes
 * lie side by side. */
static size_t pool_tidy(bw_graph_link *pool, size_t n, uint32_t i)
{
    bw_graph__sort(pool, n);
    size_t m = 0;
    for (size_t c = 0; c < n; c++)
        if (pool[c].id != i && (m == 0 || pool[m - 1].id != pool[c].id))
            pool[m++] = pool[c];
    return m;
}

void bw_graph__measure(const bw_graph_points *p, bw_graph_pruner *room, uint32_t i,
                       size_t n)
{
    widen(p, i, room->wide);
    for (size_t c = 0; c < n; c++)
        room->pool[c].d = from_wide(p, room->wide, i, room->pool[c].id);
}

/* shade of every later candidate after `c` was chosen: the largest ratio of its distance
 * to the node and that to a chosen one. Infinite: chosen, or the same place. */
static void shade_by(const bw_graph_points *p, bw_graph_pruner *room, size_t c, size_t n,
                     float shade_max)
{
    widen(p, room->pool[c].id, room->wide);
    for (size_t j = c + 1; j < n; j++) {
        if (room->shade[j] >= shade_max)
            continue;
        const float d = from_wide(p, room->wide, room->pool[c].id, room->pool[j].id);
        const float s = d > 0 ? room->pool[j].d / d : INFINITY;
        if (s > room->shade[j])
            room->shade[j] = s;
    }
}

size_t bw_graph__prune(const bw_graph_points *p, bw_graph_pruner *room, uint32_t i,
                       size_t n, size_t R, bool fill, bw_graph_link *out)
{
    /* Shades are squared ratios. */
    static const float steps[] = {1, 1.1f, 1.2f};
    const size_t nsteps = fill ? sizeof steps / sizeof *steps : 1;
    n = pool_tidy(room->pool, n, i);
    size_t chosen = 0;
    for (size_t j = 0; j < n; j++)
        room->shade[j] = 0;
    for (size_t s = 0; s < nsteps && chosen < R; s++)
        for (size_t c = 0; c < n && chosen < R; c++) {
            if (room->shade[c] >= steps[s])
                continue;
            out[chosen++] = room->pool[c];
            room->shade[c] = INFINITY;
            shade_by(p, room, c, n, steps[nsteps - 1]);
        }
    return chosen;
}

uint32_t bw_graph__stray(uint64_t seed, uint32_t node, uint32_t i, uint32_t nodes)
{
    uint64_t z = seed + ((uint64_t)node << 32 | i) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u; /* SplitMix64 */
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) % nodes);
}
