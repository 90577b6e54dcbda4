/* Scroll, count, facet, groups, retrieve, order_by, copies, permits, expiry, lookups.
 */
#include "plan_fixture.h"
#include "rnd.h"

static int setup(void **state)
{
    static const bw_vector_spec spec = {
        .name = {"", 0}, .dim = FX_DIM, .metric = BW_METRIC_DOT};
    *state = fx_new(&spec, 1);
    return 0;
}

static int teardown(void **state)
{
    fx_free(*state);
    return 0;
}

static const float q1[] = {1.0f, 0.0f};

static bw_query nearest(uint32_t limit)
{
    return (bw_query){.kind = BW_QUERY_NEAREST,
                      .using_name = BW_STR(""),
                      .limit = limit,
                      .target = {.vector = {BW_STR(""), q1, NULL, FX_DIM, false}}};
}

static uint64_t count(fixture *f, const char *filter)
{
    uint64_t n = 0;
    fx_ok(f, f->ctx,
          bw_count(f->ctx, f->engine, &f->read, fx_filter(f->ctx, filter), &n));
    return n;
}

static const char *facet(fixture *f, const char *key, const char *filter,
                         uint32_t limit)
{
    const bw_facet_hit *hits;
    size_t n;
    bw_buf b = {0};
    bw_str out;
    fx_ok(f, f->ctx,
          bw_facet(f->ctx, f->engine, &f->read, bw_str_c(key),
                   fx_filter(f->ctx, filter), limit, &hits, &n));
    for (size_t i = 0; i < n; i++) {
        const bw_value *v = &hits[i].value;
        bw_buf_puts(&b, i ? " " : "");
        if (v->kind == BW_VALUE_STRING)
            bw_buf_str(&b, v->str);
        else if (v->kind == BW_VALUE_BOOL)
            bw_buf_puts(&b, v->boolean ? "true" : "false");
        else
            bw_buf_printf(&b, "%s%llu", v->negative ? "-" : "",
                          (unsigned long long)v->mag);
        bw_buf_printf(&b, ":%llu", (unsigned long long)hits[i].count);
    }
    bw_buf_putc(&b, '\0');
    assert_int_equal(bw_arena_str(f->ctx, bw_buf_view(&b), &out), BW_OK);
    bw_buf_clear(&b);
    return out.ptr;
}

static const char *groups(fixture *f, const bw_query *q, const char *by, uint32_t size)
{
    bw_result *r;
    size_t n;
    bw_buf b = {0};
    bw_str out;
    fx_ok(f, f->ctx,
          bw_query_groups(f->ctx, f->engine, &f->read, q, bw_str_c(by), size, &r));
    const bw_group *g = bw_result_groups(r, &n);
    for (size_t i = 0; i < n; i++) {
        bw_buf_puts(&b, i ? " | " : "");
        if (g[i].id.kind == BW_VALUE_STRING)
            bw_buf_str(&b, g[i].id.str);
        else
            bw_buf_printf(&b, "%s%llu", g[i].id.negative ? "-" : "",
                          (unsigned long long)g[i].id.mag);
        bw_buf_printf(&b, "= %s", fx_hits(f, g[i].hits, g[i].nhits, true));
    }
    bw_buf_putc(&b, '\0');
    bw_result_free(r);
    assert_int_equal(bw_arena_str(f->ctx, bw_buf_view(&b), &out), BW_OK);
    bw_buf_clear(&b);
    return out.ptr;
}

static const char *retrieve(fixture *f, const uint64_t *ids, size_t n)
{
    bw_point_id list[16];
    bw_result *r;
    for (size_t i = 0; i < n; i++)
        list[i] = fx_id(ids[i]);
    fx_ok(f, f->ctx, bw_retrieve(f->ctx, f->engine, &f->read, list, n, &r));
    const bw_hit *hits = bw_result_hits(r, 0, &n);
    const char *text = fx_hits(f, hits, n, false);
    bw_result_free(r);
    return text;
}

