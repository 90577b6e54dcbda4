/* Segments in the making: neighbours gathered into one of the next tier.
 *
 * Size-tiered, as LSM trees do it (O'Neil et al. 1996; the tiering of Luo and Carey, "LSM-
 * based storage techniques: a survey", VLDB J. 2020, section 2.2), over adjacent segments
 * alone, so that segments stay ranges of keys. What is ours: a merge begins and is adopted
 * at counts of writes that are stored with the write, so a slow builder changes no answer;
 * until it is adopted the segments that it was gathered from serve, each with its graph.
 *
 *   tier     t: fewer than 2 · 4^t · seal_rows living rows
 *   begins   when a seal makes 4 units of one tier at the end of the list. Smaller
 *            segments among them go along. If that makes the fourth unit of the next tier,
 *            all of these are merged at once: one build instead of two. A merge that is
 *            pending counts as the segment that it will be; a bigger one takes its place
 *   adopts   when as many rows were written as it holds (adopt_rows at least): it was
 *            begun by about as many, so builds keep pace with writes on any tier
 *   ends     also when a segment of its range is rebuilt: dead rows leave the disk first
 *
 * The graph of a merge is built from its rows, never derived from an older one (the
 * index's op `derive`), though that would be quicker where little changed. A derived graph
 * depends on the graphs before it, and these go with their segments: a start that finds
 * its file missing or damaged could build another one only, with other bits. Nor would it
 * pay: derive wins while some 12 % of the rows are new or gone, but a fan-in of four
 * brings 75 % new rows, and a rebuild begins at 30 % gone.
 *
 * In the file the rows that were dead at the beginning get the mark 2: they are not in the
 * merge, and leave when it is adopted. */
#include "part.h"

enum { FAN_IN = 4 };

static bool covers(const bw_part_segment *p, int64_t key)
{
    return p->key_first <= key && key <= p->key_last;
}

void bw_merge_clear(bw_merge *m, uint32_t nvec)
{
    for (uint32_t v = 0; m->blocks && v < nvec; v++)
        bw_block_release(m->blocks[v]);
    bw_free(m->blocks);
    *m = (bw_merge){0};
}

bw_status bw_merge_copy(bw_ctx *ctx, const bw_merge *m, uint32_t nvec, bw_merge *out)
{
    bw_block **blocks = bw_calloc(nvec, sizeof(bw_block *));
    if (!blocks)
        return bw_fail_nomem(ctx);
    for (uint32_t v = 0; v < nvec; v++)
        if (m->blocks[v]) {
            blocks[v] = m->blocks[v];
            bw_block_acquire(blocks[v]);
        }
    *out = (bw_merge){m->s, blocks};
    return BW_OK;
}

void bw_merge_kill(bw_snapshot *d, int64_t key)
{
    for (uint32_t i = 0; i < d->nmerges; i++)
        d->merges[i].s.dead += covers(&d->merges[i].s.p, key);
}

static void remove_at(bw_snapshot *d, uint32_t i)
{
    memmove(d->merges + i, d->merges + i + 1,
            (d->nmerges - i - 1) * sizeof *d->merges);
    d->nmerges--;
}

static void discard(const bw_snapshot *d, uint32_t no)
{
    const bw_partition *p = d->part;
    for (uint32_t v = 0; v < p->nvec; v++)
        if (!p->specs[v].sparse)
            bw_builder_discard(p->env->builder, p->id.number, no, v);
}

static void cancel(bw_snapshot *d, uint32_t i)
{
    discard(d, d->merges[i].s.p.no);
    bw_merge_clear(&d->merges[i], d->part->nvec);
    remove_at(d, i);
}

void bw_merge_cancel(bw_snapshot *d, int64_t key_first, int64_t key_last)
{
    for (uint32_t i = d->nmerges; i-- > 0;) {
        const bw_part_segment *p = &d->merges[i].s.p;
        if (p->key_first <= key_last && key_first <= p->key_last)
            cancel(d, i);
    }
}

/* ---- beginning ---- */

