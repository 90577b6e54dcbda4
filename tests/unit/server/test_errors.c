/* Forms of errors: what a person may read, and nothing of the machine. */
#include <server/gate.h>

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static bool says(const bw_response *r, const char *word)
{
    return memmem(r->body.ptr, r->body.len, word, strlen(word)) != NULL;
}

/* A full disk and damage are reported by the file's name; that is for the log. */
static void test_errors__our_faults_name_no_file(void **state)
{
    static const bw_status faults[] = {BW_EIO, BW_ECORRUPT, BW_EINTERNAL, BW_ENOSPACE};
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        for (int v1 = 0; v1 < 2; v1++) {
            bw_response r = {0};
            bw_error_response(&r, v1 ? BW_FAMILY_V1 : BW_FAMILY_QDRANT,
                              bw_error_http_status(faults[i]), faults[i],
                              "/var/lib/cell/keys.json.new: ENOSPC", "");
            assert_true(r.status == 500 || r.status == 507);
            assert_false(says(&r, "/var"));
            assert_false(says(&r, "keys.json"));
            bw_buf_clear(&r.body);
        }
}

static void test_errors__forms(void **state)
{
    bw_response r = {0};
    (void)state;
    bw_error_response(&r, BW_FAMILY_QDRANT, 404, BW_ENOTFOUND, "a \"b\"\n", "/x");
    assert_true(says(&r, "{\"status\":{\"error\":\"a \\\"b\\\"\\n\"},\"time\":0.0}"));
    bw_error_response(&r, BW_FAMILY_V1, 451, BW_EDENIED, "no", "/labels");
    assert_true(says(&r, "{\"error\":{\"code\":\"denied\",\"message\":\"no\","
                         "\"pointer\":\"/labels\"}}"));
    bw_buf_clear(&r.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors__our_faults_name_no_file),
        cmocka_unit_test(test_errors__forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
