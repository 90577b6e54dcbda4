/* POST /v1/query: a question as text; dense, BM25 or both, over the classes that the
 * policies let this caller read for this purpose.
 *
 * The text is embedded by the cell's own encoder and goes nowhere else. It belongs to
 * no class; what it may be compared with is decided by the permitted set alone. hybrid:
 * reciprocal rank fusion with k = 60 and ranks from 1 (Cormack et al. 2009) over the
 * first max(100, limit) of each; the engine's ranks count from 0, so its k is 61.
 * Answer: {"hits": [{"id", "score", "text", "title", "source", "page", "headings",
 * "labels", "class", "version"}], "explain"?, "residency"?}. Every class's copy of an id is shown. */
#include "v1_explain.h"
#include "v1_ingest.h"

enum {
    QUERY_BYTES_MAX = 65536,
    QUERY_LIMIT_MAX = 1000,
    CANDIDATES_MIN = 100,
    RRF_K = 61
};

typedef enum query_mode { MODE_DENSE, MODE_BM25, MODE_HYBRID } query_mode;

typedef struct ask {
    bw_request *r;
    bw_ctx *ctx;
    bw_str text, collection;
    query_mode mode;
    uint32_t limit;
    bool explain, exact;
    float recall;
    bw_collection_info info;
    bw_permit permit;
    const bw_filter *filter;
    float *vector;
    uint32_t dim;
    bw_v1_window *window; /* NULL: all hits, texts whole */
    bw_v1_shown shown;
} ask;

static bw_status read_mode(ask *x, const bw_json *body)
{
    bw_str mode = BW_STR("hybrid");
    bw_status s = bw_v1_string(x->ctx, body, "mode", &mode);
    if (s)
        return s;
    if (bw_str_is(mode, "dense"))
        x->mode = MODE_DENSE;
    else if (bw_str_is(mode, "bm25"))
        x->mode = MODE_BM25;
    else if (bw_str_is(mode, "hybrid"))
        x->mode = MODE_HYBRID;
    else
        return bw_fail_at(x->ctx, BW_EINVALID, "/mode",
                          "mode: wants dense, bm25 or hybrid");
    return BW_OK;
}

static bw_status read_recall(ask *x, const bw_json *body)
{
    const bw_json *v = bw_json_get_value(body, "recall");
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_NUMBER || !(v->real >= 0.9 && v->real <= 1))
        return bw_fail_at(x->ctx, BW_EINVALID, "/recall",
                          "recall: wants a number from 0.9 to 1");
    x->recall = (float)v->real;
    return BW_OK;
}

static bw_status read_body(ask *x, const bw_json *body, const bw_json **filter)
{
    bw_status s = bw_v1_text(x->ctx, body, "query", 1, QUERY_BYTES_MAX, &x->text);
    if (!s)
        s = bw_v1_text(x->ctx, body, "collection", 1, BW_LIMIT_COLLECTION_NAME,
                       &x->collection);
    if (!s)
        s = bw_v1_number(x->ctx, body, "limit", 1, QUERY_LIMIT_MAX, &x->limit);
    if (!s)
        s = read_mode(x, body);
    if (!s)
        s = bw_v1_flag(x->ctx, body, "explain", &x->explain);
    if (!s)
        s = bw_v1_flag(x->ctx, body, "exact", &x->exact);
    if (!s)
        s = read_recall(x, body);
    *filter = s ? NULL : bw_json_get_value(body, "filter");
    return s;
}

static bw_status embed(ask *x)
{
    const bw_encoder *e;
    bw_status s = bw_v1_encoder(x->r, &x->info, &e);
    if (s)
        return s;
    x->dim = bw_encoder_dim(e);
    x->vector = bw_arena_calloc(x->ctx, x->dim, sizeof *x->vector);
    return x->vector ? bw_encoder_encode(x->ctx, e, &x->text, 1, x->vector)
                     : bw_fail_nomem(x->ctx);
}

