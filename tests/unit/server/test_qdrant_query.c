/* Query bodies: every kind of the contract that is served, the refusals of the others,
 * and the caps at the cap and one above it. */
#include "qdrant_fixture.h"

typedef bw_status (*reader)(bw_qdrant_parse *, const bw_json *, bw_query *,
                            bw_qdrant_show *);

static bw_query query;
static bw_qdrant_show show;

static bw_status parse(fixture *f, const char *text, reader read)
{
    const bw_json *body = fixture_body(f, text);
    if (!body)
        return BW_EINVALID;
    return read(&f->p, body, &query, &show);
}

static void ok(fixture *f, const char *text)
{
    if (parse(f, text, bw_qdrant__query) != BW_OK)
        fail_msg("%s: %s", text, bw_ctx_message(f->ctx));
}

static void test_query__dense_forms(void **state)
{
    fixture *f = *state;
    static const char *const forms[] = {
        "{\"query\":[1,0,0,0]}", "{\"query\":{\"nearest\":[1,0,0,0]}}",
        "{\"query\":[1,0,0,0],\"using\":\"\"}",
        "{\"query\":[1,0,0,0],\"using\":null,\"filter\":null,\"params\":null,\"limit\":"
        "null,"
        "\"offset\":null,\"score_threshold\":null,\"prefetch\":null,\"shard_key\":null,"
        "\"with_vector\":null,\"with_payload\":null,\"lookup_from\":null,\"surprise\":"
        "1}"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        ok(f, forms[i]);
        assert_int_equal(query.kind, BW_QUERY_NEAREST);
        assert_int_equal(query.limit, 10);
        assert_int_equal(query.target.vector.n, 4);
        assert_true(query.target.vector.values[0] == 1.0f);
        assert_false(show.payload || show.vector);
    }
}

static void test_query__sparse_is_sorted(void **state)
{
    fixture *f = *state;
    ok(f, "{\"query\":{\"indices\":[9,2],\"values\":[0.5,2]},\"using\":\"s\"}");
    assert_true(query.target.vector.sparse);
    assert_int_equal(query.target.vector.indices[0], 2);
    assert_true(query.target.vector.values[0] == 2.0f);
    ok(f, "{\"query\":{\"nearest\":{\"indices\":[],\"values\":[]}},\"using\":\"s\"}");
    assert_int_equal(query.target.vector.n, 0);
}

static void test_query__ids(void **state)
{
    fixture *f = *state;
    ok(f, "{\"query\":18446744073709551615}");
    assert_true(query.target.by_id && query.target.id.lo == UINT64_MAX);
    ok(f,
       "{\"query\":{\"nearest\":\"urn:uuid:550e8400-e29b-41d4-a716-446655440000\"}}");
    assert_true(query.target.id.is_uuid == 1);
}

static void test_query__mmr_and_fusion(void **state)
{
    fixture *f = *state;
    ok(f, "{\"query\":{\"nearest\":[1,0,0,0],\"mmr\":{\"diversity\":null,\"candidates_"
          "limit\":20}}}");
    assert_true(query.has_mmr && query.mmr_diversity == 0.5f &&
                query.mmr_candidates == 20);
    ok(f, "{\"prefetch\":[{\"query\":[1,0,0,0],\"limit\":2},{\"query\":[0,1,0,0]}],"
          "\"query\":{\"fusion\":\"dbsf\"},\"limit\":5,\"offset\":1}");
    assert_int_equal(query.kind, BW_QUERY_FUSION_DBSF);
    assert_int_equal(query.nprefetch, 2);
    assert_int_equal(query.prefetch[0].limit, 2);
    assert_int_equal(query.prefetch[1].limit, 10);
    ok(f, "{\"prefetch\":{\"query\":[1,0,0,0]},\"query\":{\"rrf\":{\"k\":60,"
          "\"weights\":[3]}}}");
    assert_true(query.rrf_k == 60.0 && query.nrrf_weights == 1 &&
                query.rrf_weights[0] == 3.0f);
    ok(f, "{\"prefetch\":[{\"prefetch\":[{\"query\":[0,1,0,0]}],\"query\":[1,0,0,0]}],"
          "\"query\":{\"nearest\":[1,0,0,0]}}");
    assert_int_equal(query.prefetch[0].nprefetch, 1);
}

