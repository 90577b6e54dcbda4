/* The authority (decision.h): policies and entities in force, and the answers they
 * give.
 *
 * What is in force is one counted, immutable snapshot. A question takes it, asks the
 * cache under (fingerprint with the snapshot's version, class), and only on a miss
 * builds the few entities that belong to the question and asks Cedar. Replacing
 * policies builds a whole new snapshot first: a bad set leaves the old one in force.
 *
 * Ours beyond Cedar: a forbid that errors denies; a question that Cedar cannot take
 * denies; two policies may not share a name, since names are what denials and the log
 * show. Out of memory and out of time are errors; their effect is deny as well, since
 * nobody gets an allow.
 *
 * Lock order: change -> lock -> the cache's stripes; none is held while Cedar runs. */
#include "decision.h"
#include "../engine/base/map.h"
#include "decision_cache.h"
#include "decision_hold.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { POLICY_NAME_MAX = 100, BATCH = 64 };

typedef struct facts { /* entities of catalogue, operator and cell; shared by snapshots
                        */
    _Atomic uint32_t refs;
    bw_cedar_entities *entities;
} facts;

typedef struct snapshot {
    _Atomic uint32_t refs;
    uint64_t version;
    facts *facts;
    bw_cedar_policies *policies;
    bw_str *names; /* by policy index; borrowed from policies */
    char *text;
    size_t text_len;
    bool reads_now;
} snapshot;

struct bw_authority {
    const bw_catalogue *catalogue;
    bw_ctx *mem; /* owns the place's copy */
    bw_place at;
    bool cedar_errors;
    bw_cedar_schema *schema;
    bw_decision_cache *cache;
    pthread_mutex_t change; /* one replacement at a time */
    pthread_mutex_t lock;   /* guards `now` (the pointer) */
    snapshot *now;
};

/* ---- snapshots ---- */

static void facts_release(facts *f)
{
    if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
        return;
    bw_cedar_entities_free(f->entities);
    bw_free(f);
}

static void snapshot_release(snapshot *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    bw_cedar_policies_free(s->policies);
    facts_release(s->facts);
    bw_free(s->names);
    bw_free(s->text);
    bw_free(s);
}

static snapshot *snapshot_acquire(bw_authority *a)
{
    bw_require(pthread_mutex_lock(&a->lock) == 0);
    snapshot *s = a->now;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    bw_require(pthread_mutex_unlock(&a->lock) == 0);
    return s;
}

/* The policies' names: @id where there is one. Unique and fit for one line. */
static bw_status name_policies(bw_ctx *ctx, snapshot *s)
{
    size_t n = bw_cedar_policies_count(s->policies);
    bw_status st = BW_OK;
    bw_map *seen = bw_map_new();
    s->names = bw_calloc(n + 1, sizeof *s->names);
    if (!s->names || !seen)
        st = bw_fail_nomem(ctx);
    for (size_t i = 0; i < n && st == BW_OK; i++) {
        bw_str id = bw_cedar_policy_id(s->policies, i), name = id;
        bool fresh, fit = true;
        bw_cedar_policy_annotation(s->policies, i, BW_STR("id"), &name);
        for (size_t k = 0; k < name.len && fit; k++)
            fit = name.ptr[k] > ' ' && name.ptr[k] <= '~';
        if (!fit || name.len == 0 || name.len > POLICY_NAME_MAX) {
            st = bw_fail(ctx, BW_EINVALID,
                         "%.*s: @id must be 1 to %d printable characters", (int)id.len,
                         id.ptr, POLICY_NAME_MAX);
        } else if (!bw_map_put(seen, name.ptr, name.len, &fresh)) {
            st = bw_fail_nomem(ctx);
        } else if (!fresh) {
            st = bw_fail(ctx, BW_EINVALID, "%.*s: the name \"%.*s\" is taken",
                         (int)id.len, id.ptr, (int)name.len, name.ptr);
        }
        s->names[i] = name;
    }
    bw_map_free(seen);
    return st;
}

