/* Counts of bits: every level against a loop over bits. */
#include "engine/kernels/bits.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { WORDS_MAX = 40, N = 7 };
static const char *const isas[] = {"scalar", "avx2", "avx512"};

static void check_words(rnd *r, const bw_bits *b, size_t words)
{
    uint64_t query[WORDS_MAX];
    uint32_t differ[N], both[N];
    uint64_t *rows = bw_calloc(N * words + 1, sizeof *rows); /* ASan sees the ends */
    assert_non_null(rows);
    for (size_t w = 0; w < words; w++)
        query[w] = rnd_below(r, 4) ? rnd_u64(r) : ~(uint64_t)0;
    for (size_t i = 0; i < N * words; i++)
        rows[i + 1] = i < words ? ~query[i] : rnd_u64(r) & rnd_u64(r);
    b->hamming(query, rows + 1, N, words, differ);
    b->common(query, rows + 1, N, words, both);
    for (size_t i = 0; i < N; i++) {
        uint32_t want_differ = 0, want_both = 0;
        for (size_t j = 0; j < words * 64; j++) {
            const uint64_t x = query[j / 64] >> (j % 64) & 1,
                           y = rows[1 + i * words + j / 64] >> (j % 64) & 1;
            want_differ += x != y;
            want_both += x && y;
        }
        assert_int_equal(differ[i], want_differ);
        assert_int_equal(both[i], want_both);
    }
    assert_int_equal(differ[0], words * 64);
    bw_free(rows);
}

static void test_bits__every_level_counts_alike(void **state)
{
    (void)state;
    rnd r = rnd_start("test_bits", 7);
    for (size_t s = 0; s < 3; s++) {
        const bw_bits *b = bw_bits_isa(isas[s]);
        print_message("%s: %s\n", isas[s], b ? "run" : "not run");
        for (size_t words = 1; b && words <= WORDS_MAX; words++)
            check_words(&r, b, words);
        if (b) {
            assert_string_equal(b->isa, isas[s]);
            b->hamming(NULL, NULL, 0, 3, NULL);
        }
    }
    assert_non_null(bw_bits_get());
    assert_null(bw_bits_isa("sse9"));
    assert_null(bw_bits_isa(NULL));
}

static void test_bits__sign_codes(void **state)
{
    (void)state;
    float row[130];
    uint64_t code[3] = {~(uint64_t)0, ~(uint64_t)0, ~(uint64_t)0};
    for (size_t i = 0; i < 130; i++)
        row[i] = i % 3 == 0 ? 1e-45f : i % 3 == 1 ? -2 : i % 2 ? -0.0f : NAN;
    assert_int_equal(bw_bits_words(130), 3);
    assert_int_equal(bw_bits_words(128), 2);
    bw_bits_encode(row, 130, code);
    for (size_t i = 0; i < 192; i++)
        assert_int_equal(code[i / 64] >> (i % 64) & 1, i < 130 && i % 3 == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits__every_level_counts_alike),
        cmocka_unit_test(test_bits__sign_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
