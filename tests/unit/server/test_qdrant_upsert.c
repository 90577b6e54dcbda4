/* Bodies of writes: points in their two forms, point facts, selectors, payload and
 * vector calls, and their refusals. */
#include "qdrant_fixture.h"

static bw_op op;
static bw_qdrant_labels labels;

static bw_status upsert(fixture *f, const char *text)
{
    const bw_json *body = fixture_body(f, text);
    return body ? bw_qdrant__upsert(&f->p, body, &op, &labels) : BW_EINVALID;
}

static void ok(fixture *f, const char *text)
{
    if (upsert(f, text) != BW_OK)
        fail_msg("%s: %s", text, bw_ctx_message(f->ctx));
}

static void test_upsert__points(void **state)
{
    fixture *f = *state;
    ok(f, "{\"points\":[{\"id\":1,\"vector\":[1,0,0,0],\"payload\":{\"z\":1,\"a\":"
          "9007199254740993}},"
          "{\"id\":\"550E8400E29B41D4A716446655440000\",\"vector\":{\"\":[1,2,3,4],"
          "\"s\":{\"indices\":"
          "[5,1],\"values\":[0.5,2]},\"b\":null}},{\"id\":3,\"vector\":{}}]}");
    assert_int_equal(op.npoints, 3);
    assert_true(bw_str_is(op.points[0].payload, "{\"z\":1,\"a\":9007199254740993}"));
    assert_int_equal(op.points[0].nvectors, 1);
    assert_int_equal(op.points[1].nvectors, 2);
    assert_int_equal(op.points[1].vectors[1].indices[0], 1);
    assert_null(op.points[1].payload.ptr);
    assert_int_equal(op.points[2].nvectors, 0);
    assert_null(labels.given[0]);
}

static void test_upsert__batch(void **state)
{
    fixture *f = *state;
    ok(f, "{\"batch\":{\"ids\":[1,2],\"vectors\":[[1,0,0,0],[0,1,0,0]],\"payloads\":[{"
          "\"b\":1},null]}}");
    assert_int_equal(op.npoints, 2);
    assert_true(bw_str_is(op.points[0].payload, "{\"b\":1}"));
    assert_true(op.points[1].vectors[0].values[1] == 1.0f);
    ok(f, "{\"batch\":{\"ids\":[1,2],\"vectors\":{\"b\":[[1,0],[0,1]],\"s\":[null,{"
          "\"indices\":[1],"
          "\"values\":[1]}]}}}");
    assert_int_equal(op.points[0].nvectors, 1);
    assert_int_equal(op.points[1].nvectors, 2);
}

static void test_upsert__facts_and_text(void **state)
{
    fixture *f = *state;
    ok(f,
       "{\"points\":[{\"id\":1,\"vector\":{},\"payload\":{\"page_content\":\"hello\","
       "\"metadata\":{\"_labels\":{\"x\":1},\"_expires_at\":\"1970-01-01T00:00:02Z\"},"
       "\"_subject\":\"s\",\"_source\":\"file\",\"_model\":\"m\"}},"
       "{\"id\":2,\"vector\":{},\"payload\":{\"_labels\":{\"y\":1},\"_expires_at\":3,"
       "\"_node_content\":\"{\\\"text\\\":\\\"inner\\\"}\"}}]}");
    assert_true(bw_str_is(labels.given[0]->raw, "{\"x\":1}"));
    assert_true(bw_str_is(labels.given[1]->raw, "{\"y\":1}"));
    assert_true(op.points[0].facts.expires_at_ns == 2000000000);
    assert_true(op.points[1].facts.expires_at_ns == 3000000000);
    assert_true(bw_str_is(op.points[0].text, "hello"));
    assert_true(bw_str_is(op.points[1].text, "inner"));
    assert_true(bw_str_is(op.points[0].facts.subject, "s"));
    assert_true(bw_str_is(op.points[0].facts.source, "file"));
    assert_true(bw_str_is(op.points[0].facts.model, "m"));
    assert_non_null(
        memmem(op.points[0].payload.ptr, op.points[0].payload.len, "_labels", 7));
}

