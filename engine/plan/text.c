/* BM25 over the permitted partitions (Robertson & Zaragoza 2009, k1 1.2, b 0.75):
 *
 *   score = Σ ln(1 + (N − df + 0.5)/(df + 0.5)) · tf·(k1 + 1)/(tf + k1·(1 − b +
 * b·len/avg))
 *
 * N, df and the mean length are sums over the permitted partitions' visible rows, taken
 * first; so the score of a text depends on nothing that the caller may not read, and
 * not on how the texts are spread over classes. Each partition's own bm25() would. Sums
 * run in double in the order of the query's words. Copies count as texts. */
#include "scored.h"
#include <math.h>
#include <stdlib.h>

static const double BM25_K1 = 1.2, BM25_B = 0.75;

typedef struct part_match {
    const bw_text_match *items; /* by row */
    size_t n;
} part_match;

typedef struct text_query {
    bw_plan *p;
    const bw_str *terms;
    size_t nterms;
    part_match *parts;
    bw_text_stats stats;
    double *idf;
} text_query;

static int cmp_match(const void *a, const void *b)
{
    uint32_t x = ((const bw_text_match *)a)->row, y = ((const bw_text_match *)b)->row;
    return (x > y) - (x < y);
}

static bool sorted_rows(const bw_text_match *m, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (m[i - 1].row >= m[i].row)
            return false;
    }
    return true;
}

static bw_status match_part(bw_plan *p, text_query *t, size_t part, uint64_t *df)
{
    const bw_bitmap *visible;
    const bw_text_match *m = NULL;
    bw_text_stats stats = {0, 0};
    size_t n = 0;
    bw_status st = bw_plan_visible(p, part, &visible);
    if (st == BW_OK)
        st = bw_snapshot_text(p->ctx, p->view->parts[part], t->terms, t->nterms,
                              visible, &stats, &m, &n);
    if (st != BW_OK)
        return st;
    if (!sorted_rows(m, n)) {
        bw_text_match *own = bw_arena_alloc(p->ctx, n * sizeof *own);
        if (!own)
            return BW_ENOMEM;
        memcpy(own, m, n * sizeof *own);
        qsort(own, n, sizeof *own, cmp_match);
        m = own;
    }
    t->parts[part] = (part_match){m, n};
    t->stats.ndocs += stats.ndocs;
    t->stats.ntokens += stats.ntokens;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < t->nterms; j++)
            df[j] += m[i].tf[j] > 0;
    }
    return bw_ctx_check(p->ctx);
}

static bw_status match_all(bw_plan *p, text_query *t)
{
    uint64_t *df = bw_arena_calloc(p->ctx, t->nterms, sizeof *df);
    t->idf = bw_arena_alloc(p->ctx, t->nterms * sizeof *t->idf);
    t->parts = bw_arena_calloc(p->ctx, p->view->nparts, sizeof *t->parts);
    bw_status st = df && t->idf && t->parts ? BW_OK : BW_ENOMEM;
    for (size_t i = 0; st == BW_OK && i < p->view->nparts; i++)
        st = match_part(p, t, i, df);
    for (size_t j = 0; st == BW_OK && j < t->nterms; j++) {
        double d = (double)df[j];
        t->idf[j] = log(1.0 + ((double)t->stats.ndocs - d + 0.5) / (d + 0.5));
    }
    return st;
}

static bw_status matched_rows(void *arg, uint32_t part, bw_bitmap *rows)
{
    const text_query *t = arg;
    for (size_t i = 0; i < t->parts[part].n; i++)
        bw_bitmap_set(rows, t->parts[part].items[i].row);
    return BW_OK;
}

static bw_status score_text(void *arg, uint32_t part, uint32_t row, float *key,
                            bool *takes)
{
    const text_query *t = arg;
    bw_text_match probe = {row, 0, NULL};
    const part_match *pm = &t->parts[part];
    const bw_text_match *m = bsearch(&probe, pm->items, pm->n, sizeof probe, cmp_match);
    *takes = m != NULL;
    if (!m)
        return BW_OK;
    double mean =
        t->stats.ndocs > 0 ? (double)t->stats.ntokens / (double)t->stats.ndocs : 0;
    double norm = 1.0 - BM25_B + (mean > 0 ? BM25_B * (double)m->length / mean : 0);
    double sum = 0;
    for (size_t j = 0; j < t->nterms; j++) {
        double tf = (double)m->tf[j];
        if (tf > 0)
            sum += t->idf[j] * tf * (BM25_K1 + 1.0) / (tf + BM25_K1 * norm);
    }
    *key = (float)sum;
    return BW_OK;
}

bw_status bw_leaf_text(bw_plan *p, const bw_leaf *leaf, bw_list *out)
{
    text_query t = {.p = p};
    bw_status st = bw_text_terms(p->ctx, leaf->query->text, &t.terms, &t.nterms);
    if (st != BW_OK)
        return st;
    *out = (bw_list){NULL, 0, false};
    if (t.nterms == 0)
        return BW_OK;
    st = match_all(p, &t);
    return st == BW_OK
               ? bw_scan_scored(p, leaf, "text", matched_rows, score_text, &t, out)
               : st;
}
