/* Files of blocks: what is read is what was written, or an error; never anything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/store/blockfile.h"
#include "engine/store/failpoint.h"
#include "engine/store/fs.h"
#include "failing_alloc.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LENGTH = 3 * BW_BLOCK_DATA + 1234, BLOCKS = 5 }; /* head, three full, a part */

typedef struct place {
    char dir[64], path[96];
    bw_ctx *ctx;
    bw_block_cache *cache;
    unsigned char id[BW_BLOCK_ID], key[BW_BLOCK_KEY];
    unsigned char *content;
} place;

static unsigned char byte_at(size_t i)
{
    return (unsigned char)((i * 2654435761u) >> 13);
}

static bw_status write_file(place *p, const char *name, size_t piece)
{
    bw_block_writer *w = NULL;
    bw_status st = bw_block_writer_new(p->ctx, p->dir, name, p->id, p->key, &w);
    if (st != BW_OK)
        return st;
    for (size_t at = 0; at < LENGTH; at += piece) {
        size_t n = LENGTH - at < piece ? LENGTH - at : piece;
        if ((st = bw_block_write(p->ctx, w, p->content + at, n)) != BW_OK) {
            bw_block_writer_abandon(w);
            return st;
        }
    }
    return bw_block_writer_finish(p->ctx, w);
}

static int setup(void **state)
{
    failing_set();
    place *p = calloc(1, sizeof *p);
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(p->dir, sizeof p->dir, "%s/bw-test-XXXXXX", base);
    assert_non_null(mkdtemp(p->dir));
    (void)snprintf(p->path, sizeof p->path, "%s/rows", p->dir);
    p->ctx = bw_ctx_new(0);
    p->cache = bw_block_cache_new(0);
    assert_non_null(p->cache);
    memset(p->id, 3, sizeof p->id);
    memset(p->key, 5, sizeof p->key);
    p->content = malloc(LENGTH);
    for (size_t i = 0; i < LENGTH; i++)
        p->content[i] = byte_at(i);
    assert_int_equal(write_file(p, "rows", 1000), BW_OK);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    place *p = *state;
    bw_block_cache_free(p->cache);
    bw_ctx_free(p->ctx);
    (void)unlink(p->path);
    assert_int_equal(rmdir(p->dir), 0); /* nothing else was left in it */
    free(p->content);
    free(p);
    return 0;
}

static bw_blockfile *file_of(place *p)
{
    bw_blockfile *f = bw_blockfile_new(p->cache, p->path, p->id, p->key, LENGTH);
    assert_non_null(f);
    return f;
}

static void test_blockfile__reads_what_was_written(void **state)
{
    place *p = *state;
    struct stat sb;
    assert_int_equal(stat(p->path, &sb), 0);
    assert_int_equal(sb.st_size, BLOCKS * BW_BLOCK_BYTES);
    bw_blockfile *f = file_of(p);
    assert_int_equal(bw_blockfile_check(p->ctx, f), BW_OK);
    unsigned char *out = malloc(LENGTH);
    assert_int_equal(bw_blockfile_read(p->ctx, f, 0, LENGTH, out), BW_OK);
    assert_memory_equal(out, p->content, LENGTH);
    static const size_t edges[] = {0,
                                   1,
                                   BW_BLOCK_DATA - 1,
                                   BW_BLOCK_DATA,
                                   BW_BLOCK_DATA + 1,
                                   2 * BW_BLOCK_DATA,
                                   LENGTH - 1,
                                   LENGTH};
    for (size_t i = 0; i < 8; i++)
        for (size_t j = i; j < 8; j++) {
            memset(out, 0xee, LENGTH);
            size_t n = edges[j] - edges[i];
            assert_int_equal(bw_blockfile_read(p->ctx, f, edges[i], n, out), BW_OK);
            assert_memory_equal(out, p->content + edges[i], n);
        }
    bw_block_cache_stats s;
    bw_block_cache_stats_get(p->cache, &s);
    assert_int_equal(s.misses, 4); /* all four fit: each was read from the file once */
    assert_true(s.hits > 20);
    assert_int_equal(s.bytes, 4 * BW_BLOCK_BYTES);
    bw_blockfile_free(f);
    bw_block_cache_stats_get(p->cache, &s);
    assert_int_equal(s.bytes, 0); /* they went with their file */
    free(out);
}

