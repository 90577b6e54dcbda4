/* Cedar (policy language 4.5): parse, evaluate, authorize. Reference: ../shared cedar
 * description, which follows the public documentation, the Lean model and RFCs.
 *
 * Everything parsed is immutable after it is built, may be shared by threads, and is
 * freed whole. Text, names and ids are copied in. Limits: nesting, size and evaluation
 * steps are counted; passing one is an error, never a crash. */
#ifndef BW_CEDAR_H
#define BW_CEDAR_H
#include "../../engine/base/json.h"

typedef struct bw_cedar_policies bw_cedar_policies;
typedef struct bw_cedar_schema bw_cedar_schema;
typedef struct bw_cedar_entities bw_cedar_entities;
typedef struct bw_cedar_value bw_cedar_value; /* in the ctx's arena, or owned by an entity store */

typedef struct bw_cedar_uid { /* Type::Path, "id" */
    bw_str type, id;
} bw_cedar_uid;

/* Policy ids are policy0, policy1, … in text order. On failure BW_EINVALID with line and column. */
BW_MUST_USE bw_status bw_cedar_policies_parse(bw_ctx *ctx, bw_str text, bw_cedar_policies **out);
/* The JSON form: {"staticPolicies", "templates", "templateLinks"}. Ids are the keys given there,
 * a link's is its newId; order: static policies, templates (they decide nothing), links. */
BW_MUST_USE bw_status bw_cedar_policies_parse_json(bw_ctx *ctx, bw_str text, bw_cedar_policies **out);
/* The same form, appended to out. Nested deeper than JSON may be (256: some 120 `&&` in a
 * row) it is written all the same, but not read again. On failure out is as before:
 * BW_EINVALID: larger than 16 MiB; BW_ENOMEM. */
BW_MUST_USE bw_status bw_cedar_policies_write_json(bw_ctx *ctx, const bw_cedar_policies *p,
                                                   bw_buf *out);
/* The set as Cedar text, formatted; appended to out. Links become policies of their own; ids
 * other than policyN go into comments. BW_EINVALID: no text means it (a function that does not
 * exist, a method without receiver, a template without slots; only from JSON), or larger than 16 MiB; BW_ENOMEM. */
BW_MUST_USE bw_status bw_cedar_policies_write(bw_ctx *ctx, const bw_cedar_policies *p, bw_buf *out);
/* Policy text laid out anew; appended to out. Tokens and comments stay as they are and in
 * their order: only white space changes, so the set means the same. Formatting twice changes
 * nothing more. Errors as of bw_cedar_policies_parse; BW_EINVALID too: larger than 16 MiB. */
BW_MUST_USE bw_status bw_cedar_policies_format(bw_ctx *ctx, bw_str text, bw_buf *out);
void bw_cedar_policies_free(bw_cedar_policies *p);
size_t bw_cedar_policies_count(const bw_cedar_policies *p);
bw_str bw_cedar_policy_id(const bw_cedar_policies *p, size_t i);      /* "policy3" */
bool bw_cedar_policy_annotation(const bw_cedar_policies *p, size_t i, bw_str key, bw_str *value);
bool bw_cedar_policy_is_forbid(const bw_cedar_policies *p, size_t i);
bw_str bw_cedar_policy_text(const bw_cedar_policies *p, size_t i);    /* its source */
/* Whether any policy's condition reads context.<attribute> (a cached decision then expires with it). */
bool bw_cedar_policies_read_context(const bw_cedar_policies *p, bw_str attribute);

/* Both schema syntaxes: Cedar's own text, or JSON (text that begins with '{'). */
BW_MUST_USE bw_status bw_cedar_schema_parse(bw_ctx *ctx, bw_str text, bw_cedar_schema **out);
void bw_cedar_schema_free(bw_cedar_schema *s);
typedef struct bw_cedar_validate_options { /* NULL: the defaults */
    int level;             /* most chained dereferences of entities (RFC 76); -1 (default): any */
    uint32_t findings_max; /* how many are kept; 0: 100 */
    uint64_t steps_max;    /* 0: 100,000,000, some seconds */
} bw_cedar_validate_options;

typedef struct bw_cedar_finding {
    uint32_t policy;       /* index */
    bool warning;          /* a policy set with warnings alone is valid */
    size_t offset;         /* into the set's text */
    size_t line, column;   /* the same from 1, in characters; 0: the policy came as JSON */
    bw_cedar_uid action;   /* the request environment; empty: the finding holds in all */
    bw_str principal, resource; /* its entity types */
    bw_str message;        /* names the expression, the types found and wanted */
} bw_cedar_finding;

