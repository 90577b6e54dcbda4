/* Policies in JSON to the same trees as their text: language description, section 9.
 * Templates and their links come with the set: a link is its template with the slots
 * filled, under its own id, and shares the template's program. Unknown members are
 * refused where the reference engine refuses them (in scopes it does not look).
 * Recursion follows the JSON, whose depth the reader bounds (BW_JSON_CEDAR). */
#include "ast.h"
#include "schema.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

enum { LINKS_MAX = 4096 /* ids are compared one by one */, ANNOTATIONS_MAX = 256 };

typedef bw_cedar__maker maker;
typedef const bw_cedar__expr *expr_ptr;
typedef bw_cedar__list list;

static bw_status bad(maker *m, const bw_json *at, const char *what)
{
    const char *pointer = at ? bw_json_pointer(m->ctx, at) : "";
    return bw_fail_at(m->ctx, BW_EINVALID, pointer ? pointer : "", "%s", what);
}

static bw_status keep(maker *m, bw_str s, bw_str *out)
{
    return bw_arena_str(m->pool, s, out) == BW_OK ? BW_OK : bw_fail_nomem(m->ctx);
}

static bw_status string(maker *m, const bw_json *object, const char *key, bw_str *out)
{
    const bw_json *v = bw_json_get(object, key);
    if (!v || v->kind != BW_JSON_STRING)
        return bad(m, v ? v : object, "a string is missing");
    return keep(m, v->str, out);
}

/* An object with no members but those named (ended by NULL). */
static bw_status object(maker *m, const bw_json *json, const char *const *allowed)
{
    if (!json || json->kind != BW_JSON_OBJECT)
        return bad(m, json, "expected an object");
    for (const bw_json *v = json->child; v; v = v->next) {
        const char *const *a = allowed;
        while (*a && !bw_str_eq(v->key, bw_str_c(*a)))
            a++;
        if (!*a)
            return bad(m, v, "unknown member of a policy");
    }
    return BW_OK;
}

static bw_status type_name(maker *m, const bw_json *object, bw_str *out)
{
    TRY(string(m, object, "entity_type", out));
    return bw_cedar__is_path(*out) ? BW_OK
                                   : bad(m, object, "not the name of an entity type");
}

static bw_status read_expr(maker *m, const bw_json *json, uint32_t depth,
                           expr_ptr *out);

/* ---- values: what an expression of literals would be ---- */
static bw_status read_literal(maker *m, const bw_json *json, uint32_t depth,
                              expr_ptr *out);

/* {"fn", "arg" or "args"}: an unknown function is an error of the evaluation. */
static bw_status literal_call(maker *m, const bw_json *json, uint32_t depth,
                              expr_ptr *out)
{
    const bw_json *arg = bw_json_get(json, "arg"), *a = arg;
    list args = {0};
    bw_cedar__fn fn;
    bw_cedar__expr *e = NULL;
    if (!arg)
        TRY(bw_json_elements(m->ctx, bw_json_get(json, "args"), &a));
    for (; a; a = arg ? NULL : a->next) {
        expr_ptr x;
        TRY(read_literal(m, a, depth + 1, &x));
        TRY(bw_cedar__list_add(m, &args, &x, sizeof x));
    }
    bool known = bw_cedar__fn_any(bw_json_get(json, "fn")->str, &fn);
    TRY(bw_cedar__list_node(m, known ? BW_CEDAR__CALL : BW_CEDAR__ERROR, 0, &args, &e));
    e->which = known ? (uint8_t)fn : 0;
    e->n = known ? e->n : 0;
    *out = e;
    return BW_OK;
}

static bw_status literal_record(maker *m, const bw_json *json, uint32_t depth,
                                expr_ptr *out)
{
    list names = {0}, children = {0};
    bool unique;
    for (const bw_json *v = json->child; v; v = v->next) {
        bw_str key;
        expr_ptr x;
        TRY(keep(m, v->key, &key));
        TRY(read_literal(m, v, depth + 1, &x));
        TRY(bw_cedar__list_add(m, &names, &key, sizeof key));
        TRY(bw_cedar__list_add(m, &children, &x, sizeof x));
    }
    TRY(bw_cedar__record_node(m, 0, &names, &children, &unique, out));
    return unique ? BW_OK : bad(m, json, "a key is there twice");
}

