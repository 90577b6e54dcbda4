/* Opening and closing a cell's data, and what a crash left to finish.
 *
 * The folder:
 *   lock            flock of the one process that may write
 *   key             32 random bytes, mode 0400: the key of the MACs on saved graphs
 *   catalogue.db    store/catalogue.h
 *   p/<number>.db   store/partfile.h;  p/<number>.<segment>.<vector>.graph
 * partition/build.h */
#include "engine_impl.h"
#include "index/choose.h"
#include "index/gpu_host.h"
#include "store/fs.h"

#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CACHE_BYTES = 256 << 20 };
enum { OPEN_MAX = 256, SEAL_ROWS = 16384, GRAPH_ROWS_MIN = 4000, GAP_ROWS_MIN = 65536 };

static uint32_t or_default(uint32_t v, uint32_t d)
{
    return v ? v : d;
}

static char *heap_path(const char *dir, const char *name)
{
    bw_buf b = {0};
    bw_buf_puts(&b, dir);
    bw_buf_puts(&b, name);
    bw_buf_putc(&b, 0);
    if (!b.failed)
        return b.ptr;
    bw_buf_clear(&b);
    return NULL;
}

static bw_status cell_key(bw_ctx *ctx, const char *dir, bool fresh,
                          unsigned char key[BW_MAC_KEY])
{
    const char *path = bw_arena_printf(ctx, "%s/key", dir);
    if (!path)
        return BW_ENOMEM;
    if (!bw_fs_exists(path)) {
        /* A cell that lost it only loses saved graphs: they are built again. */
        if (!fresh)
            bw_log(BW_LOG_WARN, "engine: the cell's key is missing; a new one is made");
        randombytes_buf(key, BW_MAC_KEY);
        return bw_fs_replace(ctx, dir, "key", key, BW_MAC_KEY, 0400);
    }
    bw_buf b = {0};
    bw_status st = bw_fs_read(ctx, path, BW_MAC_KEY, &b);
    if (st == BW_OK && b.len != BW_MAC_KEY)
        st = bw_fail(ctx, BW_ECORRUPT, "the cell's key has the wrong length");
    if (st == BW_OK)
        memcpy(key, b.ptr, BW_MAC_KEY);
    if (b.ptr)
        sodium_memzero(b.ptr, b.len);
    bw_buf_clear(&b);
    return st;
}

/* A GPU is a help, never a condition. */
static void open_gpu(bw_engine *e)
{
    bw_gpu_host *gpu = NULL;
    char text[BW_GPU_TEXT_MAX];
    const bw_gpu_host_options o = {.rows_min = e->env.graphs_first ? BW_GPU_GROUP : 0};
    bw_ctx *ctx = bw_ctx_new(0);
    if (ctx && bw_gpu_host_open(ctx, &o, &gpu) == BW_OK) {
        bw_gpu_host_text(gpu, text);
        bw_log(BW_LOG_INFO, "GPU: %s", text);
        if (!bw_gpu_host_any(gpu)) {
            bw_gpu_host_close(gpu);
            gpu = NULL;
        }
    }
    bw_ctx_free(ctx);
    e->env.gpu = gpu;
}

static void init_env(bw_engine *e, const bw_engine_options *o)
{
    bw_part_env *v = &e->env;
    v->dir = e->parts_dir;
    v->null_sync = o->null_sync;
    v->seal_rows = or_default(o->seal_rows, SEAL_ROWS);
    v->adopt_rows = or_default(o->adopt_rows, (v->seal_rows + 3) / 4);
    v->graph_rows_min =
        v->seal_rows / 2 < GRAPH_ROWS_MIN ? v->seal_rows / 2 : GRAPH_ROWS_MIN;
    if (v->graph_rows_min == 0)
        v->graph_rows_min = 1;
    v->exact_rows = or_default(o->exact_rows, BW_EXACT_ROWS);
    v->graphs_first = o->graphs_first;
    v->gap_rows_min = v->seal_rows < GAP_ROWS_MIN ? v->seal_rows : GAP_ROWS_MIN;
    atomic_init(&v->health.poisoned, false);
    if (o->gpu)
        open_gpu(e);
}

