/* Catalogue files and overlays: bytes up to a line "---" are a catalogue, the rest an
 * overlay on it; without such a line all is an overlay on a small catalogue. Whatever is
 * accepted has one version, entities that Cedar takes, a list of gaps, an account of
 * itself whose facts all have source and date, and no difference from itself. */
#include <policies/catalogue.h>
#include <policies/cedar/cedar.h>

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(c)                                                                         \
    do {                                                                                 \
        if (!(c)) {                                                                      \
            fprintf(stderr, "fuzz_catalogue: %s (line %d)\n", #c, __LINE__);             \
            abort();                                                                     \
        }                                                                                \
    } while (0)

#define SOURCED ",\"source\":\"s\",\"date\":\"2026-01-01\"}"
static const char small[] =
    "{\"schema\":\"bailiwick.catalogue/2\",\"date\":\"2026-01-01\",\"notice\":\"n\",\"zones\":["
    "{\"id\":\"world\",\"kind\":\"group\",\"members\":\"researched\"" SOURCED ",{\"id\":\"EU\",\"kind\":\"group\",\"countries\":[\"FR\"]" SOURCED ","
    "{\"id\":\"ok\",\"kind\":\"allow\",\"regime\":\"gdpr\"" SOURCED ",{\"id\":\"half\",\"kind\":\"allow\"" SOURCED ","
    "{\"id\":\"shut\",\"kind\":\"deny\",\"unknown\":true" SOURCED "],"
    "\"countries\":[{\"code\":\"FR\",\"alpha3\":\"FRA\",\"name\":\"France\"" SOURCED ",{\"code\":\"US\",\"in\":[\"EU\"]" SOURCED "],"
    "\"localisation\":[{\"country\":\"FR\",\"level\":\"strict\",\"laws\":[\"l\"],\"confidence\":\"low\"" SOURCED ",{\"country\":\"US\",\"level\":null" SOURCED "],"
    "\"foreign_access\":[{\"country\":\"US\",\"law\":\"l\",\"extraterritorial\":true" SOURCED "],"
    "\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"US\",\"status\":\"partial\",\"certs\":[\"dpf\"],\"year\":2023,\"expires\":\"2026-06-01\"" SOURCED "],"
    "\"organisations\":[{\"id\":\"EPO\",\"name\":\"o\",\"kind\":\"k\"" SOURCED "],"
    "\"legal_entities\":[{\"id\":\"op\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"1.0\",\"foreign_share_sum\":null,"
    "\"baa_with\":[\"t\"],\"certs\":[\"dpf\"]" SOURCED "],"
    "\"vocabulary\":{\"regimes\":[{\"word\":\"gdpr\",\"zone\":\"ok\",\"conditional\":\"half\"" SOURCED "],\"certs\":[{\"word\":\"dpf\"" SOURCED "]}}";

static void check_entities(bw_ctx *ctx, const bw_catalogue *c)
{
    bw_buf b = {0};
    bw_json *list;
    bw_cedar_entities *entities;
    bw_buf_putc(&b, '[');
    bw_catalogue_put_entities(c, &b);
    bw_buf_putc(&b, ']');
    CHECK(bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_CEDAR, &list) == BW_OK);
    CHECK(bw_cedar_entities_parse(ctx, list, NULL, &entities) == BW_OK);
    bw_cedar_entities_free(entities);
    bw_buf_clear(&b);
}

static void check_account(bw_ctx *ctx, const bw_catalogue *c)
{
    bw_buf b = {0};
    bw_json *v;
    CHECK(bw_catalogue_show(ctx, c, (bw_str){NULL, 0}, &b) == BW_OK);
    CHECK(bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_REQUEST, &v) == BW_OK);
    for (const bw_json *f = bw_json_get(v, "facts")->child; f; f = f->next) {
        const bw_json *fact = bw_json_get(f, "fact");
        CHECK(bw_json_get(fact, "source")->str.len > 0 && bw_json_get(fact, "date")->str.len == 10);
    }
    for (const bw_json *z = bw_json_get(v, "zones")->child; z; z = z->next) {
        bw_buf one = {0};
        bw_str name = bw_json_get(z, "name")->str;
        CHECK(bw_catalogue_has_zone(c, name) && bw_catalogue_in(c, name, name));
        CHECK(bw_catalogue_show(ctx, c, name, &one) == BW_OK);
        bw_buf_clear(&one);
    }
    bw_buf_clear(&b);
}

static void check_lists(bw_ctx *ctx, const bw_catalogue *base, const bw_catalogue *c)
{
    static const bw_catalogue_scope all = {0};
    bw_catalogue_gap *gaps;
    size_t n;
    bw_buf b = {0};
    CHECK(bw_catalogue_gaps(ctx, c, &all, &gaps, &n) == BW_OK);
    CHECK(bw_catalogue_stale(ctx, c, BW_STR("2026-06-01"), 100, &gaps, &n) == BW_OK);
    CHECK(bw_catalogue_diff(ctx, c, c, &b, &n) == BW_OK && n == 0);
    bw_buf_clear(&b);
    CHECK(bw_catalogue_diff(ctx, base, c, &b, &n) == BW_OK);
    bw_json *v;
    CHECK(bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_REQUEST, &v) == BW_OK && v->count == n);
    bw_buf_clear(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bw_catalogue *base;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_catalogue *c, *again;
    CHECK(ctx);
    if (!base)
        CHECK(bw_catalogue_parse(ctx, BW_STR(small), (bw_str){0}, &base) == BW_OK);
    bw_str text = BW_STR(small), overlay = {(const char *)data, size};
    const char *cut = size ? memmem(data, size, "\n---\n", 5) : NULL;
    if (cut) {
        text = (bw_str){(const char *)data, (size_t)(cut - (const char *)data)};
        overlay = (bw_str){cut + 5, size - text.len - 5};
    }
    bw_status st = bw_catalogue_parse(ctx, text, overlay, &c);
    CHECK(st == BW_OK || st == BW_EINVALID);
    if (st == BW_OK) {
        CHECK(bw_catalogue_version(c).len == 10 + 1 + 32);
        CHECK(bw_catalogue_parse(ctx, text, overlay, &again) == BW_OK);
        CHECK(bw_str_eq(bw_catalogue_version(c), bw_catalogue_version(again)));
        bw_catalogue_free(again);
        check_entities(ctx, c);
        check_account(ctx, c);
        check_lists(ctx, base, c);
        bw_catalogue_free(c);
    }
    (void)bw_catalogue_near(base, overlay);
    bw_ctx_free(ctx);
    return 0;
}
