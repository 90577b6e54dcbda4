/* A table of kept answers (answers.h).
 *
 * Tenants are spread over shards by a keyed hash. When the whole is over its budget the
 * fullest shard gives up its oldest answers that nobody asked for since (a second
 * chance for the others): a tenant that fills the cache evicts itself, whatever it
 * asks, and room that others leave is anybody's. The key is compared in full; the
 * version of policies and entities is part of it, so an answer of an older version is
 * never found, even one put in late by a slow thread. */
#include "answers.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SHARDS = 64, BUCKETS_FIRST = 64, BUCKETS_MAX = 1 << 18 };

typedef struct node {
    struct node *next; /* in its bucket */
    struct node *newer;
    bw_kept *value;
    uint64_t hash;
    uint32_t key_bytes;
    bool used; /* since it was last looked at for eviction */
    uint8_t key[];
} node;

typedef struct shard {
    pthread_mutex_t lock;
    node **buckets; /* from the first answer on; doubled with them */
    uint32_t nbuckets, count;
    node *oldest, *newest;
    uint64_t hits, misses;
    _Atomic size_t bytes; /* written under lock */
} shard;

struct bw_answers {
    size_t bytes_max;
    _Atomic size_t bytes;
    shard shards[SHARDS];
};

void bw_kept__release(bw_kept *k)
{
    if (k && atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) == 1)
        bw_free(k);
}

bw_answers *bw_answers__new(size_t bytes_max)
{
    bw_answers *a = bw_calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->bytes_max = bytes_max;
    for (int i = 0; i < SHARDS; i++)
        bw_require(pthread_mutex_init(&a->shards[i].lock, NULL) == 0);
    return a;
}

void bw_answers__free(bw_answers *a)
{
    if (!a)
        return;
    bw_answers__empty(a);
    for (int i = 0; i < SHARDS; i++)
        pthread_mutex_destroy(&a->shards[i].lock);
    bw_free(a);
}

static size_t cost_of(const node *n)
{
    return sizeof *n + n->key_bytes + n->value->bytes;
}

static void account(bw_answers *a, shard *s, size_t add, size_t less)
{
    size_t now = atomic_load_explicit(&s->bytes, memory_order_relaxed) + add - less;
    atomic_store_explicit(&s->bytes, now, memory_order_relaxed);
    atomic_fetch_add_explicit(&a->bytes, add - less, memory_order_relaxed);
}

/* Locked. The link that points to the node with this key, or to the NULL at the end. */
static node **find(const shard *s, uint64_t hash, const void *key, uint32_t n)
{
    node **at = &s->buckets[hash & (s->nbuckets - 1)];
    while (*at && !((*at)->hash == hash && (*at)->key_bytes == n &&
                    memcmp((*at)->key, key, n) == 0))
        at = &(*at)->next;
    return at;
}

/* Locked. */
static bw_kept *take(shard *s, uint64_t hash, const void *key, uint32_t n)
{
    node *found = s->buckets ? *find(s, hash, key, n) : NULL;
    if (!found) {
        s->misses++;
        return NULL;
    }
    found->used = true;
    s->hits++;
    atomic_fetch_add_explicit(&found->value->refs, 1, memory_order_relaxed);
    return found->value;
}

static void push(shard *s, node *n)
{
    n->newer = NULL;
    if (s->newest)
        s->newest->newer = n;
    else
        s->oldest = n;
    s->newest = n;
}

/* Locked. Takes the oldest out of the queue, and (true) for good unless it was used
 * since. */
static bool evict(bw_answers *a, shard *s)
{
    node *n = s->oldest;
    s->oldest = n->newer;
    if (!s->oldest)
        s->newest = NULL;
    if (n->used) {
        n->used = false;
        push(s, n);
        return false;
    }
    node **at = &s->buckets[n->hash & (s->nbuckets - 1)];
    while (*at != n)
        at = &(*at)->next;
    *at = n->next;
    s->count--;
    account(a, s, 0, cost_of(n));
    bw_kept__release(n->value);
    bw_free(n);
    return true;
}

