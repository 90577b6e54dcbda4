/* Every body of the Qdrant surface: the first byte picks the call, the rest is the
 * body. A body that is taken has vectors that fit the collection and counts that fit
 * the caps. */
#include "server/qdrant.h"

#include <math.h>

static const bw_vector_spec specs[] = {
    {.name = {"", 0}, .dim = 4, .metric = BW_METRIC_COSINE},
    {.name = {"b", 1}, .dim = 2, .metric = BW_METRIC_EUCLID},
    {.name = {"s", 1}, .sparse = true, .metric = BW_METRIC_DOT},
};
static const bw_index_spec indexes[] = {{.field = {"n", 1}, .type = {"integer", 7}}};
static const char settings[] = "{\"vectors\":{\"\":{\"size\":4,\"distance\":\"Cosine\"}"
                               "},\"metadata\":{\"_model\":\"A\"}}";
static const bw_collection_info info = {.vectors = specs,
                                        .nvectors = 3,
                                        .indexes = indexes,
                                        .nindexes = 1,
                                        .settings = {settings, sizeof settings - 1}};

static void check_vector(const bw_vector *v)
{
    for (uint32_t i = 0; i < v->n; i++) {
        bw_require(isfinite(v->values[i]));
        bw_require(!v->sparse || i == 0 || v->indices[i - 1] < v->indices[i]);
    }
}

static void check_query(const bw_query *q)
{
    bw_require(q->limit >= 1 && q->limit <= BW_LIMIT_LIMIT);
    if (q->kind == BW_QUERY_NEAREST && !q->target.by_id)
        check_vector(&q->target.vector);
    for (uint32_t i = 0; i < q->nprefetch; i++)
        check_query(&q->prefetch[i]);
}

static void check_op(const bw_op *op)
{
    for (uint32_t i = 0; i < op->npoints; i++)
        for (uint32_t k = 0; k < op->points[i].nvectors; k++) {
            const bw_vector *v = &op->points[i].vectors[k];
            const bw_vector_spec *spec = bw_qdrant__spec(&info, v->name);
            bw_require(spec && spec->sparse == v->sparse &&
                       (v->sparse || v->n == spec->dim));
            check_vector(v);
        }
}

static bw_status run(bw_qdrant_parse *p, int call, const bw_json *body)
{
    bw_op op = {0};
    bw_qdrant_labels labels;
    bw_query query = {0};
    bw_qdrant_show show = {.payload = true};
    bw_qdrant_schema schema;
    bw_index_spec index;
    bw_status s;
    switch (call) {
    case 0:
        s = bw_qdrant__query(p, body, &query, &show);
        break;
    case 1:
        s = bw_qdrant__search(p, body, &query, &show);
        break;
    case 2:
        s = bw_qdrant__recommend(p, body, &query, &show);
        break;
    case 3:
        s = bw_qdrant__upsert(p, body, &op, &labels);
        break;
    case 4:
        s = bw_qdrant__set_payload(p, body, BW_OP_SET_PAYLOAD, &op);
        break;
    case 5:
        s = bw_qdrant__delete_payload(p, body, &op);
        break;
    case 6:
        s = bw_qdrant__update_vectors(p, body, &op);
        break;
    case 7:
        s = bw_qdrant__delete_vectors(p, body, &op);
        break;
    case 8:
        return bw_qdrant__create(p, body, &schema);
    case 9:
        return bw_qdrant__patch(p, info.settings, body, &schema);
    case 10:
        return bw_qdrant__index(p, body, &index);
    default:
        s = bw_qdrant__delete(p, body, &op);
    }
    if (s == BW_OK && call <= 2)
        check_query(&query);
    if (s == BW_OK)
        check_op(&op);
    bw_buf b = {0}; /* the body itself as a stored payload under its own selector */
    if (s == BW_OK && bw_qdrant__put_payload(p->ctx, &b, body->raw, &show) != BW_OK)
        bw_require(*bw_ctx_message(p->ctx));
    bw_buf_clear(&b);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    bw_ctx *ctx = bw_ctx_new(64u << 20);
    bw_qdrant_parse p = {.ctx = ctx, .info = &info};
    const bw_json *body;
    bw_require(ctx != NULL);
    int call = data[0] >= 'a' ? (data[0] - 'a') % 12 : data[0] % 12;
    if (bw_qdrant__body(&p, (bw_str){(const char *)data + 1, size - 1}, &body) ==
        BW_OK) {
        bw_status s = run(&p, call, body);
        bw_require(s == BW_OK || *bw_ctx_message(ctx));
    }
    bw_ctx_free(ctx);
    return 0;
}
