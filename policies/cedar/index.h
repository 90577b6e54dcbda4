/* Which policies can apply to a request at all: found by the uids and types of their
 * scopes, so that the others cost nothing. */
#ifndef BW_CEDAR_INDEX_H
#define BW_CEDAR_INDEX_H
#include "ast.h"
#include "code.h"

BW_MUST_USE bw_status bw_cedar__index_build(bw_ctx *ctx, bw_cedar_policies *set);
/* A bitmap (n / 64 words, arena of run->ctx) of the policies whose scope matches, exactly:
 * templates never do. */
BW_MUST_USE bw_status bw_cedar__index_match(const bw_cedar_policies *set, bw_cedar__run *run,
                                            uint64_t **out);
#endif