static bw_status literal_set(maker *m, const bw_json *json, uint32_t depth,
                             expr_ptr *out)
{
    list children = {0};
    const bw_json *v;
    bw_cedar__expr *e = NULL;
    TRY(bw_json_elements(m->ctx, json, &v));
    for (; v; v = v->next) {
        expr_ptr x;
        TRY(read_literal(m, v, depth + 1, &x));
        TRY(bw_cedar__list_add(m, &children, &x, sizeof x));
    }
    TRY(bw_cedar__list_node(m, BW_CEDAR__SET_OF, 0, &children, &e));
    *out = e;
    return BW_OK;
}

static bw_status read_literal(maker *m, const bw_json *json, uint32_t depth,
                              expr_ptr *out)
{
    if (depth > BW_CEDAR_DEPTH_MAX)
        return bad(m, json, "nested too deep");
    if (bw_json_is_array(json))
        return literal_set(m, json, depth, out);
    const bw_json *call = bw_cedar__call_escape(json);
    if (call)
        return literal_call(m, call, depth, out);
    if (json->kind == BW_JSON_OBJECT && !bw_cedar__other_escape(json))
        return literal_record(m, json, depth, out);
    bw_cedar__reader r = {m->ctx, m->pool, NULL};
    bw_cedar_value v;
    TRY(bw_cedar__read_value(&r, json, NULL, 1, &v));
    return bw_cedar__value_node(m, 0, v, out);
}

/* ---- expressions ---- */
static bw_status read_member(maker *m, const bw_json *object, const char *key,
                             uint32_t depth, expr_ptr *out)
{
    const bw_json *v = bw_json_get(object, key);
    return v ? read_expr(m, v, depth + 1, out)
             : bad(m, object, "an operand is missing");
}

static bw_status read_list(maker *m, const bw_json *json, uint32_t depth, list *out)
{
    if (json->kind != BW_JSON_ARRAY)
        return bad(m, json, "expected an array of expressions");
    for (const bw_json *v = json->child; v; v = v->next) {
        expr_ptr x;
        TRY(read_expr(m, v, depth + 1, &x));
        TRY(bw_cedar__list_add(m, out, &x, sizeof x));
    }
    return BW_OK;
}

static bw_status read_var(maker *m, const bw_json *json, expr_ptr *out)
{
    for (uint8_t i = 0; i < 4; i++)
        if (json->kind == BW_JSON_STRING &&
            bw_str_eq(json->str, bw_str_c(bw_cedar__vars[i]))) {
            bw_cedar__expr *e;
            TRY(bw_cedar__node(m, BW_CEDAR__VAR, 0, 0, &e));
            e->which = i;
            *out = e;
            return BW_OK;
        }
    return bad(m, json, "unknown variable");
}

/* {"left", "attr"}: of `has` a string or a list of names, of `.` a string. */
static bw_status read_access(maker *m, const bw_json *json, bool has, uint32_t depth,
                             expr_ptr *out)
{
    static const char *const members[] = {"left", "attr", NULL};
    const bw_json *attr = bw_json_get(json, "attr");
    list names = {0};
    const void *kept;
    expr_ptr left;
    bw_cedar__expr *e;
    TRY(object(m, json, members));
    TRY(read_member(m, json, "left", depth, &left));
    bool path = has && attr && attr->kind == BW_JSON_ARRAY && attr->count > 0;
    for (const bw_json *v = path ? attr->child : attr; v; v = path ? v->next : NULL) {
        bw_str name;
        if (v->kind != BW_JSON_STRING)
            return bad(m, v, "the name of an attribute is a string");
        TRY(keep(m, v->str, &name));
        TRY(bw_cedar__list_add(m, &names, &name, sizeof name));
    }
    if (names.n == 0)
        return bad(m, json, "the name of an attribute is missing");
    TRY(bw_cedar__node_of(m, has ? BW_CEDAR__HAS : BW_CEDAR__GET, 0, left, NULL, NULL,
                          &e));
    TRY(bw_cedar__list_keep(m, &names, sizeof(bw_str), &kept));
    e->u.names = kept;
    e->nnames = names.n;
    *out = e;
    return BW_OK;
}