static void test_query__recommend_and_order_by(void **state)
{
    fixture *f = *state;
    ok(f, "{\"query\":{\"recommend\":{\"positive\":[[0,1,0,0],2],\"negative\":[5],"
          "\"strategy\":\"best_score\"}}}");
    assert_int_equal(query.kind, BW_QUERY_RECOMMEND);
    assert_int_equal(query.npositive, 2);
    assert_false(query.positive[0].by_id);
    assert_true(query.positive[1].by_id);
    assert_int_equal(query.strategy, BW_RECOMMEND_BEST_SCORE);
    ok(f, "{\"query\":{\"recommend\":{\"positive\":[1,2]}}}");
    assert_int_equal(query.npositive, 2);
    ok(f, "{\"query\":{\"order_by\":{\"key\":\"n\",\"direction\":\"desc\",\"start_"
          "from\":2.5}}}");
    assert_true(query.order_by.descending && query.order_by.start_from.real == 2.5);
    ok(f, "{\"limit\":3}");
    assert_int_equal(query.kind, BW_QUERY_NONE);
}

static void test_query__lookup_from_is_collected_once(void **state)
{
    fixture *f = *state;
    ok(f, "{\"query\":1,\"lookup_from\":{\"collection\":\"other\",\"vector\":\"v\"}}");
    assert_int_equal(f->p.nlookups, 1);
    ok(f, "{\"prefetch\":[{\"query\":1,\"lookup_from\":{\"collection\":\"o\"}},"
          "{\"query\":2,\"lookup_from\":{\"collection\":\"o\"}}],\"query\":{\"fusion\":"
          "\"rrf\"}}");
    assert_int_equal(f->p.nlookups, 1);
}

static void test_query__older_calls(void **state)
{
    fixture *f = *state;
    assert_int_equal(
        parse(f,
              "{\"vector\":[1,0,0,0],\"limit\":1,\"offset\":0,\"with_payload\":true,"
              "\"score_threshold\":-2.0}",
              bw_qdrant__search),
        BW_OK);
    assert_true(show.payload && query.has_score_threshold);
    assert_int_equal(
        parse(
            f,
            "{\"vector\":{\"name\":\"s\",\"vector\":{\"indices\":[1],\"values\":[1]}}}",
            bw_qdrant__search),
        BW_OK);
    assert_true(bw_str_is(query.using_name, "s"));
    assert_int_equal(parse(f, "{\"limit\":1}", bw_qdrant__search), BW_EINVALID);
    assert_int_equal(parse(f, "{\"positive\":[1],\"negative\":[],\"limit\":3}",
                           bw_qdrant__recommend),
                     BW_OK);
    assert_int_equal(query.kind, BW_QUERY_RECOMMEND);
}

