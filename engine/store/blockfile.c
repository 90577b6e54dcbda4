/* Files of blocks with a MAC each, and their cache (blockfile.h has the format).
 *
 * The cache is a clock over a fixed number of slots (Corbató 1968: second chance; a hit
 * costs one flag, not a move in a list). A block is read and checked outside the lock;
 * who wants the same one meanwhile waits for it. A slot that somebody copies from is
 * pinned; when all are, a reader uses a block of its own: slower, never stuck. */
#include "blockfile.h"
#include "failpoint.h"
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = {'B', 'W', 'b', 'l', 'o', 'c', 'k', '1'};
enum { HEAD_BYTES = 16 + BW_BLOCK_ID, SLOTS_MIN = 8, NONE = UINT32_MAX };
static_assert((int)HEAD_BYTES <= (int)BW_BLOCK_DATA, "the head is in one block");
static_assert(BW_BLOCK_MAC == crypto_generichash_BYTES, "the MAC is BLAKE2b-256");

typedef enum slot_state { FREE, LOADING, READY } slot_state;

typedef struct slot { /* the cache's lock; data: whoever loads, then immutable */
    uint64_t file, block;
    unsigned char *data; /* BW_BLOCK_BYTES, or NULL before the first use */
    uint32_t pins, next; /* next: in the bucket */
    bool used;           /* since the hand last passed */
    slot_state state;
} slot;

struct bw_block_cache {
    pthread_mutex_t lock;
    pthread_cond_t loaded;
    uint32_t nslots, mask, hand;
    slot *slots;
    uint32_t *buckets;
    uint64_t files; /* numbers given out */
    bw_block_cache_stats stats;
};

struct bw_blockfile {
    bw_block_cache *cache;
    uint64_t number, length;
    pthread_mutex_t lock; /* opening */
    atomic_int fd;        /* −1: not open yet */
    char *path;
    unsigned char id[BW_BLOCK_ID], key[BW_BLOCK_KEY];
};

struct bw_block_writer {
    int fd;
    char *dir, *tmp, *to; /* made at once: taking a file away needs no memory */
    uint64_t blocks, length; /* full blocks written (without the head); content */
    uint32_t fill;           /* bytes of the block at hand */
    unsigned char id[BW_BLOCK_ID], key[BW_BLOCK_KEY];
    unsigned char block[BW_BLOCK_BYTES];
};

/* ---- one block ---- */

static void mac_of(const unsigned char id[BW_BLOCK_ID],
                   const unsigned char key[BW_BLOCK_KEY], uint64_t number,
                   const unsigned char *data, unsigned char out[BW_BLOCK_MAC])
{
    crypto_generichash_state s;
    crypto_generichash_init(&s, key, BW_BLOCK_KEY, BW_BLOCK_MAC);
    crypto_generichash_update(&s, id, BW_BLOCK_ID);
    crypto_generichash_update(&s, (const unsigned char *)&number, sizeof number);
    crypto_generichash_update(&s, data, BW_BLOCK_DATA);
    crypto_generichash_final(&s, out, BW_BLOCK_MAC);
}

static bw_status damaged(bw_ctx *ctx)
{
    return bw_fail(ctx, BW_ECORRUPT, "store: a file of vectors is damaged");
}

static bw_status load_block(bw_ctx *ctx, const bw_blockfile *f, int fd, uint64_t number,
                            unsigned char *block)
{
    size_t got = 0;
    while (got < BW_BLOCK_BYTES) {
        ssize_t r = pread(fd, block + got, BW_BLOCK_BYTES - got,
                          (off_t)(number * BW_BLOCK_BYTES + got));
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return bw_fail_errno(ctx, "read a file of vectors", errno);
        if (r == 0)
            return damaged(ctx);
        got += (size_t)r;
    }
    bw_status st = bw_failpoint(ctx, "blockfile.read");
    if (st != BW_OK)
        return st;
    unsigned char mac[BW_BLOCK_MAC];
    mac_of(f->id, f->key, number, block, mac);
    return sodium_memcmp(mac, block + BW_BLOCK_DATA, sizeof mac) == 0 ? BW_OK
                                                                      : damaged(ctx);
}

/* ---- cache ---- */

