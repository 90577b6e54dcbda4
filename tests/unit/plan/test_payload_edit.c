/* Payload edits: every case was asked of Qdrant's engine (set_payload, delete_payload);
 * besides, what is not touched keeps its bytes. */
#include "engine/base/json.h"
#include "engine/plan/select.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

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

static void merged(bw_ctx *ctx, const char *payload, const char *patch, const char *key,
                   const char *want)
{
    bw_str out;
    bw_status st =
        bw_payload_merge(ctx, bw_str_c(payload), bw_str_c(patch), bw_str_c(key), &out);
    if (st != BW_OK || !bw_str_eq(out, bw_str_c(want)))
        fail_msg("%s + %s at %s: %.*s", payload, patch, key ? key : "-", (int)out.len,
                 out.ptr);
}

static void removed(bw_ctx *ctx, const char *payload, const char *path,
                    const char *want)
{
    bw_str out, p = bw_str_c(path);
    bw_status st = bw_payload_remove(ctx, bw_str_c(payload), &p, 1, &out);
    if (st != BW_OK || !bw_str_eq(out, bw_str_c(want)))
        fail_msg("%s - %s: %.*s", payload, path, (int)out.len, out.ptr);
}

static void test_merge__top_level_replaces_adds_and_drops_nulls(void **state)
{
    merged(*state, "{\"a\":1,\"b\":{\"c\":1}}", "{\"a\":null,\"d\":2}", NULL,
           "{\"b\":{\"c\":1},\"d\":2}");
    merged(*state, "{\"b\":{\"c\":1,\"d\":2}}", "{\"b\":{\"c\":3}}", NULL,
           "{\"b\":{\"c\":3}}");
    merged(*state, NULL, "{\"a\":1}", NULL, "{\"a\":1}");
    merged(*state, "{}", "{}", NULL, "{}");
    merged(*state, "{\"x\":1}", "{\"x\":null}", NULL, "{}");
    merged(*state, "{\"a\":1,\"b\":2,\"c\":3}", "{\"c\":null,\"b\":{\"n\":null}}", NULL,
           "{\"a\":1,\"b\":{\"n\":null}}");
}

static void test_merge__untouched_bytes_stay(void **state)
{
    merged(*state,
           "{ \"a\" : 1.50e1 ,\n \"b\":18446744073709551615, \"\\u0063\" : [ 1 ] }",
           "{\"b\":0}", NULL, "{ \"a\" : 1.50e1 ,\n \"b\":0, \"\\u0063\" : [ 1 ] }");
    /* a key spelled with escapes is the same key */
    merged(*state, "{\"\\u0063\":1}", "{\"c\":2}", NULL, "{\"\\u0063\":2}");
    merged(*state, "{\"c\":1}", "{\"\\u0063\":2}", NULL, "{\"c\":2}");
}

static void test_merge__under_a_key(void **state)
{
    merged(*state, "{\"a\":{\"x\":1,\"z\":9}}", "{\"x\":2,\"y\":3}", "a",
           "{\"a\":{\"x\":2,\"z\":9,\"y\":3}}");
    merged(*state, "{\"a\":{\"x\":1}}", "{\"y\":3}", "a.b",
           "{\"a\":{\"x\":1,\"b\":{\"y\":3}}}");
    merged(*state, "{\"a\":5}", "{\"y\":3}", "a", "{\"a\":{\"y\":3}}");
    merged(*state, "{\"a\":5}", "{\"y\":3}", "a.b", "{\"a\":{\"b\":{\"y\":3}}}");
    merged(*state, "{}", "{\"y\":3}", "a.b.c", "{\"a\":{\"b\":{\"c\":{\"y\":3}}}}");
    merged(*state, "{\"a\":[{\"x\":1},{\"x\":2},3]}", "{\"y\":3}", "a[]",
           "{\"a\":[{\"x\":1,\"y\":3},{\"x\":2,\"y\":3},{\"y\":3}]}");
    merged(*state, "{\"a\":[{\"x\":1},{\"x\":2},3]}", "{\"y\":3}", "a[0]",
           "{\"a\":[{\"x\":1,\"y\":3},{\"x\":2},3]}");
    merged(*state, "{\"a\":[{\"x\":1}]}", "{\"y\":3}", "a[5]", "{\"a\":[{\"x\":1}]}");
    merged(*state, "{\"a\":[{\"x\":1}]}", "{\"y\":3}", "a[].x",
           "{\"a\":[{\"x\":{\"y\":3}}]}");
    merged(*state, "{\"a\":5}", "{\"y\":3}", "a[]", "{\"a\":[]}");
    merged(*state, "{\"a\":5}", "{\"y\":3}", "a[0].b", "{\"a\":[]}");
    merged(*state, "{}", "{\"y\":3}", "a[0]", "{\"a\":[]}");
    merged(*state, "{\"a\":{\"x\":1}}", "{\"x\":null}", "a", "{\"a\":{}}");
    merged(*state, "{\"a\":[{\"x\":1}]}", "{\"y\":3}", "a.b",
           "{\"a\":{\"b\":{\"y\":3}}}");
    merged(*state, "{\"a\":[1]}", "{\"y\":3}", "a", "{\"a\":{\"y\":3}}");
    merged(*state, "{\"a\":[[{\"x\":1}]]}", "{\"y\":3}", "a[0][0]",
           "{\"a\":[[{\"x\":1,\"y\":3}]]}");
    merged(*state, "{\"a\":[1,2]}", "{\"y\":3}", "a[1]", "{\"a\":[1,{\"y\":3}]}");
    merged(*state, "{\"a\":[{\"x\":1},{\"x\":2},3]}", "{\"y\":3}", "a[].q.r",
           "{\"a\":[{\"x\":1,\"q\":{\"r\":{\"y\":3}}},{\"x\":2,\"q\":{\"r\":{\"y\":3}}}"
           ",{\"q\":{\"r\":{\"y\":3}}}]}");
    /* bug-report 32: a key with dots, quoted, is no path */
    merged(*state, "{\"tb\":1}", "{\"v\":2}", "\"tb_9.6.11\"",
           "{\"tb\":1,\"tb_9.6.11\":{\"v\":2}}");
}

