/* What the text-in routes share. Private to v1_ingest.c and v1_query.c. */
#ifndef BW_V1_INGEST_H
#define BW_V1_INGEST_H
#include "../ingest/encoder.h"
#include "qdrant.h"
#include "v1.h"

bw_status bw_v1_ingest(bw_request *r, bw_response *out);
bw_status bw_v1_query(bw_request *r, bw_response *out);
bw_status bw_v1_relabel(bw_request *r, bw_response *out);

/* The cell's encoder, when the collection's unnamed vector takes what it makes. */
BW_MUST_USE bw_status bw_v1_encoder(bw_request *r, const bw_collection_info *info,
                                    const bw_encoder **out);
#endif
