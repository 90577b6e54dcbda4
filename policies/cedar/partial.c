/* Partial evaluation of a policy set (cedar.h): the resource's type is known, nothing
 * else of it. The index names the policies whose scope may match; of each, what is
 * uncertain of the scope and the clauses is folded as one chain of && (partial_expr.c);
 * what stays open is compiled like any policy. */
#include "index.h"
#include "residual.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

enum {
    POOL_BYTES_MAX =
        64 << 20,     /* of one result: a store's largest sets, computed with */
    TOGETHER_MAX = 16 /* attributes: each costs a walk through the residuals */
};

typedef struct partial {
    bw_cedar_residuals *r;
    bw_cedar__folder f;
    const bw_cedar_policies *set;
    bw_cedar__residual *items;
    bw_cedar_value *values; /* room for one of each forbid; see take_open */
    uint32_t sets;
} partial;

/* ---- the question ---- */
static bw_status copy_uid(partial *t, const bw_cedar_uid *in, bool id,
                          bw_cedar__uid *out)
{
    bw_str type, text = {"", 0};
    if (bw_arena_str(t->r->pool, in->type, &type) != BW_OK ||
        (id && bw_arena_str(t->r->pool, in->id, &text) != BW_OK))
        return bw_fail_nomem(t->f.ctx);
    *out = bw_cedar__uid_make(type, text);
    return BW_OK;
}

/* The context in the pool, checked. */
static bw_status take_context(partial *t, const bw_cedar__action_type *action,
                              const bw_cedar_request *q)
{
    bw_cedar_residuals *r = t->r;
    bw_cedar_value v;
    TRY(bw_cedar__read_context(t->f.ctx, r->pool, r->schema, action, q, &v));
    r->run.vars[BW_CEDAR__CONTEXT] = v;
    if (q->context_value &&
        !bw_cedar__value_copy(r->pool, &v, &r->run.vars[BW_CEDAR__CONTEXT]))
        return bw_fail_nomem(t->f.ctx);
    return BW_OK;
}

static bw_status promise(partial *t)
{
    bw_cedar_residuals *r = t->r;
    uint32_t type =
        r->schema ? bw_cedar__schema_type(r->schema, r->uids[BW_CEDAR__RESOURCE].type)
                  : BW_CEDAR__NO_TYPE;
    if (type == BW_CEDAR__NO_TYPE)
        return bw_fail(t->f.ctx, BW_EINVALID,
                       "no schema declares the type that resources are to conform to");
    t->f.schema = r->schema;
    t->f.resource = &r->schema->types[type];
    return BW_OK;
}

static bw_status take_request(partial *t, const bw_cedar_request *q)
{
    bw_cedar_residuals *r = t->r;
    bw_cedar__run *start = &r->run;
    const bw_cedar__action_type *action = NULL;
    TRY(copy_uid(t, &q->principal, true, &r->uids[0]));
    TRY(copy_uid(t, &q->action, true, &r->uids[1]));
    TRY(copy_uid(t, &q->resource, false, &r->uids[2]));
    if (r->schema && !q->unchecked) {
        TRY(bw_cedar__check_request(t->f.ctx, r->schema, r->uids, true, &action));
        uint32_t type = bw_cedar__schema_type(r->schema, r->uids[2].type);
        r->check_id = r->schema->types[type].ids != NULL;
    }
    TRY(take_context(t, action, q));
    if (r->conform)
        TRY(promise(t));
    for (int i = 0; i < 3; i++) {
        start->vars[i] = bw_cedar__entity(&r->uids[i]);
        start->unknown_above |=
            start->stores[i] &&
            bw_cedar__store_has_above(start->stores[i], r->uids[2].type);
    }
    start->tangled = bw_cedar__tangled(start);
    for (int i = 0; i < 2; i++)
        start->objects[i] = bw_cedar__find_stored(start, &r->uids[i]);
    t->f.run = *start;
    t->f.run.ctx = r->pool;
    t->f.run.unknown = &r->uids[2].type;
    if (bw_cedar__run_stores(&t->f.run, start->tangled) != BW_OK)
        return bw_fail_nomem(t->f.ctx);
    return BW_OK;
}

/* ---- one policy ---- */
/* The scope's constraint on a variable as an expression. */
static bw_status scope_expr(partial *t, const bw_cedar__scope *s, uint8_t var,
                            const bw_cedar__expr **out)
{
    bw_cedar__expr *e, *of, *x;
    const bw_cedar__expr **child, **none;
    bw_cedar__op op = s->op == BW_CEDAR__SCOPE_EQ ? BW_CEDAR__EQ : BW_CEDAR__IN;
    TRY(bw_cedar__fold_node(&t->f, op, 0, 2, &e, &child));
    TRY(bw_cedar__fold_node(&t->f, BW_CEDAR__VAR, 0, 0, &of, &none));
    TRY(bw_cedar__fold_node(&t->f, BW_CEDAR__VALUE, 0, 0, &x, &none));
    of->which = var;
    x->u.value = bw_cedar__entity(s->uids);
    if (s->op == BW_CEDAR__SCOPE_IN_LIST) {
        bw_cedar_value *items = bw_arena_alloc(t->r->pool, s->n * sizeof *items);
        if (!items)
            return bw_fail_nomem(t->f.ctx);
        for (uint32_t i = 0; i < s->n; i++)
            items[i] = bw_cedar__entity(&s->uids[i]);
        x->u.value = (bw_cedar_value){.kind = BW_CEDAR__SET, .u.items = items};
        x->u.value.n = bw_cedar__set_sort(items, s->n, &t->f.run.steps);
    }
    child[0] = of;
    child[1] = x;
    *out = e;
    return BW_OK;
}

