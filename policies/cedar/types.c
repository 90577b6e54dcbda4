#include "types.h"
#include "print.h"

const bw_cedar__type *bw_cedar__type_of(uint8_t kind)
{
    static const bw_cedar__type types[] = {
        [BW_CEDAR__BOOL] = {.kind = BW_CEDAR__BOOL},
        [BW_CEDAR__LONG] = {.kind = BW_CEDAR__LONG},
        [BW_CEDAR__STRING] = {.kind = BW_CEDAR__STRING},
        [BW_CEDAR__DECIMAL] = {.kind = BW_CEDAR__DECIMAL},
        [BW_CEDAR__DATETIME] = {.kind = BW_CEDAR__DATETIME},
        [BW_CEDAR__DURATION] = {.kind = BW_CEDAR__DURATION},
        [BW_CEDAR__IP] = {.kind = BW_CEDAR__IP},
        [BW_CEDAR__TRUE] = {.kind = BW_CEDAR__TRUE},
        [BW_CEDAR__FALSE] = {.kind = BW_CEDAR__FALSE}};
    assert(kind < sizeof types / sizeof *types && types[kind].kind == kind);
    return &types[kind];
}

/* ---- join ---- */
static const bw_cedar__type *join_sets(bw_cedar__joiner *j, const bw_cedar__type *a,
                                       const bw_cedar__type *b)
{
    const bw_cedar__type *element = bw_cedar__type_join(j, a->element, b->element);
    if (!element || element == a->element)
        return element ? a : NULL;
    bw_cedar__type *t = bw_arena_calloc(j->pool, 1, sizeof *t);
    if (!t) {
        j->memory = true;
        return NULL;
    }
    *t = (bw_cedar__type){.kind = BW_CEDAR__SET, .element = element};
    return t;
}

static const bw_cedar__type *join_records(bw_cedar__joiner *j, const bw_cedar__type *a,
                                          const bw_cedar__type *b)
{
    bw_cedar__attr *attrs = NULL; /* made when one is neither's own */
    if (a->nattrs != b->nattrs)
        return NULL;
    for (uint32_t i = 0; i < a->nattrs; i++) {
        const bw_cedar__attr *x = &a->attrs[i], *y = &b->attrs[i];
        if (x->required != y->required || !bw_str_eq(x->name, y->name))
            return NULL;
        const bw_cedar__type *t = bw_cedar__type_join(j, x->type, y->type);
        if (!t)
            return NULL;
        if (t != x->type && !attrs) {
            attrs = bw_arena_alloc(j->pool, a->nattrs * sizeof *attrs);
            if (!attrs) {
                j->memory = true;
                return NULL;
            }
            memcpy(attrs, a->attrs, a->nattrs * sizeof *attrs);
        }
        if (attrs)
            attrs[i].type = t;
    }
    if (!attrs)
        return a;
    bw_cedar__type *t = bw_arena_calloc(j->pool, 1, sizeof *t);
    if (!t) {
        j->memory = true;
        return NULL;
    }
    *t =
        (bw_cedar__type){.kind = BW_CEDAR__RECORD, .attrs = attrs, .nattrs = a->nattrs};
    return t;
}

const bw_cedar__type *bw_cedar__type_join(bw_cedar__joiner *j, const bw_cedar__type *a,
                                          const bw_cedar__type *b)
{
    if (++*j->steps > j->most)
        return NULL;
    if (a == b)
        return a;
    if (bw_cedar__type_is_bool(a) && bw_cedar__type_is_bool(b))
        return a->kind == b->kind ? a : bw_cedar__type_of(BW_CEDAR__BOOL);
    if (a->kind != b->kind)
        return NULL;
    switch (a->kind) {
    case BW_CEDAR__ENTITY:
        return bw_str_eq(a->name, b->name) ? a : NULL;
    case BW_CEDAR__SET:
        return join_sets(j, a, b);
    case BW_CEDAR__RECORD:
        return join_records(j, a, b);
    default:
        return a;
    }
}

/* ---- text ---- */
enum { TEXT_MAX = 80, NAME_BYTES_MAX = 40 };

static void put_name(bw_buf *out, bw_str s)
{
    if (bw_cedar__is_ident(s))
        bw_buf_str(out, s);
    else
        bw_cedar__put_string(out, s, NAME_BYTES_MAX);
}

static void put(bw_buf *out, const bw_cedar__type *t, size_t end)
{
    static const char *const names[] = {
        [BW_CEDAR__BOOL] = "Bool",         [BW_CEDAR__LONG] = "Long",
        [BW_CEDAR__STRING] = "String",     [BW_CEDAR__DECIMAL] = "decimal",
        [BW_CEDAR__DATETIME] = "datetime", [BW_CEDAR__DURATION] = "duration",
        [BW_CEDAR__IP] = "ipaddr",         [BW_CEDAR__TRUE] = "Bool",
        [BW_CEDAR__FALSE] = "Bool"};
    if (out->len >= end || out->failed) { /* then nothing grows any more */
        bw_buf_puts(out, "…");
        return;
    }
    switch (t->kind) {
    case BW_CEDAR__ENTITY:
        bw_buf_str(out, t->name);
        return;
    case BW_CEDAR__SET:
        bw_buf_puts(out, "Set<");
        put(out, t->element, end);
        bw_buf_putc(out, '>');
        return;
    case BW_CEDAR__RECORD:
        bw_buf_putc(out, '{');
        for (uint32_t i = 0; i < t->nattrs && out->len < end && !out->failed; i++) {
            bw_buf_puts(out, i ? ", " : "");
            put_name(out, t->attrs[i].name);
            bw_buf_puts(out, t->attrs[i].required ? ": " : "?: ");
            put(out, t->attrs[i].type, end);
        }
        bw_buf_putc(out, '}');
        return;
    default:
        bw_buf_puts(out, names[t->kind]);
    }
}

void bw_cedar__type_put(bw_buf *out, const bw_cedar__type *t)
{
    put(out, t, out->len + TEXT_MAX);
}
