/* Entities and contexts put together by our own code, without JSON between: one block
 * of memory, sized beforehand, filled from front to back. What is made is held against
 * the schema as it would be if it had been read. */
#include "schema.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

typedef struct room {
    char *next, *end;
} room;

static size_t padded(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

static void *take(room *r, size_t n)
{
    char *p = r->next;
    bw_require(padded(n) <= (size_t)(r->end - p));
    r->next += padded(n);
    return p;
}

static bw_str keep(room *r, bw_str s)
{
    char *p = take(r, s.len);
    if (s.len)
        memcpy(p, s.ptr, s.len);
    return (bw_str){p, s.len};
}

/* ---- values ---- */
static size_t field_bytes(const bw_cedar_field *f)
{
    size_t bytes = f->n * 2 * padded(sizeof(bw_cedar__uid));
    for (size_t i = 0; i < f->n; i++)
        bytes += padded(f->texts[i].len);
    return bytes;
}

static size_t record_bytes(const bw_cedar_field *fields, size_t n)
{
    size_t bytes = padded(n * sizeof(bw_cedar__member));
    for (size_t i = 0; i < n; i++)
        bytes += field_bytes(&fields[i]);
    return bytes;
}

static bw_cedar_value text_value(room *r, const bw_cedar_field *f, size_t i)
{
    bw_str text = keep(r, f->texts[i]);
    if (f->kind == BW_CEDAR_FIELD_STRING || f->kind == BW_CEDAR_FIELD_STRINGS)
        return bw_cedar__string(text);
    bw_cedar__uid *uid = take(r, sizeof *uid);
    *uid = bw_cedar__uid_make(f->type, text);
    return bw_cedar__entity(uid);
}

static bw_cedar_value field_value(room *r, const bw_cedar_field *f)
{
    uint64_t cost = 0;
    switch (f->kind) {
    case BW_CEDAR_FIELD_BOOL:
        return bw_cedar__bool(f->number != 0);
    case BW_CEDAR_FIELD_LONG:
        return bw_cedar__int(BW_CEDAR__LONG, f->number);
    case BW_CEDAR_FIELD_DATETIME:
        return bw_cedar__int(BW_CEDAR__DATETIME, f->number);
    case BW_CEDAR_FIELD_STRING:
    case BW_CEDAR_FIELD_ENTITY:
        bw_require(f->n == 1);
        return text_value(r, f, 0);
    case BW_CEDAR_FIELD_STRINGS:
    case BW_CEDAR_FIELD_ENTITIES:
        break;
    }
    bw_cedar_value *items = take(r, f->n * sizeof *items);
    for (size_t i = 0; i < f->n; i++)
        items[i] = text_value(r, f, i);
    return (bw_cedar_value){.kind = BW_CEDAR__SET,
                            .n = bw_cedar__set_sort(items, (uint32_t)f->n, &cost),
                            .u.items = items};
}

static bw_cedar_value record(room *r, const bw_cedar_field *fields, size_t n)
{
    bw_cedar__member *m = take(r, n * sizeof *m);
    for (size_t i = 0; i < n; i++)
        m[i] = (bw_cedar__member){fields[i].name, field_value(r, &fields[i])};
    bw_require(bw_cedar__record_sort(m, (uint32_t)n)); /* a name is given once */
    return (bw_cedar_value){
        .kind = BW_CEDAR__RECORD, .n = (uint32_t)n, .u.members = m};
}

bw_status bw_cedar_context_make(bw_ctx *ctx, const bw_cedar_field *fields, size_t n,
                                const bw_cedar_value **out)
{
    size_t bytes = padded(sizeof **out) + record_bytes(fields, n);
    room r = {.next = bw_arena_alloc(ctx, bytes)};
    if (!r.next)
        return bw_fail_nomem(ctx);
    r.end = r.next + bytes;
    bw_cedar_value *v = take(&r, sizeof *v);
    *v = record(&r, fields, n);
    *out = v;
    return BW_OK;
}

/* ---- entities ---- */
static size_t objects_max(const bw_cedar_entity *list, size_t n,
                          const bw_cedar_entities *with)
{
    size_t most = n + (with ? with->n : 0);
    for (size_t i = 0; i < n; i++)
        most += list[i].nparents;
    return most;
}

static size_t slots_for(size_t objects)
{
    size_t slots = 8; /* at most half full */
    while (slots < 2 * objects)
        slots *= 2;
    return slots;
}

size_t bw_cedar_entities_bytes(const bw_cedar_entity *list, size_t n,
                               const bw_cedar_entities *with)
{
    size_t objects = objects_max(list, n, with);
    size_t bytes = padded(sizeof(bw_cedar_entities)) +
                   padded(objects * sizeof(bw_cedar__object)) +
                   padded(slots_for(objects) * sizeof(uint32_t));
    for (size_t i = 0; i < n; i++) {
        const bw_cedar_entity *e = &list[i];
        bytes += padded(e->uid.id.len) + record_bytes(e->fields, e->nfields) +
                 padded(e->nparents * sizeof(uint32_t));
        for (size_t k = 0; k < e->nparents; k++)
            bytes += padded(e->parents[k].len);
    }
    return bytes;
}

static bw_cedar__object *object_of(bw_cedar_entities *s, const bw_cedar__uid *uid)
{
    static const bw_cedar_value none = {.kind = BW_CEDAR__RECORD};
    const bw_cedar__object *known = bw_cedar__store_get(s, uid);
    if (known)
        return &s->objects[known - s->objects];
    bw_cedar__object *o = &s->objects[s->n];
    *o = (bw_cedar__object){.uid = *uid, .attrs = none, .tags = none};
    bw_cedar__slot_put(s, s->n++);
    return o;
}

/* Parents here are leaves of the store, so they are all the ancestors as well; what is
 * above them comes from the large store. */
static bw_status put_parents(bw_ctx *ctx, const bw_cedar_schema *schema, room *r,
                             const bw_cedar_entity *e, uint32_t type,
                             bw_cedar_entities *s, bw_cedar__object *o)
{
    uint32_t *up = take(r, e->nparents * sizeof *up), n = 0;
    if (e->nparents && !bw_cedar__may_be_below(schema, type, e->parent_type))
        return bw_fail(ctx, BW_EINVALID, "the schema allows no parent of this type");
    for (size_t i = 0; i < e->nparents; i++) {
        bw_cedar__uid uid =
            bw_cedar__uid_make(e->parent_type, keep(r, e->parents[i]));
        const bw_cedar__object *parent = object_of(s, &uid);
        if (parent->defined || !bw_cedar__schema_id_ok(schema, &uid))
            return bw_fail(ctx, BW_EINVALID, "a parent that cannot be one");
        uint32_t index = (uint32_t)(parent - s->objects), k = n;
        while (k > 0 && up[k - 1] > index)
            k--;
        if (k > 0 && up[k - 1] == index)
            continue;
        memmove(up + k + 1, up + k, (n++ - k) * sizeof *up);
        up[k] = index;
    }
    if (e->nparents)
        bw_cedar__store_note_above(s, e->parent_type);
    o->ancestors = o->parents = up;
    o->nancestors = o->nparents = n;
    return BW_OK;
}

static bw_status put_entity(bw_ctx *ctx, const bw_cedar_schema *schema, room *r,
                            const bw_cedar_entity *e, bw_cedar_entities *s)
{
    bw_cedar__uid uid = bw_cedar__uid_make(e->uid.type, keep(r, e->uid.id));
    uint32_t type = bw_cedar__schema_type(schema, uid.type);
    bw_cedar_value attrs = record(r, e->fields, e->nfields);
    if (type == BW_CEDAR__NO_TYPE || !bw_cedar__schema_id_ok(schema, &uid) ||
        !bw_cedar__value_fits(schema, &attrs, schema->types[type].shape))
        return bw_fail(ctx, BW_EINVALID, "an entity does not fit the schema");
    bw_cedar__object *o = object_of(s, &uid);
    if (o->defined)
        return bw_fail(ctx, BW_EINVALID, "an entity is there twice");
    o->defined = true;
    o->attrs = attrs;
    return put_parents(ctx, schema, r, e, type, s, o);
}

bw_status bw_cedar_entities_make(bw_ctx *ctx, const bw_cedar_schema *schema,
                                 const bw_cedar_entity *list, size_t n,
                                 const bw_cedar_entities *with, void *block,
                                 bw_cedar_entities **out)
{
    size_t bytes = bw_cedar_entities_bytes(list, n, with);
    size_t objects = objects_max(list, n, with), slots = slots_for(objects);
    room r = {.next = block ? block : bw_arena_alloc(ctx, bytes)};
    if (!r.next)
        return bw_fail_nomem(ctx);
    r.end = r.next + bytes;
    bw_cedar_entities *s = take(&r, sizeof *s);
    *s = (bw_cedar_entities){.objects = take(&r, objects * sizeof *s->objects),
                             .slots = take(&r, slots * sizeof *s->slots),
                             .mask = (uint32_t)slots - 1};
    memset(s->slots, 0, slots * sizeof *s->slots);
    for (uint32_t i = 0; with && i < with->n; i++) {
        bw_require(with->objects[i].nancestors == 0);
        *object_of(s, &with->objects[i].uid) = with->objects[i];
    }
    for (size_t i = 0; i < n; i++)
        TRY(put_entity(ctx, schema, &r, &list[i], s));
    *out = s;
    return BW_OK;
}
