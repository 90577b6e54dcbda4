/* The evaluator: runs one policy's program on a stack of values. No recursion, no heap;
 * what a program builds (sets, records, addresses) goes into the request's arena and is
 * dropped after the policy. Semantics: language description, section 4. */
#include "code.h"

/* Whether uid is the resource whose own object stands beside the stores. */
static bool is_own(const bw_cedar__run *run, const bw_cedar__uid *uid)
{
    return bw_cedar__uid_eq(uid, run->vars[BW_CEDAR__RESOURCE].u.uid);
}

const bw_cedar__object *bw_cedar__find(const bw_cedar__run *run,
                                       const bw_cedar__uid *uid)
{
    for (int i = 0; i < 3; i++) /* the request's own uids were looked up at the start */
        if (run->vars[i].u.uid == uid)
            return run->objects[i];
    if (run->own && is_own(run, uid))
        return run->own;
    return bw_cedar__find_stored(run, uid);
}

const bw_cedar__object *bw_cedar__find_stored(const bw_cedar__run *run,
                                              const bw_cedar__uid *uid)
{
    for (int i = 0; i < 3; i++) {
        const bw_cedar__object *o =
            run->stores[i] ? bw_cedar__store_get(run->stores[i], uid) : NULL;
        if (o && o->defined)
            return o;
    }
    return NULL;
}

/* ---- ancestry ---- */
static bool store_is_in(const bw_cedar_entities *s, const bw_cedar__object *a,
                        const bw_cedar__uid *b)
{
    const bw_cedar__object *o = bw_cedar__store_get(s, b);
    return o && bw_cedar__object_below(a, (uint32_t)(o - s->objects));
}

/* The object that holds a's parents: of the small store when it defines a, else of the
 * base. */
static const bw_cedar__object *object_of(const bw_cedar__run *run,
                                         const bw_cedar__uid *a,
                                         const bw_cedar_entities **store)
{
    if (run->stores[2] && bw_cedar__is_action_type(a->type)) {
        *store = run->stores[2];
        return bw_cedar__store_get(*store, a);
    }
    *store = run->stores[0];
    const bw_cedar__object *o = *store ? bw_cedar__store_get(*store, a) : NULL;
    if (o && o->defined)
        return o;
    *store = run->stores[1];
    return *store ? bw_cedar__store_get(*store, a) : NULL;
}

/* Whether the base's closures cannot be taken as they are: the small store defines a
 * uid that the base knows too, and with other parents. Rare: it holds leaves, as a
 * rule. */
static bool stores_tangle(const bw_cedar_entities *extra, const bw_cedar_entities *base)
{
    if (!extra || !base)
        return false;
    for (uint32_t i = 0; i < extra->n; i++) {
        const bw_cedar__object *o = &extra->objects[i];
        const bw_cedar__object *same =
            o->defined ? bw_cedar__store_get(base, &o->uid) : NULL;
        if (same && (o->nancestors > 0 || same->nancestors > 0))
            return true;
    }
    return false;
}

/* The same of the resource's own object and a store: something there may have it as an
 * ancestor, and its parents may be others here. */
static bool own_tangles(const bw_cedar__run *run, const bw_cedar_entities *store)
{
    if (!run->own || !store || !bw_cedar__store_has_above(store, run->own->uid.type))
        return false;
    const bw_cedar__object *same =
        bw_cedar__store_get(store, run->vars[BW_CEDAR__RESOURCE].u.uid);
    return same && (run->own->nparents > 0 || same->nancestors > 0);
}

static uint32_t size_of(const bw_cedar_entities *store)
{
    return store ? store->n : 0;
}

bw_status bw_cedar__run_stores(bw_cedar__run *run, bool tangled)
{
    const bw_cedar_entities *extra = run->stores[0], *base = run->stores[1];
    run->tangled = tangled || own_tangles(run, extra) || own_tangles(run, base);
    if (!run->tangled)
        return BW_OK;
    run->seen =
        bw_arena_calloc(run->ctx, (size_t)size_of(extra) + size_of(base) + 1, 1);
    return run->seen ? BW_OK : bw_fail_nomem(run->ctx);
}