bw_block_cache *bw_block_cache_new(size_t bytes_max)
{
    bw_block_cache *c = bw_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    size_t n = bytes_max / BW_BLOCK_BYTES;
    n = n < SLOTS_MIN ? SLOTS_MIN : n;
    n = n > UINT32_MAX / 4 ? UINT32_MAX / 4 : n;
    c->nslots = (uint32_t)n;
    uint32_t buckets = 16;
    while (buckets < c->nslots)
        buckets *= 2;
    c->mask = buckets - 1;
    c->stats.bytes_max = (uint64_t)c->nslots * BW_BLOCK_BYTES;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->loaded, NULL);
    c->slots = bw_calloc(c->nslots, sizeof *c->slots);
    c->buckets = bw_alloc(buckets * sizeof *c->buckets);
    if (!c->slots || !c->buckets) {
        bw_block_cache_free(c);
        return NULL;
    }
    for (uint32_t i = 0; i < buckets; i++)
        c->buckets[i] = NONE;
    return c;
}

void bw_block_cache_free(bw_block_cache *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; c->slots && i < c->nslots; i++) {
        assert(c->slots[i].pins == 0);
        bw_free(c->slots[i].data);
    }
    pthread_cond_destroy(&c->loaded);
    pthread_mutex_destroy(&c->lock);
    bw_free(c->slots);
    bw_free(c->buckets);
    bw_free(c);
}

void bw_block_cache_stats_get(bw_block_cache *c, bw_block_cache_stats *out)
{
    pthread_mutex_lock(&c->lock);
    *out = c->stats;
    pthread_mutex_unlock(&c->lock);
}

static uint32_t *bucket_of(bw_block_cache *c, uint64_t file, uint64_t block)
{
    uint64_t h = (file * 0x9E3779B97F4A7C15u) ^ (block * 0xD6E8FEB86659FD93u);
    return &c->buckets[(h ^ h >> 32) & c->mask];
}

static slot *slot_find(bw_block_cache *c, uint64_t file, uint64_t block)
{
    for (uint32_t i = *bucket_of(c, file, block); i != NONE; i = c->slots[i].next)
        if (c->slots[i].file == file && c->slots[i].block == block)
            return &c->slots[i];
    return NULL;
}

static void slot_unlink(bw_block_cache *c, slot *s)
{
    uint32_t *at = bucket_of(c, s->file, s->block);
    while (&c->slots[*at] != s)
        at = &c->slots[*at].next;
    *at = s->next;
    s->state = FREE;
}

/* A slot that nobody uses, out of its bucket; NULL: all are in use. */
static slot *slot_take(bw_block_cache *c)
{
    for (uint32_t step = 0; step < 2 * c->nslots; step++) {
        slot *s = &c->slots[c->hand];
        c->hand = c->hand + 1 == c->nslots ? 0 : c->hand + 1;
        if (s->state == FREE)
            return s;
        if (s->pins > 0 || s->state == LOADING)
            continue;
        if (!s->used) {
            slot_unlink(c, s);
            return s;
        }
        s->used = false;
    }
    return NULL;
}

/* The block, pinned; *out NULL: no slot is free (or has memory), the caller reads it for
 * itself. */
static bw_status block_pin(bw_ctx *ctx, bw_blockfile *f, int fd, uint64_t number,
                           slot **out)
{
    bw_block_cache *c = f->cache;
    slot *s;
    *out = NULL;
    pthread_mutex_lock(&c->lock);
    while ((s = slot_find(c, f->number, number)) && s->state == LOADING)
        pthread_cond_wait(&c->loaded, &c->lock);
    if (s) {
        s->pins++;
        s->used = true;
        c->stats.hits++;
        pthread_mutex_unlock(&c->lock);
        *out = s;
        return BW_OK;
    }
    c->stats.misses++;
    s = slot_take(c);
    if (s && !s->data && (s->data = bw_alloc(BW_BLOCK_BYTES)) != NULL)
        c->stats.bytes += BW_BLOCK_BYTES;
    if (!s || !s->data) {
        pthread_mutex_unlock(&c->lock);
        return BW_OK;
    }
    uint32_t *bucket = bucket_of(c, f->number, number);
    *s = (slot){.file = f->number,
                .block = number,
                .data = s->data,
                .pins = 1,
                .next = *bucket,
                .used = true,
                .state = LOADING};
    *bucket = (uint32_t)(s - c->slots);
    pthread_mutex_unlock(&c->lock);
    bw_status st = load_block(ctx, f, fd, number, s->data);
    pthread_mutex_lock(&c->lock);
    s->state = READY;
    if (st != BW_OK) {
        s->pins = 0;
        c->stats.damaged += st == BW_ECORRUPT;
        slot_unlink(c, s);
    }
    pthread_cond_broadcast(&c->loaded);
    pthread_mutex_unlock(&c->lock);
    *out = st == BW_OK ? s : NULL;
    return st;
}

