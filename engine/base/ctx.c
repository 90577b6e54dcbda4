/* The request's context: its message, deadline and trace id (arena.c has its memory).
 *
 * A message is one line of valid UTF-8 in a fixed buffer, so that setting it can never
 * fail and it can go into a JSON body or a log line as it is. */
#include "ctx.h"
#include "unseen.h"

#include <errno.h>
#include <stdio.h>

enum { BW_CTX_BUDGET_DEFAULT = 256 * 1024 * 1024 };

bw_ctx *bw_ctx_new(size_t arena_bytes_max)
{
    bw_ctx *ctx = bw_calloc(1, sizeof *ctx);
    if (ctx)
        ctx->budget = arena_bytes_max ? arena_bytes_max : BW_CTX_BUDGET_DEFAULT;
    return ctx;
}

void bw_ctx_free(bw_ctx *ctx)
{
    if (!ctx)
        return;
    bw_ctx__arena_drop(ctx);
    bw_free(ctx);
}

void bw_ctx_reset(bw_ctx *ctx)
{
    bw_ctx__arena_reset(ctx);
    ctx->deadline_ns = ctx->trace_id = ctx->brief_ns = 0;
    ctx->cut = false;
    ctx->fixed = NULL;
    ctx->message[0] = ctx->pointer[0] = 0;
}

void bw_ctx_set_deadline(bw_ctx *ctx, uint64_t deadline_ns)
{
    ctx->deadline_ns = deadline_ns;
}

uint64_t bw_ctx_deadline(const bw_ctx *ctx)
{
    return ctx->deadline_ns;
}

void bw_ctx_set_trace(bw_ctx *ctx, uint64_t trace_id)
{
    ctx->trace_id = trace_id;
}

uint64_t bw_ctx_trace(const bw_ctx *ctx)
{
    return ctx->trace_id;
}

const char *bw_ctx_message(const bw_ctx *ctx)
{
    return ctx->fixed ? ctx->fixed : ctx->message;
}

const char *bw_ctx_pointer(const bw_ctx *ctx)
{
    return ctx->pointer;
}

static bw_status cut(bw_ctx *ctx)
{
    ctx->cut = true;
    ctx->fixed = "a brief attempt was not enough";
    ctx->pointer[0] = 0;
    return BW_ETIMEOUT;
}

bw_status bw_ctx_check(bw_ctx *ctx)
{
    const uint64_t now = ctx->deadline_ns || ctx->brief_ns ? bw_clock_mono_ns() : 0;
    if (ctx->brief_ns && now >= ctx->brief_ns)
        return cut(ctx);
    if (ctx->deadline_ns && now >= ctx->deadline_ns)
        return bw_fail(ctx, BW_ETIMEOUT, "the request's time is over");
    return BW_OK;
}

void bw_ctx_set_brief(bw_ctx *ctx, uint64_t until_ns)
{
    ctx->brief_ns = until_ns;
    ctx->cut = false;
}

bw_status bw_ctx_may_wait(bw_ctx *ctx)
{
    return ctx->brief_ns ? cut(ctx) : BW_OK;
}

bool bw_ctx_was_cut(const bw_ctx *ctx)
{
    return ctx->cut;
}

/* Makes text one line of valid UTF-8: a cut sequence at the end goes, other bytes that
 * do not belong become '?', characters that a terminal may obey ' '. */
static void clean_line(char *s)
{
    size_t n = strlen(s), back = 0;
    while (back < 3 && back < n && ((unsigned char)s[n - 1 - back] & 0xC0) == 0x80)
        back++;
    if (back < n && (unsigned char)s[n - 1 - back] >= 0xC0 &&
        !bw_utf8_valid(s + n - 1 - back, back + 1))
        s[n - 1 - back] = 0;
    n = strlen(s);
    bool valid = bw_utf8_valid(s, n);
    for (size_t i = 0; i < n; i++) {
        size_t unseen = 0;
        if ((unsigned char)s[i] >= 0x80 && !valid)
            s[i] = '?';
        else
            unseen = bw_utf8_unseen(s + i, n - i);
        memset(s + i, ' ', unseen);
    }
}

BW_PRINTF(4, 0)
static bw_status fail_v(bw_ctx *ctx, bw_status status, const char *pointer,
                        const char *fmt, va_list args)
{
    assert(status != BW_OK);
    if (!ctx)
        return status;
    /* Arguments may be borrowed from ctx itself, so both texts are made aside. */
    char text[BW_MESSAGE_MAX], where[BW_POINTER_MAX];
    vsnprintf(text, sizeof text, fmt, args);
    snprintf(where, sizeof where, "%s", pointer ? pointer : "");
    clean_line(text);
    clean_line(where);
    memcpy(ctx->message, text, sizeof text);
    memcpy(ctx->pointer, where, sizeof where);
    ctx->fixed = NULL;
    return status;
}

bw_status bw_fail(bw_ctx *ctx, bw_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail_v(ctx, status, "", fmt, args);
    va_end(args);
    return status;
}

bw_status bw_fail_at(bw_ctx *ctx, bw_status status, const char *pointer,
                     const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail_v(ctx, status, pointer, fmt, args);
    va_end(args);
    return status;
}

bw_status bw_fail_nomem(bw_ctx *ctx)
{
    if (ctx) {
        ctx->fixed = "out of memory";
        ctx->pointer[0] = 0;
    }
    return BW_ENOMEM;
}

bw_status bw_fail_errno(bw_ctx *ctx, const char *what, int err)
{
    if (err == ENOMEM)
        return bw_fail_nomem(ctx);
    if (err == EMFILE || err == ENFILE)
        return bw_fail(ctx, BW_EUNAVAILABLE, "%s: no file descriptor is free", what);
    bool full = err == ENOSPC || err == EDQUOT;
    const char *name = strerrorname_np(err);
    return bw_fail(ctx, full ? BW_ENOSPACE : BW_EIO, "%s: %s", what,
                   name ? name : "error");
}

bw_status bw_ctx_take_error(bw_ctx *ctx, const bw_ctx *from, bw_status status)
{
    assert(status != BW_OK);
    if (ctx == from)
        return status;
    ctx->fixed = from->fixed;
    memcpy(ctx->message, from->message, sizeof ctx->message);
    memcpy(ctx->pointer, from->pointer, sizeof ctx->pointer);
    return status;
}
