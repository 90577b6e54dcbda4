/* Finishing residuals: the law (partly evaluated and finished = authorized) on random
 * policies, what a finishing store may say, and what is refused. */
#include "residual_fixture.h"

#include <pthread.h>

static unsigned long seed;

static int pick(int n)
{
    return (int)(random() % n);
}

/* ---- random policies: mostly well typed, by the kind wanted ---- */
static void put_bool(bw_buf *b, int depth);

static void put_one(bw_buf *b, const char *const *list, int n)
{
    bw_buf_puts(b, list[pick(n)]);
}
#define PUT_ONE(b, list) put_one(b, list, (int)(sizeof(list) / sizeof *(list)))

static void put_long(bw_buf *b, int depth)
{
    static const char *const leaves[] = {
        "resource.size",    "context.n",          "principal.age",         "3", "7",
        "context.doc.size", "resource.owner.age", "resource.getTag(\"t\")"};
    if (depth <= 0 || pick(2)) {
        PUT_ONE(b, leaves);
        return;
    }
    bw_buf_puts(b, pick(4) ? "(" : "-(");
    put_long(b, depth - 1);
    bw_buf_puts(b, pick(3) == 0 ? " - " : pick(2) ? " + " : " * ");
    put_long(b, depth - 1);
    bw_buf_putc(b, ')');
}

static void put_entity(bw_buf *b)
{
    static const char *const list[] = {
        "resource",      "principal",        "resource.owner",  "context.doc",
        "context.who",   "principal.boss",   "User::\"alice\"", "Doc::\"b\"",
        "Folder::\"f\"", "Folder::\"root\"", "Group::\"top\"",  "Doc::\"in\"",
        "Group::\"g\""};
    PUT_ONE(b, list);
}

static void put_set(bw_buf *b)
{
    static const char *const list[] = {"resource.words",
                                       "context.w",
                                       "[\"x\"]",
                                       "[context.s, \"y\"]",
                                       "[]",
                                       "resource.groups",
                                       "[Group::\"g\", Folder::\"f\"]",
                                       "[principal, resource]"};
    PUT_ONE(b, list);
}

static void put_compare(bw_buf *b, int depth)
{
    static const char *const ops[] = {" == ", " != ", " < ", " <= ", " > ", " >= "};
    put_long(b, depth - 1);
    PUT_ONE(b, ops);
    put_long(b, depth - 1);
}

static void put_membership(bw_buf *b)
{
    static const char *const ops[] = {".contains(context.s)", ".contains(principal)",
                                      ".containsAny(context.w)", ".isEmpty()",
                                      ".containsAll([\"x\", \"y\"])"};
    switch (pick(4)) {
    case 0:
        put_set(b);
        PUT_ONE(b, ops);
        return;
    case 1:
        put_entity(b);
        bw_buf_puts(b, " in ");
        put_set(b);
        return;
    default:
        put_entity(b);
        bw_buf_puts(b, pick(2) ? " in " : " == ");
        put_entity(b);
    }
}

static void put_leaf(bw_buf *b)
{
    static const char *const list[] = {
        "true", "false", "context.yes", "context.no", "resource.open",
        "resource.meta.pii", "resource has note", "resource has meta.region",
        "resource has open", "resource has absent", "resource.note like \"n*\"",
        "context.s like \"t*t\"", "resource is Doc", "resource is Doc in Folder::\"f\"",
        "resource.owner is User in Group::\"g\"", "resource.addr.isIpv4()",
        "resource.cost.lessThan(decimal(\"2.0\"))",
        "resource.at < datetime(\"2024-01-01\")", "resource.hasTag(\"t\")",
        "principal has boss.age", "context.doc.open", "context.doc has open",
        "context.doc in Folder::\"root\"",
        "context.doc in [Group::\"g\", Folder::\"new\"]", "principal.open",
        "principal has note", "principal == resource", "resource.info has a",
        "resource.info.a",
        /* and what does not validate */
        "resource.absent", "resource.note", "resource", "context.n", "principal.absent",
        "{\"a\": resource.open, \"b\": resource.note}.a", "[resource.note].isEmpty()",
        "ip(resource.note).isIpv4()"};
    PUT_ONE(b, list);
}

