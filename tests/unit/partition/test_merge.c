/* Segments that are merged, sealed by a call, or lie on file: structure and answers follow
 * the sequence of writes alone. Small limits stand for the real ones. */
#include "engine_cell.h"

#include "engine/partition/part.h"
#include "engine/store/failpoint.h"
#include <dirent.h>
#include <pthread.h>
#include <sqlite3.h>

enum { DIM = 8, SEAL = 200, ADOPT = 50 };

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

/* The structure of a class as text: segments, merges, growing rows. */
static const char *shape_of(cell *c, unsigned class_no)
{
    bw_view v = cell_view(c, class_no, class_no);
    const bw_snapshot *s = v.parts[0];
    bw_buf b = {0};
    for (uint32_t i = 0; i < s->nsegs; i++)
        bw_buf_printf(&b, "%u%s%s ", s->segs[i].p.slots - s->segs[i].dead,
                      s->segs[i].dead ? "-" : "", s->segs[i].p.adopted ? "g" : "");
    for (uint32_t i = 0; i < s->nmerges; i++)
        bw_buf_printf(&b, "(%u%s) ", s->merges[i].s.p.slots - s->merges[i].s.dead,
                      s->merges[i].s.dead ? "-" : "");
    bw_buf_printf(&b, "+%u", s->grow_live);
    for (uint32_t i = 0; i < s->vecs[0].n; i++) { /* who has adopted has a graph */
        const bw_block_ref *r = &s->vecs[0].items[i];
        if (r->seg >= 0 && s->segs[r->seg].p.adopted &&
            s->part->specs[0].index != BW_INDEX_FLAT &&
            r->n >= s->part->env->graph_rows_min)
            assert_non_null(bw_build_index(r->b->m));
    }
    bw_view_close(&v);
    bw_str out;
    OK(bw_arena_str(c->ctx, bw_buf_view(&b), &out));
    bw_buf_clear(&b);
    return bw_arena_printf(c->ctx, "%.*s", (int)out.len, out.ptr);
}

static bw_status ask(cell *c, unsigned class_no, bool exact, unsigned q, bw_topk *t)
{
    bw_view v = cell_view(c, class_no, class_no);
    bw_point p = cell_point(c, 9, 1000000 + q, DIM, NULL);
    const bw_bitmap *live = bw_snapshot_live(v.parts[0]);
    bw_search_params sp = {.vec = 0,
                           .k = 10,
                           .exact = exact,
                           .allowed = live,
                           .permitted = bw_bitmap_count(live)};
    bw_status st =
        bw_snapshot_search_dense(c->ctx, v.parts[0], p.vectors->values, &sp, t, NULL);
    bw_topk_sort(t);
    bw_view_close(&v);
    return st;
}

static bw_str answers(cell *c, unsigned class_no, bool exact)
{
    bw_buf b = {0};
    for (unsigned q = 0; q < 20; q++) {
        bw_candidate items[10];
        bw_topk t;
        bw_topk_init(&t, items, 10);
        OK(ask(c, class_no, exact, q, &t));
        for (size_t i = 0; i < t.n; i++) {
            uint32_t bits;
            memcpy(&bits, &items[i].key, sizeof bits);
            bw_buf_printf(&b, "%llu:%08x ", (unsigned long long)items[i].id.lo, bits);
        }
        bw_buf_putc(&b, '\n');
    }
    bw_str out;
    OK(bw_arena_str(c->ctx, bw_buf_view(&b), &out));
    bw_buf_clear(&b);
    return out;
}

static void delete_range(cell *c, unsigned class_no, uint64_t from, uint64_t to)
{
    bw_point_id *ids = bw_arena_calloc(c->ctx, to - from, sizeof *ids);
    for (uint64_t i = from; i < to; i++)
        ids[i - from] = cell_id(i);
    bw_access a = cell_access(c, class_no, class_no);
    bw_op op = {.kind = BW_OP_DELETE, .ids = ids, .nids = (uint32_t)(to - from)};
    bw_write_result r;
    OK(cell_write(c, &a, &op, 1, &r));
    assert_int_equal(r.points_changed, to - from);
}

