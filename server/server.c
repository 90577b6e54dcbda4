/* Opens and closes a cell's data folder, holds its parts together, changes policies.
 *
 * DIR/cell.json            {"format":1,"dev":bool}; made by init, or by serve --dev
 * DIR/lock                 flock: one process at a time
 * DIR/bailiwick.conf       the configuration (init writes it; --config may name
 * another) DIR/secrets/keys         see keys.c          DIR/keys.json
 * DIR/secrets/subjects     keys the hashes of data subjects' ids
 * DIR/policies.cedar       the policy set in force; policies/DIGEST.cedar every one
 * that was; entities, catalogue, schema and facts likewise (archive.h)
 * DIR/entities.json, DIR/catalogue.json   the operator's own, optional
 * DIR/engine/              collections and points (engine/)
 * DIR/audit/               the log (audit.c)
 *
 * Opened in that order, closed in reverse. */
#include "server.h"
#include "../engine/index/cuvs.h"
#include "../ingest/encoder.h"
#include "../policies/pack_set.h"
#include "files.h"
#include "labelling.h"
#include "secrets.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#define DEV_LABELS                                                           \
    "{\"tenant\":\"dev\",\"regimes\":[],\"residency\":[],\"sensitivity\":0," \
    "\"categories\":[],"                                                     \
    "\"labels\":[\"dev\"],\"purposes\":[],\"legal_hold\":false}"

/* ---- the folder ---- */

bw_status bw_folder_lock(bw_ctx *ctx, const char *dir, int *out)
{
    const char *path = bw_path_join(ctx, dir, "lock");
    if (!path)
        return bw_fail_nomem(ctx);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return bw_fail_errno(ctx, path, errno);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        (void)close(fd);
        return bw_fail(ctx, BW_EUNAVAILABLE,
                       "the data folder is in use by another process");
    }
    *out = fd;
    return BW_OK;
}

bw_status bw_folder_mark(bw_ctx *ctx, const char *dir, bool dev)
{
    const char *path = bw_path_join(ctx, dir, "cell.json");
    if (!path)
        return bw_fail_nomem(ctx);
    return bw_file_replace(ctx, path,
                           dev ? BW_STR("{\"format\":1,\"dev\":true}\n")
                               : BW_STR("{\"format\":1,\"dev\":false}\n"),
                           0600);
}

bw_status bw_folder_check(bw_ctx *ctx, const char *dir, bool dev)
{
    bw_str text;
    bw_json *root;
    uint64_t format;
    const char *path = bw_path_join(ctx, dir, "cell.json");
    if (!path)
        return bw_fail_nomem(ctx);
    bw_status s = bw_file_read(ctx, path, 4096, &text);
    if (s == BW_ENOTFOUND)
        return bw_fail(ctx, BW_ENOTFOUND, "%s is no data folder: run `bailiwick init`",
                       dir);
    if (s == BW_OK)
        s = bw_json_parse(ctx, text, BW_JSON_REQUEST, &root);
    if (s != BW_OK)
        return bw_fail(ctx, s, "%s is damaged", path);
    if (!bw_json_u64(bw_json_get(root, "format"), &format) || format != 1)
        return bw_fail(ctx, BW_ECORRUPT,
                       "the data folder has a format that this version does not know");
    const bw_json *made = bw_json_get(root, "dev");
    bool made_dev = made && made->kind == BW_JSON_TRUE;
    if (dev && !made_dev)
        return bw_fail(ctx, BW_EINVALID,
                       "the data folder was not made with --dev: it is not opened so");
    if (!dev && made_dev)
        return bw_fail(ctx, BW_EINVALID,
                       "the data folder was made with --dev: it serves --dev only");
    return BW_OK;
}

/* ---- packs and policies ---- */

/* PREFIX/bin/bailiwick -> PREFIX/share/bailiwick/packs, for a tree installed elsewhere
 * than it was configured for (up 2), or packs beside the program: a build folder's link
 * to the source's (up 1). NULL when the program's place is unknown. */
