/* Policy text laid out anew. Works on tokens, not on trees: a token is never changed,
 * dropped or moved, so the set means what it meant, and a comment stays between the two
 * tokens it stood between. What decides is the tokens, their comments, and whether a
 * comment has a line of its own; the output has all of these as the input had, so
 * formatting it again changes nothing.
 *
 * Style: that of policies/packs. Annotations, scope and clauses have lines of their
 * own; one blank line between policies. What fits a line stays on one. Else the
 * operators that bind least end their lines; brackets open, contents indented, a line
 * for each item; parentheses around an operand stay close to it. A comment behind a
 * token stays behind it. Blank lines are kept between comments outside of policies.
 *
 * No recursion: tasks wait on a stack in the ctx's arena. */
#include "ast.h"

enum {
    WIDTH = 100,
    STEP = 2,
    INDENT_MAX = 60, /* what nests deeper does not move further to the right */
    NONE = -1
};

/* How tightly an operator binds; lines break behind those that do least. */
enum prec { P_NONE, P_OR, P_AND, P_TEST, P_SUM, P_PRODUCT };

typedef struct token {
    uint32_t start, end; /* in the text */
    uint32_t before;     /* width of all tokens before it, on one line with blanks */
    uint32_t match; /* of an opening bracket: its closing one; `if`: its `then`; `then`:
                       its `else` */
    uint32_t comment; /* its first one; the next token's is its end */
    char mark; /* of punctuation; 'a' name, '"' string, '0' number, 'k' word of the
                  grammar, 'o' operator of two signs or for one operand */
    uint8_t prec;
    bool space; /* a blank before it, unless it begins a line */
    bool blank; /* an empty line stands before it */
} token;

typedef struct comment {
    uint32_t start, end;
    bool behind; /* a token, on its line */
    bool blank;
} comment;

typedef struct task {
    enum { LINE, FLAT, RANGE, ATOM } kind;
    uint32_t from, to; /* tokens */
    int indent;        /* LINE: of the next one; RANGE: of its own lines, or NONE */
} task;

typedef struct layout {
    bw_cedar__maker m; /* both arenas the caller's */
    bw_cedar__lex lx;
    bw_cedar__list tokens, comments,
        tasks; /* of one policy; one more token ends them */
    bw_buf *out;
    size_t end;       /* of the output */
    int col, pending; /* pending: a line is due, indented so; or NONE */
    int indent;       /* of the current line */
    bool any, after_policy;
} layout;

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

static const token *at(const layout *l, uint32_t i)
{
    return (const token *)l->tokens.items + i;
}

static const comment *note(const layout *l, uint32_t i)
{
    return (const comment *)l->comments.items + i;
}

static bw_str source(const layout *l, uint32_t start, uint32_t end)
{
    return (bw_str){l->lx.text.ptr + start, end - start};
}

/* ---- reading a policy's tokens ---- */

/* Comments between the last token and this one; *blank: an empty line before this one.
 */
static bw_status read_comments(layout *l, bool *blank)
{
    bw_str t = l->lx.text;
    size_t i = l->lx.prev_end;
    uint32_t lines = 0;
    while (i < l->lx.start) {
        bool cr = t.ptr[i] == '\r' && !(i + 1 < t.len && t.ptr[i + 1] == '\n');
        lines += t.ptr[i] == '\n' || cr;
        if (t.ptr[i] != '/') { /* else a comment: there is nothing else between */
            i++;
            continue;
        }
        comment c = {.start = (uint32_t)i,
                     .behind = lines == 0 && l->lx.prev_end > 0,
                     .blank = lines > 1};
        while (i < t.len && t.ptr[i] != '\n' && t.ptr[i] != '\r')
            i++;
        c.end = (uint32_t)i;
        while (t.ptr[c.end - 1] == ' ' || t.ptr[c.end - 1] == '\t')
            c.end--;
        lines = 0;
        TRY(bw_cedar__list_add(&l->m, &l->comments, &c, sizeof c));
    }
    *blank = lines > 1;
    return BW_OK;
}

static bool word(bw_str s, const char *const *list)
{
    while (*list && !bw_str_eq(s, bw_str_c(*list)))
        list++;
    return *list != NULL;
}

