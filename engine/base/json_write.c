/* Writing JSON into a bw_buf. Output is valid whatever comes in: bytes that are no
 * UTF-8 become U+FFFD, numbers that are not finite become null.
 *
 * Reals are the shortest of printf's %g that reads back the same; for f32 at everyday
 * magnitudes the digits are made in double arithmetic instead and proved by reading
 * them back, which printf and strtof needed about ten times as long for. */
#include "json.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void put_escape(bw_buf *b, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char esc[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    char second = 0;
    switch (c) {
    case '"':
    case '\\':
        second = (char)c;
        break;
    case '\b':
        second = 'b';
        break;
    case '\f':
        second = 'f';
        break;
    case '\n':
        second = 'n';
        break;
    case '\r':
        second = 'r';
        break;
    case '\t':
        second = 't';
        break;
    default:
        break;
    }
    esc[1] = second ? second : 'u';
    bw_buf_put(b, esc, second ? 2 : 6);
}

void bw_json_put_str(bw_buf *b, bw_str s)
{
    const char *p = s.ptr ? s.ptr : "", *end = p + s.len, *run = p;
    bw_buf_putc(b, '"');
    while (p < end) {
        p = bw_text__plain_end(p, end);
        if (p == end)
            break;
        unsigned char c = (unsigned char)*p;
        size_t len =
            c >= 0x80 ? bw_utf8__sequence((const unsigned char *)p, (size_t)(end - p))
                      : 0;
        if (len) {
            p += len;
            continue;
        }
        bw_buf_put(b, run, (size_t)(p - run));
        if (c >= 0x80)
            bw_buf_puts(b, "\xEF\xBF\xBD");
        else
            put_escape(b, c);
        run = ++p;
    }
    bw_buf_put(b, run, (size_t)(end - run));
    bw_buf_putc(b, '"');
}

void bw_json_sep(bw_buf *b)
{
    char last = b->len ? b->ptr[b->len - 1] : '{';
    if (last != '{' && last != '[' && last != ':' && last != ',')
        bw_buf_putc(b, ',');
}

void bw_json_put_key(bw_buf *b, const char *k)
{
    bw_json_sep(b);
    bw_json_put_str(b, bw_str_c(k));
    bw_buf_putc(b, ':');
}

void bw_json_put_strs(bw_buf *b, const char *key, const bw_str *s, size_t n)
{
    bw_json_put_key(b, key);
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < n; i++) {
        bw_json_sep(b);
        bw_json_put_str(b, s[i]);
    }
    bw_buf_putc(b, ']');
}

void bw_json_put_u64(bw_buf *b, uint64_t v)
{
    char text[20], *p = text + sizeof text;
    do {
        *--p = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    bw_buf_put(b, p, (size_t)(text + sizeof text - p));
}

void bw_json_put_i64(bw_buf *b, int64_t v)
{
    if (v < 0)
        bw_buf_putc(b, '-');
    bw_json_put_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* printf's text with JSON's decimal point, should a library have set a locale. */
static size_t print_g(char text[40], int precision, double v)
{
    int n = snprintf(text, 40, "%.*g", precision, v);
    for (int i = 0; i < n; i++)
        if (text[i] == ',')
            text[i] = '.';
    return (size_t)n;
}

/* significand * 10^-places in plain notation. */
static size_t print_digits(char text[40], bool negative, uint64_t significand,
                           int places)
{
    char digits[20];
    int n = 0;
    size_t o = 0;
    for (; significand; significand /= 10)
        digits[n++] = (char)('0' + significand % 10);
    if (negative)
        text[o++] = '-';
    if (n <= places)
        text[o++] = '0';
    for (int i = n; i > places;)
        text[o++] = digits[--i];
    if (places > 0) {
        text[o++] = '.';
        for (int i = places; i > n; i--)
            text[o++] = '0';
        for (int i = n < places ? n : places; i > 0;)
            text[o++] = digits[--i];
    }
    return o;
}

/* Digits of |v| in 1e-5 … 1e9, six to nine of them; 0 when printf has to do it. Six
 * always tell decimals of six digits apart, so what is shorter ends with zeros then.
 * significand / 10^places is rounded once (both are exact doubles), so the test below
 * is what a reader of the text computes. */
static size_t print_f32_fast(char text[40], float v)
{
    static const double pow10[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6, 1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
    double a = fabs((double)v);
    if (!(a >= 1e-5 && a < 1e9))
        return 0;
    int whole = 1; /* digits before the point; 0 or less below 0.1 */
    if (a >= 1)
        while (a >= pow10[whole])
            whole++;
    else
        for (double t = a; t < 1; whole--)
            t *= 10;
    for (int precision = 6; precision <= 9; precision++) {
        int places = precision - whole;
        if (places < 0)
            continue;
        double scaled = a * pow10[places];
        uint64_t m = (uint64_t)(scaled + 0.5);
        if (m == 0 || (float)((double)m / pow10[places]) != (float)a)
            continue;
        while (places > 0 && m % 10 == 0) {
            m /= 10;
            places--;
        }
        return print_digits(text, v < 0, m, places);
    }
    return 0;
}

void bw_json_put_f32(bw_buf *b, float v)
{
    char text[40];
    if (!isfinite(v)) {
        bw_buf_puts(b, "null");
        return;
    }
    size_t n = print_f32_fast(text, v);
    for (int precision = 6; n == 0; precision++) {
        n = print_g(text, precision, (double)v);
        if (precision < 9 && strtof(text, NULL) != v)
            n = 0;
    }
    bw_buf_put(b, text, n);
}

void bw_json_put_f64(bw_buf *b, double v)
{
    char text[40];
    if (!isfinite(v)) {
        bw_buf_puts(b, "null");
        return;
    }
    size_t n = 0;
    for (int precision = 15; n == 0; precision++) {
        n = print_g(text, precision, v);
        if (precision < 17 && strtod(text, NULL) != v)
            n = 0;
    }
    bw_buf_put(b, text, n);
}

void bw_json_put_point_id(bw_buf *b, const bw_point_id *id)
{
    if (!id->is_uuid) {
        bw_json_put_u64(b, id->lo);
        return;
    }
    char text[BW_UUID_TEXT + 1];
    bw_uuid_format(id, text);
    bw_buf_putc(b, '"');
    bw_buf_put(b, text, BW_UUID_TEXT);
    bw_buf_putc(b, '"');
}