static void put_bool(bw_buf *b, int depth)
{
    int kind = depth <= 0 ? 6 : pick(9);
    if (kind <= 1) {
        bw_buf_putc(b, '(');
        put_bool(b, depth - 1);
        bw_buf_puts(b, kind ? " && " : " || ");
        put_bool(b, depth - 1);
        bw_buf_putc(b, ')');
    } else if (kind == 2) {
        bw_buf_puts(b, "!(");
        put_bool(b, depth - 1);
        bw_buf_putc(b, ')');
    } else if (kind == 3) {
        bw_buf_puts(b, "(if ");
        put_bool(b, depth - 1);
        bw_buf_puts(b, " then ");
        put_bool(b, depth - 1);
        bw_buf_puts(b, " else ");
        put_bool(b, depth - 1);
        bw_buf_putc(b, ')');
    } else if (kind == 4) {
        put_compare(b, depth);
    } else if (kind == 5) {
        put_membership(b);
    } else {
        put_leaf(b);
    }
}

static void put_policy(bw_buf *b)
{
    static const char *const principals[] = {"principal",
                                             "principal",
                                             "principal is User",
                                             "principal in Group::\"top\"",
                                             "principal in Folder::\"f\"",
                                             "principal == User::\"alice\""};
    static const char *const resources[] = {"resource",
                                            "resource",
                                            "resource is Doc",
                                            "resource in Folder::\"root\"",
                                            "resource == Doc::\"b\"",
                                            "resource is Doc in Folder::\"f\"",
                                            "resource == Folder::\"f\"",
                                            "resource in Group::\"g\""};
    bw_buf_puts(b, pick(3) ? "permit(" : "forbid(");
    PUT_ONE(b, principals);
    bw_buf_puts(b, ", action, ");
    PUT_ONE(b, resources);
    bw_buf_puts(b, ")");
    for (int n = pick(3); n > 0; n--) {
        bw_buf_puts(b, pick(3) ? " when { " : " unless { ");
        put_bool(b, 4);
        bw_buf_puts(b, " }");
    }
    bw_buf_puts(b, ";\n");
}

/* ---- worlds ---- */
#define DOC(id, rest)                                                                \
    "{\"uid\":{\"type\":\"Doc\",\"id\":\"" id                                        \
    "\"},\"attrs\":{\"owner\":{\"__entity\":{"                                       \
    "\"type\":\"User\",\"id\":\"alice\"}},\"cost\":{\"__extn\":{\"fn\":\"decimal\"," \
    "\"arg\":\"1.5\"}},\"addr\":{\"__extn\":{\"fn\":\"ip\",\"arg\":\"10.0.0.1\"}},"  \
    "\"at\":{\"__extn\":{\"fn\":\"datetime\",\"arg\":\"2023-01-01\"}}," rest "}"
static const char *const docs[] = {
    DOC("a",
        "\"size\":7,\"words\":[\"x\",\"text\"],\"groups\":[],\"open\":true,\"meta\":"
        "{\"pii\":false}},\"parents\":[{\"type\":\"Folder\",\"id\":\"f\"}],"
        "\"tags\":{\"t\":7}"),
    DOC("b",
        "\"size\":3,\"words\":[],\"groups\":[{\"__entity\":{\"type\":\"Group\","
        "\"id\":\"top\"}}],\"open\":false,\"note\":\"note\",\"meta\":{\"pii\":true,"
        "\"region\":\"x\"}},\"parents\":[]"),
    DOC("in", "\"size\":-9223372036854775807,\"words\":[\"x\",\"y\"],\"groups\":[{"
              "\"__entity\":{\"type\":\"Group\",\"id\":\"g\"}}],\"open\":true,\"note\":"
              "\"\",\"meta\":{\"pii\":true}},\"parents\":[{\"type\":\"Folder\",\"id\":"
              "\"root\"}]"),
};
/* A folder where the base has another of that name, in the way of others' ancestry. */
static const char folder[] =
    "[{\"uid\":{\"type\":\"Folder\",\"id\":\"f\"},\"attrs\":{\"size\":3,\"open\":true},"
    "\"parents\":[{\"type\":\"Folder\",\"id\":\"new\"},{\"type\":\"Group\",\"id\":"
    "\"g\"}"
    "]}]";

