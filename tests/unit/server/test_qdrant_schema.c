/* A collection's description: specs, kept settings, PATCH, config shown, index schemas,
 * names. */
#include "qdrant_fixture.h"

static bw_qdrant_schema schema;

static bw_status create(fixture *f, const char *text)
{
    const bw_json *body = fixture_body(f, text);
    assert_non_null(body);
    return bw_qdrant__create(&f->p, body, &schema);
}

static void assert_settings(const char *want)
{
    char got[1024];
    snprintf(got, sizeof got, "%.*s", (int)schema.settings.len, schema.settings.ptr);
    assert_string_equal(got, want);
}

static void test_create__forms(void **state)
{
    fixture *f = *state;
    assert_int_equal(
        create(f, "{\"vectors\":{\"size\":4,\"distance\":\"Cosine\",\"on_disk\":null,"
                  "\"surprise\":1}}"),
        BW_OK);
    assert_int_equal(schema.nvectors, 1);
    assert_int_equal(schema.vectors[0].name.len, 0);
    assert_settings("{\"vectors\":{\"size\":4,\"distance\":\"Cosine\"},\"params\":{}}");
    assert_int_equal(create(f, "{\"vectors\":{\"\":{\"size\":4,\"distance\":\"Dot\"}},"
                               "\"sparse_vectors\":{}}"),
                     BW_OK);
    assert_settings(
        "{\"vectors\":{\"\":{\"size\":4,\"distance\":\"Dot\"}},\"params\":{}}");
    assert_int_equal(create(f, "{}"), BW_OK);
    assert_int_equal(schema.nvectors, 0);
    assert_int_equal(
        create(
            f,
            "{\"vectors\":{\"m\":{\"size\":2,\"distance\":\"Manhattan\","
            "\"hnsw_config\":{\"m\":4,\"x\":null,\"memory\":\"cold\"}},\"e\":{\"size\":3,\"distance\":"
            "\"Euclid\"}},"
            "\"sparse_vectors\":{\"s\":{},\"i\":{\"modifier\":\"idf\",\"index\":"
            "{\"on_disk\":false}}},\"on_disk_payload\":true,\"metadata\":{\"o\":\"x\","
            "\"_labels\":{\"tenant\":\"t\"}}}"),
        BW_OK);
    assert_int_equal(schema.nvectors, 4);
    assert_int_equal(schema.vectors[0].metric, BW_METRIC_MANHATTAN);
    assert_true(schema.vectors[2].sparse && !schema.vectors[2].idf &&
                schema.vectors[3].idf);
    assert_true(bw_str_is(schema.labels, "{\"tenant\":\"t\"}"));
    assert_settings("{\"vectors\":{\"m\":{\"size\":2,\"distance\":\"Manhattan\",\"hnsw_"
                    "config\":{\"m\":4}},"
                    "\"e\":{\"size\":3,\"distance\":\"Euclid\"}},\"sparse_vectors\":{"
                    "\"s\":{},\"i\":{"
                    "\"index\":{\"on_disk\":false},\"modifier\":\"idf\"}},\"params\":{"
                    "\"on_disk_payload\":"
                    "true},\"metadata\":{\"o\":\"x\",\"_labels\":{\"tenant\":\"t\"}}}");
}

