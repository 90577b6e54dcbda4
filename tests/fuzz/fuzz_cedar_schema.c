/* Schemas in both syntaxes: never a crash; an accepted one is accepted again and can be
 * held against policies and entities. */
#include <policies/cedar/cedar.h>

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(c)                                                                \
    do {                                                                        \
        if (!(c)) {                                                             \
            fprintf(stderr, "fuzz_cedar_schema: %s (line %d)\n", #c, __LINE__); \
            abort();                                                            \
        }                                                                       \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bw_ctx *ctx;
    static bw_cedar_policies *policies;
    if (!ctx) {
        ctx = bw_ctx_new((size_t)1 << 28);
        CHECK(ctx);
        CHECK(bw_cedar_policies_parse(ctx,
                                      BW_STR("permit(principal is A, action == "
                                             "Action::\"a\", resource in B::\"b\");"),
                                      &policies) == BW_OK);
    }
    bw_ctx_reset(ctx);
    bw_cedar_schema *s = NULL, *again = NULL;
    bw_str text = {(const char *)data, size};
    bw_status st = bw_cedar_schema_parse(ctx, text, &s);
    CHECK(st == BW_OK || st == BW_EINVALID);
    if (st != BW_OK)
        return 0;
    CHECK(bw_cedar_schema_parse(ctx, text, &again) == BW_OK);
    bw_cedar_validation v;
    st = bw_cedar_policies_validate(ctx, policies, s, NULL, &v);
    CHECK(st == BW_OK || st == BW_EINVALID);
    bw_json *json = NULL;
    CHECK(bw_json_parse(ctx,
                        BW_STR("[{\"uid\":{\"type\":\"A\",\"id\":\"x\"},\"attrs\":{"
                               "\"x\":1,\"y\":\"1.0\"},\"parents\":[]}]"),
                        BW_JSON_CEDAR, &json) == BW_OK);
    bw_cedar_entities *e = NULL;
    st = bw_cedar_entities_parse(ctx, json, s, &e);
    CHECK(st == BW_OK || st == BW_EINVALID);
    bw_cedar_entities_free(e);
    bw_cedar_schema_free(again);
    bw_cedar_schema_free(s);
    return 0;
}
