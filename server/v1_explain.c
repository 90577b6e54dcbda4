/* POST /v1/explain: why a question to the policies is answered as it is, and what would
 * turn it. POST /v1/explain/result and the `residency` member of /v1/query: which
 * places touch a result and why each may.
 *
 * A caller asks about itself: of labels that it writes down (nothing stored is looked
 * at), of a collection's name, of the cell, or of a class or point that it may query
 * for the purpose of the request. A class or point that it may not query, and one that
 * is not there, is the same 404 by the same path: the permitted sets of the caller's
 * own tenant are made first and nothing else is ever looked up. About another
 * principal, or about a refusal in the audit log, only whoever may ReadAudit asks; that
 * asker is also shown names that others are not (policies/explain.h). */
#include "v1_explain.h"
#include "archive.h"
#include "v1_ingest.h"

enum { RESIDENCY_CLASSES_MAX = 64 };

/* ---- the asker ---- */

static bw_status want_read_audit(bw_request *r, bw_response *out)
{
    bw_status s =
        bw_gate__object(r, BW_ACTION_READ_AUDIT, "Node", r->server->config.cell_id);
    if (s == BW_EDENIED)
        out->status = 403;
    return s;
}

/* version 0: of rules that are no longer in force. */
static void put_rules(bw_buf *b, uint64_t version, bw_str policies, bw_str catalogue)
{
    bw_buf_puts(b, ",\"rules\":{");
    if (version) {
        bw_json_put_key(b, "version");
        bw_json_put_u64(b, version);
    }
    if (policies.len) {
        bw_json_put_key(b, "policies");
        bw_json_put_str(b, policies);
    }
    bw_json_put_key(b, "catalogue");
    bw_json_put_str(b, catalogue);
    bw_buf_putc(b, '}');
}

/* The digest that goes with a version: none when they changed under the request. */
static bw_str digest_of(const bw_request *r, uint64_t version)
{
    return version == r->audit->policy_version ? r->audit->policy_digest : BW_STR("");
}

/* ---- what is asked about ---- */

typedef struct asked {
    bw_request *r;
    const bw_json *body, *principal;
    bw_v1_question q;
    bw_explain_ask ask;
    uint32_t changes_max;
    bw_words purposes, safeguards; /* of the key */
    /* Of a past refusal the rules of then; else NULL. */
    bw_authority *then;
    bw_catalogue *then_catalogue;
    bw_place then_cell;
    bw_str then_policies;
} asked;

/* The body without what bw_v1_question_parse does not know; a class or a point stands
 * there as the cell until it is looked up. */
static bw_status plain_question(asked *x, bool stored, const bw_json **out)
{
    static const char *const ours[] = {"class", "point", "changes_max", NULL};
    bw_buf b = {0};
    bw_json *v = NULL;
    bw_str text;
    bw_buf_putc(&b, '{');
    for (const bw_json *m = x->body->child; m; m = m->next) {
        bool skip = stored && bw_str_is(m->key, "collection");
        for (const char *const *o = ours; *o; o++)
            skip = skip || bw_str_eq(m->key, bw_str_c(*o));
        if (skip)
            continue;
        bw_json_sep(&b);
        bw_json_put_str(&b, m->key);
        bw_buf_putc(&b, ':');
        bw_buf_str(&b, m->raw);
    }
    if (stored) {
        bw_json_sep(&b);
        bw_buf_puts(&b, "\"cell\":true");
    }
    bw_buf_putc(&b, '}');
    bw_status s = b.failed ? bw_fail_nomem(x->r->ctx)
                           : bw_arena_str(x->r->ctx, bw_buf_view(&b), &text);
    bw_buf_clear(&b);
    if (s == BW_OK)
        s = bw_json_parse(x->r->ctx, text, BW_JSON_REQUEST, &v);
    *out = v;
    return s;
}

static bw_status not_there(bw_request *r, const char *what)
{
    return bw_fail_at(r->ctx, BW_ENOTFOUND, what,
                      "nothing of that name is known to this key for this purpose");
}

/* Whether the caller may query the class in one of its tenant's collections, all of
 * which are asked whatever the answer is. */
static bw_status class_visible(bw_request *r, const bw_class_id *id, bool *out)
{
    const bw_collection_info *info;
    size_t n;
    *out = false;
    bw_status s = bw_collection_list(r->ctx, r->server->engine,
                                     r->caller->principal.tenant, &info, &n);
    for (size_t i = 0; i < n && s == BW_OK; i++) {
        bw_permit p;
        s = bw_gate_permit(r, info[i].name, BW_ACTION_QUERY, NULL, &p);
        *out = *out || (s == BW_OK && bw_permit_has(&p, id));
        if (s == BW_ENOTFOUND) /* dropped meanwhile */
            s = BW_OK;
    }
    return s;
}