static void fill(cell *c, unsigned class_no, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i += 100)
        cell_upsert_range(c, class_no, i, i + 100 < to ? i + 100 : to, DIM);
}

static unsigned files_named(cell *c, const char *suffix, void (*f)(const char *path))
{
    char dir[80], path[400];
    (void)snprintf(dir, sizeof dir, "%s/p", c->dir);
    DIR *d = opendir(dir);
    assert_non_null(d);
    unsigned n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t len = strlen(e->d_name), want = strlen(suffix);
        if (len < want || strcmp(e->d_name + len - want, suffix) != 0)
            continue;
        n++;
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (f)
            f(path);
    }
    closedir(d);
    return n;
}

static bw_status seal(cell *c, unsigned from, unsigned to)
{
    bw_permit p = cell_permit(c, from, to);
    return bw_collection_seal(c->ctx, c->engine, TENANT, NAME, &p);
}

static void make_collection(cell *c, bw_metric metric, bw_index_choice index,
                            bool on_disk)
{
    bw_vector_spec specs[2] = {{.name = BW_STR(""),
                                .dim = DIM,
                                .metric = metric,
                                .on_disk = on_disk,
                                .index = index},
                               {.name = BW_STR("words"), .sparse = true}};
    bw_collection_info info = {.tenant = TENANT,
                               .name = NAME,
                               .vectors = specs,
                               .nvectors = 2,
                               .settings = BW_STR("{}")};
    OK(bw_collection_create(c->ctx, c->engine, &info));
    for (unsigned i = 1; i <= 4; i++) {
        bw_class_id id = cell_class(i);
        OK(bw_class_put(c->ctx, c->engine, &id, BW_STR("labels")));
    }
}

/* ---- tiers ---- */

static void test_merge__happens_at_counts_of_writes(void **state)
{
    cell *c = *state;
    /* The quicker build; the others have the default. */
    make_collection(c, BW_METRIC_EUCLID, BW_INDEX_FAISS_HNSW, false);
    fill(c, 1, 0, 799);
    assert_string_equal(shape_of(c, 1), "200g 200g 200g +199");
    fill(c, 1, 799, 800);
    assert_string_equal(shape_of(c, 1), "200g 200g 200g 200 (800) +0");
    cell_reopen(c);
    assert_string_equal(shape_of(c, 1), "200g 200g 200g 200 (800) +0");
    fill(c, 1, 800, 1599);
    assert_string_equal(shape_of(c, 1), "200g 200g 200g 200g 200g 200g 200g (800) +199");
    cell_reopen(c);
    fill(c, 1, 1599, 1600); /* the first is adopted, the second begins */
    assert_string_equal(shape_of(c, 1), "800g 200g 200g 200g 200 (800) +0");
    fill(c, 1, 1600, 3199);
    assert_string_equal(shape_of(c, 1),
                        "800g 800g 200g 200g 200g 200g 200g 200g 200g (800) +199");
    fill(c, 1, 3199, 3200); /* the fourth of its tier is not made for itself */
    assert_string_equal(shape_of(c, 1), "800g 800g 800g 200g 200g 200g 200 (3200) +0");
    cell_reopen(c);
    fill(c, 1, 3200, 6400);
    assert_string_equal(shape_of(c, 1), "3200g 800g 800g 800g 200g 200g 200g 200 "
                                        "(3200) +0");
    bw_engine_close(c->engine);
    c->engine = NULL;
    /* Of what has adopted, and perhaps of the two that are pending; of what went: none. */
    unsigned files = files_named(c, ".graph", NULL);
    assert_true(files >= 7 && files <= 9);
    cell_open(c);
    assert_int_equal(cell_count(c, 1, 1), 6400);
}

static void mixed_writes(cell *c, uint64_t reopen_every)
{
    cell_collection(c, DIM, BW_METRIC_COSINE, 4);
    for (uint64_t i = 0; i < 3000; i += 50) {
        cell_upsert_range(c, 1, i, i + 50, DIM);
        if (i % 150 == 100)
            delete_range(c, 1, i / 2, i / 2 + 13);
        if (i % 500 == 300)
            cell_upsert_range(c, 1, i / 3, i / 3 + 20, DIM); /* again */
        if (reopen_every && i % reopen_every == 0)
            cell_reopen(c);
    }
}

