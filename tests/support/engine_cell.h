/* A cell in a temporary folder for tests of the engine: short ways to make classes,
 * points and writes. Header only; each test program is one file. */
#ifndef BW_TEST_ENGINE_CELL_H
#define BW_TEST_ENGINE_CELL_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/base.h"
#include "engine/base/json.h"
#include "engine/partition/partition.h"
#include <bailiwick/engine.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct cell {
    char dir[64];
    bw_ctx *ctx;
    bw_engine *engine;
    bw_engine_options options;
} cell;

static int cell_rm(const char *path, const struct stat *sb, int flag, struct FTW *f)
{
    (void)sb;
    (void)flag;
    (void)f;
    return remove(path);
}

static inline void cell_remove_dir(const char *dir)
{
    (void)nftw(dir, cell_rm, 16, FTW_DEPTH | FTW_PHYS);
}

#define OK(call)                                                               \
    do {                                                                       \
        bw_status st_ = (call);                                                \
        if (st_ != BW_OK)                                                      \
            fail_msg("%s:%d: %s: %s", __FILE__, __LINE__, bw_status_name(st_), \
                     bw_ctx_message(c->ctx));                                  \
    } while (0)

static inline void cell_open(cell *c)
{
    OK(bw_engine_open(c->ctx, c->dir, &c->options, &c->engine));
}

static inline void cell_init(cell *c, const bw_engine_options *o)
{
    memset(c, 0, sizeof *c);
    c->options = (bw_engine_options)BW_ENGINE_OPTIONS_INIT;
    if (o)
        c->options = *o;
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(c->dir, sizeof c->dir, "%s/bw-test-XXXXXX", base);
    assert_non_null(mkdtemp(c->dir));
    c->ctx = bw_ctx_new(0);
    assert_non_null(c->ctx);
    cell_open(c);
}

static inline void cell_reopen(cell *c)
{
    bw_engine_close(c->engine);
    c->engine = NULL;
    cell_open(c);
}

static inline void cell_clear(cell *c)
{
    bw_engine_close(c->engine);
    bw_ctx_free(c->ctx);
    cell_remove_dir(c->dir);
}

static inline bw_class_id cell_class(unsigned n)
{
    bw_class_id id = {{0}};
    id.bytes[0] = (uint8_t)(n >> 8);
    id.bytes[1] = (uint8_t)n;
    id.bytes[31] = 7;
    return id;
}

#define TENANT BW_STR("t")
#define NAME   BW_STR("docs")

/* A collection "docs" of one dense vector, and classes 1 … nclasses. */
static inline void cell_collection(cell *c, uint32_t dim, bw_metric metric,
                                   unsigned nclasses)
{
    bw_vector_spec specs[2] = {{.name = BW_STR(""), .dim = dim, .metric = metric},
                               {.name = BW_STR("words"), .sparse = true}};
    bw_collection_info info = {.tenant = TENANT,
                               .name = NAME,
                               .vectors = specs,
                               .nvectors = 2,
                               .settings = BW_STR("{\"a\":1}")};
    OK(bw_collection_create(c->ctx, c->engine, &info));
    for (unsigned i = 1; i <= nclasses; i++) {
        bw_class_id id = cell_class(i);
        OK(bw_class_put(c->ctx, c->engine, &id, BW_STR("labels")));
    }
}

static inline bw_point_id cell_id(uint64_t n)
{
    return (bw_point_id){0, n, 0, 0};
}

/* Classes from … to, in the ctx's arena. */
static inline bw_permit cell_permit(cell *c, unsigned from, unsigned to)
{
    size_t n = to >= from ? to - from + 1 : 0;
    bw_class_id *list = bw_arena_calloc(c->ctx, n, sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < n; i++)
        list[i] = cell_class(from + (unsigned)i);
    return (bw_permit){list, n};
}

static inline bw_access cell_access(cell *c, unsigned from, unsigned to)
{
    bw_permit p = cell_permit(c, from, to);
    return (bw_access){p, p, p, p};
}

static inline bw_status cell_write(cell *c, const bw_access *a, const bw_op *ops,
                                   size_t n, bw_write_result *r)
{
    return bw_write(c->ctx, c->engine, TENANT, NAME, a, ops, n, r);
}

/* One point with a dense vector made from its id, and a payload that names it. */
static inline bw_point cell_point(cell *c, unsigned class_no, uint64_t id, uint32_t dim,
                                  const char *text)
{
    float *v = bw_arena_alloc(c->ctx, dim * sizeof *v);
    bw_vector *vec = bw_arena_calloc(c->ctx, 1, sizeof *vec);
    char *payload = bw_arena_printf(c->ctx, "{\"n\":%llu,\"class\":%u}",
                                    (unsigned long long)id, class_no);
    assert_true(v && vec && payload);
    uint64_t x = id * 0x9E3779B97F4A7C15u + class_no;
    for (uint32_t i = 0; i < dim; i++) {
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        v[i] = (float)((x * 0x2545F4914F6CDD1Du) >> 40) / 8388608.0f - 1.0f;
    }
    *vec = (bw_vector){.name = BW_STR(""), .values = v, .n = dim};
    return (bw_point){.id = cell_id(id),
                      .class_id = cell_class(class_no),
                      .payload = bw_str_c(payload),
                      .text = bw_str_c(text),
                      .vectors = vec,
                      .nvectors = 1};
}

