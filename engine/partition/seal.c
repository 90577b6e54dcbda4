/* What the counts of writes ask for: sealing, adopting a graph, rebuilding a segment;
 * merging them is merge.c's.
 *
 * All happen inside a write, at counts that are stored with it, so the state
 * (and every answer) depends on the sequence of writes alone: not on when a thread
 * finished, and not on restarts.
 *   adopt    adopt_rows writes after sealing the graph serves; the writer waits for it
 *   rebuild  more than 30 % of the slots are dead: gathered again without them, its
 *            dead rows leave the file, and its graph is built and adopted anew
 *   seal     seal_rows rows were written to the growing segment. If fewer than 70 % of
 *            them live, the count starts again from the living instead
 * A segment's graph has every row that lived when it was sealed; rows that die later
 * keep their slot until the rebuild. */
#include "heal.h"
#include "part.h"

static bool is_due(uint64_t dead, uint64_t slots)
{
    return dead * 10 > slots * 3;
}

bw_status bw_snapshot_gather(bw_ctx *ctx, const bw_snapshot *s, uint32_t vec,
                             const bw_block_ref *refs, uint32_t nrefs,
                             const bw_bitmap *keep, bw_block **out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < nrefs; i++)
        for (uint32_t j = 0; j < refs[i].n; j++)
            n += bw_bitmap_get(keep, refs[i].b->ord[j]);
    if (n == 0) {
        *out = NULL;
        return BW_OK;
    }
    bw_matrix *m = bw_matrix_new(&s->part->specs[vec], n);
    bw_block *b = m ? bw_block_new(m) : NULL;
    if (!b)
        return bw_fail_nomem(ctx);
    for (uint32_t i = 0; i < nrefs; i++)
        for (uint32_t j = 0; j < refs[i].n; j++) {
            if (!bw_bitmap_get(keep, refs[i].b->ord[j]))
                continue;
            bw_status st = bw_matrix_copy(ctx, m, b->used, refs[i].b->m, j);
            if (st != BW_OK) {
                bw_block_release(b);
                return st;
            }
            b->ord[b->used++] = refs[i].b->ord[j];
        }
    *out = b;
    return BW_OK;
}

bw_status bw_segment_complete(bw_ctx *ctx, const bw_snapshot *s,
                              const bw_part_segment *p, uint32_t vec, bw_block *b)
{
    const bw_vector_spec *spec = &s->part->specs[vec];
    bw_build_id id = {s->part->id.number, p->no, p->build, vec};
    bw_builder_place(s->part->env->builder, b->m, spec, &id);
    bw_status st = bw_home_set(ctx, s->part, vec, b, bw_gen_rows(s->gen)->keys);
    if (st != BW_OK)
        return st;
    if (p->build == 0 || b->used < s->part->env->graph_rows_min)
        return BW_OK;
    return bw_builder_add(ctx, s->part->env->builder, b->m, spec, &id);
}

/* Replaces the blocks [from, to) of a vector by one gathered from them, as segment seg,
 * and asks for its graph. */
static bw_status gather_segment(bw_ctx *ctx, bw_snapshot *d, uint32_t vec,
                                uint32_t from, uint32_t to, int32_t seg)
{
    bw_block_list *l = &d->vecs[vec];
    bw_block *b = NULL;
    bw_status st = bw_snapshot_gather(ctx, d, vec, l->items + from, to - from, &d->live, &b);
    if (st != BW_OK)
        return st;
    if (b && (st = bw_segment_complete(ctx, d, &d->segs[seg].p, vec, b)) != BW_OK) {
        bw_block_release(b);
        return st;
    }
    for (uint32_t i = from; i < to; i++)
        bw_block_release(l->items[i].b);
    uint32_t put = from;
    if (b)
        l->items[put++] = (bw_block_ref){b, b->used, seg};
    memmove(l->items + put, l->items + to, (l->n - to) * sizeof *l->items);
    l->n -= to - put;
    return BW_OK;
}

