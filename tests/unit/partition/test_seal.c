/* Sealing, graphs, rebuilding, renumbering: answers follow the sequence of writes
 * alone. Small limits stand for the real ones: 200 rows a segment, a graph from 100 on.
 */
#include "engine_cell.h"

#include "engine/partition/part.h"
#include "engine/store/failpoint.h"
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

enum { DIM = 8, SEAL = 200, ADOPT = 100 };

static bw_engine_options small(void)
{
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.seal_rows = SEAL;
    o.exact_rows = SEAL / 2;
    o.graphs_first = true;
    o.adopt_rows = ADOPT;
    o.null_sync = true;
    return o;
}

static int setup(void **state)
{
    cell *c = calloc(1, sizeof *c);
    bw_engine_options o = small();
    cell_init(c, &o);
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

typedef struct shape { /* of one partition's current snapshot */
    uint32_t segments, adopted, graphs, dead;
} shape;

static shape shape_of(cell *c)
{
    bw_view v = cell_view(c, 1, 1);
    const bw_snapshot *s = v.parts[0];
    shape out = {.segments = s->nsegs};
    for (uint32_t i = 0; i < s->nsegs; i++) {
        out.adopted += s->segs[i].p.adopted;
        out.dead += s->segs[i].dead;
    }
    for (uint32_t i = 0; i < s->vecs[0].n; i++) {
        const bw_block_ref *r = &s->vecs[0].items[i];
        out.graphs +=
            r->seg >= 0 && s->segs[r->seg].p.adopted && bw_build_index(r->b->m);
    }
    bw_view_close(&v);
    return out;
}

/* The 10 best for 20 queries, with the bits of their scores; some through a filter. */
static bw_str answers(cell *c, bool exact, bw_search_trace *trace)
{
    bw_buf b = {0};
    bw_view v = cell_view(c, 1, 1);
    *trace = (bw_search_trace){0};
    for (unsigned q = 0; q < 20; q++) {
        bw_point p = cell_point(c, 9, 1000000 + q, DIM, NULL);
        float query[DIM];
        memcpy(query, p.vectors->values, sizeof query);
        bw_candidate items[10];
        bw_topk t;
        bw_topk_init(&t, items, 10);
        bw_bitmap allowed;
        OK(bw_bitmap_arena(c->ctx, bw_snapshot_nrows(v.parts[0]), &allowed));
        const bw_bitmap *live = bw_snapshot_live(v.parts[0]);
        for (size_t i = bw_bitmap_next(live, 0); i < live->nbits;
             i = bw_bitmap_next(live, i + 1))
            if (q % 3 || bw_snapshot_id(v.parts[0], (uint32_t)i)->lo % 4)
                bw_bitmap_set(&allowed, i);
        bw_search_params sp = {.vec = 0,
                               .k = 10,
                               .exact = exact,
                               .permitted = bw_bitmap_count(&allowed),
                               .allowed = &allowed};
        OK(bw_snapshot_search_dense(c->ctx, v.parts[0], query, &sp, &t, trace));
        bw_topk_sort(&t);
        for (size_t i = 0; i < t.n; i++) {
            uint32_t bits;
            memcpy(&bits, &items[i].key, sizeof bits);
            bw_buf_printf(&b, "%llu:%08x ", (unsigned long long)items[i].id.lo, bits);
            assert_int_equal(bw_snapshot_id(v.parts[0], items[i].row)->lo,
                             items[i].id.lo);
            assert_true(bw_bitmap_get(&allowed, items[i].row));
        }
        bw_buf_putc(&b, '\n');
    }
    bw_view_close(&v);
    bw_str out;
    OK(bw_arena_str(c->ctx, bw_buf_view(&b), &out));
    bw_buf_clear(&b);
    return out;
}

static void delete_range(cell *c, uint64_t from, uint64_t to)
{
    bw_point_id *ids = bw_arena_calloc(c->ctx, to - from, sizeof *ids);
    for (uint64_t i = from; i < to; i++)
        ids[i - from] = cell_id(i);
    bw_access a = cell_access(c, 1, 4);
    bw_op op = {.kind = BW_OP_DELETE, .ids = ids, .nids = (uint32_t)(to - from)};
    bw_write_result r;
    OK(cell_write(c, &a, &op, 1, &r));
    assert_int_equal(r.points_changed, to - from);
}

static void test_seal__happens_at_counts_of_writes(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_EUCLID, 4);
    cell_upsert_range(c, 1, 0, SEAL - 1, DIM);
    assert_int_equal(shape_of(c).segments, 0);
    cell_upsert_range(c, 1, SEAL - 1, SEAL, DIM);
    assert_int_equal(shape_of(c).segments, 1);
    cell_upsert_range(c, 1, SEAL, SEAL + ADOPT - 1, DIM);
    assert_int_equal(shape_of(c).adopted, 0);
    cell_reopen(c); /* the marks are stored */
    assert_int_equal(shape_of(c).adopted, 0);
    cell_upsert_range(c, 1, SEAL + ADOPT - 1, SEAL + ADOPT, DIM);
    shape s = shape_of(c);
    assert_int_equal(s.adopted, 1);
    assert_int_equal(s.graphs, 1);
    cell_reopen(c);
    assert_int_equal(shape_of(c).graphs, 1);
}

