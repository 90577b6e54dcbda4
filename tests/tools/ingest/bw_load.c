/* bw_load [--inline] FILE…: loads documents as the cell does and prints their blocks
 * and chunks as JSON lines. For tests and for looking at what a loader makes of a file.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/json.h"
#include "ingest/document.h"

static bool read_all(bw_ctx *ctx, const char *path, bw_str *out)
{
    FILE *f = fopen(path, "rb");
    size_t n = 0;
    char *p = NULL;
    if (f && fseek(f, 0, SEEK_END) == 0 && (n = (size_t)ftell(f)) < (size_t)1 << 28 &&
        (p = bw_arena_alloc(ctx, n + 1)) != NULL) {
        rewind(f);
        n = fread(p, 1, n, f);
    }
    if (f)
        fclose(f);
    *out = (bw_str){p, n};
    return p != NULL;
}

static void print(const bw_document *d, const bw_chunk *c, size_t n)
{
    bw_buf b = {0};
    bw_buf_puts(&b, "{\"title\":");
    bw_json_put_str(&b, d->title);
    bw_buf_puts(&b, ",\"warning\":");
    bw_json_put_str(&b, d->warning);
    bw_buf_printf(&b, ",\"removed\":%u,\"bytes\":%zu}\n", d->removed, d->text.len);
    for (size_t i = 0; i < d->nblocks; i++) {
        bw_buf_printf(&b, "{\"block\":%zu,\"heading\":%u,\"page\":%u,\"text\":", i,
                      d->blocks[i].heading, d->blocks[i].page);
        bw_json_put_str(&b, d->blocks[i].text);
        bw_buf_puts(&b, "}\n");
    }
    for (size_t i = 0; i < n; i++) {
        bw_buf_printf(
            &b, "{\"chunk\":%zu,\"page\":%u,\"bytes\":[%llu,%llu],\"headings\":", i,
            c[i].page, (unsigned long long)c[i].byte_begin,
            (unsigned long long)c[i].byte_end);
        bw_json_put_str(&b, c[i].headings);
        bw_buf_puts(&b, "}\n");
    }
    fwrite(b.ptr, 1, b.len, stdout);
    bw_buf_clear(&b);
}

int main(int argc, char **argv)
{
    bool in_line = argc > 1 && strcmp(argv[1], "--inline") == 0;
    int bad = 0;
    bw_ctx *ctx = bw_ctx_new((size_t)1 << 30);
    for (int i = 1 + in_line; ctx && i < argc; i++) {
        bw_str bytes;
        bw_document d;
        const bw_chunk *c = NULL;
        size_t n = 0;
        bw_media media = bw_media_from_name(bw_str_c(argv[i]));
        bw_status st = read_all(ctx, argv[i], &bytes)
                           ? BW_OK
                           : bw_fail(ctx, BW_EIO, "cannot be read");
        if (!st)
            st = in_line ? bw_document_load_inline(ctx, media, bytes, &d)
                         : bw_document_load(ctx, media, bytes, &d);
        if (!st)
            st = bw_document_chunk(ctx, &d, NULL, &c, &n);
        if (st)
            fprintf(stderr, "%s: %s\n", argv[i], bw_ctx_message(ctx));
        else
            print(&d, c, n);
        bad += st != BW_OK;
        bw_ctx_reset(ctx);
    }
    bw_ctx_free(ctx);
    return bad != 0;
}
