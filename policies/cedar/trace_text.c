/* Values and parts of conditions for explanations (trace.h), by the printer of Cedar
 * text (print.h); values as JSON; which literals a policy holds. */
#include "print.h"
#include "trace.h"

void bw_cedar_part_text(bw_buf *b, const bw_cedar_part *part, bw_cedar_show show,
                        void *user)
{
    bw_cedar__put_expr(b, part->expr, BW_CEDAR_PART_TEXT_MAX, show, user);
}

void bw_cedar_value_text(bw_buf *b, const bw_cedar_value *v, bw_cedar_show show,
                         void *user)
{
    bw_cedar__printer p = {
        .b = b, .end = b->len + BW_CEDAR_PART_TEXT_MAX, .show = show, .user = user};
    bw_cedar__print_value(&p, v);
}

/* Recursion follows the nesting of values, which is bounded (value.h). */
void bw_cedar_value_json(bw_buf *b, const bw_cedar_value *v)
{
    bw_cedar__printer p = {.b = b, .end = SIZE_MAX};
    switch ((bw_cedar__kind)v->kind) {
    case BW_CEDAR__BOOL:
    case BW_CEDAR__LONG: /* look alike in both */
        bw_cedar__print_value(&p, v);
        return;
    case BW_CEDAR__STRING:
        bw_json_put_str(b, bw_cedar__text(v));
        return;
    case BW_CEDAR__ENTITY:
        bw_buf_puts(b, "{\"__entity\":{\"type\":");
        bw_json_put_str(b, v->u.uid->type);
        bw_buf_puts(b, ",\"id\":");
        bw_json_put_str(b, v->u.uid->id);
        bw_buf_puts(b, "}}");
        return;
    case BW_CEDAR__SET:
        bw_buf_putc(b, '[');
        for (uint32_t i = 0; i < v->n; i++) {
            bw_json_sep(b);
            bw_cedar_value_json(b, &v->u.items[i]);
        }
        bw_buf_putc(b, ']');
        return;
    case BW_CEDAR__RECORD:
        bw_buf_putc(b, '{');
        for (uint32_t i = 0; i < v->n; i++) {
            bw_json_sep(b);
            bw_json_put_str(b, v->u.members[i].key);
            bw_buf_putc(b, ':');
            bw_cedar_value_json(b, &v->u.members[i].value);
        }
        bw_buf_putc(b, '}');
        return;
    case BW_CEDAR__DECIMAL:
    case BW_CEDAR__DATETIME:
    case BW_CEDAR__DURATION:
    case BW_CEDAR__IP:
        bw_buf_puts(b, "{\"__extn\":{\"fn\":");
        bw_json_put_str(b, bw_cedar__fn_name(bw_cedar__constructor(v)));
        bw_buf_puts(b, ",\"arg\":");
        bw_cedar__print_argument(&p, v);
        bw_buf_puts(b, "}}");
        return;
    }
}

/* ---- literals ---- */

typedef struct looking {
    bw_cedar_show show;
    void *user;
    bool all;
} looking;

static bool visit_literal(const bw_cedar__expr *e, void *user)
{
    looking *l = user;
    if (e->op == BW_CEDAR__VALUE)
        l->all = l->show(&e->u.value, l->user);
    else if (e->op == BW_CEDAR__LIKE)
        l->all = bw_cedar__pattern_shown(&e->u.pattern, l->show, l->user);
    return l->all;
}

bw_status bw_cedar_policy_literals(bw_ctx *ctx, const bw_cedar_policies *p,
                                   uint32_t policy, bw_cedar_show show, void *user,
                                   bool *all)
{
    const bw_cedar__policy *it = &p->policies[policy];
    looking l = {show, user, true};
    for (int var = 0; var < 3; var++)
        for (uint32_t i = 0; i < it->scope[var].n && l.all; i++) {
            bw_cedar_value v = bw_cedar__entity(&it->scope[var].uids[i]);
            l.all = show(&v, user);
        }
    for (uint32_t i = 0; i < it->nclauses && l.all; i++) {
        bw_status st = bw_cedar__walk(ctx, it->clauses[i].body, visit_literal, &l);
        if (st != BW_OK)
            return st;
    }
    *all = l.all;
    return BW_OK;
}
