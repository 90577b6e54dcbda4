/* The entity store: hash table, transitive closure, and reading from JSON. */
#include "schema.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

static const bw_cedar_value empty_record = {.kind = BW_CEDAR__RECORD};

const bw_cedar__object *bw_cedar__store_get(const bw_cedar_entities *e,
                                            const bw_cedar__uid *uid)
{
    if (e->n == 0)
        return NULL;
    for (uint32_t i = (uint32_t)uid->hash & e->mask;; i = (i + 1) & e->mask) {
        if (e->slots[i] == 0)
            return NULL;
        const bw_cedar__object *o = &e->objects[e->slots[i] - 1];
        if (bw_cedar__uid_eq(&o->uid, uid))
            return o;
    }
}

/* ---- building ---- */
void bw_cedar__slot_put(bw_cedar_entities *s, uint32_t index)
{
    uint32_t i = (uint32_t)s->objects[index].uid.hash & s->mask;
    while (s->slots[i] != 0)
        i = (i + 1) & s->mask;
    s->slots[i] = index + 1;
}

static bw_status build_grow(bw_cedar__build *b, uint32_t cap)
{
    bw_cedar_entities *s = b->store;
    uint32_t size = 8; /* slots: at most half full */
    while (size < cap * 2)
        size *= 2;
    void *objects = bw_arena_grow(b->pool, s->objects, s->n * sizeof *s->objects,
                                  cap * sizeof *s->objects);
    uint32_t *slots = bw_arena_calloc(b->pool, size, sizeof *slots);
    void *parents = bw_arena_grow(b->ctx, b->parents, s->n * sizeof *b->parents,
                                  cap * sizeof *b->parents);
    void *counts = bw_arena_grow(b->ctx, b->nparents, s->n * sizeof *b->nparents,
                                 cap * sizeof *b->nparents);
    if (!objects || !slots || !parents || !counts)
        return bw_fail_nomem(b->ctx);
    s->objects = objects;
    s->slots = slots;
    s->mask = size - 1;
    b->parents = parents;
    b->nparents = counts;
    b->cap = cap;
    for (uint32_t i = 0; i < s->n; i++)
        bw_cedar__slot_put(s, i);
    return BW_OK;
}

bw_status bw_cedar__build_start(bw_ctx *ctx, bw_ctx *pool, uint32_t expected,
                                bw_cedar__build *b)
{
    bw_cedar_entities *store = b->store;
    *b = (bw_cedar__build){.ctx = ctx, .pool = pool, .store = store};
    return build_grow(b, expected < 4 ? 4 : expected);
}

bw_status bw_cedar__build_object(bw_cedar__build *b, const bw_cedar__uid *uid,
                                 uint32_t *index)
{
    bw_cedar_entities *s = b->store;
    const bw_cedar__object *o = bw_cedar__store_get(s, uid);
    if (o) {
        *index = (uint32_t)(o - s->objects);
        return BW_OK;
    }
    if (s->n >= BW_CEDAR_ENTITIES_MAX)
        return bw_fail(b->ctx, BW_EINVALID, "more than %d entities",
                       BW_CEDAR_ENTITIES_MAX);
    if (s->n == b->cap)
        TRY(build_grow(b, b->cap * 2));
    s->objects[s->n] =
        (bw_cedar__object){.uid = *uid, .attrs = empty_record, .tags = empty_record};
    b->parents[s->n] = NULL;
    b->nparents[s->n] = 0;
    *index = s->n++;
    bw_cedar__slot_put(s, *index);
    return BW_OK;
}

/* ---- closure ---- */
static void sort_u32(uint32_t *v, uint32_t n)
{
    for (uint32_t gap = n / 2; gap > 0;
         gap /= 2) /* shell sort: short lists, no memory */
        for (uint32_t i = gap; i < n; i++) {
            uint32_t t = v[i], k = i;
            for (; k >= gap && v[k - gap] > t; k -= gap)
                v[k] = v[k - gap];
            v[k] = t;
        }
}

typedef struct closing {
    bw_cedar__build *b;
    uint8_t *state; /* 0 new, 1 on the stack, 2 done */
    uint32_t *stack, *next, depth;
    uint32_t *seen; /* seen[a] == o + 1: a is already an ancestor of o */
    uint32_t *list;
} closing;

