/* The inside of `policy test`. Private to policy_test*.c. */
#ifndef BW_POLICY_TEST_RUN_H
#define BW_POLICY_TEST_RUN_H
#include "policy_test.h"
#include "v1.h"

typedef struct test_file {
    bw_ctx *ctx;
    const bw_policy_test_options *o;
    const char *path;
    const bw_json *root, *places, *principals, *classes;
    bw_catalogue *catalogue;
    bw_authority *authority;
    bw_place cell;
    bw_str own_policies; /* named by the file or the command; else none */
    bool reads_now;
} test_file;

typedef struct test_case {
    const bw_json *v;
    bw_question q;
    bw_principal principal;
    bw_place at, dest;
    const char *kind; /* NULL = a class; "Collection", "Node" */
    bw_str tenant, name, what; /* what: the class as the case calls it */
    bw_class_id class_id;
    bw_str label_text;
    bool allow, any_policies;
    bw_words policies, errors;
} test_case;

/* policy_test.c: BW_EINVALID about this value of the file. */
BW_MUST_USE bw_status policy_test_wants(bw_ctx *ctx, const bw_json *v, const char *what);
/* A failure about something in the file that has no pointer of its own. */

/* policy_test_case.c */
BW_MUST_USE bw_status policy_test_place(test_file *t, const bw_json *v, bw_place *out);
BW_MUST_USE bw_status policy_test_case(test_file *t, const bw_json *v, test_case *c);
/* answered: a cell's decision as JSON, or NULL: this file's own authority is asked. */
BW_MUST_USE bw_status policy_test_run_case(test_file *t, const bw_json *v,
                                           const bw_json *answered, bw_policy_case *out);

/* policy_test_ask.c: n cases from v[0] on, of a running cell; *failed grows. */
BW_MUST_USE bw_status policy_test_ask(test_file *t, const bw_json *const *v,
                                      bw_policy_case *cases, size_t n, size_t *failed);
#endif
