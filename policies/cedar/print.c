/* The printer (print.h). Precedence as in the grammar (language description, section
 * 2): an operand that binds less tightly than its place asks for gets parentheses. */
#include "print.h"

#include <stdarg.h>
#include <stdio.h>

enum { VALUE_NEST_MAX = 40, RUN_MAX = 4 /* the grammar's: `!!!!x` */ };

typedef bw_cedar__printer printer;
typedef const bw_cedar__expr *expr_ptr;

enum level { /* how tightly an expression binds */
             L_IF,
             L_OR,
             L_AND,
             L_TEST,
             L_SUM,
             L_PRODUCT,
             L_UNARY,
             L_MEMBER
};

/* ---- text ---- */
void bw_cedar__print_str(printer *p, bw_str s)
{
    if (p->full)
        return;
    if (s.len > p->end - p->b->len) {
        p->full = true;
        s.len = p->end > p->b->len ? p->end - p->b->len : 0;
        while (s.len > 0 && ((unsigned char)s.ptr[s.len] & 0xC0) == 0x80)
            s.len--; /* no half of a character */
    }
    bw_buf_str(p->b, s);
    if (p->full)
        bw_buf_puts(p->b, "...");
}

static void put(printer *p, const char *s)
{
    bw_cedar__print_str(p, bw_str_c(s));
}

static void put_printf(printer *p, const char *fmt, ...) BW_PRINTF(2, 3);
static void put_printf(printer *p, const char *fmt, ...)
{
    char text[64];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put(p, text);
}

/* Inside quotes; star: how the character * is written. */
static void put_escaped(printer *p, bw_str s, const char *star)
{
    for (size_t i = 0; i < s.len && !p->full;) {
        size_t n = i;
        while (n < s.len && (unsigned char)s.ptr[n] >= ' ' && s.ptr[n] != '"' &&
               s.ptr[n] != '\\' && s.ptr[n] != '*' && s.ptr[n] != 0x7f)
            n++;
        bw_cedar__print_str(p, (bw_str){s.ptr + i, n - i});
        if (n < s.len && s.ptr[n] == '*')
            put(p, star);
        else if (n < s.len && (s.ptr[n] == '"' || s.ptr[n] == '\\'))
            put_printf(p, "\\%c", s.ptr[n]);
        else if (n < s.len && (s.ptr[n] == '\n' || s.ptr[n] == '\t'))
            put(p, s.ptr[n] == '\n' ? "\\n" : "\\t");
        else if (n < s.len)
            put_printf(p, "\\u{%x}", (unsigned char)s.ptr[n]);
        i = n + (n < s.len);
    }
}

void bw_cedar__print_quoted(printer *p, bw_str s)
{
    put(p, "\"");
    put_escaped(p, s, "*");
    put(p, "\"");
}

static bool plain(bw_str name)
{
    return bw_cedar__is_ident(name) && !bw_cedar__is_reserved(name);
}

static void put_key(printer *p, bw_str name)
{
    if (plain(name))
        bw_cedar__print_str(p, name);
    else
        bw_cedar__print_quoted(p, name);
}

/* ---- values ---- */
static void put_ip(printer *p, const bw_cedar__ip *ip)
{
    for (int i = 0; i < (ip->v6 ? 16 : 4); i++) {
        if (i && (!ip->v6 || i % 2 == 0))
            put(p, ip->v6 ? ":" : ".");
        if (ip->v6)
            put_printf(p, "%02x", ip->addr[i]);
        else
            put_printf(p, "%u", ip->addr[i]);
    }
    put_printf(p, "/%u", ip->prefix);
}

/* Beyond the years that our own clock writes (1678 to 2262) only "...". */
static void put_datetime(printer *p, int64_t ms)
{
    char text[40];
    if (ms / 86400000 > 106751 || ms / 86400000 < -106751) {
        put(p, "...");
        return;
    }
    int64_t s = ms / 1000 - (ms % 1000 < 0);
    bw_time_format(s * 1000000000, text);
    text[strlen(text) - 1] = 0; /* Cedar wants three digits or none */
    put_printf(p, "%s.%03dZ", text, (int)(ms - s * 1000));
}

