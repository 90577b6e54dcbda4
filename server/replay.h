/* Replay: the log's past decisions asked again, under the rules that they were made by
 * and under a candidate. See replay.c for what a decision is here and when one counts as
 * reproduced. Reads a log and kept texts; changes nothing; needs no running cell. */
#ifndef BW_REPLAY_H
#define BW_REPLAY_H
#include "server.h"

enum {
    BW_REPLAY_LAST_MAX = 1000000, /* requests of one run; the route's own cap is lower */
    BW_REPLAY_ROUTE_MAX = 10000,
    BW_REPLAY_ROWS_MAX = 20000,   /* different turns told apart; all are counted */
    BW_REPLAY_REASONS_MAX = 200
};

typedef struct bw_replay_options {
    const char *dir;   /* data folder: kept texts */
    const char *audit; /* folder of the log; NULL = DIR/audit */
    /* The candidate: each text as recorded where ptr is NULL. None of the three: only
     * whether the log can be reproduced. */
    bw_str policies, entities, overlay;
    uint64_t last;             /* the newest requests, at most so many; 0 = the cap */
    int64_t since_ns, until_ns; /* since <= time < until; 0 = open */
} bw_replay_options;

/* The report as one JSON object, appended. BW_ECORRUPT names the line of a log whose chain
 * does not hold; BW_EINVALID: the candidate is not accepted. Deterministic.
 *
 *   {"requests": n, "without_decisions": n, "decisions": n,
 *    "reproduced": n, "not_reproduced": n, "not_in_log": n,
 *    "reasons": [{"reason", "decisions", "first_seq"}],
 *    "candidate": false | {"allow": n, "deny": n, "to_allow": n, "to_deny": n,
 *      "requests_changed": n,
 *      "by_principal": [{"tenant", "principal", "to_allow", "to_deny"}], "by_action": [{"action", …}],
 *      "by_class": [{"kind": "class" | "collection" | "cell", "name", …}],
 *      "turns": [{"tenant", "principal", "action", "class" | "collection" | "cell",
 *                 "turns": "allow" | "deny", "policies", "errors", "decisions", "requests", "first_seq",
 *                 "last_seq"}],
 *      "turns_left_out": n},
 *    "classes": {id: label set},                of the turns
 *    "from_seq", "to_seq", "head": {"seq", "hash"}}
 *
 * A request counts with each decision that was taken for it: one for every class that a
 * permitted set was decided over, one for each label set that it named, one for the
 * collection or the cell. decisions = reproduced + not_reproduced; only the reproduced
 * are put to the candidate, and allow and deny are those that it leaves as they were. */
BW_MUST_USE bw_status bw_replay_run(bw_ctx *ctx, const bw_replay_options *o, bw_buf *out);
#endif
