/* explain=true (explain.h). */
#include "explain.h"
#include "../base/json.h"

bw_status bw_explain_new(bw_plan *p)
{
    p->explain = bw_arena_calloc(p->ctx, 1, sizeof *p->explain);
    if (!p->explain)
        return BW_ENOMEM;
    p->explain->last = &p->explain->first;
    return BW_OK;
}

bw_status bw_explain_begin(bw_plan *p, const char *kind, struct bw_explain_search **out)
{
    *out = NULL;
    if (!p->explain)
        return BW_OK;
    bw_explain_search *s = bw_arena_calloc(p->ctx, 1, sizeof *s);
    if (!s)
        return BW_ENOMEM;
    s->kind = kind;
    *p->explain->last = s;
    p->explain->last = &s->next;
    *out = s;
    return BW_OK;
}

static bw_explain_step *step_of(bw_explain_search *s, size_t part)
{
    if (s->last == part + 1)
        return s->nsteps > 0 && s->steps[s->nsteps - 1].part == part
                   ? &s->steps[s->nsteps - 1]
                   : NULL;
    s->last = (uint32_t)part + 1;
    s->partitions++;
    if (s->nsteps == BW_PLAN_EXPLAIN_STEPS_MAX)
        return NULL;
    bw_explain_step *step = &s->steps[s->nsteps++];
    *step = (bw_explain_step){.part = (uint32_t)part, .filter = "none"};
    return step;
}

void bw_explain_filter(bw_explain_search *s, size_t part, const char *filter,
                       uint64_t rows_read)
{
    bw_explain_step *step = step_of(s, part);
    s->rows_read += rows_read;
    if (step) {
        if (strcmp(step->filter, "none") == 0)
            step->filter = filter;
        step->rows_read += rows_read;
    }
}

static void add_trace(bw_search_trace *to, const bw_search_trace *t)
{
    to->rows_permitted += t->rows_permitted;
    to->rows_scanned += t->rows_scanned;
    to->rows_rescored += t->rows_rescored;
    to->hops += t->hops;
    to->segments_flat += t->segments_flat;
    to->segments_codes += t->segments_codes;
    to->segments_graph += t->segments_graph;
    to->loss = t->loss > to->loss ? t->loss : to->loss;
    to->unmeasured += t->unmeasured;
}

void bw_explain_search_done(bw_explain_search *s, size_t part, const bw_search_trace *t)
{
    if (!s)
        return;
    bw_explain_step *step = step_of(s, part);
    add_trace(&s->total, t);
    if (step)
        add_trace(&step->search, t);
}

void bw_explain_walk(bw_explain_search *s, size_t partitions, uint64_t rows_read,
                     uint64_t steps)
{
    s->partitions = partitions;
    s->rows_read = rows_read;
    s->total.rows_scanned = steps;
}

static void put_count(bw_buf *b, const char *name, uint64_t n)
{
    bw_json_put_key(b, name);
    bw_json_put_u64(b, n);
}

static void put_counts(bw_buf *b, uint64_t rows_read, const bw_search_trace *t)
{
    put_count(b, "payloads_read", rows_read);
    put_count(b, "rows_permitted", t->rows_permitted);
    put_count(b, "rows_scanned", t->rows_scanned);
    put_count(b, "rows_rescored", t->rows_rescored);
    put_count(b, "hops", t->hops);
    put_count(b, "segments_flat", t->segments_flat);
    put_count(b, "segments_codes", t->segments_codes);
    put_count(b, "segments_graph", t->segments_graph);
    bw_json_put_key(b, "recall_bound"); /* null: by a graph that was not measured */
    if (t->unmeasured > 0)
        bw_buf_puts(b, "null");
    else
        bw_json_put_f32(b, 1.0f - t->loss);
}

static void put_step(bw_plan *p, bw_buf *b, const bw_explain_step *step)
{
    char hex[BW_CLASS_TEXT + 1];
    bw_class_id_hex(&p->view->classes[step->part], hex);
    bw_json_sep(b);
    bw_buf_putc(b, '{');
    bw_json_put_key(b, "class");
    bw_json_put_str(b, bw_str_c(hex));
    bw_json_put_key(b, "filter");
    bw_json_put_str(b, bw_str_c(step->filter));
    put_counts(b, step->rows_read, &step->search);
    bw_buf_putc(b, '}');
}

static void put_search(bw_plan *p, bw_buf *b, const bw_explain_search *s)
{
    bw_json_sep(b);
    bw_buf_putc(b, '{');
    bw_json_put_key(b, "kind");
    bw_json_put_str(b, bw_str_c(s->kind));
    bw_json_put_key(b, "partitions");
    bw_json_put_u64(b, s->partitions);
    put_counts(b, s->rows_read, &s->total);
    bw_json_put_key(b, "steps");
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < s->nsteps; i++)
        put_step(p, b, &s->steps[i]);
    bw_buf_puts(b, "]}");
}

bw_status bw_explain_text(bw_plan *p, const char **out)
{
    bw_buf b = {0};
    bw_str text;
    bw_buf_puts(&b, "{\"plan\":{\"partitions\":");
    bw_json_put_u64(&b, p->view->nparts);
    bw_buf_puts(&b, ",\"searches\":[");
    for (const bw_explain_search *s = p->explain->first; s; s = s->next)
        put_search(p, &b, s);
    bw_buf_puts(&b, "]}}");
    bw_buf_putc(&b, '\0');
    bw_status st =
        b.failed ? bw_fail_nomem(p->ctx) : bw_arena_str(p->ctx, bw_buf_view(&b), &text);
    bw_buf_clear(&b);
    if (st == BW_OK)
        *out = text.ptr;
    return st;
}
