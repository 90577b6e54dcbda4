/* What the files of this folder share: the table of each ISA, and the tail's rule.
 *
 * Element i belongs to partial sum i mod 16. A tail (dim mod 16 elements) therefore
 * touches only the first sums, and the others keep their bits: padding with zeros
 * would turn a sum of −0 (a product that underflowed) into +0. */
#ifndef BW_KERNELS_ISA_H
#define BW_KERNELS_ISA_H
#include "kernels.h"

enum { BW_KERNEL_SUMS = 16 };

/* What a function of the wide inner loops is declared with. Not forced under sanitizers:
 * their checks, inlined into every instance, took minutes to compile. */
#ifdef BW_DEBUG
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif

extern const bw_kernels bw_kernels__scalar;
#if defined(__x86_64__)
extern const bw_kernels bw_kernels__avx2;   /* needs AVX2, FMA, F16C */
extern const bw_kernels bw_kernels__avx512; /* needs AVX-512 F, BW, DQ, VL */
#endif

/* Each ISA's file has row_one, rows_any, block_any and decode_any, inlined with the
 * operation and the type as constants; these make the functions of its table. */
#define BW_KERNELS_OF(isa, op, OP, t, T)                                               \
    static void op##_rows_##t##_##isa(const float *query, const void *rows,            \
                                      const float *scales, size_t n, size_t dim,       \
                                      float *out)                                      \
    {                                                                                  \
        rows_any(BW_KERNEL_##OP, BW_DTYPE_##T, query, rows, scales, n, dim, out);      \
    }                                                                                  \
    static void op##_block_##t##_##isa(const float *const *queries, size_t nq,         \
                                       const void *rows, const float *scales,          \
                                       size_t n, size_t dim, float *out)               \
    {                                                                                  \
        block_any(BW_KERNEL_##OP, BW_DTYPE_##T, queries, nq, rows, scales, n, dim,     \
                  out);                                                                \
    }

#define BW_KERNELS_OP(isa, op, OP)                                                     \
    static float op##_f32_##isa(const float *a, const float *b, size_t dim)            \
    {                                                                                  \
        return row_one(BW_KERNEL_##OP, BW_DTYPE_F32, a, b, 1, dim);                    \
    }                                                                                  \
    BW_KERNELS_OF(isa, op, OP, f32, F32)                                               \
    BW_KERNELS_OF(isa, op, OP, f16, F16)                                               \
    BW_KERNELS_OF(isa, op, OP, bf16, BF16)                                             \
    BW_KERNELS_OF(isa, op, OP, i8, I8)                                                 \
    static void op##_rows_plain_##isa(const float *query, const float *rows, size_t n, \
                                      size_t dim, float *out)                          \
    {                                                                                  \
        op##_rows_f32_##isa(query, rows, NULL, n, dim, out);                           \
    }

#define BW_KERNELS_DECODE(isa, t, T)                                         \
    static void decode_##t##_##isa(const void *row, float scale, size_t dim, \
                                   float *out)                               \
    {                                                                        \
        decode_any(BW_DTYPE_##T, row, scale, dim, out);                      \
    }

#define BW_KERNELS_INSTANCES(isa)      \
    BW_KERNELS_OP(isa, dot, DOT)       \
    BW_KERNELS_OP(isa, l2sq, L2SQ)     \
    BW_KERNELS_OP(isa, l1, L1)         \
    BW_KERNELS_DECODE(isa, f32, F32)   \
    BW_KERNELS_DECODE(isa, f16, F16)   \
    BW_KERNELS_DECODE(isa, bf16, BF16) \
    BW_KERNELS_DECODE(isa, i8, I8)

#define BW_KERNELS_ROW(form, t, isa) \
    {dot_##form##_##t##_##isa, l2sq_##form##_##t##_##isa, l1_##form##_##t##_##isa}
#define BW_KERNELS_FORM(form, isa)                                      \
    {BW_KERNELS_ROW(form, f32, isa), BW_KERNELS_ROW(form, f16, isa),    \
     BW_KERNELS_ROW(form, bf16, isa), BW_KERNELS_ROW(form, i8, isa)}
#define BW_KERNELS_TABLE(level)                                          \
    {                                                                    \
        .isa = #level, .dot_f32 = dot_f32_##level,                       \
        .l2sq_f32 = l2sq_f32_##level, .l1_f32 = l1_f32_##level,          \
        .dot_rows_f32 = dot_rows_plain_##level,                          \
        .l2sq_rows_f32 = l2sq_rows_plain_##level,                        \
        .l1_rows_f32 = l1_rows_plain_##level,                            \
        .rows = BW_KERNELS_FORM(rows, level),                            \
        .block = BW_KERNELS_FORM(block, level),                          \
        .decode = {decode_f32_##level, decode_f16_##level,               \
                   decode_bf16_##level, decode_i8_##level},              \
    }
#endif
