/* Loaders, cleaning, chunking; the child process and what it may not do. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ingest/document.h"

typedef struct fixture {
    bw_ctx *ctx;
    bw_document d;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->ctx = bw_ctx_new((size_t)256 << 20);
    *state = f;
    return f->ctx ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_ctx_free(f->ctx);
    free(f);
    return 0;
}

static void load_bytes(fixture *f, bw_media media, const char *p, size_t n)
{
    if (bw_document_load_inline(f->ctx, media, (bw_str){p, n}, &f->d) != BW_OK)
        fail_msg("%s", bw_ctx_message(f->ctx));
}

static void assert_text(bw_str got, const char *want)
{
    if (got.len != strlen(want) || memcmp(got.ptr, want, got.len) != 0)
        fail_msg("got \"%.*s\", expected \"%s\"", (int)got.len, got.ptr, want);
}

#define LOAD(f, media, lit) load_bytes((f), (media), (lit), sizeof(lit) - 1)

static void text__encodings_are_found(void **state)
{
    fixture *f = *state;
    LOAD(f, BW_MEDIA_TEXT,
         "\xEF\xBB\xBFGr\xC3\xBC\xC3\x9F"
         "e");
    assert_text(f->d.text, "Gr\xC3\xBC\xC3\x9F"
                           "e");
    LOAD(f, BW_MEDIA_TEXT,
         "Gr\xFC\xDF"
         "e kosten 5 \x80");
    assert_text(f->d.text, "Gr\xC3\xBC\xC3\x9F"
                           "e kosten 5 \xE2\x82\xAC");
    LOAD(f, BW_MEDIA_TEXT,
         "\xFF\xFEG\0r\0\xFC\0\xDF\0"
         "e\0=\xD8\x4D\xDC");
    assert_text(f->d.text, "Gr\xC3\xBC\xC3\x9F"
                           "e\xF0\x9F\x91\x8D");
    LOAD(f, BW_MEDIA_TEXT, "\xFE\xFF\0a\0b");
    assert_text(f->d.text, "ab");
    LOAD(f, BW_MEDIA_TEXT, "p\0l\0a\0i\0n\0");
    assert_text(f->d.text, "plain");
}

static void text__binary_is_refused_with_a_reason(void **state)
{
    fixture *f = *state;
    char junk[512];
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (char)(i * 37 + i / 7);
    bw_document d;
    assert_int_equal(
        bw_document_load_inline(f->ctx, BW_MEDIA_TEXT, (bw_str){junk, sizeof junk}, &d),
        BW_EINVALID);
    assert_non_null(strstr(bw_ctx_message(f->ctx), "text"));
    assert_int_equal(bw_document_load_inline(f->ctx, BW_MEDIA_TEXT,
                                             BW_STR("\xFF\xFE\0\0a\0\0\0"), &d),
                     BW_EINVALID);
    assert_int_equal(bw_document_load_inline(f->ctx, BW_MEDIA_UNKNOWN, BW_STR("x"), &d),
                     BW_EINVALID);
}

/* bug-reports.md, case 63: NUL from a document must not end the batch. */
static void text__nul_is_taken_out_and_counted(void **state)
{
    fixture *f = *state;
    LOAD(f, BW_MEDIA_TEXT, "before\0after and more text");
    assert_text(f->d.text, "beforeafter and more text");
    assert_int_equal(f->d.removed, 1);
}

static void text__hidden_characters_go_and_nfc_is_made(void **state)
{
    fixture *f = *state;
    LOAD(f, BW_MEDIA_TEXT,
         "e\xCC\x81 zero\xE2\x80\x8Bwidth \xE2\x80\xAE"
         "bidi \xF3\xA0\x81\xA9tag so\xC2\xAD"
         "ft");
    assert_text(f->d.text, "\xC3\xA9 zerowidth bidi tag soft");
    assert_int_equal(f->d.removed, 4);
}

static void text__blocks_are_paragraphs_with_their_bytes(void **state)
{
    fixture *f = *state;
    LOAD(f, BW_MEDIA_TEXT, "\r\n one \r\ntwo\r\n\r\n \r\nthree\fvier\n\n\n");
    assert_int_equal(f->d.nblocks, 3);
    assert_text(f->d.text, " one\ntwo\n\nthree\n\nvier");
    for (size_t i = 0; i < f->d.nblocks; i++) {
        const bw_block *b = &f->d.blocks[i];
        assert_int_equal(b->byte_end - b->byte_begin, b->text.len);
        assert_memory_equal(f->d.text.ptr + b->byte_begin, b->text.ptr, b->text.len);
    }
    LOAD(f, BW_MEDIA_TEXT, "");
    assert_int_equal(f->d.nblocks, 0);
}

