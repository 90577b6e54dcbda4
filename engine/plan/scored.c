/* Scoring row by row through one chained heap (scored.h). */
#include "scored.h"
#include "../kernels/topk.h"

typedef struct scan {
    bw_plan *p;
    const bw_leaf *leaf;
    bw_matched_fn matched; /* with best */
    bw_best_fn best;       /* NULL: score */
    bw_score_fn score;
    void *arg;
    bw_topk heap;
} scan;

static bw_status score_rows(scan *s, uint32_t part, const bw_bitmap *rows,
                            bw_search_trace *trace)
{
    const bw_snapshot *snap = s->p->view->parts[part];
    for (size_t r = bw_bitmap_next(rows, 0); r < rows->nbits;
         r = bw_bitmap_next(rows, r + 1)) {
        bw_candidate c = {.part = part, .row = (uint32_t)r};
        bool takes = false;
        bw_arena_mark mark = bw_arena_mark_get(s->p->ctx);
        bw_status done = s->score(s->arg, part, c.row, &c.key, &takes);
        if (done != BW_OK)
            return done;
        bw_arena_release(s->p->ctx, mark);
        if (takes && bw_topk_wants(&s->heap, c.key)) {
            c.id = *bw_snapshot_id(snap, c.row);
            bw_topk_push(&s->heap, &c);
        }
        if (++trace->rows_scanned % BW_PLAN_CHECK_ROWS == 0) {
            bw_status st = bw_ctx_check(s->p->ctx);
            if (st != BW_OK)
                return st;
        }
    }
    return bw_ctx_check(s->p->ctx);
}

static bw_status matched_rows(scan *s, uint32_t part, bw_bitmap **out)
{
    bw_plan *p = s->p;
    bw_bitmap *own = bw_arena_alloc(p->ctx, sizeof *own);
    *out = own;
    if (!own || bw_bitmap_arena(p->ctx, bw_snapshot_nrows(p->view->parts[part]), own))
        return BW_ENOMEM;
    s->matched(s->arg, part, own);
    return BW_OK;
}

static bool by_matches(const scan *s)
{
    return s->matched && (s->leaf->scope->filtered || s->leaf->scope->trace);
}

static bw_status scan_part(scan *s, uint32_t part, bool shadowed)
{
    bw_plan *p = s->p;
    const bw_bitmap *rows = NULL;
    bool any = true;
    bw_status st;
    if (by_matches(s)) {
        bw_bitmap *own;
        const bw_bitmap *visible;
        st = matched_rows(s, part, &own);
        if (st == BW_OK)
            st = bw_plan_visible(p, part, &visible);
        if (st == BW_OK) {
            bw_bitmap_and(own, visible);
            any = bw_bitmap_next(own, 0) < own->nbits;
        }
        if (st == BW_OK && any)
            st = bw_scope_cut(p, s->leaf->scope, part, shadowed, own);
        rows = own;
    } else {
        st = bw_scope_rows(p, s->leaf->scope, part, shadowed, &rows, &any);
    }
    if (st != BW_OK || !any)
        return st;
    bw_search_trace trace = {0};
    if (s->best) {
        st = s->best(s->arg, part, rows, &s->heap);
        trace.rows_scanned = s->leaf->scope->trace ? bw_bitmap_count(rows) : 0;
    } else {
        st = score_rows(s, part, rows, &trace);
    }
    bw_explain_search_done(s->leaf->scope->trace, part, &trace);
    return st;
}

static bw_status scan_all(scan *s, bw_candidate *items, bool shadowed, bw_list *out)
{
    bw_topk_init(&s->heap, items, s->leaf->k);
    for (size_t i = 0; i < s->p->view->nparts; i++) {
        const bw_bitmap *visible; /* cached before the mark: it outlives the loop */
        bw_status st = by_matches(s) ? bw_plan_visible(s->p, i, &visible)
                                     : bw_scope_prepare(s->p, s->leaf->scope, i);
        if (st != BW_OK)
            return st;
        bw_arena_mark mark = bw_arena_mark_get(s->p->ctx);
        st = scan_part(s, (uint32_t)i, shadowed);
        if (st != BW_OK)
            return st;
        bw_arena_release(s->p->ctx, mark);
    }
    return bw_list_of_topk(s->p, &s->heap, false, out);
}

static bw_status run(scan *s, const char *kind, bw_list *out)
{
    bw_plan *p = s->p;
    const bw_leaf *leaf = s->leaf;
    bool copies = false;
    bw_status st = bw_explain_begin(p, kind, &leaf->scope->trace);
    bw_candidate *items = bw_arena_alloc(p->ctx, leaf->k * sizeof *items);
    if (st != BW_OK || !items)
        return BW_ENOMEM;
    *out = (bw_list){NULL, 0, false};
    if (leaf->k == 0)
        return BW_OK;
    st = scan_all(s, items, false, out);
    if (st == BW_OK)
        st = bw_plan_has_copies(p, out->items, out->n, &copies);
    if (st != BW_OK || !copies)
        return st;
    st = bw_plan_shadow(p);
    return st == BW_OK ? scan_all(s, items, true, out) : st;
}

bw_status bw_scan_scored(bw_plan *p, const bw_leaf *leaf, const char *kind,
                         bw_score_fn score, void *arg, bw_list *out)
{
    scan s = {.p = p, .leaf = leaf, .score = score, .arg = arg};
    return run(&s, kind, out);
}

bw_status bw_scan_best(bw_plan *p, const bw_leaf *leaf, const char *kind,
                       bw_matched_fn matched, bw_best_fn best, void *arg, bw_list *out)
{
    scan s = {.p = p, .leaf = leaf, .matched = matched, .best = best, .arg = arg};
    return run(&s, kind, out);
}