/* keep: rows that it takes. */
static bw_status gather(bw_ctx *ctx, const bw_snapshot *d, const bw_bitmap *keep,
                        uint32_t from, uint32_t to, bw_merge *m)
{
    const bw_partition *p = d->part;
    m->blocks = bw_calloc(p->nvec, sizeof(bw_block *));
    if (!m->blocks)
        return bw_fail_nomem(ctx);
    bw_status st = BW_OK;
    for (uint32_t v = 0; st == BW_OK && v < p->nvec; v++) {
        uint32_t a, b;
        bw_block_list_range(&d->vecs[v], (int32_t)from, (int32_t)to - 1, &a, &b);
        if (a == b)
            continue;
        st = bw_snapshot_gather(ctx, d, v, d->vecs[v].items + a, b - a, keep,
                                &m->blocks[v]);
        if (st == BW_OK && m->blocks[v])
            st = bw_segment_complete(ctx, d, &m->s.p, v, m->blocks[v]);
    }
    if (st != BW_OK)
        bw_merge_clear(m, p->nvec);
    return st;
}

static void insert(bw_snapshot *d, bw_merge m)
{
    uint32_t i = d->nmerges;
    for (; i > 0 && d->merges[i - 1].s.p.key_first > m.s.p.key_first; i--)
        d->merges[i] = d->merges[i - 1];
    d->merges[i] = m;
    d->nmerges++;
}

bw_status bw_merge_begin(bw_ctx *ctx, bw_prepared *w, uint32_t from, uint32_t to)
{
    bw_snapshot *d = w->next;
    assert(from < to && to <= d->nsegs);
    bw_merge m = {.s.p = {.build = 1,
                          .key_first = d->segs[from].p.key_first,
                          .key_last = d->segs[to - 1].p.key_last,
                          .sealed_at = d->state.writes}};
    for (uint32_t i = from; i < to; i++)
        m.s.p.slots += d->segs[i].p.slots - d->segs[i].dead;
    bw_merge_cancel(d, m.s.p.key_first, m.s.p.key_last);
    m.s.p.no = d->state.next_segment++;
    w->segments_changed = true;
    bw_status st = gather(ctx, d, &d->live, from, to, &m);
    if (st != BW_OK)
        return st;
    insert(d, m);
    w->scrubs[w->nscrubs++] =
        (bw_scrub_range){m.s.p.key_first, m.s.p.key_last, BW_SCRUB_MARK};
    return BW_OK;
}

/* ---- planning ---- */

typedef struct unit { /* a segment, or a pending merge of several: [from, to) */
    uint32_t from, to;
    uint64_t rows;
} unit;

static unsigned tier_of(const bw_snapshot *d, uint64_t rows)
{
    unsigned t = 0;
    for (uint64_t limit = 2 * (uint64_t)d->part->env->seal_rows; rows >= limit;
         limit *= FAN_IN)
        t++;
    return t;
}

static uint32_t units_of(const bw_snapshot *d, unit *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0, m = 0; i < d->nsegs;) {
        const bw_segment *s = &d->segs[i];
        out[n] = (unit){i, i + 1, s->p.slots - s->dead};
        while (m < d->nmerges && d->merges[m].s.p.key_last < s->p.key_first)
            m++;
        if (m < d->nmerges && covers(&d->merges[m].s.p, s->p.key_first)) {
            const bw_segment *whole = &d->merges[m].s;
            while (out[n].to < d->nsegs &&
                   covers(&whole->p, d->segs[out[n].to].p.key_first))
                out[n].to++;
            out[n].rows = whole->p.slots - whole->dead;
        }
        i = out[n++].to;
    }
    return n;
}

bw_status bw_merge_plan(bw_ctx *ctx, bw_prepared *w)
{
    bw_snapshot *d = w->next;
    unit *u = bw_arena_calloc(ctx, d->nsegs, sizeof *u);
    if (!u)
        return BW_ENOMEM;
    uint32_t n = units_of(d, u), lo = n, best = n, carried = 0;
    for (unsigned t = 0;; t++) {
        uint32_t count = carried;
        for (; lo > 0 && tier_of(d, u[lo - 1].rows) <= t; lo--)
            count += tier_of(d, u[lo - 1].rows) == t;
        if (count < FAN_IN)
            break;
        best = lo;
        carried = 1;
    }
    return n - best > 1 ? bw_merge_begin(ctx, w, u[best].from, d->nsegs) : BW_OK;
}

/* ---- adopting ---- */

bool bw_merge_is_due(const bw_snapshot *s, uint32_t i, uint64_t writes)
{
    const bw_part_segment *p = &s->merges[i].s.p;
    uint64_t rows = p->slots;
    if (rows < s->part->env->adopt_rows)
        rows = s->part->env->adopt_rows;
    return writes - p->sealed_at >= rows;
}

