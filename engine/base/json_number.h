/* Numbers of JSON text: grammar, exact integers, nearest doubles (base only). */
#ifndef BW_JSON_NUMBER_PRIVATE_H
#define BW_JSON_NUMBER_PRIVATE_H
#include "json.h"

/* Longer number texts are refused: 767 digits decide any double, the rest is noise. */
enum { BW_JSON_NUMBER_TEXT_MAX = 1100 };

/* One number at p (which is '-' or a digit). The position behind it, or NULL when the
 * grammar is broken or the value lies beyond double. */
const char *bw_json__number(const char *p, const char *end, bw_json *out);

enum { BW_JSON_FLOATS_MAX = 65536 }; /* of one array as f32: the longest vector */

/* The rest of an array after '[' and white space, when all of it is numbers: v becomes
 * BW_JSON_NUMBERS, *out the position behind ']'. floats stays NULL when one is beyond f32
 * or they are more than BW_JSON_FLOATS_MAX. *out NULL: something else is in it (or it is
 * broken; the element-wise reader says what), v as it was. hint: how many there may be,
 * 0 = unknown. BW_ENOMEM. */
BW_MUST_USE bw_status bw_json__numbers(bw_ctx *ctx, const char *p, const char *end,
                                       uint32_t hint, bw_json *v, const char **out);
#endif
