/* decimal: "-?D+.D{1,4}", kept as a 64-bit count of ten-thousandths. */
#include "value.h"

bool bw_cedar__decimal_parse(bw_str s, int64_t *out)
{
    size_t i = 0;
    bool negative = s.len > 0 && s.ptr[0] == '-';
    if (negative)
        i++;
    size_t digits = 0, decimals = 0;
    int64_t v = 0; /* grows away from zero with the sign, so that -2^63 fits */
    bool point = false;
    for (; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '.' && !point && digits > 0) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9' || (point && decimals == 4))
            return false;
        if (point)
            decimals++;
        else
            digits++;
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, negative ? '0' - c : c - '0', &v))
            return false;
    }
    if (decimals == 0)
        return false;
    for (; decimals < 4; decimals++)
        if (__builtin_mul_overflow(v, 10, &v))
            return false;
    *out = v;
    return true;
}
