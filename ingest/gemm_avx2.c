/* gemm.h for AVX2 with FMA3: vfmadd231ps on two ports (latency 4, Zen 2+ and Haswell+),
 * 12 independent accumulators keep both busy. */
#include "gemm.h"
#if defined(__x86_64__)
#include <immintrin.h>
#define VEC    __m256
#define VLEN   8
#define ROWS   6
#define VLOAD  _mm256_loadu_ps
#define VSTORE _mm256_storeu_ps
#define VSET1  _mm256_set1_ps
#define VZERO  _mm256_setzero_ps
#define VFMA   _mm256_fmadd_ps
#define VADD   _mm256_add_ps
#include "gemm_block.h"

const bw_gemm bw_gemm__avx2 = {"avx2", matmul_wide, rows_gelu, rows_softmax,
                               rows_layer_norm};
#endif
