/* What a read costs over many classes: times queries, counts and scrolls over N classes
 * of M points each, in a temporary folder. For the README's figures and for looking
 * where time goes; nothing is asserted.
 *
 *     fanout CLASSES POINTS_EACH [DIM] [ROUNDS] */
#include "engine/base/base.h"
#include "engine/base/json.h"
#include "rnd.h"
#include <bailiwick/engine.h>

#include <ftw.h>
#include <unistd.h>

typedef struct cell {
    bw_ctx *ctx;
    bw_engine *engine;
    bw_class_id *classes;
    size_t nclasses, each;
    uint32_t dim;
    bw_permit permit;
    bw_read read;
} cell;

static void ok(bw_ctx *ctx, bw_status st)
{
    if (st == BW_OK)
        return;
    fprintf(stderr, "%s: %s\n", bw_status_name(st), bw_ctx_message(ctx));
    exit(1);
}

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void fill(cell *c, rnd *r)
{
    float *values = bw_alloc(c->dim * sizeof *values * c->each);
    bw_point *points = bw_calloc(c->each, sizeof *points);
    bw_vector *vectors = bw_calloc(c->each, sizeof *vectors);
    for (size_t k = 0; k < c->nclasses; k++) {
        bw_permit one = {&c->classes[k], 1}; /* with all, every write would view all */
        bw_access access = {one, one, one, one};
        for (size_t i = 0; i < c->each; i++) {
            float *v = values + i * c->dim;
            for (uint32_t d = 0; d < c->dim; d++)
                v[d] = (float)rnd_gauss(r);
            vectors[i] = (bw_vector){BW_STR(""), v, NULL, c->dim, false};
            points[i] = (bw_point){.id = {0, k * c->each + i, 0, 0},
                                   .class_id = c->classes[k],
                                   .vectors = &vectors[i],
                                   .nvectors = 1};
            char *p =
                bw_arena_printf(c->ctx,
                                "{\"page_content\":\"some text of a "
                                "chunk\",\"metadata\":{\"n\":%zu,\"tag\":\"t%zu\"}}",
                                i, i % 10);
            points[i].payload = bw_str_c(p);
        }
        bw_op op = {
            .kind = BW_OP_UPSERT, .points = points, .npoints = (uint32_t)c->each};
        bw_write_result result;
        ok(c->ctx, bw_write(c->ctx, c->engine, BW_STR("t"), BW_STR("c"), &access, &op,
                            1, &result));
        bw_ctx_reset(c->ctx);
    }
    bw_free(values);
    bw_free(points);
    bw_free(vectors);
}

static double micros(uint64_t from)
{
    return (double)(bw_clock_mono_ns() - from) / 1e3;
}

static void run_query(cell *c, const char *name, bw_query *q, int rounds)
{
    double best = 1e18, sum = 0;
    for (int i = 0; i < rounds; i++) {
        bw_result *r;
        uint64_t t = bw_clock_mono_ns();
        ok(c->ctx, bw_query_run(c->ctx, c->engine, &c->read, q, 1, &r));
        bw_result_free(r);
        bw_ctx_reset(c->ctx);
        double us = micros(t);
        best = us < best ? us : best;
        sum += us;
    }
    printf("%-28s best %10.1f us, mean %10.1f us\n", name, best, sum / rounds);
}

