/* The log: one line an event on stderr, written by one call so that lines of several
 * threads do not mix. Control characters are escaped, length is capped. What users
 * stored or asked never goes here (the caller's duty: security.md, section 2). */
#include "base.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { LOG_TEXT_MAX = 1024 };

static _Atomic int level_now = BW_LOG_INFO;

void bw_log_set_level(bw_log_level level)
{
    atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

void bw_log(bw_log_level level, const char *fmt, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    if ((int)level > atomic_load_explicit(&level_now, memory_order_relaxed))
        return;
    char text[LOG_TEXT_MAX], when[40];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    bw_time_format(bw_clock_unix_ns(), when);

    char line[4 * LOG_TEXT_MAX + 64]; /* each byte grows to at most four */
    size_t n = (size_t)snprintf(line, 64, "%s %s ", when, names[level]);
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7F)
            n += (size_t)snprintf(line + n, 5, "\\x%02x", c);
        else
            line[n++] = *p;
    }
    line[n++] = '\n';
    ssize_t ignored =
        write(STDERR_FILENO, line, n); /* nowhere to report a broken log */
    (void)ignored;
}
