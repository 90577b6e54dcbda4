/* The bodies of the write calls into bw_op (contract, sections 5.4 and 6, items 3, 6,
 * 11).
 *
 * A point's class is not decided here: labels->given[i] is what the client said, and
 * the handler asks the gate. Vectors and names are checked against the collection
 * before anything is written, so a wrong point leaves nothing of its batch behind. */
#include "qdrant.h"

/* ---- upsert ---- */

static bw_status payload_object(bw_qdrant_parse *p, const bw_json *v,
                                const bw_json **out)
{
    *out = NULL;
    if (!v || v->kind == BW_JSON_NULL)
        return BW_OK;
    if (v->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, v, "a payload is an object");
    *out = v;
    return BW_OK;
}

static bw_status point_payload(bw_qdrant_parse *p, const bw_json *v, bw_point *out,
                               const bw_json **labels)
{
    const bw_json *payload;
    bw_qdrant_facts facts;
    bw_status s = payload_object(p, v, &payload);
    if (s == BW_OK)
        s = bw_qdrant__facts(p, payload, &facts);
    if (s != BW_OK)
        return s;
    if (payload && payload->count)
        out->payload = payload->raw;
    out->text = facts.text;
    out->facts = facts.facts;
    *labels = facts.labels;
    return BW_OK;
}

static bw_status point(bw_qdrant_parse *p, const bw_json *node, bw_point *out,
                       const bw_json **labels)
{
    if (node->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, node, "expected a point: {id, vector, payload?}");
    const bw_json *id = bw_json_get_value(node, "id"),
                  *vector = bw_json_get_value(node, "vector");
    if (!vector) /* Qdrant takes both spellings */
        vector = bw_json_get_value(node, "vectors");
    if (!id || !vector)
        return bw_qdrant__format(p, node, "missing field `%s`", id ? "vector" : "id");
    bw_status s = bw_qdrant__no_filter_words(p, node, NULL);
    if (s == BW_OK)
        s = bw_qdrant__point_id(p, id, &out->id);
    if (s == BW_OK)
        s = bw_qdrant__vectors(p, vector, &out->vectors, &out->nvectors);
    return s == BW_OK ? point_payload(p, bw_json_get(node, "payload"), out, labels) : s;
}

static bw_status alloc_points(bw_qdrant_parse *p, uint32_t n, bw_op *op,
                              bw_point **points, bw_qdrant_labels *labels)
{
    *points = bw_arena_calloc(p->ctx, n, sizeof **points);
    labels->given = bw_arena_calloc(p->ctx, n, sizeof *labels->given);
    if (!*points || !labels->given)
        return bw_fail_nomem(p->ctx);
    op->points = *points;
    op->npoints = n;
    return BW_OK;
}

static bw_status point_list(bw_qdrant_parse *p, const bw_json *list, bw_op *op,
                            bw_qdrant_labels *labels)
{
    const bw_json *e;
    uint32_t n;
    bw_point *points;
    bw_status s = bw_qdrant__list(p, list, "points", BW_LIMIT_POINTS, &e, &n);
    if (s == BW_OK)
        s = alloc_points(p, n, op, &points, labels);
    for (uint32_t i = 0; s == BW_OK && e; e = e->next, i++)
        s = point(p, e, &points[i], &labels->given[i]);
    return s;
}

/* {"ids": […], "vectors": [[f]…] or {name: […]}, "payloads"?: […]} */
static bw_status batch_column(bw_qdrant_parse *p, const bw_json *list, bw_str name,
                              uint32_t n, bw_vector *vs, uint32_t *counts,
                              uint32_t stride)
{
    const bw_json *e;
    uint32_t count;
    if (!list || list->kind != BW_JSON_ARRAY)
        return bw_qdrant__format(p, list,
                                 "expected a list with one vector for each id");
    bw_status s = bw_qdrant__list(p, list, "vectors", BW_LIMIT_POINTS, &e, &count);
    if (s != BW_OK)
        return s;
    if (count != n)
        return bw_qdrant__format(
            p, list, "%u vectors for %u ids: one for each is expected", count, n);
    for (uint32_t i = 0; e; e = e->next, i++) {
        if (e->kind == BW_JSON_NULL)
            continue;
        bw_vector *v = &vs[(size_t)i * stride + counts[i]];
        if ((s = bw_qdrant__vector(p, e, name, v)) != BW_OK ||
            (s = bw_qdrant__vector_fits(p, v, name)) != BW_OK)
            return s;
        counts[i]++;
    }
    return BW_OK;
}

