/* Rows on file whose blocks are damaged: every read and write that meets them is answered
 * as if nothing had been, the file is made again at once, and it is logged and counted
 * once. Failures are clean and do not last. Another class's damage is left alone. */
#include "engine_cell.h"

#include "engine/partition/part.h"
#include "engine/store/failpoint.h"

#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum { DIM = 256, ROWS = 500, SEAL = 400 }; /* 1,024 bytes a row: seven blocks */

static uint32_t seal_rows = SEAL;
static uint64_t rows_each = ROWS;

static void make(cell *c, bw_dtype t, unsigned nclasses)
{
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    o.seal_rows = seal_rows;
    o.block_cache_bytes = 1; /* eight blocks at least */
    cell_init(c, &o);
    bw_vector_spec spec = {.name = BW_STR(""),
                           .dim = DIM,
                           .metric = BW_METRIC_MANHATTAN, /* has no graph */
                           .dtype = t,
                           .on_disk = true};
    bw_collection_info info = {
        .tenant = TENANT, .name = NAME, .vectors = &spec, .nvectors = 1};
    OK(bw_collection_create(c->ctx, c->engine, &info));
    for (unsigned i = 1; i <= nclasses; i++) {
        bw_class_id id = cell_class(i);
        OK(bw_class_put(c->ctx, c->engine, &id, BW_STR("labels")));
        for (uint64_t at = 0; at < rows_each; at += 50)
            cell_upsert_range(c, i, i * 10000 + at, i * 10000 + at + 50, DIM);
    }
    bw_ctx_reset(c->ctx);
}

