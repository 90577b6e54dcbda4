/* Label sets: the governance facts that many points share, their closed vocabulary,
 * their canonical form and the class id (BLAKE2b-256 of that form). */
#ifndef BW_LABELS_H
#define BW_LABELS_H
#include "../engine/base/json.h"
#include "catalogue.h"

typedef struct bw_label_list { /* sorted bytewise, no duplicates */
    const bw_str *items;
    size_t n;
} bw_label_list;

typedef struct bw_labels {
    bw_str tenant;
    bw_label_list regimes;   /* must be said; "none" said alone is the empty list */
    bw_label_list residency; /* zones or countries of the catalogue */
    uint32_t sensitivity;    /* 0 … 5 */
    bw_label_list categories, labels, purposes;
    bool legal_hold;
} bw_labels;

/* From JSON as a client sends it (`_labels`, metadata._labels, a key's or collection's
 * default, an ingest rule). `tenant` may be left out: the caller's. Unknown members and
 * unknown values are refused (BW_EINVALID with the JSON pointer), so a typo cannot widen. */
BW_MUST_USE bw_status bw_labels_parse(bw_ctx *ctx, const bw_catalogue *catalogue, const bw_json *object,
                                      bw_str default_tenant, bw_labels *out);
/* Canonical form: one line of JSON with fixed member order, sorted lists; ASCII. In ctx's arena. */
BW_MUST_USE bw_status bw_labels_canonical(bw_ctx *ctx, const bw_labels *labels, bw_str *out);
BW_MUST_USE bw_status bw_labels_from_canonical(bw_ctx *ctx, bw_str text, bw_labels *out);
void bw_labels_class_id(bw_str canonical, bw_class_id *out);

/* ---- Raising (labels_raise.c) ---- */

/* What is added to a label set: restrictions and nothing else. Zeroed: nothing. */
typedef struct bw_label_raise {
    uint32_t sensitivity;                      /* at least */
    bw_label_list regimes, categories, labels; /* added */
    bool keeps_residency, keeps_purposes;
    bw_label_list residency, purposes; /* if so: what lies in none of these goes */
    bool legal_hold;
} bw_label_raise;

/* From an object of label members. Refused with the pointer: what is unknown, tenant, and
 * whatever would lift a rule instead of tightening one (legal_hold false, "none", words
 * that say that data is public or how long it is kept). */
BW_MUST_USE bw_status bw_label_raise_parse(bw_ctx *ctx, const bw_catalogue *catalogue, const bw_json *object,
                                           bw_label_raise *out);
/* BW_EINVALID with the pointer: no place would be left to keep the data in, or a list would
 * become too long. Lists in ctx's arena or the arguments'. */
BW_MUST_USE bw_status bw_labels_raise(bw_ctx *ctx, const bw_catalogue *catalogue, const bw_labels *base,
                                      const bw_label_raise *raise, bw_labels *out);
/* The order that a raise goes up in: one tenant, every regime, category and label of b,
 * its sensitivity and hold, no purpose and no place beyond b's. */
bool bw_labels_at_least(const bw_catalogue *catalogue, const bw_labels *a, const bw_labels *b);
/* Members that differ: bits by the canonical order (tenant = 1, regimes = 2, …). */
uint32_t bw_labels_diff(const bw_labels *a, const bw_labels *b);
enum { BW_LABELS_MEMBERS = 8 };
const char *bw_labels_member(unsigned bit); /* "tenant", … */

/* ---- between labels.c and labels_raise.c ---- */
enum { BW_LABELS__LIST_MAX = 64, BW_LABELS__SENSITIVITY_MAX = 5 };
BW_MUST_USE bw_status bw_labels__members(bw_ctx *ctx, const bw_json *object);
/* A list of words, or one word alone. Absent and null give the empty list. */
BW_MUST_USE bw_status bw_labels__list(bw_ctx *ctx, const bw_catalogue *c, const bw_json *object,
                                      const char *member, bw_label_list *out);
bw_status bw_labels__bad(bw_ctx *ctx, const char *member, const char *what);
void bw_labels__sort(bw_str *items, size_t *n); /* bytewise, each once */
#endif
