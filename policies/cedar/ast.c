/* Making trees and sets of policies, for both readers: of text and of JSON. */
#include "code.h"
#include "index.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

const char *const bw_cedar__vars[4] = {"principal", "action", "resource", "context"};

const bw_cedar__operator bw_cedar__operators[BW_CEDAR__GET_TAG + 1] = {
    [BW_CEDAR__AND] = {"&&", 2},
    [BW_CEDAR__OR] = {"||", 2},
    [BW_CEDAR__NOT] = {"!", 1},
    [BW_CEDAR__NEG] = {"neg", 1},
    [BW_CEDAR__IS_EMPTY] = {"isEmpty", 1},
    [BW_CEDAR__EQ] = {"==", 2},
    [BW_CEDAR__NE] = {"!=", 2},
    [BW_CEDAR__LT] = {"<", 2},
    [BW_CEDAR__LE] = {"<=", 2},
    [BW_CEDAR__GT] = {">", 2},
    [BW_CEDAR__GE] = {">=", 2},
    [BW_CEDAR__IN] = {"in", 2},
    [BW_CEDAR__ADD] = {"+", 2},
    [BW_CEDAR__SUB] = {"-", 2},
    [BW_CEDAR__MUL] = {"*", 2},
    [BW_CEDAR__CONTAINS] = {"contains", 2},
    [BW_CEDAR__CONTAINS_ALL] = {"containsAll", 2},
    [BW_CEDAR__CONTAINS_ANY] = {"containsAny", 2},
    [BW_CEDAR__HAS_TAG] = {"hasTag", 2},
    [BW_CEDAR__GET_TAG] = {"getTag", 2},
};

/* ---- lists ---- */
bw_status bw_cedar__list_add(bw_cedar__maker *m, bw_cedar__list *l, const void *item,
                             size_t size)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 8;
        void *grown = bw_arena_grow(m->ctx, l->items, l->n * size, cap * size);
        if (!grown)
            return bw_fail_nomem(m->ctx);
        l->items = grown;
        l->cap = cap;
    }
    memcpy((char *)l->items + l->n++ * size, item, size);
    return BW_OK;
}

bw_status bw_cedar__list_keep(bw_cedar__maker *m, const bw_cedar__list *l, size_t size,
                              const void **out)
{
    void *kept = bw_arena_alloc(m->pool, l->n * size);
    if (!kept)
        return bw_fail_nomem(m->ctx);
    if (l->n)
        memcpy(kept, l->items, l->n * size);
    *out = kept;
    return BW_OK;
}

/* ---- nodes ---- */
bw_status bw_cedar__node(bw_cedar__maker *m, bw_cedar__op op, size_t offset, uint32_t n,
                         bw_cedar__expr **out)
{
    bw_cedar__expr *e = bw_arena_calloc(m->pool, 1, sizeof *e);
    if (!e)
        return bw_fail_nomem(m->ctx);
    e->op = (uint8_t)op;
    e->n = n;
    e->offset = (uint32_t)offset;
    *out = e;
    return BW_OK;
}

bw_status bw_cedar__node_of(bw_cedar__maker *m, bw_cedar__op op, size_t offset,
                            const bw_cedar__expr *a, const bw_cedar__expr *b,
                            const bw_cedar__expr *c, bw_cedar__expr **out)
{
    uint32_t n = 1 + (b != NULL) + (c != NULL);
    TRY(bw_cedar__node(m, op, offset, n, out));
    const bw_cedar__expr **child = bw_arena_alloc(m->pool, n * sizeof *child);
    if (!child)
        return bw_fail_nomem(m->ctx);
    child[0] = a;
    if (b)
        child[1] = b;
    if (c)
        child[2] = c;
    (*out)->child = child;
    return BW_OK;
}

bw_status bw_cedar__node_name(bw_cedar__maker *m, bw_cedar__expr *e, bw_str name)
{
    bw_str *names = bw_arena_alloc(m->pool, sizeof *names);
    if (!names)
        return bw_fail_nomem(m->ctx);
    names[0] = name;
    e->u.names = names;
    e->nnames = 1;
    return BW_OK;
}

bw_status bw_cedar__value_node(bw_cedar__maker *m, size_t offset, bw_cedar_value v,
                               const bw_cedar__expr **out)
{
    bw_cedar__expr *e;
    TRY(bw_cedar__node(m, BW_CEDAR__VALUE, offset, 0, &e));
    e->u.value = v;
    *out = e;
    return BW_OK;
}

