/* POST /v1/policies/replay: past decisions under a candidate (replay.c). Needs Admin, as
 * every trial of policies, and ReadAudit, since the answer is drawn from the log. */
#include "replay_run.h"
#include "v1_ingest.h"

/* An absent or null member leaves *out. The candidate's parts come as JSON or as text. */
static bw_status member_raw(bw_ctx *ctx, const bw_json *body, const char *name,
                            bw_json_kind kind, bw_str *out)
{
    const bw_json *v = bw_json_get_value(body, name);
    if (!v)
        return BW_OK;
    if (v->kind != kind)
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v), "wants %s",
                          kind == BW_JSON_ARRAY ? "a list" : "an object");
    *out = v->raw;
    return BW_OK;
}

static bw_status member_time(bw_ctx *ctx, const bw_json *body, const char *name,
                             int64_t *out)
{
    bw_str text = {NULL, 0};
    bw_status s = bw_v1_string(ctx, body, name, &text);
    if (s == BW_OK && text.ptr && !bw_time_parse(text, out))
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, bw_json_get(body, name)),
                          "wants a date-time");
    return s;
}

bw_status bw_v1_candidate(bw_ctx *ctx, const bw_json *body, bw_replay_options *o)
{
    bw_status s = bw_v1_string(ctx, body, "policies", &o->policies);
    if (s == BW_OK)
        s = member_raw(ctx, body, "entities", BW_JSON_ARRAY, &o->entities);
    if (s == BW_OK)
        s = member_raw(ctx, body, "catalogue", BW_JSON_OBJECT, &o->overlay);
    if (s == BW_OK && o->policies.len > BW_POLICIES_BYTES_MAX)
        s = bw_fail_at(ctx, BW_EINVALID, "/policies", "a policy set has at most %d bytes",
                       BW_POLICIES_BYTES_MAX);
    return s;
}

static bw_status parse(bw_request *r, bw_replay_options *o)
{
    static const char *const allowed[] = {"policies", "entities", "catalogue", "last",
                                          "since",    "until",    NULL};
    const bw_json *body, *last;
    bw_status s = bw_v1_body(r, allowed, &body);
    if (s == BW_OK)
        s = bw_v1_candidate(r->ctx, body, o);
    if (s == BW_OK)
        s = member_time(r->ctx, body, "since", &o->since_ns);
    if (s == BW_OK)
        s = member_time(r->ctx, body, "until", &o->until_ns);
    if (s != BW_OK)
        return s;
    last = bw_json_get_value(body, "last");
    o->last = 1000;
    if (last && (!bw_json_u64(last, &o->last) || o->last == 0 ||
                 o->last > BW_REPLAY_ROUTE_MAX))
        return bw_fail_at(r->ctx, BW_EINVALID, "/last", "wants a number from 1 to %d",
                          BW_REPLAY_ROUTE_MAX);
    return BW_OK;
}

bw_status bw_v1_policies_replay(bw_request *r, bw_response *out)
{
    bw_replay_options o = {.dir = r->server->dir};
    bw_status s = bw_v1_need_policies(r);
    if (s == BW_OK)
        s = bw_gate__object(r, BW_ACTION_READ_AUDIT, "Node", r->server->config.cell_id);
    if (s == BW_EDENIED)
        out->status = 403;
    if (s == BW_OK)
        s = parse(r, &o);
    if (s != BW_OK)
        return s;
    s = bw_replay_run(r->ctx, &o, &out->body);
    if (s == BW_EINVALID)
        out->status = 422;
    return s == BW_OK ? bw_v1_done(r, out) : s;
}