static void test_seal__graph_agrees_with_exact_search(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_EUCLID, 4);
    for (uint64_t i = 0; i < 1000; i += 50)
        cell_upsert_range(c, 1, i, i + 50, DIM);
    bw_search_trace t;
    bw_str graph = answers(c, false, &t);
    assert_true(t.segments_graph > 0);
    bw_str exact = answers(c, true, &t);
    assert_int_equal(t.segments_graph, 0);
    size_t same = 0, lines = 0;
    const char *a = graph.ptr, *b = exact.ptr;
    for (; lines < 20; lines++) {
        size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        same += na == nb && memcmp(a, b, na) == 0;
        a += na + 1;
        b += nb + 1;
    }
    assert_true(same >= 16); /* an approximate index over 8 dimensions rarely errs */
}

static void mixed_writes(cell *c, bool reopen_often)
{
    cell_collection(c, DIM, BW_METRIC_COSINE, 4);
    for (uint64_t i = 0; i < 1200; i += 40) {
        cell_upsert_range(c, 1, i, i + 40, DIM);
        if (i % 120 == 80)
            delete_range(c, i / 2, i / 2 + 13);
        if (reopen_often && i % 200 == 0)
            cell_reopen(c);
    }
}

static void test_seal__restarts_never_change_an_answer(void **state)
{
    cell *c = *state;
    mixed_writes(c, false);
    bw_search_trace t, t2;
    bw_str first = answers(c, false, &t), dump = cell_dump(c, 1, 1, DIM);
    shape s = shape_of(c);
    assert_true(s.graphs > 1 && s.dead > 0);
    cell_reopen(c);
    assert_true(bw_str_eq(first, answers(c, false, &t2)));
    assert_memory_equal(&t, &t2, sizeof t);
    assert_true(bw_str_eq(dump, cell_dump(c, 1, 1, DIM)));

    cell other, *c2 = &other; /* the same writes with restarts in between */
    bw_engine_options o = small();
    cell_init(c2, &o);
    mixed_writes(c2, true);
    assert_true(bw_str_eq(first, answers(c2, false, &t2)));
    assert_memory_equal(&t, &t2, sizeof t);
    assert_true(bw_str_eq(dump, cell_dump(c2, 1, 1, DIM)));
    cell_clear(c2);
}

/* Runs f on every graph file; returns how many there are. */
static unsigned graph_files(cell *c, void (*f)(const char *path))
{
    char dir[80], path[400];
    (void)snprintf(dir, sizeof dir, "%s/p", c->dir);
    DIR *d = opendir(dir);
    assert_non_null(d);
    unsigned n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (!strstr(e->d_name, ".graph"))
            continue;
        n++;
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (f)
            f(path);
    }
    closedir(d);
    return n;
}

static void flip_a_byte(const char *path)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 200, SEEK_SET), 0);
    int ch = fgetc(f);
    assert_int_equal(fseek(f, 200, SEEK_SET), 0);
    assert_int_equal(fputc(ch ^ 1, f), ch ^ 1);
    assert_int_equal(fclose(f), 0);
}

static void cut_off(const char *path)
{
    assert_int_equal(truncate(path, 40), 0);
}

