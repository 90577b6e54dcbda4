/* Runs the tests of a policy set (policy_test.h has the format): reads the file, builds
 * an authority of its own for it and asks case by case.
 *
 * Strict on purpose: a test that names a place, a purpose or a member wrongly would else
 * pass for the wrong reason, most denials being alike. */
#include "policy_test.h"
#include "files.h"
#include "v1.h"
#include <stdlib.h>

enum { CASE_FILE_BYTES_MAX = 64 << 20, POLICY_PARTS_MAX = 256 };

typedef struct test_file {
    bw_ctx *ctx;
    const bw_policy_test_options *o;
    const char *path;
    const bw_json *root, *places, *principals, *classes;
    bw_catalogue *catalogue;
    bw_authority *authority;
    bw_place cell;
    bw_str own_policies; /* named by the file or the command; else none */
    bool reads_now;
} test_file;

typedef struct test_case {
    const bw_json *v;
    bw_question q;
    bw_principal principal;
    bw_place at, dest;
    const char *kind; /* NULL = a class; "Collection", "Node" */
    bw_str tenant, name, what; /* what: the class as the case calls it */
    bw_class_id class_id;
    bw_str label_text;
    bool allow, any_policies;
    bw_words policies, errors;
} test_case;

static bw_status wants(bw_ctx *ctx, const bw_json *v, const char *what)
{
    const char *at = bw_json_pointer(ctx, v);
    return at ? bw_fail_at(ctx, BW_EINVALID, at, "%s", what) : BW_ENOMEM;
}

/* A failure about something in the file that has no pointer of its own. */
static bw_status within(bw_ctx *ctx, bw_status s, const char *where)
{
    const char *why = bw_arena_printf(ctx, "%s", bw_ctx_message(ctx));
    const char *at = bw_arena_printf(ctx, "%s%s", where, bw_ctx_pointer(ctx));
    return why && at ? bw_fail_at(ctx, s, at, "%s", why) : bw_fail_nomem(ctx);
}

/* ---- shared names ---- */

/* A member that must be an object if it is there. */
static bw_status table(bw_ctx *ctx, const bw_json *root, const char *name,
                       const bw_json **out)
{
    *out = bw_json_get_value(root, name);
    return !*out || (*out)->kind == BW_JSON_OBJECT ? BW_OK
                                                   : wants(ctx, *out, "wants an object");
}

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
                                          : wants(t->ctx, *out, "wants an object");
}

static bw_status place_of(test_file *t, const bw_json *v, bw_place *out)
{
    static const char *const members[] = {"country", "operator", "certs",
                                          "hw",      "id",       NULL};
    bw_words certs = {NULL, 0}, hw = {NULL, 0};
    const bw_json *o;
    bw_place p;
    memset(&p, 0, sizeof p);
    bw_status s = named(t, v, t->places, "place", &p.id, &o);
    bool has_id = p.id.ptr != NULL;
    if (s == BW_OK && has_id && bw_json_get(o, "id"))
        s = wants(t->ctx, bw_json_get(o, "id"), "the name is the id");
    if (s == BW_OK)
        s = bw_v1_members(t->ctx, o, members);
    if (s == BW_OK && !has_id)
        s = bw_v1_string(t->ctx, o, "id", &p.id);
    if (s == BW_OK)
        s = bw_v1_string(t->ctx, o, "country", &p.country);
    if (s == BW_OK)
        s = bw_v1_string(t->ctx, o, "operator", &p.operator_id);
    if (s == BW_OK)
        s = bw_v1_strings(t->ctx, o, "certs", &certs);
    if (s == BW_OK)
        s = bw_v1_strings(t->ctx, o, "hw", &hw);
    if (s != BW_OK)
        return s;
    if (p.id.len == 0 || !p.country.ptr || !p.operator_id.ptr)
        return wants(t->ctx, o, "a place wants an id, country and operator");
    p.certs = certs.items;
    p.ncerts = certs.n;
    p.hw = hw.items;
    p.nhw = hw.n;
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
        s = wants(t->ctx, bw_json_get(o, "id"), "the name is the id");
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
        return wants(t->ctx, o, "a principal wants an id, tenant and seat");
    clearance = bw_json_get_value(o, "clearance");
    if (clearance && (!bw_json_u64(clearance, &n) || n > 5))
        return wants(t->ctx, clearance, "wants a whole number from 0 to 5");
    p.clearance = (uint32_t)n;
    p.roles = roles.items;
    p.nroles = roles.n;
    *out = p;
    return BW_OK;
}

