/* The register of classes: differences, restarts, torn and hostile lines. */
#include <policies/labels.h>
#include <server/files.h>
#include <server/register.h>

#include "rnd.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { NTEXTS = 64 };

typedef struct fixture {
    bw_ctx *ctx;
    char dir[64];
    const char *path;
    bw_class_id ids[NTEXTS]; /* sorted */
    bw_str texts[NTEXTS];
    size_t asked, fail_at;
} fixture;

static int by_id(const void *a, const void *b)
{
    return bw_class_id_cmp(a, b);
}

static bw_str text_of(fixture *f, size_t i)
{
    return bw_str_c(bw_arena_printf(f->ctx, "{\"tenant\":\"t%zu\",\"regimes\":[]}", i));
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_true(sodium_init() >= 0);
    f->ctx = bw_ctx_new(0);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/bw-register-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->path = bw_path_join(f->ctx, f->dir, "classes.jsonl");
    for (size_t i = 0; i < NTEXTS; i++)
        bw_labels_class_id(text_of(f, i), &f->ids[i]);
    qsort(f->ids, NTEXTS, sizeof *f->ids, by_id);
    for (size_t i = 0; i < NTEXTS; i++) {
        bw_class_id id;
        bw_str text = text_of(f, i);
        bw_labels_class_id(text, &id);
        bw_class_id *at = bsearch(&id, f->ids, NTEXTS, sizeof id, by_id);
        f->texts[at - f->ids] = text;
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    (void)unlink(f->path);
    (void)rmdir(f->dir);
    bw_ctx_free(f->ctx);
    free(f);
    return 0;
}

static bw_status text(void *arg, const bw_class_id *id, bw_str *out)
{
    fixture *f = arg;
    const bw_class_id *at = bsearch(id, f->ids, NTEXTS, sizeof *id, by_id);
    *out = f->texts[at - f->ids];
    return ++f->asked == f->fail_at ? BW_EIO : BW_OK;
}

/* The classes whose bit is set. */
static size_t list_of(fixture *f, uint64_t bits, bw_class_id *out)
{
    size_t n = 0;
    for (size_t i = 0; i < NTEXTS; i++)
        if (bits >> i & 1)
            out[n++] = f->ids[i];
    return n;
}

static bw_str file_text(fixture *f)
{
    bw_str s;
    assert_int_equal(bw_file_read(f->ctx, f->path, 1 << 24, &s), BW_OK);
    return s;
}

static void write_file(fixture *f, bw_str s)
{
    assert_int_equal(bw_file_replace(f->ctx, f->path, s, 0600), BW_OK);
}

/* Whether the book has the list, and what is in it is right. */
static bool book_has(fixture *f, uint64_t bits)
{
    bw_register_book *b;
    bw_class_id want[NTEXTS];
    const bw_class_id *got;
    uint8_t digest[BW_LIST_DIGEST];
    size_t n = list_of(f, bits, want), ngot;
    bw_register_digest(want, n, digest);
    assert_int_equal(bw_register_read(f->ctx, f->dir, &b), BW_OK);
    bool has = bw_register_ids(f->ctx, b, digest, &got, &ngot) == BW_OK;
    if (has) {
        assert_int_equal(ngot, n);
        assert_true(n == 0 || memcmp(got, want, n * sizeof *got) == 0);
        for (size_t i = 0; i < n; i++) {
            bw_str t;
            const bw_class_id *at = bsearch(&want[i], f->ids, NTEXTS, sizeof want[i], by_id);
            if (!bw_register_text(b, &want[i], &t))
                has = false; /* its own line was hurt */
            else
                assert_true(bw_str_eq(t, f->texts[at - f->ids]));
        }
    }
    bw_register_book_free(b);
    return has;
}

static void put(fixture *f, bw_register *r, uint64_t uid, uint64_t version, uint64_t bits)
{
    bw_class_id ids[NTEXTS];
    uint8_t digest[BW_LIST_DIGEST], want[BW_LIST_DIGEST];
    size_t n = list_of(f, bits, ids);
    bw_register_digest(ids, n, want);
    assert_int_equal(bw_register_list(f->ctx, r, uid, version, ids, n, text, f, digest), BW_OK);
    assert_memory_equal(digest, want, sizeof want);
}

static void test_register_list__is_found_again(void **state)
{
    fixture *f = *state;
    uint64_t seen[100];
    bw_register *r;
    rnd g = rnd_start("test_register_list", 1);
    assert_int_equal(bw_register_open(f->ctx, f->dir, &r), BW_OK);
    uint64_t bits[3] = {0};
    for (uint64_t i = 0; i < 100; i++) {
        size_t uid = rnd_below(&g, 3);
        bits[uid] ^= (uint64_t)1 << rnd_below(&g, NTEXTS); /* one comes or goes */
        if (rnd_below(&g, 20) == 0)
            bits[uid] = rnd_u64(&g);
        seen[i] = bits[uid];
        put(f, r, uid, i + 1, bits[uid]);
        f->asked = 0;
        put(f, r, uid, i + 1, bits[uid]); /* known: nothing is read */
        assert_int_equal(f->asked, 0);
        if (i % 23 == 22) {
            bw_register_close(r);
            assert_int_equal(bw_register_open(f->ctx, f->dir, &r), BW_OK);
        }
    }
    bw_register_close(r);
    for (size_t i = 0; i < 100; i += 7)
        assert_true(book_has(f, seen[i]));
    assert_false(book_has(f, seen[0] ^ seen[1] ^ 0x5555));
}

static void test_register_list__grows_by_differences(void **state)
{
    fixture *f = *state;
    bw_register *r;
    uint64_t bits = 0;
    assert_int_equal(bw_register_open(f->ctx, f->dir, &r), BW_OK);
    for (uint64_t i = 0; i < NTEXTS; i++)
        put(f, r, 7, i + 1, bits |= (uint64_t)1 << i);
    size_t once = file_text(f).len;
    assert_true(once < 600 * NTEXTS); /* whole lists would be 2,080 ids of 67 bytes: 139,360 */
    put(f, r, 8, 1, bits); /* another collection with the same classes: nothing new */
    bw_register_close(r);
    assert_int_equal(bw_register_open(f->ctx, f->dir, &r), BW_OK);
    put(f, r, 7, 999, bits);
    bw_register_close(r);
    assert_int_equal(file_text(f).len, once);
    static const unsigned asked[] = {62, 0, 31, 63, 30, 5, 62}; /* of one book: what is between is not kept */
    bw_register_book *b;
    assert_int_equal(bw_register_read(f->ctx, f->dir, &b), BW_OK);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        bw_class_id want[NTEXTS];
        const bw_class_id *got;
        uint8_t digest[BW_LIST_DIGEST];
        size_t ngot, n = list_of(f, UINT64_MAX >> (63 - asked[i]), want);
        bw_register_digest(want, n, digest);
        assert_int_equal(bw_register_ids(f->ctx, b, digest, &got, &ngot), BW_OK);
        assert_int_equal(ngot, n);
        assert_memory_equal(got, want, n * sizeof *got);
    }
    bw_register_book_free(b);
}

