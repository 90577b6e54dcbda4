/* Which attributes of the context the conditions of a set read: a cached decision has
 * to expire with those, and need not carry the others. */
#include "ast.h"

enum {
    NAMES_MAX = 256
}; /* each is compared with all before it; beyond, "the whole context" */

typedef struct use {
    bw_str *names;
    uint32_t n;
    uint32_t vars,
        accesses; /* `context` anywhere, and as the left of an access that is noted */
} use;

static bool is_context(const bw_cedar__expr *e)
{
    return e->op == BW_CEDAR__VAR && e->which == BW_CEDAR__CONTEXT;
}

static bool visit(const bw_cedar__expr *e, void *user)
{
    use *u = user;
    u->vars += is_context(e);
    if ((e->op != BW_CEDAR__GET && e->op != BW_CEDAR__HAS) || !is_context(e->child[0]))
        return true;
    uint32_t i = 0;
    while (i < u->n && !bw_str_eq(u->names[i], e->u.names[0]))
        i++;
    if (i == u->n && u->n == NAMES_MAX)
        return true;
    if (i == u->n)
        u->names[u->n++] = e->u.names[0];
    u->accesses++;
    return true;
}

bw_status bw_cedar__note_context(bw_ctx *ctx, bw_cedar_policies *set)
{
    use u = {.names = bw_arena_alloc(set->pool, NAMES_MAX * sizeof *u.names)};
    if (!u.names)
        return bw_fail_nomem(ctx);
    for (uint32_t i = 0; i < set->n; i++)
        for (uint32_t c = 0; c < set->policies[i].nclauses; c++) {
            bw_status st =
                bw_cedar__walk(ctx, set->policies[i].clauses[c].body, visit, &u);
            if (st != BW_OK)
                return st;
        }
    set->context_names = u.names;
    set->ncontext_names = u.n;
    set->context_whole = u.vars != u.accesses;
    return BW_OK;
}

bool bw_cedar_policies_read_context(const bw_cedar_policies *p, bw_str attribute)
{
    for (uint32_t i = 0; i < p->ncontext_names; i++)
        if (bw_str_eq(p->context_names[i], attribute))
            return true;
    return p->context_whole;
}
