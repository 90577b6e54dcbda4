/* The authorizer: language description, section 5. Every policy whose scope matches is
 * evaluated; one that errors is skipped and listed; forbid beats permit. */
#include "index.h"
#include "schema.h"

/* ---- the request ---- */
static bool holds(const uint32_t *types, uint32_t n, uint32_t type)
{
    for (uint32_t i = 0; i < n; i++)
        if (types[i] == type)
            return true;
    return false;
}

static bw_status check_type(bw_ctx *ctx, const bw_cedar_schema *schema,
                            const bw_cedar__uid *uid, const uint32_t *types, uint32_t n,
                            const char *what)
{
    uint32_t type = bw_cedar__schema_type(schema, uid->type);
    if (type == BW_CEDAR__NO_TYPE || !holds(types, n, type))
        return bw_fail(ctx, BW_EINVALID,
                       "the action does not apply to a %s of this type", what);
    return BW_OK;
}

bw_status bw_cedar__check_id(bw_ctx *ctx, const bw_cedar_schema *schema,
                             const bw_cedar__uid *uid, const char *what)
{
    if (!bw_cedar__schema_id_ok(schema, uid))
        return bw_fail(ctx, BW_EINVALID, "the %s's enumerated type has no such id",
                       what);
    return BW_OK;
}

static bw_status find_action(bw_ctx *ctx, const bw_cedar_schema *schema,
                             const bw_cedar__uid *uid,
                             const bw_cedar__action_type **out)
{
    const bw_cedar__object *o = bw_cedar__store_get(&schema->actions, uid);
    if (!o || !o->defined)
        return bw_fail(ctx, BW_EINVALID, "the schema does not declare the action");
    *out = &schema->action_types[o - schema->actions.objects];
    if (!(*out)->context)
        return bw_fail(ctx, BW_EINVALID,
                       "the action is a group and applies to nothing");
    return BW_OK;
}

bw_status bw_cedar__check_request(bw_ctx *ctx, const bw_cedar_schema *schema,
                                  const bw_cedar__uid uids[3], bool partial,
                                  const bw_cedar__action_type **out)
{
    const bw_cedar__action_type *a = NULL;
    bw_status st = find_action(ctx, schema, &uids[1], &a);
    if (st == BW_OK)
        st = check_type(ctx, schema, &uids[0], a->principals, a->nprincipals,
                        "principal");
    if (st == BW_OK)
        st = bw_cedar__check_id(ctx, schema, &uids[0], "principal");
    if (st == BW_OK)
        st = check_type(ctx, schema, &uids[2], a->resources, a->nresources, "resource");
    if (st == BW_OK && !partial)
        st = bw_cedar__check_id(ctx, schema, &uids[2], "resource");
    *out = a;
    return st;
}

bw_status bw_cedar__read_context(bw_ctx *ctx, bw_ctx *pool,
                                 const bw_cedar_schema *schema,
                                 const bw_cedar__action_type *action,
                                 const bw_cedar_request *q, bw_cedar_value *out)
{
    const bw_cedar__type *type = action ? action->context : NULL;
    if (q->context_value) {
        *out = *q->context_value;
        if (out->kind != BW_CEDAR__RECORD ||
            (type && !bw_cedar__value_fits(schema, out, type)))
            return bw_fail(ctx, BW_EINVALID,
                           "the context does not have the schema's type");
        return BW_OK;
    }
    static const bw_json none = {.kind = BW_JSON_OBJECT};
    bw_cedar__reader r = {ctx, pool, schema};
    const bw_json *json = q->context ? q->context : &none;
    if (json->kind != BW_JSON_OBJECT)
        return bw_fail(ctx, BW_EINVALID, "the context must be an object");
    bw_status st = bw_cedar__read_value(&r, json, type, 1, out);
    if (st == BW_OK && out->kind != BW_CEDAR__RECORD)
        return bw_fail(ctx, BW_EINVALID, "the context must be a record");
    return st;
}

bw_status bw_cedar_context_read(bw_ctx *ctx, const bw_cedar_schema *schema,
                                const bw_cedar_uid *action, const bw_json *object,
                                const bw_cedar_value **out)
{
    const bw_cedar__action_type *type = NULL;
    bw_cedar_request q = {.context = object};
    bw_cedar_value *v = bw_arena_alloc(ctx, sizeof *v);
    if (!v)
        return bw_fail_nomem(ctx);
    if (schema && action) {
        bw_cedar__uid uid = bw_cedar__uid_make(action->type, action->id);
        bw_status st = find_action(ctx, schema, &uid, &type);
        if (st != BW_OK)
            return st;
    }
    bw_status st = bw_cedar__read_context(ctx, ctx, schema, type, &q, v);
    if (st == BW_OK)
        *out = v;
    return st;
}

/* ---- the answer ---- */
bw_status bw_cedar__verdicts_start(bw_cedar__run *run, size_t n, uint32_t stack_max,
                                   bw_cedar__verdicts *v)
{
    *v = (bw_cedar__verdicts){0};
    v->permits = bw_arena_alloc(run->ctx, 3 * n * sizeof *v->permits);
    run->stack = bw_arena_alloc(run->ctx, (stack_max + 1) * sizeof *run->stack);
    if (!v->permits || !run->stack)
        return bw_fail_nomem(run->ctx);
    v->forbids = v->permits + n;
    v->errors = v->forbids + n;
    run->stack[0] = (bw_cedar_value){0};
    return BW_OK;
}

bw_status bw_cedar__stopped(bw_cedar__run *run)
{
    if (run->steps > BW_CEDAR_STEPS_MAX && !run->nomem)
        return bw_fail(run->ctx, BW_EINVALID, "evaluation takes more than %d steps",
                       BW_CEDAR_STEPS_MAX);
    return bw_fail_nomem(run->ctx);
}

