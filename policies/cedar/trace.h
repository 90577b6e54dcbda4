/* Why a policy is satisfied by a request, or is not: the conditions that make it so, with
 * the values that they read.
 *
 * A policy is one conjunction: its scope, each `when`, the contrary of each `unless`.
 * What is listed is a smallest set of plain conditions (parts, none of which has && || !
 * or if at its top) that settles the outcome: of a conjunction that fails the first part
 * that fails, of a disjunction that fails all of them, and so on. To turn the outcome, at
 * least one listed part must turn; that action and resource fit the scope is not listed.
 * Every part is evaluated by the evaluator itself.
 *
 * Parts and their values live in the ctx's arena. Bounded: parts and leaves by the limits
 * below, work by the steps of one authorization for each policy. */
#ifndef BW_CEDAR_TRACE_H
#define BW_CEDAR_TRACE_H
#include "cedar.h"

enum {
    BW_CEDAR_PARTS_MAX = 64,     /* of one policy; more are dropped, and it is said */
    BW_CEDAR_LEAVES_MAX = 8,     /* of one part */
    BW_CEDAR_PART_TEXT_MAX = 400 /* bytes of a part or value as text; then "..." */
};

typedef enum bw_cedar_truth { BW_CEDAR_FALSE, BW_CEDAR_TRUE, BW_CEDAR_FAILED } bw_cedar_truth;

typedef struct bw_cedar_leaf { /* something that a part reads */
    bw_str path;                 /* context.dest.country */
    const bw_cedar_value *value; /* NULL: it cannot be read */
} bw_cedar_leaf;

/* What a part asks of its sides, turned so that there are few: a > b is LESS of (b, a),
 * a != b is EQ that should not hold. */
typedef enum bw_cedar_test {
    BW_CEDAR_TEST_OTHER,
    BW_CEDAR_TEST_BOOL, /* side 0 itself */
    BW_CEDAR_TEST_EQ,
    BW_CEDAR_TEST_LESS,
    BW_CEDAR_TEST_LESS_EQ,
    BW_CEDAR_TEST_IN,
    BW_CEDAR_TEST_CONTAINS,
    BW_CEDAR_TEST_CONTAINS_ALL,
    BW_CEDAR_TEST_CONTAINS_ANY,
    BW_CEDAR_TEST_EMPTY
} bw_cedar_test;

typedef struct bw_cedar_part {
    int32_t clause; /* -1: the scope */
    bool unless;    /* stands in an unless */
    bw_cedar_truth truth;
    const char *error; /* FAILED: why; static */
    bw_cedar_test test;
    bool holds;            /* the test's own truth; not for FAILED */
    bw_cedar_leaf side[2]; /* path empty: no plain path; value NULL: cannot be read */
    const bw_cedar_leaf *leaves;
    uint32_t nleaves;
    const void *expr; /* for bw_cedar_part_text */
} bw_cedar_part;

typedef struct bw_cedar_reasons {
    bw_cedar_truth satisfied; /* FAILED: the policy errors */
    const bw_cedar_part *parts;
    uint32_t nparts;
    bool cut;          /* parts were dropped */
    uint32_t failing;  /* conjuncts that do not hold, each looked at alone */
    bool scope_fits;   /* action and resource are those of the scope */
} bw_cedar_reasons;

typedef struct bw_cedar_trace bw_cedar_trace;

/* One request to be looked into; borrows all it is given. BW_EINVALID when Cedar cannot
 * take the request. */
BW_MUST_USE bw_status bw_cedar_trace_open(bw_ctx *ctx, const bw_cedar_policies *p,
                                          const bw_cedar_entities *e,
                                          const bw_cedar_schema *schema,
                                          const bw_cedar_request *request,
                                          bw_cedar_trace **out);
BW_MUST_USE bw_status bw_cedar_trace_policy(bw_cedar_trace *t, uint32_t policy,
                                            bw_cedar_reasons *out);
/* The same without parts, and nothing of it stays in the arena: for going through many. */
BW_MUST_USE bw_status bw_cedar_trace_outcome(bw_cedar_trace *t, uint32_t policy,
                                             bw_cedar_reasons *out);

/* Whether a literal may be shown; none: all. What may not is written as "...". */
typedef bool (*bw_cedar_show)(const bw_cedar_value *literal, void *user);
/* As Cedar text, short and on one line; appended. */
void bw_cedar_part_text(bw_buf *b, const bw_cedar_part *part, bw_cedar_show show,
                        void *user);
void bw_cedar_value_text(bw_buf *b, const bw_cedar_value *v, bw_cedar_show show,
                         void *user);
/* Whether every literal of the policy, scope and conditions, may be shown. */
BW_MUST_USE bw_status bw_cedar_policy_literals(bw_ctx *ctx, const bw_cedar_policies *p,
                                               uint32_t policy, bw_cedar_show show,
                                               void *user, bool *all);

/* ---- values from outside of this folder ---- */
typedef enum bw_cedar_kind {
    BW_CEDAR_BOOL,
    BW_CEDAR_LONG,
    BW_CEDAR_STRING,
    BW_CEDAR_ENTITY,
    BW_CEDAR_SET,
    BW_CEDAR_DECIMAL,
    BW_CEDAR_OTHER
} bw_cedar_kind;

typedef struct bw_cedar_look {
    bw_cedar_kind kind;
    bool boolean;
    int64_t integer; /* LONG; DECIMAL: times 10,000 */
    bw_str text;     /* STRING; ENTITY: its id */
    bw_str type;     /* ENTITY */
    uint32_t n;      /* SET */
} bw_cedar_look;
bw_cedar_look bw_cedar_value_look(const bw_cedar_value *v);
const bw_cedar_value *bw_cedar_value_item(const bw_cedar_value *set, uint32_t i);
/* An attribute of an entity as the stores of the request hold it; NULL: none. */
const bw_cedar_value *bw_cedar_trace_attribute(const bw_cedar_trace *t,
                                               const bw_cedar_uid *entity, bw_str name);
/* Visits the attributes of a defined entity, by name. */
void bw_cedar_entity_attributes(const bw_cedar_entities *e, const bw_cedar_uid *uid,
                                void (*visit)(bw_str name, const bw_cedar_value *value,
                                              void *user),
                                void *user);
/* As entities JSON has it, with explicit __entity and __extn; appended. */
void bw_cedar_value_json(bw_buf *b, const bw_cedar_value *v);
/* Whether an entity is in a group, in the request's stores. */
bool bw_cedar_trace_in(bw_cedar_trace *t, const bw_cedar_uid *entity,
                       const bw_cedar_uid *group);
/* Ids of the defined entities of a type, or those in a group (NULL: all), sorted bytewise,
 * at most `most`. */
BW_MUST_USE bw_status bw_cedar_trace_members(bw_cedar_trace *t, bw_str type,
                                             const bw_cedar_uid *group, size_t most,
                                             const bw_str **out, size_t *n);
#endif
