/* What the evaluator runs: one short program a policy, for a stack of values. Compiled
 * once from the tree, immutable, shared by threads. */
#ifndef BW_CEDAR_CODE_H
#define BW_CEDAR_CODE_H
#include "ast.h"
#include "entities.h"

typedef enum bw_cedar__ins {
    BW_CEDAR__I_CONST,   /* push value */
    BW_CEDAR__I_VAR,     /* push principal, action, resource or context */
    BW_CEDAR__I_VAR_GET, /* push attribute `name` of a variable: the commonest pair */
    BW_CEDAR__I_NOT,
    BW_CEDAR__I_NEG,
    BW_CEDAR__I_AND, /* top must be Bool; false: jump; true: drop it and go on */
    BW_CEDAR__I_OR,
    BW_CEDAR__I_BOOL, /* top must be Bool: right operands of && and || */
    BW_CEDAR__I_IF,   /* drop top, which must be Bool; false: jump */
    BW_CEDAR__I_JUMP,
    BW_CEDAR__I_EQ,
    BW_CEDAR__I_NE,
    BW_CEDAR__I_LT,
    BW_CEDAR__I_LE,
    BW_CEDAR__I_GT,
    BW_CEDAR__I_GE,
    BW_CEDAR__I_IN,
    BW_CEDAR__I_IN_KNOWN, /* IN; the left value's lineage is there */
    BW_CEDAR__I_ADD,
    BW_CEDAR__I_SUB,
    BW_CEDAR__I_MUL,
    BW_CEDAR__I_CONTAINS,
    BW_CEDAR__I_CONTAINS_ALL,
    BW_CEDAR__I_CONTAINS_ANY,
    BW_CEDAR__I_IS_EMPTY,
    BW_CEDAR__I_HAS_TAG,
    BW_CEDAR__I_GET_TAG,
    BW_CEDAR__I_GET,
    BW_CEDAR__I_HAS,
    BW_CEDAR__I_HAS_STEP, /* in `e has a.b`: absent: false and jump; else e.a */
    BW_CEDAR__I_LIKE,
    BW_CEDAR__I_IS,
    BW_CEDAR__I_IS_STEP, /* `e is T in x`: other type: false and jump; else keep e */
    BW_CEDAR__I_SET,
    BW_CEDAR__I_RECORD, /* of the n topmost */
    BW_CEDAR__I_CALL,   /* fn on the n topmost */
    BW_CEDAR__I_WHEN,   /* drop top, which must be Bool; false: not satisfied */
    BW_CEDAR__I_UNLESS,
    BW_CEDAR__I_ERROR,
    BW_CEDAR__I_END /* satisfied */
} bw_cedar__ins;

typedef struct bw_cedar__instr {
    uint8_t ins, which;
    uint32_t n; /* operands, the target of a jump, or of an attribute where it may be */
    union {
        bw_cedar_value value;
        bw_str name;
        const bw_str *names;
        const bw_cedar__pattern *pattern;
        const bw_cedar__lineage *lineage;
    } u;
} bw_cedar__instr;

/* All that an entity is in, itself included: a hash table, so that a residual that asks
 * whether a known entity is in something of the resource's need not walk stores. */
struct bw_cedar__lineage {
    uint32_t mask;
    const bw_cedar__uid *slots[]; /* open addressing by hash; NULL: free */
};

struct bw_cedar__code {
    const bw_cedar__instr *ins;
    uint32_t n, stack_max;
};

/* Compiles the clauses of p (nothing when there are none) in pool's arena. shape: of
 * resources that conform, so that their attributes are looked for where they stand; or
 * NULL. */
struct bw_cedar__type;
BW_MUST_USE bw_status bw_cedar__compile(bw_ctx *ctx, bw_ctx *pool,
                                        const struct bw_cedar__type *shape,
                                        bw_cedar__policy *p);
/* One expression as a program of its own, in ctx's arena: BW_CEDAR__YES leaves its
 * value in run->stack[1]. */
BW_MUST_USE bw_status bw_cedar__compile_expr(bw_ctx *ctx, const bw_cedar__expr *e,
                                             bw_cedar__code *out);