static bw_status gather_all(bw_ctx *ctx, bw_snapshot *d, int32_t from_seg,
                            int32_t to_seg)
{
    for (uint32_t v = 0; v < d->part->nvec; v++) {
        uint32_t from, to;
        bw_block_list_range(&d->vecs[v], from_seg, from_seg, &from, &to);
        if (from == to)
            continue;
        bw_status st = gather_segment(ctx, d, v, from, to, to_seg);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

static bool adopts(const bw_snapshot *s, int32_t seg, uint64_t writes)
{
    const bw_part_segment *p = &s->segs[seg].p;
    return !p->adopted && writes - p->sealed_at >= s->part->env->adopt_rows;
}

static bw_status wait_for_graphs(bw_ctx *ctx, const bw_snapshot *s, int32_t seg)
{
    bw_status st = BW_OK;
    for (uint32_t v = 0; v < s->part->nvec; v++)
        for (uint32_t i = 0; st == BW_OK && i < s->vecs[v].n; i++)
            if (s->vecs[v].items[i].seg == seg)
                st = bw_builder_wait(ctx, s->part->env->builder,
                                     s->vecs[v].items[i].b->m);
    return st;
}

bw_status bw_snapshot_await(bw_ctx *ctx, const bw_snapshot *s, uint64_t more)
{
    bw_status st = BW_OK;
    for (int32_t i = 0; st == BW_OK && i < (int32_t)s->nsegs; i++)
        if (adopts(s, i, s->state.writes + more))
            st = wait_for_graphs(ctx, s, i);
    for (uint32_t i = 0; st == BW_OK && i < s->nmerges; i++)
        if (bw_merge_is_due(s, i, s->state.writes + more))
            st = bw_merge_wait(ctx, s, i);
    return st;
}

static void drop_segment(bw_snapshot *d, int32_t seg)
{
    for (uint32_t v = 0; v < d->part->nvec; v++)
        for (uint32_t i = 0; i < d->vecs[v].n; i++)
            if (d->vecs[v].items[i].seg > seg)
                d->vecs[v].items[i].seg--;
    memmove(d->segs + seg, d->segs + seg + 1,
            (d->nsegs - (uint32_t)seg - 1) * sizeof *d->segs);
    d->nsegs--;
}

static bw_status rebuild(bw_ctx *ctx, bw_prepared *w, int32_t seg, bool *dropped)
{
    bw_snapshot *d = w->next;
    bw_part_segment *p = &d->segs[seg].p;
    bw_merge_cancel(d, p->key_first, p->key_last);
    w->scrubs[w->nscrubs++] =
        (bw_scrub_range){p->key_first, p->key_last, BW_SCRUB_DEAD};
    p->slots -= d->segs[seg].dead;
    p->build++;
    p->sealed_at = d->state.writes;
    p->adopted = false;
    d->segs[seg].dead = 0;
    /* Its graphs hold the vectors of rows that leave. Should the write fail yet, they
     * are built again at the next start. */
    for (uint32_t v = 0; v < d->part->nvec; v++)
        if (!d->part->specs[v].sparse)
            bw_builder_discard(d->part->env->builder, d->part->id.number, p->no, v);
    bw_status st = gather_all(ctx, d, seg, seg);
    *dropped = p->slots == 0;
    if (st == BW_OK && *dropped)
        drop_segment(d, seg);
    return st;
}

/* The growing rows become the last segment. build 0: without a graph. */
static bw_status close_growing(bw_ctx *ctx, bw_prepared *w, uint32_t build)
{
    bw_snapshot *d = w->next;
    bw_part_state *s = &d->state;
    int64_t first = d->nsegs > 0 ? d->segs[d->nsegs - 1].p.key_last + 1 : 1;
    d->segs[d->nsegs] = (bw_segment){.p = {.no = s->next_segment++,
                                           .build = build,
                                           .key_first = first,
                                           .key_last = s->next_key - 1,
                                           .sealed_at = s->writes,
                                           .slots = d->grow_live}};
    d->nsegs++;
    w->segments_changed = true;
    bw_status st = gather_all(ctx, d, -1, (int32_t)d->nsegs - 1);
    s->grow_written = 0;
    d->grow_live = 0;
    return st;
}

static bw_status seal(bw_ctx *ctx, bw_prepared *w)
{
    bw_snapshot *d = w->next;
    uint64_t limit = d->part->env->seal_rows;
    if (d->state.grow_written < limit)
        return BW_OK;
    if ((uint64_t)d->grow_live * 10 < limit * 7) {
        d->state.grow_written = d->grow_live;
        return BW_OK;
    }
    bw_status st = close_growing(ctx, w, 1);
    return st == BW_OK ? bw_merge_plan(ctx, w) : st;
}

static bw_status adopt_segment(bw_ctx *ctx, bw_prepared *w, int32_t i)
{
    bw_status st = wait_for_graphs(ctx, w->next, i);
    if (st != BW_OK)
        return st;
    w->next->segs[i].p.adopted = true;
    w->segments_changed = true;
    return BW_OK;
}

/* Rebuilds of all segments, adoptions of all merges, one that begins. */
static bool room_for_scrubs(bw_ctx *ctx, bw_prepared *w)
{
    size_t n = (size_t)w->next->nsegs + w->next->nmerges + 2;
    w->scrubs = bw_arena_calloc(ctx, n, sizeof *w->scrubs);
    return w->scrubs != NULL;
}

bw_status bw_snapshot_seal(bw_ctx *ctx, bw_prepared *w)
{
    bw_snapshot *d = w->next;
    bw_status st = room_for_scrubs(ctx, w) ? BW_OK : BW_ENOMEM;
    for (uint32_t i = 0; st == BW_OK && i < d->nmerges;)
        if (bw_merge_is_due(d, i, d->state.writes))
            st = bw_merge_adopt(ctx, w, i); /* the next one moves up */
        else
            i++;
    for (int32_t i = 0; st == BW_OK && i < (int32_t)d->nsegs; i++) {
        if (adopts(d, i, d->state.writes) && (st = adopt_segment(ctx, w, i)) != BW_OK)
            break;
        if (!is_due(d->segs[i].dead, d->segs[i].p.slots))
            continue;
        bool dropped = false;
        st = rebuild(ctx, w, i, &dropped);
        w->segments_changed = true;
        i -= dropped;
    }
    return st == BW_OK ? seal(ctx, w) : st;
}

/* ---- at once, by a call ---- */

static bw_status draft_alone(bw_ctx *ctx, const bw_snapshot *cur, bw_prepared *w)
{
    *w = (bw_prepared){.part = cur->part, .cur = cur, .ord0 = cur->gen->n};
    bw_status st = bw_snapshot_draft(ctx, cur, cur->nrows, &w->next);
    return st == BW_OK && !room_for_scrubs(ctx, w) ? BW_ENOMEM : st;
}

/* One segment with its graph, or what will be that: its number. 0: there is none. */
static uint32_t whole_of(const bw_snapshot *s)
{
    if (s->grow_live > 0 || s->nsegs == 0)
        return 0;
    if (s->nsegs == 1 && s->segs[0].p.build > 0)
        return s->segs[0].p.no;
    const bw_part_segment *p = s->nmerges == 1 ? &s->merges[0].s.p : NULL;
    return p && p->key_first == s->segs[0].p.key_first &&
                   p->key_last == s->segs[s->nsegs - 1].p.key_last
               ? p->no
               : 0;
}

bw_status bw_partition_seal_all(bw_ctx *ctx, const bw_snapshot *cur, bw_prepared *w,
                                uint32_t *no, bool *changed)
{
    *no = cur->nlive >= cur->part->env->graph_rows_min ? whole_of(cur) : 0;
    *changed = false;
    if (cur->nlive < cur->part->env->graph_rows_min || *no != 0) {
        if (*no != 0 && cur->nsegs == 1 && cur->segs[0].p.adopted &&
            cur->segs[0].p.no == *no)
            *no = 0; /* it is so already */
        return BW_OK;
    }
    bw_status st = draft_alone(ctx, cur, w);
    bw_snapshot *d = w->next;
    bool alone = cur->nsegs == 0;
    if (st == BW_OK && d->grow_live > 0) /* what is merged at once needs no graph */
        st = close_growing(ctx, w, alone ? 1 : 0);
    if (st == BW_OK && !alone)
        st = bw_merge_begin(ctx, w, 0, d->nsegs);
    if (st != BW_OK) {
        bw_partition_abort(w);
        return st;
    }
    *no = whole_of(d);
    *changed = true;
    return BW_OK;
}

static int32_t segment_named(const bw_snapshot *s, uint32_t no)
{
    for (uint32_t i = 0; i < s->nsegs; i++)
        if (s->segs[i].p.no == no)
            return (int32_t)i;
    return -1;
}

static int32_t merge_named(const bw_snapshot *s, uint32_t no)
{
    for (uint32_t i = 0; i < s->nmerges; i++)
        if (s->merges[i].s.p.no == no)
            return (int32_t)i;
    return -1;
}

bw_status bw_snapshot_wait(bw_ctx *ctx, const bw_snapshot *s, uint32_t no)
{
    int32_t m = merge_named(s, no), i = segment_named(s, no);
    if (m >= 0)
        return bw_merge_wait(ctx, s, (uint32_t)m);
    return i >= 0 ? wait_for_graphs(ctx, s, i) : BW_OK;
}

bw_status bw_partition_adopt_now(bw_ctx *ctx, const bw_snapshot *cur, bw_prepared *w,
                                 uint32_t no, bool *changed)
{
    int32_t m = merge_named(cur, no), i = segment_named(cur, no);
    *changed = false;
    if (i >= 0 && cur->segs[i].p.adopted)
        return BW_OK;
    if (i < 0 && m < 0)
        return bw_fail(ctx, BW_ECONFLICT, "the segment was given up for another");
    bw_status st = draft_alone(ctx, cur, w);
    if (st == BW_OK)
        st = m >= 0 ? bw_merge_adopt(ctx, w, (uint32_t)m) : adopt_segment(ctx, w, i);
    if (st != BW_OK)
        bw_partition_abort(w);
    *changed = st == BW_OK;
    return st;
}
