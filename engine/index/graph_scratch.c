/* What a walk works in: one block, made for a graph and kept by it for the next search.
 *
 * Most of it is a link (8 bytes) for each node of the graph, so what is kept counts in the
 * graph's bytes. A slot is taken by an exchange: no two threads ever hold the same one. */
#include "graph.h"
#include "graph_beam.h"

static size_t up64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

bw_graph_scratch *bw_graph__scratch_new(const bw_graph *g, size_t ef_cap,
                                        size_t seen_cap)
{
    const size_t dim = g->row.dim;
    const size_t parts[] = {up64(sizeof(bw_graph_scratch)),
                            up64(bw_rabitq_query_bytes((uint32_t)dim)),
                            up64(dim * sizeof(float)),
                            up64(g->params.dim * sizeof(float)),
                            up64(BW_FASTSCAN_LANES * sizeof(float)),
                            up64(bw_bitmap_words(g->nodes) * sizeof(uint64_t)),
                            up64(bw_graph_beam_room(ef_cap) * sizeof(uint64_t)),
                            up64((ef_cap + 1) * sizeof(bw_graph_link)),
                            up64(seen_cap * sizeof(bw_graph_link))};
    size_t at[sizeof parts / sizeof *parts], bytes = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        at[i] = bytes;
        bytes += parts[i];
    }
    char *mem = bw_alloc_vectors(bytes);
    if (!mem)
        return NULL;
    bw_graph_scratch *s = (void *)mem;
    s->bytes = bytes;
    s->ef_cap = ef_cap;
    s->seen_cap = seen_cap;
    bw_rabitq_query_lay(&s->query, (uint32_t)dim, mem + at[1]);
    s->rotated = (void *)(mem + at[2]);
    s->plain = (void *)(mem + at[3]);
    s->estimates = (void *)(mem + at[4]);
    s->visited = (void *)(mem + at[5]);
    s->beam = (void *)(mem + at[6]);
    s->best = (void *)(mem + at[7]);
    s->seen = (void *)(mem + at[8]);
    return s;
}

void bw_graph__scratch_free(bw_graph_scratch *s)
{
    bw_free_vectors(s);
}

size_t bw_graph__beam_most(size_t ef)
{
    size_t most = 512;
    while (most < ef)
        most *= 2;
    return most;
}

/* A graph's own: in its bytes from here on, kept or at work. */
static void drop(bw_graph *g, bw_graph_scratch *s)
{
    if (s)
        atomic_fetch_sub_explicit(&g->scratch_bytes, s->bytes, memory_order_relaxed);
    bw_graph__scratch_free(s);
}

bw_graph_scratch *bw_graph__scratch_take(bw_graph *g, size_t ef)
{
    const size_t most = bw_graph__beam_most(ef);
    for (size_t i = 0; i < BW_GRAPH_SLOTS; i++) {
        bw_graph_scratch *s =
            atomic_exchange_explicit(&g->slots[i], NULL, memory_order_acquire);
        if (s && s->ef_cap >= most)
            return s;
        drop(g, s);
    }
    bw_graph_scratch *s = bw_graph__scratch_new(g, most, g->nodes);
    if (s)
        atomic_fetch_add_explicit(&g->scratch_bytes, s->bytes, memory_order_relaxed);
    return s;
}

void bw_graph__scratch_give(bw_graph *g, bw_graph_scratch *s)
{
    for (size_t i = 0; i < BW_GRAPH_SLOTS; i++) {
        bw_graph_scratch *none = NULL;
        if (atomic_compare_exchange_strong_explicit(
                &g->slots[i], &none, s, memory_order_release, memory_order_relaxed))
            return;
    }
    drop(g, s);
}

void bw_graph__scratch_clear(bw_graph *g)
{
    for (size_t i = 0; i < BW_GRAPH_SLOTS; i++)
        drop(g, atomic_exchange_explicit(&g->slots[i], NULL, memory_order_acquire));
}
