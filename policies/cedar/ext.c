/* The extension functions as one table: name, style, arguments, and the call. */
#include "value.h"

typedef struct fn_row {
    const char *name;
    bool method;
    uint8_t nargs; /* receiver included */
    bw_cedar__kind arg[2], result;
} fn_row;

#define STR BW_CEDAR__STRING
#define DEC BW_CEDAR__DECIMAL
#define IPA BW_CEDAR__IP
#define DAT BW_CEDAR__DATETIME
#define DUR BW_CEDAR__DURATION
#define BOO BW_CEDAR__BOOL
#define LON BW_CEDAR__LONG
static const fn_row table[BW_CEDAR__FN_COUNT] = {
    [BW_CEDAR__FN_IP] = {"ip", false, 1, {STR, STR}, IPA},
    [BW_CEDAR__FN_DECIMAL] = {"decimal", false, 1, {STR, STR}, DEC},
    [BW_CEDAR__FN_DATETIME] = {"datetime", false, 1, {STR, STR}, DAT},
    [BW_CEDAR__FN_DURATION] = {"duration", false, 1, {STR, STR}, DUR},
    [BW_CEDAR__FN_LESS_THAN] = {"lessThan", true, 2, {DEC, DEC}, BOO},
    [BW_CEDAR__FN_LESS_THAN_OR_EQUAL] = {"lessThanOrEqual", true, 2, {DEC, DEC}, BOO},
    [BW_CEDAR__FN_GREATER_THAN] = {"greaterThan", true, 2, {DEC, DEC}, BOO},
    [BW_CEDAR__FN_GREATER_THAN_OR_EQUAL] =
        {"greaterThanOrEqual", true, 2, {DEC, DEC}, BOO},
    [BW_CEDAR__FN_IS_IPV4] = {"isIpv4", true, 1, {IPA, IPA}, BOO},
    [BW_CEDAR__FN_IS_IPV6] = {"isIpv6", true, 1, {IPA, IPA}, BOO},
    [BW_CEDAR__FN_IS_LOOPBACK] = {"isLoopback", true, 1, {IPA, IPA}, BOO},
    [BW_CEDAR__FN_IS_MULTICAST] = {"isMulticast", true, 1, {IPA, IPA}, BOO},
    [BW_CEDAR__FN_IS_IN_RANGE] = {"isInRange", true, 2, {IPA, IPA}, BOO},
    [BW_CEDAR__FN_OFFSET] = {"offset", true, 2, {DAT, DUR}, DAT},
    [BW_CEDAR__FN_DURATION_SINCE] = {"durationSince", true, 2, {DAT, DAT}, DUR},
    [BW_CEDAR__FN_TO_DATE] = {"toDate", true, 1, {DAT, DAT}, DAT},
    [BW_CEDAR__FN_TO_TIME] = {"toTime", true, 1, {DAT, DAT}, DUR},
    [BW_CEDAR__FN_TO_MILLISECONDS] = {"toMilliseconds", true, 1, {DUR, DUR}, LON},
    [BW_CEDAR__FN_TO_SECONDS] = {"toSeconds", true, 1, {DUR, DUR}, LON},
    [BW_CEDAR__FN_TO_MINUTES] = {"toMinutes", true, 1, {DUR, DUR}, LON},
    [BW_CEDAR__FN_TO_HOURS] = {"toHours", true, 1, {DUR, DUR}, LON},
    [BW_CEDAR__FN_TO_DAYS] = {"toDays", true, 1, {DUR, DUR}, LON},
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

uint32_t bw_cedar__fn_types(bw_cedar__fn fn, const bw_cedar__kind **args,
                            bw_cedar__kind *result)
{
    *args = table[fn].arg;
    *result = table[fn].result;
    return table[fn].nargs;
}

static const char *construct(bw_ctx *ctx, bw_cedar__fn fn, bw_str text,
                             bw_cedar_value *out, bool *memory)
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

static bool compare(bw_cedar__fn fn, int64_t a, int64_t b)
{
    switch (fn) {
    case BW_CEDAR__FN_LESS_THAN:
        return a < b;
    case BW_CEDAR__FN_LESS_THAN_OR_EQUAL:
        return a <= b;
    case BW_CEDAR__FN_GREATER_THAN:
        return a > b;
    default:
        return a >= b;
    }
}

static bool ask_ip(bw_cedar__fn fn, const bw_cedar__ip *ip, const bw_cedar__ip *range)
{
    switch (fn) {
    case BW_CEDAR__FN_IS_IPV4:
        return !ip->v6;
    case BW_CEDAR__FN_IS_IPV6:
        return ip->v6;
    case BW_CEDAR__FN_IS_LOOPBACK:
        return bw_cedar__ip_loopback(ip);
    case BW_CEDAR__FN_IS_MULTICAST:
        return bw_cedar__ip_multicast(ip);
    default:
        return bw_cedar__ip_in_range(ip, range);
    }
}

static const char *ask_datetime(bw_cedar__fn fn, int64_t a, int64_t b,
                                bw_cedar_value *out)
{
    int64_t r = 0;
    bool over = false;
    bw_cedar__kind kind = BW_CEDAR__DATETIME;
    switch (fn) {
    case BW_CEDAR__FN_OFFSET:
        over = __builtin_add_overflow(a, b, &r);
        break;
    case BW_CEDAR__FN_DURATION_SINCE:
        over = __builtin_sub_overflow(a, b, &r);
        kind = BW_CEDAR__DURATION;
        break;
    case BW_CEDAR__FN_TO_DATE:
        over = !bw_cedar__datetime_to_date(a, &r);
        break;
    default:
        r = bw_cedar__datetime_to_time(a);
        kind = BW_CEDAR__DURATION;
    }
    *out = bw_cedar__int(kind, r);
    return over ? "overflow of a datetime or duration" : NULL;
}

static int64_t unit_ms(bw_cedar__fn fn)
{
    switch (fn) {
    case BW_CEDAR__FN_TO_MILLISECONDS:
        return 1;
    case BW_CEDAR__FN_TO_SECONDS:
        return 1000;
    case BW_CEDAR__FN_TO_MINUTES:
        return 60000;
    case BW_CEDAR__FN_TO_HOURS:
        return 3600000;
    default:
        return 86400000;
    }
}

const char *bw_cedar__fn_call(bw_ctx *ctx, bw_cedar__fn fn, const bw_cedar_value *args,
                              uint32_t n, bw_cedar_value *out, bool *memory)
{
    const fn_row *row = &table[fn];
    if (n != row->nargs)
        return "wrong number of arguments to an extension function";
    for (uint32_t i = 0; i < n; i++)
        if (args[i].kind != row->arg[i])
            return "wrong type of argument to an extension function";
    if (!row->method)
        return construct(ctx, fn, bw_cedar__text(&args[0]), out, memory);
    const bw_cedar_value *a = &args[0], *b = n > 1 ? &args[1] : a;
    switch (row->arg[0]) {
    case BW_CEDAR__DECIMAL:
        *out = bw_cedar__bool(compare(fn, a->u.integer, b->u.integer));
        return NULL;
    case BW_CEDAR__IP:
        *out = bw_cedar__bool(ask_ip(fn, a->u.ip, b->u.ip));
        return NULL;
    case BW_CEDAR__DATETIME:
        return ask_datetime(fn, a->u.integer, b->u.integer, out);
    default: /* toX truncates toward zero; from the unit before or from ms is the same
              */
        *out = bw_cedar__int(BW_CEDAR__LONG, a->u.integer / unit_ms(fn));
        return NULL;
    }
}
