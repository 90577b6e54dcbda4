/* QueryRequest, its prefetches and the older search calls into bw_query (contract,
 * sections 4 and 5.5).
 *
 * Place: after the filter and vector readers; the engine plans and runs what comes out.
 * A query names its vector by `using`; vectors given in the request are checked against
 * the collection here (except under lookup_from, where only ids are looked up
 * elsewhere), ids by the engine. The contract's LATER kinds are refused by name. */
#include "qdrant.h"

static bw_status query_at(bw_qdrant_parse *p, const bw_json *node, uint32_t depth,
                          bw_query *out);

/* ---- targets: a vector, or a stored point's ---- */

static bw_status target(bw_qdrant_parse *p, const bw_json *v, bw_str using_name,
                        bw_target *out)
{
    *out = (bw_target){0};
    if (v->kind == BW_JSON_NUMBER || v->kind == BW_JSON_STRING) {
        out->by_id = true;
        return bw_qdrant__point_id(p, v, &out->id);
    }
    bw_status s = bw_qdrant__vector(p, v, using_name, &out->vector);
    return s == BW_OK ? bw_qdrant__vector_fits(p, &out->vector, using_name) : s;
}

static bw_status targets(bw_qdrant_parse *p, const bw_json *list, const char *what,
                         bw_str using_name, const bw_target **out, uint32_t *n)
{
    const bw_json *e;
    *n = 0;
    if (!list)
        return BW_OK;
    bw_status s = bw_qdrant__list(p, list, what, BW_LIMIT_EXAMPLES, &e, n);
    if (s != BW_OK)
        return s;
    bw_target *ts = bw_arena_calloc(p->ctx, *n, sizeof *ts);
    if (!ts)
        return bw_fail_nomem(p->ctx);
    for (uint32_t i = 0; s == BW_OK && e; e = e->next, i++)
        s = target(p, e, using_name, &ts[i]);
    *out = ts;
    return s;
}

/* ---- kinds ---- */

static bw_status real_in(bw_qdrant_parse *p, const bw_json *object, const char *name,
                         double lo, double hi, double *out)
{
    const bw_json *v = bw_json_get_value(object, name);
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_NUMBER)
        return bw_qdrant__format(p, v, "expected a number");
    if (!(v->real >= lo && v->real <= hi))
        return bw_qdrant__invalid(p, name, "value invalid, must be from %g to %g", lo,
                                  hi);
    *out = v->real;
    return BW_OK;
}

static bw_status mmr(bw_qdrant_parse *p, const bw_json *v, bw_query *out)
{
    double diversity = 0.5;
    if (v->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, v,
                                 "expected {\"diversity\", \"candidates_limit\"}");
    bw_status s = real_in(p, v, "diversity", 0, 1, &diversity);
    if (s == BW_OK)
        s = bw_qdrant__u32(p, v, "candidates_limit", 0, BW_LIMIT_MMR_CANDIDATES,
                           &out->mmr_candidates);
    out->has_mmr = true;
    out->mmr_diversity = (float)diversity;
    return s;
}

static bw_status rrf(bw_qdrant_parse *p, const bw_json *v, bw_query *out)
{
    const bw_json *weights = bw_json_get_value(v, "weights");
    uint32_t k = 2;
    if (v->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, v, "expected {\"k\", \"weights\"}");
    bw_status s = bw_qdrant__u32(p, v, "k", 1, UINT32_MAX, &k);
    out->kind = BW_QUERY_FUSION_RRF;
    out->rrf_k = k;
    if (s != BW_OK || !weights)
        return s;
    bw_vector w;
    if (weights->kind == BW_JSON_OBJECT || weights->count == 0)
        return bw_qdrant__format(p, weights, "expected a list of numbers");
    s = bw_qdrant__vector(p, weights, BW_STR(""), &w);
    for (uint32_t i = 0; s == BW_OK && i < w.n; i++)
        if (w.values[i] < 0)
            s = bw_qdrant__invalid(p, "weights", "weight %u is negative", i);
    if (s == BW_OK && w.n != out->nprefetch)
        s = bw_qdrant__wrong(
            p, "the number of weights (%u) must be that of the prefetches (%u)", w.n,
            out->nprefetch);
    if (s == BW_OK) {
        out->rrf_weights = w.values;
        out->nrrf_weights = w.n;
    }
    return s;
}

