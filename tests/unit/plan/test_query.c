/* Queries: scores, order, fusion, MMR, recommend. The expected lists of the metric
 * tests were given by Qdrant's own engine for the same six points (equal scores: by id
 * here). */
#include "plan_fixture.h"
#include <math.h>

static const float points[6][FX_DIM] = {{1.0f, 0.5f}, {0.3f, -0.7f}, {-1.0f, 2.0f},
                                        {2.0f, 1.0f}, {0.1f, 0.1f},  {-0.5f, -0.5f}};

static fixture *six(bw_metric metric)
{
    bw_vector_spec spec = {.name = {"", 0}, .dim = FX_DIM, .metric = metric};
    fixture *f = fx_new(&spec, 1);
    for (size_t i = 0; i < 6; i++) /* over three classes: it must not show */
        fx_put(f, (int)(i % 3), i, points[i][0], points[i][1], NULL);
    return f;
}

static int setup_dot(void **state)
{
    *state = six(BW_METRIC_DOT);
    return 0;
}

static int setup_euclid(void **state)
{
    *state = six(BW_METRIC_EUCLID);
    return 0;
}

static int setup_cosine(void **state)
{
    *state = six(BW_METRIC_COSINE);
    return 0;
}

static int setup_manhattan(void **state)
{
    *state = six(BW_METRIC_MANHATTAN);
    return 0;
}

static int teardown(void **state)
{
    fx_free(*state);
    return 0;
}

static bw_target target(const float *v)
{
    return (bw_target){.vector = {BW_STR(""), v, NULL, FX_DIM, false}};
}

static bw_query nearest(const float *v, uint32_t limit)
{
    return (bw_query){.kind = BW_QUERY_NEAREST,
                      .using_name = BW_STR(""),
                      .target = target(v),
                      .limit = limit};
}

static const float q1[] = {1.0f, 0.2f}, q2[] = {0.0f, 1.0f}, qn[] = {-1.0f, 0.0f},
                   qr[] = {-1.0f, 1.0f};

typedef struct expected {
    const char *nearest, *over_half, *best, *sum, *negative, *mmr, *mmr3, *rrf;
} expected;

static void recommend(fixture *f, const expected *e)
{
    bw_target pos[] = {target(q1), target(q2)}, neg[] = {target(qn)};
    bw_query q = {.kind = BW_QUERY_RECOMMEND,
                  .using_name = BW_STR(""),
                  .positive = pos,
                  .npositive = 2,
                  .negative = neg,
                  .nnegative = 1,
                  .strategy = BW_RECOMMEND_BEST_SCORE,
                  .limit = 10};
    assert_string_equal(fx_query(f, &q, true), e->best);
    q.strategy = BW_RECOMMEND_SUM_SCORES;
    assert_string_equal(fx_query(f, &q, true), e->sum);
    q.strategy = BW_RECOMMEND_BEST_SCORE;
    q.npositive = 0;
    assert_string_equal(fx_query(f, &q, true), e->negative);
}

static void check(fixture *f, const expected *e)
{
    bw_query q = nearest(q1, 10);
    assert_string_equal(fx_query(f, &q, true), e->nearest);
    q.has_score_threshold = true;
    q.score_threshold = 0.5f;
    assert_string_equal(fx_query(f, &q, true), e->over_half);
    q = nearest(q1, 10);
    q.has_mmr = true;
    q.mmr_diversity = 0.5f;
    assert_string_equal(fx_query(f, &q, true), e->mmr);
    q.mmr_candidates = 3;
    assert_string_equal(fx_query(f, &q, true), e->mmr3);
    bw_query fetch[] = {nearest(q1, 3), nearest(q2, 4)};
    bw_query rrf = {.kind = BW_QUERY_FUSION_RRF,
                    .rrf_k = 2,
                    .prefetch = fetch,
                    .nprefetch = 2,
                    .limit = 10};
    assert_string_equal(fx_query(f, &rrf, true), e->rrf);
    recommend(f, e);
}

