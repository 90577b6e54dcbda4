/* Sparse vectors with IDF and BM25: the formulas, and that statistics are sums over the
 * permitted partitions and nothing else. */
#include "plan_fixture.h"
#include <math.h>

static int setup(void **state)
{
    static const bw_vector_spec specs[] = {
        {.name = {"s", 1}, .metric = BW_METRIC_DOT, .sparse = true},
        {.name = {"i", 1}, .metric = BW_METRIC_DOT, .sparse = true, .idf = true}};
    *state = fx_new(specs, 2);
    return 0;
}

static int teardown(void **state)
{
    fx_free(*state);
    return 0;
}

static void put_sparse(fixture *f, int class, uint64_t id, uint32_t n,
                       const uint32_t *indices, const float *values)
{
    bw_vector v[] = {{BW_STR("s"), values, indices, n, true},
                     {BW_STR("i"), values, indices, n, true}};
    fx_point(f, class, (bw_point){.id = fx_id(id), .vectors = v, .nvectors = 2});
}

static bw_query sparse(const char *name, uint32_t n, const uint32_t *indices,
                       const float *values)
{
    return (bw_query){.kind = BW_QUERY_NEAREST,
                      .using_name = bw_str_c(name),
                      .limit = 10,
                      .target = {.vector = {BW_STR(""), values, indices, n, true}}};
}

static void put_five(fixture *f)
{
    put_sparse(f, 0, 0, 2, (uint32_t[]){1, 5}, (float[]){1, 2});
    put_sparse(f, 1, 1, 2, (uint32_t[]){1, 7}, (float[]){-1, 1});
    put_sparse(f, 0, 2, 2, (uint32_t[]){1, 5},
               (float[]){2, -2}); /* cancels with (1,1) */
    put_sparse(f, 1, 3, 1, (uint32_t[]){9}, (float[]){4});
    put_sparse(f, 0, 4, 1, (uint32_t[]){4000000000u}, (float[]){3});
}

static void test_sparse__zero_sums_are_left_out_negative_ones_stay(void **state)
{
    fixture *f = *state;
    put_five(f);
    bw_query q = sparse("s", 2, (uint32_t[]){1, 5}, (float[]){1, 1});
    assert_string_equal(fx_query(f, &q, true), "0:3 1:-1");
    q.has_score_threshold = true;
    q.score_threshold = -1;
    assert_string_equal(fx_query(f, &q, true), "0:3"); /* strict */
    q = sparse("s", 1, (uint32_t[]){4000000000u}, (float[]){0.5f});
    assert_string_equal(fx_query(f, &q, true), "4:1.5");
    q = sparse("s", 0, NULL, NULL);
    assert_string_equal(fx_query(f, &q, true), "");
    q.target = (bw_target){.by_id = true, .id = fx_id(0)};
    assert_string_equal(fx_query(f, &q, true), "1:-1 2:-2");
}

static float idf(double n, double df)
{
    return (float)log((n - df + 0.5) / (df + 0.5) + 1.0);
}

static void test_sparse__idf_is_summed_over_permitted_partitions(void **state)
{
    fixture *f = *state;
    put_five(f);
    bw_query q = sparse("i", 2, (uint32_t[]){1, 9}, (float[]){1, 1});
    char want[128];
    snprintf(want, sizeof want, "3:%.4g 2:%.4g 0:%.4g 1:%.4g", (double)(4 * idf(5, 1)),
             (double)(2 * idf(5, 3)), (double)idf(5, 3), (double)-idf(5, 3));
    assert_string_equal(fx_query(f, &q, true), want);
    f->permit = (bw_permit){
        f->classes, 1}; /* 0, 2, 4: another collection as far as this caller can tell */
    snprintf(want, sizeof want, "2:%.4g 0:%.4g", (double)(2 * idf(3, 2)),
             (double)idf(3, 2));
    assert_string_equal(fx_query(f, &q, true), want);
    q.filter = fx_filter(
        f->ctx, "{\"must\":[{\"has_id\":[0]}]}"); /* a filter is no statistic */
    snprintf(want, sizeof want, "0:%.4g", (double)idf(3, 2));
    assert_string_equal(fx_query(f, &q, true), want);
}

static void test_sparse__recommend_and_mmr(void **state)
{
    fixture *f = *state;
    put_five(f);
    bw_target pos[] = {{.by_id = true, .id = fx_id(0)}},
              neg[] = {{.by_id = true, .id = fx_id(1)}};
    bw_query q = {.kind = BW_QUERY_RECOMMEND,
                  .using_name = BW_STR("s"),
                  .positive = pos,
                  .npositive = 1,
                  .negative = neg,
                  .nnegative = 1,
                  .limit = 10};
    /* 2·(1:1, 5:2) − (1:−1, 7:1) = (1:3, 5:4, 7:−1); · point 2 = 6 − 8 */
    assert_string_equal(fx_query(f, &q, true), "2:-2");
    q.strategy = BW_RECOMMEND_SUM_SCORES;
    assert_string_equal(fx_query(f, &q, true), "2:0 3:0 4:0");
    bw_query m = sparse("s", 2, (uint32_t[]){1, 9}, (float[]){1, 0.5f});
    m.has_mmr = true;
    m.mmr_diversity = 0.5f;
    assert_string_equal(fx_query(f, &m, true), "2:2 0:1 3:2 1:-1");
}

