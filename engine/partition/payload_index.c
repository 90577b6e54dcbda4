/* Payload indexes (payload_index.h). One rule above all: an index never changes what a
 * filter matches. So besides the values of its type an index knows, for every row, what
 * it does not hold: rows with values of another kind, rows with several values, nulls.
 * A question that these cannot settle is answered with a superset, and the planner
 * reads those payloads.
 *
 *   keyword, uuid   string -> rows. A uuid is matched as text, as it is without index
 *   integer, float  all numbers of the field, sorted by exact value (both kinds hold
 *                   both: 41.5 is in the range 41 … 42 whatever the index is called)
 *   datetime        strings that are dates, sorted by instant
 *   bool            two sets
 *   text            word -> rows
 *   geo             nothing yet but the presence sets
 *
 * Sorted kinds keep their values in payload_numbers.h. Left out: values_count and nested
 * (always read), removal (dead rows are masked by the reader).
 */
#include "payload_index.h"
#include "../base/map.h"
#include "payload.h"
#include "payload_numbers.h"
#include <roaring/roaring.h>

typedef enum index_kind {
    KIND_STRING,
    KIND_NUMBER,
    KIND_DATE,
    KIND_BOOL,
    KIND_TEXT,
    KIND_GEO
} index_kind;

enum { LOOKUP_WORDS_MAX = 4096 };

struct bw_payload_index {
    /* what is indexed */
    index_kind kind;
    bw_str field; /* own copy; the steps' keys point into it */
    bw_path path; /* own steps */
    /* presence */
    roaring_bitmap_t *nonempty; /* a value that is neither null nor [] */
    roaring_bitmap_t *isnull;   /* null, or an array that holds one */
    roaring_bitmap_t *nonnull;  /* a scalar or element that is not null */
    roaring_bitmap_t *other;    /* one that the index's kind does not hold */
    roaring_bitmap_t *multi;    /* more than one non-null scalar or element */
    /* values */
    bw_map *strings;            /* STRING, TEXT: posting of each string or word */
    roaring_bitmap_t *bools[2]; /* BOOL */
    bw_numbers numbers;         /* NUMBER, DATE */
    /* scratch of the writer */
    bw_buf scratch;
};

/* ---- life ---- */

static bool kind_of(bw_str type, index_kind *out)
{
    static const struct {
        const char *name;
        index_kind kind;
    } kinds[] = {{"keyword", KIND_STRING}, {"uuid", KIND_STRING},
                 {"integer", KIND_NUMBER}, {"float", KIND_NUMBER},
                 {"bool", KIND_BOOL},      {"geo", KIND_GEO},
                 {"datetime", KIND_DATE},  {"text", KIND_TEXT}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (bw_str_eq(type, bw_str_c(kinds[i].name))) {
            *out = kinds[i].kind;
            return true;
        }
    }
    return false;
}

static bw_status own_path(bw_ctx *ctx, bw_payload_index *ix)
{
    bw_step steps[BW_PATH_STEPS_MAX];
    if (!bw_path_read(ix->field, steps, &ix->path.n))
        return bw_fail(ctx, BW_EINVALID, "Invalid payload path");
    bw_step *own = bw_alloc(ix->path.n * sizeof *own);
    if (!own)
        return bw_fail_nomem(ctx);
    memcpy(own, steps, ix->path.n * sizeof *own);
    ix->path.steps = own;
    return BW_OK;
}

bw_status bw_payload_index_new(bw_ctx *ctx, const bw_index_spec *spec,
                               bw_payload_index **out)
{
    index_kind kind;
    if (!kind_of(spec->type, &kind))
        return bw_fail(ctx, BW_EINVALID, "Unknown payload index type");
    bw_payload_index *ix = bw_calloc(1, sizeof *ix);
    if (!ix)
        return bw_fail_nomem(ctx);
    ix->kind = kind;
    char *field = bw_alloc(spec->field.len);
    if (field && spec->field.len > 0)
        memcpy(field, spec->field.ptr, spec->field.len);
    ix->field = (bw_str){field, spec->field.len};
    roaring_bitmap_t **sets[] = {&ix->nonempty, &ix->isnull,   &ix->nonnull, &ix->other,
                                 &ix->multi,    &ix->bools[0], &ix->bools[1]};
    bool ok = field != NULL;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        ok = (*sets[i] = roaring_bitmap_create()) && ok;
    ok = (ix->strings = bw_map_new()) && ok;
    if (!ok) {
        bw_payload_index_free(ix);
        return bw_fail_nomem(ctx);
    }
    bw_status st = own_path(ctx, ix);
    if (st != BW_OK)
        bw_payload_index_free(ix);
    else
        *out = ix;
    return st;
}

