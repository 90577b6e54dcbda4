/* Inverted lists of words (words.h).
 *
 * A list is two arrays, rows and how often the word is there, in five bytes a pair; the
 * rare count above 254 stands in a map of its own. What a search must know to pass over a
 * list is its largest count and its shortest text.
 *
 * Search: MaxScore by windows of rows. The words that alone cannot lift a row into the
 * heap are set aside, those with the least to give first; the others' lists are added up
 * in a window of sums, and only rows whose sum, with all that was set aside, could still
 * enter are scored exactly, in the order of the query. The sums prune and nothing else:
 * no answer depends on them. The bound is given 1e-6 for rounding, more than a float's
 * half unit (6e-8) and the few units of a double sum. Tried before: cursors merged row by
 * row, which ask every list for every row. Leaves out: bounds by block, compression. */
#include "words.h"
#include "../base/map.h"

enum {
    WINDOW = 4096,
    FIRST_WINDOW = 256, /* small: what it finds sets words aside */
    TF_MANY = UINT8_MAX,
    MANY_KEY = 2 * sizeof(uint32_t),
    TERMS_MAX = 256
};
static const double SLACK = 1 + 1e-6;

typedef struct list {
    uint32_t *rows;
    uint8_t *tfs; /* TF_MANY: it stands in `many` */
    size_t n, cap;
    uint32_t tf_max, length_min;
} list;

struct bw_words {
    bw_map *numbers; /* word -> its list's number + 1 */
    bw_map *many;    /* list number and row, 8 bytes -> how often */
    list *lists;
    size_t nlists, cap, bytes; /* bytes: of the lists and words */
    uint32_t *lengths;         /* of each row's text, in words; 0: none */
    uint32_t cap_rows, rows;   /* rows: below this one all are in */
    uint32_t row, length;      /* that is being put */
};

bw_words *bw_words_new(void)
{
    bw_words *w = bw_calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->numbers = bw_map_new();
    w->many = bw_map_new();
    if (!w->numbers || !w->many) {
        bw_words_free(w);
        return NULL;
    }
    return w;
}

void bw_words_free(bw_words *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->nlists; i++) {
        bw_free(w->lists[i].rows);
        bw_free(w->lists[i].tfs);
    }
    bw_free(w->lists);
    bw_free(w->lengths);
    bw_map_free(w->numbers);
    bw_map_free(w->many);
    bw_free(w);
}

size_t bw_words_bytes(const bw_words *w)
{
    return sizeof *w + w->bytes + w->cap * sizeof *w->lists +
           w->cap_rows * sizeof *w->lengths + bw_map_table_bytes(w->numbers) +
           bw_map_table_bytes(w->many) + bw_map_count(w->many) * MANY_KEY;
}

uint32_t bw_words_rows(const bw_words *w)
{
    return w->rows;
}

/* ---- adding ---- */

bw_status bw_words_begin(bw_ctx *ctx, bw_words *w, uint32_t row, uint32_t length)
{
    if (row < w->rows)
        return bw_fail(ctx, BW_EINTERNAL, "a text's row %u comes after row %u", row,
                       w->rows - 1);
    if (row >= w->cap_rows) {
        uint64_t cap = (uint64_t)row + row / 2 + 64;
        if (cap > UINT32_MAX)
            cap = UINT32_MAX;
        uint32_t *grown = bw_realloc(w->lengths, cap * sizeof *grown);
        if (!grown)
            return bw_fail_nomem(ctx);
        memset(grown + w->cap_rows, 0, (cap - w->cap_rows) * sizeof *grown);
        w->lengths = grown;
        w->cap_rows = (uint32_t)cap;
    }
    w->lengths[row] = length;
    w->row = row;
    w->length = length;
    return BW_OK;
}

/* Finds or makes the word's list; room for one more list first, so that the map never
 * names a list that is not there. NULL: no memory. */
