/* Facets: how many points hold each value of an indexed field.
 *
 * The values are those of the index's kind (keyword and uuid: strings, integer:
 * integers, bool: booleans); a point counts once for each distinct value. They come
 * from the index's postings when many rows are asked for, else (and for integers, whose
 * index does not keep a row's equal values together) from the payloads of those rows.
 */
#include "../base/map.h"
#include "../partition/payload_index.h"
#include "result.h"
#include <stdlib.h>

typedef struct tally {
    bw_ctx *ctx;
    bw_str key;
    bw_value_kind kind;
    bw_path path;
    bw_map *map; /* value bytes -> place */
    bw_facet_hit *hits;
    uint64_t *last; /* number of the row that counted last */
    size_t n, cap;
    uint64_t row;
    bw_buf scratch;
    bw_status status;
} tally;

static bool kind_of_index(const bw_index_spec *spec, bw_value_kind *kind)
{
    if (!spec)
        return false;
    if (bw_str_is(spec->type, "keyword") || bw_str_is(spec->type, "uuid"))
        *kind = BW_VALUE_STRING;
    else if (bw_str_is(spec->type, "integer"))
        *kind = BW_VALUE_INT;
    else if (bw_str_is(spec->type, "bool"))
        *kind = BW_VALUE_BOOL;
    else
        return false;
    return true;
}

static uint64_t *tally_slot(tally *t, const bw_value *v, bool *fresh)
{
    unsigned char number[9] = {v->negative};
    uint64_t mag = v->kind == BW_VALUE_BOOL ? v->boolean : v->mag;
    if (v->kind == BW_VALUE_STRING)
        return bw_map_put(t->map, v->str.ptr, v->str.len, fresh);
    memcpy(number + 1, &mag, sizeof mag);
    return bw_map_put(t->map, number, sizeof number, fresh);
}

static bw_status tally_grow(tally *t)
{
    size_t cap = t->cap ? 2 * t->cap : 64;
    t->hits =
        bw_arena_grow(t->ctx, t->hits, t->cap * sizeof *t->hits, cap * sizeof *t->hits);
    t->last =
        bw_arena_grow(t->ctx, t->last, t->cap * sizeof *t->last, cap * sizeof *t->last);
    t->cap = cap;
    return t->hits && t->last ? BW_OK : BW_ENOMEM;
}

/* The value's place among the hits, made if it is new; NULL: no memory. */
static uint64_t *tally_place(tally *t, bw_value *v)
{
    bool fresh = false;
    uint64_t *slot = tally_slot(t, v, &fresh);
    if (!slot || !fresh)
        return slot;
    if (t->n == t->cap && tally_grow(t) != BW_OK)
        return NULL;
    if (v->kind == BW_VALUE_STRING && bw_arena_str(t->ctx, v->str, &v->str) != BW_OK)
        return NULL;
    t->hits[t->n] = (bw_facet_hit){*v, 0};
    t->last[t->n] = 0;
    *slot = t->n++;
    return slot;
}

static bw_status tally_scalar(tally *t, bw_str raw)
{
    bw_value v;
    if (!bw_raw_value(raw, &t->scratch, &v) || v.kind != t->kind)
        return t->scratch.failed ? bw_fail_nomem(t->ctx) : BW_OK;
    uint64_t *slot = tally_place(t, &v);
    if (!slot)
        return bw_fail_nomem(t->ctx);
    if (t->last[*slot] != t->row) {
        t->last[*slot] = t->row;
        t->hits[*slot].count++;
    }
    return BW_OK;
}

static bool tally_value(void *arg, bw_str raw)
{
    tally *t = arg;
    bw_str rest, e;
    if (!bw_raw_array_begin(raw, &rest)) {
        t->status = tally_scalar(t, raw);
    } else {
        while (t->status == BW_OK && bw_raw_array_next(&rest, &e))
            t->status = tally_scalar(t, e);
    }
    return t->status == BW_OK;
}

