/* What `place` and `catalogue gaps` share: the market on disk. Private to cli_*.c. */
#ifndef BW_CLI_PLACE_H
#define BW_CLI_PLACE_H
#include "../policies/offers.h"
#include "config.h"

enum { BW_CLI_MARKET_OVERLAYS_MAX = 8 };
/* The files of a folder (NULL: the shipped market), the overlays over them in order. */
BW_MUST_USE bw_status bw_cli_market_open(bw_ctx *ctx, const bw_config *c, const char *folder,
                                         const char *const *overlay, size_t noverlays,
                                         const bw_catalogue *catalogue, bw_market **out);
#endif
