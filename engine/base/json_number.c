/* JSON numbers: one scan for the grammar, exact integers, correctly rounded doubles,
 * and the fast road from an array's text to f32 without a node a number.
 *
 * Conversion has three steps. (1) A significand below 2^53 and a power of ten up to
 * 10^22 are both exact doubles, so one division or product is rounded once (Clinger
 * 1990, "How to read floating point numbers accurately"). (2) Where long double is the
 * x87's, the same with 64 bits and 10^27, then a second rounding to 53 bits: that one
 * is wrong only if the first landed on a midpoint of two doubles, which shows in its
 * low 11 bits, so such cases go on. (3) strtod in the "C" locale.
 *
 * Arrays of numbers (vectors) have a road before these, taken while the array is read
 * for the first time, so that a vector's text is gone through once: f32_of multiplies
 * a 64-bit significand by a 64-bit power of ten and rounds to 24 bits at once, where the
 * 40 bits behind them show that rounding to double first would give the same. Python
 * writes 17 digits for an f32 that was widened: they lie close to an f32, so they pass. */
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
    *value = 0;
    if (n == 0)
        return 0;
    d <<= 64 - 8 * n;      /* zeros before the digits */
    d = d * 10 + (d >> 8); /* pairs, in every second byte */
    uint64_t even = d & 0x000000FF000000FFu, odd = d >> 16 & 0x000000FF000000FFu;
    *value = (even * (100 + (1000000ull << 32)) + odd * (1 + (10000ull << 32))) >> 32 &
             0xFFFFFFFFu;
    return n;
}

static const uint32_t pow10_run[] = {1,      10,      100,      1000,     10000,
                                     100000, 1000000, 10000000, 100000000};

