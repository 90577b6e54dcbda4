/* What a collection asks of its graphs, beyond what a kind of index can do. */
#include "engine_cell.h"

#include "engine/base/json.h"

static uint64_t graphs_serving(cell *c)
{
    bw_str json;
    bw_json *doc;
    uint64_t n = 0;
    OK(bw_engine_stats(c->ctx, c->engine, &json));
    OK(bw_json_parse(c->ctx, json, BW_JSON_REQUEST, &doc));
    assert_true(bw_json_u64(bw_json_get(doc, "graphs_serving"), &n));
    return n;
}

static void expect_graph(uint64_t rows, uint32_t dim, bw_index_choice index, uint32_t m,
                         uint32_t ef)
{
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.seal_rows = (uint32_t)rows + 1;
    o.null_sync = true;
    cell_init(c, &o);
    bw_vector_spec spec = {.name = BW_STR(""),
                           .dim = dim,
                           .metric = BW_METRIC_COSINE,
                           .index = index,
                           .m = m,
                           .ef_construct = ef};
    bw_collection_info info = {
        .tenant = TENANT, .name = NAME, .vectors = &spec, .nvectors = 1};
    bw_class_id id = cell_class(1);
    OK(bw_collection_create(c->ctx, c->engine, &info));
    OK(bw_class_put(c->ctx, c->engine, &id, BW_STR("labels")));
    cell_upsert_range(c, 1, 0, rows, dim);
    const bw_permit all = cell_permit(c, 1, 1);
    OK(bw_collection_seal(c->ctx, c->engine, TENANT, NAME, &all));
    assert_int_equal(graphs_serving(c), 1);
    cell_reopen(c); /* and its saved form is found again */
    const bw_permit again = cell_permit(c, 1, 1);
    OK(bw_collection_seal(c->ctx, c->engine, TENANT, NAME, &again));
    assert_int_equal(graphs_serving(c), 1);
    cell_clear(c);
}

static void test_build__large_and_small_wishes_are_met_as_far_as_can_be(void **state)
{
    (void)state;
    expect_graph(600, 16, BW_INDEX_AUTO, 512, 65536);
    expect_graph(600, 16, BW_INDEX_AUTO, 1, 1);
    expect_graph(600, 16, BW_INDEX_FAISS_HNSW, 513, 65536);
    expect_graph(600, 16, BW_INDEX_FAISS_HNSW, 1, 4);
    expect_graph(20, 16385, BW_INDEX_AUTO, 0, 0); /* more than our own graph takes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build__large_and_small_wishes_are_met_as_far_as_can_be),
    };
    return cmocka_run_group_tests_name("build limits", tests, NULL, NULL);
}