bw_cedar__fn bw_cedar__constructor(const bw_cedar_value *v)
{
    return v->kind == BW_CEDAR__DECIMAL    ? BW_CEDAR__FN_DECIMAL
           : v->kind == BW_CEDAR__DATETIME ? BW_CEDAR__FN_DATETIME
           : v->kind == BW_CEDAR__DURATION ? BW_CEDAR__FN_DURATION
                                           : BW_CEDAR__FN_IP;
}

void bw_cedar__print_argument(printer *p, const bw_cedar_value *v)
{
    int64_t i = v->u.integer;
    unsigned long long n = i < 0 ? 0 - (unsigned long long)i : (unsigned long long)i;
    put(p, "\"");
    if (v->kind == BW_CEDAR__DECIMAL)
        put_printf(p, "%s%llu.%04llu", i < 0 ? "-" : "", n / 10000, n % 10000);
    else if (v->kind == BW_CEDAR__DATETIME)
        put_datetime(p, i);
    else if (v->kind == BW_CEDAR__DURATION)
        put_printf(p, "%lldms", (long long)i);
    else
        put_ip(p, v->u.ip);
    put(p, "\"");
}

void bw_cedar__print_uid(printer *p, const bw_cedar__uid *uid)
{
    bw_cedar__print_str(p, uid->type);
    put(p, "::");
    bw_cedar__print_quoted(p, uid->id);
}

static void put_value(printer *p, const bw_cedar_value *v, int nest);

static void put_items(printer *p, const bw_cedar_value *v, int nest)
{
    put(p, v->kind == BW_CEDAR__SET ? "[" : "{");
    for (uint32_t i = 0, any = 0; i < v->n && !p->full; i++) {
        if (v->kind == BW_CEDAR__SET && p->show && !p->show(&v->u.items[i], p->user))
            continue; /* not even that it is there */
        put(p, any++ ? ", " : "");
        if (v->kind == BW_CEDAR__RECORD) {
            put_key(p, v->u.members[i].key);
            put(p, ": ");
        }
        put_value(p, v->kind == BW_CEDAR__SET ? &v->u.items[i] : &v->u.members[i].value,
                  nest + 1);
    }
    put(p, v->kind == BW_CEDAR__SET ? "]" : "}");
}

static void put_value(printer *p, const bw_cedar_value *v, int nest)
{
    bool shown = !p->show || p->show(v, p->user);
    switch ((bw_cedar__kind)v->kind) {
    case BW_CEDAR__BOOL:
        put(p, v->u.boolean ? "true" : "false");
        return;
    case BW_CEDAR__LONG:
        put_printf(p, "%lld", (long long)v->u.integer);
        return;
    case BW_CEDAR__STRING:
        bw_cedar__print_quoted(p, shown ? bw_cedar__text(v) : BW_STR("..."));
        return;
    case BW_CEDAR__ENTITY:
        bw_cedar__print_str(p, v->u.uid->type);
        put(p, "::");
        bw_cedar__print_quoted(p, shown ? v->u.uid->id : BW_STR("..."));
        return;
    case BW_CEDAR__SET:
    case BW_CEDAR__RECORD:
        if (nest < VALUE_NEST_MAX)
            put_items(p, v, nest);
        else
            put(p, "...");
        return;
    case BW_CEDAR__DECIMAL:
    case BW_CEDAR__DATETIME:
    case BW_CEDAR__DURATION:
    case BW_CEDAR__IP:
        bw_cedar__print_str(p, bw_cedar__fn_name(bw_cedar__constructor(v)));
        put(p, "(");
        bw_cedar__print_argument(p, v);
        put(p, ")");
        return;
    }
}

void bw_cedar__print_value(printer *p, const bw_cedar_value *v)
{
    put_value(p, v, 0);
}

