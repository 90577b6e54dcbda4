/* Finishing residuals (cedar.h): the question that was asked with the resource unknown
 * is answered for one resource, by running what is left of the policies. Also what a
 * caller may ask of residuals without a resource. */
#include "residual.h"

enum { STACK_FEW = 15 }; /* values of a stack that needs no arena */

/* ---- without a resource ---- */
static const bw_cedar__residual *item_of(const bw_cedar_residuals *r, size_t policy)
{
    assert(policy < r->npolicies);
    uint32_t lo = 0, hi = r->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (r->items[mid].policy == policy)
            return &r->items[mid];
        if (r->items[mid].policy < policy)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

bw_cedar_residual_state bw_cedar_residuals_state(const bw_cedar_residuals *r,
                                                 size_t policy)
{
    const bw_cedar__residual *item = item_of(r, policy);
    return item ? (bw_cedar_residual_state)item->state : BW_CEDAR_RESIDUAL_FALSE;
}

const bw_cedar__expr *bw_cedar__residual_expr(const bw_cedar_residuals *r,
                                              size_t policy)
{
    const bw_cedar__residual *item = item_of(r, policy);
    return item ? item->expr : NULL;
}

size_t bw_cedar_residuals_count(const bw_cedar_residuals *r,
                                bw_cedar_residual_state state)
{
    return state == BW_CEDAR_RESIDUAL_FALSE ? r->npolicies - r->n : r->counts[state];
}

/* The Lean model's TPE response: a forbid that errors decides nothing in Cedar. */
bw_cedar_known bw_cedar_residuals_known(const bw_cedar_residuals *r)
{
    bool forbidden = false;
    for (uint32_t i = 0; i < r->n; i++)
        forbidden |= r->items[i].forbid && r->items[i].state == BW_CEDAR_RESIDUAL_TRUE;
    if (forbidden || (!r->always && r->nopen[0] == 0))
        return BW_CEDAR_DENIES;
    return r->always && r->nopen[1] == 0 ? BW_CEDAR_ALLOWS : BW_CEDAR_UNKNOWN;
}

/* ---- with one ---- */
static const bw_cedar__object *defined_in(const bw_cedar_entities *store,
                                          const bw_cedar__uid *uid)
{
    const bw_cedar__object *o = store ? bw_cedar__store_get(store, uid) : NULL;
    return o && o->defined ? o : NULL;
}

/* The only object of a store is found without hashing its uid. */
static const bw_cedar__object *only_one(const bw_cedar_entities *store,
                                        const bw_cedar_uid *uid)
{
    const bw_cedar__object *o = store && store->n == 1 ? store->objects : NULL;
    return o && o->defined && bw_str_eq(o->uid.id, uid->id) &&
                   bw_str_eq(o->uid.type, uid->type)
               ? o
               : NULL;
}

/* A run over the stores of the partial evaluation, the resource's own object beside
 * them. *uid must outlive it. */
static bw_status start(bw_ctx *ctx, const bw_cedar_residuals *r,
                       const bw_cedar_entities *store, const bw_cedar_uid *resource,
                       bw_cedar__uid *uid, bw_cedar__run *run)
{
    const bw_cedar__object *o = only_one(store, resource);
    *uid = o ? o->uid : bw_cedar__uid_make(resource->type, resource->id);
    if (!o)
        o = defined_in(store, uid);
    if (!bw_str_eq(uid->type, r->uids[BW_CEDAR__RESOURCE].type))
        return bw_fail(ctx, BW_EINVALID, "the residuals are for another type");
    if (r->check_id) {
        bw_status st = bw_cedar__check_id(ctx, r->schema, uid, "resource");
        if (st != BW_OK)
            return st;
    }
    *run = r->run;
    run->ctx = ctx;
    run->own = o;
    run->own_store = store;
    run->vars[BW_CEDAR__RESOURCE] = bw_cedar__entity(uid);
    if (!o)
        o = bw_cedar__find_stored(run, uid);
    for (int i = 0; i < 2 && run->own; i++)
        if (bw_cedar__uid_eq(uid, run->vars[i].u.uid))
            run->objects[i] = run->own;
    run->objects[BW_CEDAR__RESOURCE] = o;
    if (r->conform && !o)
        return bw_fail(ctx, BW_EINVALID, "the resource is in no store");
    return run->tangled || run->unknown_above ? bw_cedar__run_stores(run, run->tangled)
                                              : BW_OK;
}

bw_status bw_cedar_residuals_finish(bw_ctx *ctx, const bw_cedar_residuals *r,
                                    const bw_cedar_entities *store,
                                    const bw_cedar_uid *resource, bw_cedar_answer *out)
{
    bw_cedar__uid uid;
    bw_cedar__run run;
    bw_cedar__verdicts v;
    bw_status st = start(ctx, r, store, resource, &uid, &run);
    if (st == BW_OK)
        st = bw_cedar__verdicts_start(&run, r->n, r->stack_max, &v);
    for (uint32_t i = 0; i < r->n && st == BW_OK; i++) {
        const bw_cedar__residual *item = &r->items[i];
        if (item->state == BW_CEDAR_RESIDUAL_ERROR)
            bw_cedar__note(&v, BW_CEDAR__ERRED, item->forbid, item->policy);
        else
            st = bw_cedar__judge(&run, item->code, item->forbid, item->policy, &v);
    }
    if (st == BW_OK)
        bw_cedar__answer(&v, out);
    return st;
}

/* Whether one of the open permits holds, or (forbid) one of the open forbids holds or
 * errs. */
static bw_status any(bw_cedar__run *run, const bw_cedar_residuals *r, bool forbid,
                     bool *yes)
{
    *yes = false;
    for (uint32_t i = 0; i < r->nopen[forbid] && !*yes; i++) {
        bw_cedar__outcome o = bw_cedar__eval(run, r->open[forbid][i]);
        if (o == BW_CEDAR__STOPPED)
            return bw_cedar__stopped(run);
        *yes = o == BW_CEDAR__YES || (forbid && o == BW_CEDAR__ERRED);
    }
    return BW_OK;
}

static bw_status judge(bw_cedar__run *run, const bw_cedar_residuals *r, bool *allow)
{
    bw_cedar_value few[STACK_FEW + 1];
    bool permitted = r->always, forbidden = false;
    run->stack =
        r->stack_max <= STACK_FEW
            ? few
            : bw_arena_alloc(run->ctx, (r->stack_max + 1) * sizeof *run->stack);
    if (!run->stack)
        return bw_fail_nomem(run->ctx);
    run->stack[0] = (bw_cedar_value){0};
    bw_status st = permitted ? BW_OK : any(run, r, false, &permitted);
    if (st == BW_OK && permitted)
        st = any(run, r, true, &forbidden);
    if (st == BW_OK)
        *allow = permitted && !forbidden;
    return st;
}

bw_status bw_cedar_residuals_allow(bw_ctx *ctx, const bw_cedar_residuals *r,
                                   const bw_cedar_entities *store,
                                   const bw_cedar_uid *resource, bool *allow)
{
    bw_cedar__uid uid;
    bw_cedar__run run;
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    bw_status st = start(ctx, r, store, resource, &uid, &run);
    if (st == BW_OK && r->never)
        *allow = false;
    else if (st == BW_OK)
        st = judge(&run, r, allow);
    bw_arena_release(ctx, mark);
    return st;
}
