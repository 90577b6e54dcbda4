/* The entity store: objects by uid, each with attributes, tags and all its ancestors.
 */
#ifndef BW_CEDAR_ENTITIES_H
#define BW_CEDAR_ENTITIES_H
#include "value.h"

typedef struct bw_cedar__object { /* a uid that the store knows: defined, or named as a
                                     parent */
    bw_cedar__uid uid;
    bool defined;
    bw_cedar_value attrs, tags; /* records; empty when not defined */
    const uint32_t *ancestors;  /* indexes of objects, ascending; complete */
    uint32_t nancestors;
    const uint32_t *parents; /* those that were given; ascending */
    uint32_t nparents;
} bw_cedar__object;

enum { BW_CEDAR__ABOVE_MAX = 8 };
struct bw_cedar_entities {
    bw_ctx *pool; /* owns everything below, the struct too; NULL: owned by a schema */
    bw_cedar__object *objects;
    uint32_t n;
    uint32_t *slots; /* open addressing: index + 1, or 0 */
    uint32_t mask;
    bw_str above[BW_CEDAR__ABOVE_MAX]; /* types that something has as a parent */
    uint32_t nabove;                   /* more than there is room for: perhaps any */
};

void bw_cedar__store_note_above(bw_cedar_entities *s, bw_str type);
/* Whether something in the store may have an ancestor of the type. */
bool bw_cedar__store_has_above(const bw_cedar_entities *s, bw_str type);

const bw_cedar__object *bw_cedar__store_get(const bw_cedar_entities *e,
                                            const bw_cedar__uid *uid);
static inline bool bw_cedar__object_below(const bw_cedar__object *o, uint32_t index)
{
    uint32_t lo = 0, hi = o->nancestors;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (o->ancestors[mid] == index)
            return true;
        if (o->ancestors[mid] < index)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

/* Into the hash table: object `index`, whose uid is not there yet and has room. */
void bw_cedar__slot_put(bw_cedar_entities *s, uint32_t index);

/* ---- building: objects with parents first, then one call closes them ---- */
typedef struct bw_cedar__build {
    bw_ctx *ctx, *pool;
    bw_cedar_entities *store;
    uint32_t **parents; /* by object, arena of ctx */
    uint32_t *nparents;
    uint32_t cap;
} bw_cedar__build;
BW_MUST_USE bw_status bw_cedar__build_start(bw_ctx *ctx, bw_ctx *pool,
                                            uint32_t expected, bw_cedar__build *b);
/* Finds or adds; strings are borrowed and must live in pool (or as long). */
BW_MUST_USE bw_status bw_cedar__build_object(bw_cedar__build *b,
                                             const bw_cedar__uid *uid, uint32_t *index);
/* Ancestors of every object; BW_EINVALID on a cycle or past the limit. No recursion. */
BW_MUST_USE bw_status bw_cedar__build_close(bw_cedar__build *b);
#endif
