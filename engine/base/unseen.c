/* See unseen.h. Unicode 15, general categories Cc, Zl and Zp, and of Cf what lies in
 * General Punctuation: U+200B-F, U+2028-E, U+2060-F. Dashes, quotes and spaces of that
 * block are seen. */
#include "unseen.h"

size_t bw_utf8_unseen(const char *p, size_t n)
{
    const unsigned char *c = (const unsigned char *)p;
    if (c[0] < ' ' || c[0] == 0x7F)
        return 1;
    if (c[0] == 0xC2 && n > 1 && c[1] < 0xA0)
        return 2;
    if (c[0] != 0xE2 || n < 3)
        return 0;
    bool unseen = c[1] == 0x80
                      ? (c[2] >= 0x8B && c[2] <= 0x8F) || (c[2] >= 0xA8 && c[2] <= 0xAE)
                      : c[1] == 0x81 && c[2] >= 0xA0 && c[2] <= 0xAF;
    return unseen ? 3 : 0;
}
