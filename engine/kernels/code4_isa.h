/* The tables of code4.h, one an ISA; reached only after code4.c asked the CPU. */
#ifndef BW_CODE4_ISA_H
#define BW_CODE4_ISA_H
#include "code4.h"

extern const bw_code4 bw_code4__scalar;
#if defined(__x86_64__)
extern const bw_code4 bw_code4__avx2;
extern const bw_code4 bw_code4__avx512;
extern const bw_code4 bw_code4__avx512vnni; /* also needs AVX512_VNNI */
/* Coding a row, for all three. */
void bw_code4__size_avx2(const float *x, size_t dim, float *top, double *square);
void bw_code4__fit_avx2(const float *x, size_t dim, float per_step, double *xw, int64_t *ww);
double bw_code4__write_avx2(const float *x, size_t dim, float per_step, double step,
                            uint8_t *codes);
#endif
#endif
