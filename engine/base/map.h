/* Hash map from borrowed or own byte keys to pointers or 64-bit values; open
 * addressing, keyed SipHash (libsodium), so hostile keys cannot make it slow.
 * Iteration order is the order of insertion: deterministic. One thread at a time. */
#ifndef BW_MAP_H
#define BW_MAP_H
#include "base.h"

typedef struct bw_map bw_map;
bw_map *bw_map_new(void); /* NULL when memory is out */
void bw_map_free(bw_map *m);
size_t bw_map_count(const bw_map *m);
size_t bw_map_bytes(const bw_map *m); /* of memory, keys included; walks all entries */
size_t bw_map_table_bytes(const bw_map *m); /* keys left out; walks nothing */
/* The value's slot, or NULL. Valid until the next put/remove. */
uint64_t *bw_map_get(const bw_map *m, const void *key, size_t n);
/* Copies the key; finds or makes the slot (new: value 0, *fresh = true). NULL: no memory. */
uint64_t *bw_map_put(bw_map *m, const void *key, size_t n, bool *fresh);
bool bw_map_remove(bw_map *m, const void *key, size_t n);
/* for (size_t it = 0; bw_map_next(m, &it, &key, &value); ) */
bool bw_map_next(const bw_map *m, size_t *it, bw_str *key, uint64_t **value);
#endif
