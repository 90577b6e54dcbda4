/* Doubles of the CUDA driver and of cuVS, as two shared libraries with the real names:
 * the calls that engine/index/cuvs*.c makes, with the manners of the real ones that a
 * caller may stumble over. Work is done on the CPU, and only at a sync.
 *
 * Device memory: an address with DOUBLE_TAG set, which no CPU can follow by mistake.
 * A test loads the same files with dlopen and reaches the knobs below by the two
 * functions at the end. */
#ifndef CUVS_DOUBLE_H
#define CUVS_DOUBLE_H
#include "engine/index/cuvs_abi.h"

#define DOUBLE_TAG ((uintptr_t)1 << 62)
#define DOUBLE_API __attribute__((visibility("default")))
static const int FAULT_ILLEGAL_ADDRESS = 700;

/* ---- the driver ---- */
typedef struct cuda_double {
    /* knobs */
    int init, devices, version; /* of cuInit; of the others' outputs */
    size_t room;                /* what cuMemGetInfo says is free */
    long fail_alloc;            /* the n-th allocation from now fails; -1: none */
    bool fail_lasts;            /* and all after it */
    int sticky;                 /* not 0: every call gives it, from then on */
    /* seen */
    long live;   /* allocations, of the device and pinned */
    long misuse; /* broken rules: wrong thread, no context, address or length */
    /* for the double of cuVS */
    void *(*reach)(CUdeviceptr p, size_t bytes); /* NULL: no such memory */
    void (*push)(CUstream s, void (*run)(void *arg), void *arg); /* arg: malloc'd */
    int (*drain)(CUstream s);                                    /* a sync */
} cuda_double;

/* ---- cuVS ---- */
typedef enum double_short { /* what fills places when fewer than k rows are found */
    SHORT_BY_RATE,  /* from half on 0x7FFFFFFF with FLT_MAX, a tenth on 0xFFFFFFFF with a
                     * score derived from it, below: left as they were */
    SHORT_EXCLUDED, /* excluded rows' numbers with +inf, as brute force does */
    SHORT_HOSTILE   /* excluded rows and repeats, with good scores */
} double_short;

typedef struct cuvs_double {
    /* knobs */
    uint16_t version[3];
    bool no_driver;        /* the first sync says what it says without one */
    long fail_alloc;       /* the n-th of cuVS's own allocations fails; -1: none */
    bool fail_lasts;
    long fault;            /* the n-th search from now faults on the device; -1: none */
    double_short fewer;
    size_t poor_below;     /* with a smaller itopk only every fourth place is filled */
    unsigned slow_ms;      /* each search takes so long */
    bool refuse_build;     /* with a text of several lines */
    /* seen */
    long searches, queries, batch_max, filters, misuse, live;
    struct cuvsCagraSearchParams last; /* of the last search */
    size_t last_k;
} cuvs_double;

/* The calls themselves, from the lists by which they are looked up. */
#define DOUBLE_DECLARE(name, result, params) DOUBLE_API result name params;
BW_CUDA_SYMBOLS(DOUBLE_DECLARE)
BW_CUVS_SYMBOLS(DOUBLE_DECLARE)
#undef DOUBLE_DECLARE

DOUBLE_API cuda_double *cuda_double_get(void);
DOUBLE_API cuvs_double *cuvs_double_get(void);
#endif
