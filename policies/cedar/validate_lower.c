/* Policies made ready for typing, once for all environments: fewer operators, and a
 * number for every way an expression is written, since a capability holds for what is
 * written alike. The tree is walked with a stack of its own, as in compile.c. */
#include "../../engine/base/map.h"
#include "validate.h"

#include <stdlib.h>

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

typedef bw_cedar__vnode vnode;

typedef struct frame {
    const bw_cedar__expr *e;
    uint32_t i; /* next child */
} frame;

typedef struct lowering {
    bw_ctx *ctx, *pool;
    const bw_cedar_schema *schema;
    uint64_t *steps;
    bw_map *shapes;
    bw_buf key;
    vnode *nodes;
    uint32_t n, cap;
    frame *frames;
    uint32_t nframes, frames_cap;
    uint32_t *done; /* nodes of children that wait for their parent */
    uint32_t ndone, done_cap;
} lowering;

/* Room for one more item. */
static bw_status room(lowering *l, void **items, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return BW_OK;
    uint32_t more = *cap ? *cap * 2 : 64;
    void *grown = bw_arena_grow(l->pool, *items, n * size, more * size);
    if (!grown)
        return bw_fail_nomem(l->ctx);
    *items = grown;
    *cap = more;
    return BW_OK;
}

/* ---- shapes ---- */
static void key_u32(bw_buf *key, uint32_t v)
{
    bw_buf_put(key, &v, sizeof v);
}

static void key_str(bw_buf *key, bw_str s)
{
    key_u32(key, (uint32_t)s.len);
    bw_buf_str(key, s);
}

static void key_value(bw_buf *key, const bw_cedar_value *v)
{
    bw_buf_putc(key, (char)v->kind);
    switch (v->kind) {
    case BW_CEDAR__STRING:
        bw_buf_str(key, bw_cedar__text(v));
        return;
    case BW_CEDAR__ENTITY:
        key_str(key, v->u.uid->type);
        key_str(key, v->u.uid->id);
        return;
    default:
        bw_buf_put(key, &v->u.integer, sizeof v->u.integer);
    }
}

/* What tells a node from all that are written differently. */
static void key_node(lowering *l, const vnode *v)
{
    l->key.len = 0;
    bw_buf_putc(&l->key, (char)v->op);
    bw_buf_putc(&l->key, (char)v->which);
    key_str(&l->key, v->name);
    for (uint32_t i = 0; i < v->n; i++) {
        uint32_t at = v->order ? v->order[i] : i;
        if (v->order)
            key_str(&l->key, v->source->u.names[at]);
        key_u32(&l->key, l->nodes[v->child[at]].shape);
    }
    if (v->op == BW_CEDAR__VALUE && v->type && bw_cedar__type_is_bool(v->type))
        bw_buf_putc(&l->key, (char)v->type->kind);
    else if (v->op == BW_CEDAR__VALUE)
        key_value(&l->key, &v->source->u.value);
    if (v->op == BW_CEDAR__LIKE)
        for (uint32_t i = 0; i < v->source->u.pattern.n; i++)
            key_str(&l->key, v->source->u.pattern.runs[i]);
}

static bw_status shape_of(lowering *l, const vnode *v, uint32_t *out)
{
    bool fresh = false;
    key_node(l, v);
    uint64_t *slot =
        l->key.failed ? NULL : bw_map_put(l->shapes, l->key.ptr, l->key.len, &fresh);
    if (!slot)
        return bw_fail_nomem(l->ctx);
    if (fresh)
        *slot = bw_map_count(l->shapes) - 1;
    *out = (uint32_t)*slot;
    return BW_OK;
}

/* ---- what the schema declares ---- */
bool bw_cedar__type_declared(const bw_cedar_schema *s, bw_str type)
{
    return bw_cedar__is_action_type(type) ||
           bw_cedar__schema_type(s, type) != BW_CEDAR__NO_TYPE;
}

bool bw_cedar__uid_declared(const bw_cedar_schema *s, const bw_cedar__uid *uid)
{
    if (bw_cedar__is_action_type(uid->type))
        return bw_cedar__store_get(&s->actions, uid) != NULL;
    return bw_cedar__type_declared(s, uid->type) && bw_cedar__schema_id_ok(s, uid);
}

