/* What every loader's fuzz target holds true of a document that was accepted. */
#ifndef LOAD_FUZZ_H
#define LOAD_FUZZ_H
#include "ingest/document.h"

static inline void load_fuzz(bw_media media, const uint8_t *data, size_t size)
{
    bw_ctx *ctx = bw_ctx_new((size_t)256 << 20);
    bw_document d;
    const bw_chunk *chunks = NULL;
    size_t n = 0;
    bw_require(ctx != NULL);
    if (bw_document_load_inline(ctx, media, (bw_str){(const char *)data, size}, &d) ==
        BW_OK) {
        bw_require(bw_utf8_valid(d.text.ptr, d.text.len) &&
                   bw_utf8_valid(d.title.ptr, d.title.len));
        bw_require(memchr(d.text.ptr, 0, d.text.len) == NULL);
        uint64_t end = 0;
        for (size_t i = 0; i < d.nblocks; i++) {
            bw_require(d.blocks[i].byte_begin >= end &&
                       d.blocks[i].byte_end > d.blocks[i].byte_begin);
            end = d.blocks[i].byte_end;
        }
        bw_require(end == d.text.len);
        bw_chunk_options small = {64, 100, 16};
        bw_require(bw_document_chunk(ctx, &d, &small, &chunks, &n) == BW_OK);
        for (size_t i = 0; i < n; i++)
            bw_require(chunks[i].text.len > 0 && chunks[i].text.len <= 100 &&
                       bw_utf8_valid(chunks[i].text.ptr, chunks[i].text.len));
    }
    bw_ctx_free(ctx);
}
#endif