/* A snapshot of these policies over those facts (counted), not yet in force. */
static bw_status snapshot_build(bw_ctx *ctx, const bw_authority *a, bw_str policies,
                                facts *f, snapshot **out)
{
    snapshot *s = bw_calloc(1, sizeof *s);
    if (!s)
        return bw_fail_nomem(ctx);
    atomic_init(&s->refs, 1);
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    s->facts = f;
    s->text = bw_alloc(policies.len);
    bw_status st = s->text ? BW_OK : bw_fail_nomem(ctx);
    if (st == BW_OK) {
        if (policies.len)
            memcpy(s->text, policies.ptr, policies.len);
        s->text_len = policies.len;
        st = bw_cedar_policies_parse(ctx, policies, &s->policies);
    }
    if (st == BW_OK)
        st = bw_cedar_policies_check_scopes(ctx, s->policies, a->schema);
    if (st == BW_OK)
        st = name_policies(ctx, s);
    if (st != BW_OK) {
        snapshot_release(s);
        return st;
    }
    s->reads_now = bw_cedar_policies_read_context(s->policies, BW_STR("now"));
    *out = s;
    return BW_OK;
}

/* The list's elements without its brackets. */
static bw_status operator_elements(bw_ctx *ctx, bw_str entities, bw_str *out)
{
    bw_json *v;
    *out = (bw_str){"", 0};
    if (entities.len == 0)
        return BW_OK;
    bw_status st = bw_json_parse(ctx, entities, BW_JSON_CEDAR, &v);
    if (st != BW_OK)
        return st;
    if (v->kind != BW_JSON_ARRAY)
        return bw_fail(ctx, BW_EINVALID, "entities: expected a list");
    if (v->count)
        *out = (bw_str){v->raw.ptr + 1, v->raw.len - 2};
    return BW_OK;
}

static bw_status facts_build(bw_ctx *ctx, const bw_authority *a, bw_str entities,
                             facts **out)
{
    bw_buf b = {0};
    bw_str own;
    bw_json *list;
    facts *f = NULL;
    bw_status st = operator_elements(ctx, entities, &own);
    if (st != BW_OK)
        return st;
    bw_buf_putc(&b, '[');
    bw_catalogue_put_entities(a->catalogue, &b);
    bw_entity__put_place(&b, &a->at);
    if (own.len) {
        bw_json_sep(&b);
        bw_buf_str(&b, own);
    }
    bw_buf_putc(&b, ']');
    f = bw_calloc(1, sizeof *f);
    st = b.failed || !f ? bw_fail_nomem(ctx)
                        : bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_CEDAR, &list);
    if (st == BW_OK)
        st = bw_cedar_entities_parse(ctx, list, a->schema, &f->entities);
    bw_buf_clear(&b);
    if (st != BW_OK) {
        bw_free(f);
        return st;
    }
    atomic_init(&f->refs, 1);
    *out = f;
    return BW_OK;
}

/* Puts a built snapshot in force. Caller holds `change`. */
static void snapshot_install(bw_authority *a, snapshot *s)
{
    bw_require(pthread_mutex_lock(&a->lock) == 0);
    snapshot *old = a->now;
    s->version = old ? old->version + 1 : 1;
    a->now = s;
    bw_require(pthread_mutex_unlock(&a->lock) == 0);
    snapshot_release(old);
    bw_decision_cache__empty(a->cache);
}

/* ---- life ---- */

static bw_status copy_list(bw_ctx *mem, const bw_str *in, size_t n, const bw_str **out)
{
    bw_str *list = bw_arena_calloc(mem, n + 1, sizeof *list);
    if (!list)
        return BW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (bw_arena_str(mem, in[i], &list[i]) != BW_OK)
            return BW_ENOMEM;
    *out = list;
    return BW_OK;
}

