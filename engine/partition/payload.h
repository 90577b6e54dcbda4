/* Payload paths over JSON bytes, without a tree.
 *
 * A payload is stored as the bytes that came (checked once, at the door), so a filter
 * walks them: it skips what it does not ask for and never copies. All functions are
 * bounded by the span that they get: damaged bytes give a wrong answer, never a read
 * past the end. Path grammar (Qdrant's JsonPath, checked against its engine):
 *
 *     path  = part { "." part }
 *     part  = ( raw | quoted ) { "[" digits "]" | "[" "]" }
 *     raw   = one or more of: letter, digit (any script), "_", "-"
 *     quoted = '"' any text but '"', '\' and NUL '"'
 *
 * A key never goes into an array by itself: `a.b` does not see [{"b":1}], `a[].b` does.
 */
#ifndef BW_PAYLOAD_H
#define BW_PAYLOAD_H
#include "../base/base.h"
#include <bailiwick/filter.h>

enum {
    BW_PATH_STEPS_MAX = 32, /* as deep as a filter may nest */
    BW_PATH_BYTES_MAX = 4096,
    BW_PAYLOAD_DEPTH_MAX = 64, /* as the strict reader takes; edits may not pass it */
    BW_PAYLOAD_BYTES_MAX = 32 << 20,
    BW_WORD_BYTES_MAX = 1024 /* a longer word is cut into pieces of this length */
};

typedef enum bw_step_kind { BW_STEP_KEY, BW_STEP_INDEX, BW_STEP_ALL } bw_step_kind;
typedef struct bw_step {
    bw_step_kind kind;
    bw_str key;   /* KEY: borrowed from the path's text */
    size_t index; /* INDEX */
} bw_step;
typedef struct bw_path {
    const bw_step *steps;
    uint32_t n;
} bw_path;

/* Parses into the caller's storage of BW_PATH_STEPS_MAX steps; false: not a path. */
bool bw_path_read(bw_str text, bw_step *steps, uint32_t *n);
/* The same into the arena; keys are borrowed from text. BW_EINVALID. */
BW_MUST_USE bw_status bw_path_parse(bw_ctx *ctx, bw_str text, bw_path *out);

/* Calls fn with the raw bytes of every value that the path reaches in the object, in
 * document order, until fn returns false. Returns false when fn stopped it. */
typedef bool (*bw_raw_fn)(void *arg, bw_str raw);
bool bw_path_each(const bw_path *path, bw_str object, bw_raw_fn fn, void *arg);

/* Elements of a raw array, one by one: `*rest` starts as the array's raw bytes. */
bool bw_raw_array_begin(bw_str raw, bw_str *rest); /* false: not an array */
bool bw_raw_array_next(bw_str *rest, bw_str *element);
/* Members of a raw object; key is the bytes between the quotes, escapes as they are. */
bool bw_raw_object_begin(bw_str raw, bw_str *rest);
bool bw_raw_object_next(bw_str *rest, bw_str *key, bw_str *value);
size_t bw_raw_array_count(bw_str raw); /* 0 for what is no array */
size_t bw_raw_depth(bw_str raw);       /* of nested containers; a scalar has 0 */

static inline bool bw_raw_is_string(bw_str raw)
{
    return raw.len > 1 && raw.ptr[0] == '"';
}
static inline bool bw_raw_is_null(bw_str raw)
{
    return raw.len > 0 && raw.ptr[0] == 'n';
}
static inline bool bw_raw_is_array(bw_str raw)
{
    return raw.len > 0 && raw.ptr[0] == '[';
}
static inline bool bw_raw_is_object(bw_str raw)
{
    return raw.len > 0 && raw.ptr[0] == '{';
}
static inline bool bw_raw_is_bool(bw_str raw)
{
    return raw.len > 0 && (raw.ptr[0] == 't' || raw.ptr[0] == 'f');
}
static inline bool bw_raw_is_number(bw_str raw)
{
    return raw.len > 0 &&
           (raw.ptr[0] == '-' || (raw.ptr[0] >= '0' && raw.ptr[0] <= '9'));
}

/* A raw number, exactly. False when it is none. */
bool bw_raw_number(bw_str raw, bw_number *out);
/* -1, 0, 1 in the order of the reals: no rounding between integers and doubles. */
int bw_number_cmp(const bw_number *a, const bw_number *b);
bool bw_range_has(const bw_range *range, const bw_number *v);

/* Unescapes the inside of a string (no quotes) to out, which has room for inner.len
 * bytes; returns the length. */
size_t bw_raw_unescape(bw_str inner, char *out);
/* A raw string's text: the inner bytes themselves when nothing is escaped, else a
 * copy in `scratch` (grown as needed). False: no string, or scratch->failed. */
bool bw_raw_string(bw_str raw, bw_buf *scratch, bw_str *out);
/* The key of an object (bytes between the quotes) against plain text. */
bool bw_raw_key_eq(bw_str inner, bw_str key);

/* bw_time_parse, but a year outside int64 nanoseconds (1677 … 2262) becomes the
 * nearest end, so that "9999-12-31" is later than everything. For payload
 * values and for what is compared with them: bounds, expiry. */
bool bw_payload_time(bw_str s, int64_t *ns);

/* The words of a text: runs of letters, marks and digits of any script, lower case,
 * as `match text` compares them. fn gets each word in turn; false stops. */
typedef bool (*bw_word_fn)(void *arg, bw_str word);
bool bw_words_each(bw_str text, bw_word_fn fn, void *arg);

/* Total order of match values: strings, then integers, then booleans. */
int bw_value_cmp(const bw_value *a, const bw_value *b);
/* A raw scalar as a match value (a float, null, array or object is none). */
bool bw_raw_value(bw_str raw, bw_buf *scratch, bw_value *out);
#endif
