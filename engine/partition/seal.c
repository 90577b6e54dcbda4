/* What the counts of writes ask for: sealing, adopting a graph, rebuilding a segment.
 *
 * All three happen inside a write, at counts that are stored with it, so the state
 * (and every answer) depends on the sequence of writes alone: not on when a thread
 * finished, and not on restarts.
 *   adopt    adopt_rows writes after sealing the graph serves; the writer waits for it
 *   rebuild  more than 30 % of the slots are dead: gathered again without them, its
 *            dead rows leave the file, and its graph is built and adopted anew
 *   seal     seal_rows rows were written to the growing segment. If fewer than 70 % of
 *            them live, the count starts again from the living instead
 * A segment's graph has every row that lived when it was sealed; rows that die later
 * keep their slot until the rebuild. */
#include "part.h"

static bool is_due(uint64_t dead, uint64_t slots)
{
    return dead * 10 > slots * 3;
}

bw_status bw_snapshot_gather(bw_ctx *ctx, const bw_snapshot *s, uint32_t vec,
                             const bw_block_ref *refs, uint32_t nrefs, bw_block **out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < nrefs; i++)
        for (uint32_t j = 0; j < refs[i].n; j++)
            n += bw_bitmap_get(&s->live, refs[i].b->ord[j]);
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
            if (!bw_bitmap_get(&s->live, refs[i].b->ord[j]))
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

/* Replaces the blocks [from, to) of a vector by one gathered from them, as segment seg,
 * and asks for its graph. */
static bw_status gather_segment(bw_ctx *ctx, bw_snapshot *d, uint32_t vec,
                                uint32_t from, uint32_t to, int32_t seg)
{
    bw_block_list *l = &d->vecs[vec];
    bw_block *b = NULL;
    bw_status st = bw_snapshot_gather(ctx, d, vec, l->items + from, to - from, &b);
    if (st != BW_OK)
        return st;
    const bw_part_segment *p = &d->segs[seg].p;
    if (b && b->used >= d->part->env->graph_rows_min) {
        bw_build_id id = {d->part->id.number, p->no, p->build, vec};
        st = bw_builder_add(ctx, d->part->env->builder, b->m,
                            d->part->specs[vec].metric, &id);
        if (st != BW_OK) {
            bw_block_release(b);
            return st;
        }
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

/* The blocks of a segment: [*from, *to). They lie together. */
static void blocks_of(const bw_block_list *l, int32_t seg, uint32_t *from, uint32_t *to)
{
    uint32_t i = 0;
    while (i < l->n && l->items[i].seg != seg)
        i++;
    *from = i;
    while (i < l->n && l->items[i].seg == seg)
        i++;
    *to = i;
}

static bw_status gather_all(bw_ctx *ctx, bw_snapshot *d, int32_t from_seg,
                            int32_t to_seg)
{
    for (uint32_t v = 0; v < d->part->nvec; v++) {
        uint32_t from, to;
        blocks_of(&d->vecs[v], from_seg, &from, &to);
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
    w->scrubs[w->nscrubs][0] = p->key_first;
    w->scrubs[w->nscrubs++][1] = p->key_last;
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

static bw_status seal(bw_ctx *ctx, bw_snapshot *d)
{
    bw_part_state *s = &d->state;
    uint64_t limit = d->part->env->seal_rows;
    if ((uint64_t)d->grow_live * 10 < limit * 7) {
        s->grow_written = d->grow_live;
        return BW_OK;
    }
    int64_t first = d->nsegs > 0 ? d->segs[d->nsegs - 1].p.key_last + 1 : 1;
    d->segs[d->nsegs] = (bw_segment){.p = {.no = s->next_segment++,
                                           .build = 1,
                                           .key_first = first,
                                           .key_last = s->next_key - 1,
                                           .sealed_at = s->writes,
                                           .slots = d->grow_live}};
    d->nsegs++;
    bw_status st = gather_all(ctx, d, -1, (int32_t)d->nsegs - 1);
    s->grow_written = 0;
    d->grow_live = 0;
    return st;
}

bw_status bw_snapshot_seal(bw_ctx *ctx, bw_prepared *w)
{
    bw_snapshot *d = w->next;
    const bw_part_env *env = d->part->env;
    w->scrubs = bw_arena_calloc(ctx, (size_t)d->nsegs + 1, sizeof *w->scrubs);
    if (!w->scrubs)
        return BW_ENOMEM;
    bw_status st = BW_OK;
    for (int32_t i = 0; st == BW_OK && i < (int32_t)d->nsegs; i++) {
        if (adopts(d, i, d->state.writes)) {
            st = wait_for_graphs(ctx, d, i);
            if (st != BW_OK)
                break;
            d->segs[i].p.adopted = true;
            w->segments_changed = true;
        }
        if (!is_due(d->segs[i].dead, d->segs[i].p.slots))
            continue;
        bool dropped = false;
        st = rebuild(ctx, w, i, &dropped);
        w->segments_changed = true;
        i -= dropped;
    }
    if (st == BW_OK && d->state.grow_written >= env->seal_rows) {
        uint32_t before = d->nsegs;
        st = seal(ctx, d);
        w->segments_changed = w->segments_changed || d->nsegs != before;
    }
    return st;
}
