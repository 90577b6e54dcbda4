/* Policy text, and the law of residuals: with the resource unknown, then finished, a
 * request is answered as directly; for several resources, of stores that conform to the
 * schema and of others. Nothing may crash. */
#include <policies/cedar/cedar.h>

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(c)                                                                 \
    do {                                                                         \
        if (!(c)) {                                                              \
            fprintf(stderr, "fuzz_cedar_partial: %s (line %d)\n", #c, __LINE__); \
            abort();                                                             \
        }                                                                        \
    } while (0)

enum { TYPES = 2, RESOURCES = 2 };

static bw_ctx *ctx, *world;
static bw_cedar_schema *schema;
static bw_cedar_entities *base, *own[TYPES][RESOURCES];
static bw_json *context;
static const bw_cedar_uid resources[TYPES][RESOURCES] = {
    {{BW_STR("User"), BW_STR("a")}, {BW_STR("User"), BW_STR("b")}},
    {{BW_STR("G"), BW_STR("g")}, {BW_STR("G"), BW_STR("h")}}};

static bw_cedar_entities *store(const char *text)
{
    bw_json *json = NULL;
    bw_cedar_entities *e = NULL;
    CHECK(bw_json_parse(world, bw_str_c(text), BW_JSON_CEDAR, &json) == BW_OK);
    CHECK(bw_cedar_entities_parse(world, json, schema, &e) == BW_OK);
    return e;
}

#define USER(id, attrs, parents)                                       \
    "{\"uid\":{\"type\":\"User\",\"id\":\"" id "\"},\"attrs\":{" attrs \
    "},\"parents\":[" parents "],\"tags\":{\"t\":1}}"
#define G(id)              "{\"type\":\"G\",\"id\":\"" id "\"}"
#define GROUP(id, parents) "{\"uid\":" G(id) ",\"attrs\":{},\"parents\":[" parents "]}"
#define A \
    "\"n\":1,\"s\":\"x\",\"r\":{\"q\":[1,2]},\"u\":{\"type\":\"User\",\"id\":\"b\"}"
#define B "\"n\":-3,\"s\":\"\",\"r\":{},\"o\":true,\"set\":[\"x\",\"y\"]"

static void start(void)
{
    static const char text[] =
        "entity G in [G]; entity User in [G] = { n: Long, s: String, r: { q?: "
        "Set<Long> "
        "}, u?: User, o?: Bool, set?: Set<String> } tags Long;"
        "action x appliesTo { principal: [User], resource: [User, G], context: { n: "
        "Long, s: String, set: Set<Long>, d: decimal, b: Bool } };";
    static const char ctx_text[] =
        "{\"n\":1,\"s\":\"text\",\"set\":[1,2],\"d\":\"1.0\",\"b\":true}";
    ctx = bw_ctx_new((size_t)1 << 28);
    world = bw_ctx_new(0);
    CHECK(ctx && world);
    CHECK(bw_cedar_schema_parse(world, bw_str_c(text), &schema) == BW_OK);
    CHECK(bw_json_parse(world, bw_str_c(ctx_text), BW_JSON_CEDAR, &context) == BW_OK);
    base = store("[" USER("a", A, G("g")) "," GROUP("g", G("h")) "]");
    own[0][0] = store("[" USER("a", A, G("g")) "]");
    own[0][1] = store("[" USER("b", B, G("z")) "]");
    own[1][0] = store("[" GROUP("g", G("z")) "]");
    own[1][1] = store("[" GROUP("h", "") "]");
}

static bool same(const uint32_t *a, size_t na, const uint32_t *b, size_t nb)
{
    return na == nb && (na == 0 || memcmp(a, b, na * sizeof *a) == 0);
}

static void finish(const bw_cedar_policies *p, const bw_cedar_request *q,
                   const bw_cedar_residuals *left, const bw_cedar_entities *beside)
{
    bw_cedar_request direct = *q;
    bw_cedar_answer a, b;
    bool allow;
    direct.extra = beside;
    bw_status st = bw_cedar_authorize(ctx, p, base, schema, &direct, &a);
    bw_status finished = bw_cedar_residuals_finish(ctx, left, beside, &q->resource, &b);
    if (st != BW_OK) { /* past a limit, which folding may have kept under */
        CHECK(st == BW_EINVALID);
        return;
    }
    CHECK(finished == BW_OK);
    CHECK(a.allow == b.allow && a.forbid_errored == b.forbid_errored);
    CHECK(same(a.reasons, a.nreasons, b.reasons, b.nreasons));
    CHECK(same(a.errors, a.nerrors, b.errors, b.nerrors));
    CHECK(bw_cedar_residuals_allow(ctx, left, beside, &q->resource, &allow) == BW_OK);
    CHECK(allow == (a.allow && !a.forbid_errored));
}

static void ask(const bw_cedar_policies *p, int type, bool conform)
{
    const bw_cedar_partial_options o = {.resources_conform = conform};
    bw_cedar_residuals *left = NULL;
    bw_cedar_request q = {.principal = {BW_STR("User"), BW_STR("a")},
                          .action = {BW_STR("Action"), BW_STR("x")},
                          .resource = {resources[type][0].type, BW_STR("")},
                          .context = context};
    bw_status st = bw_cedar_partial(ctx, p, base, schema, &q, &o, &left);
    CHECK(st == BW_OK || st == BW_EINVALID);
    for (int i = 0; i < RESOURCES && left; i++) {
        q.resource = resources[type][i];
        finish(p, &q, left, own[type][i]);
        if (!conform)
            finish(p, &q, left, NULL);
    }
    bw_cedar_residuals_free(left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!ctx)
        start();
    bw_ctx_reset(ctx);
    bw_cedar_policies *p = NULL;
    bw_status st = bw_cedar_policies_parse(ctx, (bw_str){(const char *)data, size}, &p);
    CHECK(st == BW_OK || st == BW_EINVALID);
    for (int type = 0; type < TYPES && p; type++)
        for (int on = 0; on < 2; on++)
            ask(p, type, on);
    bw_cedar_policies_free(p);
    return 0;
}
