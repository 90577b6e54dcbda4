/* Composition of packs: the input, cut at lines "---", is the set s.set and the packs
 * a.cedar and b.cedar. What is composed parses, every policy in it has an @id, and
 * composing again gives the same text. */
#include <policies/pack_set.h>

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(c)                                                               \
    do {                                                                       \
        if (!(c)) {                                                            \
            fprintf(stderr, "fuzz_cedar_packs: %s (line %d)\n", #c, __LINE__); \
            abort();                                                           \
        }                                                                      \
    } while (0)

static bw_status read_part(void *user, bw_ctx *ctx, const char *file, bw_str *out)
{
    static const char *const names[] = {"sets/s.set", "a.cedar", "b.cedar"};
    for (int i = 0; i < 3; i++)
        if (strcmp(file, names[i]) == 0) {
            *out = ((const bw_str *)user)[i];
            return BW_OK;
        }
    return bw_fail(ctx, BW_ENOTFOUND, "no such file");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bw_ctx *ctx;
    if (!ctx)
        ctx = bw_ctx_new((size_t)1 << 28);
    CHECK(ctx);
    bw_ctx_reset(ctx);
    bw_str parts[3] = {{(const char *)data, size}, BW_STR(""), BW_STR("")}, text, again,
           id;
    for (int i = 0; i < 2; i++) {
        const char *cut = memmem(parts[i].ptr, parts[i].len, "\n---\n", 5);
        if (!cut)
            break;
        size_t n = (size_t)(cut - parts[i].ptr) + 1;
        parts[i + 1] = (bw_str){cut + 5, parts[i].len - n - 4};
        parts[i].len = n;
    }
    bw_pack_source source = {read_part, parts};
    bw_pack_info info;
    const bw_str names[] = {BW_STR("a"), BW_STR("s")};
    bw_status head = bw_pack_info_read(ctx, names[0], parts[1], &info);
    CHECK(head == BW_OK || head == BW_EINVALID);
    for (size_t from = 0; from < 2; from++) {
        bw_cedar_policies *p = NULL;
        bw_status st = bw_pack_compose(ctx, &source, names + from, 2 - from, &text);
        CHECK(st == BW_OK || st == BW_EINVALID || st == BW_ENOTFOUND);
        if (st != BW_OK)
            continue;
        CHECK(bw_pack_compose(ctx, &source, names + from, 2 - from, &again) == BW_OK);
        CHECK(bw_str_eq(text, again));
        CHECK(bw_cedar_policies_parse(ctx, text, &p) == BW_OK);
        for (size_t i = 0; i < bw_cedar_policies_count(p); i++)
            CHECK(bw_cedar_policy_annotation(p, i, BW_STR("id"), &id));
        bw_cedar_policies_free(p);
    }
    return 0;
}
