/* The context of one request: arena, deadline, error message, trace id.
 *
 * It is the first argument of whatever can allocate or fail with a message, and it
 * may be handed from thread to thread (one thread at a time), which a thread-local
 * "last error" does not survive. */
#ifndef BAILIWICK_CTX_H
#define BAILIWICK_CTX_H

#include <bailiwick/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bw_ctx bw_ctx;

/* arena_bytes_max: budget of the request's arena; 0 takes 256 MiB. Reaching it is
 * BW_ENOMEM for this request alone. Returns NULL when memory is out. */
bw_ctx *bw_ctx_new(size_t arena_bytes_max);
void bw_ctx_free(bw_ctx *ctx); /* NULL is accepted */

/* Forgets everything that was allocated from the arena, the message, the deadline. */
void bw_ctx_reset(bw_ctx *ctx);

/* Absolute deadline on CLOCK_MONOTONIC in nanoseconds; 0 = none. */
void bw_ctx_set_deadline(bw_ctx *ctx, uint64_t deadline_ns);

/* The message of the last failure, one line, never NULL; borrowed until reset. */
const char *bw_ctx_message(const bw_ctx *ctx);
/* JSON pointer to the field that was at fault, "" if none; borrowed until reset. */
const char *bw_ctx_pointer(const bw_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
