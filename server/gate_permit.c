/* What handlers ask the gate: permitted sets, why not. Label sets: gate_class.c.
 *
 * The permitted set is made here and nowhere else, from the authenticated caller and
 * the policies in force; no class comes from a body. A collection is (tenant, name), so
 * one of another tenant is simply not there: same path, same bytes as an absent one.
 *
 * With --dev there is one principal and one class, and the same functions answer from
 * them without a policy (that cell is on loopback and says so). */
#include "gate_request.h"
#include "secrets.h"
#include <sodium.h>
#include <stdlib.h>

enum { CLASS_TEXTS_MAX = 200000 };

void bw_gate__question(const bw_request *r, bw_action action, bw_question *out)
{
    const bw_caller *c = r->caller;
    *out = (bw_question){.principal = &c->principal,
                         .action = action,
                         .purpose = c->purpose,
                         .safeguards = c->safeguards,
                         .nsafeguards = c->nsafeguards,
                         .dest = NULL,
                         .now_ns = r->now_ns};
}

void bw_gate__clear(gate_request *g)
{
    bw_map_free(g->given);
    g->given = NULL;
    while (g->nheld > 0)
        bw_permitted_release(g->held[--g->nheld]);
    bw_audit_record_clear(&g->record);
}

/* "gdpr-ch5, residency-move", cut so that a Qdrant error keeps its names in 190 bytes.
 */
static const char *names_of(bw_ctx *ctx, const bw_decision *d)
{
    bw_buf b = {0};
    const char *text;
    for (size_t i = 0; i < d->npolicies && b.len < 100; i++) {
        bw_str p = d->policies[i];
        bw_buf_printf(&b, "%s%.*s", i ? ", " : "", (int)(p.len < 80 ? p.len : 80),
                      p.ptr);
    }
    if (d->nerrors > 0 && b.len == 0) {
        bw_str p = d->errors[0];
        bw_buf_printf(&b, "%.*s (it could not be evaluated)",
                      (int)(p.len < 80 ? p.len : 80), p.ptr);
    }
    text =
        b.failed || b.len == 0 ? NULL : bw_arena_printf(ctx, "%.*s", (int)b.len, b.ptr);
    bw_buf_clear(&b);
    return text;
}

bw_status bw_gate_reads_audit(bw_request *r, bool *out)
{
    bw_question q;
    bw_decision d;
    bw_gate__question(r, BW_ACTION_READ_AUDIT, &q);
    bw_status s = bw_decide_object(r->ctx, r->server->authority, &q, "Node",
                                   (bw_str){NULL, 0}, r->server->config.cell_id, &d);
    *out = s == BW_OK && d.allow;
    return s;
}

bw_status bw_gate_tells(bw_request *r, bw_str labels, bool *out)
{
    bw_labels l;
    bw_status s = bw_labels_from_canonical(r->ctx, labels, &l);
    *out = s == BW_OK && bw_str_eq(l.tenant, r->caller->principal.tenant);
    return *out ? BW_OK : bw_gate_reads_audit(r, out);
}

bw_status bw_gate_refuse(bw_request *r, bw_action action, bw_str labels,
                         const bw_decision *d)
{
    bool tells;
    bw_status s = bw_gate_tells(r, labels, &tells);
    if (s != BW_OK)
        return s;
    const char *names = tells ? names_of(r->ctx, d) : NULL;
    if (!names)
        return bw_fail(r->ctx, BW_EDENIED,
                       "Denied: no policy permits %s of these labels to this key here; "
                       "POST /v1/explain says what would",
                       bw_action_name(action));
    return bw_fail(r->ctx, BW_EDENIED,
                   "Denied by policy %s: %s is not allowed for these labels here; "
                   "POST /v1/explain says why",
                   names, bw_action_name(action));
}

bw_status bw_gate__denied(bw_request *r, bw_action action, const bw_class_id *class_id,
                          bw_str labels, bool stored, const bw_decision *d)
{
    bw_audit_subject about = {.class_id = class_id,
                              .labels = stored ? BW_STR("") : labels};
    bw_audit_add_decision(r->audit, action, &about, d);
    return bw_gate_refuse(r, action, labels, d);
}

