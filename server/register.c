/* The live register (register.h): knows what is written, writes what is not. */
#include "register.h"
#include "files.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <unistd.h>

/* Lists held to write differences against; past this all are forgotten, which costs
 * bytes of the file and nothing else. */
enum { HELD_IDS_MAX = 1 << 20, HELD_LISTS_MAX = 4096 };

typedef struct held_list { /* a collection's last one */
    uint64_t version;
    uint8_t digest[BW_LIST_DIGEST];
    size_t n, since_whole; /* ids written as differences since a whole list */
    bw_class_id *ids;
} held_list;

struct bw_register {
    pthread_mutex_t lock; /* guards all below; held over a write, which is rare */
    int fd;
    uint64_t bytes;
    bool broken;
    bw_map *classes, *lists; /* written ones */
    bw_map *held;            /* collection's uid -> heap held_list */
    size_t held_ids;
};

void bw_register_digest(const bw_class_id *ids, size_t n, uint8_t digest[BW_LIST_DIGEST])
{
    bw_require(crypto_generichash(digest, BW_LIST_DIGEST,
                                  (const unsigned char *)(n ? ids : NULL),
                                  n * sizeof *ids, NULL, 0) == 0);
}

/* ---- life ---- */

static void forget_held(bw_register *r)
{
    bw_str key;
    uint64_t *value;
    for (size_t it = 0; r->held && bw_map_next(r->held, &it, &key, &value);) {
        held_list *h = (held_list *)(uintptr_t)*value;
        bw_free(h->ids);
        bw_free(h);
    }
    bw_map_free(r->held);
    r->held = NULL;
    r->held_ids = 0;
}

static bw_status file_open(bw_ctx *ctx, bw_register *r, const char *dir)
{
    const char *path = bw_path_join(ctx, dir, "classes.jsonl");
    if (!path)
        return bw_fail_nomem(ctx);
    bw_status s = bw_register__known(ctx, path, r->classes, r->lists, &r->bytes);
    if (s != BW_OK)
        return s;
    r->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (r->fd < 0)
        return bw_fail_errno(ctx, path, errno);
    if (ftruncate(r->fd, (off_t)r->bytes) != 0 || fdatasync(r->fd) != 0)
        return bw_fail_errno(ctx, path, errno);
    return bw_dir_sync(ctx, dir);
}

bw_status bw_register_open(bw_ctx *ctx, const char *audit_dir, bw_register **out)
{
    bw_register *r = bw_calloc(1, sizeof *r);
    if (!r)
        return bw_fail_nomem(ctx);
    r->fd = -1;
    bw_require(pthread_mutex_init(&r->lock, NULL) == 0);
    r->classes = bw_map_new();
    r->lists = bw_map_new();
    bw_status s =
        r->classes && r->lists ? file_open(ctx, r, audit_dir) : bw_fail_nomem(ctx);
    if (s == BW_OK)
        *out = r;
    else
        bw_register_close(r);
    return s;
}

void bw_register_close(bw_register *r)
{
    if (!r)
        return;
    forget_held(r);
    bw_map_free(r->classes);
    bw_map_free(r->lists);
    if (r->fd >= 0)
        (void)close(r->fd); /* synced at each write */
    (void)pthread_mutex_destroy(&r->lock);
    bw_free(r);
}

/* ---- lines; the lock is held ---- */

static void put_ids(bw_buf *b, const char *key, const bw_class_id *ids, size_t n)
{
    char hex[BW_CLASS_TEXT + 1];
    bw_buf_printf(b, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++) {
        bw_class_id_hex(&ids[i], hex);
        bw_buf_printf(b, "%s\"%s\"", i ? "," : "", hex);
    }
    bw_buf_putc(b, ']');
}

static void put_list_name(bw_buf *b, const char *before, const uint8_t digest[BW_LIST_DIGEST])
{
    char hex[2 * BW_LIST_DIGEST + 1];
    sodium_bin2hex(hex, sizeof hex, digest, BW_LIST_DIGEST);
    bw_buf_printf(b, "%s\"%s\"", before, hex);
}

