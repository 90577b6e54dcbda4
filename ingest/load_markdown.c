/* Markdown (CommonMark's block structure as far as retrieval needs it): ATX and setext
 * headings, fenced code kept as it is, paragraphs, list items, tables as lines. Inline:
 * links and images leave their text, emphasis marks and tags go, code spans stay.
 * Front matter, HTML comments, script and style are dropped: a reader does not see
 * them, so a model should not. Left out: reference links' titles, footnotes, nested
 * quotes. */
#include "raw.h"
#include <strings.h>

/* A hostile line stays linear: what is looked for behind a mark is looked for within
 * these many bytes (data: addresses are the longest tags). */
enum { TAG_BYTES_MAX = 8192, LINK_BYTES_MAX = 2048, CODE_BYTES_MAX = 65536 };

typedef struct md {
    bw_raw *out;
    char *buf; /* the block being gathered */
    size_t n, cap;
    char fence; /* ` or ~ inside fenced code */
    size_t fence_len;
    const char *last_gt,
        *last_link;         /* of the line at hand: the last '>' and "](", or NULL */
    const char *hide_until; /* inside a comment or a script: the text that ends it */
} md;

static bool alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (unsigned char)c >= 0x80;
}

static void put(md *m, const char *p, size_t n)
{
    bw_require(n <=
               m->cap - m->n); /* cap: the whole text and a line end for each line */
    if (n)
        memcpy(m->buf + m->n, p, n);
    m->n += n;
}

static bw_status end_block(md *m, uint32_t heading)
{
    bw_status st = bw_raw_add(m->out, heading, 0, (bw_str){m->buf, m->n});
    m->n = 0;
    return st;
}

static const char *find(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    for (; (size_t)(end - p) >= n; p++)
        if (strncasecmp(p, word, n) == 0)
            return p;
    return NULL;
}

static const char *within(const char *p, const char *end, size_t most)
{
    return (size_t)(end - p) > most ? p + most : end;
}

/* A tag or comment at p ('<'): the place behind it, or NULL when it is none. Sets
 * hide_until when what it opens does not end on this line. */
static const char *skip_tag(md *m, const char *p, const char *end)
{
    static const char *const hiding[][2] = {
        {"<!--", "-->"}, {"<script", "</script>"}, {"<style", "</style>"}};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(hiding[i][0]);
        if ((size_t)(end - p) < n || strncasecmp(p, hiding[i][0], n) != 0)
            continue;
        const char *close = find(p + n, end, hiding[i][1]);
        if (close)
            return close + strlen(hiding[i][1]);
        m->hide_until = hiding[i][1];
        return end;
    }
    if (p + 1 == end || !(alnum(p[1]) || p[1] == '/') || (unsigned char)p[1] >= 0x80)
        return NULL;
    const char *close =
        p < m->last_gt ? memchr(p, '>', (size_t)(within(p, end, TAG_BYTES_MAX) - p))
                       : NULL;
    const char *colon = close ? memchr(p, ':', (size_t)(close - p)) : NULL;
    const char *blank = close ? memchr(p, ' ', (size_t)(close - p)) : NULL;
    if (!close || (colon && (!blank || colon < blank)))
        return NULL; /* an autolink keeps its address */
    return close + 1;
}

/* "](…)" or "][…]" at p: the place behind it, else NULL. */
static const char *link_tail(const char *p, const char *end)
{
    if (end - p > LINK_BYTES_MAX)
        end = p + LINK_BYTES_MAX;
    if (end - p < 2 || p[0] != ']' || (p[1] != '(' && p[1] != '['))
        return NULL;
    int depth = 0;
    char open = p[1], close = open == '(' ? ')' : ']';
    for (p++; p < end; p++) {
        depth += (*p == open) - (*p == close);
        if (depth == 0)
            return p + 1;
    }
    return NULL;
}

/* '*' and '_' that mark emphasis: not between blanks, '_' not inside a word. */
static bool emphasis(const char *line, const char *p, const char *run_end,
                     const char *end)
{
    char before = p > line ? p[-1] : ' ', after = run_end < end ? *run_end : ' ';
    bool blank_before = before == ' ' || before == '\t',
         blank_after = after == ' ' || after == '\t';
    return !(blank_before && blank_after) &&
           !(*p == '_' && alnum(before) && alnum(after)) &&
           !(*p == '*' && before >= '0' && before <= '9' && after >= '0' &&
             after <= '9');
}