static bw_status copy_place(bw_ctx *mem, const bw_place *in, bw_place *out)
{
    *out = *in;
    if (bw_arena_str(mem, in->id, &out->id) != BW_OK ||
        bw_arena_str(mem, in->country, &out->country) != BW_OK ||
        bw_arena_str(mem, in->operator_id, &out->operator_id) != BW_OK ||
        copy_list(mem, in->certs, in->ncerts, &out->certs) != BW_OK ||
        copy_list(mem, in->hw, in->nhw, &out->hw) != BW_OK)
        return BW_ENOMEM;
    return BW_OK;
}

static bw_status authority_fill(bw_ctx *ctx, bw_authority *a,
                                const bw_authority_options *o)
{
    facts *f = NULL;
    snapshot *s;
    a->catalogue = o->catalogue;
    a->cedar_errors = o->cedar_errors;
    a->mem = bw_ctx_new(0);
    a->cache = bw_decision_cache__new();
    if (!a->mem || !a->cache || copy_place(a->mem, &o->at, &a->at) != BW_OK)
        return bw_fail_nomem(ctx);
    bw_status st = bw_cedar_schema_parse(ctx, o->schema, &a->schema);
    if (st == BW_OK)
        st = facts_build(ctx, a, o->entities, &f);
    if (st == BW_OK)
        st = snapshot_build(ctx, a, o->policies, f, &s);
    facts_release(f);
    if (st == BW_OK)
        snapshot_install(a, s);
    return st;
}

bw_status bw_authority_new(bw_ctx *ctx, const bw_authority_options *o,
                           bw_authority **out)
{
    bw_authority *a = bw_calloc(1, sizeof *a);
    if (!a)
        return bw_fail_nomem(ctx);
    bw_require(pthread_mutex_init(&a->change, NULL) == 0);
    bw_require(pthread_mutex_init(&a->lock, NULL) == 0);
    bw_status st = authority_fill(ctx, a, o);
    if (st != BW_OK) {
        bw_authority_free(a);
        return st;
    }
    *out = a;
    return BW_OK;
}

void bw_authority_free(bw_authority *a)
{
    if (!a)
        return;
    snapshot_release(a->now);
    bw_cedar_schema_free(a->schema);
    bw_decision_cache__free(a->cache);
    bw_ctx_free(a->mem);
    pthread_mutex_destroy(&a->lock);
    pthread_mutex_destroy(&a->change);
    bw_free(a);
}

bw_status bw_authority_set_policies(bw_ctx *ctx, bw_authority *a, bw_str policies)
{
    snapshot *s;
    bw_require(pthread_mutex_lock(&a->change) == 0);
    bw_status st = snapshot_build(ctx, a, policies, a->now->facts, &s);
    if (st == BW_OK)
        snapshot_install(a, s);
    bw_require(pthread_mutex_unlock(&a->change) == 0);
    return st;
}

bw_status bw_authority_check_policies(bw_ctx *ctx, bw_authority *a, bw_str policies)
{
    snapshot *now = snapshot_acquire(a), *s = NULL;
    bw_status st = snapshot_build(ctx, a, policies, now->facts, &s);
    snapshot_release(s);
    snapshot_release(now);
    return st;
}

bw_status bw_authority_set_entities(bw_ctx *ctx, bw_authority *a, bw_str entities)
{
    facts *f = NULL;
    snapshot *s;
    bw_require(pthread_mutex_lock(&a->change) == 0);
    bw_status st = facts_build(ctx, a, entities, &f);
    if (st == BW_OK)
        st = snapshot_build(ctx, a, (bw_str){a->now->text, a->now->text_len}, f, &s);
    facts_release(f);
    if (st == BW_OK)
        snapshot_install(a, s);
    bw_require(pthread_mutex_unlock(&a->change) == 0);
    return st;
}

uint64_t bw_authority_version(const bw_authority *a)
{
    snapshot *s =
        snapshot_acquire((bw_authority *)a); /* takes the lock, changes nothing */
    uint64_t version = s->version;
    snapshot_release(s);
    return version;
}

