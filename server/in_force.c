/* Policies and entities in force: looking at them, and changing them.
 *
 * A change is checked, then durable (in the archive under its digest, and in its own
 * file), then in force, then on record, before the answer: no decision is made by a
 * text that a restart would lose. When the disk or the log refuses, the old one is put
 * back. */
#include "files.h"
#include "server.h"

void bw_in_force__note(bw_server *s, bw_str policies)
{
    bw_archive_digest(policies, s->policy_digest);
    s->policy_since_ns = bw_clock_unix_ns();
}

bw_status bw_in_force__event(bw_ctx *ctx, bw_server *s, const char *event)
{
    bw_audit_record r;
    bw_audit_record_init(&r, ctx, event);
    r.policy_version = bw_authority_version(s->authority);
    r.policy_digest = (bw_str){s->policy_digest, BW_DIGEST_TEXT};
    r.facts_digest = (bw_str){s->facts_digest, BW_DIGEST_TEXT};
    r.catalogue_version = bw_catalogue_version(s->catalogue);
    return bw_audit_write(ctx, s->audit, &r, true);
}

bw_status bw_in_force_get(bw_ctx *ctx, bw_server *s, bw_in_force_view *out)
{
    bw_require(pthread_mutex_lock(&s->policy_change) == 0);
    bw_status st = bw_authority_policies_text(ctx, s->authority, &out->policies);
    if (st == BW_OK)
        st = bw_authority_entities_text(ctx, s->authority, &out->entities);
    bw_authority_state_get(s->authority, &out->state);
    memcpy(out->facts, s->facts_digest, sizeof out->facts);
    out->policies_since_ns = s->policy_since_ns;
    bw_require(pthread_mutex_unlock(&s->policy_change) == 0);
    return st;
}

bw_status bw_server_facts_keep(bw_ctx *ctx, const bw_server *s, bw_str entities,
                               char digest[BW_DIGEST_TEXT + 1])
{
    bw_facts f;
    bw_status st =
        bw_facts_get(ctx, s->dir, (bw_str){s->facts_digest, BW_DIGEST_TEXT}, &f);
    f.entities = entities;
    return st == BW_OK ? bw_facts_keep(ctx, s->dir, &f, digest) : st;
}

/* ---- one change ---- */

typedef struct change {
    const char *event;   /* and what to call it */
    const char *path;    /* its own file */
    bw_str old, text;
    char facts[2][BW_DIGEST_TEXT + 1]; /* entities: record of the facts, old and new */
    bool entities;
} change;

/* A reader of version and digests sees all of one state: the log's events name it by
 * either. after: the new text, else the old one back. */
static bw_status install(bw_ctx *ctx, bw_server *s, const change *c, bool after)
{
    bw_str text = after ? c->text : c->old;
    bw_require(pthread_rwlock_wrlock(&s->policy_lock) == 0);
    bw_status st = c->entities ? bw_authority_set_entities(ctx, s->authority, text)
                               : bw_authority_set_policies(ctx, s->authority, text);
    if (st == BW_OK && c->entities)
        memcpy(s->facts_digest, c->facts[after], sizeof s->facts_digest);
    else if (st == BW_OK)
        bw_in_force__note(s, text);
    bw_require(pthread_rwlock_unlock(&s->policy_lock) == 0);
    return st;
}

/* An error of the disk is one of ours, whatever its kind. */
static bw_status store(bw_ctx *ctx, bw_server *s, change *c)
{
    bw_status st = c->entities
                       ? bw_server_facts_keep(ctx, s, c->text, c->facts[1])
                       : bw_archive_keep(ctx, s->dir, BW_ARCHIVE_POLICIES, c->text,
                                         NULL);
    if (st == BW_OK)
        st = bw_file_replace(ctx, c->path, c->text, 0600);
    if (st == BW_OK || st == BW_ENOSPACE || st == BW_ENOMEM)
        return st;
    const char *why = bw_arena_printf(ctx, "%s", bw_ctx_message(ctx));
    return bw_fail(ctx, BW_EIO, "%s", why ? why : "a file cannot be written");
}

/* Texts, log and answer agree or nothing has changed. */
static bw_status make(bw_ctx *ctx, bw_server *s, change *c)
{
    bw_status st = c->entities
                       ? bw_authority_check_entities(ctx, s->authority, c->text)
                       : bw_authority_check_policies(ctx, s->authority, c->text);
    if (st != BW_OK)
        return st;
    memcpy(c->facts[0], s->facts_digest, sizeof c->facts[0]);
    st = store(ctx, s, c);
    if (st == BW_OK)
        st = install(ctx, s, c, true);
    bool installed = st == BW_OK;
    if (st == BW_OK)
        st = bw_in_force__event(ctx, s, c->event);
    if (st == BW_OK)
        return BW_OK;
    const char *why = bw_arena_printf(ctx, "%s", bw_ctx_message(ctx));
    if ((installed && install(ctx, s, c, false) != BW_OK) ||
        bw_file_replace(ctx, c->path, c->old, 0600) != BW_OK)
        bw_log(BW_LOG_ERROR, "%s: the old text could not be put back", c->event);
    return bw_fail(ctx, st, "%s", why ? why : "it cannot be changed");
}

bw_status bw_server_policies_put(bw_ctx *ctx, bw_server *s, bw_str text,
                                 bw_str if_digest)
{
    change c = {.event = "policies",
                .path = bw_path_join(ctx, s->dir, "policies.cedar"),
                .text = text};
    if (!c.path)
        return bw_fail_nomem(ctx);
    if (text.len > BW_POLICIES_BYTES_MAX)
        return bw_fail(ctx, BW_EINVALID, "a policy set has at most %d bytes",
                       BW_POLICIES_BYTES_MAX);
    bw_require(pthread_mutex_lock(&s->policy_change) == 0);
    bw_status st = if_digest.ptr && !bw_str_is(if_digest, s->policy_digest)
                       ? bw_fail_at(ctx, BW_ECONFLICT, "/if_digest",
                                    "the policies in force are others by now")
                       : bw_authority_policies_text(ctx, s->authority, &c.old);
    if (st == BW_OK)
        st = make(ctx, s, &c);
    bw_require(pthread_mutex_unlock(&s->policy_change) == 0);
    return st;
}

bw_status bw_server_entities_put(bw_ctx *ctx, bw_server *s, bw_str text,
                                 bw_str if_digest)
{
    bw_authority_state now;
    change c = {.event = "entities",
                .path = bw_path_join(ctx, s->dir, "entities.json"),
                .text = text,
                .entities = true};
    if (!c.path)
        return bw_fail_nomem(ctx);
    if (s->config.entities_file.len > 0)
        return bw_fail(ctx, BW_ECONFLICT,
                       "policies.entities names a file of its own: change that one and "
                       "start the cell anew");
    bw_require(pthread_mutex_lock(&s->policy_change) == 0);
    bw_authority_state_get(s->authority, &now);
    bw_status st = if_digest.ptr && !bw_str_eq(if_digest, bw_str_c(now.entities))
                       ? bw_fail_at(ctx, BW_ECONFLICT, "/if_digest",
                                    "the entities in force are others by now")
                       : bw_authority_entities_text(ctx, s->authority, &c.old);
    if (st == BW_OK)
        st = make(ctx, s, &c);
    bw_require(pthread_mutex_unlock(&s->policy_change) == 0);
    return st;
}
