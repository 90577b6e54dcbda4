/* Clean text -> chunks (document.h). A chunk is a slice of the clean text: a heading
 * begins a new one (headings without a body join the next), long sections are cut at
 * the paragraph, sentence or word end nearest to the target size, and the next chunk
 * goes back by about bytes_overlap to a sentence or word begin. */
#include "document.h"

typedef struct chunker {
    bw_ctx *ctx;
    const bw_document *d;
    bw_chunk_options o;
    bw_chunk *out;
    size_t n, cap;
    bw_str headings[7]; /* by level, 1 … 6 */
} chunker;

enum { CHUNKS_MAX = 1 << 20, HEADING_BYTES_MAX = 120 };

static bool blank_at(const bw_document *d, uint64_t i)
{
    char c = d->text.ptr[i];
    return c == ' ' || c == '\n' || c == '\t';
}

static bool inside_char(const bw_document *d, uint64_t i)
{
    return i < d->text.len && ((unsigned char)d->text.ptr[i] & 0xC0) == 0x80;
}

/* What ends just before i: 3 paragraph, 2 sentence, 1 word, 0 nothing. */
static int end_class(const bw_document *d, uint64_t i)
{
    const char *p = d->text.ptr + i;
    if (i >= 2 && p[-1] == '\n' && p[-2] == '\n')
        return 3;
    if (i >= 3 && (memcmp(p - 3, "\xE3\x80\x82", 3) == 0 ||
                   memcmp(p - 3, "\xEF\xBC\x81", 3) == 0 ||
                   memcmp(p - 3, "\xEF\xBC\x9F", 3) == 0)) /* 。！？ */
        return 2;
    if (i < 1 || !blank_at(d, i - 1))
        return 0;
    if (i >= 2 && (p[-2] == '.' || p[-2] == '!' || p[-2] == '?' || p[-1] == '\n'))
        return 2;
    return 1;
}

/* The best cut within (begin, end], nearest to target inside the best class. */
static uint64_t best_cut(const bw_document *d, uint64_t begin, uint64_t end,
                         uint64_t target)
{
    uint64_t best = 0, distance = 0;
    int best_class = -1;
    for (uint64_t i = begin + 1; i <= end; i++) {
        if (inside_char(d, i))
            continue;
        int c = end_class(d, i);
        uint64_t off = i > target ? i - target : target - i;
        if (c > best_class || (c == best_class && off < distance)) {
            best = i;
            best_class = c;
            distance = off;
        }
    }
    return best ? best : end;
}

/* Where the next chunk begins: at a sentence, else a word, in the overlap before cut.
 */
static uint64_t overlap_begin(const chunker *c, uint64_t begin, uint64_t cut)
{
    uint64_t from =
        cut > begin + 1 + c->o.bytes_overlap ? cut - c->o.bytes_overlap : begin + 1;
    for (int want = 2; want >= 1; want--)
        for (uint64_t i = from; i < cut; i++)
            if (!inside_char(c->d, i) && end_class(c->d, i) >= want &&
                !blank_at(c->d, i))
                return i;
    return cut;
}

/* "H1 > H2" of the section in force; each part shortened. */
static bw_status heading_path(chunker *c, bw_str *out)
{
    bw_buf b = {0};
    for (size_t level = 1; level <= 6; level++) {
        bw_str h = c->headings[level];
        if (!h.len)
            continue;
        if (h.len > HEADING_BYTES_MAX)
            for (h.len = HEADING_BYTES_MAX;
                 h.len && ((unsigned char)h.ptr[h.len] & 0xC0) == 0x80;)
                h.len--;
        if (b.len)
            bw_buf_puts(&b, " > ");
        bw_buf_str(&b, h);
    }
    *out = (bw_str){NULL, 0};
    bw_status st = b.failed ? bw_fail_nomem(c->ctx)
                   : b.len  ? bw_arena_str(c->ctx, bw_buf_view(&b), out)
                            : BW_OK;
    bw_buf_clear(&b);
    return st;
}

static bw_status add(chunker *c, uint64_t begin, uint64_t end, bw_str headings,
                     size_t block)
{
    while (begin < end && blank_at(c->d, begin))
        begin++;
    while (end > begin && blank_at(c->d, end - 1))
        end--;
    if (begin == end)
        return BW_OK;
    if (c->n == CHUNKS_MAX)
        return bw_fail(c->ctx, BW_EINVALID,
                       "the document gives more chunks than the limit");
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 32;
        bw_chunk *grown =
            bw_arena_grow(c->ctx, c->out, c->n * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return bw_fail_nomem(c->ctx);
        c->out = grown;
        c->cap = cap;
    }
    while (block + 1 < c->d->nblocks && c->d->blocks[block + 1].byte_begin <= begin)
        block++;
    c->out[c->n] = (bw_chunk){.text = {c->d->text.ptr + begin, (size_t)(end - begin)},
                              .byte_begin = begin,
                              .byte_end = end,
                              .headings = headings,
                              .page = c->d->blocks[block].page,
                              .ordinal = (uint32_t)c->n};
    c->n++;
    return BW_OK;
}

/* Blocks first … last (included) under one heading path. */
static bw_status section(chunker *c, size_t first, size_t last)
{
    bw_str headings;
    uint64_t begin = c->d->blocks[first].byte_begin, end = c->d->blocks[last].byte_end;
    bw_status st = heading_path(c, &headings);
    while (!st && end - begin > c->o.bytes_max) {
        uint64_t cut = best_cut(c->d, begin + c->o.bytes_target / 2,
                                begin + c->o.bytes_max, begin + c->o.bytes_target);
        st = add(c, begin, cut, headings, first);
        begin = overlap_begin(c, begin, cut);
    }
    return st ? st : add(c, begin, end, headings, first);
}

static void enter_heading(chunker *c, const bw_block *b)
{
    c->headings[b->heading] = b->text;
    for (size_t level = b->heading + 1; level <= 6; level++)
        c->headings[level] = (bw_str){NULL, 0};
}

bw_status bw_document_chunk(bw_ctx *ctx, const bw_document *d,
                            const bw_chunk_options *o, const bw_chunk **out, size_t *n)
{
    chunker c = {.ctx = ctx, .d = d, .o = o ? *o : (bw_chunk_options){0}};
    c.o.bytes_target = c.o.bytes_target ? c.o.bytes_target : 900;
    c.o.bytes_max = c.o.bytes_max ? c.o.bytes_max : c.o.bytes_target + 500;
    if (o == NULL || o->bytes_overlap == 0)
        c.o.bytes_overlap = c.o.bytes_target >= 480 ? 120 : c.o.bytes_target / 4;
    if (c.o.bytes_target < 16 || c.o.bytes_max < c.o.bytes_target ||
        c.o.bytes_overlap > c.o.bytes_target / 4)
        return bw_fail(ctx, BW_EINVALID,
                       "chunk sizes: 16 <= target <= max, overlap <= target / 4");
    bw_status st = BW_OK;
    for (size_t i = 0; i < d->nblocks && !st;) {
        size_t first = i;
        while (i < d->nblocks && d->blocks[i].heading)
            enter_heading(&c, &d->blocks[i++]);
        while (i < d->nblocks && !d->blocks[i].heading)
            i++;
        st = section(&c, first, i - 1);
    }
    if (st)
        return st;
    *out = c.out;
    *n = c.n;
    return BW_OK;
}