/* ---- expressions ---- */
static int level_of(expr_ptr e)
{
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__IF:
        return L_IF;
    case BW_CEDAR__OR:
        return L_OR;
    case BW_CEDAR__AND:
        return L_AND;
    case BW_CEDAR__EQ:
    case BW_CEDAR__NE:
    case BW_CEDAR__LT:
    case BW_CEDAR__LE:
    case BW_CEDAR__GT:
    case BW_CEDAR__GE:
    case BW_CEDAR__IN:
    case BW_CEDAR__HAS:
    case BW_CEDAR__LIKE:
    case BW_CEDAR__IS:
        return L_TEST;
    case BW_CEDAR__ADD:
    case BW_CEDAR__SUB:
        return L_SUM;
    case BW_CEDAR__MUL:
        return L_PRODUCT;
    case BW_CEDAR__NOT:
    case BW_CEDAR__NEG:
        return L_UNARY;
    case BW_CEDAR__VALUE: /* its minus is one */
        return e->u.value.kind == BW_CEDAR__LONG && e->u.value.u.integer < 0 ? L_UNARY
                                                                             : L_MEMBER;
    default:
        return L_MEMBER;
    }
}

static bool method(expr_ptr e)
{
    return e->op == BW_CEDAR__CALL && !bw_cedar__fn_constructor(e->which);
}

/* Whether child i of e stands in parentheses. */
static bool in_parens(const printer *p, expr_ptr e, uint32_t i)
{
    expr_ptr x = e->child[i];
    int level = level_of(e);
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__IF:
    case BW_CEDAR__SET_OF:
    case BW_CEDAR__RECORD_OF:
        return false;
    case BW_CEDAR__NOT:
    case BW_CEDAR__NEG: /* a minus before a number would become part of it */
        if (x->op == e->op)
            return p->run == RUN_MAX;
        return level_of(x) < L_MEMBER ||
               (e->op == BW_CEDAR__NEG && x->op == BW_CEDAR__VALUE &&
                x->u.value.kind == BW_CEDAR__LONG);
    default:
        if (level == L_MEMBER)
            return (i == 0 && !(e->op == BW_CEDAR__CALL && !method(e))) &&
                   level_of(x) < L_MEMBER;
        return level_of(x) < (level == L_TEST ? L_SUM : level + (i > 0));
    }
}

static void put_names(printer *p, expr_ptr e)
{
    put(p, " has ");
    for (uint32_t i = 0; i < e->nnames && !p->full; i++) {
        put(p, i ? "." : "");
        put_key(p, e->u.names[i]);
        p->untrue |= e->nnames > 1 && !plain(e->u.names[i]);
    }
}

bool bw_cedar__pattern_shown(const bw_cedar__pattern *pattern, bw_cedar_show show,
                             void *user)
{
    bool all = true;
    for (uint32_t i = 0; show && i < pattern->n && all; i++) {
        bw_cedar_value run = bw_cedar__string(pattern->runs[i]);
        all = pattern->runs[i].len == 0 || show(&run, user);
    }
    return all;
}

static void put_pattern(printer *p, const bw_cedar__pattern *pattern)
{
    if (!bw_cedar__pattern_shown(pattern, p->show, p->user)) {
        put(p, " like \"...\"");
        return;
    }
    put(p, " like \"");
    for (uint32_t i = 0; i < pattern->n; i++) {
        put(p, i ? "*" : "");
        put_escaped(p, pattern->runs[i], "\\*");
    }
    put(p, "\"");
}

static void put_get(printer *p, bw_str name)
{
    bool dot = plain(name);
    put(p, dot ? "." : "[");
    put_key(p, name);
    put(p, dot ? "" : "]");
}

static void put_leaf(printer *p, expr_ptr e)
{
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__VALUE:
        put_value(p, &e->u.value, 0);
        return;
    case BW_CEDAR__VAR:
    case BW_CEDAR__SLOT:
        put(p, e->op == BW_CEDAR__SLOT ? "?" : "");
        put(p, bw_cedar__vars[e->which]);
        return;
    case BW_CEDAR__CALL:
        p->untrue |= method(e);
        bw_cedar__print_str(p, bw_cedar__fn_name(e->which));
        put(p, "()");
        return;
    case BW_CEDAR__SET_OF:
    case BW_CEDAR__RECORD_OF:
        put(p, e->op == BW_CEDAR__SET_OF ? "[]" : "{}");
        return;
    default:
        p->untrue = true;
        put(p, "error()");
    }
}

/* What stands between children i - 1 and i of a set, record, call or method, or before
 * the first. */
