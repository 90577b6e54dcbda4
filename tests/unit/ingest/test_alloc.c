/* Out of memory at every allocation of loading and chunking, inline and through the
 * child, of a tokenizer, and of label rules read and followed: a right result or
 * BW_ENOMEM, and nothing stays behind. */
#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "ingest/document.h"
#include "ingest/rules.h"
#include "ingest/wordpiece.h"
#include "pack.h"

typedef struct load_case {
    bw_media media;
    bw_str bytes;
    const char *want;
    bool child;
} load_case;

static void load(void *arg)
{
    const load_case *c = arg;
    long before = failing_live;
    bw_ctx *ctx = bw_ctx_new(0);
    if (ctx) {
        bw_document d;
        const bw_chunk *chunks;
        size_t n;
        bw_chunk_options o = {16, 24, 4};
        bw_status st = c->child ? bw_document_load(ctx, c->media, c->bytes, &d)
                                : bw_document_load_inline(ctx, c->media, c->bytes, &d);
        if (st == BW_OK)
            st = bw_document_chunk(ctx, &d, &o, &chunks, &n);
        if (st == BW_OK) {
            assert_true(bw_str_eq(d.text, bw_str_c(c->want)));
            assert_true(n > 0 && chunks[n - 1].byte_end == d.text.len);
        }
        assert_true(st == (failing_hit ? BW_ENOMEM : BW_OK));
    }
    bw_ctx_free(ctx);
    assert_int_equal(failing_live, before);
}

static void document__survives_every_failed_allocation(void **state)
{
    (void)state;
    static const char latin[] = "Gr\xFC\xDF"
                                "e\n\ntwo and some more words";
    static const char markdown[] = "# A\n\n[b](c) *d*\n\n## e\n\nf e\xCC\x81";
    static const char html[] = "<title>t</title><h1>a</h1><p>b<br>c";
    static const char plain[] = "one\n\ntwo";
    const load_case cases[] = {
        {BW_MEDIA_TEXT, BW_STR(latin),
         "Gr\xC3\xBC\xC3\x9F"
         "e\n\ntwo and some more words",
         false},
        {BW_MEDIA_MARKDOWN, BW_STR(markdown), "A\n\nb d\n\ne\n\nf \xC3\xA9", false},
        {BW_MEDIA_HTML, BW_STR(html), "a\n\nb\nc", false},
        {BW_MEDIA_TEXT, BW_STR(plain), plain, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(failing_sweep(load, (void *)&cases[i], 2000) > 3);
    assert_int_equal(failing_live, 0);
}

static void tokenize(void *arg)
{
    (void)arg;
    static const char vocabulary[] = "[UNK]\n[CLS]\n[SEP]\na\n##b\n";
    long before = failing_live;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_wordpiece *w = NULL;
    if (ctx) {
        uint32_t ids[8];
        bw_status st = bw_wordpiece_new(ctx, BW_STR(vocabulary), false,
                                        (bw_wordpiece_options){true, true, true}, &w);
        assert_true(st == (failing_hit ? BW_ENOMEM : BW_OK));
        if (st == BW_OK)
            assert_int_equal(bw_wordpiece_run(w, BW_STR("ab b"), ids, 8), 5);
    }
    bw_wordpiece_free(w);
    bw_ctx_free(ctx);
    assert_int_equal(failing_live, before);
}

static void wordpiece__survives_every_failed_allocation(void **state)
{
    (void)state;
    assert_true(failing_sweep(tokenize, NULL, 1000) > 3);
}

static bw_catalogue *catalogue;

static void follow_rules(void *arg)
{
    (void)arg;
    static const char file[] =
        "{\"rules\":[{\"match\":\"a*\",\"metadata\":{\"k\":\"v\"},\"labels\":{\"regimes\":"
        "[\"gdpr\"],\"residency\":[\"EU\"],\"sensitivity\":1}},{\"text\":\"x+\",\"raise\":"
        "{\"sensitivity\":3,\"categories\":[\"hr\"],\"residency\":[\"FR\"]}}],"
        "\"detectors\":{\"email\":{\"labels\":[\"internal\"]}}}";
    static const bw_rule_fact fact = {{"k", 1}, {"v", 1}};
    const bw_rule_subject about = {.source = BW_STR("a.txt"), .metadata = &fact, .nmetadata = 1,
                                   .has_text = true, .text = BW_STR("xx jane@example.org")};
    long before = failing_live;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_rules *r = NULL;
    if (ctx) {
        const bw_rule *rule = NULL;
        bool later;
        bw_labels l;
        bw_raised raised;
        bw_status st = bw_rules_new(ctx, BW_STR(file), BW_RULES_CELL, catalogue, &r);
        if (st == BW_OK)
            st = bw_rules_base(ctx, r, &about, &rule, &later);
        if (st == BW_OK)
            st = bw_labels_parse(ctx, catalogue, rule->labels, BW_STR("t"), &l);
        if (st == BW_OK)
            st = bw_rules_raise(ctx, r, catalogue, &about, &l, &raised);
        if (st == BW_OK)
            assert_true(l.sensitivity == 3 && l.categories.n == 2 && l.labels.n == 1 && raised.n == 2);
        assert_int_equal(st, failing_hit ? BW_ENOMEM : BW_OK);
    }
    bw_rules_free(r);
    bw_ctx_free(ctx);
    assert_int_equal(failing_live, before);
}

static void rules__survive_every_failed_allocation(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    catalogue = pack_catalogue(ctx, NULL);
    assert_true(failing_sweep(follow_rules, NULL, 1000) > 10);
    bw_catalogue_free(catalogue);
    bw_ctx_free(ctx);
}

int main(void)
{
    failing_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(document__survives_every_failed_allocation),
        cmocka_unit_test(wordpiece__survives_every_failed_allocation),
        cmocka_unit_test(rules__survive_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
