/* The process's hash key (hash.h). */
#include "hash.h"

#include <pthread.h>
#include <sodium.h>

static unsigned char key[crypto_shorthash_KEYBYTES];
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void key_draw(void)
{
    bw_require(sodium_init() >= 0);
    randombytes_buf(key, sizeof key);
}

uint64_t bw_hash__bytes(const void *p, size_t n)
{
    unsigned char out[crypto_shorthash_BYTES];
    uint64_t h;
    static_assert(sizeof out == sizeof h, "SipHash gives 64 bits");
    pthread_once(&key_once, key_draw);
    crypto_shorthash(out, n ? p : (const void *)"", n, key);
    memcpy(&h, out, sizeof h);
    return h;
}
