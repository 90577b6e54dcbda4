/* Filter -> bitmap of one snapshot's rows: by payload indexes where they answer
 * exactly, else by reading payloads. Also used by writes (delete and update by filter).
 */
#ifndef BW_SELECT_H
#define BW_SELECT_H
#include "../partition/partition.h"

/* out: nrows bits, a subset of `within`. filter NULL = within itself. *indexed (may be
 * NULL) tells whether no payload was read. */
BW_MUST_USE bw_status bw_filter_select(bw_ctx *ctx, const bw_snapshot *s,
                                       const bw_collection_info *info,
                                       const bw_filter *filter, const bw_bitmap *within,
                                       bw_bitmap *out, bool *indexed);
/* One row that is not in a snapshot yet (a staged write). */
BW_MUST_USE bw_status bw_filter_matches(bw_ctx *ctx, const bw_filter *filter,
                                        const bw_point_id *id, bw_str payload,
                                        const bw_vector *vectors, size_t nvectors,
                                        bool *out);
/* Syntax of a payload path (a.b, arr[].k, arr[0], "a.b".c); BW_EINVALID. */
BW_MUST_USE bw_status bw_path_check(bw_ctx *ctx, bw_str path);
/* Payload edits on the JSON bytes: key order and untouched bytes stay. In ctx's arena.
 */
BW_MUST_USE bw_status bw_payload_merge(bw_ctx *ctx, bw_str payload, bw_str patch,
                                       bw_str key, bw_str *out);
BW_MUST_USE bw_status bw_payload_remove(bw_ctx *ctx, bw_str payload,
                                        const bw_str *paths, size_t n, bw_str *out);
#endif