static const struct {
    const char *body, *message;
    int status;
} refusals[] = {
    {"{\"vectors\":{\"size\":4,\"distance\":\"Chebyshev\"}}", "/vectors/distance", 0},
    {"{\"vectors\":{\"size\":0,\"distance\":\"Dot\"}}",
     "size: value 0 invalid, must be 1 or larger", 422},
    {"{\"vectors\":{\"size\":65537,\"distance\":\"Dot\"}}", "size: value 65537", 422},
    {"{\"vectors\":{\"size\":4}}", "missing field `distance`", 0},
    {"{\"vectors\":{\"a\":{\"distance\":\"Dot\"}}}", "missing field `size`", 0},
    {"{\"vectors\":{\"size\":\"4\",\"distance\":\"Dot\"}}", "/vectors/size", 0},
    {"{\"vectors\":[]}", "/vectors", 0},
    {"{\"vectors\":{\"a\":7}}", "/vectors/a", 0},
    {"{\"vectors\":{\"size\":4,\"distance\":\"Dot\",\"multivector_config\":{"
     "\"comparator\":\"max_sim\"}}}",
     "multi vector is not served", 0},
    {"{\"vectors\":{\"size\":4,\"distance\":\"Dot\",\"datatype\":\"float64\"}}",
     "/vectors/datatype", 0},
    {"{\"vectors\":{\"a\":{\"size\":4,\"distance\":\"Dot\"}},\"sparse_vectors\":{\"a\":"
     "{}}}",
     "must differ", 0},
    {"{\"sparse_vectors\":{\"s\":{\"modifier\":\"bm25\"}}}",
     "/sparse_vectors/s/modifier", 0},
    {"{\"hnsw_config\":{\"m\":\"x\"}}", "/hnsw_config/m", 0},
    {"{\"hnsw_config\":{\"ef_construct\":3}}", "ef_construct", 422},
    {"{\"hnsw_config\":{\"ef_constructs\":300}}", "/hnsw_config/ef_constructs: unknown", 0},
    {"{\"vectors\":{\"size\":4,\"distance\":\"Dot\",\"hnsw_config\":{\"M\":8}}}",
     "/vectors/hnsw_config/M: unknown field, expected m, ef_construct", 0},
    {"{\"quantization_config\":{\"scaler\":{}}}", "/quantization_config/scaler: unknown", 0},
    {"{\"quantization_config\":{\"scalar\":{\"type\":\"int8\",\"quantil\":0.9}}}",
     "/quantization_config/scalar/quantil: unknown field, expected type, quantile", 0},
    {"{\"vectors\":{\"size\":4,\"distance\":\"Dot\",\"quantization_config\":{\"binary\":{"
     "\"bits\":2}}}}",
     "/vectors/quantization_config/binary/bits: unknown", 0},
    {"{\"shard_number\":0}", "shard_number", 422},
    {"{\"sharding_method\":\"custom\"}", "custom sharding", 0},
    {"{\"strict_mode_config\":{\"enabled\":true}}", "strict mode", 0},
    {"{\"init_from\":{\"collection\":\"x\"}}", "init_from", 0},
    {"{\"metadata\":7}", "/metadata", 0},
    {"{\"metadata\":{\"_labels\":7}}", "metadata._labels", 422},
};

static void test_create__refuses_by_name(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (create(f, refusals[i].body) != BW_EINVALID)
            fail_msg("%s was taken", refusals[i].body);
        assert_message(f, refusals[i].message);
        assert_int_equal(f->p.status, refusals[i].status);
    }
}

static void test_create__caps_the_names(void **state)
{
    fixture *f = *state;
    char text[8192];
    for (unsigned n = BW_LIMIT_VECTORS; n <= BW_LIMIT_VECTORS + 1; n++) {
        size_t at = (size_t)snprintf(text, sizeof text, "{\"sparse_vectors\":{");
        for (unsigned i = 0; i < n; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s\"s%u\":{}",
                                   i ? "," : "", i);
        snprintf(text + at, sizeof text - at, "}}");
        assert_int_equal(create(f, text), n == BW_LIMIT_VECTORS ? BW_OK : BW_EINVALID);
    }
}

static void test_patch__merges(void **state)
{
    fixture *f = *state;
    const char *base =
        "{\"vectors\":{\"size\":4,\"distance\":\"Cosine\"},\"optimizers_config\":"
        "{\"indexing_threshold\":1,\"max_segment_size\":2},\"params\":{\"shard_"
        "number\":2},"
        "\"metadata\":{\"owner\":\"x\",\"gone\":1}}";
    const bw_json *body = fixture_body(
        f, "{\"optimizers_config\":{\"indexing_threshold\":12345},\"hnsw_config\":{"
           "\"ef_construct\":123},"
           "\"params\":{\"replication_factor\":3},\"metadata\":{\"k\":1,\"gone\":null},"
           "\"vectors\":{\"\":{\"on_disk\":true}}}");
    assert_int_equal(bw_qdrant__patch(&f->p, bw_str_c(base), body, &schema), BW_OK);
    assert_settings(
        "{\"vectors\":{\"size\":4,\"distance\":\"Cosine\",\"on_disk\":true},"
        "\"hnsw_config\":{\"ef_construct\":123},\"optimizers_config\":{\"max_segment_"
        "size\":2,"
        "\"indexing_threshold\":12345},\"params\":{\"shard_number\":2,\"replication_"
        "factor\":3},"
        "\"metadata\":{\"owner\":\"x\",\"k\":1}}");
    body = fixture_body(f, "{\"vectors\":{\"\":{\"size\":5}}}");
    assert_int_equal(bw_qdrant__patch(&f->p, bw_str_c(base), body, &schema),
                     BW_EINVALID);
    body = fixture_body(f, "{\"vectors\":{\"zzz\":{\"on_disk\":true}}}");
    assert_int_equal(bw_qdrant__patch(&f->p, bw_str_c(base), body, &schema),
                     BW_EINVALID);
    assert_message(f, "Not existing vector name error: zzz");
}

