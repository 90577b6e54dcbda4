/* The recall asked for is the recall given, by questions that no row is: real ones, ones
 * grown from them as tests/bench/data.py does, ones about a partition of one topic, and
 * fresh draws of made data. A row with the key of the true tenth is as good as it.
 *
 * What may be missed: twice the standard error of the sample's mean (one sample in 44 would
 * lie below that by chance; the seed is fixed). By default a part of the rows, because the
 * debug build is slow; BW_NIGHTLY=1 takes more. */
#include "engine/index/index.h"
#include "npy.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { K = 10, GROWN = 400, DRAWN = 400, REAL = 500, MIX = 256 };
#define NOISE 0.927 /* of a grown question: the median distance to a tenth neighbour */

typedef struct set { /* n rows, nq questions; × dim */
    size_t n, nq, dim;
    float *rows, *questions;
} set;

typedef struct asking {
    bw_ctx *ctx;
    bw_index *flat, *graph;
    bw_bitmap all;
    bw_point_id *ids;
    bw_rows rows;
} asking;

static bool nightly(void)
{
    return getenv("BW_NIGHTLY") != NULL;
}

static set set_new(size_t n, size_t nq, size_t dim)
{
    set s = {n, nq, dim, bw_alloc_vectors(n * dim * sizeof(float)),
             bw_alloc_vectors(nq * dim * sizeof(float))};
    assert_non_null(s.rows);
    assert_non_null(s.questions);
    return s;
}

static void set_clear(set *s)
{
    bw_free_vectors(s->rows);
    bw_free_vectors(s->questions);
}

static size_t search(asking *a, const bw_index *ix, const float *question, float recall,
                     bw_candidate out[K])
{
    const bw_index_search s = {.query = question,
                               .k = K,
                               .recall = recall,
                               .allowed = &a->all,
                               .ids = a->ids,
                               .rows = &a->rows};
    bw_topk t;
    bw_topk_init(&t, out, K);
    assert_int_equal(ix->ops->search(a->ctx, ix, &s, &t), BW_OK);
    bw_topk_sort(&t);
    bw_ctx_reset(a->ctx);
    return t.n;
}

/* Mean share of the true ten, and its standard error. */
static double given(asking *a, const set *s, const float *worst, float asked,
                    double *error)
{
    double sum = 0, squares = 0;
    for (size_t q = 0; q < s->nq; q++) {
        bw_candidate got[K];
        const size_t n = search(a, a->graph, s->questions + q * s->dim, asked, got);
        double share = 0;
        for (size_t i = 0; i < n; i++)
            share += (got[i].key >= worst[q]) / (double)K;
        sum += share;
        squares += share * share;
    }
    const double nq = (double)s->nq, mean = sum / nq;
    *error = sqrt(fmax(0, squares / nq - mean * mean) / (nq - 1));
    return mean;
}

static void check(const char *name, bw_metric metric, const set *s)
{
    asking a = {.ctx = bw_ctx_new(0)};
    const bw_index_params p = {.metric = metric, .dim = (uint32_t)s->dim, .seed = 1};
    a.rows = (bw_rows){.dim = (uint32_t)s->dim, .n = s->n, .data = s->rows};
    a.ids = bw_calloc(s->n, sizeof *a.ids);
    float *worst = bw_calloc(s->nq, sizeof *worst);
    assert_true(a.ctx && a.ids && worst && bw_bitmap_heap(s->n, &a.all));
    bw_bitmap_fill(&a.all);
    assert_int_equal(bw_index_start(a.ctx), BW_OK);
    assert_int_equal(bw_index_kind("flat")->build(a.ctx, &p, &a.rows, &a.flat), BW_OK);
    assert_int_equal(bw_index_kind("graph")->build(a.ctx, &p, &a.rows, &a.graph), BW_OK);
    for (size_t q = 0; q < s->nq; q++) {
        bw_candidate truth[K];
        assert_int_equal(search(&a, a.flat, s->questions + q * s->dim, 0, truth), K);
        worst[q] = truth[K - 1].key;
    }
    const float asked[] = {0.9f, 0.95f, 0.97f, 0.99f};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        double error;
        const double got = given(&a, s, worst, asked[i], &error);
        print_message("%s, %zu rows: asked %.2f, effort %u, given %.4f (±%.4f)\n", name,
                      s->n, (double)asked[i],
                      a.graph->ops->effort_of(a.graph, asked[i], K), got, error);
        if (got + 2 * error < (double)asked[i])
            fail_msg("%s: asked %.2f, given %.4f", name, (double)asked[i], got);
    }
    a.graph->ops->free(a.graph);
    a.flat->ops->free(a.flat);
    bw_bitmap_free(&a.all);
    bw_free(worst);
    bw_free(a.ids);
    bw_ctx_free(a.ctx);
}

