/* Inside of engine/: the cell, its collections, and the locks between them.
 *
 * Lock order (take from left to right only):
 *   collection.write > partition.db_lock (by rising class) > engine.catalogue_lock >
 *   engine.names > collection.view > pool.lock, builder's lock
 * collection.write  one writer at a time; held over a whole bw_write
 * partition.db_lock the file, and reading text from it
 * catalogue_lock    the catalogue's connection
 * names             the copy of the catalogue in memory, and every collection's
 *                   settings, labels, indexes and list of partitions
 * view              which snapshots are current: shared by readers while they take all
 *                   of theirs, exclusive while a write publishes all of its */
#ifndef BW_ENGINE_IMPL_H
#define BW_ENGINE_IMPL_H
#include "base/map.h"
#include "partition/part.h"
#include "store/catalogue.h"

typedef struct bw_collection {
    atomic_uint refs;
    struct bw_engine *engine; /* borrowed */
    uint64_t uid;
    bw_collection_info info; /* heap copies; names lock */
    pthread_mutex_t write;
    pthread_rwlock_t view;
    bw_partition **parts; /* sorted by class; names lock to change and to read */
    bw_class_id *part_ids; /* of those, side by side: a look-up touches no partition */
    uint32_t nparts, parts_cap;
    uint64_t classes_version; /* of that list; names lock */
    bool dropped;             /* names lock */
} bw_collection;

typedef struct bw_alias_entry {
    bw_str tenant, alias; /* heap */
    uint64_t uid;
} bw_alias_entry;

struct bw_engine {
    char *dir, *parts_dir;
    int lock_fd;
    bw_part_env env;
    pthread_mutex_t catalogue_lock;
    bw_catalogue catalogue;
    pthread_rwlock_t names;
    bw_collection **collections; /* by rising uid */
    uint32_t ncollections;
    bw_alias_entry *aliases; /* sorted by (tenant, alias) */
    uint32_t naliases;
    bw_map *classes; /* 32 bytes -> heap bw_str* */
    atomic_ullong class_lists; /* versions given out to lists of classes */
};

/* A counted reference; alias names are followed. BW_ENOTFOUND. */
BW_MUST_USE bw_status bw_collection__find(bw_ctx *ctx, bw_engine *e, bw_str tenant,
                                          bw_str name, bw_collection **out);
void bw_collection__release(bw_collection *c);
/* Not an alias; names lock held; NULL if there is none. */
bw_collection *bw_collection__named(bw_engine *e, bw_str tenant, bw_str name);
bw_collection *bw_collection__by_uid(bw_engine *e, uint64_t uid);
bw_alias_entry *bw_alias__named(bw_engine *e, bw_str tenant, bw_str alias);
/* A copy in ctx's arena; names lock held. */
BW_MUST_USE bw_status bw_collection__copy_info(bw_ctx *ctx, const bw_collection *c,
                                               bw_collection_info *out);
bw_partition *bw_collection__part(const bw_collection *c,
                                  const bw_class_id *id); /* names lock */

/* Makes a collection in memory from what the catalogue says. */
BW_MUST_USE bw_status bw_collection__new(bw_ctx *ctx, bw_engine *e,
                                         const bw_collection_info *info, uint64_t uid,
                                         bw_collection **out);
/* Room for n more, so that a partition that is in the catalogue gets into the list. */
BW_MUST_USE bw_status bw_collection__reserve_parts(bw_ctx *ctx, bw_collection *c,
                                                   uint32_t n);
void bw_collection__add_part(bw_collection *c, bw_partition *p); /* takes it over */
/* Loads the partition if it is not, or (reload) if its file is behind. */
BW_MUST_USE bw_status bw_collection__load(bw_ctx *ctx, bw_collection *c,
                                          bw_partition *p, bool reload);
/* bw_view_open of a collection at hand; reload: files that are behind are read again
 * (writers only). */
BW_MUST_USE bw_status bw_collection__view(bw_ctx *ctx, bw_collection *c,
                                          const bw_permit *permit, int64_t now_ns,
                                          bool reload, bw_view *out);
/* Forgets what is in memory; nobody uses the collection. */
void bw_collection__unload(bw_collection *c);

/* commit.c: all partitions' changes as one transaction; c->write is held. */
typedef struct bw_part_write {
    bw_partition *part;
    bw_snapshot *cur; /* borrowed from the writer's view */
    bw_changes changes;
} bw_part_write;
BW_MUST_USE bw_status bw_collection__commit(bw_ctx *ctx, bw_collection *c,
                                            bw_part_write *writes, uint32_t n);
/* Files of classes that have none yet; the new partitions are empty, loaded and listed.
 */
BW_MUST_USE bw_status bw_collection__create_parts(bw_ctx *ctx, bw_collection *c,
                                                  const bw_class_id *ids, uint32_t n);

/* indexes.c: heap copies of what describes a payload index. false: no memory; to is to be
 * freed all the same. */
bool bw_index__copy(const bw_index_spec *from, bw_index_spec *to);
void bw_indexes__free(const bw_index_spec *list, uint32_t n); /* the list too */

bw_str bw_heap_str(
    bw_str in); /* a heap copy; none stays none; ptr NULL with len > 0: no memory */
#endif
