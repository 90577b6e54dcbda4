/* Words of a text, and which rows hold them.
 *
 * The tokenizer is FTS5's own (`porter unicode61`, as in the partition's table),
 * reached through fts5_api, so a query is split exactly like a text. Terms are handed
 * around unstemmed: Porter's stem of a stem can differ (agreed -> agre -> agr), so
 * FTS5 must see the word. A term becomes one quoted FTS5 string; no text is ever
 * syntax.
 *
 * A snapshot may be older than the table. Under db_lock the table is exactly the
 * partition's current state, so: rows of the snapshot that have ended since are split
 * here, from memory, and rows that came since are left out. */
#include "part.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    TERM_BYTES_MAX = 1024,
    CHECK_ROWS = 256 /* split between two looks at the deadline */
};

/* ---- FTS5's tokenizers, from a connection of our own that lives as long as we do ----
 */

static pthread_mutex_t api_lock = PTHREAD_MUTEX_INITIALIZER;
static fts5_api *global_api; /* api_lock; NULL until it could be had */

static fts5_api *api_of(sqlite3 *sq)
{
    fts5_api *api = NULL;
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(sq, "SELECT fts5(?1)", -1, &st, NULL) == SQLITE_OK) {
        sqlite3_bind_pointer(st, 1, (void *)&api, "fts5_api_ptr", NULL);
        sqlite3_step(st);
    }
    sqlite3_finalize(st);
    return api;
}

/* Tried again when it lacked memory the last time. */
/* SQLite always brings both; without memory it may have registered neither. */
static bool has_tokenizers(fts5_api *api)
{
    void *user;
    fts5_tokenizer ops;
    return api->xFindTokenizer(api, "porter", &user, &ops) == SQLITE_OK &&
           api->xFindTokenizer(api, "unicode61", &user, &ops) == SQLITE_OK;
}

static fts5_api *api_get(void)
{
    pthread_mutex_lock(&api_lock);
    sqlite3 *sq = NULL;
    if (!global_api &&
        sqlite3_open_v2(":memory:", &sq, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                        NULL) == SQLITE_OK)
        global_api = api_of(sq);
    fts5_api *api = global_api;
    if (api && !has_tokenizers(api)) /* made while there was too little memory */
        global_api = api = NULL;
    if (!api)
        sqlite3_close(sq);
    pthread_mutex_unlock(&api_lock);
    return api;
}

typedef bw_text__splitter splitter;

static bw_status splitter_open(bw_ctx *ctx, const char *name, const char **args,
                               int nargs, splitter *out)
{
    void *user = NULL;
    fts5_api *api = api_get();
    int rc = api ? api->xFindTokenizer(api, name, &user, &out->ops) : SQLITE_NOMEM;
    if (rc == SQLITE_OK)
        rc = out->ops.xCreate(user, args, nargs, &out->inst);
    if (rc == SQLITE_NOMEM)
        return bw_fail_nomem(ctx);
    return rc == SQLITE_OK
               ? BW_OK
               : bw_fail(ctx, BW_EINTERNAL, "SQLite has no %s tokenizer", name);
}

bw_status bw_text__porter(bw_ctx *ctx, bw_text__splitter *out)
{
    static const char *args[] = {"unicode61"};
    return splitter_open(ctx, "porter", args, 1, out);
}

void bw_text__splitter_close(bw_text__splitter *s)
{
    s->ops.xDelete(s->inst);
}

bw_status bw_text__split(bw_ctx *ctx, const splitter *s, int why, bw_str text,
                         bw_text__token_fn fn, void *arg)
{
    if (text.len > INT32_MAX)
        return bw_fail(ctx, BW_EINVALID, "a text is too long");
    int rc = s->ops.xTokenize(s->inst, arg, why, text.ptr ? text.ptr : "",
                              (int)text.len, fn);
    if (rc == SQLITE_NOMEM)
        return bw_fail_nomem(ctx);
    return rc == SQLITE_OK || rc == SQLITE_DONE
               ? BW_OK
               : bw_fail(ctx, BW_EINTERNAL, "splitting a text failed");
}

static int count_token(void *arg, int flags, const char *token, int n, int start,
                       int end)
{
    (void)token;
    (void)n;
    (void)start;
    (void)end;
    *(uint32_t *)arg += !(flags & FTS5_TOKEN_COLOCATED);
    return SQLITE_OK;
}

