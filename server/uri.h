/* Request targets: path segments and query parameters, decoded and checked.
 *
 * A path is split at "/" before it is decoded, so an encoded slash can only stand
 * inside one segment (contract, section 1: path parts may hold it) and never makes a
 * new one. */
#ifndef BW_URI_H
#define BW_URI_H
#include "http.h"

enum {
    BW_URI_SEGMENTS_MAX = 12,
    BW_URI_SEGMENT_BYTES_MAX = 4096, /* decoded; a payload path may stand in one */
    BW_URI_PARAMS_MAX = 32
};

typedef struct bw_uri_path {
    bw_str segments[BW_URI_SEGMENTS_MAX]; /* decoded, in ctx's arena; "/" has none */
    size_t n;
} bw_uri_path;

/* BW_EINVALID: bad escape, %00, control characters, invalid UTF-8, a "." or ".."
 * segment, no leading "/". BW_ENOTFOUND: an empty segment or too many. One trailing
 * slash is dropped. prefix: "/base" or none; a path outside it is BW_ENOTFOUND. */
BW_MUST_USE bw_status bw_uri_path_parse(bw_ctx *ctx, bw_str raw, bw_str prefix,
                                        bw_uri_path *out);
/* "a=1&b=x+y": "+" is a space; a name alone has the value "". A name twice is
 * BW_EINVALID. */
BW_MUST_USE bw_status bw_uri_query_parse(bw_ctx *ctx, bw_str raw, const bw_param **out,
                                         size_t *n);

/* The best row for (method, path): literals win over {…}, from the left. args get the
 * {…} parts. NULL when none fits. tables: ended by NULL. */
const bw_route *bw_route_find(const bw_route *const *tables, bw_str method,
                              const bw_uri_path *path, bw_str args[4], size_t *nargs);
#endif
