/* Detectors of personal data against tests/data/detect/cases.tsv (made apart from the
 * code, in Python), and the cost of hostile texts in looks, not in seconds. */
#include "ingest/detect.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h> /* before cmocka.h, which replaces its allocators */

#include <cmocka.h>

static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++)
        if (s[0] == '\\' && s[1] == 'n') {
            *to++ = '\n';
            s++;
        } else {
            *to++ = *s;
        }
    *to = 0;
}

static void say(const bw_detected *d, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '-';
    out[1] = 0;
    for (int k = 0; k < BW_DETECT_COUNT; k++)
        for (uint32_t i = 0; i < d->count[k]; i++)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " " : "",
                                  bw_detect_name((bw_detect_kind)k));
}

static void test_detect__says_what_the_cases_say(void **state)
{
    (void)state;
    FILE *f = fopen(BW_SOURCE "/tests/data/detect/cases.tsv", "r");
    assert_non_null(f);
    char line[2048], got[512];
    unsigned right = 0, wrong = 0, positives = 0;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *text = strchr(line, '\t');
        assert_non_null(text);
        *text++ = 0;
        unescape(text);
        bw_detected d;
        bw_detect(bw_str_c(text), &d);
        say(&d, got, sizeof got);
        positives += line[0] != '-';
        if (strcmp(got, line) == 0) {
            right++;
        } else {
            wrong++;
            print_message("%s instead of %s: %s\n", got, line, text);
        }
    }
    assert_int_equal(fclose(f), 0);
    print_message("%u cases, %u with personal data\n", right + wrong, positives);
    assert_int_equal(wrong, 0);
    assert_true(positives >= 200 && right - positives >= 500);
}

static void test_detect__counts_each_once(void **state)
{
    (void)state;
    bw_detected d;
    bw_detect(bw_str_c("ana@example.org, bob@example.org; DE89370400440532013000 and "
                       "4111 1111 1111 1111, 4111111111111111"),
              &d);
    assert_int_equal(d.count[BW_DETECT_EMAIL], 2);
    assert_int_equal(d.count[BW_DETECT_IBAN], 1);
    assert_int_equal(d.count[BW_DETECT_CARD], 2);
    assert_int_equal(d.count[BW_DETECT_PHONE], 0);
}

static void test_detect__names_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < BW_DETECT_COUNT; i++) {
        bw_detect_kind k;
        assert_true(bw_detect_parse(bw_str_c(bw_detect_name((bw_detect_kind)i)), &k));
        assert_int_equal(k, i);
    }
    bw_detect_kind k;
    assert_false(bw_detect_parse(BW_STR("id-xx"), &k));
    assert_false(bw_detect_parse(BW_STR(""), &k));
}

/* Every cut of a text is a text: nothing is read beyond its end (ASan looks). */
static void test_detect__reads_within_the_text(void **state)
{
    (void)state;
    static const char whole[] =
        "tel +49 30 901820 ana@example.org GB29NWBK60161331926819 "
        "1 84 12 76 451 089 46 \xE2\x80\xAF";
    for (size_t from = 0; from < sizeof whole; from++)
        for (size_t n = 0; from + n < sizeof whole; n++) {
            char *copy = malloc(n ? n : 1);
            memcpy(copy, whole + from, n);
            bw_detected d;
            bw_detect((bw_str){copy, n}, &d);
            free(copy);
        }
}

static void test_detect__looks_are_linear_in_the_text(void **state)
{
    (void)state;
    static const char *const units[] = {
        "@",     "a@",    "1",  "1 ",       "1-",   "a1.",        "a@a.", "+1 ",
        "DE89 ", "4111 ", "(0", "\xC2\xA0", "tel ", "bsn 1-2-3 ", "_@_"};
    enum { BYTES = 1 << 18 };
    char *text = malloc(BYTES);
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        size_t n = strlen(units[u]);
        for (size_t i = 0; i < BYTES; i++)
            text[i] = units[u][i % n];
        bw_detected half, all;
        bw_detect((bw_str){text, BYTES / 2}, &half);
        bw_detect((bw_str){text, BYTES}, &all);
        assert_true(all.steps <= (uint64_t)BW_DETECT_STEPS * BYTES);
        assert_true(all.steps <= 2 * half.steps + BW_DETECT_STEPS);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_detect__says_what_the_cases_say),
        cmocka_unit_test(test_detect__counts_each_once),
        cmocka_unit_test(test_detect__names_read_back),
        cmocka_unit_test(test_detect__reads_within_the_text),
        cmocka_unit_test(test_detect__looks_are_linear_in_the_text),
    };
    return cmocka_run_group_tests_name("detect", tests, NULL, NULL);
}
