/* The audit log: one line of JSON an event, hash-chained, written before every answer.
 *
 * See audit.c for the format and the crash rules. Locked inside. Entries hold ids,
 * policy names and digests; never payloads, texts or vectors. */
#ifndef BW_AUDIT_H
#define BW_AUDIT_H
#include "../ingest/detect.h"
#include "../policies/decision.h"
#include "http.h"
#include "register.h"

typedef struct bw_audit bw_audit;

enum {
    BW_AUDIT_HASH = 32,
    BW_AUDIT_LINE_MAX = 1 << 20,
    BW_AUDIT_IDS_MAX = 2000,   /* ids written out; all are counted and hashed */
    BW_AUDIT_PERMITS_MAX = 32, /* sets written out; more are counted and hashed */
    BW_AUDIT_DENIALS_MAX = 16,
    BW_AUDIT_ALLOWED_MAX = 32, /* decisions on single objects; more are counted */
    BW_AUDIT_TEXT_MAX = 256 /* bytes kept of anything that a client chose */
};

/* What a single decision was about: a class, a collection or the cell. */
typedef struct bw_audit_subject {
    const bw_class_id *class_id; /* NULL: kind says what */
    bw_str labels; /* of a class that the register may not have; or none */
    const char *kind; /* "Collection", "Node" */
    bw_str name;
    bool no_purpose; /* asked without the caller's purpose (Embed at ingest) */
} bw_audit_subject;

typedef struct bw_audit_decision {
    bw_action action;
    bw_audit_subject about; /* class_id: into the arena */
    bw_str policies, errors; /* names with ", " between; "" = none */
} bw_audit_decision;

/* What one request leaves; filled by the gate and the handler, in the request's arena.
 */
struct bw_audit_record {
    bw_ctx *ctx;
    const char *event; /* "request", "begin" (a write is about to run), "refused", … */
    bw_str key_id, principal, tenant, method, path, collection, purpose;
    const bw_principal *who; /* the facts that the key proved, or NULL */
    const char *pattern; /* of the route, or NULL */
    const char *action;  /* Cedar's name, or NULL */
    const bw_str *safeguards;
    size_t nsafeguards;
    struct {
        bw_action action;
        uint8_t digest[16], list[BW_LIST_DIGEST];
        uint32_t n, named; /* named: how many of `named` were candidates as well */
        bool has_list;     /* the register has the list that the set was decided over */
    } permits[BW_AUDIT_PERMITS_MAX];
    size_t npermits;
    uint64_t more_permits;
    uint8_t more_digest[16]; /* a chain over them, in order */
    bw_audit_decision allowed[BW_AUDIT_ALLOWED_MAX], denials[BW_AUDIT_DENIALS_MAX];
    size_t nallowed, ndenials;
    uint64_t more_allowed;
    const bw_class_id *named; /* classes of label sets in the request; Store allowed */
    size_t nnamed;
    bw_str labelled;   /* JSON: who gave the labels, what raised them (labelling.h) */
    bw_str relabelled; /* JSON list: the moves from class to class, with their numbers */
    uint32_t found[BW_DETECT_COUNT]; /* in texts that came as points */
    bw_buf ids; /* JSON list members */
    bw_class_id ids_class;
    uint64_t nids;
    void *ids_hash; /* crypto_generichash_state, aligned; in the arena */
    uint64_t policy_version,
        policy_version_end; /* end: another when it changed meanwhile */
    bw_str policy_digest, facts_digest, catalogue_version;
    bw_str policy_digest_end, facts_digest_end; /* where the version is another */
    uint64_t request_id, folded;
    int status;
    int64_t now_ns;
};

void bw_audit_record_init(bw_audit_record *a, bw_ctx *ctx, const char *event);
void bw_audit_record_clear(bw_audit_record *a);
/* list: the register's digest of the classes that it was decided over, or NULL. */
void bw_audit_add_permit(bw_audit_record *a, bw_action action, const uint8_t digest[16],
                         size_t n, const uint8_t *list, size_t named);
void bw_audit_add_decision(bw_audit_record *a, bw_action action,
                           const bw_audit_subject *about, const bw_decision *d);

/* Opens (or makes) the folder; a tail that a crash tore is cut and the cut is recorded.
 * BW_ECORRUPT when the last file's chain does not hold. */
BW_MUST_USE bw_status bw_audit_open(bw_ctx *ctx, const char *dir,
                                    uint64_t segment_bytes, bw_audit **out);
void bw_audit_close(bw_audit *a); /* syncs; NULL is accepted */
/* Appends one event; sync: returns when it is on the disk (shared with others' syncs).
 * Any failure means: refuse the request. */
BW_MUST_USE bw_status bw_audit_write(bw_ctx *ctx, bw_audit *a, const bw_audit_record *r,
                                     bool sync);
/* Before a write runs: makes sure that its event will have room. BW_ENOSPACE: refuse
 * it. */
BW_MUST_USE bw_status bw_audit_reserve(bw_ctx *ctx, bw_audit *a);
BW_MUST_USE bw_status bw_audit_ready(bw_ctx *ctx, bw_audit *a); /* not broken */
/* The last event's number and hash. */
void bw_audit_head(bw_audit *a, uint64_t *seq, uint8_t hash[BW_AUDIT_HASH]);

typedef struct bw_audit_filter {
    uint64_t after; /* events with a greater number; */
    bool has_after; /* false: the last `limit` that match */
    uint32_t limit; /* 1 … 1,000 */
    bw_str principal, key, action, collection, event; /* none = any */
    int status;                                       /* 0 = any */
} bw_audit_filter;
/* The matching lines as members of a JSON list; *next is the number to go on after, or
 * 0 at the end. One call looks through 64 MiB at most; the last ones are looked for in
 * whole files from the newest back, up to the same. */
BW_MUST_USE bw_status bw_audit_query(bw_ctx *ctx, bw_audit *a, const bw_audit_filter *f,
                                     bw_buf *out, uint64_t *next);

typedef struct bw_audit_report {
    uint64_t events, files, first_seq, last_seq;
    uint8_t head[BW_AUDIT_HASH];
    bool expected_found; /* the event asked for is there with that hash */
} bw_audit_report;
/* Offline: the whole chain of a folder. expect_seq 0 = nothing expected. BW_ECORRUPT
 * names the file and line. */
BW_MUST_USE bw_status bw_audit_verify(bw_ctx *ctx, const char *dir, uint64_t expect_seq,
                                      const uint8_t expect_hash[BW_AUDIT_HASH],
                                      bw_audit_report *out);
#endif
