/* BW_OP_RELABEL: points change their class as they are, all or none. */
#include "engine_cell.h"
#include <engine/store/failpoint.h>

#include <sys/wait.h>
#include <unistd.h>

enum { DIM = 4, CLASSES = 4 };

static int setup(void **state)
{
    cell *c = calloc(1, sizeof *c);
    cell_init(c, NULL);
    cell_collection(c, DIM, BW_METRIC_COSINE, CLASSES);
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    cell *c = *state;
#ifdef BW_DEBUG
    bw_failpoint_set(NULL);
#endif
    bw_clock_fix(0);
    cell_clear(c);
    free(c);
    return 0;
}

typedef struct found {
    unsigned class_no; /* 0: nowhere; 99: in several */
    bw_str payload, text, source;
    float v[DIM];
    uint32_t nsparse;
} found;

static found look(cell *c, uint64_t id)
{
    found f = {0};
    bw_view v = cell_view(c, 1, CLASSES);
    for (size_t i = 0; i < v.nparts; i++) {
        bw_point_id pid = cell_id(id);
        bw_vector sparse;
        uint32_t r;
        bw_row row;
        if (!bw_snapshot_find(v.parts[i], &pid, &r))
            continue;
        f.class_no = f.class_no ? 99 : v.classes[i].bytes[1];
        bw_snapshot_row(v.parts[i], r, &row);
        OK(bw_arena_str(c->ctx, row.payload, &f.payload));
        OK(bw_arena_str(c->ctx, row.text, &f.text));
        OK(bw_arena_str(c->ctx, row.facts.source, &f.source));
        memcpy(f.v, cell_dense(c, v.parts[i], 0, r), sizeof f.v);
        f.nsparse = bw_snapshot_sparse(v.parts[i], 1, r, &sparse) ? sparse.n : 0;
    }
    bw_view_close(&v);
    return f;
}

static bw_status move(cell *c, const bw_access *a, unsigned from, unsigned to, uint64_t id, uint64_t id2, bw_write_result *r)
{
    bw_point_id ids[2] = {cell_id(id), cell_id(id2)};
    bw_move m = {cell_class(from), cell_class(to), ids, id2 ? 2 : 1};
    bw_op op = {.kind = BW_OP_RELABEL, .moves = &m, .nmoves = 1};
    return cell_write(c, a, &op, 1, r);
}

static void test_write_relabel__takes_the_whole_point_along(void **state)
{
    cell *c = *state;
    float values[DIM] = {3, 4, 0, 0}, one[2] = {1, 2};
    uint32_t at[2] = {5, 9};
    bw_vector v[2] = {{.name = BW_STR(""), .values = values, .n = DIM}, {.name = BW_STR("words"), .values = one, .indices = at, .n = 2, .sparse = true}};
    bw_point p = {.id = cell_id(1), .class_id = cell_class(1), .payload = BW_STR("{\"b\": 1.50}"), .text = BW_STR("wandering words"),
                  .facts = {.source = BW_STR("s.md")}, .vectors = v, .nvectors = 2};
    bw_access a = cell_access(c, 1, CLASSES);
    bw_write_result r;
    cell_upsert(c, &p, 1);
    OK(move(c, &a, 1, 2, 1, 0, &r));
    assert_int_equal(r.points_changed, 1);
    for (int round = 0; round < 2; round++) {
        found f = look(c, 1);
        assert_int_equal(f.class_no, 2);
        assert_true(bw_str_eq(f.payload, p.payload) && bw_str_eq(f.text, p.text) && bw_str_is(f.source, "s.md"));
        assert_true(f.v[0] > 0.599f && f.v[0] < 0.601f && f.nsparse == 2);
        cell_reopen(c);
    }
    bw_permit permit = cell_permit(c, 2, 2); /* the text index followed */
    bw_read read = {.tenant = TENANT, .name = NAME, .permit = &permit, .now_ns = bw_clock_unix_ns()};
    bw_query q = {.kind = BW_QUERY_TEXT, .using_name = BW_STR(""), .text = BW_STR("wandering"), .limit = 5};
    bw_result *result;
    size_t n;
    OK(bw_query_run(c->ctx, c->engine, &read, &q, 1, &result));
    (void)bw_result_hits(result, 0, &n);
    assert_int_equal(n, 1);
    bw_result_free(result);
    OK(move(c, &a, 2, 2, 1, 0, &r)); /* to where it is: nothing */
    assert_int_equal(r.points_changed, 0);
    OK(move(c, &a, 2, 1, 1, 0, &r)); /* and back again */
    assert_int_equal(look(c, 1).class_no, 1);
}

