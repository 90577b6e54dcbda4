/* Kept texts: found under their digest, whole or not at all. */
#include <server/archive.h>
#include <server/files.h>

#include <setjmp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    bw_ctx *ctx;
    char dir[64];
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_true(sodium_init() >= 0);
    f->ctx = bw_ctx_new(0);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/bw-archive-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    assert_int_equal(system(bw_arena_printf(f->ctx, "rm -r %s", f->dir)), 0);
    bw_ctx_free(f->ctx);
    free(f);
    return 0;
}

static void test_archive__keeps_and_proves(void **state)
{
    fixture *f = *state;
    char hex[BW_DIGEST_TEXT + 1], again[BW_DIGEST_TEXT + 1];
    bw_str got;
    assert_int_equal(bw_archive_keep(f->ctx, f->dir, BW_ARCHIVE_POLICIES, BW_STR("permit"), hex), BW_OK);
    assert_int_equal(bw_archive_keep(f->ctx, f->dir, BW_ARCHIVE_POLICIES, BW_STR("permit"), again), BW_OK);
    assert_string_equal(hex, again);
    assert_int_equal(bw_archive_get(f->ctx, f->dir, BW_ARCHIVE_POLICIES, bw_str_c(hex), &got), BW_OK);
    assert_true(bw_str_is(got, "permit"));
    assert_int_equal(bw_archive_get(f->ctx, f->dir, BW_ARCHIVE_SCHEMA, bw_str_c(hex), &got), BW_ENOTFOUND);
    static const char *const bad[] = {"", "..", "../policies/x", "00", "0000000000000000000000000000000G"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(bw_archive_get(f->ctx, f->dir, BW_ARCHIVE_POLICIES, bw_str_c(bad[i]), &got), BW_EINVALID);
    const char *path = bw_arena_printf(f->ctx, "%s/policies/%s.cedar", f->dir, hex);
    assert_int_equal(bw_file_replace(f->ctx, path, BW_STR("permi"), 0600), BW_OK);
    assert_int_equal(bw_archive_get(f->ctx, f->dir, BW_ARCHIVE_POLICIES, bw_str_c(hex), &got), BW_ECORRUPT);
}

static void test_facts__come_back_as_they_were(void **state)
{
    fixture *f = *state;
    static const bw_str certs[] = {{"a", 1}, {"b", 1}};
    bw_facts in = {.schema = BW_STR("s"), .catalogue = BW_STR("{}"), .entities = BW_STR("[]"),
                   .cell = {BW_STR("par\"1"), BW_STR("FR"), BW_STR("op"), certs, NULL, 2, 0}}, out;
    char hex[BW_DIGEST_TEXT + 1], other[BW_DIGEST_TEXT + 1];
    assert_int_equal(bw_facts_keep(f->ctx, f->dir, &in, hex), BW_OK);
    assert_int_equal(bw_facts_get(f->ctx, f->dir, bw_str_c(hex), &out), BW_OK);
    assert_true(bw_str_eq(out.schema, in.schema) && bw_str_eq(out.catalogue, in.catalogue) && bw_str_eq(out.entities, in.entities));
    assert_true(out.overlay.len == 0 && bw_str_eq(out.cell.id, in.cell.id) && out.cell.ncerts == 2 && out.cell.nhw == 0);
    assert_true(bw_str_eq(out.cell.certs[1], certs[1]));
    in.cell.country = BW_STR("DE"); /* the place is a fact as well */
    assert_int_equal(bw_facts_keep(f->ctx, f->dir, &in, other), BW_OK);
    assert_string_not_equal(hex, other);
    in.overlay = in.entities; /* and so is which of the texts is which */
    in.entities = (bw_str){NULL, 0};
    assert_int_equal(bw_facts_keep(f->ctx, f->dir, &in, hex), BW_OK);
    assert_string_not_equal(hex, other);
}

/* A file where the folder must be: our fault, said as such; nothing is taken for kept. */
static void test_archive__fails_whole(void **state)
{
    fixture *f = *state;
    char hex[BW_DIGEST_TEXT + 1] = "";
    bw_facts facts = {.schema = BW_STR("s"), .catalogue = BW_STR("c"), .cell = {.id = BW_STR("x")}};
    assert_int_equal(bw_file_replace(f->ctx, bw_path_join(f->ctx, f->dir, "facts"), BW_STR("x"), 0600), BW_OK);
    assert_int_equal(bw_facts_keep(f->ctx, f->dir, &facts, hex), BW_EIO);
    assert_string_equal(hex, "");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_archive__keeps_and_proves), T(test_facts__come_back_as_they_were),
                                       T(test_archive__fails_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
