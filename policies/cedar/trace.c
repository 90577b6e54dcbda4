/* The walk that finds why (trace.h). Chains of && and || are taken apart without
 * recursion; what nests is walked by recursion, bounded as the parser bounds it. */
#include "trace.h"
#include "code.h"
#include "print.h"
#include "schema.h"

#include <stdlib.h>

enum {
    STACK_MIN = 64,      /* of values, for what was written here and not in the set */
    PATH_MAX_LINKS = 64, /* a longer chain is no path to show */
    PARTS_SCRATCH = 4096 /* parts that held before one did not, and are dropped then */
};

struct bw_cedar_trace {
    bw_cedar__run run;
    const bw_cedar_policies *set;
    bw_cedar__uid uids[3];
    uint32_t stack_cap;
};

typedef struct walker {
    bw_cedar_trace *t;
    bw_cedar_part *parts;
    uint32_t n, cap;
    bool cut;
    int32_t clause;
    bool unless;
} walker;

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

bw_status bw_cedar_trace_open(bw_ctx *ctx, const bw_cedar_policies *p,
                              const bw_cedar_entities *e, const bw_cedar_schema *schema,
                              const bw_cedar_request *request, bw_cedar_trace **out)
{
    bw_cedar_trace *t = bw_arena_calloc(ctx, 1, sizeof *t);
    if (!t)
        return bw_fail_nomem(ctx);
    TRY(bw_cedar__run_begin(ctx, e, schema, request, t->uids, &t->run));
    t->set = p;
    *out = t;
    return BW_OK;
}

/* ---- evaluating ---- */

static bw_status stack_fit(bw_cedar_trace *t, uint32_t want)
{
    if (want <= t->stack_cap)
        return BW_OK;
    t->stack_cap = want > STACK_MIN ? want : STACK_MIN;
    t->run.stack = bw_arena_calloc(t->run.ctx, t->stack_cap + 1, sizeof *t->run.stack);
    return t->run.stack ? BW_OK : bw_fail_nomem(t->run.ctx);
}

/* *error: NULL, or why there is no value. */
static bw_status value_of(bw_cedar_trace *t, const bw_cedar__expr *e,
                          bw_cedar_value *out, const char **error)
{
    bw_cedar__code code;
    TRY(bw_cedar__compile_expr(t->run.ctx, e, &code));
    TRY(stack_fit(t, code.stack_max));
    *error = NULL;
    switch (bw_cedar__eval(&t->run, &code)) {
    case BW_CEDAR__YES:
        *out = t->run.stack[1];
        return BW_OK;
    case BW_CEDAR__ERRED:
        *error = t->run.reason;
        return BW_OK;
    case BW_CEDAR__NO:
    case BW_CEDAR__STOPPED:
        break;
    }
    return t->run.steps > BW_CEDAR_STEPS_MAX && !t->run.nomem
               ? bw_fail(t->run.ctx, BW_EINVALID, "evaluation takes more than %d steps",
                         BW_CEDAR_STEPS_MAX)
               : bw_fail_nomem(t->run.ctx);
}

/* ---- parts ---- */

static bool is_path(const bw_cedar__expr *e)
{
    for (int links = 0; e->op == BW_CEDAR__GET && links < PATH_MAX_LINKS; links++)
        e = e->child[0];
    return e->op == BW_CEDAR__VAR;
}

static bw_status read_leaf(bw_cedar_trace *t, const bw_cedar__expr *e,
                           bw_cedar_leaf *out)
{
    bw_cedar_value v = {0}, *kept;
    const char *error;
    bw_buf b = {0};
    *out = (bw_cedar_leaf){0};
    TRY(value_of(t, e, &v, &error));
    if (!error) {
        kept = bw_arena_alloc(t->run.ctx, sizeof *kept);
        if (!kept)
            return bw_fail_nomem(t->run.ctx);
        *kept = v;
        out->value = kept;
    }
    if (!is_path(e))
        return BW_OK;
    bw_cedar__put_expr(&b, e, BW_CEDAR_PART_TEXT_MAX, NULL, NULL);
    bw_status st = b.failed ? bw_fail_nomem(t->run.ctx)
                            : bw_arena_str(t->run.ctx, bw_buf_view(&b), &out->path);
    bw_buf_clear(&b);
    return st;
}

