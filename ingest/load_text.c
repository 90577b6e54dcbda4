/* Plain text: finds the encoding, cuts at blank lines and form feeds. */
#include "raw.h"
#include <strings.h>

/* 0x80 … 0x9F of Windows-1252; 0 = not assigned. */
static const uint16_t windows_1252[32] = {
    0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
    0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0,      0x017D, 0,
    0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
    0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};

static size_t put_char(char *o, uint32_t c)
{
    unsigned char *p = (unsigned char *)o;
    if (c < 0x80) {
        p[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        p[0] = (unsigned char)(0xC0 | c >> 6);
        p[1] = (unsigned char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        p[0] = (unsigned char)(0xE0 | c >> 12);
        p[1] = (unsigned char)(0x80 | (c >> 6 & 63));
        p[2] = (unsigned char)(0x80 | (c & 63));
        return 3;
    }
    p[0] = (unsigned char)(0xF0 | c >> 18);
    p[1] = (unsigned char)(0x80 | (c >> 12 & 63));
    p[2] = (unsigned char)(0x80 | (c >> 6 & 63));
    p[3] = (unsigned char)(0x80 | (c & 63));
    return 4;
}

static bw_status from_utf16(bw_ctx *ctx, bw_str in, bool big, bw_str *out)
{
    const unsigned char *p = (const unsigned char *)in.ptr;
    char *buf = bw_arena_alloc(ctx, in.len / 2 * 3 + 4);
    size_t n = 0;
    if (!buf)
        return bw_fail_nomem(ctx);
    if (in.len % 2)
        return bw_fail(ctx, BW_EINVALID, "text: UTF-16 with an odd number of bytes");
    for (size_t i = 0; i < in.len; i += 2) {
        uint32_t c =
            big ? (uint32_t)p[i] << 8 | p[i + 1] : (uint32_t)p[i + 1] << 8 | p[i];
        if (c >= 0xD800 && c < 0xE000) {
            uint32_t low = 0;
            if (i + 3 < in.len)
                low = big ? (uint32_t)p[i + 2] << 8 | p[i + 3]
                          : (uint32_t)p[i + 3] << 8 | p[i + 2];
            if (c >= 0xDC00 || low < 0xDC00 || low > 0xDFFF)
                return bw_fail(ctx, BW_EINVALID,
                               "text: UTF-16 with half a surrogate pair");
            c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
            i += 2;
        }
        n += put_char(buf + n, c);
    }
    *out = (bw_str){buf, n};
    return BW_OK;
}

static bw_status from_single_byte(bw_ctx *ctx, bw_str in, bool euro_9, bw_str *out)
{
    const unsigned char *p = (const unsigned char *)in.ptr;
    char *buf = bw_arena_alloc(ctx, in.len * 3 + 1);
    size_t n = 0, odd = 0;
    if (!buf)
        return bw_fail_nomem(ctx);
    for (size_t i = 0; i < in.len; i++) {
        uint32_t c = p[i];
        if (c >= 0x80 && c < 0xA0)
            c = windows_1252[c - 0x80];
        else if (euro_9 && c == 0xA4)
            c = 0x20AC;
        odd += c == 0 || (c < 0x20 && !strchr("\t\n\r\f", (int)c));
        n += put_char(buf + n, c ? c : 0xFFFD);
    }
    if (odd > in.len / 50 + 2)
        return bw_fail(ctx, BW_EINVALID,
                       "text: the bytes are neither UTF-8, UTF-16 nor Latin-1 text");
    *out = (bw_str){buf, n};
    return BW_OK;
}

/* 'L' or 'B' when zero bytes stand nearly everywhere on one side only; 0 otherwise. */
static char utf16_by_zeros(bw_str s)
{
    size_t zeros[2] = {0, 0}, look = s.len < 4096 ? s.len & ~(size_t)1 : 4096;
    for (size_t i = 0; i < look; i++)
        zeros[i % 2] += s.ptr[i] == 0;
    if (look < 4)
        return 0;
    if (zeros[1] > look * 3 / 10 && zeros[0] < look / 50 + 1)
        return 'L';
    return zeros[0] > look * 3 / 10 && zeros[1] < look / 50 + 1 ? 'B' : 0;
}

static bool starts(bw_str s, const char *bytes, size_t n)
{
    return s.len >= n && memcmp(s.ptr, bytes, n) == 0;
}

static bw_str skip(bw_str s, size_t n)
{
    return (bw_str){s.ptr + n, s.len - n};
}

static bool named(bw_str charset, const char *const *names)
{
    for (; *names; names++)
        if (strlen(*names) == charset.len &&
            strncasecmp(charset.ptr, *names, charset.len) == 0)
            return true;
    return false;
}

/* Valid UTF-8: few zero bytes are dropped later, many mean that this is no text. */
static bw_status check_binary(bw_ctx *ctx, bw_str s)
{
    size_t odd = 0;
    for (size_t i = 0; i < s.len; i++)
        odd += (unsigned char)s.ptr[i] < 0x20 &&
               (s.ptr[i] == 0 || !strchr("\t\n\r\f\033", s.ptr[i]));
    return odd > s.len / 10 + 8
               ? bw_fail(ctx, BW_EINVALID, "text: binary data, not text")
               : BW_OK;
}

bw_status bw_decode_text(bw_ctx *ctx, bw_str s, bw_str charset, bw_str *out)
{
    static const char *const latin[] = {"iso-8859-1",   "latin1", "latin-1",
                                        "windows-1252", "cp1252", "us-ascii",
                                        "ascii",        NULL};
    static const char *const latin9[] = {"iso-8859-15", "latin9", "latin-9", NULL};
    static const char *const utf8[] = {"utf-8", "utf8", "unicode-1-1-utf-8", NULL};
    if (starts(s, "\xFF\xFE\0\0", 4) || starts(s, "\0\0\xFE\xFF", 4))
        return bw_fail(ctx, BW_EINVALID, "text: UTF-32 is not read");
    if (starts(s, "\xFF\xFE", 2) || starts(s, "\xFE\xFF", 2))
        return from_utf16(ctx, skip(s, 2), s.ptr[0] == '\xFE', out);
    char side = utf16_by_zeros(s);
    if (side)
        return from_utf16(ctx, s, side == 'B', out);
    if (starts(s, "\xEF\xBB\xBF", 3))
        s = skip(s, 3);
    if (bw_utf8_valid(s.ptr, s.len)) {
        *out = s;
        return check_binary(ctx, s);
    }
    if (named(charset, utf8))
        return bw_fail(ctx, BW_EINVALID, "text: declared as UTF-8, but it is not");
    if (charset.len && !named(charset, latin) && !named(charset, latin9))
        return bw_fail(ctx, BW_EINVALID, "text: an encoding that is not read");
    return from_single_byte(ctx, s, named(charset, latin9), out);
}

bw_status bw_load_text(bw_str bytes, bw_raw *out)
{
    bw_str s = {NULL, 0}, line;
    bw_status st = bw_decode_text(out->ctx, bytes, (bw_str){NULL, 0}, &s);
    size_t begin = 0, pos = 0; /* of the block, of the next line */
    while (!st && bw_raw_line(s, &pos, &line)) {
        size_t at = (size_t)(line.ptr - s.ptr), end = at + line.len;
        if (bw_raw_blank(line)) {
            st = bw_raw_add(out, 0, 0, (bw_str){s.ptr + begin, at - begin});
            begin = pos < s.len ? pos : s.len;
        } else if (end < s.len && s.ptr[end] == '\f') {
            st = bw_raw_add(out, 0, 0, (bw_str){s.ptr + begin, end - begin});
            begin = pos < s.len ? pos : s.len;
        }
    }
    return st ? st : bw_raw_add(out, 0, 0, (bw_str){s.ptr + begin, s.len - begin});
}
