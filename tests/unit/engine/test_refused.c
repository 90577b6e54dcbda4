/* A write that was refused leaves no trace: a cell that met refusals at random steps,
 * and restarts, answers every read with the same bits as one that never did. */
#include "engine_cell.h"

#include "engine/store/failpoint.h"
#include "failing_alloc.h"
#include "rnd.h"

#ifndef BW_DEBUG
int main(void)
{
    puts("failpoints are in the debug build only");
    return 0;
}
#else

enum { DIM = 6, CLASSES = 3, IDS = 90, STEPS = 240, POINTS_MAX = 14 };

static const char *const words[] = {"alpha", "beta",    "gamma",
                                    "delta", "running", "ran"};
enum { NWORDS = sizeof words / sizeof *words };

static int countdown;

static bw_status fail_at_zero(const char *name)
{
    if (strcmp(name, "db.committed") == 0)
        return BW_OK; /* a place to die at only */
    return countdown-- == 0 ? BW_EIO : BW_OK;
}

/* ---- one random write ---- */

typedef struct change {
    bw_op op;
    bw_point points[POINTS_MAX];
    bw_point_id ids[POINTS_MAX];
    bw_condition cond;
    bw_filter filter;
    bw_value value;
} change;

static bw_point random_point(cell *c, rnd *r)
{
    bw_point p = cell_point(c, 1 + (unsigned)rnd_below(r, CLASSES), rnd_below(r, IDS),
                            DIM, NULL);
    bw_vector *v = bw_arena_calloc(c->ctx, 2, sizeof *v);
    float *values = bw_arena_alloc(c->ctx, 2 * sizeof *values);
    uint32_t *indices = bw_arena_alloc(c->ctx, 2 * sizeof *indices);
    assert_true(v && values && indices);
    v[0] = p.vectors[0];
    indices[0] = (uint32_t)rnd_below(r, 4);
    indices[1] = 4 + (uint32_t)rnd_below(r, 4);
    values[0] = (float)rnd_unit(r);
    values[1] = 1;
    v[1] = (bw_vector){BW_STR("words"), values, indices, 2, true};
    p.vectors = v;
    p.nvectors = (uint32_t)rnd_below(r, 3);
    p.payload = bw_str_c(bw_arena_printf(c->ctx, "{\"n\":%d,\"k\":\"%s\"}",
                                         (int)rnd_below(r, 40) - 20,
                                         words[rnd_below(r, NWORDS)]));
    if (rnd_below(r, 4))
        p.text = bw_str_c(bw_arena_printf(c->ctx, "%s %s", words[rnd_below(r, NWORDS)],
                                          words[rnd_below(r, NWORDS)]));
    return p;
}

static void random_change(cell *c, rnd *r, change *out)
{
    static const bw_op_kind kinds[] = {BW_OP_UPSERT, BW_OP_UPSERT, BW_OP_UPSERT,
                                       BW_OP_DELETE, BW_OP_DELETE, BW_OP_SET_PAYLOAD};
    uint32_t n = 1 + (uint32_t)rnd_below(r, POINTS_MAX);
    memset(out, 0, sizeof *out);
    out->op.kind = kinds[rnd_below(r, sizeof kinds / sizeof *kinds)];
    for (uint32_t i = 0; i < n; i++) {
        out->points[i] = random_point(c, r);
        out->ids[i] = cell_id(rnd_below(r, IDS));
    }
    out->op.payload = bw_str_c(
        bw_arena_printf(c->ctx, "{\"k\":\"%s\"}", words[rnd_below(r, NWORDS)]));
    if (out->op.kind == BW_OP_UPSERT) {
        out->op.points = out->points;
        out->op.npoints = n;
    } else if (rnd_below(r, 3)) {
        out->op.ids = out->ids;
        out->op.nids = n;
    } else {
        out->value = (bw_value){.kind = BW_VALUE_STRING,
                                .str = bw_str_c(words[rnd_below(r, NWORDS)])};
        out->cond = (bw_condition){.kind = BW_COND_MATCH_VALUE,
                                   .key = BW_STR("k"),
                                   .values = &out->value,
                                   .nvalues = 1};
        out->filter = (bw_filter){.must = &out->cond, .nmust = 1};
        out->op.filter = &out->filter;
    }
}