/* ---- the file ---- */

static bw_status read_pack(test_file *t, const bw_json *v, bw_str *out)
{
    bw_status s = t->o->packs
                      ? bw_pack_compose_in(t->ctx, t->o->packs, &v->str, 1, out)
                      : BW_ENOTFOUND;
    if (s == BW_ENOTFOUND)
        return wants(t->ctx, v, "no pack or set of that name is installed");
    return s == BW_EINVALID ? within(t->ctx, s, bw_json_pointer(t->ctx, v)) : s;
}

/* A path in a test file is seen from that file. */
static bw_status read_beside(test_file *t, const bw_json *v, bw_str *out)
{
    const char *name = bw_arena_cstr(t->ctx, v->str);
    const char *slash = strrchr(t->path, '/');
    if (!name || name[0] == '\0')
        return wants(t->ctx, v, "wants a path");
    if (name[0] != '/' && slash)
        name = bw_arena_printf(t->ctx, "%.*s/%s", (int)(slash - t->path), t->path, name);
    bw_status s = name ? bw_file_read(t->ctx, name, BW_POLICIES_BYTES_MAX, out)
                       : bw_fail_nomem(t->ctx);
    return s == BW_ENOTFOUND ? wants(t->ctx, v, "no such file") : s;
}

/* Parsed alone as well: line and column are those of the part. */
static bw_status part_parses(test_file *t, const bw_json *v, bw_str text)
{
    bw_cedar_policies *p;
    bw_status s = bw_cedar_policies_parse(t->ctx, text, &p);
    if (s != BW_OK)
        return s == BW_ENOMEM ? s : within(t->ctx, s, bw_json_pointer(t->ctx, v));
    bw_cedar_policies_free(p);
    return BW_OK;
}

static bw_status policies_part(test_file *t, const bw_json *v, bw_str *out)
{
    static const char *const members[] = {"file", "text", NULL};
    if (v->kind == BW_JSON_STRING)
        return read_pack(t, v, out);
    const bw_json *m = v->kind == BW_JSON_OBJECT ? v->child : NULL;
    if (!m || v->count != 1 || m->kind != BW_JSON_STRING)
        return wants(t->ctx, v, "wants a pack's name, {\"file\"} or {\"text\"}");
    bw_status s = bw_v1_members(t->ctx, v, members);
    if (s != BW_OK)
        return s;
    if (bw_str_is(m->key, "file"))
        return read_beside(t, m, out);
    *out = m->str;
    return BW_OK;
}

static bw_status policies_of(test_file *t, bw_str *out)
{
    const bw_json *list = bw_json_get_value(t->root, "policies");
    bw_buf b = {0};
    bw_status s = BW_OK;
    if (!list || t->o->policies.ptr) {
        *out = t->o->policies.ptr ? t->o->policies : t->o->fallback;
        return BW_OK;
    }
    if (list->kind != BW_JSON_ARRAY || list->count == 0 ||
        list->count > POLICY_PARTS_MAX)
        return wants(t->ctx, list, "wants a list of packs, files or texts");
    for (const bw_json *v = list->child; v && s == BW_OK; v = v->next) {
        bw_str part;
        s = policies_part(t, v, &part);
        if (s == BW_OK)
            s = part_parses(t, v, part);
        if (s == BW_OK) {
            bw_buf_str(&b, part);
            bw_buf_putc(&b, '\n');
        }
    }
    if (s == BW_OK && b.len > BW_POLICIES_BYTES_MAX)
        s = wants(t->ctx, list, "the set is too long");
    if (s == BW_OK)
        s = b.failed ? bw_fail_nomem(t->ctx)
                     : bw_arena_str(t->ctx, bw_buf_view(&b), out);
    bw_buf_clear(&b);
    return s;
}

