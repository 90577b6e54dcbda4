/* What the files of the Qdrant surface share: the reading of a body, the plain data
 * that the engine takes, the writing of an answer.
 *
 * A handler reads its body in three steps: JSON (qdrant_body.c), the permitted set
 * (the gate; a collection that the caller may not see is a 404 here), the wire form
 * into plain data (filter, vector, point, query). Everything that is read lives in the
 * request's arena and points into the body. Errors carry the contract's texts and a
 * JSON pointer (contract, section 1); a value that is well formed but out of range is
 * a 422, which bw_qdrant_parse.status carries up to the handler.
 *
 * Left out: whatever the contract lists under LATER is refused by name with a 400. */
#ifndef BW_QDRANT_H
#define BW_QDRANT_H
#include "../engine/partition/payload.h"
#include "http.h"
#include "limits.h"

#define BW_QDRANT_VERSION "1.19.0" /* what clients compare with their own */

#define BW_QDRANT_JSON                                  \
    ((bw_json_limits){.depth_max = BW_LIMIT_JSON_DEPTH, \
                      .nodes_max = BW_LIMIT_JSON_NODES, \
                      .bytes_max = BW_LIMIT_BODY_BYTES})

/* ---- qdrant_body.c: one body, its fields, its errors ---- */
typedef struct bw_qdrant_parse {
    bw_ctx *ctx;
    const bw_collection_info
        *info;      /* vectors are checked against it; NULL: form only */
    int status;     /* 422 once a value was out of range, 409 a foreign model; else 0 */
    uint32_t nodes; /* filter nodes so far */
    uint32_t prefetches;              /* of the query at hand */
    bw_str lookups[BW_LIMIT_LOOKUPS]; /* collections named by lookup_from, each once */
    uint32_t nlookups;
    const bw_json *hnsw;   /* the collection's hnsw_config while vectors are read */
    const bw_json *models; /* metadata._model of info's settings */
    bool models_read;
} bw_qdrant_parse;

/* "Format error in JSON body: /pointer: …", a 400. node names the place; may be NULL.
 */
bw_status bw_qdrant__format(bw_qdrant_parse *p, const bw_json *node, const char *fmt,
                            ...) BW_PRINTF(3, 4);
/* "Wrong input: …", a 400. */
bw_status bw_qdrant__wrong(bw_qdrant_parse *p, const char *fmt, ...) BW_PRINTF(2, 3);
/* "Validation error in JSON body: [field: …]", a 422. */
bw_status bw_qdrant__invalid(bw_qdrant_parse *p, const char *field, const char *fmt,
                             ...) BW_PRINTF(3, 4);
/* The contract's `{name}` is not served; a 400 that says so. */
bw_status bw_qdrant__later(bw_qdrant_parse *p, const bw_json *node, const char *what);
/* How many bytes of s (at most max) end on a character's border: for "%.*s". */
int bw_qdrant__cut(bw_str s, int max);

/* The body as an object. */
BW_MUST_USE bw_status bw_qdrant__body(bw_qdrant_parse *p, bw_str body,
                                      const bw_json **out);
/* Refuses the words of a filter among the members of an object that is none: dropping
 * them would widen the answer. own: one of them that this object has by right, or NULL.
 */
BW_MUST_USE bw_status bw_qdrant__no_filter_words(bw_qdrant_parse *p,
                                                 const bw_json *object,
                                                 const char *own);
/* Refuses members of an object that are none of the words (a list that ends with NULL)
 * and not null: what is misspelt would be lost in silence. What is no object is left to
 * others. Only where every word of Qdrant's API is in the list. */
BW_MUST_USE bw_status bw_qdrant__known(bw_qdrant_parse *p, const bw_json *object,
                                       const char *const *words);
/* shard_key: null and missing only. */
BW_MUST_USE bw_status bw_qdrant__no_shard_key(bw_qdrant_parse *p,
                                              const bw_json *object);
/* An unsigned integer field in lo … hi; absent or null leaves *out. Below and above:
 * 422. */
