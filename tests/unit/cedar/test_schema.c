/* Schemas in both syntaxes: what is taken, how names resolve. */
#include "cedar_fixture.h"

#include <policies/cedar/schema.h>

static bool takes(world *w, const char *text)
{
    bw_cedar_schema *s = NULL;
    bw_status st = bw_cedar_schema_parse(w->ctx, bw_str_c(text), &s);
    bw_cedar_schema_free(s);
    assert_true(st == BW_OK || st == BW_EINVALID);
    return st == BW_OK;
}

static void check(world *w, const char *const *good, size_t ngood,
                  const char *const *bad, size_t nbad)
{
    for (size_t i = 0; i < ngood; i++)
        if (!takes(w, good[i]))
            fail_msg("refused: %s: %s", good[i], bw_ctx_message(w->ctx));
    for (size_t i = 0; i < nbad; i++)
        if (takes(w, bad[i]))
            fail_msg("accepted: %s", bad[i]);
}

static void test_schema_text__accepts_the_grammar_and_no_more(void **state)
{
    static const char *const good[] = {
        "",
        "entity A, B in [A, B] = { a: Long, \"odd\"?: Set<Set<String>>, } tags { x: "
        "Bool };",
        "entity A in A {};",
        "entity A enum [\"x\", \"y\"]; entity B in A;",
        "type A = { b: B }; type B = Set<ipaddr>;",
        "@doc(\"x\") @flag namespace N::M { @a entity E = { @b x: Long }; }",
        "entity E = { a: Long, a: String };",
        "action a, \"b c\" in [g, \"h\"]; action g, h;",
        "action a appliesTo { context: {}, resource: A, principal: [A] }; entity A;",
        "action a appliesTo { principal: A, resource: A } attributes {}; entity A;",
        "entity type; entity action;",
        "namespace N { action a in [M::Action::\"b\"]; } namespace M { action b; }",
        "namespace N { entity A in C; } entity C;",
        "namespace N { entity Long; entity A = { x: Long, y: __cedar::Long }; }",
    };
    static const char *const bad[] = {
        "entity A",
        "entity A; entity A;",
        "entity A in B;",
        "entity A in [A,];",
        "entity A enum [];",
        "entity A enum [\"x\",];",
        "entity A enum [\"x\"] tags Long;",
        "entity A = { a: Boolean };",
        "entity A = { if: Long };",
        "entity Action;",
        "entity A = { a: Long b: Long };",
        "type A = A;",
        "type A = Set<B>; type B = { a: A };",
        "type Long = Bool;",
        "type Set = Bool;",
        "action a in a;",
        "action a in b; action b in a;",
        "action a; action a;",
        "action a in c;",
        "action a appliesTo { principal: [], resource: A }; entity A;",
        "action a appliesTo { principal: A }; entity A;",
        "action a appliesTo { principal: A, resource: A, context: Long }; entity A;",
        "action a appliesTo { principal: Z, resource: Z };",
        "namespace N {} namespace N {}",
        "namespace N { entity A; } entity A;",
        "namespace N { action a; } action a;",
        "namespace __cedar {}",
        "@a @a entity A;",
        "entity A = { x: Set<> };",
        "namespace N { entity A = { x: C }; } namespace M { entity C; }",
    };
    check(*state, good, sizeof good / sizeof *good, bad, sizeof bad / sizeof *bad);
}

#define TYPE(t)                                                                      \
    "{\"\":{\"entityTypes\":{\"A\":{\"shape\":{\"type\":\"Record\",\"attributes\":{" \
    "\"x\":" t "}}}},\"actions\":{}}}"
#define ACTION(a) \
    "{\"\":{\"entityTypes\":{\"A\":{}},\"actions\":{\"a\":" a ",\"b\":{}}}}"

