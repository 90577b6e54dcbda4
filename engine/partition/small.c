/* Very small partitions, whose rows cost less than the way to them.
 *
 * A tenant may have ten thousand classes of a few rows each. Reached through snapshot,
 * block, matrix and bitmap each costs a dozen cache misses that wait for one another. So a
 * snapshot's first cache line holds what a search of few rows needs, and marks of its
 * ids; a reader that asks for the line, then for the rows, some partitions ahead, waits
 * for neither. Only snapshots of the reader's view are asked for: prefetching is reading.
 *
 * A snapshot that does not qualify (more rows, an expiry, codes, rows without the vector)
 * is searched as ever; both ways give the same bits. */
#include "../kernels/scan.h"
#include "../kernels/typed.h"
#include "part.h"

enum { LINE = 64, PREFETCH_LINES = 40 };
static_assert(offsetof(struct bw_snapshot, part) == LINE, "what a small search reads is one line");

static void set_marks(bw_snapshot *s)
{
    if (s->nrows > BW_SMALL_ROWS) {
        s->marks[0] = s->marks[1] = UINT64_MAX;
        return;
    }
    s->marks[0] = s->marks[1] = 0;
    for (uint32_t i = 0; i < s->nrows; i++) {
        uint32_t h = bw_id_hash(&s->rows->ids[i]);
        s->marks[0] |= (uint64_t)1 << (h >> 26);
        s->marks[1] |= (uint64_t)1 << (h >> 20 & 63);
    }
}

void bw_snapshot_set_small(bw_snapshot *s)
{
    s->small_rows = 0;
    set_marks(s);
    if (s->nrows == 0 || s->nrows > BW_SMALL_ROWS || s->can_expire ||
        s->part->nvec == 0 || s->vecs[0].n != 1)
        return;
    const bw_block_ref *r = &s->vecs[0].items[0];
    const bw_matrix *m = r->b->m;
    if (r->n != s->nrows || r->seg >= 0 || !m->data || m->codes)
        return;
    assert(r->b->ord[0] == 0 && r->b->ord[r->n - 1] == r->n - 1);
    s->small_data = m->data;
    s->small_scales = m->scales;
    s->small_ids = m->ids;
    s->small_live = s->live.words[0];
    s->small_rows = r->n;
}

void bw_snapshot_ahead(const bw_snapshot *s)
{
    __builtin_prefetch(s);
}

void bw_snapshot_rows_ahead(const bw_snapshot *s, const bw_small_pass *p)
{
    size_t bytes = s->small_rows * p->row_bytes;
    bytes = bytes < (size_t)PREFETCH_LINES * LINE ? bytes : (size_t)PREFETCH_LINES * LINE;
    for (size_t i = 0; i < bytes; i += LINE)
        __builtin_prefetch((const char *)s->small_data + i);
}

void bw_small_pass_init(bw_small_pass *p, const bw_vector_spec *spec,
                        bw_scan_query *qs, size_t nq)
{
    *p = (bw_small_pass){.metric = spec->metric,
                         .dtype = spec->dtype,
                         .dim = spec->dim,
                         .row_bytes = spec->dim * bw_dtype_size(spec->dtype),
                         .qs = qs,
                         .nq = nq};
}

size_t bw_snapshot_search_small(const bw_snapshot *s, bw_small_pass *p, uint32_t part)
{
    if (s->small_rows == 0)
        return 0;
    const bw_bitmap live = {(uint64_t *)(uintptr_t)&s->small_live, s->small_rows};
    const bw_scan_input in = {.metric = p->metric,
                              .dtype = p->dtype,
                              .rows = s->small_data,
                              .scales = p->dtype == BW_DTYPE_I8 ? s->small_scales : NULL,
                              .ids = s->small_ids,
                              .n = s->small_rows,
                              .dim = p->dim,
                              .part = part};
    for (size_t i = 0; i < p->nq; i++)
        p->qs[i].allowed = &live;
    if (p->nq == 1)
        bw_scan_rows(bw_kernels_get(), &in, p->qs);
    else
        bw_scan_block(bw_kernels_get(), &in, p->qs, p->nq);
    return s->small_rows;
}

size_t bw_snapshot_may_hold(const bw_snapshot *s, const uint32_t *hashes, size_t n,
                            size_t from)
{
    uint64_t a = s->marks[0], b = s->marks[1];
    size_t i = from;
    while (i < n && !(a >> (hashes[i] >> 26) & b >> (hashes[i] >> 20 & 63) & 1))
        i++;
    return i;
}
