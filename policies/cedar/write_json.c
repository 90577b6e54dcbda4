/* A policy set as JSON: language description, section 9, exact. The tree keeps what was
 * written, so little is decided here: `has` with a path is spelled out as the `&&` that
 * it means, and a pattern gets one Literal a character. Reading the result again gives
 * the same set and the same JSON, as long as it nests within what the JSON reader takes
 * (BW_JSON_CEDAR). */
#include "ast.h"
#include "trace.h"

typedef struct writer {
    bw_buf *b;
    size_t end; /* of the buffer; nothing is begun behind it */
} writer;

static bool full(const writer *w)
{
    return w->b->failed || w->b->len > w->end;
}

static void puts_(writer *w, const char *s)
{
    bw_buf_puts(w->b, s);
}

/* ---- expressions ---- */

/* `,"attr":` of the access to name k. */
static void put_attr(writer *w, const bw_cedar__expr *e, uint32_t k)
{
    puts_(w, ",\"attr\":");
    bw_json_put_str(w->b, e->u.names[k]);
    puts_(w, "}}");
}

/* x has a.b.c: (x has a && x.a has b) && x.a.b has c. The left side comes once for each
 * name, which may multiply: the limit on bytes ends that. */
static const bw_cedar__expr *step_has(writer *w, const bw_cedar__expr *e, uint32_t i)
{
    for (uint32_t k = 1; i == 0 && k < e->nnames && !full(w); k++)
        puts_(w, "{\"&&\":{\"left\":");
    for (uint32_t k = 0; k < i && !full(w); k++)
        put_attr(w, e, k);
    puts_(w, i > 1 ? "}}" : "");
    if (i == e->nnames)
        return NULL;
    puts_(w, i > 0 ? ",\"right\":" : "");
    puts_(w, "{\"has\":{\"left\":");
    for (uint32_t k = 0; k < i && !full(w); k++)
        puts_(w, "{\".\":{\"left\":");
    return e->child[0];
}

static void put_pattern(writer *w, const bw_cedar__pattern *p)
{
    puts_(w, ",\"pattern\":[");
    for (uint32_t i = 0; i < p->n && !full(w); i++) {
        bw_json_sep(w->b);
        puts_(w, i ? "\"Wildcard\"" : "");
        bw_str run = p->runs[i];
        for (size_t at = 0, next; at < run.len && !full(w); at = next) {
            for (next = at + 1;
                 next < run.len && ((unsigned char)run.ptr[next] & 0xC0) == 0x80;)
                next++;
            bw_json_sep(w->b);
            puts_(w, "{\"Literal\":");
            bw_json_put_str(w->b, (bw_str){run.ptr + at, next - at});
            puts_(w, "}");
        }
    }
    puts_(w, "]}}");
}

/* A set, record or call. */
static const bw_cedar__expr *step_list(writer *w, const bw_cedar__expr *e, uint32_t i)
{
    bool record = e->op == BW_CEDAR__RECORD_OF;
    bw_str name = e->op == BW_CEDAR__CALL ? bw_cedar__fn_name(e->which)
                  : record                ? BW_STR("Record")
                                          : BW_STR("Set");
    if (i == 0) {
        puts_(w, "{");
        bw_json_put_str(w->b, name);
        puts_(w, record ? ":{" : ":[");
    }
    if (i == e->n) {
        puts_(w, record ? "}}" : "]}");
        return NULL;
    }
    puts_(w, i ? "," : "");
    if (record) {
        bw_json_put_str(w->b, e->u.names[i]);
        puts_(w, ":");
    }
    return e->child[i];
}

