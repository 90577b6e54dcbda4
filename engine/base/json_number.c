/* JSON numbers: one scan for the grammar, exact integers, correctly rounded doubles,
 * and the fast road from an array's text to f32 without a node a number.
 *
 * Conversion has three steps. (1) A significand below 2^53 and a power of ten up to
 * 10^22 are both exact doubles, so one division or product is rounded once (Clinger
 * 1990, "How to read floating point numbers accurately"). (2) Where long double is the
 * x87's, the same with 64 bits and 10^27, then a second rounding to 53 bits: that one
 * is wrong only if the first landed on a midpoint of two doubles, which shows in its
 * low 11 bits, so such cases go on. Python writes 17 digits for an f32 that was
 * widened, which is this step's case. (3) strtod in the "C" locale. */
#include "json_number.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

typedef struct number {
    uint64_t significand; /* the first 19 significant digits */
    int32_t exp10;        /* value = significand * 10^exp10 unless cut */
    uint32_t digits;      /* significant digits seen */
    bool negative, integer;
    bool cut; /* digits beyond 19 were left out of the significand */
} number;

enum { SIGNIFICAND_DIGITS = 19, EXPONENT_CLAMP = 100000 };

static inline bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static const char *scan_exponent(const char *p, const char *end, number *n)
{
    bool minus = false;
    if (p < end && (*p == '+' || *p == '-'))
        minus = *p++ == '-';
    if (p == end || !is_digit(*p))
        return NULL;
    int32_t e = 0;
    for (; p < end && is_digit(*p); p++)
        if (e < EXPONENT_CLAMP)
            e = e * 10 + (*p - '0');
    n->exp10 += minus ? -e : e;
    n->integer = false;
    return p;
}

/* How many of the eight bytes at p are digits before the first other byte, and their
 * value: no loop, so nothing to mispredict at a number's end. */
static inline unsigned digit_run(const char *p, uint64_t *value)
{
    uint64_t w;
    memcpy(&w, p, 8);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    uint64_t d = w ^ 0x3030303030303030u; /* digits become 0 … 9 */
    /* Carries of bytes that are no digits only reach later bytes. */
    uint64_t other = (d | (d + 0x7676767676767676u)) & 0x8080808080808080u;
    unsigned n = other ? (unsigned)__builtin_ctzll(other) / 8 : 8;
    if (n == 0)
        return 0;
    d <<= 64 - 8 * n;      /* zeros before the digits */
    d = d * 10 + (d >> 8); /* pairs, in every second byte */
    uint64_t even = d & 0x000000FF000000FFu, odd = d >> 16 & 0x000000FF000000FFu;
    *value = (even * (100 + (1000000ull << 32)) + odd * (1 + (10000ull << 32))) >> 32 &
             0xFFFFFFFFu;
    return n;
}

static inline const char *scan_fraction(const char *p, const char *end, number *n)
{
    static const uint32_t pow10[] = {1,      10,      100,      1000,     10000,
                                     100000, 1000000, 10000000, 100000000};
    if (p == end || !is_digit(*p))
        return NULL;
    while (end - p >= 8) {
        uint64_t v;
        unsigned run = digit_run(p, &v);
        if (run == 0)
            return p;
        if (n->digits + run > SIGNIFICAND_DIGITS)
            break;
        /* Leading zeros may be counted as digits here: digits is an upper bound then,
         * and the loop below only turns to the cut road a little early. */
        n->significand = n->significand * pow10[run] + v;
        if (n->significand)
            n->digits += run;
        n->exp10 -= (int32_t)run;
        p += run;
    }
    for (; p < end && is_digit(*p); p++) {
        if (n->digits < SIGNIFICAND_DIGITS) {
            n->significand = n->significand * 10 + (uint64_t)(*p - '0');
            n->digits += n->significand != 0;
            n->exp10--;
        } else {
            n->cut = true;
        }
    }
    return p;
}