/* The words of Qdrant's OpenAPI document pass, nulls too; a misspelt one changes nothing. */
static void test_patch__refuses_what_it_does_not_know(void **state)
{
    fixture *f = *state;
    const char *base = "{\"vectors\":{\"size\":4,\"distance\":\"Dot\"},\"params\":{}}";
    static const char *const taken[] = {
        "{\"vectors\":{\"\":{\"memory\":\"cold\",\"hnsw_config\":{\"memory\":\"pinned\","
        "\"inline_storage\":true,\"payload_m\":4,\"m\":8,\"on_disk\":true,"
        "\"full_scan_threshold\":10,\"max_indexing_threads\":1,\"ef_construct\":9}}}}",
        "{\"params\":{\"read_fan_out_factor\":1,\"read_fan_out_delay_ms\":1,"
        "\"write_consistency_factor\":1,\"replication_factor\":1,\"on_disk_payload\":true,"
        "\"payload\":{}},\"strict_mode_config\":{\"enabled\":false},\"nonsense\":null}",
        "{\"quantization_config\":{\"turbo\":{\"bits\":\"bits4\",\"always_ram\":true,"
        "\"memory\":\"cold\"}}}",
        "{\"quantization_config\":{\"product\":{\"compression\":\"x16\"}}}",
        "{\"quantization_config\":{\"binary\":{\"encoding\":\"two_bits\","
        "\"query_encoding\":\"scalar8bits\"}}}",
        "{\"quantization_config\":\"Disabled\"}"};
    static const char *const refused[][2] = {
        {"{\"optimizer_config\":{\"indexing_threshold\":1}}",
         "/optimizer_config: unknown field, expected vectors, "},
        {"{\"hnsw\":{\"m\":4}}", "/hnsw: unknown"},
        {"{\"hnsw_config\":{\"ef\":4}}", "/hnsw_config/ef: unknown"},
        {"{\"params\":{\"replication\":4}}", "/params/replication: unknown"},
        {"{\"vectors\":{\"\":{\"hnsw_config\":{\"mm\":1}}}}", "/hnsw_config/mm: unknown"},
        {"{\"vectors\":{\"\":{\"quantization_config\":{\"scalar\":{\"x\":1}}}}}",
         "/quantization_config/scalar/x: unknown"}};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        const bw_json *body = fixture_body(f, taken[i]);
        if (bw_qdrant__patch(&f->p, bw_str_c(base), body, &schema) != BW_OK)
            fail_msg("%s: %s", taken[i], bw_ctx_message(f->ctx));
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const bw_json *body = fixture_body(f, refused[i][0]);
        if (bw_qdrant__patch(&f->p, bw_str_c(base), body, &schema) != BW_EINVALID)
            fail_msg("%s was taken", refused[i][0]);
        assert_message(f, refused[i][1]);
        assert_int_equal(f->p.status, 0); /* a 400 */
    }
}

static void test_config__has_what_clients_demand(void **state)
{
    fixture *f = *state;
    bw_buf b = {0};
    fixture_body(f, "{}");
    f->info.settings =
        BW_STR("{\"vectors\":{\"\":{\"size\":4,\"distance\":\"Dot\"}},\"hnsw_config\":"
               "{\"ef_construct\":123},\"metadata\":{\"k\":1}}");
    assert_int_equal(bw_qdrant__put_config(f->ctx, &b, &f->info), BW_OK);
    bw_json *config;
    assert_int_equal(bw_json_parse(f->ctx, bw_buf_view(&b), BW_JSON_REQUEST, &config),
                     BW_OK);
    const bw_json *hnsw = bw_json_get(config, "hnsw_config");
    assert_int_equal(bw_json_get(hnsw, "m")->mag, 16);
    assert_int_equal(bw_json_get(hnsw, "ef_construct")->mag, 123);
    assert_non_null(
        bw_json_get(bw_json_get(config, "optimizer_config"), "flush_interval_sec"));
    assert_null(bw_json_get(bw_json_get(config, "params"), "sparse_vectors"));
    assert_non_null(bw_json_get(config, "metadata"));
    bw_buf_clear(&b);
    f->info.settings = BW_STR(""); /* made by another surface */
    assert_int_equal(bw_qdrant__put_config(f->ctx, &b, &f->info), BW_OK);
    assert_int_equal(bw_json_parse(f->ctx, bw_buf_view(&b), BW_JSON_REQUEST, &config),
                     BW_OK);
    const bw_json *params = bw_json_get(config, "params");
    assert_int_equal(bw_json_get(params, "vectors")->count, 2);
    assert_int_equal(bw_json_get(params, "sparse_vectors")->count, 1);
    bw_buf_clear(&b);
    f->info.settings = BW_STR("{\"vectors\":{}}");
}