typedef struct bw_cedar_validation { /* in ctx's arena */
    bool valid; /* no errors */
    bool more;  /* there were more findings than findings_max */
    const bw_cedar_finding *findings; /* by policy, then by environment and place */
    size_t nfindings;
} bw_cedar_validation;

/* Strict validation (language description, section 8): every policy is typed in every
 * request environment of the schema; templates with their slots as any entity that fits,
 * links as the policies that they are. BW_OK also when policies are invalid; BW_EINVALID
 * when a limit is passed (steps over all policies and environments, size of a policy). */
BW_MUST_USE bw_status bw_cedar_policies_validate(bw_ctx *ctx, const bw_cedar_policies *p,
                                                 const bw_cedar_schema *s,
                                                 const bw_cedar_validate_options *options,
                                                 bw_cedar_validation *out);
/* One line for a person: policy (its @id or id), line:column, message, environment. In
 * ctx's arena; NULL without memory. */
const char *bw_cedar_finding_text(bw_ctx *ctx, const bw_cedar_policies *p,
                                  const bw_cedar_finding *f);

/* Entities JSON (`[{"uid","attrs","parents","tags"}]`). With a schema: implicit __entity and
 * __extn forms are typed by it and the action hierarchy comes from it; schema may be NULL.
 * The transitive closure of `parents` is computed; a cycle is BW_EINVALID. */
BW_MUST_USE bw_status bw_cedar_entities_parse(bw_ctx *ctx, const bw_json *array,
                                              const bw_cedar_schema *schema, bw_cedar_entities **out);
void bw_cedar_entities_free(bw_cedar_entities *e);

/* ---- made, not read: entities and contexts that our own code puts together ----
 * Names and types are borrowed for good (literals), ids and texts are copied. */
typedef enum bw_cedar_field_kind {
    BW_CEDAR_FIELD_BOOL,
    BW_CEDAR_FIELD_LONG,
    BW_CEDAR_FIELD_DATETIME, /* number: ms since 1970 */
    BW_CEDAR_FIELD_STRING,
    BW_CEDAR_FIELD_STRINGS, /* a set; order and duplicates do not matter */
    BW_CEDAR_FIELD_ENTITY,
    BW_CEDAR_FIELD_ENTITIES
} bw_cedar_field_kind;
typedef struct bw_cedar_field {
    bw_str name;
    bw_cedar_field_kind kind;
    int64_t number;      /* BOOL, LONG, DATETIME */
    bw_str type;         /* of entities */
    const bw_str *texts; /* strings or ids: one, or the set's n */
    size_t n;
} bw_cedar_field;
typedef struct bw_cedar_entity {
    bw_cedar_uid uid;
    const bw_cedar_field *fields;
    size_t nfields;
    bw_str parent_type; /* of all parents; none of them is itself in the list */
    const bw_str *parents;
    size_t nparents;
} bw_cedar_entity;
/* A record, not held against a schema: bw_cedar_authorize does that with context_value. In
 * ctx's arena. */
BW_MUST_USE bw_status bw_cedar_context_make(bw_ctx *ctx, const bw_cedar_field *fields, size_t n,
                                            const bw_cedar_value **out);
/* A store of the entities in list and those of `with` (or NULL; without parents; must outlive
 * the new store), each once. block: bw_cedar_entities_bytes of memory, aligned to 16, which
 * the store then is (freeing it frees the store); NULL: ctx's arena. bw_cedar_entities_free does
 * nothing to either. BW_EINVALID: one does not fit the schema. */
size_t bw_cedar_entities_bytes(const bw_cedar_entity *list, size_t n, const bw_cedar_entities *with);
BW_MUST_USE bw_status bw_cedar_entities_make(bw_ctx *ctx, const bw_cedar_schema *schema,
                                             const bw_cedar_entity *list, size_t n,
                                             const bw_cedar_entities *with, void *block,
                                             bw_cedar_entities **out);

typedef struct bw_cedar_request {
    bw_cedar_uid principal, action, resource;
    const bw_json *context;            /* object, or NULL = {} */
    const bw_cedar_value *context_value; /* instead of JSON; wins when set */
    const bw_cedar_entities *extra;    /* a second small store looked at first (e.g. one resource); or NULL */
    bool unchecked; /* do not hold the request against the schema (it still gives the actions) */
} bw_cedar_request;

/* Reads a context once for many questions (context_value): by the action's declaration when
 * there is a schema. In ctx's arena; action and schema may be NULL. */
