/* kill -9 during mixed writes, many times: what was acknowledged is there, nothing is
 * half there.
 *
 * A child runs writes 1, 2, 3 …, each made from (seed, number) alone and most of them
 * over several partitions, and tells each acknowledgement through a pipe. The parent
 * kills it at a random moment, opens the folder, and compares with a model: the state
 * must be that after the last acknowledged write, or after the one that was under way.
 * BW_NIGHTLY=1: 100 kills, else 12. BW_SEED. kill -9 does not test fsync. */
#include "engine_cell.h"
#include "rnd.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { DIM = 4, IDS = 48, CLASSES = 3, BATCH = 9 };

typedef struct model {
    uint8_t class_no[IDS]; /* 0 = absent */
    uint32_t gen[IDS], mark[IDS];
} model;

static uint64_t seed;

static bw_str payload_of(cell *c, uint32_t gen, uint32_t mark)
{
    return bw_str_c(mark
                        ? bw_arena_printf(c->ctx, "{\"gen\":%u,\"mark\":%u}", gen, mark)
                        : bw_arena_printf(c->ctx, "{\"gen\":%u}", gen));
}

/* Points of every class into one: a transaction over all of them. */
static bw_status relabel(cell *c, rnd *x, model *m)
{
    unsigned to = 1 + (unsigned)(rnd_u64(x) % CLASSES);
    bw_point_id ids[CLASSES + 1][IDS];
    bw_move moves[CLASSES];
    uint32_t n[CLASSES + 1] = {0};
    for (uint32_t id = 0; id < IDS; id++)
        if (m->class_no[id] && m->class_no[id] != to && rnd_u64(x) % 2) {
            ids[m->class_no[id]][n[m->class_no[id]]++] = cell_id(id);
            m->class_no[id] = (uint8_t)to;
        }
    for (unsigned k = 1; k <= CLASSES; k++)
        moves[k - 1] = (bw_move){cell_class(k), cell_class(to), ids[k], n[k]};
    bw_op op = {.kind = BW_OP_RELABEL, .moves = moves, .nmoves = CLASSES};
    bw_write_result r;
    bw_access a = {0};
    if (!c)
        return BW_OK;
    a = cell_access(c, 1, CLASSES);
    return cell_write(c, &a, &op, 1, &r);
}

/* Write number w: into the model, and into the cell if there is one. */
static bw_status step(cell *c, uint32_t w, model *m)
{
    rnd x = {seed * 1000003 + w};
    unsigned kind = (unsigned)(rnd_u64(&x) % 5);
    if (kind == 4)
        return relabel(c, &x, m);
    uint32_t n = 1 + (uint32_t)(rnd_u64(&x) % BATCH), ids[BATCH];
    bw_point points[BATCH];
    bw_point_id pids[BATCH];
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = (uint32_t)(rnd_u64(&x) % IDS);
        pids[i] = cell_id(ids[i]);
        uint32_t gen = (uint32_t)rnd_u64(&x) >> 4;
        unsigned class_no = 1 + (unsigned)(rnd_u64(&x) % CLASSES);
        if (kind <= 1) {
            m->class_no[ids[i]] = (uint8_t)class_no;
            m->gen[ids[i]] = gen;
            m->mark[ids[i]] = 0;
            if (c) {
                points[i] = cell_point(c, class_no, ids[i], DIM, "words of a text");
                points[i].payload = payload_of(c, gen, 0);
            }
        } else if (kind == 2) {
            m->class_no[ids[i]] = 0;
        } else if (m->class_no[ids[i]]) {
            m->mark[ids[i]] = w;
        }
    }
    if (!c)
        return BW_OK;
    bw_access a = cell_access(c, 1, CLASSES);
    bw_op op = {.kind = BW_OP_UPSERT, .points = points, .npoints = n};
    if (kind == 2)
        op = (bw_op){.kind = BW_OP_DELETE, .ids = pids, .nids = n};
    if (kind == 3)
        op = (bw_op){.kind = BW_OP_SET_PAYLOAD,
                     .ids = pids,
                     .nids = n,
                     .payload = bw_str_c(bw_arena_printf(c->ctx, "{\"mark\":%u}", w))};
    bw_write_result r;
    return cell_write(c, &a, &op, 1, &r);
}