/* ---- real embeddings ---- */

static bool read_real(npy *rows, npy *questions)
{
    const char *path = BW_SHARED "/bench/minilm-20k.f16.npy";
    if (access(path, R_OK) != 0) {
        print_message("not run: no reference data\n");
        return false;
    }
    assert_int_equal(npy_read(path, nightly() ? 0 : 8000, rows), 0);
    assert_int_equal(
        npy_read(BW_SHARED "/bench/minilm-queries-500.f16.npy", REAL, questions), 0);
    for (size_t i = 0; i < rows->n; i++)
        bw_normalize_f32(rows->values + i * rows->dim, (uint32_t)rows->dim);
    for (size_t i = 0; i < questions->n; i++)
        bw_normalize_f32(questions->values + i * rows->dim, (uint32_t)rows->dim);
    return true;
}

/* q moved by Gaussian noise of the rows' covariance, made of MIX rows. */
static void grow(rnd *r, const npy *rows, const float *q, float *out)
{
    const size_t dim = rows->dim;
    double *noise = bw_calloc(dim, sizeof *noise), length = 0;
    assert_non_null(noise);
    for (size_t m = 0; m < MIX; m++) { /* the mean goes: half with the other sign */
        const float *x = rows->values + rnd_below(r, rows->n) * dim,
                    *y = rows->values + rnd_below(r, rows->n) * dim;
        const double w = rnd_gauss(r);
        for (size_t i = 0; i < dim; i++)
            noise[i] += w * ((double)x[i] - (double)y[i]);
    }
    for (size_t i = 0; i < dim; i++)
        length += noise[i] * noise[i];
    for (size_t i = 0; i < dim; i++)
        out[i] = (float)((double)q[i] + NOISE / sqrt(length) * noise[i]);
    bw_normalize_f32(out, (uint32_t)dim);
    bw_free(noise);
}

static void test_asked__real_and_grown_questions(void **state)
{
    (void)state;
    npy rows, questions;
    if (!read_real(&rows, &questions))
        skip();
    rnd r = rnd_start("test_asked", 20261201);
    set s = {rows.n, questions.n, rows.dim, rows.values, questions.values};
    check("real questions", BW_METRIC_COSINE, &s);
    set g = set_new(1, GROWN, rows.dim);
    for (size_t q = 0; q < GROWN; q++)
        grow(&r, &rows, questions.values + rnd_below(&r, questions.n) * rows.dim,
             g.questions + q * rows.dim);
    s.nq = GROWN;
    s.questions = g.questions;
    check("grown questions", BW_METRIC_COSINE, &s);
    set_clear(&g);
    bw_free_vectors(rows.values);
    bw_free_vectors(questions.values);
}

typedef struct near {
    double product;
    size_t i;
} near;

static int by_product(const void *a, const void *b)
{
    const near *x = a, *y = b;
    return x->product > y->product ? -1 : x->product < y->product;
}

/* Those of n vectors that are nearest to one. */
static near *nearest(const npy *v, const float *to)
{
    near *list = bw_calloc(v->n, sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < v->n; i++) {
        list[i].i = i;
        for (size_t j = 0; j < v->dim; j++)
            list[i].product += (double)v->values[i * v->dim + j] * (double)to[j];
    }
    qsort(list, v->n, sizeof *list, by_product);
    return list;
}

/* A partition that holds one topic, and questions grown from those about it. */
static void test_asked__partitions_of_one_topic(void **state)
{
    (void)state;
    enum { TOPIC = 2400, ABOUT = 60 };
    npy rows, questions;
    if (!read_real(&rows, &questions))
        skip();
    rnd r = rnd_start("test_asked", 20261202);
    for (size_t topic = 0; topic < 2; topic++) {
        const float *centre = rows.values + 100 * topic * rows.dim;
        near *in = nearest(&rows, centre), *about = nearest(&questions, centre);
        set s = set_new(TOPIC, GROWN, rows.dim);
        for (size_t i = 0; i < TOPIC; i++)
            memcpy(s.rows + i * s.dim, rows.values + in[i].i * s.dim,
                   s.dim * sizeof *s.rows);
        for (size_t q = 0; q < GROWN; q++)
            grow(&r, &rows, questions.values + about[rnd_below(&r, ABOUT)].i * s.dim,
                 s.questions + q * s.dim);
        check("one topic", BW_METRIC_COSINE, &s);
        set_clear(&s);
        bw_free(in);
        bw_free(about);
    }
    bw_free_vectors(rows.values);
    bw_free_vectors(questions.values);
}

