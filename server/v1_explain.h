/* Explained answers. Private to v1_*.c and cli_explain.c. */
#ifndef BW_V1_EXPLAIN_H
#define BW_V1_EXPLAIN_H
#include "../policies/explain.h"
#include "v1.h"

bw_status bw_v1_explain(bw_request *r, bw_response *out);
bw_status bw_v1_explain_result(bw_request *r, bw_response *out);
/* Which places touched a result, and by which policies each class of it may be read
 * there: an object, appended. classes: permitted ones, sorted. */
BW_MUST_USE bw_status bw_v1_put_residency(bw_request *r, bw_buf *b,
                                          const bw_class_id *classes, size_t n,
                                          bool embedded);
/* What was asked, as members of an object: action, principal, class and labels or
 * collection, purpose, safeguards, at, dest. */
void bw_v1_put_asked(bw_buf *b, const bw_v1_question *q, const bw_place *cell);
#endif
