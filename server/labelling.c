/* Labels of what comes in (labelling.h). */
#include "files.h"
#include "gate_request.h"
#include "labelling.h"

bw_status bw_labelling_rules(bw_ctx *ctx, const bw_config *c,
                             const bw_catalogue *catalogue, bw_rules **out)
{
    bw_str text = {NULL, 0};
    bw_status s = BW_OK;
    if (c->ingest_rules.len > 0) {
        const char *path = bw_arena_cstr(ctx, c->ingest_rules);
        s = path ? bw_file_read(ctx, path, BW_RULES_BYTES_MAX, &text)
                 : bw_fail_nomem(ctx);
        if (s == BW_OK && text.len == 0)
            s = bw_fail(ctx, BW_EINVALID, "the file is empty");
    }
    if (s == BW_OK)
        s = bw_rules_new(ctx, text, BW_RULES_CELL, catalogue, out);
    if (s == BW_OK || c->ingest_rules.len == 0)
        return s;
    const char *why = bw_arena_printf(ctx, "%s", bw_ctx_message(ctx));
    const char *at = bw_arena_printf(ctx, "%s", bw_ctx_pointer(ctx));
    return bw_fail(ctx, s, "ingest.rules: %s%s%s", at ? at : "", at && *at ? ": " : "",
                   why ? why : "cannot be read");
}

/* Nothing is put into the register yet: the set that is kept may be another. */
static bw_status judge_store(bw_request *r, const bw_labels *labels)
{
    bw_str canonical;
    bw_class_id id;
    const bw_decision *d;
    bw_status s = bw_labels_canonical(r->ctx, labels, &canonical);
    if (s != BW_OK)
        return s;
    bw_labels_class_id(canonical, &id);
    s = bw_gate_judge(r, BW_ACTION_STORE, &id, canonical, &d);
    if (s != BW_OK)
        return s;
    if (!d->allow)
        s = bw_gate_refuse(r, BW_ACTION_STORE, canonical, d);
    bw_decision_release(d);
    return s;
}

/* A rule's labels were read once when the file was; here they get their tenant. */
static bw_status find_base(bw_request *r, const bw_collection_info *info,
                           const bw_json *given, const bw_rule_subject *about,
                           bw_labelling *l)
{
    bw_server *s = r->server;
    bw_status st = BW_OK;
    if (!given)
        st = bw_rules_base(r->ctx, s->rules, about, &l->rule, &l->later);
    if (st != BW_OK || l->later)
        return st;
    if (!l->rule)
        return bw_gate_labels(r, info, given, &l->labels, &l->from);
    l->from = "rule";
    return bw_labels_parse(r->ctx, s->catalogue, l->rule->labels,
                           r->caller->principal.tenant, &l->labels);
}

bw_status bw_labelling_begin(bw_request *r, const bw_collection_info *info,
                             const bw_json *given, const bw_rule_subject *about,
                             bw_labelling *out)
{
    *out = (bw_labelling){0};
    bw_status s = find_base(r, info, given, about, out);
    return s == BW_OK && !out->later ? judge_store(r, &out->labels) : s;
}

static bw_status no_place(bw_request *r, bw_status s)
{
    if (s != BW_EINVALID)
        return s;
    const char *why = bw_arena_printf(r->ctx, "%s", bw_ctx_message(r->ctx));
    return bw_fail_at(r->ctx, BW_EINVALID, "/_labels",
                      "Validation error in _labels: %.200s", why ? why : "");
}

/* The base, if it is still to be found, and what raises it; for the audit record, too. */
static bw_status finish(bw_request *r, const bw_collection_info *info,
                        const bw_rule_subject *about, bw_labelling *l)
{
    bw_server *srv = r->server;
    bw_status s = l->later ? find_base(r, info, NULL, about, l) : BW_OK;
    if (s == BW_OK)
        s = no_place(r, bw_rules_raise(r->ctx, srv->rules, srv->catalogue, about,
                                       &l->labels, &l->raised));
    if (s != BW_OK)
        return s;
    bw_buf b = {0};
    bw_labelling_put(l, &b);
    s = b.failed ? bw_fail_nomem(r->ctx)
                 : bw_arena_str(r->ctx, bw_buf_view(&b), &r->audit->labelled);
    bw_buf_clear(&b);
    return s;
}

bw_status bw_labelling_end(bw_request *r, const bw_collection_info *info,
                           const bw_rule_subject *about, bw_labelling *l,
                           bw_class_id *out)
{
    bw_status s = finish(r, info, about, l);
    return s == BW_OK ? bw_gate_class_of(r, &l->labels, out) : s;
}

bw_status bw_labelling_try(bw_request *r, const bw_collection_info *info,
                           const bw_rule_subject *about, bw_labelling *l)
{
    bw_status s = finish(r, info, about, l);
    return s == BW_OK ? judge_store(r, &l->labels) : s;
}

bw_status bw_labelling_point(bw_request *r, const bw_collection_info *info,
                             const bw_json *given, bw_str text, bw_class_id *out)
{
    bw_server *srv = r->server;
    bw_labels labels;
    bw_raised raised;
    const char *from;
    if (srv->config.dev || !text.ptr)
        return bw_gate_class(r, info, given, out);
    bw_status s = bw_gate_labels(r, info, given, &labels, &from);
    if (s == BW_OK)
        s = no_place(r, bw_rules_detect(r->ctx, srv->rules, srv->catalogue, text,
                                        &labels, &raised));
    if (s != BW_OK)
        return s;
    for (int k = 0; k < BW_DETECT_COUNT; k++)
        r->audit->found[k] += raised.found.count[k];
    return bw_gate_class_of(r, &labels, out);
}

void bw_labelling_put(const bw_labelling *l, bw_buf *b)
{
    bw_buf_puts(b, "{\"base\":");
    bw_json_put_str(b, bw_str_c(l->from));
    if (l->rule) {
        bw_json_put_key(b, "rule");
        bw_json_put_str(b, l->rule->name);
    }
    bw_json_put_key(b, "raised");
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < l->raised.n; i++) {
        const bw_raised_by *by = &l->raised.by[i];
        bw_json_sep(b);
        bw_buf_putc(b, '{');
        bw_json_put_key(b, by->rule.ptr ? "rule" : "detector");
        bw_json_put_str(b,
                        by->rule.ptr ? by->rule : bw_str_c(bw_detect_name(by->kind)));
        bw_json_put_key(b, "members");
        bw_buf_putc(b, '[');
        for (unsigned bit = 0; bit < BW_LABELS_MEMBERS; bit++)
            if (by->members >> bit & 1) {
                bw_json_sep(b);
                bw_json_put_str(b, bw_str_c(bw_labels_member(bit)));
            }
        bw_buf_puts(b, "]}");
    }
    bw_buf_putc(b, ']');
    bw_json_put_key(b, "found");
    bw_detected_put(l->raised.found.count, b);
    bw_buf_putc(b, '}');
}
