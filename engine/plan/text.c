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
#include "../base/ln.h"

typedef struct text_query {
    bw_plan *p;
    bw_text_query q;
    bw_text_found *parts;
    bw_text_weights weights;
} text_query;

/* N, df and the length of a text in the mean, over all partitions. */
static bw_status find_all(text_query *t)
{
    bw_plan *p = t->p;
    const size_t n = t->q.nterms;
    bw_text_stats stats = {0, 0};
    uint64_t *df = bw_arena_calloc(p->ctx, n, sizeof *df);
    double *idf = bw_arena_alloc(p->ctx, n * sizeof *idf);
    t->parts = bw_arena_calloc(p->ctx, p->view->nparts, sizeof *t->parts);
    bw_status st = df && idf && t->parts ? BW_OK : BW_ENOMEM;
    for (size_t i = 0; st == BW_OK && i < p->view->nparts; i++) {
        const bw_bitmap *visible;
        st = bw_plan_visible(p, i, &visible);
        if (st == BW_OK)
            st = bw_snapshot_text_find(p->ctx, p->view->parts[i], &t->q, visible, &stats,
                                       df, &t->parts[i]);
        if (st == BW_OK)
            st = bw_ctx_check(p->ctx);
    }
    for (size_t j = 0; st == BW_OK && j < n; j++) {
        double d = (double)df[j];
        idf[j] = bw_ln(1.0 + ((double)stats.ndocs - d + 0.5) / (d + 0.5));
    }
    double mean = stats.ndocs > 0 ? (double)stats.ntokens / (double)stats.ndocs : 0;
    t->weights = (bw_text_weights){idf, mean};
    return st;
}

static void matched_rows(void *arg, uint32_t part, bw_bitmap *rows)
{
    const text_query *t = arg;
    bw_snapshot_text_rows(t->p->view->parts[part], &t->q, &t->parts[part], rows);
}

static bw_status best_rows(void *arg, uint32_t part, const bw_bitmap *rows, bw_topk *heap)
{
    const text_query *t = arg;
    return bw_snapshot_text_best(t->p->ctx, t->p->view->parts[part], &t->q,
                                 &t->parts[part], &t->weights, rows, part, heap);
}

bw_status bw_leaf_text(bw_plan *p, const bw_leaf *leaf, bw_list *out)
{
    text_query t = {.p = p};
    bw_status st =
        bw_text_terms(p->ctx, leaf->query->text, &t.q.terms, &t.q.nterms);
    if (st != BW_OK)
        return st;
    *out = (bw_list){NULL, 0, false};
    if (t.q.nterms == 0)
        return BW_OK;
    st = bw_text_stems(p->ctx, t.q.terms, t.q.nterms, &t.q.stems);
    if (st == BW_OK)
        st = find_all(&t);
    return st == BW_OK ? bw_scan_best(p, leaf, "text", matched_rows, best_rows, &t, out)
                       : st;
}
