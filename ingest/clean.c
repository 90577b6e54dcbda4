/* Cleaning of extracted text (raw.h): Unicode NFC (UAX #15), and no character in it
 * that a reader cannot see but a model can: controls, zero-width, bidi, tags, variation
 * selectors (smuggled instructions ride on these). What loses by it: joiners in emoji
 * and in Persian or Indic spelling; the text is for retrieval, the file stays whole. */
#include "raw.h"
#include <utf8proc.h>

/* Removed and counted. */
static bool hidden(int32_t c)
{
    if (c < 0x20 || (c >= 0x7F && c < 0xA0))
        return c != '\t' && c != '\n';
    return c == 0xAD || c == 0x034F || c == 0x061C || c == 0x180E ||
           (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) ||
           (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
           (c >= 0xFE00 && c <= 0xFE0F) || (c >= 0xFFF9 && c <= 0xFFFB) ||
           (c >= 0xE0000 && c <= 0xE0FFF) || c == 0x3164 || c == 0xFFA0 ||
           (c >= 0x115F && c <= 0x1160);
}

static bool line_end(int32_t c)
{
    return c == '\n' || c == '\r' || c == '\f' || c == 0x0B || c == 0x85 ||
           c == 0x2028 || c == 0x2029;
}

/* Writes the text without hidden characters; *wide tells whether NFC has work to do
 * (below U+0300 every character is its own NFC and combines with nothing there). */
static size_t strip(bw_str text, bool one_line, char *out, bool *wide,
                    uint32_t *removed)
{
    size_t n = 0, kept = 0; /* kept: up to the last character that is no blank */
    bool after_cr = false;
    *wide = false;
    for (size_t i = 0; i < text.len;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t len = utf8proc_iterate((const utf8proc_uint8_t *)text.ptr + i,
                                                (utf8proc_ssize_t)(text.len - i), &c);
        if (len <= 0) { /* not reached: callers checked the text */
            i++;
            continue;
        }
        bool lf_of_crlf = after_cr && c == '\n';
        after_cr = c == '\r';
        if (line_end(c)) {
            n = kept; /* blanks before a line end go */
            if (!lf_of_crlf && n > 0) {
                out[n++] = one_line ? ' ' : '\n';
                kept = one_line ? kept : n;
            }
        } else if (hidden(c)) {
            *removed += *removed < UINT32_MAX;
        } else if (one_line && (c == ' ' || c == '\t') &&
                   (n == 0 || out[n - 1] == ' ')) {
            /* blanks run together */
        } else {
            *wide = *wide || c >= 0x300;
            memcpy(out + n, text.ptr + i, (size_t)len);
            n += (size_t)len;
            if (c != ' ' && c != '\t')
                kept = n;
        }
        i += (size_t)len;
    }
    n = kept;
    while (n > 0 && out[n - 1] == '\n')
        n--;
    return n;
}

static bw_status compose(bw_ctx *ctx, bw_str text, bw_str *out)
{
    const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    utf8proc_ssize_t count =
        utf8proc_decompose((const utf8proc_uint8_t *)text.ptr,
                           (utf8proc_ssize_t)text.len, NULL, 0, options);
    utf8proc_int32_t *points =
        count < 0 ? NULL : bw_arena_alloc(ctx, ((size_t)count + 1) * sizeof *points);
    if (!points)
        return count < 0 ? bw_fail(ctx, BW_EINVALID, "text: not valid UTF-8")
                         : bw_fail_nomem(ctx);
    count = utf8proc_decompose((const utf8proc_uint8_t *)text.ptr,
                               (utf8proc_ssize_t)text.len, points, count, options);
    count = count < 0 ? count : utf8proc_normalize_utf32(points, count, options);
    char *buf = count < 0 ? NULL : bw_arena_alloc(ctx, 4 * (size_t)count + 1);
    if (!buf)
        return count < 0 ? bw_fail(ctx, BW_EINVALID, "text: not valid UTF-8")
                         : bw_fail_nomem(ctx);
    size_t n = 0;
    for (utf8proc_ssize_t i = 0; i < count; i++)
        n += (size_t)utf8proc_encode_char(points[i], (utf8proc_uint8_t *)buf + n);
    *out = (bw_str){buf, n};
    return BW_OK;
}

bw_status bw_clean_text(bw_ctx *ctx, bw_str text, bool one_line, bw_str *out,
                        uint32_t *removed)
{
    if (!bw_utf8_valid(text.ptr, text.len))
        return bw_fail(ctx, BW_EINVALID, "text: not valid UTF-8");
    char *buf = bw_arena_alloc(ctx, text.len + 1);
    bool wide;
    if (!buf)
        return bw_fail_nomem(ctx);
    bw_str clean = {buf, strip(text, one_line, buf, &wide, removed)};
    if (wide)
        return compose(ctx, clean, out);
    *out = clean;
    return BW_OK;
}
