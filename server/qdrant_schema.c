/* A collection's description: PUT and PATCH bodies into vector specs and kept settings,
 * and the settings back into `config` (contract, sections 2 and 5.6).
 *
 * What the cell does not act on (optimizer, WAL, quantization, replication) is checked
 * for its type, kept, and shown again like the rest: clients compare it. What is kept is
 * rebuilt word by word from the tables below, because the Python client refuses unknown
 * words inside `vectors` and `sparse_vectors`, and nulls count as left out.
 *
 * Settings (one JSON object, ours): vectors and sparse_vectors in the form that the
 * client used, hnsw_config, optimizers_config, wal_config, quantization_config, params
 * (the scalar words), metadata. Of metadata the cell reads `_model` (the embedding
 * model or models that the collection is bound to) and `_labels` (its default labels).
 *
 * Left out: multivector_config, custom sharding, an enabled strict mode, init_from:
 * 400. */
#include "qdrant_words.h"

static const bw_qdrant_word hnsw_words[] = {
    {"m", 'u', NULL, 0, "16"},
    {"ef_construct", 'u', NULL, 4, "100"},
    {"full_scan_threshold", 'u', NULL, 10, "10000"},
    {"max_indexing_threads", 'u', NULL, 0, "0"},
    {"on_disk", 'b', NULL, 0, "false"},
    {"payload_m", 'u', NULL, 0, NULL},
    {"inline_storage", 'b', NULL, 0, NULL},
    {NULL, 0, NULL, 0, NULL},
};
static const bw_qdrant_word optimizer_words[] = {
    {"deleted_threshold", 'n', NULL, 0, "0.2"},
    {"vacuum_min_vector_number", 'u', NULL, 100, "1000"},
    {"default_segment_number", 'u', NULL, 0, "0"},
    {"max_segment_size", 'u', NULL, 1, "null"},
    {"memmap_threshold", 'u', NULL, 0, "null"},
    {"indexing_threshold", 'u', NULL, 0, "10000"},
    {"flush_interval_sec", 'u', NULL, 0, "5"},
    {"max_optimization_threads", 'x', NULL, 0, "null"},
    {"prevent_unoptimized", 'b', NULL, 0, NULL},
    {NULL, 0, NULL, 0, NULL},
};
static const bw_qdrant_word wal_words[] = {
    {"wal_capacity_mb", 'u', NULL, 1, "32"},
    {"wal_segments_ahead", 'u', NULL, 0, "0"},
    {"wal_retain_closed", 'u', NULL, 0, "1"},
    {NULL, 0, NULL, 0, NULL},
};
static const bw_qdrant_word param_words[] = {
    {"shard_number", 'u', NULL, 1, "1"},
    {"replication_factor", 'u', NULL, 1, "1"},
    {"write_consistency_factor", 'u', NULL, 1, "1"},
    {"read_fan_out_factor", 'u', NULL, 0, NULL},
    {"read_fan_out_delay_ms", 'u', NULL, 0, NULL},
    {"on_disk_payload", 'b', NULL, 0, "true"},
    {NULL, 0, NULL, 0, NULL},
};
static const bw_qdrant_word vector_words[] = {
    {"size", 'u', NULL, 1, NULL},
    {"distance", 's', NULL, 0, NULL},
    {"hnsw_config", 'o', hnsw_words, 0, NULL},
    {"quantization_config", 'o', NULL, 0, NULL},
    {"on_disk", 'b', NULL, 0, NULL},
    {"datatype", 's', NULL, 0, NULL},
    {"_index", 's', NULL, 0, NULL},
    {NULL, 0, NULL, 0, NULL},
};
static const bw_qdrant_word sparse_index_words[] = {
    {"full_scan_threshold", 'u', NULL, 0, NULL},
    {"on_disk", 'b', NULL, 0, NULL},
    {"datatype", 's', NULL, 0, NULL},
    {NULL, 0, NULL, 0, NULL},
};
static const bw_qdrant_word sparse_words[] = {
    {"index", 'o', sparse_index_words, 0, NULL},
    {"modifier", 's', NULL, 0, NULL},
    {NULL, 0, NULL, 0, NULL},
};