/* ---- reading the catalogue into memory ---- */

static bw_status read_classes(bw_ctx *ctx, bw_engine *e)
{
    bw_catalogue_class *list = NULL;
    size_t n = 0;
    bw_status st = bw_catalogue_classes(ctx, &e->catalogue, &list, &n);
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        bool fresh = false;
        bw_str *text = bw_calloc(1, sizeof *text);
        if (text)
            *text = bw_heap_str(list[i].text);
        uint64_t *slot = text && text->ptr
                             ? bw_map_put(e->classes, list[i].id.bytes, 32, &fresh)
                             : NULL;
        if (!slot || !fresh) {
            if (text)
                bw_free((void *)(uintptr_t)text->ptr);
            bw_free(text);
            return bw_fail_nomem(ctx);
        }
        *slot = (uintptr_t)text;
    }
    return st;
}

static bw_status read_collections(bw_ctx *ctx, bw_engine *e)
{
    bw_collection_info *infos = NULL;
    size_t n = 0;
    bw_status st = bw_catalogue_collections(ctx, &e->catalogue, &infos, &n);
    if (st != BW_OK)
        return st;
    e->collections = bw_calloc(n + 1, sizeof(bw_collection *));
    if (!e->collections)
        return bw_fail_nomem(ctx);
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        bw_collection *c;
        st = bw_collection__new(ctx, e, &infos[i], infos[i].uid, &c);
        if (st == BW_OK)
            e->collections[e->ncollections++] = c;
    }
    return st;
}

static bw_status read_partitions(bw_ctx *ctx, bw_engine *e)
{
    bw_catalogue_partition *list = NULL;
    size_t n = 0;
    bw_status st = bw_catalogue_partitions(ctx, &e->catalogue, &list, &n);
    bw_collection *c = NULL;
    for (size_t i = 0; st == BW_OK && i < n; i++) { /* by uid */
        if (!c || c->uid != list[i].uid)
            c = bw_collection__by_uid(e, list[i].uid);
        if (!c)
            return bw_fail(ctx, BW_ECORRUPT, "store: a partition has no collection");
        bw_partfile_id id = {list[i].number, c->uid, list[i].class_id};
        bw_partition *p;
        st = bw_collection__reserve_parts(ctx, c, 1);
        if (st == BW_OK)
            st = bw_partition_new(ctx, &e->env, &id, c->info.vectors, c->info.nvectors,
                                  &p);
        if (st == BW_OK)
            bw_collection__add_part(c, p);
    }
    return st;
}

static bw_status read_aliases(bw_ctx *ctx, bw_engine *e)
{
    bw_catalogue_alias *list = NULL;
    size_t n = 0;
    bw_status st = bw_catalogue_aliases(ctx, &e->catalogue, &list, &n);
    if (st != BW_OK)
        return st;
    e->aliases = bw_calloc(n + 1, sizeof *e->aliases);
    if (!e->aliases)
        return bw_fail_nomem(ctx);
    for (size_t i = 0; i < n; i++) {
        bw_alias_entry *a = &e->aliases[e->naliases++];
        *a = (bw_alias_entry){bw_heap_str(list[i].tenant), bw_heap_str(list[i].alias),
                              list[i].uid};
        if (!a->tenant.ptr || !a->alias.ptr)
            return bw_fail_nomem(ctx);
    }
    return BW_OK;
}

/* ---- what a crash left ---- */

static bw_status remove_trash(bw_ctx *ctx, bw_engine *e)
{
    uint64_t *numbers = NULL;
    size_t n = 0;
    bw_status st = bw_catalogue_trash(ctx, &e->catalogue, &numbers, &n);
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        st = bw_partition_remove_files(ctx, e->parts_dir, numbers[i]);
        if (st == BW_OK)
            st = bw_catalogue_trash_drop(ctx, &e->catalogue, numbers[i]);
    }
    return st;
}