static void test_blockfile__same_bytes_for_any_pieces(void **state)
{
    place *p = *state;
    bw_buf a = {0}, b = {0};
    assert_int_equal(bw_fs_read(p->ctx, p->path, 1 << 20, &a), BW_OK);
    static const size_t pieces[] = {1, 65535, LENGTH};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(write_file(p, "rows", pieces[i]), BW_OK);
        b.len = 0;
        assert_int_equal(bw_fs_read(p->ctx, p->path, 1 << 20, &b), BW_OK);
        assert_int_equal(a.len, b.len);
        assert_memory_equal(a.ptr, b.ptr, a.len);
    }
    bw_buf_clear(&a);
    bw_buf_clear(&b);
}

/* Reads block by block; every good block has to be right, all others refused. */
static unsigned count_refused(place *p)
{
    bw_blockfile *f = file_of(p);
    unsigned char *out = malloc(BW_BLOCK_DATA);
    unsigned refused = 0;
    for (size_t at = 0; at < LENGTH; at += BW_BLOCK_DATA) {
        size_t n = LENGTH - at < BW_BLOCK_DATA ? LENGTH - at : BW_BLOCK_DATA;
        bw_status st = bw_blockfile_read(p->ctx, f, at, n, out);
        if (st == BW_OK)
            assert_memory_equal(out, p->content + at, n);
        else
            assert_int_equal(st, BW_ECORRUPT);
        refused += st != BW_OK;
    }
    free(out);
    bw_blockfile_free(f);
    return refused;
}

static void change(const char *path, long at, unsigned char mask)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    int ch = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_not_equal(fputc(ch ^ mask, f), EOF);
    assert_int_equal(fclose(f), 0);
}

static void test_blockfile__a_changed_byte_is_found(void **state)
{
    place *p = *state;
    assert_int_equal(count_refused(p), 0);
    for (unsigned block = 0; block < BLOCKS; block++) {
        /* magic, length, identity, zeros of the head; data; MAC */
        static const long in_block[] = {0,
                                        9,
                                        20,
                                        100,
                                        40000,
                                        BW_BLOCK_DATA - 1,
                                        BW_BLOCK_DATA,
                                        BW_BLOCK_BYTES - 1};
        for (size_t i = 0; i < sizeof in_block / sizeof *in_block; i++) {
            long at = (long)block * BW_BLOCK_BYTES + in_block[i];
            unsigned char mask = (unsigned char)(1u << (i % 8));
            change(p->path, at, mask);
            /* Without its head the file is nobody's; else one block is lost alone. */
            assert_int_equal(count_refused(p), block == 0 ? 4 : 1);
            change(p->path, at, mask);
        }
    }
    assert_int_equal(count_refused(p), 0);
}

static void test_blockfile__blocks_do_not_change_places(void **state)
{
    place *p = *state;
    bw_buf a = {0};
    assert_int_equal(bw_fs_read(p->ctx, p->path, 1 << 20, &a), BW_OK);
    int fd = open(p->path, O_RDWR);
    assert_true(fd >= 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pwrite(fd, a.ptr + (1 + i) * BW_BLOCK_BYTES, BW_BLOCK_BYTES,
                                (off_t)(2 - i) * BW_BLOCK_BYTES),
                         BW_BLOCK_BYTES);
    assert_int_equal(close(fd), 0);
    assert_int_equal(count_refused(p), 2);
    bw_buf_clear(&a);
}

