/* The tables of the ISA files of bits.h. */
#ifndef BW_BITS_ISA_H
#define BW_BITS_ISA_H
#include "bits.h"

extern const bw_bits bw_bits__scalar;
#if defined(__x86_64__)
extern const bw_bits bw_bits__avx2;   /* needs what bw_kernels__avx2 needs, and POPCNT */
extern const bw_bits bw_bits__avx512; /* needs what bw_kernels__avx512 needs, and VPOPCNTDQ */
#endif
#endif