static bool ends_operand(const token *prev)
{
    return prev && prev->mark && strchr("a\"0)]}", prev->mark);
}

/* mark and prec of the current token. */
static void classify(const layout *l, const token *prev, token *t)
{
    static const char *const tests[] = {"in", "has", "like", "is", NULL},
                             *const branches[] = {"if", "then", "else", NULL};
    bw_str s = bw_cedar__lex_text(&l->lx);
    t->mark = 'o';
    switch (l->lx.tok) {
    case BW_CEDAR__T_IDENT: {
        bool key = prev && prev->mark == '@'; /* of an annotation: any word */
        t->prec = !key && word(s, tests) ? P_TEST : P_NONE;
        t->mark = t->prec || (!key && word(s, branches)) ? 'k' : 'a';
        return;
    }
    case BW_CEDAR__T_INT:
        t->mark = '0';
        return;
    case BW_CEDAR__T_STRING:
        t->mark = '"';
        return;
    case BW_CEDAR__T_COLONS:
        t->mark = '.'; /* stands between names as closely */
        return;
    case BW_CEDAR__T_OR:
    case BW_CEDAR__T_AND:
        t->prec = l->lx.tok == BW_CEDAR__T_OR ? P_OR : P_AND;
        return;
    case BW_CEDAR__T_PUNCT:
        break;
    default:
        t->prec = P_TEST;
        return;
    }
    t->mark = l->lx.punct;
    if (t->mark == '<' || t->mark == '>')
        t->prec = P_TEST;
    else if (t->mark == '*')
        t->prec = P_PRODUCT;
    else if (t->mark == '+' || (t->mark == '-' && ends_operand(prev)))
        t->prec = P_SUM;
    else if (t->mark == '-')
        t->mark = '!';
}

static bool wants_space(const layout *l, const token *prev, const token *t)
{
    static const char *const effects[] = {"permit", "forbid", NULL};
    bool named = prev->mark == 'a';
    if (strchr(")],;.:", t->mark) || strchr("([.@?!", prev->mark))
        return false;
    if (t->mark == '}')
        return prev->mark != '{';
    if (t->mark == '(')
        return !named || (word(source(l, prev->start, prev->end), effects) &&
                          (prev == at(l, 0) || (prev - 1)->mark != '@'));
    return t->mark != '[' || !ends_operand(prev);
}

static uint32_t width(bw_str s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += ((unsigned char)s.ptr[i] & 0xC0) != 0x80;
    return n;
}

static bw_status add_token(layout *l, bool blank, uint32_t first_comment)
{
    token t = {.start = (uint32_t)l->lx.start,
               .end = (uint32_t)l->lx.end,
               .comment = first_comment,
               .blank = blank};
    const token *prev = l->tokens.n ? at(l, l->tokens.n - 1) : NULL;
    classify(l, prev, &t);
    if (prev) {
        t.space = wants_space(l, prev, &t);
        t.before =
            prev->before + prev->space + width(source(l, prev->start, prev->end));
    }
    return bw_cedar__list_add(&l->m, &l->tokens, &t, sizeof t);
}

/* Fills match. The text has been parsed, so brackets and branches fit together. */
static bw_status match(layout *l)
{
    bw_cedar__list open = {0};
    token *all = l->tokens.items;
    for (uint32_t i = 0; i < l->tokens.n; i++) {
        bw_str s = source(l, all[i].start, all[i].end);
        bool word = all[i].mark == 'k', opens = word && bw_str_is(s, "if"),
             goes_on = word && bw_str_is(s, "then");
        if (!opens && !goes_on && !(word && bw_str_is(s, "else")) &&
            !strchr("([{)]}", all[i].mark))
            continue;
        if (!opens && !strchr("([{", all[i].mark))
            all[((uint32_t *)open.items)[--open.n]].match = i;
        if (opens || goes_on || strchr("([{", all[i].mark))
            TRY(bw_cedar__list_add(&l->m, &open, &i, sizeof i));
    }
    return BW_OK;
}

/* The tokens of the next policy, its ; the last; and one more for what they end with.
 */