static void test_merge__restarts_never_change_an_answer(void **state)
{
    cell *c = *state;
    mixed_writes(c, 0);
    const char *shape = shape_of(c, 1);
    assert_non_null(strchr(shape, '('));
    bw_str first = answers(c, 1, false), dump = cell_dump(c, 1, 1, DIM);
    cell_reopen(c);
    assert_string_equal(shape, shape_of(c, 1));
    assert_true(bw_str_eq(first, answers(c, 1, false)));
    assert_true(bw_str_eq(dump, cell_dump(c, 1, 1, DIM)));
    for (uint64_t every = 50; every <= 350; every += 300) {
        cell other, *c2 = &other;
        bw_engine_options o = small();
        cell_init(c2, &o);
        mixed_writes(c2, every);
        assert_string_equal(shape, shape_of(c2, 1));
        assert_true(bw_str_eq(first, answers(c2, 1, false)));
        assert_true(bw_str_eq(dump, cell_dump(c2, 1, 1, DIM)));
        cell_clear(c2);
    }
}

static void test_merge__rows_that_die_meanwhile_keep_their_slots(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_DOT, 4);
    fill(c, 1, 0, 700);
    delete_range(c, 1, 0, 20); /* before it begins: left out, dead slots for the graph */
    fill(c, 1, 700, 800);
    assert_string_equal(shape_of(c, 1), "180-g 200g 200g 200 (780) +0");
    delete_range(c, 1, 200, 230);
    assert_string_equal(shape_of(c, 1), "180-g 170-g 200g 200 (750-) +0");
    cell_reopen(c);
    assert_string_equal(shape_of(c, 1), "180-g 170-g 200g 200 (750-) +0");
    bw_str exact = answers(c, 1, true);
    fill(c, 1, 2000, 2750);
    assert_string_equal(shape_of(c, 1), "750-g 200g 200g 200g +150");
    cell_reopen(c);
    assert_string_equal(shape_of(c, 1), "750-g 200g 200g 200g +150");
    delete_range(c, 1, 2000, 2750);
    assert_true(bw_str_eq(exact, answers(c, 1, true)));
    cell_reopen(c);
    assert_true(bw_str_eq(exact, answers(c, 1, true)));
    assert_int_equal(cell_count(c, 1, 1), 750);
}

static void test_merge__a_rebuild_ends_it(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_DOT, 4);
    fill(c, 1, 0, 800);
    assert_string_equal(shape_of(c, 1), "200g 200g 200g 200 (800) +0");
    delete_range(c, 1, 200, 261);
    assert_string_equal(shape_of(c, 1), "200g 139 200g 200g +0");
    cell_reopen(c);
    assert_string_equal(shape_of(c, 1), "200g 139 200g 200g +0");
    delete_range(c, 1, 261, 400); /* the whole segment */
    assert_string_equal(shape_of(c, 1), "200g 200g 200g +0");
    fill(c, 1, 3000, 3200); /* the range of keys has a hole now */
    assert_string_equal(shape_of(c, 1), "200g 200g 200g 200 (800) +0");
    cell_reopen(c);
    bw_str before = answers(c, 1, false);
    cell_reopen(c);
    assert_true(bw_str_eq(before, answers(c, 1, false)));
}

static void test_merge__gaps_are_taken_out_while_one_is_pending(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_DOT, 4);
    fill(c, 1, 0, 800);
    delete_range(c, 1, 10, 20);
    bw_view v = cell_view(c, 1, 1);
    const bw_gen *gen = v.parts[0]->gen;
    bw_view_close(&v);
    for (int i = 0; i < 20; i++) /* the same growing rows again and again */
        cell_upsert_range(c, 1, 5000, 5037, DIM);
    v = cell_view(c, 1, 1);
    bool renumbered = v.parts[0]->gen != gen;
    bw_view_close(&v);
    bw_str before = answers(c, 1, false), dump = cell_dump(c, 1, 1, DIM);
    const char *shape = shape_of(c, 1);
    cell_reopen(c);
    assert_string_equal(shape, shape_of(c, 1));
    assert_true(bw_str_eq(before, answers(c, 1, false)));
    assert_true(bw_str_eq(dump, cell_dump(c, 1, 1, DIM)));
    (void)renumbered;
}

