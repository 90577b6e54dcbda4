/* Scopes: the rows of one partition that a leaf of a query may look at = visible, met
 * by every filter from the root down, among the prefetched ones if there are any, not
 * an example, and not hidden by a copy. */
#include "explain.h"
#include "plan.h"

/* The rows of one filter, kept for the request: the prefetches of a hybrid query, and
 * often the queries of a batch, come with the same filter. Only whole searches keep
 * them (cutting a few candidates is cheaper than selecting from all rows). */
struct bw_selection {
    struct bw_selection *next;
    const bw_matcher *matcher; /* a copy of the first asker's, for comparing */
    bw_bitmap *rows;           /* per partition; no words: not selected yet */
};

static bw_status find_selection(bw_plan *p, bw_scope *s)
{
    size_t bytes = p->nrows / 8 + p->view->nparts * sizeof(bw_bitmap);
    for (struct bw_selection *sel = p->selections; sel; sel = sel->next) {
        if (bw_matcher_same(sel->matcher, &s->matcher)) {
            s->selection = sel;
            return BW_OK;
        }
    }
    if (p->nselections == BW_PLAN_SELECTIONS_MAX ||
        bytes > BW_PLAN_SELECTION_BYTES_MAX - p->selection_bytes)
        return BW_OK;
    struct bw_selection *sel = bw_arena_calloc(p->ctx, 1, sizeof *sel);
    bw_matcher *matcher = bw_arena_alloc(p->ctx, sizeof *matcher);
    bw_bitmap *rows = bw_arena_calloc(p->ctx, p->view->nparts, sizeof *rows);
    if (!sel || !matcher || !rows)
        return BW_ENOMEM;
    *matcher = s->matcher;
    *sel = (struct bw_selection){p->selections, matcher, rows};
    p->selections = s->selection = sel;
    p->nselections++;
    p->selection_bytes += bytes;
    return BW_OK;
}

bw_status bw_scope_prepare(bw_plan *p, bw_scope *s, size_t part)
{
    const bw_snapshot *snap = p->view->parts[part];
    const bw_bitmap *visible;
    bw_select_trace trace;
    bw_status st = bw_plan_visible(p, part, &visible);
    if (st != BW_OK || !s->filtered || s->within)
        return st;
    if (!s->selection)
        st = find_selection(p, s);
    if (st != BW_OK || !s->selection || s->selection->rows[part].words)
        return st;
    bw_bitmap rows;
    st = bw_bitmap_arena(p->ctx, visible->nbits, &rows);
    if (st == BW_OK)
        st = bw_select_rows(&s->matcher, snap, &p->view->info, visible, &rows, &trace);
    if (st != BW_OK)
        return st;
    s->selection->rows[part] = rows;
    if (s->trace)
        bw_explain_filter(s->trace, part, trace.indexed ? "index" : "scan",
                          trace.rows_read);
    return BW_OK;
}

bw_status bw_scope_init(bw_plan *p, bw_scope *s, const bw_filter *const *filters,
                        size_t nfilters, const bw_list *within)
{
    *s = (bw_scope){.within = within};
    for (size_t i = 0; i < nfilters; i++)
        s->filtered = s->filtered || filters[i];
    return bw_matcher_init(p->ctx, &s->matcher, filters, nfilters, &p->view->info);
}

void bw_scope_clear(bw_scope *s)
{
    bw_matcher_clear(&s->matcher);
}

/* Items of `within` are sorted by (part, row). */
static size_t within_begin(const bw_list *l, size_t part)
{
    size_t lo = 0, hi = l->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (l->items[mid].part < part)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bw_status keep_within(bw_plan *p, const bw_list *l, size_t part, bw_bitmap *rows)
{
    bw_bitmap keep;
    bw_arena_mark mark = bw_arena_mark_get(p->ctx);
    bw_status st = bw_bitmap_arena(p->ctx, rows->nbits, &keep);
    if (st != BW_OK)
        return st;
    for (size_t i = within_begin(l, part); i < l->n && l->items[i].part == part; i++)
        bw_bitmap_set(&keep, l->items[i].row);
    bw_bitmap_and(rows, &keep);
    bw_arena_release(p->ctx, mark);
    return BW_OK;
}

/* The filter's rows among `rows`, from what is kept or by asking. */
static bw_status keep_filtered(bw_plan *p, bw_scope *s, size_t part, bw_bitmap *rows)
{
    bw_select_trace trace;
    if (!s->filtered)
        return BW_OK;
    if (s->selection && s->selection->rows[part].words) {
        bw_bitmap_and(rows, &s->selection->rows[part]);
        if (s->trace)
            bw_explain_filter(s->trace, part, "kept", 0);
        return BW_OK;
    }
    bw_status st = bw_select_rows(&s->matcher, p->view->parts[part], &p->view->info,
                                  rows, rows, &trace);
    if (st == BW_OK && s->trace)
        bw_explain_filter(s->trace, part, trace.indexed ? "index" : "scan",
                          trace.rows_read);
    return st;
}

bw_status bw_scope_cut(bw_plan *p, bw_scope *s, size_t part, bool shadowed,
                       bw_bitmap *rows)
{
    const bw_snapshot *snap = p->view->parts[part];
    const bw_bitmap *visible;
    bw_status st = bw_plan_visible(p, part, &visible);
    if (st != BW_OK)
        return st;
    bw_bitmap_and(rows, visible);
    for (size_t i = 0; i < s->nexclude; i++) {
        uint32_t row;
        if (bw_snapshot_find(snap, &s->exclude[i], &row))
            bw_bitmap_unset(rows, row);
    }
    if (s->within)
        st = keep_within(p, s->within, part, rows);
    if (st == BW_OK)
        st = keep_filtered(p, s, part, rows);
    if (st == BW_OK && shadowed)
        st = bw_plan_drop_copies(p, part, rows);
    return st;
}

bw_status bw_scope_rows(bw_plan *p, bw_scope *s, size_t part, bool shadowed,
                        const bw_bitmap **out, bool *any)
{
    const bw_snapshot *snap = p->view->parts[part];
    const bw_bitmap *visible;
    *any = false;
    if (bw_snapshot_nrows(snap) == 0)
        return BW_OK;
    if (s->within) {
        size_t at = within_begin(s->within, part);
        if (at == s->within->n || s->within->items[at].part != part)
            return BW_OK;
    }
    bw_status st = bw_plan_visible(p, part, &visible);
    if (st != BW_OK)
        return st;
    bool hides = shadowed && part > 0 && !p->all_copies;
    const bw_bitmap *kept = s->selection && s->selection->rows[part].words
                                ? &s->selection->rows[part]
                                : NULL;
    if ((!s->filtered || kept) && !s->within && s->nexclude == 0 && !hides) {
        *out = kept ? kept : visible;
        *any = !kept || bw_bitmap_next(kept, 0) < kept->nbits;
        if (s->trace)
            bw_explain_filter(s->trace, part, kept ? "kept" : "none", 0);
        return BW_OK;
    }
    bw_bitmap *rows = bw_arena_alloc(p->ctx, sizeof *rows);
    if (!rows)
        return BW_ENOMEM;
    st = bw_bitmap_arena(p->ctx, visible->nbits, rows);
    if (st != BW_OK)
        return st;
    bw_bitmap_copy(rows, visible);
    st = bw_scope_cut(p, s, part, shadowed, rows);
    *out = rows;
    *any = st == BW_OK && bw_bitmap_next(rows, 0) < rows->nbits;
    return st;
}