static roaring_bitmap_t *posting_set(uint64_t slot)
{
    return (roaring_bitmap_t *)(uintptr_t)slot;
}

void bw_payload_index_free(bw_payload_index *ix)
{
    if (!ix)
        return;
    if (ix->strings) {
        bw_str key;
        uint64_t *slot;
        for (size_t it = 0; bw_map_next(ix->strings, &it, &key, &slot);) {
            if (*slot != 0 && (*slot & 1) == 0)
                roaring_bitmap_free(posting_set(*slot));
        }
        bw_map_free(ix->strings);
    }
    roaring_bitmap_t *sets[] = {ix->nonempty, ix->isnull,   ix->nonnull, ix->other,
                                ix->multi,    ix->bools[0], ix->bools[1]};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (sets[i])
            roaring_bitmap_free(sets[i]);
    }
    bw_numbers_clear(&ix->numbers);
    bw_buf_clear(&ix->scratch);
    bw_free((void *)(uintptr_t)ix->path.steps);
    bw_free((void *)(uintptr_t)ix->field.ptr);
    bw_free(ix);
}

bw_str bw_payload_index_field(const bw_payload_index *ix)
{
    return ix->field;
}

static size_t set_bytes(const roaring_bitmap_t *set)
{
    return sizeof *set + roaring_bitmap_frozen_size_in_bytes(set);
}

size_t bw_payload_index_bytes(const bw_payload_index *ix)
{
    const roaring_bitmap_t *sets[] = {ix->nonempty, ix->isnull,   ix->nonnull, ix->other,
                                      ix->multi,    ix->bools[0], ix->bools[1]};
    size_t n = sizeof *ix + ix->field.len + ix->path.n * sizeof *ix->path.steps +
               bw_map_bytes(ix->strings) + bw_numbers_bytes(&ix->numbers);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        n += set_bytes(sets[i]);
    bw_str key;
    uint64_t *slot;
    for (size_t it = 0; bw_map_next(ix->strings, &it, &key, &slot);)
        if (*slot != 0 && (*slot & 1) == 0)
            n += set_bytes(posting_set(*slot));
    return n;
}

/* ---- postings: most values of an id-like field have one row, which needs no set ----
 */

static bool posting_add(uint64_t *slot, bool fresh, uint32_t row)
{
    if (fresh) {
        *slot = (uint64_t)row << 1 | 1;
        return true;
    }
    if (*slot & 1) {
        uint32_t first = (uint32_t)(*slot >> 1);
        if (first == row)
            return true;
        roaring_bitmap_t *set = roaring_bitmap_create();
        if (!set)
            return false;
        assert(((uintptr_t)set & 1) == 0);
        roaring_bitmap_add(set, first);
        *slot = (uint64_t)(uintptr_t)set;
    }
    roaring_bitmap_add(posting_set(*slot), row);
    return true;
}

static bool set_bit(uint32_t row, void *arg)
{
    bw_bitmap *out = arg;
    if (row >= out->nbits)
        return false; /* rising order: all the rest is beyond the snapshot too */
    bw_bitmap_set(out, row);
    return true;
}

static void set_or(const roaring_bitmap_t *set, bw_bitmap *out)
{
    roaring_iterate(set, set_bit, out);
}

static void posting_or(uint64_t slot, bw_bitmap *out)
{
    if (slot & 1)
        set_bit((uint32_t)(slot >> 1), out);
    else
        set_or(posting_set(slot), out);
}

/* ---- adding ---- */

typedef struct adding {
    bw_payload_index *ix;
    uint32_t row;
    uint32_t nonnull;
    bool ok;
} adding;

static bool add_string(adding *a, bw_str s)
{
    bool fresh = false;
    uint64_t *slot = bw_map_put(a->ix->strings, s.ptr, s.len, &fresh);
    a->ok = slot && posting_add(slot, fresh, a->row) && a->ok;
    return a->ok;
}

static bool add_word(void *arg, bw_str word)
{
    return add_string(arg, word);
}