static void set_version_one(const char *path)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=1", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_merge__files_of_version_one_are_read(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_DOT, 4);
    fill(c, 1, 0, 700);
    bw_engine_close(c->engine);
    c->engine = NULL;
    assert_int_equal(files_named(c, ".db", set_version_one), 1);
    cell_open(c);
    assert_string_equal(shape_of(c, 1), "200g 200g 200g +100");
    fill(c, 1, 700, 800);
    cell_reopen(c);
    assert_string_equal(shape_of(c, 1), "200g 200g 200g 200 (800) +0");
}

/* ---- the call ---- */

static void test_seal_call__makes_one_segment_of_a_permitted_class(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_COSINE, 4);
    fill(c, 1, 0, 950);
    delete_range(c, 1, 300, 330);
    fill(c, 2, 20000, 20950);
    fill(c, 3, 30000, 30099); /* fewer than a graph needs */
    fill(c, 4, 40000, 40150); /* growing rows alone */
    bw_str dump = cell_dump(c, 1, 4, DIM), exact = answers(c, 1, true);
    const char *two = shape_of(c, 2), *three = shape_of(c, 3);
    OK(seal(c, 1, 1));
    OK(seal(c, 3, 4));
    assert_string_equal(shape_of(c, 1), "920g +0");
    assert_string_equal(shape_of(c, 2), two);
    assert_string_equal(shape_of(c, 3), three);
    assert_string_equal(shape_of(c, 4), "150g +0");
    assert_true(bw_str_eq(dump, cell_dump(c, 1, 4, DIM)));
    assert_true(bw_str_eq(exact, answers(c, 1, true)));
    bw_str graph = answers(c, 1, false);
    OK(seal(c, 1, 1)); /* nothing is left to do */
    cell_reopen(c);
    assert_string_equal(shape_of(c, 1), "920g +0");
    assert_true(bw_str_eq(graph, answers(c, 1, false)));
    assert_true(bw_str_eq(dump, cell_dump(c, 1, 4, DIM)));
    fill(c, 1, 2000, 2300);
    OK(seal(c, 1, 4));
    assert_string_equal(shape_of(c, 1), "1220g +0");
    assert_string_equal(shape_of(c, 2), "950g +0");
    assert_int_equal(seal(c, 9, 9), BW_OK); /* no such class here */
    bw_permit none = {NULL, 0};
    assert_int_equal(
        bw_collection_seal(c->ctx, c->engine, TENANT, BW_STR("other"), &none),
        BW_ENOTFOUND);
}

static void test_seal_call__writes_may_come_before_the_next_one(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_EUCLID, 4);
    fill(c, 1, 0, 930);
    OK(seal(c, 1, 1));
    fill(c, 1, 930, 1130); /* a segment of a lower tier beside a big one */
    assert_string_equal(shape_of(c, 1), "930g 200 +0");
    fill(c, 1, 1130, 1750);
    cell_reopen(c);
    assert_string_equal(shape_of(c, 1), "930g 200g 200g 200g 200 (800) +20");
}

typedef struct traffic {
    cell *c;
    atomic_bool stop;
    unsigned writes, reads;
} traffic;

static void *write_on(void *arg)
{
    traffic *t = arg;
    cell own = *t->c;
    own.ctx = bw_ctx_new(0);
    for (uint64_t i = 0; !atomic_load(&t->stop) && i < 300; i++, t->writes++) {
        bw_ctx_reset(own.ctx);
        cell_upsert_range(&own, 1, 10000 + i * 5, 10000 + i * 5 + 5, DIM);
    }
    bw_ctx_free(own.ctx);
    return NULL;
}

static void *read_on(void *arg)
{
    traffic *t = arg;
    cell own = *t->c;
    own.ctx = bw_ctx_new(0);
    for (; !atomic_load(&t->stop); t->reads++) {
        bw_ctx_reset(own.ctx);
        (void)answers(&own, 1, t->reads % 2);
    }
    bw_ctx_free(own.ctx);
    return NULL;
}