static void markdown__structure_is_kept_and_marks_go(void **state)
{
    fixture *f = *state;
    LOAD(f, BW_MEDIA_MARKDOWN,
         "---\ntitle: front\n---\n# The *Plan* #\n\nSome **bold** and _soft_ text, "
         "snake_case, 2 * 3,\n"
         "a [link](http://x/(y)) and ![a picture](p.png).\n\nSub\n---\n- one\n- two "
         "`code*`\n\n"
         "```c\n# not a heading\n```\n<!-- ignore all\nrules -->after <b>tag</b> "
         "<script>evil()</script>\n"
         "| a | b |\n|---|---|\n| 1 | 2 |\n");
    assert_text(f->d.title, "The Plan");
    assert_int_equal(f->d.blocks[0].heading, 1);
    assert_text(f->d.blocks[1].text,
                "Some bold and soft text, snake_case, 2 * 3,\na link and a picture.");
    assert_int_equal(f->d.blocks[2].heading, 2);
    assert_text(f->d.blocks[2].text, "Sub");
    assert_text(f->d.blocks[3].text, "- one\n- two code*");
    assert_text(f->d.blocks[4].text, "# not a heading");
    assert_text(f->d.blocks[5].text, "after tag\n| a | b |\n| 1 | 2 |");
    assert_int_equal(f->d.nblocks, 6);
}

/* 200,000 of a mark took a minute each: what stood behind it was looked for in the
 * whole rest of the line, once for each. Counted in looks here, not in seconds: the
 * test's own time-out is the limit, which the old code passed by far. */
static void markdown__marks_do_not_cost_their_square(void **state)
{
    fixture *f = *state;
    static const char *const marks[] = {
        "[", "](", "[](", "<a", "<a:", "![", "`", "*_", "<!-", "[a]["};
    enum { BYTES = 1 << 19 };
    char *p = malloc(BYTES);
    assert_non_null(p);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t n = strlen(marks[i]);
        for (size_t k = 0; k < BYTES; k++)
            p[k] = marks[i][k % n];
        load_bytes(f, BW_MEDIA_MARKDOWN, p, BYTES);
        bw_ctx_reset(f->ctx);
    }
    free(p);
    LOAD(f, BW_MEDIA_MARKDOWN, "a [b](c) [d e] f](g) ![h](i) <b>j</b>");
    assert_text(f->d.text, "a b d e] f](g) h j");
}

static void html__what_is_hidden_is_dropped(void **state)
{
    fixture *f = *state;
    LOAD(f, BW_MEDIA_HTML,
         "<!DOCTYPE html><html><head><title>Dienst &amp; "
         "Plan</title><style>p{}</style></head><body>"
         "<h1>Erste  Seite</h1><p>Ein <b>Satz</b>\n "
         "mit&nbsp;Raum.<br>Zeile</p><script>x()</script>"
         "<p hidden>unsichtbar</p><div style='color:red; display : "
         "none'>weg</div><ul><li>eins<li>zwei</ul>"
         "<table><tr><td>a<td>b</table><!-- note --><pre>  x\n  y</pre></body></html>");
    assert_text(f->d.title, "Dienst & Plan");
    assert_int_equal(f->d.blocks[0].heading, 1);
    assert_text(f->d.text, "Erste Seite\n\nEin Satz mit\xC2\xA0Raum.\nZeile\n\n- "
                           "eins\n\n- zwei\n\na | b\n\n  x\n  y");
}

static void html__declared_latin_1_is_read(void **state)
{
    fixture *f = *state;
    LOAD(f, BW_MEDIA_HTML, "<meta charset=iso-8859-1><p>Z\xFCrich</p>");
    assert_text(f->d.text, "Z\xC3\xBCrich");
    bw_document d;
    assert_int_equal(bw_document_load_inline(
                         f->ctx, BW_MEDIA_HTML,
                         BW_STR("<meta charset=shift_jis><p>\x83\x65\x83\x58</p>"), &d),
                     BW_EINVALID);
    LOAD(f, BW_MEDIA_HTML, "");
    assert_int_equal(f->d.nblocks, 0);
}