static void test_upsert__modes(void **state)
{
    fixture *f = *state;
    ok(f, "{\"points\":[{\"id\":1,\"vector\":{}}],\"update_mode\":\"insert_only\","
          "\"update_filter\":{\"must\":[{\"key\":\"b\",\"match\":{\"value\":2}}]}}");
    assert_int_equal(op.mode, BW_UPDATE_INSERT_ONLY);
    assert_non_null(op.update_filter);
    ok(f, "{\"points\":[{\"id\":1,\"vector\":{}}],\"update_mode\":\"update_only\"}");
    assert_int_equal(op.mode, BW_UPDATE_UPDATE_ONLY);
}

static const struct {
    const char *body, *message;
    int status;
} refusals[] = {
    {"{}", "`points` or `batch`", 0},
    {"{\"points\":[],\"batch\":{}}", "`points` or `batch`", 0},
    {"{\"points\":[]}", "Wrong input: Empty update request", 0},
    {"{\"points\":7}", "/points", 0},
    {"{\"points\":[{\"vector\":[1,0,0,0]}]}", "missing field `id`", 0},
    {"{\"points\":[{\"id\":1}]}", "missing field `vector`", 0},
    {"{\"points\":[{\"id\":\"abc\",\"vector\":[1,0,0,0]}]}",
     "value abc is not a valid point ID", 0},
    {"{\"points\":[{\"id\":\"1\",\"vector\":[1,0,0,0]}]}",
     "value 1 is not a valid point ID", 0},
    {"{\"points\":[{\"id\":-1,\"vector\":[1,0,0,0]}]}",
     "value -1 is not a valid point ID", 0},
    {"{\"points\":[{\"id\":18446744073709551616,\"vector\":[1,0,0,0]}]}",
     "not a valid point ID", 0},
    {"{\"points\":[{\"id\":1,\"vector\":[1,0]}]}", "expected dim: 4, got 2", 0},
    {"{\"points\":[{\"id\":1,\"vector\":{\"zzz\":[1,0]}}]}",
     "Not existing vector name error: zzz", 0},
    {"{\"points\":[{\"id\":1,\"vector\":[[1,0,0,0]]}]}", "multi vector", 0},
    {"{\"points\":[{\"id\":1,\"vector\":{\"text\":\"x\",\"model\":\"m\"}}]}",
     "inference", 0},
    {"{\"points\":[{\"id\":1,\"vector\":[1,0,0,1e300]}]}", "/points/0/vector", 0},
    {"{\"points\":[{\"id\":1,\"vector\":[1,0,NaN,0]}]}", "Format error in JSON body",
     0},
    {"{\"points\":[{\"id\":1,\"vector\":[1,0,1e999,0]}]}", "Format error in JSON body",
     0},
    {"{\"points\":[{\"id\":1,\"vector\":{},\"payload\":7}]}", "/points/0/payload", 0},
    {"{\"points\":[{\"id\":1,\"vector\":{},\"payload\":{\"_expires_at\":\"soon\"}}]}",
     "_expires_at", 422},
    {"{\"points\":[{\"id\":1,\"vector\":{},\"payload\":{\"_subject\":7}}]}", "_subject",
     422},
    {"{\"points\":[{\"id\":1,\"vector\":{}}],\"update_mode\":\"x\"}", "/update_mode",
     0},
    {"{\"points\":[{\"id\":1,\"vector\":{}}],\"filter\":{}}", NULL, 0},
    {"{\"points\":[{\"id\":1,\"vector\":{}}],\"must\":[]}", "`must` belongs", 0},
    {"{\"points\":[{\"id\":1,\"vector\":{}}],\"shard_key\":\"a\"}", "shard key", 0},
    {"{\"batch\":{\"ids\":[1,2],\"vectors\":[[1,0,0,0]]}}", "1 vectors for 2 ids", 0},
    {"{\"batch\":{\"ids\":[1],\"vectors\":[1,0,0,0]}}", "/batch/vectors", 0},
    {"{\"batch\":{\"ids\":[1],\"vectors\":{\"b\":[1,0]}}}", "one vector for each id",
     0},
    {"{\"batch\":{\"ids\":[1]}}", "expected {ids", 0},
    {"{\"batch\":{\"ids\":[1],\"vectors\":[[1,0,0,0]],\"payloads\":[]}}",
     "0 payloads for 1 ids", 0},
};

