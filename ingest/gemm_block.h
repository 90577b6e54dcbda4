/* The register-blocked product, once for AVX2 and AVX-512. The including file defines
 *   VEC (type), VLEN (lanes), VLOAD, VSTORE, VSET1, VZERO, VFMA, VADD, ROWS (rows of
 * the largest block), and has the ISA's flags (with -O3: the loops below must unroll).
 *
 * A block holds ROWS × (2 · VLEN) accumulators: AVX-512 12 × 32 (24 of 32 registers),
 * AVX2 6 × 16 (12 of 16). Per step of k: two loads of the panel, one broadcast a row.
 * The panel (k × 32 f32: 48 KiB at k = 384) stays in the nearest caches while all rows
 * pass by; weights are read once from memory a call. */
#include "gemm_rows.h"

#define INLINE static inline __attribute__((always_inline))
enum { WIDTH = 2 * VLEN };

INLINE void block(const int rows, const float *a, size_t lda, size_t k,
                  const float *panel, const float *bias, float *c, size_t ldc)
{
    VEC acc[ROWS][2];
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = VZERO();
    for (size_t kk = 0; kk < k; kk++, panel += BW_GEMM_PANEL) {
        VEC b0 = VLOAD(panel), b1 = VLOAD(panel + VLEN);
        for (int r = 0; r < rows; r++) {
            VEC x = VSET1(a[(size_t)r * lda + kk]);
            acc[r][0] = VFMA(x, b0, acc[r][0]);
            acc[r][1] = VFMA(x, b1, acc[r][1]);
        }
    }
    VEC s0 = VLOAD(bias), s1 = VLOAD(bias + VLEN);
    for (int r = 0; r < rows; r++) {
        VSTORE(c + (size_t)r * ldc, VADD(acc[r][0], s0));
        VSTORE(c + (size_t)r * ldc + VLEN, VADD(acc[r][1], s1));
    }
}

/* All rows against WIDTH columns. */
static void column(const float *a, size_t lda, size_t m, size_t k, const float *panel,
                   const float *bias, float *c, size_t ldc)
{
    for (; m >= ROWS; m -= ROWS, a += ROWS * lda, c += ROWS * ldc)
        block(ROWS, a, lda, k, panel, bias, c, ldc);
    for (; m >= 4; m -= 4, a += 4 * lda, c += 4 * ldc)
        block(4, a, lda, k, panel, bias, c, ldc);
    for (; m >= 2; m -= 2, a += 2 * lda, c += 2 * ldc)
        block(2, a, lda, k, panel, bias, c, ldc);
    if (m)
        block(1, a, lda, k, panel, bias, c, ldc);
}

/* Fewer than WIDTH columns are left: through a small square, row block by row block. */
static void column_tail(const float *a, size_t lda, size_t m, size_t k,
                        const float *panel, const float *bias, float *c, size_t ldc,
                        size_t cols)
{
    float wide[ROWS * WIDTH];
    for (size_t i = 0; i < m; i += ROWS) {
        size_t rows = m - i < ROWS ? m - i : ROWS;
        column(a + i * lda, lda, rows, k, panel, bias, wide, WIDTH);
        for (size_t r = 0; r < rows; r++)
            memcpy(c + (i + r) * ldc, wide + r * WIDTH, cols * sizeof *c);
    }
}

static void matmul_wide(const float *a, size_t lda, size_t m, size_t k,
                        const float *panels, size_t n, const float *bias, float *c,
                        size_t ldc)
{
    for (size_t j = 0; j < n; j += WIDTH) {
        const float *panel =
            panels + j / BW_GEMM_PANEL * BW_GEMM_PANEL * k + j % BW_GEMM_PANEL;
        size_t cols = n - j < WIDTH ? n - j : WIDTH;
        float shift[WIDTH] = {0};
        if (bias)
            memcpy(shift, bias + j, cols * sizeof *shift);
        if (cols == WIDTH)
            column(a, lda, m, k, panel, shift, c + j, ldc);
        else
            column_tail(a, lda, m, k, panel, shift, c + j, ldc, cols);
    }
}
