/* Text -> WordPiece ids (wordpiece.h). One pass over the text, stops at ids_max.
 *
 * Steps per code point, in the reference's order: special tokens ([CLS] …) spelled out
 * in the text are taken as such; NUL, U+FFFD and categories Cc, Cf, Co are dropped and
 * blanks unified; CJK ideographs become words of their own; NFD, nonspacing marks
 * dropped; lower case by single code points (so final sigma stays σ). Words end at
 * blanks; punctuation (category P or ASCII symbols) is a word alone. A word is cut
 * greedily into the longest pieces; one that cannot be cut, or has more than 100 code
 * points, is [UNK].
 *
 * Left out: canonical reordering between decomposed code points (it moves nonspacing
 * marks only, which are dropped, but for a handful of musical and tone signs). */
#include "wordpiece.h"
#include "../engine/base/map.h"
#include <utf8proc.h>

enum {
    WORD_CHARS_MAX = 100, /* the reference's max_input_chars_per_word */
    WORD_BYTES_MAX = 4 * WORD_CHARS_MAX,
    DECOMPOSED_MAX = 32, /* longest canonical decomposition is 4 */
    SPECIALS = 5
};
static const char *const special_names[SPECIALS] = {"[CLS]", "[SEP]", "[UNK]", "[PAD]",
                                                    "[MASK]"};

struct bw_wordpiece {
    bw_map *pieces; /* piece -> id + 1 */
    bw_wordpiece_options o;
    uint32_t special[SPECIALS];
    bool has_special[SPECIALS];
    uint32_t nids;
};

/* One run's state: the word being gathered and the output. */
typedef struct run {
    const bw_wordpiece *w;
    uint32_t *ids;
    size_t n, max;
    char word[2 + WORD_BYTES_MAX]; /* "##" stands before the rest of a word */
    size_t len, chars;
} run;

static bool lookup(const bw_wordpiece *w, const char *piece, size_t n, uint32_t *id)
{
    const uint64_t *slot = bw_map_get(w->pieces, piece, n);
    if (slot)
        *id = (uint32_t)(*slot - 1);
    return slot != NULL;
}

static bw_status add_piece(bw_ctx *ctx, bw_wordpiece *w, bw_str piece, uint64_t id)
{
    bool fresh;
    if (id >= UINT32_MAX - 1)
        return bw_fail(ctx, BW_ECORRUPT, "vocabulary: id out of range");
    uint64_t *slot = bw_map_put(w->pieces, piece.ptr, piece.len, &fresh);
    if (!slot)
        return bw_fail_nomem(ctx);
    *slot = id + 1; /* a piece given twice: the last line wins, as in the reference */
    if (id + 1 > w->nids)
        w->nids = (uint32_t)id + 1;
    return BW_OK;
}

static bw_status read_lines(bw_ctx *ctx, bw_wordpiece *w, bw_str text)
{
    uint64_t id = 0;
    for (size_t i = 0; i < text.len; id++) {
        const char *line = text.ptr + i, *eol = memchr(line, '\n', text.len - i);
        size_t n = eol ? (size_t)(eol - line) : text.len - i;
        i += n + 1;
        if (n > 0 && line[n - 1] == '\r')
            n--;
        bw_status st = add_piece(ctx, w, (bw_str){line, n}, id);
        if (st)
            return st;
    }
    return BW_OK;
}

static bw_status read_json(bw_ctx *ctx, bw_wordpiece *w, bw_str text)
{
    bw_json *root;
    bw_status st = bw_json_parse(ctx, text, BW_JSON_CEDAR, &root);
    if (st)
        return st;
    const bw_json *model = bw_json_get(root, "model"),
                  *type = bw_json_get(model, "type");
    const bw_json *vocab = bw_json_get(model, "vocab");
    if (!type || !bw_str_is(type->str, "WordPiece") || !vocab ||
        vocab->kind != BW_JSON_OBJECT)
        return bw_fail(ctx, BW_ECORRUPT, "tokenizer.json: no WordPiece model");
    for (const bw_json *v = vocab->child; v; v = v->next) {
        uint64_t id;
        if (!bw_json_u64(v, &id))
            return bw_fail(ctx, BW_ECORRUPT, "tokenizer.json: an id is no integer");
        st = add_piece(ctx, w, v->key, id);
        if (st)
            return st;
    }
    return BW_OK;
}

bw_status bw_wordpiece_new(bw_ctx *ctx, bw_str vocab, bool json, bw_wordpiece_options o,
                           bw_wordpiece **out)
{
    bw_wordpiece *w = bw_calloc(1, sizeof *w);
    if (!w || !(w->pieces = bw_map_new())) {
        bw_free(w);
        return bw_fail_nomem(ctx);
    }
    w->o = o;
    bw_status st = json ? read_json(ctx, w, vocab) : read_lines(ctx, w, vocab);
    for (size_t i = 0; i < SPECIALS; i++)
        w->has_special[i] =
            lookup(w, special_names[i], strlen(special_names[i]), &w->special[i]);
    if (!st && !(w->has_special[0] && w->has_special[1] && w->has_special[2]))
        st = bw_fail(ctx, BW_ECORRUPT, "vocabulary: [CLS], [SEP] or [UNK] is missing");
    if (st)
        bw_wordpiece_free(w);
    else
        *out = w;
    return st;
}

