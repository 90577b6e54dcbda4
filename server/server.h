/* The cell's server as its own files see it. Private to server/.
 *
 * Everything here is set before the first request and immutable afterwards, but for
 * what locks inside (engine, authority, keys, audit) and the fields under a named lock.
 */
#ifndef BW_SERVER_H
#define BW_SERVER_H
#include "../engine/base/map.h"
#include "archive.h"
#include "audit.h"
#include "config.h"
#include "http.h"
#include "keys.h"
#include <pthread.h>
#include <stdatomic.h>

enum { BW_POLICIES_BYTES_MAX = 4 << 20, BW_PACK_BYTES_MAX = 64 << 20 };

typedef struct bw_counters { /* relaxed: figures for the operator, nothing depends on
                                them */
    _Atomic uint64_t requests, bytes_in, bytes_out, refused_key, refused_framing,
        refused_busy, reaped, answered_brief;
    _Atomic uint64_t by_class[6]; /* answers by status / 100 */
    _Atomic uint64_t denied, audit_failures;
    _Atomic int64_t connections;
} bw_counters;

struct bw_server {
    bw_config config;
    bw_ctx
        *home; /* holds the configuration's strings; nobody allocates from it later */
    char *dir;
    int lock_fd; /* DIR/lock: one process serves or changes the folder */
    bw_engine *engine;
    bw_catalogue *catalogue;
    bw_authority
        *authority; /* NULL with --dev: one open principal, one built-in class */
    struct bw_encoder *encoder;
    struct bw_rules *rules; /* NULL with --dev */
    bw_keys *keys; /* NULL with --dev */
    bw_audit *audit;
    bw_register *classes; /* what the log's classes mean; NULL with --dev */
    unsigned char *subject_secret; /* keys the hashes of data subjects' ids */
    bw_counters counters;
    const bw_route *tables[5];
    /* --dev */
    bw_class_id dev_class;
    bw_str dev_labels;
    bw_caller dev_caller;
    /* policies in force */
    pthread_mutex_t policy_change; /* one change at a time; taken before policy_lock */
    pthread_rwlock_t policy_lock;  /* guards the three below, and that the authority's
                                      version and the digests are of one set */
    char policy_digest[BW_DIGEST_TEXT + 1];
    char facts_digest[BW_DIGEST_TEXT + 1]; /* of what they are in force with */
    int64_t policy_since_ns;
    /* label texts of classes; a class's text never changes */
    pthread_rwlock_t class_lock; /* guards class_texts; innermost */
    bw_map *class_texts;         /* class id -> heap bw_str */
    _Atomic bool stopping;
};

/* Opens the data folder: lock, secrets, keys, audit, policies, engine, encoder. The
 * folder must have been made by `init` (or, with --dev, be new or made with --dev). */
/* Shrinks connections and open partitions to the descriptors that may be had
 * (descriptors.c). */
BW_MUST_USE bw_status bw_descriptors_fit(bw_ctx *ctx, bw_config *config);
/* Connections above the limit, an I/O thread, that get their 503. */
uint64_t bw_conn_slack(const bw_config *config);
uint64_t bw_io_threads(const bw_config *config); /* as configured, or by the processors */

BW_MUST_USE bw_status bw_server_open(bw_ctx *ctx, const bw_config *config, bw_ctx *home,
                                     bw_server **out);
void bw_server_close(bw_server *s); /* NULL is accepted; no request may be running */

/* Shared with `init` and `key`: the folder's lock and marker. */
BW_MUST_USE bw_status bw_folder_lock(bw_ctx *ctx, const char *dir,
                                     int *fd); /* BW_EUNAVAILABLE: in use */
BW_MUST_USE bw_status bw_folder_mark(bw_ctx *ctx, const char *dir, bool dev);
BW_MUST_USE bw_status bw_folder_check(bw_ctx *ctx, const char *dir,
                                      bool dev); /* BW_ENOTFOUND: not made yet */

/* What is in force, all at one moment; texts in ctx's arena (in_force.c). */
typedef struct bw_in_force_view {
    bw_str policies, entities; /* entities: the operator's list, or none (len 0) */
    bw_authority_state state;
    char facts[BW_DIGEST_TEXT + 1];
    int64_t policies_since_ns;
} bw_in_force_view;
BW_MUST_USE bw_status bw_in_force_get(bw_ctx *ctx, bw_server *s, bw_in_force_view *out);
/* A change is checked, durable, then in force, then logged; else nothing has changed.
 * if_digest: none, or the digest that must still be in force (else BW_ECONFLICT); compared
 * under the same lock as the change is made. */
BW_MUST_USE bw_status bw_server_policies_put(bw_ctx *ctx, bw_server *s, bw_str text,
                                             bw_str if_digest);
BW_MUST_USE bw_status bw_server_entities_put(bw_ctx *ctx, bw_server *s, bw_str text,
                                             bw_str if_digest);
/* Before anything else runs: the set that the cell starts with. */
void bw_in_force__note(bw_server *s, bw_str policies);
/* Logs what is in force from now on: version numbers start anew with the process,
 * digests do not. */
BW_MUST_USE bw_status bw_in_force__event(bw_ctx *ctx, bw_server *s, const char *event);
/* Keeps the facts in force with other entities (none: len 0) for the log, before they come
 * into force: the digest goes into facts_digest together with the new version. Caller
 * holds policy_change. */
BW_MUST_USE bw_status bw_server_facts_keep(bw_ctx *ctx, const bw_server *s, bw_str entities,
                                           char digest[BW_DIGEST_TEXT + 1]);
/* The schema, the set that a cell starts with (eu-baseline) and the catalogue of a folder
 * of packs; see policies/packs. */
typedef struct bw_pack {
    bw_str schema, policies, catalogue;
    bw_str overlay; /* the operator's rows over the catalogue, or none (bw_facts_open) */
} bw_pack;
BW_MUST_USE bw_status bw_pack_read(bw_ctx *ctx, const char *folder, bw_pack *out);
/* The packs and sets of these names in that folder, as one text (bw_pack_compose). */
BW_MUST_USE bw_status bw_pack_compose_in(bw_ctx *ctx, const char *folder,
                                         const bw_str *names, size_t n, bw_str *out);
/* The pack, the catalogue with the operator's own merged over it, the operator's
 * entities: as `serve` reads them, for the commands. dir: the data folder, or NULL =
 * only what is named. */
BW_MUST_USE bw_status bw_facts_open(bw_ctx *ctx, const bw_config *c, const char *dir,
                                    bw_pack *pack, bw_catalogue **catalogue,
                                    bw_str *entities);
const char *bw_pack_folder(bw_ctx *ctx,
                           const bw_config *c); /* NULL: none is installed */
#endif
