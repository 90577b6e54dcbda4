/* Numbers and their rows in order of value (payload_numbers.h). */
#include "payload_numbers.h"
#include "payload.h"

typedef enum num_kind { NUM_INT, NUM_NEGATIVE, NUM_REAL } num_kind;

void bw_numbers_clear(bw_numbers *s)
{
    for (size_t i = 0; i < s->nruns; i++)
        bw_free(s->runs[i].items);
    bw_free(s->tail);
    *s = (bw_numbers){.nruns = 0};
}

size_t bw_numbers_bytes(const bw_numbers *s)
{
    size_t n = s->tail_cap * sizeof *s->tail;
    for (size_t i = 0; i < s->nruns; i++)
        n += s->runs[i].n * sizeof *s->runs[i].items;
    return n;
}

static bw_number num_value(const bw_numbers_item *x)
{
    if (x->kind != NUM_REAL)
        return (bw_number){true, x->kind == NUM_NEGATIVE, x->bits,
                           x->kind == NUM_NEGATIVE ? -(double)x->bits
                                                   : (double)x->bits};
    bw_number v = {false, false, 0, 0};
    memcpy(&v.real, &x->bits, sizeof v.real);
    return v;
}

static bw_numbers_item num_make(const bw_number *v, uint32_t row)
{
    bw_numbers_item x = {v->mag, row, v->negative ? NUM_NEGATIVE : NUM_INT};
    if (!v->is_int) {
        x.kind = NUM_REAL;
        memcpy(&x.bits, &v->real, sizeof x.bits);
    }
    return x;
}

static int num_cmp(const bw_numbers_item *a, const bw_numbers_item *b)
{
    bw_number x = num_value(a), y = num_value(b);
    int c = bw_number_cmp(&x, &y);
    return c != 0 ? c : (a->row > b->row) - (a->row < b->row);
}

static bool merge_last_runs(bw_numbers *s)
{
    bw_numbers_run *a = &s->runs[s->nruns - 2], *b = a + 1;
    bw_numbers_item *items = bw_alloc((a->n + b->n) * sizeof *items);
    if (!items)
        return false;
    size_t i = 0, j = 0, n = 0;
    while (i < a->n || j < b->n) {
        bool first =
            j == b->n || (i < a->n && num_cmp(&a->items[i], &b->items[j]) <= 0);
        items[n++] = first ? a->items[i++] : b->items[j++];
    }
    bw_free(a->items);
    bw_free(b->items);
    *a = (bw_numbers_run){items, n};
    s->nruns--;
    return true;
}

static bool tail_to_run(bw_numbers *s)
{
    /* Sizes at least double: 256 · 2^40 rows do not exist. */
    assert(s->nruns < BW_NUMBERS_RUNS_MAX);
    s->runs[s->nruns++] = (bw_numbers_run){s->tail, s->ntail};
    s->tail = NULL;
    s->ntail = s->tail_cap = 0;
    while (s->nruns > 1 && s->runs[s->nruns - 2].n < 2 * s->runs[s->nruns - 1].n) {
        if (!merge_last_runs(s))
            return false;
    }
    return true;
}

bool bw_numbers_add(bw_numbers *s, const bw_number *v, uint32_t row)
{
    if (s->ntail == BW_NUMBERS_TAIL_MAX && !tail_to_run(s))
        return false;
    if (s->ntail == s->tail_cap) {
        size_t cap = s->tail_cap ? 2 * s->tail_cap : 4;
        bw_numbers_item *grown = bw_realloc(s->tail, cap * sizeof *grown);
        if (!grown)
            return false;
        s->tail = grown;
        s->tail_cap = cap;
    }
    bw_numbers_item x = num_make(v, row);
    size_t lo = 0, hi = s->ntail;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (num_cmp(&s->tail[mid], &x) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(&s->tail[lo + 1], &s->tail[lo], (s->ntail - lo) * sizeof x);
    s->tail[lo] = x;
    s->ntail++;
    return true;
}

/* First item that is not below the range's lower bound. */
static size_t run_begin(const bw_numbers_item *items, size_t n, const bw_range *r)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        bw_number v = num_value(&items[mid]);
        bool below = (r->has_gt && bw_number_cmp(&v, &r->gt) <= 0) ||
                     (r->has_gte && bw_number_cmp(&v, &r->gte) < 0);
        if (below)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void run_range(const bw_numbers_item *items, size_t n, const bw_range *r,
                      bool ints_only, bw_bitmap *out)
{
    for (size_t i = run_begin(items, n, r); i < n; i++) {
        bw_number v = num_value(&items[i]);
        if (!bw_range_has(r, &v))
            return;
        if (items[i].row < out->nbits && (v.is_int || !ints_only))
            bw_bitmap_set(out, items[i].row);
    }
}

void bw_numbers_or(const bw_numbers *s, const bw_range *r, bool ints_only, bw_bitmap *out)
{
    for (size_t i = 0; i < s->nruns; i++)
        run_range(s->runs[i].items, s->runs[i].n, r, ints_only, out);
    run_range(s->tail, s->ntail, r, ints_only, out);
}

size_t bw_numbers_count(const bw_numbers *s)
{
    size_t n = s->ntail;
    for (size_t i = 0; i < s->nruns; i++)
        n += s->runs[i].n;
    return n;
}

static void walk_run(const bw_numbers_item *items, size_t n, bool falling,
                     bw_index_number_fn fn, void *arg)
{
    for (size_t i = 0; i < n; i++) {
        const bw_numbers_item *x = &items[falling ? n - 1 - i : i];
        bw_number v = num_value(x);
        if (!fn(arg, &v, x->row))
            return;
    }
}

void bw_numbers_walk(const bw_numbers *s, bool falling, bw_index_number_fn fn, void *arg)
{
    for (size_t i = 0; i < s->nruns; i++)
        walk_run(s->runs[i].items, s->runs[i].n, falling, fn, arg);
    walk_run(s->tail, s->ntail, falling, fn, arg);
}