bool bw_cedar__tangled(const bw_cedar__run *run)
{
    return stores_tangle(run->stores[0], run->stores[1]);
}

typedef struct node { /* a uid that some store knows, by a number of its own */
    const bw_cedar_entities *store; /* whose objects its parents are */
    const bw_cedar__object *object; /* NULL: known nowhere */
    uint32_t number;
} node;

/* The resource's own object; else the small store's when it defines the uid, else the
 * base's, else the small store's (a parent that nobody defines). */
static node node_of(const bw_cedar__run *run, const bw_cedar__uid *uid)
{
    const bw_cedar_entities *extra = run->stores[0], *base = run->stores[1];
    if (run->own && is_own(run, uid))
        return (node){run->own_store, run->own, size_of(extra) + size_of(base)};
    const bw_cedar__object *o = extra ? bw_cedar__store_get(extra, uid) : NULL;
    const bw_cedar__object *low =
        !base || (o && o->defined) ? NULL : bw_cedar__store_get(base, uid);
    if (low)
        return (node){base, low, size_of(extra) + (uint32_t)(low - base->objects)};
    return (node){extra, o, o ? (uint32_t)(o - extra->objects) : 0};
}

static bool stop_for_memory(bw_cedar__run *run)
{
    run->nomem = true;
    run->steps = BW_CEDAR_STEPS_MAX + 1u; /* the next step stops the run */
    return false;
}

/* Ancestry by the parents themselves, over all stores. seen has a byte a node, all 0
 * before and after. */
static bool crossing(bw_cedar__run *run, const bw_cedar__uid *a, const bw_cedar__uid *b)
{
    uint32_t n = 0, cap = 32;
    node *list = bw_arena_alloc(run->ctx, cap * sizeof *list);
    bool found = false;
    if (!list)
        return stop_for_memory(run);
    list[0] = node_of(run, a);
    if (!list[0].object)
        return false;
    run->seen[list[n++].number] = true;
    for (uint32_t at = 0; at < n && !found; at++) {
        const node of = list[at];
        run->steps += of.object->nparents;
        for (uint32_t k = 0; k < of.object->nparents && !found; k++) {
            const bw_cedar__uid *parent = &of.store->objects[of.object->parents[k]].uid;
            node up = node_of(run, parent);
            found = bw_cedar__uid_eq(parent, b);
            if (!up.object || run->seen[up.number])
                continue;
            if (n == cap) {
                void *grown = bw_arena_grow(run->ctx, list, cap * sizeof *list,
                                            2 * cap * sizeof *list);
                if (!grown)
                    return stop_for_memory(run);
                list = grown;
                cap *= 2;
            }
            run->seen[up.number] = true;
            list[n++] = up;
        }
    }
    while (n > 0)
        run->seen[list[--n].number] = false;
    return found;
}

/* b among the ancestors of the resource's own object; its parents are other entities,
 * whose ancestors the stores hold. */
static bool own_is_in(bw_cedar__run *run, const bw_cedar__uid *b)
{
    for (uint32_t k = 0; k < run->own->nparents; k++)
        if (bw_cedar__is_in(run, &run->own_store->objects[run->own->parents[k]].uid, b))
            return true;
    return false;
}

bool bw_cedar__is_in(bw_cedar__run *run, const bw_cedar__uid *a, const bw_cedar__uid *b)
{
    const bw_cedar_entities *extra = run->stores[0], *base = run->stores[1], *store;
    if (bw_cedar__uid_eq(a, b))
        return true;
    run->steps++;
    bool of_schema = run->stores[2] && bw_cedar__is_action_type(a->type);
    if (run->tangled && !of_schema)
        return crossing(run, a, b);
    if (run->own && !of_schema && is_own(run, a))
        return own_is_in(run, b);
    const bw_cedar__object *o = object_of(run, a, &store);
    if (!o || o->nancestors == 0)
        return false;
    if (store_is_in(store, o, b))
        return true;
    if (store != extra || !base)
        return false;
    const bw_cedar__object *target = bw_cedar__store_get(base, b);
    run->steps += o->nancestors;
    for (uint32_t k = 0; target && k < o->nancestors; k++) {
        const bw_cedar__object *up = &extra->objects[o->ancestors[k]];
        const bw_cedar__object *same =
            up->defined ? NULL : bw_cedar__store_get(base, &up->uid);
        if (same && bw_cedar__object_below(same, (uint32_t)(target - base->objects)))
            return true;
    }
    return false;
}

