/* The request's arena: a chain of blocks, newest first; giving out memory is a bump.
 *
 * A debug build (BW_DEBUG) makes one heap block an item instead, so that ASan and
 * valgrind see overruns and uses after release inside the arena. The budget counts the
 * bytes handed out, not the blocks behind them: the same request meets the same limit
 * in both builds. */
#include "ctx.h"

#include <stdio.h>

typedef struct block {
    struct block *older;
    size_t bytes; /* of data behind the header */
} block;

static_assert(sizeof(block) == 16, "data behind the header stays 16-byte aligned");

enum { BLOCK_FIRST = 16 * 1024, BLOCK_MAX = 1024 * 1024 };

static char *block_data(block *b)
{
    return (char *)(b + 1);
}

/* A block with room for `bytes`, now the newest. */
static block *block_push(bw_ctx *ctx, size_t bytes)
{
    block *b = ctx->spare;
    if (b && b->bytes >= bytes) {
        ctx->spare = NULL;
    } else {
        b = bw_alloc(sizeof *b + bytes);
        if (!b)
            return NULL;
        b->bytes = bytes;
    }
    b->older = ctx->block;
    ctx->block = b;
    return b;
}

static void block_pop(bw_ctx *ctx)
{
    block *b = ctx->block;
    ctx->block = b->older;
#if !defined(BW_DEBUG)
    /* In debug builds every item dies at once, or ASan would not see its use. */
    if (!ctx->spare && b->bytes <= BLOCK_MAX) {
        ctx->spare = b;
        return;
    }
#endif
    bw_free(b);
}

#if !defined(BW_DEBUG)
static void *alloc_slow(bw_ctx *ctx, size_t n)
{
    if (n > ctx->budget - ctx->used) {
        bw_fail_nomem(ctx);
        return NULL;
    }
    if (ctx->block_bytes < BLOCK_FIRST)
        ctx->block_bytes = BLOCK_FIRST;
    size_t bytes = ctx->block_bytes - sizeof(block);
    if (bytes < n)
        bytes = n;
    block *b = block_push(ctx, bytes);
    if (!b) {
        bw_fail_nomem(ctx);
        return NULL;
    }
    if (ctx->block_bytes < BLOCK_MAX)
        ctx->block_bytes *= 2;
    ctx->next = block_data(b) + n;
    ctx->end = block_data(b) + b->bytes;
    ctx->used += n;
    return block_data(b);
}

void *bw_arena_alloc(bw_ctx *ctx, size_t n)
{
    if (__builtin_expect(n > SIZE_MAX - 64, 0)) {
        bw_fail_nomem(ctx);
        return NULL;
    }
    n = (n + 15) & ~(size_t)15;
    if (__builtin_expect(n > (size_t)(ctx->end - ctx->next) || !ctx->next ||
                             n > ctx->budget - ctx->used,
                         0))
        return alloc_slow(ctx, n);
    char *p = ctx->next;
    ctx->next = p + n;
    ctx->used += n;
    return p;
}
#else
void *bw_arena_alloc(bw_ctx *ctx, size_t n)
{
    size_t rounded = n > SIZE_MAX - 64 ? SIZE_MAX : (n + 15) & ~(size_t)15;
    block *b = rounded > ctx->budget - ctx->used ? NULL : block_push(ctx, n);
    if (!b) {
        bw_fail_nomem(ctx);
        return NULL;
    }
    ctx->used += rounded;
    return block_data(b);
}
#endif

void *bw_arena_calloc(bw_ctx *ctx, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n)) {
        bw_fail_nomem(ctx);
        return NULL;
    }
    void *p = bw_arena_alloc(ctx, n);
    if (p)
        memset(p, 0, n);
    return p;
}

void *bw_arena_grow(bw_ctx *ctx, const void *old, size_t old_bytes, size_t new_bytes)
{
    assert(new_bytes >= old_bytes);
    void *p = bw_arena_alloc(ctx, new_bytes);
    if (p && old && old_bytes)
        memcpy(p, old, old_bytes);
    return p;
}

void bw_arena_shrink(bw_ctx *ctx, const void *newest, size_t old_bytes,
                     size_t new_bytes)
{
    assert(new_bytes <= old_bytes);
    size_t before = (old_bytes + 15) & ~(size_t)15,
           after = (new_bytes + 15) & ~(size_t)15;
    ctx->used -= before - after;
#if !defined(BW_DEBUG)
    assert(ctx->next == (const char *)newest + before);
    ctx->next = (char *)(uintptr_t)newest + after;
#else
    (void)newest; /* an item is a heap block of its own */
#endif
}

bw_status bw_arena_str(bw_ctx *ctx, bw_str in, bw_str *out)
{
    if (!in.ptr) {
        *out = in;
        return BW_OK;
    }
    char *p = bw_arena_alloc(ctx, in.len);
    if (!p)
        return BW_ENOMEM;
    if (in.len)
        memcpy(p, in.ptr, in.len);
    *out = (bw_str){p, in.len};
    return BW_OK;
}

char *bw_arena_printf(bw_ctx *ctx, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *p = n < 0 ? NULL : bw_arena_alloc(ctx, (size_t)n + 1);
    if (p)
        vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

const char *bw_arena_cstr(bw_ctx *ctx, bw_str in)
{
    if (in.len && memchr(in.ptr, 0, in.len)) {
        bw_fail(ctx, BW_EINVALID, "the text holds a NUL byte");
        return NULL;
    }
    char *p = bw_arena_alloc(ctx, in.len + 1);
    if (!p)
        return NULL;
    if (in.len)
        memcpy(p, in.ptr, in.len);
    p[in.len] = 0;
    return p;
}

size_t bw_arena_used(const bw_ctx *ctx)
{
    return ctx->used;
}

bw_arena_mark bw_arena_mark_get(bw_ctx *ctx)
{
    block *b = ctx->block;
    size_t used = b && ctx->next ? (size_t)(ctx->next - block_data(b)) : 0;
    return (bw_arena_mark){b, used, ctx->used};
}

void bw_arena_release(bw_ctx *ctx, bw_arena_mark mark)
{
    while (ctx->block && ctx->block != mark.block)
        block_pop(ctx);
    assert(ctx->block == mark.block);
    ctx->used = mark.total;
    ctx->next = ctx->end = NULL;
#if !defined(BW_DEBUG)
    block *b = ctx->block;
    if (b) {
        ctx->next = block_data(b) + mark.used;
        ctx->end = block_data(b) + b->bytes;
    }
#endif
}

void bw_ctx__arena_reset(bw_ctx *ctx)
{
    while (ctx->block)
        block_pop(ctx);
    ctx->next = ctx->end = NULL;
    ctx->used = 0;
}

void bw_ctx__arena_drop(bw_ctx *ctx)
{
    bw_ctx__arena_reset(ctx);
    bw_free(ctx->spare);
    ctx->spare = NULL;
}