bw_status bw_text_count(bw_ctx *ctx, bw_str text, uint32_t *ntokens)
{
    splitter s;
    bw_status st = bw_text__porter(ctx, &s);
    if (st != BW_OK)
        return st;
    *ntokens = 0;
    st = bw_text__split(ctx, &s, FTS5_TOKENIZE_DOCUMENT, text, count_token, ntokens);
    bw_text__splitter_close(&s);
    return st;
}

/* ---- the words of a query ---- */

typedef struct words {
    bw_ctx *ctx;
    bw_str *items;
    size_t n, cap;
} words;

static int keep_token(void *arg, int flags, const char *token, int n, int start,
                      int end)
{
    words *w = arg;
    (void)flags;
    (void)start;
    (void)end;
    if (n <= 0 || n > TERM_BYTES_MAX)
        n = n <= 0 ? 0 : TERM_BYTES_MAX;
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 32;
        w->items = bw_arena_grow(w->ctx, w->items, w->cap * sizeof *w->items,
                                 cap * sizeof *w->items);
        if (!w->items)
            return SQLITE_NOMEM;
        w->cap = cap;
    }
    bw_str copy;
    if (bw_arena_str(w->ctx, (bw_str){token, (size_t)n}, &copy) != BW_OK)
        return SQLITE_NOMEM;
    w->items[w->n++] = copy;
    return SQLITE_OK;
}

static bw_status words_of(bw_ctx *ctx, bool stem, bw_str text, words *out)
{
    splitter s;
    *out = (words){.ctx = ctx};
    bw_status st =
        stem ? bw_text__porter(ctx, &s) : splitter_open(ctx, "unicode61", NULL, 0, &s);
    if (st != BW_OK)
        return st;
    st = bw_text__split(ctx, &s, FTS5_TOKENIZE_QUERY, text, keep_token, out);
    bw_text__splitter_close(&s);
    return st;
}

/* Unique by stem; of words with one stem the first stands for all. */
bw_status bw_text_terms(bw_ctx *ctx, bw_str query, const bw_str **terms, size_t *n)
{
    words plain, stems;
    bw_status st = words_of(ctx, false, query, &plain);
    if (st == BW_OK)
        st = words_of(ctx, true, query, &stems);
    if (st != BW_OK)
        return st;
    if (plain.n != stems.n)
        return bw_fail(ctx, BW_EINTERNAL, "two tokenizers split a text differently");
    size_t k = 0;
    for (size_t i = 0; i < stems.n && k < BW_TEXT_TERMS_MAX; i++) {
        size_t j = 0;
        while (j < k && !bw_str_eq(stems.items[j], stems.items[i]))
            j++;
        if (j < k || plain.items[i].len == 0)
            continue;
        stems.items[k] = stems.items[i];
        plain.items[k++] = plain.items[i];
    }
    *terms = plain.items;
    *n = k;
    return BW_OK;
}

bw_status bw_text_stems(bw_ctx *ctx, const bw_str *terms, size_t n, const bw_str **stems)
{
    bw_str *out = bw_arena_alloc(ctx, n * sizeof *out);
    if (!out)
        return BW_ENOMEM;
    for (size_t j = 0; j < n; j++) {
        words w;
        bw_status st = words_of(ctx, true, terms[j], &w);
        if (st != BW_OK)
            return st;
        out[j] = w.n > 0 ? w.items[0] : (bw_str){NULL, 0};
    }
    *stems = out;
    return BW_OK;
}

/* ---- term frequencies in the table ---- */

/* bw_tf(ft): for the current row a blob of u32, how often each phrase occurs. */
static void tf_function(const Fts5ExtensionApi *api, Fts5Context *fts,
                        sqlite3_context *out, int nargs, sqlite3_value **args)
{
    (void)nargs;
    (void)args;
    int n = api->xPhraseCount(fts), ninst = 0;
    if (n <= 0 || n > BW_TEXT_TERMS_MAX) {
        sqlite3_result_error_code(out, SQLITE_ERROR);
        return;
    }
    uint32_t tf[BW_TEXT_TERMS_MAX] = {0};
    int rc = api->xInstCount(fts, &ninst);
    for (int i = 0; rc == SQLITE_OK && i < ninst; i++) {
        int phrase = 0, column = 0, at = 0;
        rc = api->xInst(fts, i, &phrase, &column, &at);
        if (rc == SQLITE_OK && phrase >= 0 && phrase < n)
            tf[phrase]++;
    }
    if (rc != SQLITE_OK)
        sqlite3_result_error_code(out, rc);
    else
        sqlite3_result_blob(out, tf, n * (int)sizeof *tf, SQLITE_TRANSIENT);
}