/* One byte of every block but the head, or all blocks away. Returns the files. */
static size_t damage(const cell *c, const char *pattern, bool cut)
{
    char path[128];
    glob_t found;
    assert_true(snprintf(path, sizeof path, "%s/p/%s", c->dir, pattern) < (int)sizeof path);
    if (glob(path, 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat sb;
        int fd = open(found.gl_pathv[i], O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0 && fstat(fd, &sb) == 0);
        if (cut)
            assert_int_equal(ftruncate(fd, BW_BLOCK_BYTES), 0);
        for (off_t at = BW_BLOCK_BYTES + 777; !cut && at < sb.st_size; at += BW_BLOCK_BYTES) {
            unsigned char byte;
            assert_int_equal(pread(fd, &byte, 1, at), 1);
            byte ^= 1;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        close(fd);
    }
    size_t n = found.gl_pathc;
    globfree(&found);
    return n;
}

/* Nothing is in the cache, and the one file of the one class is damaged. */
static void reopen_damaged(cell *c, bool cut)
{
    cell_reopen(c);
    assert_int_equal(cell_count(c, 1, 1), ROWS);
    assert_int_equal(damage(c, "*.rows", cut), 1);
}

/* ---- asking ---- */

static bw_status ask(const cell *of, unsigned class_no, bool vectors, bw_str *out)
{
    cell own = *of, *c = &own;
    bw_permit permit = cell_permit(c, class_no, class_no);
    bw_read read = {.tenant = TENANT,
                    .name = NAME,
                    .permit = &permit,
                    .now_ns = 1,
                    .no_vectors = !vectors};
    float *v = bw_arena_alloc(c->ctx, DIM * sizeof *v);
    memcpy(v, cell_point(c, 9, 77, DIM, NULL).vectors->values, DIM * sizeof *v);
    bw_query q = {.kind = BW_QUERY_NEAREST,
                  .using_name = BW_STR(""),
                  .target = {.vector = {.values = v, .n = DIM}},
                  .limit = 450,
                  .exact = true};
    bw_result *r = NULL;
    bw_status st = bw_query_run(c->ctx, c->engine, &read, &q, 1, &r);
    if (st != BW_OK)
        return st;
    size_t n;
    const bw_hit *hits = bw_result_hits(r, 0, &n);
    bw_buf b = {0};
    for (size_t i = 0; i < n; i++) {
        bw_buf_printf(&b, "%llu %a", (unsigned long long)hits[i].id.lo,
                      (double)hits[i].score);
        for (uint32_t k = 0; k < hits[i].nvectors; k++)
            for (uint32_t d = 0; d < hits[i].vectors[k].n; d++)
                bw_buf_printf(&b, " %a", (double)hits[i].vectors[k].values[d]);
        bw_buf_putc(&b, '\n');
    }
    bw_result_free(r);
    OK(bw_arena_str(c->ctx, bw_buf_view(&b), out));
    bw_buf_clear(&b);
    return st;
}

/* All rows by their ids, with vectors: ids are looked up one by one. */
static bw_str retrieve(cell *c, unsigned class_no)
{
    bw_permit permit = cell_permit(c, class_no, class_no);
    bw_read read = {.tenant = TENANT, .name = NAME, .permit = &permit, .now_ns = 1};
    bw_point_id ids[ROWS];
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = cell_id(class_no * 10000 + i);
    bw_result *r = NULL;
    OK(bw_retrieve(c->ctx, c->engine, &read, ids, ROWS, &r));
    size_t n;
    const bw_hit *hits = bw_result_hits(r, 0, &n);
    assert_int_equal(n, ROWS);
    bw_buf b = {0};
    for (size_t i = 0; i < n; i++)
        bw_buf_put(&b, (const char *)hits[i].vectors[0].values, DIM * sizeof(float));
    bw_result_free(r);
    bw_str out;
    OK(bw_arena_str(c->ctx, bw_buf_view(&b), &out));
    bw_buf_clear(&b);
    return out;
}

/* ---- tests ---- */

static void test_heal__a_search_is_answered_and_the_file_made_again(void **state)
{
    (void)state;
    static const bw_dtype types[] = {BW_DTYPE_F32, BW_DTYPE_F16, BW_DTYPE_I8};
    for (size_t t = 0; t < 3; t++)
        for (int cut = 0; cut < 2; cut++) {
            cell own, *c = &own;
            bw_str want, got;
            make(c, types[t], 1);
            OK(ask(c, 1, true, &want));
            reopen_damaged(c, cut);
            OK(ask(c, 1, true, &got));
            assert_true(bw_str_eq(want, got));
            assert_int_equal(cell_figure(c, "row_files_damaged"), 1);
            assert_int_equal(cell_figure(c, "row_files_healed"), 1);
            assert_int_equal(cell_figure(c, "row_files_not_healed"), 0);
            OK(ask(c, 1, true, &got));
            assert_true(bw_str_eq(want, got));
            assert_int_equal(cell_figure(c, "row_files_damaged"), 1);
            /* It lies there again, whole: the next damage is another one. */
            reopen_damaged(c, cut);
            OK(ask(c, 1, false, &got));
            assert_int_equal(cell_figure(c, "row_files_healed"), 1);
            cell_clear(c);
        }
}

static void test_heal__rows_are_fetched_and_moved(void **state)
{
    (void)state;
    cell own, *c = &own;
    make(c, BW_DTYPE_F32, 1);
    bw_str want = retrieve(c, 1);
    reopen_damaged(c, false);
    assert_true(bw_str_eq(want, retrieve(c, 1)));
    assert_int_equal(cell_figure(c, "row_files_healed"), 1);
    /* A change of the payload takes the row's vector along. */
    reopen_damaged(c, false);
    bw_access a = cell_access(c, 1, 1);
    bw_point_id id = cell_id(10000);
    bw_op op = {.kind = BW_OP_OVERWRITE_PAYLOAD,
                .ids = &id,
                .nids = 1,
                .payload = BW_STR("{\"b\":1}")};
    bw_write_result r;
    OK(cell_write(c, &a, &op, 1, &r));
    assert_int_equal(r.points_changed, 1);
    assert_int_equal(cell_figure(c, "row_files_healed"), 1);
    assert_true(bw_str_eq(want, retrieve(c, 1)));
    cell_reopen(c);
    assert_true(bw_str_eq(want, retrieve(c, 1)));
    cell_clear(c);
}

/* The rows of the segment are gathered into another one. */
static void test_heal__a_seal_goes_on(void **state)
{
    (void)state;
    cell own, *c = &own;
    make(c, BW_DTYPE_F32, 1);
    bw_str want = retrieve(c, 1);
    reopen_damaged(c, false);
    bw_permit permit = cell_permit(c, 1, 1);
    bw_status st = bw_collection_seal(c->ctx, c->engine, TENANT, NAME, &permit);
    if (st != BW_OK) /* the first may fail, cleanly */
        assert_int_equal(st, BW_ECORRUPT);
    OK(bw_collection_seal(c->ctx, c->engine, TENANT, NAME, &permit));
    assert_true(bw_str_eq(want, retrieve(c, 1)));
    assert_int_equal(cell_figure(c, "segments_sealed"), 1);
    cell_reopen(c);
    assert_true(bw_str_eq(want, retrieve(c, 1)));
    cell_clear(c);
}

/* A reader keeps the snapshot from before a row was deleted: the store has its vector yet. */
static void test_heal__an_older_snapshot_is_mended_too(void **state)
{
    (void)state;
    cell own, *c = &own;
    make(c, BW_DTYPE_F16, 1);
    cell_reopen(c);
    bw_view old = cell_view(c, 1, 1);
    bw_access a = cell_access(c, 1, 1);
    bw_point_id id = cell_id(10003), far = cell_id(10390); /* not of one block */
    uint32_t row;
    assert_true(bw_snapshot_find(old.parts[0], &far, &row));
    bw_op op = {.kind = BW_OP_DELETE, .ids = &id, .nids = 1};
    bw_write_result r;
    OK(cell_write(c, &a, &op, 1, &r));
    assert_int_equal(damage(c, "*.rows", true), 1);
    const float *v;
    assert_int_equal(bw_snapshot_dense(c->ctx, old.parts[0], 0, row, &v), BW_ECORRUPT);
    bw_view now = cell_view(c, 1, 1);
    OK(bw_snapshot_dense(c->ctx, old.parts[0], 0, row, &v));
    assert_true(bw_snapshot_find(old.parts[0], &id, &row));
    OK(bw_snapshot_dense(c->ctx, old.parts[0], 0, row, &v));
    assert_int_equal(cell_figure(c, "row_files_healed"), 1);
    bw_view_close(&now);
    bw_view_close(&old);
    cell_clear(c);
}

static void test_heal__another_class_is_left_alone(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_str want, got;
    make(c, BW_DTYPE_F32, 2);
    OK(ask(c, 1, false, &want));
    cell_reopen(c);
    assert_int_equal(cell_count(c, 1, 2), 2 * ROWS);
    bw_view both = cell_view(c, 1, 2);
    assert_int_equal(damage(c, "*.rows", false), 2);
    const float *v; /* the second class's is met, and not mended */
    assert_int_equal(bw_snapshot_dense(c->ctx, both.parts[1], 0, 0, &v), BW_ECORRUPT);
    bw_view_close(&both);
    OK(ask(c, 1, false, &got));
    assert_true(bw_str_eq(want, got));
    assert_int_equal(cell_figure(c, "row_files_damaged"), 2);
    assert_int_equal(cell_figure(c, "row_files_healed"), 1);
    OK(ask(c, 2, false, &got));
    assert_int_equal(cell_figure(c, "row_files_healed"), 2);
    cell_clear(c);
}

/* A start gathers a merge in the making from rows on file. */
static void test_heal__a_start_mends_what_it_reads(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_str want, got;
    seal_rows = 100;
    rows_each = 450; /* four segments of 100, and their merge */
    make(c, BW_DTYPE_F32, 1);
    OK(ask(c, 1, true, &want));
    assert_int_equal(cell_figure(c, "merges_pending"), 1);
    bw_engine_close(c->engine);
    c->engine = NULL;
    assert_int_equal(damage(c, "*.rows", false), 5);
    cell_open(c);
    OK(ask(c, 1, true, &got));
    assert_true(bw_str_eq(want, got));
    assert_int_equal(cell_figure(c, "merges_pending"), 1);
    cell_upsert_range(c, 1, 20000, 20500, DIM); /* the merge is adopted */
    OK(ask(c, 1, true, &want));
    cell_reopen(c);
    OK(ask(c, 1, true, &got));
    assert_true(bw_str_eq(want, got));
    cell_clear(c);
    seal_rows = SEAL;
    rows_each = ROWS;
}

/* ---- many readers ---- */

enum { THREADS = 3, ROUNDS = 4 };
static atomic_bool ended;

typedef struct reader {
    cell c; /* with a ctx of its own */
    bw_str want;
    pthread_t thread;
    _Atomic unsigned asked;
    bw_status status;
    bool differs;
} reader;

static void *read_on(void *arg)
{
    reader *r = arg;
    bw_str got;
    while (!atomic_load(&ended) && r->status == BW_OK && !r->differs) {
        r->status = ask(&r->c, 1, false, &got);
        r->differs = r->status == BW_OK && !bw_str_eq(got, r->want);
        bw_ctx_reset(r->c.ctx);
        atomic_fetch_add(&r->asked, 1);
    }
    atomic_store(&r->asked, UINT32_MAX);
    return NULL;
}

/* Whoever meets the damage, nobody gets an error, or another answer. */
static void test_heal__under_many_readers(void **state)
{
    (void)state;
    cell own, *c = &own;
    static reader r[THREADS];
    bw_str want;
    seal_rows = 1000;
    rows_each = 1100;
    make(c, BW_DTYPE_F32, 1);
    OK(ask(c, 1, false, &want));
    atomic_store(&ended, false);
    for (int i = 0; i < THREADS; i++) {
        r[i] = (reader){.c = *c, .want = want};
        r[i].c.ctx = bw_ctx_new(0);
        assert_non_null(r[i].c.ctx);
        assert_int_equal(pthread_create(&r[i].thread, NULL, read_on, &r[i]), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        /* A read from before the last mending may have asked for another one. */
        while (cell_figure(c, "row_files_healed") != cell_figure(c, "row_files_damaged"))
            usleep(1000);
        assert_int_equal(damage(c, "*.rows", round % 2), 1);
        for (int i = 0; i < THREADS; i++) { /* two whole questions after the damage */
            unsigned from = atomic_load(&r[i].asked);
            while (atomic_load(&r[i].asked) < from + 2)
                usleep(1000);
        }
    }
    atomic_store(&ended, true);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(r[i].thread, NULL), 0);
        assert_int_equal(r[i].status, BW_OK);
        assert_false(r[i].differs);
        bw_ctx_free(r[i].c.ctx);
    }
    assert_true(cell_figure(c, "row_files_healed") >= ROUNDS);
    assert_int_equal(cell_figure(c, "row_files_healed"), cell_figure(c, "row_files_damaged"));
    cell_clear(c);
    seal_rows = SEAL;
    rows_each = ROWS;
}

#ifdef BW_DEBUG
static bw_status full_disk(const char *name)
{
    return strcmp(name, "blockfile.write") == 0 ? BW_EIO : BW_OK;
}

static void test_heal__a_try_in_vain_is_clean_and_made_again(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_str want, got;
    make(c, BW_DTYPE_F32, 1);
    OK(ask(c, 1, false, &want));
    reopen_damaged(c, false);
    bw_failpoint_set(full_disk);
    assert_int_equal(ask(c, 1, false, &got), BW_ECORRUPT);
    assert_int_equal(cell_figure(c, "row_files_not_healed"), 1);
    assert_int_equal(cell_figure(c, "row_files_healed"), 0);
    bw_failpoint_set(NULL);
    bw_status st = BW_ECORRUPT;
    for (int i = 0; st != BW_OK && i < 2000; i++) { /* a second later at the earliest */
        assert_int_equal(st, BW_ECORRUPT);
        usleep(10000);
        st = ask(c, 1, false, &got);
    }
    OK(st);
    assert_true(bw_str_eq(want, got));
    assert_int_equal(cell_figure(c, "row_files_healed"), 1);
    cell_clear(c);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heal__a_search_is_answered_and_the_file_made_again),
        cmocka_unit_test(test_heal__rows_are_fetched_and_moved),
        cmocka_unit_test(test_heal__a_seal_goes_on),
        cmocka_unit_test(test_heal__an_older_snapshot_is_mended_too),
        cmocka_unit_test(test_heal__another_class_is_left_alone),
        cmocka_unit_test(test_heal__a_start_mends_what_it_reads),
        cmocka_unit_test(test_heal__under_many_readers),
#ifdef BW_DEBUG
        cmocka_unit_test(test_heal__a_try_in_vain_is_clean_and_made_again),
#endif
    };
    return cmocka_run_group_tests_name("heal", tests, NULL, NULL);
}
