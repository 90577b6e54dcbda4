/* Policy text: parse, then ask the set one fixed request. Nothing may crash, no limit
 * may be passed silently, and what is accepted must be accepted again policy by policy:
 * each source text is a set of its own with the same effect. */
#include <policies/cedar/cedar.h>

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(c)                                                         \
    do {                                                                 \
        if (!(c)) {                                                      \
            fprintf(stderr, "fuzz_cedar: %s (line %d)\n", #c, __LINE__); \
            abort();                                                     \
        }                                                                \
    } while (0)

static bw_ctx *ctx;
static bw_cedar_entities *entities;
static bw_ctx *world;
static bw_json *context;

static void start(void)
{
    static const char store[] =
        "[{\"uid\":{\"type\":\"User\",\"id\":\"a\"},\"attrs\":{\"n\":1,\"s\":\"x\","
        "\"r\":{\"q\":[1,2]},\"u\":{\"__entity\":"
        "{\"type\":\"User\",\"id\":\"b\"}}},\"parents\":[{\"type\":\"G\",\"id\":\"g\"}]"
        ",\"tags\":{\"t\":1}}]";
    static const char ctx_text[] =
        "{\"n\":1,\"s\":\"text\",\"set\":[1,2],\"d\":{\"__extn\":{\"fn\":\"decimal\","
        "\"arg\":\"1.0\"}},\"b\":true}";
    bw_json *json = NULL;
    ctx = bw_ctx_new((size_t)1 << 28);
    world = bw_ctx_new(0);
    CHECK(ctx && world);
    CHECK(bw_json_parse(world, bw_str_c(store), BW_JSON_CEDAR, &json) == BW_OK);
    CHECK(bw_cedar_entities_parse(world, json, NULL, &entities) == BW_OK);
    CHECK(bw_json_parse(world, bw_str_c(ctx_text), BW_JSON_CEDAR, &context) == BW_OK);
}

static void look(const bw_cedar_policies *p, size_t i)
{
    bw_cedar_policies *one = NULL;
    bw_str v;
    CHECK(bw_cedar_policies_parse(ctx, bw_cedar_policy_text(p, i), &one) == BW_OK);
    CHECK(bw_cedar_policies_count(one) == 1);
    CHECK(bw_cedar_policy_is_forbid(one, 0) == bw_cedar_policy_is_forbid(p, i));
    CHECK(bw_cedar_policy_annotation(one, 0, BW_STR("id"), &v) ==
          bw_cedar_policy_annotation(p, i, BW_STR("id"), &v));
    bw_cedar_policies_free(one);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!ctx)
        start();
    bw_ctx_reset(ctx);
    bw_cedar_policies *p = NULL;
    bw_status st = bw_cedar_policies_parse(ctx, (bw_str){(const char *)data, size}, &p);
    CHECK(st == BW_OK || st == BW_EINVALID);
    if (st != BW_OK)
        return 0;
    bw_cedar_request q = {.principal = {BW_STR("User"), BW_STR("a")},
                          .action = {BW_STR("Action"), BW_STR("x")},
                          .resource = {BW_STR("User"), BW_STR("b")},
                          .context = context};
    bw_cedar_answer a, again;
    st = bw_cedar_authorize(ctx, p, entities, NULL, &q, &a);
    CHECK(st == BW_OK || st == BW_EINVALID);
    if (st == BW_OK) {
        CHECK(a.nreasons + a.nerrors <= bw_cedar_policies_count(p));
        CHECK(!a.allow || a.nreasons > 0);
        CHECK(bw_cedar_authorize(ctx, p, entities, NULL, &q, &again) == BW_OK);
        CHECK(a.allow == again.allow && a.nreasons == again.nreasons &&
              a.nerrors == again.nerrors);
    }
    for (size_t i = 0; i < bw_cedar_policies_count(p) && i < 4; i++)
        look(p, i);
    (void)bw_cedar_policies_read_context(p, BW_STR("n"));
    bw_cedar_policies_free(p);
    return 0;
}
