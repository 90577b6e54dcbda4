/* ln(x) = e·ln 2 + ln m, where x = m·2^e and m lies between √½ and √2.
 *
 * With f = m − 1 (exact), s = f/(2 + f) and z = s²:
 *   ln m = 2·atanh(s) = 2s + s·R,  R = 2·(z/3 + z²/5 + z³/7 + …)
 * and, since 2s = f − s·f,  ln m = f − s·(f − R): what is rounded is small beside f.
 * z is at most 0.0295, so that the first term left out, 2·z^11/23, is below 2^-59.
 * ln 2 is a sum of two: e times the first, of 32 bits, is exact.
 *
 * Plain operations in a fixed order, and the build allows no contraction of them
 * (-ffp-contract=off): IEEE 754 leaves no choice. */
#include "ln.h"
#include "base.h"

#include <float.h>

static const double LN2_HIGH = 0x1.62e42feep-1, LN2_LOW = 0x1.a39ef35793c76p-33;

double bw_ln(double x)
{
    assert(x > 0 && x <= DBL_MAX);
    int64_t e = 0;
    if (x < DBL_MIN) { /* subnormal */
        x *= 0x1p54;
        e = -54;
    }
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    /* By how many doublings x is above √½ = 0x1.6a09e667f3bcdp-1. */
    const uint64_t half_root = 0x3fe6a09e667f3bcd;
    const int64_t up = (int64_t)(bits - half_root) >> 52;
    e += up;
    bits -= (uint64_t)up << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    const double f = m - 1, s = f / (2 + f), z = s * s;
    double r = 0;
    for (int k = 21; k >= 3; k -= 2)
        r = z * (r + 2.0 / k);
    const double n = (double)e;
    return n * LN2_HIGH - ((s * (f - r) - n * LN2_LOW) - f);
}
