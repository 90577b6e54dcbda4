/* JSON to values: language description, section 6. With a type, the short forms of
 * entities and extension values are understood and everything must fit exactly. */
#include "schema.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

static bw_status bad(const bw_cedar__reader *r, const bw_json *at, const char *what)
{
    const char *pointer = bw_json_pointer(r->ctx, at);
    return bw_fail_at(r->ctx, BW_EINVALID, pointer ? pointer : "", "%s", what);
}

static bw_status keep(const bw_cedar__reader *r, bw_str s, bw_str *out)
{
    return bw_arena_str(r->pool, s, out) == BW_OK ? BW_OK : bw_fail_nomem(r->ctx);
}

static bw_status type_and_id(const bw_cedar__reader *r, const bw_json *json,
                             bw_cedar__uid *out)
{
    const bw_json *type = bw_json_get(json, "type"), *id = bw_json_get(json, "id");
    if (!type || type->kind != BW_JSON_STRING || !id || id->kind != BW_JSON_STRING)
        return bad(r, json, "an entity needs type and id, both strings");
    if (!bw_cedar__is_path(type->str))
        return bad(r, type, "not the name of an entity type");
    bw_str t, i;
    TRY(keep(r, type->str, &t));
    TRY(keep(r, id->str, &i));
    *out = bw_cedar__uid_make(t, i);
    if (r->schema && !bw_cedar__schema_id_ok(r->schema, out))
        return bad(r, id, "this enumerated entity type has no such id");
    return BW_OK;
}

static bool is_string(const bw_json *object, const char *key)
{
    const bw_json *v = bw_json_get(object, key);
    return v && v->kind == BW_JSON_STRING;
}

/* Without a type an object is an escape only when it has that one member and the member
 * has the right shape; any other object is a record, as in the reference engine. Where
 * a type asks for an entity or extension value, a member of that name is enough. */
static const bw_json *entity_escape(const bw_json *json)
{
    const bw_json *inner = json->count == 1 ? bw_json_get(json, "__entity") : NULL;
    return inner && is_string(inner, "type") && is_string(inner, "id") ? inner : NULL;
}

const bw_json *bw_cedar__call_escape(const bw_json *json)
{
    const bw_json *inner = json->count == 1 ? bw_json_get(json, "__extn") : NULL;
    bool whole =
        inner && is_string(inner, "fn") &&
        (bw_json_get(inner, "arg") || bw_json_is_array(bw_json_get(inner, "args")));
    return whole ? inner : NULL;
}

bool bw_cedar__other_escape(const bw_json *json)
{
    return entity_escape(json) || (json->count == 1 && is_string(json, "__expr"));
}

bw_status bw_cedar__read_uid(const bw_cedar__reader *r, const bw_json *json,
                             bw_cedar__uid *out)
{
    const bw_json *inner = bw_json_get(json, "__entity");
    return type_and_id(r, inner ? inner : json, out);
}

static bw_status read_call(const bw_cedar__reader *r, const bw_json *json,
                           uint32_t depth, bw_cedar_value *out)
{
    const bw_json *name = bw_json_get(json, "fn"), *arg = bw_json_get(json, "arg"),
                  *args = bw_json_get(json, "args");
    bw_cedar__fn fn;
    if (!name || name->kind != BW_JSON_STRING || !bw_cedar__fn_any(name->str, &fn))
        return bad(r, json, "unknown extension function");
    if (arg) /* both: arg counts */
        args = NULL;
    else if (!bw_json_is_array(args))
        return bad(r, json, "an extension call needs arg, or args as an array");
    bw_cedar_value v[3];
    uint32_t n = 0;
    const bw_json *a = arg;
    if (args)
        TRY(bw_json_elements(r->ctx, args, &a));
    for (; a; a = args ? a->next : NULL) {
        if (n == 3)
            return bad(r, json, "too many arguments");
        TRY(bw_cedar__read_value(r, a, NULL, depth + 1, &v[n++]));
    }
    bool memory = false;
    const char *why = bw_cedar__fn_call(r->pool, fn, v, n, out, &memory);
    if (memory)
        return bw_fail_nomem(r->ctx);
    return why ? bad(r, json, why) : BW_OK;
}