bw_status bw_gate__name_classes(gate_request *g)
{
    if (g->nclasses == 0)
        return BW_OK;
    bw_class_id *ids = bw_arena_calloc(g->pub.ctx, g->nclasses, sizeof *ids);
    if (!ids)
        return bw_fail_nomem(g->pub.ctx);
    for (size_t i = 0; i < g->nclasses; i++)
        ids[i] = g->classes[i].id;
    g->record.named = ids;
    g->record.nnamed = g->nclasses;
    return BW_OK;
}

/* known: its labels need not stand in the audit record. */
static bw_status decide(bw_request *r, bw_action action, const bw_class_id *class_id,
                        bw_str labels, bool known)
{
    bw_question q;
    const bw_decision *d;
    bw_gate__question(r, action, &q);
    q.purpose = BW_STR("");
    bw_status s =
        bw_decision_acquire(r->ctx, r->server->authority, &q, class_id, labels, &d);
    if (s != BW_OK)
        return s;
    bw_audit_subject about = {.class_id = class_id,
                              .labels = known ? (bw_str){NULL, 0} : labels,
                              .no_purpose = true};
    bw_audit_add_decision(r->audit, action, &about, d);
    if (!d->allow)
        s = bw_gate_refuse(r, action, labels, d);
    bw_decision_release(d);
    return s;
}

bw_status bw_gate_decide(bw_request *r, bw_action action, const bw_class_id *class_id)
{
    bw_str text;
    if (r->server->config.dev)
        return BW_OK;
    bw_status s = bw_gate_label_text(r, class_id, &text);
    return s == BW_OK ? decide(r, action, class_id, text, true) : s;
}

bw_status bw_gate_decide_unknown(bw_request *r, bw_action action,
                                 const bw_class_id *class_id, bw_str labels)
{
    return r->server->config.dev ? BW_OK : decide(r, action, class_id, labels, false);
}

static bw_status forbidden(bw_request *r, bw_action action, const bw_decision *d)
{
    const char *names = names_of(r->ctx, d);
    if (!names)
        return bw_fail(r->ctx, BW_EDENIED,
                       "Forbidden: no policy permits %s to this key",
                       bw_action_name(action));
    return bw_fail(r->ctx, BW_EDENIED, "Forbidden: %s is denied by policy %s",
                   bw_action_name(action), names);
}

/* The collection that an alias stands for; any other name stays. A rule that names a
 * collection holds whatever name leads to it. */
static bw_status collection_meant(bw_request *r, bw_str *name)
{
    bw_collection_info info;
    bw_status s = bw_collection_get(r->ctx, r->server->engine,
                                    r->caller->principal.tenant, *name, &info);
    if (s == BW_OK)
        *name = info.name;
    return s == BW_ENOTFOUND ? BW_OK : s;
}

bw_status bw_gate__object(bw_request *r, bw_action action, const char *kind,
                          bw_str name)
{
    bw_server *s = r->server;
    bw_question q;
    const bw_decision *d;
    if (s->config.dev)
        return BW_OK;
    bw_gate__question(r, action, &q);
    bw_status st = BW_OK;
    if (strcmp(kind, "Collection") == 0 && name.len > 0)
        st = collection_meant(r, &name);
    if (st == BW_OK)
        st = bw_decision_acquire_object(r->ctx, s->authority, &q, kind,
                                        r->caller->principal.tenant, name, &d);
    if (st != BW_OK)
        return st;
    bw_audit_add_decision(r->audit, action,
                          &(bw_audit_subject){.kind = kind, .name = name}, d);
    if (!d->allow)
        st = forbidden(r, action, d);
    bw_decision_release(d);
    return st;
}

bw_status bw_gate_manage(bw_request *r, bw_str collection)
{
    if (!r->audit->collection.ptr)
        r->audit->collection = collection;
    return bw_gate__object(r, BW_ACTION_MANAGE_COLLECTION, "Collection", collection);
}

/* ---- label texts of classes ---- */

