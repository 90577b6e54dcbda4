/* Schemas in JSON syntax to declarations: language description, section 7. Unknown keys
 * are refused everywhere. */
#include "schema.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

typedef struct reader {
    bw_cedar__decls *d;
    bw_str ns;
} reader;

static bw_status bad(const reader *r, const bw_json *at, const char *what)
{
    const char *pointer = bw_json_pointer(r->d->ctx, at);
    return bw_fail_at(r->d->ctx, BW_EINVALID, pointer ? pointer : "", "%s", what);
}

static bw_status keep(const reader *r, bw_str s, bw_str *out)
{
    return bw_arena_str(r->d->pool, s, out) == BW_OK ? BW_OK : bw_fail_nomem(r->d->ctx);
}

/* {"key": "text" or null}: checked and dropped. */
static bw_status annotations(const reader *r, const bw_json *object)
{
    const bw_json *all = bw_json_get(object, "annotations");
    if (!all)
        return BW_OK;
    if (all->kind != BW_JSON_OBJECT)
        return bad(r, all, "expected an object");
    for (const bw_json *m = all->child; m; m = m->next)
        if (!bw_cedar__is_ident(m->key) ||
            (m->kind != BW_JSON_STRING && m->kind != BW_JSON_NULL))
            return bad(r, m, "an annotation is a name with a text");
    return BW_OK;
}

/* An object with no members but those in allowed (ended by NULL). */
static bw_status object(const reader *r, const bw_json *json,
                        const char *const *allowed)
{
    if (!json || json->kind != BW_JSON_OBJECT)
        return bad(r, json, "expected an object");
    for (const bw_json *m = json->child; m; m = m->next) {
        const char *const *a = allowed;
        while (*a && !bw_str_eq(m->key, bw_str_c(*a)))
            a++;
        if (!*a)
            return bad(r, m, "unknown member of a schema");
    }
    return annotations(r, json);
}

static bw_status string(const reader *r, const bw_json *json, bw_str *out)
{
    if (!json || json->kind != BW_JSON_STRING)
        return bad(r, json, "expected a string");
    return keep(r, json->str, out);
}

/* A type's path; `__cedar` may come first only when the caller says so. */
static bw_status path(const reader *r, const bw_json *json, bool builtin, bw_str *out)
{
    TRY(string(r, json, out));
    bw_str rest = *out;
    if (builtin && rest.len > 9 && memcmp(rest.ptr, "__cedar::", 9) == 0)
        rest = (bw_str){rest.ptr + 9, rest.len - 9};
    return bw_cedar__is_path(rest) ? BW_OK : bad(r, json, "not a name");
}

static bw_status paths(const reader *r, const bw_json *json, bw_cedar__names *out)
{
    *out = (bw_cedar__names){0};
    if (!json)
        return BW_OK;
    if (json->kind != BW_JSON_ARRAY)
        return bad(r, json, "expected an array of names");
    bw_str *items = bw_arena_alloc(r->d->pool, json->count * sizeof *items);
    if (!items)
        return bw_fail_nomem(r->d->ctx);
    uint32_t n = 0;
    for (const bw_json *e = json->child; e; e = e->next)
        TRY(path(r, e, false, &items[n++]));
    *out = (bw_cedar__names){items, n};
    return BW_OK;
}

/* ---- types ---- */
static bw_status read_type(const reader *r, const bw_json *json, bool attr,
                           uint32_t depth, const bw_cedar__ref **out);

static bw_status read_attrs(const reader *r, const bw_json *type, uint32_t depth,
                            bw_cedar__ref *ref)
{
    const bw_json *attrs = bw_json_get(type, "attributes"),
                  *more = bw_json_get(type, "additionalAttributes");
    if (more && more->kind != BW_JSON_FALSE)
        return bad(r, more, "additional attributes are not supported");
    if (!attrs || attrs->kind != BW_JSON_OBJECT)
        return bad(r, attrs ? attrs : type, "a record needs attributes");
    ref->attrs = bw_arena_calloc(r->d->pool, attrs->count, sizeof *ref->attrs);
    if (!ref->attrs)
        return bw_fail_nomem(r->d->ctx);
    for (const bw_json *m = attrs->child; m; m = m->next) {
        bw_cedar__ref_attr *a = &ref->attrs[ref->nattrs++];
        const bw_json *required = bw_json_get(m, "required");
        if (required && !bw_json_is_bool(required))
            return bad(r, required, "expected true or false");
        a->required = !required || required->kind == BW_JSON_TRUE;
        TRY(keep(r, m->key, &a->name));
        TRY(read_type(r, m, true, depth + 1, &a->type));
    }
    return BW_OK;
}

typedef enum layout { SHAPE_PLAIN, SHAPE_SET, SHAPE_RECORD, SHAPE_NAMED } layout;

