/* Decisions: Cedar's answer for (principal, action, class, context), and the permitted
 * set of a collection, both kept. Rules of ours beyond Cedar: a forbid that errors
 * denies, whatever cannot be decided denies. One authority is shared by all threads;
 * replacing its policies or entities is atomic: a question that begins after the call
 * returned gets the new answer. */
#ifndef BW_DECISION_H
#define BW_DECISION_H
#include "catalogue.h"
#include "cedar/cedar.h"
#include "labels.h"

typedef struct bw_authority bw_authority;

typedef enum bw_action {
    BW_ACTION_QUERY, BW_ACTION_STORE, BW_ACTION_REPLICATE, BW_ACTION_TRANSFER, BW_ACTION_EXPORT,
    BW_ACTION_EMBED, BW_ACTION_DELETE, BW_ACTION_ERASE, BW_ACTION_RELABEL,
    BW_ACTION_MANAGE_COLLECTION, BW_ACTION_READ_AUDIT, BW_ACTION_ADMIN,
    BW_ACTION_COUNT
} bw_action;
const char *bw_action_name(bw_action a); /* "Query", … Cedar's name */
bool bw_action_parse(bw_str name, bw_action *out);

typedef struct bw_principal { /* proved by the key; strings borrowed */
    bw_str id, tenant, seat; /* seat: country the person or system acts from */
    uint32_t clearance;
    const bw_str *roles;
    size_t nroles;
} bw_principal;

typedef struct bw_place { /* a cell or a provider's node */
    bw_str id, country, operator_id;
    const bw_str *certs, *hw;
    size_t ncerts, nhw;
} bw_place;

typedef struct bw_authority_options {
    bw_str schema;    /* Cedar schema text */
    bw_str policies;  /* Cedar policy text */
    bw_str entities;  /* operator's entities JSON (legal entities, tenants, nodes), or none */
    const bw_catalogue *catalogue; /* borrowed for the life of the authority */
    bw_place at;      /* this cell; copied */
    bool cedar_errors; /* Cedar's own rules: a forbid that errors is skipped, nothing is validated. For
                        * `policy test` alone */
    bool supposed; /* entities may be of every type, such as a country that no catalogue has: for
                    * questions of what if; never what a cell is started with */
} bw_authority_options;

BW_MUST_USE bw_status bw_authority_new(bw_ctx *ctx, const bw_authority_options *o, bw_authority **out);
void bw_authority_free(bw_authority *a);
/* Atomic: a bad set leaves the old one in force. version rises by one. */
BW_MUST_USE bw_status bw_authority_set_policies(bw_ctx *ctx, bw_authority *a, bw_str policies);
/* Whether the set could be put in force; nothing changes. */
BW_MUST_USE bw_status bw_authority_check_policies(bw_ctx *ctx, bw_authority *a, bw_str policies);
/* The same for the operator's entities. An error's pointer is into their list. */
BW_MUST_USE bw_status bw_authority_set_entities(bw_ctx *ctx, bw_authority *a, bw_str entities);
BW_MUST_USE bw_status bw_authority_check_entities(bw_ctx *ctx, bw_authority *a, bw_str entities);
uint64_t bw_authority_version(const bw_authority *a); /* policies and entities together */
BW_MUST_USE bw_status bw_authority_policies_text(bw_ctx *ctx, bw_authority *a, bw_str *out);
BW_MUST_USE bw_status bw_authority_entities_text(bw_ctx *ctx, bw_authority *a, bw_str *out);

enum { BW_DIGEST_HEX = 32 }; /* BLAKE2b-128 of a text */
typedef struct bw_authority_state { /* all of one snapshot: decisions are made by one, whole */
    uint64_t version; /* of this process; digests last */
    char policies[BW_DIGEST_HEX + 1], entities[BW_DIGEST_HEX + 1];
} bw_authority_state;
void bw_authority_state_get(bw_authority *a, bw_authority_state *out);

typedef struct bw_authority_figures { /* since the start; for the operator */
    uint64_t cached;                  /* decisions and sets answered from what was kept */
    uint64_t decisions, sets;         /* made anew */
    uint64_t permits_errored, forbids_errored; /* in decisions made anew: skipped, and denying */
    uint64_t undecided;               /* denied, since Cedar could not take the question */
    uint64_t bytes;                   /* kept now */
} bw_authority_figures;
void bw_authority_figures_get(bw_authority *a, bw_authority_figures *out);