/* A run of ` at p: the span up to an equal run, as it is; or the marks alone. */
static const char *code_span(md *m, const char *p, const char *end)
{
    const char *begin = p;
    while (begin < end && *begin == '`')
        begin++;
    size_t marks = (size_t)(begin - p), run = 0;
    const char *last = within(begin, end, CODE_BYTES_MAX);
    for (const char *c = begin; c < last; c++) {
        run = *c == '`' ? run + 1 : 0;
        if (run == marks && (c + 1 == end || c[1] != '`')) {
            put(m, begin, (size_t)(c + 1 - begin) - marks);
            return c + 1;
        }
    }
    return begin;
}

static void inline_text(md *m, const char *p, const char *end)
{
    const char *line = p;
    size_t brackets = 0;
    m->last_gt = p < end ? memrchr(p, '>', (size_t)(end - p)) : NULL;
    m->last_link = NULL;
    for (const char *c = end - 1; c > p && !m->last_link; c--)
        if (c[0] == '(' && c[-1] == ']')
            m->last_link = c - 1;
    while (p < end) {
        const char *next = p + 1;
        if (*p == '\\' && next < end && (unsigned char)*next < 0x80 && !alnum(*next)) {
            put(m, next, 1);
            next++;
        } else if (*p == '`') {
            next = code_span(m, p, end);
        } else if (*p == '<' && (next = skip_tag(m, p, end)) != NULL) {
        } else if (*p == '!' && p + 1 < end && p[1] == '[') {
            brackets++;
            next = p + 2;
        } else if (*p == '[') {
            brackets++;
            next = p + 1;
            if (p > m->last_link)
                put(m, p, 1);
        } else if (*p == ']' && brackets) {
            brackets--;
            next = link_tail(p, end);
            if (!next) {
                put(m, p, 1);
                next = p + 1;
            }
        } else if (*p == '*' || *p == '_') {
            const char *run = p;
            while (run < end && *run == *p)
                run++;
            if (!emphasis(line, p, run, end))
                put(m, p, (size_t)(run - p));
            next = run;
        } else {
            next = p + 1;
            put(m, p, 1);
        }
        p = next;
    }
}

/* "#" … "######" and a blank: the level, *text behind it without closing marks. */
static uint32_t atx(bw_str line, bw_str *text)
{
    size_t n = 0;
    while (n < line.len && line.ptr[n] == '#')
        n++;
    if (n == 0 || n > 6 || (n < line.len && line.ptr[n] != ' ' && line.ptr[n] != '\t'))
        return 0;
    *text = (bw_str){line.ptr + n, line.len - n};
    size_t end = text->len;
    while (end > 0 && text->ptr[end - 1] == '#')
        end--;
    if (end < text->len && (end == 0 || text->ptr[end - 1] == ' '))
        text->len = end;
    return (uint32_t)n;
}

static uint32_t setext(bw_str line)
{
    size_t i = 1;
    if (line.len < 2 || (line.ptr[0] != '=' && line.ptr[0] != '-'))
        return 0;
    while (i < line.len && line.ptr[i] == line.ptr[0])
        i++;
    return i < line.len ? 0 : line.ptr[0] == '=' ? 1 : 2;
}

/* Three or more of ` or ~: their number. */
static size_t fence_at(bw_str line, char *mark)
{
    size_t n = 0;
    if (line.len < 3 || (line.ptr[0] != '`' && line.ptr[0] != '~'))
        return 0;
    while (n < line.len && line.ptr[n] == line.ptr[0])
        n++;
    *mark = line.ptr[0];
    return n >= 3 ? n : 0;
}

static bool table_rule(bw_str line)
{
    bool dash = false;
    for (size_t i = 0; i < line.len; i++) {
        dash = dash || line.ptr[i] == '-';
        if (!strchr("|-: \t", line.ptr[i]) || line.ptr[i] == 0)
            return false;
    }
    return dash && memchr(line.ptr, '|', line.len);
}