static const char *ordered(fixture *f, bw_order_by by, uint32_t limit)
{
    bw_scroll s = {.limit = limit, .has_order_by = true, .order_by = by};
    bw_result *r;
    bw_buf b = {0};
    bw_str out;
    bw_point_id next;
    size_t n;
    fx_ok(f, f->ctx, bw_scroll_run(f->ctx, f->engine, &f->read, &s, &r));
    const bw_hit *h = bw_result_hits(r, 0, &n);
    for (size_t i = 0; i < n; i++) {
        assert_true(h[i].has_order_value);
        bw_buf_printf(&b, "%s%llu:%g", i ? " " : "", (unsigned long long)h[i].id.lo,
                      h[i].order_value.real);
    }
    bw_buf_putc(&b, '\0');
    assert_false(bw_result_next(r, &next));
    bw_result_free(r);
    assert_int_equal(bw_arena_str(f->ctx, bw_buf_view(&b), &out), BW_OK);
    bw_buf_clear(&b);
    return out.ptr;
}

/* ---- copies of one id ---- */

static void put_copies(fixture *f)
{
    fx_put(f, 2, 1, 9, 0, "{\"k\":\"high\"}"); /* hidden: class 1 has the id */
    fx_put(f, 1, 1, 1, 0, "{\"k\":\"low\"}");
    fx_put(f, 2, 2, 5, 0, "{\"k\":\"high\"}");
    fx_put(f, 0, 3, 4, 0, "{\"k\":\"low\"}");
    fx_put(f, 3, 3, 8, 0, "{\"k\":\"top\"}"); /* hidden: class 0 has the id */
    fx_index(f, "k", "keyword");
}

static void test_copies__lowest_class_is_shown_everywhere(void **state)
{
    fixture *f = *state;
    put_copies(f);
    bw_query q = nearest(10);
    assert_string_equal(fx_query(f, &q, true), "2:5 3:4 1:1");
    q.limit = 1; /* the hidden ones must not take the place of a shown one */
    assert_string_equal(fx_query(f, &q, true), "2:5");
    assert_string_equal(fx_scroll(f, NULL), "1 2 3");
    assert_int_equal(count(f, NULL), 3);
    /* the rule comes before the filter: a hidden copy never answers for its id */
    assert_string_equal(
        fx_scroll(f, "{\"must\":[{\"key\":\"k\",\"match\":{\"value\":\"high\"}}]}"),
        "2");
    assert_int_equal(
        count(f, "{\"must\":[{\"key\":\"k\",\"match\":{\"value\":\"top\"}}]}"), 0);
    assert_string_equal(facet(f, "k", NULL, 10), "low:2 high:1");
    uint64_t ids[] = {3, 1, 3, 7};
    assert_string_equal(retrieve(f, ids, 4), "3 1");
    q.kind = BW_QUERY_NONE;
    q.limit = 10;
    assert_string_equal(fx_query(f, &q, false), "1 2 3");
    assert_string_equal(groups(f,
                               &(bw_query){.kind = BW_QUERY_NEAREST,
                                           .using_name = BW_STR(""),
                                           .limit = 5,
                                           .target = nearest(1).target},
                               "k", 3),
                        "high= 2:5 | low= 3:4 1:1");
}

static void test_copies__a_class_that_may_not_be_read_hides_nothing(void **state)
{
    fixture *f = *state;
    put_copies(f);
    f->permit = (bw_permit){f->classes + 2, 2};
    bw_query q = nearest(10);
    assert_string_equal(fx_query(f, &q, true), "1:9 3:8 2:5");
    assert_int_equal(count(f, NULL), 3);
    f->permit = (bw_permit){f->classes, 0};
    assert_string_equal(fx_query(f, &q, true), "");
    assert_int_equal(count(f, NULL), 0);
    assert_string_equal(fx_scroll(f, NULL), "");
}

static void test_copies__all_are_shown_on_request(void **state)
{
    fixture *f = *state;
    put_copies(f);
    bw_query q = nearest(10);
    q.show_all_copies = true;
    assert_string_equal(fx_query(f, &q, true), "1:9 3:8 2:5 3:4 1:1");
}

