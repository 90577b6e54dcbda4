/* Chunks -> points: ids, payloads, vectors. What a document becomes in a collection.
 *
 * A point's id is a UUID (version 8, RFC 9562) out of BLAKE2b-128 over (tenant,
 * collection, source, class, ordinal), each with its length before it: the same chunk
 * of the same source in the same class is the same point, and one tenant's sources tell
 * nothing about another's ids. The payload:
 *   {"page_content": text, "metadata": {"source", "title", "headings", "page",
 *    "byte_begin", "byte_end", "ordinal", "chunks", "digest",
 *    "suspected_garbled"}}
 * (LangChain's form; members without a value are left out). */
#ifndef BW_POINTS_H
#define BW_POINTS_H
#include "document.h"
#include "encoder.h"
#include <bailiwick/engine.h>

typedef struct bw_source { /* borrowed */
    bw_str tenant, collection;
    bw_str source; /* the caller's name of the document in the collection */
    bw_class_id class_id;
    bw_point_facts facts;
    bw_str digest; /* hex; of all that the points depend on */
} bw_source;

/* The digest of a document and of everything else that decides its points: bytes,
 * media, encoder, chunk sizes, facts, and the version of our own loaders. Not the class:
 * points that were relabelled hold the same document as before. */
BW_MUST_USE bw_status bw_source_digest(bw_ctx *ctx, bw_str bytes, bw_media media,
                                       const bw_encoder *e, const bw_chunk_options *o,
                                       const bw_source *s, bw_str *hex);
void bw_source_point_id(const bw_source *s, uint32_t ordinal, bw_point_id *out);
/* Encodes the chunks (heading path, line end, text) and builds one point of each, with
 * the unnamed vector; all in ctx's arena. */
BW_MUST_USE bw_status bw_points_build(bw_ctx *ctx, const bw_encoder *e,
                                      const bw_source *s, const bw_document *d,
                                      const bw_chunk *chunks, size_t n,
                                      const bw_point **out);
#endif