static void put_class(bw_buf *b, const bw_class_id *id, bw_str text)
{
    char hex[BW_CLASS_TEXT + 1];
    bw_class_id_hex(id, hex);
    bw_buf_printf(b, "{\"class\":\"%s\",\"labels\":", hex);
    bw_buf_str(b, text);
    bw_buf_puts(b, "}\n");
}

/* Ids of a that are not in b; both sorted. */
static size_t minus(const bw_class_id *a, size_t na, const bw_class_id *b, size_t nb,
                    bw_class_id *out)
{
    size_t n = 0;
    for (size_t i = 0, k = 0; i < na; i++) {
        while (k < nb && bw_class_id_cmp(&b[k], &a[i]) < 0)
            k++;
        if (k == nb || bw_class_id_cmp(&b[k], &a[i]) != 0)
            out[n++] = a[i];
    }
    return n;
}

/* The list's line; *changed: how many ids it names as a difference, 0 = it is whole. */
static bw_status put_list(bw_ctx *ctx, const held_list *last, const bw_class_id *ids,
                          size_t n, const uint8_t digest[BW_LIST_DIGEST], bw_buf *b,
                          size_t *changed)
{
    bw_class_id *add = bw_arena_calloc(ctx, n + 1, sizeof *add), *drop = NULL;
    size_t nadd = 0, ndrop = 0;
    *changed = 0;
    if (last)
        drop = bw_arena_calloc(ctx, last->n + 1, sizeof *drop);
    if (!add || (last && !drop))
        return bw_fail_nomem(ctx);
    if (last) {
        nadd = minus(ids, n, last->ids, last->n, add);
        ndrop = minus(last->ids, last->n, ids, n, drop);
    }
    put_list_name(b, "{\"list\":", digest);
    if (last && last->since_whole + nadd + ndrop + 1 <= n) {
        put_list_name(b, ",\"from\":", last->digest);
        put_ids(b, "add", add, nadd);
        put_ids(b, "drop", drop, ndrop);
        *changed = nadd + ndrop + 1; /* a line costs something by itself */
    } else {
        put_ids(b, "of", ids, n);
    }
    bw_buf_puts(b, "}\n");
    return BW_OK;
}

static bw_status append(bw_ctx *ctx, bw_register *r, const bw_buf *b)
{
    if (b->failed)
        return bw_fail_nomem(ctx);
    if (b->len == 0)
        return BW_OK;
    if (r->broken)
        return bw_fail(ctx, BW_EUNAVAILABLE, "the register of classes is closed");
    int err = bw_write_all(r->fd, b->ptr, b->len);
    if (err != 0) {
        r->broken = ftruncate(r->fd, (off_t)r->bytes) != 0;
        return bw_fail_errno(ctx, "register of classes", err);
    }
    if (fdatasync(r->fd) != 0) { /* what the kernel kept is unknown: until a restart */
        r->broken = true;
        return bw_fail_errno(ctx, "register of classes", errno);
    }
    r->bytes += b->len;
    return BW_OK;
}

static bw_status mark(bw_ctx *ctx, bw_map *map, const void *key, size_t n)
{
    uint64_t *slot = bw_map_put(map, key, n, NULL);
    if (!slot)
        return bw_fail_nomem(ctx);
    *slot = 1;
    return BW_OK;
}

/* ---- asking ---- */

static held_list *held_of(const bw_register *r, uint64_t uid)
{
    const uint64_t *slot = r->held ? bw_map_get(r->held, &uid, sizeof uid) : NULL;
    return slot ? (held_list *)(uintptr_t)*slot : NULL;
}

