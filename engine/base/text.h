/* Scanning of text, shared by str.c and the JSON reader and writer (base only). */
#ifndef BW_TEXT_PRIVATE_H
#define BW_TEXT_PRIVATE_H
#include "base.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Length of the multi-byte UTF-8 sequence at p (n bytes left), 0 if it is none. The
 * second byte's range carries the whole rule: E0 and F0 refuse overlong forms, ED
 * refuses surrogates, F4 refuses what lies above 10FFFF. */
static inline size_t bw_utf8__sequence(const unsigned char *p, size_t n)
{
    unsigned char c = p[0], low = 0x80, high = 0xBF;
    size_t len;
    if (c >= 0xC2 && c <= 0xDF) {
        len = 2;
    } else if (c >= 0xE0 && c <= 0xEF) {
        len = 3;
        if (c == 0xE0)
            low = 0xA0;
        else if (c == 0xED)
            high = 0x9F;
    } else if (c >= 0xF0 && c <= 0xF4) {
        len = 4;
        if (c == 0xF0)
            low = 0x90;
        else if (c == 0xF4)
            high = 0x8F;
    } else {
        return 0;
    }
    if (n < len || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return len;
}

/* The first byte at or after p that is not plain inside a JSON string: a quote, a
 * backslash, a control character, or the start of a multi-byte sequence. */
static inline const char *bw_text__plain_end(const char *p, const char *end)
{
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    const __m128i space = _mm_set1_epi8(0x20);
    while (end - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        /* signed: bytes from 0x80 count as below 0x20, too */
        __m128i odd = _mm_or_si128(
            _mm_cmplt_epi8(v, space),
            _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)));
        unsigned mask = (unsigned)_mm_movemask_epi8(odd);
        if (mask)
            return p + __builtin_ctz(mask);
        p += 16;
    }
#endif
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 &&
           *p != '"' && *p != '\\')
        p++;
    return p;
}
#endif