static bw_status read_is(maker *m, const bw_json *json, uint32_t depth, expr_ptr *out)
{
    static const char *const members[] = {"left", "entity_type", "in", NULL};
    bw_str type;
    expr_ptr left, in = NULL;
    bw_cedar__expr *e;
    TRY(object(m, json, members));
    TRY(type_name(m, json, &type));
    TRY(read_member(m, json, "left", depth, &left));
    if (bw_json_get_value(json, "in"))
        TRY(read_member(m, json, "in", depth, &in));
    TRY(bw_cedar__node_of(m, BW_CEDAR__IS, 0, left, in, NULL, &e));
    *out = e;
    return bw_cedar__node_name(m, e, type);
}

/* ["Wildcard" | {"Literal": text}]: literals between two wildcards make one run. */
static bw_status read_pattern(maker *m, const bw_json *json, bw_cedar__pattern *out)
{
    static const char *const members[] = {"Literal", NULL};
    if (!json || json->kind != BW_JSON_ARRAY)
        return bad(m, json, "a pattern is an array");
    char *to = bw_arena_alloc(
        m->pool, json->raw.len); /* a literal is never longer than its JSON */
    bw_str *runs = bw_arena_calloc(m->pool, (size_t)json->count + 1, sizeof *runs);
    if (!to || !runs)
        return bw_fail_nomem(m->ctx);
    uint32_t n = 0;
    runs[0].ptr = to;
    for (const bw_json *v = json->child; v; v = v->next) {
        if (v->kind == BW_JSON_STRING && bw_str_is(v->str, "Wildcard")) {
            runs[++n].ptr = to;
            continue;
        }
        TRY(object(m, v, members));
        const bw_json *literal = bw_json_get(v, "Literal");
        if (!literal || literal->kind != BW_JSON_STRING)
            return bad(m, v, "a pattern is made of Wildcard and Literal");
        memcpy(to, literal->str.ptr, literal->str.len);
        to += literal->str.len;
        runs[n].len += literal->str.len;
    }
    *out = (bw_cedar__pattern){runs, n + 1};
    return BW_OK;
}

static bw_status read_like(maker *m, const bw_json *json, uint32_t depth, expr_ptr *out)
{
    static const char *const members[] = {"left", "pattern", NULL};
    expr_ptr left;
    bw_cedar__expr *e;
    TRY(object(m, json, members));
    TRY(read_member(m, json, "left", depth, &left));
    TRY(bw_cedar__node_of(m, BW_CEDAR__LIKE, 0, left, NULL, NULL, &e));
    *out = e;
    return read_pattern(m, bw_json_get(json, "pattern"), &e->u.pattern);
}

static bw_status read_if(maker *m, const bw_json *json, uint32_t depth, expr_ptr *out)
{
    static const char *const members[] = {"if", "then", "else", NULL};
    expr_ptr part[3];
    bw_cedar__expr *e;
    TRY(object(m, json, members));
    for (int i = 0; i < 3; i++)
        TRY(read_member(m, json, members[i], depth, &part[i]));
    TRY(bw_cedar__node_of(m, BW_CEDAR__IF, 0, part[0], part[1], part[2], &e));
    *out = e;
    return BW_OK;
}

static bw_status read_record(maker *m, const bw_json *json, uint32_t depth,
                             expr_ptr *out)
{
    list names = {0}, children = {0};
    bool unique;
    if (json->kind != BW_JSON_OBJECT)
        return bad(m, json, "expected an object of expressions");
    for (const bw_json *v = json->child; v; v = v->next) {
        bw_str key;
        expr_ptr x;
        TRY(keep(m, v->key, &key));
        TRY(read_expr(m, v, depth + 1, &x));
        TRY(bw_cedar__list_add(m, &names, &key, sizeof key));
        TRY(bw_cedar__list_add(m, &children, &x, sizeof x));
    }
    TRY(bw_cedar__record_node(m, 0, &names, &children, &unique, out));
    return unique ? BW_OK : bad(m, json, "a key is there twice");
}

/* bw_cedar__operators: {"arg"} or {"left", "right"}. */
static bw_status read_operator(maker *m, const bw_json *json, uint32_t depth,
                               bool *known, expr_ptr *out)
{
    static const char *const one[] = {"arg", NULL}, *const two[] = {"left", "right",
                                                                    NULL};
    const uint32_t count = sizeof bw_cedar__operators / sizeof *bw_cedar__operators;
    uint32_t i = 0;
    while (i < count && !(bw_cedar__operators[i].name &&
                          bw_str_eq(json->key, bw_str_c(bw_cedar__operators[i].name))))
        i++;
    *known = i < count;
    if (!*known)
        return BW_OK;
    bool unary = bw_cedar__operators[i].n == 1;
    expr_ptr a, b = NULL;
    bw_cedar__expr *e;
    TRY(object(m, json, unary ? one : two));
    TRY(read_member(m, json, unary ? "arg" : "left", depth, &a));
    if (!unary)
        TRY(read_member(m, json, "right", depth, &b));
    TRY(bw_cedar__node_of(m, (bw_cedar__op)i, 0, a, b, NULL, &e));
    *out = e;
    return BW_OK;
}

