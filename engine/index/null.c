/* The null kind: the contract at its barest. It takes any rows and finds nothing, for
 * tests of what stands above an index. */
#include "kinds.h"

static bw_status null_build(bw_ctx *ctx, const bw_index_params *params,
                            const bw_rows *rows, bw_index **out)
{
    (void)params, (void)rows;
    bw_index *ix = bw_calloc(1, sizeof *ix);
    if (!ix)
        return bw_fail_nomem(ctx);
    ix->ops = &bw_index__null;
    *out = ix;
    return BW_OK;
}

static bw_status null_search(bw_ctx *ctx, const bw_index *ix, const bw_index_search *s,
                             bw_topk *out)
{
    (void)ctx, (void)ix, (void)s, (void)out;
    return BW_OK;
}

static size_t null_bytes(const bw_index *ix)
{
    (void)ix;
    return sizeof(bw_index);
}

static void null_free(bw_index *ix)
{
    bw_free(ix);
}

const bw_index_ops bw_index__null = {
    .name = "null",
    .exact = false,
    .filtered = true,
    .metrics = {true, true, true, true},
    .build = null_build,
    .search = null_search,
    .bytes = null_bytes,
    .free = null_free,
};
