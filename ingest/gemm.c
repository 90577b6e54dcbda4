/* The scalar level of gemm.h (the oracle: fmaf in ascending k), packing, and the choice
 * of a level. The choice follows engine/kernels, so one BW_ISA governs both. */
#include "gemm.h"
#include "../engine/kernels/kernels.h"
#include "gemm_rows.h"

static void matmul_scalar(const float *a, size_t lda, size_t m, size_t k,
                          const float *panels, size_t n, const float *bias, float *c,
                          size_t ldc)
{
    for (size_t j0 = 0; j0 < n; j0 += BW_GEMM_PANEL, panels += k * BW_GEMM_PANEL) {
        size_t cols = n - j0 < BW_GEMM_PANEL ? n - j0 : BW_GEMM_PANEL;
        for (size_t i = 0; i < m; i++) {
            float acc[BW_GEMM_PANEL] = {0};
            for (size_t kk = 0; kk < k; kk++)
                for (size_t j = 0; j < cols; j++)
                    acc[j] =
                        fmaf(a[i * lda + kk], panels[kk * BW_GEMM_PANEL + j], acc[j]);
            for (size_t j = 0; j < cols; j++)
                c[i * ldc + j0 + j] = acc[j] + (bias ? bias[j0 + j] : 0.0f);
        }
    }
}

const bw_gemm bw_gemm__scalar = {"scalar", matmul_scalar, rows_gelu, rows_softmax,
                                 rows_layer_norm};

const bw_gemm *bw_gemm_isa(const char *isa)
{
    if (!bw_kernels_isa(isa))
        return NULL;
#if defined(__x86_64__)
    if (strcmp(isa, "avx512") == 0)
        return &bw_gemm__avx512;
    if (strcmp(isa, "avx2") == 0)
        return &bw_gemm__avx2;
#endif
    return strcmp(isa, "scalar") == 0 ? &bw_gemm__scalar : NULL;
}

const bw_gemm *bw_gemm_get(void)
{
    const bw_gemm *g = bw_gemm_isa(bw_kernels_get()->isa);
    return g ? g : &bw_gemm__scalar;
}

void bw_gemm_pack(const float *w, size_t ldw, size_t n, size_t k, float *panels)
{
    for (size_t j0 = 0; j0 < n; j0 += BW_GEMM_PANEL)
        for (size_t kk = 0; kk < k; kk++)
            for (size_t j = j0; j < j0 + BW_GEMM_PANEL; j++)
                *panels++ = j < n ? w[j * ldw + kk] : 0.0f;
}

void bw_gemm_pack_rows(const float *w, size_t ldw, size_t n, size_t k, float *panels)
{
    for (size_t j0 = 0; j0 < n; j0 += BW_GEMM_PANEL)
        for (size_t kk = 0; kk < k; kk++)
            for (size_t j = j0; j < j0 + BW_GEMM_PANEL; j++)
                *panels++ = j < n ? w[kk * ldw + j] : 0.0f;
}