static void test_copies__an_expired_copy_hides_nothing(void **state)
{
    fixture *f = *state;
    float v[] = {2, 0};
    bw_vector vec = {BW_STR(""), v, NULL, FX_DIM, false};
    fx_point(f, 0,
             (bw_point){.id = fx_id(1),
                        .vectors = &vec,
                        .nvectors = 1,
                        .facts = {.expires_at_ns = 1000}});
    fx_put(f, 1, 1, 7, 0, NULL);
    bw_query q = nearest(10);
    assert_string_equal(fx_query(f, &q, true),
                        "1:7"); /* now_ns is 1000: expired from then on */
    f->read.now_ns = 999;
    assert_string_equal(fx_query(f, &q, true), "1:2");
    uint64_t id = 1;
    assert_string_equal(retrieve(f, &id, 1), "1");
    assert_int_equal(count(f, NULL), 1);
}

/* ---- expiry ---- */

static void test_expiry__hides_from_every_read(void **state)
{
    fixture *f = *state;
    float v[] = {2, 0};
    bw_vector vec = {BW_STR(""), v, NULL, FX_DIM, false};
    fx_point(f, 0,
             (bw_point){.id = fx_id(1),
                        .payload = BW_STR("{\"k\":\"a\"}"),
                        .vectors = &vec,
                        .nvectors = 1,
                        .facts = {.expires_at_ns = 500}});
    fx_put(f, 0, 2, 1, 0, "{\"k\":\"a\"}");
    fx_index(f, "k", "keyword");
    bw_query q = nearest(10);
    uint64_t ids[] = {1, 2}, n;
    assert_string_equal(fx_query(f, &q, false), "2");
    assert_string_equal(fx_scroll(f, NULL), "2");
    assert_int_equal(count(f, NULL), 1);
    assert_string_equal(facet(f, "k", NULL, 10), "a:1");
    assert_string_equal(retrieve(f, ids, 2), "2");
    fx_ok(f, f->ctx, bw_index_points(f->ctx, f->engine, &f->read, BW_STR("k"), &n));
    assert_int_equal(n, 1);
    bw_result *r;
    q.target = (bw_target){.by_id = true, .id = fx_id(1)};
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r),
                     BW_ENOTFOUND);
}

/* ---- scroll ---- */

static void test_scroll__pages_join_to_the_whole(void **state)
{
    fixture *f = *state;
    for (uint64_t i = 0; i < 25; i++)
        fx_put(f, (int)(i % 3), 100 - i * 3, 1, 0, i % 2 ? "{\"k\":1}" : "{}");
    put_copies(f);
    bw_point_id uuid;
    assert_true(bw_uuid_parse(BW_STR("00000000-0000-0000-0000-000000000001"), &uuid));
    fx_point(f, 0, (bw_point){.id = uuid});
    for (int with_filter = 0; with_filter < 2; with_filter++) {
        const char *text =
            with_filter ? "{\"must_not\":[{\"key\":\"k\",\"match\":{\"value\":1}}]}"
                        : NULL;
        bw_scroll s = {.filter = fx_filter(f->ctx, text), .limit = 4};
        size_t total = 0, n;
        bw_point_id last = {0};
        bool more = true;
        while (more) {
            bw_result *r;
            fx_ok(f, f->ctx, bw_scroll_run(f->ctx, f->engine, &f->read, &s, &r));
            const bw_hit *h = bw_result_hits(r, 0, &n);
            for (size_t i = 0; i < n; i++) {
                assert_true(total == 0 || bw_point_id_cmp(&last, &h[i].id) < 0);
                last = h[i].id;
                total++;
            }
            more = bw_result_next(r, &s.offset);
            assert_true(!more || n == 4);
            s.has_offset = true;
            bw_result_free(r);
        }
        assert_int_equal(last.is_uuid, 1); /* integers before UUIDs */
        assert_int_equal(total, count(f, text));
        bw_ctx_reset(f->ctx);
    }
}

