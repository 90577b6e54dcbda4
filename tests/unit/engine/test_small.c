/* Very small partitions (engine/partition/small.c): the short way gives the bits of the
 * long one, which explain takes; who does not qualify takes the long one; marks of ids
 * never miss an id. */
#include "engine_cell.h"

#include "engine/kernels/scan.h"
#include "engine/partition/part.h"

enum { DIM = 24, CLASSES = 70, MANY = 20, EXPIRING = 30, BARE = 40, WHOLE_DEAD = 50 };
enum { NOW = 1000 };

/* One more than qualify, all that do, and both sides of a word of their bitmap. */
static uint64_t size_of(unsigned class_no)
{
    static const uint64_t from_many_on[] = {BW_SMALL_ROWS + 1, BW_SMALL_ROWS, 64, 65, 130};
    const unsigned i = class_no - MANY;
    return class_no >= MANY && i < sizeof from_many_on / sizeof *from_many_on
               ? from_many_on[i]
               : 1 + class_no % 9;
}

static void put_class(cell *c, unsigned i)
{
    bw_class_id id = cell_class(i);
    OK(bw_class_put(c->ctx, c->engine, &id, BW_STR("labels")));
    bw_access a = cell_access(c, i, i); /* one does not see the others' ids */
    uint64_t n = size_of(i);
    bw_point *p = bw_arena_calloc(c->ctx, n, sizeof *p);
    for (uint64_t k = 0; k < n; k++)
        p[k] = cell_point(c, i, k % 5 == 2 ? k : i * 1000 + k, DIM, NULL);
    if (i == EXPIRING)
        p[0].facts.expires_at_ns = NOW - 1;
    if (i == BARE)
        p[0].nvectors = 0;
    bw_op ops[2] = {{.kind = BW_OP_UPSERT, .points = p, .npoints = (uint32_t)n},
                    {.kind = BW_OP_DELETE, .ids = &p[0].id, .nids = 1}};
    bw_write_result r;
    OK(cell_write(c, &a, ops, 1, &r));
    if (i % 4 == 0 || i == WHOLE_DEAD) /* dead rows */
        OK(cell_write(c, &a, ops + 1, 1, &r));
    if (i == WHOLE_DEAD)
        for (uint64_t k = 1; k < n; k++) {
            ops[1].ids = &p[k].id;
            OK(cell_write(c, &a, ops + 1, 1, &r));
        }
}

static void make(cell *c, bw_metric metric, bw_dtype t)
{
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    cell_init(c, &o);
    bw_vector_spec spec = {
        .name = BW_STR(""), .dim = DIM, .metric = metric, .dtype = t};
    bw_collection_info info = {
        .tenant = TENANT, .name = NAME, .vectors = &spec, .nvectors = 1};
    OK(bw_collection_create(c->ctx, c->engine, &info));
    for (unsigned i = 1; i <= CLASSES; i++)
        put_class(c, i);
}

/* The hits of a batch of queries; every other one shows all copies. */
static bw_str answers(cell *c, const bw_permit *permit, bool explain)
{
    bw_query q[6];
    bw_buf b = {0};
    bw_read read = {.tenant = TENANT,
                    .name = NAME,
                    .permit = permit,
                    .now_ns = NOW,
                    .explain = explain};
    for (size_t i = 0; i < 6; i++)
        q[i] = (bw_query){.kind = BW_QUERY_NEAREST,
                          .using_name = BW_STR(""),
                          .target = {.vector = *cell_point(c, 9, 77 + i, DIM, NULL).vectors},
                          .show_all_copies = i % 2,
                          .limit = (uint32_t)(i * i * 7)};
    for (size_t from = 0; from < 12; from += from < 6 ? 1 : 6) { /* singly, then all */
        bw_result *r;
        OK(bw_query_run(c->ctx, c->engine, &read, q + from % 6, from < 6 ? 1 : 6, &r));
        for (size_t k = 0; k < (from < 6 ? 1 : 6); k++) {
            size_t n;
            const bw_hit *hits = bw_result_hits(r, k, &n);
            for (size_t i = 0; i < n; i++)
                bw_buf_printf(&b, "%llu/%u:%a ", (unsigned long long)hits[i].id.lo,
                              hits[i].class_id.bytes[1], (double)hits[i].score);
            bw_buf_putc(&b, '\n');
        }
        bw_result_free(r);
    }
    bw_str out;
    OK(bw_arena_str(c->ctx, bw_buf_view(&b), &out));
    bw_buf_clear(&b);
    return out;
}