void bw_cedar__note(bw_cedar__verdicts *v, bw_cedar__outcome outcome, bool forbid,
                    uint32_t i)
{
    if (outcome == BW_CEDAR__YES && forbid)
        v->forbids[v->nforbids++] = i;
    else if (outcome == BW_CEDAR__YES)
        v->permits[v->npermits++] = i;
    else if (outcome == BW_CEDAR__ERRED)
        v->errors[v->nerrors++] = i;
    v->forbid_errored |= forbid && outcome == BW_CEDAR__ERRED;
}

bw_status bw_cedar__judge(bw_cedar__run *run, const bw_cedar__code *code, bool forbid,
                          uint32_t i, bw_cedar__verdicts *v)
{
    bw_cedar__outcome outcome = BW_CEDAR__YES;
    if (code) {
        bw_arena_mark mark = bw_arena_mark_get(run->ctx);
        outcome = bw_cedar__eval(run, code);
        bw_arena_release(run->ctx, mark);
    }
    if (outcome == BW_CEDAR__STOPPED)
        return bw_cedar__stopped(run);
    bw_cedar__note(v, outcome, forbid, i);
    return BW_OK;
}

void bw_cedar__answer(const bw_cedar__verdicts *v, bw_cedar_answer *out)
{
    bool allow = v->nforbids == 0 && v->npermits > 0;
    *out = (bw_cedar_answer){.allow = allow,
                             .reasons = allow ? v->permits : v->forbids,
                             .nreasons = allow ? v->npermits : v->nforbids,
                             .errors = v->errors,
                             .nerrors = v->nerrors,
                             .forbid_errored = v->forbid_errored};
}

static bw_status judge_all(bw_cedar__run *run, const bw_cedar_policies *set,
                           bw_cedar_answer *out)
{
    bw_cedar__verdicts v;
    uint64_t *matching;
    bw_status st = bw_cedar__index_match(set, run, &matching);
    if (st != BW_OK)
        return st;
    size_t n = 0;
    for (uint32_t w = 0; w <= set->n / 64; w++)
        n += (size_t)__builtin_popcountll(matching[w]);
    st = bw_cedar__verdicts_start(run, n, set->stack_max, &v);
    for (uint32_t w = 0; w <= set->n / 64 && st == BW_OK; w++)
        for (uint64_t bits = matching[w]; bits && st == BW_OK; bits &= bits - 1) {
            uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(bits);
            const bw_cedar__policy *p = &set->policies[i];
            st = bw_cedar__judge(run, p->code, p->forbid, i, &v);
        }
    if (st == BW_OK)
        bw_cedar__answer(&v, out);
    return st;
}

bw_status bw_cedar__run_begin(bw_ctx *ctx, const bw_cedar_entities *e,
                              const bw_cedar_schema *schema,
                              const bw_cedar_request *request, bw_cedar__uid uids[3],
                              bw_cedar__run *run)
{
    const bw_cedar_uid *named[3] = {&request->principal, &request->action,
                                    &request->resource};
    *run = (bw_cedar__run){.ctx = ctx};
    run->stores[0] = request->extra;
    run->stores[1] = e;
    run->stores[2] = schema ? &schema->actions : NULL;
    bw_status st = bw_cedar__run_stores(run, bw_cedar__tangled(run));
    for (int i = 0; i < 3; i++)
        uids[i] = bw_cedar__uid_make(named[i]->type, named[i]->id);
    const bw_cedar__action_type *action = NULL;
    if (st == BW_OK && schema && !request->unchecked)
        st = bw_cedar__check_request(ctx, schema, uids, false, &action);
    if (st == BW_OK)
        st = bw_cedar__read_context(ctx, ctx, schema, action, request,
                                    &run->vars[BW_CEDAR__CONTEXT]);
    if (st != BW_OK)
        return st;
    for (int i = 0; i < 3; i++)
        run->objects[i] = bw_cedar__find(run, &uids[i]);
    for (int i = 0; i < 3; i++)
        run->vars[i] = bw_cedar__entity(&uids[i]);
    return BW_OK;
}

bw_status bw_cedar_authorize(bw_ctx *ctx, const bw_cedar_policies *p,
                             const bw_cedar_entities *e, const bw_cedar_schema *schema,
                             const bw_cedar_request *request, bw_cedar_answer *out)
{
    bw_cedar__uid uids[3];
    bw_cedar__run run;
    bw_status st = bw_cedar__run_begin(ctx, e, schema, request, uids, &run);
    return st == BW_OK ? judge_all(&run, p, out) : st;
}

/* ---- looking at a set ---- */
size_t bw_cedar_policies_count(const bw_cedar_policies *p)
{
    return p->n;
}

bw_str bw_cedar_policy_id(const bw_cedar_policies *p, size_t i)
{
    assert(i < p->n);
    return p->policies[i].id;
}

bool bw_cedar_policy_annotation(const bw_cedar_policies *p, size_t i, bw_str key,
                                bw_str *value)
{
    assert(i < p->n);
    const bw_cedar__policy *policy = &p->policies[i];
    for (uint32_t k = 0; k < policy->nannotations; k++)
        if (bw_str_eq(policy->annotations[k].key, key)) {
            *value = policy->annotations[k].value;
            return true;
        }
    return false;
}

bool bw_cedar_policy_is_forbid(const bw_cedar_policies *p, size_t i)
{
    assert(i < p->n);
    return p->policies[i].forbid;
}

bw_str bw_cedar_policy_text(const bw_cedar_policies *p, size_t i)
{
    assert(i < p->n);
    return p->policies[i].text;
}
