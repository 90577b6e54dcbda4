/* bw_write: what each operation does, to whom, and what it refuses. */
#include "engine_cell.h"

#include <math.h>

enum { DIM = 4 };

static int setup(void **state)
{
    cell *c = calloc(1, sizeof *c);
    cell_init(c, NULL);
    cell_collection(c, DIM, BW_METRIC_COSINE, 4);
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    cell *c = *state;
    bw_clock_fix(0);
    cell_clear(c);
    free(c);
    return 0;
}

/* The row of an id in a class, or false. Strings live in ctx's arena. */
static bool get(cell *c, unsigned class_no, uint64_t id, bw_row *row, float *vec)
{
    bw_view v = cell_view(c, class_no, class_no);
    bw_point_id pid = cell_id(id);
    uint32_t r;
    bool found = v.nparts == 1 && bw_snapshot_find(v.parts[0], &pid, &r);
    if (found) {
        bw_snapshot_row(v.parts[0], r, row);
        if (row->payload.ptr)
            OK(bw_arena_str(c->ctx, row->payload, &row->payload));
        if (row->text.ptr)
            OK(bw_arena_str(c->ctx, row->text, &row->text));
        const float *d = cell_dense(c, v.parts[0], 0, r);
        if (vec && d)
            memcpy(vec, d, DIM * sizeof(float));
        else if (vec)
            vec[0] = NAN;
    }
    bw_view_close(&v);
    return found;
}

static bool has(cell *c, unsigned class_no, uint64_t id)
{
    bw_row row;
    return get(c, class_no, id, &row, NULL);
}

static bw_status one(cell *c, const bw_access *a, bw_op op, bw_write_result *r)
{
    return cell_write(c, a, &op, 1, r);
}

static void test_write_upsert__normalises_cosine_and_keeps_payload_bytes(void **state)
{
    cell *c = *state;
    float values[DIM] = {3, 4, 0, 0};
    bw_vector v = {.name = BW_STR(""), .values = values, .n = DIM};
    bw_point p = {.id = cell_id(1),
                  .class_id = cell_class(1),
                  .payload = BW_STR("{\"b\": 18446744073709551615, \"a\":null}"),
                  .vectors = &v,
                  .nvectors = 1};
    cell_upsert(c, &p, 1);
    for (int round = 0; round < 2; round++) {
        bw_row row;
        float got[DIM];
        assert_true(get(c, 1, 1, &row, got));
        assert_true(bw_str_eq(row.payload, p.payload));
        assert_true(fabsf(got[0] - 0.6f) < 1e-6f && fabsf(got[1] - 0.8f) < 1e-6f);
        assert_int_equal(row.version, 1);
        cell_reopen(c);
    }
}

static void test_write_upsert__last_of_one_id_wins_whole(void **state)
{
    cell *c = *state;
    bw_point p[3] = {cell_point(c, 1, 5, DIM, "first"), cell_point(c, 1, 6, DIM, NULL),
                     cell_point(c, 2, 5, DIM, NULL)};
    bw_access a = cell_access(c, 1, 4);
    bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = 3};
    bw_write_result r;
    OK(cell_write(c, &a, &op, 1, &r));
    assert_int_equal(r.points_changed, 2);
    assert_false(has(c, 1, 5));
    assert_true(has(c, 2, 5));
    bw_row row;
    assert_true(get(c, 2, 5, &row, NULL));
    assert_null(row.text.ptr);
}

