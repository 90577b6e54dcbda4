/* The inside of a replay. Private to replay*.c. */
#ifndef BW_REPLAY_RUN_H
#define BW_REPLAY_RUN_H
#include "audit_file.h"
#include "replay.h"

typedef struct replay_rules { /* one set over one state of the facts */
    bw_catalogue *catalogue;
    bw_authority *authority;
    bool reads_now;
    const char *why; /* they cannot be had; NULL: they can */
} replay_rules;

typedef struct replay_subject {
    const bw_class_id *class_id; /* NULL: kind and name */
    bw_str labels;               /* of the class */
    const char *kind;
    bw_str name;
} replay_subject;

/* A decision that the candidate turns. */
typedef struct replay_turn {
    bw_action action;
    replay_subject about;
    bool allow; /* the candidate's answer */
    bw_str policies, errors;
} replay_turn;

typedef struct replay_event { /* one request of the log */
    uint64_t seq;
    const bw_json *v;
    bw_principal who;
    bw_str purpose, policies, facts, policies_end, facts_end;
    const bw_str *safeguards;
    size_t nsafeguards;
    int64_t now_ns;
    bool changed, decided; /* the candidate turns something; anything was decided */
} replay_event;

typedef struct replay_run {
    bw_ctx *ctx; /* scratch, released after each event */
    bw_ctx *mem; /* rows, reasons, rules */
    bw_ctx *sets; /* what the memo points to */
    const bw_replay_options *o;
    bool candidate;
    bw_register_book *book;
    bw_map *rules; /* "policies facts" -> replay_rules of mem */
    bw_map *memo;  /* a set's question -> what came of it */
    bw_map *rows, *reasons, *by_principal, *by_action, *by_class;
    uint64_t requests, without, decisions, reproduced, not_in_log, allow, deny, to_allow,
        to_deny, requests_changed, rows_left_out, from_seq, to_seq;
} replay_run;

/* replay.c: the run's memory; ctx and o are the caller's. */
BW_MUST_USE bw_status replay_run_open(replay_run *r);
void replay_run_close(replay_run *r);

/* replay_rules.c. The recorded rules, or the candidate's over the same facts. Never NULL
 * unless memory is out; look at `why`. */
replay_rules *replay_rules_get(replay_run *r, bw_str policies, bw_str facts, bool candidate);
void replay_rules_clear(replay_run *r);
/* Between events: when many are held all go, and are made again when needed. */
void replay_rules_trim(replay_run *r);

/* replay_event.c: "a, b" as the log joins names, in mem. */
BW_MUST_USE bw_status replay_join(bw_ctx *mem, const bw_str *names, size_t n, bw_str *out);

/* v1_replay.c: the candidate's parts of a body. */
BW_MUST_USE bw_status bw_v1_candidate(bw_ctx *ctx, const bw_json *body, bw_replay_options *o);

/* replay_report.c */
BW_MUST_USE bw_status replay_note_reason(replay_run *r, const replay_event *e, uint64_t decisions,
                                         const char *reason);
BW_MUST_USE bw_status replay_note_turn(replay_run *r, replay_event *e, const replay_turn *t);
/* What the candidate changes, as in the report; and the label sets of its turns. */
BW_MUST_USE bw_status replay_candidate_put(replay_run *r, bw_buf *out);
BW_MUST_USE bw_status replay_classes_put(replay_run *r, bw_buf *out);
BW_MUST_USE bw_status replay_report_put(replay_run *r, bw_buf *out);

/* replay_event.c */
BW_MUST_USE bw_status replay_event_run(replay_run *r, replay_event *e);
#endif
