/* What the text-in routes share. Private to v1_*.c and mcp*.c. */
#ifndef BW_V1_INGEST_H
#define BW_V1_INGEST_H
#include "../ingest/encoder.h"
#include "qdrant.h"
#include "v1.h"

bw_status bw_v1_ingest(bw_request *r, bw_response *out);
bw_status bw_v1_query(bw_request *r, bw_response *out);
/* A page of a question's first BW_V1_WINDOW_HITS hits, for answers that are short. */
enum { BW_V1_WINDOW_HITS = 100 };
typedef struct bw_v1_window {
    uint32_t skip, take;        /* take: the body's limit, set by the call */
    size_t bytes_max, text_max; /* whole hits below bytes_max, but one at least; of a text */
    uint32_t shown;             /* out */
    bool more;                  /* out: hits follow the shown ones */
} bw_v1_window;
/* POST /v1/query for a parsed body whose members have been checked. window NULL: every
 * hit, whole. */
BW_MUST_USE bw_status bw_v1_query_answer(bw_request *r, const bw_json *body,
                                         bw_v1_window *window, bw_response *out);
/* How hits are written; zeroed before the first. */
typedef struct bw_v1_shown {
    bw_class_id last_class; /* the label text that was asked for last */
    bw_str last_labels;
    bool digest;                /* that of the document as well */
    size_t text_skip, text_max; /* bytes; rounded down to characters; max 0 = all */
    size_t text_next;           /* out: where the last hit's text goes on; 0 = it ended */
} bw_v1_shown;
/* One hit as an object, appended; the audit record is the caller's. */
BW_MUST_USE bw_status bw_v1_put_hit(bw_request *r, bw_v1_shown *c, bw_buf *b,
                                    const bw_hit *hit);
bw_status bw_v1_relabel(bw_request *r, bw_response *out);

/* The cell's encoder, when the collection's unnamed vector takes what it makes. */
BW_MUST_USE bw_status bw_v1_encoder(bw_request *r, const bw_collection_info *info,
                                    const bw_encoder **out);
#endif