static void test_register__cuts_a_torn_line_and_goes_on(void **state)
{
    fixture *f = *state;
    bw_register *r;
    assert_int_equal(bw_register_open(f->ctx, f->dir, &r), BW_OK);
    put(f, r, 1, 1, 7);
    put(f, r, 1, 2, 15);
    bw_register_close(r);
    bw_str whole = file_text(f);
    for (size_t cut = 0; cut < whole.len; cut += 41) {
        write_file(f, (bw_str){whole.ptr, cut});
        assert_int_equal(bw_register_open(f->ctx, f->dir, &r), BW_OK);
        put(f, r, 1, 3, 31);
        put(f, r, 1, 4, 15);
        bw_register_close(r);
        assert_true(book_has(f, 31) && book_has(f, 15));
    }
}

/* Whatever a line says, it is believed only as far as it hashes to its name. */
static void test_register_read__believes_nothing(void **state)
{
    fixture *f = *state;
    bw_register *r;
    assert_int_equal(bw_register_open(f->ctx, f->dir, &r), BW_OK);
    put(f, r, 1, 1, 0xff);
    put(f, r, 1, 2, 0x1ff);
    bw_register_close(r);
    bw_str whole = file_text(f);
    rnd g = rnd_start("test_register_read", 1);
    for (int i = 0; i < 60; i++) {
        bw_str s;
        assert_int_equal(bw_arena_str(f->ctx, whole, &s), BW_OK);
        ((char *)(uintptr_t)s.ptr)[rnd_below(&g, s.len)] ^= (char)(1 << rnd_below(&g, 7));
        write_file(f, s);
        (void)book_has(f, 0xff); /* right, or not there */
        (void)book_has(f, 0x1ff);
    }
    static const char *const lines[] = {
        "", "{}", "[]", "{\"list\":1}", "{\"list\":\"zz\",\"of\":[]}", "{\"class\":\"a\",\"labels\":{}}",
        "{\"list\":\"00000000000000000000000000000000\",\"of\":[1,2]}",
        "{\"list\":\"00000000000000000000000000000000\",\"of\":\"x\"}",
        "{\"list\":\"00000000000000000000000000000001\",\"from\":\"00000000000000000000000000000001\",\"add\":[],\"drop\":[]}",
        "{\"list\":\"00000000000000000000000000000000\",\"of\":{\"a\":1}}"};
    bw_buf b = {0};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        bw_buf_printf(&b, "%s\n", lines[i]);
    bw_buf_str(&b, whole);
    write_file(f, bw_buf_view(&b));
    bw_buf_clear(&b);
    assert_true(book_has(f, 0x1ff));
    bw_register_book *book;
    const bw_class_id *ids;
    size_t n;
    static const uint8_t zero[BW_LIST_DIGEST];
    assert_int_equal(bw_register_read(f->ctx, f->dir, &book), BW_OK);
    assert_int_equal(bw_register_ids(f->ctx, book, zero, &ids, &n), BW_ENOTFOUND);
    bw_register_book_free(book);
    assert_int_equal(bw_register_open(f->ctx, f->dir, &r), BW_OK);
    bw_register_close(r);
}

