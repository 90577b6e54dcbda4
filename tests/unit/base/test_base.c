/* ctx, arena, allocator, buffer, strings, ids, time, bitmap, map. */
#include <engine/base/bitmap.h>
#include <engine/base/map.h>
#include <engine/base/unseen.h>

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- ctx ---- */

static void test_ctx_fail__keeps_one_clean_line(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    assert_string_equal(bw_ctx_message(ctx), "");
    assert_int_equal(bw_fail(ctx, BW_EINVALID, "a\nb\x7f%d", 5), BW_EINVALID);
    assert_string_equal(bw_ctx_message(ctx), "a b 5");
    /* orders to a terminal in what others wrote: controls of Latin 1, turns of direction */
    assert_int_equal(bw_fail_at(ctx, BW_EINVALID, "/\xC2\x9B" "2J", "\xE2\x80\xAE" "a\xC2\x9Bm \xC3\xA9\xE2\x80\xA6"), BW_EINVALID);
    assert_string_equal(bw_ctx_message(ctx), "   a  m \xC3\xA9\xE2\x80\xA6");
    assert_string_equal(bw_ctx_pointer(ctx), "/  2J");
    assert_int_equal(bw_fail(ctx, BW_EINVALID, "a\nb\x7f%d", 5), BW_EINVALID);
    assert_int_equal(bw_fail_at(ctx, BW_ECORRUPT, "/x/1", "bad %s", bw_ctx_message(ctx)), BW_ECORRUPT);
    assert_string_equal(bw_ctx_message(ctx), "bad a b 5");
    assert_string_equal(bw_ctx_pointer(ctx), "/x/1");
    assert_int_equal(bw_fail(ctx, BW_EINVALID, "next"), BW_EINVALID);
    assert_string_equal(bw_ctx_pointer(ctx), "");
    char text[400];
    memset(text, 'x', sizeof text);
    memcpy(text + 254, "\xC3\xA9", 3); /* the cut falls inside the letter */
    bw_fail(ctx, BW_EINVALID, "%s", text);
    assert_int_equal(strlen(bw_ctx_message(ctx)), 254);
    bw_fail(ctx, BW_EINVALID, "\xFF\xC3\xA9");
    assert_string_equal(bw_ctx_message(ctx), "???");
    assert_int_equal(bw_fail_errno(ctx, "write", ENOSPC), BW_ENOSPACE);
    assert_string_equal(bw_ctx_message(ctx), "write: ENOSPC");
    assert_int_equal(bw_fail_errno(ctx, "write", EBADF), BW_EIO);
    bw_ctx *other = bw_ctx_new(0);
    assert_int_equal(bw_ctx_take_error(other, ctx, BW_EIO), BW_EIO);
    assert_string_equal(bw_ctx_message(other), "write: EBADF");
    bw_ctx_reset(ctx);
    assert_string_equal(bw_ctx_message(ctx), "");
    bw_ctx_free(other);
    bw_ctx_free(ctx);
    bw_ctx_free(NULL);
}

static void test_ctx_check__tells_when_the_deadline_passed(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    assert_int_equal(bw_ctx_check(ctx), BW_OK);
    bw_ctx_set_deadline(ctx, bw_clock_mono_ns() + 60000000000u);
    assert_int_equal(bw_ctx_check(ctx), BW_OK);
    bw_ctx_set_deadline(ctx, 1);
    assert_int_equal(bw_ctx_check(ctx), BW_ETIMEOUT);
    bw_ctx_free(ctx);
}

static void test_ctx_brief__ends_before_it_waits_and_when_it_is_over(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    assert_int_equal(bw_ctx_may_wait(ctx), BW_OK);
    bw_ctx_set_deadline(ctx, bw_clock_mono_ns() + 60000000000u);
    bw_ctx_set_brief(ctx, bw_clock_mono_ns() + 60000000000u);
    assert_int_equal(bw_ctx_check(ctx), BW_OK);
    assert_false(bw_ctx_was_cut(ctx));
    assert_int_equal(bw_ctx_may_wait(ctx), BW_ETIMEOUT);
    assert_true(bw_ctx_was_cut(ctx));
    bw_ctx_set_brief(ctx, 1);
    assert_false(bw_ctx_was_cut(ctx));
    assert_int_equal(bw_ctx_check(ctx), BW_ETIMEOUT);
    assert_true(bw_ctx_was_cut(ctx));
    bw_ctx_set_brief(ctx, 0); /* whole again, the deadline is as it was */
    assert_false(bw_ctx_was_cut(ctx));
    assert_int_equal(bw_ctx_check(ctx), BW_OK);
    bw_ctx_set_deadline(ctx, 1);
    assert_int_equal(bw_ctx_check(ctx), BW_ETIMEOUT);
    assert_false(bw_ctx_was_cut(ctx)); /* that is a time-out */
    bw_ctx_set_brief(ctx, 1);
    bw_ctx_reset(ctx);
    assert_int_equal(bw_ctx_check(ctx), BW_OK);
    bw_ctx_free(ctx);
}

