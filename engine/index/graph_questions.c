/* Questions that an index is tuned with: made of its own rows, never of what people asked.
 *
 * A row as it is would be too easy a question, and one moved by less than the distance of
 * a 10th neighbour too: its own row stays far ahead of the others, and links lead to it.
 * So a row is moved by that distance, by noise that has the rows' own covariance: a sum of
 * 64 other rows less their mean, each with a sign drawn by hash (no logarithm, no cosine:
 * the same bits on every machine). Families, of which a rung of the ladder (graph_tune.c)
 * is as good as for the hardest:
 *
 *   between  the smoothed bootstrap, shrunk towards the mean so that the questions spread
 *            as the rows do (Silverman and Young, Biometrika 74, 1987): what another draw
 *            of the same data would ask;
 *   outside  in an index of few rows, half of them: not shrunk, and moved by twice the
 *            distance away from one of the row's ten nearest. Few rows are mostly a part
 *            of a collection, of one topic perhaps, and the questions are put to all of it:
 *            they lie off these rows (as in 2211.12850). In a large index that asks for
 *            three times the effort that questions of its own kind do.
 *
 * Effort that gives a recall of 0.90, 0.95, 0.97, 0.99: 20,000 MiniLM rows, real questions
 * 8, 22, 36, 80, grown ones (tests/bench) 20, 36, 53, 104, between 18, 36, 44, 80, rows
 * moved by 0.57 of the distance along the difference of two others 8, 20, 36, 80. Of these
 * rows 3,493 of one topic: grown questions about it 18, 29, 36, 53, between 12, 22, 29, 48,
 * outside 16, 26, 36, 53.
 *
 * Distances between rows of differing lengths: questions may well be of another length
 * than most rows. A short one is nearly as far from every row as that is long, a long one
 * has its answers among the few long rows. There a quarter of the questions becomes as
 * short as the shortest twentieth of the rows, another as long as the longest. */
#include "graph.h"

#include <math.h>
#include <stdlib.h>

enum {
    QUESTIONS = BW_GRAPH_QUESTIONS,
    HALF = QUESTIONS / 2,
    POOL = 2 * QUESTIONS, /* rows that noise is made of */
    MIX = 64,             /* of them in one question's noise */
    K = 10
};

/* In distances to a 10th neighbour: */
#define NOISE 1.0
#define AWAY  2.0 /* of those outside, from a near row */

typedef struct making {
    const bw_graph *g;
    float *rows;     /* QUESTIONS rows to be moved, POOL rows of noise; × dim */
    float *near;     /* HALF × dim: a near row of each of the second half */
    double *mean, *noise; /* dim */
    double spread;   /* mean squared distance of the pool to its mean */
    double tenth;    /* median distance to a 10th neighbour */
    float *questions;
} making;

