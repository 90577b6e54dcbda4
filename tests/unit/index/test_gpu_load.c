/* Where a GPU module may come from, and what is said when there is none. The module that
 * was built, if it was, is opened here without a device: it must say so, and not crash. */
#include "engine/index/gpu_load.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    char folder[64], file[96];
} fixture;

static int setup(void **state)
{
    static fixture f;
    (void)snprintf(f.folder, sizeof f.folder, "/tmp/bw_gpu_load.XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    (void)snprintf(f.file, sizeof f.file, "%s/bailiwick_cuda.so", f.folder);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    (void)chmod(f->folder, 0700);
    (void)unlink(f->file);
    (void)rmdir(f->folder);
    return 0;
}

static void put(const char *path, const char *text, mode_t mode)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void expect(const char *folder, uint32_t reason, const char *words)
{
    char text[BW_GPU_TEXT_MAX] = "";
    uint32_t got = 99;
    assert_null(bw_gpu_load_from(folder, &got, text));
    assert_int_equal(got, reason);
    if (!strstr(text, words))
        fail_msg("\"%s\" lacks \"%s\"", text, words);
}

static void test_gpu_load__says_that_nothing_is_installed(void **state)
{
    fixture *f = *state;
    expect(f->folder, BW_GPU_NO_MODULE, "no GPU module");
    expect("/nowhere/at/all", BW_GPU_NO_MODULE, "no GPU module");
}

static void test_gpu_load__refuses_what_others_may_write(void **state)
{
    fixture *f = *state;
    put(f->file, "not a library", 0666);
    expect(f->folder, BW_GPU_BAD_MODULE, "others may write to it");
    assert_int_equal(chmod(f->file, 0620), 0);
    expect(f->folder, BW_GPU_BAD_MODULE, "others may write to it");
    assert_int_equal(chmod(f->file, 0600), 0);
    assert_int_equal(chmod(f->folder, 0777), 0);
    expect(f->folder, BW_GPU_BAD_MODULE, "its folder");
    assert_int_equal(chmod(f->folder, 0700), 0);
    expect(f->folder, BW_GPU_BAD_MODULE, "does not load");
}

static void test_gpu_load__refuses_links_and_folders(void **state)
{
    fixture *f = *state;
    assert_int_equal(symlink("/etc/hostname", f->file), 0);
    expect(f->folder, BW_GPU_BAD_MODULE, "link");
    assert_int_equal(unlink(f->file), 0);
    assert_int_equal(mkdir(f->file, 0700), 0);
    expect(f->folder, BW_GPU_BAD_MODULE, "no regular file");
    assert_int_equal(rmdir(f->file), 0);
    assert_int_equal(mkfifo(f->file, 0600), 0); /* must not wait for a writer */
    expect(f->folder, BW_GPU_BAD_MODULE, "no regular file");
}

static void test_gpu_load__has_words_for_every_code(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < BW_GPU_NREASONS; r++)
        assert_true(strlen(bw_gpu_reason_text(r)) > 3);
    for (uint32_t s = BW_GPU_OK; s <= BW_GPU_UNSUPPORTED; s++)
        assert_true(strlen(bw_gpu_status_text(s)) > 1);
    assert_string_equal(bw_gpu_reason_text(BW_GPU_NREASONS), "unknown reason");
    assert_string_equal(bw_gpu_status_text(99), "unknown status");
}

static void test_gpu_load__uses_a_double_when_told(void **state)
{
    (void)state;
    static const bw_gpu_module table = {.abi = BW_GPU_ABI, .size = sizeof table, .name = "double"};
    char text[BW_GPU_TEXT_MAX];
    uint32_t reason = 99;
    bw_gpu_load_use(&table);
    assert_ptr_equal(bw_gpu_load(&reason, text), &table);
    assert_int_equal(reason, BW_GPU_READY);
    bw_gpu_load_use(NULL);
    const bw_gpu_module *m = bw_gpu_load(&reason, text);
    assert_true(m == NULL || m != &table);
}

/* The module of this build, on whatever machine: it answers, says why, and survives being
 * asked to open what is not there. Skipped where no nvcc was. */
static void test_gpu_load__module_says_what_it_found(void **state)
{
    (void)state;
    char text[BW_GPU_TEXT_MAX] = "";
    uint32_t reason = 99;
    if (access(BW_BINARY "/bailiwick_cuda.so", F_OK) != 0) {
        print_message("no module was built (no nvcc)\n");
        skip();
    }
    const bw_gpu_module *m = bw_gpu_load_from(BW_BINARY, &reason, text);
    if (!m)
        fail_msg("%s", text);
    assert_int_equal(reason, BW_GPU_READY);
    assert_int_equal(m->abi, BW_GPU_ABI);
    assert_int_equal(m->size, sizeof *m);
    assert_string_equal(m->name, "cuda");
    static bw_gpu_probe p;
    m->probe(&p);
    assert_in_range(p.reason, BW_GPU_READY, BW_GPU_FAILED);
    assert_true(p.text[0] != 0 && p.runtime >= 12000);
    print_message("probe: %s (%s)\n", bw_gpu_reason_text(p.reason), p.text);
    if (p.reason == BW_GPU_READY)
        return;
    const bw_gpu_options options = {.device = 0};
    bw_gpu *gpu = NULL;
    assert_int_not_equal(m->open(&options, &gpu, &reason, text), BW_GPU_OK);
    assert_null(gpu);
    assert_int_equal(reason, p.reason);
    m->close(NULL);
}

/* What a device holds for rows is counted without one. */
static void test_gpu_load__module_counts_bytes(void **state)
{
    (void)state;
    char text[BW_GPU_TEXT_MAX];
    uint32_t reason;
    const bw_gpu_module *m = bw_gpu_load_from(BW_BINARY, &reason, text);
    if (!m)
        skip();
    bw_gpu_shape s = {BW_GPU_F16, 384, BW_METRIC_COSINE, 32000};
    assert_int_equal(m->segment_bytes(&s), 32000 * (768 + 16) + 1000 * 8);
    s.dtype = BW_GPU_F32;
    assert_int_equal(m->segment_bytes(&s), 32000 * (768 + 1536 + 16) + 1000 * 8);
    s.dtype = BW_GPU_I8;
    s.dim = 65; /* padded to two slices */
    assert_int_equal(m->segment_bytes(&s), 32000 * (128 + 16) + 1000 * 8);
    s.metric = BW_METRIC_MANHATTAN;
    assert_int_equal(m->segment_bytes(&s), 0);
    s.metric = BW_METRIC_DOT;
    s.rows = 33;
    assert_int_equal(m->segment_bytes(&s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gpu_load__says_that_nothing_is_installed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gpu_load__refuses_what_others_may_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gpu_load__refuses_links_and_folders, setup, teardown),
        cmocka_unit_test(test_gpu_load__has_words_for_every_code),
        cmocka_unit_test(test_gpu_load__uses_a_double_when_told),
        cmocka_unit_test(test_gpu_load__module_says_what_it_found),
        cmocka_unit_test(test_gpu_load__module_counts_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
