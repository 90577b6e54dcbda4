/* A question in the two shapes that answering it needs: a fingerprint for the cache and
 * Cedar JSON (entities and context) for the evaluator. For decision.c. */
#ifndef BW_QUESTION_PRIVATE_H
#define BW_QUESTION_PRIVATE_H
#include "decision.h"

typedef struct bw_fingerprint {
    uint8_t bytes[32];
} bw_fingerprint;

bool bw_action__moves(bw_action a); /* its context has a destination */

/* Over everything that an answer may depend on besides the resource. BLAKE2b-256, so
 * two questions never share a fingerprint; a shorter hash would be a way around a
 * denial. */
void bw_question__fingerprint(const bw_question *q, uint64_t version, bool reads_now,
                              bw_fingerprint *out);
void bw_object__fingerprint(const char *kind, bw_str tenant, bw_str name,
                            bw_class_id *out);

/* Each appends list elements or one object. */
void bw_entity__put_place(bw_buf *b, const bw_place *place);
void bw_entity__put_principal(bw_buf *b, const bw_principal *p);
void bw_entity__put_class(bw_buf *b, const char *id, const bw_labels *labels);
void bw_entity__put_collection(bw_buf *b, bw_str id, bw_str tenant, bw_str name);
void bw_question__put_context(bw_buf *b, const bw_question *q, const bw_place *at,
                              bool reads_now);
#endif
