/* A saved graph with changes: what loads is searched, and nothing leads outside.
 *
 * Input: a byte (cut the end off by as many), then changes of five bytes, place u32 and
 * value, to a graph that is built here once, always the same. */
#include "engine/index/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 80, DIM = 6, K = 5 };

static const bw_index_params params = {
    .metric = BW_METRIC_EUCLID, .dim = DIM, .ef_construction = 20, .seed = 3};
static float *rows;
static bw_buf saved;

static bool graph_make(bw_ctx *ctx)
{
    uint32_t state = 1;
    bw_index *ix = NULL;
    rows = bw_alloc_vectors(N * DIM * sizeof *rows);
    if (!rows)
        return false;
    for (size_t i = 0; i < N * DIM; i++) {
        state = (uint32_t)(state * (uint64_t)1664525 + 1013904223);
        rows[i] = (float)(state >> 16 & 1023) / 512 - 1;
    }
    memcpy(rows + 9 * DIM, rows, 2 * DIM * sizeof *rows); /* equal rows: tables too */
    const bw_rows view = {.dim = DIM, .n = N, .data = rows};
    const bw_index_ops *ops = bw_index_kind("graph");
    const bool ok = ops->build(ctx, &params, &view, &ix) == BW_OK &&
                    ops->save(ctx, ix, &saved) == BW_OK;
    ops->free(ix);
    return ok;
}

static void use(bw_ctx *ctx, const bw_index *ix)
{
    static const bw_point_id ids[N];
    uint64_t words[2] = {~(uint64_t)0, ((uint64_t)1 << (N - 64)) - 1};
    const bw_bitmap all = {words, N};
    const bw_rows view = {.dim = DIM, .n = N, .data = rows};
    for (uint32_t effort = 0; effort <= 40; effort += 20) {
        bw_candidate items[K];
        bw_topk out;
        bw_topk_init(&out, items, K);
        const bw_index_search s = {.query = rows + effort,
                                   .k = K,
                                   .effort = effort,
                                   .allowed = &all,
                                   .ids = ids,
                                   .rows = &view};
        bw_require(ix->ops->search(ctx, ix, &s, &out) == BW_OK && out.n == K);
        for (size_t i = 0; i < K; i++)
            bw_require(items[i].row < N);
    }
    bw_buf again = {0};
    bw_require(ix->ops->save(ctx, ix, &again) == BW_OK && again.len == saved.len);
    bw_buf_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bw_ctx *ctx = bw_ctx_new(0);
    if (!ctx || (!saved.ptr && !graph_make(ctx)) || size == 0) {
        bw_ctx_free(ctx);
        return 0;
    }
    char *bytes = bw_alloc(saved.len);
    if (bytes) {
        memcpy(bytes, saved.ptr, saved.len);
        for (size_t at = 1; at + 5 <= size; at += 5) {
            uint32_t place;
            memcpy(&place, data + at, sizeof place);
            bytes[place % saved.len] = (char)data[at + 4];
        }
        bw_index *ix = NULL;
        const bw_status st = bw_index_kind("graph")->load(ctx, &params, bytes,
                                                          saved.len - data[0], &ix);
        bw_require(st == BW_OK || st == BW_ECORRUPT);
        if (ix) {
            use(ctx, ix);
            ix->ops->free(ix);
        }
    }
    bw_free(bytes);
    bw_ctx_free(ctx);
    return 0;
}