static void forget(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

static void test_seal__bad_graph_files_are_built_again_with_the_same_bits(void **state)
{
    cell *c = *state;
    mixed_writes(c, false);
    bw_search_trace t;
    bw_str first = answers(c, false, &t);
    void (*const harm[])(const char *) = {flip_a_byte, cut_off, forget};
    for (size_t i = 0; i < 3; i++) {
        bw_engine_close(c->engine);
        c->engine = NULL;
        assert_true(graph_files(c, harm[i]) > 0);
        cell_open(c);
        assert_true(bw_str_eq(first, answers(c, false, &t)));
        assert_true(t.segments_graph > 0);
        assert_int_equal(cell_figure(c, "graph_files_refused") > 0, harm[i] != forget);
    }
}

static void test_seal__a_mostly_dead_segment_is_rebuilt(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_DOT, 4);
    cell_upsert_range(c, 1, 0, SEAL, DIM);
    cell_upsert_range(c, 1, SEAL, SEAL + ADOPT, DIM);
    delete_range(c, 0, SEAL * 3 / 10);
    shape s = shape_of(c);
    assert_int_equal(s.dead, SEAL * 3 / 10);
    assert_int_equal(s.adopted, 1);
    bw_str before = cell_dump(c, 1, 1, DIM);
    cell_reopen(c);
    assert_int_equal(shape_of(c).dead,
                     SEAL * 3 / 10); /* dead slots outlive a restart */
    assert_true(bw_str_eq(before, cell_dump(c, 1, 1, DIM)));
    delete_range(c, SEAL * 3 / 10, SEAL * 3 / 10 + 1);
    s = shape_of(c);
    assert_int_equal(s.dead, 0);
    assert_int_equal(s.adopted, 0); /* its new graph serves later */
    assert_int_equal(cell_count(c, 1, 1), SEAL + ADOPT - SEAL * 3 / 10 - 1);
    cell_reopen(c);
    assert_int_equal(shape_of(c).dead, 0);
    delete_range(c, SEAL * 3 / 10 + 1, SEAL);
    assert_int_equal(shape_of(c).segments, 0); /* nothing left of it */
    bw_engine_close(c->engine);
    c->engine = NULL;
    assert_int_equal(graph_files(c, NULL), 0); /* a graph holds its rows' vectors */
    cell_open(c);
    assert_int_equal(cell_count(c, 1, 1), ADOPT);
    assert_int_equal(shape_of(c).segments, 0);
    cell_upsert_range(c, 1, 5000, 5000 + SEAL, DIM);
    cell_reopen(c);
    assert_int_equal(shape_of(c).segments, 1);
}

static void test_seal__gaps_in_the_numbering_are_taken_out(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_DOT, 4);
    bw_index_spec spec = {.field = BW_STR("n"), .type = BW_STR("integer")};
    OK(bw_collection_index_put(c->ctx, c->engine, TENANT, NAME, &spec));
    cell_upsert_range(c, 1, 0, SEAL + ADOPT, DIM);
    bw_view old = cell_view(c, 1, 1);
    size_t nrows_max = 0;
    for (int i = 0; i < 40; i++) {
        cell_upsert_range(c, 1, SEAL, SEAL + 60,
                          DIM); /* the same ids again and again */
        bw_view v = cell_view(c, 1, 1);
        size_t n = bw_snapshot_nrows(v.parts[0]);
        nrows_max = n > nrows_max ? n : nrows_max;
        assert_non_null(bw_snapshot_payload_index(v.parts[0], BW_STR("n")));
        assert_int_equal(v.parts[0]->nlive, SEAL + ADOPT);
        bw_view_close(&v);
    }
    assert_true(nrows_max < 2 * (SEAL + ADOPT) + SEAL + 400); /* 2,700 were written */
    assert_int_equal(cell_count(c, 1, 1), SEAL + ADOPT);
    assert_int_equal(old.parts[0]->nlive, SEAL + ADOPT);
    uint32_t row;
    bw_point_id id = cell_id(SEAL + 5);
    assert_true(bw_snapshot_find(old.parts[0], &id, &row));
    bw_view_close(&old);
    bw_search_trace t;
    bw_str before = answers(c, false, &t);
    cell_reopen(c);
    assert_true(bw_str_eq(before, answers(c, false, &t)));
}

static void test_seal__rows_without_the_vector_are_not_in_the_graph(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_EUCLID, 4);
    for (uint64_t at = 0; at < 400; at += 100) {
        bw_point p[100];
        for (uint64_t i = 0; i < 100; i++) {
            p[i] = cell_point(c, 1, at + i, DIM, NULL);
            if (i % 3 == 0)
                p[i].nvectors = 0;
        }
        cell_upsert(c, p, 100);
    }
    bw_search_trace t;
    bw_str first = answers(c, false, &t);
    assert_true(t.segments_graph > 0);
    cell_reopen(c);
    assert_true(bw_str_eq(first, answers(c, false, &t)));
    bw_view v = cell_view(c, 1, 1);
    bw_bitmap with;
    OK(bw_snapshot_has_vector(c->ctx, v.parts[0], 0, &with));
    assert_int_equal(bw_bitmap_count(&with), 4 * 66);
    bw_view_close(&v);
}

#ifdef BW_DEBUG
static cell *sealing;
static bool patient;

