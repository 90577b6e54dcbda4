/* Globs over names: `*` any bytes, `?` one character, `\` the next one as it is. */
#ifndef BW_GLOB_H
#define BW_GLOB_H
#include "../engine/base/base.h"

/* Not `[`, nothing left open at the end. */
bool bw_glob_valid(bw_str pattern);
/* The whole name. At most |pattern| · |name| steps: the C library's fnmatch may take
 * exponentially many, and a name comes from anybody. */
bool bw_glob_match(bw_str pattern, bw_str name);
#endif