/* Whether the kind holds the scalar (and now has it). */
static bool add_typed(adding *a, bw_str raw)
{
    bw_payload_index *ix = a->ix;
    bw_str s;
    bw_number v;
    int64_t ns;
    switch (ix->kind) {
    case KIND_STRING:
        return bw_raw_string(raw, &ix->scratch, &s) && (add_string(a, s), true);
    case KIND_TEXT:
        return bw_raw_string(raw, &ix->scratch, &s) &&
               (bw_words_each(s, add_word, a), true);
    case KIND_NUMBER:
        if (!bw_raw_number(raw, &v))
            return false;
        a->ok = bw_numbers_add(&ix->numbers, &v, a->row) && a->ok;
        return true;
    case KIND_DATE:
        if (!bw_raw_string(raw, &ix->scratch, &s) || !bw_payload_time(s, &ns))
            return false;
        v = (bw_number){true, ns < 0, ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns,
                        (double)ns};
        a->ok = bw_numbers_add(&ix->numbers, &v, a->row) && a->ok;
        return true;
    case KIND_BOOL:
        if (!bw_raw_is_bool(raw))
            return false;
        roaring_bitmap_add(ix->bools[raw.ptr[0] == 't'], a->row);
        return true;
    case KIND_GEO:
        break;
    }
    return false;
}

static void add_scalar(adding *a, bw_str raw)
{
    if (bw_raw_is_null(raw)) {
        roaring_bitmap_add(a->ix->isnull, a->row);
        return;
    }
    a->nonnull++;
    if (!add_typed(a, raw))
        roaring_bitmap_add(a->ix->other, a->row);
}

static bool add_value(void *arg, bw_str raw)
{
    adding *a = arg;
    bw_str rest, e;
    bool empty = bw_raw_is_null(raw);
    if (bw_raw_array_begin(raw, &rest)) {
        empty = true;
        for (; bw_raw_array_next(&rest, &e); empty = false)
            add_scalar(a, e);
    } else {
        add_scalar(a, raw);
    }
    if (!empty)
        roaring_bitmap_add(a->ix->nonempty, a->row);
    return a->ok;
}

bw_status bw_payload_index_add(bw_ctx *ctx, bw_payload_index *ix, uint32_t row,
                               bw_str payload)
{
    adding a = {ix, row, 0, true};
    if (ix->scratch.failed) /* of a write that lacked memory: that one was refused */
        bw_buf_clear(&ix->scratch);
    if (payload.len > 0)
        bw_path_each(&ix->path, payload, add_value, &a);
    if (a.nonnull > 0)
        roaring_bitmap_add(ix->nonnull, row);
    if (a.nonnull > 1)
        roaring_bitmap_add(ix->multi, row);
    return a.ok && !ix->scratch.failed ? BW_OK : bw_fail_nomem(ctx);
}

/* ---- looking up ---- */

static void complement(bw_bitmap *b)
{
    for (size_t w = 0; w < bw_bitmap_words(b->nbits); w++)
        b->words[w] = ~b->words[w];
    if (b->nbits % 64)
        b->words[b->nbits / 64] &= ((uint64_t)1 << b->nbits % 64) - 1;
}

static bool meets(const roaring_bitmap_t *set, const bw_bitmap *b)
{
    roaring_uint32_iterator_t it;
    roaring_init_iterator(set, &it);
    for (; it.has_value && it.current_value < b->nbits;
         roaring_advance_uint32_iterator(&it)) {
        if (bw_bitmap_get(b, it.current_value))
            return true;
    }
    return false;
}

static bool holds_kind(const bw_payload_index *ix, bw_value_kind kind)
{
    return (ix->kind == KIND_STRING && kind == BW_VALUE_STRING) ||
           (ix->kind == KIND_NUMBER && kind == BW_VALUE_INT) ||
           (ix->kind == KIND_BOOL && kind == BW_VALUE_BOOL);
}

static void value_or(const bw_payload_index *ix, const bw_value *v, bw_bitmap *out)
{
    if (v->kind == BW_VALUE_STRING) {
        const uint64_t *slot = bw_map_get(ix->strings, v->str.ptr, v->str.len);
        if (slot)
            posting_or(*slot, out);
    } else if (v->kind == BW_VALUE_BOOL) {
        set_or(ix->bools[v->boolean], out);
    } else {
        bw_number n = {true, v->negative, v->mag,
                       v->negative ? -(double)v->mag : (double)v->mag};
        bw_range r = {.has_gte = true, .has_lte = true, .gte = n, .lte = n};
        bw_numbers_or(&ix->numbers, &r, true, out);
    }
}