static bw_cedar_entities *joined(world *w, const bw_cedar_schema *schema,
                                 const char *base, const char *one)
{
    bw_buf b = {0};
    bw_buf_put(&b, base, strlen(base) - 1);
    if (one) {
        bw_buf_putc(&b, ',');
        bw_buf_puts(&b, one);
    }
    bw_buf_putc(&b, ']');
    bw_buf_putc(&b, 0);
    bw_cedar_entities *e = entities_of(w->ctx, schema, b.ptr);
    bw_buf_clear(&b);
    return e;
}

static bw_cedar_entities *alone(world *w, const bw_cedar_schema *schema,
                                const char *one)
{
    char text[2048];
    snprintf(text, sizeof text, "[%s]", one);
    return entities_of(w->ctx, schema, text);
}

static bool same(const uint32_t *a, size_t na, const uint32_t *b, size_t nb)
{
    return na == nb && (na == 0 || memcmp(a, b, na * sizeof *a) == 0);
}

/* One resource, both ways. left: from the same question with the resource unknown. */
static void check_law(world *w, const char *text, const bw_cedar_policies *p,
                      const bw_cedar_request *q, const bw_cedar_residuals *left,
                      const bw_cedar_entities *base, const bw_cedar_entities *store,
                      const bw_cedar_schema *schema, const char *what)
{
    bw_cedar_request direct = *q;
    bw_cedar_answer a, b;
    bool allow;
    if (store)
        direct.extra = store;
    bw_status st = bw_cedar_authorize(w->ctx, p, base, schema, &direct, &a);
    assert_int_equal(st, BW_OK);
    if (bw_cedar_residuals_finish(w->ctx, left, store, &q->resource, &b) != BW_OK ||
        bw_cedar_residuals_allow(w->ctx, left, store, &q->resource, &allow) != BW_OK)
        fail_msg("seed %lu, %s: %s\n%s", seed, what, bw_ctx_message(w->ctx), text);
    if (a.allow != b.allow || a.forbid_errored != b.forbid_errored ||
        !same(a.reasons, a.nreasons, b.reasons, b.nreasons) ||
        !same(a.errors, a.nerrors, b.errors, b.nerrors) ||
        allow != (a.allow && !a.forbid_errored))
        fail_msg("seed %lu, %s: %.*s differs\n%s", seed, what, (int)q->resource.id.len,
                 q->resource.id.ptr, text);
}

typedef struct stage { /* what the rounds share */
    bw_cedar_entities *own[3], *with[3], *folder, *loose;
    const bw_json *context;
} stage;

static stage stage_of(world *w)
{
    stage s = {.context = json_of(w->ctx, residual_context)};
    for (int i = 0; i < 3; i++) {
        s.own[i] = alone(w, w->schema, docs[i]);
        s.with[i] = joined(w, w->schema, residual_entities, docs[i]);
    }
    s.folder = entities_of(w->ctx, NULL, folder);
    s.loose = joined(w, NULL, residual_entities, docs[0]);
    return s;
}

static void stage_clear(stage *s)
{
    for (int i = 0; i < 3; i++) {
        bw_cedar_entities_free(s->own[i]);
        bw_cedar_entities_free(s->with[i]);
    }
    bw_cedar_entities_free(s->folder);
    bw_cedar_entities_free(s->loose);
}

/* Documents beside the base, in it, and nowhere; the switch off and on. The principal
 * may be one of them. */