static void test_query__dot_as_the_engine(void **state)
{
    expected e = {"3:2.2 0:1.1 1:0.16 4:0.12 2:-0.6 5:-0.6",
                  "3:2.2 0:1.1",
                  "3:0.8438 2:0.8333 0:0.7619 1:0.569 4:0.5536 5:-0.6667",
                  "3:5.2 0:2.6 2:0.4 4:0.32 1:-0.24 5:-1.6",
                  "3:-0.1667 0:-0.25 1:-0.3846 4:-0.4545 5:-0.6667 2:-0.75",
                  "3:2.2 5:-0.6 1:0.16 4:0.12 2:-0.6 0:1.1",
                  "3:2.2 1:0.16 0:1.1",
                  "3:0.8333 0:0.5833 2:0.5 1:0.25 4:0.2"};
    check(*state, &e);
}

static void test_query__cosine_as_the_engine(void **state)
{
    fixture *f = *state;
    bw_query q = nearest(q1, 10);
    assert_string_equal(fx_query(f, &q, true),
                        "0:0.9648 3:0.9648 4:0.8321 1:0.206 2:-0.2631 5:-0.8321");
    q.has_score_threshold = true;
    q.score_threshold = 0.5f;
    assert_string_equal(fx_query(f, &q, false), "0 3 4");
    float zero[FX_DIM] = {0, 0};
    bw_query z = nearest(zero, 3);
    assert_string_equal(fx_query(f, &z, true), "0:0 1:0 2:0");
}

static void test_query__euclid_as_the_engine(void **state)
{
    expected e = {"0:0.3 4:0.9055 1:1.14 3:1.281 5:1.655 2:2.691",
                  "0:0.3",
                  "0:0.4587 4:0.2747 1:0.2174 3:0.1894 2:0.1667 5:-0.3333",
                  "3:4.36 0:2.91 4:-0.42 1:-2.1 5:-4.74 2:-5.24",
                  "3:-0.04545 0:-0.09524 2:-0.1 1:-0.1572 4:-0.2252 5:-0.3333",
                  "0:0.3 1:1.14 4:0.9055 3:1.281 5:1.655 2:2.691",
                  "0:0.3 1:1.14 4:0.9055",
                  "0:0.8333 4:0.8333 1:0.25 2:0.25 5:0.2"};
    check(*state, &e);
}

static void test_query__manhattan_as_the_engine(void **state)
{
    fixture *f = *state;
    bw_query q = nearest(q1, 10);
    assert_string_equal(fx_query(f, &q, true), "0:0.3 4:1 1:1.6 3:1.8 5:2.2 2:3.8");
    q.has_score_threshold = true;
    q.score_threshold = 1.5f;
    assert_string_equal(fx_query(f, &q, false), "0 4");
}

static void test_query__dbsf_as_the_engine(void **state)
{
    bw_query fetch[] = {nearest(q1, 3), nearest(q2, 4)};
    bw_query q = {
        .kind = BW_QUERY_FUSION_DBSF, .prefetch = fetch, .nprefetch = 2, .limit = 10};
    assert_string_equal(fx_query(*state, &q, true),
                        "3:1.191 0:0.91 2:0.7234 1:0.3379 4:0.3375");
    fetch[0].limit = 1; /* one point: 0.5 */
    q.nprefetch = 1;
    assert_string_equal(fx_query(*state, &q, true), "3:0.5");
}

static void test_query__weighted_rrf(void **state)
{
    float weights[] = {2, 1};
    bw_query fetch[] = {nearest(q1, 3), nearest(q2, 4)};
    bw_query q = {.kind = BW_QUERY_FUSION_RRF,
                  .rrf_k = 2,
                  .prefetch = fetch,
                  .nprefetch = 2,
                  .limit = 10,
                  .rrf_weights = weights,
                  .nrrf_weights = 2};
    /* q1 ranks 3 0 1, q2 ranks 2 3 0 4 (of Dot); 1/((rank+1)/w + k − 1) */
    assert_string_equal(fx_query(*state, &q, true), "3:1 0:0.75 2:0.5 1:0.4 4:0.2");
    weights[0] = 0;
    assert_string_equal(fx_query(*state, &q, true), "2:0.5 3:0.3333 0:0.25 4:0.2 1:0");
    fixture *f = *state;
    bw_result *r;
    q.nrrf_weights = 1;
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r), BW_EINVALID);
}