/* The position behind the number at p, NULL if there is none. */
static inline const char *scan(const char *p, const char *end, number *n)
{
    *n = (number){.integer = true};
    if (p < end && *p == '-') {
        n->negative = true;
        p++;
    }
    if (p == end || !is_digit(*p))
        return NULL;
    if (*p == '0') {
        p++;
        if (p < end && is_digit(*p))
            return NULL;
    } else {
        for (; p < end && is_digit(*p); p++) {
            if (n->digits < SIGNIFICAND_DIGITS)
                n->significand = n->significand * 10 + (uint64_t)(*p - '0');
            else
                n->cut = true;
            n->digits++;
        }
    }
    if (p < end && *p == '.') {
        n->integer = false;
        p = scan_fraction(p + 1, end, n);
        if (!p)
            return NULL;
    }
    if (p < end && (*p | 0x20) == 'e')
        p = scan_exponent(p + 1, end, n);
    return p;
}

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void c_locale_make(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* NaN when the text is too long. */
static double slow_real(const char *text, size_t len)
{
    char copy[BW_JSON_NUMBER_TEXT_MAX + 1];
    if (len > BW_JSON_NUMBER_TEXT_MAX)
        return NAN;
    memcpy(copy, text, len);
    copy[len] = 0;
    pthread_once(&c_locale_once, c_locale_make);
    return c_locale ? strtod_l(copy, NULL, c_locale) : strtod(copy, NULL);
}

static const double pow10_exact[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

#if LDBL_MANT_DIG == 64 && defined(__x86_64__)
static const long double pow10_x87[] = {
    1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,
    1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L,
    1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

static bool x87_real(const number *n, double *out)
{
    if (n->exp10 < -27 || n->exp10 > 27)
        return false;
    long double v = (long double)n->significand;
    v = n->exp10 < 0 ? v / pow10_x87[-n->exp10] : v * pow10_x87[n->exp10];
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits); /* the significand comes first */
    if ((bits & 0x7FF) == 0x400)
        return false;
    *out = (double)v;
    return true;
}
#else
static bool x87_real(const number *n, double *out)
{
    (void)n;
    (void)out;
    return false;
}
#endif

/* The nearest double; infinite or NaN when it is none that we take. */
static inline double real(const number *n, const char *text, size_t len)
{
    double d;
    if (!n->cut && n->significand <= (uint64_t)1 << 53 && n->exp10 >= -22 &&
        n->exp10 <= 22) {
        d = (double)n->significand;
        d = n->exp10 < 0 ? d / pow10_exact[-n->exp10] : d * pow10_exact[n->exp10];
    } else if (n->cut || !x87_real(n, &d)) {
        return slow_real(text, len);
    }
    return n->negative ? -d : d;
}

/* The integer's magnitude when 64 bits hold it. */
static bool integer_magnitude(const number *n, const char *text, uint64_t *mag)
{
    *mag = n->significand;
    if (n->cut) {
        if (n->digits != SIGNIFICAND_DIGITS + 1)
            return false;
        uint64_t last = (uint64_t)(text[n->negative + SIGNIFICAND_DIGITS] - '0');
        if (__builtin_mul_overflow(*mag, 10, mag) ||
            __builtin_add_overflow(*mag, last, mag))
            return false;
    }
    return !n->negative || (*mag != 0 && *mag <= (uint64_t)1 << 63);
}

const char *bw_json__number(const char *p, const char *end, bw_json *out)
{
    number n;
    const char *q = scan(p, end, &n);
    if (!q)
        return NULL;
    uint64_t mag;
    if (n.integer && integer_magnitude(&n, p, &mag)) {
        out->is_int = true;
        out->negative = n.negative;
        out->mag = mag;
        out->real = n.negative ? -(double)mag : (double)mag;
        return q;
    }
    out->negative = n.negative;
    out->real = real(&n, p, (size_t)(q - p));
    return isfinite(out->real) ? q : NULL;
}

static inline const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

const char *bw_json__numbers(const char *p, const char *end, uint32_t *count)
{
    for (uint32_t n = 1;; n++) {
        number one;
        const char *q = scan(p, end, &one);
        if (!q)
            return NULL;
        /* Only a large exponent or very many digits can leave double's range. */
        if ((int64_t)one.exp10 + one.digits > 300 || one.cut)
            if (!isfinite(real(&one, p, (size_t)(q - p))))
                return NULL;
        p = skip_space(q, end);
        if (p == end)
            return NULL;
        if (*p == ']') {
            *count = n;
            return p + 1;
        }
        if (*p != ',')
            return NULL;
        p = skip_space(p + 1, end);
        if (p == end)
            return NULL;
    }
}

/* The next number of a checked array's text: sets its bounds, gives the place behind. */
static inline const char *next_number(const char *p, const char *end, number *n,
                                      const char **text)
{
    while (*p == ',' || *p == '[' || *p == ' ' || *p == '\n' || *p == '\r' ||
           *p == '\t')
        p++;
    *text = p;
    const char *q = scan(p, end, n);
    assert(q);
    return q;
}

static bw_status numbers_expected(bw_ctx *ctx, const bw_json *v)
{
    const char *at = bw_json_pointer(ctx, v);
    return at ? bw_fail_at(ctx, BW_EINVALID, at, "expected an array of numbers")
              : BW_ENOMEM;
}

bw_status bw_json_f32(bw_ctx *ctx, const bw_json *v, float *out)
{
    if (v->kind == BW_JSON_ARRAY && v->count == 0)
        return BW_OK;
    if (v->kind != BW_JSON_NUMBERS)
        return numbers_expected(ctx, v);
    const char *p = v->raw.ptr, *end = p + v->raw.len, *text;
    for (uint32_t i = 0; i < v->count; i++) {
        number n;
        p = next_number(p, end, &n, &text);
        float f = (float)real(&n, text, (size_t)(p - text));
        if (!isfinite(f)) {
            const char *at = bw_json_pointer(ctx, v);
            return at ? bw_fail_at(ctx, BW_EINVALID, at,
                                   "number %u is beyond single precision", i)
                      : BW_ENOMEM;
        }
        out[i] = f;
    }
    return BW_OK;
}

bw_status bw_json_u32(bw_ctx *ctx, const bw_json *v, uint32_t *out)
{
    if (v->kind == BW_JSON_ARRAY && v->count == 0)
        return BW_OK;
    if (v->kind != BW_JSON_NUMBERS)
        return numbers_expected(ctx, v);
    const char *p = v->raw.ptr, *end = p + v->raw.len, *text;
    for (uint32_t i = 0; i < v->count; i++) {
        number n;
        p = next_number(p, end, &n, &text);
        if (!n.integer || n.negative || n.cut || n.significand > UINT32_MAX) {
            const char *at = bw_json_pointer(ctx, v);
            return at ? bw_fail_at(ctx, BW_EINVALID, at,
                                   "number %u is no integer from 0 to 4294967295", i)
                      : BW_ENOMEM;
        }
        out[i] = (uint32_t)n.significand;
    }
    return BW_OK;
}

bw_status bw_json_elements(bw_ctx *ctx, const bw_json *array, const bw_json **first)
{
    if (array->kind != BW_JSON_NUMBERS) {
        *first = array->kind == BW_JSON_ARRAY ? array->child : NULL;
        return BW_OK;
    }
    bw_json *nodes = bw_arena_calloc(ctx, array->count, sizeof *nodes);
    if (!nodes)
        return BW_ENOMEM;
    const char *p = array->raw.ptr, *end = p + array->raw.len;
    for (uint32_t i = 0; i < array->count; i++) {
        while (*p == ',' || *p == '[' || *p == ' ' || *p == '\n' || *p == '\r' ||
               *p == '\t')
            p++;
        bw_json *v = &nodes[i];
        const char *q = bw_json__number(p, end, v);
        assert(q);
        v->kind = BW_JSON_NUMBER;
        v->raw = (bw_str){p, (size_t)(q - p)};
        v->parent = array;
        v->next = i + 1 < array->count ? v + 1 : NULL;
        p = q;
    }
    *first = nodes;
    return BW_OK;
}