static void test_blockfile__short_long_and_missing_files_are_refused(void **state)
{
    place *p = *state;
    static const off_t sizes[] = {0,
                                  1,
                                  BW_BLOCK_BYTES - 1,
                                  BW_BLOCK_BYTES,
                                  (BLOCKS - 1) * BW_BLOCK_BYTES,
                                  BLOCKS * BW_BLOCK_BYTES - 1,
                                  BLOCKS * BW_BLOCK_BYTES + 1,
                                  (BLOCKS + 1) * BW_BLOCK_BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(write_file(p, "rows", 5000), BW_OK);
        assert_int_equal(truncate(p->path, sizes[i]), 0);
        bw_blockfile *f = file_of(p);
        assert_int_equal(bw_blockfile_check(p->ctx, f), BW_ECORRUPT);
        bw_blockfile_free(f);
    }
    assert_int_equal(write_file(p, "rows", 5000), BW_OK);
    bw_blockfile *f = file_of(p);
    assert_int_equal(bw_blockfile_check(p->ctx, f), BW_OK);
    assert_int_equal(truncate(p->path, 2 * BW_BLOCK_BYTES), 0); /* while it is open */
    unsigned char c;
    assert_int_equal(bw_blockfile_read(p->ctx, f, 0, 1, &c), BW_OK);
    assert_int_equal(bw_blockfile_read(p->ctx, f, LENGTH - 1, 1, &c), BW_ECORRUPT);
    bw_blockfile_free(f);
    assert_int_equal(unlink(p->path), 0);
    f = file_of(p);
    assert_int_equal(bw_blockfile_check(p->ctx, f), BW_ENOTFOUND);
    bw_blockfile_free(f);
}

static void test_blockfile__another_key_identity_or_length_is_refused(void **state)
{
    place *p = *state;
    for (unsigned i = 0; i < 3; i++) {
        place q = *p;
        q.key[i == 0 ? 31 : 0] ^= i == 0;
        q.id[63] ^= i == 1;
        bw_blockfile *f =
            bw_blockfile_new(q.cache, q.path, q.id, q.key, LENGTH - (i == 2));
        unsigned char c;
        assert_int_equal(bw_blockfile_read(p->ctx, f, 0, 1, &c), BW_ECORRUPT);
        bw_blockfile_free(f);
    }
    assert_int_equal(count_refused(p), 0);
}

/* A file that is open outlives its name: readers of an older state go on. */
static void test_blockfile__an_open_file_outlives_its_name(void **state)
{
    place *p = *state;
    bw_blockfile *f = file_of(p);
    assert_int_equal(bw_blockfile_check(p->ctx, f), BW_OK);
    assert_int_equal(unlink(p->path), 0);
    unsigned char *out = malloc(LENGTH);
    assert_int_equal(bw_blockfile_read(p->ctx, f, 0, LENGTH, out), BW_OK);
    assert_memory_equal(out, p->content, LENGTH);
    free(out);
    bw_blockfile_free(f);
}

/* ---- many readers ---- */

typedef struct reader {
    place *p;
    bw_blockfile *files[4];
    unsigned seed;
    unsigned wrong;
} reader;

static void *read_much(void *arg)
{
    reader *r = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    unsigned char out[300];
    uint32_t x = r->seed;
    for (int i = 0; i < 4000; i++) {
        x = x * 1664525u + 1013904223u;
        size_t n = 1 + (x >> 8) % sizeof out, at = (x >> 4) % (LENGTH - n);
        if (bw_blockfile_read(ctx, r->files[x >> 30], at, n, out) != BW_OK ||
            memcmp(out, r->p->content + at, n) != 0)
            r->wrong++;
    }
    bw_ctx_free(ctx);
    return NULL;
}

