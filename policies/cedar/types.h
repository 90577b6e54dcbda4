/* Types of expressions, as the validator infers them: a schema's types, and besides
 * them the two Bools that are known. Immutable; in a schema, or in an arena of the
 * validator. Types nest as deep as a schema (1,000) and a policy (BW_CEDAR_DEPTH_MAX)
 * together, so recursion over them is bounded; how often a shared part is met is not,
 * so it counts. */
#ifndef BW_CEDAR_TYPES_H
#define BW_CEDAR_TYPES_H
#include "schema.h"

enum { /* kinds beside bw_cedar__kind */
       BW_CEDAR__TRUE = BW_CEDAR__IP + 1,
       BW_CEDAR__FALSE
};

/* One of the kinds that need nothing but their kind. */
const bw_cedar__type *bw_cedar__type_of(uint8_t kind);
static inline bool bw_cedar__type_is_bool(const bw_cedar__type *t)
{
    return t->kind == BW_CEDAR__BOOL || t->kind >= BW_CEDAR__TRUE;
}

/* The least type that holds the values of both (strict: language description, section
 * 8), or NULL when there is none, or no memory: then *memory is set. New types are
 * built in pool's arena. *steps grows by the work done; above `most` NULL comes back.
 */
typedef struct bw_cedar__joiner {
    bw_ctx *pool;
    uint64_t *steps, most;
    bool memory;
} bw_cedar__joiner;
const bw_cedar__type *bw_cedar__type_join(bw_cedar__joiner *j, const bw_cedar__type *a,
                                          const bw_cedar__type *b);

/* As a schema would write it, cut after some hundred bytes. */
void bw_cedar__type_put(bw_buf *out, const bw_cedar__type *t);
#endif
