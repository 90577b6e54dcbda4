/* What is in force, held still: one snapshot of an authority, for those that look into it
 * longer than one decision (explain). Private to policies/. */
#ifndef BW_DECISION_HOLD_PRIVATE_H
#define BW_DECISION_HOLD_PRIVATE_H
#include "decision.h"

typedef struct bw_in_force { /* borrowed until let go; immutable */
    const bw_cedar_schema *schema;
    const bw_cedar_policies *policies;
    const bw_str *names; /* by policy index */
    const bw_cedar_entities *entities;
    const bw_catalogue *catalogue;
    const bw_place *at; /* this cell */
    uint64_t version;
    bool reads_now, cedar_errors;
    void *snapshot;
} bw_in_force;

void bw_authority__hold(bw_authority *a, bw_in_force *out);
void bw_authority__let_go(bw_in_force *f); /* accepts one that holds nothing */
#endif
