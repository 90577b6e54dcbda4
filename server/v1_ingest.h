/* What the text-in routes share. Private to v1_ingest.c and v1_query.c. */
#ifndef BW_V1_INGEST_H
#define BW_V1_INGEST_H
#include "../ingest/encoder.h"
#include "qdrant.h"
#include "v1.h"

bw_status bw_v1_ingest(bw_request *r, bw_response *out);
bw_status bw_v1_query(bw_request *r, bw_response *out);
bw_status bw_v1_relabel(bw_request *r, bw_response *out);

/* Required string member of lo … hi bytes; a 400 with its pointer else. */
BW_MUST_USE bw_status bw_v1_text(bw_ctx *ctx, const bw_json *body, const char *name,
                                 size_t lo, size_t hi, bw_str *out);
/* Unsigned member in lo … hi; absent leaves *out. */
BW_MUST_USE bw_status bw_v1_number(bw_ctx *ctx, const bw_json *o, const char *name,
                                   uint32_t lo, uint32_t hi, uint32_t *out);
BW_MUST_USE bw_status bw_v1_flag(bw_ctx *ctx, const bw_json *o, const char *name,
                                 bool *out);
/* The cell's encoder, when the collection's unnamed vector takes what it makes. */
BW_MUST_USE bw_status bw_v1_encoder(bw_request *r, const bw_collection_info *info,
                                    const bw_encoder **out);
#endif
