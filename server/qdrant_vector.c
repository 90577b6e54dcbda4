/* Vectors of the wire (contract, section 2, "Vectors") into bw_vector.
 *
 * A list of numbers goes straight into f32 (bw_json_f32): no node per number. What is
 * not finite in f32 is refused with the index of the component. Sparse vectors are
 * sorted by index here, once. Left out: multi vectors, server-side inference (Document,
 * Image, InferenceObject): refused by name. */
#include "qdrant.h"

#include <stdlib.h>

const bw_vector_spec *bw_qdrant__spec(const bw_collection_info *info, bw_str name)
{
    for (uint32_t i = 0; info && i < info->nvectors; i++)
        if (bw_str_eq(info->vectors[i].name, name))
            return &info->vectors[i];
    return NULL;
}

/* bw_json_f32's message names the component; the place is added here. */
static bw_status floats(bw_qdrant_parse *p, const bw_json *node, uint32_t max,
                        const float **out)
{
    if (node->count > max)
        return bw_qdrant__invalid(p, "vector", "%u components, at most %u are taken",
                                  node->count, max);
    if (node->floats) { /* the reader made them in passing; they live in the arena */
        *out = node->floats;
        return BW_OK;
    }
    float *v = bw_arena_alloc(p->ctx, (size_t)node->count * sizeof *v);
    if (!v)
        return bw_fail_nomem(p->ctx);
    bw_status s = node->count ? bw_json_f32(p->ctx, node, v) : BW_OK;
    if (s == BW_EINVALID) {
        const char *why = bw_arena_printf(p->ctx, "%s", bw_ctx_message(p->ctx));
        return why ? bw_qdrant__format(p, node, "%s", why) : bw_fail_nomem(p->ctx);
    }
    *out = v;
    return s;
}

static bool only_numbers(const bw_json *node)
{
    return node->kind == BW_JSON_NUMBERS ||
           (node->kind == BW_JSON_ARRAY && node->count == 0);
}

typedef struct pair {
    uint32_t index;
    float value;
} pair;

static int pair_cmp(const void *a, const void *b)
{
    uint32_t x = ((const pair *)a)->index, y = ((const pair *)b)->index;
    return x < y ? -1 : x > y;
}

/* Ascending order; false on a repeated index. */
static bool sparse_sort(pair *pairs, uint32_t n)
{
    bool sorted = true;
    for (uint32_t i = 1; i < n && sorted; i++)
        sorted = pairs[i - 1].index < pairs[i].index;
    if (sorted)
        return true;
    qsort(pairs, n, sizeof *pairs, pair_cmp);
    for (uint32_t i = 1; i < n; i++)
        if (pairs[i - 1].index == pairs[i].index)
            return false;
    return true;
}

static bw_status sparse(bw_qdrant_parse *p, const bw_json *node, bw_vector *out)
{
    const bw_json *ji = bw_json_get_value(node, "indices"),
                  *jv = bw_json_get_value(node, "values");
    const float *values = NULL;
    if (!ji || !jv)
        return bw_qdrant__format(p, node, "missing field `%s`",
                                 ji ? "values" : "indices");
    if (!only_numbers(ji) || !only_numbers(jv))
        return bw_qdrant__format(p, only_numbers(ji) ? jv : ji,
                                 "expected a list of numbers");
    if (ji->count != jv->count)
        return bw_qdrant__invalid(p, "indices", "must be the same length as values");
    uint32_t n = ji->count;
    bw_status s = floats(p, jv, BW_LIMIT_SPARSE_VALUES, &values);
    if (s != BW_OK)
        return s;
    uint32_t *indices = bw_arena_alloc(p->ctx, n * sizeof *indices);
    float *sorted = bw_arena_alloc(p->ctx, n * sizeof *sorted);
    pair *pairs = bw_arena_alloc(p->ctx, n * sizeof *pairs);
    if (!indices || !sorted || !pairs)
        return bw_fail_nomem(p->ctx);
    if (n && bw_json_u32(p->ctx, ji, indices) != BW_OK)
        return bw_qdrant__format(p, ji, "indices are unsigned 32-bit integers");
    for (uint32_t i = 0; i < n; i++)
        pairs[i] = (pair){indices[i], values[i]};
    if (!sparse_sort(pairs, n))
        return bw_qdrant__invalid(p, "indices", "must be unique");
    for (uint32_t i = 0; i < n; i++) {
        indices[i] = pairs[i].index;
        sorted[i] = pairs[i].value;
    }
    out->values = sorted;
    out->indices = indices;
    out->n = n;
    out->sparse = true;
    return BW_OK;
}

