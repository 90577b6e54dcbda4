/* Out of memory at every allocation of reading each kind of body: the answer is right
 * or BW_ENOMEM, and nothing stays behind. */
#include "qdrant_fixture.h"

#include "failing_alloc.h"

typedef struct job {
    const char *body;
    int call;
} job;

static const job jobs[] = {
    {"{\"prefetch\":[{\"query\":[1,0,0,0],\"limit\":2},{\"query\":{\"indices\":[9,1],"
     "\"values\":[1,2]},\"using\":\"s\"}],"
     "\"query\":{\"rrf\":{\"weights\":[1,2]}},\"filter\":{\"must\":[{\"key\":"
     "\"a\\u00e9[].b\",\"match\":{\"any\":[1,2]}},"
     "{\"nested\":{\"key\":\"q\",\"filter\":{\"should\":[{\"has_id\":[1,"
     "\"550e8400e29b41d4a716446655440000\"]}]}}}]},"
     "\"with_payload\":[\"a\",\"b.c\"],\"with_vector\":[\"b\"]}",
     0},
    {"{\"query\":{\"recommend\":{\"positive\":[1,[0,1,0,0]],\"negative\":[2]}},"
     "\"lookup_from\":{\"collection\":\"o\"}}",
     0},
    {"{\"points\":[{\"id\":1,\"vector\":{\"\":[1,2,3,4],\"s\":{\"indices\":[5,1],"
     "\"values\":[1,2]}},\"payload\":{"
     "\"_labels\":{\"x\":1},\"_model\":\"A\",\"_node_content\":\"{\\\"text\\\":"
     "\\\"t\\\"}\"}}],"
     "\"update_filter\":{\"must\":[]}}",
     1},
    {"{\"batch\":{\"ids\":[1,2],\"vectors\":{\"b\":[[1,0],[0,1]]},\"payloads\":[{\"a\":"
     "1},null]}}",
     1},
    {"{\"vectors\":{\"a\":{\"size\":4,\"distance\":\"Dot\"}},\"sparse_vectors\":{\"s\":"
     "{}},\"hnsw_config\":{\"m\":4},"
     "\"metadata\":{\"k\":1}}",
     2},
    {"{\"optimizers_config\":{\"indexing_threshold\":5},\"metadata\":{\"k\":null}}", 3},
    {"{\"payload\":{\"a\":{\"b\":1}},\"points\":[1],\"key\":\"o.p\"}", 4},
    {"{\"keys\":[\"a.b\",\"c\"],\"filter\":{\"must\":[{\"is_empty\":{\"key\":\"a\"}}]}"
     "}",
     5},
    {"{\"vector\":[\"b\"],\"points\":[1]}", 6},
    {"{\"field_name\":\"a\",\"field_schema\":{\"type\":\"integer\",\"range\":true}}",
     7},
};

static bw_status run(bw_qdrant_parse *p, const bw_json *body, int call)
{
    bw_query query;
    bw_qdrant_show show;
    bw_op op;
    bw_qdrant_labels labels;
    bw_qdrant_schema schema;
    bw_index_spec index;
    switch (call) {
    case 0:
        return bw_qdrant__query(p, body, &query, &show);
    case 1:
        return bw_qdrant__upsert(p, body, &op, &labels);
    case 2:
        return bw_qdrant__create(p, body, &schema);
    case 3:
        return bw_qdrant__patch(p,
                                BW_STR("{\"vectors\":{\"\":{\"size\":1,\"distance\":"
                                       "\"Dot\"}},\"metadata\":{\"k\":1}}"),
                                body, &schema);
    case 4:
        return bw_qdrant__set_payload(p, body, BW_OP_SET_PAYLOAD, &op);
    case 5:
        return bw_qdrant__delete_payload(p, body, &op);
    case 6:
        return bw_qdrant__delete_vectors(p, body, &op);
    default:
        return bw_qdrant__index(p, body, &index);
    }
}

static void read_body(void *arg)
{
    const job *j = arg;
    long before = failing_live;
    bw_ctx *ctx = bw_ctx_new(0);
    if (ctx) {
        bw_collection_info info = {.vectors = fixture_specs,
                                   .nvectors = 3,
                                   .settings =
                                       BW_STR("{\"metadata\":{\"_model\":\"A\"}}")};
        bw_qdrant_parse p = {.ctx = ctx, .info = &info};
        const bw_json *body;
        bw_status s = bw_qdrant__body(&p, bw_str_c(j->body), &body);
        if (s == BW_OK)
            s = run(&p, body, j->call);
        if (s != (failing_hit ? BW_ENOMEM : BW_OK))
            fail_msg("%s: status %d, %s", j->body, s, bw_ctx_message(ctx));
    }
    bw_ctx_free(ctx);
    assert_int_equal(failing_live, before);
}

static void test_bodies__survive_every_failed_allocation(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        job j = jobs[i];
        assert_true(failing_sweep(read_body, &j, 2000) > 2);
    }
}

static void put_payload(void *arg)
{
    (void)arg;
    long before = failing_live;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_buf b = {0};
    if (ctx) {
        bw_step steps[] = {{BW_STEP_KEY, {"r", 1}, 0}, {BW_STEP_INDEX, {NULL, 0}, 1}};
        bw_path path = {steps, 2};
        bw_qdrant_show show = {.payload = true, .include = &path, .ninclude = 1};
        bw_status s = bw_qdrant__put_payload(
            ctx, &b, BW_STR("{\"r\":[10,20,30],\"q\":{\"x\":[1]}}"), &show);
        assert_true(failing_hit ? s == BW_ENOMEM || b.failed : s == BW_OK && !b.failed);
    }
    bw_buf_clear(&b);
    bw_ctx_free(ctx);
    assert_int_equal(failing_live, before);
}

static void test_payload__survives_every_failed_allocation(void **state)
{
    (void)state;
    assert_true(failing_sweep(put_payload, NULL, 1000) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies__survive_every_failed_allocation),
        cmocka_unit_test(test_payload__survives_every_failed_allocation),
    };
    failing_set();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
