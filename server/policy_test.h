/* Tests of a policy set: one JSON file of questions, each with the answer that it must
 * have. Driven by `bailiwick policy test FILE…`; needs no cell and no key.
 *
 *   {"about": "what this file is for",
 *    "policies": ["legal-hold", {"file": "own.cedar"}, {"text": "permit (…);"}],
 *    "catalogue": {…}, "entities": […],
 *    "places": {"par1": {"country": "FR", "operator": "eucloud", "certs": ["hds"], "hw": ["tee"]}},
 *    "principals": {"ana": {"tenant": "acme", "seat": "FR", "clearance": 3, "roles": ["reader"]}},
 *    "classes": {"hr": {"regimes": ["gdpr"], "residency": ["EEA"], "sensitivity": 2, …}},
 *    "cell": "par1", "purpose": "payroll", "now": "2026-11-30T12:00:00Z",
 *    "cases": [
 *     {"name": "…", "principal": "ana", "action": "Query", "class": "hr", "expect": "allow"},
 *     {"name": "…", "principal": "ana", "action": "Transfer", "class": "hr", "at": "par1", "dest": "va1",
 *      "purpose": "payroll", "safeguards": ["scc"], "now": "2026-12-01T00:00:00Z",
 *      "expect": {"decision": "deny", "policies": ["gdpr-ch5"], "errors": []}}]}
 *
 * policies    one set made of the parts in order: a pack or a set of packs by
 *             name (policies/packs), a file (relative to this one) or text. Left out: the set that the
 *             command names (--policies), else that of the data folder (--data), else the
 *             default set. --policies takes the place of what is written here.
 * catalogue   an operator's overlay, entities: an operator's entities; each takes the
 *             place of the data folder's. Legal entities may stand in either.
 * places      what `cell`, `at` and `dest` name; an id is its name here. A case may write
 *             {"id", "country", "operator", "certs", "hw"} itself.
 * principals  id = the name here; {"id", "tenant", "seat", "clearance", "roles"} in a case.
 *             tenant and seat must be said ("seat": "" = unknown), clearance is 0 and
 *             roles none without.
 * classes     label sets (README.md of policies). `tenant` left out: the principal's. A
 *             case may write "labels": {…} itself.
 * cell        the place that decides where no case says `at`; left out: the
 *             configuration's (--data, --set cell.country=…), else a place in FR.
 * purpose, safeguards, now   the default of cases. No clock is read: where a policy reads
 *             `now`, the file or the case must say it.
 *
 * A case: name (unique), principal, action, and one of class, labels, "collection":
 * "NAME" (of the principal's tenant, or {"tenant", "name"}) and "cell": true. dest left
 * out or null: the cell itself. expect: "allow" or "deny", or {"decision", "policies",
 * "errors"}: policies are those that determine the answer, all of them, in any order, by
 * @id, [] = a deny that no policy names; left out: any. errors are the policies that
 * errored; left out: none may. Every case must expect a decision, and a file must have a
 * case. Unknown members, unknown words of the catalogue and names without an entry are
 * refused with their JSON pointer. "about" may stand in the file and in a case, for
 * readers. */
#ifndef BW_POLICY_TEST_H
#define BW_POLICY_TEST_H
#include "server.h"

enum { BW_POLICY_CASES_MAX = 100000 };

typedef struct bw_policy_test_options {
    bw_pack pack;
    const char *packs;  /* the folder of packs */
    bw_str policies;    /* the set to test in place of a file's own; none = the file's */
    bw_str fallback;    /* for files that name none */
    bw_str entities;    /* of the data folder, or none; its overlay is in the pack */
    bw_place at;        /* for files that name no cell */
    bw_str filter;      /* only cases whose name holds this; none = all */
    /* A running cell's dry run in place of an authority of our own, or NULL: the body goes
     * there, the answer comes back. What a file names is then the cell's candidate. */
    bw_status (*ask)(void *arg, bw_ctx *ctx, bw_str body, const bw_json **answer);
    void *ask_arg;
    bool cedar_errors;  /* Cedar's own semantics: errors skip, nothing is validated */
} bw_policy_test_options;

typedef struct bw_policy_case { /* strings in ctx's arena */
    bw_str name;
    bw_str question; /* in words, one line */
    bw_str failure;  /* none = passed; lines of text */
} bw_policy_case;

typedef struct bw_policy_test_result {
    const bw_policy_case *cases;
    size_t n, failed, filtered; /* filtered: left out by the filter */
} bw_policy_test_result;

/* Runs one file; everything in ctx's arena. BW_EINVALID with the pointer when the file is
 * none of the format, or its set is not accepted; a failing case is no error. */
BW_MUST_USE bw_status bw_policy_test_run(bw_ctx *ctx, const bw_policy_test_options *o,
                                         const char *path, bw_policy_test_result *out);

typedef enum bw_policy_verdict {
    BW_POLICY_PASSES, /* every case has the expected answer */
    BW_POLICY_FAILS,
    BW_POLICY_REFUSED /* is no set that would be accepted */
} bw_policy_verdict;
/* What a file's cases say of n other sets in place of its own: for mutation runs. Stops
 * at a set's first failing case. */
BW_MUST_USE bw_status bw_policy_test_judge(bw_ctx *ctx, const bw_policy_test_options *o,
                                           const char *path, const bw_str *sets, size_t n,
                                           bw_policy_verdict *out);
#endif
