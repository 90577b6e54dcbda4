/* Expressions and values as Cedar text (trace_text.h). Not the formatter: what is too
 * long or too deep for one line of an explanation ends in "...". */
#include "trace_text.h"

#include <stdarg.h>
#include <stdio.h>

enum { NEST_MAX = 40 };

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

typedef struct writer {
    bw_buf *b;
    size_t end; /* of the buffer; nothing is written behind it */
    bool full;
    bw_cedar_show show;
    void *user;
} writer;

static void put(writer *w, bw_str s)
{
    if (w->full)
        return;
    if (s.len > w->end - w->b->len) {
        w->full = true;
        s.len = w->end > w->b->len ? w->end - w->b->len : 0;
        while (s.len > 0 && ((unsigned char)s.ptr[s.len] & 0xC0) == 0x80)
            s.len--; /* no half of a character */
    }
    bw_buf_str(w->b, s);
    if (w->full)
        bw_buf_puts(w->b, "...");
}

static void puts_(writer *w, const char *s)
{
    put(w, bw_str_c(s));
}

static void put_printf(writer *w, const char *fmt, ...) BW_PRINTF(2, 3);
static void put_printf(writer *w, const char *fmt, ...)
{
    char text[64];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    puts_(w, text);
}

/* What stands between the quotes of a string, or of a pattern, where '*' is escaped. */
static void put_escaped(writer *w, bw_str s, bool pattern)
{
    for (size_t i = 0; i < s.len && !w->full;) {
        size_t n = i;
        while (n < s.len && (unsigned char)s.ptr[n] >= ' ' && s.ptr[n] != '"' &&
               s.ptr[n] != '\\' && s.ptr[n] != 0x7f && !(pattern && s.ptr[n] == '*'))
            n++;
        put(w, (bw_str){s.ptr + i, n - i});
        if (n < s.len && (s.ptr[n] == '"' || s.ptr[n] == '\\' || s.ptr[n] == '*'))
            put_printf(w, "\\%c", s.ptr[n]);
        else if (n < s.len)
            put_printf(w, "\\u{%x}", (unsigned char)s.ptr[n]);
        i = n + (n < s.len);
    }
}

static void put_quoted(writer *w, bw_str s)
{
    puts_(w, "\"");
    put_escaped(w, s, false);
    puts_(w, "\"");
}

static void put_ip(writer *w, const bw_cedar__ip *ip)
{
    puts_(w, "\"");
    for (int i = 0; i < (ip->v6 ? 16 : 4); i++) {
        if (i && (!ip->v6 || i % 2 == 0))
            puts_(w, ip->v6 ? ":" : ".");
        if (ip->v6)
            put_printf(w, "%02x", ip->addr[i]);
        else
            put_printf(w, "%u", ip->addr[i]);
    }
    put_printf(w, "/%u\"", ip->prefix);
}

static void put_decimal(writer *w, int64_t v)
{
    unsigned long long n = v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v;
    put_printf(w, "\"%s%llu.%04llu\"", v < 0 ? "-" : "", n / 10000, n % 10000);
}

/* Beyond the years that our own clock writes (1678 to 2262) only "...". */
static void put_datetime(writer *w, int64_t ms)
{
    char text[40];
    if (ms / 86400000 > 106751 || ms / 86400000 < -106751) {
        puts_(w, "\"...\"");
        return;
    }
    int64_t s = ms / 1000 - (ms % 1000 < 0);
    bw_time_format(s * 1000000000, text);
    text[strlen(text) - 1] = 0; /* Cedar wants three digits or none */
    put_printf(w, "\"%s.%03dZ\"", text, (int)(ms - s * 1000));
}

static void put_value(writer *w, const bw_cedar_value *v, int nest);

