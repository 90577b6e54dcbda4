/* Packs: files of policies with a head that says which law, put together into one set.
 *
 * packs/NAME.cedar is a pack, packs/sets/NAME.set a named list of packs. A composition is
 * the packs' texts one after the other, so PUT /v1/policies, `policy test` and a cell's
 * first start all read the same thing. The head of a pack are its first comment lines:
 *
 *   // NAME: title
 *   // Date: 2026-11-30
 *   // Articles: law and article; law and article
 *   // Leaves out: what a reader could expect and does not get
 *   //   (a line with more blanks goes on with the one above)
 *   // A starting point, no legal advice.
 */
#ifndef BW_PACK_SET_H
#define BW_PACK_SET_H
#include "cedar/cedar.h"

enum { BW_PACKS_MAX = 256 }; /* in one composition */

typedef struct bw_pack_source { /* where files come from; policies/ opens none itself */
    /* The text of "NAME.cedar" or "sets/NAME.set"; BW_ENOTFOUND when there is none. */
    bw_status (*read)(void *user, bw_ctx *ctx, const char *file, bw_str *out);
    void *user;
} bw_pack_source;

typedef struct bw_pack_info { /* one line each, in ctx's arena */
    bw_str name, title, date, articles, leaves_out;
} bw_pack_info;

/* The head of the pack `name`; BW_EINVALID when it lacks one of the lines above. */
BW_MUST_USE bw_status bw_pack_info_read(bw_ctx *ctx, bw_str name, bw_str text,
                                        bw_pack_info *out);
/* The text of these packs and sets, in order, in ctx's arena. BW_ENOTFOUND for a name that
 * is neither; BW_EINVALID for a pack that comes twice, one that does not parse, and a
 * policy without an @id or with one that is taken. */
BW_MUST_USE bw_status bw_pack_compose(bw_ctx *ctx, const bw_pack_source *source,
                                      const bw_str *names, size_t n, bw_str *out);
#endif