static void block_unpin(bw_block_cache *c, slot *s)
{
    pthread_mutex_lock(&c->lock);
    assert(s->pins > 0 && s->state == READY);
    s->pins--;
    pthread_mutex_unlock(&c->lock);
}

/* The blocks of a file that goes: their slots are the first to be taken. */
static void cache_forget(bw_block_cache *c, uint64_t file)
{
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->nslots; i++) {
        slot *s = &c->slots[i];
        if (s->state == FREE || s->file != file)
            continue;
        assert(s->pins == 0);
        slot_unlink(c, s);
        bw_free(s->data);
        s->data = NULL;
        c->stats.bytes -= BW_BLOCK_BYTES;
    }
    pthread_mutex_unlock(&c->lock);
}

/* ---- reading ---- */

static char *heap_text(const char *s)
{
    size_t n = strlen(s) + 1;
    char *out = bw_alloc(n);
    if (out)
        memcpy(out, s, n);
    return out;
}

bw_blockfile *bw_blockfile_new(bw_block_cache *cache, const char *path,
                               const unsigned char id[BW_BLOCK_ID],
                               const unsigned char key[BW_BLOCK_KEY], uint64_t length)
{
    bw_blockfile *f = bw_calloc(1, sizeof *f);
    char *own = f ? heap_text(path) : NULL;
    if (!own) {
        bw_free(f);
        return NULL;
    }
    f->cache = cache;
    f->length = length;
    f->path = own;
    atomic_init(&f->fd, -1);
    pthread_mutex_init(&f->lock, NULL);
    memcpy(f->id, id, sizeof f->id);
    memcpy(f->key, key, sizeof f->key);
    pthread_mutex_lock(&cache->lock);
    f->number = cache->files++;
    pthread_mutex_unlock(&cache->lock);
    return f;
}

void bw_blockfile_free(bw_blockfile *f)
{
    if (!f)
        return;
    int fd = atomic_load_explicit(&f->fd, memory_order_acquire);
    if (fd >= 0) {
        cache_forget(f->cache, f->number);
        (void)close(fd); /* read only: nothing to lose */
    }
    pthread_mutex_destroy(&f->lock);
    sodium_memzero(f->key, sizeof f->key);
    bw_free(f->path);
    bw_free(f);
}

void bw_blockfile_disown(bw_blockfile *f)
{
    (void)unlink(f->path); /* gone already: the same */
}

static void head_make(unsigned char *block, const unsigned char id[BW_BLOCK_ID],
                      uint64_t length)
{
    memset(block, 0, BW_BLOCK_BYTES);
    memcpy(block, magic, sizeof magic);
    memcpy(block + 8, &length, sizeof length);
    memcpy(block + 16, id, BW_BLOCK_ID);
}

static uint64_t blocks_of(uint64_t length)
{
    return (length + BW_BLOCK_DATA - 1) / BW_BLOCK_DATA;
}

static bw_status check_head(bw_ctx *ctx, const bw_blockfile *f, int fd)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0)
        return bw_fail_errno(ctx, "look at a file of vectors", errno);
    if ((uint64_t)sb.st_size != (1 + blocks_of(f->length)) * BW_BLOCK_BYTES)
        return damaged(ctx);
    unsigned char *block = bw_alloc(2 * (size_t)BW_BLOCK_BYTES);
    if (!block)
        return bw_fail_nomem(ctx);
    bw_status st = load_block(ctx, f, fd, 0, block);
    head_make(block + BW_BLOCK_BYTES, f->id, f->length);
    if (st == BW_OK && memcmp(block, block + BW_BLOCK_BYTES, BW_BLOCK_DATA) != 0)
        st = damaged(ctx);
    bw_free(block);
    return st;
}