typedef struct leaves {
    const bw_cedar__expr *found[BW_CEDAR_LEAVES_MAX];
    uint32_t n;
    const bw_cedar__expr
        *inside; /* the next node, when it is of a path already taken */
} leaves;

/* Whole paths alone: of context.dest.country neither context.dest nor context. What
 * only `has` asks about is no value. */
static bool visit_leaf(const bw_cedar__expr *e, void *user)
{
    leaves *l = user;
    bool path = is_path(e), part = e == l->inside;
    bool has = e->op == BW_CEDAR__HAS && is_path(e->child[0]);
    l->inside = has || (path && e->op == BW_CEDAR__GET) ? e->child[0] : NULL;
    if (!path || part)
        return true;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->found[i] == e)
            return true;
    l->found[l->n++] = e;
    return l->n < BW_CEDAR_LEAVES_MAX;
}

static bool seen_path(const bw_cedar_leaf *list, uint32_t n, bw_str path)
{
    for (uint32_t i = 0; i < n; i++)
        if (bw_str_eq(list[i].path, path))
            return true;
    return false;
}

static bw_status read_leaves(bw_cedar_trace *t, const bw_cedar__expr *e,
                             bw_cedar_part *part)
{
    leaves l = {0};
    bw_cedar_leaf *list =
        bw_arena_calloc(t->run.ctx, BW_CEDAR_LEAVES_MAX, sizeof *list);
    if (!list)
        return bw_fail_nomem(t->run.ctx);
    TRY(bw_cedar__walk(t->run.ctx, e, visit_leaf, &l));
    for (uint32_t i = 0; i < l.n; i++) {
        TRY(read_leaf(t, l.found[i], &list[part->nleaves]));
        if (!seen_path(list, part->nleaves, list[part->nleaves].path))
            part->nleaves++;
    }
    part->leaves = list;
    return BW_OK;
}

/* The test that an expression makes; *swap: its sides change places; *turn: so does its
 * truth. */
static bw_cedar_test test_of(const bw_cedar__expr *e, bool *swap, bool *turn)
{
    *swap = e->op == BW_CEDAR__GT || e->op == BW_CEDAR__GE;
    *turn = e->op == BW_CEDAR__NE;
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__EQ:
    case BW_CEDAR__NE:
        return BW_CEDAR_TEST_EQ;
    case BW_CEDAR__LT:
    case BW_CEDAR__GT:
        return BW_CEDAR_TEST_LESS;
    case BW_CEDAR__LE:
    case BW_CEDAR__GE:
        return BW_CEDAR_TEST_LESS_EQ;
    case BW_CEDAR__IN:
        return BW_CEDAR_TEST_IN;
    case BW_CEDAR__IS:
        return e->n == 2 ? BW_CEDAR_TEST_IN : BW_CEDAR_TEST_OTHER;
    case BW_CEDAR__CONTAINS:
        return BW_CEDAR_TEST_CONTAINS;
    case BW_CEDAR__CONTAINS_ALL:
        return BW_CEDAR_TEST_CONTAINS_ALL;
    case BW_CEDAR__CONTAINS_ANY:
        return BW_CEDAR_TEST_CONTAINS_ANY;
    case BW_CEDAR__IS_EMPTY:
        return BW_CEDAR_TEST_EMPTY;
    case BW_CEDAR__GET:
        return BW_CEDAR_TEST_BOOL;
    case BW_CEDAR__CALL:
        *swap = e->which == BW_CEDAR__FN_GREATER_THAN ||
                e->which == BW_CEDAR__FN_GREATER_THAN_OR_EQUAL;
        if (e->which == BW_CEDAR__FN_LESS_THAN || e->which == BW_CEDAR__FN_GREATER_THAN)
            return BW_CEDAR_TEST_LESS;
        return e->which == BW_CEDAR__FN_LESS_THAN_OR_EQUAL || *swap
                   ? BW_CEDAR_TEST_LESS_EQ
                   : BW_CEDAR_TEST_OTHER;
    default:
        return BW_CEDAR_TEST_OTHER;
    }
}