static bw_status fusion(bw_qdrant_parse *p, const bw_json *v, bw_query *out)
{
    if (v->kind != BW_JSON_STRING ||
        (!bw_str_is(v->str, "rrf") && !bw_str_is(v->str, "dbsf")))
        return bw_qdrant__format(p, v, "unknown variant, expected rrf or dbsf");
    out->kind = bw_str_is(v->str, "rrf") ? BW_QUERY_FUSION_RRF : BW_QUERY_FUSION_DBSF;
    out->rrf_k = 2;
    return BW_OK;
}

static bw_status recommend(bw_qdrant_parse *p, const bw_json *v, bw_query *out)
{
    bw_str strategy = {NULL, 0};
    if (v->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, v,
                                 "expected {\"positive\", \"negative\", \"strategy\"}");
    out->kind = BW_QUERY_RECOMMEND;
    bw_status s = bw_qdrant__string(p, v, "strategy", &strategy);
    if (s == BW_OK)
        s = targets(p, bw_json_get_value(v, "positive"), "positive examples",
                    out->using_name, &out->positive, &out->npositive);
    if (s == BW_OK)
        s = targets(p, bw_json_get_value(v, "negative"), "negative examples",
                    out->using_name, &out->negative, &out->nnegative);
    if (s != BW_OK)
        return s;
    if (!strategy.ptr || bw_str_is(strategy, "average_vector"))
        out->strategy = BW_RECOMMEND_AVERAGE_VECTOR;
    else if (bw_str_is(strategy, "best_score"))
        out->strategy = BW_RECOMMEND_BEST_SCORE;
    else if (bw_str_is(strategy, "sum_scores"))
        out->strategy = BW_RECOMMEND_SUM_SCORES;
    else
        return bw_qdrant__format(
            p, bw_json_get(v, "strategy"),
            "unknown variant, expected average_vector, best_score or "
            "sum_scores");
    if (out->npositive == 0 && out->strategy == BW_RECOMMEND_AVERAGE_VECTOR)
        return bw_qdrant__wrong(p, "At least one positive example is required");
    if (out->npositive + out->nnegative == 0)
        return bw_qdrant__wrong(
            p, "At least one positive or negative example is required");
    return BW_OK;
}

