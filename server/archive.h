/* Texts kept for good under their digest: every policy set, entities file, catalogue and
 * schema that was ever in force, and what they were in force with. The log names digests;
 * a replay finds the texts here. DIR/KIND/DIGEST.ext; a kept text never changes, and one
 * that does not fit its name is refused. */
#ifndef BW_ARCHIVE_H
#define BW_ARCHIVE_H
#include "../policies/decision.h"

enum { BW_DIGEST_TEXT = 32 }; /* BLAKE2b-128 in hex */

typedef enum bw_archive_kind {
    BW_ARCHIVE_POLICIES,
    BW_ARCHIVE_ENTITIES,
    BW_ARCHIVE_CATALOGUE, /* the pack's, and an operator's rows over it */
    BW_ARCHIVE_SCHEMA,
    BW_ARCHIVE_FACTS,
    BW_ARCHIVE_KINDS
} bw_archive_kind;
const char *bw_archive_name(bw_archive_kind kind); /* "policies", … */

void bw_archive_digest(bw_str text, char out[BW_DIGEST_TEXT + 1]);
/* Durable when it returns. The same text again is fine. out may be NULL. */
BW_MUST_USE bw_status bw_archive_keep(bw_ctx *ctx, const char *dir, bw_archive_kind kind,
                                      bw_str text, char out[BW_DIGEST_TEXT + 1]);
/* BW_ENOTFOUND: none of that digest is kept; BW_ECORRUPT: it does not fit it. */
BW_MUST_USE bw_status bw_archive_get(bw_ctx *ctx, const char *dir, bw_archive_kind kind,
                                     bw_str digest, bw_str *out);

/* What decisions stand on besides the policies. A text without bytes is none. */
typedef struct bw_facts {
    bw_str schema, catalogue, overlay, entities;
    bw_place cell;
} bw_facts;
/* Keeps every part and the record that names them; out: the record's digest. */
BW_MUST_USE bw_status bw_facts_keep(bw_ctx *ctx, const char *dir, const bw_facts *facts,
                                    char out[BW_DIGEST_TEXT + 1]);
BW_MUST_USE bw_status bw_facts_get(bw_ctx *ctx, const char *dir, bw_str digest, bw_facts *out);
#endif
