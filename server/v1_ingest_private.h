/* One call of POST /v1/ingest under way. Private to v1_ingest.c and v1_ingest_body.c. */
#ifndef BW_V1_INGEST_PRIVATE_H
#define BW_V1_INGEST_PRIVATE_H
#include "../ingest/points.h"
#include "labelling.h"
#include "v1_ingest.h"

typedef struct bw_v1__ingest {
    bw_request *r;
    bw_ctx *ctx;
    const bw_encoder *encoder;
    bw_media media;
    bw_str bytes; /* of the document */
    bw_str subject;
    const bw_json *labels;
    bw_rule_fact *metadata; /* for the rules; kept nowhere */
    size_t nmetadata;
    bw_labelling labelling;
    bool create, dry_run;
    bw_str canonical; /* of a dry run: the labels of a class that need not be known */
    bool unmade; /* info describes a collection that is not there yet */
    bw_chunk_options chunk;
    bw_source source;
    bw_collection_info info;
    bw_access access;
    bw_point_id *old; /* of this source, visible; ascending by id */
    size_t nold, cap_old;
    size_t old_same;     /* of them: same digest and class */
    uint64_t old_chunks; /* "chunks" that those name */
} bw_v1__ingest;

/* Reads the request's body; errors carry the pointer of the field. */
BW_MUST_USE bw_status bw_v1_ingest__body(bw_v1__ingest *x);
#endif
