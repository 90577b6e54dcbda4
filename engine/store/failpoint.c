/* The hook of failpoint.h; empty in a release build. */
#include "failpoint.h"

#ifdef BW_DEBUG
#include <stdatomic.h>

static _Atomic(bw_failpoint_hook) current;

void bw_failpoint_set(bw_failpoint_hook hook)
{
    atomic_store(&current, hook);
}

bw_status bw_failpoint(bw_ctx *ctx, const char *name)
{
    bw_failpoint_hook hook = atomic_load(&current);
    bw_status st = hook ? hook(name) : BW_OK;
    if (st != BW_OK)
        return bw_fail(ctx, st, "failpoint %s", name);
    return BW_OK;
}

void bw_failpoint_pass(const char *name)
{
    bw_failpoint_hook hook = atomic_load(&current);
    if (hook)
        (void)hook(name);
}
#else
typedef int bw_failpoint_none; /* ISO C wants a declaration in a file */
#endif