static bool equals(cell *c, const model *m)
{
    unsigned found = 0, wanted = 0;
    bool same = true;
    for (unsigned id = 0; id < IDS; id++)
        wanted += m->class_no[id] != 0;
    bw_view v = cell_view(c, 1, CLASSES);
    for (size_t i = 0; i < v.nparts; i++) {
        const bw_bitmap *live = bw_snapshot_live(v.parts[i]);
        for (size_t k = bw_bitmap_next(live, 0); k < live->nbits;
             k = bw_bitmap_next(live, k + 1)) {
            bw_row row;
            bw_snapshot_row(v.parts[i], (uint32_t)k, &row);
            uint64_t id = row.id.lo;
            found++;
            assert_non_null(cell_dense(c, v.parts[i], 0, (uint32_t)k));
            same = same && id < IDS && m->class_no[id] == v.classes[i].bytes[1] &&
                   bw_str_eq(row.payload, payload_of(c, m->gen[id], m->mark[id]));
        }
    }
    bw_view_close(&v);
    return same && found == wanted;
}

static _Noreturn void child(cell *c, uint32_t from, const model *at, int out)
{
    cell mine = *c;
    model m = *at;
    mine.ctx = bw_ctx_new(0);
    if (bw_engine_open(mine.ctx, mine.dir, &mine.options, &mine.engine) != BW_OK)
        _exit(1);
    for (uint32_t w = from;; w++) {
        if (step(&mine, w, &m) != BW_OK || write(out, &w, sizeof w) != sizeof w)
            _exit(2);
        bw_ctx_reset(mine.ctx);
    }
}

/* Kills after some milliseconds; returns the last acknowledged write. */
static uint32_t run_and_kill(cell *c, uint32_t from, const model *m, rnd *x)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        child(c, from, m, fds[1]);
    }
    close(fds[1]);
    uint32_t acked = from - 1, w, wait_for = (uint32_t)(rnd_u64(x) % 30);
    while (acked < from + wait_for && read(fds[0], &w, sizeof w) == sizeof w)
        acked = w;
    struct timespec nap = {0, (long)(rnd_u64(x) % 20000000)};
    nanosleep(&nap, NULL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status)); /* it was still writing */
    while (read(fds[0], &w, sizeof w) == sizeof w)
        acked = w;
    close(fds[0]);
    return acked;
}

static void test_kill__acknowledged_writes_survive_whole(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.seal_rows = 60; /* segments are sealed and rebuilt under way */
    o.exact_rows = 30;
    o.graphs_first = true;
    o.adopt_rows = 20;
    cell_init(c, &o);
    cell_collection(c, DIM, BW_METRIC_DOT, CLASSES);
    bw_engine_close(c->engine);
    c->engine = NULL;
    model m = {0};
    rnd x = {seed};
    uint32_t done = 0, under_way = 0;
    unsigned kills = getenv("BW_NIGHTLY") ? 100 : 12;
    for (unsigned i = 0; i < kills; i++) {
        uint32_t acked = run_and_kill(c, done + 1, &m, &x);
        for (; done < acked; done++)
            (void)step(NULL, done + 1, &m);
        cell_open(c);
        if (!equals(c, &m)) { /* then exactly the write that was under way */
            (void)step(NULL, ++done, &m);
            under_way++;
            if (!equals(c, &m))
                fail_msg("kill %u: the state after write %u is neither %u's nor %u's",
                         i, acked, acked, acked + 1);
        }
        bw_engine_close(c->engine);
        c->engine = NULL;
        bw_ctx_reset(c->ctx);
    }
    print_message(
        "%u kills, %u writes, %u of them committed but not yet acknowledged\n", kills,
        done, under_way);
    cell_clear(c);
}

int main(void)
{
    seed = rnd_start("kill", 1).state;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill__acknowledged_writes_survive_whole)};
    return cmocka_run_group_tests_name("kill", tests, NULL, NULL);
}
