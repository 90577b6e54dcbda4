/* Payload indexes against plain reading: every look-up is right, or says that it is not
 * sure. Random rows with values of every kind; the reference is plan's row-by-row test.
 */
#include "engine/partition/payload.h"
#include "engine/partition/payload_index.h"
#include "engine/plan/select.h"
#include "rnd.h"

#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ROWS = 3000 };

static int setup(void **state)
{
    *state = bw_ctx_new(0);
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    bw_ctx_free(*state);
    return 0;
}

static const char *random_value(bw_ctx *ctx, rnd *r, int depth)
{
    switch (rnd_below(r, depth ? 9 : 12)) {
    case 0:
        return "null";
    case 1:
        return rnd_below(r, 2) ? "true" : "false";
    case 2:
    case 3:
        return bw_arena_printf(ctx, "%d", (int)rnd_below(r, 40) - 20);
    case 4:
        return bw_arena_printf(ctx, "%.1f", (double)rnd_below(r, 80) / 2 - 20);
    case 5:
    case 6:
        return bw_arena_printf(ctx, "\"s%zu\"", rnd_below(r, 30));
    case 7:
        return bw_arena_printf(ctx, "\"word%zu Other%zu\"", rnd_below(r, 5),
                               rnd_below(r, 3));
    case 8:
        return bw_arena_printf(ctx, "\"2024-01-%02zu\"", 1 + rnd_below(r, 28));
    case 9:
        return "[]";
    case 10:
        return bw_arena_printf(ctx, "[%s,%s]", random_value(ctx, r, 1),
                               random_value(ctx, r, 1));
    default:
        return "{\"x\":1}";
    }
}

static bw_number integer(int v)
{
    return (bw_number){true, v < 0, v < 0 ? (uint64_t)-v : (uint64_t)v, v};
}

static void random_condition(bw_ctx *ctx, rnd *r, bw_condition *c)
{
    static const bw_condition_kind kinds[] = {
        BW_COND_MATCH_VALUE, BW_COND_MATCH_ANY, BW_COND_MATCH_EXCEPT,
        BW_COND_MATCH_TEXT,  BW_COND_RANGE,     BW_COND_DATE_RANGE,
        BW_COND_IS_EMPTY,    BW_COND_IS_NULL,   BW_COND_VALUES_COUNT};
    *c = (bw_condition){
        .kind = kinds[rnd_below(r, 9)], .key = BW_STR("v"), .negate = rnd_below(r, 2)};
    bw_value *v = bw_arena_calloc(ctx, 3, sizeof *v);
    for (int i = 0; i < 3; i++) {
        int n = (int)rnd_below(r, 40) - 20;
        v[i] =
            (bw_value){.kind = BW_VALUE_INT, .mag = integer(n).mag, .negative = n < 0};
        if (rnd_below(r, 2))
            v[i] = (bw_value){
                .kind = BW_VALUE_STRING,
                .str = bw_str_c(bw_arena_printf(ctx, "s%zu", rnd_below(r, 30)))};
        if (rnd_below(r, 8) == 0)
            v[i] = (bw_value){.kind = BW_VALUE_BOOL, .boolean = rnd_below(r, 2)};
    }
    c->values = v;
    c->nvalues = c->kind == BW_COND_MATCH_VALUE ? 1 : (uint32_t)rnd_below(r, 4);
    c->text = bw_str_c(bw_arena_printf(
        ctx, rnd_below(r, 2) ? "word%zu" : "WORD%zu other1", rnd_below(r, 5)));
    c->range = (bw_range){.has_gte = rnd_below(r, 2),
                          .has_lt = rnd_below(r, 2),
                          .gte = integer(-5),
                          .lt = integer(9)};
    if (c->kind == BW_COND_DATE_RANGE) {
        int64_t ns;
        assert_true(bw_payload_time(BW_STR("2024-01-10"), &ns));
        c->range.gte = (bw_number){true, false, (uint64_t)ns, (double)ns};
        c->range.lt =
            (bw_number){true, false, (uint64_t)ns + 864000000000000u, (double)ns};
    }
}