/* Refuses; when patient, only after the builder has saved the graph. */
static bw_status refuse_commit(const char *name)
{
    if (strcmp(name, "db.commit") != 0)
        return BW_OK;
    for (int i = 0; patient && i < 5000 && graph_files(sealing, NULL) == 0; i++)
        (void)usleep(1000);
    return BW_EIO;
}

static void test_seal__refused_writes_do_not_pile_up(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_DOT, 4);
    cell_upsert_range(c, 1, 0, 50, DIM);
    bw_point p[40];
    for (unsigned i = 0; i < 40; i++)
        p[i] = cell_point(c, 1, 1000 + i, DIM, NULL);
    bw_access a = cell_access(c, 1, 4);
    bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = 40};
    bw_write_result r;
    bw_view old = cell_view(c, 1, 1);
    for (int i = 0; i < 50; i++) {
        bw_failpoint_set(refuse_commit);
        assert_int_equal(cell_write(c, &a, &op, 1, &r), BW_EIO);
        bw_failpoint_set(NULL);
        assert_non_null(strstr(bw_ctx_message(c->ctx), "db.commit"));
        bw_view v = cell_view(c, 1, 1);
        assert_true(v.parts[0]->gen->n <= 2 * 50 + SEAL + 40); /* 2,000 were refused */
        assert_int_equal(v.parts[0]->nlive, 50);
        bw_view_close(&v);
    }
    assert_int_equal(old.parts[0]->nlive, 50);
    bw_view_close(&old);
    OK(cell_write(c, &a, &op, 1, &r));
    assert_int_equal(cell_count(c, 1, 1), 90);
}

/* The write that would have sealed them was refused, so nothing of them stays. */
static void test_seal__a_refused_seal_leaves_no_graph(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_DOT, 4);
    cell_upsert_range(c, 1, 0, SEAL - 1, DIM);
    bw_point p = cell_point(c, 1, SEAL, DIM, NULL);
    bw_access a = cell_access(c, 1, 4);
    bw_op op = {.kind = BW_OP_UPSERT, .points = &p, .npoints = 1};
    bw_write_result r;
    sealing = c;
    for (int i = 0; i < 10; i++) { /* the builder is met at different steps */
        patient = i == 9;
        bw_failpoint_set(refuse_commit);
        assert_int_equal(cell_write(c, &a, &op, 1, &r), BW_EIO);
        bw_failpoint_set(NULL);
        patient = false;
        assert_int_equal(shape_of(c).segments, 0);
    }
    bw_engine_close(c->engine);
    c->engine = NULL;
    assert_int_equal(graph_files(c, NULL), 0);
    cell_open(c);
    OK(cell_write(c, &a, &op, 1, &r));
    assert_int_equal(shape_of(c).segments, 1);
}
static atomic_bool no_memory;

static bw_status starve_builds(const char *name)
{
    return strcmp(name, "build.start") == 0 && atomic_load(&no_memory) ? BW_ENOMEM
                                                                       : BW_OK;
}

static void wait_for(cell *c, const char *name, uint64_t least)
{
    for (int i = 0; cell_figure(c, name) < least; i++) {
        assert_true(i < 12000);
        usleep(10000);
    }
}

/* A segment whose graph cannot be built is scanned, exactly, and by a restart too; the
 * graph comes when there is memory again, and then it is the same graph. */
static void test_seal__a_graph_without_memory_comes_later(void **state)
{
    cell *c = *state;
    bw_search_trace t;
    atomic_init(&no_memory, true);
    bw_failpoint_set(starve_builds);
    cell_collection(c, DIM, BW_METRIC_EUCLID, 4);
    cell_upsert_range(c, 1, 0, SEAL, DIM);
    cell_upsert_range(c, 1, SEAL, SEAL + ADOPT, DIM); /* adopts what is not there */
    bw_str exact = answers(c, true, &t);
    for (int i = 0; i < 2; i++) {
        shape s = shape_of(c);
        assert_int_equal(s.adopted, 1);
        assert_int_equal(s.graphs, 0);
        assert_true(bw_str_eq(exact, answers(c, false, &t)));
        assert_int_equal(t.segments_graph, 0);
        wait_for(c, "graph_builds_failed", 2); /* by itself */
        if (i == 0)
            cell_reopen(c);
    }
    atomic_store(&no_memory, false);
    wait_for(c, "graphs_serving", 1);
    assert_int_equal(cell_figure(c, "graphs_retrying"), 0);
    bw_str late = answers(c, false, &t);
    assert_true(t.segments_graph > 0);
    cell_reopen(c); /* from its file */
    bw_failpoint_set(NULL);
    assert_true(bw_str_eq(late, answers(c, false, &t)));
    assert_int_equal(graph_files(c, forget), 1);
    cell_reopen(c);
    assert_true(bw_str_eq(late, answers(c, false, &t)));
    /* What is dropped, or sealed anew, is not tried any more. */
    assert_int_equal(graph_files(c, forget), 1);
    atomic_store(&no_memory, true);
    bw_failpoint_set(starve_builds);
    cell_reopen(c);
    assert_int_equal(cell_count(c, 1, 1), SEAL + ADOPT);
    wait_for(c, "graphs_retrying", 1);
    bool existed;
    OK(bw_collection_drop(c->ctx, c->engine, TENANT, NAME, &existed));
    assert_int_equal(cell_figure(c, "graphs_retrying"), 0);
    bw_failpoint_set(NULL);
}

