/* Personal data in text: which kinds there are and how often, never where or which
 * value. What is found may only raise a label set (rules.h); what is not found proves
 * nothing. */
#ifndef BW_DETECT_H
#define BW_DETECT_H
#include "../engine/base/base.h"

typedef enum bw_detect_kind {
    BW_DETECT_EMAIL,
    BW_DETECT_PHONE,
    BW_DETECT_IBAN,
    BW_DETECT_CARD,
    BW_DETECT_ID_BE, /* national numbers, by ISO 3166 country */
    BW_DETECT_ID_BR,
    BW_DETECT_ID_CH,
    BW_DETECT_ID_CN,
    BW_DETECT_ID_DE,
    BW_DETECT_ID_ES,
    BW_DETECT_ID_FI,
    BW_DETECT_ID_FR,
    BW_DETECT_ID_GB, /* NHS number */
    BW_DETECT_ID_IN,
    BW_DETECT_ID_IT,
    BW_DETECT_ID_NL,
    BW_DETECT_ID_PL,
    BW_DETECT_ID_PT,
    BW_DETECT_ID_SE,
    BW_DETECT_ID_US, /* no check digit: ranges and the usual hyphens */
    BW_DETECT_COUNT
} bw_detect_kind;
const char *bw_detect_name(bw_detect_kind kind); /* "email", …, "id-fr" */
bool bw_detect_parse(bw_str name, bw_detect_kind *out);

typedef struct bw_detected {
    uint32_t count[BW_DETECT_COUNT];
    uint64_t steps; /* bytes looked at: at most BW_DETECT_STEPS for each byte of text */
} bw_detected;
enum { BW_DETECT_STEPS = 1200 };

/* text: clean UTF-8 (document.h). Time is linear in its length. Cannot fail. */
void bw_detect(bw_str text, bw_detected *out);

/* ---- between detect.c and detect_ids.c ---- */
enum { BW_DETECT__CHARS = 34 }; /* the longest is an IBAN */
/* Letters (made upper case) and digits from one place on, single separators taken out.
 */
typedef struct bw_detect__run {
    char c[BW_DETECT__CHARS + 1];   /* zero at the end */
    char sep[BW_DETECT__CHARS + 1]; /* what stood before c[i], 0 = nothing */
    size_t end[BW_DETECT__CHARS];   /* offset in the text behind c[i] */
    size_t n;
    bw_str before; /* up to 40 bytes of text in front, for words that tell */
} bw_detect__run;
/* Whether the number may end behind its first len characters: no more of it follows. */
bool bw_detect__ends(const bw_detect__run *r, size_t len);
/* Whether the first len characters are grouped so: "3-2-4", "15"; '?' any separator. */
bool bw_detect__grouped(const bw_detect__run *r, size_t len, const char *groups);
bool bw_detect__digits(const char *c, size_t n);
/* Whether one of the words (each ended by ' ') is in front. Letters in lower case. */
bool bw_detect__told(const bw_detect__run *r, const char *words);
/* The national number that the run begins with; its length, 0 = none. */
size_t bw_detect__id(const bw_detect__run *r, bw_detect_kind *kind);
#endif