static bw_status parts_fit(walker *w)
{
    if (w->n < w->cap)
        return BW_OK;
    uint32_t cap = w->cap ? w->cap * 2 : 16;
    void *grown = bw_arena_grow(w->t->run.ctx, w->parts, w->n * sizeof *w->parts,
                                cap * sizeof *w->parts);
    if (!grown)
        return bw_fail_nomem(w->t->run.ctx);
    w->parts = grown;
    w->cap = cap;
    return BW_OK;
}

/* One plain condition: what it comes to, and what it reads. */
static bw_status judge_part(walker *w, const bw_cedar__expr *e, bw_cedar_truth *truth)
{
    bw_cedar_trace *t = w->t;
    bw_cedar_value v = {0};
    bool swap, turn;
    bw_cedar_part p = {.clause = w->clause, .unless = w->unless, .expr = e};
    TRY(value_of(t, e, &v, &p.error));
    if (!p.error && v.kind != BW_CEDAR__BOOL)
        p.error = "condition that is no Bool";
    bool yes = !p.error && v.u.boolean;
    *truth = p.truth = p.error ? BW_CEDAR_FAILED : yes ? BW_CEDAR_TRUE : BW_CEDAR_FALSE;
    if (w->n == PARTS_SCRATCH) {
        w->cut = true;
        return BW_OK;
    }
    TRY(parts_fit(w));
    p.test = test_of(e, &swap, &turn);
    p.holds = yes != turn;
    if (p.test == BW_CEDAR_TEST_BOOL)
        TRY(read_leaf(t, e, &p.side[0]));
    else
        for (uint32_t i = 0; p.test != BW_CEDAR_TEST_OTHER && i < e->n && i < 2; i++)
            TRY(read_leaf(t, e->child[i], &p.side[swap ? 1 - i : i]));
    TRY(read_leaves(t, e, &p));
    w->parts[w->n++] = p;
    return BW_OK;
}

static bw_status judge(walker *w, const bw_cedar__expr *e, unsigned depth,
                       bw_cedar_truth *truth);

/* The operands of a chain, first to last. */
static bw_status chain_of(bw_ctx *ctx, const bw_cedar__expr *e,
                          const bw_cedar__expr ***out, size_t *n)
{
    uint8_t op = e->op;
    size_t count = 1;
    for (const bw_cedar__expr *x = e; x->op == op; x = x->child[0])
        count++;
    const bw_cedar__expr **list = bw_arena_alloc(ctx, count * sizeof *list);
    if (!list)
        return bw_fail_nomem(ctx);
    *n = count;
    while (count > 1) {
        list[--count] = e->child[1];
        e = e->child[0];
    }
    list[0] = e;
    *out = list;
    return BW_OK;
}

/* Keeps of the parts since `from` those since `since`. */
static void keep_last(walker *w, uint32_t from, uint32_t since)
{
    if (since > from)
        memmove(w->parts + from, w->parts + since, (w->n - since) * sizeof *w->parts);
    w->n -= since - from;
}

static bw_status judge_chain(walker *w, const bw_cedar__expr *e, unsigned depth,
                             bw_cedar_truth *truth)
{
    bw_cedar_truth settles = e->op == BW_CEDAR__OR ? BW_CEDAR_TRUE : BW_CEDAR_FALSE;
    const bw_cedar__expr **list;
    uint32_t from = w->n;
    size_t n;
    TRY(chain_of(w->t->run.ctx, e, &list, &n));
    for (size_t i = 0; i < n; i++) {
        uint32_t since = w->n;
        TRY(judge(w, list[i], depth, truth));
        if (*truth == settles)
            keep_last(w, from, since);
        if (*truth == settles || *truth == BW_CEDAR_FAILED)
            return BW_OK; /* an error needs all that led to it */
    }
    return BW_OK;
}

