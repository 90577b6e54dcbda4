/* The filter as a tree of plain data (Qdrant's Filter; contract section 3).
 *
 * The wire form is parsed in server/; the engine evaluates this. Every node is
 * borrowed from the request's arena. A clause with n = 0 is no constraint. */
#ifndef BAILIWICK_FILTER_H
#define BAILIWICK_FILTER_H

#include <bailiwick/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bw_filter bw_filter;
typedef struct bw_condition bw_condition;

enum { BW_FILTER_DEPTH_MAX = 32, BW_FILTER_NODES_MAX = 65536 };

struct bw_filter {
    const bw_condition *must, *should, *must_not, *min_should;
    uint32_t nmust, nshould, nmust_not, nmin_should;
    uint64_t min_count; /* of min_should; that clause holds only if has_min_should */
    bool has_min_should;
};

typedef enum bw_condition_kind {
    BW_COND_FILTER = 0,   /* .filter */
    BW_COND_MATCH_VALUE,  /* .values[0] */
    BW_COND_MATCH_ANY,    /* .values; none matches nothing */
    BW_COND_MATCH_EXCEPT, /* has a value that is not among .values */
    BW_COND_MATCH_TEXT,   /* .text: every word, any order */
    BW_COND_RANGE,        /* .range: numbers */
    BW_COND_DATE_RANGE,   /* .range: bounds in i64 nanoseconds of Unix time */
    BW_COND_VALUES_COUNT, /* .range with integer bounds */
    BW_COND_IS_EMPTY,     /* missing, null or [] */
    BW_COND_IS_NULL,      /* there, and null (or an array holding null) */
    BW_COND_HAS_ID,       /* .ids */
    BW_COND_HAS_VECTOR,   /* .key is the vector's name */
    BW_COND_NESTED        /* .filter on the elements of the array at .key */
} bw_condition_kind;

typedef enum bw_value_kind { BW_VALUE_STRING, BW_VALUE_INT, BW_VALUE_BOOL } bw_value_kind;

/* What `match` compares with. Integers are exact: value = negative ? -(mag) : mag,
 * over the whole of int64 and uint64. */
typedef struct bw_value {
    bw_value_kind kind;
    bw_str str; /* unescaped UTF-8 */
    uint64_t mag;
    bool negative; /* never set with mag = 0 */
    bool boolean;
} bw_value;

/* A number that keeps 64-bit integers exact: an integer bound is compared with an
 * integer payload value as integers, with a float one exactly (no rounding). */
typedef struct bw_number {
    bool is_int, negative;
    uint64_t mag;
    double real; /* set always; the nearest double when is_int */
} bw_number;

typedef struct bw_range {
    bool has_gt, has_gte, has_lt, has_lte;
    bw_number gt, gte, lt, lte;
} bw_range;

struct bw_condition {
    bw_condition_kind kind;
    bool negate; /* is_empty: false, is_null: false */
    bw_str key;  /* payload path, as written; its syntax was checked */
    const bw_value *values;
    const bw_point_id *ids;
    const bw_filter *filter;
    bw_str text;
    bw_range range;
    uint32_t nvalues, nids;
};

#ifdef __cplusplus
}
#endif
#endif
