/* Opening the driver and cuVS; private to the files cuvs*.c. */
#ifndef BW_CUVS_LOAD_H
#define BW_CUVS_LOAD_H
#include "cuvs.h"
#include "cuvs_abi.h"

enum { BW_CUVS_OLDEST_MAJOR = 26, BW_CUVS_OLDEST_MINOR = 8, BW_CUVS_DRIVER_MIN = 13000 };

/* Cheapest question first; the device's first work last. Fills api, or gives a reason
 * with a line of text. What was opened stays open for the life of the process. places
 * NULL: production's. */
bw_cuvs_reason bw_cuvs__load(const bw_cuvs_places *places, bw_cuvs_api *api,
                             char text[BW_CUVS_TEXT_MAX]);
/* The part of a cuVS error text that an operator needs; never NULL. *length of it. */
const char *bw_cuvs__essence(const char *text, int *length);
#endif
