/* Rows in stored precision: f32, f16, bf16, and int8 with one f32 scale a row.
 *
 * The value of an element is exact in f16 and bf16, and fl(scale · code) in int8, one
 * rounding to f32. A kernel over stored rows gives the bits that the f32 kernel gives
 * over the decoded row (kernels.h has the order of sums), on every ISA.
 *
 * What encoding loses, to the nearest, ties to even:
 *   f16   |x − x̂| ≤ 2⁻¹¹ |x| where |x| ≥ 2⁻¹⁴, and ≤ 2⁻²⁵ below; fits below 65,520
 *   bf16  |x − x̂| ≤ 2⁻⁸ |x| where |x| ≥ 2⁻¹²⁶, and ≤ 2⁻¹³⁴ below; fits below
 *         (2 − 2⁻⁸) · 2¹²⁷, which is all but the last half step of f32
 *   int8  |x − x̂| ≤ scale · (½ + 2⁻¹⁶), scale = the row's largest |x| / 127 (larger
 *         where that is subnormal, so that the bound holds there too)
 * Plain pointers, no allocation. Thread-safe on distinct outputs. */
#ifndef BW_TYPED_H
#define BW_TYPED_H
#include <bailiwick/types.h>

typedef enum bw_kernel_op {
    BW_KERNEL_DOT = 0,  /* Σ a·b */
    BW_KERNEL_L2SQ = 1, /* Σ (a−b)² */
    BW_KERNEL_L1 = 2    /* Σ |a−b| */
} bw_kernel_op;
enum { BW_NOPS = 3 };

/* out[i] = op(query, row i), i < n.
 *   query  dim f32        rows  n × dim elements, row-major, any alignment of an element
 *   scales n (int8; else not looked at, may be NULL) */
typedef void bw_rows_fn(const float *query, const void *rows, const float *scales,
                        size_t n, size_t dim, float *out);

/* out[q·n + i] = op(queries[q], row i), the bits of bw_rows_fn: a row is read from
 * memory once for all queries. queries: nq pointers to dim f32 each. */
typedef void bw_block_fn(const float *const *queries, size_t nq, const void *rows,
                         const float *scales, size_t n, size_t dim, float *out);

size_t bw_dtype_size(bw_dtype t); /* bytes of one element: 4, 2, 2, 1 */

/* Encodes n × dim values; out has n · dim · bw_dtype_size(t) bytes, scales n floats
 * (int8; else may be NULL). False: a value is not finite or does not fit (f32 takes
 * everything); out and scales are then unspecified. Monotone within a row. */
bool bw_encode_rows(bw_dtype t, const float *in, size_t n, size_t dim, void *out,
                    float *scales);

/* The values that the kernels see; out n × dim. */
void bw_decode_rows(bw_dtype t, const void *rows, const float *scales, size_t n,
                    size_t dim, float *out);

bw_kernel_op bw_metric_op(bw_metric metric); /* cosine is a dot product */

/* Sums to ranking keys in place, larger is better, never NaN: as bw_metric_key. */
void bw_keys_turn(bw_metric metric, float *keys, size_t n);

/* The place of row i. */
static inline const void *bw_row_at(bw_dtype t, const void *rows, size_t dim, size_t i)
{
    const size_t size = t == BW_DTYPE_F32 ? 4 : t == BW_DTYPE_I8 ? 1 : 2;
    return (const char *)rows + i * dim * size;
}
#endif
