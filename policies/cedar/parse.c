/* Policy text to tree: language description, section 2. Written from the grammar by
 * hand: precedence climbing for operators, loops for every chain, and one counter for
 * whatever truly nests (parentheses, sets, records, arguments, branches). What is a
 * parse error in the reference engine is one here: unknown variables, functions,
 * methods, wrong counts. */
#include "ast.h"

typedef struct parser {
    bw_cedar__maker m;
    bw_cedar__lex lx;
    uint32_t depth;
} parser;

typedef const bw_cedar__expr *expr_ptr;
typedef bw_cedar__list list;

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)
#define NEXT(p)          TRY(bw_cedar__lex_next(&(p)->lx))
#define WANT(p, c)       TRY(bw_cedar__lex_want(&(p)->lx, (c)))
#define FAIL(p, at, ...) return bw_cedar__lex_fail(&(p)->lx, (at), __VA_ARGS__)

static bw_status parse_expr(parser *p, expr_ptr *out);
static bw_status parse_binary(parser *p, int min, expr_ptr *out);

/* ---- names ---- */
static bw_status want_ident(parser *p, bw_str *out)
{
    if (p->lx.tok != BW_CEDAR__T_IDENT)
        FAIL(p, p->lx.start, "expected a name");
    *out = bw_cedar__lex_text(&p->lx);
    if (bw_cedar__is_reserved(*out))
        FAIL(p, p->lx.start, "a reserved word is no name");
    return bw_cedar__lex_next(&p->lx);
}

static bw_status join_path(parser *p, const list *parts, bw_str *out)
{
    const bw_str *part = parts->items;
    size_t len = 0;
    for (uint32_t i = 0; i < parts->n; i++)
        len += part[i].len + (i ? 2 : 0);
    char *to = bw_arena_alloc(p->m.pool, len);
    if (!to)
        return bw_fail_nomem(p->m.ctx);
    *out = (bw_str){to, len};
    for (uint32_t i = 0; i < parts->n; i++) {
        if (i) {
            memcpy(to, "::", 2);
            to += 2;
        }
        memcpy(to, part[i].ptr, part[i].len);
        to += part[i].len;
    }
    return BW_OK;
}

/* IDENT{::IDENT}[::STR]; *entity says whether the string came, *id holds it. */
static bw_status parse_path(parser *p, bw_str *path, bool *entity, bw_str *id)
{
    list parts = {0};
    bw_str part;
    *entity = false;
    TRY(want_ident(p, &part));
    TRY(bw_cedar__list_add(&p->m, &parts, &part, sizeof part));
    while (p->lx.tok == BW_CEDAR__T_COLONS) {
        NEXT(p);
        if (p->lx.tok == BW_CEDAR__T_STRING) {
            TRY(bw_cedar__lex_string(&p->lx, p->m.pool, id));
            *entity = true;
            NEXT(p);
            break;
        }
        TRY(want_ident(p, &part));
        TRY(bw_cedar__list_add(&p->m, &parts, &part, sizeof part));
    }
    if (parts.n == 1) {
        *path = ((bw_str *)parts.items)[0];
        return BW_OK;
    }
    return join_path(p, &parts, path);
}

static bw_status parse_type(parser *p, bw_str *path)
{
    bool entity;
    bw_str id;
    size_t at = p->lx.start;
    TRY(parse_path(p, path, &entity, &id));
    if (entity)
        FAIL(p, at, "expected an entity type, not an entity");
    return BW_OK;
}

static bw_status parse_entity(parser *p, bw_cedar__uid *out)
{
    bool entity;
    bw_str path, id = {0};
    size_t at = p->lx.start;
    TRY(parse_path(p, &path, &entity, &id));
    if (!entity)
        FAIL(p, at, "expected an entity: Type::\"id\"");
    *out = bw_cedar__uid_make(path, id);
    return BW_OK;
}

/* ---- primaries ---- */
static bw_status parse_args(parser *p, char close, list *args)
{
    while (!bw_cedar__lex_is(&p->lx, close)) {
        expr_ptr e;
        bool comma;
        TRY(parse_expr(p, &e));
        TRY(bw_cedar__list_add(&p->m, args, &e, sizeof e));
        TRY(bw_cedar__lex_take(&p->lx, ',', &comma));
        if (!comma)
            break;
    }
    return bw_cedar__lex_want(&p->lx, close);
}