static void test_register_list__fails_as_a_whole(void **state)
{
    fixture *f = *state;
    bw_register *r;
    bw_class_id ids[NTEXTS];
    uint8_t digest[BW_LIST_DIGEST];
    size_t n = list_of(f, 0xf, ids);
    assert_int_equal(bw_register_open(f->ctx, f->dir, &r), BW_OK);
    assert_int_equal(bw_register_list(f->ctx, r, 1, 1, NULL, 0, NULL, NULL, digest), BW_ENOTFOUND);
    f->fail_at = 3;
    assert_int_equal(bw_register_list(f->ctx, r, 1, 1, ids, n, text, f, digest), BW_EIO);
    assert_int_equal(file_text(f).len, 0);
    f->fail_at = 0;
    put(f, r, 1, 1, 0xf);
    assert_int_equal(bw_register_list(f->ctx, r, 1, 1, NULL, 0, NULL, NULL, digest), BW_OK);
    bw_register_close(r);
    assert_true(book_has(f, 0xf));
}

/* A full disk (a limit of the file's size stands for it) at each byte of the write: an error, nothing half
 * written, and recorded as soon as there is room. */
static void test_register__full_disk_changes_nothing(void **state)
{
    fixture *f = *state;
    struct rlimit old, small;
    bw_register *r;
    bw_class_id ids[NTEXTS];
    uint8_t digest[BW_LIST_DIGEST];
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(bw_register_open(f->ctx, f->dir, &r), BW_OK);
    put(f, r, 1, 1, 7);
    bw_str before = file_text(f);
    size_t n = list_of(f, 0xf, ids);
    for (size_t room = 0; room < 200; room += 19) {
        small = (struct rlimit){before.len + room, old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        assert_int_not_equal(bw_register_list(f->ctx, r, 1, 2, ids, n, text, f, digest), BW_OK);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_true(bw_str_eq(file_text(f), before));
        put(f, r, 1, 1, 7); /* what is written can be named */
    }
    put(f, r, 1, 2, 0xf);
    bw_register_close(r);
    assert_true(book_has(f, 7) && book_has(f, 0xf));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_register_list__is_found_again),      T(test_register_list__grows_by_differences),
        T(test_register__cuts_a_torn_line_and_goes_on), T(test_register_read__believes_nothing),
        T(test_register_list__fails_as_a_whole), T(test_register__full_disk_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