/* Visits the ancestors of uid (perhaps one twice); false, having visited nothing, when
 * that would be more than `most` or the stores are tangled. */
bool bw_cedar__each_ancestor(bw_cedar__run *run, const bw_cedar__uid *uid, size_t most,
                             void (*visit)(const bw_cedar__uid *uid, void *user),
                             void *user)
{
    const bw_cedar_entities *extra = run->stores[0], *base = run->stores[1], *store;
    const bw_cedar__object *o = run->tangled ? NULL : object_of(run, uid, &store);
    if (run->tangled)
        return false;
    if (!o)
        return true;
    size_t count = o->nancestors;
    const bw_cedar_entities *second = store == extra ? base : NULL;
    for (uint32_t k = 0; second && k < o->nancestors && count <= most; k++) {
        const bw_cedar__object *same =
            bw_cedar__store_get(second, &extra->objects[o->ancestors[k]].uid);
        count += same ? same->nancestors : 0;
    }
    run->steps += count < most ? count : most;
    if (count > most)
        return false;
    for (uint32_t k = 0; k < o->nancestors; k++) {
        const bw_cedar__object *up = &store->objects[o->ancestors[k]];
        visit(&up->uid, user);
        const bw_cedar__object *same =
            second && !up->defined ? bw_cedar__store_get(second, &up->uid) : NULL;
        for (uint32_t i = 0; same && i < same->nancestors; i++)
            visit(&second->objects[same->ancestors[i]].uid, user);
    }
    return true;
}

typedef struct looking {
    bw_str type;
    bool met;
} looking;

static void look_at(const bw_cedar__uid *uid, void *user)
{
    looking *l = user;
    l->met |= bw_str_eq(uid->type, l->type);
}

bool bw_cedar__lineage_known(bw_cedar__run *run, const bw_cedar__uid *uid)
{
    if (!run->unknown)
        return true;
    looking l = {*run->unknown, bw_str_eq(uid->type, *run->unknown)};
    if (l.met || !run->unknown_above)
        return !l.met;
    return bw_cedar__each_ancestor(run, uid, SIZE_MAX, look_at, &l) && !l.met;
}

static bool among(const bw_cedar__lineage *l, const bw_cedar__uid *uid)
{
    for (uint32_t i = (uint32_t)uid->hash & l->mask; l->slots[i]; i = (i + 1) & l->mask)
        if (bw_cedar__uid_eq(l->slots[i], uid))
            return true;
    return false;
}

/* lineage: a's, or NULL. */
static const char *op_in(bw_cedar__run *run, const bw_cedar_value *a,
                         const bw_cedar_value *b, const bw_cedar__lineage *lineage,
                         bool *out)
{
    if (a->kind != BW_CEDAR__ENTITY)
        return "left of in is no entity";
    if (b->kind == BW_CEDAR__ENTITY) {
        *out = lineage ? among(lineage, b->u.uid)
                       : bw_cedar__is_in(run, a->u.uid, b->u.uid);
        return NULL;
    }
    if (b->kind != BW_CEDAR__SET)
        return "right of in is neither entity nor set";
    for (uint32_t i = 0; i < b->n; i++)
        if (b->u.items[i].kind != BW_CEDAR__ENTITY)
            return "right of in is a set that holds more than entities";
    *out = false;
    for (uint32_t i = 0; i < b->n && !*out; i++)
        *out = lineage ? among(lineage, b->u.items[i].u.uid)
                       : bw_cedar__is_in(run, a->u.uid, b->u.items[i].u.uid);
    return NULL;
}

