/* Inverted lists of the words of texts, and BM25 over them.
 *
 * Rows are added in rising order and never taken out: the caller's bitmaps say which
 * count. Words come as the tokenizer left them (stemmed); nothing here splits a text.
 *
 *   score = Σ idf · tf·(k1 + 1) / (tf + k1·(1 − b + b·len/mean))     k1 1.2, b 0.75
 *
 * (Robertson & Zaragoza 2009), summed in double in the order of the query's words and
 * then rounded once, so a score has the same bits however it was found.
 * Thread class: guarded by its owner (partition/rows.h: the generation's index_lock). */
#ifndef BW_WORDS_H
#define BW_WORDS_H
#include "../base/bitmap.h"
#include "../kernels/topk.h"

enum { BW_WORDS_NONE = UINT32_MAX };

#define BW_BM25_K1 1.2
#define BW_BM25_B 0.75

/* mean: of the lengths of all texts that count; 0 when there are none. */
static inline double bw_bm25_norm(uint32_t length, double mean)
{
    return 1.0 - BW_BM25_B + (mean > 0 ? BW_BM25_B * (double)length / mean : 0);
}

/* One word's part of a score; tf > 0. Rises with tf and falls with norm. */
static inline double bw_bm25_part(double idf, double tf, double norm)
{
    return idf * tf * (BW_BM25_K1 + 1.0) / (tf + BW_BM25_K1 * norm);
}

typedef struct bw_words bw_words;

bw_words *bw_words_new(void); /* NULL: no memory */
void bw_words_free(bw_words *w); /* accepts NULL */
size_t bw_words_bytes(const bw_words *w);
uint32_t bw_words_rows(const bw_words *w); /* rows below this one are in it */

/* A row's text, word by word, between the two calls that say so; length in words. On
 * failure the row is not in it and may be put again. begin: row is not below
 * bw_words_rows; rows that are left out have no text. */
BW_MUST_USE bw_status bw_words_begin(bw_ctx *ctx, bw_words *w, uint32_t row, uint32_t length);
BW_MUST_USE bw_status bw_words_put(bw_ctx *ctx, bw_words *w, bw_str word);
void bw_words_undo(bw_words *w);              /* after a failed put */
void bw_words_end(bw_words *w, uint32_t rows); /* rows below `rows` are in it now */

uint32_t bw_words_find(const bw_words *w, bw_str word); /* a list; BW_WORDS_NONE */
/* How many rows below `end` hold the word. visible: those that count; NULL: all do. */
uint64_t bw_words_df(const bw_words *w, uint32_t list, uint32_t end,
                     const bw_bitmap *visible);

/* A walk over one list: rows rising, below `end`. */
typedef struct bw_words_cursor {
    const bw_words *w;
    uint32_t list;
    size_t at, n;
} bw_words_cursor;
void bw_words_walk(const bw_words *w, uint32_t list, uint32_t end, bw_words_cursor *c);
uint32_t bw_words_row(const bw_words_cursor *c); /* BW_WORDS_NONE: the end */
uint32_t bw_words_tf(const bw_words_cursor *c);

typedef struct bw_words_query {
    const uint32_t *lists; /* n; BW_WORDS_NONE: no row holds the word */
    const double *idf;     /* n, > 0 */
    size_t n;
    double mean;
    uint32_t end; /* rows below it take part */
    const bw_bitmap *allowed;
    const bw_point_id *ids; /* by row */
    uint32_t part;
} bw_words_query;

/* The best rows by BM25 among those allowed that hold a word, into out: rows that cannot
 * enter it are passed over (MaxScore, Turtle & Flood 1995). Looks at the deadline. */
BW_MUST_USE bw_status bw_words_search(bw_ctx *ctx, const bw_words *w,
                                      const bw_words_query *q, bw_topk *out);
#endif