/* ---- nodes ---- */
/* Adds v with these children; its number goes to *out. */
static bw_status add(lowering *l, vnode v, const uint32_t *children, uint32_t *out)
{
    void *items = l->nodes;
    ++*l->steps;
    if (l->n >= BW_CEDAR_VALIDATE_NODES_MAX)
        return bw_fail(l->ctx, BW_EINVALID,
                       "a policy with more than %d parts cannot be validated",
                       BW_CEDAR_VALIDATE_NODES_MAX);
    TRY(room(l, &items, l->n, &l->cap, sizeof v));
    l->nodes = items;
    if (v.n) {
        uint32_t *child = bw_arena_alloc(l->pool, v.n * sizeof *child);
        if (!child)
            return bw_fail_nomem(l->ctx);
        memcpy(child, children, v.n * sizeof *child);
        v.child = child;
    }
    TRY(shape_of(l, &v, &v.shape));
    v.grants = v.shape;
    if (v.op == BW_CEDAR__GET || v.op == BW_CEDAR__GET_TAG) {
        vnode has = v;
        has.op = v.op == BW_CEDAR__GET ? BW_CEDAR__HAS : BW_CEDAR__HAS_TAG;
        TRY(shape_of(l, &has, &v.grants));
    }
    l->nodes[l->n] = v;
    *out = l->n++;
    return BW_OK;
}

static bw_status add_value(lowering *l, const bw_cedar__expr *e, uint32_t *out)
{
    vnode v = {.op = BW_CEDAR__VALUE, .source = e};
    const bw_cedar_value *value = &e->u.value;
    if (value->kind == BW_CEDAR__BOOL) {
        v.type = bw_cedar__type_of(value->u.boolean ? BW_CEDAR__TRUE : BW_CEDAR__FALSE);
    } else if (value->kind == BW_CEDAR__ENTITY) {
        bw_cedar__type *t = bw_arena_calloc(l->pool, 1, sizeof *t);
        if (!t)
            return bw_fail_nomem(l->ctx);
        *t = (bw_cedar__type){.kind = BW_CEDAR__ENTITY, .name = value->u.uid->type};
        v.undeclared = !bw_cedar__uid_declared(l->schema, value->u.uid);
        v.type = v.undeclared ? NULL : t;
    } else {
        v.type = bw_cedar__type_of(value->kind);
    }
    return add(l, v, NULL, out);
}

/* The reference engine replaces `true && false` by a literal when it reads it, and so
 * takes `(true || false) == 1` for a comparison of literals. */
static bw_status add_logic(lowering *l, const bw_cedar__expr *e, const uint32_t *child,
                           uint32_t *out)
{
    const vnode *a = &l->nodes[child[0]], *b = &l->nodes[child[1]];
    bool literal = a->op == BW_CEDAR__VALUE && b->op == BW_CEDAR__VALUE && a->type &&
                   b->type && bw_cedar__type_is_bool(a->type) &&
                   bw_cedar__type_is_bool(b->type);
    if (!literal)
        return add(l, (vnode){.op = e->op, .n = 2, .source = e}, child, out);
    bool x = a->type->kind == BW_CEDAR__TRUE, y = b->type->kind == BW_CEDAR__TRUE,
         is = e->op == BW_CEDAR__AND ? x && y : x || y;
    return add(
        l,
        (vnode){.op = BW_CEDAR__VALUE,
                .source = e,
                .type = bw_cedar__type_of(is ? BW_CEDAR__TRUE : BW_CEDAR__FALSE)},
        NULL, out);
}

static bw_status add_not(lowering *l, const bw_cedar__expr *e, bw_cedar__op op,
                         const uint32_t *child, uint32_t *out)
{
    uint32_t inner;
    TRY(add(l, (vnode){.op = (uint8_t)op, .n = 2, .source = e}, child, &inner));
    return add(l, (vnode){.op = BW_CEDAR__NOT, .n = 1, .source = e}, &inner, out);
}

/* `e has a.b.c`: ((e has a) && (e.a has b)) && (e.a.b has c). */
static bw_status add_has(lowering *l, const bw_cedar__expr *e, uint32_t child,
                         uint32_t *out)
{
    uint32_t pair[2];
    for (uint32_t i = 0; i < e->nnames; i++) {
        vnode v = {.op = BW_CEDAR__HAS, .n = 1, .name = e->u.names[i], .source = e};
        TRY(add(l, v, &child, &pair[1]));
        if (i > 0)
            TRY(add(l, (vnode){.op = BW_CEDAR__AND, .n = 2, .source = e}, pair,
                    &pair[1]));
        pair[0] = pair[1];
        v.op = BW_CEDAR__GET;
        if (i + 1 < e->nnames)
            TRY(add(l, v, &child, &child));
    }
    *out = pair[0];
    return BW_OK;
}

static bw_status add_is(lowering *l, const bw_cedar__expr *e, const uint32_t *child,
                        uint32_t *out)
{
    vnode v = {.op = BW_CEDAR__IS, .n = 1, .name = e->u.names[0], .source = e};
    uint32_t pair[2];
    v.undeclared = !bw_cedar__type_declared(l->schema, v.name);
    TRY(add(l, v, child, &pair[0]));
    *out = pair[0];
    if (e->n == 1)
        return BW_OK;
    TRY(add(l, (vnode){.op = BW_CEDAR__IN, .n = 2, .source = e}, child, &pair[1]));
    return add(l, (vnode){.op = BW_CEDAR__AND, .n = 2, .source = e}, pair, out);
}

