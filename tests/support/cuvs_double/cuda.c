/* libcuda.so.1, the double: a few calls of the driver, in order on a queue a stream.
 * Copies happen when the stream is drained, so their host memory must live until then. */
#include "cuvs_double.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { NO_CONTEXT = 201, INVALID = 1, FULL = 2, POISON = 0xA5 };

typedef struct block {
    struct block *next;
    char *at;
    size_t bytes;
    bool pinned;
    pthread_t by; /* pinned memory is freed by who had it */
} block;

typedef struct op {
    struct op *next;
    void (*run)(void *arg);
    void *arg;
} op;

struct CUstream_st {
    op *first, **end;
    struct CUstream_st *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;                 /* lock */
static struct CUstream_st *streams;   /* lock; for the life of the process */
static _Thread_local CUcontext current;
static char the_context;

static void *reach(CUdeviceptr p, size_t bytes);
static void push(CUstream s, void (*run)(void *arg), void *arg);
static int drain(CUstream s);

static cuda_double self = {.devices = 1,
                           .version = 13000,
                           .room = (size_t)8 << 30,
                           .fail_alloc = -1,
                           .reach = reach,
                           .push = push,
                           .drain = drain};

cuda_double *cuda_double_get(void)
{
    return &self;
}

static void *reach(CUdeviceptr p, size_t bytes)
{
    void *out = NULL;
    char *at;
    const uintptr_t address = (uintptr_t)p & ~DOUBLE_TAG;
    memcpy(&at, &address, sizeof at);
    pthread_mutex_lock(&lock);
    if ((uintptr_t)p & DOUBLE_TAG)
        for (block *b = blocks; b && !out; b = b->next)
            if (!b->pinned && at >= b->at && at + bytes <= b->at + b->bytes)
                out = at;
    pthread_mutex_unlock(&lock);
    return out;
}

static void push(CUstream s, void (*run)(void *arg), void *arg)
{
    op *o = calloc(1, sizeof *o);
    o->run = run;
    o->arg = arg;
    *s->end = o;
    s->end = &o->next;
}

static int drain(CUstream s)
{
    while (s && s->first) {
        op *o = s->first;
        s->first = o->next;
        if (!self.sticky)
            o->run(o->arg);
        free(o->arg);
        free(o);
    }
    if (s)
        s->end = &s->first;
    return self.sticky;
}

/* What every call but the first few asks first. */
static int entry(void)
{
    if (self.sticky)
        return self.sticky;
    if (!current) {
        self.misuse++;
        return NO_CONTEXT;
    }
    return 0;
}

DOUBLE_API CUresult cuInit(unsigned int flags)
{
    return flags == 0 ? self.init : INVALID;
}
DOUBLE_API CUresult cuDriverGetVersion(int *out)
{
    *out = self.version;
    return 0;
}
DOUBLE_API CUresult cuDeviceGetCount(int *out)
{
    *out = self.devices;
    return 0;
}
DOUBLE_API CUresult cuDeviceGet(CUdevice *out, int i)
{
    *out = i;
    return self.sticky ? self.sticky : i < self.devices ? 0 : 101;
}
DOUBLE_API CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice d)
{
    void *p = &the_context;
    memcpy(out, &p, sizeof p);
    return self.sticky ? self.sticky : d == 0 ? 0 : 101;
}
DOUBLE_API CUresult cuCtxSetCurrent(CUcontext c)
{
    current = c;
    return self.sticky;
}

DOUBLE_API CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    (void)flags, (void)priority;
    const int rc = entry();
    if (rc)
        return rc;
    struct CUstream_st *s = calloc(1, sizeof *s);
    s->end = &s->first;
    pthread_mutex_lock(&lock);
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&lock);
    *out = s;
    return 0;
}

DOUBLE_API CUresult cuMemGetInfo_v2(size_t *room, size_t *total)
{
    *room = self.room;
    *total = (size_t)16 << 30;
    return entry();
}

static CUresult block_new(size_t bytes, bool pinned, char **out)
{
    const int rc = entry();
    if (rc)
        return rc;
    if (bytes == 0)
        return INVALID;
    if (self.fail_alloc >= 0 && self.fail_alloc-- == 0) {
        self.fail_alloc = self.fail_lasts ? 0 : -1;
        return FULL;
    }
    block *b = calloc(1, sizeof *b);
    b->at = malloc(bytes);
    b->bytes = bytes;
    b->pinned = pinned;
    b->by = pthread_self();
    memset(b->at, POISON, bytes);
    pthread_mutex_lock(&lock);
    b->next = blocks;
    blocks = b;
    self.live++;
    pthread_mutex_unlock(&lock);
    *out = b->at;
    return 0;
}

static CUresult block_free(const char *at, bool pinned)
{
    CUresult rc = INVALID;
    pthread_mutex_lock(&lock);
    for (block **p = &blocks; *p; p = &(*p)->next)
        if ((*p)->at == at && (*p)->pinned == pinned) {
            block *b = *p;
            self.misuse += pinned && !pthread_equal(b->by, pthread_self());
            *p = b->next;
            free(b->at);
            free(b);
            self.live--;
            rc = 0;
            break;
        }
    self.misuse += rc != 0;
    pthread_mutex_unlock(&lock);
    return self.sticky ? self.sticky : rc;
}

DOUBLE_API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    char *at = NULL;
    const CUresult rc = block_new(bytes, false, &at);
    if (rc == 0)
        *out = (CUdeviceptr)((uintptr_t)at | DOUBLE_TAG);
    return rc;
}
DOUBLE_API CUresult cuMemFree_v2(CUdeviceptr p)
{
    const uintptr_t address = (uintptr_t)p & ~DOUBLE_TAG;
    const char *at;
    memcpy(&at, &address, sizeof at);
    return block_free(at, false);
}
DOUBLE_API CUresult cuMemAllocHost_v2(void **out, size_t bytes)
{
    char *at = NULL;
    const CUresult rc = block_new(bytes, true, &at);
    if (rc == 0)
        *out = at;
    return rc;
}
DOUBLE_API CUresult cuMemFreeHost(void *p)
{
    return block_free(p, true);
}

typedef struct copy {
    CUdeviceptr device;
    const void *from;
    void *to;
    size_t bytes;
    unsigned int word;
} copy;

static void copy_run(void *arg)
{
    const copy *c = arg;
    char *at = reach(c->device, c->bytes);
    if (!at) {
        self.misuse++;
        self.sticky = FAULT_ILLEGAL_ADDRESS;
    } else if (c->from) {
        memcpy(at, c->from, c->bytes);
    } else if (c->to) {
        memcpy(c->to, at, c->bytes);
    } else {
        for (size_t i = 0; i < c->bytes; i += sizeof c->word)
            memcpy(at + i, &c->word, sizeof c->word);
    }
}

static CUresult copy_push(CUstream s, copy c)
{
    const int rc = entry();
    copy *own = rc ? NULL : malloc(sizeof *own);
    if (rc)
        return rc;
    *own = c;
    push(s, copy_run, own);
    return 0;
}

DOUBLE_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
    return copy_push(s, (copy){to, from, NULL, n, 0});
}
DOUBLE_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s)
{
    return copy_push(s, (copy){from, NULL, to, n, 0});
}
DOUBLE_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int word, size_t n, CUstream s)
{
    return copy_push(s, (copy){to, NULL, NULL, n * sizeof word, word});
}
