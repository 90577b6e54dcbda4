/* Cedar values: what expressions yield, attributes hold and contexts are made of.
 *
 * A value is 16 bytes and immutable; what it points to lives as long as the arena (a
 * request's, a policy set's, an entity store's) it was built in. Values nest as deep as
 * data and expression together, each bounded by BW_CEDAR_DEPTH_MAX, so walking one by
 * recursion is bounded too. Sets are kept sorted by
 * bw_cedar__cmp without duplicates and records sorted by key, so equality is one walk
 * and membership a binary search. */
#ifndef BW_CEDAR_VALUE_H
#define BW_CEDAR_VALUE_H
#include "cedar.h"

enum {
    BW_CEDAR_DEPTH_MAX =
        300, /* nested expressions, types, JSON values; language asks >= 256 */
    BW_CEDAR_TEXT_MAX = 16 << 20,    /* bytes of one policy set or schema */
    BW_CEDAR_POLICIES_MAX = 65536,   /* policies in a set */
    BW_CEDAR_ENTITIES_MAX = 4000000, /* entities in a store */
    BW_CEDAR_ANCESTORS_MAX = 65536,  /* ancestors of one entity */
    BW_CEDAR_STEPS_MAX =
        10000000 /* units of work in one authorization: a second at worst */
};

typedef enum bw_cedar__kind {
    BW_CEDAR__BOOL,
    BW_CEDAR__LONG,
    BW_CEDAR__STRING,
    BW_CEDAR__ENTITY,
    BW_CEDAR__SET,
    BW_CEDAR__RECORD,
    BW_CEDAR__DECIMAL,
    BW_CEDAR__DATETIME,
    BW_CEDAR__DURATION,
    BW_CEDAR__IP
} bw_cedar__kind;

typedef struct bw_cedar__uid { /* a uid with its hash, so that look-ups never hash again
                                */
    bw_str type, id;
    uint64_t hash;
} bw_cedar__uid;

typedef struct bw_cedar__ip { /* v4 in the first four bytes, the rest 0 */
    uint8_t addr[16];
    uint8_t prefix;
    bool v6;
} bw_cedar__ip;

typedef struct bw_cedar__member bw_cedar__member;
struct bw_cedar_value {
    uint8_t kind;
    uint8_t reserved[3];
    uint32_t n; /* STRING: bytes; SET: elements; RECORD: members */
    union {
        bool boolean;
        int64_t integer; /* LONG; DECIMAL x 10^4; DATETIME, DURATION in ms */
        const char *text;
        const bw_cedar__uid *uid;
        const bw_cedar_value *items;
        const bw_cedar__member *members;
        const bw_cedar__ip *ip;
    } u;
};
static_assert(sizeof(bw_cedar_value) == 16, "the evaluator's stack is made of these");
struct bw_cedar__member {
    bw_str key;
    bw_cedar_value value;
};

static inline bw_cedar_value bw_cedar__bool(bool b)
{
    return (bw_cedar_value){.kind = BW_CEDAR__BOOL, .u.boolean = b};
}
static inline bw_cedar_value bw_cedar__int(bw_cedar__kind kind, int64_t i)
{
    return (bw_cedar_value){.kind = (uint8_t)kind, .u.integer = i};
}
static inline bw_cedar_value bw_cedar__string(bw_str s)
{
    return (bw_cedar_value){
        .kind = BW_CEDAR__STRING, .n = (uint32_t)s.len, .u.text = s.ptr};
}
static inline bw_cedar_value bw_cedar__entity(const bw_cedar__uid *uid)
{
    return (bw_cedar_value){.kind = BW_CEDAR__ENTITY, .u.uid = uid};
}
static inline bw_str bw_cedar__text(const bw_cedar_value *v)
{
    return (bw_str){v->u.text, v->n};
}
static inline bool bw_cedar__uid_eq(const bw_cedar__uid *a, const bw_cedar__uid *b)
{
    return a == b || (a->hash == b->hash && bw_str_eq(a->id, b->id) &&
                      bw_str_eq(a->type, b->type));
}

/* Keyed hash (SipHash, one random key a process), so hostile names cannot crowd a
 * table. Never decides an order that a caller can see. */
uint64_t bw_cedar__hash(bw_str type, bw_str id);
static inline bw_cedar__uid bw_cedar__uid_make(bw_str type, bw_str id)
{
    return (bw_cedar__uid){type, id, bw_cedar__hash(type, id)};
}

/* Total order over all values: kind first. 0 exactly when Cedar's == holds. *cost grows
 * by the work done. Depth of values is bounded where they are built. */
int bw_cedar__cmp(const bw_cedar_value *a, const bw_cedar_value *b, uint64_t *cost);
/* Sorts items in place, drops duplicates, returns how many are left. */
uint32_t bw_cedar__set_sort(bw_cedar_value *items, uint32_t n, uint64_t *cost);
bool bw_cedar__set_has(const bw_cedar_value *set, const bw_cedar_value *v,
                       uint64_t *cost);