static void test_query__rescores_the_union_of_prefetches(void **state)
{
    bw_query fetch[] = {nearest(q1, 3), nearest(q2, 4)};
    bw_query q = nearest(qr, 10);
    q.prefetch = fetch;
    q.nprefetch = 2;
    assert_string_equal(fx_query(*state, &q, true), "2:3 4:0 0:-0.5 1:-1 3:-1");
    /* nested: the inner limit decides what the outer sees */
    bw_query inner = nearest(q2, 2), middle = nearest(q1, 1);
    middle.prefetch = &inner;
    middle.nprefetch = 1;
    q.prefetch = &middle;
    q.nprefetch = 1;
    assert_string_equal(fx_query(*state, &q, true), "3:-1");
}

static void test_query__shapes_that_make_no_sense(void **state)
{
    fixture *f = *state;
    bw_result *r;
    bw_query fetch = nearest(q1, 3),
             q = {
                 .kind = BW_QUERY_NONE, .prefetch = &fetch, .nprefetch = 1, .limit = 1};
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r), BW_EINVALID);
    q = (bw_query){.kind = BW_QUERY_FUSION_RRF, .rrf_k = 2, .limit = 1};
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r), BW_EINVALID);
    q = nearest(q1, 1);
    q.target.vector.n = 1;
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r), BW_EINVALID);
    assert_string_equal(bw_ctx_message(f->ctx),
                        "Vector dimension error: expected dim: 2, got 1");
    q = nearest(q1, 1);
    q.using_name = BW_STR("nope");
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r), BW_EINVALID);
    assert_string_equal(bw_ctx_message(f->ctx), "Not existing vector name error: nope");
    float nan[] = {1, NAN};
    q = nearest(nan, 1);
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r), BW_EINVALID);
    q = nearest(q1, 1);
    q.offset = UINT32_MAX;
    q.limit = UINT32_MAX;
    fx_ok(f, f->ctx,
          bw_query_run(f->ctx, f->engine, &f->read, &q, 1,
                       &r)); /* cut to what there is */
    bw_result_free(r);
}

static void test_query__prefetch_depth_is_capped(void **state)
{
    fixture *f = *state;
    bw_query q[40];
    bw_result *r;
    q[0] = nearest(q1, 3);
    for (int i = 1; i < 40; i++) {
        q[i] = nearest(q1, 3);
        q[i].prefetch = &q[i - 1];
        q[i].nprefetch = 1;
    }
    fx_ok(f, f->ctx, bw_query_run(f->ctx, f->engine, &f->read, &q[16], 1, &r));
    bw_result_free(r);
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q[17], 1, &r),
                     BW_EINVALID);
}

static void test_query__root_filter_is_put_on_every_prefetch(void **state)
{
    fixture *f = *state;
    bw_query fetch[] = {nearest(q1, 1), nearest(q2, 1)};
    bw_query q = {.kind = BW_QUERY_FUSION_RRF,
                  .rrf_k = 2,
                  .prefetch = fetch,
                  .nprefetch = 2,
                  .limit = 10};
    q.filter = fx_filter(f->ctx, "{\"must_not\":[{\"has_id\":[3,2]}]}");
    /* without the root filter: 3 and 2; after the fact nothing would be left (report 9)
     */
    assert_string_equal(fx_query(f, &q, true), "0:1");
    fetch[0].filter = fx_filter(f->ctx, "{\"must_not\":[{\"has_id\":[0]}]}");
    assert_string_equal(fx_query(f, &q, true), "0:0.5 1:0.5");
    bw_query outer = nearest(q1, 10), inner = nearest(q2, 2);
    inner.prefetch = NULL;
    bw_query middle = nearest(q1, 2);
    middle.prefetch = &inner;
    middle.nprefetch = 1;
    outer.prefetch = &middle;
    outer.nprefetch = 1;
    outer.filter = q.filter;
    assert_string_equal(fx_query(f, &outer, false), "0 4");
}

