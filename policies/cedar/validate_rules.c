/* The typing rules of operators whose children are all evaluated (language description,
 * section 8), and how deep entities are looked into (RFC 76). */
#include "validate.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

typedef bw_cedar__checker checker;
typedef bw_cedar__vnode vnode;
typedef bw_cedar__typed typed;
typedef bw_cedar__type type;

static const vnode *child(const checker *c, const vnode *v, uint32_t i)
{
    return &c->low.nodes[v->child[i]];
}

bw_status bw_cedar__step(checker *c, uint64_t steps)
{
    c->steps += steps;
    return c->steps > c->options.steps_max
               ? bw_fail(c->ctx, BW_EINVALID, "validation takes more than %llu steps",
                         (unsigned long long)c->options.steps_max)
               : BW_OK;
}

/* ---- what is wanted ---- */
static bw_status fail_type(checker *c, const vnode *v, uint32_t i, const type *t,
                           const char *wanted)
{
    const bw_cedar__expr *e = child(c, v, i)->source;
    bw_cedar__say(c, "`%e` has type %t, %s is wanted", e, t, wanted);
    return bw_cedar__report(c, false, e);
}

bw_status bw_cedar__want_bool(checker *c, const vnode *v, uint32_t i, const type *t,
                              uint8_t *out)
{
    *out = t && bw_cedar__type_is_bool(t) ? t->kind : BW_CEDAR__BOOL;
    return t && !bw_cedar__type_is_bool(t) ? fail_type(c, v, i, t, "Bool") : BW_OK;
}

/* Whether child i has the kind; false after a report, or when its type is unknown. */
static bw_status want(checker *c, const vnode *v, uint32_t i, const typed *args,
                      uint8_t kind, const char *name, bool *ok)
{
    const type *t = args[i].type;
    *ok = t && t->kind == kind;
    return t && !*ok ? fail_type(c, v, i, t, name) : BW_OK;
}

bw_status bw_cedar__join(checker *c, const type *a, const type *b, const type **out)
{
    bw_cedar__joiner j = {c->env, &c->steps, c->options.steps_max, false};
    *out = bw_cedar__type_join(&j, a, b);
    return j.memory ? bw_fail_nomem(c->ctx) : bw_cedar__step(c, 0);
}

bw_status bw_cedar__fail_join(checker *c, const vnode *v, const type *a, const type *b)
{
    bw_cedar__say(c, "`%e` brings %t and %t together, which have no type in common",
                  v->source, a, b);
    return bw_cedar__report(c, false, v->source);
}

static bw_status want_join(checker *c, const vnode *v, const type *a, const type *b)
{
    const type *both;
    if (!a || !b)
        return BW_OK;
    TRY(bw_cedar__join(c, a, b, &both));
    return both ? BW_OK : bw_cedar__fail_join(c, v, a, b);
}