static bw_status read_policy(layout *l)
{
    bool last = false, blank;
    l->tokens = l->comments = l->tasks = (bw_cedar__list){0};
    while (!last) {
        uint32_t first = l->comments.n;
        last = bw_cedar__lex_is(&l->lx, ';') || l->lx.tok == BW_CEDAR__T_END;
        TRY(read_comments(l, &blank));
        TRY(add_token(l, blank, first));
        if (l->lx.tok != BW_CEDAR__T_END)
            TRY(bw_cedar__lex_next(&l->lx));
    }
    TRY(match(l));
    token end = {.comment = l->comments.n};
    const token *t = at(l, l->tokens.n - 1);
    end.before = t->before + t->space + 1;
    return bw_cedar__list_add(&l->m, &l->tokens, &end, sizeof end);
}

/* ---- writing ---- */
static void new_line(layout *l, int indent)
{
    bw_buf_putc(l->out, '\n');
    for (int i = 0; i < indent; i++)
        bw_buf_putc(l->out, ' ');
    l->col = l->indent = indent;
    l->pending = NONE;
}

static void put_comment(layout *l, const comment *c)
{
    bw_buf_str(l->out, source(l, c->start, c->end));
}

static void emit(layout *l, uint32_t i)
{
    const token *t = at(l, i);
    for (uint32_t k = t->comment; i > 0 && k < at(l, i + 1)->comment; k++) {
        const comment *c = note(l, k);
        int indent = l->pending != NONE ? l->pending : l->indent;
        bool inside =
            l->pending != NONE && strchr(")]}", t->mark); /* as the contents */
        if (c->behind)
            bw_buf_putc(l->out, ' ');
        else
            new_line(l, indent + (inside ? STEP : 0));
        put_comment(l, c);
        l->pending = indent;
    }
    if (l->pending != NONE) {
        new_line(l, l->pending);
    } else if (t->space) {
        bw_buf_putc(l->out, ' ');
        l->col++;
    }
    bw_str s = source(l, t->start, t->end);
    bw_buf_str(l->out, s);
    l->col += (int)width(s);
}

static void emit_all(layout *l, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to && l->out->len <= l->end; i++)
        emit(l, i);
}

/* ---- deciding ---- */

/* Where token i will begin. */
static int column(const layout *l, uint32_t i)
{
    if (l->pending != NONE)
        return l->pending;
    return i > 0 && at(l, i)->comment < at(l, i + 1)->comment
               ? l->indent
               : l->col + at(l, i)->space;
}

/* Whether these tokens and what must follow them fit on the line. */
static bool fits(const layout *l, uint32_t from, uint32_t to)
{
    if (at(l, from + 1)->comment < at(l, to)->comment)
        return false;
    int64_t w = column(l, from) + (int64_t)(at(l, to)->before - at(l, from)->before) -
                at(l, from)->space;
    for (uint32_t i = to; i + 1 < l->tokens.n && w <= WIDTH; i++) {
        const token *t = at(l, i);
        bool closes = strchr(")],;", t->mark);
        if (t->comment < (t + 1)->comment || (!closes && t->prec == P_NONE))
            break;
        w += (t + 1)->before - t->before;
        if (!closes)
            break;
    }
    return w <= WIDTH;
}

static bw_status push(layout *l, task t)
{
    return bw_cedar__list_add(&l->m, &l->tasks, &t, sizeof t);
}

static bw_status push_line(layout *l, int indent)
{
    return push(
        l, (task){.kind = LINE, .indent = indent < INDENT_MAX ? indent : INDENT_MAX});
}

static bw_status push_range(layout *l, uint32_t from, uint32_t to, int indent)
{
    return push(l, (task){RANGE, from, to, indent});
}

/* The tasks added since `start` were added first to last; they are done last to first.
 */
static void turn(layout *l, uint32_t start)
{
    task *t = l->tasks.items;
    for (uint32_t i = start, j = l->tasks.n; i + 1 < j; i++) {
        task kept = t[i];
        t[i] = t[--j];
        t[j] = kept;
    }
}

/* The token after i on the same level. */
static uint32_t skip(const layout *l, uint32_t i)
{
    return strchr("([{", at(l, i)->mark) ? at(l, i)->match + 1 : i + 1;
}