static const struct {
    const char *body, *message;
    int status;
} refusals[] = {
    {"{not json", "Format error in JSON body", 0},
    {"[1]", "expected a JSON object", 0},
    {"{\"query\":[1,2,3]}",
     "Wrong input: Vector dimension error: expected dim: 4, got 3", 0},
    {"{\"query\":[]}", "expected dim: 4, got 0", 0},
    {"{\"query\":[1,0],\"using\":\"zzz\"}", "Not existing vector name error: zzz", 0},
    {"{\"query\":[1,0],\"using\":\"s\"}", "sparse", 0},
    {"{\"query\":{\"indices\":[1],\"values\":[1]}}", "dense", 0},
    {"{\"query\":{\"indices\":[1,1],\"values\":[1,2]},\"using\":\"s\"}", "unique", 422},
    {"{\"query\":{\"indices\":[1],\"values\":[1,2]},\"using\":\"s\"}", "same length",
     422},
    {"{\"query\":{\"indices\":[-1],\"values\":[1]},\"using\":\"s\"}", "/query/indices",
     0},
    {"{\"query\":[[1,0,0,0]]}", "multi vector is not served", 0},
    {"{\"query\":[1,\"x\",0,0]}", "component 1", 0},
    {"{\"query\":[1,0,1e39,0]}", "/query", 0},
    {"{\"query\":\"no uuid\"}", "no uuid is not a valid point ID", 0},
    {"{\"query\":-1}", "-1 is not a valid point ID", 0},
    {"{\"query\":1.5}", "is not a valid point ID", 0},
    {"{\"query\":{}}", "expected nearest", 0},
    {"{\"query\":{\"text\":\"hello\",\"model\":\"m\"}}", "inference", 0},
    {"{\"query\":{\"nearest\":{\"text\":\"hello\"}}}", "inference", 0},
    {"{\"query\":{\"discover\":{\"target\":1,\"context\":[]}}}",
     "discover is not served", 0},
    {"{\"query\":{\"context\":[]}}", "context is not served", 0},
    {"{\"query\":{\"sample\":\"random\"}}", "sample is not served", 0},
    {"{\"query\":{\"formula\":{}}}", "formula is not served", 0},
    {"{\"query\":{\"fusion\":\"rrf\"}}", "prefetch", 0},
    {"{\"query\":{\"fusion\":\"max\"},\"prefetch\":{\"query\":1}}", "/query/fusion", 0},
    {"{\"query\":{\"fusion\":\"rrf\"},\"using\":\"\",\"prefetch\":{\"query\":1}}",
     "'using'", 0},
    {"{\"query\":{\"rrf\":{\"weights\":[1,2]}},\"prefetch\":{\"query\":1}}",
     "weights (2)", 0},
    {"{\"query\":{\"rrf\":{\"weights\":[-1]}},\"prefetch\":{\"query\":1}}", "negative",
     422},
    {"{\"query\":{\"rrf\":{\"k\":0}},\"prefetch\":{\"query\":1}}", "[k: value 0", 422},
    {"{\"prefetch\":[{\"query\":1}]}", "A query is needed to merge", 0},
    {"{\"query\":{\"order_by\":\"z\"}}", "No range index for `order_by` key: `z`", 0},
    {"{\"query\":{\"order_by\":\"m\"}}", "No range index", 0},
    {"{\"query\":{\"recommend\":{\"negative\":[1]}}}", "positive example", 0},
    {"{\"query\":{\"recommend\":{\"positive\":[1],\"strategy\":\"x\"}}}",
     "/query/recommend/strategy", 0},
    {"{\"query\":{\"nearest\":[1,0,0,0],\"mmr\":{\"diversity\":1.5}}}", "diversity",
     422},
    {"{\"query\":1,\"limit\":\"ten\"}", "/limit", 0},
    {"{\"query\":1,\"limit\":0}",
     "Validation error in JSON body: [limit: value 0 invalid, must be 1", 422},
    {"{\"query\":1,\"limit\":-1}", "/limit", 0},
    {"{\"query\":1,\"params\":{\"hnsw_ef\":0}}", "hnsw_ef", 422},
    {"{\"query\":1,\"params\":{\"exact\":1}}", "/params/exact", 0},
    {"{\"query\":1,\"params\":{\"recal\":0.99}}",
     "/params/recal: unknown field, expected hnsw_ef, exact", 0},
    {"{\"query\":1,\"params\":{\"ef\":100}}", "/params/ef: unknown", 0},
    {"{\"query\":1,\"params\":{\"quantization\":{\"rescor\":true}}}",
     "/params/quantization/rescor: unknown", 0},
    {"{\"query\":1,\"params\":{\"acorn\":{\"enabled\":true}}}", "/params/acorn/enabled", 0},
    {"{\"query\":{\"fusion\":\"rrf\"},\"prefetch\":{\"query\":1,\"params\":{\"recall\":1,"
     "\"x\":1}}}",
     "/prefetch/params/x: unknown", 0},
    {"{\"query\":1,\"shard_key\":\"a\"}", "shard key is not served", 0},
    {"{\"query\":1,\"must\":[]}", "`must` belongs inside a filter", 0},
    {"{\"query\":1,\"match\":{\"value\":1}}", "`match` belongs", 0},
    {"{\"query\":1,\"is_empty\":{\"key\":\"a\"}}", "`is_empty` belongs", 0},
    {"{\"query\":1,\"key\":\"a\"}", "`key` belongs", 0},
    {"{\"query\":{\"nearest\":1,\"must\":[]}}", "/query/must", 0},
    {"{\"query\":{\"fusion\":\"rrf\"},\"prefetch\":[{\"query\":1,\"range\":{}}]}",
     "/prefetch/0/range", 0},
    {"{\"query\":1,\"lookup_from\":{}}", "/lookup_from", 0},
    {"{\"query\":1,\"with_payload\":{\"include\":[\"a\"],\"foo\":1}}",
     "/with_payload/foo", 0},
    {"{\"query\":1,\"with_payload\":{\"include\":[\"a\"],\"exclude\":[\"b\"]}}",
     "do not go together", 0},
    {"{\"query\":1,\"with_payload\":[\"a..b\"]}", "/with_payload/0", 0},
    {"{\"query\":1,\"with_vector\":[\"zzz\"]}", "Not existing vector name error: zzz",
     0},
    {"{\"query\":1,\"with_vector\":7}", "/with_vector", 0},
};

