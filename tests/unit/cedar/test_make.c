/* Entities and contexts made without JSON are what their JSON would have been, and are
 * held against the schema as strictly. */
#include "cedar_fixture.h"
#include <policies/cedar/schema.h>

static const char schema_text[] =
    "entity G; entity H; entity C in [G]; entity E enum [\"a\", \"b\"];"
    "entity U in [G] = { b: Bool, l: Long, d: datetime, s: String, ss: Set<String>,"
    "  c: C, cs: Set<C>, e: E, o?: Long };"
    "action read appliesTo { principal: U, resource: U,"
    "  context: { c: C, now?: datetime, s: Set<String> } };";

static const bw_str one = {"x\0y", 3}, c1 = {"c1", 2}, ea = {"a", 1},
                    three[] = {{"b", 1}, {"a", 1}, {"b", 1}};

#define FIELDS(o_)                                                               \
    {                                                                            \
        {BW_STR("s"), BW_CEDAR_FIELD_STRING, 0, {NULL, 0}, &one, 1},             \
        {BW_STR("cs"), BW_CEDAR_FIELD_ENTITIES, 0, BW_STR("C"), three, 3},       \
        {BW_STR("b"), BW_CEDAR_FIELD_BOOL, 1, {NULL, 0}, NULL, 0},               \
        {BW_STR("ss"), BW_CEDAR_FIELD_STRINGS, 0, {NULL, 0}, three, 3},          \
        {BW_STR("l"), BW_CEDAR_FIELD_LONG, -5, {NULL, 0}, NULL, 0},              \
        {BW_STR("c"), BW_CEDAR_FIELD_ENTITY, 0, BW_STR("C"), &c1, 1},            \
        {BW_STR("d"), BW_CEDAR_FIELD_DATETIME, 86400000, {NULL, 0}, NULL, 0},    \
        {BW_STR("e"), BW_CEDAR_FIELD_ENTITY, 0, BW_STR("E"), &ea, 1},            \
        {BW_STR(o_), BW_CEDAR_FIELD_LONG, 1, {NULL, 0}, NULL, 0},                \
    }

static bw_cedar_entity user_of(const bw_cedar_field *fields, size_t n)
{
    return (bw_cedar_entity){.uid = uid("U", "u"),
                             .fields = fields,
                             .nfields = n,
                             .parent_type = BW_STR("G"),
                             .parents = three,
                             .nparents = 3};
}

static const bw_cedar__object *get(const bw_cedar_entities *e, const char *type,
                                   const char *id)
{
    bw_cedar__uid u = bw_cedar__uid_make(bw_str_c(type), bw_str_c(id));
    return bw_cedar__store_get(e, &u);
}

static void same_store(const bw_cedar_entities *made, const bw_cedar_entities *read)
{
    uint64_t cost = 0;
    assert_int_equal(made->n, read->n);
    for (uint32_t i = 0; i < read->n; i++) {
        const bw_cedar__object *r = &read->objects[i],
                               *m = bw_cedar__store_get(made, &r->uid);
        assert_non_null(m);
        assert_int_equal(m->defined, r->defined);
        assert_int_equal(bw_cedar__cmp(&m->attrs, &r->attrs, &cost), 0);
        assert_int_equal(m->tags.n, 0);
        assert_true(m->nancestors == r->nancestors && m->nparents == r->nparents);
        for (uint32_t k = 0; k < r->nancestors; k++) {
            const bw_cedar__object *up =
                bw_cedar__store_get(made, &read->objects[r->ancestors[k]].uid);
            assert_true(up && bw_cedar__object_below(m, (uint32_t)(up - made->objects)));
        }
    }
}