static bw_status judge(walker *w, const bw_cedar__expr *e, unsigned depth,
                       bw_cedar_truth *truth)
{
    bool turn = false;
    if (++depth > BW_CEDAR_DEPTH_MAX)
        return bw_fail(w->t->run.ctx, BW_EINVALID, "conditions nest too deep");
    while (e->op == BW_CEDAR__NOT || e->op == BW_CEDAR__IF) {
        if (e->op == BW_CEDAR__NOT) {
            turn = !turn;
            e = e->child[0];
            continue;
        }
        TRY(judge(w, e->child[0], depth, truth));
        if (*truth == BW_CEDAR_FAILED)
            return BW_OK;
        e = e->child[*truth == BW_CEDAR_TRUE ? 1 : 2];
    }
    TRY(e->op == BW_CEDAR__AND || e->op == BW_CEDAR__OR
            ? judge_chain(w, e, depth, truth)
            : judge_part(w, e, truth));
    if (turn && *truth != BW_CEDAR_FAILED)
        *truth = *truth == BW_CEDAR_TRUE ? BW_CEDAR_FALSE : BW_CEDAR_TRUE;
    return BW_OK;
}

/* ---- a policy ---- */

typedef struct conjunct {
    const bw_cedar__expr *e;
    int32_t clause;
    bool unless;
} conjunct;

/* A scope's constraint as the expression that it stands for. */
static bw_status scope_expr(bw_ctx *ctx, const bw_cedar__scope *s, uint8_t var,
                            const bw_cedar__expr **out)
{
    bw_cedar__maker m = {ctx, ctx};
    bw_cedar__expr *v, *e;
    const bw_cedar__expr *uid = NULL;
    TRY(bw_cedar__node(&m, BW_CEDAR__VAR, 0, 0, &v));
    v->which = var;
    if (s->op == BW_CEDAR__SCOPE_IN_LIST) {
        bw_cedar__list list = {0};
        for (uint32_t i = 0; i < s->n; i++) {
            TRY(bw_cedar__value_node(&m, 0, bw_cedar__entity(&s->uids[i]), &uid));
            TRY(bw_cedar__list_add(&m, &list, &uid, sizeof uid));
        }
        TRY(bw_cedar__list_node(&m, BW_CEDAR__SET_OF, 0, &list, &e));
        uid = e;
    } else if (s->op != BW_CEDAR__SCOPE_IS) {
        TRY(bw_cedar__value_node(&m, 0, bw_cedar__entity(s->uids), &uid));
    }
    bool is = s->op == BW_CEDAR__SCOPE_IS || s->op == BW_CEDAR__SCOPE_IS_IN;
    TRY(bw_cedar__node_of(&m,
                          is                            ? BW_CEDAR__IS
                          : s->op == BW_CEDAR__SCOPE_EQ ? BW_CEDAR__EQ
                                                        : BW_CEDAR__IN,
                          0, v, uid, NULL, &e));
    if (is)
        TRY(bw_cedar__node_name(&m, e, s->type));
    *out = e;
    return BW_OK;
}

/* The operands of `e` when it is a conjunction, else itself. */
static bw_status add_conjuncts(bw_cedar__maker *m, bw_cedar__list *all,
                               const bw_cedar__expr *e, int32_t clause)
{
    const bw_cedar__expr **list = &e;
    size_t n = 1;
    if (e->op == BW_CEDAR__AND)
        TRY(chain_of(m->ctx, e, &list, &n));
    for (size_t i = 0; i < n; i++) {
        conjunct c = {list[i], clause, false};
        TRY(bw_cedar__list_add(m, all, &c, sizeof c));
    }
    return BW_OK;
}