static list *list_put(bw_words *w, bw_str word)
{
    if (w->nlists == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 64;
        list *grown = bw_realloc(w->lists, cap * sizeof *grown);
        if (!grown)
            return NULL;
        w->lists = grown;
        w->cap = cap;
    }
    bool fresh;
    uint64_t *number = bw_map_put(w->numbers, word.ptr, word.len, &fresh);
    if (!number)
        return NULL;
    if (*number == 0) {
        w->lists[w->nlists] = (list){.length_min = UINT32_MAX};
        *number = ++w->nlists;
        w->bytes += word.len;
    }
    return &w->lists[*number - 1];
}

static bool list_reserve(bw_words *w, list *l)
{
    if (l->n < l->cap)
        return true;
    const size_t cap = l->cap ? l->cap + l->cap / 2 + 1 : 4;
    uint32_t *rows = bw_realloc(l->rows, cap * sizeof *rows);
    if (!rows)
        return false;
    l->rows = rows;
    uint8_t *tfs = bw_realloc(l->tfs, cap);
    if (!tfs)
        return false;
    l->tfs = tfs;
    w->bytes += (cap - l->cap) * (sizeof *rows + sizeof *tfs);
    l->cap = cap;
    return true;
}

static void key_of(const bw_words *w, const list *l, uint32_t row, uint32_t key[2])
{
    key[0] = (uint32_t)(l - w->lists);
    key[1] = row;
}

static uint32_t tf_at(const bw_words *w, const list *l, size_t at)
{
    if (l->tfs[at] < TF_MANY)
        return l->tfs[at];
    uint32_t key[2];
    key_of(w, l, l->rows[at], key);
    const uint64_t *n = bw_map_get(w->many, key, sizeof key);
    bw_require(n != NULL);
    return (uint32_t)*n;
}

static bw_status count_once_more(bw_ctx *ctx, bw_words *w, list *l)
{
    uint8_t *tf = &l->tfs[l->n - 1];
    uint32_t key[2], now = *tf + 1u;
    if (now >= TF_MANY) {
        bool fresh;
        key_of(w, l, w->row, key);
        uint64_t *n = bw_map_put(w->many, key, sizeof key, &fresh);
        if (!n)
            return bw_fail_nomem(ctx);
        now = fresh ? TF_MANY : (uint32_t)*n + 1;
        *n = now;
    }
    *tf = now < TF_MANY ? (uint8_t)now : TF_MANY;
    l->tf_max = now > l->tf_max ? now : l->tf_max;
    return BW_OK;
}

bw_status bw_words_put(bw_ctx *ctx, bw_words *w, bw_str word)
{
    list *l = list_put(w, word);
    if (!l)
        return bw_fail_nomem(ctx);
    if (l->n > 0 && l->rows[l->n - 1] == w->row)
        return count_once_more(ctx, w, l);
    if (!list_reserve(w, l))
        return bw_fail_nomem(ctx);
    l->rows[l->n] = w->row;
    l->tfs[l->n++] = 1;
    l->tf_max = l->tf_max > 1 ? l->tf_max : 1;
    l->length_min = w->length < l->length_min ? w->length : l->length_min;
    return BW_OK;
}

/* Bounds that the row moved stay: they are bounds all the same. */
void bw_words_undo(bw_words *w)
{
    for (size_t i = 0; i < w->nlists; i++) {
        list *l = &w->lists[i];
        uint32_t key[2];
        if (l->n == 0 || l->rows[l->n - 1] != w->row)
            continue;
        key_of(w, l, w->row, key);
        (void)bw_map_remove(w->many, key, sizeof key);
        l->n--;
    }
    w->lengths[w->row] = 0;
}

void bw_words_end(bw_words *w, uint32_t rows)
{
    assert(rows >= w->rows);
    w->rows = rows;
}

/* ---- looking ---- */