bw_status bw_qdrant__order_by(bw_qdrant_parse *p, const bw_json *node, bw_order_by *out)
{
    *out = (bw_order_by){0};
    if (node->kind == BW_JSON_STRING)
        return bw_qdrant__path_field(p, node, "key", &out->key);
    if (node->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(
            p, node, "expected a key or {\"key\", \"direction\", \"start_from\"}");
    const bw_json *start = bw_json_get_value(node, "start_from");
    bw_str direction = {NULL, 0};
    int64_t ns;
    bw_status s =
        bw_json_get(node, "key")
            ? bw_qdrant__path_field(p, bw_json_get(node, "key"), "key", &out->key)
            : bw_qdrant__format(p, node, "missing field `key`");
    if (s == BW_OK)
        s = bw_qdrant__string(p, node, "direction", &direction);
    if (s != BW_OK)
        return s;
    if (direction.ptr && !bw_str_is(direction, "asc") && !bw_str_is(direction, "desc"))
        return bw_qdrant__format(p, bw_json_get(node, "direction"),
                                 "unknown variant, expected asc or desc");
    out->descending = direction.ptr && bw_str_is(direction, "desc");
    if (!start)
        return BW_OK;
    out->has_start_from = true;
    if (start->kind != BW_JSON_STRING)
        return bw_qdrant__number(p, start, &out->start_from);
    if (!bw_payload_time(start->str, &ns))
        return bw_qdrant__format(p, start,
                                 "expected a number or a date-time (RFC 3339)");
    out->start_is_date = true;
    out->start_from =
        (bw_number){true, ns < 0, ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns, (double)ns};
    return BW_OK;
}

static bw_status order_by_query(bw_qdrant_parse *p, const bw_json *v, bw_query *out)
{
    out->kind = BW_QUERY_ORDER_BY;
    bw_status s = bw_qdrant__order_by(p, v, &out->order_by);
    if (s == BW_OK && p->info &&
        !bw_qdrant__has_range_index(p->info, out->order_by.key))
        s = bw_qdrant__wrong(
            p,
            "No range index for `order_by` key: `%.*s`. Please create one to "
            "use `order_by`",
            bw_qdrant__cut(out->order_by.key, 96), out->order_by.key.ptr);
    return s;
}

/* ---- the `query` field ---- */

static bw_status query_object(bw_qdrant_parse *p, const bw_json *v, bw_query *out)
{
    static const char *const later[] = {"discover", "context", "sample", "formula",
                                        "relevance_feedback"};
    const bw_json *m;
    bw_status s = bw_qdrant__no_filter_words(p, v, NULL);
    if (s != BW_OK)
        return s;
    if ((m = bw_json_get_value(v, "nearest"))) {
        const bw_json *diverse = bw_json_get_value(v, "mmr");
        out->kind = BW_QUERY_NEAREST;
        s = target(p, m, out->using_name, &out->target);
        return s == BW_OK && diverse ? mmr(p, diverse, out) : s;
    }
    if ((m = bw_json_get_value(v, "fusion")))
        return fusion(p, m, out);
    if ((m = bw_json_get_value(v, "rrf")))
        return rrf(p, m, out);
    if ((m = bw_json_get_value(v, "order_by")))
        return order_by_query(p, m, out);
    if ((m = bw_json_get_value(v, "recommend")))
        return recommend(p, m, out);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if ((m = bw_json_get_value(v, later[i])))
            return bw_qdrant__later(p, m, later[i]);
    if (bw_json_get(v, "indices") || bw_json_get(v, "text") ||
        bw_json_get(v, "image") || bw_json_get(v, "object")) {
        out->kind = BW_QUERY_NEAREST;
        return target(p, v, out->using_name, &out->target);
    }
    return bw_qdrant__format(p, v,
                             "expected nearest, fusion, rrf, order_by or recommend");
}

static bw_status query_kind(bw_qdrant_parse *p, const bw_json *object, bw_query *out)
{
    const bw_json *v = bw_json_get_value(object, "query");
    bw_status s = BW_OK;
    if (!v) {
        out->kind = BW_QUERY_NONE;
        if (out->nprefetch)
            return bw_qdrant__wrong(
                p, "A query is needed to merge the prefetches. Can't have "
                   "prefetches without defining a query.");
        return BW_OK;
    }
    if (v->kind == BW_JSON_OBJECT) {
        s = query_object(p, v, out);
    } else {
        out->kind = BW_QUERY_NEAREST;
        s = target(p, v, out->using_name, &out->target);
    }
    bool fuses = out->kind == BW_QUERY_FUSION_RRF || out->kind == BW_QUERY_FUSION_DBSF;
    if (s == BW_OK && fuses && out->nprefetch == 0)
        s = bw_qdrant__wrong(p, "Fusion queries need at least one prefetch");
    if (s == BW_OK && fuses && bw_json_get_value(object, "using"))
        s = bw_qdrant__wrong(
            p, "Fusion queries cannot be combined with the 'using' field.");
    return s;
}

/* ---- what stands beside it ---- */

/* Ours: the recall that the caller wants, 0.90 … 1; 0: not given. */
static bw_status recall_in(bw_qdrant_parse *p, const bw_json *object, double *out)
{
    const bw_json *v = bw_json_get_value(object, "recall");
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_NUMBER || !(v->real >= 0.9 && v->real <= 1))
        return bw_qdrant__format(p, v, "recall: expected a number from 0.9 to 1");
    *out = v->real;
    return BW_OK;
}

/* Qdrant's SearchParams, all of them, and `recall`. */
static bw_status known_params(bw_qdrant_parse *p, const bw_json *v)
{
    static const char *const words[] = {"hnsw_ef", "exact", "indexed_only", "quantization",
                                        "acorn",   "idf",   "recall",       NULL};
    static const char *const quantization[] = {"ignore", "rescore", "oversampling", NULL};
    static const char *const acorn[] = {"enable", "max_selectivity", NULL};
    bw_status s = bw_qdrant__known(p, v, words);
    if (s == BW_OK)
        s = bw_qdrant__known(p, bw_json_get(v, "quantization"), quantization);
    return s == BW_OK ? bw_qdrant__known(p, bw_json_get(v, "acorn"), acorn) : s;
}