static void measure(cell *c, rnd *r, int rounds)
{
    float *v = bw_alloc(c->dim * sizeof *v);
    for (uint32_t d = 0; d < c->dim; d++)
        v[d] = (float)rnd_gauss(r);
    bw_value tag = {.kind = BW_VALUE_STRING, .str = BW_STR("t3")};
    bw_condition cond = {.kind = BW_COND_MATCH_VALUE,
                         .key = BW_STR("metadata.tag"),
                         .values = &tag,
                         .nvalues = 1};
    bw_filter filter = {.must = &cond, .nmust = 1};
    bw_query q = {.kind = BW_QUERY_NEAREST,
                  .using_name = BW_STR(""),
                  .limit = 10,
                  .target = {.vector = {BW_STR(""), v, NULL, c->dim, false}}};
    run_query(c, "nearest", &q, rounds);
    bw_class_id *some = bw_calloc(c->nclasses / 10 + 1, sizeof *some);
    bw_permit tenth = {some, 0};
    for (size_t i = 0; i < c->nclasses; i += 10)
        some[tenth.n++] = c->classes[i];
    c->read.permit = &tenth;
    run_query(c, "nearest, a tenth permitted", &q, rounds);
    c->read.permit = &c->permit;
    bw_free(some);
    q.filter = &filter;
    run_query(c, "nearest, filter by scan", &q, rounds);
    q = (bw_query){.kind = BW_QUERY_NONE, .limit = 10};
    run_query(c, "first ten ids", &q, rounds);
    for (int pass = 0; pass < 3; pass++) {
        uint64_t n, t = bw_clock_mono_ns();
        ok(c->ctx, bw_count(c->ctx, c->engine, &c->read, pass ? &filter : NULL, &n));
        printf("%-28s %10.1f us (%llu)\n",
               pass ? pass == 2 ? "count, filter by index" : "count, filter by scan"
                    : "count",
               micros(t), (unsigned long long)n);
        bw_ctx_reset(c->ctx);
        if (pass == 1) {
            bw_index_spec spec = {BW_STR("metadata.tag"), BW_STR("keyword"), {NULL, 0}};
            ok(c->ctx, bw_collection_index_put(c->ctx, c->engine, BW_STR("t"),
                                               BW_STR("c"), &spec));
        }
    }
    const bw_facet_hit *hits;
    size_t n;
    uint64_t t = bw_clock_mono_ns();
    ok(c->ctx, bw_facet(c->ctx, c->engine, &c->read, BW_STR("metadata.tag"), NULL, 10,
                        &hits, &n));
    printf("%-28s %10.1f us\n", "facet", micros(t));
    bw_ctx_reset(c->ctx);
    q = (bw_query){.kind = BW_QUERY_NEAREST,
                   .using_name = BW_STR(""),
                   .limit = 10,
                   .filter = &filter,
                   .target = {.vector = {BW_STR(""), v, NULL, c->dim, false}}};
    run_query(c, "nearest, filter by index", &q, rounds);
    bw_free(v);
}

int main(int argc, char **argv)
{
    cell c = {.ctx = bw_ctx_new((size_t)4 << 30)};
    c.nclasses = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    c.each = argc > 2 ? strtoull(argv[2], NULL, 10) : 10;
    c.dim = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 64;
    int rounds = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 20;
    char dir[] = "/tmp/bw_fanout_XXXXXX";
    bw_engine_options options = BW_ENGINE_OPTIONS_INIT;
    options.null_sync = true;
    rnd r = rnd_start("fanout", 1);
    if (!mkdtemp(dir))
        return 1;
    ok(c.ctx, bw_engine_open(c.ctx, dir, &options, &c.engine));
    c.classes = bw_calloc(c.nclasses, sizeof *c.classes);
    for (size_t i = 0; i < c.nclasses; i++) {
        for (int b = 0; b < 4; b++)
            c.classes[i].bytes[b] = (uint8_t)(i >> (24 - 8 * b));
        ok(c.ctx, bw_class_put(c.ctx, c.engine, &c.classes[i], BW_STR("{}")));
    }
    c.permit = (bw_permit){c.classes, c.nclasses};
    c.read = (bw_read){BW_STR("t"), BW_STR("c"), &c.permit, 1, NULL, false, false};
    bw_vector_spec spec = {
        .name = BW_STR(""), .dim = c.dim, .metric = BW_METRIC_COSINE};
    bw_collection_info info = {.tenant = BW_STR("t"),
                               .name = BW_STR("c"),
                               .vectors = &spec,
                               .nvectors = 1,
                               .settings = BW_STR("{}")};
    ok(c.ctx, bw_collection_create(c.ctx, c.engine, &info));
    uint64_t t = bw_clock_mono_ns();
    fill(&c, &r);
    printf("%zu classes x %zu points, dim %u: filled in %.1f s\n", c.nclasses, c.each,
           c.dim, micros(t) / 1e6);
    measure(&c, &r, rounds);
    bw_engine_close(c.engine);
    bw_ctx_free(c.ctx);
    bw_free(c.classes);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}
