/* Document -> clean text -> chunks. Loaders run in a child process (seccomp, no
 * network, no open; memory, time and output caps); its death is BW_EINVALID for that
 * file alone. Metadata inside a document never sets class, owner, region or expiry. */
#ifndef BW_DOCUMENT_H
#define BW_DOCUMENT_H
#include "../engine/base/base.h"

typedef enum bw_media {
    BW_MEDIA_UNKNOWN,
    BW_MEDIA_TEXT,
    BW_MEDIA_MARKDOWN,
    BW_MEDIA_HTML,
    BW_MEDIA_PDF
} bw_media;
bw_media bw_media_from_name(bw_str file_name); /* by extension */
bw_media bw_media_from_type(bw_str media_type);

typedef struct bw_block { /* one run of text between structural marks, in order */
    bw_str text;          /* NFC, no zero-width or bidi controls */
    uint32_t heading;     /* 1 … 6 = a heading of that level, 0 = body */
    uint32_t page;        /* from 1; 0 = the format has none */
    uint64_t byte_begin, byte_end; /* in the document's clean text */
} bw_block;
typedef struct bw_document {
    const bw_block *blocks;
    size_t nblocks;
    bw_str text;      /* the whole clean text */
    bw_str title;     /* or none; shown, never trusted */
    uint32_t removed; /* control characters that were taken out */
    bool garbled; /* most of the text is probably no language (PDF fonts without a map)
                   */
    bw_str warning; /* for a person, or none: "the text looks garbled" */
} bw_document;
/* In ctx's arena. */
BW_MUST_USE bw_status bw_document_load(bw_ctx *ctx, bw_media media, bw_str bytes,
                                       bw_document *out);
/* The same without a child process, for fuzzing. */
BW_MUST_USE bw_status bw_document_load_inline(bw_ctx *ctx, bw_media media, bw_str bytes,
                                              bw_document *out);

typedef struct bw_chunk {
    bw_str text;
    uint64_t byte_begin, byte_end; /* in the clean text */
    bw_str headings;               /* "H1 > H2", or none */
    uint32_t page, ordinal;
} bw_chunk;
typedef struct bw_chunk_options {
    uint32_t bytes_target, bytes_max, bytes_overlap; /* 0 = 900, 1,400, 120 */
} bw_chunk_options;
/* Cuts at paragraph, sentence, word ends, never inside a UTF-8 character. In ctx's
 * arena. */
BW_MUST_USE bw_status bw_document_chunk(bw_ctx *ctx, const bw_document *d,
                                        const bw_chunk_options *o, const bw_chunk **out,
                                        size_t *n);
#endif