/* The class of a point that the caller may read; of several copies the first class, or
 * that which the body names. */
static bw_status point_class(bw_request *r, bw_str collection, const bw_json *point,
                             const bw_class_id *wanted, bw_class_id *out)
{
    bw_collection_info info;
    bw_permit permit;
    bw_point_id id;
    bw_result *result = NULL;
    bw_qdrant_parse p = {.ctx = r->ctx};
    bool found = false;
    size_t n = 0;
    bw_status s = bw_qdrant__point_id(&p, point, &id);
    if (s != BW_OK)
        return s == BW_EINVALID ? bw_fail_at(r->ctx, s, "/point", "wants a point's id")
                                : s;
    s = bw_gate_permit(r, collection, BW_ACTION_QUERY, &info, &permit);
    if (s != BW_OK)
        return s;
    bw_class_id *one = bw_arena_alloc(r->ctx, sizeof *one);
    if (!one)
        return bw_fail_nomem(r->ctx);
    if (wanted) { /* only there */
        *one = *wanted;
        permit = (bw_permit){one, bw_permit_has(&permit, wanted)};
    }
    bw_read read = {.tenant = info.tenant,
                    .name = info.name,
                    .permit = &permit,
                    .now_ns = r->now_ns};
    s = bw_retrieve(r->ctx, r->server->engine, &read, &id, 1, &result);
    if (s == BW_OK) {
        const bw_hit *hits = bw_result_hits(result, 0, &n);
        found = n > 0;
        if (found)
            *out = hits[0].class_id;
    }
    bw_result_free(result);
    return s == BW_OK && !found ? not_there(r, "/point") : s;
}

static bw_status stored_class(asked *x, const bw_json *class, const bw_json *point)
{
    bw_request *r = x->r;
    bw_class_id id;
    bw_str collection = {NULL, 0};
    bool seen = true;
    bw_status s = bw_v1_string(r->ctx, x->body, "collection", &collection);
    if (s != BW_OK)
        return s;
    if (class && (class->kind != BW_JSON_STRING || !bw_class_id_parse(class->str, &id)))
        return bw_fail_at(r->ctx, BW_EINVALID, "/class", "wants 64 hex digits");
    if (point && !collection.ptr)
        return bw_fail_at(r->ctx, BW_EINVALID, "/collection",
                          "the point's collection must be said");
    if (point) {
        s = point_class(r, collection, point, class ? &id : NULL, &id);
    } else if (collection.ptr) {
        bw_permit p;
        s = bw_gate_permit(r, collection, BW_ACTION_QUERY, NULL, &p);
        seen = s == BW_OK && bw_permit_has(&p, &id);
    } else {
        s = class_visible(r, &id, &seen);
    }
    if (s == BW_OK && !seen)
        s = not_there(r, "/class");
    if (s == BW_OK)
        s = bw_gate_label_text(r, &id, &x->q.label_text);
    x->q.class_id = id;
    x->q.kind = NULL;
    return s;
}

/* Labels of another tenant would ask what an operator has agreed with that tenant. */
static bw_status own_tenant(asked *x)
{
    bw_labels l;
    if (!x->q.label_text.ptr || x->ask.privileged)
        return BW_OK;
    bw_status s = bw_labels_from_canonical(x->r->ctx, x->q.label_text, &l);
    if (s == BW_OK && !bw_str_eq(l.tenant, x->q.principal.tenant))
        s = bw_fail_at(x->r->ctx, BW_EINVALID, "/labels/tenant",
                       "is the caller's own here");
    return s;
}

/* A collection is meant by an alias as the gate means it. */
static bw_status mean_collection(asked *x)
{
    bw_collection_info info;
    if (!x->q.kind || strcmp(x->q.kind, "Collection") != 0 || x->q.name.len == 0)
        return BW_OK;
    bw_status s = bw_collection_get(x->r->ctx, x->r->server->engine, x->q.tenant,
                                    x->q.name, &info);
    if (s == BW_OK)
        x->q.name = info.name;
    return s == BW_ENOTFOUND ? BW_OK : s;
}