static bw_status batch_vectors(bw_qdrant_parse *p, const bw_json *vectors, uint32_t n,
                               bw_point *points)
{
    bool map = vectors->kind == BW_JSON_OBJECT;
    if (!map && vectors->kind != BW_JSON_ARRAY)
        return bw_qdrant__format(p, vectors, "expected [[…], …] or {name: [[…], …]}");
    uint32_t stride = map ? vectors->count : 1;
    if (stride > BW_LIMIT_VECTORS)
        return bw_qdrant__invalid(p, "vectors", "%u names, at most %d are taken",
                                  stride, BW_LIMIT_VECTORS);
    bw_vector *vs = bw_arena_calloc(p->ctx, (size_t)n * stride, sizeof *vs);
    uint32_t *counts = bw_arena_calloc(p->ctx, n, sizeof *counts);
    if (!vs || !counts)
        return bw_fail_nomem(p->ctx);
    bw_status s = BW_OK;
    if (!map)
        s = batch_column(p, vectors, BW_STR(""), n, vs, counts, stride);
    for (const bw_json *m = map ? vectors->child : NULL; m && s == BW_OK; m = m->next)
        s = batch_column(p, m, m->key, n, vs, counts, stride);
    for (uint32_t i = 0; s == BW_OK && i < n; i++) {
        points[i].vectors = vs + (size_t)i * stride;
        points[i].nvectors = counts[i];
    }
    return s;
}

static bw_status batch(bw_qdrant_parse *p, const bw_json *node, bw_op *op,
                       bw_qdrant_labels *labels)
{
    const bw_point_id *ids;
    uint32_t n, npayloads = 0;
    bw_point *points = NULL;
    const bw_json *e = NULL;
    if (node->kind != BW_JSON_OBJECT || !bw_json_get_value(node, "ids") ||
        !bw_json_get_value(node, "vectors"))
        return bw_qdrant__format(p, node,
                                 "expected {ids: […], vectors: […] or {name: […]}, "
                                 "payloads?: […]}");
    const bw_json *payloads = bw_json_get_value(node, "payloads");
    bw_status s = bw_qdrant__ids(p, bw_json_get_value(node, "ids"), "ids", &ids, &n);
    if (s == BW_OK)
        s = alloc_points(p, n, op, &points, labels);
    if (s == BW_OK)
        s = batch_vectors(p, bw_json_get_value(node, "vectors"), n, points);
    if (s == BW_OK && payloads)
        s = bw_qdrant__list(p, payloads, "payloads", BW_LIMIT_POINTS, &e, &npayloads);
    if (s == BW_OK && payloads && npayloads != n)
        s = bw_qdrant__format(p, payloads,
                              "%u payloads for %u ids: one for each is expected",
                              npayloads, n);
    for (uint32_t i = 0; s == BW_OK && i < n; i++, e = e ? e->next : NULL) {
        points[i].id = ids[i];
        s = point_payload(p, e, &points[i], &labels->given[i]);
    }
    return s;
}

static bw_status update_mode(bw_qdrant_parse *p, const bw_json *body,
                             bw_update_mode *out)
{
    bw_str mode = {NULL, 0};
    bw_status s = bw_qdrant__string(p, body, "update_mode", &mode);
    if (s != BW_OK || !mode.ptr || bw_str_is(mode, "upsert"))
        return s;
    if (bw_str_is(mode, "insert_only"))
        *out = BW_UPDATE_INSERT_ONLY;
    else if (bw_str_is(mode, "update_only"))
        *out = BW_UPDATE_UPDATE_ONLY;
    else
        return bw_qdrant__format(p, bw_json_get(body, "update_mode"),
                                 "expected upsert, insert_only or update_only");
    return BW_OK;
}

