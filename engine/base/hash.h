/* Keyed hash of bytes (SipHash-2-4, libsodium); the key is drawn once a process, so
 * nobody outside can choose keys that collide. Not for anything that is stored. */
#ifndef BW_HASH_PRIVATE_H
#define BW_HASH_PRIVATE_H
#include "base.h"

uint64_t bw_hash__bytes(const void *p, size_t n);
#endif
