/* One case of a test file (policy_test.h): read, asked, and told in words where the answer
 * is not the expected one. */
#include "policy_test_run.h"

/* ---- shared names ---- */

/* What a string names in a table, or the object that stands there itself. *id: the name,
 * or none. */
static bw_status named(test_file *t, const bw_json *v, const bw_json *entries,
                       const char *noun, bw_str *id, const bw_json **out)
{
    *id = (bw_str){NULL, 0};
    *out = v;
    if (v->kind == BW_JSON_STRING) {
        *id = v->str;
        *out = bw_json_get_str(entries, v->str);
        if (!*out)
            return bw_fail_at(t->ctx, BW_EINVALID, bw_json_pointer(t->ctx, v),
                              "no %s of that name is in the file", noun);
    }
    return (*out)->kind == BW_JSON_OBJECT ? BW_OK
                                          : policy_test_wants(t->ctx, *out, "wants an object");
}

bw_status policy_test_place(test_file *t, const bw_json *v, bw_place *out)
{
    static const char *const members[] = {"country", "operator", "certs",
                                          "hw",      "id",       NULL};
    const bw_json *o;
    bw_str name;
    bw_place p;
    bw_status s = named(t, v, t->places, "place", &name, &o);
    if (s == BW_OK && name.ptr && bw_json_get(o, "id"))
        s = policy_test_wants(t->ctx, bw_json_get(o, "id"), "the name is the id");
    if (s == BW_OK)
        s = bw_v1_members(t->ctx, o, members);
    if (s == BW_OK)
        s = bw_v1_place(t->ctx, o, &p);
    if (s != BW_OK)
        return s;
    if (name.ptr)
        p.id = name;
    if (p.id.len == 0 || !p.country.ptr || !p.operator_id.ptr)
        return policy_test_wants(t->ctx, o, "a place wants an id, country and operator");
    *out = p;
    return BW_OK;
}

static bw_status principal_of(test_file *t, const bw_json *v, bw_principal *out)
{
    static const char *const members[] = {"tenant", "seat", "clearance",
                                          "roles",  "id",   NULL};
    const bw_json *o, *clearance;
    bw_words roles = {NULL, 0};
    bw_principal p;
    uint64_t n = 0;
    memset(&p, 0, sizeof p);
    bw_status s = named(t, v, t->principals, "principal", &p.id, &o);
    bool has_id = p.id.ptr != NULL;
    if (s == BW_OK && has_id && bw_json_get(o, "id"))
        s = policy_test_wants(t->ctx, bw_json_get(o, "id"), "the name is the id");
    if (s == BW_OK)
        s = bw_v1_members(t->ctx, o, members);
    if (s == BW_OK && !has_id)
        s = bw_v1_string(t->ctx, o, "id", &p.id);
    if (s == BW_OK)
        s = bw_v1_string(t->ctx, o, "tenant", &p.tenant);
    if (s == BW_OK)
        s = bw_v1_string(t->ctx, o, "seat", &p.seat);
    if (s == BW_OK)
        s = bw_v1_strings(t->ctx, o, "roles", &roles);
    if (s != BW_OK)
        return s;
    if (p.id.len == 0 || p.tenant.len == 0 || !p.seat.ptr)
        return policy_test_wants(t->ctx, o, "a principal wants an id, tenant and seat");
    clearance = bw_json_get_value(o, "clearance");
    if (clearance && (!bw_json_u64(clearance, &n) || n > 5))
        return policy_test_wants(t->ctx, clearance, "wants a whole number from 0 to 5");
    p.clearance = (uint32_t)n;
    p.roles = roles.items;
    p.nroles = roles.n;
    *out = p;
    return BW_OK;
}

/* ---- one case ---- */

static bw_status known_words(test_file *t, const bw_json *v, const char *kind,
                             const bw_str *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!bw_catalogue_has_word(t->catalogue, kind, words[i]))
            return bw_fail_at(t->ctx, BW_EINVALID, bw_json_pointer(t->ctx, v),
                              "\"%.*s\" is not among the catalogue's %s",
                              (int)(words[i].len < 64 ? words[i].len : 64),
                              words[i].ptr, kind);
    return BW_OK;
}