static void test_upsert__refuses_by_name(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        bw_status s = upsert(f, refusals[i].body);
        if (!refusals[i]
                 .message) { /* an unknown top-level word, ignored as Qdrant does */
            assert_int_equal(s, BW_OK);
            continue;
        }
        if (s != BW_EINVALID)
            fail_msg("%s was taken", refusals[i].body);
        assert_message(f, refusals[i].message);
        assert_int_equal(f->p.status, refusals[i].status);
    }
}

static void test_upsert__names_the_component_that_is_not_finite(void **state)
{
    fixture *f = *state;
    assert_int_equal(upsert(f, "{\"points\":[{\"id\":1,\"vector\":[1,0,0,3.5e38]}]}"),
                     BW_EINVALID);
    assert_message(f, "3");
    assert_message(f, "/points/0/vector");
}

static void test_upsert__foreign_model_is_a_conflict(void **state)
{
    fixture *f = *state;
    f->info.settings = BW_STR("{\"metadata\":{\"_model\":\"A\"}}");
    ok(f, "{\"points\":[{\"id\":1,\"vector\":{}}]}");
    assert_true(bw_str_is(op.points[0].facts.model, "A"));
    assert_int_equal(
        upsert(
            f,
            "{\"points\":[{\"id\":1,\"vector\":{},\"payload\":{\"_model\":\"B\"}}]}"),
        BW_ECONFLICT);
    f->info.settings = BW_STR("{\"vectors\":{}}");
}

static void test_selector__one_of_points_and_filter(void **state)
{
    fixture *f = *state;
    const bw_json *b =
        fixture_body(f, "{\"points\":[1,\"550e8400e29b41d4a716446655440000\"]}");
    assert_int_equal(bw_qdrant__delete(&f->p, b, &op), BW_OK);
    assert_int_equal(op.nids, 2);
    b = fixture_body(f, "{\"filter\":{}}");
    assert_int_equal(bw_qdrant__delete(&f->p, b, &op), BW_OK);
    assert_non_null(op.filter);
    static const char *const wrong[] = {
        "{}",
        "{\"filter\":null}",
        "{\"points\":null}",
        "{\"points\":[1],\"filter\":{}}",
        "{\"must\":[]}",
        "{\"points\":[1],\"key\":\"a\"}",
        "{\"filter\":{\"must\":[{\"key\":\"doc_id\",\"match\":{\"value\":null}}]}}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        b = fixture_body(f, wrong[i]);
        if (bw_qdrant__delete(&f->p, b, &op) != BW_EINVALID)
            fail_msg("%s was taken", wrong[i]);
    }
}

static void test_payload_calls__keep_the_points_own_words(void **state)
{
    fixture *f = *state;
    static const char *const wrong[] = {
        "{\"points\":[1],\"payload\":{\"_labels\":{}}}",
        "{\"points\":[1],\"payload\":{\"_expires_at\":1}}",
        "{\"points\":[1],\"payload\":{\"_whatever\":1}}",
        "{\"points\":[1],\"payload\":{\"metadata\":{\"_labels\":{}}}}",
        "{\"points\":[1],\"payload\":{\"_labels\":{}},\"key\":\"metadata\"}",
        "{\"points\":[1],\"payload\":{\"a\":1},\"key\":\"_labels\"}",
        "{\"points\":[1],\"payload\":{\"a\":1},\"key\":\"metadata._labels\"}",
        "{\"points\":[1],\"payload\":7}",
        "{\"points\":[1]}",
        "{\"points\":[1],\"payload\":{},\"key\":\"\"}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const bw_json *b = fixture_body(f, wrong[i]);
        if (bw_qdrant__set_payload(&f->p, b, BW_OP_SET_PAYLOAD, &op) != BW_EINVALID)
            fail_msg("%s was taken", wrong[i]);
    }
    const bw_json *b =
        fixture_body(f, "{\"points\":[1],\"payload\":{\"q\":3},\"key\":\"o.p\"}");
    assert_int_equal(bw_qdrant__set_payload(&f->p, b, BW_OP_SET_PAYLOAD, &op), BW_OK);
    assert_true(bw_str_is(op.key, "o.p") && bw_str_is(op.payload, "{\"q\":3}"));
    b = fixture_body(f, "{\"points\":[1],\"payload\":{\"_node_content\":\"x\"}}");
    assert_int_equal(bw_qdrant__set_payload(&f->p, b, BW_OP_OVERWRITE_PAYLOAD, &op),
                     BW_OK);
    b = fixture_body(f, "{\"points\":[1],\"keys\":[\"a.b\",\"c\"]}");
    assert_int_equal(bw_qdrant__delete_payload(&f->p, b, &op), BW_OK);
    assert_int_equal(op.nkeys, 2);
    b = fixture_body(f, "{\"points\":[1],\"keys\":[\"_labels\"]}");
    assert_int_equal(bw_qdrant__delete_payload(&f->p, b, &op), BW_EINVALID);
    b = fixture_body(f, "{\"points\":[1],\"keys\":[\"metadata._subject\"]}");
    assert_int_equal(bw_qdrant__delete_payload(&f->p, b, &op), BW_EINVALID);
}

