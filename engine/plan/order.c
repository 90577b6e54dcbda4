/* Points in an order that is not a score's: by id (no query, scroll) and by a payload
 * value (order_by).
 *
 * By id: a heap merges the partitions' id lists; a page costs its own length, not the
 * collection's, because conditions that no index answers are asked row by row only as
 * far as the page reaches. Copies of an id follow each other, lowest class first.
 *
 * By value (as Qdrant's engine does it): every value of the field is an entry, so a
 * point with several values comes several times; an integer index holds whole numbers
 * only (42.0 is 42), a date's order value is in microseconds. Equal values come in id
 * order. */
#include "../partition/payload_index.h"
#include "explain.h"
#include "plan.h"
#include <math.h>

/* ---- by id ---- */

typedef struct cursor {
    const uint32_t *rows; /* live rows by id */
    size_t at, n;
    uint32_t part;
    const bw_bitmap *visible;
    bw_bitmap candidates; /* what indexes leave; only with a filter */
    bool exact;           /* … and that needs no reading */
} cursor;

typedef struct id_walk {
    bw_plan *p;
    bw_scope *scope;
    cursor **heap;
    size_t n;
    bool has_last;
    bw_point_id last; /* the last visible id: its other copies are hidden */
    uint64_t read;
} id_walk;

static const bw_point_id *cursor_id(const id_walk *w, const cursor *c)
{
    return bw_snapshot_id(w->p->view->parts[c->part], c->rows[c->at]);
}

static bool cursor_before(const id_walk *w, const cursor *a, const cursor *b)
{
    int c = bw_point_id_cmp(cursor_id(w, a), cursor_id(w, b));
    return c != 0 ? c < 0 : a->part < b->part;
}

static void sift_down(id_walk *w, size_t i)
{
    cursor *moving = w->heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->n)
            break;
        if (child + 1 < w->n && cursor_before(w, w->heap[child + 1], w->heap[child]))
            child++;
        if (!cursor_before(w, w->heap[child], moving))
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = moving;
}

