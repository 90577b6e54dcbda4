/* Matrix products and row functions of the encoder, one fixed order on every ISA.
 *
 * Every output of a product is one accumulator that takes its k terms in ascending
 * order, each by one fused multiply-add; the bias is added last. So an output depends
 * on its own row and column alone: a row has the same bits whatever rows stand beside
 * it, and scalar, AVX2 and AVX-512 agree. (A BLAS blocks by the shape of the whole
 * matrix, so its bits change with the batch.) The row functions use multiplications,
 * additions, divisions and square roots only, all correctly rounded, and sums over 16
 * lanes with one reduction tree. Built with -ffp-contract=off.
 * Plain pointers, no ctx, no allocation, no failure. */
#ifndef BW_GEMM_H
#define BW_GEMM_H
#include <stddef.h>

enum { BW_GEMM_PANEL = 32 }; /* columns of a packed panel */

typedef struct bw_gemm {
    const char *isa;
    /* c[i][j] = Σ_k a[i][k] · w[k][j] (+ bias[j]), i < m, j < n.
     *   panels ceil(n / 32) blocks of k × 32, columns past n are zero (bw_gemm_pack)
     *   bias   n values, or NULL
     *   c      m × n with row stride ldc; not overlapping a */
    void (*matmul)(const float *a, size_t lda, size_t m, size_t k, const float *panels,
                   size_t n, const float *bias, float *c, size_t ldc);
    /* x · Φ(x) with the exact normal distribution function, |error| <= 4e-7 · max(1,
     * |x|) */
    void (*gelu)(float *x, size_t n);
    /* x[i] <- exp(scale · (x[i] − max)) / Σ, i < n; x has room up to a multiple of 16,
     * what lies past n becomes 0 */
    void (*softmax)(float *x, size_t n, float scale);
    /* x <- layer norm of (x + add); add may be NULL */
    void (*layer_norm)(float *x, const float *add, size_t n, const float *gain,
                       const float *bias, float eps);
} bw_gemm;

const bw_gemm *bw_gemm_get(void); /* the level that bw_kernels_get chose */
const bw_gemm *
bw_gemm_isa(const char *isa); /* NULL: not compiled in, or the CPU lacks it */

/* Packs w given as rows of outputs (n × k, row stride ldw: PyTorch's layout), into
 * panels. */
void bw_gemm_pack(const float *w, size_t ldw, size_t n, size_t k, float *panels);
/* Packs w given as k × n rows. */
void bw_gemm_pack_rows(const float *w, size_t ldw, size_t n, size_t k, float *panels);
/* Floats that the panels of an n × k matrix take. */
static inline size_t bw_gemm_panel_floats(size_t n, size_t k)
{
    return (n + BW_GEMM_PANEL - 1) / BW_GEMM_PANEL * BW_GEMM_PANEL * k;
}

/* One table a file; the wide ones exist on x86-64 only. */
extern const bw_gemm bw_gemm__scalar, bw_gemm__avx2, bw_gemm__avx512;
#endif