static uint64_t draw(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* A near row of each row of the second half, and the median distance to a 10th neighbour
 * in the rows' own measure: both by the graph. */
static void neighbours_find(making *m, bw_graph_scratch *s, uint32_t *near)
{
    const bw_graph *g = m->g;
    float d[HALF];
    for (size_t i = 0; i < HALF; i++) {
        bw_graph_walk w = {.ef = 100,
                           .want = K + 1,
                           .rank = K + 1,
                           .bound = INFINITY,
                           .slack = INFINITY,
                           .narrow = INFINITY};
        bw_graph__query(g, s, m->rows + (HALF + i) * g->params.dim);
        bw_graph__walk(g, s, &w);
        const size_t others = w.nbest > 1 ? w.nbest - 1 : 0;
        const size_t pick = others ? 1 + draw(~g->params.seed, i) % others : 0;
        const uint32_t node = w.nbest ? s->best[pick].id : 0;
        near[i] = g->first ? g->members[g->first[node]] : node;
        d[i] = w.nbest ? s->best[others].d : 0;
    }
    qsort(d, HALF, sizeof *d, by_value);
    m->tenth = sqrt((double)(d[HALF / 2] > 0 ? d[HALF / 2] : 0)) / (double)g->scale;
}

static double distance(const float *a, const float *b, size_t dim)
{
    double s = 0;
    for (size_t i = 0; i < dim; i++)
        s += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(s);
}

static void pool_measure(making *m)
{
    const size_t dim = m->g->params.dim;
    const float *pool = m->rows + QUESTIONS * dim;
    for (size_t p = 0; p < POOL; p++)
        for (size_t i = 0; i < dim; i++)
            m->mean[i] += (double)pool[p * dim + i] / POOL;
    for (size_t p = 0; p < POOL; p++)
        for (size_t i = 0; i < dim; i++) {
            const double d = (double)pool[p * dim + i] - m->mean[i];
            m->spread += d * d / POOL;
        }
}

/* Noise of the rows' covariance. */
static void noise_make(making *m, size_t question)
{
    const size_t dim = m->g->params.dim;
    memset(m->noise, 0, dim * sizeof *m->noise);
    for (size_t j = 0; j < MIX; j++) {
        const uint64_t z = draw(m->g->params.seed, 3 * QUESTIONS + question * MIX + j);
        const float *row = m->rows + (QUESTIONS + (z >> 1) % POOL) * dim;
        for (size_t i = 0; i < dim; i++) {
            const double d = (double)row[i] - m->mean[i];
            m->noise[i] += z & 1 ? d : -d;
        }
    }
    double s = 0;
    for (size_t i = 0; i < dim; i++)
        s += m->noise[i] * m->noise[i];
    const double f = s > 0 ? NOISE * m->tenth / sqrt(s) : 0;
    for (size_t i = 0; i < dim; i++)
        m->noise[i] *= f;
}

static void between_make(making *m, size_t question)
{
    const size_t dim = m->g->params.dim;
    const float *row = m->rows + question * dim;
    float *q = m->questions + question * dim;
    const double by = NOISE * m->tenth;
    const double shrink = m->spread > 0 ? 1 / sqrt(1 + by * by / m->spread) : 1;
    noise_make(m, question);
    for (size_t i = 0; i < dim; i++)
        q[i] = (float)(m->mean[i] +
                       shrink * ((double)row[i] - m->mean[i] + m->noise[i]));
}

static void outside_make(making *m, size_t question)
{
    const size_t dim = m->g->params.dim;
    const float *row = m->rows + question * dim,
                *near = m->near + (question - HALF) * dim;
    float *q = m->questions + question * dim;
    const double d = distance(row, near, dim), f = d > 0 ? AWAY * m->tenth / d : 0;
    noise_make(m, question);
    for (size_t i = 0; i < dim; i++)
        q[i] = (float)((double)row[i] + m->noise[i] +
                       f * ((double)row[i] - (double)near[i]));
}

static double length_of(const float *v, size_t dim)
{
    double s = 0;
    for (size_t i = 0; i < dim; i++)
        s += (double)v[i] * (double)v[i];
    return sqrt(s);
}

/* The lengths of a twentieth from either end of the rows; false: they differ little. */
static bool lengths_differ(const making *m, float *low, float *high)
{
    enum { N = QUESTIONS + POOL };
    float lengths[N];
    if (m->g->params.metric != BW_METRIC_EUCLID)
        return false;
    for (size_t i = 0; i < N; i++)
        lengths[i] =
            (float)length_of(m->rows + i * m->g->params.dim, m->g->params.dim);
    qsort(lengths, N, sizeof *lengths, by_value);
    *low = lengths[N / 20];
    *high = lengths[N - N / 20];
    return *low < 0.95f * lengths[N / 2] || *high > 1.05f * lengths[N / 2];
}

static void stretch(float *v, size_t dim, float want)
{
    const double l = length_of(v, dim), f = l > 0 ? (double)want / l : 1;
    for (size_t i = 0; i < dim; i++)
        v[i] = (float)((double)v[i] * f);
}

static void questions_move(making *m, bw_graph_families *families)
{
    const size_t dim = m->g->params.dim;
    float low = 0, high = 0;
    const bool lengths = lengths_differ(m, &low, &high);
    const bool few = m->g->n < BW_GRAPH_FEW_ROWS;
    *families = lengths ? (bw_graph_families){3, {0, HALF, HALF + HALF / 2, QUESTIONS}}
                : few   ? (bw_graph_families){2, {0, HALF, QUESTIONS}}
                        : (bw_graph_families){1, {0, QUESTIONS}};
    pool_measure(m);
    for (size_t q = 0; q < QUESTIONS; q++) {
        if (q < HALF || lengths || !few)
            between_make(m, q);
        else
            outside_make(m, q);
        float *v = m->questions + q * dim;
        if (q >= HALF && lengths)
            stretch(v, dim, q < families->from[2] ? low : high);
        if (m->g->params.metric == BW_METRIC_COSINE)
            bw_normalize_f32(v, dim);
    }
}

bw_status bw_graph__questions(bw_ctx *ctx, const bw_graph *g, const bw_rows *rows,
                              float *questions, bw_graph_families *families)
{
    enum { N = QUESTIONS + POOL };
    const size_t dim = g->params.dim;
    uint32_t which[N], near[HALF];
    for (size_t i = 0; i < N; i++)
        which[i] = (uint32_t)(draw(g->params.seed, i) % g->n);
    making m = {.g = g, .questions = questions};
    m.rows = bw_alloc_vectors(N * dim * sizeof *m.rows);
    m.near = bw_alloc_vectors(HALF * dim * sizeof *m.near);
    m.mean = bw_calloc(2 * dim, sizeof *m.mean);
    bw_graph_scratch *s = bw_graph__scratch_new(g, 128, g->nodes);
    bw_status st = m.rows && m.near && m.mean && s ? BW_OK : bw_fail_nomem(ctx);
    if (st == BW_OK)
        st = bw_rows_get(ctx, rows, which, N, m.rows);
    if (st == BW_OK) {
        m.noise = m.mean + dim;
        neighbours_find(&m, s, near);
        st = bw_rows_get(ctx, rows, near, HALF, m.near);
    }
    if (st == BW_OK)
        questions_move(&m, families);
    bw_free_vectors(m.rows);
    bw_free_vectors(m.near);
    bw_free(m.mean);
    bw_graph__scratch_free(s);
    return st;
}