static bw_status file_open(bw_ctx *ctx, bw_blockfile *f, int *out)
{
    int fd = atomic_load_explicit(&f->fd, memory_order_acquire);
    if (fd >= 0) {
        *out = fd;
        return BW_OK;
    }
    bw_status st = BW_OK;
    pthread_mutex_lock(&f->lock);
    fd = atomic_load_explicit(&f->fd, memory_order_relaxed);
    if (fd < 0) {
        fd = open(f->path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            st = errno == ENOENT ? bw_fail(ctx, BW_ENOTFOUND, "no such file")
                                 : bw_fail_errno(ctx, "open a file of vectors", errno);
        if (st == BW_OK && (st = check_head(ctx, f, fd)) != BW_OK)
            (void)close(fd);
        if (st == BW_OK)
            atomic_store_explicit(&f->fd, fd, memory_order_release);
    }
    pthread_mutex_unlock(&f->lock);
    *out = fd;
    return st;
}

bw_status bw_blockfile_check(bw_ctx *ctx, bw_blockfile *f)
{
    int fd;
    return file_open(ctx, f, &fd);
}

bw_status bw_blockfile_renew(bw_ctx *ctx, bw_blockfile *f, bool keep)
{
    int fresh = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fresh < 0)
        return bw_fail_errno(ctx, "open a file of vectors", errno);
    if (!keep)
        (void)unlink(f->path);
    bw_status st = check_head(ctx, f, fresh);
    if (st == BW_OK) {
        pthread_mutex_lock(&f->lock);
        int fd = atomic_load_explicit(&f->fd, memory_order_relaxed);
        /* The number stays: who is about to read from it reads the new file. */
        if (fd < 0)
            atomic_store_explicit(&f->fd, fresh, memory_order_release);
        else if (dup3(fresh, fd, O_CLOEXEC) < 0)
            st = bw_fail_errno(ctx, "open a file of vectors", errno);
        pthread_mutex_unlock(&f->lock);
        if (fd < 0)
            return st;
    }
    (void)close(fresh);
    return st;
}

static bw_status read_part(bw_ctx *ctx, bw_blockfile *f, int fd, uint64_t number,
                           size_t from, size_t n, unsigned char *out)
{
    slot *s;
    bw_status st = block_pin(ctx, f, fd, number, &s);
    if (st != BW_OK)
        return st;
    if (s) {
        memcpy(out, s->data + from, n);
        block_unpin(f->cache, s);
        return BW_OK;
    }
    unsigned char *own = bw_alloc(BW_BLOCK_BYTES);
    if (!own)
        return bw_fail_nomem(ctx);
    st = load_block(ctx, f, fd, number, own);
    if (st == BW_OK)
        memcpy(out, own + from, n);
    bw_free(own);
    return st;
}

bw_status bw_blockfile_read(bw_ctx *ctx, bw_blockfile *f, uint64_t offset, size_t n,
                            void *out)
{
    assert(n <= f->length && offset <= f->length - n);
    int fd;
    unsigned char *to = out;
    bw_status st = bw_ctx_may_wait(ctx);
    if (st == BW_OK)
        st = file_open(ctx, f, &fd);
    while (st == BW_OK && n > 0) {
        uint64_t number = 1 + offset / BW_BLOCK_DATA;
        size_t from = (size_t)(offset % BW_BLOCK_DATA);
        size_t part = n < BW_BLOCK_DATA - from ? n : BW_BLOCK_DATA - from;
        st = read_part(ctx, f, fd, number, from, part, to);
        offset += part;
        to += part;
        n -= part;
    }
    return st;
}

/* ---- writing ---- */

static char *heap_path(const char *dir, const char *name, const char *suffix)
{
    bw_buf b = {0};
    bw_buf_printf(&b, "%s/%s%s", dir, name, suffix);
    bw_buf_putc(&b, 0);
    if (!b.failed)
        return b.ptr;
    bw_buf_clear(&b);
    return NULL;
}

static void writer_free(bw_block_writer *w)
{
    if (w->fd >= 0)
        (void)close(w->fd); /* on the way out of a failure: nothing of it is used */
    sodium_memzero(w->key, sizeof w->key);
    bw_free(w->dir);
    bw_free(w->tmp);
    bw_free(w->to);
    bw_free(w);
}

