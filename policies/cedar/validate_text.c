/* What the validator says: expressions and types in short, findings with their place. */
#include "validate.h"

/* ---- expressions ---- */
enum { EXPR_MAX = 60, EXPR_DEPTH_MAX = 8 };

typedef struct printer {
    bw_buf *out;
    size_t end;
} printer;

static bool full(const printer *p)
{
    return p->out->len >= p->end || p->out->failed;
}

static void put_value(printer *p, const bw_cedar_value *v)
{
    switch (v->kind) {
    case BW_CEDAR__BOOL:
        bw_buf_puts(p->out, v->u.boolean ? "true" : "false");
        return;
    case BW_CEDAR__LONG:
        bw_buf_printf(p->out, "%lld", (long long)v->u.integer);
        return;
    case BW_CEDAR__STRING:
        bw_cedar__string_put(p->out, bw_cedar__text(v));
        return;
    default:
        bw_buf_str(p->out, v->u.uid->type);
        bw_buf_puts(p->out, "::");
        bw_cedar__string_put(p->out, v->u.uid->id);
    }
}

static void put_expr(printer *p, const bw_cedar__expr *e, uint32_t depth);

static bool stands_alone(const bw_cedar__expr *e)
{
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__VALUE:
    case BW_CEDAR__VAR:
    case BW_CEDAR__SLOT:
    case BW_CEDAR__IS_EMPTY:
    case BW_CEDAR__CONTAINS:
    case BW_CEDAR__CONTAINS_ALL:
    case BW_CEDAR__CONTAINS_ANY:
    case BW_CEDAR__HAS_TAG:
    case BW_CEDAR__GET_TAG:
    case BW_CEDAR__GET:
    case BW_CEDAR__SET_OF:
    case BW_CEDAR__RECORD_OF:
    case BW_CEDAR__CALL:
        return true;
    default:
        return false;
    }
}

static void put_operand(printer *p, const bw_cedar__expr *e, uint32_t depth)
{
    bool alone = stands_alone(e);
    bw_buf_puts(p->out, alone ? "" : "(");
    put_expr(p, e, depth + 1);
    bw_buf_puts(p->out, alone ? "" : ")");
}

static void put_list(printer *p, const bw_cedar__expr *e, uint32_t from, char open,
                     char close, uint32_t depth)
{
    bw_buf_putc(p->out, open);
    for (uint32_t i = from; i < e->n && !full(p); i++) {
        bw_buf_puts(p->out, i > from ? ", " : "");
        if (e->op == BW_CEDAR__RECORD_OF) {
            bw_cedar__string_put(p->out, e->u.names[i]);
            bw_buf_puts(p->out, ": ");
        }
        put_expr(p, e->child[i], depth + 1);
    }
    bw_buf_putc(p->out, close);
}

static void put_method(printer *p, const bw_cedar__expr *e, const char *name,
                       uint32_t depth)
{
    put_operand(p, e->child[0], depth);
    bw_buf_putc(p->out, '.');
    bw_buf_puts(p->out, name);
    put_list(p, e, 1, '(', ')', depth);
}

static void put_call(printer *p, const bw_cedar__expr *e, uint32_t depth)
{
    const char *name = bw_cedar__fn_name(e->which).ptr;
    if (!bw_cedar__fn_constructor(e->which) && e->n > 0) {
        put_method(p, e, name, depth);
        return;
    }
    bw_buf_puts(p->out, name);
    put_list(p, e, 0, '(', ')', depth);
}

static void put_names(printer *p, const bw_cedar__expr *e, uint32_t depth)
{
    bool get = e->op == BW_CEDAR__GET;
    bool plain = bw_cedar__is_ident(e->u.names[0]) &&
                 !bw_cedar__is_reserved(e->u.names[0]);
    put_operand(p, e->child[0], depth);
    bw_buf_puts(p->out, !get ? " has " : plain ? "." : "[");
    for (uint32_t i = 0; i < e->nnames && !full(p); i++) {
        bw_buf_puts(p->out, i ? "." : "");
        if (plain)
            bw_buf_str(p->out, e->u.names[i]);
        else
            bw_cedar__string_put(p->out, e->u.names[i]);
    }
    bw_buf_puts(p->out, get && !plain ? "]" : "");
}

static void put_if(printer *p, const bw_cedar__expr *e, uint32_t depth)
{
    static const char *const words[] = {"if ", " then ", " else "};
    for (uint32_t i = 0; i < 3 && !full(p); i++) {
        bw_buf_puts(p->out, words[i]);
        put_expr(p, e->child[i], depth + 1);
    }
}

static void put_two(printer *p, const bw_cedar__expr *e, uint32_t depth)
{
    static const char *const signs[] = {
        [BW_CEDAR__AND] = " && ", [BW_CEDAR__OR] = " || ", [BW_CEDAR__EQ] = " == ",
        [BW_CEDAR__NE] = " != ",  [BW_CEDAR__LT] = " < ",  [BW_CEDAR__LE] = " <= ",
        [BW_CEDAR__GT] = " > ",   [BW_CEDAR__GE] = " >= ", [BW_CEDAR__IN] = " in ",
        [BW_CEDAR__ADD] = " + ",  [BW_CEDAR__SUB] = " - ", [BW_CEDAR__MUL] = " * "};
    put_operand(p, e->child[0], depth);
    bw_buf_puts(p->out, signs[e->op]);
    put_operand(p, e->child[1], depth);
}