static void test_query__threshold_and_window_act_on_the_fused_list(void **state)
{
    bw_query fetch[] = {nearest(q1, 3), nearest(q2, 4)};
    bw_query q = {.kind = BW_QUERY_FUSION_RRF,
                  .rrf_k = 2,
                  .prefetch = fetch,
                  .nprefetch = 2,
                  .limit = 2,
                  .offset = 1};
    assert_string_equal(fx_query(*state, &q, false), "0 2");
    q.has_score_threshold = true;
    q.score_threshold = 0.5f; /* strict: 2 has exactly 0.5 */
    assert_string_equal(fx_query(*state, &q, false), "0");
}

static void test_query__by_id_leaves_the_point_out(void **state)
{
    fixture *f = *state;
    bw_query q = nearest(q1, 10);
    q.target = (bw_target){.by_id = true, .id = fx_id(3)};
    assert_string_equal(fx_query(f, &q, true), "0:2.5 4:0.3 2:0 1:-0.1 5:-1.5");
    bw_target pos[] = {{.by_id = true, .id = fx_id(3)},
                       {.by_id = true, .id = fx_id(0)}},
              neg[] = {{.by_id = true, .id = fx_id(2)}};
    bw_query rec = {.kind = BW_QUERY_RECOMMEND,
                    .using_name = BW_STR(""),
                    .positive = pos,
                    .npositive = 2,
                    .negative = neg,
                    .nnegative = 1,
                    .limit = 10};
    /* avg(pos) = (1.5, 0.75); twice that − (−1, 2) = (4, −0.5) */
    assert_string_equal(fx_query(f, &rec, true), "1:1.55 4:0.35 5:-1.75");
    rec.npositive = 0;
    bw_result *r;
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &rec, 1, &r),
                     BW_EINVALID);
}

static void test_query__absent_and_forbidden_ids_say_the_same(void **state)
{
    fixture *f = *state;
    bw_query q = nearest(q1, 10);
    bw_result *r;
    f->permit = (bw_permit){f->classes, 1}; /* class 0 holds 0 and 3 */
    q.target = (bw_target){.by_id = true, .id = fx_id(4)};
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r),
                     BW_ENOTFOUND);
    assert_string_equal(bw_ctx_message(f->ctx), "No point with id 4 found");
    bw_ctx_reset(f->ctx);
    bw_point_id uuid;
    assert_true(bw_uuid_parse(BW_STR("550E8400e29b41d4a716446655440000"), &uuid));
    q.target.id = uuid;
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r),
                     BW_ENOTFOUND);
    assert_string_equal(bw_ctx_message(f->ctx),
                        "No point with id 550e8400-e29b-41d4-a716-446655440000 found");
}

static void test_query__none_is_id_order_with_score_one(void **state)
{
    fixture *f = *state;
    bw_query q = {.kind = BW_QUERY_NONE, .limit = 3, .offset = 1};
    assert_string_equal(fx_query(f, &q, true), "1:1 2:1 3:1");
    q.filter = fx_filter(f->ctx, "{\"must\":[{\"has_id\":[5,0,4]}]}");
    assert_string_equal(fx_query(f, &q, true), "4:1 5:1");
}

static void test_query__limit_zero_is_empty(void **state)
{
    bw_query q = nearest(q1, 0);
    assert_string_equal(fx_query(*state, &q, true), "");
}

