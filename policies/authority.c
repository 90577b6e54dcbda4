/* The authority's life: what is in force, how it is replaced, what it says of itself.
 *
 * In force is one counted, immutable snapshot (bw_rules). Replacing policies or
 * entities builds a whole new one first, so a bad set leaves the old one in force; then
 * its pointer and its stamp are changed, and what was kept of the old version is
 * dropped.
 * Two policies may not share a name, since names are what denials and the log show. */
#include "authority.h"
#include "../engine/base/map.h"
#include "decision_hold.h"

#include <sodium.h>

enum { POLICY_NAME_MAX = 100 };
/* Room for some 100,000 decisions or sets of a few hundred classes; for 60,000 classes.
 */
enum { ANSWERS_BYTES_MAX = 64 << 20, CLASSES_BYTES_MAX = 64 << 20 };

/* ---- snapshots ---- */

static bool text_keep(bw_str in, bw_str *out)
{
    char *p = bw_alloc(in.len);
    if (p && in.len)
        memcpy(p, in.ptr, in.len);
    *out = (bw_str){p, p ? in.len : 0};
    return p != NULL;
}

static void text_free(bw_str s)
{
    bw_free((void *)(uintptr_t)s.ptr);
}

static void digest_of(bw_str text, char out[BW_DIGEST_HEX + 1])
{
    unsigned char d[BW_DIGEST_HEX / 2];
    bw_require(crypto_generichash(d, sizeof d, (const unsigned char *)text.ptr,
                                  text.len, NULL, 0) == 0);
    sodium_bin2hex(out, BW_DIGEST_HEX + 1, d, sizeof d);
}

void bw_rule_facts__release(bw_rule_facts *f)
{
    if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
        return;
    bw_cedar_entities_free(f->entities);
    text_free(f->text);
    bw_free(f);
}

void bw_rules__release(bw_rules *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    bw_cedar_policies_free(s->policies);
    bw_rule_facts__release(s->facts);
    bw_free(s->names);
    text_free(s->text);
    bw_free(s);
}

bw_rules *bw_rules__acquire(bw_authority *a)
{
    bw_require(pthread_mutex_lock(&a->lock) == 0);
    bw_rules *s = a->now;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    bw_require(pthread_mutex_unlock(&a->lock) == 0);
    return s;
}

/* The policies' names: @id where there is one. Unique and fit for one line. */
static bw_status name_policies(bw_ctx *ctx, bw_rules *s)
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

/* A set that does not validate strictly is refused: BW_EINVALID with its first error.
 */
static bw_status validate(bw_ctx *ctx, const bw_cedar_policies *p,
                          const bw_cedar_schema *schema)
{
    bw_cedar_validation v;
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    bw_status st = bw_cedar_policies_validate(ctx, p, schema, NULL, &v);
    for (size_t i = 0; st == BW_OK && i < v.nfindings; i++)
        if (!v.findings[i].warning) {
            const char *why = bw_cedar_finding_text(ctx, p, &v.findings[i]);
            st = why ? bw_fail(ctx, BW_EINVALID, "%s", why) : bw_fail_nomem(ctx);
        }
    bw_arena_release(ctx, mark);
    return st;
}

/* A snapshot of these policies over those facts (counted), not yet in force. */
bw_status bw_rules__build(bw_ctx *ctx, const bw_authority *a, bw_str policies,
                          bw_rule_facts *f, bw_rules **out)
{
    bw_rules *s = bw_calloc(1, sizeof *s);
    if (!s)
        return bw_fail_nomem(ctx);
    atomic_init(&s->refs, 1);
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    s->facts = f;
    digest_of(policies, s->digest);
    bw_status st = text_keep(policies, &s->text) ? BW_OK : bw_fail_nomem(ctx);
    if (st == BW_OK)
        st = bw_cedar_policies_parse(ctx, policies, &s->policies);
    if (st == BW_OK && !a->cedar_errors)
        st = validate(ctx, s->policies, a->schema);
    if (st == BW_OK)
        st = name_policies(ctx, s);
    if (st != BW_OK) {
        bw_rules__release(s);
        return st;
    }
    s->reads_now = bw_cedar_policies_read_context(s->policies, BW_STR("now"));
    *out = s;
    return BW_OK;
}

