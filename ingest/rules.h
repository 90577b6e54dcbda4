/* Label rules of ingest, and what detectors raise: which label set a document gets.
 *
 *   {"rules": [rule, …], "detectors"?: {kind: raise, …}}
 *   rule = {"name"?, condition…, one of "labels", "raise", "skip"}
 *
 *   match       glob over the source        media     a media type, or a list of them
 *   collection  glob over its name          metadata  {key: glob, …} over the facts that
 *   tenant      the caller's, as it is                came with the request
 *   text        pattern (RE2) somewhere in the text or title
 *
 * A rule holds when all its conditions do; one with `labels` or `skip` has at least one,
 * so that a condition left out does not open more than was meant. Of these rules the
 * first that holds gives the base; every rule with `raise` that holds is added, in order,
 * then every detector that found something. A raise only goes up (labels_raise.c).
 *
 * Glob: `*` any bytes ('/' too), `?` one character, `\` the next one as it is; the whole
 * must match. `[` is refused: it means something in other globs.
 *
 * Used twice: by a cell on what it loaded (labels complete, checked against its
 * vocabulary; no `skip`: nothing is dropped silently), and by `bailiwick ingest` on what
 * it can see (no `text`, `raise`, `detectors`, `tenant`: the cell knows better; labels
 * may be in part, the cell checks what they become). */
#ifndef BW_RULES_H
#define BW_RULES_H
#include "../policies/labels.h"
#include "detect.h"
#include "document.h"

enum {
    BW_RULES_BYTES_MAX = 4 << 20,
    BW_RULES_CELL_MAX = 1000, /* each may be said in an answer and in the log */
    BW_RULES_CLIENT_MAX = 10000,
    BW_RULES_TEXT_MAX = 64, /* rules with `text`: a pass over the text each */
    BW_RULES_METADATA_MAX = 64,
    BW_RULES_NAME_MAX = 64
};
typedef enum bw_rules_use { BW_RULES_CELL, BW_RULES_CLIENT } bw_rules_use;

typedef struct bw_rule {
    bw_str name;           /* or its place: "/rules/3" */
    const bw_json *labels; /* gives the base */
    bool skip;
} bw_rule;
typedef struct bw_rules bw_rules; /* immutable */

/* text: the file, or none (len 0: detectors with the built-in table alone). catalogue:
 * NULL for a client. BW_EINVALID with the pointer. */
BW_MUST_USE bw_status bw_rules_new(bw_ctx *ctx, bw_str text, bw_rules_use use,
                                   const bw_catalogue *catalogue, bw_rules **out);
void bw_rules_free(bw_rules *r); /* NULL is accepted */

typedef struct bw_rule_fact {
    bw_str key, value;
} bw_rule_fact;
typedef struct bw_rule_subject { /* borrowed; what is not known is none (ptr NULL) */
    bw_str tenant, collection, source;
    bw_media media;
    const bw_rule_fact *metadata;
    size_t nmetadata;
    bool has_text; /* text and title are known */
    bw_str text, title;
} bw_rule_subject;

/* The first rule that gives a base, or NULL. *later: without the text nobody can tell
 * (then NULL). */
BW_MUST_USE bw_status bw_rules_base(bw_ctx *ctx, const bw_rules *r,
                                    const bw_rule_subject *about, const bw_rule **out,
                                    bool *later);

typedef struct bw_raised_by { /* what changed the set, in order */
    bw_str rule;              /* none: the detector */
    bw_detect_kind kind;
    uint32_t members; /* bits of bw_labels_member */
} bw_raised_by;
typedef struct bw_raised {
    const bw_raised_by *by;
    size_t n;
    bw_detected found; /* in text, title and source together */
} bw_raised;
/* Rules and detectors over *labels. about->has_text. BW_EINVALID: no place would be left
 * to keep the document in. Lists in ctx's arena. */
BW_MUST_USE bw_status bw_rules_raise(bw_ctx *ctx, const bw_rules *r,
                                     const bw_catalogue *catalogue,
                                     const bw_rule_subject *about, bw_labels *labels,
                                     bw_raised *out);
/* Detectors alone: a text that came as a point. */
BW_MUST_USE bw_status bw_rules_detect(bw_ctx *ctx, const bw_rules *r,
                                      const bw_catalogue *catalogue, bw_str text,
                                      bw_labels *labels, bw_raised *out);
/* {kind: count, …} of what was found at all. */
void bw_detected_put(const uint32_t count[BW_DETECT_COUNT], bw_buf *b);
#endif