static bw_status params(bw_qdrant_parse *p, const bw_json *object, bw_query *out)
{
    const bw_json *v = bw_json_get_value(object, "params");
    bool indexed_only = false;
    double recall = 0;
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, v, "expected an object");
    bw_status s = bw_qdrant__no_filter_words(p, v, NULL);
    if (s == BW_OK)
        s = known_params(p, v);
    if (s == BW_OK)
        s = bw_qdrant__u32(p, v, "hnsw_ef", 1, BW_LIMIT_EF, &out->ef_search);
    if (s == BW_OK)
        s = bw_qdrant__bool(p, v, "exact", &out->exact);
    if (s == BW_OK)
        s = recall_in(p, v, &recall);
    if (s == BW_OK && recall > 0 && recall < 1 && out->ef_search > 0)
        s = bw_qdrant__wrong(p, "recall and hnsw_ef are two ways to say one thing: give "
                                "one of them");
    out->recall = (float)recall;
    out->exact = out->exact || recall >= 1;
    return s == BW_OK ? bw_qdrant__bool(p, v, "indexed_only", &indexed_only) : s;
}

static bw_status lookup_from(bw_qdrant_parse *p, const bw_json *object, bw_query *out)
{
    const bw_json *v = bw_json_get_value(object, "lookup_from");
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_OBJECT || !bw_json_get_value(v, "collection"))
        return bw_qdrant__format(p, v, "expected {\"collection\", \"vector\"}");
    bw_status s = bw_qdrant__no_shard_key(p, v);
    if (s == BW_OK)
        s = bw_qdrant__string(p, v, "collection", &out->lookup_collection);
    if (s == BW_OK)
        s = bw_qdrant__string(p, v, "vector", &out->lookup_vector);
    for (uint32_t i = 0; s == BW_OK && i < p->nlookups; i++)
        if (bw_str_eq(p->lookups[i], out->lookup_collection))
            return BW_OK;
    if (s == BW_OK && p->nlookups == BW_LIMIT_LOOKUPS)
        return bw_qdrant__invalid(
            p, "lookup_from", "more than %d collections in one call", BW_LIMIT_LOOKUPS);
    if (s == BW_OK)
        p->lookups[p->nlookups++] = out->lookup_collection;
    return s;
}

static bw_status threshold(bw_qdrant_parse *p, const bw_json *object, bw_query *out)
{
    const bw_json *v = bw_json_get_value(object, "score_threshold");
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_NUMBER)
        return bw_qdrant__format(p, v, "expected a number");
    out->has_score_threshold = true;
    out->score_threshold =
        (float)v->real; /* beyond f32: ±inf keeps none or all, as it should */
    return BW_OK;
}

static bw_status using_name(bw_qdrant_parse *p, const bw_json *object, bw_query *out)
{
    out->using_name = BW_STR("");
    bw_status s = bw_qdrant__string(p, object, "using", &out->using_name);
    const bw_json *v = bw_json_get_value(object, "using");
    if (s == BW_OK && v && p->info && !bw_qdrant__spec(p->info, out->using_name))
        s = bw_qdrant__wrong(p, "Not existing vector name error: %.*s",
                             bw_qdrant__cut(out->using_name, 96), out->using_name.ptr);
    return s;
}

static bw_status prefetches(bw_qdrant_parse *p, const bw_json *object, uint32_t depth,
                            bw_query *out)
{
    const bw_json *v = bw_json_get_value(object, "prefetch"), *e = v;
    uint32_t n = 1;
    if (!v)
        return BW_OK;
    if (depth >= BW_LIMIT_PREFETCH_DEPTH)
        return bw_qdrant__invalid(p, "prefetch", "nested deeper than %d",
                                  BW_LIMIT_PREFETCH_DEPTH);
    if (v->kind != BW_JSON_OBJECT) {
        bw_status s = bw_qdrant__list(p, v, "prefetches", BW_LIMIT_PREFETCH, &e, &n);
        if (s != BW_OK)
            return s;
    }
    p->prefetches += n;
    if (p->prefetches > BW_LIMIT_PREFETCH)
        return bw_qdrant__invalid(p, "prefetch", "more than %d in one query",
                                  BW_LIMIT_PREFETCH);
    bw_query *list = bw_arena_calloc(p->ctx, n, sizeof *list);
    if (!list)
        return bw_fail_nomem(p->ctx);
    for (uint32_t i = 0; i < n; i++, e = e->next) {
        bw_status s = query_at(p, e, depth + 1, &list[i]);
        if (s != BW_OK)
            return s;
    }
    out->prefetch = list;
    out->nprefetch = n;
    return BW_OK;
}

