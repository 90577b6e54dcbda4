/* A policy set as Cedar text: printed on one line (print.c), laid out by format.c. The
 * tree is what was written, so reading the text gives the same set again, but for what
 * text cannot say: ids (policyN there; others are told in comments), links (they are
 * written as the policies that they are), and of JSON a path of `has` that is more than
 * identifiers. */
#include "print.h"

static void put(bw_cedar__printer *p, const char *s)
{
    bw_cedar__print_str(p, bw_str_c(s));
}

static void put_target(bw_cedar__printer *p, int var, const bw_cedar__scope *s)
{
    if (s->slot) {
        put(p, "?");
        put(p, bw_cedar__vars[var]);
        return;
    }
    bool list = s->op == BW_CEDAR__SCOPE_IN_LIST;
    put(p, list ? "[" : "");
    for (uint32_t i = 0; i < s->n; i++) {
        put(p, i ? ", " : "");
        bw_cedar__print_uid(p, &s->uids[i]);
    }
    put(p, list ? "]" : "");
}

static void put_scope(bw_cedar__printer *p, int var, const bw_cedar__scope *s)
{
    static const char *const ops[] = {[BW_CEDAR__SCOPE_EQ] = " == ",
                                      [BW_CEDAR__SCOPE_IN] = " in ",
                                      [BW_CEDAR__SCOPE_IN_LIST] = " in ",
                                      [BW_CEDAR__SCOPE_IS] = "",
                                      [BW_CEDAR__SCOPE_IS_IN] = " in "};
    put(p, bw_cedar__vars[var]);
    if (s->op == BW_CEDAR__SCOPE_ALL)
        return;
    put(p, s->type.len ? " is " : "");
    bw_cedar__print_str(p, s->type);
    put(p, ops[s->op]);
    put_target(p, var, s);
}

/* Its id, when text would give it another. */
static void put_id(bw_ctx *ctx, bw_cedar__printer *p, bw_str id, uint32_t i)
{
    const char *own = bw_arena_printf(ctx, "policy%u", i);
    if (!own)
        p->b->failed = true;
    if (!own || bw_str_eq(id, bw_str_c(own)))
        return;
    put(p, "// id ");
    bw_cedar__print_quoted(p, id);
    put(p, "\n");
}

static void put_policy(bw_cedar__printer *p, const bw_cedar__policy *policy)
{
    for (uint32_t i = 0; i < policy->nannotations; i++) {
        const bw_cedar__annotation *a = &policy->annotations[i];
        put(p, "@");
        bw_cedar__print_str(p, a->key);
        if (a->has_value) {
            put(p, "(");
            bw_cedar__print_quoted(p, a->value);
            put(p, ")");
        }
        put(p, "\n");
    }
    p->untrue |=
        policy->is_template && !policy->scope[0].slot && !policy->scope[2].slot;
    put(p, policy->forbid ? "forbid" : "permit");
    for (int var = 0; var < 3; var++) {
        put(p, var ? ", " : " (");
        put_scope(p, var, &policy->scope[var]);
    }
    put(p, ")");
    for (uint32_t i = 0; i < policy->nclauses && !p->full; i++) {
        put(p, policy->clauses[i].unless ? " unless { " : " when { ");
        bw_cedar__print_expr(p, policy->clauses[i].body);
        put(p, " }");
    }
    put(p, ";\n");
}

bw_status bw_cedar_policies_write(bw_ctx *ctx, const bw_cedar_policies *p, bw_buf *out)
{
    bw_buf flat = {0};
    bw_cedar__printer to = {.b = &flat, .end = BW_CEDAR_TEXT_MAX};
    uint32_t i = 0;
    for (; i < p->n && !to.untrue && !to.full; i++) {
        put_id(ctx, &to, p->policies[i].id, i);
        put_policy(&to, &p->policies[i]);
    }
    bw_status st;
    if (flat.failed)
        st = bw_fail_nomem(ctx);
    else if (to.untrue)
        st = bw_fail(
            ctx, BW_EINVALID,
            "policy %u of the set cannot be written as text: a function that does "
            "not exist, a method without receiver, or odd names in a path",
            i - 1);
    else if (to.full)
        st = bw_fail(ctx, BW_EINVALID, "the text is larger than %d bytes",
                     BW_CEDAR_TEXT_MAX);
    else
        st = bw_cedar_policies_format(ctx, bw_buf_view(&flat), out);
    bw_buf_clear(&flat);
    return st;
}
