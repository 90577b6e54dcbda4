/* Strict JSON (RFC 8259): one reader for every body, payload and data file.
 *
 * Nodes live in the ctx's arena and point into the text, which must outlive them.
 * Every node keeps its exact bytes (`raw`), so payloads are stored as they came and
 * 64-bit integers survive. An array that holds numbers only is one node
 * (BW_JSON_NUMBERS): a 1,000 x 768 upsert makes 1,000 nodes, not 768,000.
 * cJSON is the oracle of the fuzz target, not the parser: it keeps no spans, rounds
 * integers to doubles and lets duplicate keys through (measured, security.md M6).
 *
 * Refused: invalid UTF-8, NUL and raw control characters in strings, \u0000 (unless nul_ok), lone
 * surrogate escapes, duplicate keys, bytes after the value, numbers outside the
 * grammar or beyond double, more than the limits below. No recursion. */
#ifndef BW_JSON_H
#define BW_JSON_H
#include "base.h"

typedef enum bw_json_kind {
    BW_JSON_NULL, BW_JSON_FALSE, BW_JSON_TRUE, BW_JSON_NUMBER, BW_JSON_STRING,
    BW_JSON_ARRAY, BW_JSON_OBJECT,
    BW_JSON_NUMBERS /* an array of >= 1 numbers and nothing else; count = how many */
} bw_json_kind;

typedef struct bw_json bw_json;
struct bw_json {
    bw_json_kind kind;
    uint32_t count;   /* members, elements, numbers */
    bw_str raw;       /* the value's bytes in the text, quotes and brackets included */
    bw_str str;       /* STRING: unescaped (points into the text when nothing was escaped) */
    bw_str key;       /* member of an object: its key, unescaped */
    bw_json *child;   /* first member or element (not for NUMBERS) */
    bw_json *next;
    const bw_json *parent;
    bool is_int, negative; /* NUMBER: no fraction, no exponent, fits; "-0" is not is_int */
    uint64_t mag;          /* is_int: magnitude; negative only down to -2^63 */
    double real;           /* NUMBER: always set, correctly rounded */
    const float *floats;   /* NUMBERS: what bw_json_f32 gives, in the arena; NULL: ask it */
};

typedef struct bw_json_limits {
    uint32_t depth_max;  /* 64 for requests and payloads, 256 for Cedar data */
    uint32_t nodes_max;  /* 0 = 1,000,000 */
    size_t bytes_max;    /* 0 = 33,554,432 */
    bool nul_ok;         /* accept the escape \u0000 in strings: Cedar's strings may hold it */
} bw_json_limits;
#define BW_JSON_REQUEST ((bw_json_limits){64, 1000000, 33554432, false})
#define BW_JSON_CEDAR ((bw_json_limits){256, 4000000, 268435456, true})

/* On failure BW_EINVALID with a message that names the byte offset and, where it is
 * known, the JSON pointer. BW_ENOMEM when the arena's budget is spent. */
BW_MUST_USE bw_status bw_json_parse(bw_ctx *ctx, bw_str text, bw_json_limits limits, bw_json **out);

const bw_json *bw_json_get(const bw_json *object, const char *key); /* NULL if absent or no object */
const bw_json *bw_json_get_str(const bw_json *object, bw_str key);
/* The same, but a null member counts as absent (the contract's rule outside payloads). */
const bw_json *bw_json_get_value(const bw_json *object, const char *key);
static inline bool bw_json_is_array(const bw_json *v) { return v && (v->kind == BW_JSON_ARRAY || v->kind == BW_JSON_NUMBERS); }
static inline bool bw_json_is_bool(const bw_json *v) { return v && (v->kind == BW_JSON_TRUE || v->kind == BW_JSON_FALSE); }
bool bw_json_u64(const bw_json *v, uint64_t *out);  /* exact integers only */
bool bw_json_i64(const bw_json *v, int64_t *out);
/* Elements of an ARRAY or NUMBERS as nodes (NUMBERS is expanded in the arena on demand). */
BW_MUST_USE bw_status bw_json_elements(bw_ctx *ctx, const bw_json *array, const bw_json **first);
/* JSON pointer (RFC 6901) of a node, in the arena; "" for the root. */
const char *bw_json_pointer(bw_ctx *ctx, const bw_json *v);

/* NUMBERS (or an empty ARRAY) straight into f32: each value is the float nearest to the
 * decimal text's double. BW_EINVALID at the first that is not finite in f32, naming its
 * index. out has room for v->count. */
BW_MUST_USE bw_status bw_json_f32(bw_ctx *ctx, const bw_json *v, float *out);
/* NUMBERS into u32, exact. */
BW_MUST_USE bw_status bw_json_u32(bw_ctx *ctx, const bw_json *v, uint32_t *out);

/* ---- writing ---- */
void bw_json_put_str(bw_buf *b, bw_str s);     /* quoted and escaped */
void bw_json_put_strs(bw_buf *b, const char *key, const bw_str *s, size_t n); /* a member: list */
void bw_json_put_key(bw_buf *b, const char *k); /* "k": with a comma before it unless first after { */
void bw_json_put_u64(bw_buf *b, uint64_t v);
void bw_json_put_i64(bw_buf *b, int64_t v);
void bw_json_put_f32(bw_buf *b, float v);   /* shortest that reads back the same float; null if not finite */
void bw_json_put_f64(bw_buf *b, double v);
void bw_json_put_point_id(bw_buf *b, const bw_point_id *id);
/* A comma unless the buffer ends with { [ : or , — for hand-written objects and lists. */
void bw_json_sep(bw_buf *b);
#endif