static bw_status authority_of(test_file *t)
{
    bw_str policies, overlay = t->o->pack.overlay, entities = t->o->entities;
    const bw_json *own = bw_json_get_value(t->root, "catalogue");
    bw_cedar_policies *parsed;
    bw_status s = policies_of(t, &policies);
    if (s != BW_OK)
        return s;
    if (policies.ptr != t->o->fallback.ptr)
        t->own_policies = policies;
    if (own)
        overlay = own->raw;
    s = bw_catalogue_parse(t->ctx, t->o->pack.catalogue, overlay, &t->catalogue);
    if (s != BW_OK)
        return within(t->ctx, s, own ? "/catalogue" : "");
    own = bw_json_get_value(t->root, "entities");
    if (own)
        entities = own->raw;
    bw_authority_options a = {.schema = t->o->pack.schema,
                              .policies = policies,
                              .entities = entities,
                              .catalogue = t->catalogue,
                              .at = t->cell,
                              .cedar_errors = t->o->cedar_errors,
                              .supposed = true};
    s = bw_authority_new(t->ctx, &a, &t->authority);
    if (s == BW_OK)
        s = bw_cedar_policies_parse(t->ctx, policies, &parsed);
    if (s != BW_OK)
        return s;
    t->reads_now = bw_cedar_policies_read_context(parsed, BW_STR("now"));
    bw_cedar_policies_free(parsed);
    return BW_OK;
}

static bw_status file_open(test_file *t)
{
    static const char *const members[] = {
        "about", "policies", "catalogue", "entities",   "places", "principals",
        "classes", "cell",   "purpose",   "safeguards", "now",    "cases", NULL};
    bw_str text;
    bw_json *root;
    bw_status s = bw_file_read(t->ctx, t->path, CASE_FILE_BYTES_MAX, &text);
    if (s == BW_OK)
        s = bw_json_parse(t->ctx, text, BW_JSON_CEDAR, &root);
    if (s != BW_OK)
        return s;
    if (root->kind != BW_JSON_OBJECT)
        return bw_fail_at(t->ctx, BW_EINVALID, "", "wants a JSON object");
    t->root = root;
    s = bw_v1_members(t->ctx, root, members);
    if (s == BW_OK)
        s = table(t->ctx, root, "places", &t->places);
    if (s == BW_OK)
        s = table(t->ctx, root, "principals", &t->principals);
    if (s == BW_OK)
        s = table(t->ctx, root, "classes", &t->classes);
    if (s != BW_OK)
        return s;
    t->cell = t->o->at;
    const bw_json *cell = bw_json_get_value(root, "cell");
    if (cell)
        s = place_of(t, cell, &t->cell);
    return s == BW_OK ? authority_of(t) : s;
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
        return wants(t->ctx, bw_json_get(from, "now"), "wants a date-time");
    if (!when.ptr && t->reads_now)
        return wants(t->ctx, v, "a policy reads now: the case or the file must say it");
    if ((m = bw_json_get_value(v, "at")) != NULL) {
        s = place_of(t, m, &c->at);
        c->q.at = &c->at;
    }
    if (s == BW_OK && (m = bw_json_get_value(v, "dest")) != NULL) {
        s = place_of(t, m, &c->dest);
        c->q.dest = &c->dest;
    }
    return s;
}

static bw_status case_class(test_file *t, const bw_json *v, test_case *c)
{
    bw_labels set;
    bw_status s = bw_labels_parse(t->ctx, t->catalogue, v, c->principal.tenant, &set);
    if (s == BW_EINVALID) /* its pointer begins at the label set */
        s = within(t->ctx, s, bw_json_pointer(t->ctx, v));
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
        return wants(t->ctx, v, "wants a name, or {\"tenant\", \"name\"}");
    bw_status s = bw_v1_members(t->ctx, v, members);
    if (s == BW_OK)
        s = bw_v1_string(t->ctx, v, "tenant", &c->tenant);
    if (s == BW_OK)
        s = bw_v1_string(t->ctx, v, "name", &c->name);
    return s == BW_OK && !c->name.ptr ? wants(t->ctx, v, "name must be said") : s;
}

