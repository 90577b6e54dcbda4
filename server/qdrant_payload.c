/* What of a point is shown: with_payload and with_vector, and the payload's bytes after
 * a selector (contract, section 2, "with_payload").
 *
 * A payload that is shown whole goes out as the bytes that came in. A selector walks
 * the stored text and copies the spans that stay, so 64-bit integers and key order
 * survive. Source: Qdrant's PayloadSelector over JsonPath: `include` keeps a value
 * whose path is a prefix of a pattern or has one as prefix; `exclude` drops a value
 * that a pattern is a prefix of. Elements of an array stand at [i] and match [] and
 * [i]; a plain a.b does not go into an array. */
#include "qdrant.h"

/* ---- the wire form ---- */

static bw_status paths(bw_qdrant_parse *p, const bw_json *list, const bw_path **out,
                       uint32_t *n)
{
    const bw_json *e;
    bw_status s = bw_qdrant__list(p, list, "payload paths", BW_LIMIT_KEYS, &e, n);
    if (s != BW_OK)
        return s;
    bw_path *kept = bw_arena_calloc(p->ctx, *n, sizeof *kept);
    if (!kept)
        return bw_fail_nomem(p->ctx);
    for (uint32_t i = 0; e; e = e->next, i++) {
        bw_str text;
        if ((s = bw_qdrant__path_field(p, e, "path", &text)) != BW_OK ||
            (s = bw_path_parse(p->ctx, text, &kept[i])) != BW_OK)
            return s;
    }
    *out = kept;
    return BW_OK;
}

static bw_status show_payload(bw_qdrant_parse *p, const bw_json *v,
                              bw_qdrant_show *show)
{
    show->include = show->exclude = NULL;
    if (bw_json_is_bool(v)) {
        show->payload = v->kind == BW_JSON_TRUE;
        return BW_OK;
    }
    show->payload = true;
    if (bw_json_is_array(v))
        return paths(p, v, &show->include, &show->ninclude);
    if (v->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, v,
                                 "expected true, false, a list of paths, "
                                 "{\"include\": […]} or {\"exclude\": […]}");
    const bw_json *word = NULL;
    for (const bw_json *m = v->child; m; m = m->next) {
        if (!bw_str_is(m->key, "include") && !bw_str_is(m->key, "exclude"))
            return bw_qdrant__format(p, m,
                                     "unknown word, expected `include` or `exclude`");
        if (m->kind == BW_JSON_NULL)
            continue;
        if (word)
            return bw_qdrant__format(p, m,
                                     "`include` and `exclude` do not go together");
        word = m;
    }
    if (!word)
        return bw_qdrant__format(p, v, "expected `include` or `exclude`");
    return bw_str_is(word->key, "include")
               ? paths(p, word, &show->include, &show->ninclude)
               : paths(p, word, &show->exclude, &show->nexclude);
}

bw_status bw_qdrant__vector_names(bw_qdrant_parse *p, const bw_json *v,
                                  const bw_str **out, uint32_t *n)
{
    const bw_json *e;
    bw_status s = bw_qdrant__list(p, v, "vector names", BW_LIMIT_VECTORS, &e, n);
    if (s != BW_OK)
        return s;
    bw_str *names = bw_arena_calloc(p->ctx, *n, sizeof *names);
    if (!names)
        return bw_fail_nomem(p->ctx);
    for (uint32_t i = 0; e; e = e->next, i++) {
        if (e->kind != BW_JSON_STRING)
            return bw_qdrant__format(p, e, "expected a vector name");
        if (p->info && !bw_qdrant__spec(p->info, e->str))
            return bw_qdrant__wrong(p, "Not existing vector name error: %.*s",
                                    bw_qdrant__cut(e->str, 96), e->str.ptr);
        names[i] = e->str;
    }
    *out = names;
    return BW_OK;
}

static bw_status show_vector(bw_qdrant_parse *p, const bw_json *v, bw_qdrant_show *show)
{
    show->names = NULL;
    if (bw_json_is_bool(v)) {
        show->vector = v->kind == BW_JSON_TRUE;
        return BW_OK;
    }
    bw_status s = bw_qdrant__vector_names(p, v, &show->names, &show->nnames);
    if (s == BW_OK)
        show->vector = true;
    return s;
}

bw_status bw_qdrant__show(bw_qdrant_parse *p, const bw_json *object,
                          const char *vectors, bw_qdrant_show *show)
{
    const bw_json *payload = bw_json_get_value(object, "with_payload");
    const bw_json *vector = bw_json_get_value(object, vectors);
    if (!vector) /* Qdrant takes both spellings everywhere */
        vector = bw_json_get_value(object, "with_vectors");
    bw_status s = payload ? show_payload(p, payload, show) : BW_OK;
    if (s == BW_OK && vector)
        s = show_vector(p, vector, show);
    return s;
}

