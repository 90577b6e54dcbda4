/* The only C++ of ingest: RE2 behind regex.h. Compiles against the RE2 of Debian 12 and
 * 13. No exception leaves this file.
 *
 * RE2 answers by a DFA within its memory and, where that does not suffice, by an NFA,
 * slower by a factor: it never gives up on a text. */
#include "regex.h"

#include <cstdio>
#include <new>
#include <re2/re2.h>

struct bw_regex final {
    RE2 re;
    bw_regex(const char *pattern, size_t n, const RE2::Options &o)
        : re(re2::StringPiece(pattern, n), o)
    {
    }
};

bw_regex_result bw_regex_new(const char *pattern, size_t pattern_len, bw_regex **out,
                             char *err, size_t err_cap)
{
    try {
        RE2::Options o;
        o.set_log_errors(false);
        o.set_max_mem(BW_REGEX_MEMORY);
        o.set_never_capture(true);
        bw_regex *r = new bw_regex(pattern, pattern_len, o);
        if (r->re.ok()) {
            *out = r;
            return BW_REGEX_YES;
        }
        std::snprintf(err, err_cap, "%s", r->re.error().c_str());
        delete r;
        return BW_REGEX_BAD;
    } catch (...) {
        return BW_REGEX_NOMEM;
    }
}

void bw_regex_free(bw_regex *r)
{
    delete r;
}

bw_regex_result bw_regex_find(const bw_regex *r, const char *text, size_t text_len)
{
    try {
        return r->re.Match(re2::StringPiece(text, text_len), 0, text_len,
                           RE2::UNANCHORED, nullptr, 0)
                   ? BW_REGEX_YES
                   : BW_REGEX_NO;
    } catch (...) {
        return BW_REGEX_NOMEM;
    }
}