static bw_status read_set(const bw_cedar__reader *r, const bw_json *json,
                          const bw_cedar__type *element, uint32_t depth,
                          bw_cedar_value *out)
{
    bw_cedar_value *items = bw_arena_alloc(r->pool, json->count * sizeof *items);
    const bw_json *e;
    uint32_t n = 0;
    uint64_t cost = 0;
    if (!items)
        return bw_fail_nomem(r->ctx);
    TRY(bw_json_elements(r->ctx, json, &e));
    for (; e; e = e->next)
        TRY(bw_cedar__read_value(r, e, element, depth + 1, &items[n++]));
    assert(n == json->count);
    n = bw_cedar__set_sort(items, n, &cost);
    *out = (bw_cedar_value){.kind = BW_CEDAR__SET, .n = n, .u.items = items};
    return BW_OK;
}

bw_status bw_cedar__read_record(const bw_cedar__reader *r, const bw_json *json,
                                const bw_cedar__type *type, uint32_t depth,
                                bw_cedar_value *out)
{
    bw_cedar__member *members = bw_arena_alloc(r->pool, json->count * sizeof *members);
    uint32_t n = 0, required = 0;
    if (!members)
        return bw_fail_nomem(r->ctx);
    for (const bw_json *m = json->child; m; m = m->next) {
        const bw_cedar__attr *attr = type ? bw_cedar__type_attr(type, m->key) : NULL;
        if (type && !attr)
            return bad(r, m, "attribute that the schema does not declare");
        required += attr && attr->required;
        TRY(keep(r, m->key, &members[n].key));
        TRY(bw_cedar__read_value(r, m, attr ? attr->type : NULL, depth + 1,
                                 &members[n].value));
        n++;
    }
    for (uint32_t i = 0; type && i < type->nattrs; i++)
        required -= type->attrs[i].required;
    if (required != 0)
        return bad(r, json, "a required attribute is missing");
    if (!bw_cedar__record_sort(members, n))
        return bad(r, json, "a key is there twice");
    *out = (bw_cedar_value){.kind = BW_CEDAR__RECORD, .n = n, .u.members = members};
    return BW_OK;
}

static bw_status read_entity(const bw_cedar__reader *r, const bw_json *json,
                             const bw_cedar__type *type, bw_cedar_value *out)
{
    bw_cedar__uid *uid = bw_arena_alloc(r->pool, sizeof *uid);
    if (!uid)
        return bw_fail_nomem(r->ctx);
    if (json->kind != BW_JSON_OBJECT)
        return bad(r, json, "expected an entity");
    TRY(bw_cedar__read_uid(r, json, uid));
    if (type && !bw_str_eq(uid->type, type->name))
        return bad(r, json, "entity of a type other than the schema's");
    *out = bw_cedar__entity(uid);
    return BW_OK;
}

/* Places typed as an extension value: the long form, {"fn","arg"}, or the bare
 * argument. */
static bw_status read_extension(const bw_cedar__reader *r, const bw_json *json,
                                uint8_t kind, uint32_t depth, bw_cedar_value *out)
{
    const bw_json *inner = bw_json_get(json, "__extn");
    if (inner || json->kind == BW_JSON_OBJECT)
        return read_call(r, inner ? inner : json, depth, out);
    if (json->kind != BW_JSON_STRING)
        return bad(r, json, "expected an extension value");
    bw_cedar__fn fn = kind == BW_CEDAR__IP         ? BW_CEDAR__FN_IP
                      : kind == BW_CEDAR__DECIMAL  ? BW_CEDAR__FN_DECIMAL
                      : kind == BW_CEDAR__DATETIME ? BW_CEDAR__FN_DATETIME
                                                   : BW_CEDAR__FN_DURATION;
    bw_cedar_value arg = bw_cedar__string(json->str);
    bool memory = false;
    const char *why = bw_cedar__fn_call(r->pool, fn, &arg, 1, out, &memory);
    if (memory)
        return bw_fail_nomem(r->ctx);
    return why ? bad(r, json, why) : BW_OK;
}