static bw_status close_one(closing *c, uint32_t o)
{
    bw_cedar__object *objects = c->b->store->objects;
    uint32_t n = 0;
    for (uint32_t p = 0; p < c->b->nparents[o]; p++) {
        uint32_t parent = c->b->parents[o][p];
        const bw_cedar__object *up = &objects[parent];
        for (uint32_t k = 0; k <= up->nancestors; k++) {
            uint32_t a = k == up->nancestors ? parent : up->ancestors[k];
            if (c->seen[a] == o + 1)
                continue;
            c->seen[a] = o + 1;
            if (n == BW_CEDAR_ANCESTORS_MAX)
                return bw_fail(c->b->ctx, BW_EINVALID,
                               "an entity has more than %d ancestors",
                               BW_CEDAR_ANCESTORS_MAX);
            c->list[n++] = a;
        }
    }
    sort_u32(c->list, n);
    uint32_t np = c->b->nparents[o];
    uint32_t *kept = bw_arena_alloc(c->b->pool, ((size_t)n + np) * sizeof *kept);
    if (!kept)
        return bw_fail_nomem(c->b->ctx);
    if (n)
        memcpy(kept, c->list, n * sizeof *kept);
    if (np)
        memcpy(kept + n, c->b->parents[o], np * sizeof *kept);
    objects[o].ancestors = kept;
    objects[o].nancestors = n;
    objects[o].parents = kept + n;
    objects[o].nparents = np;
    return BW_OK;
}

/* Depth first from `root`, with a stack of our own. */
static bw_status close_from(closing *c, uint32_t root)
{
    if (c->state[root] != 0)
        return BW_OK;
    c->depth = 0;
    c->stack[c->depth] = root;
    c->next[c->depth++] = 0;
    c->state[root] = 1;
    while (c->depth > 0) {
        uint32_t o = c->stack[c->depth - 1], i = c->next[c->depth - 1]++;
        if (i < c->b->nparents[o]) {
            uint32_t parent = c->b->parents[o][i];
            if (c->state[parent] == 1)
                return bw_fail(c->b->ctx, BW_EINVALID, "the hierarchy has a cycle");
            if (c->state[parent] == 0) {
                c->state[parent] = 1;
                c->stack[c->depth] = parent;
                c->next[c->depth++] = 0;
            }
            continue;
        }
        TRY(close_one(c, o));
        c->state[o] = 2;
        c->depth--;
    }
    return BW_OK;
}

bool bw_cedar__store_has_above(const bw_cedar_entities *s, bw_str type)
{
    bool found = s->nabove > BW_CEDAR__ABOVE_MAX;
    for (uint32_t i = 0; !found && i < s->nabove; i++)
        found = bw_str_eq(s->above[i], type);
    return found;
}

void bw_cedar__store_note_above(bw_cedar_entities *s, bw_str type)
{
    if (bw_cedar__store_has_above(s, type))
        return;
    if (s->nabove < BW_CEDAR__ABOVE_MAX)
        s->above[s->nabove] = type;
    s->nabove++;
}

bw_status bw_cedar__build_close(bw_cedar__build *b)
{
    uint32_t n = b->store->n;
    closing c = {.b = b};
    c.state = bw_arena_calloc(b->ctx, n, 1);
    c.stack = bw_arena_calloc(b->ctx, n, sizeof *c.stack);
    c.next = bw_arena_calloc(b->ctx, n, sizeof *c.next);
    c.seen = bw_arena_calloc(b->ctx, n, sizeof *c.seen);
    c.list = bw_arena_calloc(b->ctx, n, sizeof *c.list);
    if (!c.state || !c.stack || !c.next || !c.seen || !c.list)
        return bw_fail_nomem(b->ctx);
    for (uint32_t o = 0; o < n; o++)
        TRY(close_from(&c, o));
    for (uint32_t o = 0; o < n; o++)
        for (uint32_t k = 0; k < b->nparents[o]; k++)
            bw_cedar__store_note_above(b->store,
                                       b->store->objects[b->parents[o][k]].uid.type);
    return BW_OK;
}

