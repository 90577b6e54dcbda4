/* Declarations to a schema: names are resolved, common types replaced, hierarchies
 * closed. Rules: language description, section 7. The own namespace comes before the
 * empty one, and in each a common type before an entity type before a built-in. */
#include "schema.h"
#include "../../engine/base/map.h"
#include "ast.h"
#include "types.h"

#include <stdlib.h>

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

enum { RESOLVE_DEPTH_MAX = 1000 }; /* types inside types, common types followed */

/* ---- declarations ---- */
static bw_status decl_room(bw_cedar__decls *d, void **items, uint32_t n, uint32_t *cap,
                           size_t size)
{
    if (n < *cap)
        return BW_OK;
    if (n >= BW_CEDAR_DECLS_MAX)
        return bw_fail(d->ctx, BW_EINVALID, "more than %d declarations",
                       BW_CEDAR_DECLS_MAX);
    uint32_t more = *cap ? *cap * 2 : 16;
    void *grown = bw_arena_grow(d->ctx, *items, n * size, more * size);
    if (!grown)
        return bw_fail_nomem(d->ctx);
    *items = grown;
    *cap = more;
    return BW_OK;
}

bw_status bw_cedar__decl_add_entity(bw_cedar__decls *d, const bw_cedar__decl_entity *e)
{
    void *items = d->entities;
    TRY(decl_room(d, &items, d->nentities, &d->entities_cap, sizeof *e));
    d->entities = items;
    d->entities[d->nentities++] = *e;
    return BW_OK;
}

bw_status bw_cedar__decl_add_common(bw_cedar__decls *d, const bw_cedar__decl_common *c)
{
    void *items = d->commons;
    TRY(decl_room(d, &items, d->ncommons, &d->commons_cap, sizeof *c));
    d->commons = items;
    d->commons[d->ncommons++] = *c;
    return BW_OK;
}

bw_status bw_cedar__decl_add_action(bw_cedar__decls *d, const bw_cedar__decl_action *a)
{
    void *items = d->actions;
    TRY(decl_room(d, &items, d->nactions, &d->actions_cap, sizeof *a));
    d->actions = items;
    d->actions[d->nactions++] = *a;
    return BW_OK;
}

bw_status bw_cedar__qualify(bw_ctx *ctx, bw_ctx *pool, bw_str ns, bw_str name,
                            bw_str *out)
{
    if (ns.len == 0) {
        *out = name;
        return BW_OK;
    }
    char *to = bw_arena_alloc(pool, ns.len + 2 + name.len);
    if (!to)
        return bw_fail_nomem(ctx);
    memcpy(to, ns.ptr, ns.len);
    memcpy(to + ns.len, "::", 2);
    memcpy(to + ns.len + 2, name.ptr, name.len);
    *out = (bw_str){to, ns.len + 2 + name.len};
    return BW_OK;
}

bool bw_cedar__builtin_kind(bw_str name, uint8_t *kind)
{
    static const struct {
        bw_str name;
        uint8_t kind;
    } builtin[] = {
        {{"Long", 4}, BW_CEDAR__LONG},        {{"String", 6}, BW_CEDAR__STRING},
        {{"Bool", 4}, BW_CEDAR__BOOL},        {{"ipaddr", 6}, BW_CEDAR__IP},
        {{"decimal", 7}, BW_CEDAR__DECIMAL},  {{"datetime", 8}, BW_CEDAR__DATETIME},
        {{"duration", 8}, BW_CEDAR__DURATION}};
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++)
        if (bw_str_eq(name, builtin[i].name)) {
            *kind = builtin[i].kind;
            return true;
        }
    return false;
}

/* ---- look-ups ---- */
uint32_t bw_cedar__schema_type(const bw_cedar_schema *s, bw_str name)
{
    uint32_t lo = 0, hi = s->ntypes;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int c = bw_str_cmp(s->types[mid].name, name);
        if (c == 0)
            return mid;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return BW_CEDAR__NO_TYPE;
}

