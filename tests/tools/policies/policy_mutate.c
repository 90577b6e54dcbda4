/* Do the tests of the packs notice a broken rule? For each policy of each pack: every
 * small way to break it (drop or negate a clause, a conjunct, an atom; swap && and ||,
 * < and <=, dest and at, permit and forbid; widen the scope; drop a word of a list; drop
 * the policy), one at a time, and the cases of packs/tests/NAME.json against the broken
 * set.
 *
 *   policy_mutate PACKS_FOLDER [-v] [NAME…]
 *
 * A mutant that would not be accepted as a policy set cannot come into force and does not
 * count. tests/equivalent.txt of the folder names mutants that mean the same as the rule,
 * each with its reason; they do not count, and one that the tests do tell apart is an
 * error there. Exit status 1 when fewer than 95 % of the rest are noticed, or when a whole
 * clause or policy can go unnoticed.
 *
 * Mutants are printed, not built: a printer walks the tree, counts the places where it
 * could write something else, and does so at the one that is asked for. */
#include "policies/cedar/ast.h"
#include "policies/pack_set.h"
#include "server/files.h"
#include "server/policy_test.h"

#include <dirent.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

enum { MUTANTS_MAX = 4096, NO_MUTANT = UINT32_MAX, SCORE_MIN = 95 };

/* ---- printing ---- */

typedef struct printer {
    bw_buf out;
    uint32_t at, target, where; /* where: in the text, 0 = the head of the policy */
    char what[80];              /* number and kind of the change */
} printer;

static bool here(printer *p, const char *what, uint32_t where)
{
    if (p->at++ != p->target)
        return false;
    (void)snprintf(p->what, sizeof p->what, "%u %s", p->target, what);
    p->where = where;
    return true;
}

static void put_string(bw_buf *b, bw_str s)
{
    bw_buf_putc(b, '"');
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '"' || s.ptr[i] == '\\')
            bw_buf_putc(b, '\\');
        bw_buf_putc(b, s.ptr[i]);
    }
    bw_buf_putc(b, '"');
}

static void put_uid(bw_buf *b, const bw_cedar__uid *u)
{
    bw_buf_str(b, u->type);
    bw_buf_puts(b, "::");
    put_string(b, u->id);
}

static void put_value(bw_buf *b, const bw_cedar_value *v)
{
    if (v->kind == BW_CEDAR__BOOL)
        bw_buf_puts(b, v->u.boolean ? "true" : "false");
    else if (v->kind == BW_CEDAR__LONG)
        bw_buf_printf(b, "%lld", (long long)v->u.integer);
    else if (v->kind == BW_CEDAR__STRING)
        put_string(b, (bw_str){v->u.text, v->n});
    else
        put_uid(b, v->u.uid);
}

static const char *const variables[] = {"principal", "action", "resource", "context"};

static void put_expr(printer *p, const bw_cedar__expr *e, bool truth);

/* Written as a list, without the element that is to go. */
static void put_list(printer *p, const bw_cedar__expr *e, const char *open,
                     const char *close, uint32_t from, bool droppable)
{
    bool first = true;
    bw_buf_puts(&p->out, open);
    for (uint32_t i = from; i < e->n; i++) {
        if (droppable && e->n > 1 && here(p, "drop a word", e->child[i]->offset))
            continue;
        bw_buf_puts(&p->out, first ? "" : ", ");
        put_expr(p, e->child[i], false);
        first = false;
    }
    bw_buf_puts(&p->out, close);
}

static void put_logic(printer *p, const bw_cedar__expr *e)
{
    bool and = e->op == BW_CEDAR__AND;
    if (here(p, "left alone", e->offset)) {
        put_expr(p, e->child[0], true);
        return;
    }
    if (here(p, "right alone", e->offset)) {
        put_expr(p, e->child[1], true);
        return;
    }
    if (here(p, and ? "&& to ||" : "|| to &&", e->offset))
        and = !and;
    bw_buf_putc(&p->out, '(');
    put_expr(p, e->child[0], true);
    bw_buf_puts(&p->out, and ? " && " : " || ");
    put_expr(p, e->child[1], true);
    bw_buf_putc(&p->out, ')');
}

static void put_infix(printer *p, const bw_cedar__expr *e, const char *as_is,
                      const char *other)
{
    put_expr(p, e->child[0], false);
    bw_buf_puts(&p->out, other && here(p, other, e->offset) ? other : as_is);
    put_expr(p, e->child[1], false);
}