static bw_status object_field(bw_qdrant_parse *p, const bw_json *object,
                              const char *name, const bw_json **out)
{
    *out = bw_json_get_value(object, name);
    if (*out && (*out)->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, *out, "expected an object");
    return BW_OK;
}

/* ---- names ---- */

bool bw_qdrant__name_valid(bw_str name, const char **why)
{
    /* U+2044, U+2215, U+29F8 and U+FF0F look like a slash. */
    static const char *const alike[] = {"\xE2\x81\x84", "\xE2\x88\x95", "\xE2\xA7\xB8",
                                        "\xEF\xBC\x8F"};
    *why = NULL;
    if (name.len == 0)
        *why = "must not be empty";
    else if (name.len > BW_LIMIT_COLLECTION_NAME)
        *why = "must be at most 255 characters long";
    else if (bw_str_is(name, ".") || bw_str_is(name, ".."))
        *why = "cannot be a relative path";
    for (size_t i = 0; !*why && i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (c == '/')
            *why = "cannot contain '/' char";
        else if (c < 0x20 || c == 0x7F || strchr("<>:\"\\|?*", c))
            *why = "cannot contain any of <>:\"\\|?* or control characters";
        for (size_t k = 0; k < sizeof alike / sizeof *alike; k++)
            if (name.len - i >= 3 && strlen(alike[k]) == 3 &&
                memcmp(name.ptr + i, alike[k], 3) == 0)
                *why = "cannot contain a character that looks like a slash";
    }
    return !*why;
}

/* ---- vectors ---- */

static const struct {
    const char *name;
    bw_metric metric;
} distances[] = {{"Cosine", BW_METRIC_COSINE},
                 {"Dot", BW_METRIC_DOT},
                 {"Euclid", BW_METRIC_EUCLID},
                 {"Manhattan", BW_METRIC_MANHATTAN}};

static bw_status dense_spec(bw_qdrant_parse *p, const bw_json *node, bw_str name,
                            bw_vector_spec *out)
{
    const bw_json *distance = bw_json_get_value(node, "distance");
    const bw_json *multi = bw_json_get_value(node, "multivector_config");
    *out = (bw_vector_spec){.name = name};
    if (node->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, node, "expected {\"size\", \"distance\", …}");
    if (!bw_json_get_value(node, "size") || !distance)
        return bw_qdrant__format(p, node, "missing field `%s`",
                                 distance ? "size" : "distance");
    if (multi)
        return bw_qdrant__later(p, multi, "a multi vector");
    bw_status s = bw_qdrant__storage(p, node, p->hnsw, out);
    if (s == BW_OK)
        s = bw_qdrant__u32(p, node, "size", 1, BW_LIMIT_DIM, &out->dim);
    if (s != BW_OK)
        return s;
    for (size_t i = 0; i < sizeof distances / sizeof *distances; i++)
        if (distance->kind == BW_JSON_STRING &&
            bw_str_eq(distance->str, bw_str_c(distances[i].name))) {
            out->metric = distances[i].metric;
            return BW_OK;
        }
    return bw_qdrant__format(p, distance,
                             "unknown variant, expected Cosine, Dot, Euclid or "
                             "Manhattan");
}

static bw_status sparse_spec(bw_qdrant_parse *p, const bw_json *node, bw_str name,
                             bw_vector_spec *out)
{
    bw_str modifier = {NULL, 0};
    *out = (bw_vector_spec){.name = name, .metric = BW_METRIC_DOT, .sparse = true};
    if (node->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, node, "expected an object");
    bw_status s = bw_qdrant__string(p, node, "modifier", &modifier);
    if (s != BW_OK || !modifier.ptr || bw_str_is(modifier, "none"))
        return s;
    if (!bw_str_is(modifier, "idf"))
        return bw_qdrant__format(p, bw_json_get(node, "modifier"),
                                 "unknown variant, expected none or idf");
    out->idf = true;
    return BW_OK;
}

static bool single_form(const bw_json *vectors)
{
    const bw_json *size = bw_json_get(vectors, "size"),
                  *distance = bw_json_get(vectors, "distance");
    return (size && size->kind != BW_JSON_OBJECT) ||
           (distance && distance->kind != BW_JSON_OBJECT);
}