const bw_cedar__attr *bw_cedar__type_attr(const bw_cedar__type *record, bw_str name)
{
    uint32_t lo = 0, hi = record->nattrs;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int c = bw_str_cmp(record->attrs[mid].name, name);
        if (c == 0)
            return &record->attrs[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

bool bw_cedar__schema_id_ok(const bw_cedar_schema *s, const bw_cedar__uid *uid)
{
    uint32_t t =
        s->has_enums ? bw_cedar__schema_type(s, uid->type) : BW_CEDAR__NO_TYPE;
    if (t == BW_CEDAR__NO_TYPE || !s->types[t].ids)
        return true;
    const bw_cedar__entity_type *e = &s->types[t];
    uint32_t lo = 0, hi = e->nids;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int c = bw_str_cmp(e->ids[mid], uid->id);
        if (c == 0)
            return true;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

/* ---- resolving ---- */
typedef struct resolver {
    bw_ctx *ctx, *pool;
    bw_cedar__decls *d;
    bw_cedar_schema *s;
} resolver;

static int by_entity(const void *a, const void *b)
{
    return bw_str_cmp(((const bw_cedar__decl_entity *)a)->name,
                      ((const bw_cedar__decl_entity *)b)->name);
}

static int by_common(const void *a, const void *b)
{
    return bw_str_cmp(((const bw_cedar__decl_common *)a)->name,
                      ((const bw_cedar__decl_common *)b)->name);
}

static int by_attr(const void *a, const void *b)
{
    return bw_str_cmp(((const bw_cedar__attr *)a)->name,
                      ((const bw_cedar__attr *)b)->name);
}

static int by_str(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

static int by_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void sort(void *items, size_t n, size_t size,
                 int (*cmp)(const void *, const void *))
{
    if (n > 1)
        qsort(items, n, size, cmp);
}

static bw_cedar__decl_common *find_common(const resolver *r, bw_str name)
{
    bw_cedar__decl_common key = {.name = name};
    return r->d->ncommons
               ? bsearch(&key, r->d->commons, r->d->ncommons, sizeof key, by_common)
               : NULL;
}

static bw_status fail_name(const resolver *r, bw_str name, const char *what)
{
    int n = name.len > 80 ? 80 : (int)name.len;
    return bw_fail(r->ctx, BW_EINVALID, "schema: %s: %.*s", what, n, name.ptr);
}

static bool is_path_name(bw_str name)
{
    return memchr(name.ptr, ':', name.len) != NULL;
}

/* The k-th name to try for `name` written in ns: the own namespace, then the empty one.
 */
static bw_status candidate(const resolver *r, bw_str ns, bw_str name, int k,
                           bw_str *out)
{
    if (k == 0 && !is_path_name(name))
        return bw_cedar__qualify(r->ctx, r->pool, ns, name, out);
    *out = name;
    return BW_OK;
}

static bw_status resolve(resolver *r, bw_str ns, const bw_cedar__ref *ref,
                         uint32_t depth, const bw_cedar__type **out);

static bw_status resolve_common(resolver *r, bw_cedar__decl_common *c, uint32_t depth,
                                const bw_cedar__type **out)
{
    if (c->state == 1)
        return fail_name(r, c->name, "a common type contains itself");
    if (c->state == 0) {
        c->state = 1;
        TRY(resolve(r, c->ns, c->type, depth + 1, &c->resolved));
        c->state = 2;
    }
    *out = c->resolved;
    return BW_OK;
}

static bw_status entity_type(resolver *r, bw_str name, const bw_cedar__type **out)
{
    bw_cedar__type *t = bw_arena_calloc(r->pool, 1, sizeof *t);
    if (!t)
        return bw_fail_nomem(r->ctx);
    *t = (bw_cedar__type){.kind = BW_CEDAR__ENTITY, .name = name};
    *out = t;
    return BW_OK;
}

static bw_status resolve_name(resolver *r, bw_str ns, const bw_cedar__ref *ref,
                              uint32_t depth, const bw_cedar__type **out)
{
    bool commons = ref->ref != BW_CEDAR__REF_ENTITY,
         entities = ref->ref != BW_CEDAR__REF_COMMON;
    bw_str name = ref->name;
    uint8_t kind;
    for (int k = 0; k < 2; k++) {
        bw_str full;
        TRY(candidate(r, ns, name, k, &full));
        bw_cedar__decl_common *c = commons ? find_common(r, full) : NULL;
        if (c)
            return resolve_common(r, c, depth, out);
        uint32_t t = entities ? bw_cedar__schema_type(r->s, full) : BW_CEDAR__NO_TYPE;
        if (t != BW_CEDAR__NO_TYPE)
            return entity_type(r, r->s->types[t].name, out);
    }
    if (name.len > 9 && memcmp(name.ptr, "__cedar::", 9) == 0)
        name = (bw_str){name.ptr + 9, name.len - 9};
    if (!commons || !bw_cedar__builtin_kind(name, &kind))
        return fail_name(r, ref->name, "unknown type");
    *out = bw_cedar__type_of(kind);
    return BW_OK;
}

static bw_status resolve_record(resolver *r, bw_str ns, const bw_cedar__ref *ref,
                                uint32_t depth, bw_cedar__type *t)
{
    bw_cedar__attr *attrs = bw_arena_calloc(r->pool, ref->nattrs, sizeof *attrs);
    if (!attrs)
        return bw_fail_nomem(r->ctx);
    for (uint32_t i = 0; i < ref->nattrs; i++) {
        attrs[i].name = ref->attrs[i].name;
        attrs[i].required = ref->attrs[i].required;
        TRY(resolve(r, ns, ref->attrs[i].type, depth + 1, &attrs[i].type));
    }
    sort(attrs, ref->nattrs, sizeof *attrs, by_attr);
    t->attrs = attrs;
    t->nattrs = ref->nattrs;
    return BW_OK;
}

/* Of attributes with one name the last counts: the earlier ones are dropped, in place.
 */
static bw_status unique_attrs(const resolver *r, const bw_cedar__ref *ref,
                              bw_cedar__ref *out)
{
    bw_cedar__ref_attr *kept = bw_arena_alloc(r->ctx, ref->nattrs * sizeof *kept);
    if (!kept)
        return bw_fail_nomem(r->ctx);
    bw_map *seen = bw_map_new();
    bw_status st = seen ? BW_OK : bw_fail_nomem(r->ctx);
    uint32_t n = 0;
    for (uint32_t i = 0; i < ref->nattrs && st == BW_OK; i++) {
        bool fresh = false;
        uint64_t *slot =
            bw_map_put(seen, ref->attrs[i].name.ptr, ref->attrs[i].name.len, &fresh);
        if (!slot)
            st = bw_fail_nomem(r->ctx);
        else if (fresh)
            kept[ *slot = n++] = ref->attrs[i];
        else
            kept[*slot] = ref->attrs[i];
    }
    bw_map_free(seen);
    *out = *ref;
    out->attrs = kept;
    out->nattrs = n;
    return st;
}

static bw_status resolve(resolver *r, bw_str ns, const bw_cedar__ref *ref,
                         uint32_t depth, const bw_cedar__type **out)
{
    if (depth > RESOLVE_DEPTH_MAX)
        return bw_fail(r->ctx, BW_EINVALID, "schema: types nested deeper than %d",
                       RESOLVE_DEPTH_MAX);
    switch ((bw_cedar__ref_kind)ref->ref) {
    case BW_CEDAR__REF_KIND:
        *out = bw_cedar__type_of(ref->kind);
        return BW_OK;
    case BW_CEDAR__REF_NAME:
    case BW_CEDAR__REF_ENTITY:
    case BW_CEDAR__REF_COMMON:
        return resolve_name(r, ns, ref, depth, out);
    default:
        break;
    }
    bw_cedar__type *t = bw_arena_calloc(r->pool, 1, sizeof *t);
    if (!t)
        return bw_fail_nomem(r->ctx);
    *out = t;
    if (ref->ref == BW_CEDAR__REF_SET) {
        t->kind = BW_CEDAR__SET;
        return resolve(r, ns, ref->element, depth + 1, &t->element);
    }
    bw_cedar__ref unique = {0};
    TRY(unique_attrs(r, ref, &unique));
    t->kind = BW_CEDAR__RECORD;
    return resolve_record(r, ns, &unique, depth, t);
}

static bw_status resolve_entity(const resolver *r, bw_str ns, bw_str name,
                                uint32_t *out)
{
    for (int k = 0; k < 2; k++) {
        bw_str full;
        TRY(candidate(r, ns, name, k, &full));
        if ((*out = bw_cedar__schema_type(r->s, full)) != BW_CEDAR__NO_TYPE)
            return BW_OK;
    }
    return fail_name(r, name, "unknown entity type");
}

static bw_status resolve_entities(const resolver *r, bw_str ns, bw_cedar__names names,
                                  const uint32_t **out, uint32_t *n)
{
    uint32_t *items = bw_arena_alloc(r->pool, names.n * sizeof *items);
    if (!items)
        return bw_fail_nomem(r->ctx);
    for (uint32_t i = 0; i < names.n; i++)
        TRY(resolve_entity(r, ns, names.items[i], &items[i]));
    *out = items;
    *n = names.n;
    return BW_OK;
}

/* ---- entity types ---- */
static bw_status check_shadow(const resolver *r, bw_str ns, bw_str full)
{
    bw_str base = bw_cedar__path_last(full);
    if (ns.len && (bw_cedar__schema_type(r->s, base) != BW_CEDAR__NO_TYPE ||
                   find_common(r, base)))
        return fail_name(r, full, "shadows a declaration of the empty namespace");
    return BW_OK;
}

static bw_status start_types(resolver *r)
{
    bw_cedar__decls *d = r->d;
    sort(d->entities, d->nentities, sizeof *d->entities, by_entity);
    sort(d->commons, d->ncommons, sizeof *d->commons, by_common);
    r->s->types = bw_arena_calloc(r->pool, d->nentities, sizeof *r->s->types);
    if (!r->s->types)
        return bw_fail_nomem(r->ctx);
    for (uint32_t i = 0; i < d->nentities; i++) {
        bw_str name = d->entities[i].name;
        if (i > 0 && bw_str_eq(name, d->entities[i - 1].name))
            return fail_name(r, name, "declared twice");
        if (bw_cedar__is_action_type(name))
            return fail_name(r, name, "Action cannot be declared");
        r->s->types[i].name = name;
    }
    r->s->ntypes = d->nentities;
    for (uint32_t i = 0; i < d->ncommons; i++) {
        if (i > 0 && bw_str_eq(d->commons[i].name, d->commons[i - 1].name))
            return fail_name(r, d->commons[i].name, "declared twice");
        TRY(check_shadow(r, d->commons[i].ns, d->commons[i].name));
    }
    for (uint32_t i = 0; i < d->nentities; i++)
        TRY(check_shadow(r, d->entities[i].ns, d->entities[i].name));
    return BW_OK;
}

static bw_status finish_type(resolver *r, const bw_cedar__decl_entity *e,
                             bw_cedar__entity_type *t)
{
    static const bw_cedar__type nothing = {.kind = BW_CEDAR__RECORD};
    t->shape = &nothing;
    if (e->shape)
        TRY(resolve(r, e->ns, e->shape, 1, &t->shape));
    if (t->shape->kind != BW_CEDAR__RECORD)
        return fail_name(r, e->name, "the shape must be a record");
    if (e->tags)
        TRY(resolve(r, e->ns, e->tags, 1, &t->tags));
    if (!e->is_enum)
        return BW_OK;
    bw_str *ids = bw_arena_alloc(r->pool, e->ids.n * sizeof *ids);
    if (!ids)
        return bw_fail_nomem(r->ctx);
    memcpy(ids, e->ids.items, e->ids.n * sizeof *ids);
    sort(ids, e->ids.n, sizeof *ids, by_str);
    t->ids = ids;
    t->nids = e->ids.n;
    r->s->has_enums = true;
    return BW_OK;
}

/* Which types may be above which: a type may be its own ancestor, so marks, not an
 * order. */
static bw_status close_types(resolver *r)
{
    uint32_t n = r->s->ntypes;
    const uint32_t **parents = bw_arena_calloc(r->ctx, n, sizeof *parents);
    uint32_t *nparents = bw_arena_calloc(r->ctx, n, sizeof *nparents);
    uint32_t *list = bw_arena_calloc(r->ctx, n, sizeof *list);
    uint32_t *seen = bw_arena_calloc(r->ctx, n, sizeof *seen);
    if (!parents || !nparents || !list || !seen)
        return bw_fail_nomem(r->ctx);
    for (uint32_t i = 0; i < n; i++) {
        const bw_cedar__decl_entity *e = &r->d->entities[i];
        TRY(resolve_entities(r, e->ns, e->parents, &parents[i], &nparents[i]));
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = 0;
        for (uint32_t at = 0, from = i; at <= count;
             from = at < count ? list[at] : 0, at++) {
            for (uint32_t p = 0; p < nparents[from]; p++)
                if (seen[parents[from][p]] != i + 1) {
                    seen[parents[from][p]] = i + 1;
                    list[count++] = parents[from][p];
                }
        }
        uint32_t *kept = bw_arena_alloc(r->pool, count * sizeof *kept);
        if (!kept)
            return bw_fail_nomem(r->ctx);
        if (count)
            memcpy(kept, list, count * sizeof *kept);
        sort(kept, count, sizeof *kept, by_u32);
        r->s->types[i].ancestors = kept;
        r->s->types[i].nancestors = count;
    }
    return BW_OK;
}

/* ---- actions ---- */
static bw_status declare_actions(resolver *r, bw_cedar__build *b)
{
    TRY(bw_cedar__build_start(r->ctx, r->pool, r->d->nactions, b));
    for (uint32_t i = 0; i < r->d->nactions; i++) {
        const bw_cedar__decl_action *a = &r->d->actions[i];
        bw_cedar__uid uid = bw_cedar__uid_make(a->type, a->id);
        uint32_t index;
        TRY(bw_cedar__build_object(b, &uid, &index));
        if (index != i)
            return fail_name(r, a->id, "action declared twice");
        r->s->actions.objects[index].defined = true;
    }
    for (uint32_t i = 0; i < r->d->nactions; i++) {
        const bw_cedar__decl_action *a = &r->d->actions[i];
        bw_cedar__uid bare = bw_cedar__uid_make(BW_STR("Action"), a->id);
        if (a->ns.len && bw_cedar__store_get(&r->s->actions, &bare))
            return fail_name(r, a->id, "shadows an action of the empty namespace");
    }
    return BW_OK;
}

static bw_status find_action(resolver *r, const bw_cedar__decl_action *a,
                             const bw_cedar__uid *named, uint32_t *out)
{
    bw_str type = named->type.len ? named->type : BW_STR("Action");
    for (int k = 0; k < 2; k++) {
        bw_str full;
        TRY(candidate(r, a->ns, type, k, &full));
        bw_cedar__uid uid = bw_cedar__uid_make(full, named->id);
        const bw_cedar__object *o = bw_cedar__store_get(&r->s->actions, &uid);
        if (o) {
            *out = (uint32_t)(o - r->s->actions.objects);
            return BW_OK;
        }
    }
    return fail_name(r, named->id, "unknown action");
}

static bw_status finish_action(resolver *r, const bw_cedar__decl_action *a,
                               bw_cedar__action_type *t)
{
    static const bw_cedar__type nothing = {.kind = BW_CEDAR__RECORD};
    if (!a->applies)
        return BW_OK;
    TRY(resolve_entities(r, a->ns, a->principals, &t->principals, &t->nprincipals));
    TRY(resolve_entities(r, a->ns, a->resources, &t->resources, &t->nresources));
    t->context = &nothing;
    if (a->context)
        TRY(resolve(r, a->ns, a->context, 1, &t->context));
    if (t->context->kind != BW_CEDAR__RECORD)
        return fail_name(r, a->id, "the context must be a record");
    return BW_OK;
}

static bw_status finish_actions(resolver *r)
{
    bw_cedar__build b = {.store = &r->s->actions};
    TRY(declare_actions(r, &b));
    r->s->action_types =
        bw_arena_calloc(r->pool, r->d->nactions, sizeof *r->s->action_types);
    if (!r->s->action_types)
        return bw_fail_nomem(r->ctx);
    for (uint32_t i = 0; i < r->d->nactions; i++) {
        const bw_cedar__decl_action *a = &r->d->actions[i];
        uint32_t *parents = bw_arena_alloc(r->ctx, a->nparents * sizeof *parents);
        if (!parents)
            return bw_fail_nomem(r->ctx);
        for (uint32_t k = 0; k < a->nparents; k++)
            TRY(find_action(r, a, &a->parents[k], &parents[k]));
        b.parents[i] = parents;
        b.nparents[i] = a->nparents;
        TRY(finish_action(r, a, &r->s->action_types[i]));
    }
    return bw_cedar__build_close(&b);
}

static bw_status resolve_all(resolver *r)
{
    TRY(start_types(r));
    for (uint32_t i = 0; i < r->d->ncommons; i++) {
        const bw_cedar__type *t;
        TRY(resolve_common(r, &r->d->commons[i], 1, &t));
    }
    for (uint32_t i = 0; i < r->s->ntypes; i++)
        TRY(finish_type(r, &r->d->entities[i], &r->s->types[i]));
    TRY(close_types(r));
    return finish_actions(r);
}

static bool looks_like_json(bw_str t)
{
    size_t i = 0;
    while (i < t.len && (t.ptr[i] == ' ' || t.ptr[i] == '\t' || t.ptr[i] == '\n' ||
                         t.ptr[i] == '\r'))
        i++;
    return i < t.len && t.ptr[i] == '{';
}

bw_status bw_cedar_schema_parse(bw_ctx *ctx, bw_str text, bw_cedar_schema **out)
{
    bw_ctx *pool = bw_ctx_new(0);
    if (!pool)
        return bw_fail_nomem(ctx);
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    bw_cedar_schema *s = bw_arena_calloc(pool, 1, sizeof *s);
    bw_cedar__decls d = {.ctx = ctx, .pool = pool};
    resolver r = {.ctx = ctx, .pool = pool, .d = &d, .s = s};
    bw_str copy = {0};
    bw_status st = BW_ENOMEM;
    if (!s || bw_arena_str(pool, text, &copy) != BW_OK) {
        (void)bw_fail_nomem(ctx);
        goto out;
    }
    s->pool = pool;
    st = looks_like_json(copy) ? bw_cedar__schema_read_json(&d, copy)
                               : bw_cedar__schema_read_text(&d, copy);
    if (st == BW_OK)
        st = resolve_all(&r);
out:
    bw_arena_release(ctx, mark);
    if (st != BW_OK) {
        bw_ctx_free(pool);
        return st;
    }
    *out = s;
    return BW_OK;
}

void bw_cedar_schema_free(bw_cedar_schema *s)
{
    if (s)
        bw_ctx_free(s->pool);
}
