/* The cell's files: few descriptors for many classes, damage that stays where it is. */
#include "engine_cell.h"

#include <dirent.h>
#include <sys/resource.h>

enum { DIM = 4 };

static int setup(void **state)
{
    cell *c = calloc(1, sizeof *c);
    cell_init(c, NULL);
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    cell *c = *state;
    cell_clear(c);
    free(c);
    return 0;
}

static unsigned open_descriptors(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* BW_NIGHTLY=1 takes 2,000 classes. */
static void test_files__many_classes_need_few_descriptors(void **state)
{
    cell *c = *state;
    unsigned classes = getenv("BW_NIGHTLY") ? 2000 : 300;
    bw_engine_close(c->engine);
    c->engine = NULL;
    c->options.open_partitions_max = 16;
    c->options.null_sync = true;
    cell_open(c);
    struct rlimit old, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = 80;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    cell_collection(c, DIM, BW_METRIC_DOT, classes);
    bw_access a = cell_access(c, 1, classes);
    bw_write_result r;
    bw_point *p = bw_arena_calloc(c->ctx, classes, sizeof *p);
    for (unsigned i = 0; i < classes; i++)
        p[i] = cell_point(c, i + 1, i, DIM, "word");
    /* One transaction over every class, then one by one. */
    bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = classes};
    OK(cell_write(c, &a, &op, 1, &r));
    assert_int_equal(cell_count(c, 1, classes), classes);
    for (unsigned i = 0; i < classes; i += 7) {
        op = (bw_op){.kind = BW_OP_UPSERT, .points = &p[i], .npoints = 1};
        OK(cell_write(c, &a, &op, 1, &r));
    }
    assert_true(open_descriptors() < 60);
    cell_reopen(c);
    bw_permit all = cell_permit(c, 1, classes);
    bw_view v;
    OK(bw_view_open(c->ctx, c->engine, TENANT, NAME, &all, 0, &v));
    assert_int_equal(v.nparts, classes);
    const bw_str *terms;
    size_t nterms, found = 0;
    OK(bw_text_terms(c->ctx, BW_STR("words"), &terms, &nterms));
    for (size_t i = 0; i < v.nparts; i++) {
        bw_text_stats stats = {0};
        const bw_text_match *m;
        size_t n;
        OK(bw_snapshot_text(c->ctx, v.parts[i], terms, nterms,
                            bw_snapshot_live(v.parts[i]), &stats, &m, &n));
        found += n;
    }
    assert_int_equal(found, classes);
    bw_view_close(&v);
    assert_true(open_descriptors() < 60);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* ---- damage ---- */

static void damage(cell *c, unsigned number, const char *what)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/p/%u.db", c->dir, number);
    if (strcmp(what, "missing") == 0) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    if (strcmp(what, "short") == 0) {
        assert_int_equal(truncate(path, 5000), 0);
        return;
    }
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long size = ftell(f);
    if (strcmp(what, "foreign") == 0) {
        assert_int_equal(fseek(f, 0, SEEK_SET), 0);
        assert_true(fwrite("not a database at all", 1, 21, f) == 21);
    } else { /* a flipped bit in a stored row: the text "needle" is in it */
        char *all = malloc((size_t)size);
        assert_non_null(all);
        assert_int_equal(fseek(f, 0, SEEK_SET), 0);
        assert_int_equal(fread(all, 1, (size_t)size, f), size);
        char *at = memmem(all, (size_t)size, "\"needle\"", 8);
        assert_non_null(at);
        assert_int_equal(fseek(f, at - all + 1, SEEK_SET), 0);
        assert_int_equal(fputc('m', f), 'm');
        free(all);
    }
    assert_int_equal(fclose(f), 0);
}

static bw_status open_class(cell *c, bw_str name, unsigned class_no)
{
    bw_permit p = cell_permit(c, class_no, class_no);
    bw_view v;
    bw_status st = bw_view_open(c->ctx, c->engine, TENANT, name, &p, 0, &v);
    if (st == BW_OK)
        bw_view_close(&v);
    return st;
}

