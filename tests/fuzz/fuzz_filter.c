/* A filter of the wire: any bytes are refused or become a tree in which every node is
 * what its kind says. */
#include "server/qdrant.h"

static void walk(const bw_filter *f, int depth);

static void walk_condition(const bw_condition *c, int depth)
{
    bw_require(c->kind <= BW_COND_NESTED);
    bw_require(c->kind != BW_COND_MATCH_VALUE || c->nvalues == 1);
    for (uint32_t i = 0; i < c->nvalues; i++)
        bw_require(!c->values[i].negative || c->values[i].mag != 0);
    if (c->kind == BW_COND_RANGE || c->kind == BW_COND_DATE_RANGE ||
        c->kind == BW_COND_VALUES_COUNT)
        bw_require(c->range.has_gt || c->range.has_gte || c->range.has_lt ||
                   c->range.has_lte);
    if (c->kind == BW_COND_FILTER || c->kind == BW_COND_NESTED)
        walk(c->filter, depth + 1);
}

static void walk(const bw_filter *f, int depth)
{
    bw_require(f && depth <= BW_FILTER_DEPTH_MAX);
    for (uint32_t i = 0; i < f->nmust; i++)
        walk_condition(&f->must[i], depth);
    for (uint32_t i = 0; i < f->nshould; i++)
        walk_condition(&f->should[i], depth);
    for (uint32_t i = 0; i < f->nmust_not; i++)
        walk_condition(&f->must_not[i], depth);
    for (uint32_t i = 0; i < f->nmin_should; i++)
        walk_condition(&f->min_should[i], depth);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bw_ctx *ctx = bw_ctx_new(64u << 20);
    bw_qdrant_parse p = {.ctx = ctx};
    const bw_json *body;
    const bw_filter *f = NULL;
    bw_require(ctx != NULL);
    if (bw_qdrant__body(&p, (bw_str){(const char *)data, size}, &body) == BW_OK) {
        bw_status s = bw_qdrant__filter(&p, body, &f);
        if (s == BW_OK && f)
            walk(f, 1);
        bw_require(s == BW_OK || *bw_ctx_message(ctx));
    }
    bw_ctx_free(ctx);
    return 0;
}
