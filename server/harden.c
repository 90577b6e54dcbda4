/* Process hardening at start. See harden.h (security.md, sections 4 and 10). */
#include "harden.h"
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

bw_status bw_harden(bw_ctx *ctx)
{
    struct rlimit none = {0, 0};
    if (sodium_init() < 0)
        return bw_fail(ctx, BW_EINTERNAL, "libsodium does not start");
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        setrlimit(RLIMIT_CORE, &none) != 0)
        return bw_fail(ctx, BW_EINTERNAL, "the process cannot be hardened: %s",
                       strerror(errno));
    /* A closed peer and a file at its size limit are errors of a call, not of the
     * process. */
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
        return bw_fail(ctx, BW_EINTERNAL, "signals cannot be ignored");
    (void)umask(077);
    return BW_OK;
}