bw_status bw_qdrant__vector(bw_qdrant_parse *p, const bw_json *node, bw_str name,
                            bw_vector *out)
{
    *out = (bw_vector){.name = name};
    if (only_numbers(node)) {
        const float *values = NULL;
        bw_status s = floats(p, node, BW_LIMIT_DIM, &values);
        out->values = values;
        out->n = node->count;
        return s;
    }
    if (node->kind == BW_JSON_ARRAY) {
        uint32_t i = 0;
        for (const bw_json *e = node->child; e; e = e->next, i++)
            if (!bw_json_is_array(e) && e->kind != BW_JSON_NUMBER)
                return bw_qdrant__format(p, e, "component %u is no number", i);
        return bw_qdrant__later(p, node, "a multi vector");
    }
    if (node->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, node, "expected a vector");
    if (bw_json_get(node, "text") || bw_json_get(node, "image") ||
        bw_json_get(node, "object"))
        return bw_qdrant__later(p, node, "inference from a text, image or object");
    return sparse(p, node, out);
}

bw_status bw_qdrant__vector_fits(bw_qdrant_parse *p, const bw_vector *v, bw_str name)
{
    if (!p->info)
        return BW_OK;
    const bw_vector_spec *spec = bw_qdrant__spec(p->info, name);
    if (!spec)
        return bw_qdrant__wrong(p, "Not existing vector name error: %.*s",
                                bw_qdrant__cut(name, 96), name.ptr);
    if (spec->sparse != v->sparse)
        return bw_qdrant__wrong(p,
                                "Conversion between sparse and regular vectors failed: "
                                "vector `%.*s` is %s",
                                bw_qdrant__cut(name, 96), name.ptr,
                                spec->sparse ? "sparse" : "dense");
    if (!spec->sparse && spec->dim != v->n)
        return bw_qdrant__wrong(p, "Vector dimension error: expected dim: %u, got %u",
                                spec->dim, v->n);
    return BW_OK;
}

bw_status bw_qdrant__vectors(bw_qdrant_parse *p, const bw_json *node,
                             const bw_vector **out, uint32_t *n)
{
    bool map = node->kind == BW_JSON_OBJECT;
    if (!map && !bw_json_is_array(node))
        return bw_qdrant__format(p, node, "expected a vector or a map of vectors");
    uint32_t count = map ? node->count : 1, kept = 0;
    if (count > BW_LIMIT_VECTORS)
        return bw_qdrant__invalid(p, "vector", "%u names, at most %d are taken", count,
                                  BW_LIMIT_VECTORS);
    bw_vector *vs = bw_arena_calloc(p->ctx, count, sizeof *vs);
    if (!vs)
        return bw_fail_nomem(p->ctx);
    for (const bw_json *e = map ? node->child : node; e; e = map ? e->next : NULL) {
        bw_str name = map ? e->key : BW_STR("");
        if (map && e->kind == BW_JSON_NULL)
            continue;
        if (map && e->kind == BW_JSON_STRING)
            return bw_qdrant__later(p, node, "inference from a text, image or object");
        bw_status s = bw_qdrant__vector(p, e, name, &vs[kept]);
        if (s == BW_OK)
            s = bw_qdrant__vector_fits(p, &vs[kept], name);
        if (s != BW_OK)
            return s;
        kept++;
    }
    *out = vs;
    *n = kept;
    return BW_OK;
}
