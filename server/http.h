/* What a route handler sees: a parsed, authenticated request and a response to fill.
 *
 * One gate stands in front of the route table (gate.h): it checks framing, finds the
 * caller, finds the route, checks purpose and safeguards, opens the audit record. A
 * handler asks the gate for permitted sets and never takes a class from the body.
 * A handler that fails returns a status other than BW_OK with ctx's message: the
 * server turns it into the error form of that route family (Qdrant's or /v1's). */
#ifndef BW_HTTP_H
#define BW_HTTP_H
#include "../engine/base/json.h"
#include "../policies/decision.h"
#include "../policies/labels.h"
#include <bailiwick/engine.h>

typedef struct bw_server bw_server;
typedef struct bw_audit_record bw_audit_record;

typedef struct bw_caller { /* found by the gate; lives as long as the request */
    bw_principal principal;
    bw_str key_id;         /* public part of the key, for the audit */
    bw_str default_labels; /* JSON text of the key's default label set, or none */
    bw_str purpose;        /* chosen by header inside the key's list, or the key's default */
    const bw_str *safeguards;
    size_t nsafeguards;
    bool open;             /* --dev: the one open principal */
} bw_caller;

typedef struct bw_param {
    bw_str name, value; /* percent-decoded, checked UTF-8 without NUL */
} bw_param;

typedef struct bw_request {
    bw_ctx *ctx;
    bw_server *server;
    const struct bw_route *route;
    bw_str method, path;
    bw_str args[4]; /* the {…} parts of the route's pattern, decoded, in order */
    size_t nargs;
    const bw_param *query; /* query string */
    size_t nquery;
    bw_str body;
    const bw_caller *caller; /* NULL only on open routes */
    bw_audit_record *audit;
    int64_t now_ns; /* Unix time, read once */
    uint64_t request_id;
    const struct bw_mcp_headers *mcp; /* guard.h; NULL: there are none */
} bw_request;

typedef struct bw_response {
    int status; /* 0 = 200 */
    const char *content_type; /* NULL = application/json */
    bw_buf body;
    const char *headers[4][2]; /* extra; static or arena */
    size_t nheaders;
} bw_response;

typedef bw_status (*bw_handler)(bw_request *request, bw_response *response);

typedef enum bw_route_family { BW_FAMILY_QDRANT, BW_FAMILY_V1, BW_FAMILY_MCP } bw_route_family; /* form of errors */
typedef enum bw_route_access {
    BW_ROUTE_OPEN,       /* no key: /, /healthz, /livez, /readyz */
    BW_ROUTE_KEY,        /* any valid key; the handler's permitted sets decide the rest */
    BW_ROUTE_COLLECTION, /* action is decided on the collection (ManageCollection) */
    BW_ROUTE_CELL        /* action is decided on the cell (Admin, ReadAudit) */
} bw_route_access;

typedef struct bw_route {
    const char *method, *pattern; /* "PUT", "/collections/{}/points" */
    bw_handler handler;
    bw_route_access access;
    bw_action action;
    bw_route_family family;
    bool write; /* the audit record is synced before the answer */
    bool brief; /* may be tried on the thread that read it (httpd.c): its handler does much
                 * or waits only behind bw_ctx_check and bw_ctx_may_wait */
} bw_route;

/* The tables, ended by a row without a method. Each family is one file's table. */
extern const bw_route bw_routes_qdrant[]; /* qdrant_routes.c */
extern const bw_route bw_routes_v1[];     /* v1_routes.c */
extern const bw_route bw_routes_ingest[]; /* v1_ingest.c: /v1/ingest, /v1/query */
extern const bw_route bw_routes_mcp[];    /* mcp.c: /mcp */

bw_engine *bw_server_engine(const bw_server *server);
bw_authority *bw_server_authority(const bw_server *server);
const bw_catalogue *bw_server_catalogue(const bw_server *server);
struct bw_encoder;
const struct bw_encoder *bw_server_encoder(const bw_server *server); /* NULL: none configured */

/* ---- What handlers ask the gate (gate.c) ---- */
/* Permitted set of the caller for an action on a collection; records it in the audit.
 * BW_ENOTFOUND when the collection is not there or not the caller's to see. info may be NULL. */
BW_MUST_USE bw_status bw_gate_permit(bw_request *r, bw_str collection, bw_action action,
                                     bw_collection_info *info, bw_permit *out);