static size_t check_lookup(bw_ctx *ctx, const bw_payload_index *ix,
                           const char *const *payloads, const bw_condition *c,
                           size_t nrows)
{
    bw_lookup_kind kind;
    bw_bitmap got;
    bw_filter f = {.must = c, .nmust = 1};
    bw_point_id id = {0};
    assert_int_equal(bw_bitmap_arena(ctx, nrows, &got), BW_OK);
    assert_int_equal(bw_payload_index_lookup(ctx, ix, c, &got, &kind), BW_OK);
    for (size_t row = 0; kind != BW_LOOKUP_NONE && row < nrows; row++) {
        bool want, has = bw_bitmap_get(&got, row);
        assert_int_equal(
            bw_filter_matches(ctx, &f, &id, bw_str_c(payloads[row]), NULL, 0, &want),
            BW_OK);
        if (want != has && (kind == BW_LOOKUP_EXACT || want))
            fail_msg("kind %d, condition %d, row %zu: %s", (int)kind, (int)c->kind, row,
                     payloads[row]);
    }
    return kind == BW_LOOKUP_EXACT;
}

static void test_payload_index__answers_what_reading_would(void **state)
{
    static const char *const types[] = {"keyword", "uuid",     "integer", "float",
                                        "bool",    "datetime", "text",    "geo"};
    bw_ctx *ctx = *state;
    rnd r = rnd_start("payload_index", 5);
    const char **payloads = bw_alloc(ROWS * sizeof *payloads);
    for (size_t i = 0; i < ROWS; i++)
        payloads[i] = rnd_below(&r, 12)
                          ? bw_arena_printf(ctx, "{\"v\":%s}", random_value(ctx, &r, 0))
                          : NULL;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        bw_index_spec spec = {BW_STR("v"), bw_str_c(types[t]), {NULL, 0}};
        bw_payload_index *ix;
        size_t exact = 0;
        assert_int_equal(bw_payload_index_new(ctx, &spec, &ix), BW_OK);
        for (uint32_t row = 0; row < ROWS; row++)
            assert_int_equal(
                bw_payload_index_add(ctx, ix, row, bw_str_c(payloads[row])), BW_OK);
        for (int i = 0; i < 40; i++) {
            bw_arena_mark mark = bw_arena_mark_get(ctx);
            bw_condition c;
            random_condition(ctx, &r, &c);
            /* a snapshot may be older than the index: rows beyond it must not come back
             */
            exact += check_lookup(ctx, ix, payloads, &c, i % 2 ? ROWS : ROWS / 3);
            bw_arena_release(ctx, mark);
        }
        assert_true(exact > 0);
        bw_payload_index_free(ix);
    }
    bw_free(payloads);
}

static void test_payload_index__takes_a_range_from_many_runs(void **state)
{
    bw_ctx *ctx = *state;
    bw_index_spec spec = {BW_STR("v"), BW_STR("integer"), {NULL, 0}};
    bw_payload_index *ix;
    bw_lookup_kind kind;
    bw_bitmap got;
    assert_int_equal(bw_payload_index_new(ctx, &spec, &ix), BW_OK);
    for (uint32_t row = 0; row < 5000; row++) {
        bw_arena_mark mark = bw_arena_mark_get(ctx);
        char *p =
            bw_arena_printf(ctx, "{\"v\":%u}", (row * 7919) % 5000); /* a permutation */
        assert_int_equal(bw_payload_index_add(ctx, ix, row, bw_str_c(p)), BW_OK);
        bw_arena_release(ctx, mark);
    }
    for (int lo = 0; lo < 5000; lo += 613) {
        bw_condition c = {.kind = BW_COND_RANGE,
                          .key = BW_STR("v"),
                          .range = {.has_gt = true,
                                    .gt = integer(lo),
                                    .has_lte = true,
                                    .lte = integer(lo + 100)}};
        assert_int_equal(bw_bitmap_arena(ctx, 5000, &got), BW_OK);
        assert_int_equal(bw_payload_index_lookup(ctx, ix, &c, &got, &kind), BW_OK);
        assert_int_equal(kind, BW_LOOKUP_EXACT);
        assert_int_equal(bw_bitmap_count(&got), lo + 100 < 5000 ? 100 : 4999 - lo);
    }
    bw_payload_index_free(ix);
}

