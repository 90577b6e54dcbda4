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
#endif