BW_MUST_USE bw_status bw_cedar_context_read(bw_ctx *ctx, const bw_cedar_schema *schema,
                                            const bw_cedar_uid *action, const bw_json *object,
                                            const bw_cedar_value **out);

typedef struct bw_cedar_answer { /* arrays in ctx's arena: indexes of policies, ascending */
    bool allow;
    const uint32_t *reasons, *errors;
    size_t nreasons, nerrors;
    bool forbid_errored; /* a forbid among errors: Bailiwick denies then */
} bw_cedar_answer;

/* Cedar's own decision (errors skip the policy). Fails only when the request itself cannot
 * be read (BW_EINVALID) or a limit is passed. */
BW_MUST_USE bw_status bw_cedar_authorize(bw_ctx *ctx, const bw_cedar_policies *p,
                                         const bw_cedar_entities *e, const bw_cedar_schema *schema,
                                         const bw_cedar_request *request, bw_cedar_answer *out);

/* ---- partial evaluation: what is left of the policies while the resource is unknown ----
 * After typed partial evaluation (RFC 95): principal, action, context and the resource's type
 * are known; its id, attributes, tags and ancestors are not. Unknown is also what stores say of
 * any other entity of that type. A residual is what must still hold of the resource; finishing
 * it gives exactly what bw_cedar_authorize gives (limits apart). */
typedef struct bw_cedar_residuals bw_cedar_residuals;

typedef struct bw_cedar_partial_options {
    /* The caller vouches: every resource to come is in a store and conforms to the schema, so a
     * required attribute cannot be missing and has its type. Needs a schema that declares it. */
    bool resources_conform;
} bw_cedar_partial_options;

/* request->resource.id is not looked at. Immutable, may be shared by threads, freed whole.
 * Borrowed until then: p, e, schema and request->extra (never the context). BW_EINVALID: the
 * request does not fit the schema, or takes more steps than a limit; BW_ENOMEM. options may be
 * NULL = all off. */
BW_MUST_USE bw_status bw_cedar_partial(bw_ctx *ctx, const bw_cedar_policies *p,
                                       const bw_cedar_entities *e, const bw_cedar_schema *schema,
                                       const bw_cedar_request *request,
                                       const bw_cedar_partial_options *options,
                                       bw_cedar_residuals **out);
void bw_cedar_residuals_free(bw_cedar_residuals *r);

typedef enum bw_cedar_residual_state {
    BW_CEDAR_RESIDUAL_FALSE, /* cannot be satisfied; policies whose scope does not fit too */
    BW_CEDAR_RESIDUAL_TRUE,  /* satisfied by every resource of the type */
    BW_CEDAR_RESIDUAL_ERROR, /* errors for every one */
    BW_CEDAR_RESIDUAL_OPEN   /* depends on the resource */
} bw_cedar_residual_state;
bw_cedar_residual_state bw_cedar_residuals_state(const bw_cedar_residuals *r, size_t policy);
/* How many policies are in that state. */
size_t bw_cedar_residuals_count(const bw_cedar_residuals *r, bw_cedar_residual_state state);

typedef enum bw_cedar_known { BW_CEDAR_UNKNOWN, BW_CEDAR_ALLOWS, BW_CEDAR_DENIES } bw_cedar_known;
/* Cedar's decision when it is the same for every resource of the type (errors skip a policy). */
bw_cedar_known bw_cedar_residuals_known(const bw_cedar_residuals *r);

/* The answer for one resource, as bw_cedar_authorize gives it. store: where its entity is read
 * from, and nothing else (its parents' ancestors come from the stores of the partial
 * evaluation); NULL, or a store without it: those stores. BW_EINVALID: another type, an id that
 * an enumerated type lacks, a limit, or conforming resources were promised and it is nowhere. */
BW_MUST_USE bw_status bw_cedar_residuals_finish(bw_ctx *ctx, const bw_cedar_residuals *r,
                                                const bw_cedar_entities *store,
                                                const bw_cedar_uid *resource,
                                                bw_cedar_answer *out);
/* Only whether it is allowed, and by our rule: a forbid that errors denies. Stops as soon as that
 * is certain. Uses no heap but ctx's arena, and leaves nothing there. */
BW_MUST_USE bw_status bw_cedar_residuals_allow(bw_ctx *ctx, const bw_cedar_residuals *r,
                                               const bw_cedar_entities *store,
                                               const bw_cedar_uid *resource, bool *allow);
#endif
