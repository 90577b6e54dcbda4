/* The planner's table: its rules, and that it is a function of counts that never turns
 * back (more permitted rows never make a scan of what was a graph's). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/index/choose.h"

static bw_choose_ask ask(bool exact, uint32_t ef, float recall, uint64_t permitted)
{
    return (bw_choose_ask){exact, ef, recall, permitted, BW_EXACT_ROWS};
}

static void test_choose__is_exact_below_50000_rows_unless_less_is_asked(void **state)
{
    (void)state;
    float recall;
    bw_choose_ask a = ask(false, 0, 0, BW_EXACT_ROWS - 1);
    assert_false(bw_choose_approximate(&a, &recall));
    a = ask(false, 0, 0, BW_EXACT_ROWS);
    assert_true(bw_choose_approximate(&a, &recall));
    assert_true(recall == BW_RECALL_DEFAULT);
    a = ask(false, 0, 0.95f, 10);
    assert_true(bw_choose_approximate(&a, &recall));
    assert_true(recall == 0.95f);
    a = ask(false, 64, 0, 10);
    assert_true(bw_choose_approximate(&a, &recall));
    assert_true(recall == 0);
    a = ask(false, 0, 1.0f, UINT64_MAX);
    assert_false(bw_choose_approximate(&a, &recall));
    a = ask(true, 64, 0.9f, UINT64_MAX);
    assert_false(bw_choose_approximate(&a, &recall));
}

static bw_choose_block block(size_t rows, size_t permitted)
{
    return (bw_choose_block){.rows = rows,
                             .permitted = permitted,
                             .k = 10,
                             .dim = 384,
                             .dtype = BW_DTYPE_F32,
                             .codes = true,
                             .hops = 100,
                             .hop_lines = 35};
}

static void test_choose__few_rows_are_scanned_many_walked(void **state)
{
    (void)state;
    bw_choose_block b = block(8, 8);
    b.codes = false;
    b.hops = 0;
    assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_SCAN);
    b = block(300000, 60);
    assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_SCAN);
    b = block(64, 64); /* what the first block scans, a later one reads by its codes */
    b.hops = 0;
    assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_SCAN);
    b.chained = true;
    assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_CODES);
    b.chained = false; /* one of a pass over many blocks: its query has its codes already */
    b.whole = 20000;
    for (b.rows = b.permitted = 8; b.rows <= 64; b.rows = ++b.permitted)
        assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_CODES);
    b.whole = b.rows = b.permitted = 200; /* few in all: more is lost in waiting than won */
    assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_SCAN);
    b.whole = b.rows = b.permitted = 2000;
    assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_CODES);
    b.k = 20000; /* all of them come back */
    assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_SCAN);
    b = block(300000, 3000); /* one in a hundred */
    assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_CODES);
    b = block(300000, 300000);
    assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_GRAPH);
    b.hops = 0; /* exact is asked for, or no graph serves */
    assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_CODES);
    b.codes = false; /* Manhattan */
    assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_SCAN);
    b.on_file = true;
    assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_SCAN);
}

/* Rows go to file when memory is short: that decides between scan and codes alone. */
static void test_choose__a_graph_does_not_depend_on_the_place_of_rows(void **state)
{
    (void)state;
    for (int codes = 0; codes < 2; codes++)
        for (size_t rows = 1000; rows <= 4000000; rows *= 4)
            for (size_t n = 1; n <= rows; n += 1 + n / 16) {
                bw_choose_block b = block(rows, n);
                b.codes = codes;
                bw_choice here = bw_choose(&b, NULL);
                b.on_file = true;
                bw_choice there = bw_choose(&b, NULL);
                assert_int_equal(here == BW_CHOICE_GRAPH, there == BW_CHOICE_GRAPH);
            }
}

static void test_choose__never_turns_back_as_rows_are_added(void **state)
{
    (void)state;
    for (int t = 0; t < BW_NDTYPES; t++)
        for (size_t rows = 1000; rows <= 4000000; rows *= 4) {
            uint64_t before = 0, cost;
            bw_choice last = BW_CHOICE_SCAN;
            for (size_t n = 1; n <= rows; n += 1 + n / 16) {
                bw_choose_block b = block(rows, n);
                b.dtype = (bw_dtype)t;
                b.whole = rows % 16000 == 0 ? 2 * rows : 0; /* of a pass, or alone */
                bw_choice c = bw_choose(&b, &cost);
                assert_true(c >= last);
                assert_true(c == BW_CHOICE_GRAPH || cost >= before);
                last = c;
                before = cost;
            }
        }
}

static void test_choose__effort_grows_without_a_step(void **state)
{
    (void)state;
    assert_true(bw_choose_effort(0.90f, 20000, 10) < bw_choose_effort(0.99f, 20000, 10));
    assert_true(bw_choose_effort(0.95f, 20000, 10) <
                bw_choose_effort(0.95f, 2000000, 10));
    uint32_t last = bw_choose_effort(0.95f, 20000, 1);
    for (size_t k = 2; k < 2000; k++) {
        uint32_t e = bw_choose_effort(0.95f, 20000, k);
        assert_true(e >= last && e - last <= 2);
        last = e;
    }
    assert_int_equal(bw_choose_effort(0.95f, SIZE_MAX, SIZE_MAX / 4), UINT32_MAX);
}

/* What a limit adds to a walk counts: a large one over few rows is scanned. */
static void test_choose__many_wanted_of_few_are_scanned(void **state)
{
    (void)state;
    assert_int_equal(bw_choose_hops(24, 10), 24);
    assert_int_equal(bw_choose_hops(24, 1), 24);
    assert_int_equal(bw_choose_hops(24, 500), 24 + 735);
    assert_int_equal(bw_choose_hops(UINT32_MAX, 500), UINT32_MAX);
    assert_int_equal(bw_choose_hops(1, SIZE_MAX), UINT32_MAX);
    int last = BW_CHOICE_GRAPH;
    for (size_t k = 10; k <= 1000; k += 10) {
        bw_choose_block b = block(20000, 20000);
        b.k = k;
        b.hops = bw_choose_hops(24, k);
        const int c = bw_choose(&b, NULL);
        assert_true(c <= last); /* once scanned, always scanned */
        if (k <= 500)
            assert_int_equal(c, BW_CHOICE_GRAPH);
        if (k >= 700)
            assert_int_equal(c, BW_CHOICE_CODES);
        last = c;
        b = block(1000000, 1000000);
        b.k = k;
        b.hops = bw_choose_hops(48, k);
        assert_int_equal(bw_choose(&b, NULL), BW_CHOICE_GRAPH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choose__is_exact_below_50000_rows_unless_less_is_asked),
        cmocka_unit_test(test_choose__few_rows_are_scanned_many_walked),
        cmocka_unit_test(test_choose__a_graph_does_not_depend_on_the_place_of_rows),
        cmocka_unit_test(test_choose__never_turns_back_as_rows_are_added),
        cmocka_unit_test(test_choose__effort_grows_without_a_step),
        cmocka_unit_test(test_choose__many_wanted_of_few_are_scanned),
    };
    return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
