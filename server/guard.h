/* The framing guard: what a request's headers must be before anything else looks at
 * them (RFC 9112, sections 3 and 6; security.md, section 7). Pure: no sockets, no
 * state. */
#ifndef BW_GUARD_H
#define BW_GUARD_H
#include "../engine/base/base.h"

enum { BW_GUARD_HEADERS_MAX = 100 };

typedef struct bw_header {
    bw_str name, value;
} bw_header;

typedef struct bw_mcp_headers { /* what /mcp reads (mcp.c); none = not sent */
    bw_str origin, version, method, name;
    bool origin_twice, twice; /* it, or another of them, came more than once */
} bw_mcp_headers;

typedef struct bw_guarded { /* none = not sent; borrowed from the headers */
    bw_str api_key, authorization, purpose, safeguards, content_type;
    bool gate_header_twice; /* purpose or safeguards given more than once */
    bool has_length, chunked;
    uint64_t content_length;
    bw_mcp_headers mcp;
} bw_guarded;

/* http or https, and 127.0.0.1, localhost or [::1], with or without a port. */
bool bw_guard_origin_is_local(bw_str origin);

/* 0, or the status to answer with before the connection is closed: 400 for whatever
 * could be read as two different requests, 431 for too many headers, 403 when `dev` is
 * set and Host or Origin is not this machine (a page in a browser must not reach an
 * open cell). *why: constant text. */
int bw_guard_check(const bw_header *headers, size_t n, bw_str version, bw_str target,
                   bool dev, bw_guarded *out, const char **why);
#endif