/* Every word of Qdrant's SearchParams, and nulls. */
static void test_query__known_params_are_taken(void **state)
{
    fixture *f = *state;
    ok(f, "{\"query\":1,\"params\":{\"hnsw_ef\":64,\"exact\":false,\"indexed_only\":true,"
          "\"quantization\":{\"ignore\":false,\"rescore\":true,\"oversampling\":2.0},"
          "\"acorn\":{\"enable\":true,\"max_selectivity\":0.4},\"idf\":\"global\"}}");
    ok(f, "{\"query\":1,\"params\":{\"hnsw_ef\":null,\"quantization\":null,\"acorn\":null,"
          "\"idf\":null,\"later\":null}}");
    ok(f, "{\"query\":1,\"params\":{}}");
    ok(f, "{\"query\":1,\"params\":{\"recall\":0.95}}");
}

static void test_query__refuses_by_name(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (parse(f, refusals[i].body, bw_qdrant__query) != BW_EINVALID)
            fail_msg("%s was taken", refusals[i].body);
        assert_message(f, refusals[i].message);
        if (f->p.status != refusals[i].status)
            fail_msg("%s: status %d", refusals[i].body, f->p.status);
    }
}

static void test_query__caps(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *body;
        unsigned cap;
    } caps[] = {{"{\"query\":1,\"limit\":%u}", BW_LIMIT_LIMIT},
                {"{\"query\":1,\"offset\":%u}", BW_LIMIT_OFFSET},
                {"{\"query\":1,\"params\":{\"hnsw_ef\":%u}}", BW_LIMIT_EF},
                {"{\"query\":{\"nearest\":1,\"mmr\":{\"candidates_limit\":%u}}}",
                 BW_LIMIT_MMR_CANDIDATES}};
    char text[128];
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        for (unsigned extra = 0; extra < 2; extra++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(text, sizeof text, caps[i].body, caps[i].cap + extra);
#pragma GCC diagnostic pop
            assert_int_equal(parse(f, text, bw_qdrant__query),
                             extra ? BW_EINVALID : BW_OK);
            assert_int_equal(f->p.status, extra ? 422 : 0);
        }
    for (unsigned n = BW_LIMIT_PREFETCH; n <= BW_LIMIT_PREFETCH + 1; n++) {
        const char *many = fixture_repeat(
            "{\"query\":{\"fusion\":\"rrf\"},\"prefetch\":[{\"query\":1}",
            ",{\"query\":1}", n - 1, "", "", "]}");
        assert_int_equal(parse(f, many, bw_qdrant__query),
                         n == BW_LIMIT_PREFETCH ? BW_OK : BW_EINVALID);
    }
    for (unsigned n = BW_LIMIT_PREFETCH_DEPTH; n <= BW_LIMIT_PREFETCH_DEPTH + 1; n++) {
        const char *deep = fixture_repeat("", "{\"query\":1,\"prefetch\":", n,
                                          "{\"query\":1}", "}", "");
        assert_int_equal(parse(f, deep, bw_qdrant__query),
                         n == BW_LIMIT_PREFETCH_DEPTH ? BW_OK : BW_EINVALID);
    }
    for (unsigned n = BW_LIMIT_EXAMPLES; n <= BW_LIMIT_EXAMPLES + 1; n++) {
        const char *ids = fixture_repeat("{\"query\":{\"recommend\":{\"positive\":[1",
                                         ",1", n - 1, "", "", "]}}}");
        assert_int_equal(parse(f, ids, bw_qdrant__query),
                         n == BW_LIMIT_EXAMPLES ? BW_OK : BW_EINVALID);
    }
}