static bw_status parse_record(parser *p, size_t at, expr_ptr *out)
{
    list names = {0}, children = {0};
    while (!bw_cedar__lex_is(&p->lx, '}')) {
        bw_str key;
        expr_ptr e;
        bool comma;
        if (p->lx.tok == BW_CEDAR__T_STRING) {
            TRY(bw_cedar__lex_string(&p->lx, p->m.pool, &key));
            NEXT(p);
        } else {
            TRY(want_ident(p, &key));
        }
        WANT(p, ':');
        TRY(parse_expr(p, &e));
        TRY(bw_cedar__list_add(&p->m, &names, &key, sizeof key));
        TRY(bw_cedar__list_add(&p->m, &children, &e, sizeof e));
        TRY(bw_cedar__lex_take(&p->lx, ',', &comma));
        if (!comma)
            break;
    }
    WANT(p, '}');
    bool unique;
    TRY(bw_cedar__record_node(&p->m, at, &names, &children, &unique, out));
    if (!unique)
        FAIL(p, at, "a record names a key twice");
    return BW_OK;
}

/* A number; `minus` when a minus stands directly before it, which makes it one literal.
 */
static bw_status parse_int(parser *p, size_t at, bool minus, expr_ptr *out)
{
    bw_str t = bw_cedar__lex_text(&p->lx);
    uint64_t v = 0;
    for (size_t i = 0; i < t.len; i++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(t.ptr[i] - '0'), &v))
            FAIL(p, at, "integer out of range");
    if (v > (uint64_t)INT64_MAX + minus)
        FAIL(p, at, "integer out of range");
    NEXT(p);
    int64_t i = minus ? (int64_t)(0 - v) : (int64_t)v;
    return bw_cedar__value_node(&p->m, at, bw_cedar__int(BW_CEDAR__LONG, i), out);
}

static bw_status parse_word(parser *p, size_t at, bw_str word, expr_ptr *out)
{
    bw_cedar__expr *e;
    if (bw_cedar__lex_is(&p->lx, '(')) {
        bw_cedar__fn fn;
        list args = {0};
        if (!bw_cedar__fn_find(word, false, &fn))
            FAIL(p, at, "unknown function");
        NEXT(p);
        TRY(parse_args(p, ')', &args));
        TRY(bw_cedar__list_node(&p->m, BW_CEDAR__CALL, at, &args, &e));
        e->which = (uint8_t)fn;
        *out = e;
        return BW_OK;
    }
    for (uint8_t i = 0; i < 4; i++)
        if (bw_str_eq(word, bw_str_c(bw_cedar__vars[i]))) {
            TRY(bw_cedar__node(&p->m, BW_CEDAR__VAR, at, 0, &e));
            e->which = i;
            *out = e;
            return BW_OK;
        }
    FAIL(p, at, "unknown variable");
}

static bw_status parse_name_primary(parser *p, size_t at, expr_ptr *out)
{
    bool entity, truth = bw_cedar__lex_is_word(&p->lx, "true");
    if (truth || bw_cedar__lex_is_word(&p->lx, "false")) {
        NEXT(p);
        return bw_cedar__value_node(&p->m, at, bw_cedar__bool(truth), out);
    }
    bw_str path, id = {0};
    TRY(parse_path(p, &path, &entity, &id));
    if (!entity)
        return parse_word(p, at, path, out);
    bw_cedar__uid *uid = bw_arena_alloc(p->m.pool, sizeof *uid);
    if (!uid)
        return bw_fail_nomem(p->m.ctx);
    *uid = bw_cedar__uid_make(path, id);
    return bw_cedar__value_node(&p->m, at, bw_cedar__entity(uid), out);
}