static bw_status class_text_load(bw_request *r, const bw_class_id *id, bw_str *out)
{
    bw_server *s = r->server;
    bw_str text, *kept;
    bool fresh = false;
    bw_status st = bw_ctx_may_wait(r->ctx); /* the catalogue's file */
    if (st == BW_OK)
        st = bw_class_get(r->ctx, s->engine, id, &text);
    if (st != BW_OK)
        return st;
    kept = bw_alloc(sizeof *kept + text.len + 1);
    if (!kept)
        return bw_fail_nomem(r->ctx);
    memcpy(kept + 1, text.ptr, text.len);
    *kept = (bw_str){(const char *)(kept + 1), text.len};
    bw_require(pthread_rwlock_wrlock(&s->class_lock) == 0);
    uint64_t *slot =
        bw_map_count(s->class_texts) < CLASS_TEXTS_MAX
            ? bw_map_put(s->class_texts, id->bytes, sizeof id->bytes, &fresh)
            : NULL;
    if (slot && fresh)
        *slot = (uint64_t)(uintptr_t)kept;
    bw_require(pthread_rwlock_unlock(&s->class_lock) == 0);
    if (!slot || !fresh)
        bw_free(kept);
    *out = text; /* in the request's arena */
    return BW_OK;
}

/* Cached texts live until the server closes. */
static bw_status class_text(bw_request *r, const bw_class_id *id, bw_str *out)
{
    bw_server *s = r->server;
    bw_require(pthread_rwlock_rdlock(&s->class_lock) == 0);
    const uint64_t *slot = bw_map_get(s->class_texts, id->bytes, sizeof id->bytes);
    if (slot)
        *out = *(const bw_str *)(uintptr_t)*slot;
    bw_require(pthread_rwlock_unlock(&s->class_lock) == 0);
    return slot ? BW_OK : class_text_load(r, id, out);
}

bw_status bw_gate_label_text(bw_request *r, const bw_class_id *class_id, bw_str *out)
{
    return class_text(r, class_id, out);
}

/* Under the tenant's name too, so that one person's hashes cannot be joined across
 * tenants. */
bw_status bw_gate_subject(bw_request *r, bw_str subject, bw_str *out)
{
    unsigned char hash[32];
    crypto_generichash_state st;
    bw_str tenant = r->caller->principal.tenant;
    uint64_t n = tenant.len;
    char *hex = bw_arena_alloc(r->ctx, 2 * sizeof hash + 1);
    if (!hex)
        return bw_fail_nomem(r->ctx);
    bw_require(
        crypto_generichash_init(&st, r->server->subject_secret, BW_SECRET_BYTES,
                                sizeof hash) == 0 &&
        crypto_generichash_update(&st, (const unsigned char *)&n, sizeof n) == 0 &&
        crypto_generichash_update(&st, (const unsigned char *)tenant.ptr, tenant.len) ==
            0 &&
        crypto_generichash_update(&st, (const unsigned char *)subject.ptr,
                                  subject.len) == 0 &&
        crypto_generichash_final(&st, hash, sizeof hash) == 0);
    sodium_bin2hex(hex, 2 * sizeof hash + 1, hash, sizeof hash);
    *out = (bw_str){hex, 2 * sizeof hash};
    return BW_OK;
}

/* ---- permitted sets ---- */

static void dev_digest(const bw_server *s, bw_action action, uint8_t digest[16])
{
    unsigned char bytes[33];
    memcpy(bytes, s->dev_class.bytes, 32);
    bytes[32] = (unsigned char)action;
    bw_require(crypto_generichash(digest, 16, bytes, sizeof bytes, NULL, 0) == 0);
}

static bw_status collection_find(bw_request *r, bw_str collection,
                                 bw_collection_info *info)
{
    bw_status s = bw_collection_get(r->ctx, r->server->engine,
                                    r->caller->principal.tenant, collection, info);
    if (r->audit && !r->audit->collection.ptr)
        r->audit->collection = collection;
    if (s == BW_ENOTFOUND)
        return bw_fail(
            r->ctx, BW_ENOTFOUND, "Not found: Collection `%.*s` doesn't exist!",
            (int)(collection.len < 200 ? collection.len : 200), collection.ptr);
    return s;
}

typedef struct directory { /* of one collection, for the decision */
    bw_request *r;
    const bw_collection_info *info;
} directory;

static bw_status listed_text(void *user, const bw_class_id *id, bw_str *out)
{
    return class_text(user, id, out);
}