/* ---- the bytes ---- */

/* What is stored was capped when it came; payload calls may have let it grow since. */
#define BW_STORED_JSON                                  \
    ((bw_json_limits){.depth_max = BW_LIMIT_JSON_DEPTH, \
                      .nodes_max = UINT32_MAX,          \
                      .bytes_max = UINT32_MAX})

typedef struct walk {
    bw_ctx *ctx;
    const bw_qdrant_show *show;
    bw_status status; /* the first failure */
    bw_step at[BW_LIMIT_JSON_DEPTH + 2];
    uint32_t depth;
} walk;

static bool step_fits(const bw_step *pattern, const bw_step *at)
{
    if (at->kind == BW_STEP_KEY)
        return pattern->kind == BW_STEP_KEY && bw_str_eq(pattern->key, at->key);
    return pattern->kind == BW_STEP_ALL ||
           (pattern->kind == BW_STEP_INDEX && pattern->index == at->index);
}

/* How much of the shorter of the two fits. */
static bool common(const walk *w, const bw_path *pattern)
{
    uint32_t n = pattern->n < w->depth ? pattern->n : w->depth;
    for (uint32_t i = 0; i < n; i++)
        if (!step_fits(&pattern->steps[i], &w->at[i]))
            return false;
    return true;
}

static bool stays(const walk *w)
{
    const bw_qdrant_show *s = w->show;
    for (uint32_t i = 0; s->include && i < s->ninclude; i++)
        if (common(w, &s->include[i]))
            return true;
    if (s->include)
        return false;
    for (uint32_t i = 0; i < s->nexclude; i++)
        if (s->exclude[i].n <= w->depth && common(w, &s->exclude[i]))
            return false;
    return true;
}

/* Does a pattern reach below the value at hand? Else it is copied as it stands. */
static bool goes_below(const walk *w)
{
    const bw_qdrant_show *s = w->show;
    const bw_path *list = s->include ? s->include : s->exclude;
    uint32_t n = s->include ? s->ninclude : s->nexclude;
    for (uint32_t i = 0; i < n; i++)
        if (list[i].n > w->depth && common(w, &list[i]))
            return true;
    return false;
}

/* Depth is the JSON reader's: at most BW_LIMIT_JSON_DEPTH. */
static void put_shown(walk *w, bw_buf *b, const bw_json *v)
{
    bool object = v->kind == BW_JSON_OBJECT;
    const bw_json *first_child = v->child;
    bw_require(w->depth <= BW_LIMIT_JSON_DEPTH);
    if (v->kind == BW_JSON_NUMBERS) {
        bw_status s = bw_json_elements(w->ctx, v, &first_child);
        if (s != BW_OK) {
            w->status = s;
            return;
        }
    }
    bw_buf_putc(b, object ? '{' : '[');
    bool first = true;
    uint32_t i = 0;
    for (const bw_json *m = first_child; m; m = m->next, i++) {
        bw_step *step = &w->at[w->depth++];
        step->kind = object ? BW_STEP_KEY : BW_STEP_INDEX;
        step->key = m->key;
        step->index = i;
        if (stays(w)) {
            if (!first)
                bw_buf_putc(b, ',');
            first = false;
            if (object) {
                bw_json_put_str(b, m->key);
                bw_buf_putc(b, ':');
            }
            if ((m->kind == BW_JSON_OBJECT || bw_json_is_array(m)) && goes_below(w))
                put_shown(w, b, m);
            else
                bw_buf_str(b, m->raw);
        }
        w->depth--;
    }
    bw_buf_putc(b, object ? '}' : ']');
}

bw_status bw_qdrant__put_payload(bw_ctx *ctx, bw_buf *b, bw_str payload,
                                 const bw_qdrant_show *show)
{
    if (payload.len == 0) {
        bw_buf_puts(b, "{}");
        return BW_OK;
    }
    if (!show->include && !show->exclude) {
        bw_buf_str(b, payload);
        return BW_OK;
    }
    bw_json *root;
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    bw_status s = bw_json_parse(ctx, payload, BW_STORED_JSON, &root);
    if (s == BW_OK && root->kind == BW_JSON_OBJECT) {
        walk w = {.ctx = ctx, .show = show};
        put_shown(&w, b, root);
        s = w.status;
    } else if (s == BW_OK || s == BW_EINVALID) {
        s = bw_fail(ctx, BW_ECORRUPT, "a stored payload is no JSON object");
    }
    bw_arena_release(ctx, mark);
    return s;
}
