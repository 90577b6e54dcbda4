/* Filter -> bitmap of one snapshot's rows (select.h).
 *
 * First the filter's tree is narrowed over bitmaps: each condition gives the exact set
 * of its rows, a superset, or nothing (payload indexes, has_id, has_vector).
 * Conjunctions intersect, disjunctions unite, a negation needs an exact set. What an
 * exact set has settled on the conjunctive spine is not asked again; the payloads of
 * the rows that are left are read for the rest. So an index changes which payloads are
 * read, never the answer. Left out: what conditions mean (filter.c), edits
 * (payload_edit.c). */
#include "../partition/payload_index.h"
#include "select_private.h"

enum { CHECK_ROWS = 1024 }; /* between two looks at the time, whatever they hold */

typedef struct narrow {
    bw_ctx *ctx;
    const bw_snapshot *s;
    size_t nrows;
    bool indexes; /* the collection has payload indexes */
} narrow;

static bw_status narrow_clause(narrow *w, bw_clause *c, bw_bitmap *cand, bool spine,
                               bool *exact);

static bw_status ids_bitmap(narrow *w, const bw_cnode *n, bw_bitmap *out,
                            bw_lookup_kind *kind)
{
    if (n->nids > w->nrows)
        return BW_OK; /* testing each row is cheaper */
    for (uint32_t i = 0; i < n->nids; i++) {
        uint32_t row;
        if (bw_snapshot_find(w->s, &n->ids[i], &row))
            bw_bitmap_set(out, row);
    }
    *kind = BW_LOOKUP_EXACT;
    return BW_OK;
}

static bw_status vector_bitmap(narrow *w, const bw_cnode *n, bw_bitmap *out,
                               bw_lookup_kind *kind)
{
    *kind = BW_LOOKUP_EXACT;
    return n->vec == UINT32_MAX ? BW_OK
                                : bw_snapshot_has_vector(w->ctx, w->s, n->vec, out);
}

/* out: zeroed, nrows bits. Untouched when *kind becomes NONE. A filter has many nodes, each
 * the work of all rows at worst, so every node looks at the time. */
static bw_status node_bitmap(narrow *w, bw_cnode *n, bw_bitmap *out,
                             bw_lookup_kind *kind)
{
    *kind = BW_LOOKUP_NONE;
    bw_status timely = bw_ctx_check(w->ctx);
    if (timely != BW_OK)
        return timely;
    switch (n->cond->kind) {
    case BW_COND_HAS_ID:
        return ids_bitmap(w, n, out, kind);
    case BW_COND_HAS_VECTOR:
        return vector_bitmap(w, n, out, kind);
    case BW_COND_FILTER: {
        bool exact;
        bw_bitmap_fill(out);
        bw_status st = narrow_clause(w, n->sub, out, false, &exact);
        *kind = exact ? BW_LOOKUP_EXACT : BW_LOOKUP_SUPERSET;
        return st;
    }
    default:
        break;
    }
    if (!w->indexes)
        return BW_OK;
    const bw_payload_index *ix = bw_snapshot_payload_index(w->s, n->cond->key);
    return ix ? bw_payload_index_lookup(w->ctx, ix, n->cond, out, kind) : BW_OK;
}

static bw_status narrow_must(narrow *w, bw_cnode *n, bw_bitmap *cand, bool spine,
                             bool *exact)
{
    bw_lookup_kind kind;
    bw_bitmap bits;
    n->settled = false;
    if (n->cond->kind == BW_COND_FILTER) { /* a conjunction inside a conjunction */
        bool sub = false;
        bw_status st = narrow_clause(w, n->sub, cand, spine, &sub);
        n->settled = spine && sub;
        *exact = *exact && sub;
        return st;
    }
    bw_arena_mark mark = bw_arena_mark_get(w->ctx);
    bw_status st = bw_bitmap_arena(w->ctx, w->nrows, &bits);
    if (st == BW_OK)
        st = node_bitmap(w, n, &bits, &kind);
    if (st == BW_OK && kind != BW_LOOKUP_NONE)
        bw_bitmap_and(cand, &bits);
    if (st == BW_OK) {
        n->settled = spine && kind == BW_LOOKUP_EXACT;
        *exact = *exact && kind == BW_LOOKUP_EXACT;
        bw_arena_release(w->ctx, mark);
    }
    return st;
}

static bw_status narrow_must_not(narrow *w, bw_cnode *n, bw_bitmap *cand, bool spine,
                                 bool *exact)
{
    bw_lookup_kind kind;
    bw_bitmap bits;
    n->settled = false;
    bw_arena_mark mark = bw_arena_mark_get(w->ctx);
    bw_status st = bw_bitmap_arena(w->ctx, w->nrows, &bits);
    if (st == BW_OK)
        st = node_bitmap(w, n, &bits, &kind);
    if (st != BW_OK)
        return st;
    if (kind == BW_LOOKUP_EXACT)
        bw_bitmap_andnot(cand, &bits);
    n->settled = spine && kind == BW_LOOKUP_EXACT;
    *exact = *exact && kind == BW_LOOKUP_EXACT;
    bw_arena_release(w->ctx, mark);
    return BW_OK;
}

