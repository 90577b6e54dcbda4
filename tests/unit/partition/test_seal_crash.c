/* A process dies at every step of sealing, merging, adopting, rebuilding and of the files
 * that these make. Whatever was done by then: the rest of the writes leads to the same
 * rows, structure and answers, and no file stays that no segment owns. */
#include "engine_cell.h"

#include "engine/partition/part.h"
#include "engine/store/failpoint.h"
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#ifndef BW_DEBUG
int main(void)
{
    puts("failpoints are in the debug build only");
    return 0;
}
#else

enum { DIM = 8, SEAL = 40, ADOPT = 10, PIECE = 10 };

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

static void make_collection(cell *c)
{
    bw_vector_spec spec = {.name = BW_STR(""),
                           .dim = DIM,
                           .metric = BW_METRIC_COSINE,
                           .on_disk = true,
                           .index = BW_INDEX_GRAPH};
    bw_collection_info info = {.tenant = TENANT,
                               .name = NAME,
                               .vectors = &spec,
                               .nvectors = 1,
                               .settings = BW_STR("{}")};
    OK(bw_collection_create(c->ctx, c->engine, &info));
    bw_class_id id = cell_class(1);
    OK(bw_class_put(c->ctx, c->engine, &id, BW_STR("labels")));
}

/* ---- the writes ---- */

typedef struct step {
    uint64_t from, to; /* ids */
    enum { UPSERT, DELETE, SEAL_CALL } kind;
} step;

static const step steps[] = {
    {150, 160, UPSERT}, /* the fourth segment; a merge begins */
    {160, 200, UPSERT}, /* one more, alone */
    {200, 320, UPSERT}, /* the merge is adopted, another begins */
    {165, 180, DELETE}, /* a rebuild ends that */
    {320, 330, UPSERT}, /* and its graph is adopted */
    {0, 0, SEAL_CALL},
    {400, 440, UPSERT},
    {0, 0, SEAL_CALL},
    {0, 120, DELETE},
};

static bw_status take(cell *c, const step *s)
{
    bw_access a = cell_access(c, 1, 1);
    bw_write_result r;
    uint32_t n = (uint32_t)(s->to - s->from);
    if (s->kind == SEAL_CALL) {
        bw_permit p = cell_permit(c, 1, 1);
        return bw_collection_seal(c->ctx, c->engine, TENANT, NAME, &p);
    }
    bw_op op = {.kind = s->kind == DELETE ? BW_OP_DELETE : BW_OP_UPSERT};
    if (s->kind == DELETE) {
        bw_point_id *ids = bw_arena_calloc(c->ctx, n, sizeof *ids);
        for (uint32_t i = 0; i < n; i++)
            ids[i] = cell_id(s->from + i);
        op.ids = ids;
        op.nids = n;
    } else {
        bw_point *p = bw_arena_calloc(c->ctx, n, sizeof *p);
        for (uint32_t i = 0; i < n; i++)
            p[i] = cell_point(c, 1, s->from + i, DIM, NULL);
        op.points = p;
        op.npoints = n;
    }
    return cell_write(c, &a, &op, 1, &r);
}

/* ---- what is there ---- */

static void put_shape(const bw_snapshot *s, bw_buf *b)
{
    for (uint32_t i = 0; i < s->nsegs; i++)
        bw_buf_printf(b, "%u-%u%s ", s->segs[i].p.slots, s->segs[i].dead,
                      s->segs[i].p.adopted ? "g" : "");
    for (uint32_t i = 0; i < s->nmerges; i++)
        bw_buf_printf(b, "(%u-%u) ", s->merges[i].s.p.slots, s->merges[i].s.dead);
    bw_buf_printf(b, "+%u\n", s->grow_live);
}

static void put_answers(cell *c, const bw_snapshot *s, bool exact, bw_buf *b)
{
    for (unsigned q = 0; q < 8; q++) {
        bw_candidate items[10];
        bw_topk t;
        bw_topk_init(&t, items, 10);
        bw_point p = cell_point(c, 9, 1000000 + q, DIM, NULL);
        const bw_bitmap *live = bw_snapshot_live(s);
        bw_search_params sp = {.k = 10,
                               .exact = exact,
                               .ef_search = exact ? 0 : 16,
                               .allowed = live,
                               .permitted = bw_bitmap_count(live)};
        OK(bw_snapshot_search_dense(c->ctx, s, p.vectors->values, &sp, &t, NULL));
        bw_topk_sort(&t);
        for (size_t i = 0; i < t.n; i++) {
            uint32_t bits;
            memcpy(&bits, &items[i].key, sizeof bits);
            bw_buf_printf(b, "%llu:%08x ", (unsigned long long)items[i].id.lo, bits);
        }
    }
}

/* Structure, answers, rows; all as text. */
static char *state_of(cell *c)
{
    bw_buf b = {0};
    bw_view v = cell_view(c, 1, 1);
    put_shape(v.parts[0], &b);
    put_answers(c, v.parts[0], true, &b);
    put_answers(c, v.parts[0], false, &b);
    bw_view_close(&v);
    bw_str dump = cell_dump(c, 1, 1, DIM);
    bw_buf_put(&b, dump.ptr, dump.len);
    bw_buf_putc(&b, 0);
    assert_false(b.failed);
    char *out = strdup(b.ptr);
    assert_non_null(out);
    bw_buf_clear(&b);
    return out;
}