static bw_status chain(partial *t, const bw_cedar__expr **all, const bw_cedar__expr *e)
{
    bw_cedar__expr *both;
    const bw_cedar__expr **child;
    if (*all) {
        TRY(bw_cedar__fold_node(&t->f, BW_CEDAR__AND, e->offset, 2, &both, &child));
        child[0] = *all;
        child[1] = e;
        e = both;
    }
    *all = e;
    return BW_OK;
}

/* Everything the policy asks for that the index has not made sure of; NULL: nothing. */
static bw_status condition_of(partial *t, const bw_cedar__policy *p,
                              const bw_cedar__expr **out)
{
    const bw_cedar__expr *e = NULL;
    *out = NULL;
    for (uint8_t var = 0; var < 3; var++) {
        const bw_cedar__scope *s = &p->scope[var];
        if (s->op == BW_CEDAR__SCOPE_ALL || s->op == BW_CEDAR__SCOPE_IS ||
            bw_cedar__lineage_known(&t->f.run, &t->r->uids[var]))
            continue;
        TRY(scope_expr(t, s, var, &e));
        TRY(chain(t, out, e));
    }
    for (uint32_t i = 0; i < p->nclauses; i++) {
        e = p->clauses[i].body;
        if (p->clauses[i].unless) {
            bw_cedar__expr * not ;
            const bw_cedar__expr **child;
            TRY(bw_cedar__fold_node(&t->f, BW_CEDAR__NOT, e->offset, 1, &not, &child));
            child[0] = e;
            e = not ;
        }
        TRY(chain(t, out, e));
    }
    return BW_OK;
}

static bw_status compile(partial *t, bw_cedar__residual *item)
{
    bw_cedar__clause when = {.body = item->expr};
    bw_cedar__policy p = {.clauses = &when, .nclauses = 1};
    TRY(bw_cedar__compile(t->f.ctx, t->r->pool,
                          t->f.resource ? t->f.resource->shape : NULL, &p));
    item->code = p.code;
    if (p.code->stack_max > t->r->stack_max)
        t->r->stack_max = p.code->stack_max;
    return BW_OK;
}

static bw_status fold_policy(partial *t, uint32_t i)
{
    const bw_cedar__policy *p = &t->set->policies[i];
    bw_cedar__residual item = {
        .policy = i, .forbid = p->forbid, .state = BW_CEDAR_RESIDUAL_TRUE};
    const bw_cedar__expr *e = NULL;
    TRY(condition_of(t, p, &e));
    if (e) {
        bw_cedar__part came;
        TRY(bw_cedar__fold(&t->f, e, true, &came));
        bool yes = came.known && came.value.kind == BW_CEDAR__BOOL;
        if (yes && !came.value.u.boolean)
            return BW_OK;
        if ((came.known && !yes) || (!came.known && came.e->op == BW_CEDAR__ERROR))
            item.state = BW_CEDAR_RESIDUAL_ERROR;
        else if (!came.known)
            item.state = BW_CEDAR_RESIDUAL_OPEN;
        item.expr = item.state == BW_CEDAR_RESIDUAL_OPEN ? came.e : NULL;
    }
    if (item.expr)
        TRY(compile(t, &item));
    t->items[t->r->n++] = item;
    t->r->counts[item.state]++;
    return BW_OK;
}

/* ---- all policies ---- */
/* resource.a, when the open forbid asks no more than resource.a.contains(a value). */
static const bw_cedar__expr *set_asked(const bw_cedar__residual *item)
{
    const bw_cedar__expr *e = item->expr;
    bool one = item->forbid && e && !item->together && e->op == BW_CEDAR__CONTAINS &&
               e->child[0]->op == BW_CEDAR__GET &&
               e->child[0]->child[0]->op == BW_CEDAR__VAR &&
               e->child[1]->op == BW_CEDAR__VALUE;
    return one ? e->child[0] : NULL;
}

/* Of the forbids from number `first` on, those that ask the same set for a value: their
 * values. */
static uint32_t gather(partial *t, uint32_t first, bw_cedar_value *values)
{
    bw_str name = set_asked(&t->items[first])->u.names[0];
    uint32_t n = 0;
    for (uint32_t i = first; i < t->r->n; i++) {
        const bw_cedar__expr *set = set_asked(&t->items[i]);
        if (!set || !bw_str_eq(set->u.names[0], name))
            continue;
        values[n++] = t->items[i].expr->child[1]->u.value;
        t->items[i].together = true;
    }
    t->f.run.steps += t->r->n - first;
    return n;
}

