/* /v1/entities: the operator's own facts (legal entities, tenants, nodes), looked at
 * and replaced while the cell runs. */
#include "v1_ingest.h"

bw_status bw_v1_entities_get(bw_request *r, bw_response *out)
{
    bw_in_force_view v;
    bw_status s = bw_v1_need_policies(r);
    if (s == BW_OK)
        s = bw_in_force_get(r->ctx, r->server, &v);
    if (s != BW_OK)
        return s;
    bw_buf_printf(&out->body,
                  "{\"digest\":\"%s\",\"version\":%llu,\"policies\":\"%s\","
                  "\"facts\":\"%s\",\"entities\":",
                  v.state.entities, (unsigned long long)v.state.version,
                  v.state.policies, v.facts);
    bw_buf_str(&out->body, v.entities.len ? v.entities : BW_STR("[]"));
    bw_buf_putc(&out->body, '}');
    return bw_v1_done(r, out);
}

/* Facts under which their own author could not change them back: as for policies. */
static bw_status keeps_admin(bw_request *r, bw_str text)
{
    bw_question q;
    bw_decision d;
    bw_gate__question(r, BW_ACTION_ADMIN, &q);
    bw_status s = bw_decide_dry_entities(r->ctx, r->server->authority, text, &q,
                                         (bw_str){NULL, 0}, &d);
    if (s != BW_OK || d.allow)
        return s;
    return bw_fail_at(r->ctx, BW_ECONFLICT, "/entities",
                      "these entities would deny Admin to the key that puts them; say "
                      "\"force\": true to do it all the same");
}

bw_status bw_v1_entities_put(bw_request *r, bw_response *out)
{
    static const char *const allowed[] = {"entities", "if_digest", "force", NULL};
    const bw_json *body, *list = NULL;
    bw_str expected = {NULL, 0};
    bool force = false;
    bw_status s = bw_v1_need_policies(r);
    if (s == BW_OK)
        s = bw_v1_body(r, allowed, &body);
    if (s == BW_OK)
        s = bw_v1_string(r->ctx, body, "if_digest", &expected);
    if (s == BW_OK)
        s = bw_v1_flag(r->ctx, body, "force", &force);
    if (s != BW_OK)
        return s;
    list = bw_json_get(body, "entities");
    if (!list || !bw_json_is_array(list))
        return bw_fail_at(r->ctx, BW_EINVALID, "/entities",
                          "wants the list of all entities");
    s = force ? BW_OK : keeps_admin(r, list->raw);
    if (s == BW_OK)
        s = bw_server_entities_put(r->ctx, r->server, list->raw, expected);
    if (s == BW_EINVALID) { /* well formed JSON, but no facts: the old ones stay */
        out->status = 422;
        return bw_v1_within(r->ctx, s, "/entities");
    }
    return s == BW_OK ? bw_v1_entities_get(r, out) : s;
}