typedef struct bw_cedar__run { /* one authorization; one thread */
    bw_ctx *ctx;
    const bw_cedar_entities
        *stores[3]; /* extra, base, the schema's actions; NULL if none */
    bw_cedar_value vars[4];
    const bw_cedar__object
        *objects[3]; /* of the first three variables; NULL: in no store */
    /* when a residual is finished: the resource's own object, which hides what the
     * stores say of its uid; its parents are objects of own_store. Else NULL. */
    const bw_cedar__object *own;
    const bw_cedar_entities *own_store;
    /* partial evaluation: of entities of this type (the resource's, whose id is none)
     * only the uid is known; else NULL. unknown_above: one may be among the ancestors
     * of others */
    const bw_str *unknown;
    bool unknown_above;
    bool tangled; /* closures do not hold beside an object that hides another */
    bool *seen;   /* tangled: a byte for each object of all stores, all 0 */
    bw_cedar_value *stack;
    uint64_t steps;
    bool nomem;         /* stopped for want of memory, not of steps */
    const char *reason; /* of an error */
} bw_cedar__run;

typedef enum bw_cedar__outcome {
    BW_CEDAR__NO,
    BW_CEDAR__YES,
    BW_CEDAR__ERRED,
    BW_CEDAR__STOPPED /* limit or memory */
} bw_cedar__outcome;
bw_cedar__outcome bw_cedar__eval(bw_cedar__run *run, const bw_cedar__code *code);
/* One instruction that is no jump, on n operands in stack[1 … n]; the result is
 * stack[1] (room for it even if n is 0). NO never. */
bw_cedar__outcome bw_cedar__apply(bw_cedar__run *run, const bw_cedar__instr *in,
                                  bw_cedar_value *stack, uint32_t n);
/* The instruction of an operator without names or jumps (NOT to GET_TAG). */
bw_cedar__ins bw_cedar__ins_of(bw_cedar__op op);
/* Whether everything that uid is in is known (always, unless run->unknown). */
bool bw_cedar__lineage_known(bw_cedar__run *run, const bw_cedar__uid *uid);

/* What the policies of one authorization came to: indexes, each list ascending. */
typedef struct bw_cedar__verdicts {
    uint32_t *permits, *forbids, *errors;
    size_t npermits, nforbids, nerrors;
    bool forbid_errored;
} bw_cedar__verdicts;
/* Room for n policies, and a stack; ctx's arena. */
BW_MUST_USE bw_status bw_cedar__verdicts_start(bw_cedar__run *run, size_t n,
                                               uint32_t stack_max,
                                               bw_cedar__verdicts *v);
/* Runs code (NULL: always true) and notes policy i. */
BW_MUST_USE bw_status bw_cedar__judge(bw_cedar__run *run, const bw_cedar__code *code,
                                      bool forbid, uint32_t i, bw_cedar__verdicts *v);
void bw_cedar__note(bw_cedar__verdicts *v, bw_cedar__outcome outcome, bool forbid,
                    uint32_t i);
void bw_cedar__answer(const bw_cedar__verdicts *v, bw_cedar_answer *out);
bw_status bw_cedar__stopped(bw_cedar__run *run); /* the failure of a STOPPED run */

/* Everything of a run but its stack: stores, variables, the request held against the
 * schema. uids must live as long as the run. BW_EINVALID when Cedar cannot take it. */
BW_MUST_USE bw_status bw_cedar__run_begin(bw_ctx *ctx, const bw_cedar_entities *e,
                                          const bw_cedar_schema *schema,
                                          const bw_cedar_request *request,
                                          bw_cedar__uid uids[3], bw_cedar__run *run);

const bw_cedar__object *bw_cedar__find(const bw_cedar__run *run,
                                       const bw_cedar__uid *uid);
/* The same by the stores alone. */
const bw_cedar__object *bw_cedar__find_stored(const bw_cedar__run *run,
                                              const bw_cedar__uid *uid);
/* Whether a equals b or has it among its ancestors, over all stores. */
bool bw_cedar__is_in(bw_cedar__run *run, const bw_cedar__uid *a,
                     const bw_cedar__uid *b);
/* Visits the ancestors of uid, one perhaps twice. False, having visited nothing, when
 * there are more than `most` or the stores are tangled. */
bool bw_cedar__each_ancestor(bw_cedar__run *run, const bw_cedar__uid *uid, size_t most,
                             void (*visit)(const bw_cedar__uid *uid, void *user),
                             void *user);
/* Whether the small store hides objects of the base in a way that tangles ancestry;
 * then once for all: prepares `seen`. */
bool bw_cedar__tangled(const bw_cedar__run *run);
BW_MUST_USE bw_status bw_cedar__run_stores(bw_cedar__run *run, bool tangled);
#endif
