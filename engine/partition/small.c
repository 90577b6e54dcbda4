/* Very small partitions, whose rows cost less than the way to them.
 *
 * A tenant may have ten thousand classes of a few rows each. Reached through snapshot,
 * block, matrix and bitmap each costs a dozen cache misses that wait for one another. So a
 * snapshot's first two cache lines hold what a search of few rows needs, and the third marks
 * of its ids, a Bloom filter of one line (Putze, Sanders, Singler, "Cache-, hash- and
 * space-efficient Bloom filters", WEA 2007): of 100 rows it lets one foreign id in ten
 * through. A reader that asks for the lines, then for codes or rows, some partitions ahead,
 * waits for neither. Only snapshots of the reader's view are asked for: prefetching is
 * reading.
 *
 * Where the planner's table says so, the rows are read by their 4-bit codes, in the pass
 * over codes of the whole search: few of them are ever rescored.
 *
 * A snapshot that does not qualify (more rows, an expiry, rows without the vector) is
 * searched as ever; both ways give the same bits. */
#include "../index/choose.h"
#include "../index/codes.h"
#include "../kernels/scan.h"
#include "../kernels/typed.h"
#include "part.h"

enum { LINE = 64, PREFETCH_LINES = 120 };
static_assert(offsetof(struct bw_snapshot, small_codes) == LINE &&
                  offsetof(struct bw_snapshot, marks) == 2 * LINE &&
                  BW_MARK_WORDS * sizeof(uint64_t) == LINE,
              "what a small search reads is two lines, the marks are the third");

/* Four bits of the line, by nine bits of the hash each. */
enum { MARKS = 4 };

static inline uint32_t mark_of(uint32_t hash, int i)
{
    static const unsigned char shift[MARKS] = {23, 14, 5, 0};
    return hash >> shift[i] & (BW_MARK_WORDS * 64 - 1);
}

static void set_marks(bw_snapshot *s)
{
    const bool many = s->nrows > BW_SMALL_ROWS;
    memset(s->marks, many ? 0xff : 0, sizeof s->marks);
    for (uint32_t i = 0; !many && i < s->nrows; i++) {
        const uint32_t h = bw_id_hash(&s->rows->ids[i]);
        for (int k = 0; k < MARKS; k++) {
            const uint32_t bit = mark_of(h, k);
            s->marks[bit / 64] |= (uint64_t)1 << bit % 64;
        }
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
    if (r->n != s->nrows || r->seg >= 0 || !m->data)
        return;
    assert(r->b->ord[0] == 0 && r->b->ord[r->n - 1] == r->n - 1);
    s->small_data = m->data;
    s->small_scales = m->scales;
    s->small_ids = m->ids;
    s->small_word = s->live.words[0];
    s->small_words = s->nrows <= 64 ? &s->small_word : s->live.words;
    s->small_codes = m->codes ? *m->codes : (bw_codes){.codes = NULL};
    s->small_rows = r->n;
}

void bw_snapshot_ahead(const bw_snapshot *s)
{
    __builtin_prefetch(s);
    __builtin_prefetch(&s->small_codes);
    __builtin_prefetch(s->marks);
}

static void ask_for(const void *at, size_t bytes)
{
    const char *p = at;
    bytes = bytes < (size_t)PREFETCH_LINES * LINE ? bytes : (size_t)PREFETCH_LINES * LINE;
    for (size_t i = 0; i < bytes; i += LINE)
        __builtin_prefetch(p + i);
}

static bool by_codes(const bw_snapshot *s, const bw_small_pass *p)
{
    return p->codes && s->small_codes.codes && s->small_rows >= p->codes_rows_min;
}

void bw_snapshot_rows_ahead(const bw_snapshot *s, const bw_small_pass *p)
{
    const size_t n = s->small_rows;
    const bw_codes *c = &s->small_codes;
    if (!by_codes(s, p)) {
        ask_for(s->small_data, n * p->row_bytes);
        return;
    }
    if (n > 64)
        __builtin_prefetch(s->small_words);
    ask_for(c->codes, n * c->stride);
    ask_for(c->step, n * sizeof *c->step);
    ask_for(c->norm, n * sizeof *c->norm);
    ask_for(c->lost, n * sizeof *c->lost);
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

void bw_small_pass_codes(bw_small_pass *p, bw_codes_pass *codes, size_t k, uint64_t rows)
{
    bw_choose_block b = {.k = k,
                         .dim = (uint32_t)p->dim,
                         .dtype = p->dtype,
                         .codes = true,
                         .whole = rows > 0 ? rows : 1};
    size_t lo = 1, hi = BW_SMALL_ROWS + 1; /* the table never turns back */
    while (lo < hi) {
        b.rows = b.permitted = lo + (hi - lo) / 2;
        if (bw_choose(&b, NULL) == BW_CHOICE_CODES)
            hi = b.rows;
        else
            lo = b.rows + 1;
    }
    p->codes = codes;
    p->codes_rows_min = lo;
}

static bw_status small_codes(const bw_snapshot *s, const bw_small_pass *p, uint32_t part,
                             const bw_bitmap *live)
{
    const bw_bitmap *allowed[BW_CODES_QUERIES_MAX];
    const bw_codes_block b = {.codes = &s->small_codes,
                              .rows = {.dtype = p->dtype,
                                       .dim = (uint32_t)p->dim,
                                       .n = s->small_rows,
                                       .data = s->small_data,
                                       .scales = s->small_scales},
                              .ids = s->small_ids,
                              .part = part};
    for (size_t i = 0; i < p->nq; i++)
        allowed[i] = live;
    return bw_codes_add(p->codes, &b, allowed);
}

bw_status bw_snapshot_search_small(const bw_snapshot *s, bw_small_pass *p, uint32_t part,
                                   size_t *rows)
{
    *rows = s->small_rows;
    if (s->small_rows == 0)
        return BW_OK;
    const bw_bitmap live = {(uint64_t *)(uintptr_t)s->small_words, s->small_rows};
    const bw_scan_input in = {.metric = p->metric,
                              .dtype = p->dtype,
                              .rows = s->small_data,
                              .scales = p->dtype == BW_DTYPE_I8 ? s->small_scales : NULL,
                              .ids = s->small_ids,
                              .n = s->small_rows,
                              .dim = p->dim,
                              .part = part};
    if (by_codes(s, p))
        return small_codes(s, p, part, &live);
    for (size_t i = 0; i < p->nq; i++)
        p->qs[i].allowed = &live;
    if (p->nq == 1)
        bw_scan_rows(bw_kernels_get(), &in, p->qs);
    else
        bw_scan_block(bw_kernels_get(), &in, p->qs, p->nq);
    return BW_OK;
}

size_t bw_snapshot_may_hold(const bw_snapshot *s, const uint32_t *hashes, size_t n,
                            size_t from)
{
    size_t i = from;
    for (; i < n; i++) {
        int k = 0;
        while (k < MARKS) {
            const uint32_t bit = mark_of(hashes[i], k);
            if (!(s->marks[bit / 64] >> bit % 64 & 1))
                break;
            k++;
        }
        if (k == MARKS)
            break;
    }
    return i;
}
