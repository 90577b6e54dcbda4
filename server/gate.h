/* The gate: the one way from an HTTP request to a handler.
 *
 *   authenticate (key) -> path -> route -> purpose and safeguards -> query -> deadline
 *   -> audit opened (writes: written) -> access of the route -> handler -> error form
 *   -> audit written (writes and denials: synced) -> answer
 *
 * Default deny: no row, no handler; whatever fails on the way is an answer of the error
 * form. Knows nothing of sockets, so that unit tests and fuzzing can drive it. */
#ifndef BW_GATE_H
#define BW_GATE_H
#include "server.h"
#include "uri.h"

typedef struct bw_gate_input {
    bw_ctx *ctx;                /* fresh; holds everything of the request */
    bw_str method, path, query; /* raw; path without the query */
    bw_str body;
    const bw_key_record *key;   /* authenticated; NULL on open routes and with --dev */
    bw_str purpose, safeguards; /* headers, or none */
    bool purpose_twice;         /* a gate header came more than once: 400 */
    int refuse_status; /* 0, or: answer this (body too long, …) with refuse_text */
    const char *refuse_text;
    uint64_t request_id;
    const struct bw_mcp_headers *mcp; /* borrowed; may be NULL */
} bw_gate_input;

/* Whether a request may go without a key: exactly GET and one of the open paths. */
bool bw_gate_is_open(const bw_server *s, bw_str method, bw_str path);
/* What a request's route says about its work; a path that is not plain counts as one that
 * writes. For scheduling only: nothing is allowed or refused by it. */
typedef enum bw_gate_work { BW_WORK_WRITE, BW_WORK_READ, BW_WORK_BRIEF } bw_gate_work;
bw_gate_work bw_gate_work_of(const bw_server *s, bw_str method, bw_str path);
/* The caller's key record from `api-key` or `Authorization` (none = not sent). On
 * failure `out` of the response is filled with the 401 and false returned. */
bool bw_gate_authenticate(bw_server *s, bw_ctx *ctx, bw_str api_key,
                          bw_str authorization, bw_key_record *key, bw_response *out);
/* Runs the request; always fills out (its body is the caller's to clear). */
void bw_gate_serve(bw_server *s, const bw_gate_input *in, bw_response *out);
/* A brief attempt at the same, until a moment of CLOCK_MONOTONIC. False: it would have
 * waited or taken longer; nothing is recorded, `out` and in->ctx's arena are as they were,
 * and the request is to be served yet. A request that writes or is denied never ends here:
 * its record is synced. */
BW_MUST_USE bool bw_gate_serve_brief(bw_server *s, const bw_gate_input *in, uint64_t until_ns,
                                     bw_response *out);
/* Records refusals that never reach bw_gate_serve (bad key, framing), folded: at once
 * for the first, then at most one event a second with the number. */
void bw_gate_refused(bw_server *s, const char *event, int status);

/* Error forms. family of a path that has no route: by its first segment. */
void bw_error_response(bw_response *out, bw_route_family family, int http_status,
                       bw_status status, const char *message, const char *pointer);
int bw_error_http_status(bw_status status);
bw_route_family bw_error_family(bw_str path);
#endif
