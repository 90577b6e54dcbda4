/* The table of the Qdrant surface: every path of the contract that the cell answers,
 * and those that it refuses by name. A path without a row is a 404 with an empty body.
 *
 * Literal parts stand before {} parts of the same shape where both would match
 * (/collections/aliases, /collections/{}/points/{} and its literal siblings). */
#include "qdrant.h"

#define OPEN(m, pattern, h)                                                    \
    {                                                                          \
        m, pattern, h, BW_ROUTE_OPEN, BW_ACTION_QUERY, BW_FAMILY_QDRANT, false, false \
    }
#define READ(m, pattern, h)                                                   \
    {                                                                         \
        m, pattern, h, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_QDRANT, false, false \
    }
#define BRIEF(m, pattern, h)                                                       \
    {                                                                              \
        m, pattern, h, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_QDRANT, false, true \
    }
#define WRITE(m, pattern, h)                                                 \
    {                                                                        \
        m, pattern, h, BW_ROUTE_KEY, BW_ACTION_STORE, BW_FAMILY_QDRANT, true, false \
    }
#define REMOVE(m, pattern, h)                                                 \
    {                                                                         \
        m, pattern, h, BW_ROUTE_KEY, BW_ACTION_DELETE, BW_FAMILY_QDRANT, true, false \
    }
#define MANAGE(m, pattern, h)                                            \
    {                                                                    \
        m, pattern, h, BW_ROUTE_COLLECTION, BW_ACTION_MANAGE_COLLECTION, \
            BW_FAMILY_QDRANT, true, false \
    }

const bw_route bw_routes_qdrant[] = {
    OPEN("GET", "/", bw_qdrant_root),
    OPEN("GET", "/healthz", bw_qdrant_healthz),
    OPEN("GET", "/livez", bw_qdrant_healthz),
    OPEN("GET", "/readyz", bw_qdrant_readyz),
    READ("GET", "/telemetry", bw_qdrant_telemetry),
    READ("GET", "/cluster", bw_qdrant_cluster),
    READ("GET", "/aliases", bw_qdrant_aliases_list),

    READ("GET", "/collections", bw_qdrant_collections_list),
    /* its handler asks for ManageCollection of every collection that an action touches */
    {"POST", "/collections/aliases", bw_qdrant_aliases_apply, BW_ROUTE_KEY,
     BW_ACTION_MANAGE_COLLECTION, BW_FAMILY_QDRANT, true, false},
    READ("GET", "/collections/{}", bw_qdrant_collection_get),
    MANAGE("PUT", "/collections/{}", bw_qdrant_collection_create),
    MANAGE("PATCH", "/collections/{}", bw_qdrant_collection_update),
    MANAGE("DELETE", "/collections/{}", bw_qdrant_collection_delete),
    READ("GET", "/collections/{}/exists", bw_qdrant_collection_exists),
    READ("GET", "/collections/{}/aliases", bw_qdrant_collection_aliases),
    READ("GET", "/collections/{}/cluster", bw_qdrant_collection_cluster),
    MANAGE("PUT", "/collections/{}/index", bw_qdrant_index_put),
    MANAGE("DELETE", "/collections/{}/index/{}", bw_qdrant_index_delete),

    WRITE("PUT", "/collections/{}/points", bw_qdrant_points_upsert),
    READ("POST", "/collections/{}/points", bw_qdrant_points_retrieve),
    REMOVE("POST", "/collections/{}/points/delete", bw_qdrant_points_delete),
    WRITE("POST", "/collections/{}/points/payload", bw_qdrant_payload_set),
    WRITE("PUT", "/collections/{}/points/payload", bw_qdrant_payload_overwrite),
    WRITE("POST", "/collections/{}/points/payload/delete", bw_qdrant_payload_delete),
    WRITE("POST", "/collections/{}/points/payload/clear", bw_qdrant_payload_clear),
    WRITE("PUT", "/collections/{}/points/vectors", bw_qdrant_vectors_update),
    WRITE("POST", "/collections/{}/points/vectors/delete", bw_qdrant_vectors_delete),
    WRITE("POST", "/collections/{}/points/batch", bw_qdrant_points_batch),

    READ("POST", "/collections/{}/points/scroll", bw_qdrant_points_scroll),
    READ("POST", "/collections/{}/points/count", bw_qdrant_points_count),
    READ("POST", "/collections/{}/facet", bw_qdrant_facet),
    BRIEF("POST", "/collections/{}/points/query", bw_qdrant_points_query),
    READ("POST", "/collections/{}/points/query/batch", bw_qdrant_query_batch),
    READ("POST", "/collections/{}/points/query/groups", bw_qdrant_query_groups),
    BRIEF("POST", "/collections/{}/points/search", bw_qdrant_points_search),
    READ("POST", "/collections/{}/points/search/batch", bw_qdrant_search_batch),
    READ("POST", "/collections/{}/points/search/groups", bw_qdrant_search_groups),
    READ("POST", "/collections/{}/points/recommend", bw_qdrant_points_recommend),
    READ("POST", "/collections/{}/points/recommend/batch", bw_qdrant_recommend_batch),
    READ("POST", "/collections/{}/points/recommend/groups", bw_qdrant_recommend_groups),
    BRIEF("GET", "/collections/{}/points/{}", bw_qdrant_point_get),

    /* LATER, refused by name */
    READ("POST", "/collections/{}/points/discover", bw_qdrant_not_served),
    READ("POST", "/collections/{}/points/discover/batch", bw_qdrant_not_served),
    READ("POST", "/collections/{}/points/search/matrix/pairs", bw_qdrant_not_served),
    READ("POST", "/collections/{}/points/search/matrix/offsets", bw_qdrant_not_served),
    READ("PUT", "/collections/{}/vectors/{}", bw_qdrant_not_served),
    READ("DELETE", "/collections/{}/vectors/{}", bw_qdrant_not_served),
    READ("GET", "/collections/{}/snapshots", bw_qdrant_not_served),
    READ("POST", "/collections/{}/snapshots", bw_qdrant_not_served),
    READ("GET", "/collections/{}/snapshots/{}", bw_qdrant_not_served),
    READ("DELETE", "/collections/{}/snapshots/{}", bw_qdrant_not_served),
    READ("PUT", "/collections/{}/snapshots/recover", bw_qdrant_not_served),
    READ("GET", "/snapshots", bw_qdrant_not_served),
    READ("POST", "/snapshots", bw_qdrant_not_served),
    READ("GET", "/snapshots/{}", bw_qdrant_not_served),
    READ("DELETE", "/snapshots/{}", bw_qdrant_not_served),
    READ("PUT", "/collections/{}/shards", bw_qdrant_not_served),
    READ("POST", "/collections/{}/shards/delete", bw_qdrant_not_served),
    READ("POST", "/collections/{}/cluster", bw_qdrant_single_node),
    READ("POST", "/cluster/recover", bw_qdrant_single_node),
    READ("DELETE", "/cluster/peer/{}", bw_qdrant_single_node),

    {NULL, NULL, NULL, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_QDRANT, false, false},
};