/* ---- arena ---- */

static void test_arena_alloc__is_aligned_and_distinct(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    for (int round = 0; round < 3; round++) {
        char *items[500];
        for (size_t i = 0; i < 500; i++) {
            items[i] = bw_arena_alloc(ctx, i * 7);
            assert_non_null(items[i]);
            assert_int_equal((uintptr_t)items[i] % 16, 0);
            memset(items[i], (int)i, i * 7);
        }
        for (size_t i = 0; i < 500; i++)
            for (size_t k = 0; k < i * 7; k++)
                assert_int_equal((unsigned char)items[i][k], i & 255);
        bw_ctx_reset(ctx);
        assert_int_equal(bw_arena_used(ctx), 0);
    }
    bw_ctx_free(ctx);
}

static void test_arena_alloc__stops_at_the_budget(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(1024);
    assert_non_null(bw_arena_alloc(ctx, 1000));
    assert_null(bw_arena_alloc(ctx, 32));
    assert_string_equal(bw_ctx_message(ctx), "out of memory");
    assert_non_null(bw_arena_alloc(ctx, 16));
    assert_null(bw_arena_alloc(ctx, SIZE_MAX));
    assert_null(bw_arena_alloc(ctx, SIZE_MAX - 8));
    assert_null(bw_arena_calloc(ctx, SIZE_MAX / 2, 3));
    bw_ctx_reset(ctx);
    assert_non_null(bw_arena_alloc(ctx, 1024));
    bw_ctx_free(ctx);
}

static void test_arena_release__goes_back_to_the_mark(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(1 << 20);
    bw_arena_mark empty = bw_arena_mark_get(ctx);
    char *keep = bw_arena_printf(ctx, "%s %d", "kept", 1);
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    for (int i = 0; i < 100; i++) { /* 100 x 100 KiB would not fit the budget at once */
        for (int k = 0; k < 10; k++)
            assert_non_null(bw_arena_alloc(ctx, 10240));
        bw_arena_release(ctx, mark);
    }
    assert_string_equal(keep, "kept 1");
    bw_arena_release(ctx, empty);
    assert_int_equal(bw_arena_used(ctx), 0);
    bw_ctx_free(ctx);
}

static void test_arena_strings__copy_and_grow(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_str s;
    assert_int_equal(bw_arena_str(ctx, BW_STR("abc"), &s), BW_OK);
    assert_true(bw_str_is(s, "abc"));
    assert_int_equal(bw_arena_str(ctx, (bw_str){NULL, 0}, &s), BW_OK);
    assert_null(s.ptr);
    assert_string_equal(bw_arena_cstr(ctx, BW_STR("xyz")), "xyz");
    assert_null(bw_arena_cstr(ctx, (bw_str){"a\0b", 3}));
    int *a = bw_arena_grow(ctx, NULL, 0, sizeof *a);
    *a = 7;
    a = bw_arena_grow(ctx, a, sizeof *a, 100 * sizeof *a);
    assert_int_equal(a[0], 7);
    a[99] = 1;
    bw_ctx_free(ctx);
}

/* ---- allocator, buffer ---- */

static int allocs_left = -1;

static void *alloc_counted(size_t n)
{
    return allocs_left == 0 ? NULL : (allocs_left--, malloc(n));
}

static void *realloc_counted(void *p, size_t n)
{
    return allocs_left == 0 ? NULL : (allocs_left--, realloc(p, n));
}