/* {"is": {"left", "entity_type", "in"?}} and {"like": {"left", "pattern"}} */
static const bw_cedar__expr *step_test(writer *w, const bw_cedar__expr *e, uint32_t i)
{
    if (i == 0) {
        puts_(w, e->op == BW_CEDAR__IS ? "{\"is\":{\"left\":" : "{\"like\":{\"left\":");
        return e->child[0];
    }
    if (e->op == BW_CEDAR__LIKE) {
        put_pattern(w, &e->u.pattern);
        return NULL;
    }
    if (i == 1) {
        puts_(w, ",\"entity_type\":");
        bw_json_put_str(w->b, e->u.names[0]);
        puts_(w, e->n == 2 ? ",\"in\":" : "");
    }
    puts_(w, i == e->n ? "}}" : "");
    return i < e->n ? e->child[i] : NULL;
}

/* {"NAME": {KEYS[0]: …, KEYS[1]: …}} */
static const bw_cedar__expr *step_keys(writer *w, const bw_cedar__expr *e, uint32_t i,
                                       const char *name, const char *const *keys)
{
    if (i == 0)
        bw_buf_printf(w->b, "{\"%s\":{", name);
    if (i == e->n) {
        puts_(w, "}}");
        return NULL;
    }
    bw_json_put_key(w->b, keys[i]);
    return e->child[i];
}

static const bw_cedar__expr *step(void *user, const bw_cedar__expr *e, uint32_t i,
                                  uint8_t *note)
{
    (void)note;
    static const char *const branches[] = {"if", "then", "else"},
                             *const arg[] = {"arg"}, *const sides[] = {"left", "right"};
    writer *w = user;
    if (full(w))
        return NULL;
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__VALUE:
        puts_(w, "{\"Value\":");
        bw_cedar_value_json(w->b, &e->u.value);
        puts_(w, "}");
        return NULL;
    case BW_CEDAR__VAR:
        bw_buf_printf(w->b, "{\"Var\":\"%s\"}", bw_cedar__vars[e->which]);
        return NULL;
    case BW_CEDAR__ERROR: /* came as a function that does not exist */
        puts_(w, "{\"Value\":{\"__extn\":{\"fn\":\"error\",\"args\":[]}}}");
        return NULL;
    case BW_CEDAR__IF:
        return step_keys(w, e, i, "if-then-else", branches);
    case BW_CEDAR__GET:
        if (i == 0)
            puts_(w, "{\".\":{\"left\":");
        else
            put_attr(w, e, 0);
        return i == 0 ? e->child[0] : NULL;
    case BW_CEDAR__HAS:
        return step_has(w, e, i);
    case BW_CEDAR__LIKE:
    case BW_CEDAR__IS:
        return step_test(w, e, i);
    case BW_CEDAR__SET_OF:
    case BW_CEDAR__RECORD_OF:
    case BW_CEDAR__CALL:
        return step_list(w, e, i);
    default:
        assert(e->op < sizeof bw_cedar__operators / sizeof *bw_cedar__operators);
        return step_keys(w, e, i, bw_cedar__operators[e->op].name,
                         e->n == 1 ? arg : sides);
    }
}

/* ---- policies ---- */
static void put_uid(writer *w, const bw_cedar__uid *uid)
{
    puts_(w, "{\"type\":");
    bw_json_put_str(w->b, uid->type);
    puts_(w, ",\"id\":");
    bw_json_put_str(w->b, uid->id);
    puts_(w, "}");
}

static void put_scope(writer *w, int var, const bw_cedar__scope *s)
{
    static const char *const ops[] = {
        [BW_CEDAR__SCOPE_ALL] = "All", [BW_CEDAR__SCOPE_EQ] = "==",
        [BW_CEDAR__SCOPE_IN] = "in",   [BW_CEDAR__SCOPE_IN_LIST] = "in",
        [BW_CEDAR__SCOPE_IS] = "is",   [BW_CEDAR__SCOPE_IS_IN] = "is"};
    bool nested = s->op == BW_CEDAR__SCOPE_IS_IN;
    bw_buf_printf(w->b, ",\"%s\":{\"op\":\"%s\"", bw_cedar__vars[var], ops[s->op]);
    if (s->type.len) {
        puts_(w, ",\"entity_type\":");
        bw_json_put_str(w->b, s->type);
    }
    puts_(w, nested ? ",\"in\":{" : "");
    if (s->op == BW_CEDAR__SCOPE_IN_LIST) {
        puts_(w, ",\"entities\":[");
        for (uint32_t i = 0; i < s->n; i++) {
            bw_json_sep(w->b);
            put_uid(w, &s->uids[i]);
        }
        puts_(w, "]");
    } else if (s->slot) {
        bw_json_put_key(w->b, "slot");
        bw_buf_printf(w->b, "\"?%s\"", bw_cedar__vars[var]);
    } else if (s->n) {
        bw_json_put_key(w->b, "entity");
        put_uid(w, s->uids);
    }
    puts_(w, nested ? "}}" : "}");
}

