/* POST /v1/relabel: points go from their classes to others as one act.
 *
 *   {"collection", "points": [id…] | "filter": {…}, "labels": {…} | "raise": {…}, "dry_run"?}
 *   -> which points, in which of the classes that the caller may read
 *   -> for each class the one that it becomes (labels: one for all)
 *   -> decisions: Relabel on each class that points leave, Store on each that they enter;
 *      all must allow, else a 451 that names the policy, and nothing has moved
 *   -> one bw_write over all partitions
 *
 * Points that the caller cannot see are not there. Where two seen copies of one id would
 * meet in a class: 409. What a hidden copy of the id in the new class held is replaced, as
 * by an upsert. A payload stays as it came, `_labels` that a client put into it included;
 * what counts is the class. Points that are where they shall be stay, so a call that was
 * answered or cut off may be made again.
 *
 * Between looking and writing others may write: a point that is not where it was seen
 * makes the engine refuse all, and the call looks again, a few times. */
#include "../engine/base/map.h"
#include "v1_ingest.h"

enum {
    RELABEL_POINTS_MAX = BW_LIMIT_POINTS,
    RELABEL_CLASSES_MAX = 1000, /* that points leave: all of them are in the event */
    TRIES = 4
};

typedef struct group { /* of the selected points, those of one class */
    bw_class_id from, to;
    bw_str from_text, to_text;
    bw_labels to_labels;
    bw_point_id *ids;
    size_t n, cap;
    const bw_decision *relabel, *store;
} group;

typedef struct relabelling {
    bw_request *r;
    bw_ctx *ctx;
    bw_collection_info info;
    bw_permit readable;
    const bw_filter *filter;
    bool dry_run, raises;
    bw_labels labels;     /* the new set, or */
    bw_label_raise raise; /* what each one gets */
    group *groups;
    size_t ngroups, cap_groups;
    bw_map *by_class; /* of the class that points leave: index of its group */
    size_t points, unchanged;
    bool allowed;
} relabelling;

/* ---- the body ---- */

static bw_status below(relabelling *x, const char *member, bw_status s)
{
    if (s != BW_EINVALID)
        return s;
    const char *at = bw_ctx_pointer(x->ctx), *dup = "/_labels";
    at += strncmp(at, dup, strlen(dup)) == 0 ? strlen(dup) : 0;
    const char *pointer = bw_arena_printf(x->ctx, "/%s%s", member, at);
    const char *why = bw_arena_printf(x->ctx, "%s", bw_ctx_message(x->ctx));
    return pointer && why ? bw_fail_at(x->ctx, s, pointer, "%s", why) : BW_ENOMEM;
}

static bw_status read_filter(relabelling *x, const bw_json *body, bw_response *out)
{
    const bw_json *ids = bw_json_get_value(body, "points"),
                  *filter = bw_json_get_value(body, "filter");
    bw_qdrant_parse p = {.ctx = x->ctx, .info = &x->info};
    if (!ids == !filter)
        return bw_fail_at(x->ctx, BW_EINVALID, "",
                          "wants either points or filter: which ones to relabel");
    bw_status s;
    if (ids) {
        bw_condition *c = bw_arena_calloc(x->ctx, 1, sizeof *c);
        bw_filter *f = bw_arena_calloc(x->ctx, 1, sizeof *f);
        if (!c || !f)
            return bw_fail_nomem(x->ctx);
        c->kind = BW_COND_HAS_ID;
        *f = (bw_filter){.must = c, .nmust = 1};
        x->filter = f;
        s = bw_qdrant__ids(&p, ids, "points", &c->ids, &c->nids);
    } else {
        s = bw_qdrant__filter(&p, filter, &x->filter);
    }
    if (s == BW_EINVALID)
        out->status = p.status;
    return s;
}

