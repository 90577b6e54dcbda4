/* What the process gives up before it reads a secret. */
#ifndef BW_HARDEN_H
#define BW_HARDEN_H
#include "../engine/base/base.h"
/* No core, no ptrace by others (PR_SET_DUMPABLE 0), no new privileges, umask 077,
 * SIGPIPE, SIGXFSZ ignored, libsodium ready. Landlock and seccomp are a later piece. */
BW_MUST_USE bw_status bw_harden(bw_ctx *ctx);
#endif