static bw_status read_expr(maker *m, const bw_json *json, uint32_t depth, expr_ptr *out)
{
    if (json->kind != BW_JSON_OBJECT || json->count != 1)
        return bad(m, json, "an expression is an object with one member");
    if (depth > BW_CEDAR_DEPTH_MAX)
        return bad(m, json, "nested too deep");
    const bw_json *v = json->child;
    list items = {0};
    bw_cedar__expr *e = NULL;
    bool known;
    TRY(read_operator(m, v, depth, &known, out));
    if (known)
        return BW_OK;
    if (bw_str_is(v->key, "Value"))
        return read_literal(m, v, depth, out);
    if (bw_str_is(v->key, "Var"))
        return read_var(m, v, out);
    if (bw_str_is(v->key, "."))
        return read_access(m, v, false, depth, out);
    if (bw_str_is(v->key, "has"))
        return read_access(m, v, true, depth, out);
    if (bw_str_is(v->key, "is"))
        return read_is(m, v, depth, out);
    if (bw_str_is(v->key, "like"))
        return read_like(m, v, depth, out);
    if (bw_str_is(v->key, "if-then-else"))
        return read_if(m, v, depth, out);
    if (bw_str_is(v->key, "Record"))
        return read_record(m, v, depth, out);
    bw_cedar__fn fn = BW_CEDAR__FN_COUNT;
    if (!bw_str_is(v->key, "Set") && !bw_cedar__fn_any(v->key, &fn))
        return bad(m, v, "unknown kind of expression");
    TRY(read_list(m, v, depth, &items));
    TRY(bw_cedar__list_node(
        m, fn == BW_CEDAR__FN_COUNT ? BW_CEDAR__SET_OF : BW_CEDAR__CALL, 0, &items,
        &e));
    e->which = fn == BW_CEDAR__FN_COUNT ? 0 : (uint8_t)fn;
    *out = e;
    return BW_OK;
}

/* ---- scopes ---- */
static bw_status read_uids(maker *m, int var, const bw_json *one, const bw_json *many,
                           bw_cedar__scope *s)
{
    bw_cedar__reader r = {m->ctx, m->pool, NULL};
    size_t n = many ? many->count : 1;
    bw_cedar__uid *uids = bw_arena_alloc(m->pool, n * sizeof *uids);
    if (!uids)
        return bw_fail_nomem(m->ctx);
    for (const bw_json *v = many ? many->child : one; v; v = many ? v->next : NULL) {
        TRY(bw_cedar__read_uid(&r, v, &uids[s->n]));
        if (var == BW_CEDAR__ACTION && !bw_cedar__is_action_type(uids[s->n].type))
            return bad(m, v, "an action's type must end in Action");
        s->n++;
    }
    s->uids = uids;
    return BW_OK;
}

/* {"entity"} or {"slot"}, of actions {"entities"} too. */
static bw_status read_target(maker *m, int var, const bw_json *json, bw_cedar__scope *s)
{
    const bw_json *slot = bw_json_get(json, "slot"), *one = bw_json_get(json, "entity"),
                  *many = bw_json_get(json, "entities");
    if (one)
        return read_uids(m, var, one, NULL, s);
    if (many && many->kind == BW_JSON_ARRAY && var == BW_CEDAR__ACTION &&
        s->op == BW_CEDAR__SCOPE_IN) {
        s->op = many->count == 1 ? BW_CEDAR__SCOPE_IN : BW_CEDAR__SCOPE_IN_LIST;
        return read_uids(m, var, NULL, many, s);
    }
    const char *name = var == BW_CEDAR__PRINCIPAL ? "?principal" : "?resource";
    if (!slot || slot->kind != BW_JSON_STRING || var == BW_CEDAR__ACTION ||
        !bw_str_eq(slot->str, bw_str_c(name)))
        return bad(m, json, "expected an entity, or this variable's slot");
    s->slot = true;
    return BW_OK;
}