static bool put_policy(writer *w, const bw_cedar__policy *p)
{
    bool memory = true;
    bw_json_sep(w->b);
    bw_json_put_str(w->b, p->id);
    bw_buf_printf(w->b, ":{\"effect\":\"%s\"", p->forbid ? "forbid" : "permit");
    for (int var = 0; var < 3; var++)
        put_scope(w, var, &p->scope[var]);
    puts_(w, ",\"conditions\":[");
    for (uint32_t i = 0; i < p->nclauses && memory; i++) {
        bw_json_sep(w->b);
        bw_buf_printf(w->b, "{\"kind\":\"%s\",\"body\":",
                      p->clauses[i].unless ? "unless" : "when");
        memory = bw_cedar__in_order(p->clauses[i].body, step, w);
        puts_(w, "}");
    }
    puts_(w, "]");
    if (p->nannotations)
        puts_(w, ",\"annotations\":{");
    for (uint32_t i = 0; i < p->nannotations; i++) {
        bw_json_sep(w->b);
        bw_json_put_str(w->b, p->annotations[i].key);
        puts_(w, ":");
        if (p->annotations[i].has_value)
            bw_json_put_str(w->b, p->annotations[i].value);
        else
            puts_(w, "null");
    }
    puts_(w, p->nannotations ? "}}" : "}");
    return memory;
}

static void put_link(writer *w, const bw_cedar__policy *template,
                     const bw_cedar__policy *link)
{
    bw_json_sep(w->b);
    puts_(w, "{\"templateId\":");
    bw_json_put_str(w->b, template->id);
    puts_(w, ",\"newId\":");
    bw_json_put_str(w->b, link->id);
    puts_(w, ",\"values\":{");
    for (int var = 0; var < 3; var++)
        if (template->scope[var].slot) {
            bw_json_sep(w->b);
            bw_buf_printf(w->b, "\"?%s\":", bw_cedar__vars[var]);
            put_uid(w, link->scope[var].uids);
        }
    puts_(w, "}}");
}

bw_status bw_cedar_policies_write_json(bw_ctx *ctx, const bw_cedar_policies *p,
                                       bw_buf *out)
{
    const size_t start = out->len;
    writer w = {out, start + BW_CEDAR_TEXT_MAX};
    bool memory = true;
    for (int templates = 0; templates < 2; templates++) {
        puts_(&w, templates ? "},\"templates\":{" : "{\"staticPolicies\":{");
        for (uint32_t i = 0; i < p->n && memory && !full(&w); i++)
            if (p->policies[i].is_template == templates && !p->policies[i].link_of)
                memory = put_policy(&w, &p->policies[i]);
    }
    puts_(&w, "},\"templateLinks\":[");
    for (uint32_t i = 0; i < p->n && !full(&w); i++)
        if (p->policies[i].link_of)
            put_link(&w, &p->policies[p->policies[i].link_of - 1], &p->policies[i]);
    puts_(&w, "]}");
    if (memory && !full(&w))
        return BW_OK;
    memory = memory && !out->failed;
    out->len = start;
    return memory ? bw_fail(ctx, BW_EINVALID, "the JSON form is larger than %d bytes",
                            BW_CEDAR_TEXT_MAX)
                  : bw_fail_nomem(ctx);
}