static void test_buf_put__marks_a_failed_growth(void **state)
{
    (void)state;
    const bw_allocator table = {alloc_counted, realloc_counted, free};
    bw_allocator_set(&table);
    allocs_left = 1;
    bw_buf b = {0};
    bw_buf_puts(&b, "hello");
    assert_false(b.failed);
    for (int i = 0; i < 100; i++)
        bw_buf_printf(&b, "%d,", i);
    assert_true(b.failed);
    size_t len = b.len;
    bw_buf_putc(&b, 'x');
    assert_int_equal(b.len, len);
    bw_buf_clear(&b);
    assert_null(bw_alloc_vectors(100));
    allocs_left = -1;
    bw_allocator_set(NULL);
    bw_buf_clear(&b);
    bw_buf_clear(NULL);
}

static void test_buf_put__grows(void **state)
{
    (void)state;
    bw_buf b = {0};
    for (int i = 0; i < 10000; i++)
        bw_buf_printf(&b, "%04d", i);
    assert_int_equal(b.len, 40000);
    assert_memory_equal(b.ptr + 4 * 1234, "1234", 4);
    bw_buf_str(&b, BW_STR("end"));
    assert_memory_equal(b.ptr + 40000, "end", 3);
    bw_buf_clear(&b);
    assert_true(bw_str_is(bw_buf_view(&b), ""));
}

static void test_alloc_vectors__are_aligned_and_zeroed(void **state)
{
    (void)state;
    for (size_t n = 0; n < 5000; n = n * 2 + 1) {
        char *p = bw_alloc_vectors(n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 1, n);
        bw_free_vectors(p);
    }
    bw_free_vectors(NULL);
    bw_free(NULL);
    assert_null(bw_calloc(SIZE_MAX / 2, 4));
}

/* ---- strings, ids ---- */

static void test_utf8_unseen__knows_what_a_terminal_obeys(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
    } known[] = {{"\x1b[2J", 1}, {"\n", 1}, {"\x7f", 1}, {"\xC2\x9B", 2}, {"\xC2\xA0", 0}, {"\xE2\x80\x8B", 3}, {"\xE2\x80\xA8", 3},
                 {"\xE2\x80\xAE", 3}, {"\xE2\x81\xA6", 3}, {"\xE2\x80\x93", 0} /* dash */, {"\xE2\x80\x99", 0} /* quote */,
                 {"\xE2\x80\xA6", 0} /* … */, {"\xE2\x82\xAC", 0} /* euro */, {"a", 0}, {"\xC3\xA9", 0}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(bw_utf8_unseen(known[i].text, strlen(known[i].text)), known[i].bytes);
        if (known[i].bytes > 1) /* never beyond the text */
            assert_int_equal(bw_utf8_unseen(known[i].text, known[i].bytes - 1), 0);
    }
}