static bw_status read_scope(maker *m, int var, const bw_json *policy, const char *key,
                            bw_cedar__scope *s)
{
    const bw_json *json = bw_json_get(policy, key);
    bw_str op;
    *s = (bw_cedar__scope){.op = BW_CEDAR__SCOPE_ALL};
    if (!json || json->kind != BW_JSON_OBJECT)
        return bad(m, json ? json : policy, "a scope is an object");
    TRY(string(m, json, "op", &op));
    if (bw_str_is(op, "All") || bw_str_is(op, "all"))
        return BW_OK;
    if (bw_str_is(op, "==") || bw_str_is(op, "in")) {
        s->op = bw_str_is(op, "==") ? BW_CEDAR__SCOPE_EQ : BW_CEDAR__SCOPE_IN;
        return read_target(m, var, json, s);
    }
    if (!bw_str_is(op, "is") || var == BW_CEDAR__ACTION)
        return bad(m, json, "unknown scope operator");
    TRY(type_name(m, json, &s->type));
    const bw_json *in = bw_json_get_value(json, "in");
    s->op = in ? BW_CEDAR__SCOPE_IS_IN : BW_CEDAR__SCOPE_IS;
    return in ? read_target(m, var, in, s) : BW_OK;
}

/* ---- policies ---- */
static bw_status read_annotations(maker *m, const bw_json *json, bw_cedar__policy *p)
{
    if (!json)
        return BW_OK;
    if (json->kind != BW_JSON_OBJECT)
        return bad(m, json, "expected an object");
    if (json->count > ANNOTATIONS_MAX)
        return bad(m, json, "more than 256 annotations");
    bw_cedar__annotation *all = bw_arena_calloc(m->pool, json->count, sizeof *all);
    if (!all)
        return bw_fail_nomem(m->ctx);
    for (const bw_json *v = json->child; v; v = v->next) {
        bw_cedar__annotation *a = &all[p->nannotations++];
        if (!bw_cedar__is_ident(v->key) ||
            (v->kind != BW_JSON_STRING && v->kind != BW_JSON_NULL))
            return bad(m, v, "an annotation is a name with a text");
        TRY(keep(m, v->key, &a->key));
        a->has_value = v->kind == BW_JSON_STRING;
        if (a->has_value)
            TRY(keep(m, v->str, &a->value));
    }
    p->annotations = all;
    return BW_OK;
}

static bw_status read_conditions(maker *m, const bw_json *json, bw_cedar__policy *p)
{
    static const char *const members[] = {"kind", "body", NULL};
    if (!json || json->kind != BW_JSON_ARRAY)
        return bad(m, json, "a policy needs conditions, as an array");
    bw_cedar__clause *all = bw_arena_calloc(m->pool, json->count, sizeof *all);
    if (!all)
        return bw_fail_nomem(m->ctx);
    for (const bw_json *v = json->child; v; v = v->next) {
        bw_cedar__clause *c = &all[p->nclauses++];
        bw_str kind;
        TRY(object(m, v, members));
        TRY(string(m, v, "kind", &kind));
        c->unless = bw_str_is(kind, "unless");
        if (!c->unless && !bw_str_is(kind, "when"))
            return bad(m, v, "a condition is a when or an unless");
        TRY(read_member(m, v, "body", 0, &c->body));
    }
    p->clauses = all;
    return BW_OK;
}

static bw_status read_policy(maker *m, const bw_json *json, bool template,
                             bw_cedar__policy *p)
{
    static const char *const members[] = {
        "effect", "principal", "action", "resource", "conditions", "annotations", NULL};
    bw_str effect;
    TRY(object(m, json, members));
    TRY(keep(m, json->key, &p->id));
    TRY(keep(m, json->raw, &p->text));
    TRY(string(m, json, "effect", &effect));
    p->forbid = bw_str_is(effect, "forbid");
    if (!p->forbid && !bw_str_is(effect, "permit"))
        return bad(m, json, "the effect is permit or forbid");
    TRY(read_scope(m, BW_CEDAR__PRINCIPAL, json, "principal", &p->scope[0]));
    TRY(read_scope(m, BW_CEDAR__ACTION, json, "action", &p->scope[1]));
    TRY(read_scope(m, BW_CEDAR__RESOURCE, json, "resource", &p->scope[2]));
    p->is_template = template; /* even without a slot, it decides nothing */
    if (!template && (p->scope[0].slot || p->scope[2].slot))
        return bad(m, json, "a static policy has no slots");
    TRY(read_annotations(m, bw_json_get(json, "annotations"), p));
    return read_conditions(m, bw_json_get(json, "conditions"), p);
}