static void test_query__bits_are_the_same_alone_and_in_a_batch(void **state)
{
    fixture *f = *state;
    bw_query fetch[] = {nearest(q1, 3), nearest(q2, 4)};
    bw_query q[] = {
        nearest(q1, 10),
        nearest(q2, 2),
        {.kind = BW_QUERY_FUSION_DBSF, .prefetch = fetch, .nprefetch = 2, .limit = 10},
        nearest(qr, 4)};
    bw_result *batch, *one;
    size_t n, m;
    fx_ok(f, f->ctx, bw_query_run(f->ctx, f->engine, &f->read, q, 4, &batch));
    for (size_t i = 0; i < 4; i++) {
        fx_ok(f, f->ctx, bw_query_run(f->ctx, f->engine, &f->read, &q[i], 1, &one));
        const bw_hit *a = bw_result_hits(batch, i, &n), *b = bw_result_hits(one, 0, &m);
        assert_int_equal(n, m);
        for (size_t j = 0; j < n; j++) {
            assert_int_equal(bw_point_id_cmp(&a[j].id, &b[j].id), 0);
            assert_memory_equal(&a[j].score, &b[j].score, sizeof a[j].score);
        }
        bw_result_free(one);
    }
    bw_result_free(batch);
}

static void test_query__passed_deadline_is_a_timeout(void **state)
{
    fixture *f = *state;
    bw_query q = nearest(q1, 3);
    bw_result *r;
    bw_ctx_set_deadline(f->ctx, 1);
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r), BW_ETIMEOUT);
}

static void test_query__hits_carry_the_point(void **state)
{
    fixture *f = *state;
    fx_put(f, 1, 9, 9, 9, "{\"b\":1,\"a\":18446744073709551615}");
    bw_query q = nearest(q1, 1);
    bw_result *r;
    size_t n;
    fx_ok(f, f->ctx, bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r));
    const bw_hit *h = bw_result_hits(r, 0, &n);
    assert_int_equal(n, 1);
    assert_true(h->has_score);
    assert_int_equal(bw_class_id_cmp(&h->class_id, &f->classes[1]), 0);
    assert_true(bw_str_is(h->payload, "{\"b\":1,\"a\":18446744073709551615}"));
    assert_int_equal(h->nvectors, 1);
    assert_int_equal(h->vectors[0].n, FX_DIM);
    assert_true(h->vectors[0].values[1] == 9.0f);
    bw_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_query__dot_as_the_engine, setup_dot,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_query__cosine_as_the_engine, setup_cosine,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_query__euclid_as_the_engine, setup_euclid,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_query__manhattan_as_the_engine,
                                        setup_manhattan, teardown),
        cmocka_unit_test_setup_teardown(test_query__dbsf_as_the_engine, setup_dot,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_query__weighted_rrf, setup_dot, teardown),
        cmocka_unit_test_setup_teardown(test_query__rescores_the_union_of_prefetches,
                                        setup_dot, teardown),
        cmocka_unit_test_setup_teardown(test_query__shapes_that_make_no_sense,
                                        setup_dot, teardown),
        cmocka_unit_test_setup_teardown(test_query__prefetch_depth_is_capped, setup_dot,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_query__root_filter_is_put_on_every_prefetch, setup_dot, teardown),
        cmocka_unit_test_setup_teardown(
            test_query__threshold_and_window_act_on_the_fused_list, setup_dot,
            teardown),
        cmocka_unit_test_setup_teardown(test_query__by_id_leaves_the_point_out,
                                        setup_dot, teardown),
        cmocka_unit_test_setup_teardown(
            test_query__absent_and_forbidden_ids_say_the_same, setup_dot, teardown),
        cmocka_unit_test_setup_teardown(test_query__none_is_id_order_with_score_one,
                                        setup_dot, teardown),
        cmocka_unit_test_setup_teardown(test_query__limit_zero_is_empty, setup_dot,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_query__bits_are_the_same_alone_and_in_a_batch, setup_euclid, teardown),
        cmocka_unit_test_setup_teardown(test_query__passed_deadline_is_a_timeout,
                                        setup_dot, teardown),
        cmocka_unit_test_setup_teardown(test_query__hits_carry_the_point, setup_dot,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
