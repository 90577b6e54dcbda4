/* What handlers ask the gate: permitted sets, the class of a label set, why not.
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

enum { CLASS_TEXTS_MAX = 200000, GATE_CLASSES_MAX = 4096 };

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

static bw_status refusal(bw_request *r, bw_action action, const bw_decision *d)
{
    const char *names = names_of(r->ctx, d);
    if (!names)
        return bw_fail(r->ctx, BW_EDENIED,
                       "Denied: no policy permits %s of these labels to this key here",
                       bw_action_name(action));
    return bw_fail(r->ctx, BW_EDENIED,
                   "Denied by policy %s: %s is not allowed for these labels here",
                   names, bw_action_name(action));
}

/* labels: of a class that nothing stored has, or none. */
static bw_status denied(bw_request *r, bw_action action, const bw_class_id *class_id,
                        bw_str labels, const bw_decision *d)
{
    bw_audit_add_decision(r->audit, action,
                          &(bw_audit_subject){.class_id = class_id, .labels = labels}, d);
    return refusal(r, action, d);
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

bw_status bw_gate_decide(bw_request *r, bw_action action, const bw_class_id *class_id)
{
    bw_question q;
    bw_decision d;
    bw_str text;
    bw_status s = r->server->config.dev ? BW_OK : bw_gate_label_text(r, class_id, &text);
    if (s != BW_OK || r->server->config.dev)
        return s;
    bw_gate__question(r, action, &q);
    q.purpose = BW_STR("");
    s = bw_decide_class(r->ctx, r->server->authority, &q, class_id, text, &d);
    if (s != BW_OK)
        return s;
    bw_audit_subject about = {.class_id = class_id, .no_purpose = true};
    bw_audit_add_decision(r->audit, action, &about, &d);
    return d.allow ? BW_OK : refusal(r, action, &d);
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
    bw_decision d;
    if (s->config.dev)
        return BW_OK;
    bw_gate__question(r, action, &q);
    bw_status st = BW_OK;
    if (strcmp(kind, "Collection") == 0 && name.len > 0)
        st = collection_meant(r, &name);
    if (st == BW_OK)
        st = bw_decide_object(r->ctx, s->authority, &q, kind,
                              r->caller->principal.tenant, name, &d);
    if (st != BW_OK)
        return st;
    bw_audit_add_decision(r->audit, action,
                          &(bw_audit_subject){.kind = kind, .name = name}, &d);
    if (d.allow)
        return BW_OK;
    const char *names = names_of(r->ctx, &d);
    if (!names)
        return bw_fail(r->ctx, BW_EDENIED,
                       "Forbidden: no policy permits %s to this key",
                       bw_action_name(action));
    return bw_fail(r->ctx, BW_EDENIED, "Forbidden: %s is denied by policy %s",
                   bw_action_name(action), names);
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
    bw_status st = bw_class_get(r->ctx, s->engine, id, &text);
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

typedef struct candidates { /* classes that a decision is asked for, sorted, with their
                               texts */
    bw_class_id *ids;
    bw_str *texts;
    size_t n;
    uint8_t list[BW_LIST_DIGEST]; /* the register's name of the collection's classes */
    size_t named;                 /* by the request, and candidates as well */
} candidates;

static bw_status listed_text(void *arg, const bw_class_id *id, bw_str *out)
{
    return class_text(arg, id, out);
}

static int by_id(const void *a, const void *b)
{
    return bw_class_id_cmp(a, b);
}

/* The collection's classes and those that this request itself names. */
static bw_status candidates_get(bw_request *r, const bw_collection_info *info,
                                candidates *out)
{
    gate_request *g = gate_of(r);
    const bw_class_id *have;
    size_t n = 0;
    uint64_t version;
    bw_status s = bw_collection_classes(r->ctx, r->server->engine, info->tenant,
                                        info->name, &have, &n, &version);
    if (s == BW_OK)
        s = bw_register_list(r->ctx, r->server->classes, info->uid, version, have, n,
                             listed_text, r, out->list);
    if (s != BW_OK)
        return s;
    out->named = g->nclasses;
    out->ids = bw_arena_calloc(r->ctx, n + g->nclasses + 1, sizeof *out->ids);
    out->texts = bw_arena_calloc(r->ctx, n + g->nclasses + 1, sizeof *out->texts);
    if (!out->ids || !out->texts)
        return bw_fail_nomem(r->ctx);
    if (n > 0)
        memcpy(out->ids, have, n * sizeof *have);
    out->n = n;
    bw_permit sorted = {have, n};
    for (size_t i = 0; i < g->nclasses; i++)
        if (!bw_permit_has(&sorted, &g->classes[i].id))
            out->ids[out->n++] = g->classes[i].id;
    if (out->n > n) {
        qsort(out->ids, out->n, sizeof *out->ids, by_id);
        size_t unique = 0;
        for (size_t i = 0; i < out->n; i++)
            if (unique == 0 ||
                bw_class_id_cmp(&out->ids[i], &out->ids[unique - 1]) != 0)
                out->ids[unique++] = out->ids[i];
        out->n = unique;
    }
    for (size_t i = 0; i < out->n && s == BW_OK; i++)
        s = class_text(r, &out->ids[i], &out->texts[i]);
    return s;
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

static bw_status permit_of(bw_request *r, const candidates *c, bw_action action,
                           bw_permit *out)
{
    bw_server *s = r->server;
    uint8_t digest[16];
    bw_question q;
    if (s->config.dev) {
        *out = (bw_permit){&s->dev_class, 1};
        dev_digest(s, action, digest);
    } else {
        bw_gate__question(r, action, &q);
        bw_status st = bw_permitted_set(r->ctx, s->authority, &q, c->ids, c->texts,
                                        c->n, out, digest);
        if (st != BW_OK)
            return st;
    }
    bw_audit_add_permit(r->audit, action, digest, out->n,
                        s->config.dev ? NULL : c->list, c->named);
    return BW_OK;
}

bw_status bw_gate_permit(bw_request *r, bw_str collection, bw_action action,
                         bw_collection_info *info, bw_permit *out)
{
    bw_collection_info own;
    candidates c = {0};
    bw_status s = collection_find(r, collection, info ? info : &own);
    if (s == BW_OK && !r->server->config.dev)
        s = candidates_get(r, info ? info : &own, &c);
    return s == BW_OK ? permit_of(r, &c, action, out) : s;
}

bw_status bw_gate_access(bw_request *r, bw_str collection, bw_collection_info *info,
                         bw_access *out)
{
    bw_collection_info own;
    candidates c = {0};
    if (!info)
        info = &own;
    bw_status s = collection_find(r, collection, info);
    if (s == BW_OK && !r->server->config.dev)
        s = candidates_get(r, info, &c);
    if (s == BW_OK)
        s = permit_of(r, &c, BW_ACTION_QUERY, &out->read);
    if (s == BW_OK)
        s = permit_of(r, &c, BW_ACTION_STORE, &out->store);
    if (s == BW_OK)
        s = permit_of(r, &c, BW_ACTION_DELETE, &out->remove);
    if (s == BW_OK)
        s = permit_of(r, &c, BW_ACTION_RELABEL, &out->relabel);
    return s;
}

/* ---- the class of a write ---- */

/* Keeps a label set of this request; classes are few (label sets are, by design). */
static bw_status remember(gate_request *g, bw_str bytes, const bw_class_id *id,
                          bw_str canonical)
{
    bw_ctx *ctx = g->pub.ctx;
    bool fresh = false;
    if (!g->given && !(g->given = bw_map_new()))
        return bw_fail_nomem(ctx);
    size_t at = g->nclasses;
    for (size_t i = 0; i < g->nclasses; i++)
        if (bw_class_id_cmp(&g->classes[i].id, id) == 0)
            at = i;
    if (at == GATE_CLASSES_MAX)
        return bw_fail(ctx, BW_EINVALID,
                       "more than %d different label sets in one request",
                       GATE_CLASSES_MAX);
    if (at == g->nclasses) {
        if (g->nclasses == g->cap_classes) {
            size_t cap = g->cap_classes ? g->cap_classes * 2 : 8;
            gate_class *p = bw_arena_grow(ctx, g->classes, g->cap_classes * sizeof *p,
                                          cap * sizeof *p);
            if (!p)
                return bw_fail_nomem(ctx);
            g->classes = p;
            g->cap_classes = cap;
        }
        g->classes[g->nclasses++] = (gate_class){*id, canonical};
    }
    uint64_t *slot = bw_map_put(g->given, bytes.ptr, bytes.len, &fresh);
    if (!slot)
        return bw_fail_nomem(ctx);
    *slot = at + 1;
    return BW_OK;
}

static bw_status invalid_labels(bw_request *r, bw_status s)
{
    if (s != BW_EINVALID)
        return s;
    const char *where = bw_arena_printf(r->ctx, "/_labels%s", bw_ctx_pointer(r->ctx));
    const char *what = bw_arena_printf(r->ctx, "%s", bw_ctx_message(r->ctx));
    return bw_fail_at(r->ctx, BW_EINVALID, where ? where : "/_labels",
                      "Validation error in _labels: %.200s",
                      what ? what : "bad label set");
}

static bw_status class_of(bw_request *r, const bw_json *labels, bw_class_id *id,
                          bw_str *canonical)
{
    bw_labels set;
    bw_status s = bw_labels_parse(r->ctx, r->server->catalogue, labels,
                                  r->caller->principal.tenant, &set);
    if (s == BW_OK)
        s = bw_labels_canonical(r->ctx, &set, canonical);
    if (s != BW_OK)
        return invalid_labels(r, s);
    bw_labels_class_id(*canonical, id);
    return BW_OK;
}

static bw_status default_labels(bw_request *r, const bw_collection_info *info,
                                bw_json **out)
{
    bw_str text = r->caller->default_labels;
    if (text.len == 0)
        text = info->labels;
    if (text.len == 0)
        return bw_fail_at(r->ctx, BW_EINVALID, "/_labels",
                          "Validation error: _labels is missing, and neither the key "
                          "nor the collection "
                          "has default labels");
    return bw_json_parse(r->ctx, text,
                         (bw_json_limits){.depth_max = 16, .bytes_max = 1 << 20}, out);
}

bw_status bw_gate_class(bw_request *r, const bw_collection_info *info,
                        const bw_json *given, bw_class_id *out)
{
    gate_request *g = gate_of(r);
    bw_server *srv = r->server;
    bw_str canonical, bytes = given ? given->raw : BW_STR("");
    bw_class_id id;
    bw_question q;
    bw_decision d;
    bw_json *fallback;
    if (srv->config.dev) {
        if (given)
            return bw_fail_at(r->ctx, BW_EINVALID, "/_labels",
                              "Validation error: _labels: a --dev cell has one class; "
                              "run `bailiwick init`");
        *out = srv->dev_class;
        return BW_OK;
    }
    const uint64_t *slot = g->given ? bw_map_get(g->given, bytes.ptr, bytes.len) : NULL;
    if (slot) {
        *out = g->classes[*slot - 1].id;
        return BW_OK;
    }
    bw_status s = given ? BW_OK : default_labels(r, info, &fallback);
    if (s == BW_OK)
        s = class_of(r, given ? given : fallback, &id, &canonical);
    if (s != BW_OK)
        return s;
    bw_gate__question(r, BW_ACTION_STORE, &q);
    s = bw_decide_class(r->ctx, srv->authority, &q, &id, canonical, &d);
    if (s != BW_OK)
        return s;
    if (!d.allow)
        return denied(r, BW_ACTION_STORE, &id, canonical, &d);
    s = bw_class_put(r->ctx, srv->engine, &id, canonical);
    if (s == BW_OK)
        s = bw_register_class(r->ctx, srv->classes, &id, canonical);
    if (s == BW_OK)
        s = remember(g, bytes, &id, canonical);
    if (s == BW_OK)
        *out = id;
    return s;
}

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
    return denied(r, action, class_id, BW_STR(""), &d);
}

/* A hold is the one fact about hidden data that a caller may come to feel: destroying
 * what the law says to keep, by somebody who cannot even see it, would be worse than
 * the one bit that the refusal tells a manager of the same tenant. */
static bw_status drop_one(bw_request *r, const candidates *c, size_t i, bool visible)
{
    bw_question q;
    bw_decision d;
    bw_gate__question(r, BW_ACTION_DELETE, &q);
    bw_status s =
        bw_decide_class(r->ctx, r->server->authority, &q, &c->ids[i], c->texts[i], &d);
    if (s != BW_OK || d.allow)
        return s;
    return visible || d.npolicies > 0 || d.nerrors > 0
               ? denied(r, BW_ACTION_DELETE, &c->ids[i], BW_STR(""), &d)
               : BW_OK;
}

bw_status bw_gate_drop(bw_request *r, bw_str collection, bw_permit *judged)
{
    bw_collection_info info;
    candidates c = {0};
    bw_permit visible, removable;
    *judged = (bw_permit){&r->server->dev_class, 1};
    if (r->server->config.dev)
        return BW_OK;
    bw_status s = collection_find(r, collection, &info);
    if (s == BW_ENOTFOUND || (s == BW_OK && !bw_str_eq(info.name, collection)))
        return BW_OK; /* none, or an alias, which drops nothing */
    if (s == BW_OK)
        s = candidates_get(r, &info, &c);
    if (s == BW_OK)
        s = permit_of(r, &c, BW_ACTION_QUERY, &visible);
    if (s == BW_OK)
        s = permit_of(r, &c, BW_ACTION_DELETE, &removable);
    for (size_t i = 0; i < c.n && s == BW_OK; i++)
        if (!bw_permit_has(&removable, &c.ids[i]))
            s = drop_one(r, &c, i, bw_permit_has(&visible, &c.ids[i]));
    *judged = (bw_permit){c.ids, c.n};
    return s;
}
