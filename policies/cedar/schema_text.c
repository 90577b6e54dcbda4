/* Schemas in Cedar's own syntax to declarations: language description, section 7. */
#include "lex.h"
#include "schema.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)
#define NEXT(p)          TRY(bw_cedar__lex_next(&(p)->lx))
#define WANT(p, c)       TRY(bw_cedar__lex_want(&(p)->lx, (c)))
#define FAIL(p, at, ...) return bw_cedar__lex_fail(&(p)->lx, (at), __VA_ARGS__)

typedef struct parser {
    bw_cedar__lex lx;
    bw_cedar__decls *d;
    bw_str ns;
    uint32_t depth;
} parser;

typedef struct strings { /* grows in the request's arena */
    bw_str *items;
    uint32_t n, cap;
} strings;

static bw_status strings_add(parser *p, strings *l, bw_str s)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 4;
        void *grown =
            bw_arena_grow(p->d->ctx, l->items, l->n * sizeof s, cap * sizeof s);
        if (!grown)
            return bw_fail_nomem(p->d->ctx);
        l->items = grown;
        l->cap = cap;
    }
    l->items[l->n++] = s;
    return BW_OK;
}

static bw_cedar__names names_of(const strings *l)
{
    return (bw_cedar__names){l->items, l->n};
}

/* ---- small pieces ---- */
static bw_status want_ident(parser *p, bw_str *out)
{
    if (p->lx.tok != BW_CEDAR__T_IDENT)
        FAIL(p, p->lx.start, "expected a name");
    *out = bw_cedar__lex_text(&p->lx);
    if (bw_cedar__is_reserved(*out))
        FAIL(p, p->lx.start, "a reserved word is no name");
    return bw_cedar__lex_next(&p->lx);
}

/* IDENT or STR: an action or an attribute. `__cedar` is no type, but may be one of
 * these. */
static bw_status want_name(parser *p, bw_str *out)
{
    if (bw_cedar__lex_is_word(&p->lx, "__cedar")) {
        *out = bw_cedar__lex_text(&p->lx);
        return bw_cedar__lex_next(&p->lx);
    }
    if (p->lx.tok != BW_CEDAR__T_STRING)
        return want_ident(p, out);
    TRY(bw_cedar__lex_string(&p->lx, p->d->pool, out));
    return bw_cedar__lex_next(&p->lx);
}

/* IDENT{::IDENT}[::STR], first part `__cedar` allowed. *id is set when the string came.
 */
static bw_status parse_path(parser *p, bw_str *path, bw_str *id, bool *has_id)
{
    *has_id = false;
    if (bw_cedar__lex_is_word(&p->lx, "__cedar")) {
        *path = bw_cedar__lex_text(&p->lx);
        NEXT(p);
    } else {
        TRY(want_ident(p, path));
    }
    while (p->lx.tok == BW_CEDAR__T_COLONS) {
        bw_str part;
        NEXT(p);
        if (id && p->lx.tok == BW_CEDAR__T_STRING) {
            *has_id = true;
            TRY(bw_cedar__lex_string(&p->lx, p->d->pool, id));
            return bw_cedar__lex_next(&p->lx);
        }
        TRY(want_ident(p, &part));
        TRY(bw_cedar__qualify(p->d->ctx, p->d->pool, *path, part, path));
    }
    return BW_OK;
}

static bw_status parse_type_name(parser *p, bw_str *path)
{
    bool has_id;
    return parse_path(p, path, NULL, &has_id);
}

/* @key, @key("text"): read and dropped; a key once. */
static bw_status skip_annotations(parser *p)
{
    strings keys = {0};
    while (bw_cedar__lex_is(&p->lx, '@')) {
        NEXT(p);
        if (p->lx.tok != BW_CEDAR__T_IDENT)
            FAIL(p, p->lx.start, "expected an annotation's name");
        bw_str key = bw_cedar__lex_text(&p->lx);
        for (uint32_t i = 0; i < keys.n; i++)
            if (bw_str_eq(keys.items[i], key))
                FAIL(p, p->lx.start, "an annotation is there twice");
        if (keys.n == 256) /* the look above is quadratic */
            FAIL(p, p->lx.start, "more than 256 annotations");
        TRY(strings_add(p, &keys, key));
        NEXT(p);
        bool paren;
        TRY(bw_cedar__lex_take(&p->lx, '(', &paren));
        if (!paren)
            continue;
        bw_str text;
        if (p->lx.tok != BW_CEDAR__T_STRING)
            FAIL(p, p->lx.start, "expected a string");
        TRY(bw_cedar__lex_string(&p->lx, p->d->pool, &text));
        NEXT(p);
        WANT(p, ')');
    }
    return BW_OK;
}

