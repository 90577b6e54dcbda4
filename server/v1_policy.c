/* /v1/policies, /v1/authorize: questions to the policies, not to the data.
 *
 * authorize answers for the caller itself and for labels that the caller writes down,
 * so it tells nothing about what is stored; the same question for somebody else is the
 * dry run's, which needs Admin. */
#include "v1_ingest.h"

#include <stdio.h>

bw_status bw_v1_need_policies(bw_request *r)
{
    return r->server->authority
               ? BW_OK
               : bw_fail(r->ctx, BW_ECONFLICT, "a --dev cell has no policies");
}

bw_status bw_v1_policies_get(bw_request *r, bw_response *out)
{
    bw_in_force_view v;
    char when[40];
    bw_status s = bw_v1_need_policies(r);
    if (s == BW_OK)
        s = bw_in_force_get(r->ctx, r->server, &v);
    if (s != BW_OK)
        return s;
    bw_time_format(v.policies_since_ns, when);
    bw_buf_printf(&out->body,
                  "{\"digest\":\"%s\",\"version\":%llu,\"entities\":\"%s\","
                  "\"facts\":\"%s\",\"catalogue\":",
                  v.state.policies, (unsigned long long)v.state.version,
                  v.state.entities, v.facts);
    bw_json_put_str(&out->body, bw_catalogue_version(r->server->catalogue));
    bw_buf_printf(&out->body, ",\"in_force_since\":\"%s\",\"policies\":", when);
    bw_json_put_str(&out->body, v.policies);
    bw_buf_putc(&out->body, '}');
    return bw_v1_done(r, out);
}

/* A set under which its own author could not change it back: refused unless forced,
 * since the only way out of it is the cell's disk. */
static bw_status keeps_admin(bw_request *r, bw_str text)
{
    bw_question q;
    bw_decision d;
    bw_gate__question(r, BW_ACTION_ADMIN, &q);
    bw_status s =
        bw_decide_dry(r->ctx, r->server->authority, text, &q, (bw_str){NULL, 0}, &d);
    if (s != BW_OK || d.allow)
        return s;
    return bw_fail_at(r->ctx, BW_ECONFLICT, "/policies",
                      "this set would deny Admin to the key that puts it; say "
                      "\"force\": true to do it all the same");
}

/* Every finding of validation; none when the text does not even parse. */
static bw_status put_findings(bw_request *r, bw_str text, bw_buf *b)
{
    bw_facts facts;
    bw_in_force_view v;
    bw_cedar_schema *schema = NULL;
    bw_cedar_policies *p = NULL;
    bw_cedar_validation found = {0};
    bw_status s = bw_in_force_get(r->ctx, r->server, &v);
    if (s == BW_OK)
        s = bw_facts_get(r->ctx, r->server->dir, bw_str_c(v.facts), &facts);
    if (s == BW_OK)
        s = bw_cedar_schema_parse(r->ctx, facts.schema, &schema);
    if (s == BW_OK)
        s = bw_cedar_policies_parse(r->ctx, text, &p);
    if (s == BW_OK)
        s = bw_cedar_policies_validate(r->ctx, p, schema, NULL, &found);
    for (size_t i = 0; s == BW_OK && i < found.nfindings; i++) {
        const bw_cedar_finding *f = &found.findings[i];
        const char *line = bw_cedar_finding_text(r->ctx, p, f);
        bw_json_sep(b);
        bw_buf_printf(b, "{\"line\":%zu,\"column\":%zu,\"warning\":%s,\"message\":",
                      f->line, f->column, f->warning ? "true" : "false");
        bw_json_put_str(b, bw_str_c(line ? line : ""));
        bw_buf_putc(b, '}');
    }
    bw_cedar_policies_free(p);
    bw_cedar_schema_free(schema);
    return s == BW_EINVALID ? BW_OK : s;
}

