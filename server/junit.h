/* Results of `policy test` as JUnit XML, as CI systems read it: testsuites, testsuite,
 * testcase with failure or error. No times: the same tests give the same bytes. */
#ifndef BW_JUNIT_H
#define BW_JUNIT_H
#include "policy_test.h"

/* One suite, appended. error: why the file could not be run, or none. */
void bw_junit_put(bw_buf *b, const char *file, const bw_policy_test_result *r, bw_str error);
/* The whole document around the suites. */
void bw_junit_document(bw_buf *out, bw_str suites, size_t tests, size_t failures,
                       size_t errors);
#endif