static size_t check_docs(world *w, const stage *s, const char *text,
                         const bw_cedar_policies *p, bw_cedar_uid principal)
{
    static const char *const ids[] = {"a", "b", "in"};
    bw_cedar_request q = residual_request(w);
    size_t open[2] = {0};
    q.context = s->context;
    q.principal = principal;
    for (int on = 0; on < 2; on++) {
        bw_cedar_residuals *left = residuals_of(w, p, &q, on), *in = NULL;
        const bw_cedar_partial_options o = {.resources_conform = on};
        open[on] = bw_cedar_residuals_count(left, BW_CEDAR_RESIDUAL_OPEN);
        for (int i = 0; i < 3; i++) {
            q.resource = uid("Doc", ids[i]);
            check_law(w, text, p, &q, left, w->entities, s->own[i], w->schema,
                      on ? "beside, on" : "beside");
            if (!on)
                check_law(w, text, p, &q, left, w->entities, NULL, w->schema,
                          "nowhere");
            assert_int_equal(
                bw_cedar_partial(w->ctx, p, s->with[i], w->schema, &q, &o, &in), BW_OK);
            check_law(w, text, p, &q, in, s->with[i], NULL, w->schema, "in the base");
            check_law(w, text, p, &q, in, s->with[i], s->own[i], w->schema, "in both");
            bw_cedar_residuals_free(in);
        }
        bw_cedar_residuals_free(left);
    }
    assert_true(open[1] <= open[0]);
    return open[0];
}

/* Folders, which others are in: their ancestry depends on the resource. No schema. */
static void check_folders(world *w, const stage *s, const char *text,
                          const bw_cedar_policies *p)
{
    static const char context[] =
        "{\"n\":7,\"s\":\"text\",\"yes\":true,\"no\":false,\"doc\":{\"__entity\":{"
        "\"type\":\"Doc\",\"id\":\"a\"}},\"who\":{\"__entity\":{\"type\":\"User\","
        "\"id\":"
        "\"carol\"}},\"w\":[\"x\",\"y\"]}";
    bw_cedar_request q = {.principal = uid("User", "alice"),
                          .action = uid("Action", "view"),
                          .resource = uid("Folder", ""),
                          .context = json_of(w->ctx, context)};
    bw_cedar_residuals *left = NULL;
    assert_int_equal(bw_cedar_partial(w->ctx, p, s->loose, NULL, &q, NULL, &left),
                     BW_OK);
    q.resource = uid("Folder", "f");
    check_law(w, text, p, &q, left, s->loose, s->folder, NULL, "folder beside");
    check_law(w, text, p, &q, left, s->loose, NULL, NULL, "folder in the base");
    q.resource = uid("Folder", "nowhere");
    check_law(w, text, p, &q, left, s->loose, NULL, NULL, "folder nowhere");
    bw_cedar_residuals_free(left);
}

static void test_residual_law__holds_for_random_policies(void **state)
{
    world *w = *state;
    int rounds = getenv("BW_NIGHTLY") ? 50000 : 500;
    stage s = stage_of(w);
    size_t open = 0;
    srandom((unsigned)seed);
    for (int k = 0; k < rounds; k++) {
        bw_arena_mark mark = bw_arena_mark_get(w->ctx);
        bw_buf b = {0};
        for (int n = 1 + pick(5); n > 0; n--)
            put_policy(&b);
        bw_buf_putc(&b, 0);
        bw_cedar_policies *p = policies_of(w->ctx, b.ptr);
        open += check_docs(w, &s, b.ptr, p, uid("User", "alice"));
        (void)check_docs(w, &s, b.ptr, p, uid("Doc", "a"));
        check_folders(w, &s, b.ptr, p);
        bw_cedar_policies_free(p);
        bw_buf_clear(&b);
        bw_arena_release(w->ctx, mark);
    }
    printf("%d sets, %zu policies left open\n", rounds, open);
    assert_true(open > (size_t)rounds / 2);
    stage_clear(&s);
}

