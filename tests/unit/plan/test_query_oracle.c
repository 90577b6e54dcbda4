/* Random worlds against a naive planner: classes, copies of ids, expired points, random
 * permits; nearest, RRF, scroll, count, facet and groups must give what a loop over all
 * points gives, to the bit (coordinates are small integers, so sums are exact), and a
 * write to a forbidden class must change nothing. BW_SEED repeats a run. */
#include "plan_fixture.h"
#include "rnd.h"

#include <math.h>

enum { IDS = 70, KEYS = 4 };

typedef struct point {
    bool there, expired;
    float v[FX_DIM];
    size_t key; /* payload k */
} point;

typedef struct world {
    fixture *f;
    rnd r;
    bw_metric metric;
    point points[FX_CLASSES][IDS];
    bw_class_id permitted[FX_CLASSES];
    bool may[FX_CLASSES];
} world;

typedef struct scored {
    uint64_t id;
    float key, score;
    size_t group;
} scored;

static void put(world *w, int class, uint64_t id)
{
    point *p = &w->points[class][id];
    char payload[32];
    p->there = true;
    p->expired = rnd_below(&w->r, 8) == 0;
    p->key = rnd_below(&w->r, KEYS);
    for (int d = 0; d < FX_DIM; d++)
        p->v[d] = (float)rnd_below(&w->r, 5) - 2;
    snprintf(payload, sizeof payload, "{\"k\":\"g%zu\"}", p->key);
    bw_vector v = {BW_STR(""), p->v, NULL, FX_DIM, false};
    fx_point(w->f, class,
             (bw_point){.id = fx_id(id),
                        .payload = bw_str_c(payload),
                        .vectors = &v,
                        .nvectors = 1,
                        .facts = {.expires_at_ns = p->expired ? 900 : 0}});
}

static void new_world(world *w, uint64_t seed)
{
    static const bw_metric metrics[] = {BW_METRIC_DOT, BW_METRIC_EUCLID,
                                        BW_METRIC_MANHATTAN};
    *w = (world){.r = {seed}};
    w->metric = metrics[seed % 3];
    bw_vector_spec spec = {.name = {"", 0}, .dim = FX_DIM, .metric = w->metric};
    w->f = fx_new(&spec, 1);
    fx_index(w->f, "k", "keyword"); /* facets ask for it */
    for (int i = 0; i < 110; i++)
        put(w, (int)rnd_below(&w->r, FX_CLASSES), rnd_below(&w->r, IDS));
}

static void new_permit(world *w)
{
    size_t n = 0;
    for (int c = 0; c < FX_CLASSES; c++) {
        w->may[c] = rnd_below(&w->r, 4) != 0;
        if (w->may[c])
            w->permitted[n++] = w->f->classes[c];
    }
    w->f->permit = (bw_permit){w->permitted, n};
}

/* ---- the oracle ---- */

static const point *shown(const world *w, uint64_t id)
{
    for (int c = 0; c < FX_CLASSES; c++) {
        if (w->may[c] && w->points[c][id].there && !w->points[c][id].expired)
            return &w->points[c][id];
    }
    return NULL;
}

static void score(const world *w, const point *p, const float *q, scored *s)
{
    float dot = 0, square = 0, sum = 0;
    for (int d = 0; d < FX_DIM; d++) {
        dot += p->v[d] * q[d];
        square += (p->v[d] - q[d]) * (p->v[d] - q[d]);
        sum += fabsf(p->v[d] - q[d]);
    }
    s->score = w->metric == BW_METRIC_DOT      ? dot
               : w->metric == BW_METRIC_EUCLID ? sqrtf(square)
                                               : sum;
    s->key = w->metric == BW_METRIC_DOT ? dot : -s->score;
}