static const char *beside_program(bw_ctx *ctx, int up, const char *folder)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0 || (size_t)n >= sizeof path - 1)
        return NULL;
    path[n] = '\0';
    while (up-- > 0) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return NULL;
        *slash = '\0';
    }
    return bw_arena_printf(ctx, "%s/%s", path, folder);
}

const char *bw_pack_folder(bw_ctx *ctx, const bw_config *c)
{
    if (c->packs_folder.len > 0)
        return bw_arena_cstr(ctx, c->packs_folder);
    const char *places[] = {beside_program(ctx, 2, "share/bailiwick/packs"),
                            BW_PACKS_INSTALLED, beside_program(ctx, 1, "packs")};
    for (size_t i = 0; i < 3; i++) {
        const char *schema =
            places[i] ? bw_path_join(ctx, places[i], "bw.cedarschema") : NULL;
        if (schema && bw_file_exists(schema))
            return places[i];
    }
    return NULL;
}

static bw_status read_in(bw_ctx *ctx, const char *folder, const char *name, bw_str *out)
{
    const char *path = bw_path_join(ctx, folder, name);
    return path ? bw_file_read(ctx, path, BW_PACK_BYTES_MAX, out) : bw_fail_nomem(ctx);
}

static bw_status pack_file(void *folder, bw_ctx *ctx, const char *file, bw_str *out)
{
    return read_in(ctx, folder, file, out);
}

bw_status bw_pack_compose_in(bw_ctx *ctx, const char *folder, const bw_str *names,
                             size_t n, bw_str *out)
{
    bw_pack_source source = {pack_file, (void *)folder};
    return bw_pack_compose(ctx, &source, names, n, out);
}

bw_status bw_pack_read(bw_ctx *ctx, const char *folder, bw_pack *out)
{
    static const bw_str first = {"eu-baseline", 11};
    if (!folder)
        return bw_fail(ctx, BW_ENOTFOUND,
                       "no policy pack is installed; set policies.packs");
    bw_status s = read_in(ctx, folder, "bw.cedarschema", &out->schema);
    if (s == BW_OK)
        s = bw_pack_compose_in(ctx, folder, &first, 1, &out->policies);
    if (s == BW_OK)
        s = read_in(ctx, folder, "catalogue.json", &out->catalogue);
    return s;
}

/* ---- opening ---- */

static bw_status optional_file(bw_ctx *ctx, const char *dir, bw_str named,
                               const char *usual, bw_str *out)
{
    const char *path = NULL;
    *out = (bw_str){NULL, 0};
    if (named.len == 0 && !dir)
        return BW_OK;
    path = named.len > 0 ? bw_arena_cstr(ctx, named) : bw_path_join(ctx, dir, usual);
    if (!path)
        return bw_fail_nomem(ctx);
    bw_status st = bw_file_read(ctx, path, BW_PACK_BYTES_MAX, out);
    return st == BW_ENOTFOUND && named.len == 0 ? BW_OK : st;
}

/* A fault that is not the shipped catalogue's gets the name of the operator's file. */
static bw_status name_overlay(bw_ctx *ctx, const bw_config *c, const bw_pack *pack)
{
    bw_catalogue *shipped = NULL;
    bw_str file = c->catalogue_file.len ? c->catalogue_file : BW_STR("catalogue.json");
    const char *at = bw_arena_printf(ctx, "%s", bw_ctx_pointer(ctx));
    const char *why = bw_arena_printf(ctx, "%s", bw_ctx_message(ctx));
    if (!at || !why)
        return bw_fail_nomem(ctx);
    bw_status s = bw_catalogue_parse(ctx, pack->catalogue, (bw_str){NULL, 0}, &shipped);
    bw_catalogue_free(shipped);
    return s ? s
             : bw_fail_at(ctx, BW_EINVALID, at, "%.*s: %s", (int)file.len, file.ptr,
                          why);
}

