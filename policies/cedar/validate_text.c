/* What the validator says: findings with their place. */
#include "print.h"
#include "validate.h"

enum { EXPR_MAX = 80, STRING_MAX = 60 };

void bw_cedar__say(bw_cedar__checker *c, const char *fmt, ...)
{
    bw_buf *out = &c->message;
    va_list args;
    va_start(args, fmt);
    out->len = 0;
    for (const char *s = fmt; *s; s++) {
        if (*s != '%') {
            bw_buf_putc(out, *s);
            continue;
        }
        switch (*++s) {
        case 'e':
            bw_cedar__put_expr(out, va_arg(args, const bw_cedar__expr *), EXPR_MAX,
                               NULL, NULL);
            break;
        case 't':
            bw_cedar__type_put(out, va_arg(args, const bw_cedar__type *));
            break;
        case 'n':
            bw_cedar__put_string(out, va_arg(args, bw_str), STRING_MAX);
            break;
        case 'u':
            bw_buf_printf(out, "%u", va_arg(args, unsigned));
            break;
        default:
            bw_buf_puts(out, va_arg(args, const char *));
        }
    }
    va_end(args);
}

/* Where it is in the set's text; false: a policy that came as JSON has no place in it.
 */
static bool place(bw_cedar__checker *c, const bw_cedar__expr *source, size_t *out)
{
    const bw_str text = c->set->text;
    uintptr_t at = (uintptr_t)c->policy->text.ptr, from = (uintptr_t)text.ptr;
    if (at < from || at >= from + text.len)
        return false;
    *out = source ? source->offset : at - from;
    for (; source && source->n > 0; source = source->child[0]) { /* left of operators */
        if (source->child[0]->offset < *out)
            *out = source->child[0]->offset;
        c->steps++;
    }
    return true;
}

/* A long text is gone through once for the policies, and from there for each finding.
 */
static void count_lines(bw_cedar__checker *c, bw_cedar_finding *f)
{
    size_t start = (size_t)(c->policy->text.ptr - c->set->text.ptr);
    assert(c->start <= start && start <= f->offset);
    bw_cedar__line_column(c->set->text, c->start, start, &c->line, &c->column);
    c->start = start;
    f->line = c->line;
    f->column = c->column;
    bw_cedar__line_column(c->set->text, start, f->offset, &f->line, &f->column);
}

static bool reported(const bw_cedar__checker *c, size_t offset)
{
    bw_str message = bw_buf_view(&c->message);
    for (size_t i = c->first; i < c->out->nfindings; i++)
        if (c->findings[i].offset == offset &&
            bw_str_eq(c->findings[i].message, message))
            return true;
    return false;
}

static bw_status room(bw_cedar__checker *c)
{
    size_t n = c->out->nfindings;
    if (n < c->cap)
        return BW_OK;
    uint32_t cap = c->cap ? c->cap * 2 : 8;
    void *grown = bw_arena_grow(c->ctx, c->findings, n * sizeof *c->findings,
                                cap * sizeof *c->findings);
    if (!grown)
        return bw_fail_nomem(c->ctx);
    c->findings = grown;
    c->out->findings = grown;
    c->cap = cap;
    return BW_OK;
}

bw_status bw_cedar__report(bw_cedar__checker *c, bool warning,
                           const bw_cedar__expr *source)
{
    bw_cedar_finding f = {.policy = c->index, .warning = warning};
    bool placed = place(c, source, &f.offset);
    if (c->message.failed)
        return bw_fail_nomem(c->ctx);
    c->steps += 100; /* about what writing it costs */
    c->failed |= !warning;
    if (!warning)
        c->out->valid = false;
    if (reported(c, f.offset))
        return BW_OK;
    if (c->out->nfindings == c->options.findings_max) {
        c->out->more = true;
        return BW_OK;
    }
    if (bw_arena_str(c->ctx, bw_buf_view(&c->message), &f.message) != BW_OK)
        return bw_fail_nomem(c->ctx);
    if (placed)
        count_lines(c, &f);
    if (c->in_env) {
        f.action = (bw_cedar_uid){c->action->type, c->action->id};
        f.principal = c->var[BW_CEDAR__PRINCIPAL].name;
        f.resource = c->var[BW_CEDAR__RESOURCE].name;
    }
    bw_status st = room(c);
    if (st == BW_OK)
        c->findings[c->out->nfindings++] = f;
    return st;
}

const char *bw_cedar_finding_text(bw_ctx *ctx, const bw_cedar_policies *p,
                                  const bw_cedar_finding *f)
{
    bw_str name = bw_cedar_policy_id(p, f->policy);
    bw_buf b = {0};
    (void)bw_cedar_policy_annotation(p, f->policy, BW_STR("id"), &name);
    bw_buf_str(&b, name.len ? name : bw_cedar_policy_id(p, f->policy));
    if (f->line)
        bw_buf_printf(&b, ", %zu:%zu", f->line, f->column);
    bw_buf_puts(&b, f->warning ? ": warning: " : ": ");
    bw_buf_str(&b, f->message);
    if (f->action.type.len) {
        bw_buf_puts(&b, " (for ");
        bw_buf_str(&b, f->principal);
        bw_buf_puts(&b, ", ");
        bw_cedar__put_string(&b, f->action.id, STRING_MAX);
        bw_buf_puts(&b, ", ");
        bw_buf_str(&b, f->resource);
        bw_buf_putc(&b, ')');
    }
    const char *text = b.failed ? NULL : bw_arena_cstr(ctx, bw_buf_view(&b));
    bw_buf_clear(&b);
    return text;
}
