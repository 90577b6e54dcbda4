/* The law of residuals (partly evaluated and finished = authorized) on every operator
 * over every choice of operands: unknown, known, of a wrong kind, erring. */
#include "residual_fixture.h"

/* Operands that the resource decides, that are known, and that err. */
static const char *const atoms[] = {
    "resource",          "resource.open",      "resource.size",   "resource.owner",
    "resource.words",    "resource.groups",    "resource.note",   "resource.meta",
    "resource.addr",     "resource.owner.age", "resource.absent", "context.doc",
    "context.yes",       "context.no",         "context.n",       "context.s",
    "User::\"alice\"",   "[Group::\"g\"]",     "[]",              "ip(\"10.0.0.1\")",
    "principal.absent"};
enum { ATOMS = sizeof atoms / sizeof *atoms };

/* A, B and C stand for operands. */
static const char *const of_two[] = {"A && B",
                                     "A || B",
                                     "A == B",
                                     "A != B",
                                     "A < B",
                                     "A <= B",
                                     "A > B",
                                     "A >= B",
                                     "A + B",
                                     "A - B",
                                     "A * B",
                                     "A in B",
                                     "A is User in B",
                                     "A is Doc in B",
                                     "A is Folder in B",
                                     "A.contains(B)",
                                     "A.containsAll(B)",
                                     "A.containsAny(B)",
                                     "A.hasTag(B)",
                                     "A.getTag(B)",
                                     "A.isInRange(B)",
                                     "A in [User::\"alice\", B]",
                                     "[A, B].isEmpty()",
                                     "[A].contains(B)",
                                     "{a: A, b: B}.a",
                                     "{a: A, b: B} has a",
                                     "if A then B else context.no",
                                     "if A then context.yes else B"};
static const char *const of_one[] = {
    "A",
    "!A",
    "-(A)",
    "A.isEmpty()",
    "A.isIpv4()",
    "A like \"te*\"",
    "A is User",
    "A is Doc",
    "A has note",
    "A has age",
    "A has pii",
    "A has meta.region",
    "A has owner.age",
    "A.age",
    "A.pii",
    "A.open",
    "ip(A).isIpv4()",
    "decimal(A).lessThan(decimal(\"1.0\"))",
};
static const char *const of_three[] = {"if A then B else C", "A && B || C",
                                       "(A is User in B) && C", "A is User in [B, C]"};
/* E stands for all of the above: alone, and where it matters whether it can err, is a
 * Bool, or is looked at. */
static const char *const around[] = {"E", "(E) && context.no", "(E) || context.yes",
                                     "(E) == 3", "context.yes && (E)",
                                     "(context.yes && (E)) == resource.open"};

#define DOC(id, rest)                                                            \
    "[{\"uid\":{\"type\":\"Doc\",\"id\":\"" id "\"},\"attrs\":{" rest "},"       \
    "\"parents\":[{\"type\":\"Folder\",\"id\":\"f\"}],\"tags\":{\"text\":7}}]"
#define FIT(owner, groups)                                                       \
    "\"owner\":{\"__entity\":{\"type\":\"User\",\"id\":\"" owner "\"}},"         \
    "\"size\":7,\"words\":[\"text\"],\"groups\":" groups ",\"open\":true,"       \
    "\"cost\":{\"__extn\":{\"fn\":\"decimal\",\"arg\":\"1.5\"}},"                \
    "\"addr\":{\"__extn\":{\"fn\":\"ip\",\"arg\":\"10.0.0.1\"}},"                \
    "\"at\":{\"__extn\":{\"fn\":\"datetime\",\"arg\":\"2023-01-01\"}},"          \
    "\"meta\":{\"pii\":false}"
/* The first two conform to the schema; of the third, hardly an attribute does. */
static const char *const docs[] = {
    DOC("a", FIT("alice", "[]")),
    DOC("in", FIT("bob", "[{\"__entity\":{\"type\":\"Group\",\"id\":\"g\"}}]")
                  ",\"note\":\"text\""),
    DOC("odd", "\"owner\":{\"__entity\":{\"type\":\"Doc\",\"id\":\"in\"}},\"size\":\""
               "text\",\"words\":3,\"groups\":true,\"open\":7,\"note\":[],\"addr\":0"),
};
static const char *const ids[] = {"a", "in", "odd", "nowhere"};
enum { FITTING = 2, DOCS = 3, IDS = 4 };

static const char context[] =
    "{\"n\":7,\"s\":\"text\",\"yes\":true,\"no\":false,\"doc\":{\"__entity\":{\"type\":"
    "\"Doc\",\"id\":\"in\"}},\"who\":{\"__entity\":{\"type\":\"User\",\"id\":\"carol\"}"
    "},\"w\":[\"x\"]}";

typedef struct stage {
    bw_cedar_entities *own[DOCS];
    bw_cedar_request q;
    size_t open, erred; /* residuals; answers' errors */
} stage;

static void put_form(bw_buf *b, const char *form, const char *const operands[3])
{
    for (const char *c = form; *c; c++) {
        if (*c >= 'A' && *c <= 'C' && (c[1] < 'a' || c[1] > 'z') &&
            (c == form || c[-1] < 'a' || c[-1] > 'z'))
            bw_buf_puts(b, operands[*c - 'A']);
        else
            bw_buf_putc(b, *c);
    }
}