BW_MUST_USE bw_status bw_qdrant__u32(bw_qdrant_parse *p, const bw_json *object,
                                     const char *name, uint32_t lo, uint32_t hi,
                                     uint32_t *out);
BW_MUST_USE bw_status bw_qdrant__bool(bw_qdrant_parse *p, const bw_json *object,
                                      const char *name, bool *out);
/* A string field; absent or null leaves *out. */
BW_MUST_USE bw_status bw_qdrant__string(bw_qdrant_parse *p, const bw_json *object,
                                        const char *name, bw_str *out);
/* A list: its first element and count. An absent list is a 400 that names it. */
BW_MUST_USE bw_status bw_qdrant__list(bw_qdrant_parse *p, const bw_json *node,
                                      const char *what, uint32_t max,
                                      const bw_json **first, uint32_t *n);
BW_MUST_USE bw_status bw_qdrant__point_id(bw_qdrant_parse *p, const bw_json *node,
                                          bw_point_id *out);
BW_MUST_USE bw_status bw_qdrant__ids(bw_qdrant_parse *p, const bw_json *list,
                                     const char *what, const bw_point_id **out,
                                     uint32_t *n);

/* ---- payload paths (engine/partition/payload.h has their grammar) ---- */
/* The string at `node` as a path that was checked; a 400 that names the node else. */
BW_MUST_USE bw_status bw_qdrant__path_field(bw_qdrant_parse *p, const bw_json *node,
                                            const char *what, bw_str *out);

/* ---- qdrant_filter.c ---- */
/* NULL and null are no filter (*out = NULL), as is {}. */
BW_MUST_USE bw_status bw_qdrant__filter(bw_qdrant_parse *p, const bw_json *node,
                                        const bw_filter **out);
BW_MUST_USE bw_status bw_qdrant__number(bw_qdrant_parse *p, const bw_json *node,
                                        bw_number *out);

/* ---- qdrant_vector.c ---- */
/* One vector's value: dense or sparse; name is kept. Multi vectors and text: 400. */
BW_MUST_USE bw_status bw_qdrant__vector(bw_qdrant_parse *p, const bw_json *node,
                                        bw_str name, bw_vector *out);
/* The `vector` of a point: a list, or a map of names; null entries count as left out.
 */
BW_MUST_USE bw_status bw_qdrant__vectors(bw_qdrant_parse *p, const bw_json *node,
                                         const bw_vector **out, uint32_t *n);
/* Name, kind and dimension against p->info (nothing when that is NULL). */
BW_MUST_USE bw_status bw_qdrant__vector_fits(bw_qdrant_parse *p, const bw_vector *v,
                                             bw_str name);
const bw_vector_spec *bw_qdrant__spec(const bw_collection_info *info, bw_str name);

/* ---- qdrant_payload.c: what of a payload is shown ---- */
typedef struct bw_qdrant_show {
    bool payload, vector;
    const bw_path *include, *exclude; /* NULL: all of it */
    uint32_t ninclude, nexclude;
    const bw_str *names; /* vectors by name; NULL: all of them */
    uint32_t nnames;
} bw_qdrant_show;
/* A list of vector names that the collection knows; in the arena. */
BW_MUST_USE bw_status bw_qdrant__vector_names(bw_qdrant_parse *p, const bw_json *v,
                                              const bw_str **out, uint32_t *n);
/* `with_payload` and `with_vector` (null, missing: as *show stands). vectors: the name
 * of the second field, for with_lookup spells it with_vectors. */
BW_MUST_USE bw_status bw_qdrant__show(bw_qdrant_parse *p, const bw_json *object,
                                      const char *vectors, bw_qdrant_show *show);
/* The payload's bytes as `show` wants them; {} when there are none. */
BW_MUST_USE bw_status bw_qdrant__put_payload(bw_ctx *ctx, bw_buf *b, bw_str payload,
                                             const bw_qdrant_show *show);