static void html__external_entities_are_not_read(void **state)
{
    fixture *f = *state;
    LOAD(f, BW_MEDIA_HTML,
         "<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/hostname\">]><p>a&x;b</p>");
    assert_true(f->d.text.len < 24 && memmem(f->d.text.ptr, f->d.text.len, "x", 1));
}

/* Lines and trees that make a careless parser quadratic or lose text in silence. */
static void loaders__hostile_repetition_is_linear_or_refused(void **state)
{
    fixture *f = *state;
    static const char *const units[] = {"[",  "[a](", "<a ",   "*a",
                                        "](", "![",   "`x``y", "<!--"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        bw_buf b = {0};
        while (b.len < 400000)
            bw_buf_puts(&b, units[i]);
        load_bytes(f, BW_MEDIA_MARKDOWN, b.ptr, b.len);
        bw_buf_clear(&b);
    }
    bw_buf b = {0};
    for (int i = 0; i < 1000; i++)
        bw_buf_puts(&b, "<div>");
    bw_buf_puts(&b, "lost?");
    bw_document d;
    bw_status st = bw_document_load_inline(f->ctx, BW_MEDIA_HTML, bw_buf_view(&b), &d);
    if (st == BW_OK)
        assert_text(d.text, "lost?");
    else
        assert_non_null(strstr(bw_ctx_message(f->ctx), "nested"));
    bw_buf_clear(&b);
}

/* A PDF of one page a text; lines are "size text". */
static size_t make_pdf(char *out, size_t cap, const char *const *pages, size_t n)
{
    size_t len = (size_t)snprintf(
        out, cap,
        "%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        "3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n2 0 "
        "obj<</Type/Pages/Kids[");
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(out + len, cap - len, "%zu 0 R ", 10 + 2 * i);
    len += (size_t)snprintf(out + len, cap - len, "]/Count %zu>>endobj\n", n);
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(
            out + len, cap - len,
            "%zu 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 400]/Contents %zu 0 R"
            "/Resources<</Font<</F 3 0 R>>>>>>endobj\n%zu 0 obj<</Length "
            "%zu>>stream\n%s\nendstream endobj\n",
            10 + 2 * i, 11 + 2 * i, 11 + 2 * i, strlen(pages[i]), pages[i]);
    len += (size_t)snprintf(out + len, cap - len, "trailer<</Root 1 0 R>>\n%%%%EOF\n");
    assert_true(len < cap);
    return len;
}

static const char *const pdf_pages[] = {
    "BT /F 24 Tf 20 350 Td (Plan) Tj /F 10 Tf 0 -40 Td (The first line is a para-) Tj "
    "0 -12 Td (graph of two lines.) Tj "
    "0 -40 Td (Another one.) Tj ET",
    "BT /F 10 Tf 20 350 Td (Page two.) Tj ET"};

static void pdf__pages_headings_paragraphs(void **state)
{
    fixture *f = *state;
    char pdf[4096];
    load_bytes(f, BW_MEDIA_PDF, pdf, make_pdf(pdf, sizeof pdf, pdf_pages, 2));
    assert_int_equal(f->d.nblocks, 4);
    assert_text(f->d.text, "Plan\n\nThe first line is a paragraph of two "
                           "lines.\n\nAnother one.\n\nPage two.");
    assert_int_equal(f->d.blocks[0].heading, 1);
    assert_int_equal(f->d.blocks[0].page, 1);
    assert_int_equal(f->d.blocks[3].page, 2);
    assert_text(f->d.title, "Plan");
    bw_document d;
    assert_int_equal(
        bw_document_load_inline(f->ctx, BW_MEDIA_PDF, BW_STR("no pdf at all"), &d),
        BW_EINVALID);
}

