/* POST /v1/collections/{}/seal: the end of a bulk load. Whoever may manage the collection
 * may ask; what is sealed are the classes that the caller sees, and nothing is said about
 * others. Answers when the graphs serve; 408 at the deadline: what has begun goes on, and
 * asking again waits for the rest. */
#include "v1.h"

bw_status bw_v1_collection_seal(bw_request *r, bw_response *out)
{
    bw_collection_info info;
    bw_permit permit;
    static const char *const allowed[] = {NULL}; /* what is asked for stands in the path */
    const bw_json *body;
    bw_status s = r->body.len ? bw_v1_body(r, allowed, &body) : BW_OK;
    if (s != BW_OK)
        return s;
    s = bw_gate_permit(r, r->args[0], BW_ACTION_QUERY, &info, &permit);
    if (s == BW_OK)
        s = bw_collection_seal(r->ctx, r->server->engine, info.tenant, info.name,
                               &permit);
    if (s == BW_ENOTFOUND)
        return bw_fail(r->ctx, s, "no such collection");
    if (s != BW_OK)
        return s;
    bw_buf_puts(&out->body, "{\"sealed\":true}");
    return bw_v1_done(r, out);
}
