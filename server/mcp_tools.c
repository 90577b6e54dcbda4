/* What the tools of /mcp do: each runs the /v1 call that it stands for, by its handler or
 * the handler's core, and writes the answer anew: with the place, the decision's id (the
 * request's, under which the audit log keeps what was decided) and not much more than
 * BW_MCP_OUTPUT_BYTES, cut between passages.
 *
 * Nothing is looked up but through those calls and bw_gate_permit. A call that fails
 * gives the /v1 error form as the tool's error: what a model asked wrongly, or may not
 * have, it can then ask otherwise. */
#include "../ingest/points.h"
#include "mcp_tools.h"
#include "v1_explain.h"
#include "v1_ingest.h"

enum { LIMIT_MAX = 50, NEIGHBOURS_MAX = 3 };

/* ---- what every answer has ---- */

static void put_decision(const bw_request *r, bw_buf *b)
{
    char id[17];
    bw_u64_hex(r->request_id, id);
    bw_json_put_key(b, "decision");
    bw_json_put_str(b, bw_str_c(id));
}

static void put_place(const bw_request *r, bw_buf *b)
{
    const bw_config *c = &r->server->config;
    bw_json_put_key(b, "place");
    bw_buf_puts(b, "{\"cell\":");
    bw_json_put_str(b, c->cell_id);
    bw_json_put_key(b, "country");
    bw_json_put_str(b, c->cell_country);
    bw_json_put_key(b, "operator");
    bw_json_put_str(b, c->cell_operator);
    bw_buf_putc(b, '}');
}

static void put_next(bw_buf *b, uint32_t next)
{
    bw_json_put_key(b, "next_offset");
    if (next)
        bw_json_put_u64(b, next);
    else
        bw_buf_puts(b, "null");
}

/* A hit's object, with where and by which decision it was read. */
static void put_passage(const bw_request *r, bw_buf *b, bw_str hit)
{
    bw_json_sep(b);
    bw_buf_str(b, (bw_str){hit.ptr, hit.len - 1});
    bw_json_put_key(b, "jurisdiction");
    bw_json_put_str(b, r->server->config.cell_country);
    put_decision(r, b);
    bw_buf_putc(b, '}');
}

static bw_status read_offset(bw_ctx *ctx, const bw_json *args, uint32_t max, uint32_t *out)
{
    *out = 0;
    return bw_v1_number(ctx, args, "offset", 0, max, out);
}

/* ---- search ---- */

bw_status bw_mcp__search(bw_request *r, const bw_json *args, bw_response *inner, bw_buf *b)
{
    static const char *const allowed[] = {"query", "collection", "limit", "offset",
                                          "mode",  "filter",     NULL};
    bw_v1_window w = {.bytes_max = BW_MCP_OUTPUT_BYTES, .text_max = BW_MCP_TEXT_BYTES};
    uint32_t limit = 0;
    bw_json *root = NULL;
    bw_status s = bw_v1_members(r->ctx, args, allowed);
    if (s == BW_OK)
        s = bw_v1_number(r->ctx, args, "limit", 1, LIMIT_MAX, &limit);
    if (s == BW_OK)
        s = read_offset(r->ctx, args, BW_V1_WINDOW_HITS, &w.skip);
    if (s == BW_OK)
        s = bw_v1_query_answer(r, args, &w, inner);
    if (s == BW_OK)
        s = bw_v1_done(r, inner);
    if (s == BW_OK)
        s = bw_json_parse(r->ctx, bw_buf_view(&inner->body), BW_JSON_REQUEST, &root);
    if (s != BW_OK)
        return s;
    bw_buf_puts(b, "\"passages\":[");
    const bw_json *hits = bw_json_get(root, "hits");
    for (const bw_json *h = hits->child; h; h = h->next)
        put_passage(r, b, h->raw);
    bw_buf_putc(b, ']');
    uint32_t next = w.skip + w.shown;
    put_next(b, w.more && w.shown && next < BW_V1_WINDOW_HITS ? next : 0);
    return BW_OK;
}

/* ---- get_passage ---- */

typedef struct passage {
    bw_request *r;
    bw_collection_info info;
    bw_permit permit;
    bw_read read;
    uint32_t neighbours, offset;
    bw_v1_shown shown;
} passage;

