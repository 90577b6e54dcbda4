/* Transactions over several partitions: a crash or an error at every step leaves all
 * of a write or nothing of it, and the cell goes on working. */
#include "engine_cell.h"

#include "engine/store/failpoint.h"
#include <sys/wait.h>

#ifndef BW_DEBUG
int main(void)
{
    puts("failpoints are in the debug build only");
    return 0;
}
#else

enum { DIM = 4 };

static int setup(void **state)
{
    cell *c = calloc(1, sizeof *c);
    cell_init(c, NULL);
    cell_collection(c, DIM, BW_METRIC_DOT, 6);
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

/* Moves three points between three classes, changes one, adds one to a class that may
 * have no partition yet. */
static bw_status big_write(cell *c, unsigned round)
{
    bw_point p[5];
    for (unsigned i = 0; i < 3; i++)
        p[i] = cell_point(c, 1 + (round + i) % 3, 10 + i, DIM, "moved words");
    p[3] = cell_point(c, 2, 20, DIM, NULL);
    p[4] = cell_point(c, 4 + round % 3, 100 + round, DIM, "new");
    char *payload = bw_arena_printf(c->ctx, "{\"round\":%u}", round);
    assert_non_null(payload);
    for (unsigned i = 0; i < 5; i++)
        p[i].payload = bw_str_c(payload);
    bw_access a = cell_access(c, 1, 6);
    bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = 5};
    bw_write_result r;
    return cell_write(c, &a, &op, 1, &r);
}

/* 0: the round is not there; 1: all of it is. Anything else fails the test. */
static int look(cell *c, unsigned round)
{
    char payload[40];
    (void)snprintf(payload, sizeof payload, "{\"round\":%u}", round);
    unsigned with = 0, moved = 0;
    bw_view v = cell_view(c, 1, 6);
    for (size_t i = 0; i < v.nparts; i++) {
        const bw_bitmap *live = bw_snapshot_live(v.parts[i]);
        for (size_t k = bw_bitmap_next(live, 0); k < live->nbits;
             k = bw_bitmap_next(live, k + 1)) {
            bw_row row;
            bw_snapshot_row(v.parts[i], (uint32_t)k, &row);
            with += bw_str_eq(row.payload, bw_str_c(payload));
            moved += row.id.lo >= 10 && row.id.lo < 13;
        }
    }
    bw_view_close(&v);
    assert_int_equal(moved, 3); /* never twice, never lost */
    assert_true(with == 0 || with == 5);
    return with == 5;
}

static int countdown;
static bool may_fail_here;

static bw_status die_at_zero(const char *name)
{
    (void)name;
    if (countdown-- == 0)
        _exit(9);
    return BW_OK;
}

static bw_status fail_at_zero(const char *name)
{
    if (strcmp(name, "db.committed") == 0)
        return BW_OK; /* a place to die at only */
    may_fail_here = true;
    return countdown-- == 0 ? BW_EIO : BW_OK;
}

/* A child writes and dies at its n-th step; true when it got through. */
static bool child_writes(cell *c, unsigned round, int n)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        cell child = *c;
        child.ctx = bw_ctx_new(0);
        if (bw_engine_open(child.ctx, child.dir, &child.options, &child.engine) !=
            BW_OK)
            _exit(1);
        countdown = n;
        bw_failpoint_set(die_at_zero);
        _exit(big_write(&child, round) == BW_OK ? 0 : 2);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9);
    return WEXITSTATUS(status) == 0;
}

static void test_commit__a_crash_at_any_step_is_all_or_nothing(void **state)
{
    cell *c = *state;
    OK(big_write(c, 0));
    unsigned round = 1, kept = 0, dropped = 0;
    for (int n = 0;; n++, round++) {
        bw_engine_close(c->engine);
        c->engine = NULL;
        bool done = child_writes(c, round, n);
        cell_open(c);
        int there = look(c, round);
        kept += there && !done;
        dropped += !there;
        bw_str dump = cell_dump(c, 1, 6, DIM);
        cell_reopen(c); /* finishing is finished: a second start changes nothing */
        assert_true(bw_str_eq(dump, cell_dump(c, 1, 6, DIM)));
        if (done) {
            assert_int_equal(there, 1);
            break;
        }
        OK(big_write(c, ++round));
        assert_int_equal(look(c, round), 1);
    }
    print_message("%u steps: %u found the write, %u did not\n", round / 2, kept,
                  dropped);
    assert_true(kept > 3 && dropped > 3); /* both sides of the record were met */
}

static void test_commit__an_error_at_any_step_is_all_or_nothing(void **state)
{
    cell *c = *state;
    OK(big_write(c, 0));
    unsigned round = 1, refused = 0;
    for (int n = 0;; n++, round++) {
        countdown = n;
        may_fail_here = false;
        bw_failpoint_set(fail_at_zero);
        bw_status st = big_write(c, round);
        bw_failpoint_set(NULL);
        assert_true(may_fail_here);
        assert_int_equal(look(c, round), st == BW_OK);
        refused += st != BW_OK;
        OK(big_write(c, ++round));
        assert_int_equal(look(c, round), 1);
        bw_str dump = cell_dump(c, 1, 6, DIM);
        if (n % 4 == 0)
            cell_reopen(c);
        assert_true(bw_str_eq(dump, cell_dump(c, 1, 6, DIM)));
        if (countdown >= 0)
            break;
    }
    assert_true(refused > 5);
    cell_reopen(c);
    assert_int_equal(look(c, round), 1);
}