/* ---- from JSON ---- */
typedef struct loader {
    bw_cedar__reader r;
    bw_cedar__build b;
} loader;

static bw_status bad(loader *l, const bw_json *at, const char *what)
{
    const char *pointer = bw_json_pointer(l->r.ctx, at);
    return bw_fail_at(l->r.ctx, BW_EINVALID, pointer ? pointer : "", "%s", what);
}

bool bw_cedar__may_be_below(const bw_cedar_schema *s, uint32_t type, bw_str parent)
{
    const bw_cedar__entity_type *t = &s->types[type];
    uint32_t p = bw_cedar__schema_type(s, parent);
    for (uint32_t i = 0; i < t->nancestors; i++)
        if (t->ancestors[i] == p)
            return true;
    return false;
}

/* Parents as object indexes, ascending, each once. type: the child's, or
 * BW_CEDAR__NO_TYPE. */
static bw_status load_parents(loader *l, const bw_json *json, uint32_t type,
                              uint32_t **out, uint32_t *n)
{
    const bw_json *e;
    *out = bw_arena_alloc(l->r.ctx, json->count * sizeof **out);
    *n = 0;
    if (!*out)
        return bw_fail_nomem(l->r.ctx);
    TRY(bw_json_elements(l->r.ctx, json, &e));
    for (; e; e = e->next) {
        bw_cedar__uid uid;
        TRY(bw_cedar__read_uid(&l->r, e, &uid));
        if (type != BW_CEDAR__NO_TYPE &&
            !bw_cedar__may_be_below(l->r.schema, type, uid.type))
            return bad(l, e, "the schema allows no parent of this type");
        TRY(bw_cedar__build_object(&l->b, &uid, &(*out)[*n]));
        ++*n;
    }
    sort_u32(*out, *n);
    uint32_t k = 0;
    for (uint32_t i = 0; i < *n; i++)
        if (i == 0 || (*out)[i] != (*out)[k - 1])
            (*out)[k++] = (*out)[i];
    *n = k;
    return BW_OK;
}

static bw_status load_attrs(loader *l, const bw_json *entity, uint32_t type,
                            bw_cedar_value *attrs, bw_cedar_value *tags)
{
    const bw_json *a = bw_json_get(entity, "attrs"), *t = bw_json_get(entity, "tags");
    if (!a || a->kind != BW_JSON_OBJECT || (t && t->kind != BW_JSON_OBJECT))
        return bad(l, entity, "an entity needs attrs, and tags if any, as objects");
    const bw_cedar__entity_type *et =
        type == BW_CEDAR__NO_TYPE ? NULL : &l->r.schema->types[type];
    *attrs = *tags = empty_record;
    TRY(bw_cedar__read_record(&l->r, a, et ? et->shape : NULL, 1, attrs));
    if (!t || t->count == 0)
        return BW_OK;
    if (et && !et->tags)
        return bad(l, t, "the schema declares no tags for this type");
    bw_cedar__member *m = bw_arena_alloc(l->r.pool, t->count * sizeof *m);
    uint32_t n = 0;
    if (!m)
        return bw_fail_nomem(l->r.ctx);
    for (const bw_json *j = t->child; j; j = j->next, n++) {
        if (bw_arena_str(l->r.pool, j->key, &m[n].key) != BW_OK)
            return bw_fail_nomem(l->r.ctx);
        TRY(bw_cedar__read_value(&l->r, j, et ? et->tags : NULL, 2, &m[n].value));
    }
    if (!bw_cedar__record_sort(m, n))
        return bad(l, t, "a tag is there twice");
    *tags = (bw_cedar_value){.kind = BW_CEDAR__RECORD, .n = n, .u.members = m};
    return BW_OK;
}