void bw_wordpiece_free(bw_wordpiece *w)
{
    if (!w)
        return;
    bw_map_free(w->pieces);
    bw_free(w);
}

uint32_t bw_wordpiece_ids(const bw_wordpiece *w)
{
    return w->nids;
}

static void emit(run *r, uint32_t id)
{
    if (r->n < r->max)
        r->ids[r->n++] = id;
}

/* Cuts the gathered word; nothing is emitted before the whole word is known to fit. */
static void flush(run *r)
{
    uint32_t pieces[WORD_CHARS_MAX];
    size_t n = 0, begin = 2, end = 2 + r->len;
    bool known = r->chars <= WORD_CHARS_MAX;
    if (r->chars == 0)
        return;
    while (known && begin < end) {
        size_t from = begin == 2 ? 2 : begin - 2, stop = end;
        char saved[2] = {r->word[from], r->word[from + 1]};
        if (from != 2 || begin != 2)
            r->word[from] = r->word[from + 1] = '#';
        for (; stop > begin; stop--) {
            if (stop < end && ((unsigned char)r->word[stop] & 0xC0) == 0x80)
                continue; /* inside a character */
            if (lookup(r->w, r->word + from, stop - from, &pieces[n]))
                break;
        }
        if (from != 2 || begin != 2) {
            r->word[from] = saved[0];
            r->word[from + 1] = saved[1];
        }
        known = stop > begin;
        n += known;
        begin = stop;
    }
    if (!known)
        emit(r, r->w->special[2]);
    for (size_t i = 0; known && i < n; i++)
        emit(r, pieces[i]);
    r->len = r->chars = 0;
}

static void gather(run *r, utf8proc_int32_t c)
{
    utf8proc_uint8_t b[4];
    size_t n = (size_t)utf8proc_encode_char(c, b);
    if (r->chars < WORD_CHARS_MAX) {
        memcpy(r->word + 2 + r->len, b, n);
        r->len += n;
    }
    r->chars++;
}

static bool is_cjk(utf8proc_int32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static bool is_blank(utf8proc_int32_t c)
{
    if (c == '\t' || c == '\n' || c == '\r' || c == ' ')
        return true;
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL ||
           k == UTF8PROC_CATEGORY_ZP;
}

static bool is_dropped(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return c == 0 || c == 0xFFFD || k == UTF8PROC_CATEGORY_CC ||
           k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

static bool is_punctuation(utf8proc_int32_t c)
{
    if (c < 128)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
               (c >= 123 && c <= 126);
    utf8proc_category_t k = utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

/* After cleaning: one code point of the normalised text. */
static void normalized(run *r, utf8proc_int32_t c)
{
    if (r->w->o.strip_accents && utf8proc_category(c) == UTF8PROC_CATEGORY_MN)
        return;
    if (r->w->o.lowercase)
        c = utf8proc_tolower(c);
    if (is_blank(c)) {
        flush(r);
    } else if (is_punctuation(c)) {
        flush(r);
        gather(r, c);
        flush(r);
    } else {
        gather(r, c);
    }
}

static void code_point(run *r, utf8proc_int32_t c)
{
    if (is_blank(c)) {
        flush(r);
        return;
    }
    if (is_dropped(c))
        return;
    bool alone = r->w->o.split_cjk && is_cjk(c);
    if (alone)
        flush(r);
    if (r->w->o.strip_accents && c >= 128) {
        utf8proc_int32_t parts[DECOMPOSED_MAX];
        int boundary = 0;
        utf8proc_ssize_t n = utf8proc_decompose_char(c, parts, DECOMPOSED_MAX,
                                                     UTF8PROC_DECOMPOSE, &boundary);
        for (utf8proc_ssize_t i = 0; i < n && n <= DECOMPOSED_MAX; i++)
            normalized(r, parts[i]);
    } else {
        normalized(r, c);
    }
    if (alone)
        flush(r);
}

/* A special token spelled out at p: its index, or SPECIALS. */
static size_t special_at(const bw_wordpiece *w, const char *p, size_t n)
{
    size_t i = 0;
    for (; i < SPECIALS; i++) {
        size_t len = strlen(special_names[i]);
        if (w->has_special[i] && n >= len && memcmp(p, special_names[i], len) == 0)
            break;
    }
    return i;
}

size_t bw_wordpiece_run(const bw_wordpiece *w, bw_str text, uint32_t *ids,
                        size_t ids_max)
{
    bw_require(ids_max >= 2);
    run r = {.w = w, .ids = ids, .max = ids_max - 1};
    emit(&r, w->special[0]);
    for (size_t i = 0; i < text.len && r.n < r.max;) {
        size_t s =
            text.ptr[i] == '[' ? special_at(w, text.ptr + i, text.len - i) : SPECIALS;
        if (s < SPECIALS) {
            flush(&r);
            emit(&r, w->special[s]);
            i += strlen(special_names[s]);
            continue;
        }
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text.ptr + i,
                                              (utf8proc_ssize_t)(text.len - i), &c);
        if (n > 0)
            code_point(&r, c);
        i += n > 0 ? (size_t)n : 1;
    }
    flush(&r);
    r.max = ids_max;
    emit(&r, w->special[1]);
    return r.n;
}