static void put_items(writer *w, const bw_cedar_value *v, int nest)
{
    puts_(w, v->kind == BW_CEDAR__SET ? "[" : "{");
    for (uint32_t i = 0, put_any = 0; i < v->n && !w->full; i++) {
        if (v->kind == BW_CEDAR__SET && w->show && !w->show(&v->u.items[i], w->user))
            continue; /* not even that it is there */
        puts_(w, put_any++ ? ", " : "");
        if (v->kind == BW_CEDAR__RECORD) {
            put_quoted(w, v->u.members[i].key);
            puts_(w, ": ");
        }
        put_value(w, v->kind == BW_CEDAR__SET ? &v->u.items[i] : &v->u.members[i].value,
                  nest + 1);
    }
    puts_(w, v->kind == BW_CEDAR__SET ? "]" : "}");
}

static void put_value(writer *w, const bw_cedar_value *v, int nest)
{
    bool shown = !w->show || w->show(v, w->user);
    switch ((bw_cedar__kind)v->kind) {
    case BW_CEDAR__BOOL:
        puts_(w, v->u.boolean ? "true" : "false");
        return;
    case BW_CEDAR__LONG:
        put_printf(w, "%lld", (long long)v->u.integer);
        return;
    case BW_CEDAR__STRING:
        put_quoted(w, shown ? bw_cedar__text(v) : BW_STR("..."));
        return;
    case BW_CEDAR__ENTITY:
        put(w, v->u.uid->type);
        puts_(w, "::");
        put_quoted(w, shown ? v->u.uid->id : BW_STR("..."));
        return;
    case BW_CEDAR__SET:
    case BW_CEDAR__RECORD:
        if (nest < NEST_MAX)
            put_items(w, v, nest);
        else
            puts_(w, "...");
        return;
    case BW_CEDAR__DECIMAL:
        puts_(w, "decimal(");
        put_decimal(w, v->u.integer);
        puts_(w, ")");
        return;
    case BW_CEDAR__DATETIME:
        puts_(w, "datetime(");
        put_datetime(w, v->u.integer);
        puts_(w, ")");
        return;
    case BW_CEDAR__DURATION:
        put_printf(w, "duration(\"%lldms\")", (long long)v->u.integer);
        return;
    case BW_CEDAR__IP:
        puts_(w, "ip(");
        put_ip(w, v->u.ip);
        puts_(w, ")");
        return;
    }
}

/* ---- expressions ---- */

static const struct {
    const char *word;
    uint8_t level; /* L_MEMBER: a method */
} binary[] = {
    [BW_CEDAR__AND] = {"&&", L_AND},
    [BW_CEDAR__OR] = {"||", L_OR},
    [BW_CEDAR__EQ] = {"==", L_TEST},
    [BW_CEDAR__NE] = {"!=", L_TEST},
    [BW_CEDAR__LT] = {"<", L_TEST},
    [BW_CEDAR__LE] = {"<=", L_TEST},
    [BW_CEDAR__GT] = {">", L_TEST},
    [BW_CEDAR__GE] = {">=", L_TEST},
    [BW_CEDAR__IN] = {"in", L_TEST},
    [BW_CEDAR__ADD] = {"+", L_SUM},
    [BW_CEDAR__SUB] = {"-", L_SUM},
    [BW_CEDAR__MUL] = {"*", L_PRODUCT},
    [BW_CEDAR__CONTAINS] = {"contains", L_MEMBER},
    [BW_CEDAR__CONTAINS_ALL] = {"containsAll", L_MEMBER},
    [BW_CEDAR__CONTAINS_ANY] = {"containsAny", L_MEMBER},
    [BW_CEDAR__HAS_TAG] = {"hasTag", L_MEMBER},
    [BW_CEDAR__GET_TAG] = {"getTag", L_MEMBER},
};

static void put_expr(writer *w, const bw_cedar__expr *e, int level, int nest);

static void put_list(writer *w, const bw_cedar__expr *e, uint32_t from, int nest)
{
    for (uint32_t i = from; i < e->n && !w->full; i++) {
        puts_(w, i > from ? ", " : "");
        if (e->op == BW_CEDAR__RECORD_OF) {
            put_quoted(w, e->u.names[i]);
            puts_(w, ": ");
        }
        put_expr(w, e->child[i], L_IF, nest);
    }
}

