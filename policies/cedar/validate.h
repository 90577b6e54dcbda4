/* Inside the validator: a policy's conditions in the few operators that have typing
 * rules of their own, and the state of typing them in one request environment. */
#ifndef BW_CEDAR_VALIDATE_H
#define BW_CEDAR_VALIDATE_H
#include "ast.h"
#include "types.h"

enum {
    BW_CEDAR_VALIDATE_STEPS_MAX = 100000000, /* a node typed, a type compared */
    BW_CEDAR_VALIDATE_NODES_MAX = 1 << 20,   /* in the conditions of one policy */
    BW_CEDAR_FINDINGS_DEFAULT = 100
};

/* ---- a policy made ready: validate_lower.c ---- */
/* `a != b` is !(a == b), `a > b` is !(a <= b), `a >= b` is !(a < b), `e has a.b` is
 * e has a && e.a has b, `e is T in x` is e is T && e in x: no other operators are left.
 */
typedef struct bw_cedar__vnode {
    uint8_t op;      /* bw_cedar__op */
    uint8_t which;   /* VAR, CALL */
    uint32_t n;      /* children */
    uint32_t shape;  /* the same number for what is written alike */
    uint32_t grants; /* HAS, HAS_TAG: the capability that holds where they are true;
                        GET, GET_TAG: the one they need if there is no other reason */
    const uint32_t *child;      /* numbers of nodes */
    const uint32_t *order;      /* RECORD_OF: children by name */
    bw_str name;                /* GET, HAS, IS */
    const bw_cedar__type *type; /* VALUE; NULL: of an undeclared type */
    bool undeclared;            /* VALUE, IS: names what the schema does not declare */
    const bw_cedar__expr *source; /* what it was made from */
} bw_cedar__vnode;

typedef struct bw_cedar__vpolicy {
    const bw_cedar__vnode *nodes; /* children before parents */
    uint32_t nnodes;
    uint32_t nshapes;
    const uint32_t *clauses; /* the node of each clause */
} bw_cedar__vpolicy;

/* In pool's arena. BW_EINVALID when the policy has too many nodes. */
BW_MUST_USE bw_status bw_cedar__lower(bw_ctx *ctx, bw_ctx *pool,
                                      const bw_cedar_schema *schema,
                                      const bw_cedar__policy *p, uint64_t *steps,
                                      bw_cedar__vpolicy *out);
/* Entity types and their ids; action types by their actions. */
bool bw_cedar__uid_declared(const bw_cedar_schema *s, const bw_cedar__uid *uid);
bool bw_cedar__type_declared(const bw_cedar_schema *s, bw_str type);

/* ---- typing: validate_walk.c, validate_rules.c ---- */
/* How many entities must be looked into to have a value (RFC 76); only kept when levels
 * are asked for. A record that is written out knows it for each of its parts. */
enum { BW_CEDAR__NO_ROOT = UINT32_MAX }; /* an entity that the policy names itself */
typedef struct bw_cedar__reach bw_cedar__reach;
struct bw_cedar__reach {
    uint32_t depth;
    uint32_t n;
    const bw_cedar__reach *parts; /* as the type's attributes; NULL: all as depth */
};

typedef struct bw_cedar__typed {
    const bw_cedar__type *type; /* NULL: there was an error, nothing is known */
    bw_cedar__reach reach;
} bw_cedar__typed;

typedef struct bw_cedar__checker {
    bw_ctx *ctx;  /* messages and findings */
    bw_ctx *pool; /* scratch of a policy */
    bw_ctx *env;  /* scratch of an environment */
    const bw_cedar_policies *set;
    const bw_cedar_schema *schema;
    bw_cedar_validate_options options;
    bw_cedar_validation *out;
    bw_cedar_finding *findings;
    uint32_t cap, first; /* room; the first finding of this policy */
    uint64_t steps;
    bw_buf message; /* of the finding under way */

    size_t start, line, column; /* where a policy begins, for the places in it */

    bool failed;    /* this policy has an error */
    uint32_t index; /* the policy */
    const bw_cedar__policy *policy;
    bw_cedar__vpolicy low;

    bool in_env; /* the next ones are set */
    const bw_cedar__uid *action;
    bw_cedar__type var[3]; /* entity types of principal, action, resource */
    const bw_cedar__type *context;

    /* Capabilities in force, as a stack of shapes: what an expression gives where it is
     * true lies above the mark that it began at. */
    uint32_t *held, nheld, held_cap;
    uint32_t *active;        /* by shape: how often it is on that stack */
    uint32_t *seen, seen_at; /* by shape: marks of an intersection */
    struct bw_cedar__frame *frames;
    uint32_t nframes, frames_cap;
    bw_cedar__typed *done; /* of children that wait for their parent */
    uint32_t ndone, done_cap;
} bw_cedar__checker;

/* Types a node in the environment; its capabilities stay in force. out is BOOL, TRUE or
 * FALSE: anything else was reported. */
BW_MUST_USE bw_status bw_cedar__check_condition(bw_cedar__checker *c, uint32_t node,
                                                uint8_t *out);
BW_MUST_USE bw_status bw_cedar__hold(bw_cedar__checker *c, uint32_t shape);
void bw_cedar__drop(bw_cedar__checker *c, uint32_t mark);

/* The rule of an operator that always has all its children evaluated; args are theirs.
 */
BW_MUST_USE bw_status bw_cedar__check_rule(bw_cedar__checker *c,
                                           const bw_cedar__vnode *v,
                                           const bw_cedar__typed *args,
                                           bw_cedar__typed *out);
/* BOOL, TRUE or FALSE of child i; another type is reported and counts as BOOL. */
BW_MUST_USE bw_status bw_cedar__want_bool(bw_cedar__checker *c,
                                          const bw_cedar__vnode *v, uint32_t i,
                                          const bw_cedar__type *type, uint8_t *out);
/* NULL: no join, which is not reported here. */
BW_MUST_USE bw_status bw_cedar__join(bw_cedar__checker *c, const bw_cedar__type *a,
                                     const bw_cedar__type *b,
                                     const bw_cedar__type **out);
BW_MUST_USE bw_status bw_cedar__fail_join(bw_cedar__checker *c,
                                          const bw_cedar__vnode *v,
                                          const bw_cedar__type *a,
                                          const bw_cedar__type *b);
BW_MUST_USE bw_status bw_cedar__reach_join(bw_cedar__checker *c,
                                           const bw_cedar__reach *a,
                                           const bw_cedar__reach *b,
                                           bw_cedar__reach *out);
bool bw_cedar__type_below(const bw_cedar_schema *s, bw_str type, bw_str above);
bool bw_cedar__action_below(const bw_cedar_schema *s, const bw_cedar__object *action,
                            const bw_cedar__uid *above);
/* Counts work; BW_EINVALID when it is too much. */
BW_MUST_USE bw_status bw_cedar__step(bw_cedar__checker *c, uint64_t steps);

/* ---- findings: validate_text.c ---- */
/* Takes c->message; source NULL: about the whole policy. Each is kept once a policy. */
BW_MUST_USE bw_status bw_cedar__report(bw_cedar__checker *c, bool warning,
                                       const bw_cedar__expr *source);
/* Starts c->message: %e is a const bw_cedar__expr *, %t a const bw_cedar__type *, %s a
 * const char *, %n a bw_str, %u an unsigned int. */
void bw_cedar__say(bw_cedar__checker *c, const char *fmt, ...);
#endif