static bw_status add_spec(bw_qdrant_parse *p, const bw_vector_spec *spec,
                          bw_vector_spec *specs, uint32_t *n)
{
    if (*n == BW_LIMIT_VECTORS)
        return bw_qdrant__invalid(p, "vectors", "at most %d names are taken",
                                  BW_LIMIT_VECTORS);
    if (spec->name.len > BW_LIMIT_VECTOR_NAME)
        return bw_qdrant__invalid(p, "vectors", "a name is longer than %d bytes",
                                  BW_LIMIT_VECTOR_NAME);
    for (uint32_t i = 0; i < *n; i++)
        if (bw_str_eq(specs[i].name, spec->name))
            return bw_qdrant__wrong(
                p, "the name of a dense and a sparse vector must differ");
    specs[(*n)++] = *spec;
    return BW_OK;
}

/* Specs of one family, and its settings in the client's form. */
static bw_status family(bw_qdrant_parse *p, const bw_json *vectors, bool sparse,
                        bw_buf *b, bw_vector_spec *specs, uint32_t *n)
{
    const bw_qdrant_word *words = sparse ? sparse_words : vector_words;
    bw_status (*read)(bw_qdrant_parse *, const bw_json *, bw_str, bw_vector_spec *) =
        sparse ? sparse_spec : dense_spec;
    bw_vector_spec spec;
    bw_status s;
    if (!sparse && single_form(vectors)) {
        if ((s = read(p, vectors, BW_STR(""), &spec)) != BW_OK ||
            (s = add_spec(p, &spec, specs, n)) != BW_OK)
            return s;
        return bw_qdrant__put_words(p, b, words, NULL, vectors);
    }
    bw_buf_putc(b, '{');
    for (const bw_json *m = vectors->child; m; m = m->next) {
        if (m->kind == BW_JSON_NULL)
            continue;
        if ((s = read(p, m, m->key, &spec)) != BW_OK ||
            (s = add_spec(p, &spec, specs, n)) != BW_OK)
            return s;
        bw_json_sep(b);
        bw_json_put_str(b, m->key);
        bw_buf_putc(b, ':');
        if ((s = bw_qdrant__put_words(p, b, words, NULL, m)) != BW_OK)
            return s;
    }
    bw_buf_putc(b, '}');
    return BW_OK;
}

/* ---- the settings object ---- */

/* metadata: top-level merge; a null drops the word. */
static bw_status put_metadata(bw_qdrant_parse *p, bw_buf *b, const bw_json *base,
                              const bw_json *over, bw_str *labels)
{
    if (!base && !over)
        return BW_OK;
    bw_json_put_key(b, "metadata");
    bw_buf_putc(b, '{');
    for (const bw_json *m = base ? base->child : NULL; m; m = m->next) {
        if (over && bw_json_get_str(over, m->key))
            continue;
        bw_json_sep(b);
        bw_json_put_str(b, m->key);
        bw_buf_putc(b, ':');
        bw_buf_str(b, m->raw);
    }
    for (const bw_json *m = over ? over->child : NULL; m; m = m->next) {
        if (bw_str_is(m->key, "_labels") && m->kind != BW_JSON_NULL) {
            if (m->kind != BW_JSON_OBJECT)
                return bw_qdrant__invalid(p, "metadata._labels", "expected an object");
            *labels = m->raw;
        }
        if (m->kind == BW_JSON_NULL && base)
            continue;
        bw_json_sep(b);
        bw_json_put_str(b, m->key);
        bw_buf_putc(b, ':');
        bw_buf_str(b, m->raw);
    }
    bw_buf_putc(b, '}');
    return BW_OK;
}

static const struct {
    const char *wire, *kept, *shown;
    const bw_qdrant_word *words;
} parts[] = {
    {"hnsw_config", "hnsw_config", "hnsw_config", hnsw_words},
    {"optimizers_config", "optimizers_config", "optimizer_config", optimizer_words},
    {"wal_config", "wal_config", "wal_config", wal_words},
};

