/* JUnit XML (junit.h). XML 1.0 section 2.2 allows no control character but tab, LF and
 * CR, not even escaped, and neither U+FFFE nor U+FFFF: those become "?". */
#include "junit.h"

/* Bytes of a character that XML refuses, or 0. Text is UTF-8 unless it came from a file
 * name. */
static size_t refused(const char *p, size_t n, bool valid)
{
    unsigned char c = (unsigned char)p[0];
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f || (!valid && c >= 0x80))
        return 1;
    return n >= 3 && c == 0xEF && (unsigned char)p[1] == 0xBF &&
                   (unsigned char)p[2] >= 0xBE
               ? 3
               : 0;
}

static void put_text(bw_buf *b, bw_str s)
{
    bool valid = bw_utf8_valid(s.ptr, s.len);
    for (size_t i = 0; i < s.len; i++) {
        size_t skip = refused(s.ptr + i, s.len - i, valid);
        if (skip > 0) {
            bw_buf_putc(b, '?');
            i += skip - 1;
            continue;
        }
        switch (s.ptr[i]) {
        case '<':
            bw_buf_puts(b, "&lt;");
            break;
        case '>':
            bw_buf_puts(b, "&gt;");
            break;
        case '&':
            bw_buf_puts(b, "&amp;");
            break;
        case '"':
            bw_buf_puts(b, "&quot;");
            break;
        case '\n': /* a line break in an attribute would be read as a blank */
            bw_buf_puts(b, "&#10;");
            break;
        default:
            bw_buf_putc(b, s.ptr[i]);
        }
    }
}

static void put_attribute(bw_buf *b, const char *name, bw_str value)
{
    bw_buf_printf(b, " %s=\"", name);
    put_text(b, value);
    bw_buf_putc(b, '"');
}

static void open_case(bw_buf *b, const char *file, bw_str name)
{
    bw_buf_puts(b, "  <testcase");
    put_attribute(b, "classname", bw_str_c(file));
    put_attribute(b, "name", name);
}

/* A failure's message is its lines in one; the text repeats them with the question. */
static void put_case(bw_buf *b, const char *file, const bw_policy_case *c)
{
    open_case(b, file, c->name);
    if (c->failure.len == 0) {
        bw_buf_puts(b, "/>\n");
        return;
    }
    bw_buf_puts(b, "><failure");
    put_attribute(b, "message", c->failure);
    bw_buf_putc(b, '>');
    put_text(b, c->question);
    bw_buf_puts(b, "&#10;");
    put_text(b, c->failure);
    bw_buf_puts(b, "</failure></testcase>\n");
}

void bw_junit_put(bw_buf *b, const char *file, const bw_policy_test_result *r, bw_str error)
{
    size_t errors = error.len > 0;
    bw_buf_puts(b, " <testsuite");
    put_attribute(b, "name", bw_str_c(file));
    bw_buf_printf(b, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"0\">\n",
                  r->n + errors, r->failed, errors);
    for (size_t i = 0; i < r->n; i++)
        put_case(b, file, &r->cases[i]);
    if (errors) {
        open_case(b, file, bw_str_c("the file"));
        bw_buf_puts(b, "><error");
        put_attribute(b, "message", error);
        bw_buf_puts(b, "/></testcase>\n");
    }
    bw_buf_puts(b, " </testsuite>\n");
}

void bw_junit_document(bw_buf *out, bw_str suites, size_t tests, size_t failures,
                       size_t errors)
{
    bw_buf_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    bw_buf_printf(out,
                  "<testsuites tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n", tests,
                  failures, errors);
    bw_buf_str(out, suites);
    bw_buf_puts(out, "</testsuites>\n");
}