static bw_status apply(cell *c, const change *ch)
{
    bw_class_id ids[CLASSES]; /* no arena: memory may be about to run out */
    for (unsigned i = 0; i < CLASSES; i++)
        ids[i] = cell_class(i + 1);
    bw_permit p = {ids, CLASSES};
    bw_access a = {p, p, p, p};
    bw_write_result r;
    return cell_write(c, &a, &ch->op, 1, &r);
}

/* ---- every kind of read, as text ---- */

static void put_hits(bw_buf *b, const bw_result *r)
{
    size_t n;
    const bw_hit *h = bw_result_hits(r, 0, &n);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &h[i].score, sizeof bits);
        bw_buf_printf(b, " %llu/%u:%08x:v%llu:%u", (unsigned long long)h[i].id.lo,
                      h[i].class_id.bytes[1], h[i].has_score ? bits : 0,
                      (unsigned long long)h[i].version, h[i].nvectors);
        bw_buf_str(b, h[i].payload);
    }
    bw_buf_putc(b, '\n');
}

static void ask(cell *c, const bw_read *read, const bw_query *q, bw_buf *b)
{
    bw_result *r;
    OK(bw_query_run(c->ctx, c->engine, read, q, 1, &r));
    put_hits(b, r);
    bw_result_free(r);
}

static void ask_all(cell *c, const bw_permit *permit, bw_buf *b)
{
    static const float dense[DIM] = {1, -1, 0.5f, 0.25f, -0.75f, 0.1f};
    static const uint32_t indices[] = {1, 5};
    static const float values[] = {1, 0.5f};
    bw_read read = {.tenant = TENANT, .name = NAME, .permit = permit, .now_ns = 1};
    bw_value v = {.kind = BW_VALUE_STRING, .str = bw_str_c(words[1])};
    bw_condition k = {
        .kind = BW_COND_MATCH_VALUE, .key = BW_STR("k"), .values = &v, .nvalues = 1};
    bw_filter filter = {.must = &k, .nmust = 1};
    bw_query q = {.kind = BW_QUERY_NEAREST, .using_name = BW_STR(""), .limit = 9};
    q.target.vector = (bw_vector){.values = dense, .n = DIM};
    ask(c, &read, &q, b);
    q.filter = &filter;
    ask(c, &read, &q, b);
    q.using_name = BW_STR("words");
    q.target.vector =
        (bw_vector){.values = values, .indices = indices, .n = 2, .sparse = true};
    ask(c, &read, &q, b);
    for (size_t i = 0; i < NWORDS; i++) {
        bw_query t = {.kind = BW_QUERY_TEXT, .text = bw_str_c(words[i]), .limit = 30};
        ask(c, &read, &t, b);
    }
    bw_query order = {.kind = BW_QUERY_ORDER_BY, .limit = 40};
    order.order_by.key = BW_STR("n");
    ask(c, &read, &order, b);
    bw_query ids = {.kind = BW_QUERY_NONE, .limit = 200, .filter = &filter};
    ask(c, &read, &ids, b);
    ids.filter = NULL;
    ask(c, &read, &ids, b);
    const bw_facet_hit *facets;
    size_t n;
    OK(bw_facet(c->ctx, c->engine, &read, BW_STR("k"), NULL, 20, &facets, &n));
    for (size_t i = 0; i < n; i++)
        bw_buf_printf(b, " %.*s=%llu", (int)facets[i].value.str.len,
                      facets[i].value.str.ptr, (unsigned long long)facets[i].count);
    uint64_t count;
    OK(bw_count(c->ctx, c->engine, &read, &filter, &count));
    bw_buf_printf(b, " %llu\n", (unsigned long long)count);
}