bw_status bw_merge_wait(bw_ctx *ctx, const bw_snapshot *s, uint32_t i)
{
    bw_status st = BW_OK;
    for (uint32_t v = 0; st == BW_OK && v < s->part->nvec; v++)
        if (s->merges[i].blocks[v])
            st = bw_builder_wait(ctx, s->part->env->builder, s->merges[i].blocks[v]->m);
    return st;
}

static void adopt_blocks(bw_block_list *l, uint32_t from, uint32_t to, bw_block **b)
{
    uint32_t first, last;
    if (l->n == 0) /* a sparse vector, or one that no row has */
        return;
    bw_block_list_range(l, (int32_t)from, (int32_t)to - 1, &first, &last);
    assert(first < last || !*b);
    for (uint32_t i = first; i < last; i++)
        bw_block_release(l->items[i].b);
    uint32_t put = first;
    if (*b)
        l->items[put++] = (bw_block_ref){*b, (*b)->used, (int32_t)from};
    *b = NULL; /* the list has it now */
    memmove(l->items + put, l->items + last, (l->n - last) * sizeof *l->items);
    l->n -= last - put;
    for (uint32_t i = put; i < l->n; i++)
        if (l->items[i].seg >= (int32_t)to)
            l->items[i].seg -= (int32_t)(to - from - 1);
}

/* Segments of the range; they fill it from edge to edge. */
static void segments_of(const bw_snapshot *d, const bw_part_segment *p, uint32_t *from,
                        uint32_t *to)
{
    uint32_t i = 0;
    while (i < d->nsegs && d->segs[i].p.key_first < p->key_first)
        i++;
    *from = i;
    while (i < d->nsegs && d->segs[i].p.key_last <= p->key_last)
        i++;
    *to = i;
}

bw_status bw_merge_adopt(bw_ctx *ctx, bw_prepared *w, uint32_t i)
{
    bw_snapshot *d = w->next;
    bw_status st = bw_merge_wait(ctx, d, i);
    if (st != BW_OK)
        return st;
    bw_merge *m = &d->merges[i];
    uint32_t from, to;
    segments_of(d, &m->s.p, &from, &to);
    bw_require(from < to && d->segs[from].p.key_first == m->s.p.key_first &&
               d->segs[to - 1].p.key_last == m->s.p.key_last);
    for (uint32_t k = from; k < to; k++)
        discard(d, d->segs[k].p.no);
    for (uint32_t v = 0; v < d->part->nvec; v++)
        adopt_blocks(&d->vecs[v], from, to, &m->blocks[v]);
    m->s.p.adopted = true;
    d->segs[from] = m->s;
    memmove(d->segs + from + 1, d->segs + to, (d->nsegs - to) * sizeof *d->segs);
    d->nsegs -= to - from - 1;
    w->scrubs[w->nscrubs++] =
        (bw_scrub_range){m->s.p.key_first, m->s.p.key_last, BW_SCRUB_MARKED};
    w->segments_changed = true;
    bw_merge_clear(m, d->part->nvec);
    remove_at(d, i);
    return BW_OK;
}

/* ---- loading ---- */

bw_status bw_merge_load(bw_ctx *ctx, bw_snapshot *s, const bw_bitmap *left_out)
{
    if (s->nmerges == 0)
        return BW_OK;
    bw_bitmap keep;
    bw_status st = bw_bitmap_arena(ctx, s->nrows, &keep);
    if (st != BW_OK)
        return st;
    for (uint32_t i = 0; i < s->nrows; i++)
        if (!bw_bitmap_get(left_out, i))
            bw_bitmap_set(&keep, i);
    for (uint32_t i = 0; st == BW_OK && i < s->nmerges; i++) {
        bw_merge *m = &s->merges[i];
        uint32_t from, to;
        uint64_t slots = 0;
        segments_of(s, &m->s.p, &from, &to);
        for (uint32_t k = from; k < to; k++)
            slots += s->segs[k].p.slots;
        if (from == to || s->segs[from].p.key_first != m->s.p.key_first ||
            s->segs[to - 1].p.key_last != m->s.p.key_last || slots < m->s.p.slots)
            return bw_fail(ctx, BW_ECORRUPT,
                           "store: a partition's merges do not fit its marks");
        st = gather(ctx, s, &keep, from, to, m);
    }
    return st;
}