typedef struct bw_question {
    const bw_principal *principal;
    bw_action action;
    bw_str purpose;
    const bw_str *safeguards; /* sorted, unique */
    size_t nsafeguards;
    const bw_place *dest; /* moves; NULL = where it is asked (at) */
    const bw_place *at;   /* NULL = this cell. Another: what-if (place, explain, policy test, replay); no
                             request for data may choose where it is */
    int64_t now_ns;
} bw_question;

typedef struct bw_decision { /* arrays in ctx's arena */
    bool allow;
    const bw_str *policies; /* determining: @id where there is one, else policyN; sorted */
    size_t npolicies;
    const bw_str *errors;   /* policies that errored */
    size_t nerrors;
} bw_decision;

/* One class. label_text: the canonical form (also the cache's key through its id). */
BW_MUST_USE bw_status bw_decide_class(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                                      const bw_class_id *class_id, bw_str label_text, bw_decision *out);
/* A collection or the cell itself (ManageCollection, ReadAudit, Admin).
 * kind: "Collection" or "Node"; collection: its tenant and name. */
BW_MUST_USE bw_status bw_decide_object(bw_ctx *ctx, bw_authority *a, const bw_question *q, const char *kind,
                                       bw_str tenant, bw_str name, bw_decision *out);
/* The same two without a copy: counted, immutable, not in an arena. Takes no heap when the answer
 * is kept. Release each. */
BW_MUST_USE bw_status bw_decision_acquire(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                                          const bw_class_id *class_id, bw_str label_text,
                                          const bw_decision **out);
BW_MUST_USE bw_status bw_decision_acquire_object(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                                                 const char *kind, bw_str tenant, bw_str name,
                                                 const bw_decision **out);
void bw_decision_release(const bw_decision *d); /* NULL is accepted */

/* ---- permitted sets ---- */
typedef struct bw_directory { /* the classes of one collection, as their owner gives them */
    /* Names the list, among all lists this authority is ever asked about (0: it is not to be
     * kept). Looked at first: neither function is called when the set is kept. */
    uint64_t version;
    /* The list, sorted, in ctx's arena; its version if it has moved on; a name of it that the set
     * shall carry (it comes zeroed). */
    bw_status (*list)(void *user, bw_ctx *ctx, const bw_class_id **classes, size_t *n, uint64_t *version,
                      uint8_t name[16]);
    bw_status (*label_text)(void *user, bw_ctx *ctx, const bw_class_id *id, bw_str *out);
    void *user;
} bw_directory;
/* BLAKE2b-128 of the ids' bytes, in order, and of nothing else: the log keeps it, and a replay
 * must be able to make it again. */
void bw_permit_digest(const bw_permit *p, uint8_t digest[16]);
typedef struct bw_permitted {
    bw_permit permit; /* classes is never NULL */
    uint8_t digest[16]; /* bw_permit_digest */
    uint8_t list[16];   /* the name of the list that it was found in */
} bw_permitted;
/* The classes of the directory that are allowed; counted, immutable. Kept by (question, rules,
 * directory) and dropped when any of them changes; no heap and no copy then. A class that cannot
 * be decided is not in it. Why a class is denied: bw_decide_class. */
BW_MUST_USE bw_status bw_permitted_acquire(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                                           const bw_directory *directory, const bw_permitted **out);
void bw_permitted_release(const bw_permitted *p); /* NULL is accepted */
/* The same for classes (sorted) at hand, in ctx's arena; not kept. */
BW_MUST_USE bw_status bw_permitted_set(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                                       const bw_class_id *classes, const bw_str *label_texts, size_t n,
                                       bw_permit *out, uint8_t digest[16]);
/* Dry run: the same question against other policy text; nothing is kept. Without a
 * label_text (ptr NULL) it is about this cell itself. */
BW_MUST_USE bw_status bw_decide_dry(bw_ctx *ctx, bw_authority *a, bw_str policies, const bw_question *q,
                                    bw_str label_text, bw_decision *out);
/* The same with other entities of the operator's under the policies in force. */
BW_MUST_USE bw_status bw_decide_dry_entities(bw_ctx *ctx, bw_authority *a, bw_str entities,
                                             const bw_question *q, bw_str label_text,
                                             bw_decision *out);
#endif