static void put_between(printer *p, expr_ptr e, uint32_t i, bw_str name)
{
    uint32_t first = method(e) || e->op < BW_CEDAR__GET; /* argument */
    if (i == first && e->op == BW_CEDAR__SET_OF) {
        put(p, "[");
    } else if (i == first && e->op == BW_CEDAR__RECORD_OF) {
        put(p, "{");
    } else if (i == first) {
        put(p, first ? "." : "");
        bw_cedar__print_str(p, name);
        put(p, "(");
    } else if (i > first) {
        put(p, ", ");
    }
    if (e->op == BW_CEDAR__RECORD_OF) {
        put_key(p, e->u.names[i]);
        put(p, ": ");
    }
}

static void put_before(printer *p, expr_ptr e, uint32_t i)
{
    static const char *const branch[] = {"if ", " then ", " else "};
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__IF:
        put(p, branch[i]);
        return;
    case BW_CEDAR__NOT:
    case BW_CEDAR__NEG:
        put(p, e->op == BW_CEDAR__NOT ? "!" : "-");
        return;
    case BW_CEDAR__GET:
    case BW_CEDAR__HAS:
    case BW_CEDAR__LIKE:
        return;
    case BW_CEDAR__IS:
        if (i == 1) {
            put(p, " is ");
            bw_cedar__print_str(p, e->u.names[0]);
            put(p, " in ");
        }
        return;
    case BW_CEDAR__SET_OF:
    case BW_CEDAR__RECORD_OF:
    case BW_CEDAR__CALL:
        put_between(p, e, i, bw_cedar__fn_name(e->which));
        return;
    default:
        if (level_of(e) == L_MEMBER) {
            put_between(p, e, i, bw_str_c(bw_cedar__operators[e->op].name));
        } else if (i == 1) {
            put(p, " ");
            put(p, bw_cedar__operators[e->op].name);
            put(p, " ");
        }
    }
}

static void put_after(printer *p, expr_ptr e)
{
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__GET:
        put_get(p, e->u.names[0]);
        return;
    case BW_CEDAR__HAS:
        put_names(p, e);
        return;
    case BW_CEDAR__LIKE:
        put_pattern(p, &e->u.pattern);
        return;
    case BW_CEDAR__IS:
        put(p, e->n == 1 ? " is " : "");
        bw_cedar__print_str(p, e->n == 1 ? e->u.names[0] : BW_STR(""));
        return;
    case BW_CEDAR__SET_OF:
        put(p, "]");
        return;
    case BW_CEDAR__RECORD_OF:
        put(p, "}");
        return;
    case BW_CEDAR__IS_EMPTY:
        put(p, ".isEmpty()");
        return;
    case BW_CEDAR__CALL: /* a method without arguments has not opened them yet */
        if (method(e) && e->n == 1) {
            put(p, ".");
            bw_cedar__print_str(p, bw_cedar__fn_name(e->which));
            put(p, "(");
        }
        put(p, ")");
        return;
    default:
        if (level_of(e) == L_MEMBER)
            put(p, ")");
    }
}

static expr_ptr step(void *user, expr_ptr e, uint32_t i, uint8_t *parens)
{
    printer *p = user;
    if (p->full || p->b->failed)
        return NULL;
    if (e->n == 0) {
        put_leaf(p, e);
        return NULL;
    }
    if (*parens)
        put(p, ")");
    if (i == e->n) {
        put_after(p, e);
        return NULL;
    }
    put_before(p, e, i);
    bool unary = e->op == BW_CEDAR__NOT || e->op == BW_CEDAR__NEG;
    p->run = unary ? p->run + 1 : 0;
    *parens = in_parens(p, e, i);
    if (*parens || !unary)
        p->run = 0;
    put(p, *parens ? "(" : "");
    return e->child[i];
}

void bw_cedar__print_expr(printer *p, expr_ptr e)
{
    p->run = 0;
    if (!bw_cedar__in_order(e, step, p))
        p->b->failed = true;
}

void bw_cedar__put_expr(bw_buf *b, expr_ptr e, size_t most, bw_cedar_show show,
                        void *user)
{
    printer p = {.b = b, .end = b->len + most, .show = show, .user = user};
    bw_cedar__print_expr(&p, e);
}

void bw_cedar__put_string(bw_buf *b, bw_str s, size_t most)
{
    printer p = {.b = b, .end = b->len + most};
    bw_cedar__print_quoted(&p, s);
}