static bw_status read_target(relabelling *x, const bw_json *body, bw_response *out)
{
    const bw_json *labels = bw_json_get_value(body, "labels"),
                  *raise = bw_json_get_value(body, "raise");
    const char *from;
    if (!labels == !raise)
        return bw_fail_at(x->ctx, BW_EINVALID, "",
                          "wants either labels (the whole new set) or raise");
    if (x->r->server->config.dev)
        return bw_fail_at(x->ctx, BW_EINVALID, labels ? "/labels" : "/raise",
                          "a --dev cell has one class; run `bailiwick init`");
    x->raises = raise != NULL;
    bw_status s =
        raise ? below(x, "raise",
                      bw_label_raise_parse(x->ctx, x->r->server->catalogue, raise,
                                           &x->raise))
              : below(x, "labels",
                      bw_gate_labels(x->r, &x->info, labels, &x->labels, &from));
    if (s == BW_EINVALID)
        out->status = 422;
    return s;
}

static bw_status read_body(relabelling *x, bw_response *out)
{
    static const char *const allowed[] = {"collection", "points",  "filter", "labels",
                                          "raise",      "dry_run", NULL};
    const bw_json *body;
    bw_str collection;
    bw_status s = bw_v1_body(x->r, allowed, &body);
    if (!s)
        s = bw_v1_text(x->ctx, body, "collection", 1, BW_LIMIT_COLLECTION_NAME,
                       &collection);
    if (!s)
        s = bw_v1_flag(x->ctx, body, "dry_run", &x->dry_run);
    if (!s)
        s = bw_gate_permit(x->r, collection, BW_ACTION_QUERY, &x->info, &x->readable);
    if (!s)
        s = read_filter(x, body, out);
    return s ? s : read_target(x, body, out);
}

/* ---- which points ---- */

static bw_status target_of(relabelling *x, group *g)
{
    bw_labels was;
    bw_status s = bw_gate_label_text(x->r, &g->from, &g->from_text);
    g->to_labels = x->labels;
    if (!s && x->raises)
        s = bw_labels_from_canonical(x->ctx, g->from_text, &was);
    if (!s && x->raises)
        s = below(x, "raise",
                  bw_labels_raise(x->ctx, x->r->server->catalogue, &was, &x->raise,
                                  &g->to_labels));
    if (!s)
        s = bw_labels_canonical(x->ctx, &g->to_labels, &g->to_text);
    if (!s)
        bw_labels_class_id(g->to_text, &g->to);
    return s;
}

static bool stays(const group *g)
{
    return bw_class_id_cmp(&g->from, &g->to) == 0;
}

static bw_status group_of(relabelling *x, const bw_class_id *id, group **out)
{
    bool fresh = false;
    uint64_t *at = bw_map_put(x->by_class, id->bytes, sizeof id->bytes, &fresh);
    if (!at)
        return bw_fail_nomem(x->ctx);
    if (!fresh) {
        *out = &x->groups[*at];
        return BW_OK;
    }
    if (x->ngroups == RELABEL_CLASSES_MAX)
        return bw_fail(x->ctx, BW_EINVALID,
                       "points of more than %d label sets: narrow the filter",
                       RELABEL_CLASSES_MAX);
    if (x->ngroups == x->cap_groups) {
        size_t cap = x->ngroups ? 2 * x->ngroups : 8;
        group *p =
            bw_arena_grow(x->ctx, x->groups, x->ngroups * sizeof *p, cap * sizeof *p);
        if (!p)
            return bw_fail_nomem(x->ctx);
        x->groups = p;
        x->cap_groups = cap;
    }
    *at = x->ngroups;
    *out = &x->groups[x->ngroups++];
    **out = (group){.from = *id};
    return target_of(x, *out);
}

static bw_status note_point(void *arg, const bw_hit *hit)
{
    relabelling *x = arg;
    group *g = NULL;
    bw_status s = group_of(x, &hit->class_id, &g);
    if (s)
        return s;
    if (stays(g)) {
        x->unchanged++;
        return BW_OK;
    }
    if (x->points == RELABEL_POINTS_MAX)
        return bw_fail(x->ctx, BW_EINVALID,
                       "more than %d points to move in one call: narrow the filter",
                       RELABEL_POINTS_MAX);
    if (g->n == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 64;
        bw_point_id *p =
            bw_arena_grow(x->ctx, g->ids, g->n * sizeof *p, cap * sizeof *p);
        if (!p)
            return bw_fail_nomem(x->ctx);
        g->ids = p;
        g->cap = cap;
    }
    g->ids[g->n++] = hit->id;
    x->points++;
    return BW_OK;
}