/* Everything but the vectors. base: the settings so far, or NULL. */
static bw_status put_parts(bw_qdrant_parse *p, bw_buf *b, const bw_json *base,
                           const bw_json *params, const bw_json *body, bw_str *labels)
{
    const bw_json *over, *metadata;
    bw_status s;
    if ((s = bw_qdrant__hnsw(p, bw_json_get_value(body, "hnsw_config"))) != BW_OK)
        return s;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const bw_json *low = bw_json_get(base, parts[i].kept);
        if ((s = object_field(p, body, parts[i].wire, &over)) != BW_OK)
            return s;
        if (!over && !low)
            continue;
        bw_json_put_key(b, parts[i].kept);
        if ((s = bw_qdrant__put_words(p, b, parts[i].words, low, over)) != BW_OK)
            return s;
    }
    bw_json_put_key(b, "params");
    if ((s = bw_qdrant__put_words(p, b, param_words, bw_json_get(base, "params"), params)) !=
        BW_OK)
        return s;
    const bw_json *q = bw_json_get_value(body, "quantization_config");
    const bw_json *low = bw_json_get(base, "quantization_config");
    if (q && q->kind == BW_JSON_STRING && bw_str_is(q->str, "Disabled"))
        q = low = NULL;
    else if ((s = bw_qdrant__quantization(p, q)) != BW_OK)
        return s;
    if (q || low) {
        bw_json_put_key(b, "quantization_config");
        bw_buf_str(b, q ? q->raw : low->raw);
    }
    if ((s = object_field(p, body, "metadata", &metadata)) != BW_OK)
        return s;
    return put_metadata(p, b, bw_json_get(base, "metadata"), metadata, labels);
}

static bw_status refuse_unserved(bw_qdrant_parse *p, const bw_json *body)
{
    const bw_json *v = bw_json_get_value(body, "sharding_method");
    if (v && !(v->kind == BW_JSON_STRING && bw_str_is(v->str, "auto")))
        return bw_qdrant__later(p, v, "custom sharding");
    if ((v = bw_json_get_value(body, "init_from")))
        return bw_qdrant__later(p, v, "init_from");
    v = bw_json_get_value(bw_json_get(body, "strict_mode_config"), "enabled");
    if (v && v->kind == BW_JSON_TRUE)
        return bw_qdrant__later(p, v, "strict mode");
    return BW_OK;
}

static bw_status settle(bw_qdrant_parse *p, bw_buf *b, bw_qdrant_schema *out)
{
    if (b->failed)
        return bw_fail_nomem(p->ctx);
    if (b->len > BW_LIMIT_SETTINGS_BYTES)
        return bw_qdrant__invalid(p, "metadata",
                                  "the settings are longer than %d bytes",
                                  BW_LIMIT_SETTINGS_BYTES);
    return bw_arena_str(p->ctx, bw_buf_view(b), &out->settings);
}

bw_status bw_qdrant__create(bw_qdrant_parse *p, const bw_json *body,
                            bw_qdrant_schema *out)
{
    bw_buf b = {0};
    const bw_json *dense, *sparse;
    *out = (bw_qdrant_schema){0};
    bw_vector_spec *specs = bw_arena_calloc(p->ctx, BW_LIMIT_VECTORS, sizeof *specs);
    if (!specs)
        return bw_fail_nomem(p->ctx);
    bw_status s = refuse_unserved(p, body);
    if (s == BW_OK)
        s = object_field(p, body, "vectors", &dense);
    if (s == BW_OK)
        s = object_field(p, body, "sparse_vectors", &sparse);
    if (s != BW_OK)
        return s;
    bw_buf_puts(&b, "{\"vectors\":");
    p->hnsw = bw_json_get_value(body, "hnsw_config");
    if (dense)
        s = family(p, dense, false, &b, specs, &out->nvectors);
    else
        bw_buf_puts(&b, "{}");
    if (s == BW_OK && sparse && sparse->count) {
        bw_json_put_key(&b, "sparse_vectors");
        s = family(p, sparse, true, &b, specs, &out->nvectors);
    }
    if (s == BW_OK)
        s = put_parts(p, &b, NULL, body, body, &out->labels);
    bw_buf_putc(&b, '}');
    if (s == BW_OK)
        s = settle(p, &b, out);
    out->vectors = specs;
    bw_buf_clear(&b);
    return s;
}

