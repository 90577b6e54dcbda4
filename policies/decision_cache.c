/* A set-associative table of answers (decision_cache.h).
 *
 * Both halves of the key are BLAKE2b output, so their first words are the hash. A full
 * set gives up its oldest answer: no list to keep, no lock but the set's stripe. The
 * version of policies and entities is inside the fingerprint; an answer of an older
 * version can therefore never be found, even one put in late by a slow thread. */
#include "decision_cache.h"

#include <pthread.h>

enum { SETS = 8192, WAYS = 8, STRIPES = 64 }; /* 65,536 answers, under 7 MiB */

typedef struct answer {
    bw_fingerprint q;
    bw_class_id resource;
    uint32_t *policies; /* heap; NULL if none */
    uint32_t nreasons, nerrors;
    bool used, allow;
} answer;

typedef struct answer_set {
    answer ways[WAYS];
    uint32_t oldest;
} answer_set;

struct bw_decision_cache {
    answer_set *sets; /* set i under locks[i % STRIPES] */
    pthread_mutex_t locks[STRIPES];
};

bw_decision_cache *bw_decision_cache__new(void)
{
    bw_decision_cache *c = bw_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->sets = bw_calloc(SETS, sizeof *c->sets);
    for (int i = 0; i < STRIPES; i++)
        bw_require(pthread_mutex_init(&c->locks[i], NULL) == 0);
    if (!c->sets) {
        bw_decision_cache__free(c);
        return NULL;
    }
    return c;
}

void bw_decision_cache__free(bw_decision_cache *c)
{
    if (!c)
        return;
    if (c->sets)
        bw_decision_cache__empty(c);
    for (int i = 0; i < STRIPES; i++)
        pthread_mutex_destroy(&c->locks[i]);
    bw_free(c->sets);
    bw_free(c);
}

void bw_decision_cache__empty(bw_decision_cache *c)
{
    for (size_t stripe = 0; stripe < STRIPES; stripe++) {
        bw_require(pthread_mutex_lock(&c->locks[stripe]) == 0);
        for (size_t i = stripe; i < SETS; i += STRIPES)
            for (size_t w = 0; w < WAYS; w++) {
                answer *a = &c->sets[i].ways[w];
                if (!a->used) /* leaves pages that nobody touched untouched */
                    continue;
                bw_free(a->policies);
                *a = (answer){0};
            }
        bw_require(pthread_mutex_unlock(&c->locks[stripe]) == 0);
    }
}

static size_t set_of(const bw_fingerprint *q, const bw_class_id *resource)
{
    uint64_t a, b;
    memcpy(&a, q->bytes, sizeof a);
    memcpy(&b, resource->bytes, sizeof b);
    return (size_t)((a ^ b) % SETS);
}

static answer *find(answer_set *s, const bw_fingerprint *q, const bw_class_id *resource)
{
    for (size_t w = 0; w < WAYS; w++) {
        answer *a = &s->ways[w];
        if (a->used && memcmp(&a->q, q, sizeof *q) == 0 &&
            memcmp(&a->resource, resource, sizeof *resource) == 0)
            return a;
    }
    return NULL;
}

bool bw_decision_cache__get(bw_decision_cache *c, bw_ctx *ctx, const bw_fingerprint *q,
                            const bw_class_id *resource, bw_verdict *out)
{
    size_t i = set_of(q, resource);
    pthread_mutex_t *lock = &c->locks[i % STRIPES];
    bool found = false;
    bw_require(pthread_mutex_lock(lock) == 0);
    const answer *a = find(&c->sets[i], q, resource);
    if (a) {
        size_t n = a->nreasons + a->nerrors;
        uint32_t *copy = ctx && n ? bw_arena_alloc(ctx, n * sizeof *copy) : NULL;
        found = !ctx || !n || copy;
        if (copy)
            memcpy(copy, a->policies, n * sizeof *copy);
        *out = (bw_verdict){a->allow, a->nreasons, a->nerrors, copy};
    }
    bw_require(pthread_mutex_unlock(lock) == 0);
    return found;
}

void bw_decision_cache__put(bw_decision_cache *c, const bw_fingerprint *q,
                            const bw_class_id *resource, const bw_verdict *v)
{
    size_t i = set_of(q, resource), n = v->nreasons + v->nerrors;
    pthread_mutex_t *lock = &c->locks[i % STRIPES];
    uint32_t *copy = n ? bw_alloc(n * sizeof *copy) : NULL;
    if (n && !copy)
        return;
    if (copy)
        memcpy(copy, v->policies, n * sizeof *copy);
    bw_require(pthread_mutex_lock(lock) == 0);
    answer_set *s = &c->sets[i];
    answer *a = find(s, q, resource); /* another thread may have been first */
    if (!a)
        a = &s->ways[s->oldest++ % WAYS];
    bw_free(a->policies);
    *a = (answer){.q = *q, .resource = *resource, .policies = copy, .nreasons = v->nreasons,
                  .nerrors = v->nerrors, .used = true, .allow = v->allow};
    bw_require(pthread_mutex_unlock(lock) == 0);
}