bw_status bw_cedar__list_node(bw_cedar__maker *m, bw_cedar__op op, size_t offset,
                              const bw_cedar__list *children, bw_cedar__expr **out)
{
    const void *kept;
    TRY(bw_cedar__node(m, op, offset, children->n, out));
    TRY(bw_cedar__list_keep(m, children, sizeof(bw_cedar__expr *), &kept));
    (*out)->child = kept;
    return BW_OK;
}

bw_status bw_cedar__record_node(bw_cedar__maker *m, size_t offset,
                                const bw_cedar__list *names,
                                const bw_cedar__list *children, bool *unique,
                                const bw_cedar__expr **out)
{
    bw_cedar__member *keys = bw_arena_calloc(m->ctx, names->n, sizeof *keys);
    if (!keys)
        return bw_fail_nomem(m->ctx);
    for (uint32_t i = 0; i < names->n; i++)
        keys[i].key = ((bw_str *)names->items)[i];
    *unique = bw_cedar__record_sort(keys, names->n);
    bw_cedar__expr *e = NULL;
    const void *kept;
    TRY(bw_cedar__list_node(m, BW_CEDAR__RECORD_OF, offset, children, &e));
    TRY(bw_cedar__list_keep(m, names, sizeof(bw_str), &kept));
    e->u.names = kept;
    e->nnames = names->n;
    *out = e;
    return BW_OK;
}

bool bw_cedar__in_order(const bw_cedar__expr *root, bw_cedar__order_step step,
                        void *user)
{
    typedef struct frame {
        const bw_cedar__expr *e;
        uint32_t i;
        uint8_t note;
    } frame;
    frame few[64], *stack = few; /* most trees are not deeper */
    size_t n = 1, cap = sizeof few / sizeof *few;
    stack[0] = (frame){root, 0, 0};
    while (n > 0) {
        frame *top = &stack[n - 1];
        const bw_cedar__expr *child = step(user, top->e, top->i++, &top->note);
        if (!child) {
            n--;
            continue;
        }
        if (n == cap) {
            frame *grown = bw_alloc(2 * cap * sizeof *grown);
            if (grown)
                memcpy(grown, stack, n * sizeof *grown);
            if (stack != few)
                bw_free(stack);
            if (!grown)
                return false;
            stack = grown;
            cap *= 2;
        }
        stack[n++] = (frame){child, 0, 0};
    }
    if (stack != few)
        bw_free(stack);
    return true;
}

/* ---- sets ---- */
bw_status bw_cedar__set_add(bw_cedar__maker *m, bw_cedar_policies *set,
                            bw_cedar__list *all, bw_cedar__policy *policy)
{
    if (all->n == BW_CEDAR_POLICIES_MAX)
        return bw_fail(m->ctx, BW_EINVALID, "more than %d policies",
                       BW_CEDAR_POLICIES_MAX);
    policy->is_template |= policy->scope[0].slot || policy->scope[2].slot;
    if (!policy->code)
        TRY(bw_cedar__compile(m->ctx, m->pool, NULL, policy));
    if (policy->code && policy->code->stack_max > set->stack_max)
        set->stack_max = policy->code->stack_max;
    return bw_cedar__list_add(m, all, policy, sizeof *policy);
}

bw_status bw_cedar__set_finish(bw_cedar__maker *m, bw_cedar_policies *set,
                               const bw_cedar__list *all)
{
    set->policies = bw_arena_alloc(m->pool, all->n * sizeof *set->policies);
    if (!set->policies)
        return bw_fail_nomem(m->ctx);
    if (all->n)
        memcpy(set->policies, all->items, all->n * sizeof *set->policies);
    set->n = all->n;
    TRY(bw_cedar__note_context(m->ctx, set));
    return bw_cedar__index_build(m->ctx, set);
}

bw_status bw_cedar__set_new(bw_ctx *ctx, bw_str text,
                            bw_status (*read)(bw_cedar__maker *m,
                                              bw_cedar_policies *set),
                            bw_cedar_policies **out)
{
    bw_ctx *pool = bw_ctx_new(0);
    if (!pool)
        return bw_fail_nomem(ctx);
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    bw_cedar__maker m = {ctx, pool};
    bw_cedar_policies *set = bw_arena_calloc(pool, 1, sizeof *set);
    bw_status st = BW_ENOMEM;
    if (set && bw_arena_str(pool, text, &set->text) == BW_OK) {
        set->pool = pool;
        st = read(&m, set);
    } else {
        (void)bw_fail_nomem(ctx);
    }
    bw_arena_release(ctx, mark);
    if (st != BW_OK) {
        bw_ctx_free(pool);
        return st;
    }
    *out = set;
    return BW_OK;
}

void bw_cedar_policies_free(bw_cedar_policies *p)
{
    if (p)
        bw_ctx_free(p->pool);
}