static void test_files__damage_stays_where_it_is(void **state)
{
    static const char *const kinds[] = {"missing", "short", "foreign", "bit"};
    cell *c = *state;
    for (unsigned k = 0; k < 4; k++) {
        cell_collection(c, DIM, BW_METRIC_DOT, 2);
        bw_point p[2] = {cell_point(c, 1, 1, DIM, NULL),
                         cell_point(c, 2, 2, DIM, NULL)};
        p[0].payload = p[1].payload = BW_STR("{\"k\":\"needle\"}");
        cell_upsert(c, p, 2);
        bw_engine_close(c->engine);
        c->engine = NULL;
        damage(c, 2 * k + 2, kinds[k]);
        cell_open(c);
        bw_status st = open_class(c, NAME, 2);
        if (st != BW_ECORRUPT)
            fail_msg("%s: %s", kinds[k], bw_status_name(st));
        const char *message = bw_ctx_message(c->ctx);
        assert_null(strstr(message, c->dir)); /* no path in a message */
        assert_int_equal(open_class(c, NAME, 1), BW_OK);
        /* A write that touches the damaged class is refused whole. */
        bw_access a = cell_access(c, 1, 2);
        bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = 2};
        bw_write_result r;
        assert_int_equal(cell_write(c, &a, &op, 1, &r), BW_ECORRUPT);
        a = cell_access(c, 1, 1);
        op.npoints = 1;
        OK(cell_write(c, &a, &op, 1, &r));
        bool existed;
        OK(bw_collection_drop(c->ctx, c->engine, TENANT, NAME, &existed));
    }
}

static void test_files__two_partitions_cannot_change_places(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_DOT, 2);
    bw_point p[2] = {cell_point(c, 1, 1, DIM, NULL), cell_point(c, 2, 2, DIM, NULL)};
    cell_upsert(c, p, 2);
    bw_engine_close(c->engine);
    c->engine = NULL;
    char a[128], b[128], t[128];
    (void)snprintf(a, sizeof a, "%s/p/1.db", c->dir);
    (void)snprintf(b, sizeof b, "%s/p/2.db", c->dir);
    (void)snprintf(t, sizeof t, "%s/p/t.db", c->dir);
    assert_int_equal(rename(a, t) | rename(b, a) | rename(t, b), 0);
    cell_open(c);
    assert_int_equal(open_class(c, NAME, 1), BW_ECORRUPT);
    assert_int_equal(open_class(c, NAME, 2), BW_ECORRUPT);
}

static void test_files__a_lost_catalogue_costs_no_partition(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_DOT, 1);
    bw_point p = cell_point(c, 1, 1, DIM, NULL);
    cell_upsert(c, &p, 1);
    bw_engine_close(c->engine);
    c->engine = NULL;
    char now[128], away[128];
    (void)snprintf(now, sizeof now, "%s/catalogue.db", c->dir);
    (void)snprintf(away, sizeof away, "%s/away", c->dir);
    assert_int_equal(rename(now, away), 0);
    assert_int_equal(bw_engine_open(c->ctx, c->dir, &c->options, &c->engine),
                     BW_ECORRUPT);
    assert_int_not_equal(access(now, F_OK), 0);
    assert_int_equal(rename(away, now), 0);
    cell_open(c);
    assert_int_equal(cell_count(c, 1, 1), 1);
}

static void test_files__deleted_text_leaves_the_file(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_DOT, 1);
    bw_point p = cell_point(c, 1, 1, DIM, NULL);
    p.payload = BW_STR("{\"secret\":\"needleneedle\"}");
    cell_upsert(c, &p, 1);
    bw_access a = cell_access(c, 1, 1);
    bw_op op = {.kind = BW_OP_DELETE, .ids = &p.id, .nids = 1};
    bw_write_result r;
    OK(cell_write(c, &a, &op, 1, &r));
    bw_engine_close(c->engine);
    c->engine = NULL;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/p/1.db", c->dir);
    bw_buf all = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    for (int ch; (ch = fgetc(f)) != EOF;)
        bw_buf_putc(&all, (char)ch);
    assert_int_equal(fclose(f), 0);
    assert_null(memmem(all.ptr, all.len, "needleneedle", 12));
    bw_buf_clear(&all);
    cell_open(c);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_files__many_classes_need_few_descriptors),
        T(test_files__damage_stays_where_it_is),
        T(test_files__two_partitions_cannot_change_places),
        T(test_files__a_lost_catalogue_costs_no_partition),
        T(test_files__deleted_text_leaves_the_file),
    };
    return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