/* ---- order_by ---- */

static void test_order_by__values_as_the_engine(void **state)
{
    fixture *f = *state;
    static const char *const n[] = {"5", "3.5", "\"x\"", "[1,9]", "null",
                                    "3", "7",   "-2",    "3"};
    for (size_t i = 0; i < 9; i++)
        fx_put(f, (int)(i % 3), i, 1, 1, bw_arena_printf(f->ctx, "{\"n\":%s}", n[i]));
    fx_put(f, 0, 9, 1, 1, "{}");
    bw_order_by by = {.key = BW_STR("n")};
    bw_scroll s = {.limit = 10, .has_order_by = true, .order_by = by};
    bw_result *r;
    assert_int_equal(bw_scroll_run(f->ctx, f->engine, &f->read, &s, &r), BW_EINVALID);
    assert_memory_equal(bw_ctx_message(f->ctx), "No range index for ", 19);
    fx_index(f, "n", "keyword");
    assert_int_equal(bw_scroll_run(f->ctx, f->engine, &f->read, &s, &r), BW_EINVALID);
    fx_index(f, "n", "integer");
    assert_string_equal(ordered(f, by, 20), "7:-2 3:1 5:3 8:3 0:5 6:7 3:9");
    assert_string_equal(ordered(f, by, 3), "7:-2 3:1 5:3");
    by.has_start_from = true;
    by.start_from = (bw_number){true, false, 3, 3};
    assert_string_equal(ordered(f, by, 20), "5:3 8:3 0:5 6:7 3:9");
    by.descending = true;
    by.start_from = (bw_number){true, false, 5, 5};
    assert_string_equal(ordered(f, by, 20), "0:5 5:3 8:3 3:1 7:-2");
    fx_index(f, "n", "float");
    by = (bw_order_by){.key = BW_STR("n")};
    assert_string_equal(ordered(f, by, 20), "7:-2 3:1 5:3 8:3 1:3.5 0:5 6:7 3:9");
    bw_query q = {.kind = BW_QUERY_ORDER_BY, .order_by = by, .limit = 3, .offset = 1};
    assert_string_equal(fx_query(f, &q, true), "3:1 5:1 8:1");
    s.has_offset = true;
    assert_int_equal(bw_scroll_run(f->ctx, f->engine, &f->read, &s, &r), BW_EINVALID);
}

static void test_order_by__dates_are_microseconds(void **state)
{
    fixture *f = *state;
    fx_put(f, 0, 0, 1, 1, "{\"d\":\"2024-01-01T00:00:00Z\"}");
    fx_put(f, 1, 1, 1, 1, "{\"d\":\"2023-05-01T10:00:00.123456Z\"}");
    fx_put(f, 2, 2, 1, 1, "{\"d\":[\"2022-01-01\",\"bad\"]}");
    fx_index(f, "d", "datetime");
    bw_scroll s = {.limit = 10, .has_order_by = true, .order_by = {.key = BW_STR("d")}};
    bw_result *r;
    size_t n;
    fx_ok(f, f->ctx, bw_scroll_run(f->ctx, f->engine, &f->read, &s, &r));
    const bw_hit *h = bw_result_hits(r, 0, &n);
    assert_int_equal(n, 3);
    assert_true(h[0].order_value.mag == 1640995200000000u &&
                h[1].order_value.mag == 1682935200123456u);
    assert_true(h[2].order_value.mag == 1704067200000000u);
    bw_result_free(r);
}

typedef struct entry {
    double value;
    uint64_t id;
} entry;
static bool entries_fall;

static int cmp_entry(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->value != y->value)
        return (x->value < y->value) != entries_fall ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Few rows are read, many come from the index's runs: both are the sorted list. */