/* ---- qdrant_facts.c: what a payload says about its point ---- */
typedef struct bw_qdrant_facts {
    const bw_json *labels; /* _labels or metadata._labels; NULL: none was given */
    bw_str text;           /* what the text index gets */
    bw_point_facts facts;  /* subject: as given, not yet hashed */
} bw_qdrant_facts;
BW_MUST_USE bw_status bw_qdrant__facts(bw_qdrant_parse *p, const bw_json *payload,
                                       bw_qdrant_facts *out);
/* The text that a stored payload gives, for bw_op.text_of. */
BW_MUST_USE bw_status bw_qdrant__text_of(bw_ctx *ctx, bw_str payload, bw_str *out);
/* Refuses a payload call that would set or remove what only a write of the point may.
 */
BW_MUST_USE bw_status bw_qdrant__no_facts(bw_qdrant_parse *p, const bw_json *payload,
                                          bw_str key);
BW_MUST_USE bw_status bw_qdrant__no_fact_path(bw_qdrant_parse *p, const bw_json *node,
                                              bw_str path);
/* `_model` of a point or query against the models that the collection's metadata binds
 * (metadata._model: a name or a list of names); 409 when it is another one. given none:
 * nothing is said. *out gets the model to note: given, or the only bound one. */
BW_MUST_USE bw_status bw_qdrant__model(bw_qdrant_parse *p, bw_str given, bw_str *out);

/* ---- qdrant_upsert.c: points and operations of a write ---- */
typedef struct bw_qdrant_labels { /* beside each op's points: the labels they came with
                                   */
    const bw_json **given;
} bw_qdrant_labels;
/* One operation's body into *op; labels->given[i] belongs to op->points[i]. */
BW_MUST_USE bw_status bw_qdrant__upsert(bw_qdrant_parse *p, const bw_json *body,
                                        bw_op *op, bw_qdrant_labels *labels);
BW_MUST_USE bw_status bw_qdrant__delete(bw_qdrant_parse *p, const bw_json *body,
                                        bw_op *op);
BW_MUST_USE bw_status bw_qdrant__set_payload(bw_qdrant_parse *p, const bw_json *body,
                                             bw_op_kind kind, bw_op *op);
BW_MUST_USE bw_status bw_qdrant__delete_payload(bw_qdrant_parse *p, const bw_json *body,
                                                bw_op *op);
BW_MUST_USE bw_status bw_qdrant__clear_payload(bw_qdrant_parse *p, const bw_json *body,
                                               bw_op *op);
BW_MUST_USE bw_status bw_qdrant__update_vectors(bw_qdrant_parse *p, const bw_json *body,
                                                bw_op *op);
BW_MUST_USE bw_status bw_qdrant__delete_vectors(bw_qdrant_parse *p, const bw_json *body,
                                                bw_op *op);

/* ---- qdrant_query.c: QueryRequest and the older calls into bw_query ---- */
BW_MUST_USE bw_status bw_qdrant__query(bw_qdrant_parse *p, const bw_json *body,
                                       bw_query *out, bw_qdrant_show *show);
BW_MUST_USE bw_status bw_qdrant__search(bw_qdrant_parse *p, const bw_json *body,
                                        bw_query *out, bw_qdrant_show *show);
BW_MUST_USE bw_status bw_qdrant__recommend(bw_qdrant_parse *p, const bw_json *body,
                                           bw_query *out, bw_qdrant_show *show);
BW_MUST_USE bw_status bw_qdrant__order_by(bw_qdrant_parse *p, const bw_json *node,
                                          bw_order_by *out);

/* ---- qdrant_schema.c: a collection's body into specs and kept settings ---- */
typedef struct bw_qdrant_schema {
    const bw_vector_spec *vectors;
    uint32_t nvectors;
    bw_str settings; /* what is kept, as one JSON object */
    bw_str labels;   /* metadata._labels, or none */
} bw_qdrant_schema;
/* qdrant_storage.c: datatype, place and index of a dense vector. hnsw: the collection's
 * hnsw_config, for what the vector's own does not say; may be NULL. */
BW_MUST_USE bw_status bw_qdrant__storage(bw_qdrant_parse *p, const bw_json *node,
                                         const bw_json *hnsw, bw_vector_spec *out);
