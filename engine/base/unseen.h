/* Characters of UTF-8 text that a reader does not see and a terminal may obey. */
#ifndef BW_UNSEEN_H
#define BW_UNSEEN_H
#include "base.h"

/* How many bytes such a character takes at p, of which n > 0 are there; 0 = it is none:
 * controls of ASCII and Latin 1, zero width, line and paragraph ends, turns of direction.
 * The text is valid UTF-8. */
size_t bw_utf8_unseen(const char *p, size_t n);
#endif