static bw_status put_point(passage *x, bw_buf *b, const bw_hit *hit)
{
    bw_buf one = {0};
    bw_status s = bw_v1_put_hit(x->r, &x->shown, &one, hit);
    if (s == BW_OK && one.failed)
        s = bw_fail_nomem(x->r->ctx);
    if (s == BW_OK)
        put_passage(x->r, b, bw_buf_view(&one));
    bw_buf_clear(&one);
    return s;
}

/* Chunks have ids made of their source and place in it (points.h), so the neighbours'
 * can be told without a search. Points that were relabelled keep their old ids: they,
 * like points that came over other routes, show none. */
static uint32_t neighbour_ids(const passage *x, const bw_hit *hit, bw_point_id *ids,
                              uint32_t *nbefore)
{
    bw_json *payload = NULL;
    uint64_t at = 0;
    uint32_t n = 0;
    *nbefore = 0;
    if (!hit->payload.len ||
        bw_json_parse(x->r->ctx, hit->payload, BW_QDRANT_JSON, &payload) != BW_OK)
        return 0;
    const bw_json *m = bw_json_get(payload, "metadata"),
                  *source = bw_json_get(m, "source");
    if (!source || source->kind != BW_JSON_STRING ||
        !bw_json_u64(bw_json_get(m, "ordinal"), &at) || at > UINT32_MAX - NEIGHBOURS_MAX)
        return 0;
    bw_source of = {.tenant = x->info.tenant,
                    .collection = x->info.name,
                    .source = source->str,
                    .class_id = hit->class_id};
    bw_point_id self;
    bw_source_point_id(&of, (uint32_t)at, &self);
    if (bw_point_id_cmp(&self, &hit->id) != 0)
        return 0;
    for (uint32_t k = x->neighbours; k > 0; k--)
        if (at >= k)
            bw_source_point_id(&of, (uint32_t)at - k, &ids[n++]);
    *nbefore = n;
    for (uint32_t k = 1; k <= x->neighbours; k++)
        bw_source_point_id(&of, (uint32_t)at + k, &ids[n++]);
    return n;
}

/* The nearest first while there is room; shown in the document's order. */
static bw_status put_neighbours(passage *x, bw_buf *b, const bw_hit *hit)
{
    bw_point_id ids[2 * NEIGHBOURS_MAX];
    uint32_t nbefore, n = x->offset ? 0 : neighbour_ids(x, hit, ids, &nbefore);
    bw_class_id class = hit->class_id;
    bw_permit same = {&class, 1};
    bw_read read = x->read;
    bw_result *result = NULL;
    size_t nhits = 0,
           room = BW_MCP_OUTPUT_BYTES > b->len ? BW_MCP_OUTPUT_BYTES - b->len : 0;
    bw_buf side[2] = {{0}, {0}};
    read.permit = &same;
    bw_status s = BW_OK;
    if (n > 0)
        s = bw_retrieve(x->r->ctx, bw_server_engine(x->r->server), &read, ids, n,
                        &result);
    const bw_hit *hits = result ? bw_result_hits(result, 0, &nhits) : NULL;
    for (size_t i = 0; i < nhits && s == BW_OK; i++) {
        bool before = false;
        for (uint32_t k = 0; k < n && k < nbefore; k++)
            before = before || bw_point_id_cmp(&ids[k], &hits[i].id) == 0;
        bw_buf *to = &side[before ? 0 : 1];
        size_t was = to->len;
        s = put_point(x, to, &hits[i]);
        if (side[0].len + side[1].len > room) /* this one is not shown */
            to->len = was;
        else if (s == BW_OK)
            bw_audit_add_id(x->r->audit, &hits[i].id, &hits[i].class_id);
    }
    for (int i = 0; i < 2; i++) {
        bw_json_put_key(b, i ? "after" : "before");
        bw_buf_putc(b, '[');
        bw_buf_str(b, bw_buf_view(&side[i]));
        bw_buf_putc(b, ']');
        if (side[i].failed && s == BW_OK)
            s = bw_fail_nomem(x->r->ctx);
        bw_buf_clear(&side[i]);
    }
    bw_result_free(result);
    return s;
}