static void put_policy(bw_buf *b, const char *frame, const char *form,
                       const char *const operands[3])
{
    const char *at = strchr(frame, 'E');
    bw_buf_puts(b, "permit(principal, action, resource) when { ");
    bw_buf_put(b, frame, (size_t)(at - frame));
    put_form(b, form, operands);
    bw_buf_puts(b, at + 1);
    bw_buf_puts(b, " };\n");
}

static bool same(const uint32_t *a, size_t na, const uint32_t *b, size_t nb)
{
    return na == nb && (na == 0 || memcmp(a, b, na * sizeof *a) == 0);
}

/* The line of text that is the first policy where the two lists part. */
static void part_at(const char *text, const uint32_t *a, size_t na, const uint32_t *b,
                    size_t nb, const char *what)
{
    size_t i = 0;
    if (same(a, na, b, nb))
        return;
    while (i < na && i < nb && a[i] == b[i])
        i++;
    uint32_t line = i < na && (i == nb || a[i] < b[i]) ? a[i] : b[i];
    for (; line > 0; line--)
        text = strchr(text, '\n') + 1;
    fail_msg("%s differ: %.*s", what, (int)strcspn(text, "\n"), text);
}

static void check_set(world *w, stage *s, const char *text)
{
    bw_cedar_policies *p = policies_of(w->ctx, text);
    for (int on = 0; on < 2; on++) {
        const bw_cedar_schema *schema = on ? w->schema : NULL;
        const bw_cedar_partial_options o = {.resources_conform = on};
        bw_cedar_residuals *left = NULL;
        s->q.resource = uid("Doc", "");
        s->q.extra = NULL;
        assert_int_equal(
            bw_cedar_partial(w->ctx, p, w->entities, schema, &s->q, &o, &left), BW_OK);
        s->open += bw_cedar_residuals_count(left, BW_CEDAR_RESIDUAL_OPEN);
        for (int i = 0; i < (on ? FITTING : IDS); i++) {
            bw_cedar_answer a, b;
            s->q.resource = uid("Doc", ids[i]);
            s->q.extra = i < DOCS ? s->own[i] : NULL;
            assert_int_equal(
                bw_cedar_authorize(w->ctx, p, w->entities, schema, &s->q, &a), BW_OK);
            assert_int_equal(bw_cedar_residuals_finish(w->ctx, left, s->q.extra,
                                                       &s->q.resource, &b),
                             BW_OK);
            part_at(text, a.errors, a.nerrors, b.errors, b.nerrors, "errors");
            part_at(text, a.reasons, a.nreasons, b.reasons, b.nreasons, "reasons");
            assert_int_equal(a.allow, b.allow);
            s->erred += a.nerrors;
        }
        bw_cedar_residuals_free(left);
    }
    bw_cedar_policies_free(p);
}

/* form over all choices of `n` operands, in sets of at most ATOMS policies. */
static void check_form(world *w, stage *s, const char *frame, const char *form, int n)
{
    int sets = n == 3 ? ATOMS * ATOMS : n == 2 ? ATOMS : 1;
    for (int k = 0; k < sets; k++) {
        bw_arena_mark mark = bw_arena_mark_get(w->ctx);
        bw_buf b = {0};
        for (int last = 0; last < ATOMS; last++) {
            const char *all[3] = {atoms[k % ATOMS], atoms[k / ATOMS], NULL};
            all[n - 1] = atoms[last];
            put_policy(&b, frame, form, all);
        }
        bw_buf_putc(&b, 0);
        check_set(w, s, b.ptr);
        bw_buf_clear(&b);
        bw_arena_release(w->ctx, mark);
    }
}

static void check_forms(void **state, const char *const *forms, size_t nforms, int n)
{
    world *w = *state;
    stage s = {.q = residual_request(w)};
    size_t frames = n == 3 ? 1 : sizeof around / sizeof *around;
    s.q.context = json_of(w->ctx, context);
    for (int i = 0; i < DOCS; i++)
        s.own[i] = entities_of(w->ctx, i < FITTING ? w->schema : NULL, docs[i]);
    for (size_t f = 0; f < frames; f++)
        for (size_t i = 0; i < nforms; i++)
            check_form(w, &s, around[f], forms[i], n);
    assert_true(s.open > nforms && s.erred > nforms);
    for (int i = 0; i < DOCS; i++)
        bw_cedar_entities_free(s.own[i]);
}
#define CHECK_FORMS(state, forms, n) \
    check_forms(state, forms, sizeof(forms) / sizeof *(forms), n)

static void test_residual_operators__of_one_keep_the_law(void **state)
{
    CHECK_FORMS(state, of_one, 1);
}

static void test_residual_operators__of_two_keep_the_law(void **state)
{
    CHECK_FORMS(state, of_two, 2);
}

static void test_residual_operators__of_three_keep_the_law(void **state)
{
    CHECK_FORMS(state, of_three, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        residual_test(test_residual_operators__of_one_keep_the_law),
        residual_test(test_residual_operators__of_two_keep_the_law),
        residual_test(test_residual_operators__of_three_keep_the_law),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