/* A Bool in place: a value made aside and copied whole would wait for its parts. */
static void put_bool(bw_cedar_value *out, bool b)
{
    out->kind = BW_CEDAR__BOOL;
    out->n = 0;
    out->u.boolean = b;
}

/* ---- access ---- */
/* The record that holds attributes of v, or NULL: a missing entity. *type_error when v
 * has none. */
static const bw_cedar_value *attrs_of(const bw_cedar__run *run, const bw_cedar_value *v,
                                      bool *type_error)
{
    *type_error = false;
    if (v->kind == BW_CEDAR__RECORD)
        return v;
    if (v->kind != BW_CEDAR__ENTITY) {
        *type_error = true;
        return NULL;
    }
    const bw_cedar__object *o = bw_cedar__find(run, v->u.uid);
    return o ? &o->attrs : NULL;
}

static const char missing[] = "attribute of an entity that is in no store";

static const char *get(const bw_cedar_value *r, bw_cedar_value *top, bw_str name,
                       uint32_t hint)
{
    const bw_cedar_value *v = bw_cedar__record_get_at(r, name, hint);
    if (!v)
        return "no such attribute";
    *top = *v;
    return NULL;
}

static const char *op_get(const bw_cedar__run *run, bw_cedar_value *top, bw_str name,
                          uint32_t hint)
{
    bool type_error;
    const bw_cedar_value *r = attrs_of(run, top, &type_error);
    if (!r)
        return type_error ? "attribute of what is neither record nor entity" : missing;
    return get(r, top, name, hint);
}

/* The commonest: of a variable, whose object is at hand. */
static const char *op_var_get(const bw_cedar__run *run, const bw_cedar__instr *in,
                              bw_cedar_value *top)
{
    if (in->which == BW_CEDAR__CONTEXT)
        return get(&run->vars[BW_CEDAR__CONTEXT], top, in->u.name, in->n);
    const bw_cedar__object *o = run->objects[in->which];
    return o ? get(&o->attrs, top, in->u.name, in->n) : missing;
}

static const char *op_has(const bw_cedar__run *run, const bw_cedar_value *top,
                          bw_str name, const bw_cedar_value **found)
{
    bool type_error;
    const bw_cedar_value *r = attrs_of(run, top, &type_error);
    *found = r ? bw_cedar__record_get(r, name) : NULL;
    return type_error ? "has on what is neither record nor entity" : NULL;
}

static const char *op_tag(const bw_cedar__run *run, bw_cedar__ins ins,
                          bw_cedar_value *a, const bw_cedar_value *key)
{
    if (a->kind != BW_CEDAR__ENTITY || key->kind != BW_CEDAR__STRING)
        return "tags need an entity and a string";
    const bw_cedar__object *o = bw_cedar__find(run, a->u.uid);
    const bw_cedar_value *v =
        o ? bw_cedar__record_get(&o->tags, bw_cedar__text(key)) : NULL;
    if (ins == BW_CEDAR__I_HAS_TAG)
        put_bool(a, v != NULL);
    else if (!v)
        return o ? "no such tag" : "tag of an entity that is in no store";
    else
        *a = *v;
    return NULL;
}

/* ---- operators on two values: the result replaces a ---- */
static const char *op_order(bw_cedar__ins ins, bw_cedar_value *a,
                            const bw_cedar_value *b)
{
    bool ordered = a->kind == BW_CEDAR__LONG || a->kind == BW_CEDAR__DATETIME ||
                   a->kind == BW_CEDAR__DURATION;
    if (!ordered || a->kind != b->kind)
        return "comparison of values that have no order together";
    int64_t x = a->u.integer, y = b->u.integer;
    put_bool(a, ins == BW_CEDAR__I_LT   ? x < y
                : ins == BW_CEDAR__I_LE ? x <= y
                : ins == BW_CEDAR__I_GT ? x > y
                                        : x >= y);
    return NULL;
}