static void test_lookup__of_many_values_ends_at_the_deadline(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    bw_index_spec specs[] = {{BW_STR("v"), BW_STR("integer"), {NULL, 0}},
                             {BW_STR("v"), BW_STR("text"), {NULL, 0}}};
    bw_value ones[2] = {{.kind = BW_VALUE_INT, .mag = 1}, {.kind = BW_VALUE_INT, .mag = 1}};
    const bw_condition conds[] = {
        {.kind = BW_COND_MATCH_ANY, .key = BW_STR("v"), .values = ones, .nvalues = 2},
        {.kind = BW_COND_MATCH_EXCEPT, .key = BW_STR("v"), .values = ones, .nvalues = 2},
        {.kind = BW_COND_MATCH_TEXT, .key = BW_STR("v"), .text = BW_STR("one two")}};
    (void)state;
    assert_non_null(ctx);
    for (size_t i = 0; i < sizeof conds / sizeof *conds; i++) {
        const bool text = conds[i].kind == BW_COND_MATCH_TEXT;
        bw_payload_index *ix;
        bw_lookup_kind kind;
        bw_bitmap got;
        bw_ctx_set_deadline(ctx, 0);
        assert_int_equal(bw_payload_index_new(ctx, &specs[text], &ix), BW_OK);
        for (uint32_t row = 0; row < 100; row++)
            assert_int_equal(bw_payload_index_add(ctx, ix, row,
                                                  text ? BW_STR("{\"v\":\"one two\"}")
                                                       : BW_STR("{\"v\":1}")),
                             BW_OK);
        assert_int_equal(bw_bitmap_arena(ctx, 100, &got), BW_OK);
        assert_int_equal(bw_payload_index_lookup(ctx, ix, &conds[i], &got, &kind), BW_OK);
        assert_int_equal(kind, BW_LOOKUP_EXACT);
        bw_ctx_set_deadline(ctx, 1);
        assert_int_equal(bw_payload_index_lookup(ctx, ix, &conds[i], &got, &kind),
                         BW_ETIMEOUT);
        bw_payload_index_free(ix);
    }
    bw_ctx_free(ctx);
}

static void test_payload_index__refuses_what_it_does_not_know(void **state)
{
    bw_payload_index *ix;
    bw_index_spec spec = {BW_STR("v"), BW_STR("magic"), {NULL, 0}};
    assert_int_equal(bw_payload_index_new(*state, &spec, &ix), BW_EINVALID);
    spec = (bw_index_spec){BW_STR("a..b"), BW_STR("keyword"), {NULL, 0}};
    assert_int_equal(bw_payload_index_new(*state, &spec, &ix), BW_EINVALID);
}

/* The n-th allocation fails, for n = 1, 2, 3 … until none does: an error, never a leak.
 */
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

static void test_payload_index__survives_failing_allocations(void **state)
{
    static const bw_allocator failing = {failing_alloc, failing_realloc, free};
    static const char *const types[] = {"keyword", "integer", "text"};
    bw_ctx *ctx = *state;
    for (size_t t = 0; t < 3; t++) {
        bool clean = false;
        for (size_t n = 1; !clean && n < 300; n++) {
            bw_index_spec spec = {BW_STR("v"), bw_str_c(types[t]), {NULL, 0}};
            bw_payload_index *ix = NULL;
            bw_allocator_set(&failing);
            left_ = n;
            bw_status st = bw_payload_index_new(ctx, &spec, &ix);
            for (uint32_t row = 0; st == BW_OK && row < 600; row++)
                st = bw_payload_index_add(ctx, ix, row,
                                          row % 2 ? BW_STR("{\"v\":\"b\\u0061 c\"}")
                                                  : BW_STR("{\"v\":7}"));
            clean = left_ > 0;
            left_ = 0;
            bw_payload_index_free(ix);
            bw_allocator_set(NULL);
            assert_true(st == BW_ENOMEM || (clean && st == BW_OK));
        }
        assert_true(clean);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_payload_index__answers_what_reading_would,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_payload_index__takes_a_range_from_many_runs, setup, teardown),
        cmocka_unit_test(test_lookup__of_many_values_ends_at_the_deadline),
        cmocka_unit_test_setup_teardown(
            test_payload_index__refuses_what_it_does_not_know, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_payload_index__survives_failing_allocations, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
