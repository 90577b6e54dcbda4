/* Decisions that explain themselves: which policies, which conditions with which values,
 * and the smallest changes of facts that would turn a denial.
 *
 * The changes are found by a bounded search in breadth (one change, then two, …) whose
 * candidates come from the conditions that failed; each is decided for real under the
 * same policies, and so is each of its proper subsets. Deterministic. A decision that is
 * undecidable has nothing to explain but that.
 *
 * What is shown to an asker who is not `privileged`: what the question itself says (the
 * caller, the stated labels, the places), words, countries and zones of the catalogue,
 * roles, and facts about the places' operators, of whose contracts only the caller's own
 * tenant's. Any other name in a condition is "...", and a policy with one is not offered
 * as a near miss. */
#ifndef BW_EXPLAIN_H
#define BW_EXPLAIN_H
#include "decision.h"

enum {
    BW_EXPLAIN_CHANGES_MAX = 3,  /* facts changed at once, unless asked for up to … */
    BW_EXPLAIN_CHANGES_CAP = 4,
    BW_EXPLAIN_TRIES_MAX = 1000, /* decisions that one search may ask for */
    BW_EXPLAIN_SETS_MAX = 8,     /* ways that are told */
    BW_EXPLAIN_POLICIES_MAX = 64
};

typedef enum bw_fact { /* what a change may be about; order of preference */
    BW_FACT_PURPOSE,
    BW_FACT_SAFEGUARDS,
    BW_FACT_DEST, /* the whole place: a node that the operator's entities know */
    BW_FACT_DEST_COUNTRY,
    BW_FACT_DEST_OPERATOR,
    BW_FACT_DEST_CERTS,
    BW_FACT_DEST_HW,
    BW_FACT_DEST_OP_CERTS, /* the operator's own facts, by the schema's names */
    BW_FACT_DEST_OP_BAA,
    BW_FACT_DEST_OP_SEAT,
    BW_FACT_DEST_OP_ZONES,
    BW_FACT_DEST_OP_SHARE_MAX,
    BW_FACT_DEST_OP_SHARE_SUM,
    BW_FACT_AT, /* the same of the place where it is asked */
    BW_FACT_AT_COUNTRY,
    BW_FACT_AT_OPERATOR,
    BW_FACT_AT_CERTS,
    BW_FACT_AT_HW,
    BW_FACT_AT_OP_CERTS,
    BW_FACT_AT_OP_BAA,
    BW_FACT_AT_OP_SEAT,
    BW_FACT_AT_OP_ZONES,
    BW_FACT_AT_OP_SHARE_MAX,
    BW_FACT_AT_OP_SHARE_SUM,
    BW_FACT_ROLES,
    BW_FACT_CLEARANCE,
    BW_FACT_SEAT,
    BW_FACT_RESIDENCY,
    BW_FACT_REGIMES,
    BW_FACT_CATEGORIES,
    BW_FACT_LABELS,
    BW_FACT_PURPOSES,
    BW_FACT_SENSITIVITY,
    BW_FACT_LEGAL_HOLD,
    BW_FACT_COUNT
} bw_fact;

typedef enum bw_verb { BW_CHANGE_SET, BW_CHANGE_ADD, BW_CHANGE_REMOVE } bw_verb;

typedef struct bw_change {
    bw_fact fact;
    bw_verb verb;
    bw_str value; /* numbers, truth values and decimals as text */
} bw_change;

typedef struct bw_change_set {
    bw_change changes[BW_EXPLAIN_CHANGES_CAP];
    uint32_t n;
} bw_change_set;

typedef struct bw_explain_ask { /* borrowed */
    const bw_question *q;
    bw_str label_text; /* canonical; none: kind ("Collection", "Node"), tenant, name */
    const char *kind;
    bw_str tenant, name;
    bool privileged;
    const bw_str *claimable, *recorded; /* purposes, safeguards of the key */
    size_t nclaimable, nrecorded;
    uint32_t changes_max; /* 0 = BW_EXPLAIN_CHANGES_MAX */
} bw_explain_ask;

typedef struct bw_explained_value {
    bw_str path, text; /* context.dest.country, Bw::Country::"US"; text none: unreadable */
} bw_explained_value;

typedef struct bw_explained_part {
    int32_t clause; /* -1: the scope */
    bool unless, failed, truth;
    const char *error;
    bw_str text;
    const bw_explained_value *values;
    size_t nvalues;
} bw_explained_part;

typedef struct bw_explained_policy {
    bw_str name, source, text; /* @id, @source, @text or none */
    bool forbid;
    const char *why; /* "determining", "error", "nearest", "checked" */
    const bw_explained_part *parts;
    size_t nparts;
    bool cut;
} bw_explained_policy;

typedef struct bw_explanation { /* in ctx's arena */
    bw_decision decision;
    uint64_t version;
    const bw_explained_policy *policies;
    size_t npolicies;
    const bw_change_set *sets; /* each turns the denial; none has a part that does */
    /* Who can make change k of set i, at [i * BW_EXPLAIN_CHANGES_CAP + k]: "caller" (claims or
     * chooses it), "operator" (of a place), "administrator" (of keys), "controller" (of the data). */
    const char *const *who;
    size_t nsets;
    uint32_t tried, changes_max;
    bool complete; /* every candidate of up to changes_max (or the found) size was tried, and no
                      permit had to be left out */
} bw_explanation;

/* BW_EUNAVAILABLE: the reasons take more steps than a decision may; BW_ETIMEOUT, BW_ENOMEM: no
 * half of an explanation. What cannot be decided is BW_OK, and a denial that says so. */
BW_MUST_USE bw_status bw_explain(bw_ctx *ctx, bw_authority *a, const bw_explain_ask *ask,
                                 bw_explanation *out);
/* As members of a JSON object: decision, policies, errors, because, changes, search. */
void bw_explanation_put(bw_buf *b, const bw_explanation *e);

/* A question with changes made, as facts. */
typedef struct bw_what_if {
    bw_action action;
    bw_principal who;
    bw_str purpose;
    const bw_str *safeguards;
    size_t nsafeguards;
    bw_place at, dest;
    bool has_dest; /* it is another place than `at` */
    int64_t now_ns;
    bool has_labels;
    bw_labels labels;
    const bw_change *operators; /* changes of the legal entities dest.operator_id, at.operator_id */
    size_t noperators;
} bw_what_if;
/* at: the cell, for a question that names none. */
BW_MUST_USE bw_status bw_what_if_make(bw_ctx *ctx, const bw_explain_ask *ask,
                                      const bw_place *at, const bw_change *changes,
                                      size_t n, bw_what_if *out);
const char *bw_fact_name(bw_fact f); /* "purpose", "dest.country", "labels.residency", … */
#endif