static void put_name(writer *w, bw_str name) /* behind an expression */
{
    bool plain = bw_cedar__is_ident(name) && !bw_cedar__is_reserved(name);
    puts_(w, plain ? "." : "[");
    if (plain)
        put(w, name);
    else
        put_quoted(w, name);
    puts_(w, plain ? "" : "]");
}

static void put_pattern(writer *w, const bw_cedar__pattern *p)
{
    puts_(w, " like \"");
    for (uint32_t i = 0; i < p->n; i++) {
        puts_(w, i ? "*" : "");
        put_escaped(w, p->runs[i], true);
    }
    puts_(w, "\"");
}

static void put_call(writer *w, const bw_cedar__expr *e, int nest)
{
    bool method = !bw_cedar__fn_constructor(e->which);
    if (method) {
        put_expr(w, e->child[0], L_MEMBER, nest);
        puts_(w, ".");
    }
    put(w, bw_cedar__fn_name(e->which));
    puts_(w, "(");
    put_list(w, e, method ? 1 : 0, nest);
    puts_(w, ")");
}

static void put_binary(writer *w, const bw_cedar__expr *e, int nest)
{
    int level = binary[e->op].level, step = level == L_TEST;
    put_expr(w, e->child[0], level + step, nest);
    puts_(w, level == L_MEMBER ? "." : " ");
    puts_(w, binary[e->op].word);
    puts_(w, level == L_MEMBER ? "(" : " ");
    put_expr(w, e->child[1], level == L_MEMBER ? L_IF : level + 1, nest);
    puts_(w, level == L_MEMBER ? ")" : "");
}

static int level_of(const bw_cedar__expr *e)
{
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__IF:
        return L_IF;
    case BW_CEDAR__NOT:
    case BW_CEDAR__NEG:
        return L_UNARY;
    case BW_CEDAR__HAS:
    case BW_CEDAR__LIKE:
    case BW_CEDAR__IS:
        return L_TEST;
    default:
        return e->op < sizeof binary / sizeof *binary && binary[e->op].word
                   ? binary[e->op].level
                   : L_MEMBER;
    }
}

static void put_test(writer *w, const bw_cedar__expr *e, int nest)
{
    put_expr(w, e->child[0], L_SUM, nest);
    if (e->op == BW_CEDAR__LIKE) {
        put_pattern(w, &e->u.pattern);
        return;
    }
    puts_(w, e->op == BW_CEDAR__IS ? " is " : " has ");
    for (uint32_t i = 0; i < e->nnames; i++) {
        puts_(w, i ? "." : "");
        if (e->op == BW_CEDAR__IS || bw_cedar__is_ident(e->u.names[i]))
            put(w, e->u.names[i]);
        else
            put_quoted(w, e->u.names[i]);
    }
    if (e->op == BW_CEDAR__IS && e->n == 2) {
        puts_(w, " in ");
        put_expr(w, e->child[1], L_SUM, nest);
    }
}