/* The four sets of a write. Asked for after bw_gate_class: the classes that the request
 * itself names are candidates as well as those that the collection holds. */
BW_MUST_USE bw_status bw_gate_access(bw_request *r, bw_str collection, bw_collection_info *info, bw_access *out);
/* Label set of one point: `given` (a JSON object, or NULL) or the key's default or the
 * collection's; puts the class into the engine, decides Store. BW_EINVALID with
 * `_labels` in the message (a 422), BW_EDENIED with the policy's name (a 451).
 * Cached per request for equal `given` bytes. */
BW_MUST_USE bw_status bw_gate_class(bw_request *r, const bw_collection_info *info, const bw_json *given,
                                    bw_class_id *out);
/* The same labels as a set, nothing decided. *from: "request", "key" or "collection". */
BW_MUST_USE bw_status bw_gate_labels(bw_request *r, const bw_collection_info *info, const bw_json *given,
                                     bw_labels *out, const char **from);
/* bw_gate_class for a set that was made here (a raise). Not for --dev, as the two above. */
BW_MUST_USE bw_status bw_gate_class_of(bw_request *r, const bw_labels *labels, bw_class_id *out);
/* A decision about a class that need not be known; recorded, handed out counted. */
BW_MUST_USE bw_status bw_gate_judge(bw_request *r, bw_action action, const bw_class_id *id, bw_str labels,
                                    const bw_decision **out);
/* BW_EDENIED and its message. labels: of the class, in canonical form. */
bw_status bw_gate_refuse(bw_request *r, bw_action action, bw_str labels, const bw_decision *d);
/* One decision about a class that the request named, without its purpose; recorded.
 * BW_EDENIED with the policies' names (bw_gate_tells). */
BW_MUST_USE bw_status bw_gate_decide(bw_request *r, bw_action action, const bw_class_id *class_id);
/* The same for a class that need not be known. labels: its canonical form. */
BW_MUST_USE bw_status bw_gate_decide_unknown(bw_request *r, bw_action action,
                                             const bw_class_id *class_id, bw_str labels);
/* After bw_write returned BW_EDENIED: the message with the policies that forbid `action` on it. */
bw_status bw_gate_denied(bw_request *r, const bw_class_id *class_id, bw_action action);
/* Whether the caller may ReadAudit here. Not recorded. Wants an authority (no --dev). */
BW_MUST_USE bw_status bw_gate_reads_audit(bw_request *r, bool *out);
/* Whether the caller may be told which policies decide about a class: one of its own
 * tenant, or any if it may ReadAudit. Of another tenant's they would tell what an operator
 * has agreed with that tenant. labels: canonical. */
BW_MUST_USE bw_status bw_gate_tells(bw_request *r, bw_str labels, bool *out);
/* ManageCollection on one collection, by its name or an alias, for calls that name it in
 * the body (rows of BW_ROUTE_COLLECTION have it decided before they run). BW_EDENIED: set
 * response->status to 403. */
BW_MUST_USE bw_status bw_gate_manage(bw_request *r, bw_str collection);
/* Before a collection is dropped: BW_EDENIED (451) when a class that the caller sees may not
 * be deleted, or when a policy forbids Delete of any class in it (a legal hold), seen or
 * not. Absent: BW_OK. Classes that are merely not the caller's go with the collection:
 * dropping it is ManageCollection's right. *judged: the classes that were looked at, for
 * bw_collection_drop_judged (a writer may bring a held one meanwhile). */
BW_MUST_USE bw_status bw_gate_drop(bw_request *r, bw_str collection, bw_permit *judged);
/* The label set of a class as JSON text (canonical form), for answers; in ctx's arena. */
BW_MUST_USE bw_status bw_gate_label_text(bw_request *r, const bw_class_id *class_id, bw_str *out);
/* The keyed hash of a data subject's id (BLAKE2b under a secret of this cell, as hex), for
 * bw_point_facts.subject; in ctx's arena. The id itself is kept nowhere else. */
BW_MUST_USE bw_status bw_gate_subject(bw_request *r, bw_str subject, bw_str *out);
/* The HTTP status that a failed handler's answer has; a handler may set response->status
 * itself before it fails to choose another (e.g. 422 for a value out of range). */
void bw_audit_add_id(bw_audit_record *a, const bw_point_id *id, const bw_class_id *class_id);
const bw_param *bw_request_param(const bw_request *r, const char *name); /* NULL: absent */
#endif