/* bug-reports.md, case 64: a font whose map to Unicode is of no use. */
static void pdf__garbled_text_is_flagged(void **state)
{
    fixture *f = *state;
    static const char map[] =
        "/CIDInit /ProcSet findresource begin begincmap /CMapName /X def 1 "
        "begincodespacerange <00> <ff> endcodespacerange 1 beginbfrange "
        "<41> <5a> <E041> endbfrange endcmap";
    static const char text[] = "BT /F 10 Tf 20 350 Td (ABCDABCDABCD) Tj ET";
    char pdf[2000];
    int n = snprintf(
        pdf, sizeof pdf,
        "%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        "2 0 obj<</Type/Pages/Kids[4 0 R]/Count 1>>endobj\n"
        "3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R>>endobj\n"
        "4 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 400]/Contents 5 0 R"
        "/Resources<</Font<</F 3 0 R>>>>>>endobj\n"
        "5 0 obj<</Length %zu>>stream\n%s\nendstream endobj\n"
        "6 0 obj<</Length %zu>>stream\n%s\nendstream endobj\ntrailer<</Root 1 0 "
        "R>>\n%%%%EOF\n",
        strlen(text), text, strlen(map), map);
    bw_document d;
    assert_int_equal(
        bw_document_load(f->ctx, BW_MEDIA_PDF, (bw_str){pdf, (size_t)n}, &d), BW_OK);
    assert_true(d.garbled);
    assert_non_null(memmem(d.warning.ptr, d.warning.len, "garbled", 7));
    load_bytes(f, BW_MEDIA_PDF, pdf, make_pdf(pdf, sizeof pdf, pdf_pages, 2));
    assert_false(f->d.garbled);
    assert_true(f->d.warning.len == 0);
}

/* The child gives what the inline loader gives, for every kind. */
static void child__gives_the_same_as_inline(void **state)
{
    fixture *f = *state;
    char pdf[4096];
    size_t n = make_pdf(pdf, sizeof pdf, pdf_pages, 2);
    const struct {
        bw_media media;
        bw_str bytes;
    } cases[] = {
        {BW_MEDIA_TEXT, BW_STR("Gr\xFC\xDF"
                               "e\n\n\0zwei")},
        {BW_MEDIA_MARKDOWN, BW_STR("# A\n\ntext *b*")},
        {BW_MEDIA_HTML, BW_STR("<title>t</title><h2>x</h2><p>y")},
        {BW_MEDIA_PDF, {pdf, n}},
        {BW_MEDIA_TEXT, BW_STR("")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bw_document got;
        load_bytes(f, cases[i].media, cases[i].bytes.ptr, cases[i].bytes.len);
        if (bw_document_load(f->ctx, cases[i].media, cases[i].bytes, &got) != BW_OK)
            fail_msg("case %zu: %s", i, bw_ctx_message(f->ctx));
        assert_true(bw_str_eq(got.text, f->d.text) && bw_str_eq(got.title, f->d.title));
        assert_int_equal(got.nblocks, f->d.nblocks);
        for (size_t k = 0; k < got.nblocks; k++)
            assert_true(got.blocks[k].heading == f->d.blocks[k].heading &&
                        got.blocks[k].page == f->d.blocks[k].page);
        assert_int_equal(got.removed, f->d.removed);
    }
}

static void child__failure_is_the_documents_alone(void **state)
{
    fixture *f = *state;
    bw_document d;
    assert_int_equal(
        bw_document_load(f->ctx, BW_MEDIA_PDF, BW_STR("%PDF-1.4 broken"), &d),
        BW_EINVALID);
    assert_non_null(strstr(bw_ctx_message(f->ctx), "pdf"));
    assert_int_equal(bw_document_load(f->ctx, BW_MEDIA_TEXT, BW_STR("fine"), &d),
                     BW_OK);
    bw_ctx_set_deadline(f->ctx, bw_clock_mono_ns() + 1);
    assert_int_not_equal(bw_document_load(f->ctx, BW_MEDIA_TEXT, BW_STR("late"), &d),
                         BW_OK);
}

/* Socket, fork, executable memory: each ends the child (debug builds hold the
 * attempts). */
static void child__forbidden_calls_end_it(void **state)
{
#ifdef BW_DEBUG
    fixture *f = *state;
    for (int media = 1000; media <= 1002; media++) {
        bw_document d;
        assert_int_equal(bw_document_load(f->ctx, (bw_media)media, BW_STR("x"), &d),
                         BW_EINVALID);
        assert_non_null(strstr(bw_ctx_message(f->ctx), "ended the process"));
    }
    bw_document d;
    bw_ctx_set_deadline(f->ctx, bw_clock_mono_ns() + 300000000);
    assert_int_equal(bw_document_load(f->ctx, (bw_media)1003, BW_STR("x"), &d),
                     BW_EINVALID);
    assert_non_null(strstr(bw_ctx_message(f->ctx), "too long"));
#else
    (void)state;
    skip();
#endif
}

static void chunk__slices_cover_the_text_in_order(void **state)
{
    fixture *f = *state;
    bw_buf b = {0};
    bw_buf_puts(&b, "# One\n\n## Two\n\n");
    for (int i = 0; i < 200; i++)
        bw_buf_printf(&b,
                      "Satz Nummer %d \xC3\xBC"
                      "ber Regeln.%s",
                      i, i % 9 == 8 ? "\n\n" : " ");
    bw_buf_puts(&b, "\n\n## Three\n\nshort\n\n# Four\n\nend");
    load_bytes(f, BW_MEDIA_MARKDOWN, b.ptr, b.len);
    const bw_chunk *c;
    size_t n;
    assert_int_equal(bw_document_chunk(f->ctx, &f->d, NULL, &c, &n), BW_OK);
    assert_true(n > 5);
    assert_text(c[0].headings, "One > Two");
    assert_text(c[n - 2].headings, "One > Three");
    assert_text(c[n - 2].text, "Three\n\nshort");
    assert_text(c[n - 1].headings, "Four");
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(c[i].ordinal, i);
        assert_true(c[i].text.len <= 1400 &&
                    c[i].text.len == c[i].byte_end - c[i].byte_begin);
        assert_memory_equal(c[i].text.ptr, f->d.text.ptr + c[i].byte_begin,
                            c[i].text.len);
        assert_true(bw_utf8_valid(c[i].text.ptr, c[i].text.len));
        if (i == 0)
            continue;
        assert_true(c[i].byte_begin > c[i - 1].byte_begin &&
                    c[i].byte_end > c[i - 1].byte_end);
        for (uint64_t k = c[i - 1].byte_end; k < c[i].byte_begin; k++)
            assert_true(strchr(" \n", f->d.text.ptr[k]) != NULL);
    }
    bw_buf_clear(&b);
}