bw_status bw_facts_open(bw_ctx *ctx, const bw_config *c, const char *dir, bw_pack *pack,
                        bw_catalogue **catalogue, bw_str *entities)
{
    bw_status s = bw_pack_read(ctx, bw_pack_folder(ctx, c), pack);
    if (s == BW_OK)
        s = optional_file(ctx, dir, c->catalogue_file, "catalogue.json",
                          &pack->overlay);
    if (s == BW_OK)
        s = optional_file(ctx, dir, c->entities_file, "entities.json", entities);
    if (s == BW_OK)
        s = bw_catalogue_parse(ctx, pack->catalogue, pack->overlay, catalogue);
    return s == BW_EINVALID && pack->overlay.ptr ? name_overlay(ctx, c, pack) : s;
}

static bool holds_sets(const char *folder)
{
    bool found = false;
    DIR *d = opendir(folder);
    if (!d)
        return false;
    for (struct dirent *e; !found && (e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name);
        found = n > 6 && memcmp(e->d_name + n - 6, ".cedar", 6) == 0;
    }
    (void)closedir(d);
    return found;
}

/* A file that lost its end can still be a policy set: one without its last
 * prohibitions. So a set serves only if it was accepted as a whole before, or is the
 * first. */
static bw_status policy_known(bw_ctx *ctx, const bw_server *s, bw_str text)
{
    char hex[BW_DIGEST_TEXT + 1];
    bw_archive_digest(text, hex);
    const char *folder = bw_path_join(ctx, s->dir, "policies");
    const char *path = bw_arena_printf(ctx, "%s/policies/%s.cedar", s->dir, hex);
    if (!folder || !path)
        return bw_fail_nomem(ctx);
    if (bw_file_exists(path) || !holds_sets(folder))
        return BW_OK;
    return bw_fail(
        ctx, BW_ECORRUPT,
        "policies.cedar is no set that was put in force: it is damaged or was "
        "changed by hand; copy one back from %s",
        folder);
}

static bw_status open_policies(bw_ctx *ctx, bw_server *s)
{
    bw_pack pack;
    bw_str entities, policies;
    bw_status st =
        bw_facts_open(ctx, &s->config, s->dir, &pack, &s->catalogue, &entities);
    if (st == BW_OK)
        st = read_in(ctx, s->dir, "policies.cedar", &policies);
    if (st == BW_OK)
        st = policy_known(ctx, s, policies);
    if (st != BW_OK)
        return st;
    if (!bw_catalogue_has_country(s->catalogue, s->config.cell_country))
        return bw_fail(ctx, BW_EINVALID, "cell.country is not in the catalogue");
    bw_authority_options o = {.schema = pack.schema,
                              .policies = policies,
                              .entities = entities,
                              .catalogue = s->catalogue};
    bw_config_place(&s->config, &o.at);
    st = bw_authority_new(ctx, &o, &s->authority);
    if (st != BW_OK)
        return st;
    bw_in_force__note(s, policies);
    st = bw_archive_keep(ctx, s->dir, BW_ARCHIVE_POLICIES, policies, NULL);
    if (st == BW_OK)
        st = bw_facts_keep(ctx, s->dir,
                           &(bw_facts){.schema = pack.schema,
                                       .catalogue = pack.catalogue,
                                       .overlay = pack.overlay,
                                       .entities = entities,
                                       .cell = o.at},
                           s->facts_digest);
    return st == BW_OK ? bw_in_force__event(ctx, s, "start") : st;
}

static bw_status open_dev(bw_ctx *ctx, bw_server *s)
{
    s->dev_labels = BW_STR(DEV_LABELS);
    bw_require(crypto_generichash(s->dev_class.bytes, sizeof s->dev_class.bytes,
                                  (const unsigned char *)s->dev_labels.ptr,
                                  s->dev_labels.len, NULL, 0) == 0);
    s->dev_caller = (bw_caller){.principal = {.id = BW_STR("dev"),
                                              .tenant = BW_STR("dev"),
                                              .seat = BW_STR(""),
                                              .clearance = 5},
                                .key_id = BW_STR(""),
                                .purpose = BW_STR(""),
                                .open = true};
    return bw_class_put(ctx, s->engine, &s->dev_class, s->dev_labels);
}