static bw_status find_points(relabelling *x)
{
    bw_read read = {.tenant = x->info.tenant,
                    .name = x->info.name,
                    .permit = &x->readable,
                    .now_ns = x->r->now_ns};
    x->groups = NULL;
    x->ngroups = x->cap_groups = x->points = x->unchanged = 0;
    bw_map_free(x->by_class);
    if (!(x->by_class = bw_map_new()))
        return bw_fail_nomem(x->ctx);
    return bw_v1_each_point(x->r, &read, x->filter, note_point, x);
}

/* ---- decisions ---- */

static bw_status judge(relabelling *x)
{
    bw_status s = BW_OK;
    x->allowed = true;
    for (size_t i = 0; i < x->ngroups && !s; i++) {
        group *g = &x->groups[i];
        if (stays(g))
            continue;
        s = bw_gate_judge(x->r, BW_ACTION_RELABEL, &g->from, g->from_text, &g->relabel);
        if (!s)
            s = bw_gate_judge(x->r, BW_ACTION_STORE, &g->to, g->to_text, &g->store);
        if (!s)
            x->allowed = x->allowed && g->relabel->allow && g->store->allow;
    }
    return s;
}

static void release(relabelling *x)
{
    for (size_t i = 0; i < x->ngroups; i++) {
        bw_decision_release(x->groups[i].relabel);
        bw_decision_release(x->groups[i].store);
        x->groups[i].relabel = x->groups[i].store = NULL;
    }
}

static bw_status refuse(relabelling *x)
{
    for (size_t i = 0; i < x->ngroups; i++) {
        const group *g = &x->groups[i];
        if (g->relabel && !g->relabel->allow)
            return bw_gate_refuse(x->r, BW_ACTION_RELABEL, g->from_text, g->relabel);
        if (g->store && !g->store->allow)
            return bw_gate_refuse(x->r, BW_ACTION_STORE, g->to_text, g->store);
    }
    return BW_OK;
}

/* ---- the act ---- */

static bw_status note(relabelling *x)
{
    char from[BW_CLASS_TEXT + 1], to[BW_CLASS_TEXT + 1];
    bw_buf b = {0};
    for (size_t i = 0; i < x->ngroups; i++) {
        const group *g = &x->groups[i];
        if (stays(g))
            continue;
        bw_class_id_hex(&g->from, from);
        bw_class_id_hex(&g->to, to);
        bw_buf_printf(&b, "%s{\"from\":\"%s\",\"to\":\"%s\",\"points\":%zu}",
                      b.len ? "," : "[", from, to, g->n);
        for (size_t k = 0; k < g->n; k++)
            bw_audit_add_id(x->r->audit, &g->ids[k], &g->from);
    }
    bw_buf_putc(&b, ']');
    bw_status s = b.failed
                      ? bw_fail_nomem(x->ctx)
                      : bw_arena_str(x->ctx, bw_buf_view(&b), &x->r->audit->relabelled);
    bw_buf_clear(&b);
    return s;
}

/* Whatever changed in the rules or at the points since they were looked at. */
static bw_status denied(relabelling *x, const bw_access *a, const bw_class_id *id)
{
    bool entered = false;
    for (size_t i = 0; i < x->ngroups; i++)
        entered = entered || bw_class_id_cmp(&x->groups[i].to, id) == 0;
    bw_action action = !entered                       ? BW_ACTION_RELABEL
                       : bw_permit_has(&a->store, id) ? BW_ACTION_DELETE
                                                      : BW_ACTION_STORE;
    return bw_gate_denied(x->r, id, action);
}