/* if c / then a / else b, a line for each; else if goes on at the same column. */
static bw_status lay_if(layout *l, const task *r, int indent)
{
    uint32_t then = at(l, r->from)->match, otherwise = at(l, then)->match;
    TRY(push(l, (task){FLAT, r->from, r->from + 1, 0}));
    TRY(push_range(l, r->from + 1, then, NONE));
    TRY(push_line(l, indent));
    TRY(push(l, (task){FLAT, then, then + 1, 0}));
    TRY(push_range(l, then + 1, otherwise, NONE));
    TRY(push_line(l, indent));
    TRY(push(l, (task){FLAT, otherwise, otherwise + 1, 0}));
    return push_range(l, otherwise + 1, r->to, indent);
}

/* Items that commas end, a line for each, between brackets that open. */
static bw_status lay_items(layout *l, uint32_t open, int indent)
{
    uint32_t close = at(l, open)->match, from = open + 1;
    TRY(push(l, (task){FLAT, open, open + 1, 0}));
    for (uint32_t i = from; i < close; i = skip(l, i))
        if (at(l, i)->mark == ',' || skip(l, i) == close) {
            TRY(push_line(l, indent + STEP));
            TRY(push_range(l, from, skip(l, i), NONE));
            from = skip(l, i);
        }
    TRY(push_line(l, indent));
    return push(l, (task){FLAT, close, close + 1, 0});
}

/* No operator: up to the first bracket that has to open, and the rest. */
static bw_status lay_atom(layout *l, const task *r)
{
    uint32_t i = r->from;
    while (i < r->to) {
        uint32_t next = skip(l, i);
        if (next > i + 3 && !fits(l, i, next)) /* ["name"] stays whole */
            break;
        emit_all(l, i, next);
        i = next;
    }
    if (i == r->to)
        return BW_OK;
    const token *t = at(l, i);
    bool operand = t->mark == '(' && (i == 0 || at(l, i - 1)->mark != 'a');
    if (operand) {
        TRY(push(l, (task){FLAT, i, i + 1, 0}));
        TRY(push_range(l, i + 1, t->match, NONE));
        TRY(push(l, (task){FLAT, t->match, t->match + 1, 0}));
    } else {
        TRY(lay_items(l, i, l->pending != NONE ? l->pending : l->indent));
    }
    return push(l, (task){ATOM, t->match + 1, r->to, 0});
}

/* The operators that bind least; not one at the end. */
static enum prec weakest(const layout *l, const task *r, uint32_t *last)
{
    enum prec p = P_NONE;
    for (uint32_t i = r->from; i < r->to; i = skip(l, i)) {
        enum prec q = at(l, i)->prec;
        if (q == P_NONE || i + 1 == r->to || (p != P_NONE && q > p))
            continue;
        p = q;
        *last = i;
    }
    return p;
}

static bw_status lay_range(layout *l, const task *r)
{
    uint32_t last = 0, start = l->tasks.n;
    if (r->from >= r->to)
        return BW_OK;
    if (fits(l, r->from, r->to)) {
        emit_all(l, r->from, r->to);
        return BW_OK;
    }
    int col = column(l, r->from), indent = r->indent != NONE ? r->indent : col;
    if (at(l, r->from)->mark == 'k') { /* an `if`: nothing else begins so */
        TRY(lay_if(l, r, indent));
        turn(l, start);
        return BW_OK;
    }
    enum prec p = weakest(l, r, &last);
    bool follows = at(l, r->to - 1)->mark == ',' || at(l, r->to - 1)->prec != P_NONE;
    bool bracket = at(l, last + 1)->match + 1 == r->to - follows; /* it opens instead */
    if (p == P_NONE || (p >= P_TEST && bracket)) {
        TRY(lay_atom(l, r));
        turn(l, start);
        return BW_OK;
    }
    uint32_t from = r->from;
    for (uint32_t i = from; i < r->to; i = skip(l, i))
        if (at(l, i)->prec == p && (p < P_TEST || i == last) && i + 1 < r->to) {
            TRY(push_range(l, from, i + 1, NONE));
            TRY(push_line(l, p < P_TEST ? indent : indent + STEP));
            from = i + 1;
        }
    TRY(push_range(l, from, r->to, NONE));
    turn(l, start);
    return BW_OK;
}

