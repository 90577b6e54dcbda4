/* Growable byte buffer: all output of ours goes through it.
 *
 * Writers do not look at each put: the first failed growth marks the buffer, later puts
 * do nothing, and the owner looks once at the end. Thread class: one at a time. */
#include "base.h"

#include <stdio.h>

enum { BUF_FIRST = 256 };

void bw_buf_clear(bw_buf *b)
{
    if (!b)
        return;
    bw_free(b->ptr);
    *b = (bw_buf){0};
}

/* Room for n more bytes. */
static bool buf_room(bw_buf *b, size_t n)
{
    if (b->failed)
        return false;
    if (n <= b->cap - b->len)
        return true;
    size_t want;
    if (__builtin_add_overflow(b->len, n, &want)) {
        b->failed = true;
        return false;
    }
    size_t cap = b->cap ? b->cap : BUF_FIRST;
    while (cap < want)
        cap = cap > SIZE_MAX / 2 ? want : cap * 2;
    char *p = bw_realloc(b->ptr, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->ptr = p;
    b->cap = cap;
    return true;
}

void bw_buf_put(bw_buf *b, const void *p, size_t n)
{
    if (n == 0 || !buf_room(b, n))
        return;
    memcpy(b->ptr + b->len, p, n);
    b->len += n;
}

void bw_buf_puts(bw_buf *b, const char *s)
{
    bw_buf_put(b, s, strlen(s));
}

void bw_buf_putc(bw_buf *b, char c)
{
    if (buf_room(b, 1))
        b->ptr[b->len++] = c;
}

void bw_buf_str(bw_buf *b, bw_str s)
{
    bw_buf_put(b, s.ptr, s.len);
}

void bw_buf_reserve(bw_buf *b, size_t n)
{
    (void)buf_room(b, n);
}

void bw_buf_hex(bw_buf *b, const void *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *in = bytes;
    if (n > SIZE_MAX / 2 || !buf_room(b, 2 * n))
        return;
    for (size_t i = 0; i < n; i++) {
        b->ptr[b->len++] = digits[in[i] >> 4];
        b->ptr[b->len++] = digits[in[i] & 15];
    }
}

void bw_buf_printf(bw_buf *b, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        b->failed = true;
    } else if (buf_room(b, (size_t)n + 1)) { /* vsnprintf writes a terminator behind */
        vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}