bw_status bw_mcp__get_passage(bw_request *r, const bw_json *args, bw_response *inner,
                              bw_buf *b)
{
    static const char *const allowed[] = {"collection", "id", "neighbours", "offset",
                                          NULL};
    passage x = {.r = r, .neighbours = 1};
    bw_qdrant_parse p = {.ctx = r->ctx};
    bw_point_id id;
    bw_str collection;
    bw_result *result = NULL;
    size_t n = 0;
    (void)inner;
    bw_status s = bw_v1_members(r->ctx, args, allowed);
    if (s == BW_OK)
        s = bw_v1_text(r->ctx, args, "collection", 1, BW_LIMIT_COLLECTION_NAME,
                       &collection);
    if (s == BW_OK)
        s = bw_v1_number(r->ctx, args, "neighbours", 0, NEIGHBOURS_MAX, &x.neighbours);
    if (s == BW_OK)
        s = read_offset(r->ctx, args, UINT32_MAX, &x.offset);
    const bw_json *v = bw_json_get_value(args, "id");
    if (s == BW_OK && (!v || (s = bw_qdrant__point_id(&p, v, &id)) == BW_EINVALID))
        s = bw_fail_at(r->ctx, BW_EINVALID, "/id", "wants a passage's id");
    if (s == BW_OK)
        s = bw_gate_permit(r, collection, BW_ACTION_QUERY, &x.info, &x.permit);
    x.read = (bw_read){.tenant = x.info.tenant,
                       .name = x.info.name,
                       .permit = &x.permit,
                       .now_ns = r->now_ns,
                       .no_vectors = true};
    if (s == BW_OK)
        s = bw_retrieve(r->ctx, bw_server_engine(r->server), &x.read, &id, 1, &result);
    const bw_hit *hits = s == BW_OK ? bw_result_hits(result, 0, &n) : NULL;
    if (s == BW_OK && n == 0)
        s = bw_fail_at(r->ctx, BW_ENOTFOUND, "/id", "no such passage");
    if (s == BW_OK) {
        x.shown = (bw_v1_shown){
            .digest = true, .text_skip = x.offset, .text_max = BW_MCP_TEXT_BYTES};
        bw_buf_puts(b, "\"passage\":");
        s = put_point(&x, b, &hits[0]);
        bw_audit_add_id(r->audit, &hits[0].id, &hits[0].class_id);
    }
    if (s == BW_OK)
        s = put_neighbours(&x, b, &hits[0]);
    bw_result_free(result);
    return s;
}

/* ---- list_collections, explain_access ---- */

/* The object's members as they are, but of the list `paged` only the elements from
 * `offset` on that there is room for. *next: where to go on, or 0. */
static void put_paged(bw_buf *b, const bw_json *object, const char *paged, uint32_t offset,
                      uint32_t *next)
{
    *next = 0;
    for (const bw_json *m = object->child; m; m = m->next) {
        uint32_t at = 0;
        bw_json_sep(b);
        bw_json_put_str(b, m->key);
        bw_buf_putc(b, ':');
        if (!bw_str_eq(m->key, bw_str_c(paged)) || m->kind != BW_JSON_ARRAY) {
            bw_buf_str(b, m->raw);
            continue;
        }
        bw_buf_putc(b, '[');
        for (const bw_json *e = m->child; e && !*next; e = e->next, at++) {
            if (at > offset && b->len + e->raw.len > BW_MCP_OUTPUT_BYTES) {
                *next = at;
            } else if (at >= offset) {
                bw_json_sep(b);
                bw_buf_str(b, e->raw);
            }
        }
        bw_buf_putc(b, ']');
    }
}

/* A /v1 handler's answer to a body, parsed. body: as long-lived as the request, whose
 * audit record borrows names from it. */
static bw_status ask(bw_request *r, bw_handler handler, bw_str body, bw_response *inner,
                     const bw_json **out)
{
    bw_json *root = NULL;
    bw_str mine = r->body;
    r->body = body;
    bw_status s = handler(r, inner);
    r->body = mine;
    if (s == BW_OK && inner->body.failed)
        s = bw_fail_nomem(r->ctx);
    if (s == BW_OK)
        s = bw_json_parse(r->ctx, bw_buf_view(&inner->body), BW_JSON_REQUEST, &root);
    *out = root;
    return s;
}

