/* The extension functions as one table: name, style, arguments, and the call. */
#include "value.h"

typedef struct fn_row {
    const char *name;
    bool method;
    uint8_t nargs;               /* receiver included */
    bw_cedar__kind arg[2];
} fn_row;

#define STR BW_CEDAR__STRING
#define DEC BW_CEDAR__DECIMAL
#define IPA BW_CEDAR__IP
#define DAT BW_CEDAR__DATETIME
#define DUR BW_CEDAR__DURATION
static const fn_row table[BW_CEDAR__FN_COUNT] = {
    [BW_CEDAR__FN_IP] = {"ip", false, 1, {STR, STR}},
    [BW_CEDAR__FN_DECIMAL] = {"decimal", false, 1, {STR, STR}},
    [BW_CEDAR__FN_DATETIME] = {"datetime", false, 1, {STR, STR}},
    [BW_CEDAR__FN_DURATION] = {"duration", false, 1, {STR, STR}},
    [BW_CEDAR__FN_LESS_THAN] = {"lessThan", true, 2, {DEC, DEC}},
    [BW_CEDAR__FN_LESS_THAN_OR_EQUAL] = {"lessThanOrEqual", true, 2, {DEC, DEC}},
    [BW_CEDAR__FN_GREATER_THAN] = {"greaterThan", true, 2, {DEC, DEC}},
    [BW_CEDAR__FN_GREATER_THAN_OR_EQUAL] = {"greaterThanOrEqual", true, 2, {DEC, DEC}},
    [BW_CEDAR__FN_IS_IPV4] = {"isIpv4", true, 1, {IPA, IPA}},
    [BW_CEDAR__FN_IS_IPV6] = {"isIpv6", true, 1, {IPA, IPA}},
    [BW_CEDAR__FN_IS_LOOPBACK] = {"isLoopback", true, 1, {IPA, IPA}},
    [BW_CEDAR__FN_IS_MULTICAST] = {"isMulticast", true, 1, {IPA, IPA}},
    [BW_CEDAR__FN_IS_IN_RANGE] = {"isInRange", true, 2, {IPA, IPA}},
    [BW_CEDAR__FN_OFFSET] = {"offset", true, 2, {DAT, DUR}},
    [BW_CEDAR__FN_DURATION_SINCE] = {"durationSince", true, 2, {DAT, DAT}},
    [BW_CEDAR__FN_TO_DATE] = {"toDate", true, 1, {DAT, DAT}},
    [BW_CEDAR__FN_TO_TIME] = {"toTime", true, 1, {DAT, DAT}},
    [BW_CEDAR__FN_TO_MILLISECONDS] = {"toMilliseconds", true, 1, {DUR, DUR}},
    [BW_CEDAR__FN_TO_SECONDS] = {"toSeconds", true, 1, {DUR, DUR}},
    [BW_CEDAR__FN_TO_MINUTES] = {"toMinutes", true, 1, {DUR, DUR}},
    [BW_CEDAR__FN_TO_HOURS] = {"toHours", true, 1, {DUR, DUR}},
    [BW_CEDAR__FN_TO_DAYS] = {"toDays", true, 1, {DUR, DUR}},
};

bool bw_cedar__fn_find(bw_str name, bool method, bw_cedar__fn *out)
{
    for (int i = 0; i < BW_CEDAR__FN_COUNT; i++)
        if (table[i].method == method && bw_str_eq(name, bw_str_c(table[i].name))) {
            *out = (bw_cedar__fn)i;
            return true;
        }
    return false;
}

bool bw_cedar__fn_any(bw_str name, bw_cedar__fn *out)
{
    return bw_cedar__fn_find(name, false, out) || bw_cedar__fn_find(name, true, out);
}

bw_str bw_cedar__fn_name(bw_cedar__fn fn)
{
    return bw_str_c(table[fn].name);
}

bool bw_cedar__fn_constructor(bw_cedar__fn fn)
{
    return !table[fn].method;
}