static void test_write_relabel__needs_both_permissions(void **state)
{
    cell *c = *state;
    bw_point p[2] = {cell_point(c, 1, 1, DIM, NULL), cell_point(c, 2, 2, DIM, NULL)};
    bw_access a = cell_access(c, 1, CLASSES);
    bw_write_result r;
    cell_upsert(c, p, 2);
    a.relabel = cell_permit(c, 2, 4);
    assert_int_equal(move(c, &a, 1, 3, 1, 0, &r), BW_EDENIED);
    assert_int_equal(r.denied_class.bytes[1], 1);
    a = cell_access(c, 1, CLASSES);
    a.store = cell_permit(c, 1, 2);
    assert_int_equal(move(c, &a, 1, 3, 1, 0, &r), BW_EDENIED);
    assert_int_equal(r.denied_class.bytes[1], 3);
    a.remove = cell_permit(c, 3, 4); /* not asked for: nothing is deleted */
    OK(move(c, &a, 1, 2, 1, 0, &r));
    assert_int_equal(look(c, 1).class_no, 2);
}

static void test_write_relabel__what_is_not_seen_is_not_there(void **state)
{
    cell *c = *state;
    bw_point p[3] = {cell_point(c, 1, 1, DIM, NULL), cell_point(c, 3, 1, DIM, "hidden"), cell_point(c, 3, 2, DIM, "hidden")};
    bw_access own = cell_access(c, 1, 2), all = cell_access(c, 1, CLASSES);
    bw_write_result r;
    cell_upsert(c, &p[0], 1);
    bw_access only3 = cell_access(c, 3, 3); /* ids are unique within a class only */
    bw_op op = {.kind = BW_OP_UPSERT, .points = p + 1, .npoints = 2};
    OK(cell_write(c, &only3, &op, 1, &r));
    own.relabel = own.store = all.store;
    assert_int_equal(move(c, &own, 3, 2, 2, 0, &r), BW_ECONFLICT); /* a class that it cannot see */
    OK(move(c, &own, 1, 2, 1, 0, &r));                             /* 3's copy of the id: no matter, and untouched */
    assert_int_equal(cell_count(c, 3, 3), 2);
    assert_int_equal(cell_count(c, 2, 2), 1);
    assert_int_equal(move(c, &all, 3, 2, 1, 0, &r), BW_EEXISTS); /* both are seen: which would stay? */
    assert_non_null(strstr(bw_ctx_message(c->ctx), "point 1"));
    assert_int_equal(cell_count(c, 1, CLASSES), 3);
    OK(move(c, &own, 2, 3, 1, 0, &r)); /* into a class that it cannot see: as an upsert would */
    assert_int_equal(cell_count(c, 3, 3), 2);
    assert_int_equal(look(c, 1).class_no, 3);
    assert_true(look(c, 1).text.len == 0);
}

static void test_write_relabel__one_that_is_gone_moves_none(void **state)
{
    cell *c = *state;
    bw_point p = cell_point(c, 1, 1, DIM, NULL), old = cell_point(c, 1, 2, DIM, NULL);
    bw_access a = cell_access(c, 1, CLASSES);
    bw_write_result r;
    cell_upsert(c, &p, 1);
    assert_int_equal(move(c, &a, 1, 2, 1, 7, &r), BW_ECONFLICT);
    assert_int_equal(r.points_changed, 0);
    assert_int_equal(look(c, 1).class_no, 1);
    old.facts.expires_at_ns = bw_clock_unix_ns() - 1;
    cell_upsert(c, &old, 1);
    assert_int_equal(move(c, &a, 1, 2, 2, 0, &r), BW_ECONFLICT); /* expired is gone */
    bw_point_id id = cell_id(1);
    bw_move m = {cell_class(1), cell_class(9), &id, 1};
    bw_op op = {.kind = BW_OP_RELABEL, .moves = &m, .nmoves = 1};
    bw_access wide = cell_access(c, 1, 9);
    assert_int_equal(cell_write(c, &wide, &op, 1, &r), BW_EINVALID); /* a class without labels */
    assert_int_equal(look(c, 1).class_no, 1);
}

