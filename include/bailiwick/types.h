/* The value types of the engine's surface: strings, point ids, class ids, vectors.
 * All are plain data; pointers in them are borrowed. */
#ifndef BAILIWICK_TYPES_H
#define BAILIWICK_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Borrowed bytes; not terminated. {NULL,0} is "none", {non-NULL,0} is "empty". */
typedef struct bw_str {
    const char *ptr;
    size_t len;
} bw_str;

/* A point's id: an unsigned 64-bit integer (hi = 0, lo = value) or a UUID
 * (big-endian halves). Order: all integers, then all UUIDs (Qdrant's order). */
typedef struct bw_point_id {
    uint64_t hi, lo;
    uint32_t is_uuid; /* 0 or 1 */
    uint32_t pad;     /* 0 */
} bw_point_id;

/* A governance class: BLAKE2b-256 of the label set's canonical form. */
typedef struct bw_class_id {
    uint8_t bytes[32];
} bw_class_id;

typedef enum bw_metric {
    BW_METRIC_COSINE = 0, /* rows are normalised when stored */
    BW_METRIC_DOT = 1,
    BW_METRIC_EUCLID = 2,
    BW_METRIC_MANHATTAN = 3
} bw_metric;

/* Stored precision of a dense vector. Everything exact is relative to it: a row's key is
 * the f32 kernel's over the row decoded to f32 (int8: fl(scale · code), a scale a row). */
typedef enum bw_dtype {
    BW_DTYPE_F32 = 0,
    BW_DTYPE_F16 = 1,
    BW_DTYPE_BF16 = 2,
    BW_DTYPE_I8 = 3
} bw_dtype;
enum { BW_NDTYPES = 4 };

/* One vector of a point. Dense: n = dim values, indices NULL. Sparse: n pairs,
 * indices strictly ascending. name "" is the unnamed vector. */
typedef struct bw_vector {
    bw_str name;
    const float *values;
    const uint32_t *indices; /* NULL = dense */
    uint32_t n;
    bool sparse; /* tells an empty sparse vector from a dense one */
} bw_vector;

/* What differs from point to point and is no label. Times are Unix nanoseconds. */
typedef struct bw_point_facts {
    int64_t expires_at_ns; /* 0 = never; the engine hides the point from then on */
    bw_str subject;        /* keyed hash of the data subject's id, or none */
    bw_str source;         /* where the point came from, or none */
    bw_str model;          /* embedding model, or none */
} bw_point_facts;

/* The classes that a decision lets this request touch: sorted ascending by bytes,
 * no duplicates. Plain data, never NULL; n = 0 means nothing, there is no "all". */
typedef struct bw_permit {
    const bw_class_id *classes;
    size_t n;
} bw_permit;

int bw_point_id_cmp(const bw_point_id *a, const bw_point_id *b); /* <0, 0, >0 */
int bw_class_id_cmp(const bw_class_id *a, const bw_class_id *b);
bool bw_permit_has(const bw_permit *permit, const bw_class_id *id);

#ifdef __cplusplus
}
#endif
#endif
