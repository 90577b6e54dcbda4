/* What the files of explain share. */
#ifndef BW_EXPLAIN_PRIVATE_H
#define BW_EXPLAIN_PRIVATE_H
#include "cedar/trace.h"
#include "decision_hold.h"
#include "explain.h"

typedef enum bw_shape { /* of a fact */
                        BW_SHAPE_WORD,
                        BW_SHAPE_WORDS,
                        BW_SHAPE_COUNTRY,
                        BW_SHAPE_ZONES,
                        BW_SHAPE_OPERATOR,
                        BW_SHAPE_PLACE,
                        BW_SHAPE_TENANTS,
                        BW_SHAPE_NUMBER,
                        BW_SHAPE_DECIMAL,
                        BW_SHAPE_BOOL,
                        BW_SHAPE_ROLES
} bw_shape;

typedef struct bw_fact_row {
    const char *name, *path; /* for people; in Cedar */
    bw_shape shape;
    const char *who;
} bw_fact_row;
extern const bw_fact_row bw_facts[BW_FACT_COUNT];
/* Of the operator's own facts: the attribute of LegalEntity, else NULL. */
const char *bw_fact__attribute(bw_fact f);
static inline bool bw_fact__of_labels(bw_fact f)
{
    return f >= BW_FACT_RESIDENCY && f <= BW_FACT_LEGAL_HOLD;
}

typedef struct bw_explaining { /* one explanation; one thread */
    bw_ctx *ctx;               /* what is kept */
    bw_ctx *scratch;           /* one decision; reset before the next */
    bw_in_force now;
    const bw_explain_ask *ask;
    bool may_label; /* changes of the label set are offered */
} bw_explaining;

/* One decision in scratch (which it resets): about the ask with changes made. */
typedef struct bw_asked {
    bw_what_if facts;
    bw_cedar_answer answer;
    bool allow, undecidable;
    bw_cedar_trace *trace;        /* NULL when undecidable */
    bw_cedar_entities *operators; /* with changed facts; freed by bw_asked__clear */
} bw_asked;
BW_MUST_USE bw_status bw_asked__ask(bw_explaining *x, const bw_change *changes,
                                    size_t n, const bw_action *action, bw_asked *out);
void bw_asked__clear(bw_asked *a);

/* Whether a literal or value may be shown (user: bw_explaining). */
bool bw_explain__show(const bw_cedar_value *v, void *user);
/* The permits that would apply but for their conditions, nearest first; policies with
 * names that may not be shown are left out. At most `most`. */
typedef struct bw_near {
    uint32_t policy, failing;
} bw_near;
BW_MUST_USE bw_status bw_explain__nearest(bw_explaining *x, bw_cedar_trace *t,
                                          size_t most, bw_near *out, size_t *n,
                                          bool *all);

enum { BW_CANDIDATES_MAX = 96 };
typedef struct bw_candidates { /* strings in scratch */
    bw_change items[BW_CANDIDATES_MAX];
    size_t n;
    bool cut;
} bw_candidates;
/* Changes that could turn a part, or one of its facts. */
BW_MUST_USE bw_status bw_explain__candidates(bw_explaining *x, const bw_asked *asked,
                                             const bw_cedar_part *part,
                                             bw_candidates *out);
BW_MUST_USE bw_status bw_explain__search(bw_explaining *x, bw_explanation *out);
#endif
