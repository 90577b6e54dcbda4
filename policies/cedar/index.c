/* See index.h. */
#include "index.h"

bw_status bw_cedar__index_build(bw_ctx *ctx, bw_cedar_policies *set)
{
    (void)ctx;
    (void)set;
    return BW_OK;
}

static bool scope_matches(bw_cedar__run *run, const bw_cedar__scope *s, int var)
{
    const bw_cedar__uid *uid = run->vars[var].u.uid;
    switch ((bw_cedar__scope_op)s->op) {
    case BW_CEDAR__SCOPE_ALL:
        return true;
    case BW_CEDAR__SCOPE_EQ:
        return bw_cedar__uid_eq(uid, s->uids);
    case BW_CEDAR__SCOPE_IS:
        return bw_str_eq(uid->type, s->type);
    case BW_CEDAR__SCOPE_IS_IN:
        if (!bw_str_eq(uid->type, s->type))
            return false;
        break;
    case BW_CEDAR__SCOPE_IN:
    case BW_CEDAR__SCOPE_IN_LIST:
        break;
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (bw_cedar__is_in(run, uid, &s->uids[i]))
            return true;
    return false;
}

bw_status bw_cedar__index_match(const bw_cedar_policies *set, bw_cedar__run *run, uint64_t **out)
{
    uint64_t *bits = bw_arena_calloc(run->ctx, set->n / 64 + 1, sizeof *bits);
    if (!bits)
        return bw_fail_nomem(run->ctx);
    for (uint32_t i = 0; i < set->n; i++) {
        const bw_cedar__policy *p = &set->policies[i];
        if (!p->is_template && scope_matches(run, &p->scope[0], 0) &&
            scope_matches(run, &p->scope[1], 1) && scope_matches(run, &p->scope[2], 2))
            bits[i / 64] |= (uint64_t)1 << (i % 64);
    }
    *out = bits;
    return BW_OK;
}