static bool is_one_of(bw_str s, const char *const *words)
{
    while (*words && !bw_str_eq(s, bw_str_c(*words)))
        words++;
    return *words != NULL;
}

/* Facts that an operator may state: countries and zones are the catalogue's, which asks
 * a source of each; principals, classes and collections come with the question, and
 * would be stated in vain. A member that nobody reads is refused, since a misspelt one
 * would take a fact away. */
static bw_status operators_own(bw_ctx *ctx, const bw_json *entity, bool supposed)
{
    static const char *const members[] = {"uid", "attrs", "parents", "tags", NULL},
                             *const types[] = {"Bw::LegalEntity", "Bw::Tenant",
                                               "Bw::Node", NULL},
                             *const naming[] = {"type", "id", NULL};
    for (const bw_json *m = entity->child; m; m = m->next)
        if (!is_one_of(m->key, members))
            return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, m),
                              "unknown member");
    const bw_json *uid = bw_json_get(entity, "uid"),
                  *inner = bw_json_get(uid, "__entity");
    const bw_json *name = inner ? inner : uid, *type = bw_json_get(name, "type");
    if (inner && uid->count != 1)
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, uid),
                          "unknown member");
    for (const bw_json *m = name->child; m; m = m->next)
        if (!is_one_of(m->key, naming))
            return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, m),
                              "unknown member");
    if (!supposed && !is_one_of(type->str, types))
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, uid),
                          "only legal entities, tenants and nodes are stated here; "
                          "countries and zones are the catalogue's");
    return BW_OK;
}

static bw_status read_entities(bw_ctx *ctx, const bw_authority *a, bw_str entities,
                               bw_str *elements)
{
    bw_json *v;
    bw_cedar_entities *alone;
    *elements = (bw_str){"", 0};
    if (entities.len == 0)
        return BW_OK;
    bw_status st = bw_json_parse(ctx, entities, BW_JSON_CEDAR, &v);
    if (st != BW_OK)
        return st;
    if (!bw_json_is_array(v))
        return bw_fail(ctx, BW_EINVALID, "expected a list");
    st = bw_cedar_entities_parse(ctx, v, a->schema, &alone);
    if (st != BW_OK)
        return st;
    bw_cedar_entities_free(alone);
    for (const bw_json *e = v->child; e && st == BW_OK; e = e->next)
        st = operators_own(ctx, e, a->supposed);
    if (st != BW_OK)
        return st;
    if (v->count)
        *elements = (bw_str){v->raw.ptr + 1, v->raw.len - 2};
    return BW_OK;
}

/* The operator's list, which must be sound by itself: an error points into it. */
static bw_status operator_entities(bw_ctx *ctx, const bw_authority *a, bw_str entities,
                                   bw_str *elements)
{
    bw_status st = read_entities(ctx, a, entities, elements);
    if (st != BW_EINVALID)
        return st;
    const char *at = bw_arena_printf(ctx, "%s", bw_ctx_pointer(ctx));
    const char *why = bw_arena_printf(ctx, "%s", bw_ctx_message(ctx));
    return at && why ? bw_fail_at(ctx, st, at, "entities: %s", why)
                     : bw_fail_nomem(ctx);
}

