/* Cedar conformance: runs every case of a directory laid out like the reference data
 * and compares decision, determining policies and erroring policies with what the
 * reference engine recorded. Usage: cedar_run DIRECTORY [-v]
 *
 * Reads every .jsonl and .jsonl.gz (through gzip -dc) of the directory and of cases/ in
 * it; what a line is, its members say: a case (requests), a policy text, JSON policies
 * or a schema that parse or not (text, policies or schema; accept), an extension
 * constructor (fn, arg, ok). A case with a schema also says whether its policies
 * validate (shouldValidate). Every request is also answered by way of residuals, with
 * its resource unknown at first, and by the set's JSON form read again; that form is
 * written twice alike. The JSON form of a text (est) is compared as a value. Failures
 * are listed by id; nothing is skipped. Last line: "N passed, N failed"; exit status 0
 * when none failed and some passed. */
#include "policies/cedar/ast.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct totals {
    size_t passed, failed;
    size_t cases, case_requests, parse, ext, direct; /* parts of passed */
    size_t verdicts, json_cases, forms;
    size_t forms_again, texts_again; /* sets written and read again, as both */
    size_t residual_cases, residuals,
        refused;                      /* finished as recorded; refused before */
    size_t law, law_own, law_conform; /* of everything: as decided directly */
    size_t open, open_conform;        /* policies of these that stay open */
    size_t template_cases;
} totals;

typedef struct runner {
    const char *dir;
    bw_ctx *ctx;     /* reset for every line */
    bw_ctx *schemas; /* texts of schema files */
    char *schema_name, *schema_text;
    size_t schema_len;
    bool verbose;
    totals t;
} runner;

static void fail_line(runner *r, bw_str id, const char *what, const char *why)
{
    printf("FAILED %.*s: %s%s%s\n", (int)id.len, id.ptr, what, why && *why ? ": " : "",
           why ? why : "");
    r->t.failed++;
}

/* ---- files ---- */
static char *read_fd(int fd, size_t *len)
{
    size_t cap = 1 << 16, n = 0;
    char *p = malloc(cap);
    for (ssize_t k = 1; p && k > 0;) {
        if (n + 1 == cap) {
            char *q = realloc(p, cap *= 2);
            if (!q) {
                free(p);
                return NULL;
            }
            p = q;
        }
        k = read(fd, p + n, cap - n - 1);
        if (k < 0 && errno == EINTR)
            k = 1;
        else if (k > 0)
            n += (size_t)k;
    }
    if (p)
        p[n] = '\0';
    *len = n;
    return p;
}