bw_status bw_block_writer_new(bw_ctx *ctx, const char *dir, const char *name,
                              const unsigned char id[BW_BLOCK_ID],
                              const unsigned char key[BW_BLOCK_KEY],
                              bw_block_writer **out)
{
    bw_block_writer *w = bw_calloc(1, sizeof *w);
    if (!w)
        return bw_fail_nomem(ctx);
    w->fd = -1;
    w->dir = heap_text(dir);
    w->tmp = heap_path(dir, name, ".tmp");
    w->to = heap_path(dir, name, "");
    memcpy(w->id, id, sizeof w->id);
    memcpy(w->key, key, sizeof w->key);
    bw_status st =
        w->dir && w->tmp && w->to ? bw_fs_unlink(ctx, w->tmp) : bw_fail_nomem(ctx);
    if (st == BW_OK) {
        w->fd = open(w->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (w->fd < 0)
            st = bw_fail_errno(ctx, "make a file of vectors", errno);
    }
    if (st != BW_OK) {
        writer_free(w);
        return st;
    }
    *out = w;
    return BW_OK;
}

bw_status bw_blockfile_rewrite(bw_ctx *ctx, bw_blockfile *f, bw_block_writer **out)
{
    const char *name = strrchr(f->path, '/');
    assert(name); /* of the caller's folder */
    char *dir = heap_text(f->path);
    if (!dir)
        return bw_fail_nomem(ctx);
    dir[name - f->path] = 0;
    bw_status st = bw_block_writer_new(ctx, dir, name + 1, f->id, f->key, out);
    bw_free(dir);
    return st;
}

static bw_status put_block(bw_ctx *ctx, bw_block_writer *w, uint64_t number)
{
    mac_of(w->id, w->key, number, w->block, w->block + BW_BLOCK_DATA);
    bw_status st = bw_failpoint(ctx, "blockfile.write");
    for (size_t done = 0; st == BW_OK && done < BW_BLOCK_BYTES;) {
        ssize_t r = pwrite(w->fd, w->block + done, BW_BLOCK_BYTES - done,
                           (off_t)(number * BW_BLOCK_BYTES + done));
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return bw_fail_errno(ctx, "write a file of vectors", errno);
        done += (size_t)r;
    }
    return st;
}

bw_status bw_block_write(bw_ctx *ctx, bw_block_writer *w, const void *p, size_t n)
{
    const unsigned char *from = p;
    bw_status st = BW_OK;
    w->length += n;
    while (st == BW_OK && n > 0) {
        size_t part = n < BW_BLOCK_DATA - w->fill ? n : BW_BLOCK_DATA - w->fill;
        memcpy(w->block + w->fill, from, part);
        w->fill += (uint32_t)part;
        from += part;
        n -= part;
        if (w->fill == BW_BLOCK_DATA) {
            st = put_block(ctx, w, ++w->blocks);
            w->fill = 0;
        }
    }
    return st;
}

bw_status bw_block_writer_finish(bw_ctx *ctx, bw_block_writer *w)
{
    bw_status st = BW_OK;
    if (w->fill > 0) {
        memset(w->block + w->fill, 0, BW_BLOCK_DATA - w->fill);
        st = put_block(ctx, w, ++w->blocks);
    }
    head_make(w->block, w->id, w->length);
    if (st == BW_OK)
        st = put_block(ctx, w, 0);
    if (st == BW_OK && fsync(w->fd) != 0)
        st = bw_fail_errno(ctx, "sync a file of vectors", errno);
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 && st == BW_OK)
        st = bw_fail_errno(ctx, "write a file of vectors", errno);
    if (st == BW_OK && rename(w->tmp, w->to) != 0)
        st = bw_fail_errno(ctx, "rename a file of vectors", errno);
    if (st == BW_OK)
        st = bw_fs_sync_dir(ctx, w->dir);
    else
        (void)unlink(w->tmp);
    writer_free(w);
    return st;
}

void bw_block_writer_abandon(bw_block_writer *w)
{
    if (!w)
        return;
    (void)unlink(w->tmp); /* else the next writer of that name removes it */
    writer_free(w);
}