bool bw_cedar__set_has_all(const bw_cedar_value *set, const bw_cedar_value *part,
                           uint64_t *cost);
bool bw_cedar__set_has_any(const bw_cedar_value *a, const bw_cedar_value *b,
                           uint64_t *cost);
/* A copy in pool that shares nothing with v; false when memory is out. */
bool bw_cedar__value_copy(bw_ctx *pool, const bw_cedar_value *v, bw_cedar_value *out);
/* Sorts members by key; false when a key is there twice. */
bool bw_cedar__record_sort(bw_cedar__member *members, uint32_t n);
const bw_cedar_value *bw_cedar__record_get(const bw_cedar_value *record, bw_str key);
/* The same, looking at member `hint` first. */
static inline const bw_cedar_value *
bw_cedar__record_get_at(const bw_cedar_value *record, bw_str key, uint32_t hint)
{
    if (hint < record->n && bw_str_eq(record->u.members[hint].key, key))
        return &record->u.members[hint].value;
    return bw_cedar__record_get(record, key);
}

/* ---- extension types ---- */
typedef enum bw_cedar__fn { /* order of the table in ext.c */
                            BW_CEDAR__FN_IP,
                            BW_CEDAR__FN_DECIMAL,
                            BW_CEDAR__FN_DATETIME,
                            BW_CEDAR__FN_DURATION,
                            BW_CEDAR__FN_LESS_THAN,
                            BW_CEDAR__FN_LESS_THAN_OR_EQUAL,
                            BW_CEDAR__FN_GREATER_THAN,
                            BW_CEDAR__FN_GREATER_THAN_OR_EQUAL,
                            BW_CEDAR__FN_IS_IPV4,
                            BW_CEDAR__FN_IS_IPV6,
                            BW_CEDAR__FN_IS_LOOPBACK,
                            BW_CEDAR__FN_IS_MULTICAST,
                            BW_CEDAR__FN_IS_IN_RANGE,
                            BW_CEDAR__FN_OFFSET,
                            BW_CEDAR__FN_DURATION_SINCE,
                            BW_CEDAR__FN_TO_DATE,
                            BW_CEDAR__FN_TO_TIME,
                            BW_CEDAR__FN_TO_MILLISECONDS,
                            BW_CEDAR__FN_TO_SECONDS,
                            BW_CEDAR__FN_TO_MINUTES,
                            BW_CEDAR__FN_TO_HOURS,
                            BW_CEDAR__FN_TO_DAYS,
                            BW_CEDAR__FN_COUNT
} bw_cedar__fn;
bool bw_cedar__fn_find(bw_str name, bool method, bw_cedar__fn *out);
bool bw_cedar__fn_any(bw_str name,
                      bw_cedar__fn *out); /* either style, as __extn takes both */
bw_str bw_cedar__fn_name(bw_cedar__fn fn);
bool bw_cedar__fn_constructor(bw_cedar__fn fn);
/* How many arguments it takes, the receiver included, their kinds, and its result's. */
uint32_t bw_cedar__fn_types(bw_cedar__fn fn, const bw_cedar__kind **args,
                            bw_cedar__kind *result);
/* NULL when all went well, else the reason (static). *memory is set when the arena is
 * spent. args[0] is the receiver of a method. */
const char *bw_cedar__fn_call(bw_ctx *ctx, bw_cedar__fn fn, const bw_cedar_value *args,
                              uint32_t n, bw_cedar_value *out, bool *memory);

bool bw_cedar__ip_parse(bw_str s, bw_cedar__ip *out);
bool bw_cedar__ip_loopback(const bw_cedar__ip *a);
bool bw_cedar__ip_multicast(const bw_cedar__ip *a);
bool bw_cedar__ip_in_range(const bw_cedar__ip *a, const bw_cedar__ip *range);
int bw_cedar__ip_cmp(const bw_cedar__ip *a, const bw_cedar__ip *b);
bool bw_cedar__decimal_parse(bw_str s, int64_t *out);
bool bw_cedar__datetime_parse(bw_str s, int64_t *ms);
bool bw_cedar__duration_parse(bw_str s, int64_t *ms);
bool bw_cedar__datetime_to_date(int64_t ms, int64_t *out);
int64_t bw_cedar__datetime_to_time(int64_t ms);

/* ---- names ---- */
bool bw_cedar__is_ident(bw_str s);    /* the lexical form only */
bool bw_cedar__is_reserved(bw_str s); /* no name, variable or attribute after a dot */
bool bw_cedar__is_path(bw_str s);     /* IDENT(::IDENT)*, no reserved part, no blanks */
bw_str bw_cedar__path_last(bw_str s); /* after the last :: */
static inline bool bw_cedar__is_action_type(bw_str type)
{
    return type.len >= 6 && memcmp(type.ptr + type.len - 6, "Action", 6) == 0 &&
           (type.len == 6 || type.ptr[type.len - 7] == ':');
}
#endif