bw_status bw_authority_policies_text(bw_ctx *ctx, bw_authority *a, bw_str *out)
{
    snapshot *s = snapshot_acquire(a);
    bw_status st = bw_arena_str(ctx, (bw_str){s->text, s->text_len}, out);
    snapshot_release(s);
    return st;
}

void bw_authority__hold(bw_authority *a, bw_in_force *out)
{
    snapshot *s = snapshot_acquire(a);
    *out = (bw_in_force){.schema = a->schema,
                         .policies = s->policies,
                         .names = s->names,
                         .entities = s->facts->entities,
                         .catalogue = a->catalogue,
                         .at = &a->at,
                         .version = s->version,
                         .reads_now = s->reads_now,
                         .cedar_errors = a->cedar_errors,
                         .snapshot = s};
}

void bw_authority__let_go(bw_in_force *f)
{
    snapshot_release(f->snapshot);
    *f = (bw_in_force){0};
}

/* ---- asking Cedar ---- */

/* Everything that questions about several resources have in common. */
typedef struct asking {
    bw_ctx *ctx;
    const bw_authority *a;
    const snapshot *s;
    const bw_question *q;
    const bw_json *context;
    bw_buf entities; /* Cedar JSON: principal, destination, then resources; open list */
} asking;

static bw_status asking_begin(asking *k)
{
    const bw_question *q = k->q;
    bw_buf b = {0};
    bw_str text;
    bw_json *context;
    const bw_place *at = q->at ? q->at : &k->a->at;
    bw_question__put_context(&b, q, at, k->s->reads_now);
    bw_status st =
        b.failed ? bw_fail_nomem(k->ctx) : bw_arena_str(k->ctx, bw_buf_view(&b), &text);
    bw_buf_clear(&b);
    if (st == BW_OK)
        st = bw_json_parse(k->ctx, text, BW_JSON_CEDAR, &context);
    if (st != BW_OK)
        return st;
    k->context = context;
    bw_buf_putc(&k->entities, '[');
    bw_entity__put_principal(&k->entities, q->principal);
    /* What is known about this cell comes from its configuration, not from a caller. */
    if (!bw_str_eq(at->id, k->a->at.id))
        bw_entity__put_place(&k->entities, at);
    if (q->dest && bw_action__moves(q->action) &&
        !bw_str_eq(q->dest->id, k->a->at.id) && !bw_str_eq(q->dest->id, at->id))
        bw_entity__put_place(&k->entities, q->dest);
    return BW_OK;
}

/* Parses the entities gathered so far. */
static bw_status asking_entities(asking *k, bw_cedar_entities **out)
{
    bw_json *list;
    bw_buf_putc(&k->entities, ']');
    if (k->entities.failed)
        return bw_fail_nomem(k->ctx);
    bw_status st =
        bw_json_parse(k->ctx, bw_buf_view(&k->entities), BW_JSON_CEDAR, &list);
    return st == BW_OK ? bw_cedar_entities_parse(k->ctx, list, k->a->schema, out) : st;
}

static bw_status verdict_of(bw_ctx *ctx, const bw_authority *a, const snapshot *s,
                            const bw_cedar_answer *answer, bw_verdict *out)
{
    bool closed = answer->forbid_errored && !a->cedar_errors;
    uint32_t *p =
        bw_arena_alloc(ctx, (answer->nreasons + 2 * answer->nerrors + 1) * sizeof *p);
    size_t n = 0;
    if (!p)
        return BW_ENOMEM;
    if (answer->allow && closed) {
        for (size_t i = 0; i < answer->nerrors; i++)
            if (bw_cedar_policy_is_forbid(s->policies, answer->errors[i]))
                p[n++] = answer->errors[i];
    } else {
        for (size_t i = 0; i < answer->nreasons; i++)
            p[n++] = answer->reasons[i];
    }
    *out = (bw_verdict){.allow = answer->allow && !closed,
                        .nreasons = (uint32_t)n,
                        .nerrors = (uint32_t)answer->nerrors,
                        .policies = p};
    for (size_t i = 0; i < answer->nerrors; i++)
        p[n++] = answer->errors[i];
    return BW_OK;
}

