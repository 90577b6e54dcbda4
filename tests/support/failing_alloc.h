/* An allocator whose n-th allocation fails, once or from then on; and counts what is
 * still allocated. Set it before anything was allocated. One thread while it is armed. */
#ifndef BW_TEST_FAILING_ALLOC_H
#define BW_TEST_FAILING_ALLOC_H
#include <engine/base/base.h>

#include <stdlib.h>

static long failing_countdown = -1; /* -1: never */
static bool failing_lasts, failing_hit;
static _Atomic long failing_live;

static bool failing_now(void)
{
    if (failing_countdown < 0)
        return false;
    if (failing_countdown > 0) {
        failing_countdown--;
        return false;
    }
    failing_hit = true;
    if (!failing_lasts)
        failing_countdown = -1;
    return true;
}

static void *failing_alloc(size_t n)
{
    void *p = failing_now() ? NULL : malloc(n);
    failing_live += p != NULL;
    return p;
}

static void *failing_realloc(void *old, size_t n)
{
    void *p = failing_now() ? NULL : realloc(old, n);
    failing_live += p && !old;
    return p;
}

static void failing_free(void *p)
{
    failing_live -= p != NULL;
    free(p);
}

static inline void failing_set(void)
{
    static const bw_allocator table = {failing_alloc, failing_realloc, failing_free};
    bw_allocator_set(&table);
}

static inline void failing_arm(long n, bool lasts)
{
    failing_countdown = n;
    failing_lasts = lasts;
    failing_hit = false;
}

/* Runs `step` with the n-th allocation failing, n = 0, 1, 2 … until a run meets no fault.
 * step gets whether a fault may still come; it checks its own results. Gives the number
 * of runs. */
static inline long failing_sweep(void (*step)(void *), void *arg, long runs_max)
{
    for (int lasts = 0; lasts < 2; lasts++)
        for (long n = 0;; n++) {
            if (n > runs_max)
                return -1;
            failing_arm(n, lasts);
            step(arg);
            bool hit = failing_hit;
            failing_arm(-1, false);
            if (!hit && lasts)
                return n;
            if (!hit)
                break;
        }
    return -1;
}
#endif