/* 16 blocks in 8 slots and 8 threads: slots go from hand to hand all the time. */
static void test_blockfile__many_readers_share_few_slots(void **state)
{
    place *p = *state;
    reader r[8];
    bw_blockfile *files[4];
    for (unsigned i = 0; i < 4; i++)
        files[i] = file_of(p);
    pthread_t t[8];
    for (unsigned i = 0; i < 8; i++) {
        r[i] = (reader){.p = p, .seed = 77 + i};
        memcpy(r[i].files, files, sizeof files);
        assert_int_equal(pthread_create(&t[i], NULL, read_much, &r[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(r[i].wrong, 0);
    }
    bw_block_cache_stats s;
    bw_block_cache_stats_get(p->cache, &s);
    assert_true(s.bytes <= s.bytes_max && s.bytes_max == 8 * BW_BLOCK_BYTES);
    assert_true(s.hits > 0 && s.misses >= 16);
    for (unsigned i = 0; i < 4; i++)
        bw_blockfile_free(files[i]);
}

/* ---- faults ---- */

static bool left_files(const place *p)
{
    char tmp[128];
    (void)snprintf(tmp, sizeof tmp, "%s/rows.tmp", p->dir);
    return access(tmp, F_OK) == 0;
}

static void test_blockfile__no_memory_is_an_error_and_leaves_nothing(void **state)
{
    place *p = *state;
    assert_int_equal(unlink(p->path), 0);
    for (long n = 0;; n++) {
        long live = failing_live;
        bw_ctx_reset(p->ctx);
        failing_arm(n, true);
        bw_status st = write_file(p, "rows", 9999);
        bool hit = failing_hit;
        failing_arm(-1, false);
        assert_true(failing_live - live <= 1); /* the ctx keeps a block */
        assert_false(left_files(p));
        if (!hit) {
            assert_int_equal(st, BW_OK);
            break;
        }
        assert_int_equal(st, BW_ENOMEM);
        assert_int_not_equal(access(p->path, F_OK), 0);
    }
    for (long n = 0;; n++) {
        failing_arm(n, false);
        bw_blockfile *f = bw_blockfile_new(p->cache, p->path, p->id, p->key, LENGTH);
        unsigned char out[16];
        bw_status st =
            f ? bw_blockfile_read(p->ctx, f, BW_BLOCK_DATA - 8, sizeof out, out)
              : BW_ENOMEM;
        bool hit = failing_hit;
        failing_arm(-1, false);
        if (st == BW_OK)
            assert_memory_equal(out, p->content + BW_BLOCK_DATA - 8, sizeof out);
        else
            assert_int_equal(st, BW_ENOMEM);
        bw_blockfile_free(f);
        if (!hit)
            break;
    }
    failing_arm(0, true);
    bw_block_cache *none = bw_block_cache_new(1 << 20);
    failing_arm(-1, false);
    assert_null(none);
}

#ifdef BW_DEBUG
static int fail_at;

static bw_status fail_write(const char *name)
{
    if (strcmp(name, "blockfile.write") != 0 && strcmp(name, "blockfile.read") != 0)
        return BW_OK;
    return fail_at-- == 0 ? BW_EIO : BW_OK;
}

static void test_blockfile__a_failed_write_or_read_changes_nothing(void **state)
{
    place *p = *state;
    for (int i = 0; i < BLOCKS; i++) {
        fail_at = i;
        bw_failpoint_set(fail_write);
        assert_int_equal(write_file(p, "rows", 4096), BW_EIO);
        bw_failpoint_set(NULL);
        assert_false(left_files(p));
        assert_int_equal(count_refused(p), 0); /* the old one is as it was */
    }
    bw_blockfile *f = file_of(p);
    unsigned char c;
    for (int i = 0; i < 2; i++) { /* the head; the block */
        fail_at = i;
        bw_failpoint_set(fail_write);
        assert_int_equal(bw_blockfile_read(p->ctx, f, 5, 1, &c), BW_EIO);
        bw_failpoint_set(NULL);
        bw_blockfile_free(f);
        f = file_of(p);
    }
    assert_int_equal(bw_blockfile_read(p->ctx, f, 5, 1, &c), BW_OK);
    assert_int_equal(c, p->content[5]);
    bw_blockfile_free(f);
}
#endif

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_blockfile__reads_what_was_written),
        T(test_blockfile__same_bytes_for_any_pieces),
        T(test_blockfile__a_changed_byte_is_found),
        T(test_blockfile__blocks_do_not_change_places),
        T(test_blockfile__short_long_and_missing_files_are_refused),
        T(test_blockfile__another_key_identity_or_length_is_refused),
        T(test_blockfile__an_open_file_outlives_its_name),
        T(test_blockfile__many_readers_share_few_slots),
        T(test_blockfile__no_memory_is_an_error_and_leaves_nothing),
#ifdef BW_DEBUG
        T(test_blockfile__a_failed_write_or_read_changes_nothing),
#endif
    };
    return cmocka_run_group_tests_name("blockfile", tests, NULL, NULL);
}
