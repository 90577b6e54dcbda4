/* datetime and duration: milliseconds in 64 bits, since 1970 UTC and as such.
 * Text forms are exact (RFC 80 of the language): digit counts are fixed, dates are
 * real, there is no leap second, and an offset may push the instant out of years 0 to
 * 9999. */
#include "value.h"

#define MS_DAY INT64_C(86400000)

static bool digits(bw_str s, size_t at, size_t n, int *out)
{
    if (at + n > s.len)
        return false;
    int v = 0;
    for (size_t i = at; i < at + n; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        v = v * 10 + (s.ptr[i] - '0');
    }
    *out = v;
    return true;
}

static bool at_char(bw_str s, size_t at, char c)
{
    return at < s.len && s.ptr[at] == c;
}

static bool date_valid(int y, int m, int d)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (m < 1 || m > 12 || d < 1)
        return false;
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    return d <= days[m - 1] + (m == 2 && leap);
}

/* Days from 1970-01-01 in the proleptic Gregorian calendar; years start in March so
 * that the leap day comes last. */
static int64_t days_from_civil(int y, int m, int d)
{
    int64_t yy =
        (int64_t)y - (m <= 2) + 400; /* one cycle up: never negative for year 0 */
    int64_t era = yy / 400, yoe = yy % 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return (era - 1) * 146097 + doe - 719468;
}

/* "Z" or "±hhmm" at `at`, the last thing in s. */
static bool zone_parse(bw_str s, size_t at, int64_t *offset_ms)
{
    *offset_ms = 0;
    if (at_char(s, at, 'Z'))
        return at + 1 == s.len;
    int hh, mm;
    bool minus = at_char(s, at, '-');
    if ((!minus && !at_char(s, at, '+')) || s.len != at + 5 ||
        !digits(s, at + 1, 2, &hh) || !digits(s, at + 3, 2, &mm) || hh > 23 || mm > 59)
        return false;
    *offset_ms = (int64_t)(hh * 60 + mm) * 60000 * (minus ? -1 : 1);
    return true;
}

bool bw_cedar__datetime_parse(bw_str s, int64_t *ms)
{
    int y, mo, d, h, mi, sec, frac = 0;
    if (!digits(s, 0, 4, &y) || !at_char(s, 4, '-') || !digits(s, 5, 2, &mo) ||
        !at_char(s, 7, '-') || !digits(s, 8, 2, &d) || !date_valid(y, mo, d))
        return false;
    int64_t v = days_from_civil(y, mo, d) * MS_DAY;
    if (s.len == 10) {
        *ms = v;
        return true;
    }
    if (!at_char(s, 10, 'T') || !digits(s, 11, 2, &h) || !at_char(s, 13, ':') ||
        !digits(s, 14, 2, &mi) || !at_char(s, 16, ':') || !digits(s, 17, 2, &sec) ||
        h > 23 || mi > 59 || sec > 59)
        return false;
    size_t at = 19;
    if (at_char(s, at, '.')) {
        if (!digits(s, at + 1, 3, &frac))
            return false;
        at += 4;
    }
    int64_t offset;
    if (!zone_parse(s, at, &offset))
        return false;
    *ms = v + (int64_t)((h * 60 + mi) * 60 + sec) * 1000 + frac - offset;
    return true;
}

bool bw_cedar__datetime_to_date(int64_t ms, int64_t *out)
{
    return !__builtin_sub_overflow(ms, bw_cedar__datetime_to_time(ms), out);
}

int64_t bw_cedar__datetime_to_time(int64_t ms)
{
    int64_t t = ms % MS_DAY;
    return t < 0 ? t + MS_DAY : t;
}

/* Which unit begins at p, as an index into the order d h m s ms; its length in *len. */
static int unit_at(bw_str s, size_t at, size_t *len)
{
    *len = 1;
    if (at_char(s, at, 'm') && at_char(s, at + 1, 's')) {
        *len = 2;
        return 4;
    }
    static const char names[] = "dhms";
    const char *p = at < s.len && s.ptr[at] ? strchr(names, s.ptr[at]) : NULL;
    return p ? (int)(p - names) : -1;
}

bool bw_cedar__duration_parse(bw_str s, int64_t *ms)
{
    static const int64_t unit_ms[] = {MS_DAY, 3600000, 60000, 1000, 1};
    bool minus = at_char(s, 0, '-');
    size_t i = minus;
    int last = -1;
    int64_t total = 0;
    do {
        int64_t v = 0;
        size_t start = i, len;
        for (; i < s.len && s.ptr[i] >= '0' && s.ptr[i] <= '9'; i++)
            if (__builtin_mul_overflow(v, 10, &v) ||
                __builtin_add_overflow(v, minus ? '0' - s.ptr[i] : s.ptr[i] - '0', &v))
                return false;
        int unit = unit_at(s, i, &len);
        if (i == start || unit <= last ||
            __builtin_mul_overflow(v, unit_ms[unit], &v) ||
            __builtin_add_overflow(total, v, &total))
            return false;
        last = unit;
        i += len;
    } while (i < s.len);
    *ms = total;
    return true;
}
