/* PDF through poppler-glib: each page's text in reading order with the place of every
 * character. Lines are put together to paragraphs by the gaps between them; headings
 * are lines set larger than the body (the height that most characters have). Text that
 * looks garbled (fonts without a map to Unicode) is flagged, not refused. Left out:
 * tables' structure, forms, annotations, attachments, scans (no OCR: "no text" is
 * said). */
#include "raw.h"
#include <poppler.h>

enum { PAGES_MAX = 20000, LINES_MAX = 1 << 20 };

typedef struct pdf_line {
    bw_str text;
    double top, bottom, left;
    uint32_t page, chars;
} pdf_line;

typedef struct pdf {
    bw_raw *out;
    pdf_line *lines;
    size_t n, cap;
    size_t bytes, chars, odd; /* odd: characters that no text should hold */
} pdf;

static double height(const pdf_line *l)
{
    return l->bottom - l->top;
}

static bw_status add_line(pdf *p, const pdf_line *line)
{
    bw_ctx *ctx = p->out->ctx;
    if (p->n == LINES_MAX || line->text.len > BW_RAW_BYTES_MAX - p->bytes)
        return bw_fail(ctx, BW_EINVALID, "pdf: more text than the limit");
    if (p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 256;
        pdf_line *grown =
            bw_arena_grow(ctx, p->lines, p->n * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return bw_fail_nomem(ctx);
        p->lines = grown;
        p->cap = cap;
    }
    p->lines[p->n] = *line;
    p->bytes += line->text.len;
    return bw_arena_str(ctx, line->text, &p->lines[p->n++].text);
}

static bool odd_char(gunichar c)
{
    return c == 0xFFFD || (c < 0x20 && c != '\t') || (c >= 0x7F && c < 0xA0) ||
           (c >= 0xE000 && c < 0xF900) || c >= 0xF0000 || (c & 0xFFFE) == 0xFFFE;
}

static bw_status read_page(pdf *p, PopplerPage *page, uint32_t number)
{
    char *text = poppler_page_get_text(page);
    PopplerRectangle *at = NULL;
    guint nat = 0;
    bw_status st = BW_OK;
    if (!text || !g_utf8_validate(text, -1, NULL) ||
        !poppler_page_get_text_layout(page, &at, &nat))
        nat = 0;
    pdf_line line = {.page = number, .text = {text, 0}};
    size_t i = 0;
    for (const char *c = text; text && g_utf8_validate(text, -1, NULL) && !st; i++) {
        gunichar u = g_utf8_get_char(c);
        if (u == 0 || u == '\n') {
            line.text.len = (size_t)(c - line.text.ptr);
            if (!bw_raw_blank(line.text))
                st = add_line(p, &line);
            if (u == 0)
                break;
            line = (pdf_line){.page = number, .text = {c + 1, 0}};
        } else {
            p->chars++;
            p->odd += odd_char(u);
            if (i < nat && u != ' ' && at[i].y2 > at[i].y1) {
                bool first = line.chars == 0;
                line.left = first ? at[i].x1 : line.left;
                line.top = first || at[i].y1 < line.top ? at[i].y1 : line.top;
                line.bottom = first || at[i].y2 > line.bottom ? at[i].y2 : line.bottom;
                line.chars++;
            }
        }
        c = g_utf8_next_char(c);
    }
    g_free(at);
    g_free(text);
    return st;
}

static int by_height(const void *a, const void *b)
{
    double x = height(a), y = height(b);
    return x < y ? -1 : x > y;
}

/* The height that the middle character has. */
static bw_status body_height(pdf *p, double *out)
{
    pdf_line *sorted = bw_arena_grow(p->out->ctx, p->lines, p->n * sizeof *sorted,
                                     (p->n + 1) * sizeof *sorted);
    if (!sorted)
        return bw_fail_nomem(p->out->ctx);
    qsort(sorted, p->n, sizeof *sorted, by_height);
    size_t half = 0, seen = 0;
    for (size_t i = 0; i < p->n; i++)
        half += sorted[i].chars;
    *out = 0;
    for (size_t i = 0; i < p->n && 2 * seen <= half; i++) {
        seen += sorted[i].chars;
        *out = height(&sorted[i]);
    }
    return BW_OK;
}

static uint32_t heading_level(const pdf_line *l, double body)
{
    double ratio = body > 0 && l->text.len < 200 ? height(l) / body : 1;
    return ratio >= 1.7 ? 1 : ratio >= 1.35 ? 2 : ratio >= 1.15 ? 3 : 0;
}

/* b goes on with the paragraph of a. */
static bool continues(const pdf_line *a, const pdf_line *b, double body)
{
    if (a->page != b->page || heading_level(a, body) != heading_level(b, body))
        return false;
    double gap = b->top - a->bottom, h = height(a) > height(b) ? height(a) : height(b);
    return gap < 0.6 * h && gap > -1.5 * h;
}

static bool lower(const char *p, size_t n)
{
    return n > 0 && (g_unichar_islower(g_utf8_get_char(p)));
}

/* Appends a line to the paragraph; a word cut at the line's end is put together. */
static void join(bw_buf *b, bw_str line)
{
    while (line.len && (line.ptr[0] == ' ' || line.ptr[0] == '\t'))
        line = (bw_str){line.ptr + 1, line.len - 1};
    if (b->len >= 2 && memcmp(b->ptr + b->len - 2, "\xC2\xAD", 2) == 0)
        b->len -= 2;
    else if (b->len >= 2 && b->ptr[b->len - 1] == '-' && b->ptr[b->len - 2] != ' ' &&
             b->ptr[b->len - 2] != '-' && lower(line.ptr, line.len))
        b->len -= 1;
    else if (b->len)
        bw_buf_putc(b, ' ');
    bw_buf_str(b, line);
    while (!b->failed && b->len && b->ptr[b->len - 1] == ' ')
        b->len--;
}

static bw_status put_blocks(pdf *p)
{
    double body = 0;
    bw_buf b = {0};
    bw_status st = body_height(p, &body);
    for (size_t i = 0; i < p->n && !st; i++) {
        join(&b, p->lines[i].text);
        if (i + 1 < p->n && continues(&p->lines[i], &p->lines[i + 1], body))
            continue;
        st = b.failed ? bw_fail_nomem(p->out->ctx)
                      : bw_raw_add(p->out, heading_level(&p->lines[i], body),
                                   p->lines[i].page, bw_buf_view(&b));
        b.len = 0;
    }
    bw_buf_clear(&b);
    return st;
}

static bw_status read_pages(PopplerDocument *doc, bw_raw *out)
{
    pdf p = {.out = out};
    int pages = poppler_document_get_n_pages(doc);
    if (pages > PAGES_MAX)
        return bw_fail(out->ctx, BW_EINVALID, "pdf: more than %d pages", PAGES_MAX);
    bw_status st = BW_OK;
    for (int i = 0; i < pages && !st; i++) {
        PopplerPage *page = poppler_document_get_page(doc, i);
        if (!page)
            continue;
        st = read_page(&p, page, (uint32_t)i + 1);
        g_object_unref(page);
    }
    if (!st)
        st = put_blocks(&p);
    if (p.chars == 0)
        out->warning = BW_STR("the PDF holds no text; it may be a scan");
    out->garbled = p.odd * 5 > p.chars;
    if (out->garbled)
        out->warning =
            BW_STR("the text of this PDF looks garbled: its fonts do not say what "
                   "their glyphs mean");
    char *title = st ? NULL : poppler_document_get_title(doc);
    if (title && g_utf8_validate(title, -1, NULL))
        st = bw_raw_title(out, bw_str_c(title));
    g_free(title);
    return st;
}

bw_status bw_load_pdf(bw_str bytes, bw_raw *out)
{
    GError *error = NULL;
    if (bytes.len < 8 || bytes.len > INT32_MAX)
        return bw_fail(out->ctx, BW_EINVALID, "pdf: too short or too long");
    GBytes *copy = g_bytes_new_static(bytes.ptr, bytes.len);
    PopplerDocument *doc = poppler_document_new_from_bytes(copy, NULL, &error);
    bw_status st;
    if (doc)
        st = read_pages(doc, out);
    else if (error && g_error_matches(error, POPPLER_ERROR, POPPLER_ERROR_ENCRYPTED))
        st = bw_fail(out->ctx, BW_EINVALID, "pdf: encrypted with a password");
    else
        st = bw_fail(out->ctx, BW_EINVALID, "pdf: damaged or not a PDF");
    if (doc)
        g_object_unref(doc);
    g_clear_error(&error);
    g_bytes_unref(copy);
    return st;
}

void bw_load_pdf_warm_up(void)
{
    static const char tiny[] =
        "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 "
        "R/Resources"
        "<</Font<</F 5 0 R/G 6 0 R>>>>>>endobj\n"
        "4 0 obj<</Length 61>>stream\nBT /F 12 Tf 9 9 Td (warm) Tj /G 12 Tf 9 30 Td "
        "<00410042> Tj ET\nendstream endobj\n"
        "5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n"
        "6 0 "
        "obj<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/"
        "DescendantFonts[7 0 R]>>endobj\n"
        "7 0 "
        "obj<</Type/Font/Subtype/CIDFontType2/BaseFont/X/CIDSystemInfo<</"
        "Registry(Adobe)/Ordering(Japan1)"
        "/Supplement 0>>>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n";
    bw_ctx *ctx = bw_ctx_new(1 << 20);
    bw_raw raw = {.ctx = ctx};
    if (ctx)
        (void)!bw_load_pdf((bw_str){tiny, sizeof tiny - 1}, &raw);
    bw_ctx_free(ctx);
}
