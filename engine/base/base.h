/* What every file of ours includes first: context internals, failure, arena, strings.
 *
 * bw_fail sets the message once, where the cause is known; callers pass the code up
 * and add nothing. Messages never hold payloads, texts, vectors or class names. */
#ifndef BW_BASE_H
#define BW_BASE_H

#include <bailiwick/ctx.h>
#include <bailiwick/types.h>

#include <assert.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

/* Stays on in release: what the product promises. Prints and aborts. */
#define bw_require(cond) \
    ((cond) ? (void)0 : bw_require_failed(#cond, __FILE__, __LINE__))
_Noreturn void bw_require_failed(const char *what, const char *file, int line);

/* ---- failure ---- */
/* Sets ctx's message and returns status, so that `return bw_fail(…)` reads well.
 * One line, at most 255 bytes, control characters replaced. status != BW_OK. */
bw_status bw_fail(bw_ctx *ctx, bw_status status, const char *fmt, ...) BW_PRINTF(3, 4);
/* The same with the JSON pointer of the field at fault (copied, cut at 127 bytes). */
bw_status bw_fail_at(bw_ctx *ctx, bw_status status, const char *pointer, const char *fmt, ...)
    BW_PRINTF(4, 5);
bw_status bw_fail_nomem(bw_ctx *ctx); /* static message */
bw_status bw_fail_errno(bw_ctx *ctx, const char *what, int err); /* ENOSPC/EDQUOT -> ENOSPACE, else EIO */
/* Moves the message of another context here (worker threads). */
bw_status bw_ctx_take_error(bw_ctx *ctx, const bw_ctx *from, bw_status status);

uint64_t bw_ctx_deadline(const bw_ctx *ctx);
BW_MUST_USE bw_status bw_ctx_check(bw_ctx *ctx); /* BW_ETIMEOUT once the deadline passed */
/* A brief attempt, until a moment of CLOCK_MONOTONIC (0: none): it is made where nobody may
 * be kept waiting, and what it does not finish is asked again elsewhere. bw_ctx_check fails
 * past that moment. Whoever is about to wait (for a file, a device, a lock that is held over
 * one) or to do much at one go asks bw_ctx_may_wait first: BW_ETIMEOUT in a brief attempt,
 * else BW_OK. bw_ctx_was_cut: one of the two failed so; whatever came of it is void. */
void bw_ctx_set_brief(bw_ctx *ctx, uint64_t until_ns);
BW_MUST_USE bw_status bw_ctx_may_wait(bw_ctx *ctx);
bool bw_ctx_was_cut(const bw_ctx *ctx);
void bw_ctx_set_trace(bw_ctx *ctx, uint64_t trace_id);
uint64_t bw_ctx_trace(const bw_ctx *ctx);

/* ---- the request's arena: freed all at once by bw_ctx_reset/free ---- */
/* 16-byte aligned, not zeroed; NULL (and BW_ENOMEM's message) when the budget is spent.
 * n = 0 gives a valid pointer. The debug build gives each item its own heap block. */
void *bw_arena_alloc(bw_ctx *ctx, size_t n);
void *bw_arena_calloc(bw_ctx *ctx, size_t count, size_t size); /* zeroed, overflow checked */
/* Grows an arena array by copying; old may be NULL. */
void *bw_arena_grow(bw_ctx *ctx, const void *old, size_t old_bytes, size_t new_bytes);
/* Gives back the end of an item that is the newest of the arena. */
void bw_arena_shrink(bw_ctx *ctx, const void *newest, size_t old_bytes, size_t new_bytes);
BW_MUST_USE bw_status bw_arena_str(bw_ctx *ctx, bw_str in, bw_str *out); /* copy */
char *bw_arena_printf(bw_ctx *ctx, const char *fmt, ...) BW_PRINTF(2, 3);
const char *bw_arena_cstr(bw_ctx *ctx, bw_str in); /* terminated copy; NULL when it holds a NUL byte */
size_t bw_arena_used(const bw_ctx *ctx);
/* A mark to free back to: scratch space inside loops. */
typedef struct bw_arena_mark { void *block; size_t used, total; } bw_arena_mark;
bw_arena_mark bw_arena_mark_get(bw_ctx *ctx);
void bw_arena_release(bw_ctx *ctx, bw_arena_mark mark);

/* ---- long-lived memory: a table that tests replace by a failing or counting one ---- */
typedef struct bw_allocator {
    void *(*alloc)(size_t n);
    void *(*realloc)(void *p, size_t n);
    void (*free)(void *p);
} bw_allocator;
void bw_allocator_set(const bw_allocator *a); /* NULL = libc; before anything was allocated */
void *bw_alloc(size_t n);                 /* NULL when memory is out; n = 0 gives a pointer */
void *bw_calloc(size_t count, size_t size);
void *bw_realloc(void *p, size_t n);
void bw_free(void *p);
void *bw_alloc_vectors(size_t bytes); /* 64-byte aligned, zeroed; bw_free_vectors */
void bw_free_vectors(void *p);
/* Before much is allocated; again is harmless. */
void bw_memory_start(void);
/* After much was freed: whole free pages go back to the system. Walks the whole heap, so
 * only where as much work was done before. */
void bw_memory_give_back(void);

/* ---- borrowed strings ---- */
#define BW_STR(lit) ((bw_str){(lit), sizeof(lit) - 1})
static inline bw_str bw_str_c(const char *s) { return s ? (bw_str){s, strlen(s)} : (bw_str){NULL, 0}; }
static inline bool bw_str_eq(bw_str a, bw_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
#define bw_str_is(s, lit) bw_str_eq((s), BW_STR(lit))
int bw_str_cmp(bw_str a, bw_str b); /* bytewise, shorter first on a common prefix */
bool bw_utf8_valid(const char *p, size_t n); /* RFC 3629: no overlong, surrogate, > 10FFFF */

/* ---- growable byte buffer, heap; one type for all output ---- */
typedef struct bw_buf {
    char *ptr;
    size_t len, cap;
    bool failed; /* memory ran out: all later puts do nothing; look once at the end */
} bw_buf;
void bw_buf_clear(bw_buf *b); /* frees; accepts zeroed */
void bw_buf_put(bw_buf *b, const void *p, size_t n);
void bw_buf_puts(bw_buf *b, const char *s);
void bw_buf_putc(bw_buf *b, char c);
void bw_buf_str(bw_buf *b, bw_str s);
void bw_buf_reserve(bw_buf *b, size_t n); /* room for n more bytes at once */
void bw_buf_hex(bw_buf *b, const void *bytes, size_t n); /* two lower-case digits a byte */
/* Not on a request's road: a library that registers conversions of its own (libquadmath)
 * makes every printf of the process some three times as slow. */
void bw_buf_printf(bw_buf *b, const char *fmt, ...) BW_PRINTF(2, 3);
static inline bw_str bw_buf_view(const bw_buf *b) { return (bw_str){b->ptr ? b->ptr : "", b->len}; }

/* ---- clock ---- */
uint64_t bw_clock_mono_ns(void);
struct timespec bw_clock_timespec(uint64_t ns); /* for timed waits */
int64_t bw_clock_unix_ns(void); /* tests may set it with bw_clock_fix */
void bw_clock_fix(int64_t unix_ns); /* 0 = the real clock again */

/* ---- ids ---- */
enum { BW_UUID_TEXT = 36, BW_CLASS_TEXT = 64 };
/* Every UUID spelling of the contract; strict. */
int bw_hex_digit(char c); /* 0 … 15; -1: it is none */
bool bw_uuid_parse(bw_str s, bw_point_id *out);
void bw_uuid_format(const bw_point_id *id, char out[BW_UUID_TEXT + 1]); /* lower case, hyphens */
void bw_class_id_hex(const bw_class_id *id, char out[BW_CLASS_TEXT + 1]);
void bw_u64_hex(uint64_t v, char out[17]); /* 16 digits */
bool bw_class_id_parse(bw_str hex, bw_class_id *out);

/* RFC 3339 date-time (or a date alone = UTC midnight; also "YYYY-MM-DDTHH:MM[:SS[.f]]"
 * without zone = UTC, space instead of T) to Unix nanoseconds. False outside int64. */
bool bw_time_parse(bw_str s, int64_t *ns);
void bw_time_format(int64_t ns, char out[40]); /* RFC 3339, UTC, "Z", fraction only if any */

/* ---- log: one line an event on stderr, control characters escaped, no user data ---- */
typedef enum bw_log_level { BW_LOG_ERROR, BW_LOG_WARN, BW_LOG_INFO, BW_LOG_DEBUG } bw_log_level;
void bw_log_set_level(bw_log_level level);
void bw_log(bw_log_level level, const char *fmt, ...) BW_PRINTF(2, 3);

#endif