static bw_status parse_primary(parser *p, expr_ptr *out)
{
    size_t at = p->lx.start;
    bw_cedar__expr *e;
    list items = {0};
    bw_str s;
    switch (p->lx.tok) {
    case BW_CEDAR__T_IDENT:
        return parse_name_primary(p, at, out);
    case BW_CEDAR__T_INT:
        return parse_int(p, at, false, out);
    case BW_CEDAR__T_STRING:
        TRY(bw_cedar__lex_string(&p->lx, p->m.pool, &s));
        NEXT(p);
        return bw_cedar__value_node(&p->m, at, bw_cedar__string(s), out);
    case BW_CEDAR__T_PUNCT:
        break;
    default:
        FAIL(p, at, "expected an expression");
    }
    switch (p->lx.punct) {
    case '(':
        NEXT(p);
        TRY(parse_expr(p, out));
        return bw_cedar__lex_want(&p->lx, ')');
    case '[':
        NEXT(p);
        TRY(parse_args(p, ']', &items));
        TRY(bw_cedar__list_node(&p->m, BW_CEDAR__SET_OF, at, &items, &e));
        *out = e;
        return BW_OK;
    case '{':
        NEXT(p);
        return parse_record(p, at, out);
    case '?':
        FAIL(p, at, "a slot may stand in the scope only");
    default:
        FAIL(p, at, "expected an expression");
    }
}

/* ---- members ---- */
static bw_status parse_method(parser *p, size_t at, bw_str name, expr_ptr self,
                              expr_ptr *out)
{
    static const struct {
        const char *name;
        bw_cedar__op op;
        uint32_t nargs;
    } builtin[] = {{"contains", BW_CEDAR__CONTAINS, 1},
                   {"containsAll", BW_CEDAR__CONTAINS_ALL, 1},
                   {"containsAny", BW_CEDAR__CONTAINS_ANY, 1},
                   {"isEmpty", BW_CEDAR__IS_EMPTY, 0},
                   {"hasTag", BW_CEDAR__HAS_TAG, 1},
                   {"getTag", BW_CEDAR__GET_TAG, 1}};
    list args = {0};
    bw_cedar__expr *e;
    TRY(bw_cedar__list_add(&p->m, &args, &self, sizeof self));
    NEXT(p);
    TRY(parse_args(p, ')', &args));
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++) {
        if (!bw_str_eq(name, bw_str_c(builtin[i].name)))
            continue;
        if (args.n != builtin[i].nargs + 1)
            FAIL(p, at, "wrong number of arguments");
        TRY(bw_cedar__list_node(&p->m, builtin[i].op, at, &args, &e));
        *out = e;
        return BW_OK;
    }
    bw_cedar__fn fn;
    if (!bw_cedar__fn_find(name, true, &fn))
        FAIL(p, at, "unknown method");
    TRY(bw_cedar__list_node(&p->m, BW_CEDAR__CALL, at, &args, &e));
    e->which = (uint8_t)fn;
    *out = e;
    return BW_OK;
}

static bw_status parse_member(parser *p, expr_ptr *out)
{
    TRY(parse_primary(p, out));
    for (;;) {
        size_t at = p->lx.start;
        bool dot = bw_cedar__lex_is(&p->lx, '.');
        bw_cedar__expr *e;
        bw_str name;
        if (!dot && !bw_cedar__lex_is(&p->lx, '['))
            return BW_OK;
        NEXT(p);
        if (dot) {
            TRY(want_ident(p, &name));
            if (bw_cedar__lex_is(&p->lx, '(')) {
                TRY(parse_method(p, at, name, *out, out));
                continue;
            }
        } else {
            if (p->lx.tok != BW_CEDAR__T_STRING)
                FAIL(p, p->lx.start, "expected a string in brackets");
            TRY(bw_cedar__lex_string(&p->lx, p->m.pool, &name));
            NEXT(p);
            WANT(p, ']');
        }
        TRY(bw_cedar__node_of(&p->m, BW_CEDAR__GET, at, *out, NULL, NULL, &e));
        TRY(bw_cedar__node_name(&p->m, e, name));
        *out = e;
    }
}

static bw_status parse_unary(parser *p, expr_ptr *out)
{
    size_t at = p->lx.start;
    char sign = bw_cedar__lex_is(&p->lx, '!')   ? '!'
                : bw_cedar__lex_is(&p->lx, '-') ? '-'
                                                : 0;
    int n = 0;
    for (; sign && bw_cedar__lex_is(&p->lx, sign); n++) {
        if (n == 4)
            FAIL(p, p->lx.start, "more than four '%c'", sign);
        NEXT(p);
    }
    if (sign == '-' && p->lx.tok == BW_CEDAR__T_INT) {
        /* The last minus belongs to the number unless something is read from it: -1.x
         */
        parser ahead = *p;
        NEXT(&ahead);
        if (!bw_cedar__lex_is(&ahead.lx, '.') && !bw_cedar__lex_is(&ahead.lx, '[')) {
            TRY(parse_int(p, at, true, out));
            n--;
            goto wrap;
        }
    }
    TRY(parse_member(p, out));
wrap:
    for (; n > 0; n--) {
        bw_cedar__expr *e = NULL;
        TRY(bw_cedar__node_of(&p->m, sign == '!' ? BW_CEDAR__NOT : BW_CEDAR__NEG, at,
                              *out, NULL, NULL, &e));
        *out = e;
    }
    return BW_OK;
}

