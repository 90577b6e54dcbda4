/* What every handler of the Qdrant surface does before and after its own work: query
 * parameters, body, permitted sets, and the words of an engine's failure.
 *
 * A collection that is not there and one that the caller may not see end in the same
 * line (bw_qdrant__no_collection), so they have the same bytes. */
#include "qdrant.h"

#include <stdlib.h>

/* ---- query parameters (`timeout` is the gate's) ---- */

static bw_status bad_query(bw_qdrant_call *c, const char *name, const char *what)
{
    return bw_fail(c->p.ctx, BW_EINVALID,
                   "Deserialize error in query parameters: %s: %s", name, what);
}

static bw_status query_bool(bw_qdrant_call *c, const char *name, bool *out)
{
    const bw_param *v = bw_request_param(c->r, name);
    if (!v)
        return BW_OK;
    if (!bw_str_is(v->value, "true") && !bw_str_is(v->value, "false"))
        return bad_query(c, name, "expected true or false");
    *out = bw_str_is(v->value, "true");
    return BW_OK;
}

static bool digits(bw_str s, uint32_t max, uint32_t *out)
{
    uint64_t n = 0;
    if (s.len == 0 || s.len > 9)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(s.ptr[i] - '0');
    }
    *out = (uint32_t)n;
    return n >= 1 && n <= max;
}

/* On one node these are checked and have no further effect. */
static bw_status query_words(bw_qdrant_call *c)
{
    const bw_param *o = bw_request_param(c->r, "ordering");
    if (o && !bw_str_is(o->value, "weak") && !bw_str_is(o->value, "medium") &&
        !bw_str_is(o->value, "strong"))
        return bad_query(c, "ordering", "expected weak, medium or strong");
    const bw_param *k = bw_request_param(c->r, "consistency");
    uint32_t n;
    if (k && !bw_str_is(k->value, "majority") && !bw_str_is(k->value, "quorum") &&
        !bw_str_is(k->value, "all") && !digits(k->value, UINT32_MAX, &n))
        return bad_query(c, "consistency",
                         "expected an integer, majority, quorum or all");
    return BW_OK;
}

bw_status bw_qdrant__begin(bw_qdrant_call *c, bw_request *r, bw_response *response,
                           bool has_body)
{
    *c = (bw_qdrant_call){.r = r, .response = response, .p = {.ctx = r->ctx}};
    bw_status s = query_bool(c, "wait", &c->wait);
    if (s == BW_OK)
        s = query_bool(c, "explain", &c->explain);
    if (s == BW_OK)
        s = query_words(c);
    return s == BW_OK && has_body ? bw_qdrant__body(&c->p, r->body, &c->body) : s;
}

bw_status bw_qdrant__end(bw_qdrant_call *c, bw_status status)
{
    if (status == BW_OK)
        return BW_OK;
    if (status == BW_EINVALID && c->p.status)
        c->response->status = c->p.status;
    bw_buf_clear(&c->response->body);
    return status;
}

/* ---- collections and permitted sets ---- */

bw_status bw_qdrant__no_collection(bw_ctx *ctx, bw_str name)
{
    return bw_fail(ctx, BW_ENOTFOUND, "Not found: Collection `%.*s` doesn't exist!",
                   bw_qdrant__cut(name, 200), name.ptr);
}

bw_status bw_qdrant__permit_named(bw_qdrant_call *c, bw_str name,
                                  bw_collection_info *info, bw_permit *out)
{
    bw_status s = bw_gate_permit(c->r, name, BW_ACTION_QUERY, info, out);
    return s == BW_ENOTFOUND ? bw_qdrant__no_collection(c->p.ctx, name) : s;
}

bw_status bw_qdrant__permit(bw_qdrant_call *c, bw_action action, bw_permit *out)
{
    bw_str name = c->r->args[0];
    bw_status s = bw_gate_permit(c->r, name, action, &c->info, out);
    if (s == BW_ENOTFOUND)
        return bw_qdrant__no_collection(c->p.ctx, name);
    c->p.info = s == BW_OK ? &c->info : NULL;
    return s;
}