static bw_status load_number(bw_ctx *ctx, bw_engine *e, uint64_t number)
{
    for (uint32_t i = 0; i < e->ncollections; i++)
        for (uint32_t j = 0; j < e->collections[i]->nparts; j++)
            if (e->collections[i]->parts[j]->id.number == number)
                return bw_collection__load(ctx, e->collections[i],
                                           e->collections[i]->parts[j], false);
    return BW_OK; /* its collection is gone */
}

/* Loading applies what is staged. A damaged file keeps its record and holds up nobody.
 */
static bw_status finish_transactions(bw_ctx *ctx, bw_engine *e)
{
    bw_catalogue_txpart *list = NULL;
    size_t n = 0;
    bw_status st = bw_catalogue_txparts(ctx, &e->catalogue, &list, &n);
    for (size_t i = 0; st == BW_OK && i < n;) {
        bool all = true;
        uint64_t tx = list[i].tx;
        for (; i < n && list[i].tx == tx; i++)
            if (load_number(ctx, e, list[i].number) != BW_OK) {
                bw_log(BW_LOG_ERROR, "engine: a transaction cannot be finished: %s",
                       bw_ctx_message(ctx));
                all = false;
            }
        if (all)
            st = bw_catalogue_tx_drop(ctx, &e->catalogue, tx);
    }
    return st;
}

/* ---- open and close ---- */

static void free_names(bw_engine *e)
{
    for (uint32_t i = 0; i < e->ncollections; i++) {
        bw_collection__unload(e->collections[i]);
        bw_collection__release(e->collections[i]);
    }
    bw_free(e->collections);
    for (uint32_t i = 0; i < e->naliases; i++) {
        bw_free((void *)(uintptr_t)e->aliases[i].tenant.ptr);
        bw_free((void *)(uintptr_t)e->aliases[i].alias.ptr);
    }
    bw_free(e->aliases);
    bw_str key;
    uint64_t *value;
    for (size_t it = 0; e->classes && bw_map_next(e->classes, &it, &key, &value);) {
        bw_str *text = (bw_str *)(uintptr_t)*value;
        bw_free((void *)(uintptr_t)text->ptr);
        bw_free(text);
    }
    bw_map_free(e->classes);
}

/* A file that was not looked through after an unclean start is looked through later. */
static bool all_checked(const bw_engine *e)
{
    for (uint32_t i = 0; i < e->ncollections; i++)
        for (uint32_t j = 0; j < e->collections[i]->nparts; j++)
            if (!e->collections[i]->parts[j]->checked)
                return false;
    return true;
}

static void shut(bw_engine *e, bool opened)
{
    e->catalogue.stay_unclean = e->catalogue.unclean && !(opened && all_checked(e));
    bw_gpu_host_close(e->env.gpu); /* what travels to a device holds matrices */
    e->env.gpu = NULL;
    free_names(e);
    bw_builder_free(e->env.builder);
    bw_pool_clear(&e->env.pool);
    bw_catalogue_close(
        &e->catalogue); /* last: "clean" means that the others are closed */
    pthread_rwlock_destroy(&e->names);
    pthread_mutex_destroy(&e->catalogue_lock);
    if (e->lock_fd >= 0 && close(e->lock_fd) != 0)
        bw_log(BW_LOG_WARN, "engine: the lock file did not close");
    bw_free(e->dir);
    bw_free(e->parts_dir);
    bw_free(e);
}

void bw_engine_close(bw_engine *e)
{
    if (e)
        shut(e, true);
}

static bw_status in_file(bw_ctx *ctx, bw_status st, const char *name)
{
    const char *why = bw_arena_printf(ctx, "%s: %s", name, bw_ctx_message(ctx));
    return why ? bw_fail(ctx, st, "%s", why) : st;
}

