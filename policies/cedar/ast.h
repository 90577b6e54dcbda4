/* The tree of a policy set, as it was written: what the evaluator is compiled from, and
 * what validation, the JSON form, links and residuals walk.
 *
 * Built once by parse.c in the set's own arena, immutable afterwards, shared by
 * threads. Nothing is folded here (constants are folded in compile.c), so the JSON form
 * can be written exactly. Chains may be long: children nest to the left without limit,
 * so walkers keep a stack of their own instead of recursing (compile.c shows how).
 * Other nesting is bounded by BW_CEDAR_DEPTH_MAX. */
#ifndef BW_CEDAR_AST_H
#define BW_CEDAR_AST_H
#include "lex.h"

typedef enum bw_cedar__op { /* children, and what else the node holds */
                            BW_CEDAR__VALUE, /* value: Bool, Long, String or entity */
                            BW_CEDAR__VAR,   /* which: principal, action, resource,
                                                context */
                            BW_CEDAR__SLOT,  /* which: principal or resource; not from
                                                text, for links */
                            BW_CEDAR__IF,    /* condition, then, else */
                            BW_CEDAR__AND,
                            BW_CEDAR__OR, /* two */
                            BW_CEDAR__NOT,
                            BW_CEDAR__NEG,
                            BW_CEDAR__IS_EMPTY, /* one */
                            BW_CEDAR__EQ,
                            BW_CEDAR__NE,
                            BW_CEDAR__LT,
                            BW_CEDAR__LE,
                            BW_CEDAR__GT,
                            BW_CEDAR__GE, /* two */
                            BW_CEDAR__IN,
                            BW_CEDAR__ADD,
                            BW_CEDAR__SUB,
                            BW_CEDAR__MUL,
                            BW_CEDAR__CONTAINS,
                            BW_CEDAR__CONTAINS_ALL,
                            BW_CEDAR__CONTAINS_ANY,
                            BW_CEDAR__HAS_TAG,
                            BW_CEDAR__GET_TAG,
                            BW_CEDAR__GET,  /* one; names[0] */
                            BW_CEDAR__HAS,  /* one; names: a path, `e has a.b` is `e has
                                               a && e.a has b` */
                            BW_CEDAR__LIKE, /* one; pattern */
                            BW_CEDAR__IS,   /* one, or two for `is T in x`; names[0] is
                                               the type */
                            BW_CEDAR__SET_OF,    /* any */
                            BW_CEDAR__RECORD_OF, /* any; names[i] belongs to child[i],
                                                    in the order written */
                            BW_CEDAR__CALL,      /* any; which: bw_cedar__fn; a receiver
                                                    comes first */
                            BW_CEDAR__ERROR      /* residuals only: always an error */
} bw_cedar__op;

enum { BW_CEDAR__PRINCIPAL, BW_CEDAR__ACTION, BW_CEDAR__RESOURCE, BW_CEDAR__CONTEXT };
extern const char *const bw_cedar__vars[4]; /* their names */

/* The operators that have nothing but operands: text and JSON call them alike (but for
 * NEG, which is "neg" in JSON). name NULL: no such operator. */
typedef struct bw_cedar__operator {
    const char *name;
    uint32_t n; /* operands */
} bw_cedar__operator;
extern const bw_cedar__operator bw_cedar__operators[BW_CEDAR__GET_TAG + 1];

typedef struct bw_cedar__lineage bw_cedar__lineage; /* code.h */
typedef struct bw_cedar__expr bw_cedar__expr;
struct bw_cedar__expr {
    uint8_t op;    /* bw_cedar__op */
    uint8_t which; /* VAR, SLOT, CALL */
    uint32_t n;    /* children */
    uint32_t nnames;
    uint32_t offset; /* where it begins in the set's text */
    const bw_cedar__expr *const *child;
    union {
        bw_cedar_value value;
        const bw_str *names;
        bw_cedar__pattern pattern;
        const bw_cedar__lineage
            *lineage; /* IN of a residual: its left side's; or NULL */
    } u;
};

typedef enum bw_cedar__scope_op {
    BW_CEDAR__SCOPE_ALL,
    BW_CEDAR__SCOPE_EQ,
    BW_CEDAR__SCOPE_IN,
    BW_CEDAR__SCOPE_IN_LIST,
    BW_CEDAR__SCOPE_IS,
    BW_CEDAR__SCOPE_IS_IN
} bw_cedar__scope_op;

typedef struct bw_cedar__scope {
    uint8_t op;  /* bw_cedar__scope_op */
    bool slot;   /* EQ, IN, IS_IN: ?principal or ?resource instead of uids */
    bw_str type; /* IS, IS_IN */
    const bw_cedar__uid *uids; /* one; IN_LIST any (a list of one is IN) */
    uint32_t n;
} bw_cedar__scope;

typedef struct bw_cedar__annotation {
    bw_str key, value;
    bool has_value;
} bw_cedar__annotation;

typedef struct bw_cedar__clause {
    bool unless;
    const bw_cedar__expr *body;
} bw_cedar__clause;

