/* The hash map of map.h: entries in the order of insertion, and beside them an
 * open-addressing table of entry numbers (linear probing, at most half full). A removal
 * leaves a hole in both; growing squeezes the holes out, so order stays. */
#include "map.h"
#include "hash.h"

typedef struct entry {
    char *key; /* NULL: removed */
    size_t n;
    uint64_t hash, value;
} entry;

struct bw_map {
    entry *entries;
    uint32_t *table; /* entry number + 1; 0 empty, GONE removed */
    size_t nentries, entries_cap, table_cap, live;
};

enum { TABLE_FIRST = 16 };
#define GONE UINT32_MAX

bw_map *bw_map_new(void)
{
    return bw_calloc(1, sizeof(bw_map));
}

void bw_map_free(bw_map *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->nentries; i++)
        bw_free(m->entries[i].key);
    bw_free(m->entries);
    bw_free(m->table);
    bw_free(m);
}

size_t bw_map_count(const bw_map *m)
{
    return m->live;
}

size_t bw_map_table_bytes(const bw_map *m)
{
    return sizeof *m + m->entries_cap * sizeof *m->entries +
           m->table_cap * sizeof *m->table;
}

size_t bw_map_bytes(const bw_map *m)
{
    size_t n = bw_map_table_bytes(m);
    for (size_t i = 0; i < m->nentries; i++)
        n += m->entries[i].key ? m->entries[i].n : 0;
    return n;
}

/* The table slot that holds the key, or table_cap. */
static size_t find(const bw_map *m, const void *key, size_t n, uint64_t hash)
{
    if (m->live == 0)
        return m->table_cap;
    size_t mask = m->table_cap - 1;
    for (size_t i = hash & mask; m->table[i]; i = (i + 1) & mask) {
        if (m->table[i] == GONE)
            continue;
        const entry *e = &m->entries[m->table[i] - 1];
        if (e->hash == hash && e->n == n && (n == 0 || memcmp(e->key, key, n) == 0))
            return i;
    }
    return m->table_cap;
}

uint64_t *bw_map_get(const bw_map *m, const void *key, size_t n)
{
    size_t slot = find(m, key, n, bw_hash__bytes(key, n));
    return slot < m->table_cap ? &m->entries[m->table[slot] - 1].value : NULL;
}

static void table_insert(uint32_t *table, size_t cap, uint64_t hash, size_t number)
{
    size_t i = hash & (cap - 1);
    while (table[i])
        i = (i + 1) & (cap - 1);
    table[i] = (uint32_t)(number + 1);
}

/* Room for one more entry; on failure nothing changed. */
static bool grow(bw_map *m)
{
    if (m->nentries < m->entries_cap)
        return true;
    size_t cap = TABLE_FIRST;
    while (cap / 2 <= m->live + m->live / 2)
        cap *= 2;
    if (cap / 2 >= GONE)
        return false;
    uint32_t *table = bw_calloc(cap, sizeof *table);
    entry *entries = bw_alloc(cap / 2 * sizeof *entries);
    if (!table || !entries) {
        bw_free(table);
        bw_free(entries);
        return false;
    }
    size_t count = 0;
    for (size_t i = 0; i < m->nentries; i++) {
        if (!m->entries[i].key)
            continue;
        entries[count] = m->entries[i];
        table_insert(table, cap, entries[count].hash, count);
        count++;
    }
    assert(count == m->live);
    bw_free(m->entries);
    bw_free(m->table);
    m->entries = entries;
    m->table = table;
    m->nentries = count;
    m->entries_cap = cap / 2;
    m->table_cap = cap;
    return true;
}

uint64_t *bw_map_put(bw_map *m, const void *key, size_t n, bool *fresh)
{
    uint64_t hash = bw_hash__bytes(key, n);
    size_t slot = find(m, key, n, hash);
    if (slot < m->table_cap) {
        if (fresh)
            *fresh = false;
        return &m->entries[m->table[slot] - 1].value;
    }
    char *copy = bw_alloc(n);
    if (!copy || !grow(m)) {
        bw_free(copy);
        return NULL;
    }
    if (n)
        memcpy(copy, key, n);
    entry *e = &m->entries[m->nentries];
    *e = (entry){copy, n, hash, 0};
    table_insert(m->table, m->table_cap, hash, m->nentries);
    m->nentries++;
    m->live++;
    if (fresh)
        *fresh = true;
    return &e->value;
}

bool bw_map_remove(bw_map *m, const void *key, size_t n)
{
    size_t slot = find(m, key, n, bw_hash__bytes(key, n));
    if (slot >= m->table_cap)
        return false;
    entry *e = &m->entries[m->table[slot] - 1];
    bw_free(e->key);
    e->key = NULL;
    m->table[slot] = GONE;
    m->live--;
    return true;
}

bool bw_map_next(const bw_map *m, size_t *it, bw_str *key, uint64_t **value)
{
    while (*it < m->nentries) {
        entry *e = &m->entries[(*it)++];
        if (!e->key)
            continue;
        if (key)
            *key = (bw_str){e->key, e->n};
        if (value)
            *value = &e->value;
        return true;
    }
    return false;
}
