/* The strict validator: every policy in every request environment of the schema. What
 * the scope excludes costs nothing more; the conditions that are left are typed
 * (validate_walk.c, validate_rules.c). Rules: language description, section 8, from the
 * public documentation, the Lean model and RFC 76. */
#include "validate.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

typedef bw_cedar__checker checker;

/* ---- names ---- */
static bw_status report_uid(checker *c, const bw_cedar__uid *uid,
                            const bw_cedar__expr *source)
{
    if (bw_cedar__uid_declared(c->schema, uid))
        return BW_OK;
    const bw_str id = uid->id, type = uid->type;
    if (bw_cedar__is_action_type(type))
        bw_cedar__say(c, "the schema declares no action %n of type %n", id, type);
    else if (bw_cedar__type_declared(c->schema, type))
        bw_cedar__say(c, "the entity type %n has no id %n", type, id);
    else
        bw_cedar__say(c, "the schema declares no entity type %n", type);
    return bw_cedar__report(c, false, source);
}

static bw_status report_type(checker *c, bw_str type, const bw_cedar__expr *source)
{
    if (bw_cedar__type_declared(c->schema, type))
        return BW_OK;
    bw_cedar__say(c, "the schema declares no entity type %n", type);
    return bw_cedar__report(c, false, source);
}

/* What the policy names and the schema does not know, wherever it stands. */
static bw_status check_names(checker *c)
{
    for (int var = 0; var < 3; var++) {
        const bw_cedar__scope *s = &c->policy->scope[var];
        if (s->type.len)
            TRY(report_type(c, s->type, NULL));
        for (uint32_t k = 0; k < s->n; k++)
            TRY(report_uid(c, &s->uids[k], NULL));
        c->steps += s->n;
    }
    for (uint32_t i = 0; i < c->low.nnodes; i++) {
        const bw_cedar__vnode *v = &c->low.nodes[i];
        if (v->undeclared && v->op == BW_CEDAR__IS)
            TRY(report_type(c, v->name, v->source));
        else if (v->undeclared)
            TRY(report_uid(c, v->source->u.value.u.uid, v->source));
    }
    return BW_OK;
}

/* Characters that turn the direction of text make a policy read otherwise than it is
 * (CVE-2021-42574): U+202A to 202E, U+2066 to 2069. One warning a policy. */
static bool turns(const unsigned char *p)
{
    return p[0] == 0xe2 && ((p[1] == 0x80 && p[2] >= 0xaa && p[2] <= 0xae) ||
                            (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9));
}

static bw_status check_text(checker *c)
{
    const bw_str t = c->policy->text;
    size_t i = 0;
    while (i + 2 < t.len && !turns((const unsigned char *)t.ptr + i))
        i++;
    if (i + 2 >= t.len)
        return BW_OK;
    bw_cedar__say(c, "a character here turns the direction of the text, so that it may "
                     "look other than it is");
    const bw_cedar__expr at = {
        .offset = (uint32_t)((uintptr_t)t.ptr + i - (uintptr_t)c->set->text.ptr)};
    return bw_cedar__report(c, true, &at);
}

/* ---- scopes ---- */
/* Whether an entity of the type may pass; a slot may hold whatever fits. */
static bool type_fits(const checker *c, const bw_cedar__scope *s, bw_str type)
{
    if (s->type.len && !bw_str_eq(s->type, type))
        return false;
    if (s->n == 0) /* all, `is`, or a slot */
        return true;
    return s->op == BW_CEDAR__SCOPE_EQ
               ? bw_str_eq(s->uids[0].type, type)
               : bw_cedar__type_below(c->schema, type, s->uids[0].type);
}

static bool action_fits(const checker *c, const bw_cedar__object *action)
{
    const bw_cedar__scope *s = &c->policy->scope[BW_CEDAR__ACTION];
    if (s->op == BW_CEDAR__SCOPE_ALL)
        return true;
    if (s->op == BW_CEDAR__SCOPE_EQ)
        return bw_cedar__uid_eq(&s->uids[0], &action->uid);
    for (uint32_t i = 0; i < s->n; i++)
        if (bw_cedar__action_below(c->schema, action, &s->uids[i]))
            return true;
    return false;
}

/* What is wrong with a scope in every environment. */
static bw_status check_scopes(checker *c)
{
    const bw_cedar__scope *s = &c->policy->scope[BW_CEDAR__ACTION];
    bool looks = s->op == BW_CEDAR__SCOPE_IN || s->op == BW_CEDAR__SCOPE_IN_LIST;
    for (uint32_t i = 1; i < s->n; i++)
        if (!bw_str_eq(s->uids[i].type, s->uids[0].type)) {
            bw_cedar__say(c, "the scope's actions are of two types, %n and %n",
                          s->uids[0].type, s->uids[i].type);
            return bw_cedar__report(c, false, NULL);
        }
    for (int var = 0; var < 3; var += 2)
        looks |= c->policy->scope[var].op == BW_CEDAR__SCOPE_IN ||
                 c->policy->scope[var].op == BW_CEDAR__SCOPE_IS_IN;
    if (!looks || c->options.level != 0)
        return BW_OK;
    bw_cedar__say(c, "`in` in the scope looks into an entity, which level 0 forbids");
    return bw_cedar__report(c, false, NULL);
}

/* ---- environments ---- */
typedef struct tally {
    uint32_t fits, never; /* environments that pass the scope; always false in */
    const bw_cedar__expr *clause; /* the one that is false, if it is always the same */
    bool mixed;
} tally;