bw_status bw_mcp__list_collections(bw_request *r, const bw_json *args, bw_response *inner,
                                   bw_buf *b)
{
    static const char *const allowed[] = {"offset", NULL};
    const bw_json *answer;
    uint32_t offset, next;
    bw_status s = bw_v1_members(r->ctx, args, allowed);
    if (s == BW_OK)
        s = read_offset(r->ctx, args, UINT32_MAX, &offset);
    if (s == BW_OK)
        s = ask(r, bw_v1_collections, BW_STR(""), inner, &answer);
    if (s != BW_OK)
        return s;
    put_paged(b, answer, "collections", offset, &next);
    put_next(b, next);
    return BW_OK;
}

static void copy(bw_buf *b, const bw_json *args, const char *from, const char *to)
{
    const bw_json *v = bw_json_get_value(args, from);
    if (!v)
        return;
    bw_json_put_key(b, to);
    bw_buf_str(b, v->raw);
}

bw_status bw_mcp__explain_access(bw_request *r, const bw_json *args, bw_response *inner,
                                 bw_buf *b)
{
    static const char *const allowed[] = {"collection", "id", "class", "mode", "offset",
                                          NULL};
    const bw_json *answer;
    uint32_t offset, next;
    bw_str collection, text = {NULL, 0};
    bw_buf body = {0};
    bool one = bw_json_get_value(args, "id") || bw_json_get_value(args, "class");
    bw_status s = bw_v1_members(r->ctx, args, allowed);
    if (s == BW_OK)
        s = bw_v1_text(r->ctx, args, "collection", 1, BW_LIMIT_COLLECTION_NAME,
                       &collection);
    if (s == BW_OK)
        s = read_offset(r->ctx, args, UINT32_MAX, &offset);
    if (s != BW_OK)
        return s;
    bw_buf_puts(&body, one ? "{\"action\":\"Query\"" : "{");
    copy(&body, args, "collection", "collection");
    copy(&body, args, "id", "point");
    copy(&body, args, "class", "class");
    if (!one)
        copy(&body, args, "mode", "mode");
    bw_buf_putc(&body, '}');
    s = body.failed ? bw_fail_nomem(r->ctx)
                    : bw_arena_str(r->ctx, bw_buf_view(&body), &text);
    bw_buf_clear(&body);
    if (s == BW_OK)
        s = ask(r, one ? bw_v1_explain : bw_v1_explain_result, text, inner, &answer);
    if (s == BW_OK) {
        bw_buf_puts(b, "\"explanation\":{");
        put_paged(b, answer, "classes", offset, &next);
        bw_buf_putc(b, '}');
        put_next(b, next);
    }
    return s;
}

/* ---- any tool ---- */

bw_status bw_mcp_tool_run(bw_request *r, const bw_mcp_tool *t, const bw_json *arguments,
                          bool *failed, bw_str *text)
{
    bw_response inner = {.status = 0};
    bw_buf b = {0};
    bw_json *args = NULL;
    bw_status s = bw_json_parse(r->ctx, arguments ? arguments->raw : BW_STR("{}"),
                                BW_JSON_REQUEST, &args);
    bw_buf_putc(&b, '{');
    if (s == BW_OK)
        s = t->run(r, args, &inner, &b);
    put_place(r, &b);
    put_decision(r, &b);
    bw_buf_putc(&b, '}');
    if (s == BW_OK && b.failed)
        s = bw_fail_nomem(r->ctx);
    *failed = s != BW_OK;
    if (*failed) {
        int http = inner.status >= 400 ? inner.status : bw_error_http_status(s);
        if (http >= 500)
            bw_log(BW_LOG_WARN, "request %016llx: tool %s: %d %s: %s",
                   (unsigned long long)r->request_id, t->name, http, bw_status_name(s),
                   bw_ctx_message(r->ctx));
        bw_error_response(&inner, BW_FAMILY_V1, http, s, bw_ctx_message(r->ctx),
                          bw_ctx_pointer(r->ctx));
    }
    bw_buf *from = *failed ? &inner.body : &b;
    s = from->failed ? bw_fail_nomem(r->ctx)
                     : bw_arena_str(r->ctx, bw_buf_view(from), text);
    bw_buf_clear(&inner.body);
    bw_buf_clear(&b);
    return s;
}