static bw_status run(ask *x, bw_result **out)
{
    uint32_t candidates = x->limit > CANDIDATES_MIN ? x->limit : CANDIDATES_MIN;
    bw_query dense = {
        .kind = BW_QUERY_NEAREST,
        .using_name = BW_STR(""),
        .filter = x->filter,
        .limit = candidates,
        .recall = x->recall,
        .exact = x->exact || x->recall >= 1,
        .target = {.vector = {.name = BW_STR(""), .values = x->vector, .n = x->dim}}};
    bw_query words = {.kind = BW_QUERY_TEXT,
                      .using_name = BW_STR(""),
                      .text = x->text,
                      .filter = x->filter,
                      .limit = candidates};
    bw_query both[2] = {dense, words};
    bw_query root = x->mode == MODE_DENSE ? dense : words;
    if (x->mode == MODE_HYBRID)
        root = (bw_query){.kind = BW_QUERY_FUSION_RRF,
                          .using_name = BW_STR(""),
                          .rrf_k = RRF_K,
                          .prefetch = both,
                          .nprefetch = 2};
    root.limit = x->limit;
    root.show_all_copies = true;
    bw_read read = {.tenant = x->info.tenant,
                    .name = x->info.name,
                    .permit = &x->permit,
                    .now_ns = x->r->now_ns,
                    .explain = x->explain,
                    .no_vectors = true};
    return bw_query_run(x->ctx, bw_server_engine(x->r->server), &read, &root, 1, out);
}

/* Moves back to where a character begins. */
static size_t boundary(bw_str t, size_t at)
{
    while (at > 0 && at < t.len && ((unsigned char)t.ptr[at] & 0xc0) == 0x80)
        at--;
    return at;
}

static void put_text(bw_v1_shown *c, bw_buf *b, bw_str t)
{
    size_t from = boundary(t, c->text_skip < t.len ? c->text_skip : t.len), to = t.len;
    if (c->text_max && to - from > c->text_max)
        to = boundary(t, from + c->text_max);
    bw_json_put_str(b, (bw_str){t.ptr + from, to - from});
    c->text_next = to < t.len ? to : 0;
}

static void put_value(bw_buf *b, const char *key, const bw_json *v)
{
    bw_json_put_key(b, key);
    if (v)
        bw_buf_str(b, v->raw);
    else
        bw_buf_puts(b, "null");
}

static bw_status put_labels(bw_request *r, bw_v1_shown *c, bw_buf *b,
                            const bw_class_id *id)
{
    char hex[BW_CLASS_TEXT + 1];
    bw_status s = BW_OK;
    if (!c->last_labels.ptr || bw_class_id_cmp(id, &c->last_class) != 0)
        s = bw_gate_label_text(r, id, &c->last_labels);
    if (s)
        return s;
    c->last_class = *id;
    bw_class_id_hex(id, hex);
    bw_json_put_key(b, "labels");
    bw_buf_str(b, c->last_labels);
    bw_buf_printf(b, ",\"class\":\"%s\"", hex);
    return BW_OK;
}

bw_status bw_v1_put_hit(bw_request *r, bw_v1_shown *c, bw_buf *b, const bw_hit *hit)
{
    bw_json *payload = NULL;
    bw_arena_mark mark = bw_arena_mark_get(r->ctx);
    bw_status s = hit->payload.len
                      ? bw_json_parse(r->ctx, hit->payload, BW_QDRANT_JSON, &payload)
                      : BW_OK;
    if (s)
        return s == BW_EINVALID
                   ? bw_fail(r->ctx, BW_ECORRUPT, "a stored payload is no JSON")
                   : s;
    const bw_json *m = bw_json_get(payload, "metadata"),
                  *text = bw_json_get(payload, "page_content");
    c->text_next = 0;
    bw_json_sep(b);
    bw_buf_puts(b, "{\"id\":");
    bw_json_put_point_id(b, &hit->id);
    if (hit->has_score) {
        bw_json_put_key(b, "score");
        bw_json_put_f32(b, hit->score);
    }
    bw_json_put_key(b, "text");
    if (hit->text.ptr)
        put_text(c, b, hit->text);
    else if (text && text->kind == BW_JSON_STRING)
        put_text(c, b, text->str);
    else
        bw_buf_puts(b, "null");
    static const char *const shown[] = {"title",      "source",   "page",  "headings",
                                        "byte_begin", "byte_end", "digest"};
    for (size_t i = 0; i < sizeof shown / sizeof *shown - !c->digest; i++)
        put_value(b, shown[i], bw_json_get(m, shown[i]));
    bw_arena_release(r->ctx, mark);
    s = put_labels(r, c, b, &hit->class_id);
    bw_json_put_key(b, "version");
    bw_json_put_u64(b, hit->version);
    if (c->text_next) {
        bw_json_put_key(b, "text_next_offset");
        bw_json_put_u64(b, c->text_next);
    }
    bw_buf_putc(b, '}');
    return s;
}

