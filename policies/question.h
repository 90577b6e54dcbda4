/* A question in the two shapes that answering it needs: a key for what is kept, and
 * entities and a context for Cedar. For the files around decision.c. */
#ifndef BW_QUESTION_PRIVATE_H
#define BW_QUESTION_PRIVATE_H
#include "answers.h"
#include "decision.h"

bool bw_action__moves(bw_action a); /* its context has a destination */

/* What an answer is about, besides the question. */
typedef struct bw_topic {
    enum { BW_TOPIC_CLASS, BW_TOPIC_CLASSES, BW_TOPIC_COLLECTION, BW_TOPIC_NODE } kind;
    const bw_class_id *class_id; /* CLASS */
    uint64_t directory;          /* CLASSES: version of the list */
    bw_str tenant, name;         /* COLLECTION */
} bw_topic;

/* stamp: of the policies and entities in force (bw_rules__stamp). */
void bw_question__key(const bw_question *q, const bw_topic *topic, uint64_t stamp,
                      bw_answer_key *out);
/* Who pays for what a tenant's questions make us keep. */
uint64_t bw_question__owner(bw_str tenant);
/* A class's prepared entity, under its id, for a tenant that asks. */
void bw_class__key(const bw_class_id *id, bw_str tenant, bw_answer_key *out);

/* The store of one question: its principal, its places where they are not this cell's
 * own, a collection where that is asked about (else NULL), and what `with` holds. In
 * ctx's arena. */
typedef struct bw_collection_name {
    bw_str id, tenant, name;
} bw_collection_name;
BW_MUST_USE bw_status bw_question__entities(bw_ctx *ctx, const bw_cedar_schema *schema,
                                            const bw_question *q, const bw_place *here,
                                            const bw_collection_name *collection,
                                            const bw_cedar_entities *with,
                                            bw_cedar_entities **out);
BW_MUST_USE bw_status bw_question__context(bw_ctx *ctx, const bw_question *q,
                                           const bw_place *here, bool reads_now,
                                           const bw_cedar_value **out);
/* The store of one class, in a block of bw_class__entity_bytes; or (block NULL) in ctx's
 * arena, with what `with` holds besides. */
size_t bw_class__entity_bytes(const char *hex, const bw_labels *labels);
BW_MUST_USE bw_status bw_class__entity(bw_ctx *ctx, const bw_cedar_schema *schema,
                                       const char *hex, const bw_labels *labels,
                                       const bw_cedar_entities *with, void *block,
                                       bw_cedar_entities **out);
#endif
