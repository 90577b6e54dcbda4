/* The natural logarithm, with the same bits on every machine. */
#ifndef BW_LN_H
#define BW_LN_H

/* ln(x), at most 2 units in the last place from the true value; ln(1) is 0. x: positive
 * and finite. For what decides an answer's bits: a C library's own picks its code by the
 * CPU (with fused multiply-add or without), and may differ between releases. */
double bw_ln(double x);
#endif