static void compare(bw_metric metric, bw_dtype t)
{
    cell own, *c = &own;
    make(c, metric, t);
    bw_permit all = cell_permit(c, 1, CLASSES), few = cell_permit(c, 1, CLASSES);
    bw_class_id *list = bw_arena_calloc(c->ctx, CLASSES, sizeof *list);
    few.n = 0;
    few.classes = list;
    for (unsigned i = 1; i <= CLASSES; i += 1 + i % 3)
        list[few.n++] = cell_class(i);
    bw_str a = answers(c, &all, false), b = answers(c, &few, false);
    assert_true(a.len > 1000 && b.len > 1000 && !bw_str_eq(a, b));
    assert_true(bw_str_eq(a, answers(c, &all, true)));
    assert_true(bw_str_eq(b, answers(c, &few, true)));
    cell_reopen(c); /* rows in another numbering, some not loaded yet */
    assert_true(bw_str_eq(b, answers(c, &few, false)));
    assert_true(bw_str_eq(a, answers(c, &all, false)));
    cell_clear(c);
}

static void test_small__gives_the_bits_of_the_long_way(void **state)
{
    (void)state;
    compare(BW_METRIC_COSINE, BW_DTYPE_F32);
    compare(BW_METRIC_EUCLID, BW_DTYPE_I8);
    compare(BW_METRIC_DOT, BW_DTYPE_F16);
    compare(BW_METRIC_MANHATTAN, BW_DTYPE_BF16);
}

static void test_small__looks_at_living_rows_of_who_qualifies(void **state)
{
    (void)state;
    cell own, *c = &own;
    make(c, BW_METRIC_DOT, BW_DTYPE_F32);
    bw_candidate items[3];
    bw_topk heap;
    bw_scan_query q = {cell_point(c, 9, 7, DIM, NULL).vectors->values, NULL, &heap};
    bw_vector_spec spec = {.dim = DIM, .metric = BW_METRIC_DOT};
    bw_small_pass pass;
    bw_small_pass_init(&pass, &spec, &q, 1);
    bw_view v = cell_view(c, 1, CLASSES);
    assert_int_equal(v.nparts, CLASSES);
    for (unsigned i = 1; i <= CLASSES; i++) {
        const bw_snapshot *s = v.parts[i - 1];
        size_t want = i == MANY || i == EXPIRING || i == BARE ? 0 : size_of(i);
        bw_topk_init(&heap, items, 3);
        bw_snapshot_ahead(s);
        bw_snapshot_rows_ahead(s, &pass);
        size_t did;
        OK(bw_snapshot_search_small(s, &pass, i, &did));
        assert_int_equal(did, want);
        size_t live = bw_snapshot_nlive(s);
        assert_int_equal(heap.n, want == 0 ? 0 : live < 3 ? live : 3);
        for (size_t k = 0; k < heap.n; k++)
            assert_true(bw_bitmap_get(bw_snapshot_live(s), heap.items[k].row));
    }
    bw_view_close(&v);
    cell_clear(c);
}

static void test_marks__never_miss_an_id(void **state)
{
    (void)state;
    cell own, *c = &own;
    make(c, BW_METRIC_DOT, BW_DTYPE_F32);
    bw_view v = cell_view(c, 1, CLASSES);
    uint32_t hashes[BW_SMALL_ROWS + 1];
    size_t strangers = 0;
    for (size_t i = 0; i < v.nparts; i++) {
        uint32_t n = (uint32_t)bw_snapshot_nrows(v.parts[i]);
        for (uint32_t k = 0; k < n; k++)
            hashes[k] = bw_id_hash(bw_snapshot_id(v.parts[i], k));
        for (uint32_t k = 0; k < n; k++)
            assert_int_equal(bw_snapshot_may_hold(v.parts[i], hashes, n, k), k);
        assert_int_equal(bw_snapshot_may_hold(v.parts[i], hashes, n, n), n);
        for (uint64_t k = 0; k < 50; k++) {
            bw_point_id id = cell_id(5000000 + k);
            uint32_t h = bw_id_hash(&id);
            strangers += bw_snapshot_may_hold(v.parts[i], &h, 1, 0) == 0;
        }
    }
    assert_true(strangers < 50 * CLASSES / 4); /* the hash's key is another every time */
    bw_view_close(&v);
    cell_clear(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small__gives_the_bits_of_the_long_way),
        cmocka_unit_test(test_small__looks_at_living_rows_of_who_qualifies),
        cmocka_unit_test(test_marks__never_miss_an_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
