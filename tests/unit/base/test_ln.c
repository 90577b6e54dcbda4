/* bw_ln against the C library's logarithm, and its own bits. */
#include <engine/base/base.h>
#include <engine/base/ln.h>

#include "rnd.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Steps between two doubles of one sign. */
static int64_t apart(double a, double b)
{
    int64_t i, j;
    memcpy(&i, &a, sizeof i);
    memcpy(&j, &b, sizeof j);
    return i < j ? j - i : i - j;
}

/* The C library's is within one unit itself. */
static void near_libm(double x)
{
    const double want = log(x), got = bw_ln(x);
    if (got == want) /* also zeros */
        return;
    if (apart(got, want) > 2)
        fail_msg("ln(%a) is %a, not %a", x, got, want);
}

static void test_ln__is_within_two_units_of_the_true_value(void **state)
{
    (void)state;
    rnd r = rnd_start("ln", 20261201);
    for (int e = -1022; e < 1024; e++)
        for (int i = 0; i < 200; i++)
            near_libm(ldexp(1 + rnd_unit(&r), e));
    for (int i = 0; i < 200000; i++) {
        near_libm(1 + 0.5 * rnd_unit(&r));
        near_libm(1 - 0.5 * rnd_unit(&r));
        near_libm(1 + ldexp(rnd_unit(&r), -(int)rnd_below(&r, 50)));
    }
    for (double x = DBL_TRUE_MIN; x < DBL_MIN; x *= 1.37 + DBL_EPSILON)
        near_libm(x > DBL_TRUE_MIN * 4 ? x : (x += DBL_TRUE_MIN));
    const double root = 0x1.6a09e667f3bcdp-1; /* where the exponent is split */
    for (int k = -4; k <= 4; k++) {
        near_libm(root + k * 0x1p-53);
        near_libm(2 * root + k * 0x1p-52);
    }
    near_libm(DBL_MAX);
    near_libm(DBL_MIN);
}

static void test_ln__has_the_same_bits_everywhere(void **state)
{
    (void)state;
    static const double cases[][2] = {
        {0x1p+0, 0x0p+0}, {0x1p+1, 0x1.62e42fefa39efp-1},
        {0x1.5555555555555p+0, 0x1.269621134db91p-2}, {0x1.8p-1, -0x1.269621134db92p-2},
        {0x1.5p+3, 0x1.2cf9dd4b12035p+1}, {0x1.34a449ba5e354p+10, 0x1.c7951a99b028bp+2},
        {0x1.fffffffffffffp+9, 0x1.bb9d3beb8c86bp+2}, {0x1.0000000000001p+0, 0x1.fffffffffffffp-53},
        {0x0.0000000000001p-1022, -0x1.74385446d71c3p+9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (memcmp(&(double){bw_ln(cases[i][0])}, &cases[i][1], sizeof(double)) != 0)
            fail_msg("ln(%a) is %a, not %a", cases[i][0], bw_ln(cases[i][0]), cases[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ln__is_within_two_units_of_the_true_value),
        cmocka_unit_test(test_ln__has_the_same_bits_everywhere),
    };
    return cmocka_run_group_tests_name("ln", tests, NULL, NULL);
}