bw_status bw_text_register(bw_ctx *ctx, bw_db *db)
{
    fts5_api *api = api_of(bw_db_handle(db));
    int rc = api ? api->xCreateFunction(api, "bw_tf", NULL, tf_function, NULL)
                 : SQLITE_ERROR;
    return rc == SQLITE_OK ? BW_OK : bw_fail(ctx, BW_EINTERNAL, "SQLite has no FTS5");
}

/* "a" OR "b": each term one FTS5 string, quotes doubled. */
static bw_status match_expression(bw_ctx *ctx, const bw_str *terms, size_t n,
                                  bw_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        bw_buf_puts(out, i ? " OR \"" : "\"");
        for (size_t j = 0; j < terms[i].len; j++) {
            if (terms[i].ptr[j] == '"')
                bw_buf_putc(out, '"');
            bw_buf_putc(out, terms[i].ptr[j]);
        }
        bw_buf_putc(out, '"');
    }
    return out->failed ? bw_fail_nomem(ctx) : BW_OK;
}

typedef struct matches {
    bw_text_match *items;
    size_t n, cap, nterms;
    uint32_t from; /* rows below take no part */
} matches;

static bw_status match_put(bw_ctx *ctx, matches *m, uint32_t row, uint32_t length,
                           uint32_t **tf)
{
    if (m->n == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 64;
        m->items = bw_arena_grow(ctx, m->items, m->cap * sizeof *m->items,
                                 cap * sizeof *m->items);
        if (!m->items)
            return BW_ENOMEM;
        m->cap = cap;
    }
    *tf = bw_arena_calloc(ctx, m->nterms, sizeof **tf);
    if (!*tf)
        return BW_ENOMEM;
    m->items[m->n++] = (bw_text_match){row, length, *tf};
    return BW_OK;
}

static bw_status search_table(bw_ctx *ctx, const bw_snapshot *s, bw_db *db,
                              const bw_str *terms, const bw_bitmap *visible, matches *m)
{
    bw_buf expr = {0};
    sqlite3_stmt *st = NULL;
    bw_status rc = match_expression(ctx, terms, m->nterms, &expr);
    if (rc == BW_OK)
        rc = bw_db_stmt(ctx, db, BW_PARTFILE_SLOT_TEXT,
                        "SELECT rowid, bw_tf(ft) FROM ft WHERE ft MATCH ?1 AND rowid > ?2",
                        &st);
    const int64_t before = m->from > 0 ? s->rows->keys[m->from - 1] : INT64_MIN;
    if (rc == BW_OK && (bw_db_bind_str(st, 1, bw_buf_view(&expr)) != SQLITE_OK ||
                        sqlite3_bind_int64(st, 2, before) != SQLITE_OK))
        rc = bw_fail_nomem(ctx);
    bool row = false;
    while (rc == BW_OK && (rc = bw_db_step(ctx, db, st, &row)) == BW_OK && row) {
        uint32_t ord = bw_gen_find_key(s->gen, sqlite3_column_int64(st, 0), s->nrows);
        if (ord == BW_ROW_NONE || !bw_bitmap_get(visible, ord))
            continue;
        bw_str tf = bw_db_column(st, 1);
        uint32_t *to;
        if (tf.len != m->nterms * sizeof *to)
            rc = bw_fail(ctx, BW_ECORRUPT, "store: the text index counts other terms");
        else
            rc = match_put(ctx, m, ord, s->rows->recs[ord]->ntokens, &to);
        if (rc == BW_OK)
            memcpy(to, tf.ptr, tf.len);
    }
    if (st)
        sqlite3_reset(st);
    bw_buf_clear(&expr);
    return rc;
}

/* A row that the table no longer has. */
static bw_status search_row(bw_ctx *ctx, const bw_snapshot *s, uint32_t ord,
                            const bw_str *stems, matches *m)
{
    const bw_rec *rec = s->rows->recs[ord];
    words w;
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    uint32_t tf[BW_TEXT_TERMS_MAX] = {0};
    bool any = false;
    bw_status st = words_of(ctx, true, rec->text, &w);
    for (size_t i = 0; st == BW_OK && i < w.n; i++)
        for (size_t j = 0; j < m->nterms; j++)
            if (bw_str_eq(w.items[i], stems[j])) {
                tf[j]++;
                any = true;
            }
    bw_arena_release(ctx, mark);
    uint32_t *to;
    if (st == BW_OK && any && (st = match_put(ctx, m, ord, rec->ntokens, &to)) == BW_OK)
        memcpy(to, tf, m->nterms * sizeof *to);
    return st;
}