/* The hits of the window; without one, all. A hit that is not shown is not in the audit
 * record either. */
static bw_status put_hits(ask *x, bw_buf *b, const bw_hit *hits, size_t n)
{
    bw_v1_window *w = x->window;
    size_t first = w ? w->skip : 0, end = w && n > first + w->take ? first + w->take : n;
    bw_status s = BW_OK;
    for (size_t i = first; i < end && !s; i++) {
        size_t before = b->len;
        s = bw_v1_put_hit(x->r, &x->shown, b, &hits[i]);
        if (w && w->shown > 0 && b->len > w->bytes_max) {
            b->len = before;
            w->more = true;
            return s;
        }
        bw_audit_add_id(x->r->audit, &hits[i].id, &hits[i].class_id);
        if (w)
            w->shown++;
    }
    if (w)
        w->more = n > end;
    return s;
}

static bw_status answer(ask *x, const bw_result *result, bw_response *out)
{
    size_t n;
    bw_status s = BW_OK;
    const bw_hit *hits = bw_result_hits(result, 0, &n);
    bw_buf_puts(&out->body, "{\"hits\":[");
    s = put_hits(x, &out->body, hits, n);
    bw_buf_putc(&out->body, ']');
    const char *plan = x->explain ? bw_result_explain(result) : "";
    if (*plan) {
        bw_json_put_key(&out->body, "explain");
        bw_buf_puts(&out->body, plan);
    }
    if (x->explain && !s) {
        bw_json_put_key(&out->body, "residency");
        s = bw_v1_put_residency(x->r, &out->body, x->permit.classes, x->permit.n,
                                x->mode != MODE_BM25);
    }
    bw_buf_putc(&out->body, '}');
    return s ? s : bw_v1_done(x->r, out);
}

bw_status bw_v1_query_answer(bw_request *r, const bw_json *body, bw_v1_window *window,
                             bw_response *out)
{
    ask x = {.r = r, .ctx = r->ctx, .limit = 10, .window = window};
    const bw_json *filter;
    bw_result *result = NULL;
    bw_status s = read_body(&x, body, &filter);
    if (!s)
        s = bw_gate_permit(r, x.collection, BW_ACTION_QUERY, &x.info, &x.permit);
    if (s)
        return s;
    if (window) { /* every page is cut from the same list */
        window->take = x.limit;
        x.limit = BW_V1_WINDOW_HITS;
        x.shown = (bw_v1_shown){.digest = true, .text_max = window->text_max};
    }
    bw_qdrant_parse p = {.ctx = r->ctx, .info = &x.info};
    s = bw_qdrant__filter(&p, filter, &x.filter);
    if (s == BW_EINVALID)
        out->status = p.status;
    if (!s && x.mode != MODE_BM25)
        s = embed(&x);
    if (!s)
        s = run(&x, &result);
    if (!s)
        s = answer(&x, result, out);
    bw_result_free(result);
    return s;
}

bw_status bw_v1_query(bw_request *r, bw_response *out)
{
    static const char *const allowed[] = {"query",  "collection", "limit", "mode",
                                          "filter", "explain",    "recall", "exact",
                                          NULL};
    const bw_json *body;
    bw_status s = bw_v1_body(r, allowed, &body);
    return s ? s : bw_v1_query_answer(r, body, NULL, out);
}
