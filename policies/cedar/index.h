/* Which policies can apply to a request at all: found by the uids and types in their
 * scopes, so that a policy that cannot apply costs nothing. */
#ifndef BW_CEDAR_INDEX_H
#define BW_CEDAR_INDEX_H
#include "ast.h"
#include "code.h"

/* Two plans: with all three variables known, and with the resource unknown (only
 * principal and action are looked up). In each a policy stands in the lists of one
 * variable only, the one whose keys the fewest policies share, or in `all` when it
 * constrains none. Templates are in no list. */
enum { BW_CEDAR__PLANS = 2 };
typedef struct bw_cedar__posting {
    const uint32_t *policies; /* ascending */
    uint32_t n;
} bw_cedar__posting;

typedef struct bw_cedar__key {
    bw_cedar__uid uid; /* IS: the type, with an empty id */
    uint8_t var, op;   /* op: SCOPE_EQ, SCOPE_IN (IS_IN too) or SCOPE_IS */
    uint32_t asked;    /* policies with this constraint */
    bw_cedar__posting of[BW_CEDAR__PLANS];
} bw_cedar__key;

struct bw_cedar__index {
    bw_cedar__key *keys;
    uint32_t nkeys;
    uint32_t nin[3], nis[3]; /* keys of SCOPE_IN, SCOPE_IS by variable */
    uint32_t *slots, mask;   /* open addressing over keys: index + 1, or 0 */
    bw_cedar__posting all[BW_CEDAR__PLANS];
};

BW_MUST_USE bw_status bw_cedar__index_build(bw_ctx *ctx, bw_cedar_policies *set);
/* A bitmap (n / 64 + 1 words, arena of run->ctx) of the policies whose scope matches,
 * exactly; with something unknown (run->unknown), of those whose scope may match. */
BW_MUST_USE bw_status bw_cedar__index_match(const bw_cedar_policies *set,
                                            bw_cedar__run *run, uint64_t **out);
#endif