static bw_status open_folder(bw_ctx *ctx, bw_engine *e, bool create,
                             unsigned char key[BW_MAC_KEY], bool *fresh)
{
    const char *catalogue = bw_arena_printf(ctx, "%s/catalogue.db", e->dir);
    const char *lock = bw_arena_printf(ctx, "%s/lock", e->dir);
    if (!catalogue || !lock)
        return BW_ENOMEM;
    *fresh = !bw_fs_exists(catalogue);
    if (*fresh && !create)
        return bw_fail(ctx, BW_ENOTFOUND, "the data folder holds no cell");
    /* Numbers would be given out anew, and the files of the old ones overwritten. */
    bool orphans = false;
    bw_status st = *fresh ? bw_fs_any(ctx, e->parts_dir, ".db", &orphans) : BW_OK;
    if (st == BW_OK && orphans)
        st = bw_fail(ctx, BW_ECORRUPT,
                     "the data folder has partitions and no catalogue");
    if (st == BW_OK && create)
        st = bw_fs_mkdir(ctx, e->dir);
    if (st == BW_OK)
        st = bw_fs_lock(ctx, lock, &e->lock_fd);
    if (st == BW_OK)
        st = bw_fs_mkdir(ctx, e->parts_dir);
    return st == BW_OK ? cell_key(ctx, e->dir, *fresh, key) : st;
}

static bw_status read_all(bw_ctx *ctx, bw_engine *e)
{
    bw_status st = read_classes(ctx, e);
    if (st == BW_OK)
        st = read_collections(ctx, e);
    if (st == BW_OK)
        st = read_partitions(ctx, e);
    if (st == BW_OK)
        st = read_aliases(ctx, e);
    if (st == BW_OK)
        st = remove_trash(ctx, e);
    return st == BW_OK ? finish_transactions(ctx, e) : st;
}

bw_status bw_engine_open(bw_ctx *ctx, const char *dir, const bw_engine_options *options,
                         bw_engine **out)
{
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    if (options)
        o = *options;
    if (o.version != 1)
        return bw_fail(ctx, BW_EINVALID, "unknown version of the engine's options");
    bw_memory_start();
    if (sodium_init() < 0)
        return bw_fail(ctx, BW_EINTERNAL, "libsodium cannot start");
    bw_engine *e = bw_calloc(1, sizeof *e);
    if (!e)
        return bw_fail_nomem(ctx);
    unsigned char key[BW_MAC_KEY];
    bool fresh = false;
    e->lock_fd = -1;
    pthread_mutex_init(&e->catalogue_lock, NULL);
    bw_rwlock_init(&e->names);
    atomic_init(&e->class_lists, 0);
    bw_pool_init(&e->env.pool, or_default(o.open_partitions_max, OPEN_MAX));
    e->dir = heap_path(dir, "");
    e->parts_dir = heap_path(dir, "/p");
    e->classes = bw_map_new();
    bw_status st = e->dir && e->parts_dir && e->classes ? BW_OK : bw_fail_nomem(ctx);
    if (st == BW_OK)
        st = open_folder(ctx, e, o.create, key, &fresh);
    if (st == BW_OK) {
        init_env(e, &o);
        st = bw_catalogue_open(ctx, e->dir, fresh, o.null_sync, &e->env.health,
                               &e->catalogue);
        if (st != BW_OK)
            st = in_file(ctx, st, "catalogue.db");
    }
    if (st == BW_OK) {
        e->env.check = e->catalogue.unclean;
        e->env.builder = bw_builder_new(
            e->parts_dir, key,
            o.block_cache_bytes ? (size_t)o.block_cache_bytes : CACHE_BYTES,
            o.vector_bytes);
        st = e->env.builder ? read_all(ctx, e) : bw_fail_nomem(ctx);
    }
    sodium_memzero(key, sizeof key);
    if (st != BW_OK) {
        shut(e, false); /* not every partition may be known: nothing says "checked" */
        return st;
    }
    *out = e;
    return BW_OK;
}