static const char *op_arithmetic(bw_cedar__ins ins, bw_cedar_value *a,
                                 const bw_cedar_value *b)
{
    if (a->kind != BW_CEDAR__LONG || b->kind != BW_CEDAR__LONG)
        return "arithmetic on what is no Long";
    int64_t x = a->u.integer, y = b->u.integer, *r = &a->u.integer;
    bool over = ins == BW_CEDAR__I_ADD   ? __builtin_add_overflow(x, y, r)
                : ins == BW_CEDAR__I_SUB ? __builtin_sub_overflow(x, y, r)
                                         : __builtin_mul_overflow(x, y, r);
    return over ? "integer overflow" : NULL;
}

static const char *op_sets(bw_cedar__run *run, bw_cedar__ins ins, bw_cedar_value *a,
                           const bw_cedar_value *b)
{
    if (a->kind != BW_CEDAR__SET ||
        (ins != BW_CEDAR__I_CONTAINS && b->kind != BW_CEDAR__SET))
        return "set operator on what is no set";
    put_bool(a, ins == BW_CEDAR__I_CONTAINS ? bw_cedar__set_has(a, b, &run->steps)
                : ins == BW_CEDAR__I_CONTAINS_ALL
                    ? bw_cedar__set_has_all(a, b, &run->steps)
                    : bw_cedar__set_has_any(a, b, &run->steps));
    return NULL;
}

static const char *op_binary(bw_cedar__run *run, bw_cedar__ins ins, bw_cedar_value *a,
                             const bw_cedar_value *b)
{
    const char *why;
    bool yes = false;
    switch (ins) {
    case BW_CEDAR__I_EQ:
    case BW_CEDAR__I_NE:
        yes = a->kind == b->kind &&
              (a->kind == BW_CEDAR__ENTITY ? bw_cedar__uid_eq(a->u.uid, b->u.uid)
                                           : bw_cedar__cmp(a, b, &run->steps) == 0);
        put_bool(a, yes == (ins == BW_CEDAR__I_EQ));
        return NULL;
    case BW_CEDAR__I_LT:
    case BW_CEDAR__I_LE:
    case BW_CEDAR__I_GT:
    case BW_CEDAR__I_GE:
        return op_order(ins, a, b);
    case BW_CEDAR__I_IN:
        why = op_in(run, a, b, NULL, &yes);
        put_bool(a, !why && yes);
        return why;
    case BW_CEDAR__I_HAS_TAG:
    case BW_CEDAR__I_GET_TAG:
        return op_tag(run, ins, a, b);
    case BW_CEDAR__I_CONTAINS:
    case BW_CEDAR__I_CONTAINS_ALL:
    case BW_CEDAR__I_CONTAINS_ANY:
        return op_sets(run, ins, a, b);
    default:
        return op_arithmetic(ins, a, b);
    }
}

/* ---- builders ---- */
static const char out_of_memory[] = "out of memory";

static const char *op_set(bw_cedar__run *run, bw_cedar_value *base, uint32_t n)
{
    bw_cedar_value *items = bw_arena_alloc(run->ctx, n * sizeof *items);
    if (!items)
        return out_of_memory;
    if (n)
        memcpy(items, base, n * sizeof *items);
    n = bw_cedar__set_sort(items, n, &run->steps);
    *base = (bw_cedar_value){.kind = BW_CEDAR__SET, .n = n, .u.items = items};
    return NULL;
}

static const char *op_record(bw_cedar__run *run, bw_cedar_value *base, uint32_t n,
                             const bw_str *names)
{
    bw_cedar__member *members = bw_arena_alloc(run->ctx, n * sizeof *members);
    if (!members)
        return out_of_memory;
    for (uint32_t i = 0; i < n; i++)
        members[i] = (bw_cedar__member){names[i], base[i]};
    bool unique = bw_cedar__record_sort(members, n);
    assert(unique); /* the parser saw to it */
    (void)unique;
    run->steps += n;
    *base = (bw_cedar_value){.kind = BW_CEDAR__RECORD, .n = n, .u.members = members};
    return NULL;
}