/* ---- finishing ---- */
static void test_residual_finish__refuses_what_is_not_asked(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
    bw_cedar_policies *p = policies_of(
        w->ctx, "permit(principal, action, resource) when { resource.open };");
    bw_cedar_residuals *r = residuals_of(w, p, &q, true);
    bw_cedar_entities *own = alone(w, w->schema, docs[0]);
    bw_cedar_answer a;
    bool allow = false;
    bw_cedar_uid id = uid("User", "alice");
    assert_int_equal(bw_cedar_residuals_finish(w->ctx, r, own, &id, &a), BW_EINVALID);
    assert_int_equal(bw_cedar_residuals_allow(w->ctx, r, own, &id, &allow),
                     BW_EINVALID);
    id = uid("Doc", "b"); /* promised to be in a store */
    assert_int_equal(bw_cedar_residuals_finish(w->ctx, r, own, &id, &a), BW_EINVALID);
    assert_int_equal(bw_cedar_residuals_allow(w->ctx, r, NULL, &id, &allow),
                     BW_EINVALID);
    assert_false(allow);
    id = uid("Doc", "a");
    assert_int_equal(bw_cedar_residuals_allow(w->ctx, r, own, &id, &allow), BW_OK);
    assert_true(allow);
    bw_cedar_residuals_free(r);
    q.resource = uid("Kind", "");
    r = residuals_of(w, p, &q, false);
    id = uid("Kind", "three"); /* an enumerated type has no such id */
    assert_int_equal(bw_cedar_residuals_finish(w->ctx, r, NULL, &id, &a), BW_EINVALID);
    id = uid("Kind", "two");
    assert_int_equal(bw_cedar_residuals_finish(w->ctx, r, NULL, &id, &a), BW_OK);
    assert_int_equal(a.nerrors, 1);
    bw_cedar_residuals_free(r);
    bw_cedar_entities_free(own);
    bw_cedar_policies_free(p);
}

/* Of the finishing store only the resource's own entity is read. */
static void test_residual_store__speaks_of_the_resource_only(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
    static const char store[] = "[{\"uid\":{\"type\":\"Group\",\"id\":\"g\"},\"attrs\":"
                                "{},\"parents\":[{\"type\":"
                                "\"Group\",\"id\":\"other\"}]},";
    bw_cedar_policies *p = policies_of(
        w->ctx, "permit(principal, action, resource) when { resource.owner in "
                "Group::\"other\" };"
                "permit(principal, action, resource) when { resource.owner in "
                "Group::\"top\" };");
    bw_cedar_residuals *r = residuals_of(w, p, &q, false);
    bw_buf b = {0};
    bw_buf_puts(&b, store);
    bw_buf_puts(&b, docs[0]);
    bw_buf_puts(&b, "]");
    bw_buf_putc(&b, 0);
    bw_cedar_entities *own = entities_of(w->ctx, w->schema, b.ptr);
    bw_cedar_uid id = uid("Doc", "a");
    bw_cedar_answer a;
    assert_int_equal(bw_cedar_residuals_finish(w->ctx, r, own, &id, &a), BW_OK);
    assert_int_equal(a.nreasons, 1);
    assert_int_equal(a.reasons[0], 1);
    bw_cedar_entities_free(own);
    bw_buf_clear(&b);
    bw_cedar_residuals_free(r);
    bw_cedar_policies_free(p);
}

/* A forbid that errors: Cedar skips it, the permitted set does not. */
static void test_residual_allow__denies_when_a_forbid_errs(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
    static const char *const forbids[] = {
        "forbid(principal, action, resource) when { resource.note == \"\" };",
        "forbid(principal, action, resource) when { 1 };"};
    bw_cedar_entities *own = alone(w, w->schema, docs[0]); /* has no note */
    bw_cedar_uid id = uid("Doc", "a");
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text, "permit(principal, action, resource);%s",
                 forbids[i]);
        bw_cedar_policies *p = policies_of(w->ctx, text);
        bw_cedar_residuals *r = residuals_of(w, p, &q, true);
        bw_cedar_answer a;
        bool allow = true;
        assert_int_equal(bw_cedar_residuals_finish(w->ctx, r, own, &id, &a), BW_OK);
        assert_true(a.allow && a.forbid_errored);
        assert_int_equal(bw_cedar_residuals_allow(w->ctx, r, own, &id, &allow), BW_OK);
        assert_false(allow);
        bw_cedar_residuals_free(r);
        bw_cedar_policies_free(p);
    }
    bw_cedar_entities_free(own);
}