static void test_order_by__index_and_payloads_agree(void **state)
{
    enum { N = 700 };
    fixture *f = *state;
    rnd r = rnd_start("order_by", 11);
    entry all[2 * N], want[2 * N];
    size_t n = 0;
    for (uint64_t i = 0; i < N; i++) {
        size_t values = rnd_below(&r, 3);
        bw_buf b = {0};
        bw_buf_puts(&b, "{\"n\":[\"x\"");
        for (size_t j = 0; j < values; j++) {
            all[n] = (entry){(double)rnd_below(&r, 300) / 2 - 50, i};
            bw_buf_printf(&b, ",%.1f", all[n++].value);
        }
        bw_buf_puts(&b, "]}");
        bw_buf_putc(&b, '\0');
        fx_put(f, (int)(i % 3), i, 1, 1, b.ptr);
        bw_buf_clear(&b);
    }
    fx_index(f, "n", "float");
    for (int round = 0; round < 60; round++) {
        uint64_t from_id = rnd_below(&r, 3) ? 0 : N - 5; /* few rows */
        uint32_t limit = (uint32_t)rnd_below(&r, 40);
        bw_order_by by = {.key = BW_STR("n"),
                          .descending = rnd_below(&r, 2),
                          .has_start_from = rnd_below(&r, 2),
                          .start_from = {.real = (double)rnd_below(&r, 100) - 50}};
        size_t m = 0, got;
        for (size_t i = 0; i < n; i++) {
            bool started = !by.has_start_from ||
                           (by.descending ? all[i].value <= by.start_from.real
                                          : all[i].value >= by.start_from.real);
            if (started && all[i].id >= from_id)
                want[m++] = all[i];
        }
        entries_fall = by.descending;
        qsort(want, m, sizeof *want, cmp_entry);
        bw_point_id ids[5];
        for (uint64_t i = 0; i < 5; i++)
            ids[i] = fx_id(N - 5 + i);
        bw_condition c = {.kind = BW_COND_HAS_ID, .ids = ids, .nids = 5};
        bw_filter few = {.must = &c, .nmust = 1};
        bw_scroll s = {.filter = from_id ? &few : NULL,
                       .limit = limit,
                       .has_order_by = true,
                       .order_by = by};
        bw_result *result;
        fx_ok(f, f->ctx, bw_scroll_run(f->ctx, f->engine, &f->read, &s, &result));
        const bw_hit *hits = bw_result_hits(result, 0, &got);
        assert_int_equal(got, m < limit ? m : limit);
        for (size_t i = 0; i < got; i++) {
            assert_int_equal(hits[i].id.lo, want[i].id);
            assert_true(hits[i].order_value.real == want[i].value);
        }
        bw_result_free(result);
        bw_ctx_reset(f->ctx);
    }
}

/* ---- facet ---- */

static void test_facet__counts_points_by_value(void **state)
{
    fixture *f = *state;
    static const char *const k[] = {"\"a\"", "\"b\"", "[\"a\",\"b\",\"a\"]", "\"c\"",
                                    "null",  "5",     "\"\\u0062\"",         "true"};
    const bw_facet_hit *hits;
    size_t n;
    for (size_t i = 0; i < 8; i++)
        fx_put(f, (int)(i % 3), i, 1, 1, bw_arena_printf(f->ctx, "{\"k\":%s}", k[i]));
    assert_int_equal(
        bw_facet(f->ctx, f->engine, &f->read, BW_STR("k"), NULL, 10, &hits, &n),
        BW_EINVALID);
    assert_memory_equal(bw_ctx_message(f->ctx), "No appropriate index for ", 25);
    fx_index(f, "k", "float");
    assert_int_equal(
        bw_facet(f->ctx, f->engine, &f->read, BW_STR("k"), NULL, 10, &hits, &n),
        BW_EINVALID);
    fx_index(f, "k", "keyword");
    assert_string_equal(facet(f, "k", NULL, 10), "b:3 a:2 c:1");
    assert_string_equal(facet(f, "k", NULL, 1), "b:3");
    assert_string_equal(facet(f, "k", "{\"must\":[{\"has_id\":[0,1,3]}]}", 10),
                        "a:1 b:1 c:1");
    fx_index(f, "k", "integer");
    assert_string_equal(facet(f, "k", NULL, 10), "5:1");
    fx_index(f, "k", "bool");
    assert_string_equal(facet(f, "k", NULL, 10), "true:1");
    f->permit = (bw_permit){f->classes, 1}; /* 0, 3, 6 */
    fx_index(f, "k", "keyword");
    assert_string_equal(facet(f, "k", NULL, 10), "a:1 b:1 c:1");
    uint64_t points;
    fx_ok(f, f->ctx,
          bw_index_points(f->ctx, f->engine, &f->read, BW_STR("k"), &points));
    assert_int_equal(points, 3);
}

