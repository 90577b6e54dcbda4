/* gemm.h for AVX-512F: vfmadd231ps zmm (latency 4, one or two ports), 24 accumulators,
 * the broadcast folds into the instruction. */
#include "gemm.h"
#if defined(__x86_64__)
#include <immintrin.h>
#define VEC    __m512
#define VLEN   16
#define ROWS   12
#define VLOAD  _mm512_loadu_ps
#define VSTORE _mm512_storeu_ps
#define VSET1  _mm512_set1_ps
#define VZERO  _mm512_setzero_ps
#define VFMA   _mm512_fmadd_ps
#define VADD   _mm512_add_ps
#include "gemm_block.h"

const bw_gemm bw_gemm__avx512 = {"avx512", matmul_wide, rows_gelu, rows_softmax,
                                 rows_layer_norm};
#endif