static bw_status case_resource(test_file *t, const bw_json *v, test_case *c)
{
    const bw_json *class = bw_json_get_value(v, "class"),
                  *labels = bw_json_get_value(v, "labels"),
                  *collection = bw_json_get_value(v, "collection"),
                  *cell = bw_json_get_value(v, "cell"), *set;
    if (!!class + !!labels + !!collection + !!cell != 1)
        return wants(t->ctx, v, "wants one of class, labels, collection and cell");
    if (collection)
        return case_collection(t, collection, c);
    if (cell) {
        c->kind = "Node";
        return cell->kind == BW_JSON_TRUE ? BW_OK : wants(t->ctx, cell, "wants true");
    }
    if (class && class->kind != BW_JSON_STRING)
        return wants(t->ctx, class, "wants a name; labels takes a label set");
    if (labels && labels->kind != BW_JSON_OBJECT)
        return wants(t->ctx, labels, "wants an object");
    bw_status s = named(t, class ? class : labels, t->classes, "class", &c->what, &set);
    return s == BW_OK ? case_class(t, set, c) : s;
}

static bw_status case_expect(test_file *t, const bw_json *v, test_case *c)
{
    static const char *const members[] = {"decision", "policies", "errors", NULL};
    const bw_json *e = bw_json_get_value(v, "expect"), *d = e;
    if (!e)
        return wants(t->ctx, v, "expects nothing: expect must be said");
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
        return wants(t->ctx, d ? d : e, "expect wants a decision, \"allow\" or \"deny\"");
    c->allow = bw_str_is(d->str, "allow");
    return BW_OK;
}

static bw_status case_parse(test_file *t, const bw_json *v, test_case *c)
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
        return wants(t->ctx, v, "wants an action such as Query or Store");
    const bw_json *who = bw_json_get_value(v, "principal");
    s = who ? principal_of(t, who, &c->principal)
            : wants(t->ctx, v, "principal must be said");
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

/* answered: a cell's decision as JSON, or NULL: this file's own authority is asked. */
static bw_status run_case(test_file *t, const bw_json *v, const bw_json *answered,
                          bw_policy_case *out)
{
    test_case c;
    bw_decision d;
    bw_buf question = {0}, failure = {0};
    bw_arena_mark mark = bw_arena_mark_get(t->ctx);
    bw_status s = case_parse(t, v, &c);
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

/* ---- the same of a running cell: its dry run is asked, some cases at a time ---- */

enum { ASK_CASES = 500 };

static void put_words(bw_buf *b, const char *key, const bw_str *w, size_t n)
{
    bw_json_put_key(b, key);
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < n; i++) {
        bw_json_sep(b);
        bw_json_put_str(b, w[i]);
    }
    bw_buf_putc(b, ']');
}

static void put_text(bw_buf *b, const char *key, bw_str s)
{
    bw_json_put_key(b, key);
    bw_json_put_str(b, s);
}

static void ask_place(bw_buf *b, const char *key, const bw_place *p)
{
    bw_json_put_key(b, key);
    bw_buf_putc(b, '{');
    put_text(b, "id", p->id);
    put_text(b, "country", p->country);
    put_text(b, "operator", p->operator_id);
    put_words(b, "certs", p->certs, p->ncerts);
    put_words(b, "hw", p->hw, p->nhw);
    bw_buf_putc(b, '}');
}

static void ask_subject(bw_buf *b, const test_case *c)
{
    if (!c->kind) {
        bw_json_put_key(b, "labels");
        bw_buf_str(b, c->label_text);
    } else if (c->name.ptr) {
        put_text(b, "collection", c->name);
    } else {
        bw_buf_puts(b, ",\"cell\":true");
    }
}