/* The case's own member, else the file's. */
static const bw_json *own_or_shared(const test_file *t, const bw_json *v,
                                    const char *name)
{
    return bw_json_get_value(v, name) ? v : t->root;
}

static bw_status case_context(test_file *t, const bw_json *v, test_case *c)
{
    const bw_json *from = own_or_shared(t, v, "purpose"), *m;
    bw_words safeguards = {NULL, 0};
    bw_str when = {NULL, 0};
    c->q.purpose = BW_STR("");
    bw_status s = bw_v1_string(t->ctx, from, "purpose", &c->q.purpose);
    if (s == BW_OK && c->q.purpose.len > 0)
        s = known_words(t, bw_json_get(from, "purpose"), "purposes", &c->q.purpose, 1);
    from = own_or_shared(t, v, "safeguards");
    if (s == BW_OK)
        s = bw_v1_strings(t->ctx, from, "safeguards", &safeguards);
    if (s == BW_OK)
        s = known_words(t, bw_json_get(from, "safeguards"), "safeguards",
                        safeguards.items, safeguards.n);
    from = own_or_shared(t, v, "now");
    if (s == BW_OK)
        s = bw_v1_string(t->ctx, from, "now", &when);
    if (s != BW_OK)
        return s;
    c->q.safeguards = safeguards.items;
    c->q.nsafeguards = safeguards.n;
    if (when.ptr && !bw_time_parse(when, &c->q.now_ns))
        return policy_test_wants(t->ctx, bw_json_get(from, "now"), "wants a date-time");
    if (!when.ptr && t->reads_now)
        return policy_test_wants(t->ctx, v, "a policy reads now: the case or the file must say it");
    if ((m = bw_json_get_value(v, "at")) != NULL) {
        s = policy_test_place(t, m, &c->at);
        c->q.at = &c->at;
    }
    if (s == BW_OK && (m = bw_json_get_value(v, "dest")) != NULL) {
        s = policy_test_place(t, m, &c->dest);
        c->q.dest = &c->dest;
    }
    return s;
}

static bw_status case_class(test_file *t, const bw_json *v, test_case *c)
{
    bw_labels set;
    bw_status s = bw_labels_parse(t->ctx, t->catalogue, v, c->principal.tenant, &set);
    if (s == BW_EINVALID) /* its pointer begins at the label set */
        s = bw_v1_within(t->ctx, s, bw_json_pointer(t->ctx, v));
    if (s == BW_OK)
        s = bw_labels_canonical(t->ctx, &set, &c->label_text);
    if (s == BW_OK)
        bw_labels_class_id(c->label_text, &c->class_id);
    return s;
}

static bw_status case_collection(test_file *t, const bw_json *v, test_case *c)
{
    static const char *const members[] = {"tenant", "name", NULL};
    c->kind = "Collection";
    c->tenant = c->principal.tenant;
    if (v->kind == BW_JSON_STRING) {
        c->name = v->str;
        return BW_OK;
    }
    if (v->kind != BW_JSON_OBJECT)
        return policy_test_wants(t->ctx, v, "wants a name, or {\"tenant\", \"name\"}");
    bw_status s = bw_v1_members(t->ctx, v, members);
    if (s == BW_OK)
        s = bw_v1_string(t->ctx, v, "tenant", &c->tenant);
    if (s == BW_OK)
        s = bw_v1_string(t->ctx, v, "name", &c->name);
    return s == BW_OK && !c->name.ptr ? policy_test_wants(t->ctx, v, "name must be said") : s;
}

static bw_status case_resource(test_file *t, const bw_json *v, test_case *c)
{
    const bw_json *class = bw_json_get_value(v, "class"),
                  *labels = bw_json_get_value(v, "labels"),
                  *collection = bw_json_get_value(v, "collection"),
                  *cell = bw_json_get_value(v, "cell"), *set;
    if (!!class + !!labels + !!collection + !!cell != 1)
        return policy_test_wants(t->ctx, v, "wants one of class, labels, collection and cell");
    if (collection)
        return case_collection(t, collection, c);
    if (cell) {
        c->kind = "Node";
        return cell->kind == BW_JSON_TRUE ? BW_OK : policy_test_wants(t->ctx, cell, "wants true");
    }
    if (class && class->kind != BW_JSON_STRING)
        return policy_test_wants(t->ctx, class, "wants a name; labels takes a label set");
    if (labels && labels->kind != BW_JSON_OBJECT)
        return policy_test_wants(t->ctx, labels, "wants an object");
    bw_status s = named(t, class ? class : labels, t->classes, "class", &c->what, &set);
    return s == BW_OK ? case_class(t, set, c) : s;
}

