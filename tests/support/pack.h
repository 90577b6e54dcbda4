/* The first pack, loaded from the source tree, for tests. */
#ifndef BW_TEST_PACK_H
#define BW_TEST_PACK_H
#include <policies/catalogue.h>
#include <policies/pack_set.h>

#include <stdio.h>
#include <stdlib.h>

static inline bw_str pack_file(bw_ctx *ctx, const char *name)
{
    const char *path = bw_arena_printf(ctx, "%s/policies/packs/%s", BW_SOURCE, name);
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (!f) {
        fprintf(stderr, "no pack file %s\n", name);
        abort();
    }
    size_t cap = 1 << 20;
    char *text = bw_arena_alloc(ctx, cap);
    size_t n = text ? fread(text, 1, cap, f) : 0;
    fclose(f);
    if (n == 0 || n == cap)
        abort();
    return (bw_str){text, n};
}

static inline bw_status pack_read(void *user, bw_ctx *ctx, const char *file, bw_str *out)
{
    const char *path = bw_arena_printf(ctx, "%s/policies/packs/%s", BW_SOURCE, file);
    FILE *f = path ? fopen(path, "rb") : NULL;
    (void)user;
    if (!f)
        return bw_fail(ctx, BW_ENOTFOUND, "no pack file %s", file);
    fclose(f);
    *out = pack_file(ctx, file);
    return BW_OK;
}

/* Packs and sets of these names as one text. */
static inline bw_str pack_compose(bw_ctx *ctx, const bw_str *names, size_t n)
{
    bw_pack_source source = {pack_read, NULL};
    bw_str out;
    if (bw_pack_compose(ctx, &source, names, n, &out) != BW_OK) {
        fprintf(stderr, "packs: %s\n", bw_ctx_message(ctx));
        abort();
    }
    return out;
}

static inline bw_catalogue *pack_catalogue(bw_ctx *ctx, const char *overlay)
{
    bw_catalogue *c = NULL;
    bw_status st = bw_catalogue_parse(ctx, pack_file(ctx, "catalogue.json"), bw_str_c(overlay), &c);
    if (st != BW_OK) {
        fprintf(stderr, "catalogue: %s %s\n", bw_ctx_pointer(ctx), bw_ctx_message(ctx));
        abort();
    }
    return c;
}
#endif
