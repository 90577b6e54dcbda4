/* A world for residuals: documents whose id is unknown, and residuals as text. */
#ifndef RESIDUAL_FIXTURE_H
#define RESIDUAL_FIXTURE_H
#include "cedar_fixture.h"
#include <policies/cedar/residual.h>

static const char residual_schema[] =
    "entity Group in [Group]; entity Folder in [Folder];"
    "entity User in [Group] = { age: Long, boss?: User } tags String;"
    "entity Doc in [Folder] = { owner: User, size: Long, words: Set<String>, "
    "groups: Set<Group>, cost: decimal, addr: ipaddr, at: datetime, open: Bool, "
    "meta: { pii: Bool, region?: String }, note?: String, info?: { a: Bool } } "
    "tags Long;"
    "entity Kind enum [\"one\", \"two\"];"
    "action view appliesTo { principal: [User, Doc], resource: [Doc, Kind], context: "
    "{ n: Long, s: String, yes: Bool, no: Bool, doc: Doc, who: User, w: Set<String> } "
    "};";
/* Group "top" > "g"; Doc "in" is known; alice is in "g" and has the tag "role". */
static const char residual_entities[] =
    "[{\"uid\":{\"type\":\"User\",\"id\":\"alice\"},\"attrs\":{\"age\":30,\"boss\":{"
    "\"type\":\"User\",\"id\":\"bob\"}},\"parents\":[{\"type\":\"Group\",\"id\":\"g\"}]"
    ",\"tags\":{\"role\":\"editor\"}},"
    "{\"uid\":{\"type\":\"Group\",\"id\":\"g\"},\"attrs\":{},\"parents\":[{\"type\":"
    "\"Group\",\"id\":\"top\"}]},"
    "{\"uid\":{\"type\":\"Folder\",\"id\":\"f\"},\"attrs\":{},\"parents\":[{\"type\":"
    "\"Folder\",\"id\":\"root\"}]}]";
static const char residual_context[] =
    "{\"n\":7,\"s\":\"text\",\"yes\":true,\"no\":false,\"doc\":{\"type\":\"Doc\","
    "\"id\":"
    "\"in\"},\"who\":{\"type\":\"User\",\"id\":\"carol\"},\"w\":[\"x\",\"y\"]}";

static inline int residual_setup(void **state)
{
    world *w = calloc(1, sizeof *w);
    w->ctx = bw_ctx_new(0);
    w->schema = schema_of(w->ctx, residual_schema);
    w->entities = entities_of(w->ctx, w->schema, residual_entities);
    *state = w;
    return 0;
}

static inline bw_cedar_request residual_request(world *w)
{
    return (bw_cedar_request){.principal = uid("User", "alice"),
                              .action = uid("Action", "view"),
                              .resource = uid("Doc", ""),
                              .context = json_of(w->ctx, residual_context)};
}

static inline bw_cedar_residuals *residuals_of(world *w, const bw_cedar_policies *p,
                                               const bw_cedar_request *q, bool conform)
{
    bw_cedar_residuals *r = NULL;
    const bw_cedar_partial_options o = {.resources_conform = conform};
    if (bw_cedar_partial(w->ctx, p, w->entities, w->schema, q, &o, &r) != BW_OK)
        fail_msg("%s", bw_ctx_message(w->ctx));
    return r;
}

/* ---- residuals as text: (op child … name) ---- */
static const char *const op_names[] = {
    [BW_CEDAR__IF] = "if",
    [BW_CEDAR__AND] = "&&",
    [BW_CEDAR__OR] = "||",
    [BW_CEDAR__NOT] = "!",
    [BW_CEDAR__NEG] = "neg",
    [BW_CEDAR__IS_EMPTY] = "isEmpty",
    [BW_CEDAR__EQ] = "==",
    [BW_CEDAR__NE] = "!=",
    [BW_CEDAR__LT] = "<",
    [BW_CEDAR__LE] = "<=",
    [BW_CEDAR__GT] = ">",
    [BW_CEDAR__GE] = ">=",
    [BW_CEDAR__IN] = "in",
    [BW_CEDAR__ADD] = "+",
    [BW_CEDAR__SUB] = "-",
    [BW_CEDAR__MUL] = "*",
    [BW_CEDAR__CONTAINS] = "contains",
    [BW_CEDAR__CONTAINS_ALL] = "containsAll",
    [BW_CEDAR__CONTAINS_ANY] = "containsAny",
    [BW_CEDAR__HAS_TAG] = "hasTag",
    [BW_CEDAR__GET_TAG] = "getTag",
    [BW_CEDAR__GET] = ".",
    [BW_CEDAR__HAS] = "has",
    [BW_CEDAR__LIKE] = "like",
    [BW_CEDAR__IS] = "is",
    [BW_CEDAR__SET_OF] = "set",
    [BW_CEDAR__RECORD_OF] = "record",
};

static inline void put_value(bw_buf *b, const bw_cedar_value *v)
{
    switch ((bw_cedar__kind)v->kind) {
    case BW_CEDAR__BOOL:
        bw_buf_puts(b, v->u.boolean ? "true" : "false");
        return;
    case BW_CEDAR__STRING:
        bw_buf_printf(b, "\"%.*s\"", (int)v->n, v->u.text);
        return;
    case BW_CEDAR__ENTITY:
        bw_buf_printf(b, "%.*s::%.*s", (int)v->u.uid->type.len, v->u.uid->type.ptr,
                      (int)v->u.uid->id.len, v->u.uid->id.ptr);
        return;
    case BW_CEDAR__SET:
        bw_buf_putc(b, '[');
        for (uint32_t i = 0; i < v->n; i++) {
            bw_buf_puts(b, i ? " " : "");
            put_value(b, &v->u.items[i]);
        }
        bw_buf_putc(b, ']');
        return;
    case BW_CEDAR__RECORD:
        bw_buf_printf(b, "{%u}", v->n);
        return;
    case BW_CEDAR__IP:
        bw_buf_puts(b, "ip");
        return;
    default:
        bw_buf_printf(b, "%lld", (long long)v->u.integer);
    }
}

static inline void put_residual(bw_buf *b, const bw_cedar__expr *e)
{
    static const char *const vars[] = {"principal", "action", "resource", "context"};
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__VALUE:
        put_value(b, &e->u.value);
        return;
    case BW_CEDAR__VAR:
        bw_buf_puts(b, vars[e->which]);
        return;
    case BW_CEDAR__ERROR:
        bw_buf_puts(b, "error");
        return;
    case BW_CEDAR__CALL:
        bw_buf_printf(b, "(%.*s", (int)bw_cedar__fn_name(e->which).len,
                      bw_cedar__fn_name(e->which).ptr);
        break;
    default:
        bw_buf_printf(b, "(%s", op_names[e->op]);
    }
    for (uint32_t i = 0; i < e->n; i++) {
        bw_buf_putc(b, ' ');
        put_residual(b, e->child[i]);
    }
    bool named = e->op == BW_CEDAR__GET || e->op == BW_CEDAR__HAS ||
                 e->op == BW_CEDAR__IS || e->op == BW_CEDAR__RECORD_OF;
    for (uint32_t i = 0; named && i < (e->op == BW_CEDAR__IS ? 1 : e->nnames); i++)
        bw_buf_printf(b, " %.*s", (int)e->u.names[i].len, e->u.names[i].ptr);
    bw_buf_putc(b, ')');
}

#define residual_test(f) \
    cmocka_unit_test_setup_teardown(f, residual_setup, world_teardown)
#endif