/* ---- levels ---- */
static uint32_t deeper(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Of two branches with one type, the worse of each part. Records nest as deep as a
 * policy, so the recursion is bounded. */
bw_status bw_cedar__reach_join(checker *c, const bw_cedar__reach *a,
                               const bw_cedar__reach *b, bw_cedar__reach *out)
{
    *out = (bw_cedar__reach){.depth = deeper(a->depth, b->depth)};
    const bw_cedar__reach *shown = a->parts ? a : b, *other = a->parts ? b : a;
    if (!shown->parts)
        return BW_OK;
    assert(!other->parts || other->n == shown->n);
    bw_cedar__reach *parts = bw_arena_calloc(c->env, shown->n, sizeof *parts);
    if (!parts)
        return bw_fail_nomem(c->ctx);
    c->steps += shown->n;
    for (uint32_t i = 0; i < shown->n; i++)
        TRY(bw_cedar__reach_join(c, &shown->parts[i],
                                 other->parts ? &other->parts[i] : other, &parts[i]));
    out->parts = parts;
    out->n = shown->n;
    return BW_OK;
}

/* Child 0, an entity, is looked into. *out: where what is found there lies. */
static bw_status look_into(checker *c, const vnode *v, const typed *args,
                           bw_cedar__reach *out)
{
    uint32_t depth = args[0].reach.depth;
    *out = (bw_cedar__reach){.depth = depth == BW_CEDAR__NO_ROOT ? depth : depth + 1};
    if (c->options.level < 0 || out->depth <= (uint32_t)c->options.level)
        return BW_OK;
    if (depth == BW_CEDAR__NO_ROOT)
        bw_cedar__say(c,
                      "`%e` looks into an entity that the policy names itself, which "
                      "no level allows",
                      v->source);
    else
        bw_cedar__say(c, "`%e` looks into %u entities one after the other, level %u",
                      v->source, out->depth, (unsigned)c->options.level);
    return bw_cedar__report(c, false, v->source);
}

/* ---- literals and comparison ---- */
/* The entity that v is, where it is written out or the action; else NULL. */
static const bw_cedar__uid *named(const checker *c, const vnode *v)
{
    if (v->op == BW_CEDAR__VAR && v->which == BW_CEDAR__ACTION)
        return c->action;
    if (v->source->op == BW_CEDAR__VALUE && v->source->u.value.kind == BW_CEDAR__ENTITY)
        return v->source->u.value.u.uid;
    return NULL;
}

static bw_status check_eq(checker *c, const vnode *v, const typed *args, typed *out)
{
    const vnode *a = child(c, v, 0), *b = child(c, v, 1);
    const bw_cedar__uid *x = named(c, a), *y = named(c, b);
    bool same = x && y ? bw_cedar__uid_eq(x, y) : a->shape == b->shape;
    const type *s = args[0].type, *t = args[1].type;
    if ((x || a->op == BW_CEDAR__VALUE) && (y || b->op == BW_CEDAR__VALUE)) {
        out->type = bw_cedar__type_of(same ? BW_CEDAR__TRUE : BW_CEDAR__FALSE);
        return BW_OK;
    }
    if (s && t && s->kind == BW_CEDAR__ENTITY && t->kind == BW_CEDAR__ENTITY &&
        !bw_str_eq(s->name, t->name)) {
        out->type = bw_cedar__type_of(BW_CEDAR__FALSE);
        return BW_OK;
    }
    out->type = bw_cedar__type_of(BW_CEDAR__BOOL);
    return want_join(c, v, s, t);
}

static bw_status check_order(checker *c, const vnode *v, const typed *args, typed *out)
{
    const type *a = args[0].type;
    bool ok;
    out->type = bw_cedar__type_of(BW_CEDAR__BOOL);
    if (!a || (a->kind != BW_CEDAR__LONG && a->kind != BW_CEDAR__DATETIME &&
               a->kind != BW_CEDAR__DURATION))
        return a ? fail_type(c, v, 0, a, "Long, datetime or duration") : BW_OK;
    return want(c, v, 1, args, a->kind,
                a->kind == BW_CEDAR__LONG       ? "Long"
                : a->kind == BW_CEDAR__DATETIME ? "datetime"
                                                : "duration",
                &ok);
}

/* ---- entities ---- */
bool bw_cedar__type_below(const bw_cedar_schema *s, bw_str name, bw_str above)
{
    if (bw_str_eq(name, above))
        return true;
    uint32_t t = bw_cedar__schema_type(s, name), to = bw_cedar__schema_type(s, above);
    if (t == BW_CEDAR__NO_TYPE || to == BW_CEDAR__NO_TYPE)
        return false;
    const bw_cedar__entity_type *e = &s->types[t];
    uint32_t lo = 0, hi = e->nancestors;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (e->ancestors[mid] < to)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < e->nancestors && e->ancestors[lo] == to;
}

bool bw_cedar__action_below(const bw_cedar_schema *s, const bw_cedar__object *action,
                            const bw_cedar__uid *above)
{
    const bw_cedar__object *o = bw_cedar__store_get(&s->actions, above);
    return o && (o == action ||
                 bw_cedar__object_below(action, (uint32_t)(o - s->actions.objects)));
}

/* Whether an action that is known is in b, where that is known too. */
static bool in_known(const checker *c, const vnode *a, const vnode *b, bool *is)
{
    const bw_cedar__uid *uid = named(c, a), *above = named(c, b);
    const bw_cedar__object *action =
        uid ? bw_cedar__store_get(&c->schema->actions, uid) : NULL;
    if (!action || (!above && b->op != BW_CEDAR__SET_OF))
        return false;
    *is = above && bw_cedar__action_below(c->schema, action, above);
    for (uint32_t i = 0; !above && i < b->n; i++) {
        const bw_cedar__uid *one = named(c, child(c, b, i));
        if (!one)
            return false;
        *is |= bw_cedar__action_below(c->schema, action, one);
    }
    return true;
}

static bw_status check_in(checker *c, const vnode *v, const typed *args, typed *out)
{
    const vnode *a = child(c, v, 0), *b = child(c, v, 1);
    const type *t = args[1].type;
    bw_cedar__reach reach;
    bool ok, is;
    uint8_t kind = BW_CEDAR__BOOL;
    TRY(want(c, v, 0, args, BW_CEDAR__ENTITY, "an entity", &ok));
    if (ok)
        TRY(look_into(c, v, args, &reach));
    if (t && t->kind == BW_CEDAR__SET)
        t = t->element;
    c->steps += b->n;
    if (t && t->kind != BW_CEDAR__ENTITY)
        TRY(fail_type(c, v, 1, args[1].type, "an entity or a set of them"));
    else if (t && ok && in_known(c, a, b, &is))
        kind = is ? BW_CEDAR__TRUE : BW_CEDAR__FALSE;
    else if (t && ok && !bw_cedar__type_below(c->schema, args[0].type->name, t->name))
        kind = BW_CEDAR__FALSE;
    out->type = bw_cedar__type_of(kind);
    return BW_OK;
}

static const bw_cedar__entity_type *declared(const checker *c, const type *t)
{
    uint32_t i = bw_cedar__schema_type(c->schema, t->name);
    return i == BW_CEDAR__NO_TYPE ? NULL : &c->schema->types[i]; /* NULL: an action's */
}

static bw_status check_tag(checker *c, const vnode *v, const typed *args, typed *out)
{
    bool ok, key, get = v->op == BW_CEDAR__GET_TAG;
    TRY(want(c, v, 0, args, BW_CEDAR__ENTITY, "an entity", &ok));
    TRY(want(c, v, 1, args, BW_CEDAR__STRING, "String", &key));
    out->type = get ? NULL : bw_cedar__type_of(BW_CEDAR__BOOL);
    if (!ok)
        return BW_OK;
    TRY(look_into(c, v, args, &out->reach));
    const bw_cedar__entity_type *e = declared(c, args[0].type);
    const type *tags = e ? e->tags : NULL;
    bool held = c->active[v->grants] > 0;
    if (!get) {
        if (!tags || held)
            out->type = bw_cedar__type_of(tags ? BW_CEDAR__TRUE : BW_CEDAR__FALSE);
        return tags && !held ? bw_cedar__hold(c, v->grants) : BW_OK;
    }
    out->type = tags;
    if (tags && held)
        return BW_OK;
    if (!tags)
        bw_cedar__say(c, "`%e`: entities of type %t have no tags", v->source,
                      args[0].type);
    else
        bw_cedar__say(c,
                      "`%e`: the tag may be missing; ask hasTag before, in the same "
                      "words",
                      v->source);
    return bw_cedar__report(c, false, v->source);
}

/* ---- attributes ---- */
/* The record that an attribute is looked up in; NULL when there is none or after an
 * error. */
static bw_status shape(checker *c, const vnode *v, const typed *args, const type **out,
                       bw_cedar__reach *reach)
{
    static const type nothing = {.kind = BW_CEDAR__RECORD};
    const type *t = args[0].type;
    *out = NULL;
    if (!t)
        return BW_OK;
    if (t->kind == BW_CEDAR__RECORD) {
        const bw_cedar__attr *a = bw_cedar__type_attr(t, v->name);
        *out = t;
        *reach = a && args[0].reach.parts ? args[0].reach.parts[a - t->attrs]
                                          : args[0].reach;
        return BW_OK;
    }
    if (t->kind != BW_CEDAR__ENTITY)
        return fail_type(c, v, 0, t, "an entity or a record");
    const bw_cedar__entity_type *e = declared(c, t);
    *out = e ? e->shape : &nothing;
    return look_into(c, v, args, reach);
}

static bw_status check_has(checker *c, const vnode *v, const typed *args, typed *out)
{
    const type *record;
    bw_cedar__reach reach;
    out->type = bw_cedar__type_of(BW_CEDAR__BOOL);
    TRY(shape(c, v, args, &record, &reach));
    if (!record)
        return BW_OK;
    const bw_cedar__attr *a = bw_cedar__type_attr(record, v->name);
    /* An entity may be missing from the store, so its attributes are never certain. */
    bool certain = a && (c->active[v->grants] > 0 ||
                         (a->required && args[0].type->kind == BW_CEDAR__RECORD));
    if (!a || certain)
        out->type = bw_cedar__type_of(a ? BW_CEDAR__TRUE : BW_CEDAR__FALSE);
    return a && !certain ? bw_cedar__hold(c, v->grants) : BW_OK;
}

static bw_status check_get(checker *c, const vnode *v, const typed *args, typed *out)
{
    const type *record;
    TRY(shape(c, v, args, &record, &out->reach));
    if (!record)
        return BW_OK;
    const bw_cedar__attr *a = bw_cedar__type_attr(record, v->name);
    if (a) {
        out->type = a->type;
        if (a->required || c->active[v->grants] > 0)
            return BW_OK;
        bw_cedar__say(c,
                      "`%e`: attribute %n of %t is optional; ask `has` before, in "
                      "the same words",
                      v->source, v->name, args[0].type);
    } else {
        bw_cedar__say(c, "`%e`: %t has no attribute %n", v->source, args[0].type,
                      v->name);
    }
    return bw_cedar__report(c, false, v->source);
}

/* ---- sets, records, calls ---- */
static bw_status check_set(checker *c, const vnode *v, const typed *args, typed *out)
{
    if (v->n == 0) {
        bw_cedar__say(c, "an empty set has no type and cannot be written in a policy");
        return bw_cedar__report(c, false, v->source);
    }
    const type *element = args[0].type;
    for (uint32_t i = 1; i < v->n && element; i++) {
        const type *both = NULL;
        if (args[i].type) {
            TRY(bw_cedar__join(c, element, args[i].type, &both));
            if (!both)
                TRY(bw_cedar__fail_join(c, v, element, args[i].type));
        }
        element = both;
    }
    if (!element)
        return BW_OK;
    type *t = bw_arena_calloc(c->env, 1, sizeof *t);
    if (!t)
        return bw_fail_nomem(c->ctx);
    *t = (type){.kind = BW_CEDAR__SET, .element = element};
    out->type = t;
    return BW_OK;
}

static bw_status check_record(checker *c, const vnode *v, const typed *args, typed *out)
{
    bw_cedar__attr *attrs = bw_arena_alloc(c->env, v->n * sizeof *attrs);
    bw_cedar__reach *parts =
        c->options.level < 0 ? NULL : bw_arena_alloc(c->env, v->n * sizeof *parts);
    type *t = bw_arena_calloc(c->env, 1, sizeof *t);
    if (!attrs || !t || (!parts && c->options.level >= 0))
        return bw_fail_nomem(c->ctx);
    for (uint32_t i = 0; i < v->n; i++) {
        uint32_t at = v->order[i];
        if (!args[at].type)
            return BW_OK;
        attrs[i] = (bw_cedar__attr){v->source->u.names[at], args[at].type, true};
        if (parts)
            parts[i] = args[at].reach;
    }
    *t = (type){.kind = BW_CEDAR__RECORD, .attrs = attrs, .nattrs = v->n};
    out->type = t;
    out->reach = (bw_cedar__reach){.n = v->n, .parts = parts};
    return BW_OK;
}

static bw_status check_constructor(checker *c, const vnode *v, const typed *args)
{
    const vnode *arg = child(c, v, 0);
    bw_cedar_value value;
    bool ok, memory = false;
    const char *name = bw_cedar__fn_name(v->which).ptr;
    TRY(want(c, v, 0, args, BW_CEDAR__STRING, "String", &ok));
    if (arg->op != BW_CEDAR__VALUE) {
        bw_cedar__say(c, "`%e`: %s takes a string that is written out", v->source,
                      name);
        return bw_cedar__report(c, false, v->source);
    }
    if (!ok ||
        !bw_cedar__fn_call(c->env, v->which, &arg->source->u.value, 1, &value, &memory))
        return BW_OK;
    if (memory)
        return bw_fail_nomem(c->ctx);
    bw_cedar__say(c, "`%e`: %s cannot read the string", v->source, name);
    return bw_cedar__report(c, false, v->source);
}

static bw_status check_call(checker *c, const vnode *v, const typed *args, typed *out)
{
    const bw_cedar__kind *kinds;
    bw_cedar__kind result;
    uint32_t n = bw_cedar__fn_types(v->which, &kinds, &result);
    out->type = bw_cedar__type_of((uint8_t)result);
    if (v->n != n) {
        bw_cedar__say(c, "`%e`: %s takes %u arguments, not %u", v->source,
                      bw_cedar__fn_name(v->which).ptr, n, v->n);
        return bw_cedar__report(c, false, v->source);
    }
    if (bw_cedar__fn_constructor(v->which))
        return check_constructor(c, v, args);
    static const char *const names[] = {[BW_CEDAR__DECIMAL] = "decimal",
                                        [BW_CEDAR__DATETIME] = "datetime",
                                        [BW_CEDAR__DURATION] = "duration",
                                        [BW_CEDAR__IP] = "ipaddr"};
    bool ok;
    for (uint32_t i = 0; i < n; i++)
        TRY(want(c, v, i, args, (uint8_t)kinds[i], names[kinds[i]], &ok));
    return BW_OK;
}

/* ---- all of them ---- */
/* Operators on two sets: the joins of their types, not of their elements. */
static bw_status check_sets(checker *c, const vnode *v, const typed *args)
{
    bool a, b = true;
    TRY(want(c, v, 0, args, BW_CEDAR__SET, "a set", &a));
    if (v->op != BW_CEDAR__CONTAINS && v->op != BW_CEDAR__IS_EMPTY)
        TRY(want(c, v, 1, args, BW_CEDAR__SET, "a set", &b));
    if (!a || !b || v->op == BW_CEDAR__IS_EMPTY)
        return BW_OK;
    const type *s = args[0].type;
    return want_join(c, v, v->op == BW_CEDAR__CONTAINS ? s->element : s, args[1].type);
}

static void var_type(checker *c, const vnode *v, typed *out)
{
    out->type = v->which == BW_CEDAR__CONTEXT ? c->context : &c->var[v->which];
}

bw_status bw_cedar__check_rule(checker *c, const vnode *v, const typed *args,
                               typed *out)
{
    bool ok;
    uint8_t kind;
    out->type = bw_cedar__type_of(BW_CEDAR__BOOL);
    switch ((bw_cedar__op)v->op) {
    case BW_CEDAR__VALUE:
        *out = (typed){v->type, {.depth = BW_CEDAR__NO_ROOT}};
        return BW_OK;
    case BW_CEDAR__VAR:
        var_type(c, v, out);
        return BW_OK;
    case BW_CEDAR__NOT:
        TRY(bw_cedar__want_bool(c, v, 0, args[0].type, &kind));
        if (kind != BW_CEDAR__BOOL)
            out->type = bw_cedar__type_of(kind == BW_CEDAR__TRUE ? BW_CEDAR__FALSE
                                                                 : BW_CEDAR__TRUE);
        return BW_OK;
    case BW_CEDAR__NEG:
    case BW_CEDAR__ADD:
    case BW_CEDAR__SUB:
    case BW_CEDAR__MUL:
        out->type = bw_cedar__type_of(BW_CEDAR__LONG);
        for (uint32_t i = 0; i < v->n; i++)
            TRY(want(c, v, i, args, BW_CEDAR__LONG, "Long", &ok));
        return BW_OK;
    case BW_CEDAR__EQ:
        return check_eq(c, v, args, out);
    case BW_CEDAR__LT:
    case BW_CEDAR__LE:
        return check_order(c, v, args, out);
    case BW_CEDAR__IN:
        return check_in(c, v, args, out);
    case BW_CEDAR__IS_EMPTY:
    case BW_CEDAR__CONTAINS:
    case BW_CEDAR__CONTAINS_ALL:
    case BW_CEDAR__CONTAINS_ANY:
        return check_sets(c, v, args);
    case BW_CEDAR__HAS_TAG:
    case BW_CEDAR__GET_TAG:
        return check_tag(c, v, args, out);
    case BW_CEDAR__HAS:
        return check_has(c, v, args, out);
    case BW_CEDAR__GET:
        out->type = NULL;
        return check_get(c, v, args, out);
    case BW_CEDAR__LIKE:
        return want(c, v, 0, args, BW_CEDAR__STRING, "String", &ok);
    case BW_CEDAR__IS:
        TRY(want(c, v, 0, args, BW_CEDAR__ENTITY, "an entity", &ok));
        if (ok)
            out->type = bw_cedar__type_of(bw_str_eq(args[0].type->name, v->name)
                                              ? BW_CEDAR__TRUE
                                              : BW_CEDAR__FALSE);
        return BW_OK;
    case BW_CEDAR__SET_OF:
        out->type = NULL;
        return check_set(c, v, args, out);
    case BW_CEDAR__RECORD_OF:
        out->type = NULL;
        return check_record(c, v, args, out);
    case BW_CEDAR__CALL:
        return check_call(c, v, args, out);
    default: /* slots and errors stand in no policy that was read */
        bw_cedar__say(c, "`%e` has no type", v->source);
        return bw_cedar__report(c, false, v->source);
    }
}