static void put_method(printer *p, const bw_cedar__expr *e, const char *name,
                       const char *other)
{
    put_expr(p, e->child[0], false);
    bw_buf_puts(&p->out, other && here(p, other, e->offset) ? other : name);
    put_list(p, e, "(", ")", 1, false);
}

static void put_call(printer *p, const bw_cedar__expr *e)
{
    bw_str name = bw_cedar__fn_name((bw_cedar__fn)e->which);
    if (bw_cedar__fn_constructor((bw_cedar__fn)e->which)) {
        bw_buf_str(&p->out, name);
        put_list(p, e, "(", ")", 0, false);
        return;
    }
    put_expr(p, e->child[0], false);
    bw_buf_putc(&p->out, '.');
    if (e->which == BW_CEDAR__FN_LESS_THAN_OR_EQUAL && here(p, "lessThan", e->offset))
        name = BW_STR("lessThan");
    bw_buf_str(&p->out, name);
    put_list(p, e, "(", ")", 1, false);
}

static void put_get(printer *p, const bw_cedar__expr *e)
{
    bw_str name = e->u.names[0];
    put_expr(p, e->child[0], false);
    bw_buf_putc(&p->out, '[');
    if (bw_str_is(name, "dest") && here(p, "dest to at", e->offset))
        name = BW_STR("at");
    else if (bw_str_is(name, "at") && here(p, "at to dest", e->offset))
        name = BW_STR("dest");
    put_string(&p->out, name);
    bw_buf_putc(&p->out, ']');
}

/* Any node that needs no thought about && and ||. A kind that no pack uses yet ends the
 * program: it must be taught how to break it. */
static void put_plain(printer *p, const bw_cedar__expr *e)
{
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__VALUE:
        put_value(&p->out, &e->u.value);
        return;
    case BW_CEDAR__VAR:
        bw_buf_puts(&p->out, variables[e->which]);
        return;
    case BW_CEDAR__EQ:
        put_infix(p, e, " == ", NULL);
        return;
    case BW_CEDAR__NE:
        put_infix(p, e, " != ", NULL);
        return;
    case BW_CEDAR__LT:
        put_infix(p, e, " < ", " <= ");
        return;
    case BW_CEDAR__LE:
        put_infix(p, e, " <= ", " < ");
        return;
    case BW_CEDAR__GT:
        put_infix(p, e, " > ", " >= ");
        return;
    case BW_CEDAR__GE:
        put_infix(p, e, " >= ", " > ");
        return;
    case BW_CEDAR__IN:
        put_infix(p, e, " in ", NULL);
        return;
    case BW_CEDAR__CONTAINS:
        put_method(p, e, ".contains", NULL);
        return;
    case BW_CEDAR__CONTAINS_ALL:
        put_method(p, e, ".containsAll", ".containsAny");
        return;
    case BW_CEDAR__CONTAINS_ANY:
        put_method(p, e, ".containsAny", ".containsAll");
        return;
    case BW_CEDAR__IS_EMPTY:
        put_expr(p, e->child[0], false);
        bw_buf_puts(&p->out, ".isEmpty()");
        return;
    case BW_CEDAR__GET:
        put_get(p, e);
        return;
    case BW_CEDAR__HAS:
        put_expr(p, e->child[0], false);
        bw_buf_puts(&p->out, " has ");
        put_string(&p->out, e->u.names[0]);
        return;
    case BW_CEDAR__SET_OF:
        put_list(p, e, "[", "]", 0, true);
        return;
    case BW_CEDAR__CALL:
        put_call(p, e);
        return;
    default:
        fprintf(stderr, "policy_mutate: an expression of kind %d is not known\n", e->op);
        exit(2);
    }
}

/* truth: a condition or a part of one that && || ! put together. */
static void put_expr(printer *p, const bw_cedar__expr *e, bool truth)
{
    if (e->op == BW_CEDAR__AND || e->op == BW_CEDAR__OR) {
        put_logic(p, e);
        return;
    }
    if (e->op == BW_CEDAR__NOT) {
        bw_buf_puts(&p->out, here(p, "drop !", e->offset) ? "(" : "!(");
        put_expr(p, e->child[0], true);
        bw_buf_putc(&p->out, ')');
        return;
    }
    bw_buf_puts(&p->out, truth && here(p, "negate", e->offset) ? "!(" : "(");
    put_plain(p, e);
    bw_buf_putc(&p->out, ')');
}

