/* RFC 3339 times to and from Unix nanoseconds, in the proleptic Gregorian calendar.
 *
 * Accepted besides RFC 3339: a date alone (midnight UTC), no seconds, no zone (UTC), a
 * space or lower-case letters for T and Z. Digits past nanoseconds are cut. A leap
 * second (:60) counts as the first instant of the next minute. Left out: week dates,
 * ordinal dates, commas, zones by name. */
#include "base.h"

/* Days from 1970-01-01; the year counts from March so that a leap day ends it. */
static int64_t days_from_civil(int64_t y, int64_t m, int64_t d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t yoe = y - era * 400;
    int64_t doy = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
    int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

static void civil_from_days(int64_t z, int64_t *y, int *m, int *d)
{
    z += 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    *d = (int)(doy - (153 * mp + 2) / 5 + 1);
    *m = (int)(mp < 10 ? mp + 3 : mp - 9);
    *y = yoe + era * 400 + (*m <= 2);
}

/* Exactly n digits at *p. */
static bool digits(const char **p, const char *end, int n, int *out)
{
    int v = 0;
    for (int i = 0; i < n; i++) {
        if (*p == end || **p < '0' || **p > '9')
            return false;
        v = v * 10 + (*(*p)++ - '0');
    }
    *out = v;
    return true;
}

static bool skip(const char **p, const char *end, char c)
{
    if (*p == end || **p != c)
        return false;
    ++*p;
    return true;
}

static bool parse_date(const char **p, const char *end, int64_t *days)
{
    static const int length[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int y, m, d;
    if (!digits(p, end, 4, &y) || !skip(p, end, '-') || !digits(p, end, 2, &m) ||
        !skip(p, end, '-') || !digits(p, end, 2, &d))
        return false;
    bool leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    if (m < 1 || m > 12 || d < 1 || d > length[m - 1] + (m == 2 && leap))
        return false;
    *days = days_from_civil(y, m, d);
    return true;
}

static bool parse_fraction(const char **p, const char *end, int *ns)
{
    int seen = 0;
    for (; *p != end && **p >= '0' && **p <= '9'; ++*p, ++seen)
        if (seen < 9)
            *ns = *ns * 10 + (**p - '0');
    for (int i = seen; i < 9; i++)
        *ns *= 10;
    return seen > 0;
}

static bool parse_zone(const char **p, const char *end, int *offset_s)
{
    if (*p == end) /* none said: UTC */
        return true;
    char c = *(*p)++;
    if (c == 'Z' || c == 'z')
        return true;
    int h, m;
    if ((c != '+' && c != '-') || !digits(p, end, 2, &h) || !skip(p, end, ':') ||
        !digits(p, end, 2, &m) || h > 23 || m > 59)
        return false;
    *offset_s = (c == '-' ? -1 : 1) * (h * 3600 + m * 60);
    return true;
}

bool bw_time_parse(bw_str s, int64_t *out)
{
    if (!s.ptr)
        return false;
    const char *p = s.ptr, *end = p + s.len;
    int64_t days;
    int h = 0, m = 0, sec = 0, ns = 0, offset = 0;
    if (!parse_date(&p, end, &days))
        return false;
    if (p != end) {
        char t = *p++;
        if ((t != 'T' && t != 't' && t != ' ') || !digits(&p, end, 2, &h) ||
            !skip(&p, end, ':') || !digits(&p, end, 2, &m))
            return false;
        if (skip(&p, end, ':')) {
            if (!digits(&p, end, 2, &sec))
                return false;
            if (skip(&p, end, '.') && !parse_fraction(&p, end, &ns))
                return false;
        }
        if (h > 23 || m > 59 || sec > 60 || !parse_zone(&p, end, &offset) || p != end)
            return false;
    }
    int64_t seconds = days * 86400 + h * 3600 + m * 60 + sec - offset, t;
    if (seconds < 0 && ns) { /* so that the product below does not overflow too early */
        seconds += 1;
        ns -= 1000000000;
    }
    if (__builtin_mul_overflow(seconds, 1000000000, &t) ||
        __builtin_add_overflow(t, ns, &t))
        return false;
    *out = t;
    return true;
}

static int put_digits(char *out, int n, int v)
{
    for (int i = n; i-- > 0; v /= 10)
        out[i] = (char)('0' + v % 10);
    return n;
}

void bw_time_format(int64_t ns, char out[40])
{
    int64_t seconds = ns / 1000000000, fraction = ns % 1000000000;
    if (fraction < 0) {
        fraction += 1000000000;
        seconds -= 1;
    }
    int64_t days = seconds / 86400, rest = seconds % 86400;
    if (rest < 0) {
        rest += 86400;
        days -= 1;
    }
    int64_t y;
    int m, d;
    civil_from_days(days, &y, &m, &d);
    /* By hand: this is part of every event of the log. Years are 1677 to 2262. */
    int n = put_digits(out, 4, (int)y);
    out[n++] = '-';
    n += put_digits(out + n, 2, m);
    out[n++] = '-';
    n += put_digits(out + n, 2, d);
    out[n++] = 'T';
    n += put_digits(out + n, 2, (int)(rest / 3600));
    out[n++] = ':';
    n += put_digits(out + n, 2, (int)(rest / 60 % 60));
    out[n++] = ':';
    n += put_digits(out + n, 2, (int)(rest % 60));
    if (fraction) {
        out[n++] = '.';
        n += put_digits(out + n, 9, (int)fraction);
        while (out[n - 1] == '0')
            n--;
    }
    out[n] = 'Z';
    out[n + 1] = 0;
}
