/* Opening, collections, aliases, classes, and the first path of a point through the
 * engine: upsert, snapshot, search, restart. */
#include "engine_cell.h"

static int setup(void **state)
{
    cell *c = calloc(1, sizeof *c);
    cell_init(c, NULL);
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    cell *c = *state;
    cell_clear(c);
    free(c);
    return 0;
}

static void
test_engine_open__refuses_a_second_process_and_a_missing_folder(void **state)
{
    cell *c = *state;
    bw_engine *other = NULL;
    assert_int_equal(bw_engine_open(c->ctx, c->dir, &c->options, &other),
                     BW_EUNAVAILABLE);
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.create = false;
    assert_int_equal(bw_engine_open(c->ctx, "/nonexistent/bw", &o, &other),
                     BW_ENOTFOUND);
    assert_null(other);
}

static void test_engine_open__refuses_a_newer_format(void **state)
{
    cell *c = *state;
    bw_engine_close(c->engine);
    c->engine = NULL;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/catalogue.db", c->dir);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 60, SEEK_SET), 0); /* user_version, big-endian */
    assert_int_equal(fwrite("\0\0\0\x63", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(bw_engine_open(c->ctx, c->dir, &c->options, &c->engine),
                     BW_ECORRUPT);
    f = fopen(path, "r+b");
    assert_int_equal(fseek(f, 60, SEEK_SET), 0);
    assert_int_equal(fwrite("\0\0\0\x02", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    cell_open(c);
}

static void test_collection_create__names_are_a_tenants_own(void **state)
{
    cell *c = *state;
    cell_collection(c, 4, BW_METRIC_COSINE, 1);
    bw_vector_spec v = {.name = BW_STR(""), .dim = 4};
    bw_collection_info info = {
        .tenant = TENANT, .name = NAME, .vectors = &v, .nvectors = 1};
    assert_int_equal(bw_collection_create(c->ctx, c->engine, &info), BW_EEXISTS);
    info.tenant = BW_STR("other");
    info.labels = BW_STR("{}");
    OK(bw_collection_create(c->ctx, c->engine, &info));
    OK(bw_collection_update(c->ctx, c->engine, BW_STR("other"), NAME,
                            BW_STR("{\"b\":2}"), (bw_str){NULL, 0}));
    for (int round = 0; round < 2; round++) {
        bw_collection_info got;
        OK(bw_collection_get(c->ctx, c->engine, BW_STR("other"), NAME, &got));
        assert_true(bw_str_is(got.settings, "{\"b\":2}"));
        assert_true(bw_str_is(got.labels, "{}"));
        OK(bw_collection_get(c->ctx, c->engine, TENANT, NAME, &got));
        assert_true(bw_str_is(got.settings, "{\"a\":1}"));
        assert_null(got.labels.ptr);
        assert_int_equal(got.nvectors, 2);
        assert_true(got.vectors[1].sparse);
        const bw_collection_info *list;
        size_t n;
        OK(bw_collection_list(c->ctx, c->engine, (bw_str){NULL, 0}, &list, &n));
        assert_int_equal(n, 2);
        assert_true(bw_str_is(list[0].tenant, "other"));
        OK(bw_collection_list(c->ctx, c->engine, TENANT, &list, &n));
        assert_int_equal(n, 1);
        cell_reopen(c);
    }
    assert_int_equal(bw_collection_get(c->ctx, c->engine, BW_STR("third"), NAME,
                                       &(bw_collection_info){0}),
                     BW_ENOTFOUND);
}

static void test_collection_drop__takes_files_and_aliases(void **state)
{
    cell *c = *state;
    cell_collection(c, 4, BW_METRIC_DOT, 3);
    cell_upsert_range(c, 1, 1, 10, 4);
    cell_upsert_range(c, 2, 20, 30, 4);
    bw_alias_action make = {
        .kind = BW_ALIAS_CREATE, .alias = BW_STR("al"), .collection = NAME};
    OK(bw_alias_apply(c->ctx, c->engine, TENANT, &make, 1));
    char path[128];
    (void)snprintf(path, sizeof path, "%s/p/1.db", c->dir);
    assert_int_equal(access(path, F_OK), 0);
    bw_view held = cell_view(c, 1, 2);
    bool existed;
    OK(bw_collection_drop(c->ctx, c->engine, TENANT, BW_STR("al"),
                          &existed)); /* an alias is none */
    assert_false(existed);
    OK(bw_collection_drop(c->ctx, c->engine, TENANT, NAME, &existed));
    assert_true(existed);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(bw_bitmap_count(bw_snapshot_live(held.parts[0])),
                     9); /* an old view lives on */
    bw_view_close(&held);
    OK(bw_collection_drop(c->ctx, c->engine, TENANT, NAME, &existed));
    assert_false(existed);
    const bw_alias *list;
    size_t n;
    OK(bw_alias_list(c->ctx, c->engine, TENANT, &list, &n));
    assert_int_equal(n, 0);
    cell_reopen(c);
    cell_collection(c, 8, BW_METRIC_DOT, 1);
    cell_upsert_range(c, 1, 1, 3, 8);
    assert_int_equal(access(path, F_OK) != 0, 1); /* numbers are never used again */
}

static void test_collection_drop__spares_a_class_that_nobody_judged(void **state)
{
    cell *c = *state;
    const bw_class_id *have;
    size_t n;
    bool existed;
    cell_collection(c, 4, BW_METRIC_DOT, 3);
    cell_upsert_range(c, 1, 1, 10, 4);
    OK(bw_collection_classes(c->ctx, c->engine, TENANT, NAME, &have, &n, NULL));
    bw_permit judged = {have, n};
    cell_upsert_range(c, 2, 20, 30, 4); /* a writer between the decision and the drop */
    assert_int_equal(
        bw_collection_drop_judged(c->ctx, c->engine, TENANT, NAME, &judged, &existed),
        BW_ECONFLICT);
    assert_false(existed);
    cell_reopen(c);
    bw_view both = cell_view(c, 1, 2);
    assert_int_equal(bw_bitmap_count(bw_snapshot_live(both.parts[0])), 9);
    assert_int_equal(bw_bitmap_count(bw_snapshot_live(both.parts[1])), 10);
    bw_view_close(&both);
    OK(bw_collection_classes(c->ctx, c->engine, TENANT, NAME, &have, &n, NULL));
    judged = (bw_permit){have, n};
    OK(bw_collection_drop_judged(c->ctx, c->engine, TENANT, NAME, &judged, &existed));
    assert_true(existed);
}

static void test_alias_apply__is_all_or_none(void **state)
{
    cell *c = *state;
    cell_collection(c, 4, BW_METRIC_DOT, 1);
    bw_alias_action good[2] = {
        {.kind = BW_ALIAS_CREATE, .alias = BW_STR("a"), .collection = NAME},
        {.kind = BW_ALIAS_RENAME, .alias = BW_STR("a"), .new_alias = BW_STR("b")}};
    OK(bw_alias_apply(c->ctx, c->engine, TENANT, good, 2));
    bw_alias_action bad[2] = {{.kind = BW_ALIAS_DELETE, .alias = BW_STR("b")},
                              {.kind = BW_ALIAS_DELETE, .alias = BW_STR("missing")}};
    assert_int_equal(bw_alias_apply(c->ctx, c->engine, TENANT, bad, 2), BW_ENOTFOUND);
    for (int round = 0; round < 2; round++) {
        const bw_alias *list;
        size_t n;
        OK(bw_alias_list(c->ctx, c->engine, TENANT, &list, &n));
        assert_int_equal(n, 1);
        assert_true(bw_str_is(list[0].alias, "b"));
        assert_true(bw_str_is(list[0].collection, "docs"));
        bw_collection_info info;
        OK(bw_collection_get(c->ctx, c->engine, TENANT, BW_STR("b"), &info));
        assert_true(bw_str_is(info.name, "docs"));
        cell_reopen(c);
    }
    bw_vector_spec v = {.name = BW_STR(""), .dim = 4};
    bw_collection_info info = {
        .tenant = TENANT, .name = BW_STR("b"), .vectors = &v, .nvectors = 1};
    assert_int_equal(bw_collection_create(c->ctx, c->engine, &info), BW_EEXISTS);
}

static void test_class_put__must_come_before_the_write(void **state)
{
    cell *c = *state;
    cell_collection(c, 4, BW_METRIC_DOT, 1);
    bw_point p = cell_point(c, 2, 1, 4, NULL);
    bw_access a = cell_access(c, 1, 9);
    bw_op op = {.kind = BW_OP_UPSERT, .points = &p, .npoints = 1};
    bw_write_result r;
    assert_int_equal(cell_write(c, &a, &op, 1, &r), BW_EINVALID);
    bw_class_id id = cell_class(2);
    uint64_t before, version;
    const bw_class_id *list;
    size_t n;
    OK(bw_collection_classes(c->ctx, c->engine, TENANT, NAME, &list, &n, &before));
    OK(bw_class_put(c->ctx, c->engine, &id, BW_STR("two")));
    OK(bw_class_put(c->ctx, c->engine, &id, BW_STR("other text, not looked at")));
    OK(cell_write(c, &a, &op, 1, &r));
    OK(bw_collection_classes(c->ctx, c->engine, TENANT, NAME, &list, &n, &version));
    assert_int_not_equal(version, before);
    cell_reopen(c);
    bw_str text;
    OK(bw_class_get(c->ctx, c->engine, &id, &text));
    assert_true(bw_str_is(text, "two"));
    OK(bw_collection_classes(c->ctx, c->engine, TENANT, NAME, &list, &n, NULL));
    assert_int_equal(n, 1);
    assert_int_equal(bw_class_id_cmp(&list[0], &id), 0);
}

static uint64_t classes_version(cell *c, bw_str name)
{
    bw_collection_info info;
    const bw_class_id *list;
    size_t n;
    uint64_t version;
    OK(bw_collection_get(c->ctx, c->engine, TENANT, name, &info));
    OK(bw_collection_classes(c->ctx, c->engine, TENANT, name, &list, &n, &version));
    assert_int_equal(info.classes_version, version);
    return version;
}

static void test_classes_version__names_one_list_for_good(void **state)
{
    cell *c = *state;
    bool existed;
    cell_collection(c, 4, BW_METRIC_DOT, 2);
    bw_vector_spec v = {.name = BW_STR(""), .dim = 4, .metric = BW_METRIC_DOT};
    bw_collection_info other = {
        .tenant = TENANT, .name = BW_STR("other"), .vectors = &v, .nvectors = 1};
    OK(bw_collection_create(c->ctx, c->engine, &other));
    uint64_t seen[5] = {classes_version(c, NAME), classes_version(c, other.name)};
    cell_upsert_range(c, 1, 1, 5, 4);
    seen[2] = classes_version(c, NAME);
    cell_upsert_range(c, 1, 5, 9, 4); /* more of a class that is there */
    assert_int_equal(classes_version(c, NAME), seen[2]);
    assert_int_equal(classes_version(c, other.name), seen[1]);
    cell_upsert_range(c, 2, 20, 25, 4);
    seen[3] = classes_version(c, NAME);
    OK(bw_collection_drop(c->ctx, c->engine, TENANT, NAME, &existed));
    cell_collection(c, 4, BW_METRIC_DOT, 2); /* the same name, another list */
    seen[4] = classes_version(c, NAME);
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(seen[i], seen[k]);
}

static void search(cell *c, unsigned class_no, const float *query, size_t k,
                   bw_candidate *items, size_t *n)
{
    bw_view v = cell_view(c, class_no, class_no);
    bw_topk t;
    bw_topk_init(&t, items, k);
    bw_search_params p = {.vec = 0, .k = k, .allowed = bw_snapshot_live(v.parts[0])};
    OK(bw_snapshot_search_dense(c->ctx, v.parts[0], query, &p, &t, NULL));
    bw_topk_sort(&t);
    *n = t.n;
    bw_view_close(&v);
}

static void
test_snapshot_search__finds_what_was_written_and_survives_restart(void **state)
{
    cell *c = *state;
    cell_collection(c, 32, BW_METRIC_COSINE, 2);
    cell_upsert_range(c, 1, 1, 1001, 32);
    cell_upsert_range(c, 2, 500, 600, 32);
    bw_point p = cell_point(c, 1, 77, 32, NULL);
    bw_candidate before[10], after[10];
    size_t n;
    search(c, 1, p.vectors->values, 10, before, &n);
    assert_int_equal(n, 10);
    assert_int_equal(before[0].id.lo, 77);
    bw_str dump = cell_dump(c, 1, 2, 32), copy;
    bw_buf keep = {0};
    bw_buf_str(&keep, dump);
    cell_reopen(c);
    copy = cell_dump(c, 1, 2, 32);
    assert_true(bw_str_eq(bw_buf_view(&keep), copy));
    bw_buf_clear(&keep);
    p = cell_point(c, 1, 77, 32, NULL);
    search(c, 1, p.vectors->values, 10, after, &n);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(before[i].id.lo, after[i].id.lo);
        assert_memory_equal(&before[i].key, &after[i].key, sizeof(float));
    }
}

static void test_view_open__opens_only_permitted_classes(void **state)
{
    cell *c = *state;
    cell_collection(c, 4, BW_METRIC_DOT, 3);
    cell_upsert_range(c, 1, 1, 5, 4);
    cell_upsert_range(c, 3, 1, 7, 4);
    cell_reopen(c);
    bw_view v = cell_view(c, 2, 3);
    assert_int_equal(v.nparts, 1);
    bw_view_close(&v);
    bw_str json;
    OK(bw_engine_stats(c->ctx, c->engine, &json));
    assert_non_null(memmem(json.ptr, json.len, "\"partitions_loaded\":1,", 22));
    assert_non_null(memmem(json.ptr, json.len, "\"points\":6,", 11));
}

/* Arena bytes of a caller's reads: the request's budget is part of the answer. */
static size_t budget_of_reads(cell *c)
{
    bw_class_id ids[3] = {cell_class(1), cell_class(7), cell_class(8)};
    bw_permit permit = {ids, 3};
    const bw_collection_info *infos;
    const bw_alias *aliases;
    size_t n;
    bw_view v;
    bw_ctx_reset(c->ctx);
    OK(bw_collection_list(c->ctx, c->engine, TENANT, &infos, &n));
    assert_int_equal(n, 1);
    OK(bw_alias_list(c->ctx, c->engine, TENANT, &aliases, &n));
    assert_int_equal(n, 1);
    OK(bw_view_open(c->ctx, c->engine, TENANT, NAME, &permit, 0, &v));
    assert_int_equal(v.nparts, 1);
    bw_view_close(&v);
    return bw_arena_used(c->ctx);
}

static void test_reads__cost_the_same_whatever_others_have(void **state)
{
    cell *c = *state;
    cell_collection(c, 4, BW_METRIC_COSINE, 3);
    bw_point p = cell_point(c, 1, 1, 4, NULL);
    cell_upsert(c, &p, 1);
    bw_alias_action own = {
        .kind = BW_ALIAS_CREATE, .alias = BW_STR("a"), .collection = NAME};
    OK(bw_alias_apply(c->ctx, c->engine, TENANT, &own, 1));
    cell_reopen(c);
    size_t before = budget_of_reads(c); /* loads the partition, which costs nothing */
    assert_int_equal(budget_of_reads(c), before);
    bw_point q[2] = {cell_point(c, 2, 1, 4, NULL), cell_point(c, 3, 1, 4, NULL)};
    bw_class_id ids[2] = {cell_class(2), cell_class(3)};
    bw_permit others = {ids, 2};
    bw_access a = {others, others, others, others};
    bw_op op = {.kind = BW_OP_UPSERT, .points = q, .npoints = 2};
    bw_write_result r;
    OK(cell_write(c, &a, &op, 1, &r));
    bw_vector_spec v = {.name = BW_STR(""), .dim = 4};
    for (unsigned i = 0; i < 5; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "c%u", i);
        bw_collection_info info = {.tenant = BW_STR("other"),
                                   .name = bw_str_c(name),
                                   .vectors = &v,
                                   .nvectors = 1};
        OK(bw_collection_create(c->ctx, c->engine, &info));
        bw_alias_action alias = {
            .kind = BW_ALIAS_CREATE, .alias = BW_STR("x"), .collection = info.name};
        OK(bw_alias_apply(c->ctx, c->engine, BW_STR("other"), &alias, 1));
    }
    assert_int_equal(budget_of_reads(c), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_engine_open__refuses_a_second_process_and_a_missing_folder, setup,
            teardown),
        cmocka_unit_test_setup_teardown(test_engine_open__refuses_a_newer_format, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_collection_create__names_are_a_tenants_own,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_collection_drop__spares_a_class_that_nobody_judged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_collection_drop__takes_files_and_aliases,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_alias_apply__is_all_or_none, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_class_put__must_come_before_the_write,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_classes_version__names_one_list_for_good,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_snapshot_search__finds_what_was_written_and_survives_restart, setup,
            teardown),
        cmocka_unit_test_setup_teardown(test_view_open__opens_only_permitted_classes,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_reads__cost_the_same_whatever_others_have,
                                        setup, teardown),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