/* set.containsAny(values): true when one of the forbids is, an error when all are. */
static bw_status ask_together(partial *t, const bw_cedar__expr *set,
                              bw_cedar_value *values, uint32_t n)
{
    bw_cedar__residual any = {0};
    bw_cedar__expr *e, *x;
    const bw_cedar__expr **child, **none;
    TRY(bw_cedar__fold_node(&t->f, BW_CEDAR__CONTAINS_ANY, 0, 2, &e, &child));
    TRY(bw_cedar__fold_node(&t->f, BW_CEDAR__VALUE, 0, 0, &x, &none));
    x->u.value = (bw_cedar_value){.kind = BW_CEDAR__SET, .u.items = values};
    x->u.value.n = bw_cedar__set_sort(values, n, &t->f.run.steps);
    child[0] = set;
    child[1] = x;
    any.expr = e;
    TRY(compile(t, &any));
    t->r->open[1][t->r->nopen[1]++] = any.code;
    return BW_OK;
}

/* What bw_cedar_residuals_allow runs of the open residual i. To it, it is all one which
 * forbid denies, and packs hold many that come to whether the resource has a label, or
 * falls under a regime: those are asked where the first of them stands. */
static bw_status take_open(partial *t, uint32_t i)
{
    bw_cedar__residual *item = &t->items[i];
    const bw_cedar__expr *set = set_asked(item);
    uint32_t n = 0;
    if (item->together)
        return BW_OK;
    if (set && t->sets < TOGETHER_MAX) {
        t->sets++;
        n = gather(t, i, t->values);
    }
    if (n > 1) {
        bw_cedar_value *values = t->values;
        t->values += n;
        return ask_together(t, set, values, n);
    }
    t->r->open[item->forbid][t->r->nopen[item->forbid]++] = item->code;
    return BW_OK;
}

static bw_status sum_up(partial *t)
{
    bw_cedar_residuals *r = t->r;
    bool hope = false;
    t->values = bw_arena_alloc(r->pool, r->n * sizeof *t->values);
    if (!t->values)
        return bw_fail_nomem(t->f.ctx);
    for (int forbid = 0; forbid < 2; forbid++) {
        r->open[forbid] = bw_arena_alloc(r->pool, r->n * sizeof *r->open[forbid]);
        if (!r->open[forbid])
            return bw_fail_nomem(t->f.ctx);
    }
    for (uint32_t i = 0; i < r->n; i++) {
        const bw_cedar__residual *item = &r->items[i];
        if (item->state == BW_CEDAR_RESIDUAL_OPEN)
            TRY(take_open(t, i));
        else
            r->never |= item->forbid;
        r->always |= !item->forbid && item->state == BW_CEDAR_RESIDUAL_TRUE;
        hope |= !item->forbid && item->state != BW_CEDAR_RESIDUAL_ERROR;
    }
    r->never |= !hope;
    return BW_OK;
}

static bw_status fold_all(partial *t)
{
    bw_cedar_residuals *r = t->r;
    uint64_t *matching;
    size_t n = 0;
    if (bw_cedar__index_match(t->set, &t->f.run, &matching) != BW_OK)
        return bw_fail_nomem(t->f.ctx);
    for (uint32_t w = 0; w <= t->set->n / 64; w++)
        n += (size_t)__builtin_popcountll(matching[w]);
    t->items = bw_arena_alloc(r->pool, n * sizeof *t->items);
    if (!t->items)
        return bw_fail_nomem(t->f.ctx);
    r->items = t->items;
    for (uint32_t w = 0; w <= t->set->n / 64; w++)
        for (uint64_t bits = matching[w]; bits; bits &= bits - 1)
            TRY(fold_policy(t, w * 64 + (uint32_t)__builtin_ctzll(bits)));
    return sum_up(t);
}

bw_status bw_cedar_partial(bw_ctx *ctx, const bw_cedar_policies *p,
                           const bw_cedar_entities *e, const bw_cedar_schema *schema,
                           const bw_cedar_request *request,
                           const bw_cedar_partial_options *options,
                           bw_cedar_residuals **out)
{
    bw_ctx *pool = bw_ctx_new(POOL_BYTES_MAX);
    if (!pool)
        return bw_fail_nomem(ctx);
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    partial t = {.set = p, .f.ctx = ctx, .r = bw_arena_calloc(pool, 1, sizeof *t.r)};
    bw_status st = t.r ? BW_OK : bw_fail_nomem(ctx);
    if (st == BW_OK) {
        *t.r = (bw_cedar_residuals){
            .pool = pool,
            .schema = schema,
            .run.stores = {request->extra, e, schema ? &schema->actions : NULL},
            .npolicies = p->n,
            .conform = options && options->resources_conform};
        st = take_request(&t, request);
    }
    if (st == BW_OK)
        st = fold_all(&t);
    bw_arena_release(ctx, mark);
    if (st != BW_OK) {
        bw_ctx_free(pool);
        return st;
    }
    *out = t.r;
    return BW_OK;
}

void bw_cedar_residuals_free(bw_cedar_residuals *r)
{
    if (r)
        bw_ctx_free(r->pool);
}
