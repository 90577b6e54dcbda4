/* What a loader gives: runs of UTF-8 text in document order, not yet cleaned. Loaders
 * run in the child process; cleaning (document.c) runs in ours, on whatever the child
 * sent. The frames between them (child.c):
 *   u32 kind ('B' block, 'T' title, 'W' warning, 'E' end), u32 heading, status, or 1 =
 * garbled, u32 page, u32 length, then that many bytes; all in the machine's order. */
#ifndef BW_RAW_H
#define BW_RAW_H
#include "document.h"

enum {
    BW_RAW_BYTES_MAX = 64 << 20, /* all text of one document */
    BW_RAW_BLOCKS_MAX = 1 << 20,
    BW_RAW_TITLE_MAX = 300 /* bytes; a longer title is cut */
};

typedef struct bw_raw_block {
    bw_str text;
    uint32_t heading, page;
} bw_raw_block;

typedef struct bw_raw { /* arrays in ctx's arena */
    bw_ctx *ctx;
    bw_raw_block *blocks;
    size_t n, cap, bytes;
    bw_str title, warning;
    bool garbled;
} bw_raw;

/* text is copied; blank text is skipped. BW_EINVALID past the limits. */
BW_MUST_USE bw_status bw_raw_add(bw_raw *raw, uint32_t heading, uint32_t page,
                                 bw_str text);
BW_MUST_USE bw_status bw_raw_title(bw_raw *raw, bw_str title); /* the first one stays */

/* bytes -> UTF-8 in ctx's arena (or `bytes` itself): a byte order mark, valid UTF-8,
 * UTF-16 by its zero bytes, else Windows-1252 when it looks like text. charset: a name
 * that the document itself gives, or none. BW_EINVALID with the reason. */
BW_MUST_USE bw_status bw_decode_text(bw_ctx *ctx, bw_str bytes, bw_str charset,
                                     bw_str *out);

BW_MUST_USE bw_status bw_load_text(bw_str bytes, bw_raw *out);
BW_MUST_USE bw_status bw_load_markdown(bw_str bytes, bw_raw *out);
BW_MUST_USE bw_status bw_load_html(bw_str bytes, bw_raw *out);
BW_MUST_USE bw_status bw_load_pdf(bw_str bytes, bw_raw *out);
BW_MUST_USE bw_status bw_load_media(bw_media media, bw_str bytes, bw_raw *out);
void bw_load_pdf_warm_up(
    void); /* what poppler opens on first use, before opens are shut */

/* bw_load_media in a child process. */
BW_MUST_USE bw_status bw_child_load(bw_ctx *ctx, bw_media media, bw_str bytes,
                                    bw_raw *out);

/* The next line without its end (\n, \r\n, \r or \f) at *pos; false at the end of s. */
static inline bool bw_raw_line(bw_str s, size_t *pos, bw_str *line)
{
    size_t i = *pos;
    if (i >= s.len)
        return false;
    while (i < s.len && s.ptr[i] != '\n' && s.ptr[i] != '\r' && s.ptr[i] != '\f')
        i++;
    *line = (bw_str){s.ptr + *pos, i - *pos};
    *pos = i + 1 + (i + 1 < s.len && s.ptr[i] == '\r' && s.ptr[i + 1] == '\n');
    return true;
}
static inline bool bw_raw_blank(bw_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] != ' ' && s.ptr[i] != '\t' && s.ptr[i] != '\r' &&
            s.ptr[i] != '\n' && s.ptr[i] != '\f')
            return false;
    return true;
}

/* The cleaned form of UTF-8 text: NFC; controls, zero-width, bidi, tag and
 * variation characters out (counted); every kind of line end becomes \n; blanks at
 * line ends and blank lines at both ends go. one_line: line ends become spaces. */
BW_MUST_USE bw_status bw_clean_text(bw_ctx *ctx, bw_str text, bool one_line,
                                    bw_str *out, uint32_t *removed);
#endif
