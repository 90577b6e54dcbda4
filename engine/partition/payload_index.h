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
BW_MUST_USE bw_status bw_payload_index_new(bw_ctx *ctx, const bw_index_spec *spec,
                                           bw_payload_index **out);
void bw_payload_index_free(bw_payload_index *ix);
/* Rows in rising order; payload may be none. */
BW_MUST_USE bw_status bw_payload_index_add(bw_ctx *ctx, bw_payload_index *ix,
                                           uint32_t row, bw_str payload);
bw_str bw_payload_index_field(const bw_payload_index *ix);
/* Of memory; under the read lock. Walks every value. */
size_t bw_payload_index_bytes(const bw_payload_index *ix);

/* ---- for the planner, under the read lock ---- */

typedef enum bw_lookup_kind {
    BW_LOOKUP_NONE,     /* this index cannot say; out is untouched */
    BW_LOOKUP_SUPERSET, /* every matching row is in out, others may be */
    BW_LOOKUP_EXACT     /* out is the answer, as reading the payloads would give it */
} bw_lookup_kind;
/* The rows below nrows (out's bits; zeroed by the caller) that meet the condition.
 * BW_ETIMEOUT at ctx's deadline: a condition may have many values. */
BW_MUST_USE bw_status bw_payload_index_lookup(bw_ctx *ctx, const bw_payload_index *ix,
                                              const bw_condition *cond, bw_bitmap *out,
                                              bw_lookup_kind *kind);
/* Rows below out->nbits that hold a non-null value at the field. */
void bw_payload_index_present(const bw_payload_index *ix, bw_bitmap *out);
/* Whether it walks values of this kind: strings of keyword and uuid, booleans of bool.
 */
bool bw_payload_index_walks(const bw_payload_index *ix, bw_value_kind kind);
size_t bw_payload_index_values(const bw_payload_index *ix);
/* Each value with the number of rows of `rows` that hold it, unless that is 0, until fn
 * returns false. The value's bytes are the index's own. */
typedef bool (*bw_index_value_fn)(void *arg, const bw_value *value, uint64_t count);
void bw_payload_index_walk(const bw_payload_index *ix, const bw_bitmap *rows,
                           bw_index_value_fn fn, void *arg);
/* Entries of an index that sorts numbers (dates: instants in nanoseconds); 0: it sorts
 * none of that sort. */
size_t bw_payload_index_sorted(const bw_payload_index *ix, bool dates);
/* Walks its sorted runs one after the other, each rising or falling; fn returns false
 * to leave a run: what follows there is no better. */
typedef bool (*bw_index_number_fn)(void *arg, const bw_number *value, uint32_t row);
void bw_payload_index_walk_sorted(const bw_payload_index *ix, bool falling,
                                  bw_index_number_fn fn, void *arg);
#endif