static size_t seek_id(const id_walk *w, const cursor *c, const bw_point_id *from)
{
    const bw_snapshot *s = w->p->view->parts[c->part];
    size_t lo = 0, hi = c->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (bw_point_id_cmp(bw_snapshot_id(s, c->rows[mid]), from) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bw_status open_cursor(id_walk *w, size_t part, const bw_point_id *from,
                             cursor *c)
{
    bw_plan *p = w->p;
    const bw_snapshot *s = p->view->parts[part];
    *c = (cursor){.part = (uint32_t)part, .exact = true};
    bw_status st = bw_plan_visible(p, part, &c->visible);
    if (st == BW_OK)
        st = bw_snapshot_by_id(p->ctx, s, &c->rows, &c->n);
    if (st != BW_OK)
        return st;
    c->at = from ? seek_id(w, c, from) : 0;
    if (c->at < c->n && w->scope->filtered) {
        st = bw_bitmap_arena(p->ctx, c->visible->nbits, &c->candidates);
        if (st == BW_OK)
            st = bw_select_narrow(&w->scope->matcher, s, &p->view->info, c->visible,
                                  &c->candidates, &c->exact);
    }
    return st == BW_OK ? bw_ctx_check(p->ctx) : st;
}

static bw_status open_cursors(id_walk *w, const bw_point_id *from)
{
    size_t parts = w->p->view->nparts;
    cursor *all = bw_arena_alloc(w->p->ctx, parts * sizeof *all);
    w->heap = bw_arena_alloc(w->p->ctx, parts * sizeof *w->heap);
    if (!all || !w->heap)
        return BW_ENOMEM;
    for (size_t i = 0; i < parts; i++) {
        bw_status st = open_cursor(w, i, from, &all[i]);
        if (st != BW_OK)
            return st;
        if (all[i].at < all[i].n)
            w->heap[w->n++] = &all[i];
    }
    for (size_t i = w->n / 2; i-- > 0;)
        sift_down(w, i);
    w->scope->matcher.ask_all = true; /* rows of many partitions come mixed */
    return BW_OK;
}

/* Whether the row under the first cursor belongs to the answer. */
static bool walk_takes(id_walk *w, const cursor *c, const bw_point_id *id)
{
    const bw_snapshot *s = w->p->view->parts[c->part];
    uint32_t r = c->rows[c->at];
    if (!bw_bitmap_get(c->visible, r))
        return false;
    if (!w->p->all_copies && w->has_last && bw_point_id_cmp(&w->last, id) == 0)
        return false;
    w->last = *id;
    w->has_last = true;
    if (!w->scope->filtered)
        return true;
    if (!bw_bitmap_get(&c->candidates, r))
        return false;
    if (c->exact)
        return true;
    bw_row row;
    bw_snapshot_row(s, r, &row);
    bw_subject subject = {&row.id, row.payload, s, r, NULL, 0};
    w->read++;
    return bw_matcher_test(&w->scope->matcher, &subject);
}

static void walk_next(id_walk *w)
{
    cursor *c = w->heap[0];
    if (++c->at == c->n)
        w->heap[0] = w->heap[--w->n];
    if (w->n > 0)
        sift_down(w, 0);
}

/* Grows the arena array by doubling, so that k may be huge where the data is small. */
static bw_status push_item(bw_plan *p, bw_list *l, size_t *cap, const bw_scored *item)
{
    if (l->n == *cap) {
        size_t bytes = *cap * sizeof *l->items,
               more = *cap ? 2 * bytes : 64 * sizeof *l->items;
        bw_scored *grown = bw_arena_grow(p->ctx, l->items, bytes, more);
        if (!grown)
            return BW_ENOMEM;
        l->items = grown;
        *cap = more / sizeof *l->items;
    }
    l->items[l->n++] = *item;
    return BW_OK;
}

bw_status bw_walk_ids(bw_plan *p, bw_scope *scope, const bw_point_id *from, size_t k,
                      bw_list *out)
{
    id_walk w = {.p = p, .scope = scope};
    size_t cap = 0;
    uint64_t steps = 0;
    *out = (bw_list){NULL, 0, false};
    bw_status st = bw_explain_begin(p, "ids", &scope->trace);
    if (st == BW_OK)
        st = open_cursors(&w, from);
    for (; st == BW_OK && w.n > 0 && out->n < k; walk_next(&w)) {
        const cursor *c = w.heap[0];
        const bw_point_id *id = cursor_id(&w, c);
        if (walk_takes(&w, c, id)) {
            bw_scored item = {.key = 1,
                              .score = 1,
                              .part = c->part,
                              .row = c->rows[c->at],
                              .id = *id};
            st = push_item(p, out, &cap, &item);
        }
        if (st == BW_OK && ++steps % BW_PLAN_CHECK_ROWS == 0)
            st = bw_ctx_check(p->ctx);
    }
    if (st == BW_OK)
        st = bw_matcher_status(&scope->matcher);
    if (scope->trace)
        bw_explain_walk(scope->trace, p->view->nparts, w.read, steps);
    return st;
}

bw_status bw_leaf_ids(bw_plan *p, const bw_leaf *leaf, bw_list *out)
{
    return bw_walk_ids(p, leaf->scope, NULL, leaf->k, out);
}

/* ---- by value ---- */

typedef enum order_type { ORDER_INTEGER, ORDER_FLOAT, ORDER_DATE } order_type;

typedef struct ordering {
    bw_plan *p;
    const bw_order_by *by;
    order_type type;
    bw_path path;
    bw_scored *heap; /* worst first, at most k */
    size_t n, k, cap;
    bw_scored item; /* the row being read */
    bw_buf scratch;
    bw_status status;
} ordering;

/* Seconds are what a date's neighbours differ in: the value is cut to microseconds. */
static bw_number date_value(int64_t ns)
{
    int64_t us = ns / 1000 - (ns % 1000 < 0);
    return (bw_number){true, us < 0, us < 0 ? 0 - (uint64_t)us : (uint64_t)us,
                       (double)us};
}

/* A number of the field as an order value; false: the index's type does not hold it. */
static bool order_number(const ordering *o, bw_number *v)
{
    if (o->type == ORDER_FLOAT || v->is_int)
        return true;
    double d = v->real;
    if (d != floor(d) || fabs(d) >= 9007199254740992.0)
        return false;
    *v = (bw_number){true, d < 0, (uint64_t)fabs(d), d};
    return true;
}

static bool order_value(ordering *o, bw_str raw, bw_number *out)
{
    bw_str s;
    int64_t ns;
    if (o->type != ORDER_DATE)
        return bw_raw_number(raw, out) && order_number(o, out);
    if (!bw_raw_string(raw, &o->scratch, &s) || !bw_payload_time(s, &ns))
        return false;
    *out = date_value(ns);
    return true;
}

static bool order_before(const ordering *o, const bw_scored *a, const bw_scored *b)
{
    int c = bw_number_cmp(&a->order, &b->order);
    if (c != 0)
        return o->by->descending ? c > 0 : c < 0;
    c = bw_point_id_cmp(&a->id, &b->id);
    return c != 0 ? c < 0 : a->part < b->part;
}

static bool order_started(const ordering *o, const bw_number *v)
{
    if (!o->by->has_start_from)
        return true;
    bw_number from = o->by->start_from;
    if (o->by->start_is_date)
        from = date_value(from.negative ? (int64_t)(0 - from.mag) : (int64_t)from.mag);
    int c = bw_number_cmp(v, &from);
    return o->by->descending ? c <= 0 : c >= 0;
}

static void order_sift_up(ordering *o, size_t i)
{
    while (i > 0 && order_before(o, &o->heap[(i - 1) / 2], &o->heap[i])) {
        bw_scored t = o->heap[i];
        o->heap[i] = o->heap[(i - 1) / 2];
        o->heap[(i - 1) / 2] = t;
        i = (i - 1) / 2;
    }
}

static void order_sift_down(ordering *o, size_t n)
{
    bw_scored moving = o->heap[0];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && order_before(o, &o->heap[child], &o->heap[child + 1]))
            child++;
        if (!order_before(o, &moving, &o->heap[child]))
            break;
        o->heap[i] = o->heap[child];
        i = child;
    }
    o->heap[i] = moving;
}

