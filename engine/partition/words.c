/* Text queries from lists in memory (index/words.h), and from the file where the lists are
 * behind.
 *
 * The lists of a generation are derived data: made by the queries that want them, so a
 * partition that nobody asks for words pays nothing, and a start does not wait for them.
 * A query first adds what is missing, but no more than ADD_BYTES of text (some 100 ms), and
 * takes the rows that are still missing from the file's table (text.c): the same words,
 * counts and lengths, so the same bits. One thread adds at a time; others do not wait for
 * it, they ask the table for more. When all is there, a query needs no file and no lock
 * but the shared one of the lists.
 *
 * Rows that are dead are in the lists too (an older snapshot may see them): the bitmaps
 * of those who ask decide. Locks: words_busy, then words_lock, alone. */
#include "part.h"

enum {
    ADD_BYTES = 2 << 20,
    CHUNK_BYTES = 64 << 10, /* of text, under the lock */
    CHUNK_ROWS = 256
};

/* ---- adding ---- */

typedef struct adding {
    bw_ctx *ctx;
    bw_words *words;
    bw_text__splitter splitter;
    bw_status st; /* of a word that could not be put */
} adding;

static int add_word(void *arg, int flags, const char *token, int n, int start, int end)
{
    adding *a = arg;
    (void)flags;
    (void)start;
    (void)end;
    if (n > 0)
        a->st = bw_words_put(a->ctx, a->words, (bw_str){token, (size_t)n});
    return a->st == BW_OK ? SQLITE_OK : SQLITE_ABORT;
}

static bw_status add_text(adding *a, uint32_t row, const bw_rec *rec)
{
    bw_status st = bw_words_begin(a->ctx, a->words, row, rec->ntokens);
    if (st != BW_OK)
        return st;
    st = bw_text__split(a->ctx, &a->splitter, FTS5_TOKENIZE_DOCUMENT, rec->text, add_word,
                        a);
    if (a->st != BW_OK)
        st = a->st;
    if (st != BW_OK)
        bw_words_undo(a->words);
    return st;
}

/* Under words_lock. *bytes: how much text it was. */
static bw_status add_chunk(adding *a, const bw_snapshot *s, size_t *bytes)
{
    bw_status st = BW_OK;
    uint32_t row = bw_words_rows(a->words);
    *bytes = 0;
    for (size_t n = 0; row < s->nrows && n < CHUNK_ROWS && *bytes < CHUNK_BYTES; row++) {
        const bw_rec *rec = s->rows->recs[row];
        if (!rec || !rec->text.ptr)
            continue;
        st = add_text(a, row, rec);
        if (st != BW_OK)
            break;
        *bytes += rec->text.len;
        n++;
    }
    bw_words_end(a->words, row);
    return st;
}

/* words_busy is held. */
static bw_status add_missing(bw_ctx *ctx, const bw_snapshot *s)
{
    bw_gen *g = s->gen;
    adding a = {.ctx = ctx};
    bw_status st = bw_text__porter(ctx, &a.splitter);
    if (st != BW_OK)
        return st;
    size_t left = ADD_BYTES, bytes;
    bool more = true;
    while (st == BW_OK && more) {
        pthread_rwlock_wrlock(&g->words_lock);
        if (!g->words && !(g->words = bw_words_new()))
            st = bw_fail_nomem(ctx);
        a.words = g->words;
        if (st == BW_OK)
            st = add_chunk(&a, s, &bytes);
        if (st == BW_OK) {
            more = bw_words_rows(g->words) < s->nrows && left > bytes;
            left -= more ? bytes : 0;
        }
        pthread_rwlock_unlock(&g->words_lock);
        if (st == BW_OK)
            st = bw_ctx_check(ctx); /* what was added stays */
    }
    bw_text__splitter_close(&a.splitter);
    return st;
}

static void lists_lock(const bw_snapshot *s)
{
    pthread_rwlock_rdlock(&s->gen->words_lock);
}

static void lists_unlock(const bw_snapshot *s)
{
    pthread_rwlock_unlock(&s->gen->words_lock);
}

/* How many of the snapshot's rows the lists have. */
static uint32_t rows_there(const bw_snapshot *s)
{
    const bw_words *w = s->gen->words;
    uint32_t rows = w ? bw_words_rows(w) : 0;
    return rows < s->nrows ? rows : s->nrows;
}

static bw_status catch_up(bw_ctx *ctx, const bw_snapshot *s)
{
    lists_lock(s);
    bool there = rows_there(s) == s->nrows;
    lists_unlock(s);
    if (there)
        return BW_OK;
    bw_status st = bw_ctx_may_wait(ctx);
    if (st != BW_OK || pthread_mutex_trylock(&s->gen->words_busy) != 0)
        return st;
    st = add_missing(ctx, s);
    pthread_mutex_unlock(&s->gen->words_busy);
    return st;
}

/* ---- a query ---- */

