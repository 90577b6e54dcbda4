/* What must hold of every policy set that was read, whatever it says: the laws of
 * formatting, of the JSON form and of writing. For unit tests and fuzz targets. */
#ifndef BW_TEST_CEDAR_LAWS_H
#define BW_TEST_CEDAR_LAWS_H
#include <policies/cedar/lex.h>

#include <stdlib.h>

/* Text without white space between its tokens, and its comments sorted, a line each:
 * formatting must leave both alone. False: it is no Cedar. */
typedef struct law_text {
    bw_buf tokens, comments;
} law_text;

static inline void law_clear(law_text *t)
{
    bw_buf_clear(&t->tokens);
    bw_buf_clear(&t->comments);
}

static inline int law_cmp(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

static inline bool law_take(bw_ctx *ctx, bw_str text, law_text *out)
{
    bw_cedar__lex lx;
    bw_str *all = bw_arena_alloc(ctx, (text.len / 2 + 1) * sizeof *all);
    size_t n = 0;
    if (!all || bw_cedar__lex_start(ctx, text, &lx) != BW_OK)
        return false;
    for (bool last = false; !last;) {
        last = lx.tok == BW_CEDAR__T_END;
        for (size_t i = lx.prev_end; i < lx.start; i++) {
            size_t from = i;
            if (text.ptr[i] != '/')
                continue;
            while (i < text.len && text.ptr[i] != '\n' && text.ptr[i] != '\r')
                i++;
            size_t end = i;
            while (text.ptr[end - 1] == ' ' || text.ptr[end - 1] == '\t')
                end--;
            all[n++] = (bw_str){text.ptr + from, end - from};
        }
        bw_buf_str(&out->tokens, bw_cedar__lex_text(&lx));
        bw_buf_putc(&out->tokens, '\n');
        if (!last && bw_cedar__lex_next(&lx) != BW_OK)
            return false;
    }
    if (n)
        qsort(all, n, sizeof *all, law_cmp);
    for (size_t i = 0; i < n; i++) {
        bw_buf_str(&out->comments, all[i]);
        bw_buf_putc(&out->comments, '\n');
    }
    return true;
}

static inline bool law_same(const bw_buf *a, const bw_buf *b)
{
    return !a->failed && !b->failed && bw_str_eq(bw_buf_view(a), bw_buf_view(b));
}

/* How deep JSON nests; JSON that we wrote. */
static inline uint32_t law_depth(const bw_buf *b)
{
    uint32_t depth = 0, most = 0;
    bool quoted = false;
    for (size_t i = 0; i < b->len; i++) {
        char c = b->ptr[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            most = ++depth > most ? depth : most;
        else if (!quoted && (c == '}' || c == ']'))
            depth--;
    }
    return most;
}

/* Formatting keeps tokens and comments, means the same, and is done once. */
static inline const char *law_format(bw_ctx *ctx, bw_str text)
{
    bw_buf once = {0}, twice = {0};
    law_text before = {0}, after = {0};
    const char *why = NULL;
    if (bw_cedar_policies_format(ctx, text, &once) != BW_OK)
        why = bw_ctx_message(ctx);
    else if (bw_cedar_policies_format(ctx, bw_buf_view(&once), &twice) != BW_OK)
        why = "what was formatted does not parse";
    else if (!law_same(&once, &twice))
        why = "formatting again changes more";
    else if (!law_take(ctx, text, &before) ||
             !law_take(ctx, bw_buf_view(&once), &after))
        why = "tokens";
    else if (!law_same(&before.tokens, &after.tokens))
        why = "formatting changes tokens";
    else if (!law_same(&before.comments, &after.comments))
        why = "formatting changes comments";
    law_clear(&before);
    law_clear(&after);
    bw_buf_clear(&once);
    bw_buf_clear(&twice);
    return why;
}

/* A set's JSON form, read again, has the same form. Too deep or too large: no law. */
static inline const char *law_json(bw_ctx *ctx, const bw_cedar_policies *p)
{
    bw_buf form = {0}, again = {0};
    bw_cedar_policies *read = NULL;
    const char *why = NULL;
    bw_status st = bw_cedar_policies_write_json(ctx, p, &form);
    if (st == BW_EINVALID && form.len == 0)
        return NULL;
    if (st != BW_OK)
        why = bw_ctx_message(ctx);
    else if (law_depth(&form) > 256)
        why = NULL;
    else if (bw_cedar_policies_parse_json(ctx, bw_buf_view(&form), &read) != BW_OK)
        why = bw_ctx_message(ctx);
    else if (bw_cedar_policies_count(read) != bw_cedar_policies_count(p))
        why = "the JSON form has more or fewer policies";
    else if (bw_cedar_policies_write_json(ctx, read, &again) != BW_OK ||
             !law_same(&form, &again))
        why = "the JSON form differs when written again";
    bw_cedar_policies_free(read);
    bw_buf_clear(&form);
    bw_buf_clear(&again);
    return why;
}

/* Written as text and read again, a set is written the same; text has no ids. */
static inline const char *law_write(bw_ctx *ctx, const bw_cedar_policies *p)
{
    bw_buf text = {0}, again = {0};
    law_text a = {0}, b = {0};
    bw_cedar_policies *read = NULL;
    const char *why = NULL;
    bw_status st = bw_cedar_policies_write(ctx, p, &text);
    if (st == BW_EINVALID && text.len == 0)
        return NULL;
    if (st != BW_OK || bw_cedar_policies_parse(ctx, bw_buf_view(&text), &read) != BW_OK)
        why = bw_ctx_message(ctx);
    else if (bw_cedar_policies_count(read) != bw_cedar_policies_count(p))
        why = "the text has more or fewer policies";
    else if (bw_cedar_policies_write(ctx, read, &again) != BW_OK ||
             !law_take(ctx, bw_buf_view(&text), &a) ||
             !law_take(ctx, bw_buf_view(&again), &b) || !law_same(&a.tokens, &b.tokens))
        why = "the text differs when written again";
    if (!why)
        why = law_format(ctx, bw_buf_view(&text));
    law_clear(&a);
    law_clear(&b);
    bw_cedar_policies_free(read);
    bw_buf_clear(&text);
    bw_buf_clear(&again);
    return why;
}

/* The text of a set and what is written of it have one JSON form. */
static inline const char *law_text_json(bw_ctx *ctx, const bw_cedar_policies *p)
{
    bw_buf text = {0}, form = {0}, again = {0};
    bw_cedar_policies *read = NULL;
    const char *why = NULL;
    if (bw_cedar_policies_write_json(ctx, p, &form) != BW_OK)
        return NULL; /* too large */
    if (bw_cedar_policies_write(ctx, p, &text) != BW_OK ||
        bw_cedar_policies_parse(ctx, bw_buf_view(&text), &read) != BW_OK ||
        bw_cedar_policies_write_json(ctx, read, &again) != BW_OK)
        why = bw_ctx_message(ctx);
    else if (!law_same(&form, &again))
        why = "what is written has another JSON form";
    bw_cedar_policies_free(read);
    bw_buf_clear(&text);
    bw_buf_clear(&form);
    bw_buf_clear(&again);
    return why;
}

/* All of them, of a set that came from text. NULL: they hold. */
static inline const char *law_breach(bw_ctx *ctx, bw_str text,
                                     const bw_cedar_policies *p)
{
    const char *why = law_format(ctx, text);
    why = why ? why : law_json(ctx, p);
    why = why ? why : law_write(ctx, p);
    return why ? why : law_text_json(ctx, p);
}
#endif