static bw_status whose_words(asked *x)
{
    const gate_request *g = gate_of(x->r);
    bw_key_record other;
    const bw_key_record *k = g->key;
    if (x->principal) {
        bw_status s = bw_key_record_parse(x->r->ctx, x->principal, &other);
        if (s != BW_OK)
            return s;
        k = &other;
    }
    if (k) {
        x->purposes = k->purposes;
        x->safeguards = k->safeguards;
    }
    return BW_OK;
}

static bw_status read_question(asked *x)
{
    bw_request *r = x->r;
    const bw_json *class = bw_json_get_value(x->body, "class"),
                  *point = bw_json_get_value(x->body, "point"), *plain;
    bool stored = class || point;
    bw_status s = plain_question(x, stored, &plain);
    if (s == BW_OK && stored &&
        (bw_json_get_value(x->body, "labels") || bw_json_get_value(x->body, "cell")))
        s = bw_fail_at(r->ctx, BW_EINVALID, "",
                       "wants one of labels, class, point, collection and cell");
    if (s == BW_OK)
        s = bw_v1_question_parse(r->ctx, r->server->catalogue, plain,
                                 x->principal ? NULL : r->caller,
                                 r->server->config.cell_id, &x->q);
    if (s == BW_OK)
        s = stored ? stored_class(x, class, point) : mean_collection(x);
    if (s == BW_OK)
        s = bw_v1_question_fits(r->ctx, &x->q);
    if (s == BW_OK && !stored)
        s = own_tenant(x);
    return s == BW_OK ? whose_words(x) : s;
}

/* ---- answers ---- */

static void put_place(bw_buf *b, const char *key, const bw_place *p)
{
    bw_json_put_key(b, key);
    bw_buf_puts(b, "{\"id\":");
    bw_json_put_str(b, p->id);
    bw_json_put_key(b, "country");
    bw_json_put_str(b, p->country);
    bw_json_put_key(b, "operator");
    bw_json_put_str(b, p->operator_id);
    for (int i = 0; i < 2; i++) {
        const bw_str *words = i ? p->hw : p->certs;
        size_t n = i ? p->nhw : p->ncerts;
        bw_json_put_key(b, i ? "hw" : "certs");
        bw_buf_putc(b, '[');
        for (size_t k = 0; k < n; k++) {
            bw_json_sep(b);
            bw_json_put_str(b, words[k]);
        }
        bw_buf_putc(b, ']');
    }
    bw_buf_putc(b, '}');
}

void bw_v1_put_asked(bw_buf *b, const bw_v1_question *q, const bw_place *cell)
{
    char hex[BW_CLASS_TEXT + 1];
    bw_buf_printf(b, ",\"action\":\"%s\",\"principal\":", bw_action_name(q->q.action));
    bw_json_put_str(b, q->q.principal->id);
    if (q->label_text.ptr) {
        bw_class_id_hex(&q->class_id, hex);
        bw_buf_printf(b, ",\"class\":\"%s\",\"labels\":", hex);
        bw_buf_str(b, q->label_text);
    } else if (strcmp(q->kind, "Collection") == 0) {
        bw_json_put_key(b, "collection");
        bw_json_put_str(b, q->name);
    }
    bw_json_put_key(b, "purpose");
    bw_json_put_str(b, q->q.purpose);
    bw_json_put_key(b, "safeguards");
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < q->q.nsafeguards; i++) {
        bw_json_sep(b);
        bw_json_put_str(b, q->q.safeguards[i]);
    }
    bw_buf_putc(b, ']');
    put_place(b, "at", q->q.at ? q->q.at : cell);
    if (q->q.dest)
        put_place(b, "dest", q->q.dest);
}

static bw_status answer(asked *x, bw_buf *b)
{
    bw_request *r = x->r;
    bw_explanation e;
    bw_place cell = x->then_cell;
    if (!x->then)
        bw_config_place(&r->server->config, &cell);
    x->ask = (bw_explain_ask){.q = &x->q.q,
                              .label_text = x->q.label_text,
                              .kind = x->q.kind,
                              .tenant = x->q.tenant,
                              .name = x->q.name,
                              .privileged = x->ask.privileged,
                              .claimable = x->purposes.items,
                              .nclaimable = x->purposes.n,
                              .recorded = x->safeguards.items,
                              .nrecorded = x->safeguards.n,
                              .changes_max = x->changes_max};
    bw_status s =
        bw_explain(r->ctx, x->then ? x->then : r->server->authority, &x->ask, &e);
    if (s != BW_OK)
        return s;
    bw_buf_putc(b, '{');
    bw_explanation_put(b, &e);
    bw_v1_put_asked(b, &x->q, &cell);
    if (x->then)
        put_rules(b, 0, x->then_policies, bw_catalogue_version(x->then_catalogue));
    else
        put_rules(b, e.version, digest_of(r, e.version), r->audit->catalogue_version);
    bw_buf_putc(b, '}');
    return BW_OK;
}