/* Best effort: without it the next list of the collection is written whole. */
static void hold(bw_register *r, uint64_t uid, uint64_t version, const bw_class_id *ids,
                 size_t n, const uint8_t digest[BW_LIST_DIGEST], size_t since_whole)
{
    held_list *h = held_of(r, uid);
    if (!h && ((r->held && bw_map_count(r->held) >= HELD_LISTS_MAX) ||
               r->held_ids + n > HELD_IDS_MAX))
        forget_held(r);
    if (!r->held && !(r->held = bw_map_new()))
        return;
    bw_class_id *copy = bw_alloc(n * sizeof *copy);
    uint64_t *slot = copy ? bw_map_put(r->held, &uid, sizeof uid, NULL) : NULL;
    if (slot && !*slot)
        *slot = (uint64_t)(uintptr_t)bw_calloc(1, sizeof *h);
    h = slot ? (held_list *)(uintptr_t)*slot : NULL;
    if (!h) {
        bw_free(copy);
        forget_held(r);
        return;
    }
    r->held_ids = r->held_ids - h->n + n;
    bw_free(h->ids);
    if (n > 0)
        memcpy(copy, ids, n * sizeof *ids);
    h->ids = copy;
    h->n = n;
    h->version = version;
    h->since_whole = since_whole;
    memcpy(h->digest, digest, BW_LIST_DIGEST);
}

static bw_status record_list(bw_ctx *ctx, bw_register *r, uint64_t uid, uint64_t version,
                             const bw_class_id *ids, size_t n, bw_register_text_fn text,
                             void *arg, const uint8_t digest[BW_LIST_DIGEST])
{
    bw_buf b = {0};
    size_t changed = 0;
    bw_status s = BW_OK;
    for (size_t i = 0; i < n && s == BW_OK; i++) {
        bw_str t;
        if (bw_map_get(r->classes, ids[i].bytes, sizeof ids[i].bytes))
            continue;
        s = text(arg, &ids[i], &t);
        if (s == BW_OK)
            put_class(&b, &ids[i], t);
    }
    const held_list *last = held_of(r, uid);
    bool known = bw_map_get(r->lists, digest, BW_LIST_DIGEST) != NULL;
    if (s == BW_OK && !known)
        s = put_list(ctx, last, ids, n, digest, &b, &changed);
    size_t since_whole = last && (known || changed) ? last->since_whole + changed : 0;
    if (s == BW_OK)
        s = append(ctx, r, &b);
    bw_buf_clear(&b);
    for (size_t i = 0; i < n && s == BW_OK; i++)
        s = mark(ctx, r->classes, ids[i].bytes, sizeof ids[i].bytes);
    if (s == BW_OK)
        s = mark(ctx, r->lists, digest, BW_LIST_DIGEST);
    if (s == BW_OK)
        hold(r, uid, version, ids, n, digest, since_whole);
    return s;
}

bw_status bw_register_list(bw_ctx *ctx, bw_register *r, uint64_t uid, uint64_t version,
                           const bw_class_id *ids, size_t n, bw_register_text_fn text,
                           void *arg, uint8_t digest[BW_LIST_DIGEST])
{
    bw_status s = BW_OK;
    bw_require(pthread_mutex_lock(&r->lock) == 0);
    const held_list *h = held_of(r, uid);
    if (h && h->version == version) {
        memcpy(digest, h->digest, BW_LIST_DIGEST);
    } else if (!text) {
        s = BW_ENOTFOUND;
    } else {
        bw_register_digest(ids, n, digest);
        s = record_list(ctx, r, uid, version, ids, n, text, arg, digest);
    }
    bw_require(pthread_mutex_unlock(&r->lock) == 0);
    return s;
}

bw_status bw_register_class(bw_ctx *ctx, bw_register *r, const bw_class_id *id,
                            bw_str label_text)
{
    bw_buf b = {0};
    bw_status s = BW_OK;
    bw_require(pthread_mutex_lock(&r->lock) == 0);
    if (!bw_map_get(r->classes, id->bytes, sizeof id->bytes)) {
        put_class(&b, id, label_text);
        s = append(ctx, r, &b);
        if (s == BW_OK)
            s = mark(ctx, r->classes, id->bytes, sizeof id->bytes);
    }
    bw_require(pthread_mutex_unlock(&r->lock) == 0);
    bw_buf_clear(&b);
    return s;
}
