/* Label sets from clients: whatever is accepted has one canonical form that reads back to
 * itself, is ASCII, and is accepted again as a client's input with the same class id. */
#include <policies/labels.h>

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(c)                                                                         \
    do {                                                                                 \
        if (!(c)) {                                                                      \
            fprintf(stderr, "fuzz_labels: %s (line %d)\n", #c, __LINE__);                \
            abort();                                                                     \
        }                                                                                \
    } while (0)

#define SOURCED ",\"source\":\"test\",\"date\":\"2026-01-01\""
static const char catalogue_text[] =
    "{\"date\":\"2026-01-01\",\"zones\":[{\"id\":\"EU\",\"kind\":\"group\"" SOURCED "},{\"id\":\"w\",\"kind\":\"group\"" SOURCED "}],"
    "\"countries\":[{\"code\":\"FR\",\"in\":[\"EU\"]" SOURCED "},{\"code\":\"DE\",\"in\":[\"EU\"]" SOURCED "}],"
    "\"vocabulary\":{\"regimes\":[{\"word\":\"gdpr\"" SOURCED "},{\"word\":\"fadp\"" SOURCED "}],\"categories\":[{\"word\":\"hr\"" SOURCED "},{\"word\":\"pi\"" SOURCED "}],"
    "\"labels\":[{\"word\":\"x\"" SOURCED "}],\"purposes\":[{\"word\":\"a\"" SOURCED "},{\"word\":\"b\"" SOURCED "},{\"word\":\"c\"" SOURCED "}]}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bw_catalogue *catalogue;
    bw_ctx *ctx = bw_ctx_new(16 * 1024 * 1024);
    bw_json *v;
    bw_labels l, back;
    CHECK(ctx);
    if (!catalogue)
        CHECK(bw_catalogue_parse(ctx, bw_str_c(catalogue_text), (bw_str){0}, &catalogue) == BW_OK);
    bw_status st = bw_json_parse(ctx, (bw_str){(const char *)data, size}, BW_JSON_REQUEST, &v);
    if (st == BW_OK)
        st = bw_labels_parse(ctx, catalogue, v, BW_STR("acme"), &l);
    CHECK(st == BW_OK || st == BW_EINVALID);
    if (st == BW_OK) {
        bw_str text, again;
        bw_class_id a, b;
        CHECK(bw_labels_canonical(ctx, &l, &text) == BW_OK);
        for (size_t i = 0; i < text.len; i++)
            CHECK(text.ptr[i] >= ' ' && text.ptr[i] <= '~');
        CHECK(bw_labels_from_canonical(ctx, text, &back) == BW_OK);
        CHECK(bw_json_parse(ctx, text, BW_JSON_REQUEST, &v) == BW_OK);
        CHECK(bw_labels_parse(ctx, catalogue, v, BW_STR("other"), &back) == BW_OK);
        CHECK(bw_labels_canonical(ctx, &back, &again) == BW_OK && bw_str_eq(text, again));
        bw_labels_class_id(text, &a);
        bw_labels_class_id(again, &b);
        CHECK(bw_class_id_cmp(&a, &b) == 0);
    }
    /* The stored form's reader on any bytes: it takes only what it would write. */
    st = bw_labels_from_canonical(ctx, (bw_str){(const char *)data, size}, &back);
    CHECK(st == BW_OK || st == BW_ECORRUPT);
    bw_ctx_free(ctx);
    return 0;
}
