/* The hook of failpoint.h; empty in a release build. */
#include "failpoint.h"

#ifdef BW_DEBUG
static bw_failpoint_hook current;

void bw_failpoint_set(bw_failpoint_hook hook)
{
    current = hook;
}

bw_status bw_failpoint(bw_ctx *ctx, const char *name)
{
    bw_status st = current ? current(name) : BW_OK;
    if (st != BW_OK)
        return bw_fail(ctx, st, "failpoint %s", name);
    return BW_OK;
}
#else
typedef int bw_failpoint_none; /* ISO C wants a declaration in a file */
#endif