/* ---- a past refusal ---- */

static bw_status event_find(bw_request *r, uint64_t seq, const bw_json **out)
{
    bw_audit_filter f = {.after = seq - 1, .has_after = true, .limit = 1};
    bw_buf b = {0};
    bw_json *v = NULL;
    bw_str text = {NULL, 0};
    uint64_t next, got = 0;
    bw_status s = bw_audit_query(r->ctx, r->server->audit, &f, &b, &next);
    if (s == BW_OK)
        s = b.failed ? bw_fail_nomem(r->ctx)
                     : bw_arena_str(r->ctx, bw_buf_view(&b), &text);
    bw_buf_clear(&b);
    if (s == BW_OK && text.len > 0)
        s = bw_json_parse(r->ctx, text, BW_JSON_REQUEST, &v);
    if (s == BW_OK && (!v || !bw_json_u64(bw_json_get(v, "seq"), &got) || got != seq))
        s = bw_fail_at(r->ctx, BW_ENOTFOUND, "/event", "the log has no such event");
    *out = v;
    return s;
}

static bw_str member(const bw_json *o, const char *name)
{
    const bw_json *v = bw_json_get_value(o, name);
    return v && v->kind == BW_JSON_STRING ? v->str : BW_STR("");
}

/* The question of one refused decision, from what the log keeps. *known: false when the
 * class's labels are no longer to be had. */
static bw_status event_question(asked *x, const bw_json *event, const bw_json *d,
                                bool *known)
{
    bw_ctx *ctx = x->r->ctx;
    bw_v1_question *q = &x->q;
    bw_words roles = {NULL, 0}, safeguards = {NULL, 0};
    uint64_t clearance = 0;
    *q = (bw_v1_question){0};
    *known = true;
    bw_status s = bw_v1_strings(ctx, event, "roles", &roles);
    if (s == BW_OK)
        s = bw_v1_strings(ctx, event, "safeguards", &safeguards);
    (void)bw_json_u64(bw_json_get_value(event, "clearance"), &clearance);
    if (s == BW_OK && !bw_action_parse(member(d, "action"), &q->q.action))
        s = bw_fail(ctx, BW_ECORRUPT, "an event without its action");
    if (s != BW_OK)
        return s;
    q->principal = (bw_principal){.id = member(event, "principal"),
                                  .tenant = member(event, "tenant"),
                                  .seat = member(event, "seat"),
                                  .clearance = (uint32_t)clearance,
                                  .roles = roles.items,
                                  .nroles = roles.n};
    q->q.principal = &q->principal;
    q->q.purpose =
        bw_json_get(d, "purpose") ? member(d, "purpose") : member(event, "purpose");
    q->q.safeguards = safeguards.items;
    q->q.nsafeguards = safeguards.n;
    if (!bw_time_parse(member(event, "time"), &q->q.now_ns))
        q->q.now_ns = x->r->now_ns;
    q->tenant = q->principal.tenant;
    if (!bw_json_get(d, "class")) {
        q->kind = bw_json_get(d, "on") ? "Collection" : "Node";
        q->name = bw_json_get(d, "on") ? member(d, "on") : x->r->server->config.cell_id;
        return BW_OK;
    }
    if (!bw_class_id_parse(member(d, "class"), &q->class_id))
        return bw_fail(ctx, BW_ECORRUPT, "an event without its class");
    const bw_json *labels = bw_json_get(d, "labels");
    if (labels)
        q->label_text = labels->raw;
    else
        s = bw_class_get(ctx, x->r->server->engine, &q->class_id, &q->label_text);
    *known = s != BW_ENOTFOUND;
    return s == BW_ENOTFOUND ? BW_OK : s;
}

/* The rules that the event names, out of the archive. BW_ENOTFOUND: not kept, or no
 * longer to be read; the rules of now must do. */