/* The 422 in the form of every error, with `findings` beside message and pointer. */
static bw_status refuse_set(bw_request *r, bw_str text, bw_response *out)
{
    bw_buf findings = {0};
    const char *why = bw_arena_printf(r->ctx, "%s", bw_ctx_message(r->ctx));
    bw_status s = why ? put_findings(r, text, &findings) : bw_fail_nomem(r->ctx);
    if (s == BW_OK) {
        bw_error_response(out, BW_FAMILY_V1, 422, BW_EINVALID, why, "/policies");
        out->body.len -= 2; /* before its closing braces */
        bw_buf_puts(&out->body, ",\"findings\":[");
        bw_buf_str(&out->body, bw_buf_view(&findings));
        bw_buf_puts(&out->body, "]}}");
    }
    bw_buf_clear(&findings);
    return s == BW_OK ? bw_v1_done(r, out) : s;
}

bw_status bw_v1_policies_put(bw_request *r, bw_response *out)
{
    static const char *const allowed[] = {"policies", "if_digest", "force", NULL};
    const bw_json *body;
    bw_str text = {NULL, 0}, expected = {NULL, 0};
    bool force = false;
    bw_status s = bw_v1_need_policies(r);
    if (s == BW_OK)
        s = bw_v1_body(r, allowed, &body);
    if (s == BW_OK)
        s = bw_v1_string(r->ctx, body, "policies", &text);
    if (s == BW_OK)
        s = bw_v1_string(r->ctx, body, "if_digest", &expected);
    if (s == BW_OK)
        s = bw_v1_flag(r->ctx, body, "force", &force);
    if (s != BW_OK)
        return s;
    if (!text.ptr)
        return bw_fail_at(r->ctx, BW_EINVALID, "/policies",
                          "wants the Cedar text as a string");
    s = force || text.len > BW_POLICIES_BYTES_MAX ? BW_OK : keeps_admin(r, text);
    if (s == BW_OK)
        s = bw_server_policies_put(r->ctx, r->server, text, expected);
    if (s == BW_EINVALID) /* well formed JSON, but no policy set: the old one stays */
        return refuse_set(r, text, out);
    return s == BW_OK ? bw_v1_policies_get(r, out) : s;
}

/* ---- questions ---- */

static bw_status parse_dest(bw_ctx *ctx, const bw_json *v, bw_place *out)
{
    static const char *const allowed[] = {"id",    "country", "operator",
                                          "certs", "hw",      NULL};
    if (v->kind != BW_JSON_OBJECT)
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v), "wants an object");
    bw_status s = bw_v1_members(ctx, v, allowed);
    if (s == BW_OK)
        s = bw_v1_place(ctx, v, out);
    if (s != BW_OK)
        return s;
    return out->id.ptr && out->country.ptr && out->operator_id.ptr
               ? BW_OK
               : bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v),
                            "id, country and operator must be said");
}

/* Whose question it is: the caller's own, or (dry run) a written-down principal's. */
static bw_status parse_who(bw_ctx *ctx, const bw_json *v, const bw_caller *self,
                           bw_v1_question *out)
{
    bw_key_record who;
    const bw_json *p = bw_json_get_value(v, "principal");
    bw_words safeguards = {NULL, 0};
    if (p && self)
        return bw_fail_at(ctx, BW_EINVALID, "/principal",
                          "is the caller's own here; see the dry run");
    if (!p && !self)
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v),
                          "principal must be said");
    if (p) {
        bw_status s = bw_key_record_parse(ctx, p, &who);
        if (s != BW_OK)
            return s;
        out->principal = (bw_principal){who.principal, who.tenant,      who.seat,
                                        who.clearance, who.roles.items, who.roles.n};
        out->q.purpose = who.default_purpose.ptr ? who.default_purpose : BW_STR("");
        out->q.safeguards = who.safeguards.items;
        out->q.nsafeguards = who.safeguards.n;
    } else {
        out->principal = self->principal;
        out->q.purpose = self->purpose;
        out->q.safeguards = self->safeguards;
        out->q.nsafeguards = self->nsafeguards;
    }
    out->q.principal = &out->principal;
    if (self) /* purpose and safeguards are the gate's to pick: the headers say them */
        return bw_json_get_value(v, "purpose") || bw_json_get_value(v, "safeguards")
                   ? bw_fail_at(ctx, BW_EINVALID, "/purpose",
                                "is chosen by the x-bailiwick headers")
                   : BW_OK;
    bw_status s = bw_v1_string(ctx, v, "purpose", &out->q.purpose);
    if (s == BW_OK)
        s = bw_v1_strings(ctx, v, "safeguards", &safeguards);
    if (s == BW_OK && bw_json_get_value(v, "safeguards")) {
        out->q.safeguards = safeguards.items;
        out->q.nsafeguards = safeguards.n;
    }
    return s;
}