/* Named by its digest in the register, which the log's events name it by. */
static bw_status directory_list(void *user, bw_ctx *ctx, const bw_class_id **classes,
                                size_t *n, uint64_t *version, uint8_t name[16])
{
    const directory *d = user;
    bw_server *s = d->r->server;
    static_assert(BW_LIST_DIGEST == 16, "the name that a set carries");
    bw_status st = bw_ctx_may_wait(ctx); /* a new list is written */
    if (st == BW_OK)
        st = bw_collection_classes(ctx, s->engine, d->info->tenant, d->info->name,
                                   classes, n, version);
    return st == BW_OK ? bw_register_list(ctx, s->classes, d->info->uid, *version,
                                          *classes, *n, listed_text, d->r, name)
                       : st;
}

static bw_status directory_text(void *user, bw_ctx *ctx, const bw_class_id *id,
                                bw_str *out)
{
    const directory *d = user;
    (void)ctx; /* the request's own */
    return class_text(d->r, id, out);
}

static bw_status hold(bw_request *r, const bw_permitted *p)
{
    gate_request *g = gate_of(r);
    if (g->nheld == g->cap_held) {
        size_t cap = g->cap_held ? g->cap_held * 2 : 8;
        void *grown = bw_arena_grow(r->ctx, g->held, g->cap_held * sizeof *g->held,
                                    cap * sizeof *g->held);
        if (!grown) {
            bw_permitted_release(p);
            return bw_fail_nomem(r->ctx);
        }
        g->held = grown;
        g->cap_held = cap;
    }
    g->held[g->nheld++] = p;
    return BW_OK;
}

static bw_status allowed(bw_request *r, const bw_question *q, const gate_class *c,
                         bool *out)
{
    const bw_decision *d;
    bw_status st = bw_decision_acquire(r->ctx, r->server->authority, q, &c->id,
                                       c->canonical, &d);
    if (st != BW_OK)
        return st;
    *out = d->allow;
    bw_decision_release(d);
    return BW_OK;
}

static int by_id(const void *a, const void *b)
{
    return bw_class_id_cmp(a, b);
}

/* The classes that this request itself names are candidates as well as those that the
 * collection holds: adds what the question allows of them. */
static bw_status add_named(bw_request *r, const bw_question *q, bw_permit *permit,
                           uint8_t digest[16])
{
    gate_request *g = gate_of(r);
    bw_class_id *more =
        bw_arena_alloc(r->ctx, (permit->n + g->nclasses) * sizeof *more);
    size_t n = permit->n;
    if (!more)
        return bw_fail_nomem(r->ctx);
    for (size_t i = 0; i < g->nclasses; i++) {
        bool allow = false;
        if (bw_permit_has(permit, &g->classes[i].id))
            continue;
        bw_status st = allowed(r, q, &g->classes[i], &allow);
        if (st != BW_OK)
            return st;
        if (allow)
            more[n++] = g->classes[i].id;
    }
    if (n == permit->n)
        return BW_OK;
    memcpy(more, permit->classes, permit->n * sizeof *more);
    qsort(more, n, sizeof *more, by_id);
    *permit = (bw_permit){more, n};
    bw_permit_digest(permit, digest);
    return BW_OK;
}

static bw_status permit_of(bw_request *r, const bw_collection_info *info,
                           bw_action action, bw_permit *out)
{
    bw_server *s = r->server;
    const uint8_t *list = NULL;
    uint8_t digest[16];
    if (s->config.dev) {
        *out = (bw_permit){&s->dev_class, 1};
        dev_digest(s, action, digest);
    } else {
        directory d = {r, info};
        bw_directory classes = {.version = info->classes_version,
                                .list = directory_list,
                                .label_text = directory_text,
                                .user = &d};
        const bw_permitted *p;
        bw_question q;
        bw_gate__question(r, action, &q);
        bw_status st = bw_permitted_acquire(r->ctx, s->authority, &q, &classes, &p);
        if (st == BW_OK)
            st = hold(r, p);
        if (st != BW_OK)
            return st;
        *out = p->permit;
        list = p->list;
        memcpy(digest, p->digest, sizeof digest);
        if (gate_of(r)->nclasses > 0)
            st = add_named(r, &q, out, digest);
        if (st != BW_OK)
            return st;
    }
    bw_audit_add_permit(r->audit, action, digest, out->n, list, gate_of(r)->nclasses);
    return BW_OK;
}