static char *read_file(const char *path, size_t *len)
{
    size_t n = strlen(path);
    if (n < 3 || strcmp(path + n - 3, ".gz") != 0) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        char *text = fd < 0 ? NULL : read_fd(fd, len);
        if (fd >= 0)
            close(fd);
        return text;
    }
    int pipes[2];
    if (pipe(pipes) != 0)
        return NULL;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], 1);
        close(pipes[0]);
        close(pipes[1]);
        execlp("gzip", "gzip", "-dc", path, (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    char *text = pid < 0 ? NULL : read_fd(pipes[0], len);
    close(pipes[0]);
    int status = 1;
    if (pid > 0)
        waitpid(pid, &status, 0);
    if (status != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- small readers ---- */
static bw_str text_of(const bw_json *object, const char *key)
{
    const bw_json *v = bw_json_get(object, key);
    return v && v->kind == BW_JSON_STRING ? v->str : (bw_str){NULL, 0};
}

static bool uid_of(const bw_json *json, bw_cedar_uid *out)
{
    const bw_json *inner = json ? bw_json_get(json, "__entity") : NULL;
    json = inner ? inner : json;
    out->type = json ? text_of(json, "type") : (bw_str){NULL, 0};
    out->id = json ? text_of(json, "id") : (bw_str){NULL, 0};
    return json && bw_json_get(json, "type") && bw_json_get(json, "id");
}

/* The recorded ids and ours, as sets. */
static bool same_ids(const bw_cedar_policies *p, const bw_json *want,
                     const uint32_t *got, size_t n)
{
    size_t count = want ? want->count : 0;
    if (count != n)
        return false;
    for (const bw_json *w = want ? want->child : NULL; w; w = w->next) {
        size_t i = 0;
        while (i < n && !bw_str_eq(bw_cedar_policy_id(p, got[i]), w->str))
            i++;
        if (i == n)
            return false;
    }
    return true;
}

static const bw_json *other_of(const bw_json *object, const bw_json *member)
{
    return bw_json_get_str(object, member->key);
}

/* Equal as JSON values. */
static bool same_json(const bw_json *a, const bw_json *b)
{
    if (!a || !b || a->kind != b->kind || a->count != b->count)
        return false;
    if (a->kind == BW_JSON_STRING)
        return bw_str_eq(a->str, b->str);
    if (a->kind != BW_JSON_OBJECT && a->kind != BW_JSON_ARRAY)
        return bw_str_eq(a->raw, b->raw);
    bool list = a->kind == BW_JSON_ARRAY;
    const bw_json *x = a->child, *y = b->child;
    for (; x; x = x->next, y = list ? y->next : y)
        if (!same_json(x, list ? y : other_of(b, x)))
            return false;
    return true;
}

/* ---- cases ---- */
typedef struct parsed_case {
    bw_str id;
    bw_cedar_policies *policies;
    bw_cedar_policies *again; /* by way of JSON */
    bw_cedar_schema *schema;
    bw_cedar_entities *entities;
    const char *entities_why; /* entities were refused */
    const bw_json *json_entities;
    bool residual;
    bw_cedar_residuals *once; /* of a residual case */
} parsed_case;

/* Whether an answer is the recorded one; else what differs. */
static const char *unlike(const bw_cedar_policies *p, const bw_json *json,
                          const bw_cedar_answer *a)
{
    bw_str decision = text_of(json, "decision");
    bool allow = decision.len == 5 && strncasecmp(decision.ptr, "allow", 5) == 0;
    if (a->allow != allow)
        return "decision";
    if (!same_ids(p, bw_json_get(json, "reason"), a->reasons, a->nreasons))
        return "reasons";
    return same_ids(p, bw_json_get(json, "errors"), a->errors, a->nerrors) ? NULL
                                                                           : "errors";
}

static bool same_list(const uint32_t *a, size_t na, const uint32_t *b, size_t nb)
{
    return na == nb && (na == 0 || memcmp(a, b, na * sizeof *a) == 0);
}

static bool same_answer(const bw_cedar_answer *a, const bw_cedar_answer *b)
{
    return a->allow == b->allow && a->forbid_errored == b->forbid_errored &&
           same_list(a->reasons, a->nreasons, b->reasons, b->nreasons) &&
           same_list(a->errors, a->nerrors, b->errors, b->nerrors);
}

static bw_status one_entity(runner *r, const parsed_case *c, const bw_json *entity,
                            bw_cedar_entities **out)
{
    bw_json one = *entity, list = {.kind = BW_JSON_ARRAY, .count = 1, .child = &one};
    one.next = NULL;
    return bw_cedar_entities_parse(r->ctx, &list, c->schema, out);
}

/* Finishes and compares with the direct answer; st: what became of that. */
static const char *law_breach(runner *r, const bw_cedar_residuals *left,
                              const bw_cedar_entities *store,
                              const bw_cedar_uid *resource, bw_status st,
                              const bw_cedar_answer *direct)
{
    bw_cedar_answer a;
    bool allow;
    bw_status finished = bw_cedar_residuals_finish(r->ctx, left, store, resource, &a);
    bw_status asked = bw_cedar_residuals_allow(r->ctx, left, store, resource, &allow);
    if (finished != st || asked != st)
        return st == BW_OK ? bw_ctx_message(r->ctx) : "finished what is refused";
    if (st != BW_OK)
        return NULL;
    if (!same_answer(&a, direct))
        return "another answer";
    return allow == (a.allow && !a.forbid_errored) ? NULL : "another permission";
}

static size_t open_policies(const bw_cedar_residuals *left)
{
    return bw_cedar_residuals_count(left, BW_CEDAR_RESIDUAL_OPEN);
}

/* The resource's entity alone in a store, when the case has one that conforms. */
static bw_cedar_entities *own_store(runner *r, const parsed_case *c,
                                    const bw_cedar_uid *resource)
{
    bw_cedar_entities *own = NULL;
    bw_cedar_uid id;
    for (const bw_json *e = c->json_entities->child; e && !own; e = e->next)
        if (uid_of(bw_json_get(e, "uid"), &id) && bw_str_eq(id.type, resource->type) &&
            bw_str_eq(id.id, resource->id) && one_entity(r, c, e, &own) != BW_OK)
            return NULL;
    return own;
}

/* The same where the resource is promised to conform, as it does. */
static const char *conform_breach(runner *r, const parsed_case *c,
                                  const bw_cedar_request *q,
                                  const bw_cedar_entities *own,
                                  const bw_cedar_answer *direct)
{
    const bw_cedar_partial_options on = {.resources_conform = true};
    bw_cedar_residuals *left = NULL;
    const char *why = NULL;
    if (bw_cedar_partial(r->ctx, c->policies, c->entities, c->schema, q, &on, &left) !=
        BW_OK)
        return bw_ctx_message(r->ctx);
    why = law_breach(r, left, own, &q->resource, BW_OK, direct);
    r->t.open_conform += open_policies(left);
    bw_cedar_residuals_free(left);
    return why;
}

/* The law of residuals on any request: with its resource unknown, then finished, it is
 * answered as directly. With the stores as they are; with the resource's entity beside
 * them; with the promise that it conforms. */
static void check_law(runner *r, const parsed_case *c, const bw_cedar_request *q,
                      const bw_json *entity, bw_status st,
                      const bw_cedar_answer *direct, const char *label)
{
    bw_cedar_residuals *left = NULL;
    bw_cedar_entities *own = NULL;
    bw_cedar_uid id;
    bool beside = entity && uid_of(bw_json_get(entity, "uid"), &id) &&
                  bw_str_eq(id.type, q->resource.type);
    bw_cedar_request p = *q;
    const char *why = NULL;
    p.extra = beside ? NULL : q->extra;
    if (bw_cedar_partial(r->ctx, c->policies, c->entities, c->schema, &p, NULL,
                         &left) != BW_OK)
        why = st == BW_OK ? bw_ctx_message(r->ctx) : NULL;
    else
        why = law_breach(r, left, beside ? q->extra : NULL, &q->resource, st, direct);
    if (left)
        r->t.open += open_policies(left);
    if (left && !beside && !why)
        own = own_store(r, c, &q->resource);
    if (own) {
        why = law_breach(r, left, own, &q->resource, st, direct);
        r->t.law_own++;
    }
    if (own && c->schema && st == BW_OK && !why && !q->unchecked) {
        why = conform_breach(r, c, &p, own, direct);
        r->t.law_conform++;
    }
    if (why) {
        char text[128];
        snprintf(text, sizeof text, "%s, residual", label);
        fail_line(r, c->id, text, why);
    } else {
        r->t.law++;
    }
    bw_cedar_entities_free(own);
    bw_cedar_residuals_free(left);
}

/* A residual case: partially evaluated once, finished for each request as recorded. */
static void finish_once(runner *r, const parsed_case *c, const bw_json *json,
                        const bw_cedar_request *q, const char *label)
{
    bw_cedar_answer a;
    bw_status st =
        bw_cedar_residuals_finish(r->ctx, c->once, q->extra, &q->resource, &a);
    const char *why =
        st == BW_OK ? unlike(c->policies, json, &a) : bw_ctx_message(r->ctx);
    if (why) {
        fail_line(r, c->id, label, why);
    } else {
        r->t.residuals++;
        r->t.passed++;
    }
}

static void run_request(runner *r, parsed_case *c, const bw_json *json, size_t index)
{
    char label[64];
    snprintf(label, sizeof label, "request %zu", index);
    bool refused_wanted = bw_str_is(text_of(json, "decision"), "nodecision");
    const bw_json *validate = bw_json_get(json, "validateRequest"),
                  *extra = bw_json_get(json, "entity");
    bw_cedar_request q = {.context = bw_json_get(json, "context"),
                          .unchecked = validate && validate->kind == BW_JSON_FALSE};
    bw_cedar_entities *more = NULL;
    bw_cedar_answer answer = {0};
    bool named = uid_of(bw_json_get(json, "principal"), &q.principal) &&
                 uid_of(bw_json_get(json, "action"), &q.action) &&
                 uid_of(bw_json_get(json, "resource"), &q.resource);
    bw_status st = named && !c->entities_why ? BW_OK : BW_EINVALID;
    if (st == BW_OK && extra) {
        st = one_entity(r, c, extra, &more);
        q.extra = more;
    }
    if (st == BW_OK) {
        st = bw_cedar_authorize(r->ctx, c->policies, c->entities, c->schema, &q,
                                &answer);
        check_law(r, c, &q, extra, st, &answer, label);
    }
    const char *why =
        st == BW_OK && !refused_wanted ? unlike(c->policies, json, &answer) : NULL;
    bw_cedar_answer again;
    if (st == BW_OK && !why && !refused_wanted) {
        st = bw_cedar_authorize(r->ctx, c->again, c->entities, c->schema, &q, &again);
        why = st == BW_OK ? unlike(c->again, json, &again) : NULL;
    }
    if (refused_wanted ? st != BW_EINVALID : st != BW_OK || why)
        fail_line(r, c->id, label,
                  why               ? why
                  : refused_wanted  ? "decided, the reference refuses"
                  : c->entities_why ? c->entities_why
                                    : bw_ctx_message(r->ctx));
    else
        r->t.passed++;
    r->t.refused += c->residual && refused_wanted && st == BW_EINVALID;
    if (c->residual && st == BW_OK) {
        if (!c->once && bw_cedar_partial(r->ctx, c->policies, c->entities, c->schema,
                                         &(bw_cedar_request){.principal = q.principal,
                                                             .action = q.action,
                                                             .resource = q.resource,
                                                             .context = q.context},
                                         NULL, &c->once) != BW_OK)
            fail_line(r, c->id, "partial evaluation", bw_ctx_message(r->ctx));
        else
            finish_once(r, c, json, &q, label);
    }
    bw_cedar_entities_free(more);
}

static bool load_schema(runner *r, const bw_json *json, bw_cedar_schema **out)
{
    bw_str text = text_of(json, "schema"), file = text_of(json, "schemaFile");
    *out = NULL;
    if (file.len) {
        if (memchr(file.ptr, '/', file.len))
            return false;
        if (!r->schema_name || strlen(r->schema_name) != file.len ||
            memcmp(r->schema_name, file.ptr, file.len) != 0) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%.*s", r->dir, (int)file.len, file.ptr);
            free(r->schema_name);
            free(r->schema_text);
            r->schema_name = strndup(file.ptr, file.len);
            r->schema_text = read_file(path, &r->schema_len);
        }
        text = (bw_str){r->schema_text, r->schema_text ? r->schema_len : 0};
    }
    if (!text.ptr)
        return !file.len;
    return bw_cedar_schema_parse(r->ctx, text, out) == BW_OK;
}

/* Strict validation passes exactly when the case says so. */
static void run_verdict(runner *r, const parsed_case *c, bool want)
{
    bw_cedar_validation v;
    bw_status st =
        c->schema ? bw_cedar_policies_validate(r->ctx, c->policies, c->schema, NULL, &v)
                  : BW_EINVALID;
    if (st != BW_OK)
        fail_line(r, c->id, "validation", bw_ctx_message(r->ctx));
    else if (v.valid != want)
        fail_line(r, c->id, want ? "does not validate" : "validates",
                  v.nfindings
                      ? bw_cedar_finding_text(r->ctx, c->policies, &v.findings[0])
                      : "");
    else {
        r->t.passed++;
        r->t.verdicts++;
    }
}

static bw_status read_set(bw_ctx *ctx, bool json, bw_str text, bw_cedar_policies **out)
{
    return json ? bw_cedar_policies_parse_json(ctx, text, out)
                : bw_cedar_policies_parse(ctx, text, out);
}

/* Writes a set and reads it again; out: the set read, or NULL. */
static bw_cedar_policies *write_again(runner *r, const bw_cedar_policies *p, bool json,
                                      bw_buf *b)
{
    bw_cedar_policies *again = NULL;
    bw_status st = json ? bw_cedar_policies_write_json(r->ctx, p, b)
                        : bw_cedar_policies_write(r->ctx, p, b);
    if (st == BW_OK && read_set(r->ctx, json, bw_buf_view(b), &again) != BW_OK)
        again = NULL;
    return again;
}

static bool alike(const bw_buf *a, const bw_buf *b)
{
    return bw_str_eq(bw_buf_view(a), bw_buf_view(b));
}

/* Drops the comments that tell ids; whether there were any. */
static bool drop_ids(bw_buf *b)
{
    size_t n = 0, was = b->len;
    for (size_t i = 0; i < b->len;) {
        const char *nl = memchr(b->ptr + i, '\n', b->len - i);
        size_t len = nl ? (size_t)(nl - b->ptr) + 1 - i : b->len - i;
        if (len < 6 || memcmp(b->ptr + i, "// id ", 6) != 0) {
            memmove(b->ptr + n, b->ptr + i, len);
            n += len;
        }
        i += len;
    }
    b->len = n;
    return n < was;
}

/* Round trips of a set: its JSON form is read again and written the same; so is its
 * text, which formatting leaves as it is, and whose JSON form is the set's (text has no
 * ids). out: the set by way of JSON, or NULL. */
static bw_cedar_policies *round_trips(runner *r, bw_str id, const bw_cedar_policies *p)
{
    bw_buf form = {0}, same = {0}, text = {0}, laid = {0}, third = {0}, last_form = {0};
    bw_cedar_policies *again = write_again(r, p, true, &form), *read = NULL,
                      *last = NULL;
    if (!again)
        fail_line(r, id, "its JSON form is refused", bw_ctx_message(r->ctx));
    else if (bw_cedar_policies_write_json(r->ctx, again, &same) != BW_OK ||
             !alike(&form, &same))
        fail_line(r, id, "its JSON form differs when written again", "");
    else
        r->t.forms_again++;
    if (!(read = write_again(r, p, false, &text)))
        fail_line(r, id, "its text is refused", bw_ctx_message(r->ctx));
    else if (bw_cedar_policies_format(r->ctx, bw_buf_view(&text), &laid) != BW_OK ||
             !alike(&text, &laid))
        fail_line(r, id, "its text is laid out anew", laid.ptr);
    else if (!(last = write_again(r, read, false, &third)) ||
             bw_cedar_policies_write_json(r->ctx, read, &last_form) != BW_OK ||
             (!drop_ids(&text) && !alike(&form, &last_form)) || !alike(&text, &third))
        fail_line(r, id, "its text differs when written again", "");
    else
        r->t.texts_again++;
    bw_cedar_policies_free(read);
    bw_cedar_policies_free(last);
    bw_buf *const all[] = {&form, &same, &text, &laid, &third, &last_form};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bw_buf_clear(all[i]);
    return again;
}

static void run_case(runner *r, const bw_json *json)
{
    parsed_case c = {.id = text_of(json, "id")};
    const bw_json *requests = bw_json_get(json, "requests"),
                  *verdict = bw_json_get(json, "shouldValidate");
    c.residual = bw_str_is(text_of(json, "source"), "residual");
    c.json_entities = bw_json_get(json, "entities");
    char entities_why[300] = "";
    bool in_json = bw_str_is(text_of(json, "policyFormat"), "json");
    r->t.residual_cases += c.residual;
    const char *what = "policies";
    bw_str policies = text_of(json, "policies");
    bw_status st = read_set(r->ctx, in_json, policies, &c.policies);
    if (st == BW_OK) {
        what = "JSON form";
        c.again = round_trips(r, c.id, c.policies);
        st = c.again ? BW_OK : BW_EINVALID;
    }
    if (st == BW_OK) {
        what = "schema";
        if (!load_schema(r, json, &c.schema))
            st = BW_EINVALID;
    }
    if (st != BW_OK) {
        for (uint32_t i = 0; i < requests->count; i++)
            fail_line(r, c.id, what, bw_ctx_message(r->ctx));
        goto out;
    }
    for (size_t i = 0; i < c.policies->n; i++)
        if (c.policies->policies[i].is_template) {
            r->t.template_cases++;
            break;
        }
    r->t.json_cases += in_json;
    if (bw_json_is_bool(verdict))
        run_verdict(r, &c, verdict->kind == BW_JSON_TRUE);
    if (bw_cedar_entities_parse(r->ctx, c.json_entities, c.schema, &c.entities) !=
        BW_OK) {
        snprintf(entities_why, sizeof entities_why, "entities: %s (%s)",
                 bw_ctx_message(r->ctx), bw_ctx_pointer(r->ctx));
        c.entities_why = entities_why;
    }
    size_t before = r->t.passed, finished = r->t.residuals, n = 0;
    for (const bw_json *q = requests->child; q; q = q->next)
        run_request(r, &c, q, n++);
    r->t.cases++;
    if (c.residual)
        r->t.direct += r->t.passed - before - (r->t.residuals - finished);
    else
        r->t.case_requests += r->t.passed - before;
out:
    bw_cedar_residuals_free(c.once);
    bw_cedar_entities_free(c.entities);
    bw_cedar_schema_free(c.schema);
    bw_cedar_policies_free(c.again);
    bw_cedar_policies_free(c.policies);
}

/* Its JSON form is the recorded one; it is read again, and again written so. */
static void run_form(runner *r, bw_str id, const bw_cedar_policies *p,
                     const bw_json *est)
{
    bw_buf b = {0};
    bw_json *form = NULL;
    if (bw_cedar_policies_write_json(r->ctx, p, &b) != BW_OK ||
        bw_json_parse(r->ctx, bw_buf_view(&b), BW_JSON_CEDAR, &form) != BW_OK)
        fail_line(r, id, "no JSON form", bw_ctx_message(r->ctx));
    else if (!same_json(form, est))
        fail_line(r, id, "another JSON form", b.ptr);
    else {
        r->t.passed++;
        r->t.forms++;
        bw_cedar_policies_free(round_trips(r, id, p));
    }
    bw_buf_clear(&b);
}

static void run_parse(runner *r, const bw_json *json)
{
    bw_cedar_policies *p = NULL;
    bw_cedar_schema *s = NULL;
    const bw_json *accept = bw_json_get(json, "accept"),
                  *schema = bw_json_get(json, "schema");
    const bw_json *form = bw_json_get(json, "policies"),
                  *est = bw_json_get_value(json, "est");
    bw_status st =
        schema ? bw_cedar_schema_parse(r->ctx, text_of(json, "schema"), &s)
        : form ? bw_cedar_policies_parse_json(r->ctx, text_of(json, "policies"), &p)
               : bw_cedar_policies_parse(r->ctx, text_of(json, "text"), &p);
    bool ok = st == BW_OK;
    if (est && p)
        run_form(r, text_of(json, "id"), p, est);
    if (ok == (accept->kind == BW_JSON_TRUE) && (ok || st == BW_EINVALID)) {
        r->t.passed++;
        r->t.parse++;
    } else {
        fail_line(r, text_of(json, "id"), ok ? "accepted" : "refused",
                  ok ? "" : bw_ctx_message(r->ctx));
    }
    bw_cedar_policies_free(p);
    bw_cedar_schema_free(s);
}

static void run_ext(runner *r, const bw_json *json, size_t line)
{
    bw_cedar__fn fn;
    bool memory = false;
    bw_cedar_value arg = bw_cedar__string(text_of(json, "arg")), v;
    bool ok = bw_cedar__fn_find(text_of(json, "fn"), false, &fn) &&
              bw_cedar__fn_call(r->ctx, fn, &arg, 1, &v, &memory) == NULL;
    if (ok == (bw_json_get(json, "ok")->kind == BW_JSON_TRUE)) {
        r->t.passed++;
        r->t.ext++;
    } else {
        char id[64];
        snprintf(id, sizeof id, "ext line %zu", line);
        fail_line(r, bw_str_c(id), ok ? "accepted" : "refused", "");
    }
}

static void run_line(runner *r, const char *path, bw_str line, size_t number)
{
    bw_json *json;
    bw_ctx_reset(r->ctx);
    if (bw_json_parse(r->ctx, line, BW_JSON_CEDAR, &json) != BW_OK) {
        char id[4200];
        snprintf(id, sizeof id, "%s line %zu", path, number);
        fail_line(r, bw_str_c(id), "not read", bw_ctx_message(r->ctx));
    } else if (bw_json_get(json, "requests") && bw_json_get(json, "policies")) {
        run_case(r, json);
    } else if (bw_json_get(json, "accept")) {
        run_parse(r, json);
    } else if (bw_json_get(json, "fn") && bw_json_get(json, "ok")) {
        run_ext(r, json, number);
    } /* else: the index, which repeats what the cases say */
}

static void run_file(runner *r, const char *path)
{
    size_t len, before_pass = r->t.passed, before_fail = r->t.failed, number = 0;
    char *text = read_file(path, &len);
    if (!text) {
        fail_line(r, bw_str_c(path), "cannot be read", "");
        return;
    }
    for (size_t i = 0; i < len;) {
        const char *nl = memchr(text + i, '\n', len - i);
        size_t n = nl ? (size_t)(nl - text) - i : len - i;
        number++;
        if (n)
            run_line(r, path, (bw_str){text + i, n}, number);
        i += n + 1;
    }
    free(text);
    if (r->verbose)
        printf("%s: %zu passed, %zu failed\n", path, r->t.passed - before_pass,
               r->t.failed - before_fail);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_data(const char *name)
{
    size_t n = strlen(name);
    return (n > 6 && strcmp(name + n - 6, ".jsonl") == 0) ||
           (n > 9 && strcmp(name + n - 9, ".jsonl.gz") == 0);
}

static int run_dir(runner *r, const char *dir)
{
    char *names[1024];
    size_t n = 0;
    DIR *d = opendir(dir);
    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d)) && n < 1024;)
        if (is_data(e->d_name))
            names[n++] = strdup(e->d_name);
    closedir(d);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        run_file(r, path);
        free(names[i]);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: cedar_run DIRECTORY [-v]\n");
        return 2;
    }
    runner r = {.dir = argv[1], .verbose = argc > 2 && strcmp(argv[2], "-v") == 0};
    r.ctx = bw_ctx_new((size_t)1 << 30);
    char cases[4096];
    snprintf(cases, sizeof cases, "%s/cases", argv[1]);
    if (!r.ctx || run_dir(&r, argv[1]) != 0) {
        fprintf(stderr, "cedar_run: cannot open %s\n", argv[1]);
        return 2;
    }
    (void)run_dir(&r, cases);
    const totals *t = &r.t;
    printf("cases: %zu run (%zu with JSON policies, %zu with templates), %zu requests "
           "passed\n",
           t->cases, t->json_cases, t->template_cases, t->case_requests);
    printf(
        "residual cases: %zu, %zu decisions passed directly, %zu from residuals, %zu "
        "refused before both\n",
        t->residual_cases, t->direct, t->residuals, t->refused);
    printf("residual law: %zu requests passed, %zu also with the resource beside the "
           "stores, %zu also with the promise that it conforms\n",
           t->law, t->law_own, t->law_conform);
    printf("open policies: %zu, with the promise %zu\n", t->open, t->open_conform);
    printf("texts: %zu passed; extension constructors: %zu passed\n", t->parse, t->ext);
    printf("validation verdicts: %zu passed\n", t->verdicts);
    printf("JSON forms: %zu as recorded; written and read again: %zu as JSON, %zu as "
           "text; "
           "skipped: 0\n",
           t->forms, t->forms_again, t->texts_again);
    printf("%zu passed, %zu failed\n", t->passed, t->failed);
    bw_ctx_free(r.ctx);
    free(r.schema_name);
    free(r.schema_text);
    return t->failed != 0 || t->passed == 0;
}