bw_status bw_v1_within(bw_ctx *ctx, bw_status s, const char *where)
{
    const char *why = bw_arena_printf(ctx, "%s", bw_ctx_message(ctx));
    const char *at = bw_arena_printf(ctx, "%s%s", where, bw_ctx_pointer(ctx));
    return why && at ? bw_fail_at(ctx, s, at, "%s", why) : bw_fail_nomem(ctx);
}

static bw_status parse_what(bw_ctx *ctx, const bw_catalogue *catalogue,
                            const bw_json *v, bw_str cell_id, bw_v1_question *out)
{
    const bw_json *labels = bw_json_get_value(v, "labels");
    const bw_json *collection = bw_json_get_value(v, "collection");
    const bw_json *cell = bw_json_get_value(v, "cell");
    bw_labels set;
    if (!!labels + !!collection + !!cell != 1)
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v),
                          "wants one of labels, collection and cell");
    out->tenant = out->principal.tenant;
    if (labels) {
        bw_status s =
            bw_labels_parse(ctx, catalogue, labels, out->principal.tenant, &set);
        if (s == BW_EINVALID) /* its pointer begins at the label set */
            return bw_v1_within(ctx, s, bw_json_pointer(ctx, labels));
        if (s == BW_OK)
            s = bw_labels_canonical(ctx, &set, &out->label_text);
        if (s == BW_OK)
            bw_labels_class_id(out->label_text, &out->class_id);
        return s;
    }
    if (collection) {
        out->kind = "Collection";
        return bw_v1_string(ctx, v, "collection", &out->name);
    }
    out->kind = "Node";
    out->name = cell_id;
    return cell->kind == BW_JSON_TRUE
               ? BW_OK
               : bw_fail_at(ctx, BW_EINVALID, "/cell", "wants true");
}

/* Where and when, which nobody chooses for its own requests. */
static bw_status parse_what_if(bw_ctx *ctx, const bw_json *v, bw_v1_question *out)
{
    const bw_json *at = bw_json_get_value(v, "at");
    bw_str now = {NULL, 0};
    bw_status s = bw_v1_string(ctx, v, "now", &now);
    if (s == BW_OK && now.ptr && !bw_time_parse(now, &out->q.now_ns))
        s = bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, bw_json_get(v, "now")),
                       "wants a date-time");
    if (s == BW_OK && at) {
        s = parse_dest(ctx, at, &out->at);
        out->q.at = &out->at;
    }
    return s;
}

static bw_status bad_action(bw_ctx *ctx, const bw_json *at)
{
    char all[256];
    size_t n = 0;
    for (int a = 0; a < BW_ACTION_COUNT && n < sizeof all; a++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", a ? ", " : "",
                              bw_action_name((bw_action)a));
    return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, at),
                      "wants an action, one of %s", all);
}

bw_status bw_v1_question_fits(bw_ctx *ctx, const bw_v1_question *q)
{
    bw_action a = q->q.action;
    const char *about = a == BW_ACTION_MANAGE_COLLECTION ? "Collection"
                        : a == BW_ACTION_READ_AUDIT || a == BW_ACTION_ADMIN ? "Node"
                                                                            : NULL;
    if (about ? q->kind && strcmp(q->kind, about) == 0 : !q->kind)
        return BW_OK;
    return bw_fail_at(ctx, BW_EINVALID, "/action", "%s is decided about %s",
                      bw_action_name(a),
                      !about            ? "a class of data: say labels, class or point"
                      : about[0] == 'C' ? "a collection: say collection"
                                        : "the cell: say cell");
}

