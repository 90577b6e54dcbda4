/* Every cap that the server puts on input, in one table, each with its reason
 * (security.md, section 7: tested at the cap and one above it). A number that is used
 * in one file only still belongs here: an operator looks in one place. */
#ifndef BW_LIMITS_H
#define BW_LIMITS_H

enum {
    /* ---- bodies ---- */
    BW_LIMIT_BODY_BYTES = 33554432, /* Qdrant's default; clients batch below it */
    BW_LIMIT_JSON_DEPTH = 64,       /* payloads included */
    BW_LIMIT_PAYLOAD_DEPTH = 61,    /* of one payload: a body puts three around it */
    BW_LIMIT_JSON_NODES = 1000000,  /* 64 bytes each: 64 MiB of the request's arena */

    /* ---- names ---- */
    BW_LIMIT_COLLECTION_NAME = 255, /* bytes; Qdrant's */
    BW_LIMIT_VECTOR_NAME = 255,     /* bytes */

    /* ---- collections ---- */
    BW_LIMIT_VECTORS = 64,           /* vector names of a collection */
    BW_LIMIT_DIM = 65536,            /* Qdrant's */
    BW_LIMIT_SPARSE_VALUES = 65536,  /* pairs of one sparse vector */
    BW_LIMIT_SETTINGS_BYTES = 65536, /* all that is kept of PUT and PATCH */
    BW_LIMIT_ALIAS_ACTIONS = 1000,
    BW_LIMIT_INDEXES = 256, /* payload indexes of a collection */

    /* ---- writes ---- */
    BW_LIMIT_POINTS = 100000,   /* of one upsert; 32 MiB holds fewer real ones */
    BW_LIMIT_IDS = 100000,      /* of one call or one has_id */
    BW_LIMIT_OPERATIONS = 1000, /* of points/batch */
    BW_LIMIT_KEYS = 1024,       /* paths or names in one list */

    /* ---- reads ---- */
    BW_LIMIT_LIMIT = 100000,         /* points, groups or facet values in one answer */
    BW_LIMIT_OFFSET = 1000000,       /* skipped points are computed all the same */
    BW_LIMIT_EF = 65536,             /* params.hnsw_ef */
    BW_LIMIT_HNSW_M = 512,           /* hnsw_config.m */
    BW_LIMIT_HNSW_EF_CONSTRUCT = 65536,
    BW_LIMIT_MMR_CANDIDATES = 16384, /* picking is quadratic in them */
    BW_LIMIT_EXAMPLES = 1024,        /* positive and negative of recommend, each */
    BW_LIMIT_PREFETCH = 64,          /* prefetches of one query, nested ones included */
    BW_LIMIT_PREFETCH_DEPTH = 8,
    BW_LIMIT_SEARCHES = 1000, /* of query/batch; one view of the data serves all */
    BW_LIMIT_GROUP_SIZE = 1000,
    BW_LIMIT_LOOKUPS = 16,            /* other collections that one call may name */
    BW_LIMIT_ANSWER_BYTES = 268435456 /* a request's arena; above it a 400 */
};

#endif
