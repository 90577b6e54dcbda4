/* Rules files: bytes up to a line "---" are a file of rules, the rest a document. What a
 * cell accepts never lowers a label set, and the same document gets the same one again;
 * a client's reading of the same bytes ends as well. */
#include <ingest/glob.h>
#include <ingest/rules.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROW "\",\"source\":\"s\",\"date\":\"2026-01-01\"}"
static const char pack[] =
    "{\"schema\":\"bailiwick.catalogue/2\",\"date\":\"2026-01-01\",\"notice\":\"n\",\"zones\":["
    "{\"id\":\"EU\",\"kind\":\"group\",\"countries\":[\"FR\",\"DE\"],\"source\":\"s\",\"date\":\"2026-01-01\"}],"
    "\"countries\":[{\"code\":\"FR" ROW ",{\"code\":\"DE" ROW "],"
    "\"vocabulary\":{\"regimes\":[{\"word\":\"gdpr" ROW "],\"categories\":[{\"word\":\"pi" ROW ",{\"word\":\"financial" ROW
    ",{\"word\":\"public" ROW "],\"labels\":[{\"word\":\"expires" ROW "],\"purposes\":[{\"word\":\"care" ROW "]}}";

static void with_rules(bw_ctx *ctx, const bw_catalogue *c, const bw_rules *r, bw_str text)
{
    static const bw_str word = {"care", 4}, place = {"EU", 2};
    static const bw_rule_fact fact = {{"dept", 4}, {"hr", 2}};
    const bw_labels base = {.tenant = BW_STR("t"), .residency = {&place, 1}, .purposes = {&word, 1}};
    bw_rule_subject s = {.tenant = BW_STR("t"), .collection = BW_STR("c"), .source = BW_STR("fr/a.md"), .media = BW_MEDIA_MARKDOWN,
                         .metadata = &fact, .nmetadata = 1};
    const bw_rule *before, *rule;
    bool later;
    bw_require(bw_rules_base(ctx, r, &s, &before, &later) == BW_OK && !(before && later));
    s.has_text = true;
    s.text = text;
    bw_require(bw_rules_base(ctx, r, &s, &rule, &later) == BW_OK && !later);
    bw_require(!before || before == rule);
    bw_labels once = base, twice = base;
    bw_raised raised;
    bw_status st = bw_rules_raise(ctx, r, c, &s, &once, &raised);
    bw_require(st == BW_OK || st == BW_EINVALID);
    bw_require(bw_labels_at_least(c, &once, &base));
    bw_require(bw_rules_raise(ctx, r, c, &s, &twice, &raised) == st && bw_labels_diff(&once, &twice) == 0);
    for (size_t i = 0; st == BW_OK && i < raised.n; i++)
        bw_require(raised.by[i].members != 0 && (raised.by[i].rule.ptr || raised.found.count[raised.by[i].kind] > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bw_catalogue *catalogue;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_str file = {(const char *)data, size}, text = {"", 0};
    const char *cut = size ? memmem(data, size, "\n---\n", 5) : NULL;
    bw_rules *r;
    bw_require(ctx != NULL);
    if (!catalogue && bw_catalogue_parse(ctx, BW_STR(pack), (bw_str){0}, &catalogue) != BW_OK)
        bw_require_failed(bw_ctx_message(ctx), __FILE__, __LINE__);
    if (cut) {
        file.len = (size_t)(cut - file.ptr);
        text = (bw_str){cut + 5, size - file.len - 5};
    }
    if (!bw_utf8_valid(text.ptr, text.len))
        text = BW_STR("mail jane@example.org");
    if (bw_rules_new(ctx, file, BW_RULES_CELL, catalogue, &r) == BW_OK) {
        with_rules(ctx, catalogue, r, text);
        bw_rules_free(r);
    }
    if (bw_rules_new(ctx, file, BW_RULES_CLIENT, NULL, &r) == BW_OK)
        bw_rules_free(r);
    if (bw_glob_valid(file) && file.len < 2000 && text.len < 2000)
        (void)bw_glob_match(file, text);
    bw_ctx_free(ctx);
    return 0;
}