static void put_scope(printer *p, const bw_cedar__scope *s, const char *name)
{
    char widen[64];
    (void)snprintf(widen, sizeof widen, "any %s", name);
    bw_buf_puts(&p->out, name);
    if (s->op == BW_CEDAR__SCOPE_ALL || here(p, widen, 0))
        return;
    if (s->op == BW_CEDAR__SCOPE_IS || s->op == BW_CEDAR__SCOPE_IS_IN) {
        bw_buf_puts(&p->out, " is ");
        bw_buf_str(&p->out, s->type);
    }
    if (s->op == BW_CEDAR__SCOPE_IS)
        return;
    bw_buf_puts(&p->out, s->op == BW_CEDAR__SCOPE_EQ ? " == " : " in ");
    if (s->op != BW_CEDAR__SCOPE_IN_LIST) {
        put_uid(&p->out, &s->uids[0]);
        return;
    }
    bool first = true;
    bw_buf_putc(&p->out, '[');
    for (uint32_t i = 0; i < s->n; i++) {
        (void)snprintf(widen, sizeof widen, "not %.*s", (int)s->uids[i].id.len,
                       s->uids[i].id.ptr);
        if (here(p, widen, 0))
            continue;
        bw_buf_puts(&p->out, first ? "" : ", ");
        put_uid(&p->out, &s->uids[i]);
        first = false;
    }
    bw_buf_putc(&p->out, ']');
}

static void put_clauses(printer *p, const bw_cedar__policy *policy)
{
    for (uint32_t i = 0; i < policy->nclauses; i++) {
        const bw_cedar__clause *c = &policy->clauses[i];
        bool unless = c->unless;
        if (here(p, unless ? "drop unless" : "drop when", c->body->offset))
            continue;
        if (here(p, unless ? "unless to when" : "when to unless", c->body->offset))
            unless = !unless;
        bw_buf_puts(&p->out, unless ? "\nunless { " : "\nwhen { ");
        put_expr(p, c->body, true);
        bw_buf_puts(&p->out, " }");
    }
}

static void put_policy(printer *p, const bw_cedar__policy *policy)
{
    bool forbid = policy->forbid;
    if (here(p, "drop the policy", 0))
        return;
    if (here(p, "swap permit and forbid", 0))
        forbid = !forbid;
    for (uint32_t i = 0; i < policy->nannotations; i++) {
        if (!bw_str_is(policy->annotations[i].key, "id"))
            continue;
        bw_buf_puts(&p->out, "@id(");
        put_string(&p->out, policy->annotations[i].value);
        bw_buf_puts(&p->out, ")\n");
    }
    bw_buf_puts(&p->out, forbid ? "forbid (" : "permit (");
    for (int i = 0; i < 3; i++) {
        bw_buf_puts(&p->out, i ? ", " : "");
        put_scope(p, &policy->scope[i], variables[i]);
    }
    bw_buf_puts(&p->out, ")");
    put_clauses(p, policy);
    bw_buf_puts(&p->out, ";\n");
}

/* ---- mutants ---- */

typedef struct mutant {
    bw_str id, text;
    char what[80];
    uint32_t where;
    bool equivalent;
} mutant;

typedef struct pack {
    bw_ctx *ctx;
    bw_str name, rest; /* rest: the other packs of the tests' set */
    const char *tests;
    bw_cedar_policies *policies;
    mutant *mutants; /* [0] is no mutant: the set as it is, printed */
    bw_str *sets;
    bw_policy_verdict *verdicts;
    size_t n;
} pack;

typedef struct score {
    size_t packs, policies, mutants, noticed, refused, survived, equivalent, wrong;
} score;

static void must(bw_ctx *ctx, bw_status s, const char *what)
{
    if (s == BW_OK)
        return;
    fprintf(stderr, "policy_mutate: %s: %s %s\n", what, bw_ctx_pointer(ctx),
            bw_ctx_message(ctx));
    exit(2);
}

/* The pack with its policy `which` broken at `target`; false when there is no such
 * place. */
