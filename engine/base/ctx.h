/* The inside of bw_ctx, shared by ctx.c (message, deadline) and arena.c (memory). */
#ifndef BW_CTX_PRIVATE_H
#define BW_CTX_PRIVATE_H
#include "base.h"

enum { BW_MESSAGE_MAX = 256, BW_POINTER_MAX = 128 };

struct bw_ctx {
    /* arena: the bump range of the newest block, and the chain of blocks */
    char *next, *end;
    void *block;
    void *spare;         /* a block given back and kept: rows of a scan come and go */
    size_t used, budget; /* bytes handed out, and how many may be */
    size_t block_bytes;  /* size of the block that comes next */

    /* the request */
    uint64_t deadline_ns, trace_id, brief_ns;
    bool cut; /* a brief attempt ended */

    /* the last failure; `fixed` wins over `message` (out of memory writes nothing) */
    const char *fixed;
    char message[BW_MESSAGE_MAX];
    char pointer[BW_POINTER_MAX];
};

void bw_ctx__arena_drop(bw_ctx *ctx);  /* frees every block */
void bw_ctx__arena_reset(bw_ctx *ctx); /* keeps one block for the next request */
#endif
