/* Figures of merit of a ranking, against values worked out by hand and tables of Student's
 * t (NIST/SEMATECH e-Handbook, 1.3.6.7.2). */
#include <server/ranking.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void near(double got, double want, double by)
{
    if (!(fabs(got - want) <= by))
        fail_msg("got %.9f, want %.9f", got, want);
}

static void test_ranking__is_by_gain_and_place(void **state)
{
    (void)state;
    /* Järvelin and Kekäläinen's discount: 1, 1/log2 3, 1/2, 1/log2 5, … */
    const double gains[] = {0, 3, 0, 1};
    double judged[] = {1, 3, 2};
    bw_ranking_score s;
    bw_ranking_of(gains, 4, judged, 3, 10, &s);
    const double log23 = 1.584962500721156, log25 = 2.321928094887362;
    near(s.ndcg, (3 / log23 + 1 / log25) / (3 + 2 / log23 + 0.5), 1e-12);
    near(s.recall, 2.0 / 3, 1e-12);
    near(s.rr, 0.5, 1e-12);
    assert_true(judged[0] == 3 && judged[1] == 2 && judged[2] == 1);

    bw_ranking_of(gains, 4, judged, 3, 1, &s); /* only the first counts, and it is none */
    near(s.ndcg, 0, 0);
    near(s.recall, 0, 0);
    near(s.rr, 0, 0);
    bw_ranking_of(judged, 3, judged, 3, 2, &s); /* the best there can be, cut */
    near(s.ndcg, 1, 1e-12);
    near(s.recall, 2.0 / 3, 1e-12);
    near(s.rr, 1, 0);
    bw_ranking_of(NULL, 0, judged, 3, 10, &s); /* no answer */
    near(s.ndcg, 0, 0);
}

static void test_student__agrees_with_the_tables(void **state)
{
    (void)state;
    static const struct {
        size_t degrees;
        double t;
    } rows[] = {{1, 12.706}, {2, 4.303}, {3, 3.182}, {4, 2.776}, {5, 2.571},
                {10, 2.228}, {30, 2.042}, {100, 1.984}, {100000, 1.960}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        near(bw_student_t975(rows[i].degrees), rows[i].t, 0.002 * rows[i].t);
}

static void test_interval__is_student_s(void **state)
{
    (void)state;
    const double values[] = {1, 2, 3, 4};
    const double half = bw_student_t975(3) * sqrt(5.0 / 3 / 4);
    bw_interval v = bw_interval_of(values, 4);
    near(v.mean, 2.5, 1e-12);
    near(v.lo, 2.5 - half, 1e-12);
    near(v.hi, 2.5 + half, 1e-12);
    v = bw_interval_of(values, 1);
    assert_true(isinf(v.lo) && isinf(v.hi));
    const double same[] = {0.25, 0.25, 0.25};
    v = bw_interval_of(same, 3);
    near(v.lo, 0.25, 0);
    near(v.hi, 0.25, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranking__is_by_gain_and_place),
        cmocka_unit_test(test_student__agrees_with_the_tables),
        cmocka_unit_test(test_interval__is_student_s),
    };
    return cmocka_run_group_tests_name("ranking", tests, NULL, NULL);
}