/* ---- types ---- */
static bw_status new_ref(parser *p, bw_cedar__ref_kind kind, bw_cedar__ref **out)
{
    *out = bw_arena_calloc(p->d->pool, 1, sizeof **out);
    if (!*out)
        return bw_fail_nomem(p->d->ctx);
    (*out)->ref = (uint8_t)kind;
    return BW_OK;
}

static bw_status parse_type(parser *p, const bw_cedar__ref **out);

static bw_status add_attr(parser *p, bw_cedar__ref *rec, uint32_t *cap,
                          const bw_cedar__ref_attr *attr)
{
    if (rec->nattrs == *cap) {
        uint32_t more = *cap ? *cap * 2 : 8;
        void *grown = bw_arena_grow(p->d->pool, rec->attrs, *cap * sizeof *attr,
                                    more * sizeof *attr);
        if (!grown)
            return bw_fail_nomem(p->d->ctx);
        rec->attrs = grown;
        *cap = more;
    }
    rec->attrs[rec->nattrs++] = *attr;
    return BW_OK;
}

/* After the opening brace. A repeated name is accepted: schema.c lets the last one win.
 */
static bw_status parse_record(parser *p, const bw_cedar__ref **out)
{
    bw_cedar__ref *rec;
    uint32_t cap = 0;
    TRY(new_ref(p, BW_CEDAR__REF_RECORD, &rec));
    while (!bw_cedar__lex_is(&p->lx, '}')) {
        bw_cedar__ref_attr attr = {0};
        bool optional, comma;
        TRY(skip_annotations(p));
        TRY(want_name(p, &attr.name));
        TRY(bw_cedar__lex_take(&p->lx, '?', &optional));
        attr.required = !optional;
        WANT(p, ':');
        TRY(parse_type(p, &attr.type));
        TRY(add_attr(p, rec, &cap, &attr));
        TRY(bw_cedar__lex_take(&p->lx, ',', &comma));
        if (!comma)
            break;
    }
    *out = rec;
    return bw_cedar__lex_want(&p->lx, '}');
}

static bw_status parse_type_inner(parser *p, const bw_cedar__ref **out)
{
    bool brace;
    bw_str name;
    bw_cedar__ref *ref;
    TRY(bw_cedar__lex_take(&p->lx, '{', &brace));
    if (brace)
        return parse_record(p, out);
    TRY(parse_type_name(p, &name));
    if (bw_str_is(name, "Set") && bw_cedar__lex_is(&p->lx, '<')) {
        TRY(new_ref(p, BW_CEDAR__REF_SET, &ref));
        NEXT(p);
        TRY(parse_type(p, &ref->element));
        *out = ref;
        return bw_cedar__lex_want(&p->lx, '>');
    }
    TRY(new_ref(p, BW_CEDAR__REF_NAME, &ref));
    ref->name = name;
    *out = ref;
    return BW_OK;
}

static bw_status parse_type(parser *p, const bw_cedar__ref **out)
{
    if (++p->depth > BW_CEDAR_DEPTH_MAX)
        FAIL(p, p->lx.start, "nested deeper than %d levels", BW_CEDAR_DEPTH_MAX);
    bw_status st = parse_type_inner(p, out);
    p->depth--;
    return st;
}

/* ---- lists ---- */
/* T, or [T, …]. */
static bw_status parse_type_list(parser *p, strings *out)
{
    bool bracket;
    bw_str name;
    TRY(bw_cedar__lex_take(&p->lx, '[', &bracket));
    if (!bracket) {
        TRY(parse_type_name(p, &name));
        return strings_add(p, out, name);
    }
    for (bool comma = !bw_cedar__lex_is(&p->lx, ']');
         comma;) { /* no trailing comma here */
        TRY(parse_type_name(p, &name));
        TRY(strings_add(p, out, name));
        TRY(bw_cedar__lex_take(&p->lx, ',', &comma));
    }
    return bw_cedar__lex_want(&p->lx, ']');
}