/* Few rows among many values are read, many rows are counted by the index: one answer.
 */
static void test_facet__index_and_payloads_agree(void **state)
{
    fixture *f = *state;
    for (uint64_t i = 0; i < 60; i++)
        fx_put(f, (int)(i % 2), i, 1, 1,
               bw_arena_printf(f->ctx, "{\"k\":[\"v%llu\",\"v%llu\",\"v%llu\",1]}",
                               (unsigned long long)i, (unsigned long long)(i / 2),
                               (unsigned long long)i));
    fx_index(f, "k", "keyword");
    assert_string_equal(facet(f, "k", "{\"must\":[{\"has_id\":[7]}]}", 10),
                        "v3:1 v7:1");
    assert_string_equal(facet(f, "k", NULL, 4), "v1:3 v10:3 v11:3 v12:3");
    fx_index(f, "k", "uuid");
    assert_string_equal(facet(f, "k", NULL, 2), "v1:3 v10:3");
}

/* ---- groups ---- */

static void test_groups__best_values_with_their_best_points(void **state)
{
    fixture *f = *state;
    static const char *const k[] = {"\"a\"",         "\"a\"", "\"a\"", "\"b\"", "7",
                                    "[\"b\",\"c\"]", "null",  "-7",    "1.5",   "true"};
    for (uint64_t i = 0; i < 10; i++)
        fx_put(f, (int)(i % 3), i, (float)(10 - i), 0,
               bw_arena_printf(f->ctx, "{\"k\":%s}", k[i]));
    bw_query q = nearest(3);
    assert_string_equal(groups(f, &q, "k", 2), "a= 0:10 1:9 | b= 3:7 5:5 | 7= 4:6");
    q.limit = 10;
    assert_string_equal(groups(f, &q, "k", 5),
                        "a= 0:10 1:9 2:8 | b= 3:7 5:5 | 7= 4:6 | c= 5:5 | -7= 7:3");
    assert_string_equal(groups(f, &q, "zz", 5), "");
    q.limit = 1;
    assert_string_equal(groups(f, &q, "k", 1), "a= 0:10");
}

/* A member that ranks below many points of other groups is still found. */
static void test_groups__are_complete_however_sparse(void **state)
{
    fixture *f = *state;
    for (uint64_t i = 0; i < 300; i++)
        fx_put(f, (int)(i % 2), i, (float)(1000 - i), 0,
               i == 0 || i == 299 ? "{\"k\":\"rare\"}" : "{\"k\":\"common\"}");
    fx_put(f, 0, 500, 1, 0, "{\"k\":\"last\"}");
    bw_query q = nearest(3);
    assert_string_equal(groups(f, &q, "k", 2),
                        "rare= 0:1000 299:701 | common= 1:999 2:998 | last= 500:1");
    fx_index(f, "k", "keyword");
    assert_string_equal(groups(f, &q, "k", 2),
                        "rare= 0:1000 299:701 | common= 1:999 2:998 | last= 500:1");
}

/* A point of two groups, met while a new group was looked for, must not push out a
 * better one that was not met then. */
static void test_groups__members_are_the_best_whatever_the_round(void **state)
{
    static const char *const k[] = {"\"a\"", "null",          "null", "null",
                                    "\"a\"", "[\"a\",\"x\"]", "\"x\""};
    fixture *f = *state;
    for (uint64_t i = 0; i < 7; i++)
        fx_put(f, 0, i, (float)(10 - i), 0,
               bw_arena_printf(f->ctx, "{\"k\":%s}", k[i]));
    bw_query q = nearest(2);
    assert_string_equal(groups(f, &q, "k", 2), "a= 0:10 4:6 | x= 5:5 6:4");
}