static bw_status conjuncts_of(bw_ctx *ctx, const bw_cedar__policy *p,
                              bw_cedar__list *all)
{
    static const uint8_t order[3] = {BW_CEDAR__ACTION, BW_CEDAR__RESOURCE,
                                     BW_CEDAR__PRINCIPAL};
    bw_cedar__maker m = {ctx, ctx};
    for (int i = 0; i < 3; i++) {
        conjunct c = {NULL, -1, false};
        if (p->scope[order[i]].op == BW_CEDAR__SCOPE_ALL)
            continue;
        TRY(scope_expr(ctx, &p->scope[order[i]], order[i], &c.e));
        TRY(bw_cedar__list_add(&m, all, &c, sizeof c));
    }
    for (uint32_t i = 0; i < p->nclauses; i++) {
        conjunct c = {p->clauses[i].body, (int32_t)i, true};
        TRY(p->clauses[i].unless ? bw_cedar__list_add(&m, all, &c, sizeof c)
                                 : add_conjuncts(&m, all, c.e, c.clause));
    }
    return BW_OK;
}

static bool about_question(const conjunct *c) /* the action or the resource's type */
{
    return c->clause < 0 && c->e->child[0]->which != BW_CEDAR__PRINCIPAL;
}

bw_status bw_cedar_trace_policy(bw_cedar_trace *t, uint32_t policy,
                                bw_cedar_reasons *out)
{
    const bw_cedar__policy *p = &t->set->policies[policy];
    bw_cedar__list all = {0};
    walker w = {.t = t};
    bw_cedar_reasons r = {.satisfied = BW_CEDAR_TRUE, .scope_fits = !p->is_template};
    assert(policy < t->set->n);
    t->run.steps = 0;
    TRY(conjuncts_of(t->run.ctx, p, &all));
    for (uint32_t i = 0; i < all.n && r.scope_fits; i++) {
        const conjunct *c = (const conjunct *)all.items + i;
        uint32_t since = w.n;
        bw_cedar_truth truth;
        w.clause = c->clause;
        w.unless = c->unless;
        TRY(judge(&w, c->e, 0, &truth));
        bool holds = truth == (c->unless ? BW_CEDAR_FALSE : BW_CEDAR_TRUE);
        r.failing += !holds;
        r.scope_fits = holds || !about_question(c);
        if (r.satisfied != BW_CEDAR_TRUE || (holds && about_question(c))) {
            w.n =
                since; /* settled before, and only counted; or what was asked anyway */
        } else if (truth == BW_CEDAR_FAILED) {
            r.satisfied = BW_CEDAR_FAILED;
        } else if (!holds) {
            r.satisfied = BW_CEDAR_FALSE;
            keep_last(&w, 0, since);
        }
    }
    if (!r.scope_fits)
        r.satisfied = BW_CEDAR_FALSE;
    r.parts = w.parts;
    r.nparts = w.n < BW_CEDAR_PARTS_MAX ? w.n : BW_CEDAR_PARTS_MAX;
    r.cut = w.cut || w.n > BW_CEDAR_PARTS_MAX;
    *out = r;
    return BW_OK;
}

bw_status bw_cedar_trace_outcome(bw_cedar_trace *t, uint32_t policy,
                                 bw_cedar_reasons *out)
{
    bw_arena_mark mark = bw_arena_mark_get(t->run.ctx);
    bw_cedar_value *stack = t->run.stack;
    uint32_t cap = t->stack_cap;
    bw_status st = bw_cedar_trace_policy(t, policy, out);
    t->run.stack = stack; /* a larger one lies behind the mark */
    t->stack_cap = cap;
    bw_arena_release(t->run.ctx, mark);
    if (st == BW_OK) {
        out->parts = NULL;
        out->nparts = 0;
    }
    return st;
}

