/* The label set of what comes in: who gave its base, and what raised it.
 *
 *   base    the request's labels, else the first rule of `ingest.rules` that holds, else
 *           the key's default, else the collection's; none: a 422 that names _labels
 *   raised  by the rules with `raise` that hold, then by what the detectors found
 *
 * Store is decided for the base before a document is opened (where that can be told), so
 * that nobody has the cell read what he may not bring, and for the raised set before
 * anything of it is kept. */
#ifndef BW_LABELLING_H
#define BW_LABELLING_H
#include "../ingest/rules.h"
#include "config.h"
#include "http.h"

typedef struct bw_labelling {
    const char *from; /* "request", "rule", "key", "collection" */
    const bw_rule *rule;
    bw_labels labels;
    bool later; /* a rule about the text comes first: no base yet */
    bw_raised raised;
} bw_labelling;

/* The base, and Store for it. about: without its text. BW_EINVALID: a 422. */
BW_MUST_USE bw_status bw_labelling_begin(bw_request *r, const bw_collection_info *info,
                                         const bw_json *given,
                                         const bw_rule_subject *about,
                                         bw_labelling *out);
/* The rest, once the text is known: the class, decided and made known; into the audit
 * record, too. */
BW_MUST_USE bw_status bw_labelling_end(bw_request *r, const bw_collection_info *info,
                                       const bw_rule_subject *about, bw_labelling *l,
                                       bw_class_id *out);
/* The same for a dry run: Store is decided, and no class is made known. */
BW_MUST_USE bw_status bw_labelling_try(bw_request *r, const bw_collection_info *info,
                                       const bw_rule_subject *about, bw_labelling *l);
/* The class of a text that came as a point (labels.detect = all): the labels that it
 * came with, or their default, raised by the detectors. */
BW_MUST_USE bw_status bw_labelling_point(bw_request *r, const bw_collection_info *info,
                                         const bw_json *given, bw_str text,
                                         bw_class_id *out);
/* {"base": from, "rule"?, "raised": [{"rule" | "detector", "members"}], "found":
 * {kind: count}}: which, never what or where. */
void bw_labelling_put(const bw_labelling *l, bw_buf *b);

/* `ingest.rules` as it is configured, or the built-in detectors alone. */
BW_MUST_USE bw_status bw_labelling_rules(bw_ctx *ctx, const bw_config *c,
                                         const bw_catalogue *catalogue, bw_rules **out);
#endif
