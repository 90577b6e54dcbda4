/* Answers kept by (question's fingerprint, resource): bounded, shared by all threads.
 */
#ifndef BW_DECISION_CACHE_PRIVATE_H
#define BW_DECISION_CACHE_PRIVATE_H
#include "question.h"

typedef struct bw_verdict { /* policies by their index in the set of that version */
    bool allow;
    uint32_t nreasons, nerrors;
    const uint32_t *policies; /* reasons, then errors */
} bw_verdict;

typedef struct bw_decision_cache bw_decision_cache;
bw_decision_cache *bw_decision_cache__new(void); /* NULL: no memory */
void bw_decision_cache__free(bw_decision_cache *c);
void bw_decision_cache__empty(bw_decision_cache *c);
/* Found or not; with ctx the policies are copied into its arena, without they are NULL.
 */
bool bw_decision_cache__get(bw_decision_cache *c, bw_ctx *ctx, const bw_fingerprint *q,
                            const bw_class_id *resource, bw_verdict *out);
/* Best effort: out of memory keeps nothing. */
void bw_decision_cache__put(bw_decision_cache *c, const bw_fingerprint *q,
                            const bw_class_id *resource, const bw_verdict *v);
#endif
