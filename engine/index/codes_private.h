/* What codes.c, codes_query.c and codes_scan.c share. */
#ifndef BW_CODES_PRIVATE_H
#define BW_CODES_PRIVATE_H
#include "../kernels/code4.h"
#include "codes.h"

/* Norms that can be bounded in f32 without over- or underflow of a product or square:
 * 2^±40, zero aside. Rows outside are always rescored; queries outside scan flat. */
#define BW_CODES_NORM_MIN 0x1p-40
#define BW_CODES_NORM_MAX 0x1p40

float bw_codes__up(double v);   /* the least f32 not below v */
float bw_codes__down(double v); /* the largest f32 not above v */

/* Fills what the test knows of a query, and its planes (2 · stride bytes, 64-byte
 * lines read in full). False: the query cannot be bounded, all rows are to be rescored. */
bool bw_codes__query(const bw_codes *c, const float *query, bw_code4_query *out,
                     int8_t *planes);
/* Sets the key to reach. */
void bw_codes__worst(bw_metric metric, bw_code4_query *q, float worst, size_t dim);
#endif
