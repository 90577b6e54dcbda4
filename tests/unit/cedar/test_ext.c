/* Extension values: which texts are taken, and what they mean. */
#include "cedar_fixture.h"

#include <policies/cedar/value.h>

typedef struct number_row {
    const char *text;
    int64_t want;
} number_row;

static void test_ext_decimal__has_four_places_and_64_bits(void **state)
{
    (void)state;
    static const number_row good[] = {
        {"0.0", 0},
        {"-0.0", 0},
        {"1.5", 15000},
        {"-1.0001", -10001},
        {"0001.10", 11000},
        {"922337203685477.5807", INT64_MAX},
        {"-922337203685477.5808", INT64_MIN},
    };
    static const char *const bad[] = {"",
                                      "1",
                                      "1.",
                                      ".1",
                                      "+1.0",
                                      "1.00000",
                                      "1.0e1",
                                      " 1.0",
                                      "1.0 ",
                                      "--1.0",
                                      "922337203685477.5808",
                                      "-922337203685477.5809",
                                      "1.0.0",
                                      "1,0",
                                      "-",
                                      "-.1",
                                      "99999999999999999999.0",
                                      "1.-1"};
    int64_t v;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(bw_cedar__decimal_parse(bw_str_c(good[i].text), &v));
        assert_true(v == good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (bw_cedar__decimal_parse(bw_str_c(bad[i]), &v))
            fail_msg("accepted: %s", bad[i]);
}

static void test_ext_datetime__takes_real_dates_in_five_forms(void **state)
{
    (void)state;
    static const number_row good[] = {
        {"1970-01-01", 0},
        {"2024-02-29", INT64_C(1709164800000)},
        {"0000-01-01", INT64_C(-62167219200000)},
        {"9999-12-31T23:59:59.999Z", INT64_C(253402300799999)},
        {"1970-01-01T00:00:01Z", 1000},
        {"1970-01-01T00:00:00.001Z", 1},
        {"1970-01-01T01:00:00+0100", 0},
        {"1970-01-01T00:00:00.500-0030", 1800500},
        {"2000-02-29T12:00:00Z", INT64_C(951825600000)},
    };
    static const char *const bad[] = {
        "",
        "1970",
        "1970-1-1",
        "1970-13-01",
        "1970-00-01",
        "1970-01-32",
        "1970-02-29",
        "1900-02-29",
        "1970-01-01T",
        "1970-01-01T00:00:00",
        "1970-01-01T24:00:00Z",
        "1970-01-01T00:60:00Z",
        "1970-01-01T00:00:60Z",
        "1970-01-01t00:00:00Z",
        "1970-01-01T00:00:00z",
        "1970-01-01T00:00:00.1Z",
        "1970-01-01T00:00:00.0001Z",
        "1970-01-01T00:00:00+01:00",
        "1970-01-01T00:00:00+2400",
        "1970-01-01T00:00:00+0060",
        "1970-01-01 00:00:00Z",
        "1970-01-01T00:00:00Z ",
        "-1970-01-01",
        "10000-01-01",
        "1970-01-01T00:00Z",
        "1970-01-00",
    };
    int64_t v;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!bw_cedar__datetime_parse(bw_str_c(good[i].text), &v) || v != good[i].want)
            fail_msg("%s", good[i].text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (bw_cedar__datetime_parse(bw_str_c(bad[i]), &v))
            fail_msg("accepted: %s", bad[i]);
    assert_true(bw_cedar__datetime_to_time(-1) == 86399999);
    assert_true(bw_cedar__datetime_to_date(-1, &v) && v == -86400000);
    assert_false(bw_cedar__datetime_to_date(INT64_MIN, &v));
}

static void test_ext_duration__has_units_in_order(void **state)
{
    (void)state;
    static const number_row good[] = {
        {"0ms", 0},
        {"1d", 86400000},
        {"1h", 3600000},
        {"1m", 60000},
        {"1s", 1000},
        {"-1s", -1000},
        {"1d2h3m4s5ms", 93784005},
        {"0001m", 60000},
        {"1m1ms", 60001},
        {"9223372036854775807ms", INT64_MAX},
        {"-9223372036854775808ms", INT64_MIN},
        {"-106751991167d7h12m55s808ms", INT64_MIN},
        {"106751991167d7h12m55s807ms", INT64_MAX},
    };
    static const char *const bad[] = {"",
                                      "-",
                                      "1",
                                      "d",
                                      "1x",
                                      "1s1s",
                                      "1s1m",
                                      "1ms1s",
                                      "+1s",
                                      "1 s",
                                      "1s ",
                                      "--1s",
                                      "106751991167d7h12m55s808ms",
                                      "9223372036854775808ms",
                                      "1d-1h",
                                      "1msm",
                                      "1.5s",
                                      "99999999999999999999d"};
    int64_t v;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!bw_cedar__duration_parse(bw_str_c(good[i].text), &v) || v != good[i].want)
            fail_msg("%s", good[i].text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (bw_cedar__duration_parse(bw_str_c(bad[i]), &v))
            fail_msg("accepted: %s", bad[i]);
}

static void test_ext_ip__takes_both_families_with_prefix(void **state)
{
    (void)state;
    static const char *const good[] = {"0.0.0.0",
                                       "255.255.255.255/32",
                                       "1.2.3.4/0",
                                       "::",
                                       "::1",
                                       "1::",
                                       "1::2",
                                       "1:2:3:4:5:6:7:8",
                                       "1:2:3:4:5:6:7::",
                                       "::2:3:4:5:6:7:8",
                                       "FFFF::abCD/128",
                                       "1:2:3:4:5:6:7:8/0",
                                       "0001:0002::"};
    static const char *const bad[] = {"",
                                      "1.2.3",
                                      "1.2.3.4.5",
                                      "01.2.3.4",
                                      "256.1.1.1",
                                      "1.2.3.4/33",
                                      "1.2.3.4/",
                                      "1.2.3.4/01",
                                      "1.2.3.4/-1",
                                      "1.2.3.4 ",
                                      ":",
                                      ":::",
                                      "1:2:3:4:5:6:7",
                                      "1:2:3:4:5:6:7:8:9",
                                      "1::2::3",
                                      "1:2:3:4::5:6:7:8",
                                      "12345::",
                                      "::1.2.3.4",
                                      "fe80::1%eth0",
                                      "::/129",
                                      "::/",
                                      "g::",
                                      "1:",
                                      ":1",
                                      "/8",
                                      "1.2.3.4/8/8",
                                      "1..2.3",
                                      "1.2.3.",
                                      "0000:0000:0000:0000:0000:0000:0000:00000001"};
    bw_cedar__ip ip;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!bw_cedar__ip_parse(bw_str_c(good[i]), &ip))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (bw_cedar__ip_parse(bw_str_c(bad[i]), &ip))
            fail_msg("accepted: %s", bad[i]);
    assert_true(bw_cedar__ip_parse(BW_STR("1::2:3"), &ip));
    static const uint8_t want[16] = {[1] = 1, [13] = 2, [15] = 3};
    assert_memory_equal(ip.addr, want, 16);
}