void bw_answers__empty(bw_answers *a)
{
    for (int i = 0; i < SHARDS; i++) {
        shard *s = &a->shards[i];
        bw_require(pthread_mutex_lock(&s->lock) == 0);
        while (s->oldest)
            (void)evict(a, s);
        bw_free(s->buckets);
        s->buckets = NULL;
        s->nbuckets = 0;
        bw_require(pthread_mutex_unlock(&s->lock) == 0);
    }
}

bw_kept *bw_answers__get(bw_answers *a, const bw_answer_key *key)
{
    shard *s = &a->shards[key->owner % SHARDS];
    bw_require(pthread_mutex_lock(&s->lock) == 0);
    bw_kept *value = take(s, key->hash, key->bytes, key->n);
    bw_require(pthread_mutex_unlock(&s->lock) == 0);
    return value;
}

void bw_answers__get_classes(bw_answers *a, uint64_t owner, const bw_class_id *ids,
                             size_t n, bw_kept **out)
{
    shard *s = &a->shards[owner % SHARDS];
    bw_require(pthread_mutex_lock(&s->lock) == 0);
    for (size_t i = 0; i < n; i++) {
        uint64_t hash; /* an id is a hash */
        memcpy(&hash, ids[i].bytes, sizeof hash);
        out[i] = take(s, hash, ids[i].bytes, sizeof ids[i].bytes);
    }
    bw_require(pthread_mutex_unlock(&s->lock) == 0);
}

static void shrink(bw_answers *a)
{
    while (atomic_load_explicit(&a->bytes, memory_order_relaxed) > a->bytes_max) {
        shard *fullest = &a->shards[0];
        for (int i = 1; i < SHARDS; i++)
            if (atomic_load_explicit(&a->shards[i].bytes, memory_order_relaxed) >
                atomic_load_explicit(&fullest->bytes, memory_order_relaxed))
                fullest = &a->shards[i];
        bw_require(pthread_mutex_lock(&fullest->lock) == 0);
        while (fullest->oldest && !evict(a, fullest))
            ;
        bw_require(pthread_mutex_unlock(&fullest->lock) == 0);
    }
}

/* Locked. False: no table, for want of memory. A full one goes on with longer chains.
 */
static bool make_room(shard *s)
{
    if (s->buckets && (s->count < s->nbuckets || s->nbuckets == BUCKETS_MAX))
        return true;
    uint32_t n = s->buckets ? 2 * s->nbuckets : BUCKETS_FIRST;
    node **buckets = bw_calloc(n, sizeof(node *));
    if (!buckets)
        return s->buckets != NULL;
    for (node *p = s->oldest; p; p = p->newer) {
        p->next = buckets[p->hash & (n - 1)];
        buckets[p->hash & (n - 1)] = p;
    }
    bw_free(s->buckets);
    s->buckets = buckets;
    s->nbuckets = n;
    return true;
}

void bw_answers__put(bw_answers *a, const bw_answer_key *key, bw_kept *value)
{
    shard *s = &a->shards[key->owner % SHARDS];
    node *n = bw_alloc(sizeof *n + key->n);
    if (!n)
        return;
    *n = (node){.value = value, .hash = key->hash, .key_bytes = key->n};
    memcpy(n->key, key->bytes, key->n);
    bw_require(pthread_mutex_lock(&s->lock) == 0);
    node **at = make_room(s) ? find(s, key->hash, key->bytes, key->n) : NULL;
    if (at && !*at) { /* else another thread was first, with the same answer */
        *at = n;
        push(s, n);
        s->count++;
        account(a, s, cost_of(n), 0);
        atomic_fetch_add_explicit(&value->refs, 1, memory_order_relaxed);
        n = NULL;
    }
    bw_require(pthread_mutex_unlock(&s->lock) == 0);
    bw_free(n);
    shrink(a);
}

void bw_answers__figures(bw_answers *a, bw_answers_figures *out)
{
    *out = (bw_answers_figures){
        .bytes = atomic_load_explicit(&a->bytes, memory_order_relaxed)};
    for (int i = 0; i < SHARDS; i++) {
        shard *s = &a->shards[i];
        bw_require(pthread_mutex_lock(&s->lock) == 0);
        out->hits += s->hits;
        out->misses += s->misses;
        bw_require(pthread_mutex_unlock(&s->lock) == 0);
    }
}