bw_status bw_gate_permit(bw_request *r, bw_str collection, bw_action action,
                         bw_collection_info *info, bw_permit *out)
{
    bw_collection_info own;
    if (!info)
        info = &own;
    bw_status s = collection_find(r, collection, info);
    return s == BW_OK ? permit_of(r, info, action, out) : s;
}

bw_status bw_gate_access(bw_request *r, bw_str collection, bw_collection_info *info,
                         bw_access *out)
{
    bw_collection_info own;
    if (!info)
        info = &own;
    bw_status s = collection_find(r, collection, info);
    if (s == BW_OK)
        s = permit_of(r, info, BW_ACTION_QUERY, &out->read);
    if (s == BW_OK)
        s = permit_of(r, info, BW_ACTION_STORE, &out->store);
    if (s == BW_OK)
        s = permit_of(r, info, BW_ACTION_DELETE, &out->remove);
    if (s == BW_OK)
        s = permit_of(r, info, BW_ACTION_RELABEL, &out->relabel);
    return s;
}

/* ---- denials of writes ---- */

bw_status bw_gate_denied(bw_request *r, const bw_class_id *class_id, bw_action action)
{
    bw_question q;
    bw_decision d;
    bw_str text;
    memset(&d, 0, sizeof d);
    if (r->server->config.dev)
        return bw_fail(r->ctx, BW_EDENIED, "Denied: no policy permits %s",
                       bw_action_name(action));
    bw_status s = class_text(r, class_id, &text);
    if (s != BW_OK)
        return s;
    bw_gate__question(r, action, &q);
    s = bw_decide_class(r->ctx, r->server->authority, &q, class_id, text, &d);
    if (s != BW_OK)
        return s;
    if (d.allow) /* the engine saw a set in which the class was missing: never say
                    "allowed" */
        memset(&d, 0, sizeof d);
    return bw_gate__denied(r, action, class_id, text, true, &d);
}

/* A hold is the one fact about hidden data that a caller may come to feel: destroying
 * what the law says to keep, by somebody who cannot even see it, would be worse than
 * the one bit that the refusal tells a manager of the same tenant. */
static bw_status drop_one(bw_request *r, const bw_class_id *id, bool visible)
{
    bw_question q;
    const bw_decision *d;
    bw_str text;
    bw_gate__question(r, BW_ACTION_DELETE, &q);
    bw_status s = class_text(r, id, &text);
    if (s == BW_OK)
        s = bw_decision_acquire(r->ctx, r->server->authority, &q, id, text, &d);
    if (s != BW_OK)
        return s;
    if (!d->allow && (visible || d->npolicies > 0 || d->nerrors > 0))
        s = bw_gate__denied(r, BW_ACTION_DELETE, id, text, true, d);
    bw_decision_release(d);
    return s;
}

bw_status bw_gate_drop(bw_request *r, bw_str collection, bw_permit *judged)
{
    bw_collection_info info;
    const bw_class_id *classes;
    size_t n = 0;
    bw_permit visible, removable;
    *judged = (bw_permit){&r->server->dev_class, 1};
    if (r->server->config.dev)
        return BW_OK;
    bw_status s = collection_find(r, collection, &info);
    if (s == BW_ENOTFOUND || (s == BW_OK && !bw_str_eq(info.name, collection)))
        return BW_OK; /* none, or an alias, which drops nothing */
    if (s == BW_OK)
        s = bw_collection_classes(r->ctx, r->server->engine, info.tenant, info.name,
                                  &classes, &n, NULL);
    if (s == BW_OK)
        s = permit_of(r, &info, BW_ACTION_QUERY, &visible);
    if (s == BW_OK)
        s = permit_of(r, &info, BW_ACTION_DELETE, &removable);
    for (size_t i = 0; i < n && s == BW_OK; i++)
        if (!bw_permit_has(&removable, &classes[i]))
            s = drop_one(r, &classes[i], bw_permit_has(&visible, &classes[i]));
    *judged = (bw_permit){classes, n};
    return s;
}
