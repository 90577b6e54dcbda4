/* Expressions and values as Cedar text on one line, with as few parentheses as the
 * grammar allows. The one printer: of explanations, of findings, of whole sets
 * (write.c, which lays the line out by format.c). Private to cedar/. */
#ifndef BW_CEDAR_PRINT_PRIVATE_H
#define BW_CEDAR_PRINT_PRIVATE_H
#include "ast.h"
#include "trace.h"

typedef struct bw_cedar__printer {
    bw_buf *b;
    size_t end;         /* of the buffer; nothing but "..." is written behind it */
    bw_cedar_show show; /* values that it refuses are "..."; NULL: all are shown */
    void *user;
    bool full;   /* the end was reached */
    bool untrue; /* what was written is not Cedar: no text means this tree (of JSON) */
    uint8_t run; /* how many `!` or `-` stand in a row */
} bw_cedar__printer;

void bw_cedar__print_str(bw_cedar__printer *p, bw_str s); /* as it is */
void bw_cedar__print_quoted(bw_cedar__printer *p, bw_str s);
void bw_cedar__print_uid(bw_cedar__printer *p, const bw_cedar__uid *uid);
/* Recursion follows the nesting of values, which is bounded; deeper than 40 is "...".
 */
void bw_cedar__print_value(bw_cedar__printer *p, const bw_cedar_value *v);
/* On a stack of its own; when memory is out, b->failed. */
void bw_cedar__print_expr(bw_cedar__printer *p, const bw_cedar__expr *e);

/* At most so many bytes and then "...". */
void bw_cedar__put_expr(bw_buf *b, const bw_cedar__expr *e, size_t most,
                        bw_cedar_show show, void *user);
void bw_cedar__put_string(bw_buf *b, bw_str s, size_t most); /* in quotes */

/* Whether all text of a `like` pattern may be shown, each run as a string. */
bool bw_cedar__pattern_shown(const bw_cedar__pattern *pattern, bw_cedar_show show,
                             void *user);

/* Of a decimal, datetime, duration or ip: its constructor, and the text in quotes that
 * this takes. */
bw_cedar__fn bw_cedar__constructor(const bw_cedar_value *v);
void bw_cedar__print_argument(bw_cedar__printer *p, const bw_cedar_value *v);
#endif