uint32_t bw_words_find(const bw_words *w, bw_str word)
{
    const uint64_t *number = bw_map_get(w->numbers, word.ptr, word.len);
    return number && *number ? (uint32_t)(*number - 1) : BW_WORDS_NONE;
}

/* The first place from `from` on whose row is not below `row`: by doubling steps, then
 * halving. */
static size_t seek(const uint32_t *rows, size_t n, size_t from, uint32_t row)
{
    size_t lo = from, step = 1;
    while (lo + step <= n && rows[lo + step - 1] < row) {
        lo += step;
        step *= 2;
    }
    size_t hi = lo + step <= n ? lo + step : n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (rows[mid] < row)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void bw_words_walk(const bw_words *w, uint32_t number, uint32_t end, bw_words_cursor *c)
{
    *c = (bw_words_cursor){.w = w, .list = number};
    if (number == BW_WORDS_NONE)
        return;
    const list *l = &w->lists[number];
    c->n = l->n > 0 && l->rows[l->n - 1] < end ? l->n : seek(l->rows, l->n, 0, end);
}

uint32_t bw_words_row(const bw_words_cursor *c)
{
    return c->at < c->n ? c->w->lists[c->list].rows[c->at] : BW_WORDS_NONE;
}

uint32_t bw_words_tf(const bw_words_cursor *c)
{
    return tf_at(c->w, &c->w->lists[c->list], c->at);
}

uint64_t bw_words_df(const bw_words *w, uint32_t number, uint32_t end,
                     const bw_bitmap *visible)
{
    bw_words_cursor c;
    uint64_t df = 0;
    bw_words_walk(w, number, end, &c);
    if (!visible || c.n == 0)
        return c.n;
    const uint32_t *rows = w->lists[number].rows;
    for (size_t i = 0; i < c.n; i++)
        df += bw_bitmap_get(visible, rows[i]);
    return df;
}

/* ---- searching ---- */

typedef struct term {
    const list *l;
    size_t at, n; /* of its rows: the next one to look at for a score; how many take part */
    size_t from;  /* the first one of the window */
    double idf, most; /* what it can give at most */
} term;

typedef struct search {
    const bw_words *w;
    const bw_words_query *q;
    bw_topk *out;
    term terms[TERMS_MAX];   /* in the query's order */
    uint16_t by[TERMS_MAX];  /* terms by what they can give, least first */
    double below[TERMS_MAX + 1]; /* what by[0 … i-1] can give together */
    size_t n, aside;         /* by[0 … aside-1] are set aside */
    double sums[WINDOW];
    uint64_t touched[WINDOW / 64];
} search;

static void set_terms(search *s)
{
    const bw_words_query *q = s->q;
    for (size_t j = 0; j < q->n; j++) {
        bw_words_cursor c;
        bw_words_walk(s->w, q->lists[j], q->end, &c);
        if (c.n == 0)
            continue;
        const list *l = &s->w->lists[q->lists[j]];
        double norm = bw_bm25_norm(l->length_min, q->mean);
        s->terms[s->n] =
            (term){.l = l,
                   .n = c.n,
                   .idf = q->idf[j],
                   .most = bw_bm25_part(q->idf[j], l->tf_max, norm)};
        size_t at = s->n++;
        for (; at > 0 && s->terms[s->by[at - 1]].most > s->terms[s->n - 1].most; at--)
            s->by[at] = s->by[at - 1];
        s->by[at] = (uint16_t)(s->n - 1);
    }
    for (size_t i = 0; i < s->n; i++)
        s->below[i + 1] = s->below[i] + s->terms[s->by[i]].most;
}

/* Whether a sum of no more than this may stand for a row that enters. */
static inline bool may_enter(const bw_topk *out, double sum)
{
    return out->n < out->k || sum * SLACK >= (double)out->items[0].key;
}

static void set_aside(search *s)
{
    while (s->aside < s->n && !may_enter(s->out, s->below[s->aside + 1]))
        s->aside++;
}

/* The window's rows of a word that is not set aside. */
static void add_up(search *s, term *t, uint32_t row0, uint32_t end)
{
    const list *l = t->l;
    const uint32_t *lengths = s->w->lengths;
    size_t i = seek(l->rows, t->n, t->from, row0);
    for (; i < t->n && l->rows[i] < end; i++) {
        const uint32_t row = l->rows[i], k = row - row0;
        double tf = l->tfs[i] < TF_MANY ? l->tfs[i] : l->tf_max;
        uint64_t bit = (uint64_t)1 << (k % 64);
        double part = bw_bm25_part(t->idf, tf, bw_bm25_norm(lengths[row], s->q->mean));
        s->sums[k] = s->touched[k / 64] & bit ? s->sums[k] + part : part;
        s->touched[k / 64] |= bit;
    }
    t->from = i;
}

static void score(search *s, uint32_t row)
{
    const double norm = bw_bm25_norm(s->w->lengths[row], s->q->mean);
    double sum = 0;
    for (size_t j = 0; j < s->n; j++) {
        term *t = &s->terms[j];
        t->at = seek(t->l->rows, t->n, t->at, row);
        if (t->at < t->n && t->l->rows[t->at] == row)
            sum += bw_bm25_part(t->idf, tf_at(s->w, t->l, t->at), norm);
    }
    const bw_candidate c = {(float)sum, s->q->part, row, s->q->ids[row]};
    if (bw_topk_wants(s->out, c.key))
        bw_topk_push(s->out, &c);
}

static void look_at_window(search *s, uint32_t row0)
{
    for (size_t i = 0; i < WINDOW / 64; i++) {
        for (uint64_t word = s->touched[i]; word; word &= word - 1) {
            const uint32_t k = (uint32_t)(64 * i) + (uint32_t)__builtin_ctzll(word);
            if (may_enter(s->out, s->sums[k] + s->below[s->aside]) &&
                bw_bitmap_get(s->q->allowed, row0 + k))
                score(s, row0 + k);
        }
        s->touched[i] = 0;
    }
}

/* The first row that a word which is not set aside still has. */
static uint32_t next_row(const search *s)
{
    uint32_t row = BW_WORDS_NONE;
    for (size_t i = s->aside; i < s->n; i++) {
        const term *t = &s->terms[s->by[i]];
        if (t->from < t->n && t->l->rows[t->from] < row)
            row = t->l->rows[t->from];
    }
    return row;
}

bw_status bw_words_search(bw_ctx *ctx, const bw_words *w, const bw_words_query *q,
                          bw_topk *out)
{
    if (out->k == 0 || q->n == 0)
        return BW_OK;
    if (q->n > TERMS_MAX)
        return bw_fail(ctx, BW_EINVALID, "a text query has more than %d terms",
                       TERMS_MAX);
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    search *s = bw_arena_alloc(ctx, sizeof *s); /* large: sums are set before they are read */
    if (!s)
        return BW_ENOMEM;
    s->w = w;
    s->q = q;
    s->out = out;
    s->n = s->aside = 0;
    s->below[0] = 0;
    memset(s->touched, 0, sizeof s->touched);
    set_terms(s);
    set_aside(s);
    bw_status st = BW_OK;
    uint32_t width = FIRST_WINDOW;
    for (uint32_t row; st == BW_OK && (row = next_row(s)) != BW_WORDS_NONE;) {
        const uint32_t row0 = row - row % FIRST_WINDOW;
        const uint32_t end = q->end - row0 < width ? q->end : row0 + width;
        for (size_t i = s->aside; i < s->n; i++)
            add_up(s, &s->terms[s->by[i]], row0, end);
        look_at_window(s, row0);
        set_aside(s);
        width = 2 * width < WINDOW ? 2 * width : WINDOW;
        st = bw_ctx_check(ctx);
    }
    bw_arena_release(ctx, mark);
    return st;
}
