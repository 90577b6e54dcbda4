/* What is in force, for the files around decision.c: one counted, immutable snapshot of
 * policies and facts under one version. */
#ifndef BW_AUTHORITY_PRIVATE_H
#define BW_AUTHORITY_PRIVATE_H
#include "question.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct bw_rule_facts { /* of catalogue, operator and cell; shared by rules */
    _Atomic uint32_t refs;
    bw_cedar_entities *entities;
    bw_str text; /* the operator's own, heap */
    char digest[BW_DIGEST_HEX + 1];
} bw_rule_facts;

typedef struct bw_rules {
    _Atomic uint32_t refs;
    uint64_t version;
    bw_rule_facts *facts;
    bw_cedar_policies *policies;
    bw_str *names; /* by policy index; borrowed from policies */
    bw_str text;   /* heap */
    char digest[BW_DIGEST_HEX + 1];
    bool reads_now;
} bw_rules;

/* A version and whether its policies read the time: all that looking up a kept answer
 * needs to know of the rules, in one atomic word. */
static inline uint64_t bw_rules__stamp(const bw_rules *r)
{
    return r->version << 1 | r->reads_now;
}
static inline bool bw_stamp__reads_now(uint64_t stamp)
{
    return stamp & 1;
}

struct bw_authority {
    const bw_catalogue *catalogue;
    bw_ctx *mem; /* owns the place's copy */
    bw_place at;
    bool cedar_errors, supposed;
    bw_cedar_schema *schema;
    bw_answers *answers; /* decisions and permitted sets */
    bw_answers *classes; /* prepared entities, by class id; of no version */
    struct {
        _Atomic uint64_t decisions, sets, permits_errored, forbids_errored, undecided;
    } counts;               /* relaxed */
    pthread_mutex_t change; /* one replacement at a time */
    pthread_mutex_t lock;   /* guards `now` (the pointer) */
    bw_rules *now;
    _Atomic uint64_t stamp; /* of `now`; released before a change is acknowledged */
};

bw_rules *bw_rules__acquire(bw_authority *a);
void bw_rules__release(bw_rules *r); /* NULL is accepted */
BW_MUST_USE bw_status bw_rule_facts__build(bw_ctx *ctx, const bw_authority *a,
                                           bw_str entities, bw_rule_facts **out);
void bw_rule_facts__release(bw_rule_facts *f); /* NULL is accepted */
/* A set of policies over the facts (counted), not in force. */
BW_MUST_USE bw_status bw_rules__build(bw_ctx *ctx, const bw_authority *a,
                                      bw_str policies, bw_rule_facts *facts,
                                      bw_rules **out);

void bw_authority__note_error(bw_authority *a, const bw_rules *rules, size_t policy);

/* What Cedar cannot take is denied; what we had no memory or time for is an error. */
static inline bool bw_undecidable(bw_status st)
{
    return st == BW_EINVALID || st == BW_ECORRUPT;
}

/* A class's entity, prepared once: its labels never change. Counted. */
typedef struct bw_class_entity {
    bw_kept head;
    bw_cedar_entities *store; /* the one entity, behind this struct */
    char hex[BW_CLASS_TEXT + 1];
} bw_class_entity;
/* Only what is kept already (NULL: is not), and with the labels' text at hand, for the
 * tenant that asks. label_text must be the canonical form that has this id
 * (BW_ECORRUPT). */
bw_class_entity *bw_class__find(bw_authority *a, bw_str tenant, const bw_class_id *id);
BW_MUST_USE bw_status bw_class__prepare(bw_ctx *ctx, bw_authority *a, bw_str tenant,
                                        const bw_class_id *id, bw_str label_text,
                                        bw_class_entity **out);
/* The request that asks q about a resource, over a store of the question's entities. */
BW_MUST_USE bw_status bw_question__request(bw_ctx *ctx, const bw_authority *a,
                                           const bw_rules *rules, const bw_question *q,
                                           const char *type, bw_str id,
                                           const bw_collection_name *collection,
                                           const bw_cedar_entities *with,
                                           bw_cedar_request *out);
#endif