bw_status bw_qdrant__upsert(bw_qdrant_parse *p, const bw_json *body, bw_op *op,
                            bw_qdrant_labels *labels)
{
    *op = (bw_op){.kind = BW_OP_UPSERT};
    const bw_json *list = bw_json_get_value(body, "points"),
                  *b = bw_json_get_value(body, "batch");
    bw_status s = bw_qdrant__no_filter_words(p, body, NULL);
    if (s == BW_OK)
        s = bw_qdrant__no_shard_key(p, body);
    if (s == BW_OK && !list == !b)
        s = bw_qdrant__format(p, NULL, "expected either `points` or `batch`");
    if (s == BW_OK)
        s = list ? point_list(p, list, op, labels) : batch(p, b, op, labels);
    if (s == BW_OK && op->npoints == 0)
        s = bw_qdrant__wrong(p, "Empty update request");
    if (s == BW_OK)
        s = bw_qdrant__filter(p, bw_json_get(body, "update_filter"),
                              &op->update_filter);
    return s == BW_OK ? update_mode(p, body, &op->mode) : s;
}

/* ---- which points ---- */

/* `points` or `filter`, one of them: dropping one would widen the call. A filter
 * without clauses means every point that the caller may change, and becomes an empty
 * bw_filter. */
static bw_status selector(bw_qdrant_parse *p, const bw_json *body, const char *own,
                          bw_op *op)
{
    const bw_json *ids = bw_json_get_value(body, "points");
    const bw_json *filter = bw_json_get_value(body, "filter");
    bw_status s = bw_qdrant__no_filter_words(p, body, own);
    if (s == BW_OK)
        s = bw_qdrant__no_shard_key(p, body);
    if (s != BW_OK)
        return s;
    if (!ids == !filter)
        return bw_qdrant__format(
            p, NULL,
            "data did not match any variant of untagged enum PointsSelector: "
            "expected either `points` or `filter`");
    if (ids)
        return bw_qdrant__ids(p, ids, "points", &op->ids, &op->nids);
    s = bw_qdrant__filter(p, filter, &op->filter);
    if (s == BW_OK && !op->filter) {
        op->filter = bw_arena_calloc(p->ctx, 1, sizeof(bw_filter));
        if (!op->filter)
            return bw_fail_nomem(p->ctx);
    }
    return s;
}

bw_status bw_qdrant__delete(bw_qdrant_parse *p, const bw_json *body, bw_op *op)
{
    *op = (bw_op){.kind = BW_OP_DELETE};
    return selector(p, body, NULL, op);
}

bw_status bw_qdrant__clear_payload(bw_qdrant_parse *p, const bw_json *body, bw_op *op)
{
    *op = (bw_op){.kind = BW_OP_CLEAR_PAYLOAD, .text_of = bw_qdrant__text_of};
    return selector(p, body, NULL, op);
}

/* ---- payload ---- */

/* Levels of a value; the reader has capped them, and so this recursion. */
static uint32_t levels(const bw_json *v)
{
    uint32_t most = 0;
    if (v->kind == BW_JSON_NUMBERS)
        return 1;
    if (v->kind != BW_JSON_OBJECT && v->kind != BW_JSON_ARRAY)
        return 0;
    for (const bw_json *m = v->child; m; m = m->next) {
        uint32_t n = levels(m);
        most = n > most ? n : most;
    }
    return most + 1;
}

/* A payload set under a key nests deeper than it came: what is stored must stay what a
 * reader takes back. */
static bw_status nests_too_deep(bw_qdrant_parse *p, const bw_json *payload, bw_str key)
{
    bw_step steps[BW_PATH_STEPS_MAX];
    uint32_t n = 0;
    if (key.len && !bw_path_read(key, steps, &n))
        return bw_qdrant__format(p, payload, "not a payload path");
    if (levels(payload) + n > BW_LIMIT_PAYLOAD_DEPTH)
        return bw_qdrant__format(p, payload, "the payload would nest deeper than %d",
                                 BW_LIMIT_PAYLOAD_DEPTH);
    return BW_OK;
}

