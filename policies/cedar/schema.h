/* A schema after its names are resolved: what values, entities and requests are read
 * by. Immutable; types are shared, so a common type costs nothing to use often. */
#ifndef BW_CEDAR_SCHEMA_H
#define BW_CEDAR_SCHEMA_H
#include "entities.h"

typedef struct bw_cedar__type bw_cedar__type;
typedef struct bw_cedar__attr {
    bw_str name;
    const bw_cedar__type *type;
    bool required;
} bw_cedar__attr;

struct bw_cedar__type {
    uint8_t kind;                  /* bw_cedar__kind */
    const bw_cedar__type *element; /* SET */
    bw_str name;                   /* ENTITY */
    const bw_cedar__attr *attrs;   /* RECORD: sorted by name */
    uint32_t nattrs;
};

typedef struct bw_cedar__entity_type {
    bw_str name;
    const bw_cedar__type *shape; /* a record */
    const bw_cedar__type *tags;  /* or NULL */
    const bw_str *ids;           /* enum: what ids there are, sorted; else NULL */
    uint32_t nids;
    const uint32_t *ancestors; /* types an entity may be below, ascending; complete */
    uint32_t nancestors;
} bw_cedar__entity_type;

typedef struct bw_cedar__action_type {      /* parallel to actions.objects */
    const uint32_t *principals, *resources; /* indexes of entity types, ascending */
    uint32_t nprincipals, nresources;
    const bw_cedar__type *context; /* a record; NULL: applies to nothing */
} bw_cedar__action_type;

struct bw_cedar_schema {
    bw_ctx *pool;                 /* owns everything */
    bw_cedar__entity_type *types; /* sorted by name */
    uint32_t ntypes;
    bool has_enums; /* some type lists its ids */
    bw_cedar_entities actions; /* with their ancestors */
    bw_cedar__action_type *action_types;
};

enum { BW_CEDAR__NO_TYPE = UINT32_MAX };
uint32_t bw_cedar__schema_type(const bw_cedar_schema *s,
                               bw_str name); /* or BW_CEDAR__NO_TYPE */
const bw_cedar__attr *bw_cedar__type_attr(const bw_cedar__type *record, bw_str name);
/* False when the type is an enum that lacks the id. Types that are not declared pass.
 */
bool bw_cedar__schema_id_ok(const bw_cedar_schema *s, const bw_cedar__uid *uid);

/* Whether entities of the type may have parents of type `parent`. */
bool bw_cedar__may_be_below(const bw_cedar_schema *s, uint32_t type, bw_str parent);

/* ---- declarations as both syntaxes give them, before names are resolved ---- */
typedef enum bw_cedar__ref_kind {
    BW_CEDAR__REF_NAME,   /* entity or common type or built-in, by scope rules */
    BW_CEDAR__REF_ENTITY, /* JSON: an entity type */
    BW_CEDAR__REF_COMMON, /* JSON: a common type */
    BW_CEDAR__REF_KIND,   /* a primitive or extension type: kind */
    BW_CEDAR__REF_SET,
    BW_CEDAR__REF_RECORD
} bw_cedar__ref_kind;

typedef struct bw_cedar__ref bw_cedar__ref;
typedef struct bw_cedar__ref_attr {
    bw_str name;
    const bw_cedar__ref *type;
    bool required;
} bw_cedar__ref_attr;
struct bw_cedar__ref { /* pool */
    uint8_t ref;       /* bw_cedar__ref_kind */
    uint8_t kind;
    bw_str name;
    const bw_cedar__ref *element;
    bw_cedar__ref_attr *attrs; /* a name once */
    uint32_t nattrs;
};

typedef struct bw_cedar__names {
    const bw_str *items;
    uint32_t n;
} bw_cedar__names;

typedef struct bw_cedar__decl_entity {
    bw_str ns, name;                   /* qualified */
    bw_cedar__names parents;           /* as written */
    const bw_cedar__ref *shape, *tags; /* or NULL */
    bool is_enum;
    bw_cedar__names ids;
} bw_cedar__decl_entity;

typedef struct bw_cedar__decl_common {
    bw_str ns, name;
    const bw_cedar__ref *type;
    uint8_t state; /* of resolution: 0 new, 1 under way, 2 done */
    const bw_cedar__type *resolved;
} bw_cedar__decl_common;

