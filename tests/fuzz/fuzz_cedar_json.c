/* Policies in JSON: never a crash; what is accepted can be asked, is accepted again, and
 * is written so that it reads the same (cedar_laws.h). */
#include "cedar_laws.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(c)                                                              \
    do {                                                                      \
        if (!(c)) {                                                           \
            fprintf(stderr, "fuzz_cedar_json: %s (line %d)\n", #c, __LINE__); \
            abort();                                                          \
        }                                                                     \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bw_ctx *ctx;
    if (!ctx)
        ctx = bw_ctx_new((size_t)1 << 28);
    CHECK(ctx);
    bw_ctx_reset(ctx);
    bw_cedar_policies *p = NULL, *again = NULL;
    bw_str text = {(const char *)data, size};
    bw_status st = bw_cedar_policies_parse_json(ctx, text, &p);
    CHECK(st == BW_OK || st == BW_EINVALID);
    if (st != BW_OK)
        return 0;
    bw_cedar_request q = {.principal = {BW_STR("User"), BW_STR("a")},
                          .action = {BW_STR("Action"), BW_STR("x")},
                          .resource = {BW_STR("User"), BW_STR("b")}};
    bw_cedar_answer a;
    st = bw_cedar_authorize(ctx, p, NULL, NULL, &q, &a);
    CHECK(st == BW_OK || st == BW_EINVALID);
    CHECK(bw_cedar_policies_parse_json(ctx, text, &again) == BW_OK);
    CHECK(bw_cedar_policies_count(p) == bw_cedar_policies_count(again));
    CHECK(law_json(ctx, p) == NULL);
    CHECK(law_write(ctx, p) == NULL);
    bw_cedar_policies_free(again);
    bw_cedar_policies_free(p);
    return 0;
}
