/* How a collection's dense vectors are stored and searched: Qdrant's datatype, on_disk
 * and hnsw_config (of the vector, else of the collection) into our vector specs, and the
 * checks of quantization_config (qdrant.md says what each means here).
 *
 * Ours, beside Qdrant's: the datatypes bfloat16 and int8, and `_index`, the kind of index
 * of a vector's large segments. The words are kept and shown by qdrant_schema.c. */
#include "qdrant.h"

static const struct {
    const char *name;
    bw_dtype type;
} datatypes[] = {
    {"float32", BW_DTYPE_F32}, {"float16", BW_DTYPE_F16},
    /* 0 … 255, each exactly; int8 would have to share them with the signs. */
    {"uint8", BW_DTYPE_F16},   {"bfloat16", BW_DTYPE_BF16},
    {"int8", BW_DTYPE_I8},
};

static const char *const kinds[BW_NINDEX_CHOICES] = {
    "auto", "flat", "graph", "faiss-hnsw", "faiss-ivf", "cuvs-cagra"};

static bw_status datatype(bw_qdrant_parse *p, const bw_json *v, bw_vector_spec *out)
{
    for (size_t i = 0; v && i < sizeof datatypes / sizeof *datatypes; i++)
        if (v->kind == BW_JSON_STRING &&
            bw_str_eq(v->str, bw_str_c(datatypes[i].name))) {
            out->dtype = datatypes[i].type;
            return BW_OK;
        }
    return v ? bw_qdrant__format(p, v,
                                 "unknown variant, expected float32, float16, uint8, "
                                 "bfloat16 or int8")
             : BW_OK;
}

static bw_status index_kind(bw_qdrant_parse *p, const bw_json *v, bw_vector_spec *out)
{
    for (uint32_t i = 0; v && i < BW_NINDEX_CHOICES; i++)
        if (v->kind == BW_JSON_STRING && bw_str_eq(v->str, bw_str_c(kinds[i]))) {
            out->index = (bw_index_choice)i;
            return BW_OK;
        }
    return v ? bw_qdrant__format(p, v,
                                 "unknown variant, expected auto, flat, graph, "
                                 "faiss-hnsw, faiss-ivf or cuvs-cagra")
             : BW_OK;
}

bw_status bw_qdrant__quantization(bw_qdrant_parse *p, const bw_json *v)
{
    static const char *const words[] = {"scalar", "product", "binary", "turbo", NULL};
    static const char *const inner[][6] = {
        {"type", "quantile", "always_ram", "memory"},
        {"compression", "always_ram", "memory"},
        {"encoding", "query_encoding", "always_ram", "memory"},
        {"bits", "always_ram", "memory"}};
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, v, "expected an object");
    bw_status s = bw_qdrant__known(p, v, words);
    if (s != BW_OK)
        return s;
    for (size_t i = 0; words[i]; i++) {
        const bw_json *q = bw_json_get_value(v, words[i]);
        if (q && q->kind != BW_JSON_OBJECT)
            return bw_qdrant__format(p, q, "expected an object");
        if (q)
            return bw_qdrant__known(p, q, inner[i]);
    }
    return bw_qdrant__format(p, v, "expected scalar, product, binary or turbo");
}

bw_status bw_qdrant__hnsw(bw_qdrant_parse *p, const bw_json *v)
{
    static const char *const words[] = {"m",
                                        "ef_construct",
                                        "full_scan_threshold",
                                        "max_indexing_threads",
                                        "on_disk",
                                        "memory",
                                        "payload_m",
                                        "inline_storage",
                                        NULL};
    if (v && v->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, v, "expected an object");
    return bw_qdrant__known(p, v, words);
}

/* m = 0 is Qdrant's word for "no graph". What was not asked for stays 0: our own choice. */
static bw_status graph(bw_qdrant_parse *p, const bw_json *own, const bw_json *all,
                       bw_vector_spec *out)
{
    const bw_json *from[2] = {all, own};
    for (size_t i = 0; i < 2; i++) {
        const bw_json *m = bw_json_get_value(from[i], "m");
        bw_status s = bw_qdrant__u32(p, from[i], "m", 0, BW_LIMIT_HNSW_M, &out->m);
        if (s == BW_OK)
            s = bw_qdrant__u32(p, from[i], "ef_construct", 4, BW_LIMIT_HNSW_EF_CONSTRUCT,
                               &out->ef_construct);
        if (s != BW_OK)
            return s;
        if (m && out->index == BW_INDEX_AUTO && out->m == 0)
            out->index = BW_INDEX_FLAT;
        else if (m && out->index == BW_INDEX_FLAT && out->m > 0 &&
                 !bw_json_get_value(own, "_index"))
            out->index = BW_INDEX_AUTO;
    }
    return BW_OK;
}

bw_status bw_qdrant__storage(bw_qdrant_parse *p, const bw_json *node,
                             const bw_json *hnsw, bw_vector_spec *out)
{
    const bw_json *own = bw_json_get_value(node, "hnsw_config");
    bw_status s = bw_qdrant__hnsw(p, own);
    if (s == BW_OK)
        s = bw_qdrant__hnsw(p, hnsw);
    if (s == BW_OK)
        s = datatype(p, bw_json_get_value(node, "datatype"), out);
    if (s == BW_OK)
        s = bw_qdrant__bool(p, node, "on_disk", &out->on_disk);
    if (s == BW_OK)
        s = index_kind(p, bw_json_get_value(node, "_index"), out);
    if (s == BW_OK)
        s = bw_qdrant__quantization(p, bw_json_get_value(node, "quantization_config"));
    return s == BW_OK ? graph(p, own, hnsw, out) : s;
}

void bw_qdrant__put_storage(bw_buf *b, const bw_vector_spec *spec)
{
    static const char *const shown[BW_NDTYPES] = {NULL, "float16", "bfloat16", "int8"};
    if (shown[spec->dtype])
        bw_buf_printf(b, ",\"datatype\":\"%s\"", shown[spec->dtype]);
    if (spec->on_disk)
        bw_buf_puts(b, ",\"on_disk\":true");
    if (spec->index != BW_INDEX_AUTO)
        bw_buf_printf(b, ",\"_index\":\"%s\"", kinds[spec->index]);
}