static void test_groups__scores_are_those_of_the_query(void **state)
{
    fixture *f = *state; /* bug-report 10 */
    for (uint64_t i = 0; i < 40; i++)
        fx_put(f, (int)(i % 3), i, (float)((i * 7) % 40), (float)((i * 11) % 40),
               i % 2 ? "{\"k\":\"odd\"}" : "{\"k\":\"even\"}");
    float up[] = {0, 1};
    bw_query fetch[] = {nearest(10), nearest(12)};
    fetch[1].target.vector.values = up;
    bw_query q = {.kind = BW_QUERY_FUSION_RRF,
                  .rrf_k = 2,
                  .prefetch = fetch,
                  .nprefetch = 2,
                  .limit = 30};
    bw_result *plain, *grouped;
    size_t n, ng, found = 0;
    fx_ok(f, f->ctx, bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &plain));
    fx_ok(f, f->ctx,
          bw_query_groups(f->ctx, f->engine, &f->read, &q, BW_STR("k"), 3, &grouped));
    const bw_hit *h = bw_result_hits(plain, 0, &n);
    const bw_group *g = bw_result_groups(grouped, &ng);
    assert_int_equal(ng, 2);
    for (size_t i = 0; i < ng; i++) {
        for (size_t j = 0; j < g[i].nhits; j++) {
            for (size_t k = 0; k < n; k++) {
                if (bw_point_id_cmp(&h[k].id, &g[i].hits[j].id) == 0) {
                    assert_memory_equal(&h[k].score, &g[i].hits[j].score,
                                        sizeof(float));
                    found++;
                }
            }
        }
    }
    assert_int_equal(found, 6);
    bw_result_free(plain);
    bw_result_free(grouped);
}

/* ---- lookup_from ---- */

static void test_lookup__takes_the_vector_from_another_collection(void **state)
{
    fixture *f = *state;
    bw_vector_spec spec = {.name = BW_STR("v"), .dim = FX_DIM, .metric = BW_METRIC_DOT};
    bw_collection_info info = {.tenant = FX_TENANT,
                               .name = BW_STR("other"),
                               .vectors = &spec,
                               .nvectors = 1,
                               .settings = BW_STR("{}")};
    fx_ok(f, f->ctx, bw_collection_create(f->ctx, f->engine, &info));
    float values[] = {0, 1};
    bw_vector v = {BW_STR("v"), values, NULL, FX_DIM, false};
    bw_point p = {
        .id = fx_id(1), .class_id = f->classes[0], .vectors = &v, .nvectors = 1};
    bw_access access = {f->all, f->all, f->all, f->all};
    bw_op op = {.kind = BW_OP_UPSERT, .points = &p, .npoints = 1};
    bw_write_result result;
    fx_ok(f, f->wctx,
          bw_write(f->wctx, f->engine, FX_TENANT, BW_STR("other"), &access, &op, 1,
                   &result));
    fx_put(f, 0, 1, 1, 5, NULL);
    fx_put(f, 0, 2, 9, 3, NULL);
    bw_query q = nearest(10);
    q.target = (bw_target){.by_id = true, .id = fx_id(1)};
    q.lookup_collection = BW_STR("other");
    q.lookup_vector = BW_STR("v");
    f->read.lookup_permit = &f->all;
    assert_string_equal(fx_query(f, &q, true),
                        "1:5 2:3"); /* the id here is another point: not left out */
    bw_permit none = {f->classes + 1, 1};
    f->read.lookup_permit = &none;
    bw_result *r;
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r),
                     BW_ENOTFOUND);
    assert_string_equal(bw_ctx_message(f->ctx), "No point with id 1 found");
}

/* ---- explain ---- */