/* The words of a quantization_config and of an hnsw_config; NULL is accepted. */
BW_MUST_USE bw_status bw_qdrant__quantization(bw_qdrant_parse *p, const bw_json *v);
BW_MUST_USE bw_status bw_qdrant__hnsw(bw_qdrant_parse *p, const bw_json *v);
void bw_qdrant__put_storage(bw_buf *b, const bw_vector_spec *spec); /* members, if any */
BW_MUST_USE bw_status bw_qdrant__create(bw_qdrant_parse *p, const bw_json *body,
                                        bw_qdrant_schema *out);
/* The settings with a PATCH body merged in; out->vectors stay as they are. */
BW_MUST_USE bw_status bw_qdrant__patch(bw_qdrant_parse *p, bw_str settings,
                                       const bw_json *body, bw_qdrant_schema *out);
/* `config` of the collection's info. */
BW_MUST_USE bw_status bw_qdrant__put_config(bw_ctx *ctx, bw_buf *b,
                                            const bw_collection_info *info);
BW_MUST_USE bw_status bw_qdrant__index(bw_qdrant_parse *p, const bw_json *body,
                                       bw_index_spec *out);
/* Does an index on `key` order by it, or count its values? */
bool bw_qdrant__has_range_index(const bw_collection_info *info, bw_str key);
bool bw_qdrant__has_match_index(const bw_collection_info *info, bw_str key);
bool bw_qdrant__name_valid(bw_str name, const char **why);

/* ---- qdrant_call.c: what every handler does ---- */
typedef struct bw_qdrant_call {
    bw_request *r;
    bw_response *response;
    bw_qdrant_parse p;
    const bw_json *body;     /* NULL when the call has none */
    bw_collection_info info; /* of args[0] */
    bool wait, explain;
    bw_class_id last_class; /* the label text that was asked for last */
    bw_str last_labels;
} bw_qdrant_call;
/* Query parameters, and the body if there is to be one. */
BW_MUST_USE bw_status bw_qdrant__begin(bw_qdrant_call *c, bw_request *r,
                                       bw_response *response, bool has_body);
/* The permitted set of the collection that the path names; fills c->info. */
BW_MUST_USE bw_status bw_qdrant__permit(bw_qdrant_call *c, bw_action action,
                                        bw_permit *out);
BW_MUST_USE bw_status bw_qdrant__permit_named(bw_qdrant_call *c, bw_str name,
                                              bw_collection_info *info, bw_permit *out);
/* The four sets of a write on it. */
BW_MUST_USE bw_status bw_qdrant__access(bw_qdrant_call *c, bw_access *out);
/* bw_read over it, with the permits of the looked-up collections (after parsing). */
BW_MUST_USE bw_status bw_qdrant__read(bw_qdrant_call *c, bw_permit *permit,
                                      bw_read *out);
/* begin, permit and read of a call without a body, and how many points the caller may
 * see. permit and read are the caller's storage and live as long as the call. */
BW_MUST_USE bw_status bw_qdrant__begin_counted(bw_qdrant_call *c, bw_request *r,
                                               bw_response *response, bw_permit *permit,
                                               bw_read *read, uint64_t *points);
/* Every failure leaves through here: sets the HTTP status that the parse found. */
bw_status bw_qdrant__end(bw_qdrant_call *c, bw_status status);
/* An engine's failure in the contract's words: prefix by status. */
bw_status bw_qdrant__engine_failed(bw_qdrant_call *c, bw_status status);
bw_status bw_qdrant__no_collection(bw_ctx *ctx, bw_str name);

/* ---- qdrant_answer.c ---- */
void bw_qdrant__open(bw_response *response); /* {"result": */
BW_MUST_USE bw_status
bw_qdrant__close(bw_ctx *ctx, bw_response *response); /* ,"status":"ok","time":0.0} */
BW_MUST_USE bw_status bw_qdrant__answer_true(bw_ctx *ctx, bw_response *response,
                                             bool value);