static bool print_set(pack *k, uint32_t which, uint32_t target)
{
    printer p = {.target = target};
    bw_buf_str(&p.out, k->rest);
    for (uint32_t i = 0; i < k->policies->n; i++) {
        p.target = i == which ? target : NO_MUTANT;
        p.at = 0;
        put_policy(&p, &k->policies->policies[i]);
    }
    bool hit = target == NO_MUTANT || p.what[0] != '\0';
    if (hit && k->n == MUTANTS_MAX) {
        fprintf(stderr, "policy_mutate: more than %d mutants\n", MUTANTS_MAX);
        exit(2);
    }
    if (hit) {
        mutant *m = &k->mutants[k->n];
        (void)bw_cedar_policy_annotation(k->policies, which, BW_STR("id"), &m->id);
        memcpy(m->what, p.what, sizeof m->what);
        m->where = p.where;
        must(k->ctx, p.out.failed ? BW_ENOMEM
                                  : bw_arena_str(k->ctx, bw_buf_view(&p.out), &m->text),
             "memory");
        k->sets[k->n++] = m->text;
    }
    bw_buf_clear(&p.out);
    return hit;
}

static void read_rest(pack *k, const char *folder)
{
    bw_str text, names[BW_PACKS_MAX];
    bw_json *root;
    size_t n = 0;
    must(k->ctx, bw_file_read(k->ctx, k->tests, BW_PACK_BYTES_MAX, &text), k->tests);
    must(k->ctx, bw_json_parse(k->ctx, text, BW_JSON_CEDAR, &root), k->tests);
    const bw_json *list = bw_json_get(root, "policies");
    for (const bw_json *v = list ? list->child : NULL; v && n < BW_PACKS_MAX; v = v->next)
        if (v->kind == BW_JSON_STRING && !bw_str_eq(v->str, k->name))
            names[n++] = v->str;
    must(k->ctx, bw_pack_compose_in(k->ctx, folder, names, n, &k->rest), k->tests);
    must(k->ctx, bw_pack_compose_in(k->ctx, folder, &k->name, 1, &text), k->tests);
    must(k->ctx, bw_cedar_policies_parse(k->ctx, text, &k->policies), k->tests);
}

/* Lines "PACK/POLICY NUMBER WHAT # why", as printed by -v. */
static bool is_equivalent(const pack *k, bw_str list, const mutant *m)
{
    char *line = bw_arena_printf(k->ctx, "%.*s/%.*s %s # ", (int)k->name.len,
                                 k->name.ptr, (int)m->id.len, m->id.ptr, m->what);
    must(k->ctx, line ? BW_OK : BW_ENOMEM, "memory");
    size_t n = strlen(line);
    for (size_t i = 0; i + n < list.len; i++)
        if ((i == 0 || list.ptr[i - 1] == '\n') && memcmp(list.ptr + i, line, n) == 0)
            return true;
    return false;
}

static void tell(const pack *k, const mutant *m, const char *verdict)
{
    bw_str text = k->policies->text;
    size_t n = 0;
    while (m->where > 0 && m->where + n < text.len && n < 60 && text.ptr[m->where + n] != '\n')
        n++;
    printf("%s %.*s/%.*s %s  %.*s\n", verdict, (int)k->name.len, k->name.ptr,
           (int)m->id.len, m->id.ptr, m->what, (int)n, text.ptr + m->where);
}

/* Such a survivor means that no case has the clause (or the policy) true, or none has it
 * false: each must be tested on both sides, whatever the score. */
static bool one_sided(const mutant *m)
{
    return strstr(m->what, "drop the policy") || strstr(m->what, "drop when") ||
           strstr(m->what, "drop unless");
}

static void count(const pack *k, size_t i, bool verbose, score *sum)
{
    const mutant *m = &k->mutants[i];
    bw_policy_verdict v = k->verdicts[i];
    sum->mutants++;
    if (m->equivalent && v == BW_POLICY_FAILS) {
        sum->wrong++;
        tell(k, m, "not equivalent");
    } else if (m->equivalent) {
        sum->equivalent++;
    } else if (v == BW_POLICY_PASSES) {
        sum->survived++;
        sum->wrong += one_sided(m);
        tell(k, m, "survived");
    } else {
        sum->noticed += v == BW_POLICY_FAILS;
        sum->refused += v == BW_POLICY_REFUSED;
        if (verbose)
            tell(k, m, v == BW_POLICY_FAILS ? "noticed" : "refused");
    }
}