static void test_explain__tells_the_plan_and_nothing_hidden(void **state)
{
    fixture *f = *state;
    char first[4096];
    for (uint64_t i = 0; i < 20; i++)
        fx_put(f, (int)(i % 2), i, (float)i, 0,
               i % 4 ? "{\"k\":\"a\"}" : "{\"k\":\"b\"}");
    f->read.explain = true;
    f->permit = (bw_permit){f->classes, 1};
    bw_query q = nearest(3);
    q.filter =
        fx_filter(f->wctx, "{\"must\":[{\"key\":\"k\",\"match\":{\"value\":\"a\"}}]}");
    for (int round = 0; round < 3; round++) {
        bw_result *r;
        bw_json *root;
        fx_ok(f, f->ctx, bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r));
        const char *text = bw_result_explain(r);
        assert_int_equal(bw_json_parse(f->ctx, bw_str_c(text), BW_JSON_REQUEST, &root),
                         BW_OK);
        if (round == 0)
            snprintf(first, sizeof first, "%s", text);
        else
            assert_string_equal(first, text);
        assert_non_null(strstr(text, "\"partitions\":1"));
        assert_non_null(strstr(text, "\"filter\":\"scan\""));
        bw_result_free(r);
        fx_put(f, 1, 1000 + (uint64_t)round, 1, 1,
               "{\"k\":\"a\"}"); /* forbidden: changes nothing */
        q.filter = fx_filter(
            f->ctx, "{\"must\":[{\"key\":\"k\",\"match\":{\"value\":\"a\"}}]}");
    }
    fx_index(f, "k", "keyword");
    bw_result *r;
    q.filter =
        fx_filter(f->ctx, "{\"must\":[{\"key\":\"k\",\"match\":{\"value\":\"a\"}}]}");
    fx_ok(f, f->ctx, bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r));
    assert_non_null(
        strstr(bw_result_explain(r), "\"filter\":\"index\",\"payloads_read\":0"));
    bw_result_free(r);
}

/* A hybrid query as LangChain sends it: the same filter three times, read once. */
static void test_explain__equal_filters_are_selected_once(void **state)
{
    static const char text[] =
        "{\"must\":[{\"key\":\"k\",\"match\":{\"value\":\"a\"}}]}";
    fixture *f = *state;
    for (uint64_t i = 0; i < 20; i++)
        fx_put(f, 0, i, (float)i, 0, i % 4 ? "{\"k\":\"a\"}" : "{\"k\":\"b\"}");
    f->read.explain = true;
    bw_query fetch[] = {nearest(3), nearest(5)};
    fetch[0].filter = fx_filter(f->ctx, text);
    fetch[1].filter = fx_filter(f->ctx, text);
    bw_query q = {.kind = BW_QUERY_FUSION_RRF,
                  .rrf_k = 2,
                  .prefetch = fetch,
                  .nprefetch = 2,
                  .limit = 3,
                  .filter = fx_filter(f->ctx, text)};
    bw_result *r;
    fx_ok(f, f->ctx, bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r));
    const char *first = strstr(bw_result_explain(r), "\"payloads_read\":20");
    assert_non_null(first);
    assert_non_null(strstr(first, "\"filter\":\"kept\",\"payloads_read\":0"));
    bw_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order_by__index_and_payloads_agree, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_facet__index_and_payloads_agree, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_explain__equal_filters_are_selected_once,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_copies__lowest_class_is_shown_everywhere,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_copies__a_class_that_may_not_be_read_hides_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copies__all_are_shown_on_request, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_copies__an_expired_copy_hides_nothing,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_expiry__hides_from_every_read, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_scroll__pages_join_to_the_whole, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_order_by__values_as_the_engine, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_order_by__dates_are_microseconds, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_facet__counts_points_by_value, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_groups__best_values_with_their_best_points,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_groups__are_complete_however_sparse, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_groups__members_are_the_best_whatever_the_round, setup, teardown),
        cmocka_unit_test_setup_teardown(test_groups__scores_are_those_of_the_query,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_lookup__takes_the_vector_from_another_collection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_explain__tells_the_plan_and_nothing_hidden,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
