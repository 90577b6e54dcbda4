/* Random numbers of the tests: one small generator (SplitMix64), seeded from BW_SEED in
 * the environment or by a constant, and printed, so that any failure can be run again.
 */
#ifndef BW_TEST_RND_H
#define BW_TEST_RND_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct rnd {
    uint64_t state;
} rnd;

/* Prints the seed; the same one comes back from BW_SEED. */
static inline rnd rnd_start(const char *test, uint64_t preset)
{
    const char *given = getenv("BW_SEED");
    const uint64_t seed = given && *given ? strtoull(given, NULL, 0) : preset;
    printf("%s: BW_SEED=%llu\n", test, (unsigned long long)seed);
    return (rnd){seed};
}
static inline uint64_t rnd_u64(rnd *r)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
/* 0 … n-1, n > 0; the bias of a modulus is of no account here. */
static inline size_t rnd_below(rnd *r, size_t n)
{
    return (size_t)(rnd_u64(r) % n);
}
static inline double rnd_unit(rnd *r)
{
    return (double)(rnd_u64(r) >> 11) * 0x1p-53;
}
static inline double rnd_gauss(rnd *r) /* Box and Muller */
{
    const double u = 1.0 - rnd_unit(r), v = rnd_unit(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}
#endif
