/* Tokens of Cedar text, for policies and schemas alike. One token of look-ahead; text
 * is borrowed. Strings stay raw until somebody asks, since patterns read escapes
 * differently. */
#ifndef BW_CEDAR_LEX_H
#define BW_CEDAR_LEX_H
#include "value.h"

typedef enum bw_cedar__tok {
    BW_CEDAR__T_END,
    BW_CEDAR__T_IDENT,
    BW_CEDAR__T_INT,
    BW_CEDAR__T_STRING,
    BW_CEDAR__T_COLONS, /* :: */
    BW_CEDAR__T_EQ,
    BW_CEDAR__T_NE,
    BW_CEDAR__T_LE,
    BW_CEDAR__T_GE,
    BW_CEDAR__T_AND,
    BW_CEDAR__T_OR,
    BW_CEDAR__T_PUNCT /* one byte: lex->punct */
} bw_cedar__tok;

typedef struct bw_cedar__lex {
    bw_ctx *ctx;
    bw_str text;
    bw_cedar__tok tok;
    char punct;
    size_t start, end; /* of the current token */
    size_t prev_end;   /* of the token before it */
} bw_cedar__lex;

/* Checks size and UTF-8 and reads the first token. */
BW_MUST_USE bw_status bw_cedar__lex_start(bw_ctx *ctx, bw_str text, bw_cedar__lex *lx);
BW_MUST_USE bw_status bw_cedar__lex_next(bw_cedar__lex *lx);
static inline bw_str bw_cedar__lex_text(const bw_cedar__lex *lx)
{
    return (bw_str){lx->text.ptr + lx->start, lx->end - lx->start};
}
static inline bool bw_cedar__lex_is(const bw_cedar__lex *lx, char punct)
{
    return lx->tok == BW_CEDAR__T_PUNCT && lx->punct == punct;
}
static inline bool bw_cedar__lex_is_word(const bw_cedar__lex *lx, const char *word)
{
    return lx->tok == BW_CEDAR__T_IDENT &&
           bw_str_eq(bw_cedar__lex_text(lx), bw_str_c(word));
}
/* Takes the token when it is that one; *taken says so. */
BW_MUST_USE bw_status bw_cedar__lex_take(bw_cedar__lex *lx, char punct, bool *taken);
/* Takes it or fails with "expected X". */
BW_MUST_USE bw_status bw_cedar__lex_want(bw_cedar__lex *lx, char punct);
/* Where byte `at` is, when *line and *column (from 1, in characters) are those of byte
 * `from`. */
void bw_cedar__line_column(bw_str text, size_t from, size_t at, size_t *line,
                           size_t *column);
/* BW_EINVALID with line and column of byte `at`. */
bw_status bw_cedar__lex_fail(const bw_cedar__lex *lx, size_t at, const char *fmt, ...)
    BW_PRINTF(3, 4);
/* The current string token (quotes included) as its value, in pool's arena. */
BW_MUST_USE bw_status bw_cedar__lex_string(const bw_cedar__lex *lx, bw_ctx *pool,
                                           bw_str *out);
/* The same as a pattern: literal runs around wildcards; n wildcards part n + 1 runs. */
typedef struct bw_cedar__pattern {
    const bw_str *runs;
    uint32_t n; /* runs, at least 1 */
} bw_cedar__pattern;
BW_MUST_USE bw_status bw_cedar__lex_pattern(const bw_cedar__lex *lx, bw_ctx *pool,
                                            bw_cedar__pattern *out);
bool bw_cedar__pattern_match(const bw_cedar__pattern *p, bw_str text);
#endif