/* Forbids that ask one set for a value are asked at once; what they deny stays. */
static void test_residual_allow__asks_a_set_once(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
    static const char text[] =
        "permit(principal, action, resource);"
        "forbid(principal, action, resource) when { resource.words.contains(\"q\") };"
        "forbid(principal, action, resource) when { "
        "resource.groups.contains(principal) };"
        "forbid(principal, action, resource) when { resource.words.contains(\"y\") };"
        "forbid(principal, action, resource) unless { resource.open || "
        "resource.words.isEmpty() };"
        "forbid(principal, action, resource) when { resource.words.contains(context.n) "
        "};"
        "forbid(principal, action, resource) when { "
        "resource.groups.contains(Group::\"g\")"
        " };";
    static const bool allowed[] = {true, true,
                                   false}; /* docs[2] has "y" and the group */
    static const char *const ids[] = {"a", "b", "in"};
    bw_cedar_policies *p = policies_of(w->ctx, text);
    for (int conform = 0; conform < 2; conform++) {
        bw_cedar_residuals *r = residuals_of(w, p, &q, conform);
        assert_int_equal(bw_cedar_residuals_count(r, BW_CEDAR_RESIDUAL_OPEN), 6);
        assert_int_equal(r->nopen[1], 3);
        for (int i = 0; i < 3; i++) {
            bw_cedar_entities *own = alone(w, w->schema, docs[i]);
            bw_cedar_uid id = uid("Doc", ids[i]);
            bool allow = !allowed[i];
            assert_int_equal(bw_cedar_residuals_allow(w->ctx, r, own, &id, &allow),
                             BW_OK);
            assert_int_equal(allow, allowed[i]);
            bw_cedar_entities_free(own);
        }
        bw_cedar_residuals_free(r);
    }
    bw_cedar_policies_free(p);
}

/* What is no set, or not there, denies as each of the forbids would. */
static void test_residual_allow__denies_when_forbids_err_together(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
    bw_cedar_policies *p = policies_of(
        w->ctx,
        "permit(principal, action, resource);"
        "forbid(principal, action, resource) when { resource.note.contains(1) };"
        "forbid(principal, action, resource) when { resource.note.contains(2) };");
    bw_cedar_residuals *r = residuals_of(w, p, &q, false);
    assert_int_equal(r->nopen[1], 1);
    for (int i = 0; i < 2; i++) { /* without a note; with a text */
        bw_cedar_entities *own = alone(w, w->schema, docs[i]);
        bw_cedar_uid id = uid("Doc", i ? "b" : "a");
        bool allow = true;
        assert_int_equal(bw_cedar_residuals_allow(w->ctx, r, own, &id, &allow), BW_OK);
        assert_false(allow);
        bw_cedar_entities_free(own);
    }
    bw_cedar_residuals_free(r);
    bw_cedar_policies_free(p);
}

/* The context may go once the residuals are made; the arena is left as it was. */
static void test_residual_life__is_its_own(void **state)
{
    world *w = *state;
    bw_ctx *once = bw_ctx_new(0);
    bw_cedar_request q = residual_request(w);
    const bw_cedar_value *value;
    static const char *const texts[] = {
        "permit(principal, action, resource) when { resource.words.contains(context.s) "
        "&& context.doc != resource && context.w.containsAny(resource.words) && "
        "resource.addr.isInRange(context.ip) };"};
    bw_cedar_policies *p = policies_of(w->ctx, texts[0]);
    q.context = NULL;
    q.unchecked = true;
    assert_int_equal(
        bw_cedar_context_read(
            once, NULL, NULL,
            json_of(once, "{\"s\":\"text\",\"doc\":{\"__entity\":{\"type\":\"Doc\","
                          "\"id\":\"b\"}},\"w\":[\"x\"],\"ip\":{\"__extn\":{\"fn\":"
                          "\"ip\",\"arg\":\"10.0.0.0/8\"}}}"),
            &value),
        BW_OK);
    q.context_value = value;
    bw_cedar_residuals *r = residuals_of(w, p, &q, false);
    bw_ctx_free(once);
    bw_cedar_entities *own = alone(w, w->schema, docs[0]);
    bw_cedar_uid id = uid("Doc", "a");
    bool allow = false;
    size_t used = bw_arena_used(w->ctx);
    assert_int_equal(bw_cedar_residuals_allow(w->ctx, r, own, &id, &allow), BW_OK);
    assert_int_equal(bw_arena_used(w->ctx), used);
    assert_true(allow);
    bw_cedar_entities_free(own);
    bw_cedar_residuals_free(r);
    bw_cedar_policies_free(p);
}