static bw_status move(relabelling *x)
{
    bw_move *moves = bw_arena_calloc(x->ctx, x->ngroups + 1, sizeof *moves);
    bw_op op = {.kind = BW_OP_RELABEL, .moves = moves};
    bw_write_result result = {0};
    bw_access access;
    bw_status s = moves ? BW_OK : bw_fail_nomem(x->ctx);
    for (size_t i = 0; i < x->ngroups && !s; i++) {
        group *g = &x->groups[i];
        if (stays(g))
            continue;
        s = bw_gate_class_of(x->r, &g->to_labels, &g->to);
        moves[op.nmoves++] = (bw_move){g->from, g->to, g->ids, (uint32_t)g->n};
    }
    if (!s)
        s = bw_gate_access(x->r, x->info.name, NULL, &access);
    if (!s)
        s = bw_write(x->ctx, bw_server_engine(x->r->server), x->info.tenant,
                     x->info.name, &access, &op, 1, &result);
    else
        return s;
    return s == BW_EDENIED ? denied(x, &access, &result.denied_class) : s;
}

/* Of another tenant's labels no policy is named, as everywhere. */
static bw_status put_decision(relabelling *x, bw_buf *b, bw_action action, bw_str labels,
                              const bw_decision *d)
{
    bw_decision shown = *d;
    bool tells;
    bw_status s = bw_gate_tells(x->r, labels, &tells);
    if (s)
        return s;
    if (!tells)
        shown.npolicies = shown.nerrors = 0;
    bw_json_sep(b);
    bw_buf_puts(b, "{\"action\":");
    bw_json_put_str(b, bw_str_c(bw_action_name(action)));
    bw_v1_put_decision(b, &shown);
    bw_buf_putc(b, '}');
    return BW_OK;
}

static bw_status answer(relabelling *x, bw_response *out)
{
    char hex[BW_CLASS_TEXT + 1];
    bw_buf *b = &out->body;
    bw_buf_printf(b,
                  "{\"moved\":%zu,\"unchanged\":%zu,\"dry_run\":%s,\"allowed\":%s,"
                  "\"classes\":[",
                  x->dry_run ? 0 : x->points, x->unchanged,
                  x->dry_run ? "true" : "false", x->allowed ? "true" : "false");
    bw_status s = BW_OK;
    for (size_t i = 0; i < x->ngroups && !s; i++) {
        const group *g = &x->groups[i];
        if (stays(g))
            continue;
        bw_class_id_hex(&g->from, hex);
        bw_json_sep(b);
        bw_buf_printf(b, "{\"points\":%zu,\"from\":\"%s\",\"from_labels\":", g->n, hex);
        bw_buf_str(b, g->from_text);
        bw_class_id_hex(&g->to, hex);
        bw_buf_printf(b, ",\"to\":\"%s\",\"to_labels\":", hex);
        bw_buf_str(b, g->to_text);
        bw_buf_puts(b, ",\"decisions\":[");
        s = put_decision(x, b, BW_ACTION_RELABEL, g->from_text, g->relabel);
        if (!s)
            s = put_decision(x, b, BW_ACTION_STORE, g->to_text, g->store);
        bw_buf_puts(b, "]}");
    }
    bw_buf_puts(b, "]}");
    return s ? s : bw_v1_done(x->r, out);
}

static bw_status once(relabelling *x)
{
    bw_status s = find_points(x);
    if (!s)
        s = judge(x);
    if (s || x->dry_run)
        return s;
    s = refuse(x);
    if (!s && x->points)
        s = move(x);
    return !s && x->points ? note(x) : s;
}

bw_status bw_v1_relabel(bw_request *r, bw_response *out)
{
    relabelling x = {.r = r, .ctx = r->ctx};
    bw_status s = read_body(&x, out);
    for (int tries = 0; tries < TRIES && !s; tries++) {
        s = once(&x);
        if (s == BW_EINVALID)
            out->status = 422;
        if (s != BW_ECONFLICT || tries + 1 == TRIES)
            break;
        release(&x);
        s = BW_OK;
    }
    if (!s)
        s = answer(&x, out);
    release(&x);
    bw_map_free(x.by_class);
    return s;
}
