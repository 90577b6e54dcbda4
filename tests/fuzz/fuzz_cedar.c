/* Policy text: parse, then ask the set one fixed request. Nothing may crash, no limit
 * may be passed silently, and what is accepted must be accepted again policy by policy:
 * each source text is a set of its own with the same effect. */
#include <policies/cedar/trace.h>

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

static bool listed(const uint32_t *list, size_t n, size_t i)
{
    for (size_t k = 0; k < n; k++)
        if (list[k] == i)
            return true;
    return false;
}

/* The reasons say what the decision says, and can be written down. */
static void trace(const bw_cedar_policies *p, const bw_cedar_request *q,
                  const bw_cedar_answer *a)
{
    bw_cedar_trace *t;
    bw_buf b = {0};
    CHECK(bw_cedar_trace_open(ctx, p, entities, NULL, q, &t) == BW_OK);
    for (size_t i = 0; i < bw_cedar_policies_count(p) && i < 8; i++) {
        bw_cedar_reasons r;
        bw_status st = bw_cedar_trace_policy(t, (uint32_t)i, &r);
        CHECK(st == BW_OK || st == BW_EINVALID || st == BW_ENOMEM);
        if (st != BW_OK)
            continue;
        CHECK((r.satisfied == BW_CEDAR_FAILED) == listed(a->errors, a->nerrors, i));
        if (bw_cedar_policy_is_forbid(p, i) != a->allow)
            CHECK((r.satisfied == BW_CEDAR_TRUE) == listed(a->reasons, a->nreasons, i));
        CHECK(r.satisfied != BW_CEDAR_FALSE || r.nparts > 0 || r.cut || !r.scope_fits);
        for (uint32_t k = 0; k < r.nparts; k++) {
            b.len = 0;
            bw_cedar_part_text(&b, &r.parts[k], NULL, NULL);
            CHECK(b.len <= BW_CEDAR_PART_TEXT_MAX + 3 && bw_utf8_valid(b.ptr, b.len));
            for (uint32_t l = 0; l < r.parts[k].nleaves; l++)
                if (r.parts[k].leaves[l].value)
                    bw_cedar_value_text(&b, r.parts[k].leaves[l].value, NULL, NULL);
        }
    }
    bw_buf_clear(&b);
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
        trace(p, &q, &a);
    }
    for (size_t i = 0; i < bw_cedar_policies_count(p) && i < 4; i++)
        look(p, i);
    (void)bw_cedar_policies_read_context(p, BW_STR("n"));
    bw_cedar_policies_free(p);
    return 0;
}