static bw_status check_env(checker *c, tally *t)
{
    uint8_t kind = BW_CEDAR__BOOL, decided = BW_CEDAR__TRUE;
    bw_ctx_reset(c->env);
    c->in_env = true;
    t->fits++;
    for (uint32_t i = 0; i < c->policy->nclauses && kind != decided; i++) {
        const bw_cedar__clause *clause = &c->policy->clauses[i];
        uint32_t mark = c->nheld;
        TRY(bw_cedar__check_condition(c, c->low.clauses[i], &kind));
        decided = clause->unless ? BW_CEDAR__TRUE : BW_CEDAR__FALSE;
        if (clause->unless)
            bw_cedar__drop(c, mark);
        if (kind == decided) {
            t->mixed |= t->clause && t->clause != clause->body;
            t->clause = clause->body;
            t->never++;
        }
    }
    bw_cedar__drop(c, 0);
    c->in_env = false;
    return BW_OK;
}

static void set_var(checker *c, int var, bw_str type)
{
    c->var[var] = (bw_cedar__type){.kind = BW_CEDAR__ENTITY, .name = type};
}

/* The environments of one action that the scope lets through. */
static bw_status check_action(checker *c, uint32_t at, tally *t)
{
    const bw_cedar__action_type *a = &c->schema->action_types[at];
    const bw_cedar__entity_type *types = c->schema->types;
    c->action = &c->schema->actions.objects[at].uid;
    c->context = a->context;
    set_var(c, BW_CEDAR__ACTION, c->action->type);
    for (uint32_t p = 0; p < a->nprincipals && !c->out->more; p++) {
        set_var(c, BW_CEDAR__PRINCIPAL, types[a->principals[p]].name);
        c->steps += 1 + a->nresources;
        if (!type_fits(c, &c->policy->scope[BW_CEDAR__PRINCIPAL],
                       c->var[BW_CEDAR__PRINCIPAL].name))
            continue;
        for (uint32_t r = 0; r < a->nresources && !c->out->more; r++) {
            set_var(c, BW_CEDAR__RESOURCE, types[a->resources[r]].name);
            if (type_fits(c, &c->policy->scope[BW_CEDAR__RESOURCE],
                          c->var[BW_CEDAR__RESOURCE].name))
                TRY(check_env(c, t));
        }
    }
    return BW_OK;
}

/* ---- policies ---- */
static bw_status conclude(checker *c, const tally *t)
{
    if (t->fits == 0) {
        if (c->failed) /* by a name in the scope, most likely: that says enough */
            return BW_OK;
        bw_cedar__say(c, "no request fits the scope: the schema has no action that "
                         "applies to such a principal and resource");
        return bw_cedar__report(c, false, NULL);
    }
    if (t->never < t->fits || c->failed)
        return BW_OK;
    bw_cedar__say(c, "the policy never applies: its conditions are false for every "
                     "request that fits its scope");
    return bw_cedar__report(c, true, t->mixed ? NULL : t->clause);
}

static bw_status check_policy(checker *c, uint32_t index)
{
    tally t = {0};
    bw_ctx_reset(c->pool);
    c->index = index;
    c->policy = &c->set->policies[index];
    c->failed = false;
    c->first = (uint32_t)c->out->nfindings;
    c->held = NULL;
    c->frames = NULL;
    c->done = NULL;
    c->nheld = c->held_cap = c->frames_cap = c->done_cap = 0;
    TRY(bw_cedar__lower(c->ctx, c->pool, c->schema, c->policy, &c->steps, &c->low));
    c->active = bw_arena_calloc(c->pool, c->low.nshapes, sizeof *c->active);
    c->seen = bw_arena_calloc(c->pool, c->low.nshapes, sizeof *c->seen);
    if (!c->active || !c->seen)
        return bw_fail_nomem(c->ctx);
    c->seen_at = 0;
    TRY(check_text(c));
    TRY(check_names(c));
    TRY(check_scopes(c));
    for (uint32_t a = 0; a < c->schema->actions.n && !c->out->more; a++) {
        TRY(bw_cedar__step(c, 1 + c->policy->scope[BW_CEDAR__ACTION].n));
        if (c->schema->action_types[a].context &&
            action_fits(c, &c->schema->actions.objects[a]))
            TRY(check_action(c, a, &t));
    }
    return c->out->more ? BW_OK : conclude(c, &t);
}

bw_status bw_cedar_policies_validate(bw_ctx *ctx, const bw_cedar_policies *p,
                                     const bw_cedar_schema *s,
                                     const bw_cedar_validate_options *options,
                                     bw_cedar_validation *out)
{
    bw_cedar_validation result = {.valid = true};
    checker c = {
        .ctx = ctx, .set = p, .schema = s, .out = &result, .line = 1, .column = 1};
    c.options = options ? *options : (bw_cedar_validate_options){.level = -1};
    if (c.options.findings_max == 0)
        c.options.findings_max = BW_CEDAR_FINDINGS_DEFAULT;
    if (c.options.steps_max == 0)
        c.options.steps_max = BW_CEDAR_VALIDATE_STEPS_MAX;
    c.pool = bw_ctx_new(0);
    c.env = bw_ctx_new(0);
    bw_status st = c.pool && c.env ? BW_OK : bw_fail_nomem(ctx);
    for (uint32_t i = 0; i < p->n && st == BW_OK && !result.more; i++)
        st = check_policy(&c, i);
    bw_ctx_free(c.pool);
    bw_ctx_free(c.env);
    bw_buf_clear(&c.message);
    if (st == BW_OK)
        *out = result;
    return st;
}