/* ---- PATCH ---- */

static const bw_qdrant_word diff_words[] = {
    /* what of a vector may change */
    {"hnsw_config", 'o', hnsw_words, 0, NULL},
    {"quantization_config", 'a', NULL, 0, NULL},
    {"on_disk", 'b', NULL, 0, NULL},
    {"memory", 's', NULL, 0, NULL}, /* newer than on_disk; no more is acted on than that */
    {NULL, 0, NULL, 0, NULL},
};

static bw_status patch_one(bw_qdrant_parse *p, bw_buf *b, const bw_json *base,
                           const bw_json *over, bool sparse)
{
    const bw_qdrant_word *words = sparse ? sparse_words : vector_words;
    for (const bw_json *m = over ? over->child : NULL; m; m = m->next) {
        const bw_qdrant_word *w = sparse ? sparse_words : diff_words;
        while (w->name && !bw_str_eq(m->key, bw_str_c(w->name)))
            w++;
        if (!w->name && m->kind != BW_JSON_NULL)
            return bw_qdrant__format(p, m, "this cannot be changed");
    }
    bw_status s = bw_qdrant__hnsw(p, bw_json_get_value(over, "hnsw_config"));
    const bw_json *q = bw_json_get_value(over, "quantization_config");
    if (s == BW_OK && q && q->kind == BW_JSON_OBJECT)
        s = bw_qdrant__quantization(p, q);
    return s == BW_OK ? bw_qdrant__put_words(p, b, words, base, over) : s;
}

static bw_status patch_family(bw_qdrant_parse *p, bw_buf *b, const bw_json *base,
                              const bw_json *over, bool sparse)
{
    bool single = !sparse && single_form(base);
    for (const bw_json *m = over ? over->child : NULL; m; m = m->next) {
        if (m->kind != BW_JSON_OBJECT)
            return bw_qdrant__format(p, m, "expected an object");
        if (single ? m->key.len != 0 : !bw_json_get_str(base, m->key))
            return bw_qdrant__wrong(p, "Not existing vector name error: %.*s",
                                    bw_qdrant__cut(m->key, 96), m->key.ptr);
    }
    if (single)
        return patch_one(p, b, base, bw_json_get(over, ""), false);
    bw_buf_putc(b, '{');
    for (const bw_json *m = base->child; m; m = m->next) {
        bw_json_sep(b);
        bw_json_put_str(b, m->key);
        bw_buf_putc(b, ':');
        bw_status s =
            patch_one(p, b, m, over ? bw_json_get_str(over, m->key) : NULL, sparse);
        if (s != BW_OK)
            return s;
    }
    bw_buf_putc(b, '}');
    return BW_OK;
}

/* UpdateCollection's words, and the scalar ones of `params`. */
static bw_status known_changes(bw_qdrant_parse *p, const bw_json *body)
{
    static const char *const words[] = {
        "vectors",        "sparse_vectors",      "params",
        "hnsw_config",    "optimizers_config",   "wal_config",
        "metadata",       "quantization_config", "strict_mode_config",
        NULL};
    static const char *const params[] = {
        "replication_factor",    "write_consistency_factor", "read_fan_out_factor",
        "read_fan_out_delay_ms", "on_disk_payload",          "payload",
        "shard_number",          NULL};
    bw_status s = bw_qdrant__known(p, body, words);
    return s == BW_OK ? bw_qdrant__known(p, bw_json_get(body, "params"), params) : s;
}