#ifdef BW_DEBUG
/* ---- all or none, at every step ---- */

static int countdown;

static bw_status die_at_zero(const char *name)
{
    (void)name;
    if (countdown-- == 0)
        _exit(9);
    return BW_OK;
}

static bw_status fail_at_zero(const char *name)
{
    return strcmp(name, "db.committed") != 0 && countdown-- == 0 ? BW_EIO : BW_OK;
}

/* Points 1 and 2 of class 1 and point 3 of class 2 go to class 3 or, the other way, back. */
static bw_status move_three(cell *c, bool there)
{
    bw_point_id ids[3] = {cell_id(1), cell_id(2), cell_id(3)};
    bw_move ahead[2] = {{cell_class(1), cell_class(3), ids, 2}, {cell_class(2), cell_class(3), ids + 2, 1}};
    bw_move back[2] = {{cell_class(3), cell_class(1), ids, 2}, {cell_class(3), cell_class(2), ids + 2, 1}};
    bw_op op = {.kind = BW_OP_RELABEL, .moves = there ? ahead : back, .nmoves = 2};
    bw_access a = cell_access(c, 1, CLASSES);
    bw_write_result r;
    return cell_write(c, &a, &op, 1, &r);
}

static bool is_there(cell *c) /* or all of it is where it was */
{
    unsigned one = look(c, 1).class_no;
    assert_true(one == 1 || one == 3);
    assert_int_equal(look(c, 2).class_no, one);
    assert_int_equal(look(c, 3).class_no, one == 1 ? 2 : 3);
    return one == 3;
}

static void test_write_relabel__a_crash_at_any_step_moves_all_or_none(void **state)
{
    cell *c = *state;
    bw_point p[3] = {cell_point(c, 1, 1, DIM, "a"), cell_point(c, 1, 2, DIM, "b"), cell_point(c, 2, 3, DIM, "c")};
    bool done = false, there = true;
    int steps = 0, moved = 0;
    cell_upsert(c, p, 3);
    for (; !done && steps < 200; steps++) {
        bw_engine_close(c->engine);
        c->engine = NULL;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            cell child = *c;
            child.ctx = bw_ctx_new(0);
            if (bw_engine_open(child.ctx, child.dir, &child.options, &child.engine) != BW_OK)
                _exit(1);
            countdown = steps;
            bw_failpoint_set(die_at_zero);
            _exit(move_three(&child, there) == BW_OK ? 0 : 2);
        }
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9));
        done = WEXITSTATUS(status) == 0;
        cell_open(c);
        if (is_there(c) == there) {
            there = !there; /* it was through when it died: the next child goes back */
            moved++;
        }
    }
    print_message("%d steps, %d of them past the commit\n", steps, moved);
    assert_true(done && steps > 8 && moved > 1);
}

static void test_write_relabel__a_failure_at_any_step_moves_all_or_none(void **state)
{
    cell *c = *state;
    bw_point p[3] = {cell_point(c, 1, 1, DIM, "a"), cell_point(c, 1, 2, DIM, "b"), cell_point(c, 2, 3, DIM, "c")};
    bool there = true;
    int failed = 0, passed = 0;
    cell_upsert(c, p, 3);
    for (int n = 0; n < 200 && passed < 3; n++) {
        countdown = n;
        bw_failpoint_set(fail_at_zero);
        bw_status st = move_three(c, there);
        bw_failpoint_set(NULL);
        assert_int_equal(is_there(c) == there, st == BW_OK); /* the answer tells which */
        failed += st != BW_OK;
        passed += countdown >= 0;
        there = st == BW_OK ? !there : there;
        cell_reopen(c);
        assert_int_equal(is_there(c), !there);
    }
    assert_true(failed > 3 && passed == 3);
}

#endif

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_write_relabel__takes_the_whole_point_along),
        T(test_write_relabel__needs_both_permissions),
        T(test_write_relabel__what_is_not_seen_is_not_there),
        T(test_write_relabel__one_that_is_gone_moves_none),
#ifdef BW_DEBUG
        T(test_write_relabel__a_crash_at_any_step_moves_all_or_none),
        T(test_write_relabel__a_failure_at_any_step_moves_all_or_none),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