static int best_first(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* All shown points with key in the mask, best first. */
static size_t rank_all(const world *w, const float *q, unsigned mask, scored *out)
{
    size_t n = 0;
    for (uint64_t id = 0; id < IDS; id++) {
        const point *p = shown(w, id);
        if (!p || !(mask >> p->key & 1))
            continue;
        out[n] = (scored){.id = id, .group = p->key};
        score(w, p, q, &out[n++]);
    }
    qsort(out, n, sizeof *out, best_first);
    return n;
}

/* ---- asking ---- */

static const bw_filter *mask_filter(bw_ctx *ctx, unsigned mask)
{
    bw_condition *c = bw_arena_calloc(ctx, 1, sizeof *c);
    bw_filter *f = bw_arena_calloc(ctx, 1, sizeof *f);
    bw_value *v = bw_arena_calloc(ctx, KEYS, sizeof *v);
    *c = (bw_condition){.kind = BW_COND_MATCH_ANY, .key = BW_STR("k"), .values = v};
    for (size_t k = 0; k < KEYS; k++) {
        if (mask >> k & 1)
            v[c->nvalues++] =
                (bw_value){.kind = BW_VALUE_STRING,
                           .str = bw_str_c(bw_arena_printf(ctx, "g%zu", k))};
    }
    *f = (bw_filter){.must = c, .nmust = 1};
    return f;
}

static void same(const bw_hit *hits, size_t n, const scored *want, size_t nwant,
                 const char *what)
{
    if (n != nwant)
        fail_msg("%s: %zu hits, expected %zu", what, n, nwant);
    for (size_t i = 0; i < n; i++) {
        if (hits[i].id.lo != want[i].id || hits[i].score != want[i].score)
            fail_msg("%s: place %zu is %llu:%g, expected %llu:%g", what, i,
                     (unsigned long long)hits[i].id.lo, (double)hits[i].score,
                     (unsigned long long)want[i].id, (double)want[i].score);
    }
}

static void ask_one(world *w, const bw_query *q, const scored *want, size_t n,
                    const char *what)
{
    bw_result *r;
    size_t got;
    fx_ok(w->f, w->f->ctx,
          bw_query_run(w->f->ctx, w->f->engine, &w->f->read, q, 1, &r));
    const bw_hit *hits = bw_result_hits(r, 0, &got);
    same(hits, got, want, n, what);
    bw_result_free(r);
}

static bw_query query_of(const float *v)
{
    return (bw_query){.kind = BW_QUERY_NEAREST,
                      .using_name = BW_STR(""),
                      .limit = 1000,
                      .target = {.vector = {BW_STR(""), v, NULL, FX_DIM, false}}};
}

static void ask_nearest(world *w, const float *v, unsigned mask)
{
    scored all[IDS], *want = all;
    size_t n = rank_all(w, v, mask, all);
    bw_query q = query_of(v);
    q.filter = mask_filter(w->f->ctx, mask);
    q.limit = (uint32_t)rnd_below(&w->r, 20);
    q.offset = (uint32_t)rnd_below(&w->r, 6);
    if (rnd_below(&w->r, 3) == 0) {
        size_t kept = 0;
        q.has_score_threshold = true;
        q.score_threshold = (float)rnd_below(&w->r, 4);
        for (size_t i = 0; i < n; i++) {
            if (w->metric == BW_METRIC_DOT ? all[i].score > q.score_threshold
                                           : all[i].score < q.score_threshold)
                all[kept++] = all[i];
        }
        n = kept;
    }
    want += q.offset < n ? q.offset : n;
    n -= (size_t)(want - all);
    ask_one(w, &q, want, n < q.limit ? n : q.limit, "nearest");
}

/* Filters of a batch share what they select only when they are equal. */
static void ask_batch(world *w, const float *v)
{
    bw_query q[6];
    unsigned masks[6];
    bw_result *r;
    for (size_t i = 0; i < 6; i++) {
        masks[i] = (unsigned)rnd_below(&w->r, 1 << KEYS);
        q[i] = query_of(v);
        q[i].filter = mask_filter(w->f->ctx, masks[i]);
    }
    fx_ok(w->f, w->f->ctx,
          bw_query_run(w->f->ctx, w->f->engine, &w->f->read, q, 6, &r));
    for (size_t i = 0; i < 6; i++) {
        scored want[IDS];
        size_t n, m = rank_all(w, v, masks[i], want);
        const bw_hit *hits = bw_result_hits(r, i, &n);
        same(hits, n, want, m, "batch");
    }
    bw_result_free(r);
}

static void ask_fusion(world *w, const float *v, const float *u, unsigned mask)
{
    scored lists[2][IDS], fused[IDS];
    size_t n = 0;
    bw_query fetch[2] = {query_of(v), query_of(u)};
    fetch[0].limit = (uint32_t)rnd_below(&w->r, 15);
    fetch[1].limit = (uint32_t)rnd_below(&w->r, 15);
    double sums[IDS] = {0};
    bool in[IDS] = {false};
    for (int i = 0; i < 2; i++) {
        size_t have = rank_all(w, i ? u : v, mask, lists[i]);
        for (size_t rank = 0; rank < have && rank < fetch[i].limit; rank++) {
            sums[lists[i][rank].id] += 1.0 / (2.0 + (double)rank);
            in[lists[i][rank].id] = true;
        }
    }
    for (uint64_t id = 0; id < IDS; id++) {
        if (in[id])
            fused[n++] =
                (scored){.id = id, .key = (float)sums[id], .score = (float)sums[id]};
    }
    qsort(fused, n, sizeof *fused, best_first);
    bw_query q = {.kind = BW_QUERY_FUSION_RRF,
                  .rrf_k = 2,
                  .prefetch = fetch,
                  .nprefetch = 2,
                  .limit = 12,
                  .filter = mask_filter(w->f->ctx, mask)};
    ask_one(w, &q, fused, n < 12 ? n : 12, "rrf");
}

static void ask_groups(world *w, const float *v, unsigned mask)
{
    scored all[IDS];
    size_t n = rank_all(w, v, mask, all), order[KEYS], ngroups = 0, got;
    bw_result *r;
    bw_query q = query_of(v);
    q.filter = mask_filter(w->f->ctx, mask);
    q.limit = (uint32_t)(1 + rnd_below(&w->r, KEYS));
    uint32_t size = (uint32_t)(1 + rnd_below(&w->r, 20));
    for (size_t i = 0; i < n; i++) {
        size_t g = 0;
        while (g < ngroups && order[g] != all[i].group)
            g++;
        if (g == ngroups && ngroups < q.limit)
            order[ngroups++] = all[i].group;
    }
    fx_ok(w->f, w->f->ctx,
          bw_query_groups(w->f->ctx, w->f->engine, &w->f->read, &q, BW_STR("k"), size,
                          &r));
    const bw_group *groups = bw_result_groups(r, &got);
    assert_int_equal(got, ngroups);
    for (size_t g = 0; g < got; g++) {
        scored want[IDS];
        size_t m = 0;
        for (size_t i = 0; i < n && m < size; i++) {
            if (all[i].group == order[g])
                want[m++] = all[i];
        }
        assert_int_equal(groups[g].id.str.ptr[1] - '0', order[g]);
        same(groups[g].hits, groups[g].nhits, want, m, "group");
    }
    bw_result_free(r);
}

static void ask_sets(world *w, unsigned mask)
{
    fixture *f = w->f;
    uint64_t ids[IDS], counts[KEYS] = {0}, count;
    size_t n = 0, got;
    for (uint64_t id = 0; id < IDS; id++) {
        const point *p = shown(w, id);
        if (p && mask >> p->key & 1) {
            ids[n++] = id;
            counts[p->key]++;
        }
    }
    bw_scroll s = {.filter = mask_filter(f->ctx, mask), .limit = 7};
    size_t at = 0;
    for (bool more = true; more;) {
        bw_result *r;
        fx_ok(f, f->ctx, bw_scroll_run(f->ctx, f->engine, &f->read, &s, &r));
        const bw_hit *hits = bw_result_hits(r, 0, &got);
        for (size_t i = 0; i < got; i++, at++)
            assert_true(at < n && hits[i].id.lo == ids[at]);
        more = bw_result_next(r, &s.offset);
        s.has_offset = true;
        bw_result_free(r);
    }
    assert_int_equal(at, n);
    fx_ok(f, f->ctx, bw_count(f->ctx, f->engine, &f->read, s.filter, &count));
    assert_int_equal(count, n);
    const bw_facet_hit *hits;
    fx_ok(
        f, f->ctx,
        bw_facet(f->ctx, f->engine, &f->read, BW_STR("k"), s.filter, 100, &hits, &got));
    for (size_t i = 0; i < got; i++) {
        size_t k = (size_t)(hits[i].value.str.ptr[1] - '0');
        assert_int_equal(hits[i].count, counts[k]);
        counts[k] = 0;
        assert_true(i == 0 || hits[i - 1].count >= hits[i].count);
    }
    for (size_t k = 0; k < KEYS; k++)
        assert_int_equal(counts[k], 0);
}

static void ask(world *w)
{
    float v[FX_DIM], u[FX_DIM];
    unsigned mask = (unsigned)(1 + rnd_below(&w->r, (1 << KEYS) - 1));
    for (int d = 0; d < FX_DIM; d++) {
        v[d] = (float)rnd_below(&w->r, 5) - 2;
        u[d] = (float)rnd_below(&w->r, 5) - 2;
    }
    ask_nearest(w, v, mask);
    ask_batch(w, v);
    ask_fusion(w, v, u, mask);
    ask_groups(w, v, mask);
    ask_sets(w, mask);
    bw_ctx_reset(w->f->ctx);
}

static void test_query_oracle__random_worlds(void **state)
{
    (void)state;
    rnd r = rnd_start("query_oracle", 7);
    const char *nightly = getenv("BW_NIGHTLY");
    int worlds = nightly && *nightly == '1' ? 200 : 12;
    for (int i = 0; i < worlds; i++) {
        world w;
        new_world(&w, r.state + (uint64_t)i);
        for (int round = 0; round < 12; round++) {
            new_permit(&w);
            for (int j = 0; j < 5; j++)
                ask(&w);
            for (int c = 0; c < FX_CLASSES;
                 c++) { /* the oracle does not see these either */
                if (!w.may[c])
                    put(&w, c, rnd_below(&w.r, IDS));
            }
            ask(&w);
        }
        fx_free(w.f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_query_oracle__random_worlds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
