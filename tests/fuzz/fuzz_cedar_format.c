/* Policy text laid out, written as JSON and as text: what parses formats to the same
 * tokens and comments, once and for all; every form is read again and written the same
 * (cedar_laws.h). */
#include "cedar_laws.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bw_ctx *ctx;
    bw_cedar_policies *p = NULL;
    bw_str text = {(const char *)data, size};
    if (!ctx && !(ctx = bw_ctx_new((size_t)1 << 30)))
        abort();
    bw_ctx_reset(ctx);
    if (bw_cedar_policies_parse(ctx, text, &p) != BW_OK)
        return 0;
    const char *why = law_breach(ctx, text, p);
    if (why) {
        fprintf(stderr, "fuzz_cedar_format: %s\n", why);
        abort();
    }
    bw_cedar_policies_free(p);
    return 0;
}