static void expect_same(cell *c, cell *clean, unsigned step)
{
    static const unsigned ranges[][2] = {{1, CLASSES}, {1, 1}, {2, 3}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        bw_permit p = cell_permit(c, ranges[i][0], ranges[i][1]);
        bw_buf a = {0}, b = {0};
        ask_all(c, &p, &a);
        ask_all(clean, &p, &b);
        bw_buf_putc(&a, 0);
        bw_buf_putc(&b, 0);
        assert_false(a.failed || b.failed);
        if (strcmp(a.ptr, b.ptr) != 0)
            fail_msg("step %u, classes %u to %u:\n%s\nis not\n%s", step, ranges[i][0],
                     ranges[i][1], a.ptr, b.ptr);
        bw_buf_clear(&a);
        bw_buf_clear(&b);
    }
}

static void start(cell *c, uint32_t seal_rows)
{
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.seal_rows = seal_rows;
    o.exact_rows = seal_rows / 2;
    o.graphs_first = true;
    o.adopt_rows = 30;
    o.null_sync = true;
    cell_init(c, &o);
    cell_collection(c, DIM, BW_METRIC_EUCLID, CLASSES);
    bw_index_spec n = {.field = BW_STR("n"), .type = BW_STR("integer")};
    bw_index_spec k = {.field = BW_STR("k"), .type = BW_STR("keyword")};
    OK(bw_collection_index_put(c->ctx, c->engine, TENANT, NAME, &n));
    OK(bw_collection_index_put(c->ctx, c->engine, TENANT, NAME, &k));
}

static bw_status apply_with_errors(cell *c, rnd *r, const change *ch)
{
    countdown = rnd_below(r, 2) ? (int)rnd_below(r, 18) : -1;
    bw_failpoint_set(fail_at_zero);
    bw_status st = apply(c, ch);
    bw_failpoint_set(NULL);
    assert_true(st == BW_OK || st == BW_EIO);
    return st;
}

static bw_status apply_without_memory(cell *c, rnd *r, const change *ch)
{
    failing_arm(rnd_below(r, 2) ? (long)rnd_below(r, 120) : -1, rnd_below(r, 2));
    bw_status st = apply(c, ch);
    failing_arm(-1, false);
    assert_true(st == BW_OK || st == BW_ENOMEM);
    return st;
}

static void compare(uint32_t seal_rows, bw_status (*fn)(cell *, rnd *, const change *))
{
    cell with, without, *c = &with;
    rnd r = rnd_start("refused", 77);
    change ch;
    unsigned refused = 0;
    start(&with, seal_rows);
    start(&without, seal_rows);
    for (unsigned step = 0; step < STEPS; step++) {
        random_change(c, &r, &ch);
        bw_status st = fn(c, &r, &ch);
        refused += st != BW_OK;
        if (st == BW_OK)
            assert_int_equal(apply(&without, &ch), BW_OK);
        if (rnd_below(&r, 25) == 0)
            cell_reopen(c);
        if (step % 4 == 3)
            expect_same(c, &without, step);
        bw_ctx_reset(with.ctx);
        bw_ctx_reset(without.ctx);
    }
    assert_true(refused > STEPS / 8);
    expect_same(c, &without, STEPS);
    cell_clear(&with);
    cell_clear(&without);
}

static void test_refused__after_errors_no_trace_is_left(void **state)
{
    (void)state;
    compare(60, apply_with_errors);
}

/* Without segments: the builders' threads would allocate too. */
static void test_refused__without_memory_no_trace_is_left(void **state)
{
    (void)state;
    compare(1000000, apply_without_memory);
}

int main(void)
{
    failing_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused__after_errors_no_trace_is_left),
        cmocka_unit_test(test_refused__without_memory_no_trace_is_left),
    };
    return cmocka_run_group_tests_name("refused writes", tests, NULL, NULL);
}
#endif
