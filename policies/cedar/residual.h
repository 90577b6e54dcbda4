/* Partial evaluation inside: what is left of a policy set while the resource is
 * unknown. partial.c makes it, partial_expr.c folds expressions, residual.c finishes
 * it. */
#ifndef BW_CEDAR_RESIDUAL_H
#define BW_CEDAR_RESIDUAL_H
#include "code.h"
#include "schema.h"

typedef struct bw_cedar__residual { /* of a policy whose state is not FALSE */
    uint32_t policy;
    uint8_t state; /* bw_cedar_residual_state */
    bool forbid;
    bool together; /* allow asks it together with others: see partial.c */
    const bw_cedar__expr *expr; /* OPEN */
    const bw_cedar__code *code; /* OPEN: of expr as the one condition */
} bw_cedar__residual;

struct bw_cedar_residuals {
    bw_ctx *pool; /* owns everything but what is borrowed */

    const bw_cedar_schema *schema; /* borrowed; or NULL */

    /* the question */
    bw_cedar__uid uids[3]; /* the resource's: its type, no id */
    bw_cedar__run
        run;       /* how a run begins: stores (borrowed), principal, action, context;
                      tangled: the stores among themselves; no ctx, no resource */
    bool check_id; /* the resource's type is an enumerated one */
    bool conform;  /* options.resources_conform */

    /* the answer */
    const bw_cedar__residual *items; /* by policy, ascending */
    uint32_t n, npolicies;
    uint32_t counts[4];             /* by state; FALSE: all others */
    uint32_t stack_max;             /* of the codes */
    const bw_cedar__code **open[2]; /* what allow runs: open permits, open forbids */
    uint32_t nopen[2];
    bool always; /* a permit is TRUE */
    bool never;  /* a forbid is TRUE or errs, or no permit is TRUE or OPEN */
};

/* The condition that is left of a policy, its scope included: one expression that must
 * be true. NULL unless the policy's state is OPEN. What is known stands in it as VALUE
 * nodes (of any kind, extension values too), an operation that always fails as ERROR;
 * offsets are the policy text's. Lives as long as the residuals and what they borrow.
 */
const bw_cedar__expr *bw_cedar__residual_expr(const bw_cedar_residuals *r,
                                              size_t policy);

/* ---- folding expressions: partial_expr.c ---- */
enum { BW_CEDAR__ANY_KIND = 255 };

typedef struct bw_cedar__part { /* what an expression came to */
    bool known;                 /* value; else e */
    bool total;                 /* cannot error; always true of what is known */
    uint8_t kind; /* of every value it can have (bw_cedar__kind), or ANY_KIND */
    const bw_cedar__type *type; /* the same in full where the schema tells; or NULL */
    const bw_cedar__expr *e; /* the residual; of what is known a VALUE node or NULL */
    bw_cedar_value value;
} bw_cedar__part;

typedef struct bw_cedar__folder { /* one partial evaluation; one thread */
    bw_cedar__run run; /* run.ctx: the pool; run.unknown: the resource's type */
    bw_ctx *ctx;       /* messages, and scratch for the stacks */
    /* the resource's declared attributes, when it is promised to conform; else NULL */
    const bw_cedar_schema *schema;
    const bw_cedar__entity_type *resource;
    struct bw_cedar__fold_frame *frames;
    bw_cedar__part *parts;
    uint32_t nframes, frames_cap, nparts, parts_cap;
} bw_cedar__folder;

/* checked: whoever takes the result insists on a Bool. Fails past the limit of steps
 * (BW_EINVALID) or when memory is out. */
BW_MUST_USE bw_status bw_cedar__fold(bw_cedar__folder *f, const bw_cedar__expr *e,
                                     bool checked, bw_cedar__part *out);
/* A node of the pool over n children that the caller fills in. */
BW_MUST_USE bw_status bw_cedar__fold_node(bw_cedar__folder *f, bw_cedar__op op,
                                          uint32_t offset, uint32_t n,
                                          bw_cedar__expr **out,
                                          const bw_cedar__expr ***children);
#endif
