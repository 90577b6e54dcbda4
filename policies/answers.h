/* Answers kept by the question that they answer: counted, immutable, bounded in bytes,
 * shared by all threads. For decision.c, permitted.c and classes.c. */
#ifndef BW_ANSWERS_PRIVATE_H
#define BW_ANSWERS_PRIVATE_H
#include "../engine/base/base.h"

/* The head of whatever is kept: one block of the heap, freed with the last reference.
 */
typedef struct bw_kept {
    _Atomic uint32_t refs;
    uint32_t bytes; /* of the block */
} bw_kept;
static inline void bw_kept__init(bw_kept *k, size_t bytes)
{
    *k = (bw_kept){.refs = 1, .bytes = (uint32_t)bytes};
}
void bw_kept__release(bw_kept *k); /* NULL is accepted */

enum { BW_ANSWER_KEY_MAX = 512 };
/* Everything that the answer depends on, in full (or, when that is longer, its
 * BLAKE2b-256): two questions never share a key, so no collision can widen a right. */
typedef struct bw_answer_key {
    uint64_t owner; /* a hash of the tenant that pays for the room */
    uint64_t hash;
    uint32_t n;
    uint8_t bytes[BW_ANSWER_KEY_MAX];
} bw_answer_key;

/* For what is large on the stack and written before it is read: release builds zero
 * all the rest, which would cost a tenth of finding an answer. */
#define BW_UNSET __attribute__((uninitialized))

typedef struct bw_answers bw_answers;
bw_answers *bw_answers__new(size_t bytes_max); /* NULL: no memory */
void bw_answers__free(bw_answers *a);
void bw_answers__empty(bw_answers *a);
/* A reference, or NULL: not kept. No heap. */
bw_kept *bw_answers__get(bw_answers *a, const bw_answer_key *key);
/* The same for n keys of one owner at a time, each just a class id: under one lock. */
void bw_answers__get_classes(bw_answers *a, uint64_t owner, const bw_class_id *ids,
                             size_t n, bw_kept **out);
/* Best effort (out of memory keeps nothing); takes a reference of its own. */
void bw_answers__put(bw_answers *a, const bw_answer_key *key, bw_kept *value);
typedef struct bw_answers_figures {
    uint64_t hits, misses, bytes;
} bw_answers_figures;
void bw_answers__figures(bw_answers *a, bw_answers_figures *out);
#endif