/* The fields that every form of a query has. */
static bw_status common(bw_qdrant_parse *p, const bw_json *node, const char *own,
                        bw_query *out)
{
    *out = (bw_query){.limit = 10, .using_name = BW_STR("")};
    if (node->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, node, "expected a query object");
    bw_status s = bw_qdrant__no_filter_words(p, node, own);
    if (s == BW_OK)
        s = bw_qdrant__no_shard_key(p, node);
    if (s == BW_OK)
        s = bw_qdrant__u32(p, node, "limit", 1, BW_LIMIT_LIMIT, &out->limit);
    if (s == BW_OK)
        s = bw_qdrant__u32(p, node, "offset", 0, BW_LIMIT_OFFSET, &out->offset);
    if (s == BW_OK)
        s = bw_qdrant__filter(p, bw_json_get(node, "filter"), &out->filter);
    if (s == BW_OK)
        s = params(p, node, out);
    if (s == BW_OK)
        s = threshold(p, node, out);
    return s == BW_OK ? lookup_from(p, node, out) : s;
}

static bw_status query_at(bw_qdrant_parse *p, const bw_json *node, uint32_t depth,
                          bw_query *out)
{
    bw_status s = common(p, node, NULL, out);
    if (s == BW_OK)
        s = using_name(p, node, out);
    if (s == BW_OK)
        s = prefetches(p, node, depth, out);
    return s == BW_OK ? query_kind(p, node, out) : s;
}

/* `_model` of a query, ours: the model that its vectors were made with. */
static bw_status declared_model(bw_qdrant_parse *p, const bw_json *body)
{
    bw_str given = {NULL, 0}, noted;
    bw_status s = bw_qdrant__string(p, body, "_model", &given);
    return s == BW_OK && given.ptr ? bw_qdrant__model(p, given, &noted) : s;
}

bw_status bw_qdrant__query(bw_qdrant_parse *p, const bw_json *body, bw_query *out,
                           bw_qdrant_show *show)
{
    *show = (bw_qdrant_show){0};
    p->prefetches = 0;
    bw_status s = query_at(p, body, 0, out);
    if (s == BW_OK)
        s = declared_model(p, body);
    return s == BW_OK ? bw_qdrant__show(p, body, "with_vector", show) : s;
}

/* ---- the older calls ---- */

/* "vector": [f], {"name", "vector"}, {"name", "vector": {indices, values}} */
bw_status bw_qdrant__search(bw_qdrant_parse *p, const bw_json *body, bw_query *out,
                            bw_qdrant_show *show)
{
    *show = (bw_qdrant_show){0};
    bw_status s = common(p, body, NULL, out);
    const bw_json *v = bw_json_get_value(body, "vector");
    if (s == BW_OK && !v)
        s = bw_qdrant__format(p, body, "missing field `vector`");
    if (s == BW_OK && v->kind == BW_JSON_OBJECT) {
        const bw_json *inner = bw_json_get_value(v, "vector");
        s = bw_qdrant__string(p, v, "name", &out->using_name);
        if (s == BW_OK && !inner)
            s = bw_qdrant__format(p, v, "expected a list or {\"name\", \"vector\"}");
        v = inner;
    }
    if (s != BW_OK)
        return s;
    out->kind = BW_QUERY_NEAREST;
    if (v->kind == BW_JSON_NUMBER || v->kind == BW_JSON_STRING)
        return bw_qdrant__format(p, v, "expected a vector");
    s = target(p, v, out->using_name, &out->target);
    if (s == BW_OK)
        s = declared_model(p, body);
    return s == BW_OK ? bw_qdrant__show(p, body, "with_vector", show) : s;
}

/* positive and negative stand at the top level. */
bw_status bw_qdrant__recommend(bw_qdrant_parse *p, const bw_json *body, bw_query *out,
                               bw_qdrant_show *show)
{
    *show = (bw_qdrant_show){0};
    bw_status s = common(p, body, NULL, out);
    if (s == BW_OK)
        s = using_name(p, body, out);
    if (s == BW_OK)
        s = recommend(p, body, out);
    return s == BW_OK ? bw_qdrant__show(p, body, "with_vector", show) : s;
}
