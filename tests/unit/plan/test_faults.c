/* The n-th allocation fails, for n = 1, 2, 3 … until every read passes without a fault:
 * each answers rightly or says BW_ENOMEM, leaks nothing (ASan), and the cell goes on.
 */
#include "plan_fixture.h"

static size_t left_;

static void *failing_alloc(size_t n)
{
    return left_ && --left_ == 0 ? NULL
                                 : malloc(n); /* libc-allocator: the fault itself */
}

static void *failing_realloc(void *p, size_t n)
{
    return left_ && --left_ == 0 ? NULL
                                 : realloc(p, n); /* libc-allocator: the fault itself */
}

static const float q1[] = {1.0f, 0.0f};

typedef struct asked {
    bw_query query, fetch[2];
    const bw_filter *filter;
} asked;

static void make_queries(fixture *f, bw_ctx *keep, asked *a)
{
    (void)f;
    a->filter = fx_filter(
        keep, "{\"must\":[{\"key\":\"k\",\"match\":{\"any\":[\"a\",\"b\"]}},"
              "{\"key\":\"t\",\"match\":{\"text\":\"red fox\"}}],\"should\":[{\"key\":"
              "\"n\",\"range\":{\"gte\":1}},{\"has_id\":[1,2]}]}");
    a->query = (bw_query){.kind = BW_QUERY_NEAREST,
                          .using_name = BW_STR(""),
                          .limit = 5,
                          .target = {.vector = {BW_STR(""), q1, NULL, FX_DIM, false}}};
    a->fetch[0] = a->query;
    a->fetch[1] =
        (bw_query){.kind = BW_QUERY_TEXT, .text = BW_STR("red fox"), .limit = 5};
}

/* One of every read; returns the first status that is not OK. */
static bw_status read_all(fixture *f, const asked *a, char *out, size_t size)
{
    bw_result *r;
    const bw_facet_hit *hits;
    size_t n;
    uint64_t count;
    bw_query fused = {.kind = BW_QUERY_FUSION_RRF,
                      .rrf_k = 2,
                      .prefetch = a->fetch,
                      .nprefetch = 2,
                      .limit = 5,
                      .filter = a->filter};
    bw_query mmr = a->query;
    mmr.has_mmr = true;
    mmr.mmr_diversity = 0.5f;
    bw_query both[] = {fused, mmr};
    bw_status st = bw_query_run(f->ctx, f->engine, &f->read, both, 2, &r);
    if (st != BW_OK)
        return st;
    const bw_hit *h = bw_result_hits(r, 0, &n);
    *out = 0;
    for (size_t i = 0; i < n; i++)
        snprintf(out + strlen(out), size - strlen(out), "%llu ",
                 (unsigned long long)h[i].id.lo);
    bw_result_free(r);
    if ((st = bw_query_groups(f->ctx, f->engine, &f->read, &a->query, BW_STR("k"), 2,
                              &r)) != BW_OK)
        return st;
    bw_result_free(r);
    bw_scroll s = {.filter = a->filter, .limit = 3};
    if ((st = bw_scroll_run(f->ctx, f->engine, &f->read, &s, &r)) != BW_OK)
        return st;
    bw_result_free(r);
    s = (bw_scroll){.limit = 3, .has_order_by = true, .order_by = {.key = BW_STR("n")}};
    if ((st = bw_scroll_run(f->ctx, f->engine, &f->read, &s, &r)) != BW_OK)
        return st;
    bw_result_free(r);
    bw_point_id ids[] = {fx_id(1), fx_id(2)};
    if ((st = bw_retrieve(f->ctx, f->engine, &f->read, ids, 2, &r)) != BW_OK)
        return st;
    bw_result_free(r);
    if ((st = bw_facet(f->ctx, f->engine, &f->read, BW_STR("k"), a->filter, 5, &hits,
                       &n)) != BW_OK)
        return st;
    return bw_count(f->ctx, f->engine, &f->read, a->filter, &count);
}

static void test_faults__each_allocation_may_fail(void **state)
{
    static const bw_vector_spec spec = {
        .name = {"", 0}, .dim = FX_DIM, .metric = BW_METRIC_DOT};
    static const bw_allocator failing = {failing_alloc, failing_realloc, free};
    static const char *const k[] = {"\"a\"", "[\"a\",\"b\\u0062\"]", "\"b\"", "7",
                                    "null"};
    fixture *f = fx_new(&spec, 1);
    bw_ctx *keep = bw_ctx_new(0);
    asked a;
    char want[256], got[256];
    bool clean = false;
    (void)state;
    for (uint64_t i = 0; i < 30; i++) {
        float v[] = {(float)(i % 7), 1};
        bw_vector vec = {BW_STR(""), v, NULL, FX_DIM, false};
        char *p = bw_arena_printf(
            keep, "{\"k\":%s,\"t\":\"Red f\\u006fx %llu\",\"n\":%llu}", k[i % 5],
            (unsigned long long)i, (unsigned long long)(i % 3));
        fx_point(f, (int)(i % 3),
                 (bw_point){.id = fx_id(i % 25),
                            .payload = bw_str_c(p),
                            .vectors = &vec,
                            .nvectors = 1,
                            .text = BW_STR("red fox")});
    }
    fx_index(f, "k", "keyword");
    fx_index(f, "n", "integer");
    f->read.explain = true;
    make_queries(f, keep, &a);
    fx_ok(f, f->ctx, read_all(f, &a, want, sizeof want));
    size_t n = 1;
    for (; !clean && n < 20000; n += n < 400 ? 1 : 13) {
        bw_ctx_reset(f->ctx);
        bw_allocator_set(&failing);
        left_ = n;
        bw_status st = read_all(f, &a, got, sizeof got);
        clean = left_ > 0;
        left_ = 0;
        bw_allocator_set(NULL);
        if (st != BW_ENOMEM && !(clean && st == BW_OK))
            fail_msg("allocation %zu: %s: %s", n, bw_status_name(st),
                     bw_ctx_message(f->ctx));
    }
    print_message("%zu allocations\n", n);
    assert_true(clean);
    assert_string_equal(got, want);
    bw_ctx_free(keep);
    fx_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults__each_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
