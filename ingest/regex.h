/* Regular expressions in time linear in the text: RE2 (regex_re2.cpp).
 *
 * A text comes from anybody, so an engine that backtracks would be a way to stop the
 * cell, and a limit on its steps would only turn that into refused documents. What
 * cannot be done in linear time (back references, look around) is refused when the
 * pattern is read. Needs no header of ours, so that C++ can include it. */
#ifndef BW_REGEX_H
#define BW_REGEX_H
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
typedef struct bw_regex bw_regex; /* immutable; any number of threads */
enum {
    BW_REGEX_PATTERN_MAX = 4096,
    BW_REGEX_MEMORY = 2 << 20 /* of one: compiled, and its states */
};
typedef enum bw_regex_result {
    BW_REGEX_NO,
    BW_REGEX_YES,
    BW_REGEX_BAD, /* no pattern of RE2's syntax, or a larger one than the memory takes */
    BW_REGEX_NOMEM
} bw_regex_result;

/* RE2's syntax over UTF-8, pattern_len <= BW_REGEX_PATTERN_MAX. BW_REGEX_YES and *out,
 * or BW_REGEX_BAD with the reason in err, terminated. */
bw_regex_result bw_regex_new(const char *pattern, size_t pattern_len, bw_regex **out,
                             char *err, size_t err_cap);
void bw_regex_free(bw_regex *r); /* NULL is accepted */
/* Anywhere in the text (valid UTF-8): YES, NO, or NOMEM. */
bw_regex_result bw_regex_find(const bw_regex *r, const char *text, size_t text_len);
#ifdef __cplusplus
}
#endif
#endif