static bool tally_posting(void *arg, const bw_value *value, uint64_t count)
{
    tally *t = arg;
    bw_value v = *value;
    uint64_t *slot = tally_place(t, &v);
    if (!slot)
        t->status = bw_fail_nomem(t->ctx);
    else
        t->hits[*slot].count += count;
    return slot != NULL;
}

/* Whether the index's values were counted: it walks, and has not many more values than
 * there are rows to read. */
static bool tally_index(tally *t, const bw_snapshot *s, bw_str key,
                        const bw_bitmap *rows)
{
    bool done = false;
    bw_snapshot_index_rdlock(s);
    const bw_payload_index *ix = bw_snapshot_payload_index(s, key);
    if (ix && bw_payload_index_walks(ix, t->kind) &&
        bw_payload_index_values(ix) / 4 <= bw_bitmap_count(rows)) {
        bw_payload_index_walk(ix, rows, tally_posting, t);
        done = true;
    }
    bw_snapshot_index_unlock(s);
    return done;
}

static bw_status tally_part(tally *t, bw_plan *p, bw_scope *scope, size_t part)
{
    const bw_bitmap *rows;
    bool any;
    bw_status st = bw_scope_rows(p, scope, part, true, &rows, &any);
    if (st != BW_OK || !any)
        return st;
    if (tally_index(t, p->view->parts[part], t->key, rows))
        return t->status != BW_OK ? t->status : bw_ctx_check(t->ctx);
    for (size_t r = bw_bitmap_next(rows, 0); r < rows->nbits;
         r = bw_bitmap_next(rows, r + 1)) {
        bw_row row;
        bw_snapshot_row(p->view->parts[part], (uint32_t)r, &row);
        t->row++;
        if (row.payload.len > 0)
            bw_path_each(&t->path, row.payload, tally_value, t);
        if (t->status != BW_OK)
            return t->status;
        if (t->row % BW_PLAN_CHECK_ROWS == 0 && (st = bw_ctx_check(t->ctx)) != BW_OK)
            return st;
    }
    return bw_ctx_check(t->ctx);
}

static int cmp_hit(const void *a, const void *b)
{
    const bw_facet_hit *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return bw_value_cmp(&x->value, &y->value);
}

static bw_status run_facet(bw_result *r, bw_str key, const bw_filter *filter, tally *t)
{
    bw_plan *p = &r->plan;
    bw_scope scope;
    if (!kind_of_index(bw_plan_index(&r->view, key), &t->kind))
        return bw_fail(p->ctx, BW_EINVALID,
                       "No appropriate index for faceting: `%.*s`. Please create one "
                       "to facet on this field.",
                       (int)(key.len < 100 ? key.len : 100), key.ptr ? key.ptr : "");
    t->key = key;
    t->map = bw_map_new();
    if (!t->map)
        return bw_fail_nomem(p->ctx);
    bw_status st = bw_path_parse(p->ctx, key, &t->path);
    if (st == BW_OK)
        st = bw_scope_init(p, &scope, &filter, 1, NULL);
    else
        return st;
    for (size_t i = 0; st == BW_OK && i < p->view->nparts; i++)
        st = tally_part(t, p, &scope, i);
    bw_scope_clear(&scope);
    return st;
}

bw_status bw_facet(bw_ctx *ctx, bw_engine *engine, const bw_read *read, bw_str key,
                   const bw_filter *filter, uint32_t limit, const bw_facet_hit **out,
                   size_t *n)
{
    bw_result *r, *done = NULL;
    tally t = {.ctx = ctx};
    bw_status st = bw_result_open(ctx, engine, read, 1, &r);
    if (st != BW_OK)
        return st;
    st = run_facet(r, key, filter, &t);
    bw_map_free(t.map);
    bw_buf_clear(&t.scratch);
    st = bw_result_close(r, st, &done);
    bw_result_free(done);
    if (st != BW_OK)
        return st;
    if (t.n > 1)
        qsort(t.hits, t.n, sizeof *t.hits, cmp_hit);
    *out = t.hits;
    *n = t.n < limit ? t.n : limit;
    return BW_OK;
}