static bw_status rules_of_then(asked *x, const bw_json *event)
{
    bw_ctx *ctx = x->r->ctx;
    bw_facts f;
    bw_str text;
    bw_authority_options o;
    bw_str policies = member(event, "policies");
    bw_status s = bw_facts_get(ctx, x->r->server->dir, member(event, "facts"), &f);
    if (s == BW_OK)
        s = bw_archive_get(ctx, x->r->server->dir, BW_ARCHIVE_POLICIES, policies,
                           &text);
    if (s == BW_OK)
        s = bw_catalogue_parse(ctx, f.catalogue, f.overlay, &x->then_catalogue);
    if (s == BW_OK) {
        o = (bw_authority_options){.schema = f.schema,
                                   .policies = text,
                                   .entities = f.entities,
                                   .catalogue = x->then_catalogue,
                                   .at = f.cell};
        s = bw_authority_new(ctx, &o, &x->then);
    }
    if (s == BW_OK) {
        x->then_cell = f.cell;
        x->then_policies = policies;
    }
    return s == BW_ENOMEM || s == BW_ETIMEOUT || s == BW_OK ? s : BW_ENOTFOUND;
}

static bw_status put_denials(asked *x, const bw_json *event, bw_buf *b)
{
    const bw_json *denied = bw_json_get_value(event, "denied");
    bw_status s = BW_OK;
    for (const bw_json *d = denied ? denied->child : NULL; d && s == BW_OK;
         d = d->next) {
        bool known;
        bw_json_sep(b);
        s = event_question(x, event, d, &known);
        if (s == BW_OK && known)
            s = answer(x, b);
        else if (s == BW_OK)
            bw_buf_printf(b,
                          "{\"decision\":\"deny\",\"says\":\"the labels of class "
                          "%.64s are no longer here\"}",
                          member(d, "class").ptr);
    }
    return s;
}

static bw_status explain_event(asked *x, bw_buf *b)
{
    bw_request *r = x->r;
    const bw_json *event = NULL;
    uint64_t seq = 0;
    if (!bw_json_u64(bw_json_get_value(x->body, "event"), &seq) || seq == 0)
        return bw_fail_at(r->ctx, BW_EINVALID, "/event", "wants an event's number");
    bw_status s = event_find(r, seq, &event);
    if (s != BW_OK)
        return s;
    bool same = bw_str_eq(member(event, "policies"), r->audit->policy_digest) &&
                bw_str_eq(member(event, "facts"), r->audit->facts_digest);
    if (!same)
        s = rules_of_then(x, event);
    if (s != BW_OK && s != BW_ENOTFOUND)
        return s;
    const bw_json *status = bw_json_get_value(event, "status");
    bw_buf_printf(b, "{\"event\":%llu,\"status\":", (unsigned long long)seq);
    if (status)
        bw_buf_str(b, status->raw);
    else
        bw_buf_puts(b, "null");
    bw_buf_printf(b,
                  ",\"rules_changed_since\":%s,\"by_rules_of\":\"%s\","
                  "\"explanations\":[",
                  same ? "false" : "true", same || x->then ? "then" : "now");
    s = put_denials(x, event, b);
    bw_buf_puts(b, "]}");
    return s;
}

/* ---- the handler ---- */

static bw_status need_policies(bw_request *r)
{
    return r->server->authority
               ? BW_OK
               : bw_fail(r->ctx, BW_ECONFLICT, "a --dev cell has no policies");
}

bw_status bw_v1_explain(bw_request *r, bw_response *out)
{
    static const char *const allowed[] = {
        "action", "labels",      "class",     "collection", "point",
        "cell",   "dest",        "principal", "purpose",    "safeguards",
        "event",  "changes_max", NULL};
    static const char *const event_only[] = {"event", "changes_max", NULL};
    asked x = {.r = r};
    bw_status s = need_policies(r);
    if (s == BW_OK)
        s = bw_v1_body(r, allowed, &x.body);
    if (s == BW_OK)
        s = bw_v1_number(r->ctx, x.body, "changes_max", 1, BW_EXPLAIN_CHANGES_CAP,
                         &x.changes_max);
    if (s != BW_OK)
        return s;
    x.principal = bw_json_get_value(x.body, "principal");
    const bw_json *event = bw_json_get_value(x.body, "event");
    s = x.principal || event ? want_read_audit(r, out)
                             : bw_gate_reads_audit(r, &x.ask.privileged);
    if (s != BW_OK)
        return s;
    if (event) {
        x.ask.privileged = true;
        s = bw_v1_members(r->ctx, x.body, event_only);
        if (s == BW_OK)
            s = explain_event(&x, &out->body);
        bw_authority_free(x.then);
        bw_catalogue_free(x.then_catalogue);
        return s == BW_OK ? bw_v1_done(r, out) : s;
    }
    x.ask.privileged = x.ask.privileged || x.principal;
    s = read_question(&x);
    if (s == BW_OK)
        s = answer(&x, &out->body);
    return s == BW_OK ? bw_v1_done(r, out) : s;
}