static void test_index__schemas(void **state)
{
    fixture *f = *state;
    bw_index_spec spec;
    const bw_json *b =
        fixture_body(f, "{\"field_name\":\"a.b\",\"field_schema\":\"keyword\"}");
    assert_int_equal(bw_qdrant__index(&f->p, b, &spec), BW_OK);
    assert_true(bw_str_is(spec.type, "keyword") && spec.params.len == 0);
    b = fixture_body(f, "{\"field_name\":\"a\",\"field_schema\":{\"range\":false,"
                        "\"lookup\":true,\"type\":"
                        "\"integer\",\"zzz\":1,\"on_disk\":null}}");
    assert_int_equal(bw_qdrant__index(&f->p, b, &spec), BW_OK);
    assert_true(bw_str_is(spec.params,
                          "{\"type\":\"integer\",\"lookup\":true,\"range\":false}"));
    static const char *const wrong[] = {
        "{\"field_schema\":\"keyword\"}",
        "{\"field_name\":\"a\"}",
        "{\"field_name\":\"a..b\",\"field_schema\":\"keyword\"}",
        "{\"field_name\":\"a\",\"field_schema\":\"varchar\"}",
        "{\"field_name\":\"a\",\"field_schema\":{\"is_tenant\":true}}",
        "{\"field_name\":\"a\",\"field_schema\":{\"type\":\"keyword\",\"is_tenant\":1}"
        "}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        b = fixture_body(f, wrong[i]);
        if (bw_qdrant__index(&f->p, b, &spec) != BW_EINVALID)
            fail_msg("%s was taken", wrong[i]);
    }
    assert_true(bw_qdrant__has_range_index(&f->info, BW_STR("n")));
    assert_false(bw_qdrant__has_range_index(&f->info, BW_STR("k")));
    assert_false(bw_qdrant__has_range_index(&f->info, BW_STR("m")));
    assert_true(bw_qdrant__has_match_index(&f->info, BW_STR("k")));
    assert_false(bw_qdrant__has_match_index(&f->info, BW_STR("zzz")));
}

static void test_name__grammar(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "A b-\xC3\xBC", "x.y", "...", "CON"};
    static const char *const bad[] = {"",
                                      ".",
                                      "..",
                                      "a/b",
                                      "../x",
                                      "a\\b",
                                      "a:b",
                                      "a\nb",
                                      "a*",
                                      "a\xE2\x88\x95"
                                      "b",
                                      "a\xEF\xBC\x8F"
                                      "b",
                                      "a\x7F"};
    const char *why;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(bw_qdrant__name_valid(bw_str_c(good[i]), &why));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (bw_qdrant__name_valid(bw_str_c(bad[i]), &why))
            fail_msg("%s was taken", bad[i]);
    char text[256];
    memset(text, 'x', sizeof text);
    assert_true(bw_qdrant__name_valid((bw_str){text, 255}, &why));
    assert_false(bw_qdrant__name_valid((bw_str){text, 256}, &why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create__forms),
        cmocka_unit_test(test_create__refuses_by_name),
        cmocka_unit_test(test_create__caps_the_names),
        cmocka_unit_test(test_patch__merges),
        cmocka_unit_test(test_patch__refuses_what_it_does_not_know),
        cmocka_unit_test(test_config__has_what_clients_demand),
        cmocka_unit_test(test_index__schemas),
        cmocka_unit_test(test_name__grammar),
    };
    return cmocka_run_group_tests(tests, fixture_new, fixture_free);
}