static void test_entities_make__gives_what_the_json_gives(void **state)
{
    world *w = *state;
    w->schema = schema_of(w->ctx, schema_text);
    bw_cedar_field fields[] = FIELDS("o");
    bw_cedar_entity list[] = {user_of(fields, 9), {.uid = uid("C", "c1")}};
    bw_cedar_entity leaf = {.uid = uid("C", "other")};
    bw_cedar_entities *with, *made, *read = entities_of(w->ctx, w->schema,
        "[{\"uid\":{\"type\":\"U\",\"id\":\"u\"},\"attrs\":{\"b\":true,\"l\":-5,\"d\":\"1970-01-02\",\"s\":\"x\\u0000y\",\"ss\":[\"a\",\"b\"],"
        "\"c\":{\"type\":\"C\",\"id\":\"c1\"},\"cs\":[{\"type\":\"C\",\"id\":\"a\"},{\"type\":\"C\",\"id\":\"b\"}],\"e\":{\"type\":\"E\",\"id\":\"a\"},\"o\":1},"
        "\"parents\":[{\"type\":\"G\",\"id\":\"a\"},{\"type\":\"G\",\"id\":\"b\"}]},"
        "{\"uid\":{\"type\":\"C\",\"id\":\"c1\"},\"attrs\":{},\"parents\":[]},"
        "{\"uid\":{\"type\":\"C\",\"id\":\"other\"},\"attrs\":{},\"parents\":[]}]");
    void *block = bw_alloc(bw_cedar_entities_bytes(&leaf, 1, NULL));
    assert_int_equal(bw_cedar_entities_make(w->ctx, w->schema, &leaf, 1, NULL, block, &with), BW_OK);
    assert_ptr_equal(block, with);
    assert_int_equal(bw_cedar_entities_make(w->ctx, w->schema, list, 2, with, NULL, &made), BW_OK);
    same_store(made, read);
    assert_null(get(made, "C", "b")); /* named, not defined, no parent */
    bw_cedar_entities_free(read);
    bw_cedar_entities_free(made); /* does nothing */
    bw_free(block);
}

static void test_entities_make__refuses_what_does_not_fit(void **state)
{
    world *w = *state;
    w->schema = schema_of(w->ctx, schema_text);
    bw_cedar_entities *out;
    bw_cedar_field fields[] = FIELDS("o"), unknown[] = FIELDS("oo");
    bw_cedar_entity good = user_of(fields, 9), e[10];
    bw_cedar_field bad_type[9], bad_id[9];
    memcpy(bad_type, fields, sizeof fields);
    memcpy(bad_id, fields, sizeof fields);
    bad_type[5].type = BW_STR("G");
    bad_id[7].texts = &c1; /* no such id of the enum */
    for (size_t i = 0; i < 10; i++)
        e[i] = good;
    e[0].nfields = 7;          /* required ones missing */
    e[1].fields = unknown;     /* one that nobody declares */
    e[2].fields = bad_type;
    e[3].fields = bad_id;
    e[4].parent_type = BW_STR("H");
    e[5].uid.type = BW_STR("Nothing");
    e[6] = (bw_cedar_entity){.uid = uid("E", "c")};
    e[7].parent_type = BW_STR("E");
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(bw_cedar_entities_make(w->ctx, w->schema, &e[i], 1, NULL, NULL, &out), BW_EINVALID);
    bw_cedar_entity twice[] = {good, good};
    assert_int_equal(bw_cedar_entities_make(w->ctx, w->schema, twice, 2, NULL, NULL, &out), BW_EINVALID);
    good.nfields = 8; /* an optional one may be missing */
    assert_int_equal(bw_cedar_entities_make(w->ctx, w->schema, &good, 1, NULL, NULL, &out), BW_OK);
}

static void test_context_make__is_held_against_the_action(void **state)
{
    world *w = *state;
    w->schema = schema_of(w->ctx, schema_text);
    bw_cedar_policies *p = policies_of(w->ctx,
        "permit(principal, action, resource) when { context.c == C::\"c1\" && context.s.contains(\"a\") "
        "&& (!(context has now) || context.now < datetime(\"1970-01-03\")) };");
    bw_cedar_field fields[] = {{BW_STR("s"), BW_CEDAR_FIELD_STRINGS, 0, {NULL, 0}, three, 3},
                               {BW_STR("c"), BW_CEDAR_FIELD_ENTITY, 0, BW_STR("C"), &c1, 1},
                               {BW_STR("now"), BW_CEDAR_FIELD_DATETIME, 86400000, {NULL, 0}, NULL, 0}};
    bw_cedar_request q = {.principal = uid("U", "u"), .action = uid("Action", "read"), .resource = uid("U", "v")};
    bw_cedar_answer a;
    for (size_t n = 0; n <= 3; n++) {
        assert_int_equal(bw_cedar_context_make(w->ctx, fields, n, &q.context_value), BW_OK);
        bw_status st = bw_cedar_authorize(w->ctx, p, NULL, w->schema, &q, &a);
        assert_int_equal(st, n < 2 ? BW_EINVALID : BW_OK);
        assert_true(st != BW_OK || a.allow);
    }
    fields[2].number *= 2;
    assert_int_equal(bw_cedar_context_make(w->ctx, fields, 3, &q.context_value), BW_OK);
    assert_int_equal(bw_cedar_authorize(w->ctx, p, NULL, w->schema, &q, &a), BW_OK);
    assert_false(a.allow);
    bw_cedar_policies_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_entities_make__gives_what_the_json_gives),
        world_test(test_entities_make__refuses_what_does_not_fit),
        world_test(test_context_make__is_held_against_the_action),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