static void test_merge__refuses_what_is_no_object_or_path(void **state)
{
    bw_str out;
    assert_int_equal(
        bw_payload_merge(*state, BW_STR("{}"), BW_STR("[1]"), bw_str_c(NULL), &out),
        BW_EINVALID);
    assert_int_equal(
        bw_payload_merge(*state, BW_STR("{}"), BW_STR("{}"), BW_STR("a..b"), &out),
        BW_EINVALID);
}

/* What an edit stores must be readable again: depth is counted as the reader counts. */
static void test_merge__keeps_to_the_readers_depth(void **state)
{
    bw_ctx *ctx = *state;
    bw_str out;
    bw_buf patch = {0};
    for (int depth = 62; depth < 65; depth++) {
        patch.len = 0;
        bw_buf_puts(&patch, "{\"x\":");
        for (int i = 1; i < depth; i++)
            bw_buf_putc(&patch, '[');
        for (int i = 1; i < depth; i++)
            bw_buf_putc(&patch, ']');
        bw_buf_putc(&patch, '}');
        bw_status st =
            bw_payload_merge(ctx, BW_STR("{}"), bw_buf_view(&patch), BW_STR("a"), &out);
        assert_int_equal(st, depth < 64 ? BW_OK : BW_EINVALID);
        bw_json *root;
        if (st == BW_OK)
            assert_int_equal(bw_json_parse(ctx, out, BW_JSON_REQUEST, &root), BW_OK);
    }
    bw_buf_clear(&patch);
}

static void test_remove__drops_the_last_member_of_the_path(void **state)
{
    removed(*state, "{\"a\":1,\"b\":2}", "a", "{\"b\":2}");
    removed(*state, "{\"a\":1,\"b\":2}", "b", "{\"a\":1}");
    removed(*state, "{\"a\":1,\"b\":2,\"c\":3}", "b", "{\"a\":1,\"c\":3}");
    removed(*state, "{\"a\":{\"b\":1,\"c\":2}}", "a.b", "{\"a\":{\"c\":2}}");
    removed(*state, "{\"a\":{\"b\":1}}", "a.b", "{\"a\":{}}");
    removed(*state, "{\"a\":[{\"b\":1,\"c\":2},{\"b\":3},4]}", "a[].b",
            "{\"a\":[{\"c\":2},{},4]}");
    removed(*state, "{\"a\":[1,2,3]}", "a[1]", "{\"a\":[1,2,3]}");
    removed(*state, "{\"a\":[1,2,3]}", "a[]", "{\"a\":[]}");
    removed(*state, "{\"a\":[{\"b\":1}]}", "a.b", "{\"a\":[{\"b\":1}]}");
    removed(*state, "{\"a\":[{\"b\":1}]}", "a[0].b", "{\"a\":[{}]}");
    removed(*state, "{\"a\":1}", "a[]", "{\"a\":1}");
    removed(*state, "{\"a\":[[1,2],[3]]}", "a[][0]", "{\"a\":[[1,2],[3]]}");
    removed(*state, "{\"a\":[[1,2],[3]]}", "a[0][]", "{\"a\":[[],[3]]}");
    removed(*state, "{\"a\":1}", "zz", "{\"a\":1}");
    removed(*state, "{\"a\":1}", "a.b.c", "{\"a\":1}");
    removed(*state, "{\"a.b\":1,\"a\":{\"b\":2}}", "\"a.b\"", "{\"a\":{\"b\":2}}");
}

static void test_remove__of_nothing_is_nothing(void **state)
{
    bw_str out, p = BW_STR("a");
    assert_int_equal(bw_payload_remove(*state, bw_str_c(NULL), &p, 1, &out), BW_OK);
    assert_null(out.ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_merge__keeps_to_the_readers_depth, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_merge__top_level_replaces_adds_and_drops_nulls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_merge__untouched_bytes_stay, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_merge__under_a_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_merge__refuses_what_is_no_object_or_path,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_remove__drops_the_last_member_of_the_path,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_remove__of_nothing_is_nothing, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