/* ---- sets ---- */
static const bw_cedar__policy *find(const list *all, bw_str id)
{
    const bw_cedar__policy *p = all->items;
    for (uint32_t i = 0; i < all->n; i++)
        if (bw_str_eq(p[i].id, id))
            return &p[i];
    return NULL;
}

static bw_status fill(maker *m, const bw_json *values, const char *name,
                      bw_cedar__scope *s, uint32_t *used)
{
    const bw_json *v = bw_json_get(values, name);
    if (!s->slot)
        return BW_OK;
    if (!v)
        return bad(m, values, "a slot has no value");
    ++*used;
    s->slot = false;
    return read_uids(m, BW_CEDAR__PRINCIPAL, v, NULL, s);
}

static bw_status read_link(maker *m, bw_cedar_policies *set, const bw_json *json,
                           list *all)
{
    static const char *const members[] = {"templateId", "newId", "values", NULL};
    const bw_json *values = bw_json_get(json, "values");
    bw_str template;
    uint32_t used = 0;
    bw_cedar__policy p;
    TRY(object(m, json, members));
    TRY(string(m, json, "templateId", &template));
    const bw_cedar__policy *from = find(all, template);
    if (!from || !from->is_template)
        return bad(m, json, "a link names no template");
    if (!values || values->kind != BW_JSON_OBJECT)
        return bad(m, json, "a link needs values");
    p = *from;
    p.is_template = false;
    p.link_of = 1 + (uint32_t)(from - (const bw_cedar__policy *)all->items);
    TRY(string(m, json, "newId", &p.id));
    if (find(all, p.id))
        return bad(m, json, "the id of a link is in use");
    TRY(fill(m, values, "?principal", &p.scope[0], &used));
    TRY(fill(m, values, "?resource", &p.scope[2], &used));
    if (used != values->count)
        return bad(m, values, "a value belongs to no slot of the template");
    return bw_cedar__set_add(m, set, all, &p);
}

static bw_status read_policies(maker *m, bw_cedar_policies *set, const bw_json *json,
                               bool template, list *all)
{
    if (!json || json->kind != BW_JSON_OBJECT)
        return bad(m, json, "a set needs staticPolicies, templates and templateLinks");
    uint32_t before = all->n;
    for (const bw_json *v = json->child; v; v = v->next) {
        bw_cedar__policy p = {0};
        list others = {all->items, before, before};
        TRY(read_policy(m, v, template, &p));
        if (find(&others, p.id))
            return bad(m, v, "an id is there twice");
        TRY(bw_cedar__set_add(m, set, all, &p));
    }
    return BW_OK;
}

static bw_status read_set(maker *m, bw_cedar_policies *set)
{
    static const char *const members[] = {"staticPolicies", "templates",
                                          "templateLinks", NULL};
    bw_json *json;
    list all = {0};
    if (set->text.len > BW_CEDAR_TEXT_MAX)
        return bw_fail(m->ctx, BW_EINVALID, "policies are larger than %d bytes",
                       BW_CEDAR_TEXT_MAX);
    TRY(bw_json_parse(m->ctx, set->text, BW_JSON_CEDAR, &json));
    TRY(object(m, json, members));
    TRY(read_policies(m, set, bw_json_get(json, "staticPolicies"), false, &all));
    TRY(read_policies(m, set, bw_json_get(json, "templates"), true, &all));
    const bw_json *links = bw_json_get(json, "templateLinks");
    if (!links || links->kind != BW_JSON_ARRAY)
        return bad(m, json, "a set needs staticPolicies, templates and templateLinks");
    if (links->count > LINKS_MAX)
        return bw_fail(m->ctx, BW_EINVALID, "more than %d links", LINKS_MAX);
    for (const bw_json *v = links->child; v; v = v->next)
        TRY(read_link(m, set, v, &all));
    return bw_cedar__set_finish(m, set, &all);
}

bw_status bw_cedar_policies_parse_json(bw_ctx *ctx, bw_str text,
                                       bw_cedar_policies **out)
{
    return bw_cedar__set_new(ctx, text, read_set, out);
}
