/* Named places where a test can make the engine fail or die.
 *
 * Compiled only with BW_DEBUG; in a release build every call is the constant 0. The
 * hook is process-wide; it may be set while threads run and is called on theirs. */
#ifndef BW_FAILPOINT_H
#define BW_FAILPOINT_H
#include "../base/base.h"

#ifdef BW_DEBUG
/* Returns BW_OK to go on, a status to fail with; may also not return (a crash). */
typedef bw_status (*bw_failpoint_hook)(const char *name);
void bw_failpoint_set(bw_failpoint_hook hook); /* NULL = none */
BW_MUST_USE bw_status bw_failpoint(bw_ctx *ctx, const char *name);
void bw_failpoint_pass(const char *name); /* a place that cannot fail, only be held up */
#else
static inline BW_MUST_USE bw_status bw_failpoint(bw_ctx *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return BW_OK;
}
static inline void bw_failpoint_pass(const char *name)
{
    (void)name;
}
#endif
#endif