/* Every file made from vectors has its segment. The engine is closed: builds are over. */
static void expect_no_orphans(cell *c, const uint32_t *nos, size_t nnos)
{
    char dir[80];
    (void)snprintf(dir, sizeof dir, "%s/p", c->dir);
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        const char *dot = strrchr(e->d_name, '.');
        assert_false(dot && strcmp(dot, ".tmp") == 0);
        if (!dot || (strcmp(dot, ".graph") != 0 && strcmp(dot, ".rows") != 0))
            continue;
        const char *first = strchr(e->d_name, '.');
        uint32_t no = (uint32_t)strtoul(first + 1, NULL, 10);
        bool owned = false;
        for (size_t i = 0; i < nnos; i++)
            owned = owned || nos[i] == no;
        if (!owned)
            fail_msg("%s has no segment", e->d_name);
    }
    closedir(d);
}

static void close_and_look(cell *c)
{
    bw_view v = cell_view(c, 1, 1);
    const bw_snapshot *s = v.parts[0];
    uint32_t nos[64];
    size_t n = 0;
    assert_true(s->nsegs + s->nmerges <= 64);
    for (uint32_t i = 0; i < s->nsegs; i++)
        nos[n++] = s->segs[i].p.no;
    for (uint32_t i = 0; i < s->nmerges; i++)
        nos[n++] = s->merges[i].s.p.no;
    bw_view_close(&v);
    bw_engine_close(c->engine);
    c->engine = NULL;
    expect_no_orphans(c, nos, n);
}

/* ---- dying ---- */

static atomic_int countdown; /* builders pass failpoints too */

static bw_status die_at_zero(const char *name)
{
    (void)name;
    if (atomic_fetch_sub(&countdown, 1) == 0)
        _exit(9);
    return BW_OK;
}

/* Takes one step in a process that dies at the n-th failpoint; true when it got through. */
static bool run_child(cell *c, const step *s, int n)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        cell child = *c;
        child.ctx = bw_ctx_new(0);
        if (bw_engine_open(child.ctx, child.dir, &child.options, &child.engine) !=
            BW_OK)
            _exit(1);
        atomic_store(&countdown, n);
        bw_failpoint_set(die_at_zero);
        if (take(&child, s) != BW_OK)
            _exit(2);
        bw_engine_close(child.engine); /* and what builders come to */
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9);
    return WEXITSTATUS(status) == 0;
}

/* ---- copies of a folder ---- */

static const char *copy_from, *copy_to;

static int copy_one(const char *path, const struct stat *sb, int flag, struct FTW *f)
{
    (void)sb;
    (void)f;
    char to[400];
    (void)snprintf(to, sizeof to, "%s%s", copy_to, path + strlen(copy_from));
    if (flag == FTW_D)
        return mkdir(to, 0700) != 0 && errno != EEXIST;
    FILE *in = fopen(path, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    char buf[65536];
    for (size_t n; (n = fread(buf, 1, sizeof buf, in)) > 0;)
        assert_int_equal(fwrite(buf, 1, n, out), n);
    assert_int_equal(fclose(in) | fclose(out), 0);
    assert_int_equal(chmod(to, 0600), 0);
    return 0;
}

static void copy_cell(const cell *c, cell *out)
{
    *out = *c;
    out->engine = NULL;
    out->ctx = bw_ctx_new(0);
    (void)snprintf(out->dir, sizeof out->dir, "%.40s-c", c->dir);
    cell_remove_dir(out->dir);
    copy_from = c->dir;
    copy_to = out->dir;
    assert_int_equal(nftw(c->dir, copy_one, 16, FTW_PHYS), 0);
}

/* ---- the test ---- */

typedef struct counts {
    unsigned deaths, after_commit;
} counts;

/* The step dies at every place in turn, each time from the same folder. */
static void die_everywhere(cell *base, const step *s, size_t before, size_t after,
                           const char *want, counts *t)
{
    for (int n = 0;; n++) {
        cell copy, *c = &copy;
        copy_cell(base, c);
        bool through = run_child(c, s, n);
        cell_open(c);
        size_t points = cell_count(c, 1, 1);
        assert_true(points == before || points == after);
        assert_true(!through || points == after);
        t->deaths += !through;
        t->after_commit += !through && before != after && points == after;
        if (points != after || (!through && s->kind == SEAL_CALL))
            OK(take(c, s));
        char *got = state_of(c);
        assert_string_equal(got, want);
        free(got);
        close_and_look(c);
        cell_clear(c);
        if (through)
            break;
    }
}

static void test_crash__at_any_step_loses_and_leaves_nothing(void **state)
{
    (void)state;
    cell own, *c = &own;
    counts t = {0};
    bw_engine_options o = small();
    cell_init(c, &o);
    make_collection(c);
    for (uint64_t i = 0; i < 150; i += PIECE)
        cell_upsert_range(c, 1, i, i + PIECE, DIM);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        cell copy, *before = &copy;
        size_t points = cell_count(c, 1, 1);
        close_and_look(c);
        copy_cell(c, before);
        cell_open(c);
        OK(take(c, &steps[i]));
        char *want = state_of(c);
        printf("%u deaths; now %.*s\n", t.deaths, (int)strcspn(want, "\n"), want);
        size_t after = cell_count(c, 1, 1);
        close_and_look(c); /* no thread may hold a lock of malloc's while we fork */
        die_everywhere(before, &steps[i], points, after, want, &t);
        cell_open(c);
        char *again = state_of(c);
        assert_string_equal(again, want);
        free(again);
        free(want);
        cell_clear(before);
    }
    printf("%u deaths, %u after a commit\n", t.deaths, t.after_commit);
    assert_true(t.deaths > 40 && t.after_commit > 5);
    cell_clear(c);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crash__at_any_step_loses_and_leaves_nothing),
    };
    return cmocka_run_group_tests_name("seal_crash", tests, NULL, NULL);
}
#endif
