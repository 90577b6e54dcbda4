/* Label sets that come with a request: whose they are, which class they name, whether
 * it may be stored. No class comes from a body but by its labels. */
#include "gate_request.h"

enum { GATE_CLASSES_MAX = 4096 };

/* Keeps a label set of this request; classes are few (label sets are, by design). */
static bw_status remember(gate_request *g, bw_str bytes, const bw_class_id *id,
                          bw_str canonical)
{
    bw_ctx *ctx = g->pub.ctx;
    bool fresh = false;
    if (!g->given && !(g->given = bw_map_new()))
        return bw_fail_nomem(ctx);
    size_t at = g->nclasses;
    for (size_t i = 0; i < g->nclasses; i++)
        if (bw_class_id_cmp(&g->classes[i].id, id) == 0)
            at = i;
    if (at == GATE_CLASSES_MAX)
        return bw_fail(ctx, BW_EINVALID,
                       "more than %d different label sets in one request",
                       GATE_CLASSES_MAX);
    if (at == g->nclasses) {
        if (g->nclasses == g->cap_classes) {
            size_t cap = g->cap_classes ? g->cap_classes * 2 : 8;
            gate_class *p = bw_arena_grow(ctx, g->classes, g->cap_classes * sizeof *p,
                                          cap * sizeof *p);
            if (!p)
                return bw_fail_nomem(ctx);
            g->classes = p;
            g->cap_classes = cap;
        }
        g->classes[g->nclasses++] = (gate_class){*id, canonical};
    }
    uint64_t *slot = bw_map_put(g->given, bytes.ptr, bytes.len, &fresh);
    if (!slot)
        return bw_fail_nomem(ctx);
    *slot = at + 1;
    return BW_OK;
}

static bw_status invalid_labels(bw_request *r, bw_status s)
{
    if (s != BW_EINVALID)
        return s;
    const char *where = bw_arena_printf(r->ctx, "/_labels%s", bw_ctx_pointer(r->ctx));
    const char *what = bw_arena_printf(r->ctx, "%s", bw_ctx_message(r->ctx));
    return bw_fail_at(r->ctx, BW_EINVALID, where ? where : "/_labels",
                      "Validation error in _labels: %.200s",
                      what ? what : "bad label set");
}

/* What stands for labels that were not given: the key's, else the collection's. */
static bw_status default_labels(bw_request *r, const bw_collection_info *info,
                                const char **from, bw_json **out)
{
    bw_str text = r->caller->default_labels;
    *from = "key";
    if (text.len == 0) {
        text = info->labels;
        *from = "collection";
    }
    if (text.len == 0)
        return bw_fail_at(r->ctx, BW_EINVALID, "/_labels",
                          "Validation error: _labels is missing, and neither the key "
                          "nor the collection "
                          "has default labels");
    return bw_json_parse(r->ctx, text,
                         (bw_json_limits){.depth_max = 16, .bytes_max = 1 << 20}, out);
}

bw_status bw_gate_labels(bw_request *r, const bw_collection_info *info,
                         const bw_json *given, bw_labels *out, const char **from)
{
    bw_json *fallback;
    *from = "request";
    bw_status s = given ? BW_OK : default_labels(r, info, from, &fallback);
    return s == BW_OK
               ? invalid_labels(r, bw_labels_parse(r->ctx, r->server->catalogue,
                                                   given ? given : fallback,
                                                   r->caller->principal.tenant, out))
               : s;
}

bw_status bw_gate_judge(bw_request *r, bw_action action, const bw_class_id *id,
                        bw_str labels, const bw_decision **out)
{
    bw_question q;
    bw_gate__question(r, action, &q);
    bw_status s =
        bw_decision_acquire(r->ctx, r->server->authority, &q, id, labels, out);
    if (s == BW_OK)
        bw_audit_add_decision(r->audit, action,
                              &(bw_audit_subject){.class_id = id, .labels = labels},
                              *out);
    return s;
}

static const bw_class_id *remembered(const gate_request *g, bw_str bytes)
{
    const uint64_t *slot = g->given ? bw_map_get(g->given, bytes.ptr, bytes.len) : NULL;
    return slot ? &g->classes[*slot - 1].id : NULL;
}

/* Decides Store, then makes the class known. bytes: what it is remembered by. */
static bw_status admit(bw_request *r, bw_str bytes, bw_str canonical, bw_class_id *out)
{
    bw_server *srv = r->server;
    bw_class_id id;
    bw_question q;
    const bw_decision *d;
    bw_labels_class_id(canonical, &id);
    bw_gate__question(r, BW_ACTION_STORE, &q);
    bw_status s = bw_decision_acquire(r->ctx, srv->authority, &q, &id, canonical, &d);
    if (s != BW_OK)
        return s;
    if (!d->allow)
        s = bw_gate__denied(r, BW_ACTION_STORE, &id, canonical, false, d);
    bw_decision_release(d);
    if (s == BW_OK)
        s = bw_class_put(r->ctx, srv->engine, &id, canonical);
    if (s == BW_OK)
        s = bw_register_class(r->ctx, srv->classes, &id, canonical);
    if (s == BW_OK)
        s = remember(gate_of(r), bytes, &id, canonical);
    if (s == BW_OK)
        *out = id;
    return s;
}

bw_status bw_gate_class_of(bw_request *r, const bw_labels *labels, bw_class_id *out)
{
    bw_str canonical;
    bw_status s = bw_labels_canonical(r->ctx, labels, &canonical);
    if (s != BW_OK)
        return s;
    const bw_class_id *known = remembered(gate_of(r), canonical);
    if (!known)
        return admit(r, canonical, canonical, out);
    *out = *known;
    return BW_OK;
}

bw_status bw_gate_class(bw_request *r, const bw_collection_info *info,
                        const bw_json *given, bw_class_id *out)
{
    bw_str canonical, bytes = given ? given->raw : BW_STR("");
    bw_labels set;
    const char *from;
    if (r->server->config.dev) {
        if (given)
            return bw_fail_at(r->ctx, BW_EINVALID, "/_labels",
                              "Validation error: _labels: a --dev cell has one class; "
                              "run `bailiwick init`");
        *out = r->server->dev_class;
        return BW_OK;
    }
    const bw_class_id *known = remembered(gate_of(r), bytes);
    if (known) {
        *out = *known;
        return BW_OK;
    }
    bw_status s = bw_gate_labels(r, info, given, &set, &from);
    if (s == BW_OK)
        s = bw_labels_canonical(r->ctx, &set, &canonical);
    return s == BW_OK ? admit(r, bytes, canonical, out) : s;
}