bw_status bw_v1_question_parse(bw_ctx *ctx, const bw_catalogue *catalogue,
                               const bw_json *v, const bw_caller *self, bw_str cell_id,
                               bw_v1_question *out)
{
    static const char *const allowed[] = {
        "principal",  "action", "labels", "collection", "cell", "purpose",
        "safeguards", "dest",   "at",     "now",        NULL};
    bw_str action = {NULL, 0};
    memset(out, 0, sizeof *out);
    if (v->kind != BW_JSON_OBJECT)
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v), "wants an object");
    bw_status s = bw_v1_members(ctx, v, allowed);
    if (s == BW_OK)
        s = bw_v1_string(ctx, v, "action", &action);
    if (s == BW_OK && (!action.ptr || !bw_action_parse(action, &out->q.action)))
        s = bad_action(ctx, bw_json_get(v, "action") ? bw_json_get(v, "action") : v);
    if (s == BW_OK)
        s = parse_who(ctx, v, self, out);
    if (s == BW_OK)
        s = parse_what(ctx, catalogue, v, cell_id, out);
    const bw_json *dest = bw_json_get_value(v, "dest");
    if (s == BW_OK && dest) {
        s = parse_dest(ctx, dest, &out->dest);
        out->q.dest = &out->dest;
    }
    out->q.now_ns = bw_clock_unix_ns();
    return s == BW_OK && !self ? parse_what_if(ctx, v, out) : s;
}

void bw_v1_put_decision(bw_buf *b, const bw_decision *d)
{
    bw_json_put_key(b, "decision");
    bw_buf_puts(b, d->allow ? "\"allow\"" : "\"deny\"");
    bw_json_put_strs(b, "policies", d->policies, d->npolicies);
    bw_json_put_strs(b, "errors", d->errors, d->nerrors);
}

/* A collection is meant by an alias as the gate means it. */
bw_status bw_v1_decide(bw_request *r, bw_authority *a, const bw_v1_question *q,
                       bw_decision *d)
{
    bw_collection_info info = {.name = q->name};
    bw_status s = BW_OK;
    if (q->kind && q->name.len > 0 && strcmp(q->kind, "Collection") == 0)
        s = bw_collection_get(r->ctx, r->server->engine, q->tenant, q->name, &info);
    if (s != BW_OK && s != BW_ENOTFOUND)
        return s;
    if (q->kind)
        return bw_decide_object(r->ctx, a, &q->q, q->kind, q->tenant,
                                s == BW_OK ? info.name : q->name, d);
    return bw_decide_class(r->ctx, a, &q->q, &q->class_id, q->label_text, d);
}

bw_status bw_v1_authorize(bw_request *r, bw_response *out)
{
    static const char *const allowed[] = {"action", "labels", "collection",
                                          "cell",   "dest",   NULL};
    const bw_json *body;
    bw_v1_question q;
    bw_decision d;
    bool tells = true;
    char hex[BW_CLASS_TEXT + 1];
    bw_status s = bw_v1_need_policies(r);
    if (s == BW_OK)
        s = bw_v1_body(r, allowed, &body);
    if (s == BW_OK)
        s = bw_v1_question_parse(r->ctx, r->server->catalogue, body, r->caller,
                                 r->server->config.cell_id, &q);
    if (s == BW_OK)
        s = bw_v1_decide(r, r->server->authority, &q, &d);
    if (s == BW_OK && q.label_text.ptr)
        s = bw_gate_tells(r, q.label_text, &tells);
    if (s != BW_OK)
        return s;
    if (!tells)
        d.npolicies = d.nerrors = 0;
    bw_buf_puts(&out->body, "{");
    bw_v1_put_decision(&out->body, &d);
    if (q.label_text.ptr) {
        bw_class_id_hex(&q.class_id, hex);
        bw_buf_printf(&out->body, ",\"class\":\"%s\",\"labels\":", hex);
        bw_buf_str(&out->body, q.label_text);
    }
    bw_buf_putc(&out->body, '}');
    return bw_v1_done(r, out);
}