static bw_status check_members(const reader *r, const bw_json *json, bool attr,
                               layout s)
{
    static const char *const allowed[4][6] = {
        {"type", "annotations", NULL},
        {"type", "annotations", "element", NULL},
        {"type", "annotations", "attributes", "additionalAttributes", NULL},
        {"type", "annotations", "name", NULL},
    };
    static const char *const allowed_attr[4][7] = {
        {"type", "annotations", "required", NULL},
        {"type", "annotations", "required", "element", NULL},
        {"type", "annotations", "required", "attributes", "additionalAttributes", NULL},
        {"type", "annotations", "required", "name", NULL},
    };
    return object(r, json, attr ? allowed_attr[s] : allowed[s]);
}

static bw_status read_named(const reader *r, const bw_json *json, bw_str word,
                            bw_cedar__ref *ref)
{
    const bw_json *name = bw_json_get(json, "name");
    if (bw_str_is(word, "Extension")) {
        TRY(string(r, name, &ref->name));
        ref->ref = BW_CEDAR__REF_KIND;
        if (!bw_cedar__builtin_kind(ref->name, &ref->kind) ||
            ref->kind < BW_CEDAR__DECIMAL)
            return bad(r, name, "unknown extension type");
        return BW_OK;
    }
    ref->ref = bw_str_is(word, "Entity") ? BW_CEDAR__REF_ENTITY : BW_CEDAR__REF_NAME;
    return path(r, name, true, &ref->name);
}

static bw_status read_type(const reader *r, const bw_json *json, bool attr,
                           uint32_t depth, const bw_cedar__ref **out)
{
    const bw_json *type = bw_json_get(json, "type");
    if (depth > BW_CEDAR_DEPTH_MAX)
        return bad(r, json, "nested too deep");
    if (!type || type->kind != BW_JSON_STRING)
        return bad(r, json, "a type needs a member type");
    bw_cedar__ref *ref = bw_arena_calloc(r->d->pool, 1, sizeof *ref);
    if (!ref)
        return bw_fail_nomem(r->d->ctx);
    *out = ref;
    bw_str word = type->str;
    if (bw_str_is(word, "Set")) {
        TRY(check_members(r, json, attr, SHAPE_SET));
        ref->ref = BW_CEDAR__REF_SET;
        return read_type(r, bw_json_get(json, "element"), false, depth + 1,
                         &ref->element);
    }
    if (bw_str_is(word, "Record")) {
        TRY(check_members(r, json, attr, SHAPE_RECORD));
        ref->ref = BW_CEDAR__REF_RECORD;
        return read_attrs(r, json, depth, ref);
    }
    if (bw_str_is(word, "Entity") || bw_str_is(word, "Extension") ||
        bw_str_is(word, "EntityOrCommon")) {
        TRY(check_members(r, json, attr, SHAPE_NAMED));
        return read_named(r, json, word, ref);
    }
    TRY(check_members(r, json, attr, SHAPE_PLAIN));
    ref->ref = BW_CEDAR__REF_KIND;
    if (bw_str_is(word, "Boolean"))
        ref->kind = BW_CEDAR__BOOL;
    else if (!bw_cedar__builtin_kind(word, &ref->kind) ||
             ref->kind >= BW_CEDAR__DECIMAL) {
        ref->ref = BW_CEDAR__REF_COMMON;
        return path(r, type, true, &ref->name);
    }
    return BW_OK;
}

/* ---- declarations ---- */
static bw_status read_entity(const reader *r, const bw_json *json)
{
    static const char *const plain[] = {"memberOfTypes", "shape", "tags", "annotations",
                                        NULL},
                             *const enumerated[] = {"enum", "annotations", NULL};
    bw_cedar__decl_entity e = {.ns = r->ns};
    const bw_json *ids = bw_json_get(json, "enum"), *shape = bw_json_get(json, "shape"),
                  *tags = bw_json_get(json, "tags");
    TRY(object(r, json, ids ? enumerated : plain));
    if (!bw_cedar__is_ident(json->key) || bw_cedar__is_reserved(json->key))
        return bad(r, json, "not a name");
    TRY(bw_cedar__qualify(r->d->ctx, r->d->pool, r->ns, json->key, &e.name));
    if (ids) {
        if (ids->kind != BW_JSON_ARRAY || ids->count == 0)
            return bad(r, ids, "an enumerated type needs ids");
        bw_str *items = bw_arena_alloc(r->d->pool, ids->count * sizeof *items);
        if (!items)
            return bw_fail_nomem(r->d->ctx);
        for (const bw_json *i = ids->child; i; i = i->next)
            TRY(string(r, i, &items[e.ids.n++]));
        e.ids.items = items;
        e.is_enum = true;
    }
    TRY(paths(r, bw_json_get(json, "memberOfTypes"), &e.parents));
    if (shape)
        TRY(read_type(r, shape, false, 1, &e.shape));
    if (tags)
        TRY(read_type(r, tags, false, 1, &e.tags));
    return bw_cedar__decl_add_entity(r->d, &e);
}

