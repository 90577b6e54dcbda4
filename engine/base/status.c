/* Names of the result codes. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>

const char *bw_status_name(bw_status status)
{
    switch (status) {
    case BW_OK:
        return "ok";
    case BW_EINVALID:
        return "invalid";
    case BW_ENOTFOUND:
        return "not found";
    case BW_EEXISTS:
        return "exists";
    case BW_ECONFLICT:
        return "conflict";
    case BW_EDENIED:
        return "denied";
    case BW_ETIMEOUT:
        return "timeout";
    case BW_EUNAVAILABLE:
        return "unavailable";
    case BW_ENOMEM:
        return "no memory";
    case BW_ENOSPACE:
        return "no space";
    case BW_ECORRUPT:
        return "corrupt";
    case BW_EIO:
        return "i/o";
    case BW_EINTERNAL:
        return "internal";
    }
    return "unknown";
}

void bw_require_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "bailiwick: promise broken: %s (%s:%d)\n", what, file, line);
    abort();
}
