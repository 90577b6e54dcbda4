/* A payload index: the body that asks for one into our spec, and what an index of a
 * collection can answer (contract, sections 4 and 5.6). */
#include "qdrant_words.h"

static const bw_qdrant_word index_words[] = {
    {"type", 's', NULL, 0, NULL},
    {"is_tenant", 'b', NULL, 0, NULL},
    {"is_principal", 'b', NULL, 0, NULL},
    {"on_disk", 'b', NULL, 0, NULL},
    {"enable_hnsw", 'b', NULL, 0, NULL},
    {"lookup", 'b', NULL, 0, NULL},
    {"range", 'b', NULL, 0, NULL},
    {"prefix", 'b', NULL, 0, NULL},
    {"tokenizer", 's', NULL, 0, NULL},
    {"min_token_len", 'u', NULL, 0, NULL},
    {"max_token_len", 'u', NULL, 0, NULL},
    {"lowercase", 'b', NULL, 0, NULL},
    {"ascii_folding", 'b', NULL, 0, NULL},
    {"phrase_matching", 'b', NULL, 0, NULL},
    {"stopwords", 'a', NULL, 0, NULL},
    {"stemmer", 'o', NULL, 0, NULL},
    {NULL, 0, NULL, 0, NULL},
};

bw_status bw_qdrant__index(bw_qdrant_parse *p, const bw_json *body, bw_index_spec *out)
{
    static const char *const types[] = {"keyword", "integer",  "float", "bool",
                                        "geo",     "datetime", "text",  "uuid"};
    const bw_json *schema = bw_json_get_value(body, "field_schema"), *type = schema;
    *out = (bw_index_spec){0};
    bw_status s = bw_qdrant__path_field(p, bw_json_get_value(body, "field_name"),
                                        "field_name", &out->field);
    if (s != BW_OK)
        return s;
    if (schema && schema->kind == BW_JSON_OBJECT) {
        bw_buf b = {0};
        type = bw_json_get_value(schema, "type");
        s = bw_qdrant__put_words(p, &b, index_words, NULL, schema);
        if (s == BW_OK)
            s = b.failed ? bw_fail_nomem(p->ctx)
                         : bw_arena_str(p->ctx, bw_buf_view(&b), &out->params);
        bw_buf_clear(&b);
        if (s != BW_OK)
            return s;
    }
    if (!type)
        return bw_qdrant__wrong(
            p, "Can't auto-detect field type, please specify `field_schema` in "
               "the request");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (type->kind == BW_JSON_STRING && bw_str_eq(type->str, bw_str_c(types[i]))) {
            out->type = type->str;
            return BW_OK;
        }
    return bw_qdrant__format(p, type,
                             "unknown variant, expected keyword, integer, float, bool, "
                             "geo, datetime, text or uuid");
}

static const bw_index_spec *index_on(const bw_collection_info *info, bw_str key)
{
    for (uint32_t i = 0; i < info->nindexes; i++)
        if (bw_str_eq(info->indexes[i].field, key))
            return &info->indexes[i];
    return NULL;
}

/* An integer index may be told to leave one of its two uses out. The parameters are
 * ours (bw_qdrant__put_words wrote them), so the member's text is found as it was written. */
static bool left_out(const bw_index_spec *spec, const char *member)
{
    return spec->params.len &&
           memmem(spec->params.ptr, spec->params.len, member, strlen(member)) != NULL;
}

bool bw_qdrant__has_range_index(const bw_collection_info *info, bw_str key)
{
    const bw_index_spec *spec = index_on(info, key);
    if (!spec)
        return false;
    if (bw_str_is(spec->type, "integer"))
        return !left_out(spec, "\"range\":false");
    return bw_str_is(spec->type, "float") || bw_str_is(spec->type, "datetime");
}

bool bw_qdrant__has_match_index(const bw_collection_info *info, bw_str key)
{
    const bw_index_spec *spec = index_on(info, key);
    if (!spec)
        return false;
    if (bw_str_is(spec->type, "integer"))
        return !left_out(spec, "\"lookup\":false");
    return bw_str_is(spec->type, "keyword") || bw_str_is(spec->type, "bool") ||
           bw_str_is(spec->type, "uuid");
}
