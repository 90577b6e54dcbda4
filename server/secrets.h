/* Secret files of a data folder: DIR/secrets/NAME, 32 random bytes, mode 0400.
 * In memory they stand in sodium_malloc pages, read only, wiped when freed. */
#ifndef BW_SECRETS_H
#define BW_SECRETS_H
#include "../engine/base/base.h"
enum { BW_SECRET_BYTES = 32 };
/* BW_EEXISTS when it is there: a secret is never replaced. Makes DIR/secrets if needed.
 */
BW_MUST_USE bw_status bw_secret_create(bw_ctx *ctx, const char *dir, const char *name);
/* Refuses a file that is missing, short, long, a link, or open to group or others. */
BW_MUST_USE bw_status bw_secret_open(bw_ctx *ctx, const char *dir, const char *name,
                                     unsigned char **out);
void bw_secret_close(unsigned char *secret); /* NULL is accepted */
#endif
