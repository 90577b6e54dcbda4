/* Expressions and values as Cedar text, short. Private to cedar/. */
#ifndef BW_CEDAR_TRACE_TEXT_PRIVATE_H
#define BW_CEDAR_TRACE_TEXT_PRIVATE_H
#include "ast.h"
#include "trace.h"

/* One line, at most so many bytes and then "..."; what may not be shown is "..." as
 * well. Sets are written in the order of their elements' text. */
void bw_cedar__put_expr(bw_buf *b, const bw_cedar__expr *e, size_t most,
                        bw_cedar_show show, void *user);
/* In quotes, control characters escaped, cut in the same way. */
void bw_cedar__put_string(bw_buf *b, bw_str s, size_t most);
#endif
