/* Result codes of every Bailiwick function that can fail.
 *
 * Only outcomes that a caller treats differently have a code of their own; the
 * cause is in the context's message (ctx.h). A policy's "deny" is an answer, not
 * an error: only the enforcing edge turns it into BW_EDENIED. */
#ifndef BAILIWICK_STATUS_H
#define BAILIWICK_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bw_status {
    BW_OK = 0,
    BW_EINVALID,     /* the input is wrong; nothing was changed */
    BW_ENOTFOUND,    /* absent, or not visible to this caller: the same bytes */
    BW_EEXISTS,      /* a thing of that name is there already */
    BW_ECONFLICT,    /* the state does not allow it (model swap, pending work) */
    BW_EDENIED,      /* the policy forbids it; raised at the enforcing edge only */
    BW_ETIMEOUT,     /* the request's deadline passed */
    BW_EUNAVAILABLE, /* not now: over a limit, shutting down */
    BW_ENOMEM,       /* memory or the request's arena budget ran out */
    BW_ENOSPACE,     /* the disk is full */
    BW_ECORRUPT,     /* stored bytes do not fit their format or their MAC */
    BW_EIO,          /* the system refused an operation on a file */
    BW_EINTERNAL     /* our own fault */
} bw_status;

#if defined(__GNUC__)
#define BW_MUST_USE __attribute__((warn_unused_result))
#define BW_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define BW_MUST_USE
#define BW_PRINTF(f, a)
#endif

/* A short constant name ("invalid", "not found"); never NULL. */
const char *bw_status_name(bw_status status);

#ifdef __cplusplus
}
#endif
#endif
