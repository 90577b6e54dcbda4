/* A cell in a temporary folder with one collection, points in several classes, and
 * short ways to write filters and to look at answers. Filters are written in the wire's
 * JSON and read here without the checks that server/ makes. */
#ifndef BW_PLAN_FIXTURE_H
#define BW_PLAN_FIXTURE_H
#include "engine/base/json.h"
#include "engine/partition/payload.h"
#include "engine/plan/select.h"
#include <bailiwick/engine.h>

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { FX_CLASSES = 4, FX_DIM = 2 };

typedef struct fixture {
    bw_ctx *ctx, *wctx; /* of reads and of writes */
    bw_engine *engine;
    bw_class_id classes[FX_CLASSES]; /* rising */
    bw_permit all, permit;
    bw_read read;
    char dir[64];
} fixture;

#define FX_TENANT BW_STR("t")
#define FX_NAME   BW_STR("c")

static inline void fx_ok(const fixture *f, const bw_ctx *ctx, bw_status st)
{
    (void)f;
    if (st != BW_OK)
        fail_msg("%s: %s", bw_status_name(st), bw_ctx_message(ctx));
}

static inline int fx_remove(const char *path, const struct stat *st, int flag,
                            struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static inline fixture *fx_new(const bw_vector_spec *vectors, uint32_t nvectors)
{
    fixture *f = bw_calloc(1, sizeof *f);
    bw_engine_options options = BW_ENGINE_OPTIONS_INIT;
    assert_non_null(f);
    options.null_sync = true;
    f->ctx = bw_ctx_new(0);
    f->wctx = bw_ctx_new(0);
    snprintf(f->dir, sizeof f->dir, "/tmp/bw_plan_XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    fx_ok(f, f->ctx, bw_engine_open(f->ctx, f->dir, &options, &f->engine));
    for (int i = 0; i < FX_CLASSES; i++) {
        f->classes[i].bytes[0] = (uint8_t)(i + 1);
        fx_ok(f, f->ctx, bw_class_put(f->ctx, f->engine, &f->classes[i], BW_STR("{}")));
    }
    f->all = (bw_permit){f->classes, FX_CLASSES};
    f->permit = f->all;
    f->read = (bw_read){FX_TENANT, FX_NAME, &f->permit, 1000, NULL, false, false};
    bw_collection_info info = {.tenant = FX_TENANT,
                               .name = FX_NAME,
                               .vectors = vectors,
                               .nvectors = nvectors,
                               .settings = BW_STR("{}")};
    fx_ok(f, f->ctx, bw_collection_create(f->ctx, f->engine, &info));
    return f;
}

static inline void fx_free(fixture *f)
{
    bw_engine_close(f->engine);
    bw_ctx_free(f->ctx);
    bw_ctx_free(f->wctx);
    nftw(f->dir, fx_remove, 16, FTW_DEPTH | FTW_PHYS);
    bw_free(f);
}

static inline bw_point_id fx_id(uint64_t n)
{
    return (bw_point_id){0, n, 0, 0};
}

static inline void fx_index(fixture *f, const char *field, const char *type)
{
    bw_index_spec spec = {bw_str_c(field), bw_str_c(type), {NULL, 0}};
    fx_ok(f, f->wctx,
          bw_collection_index_put(f->wctx, f->engine, FX_TENANT, FX_NAME, &spec));
    bw_ctx_reset(f->wctx);
}

static inline void fx_write(fixture *f, const bw_op *op, const bw_permit *who)
{
    bw_access access = {*who, *who, *who, *who};
    bw_write_result result = {0};
    fx_ok(f, f->wctx,
          bw_write(f->wctx, f->engine, FX_TENANT, FX_NAME, &access, op, 1, &result));
    bw_ctx_reset(f->wctx);
}

/* Puts a point as a writer who sees only the point's own class. */
static inline void fx_point(fixture *f, int class, bw_point p)
{
    bw_permit own = {&f->classes[class], 1};
    p.class_id = f->classes[class];
    bw_op op = {.kind = BW_OP_UPSERT, .points = &p, .npoints = 1};
    fx_write(f, &op, &own);
}

/* One dense unnamed vector. */
static inline void fx_put(fixture *f, int class, uint64_t id, float x, float y,
                          const char *payload)
{
    float values[FX_DIM] = {x, y};
    bw_vector v = {BW_STR(""), values, NULL, FX_DIM, false};
    fx_point(f, class,
             (bw_point){.id = fx_id(id),
                        .payload = bw_str_c(payload),
                        .vectors = &v,
                        .nvectors = 1});
}

/* ---- filters from JSON ---- */

static inline const bw_json *fx_json(bw_ctx *ctx, const char *text)
{
    bw_json *root;
    bw_str own;
    assert_int_equal(bw_arena_str(ctx, bw_str_c(text), &own), BW_OK);
    if (bw_json_parse(ctx, own, BW_JSON_REQUEST, &root) != BW_OK)
        fail_msg("%s: %s", text, bw_ctx_message(ctx));
    return root;
}

static inline bw_value fx_value(const bw_json *v)
{
    bw_value out = {.kind = BW_VALUE_STRING, .str = v->str};
    if (bw_json_is_bool(v))
        out = (bw_value){.kind = BW_VALUE_BOOL, .boolean = v->kind == BW_JSON_TRUE};
    else if (v->kind == BW_JSON_NUMBER)
        out = (bw_value){.kind = BW_VALUE_INT, .mag = v->mag, .negative = v->negative};
    return out;
}

static inline void fx_values(bw_ctx *ctx, const bw_json *list, bw_condition *c)
{
    const bw_json *e = NULL;
    bw_value *v = bw_arena_calloc(ctx, list->count, sizeof *v);
    assert_int_equal(bw_json_elements(ctx, list, &e), BW_OK);
    c->values = v;
    c->nvalues = list->count;
    for (; e; e = e->next)
        *v++ = fx_value(e);
}

static inline bw_number fx_bound(const bw_json *v, bool *has, bool *date)
{
    int64_t ns;
    *has = true;
    if (v->kind == BW_JSON_STRING) {
        *date = true;
        assert_true(bw_payload_time(v->str, &ns));
        return (bw_number){true, ns < 0, ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns,
                           (double)ns};
    }
    return (bw_number){v->is_int, v->negative && v->is_int, v->mag, v->real};
}

static inline bool fx_range(const bw_json *v, bw_range *r)
{
    bool date = false;
    const bw_json *b;
    if ((b = bw_json_get(v, "gt")))
        r->gt = fx_bound(b, &r->has_gt, &date);
    if ((b = bw_json_get(v, "gte")))
        r->gte = fx_bound(b, &r->has_gte, &date);
    if ((b = bw_json_get(v, "lt")))
        r->lt = fx_bound(b, &r->has_lt, &date);
    if ((b = bw_json_get(v, "lte")))
        r->lte = fx_bound(b, &r->has_lte, &date);
    return date;
}

static inline const bw_filter *fx_filter_of(bw_ctx *ctx, const bw_json *node);

static inline void fx_match(bw_ctx *ctx, const bw_json *m, bw_condition *c)
{
    const bw_json *v;
    if ((v = bw_json_get(m, "value"))) {
        bw_value *one = bw_arena_calloc(ctx, 1, sizeof *one);
        *one = fx_value(v);
        c->kind = BW_COND_MATCH_VALUE;
        c->values = one;
        c->nvalues = 1;
    } else if ((v = bw_json_get(m, "any"))) {
        c->kind = BW_COND_MATCH_ANY;
        fx_values(ctx, v, c);
    } else if ((v = bw_json_get(m, "except"))) {
        c->kind = BW_COND_MATCH_EXCEPT;
        fx_values(ctx, v, c);
    } else {
        c->kind = BW_COND_MATCH_TEXT;
        c->text = bw_json_get(m, "text")->str;
    }
}

static inline void fx_ids(bw_ctx *ctx, const bw_json *list, bw_condition *c)
{
    const bw_json *e = NULL;
    bw_point_id *ids = bw_arena_calloc(ctx, list->count, sizeof *ids);
    assert_int_equal(bw_json_elements(ctx, list, &e), BW_OK);
    c->kind = BW_COND_HAS_ID;
    c->ids = ids;
    c->nids = list->count;
    for (; e; e = e->next, ids++) {
        if (e->kind == BW_JSON_STRING)
            assert_true(bw_uuid_parse(e->str, ids));
        else
            *ids = fx_id(e->mag);
    }
}

static inline void fx_field(bw_ctx *ctx, const bw_json *n, bw_condition *c)
{
    const bw_json *v;
    c->key = bw_json_get(n, "key")->str;
    if ((v = bw_json_get(n, "match"))) {
        fx_match(ctx, v, c);
    } else if ((v = bw_json_get(n, "range"))) {
        c->kind = fx_range(v, &c->range) ? BW_COND_DATE_RANGE : BW_COND_RANGE;
    } else if ((v = bw_json_get(n, "values_count"))) {
        c->kind = BW_COND_VALUES_COUNT;
        fx_range(v, &c->range);
    } else if ((v = bw_json_get(n, "is_empty"))) {
        c->kind = BW_COND_IS_EMPTY;
        c->negate = v->kind == BW_JSON_FALSE;
    } else {
        v = bw_json_get(n, "is_null");
        c->kind = BW_COND_IS_NULL;
        c->negate = v->kind == BW_JSON_FALSE;
    }
}

static inline bw_condition fx_condition(bw_ctx *ctx, const bw_json *n)
{
    bw_condition c = {0};
    const bw_json *v;
    if (bw_json_get(n, "key")) {
        fx_field(ctx, n, &c);
    } else if ((v = bw_json_get(n, "has_id"))) {
        fx_ids(ctx, v, &c);
    } else if ((v = bw_json_get(n, "has_vector"))) {
        c.kind = BW_COND_HAS_VECTOR;
        c.key = v->str;
    } else if ((v = bw_json_get(n, "is_empty")) || (v = bw_json_get(n, "is_null"))) {
        c.kind = bw_json_get(n, "is_empty") ? BW_COND_IS_EMPTY : BW_COND_IS_NULL;
        c.key = bw_json_get(v, "key")->str;
    } else if ((v = bw_json_get(n, "nested"))) {
        c.kind = BW_COND_NESTED;
        c.key = bw_json_get(v, "key")->str;
        c.filter = fx_filter_of(ctx, bw_json_get(v, "filter"));
    } else {
        c.kind = BW_COND_FILTER;
        c.filter = fx_filter_of(ctx, n);
    }
    return c;
}

static inline const bw_condition *fx_list(bw_ctx *ctx, const bw_json *node,
                                          const char *name, uint32_t *n)
{
    const bw_json *list = bw_json_get(node, name), *e = NULL;
    *n = 0;
    if (!list)
        return NULL;
    bw_condition *out = bw_arena_calloc(ctx, list->count, sizeof *out);
    assert_int_equal(bw_json_elements(ctx, list, &e), BW_OK);
    for (; e; e = e->next)
        out[(*n)++] = fx_condition(ctx, e);
    return out;
}

static inline const bw_filter *fx_filter_of(bw_ctx *ctx, const bw_json *node)
{
    bw_filter *f = bw_arena_calloc(ctx, 1, sizeof *f);
    const bw_json *min = bw_json_get(node, "min_should");
    f->must = fx_list(ctx, node, "must", &f->nmust);
    f->should = fx_list(ctx, node, "should", &f->nshould);
    f->must_not = fx_list(ctx, node, "must_not", &f->nmust_not);
    if (min) {
        f->min_should = fx_list(ctx, min, "conditions", &f->nmin_should);
        f->min_count = bw_json_get(min, "min_count")->mag;
        f->has_min_should = true;
    }
    return f;
}

static inline const bw_filter *fx_filter(bw_ctx *ctx, const char *text)
{
    return text ? fx_filter_of(ctx, fx_json(ctx, text)) : NULL;
}

/* ---- answers as text: "3 1:0.5" = id 3, id 1 with score 0.5 ---- */

static inline const char *fx_hits(fixture *f, const bw_hit *hits, size_t n, bool scores)
{
    bw_buf b = {0};
    bw_str out;
    for (size_t i = 0; i < n; i++) {
        bw_buf_printf(&b, "%s%llu", i ? " " : "", (unsigned long long)hits[i].id.lo);
        if (scores)
            bw_buf_printf(&b, ":%.4g", (double)hits[i].score);
    }
    bw_buf_putc(&b, '\0');
    assert_int_equal(bw_arena_str(f->ctx, bw_buf_view(&b), &out), BW_OK);
    bw_buf_clear(&b);
    return out.ptr;
}

/* Runs one query; the text lives until the fixture's ctx is reset by the next fx_…
 * call. */
static inline const char *fx_query(fixture *f, const bw_query *q, bool scores)
{
    bw_result *r;
    size_t n;
    fx_ok(f, f->ctx, bw_query_run(f->ctx, f->engine, &f->read, q, 1, &r));
    const bw_hit *hits = bw_result_hits(r, 0, &n);
    const char *text = fx_hits(f, hits, n, scores);
    bw_result_free(r);
    return text;
}

static inline const char *fx_scroll(fixture *f, const char *filter)
{
    bw_result *r;
    size_t n;
    bw_scroll s = {.filter = fx_filter(f->ctx, filter), .limit = 1000};
    fx_ok(f, f->ctx, bw_scroll_run(f->ctx, f->engine, &f->read, &s, &r));
    const bw_hit *hits = bw_result_hits(r, 0, &n);
    const char *text = fx_hits(f, hits, n, false);
    bw_result_free(r);
    return text;
}
#endif