/* Ids whose text has the word, in one snapshot, as a sum of 2^id. */
static unsigned long long find_text(cell *c, const bw_snapshot *s, const char *word)
{
    const bw_str *terms;
    size_t nterms, n;
    unsigned long long out = 0;
    OK(bw_text_terms(c->ctx, bw_str_c(word), &terms, &nterms));
    bw_text_stats stats = {0};
    const bw_text_match *m;
    OK(bw_snapshot_text(c->ctx, s, terms, nterms, bw_snapshot_live(s), &stats, &m, &n));
    for (size_t i = 0; i < n; i++)
        out += 1ull << bw_snapshot_id(s, m[i].row)->lo;
    return out;
}

static bool any_stale(cell *c)
{
    bw_str json;
    OK(bw_engine_stats(c->ctx, c->engine, &json));
    return !memmem(json.ptr, json.len, "\"partitions_stale\":0", 20);
}

static bw_status write_texts(cell *c, const char *text)
{
    bw_point p[4];
    for (unsigned i = 0; i < 4; i++)
        p[i] = cell_point(c, 1 + i % 2, i, DIM, text);
    bw_access a = cell_access(c, 1, 2);
    bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = 4};
    bw_write_result r;
    return cell_write(c, &a, &op, 1, &r);
}

static void expect_text(cell *c, const bw_view *v, const char *word, bool there)
{
    assert_int_equal(find_text(c, v->parts[0], word), there ? 1 + 4 : 0);
    assert_int_equal(find_text(c, v->parts[1], word), there ? 2 + 8 : 0);
}

/* While a file is behind, and for a reader from before it was read again. */
static void test_commit__texts_are_found_while_a_file_is_behind(void **state)
{
    cell *c = *state;
    unsigned seen = 0;
    for (int k = 0; k < 40; k++) {
        OK(write_texts(c, "before"));
        countdown = k;
        bw_failpoint_set(fail_at_zero);
        bw_status st = write_texts(c, "amid");
        bw_failpoint_set(NULL);
        if (!any_stale(c))
            continue;
        seen++;
        OK(st);
        bw_view amid = cell_view(c, 1, 2);
        expect_text(c, &amid, "amid", true);
        expect_text(c, &amid, "before", false);
        OK(write_texts(c, "after")); /* reads the file again first */
        assert_false(any_stale(c));
        bw_view after = cell_view(c, 1, 2);
        expect_text(c, &after, "after", true);
        expect_text(c, &after, "amid", false);
        expect_text(c, &amid, "amid", true);
        expect_text(c, &amid, "after", false);
        bw_view_close(&amid);
        bw_view_close(&after);
    }
    assert_true(seen > 0);
}

/* Readers look while a writer moves points: each must see every point exactly once. */
static void
test_commit__a_committed_write_that_cannot_be_applied_is_served(void **state)
{
    cell *c = *state;
    OK(big_write(c, 0));
    bw_str terms_in = BW_STR("moved");
    const bw_str *terms;
    size_t n;
    OK(bw_text_terms(c->ctx, terms_in, &terms, &n));
    for (int k = 0; k < 40; k++) { /* find the step where a file is to be changed */
        countdown = k;
        bw_failpoint_set(fail_at_zero);
        bw_status st = big_write(c, (unsigned)k + 1);
        bw_failpoint_set(NULL);
        bw_str json;
        OK(bw_engine_stats(c->ctx, c->engine, &json));
        if (memmem(json.ptr, json.len, "\"partitions_stale\":0", 20))
            continue;
        assert_int_equal(st, BW_OK);
        assert_int_equal(look(c, (unsigned)k + 1), 1);
        bw_str dump = cell_dump(c, 1, 6, DIM);
        OK(big_write(c, 1000)); /* the next writer reads the file again first */
        assert_int_equal(look(c, 1000), 1);
        OK(bw_engine_stats(c->ctx, c->engine, &json));
        assert_non_null(memmem(json.ptr, json.len, "\"partitions_stale\":0", 20));
        assert_false(bw_str_eq(dump, cell_dump(c, 1, 6, DIM)));
        cell_reopen(c);
        assert_int_equal(look(c, 1000), 1);
        return;
    }
    fail_msg("no step left a file behind");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_commit__a_crash_at_any_step_is_all_or_nothing),
        T(test_commit__an_error_at_any_step_is_all_or_nothing),
        T(test_commit__a_committed_write_that_cannot_be_applied_is_served),
        T(test_commit__texts_are_found_while_a_file_is_behind),
    };
    return cmocka_run_group_tests_name("commit", tests, NULL, NULL);
}
#endif