static void test_sparse__kinds_do_not_mix(void **state)
{
    fixture *f = *state;
    bw_query q = sparse("s", 0, NULL, NULL);
    bw_result *r;
    q.target.vector.sparse = false;
    assert_int_equal(bw_query_run(f->ctx, f->engine, &f->read, &q, 1, &r), BW_EINVALID);
}

/* ---- BM25 ---- */

static const struct {
    int class;
    const char *text;
} texts[] = {{0, "red fox"},
             {1, "red red red blue"},
             {0, "blue whale sings blue songs"},
             {2, "fox"},
             {1, "green"},
             {0, "nothing here at all but words"}};

static void put_texts(fixture *f, bool spread)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        fx_point(f, spread ? texts[i].class : 0,
                 (bw_point){.id = fx_id(i),
                            .text = bw_str_c(texts[i].text),
                            .payload = BW_STR("{\"k\":1}")});
}

static size_t term_count(const char *text, const char *word, size_t *length)
{
    size_t n = 0, w = strlen(word);
    *length = 0;
    for (const char *p = text; *p;) {
        const char *e = strchr(p, ' ');
        size_t len = e ? (size_t)(e - p) : strlen(p);
        n += len == w && memcmp(p, word, w) == 0;
        ++*length;
        p += len + (e != NULL);
    }
    return n;
}

/* The score of text i for "red fox" by the formula, over the texts of the given
 * classes. */
static double bm25(size_t i, unsigned classes)
{
    static const char *const words[] = {"red", "fox"};
    double docs = 0, tokens = 0, sum = 0;
    size_t length;
    for (size_t j = 0; j < sizeof texts / sizeof *texts; j++) {
        if (classes >> texts[j].class & 1) {
            term_count(texts[j].text, "x", &length);
            docs++;
            tokens += (double)length;
        }
    }
    for (int w = 0; w < 2; w++) {
        double df = 0;
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++)
            df += classes >> texts[j].class & 1 &&
                  term_count(texts[j].text, words[w], &length) > 0;
        double tf = (double)term_count(texts[i].text, words[w], &length);
        double norm = 1.2 * (0.25 + 0.75 * (double)length / (tokens / docs));
        sum += log(1 + (docs - df + 0.5) / (df + 0.5)) * tf * 2.2 / (tf + norm);
    }
    return sum;
}

static void test_text__bm25_is_the_formula_over_permitted_texts(void **state)
{
    fixture *f = *state;
    put_texts(f, true);
    bw_query q = {.kind = BW_QUERY_TEXT, .text = BW_STR("red fox"), .limit = 10};
    char want[128];
    snprintf(want, sizeof want, "0:%.4g 1:%.4g 3:%.4g", bm25(0, 7), bm25(1, 7),
             bm25(3, 7));
    assert_string_equal(fx_query(f, &q, true), want);
    f->permit = (bw_permit){f->classes, 2};
    snprintf(want, sizeof want, "0:%.4g 1:%.4g", bm25(0, 3), bm25(1, 3));
    assert_string_equal(fx_query(f, &q, true), want);
    q.limit = 1;
    q.offset = 1;
    assert_string_equal(fx_query(f, &q, false), "1");
    q.text = BW_STR("");
    assert_string_equal(fx_query(f, &q, true), "");
    q.text = BW_STR("absent");
    assert_string_equal(fx_query(f, &q, true), "");
}

static void test_text__score_does_not_know_how_texts_are_spread(void **state)
{
    fixture *f = *state, *g;
    char first[128];
    bw_query q = {.kind = BW_QUERY_TEXT, .text = BW_STR("blue red fox"), .limit = 10};
    put_texts(f, true);
    snprintf(first, sizeof first, "%s", fx_query(f, &q, true));
    bw_vector_spec spec = {.name = BW_STR("s"), .sparse = true};
    g = fx_new(&spec, 1);
    put_texts(g, false);
    assert_string_equal(fx_query(g, &q, true), first);
    fx_free(g);
}

static void test_text__takes_filters_prefetches_and_permits(void **state)
{
    fixture *f = *state;
    put_texts(f, true);
    bw_query text = {.kind = BW_QUERY_TEXT, .text = BW_STR("red fox"), .limit = 2};
    text.filter = fx_filter(f->ctx, "{\"must_not\":[{\"has_id\":[0]}]}");
    assert_string_equal(fx_query(f, &text, false), "1 3");
    bw_query fetch[2];
    text.filter = NULL;
    fetch[0] = text;
    fetch[1] = (bw_query){.kind = BW_QUERY_NONE, .limit = 2};
    bw_query q = {.kind = BW_QUERY_FUSION_RRF,
                  .rrf_k = 2,
                  .prefetch = fetch,
                  .nprefetch = 2,
                  .limit = 5};
    assert_string_equal(fx_query(f, &q, true), "0:1 1:0.6667");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_sparse__zero_sums_are_left_out_negative_ones_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_sparse__idf_is_summed_over_permitted_partitions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sparse__recommend_and_mmr, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_sparse__kinds_do_not_mix, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_text__bm25_is_the_formula_over_permitted_texts, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_text__score_does_not_know_how_texts_are_spread, setup, teardown),
        cmocka_unit_test_setup_teardown(test_text__takes_filters_prefetches_and_permits,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