static bw_status load_entity(loader *l, const bw_json *json)
{
    const bw_json *id = bw_json_get(json, "uid"), *up = bw_json_get(json, "parents");
    if (json->kind != BW_JSON_OBJECT || !id || !bw_json_is_array(up))
        return bad(l, json, "an entity needs uid, attrs and parents");
    bw_cedar__uid uid;
    TRY(bw_cedar__read_uid(&l->r, id, &uid));
    const bw_cedar_schema *schema = l->r.schema;
    bool action = schema && bw_cedar__is_action_type(uid.type);
    uint32_t type =
        schema && !action ? bw_cedar__schema_type(schema, uid.type) : BW_CEDAR__NO_TYPE;
    if (schema && !action && type == BW_CEDAR__NO_TYPE)
        return bad(l, id, "entity of a type that the schema does not declare");
    bw_cedar_value attrs, tags;
    uint32_t *parents, nparents, index;
    TRY(load_attrs(l, json, type, &attrs, &tags));
    TRY(bw_cedar__build_object(&l->b, &uid, &index));
    TRY(load_parents(l, up, type, &parents, &nparents));
    bw_cedar__object *o = &l->b.store->objects[index];
    if (o->defined) {
        uint64_t cost = 0;
        bool same = bw_cedar__cmp(&o->attrs, &attrs, &cost) == 0 &&
                    bw_cedar__cmp(&o->tags, &tags, &cost) == 0 &&
                    l->b.nparents[index] == nparents &&
                    (nparents == 0 || memcmp(l->b.parents[index], parents,
                                             nparents * sizeof *parents) == 0);
        return same ? BW_OK : bad(l, id, "an entity is there twice and differs");
    }
    o->defined = true;
    o->attrs = attrs;
    o->tags = tags;
    l->b.parents[index] = parents;
    l->b.nparents[index] = nparents;
    return BW_OK;
}

/* Actions that the data repeat must be as the schema has them. */
static bw_status check_actions(loader *l)
{
    const bw_cedar_entities *s = l->b.store, *known = &l->r.schema->actions;
    for (uint32_t i = 0; i < s->n; i++) {
        const bw_cedar__object *o = &s->objects[i];
        if (!o->defined || !bw_cedar__is_action_type(o->uid.type))
            continue;
        const bw_cedar__object *k = bw_cedar__store_get(known, &o->uid);
        bool same = k && k->defined && o->attrs.n == 0 && o->tags.n == 0 &&
                    o->nancestors == k->nancestors;
        for (uint32_t a = 0; same && a < o->nancestors; a++) {
            const bw_cedar__object *up =
                bw_cedar__store_get(known, &s->objects[o->ancestors[a]].uid);
            same = up && bw_cedar__object_below(k, (uint32_t)(up - known->objects));
        }
        if (!same)
            return bw_fail(l->r.ctx, BW_EINVALID,
                           "an action entity differs from the schema's");
    }
    return BW_OK;
}

static bw_status load_all(loader *l, const bw_json *array)
{
    const bw_json *e;
    TRY(bw_json_elements(l->r.ctx, array, &e));
    for (; e; e = e->next)
        TRY(load_entity(l, e));
    TRY(bw_cedar__build_close(&l->b));
    return l->r.schema ? check_actions(l) : BW_OK;
}

bw_status bw_cedar_entities_parse(bw_ctx *ctx, const bw_json *array,
                                  const bw_cedar_schema *schema,
                                  bw_cedar_entities **out)
{
    if (!bw_json_is_array(array))
        return bw_fail(ctx, BW_EINVALID, "entities must be a JSON array");
    if (array->count > BW_CEDAR_ENTITIES_MAX)
        return bw_fail(ctx, BW_EINVALID, "more than %d entities",
                       BW_CEDAR_ENTITIES_MAX);
    bw_ctx *pool = bw_ctx_new((size_t)1 << 32);
    if (!pool)
        return bw_fail_nomem(ctx);
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    loader l = {.r = {ctx, pool, schema}};
    bw_status st = BW_ENOMEM;
    l.b.store = bw_arena_calloc(pool, 1, sizeof *l.b.store);
    if (l.b.store)
        st = bw_cedar__build_start(ctx, pool, array->count, &l.b);
    else
        (void)bw_fail_nomem(ctx);
    if (st == BW_OK)
        st = load_all(&l, array);
    bw_arena_release(ctx, mark);
    if (st != BW_OK) {
        bw_ctx_free(pool);
        return st;
    }
    l.b.store->pool = pool;
    *out = l.b.store;
    return BW_OK;
}

void bw_cedar_entities_free(bw_cedar_entities *e)
{
    if (e)
        bw_ctx_free(e->pool);
}
