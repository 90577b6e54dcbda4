/* Long-lived memory: the one file that calls libc's allocator.
 *
 * Tests put a failing or counting table in its place (bw_allocator_set). A table must
 * be set before anything was allocated: blocks are freed by the table in force. */
#include "base.h"

#include <malloc.h>
#include <stdlib.h>

static const bw_allocator libc_table = {malloc, realloc, free};
static const bw_allocator *table = &libc_table;

void bw_allocator_set(const bw_allocator *a)
{
    table = a ? a : &libc_table;
}

/* glibc raises its limit for blocks of their own to 32 MiB as such blocks are freed, and
 * then keeps what is freed among others for ever. A fixed limit gives large blocks back
 * as they are freed; bw_memory_give_back has what lies between. */
enum { OWN_BLOCK = 4 << 20, TOP_KEPT = 16 << 20 };

void bw_memory_start(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, OWN_BLOCK);
    (void)mallopt(M_TRIM_THRESHOLD, TOP_KEPT);
}

void bw_memory_give_back(void)
{
    if (table == &libc_table)
        (void)malloc_trim(0);
}

void *bw_alloc(size_t n)
{
    return table->alloc(n ? n : 1);
}

void *bw_calloc(size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n))
        return NULL;
    if (table == &libc_table) /* large blocks come zeroed from the system for nothing */
        return calloc(n ? n : 1, 1);
    void *p = bw_alloc(n);
    if (p)
        memset(p, 0, n);
    return p;
}

void *bw_realloc(void *p, size_t n)
{
    return table->realloc(p, n ? n : 1);
}

void bw_free(void *p)
{
    if (p)
        table->free(p);
}

/* The block's own start is kept in the word before the aligned address. */
enum { VECTOR_ALIGN = 64 };

void *bw_alloc_vectors(size_t bytes)
{
    if (bytes > SIZE_MAX - 2 * VECTOR_ALIGN)
        return NULL;
    char *raw = bw_calloc(1, bytes + 2 * VECTOR_ALIGN);
    if (!raw)
        return NULL;
    size_t up =
        VECTOR_ALIGN + (VECTOR_ALIGN - (uintptr_t)raw % VECTOR_ALIGN) % VECTOR_ALIGN;
    char *p = raw + up;
    memcpy(p - sizeof raw, &raw, sizeof raw);
    return p;
}

void bw_free_vectors(void *p)
{
    if (!p)
        return;
    char *raw;
    memcpy(&raw, (char *)p - sizeof raw, sizeof raw);
    bw_free(raw);
}