/* This cell, as a list element. */
static void put_cell(bw_buf *b, const bw_place *p)
{
    bw_json_sep(b);
    bw_buf_puts(b, "{\"uid\":{\"type\":\"Bw::Node\",\"id\":");
    bw_json_put_str(b, p->id);
    bw_buf_puts(b, "},\"attrs\":{\"country\":{\"type\":\"Bw::Country\",\"id\":");
    bw_json_put_str(b, p->country);
    bw_buf_puts(b, "},\"operator\":{\"type\":\"Bw::LegalEntity\",\"id\":");
    bw_json_put_str(b, p->operator_id);
    bw_buf_putc(b, '}');
    bw_json_put_strs(b, "certs", p->certs, p->ncerts);
    bw_json_put_strs(b, "hw", p->hw, p->nhw);
    bw_buf_puts(b, "},\"parents\":[]}");
}

static bw_status facts_parse(bw_ctx *ctx, const bw_authority *a, bw_str elements,
                             bw_rule_facts *f)
{
    bw_buf b = {0};
    bw_json *list;
    bw_buf_putc(&b, '[');
    bw_catalogue_put_entities(a->catalogue, &b);
    put_cell(&b, &a->at);
    if (elements.len) {
        bw_json_sep(&b);
        bw_buf_str(&b, elements);
    }
    bw_buf_putc(&b, ']');
    bw_status st = b.failed ? bw_fail_nomem(ctx)
                            : bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_CEDAR, &list);
    if (st == BW_OK)
        st = bw_cedar_entities_parse(ctx, list, a->schema, &f->entities);
    bw_buf_clear(&b);
    return st;
}

bw_status bw_rule_facts__build(bw_ctx *ctx, const bw_authority *a, bw_str entities,
                               bw_rule_facts **out)
{
    bw_str elements;
    bw_status st = operator_entities(ctx, a, entities, &elements);
    if (st != BW_OK)
        return st;
    bw_rule_facts *f = bw_calloc(1, sizeof *f);
    if (!f)
        return bw_fail_nomem(ctx);
    atomic_init(&f->refs, 1);
    digest_of(entities, f->digest);
    st = text_keep(entities, &f->text) ? facts_parse(ctx, a, elements, f)
                                       : bw_fail_nomem(ctx);
    if (st != BW_OK) {
        bw_rule_facts__release(f);
        return st;
    }
    *out = f;
    return BW_OK;
}

/* Puts a built snapshot in force. Caller holds `change`. From here on every question
 * that begins reads the new stamp, and finds nothing that was kept under the old. */
static void rules_install(bw_authority *a, bw_rules *s)
{
    bw_require(pthread_mutex_lock(&a->lock) == 0);
    bw_rules *old = a->now;
    s->version = old ? old->version + 1 : 1;
    a->now = s;
    atomic_store_explicit(&a->stamp, bw_rules__stamp(s), memory_order_release);
    bw_require(pthread_mutex_unlock(&a->lock) == 0);
    bw_rules__release(old);
    bw_answers__empty(a->answers);
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
    bw_rule_facts *f = NULL;
    bw_rules *s;
    a->catalogue = o->catalogue;
    a->cedar_errors = o->cedar_errors;
    a->supposed = o->supposed;
    a->mem = bw_ctx_new(0);
    a->answers = bw_answers__new(ANSWERS_BYTES_MAX);
    a->classes = bw_answers__new(CLASSES_BYTES_MAX);
    if (!a->mem || !a->answers || !a->classes ||
        copy_place(a->mem, &o->at, &a->at) != BW_OK)
        return bw_fail_nomem(ctx);
    bw_status st = bw_cedar_schema_parse(ctx, o->schema, &a->schema);
    if (st == BW_OK)
        st = bw_rule_facts__build(ctx, a, o->entities, &f);
    if (st == BW_OK)
        st = bw_rules__build(ctx, a, o->policies, f, &s);
    bw_rule_facts__release(f);
    if (st == BW_OK)
        rules_install(a, s);
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
    bw_rules__release(a->now);
    bw_cedar_schema_free(a->schema);
    bw_answers__free(a->answers);
    bw_answers__free(a->classes);
    bw_ctx_free(a->mem);
    pthread_mutex_destroy(&a->lock);
    pthread_mutex_destroy(&a->change);
    bw_free(a);
}

