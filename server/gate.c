/* The gate's own path. See gate.h; what handlers ask is in gate_permit.c.
 *
 * Sources: contract section 1 (forms of 401, 403, 404), security.md sections 3, 4, 7.
 * Leaves out: rate limits per key, JWTs (later issues; their place is authenticate). */
#include "gate_request.h"
#include <sodium.h>
#include <stdio.h>

static const char *const open_paths[] = {"/", "/healthz", "/livez", "/readyz"};

bool bw_gate_is_open(const bw_server *s, bw_str method, bw_str path)
{
    bw_str prefix = s->config.prefix;
    if (!bw_str_is(method, "GET"))
        return false;
    if (prefix.len > 0) {
        if (path.len < prefix.len || memcmp(path.ptr, prefix.ptr, prefix.len) != 0)
            return false;
        path = (bw_str){path.ptr + prefix.len, path.len - prefix.len};
        if (path.len == 0)
            return true;
    }
    if (bw_str_is(path, "/"))
        return true;
    if (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    for (size_t i = 1; i < sizeof open_paths / sizeof open_paths[0]; i++)
        if (bw_str_eq(path, bw_str_c(open_paths[i])))
            return true;
    return false;
}

bw_gate_work bw_gate_work_of(const bw_server *s, bw_str method, bw_str path)
{
    bw_uri_path p = {.n = 0};
    bw_str args[4], rest = path;
    size_t nargs, prefix = s->config.prefix.len;
    bool get = bw_str_is(method, "GET");
    if (rest.len < prefix || memchr(rest.ptr, '%', rest.len))
        return get ? BW_WORK_READ : BW_WORK_WRITE;
    rest = (bw_str){rest.ptr + prefix, rest.len - prefix};
    while (rest.len > 1 && p.n < BW_URI_SEGMENTS_MAX) { /* "/a/b/": a and b, as they are */
        const char *slash = memchr(rest.ptr + 1, '/', rest.len - 1);
        size_t n = slash ? (size_t)(slash - rest.ptr) : rest.len;
        p.segments[p.n++] = (bw_str){rest.ptr + 1, n - 1};
        rest = (bw_str){rest.ptr + n, rest.len - n};
    }
    const bw_route *r = bw_route_find(s->tables, method, &p, args, &nargs);
    if (!r)
        return get ? BW_WORK_READ : BW_WORK_WRITE;
    return r->write ? BW_WORK_WRITE : r->brief ? BW_WORK_BRIEF : BW_WORK_READ;
}

static void plain(bw_response *out, int status, const char *text)
{
    if (status == 401) { /* RFC 9110, section 11.6.1; MCP clients look for it */
        out->headers[0][0] = "WWW-Authenticate";
        out->headers[0][1] = "Bearer";
        out->nheaders = 1;
    }
    bw_buf_clear(&out->body);
    out->status = status;
    out->content_type = "text/plain";
    bw_buf_puts(&out->body, text);
}

bool bw_gate_authenticate(bw_server *s, bw_ctx *ctx, bw_str api_key,
                          bw_str authorization, bw_key_record *key, bw_response *out)
{
    static const char bearer[] = "Bearer ";
    bw_str presented = api_key;
    if (!api_key.ptr && authorization.ptr && authorization.len >= sizeof bearer - 1 &&
        strncasecmp(authorization.ptr, bearer, sizeof bearer - 1) == 0)
        presented = (bw_str){authorization.ptr + sizeof bearer - 1,
                             authorization.len - sizeof bearer + 1};
    if (!presented.ptr || presented.len == 0) {
        plain(out, 401, "Must provide an API key or an Authorization bearer token");
        return false;
    }
    bw_status st = bw_keys_verify(ctx, s->keys, presented, key);
    if (st == BW_OK)
        return true;
    if (st == BW_EDENIED)
        plain(out, 401, "Invalid API key or JWT");
    else
        plain(out, 503, "Service unavailable");
    return false;
}

/* ---- purpose and safeguards ---- */

static bool words_have(bw_words w, bw_str word)
{
    for (size_t i = 0; i < w.n; i++)
        if (bw_str_eq(w.items[i], word))
            return true;
    return false;
}

/* The words of a comma list that are in the key's list, in the list's (sorted) order.
 */
static bw_status pick_safeguards(bw_ctx *ctx, bw_words claimable, bw_str header,
                                 bw_caller *c)
{
    bw_str *picked = bw_arena_calloc(ctx, claimable.n + 1, sizeof *picked);
    bool *want = bw_arena_calloc(ctx, claimable.n + 1, sizeof *want);
    if (!picked || !want)
        return bw_fail_nomem(ctx);
    while (header.len > 0) {
        const char *comma = memchr(header.ptr, ',', header.len);
        size_t n = comma ? (size_t)(comma - header.ptr) : header.len;
        bw_str word = {header.ptr, n};
        while (word.len > 0 && word.ptr[0] == ' ')
            word = (bw_str){word.ptr + 1, word.len - 1};
        while (word.len > 0 && word.ptr[word.len - 1] == ' ')
            word.len--;
        size_t at = claimable.n;
        for (size_t i = 0; i < claimable.n; i++)
            if (bw_str_eq(claimable.items[i], word))
                at = i;
        if (word.len > 0 && at == claimable.n)
            return bw_fail(ctx, BW_EDENIED,
                           "Forbidden: the key may not claim this safeguard");
        if (word.len > 0)
            want[at] = true;
        size_t skip = comma ? n + 1 : n;
        header = (bw_str){header.ptr + skip, header.len - skip};
    }
    for (size_t i = 0; i < claimable.n; i++)
        if (want[i])
            picked[c->nsafeguards++] = claimable.items[i];
    c->safeguards = picked;
    return BW_OK;
}

/* Without the header all recorded safeguards hold: they are facts, not claims. */
static bw_status fill_caller(bw_ctx *ctx, const bw_gate_input *in, bw_caller *c)
{
    const bw_key_record *k = in->key;
    memset(c, 0, sizeof *c);
    c->principal = (bw_principal){.id = k->principal,
                                  .tenant = k->tenant,
                                  .seat = k->seat,
                                  .clearance = k->clearance,
                                  .roles = k->roles.items,
                                  .nroles = k->roles.n};
    c->key_id = k->id;
    c->default_labels = k->labels;
    c->purpose = k->default_purpose.ptr ? k->default_purpose : BW_STR("");
    if (in->purpose_twice)
        return bw_fail(ctx, BW_EINVALID, "an x-bailiwick header is given twice");
    if (in->purpose.ptr) {
        if (!words_have(k->purposes, in->purpose))
            return bw_fail(ctx, BW_EDENIED,
                           "Forbidden: the key may not claim this purpose");
        c->purpose = in->purpose;
    }
    if (in->safeguards.ptr)
        return pick_safeguards(ctx, k->safeguards, in->safeguards, c);
    c->safeguards = k->safeguards.items;
    c->nsafeguards = k->safeguards.n;
    return BW_OK;
}

/* ---- one request ---- */

/* Version and digests as one. */
static void in_force(bw_server *s, bw_ctx *ctx, uint64_t *version, bw_str *policies,
                     bw_str *facts)
{
    bw_require(pthread_rwlock_rdlock(&s->policy_lock) == 0);
    *version = bw_authority_version(s->authority);
    if (bw_arena_str(ctx, bw_str_c(s->policy_digest), policies) != BW_OK ||
        bw_arena_str(ctx, bw_str_c(s->facts_digest), facts) != BW_OK)
        *policies = *facts = (bw_str){NULL, 0}; /* the request fails on its own */
    bw_require(pthread_rwlock_unlock(&s->policy_lock) == 0);
}

static void open_record(gate_request *g, const bw_gate_input *in)
{
    bw_audit_record *a = &g->record;
    const bw_server *s = g->pub.server;
    bw_audit_record_init(a, in->ctx, "request");
    a->request_id = in->request_id;
    a->method = in->method;
    a->path = in->path;
    a->now_ns = g->pub.now_ns;
    if (in->key) {
        a->key_id = in->key->id;
        a->principal = in->key->principal;
        a->tenant = in->key->tenant;
    } else if (s->config.dev) {
        a->principal = s->dev_caller.principal.id;
        a->tenant = s->dev_caller.principal.tenant;
    }
    if (s->authority) {
        in_force(g->pub.server, in->ctx, &a->policy_version, &a->policy_digest,
                 &a->facts_digest);
        a->catalogue_version = bw_catalogue_version(s->catalogue);
    }
    g->pub.audit = a;
}

static bw_status set_deadline(gate_request *g)
{
    bw_ctx *ctx = g->pub.ctx;
    uint64_t cap_s = g->pub.server->config.request_s, seconds = 0;
    const bw_param *p = bw_request_param(&g->pub, "timeout");
    if (p && g->pub.route->family == BW_FAMILY_QDRANT) {
        for (size_t i = 0; i < p->value.len; i++) {
            char c = p->value.ptr[i];
            if (c < '0' || c > '9' || seconds > 100000000)
                return bw_fail(ctx, BW_EINVALID,
                               "Deserialize error in query parameters: timeout: wants "
                               "whole seconds");
            seconds = seconds * 10 + (uint64_t)(c - '0');
        }
        if (seconds == 0)
            return bw_fail(ctx, BW_EINVALID,
                           "Deserialize error in query parameters: timeout: wants at "
                           "least 1 second");
    }
    if (seconds == 0 || seconds > cap_s)
        seconds = cap_s;
    bw_ctx_set_deadline(ctx, bw_clock_mono_ns() + seconds * 1000000000u);
    return BW_OK;
}

/* Everything before the handler. *http: the status of a failure that the code alone
 * does not tell (403 for purposes and objects). */
static bw_status prepare(gate_request *g, const bw_gate_input *in, int *http)
{
    bw_request *r = &g->pub;
    bw_server *srv = r->server;
    bw_uri_path path;
    bw_status s = bw_uri_path_parse(r->ctx, in->path, srv->config.prefix, &path);
    if (s != BW_OK)
        return s;
    r->route = bw_route_find(srv->tables, in->method, &path, r->args, &r->nargs);
    if (!r->route)
        return bw_fail(r->ctx, BW_ENOTFOUND, "no such path");
    g->record.pattern = r->route->pattern;
    g->record.action = bw_action_name(r->route->action);
    if (r->route->access == BW_ROUTE_OPEN)
        return bw_uri_query_parse(r->ctx, in->query, &r->query, &r->nquery);
    /* A key-less request comes this far only on an open path; a row that calls itself
     * otherwise is not served. */
    if (!in->key && !srv->config.dev)
        return bw_fail(r->ctx, BW_ENOTFOUND, "no such path");
    if (in->key) {
        s = fill_caller(r->ctx, in, &g->caller);
        if (s == BW_EDENIED)
            *http = 403;
        if (s != BW_OK)
            return s;
    } else {
        g->caller = srv->dev_caller;
    }
    r->caller = &g->caller;
    g->record.purpose = g->caller.purpose;
    g->record.safeguards = g->caller.safeguards;
    g->record.nsafeguards = g->caller.nsafeguards;
    g->record.who = &g->caller.principal;
    if (in->refuse_status) {
        *http = in->refuse_status;
        return bw_fail(r->ctx, BW_EINVALID, "%s", in->refuse_text);
    }
    s = bw_uri_query_parse(r->ctx, in->query, &r->query, &r->nquery);
    if (s == BW_EINVALID && r->route->family == BW_FAMILY_QDRANT)
        s = bw_fail(r->ctx, s, "Deserialize error in query parameters: %.180s",
                    bw_ctx_message(r->ctx));
    if (s == BW_OK)
        s = set_deadline(g);
    if (s == BW_OK && r->route->access == BW_ROUTE_COLLECTION && r->nargs > 0)
        g->record.collection = r->args[0];
    return s;
}

static bw_status access_check(gate_request *g, int *http)
{
    bw_request *r = &g->pub;
    bw_status s = BW_OK;
    if (r->route->access == BW_ROUTE_COLLECTION)
        s = bw_gate__object(r, r->route->action, "Collection",
                            r->nargs > 0 ? r->args[0] : BW_STR(""));
    else if (r->route->access == BW_ROUTE_CELL)
        s = bw_gate__object(r, r->route->action, "Node", r->server->config.cell_id);
    if (s == BW_EDENIED)
        *http = 403;
    return s;
}

/* An opening line before a write runs: a crash between act and record leaves a trace,
 * and a log that cannot be written refuses the act itself (threat 30). */
static bw_status begin(gate_request *g)
{
    if (!g->pub.route->write)
        return bw_audit_ready(g->pub.ctx, g->pub.server->audit);
    bw_status s = bw_ctx_may_wait(g->pub.ctx);
    if (s == BW_OK)
        s = bw_audit_reserve(g->pub.ctx, g->pub.server->audit);
    g->record.event = "begin";
    if (s == BW_OK)
        s = bw_audit_write(g->pub.ctx, g->pub.server->audit, &g->record, false);
    g->record.event = "request";
    return s;
}

static void answer_failure(gate_request *g, const bw_gate_input *in, bw_response *out,
                           bw_status s, int http)
{
    bw_request *r = &g->pub;
    bool unknown = !r->route && s == BW_ENOTFOUND;
    bw_route_family family = r->route ? r->route->family : bw_error_family(in->path);
    if (http == 0 && out->status >= 400)
        http = out->status;
    if (http == 0)
        http = bw_error_http_status(s);
    if (http >= 500)
        bw_log(BW_LOG_WARN, "request %016llx: %d %s: %s",
               (unsigned long long)r->request_id, http, bw_status_name(s),
               bw_ctx_message(r->ctx));
    bw_error_response(out, family, http, s, bw_ctx_message(r->ctx),
                      bw_ctx_pointer(r->ctx));
    if (unknown) {
        bw_buf_clear(&out->body);
        out->content_type = "text/plain";
    }
    out->nheaders = 0;
}

static bw_status close_record(gate_request *g, const bw_response *out)
{
    bw_request *r = &g->pub;
    int status = out->status ? out->status : 200;
    bool denial =
        status == 401 || status == 403 || status == 451 || g->record.ndenials > 0;
    bool write = r->route && r->route->write;
    bw_status s = write || denial ? bw_ctx_may_wait(r->ctx) : BW_OK;
    if (s != BW_OK)
        return s;
    if (denial)
        atomic_fetch_add_explicit(&r->server->counters.denied, 1, memory_order_relaxed);
    if (r->route && r->route->access == BW_ROUTE_OPEN)
        return BW_OK; /* health: no principal, no data, no record */
    g->record.status = status;
    if (r->server->authority &&
        bw_authority_version(r->server->authority) != g->record.policy_version)
        in_force(r->server, r->ctx, &g->record.policy_version_end,
                 &g->record.policy_digest_end, &g->record.facts_digest_end);
    s = bw_gate__name_classes(g);
    return s != BW_OK ? s : bw_audit_write(r->ctx, r->server->audit, &g->record, write || denial);
}

/* False: a brief attempt was cut, and nothing is recorded. */
static bool serve(bw_server *s, const bw_gate_input *in, bw_response *out)
{
    gate_request g;
    int http = 0;
    memset(&g, 0, sizeof g);
    g.pub = (bw_request){.ctx = in->ctx,
                         .server = s,
                         .method = in->method,
                         .path = in->path,
                         .body = in->body,
                         .now_ns = bw_clock_unix_ns(),
                         .request_id = in->request_id,
                         .mcp = in->mcp};
    g.key = in->key;
    g.pub.body.ptr = in->body.ptr ? in->body.ptr : "";
    open_record(&g, in);
    bw_status st = prepare(&g, in, &http);
    if (st == BW_OK && g.pub.route->access != BW_ROUTE_OPEN)
        st = begin(&g);
    if (st == BW_OK)
        st = access_check(&g, &http);
    if (st == BW_OK)
        st = g.pub.route->handler(&g.pub, out);
    if (st == BW_OK && out->body.failed)
        st = bw_fail_nomem(in->ctx);
    bool whole = !bw_ctx_was_cut(in->ctx);
    if (st != BW_OK && whole)
        answer_failure(&g, in, out, st, http);
    if (whole) {
        st = close_record(&g, out);
        whole = !bw_ctx_was_cut(in->ctx);
    }
    if (st != BW_OK && whole) { /* no entry, no service */
        atomic_fetch_add_explicit(&s->counters.audit_failures, 1, memory_order_relaxed);
        http = st == BW_ENOSPACE ? 507 : 503;
        bw_error_response(out,
                          g.pub.route ? g.pub.route->family : bw_error_family(in->path),
                          http, st, "the audit log cannot be written", "");
        out->nheaders = 0;
    }
    bw_gate__clear(&g);
    return whole;
}

void bw_gate_serve(bw_server *s, const bw_gate_input *in, bw_response *out)
{
    bw_require(serve(s, in, out));
}

bool bw_gate_serve_brief(bw_server *s, const bw_gate_input *in, uint64_t until_ns,
                         bw_response *out)
{
    bw_arena_mark mark = bw_arena_mark_get(in->ctx);
    bw_ctx_set_brief(in->ctx, until_ns);
    bool whole = serve(s, in, out);
    bw_ctx_set_brief(in->ctx, 0);
    if (whole)
        return true;
    bw_buf_clear(&out->body);
    *out = (bw_response){.status = 0};
    bw_ctx_set_deadline(in->ctx, 0);
    bw_arena_release(in->ctx, mark);
    return false;
}

const bw_param *bw_request_param(const bw_request *r, const char *name)
{
    for (size_t i = 0; i < r->nquery; i++)
        if (bw_str_eq(r->query[i].name, bw_str_c(name)))
            return &r->query[i];
    return NULL;
}

/* ---- refusals before the gate ---- */

void bw_gate_refused(bw_server *s, const char *event, int status)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the rows */
    static struct {
        const char *event;
        int64_t last_ns;
        uint64_t waiting;
    } rows[8];
    uint64_t folded = 0;
    int64_t now = bw_clock_unix_ns();
    bw_require(pthread_mutex_lock(&lock) == 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!rows[i].event)
            rows[i].event = event;
        if (rows[i].event != event)
            continue;
        rows[i].waiting++;
        if (now - rows[i].last_ns >= 1000000000 || now < rows[i].last_ns) {
            folded = rows[i].waiting;
            rows[i].waiting = 0;
            rows[i].last_ns = now;
        }
        break;
    }
    bw_require(pthread_mutex_unlock(&lock) == 0);
    if (folded == 0)
        return;
    bw_ctx *ctx = bw_ctx_new(1 << 20);
    if (!ctx)
        return;
    bw_audit_record r;
    bw_audit_record_init(&r, ctx, event);
    r.status = status;
    r.folded = folded;
    r.now_ns = now;
    if (bw_audit_write(ctx, s->audit, &r, false) != BW_OK)
        atomic_fetch_add_explicit(&s->counters.audit_failures, 1, memory_order_relaxed);
    bw_ctx_free(ctx);
}