static bw_status read_member_of(const reader *r, const bw_json *list,
                                bw_cedar__decl_action *a)
{
    static const char *const allowed[] = {"id", "type", NULL};
    if (!list)
        return BW_OK;
    if (list->kind != BW_JSON_ARRAY)
        return bad(r, list, "expected an array");
    bw_cedar__uid *parents = bw_arena_calloc(r->d->pool, list->count, sizeof *parents);
    if (!parents)
        return bw_fail_nomem(r->d->ctx);
    for (const bw_json *m = list->child; m; m = m->next) {
        bw_cedar__uid *uid = &parents[a->nparents++];
        TRY(object(r, m, allowed));
        TRY(string(r, bw_json_get(m, "id"), &uid->id));
        if (bw_json_get(m, "type"))
            TRY(path(r, bw_json_get(m, "type"), false, &uid->type));
    }
    a->parents = parents;
    return BW_OK;
}

static bw_status read_action(const reader *r, const bw_json *json)
{
    static const char *const members[] = {"memberOf", "appliesTo", "attributes",
                                          "annotations", NULL},
                             *const applied[] = {"principalTypes", "resourceTypes",
                                                 "context", NULL};
    bw_cedar__decl_action a = {.ns = r->ns};
    TRY(object(r, json, members));
    TRY(keep(r, json->key, &a.id));
    TRY(bw_cedar__qualify(r->d->ctx, r->d->pool, r->ns, BW_STR("Action"), &a.type));
    TRY(read_member_of(r, bw_json_get_value(json, "memberOf"), &a));
    if (bw_json_get_value(json, "attributes"))
        return bad(r, json, "attributes of actions are not supported");
    const bw_json *to = bw_json_get_value(json, "appliesTo");
    if (to) {
        TRY(object(r, to, applied));
        const bw_json *p = bw_json_get(to, "principalTypes"),
                      *q = bw_json_get(to, "resourceTypes"),
                      *context = bw_json_get(to, "context");
        if (!p || !q)
            return bad(r, to, "appliesTo needs principalTypes and resourceTypes");
        a.applies = true;
        TRY(paths(r, p, &a.principals));
        TRY(paths(r, q, &a.resources));
        if (context)
            TRY(read_type(r, context, false, 1, &a.context));
    }
    return bw_cedar__decl_add_action(r->d, &a);
}

static bw_status read_common(const reader *r, const bw_json *json)
{
    static const char *const reserved[] = {"Bool", "Boolean", "Entity", "Extension",
                                           "Long", "Record",  "Set",    "String"};
    bw_cedar__decl_common c = {.ns = r->ns};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (bw_str_eq(json->key, bw_str_c(reserved[i])))
            return bad(r, json, "this name is reserved");
    if (!bw_cedar__is_ident(json->key) || bw_cedar__is_reserved(json->key))
        return bad(r, json, "not a name");
    TRY(bw_cedar__qualify(r->d->ctx, r->d->pool, r->ns, json->key, &c.name));
    TRY(read_type(r, json, false, 1, &c.type));
    return bw_cedar__decl_add_common(r->d, &c);
}

static bw_status read_namespace(reader *r, const bw_json *json)
{
    static const char *const members[] = {"entityTypes", "actions", "commonTypes",
                                          "annotations", NULL};
    TRY(object(r, json, members));
    if (json->key.len && !bw_cedar__is_path(json->key))
        return bad(r, json, "not the name of a namespace");
    if (json->key.len == 0 && bw_json_get(json, "annotations"))
        return bad(r, json, "the empty namespace has no annotations");
    TRY(keep(r, json->key, &r->ns));
    const bw_json *types = bw_json_get(json, "entityTypes"),
                  *actions = bw_json_get(json, "actions"),
                  *commons = bw_json_get(json, "commonTypes");
    if (!types || types->kind != BW_JSON_OBJECT || !actions ||
        actions->kind != BW_JSON_OBJECT || (commons && commons->kind != BW_JSON_OBJECT))
        return bad(r, json, "a namespace needs entityTypes and actions, as objects");
    for (const bw_json *m = types->child; m; m = m->next)
        TRY(read_entity(r, m));
    for (const bw_json *m = actions->child; m; m = m->next)
        TRY(read_action(r, m));
    for (const bw_json *m = commons ? commons->child : NULL; m; m = m->next)
        TRY(read_common(r, m));
    return BW_OK;
}

bw_status bw_cedar__schema_read_json(bw_cedar__decls *d, bw_str text)
{
    bw_json *json;
    reader r = {.d = d};
    TRY(bw_json_parse(d->ctx, text, BW_JSON_CEDAR, &json));
    if (json->kind != BW_JSON_OBJECT)
        return bad(&r, json, "a schema is an object");
    for (const bw_json *ns = json->child; ns; ns = ns->next)
        TRY(read_namespace(&r, ns));
    return BW_OK;
}