bw_status bw_authority_set_policies(bw_ctx *ctx, bw_authority *a, bw_str policies)
{
    bw_rules *s;
    bw_require(pthread_mutex_lock(&a->change) == 0);
    bw_status st = bw_rules__build(ctx, a, policies, a->now->facts, &s);
    if (st == BW_OK)
        rules_install(a, s);
    bw_require(pthread_mutex_unlock(&a->change) == 0);
    return st;
}

bw_status bw_authority_check_policies(bw_ctx *ctx, bw_authority *a, bw_str policies)
{
    bw_rules *now = bw_rules__acquire(a), *s = NULL;
    bw_status st = bw_rules__build(ctx, a, policies, now->facts, &s);
    bw_rules__release(s);
    bw_rules__release(now);
    return st;
}

bw_status bw_authority_set_entities(bw_ctx *ctx, bw_authority *a, bw_str entities)
{
    bw_rule_facts *f = NULL;
    bw_rules *s;
    bw_require(pthread_mutex_lock(&a->change) == 0);
    bw_status st = bw_rule_facts__build(ctx, a, entities, &f);
    if (st == BW_OK)
        st = bw_rules__build(ctx, a, a->now->text, f, &s);
    bw_rule_facts__release(f);
    if (st == BW_OK)
        rules_install(a, s);
    bw_require(pthread_mutex_unlock(&a->change) == 0);
    return st;
}

bw_status bw_authority_check_entities(bw_ctx *ctx, bw_authority *a, bw_str entities)
{
    bw_rule_facts *f = NULL;
    bw_status st = bw_rule_facts__build(ctx, a, entities, &f);
    bw_rule_facts__release(f);
    return st;
}

uint64_t bw_authority_version(const bw_authority *a)
{
    return atomic_load_explicit(&a->stamp, memory_order_acquire) >> 1;
}

void bw_authority_state_get(bw_authority *a, bw_authority_state *out)
{
    bw_rules *s = bw_rules__acquire(a);
    out->version = s->version;
    memcpy(out->policies, s->digest, sizeof s->digest);
    memcpy(out->entities, s->facts->digest, sizeof s->facts->digest);
    bw_rules__release(s);
}

void bw_authority_figures_get(bw_authority *a, bw_authority_figures *out)
{
    bw_answers_figures kept, classes;
    bw_answers__figures(a->answers, &kept);
    bw_answers__figures(a->classes, &classes);
    *out = (bw_authority_figures){
        .cached = kept.hits,
        .decisions = atomic_load_explicit(&a->counts.decisions, memory_order_relaxed),
        .sets = atomic_load_explicit(&a->counts.sets, memory_order_relaxed),
        .permits_errored =
            atomic_load_explicit(&a->counts.permits_errored, memory_order_relaxed),
        .forbids_errored =
            atomic_load_explicit(&a->counts.forbids_errored, memory_order_relaxed),
        .undecided = atomic_load_explicit(&a->counts.undecided, memory_order_relaxed),
        .bytes = kept.bytes + classes.bytes};
}

bw_status bw_authority_policies_text(bw_ctx *ctx, bw_authority *a, bw_str *out)
{
    bw_rules *s = bw_rules__acquire(a);
    bw_status st = bw_arena_str(ctx, s->text, out);
    bw_rules__release(s);
    return st;
}

bw_status bw_authority_entities_text(bw_ctx *ctx, bw_authority *a, bw_str *out)
{
    bw_rules *s = bw_rules__acquire(a);
    bw_status st = bw_arena_str(ctx, s->facts->text, out);
    bw_rules__release(s);
    return st;
}

void bw_authority__hold(bw_authority *a, bw_in_force *out)
{
    bw_rules *s = bw_rules__acquire(a);
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
    bw_rules__release(f->snapshot);
    *f = (bw_in_force){0};
}