static bool list_item(bw_str line)
{
    size_t i = 0;
    while (i < line.len && line.ptr[i] >= '0' && line.ptr[i] <= '9')
        i++;
    if (i == 0 && line.len > 1 && strchr("-*+", line.ptr[0]))
        return line.ptr[1] == ' ' || line.ptr[1] == '\t';
    return i > 0 && i + 1 < line.len && (line.ptr[i] == '.' || line.ptr[i] == ')') &&
           line.ptr[i + 1] == ' ';
}

static bw_str trim_left(bw_str s)
{
    while (s.len && (*s.ptr == ' ' || *s.ptr == '\t'))
        s = (bw_str){s.ptr + 1, s.len - 1};
    return s;
}

static bw_str trim(bw_str s)
{
    while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return trim_left(s);
}

static void add_line(md *m, bw_str line)
{
    if (m->n)
        put(m, "\n", 1);
    if (list_item(line) && line.ptr[0] == '*') { /* a bullet, no emphasis */
        put(m, "-", 1);
        line = (bw_str){line.ptr + 1, line.len - 1};
    }
    inline_text(m, line.ptr, line.ptr + line.len);
}

/* A line outside fenced code and hidden parts. */
static bw_status plain_line(md *m, bw_str line)
{
    bw_str text;
    char mark = 0;
    bw_status st = BW_OK;
    line = trim(line);
    while (line.len && line.ptr[0] == '>')
        line = trim_left((bw_str){line.ptr + 1, line.len - 1});
    uint32_t level = atx(line, &text);
    size_t fence = fence_at(line, &mark);
    if (line.len == 0 || level || fence) {
        st = end_block(m, 0);
        m->fence = fence ? mark : 0;
        m->fence_len = fence;
        if (!st && level) {
            text = trim(text);
            inline_text(m, text.ptr, text.ptr + text.len);
            st = end_block(m, level);
        }
        return st;
    }
    if (setext(line) && m->n)
        return end_block(m, setext(line));
    if (table_rule(line) || setext(line) ||
        (line.ptr[0] == '[' && find(line.ptr, line.ptr + line.len, "]: ")))
        return BW_OK; /* rules and link definitions */
    add_line(m, line);
    return BW_OK;
}

static bw_status one_line(md *m, bw_str line)
{
    char mark = 0;
    if (m->hide_until) {
        const char *end = line.ptr + line.len,
                   *close = find(line.ptr, end, m->hide_until);
        if (!close)
            return BW_OK;
        close += strlen(m->hide_until);
        m->hide_until = NULL;
        return plain_line(m, (bw_str){close, (size_t)(end - close)});
    }
    if (!m->fence)
        return plain_line(m, line);
    bw_str t = trim(line);
    size_t n = fence_at(t, &mark);
    if (n >= m->fence_len && mark == m->fence && n == t.len) {
        m->fence = 0;
        return end_block(m, 0);
    }
    if (m->n)
        put(m, "\n", 1);
    put(m, line.ptr, line.len);
    return BW_OK;
}

/* "---" on the first line up to the next "---" or "...": dropped. */
static size_t front_matter(bw_str s)
{
    size_t pos = 0;
    bw_str line;
    if (!bw_raw_line(s, &pos, &line) || !bw_str_is(line, "---"))
        return 0;
    while (bw_raw_line(s, &pos, &line))
        if (bw_str_is(line, "---") || bw_str_is(line, "..."))
            return pos < s.len ? pos : s.len;
    return 0;
}

bw_status bw_load_markdown(bw_str bytes, bw_raw *out)
{
    bw_str s = {NULL, 0}, line;
    bw_status st = bw_decode_text(out->ctx, bytes, (bw_str){NULL, 0}, &s);
    if (st)
        return st;
    md m = {.out = out, .cap = 2 * s.len + 16};
    m.buf = bw_arena_alloc(out->ctx, m.cap);
    if (!m.buf)
        return bw_fail_nomem(out->ctx);
    size_t pos = front_matter(s);
    while (!st && bw_raw_line(s, &pos, &line))
        st = one_line(&m, line);
    return st ? st : end_block(&m, 0);
}
