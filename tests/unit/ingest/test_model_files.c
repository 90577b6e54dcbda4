/* The files of a model are hostile: safetensors' offsets, shapes and types;
 * vocabularies; WordPiece's edges. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ingest/safetensors.h"
#include "ingest/wordpiece.h"

static int setup(void **state)
{
    *state = bw_ctx_new(0);
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    bw_ctx_free(*state);
    return 0;
}

/* A file of this header and data. */
static bw_str file_of(bw_ctx *ctx, const char *header, const void *data, size_t n)
{
    size_t len = strlen(header);
    char *p = bw_arena_calloc(ctx, 8 + len + n, 1);
    assert_non_null(p);
    for (size_t i = 0; i < 8; i++)
        p[i] = (char)((uint64_t)len >> (8 * i));
    memcpy(p + 8, header, len);
    if (n)
        memcpy(p + 8 + len, data, n);
    return (bw_str){p, 8 + len + n};
}

static void safetensors__types_become_f32(void **state)
{
    bw_ctx *ctx = *state;
    bw_safetensors s;
    float out[4];
    struct {
        float f[2];
        double d[2];
        uint16_t half[4];
        uint16_t brain[2];
    } data = {{1.5f, -2.0f},
              {0.25, -8.0},
              {0x3C00, 0xC000, 0x0001, 0x7C00},
              {0x3F80, 0xC040}};
    bw_str f =
        file_of(ctx,
                "{\"f\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                "\"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[8,24]},"
                "\"h\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[24,32]},"
                "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[32,36]}}",
                &data, 36);
    assert_int_equal(bw_safetensors_parse(ctx, f, &s), BW_OK);
    assert_int_equal(bw_safetensors_read(ctx, &s, "f", 1, 2, out), BW_OK);
    assert_true(out[0] == 1.5f && out[1] == -2.0f);
    assert_int_equal(bw_safetensors_read(ctx, &s, "d", 1, 2, out), BW_OK);
    assert_true(out[0] == 0.25f && out[1] == -8.0f);
    assert_int_equal(bw_safetensors_read(ctx, &s, "h", 2, 2, out), BW_OK);
    assert_true(out[0] == 1.0f && out[1] == -2.0f && out[2] == 0x1p-24f &&
                out[3] > 1e38f);
    assert_int_equal(bw_safetensors_read(ctx, &s, "b", 1, 2, out), BW_OK);
    assert_true(out[0] == 1.0f && out[1] == -3.0f);
    assert_int_equal(bw_safetensors_rows(&s, "h", 2), 2);
    assert_int_equal(bw_safetensors_rows(&s, "h", 4), 0);
    assert_int_equal(bw_safetensors_read(ctx, &s, "h", 4, 1, out), BW_ECORRUPT);
    assert_int_equal(bw_safetensors_read(ctx, &s, "absent", 1, 1, out), BW_ECORRUPT);
}

static void safetensors__wrong_tensors_are_refused(void **state)
{
    static const char *const bad[] = {
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}",
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}",
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[5,9]}}",
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":["
        "18446744073709551612,0]}}",
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":["
        "0,0]}}",
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}",
        "{\"t\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}",
        "{\"t\":{\"dtype\":\"F32\",\"shape\":\"x\",\"data_offsets\":[0,4]}}",
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}",
        "{\"t\":[]}"};
    bw_ctx *ctx = *state;
    float out[8];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bw_safetensors s;
        assert_int_equal(
            bw_safetensors_parse(ctx, file_of(ctx, bad[i], "12345678", 8), &s), BW_OK);
        if (bw_safetensors_read(ctx, &s, "t", 1, 1, out) != BW_ECORRUPT)
            fail_msg("taken: %s", bad[i]);
    }
}

static void safetensors__wrong_files_are_refused(void **state)
{
    bw_ctx *ctx = *state;
    bw_safetensors s;
    assert_int_equal(bw_safetensors_parse(ctx, BW_STR("1234567"), &s), BW_ECORRUPT);
    assert_int_equal(
        bw_safetensors_parse(ctx, BW_STR("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F{}"), &s),
        BW_ECORRUPT);
    assert_int_equal(bw_safetensors_parse(ctx, BW_STR("\3\0\0\0\0\0\0\0{}"), &s),
                     BW_ECORRUPT);
    assert_int_equal(bw_safetensors_parse(ctx, BW_STR("\2\0\0\0\0\0\0\0[]"), &s),
                     BW_ECORRUPT);
    assert_int_not_equal(bw_safetensors_parse(ctx, BW_STR("\2\0\0\0\0\0\0\0{]"), &s),
                         BW_OK);
}