bw_status bw_qdrant__set_payload(bw_qdrant_parse *p, const bw_json *body,
                                 bw_op_kind kind, bw_op *op)
{
    *op = (bw_op){.kind = kind, .text_of = bw_qdrant__text_of};
    const bw_json *payload = bw_json_get_value(body, "payload");
    const bw_json *key = bw_json_get_value(body, "key");
    bw_status s = selector(p, body, "key", op);
    if (s == BW_OK && !payload)
        s = bw_qdrant__format(p, NULL, "missing field `payload`");
    if (s == BW_OK && payload->kind != BW_JSON_OBJECT)
        s = bw_qdrant__format(p, payload, "a payload is an object");
    if (s == BW_OK && key && kind == BW_OP_SET_PAYLOAD)
        s = bw_qdrant__path_field(p, key, "key", &op->key);
    if (s == BW_OK)
        s = bw_qdrant__no_facts(p, payload, op->key);
    if (s == BW_OK)
        s = nests_too_deep(p, payload, op->key);
    if (s == BW_OK)
        op->payload = payload->raw;
    return s;
}

bw_status bw_qdrant__delete_payload(bw_qdrant_parse *p, const bw_json *body, bw_op *op)
{
    *op = (bw_op){.kind = BW_OP_DELETE_PAYLOAD, .text_of = bw_qdrant__text_of};
    const bw_json *e;
    bw_status s = selector(p, body, NULL, op);
    if (s == BW_OK)
        s = bw_qdrant__list(p, bw_json_get_value(body, "keys"), "keys", BW_LIMIT_KEYS,
                            &e, &op->nkeys);
    if (s != BW_OK)
        return s;
    bw_str *keys = bw_arena_calloc(p->ctx, op->nkeys, sizeof *keys);
    if (!keys)
        return bw_fail_nomem(p->ctx);
    for (uint32_t i = 0; s == BW_OK && e; e = e->next, i++) {
        s = bw_qdrant__path_field(p, e, "key", &keys[i]);
        if (s == BW_OK)
            s = bw_qdrant__no_fact_path(p, e, keys[i]);
    }
    op->keys = keys;
    return s;
}

/* ---- vectors ---- */

bw_status bw_qdrant__update_vectors(bw_qdrant_parse *p, const bw_json *body, bw_op *op)
{
    *op = (bw_op){.kind = BW_OP_UPDATE_VECTORS};
    const bw_json *e;
    bw_status s = bw_qdrant__no_filter_words(p, body, NULL);
    if (s == BW_OK)
        s = bw_qdrant__no_shard_key(p, body);
    if (s == BW_OK)
        s = bw_qdrant__list(p, bw_json_get_value(body, "points"), "points",
                            BW_LIMIT_POINTS, &e, &op->npoints);
    if (s != BW_OK)
        return s;
    if (op->npoints == 0)
        return bw_qdrant__invalid(p, "points", "must not be empty");
    bw_point *points = bw_arena_calloc(p->ctx, op->npoints, sizeof *points);
    if (!points)
        return bw_fail_nomem(p->ctx);
    for (uint32_t i = 0; s == BW_OK && e; e = e->next, i++) {
        const bw_json *labels;
        const bw_json *payload = bw_json_get_value(e, "payload");
        s = payload ? bw_qdrant__format(p, payload, "a vector call sets no payload")
                    : point(p, e, &points[i], &labels);
        if (s == BW_OK) /* the point's facts stay as they are */
            points[i].facts = (bw_point_facts){0};
    }
    op->points = points;
    const bw_json *filter = bw_json_get_value(body, "update_filter");
    if (s == BW_OK &&
        filter) /* the engine has it for whole points; dropping it would widen */
        s = bw_qdrant__later(p, filter, "update_filter of a vector call");
    return s;
}

bw_status bw_qdrant__delete_vectors(bw_qdrant_parse *p, const bw_json *body, bw_op *op)
{
    *op = (bw_op){.kind = BW_OP_DELETE_VECTORS};
    bw_status s = selector(p, body, NULL, op);
    if (s == BW_OK)
        s = bw_qdrant__vector_names(p, bw_json_get_value(body, "vector"), &op->keys,
                                    &op->nkeys);
    if (s == BW_OK && op->nkeys == 0)
        s = bw_qdrant__invalid(p, "vector", "must not be empty");
    return s;
}