/* ---- operators ---- */
enum { PREC_OR = 1, PREC_AND, PREC_RELATION, PREC_ADD, PREC_MULT };

typedef struct binary_op {
    int prec; /* 0: no operator here */
    bw_cedar__op op;
} binary_op;

static binary_op binary_at(const bw_cedar__lex *lx)
{
    switch (lx->tok) {
    case BW_CEDAR__T_OR:
        return (binary_op){PREC_OR, BW_CEDAR__OR};
    case BW_CEDAR__T_AND:
        return (binary_op){PREC_AND, BW_CEDAR__AND};
    case BW_CEDAR__T_EQ:
        return (binary_op){PREC_RELATION, BW_CEDAR__EQ};
    case BW_CEDAR__T_NE:
        return (binary_op){PREC_RELATION, BW_CEDAR__NE};
    case BW_CEDAR__T_LE:
        return (binary_op){PREC_RELATION, BW_CEDAR__LE};
    case BW_CEDAR__T_GE:
        return (binary_op){PREC_RELATION, BW_CEDAR__GE};
    case BW_CEDAR__T_PUNCT:
        switch (lx->punct) {
        case '<':
            return (binary_op){PREC_RELATION, BW_CEDAR__LT};
        case '>':
            return (binary_op){PREC_RELATION, BW_CEDAR__GT};
        case '+':
            return (binary_op){PREC_ADD, BW_CEDAR__ADD};
        case '-':
            return (binary_op){PREC_ADD, BW_CEDAR__SUB};
        case '*':
            return (binary_op){PREC_MULT, BW_CEDAR__MUL};
        default:
            return (binary_op){0, BW_CEDAR__ERROR};
        }
    case BW_CEDAR__T_IDENT:
        if (bw_cedar__lex_is_word(lx, "in"))
            return (binary_op){PREC_RELATION, BW_CEDAR__IN};
        if (bw_cedar__lex_is_word(lx, "has"))
            return (binary_op){PREC_RELATION, BW_CEDAR__HAS};
        if (bw_cedar__lex_is_word(lx, "like"))
            return (binary_op){PREC_RELATION, BW_CEDAR__LIKE};
        if (bw_cedar__lex_is_word(lx, "is"))
            return (binary_op){PREC_RELATION, BW_CEDAR__IS};
        return (binary_op){0, BW_CEDAR__ERROR};
    default:
        return (binary_op){0, BW_CEDAR__ERROR};
    }
}

static bw_status parse_has(parser *p, size_t at, expr_ptr left, expr_ptr *out)
{
    list names = {0};
    bw_str name;
    if (p->lx.tok == BW_CEDAR__T_STRING) {
        TRY(bw_cedar__lex_string(&p->lx, p->m.pool, &name));
        NEXT(p);
        TRY(bw_cedar__list_add(&p->m, &names, &name, sizeof name));
    } else {
        bool dot;
        do {
            TRY(want_ident(p, &name));
            TRY(bw_cedar__list_add(&p->m, &names, &name, sizeof name));
            TRY(bw_cedar__lex_take(&p->lx, '.', &dot));
        } while (dot);
    }
    bw_cedar__expr *e;
    const void *kept;
    TRY(bw_cedar__node_of(&p->m, BW_CEDAR__HAS, at, left, NULL, NULL, &e));
    TRY(bw_cedar__list_keep(&p->m, &names, sizeof name, &kept));
    e->u.names = kept;
    e->nnames = names.n;
    *out = e;
    return BW_OK;
}