bw_status bw_qdrant__patch(bw_qdrant_parse *p, bw_str settings, const bw_json *body,
                           bw_qdrant_schema *out)
{
    bw_buf b = {0};
    bw_json *base;
    const bw_json *dense, *sparse, *params;
    *out = (bw_qdrant_schema){0};
    bw_status s = bw_json_parse(p->ctx, settings, BW_JSON_REQUEST, &base);
    if (s == BW_EINVALID)
        return bw_fail(p->ctx, BW_ECORRUPT, "the collection's settings are no JSON");
    if (s == BW_OK)
        s = known_changes(p, body);
    if (s == BW_OK)
        s = refuse_unserved(p, body);
    if (s == BW_OK)
        s = object_field(p, body, "vectors", &dense);
    if (s == BW_OK)
        s = object_field(p, body, "sparse_vectors", &sparse);
    if (s == BW_OK)
        s = object_field(p, body, "params", &params);
    if (s != BW_OK)
        return s;
    bw_buf_puts(&b, "{\"vectors\":");
    s = patch_family(p, &b, bw_json_get(base, "vectors"), dense, false);
    const bw_json *kept = bw_json_get(base, "sparse_vectors");
    if (s == BW_OK && sparse && sparse->count && !kept)
        s = bw_qdrant__wrong(p, "Not existing vector name error: %.*s",
                             bw_qdrant__cut(sparse->child->key, 96),
                             sparse->child->key.ptr);
    if (s == BW_OK && kept) {
        bw_json_put_key(&b, "sparse_vectors");
        s = patch_family(p, &b, kept, sparse, true);
    }
    if (s == BW_OK)
        s = put_parts(p, &b, base, params, body, &out->labels);
    bw_buf_putc(&b, '}');
    if (s == BW_OK)
        s = settle(p, &b, out);
    bw_buf_clear(&b);
    return s;
}

/* ---- config of GET ---- */

static void put_member(bw_buf *b, const bw_json *settings, const char *name)
{
    const bw_json *v = bw_json_get_value(settings, name);
    if (!v)
        return;
    bw_json_put_key(b, name);
    bw_buf_str(b, v->raw);
}

/* A collection that another surface made has no settings of ours: shown from its specs.
 */
static void put_specs(bw_buf *b, const bw_collection_info *info, bool sparse)
{
    bw_buf_putc(b, '{');
    for (uint32_t i = 0; i < info->nvectors; i++) {
        const bw_vector_spec *v = &info->vectors[i];
        if (v->sparse != sparse)
            continue;
        bw_json_sep(b);
        bw_json_put_str(b, v->name);
        if (sparse)
            bw_buf_puts(b, v->idf ? ":{\"modifier\":\"idf\"}" : ":{}");
        else
            bw_buf_printf(b, ":{\"size\":%u,\"distance\":\"%s\"", v->dim,
                          distances[v->metric].name);
        if (!sparse) {
            bw_qdrant__put_storage(b, v);
            bw_buf_putc(b, '}');
        }
    }
    bw_buf_putc(b, '}');
}

bw_status bw_qdrant__put_config(bw_ctx *ctx, bw_buf *b, const bw_collection_info *info)
{
    bw_json *settings = NULL;
    bw_status s = info->settings.len
                      ? bw_json_parse(ctx, info->settings, BW_JSON_REQUEST, &settings)
                      : BW_OK;
    if (s == BW_EINVALID)
        return bw_fail(ctx, BW_ECORRUPT, "the collection's settings are no JSON");
    if (s != BW_OK)
        return s;
    bool ours = bw_json_get(settings, "vectors") != NULL, has_sparse = false;
    for (uint32_t i = 0; i < info->nvectors; i++)
        has_sparse |= info->vectors[i].sparse;
    bw_buf_puts(b, "{\"params\":{");
    if (ours) {
        put_member(b, settings, "vectors");
    } else {
        bw_json_put_key(b, "vectors");
        put_specs(b, info, false);
    }
    bw_qdrant__put_defaults(b, param_words, bw_json_get(settings, "params"));
    if (ours) {
        put_member(b, settings, "sparse_vectors");
    } else if (has_sparse) {
        bw_json_put_key(b, "sparse_vectors");
        put_specs(b, info, true);
    }
    bw_buf_putc(b, '}');
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bw_json_put_key(b, parts[i].shown);
        bw_buf_putc(b, '{');
        bw_qdrant__put_defaults(b, parts[i].words, bw_json_get(settings, parts[i].kept));
        bw_buf_putc(b, '}');
    }
    bw_json_put_key(b, "quantization_config");
    const bw_json *q = bw_json_get(settings, "quantization_config");
    bw_buf_str(b, q ? q->raw : BW_STR("null"));
    put_member(b, settings, "metadata");
    bw_buf_putc(b, '}');
    return BW_OK;
}
