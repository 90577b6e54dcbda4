/* Document -> clean text with blocks (document.h): picks the loader, runs it in a child
 * process, cleans what came back, lays the blocks out in one text. */
#include "raw.h"
#include <strings.h>

static const struct {
    const char *extension, *type;
    bw_media media;
} kinds[] = {
    {"txt", "text/plain", BW_MEDIA_TEXT},
    {"text", NULL, BW_MEDIA_TEXT},
    {"log", NULL, BW_MEDIA_TEXT},
    {"md", "text/markdown", BW_MEDIA_MARKDOWN},
    {"markdown", "text/x-markdown", BW_MEDIA_MARKDOWN},
    {"html", "text/html", BW_MEDIA_HTML},
    {"htm", NULL, BW_MEDIA_HTML},
    {"xhtml", "application/xhtml+xml", BW_MEDIA_HTML},
    {"pdf", "application/pdf", BW_MEDIA_PDF},
};

static bool same(bw_str s, const char *word)
{
    return word && strlen(word) == s.len && strncasecmp(s.ptr, word, s.len) == 0;
}

bw_media bw_media_from_name(bw_str name)
{
    const char *dot = name.len ? memrchr(name.ptr, '.', name.len) : NULL;
    if (!dot)
        return BW_MEDIA_UNKNOWN;
    bw_str extension = {dot + 1, (size_t)(name.ptr + name.len - dot) - 1};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (same(extension, kinds[i].extension))
            return kinds[i].media;
    return BW_MEDIA_UNKNOWN;
}

bw_media bw_media_from_type(bw_str type)
{
    const char *semicolon = type.len ? memchr(type.ptr, ';', type.len) : NULL;
    if (semicolon)
        type.len = (size_t)(semicolon - type.ptr);
    while (type.len &&
           (type.ptr[type.len - 1] == ' ' || type.ptr[type.len - 1] == '\t'))
        type.len--;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (same(type, kinds[i].type))
            return kinds[i].media;
    return BW_MEDIA_UNKNOWN;
}

bw_status bw_load_media(bw_media media, bw_str bytes, bw_raw *out)
{
    switch (media) {
    case BW_MEDIA_TEXT:
        return bw_load_text(bytes, out);
    case BW_MEDIA_MARKDOWN:
        return bw_load_markdown(bytes, out);
    case BW_MEDIA_HTML:
        return bw_load_html(bytes, out);
    case BW_MEDIA_PDF:
        return bw_load_pdf(bytes, out);
    case BW_MEDIA_UNKNOWN:
        break;
    }
    return bw_fail(out->ctx, BW_EINVALID, "a document of this kind cannot be read");
}

bw_status bw_raw_add(bw_raw *raw, uint32_t heading, uint32_t page, bw_str text)
{
    if (bw_raw_blank(text))
        return BW_OK;
    if (text.len > BW_RAW_BYTES_MAX - raw->bytes || raw->n == BW_RAW_BLOCKS_MAX)
        return bw_fail(raw->ctx, BW_EINVALID,
                       "the document holds more text than the limit of %u bytes",
                       (unsigned)BW_RAW_BYTES_MAX);
    if (raw->n == raw->cap) {
        size_t cap = raw->cap ? raw->cap * 2 : 64;
        bw_raw_block *grown = bw_arena_grow(
            raw->ctx, raw->blocks, raw->n * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return bw_fail_nomem(raw->ctx);
        raw->blocks = grown;
        raw->cap = cap;
    }
    bw_str copy;
    bw_status st = bw_arena_str(raw->ctx, text, &copy);
    if (st)
        return st;
    raw->blocks[raw->n++] = (bw_raw_block){copy, heading > 6 ? 6 : heading, page};
    raw->bytes += text.len;
    return BW_OK;
}

bw_status bw_raw_title(bw_raw *raw, bw_str title)
{
    if (raw->title.len || bw_raw_blank(title))
        return BW_OK;
    if (title.len > BW_RAW_TITLE_MAX) {
        title.len = BW_RAW_TITLE_MAX;
        while (title.len && ((unsigned char)title.ptr[title.len] & 0xC0) == 0x80)
            title.len--;
    }
    return bw_arena_str(raw->ctx, title, &raw->title);
}

/* The blocks' clean texts one after the other, a blank line between them. */
static bw_status lay_out(bw_ctx *ctx, const bw_raw *raw, bw_block *blocks,
                         bw_document *d)
{
    size_t n = 0, total = 0;
    for (size_t i = 0; i < raw->n; i++) {
        bw_str text;
        bw_status st = bw_clean_text(ctx, raw->blocks[i].text,
                                     raw->blocks[i].heading != 0, &text, &d->removed);
        if (st)
            return st;
        if (text.len == 0)
            continue;
        total += n ? 2 : 0;
        blocks[n++] = (bw_block){text, raw->blocks[i].heading, raw->blocks[i].page,
                                 total, total + text.len};
        total += text.len;
    }
    char *all = bw_arena_alloc(ctx, total + 1);
    if (!all)
        return bw_fail_nomem(ctx);
    for (size_t i = 0; i < n; i++) {
        if (i)
            memcpy(all + blocks[i].byte_begin - 2, "\n\n", 2);
        memcpy(all + blocks[i].byte_begin, blocks[i].text.ptr, blocks[i].text.len);
        blocks[i].text.ptr = all + blocks[i].byte_begin;
    }
    d->blocks = blocks;
    d->nblocks = n;
    d->text = (bw_str){all, total};
    return BW_OK;
}

static bw_status build(bw_ctx *ctx, const bw_raw *raw, bw_document *out)
{
    bw_document d = {.warning = raw->warning, .garbled = raw->garbled};
    bw_block *blocks = bw_arena_calloc(ctx, raw->n + 1, sizeof *blocks);
    if (!blocks)
        return bw_fail_nomem(ctx);
    bw_status st = lay_out(ctx, raw, blocks, &d);
    if (!st && raw->title.len)
        st = bw_clean_text(ctx, raw->title, true, &d.title, &d.removed);
    if (st)
        return st;
    if (d.title.len == 0)
        d.title = (bw_str){NULL, 0};
    for (size_t i = 0; i < d.nblocks && !d.title.ptr; i++)
        if (d.blocks[i].heading == 1)
            d.title = d.blocks[i].text;
    if (d.title.len > BW_RAW_TITLE_MAX)
        d.title = (bw_str){NULL, 0};
    *out = d;
    return BW_OK;
}

bw_status bw_document_load_inline(bw_ctx *ctx, bw_media media, bw_str bytes,
                                  bw_document *out)
{
    bw_raw raw = {.ctx = ctx};
    bw_status st = bw_load_media(media, bytes, &raw);
    return st ? st : build(ctx, &raw, out);
}

bw_status bw_document_load(bw_ctx *ctx, bw_media media, bw_str bytes, bw_document *out)
{
    bw_raw raw = {.ctx = ctx};
    bw_status st = bw_child_load(ctx, media, bytes, &raw);
    return st ? st : build(ctx, &raw, out);
}
