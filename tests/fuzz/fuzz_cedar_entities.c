/* Entities and context from JSON, without and with a schema: never a crash; what the
 * asking twice gives equal decisions. */
#include <policies/cedar/cedar.h>

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(c)                                                                  \
    do {                                                                          \
        if (!(c)) {                                                               \
            fprintf(stderr, "fuzz_cedar_entities: %s (line %d)\n", #c, __LINE__); \
            abort();                                                              \
        }                                                                         \
    } while (0)

static bw_ctx *ctx;
static bw_cedar_schema *schema;
static bw_cedar_policies *policies;

static void start(void)
{
    ctx = bw_ctx_new((size_t)1 << 28);
    CHECK(ctx);
    CHECK(bw_cedar_schema_parse(
              ctx,
              BW_STR("entity G in [G]; entity T enum [\"a\"]; entity User in [G] = { "
                     "n?: Long, d?: decimal, i?: ipaddr,"
                     " t?: datetime, u?: User, e?: T, s?: Set<duration>, r?: { x?: "
                     "Long } } tags String;"
                     " action g; action x in [g] appliesTo { principal: User, "
                     "resource: User, context: { n?: Long } };"),
              &schema) == BW_OK);
    CHECK(bw_cedar_policies_parse(
              ctx,
              BW_STR("permit(principal in G::\"g\", action, resource) when { principal "
                     "== principal };"
                     "permit(principal, action, resource) when { principal.n == 1 || "
                     "principal.s.contains(duration(\"1s\")) };"
                     "forbid(principal, action, resource) when { resource has r.x && "
                     "principal.hasTag(\"t\") };"),
              &policies) == BW_OK);
}

static bw_status answer(const bw_cedar_entities *e, const bw_cedar_schema *s,
                        const bw_json *context, bw_cedar_answer *a)
{
    bw_cedar_request q = {.principal = {BW_STR("User"), BW_STR("a")},
                          .action = {BW_STR("Action"), BW_STR("x")},
                          .resource = {BW_STR("User"), BW_STR("b")},
                          .context = context};
    return bw_cedar_authorize(ctx, policies, e, s, &q, a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!ctx)
        start();
    bw_ctx_reset(ctx);
    bw_json *json = NULL;
    if (bw_json_parse(ctx, (bw_str){(const char *)data, size}, BW_JSON_CEDAR, &json) !=
        BW_OK)
        return 0;
    bw_cedar_entities *plain = NULL, *typed = NULL;
    bw_cedar_answer a, b;
    bw_status st = bw_cedar_entities_parse(ctx, json, NULL, &plain);
    CHECK(st == BW_OK || st == BW_EINVALID);
    bw_status st_typed = bw_cedar_entities_parse(ctx, json, schema, &typed);
    CHECK(st_typed == BW_OK || st_typed == BW_EINVALID);
    if (st == BW_OK)
        CHECK(answer(plain, NULL, NULL, &a) == BW_OK);
    if (st_typed == BW_OK) {
        CHECK(answer(typed, schema, NULL, &a) == BW_OK);
        CHECK(answer(typed, schema, NULL, &b) == BW_OK);
        CHECK(a.allow == b.allow && a.nreasons == b.nreasons && a.nerrors == b.nerrors);
    }
    st = answer(NULL, NULL, json, &a); /* the same bytes as a context */
    CHECK(st == BW_OK || st == BW_EINVALID);
    st = answer(NULL, schema, json, &a);
    CHECK(st == BW_OK || st == BW_EINVALID);
    bw_cedar_entities_free(plain);
    bw_cedar_entities_free(typed);
    return 0;
}