static bw_status parse_action_ref(parser *p, bw_cedar__uid *out)
{
    bool has_id = false;
    *out = (bw_cedar__uid){0};
    if (p->lx.tok == BW_CEDAR__T_STRING)
        return want_name(p, &out->id);
    size_t at = p->lx.start;
    bw_str path, id = {0};
    TRY(parse_path(p, &path, &id, &has_id));
    if (has_id) {
        out->type = path;
        out->id = id;
    } else {
        if (memchr(path.ptr, ':', path.len))
            FAIL(p, at, "expected an action");
        out->id = path;
    }
    return BW_OK;
}

static bw_status parse_action_refs(parser *p, bw_cedar__decl_action *a)
{
    bw_cedar__uid *items = NULL;
    uint32_t n = 0, cap = 0;
    bool bracket, more = true;
    TRY(bw_cedar__lex_take(&p->lx, '[', &bracket));
    while (more) { /* at least one, no trailing comma */
        if (n == cap) {
            uint32_t grown = cap ? cap * 2 : 4;
            items = bw_arena_grow(p->d->pool, items, cap * sizeof *items,
                                  grown * sizeof *items);
            if (!items)
                return bw_fail_nomem(p->d->ctx);
            cap = grown;
        }
        TRY(parse_action_ref(p, &items[n++]));
        more = false;
        if (bracket)
            TRY(bw_cedar__lex_take(&p->lx, ',', &more));
    }
    a->parents = items;
    a->nparents = n;
    return bracket ? bw_cedar__lex_want(&p->lx, ']') : BW_OK;
}

/* ---- declarations ---- */
static bw_status parse_enum(parser *p, bw_cedar__decl_entity *e)
{
    strings ids = {0};
    bool comma;
    WANT(p, '[');
    do {
        bw_str id;
        if (p->lx.tok != BW_CEDAR__T_STRING)
            FAIL(p, p->lx.start, "expected a string");
        TRY(want_name(p, &id));
        TRY(strings_add(p, &ids, id));
        TRY(bw_cedar__lex_take(&p->lx, ',', &comma));
    } while (comma);
    e->is_enum = true;
    e->ids = names_of(&ids);
    return bw_cedar__lex_want(&p->lx, ']');
}

static bw_status parse_entity_rest(parser *p, bw_cedar__decl_entity *e)
{
    bool equals, brace;
    if (bw_cedar__lex_is_word(&p->lx, "enum")) {
        NEXT(p);
        return parse_enum(p, e);
    }
    if (bw_cedar__lex_is_word(&p->lx, "in")) {
        strings parents = {0};
        NEXT(p);
        TRY(parse_type_list(p, &parents));
        e->parents = names_of(&parents);
    }
    TRY(bw_cedar__lex_take(&p->lx, '=', &equals));
    TRY(bw_cedar__lex_take(&p->lx, '{', &brace));
    if (brace)
        TRY(parse_record(p, &e->shape));
    else if (equals)
        FAIL(p, p->lx.start, "expected '{'");
    if (bw_cedar__lex_is_word(&p->lx, "tags")) {
        NEXT(p);
        TRY(parse_type(p, &e->tags));
    }
    return BW_OK;
}

static bw_status parse_entity(parser *p)
{
    strings names = {0};
    bool comma;
    do {
        bw_str name;
        TRY(want_ident(p, &name));
        TRY(strings_add(p, &names, name));
        TRY(bw_cedar__lex_take(&p->lx, ',', &comma));
    } while (comma);
    bw_cedar__decl_entity e = {.ns = p->ns};
    TRY(parse_entity_rest(p, &e));
    WANT(p, ';');
    for (uint32_t i = 0; i < names.n; i++) {
        TRY(bw_cedar__qualify(p->d->ctx, p->d->pool, p->ns, names.items[i], &e.name));
        TRY(bw_cedar__decl_add_entity(p->d, &e));
    }
    return BW_OK;
}

static bw_status parse_applies(parser *p, bw_cedar__decl_action *a)
{
    strings principals = {0}, resources = {0};
    bool seen[3] = {false};
    WANT(p, '{');
    while (!bw_cedar__lex_is(&p->lx, '}')) {
        static const char *const keys[] = {"principal", "resource", "context"};
        int k = 0;
        bool comma;
        while (k < 3 && !bw_cedar__lex_is_word(&p->lx, keys[k]))
            k++;
        if (k == 3 || seen[k])
            FAIL(p, p->lx.start, "expected principal, resource or context, each once");
        seen[k] = true;
        NEXT(p);
        WANT(p, ':');
        if (k == 2)
            TRY(parse_type(p, &a->context));
        else
            TRY(parse_type_list(p, k == 0 ? &principals : &resources));
        TRY(bw_cedar__lex_take(&p->lx, ',', &comma));
        if (!comma)
            break;
    }
    if (principals.n == 0 || resources.n == 0)
        FAIL(p, p->lx.start, "appliesTo needs a principal and a resource");
    a->applies = true;
    a->principals = names_of(&principals);
    a->resources = names_of(&resources);
    return bw_cedar__lex_want(&p->lx, '}');
}

