/* The kind "graph": its table and its memory. */
#include "graph.h"

#include <sys/mman.h>

enum { HUGE = 2 << 20 };

bw_graph *bw_graph__new(const bw_index_params *params, size_t n)
{
    bw_graph *g = bw_calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->base.ops = &bw_index__graph;
    g->params = *params;
    g->n = n;
    for (size_t i = 0; i < BW_GRAPH_SLOTS; i++)
        atomic_init(&g->slots[i], NULL);
    atomic_init(&g->scratch_bytes, 0);
    return g;
}

/* Huge pages: a hop is a jump to a random row, and its translation is a miss of its own
 * with small ones. Advice alone: nothing depends on it. */
bool bw_graph__block_new(bw_graph *g)
{
    size_t bytes;
    if (__builtin_mul_overflow((size_t)g->nodes, g->row.stride, &bytes) ||
        bytes > SIZE_MAX - HUGE)
        return false;
    const size_t align = bytes >= HUGE ? HUGE : 64;
    g->block_start = bw_alloc(bytes + align);
    if (!g->block_start)
        return false;
    g->block =
        g->block_start + (align - (uintptr_t)g->block_start % align) % align;
    if (align == HUGE)
        (void)madvise(g->block, bytes / HUGE * HUGE, MADV_HUGEPAGE);
    return true;
}

void bw_graph__free(bw_index *ix)
{
    bw_graph *g = (bw_graph *)ix;
    if (!g)
        return;
    bw_graph__scratch_clear(g);
    bw_rotate_free(g->rotate);
    bw_free(g->mean);
    bw_free(g->first);
    bw_free(g->members);
    bw_free(g->block_start);
    bw_free_vectors(g->entry);
    bw_free(g);
}

static size_t graph_bytes(const bw_index *ix)
{
    const bw_graph *g = (const bw_graph *)ix;
    size_t bytes =
        sizeof *g + atomic_load_explicit(&g->scratch_bytes, memory_order_relaxed);
    if (g->nodes == 0)
        return bytes;
    bytes += (size_t)g->nodes * g->row.stride + g->wide.stride;
    bytes += g->params.dim * sizeof *g->mean + bw_rotate_bytes(g->rotate);
    if (g->first)
        bytes += (g->nodes + 2) * sizeof *g->first + g->n * sizeof *g->members;
    return bytes;
}

const bw_index_ops bw_index__graph = {
    .name = "graph",
    .exact = false,
    .filtered = true,
    .metrics = {true, true, true, false},
    .dim_max = BW_GRAPH_DIM_MAX,
    .M_max = BW_GRAPH_R_MAX,
    .ef_construction_max = BW_GRAPH_EF_BUILD_MAX,
    .build = bw_graph__build,
    .derive = bw_graph__derive,
    .search = bw_graph__search,
    .save = bw_graph__save,
    .load = bw_graph__load,
    .effort_of = bw_graph__effort_of,
    .recall_of = bw_graph__recall_of,
    .bytes = graph_bytes,
    .free = bw_graph__free,
};
