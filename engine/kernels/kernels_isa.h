/* What the files of this folder share: the table of each ISA, and the tail's rule.
 *
 * Element i belongs to partial sum i mod 16. A tail (dim mod 16 elements) therefore
 * touches only the first sums, and the others keep their bits: padding with zeros
 * would turn a sum of −0 (a product that underflowed) into +0. */
#ifndef BW_KERNELS_ISA_H
#define BW_KERNELS_ISA_H
#include "kernels.h"

enum { BW_KERNEL_SUMS = 16 };

extern const bw_kernels bw_kernels__scalar;
#if defined(__x86_64__)
extern const bw_kernels bw_kernels__avx2;   /* needs AVX2 and FMA */
extern const bw_kernels bw_kernels__avx512; /* needs AVX-512 F, BW, DQ, VL */
#endif
#endif
