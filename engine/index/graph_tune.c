/* Which effort a wanted recall takes. For now one effort for all: nothing is measured
 * yet, and nothing is promised. */
#include "graph.h"

enum { EFFORT_DEFAULT = 64 };

bw_status bw_graph__tune(bw_ctx *ctx, bw_graph *g, const bw_rows *rows)
{
    (void)ctx, (void)rows;
    g->nrungs = 0;
    return BW_OK;
}

uint32_t bw_graph__effort_of(const bw_index *ix, float recall, size_t k)
{
    (void)ix, (void)recall, (void)k;
    return EFFORT_DEFAULT;
}

float bw_graph__recall_of(const bw_index *ix, uint32_t effort)
{
    (void)ix, (void)effort;
    return 0;
}