static bw_status parse_is(parser *p, size_t at, expr_ptr left, expr_ptr *out)
{
    bw_str type;
    expr_ptr in = NULL;
    bw_cedar__expr *e;
    TRY(parse_type(p, &type));
    if (bw_cedar__lex_is_word(&p->lx, "in")) {
        NEXT(p);
        TRY(parse_binary(p, PREC_ADD, &in));
    }
    TRY(bw_cedar__node_of(&p->m, BW_CEDAR__IS, at, left, in, NULL, &e));
    *out = e;
    return bw_cedar__node_name(&p->m, e, type);
}

static bw_status parse_like(parser *p, size_t at, expr_ptr left, expr_ptr *out)
{
    bw_cedar__expr *e;
    if (p->lx.tok != BW_CEDAR__T_STRING)
        FAIL(p, p->lx.start, "expected a pattern in quotes");
    TRY(bw_cedar__node_of(&p->m, BW_CEDAR__LIKE, at, left, NULL, NULL, &e));
    TRY(bw_cedar__lex_pattern(&p->lx, p->m.pool, &e->u.pattern));
    *out = e;
    return bw_cedar__lex_next(&p->lx);
}

/* Operators of at least `min`. After one of precedence q none above q may follow: the
 * right side has taken those already, and a second relation is an error. */
static bw_status parse_binary(parser *p, int min, expr_ptr *out)
{
    size_t at = p->lx.start;
    TRY(parse_unary(p, out));
    for (int max = PREC_MULT;;) {
        binary_op b = binary_at(&p->lx);
        if (b.prec < min || b.prec > max || b.prec == 0)
            return BW_OK;
        NEXT(p);
        if (b.op == BW_CEDAR__HAS) {
            TRY(parse_has(p, at, *out, out));
        } else if (b.op == BW_CEDAR__LIKE) {
            TRY(parse_like(p, at, *out, out));
        } else if (b.op == BW_CEDAR__IS) {
            TRY(parse_is(p, at, *out, out));
        } else {
            expr_ptr right;
            bw_cedar__expr *e;
            TRY(parse_binary(p, b.prec + 1, &right));
            TRY(bw_cedar__node_of(&p->m, b.op, at, *out, right, NULL, &e));
            *out = e;
        }
        max = b.prec == PREC_RELATION ? b.prec - 1 : b.prec;
    }
}

/* if c then a else if d then b else e: a loop, so that long ladders do not nest. */
static bw_status parse_if(parser *p, expr_ptr *out)
{
    list parts = {0}; /* condition, branch, condition, branch, … */
    size_t at = p->lx.start;
    while (bw_cedar__lex_is_word(&p->lx, "if")) {
        expr_ptr e;
        NEXT(p);
        TRY(parse_expr(p, &e));
        TRY(bw_cedar__list_add(&p->m, &parts, &e, sizeof e));
        if (!bw_cedar__lex_is_word(&p->lx, "then"))
            FAIL(p, p->lx.start, "expected 'then'");
        NEXT(p);
        TRY(parse_expr(p, &e));
        TRY(bw_cedar__list_add(&p->m, &parts, &e, sizeof e));
        if (!bw_cedar__lex_is_word(&p->lx, "else"))
            FAIL(p, p->lx.start, "expected 'else'");
        NEXT(p);
    }
    TRY(parse_expr(p, out));
    expr_ptr *part = parts.items;
    for (uint32_t i = parts.n; i > 0; i -= 2) {
        bw_cedar__expr *e;
        TRY(bw_cedar__node_of(&p->m, BW_CEDAR__IF, at, part[i - 2], part[i - 1], *out,
                              &e));
        *out = e;
    }
    return BW_OK;
}

static bw_status parse_expr(parser *p, expr_ptr *out)
{
    if (++p->depth > BW_CEDAR_DEPTH_MAX)
        FAIL(p, p->lx.start, "nested deeper than %d levels", BW_CEDAR_DEPTH_MAX);
    bw_status st = bw_cedar__lex_is_word(&p->lx, "if") ? parse_if(p, out)
                                                       : parse_binary(p, PREC_OR, out);
    p->depth--;
    return st;
}

/* ---- scope ---- */
static bw_status open_parens(parser *p, uint32_t *n)
{
    for (*n = 0; bw_cedar__lex_is(&p->lx, '('); ++*n) {
        if (*n == BW_CEDAR_DEPTH_MAX)
            FAIL(p, p->lx.start, "nested deeper than %d levels", BW_CEDAR_DEPTH_MAX);
        NEXT(p);
    }
    return BW_OK;
}

