/* The calls about the server itself: version, health, what a single node says about a
 * cluster, and clean refusals of the contract's calls that are not served
 * (sections 1 and 5.4; items 1 and 16, LATER). */
#include "qdrant.h"

static bw_status text(bw_request *r, bw_response *response, const char *line)
{
    response->content_type = "text/plain; charset=utf-8";
    bw_buf_puts(&response->body, line);
    return response->body.failed ? bw_fail_nomem(r->ctx) : BW_OK;
}

/* No envelope. Clients compare the version with their own. */
bw_status bw_qdrant_root(bw_request *r, bw_response *response)
{
    bw_buf_puts(&response->body,
                "{\"title\":\"bailiwick - policy-bound retrieval engine\","
                "\"version\":\"" BW_QDRANT_VERSION "\","
                "\"bailiwick\":\"" BW_VERSION "\"}");
    return response->body.failed ? bw_fail_nomem(r->ctx) : BW_OK;
}

bw_status bw_qdrant_healthz(bw_request *r, bw_response *response)
{
    return text(r, response, "healthz check passed");
}

bw_status bw_qdrant_readyz(bw_request *r, bw_response *response)
{
    return text(r, response, "all shards are ready");
}

static bw_status constant(bw_request *r, bw_response *response, const char *json)
{
    bw_qdrant__open(response);
    bw_buf_puts(&response->body, json);
    return bw_qdrant__close(r->ctx, response);
}

/* The least that the client's model takes: no counts, no names, no times. */
bw_status bw_qdrant_telemetry(bw_request *r, bw_response *response)
{
    return constant(r, response,
                    "{\"id\":\"00000000-0000-0000-0000-000000000000\","
                    "\"app\":{\"name\":\"bailiwick\",\"version\":\"" BW_QDRANT_VERSION
                    "\","
                    "\"startup\":\"1970-01-01T00:00:00Z\"},"
                    "\"collections\":{\"number_of_collections\":0},\"cluster\":{"
                    "\"enabled\":false}}");
}

bw_status bw_qdrant_cluster(bw_request *r, bw_response *response)
{
    return constant(r, response, "{\"status\":\"disabled\"}");
}

bw_status bw_qdrant_collection_cluster(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_permit permit;
    bw_read read;
    uint64_t n = 0;
    bw_status s = bw_qdrant__begin_counted(&c, r, response, &permit, &read, &n);
    if (s != BW_OK)
        return bw_qdrant__end(&c, s);
    bw_qdrant__open(response);
    bw_buf_puts(&response->body,
                "{\"peer_id\":1,\"shard_count\":1,\"local_shards\":[{\"shard_id\":0,"
                "\"points_count\":");
    bw_json_put_u64(&response->body, n);
    bw_buf_puts(&response->body,
                ",\"state\":\"Active\"}],\"remote_shards\":[],\"shard_transfers\":[]}");
    return bw_qdrant__end(&c, bw_qdrant__close(r->ctx, response));
}

bw_status bw_qdrant_single_node(bw_request *r, bw_response *response)
{
    response->status = 405;
    return bw_fail(r->ctx, BW_EINVALID,
                   "Bad request: cluster operations are not for a single node");
}

bw_status bw_qdrant_not_served(bw_request *r, bw_response *response)
{
    (void)response;
    return bw_fail(r->ctx, BW_EINVALID,
                   "Wrong input: this call is not served by this cell");
}