/* ---- values from outside ---- */

bw_cedar_look bw_cedar_value_look(const bw_cedar_value *v)
{
    bw_cedar_look l = {.kind = BW_CEDAR_OTHER};
    switch ((bw_cedar__kind)v->kind) {
    case BW_CEDAR__BOOL:
        l.kind = BW_CEDAR_BOOL;
        l.boolean = v->u.boolean;
        break;
    case BW_CEDAR__LONG:
    case BW_CEDAR__DECIMAL:
        l.kind = v->kind == BW_CEDAR__LONG ? BW_CEDAR_LONG : BW_CEDAR_DECIMAL;
        l.integer = v->u.integer;
        break;
    case BW_CEDAR__STRING:
        l.kind = BW_CEDAR_STRING;
        l.text = bw_cedar__text(v);
        break;
    case BW_CEDAR__ENTITY:
        l.kind = BW_CEDAR_ENTITY;
        l.type = v->u.uid->type;
        l.text = v->u.uid->id;
        break;
    case BW_CEDAR__SET:
        l.kind = BW_CEDAR_SET;
        l.n = v->n;
        break;
    default:
        break;
    }
    return l;
}

const bw_cedar_value *bw_cedar_value_item(const bw_cedar_value *set, uint32_t i)
{
    assert(set->kind == BW_CEDAR__SET && i < set->n);
    return &set->u.items[i];
}

const bw_cedar_value *bw_cedar_trace_attribute(const bw_cedar_trace *t,
                                               const bw_cedar_uid *entity, bw_str name)
{
    bw_cedar__uid uid = bw_cedar__uid_make(entity->type, entity->id);
    const bw_cedar__object *o = bw_cedar__find(&t->run, &uid);
    return o ? bw_cedar__record_get(&o->attrs, name) : NULL;
}

void bw_cedar_entity_attributes(const bw_cedar_entities *e, const bw_cedar_uid *uid,
                                void (*visit)(bw_str name, const bw_cedar_value *value,
                                              void *user),
                                void *user)
{
    bw_cedar__uid it = bw_cedar__uid_make(uid->type, uid->id);
    const bw_cedar__object *o = bw_cedar__store_get(e, &it);
    for (uint32_t i = 0; o && i < o->attrs.n; i++)
        visit(o->attrs.u.members[i].key, &o->attrs.u.members[i].value, user);
}

bool bw_cedar_trace_in(bw_cedar_trace *t, const bw_cedar_uid *entity,
                       const bw_cedar_uid *group)
{
    bw_cedar__uid a = bw_cedar__uid_make(entity->type, entity->id),
                  b = bw_cedar__uid_make(group->type, group->id);
    return bw_cedar__is_in(&t->run, &a, &b);
}

static int by_bytes(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

bw_status bw_cedar_trace_members(bw_cedar_trace *t, bw_str type,
                                 const bw_cedar_uid *group, size_t most,
                                 const bw_str **out, size_t *n)
{
    const bw_cedar_entities *base = t->run.stores[1];
    bw_cedar__uid in = {0};
    bw_str *ids = bw_arena_alloc(t->run.ctx, (base->n + 1) * sizeof *ids);
    size_t count = 0;
    if (!ids)
        return bw_fail_nomem(t->run.ctx);
    if (group)
        in = bw_cedar__uid_make(group->type, group->id);
    t->run.steps = 0;
    for (uint32_t i = 0; i < base->n; i++) {
        const bw_cedar__object *o = &base->objects[i];
        if (o->defined && bw_str_eq(o->uid.type, type) &&
            (!group || bw_cedar__is_in(&t->run, &o->uid, &in)))
            ids[count++] = o->uid.id;
    }
    if (t->run.nomem)
        return bw_fail_nomem(t->run.ctx);
    if (count)
        qsort(ids, count, sizeof *ids, by_bytes);
    *out = ids;
    *n = count < most ? count : most;
    return BW_OK;
}
