/* Which policies can apply to a request at all: found by the uids and types in their
 * scopes, so that a policy that cannot apply costs nothing. */
#ifndef BW_CEDAR_INDEX_H
#define BW_CEDAR_INDEX_H
#include "ast.h"
#include "code.h"

/* Policies by one key of one scope variable. Templates are in no list. */
typedef struct bw_cedar__key {
    bw_cedar__uid uid; /* IS: the type, with an empty id */
    uint8_t var, op;   /* op: SCOPE_EQ, SCOPE_IN (IS_IN too) or SCOPE_IS */
    const uint32_t *policies;
    uint32_t n;
} bw_cedar__key;

struct bw_cedar__index {
    bw_cedar__key *keys;
    uint32_t nkeys;
    uint32_t nin[3];        /* keys of SCOPE_IN by variable */
    uint32_t *slots, mask;  /* open addressing over keys: index + 1, or 0 */
    const uint32_t *all[3]; /* policies without a constraint on the variable */
    uint32_t nall[3];
};

BW_MUST_USE bw_status bw_cedar__index_build(bw_ctx *ctx, bw_cedar_policies *set);
/* A bitmap (n / 64 + 1 words, arena of run->ctx) of the policies whose scope matches,
 * exactly; with something unknown (run->unknown), of those whose scope may match. */
BW_MUST_USE bw_status bw_cedar__index_match(const bw_cedar_policies *set,
                                            bw_cedar__run *run, uint64_t **out);
#endif
