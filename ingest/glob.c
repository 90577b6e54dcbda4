/* Globs (glob.h). One place to go back to, the last `*`, is enough: what an earlier one
 * could take more of, the later one can take as well. */
#include "glob.h"

static size_t character(bw_str s, size_t at) /* bytes of the UTF-8 character there */
{
    size_t n = 1;
    while (at + n < s.len && ((unsigned char)s.ptr[at + n] & 0xC0) == 0x80)
        n++;
    return n;
}

bool bw_glob_valid(bw_str p)
{
    for (size_t i = 0; i < p.len; i++) {
        if (p.ptr[i] == '[')
            return false;
        if (p.ptr[i] == '\\' && ++i == p.len)
            return false;
    }
    return true;
}

/* Takes what the pattern's next sign wants of the name; false when it is not there. */
static bool step(bw_str p, size_t *i, bw_str s, size_t *j)
{
    if (*i == p.len || *j == s.len)
        return false;
    if (p.ptr[*i] == '?') {
        *i += 1;
        *j += character(s, *j);
        return true;
    }
    size_t literal = *i + (p.ptr[*i] == '\\' && *i + 1 < p.len);
    if (p.ptr[literal] != s.ptr[*j])
        return false;
    *i = literal + 1;
    *j += 1;
    return true;
}

bool bw_glob_match(bw_str p, bw_str s)
{
    size_t i = 0, j = 0, star = SIZE_MAX, taken = 0;
    while (j < s.len || i < p.len) {
        if (i < p.len && p.ptr[i] == '*') {
            star = ++i;
            taken = j;
        } else if (!step(p, &i, s, &j)) {
            if (star == SIZE_MAX || taken == s.len)
                return false;
            j = ++taken;
            i = star;
        }
    }
    return true;
}