/* Whether every row below end is visible, so that lengths of lists are counts. */
static bool sees_all(const bw_bitmap *visible, uint32_t end)
{
    for (uint32_t i = 0; i < end / 64; i++)
        if (visible->words[i] != UINT64_MAX)
            return false;
    uint64_t rest = end % 64 ? ((uint64_t)1 << (end % 64)) - 1 : 0;
    return rest == 0 || (visible->words[end / 64] & rest) == rest;
}

static bw_status find_lists(bw_ctx *ctx, const bw_snapshot *s, const bw_text_query *q,
                            const bw_bitmap *visible, uint64_t *df, bw_text_found *out)
{
    uint32_t *lists = bw_arena_alloc(ctx, q->nterms * sizeof *lists);
    if (!lists)
        return BW_ENOMEM;
    bw_status st = BW_OK;
    out->lists = lists;
    lists_lock(s);
    out->end = rows_there(s);
    const bool all = sees_all(visible, out->end);
    for (size_t j = 0; st == BW_OK && j < q->nterms; j++) {
        lists[j] = BW_WORDS_NONE;
        if (out->end == 0 || q->stems[j].len == 0)
            continue;
        lists[j] = bw_words_find(s->gen->words, q->stems[j]);
        df[j] += bw_words_df(s->gen->words, lists[j], out->end, all ? NULL : visible);
        st = bw_ctx_check(ctx);
    }
    lists_unlock(s);
    return st;
}

bw_status bw_snapshot_text_find(bw_ctx *ctx, const bw_snapshot *s, const bw_text_query *q,
                                const bw_bitmap *visible, bw_text_stats *stats,
                                uint64_t *df, bw_text_found *out)
{
    bw_text__sum(s, visible, stats);
    *out = (bw_text_found){.end = 0};
    if (q->nterms == 0 || s->text_docs == 0)
        return BW_OK;
    if (q->nterms > BW_TEXT_TERMS_MAX)
        return bw_fail(ctx, BW_EINVALID, "a text query has more than %d terms",
                       BW_TEXT_TERMS_MAX);
    bw_status st = catch_up(ctx, s);
    if (st == BW_OK)
        st = find_lists(ctx, s, q, visible, df, out);
    if (st == BW_OK && out->end < s->nrows)
        st = bw_text__matches(ctx, s, q, out->end, visible, &out->rest, &out->nrest);
    for (size_t i = 0; st == BW_OK && i < out->nrest; i++)
        for (size_t j = 0; j < q->nterms; j++)
            df[j] += out->rest[i].tf[j] > 0;
    return st;
}

void bw_snapshot_text_rows(const bw_snapshot *s, const bw_text_query *q,
                           const bw_text_found *found, bw_bitmap *rows)
{
    lists_lock(s);
    for (size_t j = 0; found->lists && found->end > 0 && j < q->nterms; j++) {
        bw_words_cursor c;
        bw_words_walk(s->gen->words, found->lists[j], found->end, &c);
        for (; c.at < c.n; c.at++)
            bw_bitmap_set(rows, bw_words_row(&c));
    }
    lists_unlock(s);
    for (size_t i = 0; i < found->nrest; i++)
        bw_bitmap_set(rows, found->rest[i].row);
}

static void score_rest(const bw_snapshot *s, const bw_text_query *q,
                       const bw_text_found *found, const bw_text_weights *weights,
                       const bw_bitmap *allowed, uint32_t part, bw_topk *out)
{
    for (size_t i = 0; i < found->nrest; i++) {
        const bw_text_match *m = &found->rest[i];
        const double norm = bw_bm25_norm(m->length, weights->mean);
        double sum = 0;
        if (!bw_bitmap_get(allowed, m->row))
            continue;
        for (size_t j = 0; j < q->nterms; j++)
            if (m->tf[j] > 0)
                sum += bw_bm25_part(weights->idf[j], m->tf[j], norm);
        const bw_candidate c = {(float)sum, part, m->row, *bw_snapshot_id(s, m->row)};
        if (bw_topk_wants(out, c.key))
            bw_topk_push(out, &c);
    }
}

bw_status bw_snapshot_text_best(bw_ctx *ctx, const bw_snapshot *s, const bw_text_query *q,
                                const bw_text_found *found,
                                const bw_text_weights *weights, const bw_bitmap *allowed,
                                uint32_t part, bw_topk *out)
{
    bw_status st = BW_OK;
    if (found->end > 0) {
        const bw_words_query w = {.lists = found->lists,
                                  .idf = weights->idf,
                                  .n = q->nterms,
                                  .mean = weights->mean,
                                  .end = found->end,
                                  .allowed = allowed,
                                  .ids = s->rows->ids,
                                  .part = part};
        lists_lock(s);
        st = bw_words_search(ctx, s->gen->words, &w, out);
        lists_unlock(s);
    }
    if (st == BW_OK)
        score_rest(s, q, found, weights, allowed, part, out);
    return st == BW_OK ? bw_ctx_check(ctx) : st;
}

uint64_t bw_snapshot_text_bytes(const bw_snapshot *s)
{
    lists_lock(s);
    uint64_t bytes = s->gen->words ? bw_words_bytes(s->gen->words) : 0;
    lists_unlock(s);
    return bytes;
}
