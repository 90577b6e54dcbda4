/* What partial evaluation leaves of a policy set (partial.c makes it, residual.c finishes
 * it), for those in here that look inside. */
#ifndef BW_CEDAR_RESIDUAL_H
#define BW_CEDAR_RESIDUAL_H
#include "code.h"

/* The condition that is left of a policy, its scope included: one expression that must be
 * true. NULL unless the policy's state is OPEN. What is known stands in it as VALUE nodes,
 * an operation that always fails as ERROR; offsets are the policy text's. Lives as long as
 * the residuals and what they borrow. */
const bw_cedar__expr *bw_cedar__residual_expr(const bw_cedar_residuals *r,
                                              size_t policy);
#endif