static void test_residual_steps__are_limited(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
    bw_buf b = {0}, c = {0};
    bw_buf_puts(&b, "permit(principal, action, resource) when { false");
    for (int k = 0; k < 4000; k++)
        bw_buf_puts(&b, " || resource.big.containsAll(resource.big) && false");
    bw_buf_puts(&b, " };");
    bw_buf_puts(&c,
                "[{\"uid\":{\"type\":\"Doc\",\"id\":\"a\"},\"parents\":[],\"attrs\":"
                "{\"big\":[");
    for (int k = 0; k < 3000; k++)
        bw_buf_printf(&c, "%s%d", k ? "," : "", k);
    bw_buf_puts(&c, "]}}]");
    bw_buf_putc(&b, 0);
    bw_buf_putc(&c, 0);
    bw_cedar_policies *p = policies_of(w->ctx, b.ptr);
    bw_cedar_entities *own = entities_of(w->ctx, NULL, c.ptr);
    bw_cedar_residuals *r = residuals_of(w, p, &q, false);
    bw_cedar_uid id = uid("Doc", "a");
    bw_cedar_answer a;
    bool allow = false;
    assert_int_equal(bw_cedar_residuals_finish(w->ctx, r, own, &id, &a), BW_EINVALID);
    assert_non_null(strstr(bw_ctx_message(w->ctx), "steps"));
    assert_int_equal(bw_cedar_residuals_allow(w->ctx, r, own, &id, &allow),
                     BW_EINVALID);
    assert_false(allow);
    bw_cedar_entities_free(own);
    bw_cedar_residuals_free(r);
    bw_cedar_policies_free(p);
    bw_buf_clear(&b);
    bw_buf_clear(&c);
}

/* ---- threads ---- */
typedef struct asker {
    const bw_cedar_residuals *r;
    bw_cedar_entities *own;
    size_t allowed;
} asker;

static void *ask_often(void *arg)
{
    asker *k = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_cedar_uid id = uid("Doc", "a");
    for (int i = 0; i < 200; i++) {
        bool allow = false;
        if (bw_cedar_residuals_allow(ctx, k->r, k->own, &id, &allow) == BW_OK)
            k->allowed += allow;
    }
    bw_ctx_free(ctx);
    return NULL;
}

static void test_residual_threads__share_one(void **state)
{
    world *w = *state;
    bw_cedar_request q = residual_request(w);
    bw_cedar_policies *p = policies_of(
        w->ctx,
        "permit(principal, action, resource) when { resource in Folder::\"root\" "
        "&& [resource.size, 1].contains(context.n) };");
    bw_cedar_residuals *r = residuals_of(w, p, &q, true);
    bw_cedar_entities *own = alone(w, w->schema, docs[0]);
    asker k[4];
    pthread_t t[4];
    for (int i = 0; i < 4; i++) {
        k[i] = (asker){.r = r, .own = own};
        assert_int_equal(pthread_create(&t[i], NULL, ask_often, &k[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(t[i], NULL), 0);
        assert_int_equal(k[i].allowed, 200);
    }
    bw_cedar_entities_free(own);
    bw_cedar_residuals_free(r);
    bw_cedar_policies_free(p);
}

int main(void)
{
    const char *given = getenv("BW_SEED");
    seed = given ? strtoul(given, NULL, 10) : 20261130;
    printf("seed %lu\n", seed);
    const struct CMUnitTest tests[] = {
        residual_test(test_residual_law__holds_for_random_policies),
        residual_test(test_residual_finish__refuses_what_is_not_asked),
        residual_test(test_residual_store__speaks_of_the_resource_only),
        residual_test(test_residual_allow__denies_when_a_forbid_errs),
        residual_test(test_residual_allow__asks_a_set_once),
        residual_test(test_residual_allow__denies_when_forbids_err_together),
        residual_test(test_residual_life__is_its_own),
        residual_test(test_residual_steps__are_limited),
        residual_test(test_residual_threads__share_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