/* The union helps only when every member says something. */
static bw_status narrow_should(narrow *w, bw_clause *c, bw_bitmap *cand, bool *exact)
{
    bw_bitmap sum, bits;
    bool all = true;
    bw_arena_mark mark = bw_arena_mark_get(w->ctx);
    bw_status st = bw_bitmap_arena(w->ctx, w->nrows, &sum);
    if (st == BW_OK)
        st = bw_bitmap_arena(w->ctx, w->nrows, &bits);
    for (uint32_t i = 0; st == BW_OK && all && i < c->nshould; i++) {
        bw_lookup_kind kind;
        memset(bits.words, 0, bw_bitmap_words(w->nrows) * sizeof *bits.words);
        st = node_bitmap(w, &c->should[i], &bits, &kind);
        all = kind != BW_LOOKUP_NONE;
        *exact = *exact && kind == BW_LOOKUP_EXACT;
        bw_bitmap_or(&sum, &bits);
    }
    if (st != BW_OK)
        return st;
    if (all)
        bw_bitmap_and(cand, &sum);
    bw_arena_release(w->ctx, mark);
    return BW_OK;
}

/* Takes from cand rows that cannot meet the clause; *exact: all that are left meet it.
 * spine: every row asked later will have passed this clause's sets. */
static bw_status narrow_clause(narrow *w, bw_clause *c, bw_bitmap *cand, bool spine,
                               bool *exact)
{
    bw_status st = BW_OK;
    *exact = !c->has_min_should;
    for (uint32_t i = 0; st == BW_OK && i < c->nmust; i++)
        st = narrow_must(w, &c->must[i], cand, spine, exact);
    for (uint32_t i = 0; st == BW_OK && i < c->nmust_not; i++)
        st = narrow_must_not(w, &c->must_not[i], cand, spine, exact);
    if (st == BW_OK && c->nshould > 0)
        st = narrow_should(w, c, cand, exact);
    return st;
}

static bw_status read_rows(bw_matcher *m, const bw_snapshot *s, bw_bitmap *cand,
                           uint64_t *read)
{
    size_t rows = 0;
    for (size_t i = bw_bitmap_next(cand, 0); i < cand->nbits;
         i = bw_bitmap_next(cand, i + 1)) {
        bw_row row;
        bw_snapshot_row(s, (uint32_t)i, &row);
        bw_subject subject = {&row.id, row.payload, s, (uint32_t)i, NULL, 0};
        if (!bw_matcher_test(m, &subject))
            bw_bitmap_unset(cand, i);
        ++*read;
        bw_status st = bw_matcher_status(m);
        if (st == BW_OK && ++rows % CHECK_ROWS == 0)
            st = bw_ctx_check(m->ctx);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

bw_status bw_select_narrow(bw_matcher *m, const bw_snapshot *s,
                           const bw_collection_info *info, const bw_bitmap *within,
                           bw_bitmap *out, bool *exact)
{
    narrow w = {m->ctx, s, bw_snapshot_nrows(s), info && info->nindexes > 0};
    assert(within->nbits == w.nrows && out->nbits == w.nrows);
    if (out->words != within->words)
        bw_bitmap_copy(out, within);
    if (w.indexes)
        bw_snapshot_index_rdlock(s);
    bw_status st = narrow_clause(&w, m->root, out, true, exact);
    if (w.indexes)
        bw_snapshot_index_unlock(s);
    return st;
}

bw_status bw_select_rows(bw_matcher *m, const bw_snapshot *s,
                         const bw_collection_info *info, const bw_bitmap *within,
                         bw_bitmap *out, bw_select_trace *trace)
{
    *trace = (bw_select_trace){true, 0};
    m->ask_all = false;
    bw_status st = bw_select_narrow(m, s, info, within, out, &trace->indexed);
    if (st != BW_OK || trace->indexed)
        return st;
    return read_rows(m, s, out, &trace->rows_read);
}

bw_status bw_filter_select(bw_ctx *ctx, const bw_snapshot *s,
                           const bw_collection_info *info, const bw_filter *filter,
                           const bw_bitmap *within, bw_bitmap *out, bool *indexed)
{
    bw_matcher m;
    bw_select_trace trace = {false, 0};
    bw_status st = bw_matcher_init(ctx, &m, &filter, 1, info);
    if (st == BW_OK)
        st = bw_select_rows(&m, s, info, within, out, &trace);
    if (indexed)
        *indexed = trace.indexed;
    bw_matcher_clear(&m);
    return st;
}

bw_status bw_filter_matches(bw_ctx *ctx, const bw_filter *filter, const bw_point_id *id,
                            bw_str payload, const bw_vector *vectors, size_t nvectors,
                            bool *out)
{
    bw_matcher m;
    bw_subject subject = {id, payload, NULL, 0, vectors, nvectors};
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    bw_status st = bw_matcher_init(ctx, &m, &filter, 1, NULL);
    if (st == BW_OK) {
        *out = bw_matcher_test(&m, &subject);
        st = bw_matcher_status(&m);
        bw_arena_release(ctx, mark);
    }
    bw_matcher_clear(&m);
    return st;
}

bw_status bw_path_check(bw_ctx *ctx, bw_str path)
{
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    bw_path parsed;
    bw_status st = bw_path_parse(ctx, path, &parsed);
    if (st == BW_OK)
        bw_arena_release(ctx, mark);
    return st;
}
