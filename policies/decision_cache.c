/* A set-associative table of answers (decision_cache.h).
 *
 * Both halves of the key are BLAKE2b output, so their first words are the hash. A full
 * set gives up its oldest answer: no list to keep, no lock but the set's stripe. The
 * version of policies and entities is inside the fingerprint; an answer of an older
 * version can therefore never be found, even one put in late by a slow thread. */
#include "decision_cache.h"

#include <pthread.h>

enum { STRIPES = 64, STRIPE_SETS = 128, WAYS = 8 }; /* 65,536 answers, under 7 MiB */

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

typedef struct stripe {
    pthread_mutex_t lock;
    answer_set *sets; /* STRIPE_SETS of them, from the first answer on */
} stripe;

struct bw_decision_cache {
    stripe stripes[STRIPES];
};

bw_decision_cache *bw_decision_cache__new(void)
{
    bw_decision_cache *c = bw_calloc(1, sizeof *c);
    for (int i = 0; c && i < STRIPES; i++)
        bw_require(pthread_mutex_init(&c->stripes[i].lock, NULL) == 0);
    return c;
}

void bw_decision_cache__free(bw_decision_cache *c)
{
    if (!c)
        return;
    bw_decision_cache__empty(c);
    for (int i = 0; i < STRIPES; i++)
        pthread_mutex_destroy(&c->stripes[i].lock);
    bw_free(c);
}

void bw_decision_cache__empty(bw_decision_cache *c)
{
    for (size_t i = 0; i < STRIPES; i++) {
        stripe *s = &c->stripes[i];
        bw_require(pthread_mutex_lock(&s->lock) == 0);
        for (size_t k = 0; s->sets && k < STRIPE_SETS; k++)
            for (size_t w = 0; w < WAYS; w++)
                bw_free(s->sets[k].ways[w].policies);
        bw_free(s->sets);
        s->sets = NULL;
        bw_require(pthread_mutex_unlock(&s->lock) == 0);
    }
}

static stripe *stripe_of(bw_decision_cache *c, const bw_fingerprint *q,
                         const bw_class_id *resource, size_t *set)
{
    uint64_t a, b;
    memcpy(&a, q->bytes, sizeof a);
    memcpy(&b, resource->bytes, sizeof b);
    *set = (size_t)((a ^ b) / STRIPES % STRIPE_SETS);
    return &c->stripes[(a ^ b) % STRIPES];
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
    size_t set;
    stripe *s = stripe_of(c, q, resource, &set);
    bool found = false;
    bw_require(pthread_mutex_lock(&s->lock) == 0);
    const answer *a = s->sets ? find(&s->sets[set], q, resource) : NULL;
    if (a) {
        size_t n = a->nreasons + a->nerrors;
        uint32_t *copy = ctx && n ? bw_arena_alloc(ctx, n * sizeof *copy) : NULL;
        found = !ctx || !n || copy;
        if (copy)
            memcpy(copy, a->policies, n * sizeof *copy);
        *out = (bw_verdict){a->allow, a->nreasons, a->nerrors, copy};
    }
    bw_require(pthread_mutex_unlock(&s->lock) == 0);
    return found;
}

void bw_decision_cache__put(bw_decision_cache *c, const bw_fingerprint *q,
                            const bw_class_id *resource, const bw_verdict *v)
{
    size_t set, n = v->nreasons + v->nerrors;
    stripe *s = stripe_of(c, q, resource, &set);
    uint32_t *copy = n ? bw_alloc(n * sizeof *copy) : NULL;
    if (n && !copy)
        return;
    if (copy)
        memcpy(copy, v->policies, n * sizeof *copy);
    bw_require(pthread_mutex_lock(&s->lock) == 0);
    if (!s->sets)
        s->sets = bw_calloc(STRIPE_SETS, sizeof *s->sets);
    if (s->sets) {
        answer_set *ways = &s->sets[set];
        answer *a = find(ways, q, resource); /* another thread may have been first */
        if (!a)
            a = &ways->ways[ways->oldest++ % WAYS];
        bw_free(a->policies);
        *a = (answer){.q = *q,
                      .resource = *resource,
                      .policies = copy,
                      .nreasons = v->nreasons,
                      .nerrors = v->nerrors,
                      .used = true,
                      .allow = v->allow};
        copy = NULL;
    }
    bw_require(pthread_mutex_unlock(&s->lock) == 0);
    bw_free(copy);
}
