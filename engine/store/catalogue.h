/* The cell's catalogue file: `catalogue.db`.
 *
 * SQLite, application_id 0x42774331 ("BwC1"), user_version = BW_CATALOGUE_VERSION:
 *   meta(name, value)   clean: 1 after an orderly close, 0 while the cell runs
 *   collection(uid, tenant, name, settings, labels)
 *   vector(uid, place, name, dim, metric, sparse, idf, dtype, on_disk, kind, m, ef)
 *                        place: from 0, never changes; the last five came with version 2:
 *                        a file of version 1 gets them, all 0, when it is opened
 *   pindex(uid, field, type, params)                     payload indexes
 *   alias(tenant, alias, uid)
 *   class(id, text)      the class's 32 bytes and its canonical label text
 *   partition(number, uid, class)   number names the file p/<number>.db; a row appears
 *                        only after its file is complete and synced
 *   tx(id), txpart(id, number)      transactions over several partitions that are
 *                        committed and not yet applied in every file. Ids are random,
 * so that rows staged under an id without a record never match a later one
 *   trash(number)        files to remove: the collection is gone, the files may not be
 * uid and number come from AUTOINCREMENT and are never used again.
 *
 * Thread class: one thread at a time (the engine's catalogue lock). */
#ifndef BW_STORE_CATALOGUE_H
#define BW_STORE_CATALOGUE_H
#include "sql.h"
#include <bailiwick/engine.h>

enum { BW_CATALOGUE_APP = 0x42774331, BW_CATALOGUE_VERSION = 2 };

typedef struct bw_catalogue {
    bw_db *db;
    bool unclean;      /* the last run did not close in order */
    bool stay_unclean; /* the next start must check the files too */
} bw_catalogue;

typedef struct bw_catalogue_partition {
    uint64_t number, uid;
    bw_class_id class_id;
} bw_catalogue_partition;
typedef struct bw_catalogue_alias {
    bw_str tenant, alias;
    uint64_t uid;
} bw_catalogue_alias;
typedef struct bw_catalogue_class {
    bw_class_id id;
    bw_str text;
} bw_catalogue_class;
typedef struct bw_catalogue_txpart {
    uint64_t tx, number;
} bw_catalogue_txpart;

BW_MUST_USE bw_status bw_catalogue_open(bw_ctx *ctx, const char *dir, bool create,
                                        bool null_sync, bw_health *health,
                                        bw_catalogue *out);
void bw_catalogue_close(bw_catalogue *c);

/* Everything, each list in ctx's arena. Collections with vectors and indexes, by uid.
 */
BW_MUST_USE bw_status bw_catalogue_collections(bw_ctx *ctx, bw_catalogue *c,
                                               bw_collection_info **out, size_t *n);
BW_MUST_USE bw_status bw_catalogue_aliases(bw_ctx *ctx, bw_catalogue *c,
                                           bw_catalogue_alias **out, size_t *n);
BW_MUST_USE bw_status bw_catalogue_classes(bw_ctx *ctx, bw_catalogue *c,
                                           bw_catalogue_class **out, size_t *n);
BW_MUST_USE bw_status bw_catalogue_partitions(bw_ctx *ctx, bw_catalogue *c,
                                              bw_catalogue_partition **out, size_t *n);
BW_MUST_USE bw_status bw_catalogue_txparts(bw_ctx *ctx, bw_catalogue *c,
                                           bw_catalogue_txpart **out, size_t *n);
BW_MUST_USE bw_status bw_catalogue_trash(bw_ctx *ctx, bw_catalogue *c, uint64_t **out,
                                         size_t *n);
BW_MUST_USE bw_status bw_catalogue_next_number(bw_ctx *ctx, bw_catalogue *c,
                                               uint64_t *out);

/* Each is one transaction, durable on BW_OK. */
BW_MUST_USE bw_status bw_catalogue_collection_add(bw_ctx *ctx, bw_catalogue *c,
                                                  const bw_collection_info *info,
                                                  uint64_t *uid);
/* The collection's partitions move to the trash. */
BW_MUST_USE bw_status bw_catalogue_collection_drop(bw_ctx *ctx, bw_catalogue *c,
                                                   uint64_t uid);
BW_MUST_USE bw_status bw_catalogue_collection_set(bw_ctx *ctx, bw_catalogue *c,
                                                  uint64_t uid, bw_str settings,
                                                  bw_str labels);
BW_MUST_USE bw_status bw_catalogue_index_put(bw_ctx *ctx, bw_catalogue *c, uint64_t uid,
                                             const bw_index_spec *spec);
BW_MUST_USE bw_status bw_catalogue_index_drop(bw_ctx *ctx, bw_catalogue *c,
                                              uint64_t uid, bw_str field);
/* Replaces all aliases of a tenant. */
BW_MUST_USE bw_status bw_catalogue_aliases_set(bw_ctx *ctx, bw_catalogue *c,
                                               bw_str tenant,
                                               const bw_catalogue_alias *list,
                                               size_t n);
BW_MUST_USE bw_status bw_catalogue_class_add(bw_ctx *ctx, bw_catalogue *c,
                                             const bw_class_id *id, bw_str text);
BW_MUST_USE bw_status bw_catalogue_partition_add(bw_ctx *ctx, bw_catalogue *c,
                                                 const bw_catalogue_partition *p,
                                                 size_t n);
BW_MUST_USE bw_status bw_catalogue_tx_add(bw_ctx *ctx, bw_catalogue *c, uint64_t tx,
                                          const uint64_t *numbers, size_t n);
BW_MUST_USE bw_status bw_catalogue_tx_drop(bw_ctx *ctx, bw_catalogue *c, uint64_t tx);
BW_MUST_USE bw_status bw_catalogue_trash_drop(bw_ctx *ctx, bw_catalogue *c,
                                              uint64_t number);
#endif