static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##"
                                 "able\na\n##b\n\xE6\x97\xA5\n.\nstra\xC3\x9F"
                                 "e\ncafe\n\xCF\x83\n";

static void assert_ids(const bw_wordpiece *w, bw_str text, const char *want)
{
    uint32_t ids[64];
    char got[400];
    size_t n = bw_wordpiece_run(w, text, ids, 64), len = 0;
    for (size_t i = 0; i < n; i++)
        len +=
            (size_t)snprintf(got + len, sizeof got - len, "%s%u", i ? " " : "", ids[i]);
    if (strcmp(got, want) != 0)
        fail_msg("\"%.*s\" gives %s, expected %s", (int)text.len, text.ptr, got, want);
}

static void wordpiece__cuts_as_the_reference_does(void **state)
{
    bw_ctx *ctx = *state;
    bw_wordpiece *w;
    bw_wordpiece_options o = {true, true, true};
    assert_int_equal(bw_wordpiece_new(ctx, BW_STR(vocabulary), false, o, &w), BW_OK);
    assert_int_equal(bw_wordpiece_ids(w), 15);
    assert_ids(w, BW_STR(""), "2 3");
    assert_ids(w, BW_STR("UNaffable."), "2 5 6 7 11 3");
    assert_ids(w, BW_STR("unaffableq"),
               "2 1 3"); /* one rest that fits nowhere: the whole word */
    assert_ids(w,
               BW_STR("a\xE6\x97\xA5"
                      "ab"),
               "2 8 10 8 9 3");
    assert_ids(w, BW_STR("Caf\xC3\xA9 CAFE\xCC\x81"), "2 13 13 3");
    assert_ids(w,
               BW_STR("Stra\xC3\x9F"
                      "e"),
               "2 12 3");
    assert_ids(w, BW_STR("\xCE\xA3"), "2 14 3");
    assert_ids(w,
               BW_STR("a\0b a\xE2\x80\x8B"
                      "b a\xFF"
                      "b"),
               "2 8 9 8 9 8 9 3");
    assert_ids(w, BW_STR("[MASK]a[SEP]"), "2 4 8 3 3");
    assert_ids(w, BW_STR("[mask]"), "2 1 1 1 3");
    char word[102];
    memset(word, 'b', sizeof word);
    word[0] = 'a';
    uint32_t ids[200];
    assert_int_equal(bw_wordpiece_run(w, (bw_str){word, 100}, ids, 200), 102);
    assert_ids(w, (bw_str){word, 101}, "2 1 3");
    assert_int_equal(bw_wordpiece_run(w, BW_STR("a a a a"), ids, 4), 4);
    assert_int_equal(ids[3], 3);
    bw_wordpiece_free(w);
}

static void wordpiece__keeps_case_and_accents_when_told(void **state)
{
    bw_ctx *ctx = *state;
    bw_wordpiece *w;
    bw_wordpiece_options o = {false, false, false};
    static const char cased[] = "[UNK]\n[CLS]\n[SEP]\nA\na\n\xC3\xA9\n";
    assert_int_equal(bw_wordpiece_new(ctx, BW_STR(cased), false, o, &w), BW_OK);
    assert_ids(w, BW_STR("A a \xC3\xA9 e"), "1 3 4 5 0 2");
    bw_wordpiece_free(w);
}

static void wordpiece__vocabularies_without_specials_are_refused(void **state)
{
    bw_ctx *ctx = *state;
    bw_wordpiece *w = NULL;
    bw_wordpiece_options o = {true, true, true};
    assert_int_equal(bw_wordpiece_new(ctx, BW_STR("a\nb\n"), false, o, &w),
                     BW_ECORRUPT);
    assert_int_equal(
        bw_wordpiece_new(ctx, BW_STR("{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}"),
                         true, o, &w),
        BW_ECORRUPT);
    assert_int_equal(
        bw_wordpiece_new(
            ctx,
            BW_STR("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[CLS]\":-1}}}"),
            true, o, &w),
        BW_ECORRUPT);
    assert_null(w);
    static const char json[] =
        "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,"
        "\"[SEP]\":2,\"x\":7}}}";
    assert_int_equal(bw_wordpiece_new(ctx, BW_STR(json), true, o, &w), BW_OK);
    assert_ids(w, BW_STR("x"), "1 7 2");
    bw_wordpiece_free(w);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(safetensors__types_become_f32),
        T(safetensors__wrong_tensors_are_refused),
        T(safetensors__wrong_files_are_refused),
        T(wordpiece__cuts_as_the_reference_does),
        T(wordpiece__keeps_case_and_accents_when_told),
        T(wordpiece__vocabularies_without_specials_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