typedef enum bw_qdrant_hit_form { BW_HIT_RECORD, BW_HIT_SCORED } bw_qdrant_hit_form;
BW_MUST_USE bw_status bw_qdrant__put_hits(bw_qdrant_call *c, const bw_hit *hits,
                                          size_t n, bw_qdrant_hit_form form,
                                          const bw_qdrant_show *show);
BW_MUST_USE bw_status bw_qdrant__put_hit(bw_qdrant_call *c, const bw_hit *hit,
                                         bw_qdrant_hit_form form,
                                         const bw_qdrant_show *show);
void bw_qdrant__put_value(bw_buf *b, const bw_value *v);

/* ---- handlers, by file ---- */
#define BW_QDRANT_HANDLER(name) bw_status name(bw_request *r, bw_response *response)
/* qdrant_service.c */
BW_QDRANT_HANDLER(bw_qdrant_root);
BW_QDRANT_HANDLER(bw_qdrant_healthz);
BW_QDRANT_HANDLER(bw_qdrant_readyz);
BW_QDRANT_HANDLER(bw_qdrant_telemetry);
BW_QDRANT_HANDLER(bw_qdrant_cluster);
BW_QDRANT_HANDLER(bw_qdrant_collection_cluster);
BW_QDRANT_HANDLER(bw_qdrant_single_node);
BW_QDRANT_HANDLER(bw_qdrant_not_served);
/* qdrant_collections.c */
BW_QDRANT_HANDLER(bw_qdrant_collections_list);
BW_QDRANT_HANDLER(bw_qdrant_collection_exists);
BW_QDRANT_HANDLER(bw_qdrant_collection_get);
BW_QDRANT_HANDLER(bw_qdrant_collection_create);
BW_QDRANT_HANDLER(bw_qdrant_collection_update);
BW_QDRANT_HANDLER(bw_qdrant_collection_delete);
BW_QDRANT_HANDLER(bw_qdrant_index_put);
BW_QDRANT_HANDLER(bw_qdrant_index_delete);
/* qdrant_aliases.c */
BW_QDRANT_HANDLER(bw_qdrant_aliases_apply);
BW_QDRANT_HANDLER(bw_qdrant_aliases_list);
BW_QDRANT_HANDLER(bw_qdrant_collection_aliases);
/* qdrant_points.c: writes */
BW_QDRANT_HANDLER(bw_qdrant_points_upsert);
BW_QDRANT_HANDLER(bw_qdrant_points_delete);
BW_QDRANT_HANDLER(bw_qdrant_payload_set);
BW_QDRANT_HANDLER(bw_qdrant_payload_overwrite);
BW_QDRANT_HANDLER(bw_qdrant_payload_delete);
BW_QDRANT_HANDLER(bw_qdrant_payload_clear);
BW_QDRANT_HANDLER(bw_qdrant_vectors_update);
BW_QDRANT_HANDLER(bw_qdrant_vectors_delete);
BW_QDRANT_HANDLER(bw_qdrant_points_batch);
/* qdrant_reads.c */
BW_QDRANT_HANDLER(bw_qdrant_point_get);
BW_QDRANT_HANDLER(bw_qdrant_points_retrieve);
BW_QDRANT_HANDLER(bw_qdrant_points_scroll);
BW_QDRANT_HANDLER(bw_qdrant_points_count);
BW_QDRANT_HANDLER(bw_qdrant_facet);
/* qdrant_search.c */
BW_QDRANT_HANDLER(bw_qdrant_points_query);
BW_QDRANT_HANDLER(bw_qdrant_query_batch);
BW_QDRANT_HANDLER(bw_qdrant_query_groups);
BW_QDRANT_HANDLER(bw_qdrant_points_search);
BW_QDRANT_HANDLER(bw_qdrant_search_batch);
BW_QDRANT_HANDLER(bw_qdrant_search_groups);
BW_QDRANT_HANDLER(bw_qdrant_points_recommend);
BW_QDRANT_HANDLER(bw_qdrant_recommend_batch);
BW_QDRANT_HANDLER(bw_qdrant_recommend_groups);
#endif
