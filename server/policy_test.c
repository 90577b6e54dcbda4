/* Runs the tests of a policy set (policy_test.h has the format): reads the file, builds
 * an authority of its own for it and asks case by case.
 *
 * Strict on purpose: a test that names a place, a purpose or a member wrongly would else
 * pass for the wrong reason, most denials being alike. */
#include "policy_test_run.h"
#include "files.h"

enum { CASE_FILE_BYTES_MAX = 64 << 20, POLICY_PARTS_MAX = 256 };

bw_status policy_test_wants(bw_ctx *ctx, const bw_json *v, const char *what)
{
    const char *at = bw_json_pointer(ctx, v);
    return at ? bw_fail_at(ctx, BW_EINVALID, at, "%s", what) : BW_ENOMEM;
}

/* ---- the file ---- */

static bw_status read_pack(test_file *t, const bw_json *v, bw_str *out)
{
    bw_status s = t->o->packs
                      ? bw_pack_compose_in(t->ctx, t->o->packs, &v->str, 1, out)
                      : BW_ENOTFOUND;
    if (s == BW_ENOTFOUND)
        return policy_test_wants(t->ctx, v, "no pack or set of that name is installed");
    return s == BW_EINVALID ? bw_v1_within(t->ctx, s, bw_json_pointer(t->ctx, v)) : s;
}

/* A path in a test file is seen from that file. */
static bw_status read_beside(test_file *t, const bw_json *v, bw_str *out)
{
    const char *name = bw_arena_cstr(t->ctx, v->str);
    const char *slash = strrchr(t->path, '/');
    if (!name || name[0] == '\0')
        return policy_test_wants(t->ctx, v, "wants a path");
    if (name[0] != '/' && slash)
        name = bw_arena_printf(t->ctx, "%.*s/%s", (int)(slash - t->path), t->path, name);
    bw_status s = name ? bw_file_read(t->ctx, name, BW_POLICIES_BYTES_MAX, out)
                       : bw_fail_nomem(t->ctx);
    return s == BW_ENOTFOUND ? policy_test_wants(t->ctx, v, "no such file") : s;
}

/* Parsed alone as well: line and column are those of the part. */
static bw_status part_parses(test_file *t, const bw_json *v, bw_str text)
{
    bw_cedar_policies *p;
    bw_status s = bw_cedar_policies_parse(t->ctx, text, &p);
    if (s != BW_OK)
        return s == BW_ENOMEM ? s : bw_v1_within(t->ctx, s, bw_json_pointer(t->ctx, v));
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
        return policy_test_wants(t->ctx, v, "wants a pack's name, {\"file\"} or {\"text\"}");
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
        return policy_test_wants(t->ctx, list, "wants a list of packs, files or texts");
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
        s = policy_test_wants(t->ctx, list, "the set is too long");
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
        return bw_v1_within(t->ctx, s, own ? "/catalogue" : "");
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

/* A member that must be an object if it is there. */
static bw_status table(bw_ctx *ctx, const bw_json *root, const char *name,
                       const bw_json **out)
{
    *out = bw_json_get_value(root, name);
    return !*out || (*out)->kind == BW_JSON_OBJECT ? BW_OK
                                                   : policy_test_wants(ctx, *out, "wants an object");
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
        s = policy_test_place(t, cell, &t->cell);
    return s == BW_OK ? authority_of(t) : s;
}

static bool name_holds(bw_str name, bw_str part)
{
    return part.len == 0 || memmem(name.ptr, name.len, part.ptr, part.len) != NULL;
}

static bw_status case_name(test_file *t, const bw_json *v, bw_map *seen, bw_str *out)
{
    bool fresh = false;
    if (v->kind != BW_JSON_OBJECT)
        return policy_test_wants(t->ctx, v, "wants an object");
    const bw_json *name = bw_json_get(v, "name");
    if (!name || name->kind != BW_JSON_STRING || name->str.len == 0)
        return policy_test_wants(t->ctx, v, "name must be said");
    if (!bw_map_put(seen, name->str.ptr, name->str.len, &fresh))
        return bw_fail_nomem(t->ctx);
    *out = name->str;
    return fresh ? BW_OK : policy_test_wants(t->ctx, name, "two cases have this name");
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
            s = t->o->ask ? BW_OK : policy_test_run_case(t, v, NULL, c);
            asked[r.n++] = v;
            r.failed += c->failure.len > 0;
        }
    }
    bw_map_free(seen);
    if (s == BW_OK && t->o->ask)
        s = policy_test_ask(t, asked, list, r.n, &r.failed);
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
        s = policy_test_run_case(t, v, NULL, &c);
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