/* ---- residency of a result ---- */

static bw_status put_class(bw_request *r, bw_buf *b, const bw_class_id *id,
                           bool privileged, uint64_t *version)
{
    bw_question q;
    bw_explanation e;
    bw_str labels;
    char hex[BW_CLASS_TEXT + 1];
    bw_status s = bw_gate_label_text(r, id, &labels);
    if (s != BW_OK)
        return s;
    bw_gate__question(r, BW_ACTION_QUERY, &q);
    bw_explain_ask ask = {.q = &q, .label_text = labels, .privileged = privileged};
    s = bw_explain(r->ctx, r->server->authority, &ask, &e);
    if (s != BW_OK)
        return s;
    if (!e.decision.allow) /* the rules changed under the request */
        return bw_fail(r->ctx, BW_EUNAVAILABLE, "the policies changed; ask again");
    *version = e.version;
    bw_class_id_hex(id, hex);
    bw_json_sep(b);
    bw_buf_printf(b, "{\"class\":\"%s\",\"labels\":", hex);
    bw_buf_str(b, labels);
    bw_buf_putc(b, ',');
    bw_explanation_put(b, &e);
    bw_buf_putc(b, '}');
    return BW_OK;
}

bw_status bw_v1_put_residency(bw_request *r, bw_buf *b, const bw_class_id *classes,
                              size_t n, bool embedded)
{
    bw_place cell;
    bool privileged = false;
    bw_status s = BW_OK;
    size_t shown = n < RESIDENCY_CLASSES_MAX ? n : RESIDENCY_CLASSES_MAX;
    uint64_t version = r->audit->policy_version;
    bw_config_place(&r->server->config, &cell);
    bw_buf_putc(b, '{');
    put_place(b, "cell", &cell);
    bw_json_put_key(b, "embedding");
    const bw_encoder *encoder = bw_server_encoder(r->server);
    if (embedded && encoder) {
        bw_buf_puts(b, "{\"provider\":\"this cell's own encoder\",\"model\":");
        bw_json_put_str(b, bw_encoder_model(encoder));
        put_place(b, "place", &cell);
        bw_buf_puts(b, ",\"because\":\"the text did not leave the cell\"}");
    } else {
        bw_buf_puts(b, "null");
    }
    if (r->server->authority) {
        s = bw_gate_reads_audit(r, &privileged);
        bw_buf_puts(b, ",\"classes\":[");
        for (size_t i = 0; i < shown && s == BW_OK; i++) {
            bw_arena_mark mark = bw_arena_mark_get(r->ctx);
            s = put_class(r, b, &classes[i], privileged, &version);
            bw_arena_release(r->ctx, mark);
        }
        bw_buf_printf(b, "],\"more_classes\":%zu", n - shown);
        put_rules(b, version, digest_of(r, version), r->audit->catalogue_version);
    }
    bw_buf_putc(b, '}');
    return s;
}

bw_status bw_v1_explain_result(bw_request *r, bw_response *out)
{
    static const char *const allowed[] = {"collection", "mode", NULL};
    const bw_json *body;
    bw_str collection, mode = BW_STR("hybrid");
    bw_permit permit;
    bw_status s = need_policies(r);
    if (s == BW_OK)
        s = bw_v1_body(r, allowed, &body);
    if (s == BW_OK)
        s = bw_v1_text(r->ctx, body, "collection", 1, BW_LIMIT_COLLECTION_NAME,
                       &collection);
    if (s == BW_OK)
        s = bw_v1_string(r->ctx, body, "mode", &mode);
    if (s == BW_OK && !bw_str_is(mode, "dense") && !bw_str_is(mode, "bm25") &&
        !bw_str_is(mode, "hybrid"))
        s = bw_fail_at(r->ctx, BW_EINVALID, "/mode", "wants dense, bm25 or hybrid");
    if (s == BW_OK)
        s = bw_gate_permit(r, collection, BW_ACTION_QUERY, NULL, &permit);
    if (s == BW_OK)
        s = bw_v1_put_residency(r, &out->body, permit.classes, permit.n,
                                !bw_str_is(mode, "bm25"));
    return s == BW_OK ? bw_v1_done(r, out) : s;
}