static void test_seal_call__reads_and_writes_go_on(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_EUCLID, 4);
    fill(c, 1, 0, 1500);
    traffic w = {.c = c}, r = {.c = c};
    pthread_t tw, tr;
    assert_int_equal(pthread_create(&tw, NULL, write_on, &w), 0);
    assert_int_equal(pthread_create(&tr, NULL, read_on, &r), 0);
    for (int i = 0; i < 5; i++)
        OK(seal(c, 1, 4));
    atomic_store(&w.stop, true);
    atomic_store(&r.stop, true);
    pthread_join(tw, NULL);
    pthread_join(tr, NULL);
    OK(seal(c, 1, 4));
    assert_int_equal(cell_count(c, 1, 1), 1500 + w.writes * 5);
    bw_str dump = cell_dump(c, 1, 1, DIM), graph = answers(c, 1, false);
    cell_reopen(c);
    assert_true(bw_str_eq(dump, cell_dump(c, 1, 1, DIM)));
    assert_true(bw_str_eq(graph, answers(c, 1, false)));
}

#ifdef BW_DEBUG
static atomic_int fail_at, passed; /* builders pass failpoints too */

static bw_status fail_once(const char *name)
{
    return passed++ == fail_at && strcmp(name, "db.committed") != 0 ? BW_EIO : BW_OK;
}

/* Whatever step fails: nothing is lost, a restart agrees, and the next call succeeds. */
static void test_seal_call__fails_at_every_step(void **state)
{
    (void)state;
    for (fail_at = 0;; fail_at++) {
        cell own, *c = &own;
        bw_engine_options o = small();
        cell_init(c, &o);
        make_collection(c, BW_METRIC_EUCLID, BW_INDEX_FAISS_HNSW, false);
        fill(c, 1, 0, 830);
        bw_str dump = cell_dump(c, 1, 1, DIM);
        passed = 0;
        bw_failpoint_set(fail_once);
        bw_status st = seal(c, 1, 1);
        bw_failpoint_set(NULL);
        bool met = passed > fail_at;
        assert_true(st == BW_OK || st == BW_EIO);
        if (fail_at % 2)
            cell_reopen(c);
        assert_true(bw_str_eq(dump, cell_dump(c, 1, 1, DIM)));
        OK(seal(c, 1, 1));
        assert_true(bw_str_eq(dump, cell_dump(c, 1, 1, DIM)));
        assert_int_equal(cell_count(c, 1, 1), 830);
        cell_reopen(c);
        assert_string_equal(shape_of(c, 1), "830g +0");
        assert_true(bw_str_eq(dump, cell_dump(c, 1, 1, DIM)));
        cell_clear(c);
        if (!met)
            break;
    }
    assert_true(fail_at > 5);
}

static bw_status refuse_first_commit(const char *name)
{
    return strcmp(name, "db.commit") == 0 && passed++ == 0 ? BW_EIO : BW_OK;
}

/* The writes at which merges begin and are adopted, refused once and then repeated. */
static void test_merge__refused_writes_change_nothing(void **state)
{
    cell *c = *state;
    cell_collection(c, DIM, BW_METRIC_EUCLID, 4);
    fill(c, 1, 0, 700);
    for (uint64_t at = 700; at < 1700; at += 100) {
        const char *shape = shape_of(c, 1);
        bw_str before = answers(c, 1, false);
        bw_point *p = bw_arena_calloc(c->ctx, 100, sizeof *p);
        for (uint64_t i = 0; i < 100; i++)
            p[i] = cell_point(c, 1, at + i, DIM, NULL);
        bw_access a = cell_access(c, 1, 4);
        bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = 100};
        bw_write_result r;
        passed = 0;
        bw_failpoint_set(refuse_first_commit);
        bw_status st = cell_write(c, &a, &op, 1, &r);
        bw_failpoint_set(NULL);
        assert_int_equal(st, BW_EIO);
        assert_string_equal(shape, shape_of(c, 1));
        assert_true(bw_str_eq(before, answers(c, 1, false)));
        OK(cell_write(c, &a, &op, 1, &r));
    }
    assert_string_equal(shape_of(c, 1), "800g 200g 200g 200g 200g (800) +100");
    bw_str before = answers(c, 1, true);
    cell_reopen(c);
    assert_string_equal(shape_of(c, 1), "800g 200g 200g 200g 200g (800) +100");
    assert_true(bw_str_eq(before, answers(c, 1, true)));
}
#endif