static void test_write_upsert__checks_vectors_in_the_contracts_words(void **state)
{
    cell *c = *state;
    bw_access a = cell_access(c, 1, 4);
    bw_write_result r;
    float values[DIM] = {1, 0, 0, 0};
    uint32_t twice[2] = {7, 7};
    struct {
        bw_vector v;
        const char *message;
    } cases[] = {
        {{.name = BW_STR(""), .values = values, .n = 3},
         "Vector dimension error: expected dim: 4, got 3"},
        {{.name = BW_STR("no"), .values = values, .n = 4},
         "Not existing vector name error: no"},
        {{.name = BW_STR("words"), .values = values, .n = 4},
         "Conversion between sparse"},
        {{.name = BW_STR("words"),
          .values = values,
          .indices = twice,
          .n = 2,
          .sparse = true},
         "unique"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bw_point p[2] = {cell_point(c, 1, 1, DIM, NULL),
                         cell_point(c, 1, 2, DIM, NULL)};
        p[1].vectors = &cases[i].v;
        assert_int_equal(
            one(c, &a, (bw_op){.kind = BW_OP_UPSERT, .points = p, .npoints = 2}, &r),
            BW_EINVALID);
        assert_non_null(strstr(bw_ctx_message(c->ctx), cases[i].message));
    }
    values[2] = NAN;
    bw_point p = cell_point(c, 1, 1, DIM, NULL);
    p.vectors = &(bw_vector){.name = BW_STR(""), .values = values, .n = 4};
    assert_int_equal(
        one(c, &a, (bw_op){.kind = BW_OP_UPSERT, .points = &p, .npoints = 1}, &r),
        BW_EINVALID);
    assert_int_equal(cell_count(c, 1, 4), 0); /* nothing of a refused call remains */
    const bw_class_id *list;
    size_t n;
    OK(bw_collection_classes(c->ctx, c->engine, TENANT, NAME, &list, &n, NULL));
    assert_int_equal(n, 0);
}

static void test_write_upsert__moves_between_visible_classes_only(void **state)
{
    cell *c = *state;
    bw_point p = cell_point(c, 1, 9, DIM, NULL);
    cell_upsert(c, &p, 1);
    bw_write_result r;
    /* Who sees class 1 but may not relabel it is refused, and nothing changes. */
    bw_access a = cell_access(c, 1, 4);
    a.relabel = cell_permit(c, 2, 4);
    bw_point q = cell_point(c, 2, 9, DIM, NULL);
    bw_op op = {.kind = BW_OP_UPSERT, .points = &q, .npoints = 1};
    assert_int_equal(one(c, &a, op, &r), BW_EDENIED);
    bw_class_id denied = cell_class(1);
    assert_memory_equal(&r.denied_class, &denied, sizeof denied);
    assert_true(has(c, 1, 9));
    assert_false(has(c, 2, 9));
    /* For who does not see class 1 the id is free. */
    a = cell_access(c, 2, 4);
    OK(one(c, &a, op, &r));
    assert_true(has(c, 1, 9));
    assert_true(has(c, 2, 9));
    /* Who sees both and may relabel moves both copies into one. */
    a = cell_access(c, 1, 4);
    q = cell_point(c, 3, 9, DIM, NULL);
    OK(one(c, &a, op, &r));
    assert_false(has(c, 1, 9));
    assert_false(has(c, 2, 9));
    assert_true(has(c, 3, 9));
}

static void test_write_upsert__denies_a_class_outside_store(void **state)
{
    cell *c = *state;
    bw_access a = cell_access(c, 1, 4);
    a.store = cell_permit(c, 1, 2);
    bw_point p[2] = {cell_point(c, 1, 1, DIM, NULL), cell_point(c, 3, 2, DIM, NULL)};
    bw_write_result r;
    assert_int_equal(
        one(c, &a, (bw_op){.kind = BW_OP_UPSERT, .points = p, .npoints = 2}, &r),
        BW_EDENIED);
    bw_class_id denied = cell_class(3);
    assert_memory_equal(&r.denied_class, &denied, sizeof denied);
    assert_int_equal(cell_count(c, 1, 4), 0);
}

static void test_write_upsert__modes_and_update_filter(void **state)
{
    cell *c = *state;
    bw_access a = cell_access(c, 1, 4);
    bw_write_result r;
    bw_point p[2] = {cell_point(c, 1, 1, DIM, NULL), cell_point(c, 1, 2, DIM, NULL)};
    cell_upsert(c, &p[0], 1);
    bw_op op = {
        .kind = BW_OP_UPSERT, .points = p, .npoints = 2, .mode = BW_UPDATE_UPDATE_ONLY};
    p[0].text = BW_STR("changed");
    OK(one(c, &a, op, &r));
    assert_int_equal(r.points_changed, 1);
    assert_false(has(c, 1, 2));
    op.mode = BW_UPDATE_INSERT_ONLY;
    p[0].text = BW_STR("again");
    OK(one(c, &a, op, &r));
    assert_int_equal(r.points_changed, 1);
    bw_row row;
    assert_true(get(c, 1, 1, &row, NULL));
    assert_true(bw_str_is(row.text, "changed"));
    bw_value two = {.kind = BW_VALUE_INT, .mag = 2};
    bw_condition is_two = {
        .kind = BW_COND_MATCH_VALUE, .key = BW_STR("n"), .values = &two, .nvalues = 1};
    bw_filter f = {.must = &is_two, .nmust = 1};
    op.mode = BW_UPDATE_UPSERT;
    op.update_filter = &f;
    p[0].text = p[1].text = BW_STR("filtered");
    OK(one(c, &a, op, &r));
    assert_true(get(c, 1, 1, &row, NULL));
    assert_true(bw_str_is(row.text, "changed"));
    assert_true(get(c, 1, 2, &row, NULL));
    assert_true(bw_str_is(row.text, "filtered"));
}

static void test_write_delete__by_ids_and_by_filter(void **state)
{
    cell *c = *state;
    cell_upsert_range(c, 1, 1, 11, DIM);
    cell_upsert_range(c, 2, 11, 21, DIM);
    bw_access a = cell_access(c, 1, 4);
    bw_write_result r;
    bw_point_id ids[3] = {cell_id(1), cell_id(99), cell_id(1)};
    OK(one(c, &a, (bw_op){.kind = BW_OP_DELETE, .ids = ids, .nids = 3}, &r));
    assert_int_equal(r.points_changed, 1);
    bw_condition big = {.kind = BW_COND_RANGE,
                        .key = BW_STR("n"),
                        .range = {.has_gte = true,
                                  .gte = {true, false, 5, 5.0},
                                  .has_lt = true,
                                  .lt = {true, false, 15, 15.0}}};
    bw_filter f = {.must = &big, .nmust = 1};
    /* What is seen but may not be deleted makes the whole call a refusal. */
    bw_access part = a;
    part.remove = cell_permit(c, 1, 1);
    assert_int_equal(one(c, &part, (bw_op){.kind = BW_OP_DELETE, .filter = &f}, &r),
                     BW_EDENIED);
    assert_int_equal(r.points_changed, 0);
    assert_int_equal(cell_count(c, 1, 2), 19);
    /* What is not seen counts as absent. */
    part.read = cell_permit(c, 1, 1);
    OK(one(c, &part, (bw_op){.kind = BW_OP_DELETE, .filter = &f}, &r));
    assert_int_equal(r.points_changed, 6);
    OK(one(c, &a, (bw_op){.kind = BW_OP_DELETE, .filter = &f}, &r));
    assert_int_equal(r.points_changed, 4);
    cell_reopen(c);
    assert_int_equal(cell_count(c, 1, 2), 9);
}

static void test_write_payload__set_overwrite_delete_clear(void **state)
{
    cell *c = *state;
    cell_upsert_range(c, 1, 1, 3, DIM);
    bw_access a = cell_access(c, 1, 4);
    bw_write_result r;
    bw_point_id ids[2] = {cell_id(1), cell_id(77)};
    bw_row row;
    float before[DIM], after[DIM];
    assert_true(get(c, 1, 1, &row, before));
    OK(one(c, &a,
           (bw_op){.kind = BW_OP_SET_PAYLOAD,
                   .ids = ids,
                   .nids = 2,
                   .payload = BW_STR("{\"x\":[1]}")},
           &r));
    assert_int_equal(r.points_changed, 1);
    assert_true(get(c, 1, 1, &row, after));
    assert_true(bw_str_is(row.payload, "{\"n\":1,\"class\":1,\"x\":[1]}"));
    assert_memory_equal(before, after,
                        sizeof before); /* not normalised a second time */
    bw_str key = BW_STR("n");
    OK(one(c, &a,
           (bw_op){.kind = BW_OP_DELETE_PAYLOAD,
                   .ids = ids,
                   .nids = 1,
                   .keys = &key,
                   .nkeys = 1},
           &r));
    assert_true(get(c, 1, 1, &row, NULL));
    assert_true(bw_str_is(row.payload, "{\"class\":1,\"x\":[1]}"));
    OK(one(c, &a,
           (bw_op){.kind = BW_OP_OVERWRITE_PAYLOAD,
                   .ids = ids,
                   .nids = 1,
                   .payload = BW_STR("{\"z\":0}")},
           &r));
    assert_true(get(c, 1, 1, &row, NULL));
    assert_true(bw_str_is(row.payload, "{\"z\":0}"));
    OK(one(c, &a, (bw_op){.kind = BW_OP_CLEAR_PAYLOAD, .ids = ids, .nids = 1}, &r));
    assert_true(get(c, 1, 1, &row, NULL));
    assert_null(row.payload.ptr);
    assert_int_equal(row.version, 5);
    a.store = cell_permit(c, 2, 4);
    assert_int_equal(
        one(c, &a, (bw_op){.kind = BW_OP_CLEAR_PAYLOAD, .ids = ids, .nids = 1}, &r),
        BW_EDENIED);
}

static void test_write_vectors__update_and_delete(void **state)
{
    cell *c = *state;
    cell_upsert_range(c, 1, 1, 3, DIM);
    bw_access a = cell_access(c, 1, 4);
    bw_write_result r;
    float values[2] = {1, 2};
    uint32_t indices[2] = {3, 8};
    bw_vector sparse = {.name = BW_STR("words"),
                        .values = values,
                        .indices = indices,
                        .n = 2,
                        .sparse = true};
    bw_point p = {.id = cell_id(1), .vectors = &sparse, .nvectors = 1};
    OK(one(c, &a, (bw_op){.kind = BW_OP_UPDATE_VECTORS, .points = &p, .npoints = 1},
           &r));
    for (int round = 0; round < 2; round++) {
        bw_view v = cell_view(c, 1, 1);
        uint32_t row;
        assert_true(bw_snapshot_find(v.parts[0], &p.id, &row));
        bw_vector got;
        assert_true(bw_snapshot_sparse(v.parts[0], 1, row, &got));
        assert_int_equal(got.n, 2);
        assert_int_equal(got.indices[1], 8);
        assert_non_null(cell_dense(c, v.parts[0], 0, row)); /* merged by name */
        bw_bitmap with;
        OK(bw_snapshot_has_vector(c->ctx, v.parts[0], 1, &with));
        assert_int_equal(bw_bitmap_count(&with), 1);
        bw_candidate items[4];
        bw_topk t;
        bw_topk_init(&t, items, 4);
        bw_search_params sp = {
            .vec = 1, .k = 4, .allowed = bw_snapshot_live(v.parts[0])};
        OK(bw_snapshot_search_sparse(c->ctx, v.parts[0], &sparse, &sp, &t, NULL));
        assert_int_equal(t.n, 1);
        assert_true(items[0].key == 5.0f);
        assert_int_equal(items[0].id.lo, 1);
        bw_view_close(&v);
        cell_reopen(c);
    }
    bw_str unnamed = BW_STR("");
    bw_point_id id = cell_id(1);
    OK(one(c, &a,
           (bw_op){.kind = BW_OP_DELETE_VECTORS,
                   .ids = &id,
                   .nids = 1,
                   .keys = &unnamed,
                   .nkeys = 1},
           &r));
    bw_row row;
    float vec[DIM];
    assert_true(get(c, 1, 1, &row, vec));
    assert_true(isnan(vec[0]));
    bw_str bad = BW_STR("bad");
    assert_int_equal(one(c, &a,
                         (bw_op){.kind = BW_OP_DELETE_VECTORS,
                                 .ids = &id,
                                 .nids = 1,
                                 .keys = &bad,
                                 .nkeys = 1},
                         &r),
                     BW_EINVALID);
    p.id = cell_id(42);
    assert_int_equal(
        one(c, &a, (bw_op){.kind = BW_OP_UPDATE_VECTORS, .points = &p, .npoints = 1},
            &r),
        BW_ENOTFOUND);
    assert_string_equal(bw_ctx_message(c->ctx), "No point with id 42 found");
}

static void test_write__later_operations_see_earlier_ones(void **state)
{
    cell *c = *state;
    bw_access a = cell_access(c, 1, 4);
    bw_point p[3] = {cell_point(c, 1, 1, DIM, NULL), cell_point(c, 1, 2, DIM, NULL),
                     cell_point(c, 2, 3, DIM, NULL)};
    bw_point_id one_id = cell_id(1), three = cell_id(3);
    bw_condition x = {.kind = BW_COND_IS_EMPTY, .key = BW_STR("x")};
    bw_filter f = {.must = &x, .nmust = 1};
    bw_op ops[4] = {{.kind = BW_OP_UPSERT, .points = p, .npoints = 3},
                    {.kind = BW_OP_SET_PAYLOAD,
                     .ids = &one_id,
                     .nids = 1,
                     .payload = BW_STR("{\"x\":1}")},
                    {.kind = BW_OP_DELETE, .filter = &f},
                    {.kind = BW_OP_DELETE, .ids = &three, .nids = 1}};
    bw_write_result r;
    OK(cell_write(c, &a, ops, 4, &r));
    assert_int_equal(r.points_changed, 3 + 1 + 2);
    assert_int_equal(cell_count(c, 1, 4), 1);
    bw_row row;
    assert_true(get(c, 1, 1, &row, NULL));
    assert_true(bw_str_is(row.payload, "{\"n\":1,\"class\":1,\"x\":1}"));
    assert_int_equal(row.version, 1); /* one transaction, one version */
    /* A failure in the last operation undoes the first. */
    bw_op bad[2] = {{.kind = BW_OP_DELETE, .ids = &one_id, .nids = 1},
                    {.kind = BW_OP_UPDATE_VECTORS, .points = &p[1], .npoints = 1}};
    assert_int_equal(cell_write(c, &a, bad, 2, &r), BW_ENOTFOUND);
    assert_true(has(c, 1, 1));
}

static void test_write__expired_points_count_as_absent(void **state)
{
    cell *c = *state;
    bw_access a = cell_access(c, 1, 4);
    bw_write_result r;
    bw_clock_fix(1000);
    bw_point p = cell_point(c, 1, 1, DIM, NULL);
    p.facts = (bw_point_facts){2000, BW_STR("subj"), BW_STR("src"), BW_STR("model")};
    cell_upsert(c, &p, 1);
    bw_view v = cell_view(c, 1, 1);
    const bw_bitmap *visible;
    OK(bw_snapshot_visible(c->ctx, v.parts[0], 1999, &visible));
    assert_int_equal(bw_bitmap_count(visible), 1);
    OK(bw_snapshot_visible(c->ctx, v.parts[0], 2000, &visible));
    assert_int_equal(bw_bitmap_count(visible), 0);
    bw_view_close(&v);
    bw_clock_fix(3000);
    bw_point_id id = cell_id(1);
    OK(one(c, &a, (bw_op){.kind = BW_OP_DELETE, .ids = &id, .nids = 1}, &r));
    assert_int_equal(r.points_changed, 0);
    p.facts.expires_at_ns = 0;
    bw_op op = {.kind = BW_OP_UPSERT,
                .points = &p,
                .npoints = 1,
                .mode = BW_UPDATE_INSERT_ONLY};
    OK(one(c, &a, op, &r));
    assert_int_equal(r.points_changed, 1);
    cell_reopen(c);
    assert_int_equal(cell_count(c, 1, 1), 1); /* the class has the id once */
    bw_row row;
    assert_true(get(c, 1, 1, &row, NULL));
    assert_int_equal(row.facts.expires_at_ns, 0);
}

static void test_write__versions_count_a_partitions_own_writes(void **state)
{
    cell *c = *state;
    cell_upsert_range(c, 1, 1, 2, DIM);
    cell_upsert_range(c, 2, 2, 3, DIM);
    cell_upsert_range(c, 2, 3, 4, DIM);
    cell_upsert_range(c, 1, 4, 5, DIM);
    bw_row row;
    assert_true(get(c, 1, 4, &row, NULL));
    assert_int_equal(row.version, 2); /* class 2 left no trace in it */
    assert_true(get(c, 2, 3, &row, NULL));
    assert_int_equal(row.version, 2);
}

static void test_view__old_snapshots_keep_their_rows(void **state)
{
    cell *c = *state;
    cell_upsert_range(c, 1, 1, 50, DIM);
    bw_view old = cell_view(c, 1, 1);
    bw_access a = cell_access(c, 1, 4);
    bw_write_result r;
    for (int round = 0; round < 20; round++) {
        cell_upsert_range(c, 1, 1, 50, DIM); /* each id gets a newer row */
        bw_point_id id = cell_id(7);
        OK(one(c, &a, (bw_op){.kind = BW_OP_DELETE, .ids = &id, .nids = 1}, &r));
    }
    assert_int_equal(cell_count(c, 1, 1), 48);
    for (uint64_t i = 1; i < 50; i++) {
        uint32_t row;
        bw_point_id id = cell_id(i);
        assert_true(bw_snapshot_find(old.parts[0], &id, &row));
        bw_row data;
        bw_snapshot_row(old.parts[0], row, &data);
        assert_int_equal(data.version, 1);
    }
    bw_view_close(&old);
    bw_row row;
    assert_false(get(c, 1, 7, &row, NULL));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_write_upsert__normalises_cosine_and_keeps_payload_bytes),
        T(test_write_upsert__last_of_one_id_wins_whole),
        T(test_write_upsert__checks_vectors_in_the_contracts_words),
        T(test_write_upsert__moves_between_visible_classes_only),
        T(test_write_upsert__denies_a_class_outside_store),
        T(test_write_upsert__modes_and_update_filter),
        T(test_write_delete__by_ids_and_by_filter),
        T(test_write_payload__set_overwrite_delete_clear),
        T(test_write_vectors__update_and_delete),
        T(test_write__later_operations_see_earlier_ones),
        T(test_write__expired_points_count_as_absent),
        T(test_write__versions_count_a_partitions_own_writes),
        T(test_view__old_snapshots_keep_their_rows),
    };
    return cmocka_run_group_tests_name("write", tests, NULL, NULL);
}
