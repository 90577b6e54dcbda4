/* ipaddr: an IPv4 or IPv6 address with a prefix length (absent = the whole address).
 * Host bits below the prefix are kept: they count for equality, not for ranges. */
#include "value.h"

enum { IP_TEXT_MAX = 43 }; /* a full IPv6 address and "/128" */

static bool prefix_parse(bw_str s, unsigned max, uint8_t *out)
{
    if (s.len == 0 || s.len > 3 || (s.len > 1 && s.ptr[0] == '0'))
        return false;
    unsigned v = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        v = v * 10 + (unsigned)(s.ptr[i] - '0');
    }
    *out = (uint8_t)v;
    return v <= max;
}

static bool v4_parse(bw_str s, uint8_t *addr)
{
    size_t i = 0;
    for (int octet = 0; octet < 4; octet++) {
        if (octet > 0 && (i >= s.len || s.ptr[i++] != '.'))
            return false;
        size_t start = i;
        unsigned v = 0;
        for (; i < s.len && i - start < 3 && s.ptr[i] >= '0' && s.ptr[i] <= '9'; i++)
            v = v * 10 + (unsigned)(s.ptr[i] - '0');
        if (i == start || v > 255 || (i - start > 1 && s.ptr[start] == '0'))
            return false;
        addr[octet] = (uint8_t)v;
    }
    return i == s.len;
}

/* One group of 1 to 4 hexadecimal digits at *i. */
static bool group_parse(bw_str s, size_t *i, unsigned *out)
{
    size_t start = *i;
    unsigned v = 0;
    for (; *i < s.len && *i - start < 4; ++*i) {
        char c = s.ptr[*i];
        if (c >= '0' && c <= '9')
            v = v * 16 + (unsigned)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            v = v * 16 + (unsigned)((c | 0x20) - 'a') + 10;
        else
            break;
    }
    *out = v;
    return *i > start;
}

static bool v6_parse(bw_str s, uint8_t *addr)
{
    unsigned groups[8];
    int n = 0, gap = -1;
    size_t i = 0;
    while (i < s.len) {
        if (s.ptr[i] == ':') {
            bool twice = i + 1 < s.len && s.ptr[i + 1] == ':';
            if (twice && gap < 0) {
                gap = n;
                i += 2;
                if (i == s.len)
                    break;
            } else if (!twice && n > 0 && gap != n) {
                i++;
            } else {
                return false;
            }
        } else if (n > 0) {
            return false; /* groups must be parted */
        }
        if (n == 8 || !group_parse(s, &i, &groups[n]))
            return false;
        n++;
    }
    if (gap < 0 ? n != 8 : n > 7)
        return false;
    int tail = gap < 0 ? 0 : n - gap;
    for (int g = 0; g < n; g++) {
        int at = gap >= 0 && g >= gap ? 8 - tail + (g - gap) : g;
        addr[2 * at] = (uint8_t)(groups[g] >> 8);
        addr[2 * at + 1] = (uint8_t)groups[g];
    }
    return true;
}

bool bw_cedar__ip_parse(bw_str s, bw_cedar__ip *out)
{
    if (s.len == 0 || s.len > IP_TEXT_MAX)
        return false;
    bw_cedar__ip ip = {0};
    const char *slash = memchr(s.ptr, '/', s.len);
    bw_str addr = {s.ptr, slash ? (size_t)(slash - s.ptr) : s.len};
    ip.v6 = memchr(addr.ptr, ':', addr.len) != NULL;
    if (!(ip.v6 ? v6_parse(addr, ip.addr) : v4_parse(addr, ip.addr)))
        return false;
    unsigned max = ip.v6 ? 128 : 32;
    ip.prefix = (uint8_t)max;
    if (slash &&
        !prefix_parse((bw_str){slash + 1, s.len - addr.len - 1}, max, &ip.prefix))
        return false;
    *out = ip;
    return true;
}

bool bw_cedar__ip_in_range(const bw_cedar__ip *a, const bw_cedar__ip *range)
{
    if (a->v6 != range->v6 || a->prefix < range->prefix)
        return false;
    unsigned whole = range->prefix / 8, rest = range->prefix % 8;
    if (memcmp(a->addr, range->addr, whole) != 0)
        return false;
    return rest == 0 || ((a->addr[whole] ^ range->addr[whole]) >> (8 - rest)) == 0;
}

bool bw_cedar__ip_loopback(const bw_cedar__ip *a)
{
    static const bw_cedar__ip v4 = {{127}, 8, false}, v6 = {{[15] = 1}, 128, true};
    return bw_cedar__ip_in_range(a, a->v6 ? &v6 : &v4);
}

bool bw_cedar__ip_multicast(const bw_cedar__ip *a)
{
    static const bw_cedar__ip v4 = {{224}, 4, false}, v6 = {{0xff}, 8, true};
    return bw_cedar__ip_in_range(a, a->v6 ? &v6 : &v4);
}

int bw_cedar__ip_cmp(const bw_cedar__ip *a, const bw_cedar__ip *b)
{
    if (a->v6 != b->v6)
        return a->v6 ? 1 : -1;
    int c = memcmp(a->addr, b->addr, sizeof a->addr);
    return c != 0 ? c : (int)a->prefix - (int)b->prefix;
}