static bw_status read_plain(const bw_cedar__reader *r, const bw_json *json,
                            uint32_t depth, bw_cedar_value *out)
{
    int64_t i;
    bw_str s;
    const bw_json *inner;
    switch (json->kind) {
    case BW_JSON_NULL:
        return bad(r, json, "null is no Cedar value");
    case BW_JSON_FALSE:
    case BW_JSON_TRUE:
        *out = bw_cedar__bool(json->kind == BW_JSON_TRUE);
        return BW_OK;
    case BW_JSON_NUMBER:
        if (!bw_json_i64(json, &i))
            return bad(r, json, "not a 64-bit integer");
        *out = bw_cedar__int(BW_CEDAR__LONG, i);
        return BW_OK;
    case BW_JSON_STRING:
        if (json->str.len > UINT32_MAX)
            return bad(r, json, "string too long");
        TRY(keep(r, json->str, &s));
        *out = bw_cedar__string(s);
        return BW_OK;
    case BW_JSON_ARRAY:
    case BW_JSON_NUMBERS:
        return read_set(r, json, NULL, depth, out);
    case BW_JSON_OBJECT:
        break;
    }
    if (entity_escape(json))
        return read_entity(r, json, NULL, out);
    if ((inner = bw_cedar__call_escape(json)) != NULL)
        return read_call(r, inner, depth, out);
    if (json->count == 1 && is_string(json, "__expr"))
        return bad(r, json, "__expr is refused");
    return bw_cedar__read_record(r, json, NULL, depth, out);
}

bw_status bw_cedar__read_value(const bw_cedar__reader *r, const bw_json *json,
                               const bw_cedar__type *type, uint32_t depth,
                               bw_cedar_value *out)
{
    if (depth > BW_CEDAR_DEPTH_MAX)
        return bad(r, json, "nested too deep");
    if (!type)
        return read_plain(r, json, depth, out);
    switch ((bw_cedar__kind)type->kind) {
    case BW_CEDAR__ENTITY:
        return read_entity(r, json, type, out);
    case BW_CEDAR__SET:
        if (!bw_json_is_array(json))
            return bad(r, json, "expected an array");
        return read_set(r, json, type->element, depth, out);
    case BW_CEDAR__RECORD:
        if (json->kind != BW_JSON_OBJECT)
            return bad(r, json, "expected an object");
        return bw_cedar__read_record(r, json, type, depth, out);
    case BW_CEDAR__IP:
    case BW_CEDAR__DECIMAL:
    case BW_CEDAR__DATETIME:
    case BW_CEDAR__DURATION:
        TRY(read_extension(r, json, type->kind, depth, out));
        break;
    default:
        TRY(read_plain(r, json, depth, out));
    }
    return out->kind == type->kind
               ? BW_OK
               : bad(r, json, "value of a type other than the schema's");
}

/* Recursion follows the value, whose depth its builder bounded. */
bool bw_cedar__value_fits(const bw_cedar_schema *s, const bw_cedar_value *v,
                          const bw_cedar__type *type)
{
    if (v->kind != type->kind)
        return false;
    if (v->kind == BW_CEDAR__ENTITY)
        return bw_str_eq(v->u.uid->type, type->name) &&
               bw_cedar__schema_id_ok(s, v->u.uid);
    if (v->kind == BW_CEDAR__SET) {
        for (uint32_t i = 0; i < v->n; i++)
            if (!bw_cedar__value_fits(s, &v->u.items[i], type->element))
                return false;
        return true;
    }
    if (v->kind != BW_CEDAR__RECORD)
        return true;
    uint32_t i = 0; /* both sides are sorted by name */
    for (uint32_t a = 0; a < type->nattrs; a++) {
        const bw_cedar__attr *attr = &type->attrs[a];
        if (i < v->n && bw_str_eq(v->u.members[i].key, attr->name)) {
            if (!bw_cedar__value_fits(s, &v->u.members[i++].value, attr->type))
                return false;
        } else if (attr->required) {
            return false;
        }
    }
    return i == v->n;
}