static bw_status parse_action(parser *p)
{
    strings ids = {0};
    bool comma;
    do {
        bw_str id;
        TRY(want_name(p, &id));
        TRY(strings_add(p, &ids, id));
        TRY(bw_cedar__lex_take(&p->lx, ',', &comma));
    } while (comma);
    bw_cedar__decl_action a = {.ns = p->ns};
    TRY(bw_cedar__qualify(p->d->ctx, p->d->pool, p->ns, BW_STR("Action"), &a.type));
    if (bw_cedar__lex_is_word(&p->lx, "in")) {
        NEXT(p);
        TRY(parse_action_refs(p, &a));
    }
    if (bw_cedar__lex_is_word(&p->lx, "appliesTo")) {
        NEXT(p);
        TRY(parse_applies(p, &a));
    }
    if (bw_cedar__lex_is_word(&p->lx, "attributes")) {
        NEXT(p);
        WANT(p, '{');
        WANT(p, '}');
    }
    WANT(p, ';');
    for (uint32_t i = 0; i < ids.n; i++) {
        a.id = ids.items[i];
        TRY(bw_cedar__decl_add_action(p->d, &a));
    }
    return BW_OK;
}

static bw_status parse_common(parser *p)
{
    bw_cedar__decl_common c = {.ns = p->ns};
    bw_str name;
    size_t at = p->lx.start;
    TRY(want_ident(p, &name));
    static const char *const reserved[] = {"Bool", "Boolean", "Entity", "Extension",
                                           "Long", "Record",  "Set",    "String"};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (bw_str_eq(name, bw_str_c(reserved[i])))
            FAIL(p, at, "this name is reserved");
    WANT(p, '=');
    TRY(parse_type(p, &c.type));
    WANT(p, ';');
    TRY(bw_cedar__qualify(p->d->ctx, p->d->pool, p->ns, name, &c.name));
    return bw_cedar__decl_add_common(p->d, &c);
}

static bw_status parse_decl(parser *p)
{
    bool entity = bw_cedar__lex_is_word(&p->lx, "entity"),
         action = bw_cedar__lex_is_word(&p->lx, "action");
    if (!entity && !action && !bw_cedar__lex_is_word(&p->lx, "type"))
        FAIL(p, p->lx.start, "expected entity, action or type");
    NEXT(p);
    return entity ? parse_entity(p) : action ? parse_action(p) : parse_common(p);
}

static bw_status parse_namespace(parser *p, strings *seen)
{
    size_t at = p->lx.start;
    TRY(parse_type_name(p, &p->ns));
    if (!bw_cedar__is_path(p->ns))
        FAIL(p, at, "this name is reserved");
    for (uint32_t i = 0; i < seen->n; i++)
        if (bw_str_eq(seen->items[i], p->ns))
            FAIL(p, at, "a namespace is there twice");
    if (seen->n == 1024) /* the look above is quadratic */
        FAIL(p, at, "more than 1024 namespaces");
    TRY(strings_add(p, seen, p->ns));
    WANT(p, '{');
    while (!bw_cedar__lex_is(&p->lx, '}')) {
        TRY(skip_annotations(p));
        TRY(parse_decl(p));
    }
    p->ns = (bw_str){0};
    return bw_cedar__lex_want(&p->lx, '}');
}

bw_status bw_cedar__schema_read_text(bw_cedar__decls *d, bw_str text)
{
    parser p = {.d = d};
    strings seen = {0};
    TRY(bw_cedar__lex_start(d->ctx, text, &p.lx));
    while (p.lx.tok != BW_CEDAR__T_END) {
        TRY(skip_annotations(&p));
        if (bw_cedar__lex_is_word(&p.lx, "namespace")) {
            NEXT(&p);
            TRY(parse_namespace(&p, &seen));
        } else {
            TRY(parse_decl(&p));
        }
    }
    return BW_OK;
}