/* Is the snapshot's row in the table? The two may number rows differently: the
 * partition was renumbered, or read again, since. */
static bool is_current(const bw_snapshot *s, const bw_snapshot *current, uint32_t ord)
{
    if (s->gen != current->gen)
        ord = bw_gen_find_key(current->gen, s->rows->keys[ord], current->nrows);
    return ord != BW_ROW_NONE && bw_bitmap_get(&current->live, ord);
}

/* The rows that the table lacks: the ended ones, or (stale) all that have a text. */
static bw_status search_memory(bw_ctx *ctx, const bw_snapshot *s, bool stale,
                               const bw_str *stems, const bw_bitmap *visible,
                               matches *m)
{
    size_t nsplit = 0;
    for (size_t i = bw_bitmap_next(visible, m->from); i < s->nrows;
         i = bw_bitmap_next(visible, i + 1)) {
        const bw_rec *rec = s->rows->recs[i];
        if (!rec->text.ptr || (!stale && is_current(s, s->part->current, (uint32_t)i)))
            continue;
        bw_status st = search_row(ctx, s, (uint32_t)i, stems, m);
        if (st == BW_OK && ++nsplit % CHECK_ROWS == 0)
            st = bw_ctx_check(ctx);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

void bw_text__sum(const bw_snapshot *s, const bw_bitmap *visible,
                  bw_text_stats *stats)
{
    if (visible == &s->live) {
        stats->ndocs += s->text_docs;
        stats->ntokens += s->text_tokens;
        return;
    }
    for (size_t i = bw_bitmap_next(visible, 0); i < s->nrows;
         i = bw_bitmap_next(visible, i + 1)) {
        const bw_rec *rec = s->rows->recs[i];
        stats->ndocs += rec->text.ptr ? 1 : 0;
        stats->ntokens += rec->text.ptr ? rec->ntokens : 0;
    }
}

static int by_row(const void *a, const void *b)
{
    uint32_t x = ((const bw_text_match *)a)->row, y = ((const bw_text_match *)b)->row;
    return x < y ? -1 : x > y;
}

bw_status bw_text__matches(bw_ctx *ctx, const bw_snapshot *s, const bw_text_query *q,
                           uint32_t from, const bw_bitmap *visible,
                           const bw_text_match **out, size_t *n)
{
    matches m = {.nterms = q->nterms, .from = from};
    bw_partition *p = s->part;
    bw_status st = bw_ctx_may_wait(ctx);
    *out = NULL;
    *n = 0;
    if (st != BW_OK)
        return st;
    pthread_mutex_lock(&p->db_lock);
    bool stale = atomic_load_explicit(&p->stale, memory_order_acquire);
    bw_db *db;
    if (p->dropped)
        st = bw_fail(ctx, BW_EUNAVAILABLE, "the text index cannot be used now");
    if (st == BW_OK && !stale)
        st = bw_pool_get(ctx, p, &db);
    if (st == BW_OK && !stale) {
        st = search_table(ctx, s, db, q->terms, visible, &m);
        bw_pool_put(p);
    }
    if (st == BW_OK && (stale || p->current != s)) /* locked: later ends do not count */
        st = search_memory(ctx, s, stale, q->stems, visible, &m);
    pthread_mutex_unlock(&p->db_lock);
    if (st != BW_OK)
        return st;
    if (m.n > 0)
        qsort(m.items, m.n, sizeof *m.items, by_row);
    *out = m.items;
    *n = m.n;
    return BW_OK;
}

bw_status bw_snapshot_text(bw_ctx *ctx, const bw_snapshot *s, const bw_str *terms,
                           size_t nterms, const bw_bitmap *visible,
                           bw_text_stats *stats, const bw_text_match **out, size_t *n)
{
    bw_text_query q = {.terms = terms, .nterms = nterms};
    bw_text__sum(s, visible, stats);
    *out = NULL;
    *n = 0;
    if (nterms == 0 || s->text_docs == 0)
        return BW_OK;
    if (nterms > BW_TEXT_TERMS_MAX)
        return bw_fail(ctx, BW_EINVALID, "a text query has more than %d terms",
                       BW_TEXT_TERMS_MAX);
    bw_status st = bw_text_stems(ctx, terms, nterms, &q.stems);
    return st == BW_OK ? bw_text__matches(ctx, s, &q, 0, visible, out, n) : st;
}