static void order_push(ordering *o)
{
    if (o->n == o->k) {
        if (o->k > 0 && order_before(o, &o->item, &o->heap[0])) {
            o->heap[0] = o->item;
            order_sift_down(o, o->n);
        }
        return;
    }
    bw_list l = {o->heap, o->n, false};
    o->status = push_item(o->p, &l, &o->cap, &o->item);
    o->heap = l.items;
    o->n = l.n;
    if (o->status == BW_OK)
        order_sift_up(o, o->n - 1);
}

static void order_scalar(ordering *o, bw_str raw)
{
    if (order_value(o, raw, &o->item.order) && order_started(o, &o->item.order))
        order_push(o);
}

static bool order_visit(void *arg, bw_str raw)
{
    ordering *o = arg;
    bw_str rest, e;
    if (!bw_raw_array_begin(raw, &rest)) {
        order_scalar(o, raw);
    } else {
        while (bw_raw_array_next(&rest, &e))
            order_scalar(o, e);
    }
    return o->status == BW_OK;
}

/* ---- by value, from the index ---- */

typedef struct order_walk {
    ordering *o;
    const bw_snapshot *s;
    const bw_bitmap *rows;
    size_t part;
    uint64_t steps;
} order_walk;

/* Leaves a run once it is worse than all that is kept. Between dates of one microsecond
 * and before start_from it just goes on. */
static bool order_entry(void *arg, const bw_number *value, uint32_t row)
{
    order_walk *w = arg;
    ordering *o = w->o;
    bw_number v = *value;
    if (++w->steps % BW_PLAN_CHECK_ROWS == 0)
        o->status = bw_ctx_check(o->p->ctx);
    if (o->type == ORDER_DATE)
        v = date_value(v.negative ? (int64_t)(0 - v.mag) : (int64_t)v.mag);
    else if (!order_number(o, &v))
        return o->status == BW_OK;
    if (o->n == o->k) {
        int c = o->k ? bw_number_cmp(&v, &o->heap[0].order) : 0;
        if (o->k == 0 || (o->by->descending ? c < 0 : c > 0))
            return false;
    }
    if (bw_bitmap_get(w->rows, row) && order_started(o, &v)) {
        o->item = (bw_scored){.key = 1,
                              .score = 1,
                              .part = (uint32_t)w->part,
                              .row = row,
                              .id = *bw_snapshot_id(w->s, row),
                              .has_order = true,
                              .order = v};
        order_push(o);
    }
    return o->status == BW_OK;
}