static void test_query__foreign_model_is_a_conflict(void **state)
{
    fixture *f = *state;
    f->info.settings = BW_STR("{\"metadata\":{\"_model\":\"A\"}}");
    assert_int_equal(parse(f, "{\"query\":1,\"_model\":\"A\"}", bw_qdrant__query),
                     BW_OK);
    assert_int_equal(parse(f, "{\"query\":1}", bw_qdrant__query), BW_OK);
    assert_int_equal(parse(f, "{\"query\":1,\"_model\":\"B\"}", bw_qdrant__query),
                     BW_ECONFLICT);
    f->info.settings = BW_STR("{\"metadata\":{\"_model\":[\"A\",\"B\"]}}");
    assert_int_equal(parse(f, "{\"query\":1,\"_model\":\"B\"}", bw_qdrant__query),
                     BW_OK);
    assert_int_equal(parse(f, "{\"query\":1,\"_model\":\"C\"}", bw_qdrant__query),
                     BW_ECONFLICT);
    f->info.settings = BW_STR("{\"vectors\":{}}");
}

/* A short answer is written to its end: it costs less than asking again. */
static void test_answer__of_many_bytes_ends_at_the_deadline(void **state)
{
    fixture *f = *state;
    enum { DIM = 4096, HITS = 40 };
    static float values[DIM];
    bw_vector v = {.name = BW_STR(""), .values = values, .n = DIM};
    bw_hit hits[HITS] = {0};
    bw_response response = {0};
    bw_request r = {0};
    bw_qdrant_call c = {.r = &r, .response = &response, .p = {.ctx = f->ctx}};
    const bw_qdrant_show vectors = {.vector = true};
    for (size_t i = 0; i < HITS; i++) {
        hits[i].vectors = &v;
        hits[i].nvectors = 1;
    }
    bw_ctx_reset(f->ctx);
    assert_int_equal(bw_qdrant__put_hits(&c, hits, HITS, BW_HIT_SCORED, &vectors), BW_OK);
    bw_buf_clear(&response.body);
    bw_ctx_set_deadline(f->ctx, 1);
    assert_int_equal(bw_qdrant__put_hits(&c, hits, 1, BW_HIT_SCORED, &vectors), BW_OK);
    assert_int_equal(bw_qdrant__put_hits(&c, hits, HITS, BW_HIT_SCORED, &vectors),
                     BW_ETIMEOUT);
    assert_true(response.body.len < 200000);
    bw_ctx_reset(f->ctx);
    bw_buf_clear(&response.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_query__dense_forms),
        cmocka_unit_test(test_query__sparse_is_sorted),
        cmocka_unit_test(test_query__ids),
        cmocka_unit_test(test_query__mmr_and_fusion),
        cmocka_unit_test(test_query__recommend_and_order_by),
        cmocka_unit_test(test_query__lookup_from_is_collected_once),
        cmocka_unit_test(test_query__older_calls),
        cmocka_unit_test(test_query__known_params_are_taken),
        cmocka_unit_test(test_query__refuses_by_name),
        cmocka_unit_test(test_query__caps),
        cmocka_unit_test(test_query__foreign_model_is_a_conflict),
        cmocka_unit_test(test_answer__of_many_bytes_ends_at_the_deadline),
    };
    return cmocka_run_group_tests(tests, fixture_new, fixture_free);
}