static bool is_match_kind(const bw_payload_index *ix)
{
    return ix->kind == KIND_STRING || ix->kind == KIND_NUMBER || ix->kind == KIND_BOOL;
}

/* One value's rows are many at worst: the time is looked at before each. */
static bw_status lookup_match(bw_ctx *ctx, const bw_payload_index *ix,
                              const bw_condition *c, bw_bitmap *out,
                              bw_lookup_kind *kind)
{
    uint32_t n = c->kind == BW_COND_MATCH_VALUE ? 1 : c->nvalues;
    bool foreign = false;
    if (!is_match_kind(ix) ||
        n > out->nbits) /* more values than rows: reading is cheaper */
        return BW_OK;
    for (uint32_t i = 0; i < n; i++) {
        bw_status st = bw_ctx_check(ctx);
        if (st != BW_OK)
            return st;
        if (holds_kind(ix, c->values[i].kind))
            value_or(ix, &c->values[i], out);
        else
            foreign = true;
    }
    *kind = BW_LOOKUP_EXACT;
    if (!foreign)
        return BW_OK;
    /* A value of another kind can only be in rows that hold such values. */
    set_or(ix->other, out);
    if (!roaring_bitmap_is_empty(ix->other))
        *kind = BW_LOOKUP_SUPERSET;
    return BW_OK;
}

/* Rows with a single value are settled; of the others with a listed value nothing is
 * known, so they stay in and are read. */
static bw_status lookup_except(bw_ctx *ctx, const bw_payload_index *ix,
                               const bw_condition *c, bw_bitmap *out,
                               bw_lookup_kind *kind)
{
    *kind = BW_LOOKUP_NONE;
    for (uint32_t i = 0; i < c->nvalues; i++) {
        if (!holds_kind(ix, c->values[i].kind))
            return BW_OK;
    }
    if (!is_match_kind(ix) || c->nvalues > out->nbits)
        return BW_OK;
    bw_bitmap listed, multi;
    bw_status st = bw_bitmap_arena(ctx, out->nbits, &listed);
    if (st == BW_OK)
        st = bw_bitmap_arena(ctx, out->nbits, &multi);
    if (st != BW_OK)
        return st;
    for (uint32_t i = 0; st == BW_OK && i < c->nvalues; i++) {
        value_or(ix, &c->values[i], &listed);
        st = bw_ctx_check(ctx);
    }
    if (st != BW_OK)
        return st;
    *kind = meets(ix->multi, &listed) ? BW_LOOKUP_SUPERSET : BW_LOOKUP_EXACT;
    set_or(ix->multi, &multi);
    bw_bitmap_andnot(&listed, &multi);
    set_or(ix->nonnull, out);
    bw_bitmap_andnot(out, &listed);
    return BW_OK;
}

typedef struct word_lookup {
    bw_ctx *ctx;
    const bw_payload_index *ix;
    bw_bitmap *out, word_rows;
    size_t nwords;
    bw_status status;
} word_lookup;

static bool lookup_word(void *arg, bw_str word)
{
    word_lookup *l = arg;
    const uint64_t *slot = bw_map_get(l->ix->strings, word.ptr, word.len);
    bw_bitmap *to = l->nwords++ == 0 ? l->out : &l->word_rows;
    memset(to->words, 0, bw_bitmap_words(to->nbits) * sizeof *to->words);
    if (slot)
        posting_or(*slot, to);
    if (l->nwords > 1)
        bw_bitmap_and(l->out, to);
    l->status = bw_ctx_check(l->ctx);
    return l->status == BW_OK && l->nwords < LOOKUP_WORDS_MAX;
}

static bw_status lookup_text(bw_ctx *ctx, const bw_payload_index *ix,
                             const bw_condition *c, bw_bitmap *out,
                             bw_lookup_kind *kind)
{
    word_lookup l = {ctx, ix, out, {NULL, 0}, 0, BW_OK};
    *kind = BW_LOOKUP_NONE;
    if (ix->kind != KIND_TEXT)
        return BW_OK;
    bw_status st = bw_bitmap_arena(ctx, out->nbits, &l.word_rows);
    if (st != BW_OK)
        return st;
    bw_words_each(c->text, lookup_word, &l);
    if (l.status != BW_OK)
        return l.status;
    /* All words must be in one value: of several values the row's set says too much. */
    bool doubt =
        l.nwords == LOOKUP_WORDS_MAX || (l.nwords > 1 && meets(ix->multi, out));
    *kind = doubt ? BW_LOOKUP_SUPERSET : BW_LOOKUP_EXACT;
    return BW_OK;
}