static bw_status case_expect(test_file *t, const bw_json *v, test_case *c)
{
    static const char *const members[] = {"decision", "policies", "errors", NULL};
    const bw_json *e = bw_json_get_value(v, "expect"), *d = e;
    if (!e)
        return policy_test_wants(t->ctx, v, "expects nothing: expect must be said");
    bw_status s = BW_OK;
    c->any_policies = true;
    if (e->kind == BW_JSON_OBJECT) {
        s = bw_v1_members(t->ctx, e, members);
        d = bw_json_get_value(e, "decision");
        if (s == BW_OK)
            s = bw_v1_strings(t->ctx, e, "policies", &c->policies);
        if (s == BW_OK)
            s = bw_v1_strings(t->ctx, e, "errors", &c->errors);
        c->any_policies = bw_json_get_value(e, "policies") == NULL;
    }
    if (s != BW_OK)
        return s;
    if (!d || d->kind != BW_JSON_STRING ||
        (!bw_str_is(d->str, "allow") && !bw_str_is(d->str, "deny")))
        return policy_test_wants(t->ctx, d ? d : e, "expect wants a decision, \"allow\" or \"deny\"");
    c->allow = bw_str_is(d->str, "allow");
    return BW_OK;
}

bw_status policy_test_case(test_file *t, const bw_json *v, test_case *c)
{
    static const char *const members[] = {
        "about",  "name", "principal", "action",  "class",      "labels", "collection",
        "cell",   "at",   "dest",      "purpose", "safeguards", "now",    "expect", NULL};
    bw_str action = {NULL, 0};
    memset(c, 0, sizeof *c);
    c->v = v;
    bw_status s = bw_v1_members(t->ctx, v, members);
    if (s == BW_OK)
        s = bw_v1_string(t->ctx, v, "action", &action);
    if (s != BW_OK)
        return s;
    if (!action.ptr || !bw_action_parse(action, &c->q.action))
        return policy_test_wants(t->ctx, v, "wants an action such as Query or Store");
    const bw_json *who = bw_json_get_value(v, "principal");
    s = who ? principal_of(t, who, &c->principal)
            : policy_test_wants(t->ctx, v, "principal must be said");
    c->q.principal = &c->principal;
    if (s == BW_OK)
        s = case_resource(t, v, c);
    if (s == BW_OK)
        s = case_context(t, v, c);
    return s == BW_OK ? case_expect(t, v, c) : s;
}

/* ---- judging ---- */

static bool words_equal(const bw_str *got, size_t n, bw_words want)
{
    if (n != want.n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!bw_str_eq(got[i], want.items[i]))
            return false;
    return true;
}

static void put_list(bw_buf *b, const char *before, const bw_str *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bw_buf_puts(b, i ? ", " : before);
        bw_buf_str(b, w[i]);
    }
}

static void put_place(bw_buf *b, const char *before, const bw_place *p)
{
    bw_buf_puts(b, before);
    bw_buf_str(b, p->id);
    bw_buf_puts(b, " (");
    bw_buf_str(b, p->country);
    bw_buf_puts(b, ", ");
    bw_buf_str(b, p->operator_id);
    put_list(b, ", ", p->certs, p->ncerts);
    put_list(b, ", ", p->hw, p->nhw);
    bw_buf_putc(b, ')');
}