static const char *op_unary(bw_cedar__ins ins, bw_cedar_value *a)
{
    switch (ins) {
    case BW_CEDAR__I_NOT:
        if (a->kind != BW_CEDAR__BOOL)
            return "! on what is no Bool";
        a->u.boolean = !a->u.boolean;
        return NULL;
    case BW_CEDAR__I_NEG:
        if (a->kind != BW_CEDAR__LONG)
            return "arithmetic on what is no Long";
        return __builtin_sub_overflow(0, a->u.integer, &a->u.integer)
                   ? "integer overflow"
                   : NULL;
    default:
        if (a->kind != BW_CEDAR__SET)
            return "set operator on what is no set";
        put_bool(a, a->n == 0);
        return NULL;
    }
}

static const char *op_like(bw_cedar__run *run, bw_cedar_value *a,
                           const bw_cedar__pattern *p)
{
    if (a->kind != BW_CEDAR__STRING)
        return "like on what is no String";
    run->steps += a->n / 16 + p->n;
    put_bool(a, bw_cedar__pattern_match(p, bw_cedar__text(a)));
    return NULL;
}

static const char *op_is(bw_cedar_value *a, bw_str type, bool *same)
{
    if (a->kind != BW_CEDAR__ENTITY)
        return "is on what is no entity";
    *same = bw_str_eq(a->u.uid->type, type);
    return NULL;
}

/* Instructions that replace operands by a result. top points at the highest value. */
static const char *run_value(bw_cedar__run *run, const bw_cedar__instr *in,
                             bw_cedar_value **top)
{
    bw_cedar_value *t = *top;
    const bw_cedar_value *found;
    const char *why;
    bool yes = false;
    switch ((bw_cedar__ins)in->ins) {
    case BW_CEDAR__I_CONST:
        *++*top = in->u.value;
        return NULL;
    case BW_CEDAR__I_VAR:
        *++*top = run->vars[in->which];
        return NULL;
    case BW_CEDAR__I_VAR_GET:
        return op_var_get(run, in, ++*top);
    case BW_CEDAR__I_NOT:
    case BW_CEDAR__I_NEG:
    case BW_CEDAR__I_IS_EMPTY:
        return op_unary(in->ins, t);
    case BW_CEDAR__I_GET:
        return op_get(run, t, in->u.name, in->n);
    case BW_CEDAR__I_HAS:
        why = op_has(run, t, in->u.name, &found);
        put_bool(t, found != NULL);
        return why;
    case BW_CEDAR__I_LIKE:
        return op_like(run, t, in->u.pattern);
    case BW_CEDAR__I_IS:
        why = op_is(t, in->u.name, &yes);
        put_bool(t, yes);
        return why;
    case BW_CEDAR__I_SET:
        *top = t + 1 - in->n;
        return op_set(run, *top, in->n);
    case BW_CEDAR__I_RECORD:
        *top = t + 1 - in->n;
        return op_record(run, *top, in->n, in->u.names);
    case BW_CEDAR__I_CALL: {
        bool memory = false;
        *top = t + 1 - in->n;
        bw_cedar_value v = {0};
        why = bw_cedar__fn_call(run->ctx, in->which, *top, in->n, &v, &memory);
        **top = v;
        return memory ? out_of_memory : why;
    }
    case BW_CEDAR__I_IN_KNOWN:
        *top = t - 1;
        why = op_in(run, t - 1, t, in->u.lineage, &yes);
        put_bool(t - 1, !why && yes);
        return why;
    case BW_CEDAR__I_ERROR:
        return "unknown value";
    default:
        *top = t - 1;
        return op_binary(run, in->ins, t - 1, t);
    }
}