/* when { … }: on one line, or its condition on lines of its own. */
static bw_status lay_clause(layout *l, uint32_t i)
{
    uint32_t close = at(l, i + 1)->match;
    l->pending = 0;
    if (fits(l, i, close + 1)) {
        emit_all(l, i, close + 1);
        return BW_OK;
    }
    uint32_t start = l->tasks.n;
    TRY(push(l, (task){FLAT, i, i + 2, 0}));
    TRY(push_line(l, STEP));
    TRY(push_range(l, i + 2, close, NONE));
    TRY(push_line(l, 0));
    TRY(push(l, (task){FLAT, close, close + 1, 0}));
    turn(l, start);
    return BW_OK;
}

static bw_status run(layout *l)
{
    while (l->tasks.n > 0 && l->out->len <= l->end) {
        task t = ((task *)l->tasks.items)[--l->tasks.n];
        uint32_t start = l->tasks.n;
        switch (t.kind) {
        case LINE:
            l->pending = t.indent;
            break;
        case FLAT:
            emit_all(l, t.from, t.to);
            break;
        case RANGE:
            TRY(lay_range(l, &t));
            break;
        case ATOM:
            TRY(lay_atom(l, &t));
            turn(l, start);
            break;
        }
    }
    return BW_OK;
}

/* ---- policies ---- */

/* The line on which the next thing outside of policies begins. */
static void begin(layout *l, bool blank)
{
    if (l->any)
        bw_buf_putc(l->out, '\n');
    if (l->any && (blank || l->after_policy))
        bw_buf_putc(l->out, '\n');
    l->any = true;
    l->after_policy = false;
    l->col = l->indent = 0;
    l->pending = NONE;
}

static void put_head(layout *l)
{
    for (uint32_t k = 0; k < at(l, 1)->comment; k++) {
        const comment *c = note(l, k);
        if (c->behind)
            bw_buf_putc(l->out, ' ');
        else
            begin(l, c->blank);
        put_comment(l, c);
    }
}

static bw_status lay_policy(layout *l)
{
    uint32_t i = 0;
    while (at(l, i)->mark == '@') {
        uint32_t next = i + 2;
        next = at(l, next)->mark == '(' ? at(l, next)->match + 1 : next;
        emit_all(l, i, next);
        l->pending = 0;
        i = next;
    }
    emit(l, i++);
    uint32_t close = at(l, i)->match;
    if (fits(l, i, close + 1))
        emit_all(l, i, close + 1);
    else
        TRY(lay_items(l, i, 0));
    turn(l, 0);
    TRY(run(l));
    for (i = close + 1; at(l, i)->mark == 'a'; i = at(l, i + 1)->match + 1) {
        TRY(lay_clause(l, i));
        TRY(run(l));
    }
    emit(l, i);
    return BW_OK;
}

static bw_status format_all(layout *l)
{
    TRY(bw_cedar__lex_start(l->m.ctx, l->lx.text, &l->lx));
    for (bool more = true; more && l->out->len <= l->end && !l->out->failed;) {
        bw_arena_mark mark = bw_arena_mark_get(l->m.ctx);
        more = l->lx.tok != BW_CEDAR__T_END;
        TRY(read_policy(l));
        put_head(l);
        if (more) {
            begin(l, at(l, 0)->blank);
            TRY(lay_policy(l));
            l->after_policy = true;
        }
        bw_arena_release(l->m.ctx, mark);
    }
    if (l->any)
        bw_buf_putc(l->out, '\n');
    return BW_OK;
}

bw_status bw_cedar_policies_format(bw_ctx *ctx, bw_str text, bw_buf *out)
{
    bw_cedar_policies *parsed = NULL;
    TRY(bw_cedar_policies_parse(ctx, text, &parsed));
    bw_cedar_policies_free(parsed);
    const size_t start = out->len;
    layout l = {
        .m = {ctx, ctx}, .lx.text = text, .out = out, .end = start + BW_CEDAR_TEXT_MAX};
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    bw_status st = format_all(&l);
    bw_arena_release(ctx, mark);
    if (st == BW_OK && out->failed)
        st = bw_fail_nomem(ctx);
    if (st == BW_OK && out->len > l.end)
        st = bw_fail(ctx, BW_EINVALID, "the text laid out is larger than %d bytes",
                     BW_CEDAR_TEXT_MAX);
    if (st != BW_OK)
        out->len = start;
    return st;
}