static bw_status ask_put(test_file *t, const bw_json *v, bw_buf *b)
{
    test_case c;
    char when[40];
    bw_arena_mark mark = bw_arena_mark_get(t->ctx);
    bw_status s = case_parse(t, v, &c);
    if (s == BW_OK && c.kind && c.name.ptr && !bw_str_eq(c.tenant, c.principal.tenant))
        s = wants(t->ctx, v, "a running cell is asked about the principal's own collections");
    if (s != BW_OK)
        return s;
    bw_json_sep(b);
    bw_buf_puts(b, "{\"principal\":{");
    put_text(b, "principal", c.principal.id);
    put_text(b, "tenant", c.principal.tenant);
    put_text(b, "seat", c.principal.seat);
    bw_json_put_key(b, "clearance");
    bw_json_put_u64(b, c.principal.clearance);
    put_words(b, "roles", c.principal.roles, c.principal.nroles);
    bw_buf_putc(b, '}');
    put_text(b, "action", bw_str_c(bw_action_name(c.q.action)));
    ask_subject(b, &c);
    put_text(b, "purpose", c.q.purpose);
    put_words(b, "safeguards", c.q.safeguards, c.q.nsafeguards);
    if (c.q.dest)
        ask_place(b, "dest", c.q.dest);
    if (c.q.at || bw_json_get_value(t->root, "cell"))
        ask_place(b, "at", c.q.at ? c.q.at : &t->cell);
    if (c.q.now_ns) {
        bw_time_format(c.q.now_ns, when);
        put_text(b, "now", bw_str_c(when));
    }
    bw_buf_putc(b, '}');
    bw_arena_release(t->ctx, mark);
    return BW_OK;
}

/* What the file itself brings along is the candidate; the rest is the cell's. */
static void ask_begin(const test_file *t, bw_buf *b)
{
    static const char *const parts[] = {"entities", "catalogue"};
    bw_buf_putc(b, '{');
    if (t->own_policies.ptr)
        put_text(b, "policies", t->own_policies);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const bw_json *v = bw_json_get_value(t->root, parts[i]);
        if (!v)
            continue;
        bw_json_put_key(b, parts[i]);
        bw_buf_str(b, v->raw);
    }
    bw_json_put_key(b, "requests");
    bw_buf_putc(b, '[');
}

/* Cases from `first` on whose list entries are at cases[]; n of them. */
static bw_status ask_some(test_file *t, const bw_json *const *first, bw_policy_case *cases,
                          size_t n, size_t *failed)
{
    bw_buf b = {0};
    const bw_json *answer, *results;
    bw_status s = BW_OK;
    ask_begin(t, &b);
    for (size_t i = 0; i < n && s == BW_OK; i++)
        s = ask_put(t, first[i], &b);
    bw_buf_puts(&b, "]}");
    if (s == BW_OK)
        s = b.failed ? bw_fail_nomem(t->ctx)
                     : t->o->ask(t->o->ask_arg, t->ctx, bw_buf_view(&b), &answer);
    bw_buf_clear(&b);
    if (s != BW_OK)
        return s;
    results = bw_json_get(answer, "results");
    if (!results || results->kind != BW_JSON_ARRAY || results->count != n)
        return bw_fail(t->ctx, BW_EINVALID, "the cell gave no answer to each case");
    results = results->child;
    for (size_t i = 0; i < n && s == BW_OK; i++, results = results->next) {
        s = run_case(t, first[i], results, &cases[i]);
        *failed += cases[i].failure.len > 0;
    }
    return s;
}

static bool name_holds(bw_str name, bw_str part)
{
    return part.len == 0 || memmem(name.ptr, name.len, part.ptr, part.len) != NULL;
}

