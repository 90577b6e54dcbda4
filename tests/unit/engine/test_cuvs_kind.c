/* A collection that asks for "cuvs-cagra", in a whole cell: without cuVS it is sealed,
 * adopted and answered all the same, exactly; with the double of cuVS its segments are
 * answered from there, with the same rows and bits. Nobody else gets it. */
#include "cuvs_double/cuvs_double.h"
#include "engine_cell.h"

#include "engine/index/cuvs.h"
#include "engine/partition/part.h"
#include <sys/stat.h>

enum { DIM = 8, SEAL = 4200, ADOPT = 100, ROWS = SEAL + 2 * ADOPT };

typedef struct places {
    char folder[64], driver[96], library[96];
    bw_cuvs_places p;
} places;

static void copy(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    for (int ch; (ch = getc(in)) != EOF;)
        (void)putc(ch, out);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(to, 0700), 0);
}

/* In a folder of our own: the build's may be open to a group, and then nothing is loaded. */
static int group_setup(void **state)
{
    static places s;
    (void)snprintf(s.folder, sizeof s.folder, "/tmp/bw_cuvs_kind.XXXXXX");
    assert_non_null(mkdtemp(s.folder));
    (void)snprintf(s.driver, sizeof s.driver, "%s/libcuda.so.1", s.folder);
    (void)snprintf(s.library, sizeof s.library, "%s/libcuvs_c.so", s.folder);
    copy(BW_BINARY "/cuvs_double/libcuda.so.1", s.driver);
    copy(BW_BINARY "/cuvs_double/libcuvs_c.so", s.library);
    s.p = (bw_cuvs_places){.driver = s.driver, .library = s.library};
    bw_log_set_level(BW_LOG_ERROR);
    *state = &s;
    return 0;
}

static int group_teardown(void **state)
{
    places *s = *state;
    bw_cuvs_places_use(NULL);
    cell_remove_dir(s->folder);
    return 0;
}

static void fill(cell *c, bw_index_choice index)
{
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.seal_rows = SEAL;
    o.exact_rows = SEAL / 2;
    o.graphs_first = true;
    o.adopt_rows = ADOPT;
    o.null_sync = true;
    cell_init(c, &o);
    bw_vector_spec spec = {.name = BW_STR(""), .dim = DIM, .index = index};
    bw_collection_info info = {.tenant = TENANT,
                               .name = NAME,
                               .vectors = &spec,
                               .nvectors = 1,
                               .settings = BW_STR("{}")};
    OK(bw_collection_create(c->ctx, c->engine, &info));
    bw_class_id id = cell_class(1);
    OK(bw_class_put(c->ctx, c->engine, &id, BW_STR("labels")));
    for (uint64_t i = 0; i < ROWS; i += ADOPT)
        cell_upsert_range(c, 1, i, i + ADOPT, DIM);
}

/* The 10 best for 10 queries with their bits. */
static bw_str answers(cell *c, bool exact, bw_search_trace *trace)
{
    bw_buf b = {0};
    bw_view v = cell_view(c, 1, 1);
    *trace = (bw_search_trace){0};
    assert_int_equal(bw_snapshot_nrows(v.parts[0]), ROWS);
    for (unsigned q = 0; q < 10; q++) {
        bw_point p = cell_point(c, 9, 1000000 + q, DIM, NULL);
        float query[DIM];
        memcpy(query, p.vectors->values, sizeof query);
        bw_normalize_f32(query, DIM);
        bw_candidate items[10];
        bw_topk t;
        bw_topk_init(&t, items, 10);
        bw_search_params sp = {.k = 10,
                               .exact = exact,
                               .permitted = ROWS,
                               .allowed = bw_snapshot_live(v.parts[0])};
        OK(bw_snapshot_search_dense(c->ctx, v.parts[0], query, &sp, &t, trace));
        bw_topk_sort(&t);
        assert_int_equal(t.n, 10);
        for (size_t i = 0; i < t.n; i++) {
            uint32_t bits;
            memcpy(&bits, &items[i].key, sizeof bits);
            bw_buf_printf(&b, "%llu:%08x ", (unsigned long long)items[i].id.lo, bits);
        }
    }
    bw_view_close(&v);
    bw_str out;
    OK(bw_arena_str(c->ctx, bw_buf_view(&b), &out));
    bw_buf_clear(&b);
    return out;
}

static void check(cell *c, bool from_cuvs)
{
    bw_search_trace t;
    bw_cuvs_stats before, after;
    bw_cuvs_stats_get(&before);
    bw_str got = answers(c, false, &t);
    bw_cuvs_stats_get(&after);
    assert_int_equal(after.searches - before.searches, from_cuvs ? 10 : 0);
    bw_str want = answers(c, true, &t);
    assert_int_equal(got.len, want.len);
    assert_memory_equal(got.ptr, want.ptr, want.len);
}

static void test_cuvs_kind__collection_works_without_cuvs(void **state)
{
    const places *s = *state;
    cell made, *c = &made;
    bw_cuvs_places nowhere = s->p;
    nowhere.library = "/nowhere/libcuvs_c.so";
    bw_cuvs_places_use(&nowhere);
    fill(c, BW_INDEX_CUVS_CAGRA);
    bw_cuvs_stats before, after;
    bw_cuvs_stats_get(&before);
    assert_true(before.refused > 0);
    check(c, false);
    cell_reopen(c);
    check(c, false);
    bw_cuvs_stats_get(&after);
    assert_int_equal(after.builds, 0);
    cell_clear(c);
}

static void test_cuvs_kind__answers_come_from_cuvs_where_it_is(void **state)
{
    const places *s = *state;
    cell made, *c = &made;
    bw_cuvs_places_use(&s->p);
    fill(c, BW_INDEX_CUVS_CAGRA);
    check(c, true);
    cell_reopen(c); /* nothing is saved: built again, before the next write waits for it */
    cell_upsert_range(c, 1, 0, 1, DIM);
    cell_clear(c);
}

static void test_cuvs_kind__nobody_else_gets_it(void **state)
{
    const places *s = *state;
    static const bw_index_choice others[] = {BW_INDEX_AUTO, BW_INDEX_GRAPH, BW_INDEX_FLAT};
    bw_cuvs_places_use(&s->p);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        cell made, *c = &made;
        bw_cuvs_stats before, after;
        bw_search_trace t;
        bw_cuvs_stats_get(&before);
        fill(c, others[i]);
        (void)answers(c, false, &t);
        bw_cuvs_stats_get(&after);
        assert_memory_equal(&before, &after, sizeof before);
        cell_clear(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuvs_kind__collection_works_without_cuvs),
        cmocka_unit_test(test_cuvs_kind__answers_come_from_cuvs_where_it_is),
        cmocka_unit_test(test_cuvs_kind__nobody_else_gets_it),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