static void test_ext_ip__range_needs_the_whole_range_inside(void **state)
{
    (void)state;
    static const struct {
        const char *a, *range;
        bool want;
    } rows[] = {
        {"10.0.0.1", "10.0.0.0/8", true},       {"10.0.0.0/7", "10.0.0.0/8", false},
        {"10.255.255.255", "10.0.0.9/8", true}, {"11.0.0.0", "10.0.0.0/8", false},
        {"1.2.3.4", "0.0.0.0/0", true},         {"1.2.3.4", "::/0", false},
        {"fe80::1", "fe80::/10", true},         {"febf::1", "fe80::/10", true},
        {"fec0::1", "fe80::/10", false},        {"1.2.3.4", "1.2.3.4", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bw_cedar__ip a, range;
        assert_true(bw_cedar__ip_parse(bw_str_c(rows[i].a), &a));
        assert_true(bw_cedar__ip_parse(bw_str_c(rows[i].range), &range));
        assert_int_equal(bw_cedar__ip_in_range(&a, &range), rows[i].want);
    }
}

/* Sorting and searching of sets against the plainest oracle, on random small values. */
static void test_value_set__agrees_with_a_linear_oracle(void **state)
{
    (void)state;
    const char *given = getenv("BW_SEED");
    unsigned long seed = given ? strtoul(given, NULL, 10) : 20261130;
    printf("seed %lu\n", seed);
    srandom((unsigned)seed);
    uint64_t cost = 0;
    for (int round = 0; round < 2000; round++) {
        bw_cedar_value raw[64], sorted[64];
        uint32_t n = (uint32_t)random() % 64;
        for (uint32_t i = 0; i < n; i++)
            raw[i] = random() % 3 == 0 ? bw_cedar__bool(random() % 2)
                                       : bw_cedar__int(random() % 2 ? BW_CEDAR__LONG
                                                                    : BW_CEDAR__DECIMAL,
                                                       random() % 24 - 12);
        memcpy(sorted, raw, sizeof raw);
        bw_cedar_value set = {.kind = BW_CEDAR__SET, .u.items = sorted};
        set.n = bw_cedar__set_sort(sorted, n, &cost);
        for (uint32_t i = 1; i < set.n; i++)
            assert_true(bw_cedar__cmp(&sorted[i - 1], &sorted[i], &cost) < 0);
        for (int64_t v = -13; v < 13; v++) {
            bw_cedar_value probe = bw_cedar__int(BW_CEDAR__LONG, v);
            bool want = false;
            for (uint32_t i = 0; i < n; i++)
                want |= raw[i].kind == probe.kind && raw[i].u.integer == v;
            assert_int_equal(bw_cedar__set_has(&set, &probe, &cost), want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ext_decimal__has_four_places_and_64_bits),
        cmocka_unit_test(test_ext_datetime__takes_real_dates_in_five_forms),
        cmocka_unit_test(test_ext_duration__has_units_in_order),
        cmocka_unit_test(test_ext_ip__takes_both_families_with_prefix),
        cmocka_unit_test(test_ext_ip__range_needs_the_whole_range_inside),
        cmocka_unit_test(test_value_set__agrees_with_a_linear_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