static bw_status case_name(test_file *t, const bw_json *v, bw_map *seen, bw_str *out)
{
    bool fresh = false;
    if (v->kind != BW_JSON_OBJECT)
        return wants(t->ctx, v, "wants an object");
    const bw_json *name = bw_json_get(v, "name");
    if (!name || name->kind != BW_JSON_STRING || name->str.len == 0)
        return wants(t->ctx, v, "name must be said");
    if (!bw_map_put(seen, name->str.ptr, name->str.len, &fresh))
        return bw_fail_nomem(t->ctx);
    *out = name->str;
    return fresh ? BW_OK : wants(t->ctx, name, "two cases have this name");
}

static bw_status run_cases(test_file *t, bw_policy_test_result *out)
{
    const bw_json *cases = bw_json_get_value(t->root, "cases");
    if (!cases || cases->kind != BW_JSON_ARRAY || cases->count == 0 ||
        cases->count > BW_POLICY_CASES_MAX)
        return bw_fail_at(t->ctx, BW_EINVALID, "/cases",
                          "wants a list of 1 to %d cases", BW_POLICY_CASES_MAX);
    bw_policy_case *list = bw_arena_calloc(t->ctx, cases->count, sizeof *list);
    const bw_json **asked = bw_arena_calloc(t->ctx, cases->count, sizeof *asked);
    bw_map *seen = bw_map_new();
    bw_policy_test_result r = {.cases = list};
    bw_status s = list && asked && seen ? BW_OK : bw_fail_nomem(t->ctx);
    for (const bw_json *v = cases->child; v && s == BW_OK; v = v->next) {
        bw_policy_case *c = &list[r.n];
        s = case_name(t, v, seen, &c->name);
        if (s == BW_OK && !name_holds(c->name, t->o->filter)) {
            r.filtered++;
        } else if (s == BW_OK) {
            s = t->o->ask ? BW_OK : run_case(t, v, NULL, c);
            asked[r.n++] = v;
            r.failed += c->failure.len > 0;
        }
    }
    bw_map_free(seen);
    for (size_t i = 0; t->o->ask && i < r.n && s == BW_OK; i += ASK_CASES)
        s = ask_some(t, asked + i, list + i, r.n - i < ASK_CASES ? r.n - i : ASK_CASES,
                     &r.failed);
    if (s == BW_OK)
        *out = r;
    return s;
}

bw_status bw_policy_test_run(bw_ctx *ctx, const bw_policy_test_options *o,
                             const char *path, bw_policy_test_result *out)
{
    test_file t = {.ctx = ctx, .o = o, .path = path};
    bw_status s = file_open(&t);
    if (s == BW_OK)
        s = run_cases(&t, out);
    bw_authority_free(t.authority);
    bw_catalogue_free(t.catalogue);
    return s;
}

static bw_status judge_set(test_file *t, bw_str set, bw_policy_verdict *out)
{
    const bw_json *cases = bw_json_get_value(t->root, "cases");
    bw_status s = bw_authority_set_policies(t->ctx, t->authority, set);
    *out = s == BW_EINVALID ? BW_POLICY_REFUSED : BW_POLICY_PASSES;
    if (s == BW_EINVALID)
        return BW_OK;
    for (const bw_json *v = cases ? cases->child : NULL;
         v && s == BW_OK && *out == BW_POLICY_PASSES; v = v->next) {
        bw_policy_case c = {0};
        s = run_case(t, v, NULL, &c);
        if (c.failure.len > 0)
            *out = BW_POLICY_FAILS;
    }
    return s;
}

bw_status bw_policy_test_judge(bw_ctx *ctx, const bw_policy_test_options *o,
                               const char *path, const bw_str *sets, size_t n,
                               bw_policy_verdict *out)
{
    test_file t = {.ctx = ctx, .o = o, .path = path};
    bw_status s = file_open(&t);
    for (size_t i = 0; i < n && s == BW_OK; i++) {
        bw_arena_mark mark = bw_arena_mark_get(ctx);
        s = judge_set(&t, sets[i], &out[i]);
        bw_arena_release(ctx, mark);
    }
    bw_authority_free(t.authority);
    bw_catalogue_free(t.catalogue);
    return s;
}