static bw_status ask(asking *k, const bw_cedar_entities *extra, const char *type,
                     bw_str id, bw_verdict *out)
{
    bw_cedar_answer answer;
    bw_cedar_request request = {
        .principal = {BW_STR("Bw::Identity"), k->q->principal->id},
        .action = {BW_STR("Bw::Action"), bw_str_c(bw_action_name(k->q->action))},
        .resource = {bw_str_c(type), id},
        .context = k->context,
        .extra = extra,
    };
    bw_status st = bw_cedar_authorize(k->ctx, k->s->policies, k->s->facts->entities,
                                      k->a->schema, &request, &answer);
    return st == BW_OK ? verdict_of(k->ctx, k->a, k->s, &answer, out) : st;
}

/* What Cedar cannot take is denied; what we had no memory or time for is an error. */
static bool undecidable(bw_status st)
{
    return st == BW_EINVALID || st == BW_ECORRUPT;
}

/* ---- answers ---- */

static int by_bytes(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

static bw_status put_names(bw_ctx *ctx, const snapshot *s, const uint32_t *index,
                           size_t n, const bw_str **out)
{
    bw_str *names = bw_arena_calloc(ctx, n + 1, sizeof *names);
    if (!names)
        return BW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (bw_arena_str(ctx, s->names[index[i]], &names[i]) != BW_OK)
            return BW_ENOMEM;
    if (n)
        qsort(names, n, sizeof *names, by_bytes);
    *out = names;
    return BW_OK;
}

static bw_status decision_of(bw_ctx *ctx, const snapshot *s, const bw_verdict *v,
                             bw_decision *out)
{
    bw_decision d = {.npolicies = v->nreasons, .nerrors = v->nerrors};
    bw_status st = put_names(ctx, s, v->policies, v->nreasons, &d.policies);
    if (st == BW_OK)
        st = put_names(ctx, s, v->policies + v->nreasons, v->nerrors, &d.errors);
    if (st != BW_OK)
        return st;
    d.allow = v->allow;
    *out = d;
    return BW_OK;
}

static void decision_refused(bw_decision *out)
{
    static const bw_str what[] = {{"undecidable", 11}};
    *out = (bw_decision){.allow = false, .errors = what, .nerrors = 1};
}

/* One resource: of a class its labels, else a collection's (tenant, name) or the cell.
 */
typedef struct resource {
    const char *type;
    const char *class_hex;
    const bw_labels *labels;
    bw_str id, tenant, name;
} resource;

static bw_status ask_one(asking *k, const resource *r, bw_verdict *out)
{
    bw_cedar_entities *extra = NULL;
    bw_status st = asking_begin(k);
    if (st == BW_OK && r->labels)
        bw_entity__put_class(&k->entities, r->class_hex, r->labels);
    else if (st == BW_OK && r->name.ptr)
        bw_entity__put_collection(&k->entities, r->id, r->tenant, r->name);
    if (st == BW_OK)
        st = asking_entities(k, &extra);
    if (st == BW_OK)
        st = ask(k, extra, r->type, r->id, out);
    bw_cedar_entities_free(extra);
    bw_buf_clear(&k->entities);
    return st;
}

/* Asks about one resource under a snapshot, through the cache when there is a key. */
static bw_status decide(bw_ctx *ctx, bw_authority *a, const snapshot *s,
                        const bw_question *q, const resource *r,
                        const bw_fingerprint *key, const bw_class_id *class_id,
                        bw_decision *out)
{
    asking k = {.ctx = ctx, .a = a, .s = s, .q = q};
    bw_verdict v;
    bw_status st = ask_one(&k, r, &v);
    if (undecidable(st)) {
        decision_refused(out);
        return BW_OK;
    }
    if (st == BW_OK && key)
        bw_decision_cache__put(a->cache, key, class_id, &v);
    return st == BW_OK ? decision_of(ctx, s, &v, out) : st;
}

static bw_status decide_labels(bw_ctx *ctx, bw_authority *a, const snapshot *s,
                               const bw_question *q, const bw_fingerprint *key,
                               const bw_class_id *class_id, bw_str label_text,
                               bw_decision *out)
{
    bw_labels labels;
    char hex[BW_CLASS_TEXT + 1];
    bw_status st = bw_labels_from_canonical(ctx, label_text, &labels);
    if (undecidable(st)) {
        decision_refused(out);
        return BW_OK;
    }
    if (st != BW_OK)
        return st;
    bw_class_id_hex(class_id, hex);
    resource r = {.type = "Bw::DataClass",
                  .class_hex = hex,
                  .labels = &labels,
                  .id = bw_str_c(hex)};
    return decide(ctx, a, s, q, &r, key, class_id, out);
}

bw_status bw_decide_class(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                          const bw_class_id *class_id, bw_str label_text,
                          bw_decision *out)
{
    bw_fingerprint key;
    bw_verdict v;
    bw_status st;
    *out = (bw_decision){0};
    snapshot *s = snapshot_acquire(a);
    bw_question__fingerprint(q, s->version, s->reads_now, &key);
    if (bw_decision_cache__get(a->cache, ctx, &key, class_id, &v))
        st = decision_of(ctx, s, &v, out);
    else
        st = decide_labels(ctx, a, s, q, &key, class_id, label_text, out);
    snapshot_release(s);
    return st;
}

bw_status bw_decide_object(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                           const char *kind, bw_str tenant, bw_str name,
                           bw_decision *out)
{
    bw_fingerprint key;
    bw_class_id id;
    bw_verdict v;
    bw_status st;
    resource r = {.type = "Bw::Node", .id = q->at ? q->at->id : a->at.id};
    *out = (bw_decision){0};
    if (strcmp(kind, "Collection") == 0) {
        char *text = bw_arena_printf(ctx, "%.*s/%.*s", (int)tenant.len,
                                     tenant.ptr ? tenant.ptr : "", (int)name.len,
                                     name.ptr ? name.ptr : "");
        if (!text)
            return BW_ENOMEM;
        if (!name.ptr)
            name = BW_STR("");
        r = (resource){.type = "Bw::Collection",
                       .id = bw_str_c(text),
                       .tenant = tenant,
                       .name = name};
    } else if (strcmp(kind, "Node") != 0) {
        return bw_fail(ctx, BW_EINTERNAL, "no kind of object \"%s\"", kind);
    }
    bw_object__fingerprint(kind, r.tenant, r.name, &id);
    snapshot *s = snapshot_acquire(a);
    bw_question__fingerprint(q, s->version, s->reads_now, &key);
    if (bw_decision_cache__get(a->cache, ctx, &key, &id, &v))
        st = decision_of(ctx, s, &v, out);
    else
        st = decide(ctx, a, s, q, &r, &key, &id, out);
    snapshot_release(s);
    return st;
}

bw_status bw_decide_dry(bw_ctx *ctx, bw_authority *a, bw_str policies,
                        const bw_question *q, bw_str label_text, bw_decision *out)
{
    snapshot *now = snapshot_acquire(a), *s = NULL;
    bw_class_id id;
    *out = (bw_decision){0};
    bw_status st = snapshot_build(ctx, a, policies, now->facts, &s);
    if (st == BW_OK && !label_text.ptr) {
        resource cell = {.type = "Bw::Node", .id = q->at ? q->at->id : a->at.id};
        st = decide(ctx, a, s, q, &cell, NULL, NULL, out);
    } else if (st == BW_OK) {
        bw_labels_class_id(label_text, &id);
        st = decide_labels(ctx, a, s, q, NULL, &id, label_text, out);
    }
    snapshot_release(s);
    snapshot_release(now);
    return st;
}

/* ---- permitted sets ---- */

/* Decides the classes of one batch that the cache does not know. allow[i] for
 * classes[i]; at[i] tells which of them they are. */
static bw_status decide_batch(asking *k, const bw_fingerprint *key,
                              const bw_class_id *classes, const bw_str *texts,
                              const size_t *at, size_t n, bool *allow)
{
    char(*hex)[BW_CLASS_TEXT + 1] = bw_arena_calloc(k->ctx, n, sizeof *hex);
    bool *sound = bw_arena_calloc(k->ctx, n, sizeof *sound);
    bw_cedar_entities *extra = NULL;
    bw_status st = hex && sound ? asking_begin(k) : BW_ENOMEM;
    for (size_t i = 0; i < n && st == BW_OK; i++) {
        bw_labels labels;
        bw_class_id_hex(&classes[at[i]], hex[i]);
        st = bw_labels_from_canonical(k->ctx, texts[at[i]], &labels);
        if (st == BW_OK) {
            sound[i] = true;
            bw_entity__put_class(&k->entities, hex[i], &labels);
        } else if (undecidable(st)) {
            st = BW_OK; /* not permitted, and no reason to refuse the others */
        }
    }
    if (st == BW_OK)
        st = asking_entities(k, &extra);
    for (size_t i = 0; i < n && st == BW_OK; i++) {
        bw_verdict v;
        if (!sound[i])
            continue;
        st = ask(k, extra, "Bw::DataClass", bw_str_c(hex[i]), &v);
        if (st == BW_OK) {
            bw_decision_cache__put(k->a->cache, key, &classes[at[i]], &v);
            allow[at[i]] = v.allow;
        } else if (undecidable(st)) {
            st = BW_OK;
        }
    }
    bw_cedar_entities_free(extra);
    bw_buf_clear(&k->entities);
    return undecidable(st) ? BW_OK : st;
}

static bw_status decide_all(bw_ctx *ctx, bw_authority *a, const snapshot *s,
                            const bw_question *q, const bw_fingerprint *key,
                            const bw_class_id *classes, const bw_str *texts, size_t n,
                            bool *allow)
{
    size_t unknown[BATCH], count = 0;
    for (size_t i = 0; i < n; i++) {
        bw_verdict v;
        if (bw_decision_cache__get(a->cache, NULL, key, &classes[i], &v))
            allow[i] = v.allow;
        else
            unknown[count++] = i;
        if (count < BATCH && (i + 1 < n || count == 0))
            continue;
        asking k = {.ctx = ctx, .a = a, .s = s, .q = q};
        bw_arena_mark mark = bw_arena_mark_get(ctx);
        bw_status st = decide_batch(&k, key, classes, texts, unknown, count, allow);
        bw_arena_release(ctx, mark);
        if (st == BW_OK)
            st = bw_ctx_check(ctx);
        if (st != BW_OK)
            return st;
        count = 0;
    }
    return BW_OK;
}

bw_status bw_permitted_set(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                           const bw_class_id *classes, const bw_str *label_texts,
                           size_t n, bw_permit *out, uint8_t digest[16])
{
    bw_fingerprint key;
    bw_class_id *permitted = bw_arena_alloc(ctx, (n + 1) * sizeof *permitted);
    bool *allow = bw_arena_calloc(ctx, n + 1, sizeof *allow);
    if (!permitted || !allow)
        return BW_ENOMEM;
    snapshot *s = snapshot_acquire(a);
    bw_question__fingerprint(q, s->version, s->reads_now, &key);
    bw_status st = decide_all(ctx, a, s, q, &key, classes, label_texts, n, allow);
    snapshot_release(s);
    if (st != BW_OK)
        return st;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        bw_require(i == 0 || bw_class_id_cmp(&classes[i - 1], &classes[i]) < 0);
        if (allow[i])
            permitted[count++] = classes[i];
    }
    crypto_generichash_state hash;
    crypto_generichash_init(&hash, NULL, 0, 16);
    crypto_generichash_update(&hash, (const unsigned char *)permitted,
                              count * sizeof *permitted);
    crypto_generichash_final(&hash, digest, 16);
    *out = (bw_permit){permitted, count};
    return BW_OK;
}