static bw_status close_parens(parser *p, uint32_t n)
{
    while (n-- > 0)
        WANT(p, ')');
    return BW_OK;
}

static bw_status parse_action_uid(parser *p, bw_cedar__uid *uid)
{
    uint32_t parens;
    TRY(open_parens(p, &parens));
    size_t at = p->lx.start;
    TRY(parse_entity(p, uid));
    if (!bw_cedar__is_action_type(uid->type))
        FAIL(p, at, "an action's type must end in Action");
    return close_parens(p, parens);
}

static bw_status parse_action_list(parser *p, bw_cedar__scope *s)
{
    list uids = {0};
    const void *kept;
    while (!bw_cedar__lex_is(&p->lx, ']')) {
        bw_cedar__uid uid;
        bool comma;
        TRY(parse_action_uid(p, &uid));
        TRY(bw_cedar__list_add(&p->m, &uids, &uid, sizeof uid));
        TRY(bw_cedar__lex_take(&p->lx, ',', &comma));
        if (!comma)
            break;
    }
    WANT(p, ']');
    TRY(bw_cedar__list_keep(&p->m, &uids, sizeof(bw_cedar__uid), &kept));
    s->uids = kept;
    s->n = uids.n;
    s->op = uids.n == 1 ? BW_CEDAR__SCOPE_IN : BW_CEDAR__SCOPE_IN_LIST;
    return BW_OK;
}

/* The entity or slot after `==` or `in`. */
static bw_status parse_scope_operand(parser *p, int var, bw_cedar__scope *s)
{
    uint32_t parens;
    TRY(open_parens(p, &parens));
    if (var == BW_CEDAR__ACTION && s->op == BW_CEDAR__SCOPE_IN &&
        bw_cedar__lex_is(&p->lx, '[')) {
        NEXT(p);
        TRY(parse_action_list(p, s));
        return close_parens(p, parens);
    }
    if (bw_cedar__lex_is(&p->lx, '?')) {
        size_t at = p->lx.start, end = p->lx.end;
        NEXT(p);
        const char *name = var == BW_CEDAR__PRINCIPAL ? "principal" : "resource";
        if (var == BW_CEDAR__ACTION || p->lx.start != end ||
            !bw_cedar__lex_is_word(&p->lx, name))
            FAIL(p, at, "this slot does not belong here");
        NEXT(p);
        s->slot = true;
        return close_parens(p, parens);
    }
    bw_cedar__uid *uid = bw_arena_alloc(p->m.pool, sizeof *uid);
    if (!uid)
        return bw_fail_nomem(p->m.ctx);
    size_t at = p->lx.start;
    TRY(parse_entity(p, uid));
    if (var == BW_CEDAR__ACTION && !bw_cedar__is_action_type(uid->type))
        FAIL(p, at, "an action's type must end in Action");
    s->uids = uid;
    s->n = 1;
    return close_parens(p, parens);
}

static bw_status parse_scope(parser *p, int var, bw_cedar__scope *s)
{
    *s = (bw_cedar__scope){.op = BW_CEDAR__SCOPE_ALL};
    if (!bw_cedar__lex_is_word(&p->lx, bw_cedar__vars[var]))
        FAIL(p, p->lx.start, "expected '%s'", bw_cedar__vars[var]);
    NEXT(p);
    if (p->lx.tok == BW_CEDAR__T_EQ) {
        s->op = BW_CEDAR__SCOPE_EQ;
    } else if (bw_cedar__lex_is_word(&p->lx, "in")) {
        s->op = BW_CEDAR__SCOPE_IN;
    } else if (var != BW_CEDAR__ACTION && bw_cedar__lex_is_word(&p->lx, "is")) {
        s->op = BW_CEDAR__SCOPE_IS;
        NEXT(p);
        TRY(parse_type(p, &s->type));
        if (!bw_cedar__lex_is_word(&p->lx, "in"))
            return BW_OK;
        s->op = BW_CEDAR__SCOPE_IS_IN;
    } else {
        return BW_OK;
    }
    NEXT(p);
    return parse_scope_operand(p, var, s);
}

