/* A payload index of one partition: value -> rows (CRoaring), or rows sorted by number.
 * Append-only: a row's payload never changes, dead rows are masked by the reader.
 * Writers hold the partition's index lock for writing, readers for reading. */
#ifndef BW_PAYLOAD_INDEX_H
#define BW_PAYLOAD_INDEX_H
#include "../base/bitmap.h"
#include <bailiwick/engine.h>
#include <bailiwick/filter.h>

typedef struct bw_payload_index bw_payload_index;
/* type: as bw_index_spec. BW_EINVALID for an unknown type or a bad path. */
BW_MUST_USE bw_status bw_payload_index_new(bw_ctx *ctx, const bw_index_spec *spec, bw_payload_index **out);
void bw_payload_index_free(bw_payload_index *ix);
/* Rows in rising order; payload may be none. */
BW_MUST_USE bw_status bw_payload_index_add(bw_ctx *ctx, bw_payload_index *ix, uint32_t row, bw_str payload);
bw_str bw_payload_index_field(const bw_payload_index *ix);
#endif