typedef struct named {
    bw_str name;
    uint32_t at;
} named;

static int by_name(const void *a, const void *b)
{
    return bw_str_cmp(((const named *)a)->name, ((const named *)b)->name);
}

static bw_status add_record(lowering *l, const bw_cedar__expr *e, const uint32_t *child,
                            uint32_t *out)
{
    bw_arena_mark mark = bw_arena_mark_get(l->ctx);
    uint32_t *order = bw_arena_alloc(l->pool, e->n * sizeof *order);
    named *names = bw_arena_alloc(l->ctx, e->n * sizeof *names);
    if (!order || !names)
        return bw_fail_nomem(l->ctx);
    for (uint32_t i = 0; i < e->n; i++)
        names[i] = (named){e->u.names[i], i};
    if (e->n > 1)
        qsort(names, e->n, sizeof *names, by_name);
    for (uint32_t i = 0; i < e->n; i++)
        order[i] = names[i].at;
    bw_arena_release(l->ctx, mark);
    return add(
        l, (vnode){.op = BW_CEDAR__RECORD_OF, .n = e->n, .order = order, .source = e},
        child, out);
}

/* After all children of e, whose nodes are `child`. */
static bw_status finish(lowering *l, const bw_cedar__expr *e, const uint32_t *child,
                        uint32_t *out)
{
    vnode same = {.op = e->op, .which = e->which, .n = e->n, .source = e};
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__VALUE:
        return add_value(l, e, out);
    case BW_CEDAR__NE:
        return add_not(l, e, BW_CEDAR__EQ, child, out);
    case BW_CEDAR__GT:
        return add_not(l, e, BW_CEDAR__LE, child, out);
    case BW_CEDAR__GE:
        return add_not(l, e, BW_CEDAR__LT, child, out);
    case BW_CEDAR__AND:
    case BW_CEDAR__OR:
        return add_logic(l, e, child, out);
    case BW_CEDAR__HAS:
        return add_has(l, e, child[0], out);
    case BW_CEDAR__IS:
        return add_is(l, e, child, out);
    case BW_CEDAR__RECORD_OF:
        return add_record(l, e, child, out);
    case BW_CEDAR__GET:
        same.name = e->u.names[0];
        return add(l, same, child, out);
    default:
        return add(l, same, child, out);
    }
}

static bw_status push(lowering *l, const bw_cedar__expr *e)
{
    void *items = l->frames;
    TRY(room(l, &items, l->nframes, &l->frames_cap, sizeof *l->frames));
    l->frames = items;
    l->frames[l->nframes++] = (frame){.e = e};
    return BW_OK;
}

static bw_status lower_expr(lowering *l, const bw_cedar__expr *root, uint32_t *out)
{
    void *first = l->done;
    TRY(room(l, &first, l->ndone, &l->done_cap, sizeof *l->done));
    l->done = first;
    TRY(push(l, root));
    while (l->nframes > 0) {
        frame *f = &l->frames[l->nframes - 1];
        if (f->i < f->e->n) {
            TRY(push(l, f->e->child[f->i++]));
            continue;
        }
        const bw_cedar__expr *e = f->e;
        void *items = l->done;
        uint32_t node;
        l->ndone -= e->n;
        TRY(finish(l, e, l->done + l->ndone, &node));
        TRY(room(l, &items, l->ndone, &l->done_cap, sizeof *l->done));
        l->done = items;
        l->done[l->ndone++] = node;
        l->nframes--;
    }
    *out = l->done[--l->ndone];
    return BW_OK;
}

bw_status bw_cedar__lower(bw_ctx *ctx, bw_ctx *pool, const bw_cedar_schema *schema,
                          const bw_cedar__policy *p, uint64_t *steps,
                          bw_cedar__vpolicy *out)
{
    lowering l = {.ctx = ctx, .pool = pool, .schema = schema, .steps = steps};
    uint32_t *clauses = bw_arena_alloc(pool, p->nclauses * sizeof *clauses);
    l.shapes = bw_map_new();
    bw_status st = clauses && l.shapes ? BW_OK : bw_fail_nomem(ctx);
    for (uint32_t i = 0; i < p->nclauses && st == BW_OK; i++)
        st = lower_expr(&l, p->clauses[i].body, &clauses[i]);
    if (st == BW_OK)
        *out = (bw_cedar__vpolicy){.nodes = l.nodes,
                                   .nnodes = l.n,
                                   .nshapes = (uint32_t)bw_map_count(l.shapes),
                                   .clauses = clauses};
    bw_map_free(l.shapes);
    bw_buf_clear(&l.key);
    return st;
}