/* ---- policies ---- */
static bw_status parse_annotations(parser *p, bw_cedar__policy *policy)
{
    list all = {0};
    const void *kept;
    while (bw_cedar__lex_is(&p->lx, '@')) {
        bw_cedar__annotation a = {0};
        NEXT(p);
        size_t at = p->lx.start;
        if (p->lx.tok != BW_CEDAR__T_IDENT)
            FAIL(p, at, "expected an annotation's name");
        a.key = bw_cedar__lex_text(&p->lx);
        NEXT(p);
        bool paren;
        TRY(bw_cedar__lex_take(&p->lx, '(', &paren));
        if (paren) {
            if (p->lx.tok != BW_CEDAR__T_STRING)
                FAIL(p, p->lx.start, "expected a string");
            TRY(bw_cedar__lex_string(&p->lx, p->m.pool, &a.value));
            a.has_value = true;
            NEXT(p);
            WANT(p, ')');
        }
        for (uint32_t i = 0; i < all.n; i++)
            if (bw_str_eq(((bw_cedar__annotation *)all.items)[i].key, a.key))
                FAIL(p, at, "an annotation is there twice");
        if (all.n == 256) /* the look above is quadratic */
            FAIL(p, at, "more than 256 annotations");
        TRY(bw_cedar__list_add(&p->m, &all, &a, sizeof a));
    }
    TRY(bw_cedar__list_keep(&p->m, &all, sizeof(bw_cedar__annotation), &kept));
    policy->annotations = kept;
    policy->nannotations = all.n;
    return BW_OK;
}

static bw_status parse_clauses(parser *p, bw_cedar__policy *policy)
{
    list all = {0};
    const void *kept;
    for (;;) {
        bw_cedar__clause c = {.unless = bw_cedar__lex_is_word(&p->lx, "unless")};
        if (!c.unless && !bw_cedar__lex_is_word(&p->lx, "when"))
            break;
        NEXT(p);
        WANT(p, '{');
        TRY(parse_expr(p, &c.body));
        WANT(p, '}');
        TRY(bw_cedar__list_add(&p->m, &all, &c, sizeof c));
    }
    TRY(bw_cedar__list_keep(&p->m, &all, sizeof(bw_cedar__clause), &kept));
    policy->clauses = kept;
    policy->nclauses = all.n;
    return BW_OK;
}

static bw_status parse_policy(parser *p, bw_cedar__policy *policy)
{
    size_t start = p->lx.start;
    bool comma;
    TRY(parse_annotations(p, policy));
    policy->forbid = bw_cedar__lex_is_word(&p->lx, "forbid");
    if (!policy->forbid && !bw_cedar__lex_is_word(&p->lx, "permit"))
        FAIL(p, p->lx.start, "expected 'permit' or 'forbid'");
    NEXT(p);
    WANT(p, '(');
    TRY(parse_scope(p, BW_CEDAR__PRINCIPAL, &policy->scope[0]));
    WANT(p, ',');
    TRY(parse_scope(p, BW_CEDAR__ACTION, &policy->scope[1]));
    WANT(p, ',');
    TRY(parse_scope(p, BW_CEDAR__RESOURCE, &policy->scope[2]));
    TRY(bw_cedar__lex_take(&p->lx, ',', &comma));
    WANT(p, ')');
    TRY(parse_clauses(p, policy));
    WANT(p, ';');
    policy->text = (bw_str){p->lx.text.ptr + start, p->lx.prev_end - start};
    return BW_OK;
}

static bw_status parse_all(parser *p, bw_cedar_policies *set)
{
    list all = {0};
    while (p->lx.tok != BW_CEDAR__T_END) {
        bw_cedar__policy policy = {0};
        TRY(parse_policy(p, &policy));
        char *id = bw_arena_printf(p->m.pool, "policy%u", all.n);
        if (!id)
            return bw_fail_nomem(p->m.ctx);
        policy.id = bw_str_c(id);
        TRY(bw_cedar__set_add(&p->m, set, &all, &policy));
    }
    return bw_cedar__set_finish(&p->m, set, &all);
}

static bw_status parse_text(bw_cedar__maker *m, bw_cedar_policies *set)
{
    parser p = {.m = *m};
    TRY(bw_cedar__lex_start(m->ctx, set->text, &p.lx));
    return parse_all(&p, set);
}

bw_status bw_cedar_policies_parse(bw_ctx *ctx, bw_str text, bw_cedar_policies **out)
{
    return bw_cedar__set_new(ctx, text, parse_text, out);
}