/* Whether the index gave the partition's entries: it must sort them, and not have many
 * more than there are rows to read. */
static bool order_index(ordering *o, order_walk *w)
{
    bool done = false;
    bw_snapshot_index_rdlock(w->s);
    const bw_payload_index *ix = bw_snapshot_payload_index(w->s, o->by->key);
    size_t n = ix ? bw_payload_index_sorted(ix, o->type == ORDER_DATE) : 0;
    if (n > 0 && n / 16 <= bw_bitmap_count(w->rows)) {
        bw_payload_index_walk_sorted(ix, o->by->descending, order_entry, w);
        done = true;
    }
    bw_snapshot_index_unlock(w->s);
    return done;
}

static bw_status order_part(ordering *o, bw_scope *scope, size_t part)
{
    const bw_bitmap *rows;
    const bw_snapshot *s = o->p->view->parts[part];
    bool any;
    bw_status st = bw_scope_rows(o->p, scope, part, true, &rows, &any);
    if (st != BW_OK || !any)
        return st;
    bw_search_trace trace = {0};
    order_walk walk = {o, s, rows, part, 0};
    if (order_index(o, &walk)) { /* its steps depend on rows long dead: not told */
        bw_explain_search_done(scope->trace, part, &trace);
        return o->status != BW_OK ? o->status : bw_ctx_check(o->p->ctx);
    }
    for (size_t r = bw_bitmap_next(rows, 0); r < rows->nbits;
         r = bw_bitmap_next(rows, r + 1)) {
        bw_row row;
        bw_snapshot_row(s, (uint32_t)r, &row);
        o->item = (bw_scored){.key = 1,
                              .score = 1,
                              .part = (uint32_t)part,
                              .row = (uint32_t)r,
                              .id = row.id,
                              .has_order = true};
        if (row.payload.len > 0)
            bw_path_each(&o->path, row.payload, order_visit, o);
        if (o->status != BW_OK)
            return o->status;
        if (++trace.rows_scanned % BW_PLAN_CHECK_ROWS == 0 &&
            (st = bw_ctx_check(o->p->ctx)) != BW_OK)
            return st;
    }
    bw_explain_search_done(scope->trace, part, &trace);
    return bw_ctx_check(o->p->ctx);
}

static bw_status order_type_of(bw_plan *p, bw_str key, order_type *out)
{
    const bw_index_spec *spec = bw_plan_index(p->view, key);
    if (spec && bw_str_is(spec->type, "integer"))
        *out = ORDER_INTEGER;
    else if (spec && bw_str_is(spec->type, "float"))
        *out = ORDER_FLOAT;
    else if (spec && bw_str_is(spec->type, "datetime"))
        *out = ORDER_DATE;
    else
        return bw_fail(p->ctx, BW_EINVALID,
                       "No range index for `order_by` key: `%.*s`. Please create one "
                       "to use `order_by`.",
                       (int)(key.len < 100 ? key.len : 100), key.ptr ? key.ptr : "");
    return BW_OK;
}

bw_status bw_leaf_order(bw_plan *p, const bw_leaf *leaf, bw_list *out)
{
    const bw_order_by *by = &leaf->query->order_by;
    ordering o = {.p = p, .by = by, .k = leaf->k};
    bw_status st = order_type_of(p, by->key, &o.type);
    if (st == BW_OK)
        st = bw_path_parse(p->ctx, by->key, &o.path);
    if (st == BW_OK)
        st = bw_explain_begin(p, "order_by", &leaf->scope->trace);
    for (size_t i = 0; st == BW_OK && i < p->view->nparts; i++)
        st = order_part(&o, leaf->scope, i);
    if (st == BW_OK && o.scratch.failed)
        st = bw_fail_nomem(p->ctx);
    bw_buf_clear(&o.scratch);
    for (size_t n = o.n; st == BW_OK && n > 1;
         n--) { /* heap sort: the worst goes last */
        bw_scored worst = o.heap[0];
        o.heap[0] = o.heap[n - 1];
        o.heap[n - 1] = worst;
        order_sift_down(&o, n - 1);
    }
    *out = (bw_list){o.heap, o.n, false};
    return st;
}