static void test_utf8_valid__follows_rfc_3629(void **state)
{
    (void)state;
    static const char *const good[] = {"", "ascii text longer than eight", "\xC2\x80", "\xDF\xBF",
        "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"};
    static const char *const bad[] = {"\x80", "\xC0\xAF", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "12345678\xE2\x82", "\xE2\x28\xA1"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(bw_utf8_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(bw_utf8_valid(bad[i], strlen(bad[i])));
    assert_true(bw_str_cmp(BW_STR("a"), BW_STR("ab")) < 0 && bw_str_cmp(BW_STR("b"), BW_STR("ab")) > 0);
    assert_true(bw_str_cmp(BW_STR("\xC3"), BW_STR("a")) > 0 && bw_str_cmp(BW_STR(""), (bw_str){0}) == 0);
}

static void test_uuid_parse__takes_the_contracts_spellings(void **state)
{
    (void)state;
    static const char *const good[] = {"0123456789abcdeffedcba9876543210", "01234567-89AB-cdef-fedc-ba9876543210",
        "urn:uuid:01234567-89ab-cdef-fedc-ba9876543210", "{01234567-89ab-cdef-fedc-ba9876543210}"};
    static const char *const bad[] = {"", "1", "abc", "0123456789abcdeffedcba987654321", "0123456789abcdeffedcba987654321g",
        "01234567-89ab-cdef-fedcb-a9876543210", "0123456789abcdef-fedcba9876543210-00", "{0123456789abcdeffedcba9876543210}",
        "urn:uuid:0123456789abcdeffedcba9876543210", " 01234567-89ab-cdef-fedc-ba9876543210", "(01234567-89ab-cdef-fedc-ba9876543210)"};
    bw_point_id id;
    char text[BW_UUID_TEXT + 1];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(bw_uuid_parse(bw_str_c(good[i]), &id));
        bw_uuid_format(&id, text);
        assert_string_equal(text, "01234567-89ab-cdef-fedc-ba9876543210");
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(bw_uuid_parse(bw_str_c(bad[i]), &id));
}

static void test_ids__have_qdrants_order(void **state)
{
    (void)state;
    bw_point_id ids[] = {{0, 0, 0, 0}, {0, UINT64_MAX, 0, 0}, {0, 0, 1, 0}, {0, 5, 1, 0}, {1, 0, 1, 0}};
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < 5; k++)
            assert_int_equal((bw_point_id_cmp(&ids[i], &ids[k]) > 0) - (bw_point_id_cmp(&ids[i], &ids[k]) < 0),
                             (i > k) - (i < k));
    bw_class_id classes[10];
    for (int i = 0; i < 10; i++)
        memset(classes[i].bytes, i * 2, 32);
    bw_permit permit = {classes, 10};
    for (int i = 0; i < 20; i++) {
        bw_class_id id;
        memset(id.bytes, i, 32);
        assert_int_equal(bw_permit_has(&permit, &id), i % 2 == 0);
    }
    assert_false(bw_permit_has(&(bw_permit){NULL, 0}, classes));
    char hex[BW_CLASS_TEXT + 1];
    bw_class_id back;
    bw_class_id_hex(&classes[5], hex);
    assert_true(bw_class_id_parse(bw_str_c(hex), &back) && bw_class_id_cmp(&back, &classes[5]) == 0);
    hex[63] = 'x';
    assert_false(bw_class_id_parse(bw_str_c(hex), &back));
    assert_false(bw_class_id_parse(BW_STR("00"), &back));
}

/* ---- time ---- */

static void test_time_parse__takes_rfc_3339_and_its_short_forms(void **state)
{
    (void)state;
    static const struct { const char *text; int64_t ns; } good[] = {
        {"1970-01-01T00:00:00Z", 0}, {"1970-01-01", 0}, {"1970-01-01T00:00", 0}, {"1970-01-01 00:00:01", 1000000000},
        {"1970-01-01t00:00:00.5z", 500000000}, {"1969-12-31T23:59:59.25Z", -750000000},
        {"2024-02-29T12:30:45.123456789+05:30", 1709190045123456789}, {"2000-03-01", 951868800000000000},
        {"2024-01-01T00:00:00.1234567891Z", 1704067200123456789}, {"2016-12-31T23:59:60Z", 1483228800000000000},
        {"1900-03-01T00:00:00-00:00", -2203891200000000000}, {"1677-09-21T00:12:43.145224192Z", INT64_MIN},
        {"2262-04-11T23:47:16.854775807Z", INT64_MAX},
    };
    static const char *const bad[] = {"", "1970", "1970-1-1", "1970-13-01", "1970-00-01", "1970-02-29", "1900-02-29",
        "2024-02-30", "1970-01-01T", "1970-01-01T24:00:00Z", "1970-01-01T00:60:00Z", "1970-01-01T00:00:61Z",
        "1970-01-01T00:00:00.Z", "1970-01-01T00:00:00+1:00", "1970-01-01T00:00:00+24:00", "1970-01-01T00:00:00Zx",
        "1970-01-01X00:00:00Z", "2262-04-11T23:47:16.854775808Z", "1677-09-21T00:12:43.145224191Z", "9999-12-31", "0000-01-01",
        "1970-01-01Z", " 1970-01-01"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t ns = 42;
        if (!bw_time_parse(bw_str_c(good[i].text), &ns) || ns != good[i].ns)
            fail_msg("%s: %lld", good[i].text, (long long)ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t ns;
        if (bw_time_parse(bw_str_c(bad[i]), &ns))
            fail_msg("accepted %s", bad[i]);
    }
}

static void test_time_format__reads_back(void **state)
{
    (void)state;
    char text[40];
    bw_time_format(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00Z");
    bw_time_format(-750000000, text);
    assert_string_equal(text, "1969-12-31T23:59:59.25Z");
    static const int64_t edge[] = {INT64_MIN, INT64_MAX, 1, -1, 86399999999999, 951782400000000000};
    for (size_t i = 0; i < sizeof edge / sizeof *edge; i++) {
        int64_t ns;
        bw_time_format(edge[i], text);
        assert_true(bw_time_parse(bw_str_c(text), &ns) && ns == edge[i]);
    }
    uint64_t x = 7;
    for (int i = 0; i < 20000; i++) {
        int64_t ns;
        x = x * 6364136223846793005u + 1442695040888963407u;
        bw_time_format((int64_t)x, text);
        assert_true(bw_time_parse(bw_str_c(text), &ns) && ns == (int64_t)x);
    }
    bw_clock_fix(5);
    assert_int_equal(bw_clock_unix_ns(), 5);
    bw_clock_fix(0);
    assert_true(bw_clock_unix_ns() > 1600000000000000000);
}

/* ---- bitmap ---- */

static void test_bitmap__equals_an_array_of_bools(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    for (size_t n = 0; n < 300; n = n < 70 ? n + 1 : n + 57) {
        bw_bitmap a, b;
        bool ra[300] = {0}, rb[300] = {0};
        assert_int_equal(bw_bitmap_arena(ctx, n, &a), BW_OK);
        assert_true(bw_bitmap_heap(n, &b));
        for (size_t i = 0; i < n; i++) {
            if (i % 3 == 0)
                bw_bitmap_set(&a, i), ra[i] = true;
            if (i % 5 != 0)
                bw_bitmap_set(&b, i), rb[i] = true;
        }
        if (n > 3) {
            bw_bitmap_unset(&a, 3);
            ra[3] = false;
        }
        for (int op = 0; op < 4; op++) {
            size_t count = 0;
            if (op == 1)
                bw_bitmap_or(&a, &b);
            if (op == 2)
                bw_bitmap_andnot(&a, &b);
            if (op == 3)
                bw_bitmap_fill(&a), bw_bitmap_and(&a, &b);
            for (size_t i = 0; i < n; i++) {
                ra[i] = op == 1 ? ra[i] || rb[i] : op == 2 ? ra[i] && !rb[i] : op == 3 ? rb[i] : ra[i];
                assert_int_equal(bw_bitmap_get(&a, i), ra[i]);
                count += ra[i];
            }
            assert_int_equal(bw_bitmap_count(&a), count);
            size_t walked = 0;
            for (size_t i = bw_bitmap_next(&a, 0); i < n; i = bw_bitmap_next(&a, i + 1), walked++)
                assert_true(ra[i]);
            assert_int_equal(walked, count);
        }
        bw_bitmap_fill(&a);
        assert_int_equal(bw_bitmap_count(&a), n);
        assert_false(bw_bitmap_get(&a, n));
        bw_bitmap_copy(&a, &b);
        assert_int_equal(bw_bitmap_count(&a), bw_bitmap_count(&b));
        bw_bitmap_free(&b);
    }
    bw_ctx_free(ctx);
}

/* ---- map ---- */

static void test_map__keeps_insertion_order_through_removals(void **state)
{
    (void)state;
    bw_map *m = bw_map_new();
    assert_null(bw_map_get(m, "x", 1));
    assert_false(bw_map_remove(m, "x", 1));
    for (uint32_t i = 0; i < 5000; i++) {
        bool fresh;
        uint64_t *v = bw_map_put(m, &i, sizeof i, &fresh);
        assert_true(v && fresh && *v == 0);
        *v = i;
        if (i % 3 == 0)
            assert_true(bw_map_remove(m, &i, sizeof i));
    }
    bool fresh;
    uint64_t *empty = bw_map_put(m, "", 0, &fresh);
    assert_true(fresh);
    *empty = 77;
    uint32_t again = 4;
    assert_int_equal(*bw_map_put(m, &again, sizeof again, &fresh), 4);
    assert_false(fresh);
    assert_int_equal(bw_map_count(m), 3333 + 1);
    uint64_t last = 0, *value;
    size_t seen = 0;
    bw_str key;
    for (size_t it = 0; bw_map_next(m, &it, &key, &value); seen++) {
        if (key.len == 0) {
            assert_int_equal(*value, 77);
            continue;
        }
        assert_true(*value > last && *value % 3 != 0);
        last = *value;
    }
    assert_int_equal(seen, 3334);
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(bw_map_get(m, &i, sizeof i) != NULL, i % 3 != 0);
    bw_map_free(m);
    bw_map_free(NULL);
}

static void test_map__put_and_remove_for_long_stays_small(void **state)
{
    (void)state;
    bw_map *m = bw_map_new();
    for (uint32_t i = 0; i < 100000; i++) {
        bool fresh;
        assert_non_null(bw_map_put(m, &i, sizeof i, &fresh));
        if (i >= 10) {
            uint32_t old = i - 10;
            assert_true(bw_map_remove(m, &old, sizeof old));
        }
    }
    assert_int_equal(bw_map_count(m), 10);
    assert_int_equal(bw_map_bytes(m) - bw_map_table_bytes(m), 10 * sizeof(uint32_t));
    bw_map_free(m);
}

static void test_map__a_failed_growth_changes_nothing(void **state)
{
    (void)state;
    const bw_allocator table = {alloc_counted, realloc_counted, free};
    bw_allocator_set(&table);
    for (int n = 0; n < 12; n++) {
        allocs_left = -1;
        bw_map *m = bw_map_new();
        bool fresh;
        for (uint32_t i = 0; i < 7; i++)
            assert_non_null(bw_map_put(m, &i, sizeof i, &fresh));
        allocs_left = n;
        size_t added = 7;
        for (uint32_t i = 7; i < 12; i++)
            added += bw_map_put(m, &i, sizeof i, &fresh) != NULL;
        assert_int_equal(bw_map_count(m), added);
        size_t found = 0;
        for (uint32_t i = 0; i < 12; i++)
            found += bw_map_get(m, &i, sizeof i) != NULL;
        assert_int_equal(found, added);
        bw_map_free(m);
    }
    allocs_left = -1;
    bw_allocator_set(NULL);
}

/* ---- log, status ---- */

static void test_log__writes_one_escaped_line(void **state)
{
    (void)state;
    char text[4096];
    int ends[2], kept = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_true(kept >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    bw_clock_fix(1000000000);
    bw_log(BW_LOG_DEBUG, "not shown");
    bw_log(BW_LOG_WARN, "a\nb\x1b[31m %d \xC3\xA9", 7);
    bw_log_set_level(BW_LOG_ERROR);
    bw_log(BW_LOG_WARN, "not shown");
    bw_log_set_level(BW_LOG_INFO);
    bw_clock_fix(0);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    assert_true(n > 0);
    text[n] = 0;
    assert_string_equal(text, "1970-01-01T00:00:01Z warn a\\x0ab\\x1b[31m 7 \xC3\xA9\n");
}

static void test_status_name__is_there_for_every_code(void **state)
{
    (void)state;
    for (int i = BW_OK; i <= BW_EINTERNAL; i++)
        assert_string_not_equal(bw_status_name((bw_status)i), "unknown");
    assert_string_equal(bw_status_name((bw_status)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ctx_fail__keeps_one_clean_line),
        cmocka_unit_test(test_ctx_check__tells_when_the_deadline_passed),
        cmocka_unit_test(test_ctx_brief__ends_before_it_waits_and_when_it_is_over),
        cmocka_unit_test(test_arena_alloc__is_aligned_and_distinct),
        cmocka_unit_test(test_arena_alloc__stops_at_the_budget),
        cmocka_unit_test(test_arena_release__goes_back_to_the_mark),
        cmocka_unit_test(test_arena_strings__copy_and_grow),
        cmocka_unit_test(test_buf_put__marks_a_failed_growth),
        cmocka_unit_test(test_buf_put__grows),
        cmocka_unit_test(test_alloc_vectors__are_aligned_and_zeroed),
        cmocka_unit_test(test_utf8_unseen__knows_what_a_terminal_obeys),
        cmocka_unit_test(test_utf8_valid__follows_rfc_3629),
        cmocka_unit_test(test_uuid_parse__takes_the_contracts_spellings),
        cmocka_unit_test(test_ids__have_qdrants_order),
        cmocka_unit_test(test_time_parse__takes_rfc_3339_and_its_short_forms),
        cmocka_unit_test(test_time_format__reads_back),
        cmocka_unit_test(test_bitmap__equals_an_array_of_bools),
        cmocka_unit_test(test_map__keeps_insertion_order_through_removals),
        cmocka_unit_test(test_map__put_and_remove_for_long_stays_small),
        cmocka_unit_test(test_map__a_failed_growth_changes_nothing),
        cmocka_unit_test(test_log__writes_one_escaped_line),
        cmocka_unit_test(test_status_name__is_there_for_every_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