/* "may ana of acme (seat FR, clearance 3, reader) Transfer class hr at …". */
static void put_question(const test_file *t, const test_case *c, bw_buf *b)
{
    const bw_principal *p = &c->principal;
    char when[40];
    bw_buf_puts(b, "may ");
    bw_buf_str(b, p->id);
    bw_buf_puts(b, " of ");
    bw_buf_str(b, p->tenant);
    bw_buf_puts(b, " (seat ");
    bw_buf_str(b, p->seat.len ? p->seat : BW_STR("unknown"));
    bw_buf_printf(b, ", clearance %u", p->clearance);
    put_list(b, ", ", p->roles, p->nroles);
    bw_buf_printf(b, ") %s ", bw_action_name(c->q.action));
    if (c->kind) {
        bw_buf_puts(b, c->name.ptr ? "collection " : "the cell");
        bw_buf_str(b, c->name);
    } else if (c->what.ptr) {
        bw_buf_puts(b, "class ");
        bw_buf_str(b, c->what);
    } else {
        bw_buf_str(b, c->label_text);
    }
    if (c->q.at || !t->o->ask || bw_json_get_value(t->root, "cell")) /* else the cell's own */
        put_place(b, " at ", c->q.at ? c->q.at : &t->cell);
    if (c->q.dest)
        put_place(b, " to ", c->q.dest);
    bw_buf_puts(b, c->q.purpose.len ? " for " : " without a purpose");
    bw_buf_str(b, c->q.purpose);
    put_list(b, " with ", c->q.safeguards, c->q.nsafeguards);
    if (t->reads_now) {
        bw_time_format(c->q.now_ns, when);
        bw_buf_printf(b, " at %s", when);
    }
    bw_buf_putc(b, '?');
}

static void put_answer(bw_buf *b, bool allow, bool any, const bw_str *policies, size_t n,
                       const bw_str *errors, size_t nerrors)
{
    bw_buf_puts(b, allow ? "allow" : "deny");
    bw_buf_puts(b, any ? "" : n ? "" : " by no policy");
    put_list(b, " by ", policies, n);
    put_list(b, ", with errors in ", errors, nerrors);
}

static void judge(const test_file *t, const test_case *c, const bw_decision *d,
                  bw_buf *question, bw_buf *failure)
{
    if (d->allow == c->allow &&
        (c->any_policies || words_equal(d->policies, d->npolicies, c->policies)) &&
        words_equal(d->errors, d->nerrors, c->errors))
        return;
    put_question(t, c, question);
    bw_buf_puts(failure, "expected ");
    put_answer(failure, c->allow, c->any_policies, c->policies.items, c->policies.n,
               c->errors.items, c->errors.n);
    bw_buf_puts(failure, "\ngot      ");
    put_answer(failure, d->allow, false, d->policies, d->npolicies, d->errors,
               d->nerrors);
}

static bw_status decision_read(test_file *t, const bw_json *v, bw_decision *out)
{
    bw_words policies = {NULL, 0}, errors = {NULL, 0};
    bw_str decision = {NULL, 0};
    bw_status s = bw_v1_string(t->ctx, v, "decision", &decision);
    if (s == BW_OK)
        s = bw_v1_strings(t->ctx, v, "policies", &policies);
    if (s == BW_OK)
        s = bw_v1_strings(t->ctx, v, "errors", &errors);
    *out = (bw_decision){.allow = bw_str_is(decision, "allow"),
                         .policies = policies.items,
                         .npolicies = policies.n,
                         .errors = errors.items,
                         .nerrors = errors.n};
    return s;
}

bw_status policy_test_run_case(test_file *t, const bw_json *v, const bw_json *answered,
                          bw_policy_case *out)
{
    test_case c;
    bw_decision d;
    bw_buf question = {0}, failure = {0};
    bw_arena_mark mark = bw_arena_mark_get(t->ctx);
    bw_status s = policy_test_case(t, v, &c);
    if (s == BW_OK && answered)
        s = decision_read(t, answered, &d);
    else if (s == BW_OK)
        s = c.kind ? bw_decide_object(t->ctx, t->authority, &c.q, c.kind, c.tenant,
                                      c.name, &d)
                   : bw_decide_class(t->ctx, t->authority, &c.q, &c.class_id,
                                     c.label_text, &d);
    if (s == BW_OK) {
        judge(t, &c, &d, &question, &failure);
        bw_arena_release(t->ctx, mark);
        if (question.failed || failure.failed)
            s = bw_fail_nomem(t->ctx);
    }
    if (s == BW_OK && failure.len > 0)
        s = bw_arena_str(t->ctx, bw_buf_view(&question), &out->question);
    if (s == BW_OK && failure.len > 0)
        s = bw_arena_str(t->ctx, bw_buf_view(&failure), &out->failure);
    bw_buf_clear(&question);
    bw_buf_clear(&failure);
    return s;
}