static void put_node(writer *w, const bw_cedar__expr *e, int nest)
{
    static const char *const vars[] = {"principal", "action", "resource", "context"};
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__VALUE:
        put_value(w, &e->u.value, 0);
        return;
    case BW_CEDAR__VAR:
    case BW_CEDAR__SLOT:
        puts_(w, e->op == BW_CEDAR__SLOT ? "?" : "");
        puts_(w, vars[e->which]);
        return;
    case BW_CEDAR__IF:
        puts_(w, "if ");
        put_expr(w, e->child[0], L_OR, nest);
        puts_(w, " then ");
        put_expr(w, e->child[1], L_OR, nest);
        puts_(w, " else ");
        put_expr(w, e->child[2], L_IF, nest);
        return;
    case BW_CEDAR__NOT:
    case BW_CEDAR__NEG:
        puts_(w, e->op == BW_CEDAR__NOT ? "!" : "-");
        put_expr(w, e->child[0], L_UNARY, nest);
        return;
    case BW_CEDAR__HAS:
    case BW_CEDAR__LIKE:
    case BW_CEDAR__IS:
        put_test(w, e, nest);
        return;
    case BW_CEDAR__GET:
    case BW_CEDAR__IS_EMPTY:
        put_expr(w, e->child[0], L_MEMBER, nest);
        if (e->op == BW_CEDAR__GET)
            put_name(w, e->u.names[0]);
        else
            puts_(w, ".isEmpty()");
        return;
    case BW_CEDAR__SET_OF:
    case BW_CEDAR__RECORD_OF:
        puts_(w, e->op == BW_CEDAR__SET_OF ? "[" : "{");
        put_list(w, e, 0, nest);
        puts_(w, e->op == BW_CEDAR__SET_OF ? "]" : "}");
        return;
    case BW_CEDAR__CALL:
        put_call(w, e, nest);
        return;
    case BW_CEDAR__ERROR:
        puts_(w, "error()");
        return;
    default:
        put_binary(w, e, nest);
    }
}

static void put_expr(writer *w, const bw_cedar__expr *e, int level, int nest)
{
    if (w->full)
        return;
    if (nest > NEST_MAX) {
        puts_(w, "...");
        return;
    }
    bool parens = level_of(e) < level;
    puts_(w, parens ? "(" : "");
    put_node(w, e, nest + 1);
    puts_(w, parens ? ")" : "");
}

void bw_cedar__put_expr(bw_buf *b, const bw_cedar__expr *e, size_t most,
                        bw_cedar_show show, void *user)
{
    writer w = {.b = b, .end = b->len + most, .show = show, .user = user};
    put_expr(&w, e, L_IF, 0);
}

void bw_cedar__put_string(bw_buf *b, bw_str s, size_t most)
{
    writer w = {.b = b, .end = b->len + most};
    put_quoted(&w, s);
}

void bw_cedar_part_text(bw_buf *b, const bw_cedar_part *part, bw_cedar_show show,
                        void *user)
{
    bw_cedar__put_expr(b, part->expr, BW_CEDAR_PART_TEXT_MAX, show, user);
}

void bw_cedar_value_text(bw_buf *b, const bw_cedar_value *v, bw_cedar_show show,
                         void *user)
{
    writer w = {
        .b = b, .end = b->len + BW_CEDAR_PART_TEXT_MAX, .show = show, .user = user};
    put_value(&w, v, 0);
}

/* Recursion follows the nesting of values, which is bounded (value.h). */
void bw_cedar_value_json(bw_buf *b, const bw_cedar_value *v)
{
    writer w = {.b = b, .end = SIZE_MAX};
    switch ((bw_cedar__kind)v->kind) {
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
        bw_buf_puts(b, "{\"__extn\":{\"fn\":\"decimal\",\"arg\":");
        put_decimal(&w, v->u.integer);
        bw_buf_puts(b, "}}");
        return;
    case BW_CEDAR__DATETIME:
        bw_buf_puts(b, "{\"__extn\":{\"fn\":\"datetime\",\"arg\":");
        put_datetime(&w, v->u.integer);
        bw_buf_puts(b, "}}");
        return;
    case BW_CEDAR__DURATION:
        bw_buf_printf(b, "{\"__extn\":{\"fn\":\"duration\",\"arg\":\"%lldms\"}}",
                      (long long)v->u.integer);
        return;
    case BW_CEDAR__IP:
        bw_buf_puts(b, "{\"__extn\":{\"fn\":\"ip\",\"arg\":");
        put_ip(&w, v->u.ip);
        bw_buf_puts(b, "}}");
        return;
    default:
        put_value(&w, v, 0); /* truth values and numbers look alike in both */
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