static inline void cell_upsert(cell *c, const bw_point *points, uint32_t n)
{
    bw_access a = cell_access(c, 1, 400);
    bw_op op = {.kind = BW_OP_UPSERT, .points = points, .npoints = n};
    bw_write_result r;
    OK(cell_write(c, &a, &op, 1, &r));
    assert_int_equal(r.points_changed, n);
}

static inline void cell_upsert_range(cell *c, unsigned class_no, uint64_t from,
                                     uint64_t to, uint32_t dim)
{
    bw_arena_mark mark = bw_arena_mark_get(c->ctx);
    bw_point *p = bw_arena_calloc(c->ctx, to - from, sizeof *p);
    for (uint64_t i = from; i < to; i++)
        p[i - from] = cell_point(c, class_no, i, dim, NULL);
    cell_upsert(c, p, (uint32_t)(to - from));
    bw_arena_release(c->ctx, mark);
}

static inline bw_view cell_view(cell *c, unsigned from, unsigned to)
{
    bw_permit p = cell_permit(c, from, to);
    bw_view v;
    OK(bw_view_open(c->ctx, c->engine, TENANT, NAME, &p, bw_clock_unix_ns(), &v));
    return v;
}

static inline size_t cell_count(cell *c, unsigned from, unsigned to)
{
    bw_view v = cell_view(c, from, to);
    size_t n = 0;
    for (size_t i = 0; i < v.nparts; i++)
        n += bw_bitmap_count(bw_snapshot_live(v.parts[i]));
    bw_view_close(&v);
    return n;
}

/* One of the engine's own figures. */
static inline uint64_t cell_figure(cell *c, const char *name)
{
    bw_str json;
    bw_json *doc;
    uint64_t n = 0;
    bw_arena_mark mark = bw_arena_mark_get(c->ctx);
    OK(bw_engine_stats(c->ctx, c->engine, &json));
    OK(bw_json_parse(c->ctx, json, BW_JSON_REQUEST, &doc));
    assert_true(bw_json_u64(bw_json_get(doc, name), &n));
    bw_arena_release(c->ctx, mark);
    return n;
}

/* The values of a row, or NULL. */
static inline const float *cell_dense(cell *c, const bw_snapshot *s, uint32_t vec,
                                      uint32_t row)
{
    const float *out;
    OK(bw_snapshot_dense(c->ctx, s, vec, row, &out));
    assert_true((out != NULL) == bw_snapshot_has_dense(s, vec, row));
    return out;
}

/* Everything that a reader of the classes can see, as text: one line a point. Two cells
 * with equal dumps hold the same points, versions and vector bits. */
static inline bw_str cell_dump(cell *c, unsigned from, unsigned to, uint32_t dim)
{
    bw_buf b = {0};
    bw_view v = cell_view(c, from, to);
    for (size_t i = 0; i < v.nparts; i++) {
        const uint32_t *rows;
        size_t n;
        OK(bw_snapshot_by_id(c->ctx, v.parts[i], &rows, &n));
        for (size_t k = 0; k < n; k++) {
            bw_row row;
            bw_snapshot_row(v.parts[i], rows[k], &row);
            bw_buf_printf(&b, "%02x%02x %llx-%llx v%llu ", v.classes[i].bytes[0],
                          v.classes[i].bytes[1], (unsigned long long)row.id.hi,
                          (unsigned long long)row.id.lo,
                          (unsigned long long)row.version);
            bw_buf_str(&b, row.payload);
            bw_buf_putc(&b, '|');
            bw_buf_str(&b, row.text);
            bw_buf_printf(&b, "|%lld|", (long long)row.facts.expires_at_ns);
            bw_buf_str(&b, row.facts.subject);
            bw_buf_str(&b, row.facts.source);
            bw_buf_str(&b, row.facts.model);
            const float *d = cell_dense(c, v.parts[i], 0, rows[k]);
            for (uint32_t j = 0; d && j < dim; j++) {
                uint32_t bits;
                memcpy(&bits, &d[j], sizeof bits);
                bw_buf_printf(&b, " %08x", bits);
            }
            bw_vector sp;
            if (bw_snapshot_sparse(v.parts[i], 1, rows[k], &sp))
                for (uint32_t j = 0; j < sp.n; j++)
                    bw_buf_printf(&b, " %u:%a", sp.indices[j], (double)sp.values[j]);
            bw_buf_putc(&b, '\n');
        }
    }
    bw_view_close(&v);
    bw_str out;
    assert_false(b.failed);
    OK(bw_arena_str(c->ctx, bw_buf_view(&b), &out));
    bw_buf_clear(&b);
    return out;
}
#endif