/* Before anything is written to it: --dev takes a folder that it made, or one with
 * nothing in it but what a start that was broken off may have left. */
static bw_status dev_folder_check(bw_ctx *ctx, const char *dir)
{
    static const char *const ours[] = {".", "..", "lock", "secrets", "cell.json.new"};
    const char *marker = bw_path_join(ctx, dir, "cell.json");
    if (!marker)
        return bw_fail_nomem(ctx);
    if (bw_file_exists(marker))
        return bw_folder_check(ctx, dir, true);
    bool foreign = false;
    DIR *d = opendir(dir);
    if (!d)
        return bw_fail_errno(ctx, dir, errno);
    for (struct dirent *e; !foreign && (e = readdir(d)) != NULL;) {
        foreign = true;
        for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
            if (strcmp(e->d_name, ours[i]) == 0)
                foreign = false;
    }
    (void)closedir(d);
    return foreign ? bw_fail(ctx, BW_EINVALID,
                             "the data folder was not made with --dev: it is not "
                             "opened so")
                   : BW_OK;
}

static bw_status open_folder(bw_ctx *ctx, bw_server *s)
{
    const bw_config *c = &s->config;
    bw_status st = c->dev ? bw_dir_make(ctx, s->dir) : BW_OK;
    if (st == BW_OK && c->dev)
        st = dev_folder_check(ctx, s->dir);
    if (st == BW_OK && !c->dev)
        st = bw_folder_check(ctx, s->dir, false);
    if (st == BW_OK)
        st = bw_folder_lock(ctx, s->dir, &s->lock_fd);
    if (st != BW_OK || !c->dev)
        return st;
    const char *marker = bw_path_join(ctx, s->dir, "cell.json");
    if (!marker)
        return bw_fail_nomem(ctx);
    if (bw_file_exists(marker))
        return BW_OK;
    st = bw_secret_create(ctx, s->dir, "subjects");
    return st == BW_OK || st == BW_EEXISTS ? bw_folder_mark(ctx, s->dir, true) : st;
}

static bw_status refuse_lost_log(bw_ctx *ctx, bw_server *s)
{
    bw_engine_figures all;
    bw_engine_figures_get(s->engine, &all);
    if (all.collections == 0)
        return BW_OK;
    return bw_fail(
        ctx, BW_ECORRUPT,
        "the audit log in %s/audit is empty, and collections are there: keep "
        "at least its last file",
        s->dir);
}

static bw_status open_engine(bw_ctx *ctx, bw_server *s)
{
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    uint64_t seq;
    uint8_t head[BW_AUDIT_HASH];
    const char *dir = bw_path_join(ctx, s->dir, "engine");
    const char *catalogue = bw_path_join(ctx, s->dir, "engine/catalogue.db");
    if (!dir || !catalogue)
        return bw_fail_nomem(ctx);
    /* The log has no event from before the engine's first start. */
    bw_audit_head(s->audit, &seq, head);
    if (seq > 0 && !bw_file_exists(catalogue))
        return bw_fail(ctx, BW_ECORRUPT, "%s is missing, and the log tells of requests",
                       catalogue);
    /* No collection is made before its event is in the log. */
    bool empty_log = seq == 0 && bw_file_exists(catalogue);
    o.open_partitions_max = (uint32_t)s->config.open_partitions;
    o.seal_rows = (uint32_t)s->config.seal_rows;
    o.vector_bytes = s->config.vector_bytes;
    o.gpu = bw_str_is(s->config.gpu, "auto");
    bw_cuvs_switch(o.gpu);
    o.exact_rows = (uint32_t)s->config.exact_rows;
    bw_status st = bw_engine_open(ctx, dir, &o, &s->engine);
    return st == BW_OK && empty_log ? refuse_lost_log(ctx, s) : st;
}