static void chunk__text_without_blanks_is_cut_between_characters(void **state)
{
    fixture *f = *state;
    bw_buf b = {0};
    for (int i = 0; i < 3000; i++)
        bw_buf_puts(&b, "\xE6\x97\xA5");
    load_bytes(f, BW_MEDIA_TEXT, b.ptr, b.len);
    const bw_chunk *c;
    size_t n;
    bw_chunk_options o = {100, 140, 20};
    assert_int_equal(bw_document_chunk(f->ctx, &f->d, &o, &c, &n), BW_OK);
    for (size_t i = 0; i < n; i++)
        assert_true(c[i].text.len <= 140 &&
                    bw_utf8_valid(c[i].text.ptr, c[i].text.len));
    assert_int_equal(c[n - 1].byte_end, f->d.text.len);
    o = (bw_chunk_options){100, 50, 0};
    assert_int_equal(bw_document_chunk(f->ctx, &f->d, &o, &c, &n), BW_EINVALID);
    bw_buf_clear(&b);
}

static void media__comes_from_names_and_types(void **state)
{
    (void)state;
    assert_int_equal(bw_media_from_name(BW_STR("a/b.PDF")), BW_MEDIA_PDF);
    assert_int_equal(bw_media_from_name(BW_STR("x.md")), BW_MEDIA_MARKDOWN);
    assert_int_equal(bw_media_from_name(BW_STR("noext")), BW_MEDIA_UNKNOWN);
    assert_int_equal(bw_media_from_type(BW_STR("text/HTML ; charset=utf-8")),
                     BW_MEDIA_HTML);
    assert_int_equal(bw_media_from_type(BW_STR("image/png")), BW_MEDIA_UNKNOWN);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(text__encodings_are_found),
        T(text__binary_is_refused_with_a_reason),
        T(text__nul_is_taken_out_and_counted),
        T(text__hidden_characters_go_and_nfc_is_made),
        T(text__blocks_are_paragraphs_with_their_bytes),
        T(markdown__structure_is_kept_and_marks_go),
        T(markdown__marks_do_not_cost_their_square),
        T(html__what_is_hidden_is_dropped),
        T(html__declared_latin_1_is_read),
        T(html__external_entities_are_not_read),
        T(loaders__hostile_repetition_is_linear_or_refused),
        T(pdf__pages_headings_paragraphs),
        T(pdf__garbled_text_is_flagged),
        T(child__gives_the_same_as_inline),
        T(child__failure_is_the_documents_alone),
        T(child__forbidden_calls_end_it),
        T(chunk__slices_cover_the_text_in_order),
        T(chunk__text_without_blanks_is_cut_between_characters),
        T(media__comes_from_names_and_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