/* Jumps and tests. Sets *next; *done when the policy is decided. */
static const char *run_control(bw_cedar__run *run, const bw_cedar__instr *in,
                               bw_cedar_value **top, uint32_t *next, bool *done)
{
    bw_cedar_value *t = *top;
    const bw_cedar_value *found;
    const char *why;
    bool same;
    switch ((bw_cedar__ins)in->ins) {
    case BW_CEDAR__I_JUMP:
        *next = in->n;
        return NULL;
    case BW_CEDAR__I_HAS_STEP:
        why = op_has(run, t, in->u.name, &found);
        if (!why && !found) {
            put_bool(t, false);
            *next = in->n;
        } else if (!why) {
            *t = *found;
        }
        return why;
    case BW_CEDAR__I_IS_STEP:
        why = op_is(t, in->u.name, &same);
        if (!why && !same) {
            put_bool(t, false);
            *next = in->n;
        }
        return why;
    default:
        break;
    }
    if (t->kind != BW_CEDAR__BOOL)
        return "condition that is no Bool";
    bool truth = t->u.boolean;
    switch ((bw_cedar__ins)in->ins) {
    case BW_CEDAR__I_AND:
    case BW_CEDAR__I_OR:
        if (truth == (in->ins == BW_CEDAR__I_OR))
            *next = in->n;
        else
            --*top;
        return NULL;
    case BW_CEDAR__I_IF:
        --*top;
        if (!truth)
            *next = in->n;
        return NULL;
    case BW_CEDAR__I_WHEN:
    case BW_CEDAR__I_UNLESS:
        --*top;
        *done = truth == (in->ins == BW_CEDAR__I_UNLESS);
        return NULL;
    default: /* I_BOOL */
        return NULL;
    }
}

static bool is_control(uint8_t ins)
{
    switch ((bw_cedar__ins)ins) {
    case BW_CEDAR__I_AND:
    case BW_CEDAR__I_OR:
    case BW_CEDAR__I_BOOL:
    case BW_CEDAR__I_IF:
    case BW_CEDAR__I_JUMP:
    case BW_CEDAR__I_HAS_STEP:
    case BW_CEDAR__I_IS_STEP:
    case BW_CEDAR__I_WHEN:
    case BW_CEDAR__I_UNLESS:
        return true;
    default:
        return false;
    }
}

bw_cedar__outcome bw_cedar__apply(bw_cedar__run *run, const bw_cedar__instr *in,
                                  bw_cedar_value *stack, uint32_t n)
{
    bw_cedar_value *top = stack + n;
    assert(!is_control(in->ins));
    const char *why = run_value(run, in, &top);
    if (++run->steps > BW_CEDAR_STEPS_MAX || why == out_of_memory)
        return BW_CEDAR__STOPPED;
    assert(why || top == stack + 1);
    return why ? BW_CEDAR__ERRED : BW_CEDAR__YES;
}

bw_cedar__outcome bw_cedar__eval(bw_cedar__run *run, const bw_cedar__code *code)
{
    bw_cedar_value *top =
        run->stack; /* [0] stays unused: an empty stack has a top too */
    for (uint32_t pc = 0;;) {
        assert(pc < code->n);
        const bw_cedar__instr *in = &code->ins[pc++];
        bool done = false;
        const char *why = NULL;
        if (in->ins == BW_CEDAR__I_END)
            return BW_CEDAR__YES;
        if (in->ins == BW_CEDAR__I_CONST) /* the two commonest without a call */
            *++top = in->u.value;
        else if (in->ins == BW_CEDAR__I_VAR_GET)
            why = op_var_get(run, in, ++top);
        else if (is_control(in->ins))
            why = run_control(run, in, &top, &pc, &done);
        else
            why = run_value(run, in, &top);
        if (++run->steps > BW_CEDAR_STEPS_MAX || why == out_of_memory)
            return BW_CEDAR__STOPPED;
        if (why) {
            run->reason = why;
            return BW_CEDAR__ERRED;
        }
        if (done)
            return BW_CEDAR__NO;
        assert(top >= run->stack && top <= run->stack + code->stack_max);
    }
}