static void test_payload_calls__cap_the_depth(void **state)
{
    fixture *f = *state;
    for (unsigned n = BW_LIMIT_PAYLOAD_DEPTH - 3; n <= BW_LIMIT_PAYLOAD_DEPTH - 2;
         n++) {
        /* an object of n levels under a key of three steps */
        const char *text = fixture_repeat(
            "{\"points\":[1],\"key\":\"a.b.c\",\"payload\":", "{\"k\":", n - 1, "{}",
            "}", "}");
        const bw_json *b = fixture_body(f, text);
        assert_non_null(b);
        assert_int_equal(bw_qdrant__set_payload(&f->p, b, BW_OP_SET_PAYLOAD, &op),
                         n + 3 <= BW_LIMIT_PAYLOAD_DEPTH ? BW_OK : BW_EINVALID);
    }
    assert_message(f, "nest deeper");
}

static void test_vector_calls(void **state)
{
    fixture *f = *state;
    const bw_json *b =
        fixture_body(f, "{\"points\":[{\"id\":2,\"vector\":{\"b\":[5,5]}}]}");
    assert_int_equal(bw_qdrant__update_vectors(&f->p, b, &op), BW_OK);
    assert_int_equal(op.points[0].nvectors, 1);
    b = fixture_body(f, "{\"points\":[1],\"vector\":[\"b\",\"\"]}");
    assert_int_equal(bw_qdrant__delete_vectors(&f->p, b, &op), BW_OK);
    assert_int_equal(op.nkeys, 2);
    b = fixture_body(f, "{\"points\":[1],\"vector\":[\"zzz\"]}");
    assert_int_equal(bw_qdrant__delete_vectors(&f->p, b, &op), BW_EINVALID);
    b = fixture_body(f, "{\"points\":[{\"id\":2,\"vector\":{\"b\":[5]}}]}");
    assert_int_equal(bw_qdrant__update_vectors(&f->p, b, &op), BW_EINVALID);
}

static void test_ids__cap(void **state)
{
    fixture *f = *state;
    for (unsigned n = BW_LIMIT_IDS; n <= BW_LIMIT_IDS + 1; n++) {
        const bw_json *b = fixture_body(
            f, fixture_repeat("{\"points\":[1", ",1", n - 1, "", "", "]}"));
        assert_non_null(b);
        assert_int_equal(bw_qdrant__delete(&f->p, b, &op),
                         n == BW_LIMIT_IDS ? BW_OK : BW_EINVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upsert__points),
        cmocka_unit_test(test_upsert__batch),
        cmocka_unit_test(test_upsert__facts_and_text),
        cmocka_unit_test(test_upsert__modes),
        cmocka_unit_test(test_upsert__refuses_by_name),
        cmocka_unit_test(test_upsert__names_the_component_that_is_not_finite),
        cmocka_unit_test(test_upsert__foreign_model_is_a_conflict),
        cmocka_unit_test(test_selector__one_of_points_and_filter),
        cmocka_unit_test(test_payload_calls__keep_the_points_own_words),
        cmocka_unit_test(test_payload_calls__cap_the_depth),
        cmocka_unit_test(test_vector_calls),
        cmocka_unit_test(test_ids__cap),
    };
    return cmocka_run_group_tests(tests, fixture_new, fixture_free);
}