static void run_pack(const bw_policy_test_options *o, bw_str name, bw_str equivalent,
                     bool verbose, score *sum)
{
    pack k = {.ctx = bw_ctx_new(0), .name = name};
    k.tests = bw_arena_printf(k.ctx, "%s/tests/%.*s.json", o->packs, (int)name.len,
                              name.ptr);
    k.mutants = bw_arena_calloc(k.ctx, MUTANTS_MAX, sizeof *k.mutants);
    k.sets = bw_arena_calloc(k.ctx, MUTANTS_MAX, sizeof *k.sets);
    k.verdicts = bw_arena_calloc(k.ctx, MUTANTS_MAX, sizeof *k.verdicts);
    must(k.ctx, k.tests && k.mutants && k.sets && k.verdicts ? BW_OK : BW_ENOMEM,
         "memory");
    read_rest(&k, o->packs);
    (void)print_set(&k, 0, NO_MUTANT);
    for (uint32_t i = 0; i < k.policies->n; i++)
        for (uint32_t target = 0; print_set(&k, i, target);)
            target++;
    must(k.ctx, bw_policy_test_judge(k.ctx, o, k.tests, k.sets, k.n, k.verdicts),
         k.tests);
    if (k.verdicts[0] != BW_POLICY_PASSES) {
        fprintf(stderr, "policy_mutate: %s does not pass as it is\n", k.tests);
        exit(2);
    }
    score own = {0};
    for (size_t i = 1; i < k.n; i++) {
        k.mutants[i].equivalent = is_equivalent(&k, equivalent, &k.mutants[i]);
        count(&k, i, verbose, &own);
    }
    printf("%-20.*s %3u policies, %4zu mutants: %4zu noticed, %3zu refused, %zu "
           "equivalent, %zu survived\n",
           (int)name.len, name.ptr, k.policies->n, own.mutants, own.noticed, own.refused,
           own.equivalent, own.survived);
    sum->packs++;
    sum->policies += k.policies->n;
    sum->mutants += own.mutants;
    sum->noticed += own.noticed;
    sum->refused += own.refused;
    sum->survived += own.survived;
    sum->equivalent += own.equivalent;
    sum->wrong += own.wrong;
    bw_cedar_policies_free(k.policies);
    bw_ctx_free(k.ctx);
}

/* ---- all packs ---- */

static int by_bytes(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

static size_t all_packs(bw_ctx *ctx, const char *folder, bw_str *names)
{
    DIR *d = opendir(folder);
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d)) != NULL && n < BW_PACKS_MAX;) {
        bw_str file = bw_str_c(e->d_name);
        if (file.len > 6 && memcmp(file.ptr + file.len - 6, ".cedar", 6) == 0)
            must(ctx, bw_arena_str(ctx, (bw_str){file.ptr, file.len - 6}, &names[n++]),
                 "memory");
    }
    if (d)
        closedir(d);
    qsort(names, n, sizeof *names, by_bytes);
    return n;
}

int main(int argc, char **argv)
{
    static bw_str names[BW_PACKS_MAX];
    bw_ctx *ctx = bw_ctx_new(0);
    bw_policy_test_options o;
    bw_str equivalent = {NULL, 0};
    score sum = {0};
    bool verbose = false;
    size_t n = 0;
    if (argc < 2 || sodium_init() < 0) {
        fprintf(stderr, "usage: policy_mutate PACKS_FOLDER [-v] [NAME…]\n");
        return 2;
    }
    memset(&o, 0, sizeof o);
    o.packs = argv[1];
    o.at = (bw_place){.id = BW_STR("cell"), .country = BW_STR("FR"),
                      .operator_id = BW_STR("unknown")};
    must(ctx, bw_pack_read(ctx, argv[1], &o.pack), argv[1]);
    const char *path = bw_arena_printf(ctx, "%s/tests/equivalent.txt", argv[1]);
    if (path && bw_file_exists(path))
        must(ctx, bw_file_read(ctx, path, 1 << 20, &equivalent), path);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            verbose = true;
        else if (n < BW_PACKS_MAX)
            names[n++] = bw_str_c(argv[i]);
    }
    if (n == 0)
        n = all_packs(ctx, argv[1], names);
    for (size_t i = 0; i < n; i++)
        run_pack(&o, names[i], equivalent, verbose, &sum);
    size_t of = sum.noticed + sum.survived;
    printf("%zu packs, %zu policies, %zu mutants: %zu of %zu noticed (%.1f %%), %zu refused "
           "as sets, %zu equivalent\n",
           sum.packs, sum.policies, sum.mutants, sum.noticed, of,
           of ? 100.0 * (double)sum.noticed / (double)of : 0.0, sum.refused,
           sum.equivalent);
    bw_ctx_free(ctx);
    return of == 0 || sum.noticed * 100 < of * SCORE_MIN || sum.wrong > 0 ? 1 : 0;
}