typedef struct bw_cedar__code bw_cedar__code; /* code.h */

typedef struct bw_cedar__policy {
    bw_str id;   /* "policy3" */
    bw_str text; /* its source, annotations included */
    bool forbid;
    bool is_template;
    uint32_t link_of;         /* a link: 1 + the index of its template; else 0 */
    bw_cedar__scope scope[3]; /* by BW_CEDAR__PRINCIPAL, ACTION, RESOURCE */
    const bw_cedar__annotation *annotations;
    const bw_cedar__clause *clauses;
    uint32_t nannotations, nclauses;
    const bw_cedar__code *code; /* NULL when there is no clause */
} bw_cedar__policy;

typedef struct bw_cedar__index bw_cedar__index; /* index.h */

struct bw_cedar_policies {
    bw_ctx *pool; /* owns everything below */
    bw_str text;
    bw_cedar__policy *policies;
    uint32_t n;
    uint32_t stack_max; /* of all codes */
    const bw_cedar__index *index;
    const bw_str
        *context_names; /* attributes of context that conditions read, each once */
    uint32_t ncontext_names;
    bool context_whole; /* context is also used as a whole */
};

/* ---- making trees and sets: ast.c ---- */
typedef struct bw_cedar__maker {
    bw_ctx *ctx, *pool; /* messages and scratch; the set's own arena */
} bw_cedar__maker;

typedef struct bw_cedar__list { /* grows in scratch, is copied to the pool when complete
                                 */
    void *items;
    uint32_t n, cap;
} bw_cedar__list;
BW_MUST_USE bw_status bw_cedar__list_add(bw_cedar__maker *m, bw_cedar__list *l,
                                         const void *item, size_t size);
BW_MUST_USE bw_status bw_cedar__list_keep(bw_cedar__maker *m, const bw_cedar__list *l,
                                          size_t size, const void **out);

BW_MUST_USE bw_status bw_cedar__node(bw_cedar__maker *m, bw_cedar__op op, size_t offset,
                                     uint32_t n, bw_cedar__expr **out);
/* One to three children; b and c may be NULL. */
BW_MUST_USE bw_status bw_cedar__node_of(bw_cedar__maker *m, bw_cedar__op op,
                                        size_t offset, const bw_cedar__expr *a,
                                        const bw_cedar__expr *b,
                                        const bw_cedar__expr *c, bw_cedar__expr **out);
BW_MUST_USE bw_status bw_cedar__node_name(bw_cedar__maker *m, bw_cedar__expr *e,
                                          bw_str name);
BW_MUST_USE bw_status bw_cedar__value_node(bw_cedar__maker *m, size_t offset,
                                           bw_cedar_value v,
                                           const bw_cedar__expr **out);
BW_MUST_USE bw_status bw_cedar__list_node(bw_cedar__maker *m, bw_cedar__op op,
                                          size_t offset, const bw_cedar__list *children,
                                          bw_cedar__expr **out);
/* *unique: whether no key is there twice. */
BW_MUST_USE bw_status bw_cedar__record_node(bw_cedar__maker *m, size_t offset,
                                            const bw_cedar__list *names,
                                            const bw_cedar__list *children,
                                            bool *unique, const bw_cedar__expr **out);

/* Copies text, calls read, frees everything when it fails. */
BW_MUST_USE bw_status bw_cedar__set_new(bw_ctx *ctx, bw_str text,
                                        bw_status (*read)(bw_cedar__maker *m,
                                                          bw_cedar_policies *set),
                                        bw_cedar_policies **out);
/* Compiles a policy (unless it has code already: a link has its template's) and adds
 * it. */
BW_MUST_USE bw_status bw_cedar__set_add(bw_cedar__maker *m, bw_cedar_policies *set,
                                        bw_cedar__list *all, bw_cedar__policy *policy);
/* The policies become the set's; index and context use are built. */
BW_MUST_USE bw_status bw_cedar__set_finish(bw_cedar__maker *m, bw_cedar_policies *set,
                                           const bw_cedar__list *all);

/* Fills context_names and context_whole. */
BW_MUST_USE bw_status bw_cedar__note_context(bw_ctx *ctx, bw_cedar_policies *set);

/* Goes through a tree in the order it is written, on a stack of its own: step(e, 0),
 * step(e, 1) … are what comes before, between and after the children of e. It returns
 * the child to go through next, or NULL when e is done. *note is the step's own, for e
 * alone, and begins as 0. False: no memory. */
typedef const bw_cedar__expr *(*bw_cedar__order_step)(void *user,
                                                      const bw_cedar__expr *e,
                                                      uint32_t i, uint8_t *note);
BW_MUST_USE bool bw_cedar__in_order(const bw_cedar__expr *root,
                                    bw_cedar__order_step step, void *user);

/* Calls visit on every node under root, parents first; stops when it returns false. The
 * stack lives in ctx's arena. */
BW_MUST_USE bw_status bw_cedar__walk(bw_ctx *ctx, const bw_cedar__expr *root,
                                     bool (*visit)(const bw_cedar__expr *e, void *user),
                                     void *user);
#endif