/* Builds wait in front of this gate. Closing the engine opens it, after the builder was
 * told to stop: so the build is always met at work. */
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static bool gate_open;

static void gate_set(bool open)
{
    pthread_mutex_lock(&gate_lock);
    gate_open = open;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate_lock);
}

static bw_status hold_builds(const char *name)
{
    if (strcmp(name, "build.stop") == 0)
        gate_set(true);
    if (strcmp(name, "build.start") == 0) {
        pthread_mutex_lock(&gate_lock);
        while (!gate_open)
            pthread_cond_wait(&gate_moved, &gate_lock);
        pthread_mutex_unlock(&gate_lock);
    }
    return BW_OK;
}

static uint64_t pending(cell *c)
{
    bw_engine_figures f;
    bw_engine_figures_get(c->engine, &f);
    for (size_t i = 0; i < f.n; i++)
        if (strcmp(f.each[i].name, "graphs_pending") == 0)
            return f.each[i].value;
    return UINT64_MAX;
}

/* Closing gives a running build up, and the next start does it again. */
static void test_seal__closing_does_not_wait_for_a_build(void **state)
{
    (void)state;
    enum { ROWS = 8000, WIDE = 32 };
    cell own, *c = &own;
    bw_engine_options o = small();
    o.seal_rows = ROWS;
    o.exact_rows = ROWS / 2;
    o.adopt_rows = 2;
    gate_set(false);
    bw_failpoint_set(hold_builds);
    cell_init(c, &o);
    cell_collection(c, WIDE, BW_METRIC_EUCLID, 4);
    cell_upsert_range(c, 1, 0, ROWS, WIDE);
    assert_int_equal(shape_of(c).segments, 1);
    assert_int_equal(pending(c), 1); /* queued, or in the worker's hands */
    bw_engine_close(c->engine);
    c->engine = NULL;
    assert_int_equal(graph_files(c, NULL), 0);
    gate_set(false);
    cell_open(c);
    bw_ctx_set_deadline(c->ctx,
                        bw_clock_mono_ns() + 1); /* a writer does not wait past it */
    bw_point p[2] = {cell_point(c, 1, ROWS, WIDE, NULL),
                     cell_point(c, 1, ROWS + 1, WIDE, NULL)};
    bw_access a = cell_access(c, 1, 4);
    bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = 2};
    bw_write_result r;
    assert_int_equal(cell_write(c, &a, &op, 1, &r), BW_ETIMEOUT);
    gate_set(true);
    bw_ctx_set_deadline(c->ctx, 0);
    assert_int_equal(cell_count(c, 1, 1), ROWS);
    OK(cell_write(c, &a, &op, 1, &r));
    assert_int_equal(shape_of(c).graphs, 1);
    cell_clear(c);
    bw_failpoint_set(NULL);
}
#endif

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_seal__happens_at_counts_of_writes),
        T(test_seal__graph_agrees_with_exact_search),
        T(test_seal__restarts_never_change_an_answer),
        T(test_seal__bad_graph_files_are_built_again_with_the_same_bits),
        T(test_seal__a_mostly_dead_segment_is_rebuilt),
        T(test_seal__gaps_in_the_numbering_are_taken_out),
        T(test_seal__rows_without_the_vector_are_not_in_the_graph),
#ifdef BW_DEBUG
        T(test_seal__a_refused_seal_leaves_no_graph),
        T(test_seal__refused_writes_do_not_pile_up),
        T(test_seal__a_graph_without_memory_comes_later),
        cmocka_unit_test(test_seal__closing_does_not_wait_for_a_build),
#endif
    };
    return cmocka_run_group_tests_name("seal", tests, NULL, NULL);
}