/* Real questions; the ten nearest are two or three groups. */
static void test_asked__rows_that_are_nearly_equal(void **state)
{
    (void)state;
    enum { TIMES = 4 };
    npy rows, questions;
    if (!read_real(&rows, &questions))
        skip();
    rnd r = rnd_start("test_asked", 20261203);
    set s = set_new(rows.n / TIMES * TIMES, questions.n, rows.dim);
    for (size_t i = 0; i < s.n; i++) {
        for (size_t j = 0; j < s.dim; j++)
            s.rows[i * s.dim + j] = rows.values[i / TIMES * s.dim + j] +
                                    (float)(0.002 * rnd_gauss(&r));
        bw_normalize_f32(s.rows + i * s.dim, (uint32_t)s.dim);
    }
    memcpy(s.questions, questions.values, s.nq * s.dim * sizeof *s.questions);
    check("nearly equal rows", BW_METRIC_COSINE, &s);
    set_clear(&s);
    bw_free_vectors(rows.values);
    bw_free_vectors(questions.values);
}

/* ---- made data: questions are fresh draws ---- */

static void test_asked__clusters(void **state)
{
    (void)state;
    enum { CENTRES = 60, DIM = 64 };
    rnd r = rnd_start("test_asked", 20261204);
    set s = set_new(nightly() ? 20000 : 6000, DRAWN, DIM);
    float centres[CENTRES * DIM];
    for (size_t i = 0; i < sizeof centres / sizeof *centres; i++)
        centres[i] = (float)rnd_gauss(&r);
    for (size_t v = 0; v < s.n + s.nq; v++) {
        float *to = v < s.n ? s.rows + v * DIM : s.questions + (v - s.n) * DIM;
        const float *centre = centres + rnd_below(&r, CENTRES) * DIM;
        const double wide = v < s.n ? 0.2 : 0.3; /* questions a little wider */
        for (size_t i = 0; i < DIM; i++)
            to[i] = centre[i] + (float)(wide * rnd_gauss(&r));
    }
    check("clusters", BW_METRIC_EUCLID, &s);
    set_clear(&s);
}

static void test_asked__uniform(void **state)
{
    (void)state;
    rnd r = rnd_start("test_asked", 20261205);
    set s = set_new(nightly() ? 20000 : 5000, DRAWN, 64);
    for (size_t i = 0; i < s.n * s.dim; i++)
        s.rows[i] = (float)rnd_unit(&r);
    for (size_t i = 0; i < s.nq * s.dim; i++)
        s.questions[i] = (float)rnd_unit(&r);
    check("uniform", BW_METRIC_EUCLID, &s);
    set_clear(&s);
}

/* Few dimensions bent into 768. */
static void test_asked__manifold(void **state)
{
    (void)state;
    enum { IN = 16, BENT = 64, DIM = 768 };
    rnd r = rnd_start("test_asked", 20261206);
    set s = set_new(nightly() ? 20000 : 3000, DRAWN, DIM);
    double *first = bw_calloc(IN * BENT + BENT * DIM, sizeof *first),
           *second = first + IN * BENT;
    assert_non_null(first);
    for (size_t i = 0; i < IN * BENT + BENT * DIM; i++)
        first[i] = rnd_gauss(&r);
    for (size_t v = 0; v < s.n + s.nq; v++) {
        float *to = v < s.n ? s.rows + v * DIM : s.questions + (v - s.n) * DIM;
        double bent[BENT] = {0}, sum[DIM] = {0};
        for (size_t i = 0; i < IN; i++) {
            const double z = rnd_gauss(&r) / 4;
            for (size_t b = 0; b < BENT; b++)
                bent[b] += z * first[i * BENT + b];
        }
        for (size_t b = 0; b < BENT; b++)
            for (size_t j = 0; j < DIM; j++)
                sum[j] += tanh(bent[b]) * second[b * DIM + j] / 8;
        for (size_t j = 0; j < DIM; j++)
            to[j] = (float)sum[j];
    }
    check("manifold", BW_METRIC_EUCLID, &s);
    bw_free(first);
    set_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asked__real_and_grown_questions),
        cmocka_unit_test(test_asked__partitions_of_one_topic),
        cmocka_unit_test(test_asked__rows_that_are_nearly_equal),
        cmocka_unit_test(test_asked__clusters),
        cmocka_unit_test(test_asked__uniform),
        cmocka_unit_test(test_asked__manifold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