static void put_like(printer *p, const bw_cedar__expr *e, uint32_t depth)
{
    put_operand(p, e->child[0], depth);
    bw_buf_puts(p->out, " like ");
    for (uint32_t i = 0; i < e->u.pattern.n && !full(p); i++) {
        bw_buf_puts(p->out, i ? "*" : "");
        if (e->u.pattern.runs[i].len)
            bw_cedar__string_put(p->out, e->u.pattern.runs[i]);
    }
}

static void put_is(printer *p, const bw_cedar__expr *e, uint32_t depth)
{
    put_operand(p, e->child[0], depth);
    bw_buf_puts(p->out, " is ");
    bw_buf_str(p->out, e->u.names[0]);
    if (e->n > 1) {
        bw_buf_puts(p->out, " in ");
        put_operand(p, e->child[1], depth);
    }
}

static void put_expr(printer *p, const bw_cedar__expr *e, uint32_t depth)
{
    static const char *const vars[] = {"principal", "action", "resource", "context"};
    static const char *const slots[] = {"?principal", "?action", "?resource"};
    if (full(p) || depth > EXPR_DEPTH_MAX) {
        bw_buf_puts(p->out, "…");
        return;
    }
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__VALUE:
        put_value(p, &e->u.value);
        return;
    case BW_CEDAR__SLOT:
        bw_buf_puts(p->out, slots[e->which]);
        return;
    case BW_CEDAR__VAR:
        bw_buf_puts(p->out, vars[e->which]);
        return;
    case BW_CEDAR__IF:
        put_if(p, e, depth);
        return;
    case BW_CEDAR__NOT:
    case BW_CEDAR__NEG:
        bw_buf_putc(p->out, e->op == BW_CEDAR__NOT ? '!' : '-');
        put_operand(p, e->child[0], depth);
        return;
    case BW_CEDAR__IS_EMPTY:
        put_method(p, e, "isEmpty", depth);
        return;
    case BW_CEDAR__CONTAINS:
        put_method(p, e, "contains", depth);
        return;
    case BW_CEDAR__CONTAINS_ALL:
        put_method(p, e, "containsAll", depth);
        return;
    case BW_CEDAR__CONTAINS_ANY:
        put_method(p, e, "containsAny", depth);
        return;
    case BW_CEDAR__HAS_TAG:
        put_method(p, e, "hasTag", depth);
        return;
    case BW_CEDAR__GET_TAG:
        put_method(p, e, "getTag", depth);
        return;
    case BW_CEDAR__GET:
    case BW_CEDAR__HAS:
        put_names(p, e, depth);
        return;
    case BW_CEDAR__LIKE:
        put_like(p, e, depth);
        return;
    case BW_CEDAR__IS:
        put_is(p, e, depth);
        return;
    case BW_CEDAR__SET_OF:
        put_list(p, e, 0, '[', ']', depth);
        return;
    case BW_CEDAR__RECORD_OF:
        put_list(p, e, 0, '{', '}', depth);
        return;
    case BW_CEDAR__CALL:
        put_call(p, e, depth);
        return;
    case BW_CEDAR__ERROR:
        bw_buf_puts(p->out, "error");
        return;
    default:
        put_two(p, e, depth);
    }
}

void bw_cedar__expr_put(bw_buf *out, const bw_cedar__expr *e)
{
    printer p = {out, out->len + EXPR_MAX};
    put_expr(&p, e, 0);
}

/* ---- findings ---- */
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
            bw_cedar__expr_put(out, va_arg(args, const bw_cedar__expr *));
            break;
        case 't':
            bw_cedar__type_put(out, va_arg(args, const bw_cedar__type *));
            break;
        case 'n':
            bw_cedar__string_put(out, va_arg(args, bw_str));
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

/* Where it is in the set's text; a policy that came as JSON has no place in it. */
static bool place(const bw_cedar__checker *c, const bw_cedar__expr *source, size_t *out)
{
    const bw_str text = c->set->text;
    uintptr_t at = (uintptr_t)c->policy->text.ptr, from = (uintptr_t)text.ptr;
    if (at < from || at >= from + text.len)
        return false;
    *out = source ? source->offset : at - from;
    for (; source && source->n > 0; source = source->child[0]) /* left of the operator */
        if (source->child[0]->offset < *out)
            *out = source->child[0]->offset;
    return true;
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
    void *grown =
        bw_arena_grow(c->ctx, c->findings, n * sizeof *c->findings,
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
        bw_cedar__line_column(c->set->text, f.offset, &f.line, &f.column);
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
        bw_cedar__string_put(&b, f->action.id);
        bw_buf_puts(&b, ", ");
        bw_buf_str(&b, f->resource);
        bw_buf_putc(&b, ')');
    }
    const char *text = b.failed ? NULL : bw_arena_cstr(ctx, bw_buf_view(&b));
    bw_buf_clear(&b);
    return text;
}