static bw_status open_parts(bw_ctx *ctx, bw_server *s)
{
    const char *audit = bw_path_join(ctx, s->dir, "audit");
    bw_status st = audit ? open_folder(ctx, s) : bw_fail_nomem(ctx);
    if (st == BW_OK)
        st = bw_secret_open(ctx, s->dir, "subjects", &s->subject_secret);
    if (st == BW_OK && !s->config.dev)
        st = bw_keys_open(ctx, s->dir, &s->keys);
    if (st == BW_OK)
        st = bw_audit_open(ctx, audit, s->config.audit_segment_bytes, &s->audit);
    if (st == BW_OK)
        st = open_engine(ctx, s);
    if (st == BW_OK && !s->config.dev)
        st = bw_register_open(ctx, audit, &s->classes);
    if (st == BW_OK)
        st = s->config.dev ? open_dev(ctx, s) : open_policies(ctx, s);
    if (st == BW_OK && !s->config.dev)
        st = bw_labelling_rules(ctx, &s->config, s->catalogue, &s->rules);
    if (st == BW_OK && s->config.model_folder.len > 0) {
        const char *folder = bw_arena_cstr(ctx, s->config.model_folder);
        st = folder ? bw_encoder_open(ctx, folder, &s->encoder) : bw_fail_nomem(ctx);
    }
    return st;
}

bw_status bw_server_open(bw_ctx *ctx, const bw_config *config, bw_ctx *home,
                         bw_server **out)
{
    bw_server *s = bw_calloc(1, sizeof *s);
    if (!s)
        return bw_fail_nomem(ctx);
    s->config = *config;
    s->home = home;
    s->lock_fd = -1;
    bw_require(pthread_mutex_init(&s->policy_change, NULL) == 0 &&
               pthread_rwlock_init(&s->policy_lock, NULL) == 0 &&
               pthread_rwlock_init(&s->class_lock, NULL) == 0);
    s->class_texts = bw_map_new();
    s->dir = bw_alloc(config->data_folder.len + 1);
    bw_status st = s->class_texts && s->dir ? BW_OK : bw_fail_nomem(ctx);
    if (st == BW_OK) {
        memcpy(s->dir, config->data_folder.ptr, config->data_folder.len);
        s->dir[config->data_folder.len] = '\0';
        s->tables[0] = bw_routes_qdrant;
        s->tables[1] = bw_routes_v1;
        s->tables[2] = bw_routes_ingest;
        s->tables[3] = bw_routes_mcp;
        st = bw_descriptors_fit(ctx, &s->config);
        if (st == BW_OK)
            st = open_parts(ctx, s);
    }
    if (st == BW_OK)
        *out = s;
    else
        bw_server_close(s);
    return st;
}

void bw_server_close(bw_server *s)
{
    bw_str key;
    uint64_t *value;
    if (!s)
        return;
    bw_encoder_close(s->encoder);
    bw_rules_free(s->rules);
    bw_engine_close(s->engine);
    bw_authority_free(s->authority);
    bw_catalogue_free(s->catalogue);
    bw_register_close(s->classes);
    bw_audit_close(s->audit);
    bw_keys_close(s->keys);
    bw_secret_close(s->subject_secret);
    for (size_t it = 0;
         s->class_texts && bw_map_next(s->class_texts, &it, &key, &value);)
        bw_free((void *)(uintptr_t)*value);
    bw_map_free(s->class_texts);
    if (s->lock_fd >= 0)
        (void)close(s->lock_fd);
    bw_free(s->dir);
    (void)pthread_mutex_destroy(&s->policy_change);
    (void)pthread_rwlock_destroy(&s->policy_lock);
    (void)pthread_rwlock_destroy(&s->class_lock);
    bw_free(s);
}

bw_engine *bw_server_engine(const bw_server *server)
{
    return server->engine;
}

bw_authority *bw_server_authority(const bw_server *server)
{
    return server->authority;
}

const bw_catalogue *bw_server_catalogue(const bw_server *server)
{
    return server->catalogue;
}

const struct bw_encoder *bw_server_encoder(const bw_server *server)
{
    return server->encoder;
}