static const char *construct(bw_ctx *ctx, bw_cedar__fn fn, bw_str text, bw_cedar_value *out,
                             bool *memory)
{
    int64_t v;
    switch (fn) {
    case BW_CEDAR__FN_DECIMAL:
        if (!bw_cedar__decimal_parse(text, &v))
            return "not a decimal";
        *out = bw_cedar__int(BW_CEDAR__DECIMAL, v);
        return NULL;
    case BW_CEDAR__FN_DATETIME:
        if (!bw_cedar__datetime_parse(text, &v))
            return "not a datetime";
        *out = bw_cedar__int(BW_CEDAR__DATETIME, v);
        return NULL;
    case BW_CEDAR__FN_DURATION:
        if (!bw_cedar__duration_parse(text, &v))
            return "not a duration";
        *out = bw_cedar__int(BW_CEDAR__DURATION, v);
        return NULL;
    default:
        break;
    }
    bw_cedar__ip ip;
    if (!bw_cedar__ip_parse(text, &ip))
        return "not an IP address or range";
    bw_cedar__ip *copy = bw_arena_alloc(ctx, sizeof *copy);
    if (!copy) {
        *memory = true;
        return "out of memory";
    }
    *copy = ip;
    *out = (bw_cedar_value){.kind = BW_CEDAR__IP, .u.ip = copy};
    return NULL;
}

const char *bw_cedar__fn_call(bw_ctx *ctx, bw_cedar__fn fn, const bw_cedar_value *args, uint32_t n,
                              bw_cedar_value *out, bool *memory)
{
    const fn_row *row = &table[fn];
    if (n != row->nargs)
        return "wrong number of arguments to an extension function";
    for (uint32_t i = 0; i < n; i++)
        if (args[i].kind != row->arg[i])
            return "wrong type of argument to an extension function";
    if (!row->method)
        return construct(ctx, fn, bw_cedar__text(&args[0]), out, memory);
    const bw_cedar__ip *ip = args[0].u.ip;
    int64_t a = args[0].u.integer, b = n > 1 ? args[1].u.integer : 0, r = 0;
    switch (fn) {
    case BW_CEDAR__FN_LESS_THAN: *out = bw_cedar__bool(a < b); break;
    case BW_CEDAR__FN_LESS_THAN_OR_EQUAL: *out = bw_cedar__bool(a <= b); break;
    case BW_CEDAR__FN_GREATER_THAN: *out = bw_cedar__bool(a > b); break;
    case BW_CEDAR__FN_GREATER_THAN_OR_EQUAL: *out = bw_cedar__bool(a >= b); break;
    case BW_CEDAR__FN_IS_IPV4: *out = bw_cedar__bool(!ip->v6); break;
    case BW_CEDAR__FN_IS_IPV6: *out = bw_cedar__bool(ip->v6); break;
    case BW_CEDAR__FN_IS_LOOPBACK: *out = bw_cedar__bool(bw_cedar__ip_loopback(ip)); break;
    case BW_CEDAR__FN_IS_MULTICAST: *out = bw_cedar__bool(bw_cedar__ip_multicast(ip)); break;
    case BW_CEDAR__FN_IS_IN_RANGE:
        *out = bw_cedar__bool(bw_cedar__ip_in_range(ip, args[1].u.ip));
        break;
    case BW_CEDAR__FN_OFFSET:
        if (__builtin_add_overflow(a, b, &r))
            return "overflow of a datetime";
        *out = bw_cedar__int(BW_CEDAR__DATETIME, r);
        break;
    case BW_CEDAR__FN_DURATION_SINCE:
        if (__builtin_sub_overflow(a, b, &r))
            return "overflow of a duration";
        *out = bw_cedar__int(BW_CEDAR__DURATION, r);
        break;
    case BW_CEDAR__FN_TO_DATE:
        if (!bw_cedar__datetime_to_date(a, &r))
            return "overflow of a datetime";
        *out = bw_cedar__int(BW_CEDAR__DATETIME, r);
        break;
    case BW_CEDAR__FN_TO_TIME:
        *out = bw_cedar__int(BW_CEDAR__DURATION, bw_cedar__datetime_to_time(a));
        break;
    case BW_CEDAR__FN_TO_MILLISECONDS: *out = bw_cedar__int(BW_CEDAR__LONG, a); break;
    case BW_CEDAR__FN_TO_SECONDS: *out = bw_cedar__int(BW_CEDAR__LONG, a / 1000); break;
    case BW_CEDAR__FN_TO_MINUTES: *out = bw_cedar__int(BW_CEDAR__LONG, a / 60000); break;
    case BW_CEDAR__FN_TO_HOURS: *out = bw_cedar__int(BW_CEDAR__LONG, a / 3600000); break;
    case BW_CEDAR__FN_TO_DAYS: *out = bw_cedar__int(BW_CEDAR__LONG, a / 86400000); break;
    default: return "unknown extension function";
    }
    return NULL;
}