/* ---- rows on file ---- */

static void some_rows(cell *c)
{
    fill(c, 1, 0, 950);
    delete_range(c, 1, 100, 110);
}

static void spoil(const char *path)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 65536 + 100, SEEK_SET), 0);
    int ch = fgetc(f);
    assert_int_equal(fseek(f, 65536 + 100, SEEK_SET), 0);
    assert_int_not_equal(fputc(ch ^ 1, f), EOF);
    assert_int_equal(fclose(f), 0);
}

static void forget(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

static void same_bits(cell *c, bw_index_choice index)
{
    make_collection(c, BW_METRIC_COSINE, index, true);
    some_rows(c);
    cell other, *m = &other; /* the same in memory */
    bw_engine_options o = small();
    cell_init(m, &o);
    make_collection(m, BW_METRIC_COSINE, index, false);
    some_rows(m);
    assert_int_equal(files_named(c, ".rows", NULL), 5); /* four segments and a merge */
    assert_int_equal(files_named(m, ".rows", NULL), 0);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(shape_of(c, 1), shape_of(m, 1));
        assert_true(bw_str_eq(answers(c, 1, false), answers(m, 1, false)));
        assert_true(bw_str_eq(answers(c, 1, true), answers(m, 1, true)));
        assert_true(bw_str_eq(cell_dump(c, 1, 1, DIM), cell_dump(m, 1, 1, DIM)));
        if (i == 0)
            cell_reopen(c);
        if (i == 1) {
            OK(seal(c, 1, 1));
            OK(seal(m, 1, 1));
            assert_int_equal(files_named(c, ".rows", NULL), 1);
        }
        if (i == 2) {
            bw_engine_close(c->engine);
            c->engine = NULL;
            assert_int_equal(files_named(c, ".rows", forget), 1);
            cell_open(c);
        }
    }
    cell_clear(m);
    delete_range(c, 1, 200, 500); /* 30 %: dead rows leave the disk */
    assert_int_equal(files_named(c, ".rows", NULL), 1);
    delete_range(c, 1, 0, 100);
    delete_range(c, 1, 110, 200);
    delete_range(c, 1, 500, 950);
    bw_engine_close(c->engine);
    c->engine = NULL;
    assert_int_equal(files_named(c, ".rows", NULL), 0);
    cell_open(c);
    assert_int_equal(cell_count(c, 1, 1), 0);
}

static void test_on_disk__gives_the_same_bits(void **state)
{
    same_bits(*state, BW_INDEX_FLAT);
}

static void test_on_disk__gives_the_same_bits_with_graphs(void **state)
{
    same_bits(*state, BW_INDEX_GRAPH);
}

static void mend(cell *c, bw_index_choice index)
{
    make_collection(c, BW_METRIC_COSINE, index, true);
    some_rows(c);
    OK(seal(c, 1, 1));
    bw_str exact = answers(c, 1, true), graph = answers(c, 1, false);
    cell_reopen(c); /* nothing is in the cache */
    (void)shape_of(c, 1);
    assert_int_equal(files_named(c, ".rows", spoil), 1);
    bw_candidate items[10];
    bw_topk t;
    bw_topk_init(&t, items, 10);
    assert_int_equal(ask(c, 1, true, 0, &t), BW_ECORRUPT);
    cell_reopen(c);
    assert_true(bw_str_eq(exact, answers(c, 1, true)));
    assert_true(bw_str_eq(graph, answers(c, 1, false)));
}

static void test_on_disk__damage_is_an_error_and_a_restart_mends_it(void **state)
{
    mend(*state, BW_INDEX_FLAT);
}

static void test_on_disk__damage_under_a_graph_too(void **state)
{
    mend(*state, BW_INDEX_GRAPH);
}