static void test_schema_json__refuses_unknown_members(void **state)
{
    static const char *const good[] = {
        "{}",
        "{\"N::M\":{\"entityTypes\":{},\"actions\":{},\"commonTypes\":{},"
        "\"annotations\":{\"a\":\"b\"}}}",
        TYPE("{\"type\":\"Boolean\",\"required\":false}"),
        TYPE("{\"type\":\"Set\",\"element\":{\"type\":\"Bool\"}}"),
        TYPE("{\"type\":\"Entity\",\"name\":\"A\"}"),
        TYPE("{\"type\":\"Extension\",\"name\":\"ipaddr\"}"),
        TYPE("{\"type\":\"EntityOrCommon\",\"name\":\"__cedar::Long\"}"),
        TYPE("{\"type\":\"Record\",\"attributes\":{},\"additionalAttributes\":false}"),
        ACTION("{\"memberOf\":[{\"id\":\"b\"}],\"appliesTo\":{\"principalTypes\":[],"
               "\"resourceTypes\":[]}}"),
        "{\"\":{\"entityTypes\":{\"A\":{\"enum\":[\"x\"]}},\"actions\":{}}}",
        "{\"\":{\"entityTypes\":{\"A\":{\"tags\":{\"type\":\"T\"}}},\"actions\":{},"
        "\"commonTypes\":{\"T\":{\"type\":\"Long\"}}}}",
    };
    static const char *const bad[] = {
        "{\"\":{\"entityTypes\":{}}}",
        "{\"\":{\"entityTypes\":{},\"actions\":{},\"x\":1}}",
        TYPE("{\"type\":\"Long\",\"x\":1}"),
        TYPE("{\"type\":\"Set\"}"),
        TYPE("{\"type\":\"Entity\",\"name\":\"Z\"}"),
        TYPE("{\"type\":\"Extension\",\"name\":\"Long\"}"),
        TYPE("{\"type\":\"A\"}"),
        TYPE("{\"type\":\"Record\",\"attributes\":{},\"additionalAttributes\":true}"),
        TYPE("{\"type\":\"Long\",\"required\":1}"),
        TYPE("{\"type\":\"Long\",\"element\":{\"type\":\"Long\"}}"),
        ACTION("{\"memberOf\":[{\"id\":\"z\"}]}"),
        ACTION("{\"appliesTo\":{\"principalTypes\":[\"A\"]}}"),
        ACTION("{\"x\":1}"),
        "{\"\":{\"entityTypes\":{\"A\":{\"enum\":[]}},\"actions\":{}}}",
        "{\"\":{\"entityTypes\":{\"A\":{\"enum\":[\"x\"],\"tags\":{\"type\":\"Long\"}}}"
        ",\"actions\":{}}}",
        "{\"\":{\"entityTypes\":{},\"actions\":{}},\"\":{\"entityTypes\":{},"
        "\"actions\":{}}}",
        "[]",
        "{",
    };
    check(*state, good, sizeof good / sizeof *good, bad, sizeof bad / sizeof *bad);
}

static void test_schema_names__resolve_from_the_own_namespace_outwards(void **state)
{
    world *w = *state;
    w->schema = schema_of(
        w->ctx,
        "type T = String; entity E; namespace N { entity Long, U; type V = Set<U>;"
        " entity A = { a: Long, b: __cedar::Long, c: T, d: V, e: E, f?: N::U }; }");
    uint32_t i = bw_cedar__schema_type(w->schema, BW_STR("N::A"));
    assert_true(i != BW_CEDAR__NO_TYPE);
    const bw_cedar__type *shape = w->schema->types[i].shape;
    assert_int_equal(shape->nattrs, 6);
    const bw_cedar__type *a = bw_cedar__type_attr(shape, BW_STR("a"))->type;
    assert_int_equal(a->kind, BW_CEDAR__ENTITY);
    assert_true(bw_str_is(a->name, "N::Long"));
    assert_int_equal(bw_cedar__type_attr(shape, BW_STR("b"))->type->kind,
                     BW_CEDAR__LONG);
    assert_int_equal(bw_cedar__type_attr(shape, BW_STR("c"))->type->kind,
                     BW_CEDAR__STRING);
    assert_true(bw_str_is(bw_cedar__type_attr(shape, BW_STR("d"))->type->element->name,
                          "N::U"));
    assert_true(bw_str_is(bw_cedar__type_attr(shape, BW_STR("e"))->type->name, "E"));
    assert_false(bw_cedar__type_attr(shape, BW_STR("f"))->required);
    assert_null(bw_cedar__type_attr(shape, BW_STR("g")));
}

static void test_schema_nesting__is_limited(void **state)
{
    world *w = *state;
    for (int n = 256; n < 100000; n = n == 256 ? 500 : n * 10) {
        bw_buf b = {0};
        bw_buf_puts(&b, "type T = ");
        for (int i = 0; i < n; i++)
            bw_buf_puts(&b, "Set<");
        bw_buf_puts(&b, "Long");
        for (int i = 0; i < n; i++)
            bw_buf_puts(&b, ">");
        bw_buf_puts(&b, ";");
        bw_buf_putc(&b, '\0');
        assert_int_equal(takes(w, b.ptr), n == 256);
        bw_buf_clear(&b);
    }
    bw_buf b = {0}; /* common types that follow one another */
    for (int i = 0; i < 5000; i++)
        bw_buf_printf(&b, "type T%d = T%d;", i, i + 1);
    bw_buf_puts(&b, "type T5000 = Long;");
    bw_buf_putc(&b, '\0');
    assert_false(takes(w, b.ptr));
    bw_buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_schema_text__accepts_the_grammar_and_no_more),
        world_test(test_schema_json__refuses_unknown_members),
        world_test(test_schema_names__resolve_from_the_own_namespace_outwards),
        world_test(test_schema_nesting__is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