static inline const char *scan_fraction(const char *p, const char *end, number *n)
{
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
        n->significand = n->significand * pow10_run[run] + v;
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

/* ---- arrays: text to f32 in one pass ---- */

enum { EXP10_MIN = -40, EXP10_MAX = 38 };

/* 10^e = p * 2^q with p in [2^63, 2^64) cut to an integer, q = floor(e log2(10)) - 63.
 * From e = 0 to 27 nothing is cut. */
static const uint64_t pow10_significand[EXP10_MAX - EXP10_MIN + 1] = {
    0x8B61313BBABCE2C6, 0xAE397D8AA96C1B77, 0xD9C7DCED53C72255, 0x881CEA14545C7575,
    0xAA242499697392D2, 0xD4AD2DBFC3D07787, 0x84EC3C97DA624AB4, 0xA6274BBDD0FADD61,
    0xCFB11EAD453994BA, 0x81CEB32C4B43FCF4, 0xA2425FF75E14FC31, 0xCAD2F7F5359A3B3E,
    0xFD87B5F28300CA0D, 0x9E74D1B791E07E48, 0xC612062576589DDA, 0xF79687AED3EEC551,
    0x9ABE14CD44753B52, 0xC16D9A0095928A27, 0xF1C90080BAF72CB1, 0x971DA05074DA7BEE,
    0xBCE5086492111AEA, 0xEC1E4A7DB69561A5, 0x9392EE8E921D5D07, 0xB877AA3236A4B449,
    0xE69594BEC44DE15B, 0x901D7CF73AB0ACD9, 0xB424DC35095CD80F, 0xE12E13424BB40E13,
    0x8CBCCC096F5088CB, 0xAFEBFF0BCB24AAFE, 0xDBE6FECEBDEDD5BE, 0x89705F4136B4A597,
    0xABCC77118461CEFC, 0xD6BF94D5E57A42BC, 0x8637BD05AF6C69B5, 0xA7C5AC471B478423,
    0xD1B71758E219652B, 0x83126E978D4FDF3B, 0xA3D70A3D70A3D70A, 0xCCCCCCCCCCCCCCCC,
    0x8000000000000000, 0xA000000000000000, 0xC800000000000000, 0xFA00000000000000,
    0x9C40000000000000, 0xC350000000000000, 0xF424000000000000, 0x9896800000000000,
    0xBEBC200000000000, 0xEE6B280000000000, 0x9502F90000000000, 0xBA43B74000000000,
    0xE8D4A51000000000, 0x9184E72A00000000, 0xB5E620F480000000, 0xE35FA931A0000000,
    0x8E1BC9BF04000000, 0xB1A2BC2EC5000000, 0xDE0B6B3A76400000, 0x8AC7230489E80000,
    0xAD78EBC5AC620000, 0xD8D726B7177A8000, 0x878678326EAC9000, 0xA968163F0A57B400,
    0xD3C21BCECCEDA100, 0x84595161401484A0, 0xA56FA5B99019A5C8, 0xCECB8F27F4200F3A,
    0x813F3978F8940984, 0xA18F07D736B90BE5, 0xC9F2C9CD04674EDE, 0xFC6F7C4045812296,
    0x9DC5ADA82B70B59D, 0xC5371912364CE305, 0xF684DF56C3E01BC6, 0x9A130B963A6C115C,
    0xC097CE7BC90715B3, 0xF0BDC21ABB48DB20, 0x96769950B50D88F4,
};

/* significand * 10^exp10 as f32, the same as through the nearest double; false: not
 * sure, or no normal f32.
 *
 * The product's high word, shifted up by at most one, is cut: the value lies less than 4
 * units above it. It is rounded to its first 24 bits. Rounding to double first (53 bits:
 * a unit of 2^11) can give something else only within half such a unit of the middle
 * between two f32, so within 2^10 + 4 of 2^39 in the low 40 bits. */
static inline bool f32_of(uint64_t significand, int32_t exp10, uint32_t negative,
                          uint32_t *bits)
{
    *bits = negative << 31;
    if (significand == 0)
        return true;
    uint32_t row = (uint32_t)(exp10 - EXP10_MIN);
    if (row > EXP10_MAX - EXP10_MIN)
        return false;
    int up = __builtin_clzll(significand);
    unsigned __int128 product =
        (unsigned __int128)(significand << up) * pow10_significand[row];
    uint64_t high = (uint64_t)(product >> 64);
    int one = (int)(~high >> 63);
    high <<= one;
    uint64_t rest = high & 0xFFFFFFFFFFu, middle = (uint64_t)1 << 39;
    if (rest + 1040 - middle <= 2080)
        return false;
    /* value = high * 2^e2, and the first bit of high has the weight 2^(e2 + 63). m holds
     * that one, which adds 1 to the exponent's field, as m = 2^24 adds 2. */
    uint32_t m = (uint32_t)(high >> 40) + (rest > middle);
    int e2 = (exp10 * 217706 >> 16) - 63 - up + 64 - one, biased = e2 + 63 + 127;
    if (biased < 1 || biased > 253)
        return false;
    *bits += ((uint32_t)(biased - 1) << 23) + m;
    return true;
}

/* One number without looking at the end at each step: NUMBER_ROOM bytes must be there.
 * NULL: it is none, or not of this road (long, a large exponent, too close to call). */
enum { NUMBER_ROOM = 48 };

static inline const char *quick_exponent(const char *p, int32_t *exp10)
{
    bool minus = p[1] == '-';
    p += minus || p[1] == '+' ? 2 : 1;
    int32_t e = 0, i = 0;
    for (; i < 3 && is_digit(p[i]); i++)
        e = e * 10 + (p[i] - '0');
    *exp10 += minus ? -e : e;
    return i == 0 || i == 3 ? NULL : p + i;
}

static inline const char *quick_f32(const char *p, uint32_t *bits)
{
    uint32_t negative = *p == '-';
    p += negative;
    uint64_t w = (unsigned char)(*p - '0'), v;
    int32_t exp10 = 0;
    if (w > 9)
        return NULL;
    p++;
    if (__builtin_expect(*p != '.', 0) && is_digit(*p)) {
        unsigned run = digit_run(p, &v);
        if (w == 0 || run == 8)
            return NULL;
        w = w * pow10_run[run] + v;
        p += run;
    }
    if (*p == '.') {
        unsigned run = digit_run(++p, &v);
        const char *first = p;
        w = w * pow10_run[run] + v;
        p += run;
        if (run == 8) {
            run = digit_run(p, &v);
            if (__builtin_mul_overflow(w, pow10_run[run], &w) ||
                __builtin_add_overflow(w, v, &w))
                return NULL;
            p += run;
        }
        if (run == 8) {
            run = digit_run(p, &v);
            if (run == 8 || __builtin_mul_overflow(w, pow10_run[run], &w) ||
                __builtin_add_overflow(w, v, &w))
                return NULL;
            p += run;
        }
        if (p == first)
            return NULL;
        exp10 = (int32_t)(first - p);
    }
    if (__builtin_expect((*p | 0x20) == 'e', 0)) {
        p = quick_exponent(p, &exp10);
        if (!p)
            return NULL;
    }
    return f32_of(w, exp10, negative, bits) ? p : NULL;
}

/* The number at p by the careful road: its end, its f32 (NaN when `wanted` is not set,
 * infinite when it is beyond f32). NULL: none, or beyond double. */
static __attribute__((noinline)) const char *careful_f32(const char *p, const char *end,
                                                         bool wanted, float *out)
{
    number n;
    const char *q = scan(p, end, &n);
    *out = 0;
    if (!q)
        return NULL;
    /* Only a large exponent or very many digits can leave double's range. */
    bool may_leave = (int64_t)n.exp10 + n.digits > 300 || n.cut;
    double d = may_leave || wanted ? real(&n, p, (size_t)(q - p)) : (double)NAN;
    *out = (float)d;
    return may_leave && !isfinite(d) ? NULL : q;
}

typedef struct floats { /* the values so far, the newest item of the arena */
    float *at;
    uint32_t cap;
    bool off; /* one is beyond f32, or there are too many: only counted from here on */
} floats;

/* Room for one more than n; none above BW_JSON_FLOATS_MAX. */
static __attribute__((noinline)) bw_status floats_grow(bw_ctx *ctx, floats *f, uint32_t n)
{
    f->off = n == BW_JSON_FLOATS_MAX;
    if (f->off)
        return BW_OK;
    uint32_t cap = n * 2 < BW_JSON_FLOATS_MAX ? n * 2 : BW_JSON_FLOATS_MAX;
    float *at = bw_arena_grow(ctx, f->at, n * sizeof *at, cap * sizeof *at);
    if (!at)
        return BW_ENOMEM;
    f->at = at;
    f->cap = cap;
    return BW_OK;
}

bw_status bw_json__numbers(bw_ctx *ctx, const char *p, const char *end, uint32_t hint,
                           bw_json *v, const char **out)
{
    size_t left = (size_t)(end - p), guess = hint;
    if (hint == 0) /* some 16 bytes a number, as far as one can tell */
        guess = left / 16 < 16 ? 16 : left / 16 > 1024 ? 1024 : left / 16;
    floats f = {.cap = (uint32_t)(guess < left ? guess : left)};
    f.at = bw_arena_alloc(ctx, f.cap * sizeof *f.at);
    if (!f.at)
        return BW_ENOMEM;
    const char *behind = NULL;
    uint32_t n = 0;
    while (p < end) {
        uint32_t bits; /* of the next number's f32 */
        const char *q = end - p >= NUMBER_ROOM ? quick_f32(p, &bits) : NULL;
        if (!q) {
            float one;
            q = careful_f32(p, end, !f.off, &one);
            f.off = f.off || (q && !isfinite(one));
            memcpy(&bits, &one, sizeof bits);
        }
        if (!q)
            break;
        if (n == f.cap && !f.off && floats_grow(ctx, &f, n) != BW_OK)
            return BW_ENOMEM;
        if (!f.off)
            memcpy(&f.at[n], &bits, sizeof bits);
        n++;
        p = skip_space(q, end);
        if (p < end && *p == ']')
            behind = p + 1;
        if (p == end || *p != ',')
            break;
        p = skip_space(p + 1, end);
    }
    bw_arena_shrink(ctx, f.at, f.cap * sizeof *f.at,
                    behind && !f.off ? n * sizeof *f.at : 0);
    if (behind) {
        v->kind = BW_JSON_NUMBERS;
        v->count = n;
        v->floats = f.off ? NULL : f.at;
    }
    *out = behind;
    return BW_OK;
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
    if (v->floats) {
        memcpy(out, v->floats, v->count * sizeof *out);
        return BW_OK;
    }
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
