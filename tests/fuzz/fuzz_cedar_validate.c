/* Validation of any set: against a fixed schema, and against one that comes with it
 * (after the first '#'). Never a crash; the same verdict twice; what a lower level
 * takes a higher one takes too. And the theorem behind it all: a set that validates at
 * some level makes no error on requests and entities that conform, but for overflows.
 */
#include <policies/cedar/ast.h>

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(c)                                                                  \
    do {                                                                          \
        if (!(c)) {                                                               \
            fprintf(stderr, "fuzz_cedar_validate: %s (line %d)\n", #c, __LINE__); \
            abort();                                                              \
        }                                                                         \
    } while (0)

static const char schema_text[] =
    "entity G in [G]; entity E enum [\"x\", \"y\"];"
    "entity U in [G] = { n: Long, s?: String, on: Bool, u: U, e: E, r: { x: Long, y?: "
    "Set<String> }, f: Set<U>, d?: datetime } tags Set<String>;"
    "entity D in [D, G] = { o: U, ip: ipaddr, c: decimal, t: duration, l?: { a?: { b: "
    "U "
    "} } } tags Long;"
    "action all; action x in [all] appliesTo { principal: [U, G], resource: [U, D], "
    "context: { n: Long, s?: String, w: U, b: Bool } };"
    "action y in [all] appliesTo { principal: U, resource: D };";
static const char store_text[] =
    "[{\"uid\":{\"type\":\"U\",\"id\":\"a\"},\"attrs\":{\"n\":1,\"s\":\"x\",\"on\":"
    "true,"
    "\"u\":{\"type\":\"U\",\"id\":\"b\"},\"e\":{\"type\":\"E\",\"id\":\"x\"},\"r\":{"
    "\"x\":1,\"y\":[\"q\"]},\"f\":[{\"type\":\"U\",\"id\":\"b\"}],\"d\":\"2024-01-01\"}"
    ","
    "\"parents\":[{\"type\":\"G\",\"id\":\"g\"}],\"tags\":{\"t\":[\"v\"]}},"
    "{\"uid\":{\"type\":\"U\",\"id\":\"b\"},\"attrs\":{\"n\":-5,\"on\":false,\"u\":{"
    "\"type\":\"U\",\"id\":\"a\"},\"e\":{\"type\":\"E\",\"id\":\"y\"},\"r\":{\"x\":0},"
    "\"f\":[]},\"parents\":[]},"
    "{\"uid\":{\"type\":\"G\",\"id\":\"g\"},\"attrs\":{},\"parents\":[]},"
    "{\"uid\":{\"type\":\"E\",\"id\":\"x\"},\"attrs\":{},\"parents\":[]},"
    "{\"uid\":{\"type\":\"E\",\"id\":\"y\"},\"attrs\":{},\"parents\":[]},"
    "{\"uid\":{\"type\":\"D\",\"id\":\"d\"},\"attrs\":{\"o\":{\"type\":\"U\",\"id\":"
    "\"a\"},\"ip\":\"10.0.0.1\",\"c\":\"1.5\",\"t\":\"1h\",\"l\":{\"a\":{\"b\":{"
    "\"type\":"
    "\"U\",\"id\":\"b\"}}}},\"parents\":[{\"type\":\"G\",\"id\":\"g\"}],\"tags\":{"
    "\"t\":"
    "1}},"
    "{\"uid\":{\"type\":\"D\",\"id\":\"e\"},\"attrs\":{\"o\":{\"type\":\"U\",\"id\":"
    "\"b\"},\"ip\":\"::1\",\"c\":\"0.0\",\"t\":\"-1h\",\"l\":{}},\"parents\":[]}]";
static const char *const contexts[] = {
    "{\"n\":7,\"s\":\"t\",\"w\":{\"type\":\"U\",\"id\":\"a\"},\"b\":true}",
    "{\"n\":0,\"w\":{\"type\":\"U\",\"id\":\"b\"},\"b\":false}", "{}"};

static bw_ctx *ctx, *world;
static bw_cedar_schema *schema;
static bw_cedar_entities *entities;
static bw_json *context[3];

static void start(void)
{
    bw_json *json = NULL;
    ctx = bw_ctx_new((size_t)1 << 28);
    world = bw_ctx_new(0);
    CHECK(ctx && world);
    CHECK(bw_cedar_schema_parse(world, BW_STR(schema_text), &schema) == BW_OK);
    CHECK(bw_json_parse(world, BW_STR(store_text), BW_JSON_CEDAR, &json) == BW_OK);
    CHECK(bw_cedar_entities_parse(world, json, schema, &entities) == BW_OK);
    for (int i = 0; i < 3; i++)
        CHECK(bw_json_parse(world, bw_str_c(contexts[i]), BW_JSON_CEDAR, &context[i]) ==
              BW_OK);
}

static bool cannot_overflow(const bw_cedar__expr *e, void *user)
{
    bool *can = user;
    *can |= e->op == BW_CEDAR__NEG || e->op == BW_CEDAR__ADD ||
            e->op == BW_CEDAR__SUB || e->op == BW_CEDAR__MUL ||
            (e->op == BW_CEDAR__CALL &&
             (e->which == BW_CEDAR__FN_OFFSET || e->which == BW_CEDAR__FN_TO_DATE ||
              e->which == BW_CEDAR__FN_DURATION_SINCE));
    return !*can;
}

static void check_sound(const bw_cedar_policies *p)
{
    static const struct {
        const char *type[2], *id[2], *action;
        int context;
    } rows[] = {{{"U", "D"}, {"a", "d"}, "x", 0},
                {{"U", "D"}, {"b", "e"}, "x", 1},
                {{"G", "U"}, {"g", "a"}, "x", 0},
                {{"U", "U"}, {"b", "b"}, "x", 1},
                {{"U", "D"}, {"a", "e"}, "y", 2}};
    bool can = false;
    for (uint32_t i = 0; i < p->n && !can; i++)
        for (uint32_t k = 0; k < p->policies[i].nclauses && !can; k++)
            CHECK(bw_cedar__walk(ctx, p->policies[i].clauses[k].body, cannot_overflow,
                                 &can) == BW_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !can; i++) {
        bw_cedar_request q = {
            .principal = {bw_str_c(rows[i].type[0]), bw_str_c(rows[i].id[0])},
            .action = {BW_STR("Action"), bw_str_c(rows[i].action)},
            .resource = {bw_str_c(rows[i].type[1]), bw_str_c(rows[i].id[1])},
            .context = context[rows[i].context]};
        bw_cedar_answer a;
        bw_status st = bw_cedar_authorize(ctx, p, entities, schema, &q, &a);
        CHECK(st == BW_OK || st == BW_EINVALID);
        CHECK(st != BW_OK || a.nerrors == 0);
    }
}

static bool validate(const bw_cedar_policies *p, const bw_cedar_schema *s, int level,
                     bool *valid)
{
    bw_cedar_validate_options o = {.level = level, .steps_max = 200000};
    bw_cedar_validation v, again;
    bw_status st = bw_cedar_policies_validate(ctx, p, s, &o, &v);
    CHECK(st == bw_cedar_policies_validate(ctx, p, s, &o, &again));
    CHECK(st == BW_OK || st == BW_EINVALID);
    if (st != BW_OK)
        return false;
    CHECK(v.valid == again.valid && v.nfindings == again.nfindings);
    size_t errors = 0;
    for (size_t i = 0; i < v.nfindings; i++) {
        CHECK(bw_cedar_finding_text(ctx, p, &v.findings[i]));
        CHECK(bw_str_eq(v.findings[i].message, again.findings[i].message));
        errors += !v.findings[i].warning;
    }
    CHECK(v.more || v.valid == (errors == 0));
    *valid = v.valid;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!ctx)
        start();
    bw_ctx_reset(ctx);
    const uint8_t *cut = memchr(data, '#', size);
    bw_str text = {(const char *)data, cut ? (size_t)(cut - data) : size};
    bw_cedar_policies *p = NULL;
    bw_cedar_schema *own = NULL;
    bool valid, shallow = false, any = false;
    bw_status st = size && data[0] == '{' ? bw_cedar_policies_parse_json(ctx, text, &p)
                                          : bw_cedar_policies_parse(ctx, text, &p);
    CHECK(st == BW_OK || st == BW_EINVALID);
    if (st != BW_OK)
        return 0;
    if (cut) {
        bw_str rest = {(const char *)cut + 1, size - text.len - 1};
        st = bw_cedar_schema_parse(ctx, rest, &own);
        CHECK(st == BW_OK || st == BW_EINVALID);
        if (st == BW_OK)
            (void)validate(p, own, 2, &valid);
        bw_cedar_schema_free(own);
    }
    if (validate(p, schema, -1, &any) && validate(p, schema, 2, &shallow)) {
        CHECK(any || !shallow);
        if (any && validate(p, schema, 20, &valid)) {
            CHECK(valid || !shallow);
            if (valid)
                check_sound(p);
        }
    }
    bw_cedar_policies_free(p);
    return 0;
}