/* What explain tells of an exact search for the k best of the rows from `from` on. */
static bw_search_trace told(cell *c, uint32_t k, size_t from)
{
    bw_view v = cell_view(c, 1, 1);
    bw_candidate items[64];
    float query[DIM] = {1, 2, 3};
    bw_search_trace t = {0};
    bw_topk heap;
    const bw_bitmap *live = bw_snapshot_live(v.parts[0]);
    bw_bitmap some;
    OK(bw_bitmap_arena(c->ctx, live->nbits, &some));
    for (size_t i = from; i < live->nbits; i++)
        if (bw_bitmap_get(live, i))
            bw_bitmap_set(&some, i);
    bw_search_params p = {.k = k, .exact = true, .allowed = &some};
    bw_topk_init(&heap, items, k);
    OK(bw_snapshot_search_dense(c->ctx, v.parts[0], query, &p, &heap, &t));
    bw_view_close(&v);
    return t;
}

/* The biggest blocks of rows go to file; nobody can tell from an answer. */
static void test_budget__changes_no_bit(void **state)
{
    cell *m = *state; /* without one */
    cell own, *c = &own;
    bw_engine_options o = small();
    o.vector_bytes = 450 * DIM * sizeof(float);
    cell_init(c, &o);
    make_collection(c, BW_METRIC_COSINE, BW_INDEX_GRAPH, false);
    make_collection(m, BW_METRIC_COSINE, BW_INDEX_GRAPH, false);
    some_rows(c);
    some_rows(m);
    assert_int_equal(files_named(c, ".rows", NULL), 3); /* two segments, and a merge */
    for (int i = 0; i < 4; i++) {
        assert_string_equal(shape_of(c, 1), shape_of(m, 1));
        assert_true(bw_str_eq(answers(c, 1, false), answers(m, 1, false)));
        assert_true(bw_str_eq(answers(c, 1, true), answers(m, 1, true)));
        assert_true(bw_str_eq(cell_dump(c, 1, 1, DIM), cell_dump(m, 1, 1, DIM)));
        for (uint32_t k = 1; i == 0 && k <= 64; k *= 2) /* before a restart: same blocks */
            for (size_t from = 0; from < 900; from += 50) {
                bw_search_trace a = told(c, k, from), b = told(m, k, from);
                assert_memory_equal(&a, &b, sizeof a);
            }
        if (i == 0)
            cell_reopen(c);
        if (i == 1) {
            OK(seal(c, 1, 1));
            OK(seal(m, 1, 1));
        }
        if (i == 2) { /* the new ones have memory, the big one is still on file */
            fill(c, 1, 5000, 5400);
            fill(m, 1, 5000, 5400);
            assert_int_equal(files_named(c, ".rows", NULL), 1);
            cell_reopen(c);
        }
    }
    assert_int_equal(files_named(c, ".rows", NULL), 1);
    bw_engine_close(c->engine);
    c->options.vector_bytes = 0; /* one that was given up: everything fits */
    cell_open(c);
    assert_true(bw_str_eq(answers(c, 1, false), answers(m, 1, false)));
    cell_clear(c);
    assert_int_equal(files_named(m, ".rows", NULL), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_merge__happens_at_counts_of_writes),
        T(test_merge__restarts_never_change_an_answer),
        T(test_merge__rows_that_die_meanwhile_keep_their_slots),
        T(test_merge__a_rebuild_ends_it),
        T(test_merge__gaps_are_taken_out_while_one_is_pending),
        T(test_merge__files_of_version_one_are_read),
        T(test_seal_call__makes_one_segment_of_a_permitted_class),
        T(test_seal_call__writes_may_come_before_the_next_one),
        T(test_seal_call__reads_and_writes_go_on),
#ifdef BW_DEBUG
        T(test_seal_call__fails_at_every_step),
        T(test_merge__refused_writes_change_nothing),
#endif
        T(test_on_disk__gives_the_same_bits),
        T(test_on_disk__gives_the_same_bits_with_graphs),
        T(test_on_disk__damage_is_an_error_and_a_restart_mends_it),
        T(test_on_disk__damage_under_a_graph_too),
        T(test_budget__changes_no_bit),
    };
    return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
