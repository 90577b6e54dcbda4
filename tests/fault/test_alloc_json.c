/* Out of memory at every allocation of reading and writing JSON: the result is right or
 * BW_ENOMEM, and nothing stays behind. */
#include <engine/base/json.h>

#include <setjmp.h>
#include <cmocka.h>
#include "failing_alloc.h"

static const char text[] =
    "{\"points\":[{\"id\":1,\"vector\":[0.5,0.25,1e-3],\"payload\":{\"a\\u00e9\":\"x\\ny\",\"deep\":[[[{\"k\":null}]]]}},"
    "{\"id\":\"550e8400-e29b-41d4-a716-446655440000\",\"vector\":{\"\":[1,2,3]}}],"
    "\"k00\":0,\"k01\":0,\"k02\":0,\"k03\":0,\"k04\":0,\"k05\":0,\"k06\":0,\"k07\":0,\"k08\":0,\"k09\":0,\"k10\":0,\"k11\":0,"
    "\"k12\":0,\"k13\":0,\"k14\":0,\"k15\":0,\"k16\":0,\"k17\":0,\"k18\":0,\"k19\":0,\"k20\":0,\"k21\":0,\"k22\":0,\"k23\":0,\"k24\":0}";

static void read_json(void *arg)
{
    (void)arg;
    long before = failing_live;
    bw_ctx *ctx = bw_ctx_new(0);
    if (ctx) {
        bw_json *v;
        const bw_json *e;
        bw_status st = bw_json_parse(ctx, BW_STR(text), BW_JSON_REQUEST, &v);
        if (st == BW_OK) {
            const bw_json *p = bw_json_get(v, "points");
            st = bw_json_elements(ctx, bw_json_get(p->child, "vector"), &e);
            if (st == BW_OK) {
                const char *at = bw_json_pointer(ctx, e->next);
                if (at)
                    assert_string_equal(at, "/points/0/vector/1");
                else
                    st = BW_ENOMEM;
            }
        }
        assert_true(st == (failing_hit ? BW_ENOMEM : BW_OK));
        if (st == BW_ENOMEM)
            assert_string_equal(bw_ctx_message(ctx), "out of memory");
    }
    bw_ctx_free(ctx);
    assert_int_equal(failing_live, before);
}

static void read_bad_json(void *arg)
{
    (void)arg;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_json *v;
    if (ctx) {
        bw_status st = bw_json_parse(ctx, BW_STR("{\"a\":[{\"b\":[1,true,{\"c\":tru}]}]}"), BW_JSON_REQUEST, &v);
        assert_true(st == (failing_hit ? BW_ENOMEM : BW_EINVALID));
    }
    bw_ctx_free(ctx);
}

static void write_json(void *arg)
{
    (void)arg;
    bw_buf b = {0};
    bw_buf_putc(&b, '[');
    for (int i = 0; i < 300; i++) {
        bw_json_sep(&b);
        bw_json_put_str(&b, BW_STR("some text \x01 with an escape"));
        bw_json_sep(&b);
        bw_json_put_f32(&b, (float)i / 7);
        bw_buf_printf(&b, ",%d", i);
    }
    bw_buf_putc(&b, ']');
    assert_int_equal(b.failed, failing_hit);
    bw_buf_clear(&b);
}

static void test_json__survives_every_failed_allocation(void **state)
{
    (void)state;
    assert_true(failing_sweep(read_json, NULL, 1000) > 3);
    assert_true(failing_sweep(read_bad_json, NULL, 1000) > 1);
    assert_true(failing_sweep(write_json, NULL, 1000) > 3);
    assert_int_equal(failing_live, 0);
}

int main(void)
{
    failing_set();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_json__survives_every_failed_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
