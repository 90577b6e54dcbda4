/* Numbers of JSON text: grammar, exact integers, nearest doubles (base only). */
#ifndef BW_JSON_NUMBER_PRIVATE_H
#define BW_JSON_NUMBER_PRIVATE_H
#include "json.h"

/* Longer number texts are refused: 767 digits decide any double, the rest is noise. */
enum { BW_JSON_NUMBER_TEXT_MAX = 1100 };

/* One number at p (which is '-' or a digit). The position behind it, or NULL when the
 * grammar is broken or the value lies beyond double. */
const char *bw_json__number(const char *p, const char *end, bw_json *out);

/* The rest of an array after '[' and white space, when all of it is numbers: the
 * position behind ']' and how many. NULL: something else is in it (or it is broken; the
 * element-wise reader says what). */
const char *bw_json__numbers(const char *p, const char *end, uint32_t *count);
#endif