typedef struct bw_cedar__decl_action {
    bw_str ns, id;
    bw_str type;                  /* qualified: NS::Action */
    const bw_cedar__uid *parents; /* type empty: an action of the own namespace */
    uint32_t nparents;
    bool applies;
    bw_cedar__names principals, resources;
    const bw_cedar__ref *context; /* or NULL = {} */
} bw_cedar__decl_action;

typedef struct bw_cedar__decls {
    bw_ctx *ctx, *pool;
    bw_cedar__decl_entity *entities;
    bw_cedar__decl_common *commons;
    bw_cedar__decl_action *actions;
    uint32_t nentities, ncommons, nactions;
    uint32_t entities_cap, commons_cap, actions_cap;
} bw_cedar__decls;

enum { BW_CEDAR_DECLS_MAX = 65536 };
BW_MUST_USE bw_status bw_cedar__decl_add_entity(bw_cedar__decls *d,
                                                const bw_cedar__decl_entity *e);
BW_MUST_USE bw_status bw_cedar__decl_add_common(bw_cedar__decls *d,
                                                const bw_cedar__decl_common *c);
BW_MUST_USE bw_status bw_cedar__decl_add_action(bw_cedar__decls *d,
                                                const bw_cedar__decl_action *a);
BW_MUST_USE bw_status bw_cedar__qualify(bw_ctx *ctx, bw_ctx *pool, bw_str ns,
                                        bw_str name, bw_str *out);
BW_MUST_USE bw_status bw_cedar__schema_read_text(bw_cedar__decls *d, bw_str text);
BW_MUST_USE bw_status bw_cedar__schema_read_json(bw_cedar__decls *d, bw_str text);
/* Long, String, Bool and the extension types by name; false if none. */
bool bw_cedar__builtin_kind(bw_str name, uint8_t *kind);

/* ---- requests ---- */
/* Principal, action and resource against the schema; the action's declaration. partial:
 * of the resource only the type. */
BW_MUST_USE bw_status bw_cedar__check_request(bw_ctx *ctx,
                                              const bw_cedar_schema *schema,
                                              const bw_cedar__uid uids[3], bool partial,
                                              const bw_cedar__action_type **out);
/* Against the ids of an enumerated type. */
BW_MUST_USE bw_status bw_cedar__check_id(bw_ctx *ctx, const bw_cedar_schema *schema,
                                         const bw_cedar__uid *uid, const char *what);
/* The request's context, in pool (a context_value as it is). action may be NULL. */
BW_MUST_USE bw_status bw_cedar__read_context(bw_ctx *ctx, bw_ctx *pool,
                                             const bw_cedar_schema *schema,
                                             const bw_cedar__action_type *action,
                                             const bw_cedar_request *q,
                                             bw_cedar_value *out);

/* ---- JSON values, read by type where there is one ---- */
typedef struct bw_cedar__reader {
    bw_ctx *ctx, *pool;            /* messages and scratch; values */
    const bw_cedar_schema *schema; /* or NULL */
} bw_cedar__reader;
BW_MUST_USE bw_status bw_cedar__read_value(const bw_cedar__reader *r,
                                           const bw_json *json,
                                           const bw_cedar__type *type, uint32_t depth,
                                           bw_cedar_value *out);
/* The same for an object that is a record whatever its members are called. */
BW_MUST_USE bw_status bw_cedar__read_record(const bw_cedar__reader *r,
                                            const bw_json *json,
                                            const bw_cedar__type *type, uint32_t depth,
                                            bw_cedar_value *out);
BW_MUST_USE bw_status bw_cedar__read_uid(const bw_cedar__reader *r, const bw_json *json,
                                         bw_cedar__uid *out);
/* The call inside {"__extn": …}, or NULL when json is no such escape. */
const bw_json *bw_cedar__call_escape(const bw_json *json);
bool bw_cedar__other_escape(const bw_json *json); /* {"__entity": …} or {"__expr": …} */
/* Whether a value that came without JSON has the type. */
bool bw_cedar__value_fits(const bw_cedar_schema *s, const bw_cedar_value *v,
                          const bw_cedar__type *type);
#endif