static bw_lookup_kind lookup_range(const bw_payload_index *ix, const bw_condition *c,
                                   bw_bitmap *out)
{
    if (ix->kind != (c->kind == BW_COND_RANGE ? KIND_NUMBER : KIND_DATE))
        return BW_LOOKUP_NONE;
    bw_numbers_or(&ix->numbers, &c->range, false, out);
    return BW_LOOKUP_EXACT;
}

bw_status bw_payload_index_lookup(bw_ctx *ctx, const bw_payload_index *ix,
                                  const bw_condition *cond, bw_bitmap *out,
                                  bw_lookup_kind *kind)
{
    *kind = BW_LOOKUP_NONE;
    switch (cond->kind) {
    case BW_COND_MATCH_VALUE:
    case BW_COND_MATCH_ANY:
        return lookup_match(ctx, ix, cond, out, kind);
    case BW_COND_MATCH_EXCEPT:
        return lookup_except(ctx, ix, cond, out, kind);
    case BW_COND_MATCH_TEXT:
        return lookup_text(ctx, ix, cond, out, kind);
    case BW_COND_RANGE:
    case BW_COND_DATE_RANGE:
        *kind = lookup_range(ix, cond, out);
        return BW_OK;
    case BW_COND_IS_EMPTY:
        set_or(ix->nonempty, out);
        if (!cond->negate)
            complement(out);
        *kind = BW_LOOKUP_EXACT;
        return BW_OK;
    case BW_COND_IS_NULL:
        set_or(ix->isnull, out);
        if (cond->negate)
            complement(out);
        *kind = BW_LOOKUP_EXACT;
        return BW_OK;
    default:
        return BW_OK;
    }
}

void bw_payload_index_present(const bw_payload_index *ix, bw_bitmap *out)
{
    set_or(ix->nonnull, out);
}

/* ---- walking the values ---- */

bool bw_payload_index_walks(const bw_payload_index *ix, bw_value_kind kind)
{
    return kind != BW_VALUE_INT && holds_kind(ix, kind);
}

size_t bw_payload_index_values(const bw_payload_index *ix)
{
    return ix->kind == KIND_BOOL ? 2 : bw_map_count(ix->strings);
}

typedef struct counting {
    const bw_bitmap *rows;
    uint64_t n;
} counting;

static bool count_row(uint32_t row, void *arg)
{
    counting *c = arg;
    if (row >= c->rows->nbits)
        return false;
    c->n += bw_bitmap_get(c->rows, row);
    return true;
}

static uint64_t count_set(const roaring_bitmap_t *set, const bw_bitmap *rows)
{
    counting c = {rows, 0};
    roaring_iterate(set, count_row, &c);
    return c.n;
}

void bw_payload_index_walk(const bw_payload_index *ix, const bw_bitmap *rows,
                           bw_index_value_fn fn, void *arg)
{
    bw_str key;
    uint64_t *slot, n;
    for (int truth = 0; ix->kind == KIND_BOOL && truth < 2; truth++) {
        bw_value v = {.kind = BW_VALUE_BOOL, .boolean = truth};
        if ((n = count_set(ix->bools[truth], rows)) > 0 && !fn(arg, &v, n))
            return;
    }
    for (size_t it = 0;
         ix->kind == KIND_STRING && bw_map_next(ix->strings, &it, &key, &slot);) {
        bw_value v = {.kind = BW_VALUE_STRING, .str = key};
        n = *slot & 1 ? bw_bitmap_get(rows, *slot >> 1)
                      : count_set(posting_set(*slot), rows);
        if (n > 0 && !fn(arg, &v, n))
            return;
    }
}

size_t bw_payload_index_sorted(const bw_payload_index *ix, bool dates)
{
    return ix->kind == (dates ? KIND_DATE : KIND_NUMBER) ? bw_numbers_count(&ix->numbers)
                                                         : 0;
}

void bw_payload_index_walk_sorted(const bw_payload_index *ix, bool falling,
                                  bw_index_number_fn fn, void *arg)
{
    bw_numbers_walk(&ix->numbers, falling, fn, arg);
}
