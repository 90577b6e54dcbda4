/* Work over 0 … n-1 in pieces, by a few threads that live for one call. The caller is one
 * of them; a thread that cannot be had is done without. */
#include "graph.h"

#include <pthread.h>

enum { THREADS_MAX = 64 };

typedef struct work {
    const atomic_bool *stop;
    size_t n, piece;
    atomic_size_t next; /* the first piece that nobody took */
    void (*fn)(void *arg, uint32_t thread, size_t from, size_t to);
    void *arg;
} work;

typedef struct worker {
    work *w;
    uint32_t number;
    pthread_t id;
} worker;

static bool stopped(const atomic_bool *stop)
{
    return stop && atomic_load_explicit(stop, memory_order_relaxed);
}

static void *run(void *arg)
{
    const worker *me = arg;
    work *w = me->w;
    while (!stopped(w->stop)) {
        const size_t from =
            atomic_fetch_add_explicit(&w->next, w->piece, memory_order_relaxed);
        if (from >= w->n)
            break;
        w->fn(w->arg, me->number, from, w->n - from < w->piece ? w->n : from + w->piece);
    }
    return NULL;
}

bool bw_graph__parallel(uint32_t threads, const atomic_bool *stop, size_t n, size_t piece,
                        void (*fn)(void *arg, uint32_t thread, size_t from, size_t to),
                        void *arg)
{
    work w = {.stop = stop, .n = n, .piece = piece, .fn = fn, .arg = arg};
    worker workers[THREADS_MAX];
    atomic_init(&w.next, 0);
    threads = threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads;
    uint32_t started = 1;
    workers[0] = (worker){.w = &w};
    for (uint32_t t = 1; t < threads && (size_t)t * piece < n; t++) {
        workers[started] = (worker){.w = &w, .number = started};
        if (pthread_create(&workers[started].id, NULL, run, &workers[started]) == 0)
            started++;
    }
    run(&workers[0]);
    for (uint32_t t = 1; t < started; t++)
        pthread_join(workers[t].id, NULL);
    return !stopped(stop);
}
