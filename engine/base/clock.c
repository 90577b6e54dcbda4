/* The clocks. Tests fix Unix time; monotonic time only ever measures and times out. */
#include "base.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic int64_t fixed_unix_ns;

uint64_t bw_clock_mono_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct timespec bw_clock_timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

int64_t bw_clock_unix_ns(void)
{
    int64_t fixed = atomic_load_explicit(&fixed_unix_ns, memory_order_relaxed);
    if (fixed)
        return fixed;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void bw_clock_fix(int64_t unix_ns)
{
    atomic_store_explicit(&fixed_unix_ns, unix_ns, memory_order_relaxed);
}