bw_status bw_qdrant__access(bw_qdrant_call *c, bw_access *out)
{
    bw_str name = c->r->args[0];
    bw_status s = bw_gate_access(c->r, name, &c->info, out);
    if (s == BW_ENOTFOUND)
        return bw_qdrant__no_collection(c->p.ctx, name);
    c->p.info = s == BW_OK ? &c->info : NULL;
    return s;
}

static int class_cmp(const void *a, const void *b)
{
    return bw_class_id_cmp(a, b);
}

/* The looked-up collections' permits as one: a decision is about a class, not about the
 * collection that it was found in, so their union permits nothing new. */
static bw_status lookup_permit(bw_qdrant_call *c, bw_permit *out)
{
    bw_class_id *all = NULL;
    size_t n = 0;
    for (uint32_t i = 0; i < c->p.nlookups; i++) {
        bw_permit one;
        bw_collection_info info;
        bw_status s = bw_qdrant__permit_named(c, c->p.lookups[i], &info, &one);
        if (s != BW_OK)
            return s;
        all = bw_arena_grow(c->p.ctx, all, n * sizeof *all, (n + one.n) * sizeof *all);
        if (!all)
            return bw_fail_nomem(c->p.ctx);
        if (one.n)
            memcpy(all + n, one.classes, one.n * sizeof *all);
        n += one.n;
    }
    if (n)
        qsort(all, n, sizeof *all, class_cmp);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || bw_class_id_cmp(&all[kept - 1], &all[i]) != 0)
            all[kept++] = all[i];
    *out = (bw_permit){all, kept};
    return BW_OK;
}

bw_status bw_qdrant__read(bw_qdrant_call *c, bw_permit *permit, bw_read *out)
{
    *out = (bw_read){.tenant = c->info.tenant,
                     .name = c->info.name,
                     .permit = permit,
                     .now_ns = c->r->now_ns,
                     .explain = c->explain};
    if (c->p.nlookups == 0)
        return BW_OK;
    bw_permit *lookup = bw_arena_alloc(c->p.ctx, sizeof *lookup);
    if (!lookup)
        return bw_fail_nomem(c->p.ctx);
    out->lookup_permit = lookup;
    return lookup_permit(c, lookup);
}

bw_status bw_qdrant__begin_counted(bw_qdrant_call *c, bw_request *r,
                                   bw_response *response, bw_permit *permit,
                                   bw_read *read, uint64_t *points)
{
    bw_status s = bw_qdrant__begin(c, r, response, false);
    if (s == BW_OK)
        s = bw_qdrant__permit(c, BW_ACTION_QUERY, permit);
    if (s == BW_OK)
        s = bw_qdrant__read(c, permit, read);
    if (s != BW_OK)
        return s;
    s = bw_count(r->ctx, bw_server_engine(r->server), read, NULL, points);
    return s == BW_OK ? s : bw_qdrant__engine_failed(c, s);
}

/* ---- the engine's failures ---- */

bw_status bw_qdrant__engine_failed(bw_qdrant_call *c, bw_status status)
{
    const char *prefix = status == BW_ENOTFOUND ? "Not found: "
                         : status == BW_EINVALID || status == BW_ECONFLICT
                             ? "Wrong input: "
                         : status == BW_ETIMEOUT ? "Timeout: "
                                                 : NULL;
    const char *why = bw_ctx_message(c->p.ctx);
    if (!prefix || strncmp(why, prefix, strlen(prefix)) == 0)
        return status;
    why = bw_arena_printf(c->p.ctx, "%s", why);
    return why ? bw_fail(c->p.ctx, status, "%s%s", prefix, why)
               : bw_fail_nomem(c->p.ctx);
}
